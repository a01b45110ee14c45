//! The call of Grep that does what a command of `grep`, `rg` or `ag` does.

use serde_json::json;

use super::{Args, Call, Cut, Input, Place, Word};

/// An option of a search without a value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Flag {
    AnyCase,
    SmartCase,
    Fixed,
    Extended,
    Word,
    Recursive,
    Hidden,
}

/// What a search was given.
#[derive(Default)]
struct Search<'a> {
    patterns: Vec<&'a Word>,
    operands: Vec<&'a Word>,
    file_pattern: Option<String>,
    flags: Vec<Flag>,
    context: u64,
    limit: Option<u64>,
    output: Option<&'static str>,
}

pub(super) fn search(args: &Args<'_>, cut: Cut) -> Option<Call> {
    let name = args.run.words.first()?.known()?;
    let is_grep = name.ends_with("grep") || name == "grep";
    let search = search_options(args, is_grep)?;
    let mut operands = search.operands.clone();
    let pattern = match search.patterns.as_slice() {
        [] => (!operands.is_empty()).then(|| operands.remove(0))?,
        [pattern] => pattern,
        _ => return None,
    }
    .known()?;
    // It reads what the line gives it.
    if is_grep && operands.is_empty() && !search.flags.contains(&Flag::Recursive)
        || matches!(args.run.input, Input::File(_))
    {
        return None;
    }
    let here = Word::literal(".");
    let word = match operands.as_slice() {
        [] => &here,
        [word] => *word,
        _ => return None,
    };
    let (path, place) = args.place(word).filter(|_| word.is_literal())?;
    if !matches!(place, Place::File | Place::Folder | Place::Project | Place::Nothing) {
        return None;
    }
    let is_basic = name == "grep" && !search.flags.contains(&Flag::Extended);
    let is_fixed = search.flags.contains(&Flag::Fixed) || name == "fgrep";
    let mut pattern = if is_basic && !is_fixed { extended(pattern) } else { pattern.to_owned() };
    if search.flags.contains(&Flag::Word) {
        pattern = format!(r"\b(?:{pattern})\b");
    }
    let mut call = Call::new("Grep", json!({"pattern": pattern}));
    if !path.is_empty() {
        call = call.with("path", path);
    }
    if let Some(file_pattern) = search.file_pattern {
        call = call.with("file_pattern", file_pattern);
    }
    if search.flags.contains(&Flag::AnyCase)
        || search.flags.contains(&Flag::SmartCase) && !pattern.chars().any(char::is_uppercase)
    {
        call = call.with("case_sensitive", false);
    }
    if is_fixed {
        call = call.with("fixed_string", true);
    }
    if search.context > 0 {
        call = call.with("context", search.context.min(10));
    }
    if search.flags.contains(&Flag::Hidden) {
        call = call.with("include_hidden", true);
    }
    match (cut, search.output) {
        (Cut::Tail(_), _) | (Cut::Lines, Some("count")) => return None,
        (Cut::Lines, _) => call = call.with("output", "count"),
        (_, Some(output)) => call = call.with("output", output),
        (_, None) => {}
    }
    let limit = match cut {
        Cut::Head(n) => Some(n),
        Cut::Nothing | Cut::Tail(_) | Cut::Lines => search.limit,
    };
    Some(match limit {
        Some(n) => call.with("limit", n.clamp(1, 1000)),
        None => call,
    })
}

