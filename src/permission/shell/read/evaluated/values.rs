//! What the variables of a text may be worth, by what it gives to them.

use std::collections::HashSet;
use std::ops::Range;

use tree_sitter::Node;

use super::super::super::runs::SHELLS;
use super::outputs::{is_count, is_number, is_plain};
use super::said::{Said, printed, said};
use super::{
    OUTPUT, Source, apart, children, holes, is_name_char, names, program, unquoted, without,
    words_of,
};

/// Builtins that give a variable what they read, or what they are told.
const READING: &[&str] = &["read", "mapfile", "readarray", "getopts", "printf"];
/// Builtins that run a text in this shell.
const RUN_HERE: &[&str] = &["eval", "source", ".", "trap"];
/// Words without which such a text gives nothing to a variable.
const GIVING: &[&str] =
    &["=", "read", "mapfile", "getopts", "printf", "for", "select", "set", "declare", "typeset"];
/// Variables that are numbers to the shell, or texts that it expands: what they are given is evaluated.
pub(super) const TYPED: &[&str] = &["HISTCMD", "OPTIND", "PS4", "RANDOM", "SRANDOM"];
/// Variables that the shell sets to what a line or a file says. (So is each that begins with `BASH`, and the
/// arguments of a script or function.)
const SET_BY_SHELL: &[&str] =
    &["_", "PWD", "OLDPWD", "REPLY", "MAPFILE", "DIRSTACK", "OPTARG", "FUNCNAME", "COMP_WORDS"];
/// Variables that the shell sets to numbers.
const NUMBERS: &[&str] = &[
    "COLUMNS",
    "EPOCHSECONDS",
    "EUID",
    "LINENO",
    "LINES",
    "OPTIND",
    "PIPESTATUS",
    "PPID",
    "RANDOM",
    "SECONDS",
    "SHLVL",
    "SRANDOM",
    "UID",
];

/// The names that a text evaluates may be other than those that stand in it.
fn makes_names(text: &str) -> bool {
    let joins = |at: usize, sign: char| {
        let (before, behind) = (&text[..at], &text[at + sign.len_utf8()..]);
        match sign {
            '$' => before.ends_with(|c| is_name_char(c) || c == '}' || c == OUTPUT),
            OUTPUT => before.ends_with(is_name_char) || behind.starts_with(is_name_char),
            '}' => behind.starts_with(is_name_char),
            _ => false,
        }
    };
    let is_changed = |(at, _): (usize, &str)| {
        let name = text[at + 2..].trim_start_matches(['!', '#']);
        !name.trim_start_matches(is_name_char).starts_with(['}', '['])
    };
    text.char_indices().any(|(at, sign)| joins(at, sign))
        || text.match_indices("${").any(is_changed)
}

/// One of the arguments of the shell or of a function, or what the shell says of itself.
fn has_argument(text: &str) -> bool {
    text.match_indices('$').any(|(at, _)| {
        let name = text[at + 1..].trim_start_matches('{').trim_start_matches('!');
        name.starts_with(|char: char| char.is_ascii_digit() || "@*-".contains(char))
            // (The last one.)
            || text[at + 1..].starts_with("{!#}")
    })
}

/// What the arguments of the functions of a text may be.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Arguments {
    #[default]
    Numbers,
    /// Words that may be names of variables.
    Plain,
    Unknown,
}

/// What variables may be worth in a line.
#[derive(Default)]
pub(super) struct Values {
    pub(super) arguments: Arguments,
    /// Variables that get one of the arguments.
    passed: HashSet<String>,
    /// Variables that get another value than a number or a plain word.
    assigned: HashSet<String>,
    /// Variables that get a text with an index in which a command stands.
    live: HashSet<String>,
    /// Variables that are numbers, or names of others: what they get is evaluated.
    pub(super) typed: HashSet<String>,
    pub(super) arrays: HashSet<String>,
    /// Variables that `declare` gives what may be the text of an array.
    pub(super) declared: HashSet<String>,
    /// The texts that are evaluated.
    pub(super) evaluated: Vec<String>,
    /// Variables that get what the line does not show for what it is.
    pub(super) given: HashSet<String>,
    /// Variables that may be worth the name of another.
    named: HashSet<String>,
    /// Variables that the line sets to numbers.
    counted: HashSet<String>,
    /// There is no telling which variable is given something.
    pub(super) gives_any: bool,
    /// What the line itself gives to variables.
    pub(super) said: Said,
}

