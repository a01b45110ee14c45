//! `agent trace replay`: each scenario is recorded with the built binary, the project is removed, and every
//! reproducible result of the replay is equal.

mod commands;
mod files;
mod kernel;
mod user;

use serde_json::Value;

use crate::support::{Done, Test};

/// A replay.
pub(crate) struct Replay {
    pub(crate) done: Done,
    pub(crate) page: Value,
}

impl Replay {
    /// Of the latest session of the test.
    #[track_caller]
    pub(crate) fn of(test: &Test) -> Self {
        let log = test.log();
        let id = log.parent().unwrap().file_name().unwrap().to_str().unwrap().to_owned();
        let mut command = test.command(&["trace", "replay", &id, "--format", "json"]);
        let done = Done::new(&command.current_dir(test.home()).output().unwrap());
        let page = serde_json::from_str(&done.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}{}", done.stdout, done.stderr));
        Self { done, page }
    }

    /// The results whose comparison gave this.
    pub(crate) fn with(&self, result: &str) -> Vec<&Value> {
        let rows = self.page["results"].as_array().unwrap();
        rows.iter().filter(|row| row["result"] == result).collect()
    }

    /// Every result is equal, but for the calls that begin like this, which are not reproducible.
    #[track_caller]
    pub(crate) fn expect_equal_but(self, not_reproducible: &[&str]) -> Self {
        let page = serde_json::to_string_pretty(&self.page).unwrap();
        assert_eq!(self.done.code, Some(0), "{page}\n{}", self.done.stderr);
        assert_eq!(self.page["ended_early"], Value::Null, "{page}");
        assert!(self.with("different").is_empty() && self.with("not_reached").is_empty(), "{page}");
        let others: Vec<&str> =
            self.with("not_reproducible").iter().map(|row| row["what"].as_str().unwrap()).collect();
        assert_eq!(others.len(), not_reproducible.len(), "{page}");
        for (other, expected) in others.iter().zip(not_reproducible) {
            assert!(other.starts_with(expected), "{page}");
        }
        assert!(!self.with("equal").is_empty(), "{page}");
        self
    }
}

/// Replays the latest session after its project was removed; every result is equal.
#[track_caller]
pub(crate) fn expect_equal_without_project(test: &Test) {
    // (The directory that the test runs in stays.)
    for entry in std::fs::read_dir(test.root()).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.is_symlink() {
            std::fs::remove_dir_all(&path).unwrap();
        } else {
            std::fs::remove_file(&path).unwrap();
        }
    }
    Replay::of(test).expect_equal_but(&[]);
    assert_eq!(std::fs::read_dir(test.root()).unwrap().count(), 0, "nothing is written there");
}

/// The error codes of the results of the latest session.
pub(crate) fn codes(test: &Test) -> Vec<String> {
    let finished = test.events_of("tool.finished");
    let codes = finished.iter().filter_map(|event| event["envelope"]["error"]["code"].as_str());
    codes.map(str::to_owned).collect()
}
