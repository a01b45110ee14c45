//! Sessions in the background: started, listed, attached to, ended and awaited.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{Done, Pty, Test, has, processes_in, signal, wait_for};

const ID: &str = "0199c0de-0000-7000-8000-00000000b0b0";
const WRITES: &str =
    "call: Write {\"path\": \"a.txt\", \"content\": \"one\\n\"}\n---\ntext: it is written";
const WAITS: &str =
    "call: Bash {\"command\": \"until [ -e go ]; do sleep 0.05; done\"}\n---\ntext: it is over";

/// A session that ends with the test.
struct Background<'a> {
    test: &'a Test,
    id: String,
}

impl<'a> Background<'a> {
    fn start(test: &'a Test, args: &[&str]) -> Self {
        let done = test.run(&[&["--background"], args].concat()).expect_code(0);
        Self { test, id: done.stdout.trim_end().to_owned() }
    }

    fn folder(&self) -> PathBuf {
        self.test.sessions().join(&self.id)
    }

    fn record(&self) -> Value {
        serde_json::from_slice(&std::fs::read(self.folder().join("background.json")).unwrap())
            .unwrap()
    }

    fn socket(&self) -> PathBuf {
        self.record()["socket"].as_str().unwrap().into()
    }

    /// Its line of `agent ps`.
    fn status(&self) -> Option<Value> {
        let done = self.test.agent(&["ps", "--all", "--json"]).expect_code(0);
        let lines = done.stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines.into_iter().find(|line| line["id"] == self.id)
    }

    fn wait_until(&self, state: &str) {
        wait_for(|| self.status().is_some_and(|status| status["state"] == state));
    }

    fn wait(&self) -> Done {
        self.test.agent(&["wait", &self.id])
    }
}

impl Drop for Background<'_> {
    fn drop(&mut self) {
        if !self.id.is_empty() {
            self.test.agent(&["stop", &self.id]);
        }
    }
}

/// A client of the socket.
struct Client {
    stream: UnixStream,
    lines: BufReader<UnixStream>,
}

impl Client {
    fn connect(session: &Background<'_>, hello: &Value) -> Self {
        let stream = UnixStream::connect(session.socket()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let lines = BufReader::new(stream.try_clone().unwrap());
        let mut client = Self { stream, lines };
        client.send(hello);
        client
    }

    fn attach(session: &Background<'_>) -> Self {
        let record = session.record();
        let hello =
            json!({"type": "hello", "version": record["version"], "token": record["token"]});
        let mut client = Self::connect(session, &hello);
        assert_eq!(client.next()["type"], "hello");
        client
    }

    fn send(&mut self, message: &Value) {
        writeln!(self.stream, "{message}").unwrap();
    }

    fn next(&mut self) -> Value {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or(Value::Null)
    }

    fn until(&mut self, kind: &str) -> Value {
        loop {
            let line = self.next();
            assert_ne!(line, Value::Null, "the end, before {kind}");
            if line["type"] == kind {
                return line;
            }
        }
    }
}

/// A repository with one commit of the files of the test.
fn committed(test: Test) -> Test {
    for line in ["init -q", "add .", "-c user.name=t -c user.email=t@t commit -qm first"] {
        let mut git = std::process::Command::new("git");
        assert!(git.args(line.split(' ')).current_dir(test.root()).status().unwrap().success());
    }
    test
}

fn asking(test: &Test) -> Background<'_> {
    let session = Background::start(test, &["--permission-mode", "ask", "write it"]);
    session.wait_until("waiting");
    session
}

