//! Git in the sandbox: commands can commit, but existing hooks and configuration cannot be changed.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::sandbox::{Place, git, places, session, write};

const HOOK: &str = "#!/bin/sh\necho hook ran\n";

/// Places with a repository, a commit and a hook.
fn repositories() -> Vec<Place> {
    let places = places();
    for place in &places {
        repository(&place.test.root());
    }
    places
}

fn repository(root: &Path) {
    std::fs::create_dir_all(root).unwrap();
    let lines = "git init -q . && git config user.email a@b && git config user.name n && \
                 echo a > a && git add a && git commit -qm first";
    run(root, lines);
    let hook = root.join(".git/hooks/pre-commit");
    write(&hook, HOOK);
    run(root, "chmod +x .git/hooks/pre-commit");
}

/// Runs a line outside the sandbox.
fn run(directory: &Path, line: &str) {
    let mut command = Command::new("bash");
    command.args(["-c", line]).current_dir(directory).env("HOME", directory);
    command.env("GIT_CONFIG_COUNT", "1").env("GIT_CONFIG_KEY_0", "safe.directory");
    let done = command.env("GIT_CONFIG_VALUE_0", "*").output().unwrap();
    assert!(done.status.success(), "{line}: {done:?}");
}

fn call(place: &Place, line: &str) -> Value {
    place.call(&json!({"command": line}))
}

fn text(envelope: &Value) -> &str {
    envelope["text"].as_str().unwrap()
}

#[test]
fn git_commits_in_a_list() {
    for place in repositories() {
        let line =
            "echo b > b && git add -A && git commit -qm second && git log --format=%s && echo done";
        let envelope = call(&place, line);
        assert_eq!(envelope["data"]["stdout"], "second\nfirst\ndone\n", "{envelope}");
        assert!(envelope["data"]["stderr"].as_str().unwrap().contains("hook ran"), "{envelope}");
    }
}

#[test]
fn git_commits_in_a_linked_worktree() {
    for place in places() {
        let main = place.test.root().parent().unwrap().join("main");
        repository(&main);
        let root = place.test.root();
        // (The project is the worktree.)
        std::fs::remove_dir_all(&root).unwrap();
        run(&main, &format!("git worktree add -qf {} -b side", root.display()));
        let line = "echo b > b; git add b && git commit -qm second && git log -1 --format=%s";
        let envelope = call(&place, line);
        assert_eq!(envelope["data"]["stdout"], "second\n", "{envelope}");
        if place.backend == "namespaces" {
            let line = "exec 2>/dev/null; echo x >> ../main/.git/hooks/pre-commit; git config a.b c; \
                        echo x > ../main/b; echo x > .git; echo over";
            let envelope = place.script(line);
            assert_eq!(envelope["data"]["stdout"], "over\n", "{envelope}");
            assert_eq!(std::fs::read_to_string(main.join(".git/hooks/pre-commit")).unwrap(), HOOK);
            assert!(!std::fs::read_to_string(main.join(".git/config")).unwrap().contains("[a]"));
            assert!(!main.join("b").exists() && root.join(".git").is_file());
            assert!(place.test.read(".git").starts_with("gitdir: "));
        }
    }
}

#[test]
fn repository_of_an_unregistered_worktree_is_not_writable() {
    for place in places() {
        let victim = place.outside().join("victim-repository");
        repository(&victim);
        let root = place.test.root();
        write(&root.join(".git"), &format!("gitdir: {}/.git\n", victim.display()));
        let before = std::fs::read(victim.join(".git/index")).unwrap();
        let envelope = call(&place, "echo b > b; git add b; true");
        assert_eq!(std::fs::read(victim.join(".git/index")).unwrap(), before, "{envelope}");
    }
}

#[test]
fn git_commits_in_a_session_in_a_subdirectory() {
    for place in places() {
        let around = place.test.root().parent().unwrap().to_owned();
        repository(&around);
        let line = "echo b > b && git add b && git commit -qm second && git log -1 --format=%s";
        let envelope = call(&place, line);
        assert_eq!(envelope["data"]["stdout"], "second\n", "{envelope}");
        // Also where the sandbox has a private directory around it, the rest of the work tree is there.
        let envelope = call(&place, "git status --porcelain -uno && cat ../a");
        assert_eq!(envelope["data"]["stdout"], "a\n", "{envelope}");
        let envelope = place.script("echo x > ../beside 2>/dev/null; true");
        assert!(!around.join("beside").exists(), "{envelope}");
    }
}

