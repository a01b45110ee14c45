//! Rules files of the project or the user, and rules files in nested folders.

use std::collections::BTreeSet;

use agent_protocol::event::{Event, EventBody};
use agent_protocol::prompt::{Prompt, Prompts};

/// Size limit of one rules file, whatever the window is.
pub const MAX_RULES_BYTES: usize = 32 * 1024;

/// A file of rules that the project or the user gives (`CODE_LAW.md`, `AGENTS.md`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RulesFile {
    /// Path as the model sees it.
    pub path: String,
    pub text: String,
}

impl RulesFile {
    /// The content up to a size limit, with a notice if it was cut.
    pub fn truncated_text(&self, max_bytes: usize) -> String {
        let Self { path, text } = self;
        let end = text.floor_char_boundary(text.len().min(max_bytes));
        let mut shown = text[..end].trim_end().to_owned();
        if end < text.len() {
            shown.push_str(&format!(
                "\n\n({path} is longer than {max_bytes} bytes: Read the rest when it matters.)"
            ));
        }
        shown
    }

    pub(super) fn l2_text(&self, max_bytes: usize) -> String {
        format!("# Rules of this project ({})\n\n{}", self.path, self.truncated_text(max_bytes))
    }
}

/// The rules files of folders below the root, as far as they were searched.
#[derive(Clone, Debug, Default)]
pub struct NestedRules {
    /// The files in the order in which they were found.
    rules: Vec<RulesFile>,
    /// Folders searched in this turn: files that are created there later are found in the next one.
    searched_folders: BTreeSet<String>,
}

impl NestedRules {
    /// The folders of this path that were not searched yet, outermost first, without the root; marks them as
    /// searched.
    pub fn take_unsearched_folders(&mut self, path: &str, is_folder: bool) -> Vec<String> {
        let parents = path.match_indices('/').map(|(at, _)| &path[..at]);
        let own = Some(path).filter(|path| is_folder && *path != ".");
        let folders = parents.filter(|folder| !folder.is_empty()).chain(own).map(str::to_owned);
        folders.filter(|folder| self.searched_folders.insert(folder.clone())).collect()
    }

    /// Whether the file was found before, or has the same content as another one: a link or a copy.
    pub fn contains(&self, path: &str, shown: &str) -> bool {
        self.rules.iter().any(|rules| rules.path == path || rules.text == shown)
    }

    /// Applies an event of the session.
    pub fn apply(&mut self, event: &Event) {
        match &event.body {
            EventBody::TurnStarted { .. } => self.searched_folders.clear(),
            EventBody::RulesFound { path, text } => {
                self.rules.push(RulesFile { path: path.clone(), text: text.clone() });
            }
            _ => {}
        }
    }

    /// The rules as part of L2 after a compaction, in about `room` bytes: the newest in full, older ones by
    /// name, and the oldest as a number.
    pub fn layer(&self, prompts: &Prompts, room: usize) -> String {
        const NAMED: Prompt = Prompt::named("feedback/rules_named.md");
        // A quarter is for names.
        let (mut room, mut names_room) = (room / 4 * 3, room / 4);
        let mut texts: Vec<String> = Vec::new();
        for rules in self.rules.iter().rev() {
            let text = rules.l2_text(usize::MAX);
            let Some(left) = room.checked_sub(text.len()) else { break };
            room = left;
            texts.push(text);
        }
        let older = &self.rules[..self.rules.len() - texts.len()];
        let mut names: Vec<String> = Vec::new();
        for RulesFile { path, .. } in older.iter().rev() {
            let name = format!("- {path} (for {}/)", folder_of(path));
            let Some(left) = names_room.checked_sub(name.len()) else { break };
            names_room = left;
            names.push(name);
        }
        if !older.is_empty() {
            if let more @ 1.. = older.len() - names.len() {
                names.push(format!("- and {more} more"));
            }
            texts.push(prompts.text(NAMED).trim_end().replace("{{files}}", &names.join("\n")));
        }
        texts.reverse();
        texts.join("\n\n")
    }
}

fn folder_of(path: &str) -> &str {
    let folder = path.rsplit_once('/').map_or(".", |(folder, _)| folder);
    // `web/.claude/CLAUDE.md` is about web.
    match folder.strip_suffix(".claude") {
        Some("") => ".",
        Some(around) => around.strip_suffix('/').unwrap_or(folder),
        None => folder,
    }
}

pub(super) fn found_rules_message(prompts: &Prompts, path: &str, text: &str) -> String {
    const FOUND: Prompt = Prompt::named("feedback/rules_found.md");
    // The file's text is inserted last, so that placeholders in it are not replaced.
    prompts
        .text(FOUND)
        .trim_end()
        .replace("{{folder}}", folder_of(path))
        .replace("{{path}}", path)
        .replace("{{rules}}", text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_of_a_path_are_visited_once() {
        let mut met = NestedRules::default();
        assert_eq!(met.take_unsearched_folders("a/b/c.rs", false), ["a", "a/b"]);
        assert_eq!(met.take_unsearched_folders("a/b/d.rs", false), [""; 0]);
        assert_eq!(met.take_unsearched_folders("a/x", true), ["a/x"]);
        assert_eq!(met.take_unsearched_folders(".", true), [""; 0]);
        assert_eq!(met.take_unsearched_folders("c.rs", false), [""; 0]);
        assert_eq!(met.take_unsearched_folders("/added/a.rs", false), ["/added"]);
    }

    #[test]
    fn newest_rules_are_in_full_and_others_listed_within_the_limit() {
        let mut met = NestedRules::default();
        for n in 0..200 {
            let (path, text) =
                (format!("part{n}/AGENTS.md"), format!("law {n} {}", "x".repeat(500)));
            met.rules.push(RulesFile { path, text });
        }
        let layer = met.layer(&Prompts::default(), 4000);
        assert!(layer.len() < 4500, "{}", layer.len());
        assert!(layer.contains("law 199 ") && layer.contains("law 196 "), "{layer}");
        assert!(layer.contains("\n- part193/AGENTS.md (for part193/)\n"), "{layer}");
        assert!(!layer.contains("law 193 ") && layer.contains(" more\n"), "{layer}");
        assert!(layer.find("part193/") < layer.find("law 199"), "{layer}");
        let layer = met.layer(&Prompts::default(), 1_000_000);
        assert!(layer.contains("law 0 ") && !layer.contains("- part"), "{layer}");
    }

    #[test]
    fn truncated_rules_file_says_that_there_is_more() {
        let text = "ä".repeat(MAX_RULES_BYTES);
        let shown = RulesFile { path: "a/AGENTS.md".into(), text }.truncated_text(MAX_RULES_BYTES);
        assert!(
            shown.ends_with(
                "(a/AGENTS.md is longer than 32768 bytes: Read the rest when it matters.)"
            )
        );
        assert!(shown.len() < MAX_RULES_BYTES + 200);
    }
}
