//! Explains refusals of the sandbox: which path or right was refused, and how the user can allow it.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::{Network, SandboxFacts, SandboxProfile};
use agent_protocol::disk::canonical_prefix;
use agent_protocol::tool::CommandRights;

/// The texts of EROFS, EACCES, EPERM, EBUSY and EXDEV in most languages.
const REFUSAL_TEXTS: &[&str] = &[
    "ead-only file system",
    "ermission denied",
    "peration not permitted",
    BUSY,
    "ross-device link",
];
const BUSY: &str = "resource busy";
const NO_NETWORK_TEXTS: &[&str] = &[
    "Could not resolve",
    "Temporary failure in name resolution",
    "Name or service not known",
    "failed to lookup address",
    "etwork is unreachable",
    "EAI_AGAIN",
    "ENETUNREACH",
    "dial tcp: lookup",
];
const MAX_LINES: usize = 200;

/// A path with the rule that denies it.
#[derive(Debug)]
pub(super) struct ClosedPath {
    pub(super) path: PathBuf,
    pub(super) reason: String,
}

/// The first refusal, and the missing network. `closed`: paths that rules deny.
pub(super) fn explain_refusal(
    stderr: &str,
    directory: &Path,
    profile: &SandboxProfile,
    facts: &SandboxFacts,
    closed: &[ClosedPath],
    rights: CommandRights,
) -> Option<String> {
    let why = |path: &Path, line: &str| {
        refusal_reason(path, line.contains(BUSY), profile, facts, closed, rights)
    };
    let lines: Vec<&str> = stderr.lines().rev().take(MAX_LINES).collect();
    let has = |line: &str, words: &[&str]| words.iter().any(|words| line.contains(words));
    let path =
        lines.iter().rev().filter(|line| has(line, REFUSAL_TEXTS)).find_map(|line| {
            paths_in_line(line, directory).iter().find_map(|path| why(path, line))
        });
    let is_missing = |line: &&str| {
        has(line, NO_NETWORK_TEXTS)
            || profile.network == Network::Off && line.contains("ocket: Operation not permitted")
    };
    let state = match profile.network {
        Network::Loopback => Some("the network beyond localhost"),
        Network::Off => Some("network"),
        Network::On => None,
    };
    let network = state.filter(|_| lines.iter().any(is_missing)).map(|state| {
        format!("{state} is off in the sandbox; allow it with --allow 'Bash(…)' or sandbox.network")
    });
    let all: Vec<String> = path.into_iter().chain(network).collect();
    (!all.is_empty()).then(|| all.join("; "))
}

/// Quoted words, and words with a slash, as paths.
fn paths_in_line(line: &str, directory: &Path) -> Vec<PathBuf> {
    let quoted = line.split(['\'', '"', '`', '‘', '’', '“', '”']).skip(1).step_by(2);
    // `bash: line 1: FILE: Read-only file system`: the nearest path to the error comes first.
    let parts: Vec<&str> = line.split(": ").skip(1).collect();
    let between_colons = parts.iter().rev().skip(1).copied();
    let words = line.split_whitespace().map(|word| word.trim_matches([',', ':', '(', ')']));
    quoted
        .chain(between_colons)
        .chain(words.filter(|word| word.contains('/')))
        .filter(|text| !text.is_empty())
        .map(|text| canonical_prefix(&directory.join(text)))
        .collect()
}

fn refusal_reason(
    path: &Path,
    is_busy: bool,
    profile: &SandboxProfile,
    facts: &SandboxFacts,
    closed: &[ClosedPath],
    rights: CommandRights,
) -> Option<String> {
    let shown = path.display();
    // A directory with a protected path cannot be moved either.
    let applies =
        |it: &&PathBuf| path.starts_with(it) || is_busy && it.starts_with(path) && it.exists();
    let exists = path.symlink_metadata().is_ok();
    let folder = path.parent()?;
    let is = |what: &str| Some(format!("{shown} is {what}"));
    if let Some(closed) = closed.iter().find(|it| applies(&&it.path)) {
        return Some(format!("{shown} is closed to commands by {}", closed.reason));
    }
    if profile.hidden.iter().any(|it| applies(&it)) {
        return is("hidden in the sandbox: credentials, or the agent's own state");
    }
    let read_only = profile.read_only.iter().find(applies);
    if read_only.is_some_and(|it| facts.git.settings.contains(it)) {
        return is(
            "read-only in the sandbox: hooks and configuration of git; a user can allow the command with \
             --allow 'Bash(…)'",
        );
    }
    let holds_mount = is_busy && profile.writable.iter().any(|it| it.starts_with(path));
    if read_only.is_some() || holds_mount {
        return is("read-only in the sandbox and cannot be moved or removed");
    }
    if !exists && !folder.is_dir() {
        return None;
    }
    let could = if exists { path } else { folder };
    let is_writable = rustix::fs::access(could, rustix::fs::Access::WRITE_OK).is_ok();
    if profile.writable.iter().any(|place| path.starts_with(place)) {
        return owner_reason(could, is_writable, facts);
    }
    // Without the sandbox it would be refused as well.
    if !is_writable {
        return None;
    }
    if rights.read_only {
        return is(
            "not writable: this command runs read-only; the user can allow changes with /mode auto-edit or \
             --permission-mode auto-edit",
        );
    }
    let folder = if path.is_dir() { path } else { folder }.display();
    Some(format!(
        "{shown} is outside the directories that commands can write; allow it with --add-dir {folder} or \
         sandbox.extra_writable = [\"{folder}\"]"
    ))
}

