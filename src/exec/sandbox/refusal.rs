//! What a command's complaints have to do with the box: which path was refused, and how to allow it.

use std::path::{Path, PathBuf};

use super::Network;
use crate::disk::canonical_prefix;

/// How programs say that they were refused; each system error with its name and its words.
const REFUSED: &[&str] = &[
    "Read-only file system",
    "read-only file system",
    "EROFS",
    "[Errno 30]",
    "Permission denied",
    "permission denied",
    "EACCES",
    "[Errno 13]",
    "Operation not permitted",
    "operation not permitted",
    "EPERM",
    "[Errno 1]",
    "Invalid cross-device link",
];
/// So they say of what is a mount in the box.
const BUSY: &[&str] = &["resource busy", "EBUSY", "[Errno 16]"];
/// How git says that the sandbox's `safe.bareRepository` is in the way.
const NO_BARE: &str = "cannot use bare repository";
/// How they say that there is no network.
const NO_NETWORK: &[&str] = &[
    "Could not resolve host",
    "Could not resolve proxy",
    "Temporary failure in name resolution",
    "Name or service not known",
    "failed to lookup address",
    "Network is unreachable",
    "network is unreachable",
    "Couldn't connect to server",
    "Failed to create socket",
    "EAI_AGAIN",
    "ENETUNREACH",
    "getaddrinfo",
    "dial tcp",
    "dial udp",
    "socket: Operation not permitted",
    "socket: operation not permitted",
    "_socket.socket",
    "in socket.py",
    "self.sock = ",
    "spurious network error",
];
/// What is looked at of stderr: its last lines say why.
const LINES: usize = 200;

/// What the box lets through.
pub(super) struct View<'a> {
    /// Nothing but the private temporary folder is written.
    pub(super) read_only: bool,
    /// Namespaces hold: what is not writable says that it is read-only.
    pub(super) namespaces: bool,
    pub(super) writable: &'a [PathBuf],
    pub(super) hidden: &'a [PathBuf],
    pub(super) protected: &'a [PathBuf],
    /// Folders of the project's that nobody could look into.
    pub(super) closed: &'a [PathBuf],
    pub(super) network: Network,
}

impl View<'_> {
    /// Why commands can not move this path nor take it away: it, or something in it, is a mount.
    fn why_it_stays(&self, path: &Path) -> Option<String> {
        let shown = path.display();
        if self.writable.iter().any(|place| place == path) {
            return Some(format!(
                "{shown} was given to commands as a folder of its own: they write in it, and can neither move nor \
                 remove it"
            ));
        }
        let covered = [self.protected, self.hidden, self.writable].into_iter().flatten();
        let held = covered.into_iter().find(|held| held.starts_with(path) && held.exists())?;
        Some(if held == path {
            is_protected(path)
        } else {
            format!(
                "{shown} can not be moved or removed by commands: the sandbox keeps {} where it is; what else is in it \
                 can be",
                held.display()
            )
        })
    }
}

fn is_protected(path: &Path) -> String {
    format!(
        "{} is protected: .git is written by commands of git's alone: in a call of their own, one for each repository, with \
         folders written out (git -C FOLDER, no pattern and no variable); its settings and hooks, .agent and start-up \
         files by the user",
        path.display()
    )
}

/// The first refusal that was the box's, and whether the network was missed.
pub(super) fn explain(stderr: &str, directory: &Path, view: &View<'_>) -> Option<String> {
    let lines: Vec<&str> = stderr.lines().rev().take(LINES).collect();
    let refused = lines
        .iter()
        .rev()
        .filter(|line| REFUSED.iter().chain(BUSY).any(|words| line.contains(words)))
        .find_map(|line| {
            let words = without_speaker(line);
            candidates(words, directory).find_map(|path| why(&path, words, view))
        });
    let network = match view.network {
        Network::Off => "commands have no network",
        Network::Loopback => "commands have no network but a loopback of their own",
        Network::On => "",
    };
    let misses = lines.iter().any(|line| NO_NETWORK.iter().any(|words| line.contains(words)));
    let network = (!network.is_empty() && misses).then(|| {
        format!(
            "{network} in the sandbox; a person can allow it with --allow 'Bash(…)' for a network \
             command, or with --set sandbox.network=on"
        )
    });
    let bare = lines.iter().any(|line| line.contains(NO_BARE)).then(|| {
        "where git's commands may write .git they take no repository without a working tree that another command of the \
         line could have made: name it in a call of its own"
            .to_owned()
    });
    let all: Vec<String> = refused.into_iter().chain(network).chain(bare).collect();
    (!all.is_empty()).then(|| all.join("; "))
}

