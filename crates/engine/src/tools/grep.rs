//! Grep: searches text in files, in-process and with several threads.

use std::collections::HashSet;
use std::time::Duration;

use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::file_tool::FileTool;
use super::files::{
    AbortReason, HINT_TIME_LIMIT, MAX_SEARCHED_AGAIN, SearchLimits, display_path, hint_entry_limit,
    skipped_matches_hint,
};
use super::{Tool, ToolCx, cancelled_failure, embedded_spec, glob_pattern, json_object};
use agent_host::workspace::{ProjectPath, WalkRules};
use agent_protocol::embedded;
use agent_protocol::envelope::{ErrorCode, Failure, Report};
use agent_protocol::{Object, pluralize};

mod hit_collector;
mod search;

use search::{FileHits, GrepMatches, GrepSearch};

#[derive(Clone, Debug, Deserialize, Serialize)]
#[expect(clippy::struct_excessive_bools, reason = "they are the tool's parameters")]
struct Args {
    pattern: String,
    #[serde(default = "super::project_root")]
    path: String,
    #[serde(alias = "include")]
    file_pattern: Option<String>,
    #[serde(default = "case_sensitive_by_default")]
    case_sensitive: bool,
    #[serde(default)]
    fixed_string: bool,
    #[serde(default)]
    multiline: bool,
    #[serde(default)]
    context: usize,
    #[serde(default)]
    output: OutputMode,
    #[serde(skip_serializing_if = "super::is_default::<DEFAULT_LIMIT>")]
    limit: Option<usize>,
    #[serde(default)]
    include_hidden: bool,
    #[serde(default)]
    include_ignored: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
enum OutputMode {
    #[default]
    Matches,
    Files,
    Count,
}

/// Skipped files that are looked at, of which one is named.
const SKIPPED_EXAMPLES: usize = 50;

fn case_sensitive_by_default() -> bool {
    true
}

const DEFAULT_LIMIT: usize = 100;

pub(super) fn tool() -> impl Tool {
    with_limit(Duration::from_secs(10))
}

fn with_limit(time: Duration) -> impl Tool {
    let spec = embedded_spec("Grep", embedded::GREP);
    FileTool::new(spec, |args: &Args| &args.path, move |args, cx, path| grep(args, cx, path, time))
}

fn grep(args: &Args, cx: &ToolCx, path: &ProjectPath, time: Duration) -> Result<Report, Failure> {
    let workspace = &*cx.workspace;
    let (args, why_fixed) = &as_searched(args);
    let one_file = !workspace.metadata_with_suggestions(path)?.is_dir();
    if one_file {
        // Distinguishes an unreadable file from one without a match.
        workspace.open_file(path)?;
    } else {
        // Distinguishes an unreadable folder from an empty one.
        workspace.list_matching_entries(path, 1, &|_, _| false)?;
    }
    let search = GrepSearch {
        workspace,
        matcher: build_matcher(args)?,
        file_pattern: match &args.file_pattern {
            Some(glob) => Some(glob_pattern::compile_glob(glob, true)?),
            None => None,
        },
        multiline: args.multiline,
        context: args.context,
        output: args.output,
        limit: args.limit.unwrap_or(DEFAULT_LIMIT),
        hidden_files: &cx.hidden_files,
        limits: SearchLimits::with_time_limit(time, cx.cancel.clone()),
    };
    let rules = WalkRules {
        include_hidden: args.include_hidden,
        include_ignored: args.include_ignored,
        include_tracked: true,
        skip_caches: false,
    };
    let run = |search: &GrepSearch<'_>, rules: WalkRules| {
        if one_file { Ok(search.search_file(path)) } else { search.search_folder(path, rules) }
    };
    let found = run(&search, rules)?;
    let aborted = search.limits.reason();
    if aborted == Some(AbortReason::Cancelled) {
        return Err(cancelled_failure());
    }
    if aborted.is_some() && found.files.is_empty() {
        let message = format!(
            "no match for {:?} was found in the {} searched before the time limit was reached",
            args.pattern,
            pluralize(found.searched_files, "file")
        );
        return Err(Failure::new(ErrorCode::Timeout, message)
            .with_hint("name a smaller folder in `path`, or a file_pattern")
            .with_path(path.relative()));
    }
    let mut report = build_report(args, path, &found, aborted);
    if let Some(why) = why_fixed {
        report.text.push_str(&format!(
            " {:?} is no regular expression ({why}): it was searched as fixed text.",
            args.pattern
        ));
    }
    let again = || {
        let stop = SearchLimits::with_time_limit(HINT_TIME_LIMIT / 2, cx.cancel.clone())
            .with_max_entries(hint_entry_limit(search.limits.visited()) / 2);
        GrepSearch { limit: 1, context: 0, limits: stop, ..search.clone() }
    };
    let visited = search.limits.visited();
    let is_all_searched =
        one_file || args.include_hidden && args.include_ignored || aborted.is_some();
    if found.matched_files == 0
        && aborted.is_none()
        && let (Some(matcher), 1..) = (caseless_matcher(args), found.searched_files)
    {
        let search = GrepSearch { matcher, output: OutputMode::Matches, ..again() };
        let found = run(&search, rules)?;
        report.text.push_str(&caseless_hint(&found, &search.limits).unwrap_or_default());
    }
    if !is_all_searched && (visited <= MAX_SEARCHED_AGAIN || found.matched_files == 0) {
        let known: HashSet<&str> = found.files.iter().map(|file| file.path.as_str()).collect();
        let limit = known.len() + SKIPPED_EXAMPLES;
        let search = GrepSearch { output: OutputMode::Files, limit, ..again() };
        let others = run(&search, WalkRules::WITH_SKIPPED)?;
        let skipped = || others.files.iter().filter(|file| !known.contains(file.path.as_str()));
        let is_all_known = known.len() as u64 == found.matched_files;
        let example = skipped().next().map(|file| file.path.as_str()).filter(|_| is_all_known);
        let n_files = match search.limits.reason() {
            Some(_) if is_all_known => skipped().count() as u64,
            _ => others.matched_files.saturating_sub(found.matched_files),
        };
        if n_files > 0 {
            let is_more = found.matched_files > 0;
            let hint = skipped_matches_hint(n_files, &search.limits, example, is_more);
            report.text.push_str(&hint);
        }
    }
    Ok(report)
}

