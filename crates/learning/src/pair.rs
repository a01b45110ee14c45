//! Pairs: lessons from a failure and the success that followed, quoted verbatim.

use std::collections::BTreeSet;

use serde_json::Value;

use super::attempt_chain::{AttemptChain, is_related_by_one_word};
use super::call_record::{CHECK, CallFailure, CallRecord, text_argument};
use super::lesson::{FailurePattern, Lesson, Origin, Scope, Source};
use super::lesson_filter;
use super::trace::{error_type, skill_id};
use super::trace_builder::TurnRecord;
use agent_protocol::envelope::{ErrorClass, ErrorCode};
use agent_protocol::event::Caller;
use agent_protocol::recall::LessonKind;
use agent_protocol::tool::CHANGE_TOOLS;
use agent_protocol::{Object, one_line, shorten};

const FAILED_BYTES: usize = 120;
const SUCCESS_BYTES: usize = 180;
const MAX_BETWEEN: usize = 3;
const BETWEEN_BYTES: usize = 120;
const TEXT_BYTES: usize = 80;
const CONTEXT_BYTES: usize = 300;
const SUBJECT_BYTES: usize = 200;

/// Whether the first line may be recommended instead of the second one, which failed.
pub type RecommendationRule = fn(&str, &str) -> bool;

/// The lessons from the resolved failures of a turn.
pub fn lessons_from_failures(
    record: &TurnRecord,
    may_recommend: RecommendationRule,
) -> Vec<Lesson> {
    let mut lessons: Vec<Lesson> = Vec::new();
    for chain in &record.chains {
        if let Some(lesson) = lesson_from_chain(record, chain, may_recommend)
            && lessons.iter().all(|known| known.id != lesson.id)
        {
            lessons.push(lesson);
        }
    }
    lessons
}

fn lesson_from_chain(
    record: &TurnRecord,
    chain: &AttemptChain,
    may_recommend: RecommendationRule,
) -> Option<Lesson> {
    let calls = &record.calls;
    let (first, last) = (*chain.failures.first()?, *chain.failures.last()?);
    let (call, success_at) = (&calls[first], chain.success?);
    let success = &calls[success_at];
    let is_of_use = |failed: &&CallFailure| is_worth_learning(failed) && !call.was_read_only;
    let failed = call.failure.as_ref().filter(is_of_use)?;
    // A fix of the kernel comes from a lesson that exists already.
    if success.parent_call.is_some() && success.caller == Caller::Kernel && success.tool != CHECK {
        return None;
    }
    let is_safe = |other: &CallRecord| {
        let failed = call.command().unwrap_or_default();
        other.command().is_none_or(|line| may_recommend(line, failed))
    };
    let is_step =
        |call: &&CallRecord| call.failure.is_none() && call.may_change && call.tool != CHECK;
    let mut between: Vec<&CallRecord> =
        calls[last + 1..success_at].iter().filter(is_step).collect();
    // A call that succeeds the second time without any preparation teaches nothing.
    let teaches = if chain.is_same_call {
        !between.is_empty() && between.iter().all(|step| is_safe(step))
    } else {
        !is_mistyped(call, success)
    };
    if !teaches || !is_safe(success) {
        return None;
    }
    let is_prepared = !between.is_empty();
    between.retain(|step| is_safe(step));
    let steps = calls[first + 1..success_at].iter().filter(is_step);
    let mut edits = steps.filter(|step| step.command().is_none()).peekable();
    let is_repaired_by_edits =
        edits.peek().is_some() && (chain.is_same_call || call.command().is_some());
    let subjects = if is_repaired_by_edits { subjects(call, edits) } else { Vec::new() };
    let text = lesson_text(call, &failed.excerpt, success, &between, chain.is_same_call);
    let new_words = if chain.is_same_call { Vec::new() } else { new_words(call, success) };
    let is_single = first == last && last + 1 == success_at && call.tool == success.tool;
    let pattern = FailurePattern {
        skill: skill_id(call),
        condition: failed.excerpt.clone(),
        error_type: error_type(&call.tool, Some(failed.code), failed.exit_code).to_owned(),
        tool: call.tool.clone(),
        target: call.target(),
        code: failed.code,
        signature: failed.signature.clone(),
        input: call.input.clone(),
        is_same_call: chain.is_same_call,
        is_related_by_one_word: is_related_by_one_word(call, success),
        subjects,
        new_words: new_words.clone(),
        fix: (is_single && !success.is_truncated).then(|| success.input.clone()),
        is_prepared,
    };
    let done: Vec<String> = between.iter().map(|call| call.target()).collect();
    let scope = Scope::Project(record.project.clone());
    let mut key = vec![pattern.tool.as_str(), &pattern.target, failed.code.as_str()];
    key.extend([pattern.signature.as_str(), &success.tool]);
    key.extend(new_words.iter().chain(&done).map(String::as_str));
    let lesson = Lesson {
        id: Lesson::compute_id(&scope, LessonKind::FailurePattern, &key),
        context: shorten(&record.task, CONTEXT_BYTES),
        sources: vec![Source { session: record.session.clone(), events: (call.seq, success.seq) }],
        helped: 1,
        failure: Some(pattern),
        ..Lesson::new(scope, LessonKind::FailurePattern, text, Origin::Pair, success.time_ms.1)
    };
    (!lesson_filter::contains_secret(&serde_json::to_string(&lesson).unwrap_or_default()))
        .then_some(lesson)
}

