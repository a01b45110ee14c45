//! Redirects a Bash line that is exactly one simple reading command to the file tool with the same result.
//!
//! Only if the meaning is the same: literal paths, options that the tool has too, a pattern without regex
//! operators, and a complete result. Everything else runs in the shell.

use std::panic::AssertUnwindSafe;

use futures_util::FutureExt as _;
use serde_json::{Value, json};

use super::call::CallRecord;
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

const MAX_LINES: u64 = 2000;
const MAX_MATCHES: u64 = 1000;
const MAX_FILES: u64 = 200;

impl Registry {
    /// Runs a file tool instead of a Bash line that is exactly one simple reading command with the same
    /// result; `None` if the shell has to run it.
    pub(super) async fn try_redirect(
        &self,
        call: &ToolCall,
        bash: &PreparedCall<'_>,
        record: &mut CallRecord,
    ) -> Option<Result<Report, Failure>> {
        if matches!(record.hook_ruling, Some((HookRuling::Ask, _))) {
            return None;
        }
        let redirect = redirect_line(&bash.input)?;
        let prepared = self.prepare_replacement(redirect.tool, redirect.input.clone()).ok()?;
        let target = &prepared.target;
        let file_size =
            target.checked_path.as_ref().and_then(|path| self.cx.workspace.file_size(path));
        if (redirect.needs_file || redirect.tool == "Read") && file_size.is_none() {
            return None;
        }
        self.update_mode();
        let is_allowed =
            |tool: &str, effect: &Effect| matches!(self.ruling(tool, effect), Ruling::Allow(_));
        if !is_allowed(redirect.tool, &target.effect) || !is_allowed("Bash", &bash.target.effect) {
            return None;
        }
        let key = prepared.key;
        let subject = format!("the {} call that answers this command", redirect.tool);
        if let Err(failure) = self.refuse_repetition(&subject, key, &target.effect) {
            record.effect = None;
            return Some(Err(failure));
        }
        let mut cx = self.call_cx(&call.id, &prepared, record.cancel.clone());
        // The command prints the bytes of an image.
        cx.takes_images = false;
        let run = prepared.entry.tool.run(redirect.input.clone(), &cx);
        let run = AssertUnwindSafe(run).catch_unwind();
        let report = run.await.ok()?.ok()?;
        if !redirect.is_complete(&report) {
            let text = report.data.get("content").and_then(Value::as_str).unwrap_or_default();
            if let Some(lines) = output_limits::line_numbers(text) {
                let end = lines.start;
                self.mark_unshown(&Ok(report), &CutLines { lines, end });
            }
            return None;
        }
        record.effect = Some(target.effect.clone());
        self.emit_started(call, &target.effect, record);
        let schema = &prepared.entry.tool.spec().schema;
        let mut outcome = Ok(redirect.annotate_report(report, schema));
        let mut state = self.state();
        let epoch = state.repetition.epoch;
        state.repetition.record_outcome(key, &mut outcome, epoch);
        Some(outcome)
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Redirect {
    tool: &'static str,
    input: Object,
    needs_file: bool,
    /// Only a result of at most this many lines is the same (`… | head`).
    max_lines: Option<u64>,
}

/// The call that replaces this input of Bash; `None` if the line has to run.
fn redirect_line(input: &Object) -> Option<Redirect> {
    if input.get("background").and_then(Value::as_bool) == Some(true) {
        return None;
    }
    let stages = CommandLine::parse(input.get("command")?.as_str()?).literal_stages()?;
    let stages: Vec<Vec<&str>> =
        stages.iter().map(|words| words.iter().map(String::as_str).collect()).collect();
    let mut redirect = match stages.as_slice() {
        [one] => redirect_command(one)?,
        [first, then] => redirect_pipeline(first, then)?,
        _ => return None,
    };
    if let Some(directory) = input.get("directory").and_then(Value::as_str)
        && directory != "."
    {
        let path = redirect.input.get("path").and_then(Value::as_str).unwrap_or(".").to_owned();
        if !path.starts_with(['/', '~']) {
            redirect.set_argument("path", format!("{directory}/{path}"));
        }
    }
    Some(redirect)
}

impl Redirect {
    fn new(tool: &'static str, input: Value) -> Option<Self> {
        let Value::Object(input) = input else { return None };
        Some(Self { tool, input, needs_file: false, max_lines: None })
    }

    fn set_argument(&mut self, name: &str, value: impl Into<Value>) {
        self.input.insert(name.to_owned(), value.into());
    }

    /// The report contains everything that the command would have printed; or the first lines of a file that is too large
    /// for any result, and where to continue.
    fn is_complete(&self, report: &Report) -> bool {
        let left_out = [
            "secret_skipped",
            "withheld",
            "binary_skipped",
            "unreadable",
            "git_skipped",
            "too_long",
            "lines_cut",
            "links",
        ];
        let left_out = if self.tool == "LS" { &[] } else { &left_out[..] };
        let is_skipped = |name: &&str| report.stats.get(*name).and_then(Value::as_u64) > Some(0);
        if left_out.iter().any(is_skipped) || report.data.contains_key("encoding_guessed") {
            return false;
        }
        let limit = self.input.get("limit").and_then(Value::as_u64);
        match self.tool {
            "Read" => {
                let start = self.input.get("start_line").and_then(Value::as_i64);
                !report.partial || start.is_none_or(|start| start > 0)
            }
            _ => {
                let rows = ["matches", "files", "paths", "entries"];
                let rows = rows.iter().find_map(|name| report.data.get(*name)?.as_array());
                let rows = rows.map_or(&[][..], Vec::as_slice);
                !report.partial
                    && Some(rows.len() as u64) < limit
                    && self.max_lines.is_none_or(|most| printed_lines(rows) <= most)
                    && !self.selects_named_file(report, rows)
            }
        }
    }

    /// A match in the named file: grep compares its name with `--include`, too.
    fn selects_named_file(&self, report: &Report, rows: &[Value]) -> bool {
        let is_named = |row: &Value| {
            let file = row.as_str().or_else(|| row["file"].as_str());
            file.is_some() && file == report.path.as_deref()
        };
        self.input.contains_key("file_pattern") && rows.iter().any(is_named)
    }

    /// The text names the parameters that the model knows and needs.
    fn annotate_report(self, mut report: Report, schema: &Value) -> Report {
        let is_default = |name: &str, value: &Value| match name {
            "path" => value == ".",
            "start_line" => *value == 1,
            name => *value == MAX_LINES || schema["properties"][name]["x-unlisted"] == true,
        };
        let named = self.input.iter().filter(|(name, value)| !is_default(name, value));
        let named: Object = named.map(|(name, value)| (name.clone(), value.clone())).collect();
        let (tool, input) = (self.tool, Value::Object(self.input));
        let named = if named.is_empty() { String::new() } else { format!(": {}", json!(named)) };
        report.text = format!("Use {tool} tool instead of Bash{named}. {}", report.text);
        let is_cut = report.data.get("end_line") != report.data.get("total_lines");
        report.partial |= is_cut && input["limit"] == MAX_LINES;
        report.data.insert("redirected_to".to_owned(), json!({"tool": tool, "input": input}));
        report
    }
}

/// The number of lines that a command prints for these rows, including context lines and `--` separators.
fn printed_lines(rows: &[Value]) -> u64 {
    let around = |row: &Value, side: &str| row[side].as_array().map_or(0, Vec::len);
    let lines = rows.iter().map(|row| 1 + around(row, "before") + around(row, "after"));
    let has_context = rows.iter().any(|row| around(row, "before") + around(row, "after") > 0);
    let separators = if has_context { rows.len() - 1 } else { 0 };
    (lines.sum::<usize>() + separators) as u64
}

fn redirect_command(words: &[&str]) -> Option<Redirect> {
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
        "grep" => redirect_grep(arguments),
        "rg" => redirect_ripgrep(arguments),
        "find" => redirect_find(arguments),
        "ls" => redirect_ls(arguments),
        _ => None,
    }
}

/// `cat f | head -n 5`, `nl -ba f | sed -n 1,20p`, `grep -rn x src | head`.
fn redirect_pipeline(first: &[&str], then: &[&str]) -> Option<Redirect> {
    let numbered = first.strip_prefix(&["nl", "-ba"]);
    if let Some(whole) = first.strip_prefix(&["cat"]).or(numbered) {
        let Redirect { input, .. } = redirect_cat(whole)?;
        let path = input.get("path")?.as_str()?;
        if !matches!(then.first(), Some(&("head" | "tail" | "sed"))) {
            return None;
        }
        return redirect_command(&[then, &[path]].concat());
    }
    let arguments = then.strip_prefix(&["head"])?;
    let (n, None) = count_and_path(arguments)? else { return None };
    let redirect = redirect_command(first).filter(|redirect| redirect.tool != "Read")?;
    Some(Redirect { max_lines: Some(n.parse().ok()?), ..redirect })
}

fn redirect_cat(arguments: &[&str]) -> Option<Redirect> {
    match arguments {
        ["-n", path] | [path] if is_operand(path) => {
            Redirect::new("Read", json!({"path": path, "limit": MAX_LINES}))
        }
        _ => None,
    }
}

fn read_lines(path: &str, start: i64, limit: u64) -> Option<Redirect> {
    let input = json!({"path": path, "start_line": start, "limit": limit});
    Redirect::new("Read", input).filter(|_| start > 0 && (1..=MAX_LINES).contains(&limit))
}

fn read_last_lines(path: &str, n: &str) -> Option<Redirect> {
    if let Some(from) = n.strip_prefix('+') {
        return read_lines(path, from.parse().ok()?, MAX_LINES);
    }
    let n: u64 = n.parse().ok()?;
    let start = i64::try_from(n).ok()?;
    let input = json!({"path": path, "start_line": -start, "limit": n});
    Redirect::new("Read", input).filter(|_| (1..=MAX_LINES).contains(&n))
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

fn redirect_grep(arguments: &[&str]) -> Option<Redirect> {
    let mut search = GrepOptions::default();
    let mut is_recursive = false;
    let mut is_extended = false;
    let rest = search.parse_options(arguments, |option| {
        match option {
            'r' => is_recursive = true,
            'E' => is_extended = true,
            'H' | 's' => {}
            _ => return false,
        }
        true
    })?;
    let (pattern, path) = match rest.as_slice() {
        [pattern] if is_recursive => (*pattern, "."),
        [pattern, path] => (*pattern, *path),
        _ => return None,
    };
    // Grep searches all files below a directory, including git's (`git_skipped`); for the project the result
    // is known beforehand.
    let is_whole_project = is_recursive && matches!(path.trim_end_matches('/'), "." | "");
    if is_whole_project || search.file_pattern.is_some() && !is_recursive {
        return None;
    }
    let mut redirect = search.to_redirect(pattern, path, is_extended)?;
    redirect.needs_file = !is_recursive;
    redirect.set_argument("include_hidden", true);
    redirect.set_argument("include_ignored", true);
    Some(redirect)
}

/// Only a search in one file: in directories ripgrep applies more rules than the tool.
fn redirect_ripgrep(arguments: &[&str]) -> Option<Redirect> {
    let mut search = GrepOptions::default();
    let operands = search.parse_options(arguments, |_| false)?;
    let [pattern, path] = operands.as_slice() else { return None };
    let redirect = search.to_redirect(pattern, path, true)?;
    search.file_pattern.is_none().then_some(Redirect { needs_file: true, ..redirect })
}

#[derive(Default)]
struct GrepOptions {
    is_fixed: bool,
    is_caseless: bool,
    lists_files: bool,
    context: Option<u64>,
    file_pattern: Option<String>,
}

impl GrepOptions {
    /// Parses the options; the operands are left. `own`: accepts an option that only one of the programs has.
    fn parse_options<'a>(
        &mut self,
        arguments: &[&'a str],
        mut own: impl FnMut(char) -> bool,
    ) -> Option<Vec<&'a str>> {
        let mut operands = Vec::new();
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            if let Some(glob) = argument.strip_prefix("--include=") {
                // (Grep compares names only, and does not support braces.)
                let is_same = self.file_pattern.is_none() && !glob.contains(['{', '/', '\\']);
                self.file_pattern = Some(glob.to_owned()).filter(|_| is_same);
                self.file_pattern.as_ref()?;
            } else if *argument == "-C" {
                self.context = Some(rest.next()?.parse().ok()?);
            } else if *argument == "--" {
                operands.extend(rest.by_ref());
            } else if let Some(letters) = argument.strip_prefix('-').filter(|all| !all.is_empty()) {
                for option in letters.chars() {
                    match option {
                        'n' => {}
                        'i' => self.is_caseless = true,
                        'F' => self.is_fixed = true,
                        'l' => self.lists_files = true,
                        option if own(option) => {}
                        _ => return None,
                    }
                }
            } else {
                operands.push(*argument);
            }
        }
        Some(operands)
    }

