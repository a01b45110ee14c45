//! What a check teaches about a change of a file, out of what the built binary wrote; and what becomes of it then.

use code_agent::learning::store::Store as _;
use serde_json::json;

use super::{Case, bash};
use crate::recall::{settle, store};
use crate::support::Test;

fn edit(path: &str, old: &str, new: &str) -> (&'static str, serde_json::Value) {
    ("Edit", json!({"path": path, "old_string": old, "new_string": new}))
}

fn write(path: &str, content: &str) -> (&'static str, serde_json::Value) {
    ("Write", json!({"path": path, "content": content}))
}

fn read(path: &str) -> (&'static str, serde_json::Value) {
    ("Read", json!({"path": path}))
}

const FRESH: &str = "#!/bin/bash\n\
    cmp -s api.toml gen.x || { echo 'gen.x was edited by hand: it is generated from api.toml by bin/mk' >&2; exit 1; }\n";
const MAKE: &str = "#!/bin/bash\ncp api.toml gen.x\n";
const NOTES: &str = "#!/bin/bash\n\
    [ -e notes/7.txt ] || { echo 'no release note in this branch' >&2; exit 1; }\n";
const STYLE: &str = "#!/bin/bash\n\
    grep -rn 'print(' src && { echo 'style: print is forbidden' >&2; exit 1; }; true\n";
const BLANKS: &str = "#!/bin/bash\n\
    grep -q '^ ' a.menu && { echo 'a.menu: indent with tabs' >&2; exit 1; }; true\n";

#[test]
fn a_check_teaches_what_it_wants_of_a_change() {
    let generated = Case::new().file("gen.x", "a\n").file("api.toml", "a\n");
    let generated = generated.file("bin/fresh", FRESH).file("bin/mk", MAKE);
    let by_hand = [read("gen.x"), edit("gen.x", "a", "b"), bash("bin/fresh")];
    let at_the_source = [read("api.toml"), edit("api.toml", "a", "b"), bash("bin/mk")];
    generated.teaches(
        &[by_hand.as_slice(), &at_the_source, &[bash("bin/fresh")]].concat(),
        &["Change `api.toml` and run `bin/mk`: `gen.x` is generated."],
    );
    let notes = Case::new().file("core/a.x", "a\n").file("notes/1.txt", "a\n");
    notes.file("bin/notes", NOTES).teaches(
        &[
            read("core/a.x"),
            edit("core/a.x", "a", "b"),
            bash("bin/notes"),
            write("notes/7.txt", "b\n"),
            bash("bin/notes"),
        ],
        &["Add a file to `notes/` too, like `7.txt`: `bin/notes` wants one."],
    );
    Case::new().file("bin/style", STYLE).teaches(
        &[
            write("src/a.x", "f()\nprint(1)\n"),
            bash("bin/style"),
            write("src/a.x", "f()\nlog.info(1)\n"),
            bash("bin/style"),
        ],
        &["Use `log.info`, not `print`, in `*.x` files: `bin/style` wants it."],
    );
    Case::new().file("bin/blanks", BLANKS).teaches(
        &[
            write("a.menu", "File\n    Open\n"),
            bash("bin/blanks"),
            edit("a.menu", "    Open", "\tOpen"),
            bash("bin/blanks"),
        ],
        &["Indent `*.menu` files with tabs, not with spaces: `bin/blanks` wants it."],
    );
}

#[test]
fn a_check_of_the_harness_teaches_as_a_command_does() {
    let mut case = Case::new().file("bin/style", STYLE).arg("--check").arg("bin/style");
    case.task = "Write a report.";
    case.teaches(
        &[
            write("src/a.x", "print(1)\n"),
            ("text", "done".into()),
            edit("src/a.x", "print", "log.info"),
            ("text", "done".into()),
        ],
        &["Use `log.info`, not `print`, in `*.x` files: `bin/style` wants it."],
    );
}

