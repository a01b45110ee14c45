//! What a command, or a hook that git runs, can do to where git's repositories lie and to their settings.

use std::os::unix::fs::{PermissionsExt as _, symlink};

use serde_json::{Value, json};

use crate::batch::Batch;
use crate::sandbox::{Place, REPOSITORY, git, look, places, write};
use crate::support::has;

/// A hook of the project's, which git's own command `git commit` runs where it may write.
fn hook(place: &Place, lines: &str) {
    git(place, "git config core.hooksPath own-hooks");
    let hook = place.test.root().join("own-hooks/pre-commit");
    write(&hook, &format!("#!/bin/sh\n{lines}\n"));
    std::fs::set_permissions(&hook, std::fs::Permissions::from_mode(0o755)).unwrap();
}

fn commit(place: &Place) -> Value {
    place.call(&json!({"command": "git commit -q --allow-empty -m 'by a hook'"}))
}

fn told(envelope: &Value) -> &str {
    let text = envelope["text"].as_str().unwrap();
    text.find("must not change").map_or("", |at| &text[at..])
}

/// Another repository of the user's beside the project, with a worktree in `tree`.
const OTHER: &str = "cd ../outside; git init -q main; cd main; git config user.email a@b; git config user.name a; \
                     git commit -q --allow-empty -m first; git worktree add -q ../tree";

/// What a hook tries where git may write.
const ATTACK: &str = "find $OUT -name '.git' | while read at; do for f in $at $at/config $at/HEAD $at/own \
                      $at/hooks/post-checkout $at/worktrees/tree/gitdir; do echo x >> $f; done; done 2>/dev/null; \
                      touch $OUT/new; echo tried >&2";

#[test]
fn a_link_to_the_file_of_another_worktree_gives_git_nothing_outside() {
    if !has("git", "a_link_to_the_file_of_another_worktree_gives_git_nothing_outside") {
        return;
    }
    for place in places() {
        let root = place.test.root();
        git(&place, REPOSITORY);
        git(&place, OTHER);
        hook(&place, ATTACK);
        let tree = place.outside().join("tree");
        // A command made these.
        std::fs::create_dir(root.join("sub")).unwrap();
        symlink(tree.join(".git"), root.join("sub/.git")).unwrap();
        symlink(&tree, root.join("whole")).unwrap();
        std::fs::create_dir(root.join("deep")).unwrap();
        symlink("../whole/.git", root.join("deep/.git")).unwrap();
        let before = look(&place.outside());
        let done = commit(&place);
        assert!(done["data"]["stderr"].as_str().unwrap().contains("tried"), "{done}");
        place.call(&json!({"command": "git -C sub branch own"}));
        assert_eq!(look(&place.outside()), before, "{} {:?}", place.backend, place.user);
    }
}

#[test]
fn a_worktree_that_a_link_leads_elsewhere_is_meant_by_nobody() {
    if !has("git", "a_worktree_that_a_link_leads_elsewhere_is_meant_by_nobody") {
        return;
    }
    for place in places() {
        let root = place.test.root();
        git(&place, REPOSITORY);
        git(&place, OTHER);
        hook(&place, ATTACK);
        // The worktree outside is named by a way through the project, which a command can lead to a folder of its own.
        let named = root.join("way/.git");
        let own = place.outside().join("main/.git/worktrees/tree");
        write(&own.join("gitdir"), &format!("{}\n", named.display()));
        symlink("sub", root.join("way")).unwrap();
        write(&root.join("sub/.git"), &format!("gitdir: {}\n", own.display()));
        let before = look(&place.outside());
        let done = commit(&place);
        assert!(done["data"]["stderr"].as_str().unwrap().contains("tried"), "{done}");
        assert_eq!(look(&place.outside()), before, "{} {:?}", place.backend, place.user);
    }
}

#[test]
fn a_folder_named_worktrees_around_the_project_is_no_repository() {
    if !has("git", "a_folder_named_worktrees_around_the_project_is_no_repository") {
        return;
    }
    for place in places() {
        // The project is `code/worktrees/project`: a command can make it look like a worktree of `code`.
        let above = place.test.root().join("../code/worktrees");
        std::fs::create_dir_all(&above).unwrap();
        let above = above.canonicalize().unwrap();
        let root = above.join("project");
        std::fs::rename(place.test.root(), &root).unwrap();
        symlink(&root, above.join("../../project")).unwrap();
        git(&place, REPOSITORY);
        hook(&place, "touch ../../new ../new; echo tried >&2");
        write(&root.join("commondir"), "../..\n");
        write(&root.join("gitdir"), &format!("{}\n", root.join("sub/.git").display()));
        write(&root.join("sub/.git"), "gitdir: ..\n");
        let done = commit(&place);
        assert!(done["data"]["stderr"].as_str().unwrap().contains("tried"), "{done}");
        for new in ["new", "../new"] {
            assert!(!above.join(new).exists(), "{} {:?} {new}", place.backend, place.user);
        }
    }
}

#[test]
fn what_lies_above_a_project_with_a_repository_of_its_own_is_not_written() {
    if !has("git", "what_lies_above_a_project_with_a_repository_of_its_own_is_not_written") {
        return;
    }
    for place in places() {
        git(&place, &format!("cd ..; {REPOSITORY}"));
        let outer = place.test.root().join("../.git").canonicalize().unwrap();
        git(&place, REPOSITORY);
        hook(&place, &format!("touch {}/new; echo tried >&2", outer.display()));
        let done = commit(&place);
        assert!(done["data"]["stderr"].as_str().unwrap().contains("tried"), "{done}");
        assert!(!outer.join("new").exists(), "{} {:?}", place.backend, place.user);
        // Without one it is the project's.
        git(&place, "rm -rf .git");
        let done = place.call(&json!({"command": "git add own"}));
        assert_eq!(done["status"], "success", "{} {:?} {done}", place.backend, place.user);
    }
}

#[test]
fn git_writes_where_worktrees_and_submodules_of_the_project_lie() {
    if !has("git", "git_writes_where_worktrees_and_submodules_of_the_project_lie") {
        return;
    }
    for place in places() {
        git(&place, REPOSITORY);
        git(&place, OTHER);
        git(
            &place,
            "git -C ../outside/main worktree add -q -b here ../../project/tree; \
             git -c protocol.file.allow=always submodule --quiet add ../outside/main sub; \
             git worktree add -q inner; git -C sub sparse-checkout init",
        );
        // Git names them by their path, or by the way from where it lies.
        for folder in ["tree", "sub", "inner"] {
            let line = format!("git -C {folder} branch new");
            let done = place.call(&json!({"command": line}));
            assert_eq!(done["status"], "success", "{} {folder} {done}", place.backend);
        }
        let own = place.outside().join("main/.git/worktrees/tree1/gitdir");
        assert!(std::fs::read_to_string(&own).unwrap().ends_with("project/tree/.git\n"));
        write(&own, "../../../../../project/tree/.git\n");
        let done = place.call(&json!({"command": "git -C tree branch relative"}));
        assert_eq!(done["status"], "success", "{} {done}", place.backend);
    }
}

