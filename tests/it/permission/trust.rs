//! Files of the agent outside of a project: its directories, symlink targets of its configuration,
//! and the list of trusted projects. Commands and file tools cannot access them, wherever they are.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::sandbox::{Place, places, write};
use crate::support::batch::Batch;
use crate::support::{Done, Pty, Test, has, is_root, say};

const INTACT: &str = "# intact\n";

/// A batch of file calls in a mode that does not ask for approval.
fn batch(test: &Test, cwd: &Path, more: &[&str]) -> Batch {
    let args = [&["tool", "batch", "--permission-mode", "auto-edit"], more].concat();
    Batch::start(test.command(&args).current_dir(cwd))
}

#[track_caller]
fn expect_denied(batch: &mut Batch, tool: &str, input: &Value) {
    let answer = batch.call(tool, input);
    assert_eq!(answer["error"]["code"], "ACCESS_DENIED", "{tool} {input}: {answer}");
}

fn call_args(line: &str) -> Vec<String> {
    let input = json!({"command": line}).to_string();
    ["tool", "call", "Bash", &input].map(str::to_owned).to_vec()
}

/// The layout of a dotfiles repository.
#[test]
fn symlink_targets_of_protected_paths_are_protected() {
    let test =
        Test::new().file("agent/config.toml", INTACT).file("gh/hosts.yml", "token: needle\n");
    test.write("bashrc", INTACT);
    test.write("more", "needle\n");
    let (root, home) = (test.root(), test.home());
    fs::create_dir_all(home.join(".config")).unwrap();
    symlink("../../project/agent", home.join(".config/agent")).unwrap();
    symlink(root.join("gh"), home.join(".config/gh")).unwrap();
    symlink(root.join("bashrc"), home.join(".bashrc")).unwrap();
    let mut calls = batch(&test, &root, &[]);
    for path in ["agent/config.toml", "agent/AGENTS.md", "gh/hosts.yml"] {
        expect_denied(&mut calls, "Write", &json!({"path": path, "content": "x"}));
    }
    expect_denied(&mut calls, "Read", &json!({"path": "gh/hosts.yml"}));
    let found = calls.call("Grep", &json!({"pattern": "needle"})).to_string();
    assert!(found.contains("more") && !found.contains("hosts.yml"), "{found}");
    // The project's own files are accessible.
    assert_eq!(calls.call("Read", &json!({"path": "bashrc"}))["status"], "success");
    let edit = json!({"path": "bashrc", "old_string": "intact", "new_string": "changed"});
    let edited = calls.call("Edit", &edit);
    assert_eq!(edited["status"], "success", "{edited}");
    calls.end();
    assert_eq!(test.read("agent/config.toml"), INTACT);
    // An explicitly added directory is accessible.
    let mut calls = batch(&test, &root.join("gh"), &[]);
    let read = calls.call("Read", &json!({"path": "hosts.yml"}));
    assert_eq!(read["status"], "success", "{read}");
    calls.end();
}

#[test]
fn trusted_config_behind_a_writable_symlink_is_ignored() {
    let test = Test::new().script("text: ok").file("words/compact.md", "x\n");
    let shared = test.home().join("shared");
    write(&shared.join("config.toml"), "[sandbox]\nnetwork = \"on\"\n");
    fs::create_dir(test.root().join(".agent")).unwrap();
    let link = test.root().join(".agent/config.toml");
    let ignored = "ignored sandbox because commands could write";
    // A direct symlink that passes through no directory of the project.
    symlink("../../home/shared/config.toml", &link).unwrap();
    let done = test.run(&["--trust", "task"]).expect_code(0);
    assert!(!done.stderr.contains(ignored), "{done:?}");
    fs::remove_file(&link).unwrap();
    symlink(&shared, test.root().join("way")).unwrap();
    symlink("../way/config.toml", &link).unwrap();
    test.run(&["--trust", "task"]).expect_code(0).expect_stderr(ignored);
    // The same applies to prompts.
    symlink("../words", test.root().join(".agent/prompts")).unwrap();
    let done = test.run(&["--trust", "task"]).expect_code(0);
    done.expect_stderr(".agent/prompts: ignored because commands could write");
}

