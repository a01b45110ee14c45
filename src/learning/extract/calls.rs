//! What calls of tools teach: names of arguments, places of files, which tool is for what.

use std::collections::BTreeMap;

use super::super::chain::has_same_stem;
use super::super::item::{Condition, Fix};
use super::super::pattern::{kind_of, plain_path, replaced};
use super::conventions::{files_of, flipped};
use super::{Between, Lesson, Try, reason, topic_of};
use crate::protocol::Object;
use crate::protocol::command::{simple_commands, unquoted};
use crate::protocol::envelope::ErrorCode;

pub(super) fn lessons(bad: &Try<'_>, good: &Try<'_>, between: &[Between<'_>]) -> Vec<Lesson> {
    let Some(code) = bad.code else { return Vec::new() };
    match code {
        ErrorCode::InvalidParam => arguments(bad, good),
        ErrorCode::UnknownTool => unknown_tool(bad, good).into_iter().collect(),
        ErrorCode::IsDirectory | ErrorCode::NotADirectory => {
            other_kind(bad, good, code).into_iter().collect()
        }
        ErrorCode::NotFound => {
            not_only_a_path(bad, good).or_else(|| moved(bad, good)).into_iter().collect()
        }
        ErrorCode::NotRead => read_first(bad, between).into_iter().collect(),
        ErrorCode::NoMatch | ErrorCode::MultipleMatches => {
            edited(bad, good, between, code).into_iter().collect()
        }
        ErrorCode::BinaryFile => shown_by(bad, good).into_iter().collect(),
        ErrorCode::Timeout
        | ErrorCode::CommandFailed
        | ErrorCode::CommandBlocked
        | ErrorCode::AccessDenied
        | ErrorCode::PermissionDenied
        | ErrorCode::Conflict
        | ErrorCode::Encoding
        | ErrorCode::TooLarge
        | ErrorCode::Cancelled
        | ErrorCode::ExecutionError
        | ErrorCode::ApprovalRequired
        | ErrorCode::ApprovalRejected
        | ErrorCode::RepeatedCall
        | ErrorCode::CircuitOpen
        | ErrorCode::AskUserUnavailable
        | ErrorCode::InternalError => Vec::new(),
    }
}

fn when(bad: &Try<'_>, code: ErrorCode) -> Condition {
    Condition { tool: bad.tool.to_owned(), code: Some(code), ..Condition::default() }
}

/// Names of arguments, and what they have to be.
fn arguments(bad: &Try<'_>, good: &Try<'_>) -> Vec<Lesson> {
    let tool = bad.tool;
    if tool != good.tool {
        return Vec::new();
    }
    let gone = bad.input.iter().filter(|(name, _)| !good.input.contains_key(*name));
    let renamed = gone.filter_map(|(from, value)| {
        let is_new = |name: &&String| !bad.input.contains_key(*name);
        let meant = format!("`{from}`: did you mean `");
        let told = bad.error.split_once(&meant).and_then(|(_, rest)| rest.split('`').next());
        let same = || good.input.keys().filter(is_new).find(|name| good.input[*name] == *value);
        let told = told.filter(|name| good.input.contains_key(*name));
        let to = told.map(str::to_owned).or_else(|| same().cloned())?;
        Some(Lesson {
            text: format!("Name the argument of {tool} `{to}`, not `{from}`."),
            condition: format!("{tool} is called with `{from}`"),
            when: Condition { argument: Some(from.clone()), ..when(bad, ErrorCode::InvalidParam) },
            fix: Some(Fix::RenameArgument { from: from.clone(), to }),
            topic: tool.to_lowercase(),
            general: true,
        })
    });
    let mut lessons: Vec<Lesson> = renamed.collect();
    lessons.extend(pattern_without(bad, good));
    // What an argument has to be stands in the message.
    if lessons.is_empty() {
        let told = bad.error.lines().next().unwrap_or_default().split("; ");
        let rule = told.filter(|part| part.contains(" must be ") || part.ends_with(" is missing"));
        lessons.extend(rule.take(1).filter_map(|part| {
            let name = part.split('`').nth(1)?;
            let said = part.split(", not ").next()?;
            let text = match part.strip_suffix(" is missing") {
                Some(_) => format!("Give {tool} its `{name}`."),
                None => format!("In calls of {tool}, {said}."),
            };
            // `todos.0.status` is part of `todos`.
            let argument = name.split('.').next()?;
            let fixed = good.input.contains_key(argument)
                && bad.input.get(argument) != good.input.get(argument);
            fixed.then(|| Lesson {
                text,
                condition: format!("{tool} is called, and {part}"),
                when: Condition {
                    signature: Some(crate::protocol::signature::signature(said)),
                    ..when(bad, ErrorCode::InvalidParam)
                },
                fix: None,
                topic: tool.to_lowercase(),
                general: true,
            })
        }));
    }
    if lessons.is_empty() {
        lessons.extend(set(bad, good));
    }
    lessons
}

/// A switch makes the difference, and nothing else.
fn set(bad: &Try<'_>, good: &Try<'_>) -> Option<Lesson> {
    let tool = bad.tool;
    let mut others = good.input.clone();
    let (name, value) = good
        .input
        .iter()
        .find(|(name, value)| value.is_boolean() && bad.input.get(*name) != Some(value))?;
    others.remove(name);
    let mut before = bad.input.clone();
    before.remove(name);
    let signature = bad.signature()?;
    // What is wrong, without what it is wrong with.
    let piece = signature.rsplit(['`', '"']).map(str::trim).find(|piece| piece.len() >= 8)?;
    (others == before).then(|| Lesson {
        text: format!("Set `{name}` of {tool} to {value}{}.", reason(Some(&signature))),
        condition: format!("{tool} is called without it and says: {signature}"),
        when: Condition { signature: Some(piece.to_owned()), ..when(bad, ErrorCode::InvalidParam) },
        fix: Some(Fix::SetArguments { input: Object::from_iter([(name.clone(), value.clone())]) }),
        topic: tool.to_lowercase(),
        general: true,
    })
}

/// A tool of another name; tools are everywhere the same. What a server offers is there or not, whatever it is called.
fn unknown_tool(bad: &Try<'_>, good: &Try<'_>) -> Option<Lesson> {
    let (from, to) = (bad.tool, good.tool);
    let is_foreign = |name: &str| name.to_lowercase().starts_with("mcp") || name.contains("__");
    // By which names the other tool takes what this one was given; the rest of it was new.
    let name_of =
        |value| good.input.iter().find(|(_, other)| *other == value).map(|(name, _)| name);
    let named: BTreeMap<String, String> = bad
        .input
        .iter()
        .filter_map(|(from, value)| Some((from.clone(), name_of(value)?.clone())))
        .collect();
    let is_whole = !named.is_empty()
        && good
            .input
            .keys()
            .all(|name| name == "description" || named.values().any(|known| known == name));
    let named: BTreeMap<String, String> =
        named.into_iter().filter(|(from, _)| from != "description").collect();
    let fix = (is_whole && !named.is_empty()).then(|| Fix::OtherTool {
        tool: to.to_owned(),
        input: Object::new(),
        named,
    });
    (!is_foreign(from) && !is_foreign(to)).then(|| Lesson {
        text: format!("Use {to}: there is no tool named {from}."),
        condition: format!("a tool named {from} is called"),
        when: when(bad, ErrorCode::UnknownTool),
        fix,
        topic: to.to_lowercase(),
        general: true,
    })
}

/// A folder where a file was meant, or the other way round.
fn other_kind(bad: &Try<'_>, good: &Try<'_>, code: ErrorCode) -> Option<Lesson> {
    let same = plain_path(bad.text("path")?) == plain_path(good.text("path")?);
    // What else was done with the path says nothing of what either is for.
    let what = match (code, bad.tool, good.tool) {
        (ErrorCode::IsDirectory, "Read", "LS" | "Glob") => "folders",
        (ErrorCode::NotADirectory, "LS" | "Glob", "Read") => "files",
        _ => return None,
    };
    // A pattern is no part of the call that failed.
    let fix = (good.tool != "Glob").then(|| Fix::OtherTool {
        tool: good.tool.to_owned(),
        input: Object::new(),
        named: BTreeMap::new(),
    });
    same.then(|| Lesson {
        text: format!("Use {} for {what}, not {}.", good.tool, bad.tool),
        condition: format!("{} is called for {what}", bad.tool),
        when: when(bad, code),
        fix,
        topic: good.tool.to_lowercase(),
        general: true,
    })
}

/// A file lies elsewhere.
fn moved(bad: &Try<'_>, good: &Try<'_>) -> Option<Lesson> {
    let (from, to) = (plain_path(bad.text("path")?), plain_path(good.text("path")?));
    if from == to || bad.tool != good.tool || !has_same_stem(from, to) {
        return None;
    }
    // What lies below a folder as it did before was moved with the folder: one file speaks for it, as nothing is
    // looked for elsewhere that still is where it was.
    let (one, other): (Vec<&str>, Vec<&str>) = (from.split('/').collect(), to.split('/').collect());
    let same = one.iter().rev().zip(other.iter().rev()).take_while(|(a, b)| a == b).count();
    // `src/a.rs` → `core/src/a.rs`: the first folder was put below another one.
    let same = same.min(one.len() - 1).min(other.len() - 1);
    let folders = (same >= 1)
        .then(|| (one[..one.len() - same].join("/"), other[..other.len() - same].join("/")));
    let text = match &folders {
        Some((from_folder, to_folder)) => format!(
            "`{from}` lies at `{to}`: look below `{to_folder}/` for what was below `{from_folder}/`."
        ),
        None => format!("`{from}` lies at `{to}`."),
    };
    let (from_part, to_part) = folders.unwrap_or_else(|| (from.to_owned(), to.to_owned()));
    Some(Lesson {
        text,
        condition: format!("`{from}` is looked for"),
        when: Condition {
            tool: String::new(),
            code: Some(ErrorCode::NotFound),
            path: Some(from.to_owned()),
            ..Condition::default()
        },
        fix: Some(Fix::ReplacePath { from: from_part, to: to_part }),
        topic: topic_of(good.tool, good.input),
        general: false,
    })
}

/// What was given as a path was more than one: names with wildcards, lines.
fn not_only_a_path(bad: &Try<'_>, good: &Try<'_>) -> Option<Lesson> {
    let path = bad.text("path").map(plain_path)?;
    let rest = match good.text("path").map(plain_path) {
        Some(folder) => path.strip_prefix(folder)?.trim_start_matches(['/', ':']),
        None => path,
    };
    // Where the rest of it went: names to an argument for them, lines to numbers.
    let holds = |value: &serde_json::Value| match value.as_str() {
        Some(text) => {
            let last = text.rsplit('/').next().unwrap_or(text);
            text.contains('*') && (rest.ends_with(last) || text.starts_with(rest))
        }
        None => value.is_number() && !path.contains('*'),
    };
    let news = good.input.iter().filter(|(name, _)| bad.input.get(*name) != good.input.get(*name));
    let named: Vec<String> = news
        .filter(|(name, value)| *name != "path" && holds(value))
        .map(|(name, _)| format!("`{name}`"))
        .collect();
    let (what, how) = match (path.contains('*'), rest.starts_with(|c: char| c.is_ascii_digit())) {
        (true, _) => ("names with wildcards", "a pattern"),
        (false, true) => ("lines", "line numbers"),
        (false, false) => return None,
    };
    let place = match (named.is_empty(), bad.tool == good.tool) {
        (true, true) if how == "line numbers" => "leave them out".to_owned(),
        (true, _) => return None,
        (false, true) => format!("{how} belongs into {}", named.join(" and "))
            .replace("numbers belongs", "numbers belong"),
        (false, false) => format!("{how} belongs into {} of {}", named.join(" and "), good.tool),
    };
    Some(Lesson {
        text: format!("`path` of {} takes no {what}: {place}.", bad.tool),
        condition: format!("{} is given a path with {what}", bad.tool),
        when: Condition {
            argument: Some("path".to_owned()),
            holds: Some(if path.contains('*') { "*" } else { ":" }.to_owned()),
            ..when(bad, ErrorCode::NotFound)
        },
        fix: None,
        topic: bad.tool.to_lowercase(),
        general: true,
    })
}

fn read_first(bad: &Try<'_>, between: &[Between<'_>]) -> Option<Lesson> {
    let path = bad.text("path").map(plain_path)?;
    let was_read = |call: &Between<'_>| {
        call.tool == "Read"
            && call.input.get("path").and_then(|path| path.as_str()).map(plain_path) == Some(path)
    };
    between.iter().any(was_read).then(|| Lesson {
        text: format!("Read a file before {} changes it.", bad.tool),
        condition: format!("{} is called for a file that was not read", bad.tool),
        when: when(bad, ErrorCode::NotRead),
        fix: None,
        topic: bad.tool.to_lowercase(),
        general: true,
    })
}

