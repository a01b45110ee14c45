//! What a check teaches about a change, without a log behind it; and what it does not.

use serde_json::{Value, json};

use super::super::super::item::Item;
use super::super::super::relevance::Subjects;
use super::super::extract;
use super::super::testing::{attempt, trace};
use crate::protocol::envelope::ErrorCode;
use crate::protocol::message::ToolCall;
use crate::protocol::recall::FailedAs;

/// A check said no, and then it said yes.
struct Case {
    task: &'static str,
    changed: Vec<Value>,
    bad: &'static str,
    said: &'static str,
    between: Vec<Value>,
    good: &'static str,
}

fn edit(path: &str, old: &str, new: &str) -> Value {
    call("Edit", &json!({"path": path, "old_string": old, "new_string": new}))
}

fn write(path: &str, content: &str) -> Value {
    let mut call = call("Write", &json!({"path": path, "content": content}));
    call["created"] = true.into();
    call
}

fn bash(command: &str) -> Value {
    call("Bash", &json!({"command": command}))
}

fn call(tool: &str, input: &Value) -> Value {
    json!({"tool": tool, "input": input, "acts": true})
}

impl Case {
    fn items(&self) -> Vec<Item> {
        let mut bad = attempt(1, self.bad, Some(self.said), 1);
        bad.context.insert("changed".to_owned(), self.changed.clone().into());
        let mut good = attempt(2, self.good, None, 0);
        good.context.insert("between".to_owned(), self.between.clone().into());
        extract(&trace(vec![bad, good]), self.task).items
    }

    /// One lesson; it fits the failure that it came from.
    #[track_caller]
    fn teaches(&self, text: &str) -> Item {
        let items = self.items();
        let [item] = items.as_slice() else { panic!("{text}: {items:#?}") };
        assert_eq!(item.text, text);
        let failure = item.failure.as_ref().expect("a pattern");
        assert_eq!((failure.when.code, &failure.when.signature), (None, &None));
        assert_eq!(failure.fix, None, "it is told, never applied");
        let bad = made(&bash(self.bad));
        let evidence = format!("`{}` exited with status 1\n{}", self.bad, self.said);
        let failed =
            |code| FailedAs { call: &bad, code, signature: "COMMAND_FAILED", evidence: &evidence };
        assert!(failure.fits(&failed(ErrorCode::CommandFailed)), "{item:#?}");
        assert!(!failure.fits(&failed(ErrorCode::Timeout)), "{item:#?}");
        item.clone()
    }

    #[track_caller]
    fn teaches_nothing(&self) {
        let items = self.items();
        let of_changes = |item: &&Item| {
            item.failure.as_ref().is_some_and(|failure| failure.when.leads_to.is_some())
        };
        let told: Vec<&Item> = items.iter().filter(of_changes).collect();
        assert!(told.is_empty(), "{told:#?}");
    }
}

fn made(call: &Value) -> ToolCall {
    ToolCall {
        id: String::new(),
        name: call["tool"].as_str().unwrap_or_default().to_owned(),
        arguments: call["input"].to_string(),
    }
}

/// Before which of these calls the model is warned of it.
#[track_caller]
fn warns(item: &Item, of: &[Value], not_of: &[Value]) {
    let failure = item.failure.as_ref().expect("a pattern");
    for call in of {
        assert!(failure.warns_of(&made(call)), "{}: {call}", item.text);
    }
    for call in not_of {
        assert!(!failure.warns_of(&made(call)), "{}: {call}", item.text);
    }
}

/// Which of these tasks are told of it at their start.
#[track_caller]
fn is_told(item: &Item, tasks: &[&str], others: &[&str]) {
    let subjects = Subjects::of(std::slice::from_ref(item));
    let fits = |task: &str| {
        let task = subjects.read(task);
        subjects.iter().any(|subject| task.fits(subject).is_some())
    };
    for task in tasks {
        assert!(fits(task), "{}: {task}", item.text);
    }
    for task in others {
        assert!(!fits(task), "{}: {task}", item.text);
    }
}

