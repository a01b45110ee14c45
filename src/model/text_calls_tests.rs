//! Answers of models without function calling, whole and in pieces.

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn tools() -> [ToolSpec; 2] {
    let schema = json!({
        "type": "object",
        "properties": {"path": {"type": "string"}, "limit": {"type": "integer"}},
    });
    ["Read", "LS"].map(|name| ToolSpec { name, description: "".into(), schema: schema.clone() })
}

/// What is found in this answer, with adjacent texts joined; `size` bytes or more are pushed at once.
fn found(answer: &str, size: usize) -> Vec<Found> {
    let tools = tools();
    let mut reader = TextCalls::new(&tools);
    let mut parts = Vec::new();
    let mut rest = answer;
    while !rest.is_empty() {
        let (piece, after) = rest.split_at(rest.ceil_char_boundary(size));
        parts.extend(reader.push(piece));
        rest = after;
    }
    parts.extend(reader.finish());
    let mut joined: Vec<Found> = Vec::new();
    for part in parts {
        match (joined.last_mut(), part) {
            (Some(Found::Text(text)), Found::Text(more)) => text.push_str(&more),
            (_, part) => joined.push(part),
        }
    }
    joined
}

fn text(text: &str) -> Found {
    Found::Text(text.to_owned())
}

fn call(name: &str, arguments: &str) -> Found {
    Found::Call { name: name.to_owned(), arguments: arguments.to_owned() }
}

fn check(answer: &str, expected: &[Found]) {
    for size in [1, 3, 1000] {
        assert_eq!(found(answer, size), expected, "{answer:?} in pieces of {size}");
    }
}

#[test]
fn calls_in_every_format() {
    let read = || call("Read", r#"{"path":"a"}"#);
    let json = r#"{"name": "Read", "arguments": {"path": "a"}}"#;
    let llama = r#"{"name": "Read", "parameters": {"path": "a"}}"#;
    check(&format!("<tool_call>\n{json}\n</tool_call>"), &[read()]);
    check(
        &format!("I look.\n<tool_call>{json}</tool_call>\n<tool_call>{json}</tool_call>"),
        &[text("I look.\n"), read(), text("\n"), read()],
    );
    check(
        "<tool_call>\n<function=Read>\n<parameter=path>\na\n</parameter>\n<parameter=limit>\n3\n</parameter>\n\
         </function>\n</tool_call>",
        &[call("Read", r#"{"path":"a","limit":3}"#)],
    );
    check(&format!("[TOOL_CALLS] [{json}, {json}]"), &[read(), read()]);
    check(
        "[TOOL_CALLS]Read[ARGS]{\"path\":\"a\"}[TOOL_CALLS]LS[CALL_ID]x1[ARGS]{}",
        &[read(), call("LS", "{}")],
    );
    check(&format!("<|python_tag|>{llama}<|eom_id|>"), &[read()]);
    check(&format!("<|python_tag|>{llama}; {llama}"), &[read(), read()]);
    check(llama, &[read()]);
    check(&format!("Here:\n```json\n{json}\n```\n"), &[text("Here:\n"), read(), text("\n")]);
    check(r#"<tool_call>{"name": "Read", "arguments": "{\"path\":\"a\"}"}</tool_call>"#, &[read()]);
}

#[test]
fn other_text_is_no_call() {
    for answer in [
        "plain text, 1 < 2, [TODO], `x`",
        "```rust\nfn main() {}\n```\nand after it",
        "```json\n{\"name\": \"Unknown\", \"arguments\": {}}\n```",
        "```json\n{\"name\": \"x\"}\n```",
        "{\"name\": \"package\", \"version\": 1}",
        "text before {\"name\": \"Read\", \"arguments\": {}}",
        "```\nnever closed",
        "ends with <tool",
        "a ```b``` c",
        "",
    ] {
        let expected = if answer.is_empty() { vec![] } else { vec![text(answer)] };
        check(answer, &expected);
    }
}

#[test]
fn unreadable_and_cut_off_calls_stay_calls() {
    let cut = r#"{"name": "Read", "argu"#;
    check(&format!("<tool_call>{cut}"), &[call(UNREADABLE, cut)]);
    check(&format!("<tool_call>{cut}</tool_call>"), &[call(UNREADABLE, cut)]);
    check("[TOOL_CALLS]Read", &[call(UNREADABLE, "Read")]);
    check("<|python_tag|>print(1)", &[call(UNREADABLE, "print(1)")]);
    let no_end = r#"<tool_call>{"name": "LS", "arguments": {}}"#;
    check(no_end, &[call("LS", "{}")]);
    let broken = "<tool_call>{\"name\": \"LS\", \"arguments\": {\"path\": \"a\nb\",}}</tool_call>";
    check(broken, &[call("LS", "{\"path\": \"a\nb\",}")]);
}

proptest! {
    #[test]
    fn pieces_make_no_difference(
        parts in prop::collection::vec(
            prop_oneof![
                Just("<tool_call>"), Just("</tool_call>"), Just("[TOOL_CALLS]"), Just("<|python_tag|>"),
                Just("```"), Just("\n"), Just("{\"name\": \"LS\", \"arguments\": {}}"), Just("x"), Just("é <"),
            ],
            0..8,
        ),
        size in 1_usize..9,
    ) {
        let answer = parts.concat();
        prop_assert_eq!(found(&answer, size), found(&answer, 1000));
    }
}