/// Reads the options that Grep has too; `None` where there are others.
fn search_options<'a>(args: &Args<'a>, is_grep: bool) -> Option<Search<'a>> {
    let mut search = Search::default();
    let mut words = args.words();
    let mut is_over = false;
    while let Some(word) = words.next() {
        let text = word.text.as_str();
        if is_over || !text.starts_with('-') || text == "-" {
            search.operands.push(word);
            continue;
        }
        if !word.is_literal() && !text.starts_with("--include") && !text.starts_with("-g") {
            return None;
        }
        if let Some(long) = text.strip_prefix("--") {
            let (name, value) = long
                .split_once('=')
                .map_or((long, None), |(name, value)| (name, Some(value.to_owned())));
            match name {
                "" => is_over = true,
                "recursive" => search.flags.push(Flag::Recursive),
                "line-number" | "no-heading" | "heading" | "color" | "colour" | "with-filename"
                | "no-messages" | "line-buffered" => {}
                "ignore-case" => search.flags.push(Flag::AnyCase),
                "smart-case" => search.flags.push(Flag::SmartCase),
                "fixed-strings" => search.flags.push(Flag::Fixed),
                "extended-regexp" => search.flags.push(Flag::Extended),
                "word-regexp" => search.flags.push(Flag::Word),
                "hidden" => search.flags.push(Flag::Hidden),
                "files-with-matches" => search.output = Some("files"),
                "count" => search.output = Some("count"),
                "include" | "glob" if search.file_pattern.is_none() => {
                    let glob = value.or_else(|| words.next().map(|word| word.text.clone()))?;
                    if glob.starts_with('!') {
                        return None;
                    }
                    search.file_pattern = Some(glob);
                }
                "exclude-dir" => {
                    let name = value.or_else(|| words.next().map(|word| word.text.clone()))?;
                    if !matches!(
                        name.as_str(),
                        ".git" | "node_modules" | "target" | "venv" | ".venv" | "__pycache__"
                    ) {
                        return None;
                    }
                }
                "context" | "after-context" | "before-context" => {
                    let n: u64 = value
                        .or_else(|| words.next().map(|word| word.text.clone()))?
                        .parse()
                        .ok()?;
                    search.context = search.context.max(n);
                }
                _ => return None,
            }
            continue;
        }
        for (at, letter) in text[1..].char_indices() {
            let rest = &text[1 + at + letter.len_utf8()..];
            let mut value = || {
                if rest.is_empty() {
                    words.next().map(|word| word.text.clone())
                } else {
                    Some(rest.to_owned())
                }
            };
            match letter {
                'r' | 'R' if is_grep => search.flags.push(Flag::Recursive),
                'n' | 'H' | 's' | 'I' => {}
                'i' => search.flags.push(Flag::AnyCase),
                'S' if !is_grep => search.flags.push(Flag::SmartCase),
                'F' => search.flags.push(Flag::Fixed),
                'E' if is_grep => search.flags.push(Flag::Extended),
                'w' => search.flags.push(Flag::Word),
                'l' => search.output = Some("files"),
                'c' => search.output = Some("count"),
                '.' if !is_grep => search.flags.push(Flag::Hidden),
                'A' | 'B' | 'C' => {
                    search.context = search.context.max(value()?.parse().ok()?);
                    break;
                }
                'g' if !is_grep && search.file_pattern.is_none() => {
                    search.file_pattern = Some(value().filter(|glob| !glob.starts_with('!'))?);
                    break;
                }
                'e' if rest.is_empty() => search.patterns.push(words.next()?),
                '0'..='9' => {
                    search.context = search.context.max(text[1..].parse().ok()?);
                    break;
                }
                _ => return None,
            }
        }
    }
    Some(search)
}

/// A basic regular expression as an extended one: there `\|` chooses and `|` is itself.
pub(in super::super) fn extended(basic: &str) -> String {
    let mut made = String::with_capacity(basic.len());
    let mut chars = basic.chars();
    while let Some(char) = chars.next() {
        match char {
            '\\' => match chars.next() {
                Some(special @ ('|' | '(' | ')' | '{' | '}' | '+' | '?')) => made.push(special),
                Some('<' | '>') => made.push_str(r"\b"),
                Some(other) => made.extend(['\\', other]),
                None => made.push('\\'),
            },
            '|' | '(' | ')' | '{' | '}' | '+' | '?' => made.extend(['\\', char]),
            _ => made.push(char),
        }
    }
    made
}
