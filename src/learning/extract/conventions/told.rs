//! What a lesson may hold of what was put in once a check had said no: it comes from the model's hand, and may be the
//! output's word.

use super::super::super::evidence::has_word;
use super::super::super::question::{REACHES, RUNS, words_of};
use super::super::{Between, Try};
use crate::protocol::command::is_script;
use crate::protocol::topics;

/// So many words of an output are a mark (`// SPDX-License-Identifier: MIT`), and more a sentence.
const MAX_PRINTED: usize = 4;

/// The piece is no word of the output's to whoever reads the lesson: no sentence, no command, nothing that lies elsewhere.
/// What the task or an earlier call of ours (`before`) held is our own.
pub(super) fn is_mark(piece: &str, bad: &Try<'_>, before: &[Between<'_>], task: &str) -> bool {
    if piece.contains(['`', '\n', '\r']) || piece.contains("://") {
        return false;
    }
    let calls = before.iter().map(|call| call.input).chain([bad.input]);
    let values = calls.flat_map(|input| input.values().map(ToString::to_string));
    let own: Vec<String> = values.chain([task.to_owned()]).collect();
    let (own, said) = (own.join("\n").to_lowercase(), bad.error.to_lowercase());
    let piece = piece.to_lowercase();
    let words: Vec<&str> = words_of(&piece).map(|word| word.trim_start_matches("//")).collect();
    let is_foreign = |word: &&str| !has_word(&own, word);
    let is_elsewhere = |word: &str| word.starts_with(['/', '~']) || word.contains("../");
    let is_run = |word: &str| {
        REACHES.contains(&word) || (words.len() > 1 && (RUNS.contains(&word) || is_script(word)))
    };
    // Words in a row that are a command of a known program.
    let is_command = (0..words.len().saturating_sub(1))
        .any(|at| is_foreign(&words[at]) && topics::of_command(&words[at..].join(" ")).is_some());
    let mut foreign = words.iter().copied().filter(is_foreign);
    let n_printed = foreign.clone().filter(|word| has_word(&said, word)).count();
    n_printed <= MAX_PRINTED
        && !is_command
        && !foreign.any(is_run)
        && !words.iter().any(|word| is_elsewhere(word))
}

/// A path below the project's root that is one word: it can stand in a sentence.
pub(super) fn is_plain_place(path: &str) -> bool {
    let is_plain = |c: char| c.is_alphanumeric() || matches!(c, '/' | '.' | '_' | '-' | '+' | '@');
    path.chars().all(is_plain) && !path.starts_with('/') && path.split('/').all(|part| part != "..")
}
