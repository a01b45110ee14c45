//! The computed conditions of the command table: the `when` of a rule.

use serde::Deserialize;

use super::command::Command;
use super::{JudgeContext, PathKind};
use super::{find, targets};
use crate::shell::{Word, WordKind, directory};

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Condition {
    NoInput,
    NoArgumentsAndNoInput,
    NoOperands,
    /// The output goes to no pipe.
    NoReader,
    /// No `timeout` ends the command.
    NotLimited,
    /// The line sets no editor that exits without interaction.
    OpensEditor,
    /// An operand is a host or URL other than localhost.
    RemoteHost,
    /// An operand is `host:path`.
    RemotePath,
    /// The repository is a URL, not a path.
    RemoteRepository,
    /// A refspec with `+` or without a source: `+main`, `:main`.
    ForcedRefspec,
    /// `npx` of a program that the project has not installed.
    NotInstalled,
    PipInstall,
    /// `git config` with a value, or with an option that changes the configuration.
    SetsConfiguration,
    /// The command deletes the root, the home, the project or its `.git`.
    ProtectedTarget,
    /// The command deletes a path that no checkpoint covers and that is not build output.
    UncoveredTarget,
    /// A git command deletes or replaces a file whose content neither a checkpoint nor git has.
    DiscardsUnsaved,
    /// `git clean` with two `-f`: also repositories in the project are deleted.
    ForcedTwice,
    /// `find` with an action that deletes.
    Deletes,
    /// `dd` with an output file.
    WritesOutput,
    /// The script of `sed` or `awk` only prints.
    PrintsOnly,
}

impl Condition {
    pub(super) fn holds(
        self,
        command: &Command,
        n_words: usize,
        context: &JudgeContext<'_>,
    ) -> bool {
        match self {
            Self::NoInput => !command.has_input,
            Self::NoArgumentsAndNoInput => command.arguments().is_empty() && !command.has_input,
            Self::NoOperands => command.operands().len() == 0,
            Self::NoReader => !command.writes_pipe,
            Self::NotLimited => !command.has_timeout,
            Self::OpensEditor => {
                !["EDITOR=", "editor="].iter().any(|set| context.text.contains(set))
            }
            Self::RemoteHost => is_remote(command),
            Self::RemotePath => command.operands().any(|word| {
                let host = word.text.split('/').next().unwrap_or_default();
                host.contains(':')
            }),
            Self::RemoteRepository => {
                !command.operands().nth(n_words).is_some_and(|word| is_path(word, command, context))
            }
            Self::ForcedRefspec => {
                command.operands().skip(n_words + 1).any(|word| word.text.starts_with(['+', ':']))
            }
            Self::NotInstalled => command.operands().next().is_none_or(|word| {
                let name = word.text.split('@').next().unwrap_or_default();
                let path = Word::literal(format!("node_modules/.bin/{name}"));
                context.word_path_kind(&path, command) == Some(PathKind::Missing) || name.is_empty()
            }),
            Self::PipInstall => {
                let mut operands = command.operands().map(Word::literal_text);
                operands.next() == Some(Some("pip"))
                    && matches!(operands.next(), Some(Some("install" | "download")))
            }
            Self::SetsConfiguration => sets_configuration(command, n_words),
            Self::ProtectedTarget => targets::is_protected(command, context),
            Self::UncoveredTarget => targets::is_uncovered(command, context),
            Self::DiscardsUnsaved => targets::discards_unsaved(command, context),
            Self::ForcedTwice => {
                let letters = |text: &str| match text.strip_prefix('-') {
                    Some("-force") => 1,
                    Some(letters) if !letters.starts_with('-') => letters.matches('f').count(),
                    _ => 0,
                };
                command.arguments().iter().map(|word| letters(&word.text)).sum::<usize>() > 1
            }
            Self::Deletes => find::deletes(command.arguments()),
            Self::WritesOutput => command
                .arguments()
                .iter()
                .any(|word| word.text.starts_with("of=") && word.text != "of=/dev/null"),
            Self::PrintsOnly => prints_only(command),
        }
    }
}