/// A complaint without the shell's own name and line before it: that is a path, and not the one.
fn without_speaker(line: &str) -> &str {
    let Some((speaker, rest)) = line.split_once("bash: ") else { return line };
    if speaker.contains(' ') {
        return line;
    }
    let said = match rest.strip_prefix("line ").and_then(|rest| rest.split_once(": ")) {
        Some((number, said)) if number.bytes().all(|byte| byte.is_ascii_digit()) => said,
        Some(_) | None => rest,
    };
    // With the colon before it, as others put it behind their names.
    &line[line.len() - said.len() - ": ".len()..]
}

/// What may be a path in a line of complaint.
fn candidates<'a>(line: &'a str, directory: &'a Path) -> impl Iterator<Item = PathBuf> + 'a {
    let quoted = line.split(['\'', '"', '`', '‘', '’', '“', '”']).skip(1).step_by(2);
    let between_colons = line.split(": ").skip(1);
    let words =
        line.split_whitespace().map(|word| word.trim_matches([',', ':', '(', ')', '\'', '"']));
    quoted
        .chain(between_colons)
        .chain(words.filter(|word| word.starts_with('/') || word.starts_with(".git/")))
        .filter(|text| !text.is_empty() && !text.contains(['\0', '\n']))
        .map(|text| canonical_prefix(&directory.join(text)))
}

