//! Reasoning in the text of answers, whole and in pieces.

use super::*;
use agent_protocol::model::{Reply, StopReason};

/// `size` bytes or more are pushed at once.
fn reply(answer: &str, size: usize) -> Reply {
    let mut reader = ThinkingReader::default();
    let mut deltas = Vec::new();
    let mut rest = answer;
    while !rest.is_empty() {
        let (piece, after) = rest.split_at(rest.ceil_char_boundary(size));
        deltas.extend(reader.read(vec![Delta::Text(piece.to_owned())]));
        rest = after;
    }
    deltas.extend(reader.finish());
    deltas.push(Delta::Done(StopReason::End));
    let mut reply = Reply::default();
    for delta in &deltas {
        reply.apply_delta(delta);
    }
    reply
}

fn check(answer: &str, reasoning: &str, text: &str) {
    for size in [1, 3, 1000] {
        let found = reply(answer, size);
        let expected = (reasoning, text);
        assert_eq!((&*found.reasoning, &*found.text), expected, "{answer:?} in pieces of {size}");
    }
}

#[test]
fn reasoning_at_the_beginning_is_no_part_of_the_answer() {
    for (tag, end_tag) in TAGS {
        check(&format!("\n{tag}why{end_tag}\n\nyes\n"), "why", "yes\n");
        check(&format!("{tag}a < b{end_tag}{tag}c{end_tag} yes"), "a < bc", "yes");
        check(&format!("{tag}only this"), "only this", "");
    }
    check("<think>\n\n</think>\n\nyes", "", "yes");
    check("<think>\n\nwhy\n\nso\n</think>yes", "why\n\nso\n", "yes");
    check("<think>a</thin", "a</thin", "");
}

#[test]
fn white_space_is_not_held_without_end() {
    let blanks = " \n".repeat(40);
    check(&format!("{blanks}<think>why</think>"), "", &format!("{blanks}<think>why</think>"));
    check(
        &format!("<think>{blanks}why</think>{blanks}yes"),
        &format!("{blanks}why"),
        &format!("{blanks}yes"),
    );
    let mut reader = ThinkingReader::default();
    assert_eq!(reader.read(vec![Delta::Text(blanks.clone())]), [Delta::Text(blanks)]);
}

#[test]
fn tags_elsewhere_are_text() {
    for answer in [
        "Use <think>why</think> around it",
        "`<think>` is a tag",
        "```xml\n<think>\nwhy\n</think>\n```",
        "<thin",
        "<thinker>x</thinker>",
        "[TODO] [THIN",
        "a\n\n<think>why</think>\nb",
        " \n",
    ] {
        check(answer, "", answer);
    }
}
