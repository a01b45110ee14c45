//! Lists every command that a line may run: its simple commands, and those run by `env`, `xargs`,
//! `sh -c`, `find -exec` and so on.

use super::table::{Wrapper, table};
use crate::shell::{
    Redirect, RedirectKind, Script, SimpleCommand, Word, WordKind, directory, is_assignment,
};

const MAX_DEPTH: usize = 8;
const MAX_COMMANDS: usize = 10_000;

#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts about its surroundings")]
pub(crate) struct Command {
    program: String,
    /// The first one is the bare name of the program.
    pub(crate) words: Vec<Word>,
    pub(crate) assignments: Vec<Word>,
    redirects: Vec<Redirect>,
    pub(crate) has_input: bool,
    pub(super) writes_pipe: bool,
    pub(super) has_timeout: bool,
    /// `None`: not known.
    pub(crate) directory: Option<String>,
    pub(crate) simple_index: usize,
    pub(crate) is_wrapper: bool,
    /// Indexes into `words`.
    operands: Vec<usize>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Commands {
    pub(crate) all: Vec<Command>,
    /// The line, and every text in it that is executed, was parsed completely.
    pub(crate) is_fully_parsed: bool,
    pub(crate) is_too_long: bool,
}

impl Commands {
    pub(crate) fn from_script(script: &Script) -> Self {
        let mut commands = Self { is_fully_parsed: true, ..Self::default() };
        commands.add_script(script, None, MAX_DEPTH);
        commands
    }

    fn add_script(&mut self, script: &Script, by: Option<&Command>, depth: usize) {
        self.is_fully_parsed &= script.is_fully_parsed;
        self.is_too_long |= script.is_too_long;
        for (n, simple) in script.commands.iter().enumerate() {
            let mut command = Command::from_simple_command(simple, n);
            if let Some(by) = by {
                command.simple_index = by.simple_index;
                command.has_input |= by.has_input;
                command.writes_pipe |= by.writes_pipe;
                command.has_timeout |= by.has_timeout;
            }
            self.add_command(command, depth);
        }
    }

    fn add_command(&mut self, mut command: Command, depth: usize) {
        if self.all.len() >= MAX_COMMANDS {
            self.is_too_long = true;
            return;
        }
        let Some(depth) = depth.checked_sub(1) else {
            self.is_too_long = true;
            return;
        };
        command.normalise();
        self.is_fully_parsed &= !command.hides_command();
        let at = self.all.len();
        self.all.push(command.clone());
        if matches!(command.name(), "find" | "fd" | "fdfind") {
            return self.add_find_commands(&command, depth);
        }
        let Some(wrapper) = table().wrapper(&command) else { return };
        let is_followed = match &wrapper.text {
            Some(place) => self.add_executed_text(&command, wrapper, place, depth),
            None => self.add_wrapped_command(&command, wrapper, depth),
        };
        // A name that `uv run` or `npm exec` resolves may be a program of the project.
        self.all[at].is_wrapper = is_followed && wrapper.n_words(&command) == 0;
    }

    fn add_wrapped_command(&mut self, command: &Command, wrapper: &Wrapper, depth: usize) -> bool {
        let start = wrapper.command_at(command);
        let mut words = command.words[start.min(command.words.len())..].to_vec();
        let mut assignments = Vec::new();
        if wrapper.assignments {
            let n = words.iter().take_while(|word| is_assignment(&word.text)).count();
            assignments = words.drain(..n).collect();
        }
        if words.is_empty() {
            return false;
        }
        if wrapper.appends {
            words.push(Word { text: "{}".to_owned(), kind: WordKind::Output });
        }
        let own = &command.words[1..start.min(command.words.len())];
        let mut directory = command.directory.clone();
        // The last option counts, relative to where the wrapper runs.
        let is_moved =
            |at: &usize| wrapper.directory.iter().any(|name| may_be_option(&own[*at].text, name));
        if let Some(at) = (0..own.len()).rfind(is_moved) {
            let place =
                wrapper.directory.iter().find_map(|option| option_value(&own[at..], option));
            directory = place.and_then(|to| directory::resolve_word(directory.as_deref(), &to));
        }
        let inner = Command {
            words,
            assignments,
            directory,
            has_timeout: command.has_timeout || command.name() == "timeout",
            ..command.clone()
        };
        self.add_command(inner, depth);
        true
    }

