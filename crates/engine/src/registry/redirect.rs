//! Redirects a Bash line that is exactly one simple command that reads a file to Read, with the same result.
//!
//! Only if the meaning is the same: a literal path, options that Read has too, and a complete result. Everything
//! else runs in the shell.

use std::panic::AssertUnwindSafe;

use futures_util::FutureExt as _;
use serde_json::{Value, json};

use super::call::CallInProgress;
use super::prepare::PreparedCall;
use super::{Registry, output_limits};
use agent_host::workspace::CutLines;
use agent_permission::CommandLine;
use agent_protocol::Object;
use agent_protocol::control::Ruling;
use agent_protocol::envelope::{Failure, Report};
use agent_protocol::hook::HookRuling;
use agent_protocol::message::ToolCall;
use agent_protocol::tool::Effect;

const TOOL: &str = "Read";
const MAX_LINES: u64 = 2000;

impl Registry {
    /// Runs Read instead of a Bash line that is exactly one simple command that reads a file, with the same
    /// result; `None` if the shell has to run it.
    pub(super) async fn try_redirect(
        &self,
        call: &ToolCall,
        bash: &PreparedCall<'_>,
        record: &mut CallInProgress,
    ) -> Option<Result<Report, Failure>> {
        if matches!(record.hook_ruling, Some((HookRuling::Ask, _))) {
            return None;
        }
        let input = redirect_line(&bash.input)?;
        let prepared = self.prepare_replacement(TOOL, input.clone()).ok()?;
        let target = &prepared.target;
        self.cx.workspace.file_size(target.resolved_path.as_ref()?)?;
        self.update_mode();
        let is_allowed =
            |tool: &str, effect: &Effect| matches!(self.ruling(tool, effect), Ruling::Allow(_));
        if !is_allowed(TOOL, &target.effect) || !is_allowed("Bash", &bash.target.effect) {
            return None;
        }
        let key = prepared.key;
        let subject = format!("the {TOOL} call that answers this command");
        if let Err(failure) = self.refuse_repetition(&subject, key, &target.effect) {
            record.effect = None;
            return Some(Err(failure));
        }
        let mut cx = self.call_cx(&call.id, &prepared, record.cancel.clone());
        // The command prints the bytes of an image.
        cx.takes_images = false;
        let run = prepared.entry.tool.run(input.clone(), &cx);
        let run = AssertUnwindSafe(run).catch_unwind();
        let report = run.await.ok()?.ok()?;
        if !is_complete(&input, &report) {
            let text = report.data.get("content").and_then(Value::as_str).unwrap_or_default();
            if let Some(lines) = output_limits::line_numbers(text) {
                let end = lines.start;
                self.mark_unshown(&Ok(report), &CutLines { lines, end });
            }
            return None;
        }
        record.effect = Some(target.effect.clone());
        self.emit_started(call, &target.effect, record);
        let mut outcome = Ok(annotate_report(&input, report));
        let mut state = self.state();
        let epoch = state.repetition.epoch;
        state.repetition.record_outcome(key, &mut outcome, epoch);
        Some(outcome)
    }
}

/// The input of Read that replaces this input of Bash; `None` if the line has to run.
fn redirect_line(bash: &Object) -> Option<Object> {
    if bash.get("background").and_then(Value::as_bool) == Some(true) {
        return None;
    }
    let stages = CommandLine::parse(bash.get("command")?.as_str()?).literal_stages()?;
    let stages: Vec<Vec<&str>> =
        stages.iter().map(|words| words.iter().map(String::as_str).collect()).collect();
    let read = match stages.as_slice() {
        [one] => redirect_command(one)?,
        [first, then] => redirect_pipeline(first, then)?,
        _ => return None,
    };
    let Value::Object(mut input) = read else { return None };
    if let Some(directory) = bash.get("directory").and_then(Value::as_str)
        && directory != "."
    {
        let path = input.get("path")?.as_str()?;
        if !path.starts_with(['/', '~']) {
            let path = format!("{directory}/{path}");
            input.insert("path".to_owned(), path.into());
        }
    }
    Some(input)
}

