//! The section *Place* of the system prompt: facts about the machine and project at the start of a session.

use std::path::Path;

use crate::config;
use agent_protocol::control::PermissionMode;
use agent_protocol::disk::{read_small_text, repository::linked_directory};
use agent_protocol::event::{Event, EventBody, SandboxStatus};
use agent_protocol::prompt::{Prompt, Prompts};

/// The last line is the permission mode.
pub(super) fn place_section(
    root: &Path,
    sandbox: &SandboxStatus,
    mode: PermissionMode,
    prompts: &Prompts,
) -> String {
    const PLAN_MODE: Prompt = Prompt::named("plan/mode.md");
    let about_mode = match mode {
        PermissionMode::Plan => format!(". {}", prompts.text(PLAN_MODE).trim_end()),
        _ => String::new(),
    };
    let has_namespaces = sandbox.backend.starts_with("namespaces");
    let private = match (sandbox.network.as_str(), has_namespaces) {
        ("loopback", _) => " (localhost and /tmp are private to this session)",
        (_, true) => " (/tmp is private to this session)",
        _ => "",
    };
    format!(
        "# Place\nProject root: {}\nDate: {}\nGit branch: {}\nPlatform: {}\nSandbox of commands: {}, network {}{private}\n\
         Permission mode: {}{about_mode}",
        root.display(),
        config::now().date(),
        git_branch(root).as_deref().unwrap_or("none"),
        std::env::consts::OS,
        sandbox.backend,
        sandbox.network,
        mode.as_str(),
    )
}

/// On resume; `None` if the facts have not changed. The mode is part of the next request.
pub(super) fn change_notice(live: &[&Event], now: &str) -> Option<EventBody> {
    let recorded = live.iter().rev().find_map(|event| match &event.body {
        EventBody::SessionStarted(recorded) | EventBody::SessionResumed { now: recorded, .. } => {
            Some(&recorded.place)
        }
        _ => None,
    })?;
    let is_recorded = |line: &&str| recorded.lines().any(|recorded| recorded == *line);
    let facts = now.lines().filter(|line| !line.starts_with("Permission mode:"));
    let changed: Vec<&str> = facts.filter(|line| !is_recorded(line)).collect();
    let text = format!(
        "<system-reminder>\nThe session was resumed.\n{}\n</system-reminder>",
        changed.join("\n")
    );
    (!changed.is_empty()).then_some(EventBody::Feedback { text, files: Vec::new() })
}

/// The git branch that is checked out, or the beginning of the commit's hash; `None` outside a repository.
pub fn git_branch(root: &Path) -> Option<String> {
    let git = root.ancestors().map(|dir| dir.join(".git")).find(|git| git.exists())?;
    let git = match read_small_text(&git) {
        // A linked worktree or submodule names its git directory, possibly relative to that file.
        Ok(link) => linked_directory(&git, link.as_bytes())?,
        Err(_) => git,
    };
    let head = read_small_text(&git.join("HEAD")).ok()?;
    let head = head.trim();
    let branch = head.strip_prefix("ref: refs/heads/").map(str::to_owned);
    branch.or_else(|| head.get(..8).map(str::to_owned))
}
