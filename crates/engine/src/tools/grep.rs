//! Grep: searches text in files, in-process and with several threads.

use std::time::Duration;

use grep_regex::RegexMatcherBuilder;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::file_tool::FileTool;
use super::files::{
    Aborted, HINT_TIME, Stop, cancelled, elsewhere, hint_entries, matching, object, place,
};
use super::{Tool, ToolCx, pattern, spec};
use agent_host::workspace::{CheckedPath, ProjectPath, Rules};
use agent_protocol::embedded;
use agent_protocol::envelope::{ErrorCode, Failure, Report};
use agent_protocol::{Object, counted};

mod matcher;
mod search;
mod sink;

use matcher::LineMatcher;
use search::{Found, Search};

#[derive(Clone, Debug, Deserialize, Serialize)]
#[expect(clippy::struct_excessive_bools, reason = "they are the tool's parameters")]
struct Args {
    pattern: String,
    #[serde(default = "here")]
    path: String,
    #[serde(alias = "include")]
    file_pattern: Option<String>,
    #[serde(default = "yes")]
    case_sensitive: bool,
    #[serde(default)]
    fixed_string: bool,
    #[serde(default)]
    multiline: bool,
    #[serde(default)]
    context: usize,
    #[serde(default)]
    output: Output,
    #[serde(default = "hundred")]
    limit: usize,
    #[serde(default)]
    include_hidden: bool,
    #[serde(default)]
    include_ignored: bool,
}

/// The fields of a match that are returned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
enum Output {
    #[default]
    Matches,
    Files,
    Count,
}

fn here() -> String {
    ".".to_owned()
}

fn yes() -> bool {
    true
}

fn hundred() -> usize {
    100
}

/// The tool with its default time limit.
pub(super) fn tool() -> impl Tool {
    with_limit(Duration::from_secs(10))
}

/// The tool with this limit of time.
fn with_limit(time: Duration) -> impl Tool {
    let spec = spec("Grep", embedded::GREP);
    FileTool::looking(
        spec,
        |args: &Args| &args.path,
        move |args, cx, checked_path| grep(args, cx, checked_path, time),
    )
}

fn grep(
    args: &Args,
    cx: &ToolCx,
    checked_path: &CheckedPath,
    time: Duration,
) -> Result<Report, Failure> {
    let (workspace, path) = (&*cx.workspace, checked_path.path());
    let one_file = !workspace.look(checked_path)?.is_dir();
    if one_file {
        // Distinguishes an unreadable file from one without a match.
        workspace.open_file(path)?;
    } else {
        // Distinguishes an unreadable folder from an empty one.
        workspace.entries_like(path, 1, &|_, _| false)?;
    }
    let search = Search {
        workspace,
        matcher: matcher(args)?,
        file_pattern: match &args.file_pattern {
            Some(glob) => Some(pattern::compile(glob, true)?),
            None => None,
        },
        multiline: args.multiline,
        context: args.context,
        output: args.output,
        limit: args.limit,
        withheld: &cx.withheld,
        stop: Stop::after(time, cx.cancel.clone()),
    };
    let rules =
        Rules { include_hidden: args.include_hidden, include_ignored: args.include_ignored };
    let look = |search: &Search<'_>, rules: Rules| {
        if one_file { Ok(search.file(path)) } else { search.folder(path, rules) }
    };
    let found = look(&search, rules)?;
    let aborted = search.stop.reason();
    if aborted == Some(Aborted::Cancelled) {
        return Err(cancelled());
    }
    if aborted.is_some() && found.files.is_empty() {
        let message = format!(
            "no match for {:?} was found in the {} searched before the time limit was reached",
            args.pattern,
            counted(found.searched, "file")
        );
        return Err(Failure::new(ErrorCode::Timeout, message)
            .hint("name a smaller folder in `path`, or a file_pattern")
            .at(path.relative()));
    }
    let mut report = report(args, path, &found, aborted);
    if found.matched_files == 0 && aborted.is_none() {
        let again = || {
            let stop = Stop::after(HINT_TIME / 2, cx.cancel.clone())
                .with_max_entries(hint_entries(search.stop.visited()) / 2);
            Search { limit: 1, context: 0, stop, ..search.clone() }
        };
        if let (Some(matcher), 1..) = (caseless(args), found.searched) {
            let search = Search { matcher, output: Output::Matches, ..again() };
            let found = look(&search, rules)?;
            report.text.push_str(&without_case(&found, &search.stop).unwrap_or_default());
        }
        let everything = Rules { include_hidden: true, include_ignored: true };
        if !one_file && rules != everything {
            let search = Search { output: Output::Files, ..again() };
            let found = look(&search, everything)?;
            let hint = left_out(&found, &search.stop, rules);
            report.text.push_str(&hint.unwrap_or_default());
        }
    }
    Ok(report)
}