#[test]
fn a_task_is_told_that_will_change_such_a_file() {
    let nothing = ["Why is the build slow?", "Say hello.", "Run the tests.", "List the targets."];
    let of = |case: Case, tasks: &[&str], others: &[&str]| {
        let items = case.items();
        is_told(&items[0], tasks, others);
        is_told(&items[0], &[], &nothing);
    };
    of(generated(), &["Add a field to web/gen/api.ts."], &["Add a field to defs/api.toml."]);
    of(companion(), &["Fix the bug in app/cache.py."], &["Fix the bug in web/cache.ts."]);
    of(banned(), &["Add a job in src/jobs/x.ts."], &["Add a job in src/jobs/x.py."]);
    of(indented(), &["Add a target to the Makefile.", "Change sub/Makefile."], &["Add a target."]);
}

fn generated() -> Case {
    Case {
        task: "The client has to know retries.",
        changed: vec![edit("web/gen/api.ts", "a", "b")],
        bad: "bin/fresh",
        said: "web/gen/api.ts: is written by bin/mkapi from defs/api.toml, do not edit it\n\
            error: generated files were changed by hand",
        between: vec![edit("defs/api.toml", "x", "y"), bash("bin/mkapi web")],
        good: "bin/fresh",
    }
}

#[test]
fn a_generated_file_is_changed_where_it_comes_from() {
    let text = "Change `defs/api.toml` and run `bin/mkapi web`: `web/gen/api.ts` is generated.";
    let item = generated().teaches(text);
    warns(
        &item,
        &[
            edit("web/gen/api.ts", "c", "d"),
            edit("./web/gen/api.ts", "c", "d"),
            call("Read", &json!({"path": "web/gen/api.ts"})),
        ],
        &[edit("web/gen/other.ts", "c", "d"), edit("defs/api.toml", "c", "d"), bash("bin/fresh")],
    );
    let in_one_line = Case {
        between: vec![edit("defs/api.toml", "x", "y")],
        good: "bin/mkapi web && bin/fresh",
        ..generated()
    };
    in_one_line.teaches(text);
    let without_a_command = Case {
        said: "check: web/gen/api.ts is generated from defs/api.toml",
        between: vec![edit("defs/api.toml", "x", "y")],
        ..generated()
    };
    without_a_command.teaches("Change `defs/api.toml`, not `web/gen/api.ts`, which is generated.");
    let without_a_source = Case {
        said: "api.ts was generated: do not edit it by hand, run `make api`",
        between: vec![edit("web/gen/api.ts", "b", "a"), bash("make api")],
        ..generated()
    };
    without_a_source.teaches(
        "Run `make api` for `web/gen/api.ts`, which is generated, and leave it as that writes it.",
    );
    let run_alone = Case {
        said: "api.ts was generated: do not edit it by hand, run `make api`",
        between: vec![bash("make api")],
        ..generated()
    };
    run_alone.teaches(
        "Run `make api` for `web/gen/api.ts`, which is generated, and leave it as that writes it.",
    );
    let chinese = Case {
        said: "web/gen/api.ts 由 defs/api.toml 生成，请勿手动修改；请改 defs/api.toml 后运行 bin/mkapi",
        ..generated()
    };
    chinese.teaches(text);
    let at_a_guard = Case {
        said: "web/gen/api.ts is generated from defs/api.toml: run bin/mkapi",
        between: vec![edit("defs/api.toml", "x", "y"), bash("bin/mkapi --force")],
        ..generated()
    };
    let text = &at_a_guard.items()[0].text;
    assert!(text.ends_with("it may get past a guard."), "{text}");
}

