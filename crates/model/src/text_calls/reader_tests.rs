//! Answers of models without function calling, whole and in pieces.

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn tools() -> [ToolSpec; 2] {
    let schema = json!({
        "type": "object",
        "properties": {"path": {"type": "string"}, "limit": {"type": "integer"}},
    });
    ["Read", "LS"].map(|name| ToolSpec {
        name: name.into(),
        description: "".into(),
        schema: schema.clone(),
        is_foreign: false,
    })
}

/// Adjacent texts are joined; `size` bytes or more are pushed at once.
fn found(answer: &str, size: usize) -> Vec<Segment> {
    let tools = tools();
    let mut reader = TextCallReader::new(&tools, usize::MAX);
    let mut parts = Vec::new();
    let mut rest = answer;
    while !rest.is_empty() {
        let (piece, after) = rest.split_at(rest.ceil_char_boundary(size));
        parts.extend(reader.push(piece));
        rest = after;
    }
    parts.extend(reader.finish());
    let mut joined: Vec<Segment> = Vec::new();
    for part in parts {
        match (joined.last_mut(), part) {
            (Some(Segment::Text(text)), Segment::Text(more))
            | (Some(Segment::Dropped(text)), Segment::Dropped(more)) => text.push_str(&more),
            (_, part) => joined.push(part),
        }
    }
    joined
}

fn text(text: &str) -> Segment {
    Segment::Text(text.to_owned())
}

fn dropped(text: &str) -> Segment {
    Segment::Dropped(text.to_owned())
}

fn call(name: &str, arguments: &str) -> Segment {
    Segment::Call { name: name.to_owned(), arguments: arguments.to_owned() }
}