/// The hint about case-insensitive matches, if nothing was found.
fn without_case(found: &Found, stop: &Stop) -> Option<String> {
    let newest = found.files.first()?;
    let line = newest.hits.first()?.line;
    let lines = match found.matched_lines {
        1 => "1 line matches".to_owned(),
        n => format!("{n} lines match"),
    };
    Some(format!(
        " Without regard to case {}{lines}, for instance {}:{line}: set case_sensitive to false.",
        stop.at_least(),
        newest.path
    ))
}

/// The same search ignoring case, if that makes a difference.
fn caseless(args: &Args) -> Option<LineMatcher> {
    let makes_a_difference = args.case_sensitive && args.pattern.contains(char::is_alphabetic);
    let wanted = || matcher(&Args { case_sensitive: false, ..args.clone() }).ok();
    makes_a_difference.then(wanted).flatten()
}

/// The hint about matches in skipped files, if nothing was found.
fn left_out(found: &Found, stop: &Stop, rules: Rules) -> Option<String> {
    let example = &found.files.first()?.path;
    let files = format!("{}{}", stop.at_least(), matching(found.matched_files));
    Some(format!(" {}", elsewhere(&files, example, rules.include_hidden)))
}

fn matcher(args: &Args) -> Result<LineMatcher, Failure> {
    let mut builder = RegexMatcherBuilder::new();
    builder
        .case_insensitive(!args.case_sensitive)
        .multi_line(true)
        .fixed_strings(args.fixed_string);
    if !args.multiline {
        // A line ends at `\n` or `\r\n`; matches contain neither. (In this order: the latter takes
        // precedence.)
        builder.line_terminator(Some(b'\n')).crlf(true);
    }
    let matcher = builder.build(&args.pattern);
    let matcher = match matcher {
        // Lines may end with `\r\n`, also in a match of several lines.
        Ok(_) if args.multiline && !args.fixed_string => {
            builder.build(&format!("(?R){}", args.pattern))
        }
        other => other,
    };
    let of_lines = |regex| {
        if args.multiline || args.fixed_string {
            LineMatcher::of_text(regex)
        } else {
            LineMatcher::of_lines(regex, &args.pattern, args.case_sensitive)
        }
    };
    matcher.map(of_lines).map_err(|error| {
        // Of the pattern as given: the pattern that is searched contains more.
        let message = match regex::Regex::new(&args.pattern) {
            Err(error) if !args.fixed_string => error.to_string(),
            Ok(_) | Err(_) => error.to_string(),
        };
        // (Before it the parser repeats the pattern.)
        let last = message.lines().last().unwrap_or_default();
        let why = last.strip_prefix("error: ").unwrap_or(last);
        let failure = Failure::new(
            ErrorCode::InvalidParam,
            format!("the pattern is not a regular expression: {why}"),
        );
        if message.contains("literal") && message.contains("not allowed") {
            return failure.hint("set multiline: true to match over line ends");
        }
        if message.contains("look-around") || message.contains("backreferences") {
            return failure.hint(
                "write it without look-around and backreferences: search for more, and use what fits",
            );
        }
        failure.hint("to search for exactly this text, set fixed_string: true")
    })
}

