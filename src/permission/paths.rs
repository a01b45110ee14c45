//! Places in a project that are special: what the agent must not write, and what holds secrets.

/// Folders of `.agent/` whose files may be changed when a person agrees.
const OWN_OPEN: &[&str] = &["agents", "commands", "prompts", "skills"];

/// Names of files that hold secrets, besides keys; one `*` stands for anything.
const SECRET_FILES: &[&str] = &[
    ".env",
    ".env.*",
    ".netrc",
    ".pgpass",
    ".git-credentials",
    ".npmrc",
    ".pypirc",
    ".htpasswd",
    "credentials",
    "credentials.json",
    "credentials.toml",
    "service-account*.json",
    "service_account*.json",
];

/// Those of them that hold a key or a certificate and nothing that anybody searches for.
const KEY_FILES: &[&str] = &[
    "*.pem",
    "*.key",
    "*.p12",
    "*.pfx",
    "*.jks",
    "*.keystore",
    "*.kdbx",
    "id_rsa",
    "id_dsa",
    "id_ecdsa",
    "id_ed25519",
];

/// Those of them that are made to be shown.
const SAMPLES: &[&str] =
    &[".env.example", ".env.sample", ".env.template", ".env.dist", ".env.defaults"];

/// How a place is guarded against changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Guarded {
    /// Never changed.
    Never,
    /// Changed when a person agrees.
    Ask,
}

/// How this path is guarded: `.git` at any depth, and the agent's own folder.
pub(super) fn guarded(path: &str) -> Option<Guarded> {
    let mut parts = path.split('/');
    while let Some(part) = parts.next() {
        match part {
            ".git" => return Some(Guarded::Never),
            ".agent" => {
                return match parts.next() {
                    Some(folder) if OWN_OPEN.contains(&folder) => Some(Guarded::Ask),
                    _ => Some(Guarded::Never),
                };
            }
            _ => {}
        }
    }
    None
}

/// The file's name, or its place, says that it holds secrets.
pub(super) fn is_secret(path: &str) -> bool {
    fits(path, SECRET_FILES) && !fits(path, SAMPLES) || holds_a_key(path)
}

/// The file's name says that it holds a key.
pub(super) fn holds_a_key(path: &str) -> bool {
    fits(path, KEY_FILES)
}

fn fits(path: &str, names: &[&str]) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path).to_ascii_lowercase();
    names.iter().any(|pattern| match pattern.split_once('*') {
        Some((begin, end)) => name.strip_prefix(begin).is_some_and(|rest| rest.ends_with(end)),
        None => name == *pattern,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_repository_and_the_agents_own_files_are_guarded() {
        for (path, expected) in [
            ("src/a.rs", None),
            (".gitignore", None),
            (".git/config", Some(Guarded::Never)),
            ("vendor/x/.git/hooks/a", Some(Guarded::Never)),
            (".agent/config.toml", Some(Guarded::Never)),
            (".agent/skills/a/SKILL.md", Some(Guarded::Ask)),
            (".agent", Some(Guarded::Never)),
        ] {
            assert_eq!(guarded(path), expected, "{path}");
        }
    }

    #[test]
    fn secrets_are_known_by_their_names() {
        for path in [
            ".env",
            "a/.env.local",
            "tls/server.key",
            "A.PEM",
            ".ssh/id_ed25519",
            "service-account.json",
            "service-account-prod.json",
        ] {
            assert!(is_secret(path), "{path}");
        }
        for path in [
            ".env.example",
            "src/env.rs",
            "keys.rs",
            "environment",
            "id_rsa.pub",
            "service-accounts.md",
        ] {
            assert!(!is_secret(path), "{path}");
        }
    }
}
