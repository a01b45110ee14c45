//! Skills: found in the folders of this and other agents, described to the model, loaded when needed.

use std::os::unix::fs::symlink;

use serde_json::{Value, json};

use crate::support::server::{self, Reply, Server, sse_calls, sse_text};
use crate::support::{Done, Pty, Test};

const DEPLOY: &str = "---\nname: deploy\ndescription: Deploys the site. Use it for releases.\n---\n\
    # Deploy\n\nRun `scripts/go $1`, then tell $ARGUMENTS.\n";

/// A run with these answers, and the requests.
fn play(
    test: &Test,
    args: &[&str],
    answers: impl IntoIterator<Item = Reply>,
) -> (Done, Vec<server::Request>) {
    let server = Server::playing(answers);
    let url = server.url();
    let all = [&["run", "--model", "openai/m", "--base-url", &url], args].concat();
    let done = test.agent(&all);
    (done, server.finish())
}

/// The description of the tool Skill in a request.
fn described(request: &server::Request) -> Option<String> {
    let request = request.json();
    let tools = request["tools"].as_array().unwrap();
    let skill = tools.iter().find(|tool| tool["function"]["name"] == "Skill")?;
    Some(skill["function"]["description"].as_str().unwrap().to_owned())
}

/// The last tool results that a request contains.
fn last_result(request: &server::Request) -> String {
    let request = request.json();
    let messages = request["messages"].as_array().unwrap();
    let result = messages.iter().rfind(|message| message["role"] == "tool").unwrap();
    result["content"].as_str().unwrap().to_owned()
}

#[test]
fn project_without_skills_has_no_tool_for_them() {
    let test = Test::new();
    let (_, requests) = play(&test, &["x"], [sse_text("done")]);
    assert_eq!(described(&requests[0]), None);
    let tools = |requests: &[server::Request]| requests[0].json()["tools"].clone();
    let without = tools(&requests);
    // Also with empty folders, and with skills only for the user.
    test.write(".claude/skills/README.md", "none");
    test.write(
        ".agent/skills/mine/SKILL.md",
        "---\ndescription: x\ndisable-model-invocation: true\n---\nText.\n",
    );
    let (done, requests) = play(&test, &["x"], [sse_text("done")]);
    assert_eq!(tools(&requests), without);
    assert_eq!(done.code, Some(0));
}

#[test]
fn model_loads_a_skill_with_arguments() {
    let test = Test::new().file(".claude/skills/deploy/SKILL.md", DEPLOY);
    let call = json!({"skill": "deploy", "args": "'the blog' now"});
    let unknown = json!({"name": "deplyo"});
    let answers =
        [sse_calls(&[("Skill", call)]), sse_calls(&[("Skill", unknown)]), sse_text("done")];
    let (done, requests) = play(&test, &["x"], answers);
    let done = done.expect_code(0);
    assert!(done.stderr.contains("Skill deploy"), "{}", done.stderr);
    let description = described(&requests[0]).unwrap();
    assert!(
        description.ends_with("\n- deploy: Deploys the site. Use it for releases."),
        "{description}"
    );
    let folder = test.root().join(".claude/skills/deploy");
    let loaded = last_result(&requests[1]);
    let expected = format!(
        "Base directory of this skill: {}\n\n# Deploy\n\nRun `scripts/go the blog`, then tell 'the blog' now.",
        folder.display()
    );
    assert!(loaded.contains(&expected), "{loaded}");
    let refused = last_result(&requests[2]);
    assert!(refused.contains("there is no skill") && refused.contains("did you mean deploy?"));
    // The description stays the same.
    assert_eq!(described(&requests[2]).unwrap(), description);
}