/// The right that commands lack for a file of another user; `is_writable`: the agent has it.
fn owner_reason(path: &Path, is_writable: bool, facts: &SandboxFacts) -> Option<String> {
    let metadata = path.symlink_metadata().ok()?;
    let (owner, own) = (metadata.uid(), rustix::process::getuid());
    let is_foreign = owner != own.as_raw();
    // The kernel asks for the user and the group.
    let is_covered =
        facts.owners.users.contains(&owner) && facts.owners.groups.contains(&metadata.gid());
    let lacks_right = !is_writable || own.is_root() && !is_covered;
    let who = if is_writable {
        "commands of this session have no right (CAP_DAC_OVERRIDE) to change it; Edit and Write can"
    } else {
        "this process has no right (CAP_DAC_OVERRIDE) to change it"
    };
    let shown = path.display();
    (is_foreign && lacks_right).then(|| format!("{shown} belongs to user {owner}, and {who}"))
}

#[cfg(test)]
mod tests {
    use super::super::GitPaths;
    use super::*;

    fn check(stderr: &str, expected: Option<&str>) {
        let dir = tempfile::TempDir::new_in(env!("CARGO_MANIFEST_DIR")).expect("a directory");
        let root = dir.path().canonicalize().expect("a directory");
        for folder in ["project/.git/hooks", "project/.agent", "home/.ssh", "home/other"] {
            std::fs::create_dir_all(root.join(folder)).expect("a directory");
        }
        let profile = SandboxProfile {
            writable: vec![root.join("project"), root.join("project/.git")],
            read_only: [".agent", ".git/config", ".git/hooks"]
                .map(|name| root.join("project").join(name))
                .into(),
            hidden: vec![root.join("home/.ssh")],
            ..SandboxProfile::default()
        };
        let settings = ["config", "hooks"].map(|name| root.join("project/.git").join(name)).into();
        let git = GitPaths { settings, ..GitPaths::default() };
        let facts = SandboxFacts { git, ..SandboxFacts::default() };
        let stderr = stderr.replace("ROOT", &root.display().to_string());
        let closed = [ClosedPath {
            path: root.join("project/src"),
            reason: "the user's words “no”".to_owned(),
        }];
        let rights = CommandRights::default();
        let why =
            explain_refusal(&stderr, &root.join("project"), &profile, &facts, &closed, rights);
        let why = why.map(|text| text.replace(&root.display().to_string(), "ROOT"));
        let is_right = match (&why, expected) {
            (Some(why), Some(expected)) => why.starts_with(expected),
            (why, expected) => why.is_none() && expected.is_none(),
        };
        assert!(is_right, "{stderr}\n{why:?}\nexpected {expected:?}");
    }

    #[test]
    fn refused_path_is_reported_with_the_setting_that_allows_it() {
        let outside =
            Some("ROOT/home/x is outside the directories that commands can write; allow it");
        check("touch: cannot touch '../home/x': Read-only file system", outside);
        check("bash: line 1: ../home/x: Read-only file system", outside);
        check("bash: line 1: ROOT/home/x: Permission denied", outside);
        check("PermissionError: [Errno 30] Read-only file system: 'ROOT/home/x'", outside);
        check("error: EROFS: read-only file system, open 'ROOT/home/x'", outside);
        check("cat: ROOT/home/.ssh/id: Permission denied", Some("ROOT/home/.ssh/id is hidden"));
        check(
            "error: could not lock config file .git/config: Read-only file system",
            Some("ROOT/project/.git/config is read-only in the sandbox: hooks and configuration"),
        );
        check(
            "mv: cannot move '.git' to 'x': Device or resource busy",
            Some("ROOT/project/.git is read-only in the sandbox: hooks and configuration"),
        );
        check(
            "bash: line 1: src/a.txt: Read-only file system",
            Some("ROOT/project/src/a.txt is closed to commands by the user's words “no”"),
        );
        check(
            "rm: cannot remove '.agent/x': Read-only file system",
            Some("ROOT/project/.agent/x is"),
        );
    }

    #[test]
    fn unrelated_failures_get_no_sandbox_hint() {
        check("bash: line 1: ./x: Permission denied", None);
        check("ls: cannot open directory '/nowhere/at/all': Permission denied", None);
        check("error: Permission denied is a phrase", None);
        check("all good in ROOT/home/x", None);
    }

    #[test]
    fn missing_network_is_explained() {
        let off = Some("network is off in the sandbox; allow it with --allow 'Bash(…)'");
        check("curl: (6) Could not resolve host: example.com", off);
        check("dial tcp: lookup proxy.golang.org: no such host", off);
    }
}
