//! Paths with a special meaning: those that file tools must not write, and files with secrets.

/// Names of files that contain secrets; one `*` matches anything.
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

/// Names of samples without secrets.
const SAMPLES: &[&str] =
    &[".env.example", ".env.sample", ".env.template", ".env.dist", ".env.defaults"];

/// How a path is protected from file tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Guarded {
    /// It is never changed.
    Never,
    /// It is changed if the user agrees.
    Ask,
}

/// In `.claude`: what decides which programs run outside the sandbox, and hooks themselves.
const HOOKS: [&str; 3] = ["settings.json", "settings.local.json", "hooks"];

/// The protection of a path: `.git` at any depth, `.agent/`, and hooks.
pub(super) fn guarded(path: &str) -> Option<Guarded> {
    let mut parts = path.split('/');
    while let Some(part) = parts.next() {
        match part {
            ".git" => return Some(Guarded::Never),
            ".agent" => {
                return match parts.next() {
                    Some("config.toml") | None => Some(Guarded::Never),
                    Some(_) => Some(Guarded::Ask),
                };
            }
            ".claude" if parts.next().is_some_and(|part| HOOKS.contains(&part)) => {
                return Some(Guarded::Ask);
            }
            _ => {}
        }
    }
    None
}

/// The file's name indicates secrets.
pub fn is_secret(path: &str) -> bool {
    fits(path, SECRET_FILES) && !fits(path, SAMPLES)
}

fn fits(path: &str, names: &[&str]) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path).as_bytes();
    // (Called for every file of a search: most patterns fail at their first character.)
    let begins = |pattern: &&&str| match (pattern.as_bytes().first(), name.first()) {
        (Some(b'*'), _) => true,
        (Some(wanted), Some(first)) => wanted.eq_ignore_ascii_case(first),
        (Some(_) | None, _) => false,
    };
    names.iter().filter(begins).any(|pattern| match pattern.split_once('*') {
        Some((begin, end)) => {
            name.len() >= pattern.len() - 1
                && name[..begin.len()].eq_ignore_ascii_case(begin.as_bytes())
                && name[name.len() - end.len()..].eq_ignore_ascii_case(end.as_bytes())
        }
        None => name.eq_ignore_ascii_case(pattern.as_bytes()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn git_and_agent_files_are_protected() {
        for (path, expected) in [
            ("src/a.rs", None),
            (".gitignore", None),
            (".git/config", Some(Guarded::Never)),
            ("vendor/x/.git/hooks/a", Some(Guarded::Never)),
            (".agent/config.toml", Some(Guarded::Never)),
            (".agent/skills/a/SKILL.md", Some(Guarded::Ask)),
            (".agent", Some(Guarded::Never)),
            (".claude/settings.json", Some(Guarded::Ask)),
            (".claude/hooks/check.sh", Some(Guarded::Ask)),
            (".claude/skills/a/SKILL.md", None),
        ] {
            assert_eq!(guarded(path), expected, "{path}");
        }
    }

    #[test]
    fn secret_files_are_recognised_by_their_names() {
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