#[test]
fn a_session_survives_its_terminal_and_is_continued_with_attach() {
    let test = Test::new().script(WRITES);
    let args =
        ["run", "--model", "script:../script", "--permission-mode", "ask", "--session-id", ID];
    let pty =
        Pty::start(&test, &[&args[..], &["--background", "write it"]].concat(), 24, 80, "xterm");
    pty.wait_for("agent attach");
    assert!(pty.screen().contains(ID), "{}", pty.screen());
    drop(pty);
    let session = Background { test: &test, id: ID.to_owned() };
    session.wait_until("waiting");
    let status = session.status().unwrap();
    signal(u32::try_from(status["pid"].as_u64().unwrap()).unwrap(), "HUP");
    assert!(status["last"].as_str().unwrap().contains("Write a.txt"), "{status}");
    // It is left without an answer, and asks again.
    let mut pty = Pty::start(&test, &["attach", "00b0b0"], 24, 80, "xterm-256color");
    pty.wait_for_question();
    assert!(pty.all().contains("› write it"), "{}", pty.all());
    pty.send("\x1c");
    assert_eq!(pty.end(), 0);
    assert!(pty.all().contains("goes on"), "{}", pty.all());
    let mut pty = Pty::start(&test, &["attach", ID], 24, 80, "xterm-256color");
    pty.wait_for_question();
    pty.send("y");
    pty.wait_for("it is written");
    assert_eq!(test.read("a.txt"), "one\n");
    // While a chat is attached it takes further messages.
    pty.wait_for("/help");
    assert_eq!(session.status().unwrap()["state"], "idle");
    assert!(test.agent(&["ps"]).stdout.contains("idle"));
    pty.send("/detach\r");
    assert_eq!(pty.end(), 0);
    let done = session.wait().expect_code(0);
    assert!(done.stdout.contains("completed"), "{done:?}");
    assert!(!session.socket().exists());
    let log = test.agent(&["logs", ID]).expect_code(0).stdout;
    assert!(log.contains("user: write it") && log.contains("it is written"), "{log}");
}

#[test]
fn attached_chat_steers_and_interrupts() {
    let test = Test::new().script(&format!("{WAITS}\n---\ntimes: any\ntext: again"));
    let session = Background::start(&test, &["wait for it"]);
    session.wait_until("working");
    let mut pty = Pty::start(&test, &["attach", &session.id], 24, 80, "xterm-256color");
    pty.wait_for("until [ -e go ]");
    pty.send("and hurry\r");
    pty.wait_for("after this call: and hurry");
    test.write("go", "");
    pty.wait_for("it is over");
    assert_eq!(test.n_events("turn.steered"), 1);
    pty.wait_for("/help");
    std::fs::remove_file(test.root().join("go")).unwrap();
    pty.say("once more");
    pty.wait_for("again");
    pty.send("/redo\r");
    pty.wait_for("needs the session's own chat");
    // A second chat takes over.
    let mut second = Pty::start(&test, &["attach", &session.id], 24, 80, "xterm-256color");
    assert_eq!(pty.end(), 0);
    assert!(pty.all().contains("taken over"), "{}", pty.all());
    second.wait_for("again");
    second.leave();
    session.wait().expect_code(0);
}

#[test]
fn attached_chat_lists_files_changes_the_model_and_undoes() {
    let test = Test::new()
        .file("notes.txt", "")
        .script(&format!("{WRITES}\n---\ntimes: any\ntext: again"));
    std::fs::write(test.root().parent().unwrap().join("other"), "times: any\ntext: from the other")
        .unwrap();
    let session = asking(&test);
    let mut pty = Pty::start(&test, &["attach", &session.id], 24, 80, "xterm-256color");
    pty.wait_for_question();
    pty.send("y");
    pty.wait_for("it is written");
    pty.wait_for("/help");
    pty.send("@not");
    pty.wait_for("notes.txt");
    pty.send("\x15");
    pty.send("/undo\r");
    wait_for(|| !test.root().join("a.txt").exists());
    pty.send("/undo\r");
    pty.wait_for("there is no change to undo");
    pty.say("/model nowhere/m");
    pty.wait_for("unknown provider");
    pty.say("/model script:../other");
    pty.wait_for("the model is script:../other now");
    pty.say("go on");
    pty.wait_for("from the other");
    pty.leave();
    session.wait().expect_code(0);
}