/// The home is the project and this session's directories are elsewhere; those of the next session
/// may not be.
#[test]
fn default_agent_directories_are_protected_despite_xdg_variables() {
    const NAMES: [&str; 4] =
        ["XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME"];
    for place in places() {
        let home = place.test.root();
        let elsewhere = home.parent().unwrap().join("elsewhere");
        let mut env = vec![("HOME".to_owned(), home.display().to_string())];
        env.extend(NAMES.map(|name| (name.to_owned(), elsewhere.display().to_string())));
        let place = Place { env, ..place };
        write(&home.join(".config/agent/AGENTS.md"), "needle\n");
        let told = place.script(
            "exec 2>/dev/null; cat .config/agent/AGENTS.md; for d in .config .local; do mv $d x$d; ln -s $OUT $d; done; \
             for d in .config/agent .local/state/agent .local/share/agent; do mv $d x; ln -s $OUT $d; done; \
             echo x > .config/agent/config.toml; echo / > .local/state/agent/trusted; true",
        );
        assert_eq!(told["data"]["stdout"], "", "{told}");
        if place.backend == "namespaces" {
            let own = [".config/agent", ".local/state/agent", ".local/share/agent"];
            for folder in own {
                let real = home.join(folder).canonicalize().unwrap();
                assert_eq!(real, home.join(folder), "{folder}: {told}");
            }
            assert!(!home.join(".config/agent/config.toml").exists(), "{told}");
            assert!(!home.join(".local/state/agent/trusted").exists(), "{told}");
        }
    }
}

/// The binary with this directory as the user's home in `/etc/passwd`, if that can be set up.
fn where_home_is(test: &Test, home: &Path, args: &[&str]) -> Option<Command> {
    let users = test.home().join("passwd");
    fs::write(&users, format!("own:x:0:0::{}:/bin/sh\n", home.display())).unwrap();
    let line = "mount --bind \"$USERS\" /etc/passwd && exec \"$0\" \"$@\"";
    let started = |program: &str, args: &[&str]| {
        let inner = test.command(&[]);
        let mut command = Command::new("unshare");
        command.arg(if is_root() { "-m" } else { "-Urm" }).args(["sh", "-c", line, program]);
        command.args(args).current_dir(test.root()).env_clear().env("USERS", &users);
        let set = inner.get_envs().filter_map(|(name, value)| Some((name, value?)));
        command.envs(set.map(|(name, value)| (name.to_owned(), value.to_owned())));
        command
    };
    if !started("true", &[]).output().is_ok_and(|output| output.status.success()) {
        say("SKIPPED: the home that the system names (no namespace of mounts here)");
        return None;
    }
    let mut command = started(env!("CARGO_BIN_EXE_agent"), args);
    command.stdout(Stdio::piped());
    Some(command)
}

#[test]
fn home_from_the_passwd_entry_is_protected() {
    let test = Test::new().file(".config/gh/hosts.yml", "token: needle\n");
    test.write(".local/state/agent/trusted", "");
    let args = ["tool", "batch", "--permission-mode", "auto-edit"];
    let Some(mut command) = where_home_is(&test, &test.root(), &args) else { return };
    let mut calls = Batch::start(&mut command);
    for path in [".ssh/authorized_keys", ".profile", ".config/agent/config.toml"] {
        expect_denied(&mut calls, "Write", &json!({"path": path, "content": "x"}));
    }
    for path in [".config/gh/hosts.yml", ".local/state/agent/trusted"] {
        expect_denied(&mut calls, "Read", &json!({"path": path}));
    }
    calls.end();
}

