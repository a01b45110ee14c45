//! Which words are certain to be numbers, or one plain word: what some commands write is.

use tree_sitter::Node;

use super::{Source, children, is_list_of_keys, is_name, unquoted, words_of};

/// Programs whose output is known to be a number or one word.
pub(super) const KNOWN_OUTPUT: &[&str] = &[
    "arch", "date", "git", "grep", "hostname", "id", "jobs", "nproc", "seq", "stat", "uname", "wc",
    "whoami",
];

/// A word of a loop that is no expression which runs something.
pub(super) fn is_plain(word: Node<'_>, source: &Source<'_>) -> bool {
    let is_harmless = |char: char| char.is_ascii_alphanumeric() || "_-+./:,{}".contains(char);
    source.text[word.byte_range()].chars().all(is_harmless) || is_number(word, source)
}

/// A word that is certain to be nothing but a number, or several.
pub(super) fn is_number(word: Node<'_>, source: &Source<'_>) -> bool {
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
pub(super) fn is_count(node: Node<'_>, source: &Source<'_>) -> bool {
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
pub(super) fn is_single_word(word: Node<'_>, source: &Source<'_>) -> bool {
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
