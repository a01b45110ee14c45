//! Commands that stand in a text which bash reads once more, and the grammar does not.
//!
//! In `${x:-…}` the grammar takes backquotes for a word. Where a number is wanted (`$((…))`, `((…))`, an index,
//! `${x:…}`, `[[ … -eq … ]]`) bash reads the *value* of each variable, of which `a[$(command)]` runs one, and `b` is
//! the value of `b`; so do `${!x}` and `-v`, and `${x@P}` any value. What stands there is let through where every value
//! is a number, or comes from outside the line.

use std::collections::HashSet;
use std::ops::Range;

use tree_sitter::Node;

use super::super::word;
use super::{children, holes};

/// Operators of `[[` that read their operands as numbers or names. (They stand there unquoted.)
const EVALUATING: &[&str] = &["-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-v"];
/// Builtins that give a variable what they read, or what they are told.
const READING: &[&str] = &["read", "mapfile", "readarray", "getopts", "printf"];
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
/// What stands for the output of a command in a text.
const OUTPUT: char = '\u{1}';

/// More of what is evaluated is not looked at. (Parts of it stand in others.)
const MOST_EVALUATED: usize = 1024 * 1024;

/// A text, and what holds for all of it.
struct Source<'a> {
    text: &'a str,
    /// The names of commands may stand for others.
    is_redefined: bool,
    /// The keys of an array may be any text.
    has_keys: bool,
    /// `{name[` stands in it.
    has_braced_index: bool,
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
            is_redefined: ["()", "function", "alias", "hash", "enable", "PATH"]
                .iter()
                .any(|sign| dense.contains(sign)),
            has_keys: ["declare", "typeset", "local", "readonly"]
                .iter()
                .any(|word| all.contains(word)),
            has_braced_index: dense.match_indices('{').any(is_braced_index),
        }
    }
}

