//! Commands and skills: messages that people write as Markdown files, with places for arguments.

use std::path::PathBuf;

use super::directives::UserInput;

/// The place of all arguments.
const ARGUMENTS: &str = "$ARGUMENTS";
/// How the names of commands begin that are prompts of MCP servers: `mcp__server__prompt`.
pub const OF_SERVER: &str = "mcp__";
/// The place of a skill's folder, in skills that were written for another agent.
const SKILL_FOLDER: &str = "${CLAUDE_SKILL_DIR}";

/// A message that a file defines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnCommand {
    /// The name after the slash.
    pub name: String,
    /// A description in one line.
    pub description: String,
    /// The arguments that it takes, for display.
    pub argument_hint: String,
    /// Names of its arguments, in order: `$name` in the text is replaced.
    pub parameters: Vec<String>,
    /// The text, in which arguments are replaced.
    pub text: String,
    /// The folder of a skill; `None`: a command.
    pub folder: Option<PathBuf>,
    /// The MCP server that has its text, which the session asks for.
    pub server: Option<String>,
}

/// A skill.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skill {
    /// The name, by which the model loads it.
    pub name: String,
    /// The model may load it.
    pub for_model: bool,
    /// The user can call it as a command.
    pub for_user: bool,
    /// Its text.
    pub command: OwnCommand,
}

impl OwnCommand {
    /// The command that this name means: its own, or the last part of only one (`commit` for `git:commit`).
    pub fn find<'a>(all: &'a [Self], name: &str) -> Option<&'a Self> {
        all.iter().find(|command| command.name == name).or_else(|| {
            let mut inner = all.iter().filter(|command| {
                command.name.rsplit_once(':').is_some_and(|(_, last)| last == name)
            });
            inner.next().filter(|_| inner.next().is_none())
        })
    }

    /// The text for these arguments.
    pub fn filled(&self, arguments: &str) -> String {
        let pieces = self.pieces(arguments);
        self.with_folder(pieces.into_iter().map(|(piece, _)| piece).collect())
    }

    /// The message for these arguments. Only they count as the user's own words, and files that the text of a
    /// command mentions with `@`. The text of a skill is only for the model.
    pub fn message(&self, arguments: &str) -> UserInput {
        let mut message = UserInput::default();
        if self.folder.is_some() {
            message.push_pasted(&format!("/{} ", self.name));
            message.text.push_str(arguments);
            message.trim_end();
            message.prompt = Some(self.filled(arguments));
            return message;
        }
        for (piece, is_argument) in self.pieces(arguments) {
            if is_argument {
                message.text.push_str(&piece);
            } else {
                push_with_mentions(&mut message, &piece);
            }
        }
        message
    }

    fn with_folder(&self, text: String) -> String {
        match &self.folder {
            Some(folder) => {
                let folder = folder.display().to_string();
                let text = text.replace(SKILL_FOLDER, &folder);
                format!("Base directory of this skill: {folder}\n\n{text}")
            }
            None => text,
        }
    }

    /// The parts of the text in order; true: an argument.
    fn pieces(&self, arguments: &str) -> Vec<(String, bool)> {
        let mut rest = self.text.trim();
        let words = words(arguments);
        let mut pieces = Vec::new();
        let mut has_place = false;
        while let Some(at) = rest.find('$') {
            let (before, place) = rest.split_at(at);
            pieces.push((before.to_owned(), false));
            if let Some((value, length)) = self.place(place, arguments, &words) {
                has_place = true;
                pieces.push((value, true));
                rest = &place[length..];
            } else {
                pieces.push(("$".to_owned(), false));
                rest = &place[1..];
            }
        }
        pieces.push((rest.to_owned(), false));
        if !has_place && !arguments.is_empty() {
            pieces.push(("\n\n".to_owned(), false));
            pieces.push((arguments.to_owned(), true));
        }
        pieces
    }

    /// The value of the place at the beginning of `text`, and the length of its name. A place without an argument stays:
    /// `$1` may belong to a script.
    fn place(&self, text: &str, all: &str, words: &[String]) -> Option<(String, usize)> {
        if let Some(rest) = text.strip_prefix(ARGUMENTS) {
            let index = rest.strip_prefix('[').and_then(|rest| rest.split_once(']'));
            return match index.and_then(|(n, _)| Some((n, n.parse::<usize>().ok()?))) {
                Some((digits, n)) => {
                    let length = ARGUMENTS.len() + digits.len() + 2;
                    Some((words.get(n).cloned().unwrap_or_default(), length))
                }
                None => Some((all.to_owned(), ARGUMENTS.len())),
            };
        }
        let name = &text[1..];
        let is_part = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
        let digits = name.len() - name.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        if digits > 0 {
            let n: usize = name[..digits].parse().ok()?;
            return Some((words.get(n.checked_sub(1)?)?.clone(), digits + 1));
        }
        let (n, parameter) = self.parameters.iter().enumerate().find(|(_, parameter)| {
            let rest = name.strip_prefix(parameter.as_str());
            rest.is_some_and(|rest| !rest.starts_with(is_part))
        })?;
        Some((words.get(n)?.clone(), parameter.len() + 1))
    }
}