/// An unknown host counts as remote.
fn is_remote(command: &Command) -> bool {
    // Options that name remote hosts.
    let options: &[&str] = match command.name() {
        "curl" => &["-x", "--proxy", "-K", "--config", "--connect-to", "--resolve"],
        "wget" => &["-i", "--input-file", "-e", "--execute"],
        _ => &[],
    };
    if options.iter().any(|option| command.has_option(option)) {
        return true;
    }
    // The port of `nc` is not a host.
    let is_number = |word: &&Word| word.text.bytes().all(|byte| byte.is_ascii_digit());
    let mut hosts = command.operands().filter(|word| !is_number(word)).peekable();
    match hosts.peek() {
        None => !command.has_option("-l"),
        Some(_) => hosts.any(|word| !is_localhost(&word.text)),
    }
}

/// `text` is a host, `host:port` or URL.
fn is_localhost(text: &str) -> bool {
    let rest = text.split_once("://").map_or(text, |(_, rest)| rest);
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = match host.strip_prefix('[') {
        Some(address) => address.split(']').next().unwrap_or_default(),
        None if host == "::1" => host,
        None => host.split(':').next().unwrap_or_default(),
    };
    matches!(host, "localhost" | "::1" | "0.0.0.0")
        || host
            .strip_prefix("127.")
            .is_some_and(|rest| rest.split('.').all(|part| part.parse::<u8>().is_ok()))
}

fn is_path(word: &Word, command: &Command, context: &JudgeContext<'_>) -> bool {
    let text = word.text.as_str();
    // A variable before a slash may hold an address: the command then fails without the network.
    text.starts_with(['.', '/', '~'])
        || text.starts_with("file://")
        || text.starts_with('$') && text.contains('/') && !text.contains(':')
        || !text.contains(':')
            && matches!(context.word_path_kind(word, command), Some(kind) if kind != PathKind::Missing)
}

fn sets_configuration(command: &Command, n_words: usize) -> bool {
    const CHANGES: &[&str] = &[
        "--add",
        "--unset",
        "--unset-all",
        "--replace-all",
        "--edit",
        "-e",
        "--rename-section",
        "--remove-section",
    ];
    let mut operands = command.operands().skip(n_words);
    match operands.next().map(|word| word.text.as_str()) {
        Some("get" | "list" | "get-color") => false,
        Some("set" | "unset" | "edit" | "rename-section" | "remove-section") => true,
        _ => operands.next().is_some() || CHANGES.iter().any(|option| command.has_option(option)),
    }
}

fn prints_only(command: &Command) -> bool {
    let is_sed = command.name() == "sed";
    let mut scripts: Vec<Word> = Vec::new();
    let mut arguments = command.arguments().iter();
    while let Some(word) = arguments.next() {
        let text = word.text.as_str();
        if let Some(long) = text.strip_prefix("--") {
            match long.split_once('=') {
                Some((name, script)) if is_sed && "expression".starts_with(name) => {
                    scripts.push(Word { text: script.to_owned(), kind: word.kind });
                }
                None if is_sed && long == "expression" => scripts.extend(arguments.next().cloned()),
                _ if ["in-place", "file", "include"].iter().any(|own| own.starts_with(long)) => {
                    return false;
                }
                Some((name, _)) if "in-place".starts_with(name) || "file".starts_with(name) => {
                    return false;
                }
                _ => {}
            }
        } else if let Some(letters) = text.strip_prefix('-') {
            if letters.contains(['i', 'f']) && !letters.starts_with(['F', 'v']) {
                return false;
            }
            if is_sed && letters.ends_with('e') {
                scripts.extend(arguments.next().cloned());
            }
        }
    }
    if scripts.is_empty() {
        scripts.extend(command.operands().next().cloned());
    }
    let is_harmless = |script: &str| {
        if is_sed { sed_only_prints(script) } else { awk_only_prints(script) }
    };
    !scripts.is_empty()
        && scripts.iter().all(|script| {
            matches!(script.kind, WordKind::Literal | WordKind::Quoted) && is_harmless(&script.text)
        })
}

