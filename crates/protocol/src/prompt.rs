//! The prompts: every text for a model is a file in `prompts/`, embedded at build time. A trusted folder can
//! override most of them, for experiments.

use std::collections::BTreeMap;

use super::most_similar;

/// A file in `prompts/`: `Prompt::named("feedback/empty.md")`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prompt {
    name: &'static str,
    text: &'static str,
}

impl Prompt {
    /// The file with this path in `prompts/`.
    ///
    /// # Panics
    ///
    /// If there is no such file. Every use is in a `const`, where that is a build error.
    pub const fn named(name: &str) -> Self {
        let mut at = 0;
        while at < EMBEDDED.len() {
            if is_same(EMBEDDED[at].name, name) {
                return EMBEDDED[at];
            }
            at += 1;
        }
        panic!("there is no such prompt")
    }

    /// The procedures that a planner selects from, each with its name in events and in the planner's answer.
    pub fn methodologies() -> impl Iterator<Item = (&'static str, Self)> {
        EMBEDDED.iter().filter_map(|prompt| {
            let name = prompt.name.strip_prefix("methodologies/")?.strip_suffix(".md")?;
            Some((name, *prompt))
        })
    }

    /// The embedded text.
    pub const fn text(self) -> &'static str {
        self.text
    }
}

const fn is_same(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let mut at = 0;
    while at < a.len() && at < b.len() && a[at] == b[at] {
        at += 1;
    }
    at == a.len() && at == b.len()
}

/// The beginning of every request: red lines can be added to it, and none removed.
pub const BOUNDARY: Prompt = Prompt::named("system/boundary.md");

macro_rules! prompts {
    ($($folder:literal: $($stem:ident)*;)*) => {
        /// Names of the prompts that can be overridden.
        pub const NAMES: &[&str] = &[$($(concat!($folder, stringify!($stem), ".md"),)*)*];

        const EMBEDDED: &[Prompt] = &[$($(Prompt {
            name: concat!($folder, stringify!($stem), ".md"),
            text: include_str!(concat!("../../../prompts/", $folder, stringify!($stem), ".md")),
        },)*)*];
    };
}

// The folders of `prompts/`, with the names of their files without `.md`.
prompts! {
    "": after_results;
    "agents/": explore general plan summary;
    "": answer_schema;
    "commands/": init review shell_lines;
    "": distil;
    "doctor/": message tool;
    "feedback/":
        answer_misfit changed_since check_failed circle continue cut_off directory_added empty hook
        image_not_shown image_refused interrupted mentioned_files mentioned_folders objection refused
        repetition
        replan_step replan_step_alone replan_task replan_task_alone rules_found rules_named taken_over undone
        user_command;
    "mcp/": serve tool;
    "memory/": applied known offered patterns reminder rules;
    "methodologies/": reproduce_first search_then_edit smallest_change test_first;
    "plan/": accepted edited mode;
    "recovery/":
        evidence fix_json kernel_call plan_step plan_task reflect verify verify_claim verify_now;
    "": search;
    "small_window/": bash edit grep read;
    "summary/": archived cut forgotten stale system task user_messages;
    "system/": boundary decision recovery;
    "tools/":
        ask_user bash edit glob grep ls multi_edit read skill task todo_write web_fetch web_search write;
    "": tools_in_text;
}

/// The prompts of this session: the embedded ones, and overrides.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prompts(BTreeMap<String, String>);

impl Prompts {
    /// The embedded texts with these overrides, each of which needs a known name and all placeholders.
    pub fn new(mut own: BTreeMap<String, String>) -> Result<Self, String> {
        for (name, text) in &own {
            let Some(embedded) = EMBEDDED.iter().find(|prompt| prompt.name == name) else {
                let hint = most_similar(name, NAMES.iter().copied())
                    .map_or_else(String::new, |known| format!("; did you mean {known}?"));
                return Err(format!("{name}: there is no such prompt{hint}"));
            };
            let missing = placeholders(embedded.text).find(|place| !text.contains(place));
            if let Some(place) = missing.filter(|_| *embedded != BOUNDARY) {
                return Err(format!(
                    "{name}: {place} is missing; put it where the program inserts its text"
                ));
            }
        }
        // A text that changes nothing is no override.
        own.retain(|name, text| {
            let is_same = |prompt: &&Prompt| prompt.name == name && prompt.text == text;
            name == BOUNDARY.name || !EMBEDDED.iter().any(|prompt| is_same(&prompt))
        });
        if let Some(more) = own.get_mut(BOUNDARY.name) {
            *more = format!("{}\n{}", BOUNDARY.text.trim_end(), more.trim_end());
        }
        Ok(Self(own))
    }

