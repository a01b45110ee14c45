//! The front matter of a Markdown file: YAML between two lines `---`, before the text.
//!
//! The files were often written for another agent, so unknown keys are no error, and a value may
//! have any type.

use serde_json::Value;

use agent_protocol::Object;

/// Bytes.
const MAX_BYTES: usize = 64 * 1024;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct FrontMatter(Object);

/// Splits a file into the values of its front matter and the text after it; without front matter no
/// values and the whole text. The error does not contain the file's name.
pub fn split(file: &str) -> Result<(FrontMatter, &str), String> {
    let file = file.strip_prefix('\u{feff}').unwrap_or(file);
    let mut lines = file.split_inclusive('\n');
    let is_fence = |line: &str| line.trim_end() == "---";
    let Some(first) = lines.next().filter(|line| is_fence(line)) else {
        return Ok((FrontMatter::default(), file));
    };
    let rest = &file[first.len()..];
    let mut at = 0;
    for line in lines {
        if is_fence(line) {
            return Ok((FrontMatter::parse(&rest[..at])?, &rest[at + line.len()..]));
        }
        at += line.len();
    }
    Err("the front matter has no end: a line with three dashes is missing".to_owned())
}

impl FrontMatter {
    fn parse(yaml: &str) -> Result<Self, String> {
        if yaml.len() > MAX_BYTES {
            return Err(format!("the front matter is larger than {} KiB", MAX_BYTES / 1024));
        }
        // The line break stands for the first line of the file, so that errors count correctly.
        let yaml = &format!("\n{yaml}");
        let values = match parse_yaml(yaml) {
            Ok(values) => values,
            // Other agents read a value on one line as text, also if YAML requires quotes:
            // `description: Use it when: …`, `paths: *.rs`.
            Err(error) => {
                quote_values(yaml).and_then(|yaml| parse_yaml(&yaml).ok()).ok_or(error)?
            }
        };
        match values {
            Value::Object(values) => Ok(Self(values)),
            Value::Null => Ok(Self::default()),
            _ => Err("the front matter is not a list of `name: value`".to_owned()),
        }
    }

    fn value(&self, name: &str) -> Option<&Value> {
        self.0.get(name).filter(|value| !value.is_null())
    }

    /// A text; also a number or a truth value, as which YAML reads some texts.
    pub fn text(&self, name: &str) -> Option<String> {
        self.value(name).and_then(as_text)
    }

    /// A truth value, also written as a text.
    pub fn is_set(&self, name: &str) -> Option<bool> {
        match self.text(name)?.to_lowercase().as_str() {
            "true" | "yes" | "on" => Some(true),
            "false" | "no" | "off" => Some(false),
            _ => None,
        }
    }

    /// A list: of YAML, or in one text, separated by commas or spaces outside of parentheses
    /// (`Bash(git add:*), Read`). `None` if the name is missing.
    pub fn list(&self, name: &str) -> Option<Vec<String>> {
        Some(match self.value(name)? {
            Value::Array(items) => items.iter().filter_map(as_text).collect(),
            value => split_words(&as_text(value)?),
        })
    }
}

fn parse_yaml(yaml: &str) -> Result<Value, String> {
    let mut options = serde_saphyr::Options::default();
    options.duplicate_keys = serde_saphyr::DuplicateKeyPolicy::LastWins;
    options.with_snippet = false;
    let value: Option<Value> = serde_saphyr::from_str_with_options(yaml, options)
        .map_err(|error| format!("the front matter is not YAML: {error}"))?;
    Ok(value.unwrap_or_default())
}

/// Puts quotes around each value that is one plain text on the line of its name; `None` if there is
/// none.
fn quote_values(yaml: &str) -> Option<String> {
    let mut has_changed = false;
    let lines = yaml.lines().map(|line| {
        let is_name = |name: &str| {
            !name.is_empty()
                && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b))
        };
        match line.split_once(": ").map(|(name, value)| (name, value.trim())) {
            Some((name, value))
                if is_name(name)
                    && !value.starts_with(['"', '\'', '|', '>', '&', '!'])
                    && !may_be_a_list(value) =>
            {
                has_changed = true;
                format!("{name}: '{}'\n", value.replace('\'', "''"))
            }
            _ => format!("{line}\n"),
        }
    });
    let lines: String = lines.collect();
    has_changed.then_some(lines)
}

/// The value is a list in brackets, or begins one that ends on another line: `[file] [--all]` is
/// text.
fn may_be_a_list(value: &str) -> bool {
    value.starts_with(['[', '{']) && (!value.contains([']', '}']) || parse_yaml(value).is_ok())
}

