//! Redirects a Bash line that only prints one file to Read, so that the file counts as read.
//!
//! Only if the result is the same: a literal path, and all lines as the command prints them. Everything else runs in
//! the shell.

use std::panic::AssertUnwindSafe;

use futures_util::FutureExt as _;
use serde_json::{Value, json};

use super::call::CallContext;
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

const READ: &str = "Read";
const MAX_LINES: u64 = 2000;

impl Registry {
    /// Runs Read instead of a Bash line that only prints one file; `None` if the shell has to run it.
    pub(super) async fn try_redirect(
        &self,
        call: &ToolCall,
        bash: &PreparedCall<'_>,
        context: &mut CallContext,
    ) -> Option<Result<Report, Failure>> {
        if matches!(context.hook_ruling, Some((HookRuling::Ask, _))) {
            return None;
        }
        let input = read_input(&bash.input)?;
        let prepared = self.prepare_replacement(READ, input.clone()).ok()?;
        let target = &prepared.target;
        target.checked_path.as_ref().and_then(|path| path.file_size())?;
        self.update_mode();
        let is_allowed =
            |tool: &str, effect: &Effect| matches!(self.ruling(tool, effect), Ruling::Allow(_));
        if !is_allowed(READ, &target.effect) || !is_allowed("Bash", &bash.target.effect) {
            return None;
        }
        let key = prepared.key;
        let subject = "the Read call that answers this command";
        if let Err(failure) = self.refuse_repetition(subject, key, &target.effect) {
            context.effect = None;
            return Some(Err(failure));
        }
        let mut cx = self.call_cx(&call.id, &prepared, context.cancel.clone());
        // The command prints the bytes of an image.
        cx.takes_images = false;
        let run = AssertUnwindSafe(prepared.entry.tool.run(input.clone(), &cx)).catch_unwind();
        let report = run.await.ok()?.ok()?;
        if !is_complete(&report, &input) {
            let text = report.data.get("content").and_then(Value::as_str).unwrap_or_default();
            if let Some(lines) = output_limits::line_numbers(text) {
                let end = lines.start;
                self.mark_unshown(&Ok(report), &CutLines { lines, end });
            }
            return None;
        }
        context.effect = Some(target.effect.clone());
        self.emit_started(call, &target.effect, context);
        let mut outcome = Ok(annotate_report(report, input));
        let mut state = self.state();
        let epoch = state.repetition.epoch;
        state.repetition.record_outcome(key, &mut outcome, epoch);
        Some(outcome)
    }
}

/// The input of Read that replaces this input of Bash; `None` if the line has to run.
fn read_input(bash: &Object) -> Option<Object> {
    if bash.get("background").and_then(Value::as_bool) == Some(true) {
        return None;
    }
    let stages = CommandLine::parse(bash.get("command")?.as_str()?).literal_stages()?;
    let stages: Vec<Vec<&str>> =
        stages.iter().map(|words| words.iter().map(String::as_str).collect()).collect();
    let (path, start, limit) = match stages.as_slice() {
        [one] => printed_lines(one)?,
        // `cat f | head -n 5`, `nl -ba f | sed -n 1,20p`
        [first, then] => match first.as_slice() {
            ["cat", path] | ["cat", "-n", path] | ["nl", "-ba", path] if is_operand(path) => {
                let filtered = printed_lines(&[then.as_slice(), &[*path]].concat())?;
                Some(filtered).filter(|_| then.first() != Some(&"cat"))?
            }
            _ => return None,
        },
        _ => return None,
    };
    let directory = bash.get("directory").and_then(Value::as_str).filter(|own| *own != ".");
    let path = match directory {
        Some(directory) if !path.starts_with(['/', '~']) => format!("{directory}/{path}"),
        _ => path.to_owned(),
    };
    let mut input = Object::from_iter([("path".to_owned(), path.into())]);
    if let Some(start) = start {
        input.insert("start_line".to_owned(), start.into());
    }
    input.insert("limit".to_owned(), limit.into());
    (1..=MAX_LINES).contains(&limit).then_some(input)
}

