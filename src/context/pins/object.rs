//! What a sentence names: paths and commands, told from its words.

use std::sync::LazyLock;

use regex::Regex;

use crate::protocol::speech::expression;

/// Stands for a path in a [`Named::form`].
pub(super) const PATH: char = '§';
/// Stands for a command in a [`Named::form`].
const COMMAND: char = '¤';

/// A sentence whose names were taken out.
#[derive(Clone, Debug)]
pub(super) struct Named {
    /// The sentence in lower case, with a sign for each path and each command.
    pub(super) form: String,
    paths: Vec<Path>,
    commands: Vec<String>,
}

/// A path that a sentence names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Path {
    text: String,
    /// A word that is called a folder: wherever it lies.
    is_anywhere: bool,
}

impl Named {
    pub(super) fn of(sentence: &str) -> Self {
        // In the order of the groups: what is marked as code or quoted, "the x folder", "folder x",
        // "x 目录", what looks like a path.
        static NAMES: LazyLock<Regex> = LazyLock::new(|| {
            expression(
                r#"(?i)[`"“]([^`"“”\n]+)[`"”]|\b([\w-]+)( (?:folder|directory|dir)\b)|\b((?:folder|directory|dir) )([\w-]+)\b|([a-z_][\w-]*)(\s?(?:目录|文件夹))|((?:[a-z0-9_.@*-]*/)+[a-z0-9_.@*-]*|\*?[a-z0-9_-]*(?:\.[a-z0-9_-]+)*\.[a-z][a-z0-9]{0,7})"#,
            )
        });
        let sentence = sentence.split_whitespace().collect::<Vec<_>>().join(" ").replace('’', "'");
        let mut named = Self { form: String::new(), paths: Vec::new(), commands: Vec::new() };
        let mut rest = 0;
        for found in NAMES.captures_iter(&sentence) {
            let all = found.get(0).expect("the whole match");
            named.form.push_str(&sentence[rest..all.start()]);
            rest = all.end();
            let text = |n: usize| found.get(n).map(|group| group.as_str());
            let after = &sentence[all.end()..];
            let is_called = after.trim_start().starts_with(['目', '文']) || {
                let next = after.split_whitespace().next().unwrap_or_default();
                ["folder", "directory", "dir"]
                    .contains(&next.trim_matches(|c: char| !c.is_alphabetic()))
            };
            if let Some(code) = text(1) {
                named.push_code(code, is_called);
            } else if let (Some(word), Some(kind)) = (text(2), text(3)) {
                named.push_folder(word, "", kind);
            } else if let (Some(kind), Some(word)) = (text(4), text(5)) {
                named.push_folder(word, kind, "");
            } else if let (Some(word), Some(kind)) = (text(6), text(7)) {
                named.push_folder(word, "", kind);
            } else if let Some(path) = text(8) {
                let trimmed = path.trim_end_matches('.');
                named.push_path(trimmed);
                rest -= path.len() - trimmed.len();
            }
        }
        named.form.push_str(&sentence[rest..]);
        named.form = named.form.to_lowercase();
        named
    }

    /// The paths whose signs stand in this part of the form.
    pub(super) fn paths_in(&self, range: std::ops::Range<usize>) -> &[Path] {
        let before = self.form[..range.start].matches(PATH).count();
        let n = self.form[range].matches(PATH).count();
        &self.paths[before..before + n]
    }

    /// The command whose sign is the first at or behind this place of the form.
    pub(super) fn command_at(&self, at: usize) -> Option<&str> {
        let before = self.form[..at].matches(COMMAND).count();
        self.commands.get(before).map(String::as_str)
    }

    /// All paths.
    pub(super) fn paths(&self) -> &[Path] {
        &self.paths
    }

    fn push_code(&mut self, code: &str, is_called: bool) {
        let code = code.trim();
        let is_word = !code.contains(char::is_whitespace);
        if is_word && (looks_like_path(code) || is_called) {
            let is_anywhere = !looks_like_path(code);
            self.form.push(PATH);
            self.paths.push(Path { text: code.to_owned(), is_anywhere });
        } else {
            self.form.push(COMMAND);
            self.commands.push(code.to_owned());
        }
    }

    fn push_folder(&mut self, word: &str, before: &str, after: &str) {
        // "this directory" names none.
        const NO_NAMES: &[&str] = &[
            "the", "a", "an", "this", "that", "any", "each", "every", "no", "root", "current",
            "project", "same", "whole", "new", "other", "another", "home", "working", "parent",
            "output", "is", "in", "to", "and", "or", "of", "for", "with", "my", "your", "our",
            "one", "entire",
        ];
        if NO_NAMES.contains(&word.to_lowercase().as_str()) {
            self.form.push_str(&format!("{before}{word}{after}"));
            return;
        }
        self.form.push_str(before);
        self.form.push(PATH);
        self.form.push_str(after);
        self.paths.push(Path { text: word.to_owned(), is_anywhere: true });
    }

