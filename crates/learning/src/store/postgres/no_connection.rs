//! Stands for the connection in a program that was built without PostgreSQL.

use serde_json::Value;

use crate::store::StoreError;

pub(super) enum Connection {}

impl Connection {
    pub(super) fn open(_: &str) -> Result<Self, StoreError> {
        Err(StoreError::Team("this agent was built without the feature postgres".to_owned()))
    }

    pub(super) fn query(&self, _: &str, _: &Value) -> Result<Vec<Value>, StoreError> {
        match *self {}
    }

    pub(super) fn execute(&self, _: &str) -> Result<(), StoreError> {
        match *self {}
    }
}
