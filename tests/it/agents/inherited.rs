//! What sub-agents have of the session: its skills and the tools of its servers.

use serde_json::{Value, json};

use super::{of, results, task};
use crate::mcp::{code, known, server};
use crate::support::{Done, Test};

/// A run in which calls of servers are allowed.
fn run(test: &Test, script: &[String]) -> Done {
    std::fs::write(test.root().join("../script"), script.concat()).unwrap();
    test.run(&["--allow", "mcp", "task"]).expect_code(0)
}

/// The tools in each request of sub-agents, as text.
fn tools_of_agents(test: &Test) -> Vec<String> {
    let requested = test.events_of("model.requested").into_iter();
    let texts: Vec<Value> =
        test.events_of("model.requested").iter().map(|it| it["texts"].clone()).collect();
    let text = |hash: &str| {
        let text = texts.iter().find_map(|texts| texts[hash].as_str());
        text.unwrap_or_default().to_owned()
    };
    let of_agents = requested.filter(|it| it["agent"] != "main");
    of_agents.map(|it| text(it["layers"]["tools"]["hash"].as_str().unwrap())).collect()
}

/// The envelopes of calls of sub-agents.
fn envelopes(test: &Test) -> Vec<Value> {
    let finished = test.events_of("tool.finished").into_iter();
    finished.filter(|it| it["agent"] != "main").map(|it| it["envelope"].clone()).collect()
}

#[test]
fn sub_agent_uses_skills_and_servers_of_the_session() {
    let test = known(&server("")).file(
        ".agent/skills/greet/SKILL.md",
        "---\nname: greet\ndescription: Greets.\n---\nSay hello to $1.\n",
    );
    let script = [
        task("general", "greet"),
        of(
            "greet",
            "call: Skill {\"name\": \"greet\", \"arguments\": \"Ann\"}\ncall: mcp__t__echo {\"text\": \"hi\"}",
        ),
        of(
            "greet",
            "expect: Say hello to Ann\nexpect: hi\ncall: McpTool {\"tool\": \"t.echo\", \"arguments\": {\"text\": \"ho\"}}",
        ),
        of("greet", "expect: ho\ntext: greeted"),
        "---\nexpect: greeted\ntext: done".to_owned(),
    ];
    run(&test, &script).expect_stdout("done\n");
    let effects: Vec<Value> =
        test.events_of("tool.started").iter().map(|it| it["effect"]["kind"].clone()).collect();
    assert_eq!(effects, ["agent", "skill", "mcp", "mcp"]);
    // A call is asked about as for the main agent.
    let denied = test.run(&["task"]);
    assert_eq!(results(&test)[0]["error"]["code"], "SUBAGENT_FAILED", "{}", denied.stderr);
    assert_eq!(code(&envelopes(&test)[1]), "APPROVAL_REQUIRED");
}

#[test]
fn tools_of_a_sub_agent_are_fixed_when_it_starts() {
    let test = known(&server("changes"));
    let script = [
        task("general", "first"),
        of("first", "call: mcp__t__echo {\"text\": \"x\"}"),
        of("first", "call: McpTool {\"search\": \"late\"}"),
        of("first", "expect: t.late: \ntext: changed"),
        format!("---\n{}", task("general", "second")),
        of("second", "call: mcp__t__late {\"text\": \"x\"}"),
        of("second", "text: called"),
        "---\ntext: done".to_owned(),
    ];
    run(&test, &script).expect_stdout("done\n");
    let tools = tools_of_agents(&test);
    assert_eq!(tools.len(), 5);
    assert!(tools[0] == tools[1] && tools[1] == tools[2] && tools[3] == tools[4]);
    assert!(!tools[0].contains("mcp__t__late: ") && tools[3].contains("mcp__t__late: "));
    assert_eq!(code(envelopes(&test).last().unwrap()), "");
}

