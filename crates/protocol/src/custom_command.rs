//! Commands and skills: messages in Markdown files, with placeholders for arguments.

use std::path::PathBuf;

use super::directives::UserInput;

const ARGUMENTS: &str = "$ARGUMENTS";
/// Prefix of commands that are prompts of MCP servers: `mcp__server__prompt`.
pub const MCP_PROMPT_PREFIX: &str = "mcp__";
/// Placeholder for the skill's folder, in skills for Claude Code.
const SKILL_FOLDER: &str = "${CLAUDE_SKILL_DIR}";

/// A message that a file defines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CustomCommand {
    /// Without the slash.
    pub name: String,
    /// One line.
    pub description: String,
    pub argument_hint: String,
    /// Names of the arguments, in order: `$name` in the text is replaced.
    pub parameters: Vec<String>,
    pub text: String,
    /// Folder of a skill; `None` for a command.
    pub folder: Option<PathBuf>,
    /// The MCP server that has the text; the session requests it there.
    pub server: Option<String>,
}

/// A command that the model may load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skill {
    pub name: String,
    pub for_model: bool,
    pub for_user: bool,
    pub command: CustomCommand,
}

impl CustomCommand {
    /// The command with this name, or the only one with this last part: `commit` for `git:commit`.
    pub fn find<'a>(all: &'a [Self], name: &str) -> Option<&'a Self> {
        all.iter().find(|command| command.name == name).or_else(|| {
            let mut inner = all.iter().filter(|command| {
                command.name.rsplit_once(':').is_some_and(|(_, last)| last == name)
            });
            inner.next().filter(|_| inner.next().is_none())
        })
    }

    /// The text with its placeholders replaced.
    pub fn expand(&self, arguments: &str) -> String {
        let text = self.expand_pieces(arguments).concat();
        let Some(folder) = &self.folder else { return text };
        let folder = folder.display().to_string();
        let text = text.replace(SKILL_FOLDER, &folder);
        format!("Base directory of this skill: {folder}\n\n{text}")
    }

    /// The message for these arguments. Only the arguments in its text count as the user's own words.
    /// Mentions with `@` in the text of a command are read, those in the text of a skill are not.
    pub fn expand_to_message(&self, arguments: &str) -> UserInput {
        let mut message = UserInput::default();
        message.push_pasted(&format!("/{} ", self.name));
        message.text.push_str(arguments);
        message.trim_end();
        let prompt = self.expand(arguments);
        if self.folder.is_none() {
            message.mentions = find_mentions(&prompt);
        }
        message.prompt = Some(prompt);
        message
    }

    fn expand_pieces(&self, arguments: &str) -> Vec<String> {
        let mut rest = self.text.trim();
        let words = split_words(arguments);
        let mut pieces = Vec::new();
        let mut has_place = false;
        while let Some(at) = rest.find('$') {
            let (before, place) = rest.split_at(at);
            pieces.push(before.to_owned());
            if let Some((value, length)) = self.resolve_placeholder(place, arguments, &words) {
                has_place = true;
                pieces.push(value);
                rest = &place[length..];
            } else {
                pieces.push("$".to_owned());
                rest = &place[1..];
            }
        }
        pieces.push(rest.to_owned());
        if !has_place && !arguments.is_empty() {
            pieces.push(format!("\n\n{arguments}"));
        }
        pieces
    }

    /// The value of the placeholder at the beginning of `text`, and the length of its name. A
    /// placeholder without an argument stays: `$1` may belong to a script.
    fn resolve_placeholder(
        &self,
        text: &str,
        all: &str,
        words: &[String],
    ) -> Option<(String, usize)> {
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
pub fn split_words(line: &str) -> Vec<String> {
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

/// Mentions, each with its `@`.
fn find_mentions(text: &str) -> Vec<String> {
    let mut mentions = Vec::new();
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
        from = at + 1;
        if !is_address && length > 0 {
            from += length;
            mentions.push(text[at..from].to_owned());
        }
    }
    mentions
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(text: &str) -> CustomCommand {
        CustomCommand { name: "c".to_owned(), text: text.to_owned(), ..CustomCommand::default() }
    }

    #[test]
    fn custom_command_takes_arguments() {
        let sent = |text: &str, arguments: &str| command(text).expand(arguments);
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
        let named =
            CustomCommand { parameters: vec!["tag".into()], ..command("$tag $tags $tag-x") };
        assert_eq!(named.expand("v1"), "v1 $tags $tag-x");
    }

    #[test]
    fn words_of_the_file_are_not_the_users() {
        let message =
            command("Don't touch src.\n$ARGUMENTS").expand_to_message("Don't touch a.rs.");
        let sentences: Vec<String> = message.directives().into_iter().map(|(_, it)| it).collect();
        assert_eq!(sentences, ["Don't touch a.rs."]);
        assert_eq!(message.text, "/c Don't touch a.rs.");
        assert_eq!(message.model_text(), "Don't touch src.\nDon't touch a.rs.");
    }

    #[test]
    fn mentions_of_a_command_count_and_those_of_a_skill_do_not() {
        let text = "See @src/a.rs, x@y, @$1 and @\"b c\". Then";
        let expected = ["@src/a.rs,", "@new.rs", "@\"b c\""];
        assert_eq!(command(text).expand_to_message("new.rs").mentions, expected);
        let skill = CustomCommand { folder: Some("/s".into()), ..command(text) };
        assert!(skill.expand_to_message("new.rs").mentions.is_empty());
    }

    #[test]
    fn skill_text_is_only_for_the_model() {
        let skill = CustomCommand {
            name: "deploy".into(),
            folder: Some("/s/deploy".into()),
            ..command("Run ${CLAUDE_SKILL_DIR}/go $1")
        };
        let message = skill.expand_to_message("now");
        assert_eq!(message.text, "/deploy now");
        assert_eq!(
            message.model_text(),
            "Base directory of this skill: /s/deploy\n\nRun /s/deploy/go now"
        );
        assert_eq!(skill.expand_to_message("").text, "/deploy");
    }

    #[test]
    fn last_part_of_a_name_is_enough_if_it_is_unique() {
        let all = ["git:commit", "git:push", "hg:push", "push"]
            .map(|name| CustomCommand { name: name.into(), ..CustomCommand::default() });
        let found = |name: &str| CustomCommand::find(&all, name).map(|it| it.name.as_str());
        assert_eq!(found("commit"), Some("git:commit"));
        assert_eq!(found("push"), Some("push"));
        assert_eq!(CustomCommand::find(&all[..3], "push"), None);
        assert_eq!(found("git"), None);
    }
}
