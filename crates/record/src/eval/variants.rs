//! Variants: the compared configurations of an experiment.

use serde::{Deserialize, Serialize};

/// A name, and the settings that it changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Variant {
    pub name: String,
    /// Settings as for `--set`, in order; empty for the unchanged configuration.
    pub changes: Vec<SettingChange>,
}

/// One changed setting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SettingChange {
    /// A key of the configuration, or `prompts.` and the name of a prompt.
    pub key: String,
    /// The value, or the file of a prompt.
    pub value: String,
}

impl SettingChange {
    /// Formats `KEY=VALUE`.
    pub fn assignment(&self) -> String {
        format!("{}={}", self.key, self.value)
    }
}

/// Parses options `NAME` or `NAME:KEY=VALUE`; a repeated name adds a change. Without options: the unchanged `base`.
pub fn parse_variants(options: &[String], allow_confounded: bool) -> Result<Vec<Variant>, String> {
    let mut variants: Vec<Variant> = Vec::new();
    for option in options {
        let wrong = |why: &str| format!("--variant {option:?}: {why}");
        let (name, change) = match option.split_once(':') {
            Some((name, change)) => (name.trim(), Some(change)),
            None => (option.trim(), None),
        };
        let is_plain = |c: char| c.is_alphanumeric() || "-_.".contains(c);
        if name.is_empty() || !name.chars().all(is_plain) {
            return Err(wrong(
                "write NAME, or NAME:KEY=VALUE; a name consists of letters, digits, - _ and .",
            ));
        }
        let change = match change.map(|change| change.split_once('=')) {
            None => None,
            Some(None) => {
                return Err(wrong("write NAME:KEY=VALUE, or only NAME for no change"));
            }
            Some(Some((key, value))) => {
                let (key, value) = (key.trim().to_owned(), value.trim().to_owned());
                Some(SettingChange { key, value })
            }
        };
        match (variants.iter_mut().find(|variant| variant.name == name), change) {
            (None, change) => {
                let changes = change.into_iter().collect();
                variants.push(Variant { name: name.to_owned(), changes });
            }
            (Some(known), Some(change)) if !known.changes.is_empty() => known.changes.push(change),
            (Some(_), _) => return Err(wrong("there is a variant of this name; choose another")),
        }
    }
    if variants.is_empty() {
        variants.push(Variant { name: "base".to_owned(), changes: Vec::new() });
    }
    let confounded = variants.iter().find(|variant| variant.changes.len() > 1);
    if let (Some(variant), false) = (confounded, allow_confounded) {
        let keys: Vec<&str> = variant.changes.iter().map(|change| change.key.as_str()).collect();
        return Err(format!(
            "variant {} changes {} settings ({}), so a difference could come from any of them; make a variant of each, \
             or give --allow-confounded",
            variant.name,
            keys.len(),
            keys.join(", ")
        ));
    }
    Ok(variants)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(options: &[&str], allow_confounded: bool, expected: &str) {
        let options: Vec<String> = options.iter().map(|&option| option.to_owned()).collect();
        let shown = match parse_variants(&options, allow_confounded) {
            Err(error) => error,
            Ok(variants) => {
                let shown = variants.iter().map(|variant| {
                    let changes = variant.changes.iter().map(SettingChange::assignment);
                    format!("{}[{}]", variant.name, changes.collect::<Vec<_>>().join(" "))
                });
                shown.collect::<Vec<_>>().join(" ")
            }
        };
        assert!(shown.contains(expected), "{options:?}: {shown}\nexpected {expected}");
    }

    #[test]
    fn variants_are_names_with_changes() {
        check(&[], false, "base[]");
        check(&["base", "a:b.c=1=2:3"], false, "base[] a[b.c=1=2:3]");
        check(&["a:x=1", "a:y=2"], true, "a[x=1 y=2]");
    }

    #[test]
    fn unclear_variants_are_errors() {
        check(&["a:x=1", "a:y=2"], false, "changes 2 settings (x, y)");
        check(&["a", "a"], true, "there is a variant of this name");
        check(&["a", "a:x=1"], true, "there is a variant of this name");
        check(&["a:x"], false, "write NAME:KEY=VALUE");
        check(&[":x=1"], false, "write NAME, or");
        check(&["<b>:x=1"], false, "write NAME, or");
    }
}
