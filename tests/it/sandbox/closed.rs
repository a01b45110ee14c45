//! Directories that a command makes unreadable (`chmod 000`), so that the agent cannot inspect them
//! for the next sandbox: covered paths stay covered, or the gap is reported. (Root can read all of
//! them.)

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use serde_json::json;

use crate::sandbox::{Place, places, places_in, write};
use crate::support::batch::Batch;
use crate::support::{is_root, say};

/// Places whose user is not root.
fn places_of_users(test: &str) -> Vec<Place> {
    let mut places = places();
    places.retain(|place| place.user.is_some() || !is_root());
    if places.is_empty() {
        say(&format!("SKIPPED: {test}: there is no other user than root"));
    }
    places
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

/// Runs the commands in one session; returns the last answer.
fn run(place: &Place, options: &[&str], commands: &[&str]) -> String {
    let mut batch = Batch::start(&mut place.command(&[&["tool", "batch"], options].concat()));
    let mut last = String::new();
    for command in commands {
        last = batch.call("Bash", &json!({"command": command})).to_string();
    }
    assert_eq!(batch.end(), Some(0));
    last
}

#[test]
fn credential_store_in_an_unreadable_directory_stays_hidden() {
    for place in places_of_users("credential_store_in_an_unreadable_directory_stays_hidden") {
        let home = place.home();
        write(&home.join(".ssh/id_rsa"), "PRIVATE\n");
        write(&home.join(".config/gh/hosts.yml"), "TOKEN\n");
        write(&home.join(".config/agent/config.toml"), "");
        let added = home.display().to_string();
        let options = ["--add-dir", &added];
        for (close, open) in [
            ("chmod 000 $HOME", "chmod 755 $HOME"),
            ("chmod 000 $HOME/.config", "chmod 755 $HOME/.config"),
            ("chmod 444 $HOME/.config", "chmod 755 $HOME/.config"),
        ] {
            let look = format!(
                "{open}; cat $HOME/.ssh/id_rsa $HOME/.config/gh/hosts.yml; echo '[sandbox]' >> \
                 $HOME/.config/agent/config.toml; echo x >> $HOME/.bashrc; echo done"
            );
            let answer = run(&place, &options, &[close, &look]);
            set_mode(&home, 0o755);
            set_mode(&home.join(".config"), 0o755);
            let how = format!("{close}: {} {:?}: {answer}", place.backend, place.user);
            assert!(!answer.contains("PRIVATE") && !answer.contains("TOKEN"), "{how}");
            let config = fs::read_to_string(home.join(".config/agent/config.toml")).unwrap();
            let startup = fs::read_to_string(home.join(".bashrc")).unwrap();
            let is_intact = config.is_empty() && startup == "# intact\n";
            // With Landlock alone these are writable: `init.sandbox.gaps` says so.
            assert!(is_intact || place.backend == "landlock", "{how}");
            fs::write(home.join(".config/agent/config.toml"), "").unwrap();
            fs::write(home.join(".bashrc"), "# intact\n").unwrap();
        }
    }
}

#[test]
fn project_below_an_unlistable_directory_is_readable() {
    for place in places_of_users("project_below_an_unlistable_directory_is_readable") {
        write(&place.home().join(".ssh/id_rsa"), "PRIVATE\n");
        let above = place.test.root().parent().unwrap().to_owned();
        set_mode(&above, 0o311);
        let answer = run(&place, &[], &["cat own; cat $HOME/.ssh/id_rsa"]);
        set_mode(&above, 0o755);
        let how = format!("{} {:?}: {answer}", place.backend, place.user);
        assert!(answer.contains("own\\n") && !answer.contains("PRIVATE"), "{how}");
    }
}

#[test]
fn project_below_run_has_the_same_sandbox() {
    let Ok(above) = tempfile::tempdir_in("/run") else {
        say("SKIPPED: a project in /run: this user can make no folder there");
        return;
    };
    let here = places_in(above.path());
    assert_eq!(here.len(), places().len());
    for place in here {
        let answer = run(&place, &[], &["echo mine > new; cat new; ls -a /run; touch /run/x"]);
        let how = format!("{} {:?}: {answer}", place.backend, place.user);
        assert!(answer.contains("mine") && !Path::new("/run/x").exists(), "{how}");
    }
}

#[test]
fn processes_of_a_command_are_bounded() {
    // Root is not bound by the limit, and without namespaces all processes of the user would count.
    let is_bound =
        |place: &Place| place.backend == "namespaces" && (place.user.is_some() || !is_root());
    for place in places().into_iter().filter(is_bound) {
        let place = place.with("sandbox.max_processes=40");
        // A fork bomb ends with its command.
        place.script("bomb() { bomb | bomb & }; bomb 2>/dev/null; sleep 0.5");
        assert_eq!(place.stdout("echo over"), "over\n");
        let many = "for n in $(seq 80); do sleep 9 & done 2>&1 | grep -c 'Resource temporarily unavailable'; true";
        let refused = place.stdout(many);
        assert_ne!(refused.trim(), "0", "{refused}");
    }
}