#[test]
fn a_setting_that_runs_something_is_told_however_it_is_written() {
    if !has("git", "a_setting_that_runs_something_is_told_however_it_is_written") {
        return;
    }
    for place in places() {
        git(&place, REPOSITORY);
        let config = place.test.root().join(".git/config");
        let intact = place.test.read(".git/config");
        for (added, key) in [
            ("[core]\n# note \\\n\tfsmonitor = ./evil.sh\n", "core.fsmonitor"),
            ("[branch \"b\"]\n\tmerge = a\\\\\n[alias]\n\tst = !./evil.sh\n", "alias.st"),
            ("[branch \"b\"]\n\tmerge = y # c \\\n[core]\n\teditor = ./evil.sh\n", "core.editor"),
            ("[branch][core] editor = ./evil.sh\n", "core.editor"),
            ("[branch \"\\\\\"][core]editor=./evil.sh\n", "core.editor"),
            ("[rebase]\n\tinstructionFormat = %s%nexec x\n", "rebase.instructionformat"),
            ("[of \"no\"]\n\tmanual = x\n", "of.no.manual"),
            ("[http \"https://x.org\"]\n\tcookieFile = ../own\n", "http.https://x.org.cookiefile"),
        ] {
            std::fs::write(&config, &intact).unwrap();
            hook(&place, "cat added >> .git/config");
            write(&place.test.root().join("added"), added);
            let envelope = commit(&place);
            assert!(told(&envelope).contains(".git/config"), "{added} {envelope}");
            git(&place, &format!("git config {key}"));
        }
        std::fs::write(&config, &intact).unwrap();
        hook(&place, "printf '[branch \"x\"]\\n\\tremote = origin # \\\\\\n' >> .git/config");
        assert_eq!(told(&commit(&place)), "");
    }
}

#[test]
fn settings_that_are_included_and_hooks_elsewhere_in_it_are_as_gits_own() {
    if !has("git", "settings_that_are_included_and_hooks_elsewhere_in_it_are_as_gits_own") {
        return;
    }
    for place in places() {
        git(&place, REPOSITORY);
        let root = place.test.root();
        write(&root.join(".git/of/user"), "[include]\n\tpath = ../deep/er\n");
        write(&root.join(".git/deep/er"), "[index]\n\tsparse = false\n");
        git(&place, "git config include.path of/user; git config core.hooksPath .git/my-hooks");
        write(&root.join(".git/my-hooks/pre-commit"), "#!/bin/sh\n. ./lint\n");
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(root.join(".git/my-hooks/pre-commit"), mode).unwrap();
        for (lint, path) in [
            ("git config --file .git/of/user core.fsmonitor ./x", ".git/of/user"),
            ("git config --file .git/deep/er core.fsmonitor ./x", ".git/deep/er"),
            ("echo x > .git/my-hooks/pre-push", ".git/my-hooks/pre-push"),
        ] {
            let before = std::fs::read(root.join(path)).ok();
            write(&root.join("lint"), lint);
            let done = commit(&place);
            let is_changed = std::fs::read(root.join(path)).ok() != before;
            let case = format!("{} {:?} {lint}: {done}", place.backend, place.user);
            assert_eq!(told(&done).contains(path), is_changed, "{case}");
            assert!(is_changed || path.contains("hooks"), "{case}");
        }
    }
}

#[test]
fn settings_that_become_a_link_or_can_not_be_read_are_told() {
    if !has("git", "settings_that_become_a_link_or_can_not_be_read_are_told") {
        return;
    }
    for place in places() {
        let intact =
            "rm -rf .git other mine; ".to_owned() + REPOSITORY + "; git worktree add -q -f other";
        for (lines, file) in [
            ("cp .git/config mine; rm .git/config; ln -s ../mine .git/config", "config"),
            ("ln -s ../mine .git/config.worktree", "config.worktree"),
            ("ln -s ../mine .git/commondir", "commondir"),
            ("cp .git/config .git/x; ln .git/x .git/y; mv .git/x .git/config", "config"),
            (
                "cp -r .git/worktrees mine; mv .git/worktrees .git/w; ln -s ../mine .git/worktrees",
                "commondir",
            ),
            ("mv .git/worktrees .git/w; ln -s ../nothing .git/worktrees", "commondir"),
            ("ln other/.git mine", "other/.git"),
            ("head -c 5000000 /dev/zero | tr '\\0' '\\n' >> .git/config", "config"),
            ("echo '[core' >> .git/config", "config"),
            ("rm -f .git/config.worktree; mkfifo .git/config.worktree", "config.worktree"),
        ] {
            git(&place, &intact);
            hook(&place, lines);
            let envelope = commit(&place);
            assert!(told(&envelope).contains(file), "{} {lines}: {envelope}", place.backend);
        }
    }
}

#[test]
fn a_repository_that_is_said_to_lie_around_it_opens_nothing() {
    if !has("git", "a_repository_that_is_said_to_lie_around_it_opens_nothing") {
        return;
    }
    for place in places() {
        let root = place.test.root();
        git(&place, REPOSITORY);
        std::fs::create_dir_all(root.join(".agent")).unwrap();
        // A command made these: the project passes for the repository of `x`, and another folder for that of `y/z`.
        write(&root.join("x/.git"), "gitdir: ..\n");
        write(&root.join("gitdir"), &format!("{}\n", root.join("x/.git").display()));
        write(&root.join("z/.git"), "gitdir: ../y\n");
        write(&root.join("y/gitdir"), &format!("{}\n", root.join("z/.git").display()));
        // A repository further down lies in one that is said to.
        git(&place, "git init -q a/sub");
        write(&root.join("d/e/x/.git"), "gitdir: ../../../a\n");
        write(&root.join("a/gitdir"), &format!("{}\n", root.join("d/e/x/.git").display()));
        let written = [".git/hooks/evil", ".agent/evil", "a/sub/.git/hooks/evil"];
        hook(&place, &format!("for f in {}; do echo x > $f; done; true", written.join(" ")));
        let done = commit(&place);
        for path in written {
            let is_told = told(&done).contains(path);
            let is_held =
                if place.backend == "namespaces" { !root.join(path).exists() } else { is_told };
            assert!(is_held, "{path} {} {:?}: {done}", place.backend, place.user);
        }
    }
}

#[test]
fn hooks_of_modules_are_covered_wherever_they_lie() {
    if !has("git", "hooks_of_modules_are_covered_wherever_they_lie") {
        return;
    }
    for place in places() {
        let root = place.test.root();
        git(&place, REPOSITORY);
        let module = ".git/modules/a/b/c/d";
        for name in ["HEAD", "objects/x", "hooks/sample"] {
            write(&root.join(module).join(name), "");
        }
        let evil = format!("{module}/hooks/post-checkout");
        // What lies above is moved, what makes it a module is taken away, what is none passes for one.
        let attack = format!(
            "mv .git/modules .git/m2 && cp -r .git/m2 .git/modules; mv {module}/HEAD {module}/H; touch .git/modules/a/HEAD; \
             echo x > {evil}; true"
        );
        hook(&place, &attack);
        for _ in 0..2 {
            let done = commit(&place);
            let is_held = if place.backend == "namespaces" {
                !root.join(&evil).exists()
            } else {
                told(&done).contains("post-checkout")
            };
            assert!(is_held, "{} {:?}: {done}", place.backend, place.user);
            _ = std::fs::remove_file(root.join(&evil));
        }
    }
}

