//! What the agent does as the user, outside the sandbox, on the word of what a command or a clone has put there: undo
//! journals, programs and settings in the project, and texts that a terminal would act on.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::chat::Pty;
use crate::support::Test;

/// What a program of the project would leave behind.
const EVIL: &str = "#!/bin/sh\ntouch \"$0.ran\"\n";

fn program(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Programs in the project that have the names of the user's own, by ways that lead there.
fn planted(test: &Test, names: &[&str]) -> String {
    let root = test.root();
    for name in names {
        program(&root.join("bin").join(name), EVIL);
        program(&root.join(name), EVIL);
    }
    symlink(root.join("bin"), test.home().join("bin")).unwrap();
    let path = std::env::var("PATH").unwrap();
    let (inside, by_link) = (root.join("bin"), test.home().join("bin"));
    format!(".:bin::{}:{}:{path}", inside.display(), by_link.display())
}

#[track_caller]
fn nothing_ran(test: &Test, names: &[&str]) {
    for name in names {
        for path in [format!("bin/{name}.ran"), format!("{name}.ran")] {
            assert!(!test.root().join(&path).exists(), "{path}");
        }
    }
}

#[test]
fn the_command_that_prints_the_key_runs_nothing_of_the_project() {
    let names = ["bash", "git", "helper"];
    let config = "model = \"mine/x\"\n[providers.mine]\nbase_url = \"http://127.0.0.1:9/v1\"\n\
        api_key_command = \"pwd > $OUT; echo $PYTHONPATH$PERL5OPT$GIT_TRACE$LESSOPEN$OTHER$GNUPGHOME$AND$UP$REL >> $OUT; helper; ./helper; echo sk-x\"\n";
    let test = Test::new().user_config(config);
    let out = test.home().join("out");
    let path = planted(&test, &names);
    let libraries = format!("{}:/usr/lib/x", test.root().display());
    let test = test.env("PATH", &path).env("OUT", out.to_str().unwrap());
    let test = test.env("PYTHONPATH", &libraries);
    let named = test.root().display().to_string();
    let test =
        test.env("PERL5OPT", &format!("-I{named} -MP")).env("GIT_TRACE", &format!("{named}/trace"));
    let by_home = named.replace(&test.home().display().to_string(), "~");
    let test =
        test.env("LESSOPEN", &format!("|{named}/x %s")).env("OTHER", &format!("-F{by_home}/c"));
    // Also where the user's own are said to be, behind any sign, and from the home on.
    let to_project = named.rsplit('/').next().unwrap();
    let test = test
        .env("GNUPGHOME", &format!("{named}/.gnupg"))
        .env("AND", &format!("/usr/bin/x&&{named}/y"))
        .env("UP", &format!("../{to_project}/rc"));
    let said = || fs::read_to_string(&out).unwrap();
    // (What is tried in the sandbox may run what it likes.)
    let doctor = ["doctor", "--set", "sandbox.enabled=false"];
    test.agent(&doctor);
    let home = test.home().canonicalize().unwrap();
    assert_eq!(said(), format!("{}\n/usr/lib/x\n", home.display()));
    nothing_ran(&test, &names);
    // Where the home is the project it is no place outside.
    let root = test.root();
    fs::create_dir_all(root.join(".config/agent")).unwrap();
    fs::write(root.join(".config/agent/config.toml"), config).unwrap();
    // (From there `..` leads nowhere.)
    let test = test.env("HOME", root.to_str().unwrap()).env("UP", "");
    let test = test.env("REL", &format!("-I{}/bin", &named[1..]));
    test.agent(&doctor);
    assert_eq!(said(), "/\n/usr/lib/x\n");
    nothing_ran(&test, &names);
    // A name alone, from the home on.
    let above = root.parent().unwrap().to_owned();
    fs::create_dir_all(above.join(".config/agent")).unwrap();
    fs::write(above.join(".config/agent/config.toml"), config).unwrap();
    let mut test = test.env("HOME", above.to_str().unwrap());
    for option in [format!("-I{to_project}"), format!("-Mlib={to_project}")] {
        test = test.env("REL", &option);
        test.agent(&doctor);
        assert_eq!(said(), format!("{}\n/usr/lib/x\n", above.canonicalize().unwrap().display()));
    }
    nothing_ran(&test, &names);
}

#[test]
fn a_name_alone_is_a_folder_where_a_variable_is_for_folders() {
    let test = Test::new();
    let above = test.root().parent().unwrap().to_owned();
    let config = "model = \"mine/x\"\n[providers.mine]\nbase_url = \"http://127.0.0.1:9/v1\"\n\
        api_key_command = \"env > $OUT; echo sk-x\"\n";
    fs::create_dir_all(above.join(".config/agent")).unwrap();
    fs::write(above.join(".config/agent/config.toml"), config).unwrap();
    let project = test.root().file_name().unwrap().to_str().unwrap().to_owned();
    let list = format!("{project}:{project}");
    let pattern = format!("{project}/?.lua");
    let taken = [
        ("PYTHONHOME", &project),
        ("GOPATH", &list),
        ("gem_home", &project),
        ("LUA_PATH", &pattern),
        ("SOME_ROOT", &list),
    ];
    let elsewhere = "elsewhere".to_owned();
    let kept = [("TERM", &project), ("JAVA_HOME", &elsewhere), ("OTHER", &list)];
    let out = above.join("out");
    let mut test = test.env("HOME", above.to_str().unwrap()).env("OUT", out.to_str().unwrap());
    for (name, value) in taken.iter().chain(&kept) {
        test = test.env(name, value);
    }
    test.agent(&["doctor", "--set", "sandbox.enabled=false"]);
    let said = fs::read_to_string(&out).unwrap();
    let has = |(name, _): &&(&str, &String)| {
        said.lines().any(|line| line.starts_with(&format!("{name}=")))
    };
    assert_eq!(taken.iter().filter(has).count(), 0, "{said}");
    assert_eq!(kept.iter().filter(has).count(), kept.len(), "{said}");
}

/// A `.venv` of one project that is active where the agent runs in another one.
#[test]
fn no_program_of_another_project_is_run_outside() {
    let config = "model = \"mine/x\"\n[providers.mine]\nbase_url = \"http://127.0.0.1:9/v1\"\n\
        api_key_command = \"echo $VIRTUAL_ENV$PYTHONPATH. > $OUT; helper; echo sk-x\"\n";
    for (bin, made, is_project) in [
        ("tools/bin", "", false),
        ("tools/bin", ".agent/sessions", true),
        ("tools/bin", "link", true),
        (".venv/bin", ".venv/pyvenv.cfg", false),
        (".venv/bin", ".venv/pyvenv.cfg pyproject.toml", true),
        ("node_modules/.bin", "package.json", true),
    ] {
        // (Not below this project, where somebody may work with the agent.)
        let other = Test::in_memory();
        let bin = other.root().join(bin);
        program(&bin.join("helper"), EVIL);
        match made {
            "" => {}
            "link" => symlink("nowhere", other.root().join(".agent")).unwrap(),
            made => made
                .split(' ')
                .for_each(|made| fs::create_dir_all(other.root().join(made)).unwrap()),
        }
        let test = Test::new().user_config(config);
        let out = test.home().join("out");
        let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
        let active = bin.display().to_string();
        let test = test.env("PATH", &path).env("OUT", out.to_str().unwrap());
        let test = test.env("VIRTUAL_ENV", &active).env("PYTHONPATH", &active);
        test.agent(&["doctor", "--set", "sandbox.enabled=false"]);
        assert_eq!(bin.join("helper.ran").exists(), !is_project, "{path}");
        let active = if is_project { "" } else { &active };
        assert_eq!(fs::read_to_string(&out).unwrap(), format!("{active}{active}.\n"), "{path}");
    }
}

/// Python's folder for a user's packages, if there is a Python.
fn user_site(home: &Path) -> Option<PathBuf> {
    let asked = "import site; print(site.getusersitepackages())";
    let output = std::process::Command::new("python3")
        .args(["-c", asked])
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", home)
        .output();
    let site = String::from_utf8(output.ok().filter(|it| it.status.success())?.stdout).unwrap();
    Some(PathBuf::from(site.trim()))
}

#[test]
fn a_python_outside_runs_nothing_that_commands_write_in_the_users_packages() {
    let config = "model = \"mine/x\"\n[providers.mine]\nbase_url = \"http://127.0.0.1:9/v1\"\n\
        api_key_command = \"python3 -c 'print(1)' > /dev/null; echo \\\"$PYTHONNOUSERSITE.\\\" > $OUT; echo sk-x\"\n";
    // The home is the project; a folder in it is one that commands write; neither.
    for (writable, home_is_root, expected) in [
        ("", true, "1.\n"),
        ("[sandbox]\nextra_writable = [\"~/.local/lib\"]\n", false, "1.\n"),
        ("", false, ".\n"),
    ] {
        let config = format!("{config}{writable}");
        let test = Test::new().user_config(&config);
        let out = test.home().join("out");
        let test = test.env("OUT", out.to_str().unwrap());
        let home = if home_is_root { test.root() } else { test.home() }.clone();
        fs::create_dir_all(home.join(".config/agent")).unwrap();
        fs::write(home.join(".config/agent/config.toml"), &config).unwrap();
        let ran = home.join("ran");
        fs::create_dir_all(home.join(".local/lib")).unwrap();
        let site = user_site(&home);
        if let Some(site) = &site {
            fs::create_dir_all(site).unwrap();
            let line = format!("import os; open({:?}, 'w')\n", ran.to_str().unwrap());
            fs::write(site.join("x.pth"), line).unwrap();
        }
        let test = test.env("HOME", home.to_str().unwrap());
        let done = test.agent(&["doctor"]);
        let said = fs::read_to_string(&out).unwrap_or_else(|error| panic!("{error}: {done:?}"));
        assert_eq!(said, expected, "{writable} {home_is_root}");
        // (The user's own packages are the user's own.)
        assert_eq!(ran.exists(), site.is_some() && expected == ".\n", "{writable} {home_is_root}");
    }
}

/// An editor that puts a link in the place of every draft in the project, notes where it runs, and writes.
const EDITOR: &str = "#!/bin/sh\nfor draft in \"$TMPDIR\"/agent-*; do\n  [ -e \"$draft\" ] && \
    ln -sf \"$TARGET\" \"$draft\"\ndone\npwd > \"$NOTE\"; stat -c %a . >> \"$NOTE\"\necho edited >> \"$1\"\n";

/// A draft is edited: what the screen shows then, and the editor's note.
fn edited(test: Test, editor: &str) -> (Test, String, String) {
    let (temporary, target) = (test.root().join("tmp"), test.home().join("target"));
    let note = test.home().join("note");
    fs::create_dir(&temporary).unwrap();
    fs::write(&target, "the user's own\n").unwrap();
    program(&test.home().join("own/my-editor"), EDITOR);
    let test = test
        .script("text: heard")
        .env("VISUAL", "")
        .env("EDITOR", editor)
        .env("TMPDIR", temporary.to_str().unwrap())
        .env("TARGET", target.to_str().unwrap())
        .env("NOTE", note.to_str().unwrap());
    let mut pty = Pty::chat(&test, &[]);
    pty.wait_for("/help");
    pty.send("draft");
    pty.wait_for("draft");
    pty.send("\x07");
    pty.wait_for("edited");
    assert_eq!(fs::read_to_string(&target).unwrap(), "the user's own\n");
    (test, pty.screen(), fs::read_to_string(note).unwrap())
}

#[test]
fn a_message_is_edited_where_no_command_reaches_it() {
    let test = Test::new();
    let editor = test.home().join("own/my-editor").display().to_string();
    let (test, screen, note) = edited(test, &editor);
    assert!(!screen.contains("the user's own"), "{screen}");
    let (folder, mode) = note.trim_end().split_once('\n').unwrap();
    assert!(!Path::new(folder).starts_with(test.root()), "{note}");
    assert_eq!((mode, Path::new(folder).exists()), ("700", false), "{note}");
}

#[test]
fn the_editor_is_no_program_of_the_project() {
    let test = Test::new();
    let path = format!("{}:{}", planted(&test, &["my-editor"]), test.home().join("own").display());
    let (test, ..) = edited(test.env("PATH", &path), "my-editor");
    nothing_ran(&test, &["my-editor"]);
}

/// Sets the clipboard, then colours, turns and hides what follows.
const STEERS: &str = "\u{1b}]52;c;UFdO\u{7}\u{9b}31m\u{202e}X\u{8}\u{85}";

/// The same value with that in each text.
fn forged(value: &Value) -> Value {
    match value {
        Value::String(text) => text.replace("MARK", STEERS).into(),
        Value::Array(values) => values.iter().map(forged).collect(),
        Value::Object(fields) => fields
            .iter()
            .map(|(name, value)| (name.replace("MARK", STEERS), forged(value)))
            .collect::<serde_json::Map<_, _>>()
            .into(),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

#[test]
fn no_record_and_no_name_steers_the_terminal() {
    let write = json!({"path": "MARK.txt", "content": "MARK\n"});
    let script = format!(
        "text: MARK\ncall: Bash {{\"command\":\"echo MARK\",\"description\":\"MARK\"}}\n---\n\
         call: Write {write}\n---\ntext: MARK done"
    );
    let test = Test::new().script(&script);
    test.run(&["--yolo", "task MARK"]).expect_code(0);
    let log = test.log();
    let lines = test.events().into_iter().map(|event| format!("{}\n", forged(&event)));
    fs::write(&log, lines.collect::<String>()).unwrap();
    let folder = log.parent().unwrap();
    // (No session: one is called by its id.)
    let named = folder.with_file_name("0\u{1b}]0;title\u{7}\u{202e}\nmode full");
    fs::create_dir(&named).unwrap();
    fs::copy(&log, named.join("events.jsonl")).unwrap();
    let is_control = |char: char| char.is_control() && !matches!(char, '\n' | '\t');
    let commands: [&[&str]; 8] = [
        &["session", "list"],
        &["session", "show"],
        &["session", "export"],
        &["session", "export", "--format", "html"],
        &["trace", "show"],
        &["session", "show", "MARK\u{1b}]0;x\u{7}"],
        &["session", "undo", "--force"],
        &["session", "rewind", "--turn", "1"],
    ];
    for command in commands {
        let shown = test.in_terminal(command, "").stdout;
        assert!(!shown.is_empty(), "{command:?}");
        // (The terminal's own ends of lines are taken out.)
        assert!(
            !shown.contains(is_control) && !shown.contains('\u{202e}'),
            "{command:?}: {shown:?}"
        );
        let done = test.agent(command);
        let said = done.stdout + &done.stderr;
        assert!(!said.contains(is_control), "{command:?}: {said:?}");
    }
    let list = test.agent(&["session", "list"]).expect_code(0).stdout;
    assert_eq!(list.lines().count(), 1, "{list}");
    // What is for programs is what it is.
    let json = test.agent(&["session", "export", "--format", "json"]).expect_code(0).stdout;
    let events: Vec<Value> = serde_json::from_str(&json).unwrap();
    let started = events.iter().find(|event| event["type"] == "turn.started").unwrap();
    assert_eq!(started["input"], format!("task {STEERS}"));
}

#[test]
fn an_answer_steers_no_terminal_and_is_exact_elsewhere() {
    let test = Test::new().script("text: a\u{9b}31mb\u{202e}\t\u{1b}[2Jc");
    assert_eq!(test.run(&["task"]).expect_code(0).stdout, "a\u{9b}31mb\u{202e}\t\u{1b}[2Jc\n");
    let shown = test.in_terminal(&["run", "--model", "script:../script", "task", "-q"], "").stdout;
    assert!(shown.contains("ab<U+202E>    c\n"), "{shown:?}");
}