/// Why the box refused this path; `None` where it did not.
fn why(path: &Path, line: &str, view: &View<'_>) -> Option<String> {
    let shown = path.display();
    let below = |all: &[PathBuf]| all.iter().any(|root| path.starts_with(root));
    if below(view.closed) {
        return Some(format!(
            "{shown} could not be looked into when the session began, and stays as it is: the user can open it (chmod \
             -R u+rwX) and begin again"
        ));
    }
    if BUSY.iter().any(|words| line.contains(words)) {
        return view.namespaces.then(|| view.why_it_stays(path)).flatten();
    }
    if below(view.hidden) {
        return Some(format!(
            "{shown} belongs to the user's secret stores or to the agent, and no command in the sandbox can read it"
        ));
    }
    let is_told_so = line.contains("ead-only file system") || line.contains("EROFS");
    let is_name = path.exists() || !path.to_string_lossy().contains(' ');
    if view.read_only && below(view.writable) && is_name && (is_told_so || !view.namespaces) {
        return Some(format!("{shown} is not written now: commands change nothing at present"));
    }
    let is_git = path.components().any(|component| component.as_os_str() == ".git");
    if below(view.protected) || is_git && !below(view.writable) {
        return Some(is_protected(path));
    }
    let is_private =
        ["/tmp", "/var/tmp", "/dev", "/proc", "/sys"].iter().any(|own| path.starts_with(own));
    // Only a folder that is there was meant by it, and only one that the user has access to.
    let folder = path.parent()?;
    if below(view.writable) || is_private || !folder.is_dir() {
        return None;
    }
    let could = |path: &Path| rustix::fs::access(path, rustix::fs::Access::WRITE_OK).is_ok();
    let could = if path.exists() { could(path) } else { could(folder) };
    could.then(|| {
        let folder = if path.is_dir() { path } else { folder };
        format!(
            "{shown} lies outside of what commands in the sandbox may write; a person can allow it \
             with --add-dir {folder} or sandbox.extra_writable = [\"{folder}\"]",
            folder = folder.display()
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(stderr: &str, expected: Option<&str>) {
        let dir = tempfile::TempDir::new_in(env!("CARGO_MANIFEST_DIR")).expect("a folder");
        let root = dir.path().canonicalize().expect("a folder");
        for folder in
            ["project/.git", "project/inner/.git", "project/given", "home/.ssh", "home/other"]
        {
            std::fs::create_dir_all(root.join(folder)).expect("a folder");
        }
        let view = View {
            read_only: false,
            namespaces: true,
            writable: &[root.join("project"), root.join("project/given")],
            hidden: &[root.join("home/.ssh")],
            protected: &[root.join("project/.git"), root.join("project/inner/.git")],
            closed: &[],
            network: Network::Off,
        };
        let stderr = stderr.replace("ROOT", &root.display().to_string());
        let said = explain(&stderr, &root.join("project"), &view);
        let said = said.map(|text| text.replace(&root.display().to_string(), "ROOT"));
        let is_right = match (&said, expected) {
            (Some(said), Some(expected)) => said.starts_with(expected),
            (said, expected) => said.is_none() && expected.is_none(),
        };
        assert!(is_right, "{stderr}\n{said:?}\nexpected {expected:?}");
    }

    #[test]
    fn a_refusal_of_the_box_is_told_with_its_path() {
        let outside = Some("ROOT/home/x lies outside of what commands in the sandbox may write");
        check("touch: cannot touch '../home/x': Read-only file system", outside);
        check("bash: line 1: ../home/x: Read-only file system", outside);
        check("bash: line 1: ROOT/home/x: Permission denied", outside);
        check("mkdir: cannot create directory ‘ROOT/home/x’: Permission denied", outside);
        check("PermissionError: [Errno 30] Read-only file system: 'ROOT/home/x'", outside);
        check("error: EROFS: read-only file system, open 'ROOT/home/x'", outside);
        check("fatal: x\ncp: cannot create ROOT/home/x: Read-only file system\nmore", outside);
        check(
            "fatal: Unable to create 'ROOT/project/.git/index.lock': Read-only file system",
            Some("ROOT/project/.git/index.lock is protected"),
        );
        check(
            "fatal: Unable to create 'ROOT/home/.git/worktrees/a/index.lock': Read-only file system",
            Some("ROOT/home/.git/worktrees/a/index.lock is protected"),
        );
        check(
            "cat: ROOT/home/.ssh/id_rsa: Permission denied",
            Some("ROOT/home/.ssh/id_rsa belongs to the user's secret stores or to the agent"),
        );
    }

    #[test]
    fn what_can_not_be_moved_is_told_with_what_holds_it() {
        check(
            "mv: cannot move 'inner' to 'x': Device or resource busy",
            Some(
                "ROOT/project/inner can not be moved or removed by commands: the sandbox keeps ROOT/project/inner/.git",
            ),
        );
        check(
            "OSError: [Errno 16] Device or resource busy: 'given' -> 'x'",
            Some("ROOT/project/given was given to commands as a folder of its own"),
        );
        check(
            "mv: cannot move '.git' to 'x': Device or resource busy",
            Some("ROOT/project/.git is protected"),
        );
        check("umount: ROOT/home/other: target is busy: Device or resource busy", None);
    }

    #[test]
    fn what_the_box_did_not_refuse_is_not_put_down_to_it() {
        check("bash: line 1: ./x: Permission denied", None);
        check("ls: cannot open directory '/nowhere/at/all': Permission denied", None);
        check("error: Permission denied is a phrase", None);
        check("", None);
        check("all good in ROOT/home/x", None);
    }

    #[test]
    fn a_missing_network_is_told() {
        let told = Some("commands have no network in the sandbox");
        check("curl: (6) Could not resolve host: example.com", told);
        check("dial tcp: lookup proxy.golang.org: no such host", told);
    }
}