    fn to_redirect(&self, pattern: &str, path: &str, is_extended: bool) -> Option<Redirect> {
        if !self.is_fixed && !is_common_regex(pattern, is_extended) {
            return None;
        }
        let input = json!({"pattern": pattern, "path": path, "limit": MAX_MATCHES});
        let mut redirect = Redirect::new("Grep", input)?;
        if self.is_fixed {
            redirect.set_argument("fixed_string", true);
        }
        if self.is_caseless {
            redirect.set_argument("case_sensitive", false);
        }
        if self.lists_files {
            redirect.set_argument("output", "files");
        }
        if let Some(context) = self.context {
            redirect.set_argument("context", context);
        }
        if let Some(glob) = &self.file_pattern {
            redirect.set_argument("file_pattern", glob.as_str());
        }
        Some(redirect).filter(|_| self.context.is_none_or(|n| n <= 10) && is_operand(path))
    }
}

/// The same lines match a basic or extended POSIX expression and one of the tool's: text, with `^`
/// before it and `|` in extended ones. (For the tool, unlike for grep, a line ends before `\r\n`, which `.`
/// and `$` can match.)
fn is_common_regex(pattern: &str, is_extended: bool) -> bool {
    let special = if is_extended { ".*+?(){}[]\\^$" } else { ".*+?|(){}[]\\^$" };
    let text = pattern.strip_prefix('^').unwrap_or(pattern);
    text.chars().all(|char| !char.is_control() && !special.contains(char))
}

