//! Tables of the policy: the ruling and the rule that decided.

use super::*;
use agent_protocol::control::Grant;
use agent_protocol::event::{EventBody, SessionRule};
use agent_protocol::tool::{CommandRights, GitConfigAccess};

/// Each rule is a verb and a pattern, as `allow Bash(ls *)`, `--deny Write`, `user ask Bash`: with
/// `--` from the command line, with `user` from the user's configuration, otherwise from the
/// project's.
fn policy(mode: PermissionMode, rules: &[&str]) -> Policy {
    with_rules(Policy::new(mode, false), rules)
}

fn with_rules(policy: Policy, rules: &[&str]) -> Policy {
    rules.iter().fold(policy, |policy, text| {
        let (origin, rest) = match (text.strip_prefix("--"), text.strip_prefix("user ")) {
            (Some(rest), _) => (RuleOrigin::CommandLine, rest),
            (None, Some(rest)) => (RuleOrigin::UserFile, rest),
            (None, None) => (RuleOrigin::ProjectFile, *text),
        };
        let (verb, rule) = rest.split_once(' ').expect("a verb and a rule");
        let verb = match verb {
            "allow" => RuleAction::Allow,
            "ask" => RuleAction::Ask,
            _ => RuleAction::Deny,
        };
        policy.with_rules(verb, origin, [Rule::parse(rule).expect("a rule")])
    })
}

fn bash(line: &str) -> (&'static str, Effect) {
    let reads_only = CommandLine::parse(line).is_read_only();
    let (command, directory) = (line.to_owned(), ".".to_owned());
    (
        "Bash",
        Effect::Command {
            command,
            directory,
            reads_only,
            programs: Vec::new(),
            unproven: Vec::new(),
            background: false,
        },
    )
}

fn write(path: &str) -> (&'static str, Effect) {
    ("Write", Effect::Write { path: path.to_owned() })
}

fn read(path: &str) -> (&'static str, Effect) {
    ("Read", Effect::Read { path: path.to_owned() })
}

/// A project in which names with `local` are ignored; `/added` is writable.
struct Facts;

impl PathFacts for Facts {
    fn kind(&self, path: &str) -> PathKind {
        match path {
            "" => PathKind::Project,
            ".git" => PathKind::Git,
            "/" | "~" | "/home" | ".." => PathKind::HomeOrAbove,
            _ if path.starts_with("/added") => PathKind::Outside,
            _ if path.starts_with("/tmp") || path.starts_with("/var/tmp") => PathKind::Temporary,
            _ if path.starts_with(['/', '~']) || path.starts_with("..") => PathKind::Elsewhere,
            _ if path.contains("new") || path == "origin" => PathKind::Missing,
            _ if path.contains("node_modules") => PathKind::Covered,
            _ if path.contains("local") => PathKind::Uncovered,
            _ => PathKind::Covered,
        }
    }

    fn expand_pattern(&self, directory: &str, pattern: &str) -> Vec<String> {
        let is_it = directory.is_empty() && pattern == "lo*";
        if is_it { vec!["local".to_owned()] } else { Vec::new() }
    }
}

/// `allow`, `ask`, or the error code, and the rule that decided.
fn shown(ruling: &Ruling) -> String {
    match ruling {
        Ruling::Allow(reason) => format!("allow: {}", reason.rule),
        Ruling::Ask(reason) => format!("ask: {}", reason.rule),
        Ruling::Refuse(code, reason) => format!("{}: {}", code.as_str(), reason.rule),
    }
}

