//! Turns: what the editor is shown and asked.

use std::collections::BTreeMap;

use agent_client_protocol::v1::schema::{
    CancelNotification, ClientCapabilities, CreateElicitationRequest, ElicitationAcceptAction,
    ElicitationAction, ElicitationCapabilities, ElicitationContentValue,
    ElicitationFormCapabilities, RequestPermissionOutcome, SetSessionModeRequest, StopReason,
};
use serde_json::{Value, json};

use super::editor::{User, edit};
use crate::support::Test;
use crate::support::server::{Server, sse_raw};

#[test]
fn editor_sees_each_step_and_permits_a_change() {
    let test = Test::new().file("a.txt", "one\ntwo\n").script(
        "reasoning: Reading comes first.\ntext: I read it.\n\
         call: TodoWrite {\"summary\":\"s\",\"todos\":[{\"content\":\"read\",\"status\":\"in_progress\"},\
         {\"content\":\"write\",\"status\":\"pending\"}]}\n\
         call: Read {\"path\":\"a.txt\",\"start_line\":2}\n---\n\
         call: Edit {\"path\":\"a.txt\",\"old_string\":\"two\",\"new_string\":\"2\"}\n\
         call: Bash {\"command\":\"echo out; exit 3\"}\n---\ntext: done",
    );
    let code = edit(&test, &[], User::choosing("once"), async |editor| {
        let opened = editor.open(&test).await;
        assert_eq!(editor.initialized.agent_info.as_ref().unwrap().name, "agent");
        let modes = serde_json::to_value(opened.modes).unwrap();
        assert_eq!(modes["currentModeId"], "ask");
        let ended = editor.say(&opened.session_id, "change it").await;
        assert_eq!(ended.unwrap(), StopReason::EndTurn);

        assert_eq!(editor.text(&opened.session_id), "I read it.done");
        let thought = &editor.updates_of("agent_thought_chunk")[0];
        assert_eq!(thought["content"]["text"], "Reading comes first.");
        let plan = &editor.updates_of("plan")[0]["entries"];
        assert_eq!(plan[0]["content"], "read");
        assert_eq!(
            (&plan[0]["status"], &plan[1]["status"]),
            (&json!("in_progress"), &json!("pending"))
        );

        let path = test.root().join("a.txt");
        let calls = editor.updates_of("tool_call");
        let [read, change, command] = &calls[..] else { panic!("{calls:#?}") };
        assert_eq!((&read["kind"], &read["title"]), (&json!("read"), &json!("Read a.txt")));
        assert_eq!(read["locations"], json!([{"path": path, "line": 2}]));
        assert_eq!((&change["kind"], change.get("status")), (&json!("edit"), None));
        assert_eq!(command["kind"], "execute");

        let diff =
            json!([{"type": "diff", "path": path, "oldText": "one\ntwo\n", "newText": "one\n2\n"}]);
        let asked = &editor.asked()[0];
        assert_eq!(asked["toolCall"]["content"], diff);
        assert_eq!(asked["toolCall"]["toolCallId"], change["toolCallId"]);
        let options = asked["options"].as_array().unwrap().iter();
        let options: Vec<String> =
            options.map(|it| format!("{}: {}", it["kind"], it["name"]).replace('"', "")).collect();
        let expected = [
            "allow_once: Allow",
            "allow_always: Allow Edit(./a.txt) for this session",
            "allow_always: Allow, and switch to mode auto-edit",
            "reject_once: Reject",
        ];
        assert_eq!(options, expected);

        let ends = finished(&editor.updates());
        assert_eq!(ends[change["toolCallId"].as_str().unwrap()]["content"], diff);
        let failed = &ends[command["toolCallId"].as_str().unwrap()];
        assert_eq!(failed["status"], "failed");
        assert!(
            failed["content"][0]["content"]["text"].as_str().unwrap().contains("out\n"),
            "{failed}"
        );
        let usage = &editor.updates_of("usage_update")[0];
        assert!(
            usage["used"].as_u64() > Some(0) && usage["size"].as_u64() > usage["used"].as_u64()
        );
    });
    assert_eq!(code, Some(0));
    assert_eq!(test.read("a.txt"), "one\n2\n");
}

