//! Terminal behaviour: restored on exit, every kind of terminal, and no interpretation of untrusted
//! text.

use rustix::process::{Signal, kill_process};

use crate::support::tmux::Tmux;
use crate::support::{Pty, Test, running, say, wait_for};

fn chat(test: &Test) -> Pty {
    let pty = Pty::chat(test, &[]);
    pty.wait_for("/help");
    pty
}

/// Asserts that the last escape sequences restore bracketed paste, focus reporting and the cursor.
#[track_caller]
fn is_restored(pty: &Pty) {
    let bytes = String::from_utf8_lossy(&pty.bytes()).into_owned();
    for (on, off) in
        [("\x1b[?2004h", "\x1b[?2004l"), ("\x1b[?1004h", "\x1b[?1004l"), ("\x1b[?25l", "\x1b[?25h")]
    {
        assert!(bytes.rfind(off) > bytes.rfind(on), "{off:?}");
    }
    assert!(bytes.contains("\x1b[<u"));
    let title = bytes.rfind("\x1b]0;").map(|at| &bytes[at..]);
    assert!(title.is_some_and(|title| title.starts_with("\x1b]0;\x07\x1b[23;0t")), "{title:?}");
}

#[test]
fn terminal_is_restored_after_every_exit() {
    for (signal, code) in [(None, 0), (Some(Signal::TERM), 143), (Some(Signal::INT), 0)] {
        let test = Test::new().script("text: x");
        let mut pty = chat(&test);
        pty.say("hello");
        pty.wait("the end of the turn", |_| test.has_event("turn.finished"));
        pty.wait_for("/help");
        match signal {
            None => pty.say("/quit"),
            Some(signal) => kill_process(pty.process(), signal).unwrap(),
        }
        assert_eq!(pty.end(), code, "{signal:?}");
        pty.wait("its last output", |screen| screen.contains("agent -c"));
        is_restored(&pty);
    }
}

