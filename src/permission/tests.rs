//! The tables of the policy: what is ruled, by which rule.

use super::*;

/// `allow Bash(ls *)`, `--deny Write`, `user ask Bash`: a verb and a rule, with `--` from the command
/// line, with `user` from the user's file, else from the project's.
fn policy(mode: PermissionMode, rules: &[&str]) -> Policy {
    rules.iter().fold(Policy::new(mode, false), |policy, text| {
        let (origin, rest) = match (text.strip_prefix("--"), text.strip_prefix("user ")) {
            (Some(rest), _) => (Origin::CommandLine, rest),
            (None, Some(rest)) => (Origin::UserFile, rest),
            (None, None) => (Origin::ProjectFile, *text),
        };
        let (verb, rule) = rest.split_once(' ').expect("a verb and a rule");
        let verb = match verb {
            "allow" => Verb::Allow,
            "ask" => Verb::Ask,
            _ => Verb::Deny,
        };
        policy.with(verb, origin, [Rule::parse(rule).expect("a rule")])
    })
}

fn bash(line: &str) -> (&'static str, Effect) {
    ("Bash", Effect::Command { command: line.to_owned(), directory: ".".to_owned() })
}

fn write(path: &str) -> (&'static str, Effect) {
    ("Write", Effect::Write { path: path.to_owned() })
}

fn read(path: &str) -> (&'static str, Effect) {
    ("Read", Effect::Read { path: path.to_owned() })
}

/// `allow`, `ask`, or the code, and the rule that said so.
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
    let ruling = policy(mode, rules).rule_on(tool, effect);
    assert_eq!(shown(&ruling), expected, "{mode:?} {rules:?} {effect:?}");
}

use PermissionMode::{Ask, AutoEdit, Full, ReadOnly};

#[test]
fn the_mode_rules_where_no_rule_does() {
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
        check(mode, &[], &bash("ls"), running);
        check(mode, &[], &("TodoWrite", Effect::Plan), reading);
    }
    let sandboxed = Policy::new(AutoEdit, true);
    let (tool, effect) = bash("ls");
    assert_eq!(shown(&sandboxed.rule_on(tool, &effect)), "allow: mode auto-edit");
}