#[test]
fn what_is_made_anew_from_what_was_changed_is_no_mistake() {
    for case in [
        // The source was changed, and what is made of it was stale.
        Case {
            changed: vec![edit("db/app.prisma", "a", "b")],
            said: "the generated client is out of date with db/app.prisma, run `bin/mkapi`",
            between: vec![edit("src/use.ts", "a", "b"), bash("bin/mkapi")],
            ..generated()
        },
        Case {
            changed: vec![edit("defs/api.toml", "a", "b")],
            said: "web/gen/api.ts is generated: do not edit it; edit defs/api.toml and run bin/mkapi",
            between: vec![edit("defs/api.toml", "a", "b"), bash("bin/mkapi")],
            ..generated()
        },
        // The report is generated, and not the file.
        Case {
            said: "web/gen/api.ts: unused name b\nreport generated in 2 s",
            between: vec![edit("web/gen/use.ts", "x", "y")],
            ..generated()
        },
        // It was not changed by us.
        Case { changed: vec![edit("src/a.ts", "a", "b")], ..generated() },
        Case { changed: vec![], ..generated() },
        // What helped was something else.
        Case {
            between: vec![edit("README.md", "x", "y"), edit("src/b.ts", "x", "y")],
            ..generated()
        },
        // Not said to be generated.
        Case { said: "web/gen/api.ts differs from defs/api.toml: run bin/mkapi", ..generated() },
        // Work was undone.
        Case {
            said: "web/gen/api.ts is generated, do not edit it: git checkout web/gen/api.ts",
            between: vec![bash("git checkout web/gen/api.ts")],
            ..generated()
        },
        // Two more files were complained of, and one of them was changed.
        Case {
            said: "web/gen/api.ts: unused name b\nweb/gen/use.ts: unused name x\nreport generated in 2 s",
            between: vec![edit("web/gen/use.ts", "x", "y")],
            ..generated()
        },
        // Nobody knows which of them it is made from.
        Case {
            said: "api.ts was generated: do not edit it by hand, run bin/mkapi",
            between: vec![edit("a.toml", "x", "y"), edit("b.toml", "x", "y"), bash("bin/mkapi")],
            ..generated()
        },
        // The code is wrong.
        Case {
            said: "web/gen/api.ts is generated from defs/api.toml by bin/mkapi\nassert left == right",
            ..generated()
        },
    ] {
        case.teaches_nothing();
    }
}

fn companion() -> Case {
    Case {
        task: "Let the cache keep more.",
        changed: vec![edit("app/cache.py", "a", "b"), edit("app/core/lru.py", "a", "b")],
        bad: "bin/notes check",
        said: "looked at 2 commits\nno changelog entry in this branch",
        between: vec![bash("ls news"), write("news/77.feature.md", "x\n")],
        good: "bin/notes check",
    }
}

#[test]
fn a_file_that_has_to_come_along_is_told_of() {
    let text = "Add a file to `news/` too, like `77.feature.md`: `bin/notes` wants one.";
    let item = companion().teaches(text);
    warns(
        &item,
        &[edit("app/other.py", "c", "d"), write("app/new/x.py", "x")],
        &[
            edit("news/1.md", "c", "d"),
            edit("docs/a.md", "c", "d"),
            call("Read", &json!({"path": "app/other.py"})),
        ],
    );
    let by_a_hook = Case {
        bad: "git commit -m 'cache'",
        said: "pre-commit: 缺少变更说明",
        good: "git add news && git commit -m 'cache'",
        ..companion()
    };
    by_a_hook.teaches("Add a file to `news/` too, like `77.feature.md`: `git commit` wants one.");
    let of_one_kind = Case {
        changed: vec![edit("app/cache.py", "a", "b"), edit("lib/lru.py", "a", "b")],
        ..companion()
    };
    let item = of_one_kind.teaches(text);
    warns(&item, &[edit("x/y.py", "a", "b")], &[edit("x/y.ts", "a", "b")]);
    let by_its_folder = Case {
        said: "model Cache has no migration",
        between: vec![write("app/migrations/0007_cache.py", "x\n")],
        bad: "tools/check_models",
        good: "tools/check_models",
        ..companion()
    };
    by_its_folder.teaches(
        "Add a file to `app/migrations/` too, like `0007_cache.py`: `tools/check_models` wants one.",
    );
}

