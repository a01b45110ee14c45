//! Common command lines of coding models (`tests/shell/everyday.toml`) have the same effect as in
//! bash, ask for approval where they should, and can be undone.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Mutex;

use regex::Regex;
use serde_json::{Value, json};

use crate::support::say;

const AGENT: &str = env!("CARGO_BIN_EXE_agent");
const SHELL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/shell");

/// An entry of the table; the file describes its keys.
#[derive(serde::Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct Line {
    id: String,
    project: String,
    needs: Vec<String>,
    run: String,
    expect: String,
    destructive: bool,
    compare: Vec<String>,
    normalize: Vec<String>,
    setup: String,
}

/// Path below the project, or a git command → content.
type Manifest = BTreeMap<String, Vec<u8>>;

/// The fixture projects, created once and copied for each line.
struct Fixtures {
    dir: tempfile::TempDir,
    path: String,
    lines: Vec<Line>,
}

impl Fixtures {
    /// Selects the wanted lines whose programs are installed.
    fn new(test: &str, wanted: fn(&Line) -> bool) -> Self {
        let text = std::fs::read_to_string(format!("{SHELL}/everyday.toml")).unwrap();
        let mut table: BTreeMap<String, Vec<Line>> = toml::from_str(&text).unwrap();
        let mut lines = table.remove("line").unwrap();
        lines.retain(wanted);
        let needs: BTreeSet<String> = lines.iter().flat_map(|line| line.needs.clone()).collect();
        let is_missing = |need: &String| {
            let check = match need.split_once(':') {
                Some((python, module)) => format!("{python} -c 'import {module}'"),
                None => format!("command -v {need}"),
            };
            !Command::new("bash").args(["-c", &check]).output().unwrap().status.success()
        };
        let missing: BTreeSet<String> = needs.into_iter().filter(is_missing).collect();
        let is_skipped = |line: &Line| line.needs.iter().any(|need| missing.contains(need));
        let (skipped, lines): (Vec<Line>, Vec<Line>) = lines.into_iter().partition(is_skipped);
        if !skipped.is_empty() {
            let ids: Vec<String> = skipped.into_iter().map(|line| line.id).collect();
            say(&format!("SKIPPED: {test}: without {missing:?}: {}", ids.join(" ")));
        }

        let dir = tempfile::tempdir().unwrap();
        // A version manager would look for its programs in HOME, so use their direct paths.
        let script = "rustc --print sysroot; python3 -c 'import sys; print(sys.base_prefix)'";
        let found = Command::new("bash").args(["-c", script]).output().unwrap();
        let found = String::from_utf8(found.stdout).unwrap();
        let mut path: String = found.lines().map(|prefix| format!("{prefix}/bin:")).collect();
        path.push_str(&std::env::var("PATH").unwrap());
        let projects: BTreeSet<&str> = lines.iter().map(|line| line.project.as_str()).collect();
        for project in projects {
            let at = dir.path().join("fixtures").join(project);
            let mut command = Command::new("bash");
            command.arg(format!("{SHELL}/projects.sh")).arg(project).arg(at);
            assert!(command.status().unwrap().success(), "fixture {project}");
        }
        Self { dir, path, lines }
    }

    /// Copies the line's project, with a home of its own. All copies have names of equal length.
    fn copy(&self, line: &Line, name: &str) -> Side {
        let root = self.dir.path().join(&line.id).join(name);
        std::fs::create_dir_all(root.join("home")).unwrap();
        std::fs::create_dir_all(root.join("tmp")).unwrap();
        let config = "[user]\nname = Ada\nemail = ada@example.com\n[init]\ndefaultBranch = main\n";
        std::fs::write(root.join("home/.gitconfig"), config).unwrap();
        let fixture = self.dir.path().join("fixtures").join(&line.project);
        let status = Command::new("cp").arg("-a").arg(fixture).arg(root.join("project")).status();
        assert!(status.unwrap().success());
        let side = Side { root: root.canonicalize().unwrap(), path: self.path.clone() };
        assert!(side.bash(&line.setup).status.success(), "setup of {}", line.id);
        side
    }