    fn add_executed_text(
        &mut self,
        command: &Command,
        wrapper: &Wrapper,
        place: &str,
        depth: usize,
    ) -> bool {
        let n_words = wrapper.n_words(command);
        let joined = |words: &[Word]| {
            let kind = words.iter().map(|word| word.kind).max().unwrap_or_default();
            let text = words.iter().map(|word| word.text.as_str()).collect::<Vec<_>>().join(" ");
            (!words.is_empty()).then_some(Word { text, kind })
        };
        let text = match place {
            "joined" => {
                let start = n_words.checked_sub(1).and_then(|n| command.operands.get(n));
                joined(&command.words[start.map_or(1, |at| at + 1)..])
            }
            "first" => command.operands().next().cloned(),
            option if command.has_option(option) => {
                let is_option = |word: &Word| {
                    word.text.starts_with('-') && Command::is_option(&word.text, option)
                };
                let at = command.words.iter().position(is_option);
                let rest = at.map_or(&[][..], |at| &command.words[at + 1..]);
                rest.iter().find(|word| !word.text.starts_with(['-', '+'])).cloned()
            }
            _ if command.operands.is_empty() => command.input_text().cloned(),
            _ => None,
        };
        match text.as_ref().map(Word::literal_text) {
            Some(Some(text)) => {
                let script =
                    Script::parse_nested(text, command.directory.clone(), MAX_DEPTH * depth);
                // The text that the command executes does not count.
                let has_input = command.has_input && command.input_text().is_none();
                let by = Command { has_input, ..command.clone() };
                self.add_script(&script, Some(&by), depth);
                true
            }
            Some(None) => {
                self.is_fully_parsed = false;
                false
            }
            None => false,
        }
    }

    /// For `find -exec … ;` and `fd -x …`.
    fn add_find_commands(&mut self, command: &Command, depth: usize) {
        let is_find = command.name() == "find";
        let runs = |word: &Word| match word.text.as_str() {
            "-exec" | "-execdir" | "-ok" | "-okdir" => is_find,
            "-x" | "-X" | "--exec" | "--exec-batch" => !is_find,
            _ => false,
        };
        let mut rest = command.arguments();
        while let Some(at) = rest.iter().position(runs) {
            let is_elsewhere = matches!(rest[at].text.as_str(), "-execdir" | "-okdir");
            rest = &rest[at + 1..];
            let is_end = |word: &Word| matches!(word.text.as_str(), ";" | "+");
            let end = rest.iter().position(is_end).unwrap_or(rest.len());
            let unknown = |word: &Word| {
                let is_unknown = word.text.contains("{}");
                let kind = if is_unknown { WordKind::Output } else { word.kind };
                Word { text: word.text.clone(), kind }
            };
            let words: Vec<Word> = rest[..end].iter().map(unknown).collect();
            rest = &rest[end..];
            if !words.is_empty() {
                let directory = command.directory.clone().filter(|_| !is_elsewhere);
                let inner =
                    Command { words, assignments: Vec::new(), directory, ..command.clone() };
                self.add_command(inner, depth);
            }
        }
    }
}

/// The value is the next word, or the rest of the first (`-Cweb`, `--chdir=web`).
pub(super) fn option_value(words: &[Word], option: &str) -> Option<Word> {
    let (first, others) = words.split_first()?;
    match first.text.strip_prefix(option)? {
        "" => others.first().cloned(),
        rest if option.starts_with("--") => {
            Some(Word { text: rest.strip_prefix('=')?.to_owned(), ..first.clone() })
        }
        rest => Some(Word { text: rest.to_owned(), ..first.clone() }),
    }
}

fn may_be_option(word: &str, option: &str) -> bool {
    match (word.strip_prefix("--"), option.strip_prefix("--")) {
        (Some(word), Some(long)) => {
            let name = word.split('=').next().unwrap_or(word);
            !name.is_empty() && long.starts_with(name)
        }
        (None, None) => word.starts_with('-') && word.contains(option.trim_start_matches('-')),
        _ => false,
    }
}

impl Wrapper {
    fn command_at(&self, command: &Command) -> usize {
        let n_own = self.operands + self.n_words(command);
        let mut n_operands = 0;
        let mut at = 1;
        while let Some(word) = command.words.get(at) {
            match word.text.as_str() {
                "--" => return at + 1,
                text if text.len() > 1 && text.starts_with('-') => {
                    at += usize::from(self.values.iter().any(|option| option == text));
                }
                _ if n_operands == n_own => return at,
                _ => n_operands += 1,
            }
            at += 1;
        }
        at
    }
}

impl Command {
    fn from_simple_command(simple: &SimpleCommand, n: usize) -> Self {
        Self {
            program: String::new(),
            words: simple.words.clone(),
            assignments: simple.assignments.clone(),
            redirects: simple.redirects.clone(),
            has_input: simple.reads_pipe
                || simple.redirects.iter().any(|to| {
                    matches!(to.kind, RedirectKind::Read | RedirectKind::Text)
                        && to.descriptor.is_none_or(|n| n == 0)
                }),
            writes_pipe: simple.writes_pipe,
            has_timeout: false,
            directory: simple.directory.clone(),
            simple_index: n,
            is_wrapper: false,
            operands: Vec::new(),
        }
    }

