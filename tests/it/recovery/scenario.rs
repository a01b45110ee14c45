//! A scenario read from its file.

use std::fmt;
use std::path::Path;

/// A project, a model's answers, and the expected result.
#[derive(Debug, Default)]
pub(super) struct Scenario {
    pub(super) name: String,
    pub(super) title: String,
    pub(super) task: String,
    /// Additional arguments of `agent run`.
    pub(super) args: Vec<String>,
    /// Nothing fails in it: recovery must not cost a call.
    pub(super) is_control: bool,
    pub(super) outcome: Outcome,
    /// The reason with which the turn ends.
    pub(super) reason: Option<String>,
    /// Decisions of `control.decided` other than `continue`, joined by commas.
    pub(super) decisions: Option<String>,
    pub(super) reflections: Option<usize>,
    /// Maximum number of model requests for all purposes.
    pub(super) answers: Option<usize>,
    /// Result of a plain loop, if it is certain.
    pub(super) plain: Option<Outcome>,
    pub(super) files: Vec<File>,
    /// Run once in the project before the start.
    pub(super) setup: Option<String>,
    pub(super) changes: Vec<Change>,
    pub(super) script: String,
}

#[derive(Debug)]
pub(crate) struct File {
    pub(crate) path: String,
    pub(crate) is_executable: bool,
    pub(crate) text: String,
}

/// Commands that another process runs after the first result of this tool.
#[derive(Clone, Debug)]
pub(super) struct Change {
    pub(super) after: String,
    pub(super) commands: String,
}

/// How a run ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Outcome {
    #[default]
    Done,
    /// With this exit code.
    Stopped(i32),
}

impl Outcome {
    fn parse(text: &str) -> Option<Self> {
        match text.split_whitespace().collect::<Vec<_>>().as_slice() {
            ["done"] => Some(Self::Done),
            ["stopped"] => Some(Self::Stopped(1)),
            ["stopped", code] => Some(Self::Stopped(code.parse().ok()?)),
            _ => None,
        }
    }

    pub(super) fn is_done(self) -> bool {
        self == Self::Done
    }

    pub(super) fn is(self, code: i32) -> bool {
        match self {
            Self::Done => code == 0,
            Self::Stopped(expected) => code == expected,
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Done => f.write_str("done"),
            Self::Stopped(code) => write!(f, "stopped {code}"),
        }
    }
}

impl Scenario {
    /// Reads the scenario in this file; panics with file and line on an error.
    pub(super) fn read(path: &Path) -> Self {
        let text = std::fs::read_to_string(path).unwrap();
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let mut scenario = Self { name, ..Self::default() };
        let (mut heading, mut body, mut begins) = (String::new(), Vec::new(), 1);
        for (number, line) in (1..).zip(text.lines().chain(["=== end"])) {
            let Some(next) = line.strip_prefix("=== ") else {
                body.push(line);
                continue;
            };
            let taken = scenario.take(&heading, &body);
            taken.unwrap_or_else(|wrong| panic!("{}:{begins}: {wrong}", path.display()));
            (heading, begins) = (next.trim().to_owned(), number);
            body.clear();
        }
        for (what, is_missing) in [
            ("title", scenario.title.is_empty()),
            ("task", scenario.task.is_empty()),
            ("script", scenario.script.is_empty()),
        ] {
            assert!(!is_missing, "{}: there is no {what}", path.display());
        }
        scenario
    }

    /// Parses one part: the lines above the first heading, or below a heading.
    fn take(&mut self, heading: &str, lines: &[&str]) -> Result<(), String> {
        // Trailing empty lines are only separators.
        let n_lines = lines.iter().rposition(|line| !line.trim().is_empty()).map_or(0, |at| at + 1);
        let text: String = lines[..n_lines].iter().map(|line| format!("{line}\n")).collect();
        match heading.split_whitespace().collect::<Vec<_>>().as_slice() {
            [] => lines[..n_lines].iter().try_for_each(|line| self.take_header(line))?,
            ["file", path] => self.file(path, false, text),
            ["file", path, "755"] => self.file(path, true, text),
            ["setup"] => self.setup = Some(text),
            ["changes", after] => {
                let after = after.strip_prefix("after=").ok_or("`=== changes after=TOOL`")?;
                self.changes.push(Change { after: after.to_owned(), commands: text });
            }
            ["script"] => self.script = text,
            _ => return Err(format!("`=== {heading}`: file, setup, changes or script")),
        }
        Ok(())
    }

    fn take_header(&mut self, line: &str) -> Result<(), String> {
        if line.trim().is_empty() || line.starts_with('#') {
            return Ok(());
        }
        let (word, value) = line.split_once(':').ok_or(format!("`{line}`: a word and a colon"))?;
        let value = value.trim();
        let number = || value.parse().map_err(|_| format!("`{line}`: a number"));
        let outcome = || Outcome::parse(value).ok_or(format!("`{line}`: done or stopped [CODE]"));
        match word {
            "title" => value.clone_into(&mut self.title),
            "task" => value.clone_into(&mut self.task),
            "args" => self.args.extend(words(value)?),
            "control" if value == "yes" => self.is_control = true,
            "outcome" => self.outcome = outcome()?,
            "reason" => self.reason = Some(value.to_owned()),
            "decisions" => self.decisions = Some(value.to_owned()),
            "reflections" => self.reflections = Some(number()?),
            "answers" => self.answers = Some(number()?),
            "plain" => self.plain = Some(outcome()?),
            _ => return Err(format!("`{line}`: unknown word")),
        }
        Ok(())
    }

    fn file(&mut self, path: &str, is_executable: bool, text: String) {
        self.files.push(File { path: path.to_owned(), is_executable, text });
    }
}

/// Splits a line into words as a shell does, but without expansion.
pub(crate) fn words(line: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        match (letter, quote) {
            ('\'' | '"', None) => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (_, Some(open)) if letter == open => quote = None,
            ('\\', None | Some('"')) => word.get_or_insert_default().extend(letters.next()),
            (' ', None) => words.extend(word.take()),
            _ => word.get_or_insert_default().push(letter),
        }
    }
    if quote.is_some() {
        return Err(format!("`{line}`: a quote that is not closed"));
    }
    words.extend(word);
    Ok(words)
}