#[test]
fn a_file_that_comes_along_warns_of_no_other_than_those_it_goes_with() {
    let beside = Case {
        said: "model Cache has no migration",
        between: vec![write("app/migrations/0007_cache.py", "x\n")],
        bad: "tools/check_models",
        good: "tools/check_models",
        ..companion()
    };
    // The very file that is wanted is no reason to ask for it.
    let item = &beside.items()[0];
    warns(
        item,
        &[edit("app/other.py", "c", "d")],
        &[write("app/migrations/0008_lru.py", "x\n"), edit("lib/a.py", "c", "d")],
    );
    for case in [
        // Neither a folder nor a kind of file is left to know such a change by.
        Case { changed: vec![], ..companion() },
        Case {
            changed: vec![edit("app/cache.py", "a", "b"), edit("web/cache.ts", "a", "b")],
            ..companion()
        },
        Case { changed: vec![edit("/etc/app/conf", "a", "b")], ..companion() },
        Case { changed: vec![edit("news/drafts/a.md", "a", "b")], ..companion() },
        // What it would say is no name of a file.
        Case { between: vec![write("news/run `sh x`.md", "x\n")], ..companion() },
        Case { between: vec![write("/srv/news/7.md", "x\n")], ..companion() },
        Case { between: vec![write("../news/7.md", "x\n")], ..companion() },
    ] {
        case.teaches_nothing();
    }
}

#[test]
fn a_file_that_the_work_itself_lacked_is_no_convention() {
    let news = || write("news/77.feature.md", "x\n");
    for case in [
        // A module that is imported.
        Case {
            bad: "python3 app/main.py",
            said: "ModuleNotFoundError: No module named 'app.migration'",
            between: vec![write("app/migration/__init__.py", "x\n")],
            good: "python3 app/main.py",
            ..companion()
        },
        Case {
            bad: "npm run build",
            said: "Cannot find module './news/feed' required by src/a.ts",
            between: vec![write("src/news/feed.ts", "x\n")],
            good: "npm run build",
            ..companion()
        },
        // The output names the very file.
        Case { said: "no changelog entry: news/77.feature.md is missing", ..companion() },
        Case {
            said: "missing fixture: users",
            between: vec![write("tests/fixtures/users.json", "{}")],
            ..companion()
        },
        // Tests that were to be written.
        Case {
            bad: "npx jest cache",
            said: "No tests found, exiting with code 1",
            between: vec![write("tests/cache.test.ts", "x\n")],
            good: "npx jest cache",
            ..companion()
        },
        // The task asks for it.
        Case { task: "Add a note on the cache to news.", ..companion() },
        // More was changed than that.
        Case { between: vec![news(), edit("app/cache.py", "b", "c")], ..companion() },
        Case { between: vec![news(), bash("bin/notes init")], ..companion() },
        // Not new.
        Case { between: vec![edit("news/77.feature.md", "a", "b")], ..companion() },
        // Nothing is said to be lacking.
        Case { said: "changelog: 2 entries are too long", ..companion() },
        // Not what was changed, as far as the words go.
        Case { said: "no licence is given", ..companion() },
        // It makes an exception.
        Case {
            said: "no changelog entry in this branch",
            between: vec![write("skip/77.txt", "x\n")],
            ..companion()
        },
        // What is piped on has not said yes.
        Case { good: "bin/notes check | cat", ..companion() },
        Case { good: "bin/notes check || true", ..companion() },
        // It was not run at all.
        Case { good: "true || bin/notes check", ..companion() },
        Case { good: "cd . || bin/notes check && true", ..companion() },
        // Whether it said so is lost further on in the line.
        Case { good: "bin/notes check && echo ok || echo bad", ..companion() },
        Case { good: "bin/notes check && echo ok; echo done", ..companion() },
        Case { good: "bin/notes check && echo ok\necho done", ..companion() },
    ] {
        case.teaches_nothing();
    }
}

fn banned() -> Case {
    Case {
        task: "Report the number of rows.",
        changed: vec![write(
            "src/jobs/rows.ts",
            "export const f = () => {\n  console.log(n);\n};\n",
        )],
        bad: "npx eslint src",
        said: "src/jobs/rows.ts\n  2:3  error  Unexpected console statement  no-console\n\n1 problem",
        between: vec![edit("src/jobs/rows.ts", "  console.log(n);", "  log.info(n);")],
        good: "npx eslint src",
    }
}

