//! The section *Place* of the system prompt: what a session knows of its surroundings when it starts.

use std::path::Path;

use crate::disk::read_small_text;
use crate::protocol::control::PermissionMode;
use crate::protocol::event::{Body, Event, Sandbox};

/// The section, one fact per line. The line of the permission mode is the last.
pub(super) fn section(root: &Path, sandbox: &Sandbox, mode: PermissionMode) -> String {
    let localhost = match sandbox.network.as_str() {
        "loopback" => " (localhost is private to this session)",
        _ => "",
    };
    format!(
        "# Place\nProject root: {}\nDate: {}\nGit branch: {}\nPlatform: {}\nSandbox of commands: {}, network {}{localhost}\n\
         Permission mode: {}",
        root.display(),
        jiff::Zoned::now().date(),
        branch(root).as_deref().unwrap_or("none"),
        std::env::consts::OS,
        sandbox.backend,
        sandbox.network,
        mode.as_str(),
    )
}

/// What the model is told when a session is resumed and its surroundings have changed; `None` if it knows all of it. The
/// mode is told with the next request.
pub(super) fn changed(live: &[&Event], now: &str) -> Option<Body> {
    let known = live.iter().rev().find_map(|event| match &event.body {
        Body::SessionStarted(known) | Body::SessionResumed { now: known, .. } => Some(&known.place),
        _ => None,
    })?;
    let is_known = |line: &&str| known.lines().any(|known| known == *line);
    let facts = now.lines().filter(|line| !line.starts_with("Permission mode:"));
    let changed: Vec<&str> = facts.filter(|line| !is_known(line)).collect();
    let text = format!(
        "<system-reminder>\nThe session was resumed.\n{}\n</system-reminder>",
        changed.join("\n")
    );
    (!changed.is_empty()).then_some(Body::Feedback { text, files: Vec::new() })
}

/// The git branch that is checked out, or the start of the commit; `None` outside a repository.
pub fn branch(root: &Path) -> Option<String> {
    let git = root.ancestors().map(|dir| dir.join(".git")).find(|git| git.exists())?;
    let git = match read_small_text(&git) {
        // A linked worktree or submodule names its git directory, perhaps relative to that file.
        Ok(link) => git.parent()?.join(link.strip_prefix("gitdir:")?.trim()),
        Err(_) => git,
    };
    let head = read_small_text(&git.join("HEAD")).ok()?;
    let head = head.trim();
    let branch = head.strip_prefix("ref: refs/heads/").map(str::to_owned);
    branch.or_else(|| head.get(..8).map(str::to_owned))
}
