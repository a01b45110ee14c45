//! Slash commands.

use regex::Regex;

use crate::support::server::{self, Server};
use crate::support::{Pty, Test, running, wait_for};

fn chat(script: &str) -> (Test, Pty) {
    let test = Test::new().file("a.txt", "one\n").script(script);
    let pty =
        Pty::start(&test, &["--model", "script:../script", "--yolo"], 60, 100, "xterm-256color");
    pty.wait_for("/help");
    (test, pty)
}

#[test]
fn commands_are_completed_with_a_description() {
    let (_test, mut pty) = chat("text: x");
    for command in agent_ui::tui::COMMANDS {
        pty.send(&format!("/{}", command.name));
        pty.wait_for(&format!("▸ /{}", command.name));
        let shown: String = command.description.chars().take(30).collect();
        assert!(pty.screen().contains(&shown), "{}\n{}", command.description, pty.screen());
        pty.send("\x15");
        pty.wait("an empty line", |screen| !screen.contains("▸ /"));
    }
}

/// 80 columns hold name and description; the arguments are those of the selected command.
#[test]
fn command_list_fits_80_columns() {
    let test = Test::new().script("text: x");
    let mut pty = Pty::start(&test, &["--model", "script:../script"], 40, 80, "xterm-256color");
    pty.wait_for("/help");
    pty.send("/pe");
    pty.wait_for(
        "  ▸ /permissions  the permission rules; add one, remove one of this session\n                  \
         [add allow|ask|deny RULE [SCOPE]|remove NUMBER]\n",
    );
    pty.send("\x15/");
    pty.wait_for("  ▸ /help      the most useful keys, and the commands\n");
    let screen = pty.screen();
    assert!(screen.contains("    /resume    resume another session\n"), "{screen}");
    assert!(!screen.contains("[ID]"), "{screen}");
}

#[test]
fn question_mark_on_an_empty_input_shows_the_keys() {
    let (test, mut pty) = chat("text: heard");
    pty.send("?");
    pty.wait_for("  Enter      send, also while it works    Ctrl-T     everything in full\n");
    assert!(!pty.screen().contains("› ?"), "{}", pty.screen());
    pty.send("\x1b");
    pty.wait("no list", |screen| !screen.contains("everything in full"));
    // A second one, and one in a message, are text.
    pty.send("??");
    pty.wait_for("› ?");
    pty.send(" why?\r");
    pty.wait_for("heard");
    assert_eq!(test.events_of("turn.started")[0]["input"], "? why?");
}

#[test]
fn built_in_commands_print_their_result() {
    let (_test, mut pty) = chat("text: An answer to copy.\nusage: 1200 30");
    pty.say("hello");
    pty.wait_for("An answer to copy.");
    pty.wait_for("1.2k tokens");
    pty.say("/help");
    pty.wait_for("  /doctor ");
    for part in [
        "Keys and commands\n  /          commands                     Esc        stop; twice: back a turn\n",
        "\nsession\n  /help         the most useful keys, and the commands\n",
        "\nsettings\n  /mode         the permission mode\n  /permissions  the permission rules; add one",
    ] {
        assert!(pty.screen().contains(part), "{part}\n{}", pty.screen());
    }
    pty.say("/mode read-only");
    pty.wait_for("· mode read-only");
    pty.say("/mode");
    pty.wait_for("▸ read-only  in use · ");
    pty.send("\x1b");
    pty.wait_for("/help");
    pty.send("\x1b[Z");
    pty.wait_for("· mode ask");
    pty.say("/todos");
    pty.wait_for("there is no todo list");
    pty.say("/cost");
    pty.wait_for("input   1,200 tokens");
    pty.say("/theme light");
    pty.wait_for("colours for a light background");
    pty.say("/keys");
    pty.wait_for("insert the last deleted text");
    pty.send("q");
    pty.wait_for("/help");
    pty.say("/copy");
    pty.wait_for("copied");
    let copied = "\x1b]52;c;QW4gYW5zd2VyIHRvIGNvcHku\x07";
    assert!(String::from_utf8_lossy(&pty.bytes()).contains(copied));
    pty.say("/modle");
    pty.wait_for("did you mean /mode?");
    pty.say("/quit");
    assert_eq!(pty.end(), 0);
}

/// Control characters that could end a bracketed paste and press keys are shown as text, and copied and exported as
/// that text.
#[test]
fn copied_text_equals_the_displayed_text() {
    const SHOWN: &str = "one␛[201~␍touch x␕two<U+009B>201~␛]0;␍touch x␍␇ three";

    let test = Test::new()
        .script("text: one\u{1b}[201~\rtouch x\u{15}two\u{9b}201~\u{1b}]0;\rtouch x\r\u{7} three");
    let mut pty = Pty::chat(&test, &[]);
    pty.wait_for("/help");
    pty.say("go");
    pty.wait_for(SHOWN);
    pty.say("/copy");
    pty.wait_for("copied");
    let copied = "\x1b]52;c;b25l4pCbWzIwMX7ikI10b3VjaCB44pCVdHdvPFUrMDA5Qj4yMDF+4pCbXTA74pCNdG91Y2ggeOKQjeKQhyB0aHJlZQ==\x07";
    assert!(String::from_utf8_lossy(&pty.bytes()).contains(copied));
    pty.say("/export talk.md");
    pty.wait_for("written to");
    let talk = test.read("talk.md");
    assert!(talk.contains(SHOWN), "{talk:?}");
    assert!(!talk.contains(|char: char| char.is_control() && char != '\n'), "{talk:?}");
}