#[test]
fn a_session_in_the_background_works_in_a_worktree() {
    if !has("git", "a_session_in_the_background_works_in_a_worktree") {
        return;
    }
    let test = committed(Test::new().file("one.txt", "one\n").script(WRITES));
    let session = Background::start(&test, &["--worktree=fix", "write it"]);
    session.wait().expect_code(0);
    let notices = std::fs::read_to_string(session.folder().join("notices.txt")).unwrap();
    let copy = notices.split("worktree ").nth(1).unwrap().split(',').next().unwrap();
    assert_eq!(std::fs::read_to_string(Path::new(copy).join("a.txt")).unwrap(), "one\n");
    assert!(!test.root().join("a.txt").exists());
    // The copy of a chat that goes on in the background stays.
    std::fs::write(test.root().parent().unwrap().join("script"), WAITS).unwrap();
    let mut pty = Pty::chat(&test, &["--permission-mode", "auto-edit", "--worktree=chat"]);
    pty.wait_for("/help");
    pty.say("wait for it");
    pty.wait_for("until [ -e go ]");
    pty.send("/detach\r");
    assert_eq!(pty.end(), 0);
    let running = test.agent(&["ps", "--json"]).stdout;
    let running: Value = serde_json::from_str(running.trim()).unwrap();
    let session = Background { test: &test, id: running["id"].as_str().unwrap().to_owned() };
    let copy = Path::new(copy).with_file_name("chat");
    assert!(copy.is_dir());
    std::fs::write(copy.join("go"), "").unwrap();
    session.wait().expect_code(0);
}

#[test]
fn worktree_of_a_session_that_is_ended_while_it_begins_is_removed() {
    if !has("git", "worktree_of_a_session_that_is_ended_while_it_begins_is_removed") {
        return;
    }
    let test = committed(Test::new().file("one.txt", "one\n").script(WRITES));
    let setup = "worktree.setup=\"touch made; sleep 1000\"";
    let args = ["run", "--background", "--worktree=early", "--set", setup, "write it"];
    let mut child = test.spawn(&args);
    let made = || {
        let places = std::fs::read_dir(test.home().join(".cache/agent/worktrees"));
        let places = places.into_iter().flatten().flatten();
        places.map(|place| place.path().join("early")).find(|copy| copy.join("made").exists())
    };
    wait_for(|| made().is_some());
    let is_session = |pid: &u32| {
        let line = std::fs::read_to_string(format!("/proc/{pid}/cmdline"));
        line.is_ok_and(|line| line.contains("--in-background"))
    };
    processes_in(&test).into_iter().filter(is_session).for_each(|pid| signal(pid, "TERM"));
    assert!(!child.wait().unwrap().success());
    wait_for(|| made().is_none());
    let branches = std::process::Command::new("git")
        .args(["branch"])
        .current_dir(test.root())
        .output()
        .unwrap();
    assert!(!String::from_utf8(branches.stdout).unwrap().contains("agent/"));
}

#[test]
fn attempts_work_in_the_background() {
    if !has("git", "attempts_work_in_the_background") {
        return;
    }
    let test = committed(Test::new().file("one.txt", "one\n").script(WRITES));
    let args = ["--attempts", "2", "--check", "grep -q one a.txt", "write it"];
    let all = Background::start(&test, &args);
    all.wait().expect_code(0);
    assert_eq!(test.read("a.txt"), "one\n");
    let status = all.status().unwrap();
    assert_eq!((&status["state"], &status["task"]), (&json!("done"), &json!("write it")));
    let log = test.agent(&["logs", &all.id]).expect_code(0).stdout;
    assert!(log.contains("[attempt 1] ") && log.contains("turn finished: completed"), "{log}");
    let notices = std::fs::read_to_string(all.folder().join("notices.txt")).unwrap();
    assert!(notices.contains("1 file of session"), "{notices}");
    // The record has no conversation: the session that was taken over is the latest.
    test.run(&["--resume", &all.id, "more"]).expect_code(2).expect_stderr("several attempts");
    test.agent(&["session", "undo"]).expect_code(0);
    assert!(!test.root().join("a.txt").exists());
    let failing = Background::start(&test, &[&args[..3], &["false", "write it"]].concat());
    failing.wait().expect_code(1);
    assert_eq!(failing.status().unwrap()["state"], "failed");
    // What cannot be meant is reported at once.
    test.run(&["--background", "--attempts", "2", "task"]).expect_code(2).expect_stderr("--check");
}