/// A pattern that is no regular expression is searched as text, unless it uses what only the syntax here lacks; one with a
/// line end over several lines. Also returns why it is text.
fn as_searched(args: &Args) -> (Args, Option<String>) {
    let error = (!args.fixed_string).then(|| build_regex(args).err()).flatten();
    let error = error.map(|message| last_line(&message).to_owned());
    let is_line_end = |why: &String| why.contains("literal") && why.contains("not allowed");
    if error.as_ref().is_some_and(is_line_end) {
        return (Args { multiline: true, ..args.clone() }, None);
    }
    let is_syntax = matches!(regex::Regex::new(&args.pattern), Err(regex::Error::Syntax(_)));
    let has_no_hint = |message: &String| missing_syntax_hint(message).is_none();
    let is_text = is_syntax && error.as_ref().is_some_and(has_no_hint);
    let args = Args { fixed_string: args.fixed_string || is_text, ..args.clone() };
    (args, error.filter(|_| is_text))
}

fn caseless_hint(found: &GrepMatches, stop: &SearchLimits) -> Option<String> {
    let newest = found.files.first()?;
    let line = newest.hits.first()?.line;
    let lines = match found.matched_lines {
        1 => "1 line matches".to_owned(),
        n => format!("{n} lines match"),
    };
    Some(format!(
        " Without regard to case {}{lines}, for instance {}:{line}: set case_sensitive to false.",
        stop.lower_bound_prefix(),
        newest.path
    ))
}

/// The same search ignoring case, if that makes a difference.
fn caseless_matcher(args: &Args) -> Option<RegexMatcher> {
    if !args.case_sensitive || !args.pattern.contains(char::is_alphabetic) {
        return None;
    }
    build_matcher(&Args { case_sensitive: false, ..args.clone() }).ok()
}

/// The error is a text of the parser.
fn build_regex(args: &Args) -> Result<RegexMatcher, String> {
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
    matcher.map_err(|error| {
        // Of the pattern as given: the pattern that is searched contains more.
        match regex::Regex::new(&args.pattern) {
            Err(error) if !args.fixed_string => error.to_string(),
            Ok(_) | Err(_) => error.to_string(),
        }
    })
}

/// (Before it the parser repeats the pattern.)
fn last_line(message: &str) -> &str {
    let last = message.lines().last().unwrap_or_default();
    last.strip_prefix("error: ").unwrap_or(last)
}