#[test]
fn hooks_and_settings_of_modules_of_worktrees_and_worktrees_of_modules_are_covered_or_told() {
    if !has("git", "hooks_and_settings_of_modules_of_worktrees_are_covered_or_told") {
        return;
    }
    for place in places() {
        let root = place.test.root();
        git(&place, REPOSITORY);
        let (tree, module) = (".git/worktrees/t/modules/m", ".git/modules/n/worktrees/w");
        // (Names as git's own folders have them.)
        let named = ".git/modules/libs/objects";
        for path in [tree, ".git/modules/n", named, ".git/modules/libs/refs/deep"] {
            for name in ["HEAD", "objects/x", "hooks/sample", "config"] {
                write(&root.join(path).join(name), "");
            }
        }
        write(&root.join(module).join("commondir"), "../..\n");
        let commondir = format!("{module}/commondir");
        hook(
            &place,
            &format!(
                "for at in {tree} {named} {named}/../refs/deep; do echo x > $at/hooks/post-checkout; done; git config -f {tree}/config core.fsmonitor ./x; \
                 echo ../../x > {commondir}; true"
            ),
        );
        let done = commit(&place);
        let said = told(&done);
        let how = format!("{} {:?}: {done}", place.backend, place.user);
        assert!(said.contains(&format!("{tree}/config")) && said.contains(&commondir), "{how}");
        for at in [tree, named, ".git/modules/libs/refs/deep"] {
            let hook = root.join(at).join("hooks/post-checkout");
            let is_told = said.contains(&format!("{at}/hooks/post-checkout"));
            let holds = !hook.exists() || place.backend == "landlock" && is_told;
            assert!(holds, "{at}: {how}");
        }
    }
}

#[test]
fn a_repository_of_the_project_that_its_file_names_is_protected_and_gits() {
    if !has("git", "a_repository_of_the_project_that_its_file_names_is_protected_and_gits") {
        return;
    }
    for make in [
        "git init -q --separate-git-dir=store .",
        "git init -q --bare store; echo 'gitdir: ./store' > .git; git config core.bare false",
        // Names as git reads them.
        "git init -q --separate-git-dir=$'st\\xf6re ' .; ln -s st*re* store",
        // The file behind a link, and a worktree in its own repository.
        "git init -q --separate-git-dir=store .; mv .git dotgit; ln -s dotgit .git",
        "git init -q first; git -C first -c user.email=a@b -c user.name=a commit -q --allow-empty -m x; \
         git clone -q --bare first store; rm -rf first; git -C store worktree add -q wt",
    ] {
        for place in places() {
            let root = place.test.root();
            git(&place, make);
            git(&place, "git -C store config user.email a@b; git -C store config user.name a");
            let before = std::fs::read(root.join("store/config")).unwrap();
            let line =
                "echo x > store/hooks/post-checkout; git config -f store/config core.fsmonitor x";
            let done = place.call(&json!({"command": line}));
            let how = format!("{make} {} {:?}: {done}", place.backend, place.user);
            if place.backend == "namespaces" {
                assert!(!root.join("store/hooks/post-checkout").exists(), "{how}");
                assert_eq!(std::fs::read(root.join("store/config")).unwrap(), before, "{how}");
            } else {
                assert!(told(&done).contains("post-checkout"), "{how}");
                assert!(
                    told(&done).contains("re/config") || told(&done).contains("re /config"),
                    "{how}"
                );
                std::fs::write(root.join("store/config"), before).unwrap();
                std::fs::remove_file(root.join("store/hooks/post-checkout")).unwrap();
            }
            let folder = if root.join(".git").exists() { "." } else { "store/wt" };
            let line = format!("git -C {folder} commit --allow-empty -qm one");
            let done = place.call(&json!({"command": line}));
            assert_eq!(done["status"], "success", "{make} {} {done}", place.backend);
        }
    }
}

#[test]
fn git_works_in_a_worktree_that_lies_in_its_bare_repository_and_in_nothing_beside_it() {
    if !has(
        "git",
        "git_works_in_a_worktree_that_lies_in_its_bare_repository_and_in_nothing_beside_it",
    ) {
        return;
    }
    for place in places() {
        git(&place, REPOSITORY);
        let root = place.test.root();
        let make = "cd ../outside && git clone -q --bare ../project p.git && cd p.git && git worktree add -q tree && \
                    git worktree add -q other && git worktree add -q branches/third && git worktree add -q branches/a/b/fourth && git worktree add -q branches/a/b/fifth && git worktree add -q ../beside && \
                    mkdir notes && echo A=1 > .env && echo a | tee README TODO uv.lock > LICENSE && mkfifo fifo && \
                    git config user.email a@b && git config user.name a && git config core.hooksPath own-hooks";
        git(&place, make);
        let tree = place.outside().join("p.git/tree");
        let names = [
            "other/own",
            "other/.git",
            "other/new",
            "branches/third/.git",
            "branches/third/new",
            "branches/a/b/fourth/new",
            "notes/n",
            ".env",
            "README",
            "TODO",
            "uv.lock",
            "LICENSE",
        ];
        let attack = format!(
            "#!/bin/sh\nat=$(git rev-parse --git-common-dir); for name in {}; do echo x >> $at/$name; done; rm -f $at/fifo; \
             mv $at/branches $at/b; echo /nowhere/.git > $at/worktrees/other/gitdir; chmod 300 $at; true\n",
            names.join(" ")
        );
        let hook = |tree: &std::path::Path| {
            let hook = tree.join("own-hooks/pre-commit");
            write(&hook, &attack);
            std::fs::set_permissions(&hook, std::fs::Permissions::from_mode(0o755)).unwrap();
        };
        let common = place.outside().join("p.git");
        let beside = |name: &&str| std::fs::read(common.join(name)).ok();
        let look = || (names.iter().map(beside).collect::<Vec<_>>(), common.join("fifo").exists());
        let before = look();
        hook(&tree);
        let input =
            json!({"command": "git add -A && git commit -q --allow-empty -m two && git branch b && git branch -d b"}).to_string();
        let commit = |tree: &std::path::Path| {
            let mut command = place.command(&["tool", "call", "Bash", &input]);
            let done = command.arg("-C").arg(tree).output().unwrap();
            String::from_utf8_lossy(&done.stdout).into_owned()
        };
        let done = commit(&tree);
        // With Landlock alone git would write all of it or too little.
        let is_done = done.contains("\"status\":\"success\"");
        assert_eq!(is_done, place.backend == "namespaces", "{done} {}", root.display());
        // What that left makes no difference: the folder can not be listed now, and the other worktree is named elsewhere.
        let deep = place.outside().join("p.git/branches/a/b/fifth");
        for tree in [tree, place.outside().join("beside"), deep] {
            hook(&tree);
            let done = commit(&tree);
            std::fs::set_permissions(&common, std::fs::Permissions::from_mode(0o755)).unwrap();
            assert_eq!(
                look(),
                before,
                "{} {:?} {}: {done}",
                place.backend,
                place.user,
                tree.display()
            );
        }
    }
}

