//! Commands that stand in a text which bash reads once more, and the grammar does not.
//!
//! In `${x:-…}` the grammar takes backquotes for a word. Where a number is wanted (`$((…))`, `((…))`, an index,
//! `${x:…}`, `[[ … -eq … ]]`) bash reads the *value* of each variable, of which `a[$(command)]` runs one, and `b` is
//! the value of `b`; so do `${!x}` and `-v`, and `${x@P}` any value. What stands there is let through where every value
//! is a number, or comes from outside the line.
//!
//! The same holds for the *name* that a builtin takes (`read 'a[$(command)]'`, `unset`, `declare`, `printf -v`, `wait -p`),
//! and for what is given to a variable that was declared to be a number or a name of another, or, by `declare`, an
//! array. `test` takes for an operator what stands where one may stand, wherever it came from.

use std::borrow::Cow;
use std::collections::HashSet;
use std::ops::Range;

use tree_sitter::Node;

use super::super::runs::SHELLS;
use super::super::word;
use super::{children, holes};

/// Operators of `[[` that read their operands as numbers or names. (They stand there unquoted.)
const EVALUATING: &[&str] = &["-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-v"];
/// Builtins that give a variable what they read, or what they are told.
const READING: &[&str] = &["read", "mapfile", "readarray", "getopts", "printf"];
/// Builtins that take names of variables, of which they evaluate the index. (So do those that declare.)
const NAMING: &[&str] = &["wait", "read", "mapfile", "readarray", "getopts", "printf"];
/// Builtins that give variables a kind. (The grammar has a node for them, but not behind `builtin`.)
const DECLARING: &[&str] = &["declare", "typeset", "local", "readonly", "export", "unset"];
/// Builtins that run a text in this shell.
const RUN_HERE: &[&str] = &["eval", "source", ".", "trap"];
/// Words without which such a text gives nothing to a variable.
const GIVING: &[&str] =
    &["=", "read", "mapfile", "getopts", "printf", "for", "select", "set", "declare", "typeset"];
/// Variables that are numbers to the shell, or texts that it expands: what they are given is evaluated.
const TYPED: &[&str] = &["HISTCMD", "OPTIND", "PS4", "RANDOM", "SRANDOM"];
/// Operators of `test` between two words.
const BETWEEN: &[&str] =
    &["=", "==", "!=", "<", ">", "-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-nt", "-ot", "-ef"];
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
/// Programs whose output is known to be a number or one word.
const KNOWN_OUTPUT: &[&str] = &[
    "arch", "date", "git", "grep", "hostname", "id", "jobs", "nproc", "seq", "stat", "uname", "wc",
    "whoami",
];
/// What stands for the output of a command in a text.
const OUTPUT: char = '\u{1}';

/// More of what is evaluated is not looked at. (Parts of it stand in others.)
const MOST_EVALUATED: usize = 1024 * 1024;

/// A text, and what holds for all of it.
struct Source<'a> {
    text: &'a str,
    /// The names of commands may stand for others.
    is_redefined: bool,
    /// How often it looks as if a function was made.
    n_function_signs: usize,
    /// The keys of an array may be any text.
    has_keys: bool,
    /// `{name[` stands in it.
    has_braced_index: bool,
    /// Its functions.
    functions: HashSet<String>,
}

impl<'a> Source<'a> {
    fn new(text: &'a str) -> Self {
        let all = unquoted(text);
        let mut dense = all.clone();
        dense.retain(|char| !char.is_ascii_whitespace());
        let is_braced_index = |(at, _): (usize, &str)| {
            let behind = dense[at + 1..].trim_start_matches(is_name_char);
            behind.starts_with('[') && !dense[..at].ends_with('$')
        };
        Self {
            text,
            is_redefined: ["alias", "hash", "enable", "PATH"]
                .iter()
                .any(|sign| dense.contains(sign)),
            n_function_signs: ["()", "function"]
                .iter()
                .map(|sign| dense.matches(sign).count())
                .sum(),
            has_keys: ["declare", "typeset", "local", "readonly"]
                .iter()
                .any(|word| all.contains(word)),
            has_braced_index: dense.match_indices('{').any(is_braced_index),
            functions: HashSet::new(),
        }
    }

