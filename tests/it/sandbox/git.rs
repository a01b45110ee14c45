//! Git in the sandbox: commands can commit, but existing hooks and configuration cannot be changed.

use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::sandbox::{Place, REPOSITORY, git, places, session, write};

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
        assert!(text.contains(".git/commondir decides which repository git uses"), "{envelope}");
        assert!(text.contains(".git/HEAD is no valid HEAD"), "{envelope}");
        let envelope = place.script("git status --short >/dev/null");
        assert_eq!(envelope["text"], "Exited 0, without output.", "{envelope}");
    }
}

#[test]
fn head_removed_by_a_background_command_is_restored_when_it_ends() {
    for place in repositories() {
        let mut batch = session(&place);
        batch.call("Bash", &json!({"command": "rm .git/HEAD", "background": true}));
        let ended = batch.call("Bash", &json!({"background": "bg_1", "timeout_ms": 20000}));
        assert!(text(&ended).contains(".git/HEAD is no valid HEAD"), "{ended}");
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

/// Calls Bash in a recorded session, which has checkpoints.
fn record(place: &Place, line: &str) -> Value {
    let input = json!({"command": line}).to_string();
    let output = place.command(&["tool", "call", "Bash", &input, "--record"]).output().unwrap();
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"))
}

/// The files of a repository in the current directory whose configuration runs a program.
const FILES: &str = "echo 'ref: refs/heads/main' > HEAD; printf '[core]\\n\\trepositoryformatversion = 0\\n\\tbare = false\\n\
                     \\tworktree = %s\\n' \"$PWD\" > config; evil config";

/// What git executes, made by a command. Setup of the user, lines of the model, and where the user looks afterwards.
const SURFACE: &[(&str, &[&str], &str)] = &[
    ("", &["mkdir x; cd x; touch objects refs; chmod +x objects refs; FILES"], "x"),
    ("", &["ln -sfn refs .git/HEAD; LAYOUT"], "."),
    ("", &["printf 'ref:%300srefs/heads/main\\n' '' > .git/HEAD; LAYOUT"], "."),
    ("", &["printf 'ref:\\frefs/heads/main\\n' > .git/HEAD; LAYOUT"], "."),
    ("", &["chmod 000 .git/refs; LAYOUT"], "."),
    ("", &["chmod 000 .git; LAYOUT"], "."),
    ("", &["git init -q .git/zz; evil .git/zz/.git/config; ln -s .git/zz docs"], "docs"),
    ("", &["git init -q .git/zz; evil .git/zz/.git/config; ln -s .git/zz l; ln -s l docs"], "docs"),
    (
        "",
        &["mkdir d; git init -q .git/zz; evil .git/zz/.git/config; ln -s d/../.git/zz docs"],
        "docs",
    ),
    (
        "chmod -R a-w .git",
        &["chmod u+w .git .git/config; evil .git/config; chmod a-w .git .git/config"],
        ".",
    ),
    (
        "git sparse-checkout set x; chmod -R a-w .git",
        &["chmod u+w .git; rm .git/config.worktree; evil .git/config.worktree; chmod a-w .git"],
        ".",
    ),
    (
        "",
        &[
            "git init -q $XDG_CACHE_HOME/r; evil $XDG_CACHE_HOME/r/.git/config; mkdir x; echo $PWD/x/.git > $XDG_CACHE_HOME/r/.git/gitdir; echo \"gitdir: $XDG_CACHE_HOME/r/.git\" > x/.git",
        ],
        "x",
    ),
    (
        "",
        &[
            "mkdir g; git init -q g/c; git init -q n; rm -rf n/.git; echo 'gitdir: ../g/c/.git' > n/.git",
            "cp -r g/c/.git e; evil e/config; rm -rf g/c/.git; ln -s ../../e g/c/.git",
        ],
        "n",
    ),
    (
        "",
        &["mkdir ign; echo ign > .git/info/exclude; git init -q ign/e; evil ign/e/.git/config"],
        "ign/e",
    ),
    ("", &["echo '.*' > .gitignore; git init -q n; evil n/.git/config"], "n"),
    (
        "",
        &[
            "mkdir .git/worktrees; (cd .git/worktrees; seq -f d%g 1 2100 | xargs mkdir); git init -q n; evil n/.git/config",
        ],
        "n",
    ),
    (
        "git worktree add -q wt",
        &[
            "mkdir -p .git/worktrees/wt/modules; git init -q s; mv s/.git .git/worktrees/wt/modules/s; evil .git/worktrees/wt/modules/s/config; echo 'gitdir: ../.git/worktrees/wt/modules/s' > wt/s.git; mkdir wt/s; mv wt/s.git wt/s/.git",
        ],
        "wt/s",
    ),
    (
        "git worktree add -q wt",
        &[
            "mv .git/worktrees/wt .git/w2; ln -s ../w2 .git/worktrees/wt; cp -r .git e; evil e/config; echo $PWD/e > .git/w2/commondir",
        ],
        "wt",
    ),
    ("", &["mv .git/refs .git/r2; LAYOUT"], "."),
    ("", &["mv .git/objects .git/o2; LAYOUT"], "."),
    ("", &["rm -rf .git/objects; echo > .git/objects; LAYOUT"], "."),
    ("", &["rm -f .git/HEAD; LAYOUT"], "."),
    ("", &["echo garbage > .git/HEAD; LAYOUT"], "."),
    ("", &["ln -sf nonsense .git/HEAD; LAYOUT"], "."),
    ("", &["mv .git/HEAD .git/h2; mkdir .git/HEAD; LAYOUT"], "."),
    ("", &["mv .git .g2; LAYOUT"], "."),
    ("", &["mv .git .g2; cp -r .g2 evil; evil evil/config; ln -s evil .git"], "."),
    ("", &["mkdir sub; cd sub; LAYOUT"], "sub"),
    ("", &["evil .git/config"], "."),
    ("", &["git config include.path ../x; evil x"], "."),
    ("", &["echo '[core' >> .git/config"], "."),
    ("", &["git sparse-checkout set sub", "evil .git/config.worktree"], "."),
    ("", &["git init -q n; cd n; git commit -q --allow-empty -m x; evil .git/config"], "n"),
    (
        "",
        &[
            "git init -q n; (cd n; git commit -q --allow-empty -m x); evil n/.git/config; git add n; git checkout -q .",
        ],
        ".",
    ),
    (
        "",
        &[
            "git init -q n; (cd n; git commit -q --allow-empty -m x; git add .)",
            "git add n; evil n/.git/config",
        ],
        ".",
    ),
    (
        "echo n > .gitignore",
        &[
            "git init -q n; (cd n; git commit -q --allow-empty -m x); evil n/.git/config; git add -f n",
        ],
        ".",
    ),
    (
        "git worktree add -q wt",
        &["cp -r .git evil; evil evil/config; echo ../../../evil > .git/worktrees/wt/commondir"],
        "wt",
    ),
    (
        "git worktree add -q wt",
        &["evil .git/worktrees/wt/config.worktree; git config extensions.worktreeConfig true"],
        "wt",
    ),
    (
        SUBMODULE,
        &[
            "cp -r .git/modules/s evil; evil evil/config; echo ../../../evil > .git/modules/s/commondir",
        ],
        ".",
    ),
    (
        SUBMODULE,
        &["cp -r .git/modules/s evil; evil evil/config; echo 'gitdir: ../evil' > s/.git"],
        ".",
    ),
    (
        SUBMODULE,
        &[
            "rm s/.git; cp -r .git/modules/s s/.git; git -C s config --unset core.worktree; evil s/.git/config",
        ],
        ".",
    ),
    (
        SUBMODULE,
        &[
            "rm s/.git; mkdir s/.git; mv s/.git x; cp -r .git/modules/s e; evil e/config; ln -s ../e s/.git",
        ],
        "s",
    ),
    (
        "printf 'cat; test -n \"$LOOKS\" || printf \"[core]\\nfsmonitor = \\\\\"touch $MARK; false\\\\\"\\n\" >> .git/config' > clean.sh; \
         git config filter.f.clean 'sh clean.sh'; echo '*.x filter=f' > .gitattributes; echo 1 > 1.x",
        &["git add 1.x"],
        ".",
    ),
    (
        "rm -rf .git/hooks",
        &[
            "mkdir .git/hooks; printf '#!/bin/sh\\ntouch $MARK' > .git/hooks/post-index-change; chmod +x .git/hooks/*",
        ],
        ".",
    ),
    (
        "",
        &[
            "rm -rf .git/hooks; mkdir h; printf '#!/bin/sh\\ntouch $MARK' > h/post-index-change; chmod +x h/*; ln -s ../h .git/hooks",
        ],
        ".",
    ),
    // A `.git` file that git reads otherwise than its text suggests, or that leads to what the project holds already.
    (
        "",
        &[
            "mkdir -p n .git/zz/deep; git init -q n/c; mv n/c/.git n/x; git init -q .git/zz/t; mv .git/zz/t/.git .git/zz/x; evil .git/zz/x/config; ln -s ../.git/zz/deep n/d; echo 'gitdir: d/../x' > n/.git",
        ],
        "n",
    ),
    (
        "",
        &[
            "mkdir n; git init -q .git/zz/t; evil .git/zz/t/.git/config; git init -q n/c; mv n/c/.git n/x; printf 'gitdir: ../.git/zz/t/.git\\0/../../../../n/x' > n/.git",
        ],
        "n",
    ),
    (FIXTURE, &["echo 'gitdir: ../fixtures/repo' > src/.git"], "src"),
    (FIXTURE, &["mv fixtures/repo src/.git"], "src"),
    (
        FIXTURE,
        &[
            "cd fixtures/repo; mkdir -p worktrees/w; cp HEAD worktrees/w; echo ../.. > worktrees/w/commondir; echo 'gitdir: ../fixtures/repo/worktrees/w' > ../../src/.git",
        ],
        "src",
    ),
    // Links into git's directory, and what ignored directories hold.
    ("", &["git init -q .git/zz/n; evil .git/zz/n/.git/config; ln -s .git/zz docs"], "docs/n"),
    (
        "",
        &[
            "mkdir -p .git/zz/n; git init -q .git/zz; evil .git/zz/.git/config; ln -s .git/zz/n docs",
        ],
        "docs",
    ),
    (
        "",
        &[
            "mkdir .git/zz; git init -q .git/e; mv .git/e/.git .git; evil .git/.git/config; ln -s .git/zz docs",
        ],
        "docs",
    ),
    (
        "",
        &[
            "git update-index --split-index; git init -q .git/zz; evil .git/zz/.git/config; ln -s .git/zz docs",
        ],
        "docs",
    ),
    (
        "echo target > .gitignore",
        &["git init -q target/zz; evil target/zz/.git/config; ln -s target/zz docs"],
        "docs",
    ),
    ("echo ign > .gitignore", &["mkdir -p ign/b; git init -q ign/n; cd ign/b; LAYOUT"], "ign/b"),
    (SOURCES, &["echo build > .gitignore; git init -q build; evil build/.git/config"], "build"),
    (
        SOURCES,
        &["echo build > .gitignore; git init -q build/x; evil build/x/.git/config"],
        "build/x",
    ),
    // Submodules in build output, which only an index names.
    (
        "echo target > .gitignore",
        &[
            "mkdir -p target/m; git init -q target/m/e; evil target/m/e/.git/config; echo \"gitdir: $PWD/.git\" > target/m/.git; git -C target/m/e commit -q --allow-empty -m x; git config core.worktree ../target/m; git update-index --add --cacheinfo 160000,$(git -C target/m/e rev-parse HEAD),e",
        ],
        ".",
    ),
    (
        "echo target > .gitignore",
        &[
            "git init -q target/m; cd target/m; git init -q zz/e; evil zz/e/.git/config; git -C zz/e commit -q --allow-empty -m x; git add zz/e; seq 1100 | xargs mkdir; ln -s target/m ../../docs",
        ],
        "docs",
    ),
    (
        "echo 'i*' > .gitignore",
        &["mkdir i; (cd i; seq 2100 | xargs touch); git init -q i/zz/e; evil i/zz/e/.git/config"],
        "i/zz/e",
    ),
    (
        "git init -q n; cd n; echo target > .gitignore; git add .; git commit -qm x; cd ..; git add n; git commit -qm n",
        &[
            "git init -q n/target/e; git -C n/target/e commit -q --allow-empty -m x; git -C n add -f target/e; evil n/target/e/.git/config",
        ],
        ".",
    ),
    // Directories that their owner cannot read.
    // (Root searches such a directory.)
    (
        "",
        &[
            "git init -q n; mkdir -p n/.git/hooks; printf '#!/bin/sh\\ntouch $MARK' > n/.git/hooks/post-index-change; chmod +x n/.git/hooks/post-index-change; chmod 0600 n/.git/hooks",
        ],
        "n",
    ),
    (
        "",
        &[
            "printf '#!/bin/sh\\ntouch $MARK' > .git/hooks/post-index-change; chmod +x .git/hooks/*; chmod 0311 .git/hooks",
        ],
        ".",
    ),
    ("", &["evil .git/config; chmod 0311 .git"], "."),
    ("", &["git init -q x/n; evil x/n/.git/config; chmod 0311 x/n"], "x/n"),
    ("", &["git init -q x/n; evil x/n/.git/config; chmod 0311 x"], "x/n"),
    ("git init -q n", &["evil n/.git/config; chmod 0311 n n/.git"], "n"),
    (
        "git worktree add -q ../wt",
        &[
            "cp -r .git e; evil e/config; echo $PWD/e > .git/worktrees/wt/commondir; chmod 0311 .git/worktrees",
        ],
        "../wt",
    ),
    (SUBMODULE, &["evil .git/modules/s/config; chmod 0311 .git/modules s"], "."),
    // (What only its owner can open, and will.)
    ("", &["git init -q x/n; evil x/n/.git/config; chmod 0 x/n x"], "x/n"),
    ("git init -q x/n", &["evil x/n/.git/config; chmod 0 x"], "x/n"),
    ("", &["git init -q x/n; evil x/n/.git/config; chmod 0 x"], "x/n"),
    ("", &["evil .git/config; chmod 0 ."], "."),
    // A missing object makes git fetch from a promisor remote, whose name it passes on as an argument.
    (
        "",
        &[
            "git init -q n; cd n; printf '#!/bin/sh\ntouch $MARK\nexit 1\n' > up.sh; chmod +x up.sh; git init -q p; printf '[remote \"--upload-pack=%s\"]\n\tpromisor = true\n\turl = x\n[remote \"origin\"]\n\turl = %s\n' $PWD/up.sh $PWD/p >> .git/config; git commit -q --allow-empty -m x; echo 1 > f; git add f; git commit -qm f; rm -rf .git/objects/$(git rev-parse HEAD^{tree} | sed 's,^..,&/,')",
        ],
        "n",
    ),
    (
        "mkdir bin; printf '#!/bin/sh\\ntouch $MARK\\n' > bin/ssh; chmod +x bin/ssh; git config core.sshCommand $PWD/bin/ssh",
        &[
            "echo 1 > f; git add f; git commit -qm f; printf '[remote \"p\"]\\n\\tpromisor = true\\n\\turl = ssh://evil.invalid/x\\n' >> .git/config; rm -rf .git/objects/$(git rev-parse HEAD^{tree} | sed 's,^..,&/,')",
        ],
        ".",
    ),
    (
        "mkdir bin; printf '#!/bin/sh\\ntouch $MARK\\n' > bin/ssh; chmod +x bin/ssh; git config --global core.sshCommand $PWD/bin/ssh",
        &[
            "git init -q n; cd n; echo 1 > f; git add f; git commit -qm f; printf '[remote \"p\"]\\n\\tpromisor = true\\n\\turl = .evil.invalid:x\\n' >> .git/config; rm -rf .git/objects/$(git rev-parse HEAD^{tree} | sed 's,^..,&/,')",
        ],
        "n",
    ),
    // What git reads otherwise than it looks.
    (
        "",
        &[
            "git init -q t; cp -r t/.git .git/zz; mkdir -p n/sub/.git; mv t/.git n/sub/.git/zz; evil n/sub/.git/zz/config; echo 'gitdir: /proc/self/cwd/.git/zz' > n/.git",
        ],
        "n/sub",
    ),
    (
        "",
        &["echo x > f; git add f; echo /f >> .gitignore; rm f; git init -q f; evil f/.git/config"],
        "f",
    ),
    (
        "",
        &[
            "git init -q target/e; git -C target/e commit -q --allow-empty -m x; echo target > .gitignore; git add -f target/e; git commit -qm s; evil target/e/.git/config; LC_ALL=C sed -i 's/\\x00\\x00\\xe0\\x00/\\x00\\x00\\xe0\\x01/' .git/index",
        ],
        ".",
    ),
    (
        "echo target > .gitignore; git add .gitignore; mv .git/index .git/i; ln -s i .git/index",
        &[
            "git init -q target/e; git -C target/e commit -q --allow-empty -m x; git add -f target/e; evil target/e/.git/config; test -L .git/index || { mv .git/index .git/i; ln -s i .git/index; }",
        ],
        ".",
    ),
    (
        "",
        &[
            "git init -q n; cd n; git init -q target/e; git -C target/e commit -q --allow-empty -m x; echo target > .gitignore; git add -f target/e; git commit -qm s; evil target/e/.git/config; mv .git '../store '; echo 'gitdir: ../store ' > .git",
        ],
        "n",
    ),
    // Other names of what git executes, and what it reaches inside a git directory.
    (
        "mkdir scripts; printf '#!/bin/sh\n' > scripts/h; chmod +x scripts/h; mkdir -p .git/hooks; ln scripts/h .git/hooks/post-index-change",
        &["printf '#!/bin/sh\ntouch $MARK\n' > scripts/h; rm scripts/h"],
        ".",
    ),
    (
        "mkdir -p .git/hooks/d; printf '#!/bin/sh\nfor x in .git/hooks/d/*; do $x; done\n' > .git/hooks/post-index-change; chmod +x .git/hooks/post-index-change",
        &["printf '#!/bin/sh\ntouch $MARK\n' > .git/hooks/d/x; chmod +x .git/hooks/d/x"],
        ".",
    ),
    (
        "mkdir -p .git/hooks/d; printf '#!/bin/sh\nfor x in .git/hooks/d/*; do $x; done\n' > .git/hooks/post-index-change; chmod +x .git/hooks/post-index-change",
        &[
            "printf '#!/bin/sh\ntouch $MARK\n' > .git/hooks/d/x.sample; chmod +x .git/hooks/d/x.sample",
        ],
        ".",
    ),
    (
        "mkdir -p .git/my .git/hooks; printf '#!/bin/sh\n' > .git/my/h; chmod +x .git/my/h; ln -s ../my/h .git/hooks/post-index-change",
        &["printf '#!/bin/sh\ntouch $MARK\n' > .git/my/h"],
        ".",
    ),
    ("git config include.path local.inc; touch .git/local.inc", &["evil .git/local.inc"], "."),
    // Where a search does not look, named by an index that leads each process elsewhere.
    (
        "",
        &[
            "git init -q n; cd n; mkdir -p ign/target; echo ign > .gitignore; git init -q ign/target/e; git -C ign/target/e commit -q --allow-empty -m x; git update-index --add --cacheinfo 160000,$(git -C ign/target/e rev-parse HEAD),ign/target/e; evil ign/target/e/.git/config; mv .git/index idx; ln -s /proc/self/cwd/idx .git/index",
        ],
        "n",
    ),
    // Build output in an ignored directory, and links out of build output.
    (
        "",
        &[
            "echo ign > .gitignore; mkdir -p ign/target; git init -q ign/target/e; evil ign/target/e/.git/config",
        ],
        "ign/target/e",
    ),
    (
        "",
        &[
            "echo ign > .gitignore; mkdir -p ign/target; git init -q ign/target/e; evil ign/target/e/.git/config; ln -s ign/target/e docs",
        ],
        "docs",
    ),
    (
        "",
        &[
            "echo node_modules > .gitignore; mkdir node_modules; git init -q .git/zz; evil .git/zz/.git/config; ln -s ../.git/zz node_modules/q",
        ],
        "node_modules/q",
    ),
    // What an earlier session planted, with a way to it in this one.
    (
        "",
        &[
            "git init -q zz; mv zz/.git .git/zz; git --git-dir=.git/zz commit -q --allow-empty -m x; evil .git/zz/config; sleep 4",
            "mkdir n; echo 'gitdir: ../.git/zz' > n/.git",
        ],
        "n",
    ),
    (
        SUBMODULE_WITHOUT_FILES,
        &[
            "mkdir -p .git/modules; (cd .git/modules; seq 1 12000 | xargs touch); git init -q w0; mv w0/.git .git/modules/s; rm -rf w0; mkdir -p .git/modules/s/hooks; printf '#!/bin/sh\ntouch $MARK\n' > .git/modules/s/hooks/post-checkout; chmod +x .git/modules/s/hooks/post-checkout; (cd .git/modules/s; git fetch -q ../../../../lib HEAD; git config core.worktree ../../../s; git rev-parse FETCH_HEAD > HEAD); rm -rf s; mkdir s; echo 'gitdir: ../.git/modules/s' > s/.git",
        ],
        "s",
    ),
    ("mv .git/config .git/c; ln -s c .git/config", &["evil .git/c"], "."),
];
/// A bare repository among the files of the user's project.
const FIXTURE: &str = "git init -q --bare fixtures/repo; git -C fixtures/repo config core.bare false; \
                       git -C fixtures/repo config core.fsmonitor 'touch $MARK; false'; mkdir src";
const SOURCES: &str = "mkdir -p build/x; touch build/f build/x/f; git add .; git commit -qm s";
const SUBMODULE: &str = "git init -q ../lib; git -C ../lib commit -q --allow-empty -m x; \
                         git -c protocol.file.allow=always submodule --quiet add ../lib s; git commit -qm s";

const SUBMODULE_WITHOUT_FILES: &str = "git init -q ../lib; git -C ../lib commit -q --allow-empty -m x; git -c protocol.file.allow=always submodule --quiet add ../lib s; git commit -qm s; git submodule deinit -f -q s; rm -rf .git/modules/s";

#[test]
#[ignore = "slow"]
fn git_runs_nothing_that_a_command_set_up() {
    // The places of one row wait for processes more than they compute.
    for (setup, lines, directory) in SURFACE {
        std::thread::scope(|scope| {
            for place in places() {
                scope.spawn(move || check_surface(&place, setup, lines, directory));
            }
        });
    }
}

/// The user's git runs in `directory` what neither `setup` nor `lines` of a session may have planted.
fn check_surface(place: &Place, setup: &str, lines: &[&str], directory: &str) {
    let (root, mark) = (place.test.root(), place.outside().join("marker"));
    let mark_text = mark.display().to_string();
    git(place, REPOSITORY);
    let names =
        "export HOME=$PWD/..; git config --global user.name n; git config --global user.email e; ";
    run(&root, &format!("{names}{}", setup.replace("$MARK", &mark_text)));
    // The function is defined in each script.
    let evil = format!(
        "evil() {{ printf '[core]\\n\\tfsmonitor = \"touch {mark_text}; false\"\\n' >> \"$1\"; }}"
    );
    let record_line = |line: &&str| {
        let line = line
            .replace("LAYOUT", &format!("mkdir -p objects refs; {FILES}"))
            .replace("FILES", FILES)
            .replace("$MARK", &mark_text);
        if line.starts_with("git add 1.x") {
            return record(place, &line);
        }
        write(&root.join("script.sh"), &format!("exec 2>/dev/null\n{evil}\n{line}\ntrue\n"));
        record(place, "bash ./script.sh")
    };
    let envelopes: Vec<Value> = lines.iter().map(record_line).collect();
    let look = "export LOOKS=1; git status >/dev/null 2>&1; git diff >/dev/null 2>&1; git add -A >/dev/null 2>&1; true";
    run(&root.join(directory), look);
    assert!(!mark.exists(), "{lines:?} {} {:?}: {envelopes:?}", place.backend, place.user);
}

#[test]
#[ignore = "slow"]
fn submodule_in_a_project_that_is_too_large_to_search_is_compared() {
    for place in places() {
        let place = place.with("checkpoints.max_files=3");
        git(&place, REPOSITORY);
        let line = format!(
            "exec 2>/dev/null; mkdir d; (cd d; seq 10100 | xargs mkdir); mkdir -p z/y/x; git init -q z/y/x/e; \
             git -C z/y/x/e -c user.name=n -c user.email=e commit -q --allow-empty -m x; git add z/y/x/e; \
             printf '[core]\n\tfsmonitor = \"touch {}; false\"\n' >> z/y/x/e/.git/config",
            place.outside().join("marker").display()
        );
        write(&place.test.root().join("script.sh"), &line);
        let envelope = record(&place, "bash ./script.sh");
        assert!(text(&envelope).contains("z/y/x/e/.git/config sets core.fsmonitor"), "{envelope}");
        run(&place.test.root(), "git status >/dev/null 2>&1; true");
        assert!(!place.outside().join("marker").exists(), "{} {envelope}", place.backend);
    }
}

#[test]
fn git_commands_that_write_its_configuration_are_not_reverted() {
    for place in places() {
        git(&place, REPOSITORY);
        run(
            &place.test.root().parent().unwrap().join("home"),
            "git config --global user.name n; git config --global user.email e",
        );
        for line in [
            "git switch -q -c topic && git switch -q -",
            "git remote add up ../elsewhere && git remote rename up down && git remote remove down",
            "git init -q sub && git -C sub commit -q --allow-empty -m x",
            "git -c protocol.file.allow=always submodule --quiet add ./sub m && git commit -qm m",
            "git worktree add -q wt && git -C wt commit -q --allow-empty -m x && git worktree remove wt",
            "git sparse-checkout set src && git sparse-checkout disable",
            "git clone -q sub copy && git -C copy switch -q -c x",
            "git branch --set-upstream-to=topic && git branch -D topic",
            "git init -q --bare store.git",
            "mkdir w && echo 'gitdir: ../store.git' > w/.git",
            "git clone -q sub clone && git -C clone worktree add -q ../linked",
            "mv clone moved && git -C moved worktree repair ../linked",
            "git rm -qf m && git commit -qm rm && rm -rf .git/modules/m 2>/dev/null || true",
        ] {
            let envelope = record(&place, line);
            assert_eq!(envelope["status"], "success", "{line} {} {envelope}", place.backend);
            assert!(!text(&envelope).contains("Note:"), "{line} {} {envelope}", place.backend);
        }
    }
}

/// As `git worktree add` makes them.
const WORKTREES: &str = "for n in $(seq 1000); do w=.git/worktrees/w$n; mkdir -p $w; echo 'ref: refs/heads/x' > $w/HEAD; \
                         echo ../.. > $w/commondir; echo $PWD/w$n/.git > $w/gitdir; done";

#[test]
fn one_of_a_thousand_worktrees_is_compared() {
    for place in places() {
        git(&place, REPOSITORY);
        git(&place, WORKTREES);
        let line = "echo /tmp > .git/worktrees/w777/commondir; git switch -q -c topic";
        let envelope = record(&place, line);
        assert_eq!(place.test.read(".git/worktrees/w777/commondir"), "../..\n", "{envelope}");
        assert_eq!(text(&envelope).matches("Note:").count(), 1, "{envelope}");
        assert_eq!(place.test.read(".git/HEAD"), "ref: refs/heads/topic\n", "{envelope}");
    }
}

#[test]
fn work_tree_elsewhere_by_the_users_configuration_is_left() {
    for place in places() {
        git(&place, REPOSITORY);
        let other = place.outside().display().to_string();
        git(&place, &format!("git config core.worktree {other}"));
        let config = place.test.read(".git/config");
        let envelope = record(&place, "git branch topic; touch x");
        assert_eq!(envelope["text"], "Exited 0, without output.", "{envelope}");
        let envelope = place.script("git config core.worktree / 2>/dev/null; true");
        assert_eq!(place.test.read(".git/config"), config, "{envelope}");
    }
}

#[test]
fn two_sessions_compare_at_once() {
    for place in places() {
        git(&place, REPOSITORY);
        let hook = "exec 2>/dev/null; mkdir -p .git/hooks; echo x > .git/hooks/post-checkout; sleep 1; git branch a";
        let mut first = session(&place);
        let mut second = session(&place);
        first.call("Bash", &json!({"command": hook, "background": true}));
        let other = second.call("Bash", &json!({"command": "git remote add up ../up; sleep 0.5"}));
        let ended = first.call("Bash", &json!({"background": "bg_1", "timeout_ms": 20000}));
        let shown = format!("{} {other} {ended}", place.backend);
        assert!(!place.test.root().join(".git/hooks/post-checkout").exists(), "{shown}");
        assert!(place.test.read(".git/config").contains("../up"), "{shown}");
        assert!(place.test.root().join(".git/refs/heads/a").exists(), "{shown}");
        first.end();
        second.end();
    }
}

#[test]
fn what_a_command_wrote_before_it_was_killed_is_reverted() {
    for place in places() {
        git(&place, REPOSITORY);
        let line = "echo /tmp > .git/commondir; sleep 100";
        let envelope = place.call(&json!({"command": line, "timeout_ms": 1000}));
        assert!(text(&envelope).contains(".git/commondir decides"), "{envelope}");
        assert!(!place.test.root().join(".git/commondir").exists(), "{envelope}");
    }
}

#[test]
fn changed_address_of_a_remote_is_reverted_and_kept() {
    for place in places() {
        git(&place, REPOSITORY);
        git(&place, "git remote add origin https://example.org/a");
        let config = place.test.read(".git/config");
        let envelope = record(
            &place,
            "git remote rename origin x; git remote add origin https://evil.example/; true",
        );
        assert_eq!(place.test.read(".git/config"), config);
        let text = text(&envelope);
        assert!(text.contains(".git/config changed remote.origin.url"), "{envelope}");
        // What was written is kept.
        let kept = text.split("its content is in ").nth(1).unwrap().split(')').next().unwrap();
        assert!(std::fs::read_to_string(kept).unwrap().contains("evil.example"), "{envelope}");
    }
}

#[test]
fn another_remote_of_a_branch_is_reverted() {
    // (Elsewhere the configuration is mounted.)
    for place in places().into_iter().filter(|place| place.backend == "landlock") {
        git(&place, REPOSITORY);
        git(&place, "git remote add origin ../o; git config branch.main.remote origin");
        let config = place.test.read(".git/config");
        for (line, name) in [
            ("git config branch.main.remote n", "branch.main.remote"),
            ("git config branch.main.pushRemote n", "branch.main.pushremote"),
            ("mkdir -p .git/remotes; echo 'URL: x' > .git/remotes/origin", ".git/remotes/origin"),
        ] {
            let line = format!("git remote add n ./n; {line}");
            let envelope = place.script(&line);
            assert!(text(&envelope).contains(name), "{line} {envelope}");
            run(&place.test.root(), "git remote remove n 2>/dev/null; true");
            assert_eq!(place.test.read(".git/config"), config, "{line} {envelope}");
            assert!(!place.test.root().join(".git/remotes/origin").exists(), "{envelope}");
        }
    }
}

#[test]
fn settings_for_all_repositories_are_not_made_in_a_home_that_is_the_project() {
    for place in places() {
        git(&place, REPOSITORY);
        let root = place.test.root();
        let line = "echo '[core]' > .gitconfig; mkdir -p .config ev; touch ev/config; ln -s ../ev .config/git; ln -s ev .hg; mv ev/config ev/hgrc";
        write(&root.join("script.sh"), line);
        let input = json!({"command": "bash ./script.sh"}).to_string();
        let mut command = place.command(&["tool", "call", "Bash", &input]);
        let done = command.env("HOME", &root).output().unwrap();
        for path in [".gitconfig", ".config/git", ".hg"] {
            let is_there = root.join(path).symlink_metadata().is_ok();
            assert!(!is_there, "{path} {} {done:?}", place.backend);
        }
        assert!(root.join("ev/hgrc").exists());
    }
}

#[test]
fn large_hook_that_was_overwritten_is_moved_aside() {
    for place in places() {
        git(&place, REPOSITORY);
        let hook =
            "(echo '#!/bin/sh'; head -c 5000000 /dev/zero | tr '\\0' '#') > .git/hooks/pre-commit";
        git(&place, &format!("mkdir -p .git/hooks; {hook}; chmod +x .git/hooks/pre-commit"));
        let envelope =
            place.script("echo x > .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit; true");
        let hook = std::fs::read_to_string(place.test.root().join(".git/hooks/pre-commit"));
        assert!(hook.is_err() || hook.unwrap().len() > 5_000_000, "{envelope}");
    }
}

#[test]
fn an_undo_sets_up_nothing() {
    for place in places() {
        let (root, mark) = (place.test.root(), place.outside().join("marker"));
        git(&place, REPOSITORY);
        let fsmonitor = format!("fsmonitor = \"touch {}; false\"", mark.display());
        let config = format!("[core]\\n\\tbare = false\\n\\tworktree = %s\\n\\t{fsmonitor}\\n");
        let mut output = String::new();
        for line in [
            &format!(
                "mkdir -p x/objects x/refs; touch x/objects/k x/refs/k; printf '{config}' $PWD/x > x/config"
            ),
            "rm x/config; cp .git/HEAD x; truncate -s 300M x/HEAD",
        ] {
            let script = format!("call: Bash {}\n---\ntext: done", json!({"command": line}));
            write(&root.join("../script"), &script);
            let arguments =
                ["run", "--model", "script:../script", "--output-format", "stream-json"];
            let done = place.command(&arguments).arg("go").output().unwrap();
            assert!(done.status.success(), "{done:?}");
            output = String::from_utf8(done.stdout).unwrap();
        }
        let id = output.rsplit("\"session_id\":\"").next().unwrap().split('"').next().unwrap();
        let done = as_user(&place, &["session", "undo", id]).output().unwrap();
        run(&root.join("x"), "git status >/dev/null 2>&1; true");
        assert!(!mark.exists(), "{} {:?}: {done:?}", place.backend, place.user);
        assert!(root.join("x/config").exists(), "{done:?}");
    }
}

/// The binary as the user of a place, without a sandbox backend.
fn as_user(place: &Place, arguments: &[&str]) -> Command {
    let mut command = place.test.command(arguments);
    if let Some(user) = place.user {
        command.uid(user).gid(user);
    }
    command
}

#[test]
fn repository_of_a_background_command_is_compared_when_it_ends() {
    for place in places() {
        let (root, mark) = (place.test.root(), place.outside().join("marker"));
        git(&place, REPOSITORY);
        let line = format!(
            "git init -q n; printf '[core]\n\tfsmonitor = \"touch {}; false\"\n' >> n/.git/config; touch made",
            mark.display()
        );
        let script =
            format!("call: Bash {}\n---\ntext: one", json!({"command": line, "background": true}));
        write(&root.join("../script"), &script);
        let mut chat = place.command(&["chat", "--plain", "--model", "script:../script"]);
        let mut chat = chat.stdin(Stdio::piped()).spawn().unwrap();
        chat.stdin.as_mut().unwrap().write_all(b"go\n").unwrap();
        let config = root.join("n/.git/config");
        crate::support::wait_for(|| root.join("made").exists());
        crate::support::wait_for(|| {
            !std::fs::read_to_string(&config).unwrap().contains("fsmonitor")
        });
        chat.stdin.take();
        chat.wait().unwrap();
        assert!(!mark.exists(), "{} {:?}", place.backend, place.user);
    }
}

#[test]
fn mode_of_a_hook_is_compared_in_read_only_mode() {
    for place in places() {
        git(&place, REPOSITORY);
        git(&place, "mkdir -p .git/hooks; echo > .git/hooks/pre-commit");
        let line = json!({"command": "chmod +x .git/hooks/pre-commit"}).to_string();
        let backend = format!("sandbox.backend={}", place.backend);
        let arguments = ["--permission-mode", "read-only", "--set", &backend];
        let mut command = as_user(&place, &["tool", "call", "Bash", &line]);
        let done = command.args(arguments).output().unwrap();
        let hook = place.test.root().join(".git/hooks/pre-commit").metadata().unwrap();
        assert_eq!(hook.permissions().mode() & 0o111, 0, "{} {done:?}", place.backend);
    }
}

#[test]
fn session_in_a_submodule_commits() {
    for place in places() {
        let main = place.test.root().parent().unwrap().join("main");
        let library = main.with_file_name("library");
        repository(&library);
        repository(&main);
        let add = "git -c protocol.file.allow=always submodule --quiet add ../library inner";
        run(&main, add);
        let inner = main.join("inner");
        run(&inner, "git config user.email a@b; git config user.name n");
        let line = "echo b > b && git add b && git commit -qm second && git log -1 --format=%s";
        let input = json!({"command": line}).to_string();
        let mut command = place.command(&["tool", "call", "Bash", &input]);
        let envelope: Value =
            serde_json::from_slice(&command.current_dir(&inner).output().unwrap().stdout).unwrap();
        assert_eq!(envelope["data"]["stdout"], "second\n", "{} {envelope}", place.backend);
    }
}

#[test]
fn processes_that_a_command_left_set_up_nothing() {
    for place in places() {
        let (root, mark) = (place.test.root(), place.outside().join("marker"));
        git(&place, REPOSITORY);
        write(
            &root.join("f"),
            &format!("[core]\n\tfsmonitor = \"touch {}; false\"\n", mark.display()),
        );
        let mut batch = session(&place);
        batch.call("Bash", &json!({"command": "git sparse-checkout set sub"}));
        let line = "(sleep 0.3; cp f .git/config.worktree) >/dev/null 2>&1 </dev/null & true";
        batch.call("Bash", &json!({"command": line}));
        let answers = ["sleep 1", "touch x"].map(|it| batch.call("Bash", &json!({"command": it})));
        let is_told = answers.iter().any(|it| text(it).contains("changed core.fsmonitor"));
        assert!(is_told, "{} {answers:?}", place.backend);
        // One that writes until the session ends.
        let line = "(while :; do cp f .git/w; mv .git/w .git/config.worktree; done) >/dev/null 2>&1 & sleep 0.2";
        batch.call("Bash", &json!({"command": line}));
        batch.end();
        run(&root, "git status >/dev/null 2>&1; true");
        assert!(!mark.exists(), "{} {:?}", place.backend, place.user);
        // One that makes a repository after the last command.
        let mut batch = session(&place);
        let line = "(until [ -e go ]; do :; done; git init -q n; cp f n/.git/config; touch n/made) >/dev/null 2>&1 & true";
        batch.call("Bash", &json!({"command": line}));
        write(&root.join("go"), "");
        crate::support::wait_for(|| root.join("n/made").exists());
        batch.end();
        run(&root.join("n"), "git status >/dev/null 2>&1; true");
        assert!(!mark.exists(), "{} {:?}", place.backend, place.user);
    }
}

#[test]
fn what_one_command_prepares_and_the_next_completes_is_found() {
    let attacks: &[(&str, &[&str], &str)] = &[
        // (Valid only after the second command, which changes one file in place.)
        (
            "",
            &[
                "mkdir sub; cd sub; mkdir objects refs; echo x > HEAD; FILES; echo x > HEAD",
                "echo 'ref: refs/heads/m' > sub/HEAD",
            ],
            "sub",
        ),
        (
            "",
            &[
                "mkdir -p foo/objects foo/refs foo/worktrees/n wt; cp .git/HEAD foo/worktrees/n; \
                 echo ../.. > foo/worktrees/n/commondir; evil foo/config; echo 'gitdir: ../foo/worktrees/n' > wt/.git",
                "git update-index --add --cacheinfo 160000,$(git rev-parse HEAD),wt",
            ],
            ".",
        ),
        ("", &["git init -q n; sleep 0.1", "evil n/.git/config; sleep 0.1", "touch x"], "n"),
        // The text of `.git` stays, and leads elsewhere.
        (
            FIXTURE,
            &[
                "git init -q g; mv g/.git g2; ln -s g2 l; echo 'gitdir: ../l' > src/.git",
                "ln -sfn fixtures/repo l",
            ],
            "src",
        ),
        (
            FIXTURE,
            &[
                "git init -q g; mkdir fx; mv g/.git fx/repo; ln -s fx l; echo 'gitdir: ../l/repo' > src/.git",
                "mv fx fx2; mv fixtures fx",
            ],
            "src",
        ),
        // A file tool completes what is known.
        (
            "",
            &[
                "mkdir x; cd x; touch objects refs; chmod +x objects refs; cp ../.git/HEAD .",
                r#"{"path": "x/config", "content": "[core]\n\tbare = false\n\tworktree = $ROOT/x\n\tfsmonitor = \"touch $MARK; false\"\n"}"#,
            ],
            "x",
        ),
    ];
    for (setup, lines, directory) in attacks {
        for place in places() {
            let (root, mark) = (place.test.root(), place.outside().join("marker"));
            git(&place, REPOSITORY);
            git(&place, &setup.replace("$MARK", &mark.display().to_string()));
            let evil = format!(
                "evil() {{ printf '[core]\\n\\tfsmonitor = \"touch {}; false\"\\n' >> \"$1\"; }}",
                mark.display()
            );
            let script = lines.iter().map(|line| {
                if line.starts_with('{') {
                    let input = line.replace("$MARK", &mark.display().to_string());
                    let input = input.replace("$ROOT", &root.display().to_string());
                    return format!("call: Write {input}\n---\n");
                }
                let line = format!("{evil}\n{}", line.replace("FILES", FILES));
                format!("call: Bash {}\n---\n", json!({"command": line}))
            });
            let script = format!("{}text: done", script.collect::<String>());
            write(&root.join("../script"), &script);
            let done =
                place.command(&["run", "--model", "script:../script", "go"]).output().unwrap();
            assert!(done.status.success(), "{done:?}");
            run(&root.join(directory), "git status >/dev/null 2>&1; true");
            assert!(!mark.exists(), "{lines:?} {} {:?}: {done:?}", place.backend, place.user);
        }
    }
}