/// What a lesson is about if these changes may have repaired the call: the files, and its program with its first operand.
fn subjects<'a>(call: &'a CallRecord, edits: impl Iterator<Item = &'a CallRecord>) -> Vec<String> {
    let line = call.command().unwrap_or_default();
    let program = call.last_program().map_or(line, String::as_str);
    let (name, operand) = program.split_once(' ').unwrap_or((program, ""));
    let is_program = |word: &&str| word.rsplit('/').next() == Some(name);
    let typed = line.split_whitespace().rfind(is_program).unwrap_or(name);
    let is_path = |word: &&str| word.contains(['.', '/']) && word.ends_with(char::is_alphanumeric);
    let paths = edits.filter_map(CallRecord::path).chain(Some(operand).filter(is_path));
    let names = paths.flat_map(|path| [path, path.rsplit('/').next().unwrap_or(path)]);
    let names = names.map(str::to_owned).chain([format!("{typed} {operand}").trim().to_owned()]);
    let names = names.map(|name| name.trim_start_matches("./").to_owned());
    names.filter(|name| (1..=SUBJECT_BYTES).contains(&name.len())).collect()
}

/// Whether only a text differs that was mistyped. A file that has other characters throughout, such as tabs, has them
/// again.
fn is_mistyped(failed: &CallRecord, success: &CallRecord) -> bool {
    const TEXTS: [&str; 4] = ["old_string", "new_string", "edits", "content"];
    let others = |call: &CallRecord| {
        let is_other = |(name, _): &(String, Value)| !TEXTS.contains(&name.as_str());
        call.input.clone().into_iter().filter(is_other).collect::<Object>()
    };
    let letters = |text: &str| text.chars().filter(|c| c.is_alphanumeric()).collect::<String>();
    let is_special = |c: &char| *c == '\t' || !c.is_ascii();
    let special = |text: &str| text.chars().filter(is_special).collect::<BTreeSet<char>>();
    let old = |call| text_argument(call, "old_string").unwrap_or_default();
    let (one, other) = (old(&failed.input), old(&success.input));
    CHANGE_TOOLS.contains(&failed.tool.as_str())
        && others(failed) == others(success)
        && (letters(one) != letters(other) || special(one) == special(other))
}