    /// Finds the functions, where there may be any.
    fn find_functions(&mut self, root: Node<'_>) {
        let mut open = if self.n_function_signs > 0 { vec![root] } else { Vec::new() };
        let mut n_found = 0;
        while let Some(node) = open.pop() {
            if node.kind() == "function_definition"
                && let Some(name) = node.child_by_field_name("name")
            {
                n_found += 1;
                self.functions.insert(self.text[name.byte_range()].to_owned());
            }
            open.extend(children(node));
        }
        // What was not found may be made by a text that is run.
        self.is_redefined |= n_found < self.n_function_signs
            || KNOWN_OUTPUT.iter().any(|name| self.functions.contains(*name));
    }
}

/// What a text evaluates, and what it gives others to evaluate.
#[derive(Clone, Copy, Default)]
pub(super) struct Evaluation {
    /// What bash may run here does not all stand in the tree.
    pub(super) hides_commands: bool,
    /// The values of variables are evaluated, of some that are not certain to be numbers.
    pub(super) evaluates: bool,
    /// A text that it gives to a variable could run a command where it is evaluated.
    pub(super) gives_text: bool,
}

/// Looks at a text, which may be given arguments. (A line is given none.)
pub(super) fn evaluation(root: Node<'_>, text: &str, gets_arguments: bool) -> Evaluation {
    let mut values = Values::default();
    if hides_commands(root, text, gets_arguments, &mut values) {
        return Evaluation { hides_commands: true, ..Evaluation::default() };
    }
    Evaluation {
        hides_commands: false,
        evaluates: values.evaluate(),
        gives_text: values.said.can_be_command(),
    }
}

fn hides_commands(
    root: Node<'_>,
    text: &str,
    gets_arguments: bool,
    values: &mut Values,
) -> bool {
    if !text.contains(['$', '`', '[']) && !may_evaluate(text) {
        return false;
    }
    let mut source = Source::new(text);
    source.find_functions(root);
    if gets_arguments || source.functions.contains("command_not_found_handle") {
        values.arguments = Arguments::Unknown;
    }
    let mut length = 0;
    let mut open = vec![root];
    while let Some(node) = open.pop() {
        match place(node, text) {
            Place::Elsewhere => {}
            Place::Names => {
                if takes_names(node, &source, values) {
                    return true;
                }
            }
            Place::Test => {
                if tests(node, &source, values) {
                    return true;
                }
            }
            Place::Expansion => {
                let (own, _) = apart(node, &source);
                let own = live(&own.trim_start().replace("$'", "'"));
                if own.strip_prefix("${").unwrap_or(&own).contains(['$', '`'])
                    || ["<(", ">(", "@P}"].iter().any(|sign| own.contains(sign))
                {
                    return true;
                }
            }
            Place::Evaluated => {
                let (own, has_commands) = apart(node, &source);
                let own = own.trim_start();
                let own = own.strip_prefix('$').unwrap_or(own);
                // What a command writes is a value, too.
                if has_commands || own.contains(['$', '`']) {
                    return true;
                }
                let of = evaluated(node, text);
                length += of.len();
                if length > MOST_EVALUATED {
                    return true;
                }
                values.evaluated.push(of);
            }
        }
        if is_indexed_descriptor(node, &source) {
            return true;
        }
        values.note(node, &source);
        open.extend(children(node));
    }
    values.can_be_commands()
}

/// Something is evaluated, also where nothing is put in and no index stands.
fn may_evaluate(text: &str) -> bool {
    let has_quotes = text.contains(['\'', '"', '\\']);
    let text: Cow<'_, str> = if has_quotes { unquoted(text).into() } else { text.into() };
    text.contains("((")
        || names(&text).any(|name| {
            matches!(name, "let" | "declare" | "typeset" | "local") || TYPED.contains(&name)
        })
}

enum Place {
    Elsewhere,
    /// A word that bash puts in.
    Expansion,
    /// Where the values of variables are read as expressions, names or texts to expand.
    Evaluated,
    /// Words that are names of variables.
    Names,
    /// Words that `test` looks for its operators.
    Test,
}

