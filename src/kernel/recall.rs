//! What earlier sessions know, asked at three moments: at a task's start, before a call, after a failure.
//!
//! The answers come from memory and at once. Without any, not one token and not one event is more. What helped
//! before is tried by the kernel only as far as `reflect` decides it and the gate permits it; else it is told.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;

use super::Kernel;
use super::evaluate::{Round, attach};
use super::turn::Turn;
use crate::context::memory_reminder;
use crate::protocol::Object;
use crate::protocol::envelope::{Envelope, ErrorClass, ErrorCode};
use crate::protocol::event::Body;
use crate::protocol::message::ToolCall;
use crate::protocol::prompt::{Prompt, prompt};
use crate::protocol::recall::{Done, FailedAs, MemoryRecalled, Moment, Recall, Recalled, Remedy};
use crate::protocol::reflection::SuggestedAction;
use crate::protocol::signature;
use crate::protocol::tool::Effect;
use crate::protocol::view::view;
use crate::registry::Answer;

/// In one turn a model is warned with so many items.
const MAX_WARNED: usize = 4;
/// Of a search that found no more files than this each was looked for.
const MAX_FOUND: usize = 5;

/// The memory of earlier sessions.
#[derive(Clone)]
pub struct Memory {
    /// Who knows.
    pub recall: Arc<dyn Recall>,
    /// A task is told so many tokens unasked, at most.
    pub max_tokens: u64,
}

/// What a turn has made of it.
#[derive(Debug, Default)]
pub(super) struct Used {
    /// Items whose fix was tried in vain: not tried again.
    pub(super) failed: BTreeSet<String>,
    /// So many items the model was warned with.
    pub(super) n_warned: usize,
    /// What it was offered after a failure, in words: said once.
    pub(super) offered: BTreeSet<String>,
}

/// An item that the model is told of below the result of a call.
pub(super) struct Known {
    pub(super) call: String,
    pub(super) item: Recalled,
}

impl Kernel {
    /// A task begins: the few items that fit it stand in L2 where nothing was sent yet, else behind the
    /// task. What was shown stays shown, and is not said again.
    pub(super) fn recall_for_task(&mut self, input: &str) {
        let Some(memory) = &self.parts.memory else { return };
        let mut about = vec![input];
        about.extend(self.plan.open().map(|todo| todo.content.as_str()));
        about.extend(self.parts.checks.commands.iter().map(String::as_str));
        let is_there = |path: &str| self.parts.project.find(path).is_some();
        let mut items = memory.recall.for_task(&about.join("\n"), memory.max_tokens, &is_there);
        items.retain(|item| !self.memories.has(&item.id, &item.text));
        if items.is_empty() {
            return;
        }
        let text = memory_reminder(&self.parts.prompts, &items);
        let in_rules = !self.sent.has_begun();
        let (moment, call, applied) = (Moment::Task, None, false);
        self.recalled(MemoryRecalled { moment, items, call, applied, text, in_rules });
    }

    /// The model reads below the results of calls that went well what is known of those that they lead to.
    pub(super) fn warn(&mut self, turn: &mut Turn, calls: &[ToolCall], answers: &[Answer]) {
        const WARNED: Prompt = prompt!("memory/warned.md");
        let Some(memory) = self.parts.memory.clone() else { return };
        let tried = turn.state.remedy().map(|remedy| remedy.item.id.clone());
        for (call, answer) in calls.iter().zip(answers) {
            if answer.envelope.error().is_some() {
                continue;
            }
            let left = MAX_WARNED - turn.memory.n_warned;
            if left == 0 {
                return;
            }
            let changes = has_changed(answer);
            let (paths, task) = (paths_of(answer), turn.case.goal.as_str());
            let done = Done { call, paths: &paths, changes, task };
            let is_shown =
                |id: &str, text: &str| self.memories.has(id, text) || tried.as_deref() == Some(id);
            let mut items = memory.recall.before(&done, &is_shown);
            items.truncate(left);
            if !items.is_empty() {
                turn.memory.n_warned += items.len();
                self.tell_below(&call.id, items, Moment::Call, WARNED, false);
            }
        }
    }