#[test]
fn sub_agents_that_only_read_have_tools_that_are_marked_as_reading() {
    let test = known(&server(""));
    let script = [
        task("explore", "look"),
        of(
            "look",
            "call: mcp__t__env {}\ncall: mcp__t__echo {\"text\": \"x\"}\n\
             call: McpTool {\"tool\": \"t.echo\", \"arguments\": {\"text\": \"x\"}}\ncall: McpTool {\"search\": \"\"}",
        ),
        of("look", "text: seen"),
        "---\ntext: done".to_owned(),
    ];
    run(&test, &script);
    let envelopes = envelopes(&test);
    let codes: Vec<&str> = envelopes.iter().map(code).collect();
    assert_eq!(codes, ["", "UNKNOWN_TOOL", "ACCESS_DENIED", ""]);
    let found = envelopes[3]["data"]["content"].as_str().unwrap();
    assert!(found.contains("t.env: ") && !found.contains("echo"), "{found}");
    let tools = &tools_of_agents(&test)[0];
    assert!(tools.contains("mcp__t__env: ") && !tools.contains("echo"), "{tools}");
}

#[test]
fn role_names_the_tools_of_servers_that_it_has() {
    let role = |tools: &str| format!("---\ndescription: x\ntools: {tools}\n---\n");
    let test = known(&server(""))
        .file(
            ".agent/agents/one.md",
            role("Read, mcp__t__echo, mcp__t__nothing, mcp__other__x, Skill"),
        )
        .file(".agent/agents/whole.md", role("mcp__t"))
        .file(".agent/agents/none.md", role("Read"))
        .file(
            ".agent/agents/less.md",
            "---\ndescription: x\ndisallowedTools: mcp__t__echo, McpTool\n---\n",
        );
    let calls = "call: mcp__t__echo {\"text\": \"x\"}\ncall: mcp__t__env {}\n\
                 call: McpTool {\"tool\": \"t.env\", \"arguments\": {}}";
    let roles = ["one", "whole", "none", "less"];
    let mut script: Vec<String> = roles.iter().map(|role| task(role, role)).collect();
    script.extend(roles.iter().map(|role| of(role, calls)));
    script.extend(roles.iter().map(|role| of(role, "text: tried")));
    script.push("---\ntext: done".to_owned());
    std::fs::write(test.root().join("../script"), script.concat()).unwrap();
    let args = ["--allow", "mcp", "--set", "agents.max_concurrent=1", "task"];
    let done = test.run(&args).expect_code(0);
    let notices: Vec<&str> = done.stderr.lines().filter(|line| line.contains("the role")).collect();
    assert_eq!(notices.len(), 1, "{}", done.stderr);
    assert!(
        notices[0].contains("one is without mcp__t__nothing, mcp__other__x: "),
        "{}",
        done.stderr
    );
    let envelopes = envelopes(&test);
    let codes: Vec<&str> = envelopes.iter().map(code).collect();
    let unknown = "UNKNOWN_TOOL";
    let expected = [
        ["", unknown, "ACCESS_DENIED"],
        ["", "", ""],
        [unknown, unknown, unknown],
        [unknown, "", unknown],
    ];
    assert_eq!(codes, expected.concat());
    let reads_only: Vec<Value> = test
        .events_of("tool.started")
        .iter()
        .filter(|it| it["tool"] == "Task")
        .map(|it| it["effect"]["reads_only"].clone())
        .collect();
    assert_eq!(reads_only, [Value::Null, Value::Null, json!(true), Value::Null]);
}

#[test]
fn shortened_name_in_a_role_means_the_tool_whichever_way_it_is_called() {
    let test = known(&server("colliding")).script("text: done");
    test.run(&["go"]).expect_code(0);
    let tools = test.events_of("session.started")[0]["tools"].clone();
    let mut names = tools.as_array().unwrap().iter().filter_map(Value::as_str);
    let short = names.find(|name| name.starts_with("mcp__t__aaa")).unwrap();
    let role = format!("---\ndescription: x\ndisallowedTools: {short}\n---\n");
    let test = known(&server("colliding")).file(".agent/agents/less.md", role);
    let long = format!("t.{}", "a".repeat(100));
    let calls = format!(
        "call: {short} {{\"text\": \"x\"}}\n\
         call: McpTool {{\"tool\": \"{long}\", \"arguments\": {{\"text\": \"x\"}}}}\n\
         call: McpTool {{\"tool\": \"t.a_b\", \"arguments\": {{\"text\": \"x\"}}}}"
    );
    let script = [
        task("less", "less"),
        of("less", &calls),
        of("less", "text: tried"),
        "---\ntext: done".to_owned(),
    ];
    run(&test, &script);
    let envelopes = envelopes(&test);
    let codes: Vec<&str> = envelopes.iter().map(code).collect();
    assert_eq!(codes, ["UNKNOWN_TOOL", "ACCESS_DENIED", ""]);
}