#[test]
fn a_word_that_is_banned_is_told_with_the_one_in_its_place() {
    let text = "Use `log.info`, not `console.log`, in `*.ts` files: `npx eslint` wants it.";
    let item = banned().teaches(text);
    warns(
        &item,
        &[
            write("src/other.ts", "a\n  console.log(1)\n"),
            edit("src/x.ts", "f()", "console.log(f())"),
            call(
                "MultiEdit",
                &json!({"path": "src/x.ts", "edits": [{"old_string": "a", "new_string": "console.log(a)"}]}),
            ),
        ],
        &[
            edit("src/x.ts", "console.log(f())", "g()"),
            edit("src/x.ts", "  console.log(f());\n  a", "  console.log(f());\n  b"),
            write("src/other.py", "console.log(1)\n"),
            write("src/other.ts", "log.info(1)\n"),
        ],
    );
    let written_anew = Case {
        between: vec![call(
            "Write",
            &json!({"path": "src/jobs/rows.ts", "content":
                "import { log } from '../log';\n\nexport const f = () => {\n  log.info(n);\n};\n"}),
        )],
        ..banned()
    };
    written_anew.teaches(text);
    for (said, old, new, text) in [
        (
            "a.rs: error: use of a disallowed macro `println!`",
            "    println!(\"{x}\");",
            "    tracing::info!(\"{x}\");",
            "Use `tracing::info!`, not `println!`, in `*.rs` files: `bin/lint` wants it.",
        ),
        (
            "T201 `print` found",
            "print(x)",
            "logger.info(x)",
            "Use `logger.info`, not `print`, in `*.rs` files: `bin/lint` wants it.",
        ),
        (
            "Unexpected var, use let or const instead",
            "var a = 1;",
            "const a = 1;",
            "Use `const`, not `var`, in `*.rs` files: `bin/lint` wants it.",
        ),
        (
            "不要使用 time.sleep",
            "  time.sleep(2)",
            "  clock.wait(2)",
            "Use `clock.wait`, not `time.sleep`, in `*.rs` files: `bin/lint` wants it.",
        ),
        (
            "Don't write 'utilize': use 'apply' instead.",
            "You can utilize it.",
            "You can apply it.",
            "Use `apply`, not `utilize`, in `*.rs` files: `bin/lint` wants it.",
        ),
    ] {
        let case = Case {
            said,
            bad: "bin/lint",
            good: "bin/lint",
            changed: Vec::new(),
            between: vec![edit("src/a.rs", old, new)],
            ..banned()
        };
        case.teaches(text);
    }
}