    fn normalise(&mut self) {
        let Some(program) = self.words.first_mut() else { return };
        self.program.clone_from(&program.text);
        if let Some((_, name)) = program.text.rsplit_once('/').filter(|(_, name)| !name.is_empty())
        {
            program.text = name.to_owned();
        }
        // `python3.12`
        if let Some((name, version)) = program.text.split_once('.')
            && name.ends_with(|char: char| char.is_ascii_digit())
            && version.bytes().all(|byte| byte.is_ascii_digit())
        {
            program.text = name.to_owned();
        }
        let mut values = table().value_options(&self.words[0].text).to_vec();
        self.operands.clear();
        let (mut takes_value, mut is_option_end) = (false, false);
        for (at, word) in self.words.iter().enumerate().skip(1) {
            if std::mem::take(&mut takes_value) {
                continue;
            }
            match word.text.as_str() {
                "--" if !is_option_end => is_option_end = true,
                text if text.len() > 1 && text.starts_with('-') && !is_option_end => {
                    // The last letter of a cluster may take a value: `curl -so FILE`.
                    let last = text.chars().next_back().map(|letter| format!("-{letter}"));
                    let is_cluster = text[1..].bytes().all(|byte| byte.is_ascii_alphabetic());
                    let is_given = |option: &String| {
                        option == text || is_cluster && last.as_ref() == Some(option)
                    };
                    takes_value = values.iter().any(is_given);
                }
                text => {
                    if self.operands.is_empty() {
                        let subcommand = format!("{} {text}", self.words[0].text);
                        values.extend_from_slice(table().value_options(&subcommand));
                    }
                    self.operands.push(at);
                }
            }
        }
    }

    /// Empty if the name is not known.
    pub(crate) fn name(&self) -> &str {
        self.words.first().and_then(Word::literal_text).unwrap_or_default()
    }

    /// For example `cargo test`; `None` if the words are not literal.
    pub(crate) fn program_and_operand(&self) -> Option<String> {
        let name = self.words.first()?.literal_text().filter(|name| !name.is_empty())?;
        let mut arguments = self.arguments().iter().map_while(Word::literal_text);
        let first = arguments.find(|word| !word.starts_with('-') && !word.is_empty());
        Some(first.map_or_else(|| name.to_owned(), |first| format!("{name} {first}")))
    }

    pub(crate) fn source_words(&self) -> Vec<String> {
        let assignments = self.assignments.iter().map(|word| word.text.clone());
        let program = self.words.first().map(|_| self.program.clone());
        let arguments = self.arguments().iter().map(|word| word.text.clone());
        assignments.chain(program).chain(arguments).collect()
    }

    /// Whether a rule that denies or asks may skip the word: an option, or the value of one.
    pub(crate) fn is_option_at(&self, at: usize) -> bool {
        at > 0 && !self.operands.contains(&at)
    }

    pub(crate) fn arguments(&self) -> &[Word] {
        self.words.get(1..).unwrap_or_default()
    }

