//! What models used and cost: the same sum wherever it is shown.

use serde_json::json;

use crate::support::server::{self, Chunk, Server};
use crate::support::{Pty, Test};

const PRICE: &str = "[models.\"test/m\"]\nprice_in = 1000.0\nprice_out = 1000.0\n";

fn chat(server: &Server, setup: impl FnOnce(Test) -> Test) -> (Test, Pty) {
    let config =
        format!("model = \"test/m\"\n[providers.test]\nbase_url = \"{}\"\n{PRICE}", server.url());
    let test = setup(Test::new().user_config(&config));
    let pty = Pty::start(&test, &[], 30, 100, "xterm-256color");
    pty.wait_for("/help");
    (test, pty)
}

#[test]
fn tokens_of_sub_agents_without_a_price_are_named_everywhere() {
    let server = Server::with(|request, _| match request.json()["model"] == "other" {
        true => server::sse_text("It is fine."),
        false if request.body.contains("tool_call_id") => server::sse_text("all done"),
        false => server::sse_calls(&[(
            "Task",
            json!({"description": "d", "prompt": "p", "subagent_type": "reviewer"}),
        )]),
    });
    let role = "---\ndescription: D.\nmodel: test/other\n---\nYou review.\n";
    let (test, mut pty) = chat(&server, |test| {
        let folder = test.home().join(".config/agent/agents");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("reviewer.md"), role).unwrap();
        test
    });
    pty.say("review it");
    pty.wait_for("all done");
    pty.wait("the end", |_| test.has_event("turn.finished"));
    pty.wait_for("/help");
    // Two answers of the model with a price, one of the other: 10 tokens in, 2 out each.
    pty.say("/cost");
    pty.wait_for("input   30 tokens");
    let words = "$0.0240, without 12 tokens of models whose price is not known";
    pty.wait_for(&format!("money   {words}"));
    pty.say("/quit");
    pty.end();
    let show = test.agent(&["session", "show"]).stdout;
    assert!(show.contains(&format!("30 in, 6 out · {words}\n")), "{show}");
    let list = test.agent(&["session", "list"]).stdout;
    assert!(list.contains("$0.0240+"), "{list}");
}

#[test]
fn stopped_answer_is_an_estimate_everywhere() {
    let call = json!({"choices": [{"index": 0, "finish_reason": null, "delta": {"tool_calls": [
        {"index": 0, "id": "c", "type": "function", "function":
            {"name": "Write", "arguments": format!("{{\"content\": \"{}", "word ".repeat(2000))}}]}}]});
    let server = Server::with(move |_, _| {
        server::sse_raw(&[&call.to_string()]).then(Chunk::Pause(std::time::Duration::from_mins(1)))
    });
    let (test, mut pty) = chat(&server, |test| test);
    pty.say("/cost");
    pty.wait_for("money   nothing yet: no model has answered");
    pty.say("write it");
    pty.wait_for("answering");
    pty.wait("an estimate", |screen| screen.contains("k tokens"));
    pty.send("\x1b");
    pty.wait_for("stopped by you");
    pty.wait_for("/help");
    let turn = test.events_of("turn.finished").remove(0);
    let total = |usage: &serde_json::Value| {
        usage["input_tokens"].as_u64().unwrap() + usage["output_tokens"].as_u64().unwrap()
    };
    assert!(turn["usage"]["output_tokens"].as_u64().unwrap() > 1000, "{turn}");
    assert_eq!(turn["estimated_tokens"], total(&turn["usage"]));
    let tokens = total(&turn["usage"]);
    let in_thousands = |n: u64| format!("~{}.{}k tokens", n / 1000, n % 1000 / 100);
    let written = in_thousands(turn["usage"]["output_tokens"].as_u64().unwrap());
    let screen = pty.screen();
    for part in [in_thousands(tokens), format!("{written} out")] {
        assert!(screen.contains(&part), "status, turn: {part}\n{screen}");
    }
    pty.say("/cost");
    pty.wait_for(", 0 of them from the provider's cache");
    pty.wait_for("tokens are an estimate: no provider counted them");
    pty.wait_for("money   ~$");
    pty.say("/quit");
    pty.end();
    let show = test.agent(&["session", "show"]).stdout;
    assert!(show.contains(" · ~$") && !show.contains("0 in, 0 out"), "{show}");
    // What was interrupted within a call is no part of the conversation.
    assert_eq!(test.events_of("model.responded")[0]["discarded"], true);
}

#[test]
fn rewind_does_not_reset_the_cost() {
    let server = Server::with(|_, n| server::sse_text(&format!("answer {n}")));
    let (test, mut pty) = chat(&server, |test| test);
    for n in 0..2 {
        pty.say("go");
        pty.wait_for(&format!("answer {n}"));
        pty.wait_for("/help");
    }
    pty.say("/rewind 2 conversation");
    pty.wait_for("back to before turn 2");
    pty.send("\x15");
    pty.say("/cost");
    pty.wait_for("input   20 tokens");
    pty.say("/quit");
    pty.end();
    let mut resumed = Pty::start(&test, &["-c"], 30, 100, "xterm-256color");
    resumed.wait_for("resumed");
    resumed.say("/cost");
    resumed.wait_for("input   20 tokens");
}
