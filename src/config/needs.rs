//! What of a folder's configuration counts only where the user trusts the folder. What is taken from one that nobody
//! trusts, and what trust is given to, is this: there is no second list.

use std::collections::{BTreeMap, BTreeSet};

use toml::{Table, Value};

/// The modes of permission, from the most careful to the freest.
const MODES: [&str; 4] = ["read-only", "ask", "auto-edit", "full"];

/// Settings by their names, with their values; words of the folder's own by theirs (`prompts/learn.md`).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Needs(BTreeMap<String, Value>);

impl Needs {
    /// Of a project's table: all that any user's own configuration could want to be asked about.
    pub(super) fn of(table: &Table) -> Self {
        let mut needs = BTreeMap::new();
        let mut need = |name: String, value: &Value| {
            needs.insert(name, value.clone());
        };
        // (What keys do is the user's own: one of them goes on in a freer mode, another stops all of it.)
        for key in ["providers", "models", "sandbox", "verify", "record", "ui"] {
            if let Some(value) = table.get(key) {
                need(key.to_owned(), value);
            }
        }
        // A script is no model: it would do what the project wrote into it.
        let is_script = |model: &&Value| model.as_str().is_some_and(|m| m.starts_with("script:"));
        for key in ["model", "light_model"] {
            if let Some(model) = table.get(key).filter(is_script) {
                need(key.to_owned(), model);
            }
        }
        let inner = |key: &str| table.get(key).and_then(Value::as_table).into_iter().flatten();
        for (key, value) in inner("permissions") {
            // The project may ask for more care, not for less.
            if key == "allow" || key == "mode" && freedom(Some(value)) > 0 {
                need(format!("permissions.{key}"), value);
            }
        }
        for (key, value) in inner("limits") {
            need(format!("limits.{key}"), value);
        }
        // The memory is the user's: a project may do without it, not say where it lies or what it keeps.
        for (key, value) in inner("learning") {
            if key != "enabled" || value.as_bool() != Some(false) {
                need(format!("learning.{key}"), value);
            }
        }
        for (_, value) in inner("checks").filter(|(key, _)| *key == "commands") {
            need("checks.commands".to_owned(), value);
        }
        Self(needs)
    }

    /// The folder says this to models in its own words.
    pub(super) fn add_prompt(&mut self, name: &str, text: &str) {
        self.0.insert(format!("prompts/{name}"), Value::from(text));
    }

    /// There is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Names and values, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// Those that this user's own configuration does not let a folder set that nobody trusts.
    pub(super) fn beyond(&self, user: &Table) -> Self {
        let beyond = self.0.iter().filter(|(name, value)| !is_free(name, Some(value), user));
        Self(beyond.map(|(name, value)| (name.clone(), value.clone())).collect())
    }

    /// The folder may have what it needs: it needs nothing, or what it was trusted with. Else what is another than then.
    pub(super) fn as_in(&self, seal: &Seal, user: &Table) -> Result<(), String> {
        let needs = self.beyond(user).0;
        if needs.is_empty() {
            return Ok(());
        }
        let counts = |name: &&String| !is_free(name, self.0.get(*name), user);
        let names: BTreeSet<&String> = needs.keys().chain(seal.0.keys().filter(counts)).collect();
        let others =
            names.into_iter().filter_map(|name| match (needs.get(name), seal.0.get(name)) {
                (Some(value), Some(hash)) if hash_of(value) == *hash => None,
                (Some(_), Some(_)) => Some(format!("{name} (changed)")),
                (Some(_), None) => Some(format!("{name} (new)")),
                (None, _) => Some(format!("{name} (gone)")),
            });
        let others: Vec<String> = others.collect();
        if others.is_empty() { Ok(()) } else { Err(others.join(", ")) }
    }

    /// What is remembered of them.
    pub fn seal(&self) -> Seal {
        Seal(self.0.iter().map(|(name, value)| (name.clone(), hash_of(value))).collect())
    }
}

/// A folder may set this without anybody's trust, or leave it unset (`None`): the user has set no such limit, or a mode
/// that is no more careful.
fn is_free(name: &str, value: Option<&Value>, user: &Table) -> bool {
    let set = |table: &str, key: &str| user.get(table).and_then(|table| table.get(key));
    match name.split_once('.') {
        Some(("limits", key)) => set("limits", key).is_none(),
        Some(("permissions", "mode")) => {
            let own = set("permissions", "mode");
            let most = own.map_or(freedom(Some(&Value::from("ask"))), |own| freedom(Some(own)));
            freedom(value) <= most
        }
        _ => false,
    }
}