fn as_text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(value) => Some(value.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

fn split_words(text: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut depth = 0_u32;
    for c in text.chars() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 && (c == ',' || c.is_whitespace()) {
            words.push(String::new());
        } else if let Some(word) = words.last_mut() {
            word.push(c);
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(file: &str, expected: &Value, body: &str) {
        let (matter, text) = split(file).unwrap();
        assert_eq!((&Value::Object(matter.0), text), (expected, body), "{file}");
    }

    #[test]
    fn front_matter_is_optional() {
        check("# Title\n", &json!({}), "# Title\n");
        check("", &json!({}), "");
        check("text\n---\na: 1\n---\n", &json!({}), "text\n---\na: 1\n---\n");
        check("---\n---\nbody", &json!({}), "body");
        check("---\n# only a comment\n---\n", &json!({}), "");
    }

    #[test]
    fn every_kind_of_yaml_value_is_read() {
        check("\u{feff}---\r\nname: a\r\n---\r\nbody\r\n", &json!({"name": "a"}), "body\r\n");
        check(
            "---\nname: \"a: b\"\ndescription: >-\n  two\n  lines\n\n  more\ntools: [Read, Grep]\n---\n\nbody",
            &json!({"name": "a: b", "description": "two lines\nmore", "tools": ["Read", "Grep"]}),
            "\nbody",
        );
        check(
            "---\ndescription: |\n  a\n  --- b\nmeta:\n  deep: {x: [1, 2.5, null]}\ntools:\n- Read\n- Bash(git:*)\n---",
            &json!({"description": "a\n--- b\n", "meta": {"deep": {"x": [1, 2.5, null]}},
                "tools": ["Read", "Bash(git:*)"]}),
            "",
        );
        check("---\na: &x one\nb: *x\na: two\n---\n", &json!({"a": "two", "b": "one"}), "");
    }

    #[test]
    fn text_that_needs_quotes_is_read_as_text() {
        check(
            "---\nname: helper\ndescription: Use it when: x. It's good\npaths: *.rs\n---\n",
            &json!({"name": "helper", "description": "Use it when: x. It's good", "paths": "*.rs"}),
            "",
        );
        check(
            "---\nargument-hint: [file] [--all]\ntools: [Read,\n  Grep]\n---\n",
            &json!({"argument-hint": "[file] [--all]", "tools": ["Read", "Grep"]}),
            "",
        );
    }

    #[test]
    fn broken_front_matter_is_an_error() {
        let wrong = |file: &str| split(file).unwrap_err();
        assert!(wrong("---\nname: a\n").contains("no end"));
        assert!(wrong("---\n- a\n- b\n---\n").contains("`name: value`"));
        assert!(wrong("---\nname: [a\n---\n").contains("not YAML"));
        assert!(wrong("---\nname: \"a\n---\n").contains("not YAML"));
        let error = wrong("---\nname: a\nb: [c\n---\n");
        assert!(error.contains("line 3") || error.contains("line 4"), "{error}");
        assert!(wrong(&format!("---\na: {}\n---\n", "x".repeat(MAX_BYTES))).contains("64 KiB"));
        // Aliases that multiply.
        let bomb = (b'b'..=b'i').fold("a: &a [x,x,x,x,x,x,x,x,x]\n".to_owned(), |text, n| {
            let (n, before) = (char::from(n), char::from(n - 1));
            let list = vec![format!("*{before}"); 9].join(",");
            format!("{text}{n}: &{n} [{list}]\n")
        });
        assert!(wrong(&format!("---\n{bomb}---\n")).contains("not YAML"));
    }

    #[test]
    fn lists_have_two_notations() {
        let list = |value: &str| {
            let file = format!("---\ntools: {value}\n---\n");
            split(&file).unwrap().0.list("tools")
        };
        let strings = |words: &[&str]| Some(words.iter().map(|&word| word.into()).collect());
        assert_eq!(
            list("Read, Grep,Bash(git add:*, x)"),
            strings(&["Read", "Grep", "Bash(git add:*, x)"])
        );
        assert_eq!(list("Read Bash(git log:*)"), strings(&["Read", "Bash(git log:*)"]));
        assert_eq!(list("[Read, 1, true]"), strings(&["Read", "1", "true"]));
        assert_eq!(list(""), None);
        let (matter, _) = split("---\na: yes\nb: \"off\"\nc: 3\n---\n").unwrap();
        let set = ["a", "b", "c", "d"].map(|name| matter.is_set(name));
        assert_eq!(set, [Some(true), Some(false), None, None]);
        assert_eq!(matter.text("c").as_deref(), Some("3"));
    }
}