#[test]
fn undo_command_reverts_a_turn_and_informs_the_model() {
    let (test, mut pty) = chat(
        "call: Read {\"path\": \"a.txt\"}\n---\n\
         call: Edit {\"path\": \"a.txt\", \"old_string\": \"one\", \"new_string\": \"two\"}\n---\n\
         text: changed\n---\nwhen: a.txt \\(restored\\)\ntext: I know",
    );
    pty.say("change it");
    pty.wait_for("changed");
    pty.wait_for("/help");
    pty.say("/undo");
    pty.wait_for("turn 1 undone: a.txt restored");
    assert_eq!(test.read("a.txt"), "one\n");
    pty.say("well?");
    pty.wait_for("I know");
    pty.say("/undo");
    pty.wait_for("there is no change to undo");
}

#[test]
fn list_of_sessions_says_in_words_how_each_ended() {
    let script = "call: Write {\"path\": \"a\", \"content\": \"x\"}\n---\ntext: I could not.";
    let test = Test::new().script(script);
    test.run(&["--permission-mode", "read-only", "write it"]).expect_code(77);
    let mut pty = Pty::chat(&test, &[]);
    pty.wait_for("/help");
    pty.send("/resume ");
    pty.wait_for(", a permission was not given)");
}

#[test]
fn sessions_are_listed_resumed_and_cleared() {
    let (test, mut pty) =
        chat("text: first answer\n---\ntext: second answer\n---\ntext: third answer");
    pty.say("the first session");
    pty.wait_for("first answer");
    let first = test.log().parent().unwrap().file_name().unwrap().to_str().unwrap().to_owned();
    pty.say("/clear");
    pty.wait_for("session   a new one");
    pty.wait_for("/help");
    pty.say("the second session");
    pty.wait_for("› the second session\n\nfirst answer");
    pty.say("/sessions");
    pty.wait_for("Sessions of this project");
    pty.wait_for("the first session");
    pty.send("/resume ");
    pty.wait_for(&format!("▸ {}", &first[first.len() - 6..]));
    pty.send("\x15");
    pty.wait("an empty line", |screen| !screen.contains("/resume"));
    pty.say(&format!("/resume {first}"));
    pty.wait_for("resumed");
    pty.wait_for("/help");
    pty.say("again");
    // The script restarts with each session.
    pty.wait_for("› again\n\nfirst answer");
    assert_eq!(
        test.try_log().unwrap().parent().unwrap().file_name().unwrap().to_str(),
        Some(&*first)
    );
    pty.wait_for("/help");
    pty.send("/resume ");
    pty.wait("the other session", |screen| {
        screen.contains("the second session")
            && !screen.contains(&format!("▸ {}", &first[first.len() - 6..]))
    });
    pty.send("\x15");
    pty.wait("an empty line", |screen| !screen.contains("/resume"));
    pty.say("/resume nope");
    pty.wait_for("no session nope");
}

#[test]
fn chat_continues_the_latest_session() {
    let test =
        Test::new().script("when: carry it on\ntext: the new answer\n---\ntext: the old answer");
    test.run(&["the old question"]).expect_code(0);
    let mut pty = Pty::chat(&test, &["-c"]);
    pty.wait_for("the old answer");
    pty.wait_for("/help");
    pty.say("carry it on");
    pty.wait_for("the new answer");
}

#[test]
fn trace_export_config_and_model_commands_work() {
    let (test, mut pty) = chat("call: Read {\"path\": \"a.txt\"}\n---\ntext: looked");
    pty.say("look");
    pty.wait_for("looked");
    pty.say("/trace");
    pty.wait_for("▸ Read a.txt");
    pty.send("q");
    pty.wait_for("/help");
    pty.say("/export talk.md");
    pty.wait_for("written to");
    assert!(test.read("talk.md").contains("## User\n\nlook"), "{}", test.read("talk.md"));
    for (file, why) in [
        ("talk.md", "talk.md: it exists already; name another file"),
        ("no/talk.md", "talk.md: its directory does not exist; name another file"),
    ] {
        pty.say(&format!("/export {file}"));
        pty.wait_for(why);
    }
    assert!(!pty.all().contains("os error"), "{}", pty.all());
    pty.say("/config");
    pty.wait_for("q close");
    pty.send("/");
    pty.send("max_step_retries");
    // A key that arrives with others is part of a paste.
    pty.wait_for("/max_step_retries");
    pty.send("\r");
    pty.wait_for("recovery.max_step_retries = 3");
    pty.wait_for("q close");
    pty.send("q");
    pty.wait_for("/help");
    pty.say("/model");
    pty.wait_for("the model is script:../script");
    pty.say("/model nobody/x");
    pty.wait_for("unknown provider \"nobody\"");
    pty.wait_for("/help");
    pty.say("/compact");
    pty.wait_for("nothing to compact yet");
}

#[test]
fn text_behind_a_command_without_arguments_is_kept() {
    let (test, mut pty) = chat("text: unused");
    pty.say("/cost please fix the test");
    pty.wait_for("/cost takes no arguments");
    pty.wait_for("› /cost please fix the test");
    assert!(!test.has_event("turn.started"));
}