    /// Checks each line, two in parallel, and fails with all differences found.
    fn each(&self, check: impl Fn(&Line) -> Vec<String> + Sync) {
        let lines = Mutex::new(self.lines.iter());
        let reports = Mutex::new(Vec::new());
        let work = || {
            loop {
                let next = lines.lock().unwrap().next();
                let Some(line) = next else { break };
                let found = check(line);
                if !found.is_empty() {
                    let report = format!("{}: {}\n  {}", line.id, line.run, found.join("\n  "));
                    reports.lock().unwrap().push(report);
                }
                _ = std::fs::remove_dir_all(self.dir.path().join(&line.id));
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(work);
            scope.spawn(work);
        });
        let reports = reports.into_inner().unwrap();
        let (bad, all) = (reports.len(), self.lines.len());
        assert!(reports.is_empty(), "{bad} of {all} lines:\n\n{}", reports.join("\n\n"));
    }
}

/// A copy of a project.
struct Side {
    root: PathBuf,
    path: String,
}

impl Side {
    fn command(&self, program: &str, args: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(args).current_dir(self.root.join("project")).stdin(Stdio::null());
        command.env_clear().env("PATH", &self.path).env("LANG", "C.UTF-8");
        command.env("HOME", self.root.join("home")).env("TMPDIR", self.root.join("tmp"));
        command
    }

    /// Runs a line in bash with the environment that the agent gives to commands.
    fn bash(&self, line: &str) -> Output {
        let env = "TERM=dumb NO_COLOR=1 CI=1 GIT_TERMINAL_PROMPT=0 PAGER=cat AGENT=1";
        let env = env.split(' ').map(|pair| pair.split_once('=').unwrap());
        self.command("bash", &["-c", line]).envs(env).output().unwrap()
    }

    /// The envelope of a Bash call, and the reason if it was refused.
    fn call(&self, line: &str, args: &[&str]) -> (Value, Option<String>) {
        let input = json!({"command": line}).to_string();
        let mut command = self.command(AGENT, &["tool", "call", "Bash", &input, "--record", "-C"]);
        let output = command.arg(self.root.join("project")).args(args).output().unwrap();
        let envelope: Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|_| panic!("no envelope for {line}: {output:?}"));
        let code = envelope["error"]["code"].as_str().unwrap_or_default();
        let refusals = ["APPROVAL_REQUIRED", "COMMAND_BLOCKED", "ACCESS_DENIED", "USE_TOOL"];
        let text = format!("{code}: {}", envelope["text"]);
        let is_refused = refusals.contains(&code);
        (envelope, is_refused.then_some(text))
    }

    fn git(&self, args: &str) -> Vec<u8> {
        let args: Vec<&str> = args.split(' ').collect();
        self.command("git", &args).output().unwrap().stdout
    }

    /// All files except ignored ones, with these mode bits.
    fn files(&self, modes: u32, ignored: &dyn Fn(&str) -> bool) -> Manifest {
        let mut manifest = Manifest::new();
        walk(&self.root.join("project"), "", modes, ignored, &mut manifest);
        manifest
    }

    /// The state that a line leaves, except for files whose contents vary between runs.
    fn result(&self) -> Manifest {
        let is_cache = |path: &str| path.ends_with("__pycache__") || path == "target";
        let mut manifest = self.files(0o111, &is_cache);
        for args in ["log --format=%s", "branch", "tag", "stash list --format=x", "status -s"] {
            manifest.insert(format!("git {args}"), self.git(args));
        }
        manifest
    }

    /// Paths that git ignores.
    fn ignored(&self) -> BTreeSet<String> {
        let args = "ls-files -z --others --ignored --exclude-standard --directory";
        let text = String::from_utf8(self.git(args)).unwrap();
        text.split_terminator('\0').map(|path| path.trim_end_matches('/').to_owned()).collect()
    }
}

