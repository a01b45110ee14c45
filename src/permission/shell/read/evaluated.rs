//! Commands that stand in a text which bash reads once more, and the grammar does not.
//!
//! In `${x:-…}` the grammar takes backquotes for a word. Where a number is wanted (`$((…))`, `((…))`, an index,
//! `${x:…}`, `[[ … -eq … ]]`) bash reads the *value* of each variable, of which `a[$(command)]` runs one, and `b` is
//! the value of `b`; so do `${!x}` and `-v`, and `${x@P}` any value. What stands there is let through where every value
//! is a number, or comes from outside the line.
//!
//! A value that runs something was said somewhere: where the line gives such a text to any variable or function, or
//! parts that make one (`said`), nothing that is no number is let through, however often it is handed on. Trusted is
//! what programs write and what lies in files and the environment, where a variable is given it plainly (`x=$(a)`).
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
use outputs::{KNOWN_OUTPUT, is_count, is_plain, is_single_word};
use values::{Arguments, TYPED, Values};

mod outputs;
mod said;
#[cfg(test)]
mod tests;
mod values;

/// Operators of `[[` that read their operands as numbers or names. (They stand there unquoted.)
const EVALUATING: &[&str] = &["-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-v"];
/// Builtins that take names of variables, of which they evaluate the index. (So do those that declare.)
const NAMING: &[&str] = &["wait", "read", "mapfile", "readarray", "getopts", "printf"];
/// Builtins that give variables a kind. (The grammar has a node for them, but not behind `builtin`.)
const DECLARING: &[&str] = &["declare", "typeset", "local", "readonly", "export", "unset"];
/// Operators of `test` between two words.
const BETWEEN: &[&str] =
    &["=", "==", "!=", "<", ">", "-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-nt", "-ot", "-ef"];
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

fn hides_commands(root: Node<'_>, text: &str, gets_arguments: bool, values: &mut Values) -> bool {
    if !is_of_interest(text) {
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

/// Something may be evaluated, or given to a variable that another text evaluates. Of most lines the signs of it tell that
/// there is nothing to look at.
fn is_of_interest(text: &str) -> bool {
    if text.contains(['[', '`']) || text.contains("$'") {
        return true;
    }
    let has_quotes = text.contains(['\'', '"', '\\']);
    let puts_in = text.contains('$');
    // (`Said` is nothing without these.)
    let can_be_command = puts_in && text.contains(['(', '{', '\\']);
    let text: Cow<'_, str> = if has_quotes { unquoted(text).into() } else { text.into() };
    if ["((", "${"].iter().any(|sign| text.contains(sign)) || can_be_command && text.contains("()")
    {
        return true;
    }
    names(&text).any(|name| {
        let is_assigned = || {
            let at = name.as_ptr().addr() - text.as_ptr().addr();
            let behind = text[at + name.len()..].trim_start_matches('+');
            behind.starts_with('=') && !text[..at].ends_with('-')
        };
        matches!(name, "let" | "declare" | "typeset" | "local")
            || TYPED.contains(&name)
            || puts_in && (name == "test" || NAMING.contains(&name) || DECLARING.contains(&name))
            || can_be_command
                && (matches!(name, "for" | "select" | "set" | "function")
                    || SHELLS.contains(&name)
                    || is_assigned())
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
