//! Permission rules in the syntax of Claude Code, as rules of ours.
//!
//! The same where both mean the same. The differences: names of tools, paths from the project's root (`/src`) and from
//! that of the file system (`//etc`), and commands without `*`, which match no further words when they are allowed.

use super::Verb;
use super::rule::{self, Rule};
use crate::protocol::tool::CHANGE_TOOLS;

/// What rules of Claude Code call our tools.
const TOOLS: &[(&str, &str)] = &[
    ("Agent", "Task"),
    ("AskUserQuestion", "AskUser"),
    ("KillBash", "BashKill"),
    ("KillShell", "BashKill"),
    ("NotebookRead", "Read"),
    ("TaskOutput", "BashOutput"),
    ("TaskStop", "BashKill"),
];

/// Our tools whose patterns are paths.
const OF_PATHS: [&str; 4] = ["Read", "Glob", "Grep", "LS"];

/// A rule: the tool as we call it, and the pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForeignRule {
    /// The tool: one of ours, `mcp__server`, `mcp__server__tool`, or an unknown one.
    pub tool: String,
    pattern: Option<String>,
}

impl ForeignRule {
    /// Parses several rules, separated by commas or blanks.
    pub fn parse_all(text: &str) -> Result<Vec<Self>, String> {
        let parse = |piece: &str| {
            let (name, pattern) = match piece.split_once('(') {
                None => (piece, None),
                Some((name, rest)) => {
                    let pattern = rest.strip_suffix(')').ok_or_else(|| wrong(piece))?;
                    (name, Some(pattern.trim().to_owned()))
                }
            };
            if !is_name(name) {
                return Err(wrong(piece));
            }
            Ok(Self { tool: own_tool(name).to_owned(), pattern })
        };
        rule::pieces(text).into_iter().map(parse).collect()
    }

    /// It is about every call of its tool.
    pub fn is_bare(&self) -> bool {
        self.pattern.is_none()
    }

    /// The rule in our syntax.
    pub fn text(&self, verb: Verb) -> Result<String, String> {
        let Self { tool, pattern } = self;
        if let Some(rest) = tool.strip_prefix("mcp__") {
            let whole = rest.split_once("__").filter(|(_, name)| *name != "*");
            return Ok(match whole {
                Some((server, name)) => format!("mcp({server}.{name})"),
                None if rest == "*" => "mcp".to_owned(),
                None => format!("mcp({}.*)", rest.trim_end_matches("__*")),
            });
        }
        let Some(pattern) = pattern else { return Ok(tool.clone()) };
        let pattern = match tool.as_str() {
            "Bash" if verb == Verb::Allow && !pattern.ends_with('*') => format!("{pattern} $"),
            "Skill" => pattern.replace(":*", "*"),
            "Task" => own_role(pattern).to_owned(),
            tool if OF_PATHS.contains(&tool) || CHANGE_TOOLS.contains(&tool) => own_path(pattern),
            _ => pattern.clone(),
        };
        let text = format!("{tool}({pattern})");
        Rule::parse(&text).map(|_| text)
    }
}

fn wrong(piece: &str) -> String {
    format!(
        "`{piece}` is not a rule: write `Tool` or `Tool(pattern)`, for instance `Bash(git log *)`; a task goes before \
         this option"
    )
}

fn is_name(text: &str) -> bool {
    let is_of_name = |char: char| char.is_ascii_alphanumeric() || "_-*".contains(char);
    text.starts_with(|char: char| char.is_ascii_alphabetic()) && text.chars().all(is_of_name)
}

/// What we call a tool of Claude Code.
pub fn own_tool(name: &str) -> &str {
    TOOLS.iter().find(|(foreign, _)| *foreign == name).map_or(name, |(_, own)| own)
}

/// What we call a built-in role of Claude Code.
fn own_role(name: &str) -> &str {
    match name {
        "Explore" => "explore",
        "Plan" => "plan",
        "general-purpose" => "general",
        other => other,
    }
}

fn own_path(pattern: &str) -> String {
    match pattern.strip_prefix('/') {
        Some(absolute) if absolute.starts_with('/') => absolute.to_owned(),
        Some(in_project) => format!("./{in_project}"),
        None => pattern.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_mean_the_same_in_our_syntax() {
        let check = |verb: Verb, foreign: &str, expected: &[&str]| {
            let rules = ForeignRule::parse_all(foreign).expect(foreign);
            let texts: Vec<String> =
                rules.iter().map(|rule| rule.text(verb).expect(foreign)).collect();
            assert_eq!(texts, expected, "{foreign}");
        };
        let allow = |foreign: &str, expected: &[&str]| check(Verb::Allow, foreign, expected);
        allow("Read,Edit Bash", &["Read", "Edit", "Bash"]);
        allow("Bash(git:*),Bash(npm run test *)", &["Bash(git:*)", "Bash(npm run test *)"]);
        allow("Bash(npm run build)", &["Bash(npm run build $)"]);
        check(Verb::Deny, "Bash(rm)", &["Bash(rm)"]);
        allow("Read(//etc/hosts) Read(/src/**)", &["Read(/etc/hosts)", "Read(./src/**)"]);
        allow("Edit(~/x/*),Write(docs/**)", &["Edit(~/x/*)", "Write(docs/**)"]);
        allow("mcp__git__log", &["mcp(git.log)"]);
        allow("mcp__git,mcp__git__*,mcp__*", &["mcp(git.*)", "mcp(git.*)", "mcp"]);
        allow("AskUserQuestion KillShell", &["AskUser", "BashKill"]);
        allow("Agent(Explore),Task(reviewer)", &["Task(explore)", "Task(reviewer)"]);
        allow("Skill(pdf),Skill(pdf:*)", &["Skill(pdf)", "Skill(pdf*)"]);
        for wrong in ["Bash(", "fix the bug!", "(x)", "Read()"] {
            let rules = ForeignRule::parse_all(wrong);
            let texts = rules.and_then(|it| it.iter().map(|it| it.text(Verb::Deny)).collect());
            let texts: Result<Vec<String>, String> = texts;
            texts.expect_err(wrong);
        }
    }
}
