//! Tool calls that require the user's approval.

use std::time::Duration;

use crate::support::{Pty, Test};

const EDIT: &str = "call: Read {\"path\": \"a.txt\"}\n---\n\
    call: Edit {\"path\": \"a.txt\", \"old_string\": \"one\", \"new_string\": \"two\"}\n---\n";

fn asked(script: &str, rest: &str) -> (Test, Pty) {
    let test = Test::new().file("a.txt", "one\nmore\n").script(&format!("{script}{rest}"));
    let mut pty = Pty::chat(&test, &[]);
    pty.wait_for("/help");
    pty.say("please");
    (test, pty)
}

#[test]
fn diff_is_shown_and_yes_applies_the_change() {
    let (test, mut pty) = asked(EDIT, "text: changed");
    pty.wait_for_question();
    let screen = pty.screen();
    for part in [
        "Allow Edit a.txt?  (mode ask)",
        "    1 - one",
        "    1 + two",
        "▸ 1 y  yes",
        "  2 n  no",
        "  3 i  no, and say what instead",
        "  4 a  always this file, this session",
        "  5    always others like it",
        "  6    yes, and select mode auto-edit",
    ] {
        assert!(screen.contains(part), "{part}\n{screen}");
    }
    assert_eq!(test.read("a.txt"), "one\nmore\n", "nothing is changed before the answer");
    pty.send("y");
    pty.wait_for("changed");
    assert_eq!(test.read("a.txt"), "two\nmore\n");
    let all = pty.all();
    assert!(all.contains("✓ Edit a.txt  +1 −1  (allowed by you)"), "{all}");
    for (part, n) in [("1 + two", 1), ("Edit a.txt", 1), ("no, and say", 0)] {
        assert_eq!(all.matches(part).count(), n, "{part}\n{all}");
    }
}

/// The command stands once in the question, and once after the answer.
#[test]
fn question_about_a_command_is_one_block() {
    let lines: String = (1..=3).map(|n| format!("touch made{n}\\n")).collect();
    let script = format!("call: Bash {{\"command\": \"{lines}\"}}\n---\n");
    let (test, mut pty) = asked(&script, "text: end");
    pty.wait_for_question();
    let block = "Run these 3 lines?  (mode ask)\n    touch made1\n    touch made2\n    touch made3\n  ▸ 1 y  yes";
    assert!(pty.screen().contains(block), "{}", pty.screen());
    assert_eq!(pty.all().matches("touch made1").count(), 1, "{}", pty.all());
    let is_marked = |row: u16, name: &str| {
        pty.with_screen(|screen| {
            let columns = 0..screen.size().1;
            let row: Vec<_> = columns.filter_map(|at| screen.cell(row, at)).collect();
            let text: String = row.iter().map(|cell| cell.contents().to_owned()).collect();
            text.contains(name) && row.iter().any(|cell| cell.inverse())
        })
    };
    let is_somewhere = |name: &str| (0..100).any(|row| is_marked(row, name));
    assert!(is_somewhere("yes") && !is_somewhere("instead"), "{}", pty.screen());
    // 5 is never offered here; 9 is no choice.
    pty.send("5");
    pty.send("9");
    pty.send("y");
    pty.wait_for("end");
    let all = pty.all();
    assert!(all.contains("✓ Bash touch made1 …  (allowed by you)"), "{all}");
    assert!(!all.contains("Run these") && !all.contains("› 5"), "{all}");
    assert!(test.root().join("made3").exists());
}