#[test]
fn a_worktree_deep_in_a_repository_is_somebody_elses() {
    if !has("git", "a_worktree_deep_in_a_repository_is_somebody_elses") {
        return;
    }
    for place in places() {
        git(&place, &format!("{OTHER}; git worktree add -q .git/wt/feature/login"));
        let tree = place.outside().join("tree");
        let new = place.outside().join("main/.git/wt/feature/login/new");
        write(&tree.join("hooks/pre-commit"), &format!("#!/bin/sh\necho x > {}\n", new.display()));
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(tree.join("hooks/pre-commit"), mode).unwrap();
        git(&place, "git -C ../outside/main config core.hooksPath hooks");
        let input = json!({"command": "git commit -q --allow-empty -m two"}).to_string();
        let mut command = place.command(&["tool", "call", "Bash", &input]);
        let done = command.arg("-C").arg(&tree).output().unwrap();
        assert!(!new.exists(), "{} {:?} {done:?}", place.backend, place.user);
    }
}

/// A program of the project's that tries to write `.git`.
fn write_attack(place: &Place, file: &str) {
    let root = place.test.root();
    write(
        &root.join(file),
        &format!("#!/bin/sh\necho tried >&2\necho x > {}/.git/x\n", root.display()),
    );
    std::fs::set_permissions(root.join(file), std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// What was attacked so did not change, or is told.
fn holds(place: &Place, line: &str, done: &Value) {
    let is_changed = std::fs::remove_file(place.test.root().join(".git/x")).is_ok();
    let case = format!("{} {:?} {line}: {done}", place.backend, place.user);
    assert_eq!(is_changed, told(done).contains(".git/x"), "{case}");
    assert!(!is_changed || place.backend == "landlock", "{case}");
}

#[test]
fn what_a_push_reaches_is_found_as_git_finds_it() {
    if !has("git", "what_a_push_reaches_is_found_as_git_finds_it") {
        return;
    }
    for place in places() {
        let root = place.test.root();
        git(&place, REPOSITORY);
        git(
            &place,
            "git init -q --bare e.git; git init -q --bare store; git init -q --bare clean.git; mkdir w",
        );
        write_attack(&place, "e.git/hooks/pre-receive");
        write_attack(&place, "store/hooks/pre-receive");
        write(&root.join("w/.git"), "gitdir: ../store\n");
        write(&root.join("file"), "gitdir: store\n");
        write(&root.join(".git/branches/old"), "e\n");
        write(&root.join(".git/remotes/older"), "URL: ./e.git\nPush: HEAD:old\n");
        let folder = root.display().to_string();
        let addresses = [
            "e".to_owned(),
            "./e".to_owned(),
            "e.git".to_owned(),
            "../project/e".to_owned(),
            format!("file://localhost{folder}/e"),
            format!("FILE://{folder}/e%2egit"),
            "w".to_owned(),
            "file".to_owned(),
        ];
        let direct = addresses.iter().cloned().chain(["old".to_owned(), "older".to_owned()]);
        for (n, address) in direct.enumerate() {
            let line = format!("git push {address} HEAD:refs/heads/a{n}");
            holds(&place, &line, &place.call(&json!({"command": line})));
        }
        for (n, address) in addresses.iter().enumerate() {
            git(&place, &format!("git config remote.named.url {address}"));
            let line = format!("git push -o x named HEAD:refs/heads/b{n}");
            holds(&place, &line, &place.call(&json!({"command": line})));
        }
        git(&place, "git config remote.named.url clean; rm -rf .git/branches .git/remotes");
        for line in [
            "git remote add r1 ./e && git push r1 HEAD:refs/heads/c1",
            "git remote rename named o; git remote add named e.git; git push named HEAD:refs/heads/c2",
            "url=e; git remote add r2 $url && git push r2 HEAD:refs/heads/c3",
        ] {
            holds(&place, line, &place.call(&json!({"command": line})));
        }
        git(
            &place,
            "git remote remove named; git remote remove r1 || true; git remote remove r2 || true",
        );
        // Of those that have nothing to run each is as good as another; this one is the one that it pushes from.
        git(&place, "git remote add named clean");
        let beside = "git -C clean.git log -1 && git commit -q --allow-empty -m more";
        let done = place.call(&json!({"command": beside}));
        let said = done["text"].as_str().unwrap();
        assert!(said.contains("in a call of its own"), "{} {:?} {done}", place.backend, place.user);
        for line in [
            "git push -q named HEAD:new",
            "git push -q ./clean.git HEAD:x",
            "git push -q . HEAD:refs/heads/y",
        ] {
            let done = place.call(&json!({"command": line}));
            assert_eq!(
                done["status"], "success",
                "{} {:?} {line}: {done}",
                place.backend, place.user
            );
        }
        if place.backend == "namespaces" {
            let mut batch = Batch::start(&mut place.command(&["tool", "batch"]));
            batch.call("Bash", &json!({"command": "cp -r e.git /tmp/e.git"}));
            for line in ["git push /tmp/e HEAD:c", "git push file:///tmp/e.git HEAD:d"] {
                holds(&place, line, &batch.call("Bash", &json!({"command": line})));
            }
        }
    }
}

#[test]
fn what_a_line_brings_with_it_or_hides_is_no_repository_to_git() {
    if !has("git", "what_a_line_brings_with_it_or_hides_is_no_repository_to_git") {
        return;
    }
    for place in places() {
        let root = place.test.root();
        git(&place, REPOSITORY);
        write_attack(&place, "fs");
        let settings = format!(
            "[core]\n\trepositoryformatversion = 0\n\tfsmonitor = {0}/fs\n\tworktree = {0}\n",
            root.display()
        );
        // A branch with a folder that git takes for a repository, and with a link to one.
        for name in ["objects/.k", "refs/.k"] {
            write(&root.join("sub").join(name), "");
        }
        write(&root.join("sub/config"), &settings);
        write(&root.join("sub/HEAD"), "ref: refs/heads/main\n");
        write_attack(&place, "sub/hooks/pre-receive");
        // Where links lead, `..` is another folder.
        git(
            &place,
            "mkdir -p d/e; ln -s d/e lk; git init -q d/w; cp -r sub d/e.git; echo d > .git/info/exclude",
        );
        git(
            &place,
            "cp -r sub ev; mv ev/HEAD ev/HEAD_; cp -r sub tmp; echo tmp >> .git/info/exclude; git init -q ../outside/ev; \
                     git init -q made; echo made >> .git/info/exclude; git add .; git reset -q sub; git commit -qm all; git branch base; \
                     git checkout -qb evil; git add sub; git commit -qm evil; git checkout -qb work base",
        );
        let monitor = format!(
            "git -C made config core.fsmonitor {0}/fs; git -C d/w config core.fsmonitor {0}/fs; git -C ../outside/ev config core.fsmonitor {0}/fs",
            root.display()
        );
        git(&place, &monitor);
        let folder = root.display();
        let mut batch = Batch::start(&mut place.command(&["tool", "batch"]));
        batch.call("Bash", &json!({"command": "cp -r made /tmp/ev"}));
        for line in [
            "git checkout -q evil && git -C sub add x",
            "git merge -q evil && cd sub && git add x",
            "git checkout -q evil -- sub && git -C sub add x",
            "git mv ev/HEAD_ ev/HEAD && git -C ev add x",
            "git checkout -q evil -- sub && git push ./sub HEAD:refs/heads/p1",
            "git checkout -q evil -- sub && git push -o x sub HEAD:refs/heads/p2",
            "git push lk/../e HEAD:refs/heads/p3",
            "git push ~nobody/../x HEAD:refs/heads/p4",
            "cd lk/../w && git status; cd ../..; git add fs",
            "(cd lk && cd ../w && git status); git add fs",
            "cd -P lk/../w && git status; cd ../..; git add fs",
            "git -C lk/../w status; git add fs",
            &format!("cd /tmp/ev && git status; cd {folder} && git add fs"),
            "cd ../outside/ev && git status; git -C ../../project add fs",
            &format!("cd ../outside/ev && git status; cd {folder} && git add fs"),
        ] {
            holds(&place, line, &batch.call("Bash", &json!({"command": line})));
            git(&place, "git checkout -q -f work; git reset -q --hard base; rm -rf sub");
        }
        // One around a known one says of itself where it lies.
        git(
            &place,
            "mkdir -p in/x out; cd in; git init -q; mkdir objects refs; echo 'ref: refs/heads/main' > HEAD",
        );
        write(&root.join("in/config"), &settings.replace(".git/x", "in/.git/x"));
        write(&root.join("out/.git"), "gitdir: ../in\n");
        write(&root.join("fs"), &format!("#!/bin/sh\necho x > {}/in/.git/x\n", root.display()));
        let done = place.call(&json!({"command": "git -C out add x"}));
        let is_changed = root.join("in/.git/x").exists();
        let case = format!("{} {:?} {done}", place.backend, place.user);
        assert_eq!(is_changed, told(&done).contains("in/.git/x"), "{case}");
    }
}

/// The settings of a repository that runs a program of the project's.
fn runs(root: &std::path::Path, more: &str) -> String {
    format!(
        "[core]\n\trepositoryformatversion = 0\n\tfsmonitor = {}/evil.sh\n{more}",
        root.display()
    )
}

#[test]
fn what_says_elsewhere_that_it_is_the_repository_is_not_believed() {
    if !has("git", "what_says_elsewhere_that_it_is_the_repository_is_not_believed") {
        return;
    }
    for place in places() {
        let root = place.test.root();
        git(&place, REPOSITORY);
        write(&root.join("evil.sh"), &format!("#!/bin/sh\nOUT=../../outside; {ATTACK}\n"));
        std::fs::set_permissions(root.join("evil.sh"), std::fs::Permissions::from_mode(0o755))
            .unwrap();
        let back = format!("\tworktree = {}/sub\n", root.display());
        // Another project's commands made it, or it came with a clone: its top, a worktree's folder, one without a tree.
        for (own, common, is_worked) in
            [("p1", "p1", true), ("p2/worktrees/e", "p2", true), ("p3/fake", "p3/fake", false)]
        {
            let (own, common) = (place.outside().join(own), place.outside().join(common));
            if is_worked {
                git(&place, &format!("git init -q {}", common.display()));
            }
            for name in ["objects/x", "refs/x", "hooks/x", "README", "modules/m"] {
                write(&common.join(name), "");
            }
            let is_tree = own != common;
            write(&common.join("config"), &runs(&root, if is_tree { "" } else { &back }));
            for folder in [&own, &common] {
                write(&folder.join("HEAD"), "ref: refs/heads/main\n");
            }
            if is_tree {
                write(&own.join("commondir"), "../..\n");
                write(&own.join("gitdir"), &format!("{}/sub/.git\n", root.display()));
            }
            write(&root.join("sub/.git"), &format!("gitdir: {}\n", own.display()));
            write(&root.join("sub/f"), "");
            let before = look(&place.outside());
            let done = place.call(&json!({"command": "git -C sub add f"}));
            let case = format!("{} {:?} {} {done}", place.backend, place.user, own.display());
            assert_eq!(look(&place.outside()), before, "{case}");
            // (Without its lock git runs nothing.)
            let said = done["data"]["stderr"].as_str().unwrap();
            assert!(said.contains("tried") || said.contains(".lock"), "{case}");
        }
    }
}

#[test]
fn a_repository_that_a_command_made_opens_no_other() {
    if !has("git", "a_repository_that_a_command_made_opens_no_other") {
        return;
    }
    for place in places() {
        let root = place.test.root();
        git(&place, REPOSITORY);
        git(
            &place,
            "git -c protocol.file.allow=always submodule --quiet add ./ sub; git commit -q -m sub",
        );
        write(&root.join("evil.sh"), "#!/bin/sh\necho tried >&2\necho x > ../.git/x\n");
        std::fs::set_permissions(root.join("evil.sh"), std::fs::Permissions::from_mode(0o755))
            .unwrap();
        for (folder, own) in [("ev", "ev/.git"), ("bare", "bare"), ("files", "files")] {
            // (Git takes any file that can be run for a folder.)
            let inner = if folder == "files" { "" } else { "/x" };
            for name in ["objects", "refs"] {
                let path = root.join(own).join(format!("{name}{inner}"));
                write(&path, "");
                std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
            }
            write(&root.join(own).join("HEAD"), "ref: refs/heads/main\n");
            let tree = format!("\tworktree = {}/{folder}\n", root.display());
            write(&root.join(own).join("config"), &runs(&root, &tree));
            for line in [
                format!("git -C {folder} add f"),
                format!("cd {folder} && git add f"),
                format!("git -C {folder} status; git add evil.sh"),
                format!("git branch own; cd {folder}; git add f"),
            ] {
                write(&root.join(folder).join("f"), &line);
                let done = place.call(&json!({"command": line}));
                let case = format!("{} {:?} {done}", place.backend, place.user);
                let said = done["data"]["stderr"].as_str().unwrap();
                assert!(said.contains("tried") || said.contains(".lock"), "{case}");
                // (With Landlock alone it is told.)
                let is_changed = std::fs::remove_file(root.join(".git/x")).is_ok();
                assert_eq!(is_changed, told(&done).contains(".git/x"), "{case}");
                assert!(!is_changed || place.backend == "landlock", "{case}");
            }
        }
        // What belongs together is written together.
        write(&root.join("sub/new"), "");
        let line = "git -C sub add new && git -C sub -c user.name=a -c user.email=a@b commit -q -m new && git add sub && git commit -q -m sub";
        let done = place.call(&json!({"command": line}));
        assert_eq!(done["status"], "success", "{} {:?} {done}", place.backend, place.user);
    }
}

#[test]
fn git_works_where_a_line_leads_it() {
    if !has("git", "git_works_where_a_line_leads_it") {
        return;
    }
    for place in places() {
        git(&place, REPOSITORY);
        git(&place, OTHER);
        git(
            &place,
            "mkdir sub; git config --global user.email a@b; git config --global user.name a; \
             git init -q in; git -C in commit -q --allow-empty -m first; mkdir -p web/refs; echo v1 > web/HEAD; \
             git -c protocol.file.allow=always submodule --quiet add ../outside/main a/b/c/d/deep; \
             git -c protocol.file.allow=always submodule --quiet add ../outside/main mod; \
             git init -q with-hook; git -C with-hook commit -q --allow-empty -m first; \
             echo x > with-hook/.git/hooks/post-commit; chmod +x with-hook/.git/hooks/post-commit; \
             git init -q --bare store.git; git remote add origin store.git; printf 'in\nwith-hook\nstore.git\n' > .gitignore; git add -A; \
             git commit -qm deep",
        );
        let mut batch = Batch::start(&mut place.command(&["tool", "batch"]));
        for line in [
            // Made in this session, in this line, deep down, where nobody looks.
            "git worktree add -q one",
            "git -C one {c}",
            "cd one && git {c}",
            "git worktree add -q two && git -C two {c} && git worktree remove two",
            "git worktree add -q .wt/u/feat/x/long && git -C .wt/u/feat/x/long {c}",
            "cd sub && git worktree add -q ../three && cd ../three && git {c} && cd ../sub && git {c}",
            "git worktree add -q target/wt && git -C target/wt {c}",
            "git -C a/b/c/d/deep {c}",
            "cd a/b/c/d/deep && git checkout -q -b own && git {c}",
            "git -C a/b/c/d/deep checkout -q HEAD~0 && git -C a/b/c/d/deep {c}",
            "git checkout -q -b newer && cd sub && git {c}",
            "git switch --quiet -c newest && git -C sub {c}",
            "git reset -q --soft HEAD && git -C sub {c} && git checkout -q - && git -C mod {c}",
            "git -C one checkout -q HEAD~0 && git -C one {c} && cd mod && git {c}",
            // Where nobody knows whether it leads there.
            "cd nope 2>/dev/null; git {c}",
            "cd sub; git {c}; cd ..; git {c}",
            "cd \"$(git rev-parse --show-toplevel)\" && git {c}",
            "cd sub && cd $(git rev-parse --show-toplevel) && git {c}",
            "cd `pwd` && git {c}",
            "cd $(pwd)/sub && git {c}",
            "cd web && git {c}",
            // Repositories that name nothing to run.
            "git -C in rev-parse -q HEAD && git {c}",
            "git -C in {c} && git {c}",
            "for folder in in .; do git -C in {c}; done",
            "git -C a/b/c/d/deep {c} && git -C mod {c} && git {c}",
            "git -C mod status; git {c}",
            "git -C with-hook log -1 && git {c}",
            // Git's own strategies, and remotes that are folders.
            "git checkout -q -b side && git {c} && git checkout -q - && git merge -q -s ort -X theirs side",
            "git merge -q --strategy=ours side && git rebase -q -s recursive side",
            "git {c} && git push -q origin HEAD:new",
        ] {
            let line = line.replace("{c}", "commit -q --allow-empty -m more");
            let done = batch.call("Bash", &json!({"command": line}));
            let case = format!("{} {:?} {line}: {done}", place.backend, place.user);
            assert_eq!(done["status"], "success", "{case}");
            assert_eq!(told(&done), "", "{case}");
        }
    }
}

#[test]
fn what_was_left_running_before_a_repository_was_made_writes_nothing_of_it_untold() {
    let name = "what_was_left_running_before_a_repository_was_made_writes_nothing_of_it_untold";
    if !has("git", name) {
        return;
    }
    for place in places() {
        let root = place.test.root();
        let waits = "while ! [ -d .git/hooks ]; do sleep .1; done; sleep .5; echo x > .git/hooks/pre-commit; \
                     echo over > over; sleep 100";
        write(&root.join("waits.sh"), waits);
        let mut batch = Batch::start(&mut place.command(&["tool", "batch"]));
        batch.call("Bash", &json!({"command": "bash waits.sh", "background": true}));
        batch.call("Bash", &json!({"command": "git init -q"}));
        let wait = "for n in $(seq 100); do [ -e over ] && break; sleep .1; done; touch new";
        let done = batch.call("Bash", &json!({"command": wait}));
        let told = done["text"].as_str().unwrap();
        assert!(root.join("over").exists(), "{done}");
        assert!(
            told.contains(".git/hooks/pre-commit"),
            "{} {:?} {done}",
            place.backend,
            place.user
        );
    }
}

#[test]
fn of_several_repositories_none_is_written_where_one_runs_something() {
    if !has("git", "of_several_repositories_none_is_written_where_one_runs_something") {
        return;
    }
    for place in places().into_iter().filter(|place| place.backend == "namespaces") {
        let root = place.test.root();
        git(&place, &format!("for at in a b; do mkdir $at; (cd $at; {REPOSITORY}); done"));
        let commit = "commit -q --allow-empty -m more";
        let line = format!("git -C a {commit} && git -C b {commit}");
        for (added, is_written) in [
            ("", true),
            ("[branch \"x\"]\n\tremote = origin\n\tmergeOptions = -s ../x\n", false),
            ("[imap]\n\ttunnel = ./x\n", false),
            ("[filter \"x\"]\n\tclean = ./x\n", false),
        ] {
            let config = root.join("b/.git/config");
            let intact = std::fs::read_to_string(&config).unwrap();
            std::fs::write(&config, format!("{intact}{added}")).unwrap();
            let done = place.call(&json!({"command": line}));
            std::fs::write(&config, intact).unwrap();
            let case = format!("{:?} {added}: {done}", place.user);
            assert_eq!(done["status"] == "success", is_written, "{case}");
            let says_what_to_do =
                done["text"].as_str().unwrap().contains("one for each repository");
            assert_eq!(says_what_to_do, !is_written, "{case}");
        }
        // Each in a call of its own, and one that is only read beside it.
        write(&root.join("b/.git/hooks/post-commit"), "x");
        for line in [format!("git -C b {commit}"), format!("git -C b log -1 && git -C a {commit}")]
        {
            let done = place.call(&json!({"command": line}));
            assert_eq!(done["status"], "success", "{:?} {done}", place.user);
        }
        let done = place.call(&json!({"command": line}));
        assert_eq!(done["status"], "error", "{:?} {done}", place.user);
    }
}

#[test]
fn what_can_not_be_moved_says_what_is_in_the_way() {
    if !has("git", "what_can_not_be_moved_says_what_is_in_the_way") {
        return;
    }
    // (With Landlock alone nothing is a mount: it is moved, and told.)
    for place in places().into_iter().filter(|place| place.backend == "namespaces") {
        git(&place, "git init -q sub");
        let moved = place.call(&json!({"command": "mv sub elsewhere"}));
        let text = moved["text"].as_str().unwrap();
        assert!(text.contains("keeps"), "{moved}");
        assert!(text.contains("sub/.git where it is"), "{moved}");
    }
}

/// What a hook of the project's does when git has written all of its own.
fn last_hook(place: &Place, lines: &str) {
    hook(place, lines);
    let hooks = place.test.root().join("own-hooks");
    std::fs::rename(hooks.join("pre-commit"), hooks.join("post-commit")).unwrap();
}

/// An index of git's with one name.
fn index(name: &str) -> Vec<u8> {
    let mut bytes = b"DIRC\0\0\0\x02\0\0\0\x01".to_vec();
    bytes.extend([0; 60]);
    bytes.extend(u16::try_from(name.len()).unwrap().to_be_bytes());
    bytes.extend(name.as_bytes());
    bytes.extend(vec![0; 8 - (62 + name.len()) % 8]);
    bytes.extend([0; 20]);
    bytes
}

#[test]
fn links_that_are_left_in_a_repository_are_told() {
    if !has("git", "links_that_are_left_in_a_repository_are_told") {
        return;
    }
    for place in places() {
        let root = place.test.root();
        git(&place, &format!("{REPOSITORY}; git worktree add -q inner; git gc -q"));
        // (What was there before is told only where it leads elsewhere now.)
        git(&place, "ln -s ../docs .git/rr-cache; mkdir .git/sequencer; ln -s x .git/sequencer/a");
        for path in [".git/modules/a/b", ".git/modules/n/worktrees/w"] {
            write(&root.join(path).join("HEAD"), "");
        }
        let links = [
            "worktrees/evil",
            "COMMIT_EDITMSG",
            "FETCH_HEAD",
            "ORIG_HEAD",
            "index",
            "logs/HEAD",
            "objects/pack",
            "objects/ab",
            "objects/info/commit-graphs",
            "refs/tags",
            "rebase-merge",
            "rebase-apply",
            "sequencer/a",
            "modules/a/b/FETCH_HEAD",
            "modules/n/worktrees/w/logs",
            "worktrees/inner/ORIG_HEAD",
        ];
        let lines = format!(
            "for at in {}; do rm -rf .git/$at; ln -s ../../docs .git/$at; done",
            links.join(" ")
        );
        last_hook(&place, &lines);
        let done = commit(&place);
        let said = told(&done);
        for link in links {
            let words = format!(".git/{link} (a link to ../../docs)");
            assert!(said.contains(&words), "{link} {} {:?}: {done}", place.backend, place.user);
        }
        assert!(!said.contains("rr-cache"), "{done}");
        // Once.
        git(
            &place,
            "rm -rf own-hooks .git/index .git/logs/HEAD .git/refs/tags .git/COMMIT_EDITMSG",
        );
        let done = commit(&place);
        assert!(!told(&done).contains("a link to"), "{} {done}", place.backend);
    }
}

#[test]
fn names_in_an_index_that_lead_out_of_the_work_tree_are_told() {
    if !has("git", "names_in_an_index_that_lead_out_of_the_work_tree_are_told") {
        return;
    }
    for place in places() {
        let root = place.test.root();
        git(&place, &format!("{REPOSITORY}; git worktree add -q inner"));
        let files = [".git/index", ".git/worktrees/inner/index", ".git/sharedindex.0"];
        for (bytes, words) in [
            (index("../.bashrc"), " (has the name ../.bashrc)"),
            (index("sub/.Git/config"), " (has the name sub/.Git/config)"),
            (index("a")[..40].to_vec(), " (not as git writes it)"),
        ] {
            std::fs::write(root.join("bad"), bytes).unwrap();
            let lines = format!("for at in {}; do cp bad $at; done", files.join(" "));
            last_hook(&place, &lines);
            let done = commit(&place);
            for file in files {
                let how = format!("{file} {} {:?}: {done}", place.backend, place.user);
                assert!(told(&done).contains(&format!("{file}{words}")), "{how}");
            }
            // With Landlock alone it takes no command of git's.
            git(&place, "rm -f .git/index .git/sharedindex.0; git reset -q; git -C inner reset -q");
            let done = place.call(&json!({"command": format!("bash -c '{lines}'")}));
            let is_told = files.iter().all(|file| told(&done).contains(&format!("{file}{words}")));
            assert_eq!(is_told, place.backend == "landlock", "{words} {done}");
            git(&place, "rm -f .git/index .git/sharedindex.0; git reset -q; git -C inner reset -q");
        }
    }
}

/// One is given an open file by another, and writes it later.
const TAKES_FILE: &str = "import array, os, socket, time
listens = socket.socket(socket.AF_UNIX); listens.bind('given'); listens.listen(1); open('listens', 'w')
_, given, _, _ = listens.accept()[0].recvmsg(9, 99)
file = array.array('i', given[0][2])[0]
while not os.path.exists('go'): time.sleep(.05)
bad = open('bad', 'rb').read(); os.ftruncate(file, len(bad)); os.pwrite(file, bad, 0); open('over', 'w')
time.sleep(100)
";
const GIVES_FILE: &str = "import array, os, socket
to = socket.socket(socket.AF_UNIX); to.connect('given'); file = array.array('i', [os.open('.git/index', os.O_RDWR)])
to.sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, file)])
";