#[test]
fn summary_without_a_model_is_announced_as_such() {
    let (test, mut pty) = chat(
        "call: Read {\"path\": \"a.txt\"}\n---\ntext: one\n---\ntext: two\n---\ntext: three\n---\nfor: summary\ntimes: any\nfault: empty",
    );
    test.write("a.txt", "a line of the file\n".repeat(200));
    for (message, answer) in [("first", "one"), ("second", "two"), ("third", "three")] {
        pty.say(message);
        pty.wait_for(answer);
        pty.wait_for("/help");
    }
    pty.say("/compact");
    pty.wait_for("became a summary from the record: no model wrote one");
}

/// A chat of two turns: the first message has a.txt written, the second b.txt.
fn two_turns(first: &str) -> (Test, Pty) {
    let write = |name: &str| {
        format!(
            "call: Write {{\"path\": \"{name}\", \"content\": \"x\"}}\n---\ntext: done {name}\n---\n"
        )
    };
    let test = Test::new().script(&format!("{}{}", write("a.txt"), write("b.txt")));
    let mut pty = Pty::chat(&test, &["--yolo"]);
    pty.wait_for("/help");
    pty.say(first);
    pty.wait_for("changed a.txt");
    pty.say("another");
    pty.wait_for("changed b.txt");
    pty.wait_for("/help");
    (test, pty)
}

#[test]
fn words_of_undo_are_no_search_in_messages() {
    let (_test, mut pty) = two_turns("add the git hash, and enforce it");
    pty.say("/undo git");
    pty.wait_for("turn 2 undone: b.txt removed");
    pty.say("/undo 2");
    pty.wait_for("turn 2 changed no file, or is undone already");
    pty.say("/undo force");
    pty.wait_for("turn 1 undone: a.txt removed");
}

#[test]
fn refused_undo_names_the_turn_before() {
    let (test, mut pty) = two_turns("one");
    test.write("b.txt", "the user's");
    pty.say("/undo");
    pty.wait_for("turn 2 not undone: b.txt left as it is");
    pty.wait_for("/undo 1)");
    pty.say("/undo 1");
    pty.wait_for("turn 1 undone: a.txt removed");
}

#[test]
fn summary_names_the_files_that_commands_changed() {
    let commands: String = (0..4)
        .map(|n| format!("call: Bash {{\"command\": \"seq 3000; echo {n} >> made.txt\"}}\n---\n"))
        .collect();
    let script = format!(
        "{commands}text: first\n---\ntext: answer 0\n---\ntext: answer 1\n---\ntext: answer 2\n---\nfor: summary\ntext: ### Objectives\ntext: go on\n---\n\
         when: made.txt: changed in \\d calls?\ntext: it is known\n---\ntext: nothing is known"
    );
    let test = Test::new().script(&script);
    let mut pty = Pty::chat(&test, &["--yolo", "--set", "context.keep_rounds=1"]);
    pty.wait_for("/help");
    pty.say("make it");
    pty.wait_for("changed made.txt");
    for n in 0..3 {
        pty.say(&format!("turn {n}"));
        pty.wait_for(&format!("answer {n}"));
    }
    pty.say("/compact");
    pty.wait("a summary", |_| test.has_event("context.compacted"));
    pty.say("what is there?");
    pty.wait_for("it is known");
}

#[test]
fn parts_of_the_context_add_up_after_a_compaction() {
    let (test, mut pty) = chat(
        "call: Read {\"path\": \"a.txt\"}\n---\ntext: one\n---\ntext: two\n---\ntext: three\n---\n\
         for: summary\ntimes: any\ntext: short",
    );
    test.write("a.txt", "a line of the file\n".repeat(200));
    for (message, answer) in [("first", "one"), ("second", "two"), ("third", "three")] {
        pty.say(message);
        pty.wait_for(&format!("› {message}\n\n"));
        pty.wait_for(answer);
        pty.wait_for("/help");
    }
    let status = |pty: &Pty| {
        let tokens = Regex::new(r"(\S+) tokens \(\d+ %\)").unwrap();
        tokens.captures_iter(&pty.screen()).last().unwrap()[1].to_owned()
    };
    let before = status(&pty);
    pty.say("/compact");
    pty.wait("a summary", |_| test.has_event("context.compacted"));
    pty.wait_for("/help");
    // The numbers are those of the status line.
    let before = before.trim_start_matches('~');
    pty.wait_for(&format!("compacted: {before} → {} tokens, ", status(&pty)));
    pty.say("/context");
    pty.wait_for("in all of ");
    let screen = pty.screen();
    let tokens = |what: &str| -> f64 {
        let line = screen.lines().find(|line| line.contains(what)).unwrap();
        let number = line.split_whitespace().next().unwrap();
        match number.strip_suffix('k') {
            Some(thousands) => thousands.parse::<f64>().unwrap() * 1000.0,
            None => number.parse().unwrap(),
        }
    };
    let parts =
        ["descriptions of the tools", "how the agent works", "this project", "the conversation"];
    let sum: f64 = parts.map(tokens).iter().sum();
    assert!((sum - tokens("in all of")).abs() <= 150.0, "rounded to 0.1k each\n{screen}");
}

