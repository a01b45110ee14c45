//! A command line as far as proof needs it: its simple commands whose success the success of the line shows.

/// One command with its words, unquoted.
pub(super) type Words = Vec<String>;

/// The simple commands that must have succeeded where the line did: all of an `&&` list at its end, of a
/// pipeline the last stage (`stages_known`: each stage), nothing beside an `||`. Nothing at all where the
/// line can not be read so simply.
pub(super) fn must_have_succeeded(line: &str, stages_known: bool) -> Vec<Words> {
    // A heredoc's text would be taken for commands.
    if line.contains("<<") {
        return Vec::new();
    }
    let (mut shown, mut list, mut has_or) = (Vec::new(), Vec::new(), false);
    for (words, operator) in split(line) {
        let is_stage = operator == Some("|");
        // An empty line, or the `;` at the end, begins no list.
        if !words.is_empty() && (!is_stage || stages_known) {
            list.push(words);
        }
        match operator {
            Some("&&" | "|") => {}
            Some("||") => has_or = true,
            // What comes next decides, if anything does.
            Some("&") => {
                shown.clear();
                list.clear();
                has_or = false;
            }
            Some(_) | None => {
                if !list.is_empty() || has_or {
                    shown = if has_or { Vec::new() } else { std::mem::take(&mut list) };
                }
                list.clear();
                has_or = false;
            }
        }
    }
    shown
}

/// The simple commands of a line, each with the operator behind it.
fn split(line: &str) -> Vec<(Words, Option<&'static str>)> {
    const OPERATORS: [&str; 6] = ["&&", "||", ";", "|", "&", "\n"];
    let mut commands = Vec::new();
    let (mut words, mut word): (Words, Option<String>) = (Vec::new(), None);
    let (mut quote, mut depth) = (None, 0_u32);
    let mut at = 0;
    while let Some(letter) = line[at..].chars().next() {
        let rest = &line[at..];
        let before = line[..at].chars().next_back();
        let operator = OPERATORS.into_iter().find(|operator| rest.starts_with(operator));
        // `2>&1`, `&>file`.
        let redirects = letter == '&' && (before == Some('>') || rest.starts_with("&>"));
        at += letter.len_utf8();
        match (letter, quote) {
            (_, Some(open)) if letter == open => quote = None,
            ('\\', None | Some('"')) => {
                if let Some(next) = line[at..].chars().next() {
                    at += next.len_utf8();
                    word.get_or_insert_default().push(next);
                }
            }
            ('\'' | '"' | '`', None) => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            ('(', None) if word.is_some() || depth > 0 => {
                depth += 1;
                word.get_or_insert_default().push(letter);
            }
            (')', None) if depth > 0 => {
                depth -= 1;
                word.get_or_insert_default().push(letter);
            }
            // A subshell's list is part of the line's.
            ('(' | ')', None) => words.extend(word.take()),
            (_, None) if depth == 0 && !redirects && operator.is_some() => {
                let operator = operator.unwrap_or_default();
                at += operator.len() - letter.len_utf8();
                words.extend(word.take());
                commands.push((std::mem::take(&mut words), Some(operator)));
            }
            (_, None) if letter.is_whitespace() && depth == 0 => words.extend(word.take()),
            (_, Some(_) | None) => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    commands.push((words, None));
    commands
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, stages_known: bool, expected: &str) {
        let shown = must_have_succeeded(line, stages_known);
        let shown: Vec<String> = shown.iter().map(|words| words.join(" ")).collect();
        assert_eq!(shown.join(" + "), expected, "{line}");
    }

    #[test]
    fn only_a_command_whose_status_is_not_lost_is_shown() {
        check("cargo test", false, "cargo test");
        check("cd a && cargo test 2>&1", false, "cd a + cargo test 2>&1");
        check("cargo test | tail -5", false, "tail -5");
        check("cargo test | tail -5", true, "cargo test + tail -5");
        check("cargo test || true", true, "");
        check("cargo test || true; ls", true, "ls");
        check("cargo test; echo \"a; b\"", true, "echo a; b");
        check("cargo test;\n", true, "cargo test");
        check("make\ncargo test\n", true, "cargo test");
        check("(cd a && make test)", true, "cd a + make test");
        check("cargo test &", true, "");
        check("cargo test -j$(nproc; true) && ls", true, "cargo test -j$(nproc; true) + ls");
        check("cat <<E\ncargo test\nE", true, "");
        check("echo 'cargo test", true, "echo cargo test");
        check("", true, "");
    }
}