    fn push_path(&mut self, path: &str) {
        // A number, a version, an abbreviation or a choice of words is no path.
        let is_short =
            path.len() < 3 && !path.ends_with('/') || path.contains("//") || path.ends_with('@');
        if is_short || !looks_like_path(path) {
            self.form.push_str(path);
        } else {
            self.form.push(PATH);
            self.paths.push(Path { text: path.to_owned(), is_anywhere: false });
        }
    }
}

impl Path {
    /// The globs of a rule that fits it and all below it; none where a rule could not say it. `@a` names `a`, and
    /// may be called so.
    pub(super) fn globs(&self) -> Vec<String> {
        let mentioned = self.text.strip_prefix('@').filter(|name| !name.is_empty());
        let mentioned = mentioned.map(|text| Self { text: text.to_owned(), ..self.clone() });
        mentioned.iter().chain([self]).flat_map(Self::globs_as_written).collect()
    }

    fn globs_as_written(&self) -> Vec<String> {
        let text = self.text.strip_prefix("./").unwrap_or(&self.text);
        let is_inside =
            !text.starts_with(['/', '~', '.']) || text.starts_with('.') && !text.starts_with("..");
        if !is_inside || text.contains(['[', ']', '{', '}', '(', ')', '?', '\\', '~', '$']) {
            return Vec::new();
        }
        let folder = text.trim_end_matches('/').trim_end_matches("/**").trim_end_matches("/*");
        if folder.is_empty() || folder == "." || folder == "*" || folder == "**" {
            return Vec::new();
        }
        if self.is_anywhere {
            return vec![format!("**/{folder}/**")];
        }
        if folder != text {
            return vec![format!("{folder}/**")];
        }
        let name = folder.rsplit('/').next().unwrap_or(folder);
        if name.trim_start_matches('.').contains('.')
            || name.starts_with('.')
            || WITHOUT_DOT.contains(&name)
        {
            return vec![folder.to_owned()];
        }
        // A file or a folder: nobody has looked.
        vec![folder.to_owned(), format!("{folder}/**")]
    }

    /// It is the other one, or lies in it.
    pub(super) fn is_in(&self, other: &Self) -> bool {
        let (text, folder) = (self.bare(), other.bare());
        if other.is_anywhere {
            return text.split('/').any(|part| part == folder);
        }
        text == folder || text.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'))
    }

    fn bare(&self) -> &str {
        self.text
            .trim_start_matches('@')
            .trim_start_matches("./")
            .trim_end_matches('*')
            .trim_end_matches('/')
    }
}

/// Files that everybody knows without an ending.
const WITHOUT_DOT: &[&str] = &[
    "Makefile",
    "Dockerfile",
    "Justfile",
    "Gemfile",
    "Rakefile",
    "LICENSE",
    "README",
    "CHANGELOG",
];

fn looks_like_path(text: &str) -> bool {
    const NO_ENDINGS: &[&str] =
        &["e.g", "i.e", "etc", "vs", "node.js", "next.js", "vue.js", "a.m", "p.m"];
    static FILE: LazyLock<Regex> = LazyLock::new(|| {
        expression(r"^\.?[\w@*-]+(?:\.[\w-]+)*\.[A-Za-z][A-Za-z0-9]{0,7}$|^\.[a-z][\w.-]+$")
    });
    let is_path =
        text.contains('/') && !text.contains("://") && text.chars().any(char::is_alphanumeric);
    (is_path || FILE.is_match(text) || WITHOUT_DOT.contains(&text))
        && !NO_ENDINGS.contains(&text.to_lowercase().as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(sentence: &str, form: &str, globs: &[&str]) {
        let named = Named::of(sentence);
        let found: Vec<String> = named.paths().iter().flat_map(Path::globs).collect();
        assert_eq!(
            (named.form.as_str(), found.as_slice()),
            (form, &*globs.iter().map(ToString::to_string).collect::<Vec<_>>()),
            "{sentence}"
        );
    }

    #[test]
    fn paths_and_commands_are_told_from_words() {
        check("Don't touch tests/.", "don't touch §.", &["tests/**"]);
        check("no `src/a.rs` and src/b", "no § and §", &["src/a.rs", "src/b", "src/b/**"]);
        check("the migrations folder", "the § folder", &["**/migrations/**"]);
        check("不要修改 migrations/ 目录", "不要修改 § 目录", &["migrations/**"]);
        check("别动migrations目录", "别动§目录", &["**/migrations/**"]);
        check(
            "Edit Cargo.lock, .env and *.snap.",
            "edit §, § and §.",
            &["Cargo.lock", ".env", "*.snap"],
        );
        check("run `git push` in this folder", "run ¤ in this folder", &[]);
        check("see https://a.b/c, use 3.8, e.g. 1.2", "see https://a.b/c, use 3.8, e.g. 1.2", &[]);
        check("never ../x or /etc/passwd", "never § or §", &[]);
    }
}
