//! Variants: the compared configurations of an experiment.

use serde::Serialize;

/// A name, and the setting that it changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Variant {
    pub name: String,
    /// As for `--set`; `None` for the unchanged configuration.
    pub change: Option<SettingChange>,
}

/// One changed setting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
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

/// Parses options `NAME` or `NAME:KEY=VALUE`. Without options: the unchanged `base`.
pub fn parse_variants(options: &[String]) -> Result<Vec<Variant>, String> {
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
        match variants.iter().find(|variant| variant.name == name) {
            None => variants.push(Variant { name: name.to_owned(), change }),
            Some(Variant { change: Some(_), .. }) if change.is_some() => {
                return Err(wrong(
                    "a variant changes one setting, so that a difference has one cause; give each a variant of its own",
                ));
            }
            Some(_) => return Err(wrong("there is a variant of this name; choose another")),
        }
    }
    if variants.is_empty() {
        variants.push(Variant { name: "base".to_owned(), change: None });
    }
    Ok(variants)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(options: &[&str], expected: &str) {
        let options: Vec<String> = options.iter().map(|&option| option.to_owned()).collect();
        let shown = match parse_variants(&options) {
            Err(error) => error,
            Ok(variants) => {
                let shown = variants.iter().map(|variant| {
                    let change = variant.change.as_ref().map(SettingChange::assignment);
                    format!("{}[{}]", variant.name, change.unwrap_or_default())
                });
                shown.collect::<Vec<_>>().join(" ")
            }
        };
        assert!(shown.contains(expected), "{options:?}: {shown}\nexpected {expected}");
    }

    #[test]
    fn variants_are_names_with_changes() {
        check(&[], "base[]");
        check(&["base", "a:b.c=1=2:3"], "base[] a[b.c=1=2:3]");
    }

    #[test]
    fn unclear_variants_are_errors() {
        check(&["a:x=1", "a:y=2"], "a variant changes one setting");
        check(&["a", "a"], "there is a variant of this name");
        check(&["a", "a:x=1"], "there is a variant of this name");
        check(&["a:x"], "write NAME:KEY=VALUE");
        check(&[":x=1"], "write NAME, or");
        check(&["<b>:x=1"], "write NAME, or");
    }
}
