//! Sessions: several at once, loaded, resumed, listed, closed; and what the editor sets in them.

use agent_client_protocol::v1::schema::{
    CloseSessionRequest, EnvVariable, ListSessionsRequest, LoadSessionRequest, McpServer,
    McpServerSse, McpServerStdio, NewSessionRequest, ResumeSessionRequest,
    SetSessionConfigOptionRequest, StopReason,
};
use serde_json::{Value, json};

use super::editor::{Editor, User, edit};
use crate::support::server::{self, Server, sse_text};
use crate::support::{Test, wait_for};

#[test]
fn loaded_session_shows_its_conversation_and_goes_on() {
    let test = Test::new().file("a.txt", "one\n").script(
        "reasoning: I think.\ntext: I look.\ncall: Read {\"path\":\"a.txt\"}\n---\n\
         call: Edit {\"path\":\"a.txt\",\"old_string\":\"one\",\"new_string\":\"1\"}\n---\ntext: done",
    );
    let mut id = None;
    edit(&test, &[], User::choosing("once"), async |editor| {
        let session = editor.open(&test).await.session_id;
        editor.say(&session, "change\nit").await.unwrap();
        id = Some(session);
    });
    let id = id.unwrap();
    let test = test.script("when: change\nwhen: Updated|done\ntext: still here");
    edit(&test, &[], User::choosing("once"), async |editor| {
        let list = ListSessionsRequest::new().cwd(test.root());
        let listed = editor.connection.send_request(list).block_task().await.unwrap().sessions;
        let [info] = &listed[..] else { panic!("{listed:?}") };
        assert_eq!((&info.session_id, &info.cwd), (&id, &test.root()));
        assert_eq!(info.title.as_deref(), Some("change"));
        assert!(info.updated_at.is_some());
        let everywhere = editor.connection.send_request(ListSessionsRequest::new());
        let everywhere = everywhere.block_task().await.unwrap().sessions;
        assert!(everywhere.iter().any(|info| info.session_id == id));

        let load = LoadSessionRequest::new(id.clone(), test.root());
        let loaded = editor.connection.send_request(load).block_task().await.unwrap();
        assert!(loaded.modes.is_some() && loaded.config_options.is_some());
        let shown: Vec<String> = editor
            .updates()
            .iter()
            .map(|it| {
                let kind = it["sessionUpdate"].as_str().unwrap();
                let text = it["content"]["text"].as_str().or(it["title"].as_str());
                format!("{kind} {}", text.unwrap_or_default())
            })
            .filter(|it| !it.starts_with("usage") && !it.starts_with("available"))
            .collect();
        let expected = [
            "user_message_chunk change\nit",
            "agent_thought_chunk I think.",
            "agent_message_chunk I look.",
            "tool_call Read a.txt",
            "tool_call_update ",
            "tool_call Edit a.txt",
            "tool_call_update ",
            "agent_message_chunk done",
        ];
        assert_eq!(shown, expected);
        assert_eq!(editor.updates_of("tool_call_update")[1]["content"][0]["newText"], "1\n");
        assert_eq!(editor.say(&id, "go on").await.unwrap(), StopReason::EndTurn);
        assert!(editor.text(&id).ends_with("donestill here"), "{}", editor.text(&id));
    });
}

#[test]
fn resumed_session_shows_nothing_and_closed_one_can_be_resumed() {
    let test = Test::new().script("when: ^two$\ntext: second\n---\ntext: first");
    edit(&test, &[], User::choosing("once"), async |editor| {
        let id = editor.open(&test).await.session_id;
        editor.say(&id, "one").await.unwrap();
        let resume = || ResumeSessionRequest::new(id.clone(), test.root());
        let twice = editor.connection.send_request(resume()).block_task().await.unwrap_err();
        assert!(twice.message.contains("in use"), "{twice:?}");
        let close = || CloseSessionRequest::new(id.clone());
        editor.connection.send_request(close()).block_task().await.unwrap();
        assert!(editor.say(&id, "two").await.unwrap_err().message.contains("is not open"));
        assert!(editor.connection.send_request(close()).block_task().await.is_err());
        let n_before = editor.updates_of("agent_message_chunk").len();
        editor.connection.send_request(resume()).block_task().await.unwrap();
        assert_eq!(editor.updates_of("agent_message_chunk").len(), n_before);
        editor.say(&id, "two").await.unwrap();
        assert_eq!(editor.text(&id), "firstsecond");
    });
}

#[test]
fn unknown_sessions_and_wrong_places_are_errors() {
    let test = Test::new().script("text: hi");
    edit(&test, &[], User::choosing("once"), async |editor| {
        for id in ["nonsense", "01a21a74-1534-73f1-9b56-04d7de8a0ed3", "../../x"] {
            let load = LoadSessionRequest::new(id, test.root());
            let error = editor.connection.send_request(load).block_task().await.unwrap_err();
            assert_eq!(error.message, format!("no session {id} is recorded"));
        }
        for (cwd, why) in [("relative", "absolute"), ("/does/not/exist", "there is no such folder")]
        {
            let new = NewSessionRequest::new(cwd);
            let error = editor.connection.send_request(new).block_task().await.unwrap_err();
            assert!(error.message.contains(why), "{error:?}");
        }
    });
}