#[test]
fn trusted_directory_names_are_stored_byte_exact() {
    let test = Test::new();
    let trusted = test.home().join(".local/state/agent/trusted");
    let trust = |name: &[u8]| {
        let folder = test.root().join(OsStr::from_bytes(name));
        fs::create_dir(&folder).unwrap();
        (Done::new(&test.command(&["trust"]).current_dir(&folder).output().unwrap()), folder)
    };
    let lines = |folders: &[&PathBuf]| {
        let lines = folders.iter().map(|folder| [folder.as_os_str().as_bytes(), b"\n"].concat());
        lines.collect::<Vec<_>>().concat()
    };
    // An entry without a final newline, written by hand.
    let by_hand = test.root().join("by hand");
    write(&trusted, by_hand.to_str().unwrap());
    let (done, odd) = trust(b"odd\xff");
    done.expect_code(0);
    assert_eq!(fs::read(&trusted).unwrap(), lines(&[&by_hand, &odd]));
    let again = Done::new(&test.command(&["trust"]).current_dir(&odd).output().unwrap());
    assert!(again.stdout.contains("trusted already"), "{again:?}");
    // A name equal to a lossy conversion of the first, and one that ends with a carriage return.
    for name in ["odd\u{fffd}".as_bytes(), b"end\r"] {
        let (done, folder) = trust(name);
        assert!(!done.expect_code(0).stdout.contains("already"));
        assert!(fs::read(&trusted).unwrap().ends_with(&lines(&[&folder])));
    }
    let before = fs::read(&trusted).unwrap();
    let (done, _) = trust(b"two\nlines");
    done.expect_code(2).expect_stderr("line break");
    assert_eq!(fs::read(&trusted).unwrap(), before);
    // They are trusted.
    fs::create_dir(odd.join(".agent")).unwrap();
    fs::write(odd.join(".agent/config.toml"), "[sandbox]\nnetwork = \"on\"\n").unwrap();
    let done = Done::new(&test.command(&["config"]).current_dir(&odd).output().unwrap());
    assert!(!done.stderr.contains("ignored"), "{done:?}");
}

#[test]
fn trust_list_is_not_written_through_a_symlink() {
    let test = Test::new();
    let state = test.home().join(".local/state/agent");
    fs::create_dir_all(&state).unwrap();
    fs::write(test.home().join(".bashrc"), "# mine\n").unwrap();
    symlink(test.home().join(".bashrc"), state.join("trusted")).unwrap();
    let done = test.agent(&["trust"]).expect_code(2);
    assert!(done.stderr.contains("trusted is a link"), "{}", done.stderr);
    assert_eq!(fs::read_to_string(test.home().join(".bashrc")).unwrap(), "# mine\n");
}

/// A repository with this configuration, which the user trusts.
fn trusted(config: &str) -> Test {
    let test = Test::new().file(".agent/config.toml", config).script("text: ok");
    git(&test.root(), &["init", "-q", "-b", "main"]);
    git(&test.root(), &["config", "user.name", "a"]);
    git(&test.root(), &["config", "user.email", "a@b"]);
    git(&test.root(), &["add", ".agent/config.toml"]);
    git(&test.root(), &["commit", "-qm", "first"]);
    test.agent(&["trust"]).expect_code(0);
    test
}

#[track_caller]
fn git(folder: &Path, args: &[&str]) {
    let output = Command::new("git").arg("-C").arg(folder).args(args).output().unwrap();
    assert!(output.status.success(), "{args:?}: {output:?}");
}

/// A command commits another configuration on a branch, in a worktree below the project, and the
/// user merges it.
fn merged(test: &Test, config: &str) {
    for line in [
        "git worktree add -q -b fix wt",
        &format!("mkdir -p wt/.agent && cat > wt/.agent/config.toml <<'END'\n{config}END"),
        "git -C wt add -f .agent/config.toml",
        "git -C wt commit -qm fix",
    ] {
        let args = call_args(line);
        let mut args: Vec<&str> = args.iter().map(String::as_str).collect();
        args.extend(["--allow", "Bash"]);
        test.agent(&args).expect_code(0);
    }
    git(&test.root(), &["merge", "-q", "fix"]);
    assert_eq!(test.read(".agent/config.toml"), config);
}

#[test]
fn trust_applies_to_the_settings_at_the_time_of_trusting() {
    if !has("git", "trust_applies_to_the_settings_at_the_time_of_trusting") {
        return;
    }
    let test = trusted("[ui]\ntheme = \"dark\"\n");
    let key = "touch ran; echo sk-x";
    merged(
        &test,
        &format!(
            "model = \"mine/x\"\n[ui]\ntheme = \"light\"\n[providers.mine]\n\
             base_url = \"http://127.0.0.1:9/v1\"\napi_key_command = {key:?}\n"
        ),
    );
    let why = "the settings of this folder changed since you trusted it: providers (new), ui (changed); \
               review them, then run `agent trust`";
    let told = format!(".agent/config.toml: ignored providers, ui because {why}");
    let ran = test.home().join("ran");
    test.agent(&["run", "task"])
        .expect_code(2)
        .expect_stderr(&told)
        .expect_stderr("unknown provider");
    let doctor = test.agent(&["doctor"]).expect_code(1);
    assert!(doctor.stdout.contains(&told), "{doctor:?}");
    test.agent(&["config", "show"]).expect_code(0).expect_stderr(&told);
    assert!(!ran.exists());
    let shown = test.agent(&["trust"]).expect_code(0).stdout;
    for part in ["with these current settings:", "ui.theme = \"light\"", key] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let doctor = test.agent(&["doctor"]);
    assert!(!doctor.stdout.contains("trust") && ran.exists(), "{doctor:?}");
    let list = fs::read(test.home().join(".local/state/agent/trusted")).unwrap();
    let line = [b" ", test.root().as_os_str().as_bytes(), b"\n"].concat();
    assert!(list.ends_with(&line) && list.split_inclusive(|byte| *byte == b'\n').count() == 1);
}