#[test]
fn attempts_in_the_background_are_stopped_together() {
    if !has("git", "attempts_in_the_background_are_stopped_together") {
        return;
    }
    let test = committed(Test::new().file("one.txt", "one\n").script(WAITS));
    let args = ["--attempts", "2", "--check", "false", "--allow", "Bash", "wait for it"];
    let all = Background::start(&test, &args);
    let working = |it: &Value| it["state"] == "working";
    let sessions = || {
        let done = test.agent(&["ps", "--json"]).expect_code(0);
        let lines = done.stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines.filter(working).collect::<Vec<Value>>()
    };
    wait_for(|| sessions().len() == 3);
    let pid = all.status().unwrap()["pid"].clone();
    let sessions = sessions();
    let one = sessions.iter().find(|it| it["id"] != all.id).unwrap();
    assert_eq!(one["pid"], pid);
    let one = one["id"].as_str().unwrap();
    test.agent(&["stop", one]).expect_code(2).expect_stderr("one of the attempts of session");
    test.agent(&["attach", "--plain", &all.id]).expect_code(2).expect_stderr("take no messages");
    test.agent(&["stop", &all.id]).expect_code(0);
    all.wait().expect_code(143);
    test.agent(&["wait", one]).expect_code(143);
    assert!(!test.root().join("a.txt").exists());
    wait_for(|| processes_in(&test).is_empty());
}

#[test]
fn an_interrupt_of_an_attached_chat_is_the_end_of_the_turn() {
    let test = Test::new().script(WAITS);
    let session = Background::start(&test, &["wait for it"]);
    session.wait_until("working");
    let mut pty = Pty::start(&test, &["attach", &session.id], 24, 80, "xterm-256color");
    pty.wait_for("until [ -e go ]");
    pty.send("\x1b");
    session.wait_until("idle");
    pty.leave();
    session.wait().expect_code(130);
}

#[test]
fn wait_has_the_exit_codes_of_the_runs_and_the_user_is_told() {
    let test = Test::new()
        .user_config("[notify]\ncommand = 'echo \"$AGENT_NOTIFICATION\" >>\"$HOME/told\"'")
        .script(WRITES);
    let good = Background::start(&test, &["write it"]);
    good.wait().expect_code(0);
    let limited = Background::start(&test, &["--max-turns", "1", "write it"]);
    test.agent(&["wait", &good.id, &limited.id]).expect_code(124);
    std::fs::remove_file(test.root().join("a.txt")).unwrap();
    let limits = ["--set", "limits.background_answer_timeout=1s"];
    let denied = Background::start(
        &test,
        &[&limits[..], &["--permission-mode", "ask", "write it"]].concat(),
    );
    test.agent(&["wait", &denied.id, &limited.id]).expect_code(77);
    let told = std::fs::read_to_string(test.home().join("told")).unwrap();
    assert_eq!(told.matches("has ended").count(), 3, "{told}");
    assert_eq!(told.matches("waits for your permission").count(), 1, "{told}");
    let all = test.agent(&["ps", "--all"]).expect_code(0).stdout;
    assert!(all.contains("done") && all.contains("failed"), "{all}");
    test.agent(&["ps"]).expect_code(0).expect_stderr("no session runs");
    // What cannot start is reported at once.
    test.run(&["--background", "--json-schema", "{", "x"]).expect_code(2);
    test.run(&["--background", "/nothing"])
        .expect_code(2)
        .expect_stderr("there is no command /nothing");
    test.run(&["--background", "--ephemeral", "x"]).expect_code(2);
    test.agent(&["wait", "ffff"]).expect_code(2).expect_stderr("no session ffff");
}

