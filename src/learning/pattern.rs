//! When does a failure pattern fit, and what does its fix make of a call? Pure; [`super::extract`] promises that what
//! it learns fits the failure it was learnt from, and that its fix makes the call that worked of the one that did not.

use std::cell::OnceCell;
use std::collections::HashSet;

use serde_json::Value;

use super::command::{ANY, is_task};
use super::evidence::has_word;
use super::item::{Condition, FailurePattern, Fix};
use crate::protocol::Object;
use crate::protocol::command::{Simple, simple_commands, unquoted};
use crate::protocol::message::ToolCall;
use crate::protocol::recall::FailedAs;
use crate::protocol::reflection::SuggestedAction;
use crate::protocol::signature::signature;
use crate::protocol::topics;

/// A call, read once for all that is asked of it.
pub(super) struct Read<'a> {
    tool: &'a str,
    input: &'a Object,
    /// The file that it was about, from the project's root, where that is known.
    resolved: Option<&'a str>,
    commands: OnceCell<Vec<Simple<'a>>>,
    /// Lines that are new in what it changes.
    lines: OnceCell<Vec<&'a str>>,
}

impl<'a> Read<'a> {
    /// `input` are the call's arguments.
    pub(super) fn new(call: &'a ToolCall, input: &'a Object) -> Self {
        let (commands, lines) = (OnceCell::new(), OnceCell::new());
        Self { tool: &call.name, input, resolved: None, commands, lines }
    }

    /// It was about these files. What the call names as it likes is known by the one that it was about.
    pub(super) fn about(mut self, paths: &[&'a str]) -> Self {
        let is_one = paths.len() == 1 && self.input.contains_key("path");
        self.resolved = paths.first().copied().filter(|_| is_one);
        self
    }

    /// The commands of its line.
    pub(super) fn commands(&self) -> &[Simple<'a>] {
        let line = || self.input.get("command").and_then(Value::as_str).unwrap_or_default();
        self.commands.get_or_init(|| simple_commands(line()))
    }

    /// Where it is, in its own words and as it was found.
    fn paths(&self) -> impl Iterator<Item = &'a str> + Clone {
        let named = self.input.get("path").and_then(Value::as_str).map(plain_path);
        named.into_iter().chain(self.resolved)
    }

    /// A line that the change puts in has this word, or begins with these blanks.
    fn puts_in(&self, piece: &str) -> bool {
        let has_piece = |line: &&str| {
            if piece.trim().is_empty() { line.starts_with(piece) } else { has_word(line, piece) }
        };
        self.lines.get_or_init(|| new_lines(self.input)).iter().any(has_piece)
    }
}

impl FailurePattern {
    /// The pattern warns of this call before it is made: the call's own words say that it will fail, and it
    /// does not follow the fix already.
    pub fn warns_of(&self, call: &ToolCall) -> bool {
        self.warns_of_read(&Read::new(call, &input_of(call)))
    }

    /// The same of a call that was read.
    pub(super) fn warns_of_read(&self, call: &Read<'_>) -> bool {
        let when = &self.when;
        let names = when.command_head.is_some()
            || when.path.is_some()
            || when.argument.is_some()
            || when.leads_to.is_some();
        let is_certain = || match &self.fix {
            // What shows in the call's answer is told then, but for a program that is missing here.
            None => when.code.is_none() || when.platform.is_some(),
            // Whether it was run is not seen in the call.
            Some(Fix::RunFirst { .. }) => false,
            Some(
                Fix::ReplaceWords { .. }
                | Fix::Prefix { .. }
                | Fix::RenameArgument { .. }
                | Fix::SetArguments { .. }
                | Fix::ReplacePath { .. }
                | Fix::OtherTool { .. },
            ) => self.action_on(call.input).is_some(),
        };
        names && when.fits_read(call) && is_certain()
    }

    /// The pattern is about this failure.
    pub fn fits(&self, failed: &FailedAs<'_>) -> bool {
        let when = self.when.leads_to.as_deref().unwrap_or(&self.when);
        let fits_code = when.code.is_none_or(|code| code == failed.code);
        let fits_signature = || {
            let Some(piece) = &when.signature else { return true };
            failed.signature.contains(piece.as_str())
                || signature(failed.evidence).contains(piece.as_str())
        };
        let fits_call = || match &self.when.leads_to {
            Some(later) => later.fits_call(failed.call),
            None => self.fits_place(failed.call),
        };
        fits_code && fits_call() && fits_signature()
    }

    /// The call is one that the pattern speaks of, whether or not it failed. A file that was moved speaks for
    /// its folder.
    pub(super) fn fits_place(&self, call: &ToolCall) -> bool {
        if let Some(Fix::ReplacePath { from, .. }) = &self.fix {
            let mut when = self.when.clone();
            when.path = None;
            when.file_kind = None;
            let input = input_of(call);
            return when.fits_call(call) && moved(&input, from, "").is_some();
        }
        self.when.fits_call(call)
    }

