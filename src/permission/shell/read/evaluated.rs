//! Commands that stand in a text which bash reads once more, and the grammar does not.
//!
//! In `${x:-…}` the grammar takes backquotes for a word. Where a number is wanted (`$((…))`, `((…))`, an index,
//! `${x:…}`, `[[ … -eq … ]]`) bash reads the *value* of each variable, of which `a[$(command)]` runs one; so do
//! `${!x}` and `-v`, and `${x@P}` any value.

use std::ops::Range;

use tree_sitter::Node;

use super::children;

/// Operators of `[[` that read their operands as numbers or names. (They stand there unquoted.)
const EVALUATING: &[&str] = &["-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-v"];
/// Builtins that give a variable what they read.
const READING: &[&str] = &["read", "mapfile", "readarray"];

/// What bash may run here does not all stand in the tree.
pub(super) fn hides_commands(root: Node<'_>, text: &str) -> bool {
    if !text.contains(['$', '`', '[']) && !text.contains("((") {
        return false;
    }
    let (mut evaluates, mut gives) = (false, false);
    let mut open = vec![root];
    while let Some(node) = open.pop() {
        let of = &text[node.byte_range()];
        match place(node, of) {
            Place::Elsewhere => {}
            Place::Expansion => {
                let (own, _) = apart(node, text);
                let own = own.replace("$'", "'");
                if own.strip_prefix("${").unwrap_or(&own).contains(['$', '`'])
                    || ["<(", ">(", "@P}"].iter().any(|sign| own.contains(sign))
                {
                    return true;
                }
            }
            Place::Evaluated => {
                let (own, has_commands) = apart(node, text);
                let own = own.strip_prefix('$').unwrap_or(&own);
                // What a command writes is a value, too. (To `test` it is one with `-v` alone.)
                let is_test = matches!(node.kind(), "command" | "test_command")
                    && !of.starts_with("[[")
                    && !own.replace(['\'', '"', '\\'], "").contains("-v");
                if has_commands && !is_test || own.contains(['$', '`']) {
                    return true;
                }
                // A variable that is not quoted can be more than one word.
                let is_split = || {
                    of.split_ascii_whitespace()
                        .any(|word| word.contains('$') && !word.starts_with('"'))
                };
                evaluates |= !is_test || is_split();
            }
        }
        gives |= gives_a_value(node, text);
        open.extend(children(node));
    }
    evaluates && gives
}

enum Place {
    Elsewhere,
    /// A word that bash puts in.
    Expansion,
    /// Where the values of variables are read as expressions, names or texts to expand.
    Evaluated,
}

fn place(node: Node<'_>, of: &str) -> Place {
    let has_operator =
        |sign: &str| children(node).iter().any(|child| !child.is_named() && child.kind() == sign);
    let mut words = of.split_ascii_whitespace();
    let is_evaluated = match node.kind() {
        "expansion" if has_operator(":") || has_operator("!") => true,
        "expansion" => return Place::Expansion,
        "compound_statement" => of.starts_with("(("),
        "test_command" if of.starts_with("[[") => words.any(|word| EVALUATING.contains(&word)),
        // The operators of `[` may be quoted, or come from a variable.
        "arithmetic_expansion" | "subscript" | "c_style_for_statement" | "test_command" => true,
        "command" => {
            let mut words = words.map(|word| word.replace(['\'', '"', '\\'], ""));
            let first = words.find(|word| !matches!(word.as_str(), "builtin" | "command"));
            first.is_some_and(|word| matches!(word.as_str(), "test" | "["))
        }
        _ => false,
    };
    if is_evaluated { Place::Evaluated } else { Place::Elsewhere }
}

/// The node's own text, without what is put in and looked at for itself; and whether some of that is what
/// commands write.
fn apart(node: Node<'_>, text: &str) -> (String, bool) {
    let mut holes: Vec<Range<usize>> = Vec::new();
    let mut has_commands = false;
    let mut open = children(node);
    while let Some(node) = open.pop() {
        match node.kind() {
            "command_substitution" | "process_substitution" => {
                has_commands = true;
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

/// A variable gets a value here that the line does not show for what it is.
fn gives_a_value(node: Node<'_>, text: &str) -> bool {
    let is_plain = |word: &Node<'_>| {
        let is_harmless = |char: char| char.is_ascii_alphanumeric() || "_-+./:,{}".contains(char);
        text[word.byte_range()].chars().all(is_harmless)
    };
    match node.kind() {
        "for_statement" => {
            !node.children_by_field_name("value", &mut node.walk()).all(|word| is_plain(&word))
        }
        "expansion" => children(node).iter().any(|child| matches!(child.kind(), "=" | ":=")),
        "command_name" => READING.contains(&&text[node.byte_range()]),
        _ => false,
    }
}
