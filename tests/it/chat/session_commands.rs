//! `/rename`, `/fork` and `/add-dir`; the model of a resumed session.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};

use crate::support::server::{self, Reply, Request, Server};
use crate::support::{Pty, Test, events, running, wait_for};

fn chat(test: &Test, args: &[&str]) -> Pty {
    let args = [&["--model", "script:../script"], args].concat();
    let pty = Pty::start(test, &args, 40, 120, "xterm-256color");
    pty.wait_for("/help");
    pty
}

fn id(test: &Test) -> String {
    test.log().parent().unwrap().file_name().unwrap().to_str().unwrap().to_owned()
}

#[test]
fn named_session_is_listed_and_resumed_by_its_name() {
    let test = Test::new().script("times: any\ntext: heard");
    let mut pty = chat(&test, &[]);
    pty.say("the first task");
    pty.wait_for("heard");
    pty.wait_for("/help");
    let first = id(&test);
    // Enter completes the name of the command, and says what it takes.
    pty.say("/rename");
    pty.wait_for("/rename NAME: name this session");
    pty.say("the parser");
    pty.wait_for("this session is named the parser");
    pty.say("/sessions");
    pty.wait_for("the parser: the first task");
    pty.say("/clear");
    pty.wait_for("session   a new one");
    for (name, why) in [
        ("the parser", "is named the parser already"),
        ("cafe-1", "a name needs a character other than"),
        ("", "say the new name"),
        (&"x".repeat(81), "at most 80 characters"),
    ] {
        pty.wait_for("/help");
        pty.send(&format!("/rename {name}"));
        pty.wait("the command", |screen| screen.contains(format!("› /rename {name}").trim_end()));
        pty.send("\r");
        pty.wait_for(why);
    }
    pty.say("/resume the parser");
    pty.wait_for("resumed   after turn 1");
    pty.say("/quit");
    pty.end();
    let list = test.agent(&["session", "list", "--format", "json"]).expect_code(0).stdout;
    assert!(list.contains("\"name\": \"the parser\""), "{list}");
    test.run(&["--resume", "the parser", "go on"]).expect_code(0);
    let turns = events(&test.sessions().join(&first).join("events.jsonl"));
    let inputs: Vec<&str> = turns.iter().filter_map(|event| event["input"].as_str()).collect();
    assert_eq!(inputs, ["the first task", "go on"]);
    test.run(&["--resume", "the lexer", "go on"]).expect_code(2);
}

#[test]
fn name_with_control_characters_is_refused() {
    let test = Test::new().script("text: x").stdin("/rename a\u{202e}b\n");
    let done = test.agent(&["--plain", "--model", "script:../script"]);
    assert!(done.stdout.contains("without control characters"), "{}", done.stdout);
    assert!(!test.has_event("session.renamed"));
}

#[test]
fn fork_continues_in_a_copy_without_the_name() {
    let test = Test::new().script("text: heard");
    std::fs::write(test.root().join("../other"), "when: the first task\ntext: I know it").unwrap();
    let mut pty = chat(&test, &[]);
    pty.say("/fork");
    pty.wait_for("there is nothing to copy yet");
    pty.say("the first task");
    pty.wait_for("heard");
    pty.wait_for("/help");
    let first = id(&test);
    pty.say("/rename original");
    pty.wait_for("this session is named original");
    pty.say("/model script:../other");
    pty.wait_for("answers from now on");
    pty.wait_for("/help");
    pty.say("/fork");
    pty.wait_for("a copy; /resume");
    pty.say("the second task");
    pty.wait_for("I know it");
    pty.wait_for("/help");
    let copy = id(&test);
    assert_ne!(copy, first);
    assert_eq!(test.events_of("session.forked")[0]["from"], *first);
    assert_eq!(pty.screen().matches("the first task").count(), 1, "{}", pty.screen());
    let turns = |id: &str| {
        let all = events(&test.sessions().join(id).join("events.jsonl"));
        all.iter().filter(|event| event["type"] == "turn.started").count()
    };
    assert_eq!((turns(&first), turns(&copy)), (1, 2));
    // The original keeps its name.
    pty.say("/rename original");
    pty.wait_for("is named original already; choose another name");
}