#[test]
fn an_index_that_a_hook_hands_to_a_command_in_the_background_is_told() {
    let name = "an_index_that_a_hook_hands_to_a_command_in_the_background_is_told";
    if !has("git", name) || !has("python3", name) {
        return;
    }
    for place in places() {
        let root = place.test.root();
        git(&place, REPOSITORY);
        for (file, text) in [("take.py", TAKES_FILE), ("give.py", GIVES_FILE)] {
            write(&root.join(file), text);
        }
        std::fs::write(root.join("bad"), index("../own")).unwrap();
        git(&place, "git add take.py");
        last_hook(&place, "python3 give.py");
        let mut batch = Batch::start(&mut place.command(&["tool", "batch"]));
        batch.call("Bash", &json!({"command": "python3 take.py", "background": true}));
        let wait =
            |file: &str| format!("for n in $(seq 200); do [ -e {file} ] && break; sleep .05; done");
        batch.call("Bash", &json!({"command": wait("listens")}));
        batch.call("Bash", &json!({"command": "git commit -q -m two"}));
        write(&root.join("go"), "");
        let done = batch.call("Bash", &json!({"command": format!("{}; touch new", wait("over"))}));
        assert!(root.join("over").exists(), "{} {:?} {done}", place.backend, place.user);
        let told = done["text"].as_str().unwrap();
        assert!(told.contains(".git/index (has the name ../own)"), "{} {done}", place.backend);
    }
}