#[test]
fn work_that_is_mended_teaches_nothing() {
    // A test that is red, and green once the code is right.
    let suite = "#!/bin/bash\ngrep -q 'b' src/a.x || { echo 'FAILED: expected b, add it to src/a.x' >&2; exit 1; }\n";
    Case::new().file("bin/test", suite).teaches(
        &[
            write("src/a.x", "a(1)\n"),
            bash("bin/test"),
            edit("src/a.x", "a(1)", "b(1)"),
            bash("bin/test"),
        ],
        &[],
    );
    // What a program does not take is no ban.
    let run = "#!/bin/bash\ngrep -q mauve colours && { echo 'run: mauve is not allowed' >&2; exit 1; }; true\n";
    Case::new().file("bin/serve", run).teaches(
        &[
            write("colours", "colour(mauve)\n"),
            bash("bin/serve"),
            edit("colours", "mauve", "green"),
            bash("bin/serve"),
        ],
        &[],
    );
    // A file that the work lacked.
    let draw = "#!/bin/bash\n[ -e shapes/star.txt ] || { echo 'no shape: star' >&2; exit 1; }\n";
    Case::new().file("bin/draw", draw).teaches(
        &[
            write("plan.cfg", "star\n"),
            bash("bin/draw"),
            write("shapes/star.txt", "*\n"),
            bash("bin/draw"),
        ],
        &[],
    );
    // What was stale is made anew.
    let generated = Case::new().file("gen.x", "a\n").file("api.toml", "a\n");
    let stale = "#!/bin/bash\ncmp -s api.toml gen.x || { echo 'gen.x, which is generated from api.toml, is stale: run bin/mk' >&2; exit 1; }\n";
    generated.file("bin/fresh", stale).file("bin/mk", MAKE).teaches(
        &[
            read("api.toml"),
            edit("api.toml", "a", "b"),
            bash("bin/fresh"),
            bash("bin/mk"),
            bash("bin/fresh"),
        ],
        &["Run `bin/mk` before `bin/fresh` (it says: stale)."],
    );
}

#[test]
fn it_is_told_below_the_change_and_counts_by_what_the_check_says_then() {
    let mut test = Test::new().file("bin/style", STYLE);
    let run = |test: Test, calls: &[(&str, serde_json::Value)]| {
        let calls = calls.iter().map(|(name, input)| format!("call: {name} {input}\n---\n"));
        let test = test.script(&format!("{}text: done\ntimes: any\n", calls.collect::<String>()));
        test.run(&["Report what is there.", "--trust", "--allow", "Bash"]).expect_code(0);
        let ended = test.events_of("turn.finished");
        let session = ended[0]["session"].as_str().unwrap().to_owned();
        settle(&test, &(session, ended[0]["seq"].as_u64().unwrap()));
        let told: Vec<String> = test
            .events_of("memory.recalled")
            .iter()
            .map(|told| {
                format!("{} {}", told["moment"].as_str().unwrap(), told["call"].is_string())
            })
            .collect();
        let items = store(&test).items(&[]).unwrap();
        let [item] = items.as_slice() else { panic!("{items:#?}") };
        let counts = (item.wins, item.losses);
        (test, told, counts)
    };
    let check = || bash("sh bin/style");
    let (told, counts);
    (test, told, counts) = run(
        test,
        &[write("src/a.x", "print(1)\n"), check(), edit("src/a.x", "print", "log.info"), check()],
    );
    assert_eq!((told, counts), (vec![], (1, 0)), "learnt");
    // Nothing of it is put in: nothing is told.
    let (told, counts);
    (test, told, counts) = run(test, &[write("src/b.x", "log.info(2)\n"), check()]);
    assert_eq!((told, counts), (vec![], (1, 0)));
    // Told below the change, and heard.
    let (told, counts);
    (test, told, counts) =
        run(test, &[write("src/c.x", "print(3)\n"), edit("src/c.x", "print", "log.info"), check()]);
    assert_eq!((told, counts), (vec!["call true".to_owned()], (2, 0)));
    // Not heard: it is told once more where the check has failed.
    let (told, counts);
    (_, told, counts) = run(test, &[write("src/d.x", "print(4)\n"), check()]);
    assert_eq!((told, counts), (vec!["call true".to_owned(), "failure true".to_owned()], (2, 1)));
}
