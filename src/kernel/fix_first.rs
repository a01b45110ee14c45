//! What earlier sessions know is used before a call is made: the call is mended first, or the model is warned.
//!
//! The model's own words stay in the conversation; what is made in a call's place has its id, passes the gate as any
//! call does, and is what counters, locks and evidence see. It is never more than the model may do, never what it would
//! have had to ask for, and never a command that the user wrote.

use std::borrow::Cow;

use serde_json::Value;

use super::Kernel;
use super::recall::{Known, is_same_call};
use super::turn::{STEERED, Turn};
use crate::protocol::envelope::ErrorCode;
use crate::protocol::message::ToolCall;
use crate::protocol::prompt::{Prompt, fill, prompt};
use crate::protocol::recall::{
    FailedAs, MemoryRecalled, Moment, Recalled, Remedy, Replaced, Surroundings,
};
use crate::protocol::signature;
use crate::protocol::view::{call_line, view};
use crate::protocol::{Object, shorten};
use crate::registry::Answer;

/// How much of the arguments of a call stands in a line.
const SHOWN: usize = 160;

/// A call that was mended before it was made.
#[derive(Debug)]
pub(super) struct Mended {
    /// As the model had sent it.
    asked: ToolCall,
    /// The item that knew.
    item: String,
}

impl Kernel {
    /// The calls of an answer as they are to be made, and what the model is warned of.
    pub(super) fn with_foresight<'a>(
        &mut self,
        turn: &mut Turn,
        calls: &'a [ToolCall],
    ) -> (Cow<'a, [ToolCall]>, Vec<Known>) {
        let Some(memory) = self.parts.memory.clone() else {
            return (Cow::Borrowed(calls), Vec::new());
        };
        let before = std::mem::take(&mut turn.memory.mended);
        let (mut made, mut warnings) = (Cow::Borrowed(calls), Vec::new());
        for (at, call) in calls.iter().enumerate() {
            let insisted = before.iter().find(|mended| mended.asked.is_again(call));
            if let Some(Mended { item, .. }) = insisted {
                turn.memory.insisted.push((call.id.clone(), item.clone()));
            }
            let around = self.around();
            let may_mend = memory.fixes_first && insisted.is_none();
            let around = may_mend.then_some(&around as &dyn Surroundings);
            let foreseen = memory.recall.before(call, around);
            let fix = foreseen.fix.and_then(|remedy| {
                Some((self.mended(turn, &made[..at], call, &remedy)?, remedy.item))
            });
            match (fix, foreseen.warning) {
                (Some((fix, item)), _) => {
                    turn.memory.mended.push(Mended { asked: call.clone(), item: item.id.clone() });
                    self.tell_of_fix(call, &fix, item);
                    made.to_mut()[at] = fix;
                }
                (None, Some(item)) if turn.memory.warned.insert(item.id.clone()) => {
                    warnings.push(Known { call: call.id.clone(), item });
                }
                (None, _) => {}
            }
        }
        (made, warnings)
    }

    /// What became of the calls that were mended, and of those that the model insisted on: what did not help, or is
    /// needed no more, is left alone in this turn.
    pub(super) fn look_back(&mut self, turn: &mut Turn, calls: &[ToolCall], answers: &[Answer]) {
        let Some(memory) = &self.parts.memory else { return };
        for (call, answer) in calls.iter().zip(answers) {
            let insisted = turn.memory.insisted.iter().find(|(id, _)| *id == call.id);
            if let (Some((_, item)), None) = (insisted, answer.envelope.error()) {
                turn.memory.failed.insert(item.clone());
            }
            let Some(mended) = turn.memory.mended.iter().find(|m| m.asked.id == call.id) else {
                continue;
            };
            let Some(error) = answer.envelope.error() else { continue };
            let (signature, evidence) =
                (signature::of(&call.name, &answer.envelope), view(&answer.envelope));
            let blames = signature.is_none_or(|signature| {
                let (signature, evidence) = (signature.as_str(), evidence.as_str());
                let failed = FailedAs { call, code: error.code, signature, evidence };
                memory.recall.blames_call(&failed)
            });
            if blames && error.code != ErrorCode::Cancelled {
                turn.memory.failed.insert(mended.item.clone());
            }
        }
        turn.memory.insisted.clear();
    }

    /// The call that is made in this one's place, if it may be. `before`: those that are made first.
    fn mended(
        &self,
        turn: &Turn,
        before: &[ToolCall],
        call: &ToolCall,
        remedy: &Remedy,
    ) -> Option<ToolCall> {
        let action = remedy.action.as_ref()?;
        if turn.memory.failed.contains(&remedy.item.id) || is_users_own(call, &turn.case.goal) {
            return None;
        }
        let fix = ToolCall { id: call.id.clone(), ..self.with_action(call, action) };
        let registry = &self.parts.registry;
        // Whatever is done first may make it possible.
        let only_looks =
            |call: &ToolCall| registry.effect_of(call).map_or(true, |effect| effect.is_read_only());
        let effect = registry.effect_of(call).ok();
        let is_no_more =
            effect.as_ref().is_none_or(|effect| !effect.is_read_only()) || only_looks(&fix);
        let may = is_no_more
            && !is_same_call(&fix, call)
            && before.iter().all(only_looks)
            && self.is_as_harmless(&fix, call, effect.as_ref())
            && registry.may_stand_for(&fix, call)
            && !self.is_named_by_a_pin(&fix, call);
        may.then_some(fix)
    }

    /// A pin speaks of what the fix puts into the call, whether or not a rule could be made of it.
    pub(super) fn is_named_by_a_pin(&self, fix: &ToolCall, call: &ToolCall) -> bool {
        self.pins.current().iter().any(|pin| speaks_of(&pin.text, fix, call))
    }

    fn tell_of_fix(&mut self, call: &ToolCall, fix: &ToolCall, item: Recalled) {
        const FIXED_FIRST: Prompt = prompt!("memory/fixed_first.md");
        let input: Object = serde_json::from_str(&fix.arguments).unwrap_or_default();
        let (asked, made) = (in_a_line(call), in_a_line(fix));
        let values = [("asked", asked.as_str()), ("made", &made), ("text", &item.text)];
        let text = fill(self.parts.prompts.text(FIXED_FIRST).trim_end(), &values);
        let replaced = Some(Replaced { asked, made, tool: fix.name.clone(), input });
        let (moment, call, items) = (Moment::Call, Some(call.id.clone()), vec![item]);
        let (applied, in_rules) = (true, false);
        self.recalled(MemoryRecalled { moment, items, call, applied, replaced, text, in_rules });
    }
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