fn place(node: Node<'_>, text: &str) -> Place {
    let of = text[node.byte_range()].trim_start();
    let has_operator =
        |sign: &str| children(node).iter().any(|child| !child.is_named() && child.kind() == sign);
    let is_evaluated = match node.kind() {
        "expansion" if has_operator("!") => !is_list_of_keys(of),
        "expansion" if has_operator(":") => true,
        "expansion" => return Place::Expansion,
        "compound_statement" => of.starts_with("(("),
        "test_command" if of.starts_with("[[") => {
            of.split_ascii_whitespace().any(|word| EVALUATING.contains(&word))
        }
        "test_command" => return Place::Test,
        "declaration_command" | "unset_command" => return Place::Names,
        "arithmetic_expansion" | "subscript" | "c_style_for_statement" => true,
        // Words can stand behind its redirections, too.
        "command" | "redirected_statement" => match program(node, text).as_deref() {
            Some("let") => true,
            Some("test" | "[") => return Place::Test,
            Some(name) if NAMING.contains(&name) || DECLARING.contains(&name) => {
                return Place::Names;
            }
            _ => false,
        },
        _ => false,
    };
    if is_evaluated { Place::Evaluated } else { Place::Elsewhere }
}

/// The program or builtin that a command is for, as bash reads its name.
fn program(node: Node<'_>, text: &str) -> Option<String> {
    let node = match node.kind() {
        "redirected_statement" => node.child_by_field_name("body")?,
        _ => node,
    };
    let own = children(node);
    if matches!(node.kind(), "declaration_command" | "unset_command") {
        return own.first().map(|first| text[first.byte_range()].to_owned());
    }
    let at = own.iter().position(|child| child.kind() == "command_name")?;
    let mut words = own[at..]
        .iter()
        .map(|child| word::read(text, child.byte_range(), &holes(*child)).text)
        .peekable();
    while words.next_if(|word| matches!(word.as_str(), "builtin" | "command" | "time")).is_some() {
        while words.next_if(|word| word.starts_with('-')).is_some() {}
    }
    words.next()
}

/// The words of a command behind its program, those behind its redirections included.
fn words_of<'t>(node: Node<'t>, text: &str) -> Vec<Node<'t>> {
    let mut words = Vec::new();
    let mut open = children(node);
    open.reverse();
    while let Some(child) = open.pop() {
        match child.kind() {
            "command"
            | "declaration_command"
            | "unset_command"
            | "binary_expression"
            | "unary_expression"
            | "parenthesized_expression"
            | "negated_expression" => {
                let mut inner = children(child);
                inner.reverse();
                open.extend(inner);
            }
            "command_name" if text[child.byte_range()].ends_with('[') => {}
            kind if kind.ends_with("_redirect") => {
                // The first word behind the sign is what it redirects to.
                let own: Vec<Node<'t>> =
                    children(child).into_iter().filter(Node::is_named).collect();
                let is_target = |word: &&Node<'t>| word.kind() != "file_descriptor";
                let further = own.iter().filter(is_target).skip(1);
                words.extend(further.filter(|word| !word.kind().starts_with("heredoc_")));
            }
            _ => words.push(child),
        }
    }
    words
}