fn missing_syntax_hint(message: &str) -> Option<&'static str> {
    (message.contains("look-around") || message.contains("backreferences")).then_some(
        "write it without look-around and backreferences: search for more, and use what fits",
    )
}

fn build_matcher(args: &Args) -> Result<RegexMatcher, Failure> {
    build_regex(args).map_err(|message| {
        let text = format!("the pattern cannot be searched: {}", last_line(&message));
        let failure = Failure::new(ErrorCode::InvalidParam, text);
        match missing_syntax_hint(&message) {
            Some(hint) => failure.with_hint(hint),
            None => failure.with_hint("write it with smaller repetitions"),
        }
    })
}

fn build_report(
    args: &Args,
    path: &ProjectPath,
    found: &GrepMatches,
    aborted: Option<AbortReason>,
) -> Report {
    let at = path.relative();
    let files = found.files.iter();
    let (name, rows): (_, Vec<Value>) = match args.output {
        OutputMode::Matches => {
            let hits = files.flat_map(|file| file.hits.iter().map(|hit| hit.to_row(&file.path)));
            ("matches", hits.take(args.limit.unwrap_or(DEFAULT_LIMIT)).collect())
        }
        OutputMode::Files => ("files", files.map(|file| file.path.as_str().into()).collect()),
        OutputMode::Count => {
            let row = |file: &FileHits| json!({ "file": file.path, "count": file.matched_lines });
            ("counts", files.map(row).collect())
        }
    };
    let shown = rows.len() as u64;
    let mut data = Object::from_iter([(name.to_owned(), rows.into())]);
    let has_more = found.n_rows(args.output) > shown;
    // As many as were asked for are all of it.
    let partial = aborted.is_some() || has_more && args.limit.is_none();
    let mut text = headline(args, at, found);
    if has_more {
        text.push_str(&format!(" The first {shown} are shown; narrow the search."));
    }
    if aborted.is_some() {
        text.push_str(" The time limit was reached: there may be more; name a smaller `path`.");
    }
    for (n, outcome) in [
        (found.unreadable, "could not be read"),
        (found.too_long, "had too long a line to be searched"),
        (found.secret_skipped, "skipped because the name suggests secrets"),
        (found.withheld, "skipped because a rule denies reading"),
    ] {
        if n > 0 {
            text.push_str(&format!(" {} {outcome}.", pluralize(n, "file")));
        }
    }
    if let Some(aborted) = aborted {
        data.insert("aborted_reason".to_owned(), aborted.as_str().into());
    }
    if partial {
        data.insert("truncated".to_owned(), true.into());
    }
    let mut stats = json_object(json!({
        "matched_files": found.matched_files,
        "files_searched": found.searched_files,
        "binary_skipped": found.binary_skipped,
    }));
    if args.output != OutputMode::Files {
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
    ] {
        if n > 0 {
            stats.insert(name.to_owned(), n.into());
        }
    }
    Report { partial, data, text, stats, path: Some(at.to_owned()) }
}

fn headline(args: &Args, at: &str, found: &GrepMatches) -> String {
    let at = display_path(at);
    let searched = pluralize(found.searched_files, "file");
    if found.matched_files > 0 {
        let files = match found.matched_files {
            n if n == found.searched_files => searched,
            n => format!("{n} of {searched}"),
        };
        let order = if found.is_ordered_by_time { ", newest first" } else { "" };
        let lines = pluralize(found.matched_lines, "matching line");
        return match args.output {
            OutputMode::Files if found.matched_files == 1 => format!("{files} matches."),
            OutputMode::Files => format!("{files} match{order}."),
            OutputMode::Matches | OutputMode::Count => format!("{lines} in {files}{order}."),
        };
    }
    if found.searched_files > 0 {
        return format!("No match for {:?} in {searched} in {at}.", args.pattern);
    }
    // Skipping all files is different from finding nothing.
    let why = if found.binary_skipped > 0 {
        format!("{} binary", pluralize(found.binary_skipped, "file"))
    } else if let (Some(glob), true) = (&args.file_pattern, found.candidate_files > 0) {
        format!(
            "none of {} in {at} fits file_pattern {glob:?}",
            pluralize(found.candidate_files, "file")
        )
    } else if args.include_hidden && args.include_ignored {
        format!("there is none in {at}")
    } else {
        format!("{at} holds none that is not hidden or ignored")
    };
    format!("No file was searched: {why}.")
}

#[cfg(test)]
mod tests;
