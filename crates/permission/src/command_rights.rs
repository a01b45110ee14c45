//! The sandbox rights of one command, as differences from the session's profile.

use super::judge::{self, Command, Finding, FindingClass, PathFacts, SandboxRight};
use super::shell::Word;
use super::{CommandLine, Policy, Rule};
use agent_protocol::control::{PermissionMode, Ruling};
use agent_protocol::tool::{CommandRights, Effect, GitConfigAccess};

impl Policy {
    /// The rights of a permitted call. A right is granted to a line by the answer of the user or of
    /// a hook, by mode full, or by rules to the commands that they name; the rest of the line has to be harmless then.
    pub fn command_rights(
        &self,
        tool: &str,
        effect: &Effect,
        is_approved: bool,
        facts: &dyn PathFacts,
    ) -> CommandRights {
        let query = super::build_query(tool, effect, facts);
        let (Some((line, findings)), Effect::Command { directory, .. }) = (&query.command, effect)
        else {
            return CommandRights { read_only: effect.is_read_only(), ..CommandRights::default() };
        };
        let is_granted_as_whole = self.mode == PermissionMode::Full || is_approved;
        let is_read_only_mode = self.mode.is_read_only();
        let grants = |right: SandboxRight| {
            findings.iter().any(|finding| finding.needs(right))
                && (is_granted_as_whole
                    || self.rules_grant(right, tool, (line, directory), findings, facts))
        };
        let is_config_granted = grants(SandboxRight::GitConfig);
        let read_only = is_read_only_mode || line.is_read_only();
        CommandRights {
            read_only,
            network: grants(SandboxRight::Network),
            git_config: match is_config_granted {
                _ if read_only => GitConfigAccess::Protected,
                true => GitConfigAccess::Granted,
                false if line.only_runs_git() => GitConfigAccess::Compared,
                false => GitConfigAccess::Protected,
            },
            unsandboxed: !is_read_only_mode && grants(SandboxRight::Outside),
        }
    }

    /// A right that the line needs, and that rules do not grant it.
    pub(super) fn withheld_right(
        &self,
        tool: &str,
        line: (&CommandLine, &str),
        findings: &[Finding],
        facts: &dyn PathFacts,
    ) -> Option<SandboxRight> {
        let rights = [SandboxRight::Outside, SandboxRight::Network];
        rights.into_iter().find(|right| {
            findings.iter().any(|finding| finding.needs(*right))
                && !self.rules_grant(*right, tool, line, findings, facts)
        })
    }

    /// Whether rules grant the right to a line: to each of its commands, unless it is harmless.
    pub(super) fn rules_grant(
        &self,
        right: SandboxRight,
        tool: &str,
        (line, directory): (&CommandLine, &str),
        findings: &[Finding],
        facts: &dyn PathFacts,
    ) -> bool {
        let finding = self.strictest_finding(findings.iter());
        let by_bare = self.rule_outcome(tool, Rule::is_bare, Rule::is_bare, finding, None);
        if matches!(by_bare, Some(Ruling::Allow(_))) {
            return true;
        }
        let commands = line.commands();
        // In a loop, after an assignment or in a substitution, a word may hold anything.
        line.is_fully_parsed()
            && line.runs_as_written()
            && !line.has_substitution()
            && commands.iter().enumerate().all(|(at, command)| {
                let is_named = findings.iter().any(|it| it.at == at && it.needs(right))
                    && command.opens_no_file()
                    && command.words.iter().all(Word::is_plain)
                    && matches!(
                        self.command_outcome(tool, (line, directory), findings, at),
                        Some(Ruling::Allow(_))
                    );
                is_named || judge::is_harmless_beside(command, directory, facts)
            })
    }
}

impl Finding {
    pub(super) fn needs(&self, right: SandboxRight) -> bool {
        self.class == FindingClass::NeedsApproval(Some(right))
    }
}

impl CommandLine {
    /// Whether the line only runs git, and commands that only read. What git writes is compared afterwards.
    fn only_runs_git(&self) -> bool {
        let is_git = |command: &Command| {
            command.name() == "git" && command.is_system_program() && !command.writes_file()
        };
        self.is_fully_parsed()
            && self.commands().iter().any(is_git)
            && self.commands().iter().all(|it| is_git(it) || judge::only_reads(it, self.text()))
    }
}