/// The user wrote this command: it is run as it was written. In backticks a part of it is enough that begins as it or
/// one of its commands does.
fn is_users_own(call: &ToolCall, said: &str) -> bool {
    let input: Object = serde_json::from_str(&call.arguments).unwrap_or_default();
    let Some(line) = input.get("command").and_then(Value::as_str).map(str::trim) else {
        return false;
    };
    let begins = |part: &str| {
        line.match_indices(part).any(|(at, _)| {
            let before = line[..at].trim_end();
            before.is_empty() || before.ends_with(['&', ';', '|', '('])
        })
    };
    // A backtick that is never closed ends with its message.
    let messages = said.split(STEERED);
    let mut quoted = messages.flat_map(|said| said.split('`').skip(1).step_by(2)).map(str::trim);
    holds(said, line) || quoted.any(|part| holds(line, part) && begins(part))
}

/// The text holds these words, with nothing of a word on either side.
fn holds(text: &str, words: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '/');
    !words.is_empty()
        && text.match_indices(words).any(|(at, _)| {
            let before = text[..at].chars().next_back();
            let after = text[at + words.len()..].chars().next();
            !before.is_some_and(is_part) && !after.is_some_and(is_part)
        })
}

/// A call as a person and a model are told of it.
fn in_a_line(call: &ToolCall) -> String {
    let input: Object = serde_json::from_str(&call.arguments).unwrap_or_default();
    if input.contains_key("command") {
        return call_line(&call.name, &input);
    }
    format!("{} {}", call.name, shorten(&call.arguments, SHOWN))
}

