//! The environment of commands: the user's, without secrets, a terminal and a pager.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use agent_protocol::disk;
use agent_protocol::mask::{Masker, is_secret_name};

const ADDED_VARIABLES: &[(&str, &str)] = &[
    ("TERM", "dumb"),
    ("NO_COLOR", "1"),
    ("CI", "true"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("PAGER", "cat"),
    ("AGENT", "1"),
];

/// Variables with files that a shell reads before the command.
const STARTUP_FILES: &[&str] = &["BASH_ENV", "ENV"];

const HARMLESS_NAMES: &[&str] =
    &["GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_AUTHOR_DATE", "SSH_AUTH_SOCK", "XAUTHORITY"];

/// Identifies the command of a process; a nested command appends its own mark.
pub(super) const MARK_VARIABLE: &str = "AGENT_COMMAND";

#[derive(Debug)]
pub(super) struct Environment(Vec<(OsString, OsString)>);

impl Environment {
    pub(super) fn new(
        variables: impl IntoIterator<Item = (OsString, OsString)>,
        secret_names: &[String],
    ) -> Self {
        // Finds a key of a well-known format under any name.
        let masker = Masker::default();
        let has_shape = |value: &OsStr| {
            value.to_str().is_some_and(|value| matches!(masker.mask(value), Cow::Owned(_)))
        };
        let is_removed = |name: &OsStr, value: &OsStr| {
            let name = &*name.to_string_lossy();
            // The path of a secret (a key file, a socket) is not secret.
            let is_path = || Path::new(value).is_absolute() && Path::new(value).exists();
            let is_secret = is_secret_name(name) && !HARMLESS_NAMES.contains(&name) && !is_path();
            let is_proxy = name.to_ascii_lowercase().ends_with("_proxy");
            is_secret
                || (!is_proxy && (has_password(value) || has_shape(value)))
                || STARTUP_FILES.contains(&name)
                || secret_names.iter().any(|secret| secret == name)
        };
        let mut kept: Vec<_> =
            variables.into_iter().filter(|(name, value)| !is_removed(name, value)).collect();
        for (name, value) in ADDED_VARIABLES {
            kept.retain(|(kept, _)| kept != name);
            kept.push((name.into(), value.into()));
        }
        Self(kept)
    }

    pub(super) fn variables(&self, mark: &str) -> Vec<(OsString, OsString)> {
        let mut variables = self.0.clone();
        let mut marks = OsString::new();
        if let Some(outer) = self.get(MARK_VARIABLE) {
            marks.push(outer);
            marks.push(":");
        }
        marks.push(mark);
        variables.retain(|(name, _)| name != MARK_VARIABLE);
        variables.push((MARK_VARIABLE.into(), marks));
        variables
    }

    /// Searches PATH, without the directories in these places (`.venv/bin`).
    pub(super) fn find(&self, program: &str, but_not: &[PathBuf]) -> Option<PathBuf> {
        std::env::split_paths(self.get("PATH")?).map(|folder| folder.join(program)).find(|path| {
            path.is_absolute() && path.is_file() && !disk::passes_through(path, but_not)
        })
    }

    pub(super) fn get(&self, name: &str) -> Option<&OsStr> {
        let (_, value) = self.0.iter().find(|(variable, _)| variable == name)?;
        Some(value)
    }
}

fn has_password(value: &OsStr) -> bool {
    let value = value.to_string_lossy();
    let Some((_, rest)) = value.split_once("://") else { return false };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or(rest);
    let user = authority.rsplit_once('@').map(|(user, _)| user);
    user.and_then(|user| user.split_once(':')).is_some_and(|(_, password)| !password.is_empty())
}
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_removed_from_the_environment_by_name_and_by_shape() {
        let given = [
            ("EDITOR", "vim"),
            ("SESSION", "plasma"),
            ("STRIPE", "sk_live_abcdefghijklmnop1234"),
            ("PAYMENTS", "sk_live_abcdefghijklmnop1234"),
            ("BW_SESSION", "abc"),
            ("OP_SESSION_work", "abc"),
            ("CI_JOB_JWT", "abc"),
            ("SLACK_WEBHOOK", "https://hooks.example.com/T0/B0/x"),
            ("DATABASE_URL", "postgres://u:hunter2@h/db"),
            ("https_proxy", "http://u:p@proxy:1"),
        ];
        let given = given.map(|(name, value)| (OsString::from(name), OsString::from(value)));
        let kept = Environment::new(given, &[]);
        let names: Vec<_> = kept.0.iter().map(|(name, _)| name.to_string_lossy()).collect();
        let own = ADDED_VARIABLES.iter().map(|(name, _)| *name);
        let expected: Vec<_> =
            ["EDITOR", "SESSION", "https_proxy"].into_iter().chain(own).collect();
        assert_eq!(names, expected);
    }
}