#[test]
fn esc_stops_a_compaction_and_queued_messages_follow_it() {
    let (test, mut pty) = chat(
        "call: Read {\"path\": \"a.txt\"}\n---\ntext: one\n---\ntext: two\n---\ntext: three\n---\n\
         text: I heard it\n---\nfor: summary\ntimes: any\npause: 20s\ntext: never",
    );
    test.write("a.txt", "a line of the file\n".repeat(200));
    for (message, answer) in [("first", "one"), ("second", "two"), ("third", "three")] {
        pty.say(message);
        pty.wait_for(&format!("› {message}\n\n"));
        pty.wait_for(answer);
        pty.wait_for("/help");
    }
    pty.say("/compact");
    pty.wait_for("compacting · ");
    pty.send("\x1b");
    pty.wait_for("stopped: the conversation is as it was");
    pty.wait_for("/help");
    assert_eq!(test.events_of("context.compacted").len(), 0);
    pty.say("/compact");
    pty.wait_for("compacting · ");
    pty.say("said meanwhile");
    pty.wait_for("▸ queued: said meanwhile");
    // A stopped turn does not consume queued messages: the text returns to the composer.
    pty.send("\x1b");
    pty.wait_for("› said meanwhile");
    pty.send("\r");
    pty.wait_for("I heard it");
}

#[test]
fn esc_ends_a_user_command() {
    let mark = format!("5{}.66", std::process::id() % 1000);
    let (_test, mut pty) = chat("text: x");
    pty.say(&format!("!echo begun; sleep {mark}"));
    pty.wait_for("your command runs · Esc stops");
    wait_for(|| !running(&format!("sleep {mark}")).is_empty());
    pty.send("\x1b");
    pty.wait_for("    begun");
    pty.wait_for("/help");
    assert_eq!(running(&format!("sleep {mark}")), [""; 0]);
}

#[test]
fn undo_and_rewind_complete_turns() {
    let (test, mut pty) = chat(
        "text: an answer\n---\ncall: Read {\"path\": \"a.txt\"}\n---\n\
         call: Edit {\"path\": \"a.txt\", \"old_string\": \"one\", \"new_string\": \"two\"}\n---\ntext: changed",
    );
    pty.say("a question");
    pty.wait_for("an answer");
    pty.wait_for("/help");
    pty.say("mend it");
    pty.wait_for("changed a.txt");
    pty.wait_for("/help");
    pty.send("/undo ");
    pty.wait_for("▸ 2  mend it  (changed a.txt)");
    assert!(!pty.screen().contains("1  a question"), "{}", pty.screen());
    pty.send("\x15/rewind");
    pty.wait_for("▸ /rewind");
    pty.send("\r");
    pty.wait_for("▸ 2  mend it");
    pty.wait_for("  1  a question");
    pty.send("\r");
    pty.wait_for("▸ both          files and conversation: 1 turn; a.txt");
    pty.send("\r");
    pty.wait_for("back to before turn 2");
    assert_eq!(test.read("a.txt"), "one\n");
}

#[test]
fn rewind_changes_nothing_if_a_file_was_changed_externally() {
    let (test, mut pty) = chat(
        "when: change it\ncall: Bash {\"command\": \"echo two > a.txt; mkdir d; touch b.txt d/c.txt\"}\n---\n\
         text: changed",
    );
    let has = |path: &str| test.root().join(path).exists();
    pty.say("change it");
    pty.wait_for("changed a.txt");
    pty.wait_for("/help");
    test.write("a.txt", "three\n");
    pty.say("/rewind 1");
    pty.wait_for("nothing is rewound: a.txt left as it is: it was changed since");
    pty.wait_for("With force: /rewind 1 force; without the files: /rewind 1 conversation");
    let screen = pty.screen();
    assert_eq!(screen.matches("left as it is").count(), 1, "{screen}");
    assert_eq!(test.read("a.txt"), "three\n");
    assert!(has("b.txt") && has("d/c.txt"));
    assert!(test.events_of("session.rewound").is_empty());
    assert!(test.events_of("turn.undone").is_empty());
    // Nothing was rewound, so the composer is empty.
    pty.send("new");
    pty.wait_for("› new");
    assert!(!pty.screen().contains("newchange it") && !pty.screen().contains("change itnew"));
    // Nor if a directory cannot be removed.
    test.write("a.txt", "two\n");
    test.write("d/other.txt", "");
    pty.send("\x15");
    pty.say("/rewind 1");
    pty.wait_for("nothing is rewound: d left as it is: it contains files");
    assert_eq!(test.read("a.txt"), "two\n");
    assert!(has("b.txt") && has("d/c.txt"));
    test.write("a.txt", "three\n");
    pty.say("/rewind 1 force");
    pty.wait_for("back to before turn 1: a.txt restored");
    assert_eq!(test.read("a.txt"), "one\n");
    assert!(!has("b.txt") && !has("d/c.txt") && has("d/other.txt"));
    assert_eq!(test.events_of("session.rewound")[0]["from_turn"], 1);
}

#[test]
fn commands_work_while_a_tool_runs() {
    let (test, mut pty) = chat(
        "call: Bash {\"command\": \"echo it runs; until [ -e go ]; do sleep 0.05; done\"}\n---\n\
         text: over",
    );
    pty.say("wait for it");
    pty.wait_for("    it runs");
    pty.say("/cost");
    pty.wait_for("This session");
    pty.say("/nonsense");
    pty.wait_for("there is no command /nonsense");
    pty.say("!echo of my own");
    pty.wait_for("    of my own");
    pty.wait_for("    it runs");
    test.write("go", "");
    pty.wait_for("over");
    let screen = pty.screen();
    let at = |text: &str| screen.find(text).unwrap();
    assert!(at("This session") < at("/nonsense") && at("of my own") < at("✓ Bash"), "{screen}");
    for once in ["This session", "    of my own", "✓ Bash"] {
        assert_eq!(screen.matches(once).count(), 1, "{screen}");
    }
}