#[test]
fn what_a_rebase_would_run_and_worktrees_that_are_none_are_told() {
    if !has("git", "what_a_rebase_would_run_and_worktrees_that_are_none_are_told") {
        return;
    }
    for place in places() {
        git(&place, REPOSITORY);
        write(&place.outside().join("docs/own"), "");
        let list = place.test.root().join(".git/rebase-merge/git-rebase-todo");
        write(&list, "pick 1234567 one\nexec make test\nx ls\n");
        last_hook(&place, "echo '\tx\tid' >> .git/rebase-merge/git-rebase-todo");
        let done = commit(&place);
        let words = ".git/rebase-merge/git-rebase-todo (git goes on with: x\\tid)";
        assert!(told(&done).contains(words), "{} {done}", place.backend);
        last_hook(&place, "echo 'x ls' > .git/rebase-merge/git-rebase-todo");
        let done = commit(&place);
        assert!(!told(&done).contains("goes on"), "{} {done}", place.backend);
        let rr = "MERGE_RR (has the name ../../own)";
        for (file, text, words) in [
            ("rebase-merge/strategy", "evil", "strategy (git goes on with: git merge-evil)"),
            ("rebase-apply/strategy", "ort", ""),
            ("rebase-apply/apply-opt", " '--build-fake-ancestor=x'", "--build-fake-ancestor=x)"),
            ("rebase-merge/strategy_opts", "--index-output=x", "strategy_opts (git goes on"),
            ("MERGE_RR", "0123456789abcdef0123456789abcdef01234567\t../../own", rr),
            ("reftable/tables.list", "0x01-0x02-1.ref\n", ""),
            ("reftable/tables.list", "a.ref\n../../x/b.ref\n", "(has the name ../../x/b.ref)"),
        ] {
            write(&place.test.root().join("left"), text);
            let folder = "mkdir -p .git/rebase-merge .git/rebase-apply .git/reftable";
            last_hook(&place, &format!("{folder}; cp left .git/{file}"));
            let done = commit(&place);
            let how = format!("{file} {} {done}", place.backend);
            assert!(
                told(&done).contains(words) && told(&done).is_empty() == words.is_empty(),
                "{how}"
            );
            git(&place, "rm -rf .git/rebase-* .git/MERGE_RR .git/reftable");
        }
        let docs = place.outside().canonicalize().unwrap().join("docs/.git");
        let lines = format!(
            "mkdir -p .git/worktrees/r; cd .git/worktrees/r; echo ref: refs/heads/q > HEAD; echo ../.. > commondir; echo {} > gitdir",
            docs.display()
        );
        last_hook(&place, &lines);
        let done = commit(&place);
        let words = format!(".git/worktrees/r/gitdir (names {}", docs.display());
        assert!(told(&done).contains(&words), "{} {done}", place.backend);
    }
}