#[test]
fn merged_config_cannot_disable_the_sandbox() {
    if !has("git", "merged_config_cannot_disable_the_sandbox") {
        return;
    }
    let test = trusted("model = \"a/b\"\n");
    merged(&test, "[sandbox]\nenabled = false\n[permissions]\nmode = \"full\"\n");
    let test = test.script("call: Bash {\"command\": \"echo x > ../beside\"}\n---\ntext: ok");
    let told = "ignored permissions.mode, sandbox because the settings of this folder changed since you trusted it: \
                permissions.mode (new), sandbox (new)";
    test.run(&["task", "--allow", "Bash"]).expect_code(0).expect_stderr(told);
    assert!(!test.root().with_file_name("beside").exists());
    let started = test.events_of("session.started").pop().unwrap();
    assert_eq!(started["permission_mode"], "auto-edit", "{started}");
    let chat = Pty::chat(&test, &[]);
    chat.wait("the chat says it", |screen| {
        let words: Vec<&str> = screen.split_whitespace().collect();
        words.join(" ").contains("sandbox (new); review them")
    });
    drop(chat);
    test.agent(&["trust"]).expect_code(0);
    let done = test.run(&["task"]).expect_code(0);
    assert!(!done.stderr.contains("trusted"), "{done:?}");
    assert_eq!(fs::read_to_string(test.root().with_file_name("beside")).unwrap(), "x\n");
}

#[test]
fn harmless_settings_can_change_without_trusting_again() {
    let config = |more: &str, network: &str| {
        format!(
            "{more}\n[permissions]\nallow = [\"Read\"]\n[sandbox]\nnetwork = {network:?}\nenabled = true\n"
        )
    };
    let trusted = |text: &str| {
        let test = Test::new().file(".agent/config.toml", text);
        test.agent(&["trust"]).expect_code(0);
        test
    };
    let test = trusted(&config("", "loopback"));
    let told = |text: &str| {
        test.write(".agent/config.toml", text);
        test.agent(&["config", "show"]).expect_code(0).stderr
    };
    let more = "# mine\nmodel = \"a/b\"\nlearning.enabled = false\nlimits.max_turns = 3";
    assert_eq!(told(&config(more, "loopback")), "");
    let turned = "sandbox = { enabled = true, network = 'loopback' }\n[permissions]\ndeny = [\"Write\"]\nallow = [ 'Read' ]\n";
    assert_eq!(told(turned), "");
    // The remainder alone is a different configuration.
    let left = told("sandbox.network = \"loopback\"\nsandbox.enabled = true\n");
    assert!(left.contains("changed since you trusted it: permissions.allow (gone)"), "{left}");
    // Nothing in it requires trust.
    assert_eq!(told("model = \"a/b\"\n"), "");
    // The original configuration.
    assert_eq!(told(&config("", "loopback")), "");
    // The user's own limit applies.
    let test = trusted("limits.max_turns = 3\n").user_config("limits.max_turns = 5\n");
    assert_eq!(test.agent(&["config", "show"]).expect_code(0).stderr, "");
    test.write(".agent/config.toml", "limits.max_turns = 99\n");
    let done = test.agent(&["config", "show"]).expect_code(0);
    assert!(done.stderr.contains("limits.max_turns (changed)"), "{done:?}");
    assert!(done.stdout.contains("limits.max_turns = 5"), "{done:?}");
}