#[test]
fn a_hangup_saves_the_session() {
    let test = Test::new().script("text: remember this\n---\ntext: remembered");
    let line = "$AGENT --model script:../script; echo $? > code; sleep 60";
    let Some(tmux) = Tmux::start("a hangup", &test, line, (80, 24)) else { return };
    tmux.wait_for("/help");
    tmux.keys(&["one thing", "Enter"]);
    tmux.wait_for("remember this");
    tmux.wait_for("/help");
    // The window closes, and with it the terminal.
    drop(tmux);
    let begun = std::time::Instant::now();
    while !test.has_event("session.summary") {
        assert!(begun.elapsed().as_secs() < 20, "{:?}", test.events().last());
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    test.run(&["-c", "go on"]).expect_code(0);
}

#[test]
fn hangup_during_a_turn_ends_processes_and_saves_the_session() {
    let mark = format!("4{}.55", std::process::id() % 1000);
    let test = Test::new()
        .script(&format!("text: I wait\ncall: Bash {{\"command\": \"sleep {mark}\"}}\n"));
    let mut pty = Pty::chat(&test, &["--yolo"]);
    pty.wait_for("/help");
    pty.say("wait");
    pty.wait_for("◦ Bash");
    wait_for(|| !running(&format!("sleep {mark}")).is_empty());
    kill_process(pty.process(), Signal::HUP).unwrap();
    assert_eq!(pty.end(), 129);
    assert_eq!(running(&format!("sleep {mark}")), [""; 0]);
    assert_eq!(test.events_of("turn.finished")[0]["ending"], "terminated");
    assert!(test.has_event("session.summary"));
    is_restored(&pty);
    test.write("../script", "when: I wait\ntext: I know what was said");
    test.run(&["-c", "go on"]).expect_code(0);
}

#[test]
fn closed_standard_output_ends_the_chat_and_saves_the_session() {
    let test = Test::new().script("text: remember this\n---\ntext: and this");
    // Its standard input stays open: only the reader of its output is gone.
    let line = format!(
        "(echo first; sleep 1; echo second; sleep 30) | '{}' --plain --model script:../script | head -n 9",
        env!("CARGO_BIN_EXE_agent")
    );
    let from = test.command(&[]);
    let mut shell = std::process::Command::new("bash");
    shell.args(["-c", &format!("{line}; exec kill -TERM 0")]).current_dir(test.root());
    shell.env_clear().envs(from.get_envs().filter_map(|(name, value)| Some((name, value?))));
    std::os::unix::process::CommandExt::process_group(&mut shell, 0);
    let mut shell = shell.stdout(std::process::Stdio::null()).spawn().unwrap();
    let begun = std::time::Instant::now();
    while !test.has_event("session.summary") {
        assert!(begun.elapsed().as_secs() < 20, "{:?}", test.events().last());
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    _ = rustix::process::kill_process_group(rustix::process::Pid::from_child(&shell), Signal::KILL);
    shell.wait().unwrap();
}

#[test]
fn panic_restores_the_terminal_and_prints_the_message() {
    if !cfg!(debug_assertions) {
        return say("SKIPPED: a panic: only a debug build panics when it is told to");
    }
    for (thread, code) in [("screen", 1), ("session", 101)] {
        let test = Test::new().script("text: x").env("AGENT_TEST_PANIC", thread);
        let mut pty = chat(&test);
        pty.send("hello\r");
        assert_eq!(pty.end(), code, "{thread}\n{}", pty.all());
        assert!(pty.all().contains("AGENT_TEST_PANIC names the thread"), "{thread}\n{}", pty.all());
        is_restored(&pty);
        assert!(pty.is_cooked(), "{thread}");
    }
}

/// The titles that were written.
fn titles(pty: &Pty) -> Vec<String> {
    let bytes = String::from_utf8_lossy(&pty.bytes()).into_owned();
    let titles = bytes.split("\x1b]0;").skip(1);
    titles.map(|title| title.split('\x07').next().unwrap().to_owned()).collect()
}

#[test]
fn window_title_shows_the_project_and_the_activity() {
    let test = Test::new().script("call: Bash {\"command\": \"touch x\"}\n---\ntext: end");
    let mut pty = chat(&test);
    pty.say("go");
    pty.wait_for_question();
    pty.wait("a title", |_| {
        titles(&pty).last().is_some_and(|it| it == "project · waiting for you")
    });
    pty.send("y");
    pty.wait_for("/help");
    pty.wait("a title", |_| titles(&pty).last().is_some_and(|it| it == "project · ready"));
    pty.say("/quit");
    assert_eq!(pty.end(), 0);
    is_restored(&pty);

    let none = |test: Test, term: &str| {
        let mut pty = Pty::start(&test, &["--model", "script:../script"], 24, 80, term);
        pty.wait_for("›");
        pty.send("/quit\r");
        pty.end();
        assert_eq!(titles(&pty), [""; 0], "{term}");
    };
    none(Test::new().script("text: x").user_config("ui.title = false\n"), "xterm");
    none(Test::new().script("text: x"), "dumb");
    none(Test::new().script("text: x"), "linux");
}

#[test]
fn window_title_contains_no_control_characters() {
    let test = Test::new().script("text: x");
    let folder = test.root().join("a\x1b]0;evil\x07\nb\u{9c}c");
    std::fs::create_dir(&folder).unwrap();
    let args = ["--model", "script:../script", "-C", folder.to_str().unwrap()];
    let pty = Pty::start(&test, &args, 24, 80, "xterm");
    pty.wait_for("/help");
    pty.wait("a title", |_| titles(&pty).contains(&"a␛]0;evil␇ ⏎ b<U+009C>c · ready".to_owned()));
    assert!(
        titles(&pty).iter().all(|title| !title.contains(char::is_control)),
        "{:?}",
        titles(&pty)
    );
}

#[test]
fn chat_can_be_suspended_and_resumed() {
    // Directly, and as the child of a script that waits for it.
    for start in ["$AGENT --model script:../script", "sh -c '$AGENT --model script:../script; :'"] {
        let test = Test::new().script("text: after the break");
        // An interactive shell with job control.
        let line = "export AGENT PS1='ready> '; exec bash --norc -i";
        let Some(tmux) = Tmux::start("suspend", &test, line, (80, 24)) else { return };
        tmux.wait_for("ready>");
        tmux.keys(&[start, "Enter"]);
        tmux.wait_for("/help");
        tmux.keys(&["half a mess"]);
        tmux.wait_for("half a mess");
        tmux.keys(&["C-z"]);
        tmux.wait_for("Stopped");
        tmux.keys(&["echo the shell works", "Enter"]);
        tmux.wait_for("\nthe shell works");
        tmux.keys(&["fg", "Enter"]);
        tmux.wait_for("› half a mess");
        tmux.keys(&["age", "Enter"]);
        tmux.wait_for("after the break");
        tmux.keys(&["/quit", "Enter"]);
        tmux.wait_for("agent -c");
    }
}

#[test]
fn chat_without_a_terminal_explains_the_alternative() {
    let test = Test::new();
    let done = test.agent(&[]).expect_code(2).expect_one_line_of_stderr("agent run \"task\"");
    assert_eq!(done.stdout, "");
}

#[test]
fn chat_without_an_api_key_explains_the_setup() {
    let test = Test::new();
    let mut pty = Pty::start(&test, &[], 24, 80, "xterm-256color");
    assert_eq!(pty.end(), 2);
    let all = pty.all();
    for part in ["agent needs a model", "export OPENAI_API_KEY=", "agent demo", "agent doctor"] {
        assert!(all.contains(part), "{part}\n{all}");
    }
    assert!(!all.to_lowercase().contains("error"), "{all}");
    // Each line fits in one row.
    let printed = String::from_utf8_lossy(&pty.bytes()).into_owned();
    let lines = printed.lines();
    let words = lines.skip_while(|line| !line.contains("agent needs a model")).skip(1);
    for line in words {
        assert!(line.trim_end().chars().count() <= 80, "{line}");
    }
}

#[test]
fn colours_follow_terminal_capabilities() {
    let look = |env: &[(&str, &str)], term: &str| {
        let mut test = Test::new().script("text: some `code` here");
        for (name, value) in env {
            test = test.env(name, value);
        }
        let mut pty = Pty::start(&test, &["--model", "script:../script"], 24, 80, term);
        pty.wait_for("/help");
        pty.say("hello");
        pty.wait_for("code");
        pty.wait_for("/help");
        String::from_utf8_lossy(&pty.bytes()).into_owned()
    };
    assert!(look(&[("COLORTERM", "truecolor")], "xterm-256color").contains("\x1b[38;2;"));
    let palette = look(&[], "xterm-256color");
    assert!(palette.contains("\x1b[38;5;") && !palette.contains("38;2;"));
    let sixteen = look(&[], "linux");
    assert!(sixteen.contains("\x1b[36m") && !sixteen.contains("38;5;"));
    assert!(
        !sixteen.contains("\x1b]11") && !sixteen.contains("[>5u"),
        "a console is asked nothing"
    );
    let none = look(&[("NO_COLOR", "1")], "xterm-256color");
    for code in ["\x1b[3", "\x1b[9", "38;", "\x1b[1;3"] {
        let is_colour = |rest: &str| {
            let number = rest.split('m').next().unwrap_or_default();
            number.len() < 8 && number.chars().all(|char| char.is_ascii_digit() || char == ';')
        };
        assert!(!none.split(code).skip(1).any(is_colour), "{code:?}");
    }
    assert!(none.contains("some `code` here"), "what a colour said is said otherwise");
}

#[test]
fn light_background_reported_by_the_terminal_is_used() {
    let test = Test::new().script("text: x").env("COLORTERM", "truecolor");
    let mut pty = chat(&test);
    assert!(String::from_utf8_lossy(&pty.bytes()).contains("\x1b]11;?"));
    // A late response, in the middle of typing: it is not text.
    pty.send("he\x1b]11;rgb:ffff/ffff/eeee\x07llo");
    pty.wait_for("› hello");
    pty.send("\x0c");
    pty.wait("a dark blue", |_| String::from_utf8_lossy(&pty.bytes()).contains("38;2;11;114;133"));
}

#[test]
fn question_fits_a_small_screen() {
    let test = Test::new().file("a.txt", "one\n").script(
        "call: Read {\"path\": \"a.txt\"}\n---\n\
         call: Edit {\"path\": \"a.txt\", \"old_string\": \"one\", \"new_string\": \"two\"}\n---\ntext: done now",
    );
    let mut pty = Pty::start(&test, &["--model", "script:../script"], 12, 40, "xterm");
    pty.wait_for("ask");
    pty.say("edit");
    pty.wait_until_it_accepts_keys("y  yes");
    insta::with_settings!({filters => vec![(r"\d+ s", "N s"), (r"[0-9.]+k? tokens", "N tokens")]}, {
        insta::assert_snapshot!("question_on_a_small_screen", pty.screen());
    });
    pty.send("y");
    pty.wait_for("done now");
}

#[test]
fn implausible_terminal_sizes_are_tolerated() {
    for (rows, cols) in [(0, 0), (1, 1), (2, 3), (u16::MAX, u16::MAX)] {
        let test = Test::new().script("text: an answer");
        let mut pty = Pty::start(&test, &["--model", "script:../script"], 24, 80, "xterm");
        pty.wait_for("/help");
        pty.lie(rows, cols);
        pty.send("hello\r");
        std::thread::sleep(std::time::Duration::from_millis(200));
        pty.lie(24, 80);
        pty.wait_for("an answer");
    }
}

#[test]
fn control_sequences_in_text_are_not_interpreted() {
    let name = "a\x1b]0;evil\x07b.txt";
    let test = Test::new().script(
        "text: look \u{1b}[2J\u{1b}]0;evil\u{7} \u{1b}]52;c;ZXZpbA==\u{7}here \u{202e}txt\u{200b}\n\
         call: Bash {\"command\": \"printf '\\\\033[2J\\\\033]0;evil\\\\007out\\\\rput\\\\n'; ls\"}\n---\ntext: end",
    );
    std::fs::write(test.root().join(name), "").unwrap();
    let mut pty = Pty::chat(&test, &["--yolo"]);
    pty.wait_for("/help");
    pty.say("go");
    pty.wait_for("end");
    let bytes = pty.bytes();
    let text = String::from_utf8_lossy(&bytes);
    for bad in ["evil\x07", "\x1b]52;", "\u{202e}", "\u{200b}"] {
        assert!(!text.contains(bad), "{bad:?}");
    }
    assert!(pty.all().contains("<U+202E>txt<U+200B>"), "{}", pty.all());
    // Only the alternate screen, which was never shown, is ever cleared.
    assert!(!text.contains("\x1b[2J"));
}

#[test]
fn ten_megabyte_output_line_is_handled() {
    let test = Test::new().script(
        "call: Bash {\"command\": \"head -c 10000000 /dev/zero | tr '\\\\0' x; echo; echo tail\"}\n---\ntext: end",
    );
    let mut pty = Pty::chat(&test, &["--yolo"]);
    pty.wait_for("/help");
    pty.say("go");
    pty.wait_for("end");
    pty.send("still here");
    pty.wait_for("› still here");
}

#[test]
fn backslash_continues_a_plain_message() {
    let test = Test::new().script("when: one\\ntwo\ntext: both").stdin("one\\\ntwo\n");
    test.agent(&["--plain", "--model", "script:../script"]).expect_code(0);
    assert_eq!(test.events_of("turn.started")[0]["input"], "one\ntwo");
}

#[test]
fn plain_mode_supports_a_whole_session() {
    let test = Test::new()
        .file("a.txt", "one\n")
        .script(
            "text: I **look**.\ncall: Read {\"path\": \"a.txt\"}\n---\n\
             call: Edit {\"path\": \"a.txt\", \"old_string\": \"one\", \"new_string\": \"two\"}\n---\n\
             call: Bash {\"command\": \"touch x\"}\n---\nexpect: use y\ntext: done",
        )
        .stdin("change it\ny\nuse y\n/cost\n");
    let done = test.agent(&["--plain", "--model", "script:../script"]).expect_code(0);
    assert!(!done.stdout.contains('\x1b'), "{}", done.stdout);
    let filters = vec![
        (r"/\S*project", "PROJECT"),
        (r"[0-9.,]+k? tokens", "N tokens"),
        (r"[0-9.]+ s\b", "N s"),
        (r"sandbox .*", "sandbox …"),
    ];
    insta::with_settings!({filters => filters}, {
        insta::assert_snapshot!("plain_lines", done.stdout);
    });
    assert_eq!(test.read("a.txt"), "two\n");
    assert!(!test.root().join("x").exists());
}

/// Arguments on the command line are a message, as in the full-screen chat, even if they look like
/// a command.
#[test]
fn plain_mode_sends_arguments_as_the_first_message() {
    let test = Test::new()
        .script("text: first\n---\nwhen: !touch owned\ntext: second")
        .stdin("and more\n");
    let args = ["chat", "--plain", "--model", "script:../script", "!touch", "owned"];
    let done = test.agent(&args).expect_code(0);
    assert!(done.stdout.contains("!touch owned"), "{}", done.stdout);
    assert!(done.stdout.contains("second"), "{}", done.stdout);
    assert!(!test.root().join("owned").exists());
    let nothing_more = Test::new().script("text: seen");
    let done = nothing_more.agent(&["chat", "--plain", "--model", "script:../script", "look"]);
    assert!(done.expect_code(0).stdout.contains("seen"));
}

/// It is sent at once, and is text even if it looks like a command.
#[test]
fn message_on_the_command_line_is_sent() {
    let test = Test::new().script("when: !touch owned\ntext: the answer\n---\ntext: another");
    for args in [&["!touch owned"][..], &["chat", "!touch", "owned"]] {
        let all = [args, &["--model", "script:../script"]].concat();
        let mut pty = Pty::start(&test, &all, 24, 80, "xterm-256color");
        pty.wait_for("›  !touch owned");
        pty.wait_for("the answer");
        pty.wait_for("/help");
        pty.say("/quit");
        pty.wait_for("resumes it");
        assert_eq!(pty.end(), 0);
    }
    assert!(!test.root().join("owned").exists());
    // Without a terminal there is no chat; options of a run alone are no options of a chat.
    let done = test.agent(&["fix it, please"]).expect_code(2);
    done.expect_one_line_of_stderr("agent run \"task\"");
    let done = test.agent(&["fix it, please", "--timeout", "1m"]).expect_code(2);
    done.expect_one_line_of_stderr("--timeout is an option of `agent run`");
    // A single word is a command.
    test.agent(&["fix"]).expect_code(2).expect_one_line_of_stderr("`agent chat \"fix\"`");
    test.agent(&["sesion", "list"]).expect_code(2).expect_stderr("did you mean `agent session`?");
}

#[test]
fn resume_without_an_id_offers_the_sessions() {
    let test = Test::new().script("text: the old answer");
    test.run(&["the first question"]).expect_code(0);
    test.run(&["the second question"]).expect_code(0);
    // Without a model for a new session, the list comes before the chat.
    let mut pty = Pty::start(&test, &["--resume"], 24, 80, "xterm-256color");
    pty.wait_for("which one? [1-2]");
    pty.send("\x03");
    pty.end();

    let mut pty = Pty::chat(&test, &["--resume"]);
    pty.wait("the latest one", |screen| {
        screen.lines().any(|it| it.contains("▸ ") && it.contains("the second question"))
    });
    pty.send("first");
    pty.wait("the other one", |screen| {
        screen.lines().any(|it| it.contains("▸ ") && it.contains("the first question"))
    });
    pty.send("\r");
    pty.wait_for("› the first question\n\nthe old answer");
    pty.wait_for("/help");
    pty.say("/quit");
    pty.wait_for("later `agent --resume");
    let done = test.agent(&["--plain", "--resume"]).expect_code(2);
    assert!(done.stderr.contains("the second question"), "{}", done.stderr);
}

#[test]
fn demo_is_a_chat_in_a_terminal() {
    let test = Test::new();
    let dir = test.root().join("demo");
    let args = ["demo", "--dir", dir.to_str().unwrap()];
    let mut pty = Pty::start(&test, &args, 40, 100, "xterm-256color");
    pty.wait_for("What next:");
    assert_eq!(pty.end(), 0);
    let all = pty.all();
    assert!(all.contains("› bash test.sh fails.") && all.contains("✓ checks passed"), "{all}");
    assert!(pty.is_cooked());
}

/// End of input ends the chat, but only after the last message is answered.
#[test]
fn plain_mode_answers_each_piped_line() {
    let turns: Vec<String> = (0..12).map(|n| format!("text: answer-{n}")).collect();
    let lines: String = (0..12).map(|n| format!("question {n}\n")).collect();
    let test = Test::new().script(&turns.join("\n---\n")).stdin(&lines);
    let done = test.agent(&["--plain", "--model", "script:../script"]).expect_code(0);
    let answers: Vec<String> = (0..12).map(|n| format!("› question {n}\n\nanswer-{n}\n")).collect();
    assert!(answers.iter().all(|answer| done.stdout.contains(answer)), "{}", done.stdout);
}

/// Piping untrusted text into it is equal to typing it: the documentation says so.
#[test]
fn plain_mode_treats_piped_lines_as_typed() {
    let test = Test::new()
        .script("call: Bash {\"command\": \"touch x\"}\n---\ntext: done")
        .stdin("!echo one > owned\n/mode full\ngo\n");
    let done = test.agent(&["--plain", "--model", "script:../script"]).expect_code(0);
    assert_eq!(test.read("owned"), "one\n");
    assert!(test.root().join("x").exists(), "{}", done.stdout);
}

#[test]
fn keys_are_configurable() {
    let test = Test::new().script("text: x").user_config("[ui.keys]\ntranscript = [\"f2\"]\n");
    let mut pty = chat(&test);
    pty.send("\x1bOQ");
    pty.wait_for("q close");
    let wrong = Test::new().user_config("[ui.keys]\ntranscripts = [\"f2\"]\n").script("text: x");
    let mut pty = Pty::chat(&wrong, &[]);
    assert_eq!(pty.end(), 2);
    assert!(pty.all().contains("did you mean transcript?"), "{}", pty.all());
}

#[test]
fn notification_is_sent_when_the_terminal_is_unfocused() {
    let test = Test::new().script("call: Bash {\"command\": \"touch x\"}\n---\ntext: end");
    let mut pty = chat(&test);
    pty.send("\x1b[O");
    pty.say("go");
    pty.wait_for("no, and say what instead");
    let called = "\x1b]9;agent: may it use Bash?\x07";
    pty.wait("a call", |_| String::from_utf8_lossy(&pty.bytes()).contains(called));
}

#[test]
fn plain_mode_ends_when_its_input_ends_at_a_question() {
    let script = "call: Bash {\"command\": \"touch a\"}\n---\ncall: Bash {\"command\": \"touch b\"}\n---\ntext: end";
    let test = Test::new().script(script).stdin("please\ny\n");
    let done = test.agent(&["--plain", "--model", "script:../script"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(test.root().join("a").exists() && !test.root().join("b").exists());
}

#[test]
fn plain_mode_numbers_its_choices_as_the_screen_does() {
    let script = "call: Bash {\"command\": \"touch a\"}\n---\ncall: Bash {\"command\": \"touch b\"}\n---\ntext: end";
    let test = Test::new().script(script).stdin("please\n9\n5\n4\n3\nread it\n");
    let done = test.agent(&["--plain", "--model", "script:../script"]).expect_code(0);
    for line in [
        "  1 or y: yes\n",
        "  2 or n: no\n",
        "  3 or i: no, and say",
        "  4 or a: always this command, this session\n",
        "  6: yes, and select mode auto-edit\n",
    ] {
        assert_eq!(done.stdout.matches(line).count(), 2, "{line}\n{}", done.stdout);
    }
    assert!(done.stdout.contains("rule 1: allow Bash(touch a)"), "{}", done.stdout);
    assert!(test.root().join("a").exists() && !test.root().join("b").exists());
}