/// A builtin that is told the names of variables runs something, or may.
fn takes_names(node: Node<'_>, source: &Source<'_>, values: &mut Values) -> bool {
    let text = source.text;
    let mut words = words_of(node, text);
    let at = words.iter().position(|word| {
        let word = word::read(text, word.byte_range(), &holes(*word)).text;
        NAMING.contains(&&*word) || DECLARING.contains(&&*word)
    });
    let Some(at) = at else { return false };
    let name = word::read(text, words[at].byte_range(), &holes(words[at])).text;
    words.drain(..=at);
    let of = |word: &Node<'_>| unquoted(&text[word.byte_range()]);
    if name == "printf" {
        // Its options come first.
        let may_name =
            |first: &Node<'_>| of(first).starts_with(['$', '`']) || of(first).starts_with("-v");
        words.truncate(if words.first().is_some_and(may_name) && words.len() > 1 { 2 } else { 0 });
    }
    // One word can not be an option with a name and what is waited for.
    if name == "wait" && words.len() == 1 && is_quoted(words[0]) {
        return false;
    }
    // The others make another variable, or change nothing else of one.
    let keeps_kind = matches!(&*name, "declare" | "typeset");
    let declares = DECLARING.contains(&&*name) && name != "unset";
    let options: String =
        words.iter().map(of).filter(|word| word.starts_with(['-', '$', '`'])).collect();
    // An option can be put in, too.
    let is_odd = declares && options.contains(['$', '`']);
    // What is exported may be called from elsewhere.
    if declares && options.contains('f') {
        values.arguments = Arguments::Unknown;
    }
    let has = |letters: &[char]| declares && options.contains(letters);
    let (is_typed, is_array) = (has(&['i', 'n']) || is_odd, has(&['a', 'A']) || is_odd);
    for word in words {
        let plain = of(&word);
        if matches!(&*name, "mapfile" | "readarray")
            && plain.starts_with('-')
            && plain.contains('C')
        {
            return true;
        }
        let (own, has_commands) = apart(word, source);
        let is_live = own.contains(['$', '`']);
        let value = match word.kind() {
            "variable_assignment" => word.child_by_field_name("value"),
            _ => None,
        };
        if let Some(value) = value {
            let name = names(&plain).next().unwrap_or_default().to_owned();
            let is_list = value.kind() == "array";
            if is_typed && (is_live || has_commands)
                || is_list && is_live && own.contains('[')
                || is_array && !is_list && !is_plain(value, source)
            {
                return true;
            }
            if is_typed {
                values.evaluated.push(evaluated(value, text));
                values.typed.insert(name.clone());
            }
            // `declare a='([$(x)]=1)'` is read as `declare a=([$(x)]=1)` where it is an array.
            let may_be_list = unquoted(&text[value.byte_range()]).starts_with(['(', '$', '`']);
            if may_be_list && keeps_kind && !is_list && !is_plain(value, source) {
                values.declared.insert(name.clone());
            }
            if is_array {
                values.arrays.insert(name);
            }
            continue;
        }
        if has_commands && (name != "wait" || !is_quoted(word))
            || is_live && own.contains(['[', '('])
        {
            return true;
        }
        if let Some((_, index)) = plain.split_once('[') {
            let index = index.rsplit_once(']').map_or(index, |(index, _)| index);
            values.evaluated.push(index.to_owned());
        }
        // What is no assignment to the grammar is one to bash: `declare "x=$y"`.
        if declares && (plain.contains('=') || plain.starts_with(['$', '`'])) {
            let name = plain.split(['=', '[', '+']).next().unwrap_or_default();
            if is_name(name) {
                values.given.insert(name.to_owned());
            } else {
                values.gives_any |= !plain.starts_with('-');
            }
        }
        let first = names(&plain).next().unwrap_or_default();
        if is_typed && is_name(first) {
            values.typed.insert(first.to_owned());
        }
        if is_array && is_name(first) {
            values.arrays.insert(first.to_owned());
        }
        if plain.contains('$') {
            values.put_in(word, source);
        }
    }
    false
}

/// `test` may evaluate an index: what stands where its operators may stand could be `-v`.
fn tests(node: Node<'_>, source: &Source<'_>, values: &mut Values) -> bool {
    let text = source.text;
    let is_double = text[node.byte_range()].starts_with("[[");
    let (own, has_commands) = apart(node, source);
    let own = own.strip_prefix('$').unwrap_or(&own);
    let is_evaluating = |word: &str| EVALUATING.contains(&word);
    if is_double && !own.split_ascii_whitespace().any(is_evaluating) {
        return false;
    }
    let has_v = unquoted(own).contains("-v");
    let is_live = own.contains(['$', '`']);
    if is_double || has_v {
        if is_live || has_commands {
            return true;
        }
        values.evaluated.push(evaluated(node, text));
        return false;
    }
    let mut words = words_of(node, text);
    words.retain(|word| !matches!(word.kind(), "[" | "]"));
    let plain: Vec<String> = words.iter().map(|word| unquoted(&text[word.byte_range()])).collect();
    // (The first of a command is `test` itself.)
    let n_own = usize::from(
        node.kind() != "test_command" && plain.first().is_some_and(|word| word == "test"),
    );
    for (n, word) in words.iter().enumerate().skip(n_own) {
        if !plain[n].contains(['$', '`']) {
            continue;
        }
        let is_between = |n: usize| plain.get(n).is_some_and(|word| BETWEEN.contains(&&**word));
        let is_behind = n > n_own && {
            let before = &plain[n - 1];
            is_between(n - 1) || before.len() == 2 && before.starts_with('-')
        };
        let is_operand = is_behind || is_between(n + 1) || words.len() == n_own + 1;
        if is_quoted(*word) && is_operand {
            continue;
        }
        if is_live || apart(*word, source).1 && !is_single_word(*word, source) {
            return true;
        }
        values.put_in(*word, source);
    }
    false
}

/// It stays one word, whatever is put in.
fn is_quoted(word: Node<'_>) -> bool {
    matches!(word.kind(), "string" | "raw_string" | "ansi_c_string" | "arithmetic_expansion")
}

/// `${!x[@]}`, `${!x[*]}`: the keys of an array, and no indirection.
fn is_list_of_keys(of: &str) -> bool {
    let of =
        of.trim_start().strip_prefix("${!").and_then(|of| of.strip_suffix('}')).unwrap_or_default();
    let name = of.strip_suffix("[@]").or_else(|| of.strip_suffix("[*]"));
    name.is_some_and(is_name)
}

/// The text of `${…}` without what a backslash takes the meaning of in a pattern: `${x#\$}`.
fn live(own: &str) -> String {
    let behind = own.trim_start_matches("${").trim_start_matches(is_name_char);
    if !behind.starts_with(['#', '%', '/']) {
        return own.to_owned();
    }
    let at = own.len() - behind.trim_start_matches(['#', '%', '/']).len();
    let mut live = own[..at].to_owned();
    let mut chars = own[at..].chars();
    while let Some(char) = chars.next() {
        live.push(char);
        match char {
            '\\' => live.extend(chars.next().filter(|char| !matches!(char, '$' | '`'))),
            // What it is replaced by is a value.
            '/' if behind.starts_with('/') => live.extend(chars.by_ref()),
            _ => {}
        }
    }
    live
}

/// `{x[…]}<file`: an index in what a redirection gives its number to.
fn is_indexed_descriptor(node: Node<'_>, source: &Source<'_>) -> bool {
    let is_redirect =
        matches!(node.kind(), "file_redirect" | "heredoc_redirect" | "herestring_redirect");
    let mut before = &source.text[..node.start_byte()];
    while let Some(further) = before.strip_suffix("\\\n") {
        before = further;
    }
    is_redirect && source.has_braced_index && before.ends_with('}')
}

fn is_name_char(char: char) -> bool {
    char.is_ascii_alphanumeric() || char == '_'
}

fn is_name(text: &str) -> bool {
    !text.is_empty()
        && text.chars().all(is_name_char)
        && !text.starts_with(|c: char| c.is_ascii_digit())
}

/// The names and numbers in a text.
fn names(text: &str) -> impl Iterator<Item = &str> {
    text.split(|char| !is_name_char(char)).filter(|name| !name.is_empty())
}

fn unquoted(text: &str) -> String {
    text.replace("\\\n", "").replace(['\'', '"', '\\'], "")
}

/// What bash evaluates of a node, without quotes, and with one sign for what a command writes.
fn evaluated(node: Node<'_>, text: &str) -> String {
    let (mut range, mut out) = (node.byte_range(), String::new());
    range.start += text[range.clone()].len() - text[range.clone()].trim_start().len();
    let of = &text[range.clone()];
    let begin = match node.kind() {
        "subscript" => of.find('['),
        "expansion" if !of.starts_with("${!") => of.find(':'),
        _ => None,
    };
    range.start += begin.map_or(0, |at| at + 1);
    range.end -= usize::from(begin.is_some());
    let mut cut: Vec<(Range<usize>, Option<char>)> = Vec::new();
    let mut open = children(node);
    while let Some(node) = open.pop() {
        match node.kind() {
            "command_substitution" | "process_substitution" => {
                cut.push((node.byte_range(), Some(OUTPUT)));
            }
            "do_group" | "compound_statement" => cut.push((node.byte_range(), None)),
            _ => open.extend(children(node)),
        }
    }
    cut.sort_by_key(|(at, _)| at.start);
    for (at, sign) in cut {
        if at.start >= range.start && at.end <= range.end {
            out.push_str(&text[range.start..at.start]);
            out.extend(sign);
            range.start = at.end;
        }
    }
    out.push_str(&text[range]);
    unquoted(&out)
}

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
enum Arguments {
    #[default]
    Numbers,
    /// Words that may be names of variables.
    Plain,
    Unknown,
}

/// What variables may be worth in a line.
#[derive(Default)]
struct Values {
    arguments: Arguments,
    /// Variables that get one of the arguments.
    passed: HashSet<String>,
    /// Variables that get another value than a number or a plain word.
    assigned: HashSet<String>,
    /// Variables that get a text with an index in which a command stands.
    live: HashSet<String>,
    /// Variables that are numbers, or names of others: what they get is evaluated.
    typed: HashSet<String>,
    arrays: HashSet<String>,
    /// Variables that `declare` gives what may be the text of an array.
    declared: HashSet<String>,
    /// The texts that are evaluated.
    evaluated: Vec<String>,
    /// Variables that get what the line does not show for what it is.
    given: HashSet<String>,
    /// Variables that may be worth the name of another.
    named: HashSet<String>,
    /// Variables that the line sets to numbers.
    counted: HashSet<String>,
    /// There is no telling which variable is given something.
    gives_any: bool,
    /// What the line itself gives to variables.
    said: Said,
}

impl Values {
    fn can_be_commands(&mut self) -> bool {
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
    fn evaluate(&self) -> bool {
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
    fn put_in(&mut self, word: Node<'_>, source: &Source<'_>) {
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
    fn note(&mut self, node: Node<'_>, source: &Source<'_>) {
        let text = source.text;
        let of = &text[node.byte_range()];
        match node.kind() {
            "for_statement" => {
                let Some(name) = node.child_by_field_name("variable") else { return };
                let name = text[name.byte_range()].to_owned();
                let values: Vec<Node<'_>> =
                    node.children_by_field_name("value", &mut node.walk()).collect();
                values.iter().for_each(|word| self.said.add(said(*word, source)));
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
                    words.skip(2).for_each(|word| self.said.add(said(word, source)));
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

/// What a line gives to variables as it stands there, and is not put in: `'y[$(b)]'`, `\$`.
#[derive(Clone, Copy, Default)]
struct Said {
    /// What begins a command where it is evaluated.
    begins: bool,
    /// A `$` that begins none.
    dollar: bool,
    /// What makes it begin one, where the two are put together.
    bracket: bool,
}

impl Said {
    fn add(&mut self, other: Self) {
        self.begins |= other.begins;
        self.dollar |= other.dollar;
        self.bracket |= other.bracket;
    }

    fn can_be_command(self) -> bool {
        self.begins || self.dollar && self.bracket
    }
}

/// What a word, or an assignment, gives.
fn said(node: Node<'_>, source: &Source<'_>) -> Said {
    let mut found = Said::default();
    let mut holes: Vec<Range<usize>> = Vec::new();
    let mut open = vec![node];
    while let Some(node) = open.pop() {
        let at = node.byte_range();
        match node.kind() {
            "command_substitution" | "process_substitution" => {
                found.add(printed(node, source));
                holes.push(at);
                continue;
            }
            // (Their own text is looked at where they stand.)
            "expansion" | "simple_expansion" | "arithmetic_expansion" | "subscript" => {
                holes.push(at);
            }
            "ansi_c_string" | "translated_string" => holes.push(at.start..at.start + 1),
            "array" => holes.extend([at.start..at.start + 1, at.end - 1..at.end]),
            _ => {}
        }
        open.extend(children(node));
    }
    let own = without(source.text, node.byte_range(), holes).replace(['\'', '"'], "");
    // `\44`, `\x24`, `\u0060`: what `echo -e`, `printf` and `$'…'` make of it.
    let is_coded = |(at, _): (usize, &str)| {
        let code = own[at..].trim_start_matches(['\\', 'x', 'u', 'U', '0']);
        ["24", "44", "60", "140"].iter().any(|sign| code.starts_with(sign))
    };
    found.begins |= ["$(", "${", "`"].iter().any(|sign| own.contains(sign))
        || own.match_indices('\\').any(is_coded);
    found.dollar |= own.contains('$');
    found.bracket |= own.contains(['(', '{']);
    found
}

/// What commands write, as far as the line says it: `echo` and `printf` their words, others a text of the line that they
/// read, or an index with a command in it. What a program makes is trusted, like what stands in a file: it can be
/// anything, however the line looks.
fn printed(node: Node<'_>, source: &Source<'_>) -> Said {
    let text = source.text;
    let mut found = Said::default();
    let mut open = vec![node];
    while let Some(node) = open.pop() {
        match node.kind() {
            "heredoc_body" | "herestring_redirect" => found.add(said(node, source)),
            "command" | "redirected_statement" => {
                let says = matches!(program(node, text).as_deref(), Some("echo" | "printf"));
                for word in words_of(node, text) {
                    let of = unquoted(&text[word.byte_range()]);
                    let is_index = of.split_once('[').is_some_and(|(_, index)| {
                        ["$(", "${", "`"].iter().any(|sign| index.contains(sign))
                    });
                    if says || is_index {
                        found.add(said(word, source));
                    }
                }
            }
            _ => {}
        }
        open.extend(children(node));
    }
    found
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

/// A word of a loop that is no expression which runs something.
fn is_plain(word: Node<'_>, source: &Source<'_>) -> bool {
    let is_harmless = |char: char| char.is_ascii_alphanumeric() || "_-+./:,{}".contains(char);
    source.text[word.byte_range()].chars().all(is_harmless) || is_number(word, source)
}

/// A word that is certain to be nothing but a number, or several.
fn is_number(word: Node<'_>, source: &Source<'_>) -> bool {
    let of = &source.text[word.byte_range()];
    let inner = of.strip_prefix('"').and_then(|of| of.strip_suffix('"')).unwrap_or(of);
    match word.kind() {
        "arithmetic_expansion" => true,
        "command_substitution" => is_count(word, source),
        _ if is_list_of_keys(inner) => !inner.starts_with("${!BASH") && !source.has_keys,
        _ => of.chars().all(|char| char.is_ascii_digit() || "-.{}\"'".contains(char)),
    }
}

/// A command that writes nothing but numbers: `$(nproc)`, `$(seq 5)`, `$(date +%s)`, `$(… | wc -l)`.
fn is_count(node: Node<'_>, source: &Source<'_>) -> bool {
    let text = source.text;
    let own: Vec<Node<'_>> = children(node).into_iter().filter(Node::is_named).collect();
    let [mut last] = *own else { return false };
    if !text[node.byte_range()].starts_with("$(") || source.is_redefined {
        return false;
    }
    if last.kind() == "pipeline" {
        let Some(stage) = children(last).pop() else { return false };
        last = stage;
    }
    if !matches!(last.kind(), "command" | "redirected_statement") {
        return false;
    }
    let of = text[last.byte_range()].trim_end();
    let of = of.strip_suffix("2>/dev/null").unwrap_or(of).trim_end();
    let is_safe = |char: char| char.is_ascii_alphanumeric() || "_-+./:,% \"'=^~@".contains(char);
    let all = unquoted(of);
    let mut words = all.split(' ').filter(|word| !word.is_empty());
    match words.next() {
        Some("nproc") => of.chars().all(is_safe),
        Some("seq") => words.all(|word| {
            let name = word.strip_prefix('$').unwrap_or_default();
            is_name(name) || word.chars().all(|char| char.is_ascii_digit() || "-.".contains(char))
        }),
        Some("date") => {
            let mut formats = words.filter(|word| word.starts_with('+'));
            let is_numeric = formats.next().is_some_and(|format| {
                format.strip_prefix("+%").is_some_and(|format| {
                    format.split('%').all(|part| {
                        matches!(
                            part,
                            "s" | "N" | "Y" | "y" | "m" | "d" | "H" | "M" | "S" | "j" | "u" | "V"
                        )
                    })
                })
            });
            is_numeric && formats.next().is_none() && of.chars().all(is_safe)
        }
        Some("id") => matches!(&*all, "id -u" | "id -g"),
        Some("jobs") => all == "jobs -p",
        Some("git") => {
            let is_log = ["git log -1 --format=%ct", "git log -1 --format=%at"].contains(&&*all);
            is_log || all.starts_with("git rev-list --count ") && of.chars().all(is_safe)
        }
        // One file that is given in quotes can be no more than one option.
        Some("stat") => {
            let last = of.rsplit(' ').next().unwrap_or_default();
            let format = words.next().map(|word| match word {
                "-c" => words.next().unwrap_or_default(),
                word => word.strip_prefix("-c").unwrap_or_default(),
            });
            let is_file = is_variable_in_quotes(last) || last.chars().all(is_safe);
            matches!(format, Some("%s" | "%Y" | "%X" | "%Z" | "%a" | "%h" | "%b" | "%i"))
                && words.next().is_some_and(|word| !word.starts_with('-'))
                && words.next().is_none()
                && is_file
        }
        Some("grep") => is_count_of_matches(last, text),
        // Behind `2>&1` what the shell says of a file would stand there.
        Some("wc") => {
            let of = of.split_once('<').map_or(of, |(of, file)| {
                let file = file.trim();
                let is_file = file.chars().all(|c| is_safe(c) && c != ' ')
                    || is_variable_in_quotes(file)
                    || file.strip_prefix('$').is_some_and(is_name);
                if is_file { of } else { "" }
            });
            matches!(of.trim_end(), "wc -l" | "wc -c" | "wc -w" | "wc -m")
        }
        _ => false,
    }
}

/// `"$x"` or `"${x}"`.
fn is_variable_in_quotes(of: &str) -> bool {
    let name = of.strip_prefix("\"$").and_then(|of| of.strip_suffix('"')).unwrap_or_default();
    is_name(name.strip_prefix('{').and_then(|name| name.strip_suffix('}')).unwrap_or(name))
}

/// `grep -c` in one file, or in what it is given: with several it writes their names, too.
fn is_count_of_matches(node: Node<'_>, text: &str) -> bool {
    let words = words_of(node, text);
    let (mut counts, mut n_operands) = (false, 0);
    for word in words.iter().skip(1) {
        let of = unquoted(&text[word.byte_range()]);
        match word.kind() {
            "raw_string" => n_operands += 1,
            // It could be an option: `-r`.
            _ if of.contains(['$', '`']) => return false,
            _ if of.starts_with('-') => {
                counts |= of.contains('c');
                if !of[1..].chars().all(|letter| "ciEFvwx".contains(letter)) {
                    return false;
                }
            }
            // A pattern can be several names.
            "word" if n_operands == 1 && of.contains(['*', '?', '[', '{']) => return false,
            _ => n_operands += 1,
        }
    }
    counts && n_operands <= 2
}

/// What these commands write is one word without an index: `[ $(uname) = Linux ]`.
fn is_single_word(word: Node<'_>, source: &Source<'_>) -> bool {
    let own =
        source.text[word.byte_range()].strip_prefix("$(").and_then(|own| own.strip_suffix(')'));
    own.is_some_and(|own| {
        let is_safe = |char: char| char.is_ascii_alphanumeric() || "-~^@{}_/ .".contains(char);
        // What is no option to it, it repeats.
        let is_name_of_commit = |words: &str| {
            words.split(' ').all(|word| {
                !word.starts_with('-')
                    || ["--short", "--verify", "--abbrev-ref", "--is-inside-work-tree"]
                        .contains(&word)
            })
        };
        let is_one = ["uname", "whoami", "id", "arch", "hostname"].contains(&own)
            || ["uname -", "id -u", "git branch --show-current"]
                .iter()
                .any(|begin| own.starts_with(begin))
            || own.strip_prefix("git rev-parse ").is_some_and(is_name_of_commit);
        is_one && !source.is_redefined && own.chars().all(is_safe)
    })
}

/// The node's own text, without what is put in and looked at for itself; and whether some of that is what
/// commands write.
fn apart(node: Node<'_>, source: &Source<'_>) -> (String, bool) {
    let text = source.text;
    let mut holes: Vec<Range<usize>> = Vec::new();
    let mut has_commands = false;
    let mut open = match node.kind() {
        "command_substitution" | "process_substitution" => vec![node],
        _ => children(node),
    };
    while let Some(node) = open.pop() {
        match node.kind() {
            "command_substitution" | "process_substitution" => {
                has_commands |= !is_count(node, source);
                holes.push(node.byte_range());
            }
            "expansion"
            | "simple_expansion"
            | "arithmetic_expansion"
            | "subscript"
            | "do_group"
            | "compound_statement" => holes.push(node.byte_range()),
            _ => open.extend(children(node)),
        }
    }
    (without(text, node.byte_range(), holes), has_commands)
}

/// A part of a text, without these, which may stand in each other.
fn without(text: &str, part: Range<usize>, mut holes: Vec<Range<usize>>) -> String {
    holes.sort_by_key(|hole| hole.start);
    let mut own = String::new();
    let mut at = part.start;
    for hole in holes {
        own.push_str(text.get(at..hole.start).unwrap_or_default());
        at = at.max(hole.end);
    }
    own.push_str(&text[at..part.end]);
    own
}

#[cfg(test)]
mod tests;