#[test]
fn danger_is_listed_and_no_is_preselected() {
    let script = "call: Bash {\"command\": \"rm -rf shop\"}\n---\n\
                  call: Bash {\"command\": \"git push --force origin main\"}\n---\n";
    let mut test = Test::new().script(&format!("{script}text: end"));
    for n in 0..22 {
        test = test.file(&format!("shop/part{}/{n}.txt", n % 3), "x\n");
    }
    let mut pty = Pty::chat(&test, &[]);
    pty.wait_for("/help");
    pty.say("please");
    pty.wait_for_question();
    for part in ["  ! deletes shop/ (22 files)\n", "  ▸ 2 n  no\n"] {
        assert!(pty.screen().contains(part), "{part}\n{}", pty.screen());
    }
    let asked = &test.events_of("permission.requested")[0];
    assert_eq!(asked["dangers"], serde_json::json!(["deletes shop/ (22 files)"]));
    pty.send("\r");
    pty.wait_for("! overwrites origin/main\n");
    pty.wait_for_question();
    assert!(pty.screen().contains("▸ 2 n  no"), "{}", pty.screen());
    pty.send("\r");
    pty.wait_for("end");
    assert!(test.root().join("shop/part0/0.txt").exists());
    let decided = test.events_of("permission.decided");
    assert!(decided.iter().all(|event| event["ruling"] == "reject"), "{decided:?}");
}