    /// What helped when calls failed like those of this round. The one that the kernel may try becomes
    /// part of the evidence; the others are returned.
    pub(super) fn known_after(&self, turn: &mut Turn, round: &Round<'_>) -> Vec<Known> {
        let (Some(memory), Round::Calls { calls, answers }) = (&self.parts.memory, round) else {
            return Vec::new();
        };
        let mut known = Vec::new();
        for (call, answer) in calls.iter().zip(*answers) {
            let Some(error) = answer.envelope.error() else { continue };
            if matches!(error.code, ErrorCode::Cancelled | ErrorCode::ApprovalRejected) {
                continue;
            }
            let Some(signature) = signature::of(&call.name, &answer.envelope) else { continue };
            let evidence = view(&answer.envelope);
            let (signature, evidence) = (signature.as_str(), evidence.as_str());
            let failed = FailedAs { call, code: error.code, signature, evidence };
            let Some(remedy) = memory.recall.after(&failed) else { continue };
            if error.code == ErrorCode::NotFound && self.leads_nowhere(&remedy) {
                continue;
            }
            let may_try = self.may_try(turn, call, answer, &remedy);
            if !(may_try && attach(&mut turn.state, call, answer, &remedy)) {
                known.push(Known { call: call.id.clone(), item: remedy.item });
            }
        }
        known
    }

    /// The model reads below the results what helped before; once a turn, however often that fails.
    pub(super) fn offer(&mut self, turn: &mut Turn, known: Vec<Known>) {
        const OFFERED: Prompt = prompt!("memory/offered.md");
        for known in known {
            if !turn.memory.offered.insert(known.item.text.clone()) {
                continue;
            }
            self.tell_below(&known.call, vec![known.item], Moment::Failure, OFFERED, false);
        }
    }

    /// The kernel tries what helped before, on behalf of the call that failed.
    pub(super) async fn try_remedy(&mut self, turn: &mut Turn, remedy: Remedy) {
        const APPLIED: Prompt = prompt!("memory/applied.md");
        let Some(failed) = turn.state.failed_call.clone() else { return };
        let Some(action) = &remedy.action else { return };
        let items = vec![remedy.item.clone()];
        self.tell_below(&failed.parent.id, items, Moment::Failure, APPLIED, true);
        let first = remedy.first.as_deref().map(in_bash);
        let mut calls: Vec<ToolCall> = first.into_iter().collect();
        calls.push(self.with_action(&failed.call, action));
        let mut made = Vec::new();
        for call in calls {
            let call = ToolCall { id: self.next_own_id(turn), ..call };
            let answer = self.call_itself(turn, &call, &failed.parent.id).await;
            let has_failed = answer.envelope.error().is_some();
            made.push((call, answer));
            if has_failed {
                turn.memory.failed.insert(remedy.item.id.clone());
                break;
            }
        }
        let (calls, answers): (Vec<ToolCall>, Vec<Answer>) = made.into_iter().unzip();
        if let (Some(call), Some(answer)) = (calls.last(), answers.last()) {
            self.evaluate(turn, &Round::Kernel { call, answer });
        }
        self.take_note(turn, &calls, &answers);
    }

    /// It is about a path, and at the new one lies nothing either.
    fn leads_nowhere(&self, remedy: &Remedy) -> bool {
        let Some(SuggestedAction::Adjust { input }) = &remedy.action else { return false };
        let path = input.get("path").and_then(Value::as_str);
        path.is_some_and(|path| self.parts.project.find(path).is_none())
    }

    /// What helped before may be tried: it is a call that the tool takes, it is another one than the one that failed,
    /// it can do no more harm, and a person has not said no.
    fn may_try(&self, turn: &Turn, call: &ToolCall, answer: &Answer, remedy: &Remedy) -> bool {
        let Some(action) = &remedy.action else { return false };
        let Some(error) = answer.envelope.error() else { return false };
        let is_barred = error.code.class(&call.name) == ErrorClass::Policy
            || error.code == ErrorCode::RepeatedCall
            || answer.violates_instruction
            || turn.memory.failed.contains(&remedy.item.id);
        if is_barred {
            return false;
        }
        let first = remedy.first.as_deref().map(in_bash);
        let fix = self.with_action(call, action);
        if (is_same_call(&fix, call) && first.is_none()) || self.is_named_by_a_pin(&fix, call) {
            return false;
        }
        let effect = answer.effect.as_ref();
        first.iter().chain([&fix]).all(|fix| self.is_as_harmless(fix, call, effect))
    }

