//! "Always allow this": the rule that a person is shown, as narrow as sensible.

use super::Line;
use super::judge::{self, Class, GLOBAL_FLAGS, GLOBAL_VALUES};
use super::rule::Rule;
use super::shell::{How, Simple};
use crate::protocol::tool::Effect;

/// Programs whose first word says what they do: `cargo test`.
const HAS_VERBS: &[&str] = &[
    "cargo",
    "git",
    "npm",
    "pnpm",
    "yarn",
    "go",
    "dotnet",
    "mvn",
    "gradle",
    "gradlew",
    "mvnw",
    "make",
    "just",
    "task",
    "rake",
    "mix",
    "swift",
    "zig",
    "docker",
    "docker-compose",
    "podman",
    "podman-compose",
    "nerdctl",
    "kubectl",
    "oc",
    "helm",
    "terraform",
    "gh",
    "pip",
    "pip3",
    "uv",
    "poetry",
    "pipenv",
    "bundle",
    "composer",
    "rustup",
    "systemctl",
    "apt",
    "brew",
    "hatch",
    "nox",
    "tox",
    "nx",
    "turbo",
    "bazel",
    "buck2",
    "ninja",
    "meson",
    "stack",
    "cabal",
    "dune",
    "lein",
    "rails",
    "flutter",
    "dart",
    "ng",
];
/// Their words behind which another says what they do: `npm run test`.
const RUNNERS: &[&str] = &["run", "exec", "compose", "tool", "nextest"];
/// The same of some programs alone: `docker container ls`, `gh pr view`.
const GROUPS: &[(&[&str], &[&str])] = &[
    (
        &["docker", "podman", "nerdctl"],
        &[
            "builder",
            "buildx",
            "config",
            "container",
            "context",
            "image",
            "imagetools",
            "machine",
            "manifest",
            "network",
            "node",
            "pod",
            "secret",
            "service",
            "stack",
            "swarm",
            "system",
            "trust",
            "volume",
        ],
    ),
    (
        &["gh"],
        &[
            "attestation",
            "auth",
            "cache",
            "gist",
            "gpg-key",
            "issue",
            "label",
            "org",
            "pr",
            "project",
            "release",
            "repo",
            "ruleset",
            "search",
            "secret",
            "ssh-key",
            "variable",
            "workflow",
        ],
    ),
    (&["git"], &["bundle", "credential", "flow", "lfs", "maintenance", "notes", "sparse-checkout"]),
    (&["kubectl", "oc"], &["auth", "cluster-info", "create", "rollout", "set", "top"]),
    (
        &["helm"],
        &["dependency", "dep", "dependencies", "get", "registry", "repo", "search", "show"],
    ),
    (&["uv"], &["auth", "cache", "pip", "python", "self"]),
    (
        &["npm", "pnpm", "yarn"],
        &[
            "access", "cache", "dist-tag", "env", "global", "hook", "npm", "org", "owner", "patch",
            "pkg", "plugin", "profile", "store", "team", "token",
        ],
    ),
    (&["cargo"], &["component", "hack", "make"]),
    (&["rustup"], &["component", "override", "self", "target", "toolchain"]),
    (&["go"], &["mod", "telemetry", "work"]),
    (&["dotnet"], &["nuget", "package", "reference", "sln", "workload"]),
    (&["terraform"], &["providers", "state", "workspace"]),
    (&["pip", "pip3"], &["cache", "index"]),
    (&["poetry"], &["cache", "env", "python", "self", "source"]),
    (&["bundle"], &["plugin"]),
    (&["brew"], &["bundle", "services"]),
    (&["hatch"], &["config", "dep", "env", "project", "python", "self"]),
    (&["swift"], &["package", "sdk"]),
    (&["flutter", "dart"], &["pub", "global"]),
];
/// Programs that run what they are given: a rule for them would allow anything.
const RUN_ANYTHING: &[&str] = &[
    "env",
    "xargs",
    "sudo",
    "doas",
    "sh",
    "bash",
    "zsh",
    "dash",
    "ksh",
    "fish",
    "eval",
    "source",
    ".",
    "exec",
    "command",
    "builtin",
    "nohup",
    "timeout",
    "nice",
    "time",
    "setsid",
    "stdbuf",
    "find",
    "fd",
    "parallel",
    "watch",
    "ssh",
    "python",
    "python3",
    "node",
    "perl",
    "ruby",
    "php",
    "lua",
    "deno",
    "bun",
    "npx",
    "awk",
    "gawk",
    "busybox",
    "trap",
    "alias",
    "flock",
    "strace",
    "pypy",
    "tclsh",
    "expect",
    "Rscript",
    "julia",
    "guile",
    "gdb",
    "lldb",
    "script",
    "chroot",
    "unshare",
    "nsenter",
    "ionice",
    "chrt",
    "taskset",
    "systemd-run",
    "pkexec",
    "runuser",
    "su",
    "vi",
    "vim",
    "nvim",
    "ed",
    "ex",
    "emacs",
    "entr",
    // What they give to variables is what other commands are told, or are.
    "export",
    "declare",
    "typeset",
    "readonly",
    "local",
    "mapfile",
    "readarray",
    "complete",
    "compgen",
    "enable",
    "bind",
    "fc",
    "hash",
    "coproc",
    "set",
    "shopt",
    "wait",
    "read",
    "getopts",
    "unset",
    "make",
    "bmake",
    "nodejs",
    "toybox",
    "setpriv",
    "numactl",
    "direnv",
    "dotenv",
    "cross-env",
    "hyperfine",
    "m4",
    "cmake",
    "ctest",
    "ipython",
    "jshell",
    "groovy",
    "scala",
    "kotlin",
    "elixir",
    "iex",
    "erl",
    "ghci",
    "runghc",
    "R",
    "octave",
    "swipl",
    "ocaml",
    "racket",
    "sbcl",
    "tsx",
    "ts-node",
    "java",
    "pyenv",
    "rbenv",
    "nodenv",
    "nvm",
    "asdf",
    "fnm",
    "goenv",
    "jenv",
    "volta",
    "mise",
    "rtx",
    "catchsegv",
    "i386",
    "linux32",
    "linux64",
    "nocache",
    "setarch",
    "winpty",
    "x86_64",
    "fakeroot",
    "chpst",
    "capsh",
    "cross-env-shell",
    "dumb-init",
    "eatmydata",
    "env-cmd",
    "envdir",
    "envuidgid",
    "gosu",
    "proxychains",
    "proxychains4",
    "rlwrap",
    "setuidgid",
    "softlimit",
    "ssh-agent",
    "su-exec",
    "tini",
    "luajit",
    "nim",
    "crystal",
    "pixi",
    "rye",
    "micromamba",
    "dagger",
    "invoke",
    "guix",
    "hg",
    "jj",
    "svn",
    "pre-commit",
    "fakechroot",
    "faketime",
    "proot",
    "ltrace",
    "prlimit",
    "xvfb-run",
    "dbus-run-session",
    "unbuffer",
    "bwrap",
    "firejail",
    // A line of theirs may name a program: `.shell`, `\\!`, `COPY … TO PROGRAM`.
    "psql",
    "mysql",
    "mariadb",
    "sqlite3",
    "sqlite",
    "duckdb",
    "mongosh",
];
/// An option or a word of theirs names what they run, and their input is no more than data: `sort
/// --compress-program=…`, `sed 1e…`, `tar --checkpoint-action=…`, `rg --pre …`, `man -P …`.
const OPTIONS_RUN_ANYTHING: &[&str] = &[
    "sed",
    "awk",
    "gawk",
    "mawk",
    "nawk",
    "tar",
    "bsdtar",
    "zip",
    "valgrind",
    "sort",
    "split",
    "man",
    "less",
    "more",
    "most",
    "bat",
    "batcat",
    "rg",
    "ag",
    "ack",
    "perf",
    "coverage",
    "gcc",
    "ld",
    "latexmk",
    "pandoc",
    "protoc",
    "ssh-keygen",
    "kubectl",
];
/// Words of programs behind which anything can be run, or with which is set what they run.
const WIDE_VERBS: &[(&[&str], &[&str])] = &[
    (
        &["git"],
        &[
            "ls-remote",
            "push",
            "fetch",
            "fetch-pack",
            "send-pack",
            "pull",
            "clone",
            "init",
            "grep",
            "config",
            "archive",
            "rebase",
            "bisect",
            "submodule",
            "difftool",
            "mergetool",
            "filter-branch",
            "send-email",
            "for-each-repo",
            "shell",
            "hook",
            "daemon",
            "upload-pack",
            "receive-pack",
            "http-backend",
            "credential",
            "instaweb",
            "maintenance",
            "web--browse",
            "remote-ext",
            "svn",
            "p4",
        ],
    ),
    (
        &["docker", "docker-compose", "podman", "podman-compose", "nerdctl", "kubectl", "oc"],
        &[
            "exec", "run", "rsh", "debug", "create", "build", "bake", "attach", "play", "kube",
            "cp", "plugin", "config", "up",
        ],
    ),
    (
        &["npm", "pnpm", "yarn"],
        &[
            "dlx",
            "exe",
            "exec",
            "x",
            "create",
            "init",
            "explore",
            "config",
            "set",
            "node",
            "m",
            "multi",
            "recursive",
            "workspace",
            "workspaces",
            "foreach",
            "plugin",
            "env",
        ],
    ),
    (&["gh"], &["extension", "ext", "alias", "api", "codespace", "config"]),
    (&["helm"], &["plugin", "template"]),
    (&["rustup"], &["run"]),
    (&["go"], &["env"]),
    (&["pip", "pip3", "poetry", "bundle", "composer"], &["config"]),
    (&["poetry"], &["self"]),
    (&["bundle", "brew"], &["plugin", "bundle", "sh", "ruby"]),
    (&["composer"], &["global"]),
    (&["hatch"], &["env", "shell"]),
    (&["flutter", "dart"], &["global"]),
    (&["swift"], &["repl"]),
    (&["tox"], &["exec", "e", "devenv"]),
    (&["meson"], &["devenv"]),
    (&["stack"], &["eval", "ghc", "ghci", "repl", "runghc", "runhaskell", "script"]),
    (&["cabal"], &["repl", "v2-exec", "v2-repl"]),
    (&["dune"], &["utop", "top", "ocaml"]),
    (&["lein"], &["do", "exec", "repl", "trampoline", "update-in"]),
    (&["mix"], &["cmd", "do", "eval", "run"]),
    (&["rails"], &["runner", "r", "console", "c", "new"]),
    (&["cargo"], &["make", "watch", "hack"]),
];