/// A Write of 121 lines, and one whose second line is 20 KB long.
fn long_changes() -> [(String, &'static str); 2] {
    let write = |content: &str| {
        let input = serde_json::json!({"path": "b.py", "content": content});
        format!("call: Write {input}\n---\n")
    };
    let lines: String = (1..=120).map(|n| format!("line_{n} = {n}\n")).collect();
    [
        (write(&format!("{lines}os.system('curl x | sh')\n")), "  121 + os.system('curl x | sh')"),
        (write(&format!("a = 1\nb = '{}'\nlast = 3\n", "x".repeat(20_000))), "    3 + last = 3"),
    ]
}

#[test]
fn question_shows_the_whole_change() {
    for (script, last) in long_changes() {
        let (test, mut pty) = asked(&script, "text: written");
        pty.wait_for_question();
        let all = pty.all();
        assert!(all.contains("    1 + "), "{all}");
        assert!(all.contains(last), "{last}\n{all}");
        assert!(!all.contains("more lines"), "{all}");
        // The viewer shows the same.
        pty.send("\x14");
        pty.wait_for(last.trim());
        pty.send("\x1b");
        pty.wait_for_question();
        pty.send("y");
        pty.wait_for("written");
        assert!(test.root().join("b.py").exists());
    }
}

#[test]
fn question_names_the_file_behind_a_link() {
    let write = "call: Read {\"path\": \"notes.md\"}\n---\n\
                 call: Edit {\"path\": \"notes.md\", \"old_string\": \"one\", \"new_string\": \"two\"}\n---\n";
    let test = Test::new().file("calc.py", "one\n").script(&format!("{write}text: changed"));
    std::os::unix::fs::symlink("calc.py", test.root().join("notes.md")).unwrap();
    let mut pty = Pty::chat(&test, &[]);
    pty.wait_for("/help");
    pty.say("please");
    pty.wait_for_question();
    assert!(pty.screen().contains("the path is a link to calc.py"), "{}", pty.screen());
    pty.send("n");
    pty.wait_for("changed");
}

#[test]
fn always_allow_applies_to_the_session_and_only_that_rule() {
    let script = "call: Bash {\"command\": \"touch x1 y1\"}\n---\ncall: Bash {\"command\": \"touch x1 x2\"}\n---\n\
                  call: Bash {\"command\": \"mkdir d\"}\n---\n";
    let (test, mut pty) = asked(script, "text: end");
    pty.wait_for_question();
    assert!(pty.screen().contains("4 a  always this command, this session"));
    assert!(pty.screen().contains("5    always \"touch x1 …\", this session"));
    pty.send("5");
    pty.wait_for("✓ Bash touch x1 x2");
    pty.wait_for("\n    mkdir d\n");
    pty.wait_for_question();
    pty.send("n");
    pty.wait_for("end");
    assert!(test.root().join("x2").exists() && !test.root().join("d").exists());
    let decided = test.events_of("permission.decided");
    let rulings: Vec<&str> =
        decided.iter().map(|event| event["ruling"].as_str().unwrap()).collect();
    assert_eq!(rulings, ["allow", "allow", "reject"]);
}

#[test]
fn destructive_command_is_allowed_for_the_session_only_as_it_is() {
    let script = "call: Bash {\"command\": \"rm -rf x1 y1\"}\n---\n\
                  call: Bash {\"command\": \"rm -rf x1 a.txt\"}\n---\n";
    let (test, mut pty) = asked(script, "text: end");
    pty.wait_for_question();
    assert!(pty.screen().contains("4 a  always this command, this session"));
    assert!(!pty.screen().contains("rm -rf x1 …"), "{}", pty.screen());
    pty.send("4");
    pty.wait_for("    rm -rf x1 a.txt\n  ! deletes a.txt\n");
    pty.wait_for_question();
    pty.send("n");
    pty.wait_for("end");
    assert!(test.root().join("a.txt").exists());
}

#[test]
fn arrows_and_enter_choose_a_directory_for_the_session() {
    let write =
        |path: &str| format!("call: Write {{\"path\": \"{path}\", \"content\": \"x\"}}\n---\n");
    let (test, mut pty) =
        asked(&format!("{}{}{}", write("d/a"), write("d/e/b"), write("c")), "text: end");
    pty.wait_for_question();
    for _ in 0..4 {
        pty.send("\x1b[B");
    }
    pty.wait_for("▸ 5    always \"d/**\", this session");
    pty.send("\r");
    pty.wait_for("Allow Write c?");
    assert!(test.root().join("d/e/b").exists() && !test.root().join("c").exists());
    pty.wait_for_question();
    pty.send("\x1b[A");
    pty.wait_for("▸ 6    yes, and select mode auto-edit");
    // Past 5, which is not offered here.
    for _ in 0..3 {
        pty.send("\x1b[A");
    }
    pty.wait_for("▸ 2 n");
    pty.send("\r");
    pty.wait_for("end");
    assert!(!test.root().join("c").exists());
}

#[test]
fn another_mode_answers_the_question() {
    // Shift-Tab selects auto-edit, which allows the change.
    let (test, mut pty) = asked(EDIT, "text: changed");
    pty.wait_for_question();
    pty.send("\x1b[Z");
    pty.wait_for("changed");
    assert_eq!(test.read("a.txt"), "two\nmore\n");
    // So does the last "yes"; the next change is not asked about.
    let (test, mut pty) =
        asked(EDIT, "call: Write {\"path\": \"b\", \"content\": \"x\"}\n---\ntext: changed");
    pty.wait_for_question();
    pty.send("6");
    pty.wait_for("changed");
    assert!(test.root().join("b").exists());
    assert_eq!(test.events_of("permission.requested").len(), 1);
    assert_eq!(test.events_of("mode.changed").len(), 1);
    // Mode read-only refuses it.
    let (test, mut pty) = asked(EDIT, "text: nothing changed");
    pty.wait_for_question();
    pty.send("x\x7f");
    pty.send("/mode read-only\r");
    pty.wait_for("nothing changed");
    assert_eq!(test.read("a.txt"), "one\nmore\n");
}

#[test]
fn mode_that_is_only_passed_does_not_answer_the_question() {
    // From ask, plan is behind auto-edit, which would allow the change.
    let (test, mut pty) = asked(EDIT, "text: 1. Change it");
    pty.wait_for_question();
    pty.send("\x1b[Z");
    pty.wait_for("auto-edit");
    pty.send("\x1b[Z");
    pty.wait_for("Carry out this plan?");
    assert_eq!(test.read("a.txt"), "one\nmore\n");
    let modes = test.events_of("mode.changed");
    assert_eq!(modes.iter().map(|event| &event["mode"]).collect::<Vec<_>>(), ["plan"]);
}

#[test]
fn rejection_with_a_reason_is_sent_to_the_model() {
    let (test, mut pty) =
        asked(EDIT, "expect: APPROVAL_REJECTED.*write three instead\ntext: all right");
    pty.wait_for_question();
    pty.send("i");
    pty.wait_for("no ›");
    pty.send("write three instead");
    pty.wait_for("three instead");
    pty.send("\r");
    pty.wait_for("all right");
    assert_eq!(test.read("a.txt"), "one\nmore\n");
    // It is a message of the user, and shown as such only.
    assert_eq!(pty.all().matches("write three instead").count(), 1, "{}", pty.all());
}

#[test]
fn question_can_be_answered_after_clearing_the_input() {
    let (test, mut pty) = asked(EDIT, "text: changed");
    pty.wait_for_question();
    pty.send("hmm");
    pty.wait_for("Tab answers it (y yes, n no, …); your text is kept");
    pty.send("\x15");
    pty.wait_for("y  yes");
    // The question is not new, so the reason is another one.
    pty.send("y");
    pty.wait_for("this key came right after your message was deleted: press y again");
    assert_eq!(test.read("a.txt"), "one\nmore\n");
    pty.wait_for_question();
    pty.send("i");
    pty.wait_for("Enter rejects with this text · Esc goes back");
    // What is written there is kept.
    pty.send("not this");
    pty.send("\x1b");
    pty.wait_for("y  yes");
    pty.wait_for_question();
    pty.send("3");
    pty.wait_for("no › not this");
    pty.send("\x1b");
    pty.wait_for("y  yes");
    pty.wait_for_question();
    pty.send("y");
    pty.wait_for("✓ Edit a.txt");
    assert_eq!(test.read("a.txt"), "two\nmore\n");
}

/// 1 is yes, 2 is no, 3 asks for words; 4, 5 and 6 allow more.
#[test]
fn number_has_the_same_meaning_at_every_question() {
    for (call, first_grant) in [
        (
            "call: Edit {\"path\": \"a.txt\", \"old_string\": \"one\", \"new_string\": \"two\"}\n---\n",
            "always this file",
        ),
        ("call: Bash {\"command\": \"touch a b\"}\n---\n", "always this command"),
        ("call: Bash {\"command\": \"git push\"}\n---\n", "always this"),
    ] {
        let script = format!("call: Read {{\"path\": \"a.txt\"}}\n---\n{call}");
        let (test, mut pty) = asked(&script, "expect: APPROVAL_REJECTED\ntext: end");
        pty.wait_for_question();
        let screen = pty.screen();
        for part in ["1 y  yes\n", "2 n  no\n", "3 i  no, and say what instead"] {
            assert!(screen.contains(part), "{part}\n{screen}");
        }
        let fourth = screen.lines().find(|line| line.trim_start().starts_with("4 "));
        let fourth = fourth.unwrap_or_default();
        assert!(fourth.contains(first_grant) && !fourth.contains("no"), "{screen}");
        pty.send("2");
        pty.wait_for("end");
        assert_eq!(test.events_of("permission.decided").last().unwrap()["ruling"], "reject");
    }
}

#[test]
fn keys_typed_before_the_question_are_not_an_answer() {
    let script = "pause: 700ms\ncall: Bash {\"command\": \"touch done\"}\n---\n";
    let (test, mut pty) = asked(script, "text: end");
    // The user keeps typing while the question appears, including y, a and Enter.
    for _ in 0..14 {
        pty.send("ya ");
        std::thread::sleep(Duration::from_millis(70));
    }
    pty.wait_for("\n    touch done\n");
    assert!(!test.root().join("done").exists());
    // The typed text remains a message. The question waits for its own key.
    pty.wait_for("› ya ya ya");
    pty.send("y");
    pty.wait_for("y");
    std::thread::sleep(Duration::from_millis(100));
    assert!(!test.root().join("done").exists(), "it went into the message");
    pty.send("\t");
    pty.wait_for_question();
    pty.send("y");
    pty.wait_for("end");
    assert!(test.root().join("done").exists());
}

#[test]
fn key_right_after_the_question_appears_is_not_an_answer() {
    let (test, mut pty) = asked("call: Bash {\"command\": \"touch done\"}\n---\n", "text: end");
    pty.wait_for("no, and say what instead");
    pty.send("y");
    pty.wait_for("the question had just appeared: press y again");
    assert!(!test.root().join("done").exists());
    // A paste is not an answer either, whatever it contains.
    pty.send("\x1b[200~y\x1b[201~");
    pty.wait_for("› y");
    assert!(!test.root().join("done").exists());
}

#[test]
fn first_letter_of_a_typed_word_is_not_an_answer() {
    let (test, mut pty) = asked("call: Bash {\"command\": \"touch done\"}\n---\n", "text: end");
    pty.wait_for_question();
    // At typing speed, so that each letter is read separately.
    for letter in ["a", "l", "s", "o"] {
        pty.send(letter);
        std::thread::sleep(Duration::from_millis(60));
    }
    pty.wait_for("› also");
    assert!(!test.root().join("done").exists());
    pty.send("\x15\t");
    pty.wait_for_question();
    pty.send("y\r");
    pty.wait_for("end");
    assert!(test.root().join("done").exists());
}

#[test]
fn esc_at_a_question_stops_the_turn() {
    let (test, mut pty) = asked("call: Bash {\"command\": \"touch done\"}\n---\n", "text: end");
    pty.wait_for_question();
    pty.send("\x1b");
    pty.wait_for("stopped by you");
    assert!(!test.root().join("done").exists());
    pty.say("go on");
    pty.wait_for("end");
}

#[test]
fn impossible_change_needs_no_approval() {
    let script =
        "call: Edit {\"path\": \"a.txt\", \"old_string\": \"one\", \"new_string\": \"two\"}\n---\n";
    let (_test, pty) = asked(script, "expect: NOT_READ\ntext: end");
    pty.wait_for("end");
    assert!(!pty.all().contains("Allow"), "{}", pty.all());
    assert!(pty.screen().contains("✗ Edit a.txt  File not read"), "{}", pty.screen());
}

#[test]
fn reason_for_the_question_is_shown() {
    let (_test, pty) = asked("call: Bash {\"command\": \"git push\"}\n---\n", "text: end");
    pty.wait_for_question();
    let screen = pty.screen();
    assert!(screen.contains("needs the network") && screen.contains("(network)"), "{screen}");
}

#[test]
#[ignore = "slow"]
fn approved_call_does_not_follow_a_swapped_directory() {
    let big = |word: &str| format!("{word}\n").repeat(20_000);
    let edit = |path: &str| {
        format!("\"path\": \"{path}\", \"old_string\": \"one\", \"new_string\": \"two\"")
    };
    let calls = [
        ("Write", "\"path\": \"open/new.txt\", \"content\": \"x\"".to_owned()),
        ("Edit", edit("open/a.txt")),
        ("MultiEdit", "\"path\": \"open/b.txt\", \"edits\": [{\"old_string\": \"one\", \"new_string\": \"two\"}]".to_owned()),
        ("Read", "\"path\": \"open/big.txt\", \"limit\": 3".to_owned()),
        ("Bash", "\"command\": \"touch made\", \"directory\": \"open\"".to_owned()),
    ];
    // Both have been read: they differ only in location.
    let mut script: String = ["open/a.txt", "closed/a.txt", "open/b.txt", "closed/b.txt"]
        .map(|path| format!("call: Read {{\"path\": \"{path}\"}}\n---\n"))
        .concat();
    for (tool, input) in &calls {
        script.push_str(&format!(
            "call: {tool} {{{input}}}\n---\nexpect: ACCESS_DENIED\ntext: {tool} went nowhere\n---\n"
        ));
    }
    for boxed in ["true", "false"] {
        let mut test = Test::new()
            .user_config("[permissions]\nask = [\"Read(open/big.txt)\"]\n")
            .script(&script);
        for (folder, word) in [("open", "free"), ("closed", "not for you")] {
            test = test
                .file(&format!("{folder}/a.txt"), "one\n")
                .file(&format!("{folder}/b.txt"), "one\n")
                .file(&format!("{folder}/big.txt"), big(word));
        }
        let mut pty = Pty::chat(&test, &["--set", &format!("sandbox.enabled={boxed}")]);
        pty.wait_for("/help");
        let [open, away] = ["open", "away"].map(|name| test.root().join(name));
        for (tool, _) in &calls {
            pty.say("please");
            let heading =
                if *tool == "Bash" { "Run this command?".into() } else { format!("Allow {tool} ") };
            pty.wait_for(&heading);
            pty.wait_for_question();
            std::fs::rename(&open, &away).unwrap();
            std::os::unix::fs::symlink("closed", &open).unwrap();
            pty.send("y");
            pty.wait_for(&format!("{tool} went nowhere"));
            std::fs::remove_file(&open).unwrap();
            std::fs::rename(&away, &open).unwrap();
        }
        for folder in ["open", "closed"] {
            let names = std::fs::read_dir(test.root().join(folder)).unwrap().count();
            assert_eq!(names, 3, "something was made in {folder}");
            for name in ["a.txt", "b.txt"] {
                assert_eq!(test.read(&format!("{folder}/{name}")), "one\n");
            }
        }
        for event in test.events_of("tool.finished") {
            assert!(!event.to_string().contains("not for you"), "{event}");
        }
    }
}

#[test]
fn question_says_where_a_command_runs_and_an_answer_holds_there() {
    let test = Test::new();
    for folder in ["", "src/evil/"] {
        test.write(&format!("{folder}build.sh"), "echo >> count\n");
    }
    let root = test.root().canonicalize().unwrap().display().to_string();
    let call = |line: &str, directory: &str| {
        let input = serde_json::json!({"command": line, "directory": directory});
        format!("call: Bash {input}\n---\n")
    };
    let calls = [
        call("sh build.sh", "."),
        call(&format!("cd {root} && sh build.sh"), "."),
        call("cd src/evil && sh build.sh", "."),
        call("sh build.sh", "src/evil"),
    ];
    let test = test.script(&format!("{}text: built", calls.concat()));
    let mut pty = Pty::chat(&test, &[]);
    pty.wait_for("/help");
    pty.say("please");
    pty.wait_for_question();
    pty.send("a");
    // The second is the same program in the same folder; the third and the fourth are another one.
    pty.wait_for("    cd src/evil && sh build.sh\n");
    pty.wait_for_question();
    pty.send("y");
    pty.wait_for("    sh build.sh\n  in src/evil\n");
    pty.wait_for_question();
    pty.send("n");
    pty.wait_for("built");
    pty.wait_for("✗ Bash (in src/evil) sh build.sh");
    assert_eq!(test.read("count"), "\n\n");
    assert_eq!(test.read("src/evil/count"), "\n");
    pty.say("/permissions");
    pty.wait_for("allow Bash(sh build.sh) in .");
}

#[test]
fn question_shows_the_whole_directory_and_the_background() {
    let folder = format!("{}/{}", "a".repeat(90), "b".repeat(90));
    let input = serde_json::json!({"command": "rm -rf *", "directory": folder, "background": true});
    let (_test, mut pty) = {
        let test = Test::new()
            .file(&format!("{folder}/x"), "")
            .script(&format!("call: Bash {input}\n---\ntext: left"));
        let mut pty = Pty::chat(&test, &[]);
        pty.wait_for("/help");
        pty.say("please");
        (test, pty)
    };
    pty.wait_for_question();
    let whole: String = pty.all().split_whitespace().collect();
    assert!(whole.contains(&format!("in{folder},inthebackground")), "{}", pty.all());
    pty.send("n");
    pty.wait_for("left");
}