/// Adds the files below a directory, except ignored ones and `.git`.
fn walk(
    root: &Path,
    folder: &str,
    modes: u32,
    ignored: &dyn Fn(&str) -> bool,
    into: &mut Manifest,
) {
    for entry in std::fs::read_dir(root.join(folder)).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        let path = if folder.is_empty() { name.clone() } else { format!("{folder}/{name}") };
        if name == ".git" || ignored(&path) {
            continue;
        }
        let metadata = entry.metadata().unwrap();
        let mode = metadata.permissions().mode() & modes;
        let mut content = format!("{mode:o} ").into_bytes();
        if metadata.is_symlink() {
            let target = std::fs::read_link(entry.path()).unwrap();
            content = format!("link to {}", target.display()).into_bytes();
        } else if metadata.is_dir() {
            content.extend(b"folder");
            walk(root, &path, modes, ignored, into);
        } else {
            content.extend(std::fs::read(entry.path()).unwrap());
        }
        into.insert(path, content);
    }
}

/// One line for each differing entry, starting shortly before the first difference.
fn differences(expected: &Manifest, actual: &Manifest) -> Vec<String> {
    let paths: BTreeSet<&String> = expected.keys().chain(actual.keys()).collect();
    let unequal = paths.into_iter().filter(|path| expected.get(*path) != actual.get(*path));
    let report = |path: &String| {
        let (Some(a), Some(b)) = (expected.get(path), actual.get(path)) else {
            let what = if actual.contains_key(path) { "should not exist" } else { "is missing" };
            return format!("{path} {what}");
        };
        let equal = a.iter().zip(b).take_while(|(a, b)| a == b).count().saturating_sub(20);
        let show = |bytes: &[u8]| {
            let text = String::from_utf8_lossy(&bytes[equal..]).into_owned();
            text.chars().take(100).collect::<String>()
        };
        format!("{path}: {:?} instead of {:?}", show(b), show(a))
    };
    unequal.map(report).collect()
}

#[test]
#[ignore = "slow"]
fn everyday_commands_behave_as_in_bash() {
    let wanted = |line: &Line| line.expect.is_empty();
    let fixtures = Fixtures::new("everyday_commands_behave_as_in_bash", wanted);
    fixtures.each(|line| {
        let (bash, tool) = (fixtures.copy(line, "bash"), fixtures.copy(line, "tool"));
        let expected = bash.bash(&line.run);
        let (envelope, refusal) = tool.call(&line.run, &[]);
        if let Some(refusal) = refusal {
            return vec![refusal];
        }
        let data = &envelope["data"];
        // A redirected line is answered by Read in its own format.
        let is_redirected = !data["redirected_to"].is_null();
        let compares = |what: &str| {
            (line.compare.is_empty() || line.compare.iter().any(|compare| compare == what))
                && (what == "files" || !is_redirected)
        };
        let normal = |side: &Side, text: &str| {
            let text = text.replace(side.root.to_str().unwrap(), "ROOT");
            line.normalize.iter().fold(text, |text, pattern| {
                Regex::new(pattern).unwrap().replace_all(&text, "_").into_owned()
            })
        };
        let mut found = Vec::new();
        let stdout = normal(&bash, &String::from_utf8_lossy(&expected.stdout));
        let actual = normal(&tool, data["stdout"].as_str().unwrap_or_default());
        if compares("stdout") && stdout != actual {
            let stderr = &data["stderr"];
            found.push(format!("stdout: {actual:?} instead of {stdout:?}; stderr: {stderr}"));
        }
        let (exit, actual) = (expected.status.code(), &data["exit_code"]);
        if compares("exit") && exit.map(i64::from) != actual.as_i64() {
            found.push(format!("exit: {actual} instead of {exit:?}: {}", envelope["text"]));
        }
        if compares("files") {
            found.extend(differences(&bash.result(), &tool.result()));
        }
        found
    });
}