#[test]
fn added_directory_can_be_used_and_is_known_after_resume() {
    let test = Test::new();
    let there = test.root().parent().unwrap().join("other");
    std::fs::create_dir(&there).unwrap();
    let memory = there.with_file_name("memory");
    std::fs::create_dir(&memory).unwrap();
    let test =
        test.user_config(&format!("learning.database = \"{}/lessons.db\"\n", memory.display()));
    std::fs::write(there.join("b.txt"), "one\n").unwrap();
    let file = there.join("b.txt").display().to_string();
    let read = format!("call: Read {{\"path\": \"{file}\"}}");
    let write = format!("call: Bash {{\"command\": \"echo two >> {file}\"}}");
    let test = test.script(&format!("{read}\n---\ntext: first"));
    let mut pty = chat(&test, &["--yolo"]);
    pty.say("read it");
    pty.wait_for("first");
    assert!(pty.screen().contains("✗ Read"), "{}", pty.screen());
    pty.wait_for("/help");
    for (path, why) in [
        ("/", "it contains a home directory"),
        ("~", "~ cannot be added: it contains a home directory"),
        ("~/.config/..", "it contains a home directory"),
        ("~/.ssh", "credentials are kept there"),
        ("../memory", "learning.database"),
        ("nowhere", "nowhere cannot be added: there is no such directory; create it"),
        (".", "which the agent works in already"),
        (&file, "it is a file"),
    ] {
        std::fs::create_dir_all(test.home().join(".config")).unwrap();
        std::fs::create_dir_all(test.home().join(".ssh")).unwrap();
        pty.say(&format!("/add-dir {path}"));
        pty.wait_for(why);
    }
    pty.say("/add-dir ../other");
    pty.wait_for("directory added: ");
    pty.wait_for("not what commands");
    pty.say("again");
    // The script restarts with the session.
    pty.wait("the second answer", |screen| screen.matches("first").count() > 1);
    assert!(pty.screen().contains("✓ Read"), "{}", pty.screen());
    pty.wait_for("/help");
    pty.say("/quit");
    pty.end();
    let test =
        test.script(&format!("when: The user has added the directory\n{write}\n---\ntext: done"));
    test.run(&["--resume", &id(&test), "--yolo", "write it"]).expect_code(0);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "one\ntwo\n");
    // Commands can write links there: the answer is not written through one.
    std::os::unix::fs::symlink("../outside", there.join("link")).unwrap();
    let test = test.script("text: done");
    let outside = there.join("link").display().to_string();
    test.run(&["--resume", &id(&test), "-o", &outside, "say it"])
        .expect_code(2)
        .expect_stderr("--output-last-message");
    assert!(!there.with_file_name("outside").exists());
    // A directory that can no longer be read is left out.
    if !crate::support::is_root() {
        let mode = |mode| std::fs::set_permissions(&there, Permissions::from_mode(mode)).unwrap();
        mode(0);
        let done = test.run(&["--resume", &id(&test), "and now"]);
        mode(0o755);
        done.expect_code(0).expect_stderr("cannot be added: permission denied");
    }
    // Without the directory the session continues.
    std::fs::remove_dir_all(&there).unwrap();
    let test = test.script("text: done");
    test.run(&["--resume", &id(&test), "and now"]).expect_code(0).expect_stderr("cannot be added");
}

/// Two models that answer with their name and effort.
fn models(request: &Request) -> Reply {
    if request.path.ends_with("/models") {
        return server::json(200, &json!({"data": [{"id": "small"}, {"id": "large"}]}));
    }
    let asked = request.json();
    let (model, effort) = (asked["model"].as_str().unwrap(), asked["reasoning_effort"].as_str());
    server::sse_text(&format!("{model} at {}", effort.unwrap_or("no effort")))
}

fn configured(server: &Server, more: &str) -> String {
    format!("model = \"mine/small\"\n{more}[providers.mine]\nbase_url = \"{}\"\n", server.url())
}