#[test]
fn a_word_that_was_wrong_here_is_not_banned() {
    let linted = |said, old: &str, new: &str| Case {
        said,
        bad: "bin/lint",
        good: "bin/lint",
        changed: Vec::new(),
        between: vec![edit("src/a.ts", old, new)],
        ..banned()
    };
    for case in [
        // Code that does not compile, or does something else.
        Case {
            bad: "npx tsc",
            good: "npx tsc",
            said: "src/a.ts(5,2): error TS2304: Cannot find name 'console'. Unexpected console",
            ..banned()
        },
        Case {
            bad: "npm test",
            good: "npm test",
            said: "console.log is not allowed: expected 2 calls",
            ..banned()
        },
        Case {
            bad: "python3 app.py",
            good: "python3 app.py",
            said: "TypeError: f() got an unexpected keyword argument 'console'",
            ..banned()
        },
        Case {
            bad: "node app.js",
            good: "node app.js",
            said: "console is not allowed here",
            ..banned()
        },
        // The word is not named, or named without a ban.
        Case { said: "1 problem: unused name", ..banned() },
        Case { said: "rows.ts: console logs go to stdout", ..banned() },
        // It is still there.
        Case {
            between: vec![edit(
                "src/jobs/rows.ts",
                "  console.log(n);",
                "  log.info(console.log(n));",
            )],
            ..banned()
        },
        Case {
            between: vec![edit(
                "src/jobs/rows.ts",
                "  console.log(n);\n  console.log(m);",
                "  log.info(n);\n  console.log(m);",
            )],
            ..banned()
        },
        // Another line went as well.
        Case {
            between: vec![edit(
                "src/jobs/rows.ts",
                "  drop(table, 2);\n  console.log(n);",
                "  log.info(n);",
            )],
            ..banned()
        },
        // More than a word was changed.
        Case {
            between: vec![edit(
                "src/jobs/rows.ts",
                "  console.log(n);",
                "  if (verbose) log.info(n + 1);",
            )],
            ..banned()
        },
        // It is gone for good.
        Case { between: vec![edit("src/jobs/rows.ts", "  console.log(n);\n", "")], ..banned() },
        // The task speaks of it.
        Case { task: "Let rows use log.info.", ..banned() },
        Case { task: "Remove console output from the jobs.", ..banned() },
        // A name of our own.
        linted("name userData is not allowed", "const userData = 1;", "const user = 1;"),
        linted(
            "function getRows is not allowed, use snake case instead",
            "x = getRows(1)",
            "x = get_rows(1)",
        ),
        linted("the name find is forbidden", "function find(a) {", "function seek(a) {"),
        // What stands there follows from the place.
        linted("Unexpected any. Specify a different type", "f(x: any)", "f(x: string)"),
        // It makes an exception.
        linted("load is forbidden", "yaml.load(x)", "yaml.unsafe(x)"),
    ] {
        case.teaches_nothing();
    }
}

fn indented() -> Case {
    Case {
        task: "Add a target.",
        changed: vec![edit(
            "Makefile",
            "\techo done",
            "\techo done\n\nclean:\n        rm -rf dist",
        )],
        bad: "make clean",
        said: "Makefile:5: *** missing separator (did you mean TAB instead of 8 spaces?).  Stop.",
        between: vec![edit("Makefile", "        rm -rf dist", "\trm -rf dist")],
        good: "make clean",
    }
}

#[test]
fn indentation_is_told_where_a_program_wants_it() {
    let item = indented().teaches("Indent `Makefile` files with tabs, not with spaces.");
    assert_eq!(item.scope, super::super::super::item::Scope::User);
    warns(
        &item,
        &[
            edit("Makefile", "all:", "all:\n    echo a"),
            write("sub/Makefile", "all:\n        echo a\n"),
        ],
        &[edit("Makefile", "all:", "all:\n\techo a"), write("a.py", "def f():\n    pass\n")],
    );
    let here = Case {
        bad: "bin/lint",
        said: "pool.conf:3: lines are indented with tabs",
        between: vec![edit(
            "etc/pool.conf",
            "pool:\n    size: 2\n    n: 1",
            "pool:\n\tsize: 2\n\tn: 1",
        )],
        good: "bin/lint",
        ..indented()
    };
    let item =
        here.teaches("Indent `*.conf` files with tabs, not with spaces: `bin/lint` wants it.");
    assert_ne!(item.scope, super::super::super::item::Scope::User);
    let spaces = Case {
        bad: "bin/deploy --plan",
        said: "a.yaml: found character '\\t' that cannot start any token",
        between: vec![edit("a.yaml", "a:\n\tb: 1", "a:\n  b: 1")],
        good: "bin/deploy --plan",
        ..indented()
    };
    spaces.teaches("Indent `*.yaml` files with spaces, not with tabs.");
}

#[test]
fn blanks_that_are_not_all_of_it_teach_nothing() {
    for case in [
        Case {
            between: vec![edit("Makefile", "        rm -rf dist", "\trm -rf out")],
            ..indented()
        },
        Case {
            between: vec![edit("Makefile", "    rm -rf dist", "        rm -rf dist")],
            ..indented()
        },
        Case {
            between: vec![
                edit("Makefile", "        rm -rf dist", "\trm -rf dist"),
                edit("b.mk", "x", "y"),
            ],
            ..indented()
        },
        Case {
            between: vec![
                edit("b.mk", "x", "y"),
                edit("Makefile", "        rm -rf dist", "\trm -rf dist"),
            ],
            ..indented()
        },
        Case { said: "make: *** No rule to make target 'dist'", ..indented() },
        Case {
            bad: "python3 a.py",
            said: "TabError: inconsistent use of tabs and spaces in indentation",
            between: vec![edit("a.py", "\tx = 1", "    x = 1")],
            good: "python3 a.py",
            ..indented()
        },
        Case { good: "make all", ..indented() },
        Case { good: "make clean; true", ..indented() },
    ] {
        case.teaches_nothing();
    }
}