/// A title is one short line.
#[test]
fn permission_request_contains_the_whole_command_and_where_it_runs() {
    let line = format!("echo {}; touch last", "x".repeat(300));
    let input = json!({"command": line, "directory": "d", "background": true});
    let test = Test::new().file("d/x", "").script(&format!("call: Bash {input}\n---\ntext: done"));
    let code = edit(&test, &[], User::choosing("reject"), async |editor| {
        let session = editor.open(&test).await.session_id;
        editor.say(&session, "go").await.unwrap();
        let shown = editor.asked()[0]["toolCall"]["content"][0]["content"]["text"].clone();
        assert_eq!(shown, format!("```\nBash (in d, in the background) {line}\n```"));
    });
    assert_eq!(code, Some(0));
}

#[test]
fn page_of_the_web_is_a_fetch_and_its_address_is_shown() {
    let input = json!({"url": "https://docs.invalid/a?b=c"});
    let test = Test::new().script(&format!("call: WebFetch {input}\n---\ntext: done"));
    let code = edit(&test, &[], User::choosing("reject"), async |editor| {
        let session = editor.open(&test).await.session_id;
        editor.say(&session, "look it up").await.unwrap();
        assert_eq!(editor.updates_of("tool_call")[0]["kind"], "fetch");
        let asked = editor.asked()[0]["toolCall"].to_string();
        assert!(asked.contains("docs.invalid/a?b=c"), "{asked}");
    });
    assert_eq!(code, Some(0));
}

/// The last update of each call.
fn finished(updates: &[Value]) -> BTreeMap<String, Value> {
    let ends = updates.iter().filter(|update| update["sessionUpdate"] == "tool_call_update");
    let of_call = |update: &Value| update["toolCallId"].as_str().unwrap().to_owned();
    ends.map(|update| (of_call(update), update.clone())).collect()
}

#[test]
fn rejection_and_always_are_answers_like_in_the_chat() {
    let write =
        |name: &str| format!("call: Write {{\"path\":\"{name}\",\"content\":\"x\"}}\n---\n");
    let script = format!(
        "{}expect: the user said no to this call\n{}{}text: done",
        write("a"),
        write("b"),
        write("c")
    );
    let test = Test::new().script(&script);
    let user = User::permitting(|request| {
        let is_first = request.tool_call.fields.title.as_deref() == Some("Write a");
        let option = if is_first { "reject" } else { "always-1" };
        let selected = agent_client_protocol::v1::schema::SelectedPermissionOutcome::new(option);
        Some(RequestPermissionOutcome::Selected(selected))
    });
    edit(&test, &[], user, async |editor| {
        let session = editor.open(&test).await.session_id;
        assert_eq!(editor.say(&session, "write").await.unwrap(), StopReason::EndTurn);
        // (Without a report: the user knows of the rejection.)
        assert_eq!(editor.text(&session), "done");
        // The answer for the second one also allows the third one.
        assert_eq!(editor.asked().len(), 2);
        assert_eq!(editor.updates_of("current_mode_update")[0]["currentModeId"], "auto-edit");
        let set = &editor.updates_of("config_option_update")[0]["configOptions"][0];
        assert_eq!((&set["id"], &set["currentValue"]), (&json!("mode"), &json!("auto-edit")));
    });
    assert!(!test.root().join("a").exists());
    assert_eq!((test.read("b"), test.read("c")), ("x".to_owned(), "x".to_owned()));
}

#[test]
fn cancel_ends_a_turn_that_waits_for_a_permission() {
    let test = Test::new().script(
        "call: Write {\"path\":\"a\",\"content\":\"x\"}\n---\ntext: not now\n---\ntext: later",
    );
    let user = User::permitting(|_| None);
    edit(&test, &[], user, async |editor| {
        let session = editor.open(&test).await.session_id;
        let cancelling = async {
            editor.wait_for("a permission request", |editor| !editor.asked().is_empty()).await;
            let cancel = CancelNotification::new(session.clone());
            editor.connection.send_notification(cancel).unwrap();
        };
        let (ended, ()) = tokio::join!(editor.say(&session, "write"), cancelling);
        assert_eq!(ended.unwrap(), StopReason::Cancelled);
        editor.wait_for("a withdrawal", |editor| editor.is_withdrawn()).await;
        // The session goes on.
        assert_eq!(editor.say(&session, "again").await.unwrap(), StopReason::EndTurn);
        assert_eq!(editor.text(&session), "not now");
    });
    assert!(!test.root().join("a").exists());
}

