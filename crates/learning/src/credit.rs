//! Measures whether recalled lessons helped.

use serde::{Deserialize, Serialize};

use super::call_record::CallRecord;
use super::lesson::{FailurePattern, Lesson};
use super::trace_builder::TurnRecord;
use agent_protocol::recall::RecallMoment;

/// In unsuccessful uses.
const CONTRADICTION_WEIGHT: u32 = 5;

/// The result of using a lesson in a turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Credit {
    pub id: String,
    pub helped: u32,
    pub hurt: u32,
}

/// The credits of the lessons that a model saw in the turn, by the table in `docs/LEARNING.md`;
/// `stored`: the lessons with these ids.
pub fn compute_credits(record: &TurnRecord, stored: &[Lesson]) -> Vec<Credit> {
    let mut credits: Vec<Credit> = Vec::new();
    // Applying a lesson is stronger evidence than showing it.
    let (applied_ones, others): (Vec<_>, Vec<_>) =
        record.recalled_lessons.iter().partition(|(_, recalled)| recalled.applied);
    for (seq, recalled) in applied_ones.into_iter().chain(others) {
        if recalled.moment == RecallMoment::Reflection {
            continue;
        }
        for item in &recalled.items {
            if credits.iter().any(|credit| credit.id == item.id) {
                continue;
            }
            let Some(lesson) = stored.iter().find(|lesson| lesson.id == item.id) else { continue };
            let later: Vec<&CallRecord> =
                record.calls.iter().filter(|call| call.seq > *seq).collect();
            let (helped, hurt) = if recalled.applied {
                credit_applied_lesson(&later, recalled.call.as_deref())
            } else {
                credit_shown_lesson(&later, lesson)
            };
            credits.push(Credit { id: item.id.clone(), helped, hurt });
        }
    }
    credits
}

/// The call of the kernel decides.
fn credit_applied_lesson(later: &[&CallRecord], parent: Option<&str>) -> (u32, u32) {
    let own = later
        .iter()
        .find(|call| call.parent_call.is_some() && call.parent_call.as_deref() == parent);
    own.map_or((0, 0), |call| if call.failure.is_none() { (1, 0) } else { (0, 1) })
}

fn credit_shown_lesson(later: &[&CallRecord], lesson: &Lesson) -> (u32, u32) {
    let Some(failure) = &lesson.failure else { return (0, 0) };
    let key = failure.key();
    let is_target = |call: &&CallRecord| {
        call.tool == failure.tool && (call.target() == failure.target || follows_fix(call, failure))
    };
    let is_failed_call =
        |call: &&CallRecord| call.tool == failure.tool && call.input == failure.input;
    let is_other_way = !failure.is_same_call;
    // After a preparation the failed call may succeed without contradicting the lesson.
    let may_contradict = !failure.is_prepared;
    if may_contradict && later.iter().any(|call| is_failed_call(call) && call.failure.is_none()) {
        return (0, CONTRADICTION_WEIGHT);
    }
    let is_followed =
        |call: &&CallRecord| is_other_way && is_target(call) && follows_fix(call, failure);
    let followed = || later.iter().copied().filter(is_followed);
    let has_key = |call: &CallRecord| call.failure_key().as_ref() == Some(&key);
    if followed().any(has_key) {
        return (0, 1);
    }
    if followed().any(|call| call.failure.is_none()) {
        return (1, 0);
    }
    let first_failed = later.iter().position(|call| is_followed(call) && call.failure.is_some());
    if let Some(at) = first_failed {
        let other = later[at + 1..]
            .iter()
            .any(|call| call.failure.is_none() && is_target(call) && !follows_fix(call, failure));
        return (0, if other { CONTRADICTION_WEIGHT } else { 0 });
    }
    // A lesson about a preparation: its failure did not occur although its target was used.
    let was_used = later.iter().any(|call| call.failure.is_none() && is_failed_call(call));
    let has_recurred = later.iter().any(|call| has_key(call));
    (u32::from(!is_other_way && was_used && !has_recurred), 0)
}