impl Values {
    pub(super) fn can_be_commands(&mut self) -> bool {
        let passed = std::mem::take(&mut self.passed);
        match self.arguments {
            Arguments::Numbers => self.counted.extend(passed),
            Arguments::Plain => self.named.extend(passed),
            Arguments::Unknown => self.given.extend(passed),
        }
        let gives = self.gives_any || self.said.can_be_command() || !self.given.is_empty();
        let is_typed = |name: &String| self.typed.contains(name) || TYPED.contains(&&**name);
        if self.given.iter().chain(&self.assigned).any(is_typed)
            || gives && self.named.iter().any(is_typed)
            || self.gives_any && !self.typed.is_empty()
            || self.declared.iter().any(|name| self.arrays.contains(name))
        {
            return true;
        }
        let has_arguments = match self.arguments {
            Arguments::Numbers => false,
            Arguments::Plain => gives,
            Arguments::Unknown => true,
        };
        self.evaluated.iter().any(|text| {
            has_arguments && has_argument(text)
                || gives && makes_names(text)
                || names(text).any(|name| {
                    let is_number = NUMBERS.contains(&name)
                        || name.starts_with(|char: char| char.is_ascii_digit());
                    // What others set can be the name of a variable: `USER=root`.
                    let is_outside =
                        !is_number && name.contains(|char: char| !char.is_ascii_lowercase());
                    is_set_by_shell(name)
                        || self.given.contains(name)
                        || self.live.contains(name)
                        || self.gives_any && !name.starts_with(|char: char| char.is_ascii_digit())
                        || gives
                            && (is_outside && !self.counted.contains(name)
                                || self.named.contains(name))
                })
        })
    }

    /// Something is evaluated that other texts may have set.
    pub(super) fn evaluate(&self) -> bool {
        let is_set_here = |name: &str| {
            self.counted.contains(name) && !self.named.contains(name) && !self.given.contains(name)
        };
        self.evaluated.iter().any(|text| {
            has_argument(text)
                || names(text).any(|name| {
                    !name.starts_with(|char: char| char.is_ascii_digit())
                        && !NUMBERS.contains(&name)
                        && !is_set_here(name)
                })
        })
    }

    /// The variables that a word puts in are evaluated, but not its own text.
    pub(super) fn put_in(&mut self, word: Node<'_>, source: &Source<'_>) {
        let mut open = vec![word];
        while let Some(node) = open.pop() {
            match node.kind() {
                "simple_expansion" | "expansion" => {
                    self.evaluated.push(unquoted(source.text[node.byte_range()].trim_start()));
                }
                "command_substitution" | "process_substitution" => {}
                _ => open.extend(children(node)),
            }
        }
    }

    /// What a call of a function makes its arguments.
    fn note_call(&mut self, node: Node<'_>, source: &Source<'_>) {
        for word in words_of(node, source.text).into_iter().skip(1) {
            self.said.add(said(word, source));
            let of = &source.text[word.byte_range()];
            let arguments = if is_number(word, source) || is_argument(of) {
                Arguments::Numbers
            } else if is_plain(word, source) {
                Arguments::Plain
            } else if apart(word, source).1 || unquoted(of).contains('[') || !of.contains('$') {
                Arguments::Unknown
            } else {
                self.put_in(word, source);
                Arguments::Plain
            };
            self.arguments = self.arguments.max(arguments);
        }
    }

    /// What `set` makes of the arguments, and of what follows.
    fn note_set(&mut self, node: Node<'_>, source: &Source<'_>) {
        let mut names_option = false;
        for word in words_of(node, source.text).into_iter().skip(1) {
            let of = unquoted(&source.text[word.byte_range()]);
            let letters = of.strip_prefix(['-', '+']).filter(|letters| !letters.is_empty());
            let is_harmless = match letters {
                Some(letters) => letters.chars().all(|letter| "euxvfo".contains(letter)),
                None => of == "pipefail",
            };
            if !is_harmless {
                self.said.add(said(word, source));
                self.arguments = Arguments::Unknown;
                // `-k` and `-o keyword` make assignments of what stands behind a command.
                self.gives_any |= names_option || letters.is_some_and(|letters| letters != "-");
            }
            names_option = letters.is_some_and(|letters| letters.ends_with('o'));
        }
    }

