//! The text of the pipeline that ends a command, where it is certain which one that is.
//!
//! No grammar: a reader that gives up at the first thing it does not fully understand. Then a stage
//! has a status and no name.

/// Words after which a command is not what its text says, or is only a part of one.
const NOT_SIMPLE: &[&str] = &[
    "!", "[[", ".", "{", "}", "builtin", "case", "command", "coproc", "do", "done", "elif", "else",
    "esac", "eval", "exec", "fi", "for", "function", "if", "select", "source", "then", "time",
    "trap", "until", "while",
];

/// The stages of the last pipeline of a list of simple commands. `None` if it is anything else, and
/// if another pipeline of the list has several stages: the shell may have ended with that one.
pub(super) fn last_pipeline(line: &str) -> Option<Vec<String>> {
    let mut pipelines = split(line)?;
    pipelines.retain(|stages| stages.len() > 1 || !stages[0].is_empty());
    let last = pipelines.pop()?;
    let are_simple = pipelines
        .iter()
        .flatten()
        .chain(&last)
        .all(|command| !command.is_empty() && is_simple(command));
    (are_simple && pipelines.iter().all(|stages| stages.len() == 1)).then_some(last)
}

fn is_simple(command: &str) -> bool {
    command.split_ascii_whitespace().next().is_some_and(|word| !NOT_SIMPLE.contains(&word))
}

/// The pipelines of a list, each as the texts of its stages.
fn split(line: &str) -> Option<Vec<Vec<String>>> {
    let mut pipelines = vec![vec![String::new()]];
    let mut chars = line.chars().peekable();
    let mut previous = '\n';
    while let Some(char) = chars.next() {
        let n_stages = pipelines.last()?.len();
        let stage = pipelines.last_mut()?.last_mut()?;
        match char {
            '\'' if previous == '$' => return None,
            '\'' => {
                stage.push(char);
                loop {
                    let quoted = chars.next()?;
                    stage.push(quoted);
                    if quoted == '\'' {
                        break;
                    }
                }
            }
            '"' => {
                stage.push(char);
                loop {
                    let quoted = chars.next()?;
                    stage.push(quoted);
                    match quoted {
                        '"' => break,
                        '\\' => stage.push(chars.next()?),
                        '`' => return None,
                        '$' if matches!(chars.peek(), Some('(' | '{')) => return None,
                        _ => {}
                    }
                }
            }
            '\\' if chars.next_if_eq(&'\n').is_some() => {}
            '\\' => {
                stage.push(char);
                stage.push(chars.next()?);
            }
            '$' if matches!(chars.peek(), Some('{' | '"')) => return None,
            '<' if chars.peek() == Some(&'<') => return None,
            '#' if previous.is_whitespace() || matches!(previous, ';' | '&' | '|') => {
                while chars.next_if(|char| *char != '\n').is_some() {}
            }
            '|' if previous == '>' => stage.push(char),
            '|' if chars.next_if_eq(&'|').is_some() => pipelines.push(vec![String::new()]),
            '|' => {
                chars.next_if_eq(&'&');
                pipelines.last_mut()?.push(String::new());
            }
            '&' if matches!(previous, '>' | '<') || chars.peek() == Some(&'>') => stage.push(char),
            '&' if chars.next_if_eq(&'&').is_some() => pipelines.push(vec![String::new()]),
            '`' | '(' | ')' | '&' => return None,
            // A pipeline goes on after a line that ends in `|`.
            '\n' if n_stages > 1 && stage.trim().is_empty() => {}
            ';' | '\n' => pipelines.push(vec![String::new()]),
            _ => stage.push(char),
        }
        previous = char;
    }
    for stage in pipelines.iter_mut().flatten() {
        *stage = stage.trim().to_owned();
    }
    Some(pipelines)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, expected: Option<&[&str]>) {
        let expected = expected.map(|names| names.iter().map(ToString::to_string).collect());
        assert_eq!(last_pipeline(line), expected, "{line}");
    }

    #[test]
    fn a_plain_pipeline_at_the_end_is_named() {
        check("a | b", Some(&["a", "b"]));
        check(
            "a 2>&1 |& b 'x | y' | c \"; $z\" # d | e",
            Some(&["a 2>&1", "b 'x | y'", "c \"; $z\""]),
        );
        check("cd x && a | b;", Some(&["a", "b"]));
        check("cd x\na |\n  b\n", Some(&["a", "b"]));
        check("echo a\\|b &>/dev/null | c >| d", Some(&["echo a\\|b &>/dev/null", "c >| d"]));
        check("find . | xargs -I{} wc {}", Some(&["find .", "xargs -I{} wc {}"]));
    }

    #[test]
    fn what_is_not_certain_has_no_name() {
        for line in [
            "a | b; c | d",
            "a | b || exit; c | d",
            "a $(b) | c",
            "a \"$(b)\" | c",
            "a `b` | c",
            "(a | b)",
            "{ a | b; }",
            "for x in 1; do a | b; done",
            "if a | b; then c; fi",
            "f() { a; }; a | b",
            "! a | b",
            "time a | b",
            "cat <<X | b\n|\nX",
            "a | b &",
            "eval x; a | b",
            ". ./env; a | b",
            "[[ a || b ]]",
            "a 'b | c",
            "a ${x#|} | b",
            "a $'\\'' | b",
            "a | | b",
        ] {
            check(line, None);
        }
    }
}