    /// The command that has to be run before this call, where that is what helps and the call does not do it
    /// itself.
    pub fn first(&self, call: &ToolCall) -> Option<&str> {
        self.first_on(&input_of(call))
    }

    fn first_on(&self, input: &Object) -> Option<&str> {
        let Some(Fix::RunFirst { command }) = &self.fix else { return None };
        let line = input.get("command").and_then(Value::as_str).unwrap_or_default();
        (!line.contains(command.as_str())).then_some(command)
    }

    /// What the kernel could do instead of this call, which failed in this way; `None` where the fix does
    /// not change it, or there is none.
    pub fn action(&self, call: &ToolCall) -> Option<SuggestedAction> {
        self.action_on(&input_of(call))
    }

    fn action_on(&self, input: &Object) -> Option<SuggestedAction> {
        let line = input.get("command").and_then(Value::as_str);
        let adjust = |name: &str, value: Value| SuggestedAction::Adjust {
            input: Object::from_iter([(name.to_owned(), value)]),
        };
        match self.fix.as_ref()? {
            Fix::ReplaceWords { from, to } => {
                let line = self.with_words_replaced(line?, from, to)?;
                Some(adjust("command", line.into()))
            }
            Fix::Prefix { with } => {
                let line = self.with_prefix(line?, with)?;
                Some(adjust("command", line.into()))
            }
            // The call is right as it is: see `first`.
            Fix::RunFirst { .. } => {
                self.first_on(input)?;
                Some(SuggestedAction::Adjust { input: Object::new() })
            }
            Fix::RenameArgument { from, to } => {
                let value = input.get(from).filter(|_| !input.contains_key(to))?;
                Some(adjust(to, value.clone()))
            }
            Fix::SetArguments { input: wanted } => {
                let differs = wanted.iter().any(|(name, value)| input.get(name) != Some(value));
                differs.then(|| SuggestedAction::Adjust { input: wanted.clone() })
            }
            Fix::ReplacePath { from, to } => {
                let (name, value) = moved(input, from, to)?;
                Some(adjust(&name, value.into()))
            }
            Fix::OtherTool { tool, input: wanted, named } => {
                let mut wanted = wanted.clone();
                if let Some(path) = input.get("path").filter(|_| !wanted.contains_key("path")) {
                    wanted.insert("path".to_owned(), path.clone());
                }
                for (from, to) in named {
                    wanted.insert(to.clone(), input.get(from)?.clone());
                }
                Some(SuggestedAction::Alternative { tool: tool.clone(), input: wanted })
            }
        }
    }

    /// The call does what the pattern advises. Where the advice is not about the call's own words, a call of
    /// which the pattern speaks does.
    pub fn is_followed_by(&self, call: &ToolCall) -> bool {
        let input = input_of(call);
        let line = input.get("command").and_then(Value::as_str).unwrap_or_default();
        let has_words = |words: &str| {
            let words: Vec<&str> = words.split_whitespace().collect();
            simple_commands(line).iter().any(|simple| place_of(&simple.words, &words).is_some())
        };
        match &self.fix {
            // Words at a line's end do not say themselves of which command they are.
            Some(Fix::ReplaceWords { from, to }) if from.is_empty() => {
                let to: Vec<&str> = to.split_whitespace().collect();
                simple_commands(line).iter().any(|simple| {
                    self.when.fits_simple(simple) && place_of(&simple.words, &to).is_some()
                })
            }
            Some(Fix::ReplaceWords { to, .. }) => has_words(to),
            Some(Fix::Prefix { with }) => line.contains(with.trim_end()),
            Some(Fix::RunFirst { command }) => line.contains(command.as_str()),
            Some(Fix::RenameArgument { to, .. }) => {
                call.name == self.when.tool && input.contains_key(to)
            }
            Some(Fix::SetArguments { input: wanted }) => {
                self.when.fits_call(call)
                    && wanted.iter().all(|(name, value)| input.get(name) == Some(value))
            }
            Some(Fix::ReplacePath { to, .. }) => moved(&input, to, "").is_some(),
            Some(Fix::OtherTool { tool, .. }) => call.name == *tool,
            // What went well although the file was changed shows it.
            None => self.when.leads_to.as_deref().unwrap_or(&self.when).fits_call(call),
        }
    }

    /// A call that does what the pattern advises differs from those that are made without it.
    pub fn shows_when_followed(&self) -> bool {
        match &self.fix {
            Some(
                Fix::ReplaceWords { .. }
                | Fix::Prefix { .. }
                | Fix::RunFirst { .. }
                | Fix::SetArguments { .. }
                | Fix::ReplacePath { .. },
            ) => true,
            Some(Fix::RenameArgument { .. } | Fix::OtherTool { .. }) | None => false,
        }
    }