/// `find DIR -type f -name GLOB`.
fn redirect_find(arguments: &[&str]) -> Option<Redirect> {
    let (path, tests) = match arguments {
        [path, rest @ ..] if is_operand(path) => (*path, rest),
        rest => (".", rest),
    };
    let glob = match tests {
        ["-type", "f", "-name", glob] | ["-name", glob, "-type", "f"] => *glob,
        _ => return None,
    };
    // (A pattern without an extension may match git's own files.)
    let is_simple = glob.contains('.') && !glob.contains(['[', '{', '\\', '/']);
    let input = json!({
        "pattern": format!("**/{glob}"), "path": path, "limit": MAX_FILES,
        "include_hidden": true, "include_ignored": true,
    });
    Redirect::new("Glob", input).filter(|_| is_simple)
}

fn redirect_ls(arguments: &[&str]) -> Option<Redirect> {
    let (options, path) = match arguments {
        [] => ("", "."),
        [option] if option.starts_with('-') => (*option, "."),
        [option, path] if option.starts_with('-') && is_operand(path) => (*option, *path),
        [path] if is_operand(path) => ("", *path),
        _ => return None,
    };
    // All files that are not hidden, ignored or not.
    let mut input = json!({"path": path, "include_hidden": true, "limit": MAX_FILES});
    match options {
        "" | "-1" => input["ignore"] = json!([".*"]),
        "-a" | "-A" | "-1a" | "-a1" | "-1A" | "-A1" => {}
        _ => return None,
    }
    Redirect::new("LS", input)
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

    fn check(line: &str, expected: Option<&(&str, Value)>) {
        let Value::Object(input) = json!({"command": line}) else { unreachable!() };
        let found = redirect_line(&input).map(|it| (it.tool, Value::Object(it.input)));
        assert_eq!(found.as_ref(), expected, "{line}");
    }

    fn read(line: &str, start: i64, limit: u64) {
        let input = json!({"path": "a.rs", "start_line": start, "limit": limit});
        check(line, Some(&("Read", input)));
    }

    #[test]
    fn file_reading_commands_are_redirected() {
        check("cat a.rs", Some(&("Read", json!({"path": "a.rs", "limit": 2000}))));
        check("cat -n 'a b.rs'", Some(&("Read", json!({"path": "a b.rs", "limit": 2000}))));
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
    fn search_and_list_commands_are_redirected() {
        let all = json!({"pattern": "x y", "path": "src", "limit": 1000, "include_hidden": true, "include_ignored": true});
        check("grep -rn 'x y' src", Some(&("Grep", all.clone())));
        check("grep -rn 'x y' src | head -20", Some(&("Grep", all)));
        check(
            "rg -n -i foo a.rs",
            Some(&(
                "Grep",
                json!({"pattern": "foo", "path": "a.rs", "limit": 1000, "case_sensitive": false}),
            )),
        );
        let found = json!({"pattern": "**/*.md", "path": ".", "limit": 200, "include_hidden": true, "include_ignored": true});
        check("find . -type f -name '*.md'", Some(&("Glob", found)));
        check(
            "ls",
            Some(&(
                "LS",
                json!({"path": ".", "include_hidden": true, "limit": 200, "ignore": [".*"]}),
            )),
        );
        check(
            "ls -a src",
            Some(&("LS", json!({"path": "src", "include_hidden": true, "limit": 200}))),
        );
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
            "grep -rn x .",
            "grep -rn 'a\\|b' src",
            "grep -Rn x src",
            "grep -rn 'x$' src",
            "grep -rn 'x^' src",
            "grep -rn 'x.y' src",
            "grep -rnE '(?i)x' src",
            "grep -rnE 'x+?' src",
            "grep -rn --include=*.rs --include=*.md x src",
            "grep -rn '--include=*.{rs,md}' x src",
            "grep --include=*.rs x a.rs",
            "rg foo",
            "rg -g '*.rs' foo a.rs",
            "rg 'f.o' a.rs",
            "sed -n 1,-9223372036854775808p a.rs",
            "sed -n 5,2p a.rs",
            "find . -name '*.md'",
            "grep -rn 'f(x)' src",
            "grep -v x a.rs",
            "grep x",
            "grep -rn x src | sort",
            "find . -name '*.pyc' -delete",
            "find . -type d",
            "find . -name build",
            "ls -l",
            "ls src tests",
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
        assert_eq!(redirect_line(&input), None);
    }

    #[test]
    fn redirect_considers_the_directory_argument() {
        let Value::Object(input) = json!({"command": "cat a.rs", "directory": "src"}) else {
            unreachable!()
        };
        let path = redirect_line(&input).map(|redirect| redirect.input["path"].clone());
        assert_eq!(path, Some(json!("src/a.rs")));
    }
}
