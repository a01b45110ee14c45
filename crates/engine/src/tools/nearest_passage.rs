//! Explains why `old_string` does not occur: the nearest passage, and how it differs.
//!
//! It only explains: an edit is never made at a place that does not match exactly.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;
use std::time::{Duration, Instant};

use serde_json::json;

use agent_host::workspace::{Diff, DiffSize};
use agent_protocol::envelope::{ErrorCode, Failure};

const MAX_TIME: Duration = Duration::from_millis(200);
const MAX_OLD_LINES: usize = 400;
const MAX_DIFF_LINES: usize = 40;
/// In bytes.
const MAX_COMPARED: usize = 32 * 1024;
/// Minimum similarity of lines that are considered a match.
const MIN_SIMILARITY: f64 = 0.5;

/// Whole lines, or long enough that it does not occur by chance.
fn is_distinctive(new: &str, before: &str, after: &str) -> bool {
    let n_telling = new.chars().filter(|char| char.is_alphanumeric()).count();
    let is_lines = (before.is_empty() || before.ends_with('\n'))
        && (after.is_empty() || after.starts_with('\n') || new.ends_with('\n'));
    n_telling >= 6 || n_telling > 0 && is_lines
}

/// `NO_MATCH` for a text in which `old` does not occur. All have `\n` line ends.
pub(super) fn no_match_failure(text: &str, old: &str, new: &str, path: &str) -> Failure {
    if let Some(at) = text.find(new)
        && is_distinctive(new, &text[..at], &text[at + new.len()..])
    {
        let line = text[..at].matches('\n').count() + 1;
        let message = format!(
            "old_string does not occur in {path}, but new_string does, at line {line}: already applied"
        );
        return Failure::new(ErrorCode::NoMatch, message)
            .with_hint("the file already has this text; continue")
            .with_data("already_applied", true)
            .with_path(path);
    }
    let Some(passage) = find_nearest_passage(text, old) else {
        let message = format!("old_string does not occur in {path}, nor a similar line");
        return Failure::new(ErrorCode::NoMatch, message)
            .with_hint("Read the file again, or look for the passage with Grep")
            .with_path(path);
    };
    let lines = if passage.start == passage.end {
        format!("line {}", passage.start)
    } else {
        format!("lines {}-{}", passage.start, passage.end)
    };
    let message = format!(
        "old_string does not occur in {path}; the nearest passage is {lines}, and it differs in {}",
        passage.reasons.join(" and ")
    );
    Failure::new(ErrorCode::NoMatch, message)
        .with_hint(passage.hint)
        .with_data("nearest", json!({ "start_line": passage.start, "end_line": passage.end }))
        .with_data("diff_preview", passage.diff)
        .with_path(path)
}

struct NearestPassage {
    /// Lines, from 1, both included.
    start: usize,
    end: usize,
    reasons: Vec<Cow<'static, str>>,
    hint: &'static str,
    diff: String,
}

/// The lines that are most similar, from 1.
pub(super) fn find_nearest_lines(text: &str, old: &str) -> Option<Range<usize>> {
    find_nearest_passage(text, old).map(|passage| passage.start..passage.end + 1)
}