/// The words of a line, with quotes as in a shell.
pub fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let (mut word, mut quote): (Option<String>, Option<char>) = (None, None);
    for c in line.chars() {
        match quote {
            Some(open) if c == open => quote = None,
            None if c.is_whitespace() => words.extend(word.take()),
            // (An apostrophe within a word is none.)
            None if c == '"' || c == '\'' && word.is_none() => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            Some(_) | None => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

/// Adds a text of a file: its mentions of files count, its other words are not the user's.
fn push_with_mentions(message: &mut UserInput, mut text: &str) {
    let mut from = 0;
    while let Some(at) = text[from..].find('@').map(|at| from + at) {
        let before = text[..at].chars().next_back();
        let name = &text[at + 1..];
        let length = match name.strip_prefix('"').and_then(|quoted| quoted.find('"')) {
            Some(end) => end + 2,
            None => name
                .find(|c: char| c.is_whitespace() || "\"@`'<>|".contains(c))
                .unwrap_or(name.len()),
        };
        let is_address = before.is_some_and(|c| c.is_ascii_alphanumeric() || "_.+@/-".contains(c));
        if is_address || length == 0 {
            from = at + 1;
            continue;
        }
        message.push_pasted(&text[..at]);
        message.text.push_str(&text[at..=at + length]);
        text = &text[at + 1 + length..];
        from = 0;
    }
    message.push_pasted(text);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(text: &str) -> OwnCommand {
        OwnCommand { text: text.to_owned(), ..OwnCommand::default() }
    }

    #[test]
    fn custom_command_takes_arguments() {
        let sent = |text: &str, arguments: &str| command(text).message(arguments).text;
        assert_eq!(sent("Fix $ARGUMENTS now\n", "a.rs"), "Fix a.rs now");
        assert_eq!(sent("Review.\n", "a.rs"), "Review.\n\na.rs");
        assert_eq!(sent("Review.\n", ""), "Review.");
        assert_eq!(sent("$1: $2, $2", "one 'two words' three"), "one: two words, two words");
        assert_eq!(sent("$ARGUMENTS[1]/$ARGUMENTS[0]", "a b"), "b/a");
        // No such argument: it belongs to a script.
        assert_eq!(sent("awk '{print $1}' of $ARGUMENTS", ""), "awk '{print $1}' of ");
        assert_eq!(sent("costs $5 or $USD", "a"), "costs $5 or $USD\n\na");
        // Places in arguments are not replaced.
        assert_eq!(sent("$1 $2", "'$2' '$1'"), "$2 $1");
        let named = OwnCommand { parameters: vec!["tag".into()], ..command("$tag $tags $tag-x") };
        assert_eq!(named.message("v1").text, "v1 $tags $tag-x");
    }

    #[test]
    fn words_of_the_file_are_not_the_users() {
        let message = command("Don't touch src.\n$ARGUMENTS").message("Don't touch a.rs.");
        let sentences: Vec<String> = message.directives().into_iter().map(|(_, it)| it).collect();
        assert_eq!(sentences, ["Don't touch a.rs."]);
        let message = command("See @src/a.rs, x@y and @\"b c\". Then").message("");
        assert_eq!(message.text, "See @src/a.rs, x@y and @\"b c\". Then");
        assert_eq!(message.typed(), "\n@src/a.rs,\n@\"b c\"\n");
    }

    #[test]
    fn skill_text_is_only_for_the_model() {
        let skill = OwnCommand {
            name: "deploy".into(),
            folder: Some("/s/deploy".into()),
            ..command("Run ${CLAUDE_SKILL_DIR}/go $1")
        };
        let message = skill.message("now");
        assert_eq!(message.text, "/deploy now");
        assert_eq!(
            message.for_model(),
            "Base directory of this skill: /s/deploy\n\nRun /s/deploy/go now"
        );
        assert_eq!(skill.message("").text, "/deploy");
    }

    #[test]
    fn last_part_of_a_name_is_enough_if_it_is_unique() {
        let all = ["git:commit", "git:push", "hg:push", "push"]
            .map(|name| OwnCommand { name: name.into(), ..OwnCommand::default() });
        let found = |name: &str| OwnCommand::find(&all, name).map(|it| it.name.as_str());
        assert_eq!(found("commit"), Some("git:commit"));
        assert_eq!(found("push"), Some("push"));
        assert_eq!(OwnCommand::find(&all[..3], "push"), None);
        assert_eq!(found("git"), None);
    }
}