fn linted(said: &'static str, old: &str, new: &str) -> Case {
    Case {
        task: "Show the sum.",
        changed: vec![edit("src/a.py", "pass", old)],
        bad: "bin/lint",
        said,
        between: vec![edit("src/a.py", old, new)],
        good: "bin/lint",
    }
}

#[test]
fn what_a_call_is_to_be_given_is_told_where_a_linter_names_both() {
    let now = "src/a.py:1:12: DTZ005 `datetime.datetime.now()` called without a `tz` argument";
    let item = linted(now, "datetime.now()", "datetime.now(tz=UTC)")
        .teaches("Give `datetime.now` `tz=UTC` in `*.py` files: `bin/lint` wants it.");
    warns(&item, &[edit("b.py", "x", "datetime.now()")], &[edit("b.ts", "x", "datetime.now()")]);
    let timeout = "src/a.py:3:9: S113 Probable use of `requests` call without timeout";
    linted(timeout, "requests.get(url)", "requests.get(url, timeout=10)")
        .teaches("Give `requests.get` `timeout=10` in `*.py` files: `bin/lint` wants it.");
    linted("a.py:1: use Decimal for money, not float", "a = float(x)", "a = Decimal(x)")
        .teaches("Use `Decimal`, not `float`, in `*.py` files: `bin/lint` wants it.");
    for case in [
        // A type checker's word is about the code.
        linted(
            "a.py:3: error: Missing named argument \"rate\" for \"vat\"",
            "vat(x)",
            "vat(x, rate=2)",
        ),
        linted("a.py:3:1: missing positional argument rate of vat", "vat(x)", "vat(x, rate=2)"),
        // A value of the place.
        linted(timeout, "requests.get(url)", "requests.get(url, timeout=wait)"),
        // Something else is another, too.
        linted(timeout, "requests.get(url)", "requests.get(link, timeout=10)"),
        linted("`foo` is not defined, did you mean `food`?", "a = foo(x)", "a = food(x)"),
        Case {
            task: "Give requests a timeout.",
            ..linted(timeout, "requests.get(u)", "requests.get(u, timeout=10)")
        },
        Case {
            bad: "pytest",
            good: "pytest",
            ..linted(timeout, "requests.get(u)", "requests.get(u, timeout=10)")
        },
    ] {
        case.teaches_nothing();
    }
}

fn renamed() -> Case {
    Case {
        task: "Write a component for users.",
        changed: vec![write("src/UserCard.tsx", "x\n")],
        bad: "bin/lint",
        said: "src/UserCard.tsx\n  1:1  error  Filename is not in kebab case",
        between: Vec::new(),
        good: "mv src/UserCard.tsx src/user-card.tsx && bin/lint",
    }
}

#[test]
fn a_line_more_that_nothing_shows_to_have_helped_is_none() {
    let case = |good| Case {
        task: "Add a module `greet`",
        changed: Vec::new(),
        bad: "bin/check",
        said: "check: module greet is never loaded",
        between: vec![edit("conf/order", "log", "log\ngreet")],
        good,
    };
    let told = "Add what is new to `conf/order` too: `bin/check` wants it there.";
    let items = case("cd . && bin/check 2>&1").items();
    assert_eq!(items.iter().map(|item| item.text.as_str()).collect::<Vec<_>>(), [told]);
    for good in ["bin/check || true", "true || bin/check", "bin/check | tail -3", "bin/check; true"]
    {
        assert_eq!(case(good).items(), [], "{good}");
    }
}

