//! A connection to PostgreSQL: statements with one JSON parameter, whose rows are JSON.

use std::error::Error as _;
use std::net::IpAddr;
use std::time::Duration;

use rustls::ClientConfig;
use rustls_platform_verifier::BuilderVerifierExt as _;
use serde_json::Value;
use tokio::runtime::Runtime;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Config, NoTls};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::store::StoreError;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(10);

pub(super) struct Connection {
    /// Its end ends the connection.
    runtime: Runtime,
    client: Client,
}

impl Connection {
    pub(super) fn open(url: &str) -> Result<Self, StoreError> {
        let wrong = |why: String| StoreError::Team(format!("the team's database: {why}"));
        let mut config: Config = url.parse().map_err(|error| {
            let why = describe(&error);
            wrong(format!("team.database is no address like postgres://user@host/name ({why})"))
        })?;
        config.application_name("agent");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| wrong(error.to_string()))?;
        let is_local = |host: &Host| match host {
            Host::Unix(_) => true,
            Host::Tcp(name) => {
                name == "localhost" || name.parse::<IpAddr>().is_ok_and(|it| it.is_loopback())
            }
        };
        let (hosts, addresses) = (config.get_hosts(), config.get_hostaddrs());
        let is_local = !hosts.is_empty() && hosts.iter().all(is_local) && addresses.is_empty();
        // With the crate's default, an attacker on the network can turn encryption off.
        if !url.contains("sslmode=") {
            config.ssl_mode(if is_local { SslMode::Disable } else { SslMode::Require });
        }
        let client = if config.get_ssl_mode() == SslMode::Disable {
            let (client, connection) = wait_for(&runtime, CONNECT_TIMEOUT, config.connect(NoTls))?;
            runtime.spawn(connection);
            client
        } else {
            // The certificate is always verified, as the system does.
            let provider = rustls::crypto::ring::default_provider().into();
            let tls = ClientConfig::builder_with_provider(provider)
                .with_safe_default_protocol_versions()
                .and_then(|builder| builder.with_platform_verifier())
                .map_err(|error| wrong(error.to_string()))?
                .with_no_client_auth();
            let connecting = config.connect(MakeRustlsConnect::new(tls));
            let (client, connection) = wait_for(&runtime, CONNECT_TIMEOUT, connecting)?;
            runtime.spawn(connection);
            client
        };
        Ok(Self { runtime, client })
    }

    /// `$1` are the values; the first column is JSON.
    pub(super) fn query(&self, sql: &str, values: &Value) -> Result<Vec<Value>, StoreError> {
        let values: [(&(dyn ToSql + Sync), Type); 1] = [(values, Type::JSONB)];
        let query = self.client.query_typed(sql, &values);
        let rows = wait_for(&self.runtime, STATEMENT_TIMEOUT, query)?;
        rows.iter().map(|row| row.try_get(0).map_err(|error| store_error(&error))).collect()
    }

    /// Statements without values.
    pub(super) fn execute(&self, sql: &str) -> Result<(), StoreError> {
        wait_for(&self.runtime, STATEMENT_TIMEOUT, self.client.batch_execute(sql))
    }
}

fn wait_for<T>(
    runtime: &Runtime,
    limit: Duration,
    work: impl Future<Output = Result<T, tokio_postgres::Error>>,
) -> Result<T, StoreError> {
    match runtime.block_on(async { tokio::time::timeout(limit, work).await }) {
        Ok(done) => done.map_err(|error| store_error(&error)),
        Err(_) => {
            let limit = limit.as_secs();
            Err(StoreError::Unreachable(format!("it did not answer within {limit} s")))
        }
    }
}

fn store_error(error: &tokio_postgres::Error) -> StoreError {
    let why = describe(error);
    match error.code().map(|code| code.code()) {
        Some("25006" | "42501") => StoreError::Team(format!(
            "the team's database may not be written ({why}); its owner has to grant it"
        )),
        // The connection, resources, and the end of the server.
        None => StoreError::Unreachable(why),
        Some(code) if ["08", "53", "57"].contains(&&code[..2]) => StoreError::Unreachable(why),
        // The data themselves.
        Some(code) if ["22", "23", "54"].contains(&&code[..2]) => StoreError::Rejected(why),
        Some(_) => StoreError::Team(format!("the team's database: {why}")),
    }
}

/// The cause has the reason.
fn describe(error: &tokio_postgres::Error) -> String {
    let cause = error.as_db_error().map(|it| it.message().to_owned());
    cause.or_else(|| error.source().map(ToString::to_string)).unwrap_or_else(|| error.to_string())
}
