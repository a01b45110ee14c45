//! A PostgreSQL server of the test's own, on a socket in a temporary directory.

use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use agent_learning::store::{PostgresStore, StoreError};

use super::{NOBODY, has, is_root, signal, wait_for};

pub(crate) struct Postgres {
    dir: tempfile::TempDir,
    server: Option<Child>,
}

impl Postgres {
    /// Starts a server with an empty database. Reports a skip and returns `None` without its programs.
    pub(crate) fn start(test: &str) -> Option<Self> {
        if !has("initdb", test) || !has("postgres", test) {
            return None;
        }
        let dir = tempfile::Builder::new().prefix("pg").tempdir_in("/tmp").unwrap();
        if is_root() {
            std::os::unix::fs::chown(dir.path(), Some(NOBODY), Some(NOBODY)).unwrap();
        }
        let mut own = Self { dir, server: None };
        let args = ["-A", "trust", "-U", "postgres", "-N", "-E", "UTF8", "--locale=C", "-D"];
        let made = own.command("initdb").args(args).arg(own.data()).status().unwrap();
        assert!(made.success());
        own.restart();
        Some(own)
    }

    /// As root refuses to be served, `nobody` runs the programs there.
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.dir.path()).stdout(Stdio::null()).stderr(Stdio::null());
        if is_root() {
            command.uid(NOBODY).gid(NOBODY);
        }
        command
    }

    fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    /// Starts the server, and waits until it answers.
    #[expect(clippy::zombie_processes, reason = "a server that is replaced has ended")]
    pub(crate) fn restart(&mut self) {
        let start = || {
            let args = ["-c", "listen_addresses=", "-c", "max_connections=120", "-F", "-k"];
            let mut command = self.command("postgres");
            command.args(args).arg(self.dir.path()).arg("-D").arg(self.data()).spawn().unwrap()
        };
        let server = std::cell::RefCell::new(start());
        wait_for(|| {
            let is_over = server.borrow_mut().try_wait().unwrap().is_some();
            if is_over {
                // What a killed server has left kept it from starting.
                server.replace(start());
            }
            match PostgresStore::prepare(&self.url()) {
                Ok(_) => true,
                Err(StoreError::Unreachable(_)) => false,
                Err(error) => panic!("{error}"),
            }
        });
        self.server = Some(server.into_inner());
    }

    /// Ends it at once.
    pub(crate) fn kill(&mut self) {
        if let Some(mut server) = self.server.take() {
            signal(server.id(), "KILL");
            server.wait().unwrap();
        }
    }

    /// The URL of the database.
    pub(crate) fn url(&self) -> String {
        format!("postgres:///postgres?user=postgres&host={}", self.dir.path().display())
    }

    /// Runs statements; returns the first column of the last rows.
    pub(crate) fn sql(&self, sql: &str) -> Vec<String> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let connected = tokio_postgres::connect(&self.url(), tokio_postgres::NoTls).await;
            let (client, connection) = connected.unwrap();
            let mut others = tokio::task::JoinSet::new();
            others.spawn(connection);
            let mut messages = Vec::new();
            // One by one: several at once would be one transaction.
            for statement in sql.split(';') {
                messages = client.simple_query(statement).await.unwrap();
            }
            let rows = messages.iter().filter_map(|message| match message {
                tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
                _ => None,
            });
            rows.collect()
        })
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        if let Some(mut server) = self.server.take() {
            // A fast shutdown, which ends the processes of the connections, too.
            signal(server.id(), "INT");
            _ = server.wait();
        }
    }
}