fn check(answer: &str, expected: &[Segment]) {
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
fn each_function_in_a_block_is_a_call() {
    check(
        "<tool_call>\n<function=Read>\n<parameter=path>\na</function>\n</parameter>\n</function>\n\
         <function=LS></function>\n</tool_call>",
        &[call("Read", r#"{"path":"a</function>"}"#), call("LS", "{}")],
    );
    let unclosed = "<function=Read><parameter=path>a</parameter><function=LS></function>";
    check(&format!("<tool_call>{unclosed}</tool_call>"), &[call(UNREADABLE_CALL_NAME, unclosed)]);
}

#[test]
fn call_after_a_marker_needs_no_arguments() {
    for json in [r#"{"name": "LS"}"#, r#"{"name": "LS", "arguments": null}"#] {
        check(&format!("<tool_call>{json}</tool_call>"), &[call("LS", "{}")]);
        check(&format!("[TOOL_CALLS][{json}]"), &[call("LS", "{}")]);
        check(&format!("<|python_tag|>{json}"), &[call("LS", "{}")]);
        check(json, &[text(json)]);
        let fenced = format!("```\n{json}\n```");
        check(&fenced, &[text(&fenced)]);
    }
}

#[test]
fn marker_without_its_format_or_within_a_line_is_text() {
    let json = r#"{"name": "LS", "arguments": {}}"#;
    for answer in [
        "Hermes wraps calls in `<tool_call>` tags, Mistral writes [TOOL_CALLS] before them.",
        "<tool_call> tags wrap the calls of Hermes",
        "<tool_call>",
        "<tool_call>\n<func",
        "[TOOL_CALLS] marks calls of Mistral\n[TOOL_CALLS]\n[TOOL_CALLS]Read",
        "<|python_tag|>print(1)",
        "`<tool_response>` and <tool_response> within a line, <tool_resp",
        &format!(
            "like <tool_call>{json}</tool_call>, [TOOL_CALLS][{json}] or <|python_tag|>{json}"
        ),
        &format!("`<tool_call>{json}</tool_call>`"),
        &format!("```xml\n<tool_call>{json}</tool_call>\n<tool_response>\n```\nis an example"),
        &format!("````\n```\n<tool_call>{json}</tool_call>\n````"),
        "```json\n{\n<tool_response>\n```",
    ] {
        check(answer, &[text(answer)]);
    }
    check(
        &format!(
            "In `<tool_call>`:\n\n  <tool_call>\n{json}</tool_call> <tool_call>{json}</tool_call>."
        ),
        &[
            text("In `<tool_call>`:\n\n  "),
            call("LS", "{}"),
            text(" "),
            call("LS", "{}"),
            text("."),
        ],
    );
    check(
        &format!("```\n<tool_call>\n```\n<tool_call>{json}</tool_call>"),
        &[text("```\n<tool_call>\n```\n"), call("LS", "{}")],
    );
}

#[test]
fn everything_from_an_invented_result_on_is_dropped() {
    let json = r#"{"name": "LS", "arguments": {}}"#;
    let invented =
        format!("\n<tool_response>\na\n</tool_response>\n<tool_call>{json}</tool_call>\nend");
    let lost = || dropped(invented.trim_start());
    let closed = format!("<tool_call>{json}</tool_call>");
    check(&format!("{closed}{invented}"), &[call("LS", "{}"), text("\n"), lost()]);
    check(&format!("{closed}{}", invented.trim_start()), &[call("LS", "{}"), lost()]);
    check(&format!("[TOOL_CALLS][{json}]{invented}"), &[call("LS", "{}"), lost()]);
    check(&format!("<|python_tag|>{json}{invented}"), &[call("LS", "{}"), lost()]);
    check(&format!("{json}{invented}"), &[call("LS", "{}"), lost()]);
    check(&format!("text{invented}"), &[text("text\n"), lost()]);
    let unclosed = format!("<tool_call>{json}\n<tool_response>\na");
    check(&unclosed, &[call("LS", "{}"), dropped("<tool_response>\na")]);
    // The value of a parameter may contain anything but the end of the call.
    check(
        "<tool_call><function=LS><parameter=path>\n\n<tool_response>\n</parameter></function></tool_call>",
        &[call("LS", r#"{"path":"\n<tool_response>"}"#)],
    );
}

#[test]
fn only_text_that_may_be_a_call_is_held_back() {
    let tools = tools();
    let mut reader = TextCallReader::new(&tools, usize::MAX);
    let mut check = |piece: &str, expected: &str| {
        let texts = reader.push(piece).into_iter().map(|found| match found {
            Segment::Text(text) => text,
            other => panic!("{other:?}"),
        });
        assert_eq!(texts.collect::<String>(), expected, "{piece:?}");
    };
    check("See", "See");
    check(" <tool_call>:\n", " <tool_call>:\n");
    check("```rust\n", "");
    check("fn main() {\n", "```rust\nfn main() {\n");
    check("}\n``", "}\n");
    check("`\n", "```\n");
    check("```json\n{\"a\": 1}\n", "");
    check("```\n", "```json\n{\"a\": 1}\n```\n");
    check("<tool", "");
    check("box> <", "<toolbox> <");
    check("\n \n\t", "\n \n\t");
}

#[test]
fn nothing_longer_than_an_answer_is_held_back() {
    let tools = tools();
    let closed = r#"<tool_call>{"name": "LS", "arguments": {}}</tool_call>"#;
    for (begin, more) in [
        ("{\"a\": \"", "x"),
        ("[TOOL_CALLS][{\"name\": \"", "x"),
        ("<tool_call>{\"name\": \"", "x"),
        ("```json\n{\"name\": \"", "x"),
        ("<tool_call>", " "),
        ("", "`"),
        (closed, closed),
        ("<tool_response>", "x"),
    ] {
        let mut reader = TextCallReader::new(&tools, 1000);
        let mut n_emitted = 0;
        let pieces = std::iter::once(begin).chain(std::iter::repeat(more));
        for part in pieces.take(3000).flat_map(|piece| reader.push(piece)) {
            if let Segment::Text(text) | Segment::Dropped(text) = part {
                n_emitted += text.len();
            }
        }
        assert!(n_emitted > 1000, "{begin}{more}: {n_emitted}");
    }
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
    check(&format!("<tool_call>{cut}"), &[call(UNREADABLE_CALL_NAME, cut)]);
    check(&format!("<tool_call>{cut}</tool_call>"), &[call(UNREADABLE_CALL_NAME, cut)]);
    check(&format!("[TOOL_CALLS]{cut}"), &[call(UNREADABLE_CALL_NAME, cut)]);
    check("<|python_tag|>{print}", &[call(UNREADABLE_CALL_NAME, "{print}")]);
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
                Just("Read[ARGS]{}"), Just("<function=LS>"), Just("</function>"), Just("<tool_response>"),
                Just("<|eom_id|>"), Just("json\n"), Just("`"), Just("\n```\n"), Just(" "), Just("["),
            ],
            0..10,
        ),
        size in 1_usize..9,
    ) {
        let answer = parts.concat();
        prop_assert_eq!(found(&answer, size), found(&answer, 1000));
    }
}