fn check(
    mode: PermissionMode,
    rules: &[&str],
    (tool, effect): &(&'static str, Effect),
    expected: &str,
) {
    let ruling = policy(mode, rules).rule_on(tool, effect, &Facts);
    assert_eq!(shown(&ruling), expected, "{mode:?} {rules:?} {effect:?}");
}

fn check_sandboxed(mode: PermissionMode, rules: &[&str], line: &str, expected: &str) {
    let (tool, effect) = bash(line);
    let ruling = with_rules(Policy::new(mode, true), rules).rule_on(tool, &effect, &Facts);
    assert_eq!(shown(&ruling), expected, "{mode:?} {rules:?} {line}");
}

use PermissionMode::{Ask, AutoEdit, Full, ReadOnly};

#[test]
fn dangers_are_named() {
    let table: [(&str, &[&str]); 15] = [
        ("kubectl delete --dry-run=client pod x", &["runs kubectl outside the sandbox"]),
        ("helm uninstall --dry-run shop", &[]),
        ("helm uninstall --help", &[]),
        ("touch a && rm -rf new src/*.o", &[]),
        ("cd src && rm -rf a b", &["deletes src/a", "deletes src/b"]),
        ("rm a.local", &["deletes a.local", "cannot be undone"]),
        ("rm 1 2 3 4 5", &["deletes 1 and 4 paths more"]),
        ("git clean -fdx", &["deletes ignored files, which a checkpoint may not cover"]),
        ("docker ps", &["runs docker outside the sandbox"]),
        ("git push origin main", &[]),
        ("git push --force origin main", &["overwrites origin/main"]),
        ("git push -f", &["overwrites branches of the remote repository"]),
        ("git push --delete origin old", &["deletes origin/old"]),
        ("git push origin +x:main", &["overwrites or deletes origin/main"]),
        ("helm uninstall shop", &["deletes what the service has"]),
    ];
    for (line, dangers) in table {
        let (_, effect) = bash(line);
        assert_eq!(Policy::new(Ask, true).describe_dangers(&effect, &Facts), dangers, "{line}");
    }
}

#[test]
fn mode_decides_without_a_matching_rule() {
    let table = [
        (
            ReadOnly,
            "allow: mode read-only",
            "ACCESS_DENIED: mode read-only",
            "ACCESS_DENIED: mode read-only",
        ),
        (Ask, "allow: mode ask", "ask: mode ask", "ask: mode ask"),
        (AutoEdit, "allow: mode auto-edit", "allow: mode auto-edit", "ask: mode auto-edit"),
        (Full, "allow: mode full", "allow: mode full", "allow: mode full"),
    ];
    for (mode, reading, writing, running) in table {
        check(mode, &[], &read("a.rs"), reading);
        check(mode, &[], &write("a.rs"), writing);
        check(mode, &[], &bash("make"), running);
        // Read-only commands also run without a sandbox.
        check(mode, &[], &bash("git status | head"), reading);
        check(mode, &[], &("TodoWrite", Effect::Plan), reading);
    }
    for (mode, line, expected) in [
        (AutoEdit, "make", "allow: mode auto-edit"),
        (ReadOnly, "make", "allow: mode read-only"),
        (Ask, "make", "ask: mode ask"),
        (Ask, "git status", "allow: mode ask"),
        (AutoEdit, "eval \"$x\"", "allow: mode auto-edit"),
        (Ask, "eval \"$x\"", "ask: mode ask"),
        (AutoEdit, "a 'b", "allow: mode auto-edit"),
        (Ask, "ls 'b", "ask: mode ask"),
    ] {
        check_sandboxed(mode, &[], line, expected);
    }
}

#[test]
fn irreversible_commands_ask() {
    for (line, expected) in [
        ("git push", "ask: network"),
        ("curl https://example.com", "ask: network"),
        ("curl http://localhost:3000/x", "allow: mode auto-edit"),
        ("curl 127.0.0.1:3000 example.com", "ask: network"),
        ("git clone ./sub x", "allow: mode auto-edit"),
        ("docker ps", "ask: outside"),
        ("git config user.name x", "ask: git config"),
        ("git remote set-url origin x", "ask: git config"),
        ("git checkout -b x", "allow: mode auto-edit"),
        ("rm -rf src", "allow: mode auto-edit"),
        ("rm -rf local", "ask: not undoable"),
        ("rm lo*", "ask: not undoable"),
        ("cd d && rm ../lo*", "ask: not undoable"),
        ("rm -rf local/node_modules", "allow: mode auto-edit"),
        ("cd local && rm x", "ask: not undoable"),
        ("rm /added/x", "ask: not undoable"),
        ("mv a.txt /added", "ask: not undoable"),
        ("rm /tmp/x", "allow: mode auto-edit"),
        ("git reset --hard", "allow: mode auto-edit"),
        ("git clean -fdx", "ask: not undoable"),
        ("git clean -fd", "allow: mode auto-edit"),
        ("git clean -ffd", "ask: not undoable"),
        ("git clean -f -d --force", "ask: not undoable"),
        ("git clean -ffdn", "allow: mode auto-edit"),
        ("timeout 5 sh -c 'rm local/x'", "ask: not undoable"),
        ("find local -exec rm {} +", "ask: not undoable"),
    ] {
        check_sandboxed(AutoEdit, &[], line, expected);
        check_sandboxed(Full, &[], line, "allow: mode full");
        check_sandboxed(AutoEdit, &["--allow Bash"], line, "allow: --allow Bash");
    }
    // Read-only mode: nothing can be changed anyway.
    check_sandboxed(ReadOnly, &[], "rm -rf local", "allow: mode read-only");
    check_sandboxed(ReadOnly, &[], "git push", "ask: network");
}

#[test]
fn ruling_considers_the_directory_argument() {
    let asks = |directory: &str, line: &str| {
        let (command, directory) = (line.to_owned(), directory.to_owned());
        let effect = Effect::Command {
            command,
            directory,
            reads_only: false,
            programs: Vec::new(),
            unproven: Vec::new(),
            background: false,
        };
        shown(&Policy::new(AutoEdit, true).rule_on("Bash", &effect, &Facts))
    };
    assert_eq!(asks("local", "rm x"), "ask: not undoable");
    assert_eq!(asks("sub", "rm -rf .."), "COMMAND_BLOCKED: never");
    assert_eq!(asks("sub", "rm -rf ."), "allow: mode auto-edit");
}

/// A temporary directory may be removed at the end of the session; a destination that is not known
/// may be one.
#[test]
fn moving_an_uncovered_file_into_a_temporary_or_unknown_directory_asks() {
    for (line, expected) in [
        ("mv local /tmp/x", "ask: not undoable"),
        ("mkdir /tmp/new && mv local /tmp/new/", "ask: not undoable"),
        ("mv -t /var/tmp local", "ask: not undoable"),
        ("mv -t/tmp local", "ask: not undoable"),
        ("mv --target-directory=/tmp local", "ask: not undoable"),
        ("mv local \"$TMPDIR/x\"", "ask: not undoable"),
        ("b=$(mktemp -d) && mv local \"$b\"/", "ask: not undoable"),
        ("mv local /tmp/x-$(date +%F)", "ask: not undoable"),
        ("mv local \"sub/x-$(date +%F)\"", "allow: mode auto-edit"),
        ("mv local \"x-$n\"", "allow: mode auto-edit"),
        ("mv local ../elsewhere", "allow: mode auto-edit"),
        ("mv local ..", "ask: not undoable"),
        ("mv local/x sub/", "allow: mode auto-edit"),
        ("mv a.txt \"$b\"/", "allow: mode auto-edit"),
        ("mv a.txt /tmp/x", "allow: mode auto-edit"),
        ("mv a.txt b.txt", "allow: mode auto-edit"),
    ] {
        let (tool, effect) = bash(line);
        let ruling = Policy::new(AutoEdit, true).rule_on(tool, &effect, &Facts);
        assert_eq!(shown(&ruling), expected, "{line}");
    }
}

#[test]
fn without_checkpoints_destructive_commands_ask() {
    for line in [
        "rm a.txt",
        "mv a.txt b.txt",
        "git reset --hard",
        "git restore .",
        "git checkout -- .",
        "git clean -fd",
        "sed -i s/a/b/ a.txt",
        "truncate -s 0 a.txt",
        "shred a.txt",
        "find . -name x -delete",
        "dd if=/dev/zero of=a.txt",
    ] {
        let (tool, effect) = bash(line);
        let mut policy = Policy::new(AutoEdit, true);
        policy.set_checkpoints(false);
        assert_eq!(shown(&policy.rule_on(tool, &effect, &Facts)), "ask: destructive", "{line}");
        check_sandboxed(AutoEdit, &[], line, "allow: mode auto-edit");
    }
    let (tool, effect) = bash("git restore --staged a.txt; make > x");
    let mut policy = Policy::new(AutoEdit, true);
    policy.set_checkpoints(false);
    assert_eq!(shown(&policy.rule_on(tool, &effect, &Facts)), "allow: mode auto-edit");
}

#[test]
fn every_command_of_a_line_must_be_allowed() {
    let rules = ["--allow Bash(cargo test*)", "--allow Bash(tail *)"];
    let cargo = "allow: --allow Bash(cargo test*)";
    for line in [
        "cargo test --lib",
        "cargo test 2>&1 | tail -50",
        "cargo test >/dev/null",
        "cargo test; git status",
        "timeout 60 cargo test",
        "bash -c 'cargo test'",
    ] {
        check(AutoEdit, &rules, &bash(line), cargo);
    }
    for line in [
        "cargo build",
        "cargo test; touch y",
        "cargo test && touch x",
        "cargo test | sh -s x",
        "cargo test > src/a.rs",
        "cargo test $(touch x)",
        "cargo test `touch x`",
        "cargo test & touch x",
        "cargo test\ntouch x",
        "PATH=. cargo test",
        "env X=1 cargo test",
        "",
    ] {
        check(AutoEdit, &rules, &bash(line), "ask: mode auto-edit");
    }
    for line in ["cargo test > src/a.rs", "a $(b)", "if a; then b; fi", "a &"] {
        check(AutoEdit, &["--allow Bash"], &bash(line), "allow: --allow Bash");
        check(AutoEdit, &["--allow Bash(*)"], &bash(line), "allow: --allow Bash(*)");
    }
}

#[test]
fn deny_rule_matches_any_command_of_a_line() {
    let rule = "deny Bash(git push*)";
    for line in [
        "git -C . push",
        "git --no-pager -c a.b=c push origin",
        "git push",
        "git push --force",
        "a && git push",
        "a | env X=1 git push",
        "/usr/bin/git push",
        "bash -c 'git push'",
        "a $(git push)",
        "if a; then git push; fi",
        "X=1 git push",
        "find . -exec git push ';'",
    ] {
        let expected = "COMMAND_BLOCKED: deny Bash(git push*) (project configuration)";
        check(AutoEdit, &[rule, "--allow Bash"], &bash(line), expected);
        check(Full, &[rule], &bash(line), expected);
    }
    check(Full, &[rule], &bash("git status"), "allow: mode full");
    check(Full, &[rule], &bash("echo 'git push'"), "allow: mode full");
    for (rule, line) in [
        ("Bash(npm publish *)", "npm --registry http://x publish"),
        ("Bash(make deploy *)", "make -C sub deploy"),
        ("Bash(docker compose down *)", "docker compose -f a down"),
        ("Bash(gh pr merge *)", "gh pr -R a/b merge 1"),
        ("Bash(npm run deploy:*)", "npm run deploy:prod"),
    ] {
        let rules = [format!("--deny {rule}")];
        let expected = format!("COMMAND_BLOCKED: --deny {rule}");
        check(Full, &[&rules[0]], &bash(line), &expected);
    }
}

#[test]
fn precedence_is_never_deny_command_line_ask_file_mode() {
    let sudo = bash("sudo ls");
    check(Full, &["--allow Bash"], &sudo, "COMMAND_BLOCKED: never");
    check(Full, &["--allow Write"], &write(".git/config"), "ACCESS_DENIED: never");
    let make = bash("make");
    check(
        Full,
        &["--deny Bash(make)", "--allow Bash"],
        &make,
        "COMMAND_BLOCKED: --deny Bash(make)",
    );
    let both = ["user ask Bash(make)", "user allow Bash(make)"];
    check(Full, &both, &make, "ask: ask Bash(make) (user configuration)");
    check(
        AutoEdit,
        &["user ask Bash(make)", "--allow Bash(make)"],
        &make,
        "allow: --allow Bash(make)",
    );
    check(
        AutoEdit,
        &["allow Bash(make)"],
        &make,
        "allow: allow Bash(make) (project configuration)",
    );
    check(ReadOnly, &["--allow Bash(make)"], &make, "allow: --allow Bash(make)");
    check(
        AutoEdit,
        &["ask Bash(rm *)", "--allow Bash(env)"],
        &bash("make; xargs rm x"),
        "ask: ask Bash(rm *) (project configuration)",
    );
}

#[test]
fn config_allow_rules_cover_risky_commands_only_if_specific() {
    let push = bash("git push origin main");
    for mode in [Ask, AutoEdit] {
        check(mode, &["allow Bash"], &push, "ask: network");
        check(
            mode,
            &["user allow Bash(git push *)"],
            &push,
            "allow: allow Bash(git push *) (user configuration)",
        );
        check(mode, &["--allow Bash"], &push, "allow: --allow Bash");
    }
    check(Full, &["ask Bash(git push)"], &push, "ask: ask Bash(git push) (project configuration)");
}

#[test]
fn rights_depend_on_the_command_and_on_who_allowed_it() {
    let none = CommandRights::default();
    let read_only = CommandRights { read_only: true, ..none };
    let network = CommandRights { network: true, ..none };
    let fetches = CommandRights { git_config: GitConfigAccess::Compared, ..network };
    let git_config = CommandRights { git_config: GitConfigAccess::Compared, ..none };
    let granted = CommandRights { git_config: GitConfigAccess::Granted, ..none };
    let outside = CommandRights { unsandboxed: true, ..none };
    for (mode, rules, line, by_person, expected) in [
        (AutoEdit, &[][..], "git status | head", false, read_only),
        (AutoEdit, &[], "git status > x", false, none),
        (AutoEdit, &[], "make", false, none),
        (AutoEdit, &[], "make", true, none),
        (AutoEdit, &[], "git fetch", true, fetches),
        (AutoEdit, &["--allow Bash(git fetch *)"], "git fetch | tail", false, fetches),
        (AutoEdit, &["--allow Bash(git fetch *)"], "git fetch && make", false, none),
        (AutoEdit, &["--allow Bash"], "git fetch && make", false, network),
        (AutoEdit, &["allow Bash"], "git fetch", false, git_config),
        (AutoEdit, &[], "git checkout -b x", false, git_config),
        (AutoEdit, &[], "git checkout -b x && make", false, none),
        (AutoEdit, &[], "git -c core.pager=x switch y", false, git_config),
        (AutoEdit, &[], "git pull ../x main", false, git_config),
        (AutoEdit, &[], "git checkout x && git status", false, git_config),
        (AutoEdit, &[], "cd sub && git checkout x", false, git_config),
        (AutoEdit, &[], "git -C sub checkout x", false, git_config),
        (AutoEdit, &[], "git checkout x > y", false, none),
        (AutoEdit, &["--allow Bash(git pull *)"], "git pull", false, fetches),
        (AutoEdit, &[], "git config a.b c", true, granted),
        (AutoEdit, &[], "git remote set-url x y && make", true, granted),
        (AutoEdit, &["--allow Bash(git config *)"], "git config a.b c", false, granted),
        (AutoEdit, &["--allow Bash(docker *)"], "docker ps | cat", false, outside),
        (AutoEdit, &["--allow Bash(docker *)"], "docker ps; make", false, none),
        (AutoEdit, &["--allow Bash(docker *)"], "docker ps && git push", false, none),
        (Full, &[], "make", false, none),
        (Full, &[], "curl https://x.org", false, network),
        (Full, &[], "docker ps", false, CommandRights { unsandboxed: true, ..none }),
        (ReadOnly, &["--allow Bash"], "make", false, read_only),
        (ReadOnly, &["--allow Bash"], "docker ps", true, read_only),
        (
            ReadOnly,
            &["--allow Bash"],
            "git fetch",
            false,
            CommandRights { network: true, ..read_only },
        ),
    ] {
        let (tool, effect) = bash(line);
        let policy = with_rules(Policy::new(mode, true), rules);
        let rights = policy.command_rights(tool, &effect, by_person, &Facts);
        assert_eq!(rights, expected, "{mode:?} {rules:?} {line} {by_person}");
    }
    let (tool, effect) = write("a.rs");
    assert_eq!(Policy::new(Full, true).command_rights(tool, &effect, true, &Facts), none);
}

#[test]
fn denied_paths_are_literal_paths_of_deny_rules() {
    let rules = [
        "--deny Read(secret.txt)",
        "deny Grep(/etc/x)",
        "deny Edit(tests/**)",
        "deny Write(./a.rs)",
        "deny Edit(tests)",
        "deny Edit(src/*.rs)",
        "deny Read(~/x)",
        "allow Read(b)",
        "deny Bash(rm)",
    ];
    let places = PathRoots { project: "/p".to_owned(), home: Some("/home/me".to_owned()) };
    let mut policy = policy(AutoEdit, &rules).with_places(places);
    let rule = SessionRule { id: 1, rule: "deny Write(docs/)".into(), ..SessionRule::default() };
    policy.apply_event(&EventBody::RuleAdded { rule }, &Facts);
    let rule = "deny Edit(./app/[[]slug[]]/)".into();
    let rule = SessionRule {
        id: 2,
        rule,
        words: "Don't touch app/[slug].".into(),
        ..SessionRule::default()
    };
    policy.apply_event(&EventBody::RuleAdded { rule }, &Facts);
    let (read, write) = policy.denied_paths();
    let paths = |denied: &[DeniedPath]| -> Vec<String> {
        denied.iter().map(|denied| denied.path.clone()).collect()
    };
    assert_eq!(paths(&read), ["secret.txt", "/etc/x", "/home/me/x"]);
    assert_eq!(paths(&write), ["tests", "a.rs", "docs", "app/[slug]"]);
    assert!(read[0].reason.ends_with("--deny Read(secret.txt)"), "{}", read[0].reason);
    let reason = &write[3].reason;
    assert!(reason.contains("“Don't touch app/[slug].”"), "{reason}");
    assert!(reason.contains("/permissions remove 2"), "{reason}");
}

#[test]
fn non_terminating_commands_run_only_in_the_background() {
    for (line, expected) in [
        ("tail -f build.log", "allow: --allow Bash"),
        ("watch ls", "allow: --allow Bash"),
        ("vim a.txt", "COMMAND_BLOCKED: never"),
        ("tail -f build.log; vim a.txt", "COMMAND_BLOCKED: never"),
    ] {
        check(AutoEdit, &["--allow Bash"], &bash(line), "COMMAND_BLOCKED: never");
        let (command, directory) = (line.to_owned(), ".".to_owned());
        let effect = Effect::Command {
            command,
            directory,
            reads_only: false,
            programs: Vec::new(),
            unproven: Vec::new(),
            background: true,
        };
        check(AutoEdit, &["--allow Bash"], &("Bash", effect), expected);
    }
    let (tool, effect) = bash("git rebase -i HEAD~2");
    let Ruling::Refuse(_, reason) = policy(Full, &[]).rule_on(tool, &effect, &Facts) else {
        panic!()
    };
    assert!(reason.hint.is_some_and(|hint| hint.contains("GIT_SEQUENCE_EDITOR")));
}

#[test]
fn only_lines_without_further_risk_may_be_recommended() {
    for (line, failed, expected) in [
        ("make check 2>&1", "make test", true),
        ("bin/docker --context arm build .", "bin/docker build .", true),
        ("git push -u origin x", "git push", true),
        ("git push --force", "git push", false),
        ("git push origin +main", "git push origin main", false),
        ("aws s3 rm x", "aws s3 ls x", false),
        ("kubectl delete pod x", "kubectl get pod x", false),
        ("npm ci", "npm test", false),
        ("rm -rf out && make", "make", false),
        ("git checkout -- a.c", "make", false),
        ("git config user.name x", "git commit -m x", false),
        ("sudo make", "make", false),
        ("sed -i s/a/b/ a.c", "make", false),
        ("cat > a.c <<< x", "make", false),
    ] {
        assert_eq!(crate::may_recommend(line, failed), expected, "{line}");
    }
}

#[test]
fn file_rules_apply_to_every_tool_that_changes_files() {
    check(
        AutoEdit,
        &["deny Write(src/**)"],
        &write("src/a.rs"),
        "ACCESS_DENIED: deny Write(src/**) (project configuration)",
    );
    for tool in ["Edit", "MultiEdit", "Write"] {
        let call = (tool, write("src/a.rs").1);
        check(Full, &["--deny Edit(src/**)"], &call, "ACCESS_DENIED: --deny Edit(src/**)");
    }
    check(Full, &["--deny Edit"], &write("a.txt"), "allow: mode full");
    let edits = "allow: allow Edit(src/**) (project configuration)";
    check(Ask, &["allow Edit(src/**)"], &write("src/a.rs"), edits);
    check(Ask, &["allow Edit"], &write("src/a.rs"), "ask: mode ask");
    check(
        Ask,
        &["allow Write(*.md)"],
        &write("docs/a.md"),
        "allow: allow Write(*.md) (project configuration)",
    );
    check(AutoEdit, &[], &write(".agent/skills/a/SKILL.md"), "ask: agent files");
    check(AutoEdit, &[], &write(".agent/config.toml"), "ACCESS_DENIED: never");
    check(ReadOnly, &[], &write(".agent/skills/a/SKILL.md"), "ACCESS_DENIED: mode read-only");
}

#[test]
fn config_rules_cannot_allow_writes_in_read_only_mode() {
    let refused = "ACCESS_DENIED: mode read-only";
    check(ReadOnly, &["allow Write(src/**)"], &write("src/a.rs"), refused);
    check(ReadOnly, &["user allow Write"], &write("src/a.rs"), refused);
    check(ReadOnly, &["ask Write"], &write("src/a.rs"), refused);
    let by_user = ["--allow Write(src/**)"];
    check(ReadOnly, &by_user, &write("src/a.rs"), "allow: --allow Write(src/**)");
    check(ReadOnly, &by_user, &write("a.rs"), refused);
}

#[test]
fn reading_secret_files_requires_a_specific_rule() {
    check(AutoEdit, &[], &read(".env"), "ACCESS_DENIED: secrets");
    check(AutoEdit, &["--allow Read"], &read("a/.env"), "ACCESS_DENIED: secrets");
    check(AutoEdit, &["--allow Read(.env)"], &read("a/.env"), "allow: --allow Read(.env)");
    check(
        AutoEdit,
        &["--deny Read(.env)", "--allow Read(.env)"],
        &read(".env"),
        "ACCESS_DENIED: --deny Read(.env)",
    );
    check(Full, &["--deny Read(x)"], &("Grep", read("x").1), "ACCESS_DENIED: --deny Read(x)");
    check(
        Full,
        &["ask Read(x)"],
        &("Grep", read("x").1),
        "ask: ask Read(x) (project configuration)",
    );
    check(Full, &[], &read(".env"), "ACCESS_DENIED: secrets");
    check(Full, &["--allow Read(.env)"], &read(".env"), "allow: --allow Read(.env)");
    check(AutoEdit, &[], &("LS", Effect::Read { path: ".env".into() }), "allow: mode auto-edit");
    // Commands run: the values are redacted in their output.
    check_sandboxed(AutoEdit, &[], "cat .env", "allow: mode auto-edit");
}

fn check_hint(rules: &[&str], line: &str, expected: &str) {
    let (tool, effect) = bash(line);
    let ruling = policy(AutoEdit, rules).rule_on(tool, &effect, &Facts);
    let Ruling::Ask(reason) = ruling else { panic!("{line} is asked about: {ruling:?}") };
    let text = format!("{} {}", reason.text, reason.hint.unwrap_or_default());
    let options = format!("the user can allow it with {expected}, or with --permission-mode full");
    assert!(text.contains(&options), "{line}: {text}");
}

#[test]
fn approval_hint_names_the_narrowest_missing_rules() {
    check_hint(&[], "cargo test --lib", "--allow 'Bash(cargo test *)'");
    check_hint(&[], "ls -la && make; make", "--allow 'Bash(make)'");
    check_hint(&["--allow Bash(make)"], "make | pr", "--allow 'Bash(pr)'");
    check_hint(&[], "make && git push origin x", "--allow 'Bash(make)' --allow 'Bash(git push *)'");
    check_hint(&[], "a > b", "--allow 'Bash'");
    check_hint(&[], "curl x.org", "--allow 'Bash(curl x.org)'");
    let (tool, effect) = bash("docker ps");
    let ruling = Policy::new(AutoEdit, true).rule_on(tool, &effect, &Facts);
    let Ruling::Ask(reason) = ruling else { panic!() };
    assert!(reason.text.contains("docker runs outside the sandbox"), "{}", reason.text);
}

#[test]
fn approval_hint_for_a_file_names_only_that_file() {
    for (mode, (tool, effect), expected) in [
        (Ask, write("n.txt"), "--allow 'Write(./n.txt)'"),
        (Ask, write("src/n.txt"), "--allow 'Write(src/n.txt)'"),
        (Ask, write(".agent/skills/a.md"), "--allow 'Write(.agent/skills/a.md)'"),
        (AutoEdit, read(".env"), "--allow 'Read(./.env)'"),
    ] {
        let ruling = policy(mode, &[]).rule_on(tool, &effect, &Facts);
        let text = format!("{ruling:?}");
        assert!(text.contains(expected), "{text}");
        // "Always allow" offers the same rule, and it is sufficient.
        let named = expected.trim_start_matches("--allow '").trim_end_matches('\'');
        let rules = [format!("--allow {named}")];
        let rules: Vec<&str> = rules.iter().map(String::as_str).collect();
        let ruling = policy(mode, &rules).rule_on(tool, &effect, &Facts);
        assert!(matches!(ruling, Ruling::Allow(_)), "{ruling:?}");
        let rule = named.replace("Write(", "Edit(");
        assert_eq!(propose_grants(&effect, &Facts).first(), Some(&Grant::Rules(vec![rule])));
    }
}

#[test]
fn command_too_long_to_parse_is_blocked() {
    let script = "for f in *.c; do cc \"$f\" && echo \"$f\"; done\n".repeat(2_500);
    let inner = bash(&format!("make && bash -c '{script}'"));
    let wrapped = bash(&format!("{}sudo true", "env ".repeat(200)));
    let redirected = bash(&format!("echo x{} >/dev/sda", " 2>&1".repeat(50)));
    let many = bash(&format!("{}sudo true", "a;".repeat(11_000)));
    let long = bash(&"x".repeat(129 * 1024));
    for line in [&bash(&script), &inner, &long, &wrapped, &redirected, &many] {
        for mode in [ReadOnly, Ask, AutoEdit, Full] {
            check(mode, &["--allow Bash"], line, "COMMAND_BLOCKED: too long");
        }
    }
    // The text of a here-document is not a script.
    let data = bash(&format!("cat > new.txt <<'END'\n{script}END"));
    check(AutoEdit, &["user allow Bash"], &data, "allow: allow Bash (user configuration)");
    let chain = bash(&["make"; 90].join(" && "));
    check(AutoEdit, &["user allow Bash"], &chain, "allow: allow Bash (user configuration)");
}

/// Each expected grant: its rules, separated by "; ".
fn check_proposal((tool, effect): &(&'static str, Effect), expected: &[&str]) {
    let grants = propose_grants(effect, &Facts);
    let rules = |grant: &Grant| match grant {
        Grant::Rules(rules) => rules.clone(),
        Grant::Mode(_) => panic!("{effect:?}"),
    };
    let proposed: Vec<String> = grants.iter().map(|grant| rules(grant).join("; ")).collect();
    assert_eq!(proposed, expected, "{effect:?}");
    // Each proposal consists of valid rules that allow the call.
    for grant in &grants {
        let mut policy = Policy::new(Ask, false);
        for rule in rules(grant) {
            Rule::parse(&rule).expect(&rule);
            answered(&mut policy, &rule);
        }
        let ruling = policy.rule_on(tool, effect, &Facts);
        assert!(matches!(ruling, Ruling::Allow(_)), "{effect:?}: {ruling:?}");
    }
}

#[test]
fn tools_of_mcp_servers_need_approval_or_a_rule() {
    let effect =
        Effect::Mcp { server: "git".to_owned(), tool: "log".to_owned(), reads_only: false };
    let call = ("mcp__git__log", effect);
    check(Ask, &[], &call, "ask: mode ask");
    check(AutoEdit, &[], &call, "ask: mode auto-edit");
    check(ReadOnly, &[], &call, "ACCESS_DENIED: mode read-only");
    check(Full, &[], &call, "allow: mode full");
    check_proposal(&call, &["mcp(git.log)", "mcp(git.*)"]);
    let by_rule = |verb, rule: &str| {
        let policy = Policy::new(AutoEdit, true);
        let policy =
            policy.with_rules(verb, RuleOrigin::UserFile, Rule::parse_all(rule).expect("a rule"));
        let ruling = policy.rule_on(call.0, &call.1, &Facts);
        matches!(ruling, Ruling::Allow(_) | Ruling::Refuse(..))
    };
    assert!(by_rule(RuleAction::Allow, "mcp(git.*)"));
    assert!(by_rule(RuleAction::Allow, "mcp"));
    assert!(by_rule(RuleAction::Deny, "mcp(*.log)"));
    assert!(!by_rule(RuleAction::Allow, "mcp(git.commit), mcp(log)"));
}

#[test]
fn pages_need_approval_or_a_rule_for_their_host() {
    let fetch = |url: &str| {
        let address = agent_protocol::web::PageAddress::parse(url).expect(url);
        ("WebFetch", Effect::Fetch { url: address.url.into(), host: address.host })
    };
    let page = fetch("https://sub.docs.rs/a");
    for mode in [PermissionMode::Plan, ReadOnly, Ask, AutoEdit] {
        check(mode, &[], &page, &format!("ask: mode {}", mode.as_str()));
    }
    check(Full, &[], &page, "allow: mode full");
    check_proposal(&page, &["WebFetch(sub.docs.rs)"]);
    for (rule, is_allowed) in [
        ("WebFetch(sub.docs.rs)", true),
        ("WebFetch(SUB.docs.rs)", true),
        ("WebFetch(*.docs.rs)", true),
        ("WebFetch", true),
        ("WebFetch(docs.rs)", false),
        ("WebFetch(*.sub.docs.rs)", false),
        ("WebSearch", false),
    ] {
        let expected =
            if is_allowed { format!("allow: --allow {rule}") } else { "ask: mode ask".to_owned() };
        check(Ask, &[&format!("--allow {rule}")], &page, &expected);
    }
    check(
        Full,
        &["deny WebFetch(*.docs.rs)"],
        &page,
        "ACCESS_DENIED: deny WebFetch(*.docs.rs) (project configuration)",
    );
    // Only a written rule that names the host itself opens a private address.
    for url in
        ["http://sub.docs.rs/", "https://127.0.0.1/", "https://localhost:8080/", "https://[::1]/"]
    {
        let call = fetch(url);
        let Effect::Fetch { host, .. } = &call.1 else { unreachable!() };
        for rule in ["WebFetch", "WebFetch(*)", "WebFetch(127.*)", "WebFetch(*.rs)"] {
            check(Full, &[&format!("--allow {rule}")], &call, "ACCESS_DENIED: host");
        }
        let rule = format!("--allow WebFetch({host})");
        check(Ask, &[&rule], &call, &format!("allow: {rule}"));
        let mut policy = Policy::new(Full, true);
        answered(&mut policy, &format!("WebFetch({host})"));
        assert_eq!(shown(&policy.rule_on(call.0, &call.1, &Facts)), "ACCESS_DENIED: host");
    }
    let search = ("WebSearch", Effect::WebSearch { query: "x".to_owned() });
    check(ReadOnly, &[], &search, "ask: mode read-only");
    check(Ask, &["--allow WebSearch"], &search, "allow: --allow WebSearch");
    check_proposal(&search, &["WebSearch"]);
}

#[test]
fn rules_about_skills_and_sub_agents_match_names() {
    let skill = ("Skill", Effect::Skill { name: "release".to_owned() });
    let task = ("Task", Effect::Agent { role: "explore".to_owned(), reads_only: true });
    for (call, rule) in [(&skill, "Skill(rel*)"), (&task, "Task(explore)")] {
        check(ReadOnly, &[], call, "allow: mode read-only");
        let policy = Policy::new(AutoEdit, true);
        let denied = policy.with_rules(
            RuleAction::Deny,
            RuleOrigin::UserFile,
            Rule::parse_all(rule).expect("a rule"),
        );
        assert!(matches!(denied.rule_on(call.0, &call.1, &Facts), Ruling::Refuse(..)), "{rule}");
    }
}

#[test]
fn always_allow_offers_narrow_and_wide_rules() {
    check_proposal(&write("src/a.rs"), &["Edit(src/a.rs)", "Edit(src/**)"]);
    check_proposal(&write("src/[a].rs"), &["Edit(src/**)"]);
    check_proposal(&write("n.txt"), &["Edit(./n.txt)"]);
    check_proposal(&("TodoWrite", Effect::Plan), &[]);
    for (line, expected) in [
        ("cargo test --lib a", &["Bash(cargo test --lib a)", "Bash(cargo test *)"] as &[&str]),
        ("npm run build", &["Bash(npm run build)", "Bash(npm run *)"]),
        ("git push", &["Bash(git push)"]),
        ("pytest a.py", &["Bash(pytest a.py)"]),
        ("make all -j2 2>&1 | tail -5", &["Bash(make all -j2)", "Bash(make all *)"]),
        ("timeout 60 make all", &["Bash(make all)"]),
        ("git fetch && cargo build", &[]),
        ("git -C sub commit -m 'a b'", &["Bash(git -C sub commit *)"]),
        ("python3 tool.py x", &["Bash(python3 tool.py x)", "Bash(python3 tool.py *)"]),
        ("python3 -c 'print(1)'", &[]),
        ("python3 - <<'EOF'\nprint(1)\nEOF", &[]),
        ("git -C 'a b' commit -m x", &[]),
        ("git $x", &[]),
        ("make > a.log", &[]),
        ("X=1 make", &[]),
        ("$x a", &[]),
        ("eval \"$x\"", &[]),
        ("rm a.rs", &["Bash(rm a.rs)"]),
    ] {
        check_proposal(&bash(line), expected);
    }
}

#[test]
fn patterns_with_many_stars_match_in_linear_time() {
    let rules = ["--deny Bash(echo * * * * * * b)", "--deny Bash(echo * a * a * a *b)"];
    check(Full, &rules, &bash(&format!("echo{}", " a".repeat(5_000))), "allow: mode full");
    let denied = "COMMAND_BLOCKED: --deny Bash(echo * * * * * * b)";
    check(Full, &rules, &bash(&format!("echo{} b", " a".repeat(1_000))), denied);
    let (tool, effect) = bash("make a b a b c");
    for (rule, expected) in [
        ("Bash(make * b *)", true),
        ("Bash(make * b c)", true),
        ("Bash(* c)", true),
        ("Bash(make * b)", false),
        ("Bash(make * a c)", false),
    ] {
        let mut policy = policy(Ask, &[]);
        answered(&mut policy, rule);
        let is_allowed = matches!(policy.rule_on(tool, &effect, &Facts), Ruling::Allow(_));
        assert_eq!(is_allowed, expected, "{rule}");
    }
}

mod properties {
    use proptest::prelude::*;

    use super::*;

    fn ruling(line: &str) -> String {
        let (tool, effect) = bash(line);
        let read = CommandLine::parse(line);
        _ = (read.last_pipeline(), read.needs_all_statuses(), propose_grants(&effect, &Facts));
        let policy = Policy::new(AutoEdit, true);
        _ = policy.command_rights(tool, &effect, true, &Facts);
        shown(&policy.rule_on(tool, &effect, &Facts))
    }

    /// Fragments of shell syntax in any order.
    fn shellish(n: usize) -> impl Strategy<Value = String> {
        let pieces = prop::sample::select(vec![
            " ",
            " ",
            " ",
            "\n",
            ";",
            "&",
            "&&",
            "||",
            "|",
            "|&",
            "(",
            ")",
            "{ ",
            "; }",
            "$(",
            "`",
            "<(",
            "'",
            "\"",
            "$'",
            "\\",
            "$x",
            "${x:-",
            "}",
            "$((",
            "))",
            "<<X\n",
            "\nX\n",
            "<<<",
            "<",
            ">",
            ">>",
            "2>&1",
            "if ",
            "then ",
            "fi",
            "for x in ",
            "do ",
            "done",
            "case x in ",
            "esac",
            "while ",
            "!",
            "[[",
            "]]",
            "f() ",
            "function ",
            "=",
            "#",
            "*",
            "~",
            "{a,b}",
            "rm -rf x",
            "cat",
            "echo",
            "git push",
            "xargs ",
            "env ",
            "sh -c ",
            "find . -exec ",
            "eval ",
            "é",
            "\t",
            "\r",
            "\0",
            "-",
            "--",
            "tee ",
            "sed -n 1p ",
            "head -n 3",
            "timeout 5 ",
            "mv a.b c.d",
        ]);
        prop::collection::vec(pieces, 0..n).prop_map(|pieces| pieces.concat())
    }

    fn written_as(char: char, way: u8) -> String {
        match way {
            0 => format!("\\{char}"),
            1 => format!("'{char}'"),
            2 => format!("\"{char}\""),
            3 => format!("$'\\x{:02x}'", u32::from(char)),
            4 => format!("''{char}"),
            5 => format!("$'\\{:03o}'", u32::from(char)),
            6 => format!("{char}\"\""),
            _ => char.to_string(),
        }
    }

    proptest! {
        #[test]
        fn any_text_gets_a_ruling(line in any::<String>()) {
            ruling(&line);
        }

        #[test]
        fn any_shell_like_text_gets_a_ruling(line in shellish(40)) {
            ruling(&line);
        }

        #[test]
        fn preceding_text_does_not_hide_a_blocked_command(line in shellish(7)) {
            let is_whole = CommandLine::parse(&line).is_fully_parsed() && !line.ends_with('\\');
            prop_assume!(is_whole);
            prop_assert_eq!(ruling(&format!("{line}\nrm -rf /")), "COMMAND_BLOCKED: never");
        }

        #[test]
        fn quoting_does_not_hide_a_blocked_command(ways in prop::collection::vec(0u8..12, 6)) {
            let mut ways = ways.into_iter();
            let quoted: String = "rm -rf /"
                .chars()
                .map(|char| if char == ' ' { char.to_string() } else { written_as(char, ways.next().unwrap_or(9)) })
                .collect();
            prop_assert_eq!(ruling(&quoted), "COMMAND_BLOCKED: never", "{}", quoted);
        }
    }

    #[test]
    fn long_and_deeply_nested_lines_get_a_ruling() {
        let n = 3_000;
        for line in [
            "a ".repeat(n),
            "a;".repeat(n),
            "a | ".repeat(n) + "a",
            "a && ".repeat(n) + "a",
            "$(".repeat(n) + &")".repeat(n),
            "(".repeat(n),
            "'\"".repeat(n),
            "\\".repeat(n),
            "{a,b}".repeat(n),
            "$x".repeat(n),
            "${x:-".repeat(n),
            ">a ".repeat(n),
            "<<X ".repeat(n),
            "find . -exec a ".repeat(n),
            "-exec ".repeat(n),
            "env ".repeat(n),
            "sh -c '".repeat(n),
            "git -x ".repeat(n),
            "x=1 ".repeat(n),
            "cd a;".repeat(n),
            "f(){ :|:;};".repeat(n / 4),
            "[".repeat(n),
            "if a; then ".repeat(n),
            "case a in ".repeat(n),
            "!".repeat(n),
            "`".repeat(n),
            "\u{0}".repeat(n),
            "é".repeat(n * 13),
            // (Regression: the grammar's scanner crashed on letters without a C character class.)
            "echo {\u{10ffff}..2} {1\u{10ffff}; ".repeat(9),
            "cat <<\u{10ffff}\n\u{10ffff}\n".repeat(9),
        ] {
            ruling(&line);
        }
    }
}

fn answered(policy: &mut Policy, rule: &str) {
    let rule = format!("allow {rule}");
    let rule = SessionRule { id: 1, rule, words: String::new(), ..SessionRule::default() };
    policy.apply_event(&EventBody::RuleAdded { rule }, &Facts);
}

/// The same words may be another program in another directory.
#[test]
fn answer_about_a_command_holds_in_its_directories() {
    let effect = |line: &str, directory: &str| match bash(line).1 {
        Effect::Command { command, reads_only, programs, unproven, background, .. } => {
            let directory = directory.to_owned();
            Effect::Command { command, directory, reads_only, programs, unproven, background }
        }
        other => other,
    };
    let places = PathRoots { project: "/p".to_owned(), home: None };
    let mut policy = policy(Ask, &[]).with_places(places);
    let line = effect("cd web && make && cd ../api && npm test", ".");
    assert_eq!(policy.matching_directories(&line, "Bash(npm test)"), ["api"]);
    assert_eq!(policy.matching_directories(&line, "Edit(src/**)"), [""; 0]);
    let directories = policy.matching_directories(&line, "Bash(make)");
    assert_eq!(directories, ["web"]);
    let rule = "allow Bash(make)".to_owned();
    let rule = SessionRule { id: 1, rule, directories, ..SessionRule::default() };
    policy.apply_event(&EventBody::RuleAdded { rule }, &Facts);
    for (line, directory, is_allowed) in [
        ("cd web && make", ".", true),
        ("make", "web", true),
        ("timeout 60 make", "web", true),
        ("cd /p/web && make", ".", true),
        ("cd .. && make", "web/a", true),
        ("make", ".", false),
        ("cd a && make", "web", false),
        ("cd \"$X\" && make", "web", false),
        // It may not have moved, or not back.
        ("cd web & make", ".", false),
        ("cd web || make", ".", false),
        ("cd ..; make", "web/a", false),
        ("env -C web make", ".", true),
        ("env -u X --chdir=../web make", "a", true),
        ("env -C a make", "web", false),
        ("env -Ca make", "web", false),
        ("env -Cweb make", ".", true),
        ("env -C web -C a make", ".", false),
        ("env -C a -C .. make", "web", false),
        ("env --chdir=web -C a make", ".", false),
        ("env -iCa make", "web", false),
        ("env --ch=a make", "web", false),
        ("env -C \"$X\" make", "web", false),
        ("timeout 5 env --chdir=a make", "web", false),
        ("find a -name Makefile -execdir make ';'", "web", false),
    ] {
        let ruling = policy.rule_on("Bash", &effect(line, directory), &Facts);
        assert_eq!(matches!(ruling, Ruling::Allow(_)), is_allowed, "{line} in {directory}");
    }
}

#[test]
fn later_session_rule_overrides_an_earlier_one() {
    let add = |policy: &mut Policy, id, rule: &str| {
        let rule = SessionRule {
            id,
            rule: rule.to_owned(),
            words: String::new(),
            ..SessionRule::default()
        };
        policy.apply_event(&EventBody::RuleAdded { rule }, &Facts);
    };
    let (tool, effect) = bash("git push x");
    let mut policy = policy(Ask, &["ask Bash(git push *)"]);
    for (id, rule, is_allowed) in [
        (1, "allow Bash(git push *)", true),
        (2, "ask Bash(git push *)", false),
        (3, "allow Bash(git push x)", true),
    ] {
        add(&mut policy, id, rule);
        let ruling = policy.rule_on(tool, &effect, &Facts);
        assert_eq!(matches!(ruling, Ruling::Allow(_)), is_allowed, "{rule}: {ruling:?}");
    }
}

#[test]
fn session_deny_rule_overrides_rules_and_modes() {
    let mut policy = policy(Full, &["--allow Write", "--allow Bash"]);
    let words = "Don't touch tests/.".to_owned();
    let rule = SessionRule {
        id: 3,
        rule: "deny Edit(./tests/)".to_owned(),
        words,
        ..SessionRule::default()
    };
    policy.apply_event(&EventBody::RuleAdded { rule: rule.clone() }, &Facts);
    for (path, expected) in [
        ("tests/a.rs", "ACCESS_DENIED: deny Edit(./tests/) (session rule 3)"),
        ("tests/b/c.rs", "ACCESS_DENIED: deny Edit(./tests/) (session rule 3)"),
        ("src/tests/a.rs", "allow: --allow Write"),
    ] {
        let (tool, effect) = write(path);
        assert_eq!(shown(&policy.rule_on(tool, &effect, &Facts)), expected, "{path}");
    }
    let (tool, effect) = write("tests/a.rs");
    let Ruling::Refuse(_, reason) = policy.rule_on(tool, &effect, &Facts) else {
        panic!("refused")
    };
    assert!(reason.by_instruction);
    assert!(reason.text.contains("“Don't touch tests/.”"), "{}", reason.text);
    policy.apply_event(&EventBody::RuleRemoved { rule }, &Facts);
    assert_eq!(shown(&policy.rule_on(tool, &effect, &Facts)), "allow: --allow Write");
}