    /// It can do no more harm than the call with this effect, for which it is made: it only looks, or it is of the same
    /// kind and neither of them is one that a person has to be asked about.
    fn is_as_harmless(&self, fix: &ToolCall, call: &ToolCall, of_call: Option<&Effect>) -> bool {
        let registry = &self.parts.registry;
        let Ok(effect) = registry.effect_of(fix) else { return false };
        match (&effect, of_call) {
            // Arguments that were wrong: the same tool, with the right ones.
            (Effect::Write { .. } | Effect::Command { .. }, None) if fix.name != call.name => false,
            (Effect::Read { .. } | Effect::Plan, _)
            | (Effect::Write { .. }, Some(Effect::Write { .. }) | None) => true,
            (Effect::Command { background: true, .. } | Effect::Job { .. }, _) => false,
            (Effect::Command { .. }, Some(before @ Effect::Command { background: false, .. })) => {
                registry.is_harmless(before) && registry.is_harmless(&effect)
            }
            (Effect::Command { .. }, None) => registry.is_harmless(&effect),
            (Effect::Command { .. } | Effect::Write { .. }, Some(_)) => false,
        }
    }

    /// A pin speaks of what the fix puts into the call, whether or not a rule could be made of it.
    fn is_named_by_a_pin(&self, fix: &ToolCall, call: &ToolCall) -> bool {
        self.pins.current().iter().any(|pin| speaks_of(&pin.text, fix, call))
    }

    /// The call that an action makes of another one.
    pub(super) fn with_action(&self, failed: &ToolCall, action: &SuggestedAction) -> ToolCall {
        let (name, input) = match action {
            SuggestedAction::Adjust { input } => {
                let sent = serde_json::from_str(&failed.arguments);
                let mut arguments: Object = sent.unwrap_or_default();
                // Where names were wrong, the right ones stand in their place, not beside them.
                arguments.retain(|name, _| self.takes(&failed.name, name));
                arguments.extend(input.clone());
                (failed.name.clone(), arguments)
            }
            SuggestedAction::Alternative { tool, input } => (tool.clone(), input.clone()),
        };
        ToolCall { id: String::new(), name, arguments: Value::Object(input).to_string() }
    }

    fn tell_below(
        &mut self,
        call: &str,
        items: Vec<Recalled>,
        moment: Moment,
        words: Prompt,
        applied: bool,
    ) {
        let texts: Vec<&str> = items.iter().map(|item| item.text.as_str()).collect();
        let words = self.parts.prompts.text(words).trim_end();
        let text = words.replace("{{text}}", &texts.join(" "));
        let (call, in_rules) = (Some(call.to_owned()), false);
        self.recalled(MemoryRecalled { moment, items, call, applied, text, in_rules });
    }

    fn recalled(&mut self, recalled: MemoryRecalled) {
        let event = self.parts.events.emit(Body::MemoryRecalled(recalled));
        self.history.apply(&event);
        self.note(&event);
    }
}

/// The files that a call was about; a search that found many is about none of them.
fn paths_of(answer: &Answer) -> Vec<&str> {
    let envelope = &answer.envelope;
    let resolved = || envelope.context.path_resolved.as_deref().into_iter().collect();
    match &answer.effect {
        Some(Effect::Read { .. }) => found_by(envelope).unwrap_or_else(resolved),
        Some(Effect::Write { .. }) => resolved(),
        Some(Effect::Command { .. } | Effect::Job { .. } | Effect::Plan) | None => Vec::new(),
    }
}

/// The files that a search found, each once: by their names, or by what was found in them. `None`: it was no search.
fn found_by(envelope: &Envelope) -> Option<Vec<&str>> {
    let lists = ["paths", "files", "matches", "counts"];
    let rows = lists.iter().find_map(|list| envelope.data.get(*list)?.as_array())?;
    let mut files: Vec<&str> = Vec::new();
    for row in rows {
        let Some(file) = row.as_str().or_else(|| row.get("file")?.as_str()) else { continue };
        if files.contains(&file) {
            continue;
        }
        if files.len() == MAX_FOUND {
            return Some(Vec::new());
        }
        files.push(file);
    }
    // It may have found more than it shows.
    let n_found =
        ["matched", "matched_files"].iter().find_map(|n| envelope.stats.get(*n)?.as_u64());
    let shows_few = n_found.is_some_and(|n| n > MAX_FOUND as u64);
    Some(if shows_few { Vec::new() } else { files })
}