#[test]
fn resumed_session_continues_with_its_model_and_effort() {
    let server = Server::with(|request, _| models(request));
    let test = Test::new().user_config(&configured(&server, "effort = \"low\"\n"));
    let start = |args: &[&str]| {
        let pty = Pty::start(&test, args, 40, 120, "xterm-256color");
        pty.wait_for("/help");
        pty
    };
    let mut pty = start(&[]);
    pty.say("/model mine/large high");
    pty.wait_for("mine/large answers from now on with effort high");
    pty.say("hello?");
    pty.wait_for("large at high");
    pty.wait_for("/help");
    let first = id(&test);
    pty.say("/quit");
    pty.end();
    let mut pty = start(&["-c"]);
    pty.wait_for("· mine/large high");
    // Opened again, the session keeps what was chosen since.
    pty.say("/model mine/small medium");
    pty.wait_for("mine/small answers from now on with effort medium");
    pty.say("/fork");
    pty.wait_for("a copy; /resume");
    pty.wait_for("· mine/small medium");
    pty.wait_for("/help");
    pty.say("/clear");
    pty.wait_for("session   a new one");
    pty.wait_for("· mine/small medium");
    pty.wait_for("/help");
    pty.say(&format!("/resume {first}"));
    pty.wait_for("resumed   after turn 1");
    pty.wait_for("· mine/large high");
    pty.say("/quit");
    pty.end();
    let run = |args: &[&str], expected: &str| {
        let args = [&["run", "go on", "--resume", &first], args].concat();
        test.agent(&args).expect_code(0).expect_stdout(&format!("{expected}\n"));
    };
    run(&[], "large at high");
    run(&["--fork", "--model", "mine/small"], "small at low");
    run(&["--effort", "minimal"], "large at minimal");
}

#[test]
fn configured_model_answers_if_that_of_the_session_cannot_be_used() {
    let server = Server::with(|request, _| models(request));
    let test =
        Test::new().user_config(&configured(&server, "")).script("times: any\ntext: scripted");
    test.agent(&["run", "one"]).expect_code(0).expect_stdout("small at no effort\n");
    let config = configured(&server, "").replace("mine", "other").replace("small", "large");
    let test = test.user_config(&config);
    test.agent(&["run", "two", "-c"])
        .expect_code(0)
        .expect_stdout("large at no effort\n")
        .expect_stderr("this session's model mine/small cannot be used, so other/large answers: unknown provider");
    // A file with answers is not opened again.
    test.run(&["three", "-c"]).expect_stdout("scripted\n");
    let done = test.agent(&["run", "four", "-c"]).expect_code(0);
    assert_eq!(done.expect_stdout("large at no effort\n").stderr.matches("cannot").count(), 0);
}

/// A command that no other run of the tests has.
fn long_command(mark: u32) -> String {
    format!("sleep 312.{mark}{}", std::process::id())
}

#[test]
fn resume_says_which_background_commands_it_ended() {
    let sleep = long_command(63);
    let script = format!(
        "when: begin\ncall: Bash {{\"command\": \"{sleep}\", \"background\": true}}\n---\n\
         times: any\ntext: begun"
    );
    let test = Test::new().script(&script);
    // Longer than the part of a resumed session that is printed again.
    test.run(&["first"]).expect_code(0);
    for turn in ["second", "third", "fourth", "fifth"] {
        test.run(&["-c", turn]).expect_code(0);
    }
    let id = test.events()[0]["session"].as_str().unwrap().to_owned();
    let mut pty = chat(&test, &["--permission-mode", "read-only"]);
    pty.say("begin");
    pty.wait_for("begun");
    pty.wait_for("/help");
    pty.say(&format!("/resume {id}"));
    pty.wait_for(&format!("ended with the session: bg_1 (`{sleep}`), which ran in the background"));
    assert!(running(&sleep).is_empty());
}

#[test]
fn fork_add_dir_and_rewind_wait_for_background_commands_and_clear_says_what_it_ended() {
    let sleep = long_command(62);
    // In mode read-only it needs no checkpoint.
    let line =
        format!("call: Bash {{\"command\": \"{sleep}\", \"background\": true}}\n---\ntext: begun");
    let test = Test::new().script(&line);
    std::fs::create_dir(test.root().join("../other")).unwrap();
    let mut pty = chat(&test, &["--permission-mode", "read-only"]);
    pty.say("begin");
    pty.wait_for("begun");
    pty.wait_for("/help");
    // The call returns before its process has become the command.
    wait_for(|| !running(&sleep).is_empty());
    let refusal =
        format!("this would end bg_1 (`{sleep}`) in the background; `/tasks stop ID` ends it");
    for (n, command) in (1..).zip(["/fork", "/add-dir ../other", "/rewind 1", "/rewind 99"]) {
        pty.say(command);
        // The earlier ones are still on the screen.
        pty.wait("the refusal", |screen| screen.matches(&refusal).count() == n);
        assert!(!running(&sleep).is_empty());
        pty.say("/theme dark");
        pty.wait_for("/help");
    }
    let first = test.log();
    pty.say("/clear");
    pty.wait_for(&format!("ended with the session: bg_1 (`{sleep}`), which ran in the background"));
    assert!(running(&sleep).is_empty());
    pty.say("again");
    wait_for(|| test.log() != first && test.has_event("turn.finished"));
    pty.wait_for("begun");
    pty.wait_for("/help");
    pty.say("/quit");
    pty.end();
    assert_eq!(pty.all().matches("ended with the session: bg_1").count(), 2, "{}", pty.all());
}

