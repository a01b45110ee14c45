//! A hash as hexadecimal text.

use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};

use super::Hash;

pub(super) fn serialize<S: Serializer>(hash: &Hash, serializer: S) -> Result<S::Ok, S::Error> {
    hash.to_hex().as_str().serialize(serializer)
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Hash, D::Error> {
    let text = String::deserialize(deserializer)?;
    Hash::from_hex(text).map_err(serde::de::Error::custom)
}