#[test]
fn output_of_a_user_command_is_shown_live() {
    let (test, mut pty) = chat("text: x");
    pty.say("!echo the first; until [ -e go ]; do sleep 0.05; done; echo the last");
    pty.wait_for("    the first");
    pty.wait_for("your command runs");
    test.write("go", "");
    pty.wait_for("    the last");
    pty.wait_for("/help");
    assert_eq!(pty.screen().matches("    the first").count(), 1, "{}", pty.screen());
}

#[test]
fn command_aliases_of_other_programs_work() {
    let (_test, mut pty) = chat("text: x");
    pty.say("/status");
    pty.wait_for("This session");
    pty.say("/exit");
    assert_eq!(pty.end(), 0);
}

#[test]
fn esc_twice_offers_a_rewind() {
    let (_test, mut pty) = chat("text: an answer");
    pty.say("a question");
    pty.wait_for("an answer");
    pty.wait_for("/help");
    pty.send("\x1b");
    pty.wait_for("Esc again goes back to an earlier turn");
    pty.send("\x1b");
    pty.wait_for("› /rewind");
    pty.wait_for("▸ 1  a question");
    // Leaving the list leaves nothing in the input.
    pty.send("\x1b");
    pty.wait("an empty input", |screen| !screen.contains("/rewind"));
    pty.send("\x1b");
    pty.wait_for("Esc again goes back to an earlier turn");
    pty.send("\x1b");
    pty.wait_for("▸ 1  a question");
    pty.send("\r");
    pty.wait_for("▸ both          files and conversation: 1 turn; no file was changed");
    pty.send("\r");
    pty.wait_for("back to before turn 1");
    pty.wait_for("› a question");
}

#[test]
fn rewind_list_asks_what_to_restore_and_does_not_wrap() {
    let test = Test::new().script(
        "call: Write {\"path\": \"a.txt\", \"content\": \"x\"}\n---\ntext: one\n---\ntext: two",
    );
    let mut pty = crate::support::Pty::chat(&test, &["--yolo"]);
    pty.wait_for("/help");
    pty.say("first");
    pty.wait_for("changed a.txt");
    pty.say("second");
    pty.wait_for("two");
    pty.wait_for("/help");
    pty.send("/rewind ");
    pty.wait_for("▸ 2  second");
    // Up at the latest turn is not the oldest one.
    pty.send("\x1b[A\x1b[A\r");
    pty.wait_for("files and conversation: 1 turn; no file was changed");
    pty.send("\x15/rewind ");
    pty.wait_for("▸ 2  second");
    pty.send("\x1b[B\r");
    pty.wait_for("files and conversation: 2 turns; a.txt");
    pty.send("\x1b[B\r");
    pty.wait_for("back to before turn 1");
    assert_eq!(test.read("a.txt"), "x", "only the conversation was rewound");
}

#[test]
fn esc_twice_with_a_key_in_between_does_nothing() {
    let (_test, mut pty) = chat("text: an answer");
    pty.say("a question");
    pty.wait_for("an answer");
    pty.wait_for("/help");
    pty.send("\x1b");
    pty.wait_for("Esc again goes back to an earlier turn");
    // Another key was pressed in between.
    pty.send("x\x7f");
    pty.send("\x1b");
    // An immediately following key would be read as Alt with a letter.
    std::thread::sleep(std::time::Duration::from_millis(300));
    pty.send("hm");
    pty.wait_for("› hm");
}

#[test]
fn command_unavailable_during_a_turn_stays_in_the_composer() {
    let (_test, mut pty) = chat("text: I begin\nfault: hang\n---\ntext: x");
    pty.say("go");
    pty.wait_for("I begin");
    pty.say("/undo");
    pty.wait_for("the agent works: Tab sends this after it, Esc stops it");
    pty.wait_for("› /undo");
    pty.send("\x1b");
    pty.wait_for("stopped by you");
    pty.send("\r");
    pty.wait_for("there is no change to undo");
}

#[test]
fn doctor_and_config_show_this_chats_settings() {
    let (_test, mut pty) = chat("text: x");
    pty.say("/doctor");
    pty.wait_for("✓ program");
    // The model of this chat, not the default of a new one.
    pty.wait_for("✓ model      script:../script");
    pty.say("/config");
    pty.wait_for("q close");
    pty.send("/");
    pty.send("permissions.mode");
    pty.send("\r");
    pty.wait("where the mode comes from", |screen| {
        screen.contains("permissions.mode = \"full\"") && screen.contains("# command line --yolo")
    });
}