#[test]
fn a_repository_that_git_finds_no_more_is_told() {
    if !has("git", "a_repository_that_git_finds_no_more_is_told") {
        return;
    }
    for place in places() {
        for (lines, words) in [
            ("rm .git/HEAD", ".git/HEAD (here git finds no repository now)"),
            ("echo x > .git/HEAD", ".git/HEAD (here git finds no repository now)"),
            ("mv .git/refs .git/r", ".git/refs (here git finds no repository now)"),
        ] {
            git(&place, &format!("rm -rf .git; {REPOSITORY}"));
            last_hook(&place, lines);
            let done = commit(&place);
            assert!(told(&done).contains(words), "{lines} {} {done}", place.backend);
        }
    }
}

#[test]
fn what_git_does_in_ordinary_work_is_not_told() {
    if !has("git", "what_git_does_in_ordinary_work_is_not_told") {
        return;
    }
    for place in places() {
        git(&place, REPOSITORY);
        git(&place, OTHER);
        git(
            &place,
            "git -c protocol.file.allow=always submodule --quiet add ../outside/main sub; git commit -qm sub; git -C sub config user.email a@b; git -C sub config user.name a; \
             git config remote.old.url https://old; git config remote.old.pushurl https://x; \
             git config branch.gone.remote https://y; git config branch.gone.merge refs/heads/gone; git branch gone",
        );
        write(&place.test.root().join("new"), "new\n");
        for line in [
            "git stash -q -u && git stash pop -q && git add -N new && git reset -q",
            "git add -A && git commit -qm two",
            "git switch -q -c topic && git commit -q --allow-empty -m three && git switch -q -",
            "git remote add up ../outside/main && git remote rename old older && git remote remove older",
            "git branch -m gone away && git branch -D away",
            "git branch -u topic && git merge -q topic && git tag one && git gc -q",
            "git worktree add -q wt && git -C wt commit -q --allow-empty -m four && git worktree remove wt",
            "git worktree add -q /tmp/wt -b other",
            "git update-index --index-version 4 && git update-index --split-index && git add -A && git commit -q --allow-empty -m 5",
            "git rebase -q HEAD~1 && git cherry-pick --allow-empty topic && git pack-refs --all",
            "git -C sub commit -q --allow-empty -m six && git rm -qf sub",
            "git sparse-checkout set docs && git sparse-checkout disable",
            "git branch --edit-description topic < /dev/null; git branch --unset-upstream",
        ] {
            // (With Landlock alone that is nobody's own.)
            if line.contains("/tmp/") && place.backend == "landlock" {
                continue;
            }
            let done = place.call(&json!({"command": line}));
            let how = format!("{line} {} {:?}: {done}", place.backend, place.user);
            assert_eq!(told(&done), "", "{how}");
            assert_eq!(done["status"], "success", "{how}");
        }
    }
}

