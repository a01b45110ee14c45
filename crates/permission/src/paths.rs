//! Paths with a special meaning: those that file tools must not write, and files with secrets.

/// A `*` in a name matches anything.
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

const SAMPLE_FILES: &[&str] =
    &[".env.example", ".env.sample", ".env.template", ".env.dist", ".env.defaults"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PathProtection {
    Never,
    /// Changed if the user agrees.
    Ask,
}

/// In `.claude`: what decides which programs run outside the sandbox, and hooks themselves.
const PROTECTED_CLAUDE_ENTRIES: [&str; 3] = ["settings.json", "settings.local.json", "hooks"];

/// `.git` is protected at any depth, also `.agent/` and hooks.
pub(super) fn path_protection(path: &str) -> Option<PathProtection> {
    let mut parts = path.split('/');
    while let Some(part) = parts.next() {
        match part {
            ".git" => return Some(PathProtection::Never),
            ".agent" => {
                return match parts.next() {
                    Some("config.toml") | None => Some(PathProtection::Never),
                    Some(_) => Some(PathProtection::Ask),
                };
            }
            ".claude"
                if parts.next().is_some_and(|part| PROTECTED_CLAUDE_ENTRIES.contains(&part)) =>
            {
                return Some(PathProtection::Ask);
            }
            _ => {}
        }
    }
    None
}

/// Whether the file's name indicates secrets.
pub fn is_secret_file(path: &str) -> bool {
    matches_file_name(path, SECRET_FILES) && !matches_file_name(path, SAMPLE_FILES)
}

fn matches_file_name(path: &str, names: &[&str]) -> bool {
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
            (".git/config", Some(PathProtection::Never)),
            ("vendor/x/.git/hooks/a", Some(PathProtection::Never)),
            (".agent/config.toml", Some(PathProtection::Never)),
            (".agent/skills/a/SKILL.md", Some(PathProtection::Ask)),
            (".agent", Some(PathProtection::Never)),
            (".claude/settings.json", Some(PathProtection::Ask)),
            (".claude/hooks/check.sh", Some(PathProtection::Ask)),
            (".claude/skills/a/SKILL.md", None),
        ] {
            assert_eq!(path_protection(path), expected, "{path}");
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
            assert!(is_secret_file(path), "{path}");
        }
        for path in [
            ".env.example",
            "src/env.rs",
            "keys.rs",
            "environment",
            "id_rsa.pub",
            "service-accounts.md",
        ] {
            assert!(!is_secret_file(path), "{path}");
        }
    }
}