#[test]
fn files_of_a_users_skill_are_readable_and_not_writable() {
    let test = Test::new();
    for (folder, name) in [(".config/agent", "own"), (".claude", "claude"), (".agents", "agents")] {
        let folder = test.home().join(folder).join("skills").join(name);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("SKILL.md"), format!("# The skill {name}\n\nSee data.txt.\n"))
            .unwrap();
        std::fs::write(folder.join("data.txt"), format!("{name}-data\n")).unwrap();
    }
    std::fs::write(test.home().join(".config/agent/AGENTS.md"), "rules-of-the-user\n").unwrap();
    let at = |path: &str| test.home().canonicalize().unwrap().join(path).display().to_string();
    let own = at(".config/agent/skills/own/data.txt");
    let claude = at(".claude/skills/claude/data.txt");
    let agents = at(".agents/skills/agents/data.txt");
    let cat = format!("cat {own} {claude} {agents} && echo read-all");
    let change = format!("echo x >> {own}; echo x >> {claude}; true");
    let calls = [
        ("Read", json!({"path": own})),
        ("Read", json!({"path": claude})),
        ("Bash", json!({"command": cat})),
        ("Bash", json!({"command": change})),
        ("Write", json!({"path": agents, "content": "x"})),
        ("Read", json!({"path": at(".config/agent/AGENTS.md")})),
    ];
    let answers = calls.map(|call| sse_calls(&[call])).into_iter().chain([sse_text("done")]);
    let (done, requests) = play(&test, &["x"], answers);
    done.expect_code(0);
    let results: Vec<String> = requests[1..].iter().map(last_result).collect();
    assert!(results[0].contains("own-data"), "{}", results[0]);
    assert!(results[1].contains("claude-data"), "{}", results[1]);
    assert!(results[2].contains("read-all"), "{}", results[2]);
    assert!(results[4].contains("ACCESS_DENIED"), "{}", results[4]);
    assert!(results[5].contains("ACCESS_DENIED"), "{}", results[5]);
    for (path, name) in [(own, "own"), (claude, "claude"), (agents, "agents")] {
        assert_eq!(std::fs::read_to_string(path).unwrap(), format!("{name}-data\n"));
    }
}

#[test]
fn broken_skills_give_one_notice_each() {
    let test = Test::new()
        .script("text: done")
        .file(".agent/skills/good/SKILL.md", DEPLOY)
        .file(".agent/skills/torn/SKILL.md", "---\nname: torn\ndescription: x\n")
        .file(".agent/skills/yaml/SKILL.md", "---\nname: yaml\ndescription: {a\n---\nText.\n")
        .file(".agent/skills/list/SKILL.md", "---\n- a\n---\nText.\n")
        .file(".agent/skills/empty/SKILL.md", "")
        .file(".agent/skills/bytes/SKILL.md", b"---\nname: \xff\n---\n")
        .file(".claude/skills/other/SKILL.md", "---\nname: deploy\ndescription: Else.\n---\n");
    std::fs::write(test.home().join("secret"), "# typed-secret\n").unwrap();
    let link = |target: &std::path::Path, name: &str| {
        let folder = test.root().join(".agent/skills").join(name);
        std::fs::create_dir_all(&folder).unwrap();
        symlink(target, folder.join("SKILL.md")).unwrap();
    };
    link(&test.home().join("secret"), "link");
    link(&test.home().join("nothing"), "lost");
    let done = test.run(&["x"]).expect_code(0);
    for (file, why) in [
        ("torn", "has no end"),
        ("yaml", "line 3"),
        ("list", "`name: value`"),
        ("empty", "no description"),
        ("bytes", "not UTF-8"),
        ("link", "a link that leaves the folders of skills"),
        ("lost", "No such file"),
    ] {
        let file = format!(".agent/skills/{file}/SKILL.md: ");
        let lines = done.stderr.lines().filter(|line| line.contains(&file));
        let lines: Vec<&str> = lines.collect();
        assert!(lines.len() == 1 && lines[0].contains(why), "{file} {why}: {}", done.stderr);
    }
    assert!(done.stderr.contains("defines the skill deploy too"), "{}", done.stderr);
    assert!(!std::fs::read_to_string(test.log()).unwrap().contains("typed-secret"));
}