    /// What this node gives to variables.
    pub(super) fn note(&mut self, node: Node<'_>, source: &Source<'_>) {
        let text = source.text;
        let of = &text[node.byte_range()];
        match node.kind() {
            "for_statement" => {
                let Some(name) = node.child_by_field_name("variable") else { return };
                let name = text[name.byte_range()].to_owned();
                let values: Vec<Node<'_>> =
                    node.children_by_field_name("value", &mut node.walk()).collect();
                for word in &values {
                    self.said.add(said(*word, source));
                }
                let is_passed = |word: &Node<'_>| is_argument(&text[word.byte_range()]);
                if values.iter().all(is_passed) {
                    self.passed.insert(name);
                } else if !values.iter().all(|word| is_plain(*word, source)) {
                    self.given.insert(name);
                } else if values.iter().all(|word| is_number(*word, source)) {
                    self.counted.insert(name);
                } else {
                    self.named.insert(name);
                }
            }
            "expansion"
                if children(node).iter().any(|child| matches!(child.kind(), "=" | ":=")) =>
            {
                self.given.extend(names(of).next().map(ToOwned::to_owned));
            }
            "variable_assignment" => {
                let name = names(of).next().unwrap_or_default().to_owned();
                let value = node.child_by_field_name("value");
                self.said.add(said(node, source));
                let put_in = value.map(|value| without_commands(value, text)).unwrap_or_default();
                if has_argument(&put_in) {
                    self.passed.insert(name.clone());
                }
                if variables(&put_in).any(is_set_by_shell) {
                    self.given.insert(name.clone());
                }
                let is_number = value.is_none_or(|value| is_number(value, source));
                let is_declared =
                    node.parent().is_some_and(|parent| parent.kind() == "declaration_command");
                match value {
                    _ if is_number => {
                        self.counted.insert(name);
                    }
                    Some(value) if is_argument(&text[value.byte_range()]) => {}
                    Some(value) if is_declared && !is_plain(value, source) => {
                        self.given.insert(name);
                    }
                    Some(value) => {
                        if value.kind() == "array" {
                            self.arrays.insert(name.clone());
                        }
                        if of.contains('[') {
                            let (own, _) = apart(value, source);
                            if own.contains('[') && own.contains(['$', '`']) {
                                self.live.insert(name.clone());
                            }
                        }
                        if !is_plain(value, source) {
                            self.assigned.insert(name.clone());
                        }
                        self.named.insert(name);
                    }
                    None => {}
                }
            }
            "function_definition" => self.said.add(printed(node, source)),
            // Its arguments are numbers, or print something else.
            "command_substitution" if is_count(node, source) && of.starts_with("$(seq") => {
                self.evaluated.push(unquoted(&of[2..]));
            }
            "command" | "redirected_statement" => {
                let Some(program) = program(node, text) else { return };
                let is_unknown = program.contains(['$', '`', '*', '?', '{']);
                let is_passed = is_argument(&program);
                if is_unknown && !is_passed && !source.functions.is_empty() {
                    self.arguments = Arguments::Unknown;
                }
                if is_passed || source.functions.contains(&program) {
                    self.note_call(node, source);
                }
                if program == "set" {
                    self.note_set(node, source);
                }
                // Behind its text stand the arguments.
                if SHELLS.contains(&program.as_str()) {
                    let words = words_of(node, text).into_iter().skip_while(|word| {
                        let of = unquoted(&text[word.byte_range()]);
                        !(of.starts_with('-') && of.contains('c'))
                    });
                    for word in words.skip(2) {
                        self.said.add(said(word, source));
                    }
                }
                if RUN_HERE.contains(&program.as_str()) {
                    let gives = GIVING.iter().any(|word| of.contains(word))
                        || words_of(node, text).iter().any(|word| !holes(*word).is_empty());
                    self.gives_any |= gives || matches!(&*program, "." | "source");
                    self.arguments = Arguments::Unknown;
                }
                if !READING.contains(&program.as_str()) {
                    return;
                }
                let of = unquoted(of);
                // Its first word may be put in.
                let first = of.split_once("printf").map_or("", |(_, words)| words.trim_start());
                if program == "printf" && !of.contains("-v") && !first.starts_with(['$', '`']) {
                    return;
                }
                // A flag and its argument can be one word.
                for name in names(&of) {
                    let all = (0..name.len()).map(|at| name[at..].to_owned());
                    self.arrays.extend(all.clone());
                    self.given.extend(all);
                }
                self.gives_any |= of.contains(['$', '`', '{', '*', '?', '[']);
            }
            _ => {}
        }
    }
}

/// The shell sets it to what a line or a file says.
fn is_set_by_shell(name: &str) -> bool {
    SET_BY_SHELL.contains(&name) || name.starts_with("BASH")
}

/// The variables that are put into a text.
fn variables(text: &str) -> impl Iterator<Item = &str> {
    text.match_indices('$').map(|(at, _)| {
        let name = text[at + 1..].trim_start_matches(['{', '!', '#']);
        &name[..name.len() - name.trim_start_matches(is_name_char).len()]
    })
}

/// A word without what commands write there.
fn without_commands(node: Node<'_>, text: &str) -> String {
    let mut holes: Vec<Range<usize>> = Vec::new();
    let mut open = vec![node];
    while let Some(node) = open.pop() {
        match node.kind() {
            "command_substitution" | "process_substitution" => holes.push(node.byte_range()),
            _ => open.extend(children(node)),
        }
    }
    unquoted(&without(text, node.byte_range(), holes))
}

/// `$1`, `"$@"`, `${2:-5}`: what was passed to a function, or to the shell.
fn is_argument(of: &str) -> bool {
    let of = of.strip_prefix('"').and_then(|of| of.strip_suffix('"')).unwrap_or(of);
    let Some(name) = of.strip_prefix('$') else { return false };
    let (name, default) = match name.strip_prefix('{').and_then(|name| name.strip_suffix('}')) {
        Some(name) => name.split_once(":-").unwrap_or((name, "")),
        None => (name, ""),
    };
    default.chars().all(|char| char.is_ascii_digit())
        && (matches!(name, "@" | "*")
            || !name.is_empty() && name.chars().all(|char| char.is_ascii_digit()))
}