    fn with_words_replaced(&self, line: &str, from: &str, to: &str) -> Option<String> {
        let from: Vec<&str> = from.split_whitespace().collect();
        let to_words: Vec<&str> = to.split_whitespace().collect();
        let commands = simple_commands(line);
        let mut fitting = commands.iter().filter(|simple| {
            self.when.fits_simple(simple) && place_of(&simple.words, &to_words).is_none()
        });
        if from.is_empty() {
            let end = end_of_arguments(fitting.next()?)?;
            return Some(format!("{} {to}{}", &line[..end], &line[end..]));
        }
        let (simple, at) = fitting.find_map(|simple| {
            let own = simple.own_words();
            let at = place_of(&simple.words[own..], &from)?;
            Some((simple, at + own))
        })?;
        let start = simple.at[at];
        let last = at + from.len() - 1;
        let end = simple.at[last] + simple.words[last].len();
        let to = filled(to, &from, &simple.words[at..=last]);
        let rest = if to.is_empty() { line[end..].trim_start() } else { &line[end..] };
        Some(format!("{}{to}{rest}", &line[..start]).trim_end().to_owned())
    }

    fn with_prefix(&self, line: &str, with: &str) -> Option<String> {
        let commands = simple_commands(line);
        let simple = commands.iter().find(|simple| self.when.fits_simple(simple))?;
        let before = &line[..simple.start()];
        let is_there = before.contains(with.trim_end())
            || simple.words.starts_with(&with.split_whitespace().collect::<Vec<_>>());
        (!is_there).then(|| format!("{before}{with}{}", &line[simple.start()..]))
    }
}

impl Condition {
    /// Everything that is named of a call holds for this one.
    pub fn fits_call(&self, call: &ToolCall) -> bool {
        self.fits_read(&Read::new(call, &input_of(call)))
    }

    /// The same of a call that was read.
    pub(super) fn fits_read(&self, call: &Read<'_>) -> bool {
        let is_change = self.leads_to.is_some() && CHANGES.contains(&call.tool);
        let is_another = !self.tool.is_empty() && self.tool != call.tool && !is_change;
        if is_another || self.platform.as_deref().is_some_and(|os| os != std::env::consts::OS) {
            return false;
        }
        let fits_kind = self
            .file_kind
            .as_deref()
            .is_none_or(|kind| call.paths().any(|path| kind_of(path) == Some(kind)));
        let fits_path = self.path.as_deref().is_none_or(|own| {
            let is_below = |path: &str| own.ends_with('/') && path.starts_with(own);
            call.paths().any(|path| path == own || is_below(path))
        });
        let is_excepted = self
            .not_below
            .as_deref()
            .is_some_and(|folder| call.paths().any(|path| path.starts_with(folder)));
        let fits_argument = self.argument.as_ref().is_none_or(|argument| {
            let text = || call.input.get(argument).and_then(Value::as_str).unwrap_or_default();
            call.input.contains_key(argument)
                && self.holds.as_ref().is_none_or(|piece| text().contains(piece.as_str()))
        });
        let fits_head = || {
            self.command_head.is_none()
                || call.commands().iter().any(|simple| self.fits_simple(simple))
        };
        let fits_text = || self.puts_in.as_ref().is_none_or(|piece| call.puts_in(piece));
        fits_kind && fits_path && !is_excepted && fits_argument && fits_head() && fits_text()
    }

    /// The simple command begins with the words that are named.
    pub(super) fn fits_simple(&self, simple: &Simple<'_>) -> bool {
        let Some(head) = &self.command_head else { return true };
        let head: Vec<&str> = head.split_whitespace().collect();
        let program = simple.program();
        program.len() >= head.len()
            && head.iter().zip(program).all(|(head, word)| {
                *head == unquoted(word)
                    || (*head == ANY && is_task(word) && topics::is_akin(simple))
            })
    }
}

/// Where a command's arguments end in its line, before redirections and comments; `None` where what is put there
/// would be for another program (behind `--`).
fn end_of_arguments(simple: &Simple<'_>) -> Option<usize> {
    let is_redirection = |word: &str| {
        let word = word.trim_start_matches(|c: char| c.is_ascii_digit() || c == '&');
        word.starts_with(['>', '<'])
    };
    let is_argument = |word: &&&str| !is_redirection(word) && !word.starts_with('#');
    let arguments = simple.program();
    let n = arguments.iter().take_while(is_argument).count();
    let last = (simple.own_words() + n).checked_sub(1).filter(|_| n > 0)?;
    let is_for_another = arguments[..n].contains(&"--");
    (!is_for_another).then(|| simple.at[last] + simple.words[last].len())
}