fn awk_only_prints(script: &str) -> bool {
    let alone = script.replace("||", "");
    let redirects =
        |statement: &str| statement.find("print").is_some_and(|at| statement[at..].contains('>'));
    !alone.contains('|')
        && !["system", "getline", "@include", "@load"].iter().any(|word| script.contains(word))
        && !script.split([';', '}', '\n']).any(redirects)
}

fn sed_only_prints(script: &str) -> bool {
    let mut rest = script;
    loop {
        rest = rest.trim_start_matches([' ', '\t', '\n', ';', '{', '}']);
        rest = skip_sed_addresses(rest);
        let Some(command) = rest.chars().next() else { return true };
        rest = &rest[command.len_utf8()..];
        match command {
            'p' | 'd' | 'D' | 'P' | 'q' | 'Q' | '=' | 'n' | 'N' | 'g' | 'G' | 'h' | 'H' | 'x'
            | 'l' | 'z' | '{' => {
                rest = rest.trim_start_matches(|char: char| char.is_ascii_digit());
            }
            's' | 'y' => {
                let Some(delimiter) = rest.chars().next() else { return false };
                rest = &rest[delimiter.len_utf8()..];
                for _ in 0..2 {
                    let Some(remaining) = after_delimiter(rest, delimiter) else { return false };
                    rest = remaining;
                }
                let flags = rest.len()
                    - rest.trim_start_matches(|char: char| !matches!(char, ';' | '}' | '\n')).len();
                let is_plain = |char: char| "gpIiMm0123456789 \t".contains(char);
                if !rest[..flags].chars().all(is_plain) {
                    return false;
                }
                rest = &rest[flags..];
            }
            'b' | 't' | 'T' | ':' | '#' => {
                rest = rest.trim_start_matches(|char: char| !matches!(char, ';' | '}' | '\n'));
            }
            'a' | 'i' | 'c' => rest = rest.split_once('\n').map_or("", |(_, rest)| rest),
            _ => return false,
        }
    }
}

fn skip_sed_addresses(mut rest: &str) -> &str {
    loop {
        let before = rest.len();
        rest = rest.trim_start_matches(|char: char| {
            char.is_ascii_digit() || matches!(char, '$' | ',' | '~' | '+' | '!' | ' ' | 'I' | 'M')
        });
        let pattern = rest.strip_prefix('/').map(|rest| (rest, '/')).or_else(|| {
            let rest = rest.strip_prefix('\\')?;
            let delimiter = rest.chars().next()?;
            Some((&rest[delimiter.len_utf8()..], delimiter))
        });
        if let Some((pattern, delimiter)) = pattern {
            rest = after_delimiter(pattern, delimiter).unwrap_or_default();
        }
        if rest.len() == before {
            return rest;
        }
    }
}

/// The delimiter is neither escaped nor in brackets.
fn after_delimiter(text: &str, delimiter: char) -> Option<&str> {
    let mut chars = text.char_indices();
    let mut is_bracket = false;
    while let Some((at, char)) = chars.next() {
        match char {
            '\\' => _ = chars.next(),
            '[' if delimiter != '[' => is_bracket = text[at..].contains(']'),
            ']' => is_bracket = false,
            _ if char == delimiter && !is_bracket => return Some(&text[at + char.len_utf8()..]),
            _ => {}
        }
    }
    None
}

impl JudgeContext<'_> {
    pub(super) fn word_path_kind(&self, word: &Word, command: &Command) -> Option<PathKind> {
        let path = directory::resolve_word(command.directory.as_deref(), word)?;
        Some(self.path_kind(&path))
    }

    pub(super) fn path_kind(&self, path: &str) -> PathKind {
        self.facts.kind(&directory::join(self.directory, path))
    }

    /// False for build output.
    pub(super) fn is_uncovered(&self, path: &str) -> bool {
        matches!(self.path_kind(path), PathKind::Uncovered | PathKind::Outside)
    }
}