#[test]
#[ignore = "slow"]
fn everyday_commands_that_ask_or_are_blocked() {
    let wanted = |line: &Line| !line.expect.is_empty();
    let mut fixtures = Fixtures::new("everyday_commands_that_ask_or_are_blocked", wanted);
    // If one of them runs in spite of that, it runs a stub that does nothing.
    let stubs = fixtures.dir.path().join("stubs");
    std::fs::create_dir(&stubs).unwrap();
    let programs = "apt-get cargo curl docker mkfs.ext4 nano npm pip rm scp shutdown ssh sudo \
        systemctl tail top vim wget yes";
    for program in programs.split_whitespace() {
        let path = stubs.join(program);
        std::fs::write(&path, "#!/bin/sh\nexit 0\n").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    fixtures.path = format!("{}:{}", stubs.display(), fixtures.path);
    fixtures.each(|line| {
        let side = fixtures.copy(line, "tool");
        let before = side.result();
        let (envelope, _) = side.call(&line.run, &[]);
        let mut found = differences(&before, &side.result());
        let expected = match line.expect.as_str() {
            "asks" => "APPROVAL_REQUIRED",
            "never" => "COMMAND_BLOCKED",
            other => panic!("{}: expect = {other:?}", line.id),
        };
        let code = &envelope["error"]["code"];
        if code != expected {
            found.push(format!("{code} instead of {expected}: {}", envelope["text"]));
        }
        found
    });
}

#[test]
#[ignore = "slow"]
fn destructive_everyday_commands_can_be_undone() {
    let wanted = |line: &Line| line.destructive && line.expect.is_empty();
    let fixtures = Fixtures::new("destructive_everyday_commands_can_be_undone", wanted);
    fixtures.each(|line| {
        let side = fixtures.copy(line, "tool");
        let undo =
            |args: &[&str]| side.command(AGENT, &["session", "undo"]).args(args).output().unwrap();
        let help = String::from_utf8(undo(&["--help"]).stdout).unwrap();
        let flags: Vec<&str> =
            ["--yes", "--git"].into_iter().filter(|flag| help.contains(flag)).collect();
        let head = || side.git("rev-parse HEAD --symbolic-full-name HEAD");
        let (head_before, status) = (head(), side.git("status --porcelain"));
        let mut ignored = side.ignored();
        let before = side.files(0o7777, &|_| false);
        if let (_, Some(refusal)) = side.call(&line.run, &["--allow", "Bash"]) {
            return vec![refusal];
        }
        let changed = side.files(0o7777, &|_| false);
        let is_head_restored = flags.contains(&"--git") || head() == head_before;
        ignored.extend(side.ignored());
        let output = undo(&flags);

        // Ignored files need not be restored.
        let without_ignored = |mut files: Manifest| {
            let is_below = |path: &str, folder: &String| Path::new(path).starts_with(folder);
            files.retain(|path, _| !ignored.iter().any(|folder| is_below(path, folder)));
            files
        };
        let mut before = without_ignored(before);
        let has_changed = before != without_ignored(changed);
        let mut after = without_ignored(side.files(0o7777, &|_| false));
        // Refs are restored only if that option exists.
        if is_head_restored {
            before
                .extend([("git HEAD".to_owned(), head_before), ("git status".to_owned(), status)]);
            let status = side.git("status --porcelain");
            after.extend([("git HEAD".to_owned(), head()), ("git status".to_owned(), status)]);
        }
        let mut found = differences(&before, &after);
        if !found.is_empty() || has_changed && !output.status.success() {
            let stderr = String::from_utf8_lossy(&output.stderr);
            found.push(format!("undo: exit {:?}: {stderr}", output.status.code()));
        }
        found
    });
}