/// The shapes of front matter and folders in public collections.
#[test]
fn skills_written_for_other_agents_load_unchanged() {
    let test = Test::new()
        // Name, a long description and a licence, with scripts and references beside it.
        .file(
            ".claude/skills/sheets/SKILL.md",
            "---\nname: sheets\ndescription: \"Spreadsheets: reading, writing, formulas. When a table has to be \
             (1) made, (2) read\"\nlicense: Proprietary. LICENSE.txt has complete terms\n---\n\n# Sheets\n\n\
             See REFERENCE.md, run scripts/recalc.py.\n",
        )
        .file(".claude/skills/sheets/scripts/recalc.py", "print(1)\n")
        // A description with colons and no quotes.
        .file(
            ".claude/skills/bug-hunt/SKILL.md",
            "---\nname: bug-hunt\ndescription: Use when a test fails: before any fix, even a small one\n---\n\n# Bugs\n",
        )
        // Nested metadata, and a key that only one agent knows.
        .file(
            ".agents/skills/view-kit/SKILL.md",
            "---\nname: acme-view-kit\ndescription: |\n  Builds views.\n  Use for pages.\nlicense: MIT\nmetadata:\n  \
             author: acme\n  version: '1.0.0'\ncompatibility: \"A (.agents/skills) and B (~/.b/skills)\"\n---\n\n# Kit\n",
        )
        // Only for the user, with named arguments, a folded text and allowed tools.
        .file(
            ".claude/skills/release/SKILL.md",
            "---\nname: release\ndescription: >-\n  Publishes a release\n  that was asked for.\n\
             disable-model-invocation: true\nargument-hint: \"<version>\"\narguments: [version]\n\
             allowed-tools: Bash(git tag:*), Read\nmodel: opus\n---\n\n# Release $version\n",
        )
        // A title as name, a version, and no command.
        .file(
            ".agent/skills/skill-writing/SKILL.md",
            "---\nname: Skill Writing\ndescription: How skills are written.\nversion: 0.1.0\nuser-invocable: false\n\
             allowed-tools:\n  - Read\n  - Grep\n---\nWrite.\n",
        )
        // No front matter.
        .file(".agent/skills/notes/SKILL.md", "# Taking notes\n\nTake notes.\n");
    // Installers link the folder of one agent to that of another.
    symlink("../../.agents/skills/view-kit", test.root().join(".claude/skills/view-kit")).unwrap();
    let (done, requests) = play(&test, &["x"], [sse_text("done")]);
    let done = done.expect_code(0);
    assert!(!done.stderr.contains("skill"), "{}", done.stderr);
    let description = described(&requests[0]).unwrap();
    let (_, list) = description.split_once('\n').unwrap();
    assert_eq!(
        list,
        "- Skill Writing: How skills are written.\n\
         - acme-view-kit: Builds views. Use for pages.\n\
         - bug-hunt: Use when a test fails: before any fix, even a small one\n\
         - notes: Taking notes\n\
         - sheets: Spreadsheets: reading, writing, formulas. When a table has to be (1) made, (2) read"
    );
    let (done, requests) = play(&test, &["/release 1.2.0"], [sse_text("done")]);
    done.expect_code(0);
    let asked = requests[0].json()["messages"].to_string();
    assert!(asked.contains("# Release 1.2.0"), "{asked}");
    let refused = test.run(&["/skill-writing"]).expect_code(2);
    assert!(refused.stderr.contains("there is no command /skill-writing"), "{}", refused.stderr);
}

#[test]
fn list_of_skills_stays_within_its_budget() {
    let test = Test::new();
    for n in 0..100 {
        let text = format!("---\ndescription: {}\n---\nText.\n", "many words ".repeat(60));
        test.write(&format!(".claude/skills/skill-{n}/SKILL.md"), text);
    }
    let (done, requests) = play(&test, &["x"], [sse_text("done")]);
    let tokens =
        |request: &server::Request| crate::kernel::prompts::tokens(&described(request).unwrap());
    assert!(tokens(&requests[0]) <= 1100, "{}", tokens(&requests[0]));
    let notices = done.stderr.lines().filter(|line| line.contains("max_skill_tokens"));
    assert_eq!(notices.count(), 1, "{}", done.stderr);
    let args = ["x", "--set", "context.max_skill_tokens=20000"];
    let (done, requests) = play(&test, &args, [sse_text("done")]);
    assert!(tokens(&requests[0]) > 5000);
    assert!(!done.stderr.contains("max_skill_tokens"), "{}", done.stderr);
}

#[test]
fn rule_denies_a_skill() {
    let test = Test::new().file(".agent/skills/deploy/SKILL.md", DEPLOY);
    let call = || sse_calls(&[("Skill", json!({"name": "deploy"}))]);
    let args = ["x", "--deny", "Skill(deploy)"];
    let (_, requests) = play(&test, &args, [call(), sse_text("done")]);
    assert!(last_result(&requests[1]).contains("ACCESS_DENIED"));
    let (_, requests) = play(&test, &["x", "--deny", "Skill(x)"], [call(), sse_text("done")]);
    assert!(last_result(&requests[1]).contains("# Deploy"));
}

#[test]
fn user_calls_a_skill_in_the_chat() {
    let test = Test::new()
        .script("text: heard")
        .file("a.rs", "")
        .file(".agent/skills/deploy/SKILL.md", DEPLOY)
        .file(".claude/skills/review/SKILL.md", "# Reviews\n\nText.\n");
    let mut pty = Pty::chat(&test, &[]);
    pty.wait_for("the skill review is no command");
    pty.send("/dep");
    pty.wait_for("▸ /deploy");
    pty.wait_for("Deploys the site.");
    pty.send("\tthe blog\r");
    pty.wait_for("heard");
    let started: &Value = &test.events_of("turn.started")[0];
    assert_eq!(started["input"], "/deploy the blog");
    let shown = started["shown"].as_str().unwrap();
    assert!(shown.contains("Run `scripts/go the`, then tell the blog."), "{shown}");
}

