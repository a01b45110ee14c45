//! The effects of a script on the agent loop.

use futures_util::FutureExt;

use super::*;
use agent_protocol::message::{Message, ToolCall, ToolResult};
use agent_protocol::model::Reply;

fn scripted(text: &str) -> ScriptedModel {
    ScriptedModel::parse("demo.script", text).expect("a script")
}

fn request(messages: &[Message]) -> Request<'_> {
    Request::new(Purpose::Main, "system", messages)
}

/// A conversation with one tool call and this result.
fn after(result: &str) -> [Message; 3] {
    let call = ToolCall { id: "call_1".into(), name: "Read".into(), arguments: "{}".into() };
    let result =
        ToolResult { call: "call_1".into(), text: result.into(), is_error: false, images: vec![] };
    [
        Message::text(Role::User, "fix it"),
        Message { role: Role::Assistant, parts: vec![Part::Call(call)] },
        Message { role: Role::Tool, parts: vec![Part::Result(result)] },
    ]
}

/// All items that are available without waiting.
fn items(model: &ScriptedModel, request: &Request<'_>) -> Vec<Result<Delta, ModelError>> {
    model.stream(request).collect::<Vec<_>>().now_or_never().expect("nothing to wait for")
}

fn reply(model: &ScriptedModel, request: &Request<'_>) -> Reply {
    let mut reply = Reply::default();
    for item in items(model, request) {
        reply.apply_delta(&item.expect("no failure"));
    }
    reply
}

fn error(model: &ScriptedModel, request: &Request<'_>) -> ModelError {
    items(model, request).pop().expect("an item").expect_err("a failure")
}

#[test]
fn script_turns_are_used_in_order_until_exhausted() {
    let model = scripted("text: a\ntext: b\n---\ncall: Read {\"path\":\"x\"}\ncall: LS");
    let first = reply(&model, &request(&[]));
    assert_eq!((first.text.as_str(), first.stop), ("a\nb", Some(StopReason::End)));
    assert_eq!(
        first.usage,
        Some(Usage { input_tokens: 2, output_tokens: 1, cached_tokens: 0, ..Usage::default() })
    );

    let second = reply(&model, &request(&[]));
    let call = |id: &str, name: &str, arguments: &str| ToolCall {
        id: id.into(),
        name: name.into(),
        arguments: arguments.into(),
    };
    let calls = [call("call_1", "Read", "{\"path\":\"x\"}"), call("call_2", "LS", "{}")];
    assert_eq!(second.calls, calls);
    assert_eq!(second.stop, Some(StopReason::ToolCalls));

    let over = error(&model, &request(&[]));
    assert_eq!(over.kind, ModelErrorKind::Script);
    assert_eq!(over.message, "demo.script ran out: it has 2 turns for main, and all are used");
}

#[test]
fn each_purpose_has_its_queue() {
    let model = scripted("text: a\n---\nfor: plan\ntext: b\n---\ntext: c");
    let main = request(&[]);
    let plan = Request { purpose: Purpose::Plan, ..main };
    let texts = [main, plan, main].map(|request| reply(&model, &request).text);
    assert_eq!(texts, ["a", "b", "c"]);
    let summary = Request { purpose: Purpose::Summary, ..main };
    let message = error(&model, &summary).message;
    assert!(message.starts_with("demo.script has no turn for summary, of 3"), "{message}");
}

#[test]
fn script_turn_is_skipped_until_its_condition_matches() {
    let model = scripted("when: recap$\ntext: late\n---\ntext: early");
    let plain = request(&[]);
    let said = [Message::text(Role::User, "a recap")];
    let trailing = request(&said);
    assert_eq!(reply(&model, &plain).text, "early");
    let message = error(&model, &plain).message;
    assert!(message.contains("no turn for main fits the request"), "{message}");
    assert!(message.contains("(lines 1)"), "{message}");
    assert_eq!(reply(&model, &trailing).text, "late");
}

#[test]
fn script_turn_can_be_used_several_times() {
    let model = scripted("when: hint\ntext: right\n---\ntimes: 2\ntext: wrong\n---\ntext: last");
    let plain = request(&[]);
    let said = [Message::text(Role::User, "a hint")];
    let advised = request(&said);
    let asked = [plain, advised, advised, plain];
    assert_eq!(asked.map(|asked| reply(&model, &asked).text), ["wrong", "right", "wrong", "last"]);
    let message = error(&model, &plain).message;
    assert!(message.ends_with("it has 3 turns for main, and all are used"), "{message}");

    let model = scripted("times: any\ntext: again");
    assert!((0..100).all(|_| reply(&model, &plain).text == "again"));
}

