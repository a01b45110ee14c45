//! Files of other users in the project: root's commands can change them, and no more outside than before.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};

use serde_json::{Value, json};

use crate::sandbox::{Place, give, places, write};
use crate::support::{Done, is_root, say};

const OTHER: u32 = 1234;
const THIRD: u32 = 1235;

/// Root's sandboxes, in a project of another user beside a directory of that user.
pub(crate) fn places_of_others() -> Vec<Place> {
    if !is_root() {
        say("SKIPPED: root in a project of another user (the tests do not run as root)");
        return Vec::new();
    }
    let mut places = places();
    places.retain(|place| place.user.is_none() && place.backend == "namespaces");
    for place in &places {
        write(&place.test.root().join("theirs/a.txt"), "one\n");
        give(&place.test.root(), OTHER);
        give(&place.outside(), OTHER);
    }
    places
}

#[test]
fn commands_of_root_change_files_of_other_users() {
    for place in places_of_others() {
        let script = "sed -i s/one/two/ theirs/a.txt && mkdir -p theirs/new/d && echo three >> theirs/a.txt && \
                      rm own && cat theirs/a.txt";
        assert_eq!(place.stdout(script), "two\nthree\n", "{}", place.backend);
        let owner = fs::metadata(place.test.root().join("theirs/a.txt")).unwrap().uid();
        assert_eq!(owner, OTHER);
        let script = "chmod 600 script.sh && chown 1234 script.sh && touch -d 2001-01-01 theirs && stat -c %u theirs";
        let done = place.script(script);
        assert_eq!(done["data"]["stdout"], format!("{OTHER}\n"), "{done}");
    }
}

/// The project itself may be root's: it is a file in it that counts.
#[test]
fn files_of_users_without_files_in_the_project_stay_closed() {
    for place in places_of_others() {
        let root = place.test.root();
        chown(root, Some(0), Some(0)).unwrap();
        let secret = place.outside().join("secret");
        write(&secret, "PRIVATE\n");
        chown(&secret, Some(THIRD), Some(THIRD)).unwrap();
        fs::set_permissions(&secret, Permissions::from_mode(0o600)).unwrap();
        let seen = place.stdout("cat $OUT/secret; echo x > theirs/new && cat theirs/new");
        assert_eq!(seen, "x\n");
        write(&place.home().join(".netrc"), "PRIVATE\n");
        let hidden = place.call(&json!({"command": "cat ~/.netrc"}));
        assert_eq!(hidden["data"]["stdout"], "", "{hidden}");
        assert!(hidden["text"].as_str().unwrap().contains("is hidden in the sandbox"), "{hidden}");
    }
}

#[test]
fn landlock_alone_gives_root_no_right_over_files_of_others() {
    if !is_root() {
        return say("SKIPPED: root in a project of another user (the tests do not run as root)");
    }
    let mut places = places();
    places.retain(|place| place.user.is_none() && place.backend == "landlock");
    for place in places {
        let (theirs, secret) = (place.test.root().join("theirs"), place.outside().join("secret"));
        write(&theirs, "one\n");
        write(&secret, "PRIVATE\n");
        chown(&theirs, Some(OTHER), Some(OTHER)).unwrap();
        chown(&secret, Some(THIRD), Some(THIRD)).unwrap();
        fs::set_permissions(&secret, Permissions::from_mode(0o600)).unwrap();
        let done = place.call(&json!({"command": "echo x >> theirs; cat $OUT/secret"}));
        assert!(!done.to_string().contains("PRIVATE"), "{done}");
        let expected = "theirs belongs to user 1234, and commands of this session have no right";
        assert!(done["text"].as_str().unwrap().contains(expected), "{done}");
    }
}

#[test]
fn missing_right_over_a_file_of_another_user_is_named() {
    let mut places = places();
    places.retain(|place| place.user.is_some());
    for place in places {
        let file = place.test.root().join("roots");
        write(&file, "one\n");
        let input = json!({"command": "echo x >> roots; echo over"}).to_string();
        let mut command = place.command(&["tool", "call", "Bash", &input]);
        chown(&file, Some(0), Some(0)).unwrap();
        let done = Done::new(&command.output().unwrap());
        let envelope: Value = serde_json::from_str(&done.stdout).unwrap();
        let text = envelope["text"].as_str().unwrap();
        let expected = "roots belongs to user 0, and this process has no right (CAP_DAC_OVERRIDE)";
        assert!(text.contains(expected), "{} {envelope}", place.backend);
    }
}