    pub(crate) fn operands(&self) -> impl ExactSizeIterator<Item = &Word> {
        self.operands.iter().map(|at| &self.words[*at])
    }

    /// The number of leading operands that match one of these sequences.
    pub(super) fn begins_with(&self, sequences: &[String]) -> Option<usize> {
        if sequences.is_empty() {
            return Some(0);
        }
        let fits = |sequence: &String| {
            let parts = sequence.split(' ').map(Some);
            let n = parts.clone().count();
            let leading = self.operands().take(n).map(Word::literal_text);
            (self.operands.len() >= n && leading.eq(parts)).then_some(n)
        };
        sequences.iter().filter_map(fits).max()
    }

    /// The option may be in a cluster of letters, abbreviated or with a value.
    pub(super) fn has_option(&self, option: &str) -> bool {
        self.arguments().iter().any(|word| Self::is_option(&word.text, option))
    }

    fn is_option(word: &str, option: &str) -> bool {
        if word == option {
            return true;
        }
        if let Some(long) = option.strip_prefix("--").filter(|long| !long.is_empty()) {
            let Some(given) = word.strip_prefix("--") else { return false };
            let given = given.split('=').next().unwrap_or(given);
            return given == long || given.len() >= 3 && long.starts_with(given);
        }
        let Some(letter) = option.strip_prefix('-').filter(|letter| letter.len() == 1) else {
            return false;
        };
        // `-rf`; not for programs whose options are words (`find -name`).
        let is_cluster = |letters: &str| {
            letters.len() <= 5
                && letters.bytes().all(|byte| byte.is_ascii_alphabetic())
                && letters.contains(letter)
        };
        word.strip_prefix('-').is_some_and(is_cluster)
    }

    /// Like [`Self::has_option`], also with an attached value: `-Oless`, `-am"a message"`.
    pub(super) fn may_have_option(&self, option: &str) -> bool {
        let letter = option.strip_prefix('-').filter(|letter| letter.len() == 1 && *letter != "-");
        let holds = |word: &Word| {
            let letters = word.text.strip_prefix('-').filter(|letters| !letters.starts_with('-'));
            let first = letters.map(|letters| letters.chars().take(3).collect::<String>());
            letter.zip(first).is_some_and(|(letter, first)| first.contains(letter))
        };
        self.has_option(option) || self.arguments().iter().any(holds)
    }

    /// A program without a path counts as one.
    pub(crate) fn is_system_program(&self) -> bool {
        const SYSTEM: &[&str] = &["/bin", "/usr/bin", "/usr/local/bin"];
        self.program.rsplit_once('/').is_none_or(|(directory, _)| SYSTEM.contains(&directory))
    }

    /// Whether its redirections are between descriptors, of literal text, or to a harmless device.
    pub(crate) fn opens_no_file(&self) -> bool {
        !self.writes_file()
            && self.redirects.iter().all(|redirect| match redirect.kind {
                RedirectKind::Read => redirect.target.literal_text() == Some("/dev/null"),
                RedirectKind::Text => redirect.target.is_literal(),
                RedirectKind::Write | RedirectKind::Copy => true,
            })
    }

    /// An argument of a builtin that evaluates names, such as `printf -v 'a[$(x)]'`: bash executes what is in the subscript.
    fn hides_command(&self) -> bool {
        const EVALUATES: &[&str] = &[
            "printf",
            "test",
            "[",
            "read",
            "declare",
            "typeset",
            "local",
            "export",
            "readonly",
            "unset",
            "let",
            "mapfile",
            "readarray",
            "wait",
            "getopts",
        ];
        let hides = |word: &Word| {
            word.text.contains('[') && ["$(", "`", "${"].iter().any(|open| word.text.contains(open))
        };
        EVALUATES.contains(&self.name()) && self.arguments().iter().any(hides)
            || self.assignments.iter().any(|word| word.is_literal() && hides(word))
    }

    pub(crate) fn writes_file(&self) -> bool {
        self.redirects.iter().any(Redirect::writes_file)
    }

    /// The text of a here-document or here-string.
    fn input_text(&self) -> Option<&Word> {
        let texts = self.redirects.iter().rev().filter(|to| to.kind == RedirectKind::Text);
        texts.map(|to| &to.target).next()
    }
}