#[test]
fn a_way_of_writing_names_is_called_as_it_is_known() {
    for (bad, good, style) in [
        ("user-card", "UserCard", " (Pascal case)"),
        ("user-card", "userCard", " (camel case)"),
        ("userCard", "user_card", " (snake case)"),
        ("usercard", "USERCARD", ""),
        ("user-card", "usercard", ""),
    ] {
        let (from, to) = (format!("src/{bad}.tsx"), format!("src/{good}.tsx"));
        let (said, mv) =
            (format!("{from}: name has to be another"), format!("mv {from} {to} && bin/lint"));
        let case = Case {
            changed: vec![write(&from, "x\n")],
            said: said.leak(),
            good: mv.leak(),
            ..renamed()
        };
        case.teaches(&format!(
            "Name new `*.tsx` files in `src/` as in `{good}.tsx`{style}, not as in `{bad}.tsx`: `bin/lint` wants it."
        ));
    }
}

#[test]
fn how_new_files_are_called_is_told() {
    let text = "Name new `*.tsx` files in `src/` as in `user-card.tsx` (kebab case), not as in `UserCard.tsx`: \
                `bin/lint` wants it.";
    let item = renamed().teaches(text);
    warns(&item, &[write("src/PriceList.tsx", "x")], &[write("lib/PriceList.tsx", "x")]);
    let moved = vec![bash("git mv src/UserCard.tsx src/user-card.tsx")];
    Case { between: moved, good: "bin/lint", ..renamed() }.teaches(text);
    for case in [
        Case { task: "Write src/user-card.tsx.", ..renamed() },
        Case { changed: Vec::new(), ..renamed() },
        Case { said: "src/b.tsx: unused name", ..renamed() },
        Case { good: "mv src/UserCard.tsx lib/user-card.tsx && bin/lint", ..renamed() },
        Case { good: "mv src/UserCard.tsx src/main.tsx && bin/lint", ..renamed() },
        Case {
            bad: "npm run build",
            good: "mv src/UserCard.tsx src/user-card.tsx && npm run build",
            ..renamed()
        },
    ] {
        case.teaches_nothing();
    }
}

#[test]
fn a_file_that_is_called_after_another_goes_with_it() {
    let story = Case {
        task: "Add a component for a badge.",
        changed: vec![write("src/ui/Badge.tsx", "x\n")],
        bad: "bin/lint",
        said: "src/ui/Badge.tsx: component has no story: write Badge.stories.tsx beside it",
        between: vec![write("src/ui/Badge.stories.tsx", "y\n")],
        good: "bin/lint",
    };
    let item = story.teaches(
        "Add a file like `src/ui/Badge.stories.tsx` for a new file like `src/ui/Badge.tsx`: `bin/lint` wants one.",
    );
    warns(&item, &[write("src/ui/Avatar.tsx", "x")], &[write("src/b/Avatar.tsx", "x")]);
    let import = "src/ui/Badge.tsx: missing module './Badge.stories.tsx', unable to resolve";
    Case { said: import, ..story }.teaches_nothing();
}

#[test]
fn a_file_that_is_to_be_changed_with_others_is_told() {
    let log = || Case {
        task: "Mend the sum.",
        changed: vec![edit("src/a.py", "a", "b")],
        bad: "bin/check",
        said: "check: CHANGELOG.md was not changed",
        between: vec![edit("CHANGELOG.md", "# New\n", "# New\n- Mended the sum.\n")],
        good: "bin/check",
    };
    let item = log().teaches("Change `CHANGELOG.md` too with every change: `bin/check` wants it.");
    warns(&item, &[edit("src/b.py", "a", "b")], &[edit("docs/b.md", "a", "b")]);
    for case in [
        Case { said: "CHANGELOG.md:3: the line was not changed by hand", ..log() },
        Case { said: "CHANGELOG.md has a line that is too long", ..log() },
        Case { task: "Write it into CHANGELOG.md.", ..log() },
        Case { bad: "npm run build", good: "npm run build", ..log() },
    ] {
        case.teaches_nothing();
    }
}
