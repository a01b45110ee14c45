//! The texts that a line says itself, and gives to variables.

use std::ops::Range;

use tree_sitter::Node;

use super::{Source, children, program, unquoted, without, words_of};

/// What a line gives to variables as it stands there, and is not put in: `'y[$(b)]'`, `\$`.
#[derive(Clone, Copy, Default)]
pub(super) struct Said {
    /// What begins a command where it is evaluated.
    begins: bool,
    /// A `$` that begins none.
    dollar: bool,
    /// What makes it begin one, where the two are put together.
    bracket: bool,
}

impl Said {
    pub(super) fn add(&mut self, other: Self) {
        self.begins |= other.begins;
        self.dollar |= other.dollar;
        self.bracket |= other.bracket;
    }

    pub(super) fn can_be_command(self) -> bool {
        self.begins || self.dollar && self.bracket
    }
}

/// What a word, or an assignment, gives.
pub(super) fn said(node: Node<'_>, source: &Source<'_>) -> Said {
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
pub(super) fn printed(node: Node<'_>, source: &Source<'_>) -> Said {
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
