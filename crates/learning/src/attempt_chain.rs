//! Finds the later call of a turn that resolved a failure.
//!
//! The closest relation decides. Without one nothing is resolved: a wrong lesson is worse than none.

use std::ffi::OsStr;
use std::ops::Range;
use std::path::Path;

use serde_json::Value;

use super::call_record::{CHECK, CallRecord};
use agent_protocol::envelope::ErrorCode;
use agent_protocol::tool::CHANGE_TOOLS;

const RESOLUTION_WINDOW: usize = 8;

/// A failure with its further attempts, as indexes of the turn's calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptChain {
    pub failures: Vec<usize>,
    /// `None`: the failures were not resolved.
    pub success: Option<usize>,
    /// The successful call is identical to the failed one.
    pub is_same_call: bool,
}

/// The chains of a turn, and the calls that belong to none.
pub fn find_chains(calls: &[CallRecord]) -> (Vec<AttemptChain>, Vec<usize>) {
    let mut is_used = vec![false; calls.len()];
    let mut chains = Vec::new();
    for at in 0..calls.len() {
        if calls[at].failure.is_none() || is_used[at] {
            continue;
        }
        let (success, is_same_call) = find_resolution(calls, at).unzip();
        let end = success.unwrap_or(calls.len());
        let is_attempt = |other: &usize| {
            let (failed, later) = (&calls[at], &calls[*other]);
            later.failure.is_some()
                && (is_made_for(failed, later) || is_similar_call(failed, later))
        };
        let further = (at + 1..end).filter(|other| !is_used[*other]).filter(is_attempt);
        let failures: Vec<usize> = std::iter::once(at).chain(further).collect();
        failures.iter().chain(&success).for_each(|at| is_used[*at] = true);
        let is_same_call = is_same_call.unwrap_or_default();
        chains.push(AttemptChain { failures, success, is_same_call });
    }
    let others = (0..calls.len()).filter(|at| !is_used[*at]).collect();
    (chains, others)
}

/// Whether the second call is another attempt at what the first one failed to do.
type CallRelation = fn(&CallRecord, &CallRecord) -> bool;

/// Returns the index of the call, and whether it is the same call.
fn find_resolution(calls: &[CallRecord], at: usize) -> Option<(usize, bool)> {
    let failed = &calls[at];
    let kernel_retry = (at + 1..calls.len())
        .find(|at| has_succeeded(&calls[*at]) && is_made_for(failed, &calls[*at]));
    if let Some(at) = kernel_retry {
        return Some((at, false));
    }
    // The model requested the calls of one answer before it knew about the failure.
    let next = (at + 1..calls.len()).find(|at| calls[*at].round > failed.round)?;
    let later = next..calls.len();
    let near = next..calls.len().min(next + RESOLUTION_WINDOW);
    let find = |range: Range<usize>, fits: &dyn Fn(&CallRecord) -> bool| {
        // A call that only reads does not do what one that acts failed to do.
        let resolves =
            |call: &CallRecord| has_succeeded(call) && (call.may_change || !failed.may_change);
        range.into_iter().find(|at| resolves(&calls[*at]) && fits(&calls[*at]))
    };
    let is_same = |call: &CallRecord| call.tool == failed.tool && call.input == failed.input;
    if let Some(at) = find(later.clone(), &is_same) {
        return Some((at, true));
    }
    if failed.tool == CHECK {
        return None;
    }
    let relations: [(Range<usize>, CallRelation); 5] = [
        (later, is_same_target),
        (near.clone(), is_similar_call),
        (near.clone(), names_target),
        (near.clone(), is_same_search),
        (near, shares_argument),
    ];
    let akin = relations.into_iter().find_map(|(range, is_related)| {
        let fits = |call: &CallRecord| is_related(failed, call);
        Some(last_of_run(calls, find(range, &fits)?, &fits))
    });
    akin.map(|at| (at, false))
}

/// Reading calls may be in between. A help text comes before the call that follows it.
fn last_of_run(calls: &[CallRecord], first: usize, fits: &dyn Fn(&CallRecord) -> bool) -> usize {
    if calls[first].tool != "Bash" {
        return first;
    }
    let mut last = first;
    for (at, call) in calls.iter().enumerate().skip(first + 1) {
        match (has_succeeded(call) && fits(call), call.may_change) {
            (true, _) => last = at,
            (false, true) => break,
            (false, false) => {}
        }
    }
    last
}

fn has_succeeded(call: &CallRecord) -> bool {
    call.failure.is_none() && !call.hides_failure
}

