//! What one call does otherwise than another, in words.

use serde_json::Value;

use super::call::{Made, words};
use crate::protocol::shorten;

/// How much of one side of a change is told.
const SIDE: usize = 80;

/// What was done differently, and what was done first.
pub(super) fn in_words(before: &Made, after: &Made, between: &[Made]) -> String {
    let mut told = match (before.command(), after.command()) {
        (Some(one), Some(other)) if one != other => of_commands(one, other),
        _ if before.tool != after.tool => {
            format!("{} instead of {}", after.in_words(), before.tool)
        }
        _ => of_arguments(before, after),
    };
    let acted: Vec<String> = between.iter().filter(|call| call.acts).map(Made::in_words).collect();
    let looked: Vec<String> = between.iter().map(Made::in_words).collect();
    let first = if acted.is_empty() { looked } else { acted };
    match (told.is_empty(), first.is_empty()) {
        (true, true) => "tried again".clone_into(&mut told),
        (true, false) => told = format!("after {}", first.join(", ")),
        (false, true) => {}
        (false, false) => told.push_str(&format!("; after {}", first.join(", "))),
    }
    told
}

/// The words that the later call has and the earlier one has not: of a command, else the names of its
/// arguments and its path, or its tool.
pub(super) fn news(before: &Made, after: &Made) -> Vec<String> {
    if before.tool != after.tool {
        return vec![after.tool.clone()];
    }
    let (old, new): (Vec<&str>, Vec<&str>) = match (before.command(), after.command()) {
        (Some(one), Some(other)) => (words(one), words(other)),
        _ => {
            // A value that was there under another name is no news.
            let values = before.input.values().filter_map(Value::as_str);
            let old = before.input.keys().map(String::as_str).chain(before.path()).chain(values);
            (old.collect(), after.input.keys().map(String::as_str).chain(after.path()).collect())
        }
    };
    new.into_iter().filter(|word| !old.contains(word)).map(str::to_owned).collect()
}

/// `pytest` → `python3 -m pytest`.
fn of_commands(one: &str, other: &str) -> String {
    let (one, other) = (words(one), words(other));
    let (front, back) = common(&one, &other);
    let (from, to) = (&one[front..one.len() - back], &other[front..other.len() - back]);
    let side = |words: &[&str]| format!("`{}`", shorten(&words.join(" "), SIDE));
    match (from.is_empty(), to.is_empty()) {
        (true, _) => format!("with {}", side(to)),
        (_, true) => format!("without {}", side(from)),
        (false, false) => format!("{} → {}", side(from), side(to)),
    }
}

/// How many elements agree at the front, and behind those at the back.
pub(super) fn common<T: PartialEq>(one: &[T], other: &[T]) -> (usize, usize) {
    let front = one.iter().zip(other).take_while(|(a, b)| a == b).count();
    let (one, other) = (&one[front..], &other[front..]);
    let back = one.iter().rev().zip(other.iter().rev()).take_while(|(a, b)| a == b).count();
    (front, back)
}

fn of_arguments(before: &Made, after: &Made) -> String {
    let shown = |value: &Value| match value {
        Value::String(text) => format!("`{}`", shorten(text.lines().next().unwrap_or(""), SIDE)),
        other => format!("`{}`", shorten(&other.to_string(), SIDE)),
    };
    let gone: Vec<&String> =
        before.input.keys().filter(|name| !after.input.contains_key(*name)).collect();
    let new: Vec<&String> =
        after.input.keys().filter(|name| !before.input.contains_key(*name)).collect();
    let mut told = Vec::new();
    match (gone.as_slice(), new.as_slice()) {
        ([from], [to]) if before.input[*from] == after.input[*to] => {
            told.push(format!("`{from}` is named `{to}`"));
        }
        (gone, new) => {
            told.extend(gone.iter().map(|name| format!("without `{name}`")));
            told.extend(new.iter().map(|name| format!("`{name}`: {}", shown(&after.input[*name]))));
        }
    }
    for (name, value) in &before.input {
        if let Some(now) = after.input.get(name).filter(|now| *now != value) {
            told.push(match (value.as_str(), now.as_str()) {
                // Two long texts tell nothing.
                (Some(one), Some(other)) if one.len() > SIDE || other.len() > SIDE => {
                    format!("another `{name}`")
                }
                _ => format!("`{name}`: {} → {}", shown(value), shown(now)),
            });
        }
    }
    told.join("; ")
}
