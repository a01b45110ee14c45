//! Layout: history in the terminal's own scrollback, a small live area, and no line lost,
//! duplicated or torn.

use std::time::Duration;

use serde_json::json;

use crate::support::gnu_screen::GnuScreen;
use crate::support::server::{Chunk, Reply, Server};
use crate::support::tmux::Tmux;
use crate::support::{Pty, Test};

const PARAGRAPHS: usize = 300;
const WORDS: &str = "some words 中文";

/// A long answer that is streamed paragraph by paragraph.
fn streaming(words: &'static str) -> Server {
    Server::with(move |_, _| {
        let event = |delta: &serde_json::Value| {
            let chunk = json!({"choices": [{"index": 0, "delta": delta, "finish_reason": null}]});
            Chunk::Send(format!("data: {chunk}\n\n").into_bytes())
        };
        let mut body = Vec::new();
        for n in 1..=PARAGRAPHS {
            for part in [format!("Paragraph {n:03} "), format!("has {words} "), "end.\n\n".into()] {
                body.push(event(&json!({"content": part})));
                body.push(Chunk::Pause(Duration::from_millis(3)));
            }
        }
        body.push(event(&json!({"content": "That is all."})));
        let end = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]});
        body.push(Chunk::Send(format!("data: {end}\n\ndata: [DONE]\n\n").into_bytes()));
        let headers = vec![("content-type", "text/event-stream".to_owned())];
        Reply { status: 200, headers, body }
    })
}

/// Asserts that every paragraph is present once, complete and in order, and that no part of the
/// live area is left behind.
#[track_caller]
fn check(all: &str) {
    check_paragraphs(all, WORDS);
    let prompts = all.lines().filter(|line| line.starts_with('›')).count();
    assert_eq!(prompts, 2, "the message and where one writes\n{all}");
    assert_eq!(all.matches("full ·").count(), 1, "one status line\n{all}");
}

#[track_caller]
fn check_paragraphs(all: &str, words: &str) {
    let lines: Vec<&str> = all.lines().map(str::trim_end).collect();
    let from = lines.iter().position(|line| line.starts_with("Paragraph")).unwrap();
    let mut expected = Vec::new();
    for n in 1..=PARAGRAPHS {
        expected.push(format!("Paragraph {n:03} has {words} end."));
        expected.push(String::new());
    }
    expected.push("That is all.".to_owned());
    for (n, expected) in expected.iter().enumerate() {
        let near =
            lines[from + n.saturating_sub(4)..].iter().take(9).map(|line| format!("{line}\n"));
        assert_eq!(lines[from + n], expected, "line {n} of\n{}", near.collect::<String>());
    }
}

fn args(server: &Server) -> [String; 5] {
    let url = server.url();
    ["--yolo".into(), "--model".into(), "test/m".into(), "--base-url".into(), url]
}

#[test]
#[ignore = "slow"]
fn tmux_loses_no_line_during_insertions_and_resizes() {
    let server = streaming(WORDS);
    let test = Test::new();
    let line = format!("$AGENT {}; exec cat", args(&server).join(" "));
    let Some(tmux) = Tmux::start("a hundred resizes", &test, &line, (80, 24)) else { return };
    tmux.wait_for("/help");
    tmux.keys(&["go", "Enter"]);
    tmux.wait_for("Paragraph 002");
    // Pseudo-random sizes, the same in every run.
    let mut state: u32 = 12345;
    let mut random = |from: u32, to: u32| {
        state = state.wrapping_mul(1_103_515_245).wrapping_add(12345);
        from + (state >> 16) % (to - from)
    };
    for _ in 0..100 {
        let (cols, rows) = (random(44, 120).to_string(), random(8, 50).to_string());
        tmux.run(&["resize-window", "-x", &cols, "-y", &rows]);
        std::thread::sleep(Duration::from_millis(u64::from(random(1, 40))));
    }
    tmux.wait_for("That is all.");
    tmux.wait_for("/help");
    tmux.run(&["resize-window", "-x", "80", "-y", "24"]);
    tmux.wait_for("/help");
    check(&tmux.all());
}

#[test]
fn gnu_screen_loses_no_line() {
    // Its hardcopies contain one byte per character.
    let server = streaming("plain words");
    let test = Test::new();
    let line = format!("$AGENT {}", args(&server).join(" "));
    let Some(screen) = GnuScreen::start("GNU screen", &test, &line) else { return };
    screen.wait_for("/help");
    screen.stuff("go\r");
    screen.wait_for("That is all.");
    screen.wait_for("/help");
    let all = screen.all();
    check_paragraphs(&all, "plain words");
    assert_eq!(all.matches("/help").count(), 1, "one status line\n{all}");
}

#[test]
#[ignore = "slow"]
fn terminals_without_reflow_lose_no_line() {
    let server = streaming(WORDS);
    let test = Test::new();
    let args = args(&server);
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    // The Linux console, and old terminals.
    for term in ["linux", "vt220"] {
        let mut pty = Pty::start(&test, &args, 24, 80, term);
        pty.wait_for("/help");
        pty.say("go");
        pty.wait_for("Paragraph 002");
        for n in 0..100_u16 {
            // Never narrower than the text: this parser wraps even where wrapping is off.
            pty.resize(24, 80 + (n * 7) % 50);
            std::thread::sleep(Duration::from_millis(10));
        }
        pty.wait_for("That is all.");
        pty.wait_for("/help");
        check(&pty.all());
    }
}