/// What bash may run here does not all stand in the tree.
pub(super) fn hides_commands(root: Node<'_>, text: &str) -> bool {
    if !text.contains(['$', '`', '[']) && !text.contains("((") {
        return false;
    }
    let source = Source::new(text);
    let (mut values, mut length) = (Values::default(), 0);
    let mut open = vec![root];
    while let Some(node) = open.pop() {
        let of = &text[node.byte_range()];
        match place(node, text) {
            Place::Elsewhere => {}
            Place::Expansion => {
                let (own, _) = apart(node, &source);
                let own = live(&own.replace("$'", "'"));
                if own.strip_prefix("${").unwrap_or(&own).contains(['$', '`'])
                    || ["<(", ">(", "@P}"].iter().any(|sign| own.contains(sign))
                {
                    return true;
                }
            }
            Place::Evaluated => {
                let (own, has_commands) = apart(node, &source);
                let own = own.strip_prefix('$').unwrap_or(&own);
                // What a command writes is a value, too. (To `test` it is one with `-v` alone.)
                let is_test = !of.starts_with("[[")
                    && match node.kind() {
                        "command" | "redirected_statement" => {
                            program(node, text).as_deref() != Some("let")
                        }
                        kind => kind == "test_command",
                    }
                    && !unquoted(own).contains("-v");
                if has_commands && !is_test || own.contains(['$', '`']) {
                    return true;
                }
                // A variable that is not quoted can be more than one word.
                let is_split = || {
                    of.split_ascii_whitespace()
                        .any(|word| word.contains('$') && !word.starts_with('"'))
                };
                if !is_test || is_split() {
                    let of = evaluated(node, text);
                    length += of.len();
                    if length > MOST_EVALUATED {
                        return true;
                    }
                    values.evaluated.push(of);
                }
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

enum Place {
    Elsewhere,
    /// A word that bash puts in.
    Expansion,
    /// Where the values of variables are read as expressions, names or texts to expand.
    Evaluated,
}

fn place(node: Node<'_>, text: &str) -> Place {
    let of = &text[node.byte_range()];
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
        // The operators of `[` may be quoted, or come from a variable.
        "arithmetic_expansion" | "subscript" | "c_style_for_statement" | "test_command" => true,
        // Words can stand behind its redirections, too.
        "command" | "redirected_statement" => {
            matches!(program(node, text).as_deref(), Some("test" | "[" | "let"))
        }
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

/// `${!x[@]}`, `${!x[*]}`: the keys of an array, and no indirection.
fn is_list_of_keys(of: &str) -> bool {
    let of = of.strip_prefix("${!").and_then(|of| of.strip_suffix('}')).unwrap_or_default();
    let name = of.strip_suffix("[@]").or_else(|| of.strip_suffix("[*]"));
    name.is_some_and(is_name)
}

/// The text of `${…}` without what a backslash takes the meaning of in a pattern: `${x#\$}`.
fn live(own: &str) -> String {
    let behind = own.trim_start_matches("${").trim_start_matches(is_name_char);
    if !behind.starts_with(['#', '%', '/']) {
        return own.to_owned();
    }
    let (mut live, mut chars) = (String::new(), own.chars());
    while let Some(char) = chars.next() {
        live.push(char);
        if char == '\\' {
            live.extend(chars.next().filter(|char| !matches!(char, '$' | '`')));
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
    })
}

/// What variables may be worth in a line.
#[derive(Default)]
struct Values {
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
}

impl Values {
    fn can_be_commands(&self) -> bool {
        let gives = self.gives_any || !self.given.is_empty();
        self.evaluated.iter().any(|text| {
            has_argument(text)
                || gives && makes_names(text)
                || names(text).any(|name| {
                    let is_number = NUMBERS.contains(&name)
                        || name.starts_with(|char: char| char.is_ascii_digit());
                    // What others set can be the name of a variable: `USER=root`.
                    let is_outside =
                        !is_number && name.contains(|char: char| !char.is_ascii_lowercase());
                    SET_BY_SHELL.contains(&name)
                        || name.starts_with("BASH")
                        || self.given.contains(name)
                        || self.gives_any && !name.starts_with(|char: char| char.is_ascii_digit())
                        || gives
                            && (is_outside && !self.counted.contains(name)
                                || self.named.contains(name))
                })
        })
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
                if values.is_empty() || !values.iter().all(|word| is_plain(*word, source)) {
                    self.given.insert(name);
                } else if !values.iter().all(|word| is_number(*word, source)) {
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
                let is_number = value.is_none_or(|value| is_number(value, source));
                let is_declared =
                    node.parent().is_some_and(|parent| parent.kind() == "declaration_command");
                match value {
                    _ if is_number => {
                        self.counted.insert(name);
                    }
                    Some(value) if is_declared && !is_plain(value, source) => {
                        self.given.insert(name);
                    }
                    _ => {
                        self.named.insert(name);
                    }
                }
            }
            // Its arguments are numbers, or print something else.
            "command_substitution" if is_count(node, source) && of.starts_with("$(seq") => {
                self.evaluated.push(unquoted(&of[2..]));
            }
            "command" | "redirected_statement" => {
                let Some(program) = program(node, text) else { return };
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
                    self.given.extend((0..name.len()).map(|at| name[at..].to_owned()));
                }
                self.gives_any |= of.contains(['$', '`', '{', '*', '?', '[']);
            }
            _ => {}
        }
    }
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
    let of = &text[last.byte_range()];
    let is_safe = |char: char| char.is_ascii_alphanumeric() || "_-+./:,% \"'".contains(char);
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
        // Behind `2>&1` what the shell says of a file would stand there.
        Some("wc") => {
            let of = of.split_once('<').map_or(of, |(of, file)| {
                if file.trim().chars().all(|c| is_safe(c) && c != ' ') { of } else { "" }
            });
            matches!(of.trim_end(), "wc -l" | "wc -c" | "wc -w" | "wc -m")
        }
        _ => false,
    }
}

/// The node's own text, without what is put in and looked at for itself; and whether some of that is what
/// commands write.
fn apart(node: Node<'_>, source: &Source<'_>) -> (String, bool) {
    let text = source.text;
    let mut holes: Vec<Range<usize>> = Vec::new();
    let mut has_commands = false;
    let mut open = children(node);
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
    holes.sort_by_key(|hole| hole.start);
    let mut own = String::new();
    let mut at = node.start_byte();
    for hole in holes {
        own.push_str(&text[at..hole.start]);
        at = hole.end;
    }
    own.push_str(&text[at..node.end_byte()]);
    (own, has_commands)
}