#[test]
fn cancel_ends_an_answer_that_hangs() {
    let test = Test::new().script("text: begun\nfault: hang\n---\ntext: next");
    edit(&test, &[], User::choosing("once"), async |editor| {
        let session = editor.open(&test).await.session_id;
        let cancelling = async {
            editor.wait_for("a request", |_| test.has_event("model.requested")).await;
            let cancel = CancelNotification::new(session.clone());
            editor.connection.send_notification(cancel).unwrap();
        };
        let (ended, ()) = tokio::join!(editor.say(&session, "begin"), cancelling);
        assert_eq!(ended.unwrap(), StopReason::Cancelled);
        assert_eq!(editor.say(&session, "next").await.unwrap(), StopReason::EndTurn);
    });
}

#[test]
fn another_mode_settles_an_open_permission_request() {
    let test =
        Test::new().script("call: Write {\"path\":\"a\",\"content\":\"x\"}\n---\ntext: done");
    edit(&test, &[], User::permitting(|_| None), async |editor| {
        let session = editor.open(&test).await.session_id;
        let switching = async {
            editor.wait_for("a permission request", |editor| !editor.asked().is_empty()).await;
            let request = SetSessionModeRequest::new(session.clone(), "auto-edit");
            editor.connection.send_request(request).block_task().await.unwrap();
        };
        let (ended, ()) = tokio::join!(editor.say(&session, "write"), switching);
        assert_eq!(ended.unwrap(), StopReason::EndTurn);
        assert!(editor.is_withdrawn());
        assert_eq!(editor.updates_of("current_mode_update")[0]["currentModeId"], "auto-edit");
        let request = SetSessionModeRequest::new(session, "nonsense");
        let refused = editor.connection.send_request(request).block_task().await;
        assert_eq!(refused.unwrap_err().message, "there is no mode \"nonsense\"");
    });
    assert_eq!(test.read("a"), "x");
}

#[test]
fn stop_reasons_and_reports_say_how_a_turn_ended() {
    let check = |script: &str, args: &[&str], expected: StopReason, text: &str| {
        let test = Test::new().script(script);
        edit(&test, args, User::choosing("once"), async |editor| {
            let session = editor.open(&test).await.session_id;
            assert_eq!(editor.say(&session, "go").await.unwrap(), expected, "{script}");
            let said = editor.text(&session);
            assert!(said.contains(text), "{script}: {said}");
        });
    };
    let listing = "call: LS {\"path\":\".\"}\n---\n".repeat(3);
    check(&listing, &["--max-turns", "2"], StopReason::MaxTurnRequests, "2");
    check("times: any\nfault: refused", &[], StopReason::Refusal, "withheld");
    check("text: done", &["--check", "exit 1"], StopReason::EndTurn, "exit 1");
}

#[test]
fn answer_that_is_always_cut_off_ends_with_max_tokens() {
    let server = Server::with(|_, _| {
        let part =
            json!({"choices": [{"index": 0, "delta": {"content": "half"}, "finish_reason": null}]});
        let end = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "length"}]});
        sse_raw(&[&part.to_string(), &end.to_string(), "[DONE]"])
    });
    let test = Test::new().env("OPENAI_API_KEY", "k");
    let args = ["--model", "openai/m", "--base-url", &server.url(), "--no-memory"];
    edit(&test, &args, User::choosing("once"), async |editor| {
        let session = editor.open(&test).await.session_id;
        assert_eq!(editor.say(&session, "go").await.unwrap(), StopReason::MaxTokens);
    });
}

/// A client that shows forms.
fn with_forms() -> ClientCapabilities {
    let forms = ElicitationCapabilities::new().form(ElicitationFormCapabilities::new());
    ClientCapabilities::new().elicitation(forms)
}