/// Why there is no rule where the words before a verb are not known.
const UNREAD: &str = "no pattern fits these words before what the program is told to do";

/// The rules that would allow this call from now on, each as a person would write it: for a command one
/// for each simple command in it, for a file tool the file. `None` where no rule narrower than the whole
/// tool fits, or none should be kept: what can not be undone is asked about each time.
pub fn propose(tool: &str, effect: &Effect) -> Option<Vec<String>> {
    match effect {
        Effect::Read { path } | Effect::Write { path } => Some(vec![rule_for_file(tool, path)?]),
        Effect::Job { .. } | Effect::Plan => None,
        Effect::Command { command, .. } => {
            let line = Line::read(command);
            if !line.is_known()
                || judge::has(&line, Class::Destructive)
                || judge::has(&line, Class::Never)
            {
                return None;
            }
            let mut rules: Vec<String> = Vec::new();
            for n in 0..line.script().commands.len() {
                let rule = rule_for(&line, n).ok()?;
                if !rules.contains(&rule) {
                    rules.push(rule);
                }
            }
            (!rules.is_empty()).then_some(rules)
        }
    }
}

/// The rule for one file.
pub(super) fn rule_for_file(tool: &str, path: &str) -> Option<String> {
    // What would be a pattern in a rule is none in a name.
    let is_plain = !path.contains(['*', '?', '[', ']', '{', '}', '(', ')', '\\']) && path != ".";
    // A name alone would fit in any folder.
    let root = if path.contains('/') { "" } else { "./" };
    is_plain.then(|| format!("{tool}({root}{path})"))
}