fn report(args: &Args, path: &ProjectPath, found: &Found, aborted: Option<Aborted>) -> Report {
    let at = path.relative();
    let n_files = found.matched_files;
    let mut data = Object::new();
    let shown = match args.output {
        Output::Matches => {
            let hits =
                found.files.iter().flat_map(|file| file.hits.iter().map(|hit| hit.row(&file.path)));
            let rows: Vec<_> = hits.take(args.limit).collect();
            let shown = rows.len() as u64;
            data.insert("matches".to_owned(), rows.into());
            shown
        }
        Output::Files => {
            let files: Vec<_> = found.files.iter().map(|file| file.path.as_str()).collect();
            data.insert("files".to_owned(), json!(files));
            files.len() as u64
        }
        Output::Count => {
            let rows = found
                .files
                .iter()
                .map(|file| json!({ "file": file.path, "count": file.matched_lines }));
            let rows: Vec<_> = rows.collect();
            let shown = rows.len() as u64;
            data.insert("counts".to_owned(), rows.into());
            shown
        }
    };
    let all = match args.output {
        Output::Matches => found.n_hits,
        Output::Files | Output::Count => n_files,
    };
    let truncated = all > shown;
    let mut text = headline(args, at, found);
    if truncated {
        text.push_str(&format!(" The first {shown} are shown; narrow the search or raise limit."));
    }
    if aborted.is_some() {
        text.push_str(" The time limit was reached: there may be more; name a smaller `path`.");
    }
    for (n, what) in [
        (found.unreadable, "could not be read"),
        (found.too_long, "had too long a line to be searched"),
        (found.secret_skipped, "skipped because the name suggests secrets"),
        (found.withheld, "skipped because a rule denies reading"),
    ] {
        if n > 0 {
            text.push_str(&format!(" {} {what}.", counted(n, "file")));
        }
    }
    if let Some(aborted) = aborted {
        data.insert("aborted_reason".to_owned(), aborted.as_str().into());
    }
    if truncated || aborted.is_some() {
        data.insert("truncated".to_owned(), true.into());
    }
    let mut stats = object(json!({
        "matched_files": n_files,
        "files_searched": found.searched,
        "binary_skipped": found.binary_skipped,
    }));
    if args.output != Output::Files {
        stats.insert("matched_lines".to_owned(), found.matched_lines.into());
    }
    if aborted.is_some() {
        stats.insert("lower_bound".to_owned(), true.into());
    }
    for (name, n) in [
        ("secret_skipped", found.secret_skipped),
        ("withheld", found.withheld),
        ("unreadable", found.unreadable),
        ("too_long", found.too_long),
        ("lines_cut", found.lines_cut),
        ("git_skipped", found.git_skipped),
    ] {
        if n > 0 {
            stats.insert(name.to_owned(), n.into());
        }
    }
    Report { partial: truncated || aborted.is_some(), data, text, stats, path: Some(at.to_owned()) }
}

fn headline(args: &Args, at: &str, found: &Found) -> String {
    let at = place(at);
    let searched = counted(found.searched, "file");
    if found.matched_files > 0 {
        let files = counted(found.matched_files, "file");
        return match args.output {
            Output::Files => format!("{files} of {searched} match, newest first."),
            Output::Matches | Output::Count => format!(
                "{} in {files} of {searched}, newest first.",
                counted(found.matched_lines, "matching line")
            ),
        };
    }
    if found.searched > 0 {
        return format!("No match for {:?} in {searched} in {at}.", args.pattern);
    }
    // Skipping all files is different from finding nothing.
    let why = if found.binary_skipped > 0 {
        format!("{} binary", counted(found.binary_skipped, "file"))
    } else if let (Some(glob), true) = (&args.file_pattern, found.met > 0) {
        format!("none of {} in {at} fits file_pattern {glob:?}", counted(found.met, "file"))
    } else if args.include_hidden && args.include_ignored {
        format!("there is none in {at}")
    } else {
        format!("{at} holds none that is not hidden or ignored (include_hidden, include_ignored)")
    };
    format!("No file was searched: {why}.")
}

#[cfg(test)]
mod tests;