#[test]
fn diff_undo_and_redo_commands_work() {
    let change =
        "call: Bash {\"command\": \"echo two > a.txt; touch new.txt\"}\n---\ntext: changed it";
    let (test, mut pty) = chat(change);
    pty.say("change it");
    pty.wait_for("changed it");
    pty.say("/diff");
    pty.wait_for("+two");
    pty.wait_for("new.txt: created, empty");
    pty.say("/undo");
    pty.wait_for("turn 1 undone: a.txt restored, new.txt removed");
    assert_ne!(test.read("a.txt"), "two\n");
    pty.say("/redo");
    pty.wait_for("turn 1 redone: a.txt written again, new.txt written again");
    pty.say("/undo 99");
    pty.wait_for("turn 99 changed no file, or is undone already");
    assert_eq!(test.read("a.txt"), "two\n");
}

#[test]
fn diff_shows_every_line_of_a_change() {
    let (_test, mut pty) =
        chat("call: Bash {\"command\": \"seq 1 250 > long.txt\"}\n---\ntext: changed it");
    pty.say("change it");
    pty.wait_for("changed it");
    pty.say("/diff");
    pty.wait_for("+1");
    // To the end of the page.
    pty.send("G");
    pty.wait_for("+250");
}

#[test]
fn project_commands_neither_override_others_nor_follow_symlinks() {
    let test =
        Test::new().script("text: heard").file(".agent/commands/inspect.md", "of the project");
    let own = test.home().join(".config/agent/commands");
    std::fs::create_dir_all(&own).unwrap();
    std::fs::write(own.join("inspect.md"), "of the user").unwrap();
    std::fs::write(test.home().join("secret"), "typed-secret").unwrap();
    let link = |name: &str| {
        let link = test.root().join(".agent/commands").join(name);
        std::os::unix::fs::symlink(test.home().join("secret"), link).unwrap();
    };
    link("exit.md");
    link("other.md");
    let mut pty = Pty::chat(&test, &[]);
    pty.wait_for("/help");
    pty.say("/inspect");
    pty.wait_for("heard");
    assert_eq!(test.events_of("turn.started")[0]["shown"], "of the user");
    pty.say("/other");
    pty.wait_for("there is no command /other");
    pty.say("/exit");
    pty.end();
    assert!(!std::fs::read_to_string(test.log()).unwrap().contains("typed-secret"));
}

#[test]
fn custom_commands_are_read_from_files() {
    let test = Test::new().script("text: heard").file("code.rs", "").file(
        ".agent/commands/fix.md",
        "---\ndescription: Fix a thing\n---\nPlease fix $ARGUMENTS now.\n",
    );
    let mut pty = Pty::chat(&test, &[]);
    pty.wait_for("/help");
    pty.send("/fi");
    pty.wait_for("▸ /fix");
    pty.wait_for("Fix a thing");
    pty.send("\tthe tests\r");
    pty.wait_for("heard");
    assert_eq!(test.events_of("turn.started")[0]["shown"], "Please fix the tests now.");
    // Also one written a moment ago, with a file as argument.
    pty.wait_for("/help");
    test.write(".agent/commands/later.md", "Look at $ARGUMENTS.\n");
    pty.send("/");
    pty.send("lat");
    pty.wait_for("▸ /later");
    pty.send("\t@co");
    pty.wait_for("▸ @code.rs");
    pty.send("\x1b");
}

#[test]
fn mode_belongs_to_the_chat_and_not_to_the_session() {
    let test = Test::new().file("a.txt", "one\n").script("text: an answer");
    let mut pty = Pty::chat(&test, &[]);
    pty.wait_for("/help");
    pty.say("a question");
    pty.wait_for("an answer");
    pty.send("\x1b[Z");
    pty.wait_for("auto-edit · ");
    pty.say("/rewind 1");
    pty.wait_for("back to before turn 1");
    pty.wait_for("› a question\n  auto-edit · ");
    pty.send("\x15");
    pty.say("/clear");
    pty.wait_for("session   a new one");
    pty.wait_for("auto-edit · ");
    pty.say("another question");
    pty.wait_for("an answer");
    assert_eq!(test.events_of("mode.changed")[0]["mode"], "auto-edit");
}

#[test]
fn resume_reports_that_there_is_no_other_session() {
    let (_test, mut pty) = chat("text: x");
    pty.send("/resume ");
    pty.wait_for("there is no other session of this project");
    // Nothing is left to delete.
    pty.wait("an empty input", |screen| !screen.contains("/resume"));
}

#[test]
fn rewind_command_reverts_to_before_a_turn() {
    let (test, mut pty) = chat(
        "when: change it\ncall: Read {\"path\": \"a.txt\"}\n---\n\
         call: Edit {\"path\": \"a.txt\", \"old_string\": \"one\", \"new_string\": \"two\"}\n---\n\
         text: changed",
    );
    pty.say("change it");
    pty.wait_for("changed");
    pty.wait_for("/help");
    pty.say("/rewind 1");
    pty.wait_for("back to before turn 1: a.txt restored");
    assert_eq!(test.read("a.txt"), "one\n");
    assert_eq!(test.events_of("session.rewound")[0]["from_turn"], 1);
    // The message can be edited and sent again.
    pty.wait_for("› change it");
    let screen = pty.screen();
    assert_eq!(screen.matches("sandbox").count(), 1, "{screen}");
    assert!(!screen.contains("resumed"), "{screen}");
    pty.send("\x15");
    pty.say("/rewind");
    pty.wait("a space", |_| pty.with_screen(|screen| screen.cursor_position().1 == 10));
    // Enter completes the command first, and says what it takes.
    pty.wait_for("/rewind TURN [files|conversation] [force]: go back to before a turn");
    pty.send("\r");
    pty.wait_for("say to which turn, by its number");
}