fn find_nearest_passage(text: &str, old: &str) -> Option<NearestPassage> {
    let until = Instant::now() + MAX_TIME;
    let lines: Vec<&str> = text.split('\n').collect();
    // Mistakes that affect every line are corrected first.
    let without_numbers = without_line_numbers(old);
    let unescaped = unescape(old);
    let variants = [
        (Some(Cow::Borrowed(old)), None),
        (
            without_numbers.map(Cow::Owned),
            Some((
                "the line numbers, which were copied along",
                "leave out the `12 | ` before each line",
            )),
        ),
        (
            unescaped.map(Cow::Owned),
            Some((
                "its escapes: it contains a backslash and an n for a line end",
                "write real line ends, tabs and quotes",
            )),
        ),
    ];
    let mut best: Option<((bool, u64), usize, Cow<'_, str>, _)> = None;
    for (variant, mistake) in variants {
        let Some(variant) = variant else { continue };
        if let Some((score, start)) = best_start_line(&lines, &variant, until)
            && best.as_ref().is_none_or(|(most, ..)| score > *most)
        {
            best = Some((score, start, variant, mistake));
        }
    }
    let (_, start, variant, mistake) = best?;
    let length = variant.trim_end_matches('\n').split('\n').count();
    let end = (start + length).min(lines.len());
    let passage = lines[start..end].join("\n");
    let mut reasons: Vec<Cow<'static, str>> = Vec::new();
    reasons.extend(mistake.map(|(reason, _)| reason.into()));
    let (found_part, old_part) = differing_parts(&passage, variant.trim_end_matches('\n'));
    reasons.extend(explain_differences(found_part, old_part, mistake.is_none()));
    if reasons.is_empty() {
        reasons.push("the line ends at its end".into());
    }
    // Numbered like the lines of the file.
    let diff = Diff::after_lines(
        start,
        &format!("{}\n", old.trim_end_matches('\n')),
        &format!("{passage}\n"),
        ("old_string", "the file"),
        DiffSize::Preview,
    );
    Some(NearestPassage {
        start: start + 1,
        end,
        reasons,
        hint: mistake.map_or("copy the passage exactly as it is in the file", |(_, hint)| hint),
        diff: diff.text.split_inclusive('\n').take(MAX_DIFF_LINES).collect(),
    })
}

/// The index of the line where the wanted lines fit best, and how well: lines that are equal except for
/// typing errors count more than lines that are only similar.
fn best_start_line(lines: &[&str], old: &str, until: Instant) -> Option<((bool, u64), usize)> {
    let old: Vec<String> =
        old.trim_end_matches('\n').split('\n').take(MAX_OLD_LINES).map(normalize_line).collect();
    let mut places: HashMap<&str, Vec<usize>> = HashMap::new();
    for (index, line) in old.iter().enumerate().filter(|(_, line)| !line.is_empty()) {
        places.entry(line).or_default().push(index);
    }
    // Each similar line votes for the start of the passage; long lines have more weight.
    let mut votes: HashMap<usize, u64> = HashMap::new();
    for (index, line) in lines.iter().enumerate() {
        if index % 1024 == 0 && Instant::now() > until {
            break;
        }
        let line = normalize_line(line);
        for old_index in places.get(line.as_str()).into_iter().flatten() {
            if let Some(start) = index.checked_sub(*old_index) {
                *votes.entry(start).or_default() += 10 * line.len().min(40) as u64;
            }
        }
    }
    let most = votes.into_iter().max_by_key(|(start, votes)| (*votes, usize::MAX - start));
    if let Some((start, votes)) = most {
        return Some(((true, votes), start));
    }
    let (anchor, longest) = old.iter().enumerate().max_by_key(|(_, line)| line.len())?;
    if longest.is_empty() {
        return None;
    }
    let mut best = (MIN_SIMILARITY, None);
    for (index, line) in lines.iter().enumerate() {
        if index % 64 == 0 && Instant::now() > until {
            break;
        }
        let line = normalize_line(line);
        let likeness = if line.contains(longest.as_str()) {
            1.0
        } else if line.len() > 2000 {
            0.0
        } else {
            strsim::sorensen_dice(&line, longest)
        };
        if likeness > best.0 {
            best = (likeness, Some(index));
        }
    }
    let start = best.1?.saturating_sub(anchor);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to 100")]
    let score = (best.0 * 100.0) as u64;
    Some(((false, score), start))
}

/// The two texts without common lines at their beginnings, limited to what is worth comparing.
fn differing_parts<'a>(passage: &'a str, old: &'a str) -> (&'a str, &'a str) {
    let lines = passage.split_inclusive('\n').zip(old.split_inclusive('\n'));
    let same = lines.take_while(|(a, b)| a == b && a.ends_with('\n'));
    let skipped: usize = same.map(|(line, _)| line.len()).sum();
    // Including the previous line end, if there is one, so that the wanted text starts at a line.
    let from = skipped.saturating_sub("\n".len());
    let cut = |text: &'a str| &text[from..text.floor_char_boundary(from + MAX_COMPARED)];
    (cut(passage), cut(old))
}