#[test]
fn questions_of_the_model_are_a_form() {
    let questions = json!({"questions": [
        {"question": "Which database?", "header": "Storage", "options": [
            {"label": "SQLite", "description": "one file"}, {"label": "Postgres"}]},
        {"question": "Which features?", "multi_select": true,
         "options": [{"label": "logs"}, {"label": "cache"}]},
        {"question": "Which name?"},
    ]});
    let test = Test::new().script(&format!(
        "call: AskUser {questions}\n---\n\
         expect: Which database\\? → Postgres, with care\nexpect: Which features\\? → logs, cache\n\
         expect: Which name\\? → x\ntext: noted\n---\n\
         call: AskUser {questions}\n---\nexpect: Which name\\? → \ntext: noted again"
    ));
    let is_first = std::sync::atomic::AtomicBool::new(true);
    let mut user = User::choosing("once");
    user.capabilities = with_forms();
    user.answers = Box::new(move |request: &CreateElicitationRequest| {
        if !is_first.swap(false, std::sync::atomic::Ordering::SeqCst) {
            return ElicitationAction::Decline;
        }
        let form = serde_json::to_value(request).unwrap();
        let fields = &form["requestedSchema"]["properties"];
        assert_eq!(fields["answer1"]["enum"], json!(["SQLite", "Postgres"]));
        assert_eq!(fields["answer1"]["title"], "Storage");
        assert_eq!(fields["answer2"]["items"]["enum"], json!(["logs", "cache"]));
        assert_eq!(form["requestedSchema"]["required"], json!(["answer3"]));
        let text = |text: &str| ElicitationContentValue::String(text.to_owned());
        let both = vec!["logs".to_owned(), "cache".to_owned()];
        let content = BTreeMap::from([
            ("answer1".to_owned(), text("Postgres")),
            ("answer1_in_words".to_owned(), text("with care")),
            ("answer2".to_owned(), ElicitationContentValue::StringArray(both)),
            ("answer3".to_owned(), text("x")),
        ]);
        ElicitationAction::Accept(ElicitationAcceptAction::new().content(content))
    });
    edit(&test, &[], user, async |editor| {
        let session = editor.open(&test).await.session_id;
        assert_eq!(editor.say(&session, "ask").await.unwrap(), StopReason::EndTurn);
        assert_eq!(editor.say(&session, "ask again").await.unwrap(), StopReason::EndTurn);
        assert_eq!(editor.text(&session), "notednoted again");
    });
}

#[test]
fn editor_without_forms_is_asked_no_questions() {
    let questions = json!({"questions": [{"question": "Which?"}]});
    let test = Test::new()
        .script(&format!("call: AskUser {questions}\n---\nexpect: UNKNOWN_TOOL\ntext: ok"));
    edit(&test, &[], User::choosing("once"), async |editor| {
        let session = editor.open(&test).await.session_id;
        assert_eq!(editor.say(&session, "ask").await.unwrap(), StopReason::EndTurn);
        assert_eq!(editor.text(&session), "ok");
    });
}

#[test]
fn calls_of_sub_agents_are_shown_and_need_permission() {
    let task = json!({"description": "write it", "prompt": "write a", "subagent_type": "general"});
    let test = Test::new().script(&format!(
        "call: Task {task}\n---\nfor: agent\ncall: Write {{\"path\":\"a\",\"content\":\"x\"}}\n---\n\
         for: agent\ntext: written\n---\ntext: done"
    ));
    edit(&test, &[], User::choosing("once"), async |editor| {
        let session = editor.open(&test).await.session_id;
        assert_eq!(editor.say(&session, "delegate").await.unwrap(), StopReason::EndTurn);
        let titles: Vec<Value> =
            editor.updates_of("tool_call").iter().map(|call| call["title"].clone()).collect();
        assert!(titles.contains(&json!("[general] Write a")), "{titles:?}");
        let asked = editor.asked();
        assert!(asked.iter().any(|it| it["toolCall"]["title"] == "[general] Write a"), "{asked:?}");
        assert_eq!(editor.text(&session), "done");
    });
    assert_eq!(test.read("a"), "x");
}