/// Where these words stand in a row. Any one that is no option stands for [`ANY`], and a name also where it is a side
/// of a range (`master..HEAD`).
fn place_of(words: &[&str], wanted: &[&str]) -> Option<usize> {
    if wanted.is_empty() || words.len() < wanted.len() {
        return None;
    }
    let is_any = |word: &str, other: &str| other == ANY && !word.starts_with(['-', '>', '<']);
    let fits = |(word, other): (&&str, &&str)| {
        word == other || is_any(word, other) || (wanted.len() == 1 && is_side(word, other))
    };
    words.windows(wanted.len()).position(|window| window.iter().zip(wanted).all(fits))
}

/// One side of this range is that name.
fn is_side(range: &str, name: &str) -> bool {
    range.split_once("..").is_some_and(|(one, other)| {
        one == name || (!other.is_empty() && other.trim_start_matches('.') == name)
    })
}

/// The new words, with what stood there where they leave it open.
fn filled(to: &str, from: &[&str], stood: &[&str]) -> String {
    if let ([name], [word]) = (from, stood)
        && name != word
        && is_side(word, name)
    {
        let side = |one: &str| if one == *name { to.to_owned() } else { one.to_owned() };
        let dots = if word.contains("...") { "..." } else { ".." };
        let sides: Vec<String> = word.split(dots).map(side).collect();
        return sides.join(dots);
    }
    if !from.contains(&ANY) {
        return to.to_owned();
    }
    let mut open = from.iter().zip(stood).filter(|(word, _)| **word == ANY).map(|(_, word)| *word);
    let fill = |word: &str| if word == ANY { open.next() } else { None }.unwrap_or(word).to_owned();
    let words: Vec<String> = to.split_whitespace().map(fill).collect();
    words.join(" ")
}

/// The argument that names this path or something below it, and what it is with another beginning.
pub(super) fn moved(input: &Object, from: &str, to: &str) -> Option<(String, String)> {
    let path = plain_path(input.get("path")?.as_str()?);
    let rest = path.strip_prefix(from)?;
    (rest.is_empty() || rest.starts_with('/')).then(|| ("path".to_owned(), format!("{to}{rest}")))
}

/// The tools that change files.
pub(super) const CHANGES: [&str; 3] = ["Edit", "MultiEdit", "Write"];

/// The texts that a change of a file takes out and puts in; of one that writes it anew only what it puts in.
pub(super) fn replaced(input: &Object) -> Vec<(&str, &str)> {
    fn of(edit: &Object) -> Option<(&str, &str)> {
        Some((edit.get("old_string")?.as_str()?, edit.get("new_string")?.as_str()?))
    }
    let edits = input.get("edits").and_then(Value::as_array);
    let edits = edits.into_iter().flatten().filter_map(Value::as_object).filter_map(of);
    let content = input.get("content").and_then(Value::as_str).map(|content| ("", content));
    of(input).into_iter().chain(edits).chain(content).collect()
}

/// The lines that a change puts in and does not take out.
fn new_lines(input: &Object) -> Vec<&str> {
    let mut lines = Vec::new();
    for (old, new) in replaced(input) {
        let known: HashSet<&str> = old.lines().collect();
        lines.extend(new.lines().filter(|line| !known.contains(line)));
    }
    lines
}

/// A path without `./` in front.
pub(super) fn plain_path(path: &str) -> &str {
    path.strip_prefix("./").unwrap_or(path)
}

/// Names of files that say of which kind they are.
pub(super) const NAMED_KINDS: [&str; 12] = [
    "Makefile",
    "makefile",
    "GNUmakefile",
    "Dockerfile",
    "Containerfile",
    "Jenkinsfile",
    "Vagrantfile",
    "Procfile",
    "Rakefile",
    "Gemfile",
    "Justfile",
    "justfile",
];

/// The ending of a file's name, or the name that says it.
pub(super) fn kind_of(path: &str) -> Option<&str> {
    let name = path.rsplit('/').next()?;
    if NAMED_KINDS.contains(&name) {
        return Some(name);
    }
    let (stem, ending) = name.rsplit_once('.')?;
    (!stem.is_empty() && ending.len() <= 8).then_some(ending)
}

/// The arguments as an object; nothing where they are none.
pub(super) fn input_of(call: &ToolCall) -> Object {
    serde_json::from_str(&call.arguments).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blanks_of_what_is_put_in_stay() {
        let (from, to) = (["--short"], "--format \"%h  %s\"");
        assert_eq!(filled(to, &from, &["--short"]), to);
        assert_eq!(filled("main", &["master"], &["master..HEAD"]), "main..HEAD");
        assert_eq!(filled("a  * b", &["x", ANY], &["x", "y"]), "a y b");
    }
}