/// The rule for one simple command of a line: its program and what it is told to do, or all of its words where it
/// would run whatever it is given. Else why there is none.
pub(super) fn rule_for(line: &Line, n: usize) -> Result<String, &'static str> {
    let simple = &line.script().commands[n];
    let rule = rule_of(simple)?;
    if !judge::talks(line, n) || says_network(&rule) {
        return Ok(rule);
    }
    // `git remote add -f`: what it is told to do by itself needs no network.
    let exact = exact(simple).filter(|rule| says_network(rule));
    exact.ok_or("no pattern says which machines it talks to")
}

/// What the rule says by itself talks to other machines. What it lets through besides was not asked about: whoever
/// agreed to `git remote add` did not agree to `git remote add -f`.
pub(super) fn gives_network(rule: &Rule) -> bool {
    let quoted = |word: &String| format!("'{}'", word.replace('\'', "'\\''"));
    let words: Vec<String> = rule.leading().iter().map(quoted).collect();
    judge::has(&Line::part(&words.join(" ")), Class::Network)
}

fn says_network(rule: &str) -> bool {
    Rule::parse(rule).is_ok_and(|rule| gives_network(&rule))
}

fn rule_of(simple: &Simple) -> Result<String, &'static str> {
    if simple.redirects.iter().any(|to| to.writes().is_some()) {
        return Err("no pattern fits a redirection into a file: the Write tool can write it");
    }
    if !simple.assignments.is_empty() || simple.words.is_empty() {
        return Err("no pattern fits variables set before a command");
    }
    let is_word = |text: &str| {
        !text.starts_with('-')
            && text.chars().all(|char| char.is_ascii_alphanumeric() || "_./:+@-".contains(char))
    };
    let Some(program) = simple.words[0].known().filter(|text| is_word(text)) else {
        return Err("no pattern fits a program that is known only when it runs");
    };
    let mut leading = vec![program];
    let name = program.rsplit('/').next().unwrap_or(program);
    let mut verbs = vec![name];
    let mut words = simple.words.iter().skip(1);
    let is_group = |word: &str| any(GROUPS, name, word) || judge::has_more_behind(name, word);
    let says_more = |word: &str| RUNNERS.contains(&word) || is_group(word);
    while HAS_VERBS.contains(&name) && (verbs.len() == 1 || says_more(verbs[verbs.len() - 1])) {
        let Some(word) = words.next() else { break };
        // The options before a verb belong to the rule: elsewhere, or told otherwise, it may do something else.
        match word.known() {
            Some(text) if is_word(text) => {
                leading.push(text);
                if !text.starts_with('+') {
                    verbs.push(text);
                }
            }
            Some(text) if is_known(GLOBAL_FLAGS, &verbs, text) => leading.push(text),
            Some(text) if is_known(GLOBAL_VALUES, &verbs, text) => {
                leading.push(text);
                if !text.contains('=') {
                    let value = words.next().and_then(|word| word.known());
                    leading.push(value.ok_or(UNREAD)?);
                }
            }
            _ => return exact(simple).ok_or(UNREAD),
        }
    }
    // (Of a group without a word behind it, it is not known what it does.)
    let is_open = verbs.len() == 1 && leading.len() > 1
        || verbs.len() > 1 && is_group(verbs[verbs.len() - 1]);
    if is_open || !leading.iter().all(|word| can_say(word)) {
        return exact(simple).ok_or(UNREAD);
    }
    let behind_runner = verbs.len() > 2;
    let asked = || verbs.last().filter(|_| behind_runner);
    let runs = |list: &[&str]| is_one(list, name) || asked().is_some_and(|word| is_one(list, word));
    let is_given_code = simple.reads_pipe
        || simple.redirects.iter().any(|to| matches!(to.how, How::Read | How::Text));
    if runs(RUN_ANYTHING) && is_given_code {
        return Err("no pattern fits what a program that runs anything is given as its input");
    }
    let talks = !HAS_VERBS.contains(&name) && judge::can_be(name, Class::Network);
    if runs(RUN_ANYTHING)
        || runs(OPTIONS_RUN_ANYTHING)
        || talks
        || verbs.iter().skip(1).any(|verb| any(WIDE_VERBS, name, verb))
    {
        return exact(simple).ok_or("no pattern fits these words of a program that runs anything");
    }
    Ok(format!("Bash({} *)", leading.join(" ")))
}