#[test]
fn invalid_or_reserved_command_file_names_are_rejected() {
    let test = Test::new()
        .script("text: heard")
        .file(".agent/commands/mode full.md", "Review the change")
        .file(".agent/commands/mode.md", "Review the change")
        .file(".agent/commands/reset.md", "Review the change")
        .file(".agent/commands/inspect.md", "Review the change");
    let mut pty =
        Pty::start(&test, &["chat", "--model", "script:../script"], 40, 120, "xterm-256color");
    pty.wait_for("no command is made of \".agent/commands/mode full.md\"");
    pty.wait_for("\".agent/commands/mode.md\", \".agent/commands/reset.md\"");
    pty.wait_for("/help");
    pty.send("/");
    pty.send("mode");
    pty.wait_for("▸ /mode   the permission mode  [MODE]\n");
    assert_eq!(pty.screen().matches("    /mode ").count(), 0, "{}", pty.screen());
    assert!(!pty.screen().contains("Review the change"), "{}", pty.screen());
    pty.send("\x15/inspect");
    pty.wait_for("Review the change");
    pty.send("\r");
    pty.wait_for("heard");
    assert_eq!(test.events_of("turn.started")[0]["shown"], "Review the change");
}

#[test]
fn rewind_of_files_reports_externally_changed_ones() {
    let (test, mut pty) =
        chat("call: Bash {\"command\": \"echo two > a.txt; touch b.txt\"}\n---\ntext: changed it");
    pty.say("change it");
    pty.wait_for("changed it");
    pty.wait_for("/help");
    test.write("a.txt", "three\n");
    pty.say("/rewind 1 files");
    pty.wait_for("nothing is rewound: a.txt left as it is");
    pty.wait_for("With force: /rewind 1 files force");
    assert_eq!(test.read("a.txt"), "three\n");
    assert!(test.root().join("b.txt").exists());
}

#[test]
fn undo_is_refused_during_a_background_command_unless_forced() {
    let line = "call: Bash {\"command\": \"touch began; sleep 311.61\", \"background\": true}\n---\n\
         call: Bash {\"command\": \"until [ -e began ]; do sleep 0.05; done; echo two > a.txt\"}\n\
         ---\ntext: changed it";
    let (test, mut pty) = chat(line);
    pty.say("change it");
    pty.wait_for("changed it");
    assert!(!running("sleep 311.61").is_empty());
    pty.say("/undo");
    pty.wait_for("bg_1 (`touch began; sleep 311.61`) may still write in the background");
    assert_eq!(test.read("a.txt"), "two\n");
    pty.say("/undo force");
    pty.wait_for("turn 1 undone: a.txt restored");
    assert_eq!(test.read("a.txt"), "one\n");
    assert!(!running("sleep 311.61").is_empty(), "it is left alone");
    pty.say("/quit");
    assert_eq!(pty.end(), 0);
}

#[test]
fn edits_beside_a_background_command_of_an_earlier_turn_are_undone() {
    let (test, mut pty) = chat(
        "call: Bash {\"command\": \"touch began; sleep 311.62\", \"background\": true}\n---\n\
         text: it runs\n---\ncall: Read {\"path\": \"a.txt\"}\n---\n\
         call: Edit {\"path\": \"a.txt\", \"old_string\": \"one\", \"new_string\": \"two\"}\n---\n\
         text: changed it",
    );
    pty.say("start it");
    pty.wait_for("it runs");
    pty.wait_for("/help");
    pty.say("change it");
    pty.wait_for("changed it");
    pty.wait_for("/help");
    for (command, done, text) in [
        ("/undo", "turn 2 undone: a.txt restored", "one\n"),
        ("/redo", "turn 2 redone: a.txt written again", "two\n"),
    ] {
        pty.say(command);
        pty.wait_for(done);
        assert_eq!(test.read("a.txt"), text);
    }
    assert!(!running("sleep 311.62").is_empty());
    // The command may have changed something in turn 1.
    pty.say("/undo 1");
    pty.wait_for("bg_1 (`touch began; sleep 311.62`) may still write in the background");
    // Its end is no part of turn 2.
    pty.say("/redo");
    pty.wait("it is redone", |_| test.read("a.txt") == "two\n");
    pty.say("/tasks stop");
    pty.wait("it has ended", |_| running("sleep 311.62").is_empty());
    pty.wait_for("bg_1 is ended");
    pty.say("/undo");
    pty.wait("it is undone", |_| test.read("a.txt") == "one\n");
    assert!(test.root().join("began").exists());
    pty.say("/undo");
    pty.wait_for("/undo 1 force undoes them anyway: began");
    pty.say("/quit");
    assert_eq!(pty.end(), 0);
}