    /// Adds overrides, which replace earlier ones of the same name.
    pub fn with_overrides(mut self, own: BTreeMap<String, String>) -> Result<Self, String> {
        self.0.extend(Self::new(own)?.0);
        Ok(self)
    }

    /// The text of a prompt.
    pub fn text(&self, prompt: Prompt) -> &str {
        self.0.get(prompt.name).map_or(prompt.text, String::as_str)
    }

    /// The overrides: name and text.
    pub fn overrides(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, text)| (name.as_str(), text.as_str()))
    }
}

/// Replaces placeholders by name; placeholders in values are not replaced.
pub fn fill(text: &str, values: &[(&str, &str)]) -> String {
    let mut filled = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("{{") {
        let place = &rest[at + 2..];
        let found = values.iter().find_map(|(name, value)| {
            Some((*value, place.strip_prefix(name)?.strip_prefix("}}")?))
        });
        let (before, after) = found.map_or_else(|| rest.split_at(at + 1), |_| rest.split_at(at));
        let (value, after) = found.unwrap_or(("", after));
        filled.push_str(before);
        filled.push_str(value);
        rest = after;
    }
    filled.push_str(rest);
    filled
}

/// Placeholders such as `{{path}}`.
fn placeholders(text: &str) -> impl Iterator<Item = &str> {
    text.match_indices("{{").filter_map(|(at, _)| {
        let end = text[at..].find("}}")?;
        Some(&text[at..at + end + 2])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const EMPTY: Prompt = Prompt::named("feedback/empty.md");

    fn own(name: &str, text: &str) -> Result<Prompts, String> {
        Prompts::new(BTreeMap::from([(name.to_owned(), text.to_owned())]))
    }

    #[test]
    fn custom_prompt_replaces_the_embedded_one() {
        assert_eq!(Prompts::default().text(EMPTY), EMPTY.text);
        assert_eq!(own("feedback/empty.md", "say more").expect("a prompt").text(EMPTY), "say more");
    }

    #[test]
    fn unknown_prompt_name_is_an_error_with_a_suggestion() {
        let error = own("feedback/emty.md", "").expect_err("no prompt");
        assert_eq!(
            error,
            "feedback/emty.md: there is no such prompt; did you mean feedback/empty.md?"
        );
    }

    #[test]
    fn custom_prompt_without_a_required_placeholder_is_an_error() {
        let error = own("summary/cut.md", "see {{path}}").expect_err("no place for the bytes");
        assert_eq!(
            error,
            "summary/cut.md: {{bytes}} is missing; put it where the program inserts its text"
        );
        own("summary/cut.md", "{{bytes}} in {{path}}").expect("a prompt");
    }

    #[test]
    fn placeholders_in_values_are_not_expanded() {
        let text = "{{a}} and {{b}}; {{c}} {{{b}} {{";
        assert_eq!(fill(text, &[("a", "{{b}}"), ("b", "2")]), "{{b}} and 2; {{c}} {2 {{");
        assert_eq!(fill("{{b}}{{a}}", &[("a", "1"), ("b", "{{a}}")]), "{{a}}1");
        assert_eq!(fill("nothing", &[("a", "1")]), "nothing");
    }

    #[test]
    fn boundary_prompt_can_only_be_extended() {
        let prompts = own("system/boundary.md", "- Speak Latin.\n").expect("a prompt");
        let text = prompts.text(BOUNDARY);
        assert!(text.starts_with(BOUNDARY.text.trim_end()), "{text}");
        assert!(text.ends_with("\n- Speak Latin."), "{text}");
    }
}