/// The failure does not depend on the state of this session, and is no denial.
fn is_worth_learning(failed: &CallFailure) -> bool {
    match failed.code {
        ErrorCode::CommandFailed
        | ErrorCode::McpFailed
        | ErrorCode::Timeout
        | ErrorCode::ExecutionError => true,
        ErrorCode::RepeatedCall | ErrorCode::AskUserUnavailable => false,
        code => code.class("") == ErrorClass::Caller,
    }
}

fn lesson_text(
    call: &CallRecord,
    excerpt: &str,
    success: &CallRecord,
    between: &[&CallRecord],
    is_same_call: bool,
) -> String {
    let failed = shorten(&call_in_words(call), FAILED_BYTES);
    let excerpt = excerpt.trim_end_matches('.');
    let shown = between.len().saturating_sub(MAX_BETWEEN);
    let done: Vec<String> =
        between[shown..].iter().map(|call| shorten(&call_in_words(call), BETWEEN_BYTES)).collect();
    let done = done.join(", ");
    if is_same_call {
        return format!("{failed} failed: {excerpt}. It worked after {done}.");
    }
    let success = shorten(&call_in_words(success), SUCCESS_BYTES);
    let after = if done.is_empty() { String::new() } else { format!(" (after {done})") };
    format!("{failed} failed: {excerpt}. {success} worked{after}.")
}

/// A call as a lesson quotes it: `` `cargo test` ``, `Read {"path":"a"}`, ``Edit a: `x` → `y` ``.
pub fn call_in_words(call: &CallRecord) -> String {
    let mut input = call.input.clone();
    input.remove("description");
    if let Some(Value::String(command)) = input.remove("command") {
        let command = one_line(&command);
        let prefix = if call.tool == "Bash" { "" } else { &format!("{} ", call.tool) };
        input.retain(|name, value| name != "directory" || value != ".");
        return format!("{prefix}`{command}`{}", remaining_arguments(input));
    }
    let text = |name: &str| text_argument(&input, name).unwrap_or_default();
    match (text_argument(&input, "old_string"), text_argument(&input, "content")) {
        (Some(old), _) => {
            let (old, new) = text_difference(old, text("new_string"));
            let what = format!("{} {}: `{old}` → `{new}`", call.tool, text("path"));
            input.retain(|name, _| !["path", "old_string", "new_string"].contains(&name.as_str()));
            what + &remaining_arguments(input)
        }
        (None, Some(content)) => {
            let content = shorten(&one_line(content), 2 * TEXT_BYTES);
            format!("{} {}: `{content}`", call.tool, text("path"))
        }
        (None, None) => {
            for value in input.values_mut() {
                if let Value::String(text) = value {
                    *text = shorten(text, TEXT_BYTES);
                }
            }
            format!("{} {}", call.tool, Value::Object(input))
        }
    }
}

fn remaining_arguments(input: Object) -> String {
    if input.is_empty() { String::new() } else { format!(" {}", Value::Object(input)) }
}

/// Both texts start at the first different line; spaces and tabs are visible.
fn text_difference(old: &str, new: &str) -> (String, String) {
    let n = old.lines().zip(new.lines()).take_while(|(one, other)| one == other).count();
    let rest = |text: &str, other: &str| {
        let lines: Vec<&str> = text.lines().skip(n).collect();
        let others: Vec<&str> = other.lines().skip(n).collect();
        let same = lines.iter().rev().zip(others.iter().rev()).take_while(|(a, b)| a == b).count();
        let text = lines[..lines.len() - same].join("\n");
        shorten(&text.replace('\t', "\\t").replace('\n', "\\n"), TEXT_BYTES)
    };
    (rest(old, new), rest(new, old))
}