#[test]
fn effort_is_chosen_with_the_model_or_alone() {
    let server = Server::with(|request, _| {
        if request.path.ends_with("/models") {
            server::json(200, &serde_json::json!({"data": [{"id": "small"}, {"id": "large"}]}))
        } else {
            server::sse_text(&format!("at {}", request.json()["reasoning_effort"]))
        }
    });
    let config = format!(
        "model = \"mine/small\"\neffort = \"low\"\n[providers.mine]\nbase_url = \"{}\"\n\
         [models.\"mine/large\"]\n",
        server.url()
    );
    let test = Test::new().user_config(&config);
    let mut pty = Pty::start(&test, &[], 24, 80, "xterm-256color");
    pty.wait_for("ask · mine/small low");
    pty.say("/model mine/large high");
    pty.wait_for("mine/large answers from now on with effort high");
    pty.wait_for("ask · mine/large high");
    pty.say("hello?");
    pty.wait_for("at \"high\"");
    pty.wait_for("/help");
    pty.say("/model nonsense of words");
    pty.wait_for("there is no effort \"of words\": default, none, minimal, low");
    // In the list.
    pty.send("/model mine/large ");
    pty.wait("the current one", |screen| screen.contains("▸ high     in use\n"));
    pty.send("xh");
    pty.wait_for("/model mine/large xh");
    pty.send("\r");
    pty.wait_for("mine/large answers from now on with effort xhigh");
    // It stays in the next session.
    pty.say("/clear");
    pty.wait_for("ask · mine/large xhigh");
    pty.say("/model default");
    pty.wait_for("mine/large answers from now on with effort low");
    pty.say("/model none");
    pty.wait_for("mine/large answers from now on with effort none");
    pty.say("still there?");
    pty.wait_for("at \"none\"");
    let efforts = test.events_of("model.requested");
    assert_eq!(efforts[0]["effort"], "none");
    // The names that it has in other agents.
    pty.wait_for("/help");
    pty.say("/effort high");
    pty.wait_for(" · mine/large high");
    pty.say("/thinking hard");
    pty.wait_for("there is no effort \"hard\": default, none, minimal, low");
    pty.say("/effort");
    pty.wait("the list", |screen| screen.contains("▸ high     in use\n"));
    assert!(!pty.all().contains("the effort is"), "{}", pty.all());
    pty.send("max");
    pty.wait_for("/effort max");
    pty.send("\r");
    pty.wait_for("mine/large answers from now on with effort max");
}

#[test]
fn model_picker_checks_the_server_and_updates_the_status() {
    let server = Server::with(|request, _| {
        if request.path.ends_with("/models") {
            server::json(200, &serde_json::json!({"data": [{"id": "small"}, {"id": "large"}]}))
        } else {
            let model = request.json()["model"].as_str().unwrap().to_owned();
            server::sse_text(&format!("{}I am {model}", "well, ".repeat(500)))
        }
    });
    let config = format!(
        "model = \"mine/small\"\n[providers.mine]\nbase_url = \"{}\"\n[providers.gone]\n\
         base_url = \"http://127.0.0.1:1/v1\"\n[models.\"mine/large\"]\ncontext_window = 2000000\nprice_in = 2.0\nprice_out = 10.5\n\
         [models.\"mine/unlisted\"]\n[models.\"gone/model\"]\n",
        server.url()
    );
    let test = Test::new().user_config(&config);
    let mut pty = Pty::start(&test, &[], 24, 80, "xterm-256color");
    pty.wait_for("/help");
    pty.say("/model");
    // Only what the server lists, as soon as it is known.
    pty.wait("the list of the server", |screen| {
        screen.contains("▸ mine/small  in use · window 128,000 (assumed) · price not known\n")
            && screen.contains("  mine/large  window 2,000,000 · $2 in, $10.5 out\n")
            && !screen.contains("mine/unlisted")
    });
    pty.send("large");
    pty.wait_for("▸ mine/large");
    pty.send("\r");
    // The second step: the effort.
    pty.wait_for("▸ default");
    pty.send("\r");
    pty.wait_for("mine/large answers from now on");
    pty.wait_for("ask · mine/large");
    pty.say("/model mine/unlisted");
    pty.wait_for("the server does not list unlisted among its 2 models");
    // A server that cannot be reached is not selected.
    pty.say("/model gone/model");
    pty.wait_for("mine/unlisted still answers");
    pty.say("who are you?");
    pty.wait_for("I am unlisted");
    // It also writes summaries, as no light model is configured.
    for n in 2..5 {
        pty.wait_for("/help");
        pty.say(&format!("and now, {n}?"));
        pty.wait("the next answer", |_| test.n_events("turn.finished") == n);
    }
    pty.wait_for("/help");
    pty.say("/compact");
    pty.wait("a summary", |_| test.has_event("context.compacted"));
    let asked = test.events_of("model.requested");
    let summary = asked.iter().find(|it| it["purpose"] == "summary").unwrap();
    assert_eq!(summary["model"], "mine/unlisted");
}

#[test]
fn models_that_only_their_server_names_are_offered() {
    let server = Server::with(|request, _| {
        assert!(request.path.ends_with("/models"), "{}", request.path);
        server::json(200, &serde_json::json!({"data": [{"id": "small"}, {"id": "large"}]}))
    });
    let config = format!(
        "[providers.mine]\nbase_url = \"{}\"\n[providers.gone]\nbase_url = \"http://127.0.0.1:1/v1\"\n",
        server.url()
    );
    let test = Test::new().user_config(&config).script("text: x");
    let mut pty = Pty::chat(&test, &[]);
    pty.wait_for("/help");
    assert!(server.finish().is_empty(), "no server is asked at the start");
    pty.send("/model ");
    pty.wait_for("mine/large");
    pty.send("sm");
    pty.wait("the other", |screen| screen.contains("mine/small") && !screen.contains("mine/large"));
}