#[test]
fn sessions_of_one_connection_work_at_the_same_time() {
    let test = Test::new().script(
        "when: first task\ncall: Bash {\"command\":\"until [ -e go ]; do sleep 0.05; done\"}\n---\n\
         when: first task\ntext: first is done\n---\nwhen: second task\ntext: second is done",
    );
    edit(&test, &["--permission-mode", "auto-edit"], User::choosing("once"), async |editor| {
        let first = editor.open(&test).await.session_id;
        let second = editor.open(&test).await.session_id;
        let meanwhile = async {
            editor.wait_for("a call", |it| !it.updates_of("tool_call").is_empty()).await;
            editor.say(&second, "second task").await.unwrap();
            assert_eq!(
                (editor.text(&first), editor.text(&second)),
                (String::new(), "second is done".into())
            );
            test.write("go", "");
        };
        let (ended, ()) = tokio::join!(editor.say(&first, "first task"), meanwhile);
        assert_eq!(ended.unwrap(), StopReason::EndTurn);
        assert_eq!(editor.text(&first), "first is done");
    });
}

#[test]
fn mcp_servers_of_the_client_are_those_of_its_session() {
    let test = Test::new().script(
        "when: ^nothing$\ntext: nothing\n---\nwhen: ^call it$\ncall: mcp__given__env {}\n---\n\
         when: ^call it$\nexpect: from the editor\ntext: ok",
    );
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/mcp/server.sh");
    let given = McpServerStdio::new("given", "/bin/bash")
        .args(vec![script.to_owned()])
        .env(vec![EnvVariable::new("EXTRA", "from the editor")]);
    let new =
        || NewSessionRequest::new(test.root()).mcp_servers(vec![McpServer::Stdio(given.clone())]);
    edit(&test, &["--allow", "mcp"], User::choosing("once"), async |editor| {
        // Its tools are known after the first connection.
        editor.connection.send_request(new()).block_task().await.unwrap();
        editor.wait_for("a connection", |_| test.has_event("mcp.server")).await;
        let plain = editor.open(&test).await.session_id;
        editor.say(&plain, "nothing").await.unwrap();
        let opened = editor.connection.send_request(new()).block_task().await.unwrap();
        let ended = editor.say(&opened.session_id, "call it").await;
        assert_eq!(
            (ended.unwrap(), editor.text(&opened.session_id)),
            (StopReason::EndTurn, "ok".into())
        );
        let sse = McpServer::Sse(McpServerSse::new("old", "http://127.0.0.1:1/sse"));
        let new = NewSessionRequest::new(test.root()).mcp_servers(vec![sse]);
        let error = editor.connection.send_request(new).block_task().await.unwrap_err();
        assert!(error.message.contains("sse is not supported"), "{error:?}");
    });
}

#[test]
fn prompts_of_mcp_servers_are_commands() {
    let test = Test::new().script("text: hello");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/mcp/server.sh");
    let given = McpServerStdio::new("given", "/bin/bash")
        .args(vec![script.to_owned()])
        .env(vec![EnvVariable::new("MODE", "offers")]);
    let new = NewSessionRequest::new(test.root()).mcp_servers(vec![McpServer::Stdio(given)]);
    edit(&test, &[], User::choosing("once"), async |editor| {
        let session = editor.connection.send_request(new).block_task().await.unwrap().session_id;
        let is_offered = |editor: &Editor| {
            let updates = json!(editor.updates_of("available_commands_update"));
            updates.to_string().contains("\"mcp__given__greet\"")
        };
        editor.wait_for("a command", is_offered).await;
        let ended = editor.say(&session, "/mcp__given__greet Ada").await;
        assert_eq!(ended.unwrap(), StopReason::EndTurn);
    });
    let shown = &test.events_of("turn.started")[0]["shown"];
    assert!(shown.as_str().unwrap().contains("Ada"), "{shown}");
}

#[test]
fn model_and_mode_are_options_of_a_session() {
    let server = Server::with(|request, _| match request.method.as_str() {
        "POST" => sse_text(request.json()["model"].as_str().unwrap()),
        _ => server::json(200, &json!({"data": []})),
    });
    let test = Test::new()
        .env("OPENAI_API_KEY", "sk-0123456789abcdef")
        .user_config("[models.\"openai/other\"]\n");
    let args = ["--model", "openai/one", "--base-url", &server.url(), "--no-memory"];
    edit(&test, &args, User::choosing("once"), async |editor| {
        let opened = editor.open(&test).await;
        let session = opened.session_id;
        let options = serde_json::to_value(opened.config_options).unwrap();
        let current = |options: &Value| {
            let options = options.as_array().unwrap().iter();
            options.map(|it| it["currentValue"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(current(&options), ["ask", "openai/one"]);
        let models = options[1]["options"].as_array().unwrap();
        assert!(models.iter().any(|model| model["value"] == "openai/other"), "{models:?}");
        let set = async |option: &'static str, value: &'static str| {
            let request = SetSessionConfigOptionRequest::new(session.clone(), option, value);
            let set = editor.connection.send_request(request).block_task().await;
            set.map(|set| current(&json!(set.config_options))).map_err(|error| error.message)
        };
        assert_eq!(set("model", "openai/other").await.unwrap(), ["ask", "openai/other"]);
        assert_eq!(set("mode", "plan").await.unwrap(), ["plan", "openai/other"]);
        assert!(set("model", "nobody/x").await.is_err());
        assert_eq!(
            set("colour", "red").await.unwrap_err(),
            "there is no option \"colour\": mode, model"
        );
        editor.say(&session, "hi").await.unwrap();
        assert_eq!(editor.text(&session), "other");
    });
    assert!(test.has_event("mode.changed"));
}

#[test]
fn session_without_a_model_is_not_opened() {
    let test = Test::new();
    let user = User::choosing("once");
    edit(&test, &["--model", "auto"], user, async |editor| {
        let new = NewSessionRequest::new(test.root());
        let error = editor.connection.send_request(new).block_task().await.unwrap_err();
        assert!(error.message.contains("model"), "{error:?}");
    });
    wait_for(|| test.try_log().is_none());
}