impl Kernel {
    /// What is there now.
    pub(super) fn around(&self) -> Around<'_> {
        let now = self.parts.events.clock().timestamp().parse::<jiff::Timestamp>();
        // Without a time nothing is fresh.
        Around { kernel: self, now_ms: now.map_or(i64::MAX, |now| now.as_millisecond()) }
    }
}

/// What is there now, through the eyes of the tools.
pub(super) struct Around<'a> {
    kernel: &'a Kernel,
    now_ms: i64,
}

impl Surroundings for Around<'_> {
    fn has_tool(&self, tool: &str) -> bool {
        self.kernel.parts.registry.specs().iter().any(|spec| spec.name == tool)
    }

    fn takes(&self, tool: &str, argument: &str) -> bool {
        self.kernel.takes(tool, argument)
    }

    fn has(&self, path: &str) -> bool {
        self.kernel.parts.project.find(path).is_some()
    }

    fn has_folder(&self, path: &str) -> bool {
        self.kernel.parts.project.find(path).is_some_and(|found| found.is_folder)
    }

    fn has_program(&self, program: &str, folder: &str) -> bool {
        let registry = &self.kernel.parts.registry;
        registry.cx().exec.has_program(program, &registry.root().join(folder))
    }

    fn has_variable(&self, name: &str) -> bool {
        self.kernel.parts.registry.cx().exec.has_variable(name)
    }

    fn now_ms(&self) -> i64 {
        self.now_ms
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(said: &str, command: &str, is_own: bool) {
        let arguments = json!({ "command": command }).to_string();
        let call = ToolCall { id: String::new(), name: "Bash".to_owned(), arguments };
        assert_eq!(is_users_own(&call, said), is_own, "{said}: {command}");
    }

    #[test]
    fn a_command_that_the_user_wrote_is_the_users_own() {
        check("Run pytest -q and tell.", "pytest -q", true);
        check("Run `pytest -q`.", "pytest -q tests/a.py", true);
        check("先运行 `make test`，再看。", "cd . && make test", true);
        check("Is `mailer` well? Verify it.", "bin/mvnw verify mailer", false);
        check("Run the tests.", "pytest -q", false);
        check("Is pytest-mock used?", "pytest", false);
        check("Look at bin/old.sh", "old.sh", false);
        check("An `empty` one: ``", "pytest", false);
        // What was said on the way counts too.
        let later = |said: &str| format!("Don't ` stop.{STEERED}{said}");
        check(&later("run pytest -q as it is"), "pytest -q", true);
        check(&later("run `pytest` as it is"), "pytest -q", true);
    }

    #[test]
    fn a_pin_names_words_and_parts_of_paths() {
        let bash = |line: &str| ToolCall {
            id: String::new(),
            name: "Bash".to_owned(),
            arguments: json!({ "command": line }).to_string(),
        };
        let check = |pin: &str, fix: &str, is_named: bool| {
            assert_eq!(speaks_of(pin, &bash(fix), &bash("./gradlew src/a.rs")), is_named, "{pin}");
        };
        check("use bash, not sh", "sh ./gradlew src/a.rs", true);
        check("不要用sh运行", "sh ./gradlew src/a.rs", true);
        check("Never touch Lib", "./gradlew lib/a.rs", true);
        check("Never touch library", "./gradlew lib/a.rs", false);
        check("Keep src/a.rs as it is", "sh ./gradlew src/a.rs", false);
        check("Say sheep", "sh ./gradlew src/a.rs", false);
    }

    #[test]
    fn a_command_with_other_redirections_is_the_same_once_more() {
        let call = |input: serde_json::Value| ToolCall {
            id: String::new(),
            name: "Bash".to_owned(),
            arguments: input.to_string(),
        };
        let one = call(json!({"command": "make test"}));
        for (again, is_it) in [
            (json!({"command": "make test", "timeout_ms": 9}), true),
            (json!({"command": "make  test 2>&1"}), true),
            (json!({"command": "make test > out.txt 2>/dev/null"}), true),
            (json!({"command": "make test", "directory": "web"}), false),
            (json!({"command": "make tests"}), false),
            (json!({"path": "a"}), false),
        ] {
            assert_eq!(one.is_again(&call(again.clone())), is_it, "{again}");
        }
    }
}