#[test]
fn what_a_killed_process_leaves_is_found_and_removed() {
    let test = Test::new().script(WAITS);
    let session = Background::start(&test, &["wait for it"]);
    session.wait_until("working");
    // Another version is refused, and can be ended.
    let file = session.folder().join("background.json");
    let record = std::fs::read_to_string(&file).unwrap();
    let other = record.replace(env!("CARGO_PKG_VERSION"), "0.0.7");
    std::fs::write(&file, other).unwrap();
    let refused = test.agent(&["attach", "--plain", &session.id]).expect_code(2);
    assert!(refused.stderr.contains("runs with version 0.0.7"), "{refused:?}");
    let pid = session.status().unwrap()["pid"].as_u64().unwrap();
    signal(u32::try_from(pid).unwrap(), "KILL");
    session.wait_until("lost");
    session.wait().expect_code(1);
    let left = session.socket();
    assert!(left.exists());
    let next = Background::start(&test, &["wait for it"]);
    assert!(!left.exists() && next.socket().exists());
    let stopped = test.agent(&["stop", &next.id]).expect_code(0);
    assert!(stopped.stdout.contains("has ended"), "{stopped:?}");
    next.wait().expect_code(143);
    assert!(!next.socket().exists());
    // A session that runs elsewhere is neither ended nor attached to.
    let mut pty = Pty::chat(&test, &["wait for it"]);
    pty.wait_for("until [ -e go ]");
    let chat = test.agent(&["ps", "--json"]).stdout;
    let chat: Value = serde_json::from_str(chat.trim()).unwrap();
    let chat = chat["id"].as_str().unwrap();
    test.agent(&["stop", chat]).expect_code(2).expect_stderr("does not run in the background");
    test.agent(&["attach", "--plain", chat])
        .expect_code(75)
        .expect_stderr("does not run in the background");
    test.write("go", "");
    pty.leave();
}

#[test]
fn a_chat_goes_on_in_the_background() {
    let test = Test::new().script(WAITS);
    let mut pty = Pty::chat(&test, &["--permission-mode", "auto-edit"]);
    pty.wait_for("/help");
    pty.send("/detach\r");
    pty.wait_for("nothing runs");
    // What is refused is not lost.
    pty.say("/detach the task");
    pty.wait_for("no message yet");
    pty.wait_for("› /detach the task");
    pty.send("\x15");
    pty.say("wait for it");
    pty.wait_for("until [ -e go ]");
    pty.send("\x1c");
    assert_eq!(pty.end(), 0);
    let chat = test.log();
    let id = chat.parent().unwrap().file_name().unwrap().to_str().unwrap().to_owned();
    let hint = format!("agent attach {}`", &id[id.len() - 6..]);
    assert!(pty.all().contains(&hint) && !pty.all().contains(&id), "{}", pty.all());
    let session = Background { test: &test, id };
    session.wait_until("working");
    let mut other = Pty::chat(&test, &[]);
    other.wait_for("/help");
    other.send("/sessions\r");
    other.wait_for("← working: agent attach");
    other.leave();
    test.write("go", "");
    session.wait().expect_code(0);
    let inputs: Vec<Value> = crate::support::events(&chat)
        .into_iter()
        .filter(|event| event["type"] == "turn.started")
        .map(|mut event| event["input"].take())
        .collect();
    assert_eq!(inputs, ["wait for it", "continue"]);
}

#[test]
fn strangers_get_no_answer() {
    let test = Test::new().script(WRITES);
    let session = asking(&test);
    let record = session.record();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let socket = session.socket();
    assert_eq!((mode(&socket), mode(socket.parent().unwrap())), (0o600, 0o700));
    for (hello, why) in [
        (json!({"type": "hello", "version": record["version"], "token": "guessed"}), "token"),
        (json!({"type": "hello", "version": record["version"]}), "token"),
        (json!({"type": "hello", "version": "0.0.7", "token": record["token"]}), "version"),
    ] {
        let mut stranger = Client::connect(&session, &hello);
        let refused = stranger.next();
        assert_eq!(refused["type"], "refused");
        assert!(refused["error"].as_str().unwrap().contains(why), "{refused}");
        assert_eq!(stranger.next(), Value::Null);
    }
    // Many that say nothing keep nobody out for long.
    let silent: Vec<UnixStream> =
        (0..40).map(|_| UnixStream::connect(session.socket()).unwrap()).collect();
    wait_for(|| {
        let mut stream = UnixStream::connect(session.socket()).unwrap();
        let hello =
            json!({"type": "hello", "version": record["version"], "token": record["token"]});
        _ = writeln!(stream, "{hello}");
        let mut line = String::new();
        _ = BufReader::new(stream).read_line(&mut line);
        line.contains("hello")
    });
    drop(silent);
    // The next client takes over, with the question.
    let mut first = Client::attach(&session);
    let asked = first.until("control_request");
    assert_eq!(asked["request"]["subtype"], "can_use_tool");
    let mut second = Client::attach(&session);
    assert!(first.until("detached")["reason"].as_str().unwrap().contains("taken over"));
    assert_eq!(second.until("control_request")["request_id"], asked["request_id"]);
    second.send(&json!({"type": "control_response", "response": {
        "subtype": "success", "request_id": asked["request_id"], "response": {"behavior": "allow"},
    }}));
    second.until("turn.finished");
    drop(second);
    session.wait().expect_code(0);
    assert_eq!(test.read("a.txt"), "one\n");
}