/// The program that shows what is no text.
fn shown_by(bad: &Try<'_>, good: &Try<'_>) -> Option<Lesson> {
    let path = bad.text("path")?;
    let kind = kind_of(path)?;
    let commands = simple_commands(good.command()?);
    let with = commands.iter().find_map(|simple| {
        let program = simple.program();
        let at = program.iter().position(|word| unquoted(word) == path)?;
        (at > 0).then(|| program[..at].join(" "))
    })?;
    Some(Lesson {
        text: format!("Look at `*.{kind}` files with `{with}`, not with {}.", bad.tool),
        condition: format!("{} is called for a `*.{kind}` file", bad.tool),
        when: Condition { file_kind: Some(kind.to_owned()), ..when(bad, ErrorCode::BinaryFile) },
        fix: None,
        topic: kind.to_owned(),
        general: false,
    })
}

/// How `old_string` has to be.
fn edited(
    bad: &Try<'_>,
    good: &Try<'_>,
    between: &[Between<'_>],
    code: ErrorCode,
) -> Option<Lesson> {
    if bad.text("path") != good.text("path") {
        return None;
    }
    let texts = bad.text("old_string").zip(good.text("old_string"));
    let of_text = || {
        let indented = texts.and_then(|(old, new)| indented(bad, old, new));
        indented.or_else(|| written(bad, good))
    };
    if let Some(lesson) = (code == ErrorCode::NoMatch).then(of_text).flatten() {
        return Some(lesson);
    }
    if bad.tool != good.tool {
        return None;
    }
    let (old, new) = texts?;
    let text = if code == ErrorCode::NoMatch {
        let looked = between.iter().any(|call| ["Read", "Grep"].contains(&call.tool));
        let reads = "Read the lines again before Edit, and copy `old_string` from them exactly.";
        (looked && old != new).then(|| reads.replace("Edit", bad.tool))?
    } else if good.input.get("replace_all").is_some_and(|all| *all == true) && old == new {
        format!("Set `replace_all` where {} is to change every place.", bad.tool)
    } else {
        let more = new.len() > old.len() && new.contains(old);
        let surround =
            "Give Edit an `old_string` with the lines around it, so that it stands there once.";
        more.then(|| surround.replace("Edit", bad.tool))?
    };
    Some(Lesson {
        text,
        condition: match code {
            ErrorCode::NoMatch => {
                format!("`old_string` of {} does not stand in the file", bad.tool)
            }
            _ => format!("`old_string` of {} stands in the file more than once", bad.tool),
        },
        when: when(bad, code),
        fix: None,
        topic: bad.tool.to_lowercase(),
        general: true,
    })
}

/// The text that was to be replaced stands in the file, and was written otherwise: with line numbers in front, with
/// something left out, in other characters.
fn written(bad: &Try<'_>, good: &Try<'_>) -> Option<Lesson> {
    let (failed, found) = (replaced(bad.input), replaced(good.input));
    let mut pairs = failed.iter().zip(&found).filter(|((old, _), (new, _))| old != new);
    let told = pairs.find_map(|((old, _), (new, _))| {
        let bare = without_numbers(old);
        let is_part = |part: &str| part.lines().all(|line| new.lines().any(|one| one == line));
        let left_out = |line: &str| line.trim_matches(['/', '#', '*', ' ', '\t']) == "...";
        let rest: Vec<&str> = old.lines().filter(|line| !left_out(line)).collect();
        if bare != **old && (is_part(&bare) || bare.contains(*new)) {
            Some("Leave the line numbers that Read shows out of")
        } else if rest.len() < old.lines().count() && is_part(&rest.join("\n")) {
            Some("Leave nothing out with `...` in")
        } else if letters(old) == letters(new) && old.split_whitespace().ne(new.split_whitespace())
        {
            Some("Copy the very characters (quotes, dashes, no `\\n` or `&lt;`) into")
        } else {
            None
        }
    })?;
    Some(Lesson {
        text: format!("{told} `old_string` of {}.", bad.tool),
        condition: format!("`old_string` of {} does not stand in the file", bad.tool),
        when: when(bad, ErrorCode::NoMatch),
        fix: None,
        topic: bad.tool.to_lowercase(),
        general: true,
    })
}

/// Letters and digits, whatever stands for the characters between them.
fn letters(text: &str) -> String {
    let written = ["\\n", "\\t", "\\r", "&lt;", "&gt;", "&quot;", "&#39;", "&amp;"];
    let plain = written.iter().fold(text.to_owned(), |text, written| text.replace(written, " "));
    plain.chars().filter(|c| c.is_alphanumeric()).collect()
}

/// Lines without the numbers in front of them that Read shows: `   2 | timeout = 30`.
fn without_numbers(text: &str) -> String {
    let bare = |line: &str| -> Option<String> {
        let rest = line.trim_start().trim_start_matches(|c: char| c.is_ascii_digit());
        let rest = rest.strip_prefix(" | ").or_else(|| rest.strip_prefix(['\t', '→', ':', '|']));
        rest.filter(|_| line.trim_start().starts_with(|c: char| c.is_ascii_digit()))
            .map(str::to_owned)
    };
    let lines: Option<Vec<String>> = text.lines().map(bare).collect();
    lines.map_or_else(|| text.to_owned(), |lines| lines.join("\n"))
}

/// The same lines, indented otherwise: files of that kind are so here.
fn indented(bad: &Try<'_>, old: &str, new: &str) -> Option<Lesson> {
    let kind = kind_of(bad.text("path")?)?;
    let (with, without) = flipped(old, new)?;
    let files = files_of(kind);
    Some(Lesson {
        text: format!(
            "{files} are indented with {with} here: write {with} in `old_string` and `new_string` of {}, \
             not {without}.",
            bad.tool
        ),
        condition: format!("{} looks for {without} in {files}", bad.tool),
        when: Condition { file_kind: Some(kind.to_owned()), ..when(bad, ErrorCode::NoMatch) },
        fix: None,
        topic: kind.to_owned(),
        general: false,
    })
}

/// What a regular expression of Grep can not hold, and did not when it worked.
fn pattern_without(bad: &Try<'_>, good: &Try<'_>) -> Option<Lesson> {
    const CONSTRUCTS: [(&str, &str); 7] = [
        ("(?!", "look-ahead"),
        ("(?=", "look-ahead"),
        ("(?<!", "look-behind"),
        ("(?<=", "look-behind"),
        ("\\1", "back-references"),
        ("(?>", "atomic groups"),
        ("++", "possessive repetition"),
    ];
    let (old, new) = (bad.text("pattern")?, good.text("pattern")?);
    if new.len() > old.len() && new.replace('\\', "") == old.replace('\\', "") {
        return Some(Lesson {
            text: format!(
                "Write `\\` before `(`, `[`, `{{`, `*` and their like in patterns of {}, where they stand for themselves.",
                bad.tool
            ),
            condition: format!("the pattern of {} is no regular expression", bad.tool),
            when: when(bad, ErrorCode::InvalidParam),
            fix: None,
            topic: bad.tool.to_lowercase(),
            general: true,
        });
    }
    let is_there = |(piece, _): &&(&str, &str)| old.contains(piece) && !new.contains(piece);
    let (piece, name) = CONSTRUCTS.iter().find(is_there)?;
    let what =
        if name.starts_with("look-") { "look-around (`(?!`, `(?=`, `(?<!`, `(?<=`)" } else { name };
    Some(Lesson {
        text: format!(
            "Patterns of {} know no {what}: search for the plain part, and sort out what is found.",
            bad.tool
        ),
        condition: format!("the pattern of {} holds `{piece}`", bad.tool),
        when: when(bad, ErrorCode::InvalidParam),
        fix: None,
        topic: bad.tool.to_lowercase(),
        general: true,
    })
}