#[test]
fn results_are_expected_and_quoted() {
    let text = "expect: ^(\\w+).*\nexpect: n=(\\d+)\n\
        call: Edit {\"n\":{{match.2}},\"old\":\"{{last.text}}\",\"w\":\"{{match.1}}\"}\n\
        text: {{last.line}}!";
    let messages = after("say \"n=7\"\nend");
    let said = reply(&scripted(text), &request(&messages));
    assert_eq!(said.text, "say \"n=7\"!");
    assert_eq!(said.calls[0].arguments, r#"{"n":7,"old":"say \"n=7\"\nend","w":"say"}"#);
    assert_eq!(said.calls[0].id, "call_2", "call_1 is in the conversation");

    let failed = error(&scripted(text), &request(&after("nothing")));
    assert_eq!(failed.kind, ModelErrorKind::Script);
    assert_eq!(
        failed.message,
        "demo.script:1: the last results do not match `n=(\\d+)`; they begin: nothing"
    );
    let message = error(&scripted(text), &request(&[])).message;
    assert!(message.ends_with("; there are none"), "{message}");
}

#[test]
fn faults_that_are_errors() {
    fn check(fault: &str, kind: ModelErrorKind, status: u16) {
        let error = error(&scripted(&format!("fault: {fault}")), &request(&[]));
        assert_eq!((error.kind, error.status), (kind, Some(status)), "{fault}");
    }
    check("rate_limited", ModelErrorKind::Unavailable, 429);
    check("overloaded", ModelErrorKind::Unavailable, 503);
    check("unauthorized", ModelErrorKind::Refused, 401);
    check("overflow", ModelErrorKind::Overflow, 400);
}

#[test]
fn faults_in_answers() {
    fn check(script: &str, text: &str, arguments: &[&str], stop: Option<StopReason>) {
        let reply = reply(&scripted(script), &request(&[]));
        let calls = reply.calls.iter().map(|call| call.arguments.as_str()).collect::<Vec<_>>();
        assert_eq!((reply.text.as_str(), calls, reply.stop), (text, arguments.to_vec(), stop));
    }
    check("fault: empty", "", &[], Some(StopReason::End));
    check("text: no\nfault: refused", "no", &[], Some(StopReason::Refused));
    check("text: a\nfault: hangup", "a", &[], None);
    check("fault: unknown_tool", "", &["{}"], Some(StopReason::ToolCalls));
    let call = "call: Read {\"a\":12}\ncall: LS {\"b\":12}\n";
    let stop = Some(StopReason::ToolCalls);
    check(&format!("{call}fault: broken_json"), "", &["{\"a\"", "{\"b\""], stop);
    let stop = Some(StopReason::Length);
    check(&format!("{call}fault: length"), "", &["{\"a\":12}", "{\"b\""], stop);
}

#[test]
fn partial_text_before_a_retry_is_discarded() {
    let items = items(&scripted("text: abcd\nfault: overloaded"), &request(&[]));
    assert_eq!(items[0], Ok(Delta::Text("ab".into())));
    assert!(matches!(items[1], Ok(Delta::Retry(_))));
    assert_eq!(items[2], Ok(Delta::Text("abcd".into())));
}

#[test]
fn hang_fault_emits_its_text_and_then_waits() {
    let model = scripted("text: a\nfault: hang");
    let nothing = request(&[]);
    let mut stream = model.stream(&nothing);
    let first = stream.next().now_or_never();
    assert_eq!(first, Some(Some(Ok(Delta::Text("a".into())))));
    assert_eq!(stream.next().now_or_never(), None);
}

#[test]
fn scripted_model_page_is_up_to_date() {
    let page = include_str!("../../../../docs/SCRIPTED_MODEL.md");
    let blocks = page.split("\n\n").filter(|block| block.lines().all(|l| l.starts_with("    ")));
    let scripts = blocks.filter(|block| block.contains("\n    ---\n"));
    let scripts = scripts.map(|block| block.replace("\n    ", "\n").trim_start().to_owned());
    assert_eq!(scripts.map(|script| scripted(&script).script.len()).sum::<usize>(), 9);
    for name in agent_protocol::variant_names::variant_names::<Fault>() {
        assert!(page.contains(&format!("| `{name}`")) || page.contains(&format!(", `{name}` |")));
    }
}