/// The report contains everything that the command would have printed; or the first lines of a file that is too large
/// for any result, and where to continue.
fn is_complete(input: &Object, report: &Report) -> bool {
    let start = input.get("start_line").and_then(Value::as_i64);
    !report.stats.contains_key("lines_cut")
        && !report.data.contains_key("encoding_guessed")
        && (!report.partial || start.is_none_or(|start| start > 0))
}

/// The text names the parameters that the model knows and needs.
fn annotate_report(input: &Object, mut report: Report) -> Report {
    let is_default = |name: &str, value: &Value| match name {
        "start_line" => *value == 1,
        _ => *value == MAX_LINES,
    };
    let named = input.iter().filter(|(name, value)| !is_default(name, value));
    let named: Object = named.map(|(name, value)| (name.clone(), value.clone())).collect();
    report.text = format!("Use {TOOL} tool instead of Bash: {}. {}", json!(named), report.text);
    let is_cut = report.data.get("end_line") != report.data.get("total_lines");
    report.partial |= is_cut && input["limit"] == MAX_LINES;
    report.data.insert("redirected_to".to_owned(), json!({"tool": TOOL, "input": input}));
    report
}

fn redirect_command(words: &[&str]) -> Option<Value> {
    let (program, arguments) = words.split_first()?;
    match *program {
        "cat" => redirect_cat(arguments),
        "head" => {
            let (n, path) = count_and_path(arguments)?;
            read_lines(path?, 1, n.parse().ok()?)
        }
        "tail" => {
            let (n, path) = count_and_path(arguments)?;
            read_last_lines(path?, n)
        }
        "sed" => {
            let (range, path) = sed_range_and_path(arguments)?;
            read_lines(path?, range.0, range.1)
        }
        _ => None,
    }
}

/// `cat f | head -n 5`, `nl -ba f | sed -n 1,20p`.
fn redirect_pipeline(first: &[&str], then: &[&str]) -> Option<Value> {
    let whole = first.strip_prefix(&["cat"]).or(first.strip_prefix(&["nl", "-ba"]))?;
    let read = redirect_cat(whole)?;
    if !matches!(then.first(), Some(&("head" | "tail" | "sed"))) {
        return None;
    }
    redirect_command(&[then, &[read["path"].as_str()?]].concat())
}

fn redirect_cat(arguments: &[&str]) -> Option<Value> {
    match arguments {
        ["-n", path] | [path] if is_operand(path) => {
            Some(json!({"path": path, "limit": MAX_LINES}))
        }
        _ => None,
    }
}

fn read_lines(path: &str, start: i64, limit: u64) -> Option<Value> {
    let is_possible = start > 0 && (1..=MAX_LINES).contains(&limit);
    is_possible.then(|| json!({"path": path, "start_line": start, "limit": limit}))
}

fn read_last_lines(path: &str, n: &str) -> Option<Value> {
    if let Some(from) = n.strip_prefix('+') {
        return read_lines(path, from.parse().ok()?, MAX_LINES);
    }
    let n: u64 = n.parse().ok()?;
    let start = i64::try_from(n).ok()?;
    let is_possible = (1..=MAX_LINES).contains(&n);
    is_possible.then(|| json!({"path": path, "start_line": -start, "limit": n}))
}

/// The number of `head` and `tail`, 10 if there is none, and the file.
fn count_and_path<'a>(arguments: &[&'a str]) -> Option<(&'a str, Option<&'a str>)> {
    let (n, rest) = match arguments {
        ["-n", n, rest @ ..] => (*n, rest),
        [option, rest @ ..] if option.starts_with("-n") => (&option[2..], rest),
        [option, rest @ ..] if is_number(option.strip_prefix('-')) => (&option[1..], rest),
        rest => ("10", rest),
    };
    if !is_number(n.strip_prefix('+').or(Some(n))) {
        return None;
    }
    is_file_or_nothing(rest).then(|| (n, rest.first().copied()))
}

