//! The sandbox rights of one command, as differences from the session's profile.

use super::judge::{self, Command, Finding, FindingClass, PathFacts, SandboxRight};
use super::shell::Word;
use super::{CommandLine, Policy, RuleOutcome};
use agent_protocol::control::PermissionMode;
use agent_protocol::tool::{CommandRights, Effect};

/// Git commands that write its configuration themselves, without text that the model chose.
const CONFIG_WRITING_COMMANDS: &[&str] =
    &["checkout", "switch", "branch", "pull", "push", "worktree", "submodule", "sparse-checkout"];

const OTHER_REPOSITORY_OPTIONS: &[&str] = &[
    "-c",
    "-C",
    "--config-env",
    "--exec",
    "--git-dir",
    "--receive-pack",
    "--upload-pack",
    "--work-tree",
];

impl Policy {
    /// The rights of a permitted call. A right is granted to a line by the answer of the user or of
    /// a hook, by mode full, or by rules if each of its commands is allowed by one or only reads.
    pub fn command_rights(
        &self,
        tool: &str,
        effect: &Effect,
        is_approved: bool,
        facts: &dyn PathFacts,
    ) -> CommandRights {
        let query = self.build_query(tool, effect, facts);
        let (Some((line, findings)), Effect::Command { directory, .. }) = (&query.command, effect)
        else {
            return CommandRights { read_only: effect.is_read_only(), ..CommandRights::default() };
        };
        let is_full = self.mode == PermissionMode::Full;
        let is_read_only_mode = self.mode.is_read_only();
        let is_granted =
            is_full || is_approved || self.is_allowed_by_rules(tool, (line, directory), findings);
        let grants = |right: SandboxRight| {
            let is_it =
                |finding: &Finding| finding.class == FindingClass::NeedsApproval(Some(right));
            is_granted && findings.iter().any(is_it)
        };
        CommandRights {
            read_only: is_read_only_mode || line.is_read_only(),
            network: grants(SandboxRight::Network),
            git_config: !is_read_only_mode
                && (grants(SandboxRight::GitConfig)
                    // A command elsewhere could be in another repository.
                    || directory == "." && line.only_runs_git(CONFIG_WRITING_COMMANDS)),
            unsandboxed: !is_read_only_mode && grants(SandboxRight::Outside),
        }
    }

    fn is_allowed_by_rules(
        &self,
        tool: &str,
        (line, directory): (&CommandLine, &str),
        findings: &[Finding],
    ) -> bool {
        if !line.is_fully_parsed() {
            let finding = self.strictest_finding(findings.iter());
            let bare = super::Rule::is_bare;
            let outcome = self.rule_outcome(tool, bare, bare, finding, None);
            return matches!(outcome, RuleOutcome::Allow(_));
        }
        (0..line.commands().len()).all(|at| {
            let outcome = self.command_outcome(tool, (line, directory), findings, at);
            matches!(outcome, RuleOutcome::Allow(_) | RuleOutcome::ReadOnly)
        })
    }
}

impl CommandLine {
    /// Whether each command of the line is one of these git commands or only reads. Redirections to
    /// files and assignments are not permitted, nor is another repository, whose programs could
    /// write the configuration of this one.
    fn only_runs_git(&self, commands: &[&str]) -> bool {
        let is_listed =
            |word: &&Word| word.literal_text().is_some_and(|word| commands.contains(&word));
        let transfers = |word: &Word| matches!(word.text.as_str(), "pull" | "push" | "submodule");
        let is_it = |command: &&Command| {
            command.name() == "git"
                && command.assignments.is_empty()
                && !command.writes_file()
                && OTHER_REPOSITORY_OPTIONS.iter().all(|option| {
                    !command.arguments().iter().any(|word| word.text.starts_with(option))
                })
                && command.operands().next().as_ref().is_some_and(is_listed)
                && !(command.operands().next().is_some_and(transfers)
                    && command.operands().nth(1).is_some_and(|word| word.text.contains(['/', '.'])))
        };
        let reads = |command: &Command| {
            !matches!(command.name(), "cd" | "pushd") && judge::only_reads(command, self.text())
        };
        self.is_fully_parsed()
            && self.commands().iter().any(|command| is_it(&command))
            && self.commands().iter().all(|command| is_it(&command) || reads(command))
    }
}