/// One word of the successful call is sufficient in a call about the same target, otherwise all are
/// needed. Without new words the call has to be identical to the successful one.
fn follows_fix(call: &CallRecord, failure: &FailurePattern) -> bool {
    let has = |word: &String| match call.command() {
        Some(command) => command.split_whitespace().any(|own| own == word),
        None => word.split_once('=').is_some_and(|(name, value)| {
            call.input.get(name).map(ToString::to_string).as_deref() == Some(value)
        }),
    };
    let words = &failure.new_words;
    let has_words = if call.target() == failure.target {
        words.iter().any(has)
    } else {
        !words.is_empty() && words.iter().all(has)
    };
    has_words || failure.fix.as_ref().is_some_and(|fix| *fix == call.input)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test may panic")]

    use serde_json::{Value, json};

    use super::super::call_record::build_failure;
    use super::super::lesson::{Origin, Scope};
    use super::*;
    use agent_protocol::Object;
    use agent_protocol::envelope::ErrorCode;
    use agent_protocol::recall::{LessonKind, MemoryRecalled};

    const SAID: &str = "old: error: is gone";

    fn input(command: &str) -> Object {
        let Value::Object(input) = json!({"command": command}) else { unreachable!() };
        input
    }

    /// `!LINE`: failed as in the lesson; `?LINE`: failed in another way; `^LINE`: a call of the
    /// kernel.
    fn made(n: usize, line: &str) -> CallRecord {
        let (line, said) = match line.split_at(1) {
            ("!", line) => (line, Some(SAID)),
            ("?", line) => (line, Some("error: another thing")),
            _ => (line, None),
        };
        let (line, parent) =
            line.strip_prefix('^').map_or((line, None), |it| (it, Some("1".into())));
        let program = line.split(' ').take(2).collect::<Vec<_>>().join(" ");
        let input = input(line);
        CallRecord {
            seq: 10 + n as u64,
            id: n.to_string(),
            tool: "Bash".to_owned(),
            programs: vec![program],
            failure: said
                .map(|said| build_failure(ErrorCode::CommandFailed, &input, said, said, Some(1))),
            input,
            parent_call: parent,
            ..CallRecord::default()
        }
    }

    /// `failed` failed and `worked` worked; `None`: the same call worked after another one.
    fn lesson(failed: &str, worked: Option<&str>) -> Lesson {
        let made = made(0, &format!("!{failed}"));
        let failed_as = made.failure.clone().unwrap();
        let known: Vec<&str> = failed.split(' ').collect();
        let new = worked.unwrap_or_default().split(' ');
        let new = new.filter(|word| !word.is_empty() && !known.contains(word));
        let pattern = FailurePattern {
            skill: String::new(),
            condition: SAID.to_owned(),
            error_type: String::new(),
            tool: made.tool.clone(),
            target: made.target(),
            code: failed_as.code,
            signature: failed_as.signature,
            input: made.input.clone(),
            is_same_call: worked.is_none(),
            is_prepared: worked.is_none(),
            is_related_by_one_word: false,
            subjects: Vec::new(),
            new_words: new.map(str::to_owned).collect(),
            fix: worked.map(input),
        };
        let kind = LessonKind::FailurePattern;
        Lesson {
            id: "a".to_owned(),
            failure: Some(pattern),
            helped: 1,
            ..Lesson::new(Scope::User, kind, "x".to_owned(), Origin::Pair, 0)
        }
    }

    fn recalled(
        lesson: &Lesson,
        moment: RecallMoment,
        call: Option<&str>,
    ) -> (u64, MemoryRecalled) {
        let (items, call) = (vec![lesson.to_recalled()], call.map(str::to_owned));
        let applied = call.is_some();
        let text = String::new();
        (1, MemoryRecalled { moment, items, call, applied, text, in_rules: false })
    }

    #[track_caller]
    fn check(lesson: &Lesson, calls: &[&str], expected: (u32, u32)) {
        let calls = calls.iter().enumerate().map(|(n, line)| made(n, line)).collect();
        let recalled = vec![recalled(lesson, RecallMoment::Task, None)];
        let harvest = TurnRecord { calls, recalled_lessons: recalled, ..TurnRecord::default() };
        let credits = compute_credits(&harvest, std::slice::from_ref(lesson));
        let [credit] = credits.as_slice() else { panic!("{credits:?}") };
        assert_eq!((credit.helped, credit.hurt), expected, "{:?}", harvest.calls);
    }

    #[test]
    fn replacement_call_is_credited_by_its_outcome() {
        for worked in ["new a", "old --x a"] {
            let lesson = lesson("old a", Some(worked));
            check(&lesson, &[worked], (1, 0));
            check(&lesson, &["ls", "cat b"], (0, 0));
            check(&lesson, &["!old a"], (0, 0));
            check(&lesson, &["!old a", worked], (1, 0));
            check(&lesson, &[&format!("!{worked}")], (0, u32::from(worked != "new a")));
            check(&lesson, &[&format!("?{worked}")], (0, 0));
            check(&lesson, &[&format!("?{worked}"), "old b"], (0, CONTRADICTION_WEIGHT));
            check(&lesson, &["old a"], (0, CONTRADICTION_WEIGHT));
        }
    }

    #[test]
    fn replacement_by_another_program_must_match_all_words() {
        let lesson = lesson("pytest", Some("cd api && python3 -m pytest"));
        check(&lesson, &["git add . && git commit -m x"], (0, 0));
        check(&lesson, &["cd api && python3 -m pytest -q"], (1, 0));
    }

    #[test]
    fn success_after_preparation_does_not_contradict_the_lesson() {
        let mut lesson = lesson("old a", Some("old b"));
        lesson.failure.as_mut().unwrap().is_prepared = true;
        check(&lesson, &["gen", "old a"], (0, 0));
    }

    #[test]
    fn replacement_with_fewer_words_is_credited() {
        let lesson = lesson("old --fast a", Some("old a"));
        check(&lesson, &["old a"], (1, 0));
        check(&lesson, &["old --fast a"], (0, CONTRADICTION_WEIGHT));
        check(&lesson, &["!old --fast a"], (0, 0));
        check(&lesson, &["!old --fast a", "old a"], (1, 0));
    }

    #[test]
    fn prerequisite_is_credited_if_the_failure_does_not_occur() {
        let lesson = lesson("old a", None);
        check(&lesson, &["gen", "old a"], (1, 0));
        check(&lesson, &["!old a", "gen", "old a"], (0, 0));
        check(&lesson, &["gen"], (0, 0));
    }

    #[test]
    fn applied_fix_is_credited_by_its_own_call() {
        let lesson = lesson("old a", Some("new a"));
        for (own, expected) in [("^new a", (1, 0)), ("?^new a", (0, 1)), ("!^new a", (0, 1))] {
            let calls = vec![made(1, "!old a"), made(2, own), made(3, "new a")];
            // It was also shown before, but its application takes precedence.
            let recalled = vec![
                recalled(&lesson, RecallMoment::Task, None),
                recalled(&lesson, RecallMoment::Failure, Some("1")),
            ];
            let harvest = TurnRecord { calls, recalled_lessons: recalled, ..TurnRecord::default() };
            let credit = Credit { id: "a".to_owned(), helped: expected.0, hurt: expected.1 };
            assert_eq!(compute_credits(&harvest, std::slice::from_ref(&lesson)), [credit], "{own}");
        }
    }

    #[test]
    fn lesson_shown_only_to_a_reflection_is_not_credited() {
        let lesson = lesson("old a", Some("new a"));
        let recalled = vec![recalled(&lesson, RecallMoment::Reflection, None)];
        let harvest = TurnRecord {
            calls: vec![made(1, "new a")],
            recalled_lessons: recalled,
            ..TurnRecord::default()
        };
        assert_eq!(compute_credits(&harvest, std::slice::from_ref(&lesson)), []);
        let rule = Lesson { failure: None, ..lesson };
        check(&rule, &["new a"], (0, 0));
    }
}