/// How a passage differs from the wanted one: the smallest sufficient set of explanations.
fn explain_differences(passage: &str, old: &str, alone: bool) -> Vec<Cow<'static, str>> {
    type Fold = fn(&str) -> String;
    let folds: [(&str, Fold); 5] = [
        ("trailing whitespace", |text| map_lines(text, str::trim_end)),
        ("indentation", |text| map_lines(text, str::trim_start)),
        ("quotation marks, dashes or special spaces", replace_typographic),
        ("upper and lower case", |text| text.to_lowercase()),
        ("spaces within the lines", |text| {
            map_lines(text, str::trim).split_whitespace().collect::<Vec<_>>().join(" ")
        }),
    ];
    if passage.contains(old) {
        return Vec::new();
    }
    let mut sets: Vec<u32> = (1..1 << folds.len()).collect();
    sets.sort_by_key(|set| (set.count_ones(), *set));
    for set in sets {
        let chosen = || folds.iter().enumerate().filter(move |(n, _)| set >> n & 1 == 1);
        let fold = |text: &str| chosen().fold(text.to_owned(), |text, (_, (_, fold))| fold(&text));
        if fold(passage).contains(&fold(old)) {
            return chosen()
                .map(|(_, (name, _))| match *name {
                    "indentation" => explain_indentation(passage, old),
                    name => name.into(),
                })
                .collect();
        }
    }
    if alone { vec!["its words (see the diff)".into()] } else { vec!["its words".into()] }
}

fn explain_indentation(passage: &str, old: &str) -> Cow<'static, str> {
    let has = |text: &str, mark: char| text.split('\n').any(|line| line.starts_with(mark));
    match (has(passage, '\t'), has(old, '\t')) {
        (true, false) => "indentation (the file has tabs)".into(),
        (false, true) => "indentation (the file has spaces, not tabs)".into(),
        (true, true) | (false, false) => "indentation".into(),
    }
}

fn map_lines(text: &str, fold: fn(&str) -> &str) -> String {
    text.split('\n').map(fold).collect::<Vec<_>>().join("\n")
}

/// A line normalised for common typing errors: equal keys mean similar lines.
fn normalize_line(line: &str) -> String {
    let mut squeezed = replace_typographic(line).to_lowercase();
    squeezed.retain(|character| !character.is_whitespace());
    squeezed
}

fn replace_typographic(text: &str) -> String {
    text.chars()
        .map(|character| match character {
            '\u{2018}' | '\u{2019}' | '\u{201A}' | '\u{2032}' => '\'',
            '\u{201C}' | '\u{201D}' | '\u{201E}' | '\u{2033}' => '"',
            '\u{2010}'..='\u{2015}' | '\u{2212}' => '-',
            '\u{A0}' | '\u{2007}' | '\u{202F}' | '\u{3000}' => ' ',
            other => other,
        })
        .collect()
}

/// The text without the line numbers of Read, if every line has one.
fn without_line_numbers(text: &str) -> Option<String> {
    let strip = |line: &str| {
        let digits = line.trim_start();
        let rest = digits.trim_start_matches(|character: char| character.is_ascii_digit());
        let bar = rest.trim_start_matches(' ').strip_prefix(['|', '→', '\t'])?;
        (rest.len() < digits.len()).then(|| bar.strip_prefix(' ').unwrap_or(bar).to_owned())
    };
    let body = text.trim_end_matches('\n');
    let lines: Option<Vec<String>> = body.split('\n').map(strip).collect();
    Some(lines?.join("\n"))
}

/// Replaces `\n`, `\t` and `\"` in two characters by the character that was meant.
fn unescape(text: &str) -> Option<String> {
    text.contains("\\n")
        .then(|| text.replace("\\n", "\n").replace("\\t", "\t").replace("\\\"", "\""))
}
