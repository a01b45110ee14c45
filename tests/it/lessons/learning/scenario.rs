//! A family of failures read from its file: sessions that teach, and one that is evaluated.

use std::path::Path;

use crate::recovery::scenario::{File, words};

/// Sessions in one or several projects.
#[derive(Debug, Default)]
pub(super) struct Family {
    pub(super) name: String,
    pub(super) title: String,
    /// The last session is unrelated to the earlier ones.
    pub(super) is_control: bool,
    pub(super) sessions: Vec<Session>,
}

/// One session.
#[derive(Debug, Default)]
pub(super) struct Session {
    pub(super) task: String,
    pub(super) args: Vec<String>,
    pub(super) files: Vec<File>,
    pub(super) setup: Option<String>,
    pub(super) script: String,
    /// Only in the last session: number of calls that fail without memory.
    pub(super) failures: Option<usize>,
}

impl Family {
    /// Reads the family in this file; panics with its name on an error.
    pub(super) fn read(path: &Path) -> Self {
        let text = std::fs::read_to_string(path).unwrap();
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let mut family = Self { name, ..Self::default() };
        let mut parts = parts(&text, "=== ").into_iter();
        let wrong = |why: String| -> ! { panic!("{}: {why}", path.display()) };
        let (_, head) = parts.next().unwrap_or_default();
        for (word, value) in header(&head) {
            match word {
                "title" => value.clone_into(&mut family.title),
                "scope" | "kind" => {}
                "control" => family.is_control = value == "yes",
                _ => wrong(format!("`{word}:`: unknown word")),
            }
        }
        for (heading, body) in parts {
            if !heading.starts_with("session ") {
                wrong(format!("`=== {heading}`: session N"));
            }
            family.sessions.push(Session::read(&body).unwrap_or_else(|why| wrong(why)));
        }
        if family.sessions.len() < 2 || family.title.is_empty() {
            wrong("a title and two sessions at least".to_owned());
        }
        family
    }
}

impl Session {
    fn read(text: &str) -> Result<Self, String> {
        let mut session = Self::default();
        let mut parts = parts(text, "--- ").into_iter();
        let (_, head) = parts.next().unwrap_or_default();
        for (word, value) in header(&head) {
            match word {
                "task" => value.clone_into(&mut session.task),
                "args" => session.args.extend(words(value)?),
                "avoids" => {}
                "failures" => session.failures = value.parse().ok(),
                _ => return Err(format!("`{word}:`: unknown word")),
            }
        }
        for (heading, body) in parts {
            // Trailing empty lines are only separators.
            let text = format!("{}\n", body.trim_end());
            match heading.split_whitespace().collect::<Vec<_>>().as_slice() {
                ["file", path] => session.file(path, false, text),
                ["file", path, "755"] => session.file(path, true, text),
                ["setup"] => session.setup = Some(text),
                ["script"] => session.script = text.replace("\n~~~\n", "\n---\n"),
                _ => return Err(format!("`--- {heading}`: file, setup or script")),
            }
        }
        if session.task.is_empty() || session.script.is_empty() {
            return Err("a session has a task and a script".to_owned());
        }
        Ok(session)
    }

    fn file(&mut self, path: &str, is_executable: bool, text: String) {
        self.files.push(File { path: path.to_owned(), is_executable, text });
    }
}

/// The text below each heading, starting with the text above the first one.
fn parts(text: &str, mark: &str) -> Vec<(String, String)> {
    let mut parts = vec![(String::new(), String::new())];
    for line in text.lines() {
        if let Some(heading) = line.strip_prefix(mark) {
            parts.push((heading.trim().to_owned(), String::new()));
        } else if let Some((_, body)) = parts.last_mut() {
            body.push_str(line);
            body.push('\n');
        }
    }
    parts
}

/// Keys and values, without comments and empty lines.
fn header(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let lines = text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#'));
    lines.map(|line| line.split_once(':').unwrap_or((line, ""))).map(|(w, v)| (w, v.trim()))
}