/// A command that knows every path tries to allow the next call.
#[test]
fn commands_cannot_answer_their_own_questions() {
    if !has("python3", "commands_cannot_answer_their_own_questions") {
        return;
    }
    for backend in ["namespaces", "landlock"] {
        let test = Test::new_in(Path::new(env!("CARGO_TARGET_TMPDIR")));
        let runtime = test.home().join("run");
        std::fs::create_dir(&runtime).unwrap();
        std::fs::set_permissions(&runtime, std::fs::Permissions::from_mode(0o700)).unwrap();
        let test = test.env("XDG_RUNTIME_DIR", runtime.to_str().unwrap());
        let set = format!("sandbox.backend={backend}");
        if test.agent(&["tool", "call", "--set", &set, "Bash", "{\"command\": \"true\"}"]).code
            != Some(0)
        {
            crate::support::say(&format!(
                "SKIPPED: commands_cannot_answer_their_own_questions: no {backend} here"
            ));
            continue;
        }
        let folder = test.sessions().join(ID);
        let socket = runtime.join("agent").join(format!("{}.sock", &ID[ID.len() - 12..]));
        test.write("attack.py", format!(
            "import json, os, socket\n\
             for path in ['{0}/background.json', '{0}/events.jsonl']:\n\
             \x20 try: print('read', open(path).read())\n\
             \x20 except OSError as e: print('unreadable', e.errno)\n\
             try: print('listed', os.listdir('{1}'))\n\
             except OSError as e: print('unlisted', e.errno)\n\
             s = socket.socket(socket.AF_UNIX)\n\
             try:\n\
             \x20 s.connect('{2}')\n\
             \x20 print('connected')\n\
             \x20 s.sendall(json.dumps(dict(type='hello', version='{3}', token='')).encode() + b'\\n')\n\
             \x20 print(s.recv(1000).decode())\n\
             except OSError as e: print('unreachable', e.errno)\n",
            folder.display(), runtime.join("agent").display(), socket.display(), env!("CARGO_PKG_VERSION"),
        ));
        let test = test.script(&format!(
            "call: Bash {{\"command\": \"python3 attack.py; true\"}}\n---\n{WRITES}"
        ));
        let allow = ["--permission-mode", "ask", "--allow", "Bash(python3 *)", "--set", &set];
        let session =
            Background::start(&test, &[&allow[..], &["--session-id", ID, "write it"]].concat());
        session.wait_until("waiting");
        assert!(socket.exists());
        let finished = test.events_of("tool.finished");
        let output = finished[0]["envelope"].to_string();
        assert!(
            output.contains("unreadable") && !output.contains("token\\\\\\\":"),
            "{backend}: {output}"
        );
        assert!(!output.contains("read {"), "{backend}: {output}");
        if backend == "namespaces" {
            assert!(output.contains("unreachable"), "{output}");
        } else {
            assert!(output.contains("refused") || output.contains("unreachable"), "{output}");
        }
        // File tools of the model are refused, too.
        let read = test.call("Read", &json!({"path": folder.join("background.json")}));
        assert!(read.to_string().contains("ACCESS_DENIED"), "{read}");
        assert_eq!(session.status().unwrap()["state"], "waiting");
    }
}