#[test]
fn what_git_leaves_to_go_on_with_is_not_told() {
    if !has("git", "what_git_leaves_to_go_on_with_is_not_told") {
        return;
    }
    for place in places() {
        git(&place, REPOSITORY);
        git(
            &place,
            "git config rerere.enabled true; echo a > f; git add f; git commit -qm f; git switch -qc side; \
             echo b > f; git commit -qam one; echo c > f; git commit -qam two; git switch -q -; echo d > f; git commit -qam f",
        );
        for (line, left) in [
            ("git rebase -q --apply -C1 --whitespace=fix side", "rebase-apply/apply-opt"),
            ("git rebase -q -X patience -X no-renames side", "rebase-merge/strategy_opts"),
            ("git cherry-pick -X patience side~1 side", "sequencer/opts"),
            ("git merge -q side", "MERGE_RR"),
        ] {
            let done = place.call(&json!({"command": format!("{line} || git status -s")}));
            let how = format!("{line} {} {:?}: {done}", place.backend, place.user);
            assert_eq!(told(&done), "", "{how}");
            assert_ne!(place.test.read(&format!(".git/{left}")), "", "{how}");
            git(
                &place,
                "git rebase --abort 2>/dev/null || git cherry-pick --abort 2>/dev/null || git merge --abort",
            );
        }
    }
}