#[test]
fn mention_outside_the_project_says_how_to_add_its_folder() {
    let script = "text: first\n---\ntext: second\n---\ntext: third";
    let test = Test::new().script(script).file("src/a.rs", "fn a() {}\n");
    let other = test.root().with_file_name("other");
    std::fs::create_dir(&other).unwrap();
    std::fs::write(other.join("notes.txt"), "one\n").unwrap();
    let other = other.canonicalize().unwrap();
    let file = other.join("notes.txt").display().to_string();
    let mut pty = chat(&test, &[]);
    pty.say(&format!("compare @{file}: and @../other and @../missing (the alias @/ is src)"));
    pty.wait_for("first");
    let notices: Vec<Value> = test.events_of("error");
    let notices: Vec<&str> = notices.iter().map(|it| it["message"].as_str().unwrap()).collect();
    let how = format!(
        "it is outside the project; add its folder with /add-dir or --add-dir: {}",
        other.display()
    );
    let expected = [&*file, "../other"].map(|name| format!("@{name} is not read: {how}"));
    assert_eq!(notices, expected);
    assert_eq!(test.n_events("reminder") + test.n_events("feedback"), 0);
    pty.wait_for("is not read: it is outside the project");

    pty.say(&format!("/add-dir {}", other.display()));
    pty.wait_for("directory added: ");
    pty.say(&format!("again @{file} @../other"));
    pty.wait("the next answer", |screen| screen.matches("first").count() > 1);
    assert_eq!(test.n_events("error"), 2);
    let reminded = [test.events_of("reminder"), test.events_of("feedback")].concat();
    let reminded = reminded.iter().map(ToString::to_string).collect::<String>();
    assert!(reminded.contains(&format!("The user mentioned @{file}.")), "{reminded}");
    assert!(reminded.contains("The user mentioned the folders @../other."), "{reminded}");
}

#[test]
fn session_of_another_process_is_continued_in_a_copy() {
    let test = Test::new().script("text: first");
    test.run(&["the long task"]).expect_code(0);
    let (used, log) = (id(&test), test.log());
    let test = test.script("fault: hang");
    let mut child = test.spawn(&["run", "-c", "go on", "--model", "script:../script"]);
    wait_for(|| test.n_events("model.requested") == 2);
    let before = events(&log).len();
    let test = test.script("text: answered");
    let args = ["-c", "--model", "script:../script"];
    let mut pty = Pty::start(&test, &args, 24, 200, "xterm-256color");
    let short = &used[used.len() - 6..];
    pty.wait_for(&format!("or continue with a copy: --fork --resume {short}"));
    assert_eq!(pty.end(), 75);

    let mut pty = chat(&test, &[]);
    pty.say(&format!("/resume {short}"));
    pty.wait_for(&format!("; /fork {short} continues with a copy"));
    pty.say(&format!("/fork {short}"));
    pty.wait_for("› the long task");
    pty.wait_for(", a copy");
    pty.say("and then?");
    pty.wait_for("answered");
    pty.say("/quit");
    pty.end();

    let mut pty = chat(&test, &["--fork", "--resume", short]);
    pty.wait_for("› the long task");
    pty.say("and then?");
    pty.wait_for("answered");
    assert_eq!(test.events_of("session.forked")[0]["from"], used);
    assert_eq!(events(&log).len(), before, "it is unchanged");
    child.kill().unwrap();
    child.wait().unwrap();
    test.agent(&["chat", "--plain", "--fork"]).expect_code(2).expect_stderr("--fork goes with -c");
}