/// The call has changed a file: it was neither on trial nor was the file so before.
fn has_changed(answer: &Answer) -> bool {
    let is_applied = answer.envelope.data.get("applied").and_then(Value::as_bool) == Some(true);
    is_applied && matches!(answer.effect, Some(Effect::Write { .. }))
}

/// Two calls of one tool with the same arguments.
fn is_same_call(one: &ToolCall, other: &ToolCall) -> bool {
    let read = |call: &ToolCall| serde_json::from_str::<Value>(&call.arguments).ok();
    one.name == other.name && read(one) == read(other)
}

fn in_bash(command: &str) -> ToolCall {
    let arguments = serde_json::json!({ "command": command }).to_string();
    ToolCall { id: String::new(), name: "Bash".to_owned(), arguments }
}

/// The text names a word that the fix has and the call has not, or a part of its path.
fn speaks_of(text: &str, fix: &ToolCall, call: &ToolCall) -> bool {
    let words = |call: &ToolCall| -> Vec<String> {
        let input: Object = serde_json::from_str(&call.arguments).unwrap_or_default();
        let texts = input.values().filter_map(Value::as_str).flat_map(str::split_whitespace);
        let words = texts.chain([call.name.as_str()]).flat_map(|word| {
            let word = word.trim_matches(['\'', '"', ';', '(', ')']);
            word.split(['/', '=']).chain([word])
        });
        words.map(str::to_lowercase).collect()
    };
    let (text, old) = (text.to_lowercase(), words(call));
    words(fix).iter().any(|word| {
        word.contains(char::is_alphanumeric) && !old.contains(word) && has_word(&text, word)
    })
}

/// The text has this word, with nothing of one on either side. Words of Chinese have nothing between them.
fn has_word(text: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    text.match_indices(word).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + word.len()..].chars().next();
        !before.is_some_and(is_part) && !after.is_some_and(is_part)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::protocol::envelope::{Context, Verdict};

    fn found(data: Value, n_found: u64) -> Envelope {
        let Value::Object(data) = data else { panic!("an object") };
        let stats = Object::from_iter([("matched_files".to_owned(), n_found.into())]);
        Envelope {
            verdict: Verdict::Success,
            data,
            text: String::new(),
            stats,
            context: Context {
                cwd: ".".to_owned(),
                params_input: Object::new(),
                path_resolved: None,
            },
        }
    }

    #[test]
    fn a_search_is_about_the_few_files_that_it_found() {
        #[track_caller]
        fn check(data: Value, n_found: u64, expected: Option<&[&str]>) {
            let envelope = found(data, n_found);
            assert_eq!(found_by(&envelope).as_deref(), expected);
        }
        let lines = |files: &[&str]| -> Vec<Value> {
            files.iter().map(|file| json!({"file": file, "line": 1})).collect()
        };
        check(json!({"paths": ["a", "b"]}), 2, Some(&["a", "b"]));
        check(json!({"files": ["a", "b"]}), 2, Some(&["a", "b"]));
        check(json!({"counts": [{"file": "a", "count": 9}]}), 1, Some(&["a"]));
        let many_in_few = ["a", "a", "b", "a", "b", "b", "a"];
        check(json!({"matches": lines(&many_in_few)}), 2, Some(&["a", "b"]));
        check(json!({"matches": lines(&["a", "b", "c", "d", "e", "f"])}), 6, Some(&[]));
        check(json!({"matches": lines(&["a", "a"])}), 40, Some(&[]));
        check(json!({"files": 7, "entries": []}), 7, None);
        check(json!({"content": "x"}), 1, None);
    }

    #[test]
    fn a_pin_names_words_and_parts_of_paths() {
        let check = |pin: &str, fix: &str, is_named: bool| {
            assert_eq!(
                speaks_of(pin, &in_bash(fix), &in_bash("./gradlew src/a.rs")),
                is_named,
                "{pin}"
            );
        };
        check("use bash, not sh", "sh ./gradlew src/a.rs", true);
        check("不要用sh运行", "sh ./gradlew src/a.rs", true);
        check("Never touch Lib", "./gradlew lib/a.rs", true);
        check("Never touch library", "./gradlew lib/a.rs", false);
        check("Keep src/a.rs as it is", "sh ./gradlew src/a.rs", false);
        check("Say sheep", "sh ./gradlew src/a.rs", false);
    }
}