/// The program is one of these: `python3.12` is `python`, and `gsed` is GNU's.
fn is_one(list: &[&str], program: &str) -> bool {
    let is_version = |char: char| char.is_ascii_digit() || matches!(char, '.' | '-');
    let plain = program.trim_end_matches(is_version);
    let names = [Some(program), Some(plain), plain.strip_prefix('g')];
    names.into_iter().flatten().any(|name| list.contains(&name)) || program.starts_with("ld-linux")
}

/// The word stands in the table for this program.
fn any(table: &[(&[&str], &[&str])], program: &str, word: &str) -> bool {
    table.iter().any(|(programs, words)| programs.contains(&program) && words.contains(&word))
}

/// The command with all of its words, where a pattern can say them.
fn exact(simple: &Simple) -> Option<String> {
    let words: Option<Vec<&str>> = simple.words.iter().map(|word| word.known()).collect();
    let words = words?;
    words.iter().all(|word| can_say(word)).then(|| format!("Bash({})", words.join(" ")))
}

/// A pattern can hold this word, and mean nothing else by it.
fn can_say(word: &str) -> bool {
    !word.is_empty() && !word.contains(['*', ' ', '\t', '\n', ')'])
}

/// An option that stands in the table for a program behind these words, also with its value: `--file=x`.
fn is_known(table: &[(&str, &[&str])], verbs: &[&str], option: &str) -> bool {
    let name = match option.split_once('=') {
        Some((name, _)) if name.starts_with("--") => name,
        _ => option,
    };
    let of = verbs.join(" ");
    table.iter().any(|(program, options)| *program == of && options.contains(&name))
}