fn freedom(mode: Option<&Value>) -> usize {
    let mode = mode.and_then(Value::as_str);
    MODES.iter().position(|known| Some(*known) == mode).unwrap_or(0)
}

/// (The tables of a value are in the order of their keys, and what stands in a file between the values is none.)
fn hash_of(value: &Value) -> String {
    blake3::hash(value.to_string().as_bytes()).to_hex().to_string()
}

/// What a folder was trusted with: a hash of each value, by its name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seal(BTreeMap<String, String>);

impl Seal {
    /// As it is kept: without a blank, as no name of a setting or a prompt has one.
    pub(super) fn to_text(&self) -> String {
        let parts = self.0.iter().map(|(name, hash)| format!("{name}={hash}"));
        parts.collect::<Vec<_>>().join(",")
    }

    /// What means nothing is a setting that no folder has.
    pub(super) fn parse(text: &str) -> Self {
        let parts = text.split(',').filter(|part| !part.is_empty());
        let parts = parts.map(|part| part.split_once('=').unwrap_or((part, "")));
        Self(parts.map(|(name, hash)| (name.to_owned(), hash.to_owned())).collect())
    }
}

/// Takes a setting out of a table.
pub(super) fn remove(table: &mut Table, name: &str) {
    match name.split_once('.') {
        Some((outer, key)) => {
            if let Some(inner) = table.get_mut(outer).and_then(Value::as_table_mut) {
                inner.remove(key);
            }
        }
        None => {
            table.remove(name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(then: &str, now: &str, user: &str, expected: Result<(), &str>) {
        let [then, now, user] = [then, now, user].map(|text| text.parse::<Table>().expect(text));
        let seal = Seal::parse(&Needs::of(&then).seal().to_text());
        let found = Needs::of(&now).as_in(&seal, &user);
        assert_eq!(found.as_ref().map_err(String::as_str), expected.as_ref().map_err(|it| *it));
    }

    #[test]
    fn trust_covers_exactly_the_trusted_settings() {
        let sandbox = "[sandbox]\nenabled = true\nnetwork = \"on\"\n";
        check("", "", "", Ok(()));
        check(sandbox, sandbox, "", Ok(()));
        // Order, comments, syntax, and settings that need no trust make no difference.
        let same = "model = \"a/b\" # mine\nsandbox = { network = 'on', enabled = true }\n\
            permissions.deny = [\"Write\"]\ncontext.keep_rounds = 3\nlearning.enabled = false\n";
        check(sandbox, same, "", Ok(()));
        check("", sandbox, "", Err("sandbox (new)"));
        let off = "sandbox.enabled = false\nverify.model = \"a/b\"\n";
        check(sandbox, off, "", Err("sandbox (changed), verify (new)"));
        // Settings that were trusted together are trusted only together.
        let full = "permissions.mode = \"full\"\n";
        check(&format!("{full}{sandbox}"), full, "", Err("sandbox (gone)"));
        check(&format!("{full}{sandbox}"), "", "", Ok(()));
        check("model = \"script:a\"", "model = \"script:b\"", "", Err("model (changed)"));
        let allows = |rules: &str| format!("permissions.allow = [{rules}]");
        check(&allows("\"Read\""), &allows("\"Bash\""), "", Err("permissions.allow (changed)"));
        check("", "checks.commands = [\"x\"]", "", Err("checks.commands (new)"));
        check("", "learning.keep_days = 1", "", Err("learning.keep_days (new)"));
    }

    #[test]
    fn settings_within_the_users_configuration_need_no_trust() {
        let limits = |turns: u32| format!("limits.max_turns = {turns}\nsandbox.enabled = false\n");
        check(&limits(1), &limits(2), "", Ok(()));
        let set = "limits.max_turns = 3";
        check(&limits(1), &limits(2), set, Err("limits.max_turns (changed)"));
        check("", "limits.max_turns = 2", set, Err("limits.max_turns (new)"));
        let mode = |mode: &str| format!("permissions.mode = {mode:?}\nsandbox.enabled = false\n");
        check(&mode("full"), &mode("ask"), "", Ok(()));
        check(&mode("full"), "sandbox.enabled = false", "", Ok(()));
        check(&mode("ask"), &mode("full"), "", Err("permissions.mode (changed)"));
        let careful = "permissions.mode = \"read-only\"";
        check("sandbox.enabled = false", &mode("ask"), careful, Err("permissions.mode (new)"));
        check(&mode("full"), &mode("full"), careful, Ok(()));
    }
}