fn new_words(failed: &CallRecord, success: &CallRecord) -> Vec<String> {
    let words = |input: &Object| -> Vec<String> {
        match text_argument(input, "command") {
            Some(command) => {
                let directory = text_argument(input, "directory").filter(|path| *path != ".");
                command.split_whitespace().chain(directory).map(str::to_owned).collect()
            }
            None => input.iter().map(|(name, value)| format!("{name}={value}")).collect(),
        }
    };
    let known = words(&failed.input);
    let mut new: Vec<String> =
        words(&success.input).into_iter().filter(|word| !known.contains(word)).collect();
    new.dedup();
    new.truncate(8);
    new
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test may panic")]

    use serde_json::json;

    use super::super::attempt_chain::find_chains;
    use super::super::call_record::{build_failure, stored_arguments};
    use super::*;

    /// `(tool, arguments, error code and message if it failed)`.
    type Call<'a> = (&'a str, Value, Option<(ErrorCode, &'a str)>);

    fn harvest(calls: &[Call<'_>]) -> TurnRecord {
        let made = |(n, (tool, input, failed)): (usize, &Call<'_>)| {
            let Value::Object(input) = input else { unreachable!() };
            let line = text_argument(input, "command").unwrap_or_default();
            let program = line.split(' ').take(2).collect::<Vec<_>>().join(" ");
            let (input, is_cut) = stored_arguments(input);
            CallRecord {
                seq: 10 + n as u64,
                round: u32::try_from(n).unwrap(),
                id: n.to_string(),
                tool: (*tool).to_owned(),
                programs: if line.is_empty() { Vec::new() } else { vec![program] },
                failure: failed
                    .map(|(code, said)| build_failure(code, &input, said, said, Some(1))),
                input,
                is_truncated: is_cut,
                may_change: !matches!(*tool, "Read" | "Grep" | "Glob"),
                ..CallRecord::default()
            }
        };
        let calls: Vec<CallRecord> = calls.iter().enumerate().map(made).collect();
        let (chains, _) = find_chains(&calls);
        let (session, project) = ("s".to_owned(), "p".to_owned());
        TurnRecord {
            session,
            project,
            task: "Do it.".to_owned(),
            calls,
            chains,
            ..TurnRecord::default()
        }
    }

    fn lessons(record: &TurnRecord) -> Vec<Lesson> {
        lessons_from_failures(record, |line, _| !line.contains("rm "))
    }

    fn bash<'a>(command: &str, said: Option<&'a str>) -> Call<'a> {
        let failed = said.map(|said| (ErrorCode::CommandFailed, said));
        ("Bash", json!({"command": command}), failed)
    }

    #[track_caller]
    fn check(calls: &[Call<'_>], expected: &[&str]) {
        let lessons = lessons(&harvest(calls));
        let texts: Vec<&str> = lessons.iter().map(|lesson| lesson.text.as_str()).collect();
        assert_eq!(texts, expected);
    }

    #[test]
    fn lesson_text_describes_each_kind_of_call() {
        check(
            &[bash("make test", Some("make: no rule.")), bash("make check", None)],
            &["`make test` failed: make: no rule. `make check` worked."],
        );
        check(
            &[bash("./t", Some("no out")), bash("./gen", None), bash("./t", None)],
            &["`./t` failed: no out. It worked after `./gen`."],
        );
        check(
            &[bash("t a", Some("no out")), bash("gen", None), bash("t b", None)],
            &["`t a` failed: no out. `t b` worked (after `gen`)."],
        );
        let timed = json!({"command": "make\n  e2e", "directory": ".", "timeout_ms": 9, "description": "x"});
        check(
            &[bash("make e2e", Some("slow")), ("Bash", timed, None)],
            &["`make e2e` failed: slow. `make e2e` {\"timeout_ms\":9} worked."],
        );
        let gone = Some((ErrorCode::NotFound, "there is no src/a.rs"));
        check(
            &[
                ("Read", json!({"path": "src/a.rs"}), gone),
                ("Read", json!({"path": "lib/a.rs"}), None),
            ],
            &[
                "Read {\"path\":\"src/a.rs\"} failed: there is no src/a.rs. Read {\"path\":\"lib/a.rs\"} worked.",
            ],
        );
        let edit = |old: &str| json!({"path": "m.mk", "old_string": old, "new_string": "a:\n\tc"});
        check(
            &[
                ("Edit", edit("a:\n    b"), Some((ErrorCode::NoMatch, "not found"))),
                ("Edit", edit("a:\n\tb"), None),
            ],
            &["Edit m.mk: `    b` → `\\tc` failed: not found. Edit m.mk: `\\tb` → `\\tc` worked."],
        );
    }

    #[test]
    fn denials_session_state_errors_and_repetitions_teach_nothing() {
        let edit =
            |failed| ("Edit", json!({"path": "a", "old_string": "x", "new_string": "y"}), failed);
        for code in [
            ErrorCode::Conflict,
            ErrorCode::NotRead,
            ErrorCode::AccessDenied,
            ErrorCode::PermissionDenied,
            ErrorCode::CommandBlocked,
            ErrorCode::ApprovalRequired,
            ErrorCode::ApprovalRejected,
            ErrorCode::RepeatedCall,
            ErrorCode::CircuitOpen,
            ErrorCode::InternalError,
        ] {
            check(
                &[edit(Some((code, "no"))), ("Read", json!({"path": "a"}), None), edit(None)],
                &[],
            );
        }
        check(&[bash("flaky", Some("no")), bash("flaky", None)], &[]);
        check(&[bash("x", Some("no")), bash("x", Some("no"))], &[]);
    }

    #[test]
    fn repair_by_edits_is_about_its_files_and_program() {
        let subjects = |calls: &[Call<'_>]| {
            let lesson = lessons(&harvest(calls)).pop().unwrap();
            lesson.failure.unwrap().subjects.join(", ")
        };
        let edit = ("Edit", json!({"path": "./src/a.py"}), None);
        let (failed, other) = (bash("bin/t all -q", Some("no")), bash("bin/t all", None));
        let worked = bash("bin/t all -q", None);
        let about = "src/a.py, a.py, bin/t all";
        assert_eq!(subjects(&[failed.clone(), edit.clone(), worked.clone()]), about);
        assert_eq!(subjects(&[failed.clone(), edit.clone(), failed.clone(), other.clone()]), about);
        assert_eq!(subjects(&[failed.clone(), bash("gen", None), worked]), "");
        assert_eq!(subjects(&[failed, other]), "");
        let script = [bash("python3 b.py", Some("no")), edit, bash("python3 b.py", None)];
        assert_eq!(subjects(&script), "src/a.py, a.py, b.py, b.py, python3 b.py");
        let read = |path: &str, failed| ("Read", json!({"path": path}), failed);
        let gone = Some((ErrorCode::NotFound, "no"));
        let edit = ("Edit", json!({"path": "x"}), None);
        assert_eq!(subjects(&[read("a/b", gone), edit, read("c/b", None)]), "");
    }

    #[test]
    fn mistyped_text_and_dangerous_lines_teach_nothing() {
        let edit = |old: &str, more: &str, code: Option<ErrorCode>| {
            let mut input = json!({"path": "a", "old_string": old, "new_string": "y"});
            input[more] = true.into();
            ("Edit", input, code.map(|code| (code, "no")))
        };
        let n = |calls: &[Call<'_>]| lessons(&harvest(calls)).len();
        let no_match = Some(ErrorCode::NoMatch);
        assert_eq!(n(&[edit("a  b", "_", no_match), edit("a b", "_", None)]), 0);
        assert_eq!(n(&[edit("ab", "_", no_match), edit("abc", "_", None)]), 0);
        let write = ("Write", json!({"path": "a", "content": "b", "_": true}), None);
        assert_eq!(n(&[edit("ab", "_", no_match), write]), 0);
        assert_eq!(n(&[edit("don't", "_", no_match), edit("don’t", "_", None)]), 1);
        let many = Some(ErrorCode::MultipleMatches);
        assert_eq!(n(&[edit("a", "_", many), edit("a", "replace_all", None)]), 1);
        assert_eq!(n(&[bash("t", Some("no")), bash("rm x", None), bash("t", None)]), 0);
        assert_eq!(n(&[bash("t a", Some("no")), bash("rm x && t a", None)]), 0);
    }

    #[test]
    fn fix_applied_by_the_kernel_is_not_a_new_lesson() {
        let mut harvest = harvest(&[bash("old", Some("gone")), bash("new", None)]);
        harvest.calls[1].parent_call = Some("0".to_owned());
        harvest.calls[1].caller = Caller::Kernel;
        assert_eq!(lessons(&harvest), []);
    }

    #[test]
    fn only_a_single_call_of_the_same_tool_is_a_fix() {
        let fix = |calls: &[Call<'_>]| {
            let lesson = lessons(&harvest(calls)).pop();
            lesson.and_then(|lesson| lesson.failure?.fix).map(Value::Object)
        };
        let (failed, worked) = (bash("make a", Some("no")), bash("make b", None));
        assert_eq!(fix(&[failed.clone(), worked.clone()]), Some(json!({"command": "make b"})));
        assert_eq!(fix(&[failed.clone(), failed.clone(), worked.clone()]), None);
        assert_eq!(fix(&[failed.clone(), bash("ls", None), worked]), None);
        let long = format!("make {}", "x".repeat(600));
        assert_eq!(fix(&[bash("make a", Some("no")), bash(&long, None)]), None, "it was cut");
        let unknown = Some((ErrorCode::UnknownTool, "no tool"));
        let input = json!({"pattern": "x"});
        assert_eq!(fix(&[("Find", input.clone(), unknown), ("Grep", input, None)]), None);
    }

    #[test]
    fn equal_failures_and_fixes_are_one_lesson() {
        let id = |failed: &str, said: &str, worked: &str| {
            lessons(&harvest(&[bash(failed, Some(said)), bash(worked, None)])).remove(0).id
        };
        let one =
            id("conv jan.csv", "conv: error: jan.csv: no charset (line 17)", "conv --gb jan.csv");
        let other =
            id("conv may.csv", "conv: error: may.csv: no charset (line 4)", "conv --gb may.csv");
        assert_eq!(one, other);
        assert_ne!(one, id("conv jan.csv", "conv: error: no space left", "conv --gb jan.csv"));
        assert_ne!(
            one,
            id("conv jan.csv", "conv: error: jan.csv: no charset (line 17)", "conv --u8 jan.csv")
        );
        let twice = [bash("make a", Some("no a")), bash("make b", None)];
        assert_eq!(lessons(&harvest(&[&twice[..], &twice[..]].concat())).len(), 1);
    }

    #[test]
    fn lessons_are_short_single_line_and_free_of_secrets() {
        let long = "ä".repeat(3000);
        let said = format!("\u{1b}[31m{long}\u{7}\n{long}");
        let write = ("Write", json!({"path": "f", "content": long}), None);
        let calls = [
            bash(&format!("make {long}"), Some(&said)),
            write.clone(),
            write.clone(),
            write.clone(),
            write,
            bash(&format!("make -b {long}"), None),
        ];
        let lessons = lessons(&harvest(&calls));
        let [lesson] = lessons.as_slice() else { panic!("{lessons:#?}") };
        assert!(lesson.text.len() < 1000, "{}", lesson.text.len());
        assert!(!lesson.text.chars().any(char::is_control), "{}", lesson.text);
        assert!(serde_json::to_string(lesson).unwrap().len() < 6000);
        check(&[bash("push", Some("no key")), bash("push --token ghp_abc123", None)], &[]);
        check(&[bash("PASSWORD=hunter2 push", Some("no")), bash("push", None)], &[]);
    }
}