fn is_file_or_nothing(rest: &[&str]) -> bool {
    matches!(rest, []) || matches!(rest, [path] if is_operand(path))
}

/// The first line and the number of lines of `sed -n A,Bp`, and the file.
fn sed_range_and_path<'a>(arguments: &[&'a str]) -> Option<((i64, u64), Option<&'a str>)> {
    let ["-n", script, rest @ ..] = arguments else { return None };
    let range = script.strip_suffix('p')?;
    let (first, last) = range.split_once(',').unwrap_or((range, range));
    let first: i64 = first.parse().ok()?;
    let limit = match last {
        "$" => MAX_LINES,
        last => {
            last.parse::<u64>().ok()?.checked_sub(u64::try_from(first).ok()?)?.checked_add(1)?
        }
    };
    is_file_or_nothing(rest).then(|| ((first, limit), rest.first().copied()))
}

fn is_number(text: Option<&str>) -> bool {
    text.is_some_and(|text| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Neither an option nor standard input.
fn is_operand(word: &str) -> bool {
    !word.is_empty() && !word.starts_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, expected: Option<&Value>) {
        let Value::Object(input) = json!({"command": line}) else { unreachable!() };
        let found = redirect_line(&input).map(Value::Object);
        assert_eq!(found.as_ref(), expected, "{line}");
    }

    fn read(line: &str, start: i64, limit: u64) {
        check(line, Some(&json!({"path": "a.rs", "start_line": start, "limit": limit})));
    }

    #[test]
    fn file_reading_commands_are_redirected() {
        check("cat a.rs", Some(&json!({"path": "a.rs", "limit": 2000})));
        check("cat -n 'a b.rs'", Some(&json!({"path": "a b.rs", "limit": 2000})));
        read("head a.rs", 1, 10);
        read("head -n 50 a.rs", 1, 50);
        read("head -50 a.rs", 1, 50);
        read("head -n50 a.rs", 1, 50);
        read("tail a.rs", -10, 10);
        read("tail -n +20 a.rs", 20, 2000);
        read("sed -n 5,20p a.rs", 5, 16);
        read("sed -n '7p' a.rs", 7, 1);
        read("sed -n '5,$p' a.rs", 5, 2000);
        read("cat a.rs | head -n 3", 1, 3);
        read("nl -ba a.rs | sed -n '1,9p'", 1, 9);
    }

    #[test]
    fn other_commands_are_not_redirected() {
        for line in [
            "cat a b",
            "cat *.rs",
            "cat $FILE",
            "cat a.rs > b",
            "cat < a.rs",
            "cat a.rs; ls",
            "cd src && cat a.rs",
            "cat a.rs | wc -l",
            "cat -A a.rs",
            "head -c 5 a.rs",
            "tail -f a.rs",
            "sed -n '/x/p' a.rs",
            "sed -i s/a/b/ a.rs",
            "sed 5q a.rs",
            "sed -n 1,-9223372036854775808p a.rs",
            "sed -n 5,2p a.rs",
            "grep -rn 'x y' src",
            "grep -rn x src | head -20",
            "rg -n x a.rs",
            "find . -type f -name '*.md'",
            "ls",
            "ls -a src",
            "wc -l a.rs",
            "X=1 cat a.rs",
            "! cat a.rs",
            "cat a.rs &",
        ] {
            check(line, None);
        }
        let Value::Object(input) = json!({"command": "cat a.rs", "background": true}) else {
            unreachable!()
        };
        assert_eq!(redirect_line(&input), None);
    }

    #[test]
    fn redirect_considers_the_directory_argument() {
        let Value::Object(input) = json!({"command": "cat a.rs", "directory": "src"}) else {
            unreachable!()
        };
        let path = redirect_line(&input).map(|read| read["path"].clone());
        assert_eq!(path, Some(json!("src/a.rs")));
    }
}