fn is_made_for(failed: &CallRecord, call: &CallRecord) -> bool {
    call.parent_call.as_ref() == Some(&failed.id)
}

fn is_same_target(failed: &CallRecord, call: &CallRecord) -> bool {
    if !is_same_tool(failed, call) {
        return false;
    }
    if failed.command().is_some() {
        return failed.last_program().is_some_and(|program| call.programs.contains(program));
    }
    let pattern = |call: &CallRecord| call.input.get("pattern").cloned();
    failed.path().is_some() && failed.target() == call.target() && pattern(failed) == pattern(call)
}

fn is_similar_call(failed: &CallRecord, call: &CallRecord) -> bool {
    if failed.tool == CHECK || !is_same_tool(failed, call) {
        return failed.tool == call.tool && failed.input == call.input;
    }
    if failed.command().is_some() {
        let name = program_name(failed.last_program());
        return name.is_some()
            && new_programs(failed, call).any(|program| program_name(Some(program)) == name);
    }
    is_same_target(failed, call)
}

fn new_programs<'a>(
    failed: &'a CallRecord,
    call: &'a CallRecord,
) -> impl Iterator<Item = &'a String> {
    let before = failed.programs.split_last().map_or(&[][..], |(_, before)| before);
    call.programs.iter().filter(|program| !before.contains(program))
}

fn program_name(program: Option<&String>) -> Option<&str> {
    program?.split(' ').next()
}

fn is_same_tool(failed: &CallRecord, call: &CallRecord) -> bool {
    let changes = |call: &CallRecord| CHANGE_TOOLS.contains(&call.tool.as_str());
    failed.tool == call.tool || changes(failed) && changes(call)
}

/// For example `python3 -m pytest` after `pytest`.
fn names_target(failed: &CallRecord, call: &CallRecord) -> bool {
    let Some(line) = call.command() else { return false };
    let is_end = |c: char| c.is_whitespace() || "'\";|&()=".contains(c);
    let mut words = line.split(is_end).filter(|word| !word.is_empty());
    match failed.command() {
        Some(_) => {
            let name = program_name(failed.last_program());
            name.is_some()
                && new_programs(failed, call).next().is_some()
                && words.any(|word| Some(word.rsplit('/').next().unwrap_or(word)) == name)
        }
        None => failed.path().is_some_and(|path| words.any(|word| word == path)),
    }
}

/// The same search in another directory, or a file or folder of the same name there.
fn is_same_search(failed: &CallRecord, call: &CallRecord) -> bool {
    if failed.tool != call.tool
        || failed.command().is_some()
        || CHANGE_TOOLS.contains(&failed.tool.as_str())
    {
        return false;
    }
    let name = |call: &CallRecord| Path::new(call.path()?).file_name().map(OsStr::to_owned);
    match failed.input.get("pattern") {
        Some(pattern) => call.input.get("pattern") == Some(pattern),
        None => name(failed).is_some() && name(failed) == name(call),
    }
}

/// Whether one word alone relates the calls: it may be chance.
pub fn is_related_by_one_word(failed: &CallRecord, call: &CallRecord) -> bool {
    if is_similar_call(failed, call) {
        return false;
    }
    let words = |call| {
        let words = CallRecord::command(call).unwrap_or_default().split_whitespace();
        words.map(|word| word.rsplit('/').next().unwrap_or(word)).collect::<Vec<_>>()
    };
    let (known, others) = (words(failed), words(call));
    let n_shared = known.iter().filter(|word| others.contains(word)).count();
    // Of a file tool that failed a command can name the path only.
    n_shared < 2 && n_shared < known.len().max(usize::from(!others.is_empty()))
}