#[test]
fn the_live_area_is_at_most_half_of_the_screen() {
    let script: String = (1..200).map(|n| format!("text: - item {n}\n")).collect();
    let test = Test::new().script(&script);
    let mut pty = Pty::chat(&test, &[]);
    pty.wait_for("/help");
    pty.say("a long list");
    pty.wait_for("item 199");
    pty.wait_for("/help");
    let all = pty.all();
    for n in 1..200 {
        assert_eq!(all.matches(&format!("• item {n}\n")).count(), 1, "{n}\n{all}");
    }
}

#[test]
fn plan_is_shown_while_a_parallel_call_still_runs() {
    let test = Test::new().script(
        "call: TodoWrite {\"summary\": \"a wait\", \"todos\": [\n \
           {\"content\": \"wait for it\", \"status\": \"in_progress\"},\n \
           {\"content\": \"go home\", \"status\": \"pending\"}]}\n\
         call: Bash {\"command\": \"until [ -e go ]; do sleep 0.05; done\"}\n---\ntext: Done here.",
    );
    let mut pty = Pty::chat(&test, &["--yolo"]);
    pty.wait_for("/help");
    pty.say("wait");
    pty.wait_for("▸ wait for it");
    test.write("go", "");
    pty.wait_for("Done here.");
    pty.wait_for("/help");
    let all = pty.all();
    // The change is one line; the whole list is printed once.
    for text in ["· todo 0/2  → wait for it\n", "Todos 0/2  a wait\n"] {
        assert_eq!(all.matches(text).count(), 1, "{text}\n{all}");
    }
}

#[test]
fn todos_are_a_line_per_change_and_a_list_at_the_end_of_their_turn() {
    let plan = |n_done: usize| {
        let todo = |n| {
            let status = match n {
                _ if n < n_done => "completed",
                _ if n == n_done => "in_progress",
                _ => "pending",
            };
            json!({"content": format!("part {n}"), "status": status})
        };
        let todos: Vec<_> = (0..20).map(todo).collect();
        format!("call: TodoWrite {}\n---\n", json!({"summary": "much", "todos": todos}))
    };
    let script = [0, 1, 3].map(plan).concat() + "text: Done here.\n---\ntext: Nothing to add.";
    let test = Test::new().script(&script);
    let mut pty = Pty::chat(&test, &[]);
    pty.wait_for("/help");
    pty.say("work");
    pty.wait_for("  · part 19\n· ");
    let all = pty.all();
    for text in [
        "Done here.\n",
        "· todo 0/20  → part 0\n",
        "✓ todo 1/20 part 0  → part 1\n",
        "✓ todo 3/20 part 1; part 2  → part 3\n",
        "Todos 3/20  much\n  ✓ part 0\n",
        "  ▸ part 3\n  · part 4\n",
        "  · part 19\n· ",
    ] {
        assert_eq!(all.matches(text).count(), 1, "{text}\n{all}");
    }
    pty.say("and?");
    pty.wait_for("Nothing to add.");
    pty.wait_for("/help");
    assert_eq!(pty.all().matches("Todos").count(), 1, "{}", pty.all());
}

#[test]
fn session_without_a_message_has_no_hint_how_to_resume_it() {
    let test = Test::new().script("text: x");
    let mut pty = Pty::chat(&test, &[]);
    pty.wait_for("/help");
    pty.say("/quit");
    assert_eq!(pty.end(), 0);
    let all = pty.all();
    assert!(all.contains("sandbox") && !all.contains("resumes it"), "{all}");
}

#[test]
fn conversation_stays_in_the_terminal_after_exit() {
    let test = Test::new().script("text: An answer that stays.");
    let mut pty = Pty::chat(&test, &[]);
    pty.wait_for("/help");
    pty.say("say something");
    pty.wait_for("An answer that stays.");
    pty.say("/quit");
    assert_eq!(pty.end(), 0);
    pty.wait_for("`agent -c` resumes it");
    let all = pty.all();
    assert!(all.contains("› say something\n\nAn answer that stays.\n"), "{all}");
    assert!(!all.contains("/help"), "the live area is gone\n{all}");
    assert!(!pty.with_screen(vt100::Screen::alternate_screen));
}

#[test]
fn ctrl_t_opens_a_searchable_transcript() {
    let output: String = (1..60).map(|n| format!("out {n}; ")).collect();
    let test = Test::new().script(&format!(
        "call: Bash {{\"command\": \"printf '%s\\\\n' {}\"}}\n---\ntext: Done here.",
        output.replace("; ", " ")
    ));
    let mut pty = Pty::chat(&test, &["--yolo"]);
    pty.wait_for("/help");
    pty.say("print much");
    pty.wait_for("Done here.");
    assert!(pty.screen().contains("more lines"), "{}", pty.screen());
    pty.send("\x14");
    pty.wait_for("q close");
    assert!(pty.with_screen(vt100::Screen::alternate_screen));
    pty.send("a");
    pty.send("/");
    pty.send("DONE");
    pty.wait_for("/DONE");
    pty.send("\r");
    pty.wait_for("in 1 place");
    pty.send("g");
    pty.wait_for("agent ");
    pty.send("q");
    pty.wait_for("/help");
    assert!(!pty.with_screen(vt100::Screen::alternate_screen));
    assert!(pty.screen().contains("Done here."));
}
