//! Maps the paths of the recorded session to those of the replay.

use std::path::PathBuf;
use std::sync::LazyLock;

use regex::{Captures, Regex};

/// The name of a spilled output: its time differs, its number and tool do not.
static OUTPUT_NAME: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"tool_\d{8}T\d{6}_(\d+_[A-Za-z-]+\.txt)").ok());

#[derive(Clone, Debug)]
pub(super) struct PathMapping {
    /// A directory of the recorded session, and the one of the replay. Inner ones come first.
    pub(super) directories: Vec<(String, String)>,
    pub(super) outputs: PathBuf,
}

impl PathMapping {
    pub(super) fn relocate(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (from, to) in &self.directories {
            text = replace_path(&text, from, to);
        }
        let Some(output) = OUTPUT_NAME.as_ref().filter(|_| text.contains("tool_")) else {
            return text;
        };
        let name = |found: &Captures<'_>| {
            let ending = format!("_{}", &found[1]);
            let names = std::fs::read_dir(&self.outputs).into_iter().flatten().flatten();
            let mut names = names.filter_map(|entry| entry.file_name().into_string().ok());
            names.find(|name| name.ends_with(&ending)).unwrap_or_else(|| found[0].to_owned())
        };
        output.replace_all(&text, name).into_owned()
    }
}

fn replace_path(text: &str, from: &str, to: &str) -> String {
    let is_of_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-');
    let (mut new, mut done) = (String::new(), 0);
    for (at, _) in text.match_indices(from) {
        let rest = &text[at + from.len()..];
        let is_other = text[..at].ends_with(|c| is_of_name(c) || c == '.')
            || rest.strip_prefix('.').unwrap_or(rest).starts_with(is_of_name);
        if !is_other {
            new.push_str(&text[done..at]);
            new.push_str(to);
            done = at + from.len();
        }
    }
    new + &text[done..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_paths_are_relocated() {
        let check = |text, expected| assert_eq!(replace_path(text, "/a/b", "/s"), expected);
        check("cd /a/b && cat /a/b/c", "cd /s && cat /s/c");
        check("/a/bc /x/a/b /a/b-c /a/b.c /a/b.", "/a/bc /x/a/b /a/b-c /a/b.c /s.");
    }
}