/// For example `eng/build.sh release` after `make release`, or `Grep` of a text after an unknown `search` for it.
fn shares_argument(failed: &CallRecord, call: &CallRecord) -> bool {
    if failed.failure.as_ref().is_some_and(|failure| failure.code == ErrorCode::UnknownTool) {
        let mut texts = failed.input.values().filter_map(Value::as_str);
        return texts.any(|text| text.len() > 1 && call.input.values().any(|own| own == text));
    }
    let operand = |program: &String| Some(program.split_once(' ')?.1.to_owned());
    let known = failed.last_program().and_then(operand);
    known.is_some() && call.programs.iter().any(|program| operand(program) == known)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::call_record::build_failure;
    use super::*;

    /// `!LINE`: failed; `?LINE`: read-only; `TOOL PATH`: a file tool.
    fn calls(lines: &[&str]) -> Vec<CallRecord> {
        let made = |(n, line): (usize, &&str)| {
            let (line, has_failed) = line.strip_prefix('!').map_or((*line, false), |it| (it, true));
            let (line, acts) = line.strip_prefix('?').map_or((line, true), |it| (it, false));
            let (first, rest) = line.split_once(' ').unwrap_or((line, ""));
            let is_tool = ["Read", "Edit", "Glob"].contains(&first);
            let arguments = if is_tool { json!({"path": rest}) } else { json!({"command": line}) };
            let Value::Object(input) = arguments else { unreachable!() };
            let program = line.split(' ').take(2).collect::<Vec<_>>().join(" ");
            CallRecord {
                seq: n as u64,
                round: u32::try_from(n).unwrap_or_default(),
                id: n.to_string(),
                tool: if is_tool { first } else { "Bash" }.to_owned(),
                failure: has_failed
                    .then(|| build_failure(ErrorCode::CommandFailed, &input, "no", "no", Some(1))),
                programs: if is_tool { Vec::new() } else { vec![program] },
                may_change: acts && first != "Read" && first != "Glob",
                input,
                ..CallRecord::default()
            }
        };
        lines.iter().enumerate().map(made).collect()
    }

    #[track_caller]
    fn check(lines: &[&str], expected: Option<usize>) {
        let (chains, _) = find_chains(&calls(lines));
        assert_eq!(chains.first().and_then(|chain| chain.success), expected, "{lines:?}");
    }

    #[test]
    fn closest_call_resolves_a_failure() {
        check(&["!make test", "npm ci", "make test"], Some(2));
        check(&["!plover apply -r x", "plover apply --help", "plover apply -s x"], Some(2));
        check(&["!vaultic get x", "vaultic help", "?cat a", "vaultic fetch x", "ls"], Some(3));
        check(&["!cargo test --fast", "cargo test", "Edit a", "cargo test -p x"], Some(1));
        check(&["!pytest -q", "?ls", "python3 -m pytest -q"], Some(2));
        check(&["!dotnet build", "?ls eng", "?cat README", "eng/dn.sh build"], Some(3));
        check(&["!Edit a.go", "Read a.go", "Edit a.go"], Some(2));
        check(&["!Read a/x", "Glob .", "Read b/x"], Some(2));
        check(&["!Read x", "Glob .", "Read y"], None);
        check(&["!Read x", "seq 1 3"], None);
        check(&["!Edit a.go", "Edit b.go"], None);
        check(&["!make test", "mkdir out"], None);
        check(&["!git commit -am x", "?git status", "?ls"], None);
        check(&["!git commit -am x", "?git status", "git commit -m x"], Some(2));
        check(&["!make", "Edit a"], None);
        check(&["!make", "!make -j1"], None);
    }

    #[test]
    fn one_shared_word_may_be_chance() {
        for (failed, worked, expected) in [
            ("make release", "eng/build.sh release", true),
            ("bin/make test a.py", "eng/run.sh test a.py", false),
            ("pytest -q", "python3 -m pytest", true),
            ("pytest", "python3 -m pytest", false),
            ("make test", "make check", false),
            ("Read a/x", "Read b/x", false),
            ("Read a/x", "touch a/x", true),
        ] {
            let calls = calls(&[failed, worked]);
            assert_eq!(is_related_by_one_word(&calls[0], &calls[1]), expected, "{failed}");
        }
    }

    #[test]
    fn call_of_the_same_answer_resolves_nothing() {
        let mut calls = calls(&["!Read a/x", "Read b/x", "Read c/x"]);
        calls[1].round = calls[0].round;
        assert_eq!(find_chains(&calls).0[0].success, Some(2));
    }

    #[test]
    fn call_of_an_unknown_tool_is_resolved_by_one_with_its_argument() {
        for (path, resolved) in [("a.go", Some(1)), ("b.go", None)] {
            let mut calls = calls(&["!Glob a.go", &format!("Edit {path}")]);
            calls[0].tool = "str_replace_editor".to_owned();
            calls[0].failure =
                build_failure(ErrorCode::UnknownTool, &calls[0].input, "no", "no", None).into();
            assert_eq!(find_chains(&calls).0[0].success, resolved, "{path}");
        }
    }

    #[test]
    fn each_call_is_in_at_most_one_chain() {
        let (chains, others) = find_chains(&calls(&["!x a", "!x b", "?ls", "x c", "y"]));
        let chain = AttemptChain { failures: vec![0, 1], success: Some(3), is_same_call: false };
        assert_eq!((chains, others), (vec![chain], vec![2, 4]));
    }
}