#[test]
fn link_in_a_home_that_is_the_project_makes_nothing_readable() {
    let test = Test::new();
    std::fs::write(test.root().join("../outside"), "outside-data\n").unwrap();
    let folder = test.root().join(".claude");
    std::fs::create_dir_all(&folder).unwrap();
    symlink(test.root().join(".."), folder.join("skills")).unwrap();
    let home = test.root().display().to_string();
    let outside = test.root().join("../outside").canonicalize().unwrap();
    let test = test.env("HOME", &home);
    let read = sse_calls(&[("Read", json!({"path": outside}))]);
    let (_, requests) = play(&test, &["x"], [read, sse_text("done")]);
    let result = last_result(&requests[1]);
    assert!(result.contains("ACCESS_DENIED"), "{result}");
}

/// A repository cannot open its other files to a session in one of its directories.
#[test]
fn linked_skill_folder_above_the_project_opens_nothing() {
    let test = Test::new()
        .file(".git/HEAD", "ref: refs/heads/main\n")
        .file("deploy/SKILL.md", DEPLOY)
        .file("note.txt", "of the other directory\n")
        .file("a/main.rs", "");
    std::fs::create_dir(test.root().join(".claude")).unwrap();
    std::os::unix::fs::symlink("..", test.root().join(".claude/skills")).unwrap();
    let read = json!({"path": test.root().join("note.txt")});
    let script = test.root().parent().unwrap().join("script");
    std::fs::write(&script, format!("call: Read {read}\n---\ntext: done")).unwrap();
    let folder = test.root().join("a").display().to_string();
    let model = format!("script:{}", script.display());
    let args = ["run", "go", "-C", &folder, "--model", &model, "--output-format", "events"];
    let events = test.agent(&args).lines();
    let result = events.iter().find(|it| it["type"] == "tool.finished").unwrap();
    assert_eq!(result["envelope"]["error"]["code"], "ACCESS_DENIED", "{result}");
}

/// What belongs to a repository is found in each of its directories, without trust, like its rules files.
#[test]
fn extensions_at_the_top_of_the_repository_are_found_below_it() {
    let test = Test::new()
        .file(".git/HEAD", "ref: refs/heads/main\n")
        .file(".claude/skills/deploy/SKILL.md", DEPLOY)
        .file(".claude/skills/deploy/data.txt", "data-of-the-skill\n")
        .file(".claude/commands/fix.md", "Fix $1 of the repository.\n")
        .file(".agent/commands/fix.md", "Fix otherwise.\n")
        .file("a/.agent/commands/fix.md", "Fix $1 here.\n")
        .file(
            ".agent/agents/reviewer.md",
            "---\nname: reviewer\ndescription: Reviews.\n---\nReview.\n",
        )
        .file("a/b/main.rs", "");
    std::fs::write(test.root().join("../script"), "text: done").unwrap();
    // Not above the repository.
    let above = test.root().parent().unwrap().join(".agent/commands");
    std::fs::create_dir_all(&above).unwrap();
    std::fs::write(above.join("above.md"), "Not for this.\n").unwrap();
    let script = format!("script:{}", test.root().parent().unwrap().join("script").display());
    let run = |line: &str, folder: &str| {
        let folder = test.root().join(folder).display().to_string();
        let args = ["run", line, "-C", &folder, "--model", &script, "--output-format", "events"];
        test.agent(&args)
    };
    let shown = |line: &str, folder: &str| -> Value {
        let lines = run(line, folder).expect_code(0).lines();
        lines.iter().find(|it| it["type"] == "turn.started").unwrap()["shown"].clone()
    };
    assert_eq!(shown("/fix it", "a/b"), "Fix it here.");
    assert_eq!(shown("/fix it", "a"), "Fix it here.");
    assert_eq!(shown("/fix it", ""), "Fix otherwise.\n\nit");
    assert!(run("/above", "a/b").expect_code(2).stderr.contains("there is no command /above"));

    let below = test.root().join("a/b").display().to_string();
    let data = test.root().join(".claude/skills/deploy/data.txt");
    let answers = [
        sse_calls(&[("Skill", json!({"skill": "deploy"}))]),
        sse_calls(&[("Read", json!({"path": data}))]),
        sse_calls(&[("Write", json!({"path": data, "content": "x"}))]),
        sse_text("done"),
    ];
    let (done, requests) = play(&test, &["x", "-C", &below], answers);
    done.expect_code(0);
    assert!(requests[0].json()["tools"].to_string().contains("`reviewer`: Reviews."));
    assert!(last_result(&requests[1]).contains("Run `scripts/go"), "{}", last_result(&requests[1]));
    assert!(last_result(&requests[2]).contains("data-of-the-skill"));
    assert!(last_result(&requests[3]).contains("ACCESS_DENIED"), "{}", last_result(&requests[3]));
}