/// The report contains everything that the command would have printed; or the first lines of a file that is too large for any
/// result, and where to continue.
fn is_complete(report: &Report, input: &Object) -> bool {
    let start = input.get("start_line").and_then(Value::as_i64);
    (!report.partial || start.is_none_or(|start| start > 0))
        && !report.stats.contains_key("lines_cut")
        && !report.data.contains_key("encoding_guessed")
}

/// The text names the arguments that are no defaults.
fn annotate_report(mut report: Report, input: Object) -> Report {
    let is_default = |name: &str, value: &Value| match name {
        "start_line" => *value == 1,
        name => name == "limit" && *value == MAX_LINES,
    };
    let named = input.iter().filter(|(name, value)| !is_default(name, value));
    let named: Object = named.map(|(name, value)| (name.clone(), value.clone())).collect();
    report.text = format!("Use Read tool instead of Bash: {}. {}", json!(named), report.text);
    let is_cut = report.data.get("end_line") != report.data.get("total_lines");
    report.partial |= is_cut && input.get("limit").is_some_and(|limit| *limit == MAX_LINES);
    report.data.insert("redirected_to".to_owned(), json!({"tool": READ, "input": input}));
    report
}

/// The file that the command prints, the first line, and the number of lines. A negative line counts from the end.
fn printed_lines<'a>(words: &[&'a str]) -> Option<(&'a str, Option<i64>, u64)> {
    let (program, arguments) = words.split_first()?;
    match (*program, arguments) {
        ("cat", ["-n", path] | [path]) if is_operand(path) => Some((*path, None, MAX_LINES)),
        ("head", _) => {
            let (n, path) = count_and_path(arguments)?;
            Some((path, Some(1), n.parse().ok()?))
        }
        ("tail", _) => {
            let (n, path) = count_and_path(arguments)?;
            match n.strip_prefix('+') {
                Some(from) => {
                    Some((path, Some(from.parse::<i64>().ok().filter(|n| *n > 0)?), MAX_LINES))
                }
                None => Some((path, Some(-n.parse::<i64>().ok()?), n.parse().ok()?)),
            }
        }
        ("sed", ["-n", script, path]) if is_operand(path) => {
            let range = script.strip_suffix('p')?;
            let (first, last) = range.split_once(',').unwrap_or((range, range));
            let first = first.parse::<u64>().ok().filter(|n| *n > 0)?;
            let limit = match last {
                "$" => MAX_LINES,
                last => last.parse::<u64>().ok()?.checked_sub(first)?.checked_add(1)?,
            };
            Some((*path, Some(i64::try_from(first).ok()?), limit))
        }
        _ => None,
    }
}

/// The number of `head` and `tail`, 10 if there is none, and the file.
fn count_and_path<'a>(arguments: &[&'a str]) -> Option<(&'a str, &'a str)> {
    let (n, path) = match arguments {
        ["-n", n, path] => (*n, path),
        [option, path] if option.starts_with("-n") => (&option[2..], path),
        [option, path] if !option.starts_with("-+") => (option.strip_prefix('-')?, path),
        [path] => ("10", path),
        _ => return None,
    };
    let digits = n.strip_prefix('+').unwrap_or(n);
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    (is_number && is_operand(path)).then_some((n, *path))
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
        assert_eq!(read_input(&input).map(Value::Object).as_ref(), expected, "{line}");
    }

    fn read(line: &str, start: i64, limit: u64) {
        let input = json!({"path": "a.rs", "start_line": start, "limit": limit});
        check(line, Some(&input));
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
            "grep -n x a.rs",
            "rg x a.rs",
            "nl a.rs | head",
            "cat a.rs | cat",
            "sed -n 1,-9223372036854775808p a.rs",
            "sed -n 5,2p a.rs",
            "find . -type f -name '*.md'",
            "ls",
            "tree",
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
        assert_eq!(read_input(&input), None);
    }

    #[test]
    fn redirect_considers_the_directory_argument() {
        let Value::Object(input) = json!({"command": "cat a.rs", "directory": "src"}) else {
            unreachable!()
        };
        let path = read_input(&input).map(|input| input["path"].clone());
        assert_eq!(path, Some(json!("src/a.rs")));
    }
}
