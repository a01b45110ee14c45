//! Programs that the agent runs as the user outside the sandbox are not taken from, or influenced
//! by, the project: executables and settings in the project, and text with terminal control
//! sequences.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::support::{Pty, Test};

/// A program that leaves a marker file when it is run.
const EVIL: &str = "#!/bin/sh\ntouch \"$0.ran\"\n";

fn program(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Creates executables in the project that shadow the user's programs, and a PATH with several
/// spellings that reach them.
fn shadowing_programs(test: &Test, names: &[&str]) -> String {
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
fn api_key_command_runs_no_program_of_the_project() {
    let names = ["bash", "git", "helper"];
    let config = "model = \"mine/x\"\n[providers.mine]\nbase_url = \"http://127.0.0.1:9/v1\"\n\
        api_key_command = \"pwd > $OUT; echo $PYTHONPATH$PERL5OPT$GIT_TRACE$LESSOPEN$OTHER$GNUPGHOME$AND$UP$REL >> $OUT; helper; ./helper; echo sk-x\"\n";
    let test = Test::new().user_config(config);
    let out = test.home().join("out");
    let path = shadowing_programs(&test, &names);
    let libraries = format!("{}:/usr/lib/x", test.root().display());
    let test = test.env("PATH", &path).env("OUT", out.to_str().unwrap());
    let test = test.env("PYTHONPATH", &libraries);
    let named = test.root().display().to_string();
    let test =
        test.env("PERL5OPT", &format!("-I{named} -MP")).env("GIT_TRACE", &format!("{named}/trace"));
    let by_home = named.replace(&test.home().display().to_string(), "~");
    let test =
        test.env("LESSOPEN", &format!("|{named}/x %s")).env("OTHER", &format!("-F{by_home}/c"));
    // Also within flags, behind punctuation, and relative to the home directory.
    let to_project = named.rsplit('/').next().unwrap();
    let test = test
        .env("GNUPGHOME", &format!("{named}/.gnupg"))
        .env("AND", &format!("/usr/bin/x&&{named}/y"))
        .env("UP", &format!("../{to_project}/rc"));
    let said = || fs::read_to_string(&out).unwrap();
    // (A sandboxed attempt may run anything.)
    let doctor = ["doctor", "--set", "sandbox.enabled=false"];
    test.agent(&doctor);
    let home = test.home().canonicalize().unwrap();
    assert_eq!(said(), format!("{}\n/usr/lib/x\n", home.display()));
    nothing_ran(&test, &names);
    // If the home directory is the project, it is not outside.
    let root = test.root();
    fs::create_dir_all(root.join(".config/agent")).unwrap();
    fs::write(root.join(".config/agent/config.toml"), config).unwrap();
    // (From there `..` leads nowhere.)
    let test = test.env("HOME", root.to_str().unwrap()).env("UP", "");
    let test = test.env("REL", &format!("-I{}/bin", &named[1..]));
    test.agent(&doctor);
    assert_eq!(said(), "/\n/usr/lib/x\n");
    nothing_ran(&test, &names);
    // A bare name, relative to the home directory.
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
fn bare_names_in_directory_variables_are_treated_as_paths() {
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

/// A `.venv` of one project is active while the agent runs in another one.
#[test]
fn programs_of_other_projects_do_not_run_unsandboxed() {
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
        // (Not below this project, where the agent may be in use.)
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

/// Python's per-user site-packages directory, if Python is installed.
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
fn unsandboxed_python_ignores_writable_user_site_packages() {
    let config = "model = \"mine/x\"\n[providers.mine]\nbase_url = \"http://127.0.0.1:9/v1\"\n\
        api_key_command = \"python3 -c 'print(1)' > /dev/null; echo \\\"$PYTHONNOUSERSITE.\\\" > $OUT; echo sk-x\"\n";
    // The home is the project; commands can write a directory in it; neither.
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
        // (The user's own packages are trusted.)
        assert_eq!(ran.exists(), site.is_some() && expected == ".\n", "{writable} {home_is_root}");
    }
}

/// An editor that replaces every draft in the project with a symlink, records its directory, and
/// writes.
const EDITOR: &str = "#!/bin/sh\nfor draft in \"$TMPDIR\"/agent-*; do\n  [ -e \"$draft\" ] && \
    ln -sf \"$TARGET\" \"$draft\"\ndone\npwd > \"$NOTE\"; stat -c %a . >> \"$NOTE\"\necho edited >> \"$1\"\n";

/// Edits a draft; returns the screen and the editor's record.
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
fn editor_drafts_are_not_accessible_to_commands() {
    let test = Test::new();
    let editor = test.home().join("own/my-editor").display().to_string();
    let (test, screen, note) = edited(test, &editor);
    assert!(!screen.contains("the user's own"), "{screen}");
    let (folder, mode) = note.trim_end().split_once('\n').unwrap();
    assert!(!Path::new(folder).starts_with(test.root()), "{note}");
    assert_eq!((mode, Path::new(folder).exists()), ("700", false), "{note}");
}

#[test]
fn editor_is_not_taken_from_the_project() {
    let test = Test::new();
    let path = format!(
        "{}:{}",
        shadowing_programs(&test, &["my-editor"]),
        test.home().join("own").display()
    );
    let (test, ..) = edited(test.env("PATH", &path), "my-editor");
    nothing_ran(&test, &["my-editor"]);
}

/// Sets the clipboard, and changes the colour, direction and visibility of the following text.
const CONTROL_SEQUENCES: &str = "\u{1b}]52;c;UFdO\u{7}\u{9b}31m\u{202e}X\u{8}\u{85}";

/// The same value with the control sequences inserted in each string.
fn forged(value: &Value) -> Value {
    match value {
        Value::String(text) => text.replace("MARK", CONTROL_SEQUENCES).into(),
        Value::Array(values) => values.iter().map(forged).collect(),
        Value::Object(fields) => fields
            .iter()
            .map(|(name, value)| (name.replace("MARK", CONTROL_SEQUENCES), forged(value)))
            .collect::<serde_json::Map<_, _>>()
            .into(),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

#[test]
fn logs_and_names_cannot_inject_terminal_control_sequences() {
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
    // (Not a session: sessions are addressed by id.)
    let named = folder.with_file_name("0\u{1b}]0;title\u{7}\u{202e}\nmode full");
    fs::create_dir(&named).unwrap();
    fs::copy(&log, named.join("events.jsonl")).unwrap();
    let is_control = |char: char| char.is_control() && !matches!(char, '\n' | '\t');
    let commands: [&[&str]; 8] = [
        &["session", "list"],
        &["session", "show"],
        &["session", "export"],
        &["trace", "html", "-o", "-"],
        &["trace", "show"],
        &["session", "show", "MARK\u{1b}]0;x\u{7}"],
        &["session", "undo", "--force"],
        &["session", "rewind", "--turn", "1"],
    ];
    for command in commands {
        let shown = test.in_terminal(command, "").stdout;
        assert!(!shown.is_empty(), "{command:?}");
        // (The terminal's own line ends are removed.)
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
    // Machine-readable output is unchanged.
    let json = test.agent(&["session", "list", "--format", "json"]).expect_code(0).stdout;
    let sessions: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(sessions[0]["task"], format!("task {CONTROL_SEQUENCES}"));
}

#[test]
fn answers_are_sanitised_on_terminals_and_exact_in_pipes() {
    let test = Test::new().script("text: a\u{9b}31mb\u{202e}\t\u{1b}[2Jc");
    assert_eq!(test.run(&["task"]).expect_code(0).stdout, "a\u{9b}31mb\u{202e}\t\u{1b}[2Jc\n");
    let shown = test.in_terminal(&["run", "--model", "script:../script", "task", "-q"], "").stdout;
    assert!(shown.contains("a<U+009B>31mb<U+202E>    ␛[2Jc\n"), "{shown:?}");
}