#[test]
fn each_command_of_a_line_has_to_be_allowed() {
    let rules = ["--allow Bash(cargo test*)", "--allow Bash(tail *)"];
    let cargo = "allow: --allow Bash(cargo test*)";
    check(AutoEdit, &rules, &bash("cargo test --lib"), cargo);
    check(AutoEdit, &rules, &bash("cargo test 2>&1 | tail -50"), cargo);
    check(AutoEdit, &rules, &bash("cargo test >/dev/null"), cargo);
    for line in [
        "cargo build",
        "cargo test; rm x",
        "cargo test && touch x",
        "cargo test | sh",
        "cargo test > src/a.rs",
        "cargo test $(touch x)",
        "cargo test `touch x`",
        "cargo test & touch x",
        "cargo test\ntouch x",
        "PATH=. cargo test",
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
fn a_deny_rule_finds_any_command_of_a_line() {
    let rules = ["deny Bash(git push*)", "--allow Bash"];
    for line in [
        "git push",
        "git push --force",
        "a && git push",
        "a | env X=1 git push",
        "/usr/bin/git push",
        "bash -c 'git push'",
        "a $(git push)",
        "if a; then git push; fi",
        "X=1 git push",
    ] {
        for mode in [AutoEdit, Full] {
            let expected = "COMMAND_BLOCKED: deny Bash(git push*) (project configuration)";
            check(mode, &rules[..1], &bash(line), expected);
        }
        if !line.contains('$') && !line.starts_with("if") {
            continue;
        }
        check(
            Full,
            &["deny Bash(git push)"],
            &bash(line),
            "COMMAND_BLOCKED: deny Bash(git push) (project configuration)",
        );
    }
    check(AutoEdit, &rules, &bash("git status"), "allow: --allow Bash");
    check(AutoEdit, &rules, &bash("echo 'git push'"), "allow: --allow Bash");
    check(Full, &["user deny Bash(rm *)"], &bash("echo $(format x)"), "allow: mode full");
}

#[test]
fn never_outranks_everything_and_a_person_outranks_files() {
    let sudo = bash("sudo ls");
    check(Full, &["--allow Bash"], &sudo, "COMMAND_BLOCKED: never");
    check(Full, &["--allow Write"], &write(".git/config"), "ACCESS_DENIED: never");
    let ls = bash("ls");
    check(Full, &["--deny Bash(ls)", "--allow Bash"], &ls, "COMMAND_BLOCKED: --deny Bash(ls)");
    let both = ["user ask Bash(ls)", "user allow Bash(ls)"];
    check(Full, &both, &ls, "ask: ask Bash(ls) (user configuration)");
    check(AutoEdit, &["user ask Bash(ls)", "--allow Bash(ls)"], &ls, "allow: --allow Bash(ls)");
    check(AutoEdit, &["allow Bash(ls)"], &ls, "allow: allow Bash(ls) (project configuration)");
    check(ReadOnly, &["--allow Bash(ls)"], &ls, "allow: --allow Bash(ls)");
    // Each command on its own: the one that a person allowed needs no asking.
    let mixed = ["ask Bash(rm)", "--allow Bash(rm)", "allow Bash(ls)"];
    check(AutoEdit, &mixed, &bash("ls; rm x"), "allow: allow Bash(ls) (project configuration)");
    check(
        AutoEdit,
        &["ask Bash(rm)", "--allow Bash(env)"],
        &bash("ls; xargs rm x"),
        "ask: ask Bash(rm) (project configuration)",
    );
}

#[test]
fn file_rules_are_about_paths_and_their_own_tool() {
    check(
        AutoEdit,
        &["deny Write(src/**)"],
        &write("src/a.rs"),
        "ACCESS_DENIED: deny Write(src/**) (project configuration)",
    );
    check(AutoEdit, &["deny Edit(src/**)"], &write("src/a.rs"), "allow: mode auto-edit");
    check(
        Ask,
        &["allow Write(*.md)"],
        &write("docs/a.md"),
        "allow: allow Write(*.md) (project configuration)",
    );
    check(Ask, &["allow Write(*.md)"], &write("a.rs"), "ask: mode ask");
    check(AutoEdit, &[], &write(".agent/skills/a/SKILL.md"), "ask: own files");
    check(ReadOnly, &[], &write(".agent/skills/a/SKILL.md"), "ACCESS_DENIED: mode read-only");
}

#[test]
fn secrets_need_a_rule_that_names_them() {
    check(AutoEdit, &[], &read(".env"), "ACCESS_DENIED: secrets");
    check(AutoEdit, &["--allow Read"], &read("a/.env"), "ACCESS_DENIED: secrets");
    check(AutoEdit, &["--allow Read(.env)"], &read("a/.env"), "allow: --allow Read(.env)");
    check(
        AutoEdit,
        &["--deny Read(.env)", "--allow Read(.env)"],
        &read(".env"),
        "ACCESS_DENIED: --deny Read(.env)",
    );
    check(Full, &[], &read(".env"), "allow: mode full");
    check(AutoEdit, &[], &("LS", Effect::Read { path: ".env".into() }), "allow: mode auto-edit");
}

fn check_advice(rules: &[&str], line: &str, expected: &str) {
    let (tool, effect) = bash(line);
    let Ruling::Ask(reason) = policy(AutoEdit, rules).rule_on(tool, &effect) else {
        panic!("{line} is asked about")
    };
    let expected = format!(
        "a person has to agree to this command, or allow it with {expected}, or with --permission-mode full"
    );
    assert_eq!(reason.text, expected);
}

#[test]
fn the_advice_names_the_narrowest_rules_that_are_missing() {
    check_advice(&[], "cargo test --lib", "--allow 'Bash(cargo test *)'");
    check_advice(
        &[],
        "ls -la && git status; git status",
        "--allow 'Bash(ls *)' --allow 'Bash(git status *)'",
    );
    check_advice(&["--allow Bash(ls)"], "ls -la | wc -l", "--allow 'Bash(wc *)'");
    let (tool, effect) = bash("a > b");
    let Ruling::Ask(reason) = policy(AutoEdit, &[]).rule_on(tool, &effect) else { panic!() };
    assert!(reason.text.contains("--allow Bash (no pattern fits a redirection"), "{reason:?}");
}