#[test]
fn changed_prompts_require_trusting_again() {
    let test = Test::new().script("text: ok").file(".agent/prompts/tools/grep.md", "Seek.\n");
    let shown = test.agent(&["trust"]).expect_code(0).stdout;
    assert!(shown.contains(".agent/prompts/tools/grep.md (6 bytes)"), "{shown}");
    let told = || test.run(&["task"]).expect_code(0).stderr;
    assert!(!told().contains("trust"), "{}", told());
    test.write(".agent/prompts/tools/grep.md", "Seek and destroy.\n");
    test.write(".agent/prompts/distil.md", "Learn this.\n");
    let ignored = ".agent/prompts: ignored because the settings of this folder changed since you trusted it: \
                   prompts/distil.md (new), prompts/tools/grep.md (changed); review them, then run `agent trust`";
    assert!(told().contains(ignored), "{}", told());
    let doctor = test.agent(&["doctor", "--offline"]).stdout;
    assert!(doctor.contains(ignored), "{doctor}");
    test.agent(&["trust"]).expect_code(0);
    assert!(!told().contains("trust"), "{}", told());
}

/// The project can be trusted again: until then, commands cannot write the configuration that the
/// user would be asked about.
#[test]
fn config_changed_after_trusting_stays_protected() {
    for place in places() {
        let file = place.test.root().join(".agent/config.toml");
        write(&file, "ui.theme = \"light\"\n");
        Done::new(&place.test.command(&["trust"]).output().unwrap()).expect_code(0);
        write(&file, "ui.theme = \"dark\"\n");
        let told = place.script("echo '# x' >> .agent/config.toml; true");
        if place.backend == "namespaces" {
            assert_eq!(fs::read_to_string(&file).unwrap(), "ui.theme = \"dark\"\n", "{told}");
        }
    }
}

#[test]
fn trust_entry_without_settings_trusts_no_settings() {
    let test = Test::new().file(".agent/config.toml", "model = \"a/b\"\n").script("text: ok");
    let list = test.home().join(".local/state/agent/trusted");
    let root = test.root();
    // (In entries with trusted settings, the directory starts after the first space.)
    let other = "sandbox=00 /else/w here=1,x";
    write(&list, &format!("{}\n{other}\n", root.display()));
    assert_eq!(test.agent(&["config", "show"]).expect_code(0).stderr, "");
    let again = test.agent(&["trust"]).expect_code(0).stdout;
    assert!(again.contains("is trusted already; it currently sets nothing"), "{again}");
    test.write(".agent/config.toml", "ui.theme = \"light\"\n");
    test.agent(&["config", "show"]).expect_code(0).expect_stderr("ui (new)");
    test.agent(&["trust"]).expect_code(0);
    assert_eq!(test.agent(&["config", "show"]).expect_code(0).stderr, "");
    let text = fs::read_to_string(&list).unwrap();
    assert!(text.starts_with(&format!("{other}\nui=")), "{text}");
    assert!(text.ends_with(&format!(" {}\n", root.display())) && text.lines().count() == 2);
}

#[test]
fn invalid_configuration_cannot_be_trusted() {
    let test = Test::new().file(".agent/config.toml", "sandbx = 1\n");
    test.agent(&["trust"]).expect_code(2).expect_stderr("did you mean `sandbox`?");
    assert!(!test.home().join(".local/state/agent/trusted").exists());
}

/// Except for secrets in headers, which execute nothing.
#[test]
fn trust_shows_all_settings_unredacted() {
    let command = "curl -s http://there/token=abcdefghijklmnop";
    let test = Test::new().file(
        ".agent/config.toml",
        format!(
            "[record]\nredact_extra = [\".+\"]\n[providers.\"a.headers.b\"]\napi_key_command = {command:?}\n\
             [providers.\"a.headers.b\".headers]\nAuthorization = {command:?}\n\
             [checks]\ncommands = [\"\\u001b[2J\\u202e\"]\n"
        ),
    );
    let shown = test.agent(&["trust"]).expect_code(0).stdout;
    let line = format!("  providers.\"a.headers.b\".api_key_command = {command:?}\n");
    assert!(shown.contains(&line), "{shown}");
    assert_eq!(shown.matches("http://there").count(), 1, "{shown}");
    let shown = test.in_terminal(&["trust"], "").stdout;
    assert!(shown.contains("checks.commands = ") && shown.contains(&line), "{shown}");
    assert!(!shown.contains(['\u{1b}', '\u{202e}']), "{shown}");
}
