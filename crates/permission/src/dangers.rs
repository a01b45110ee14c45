//! Names what a call would delete, do outside the sandbox, take from a remote place, or what cannot be undone.

use std::collections::BTreeSet;

use super::judge::{self, Command, Finding, FindingClass, JudgeContext, SandboxRight};
use super::shell::Word;
use super::{PathFacts, PathKind, Policy};
use agent_protocol::pluralize;
use agent_protocol::tool::Effect;

/// Further paths are counted.
const NAMED_PATHS: usize = 4;

impl Policy {
    /// The dangers of a call, each in a few words for the user, such as `deletes shop/ (22 files)`.
    pub fn describe_dangers(&self, effect: &Effect, facts: &dyn PathFacts) -> Vec<String> {
        let Effect::Command { directory, background, .. } = effect else { return Vec::new() };
        let Some((line, findings)) = super::findings_of(effect, facts) else { return Vec::new() };
        let context = JudgeContext {
            text: line.text(),
            directory,
            is_background: *background,
            functions: line.functions(),
            facts,
        };
        let mut dangers = Vec::new();
        for (at, command) in line.commands().iter().enumerate() {
            let own = || findings.iter().filter(move |finding| finding.at == at);
            let permanent = own().find(|finding| {
                finding.class == FindingClass::NeedsApproval(None)
                    || finding.class == FindingClass::Destructive && !self.has_checkpoints
            });
            if self.is_sandboxed && own().any(|finding| finding.needs(SandboxRight::Outside)) {
                dangers.push(format!("runs {} outside the sandbox", command.name()));
            }
            if let Some(reason) = judge::remote_loss(command, &context) {
                let effect = effect_in(reason);
                dangers.push(pushed_branch(command, &effect).unwrap_or(effect));
            }
            let is_destructive = own().any(super::is_destructive);
            let lost = if is_destructive { describe_lost(command, &context) } else { Vec::new() };
            dangers.extend(lost.iter().cloned());
            match permanent {
                Some(_) if !lost.is_empty() => dangers.push("cannot be undone".to_owned()),
                Some(Finding { reason, .. }) => dangers.push(effect_in(reason)),
                None => {}
            }
        }
        let mut seen = BTreeSet::new();
        dangers.retain(|danger| seen.insert(danger.clone()));
        dangers
    }
}

/// `it deletes files (for example …)` becomes `deletes files`.
fn effect_in(reason: &str) -> String {
    let reason = reason.split(" (").next().unwrap_or(reason);
    reason.strip_prefix("it ").unwrap_or(reason).to_owned()
}

fn describe_lost(command: &Command, context: &JudgeContext<'_>) -> Vec<String> {
    let mut paths = judge::lost_paths(command, context);
    paths.retain(|path| context.facts.kind(path) != PathKind::Missing);
    let n_named = if paths.len() > NAMED_PATHS { 1 } else { paths.len() };
    let named = paths[..n_named].iter().map(|path| describe_path(command, path, context.facts));
    let mut lost: Vec<String> = named.collect();
    if paths.len() > n_named {
        let others = pluralize((paths.len() - n_named) as u64, "path");
        lost[0].push_str(&format!(" and {others} more"));
    }
    lost
}

fn describe_path(command: &Command, path: &str, facts: &dyn PathFacts) -> String {
    let verb = match command.name() {
        "mv" => "replaces or moves",
        "truncate" | "shred" => "overwrites",
        _ => "deletes",
    };
    match facts.count_files(path) {
        Some(n) => {
            let files = pluralize(n as u64, "file");
            format!("{verb} {}/ ({files})", path.trim_end_matches('/'))
        }
        None => format!("{verb} {path}"),
    }
}

/// `overwrites origin/main`; `None` if the line does not name one branch.
fn pushed_branch(command: &Command, effect: &str) -> Option<String> {
    let (verb, _) = effect.split_once(" branches")?;
    let words: Option<Vec<&str>> = command.operands().skip(1).map(Word::literal_text).collect();
    let [remote, branch] = words?[..] else { return None };
    let branch = branch.rsplit(':').next().unwrap_or(branch).trim_start_matches('+');
    Some(format!("{verb} {remote}/{branch}"))
}