#[test]
fn existing_hooks_and_configuration_are_not_changed() {
    for place in repositories().into_iter().filter(|place| place.backend == "namespaces") {
        let config = place.test.read(".git/config");
        let attack = "exec 2>/dev/null; git config core.hooksPath /tmp; echo x >> .git/config; rm -f .git/config; \
                      mv .git/config c; echo x > .git/hooks/pre-commit; echo x > .git/hooks/post-commit; \
                      mv .git/hooks h; rm -rf .git/hooks; mv .git g; rm -rf .git/objects/x; \
                      git commit -q --allow-empty -m second; git log -1 --format=%s";
        let envelope = place.script(attack);
        assert_eq!(envelope["data"]["stdout"], "second\n", "{envelope}");
        assert_eq!(place.test.read(".git/config"), config);
        assert_eq!(place.test.read(".git/hooks/pre-commit"), HOOK);
        assert!(!place.test.root().join(".git/hooks/post-commit").exists());
    }
}

#[test]
fn hooks_and_configuration_of_submodules_are_not_changed() {
    for place in places().into_iter().filter(|place| place.backend == "namespaces") {
        let root = place.test.root();
        let library = root.parent().unwrap().join("library");
        repository(&library);
        repository(&root);
        let add = format!(
            "git -c protocol.file.allow=always submodule --quiet add {} libs/inner && git commit -qm sub",
            library.display()
        );
        run(&root, &add);
        let own = root.join(".git/modules/libs/inner");
        let config = std::fs::read_to_string(own.join("config")).unwrap();
        let envelope = place.script(
            "exec 2>/dev/null; cd .git/modules/libs/inner; echo x >> config; echo x > hooks/pre-commit; true",
        );
        assert_eq!(std::fs::read_to_string(own.join("config")).unwrap(), config, "{envelope}");
        assert!(!own.join("hooks/pre-commit").exists(), "{envelope}");
    }
}

#[test]
fn the_git_directory_cannot_be_moved() {
    for place in repositories().into_iter().filter(|place| place.backend == "namespaces") {
        let envelope = call(&place, "mv .git x");
        assert!(place.test.root().join(".git/HEAD").exists(), "{envelope}");
        assert!(text(&envelope).contains(".git is read-only in the sandbox"), "{envelope}");
    }
}

#[test]
fn created_commondir_and_removed_head_are_reverted_and_reported() {
    for place in repositories() {
        let head = place.test.read(".git/HEAD");
        let envelope = place.script("echo /tmp > .git/commondir; rm .git/HEAD");
        assert!(!place.test.root().join(".git/commondir").exists(), "{envelope}");
        assert_eq!(place.test.read(".git/HEAD"), head);
        let text = text(&envelope);
        assert!(text.contains(".git/commondir was created"), "{envelope}");
        assert!(text.contains(".git/HEAD was missing"), "{envelope}");
        let envelope = place.script("git status --short >/dev/null");
        assert_eq!(envelope["text"], "Exited 0, without output.", "{envelope}");
    }
}

#[test]
fn head_removed_by_a_background_command_is_restored_when_it_ends() {
    for place in repositories() {
        let mut batch = session(&place);
        batch.call("Bash", &json!({"command": "rm .git/HEAD", "background": true}));
        let ended = batch.call("BashOutput", &json!({"id": "bg_1", "wait_ms": 20000}));
        assert!(text(&ended).contains(".git/HEAD was missing"), "{ended}");
        assert!(place.test.root().join(".git/HEAD").exists());
        batch.end();
    }
}

#[test]
fn missing_hooks_directory_is_not_created() {
    for place in places() {
        git(&place, "git init -q . && rm -rf .git/hooks");
        let envelope = call(&place, "git add -A && git status --short");
        assert_eq!(envelope["status"], "success", "{envelope}");
        assert!(!place.test.root().join(".git/hooks").exists());
    }
}
