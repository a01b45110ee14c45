//! Permission rules in the syntax of Claude Code, as rules of ours.
//!
//! Tools have other names, `/src` is in the project and `//etc` in the file system, and commands without `*`
//! match no further words when they are allowed.

use super::RuleAction;
use super::rule::{self, Rule};
use agent_protocol::hook::claude_names::native_tool_name;
use agent_protocol::tool::CHANGE_TOOLS;
use agent_protocol::web::WEB_FETCH;

const PATH_TOOLS: [&str; 4] = ["Read", "Glob", "Grep", "LS"];

/// A rule of Claude Code: a tool, under our name, and a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaudeRule {
    /// One of our tools, `mcp__server`, `mcp__server__tool`, or an unknown name.
    pub tool: String,
    pattern: Option<String>,
}

impl ClaudeRule {
    /// Parses several rules, separated by commas or blanks.
    pub fn parse_all(text: &str) -> Result<Vec<Self>, String> {
        let parse = |piece: &str| {
            let (name, pattern) = match piece.split_once('(') {
                None => (piece, None),
                Some((name, rest)) => {
                    let pattern = rest.strip_suffix(')').ok_or_else(|| syntax_error(piece))?;
                    (name, Some(pattern.trim().to_owned()))
                }
            };
            let is_name = name.starts_with(|char: char| char.is_ascii_alphabetic())
                && name.chars().all(rule::is_rule_name_char);
            if !is_name {
                return Err(syntax_error(piece));
            }
            Ok(Self { tool: native_tool_name(name).to_owned(), pattern })
        };
        rule::split_rules(text).into_iter().map(parse).collect()
    }

    /// Whether the rule matches every call of its tool.
    pub fn is_bare(&self) -> bool {
        self.pattern.is_none()
    }

    /// The rule in our syntax, as one or several rules.
    pub fn to_native_rules(&self, verb: RuleAction) -> Result<Vec<String>, String> {
        let Self { tool, pattern } = self;
        if let Some(rest) = tool.strip_prefix("mcp__") {
            if pattern.is_some() {
                return Err(format!("{tool} takes no pattern: a rule is about all of its calls"));
            }
            // The name that the model calls.
            return Ok(vec![match rest.split_once("__") {
                Some(_) => format!("mcp({tool})"),
                None if rest == "*" => "mcp".to_owned(),
                None => format!("mcp({tool}__*)"),
            }]);
        }
        let Some(pattern) = pattern else { return Ok(vec![tool.clone()]) };
        let patterns = match tool.as_str() {
            "Bash" if verb == RuleAction::Allow && !pattern.ends_with('*') => {
                vec![format!("{pattern} $")]
            }
            "Bash" if verb != RuleAction::Allow => expand_wildcards(pattern),
            // The rest is about its arguments.
            "Skill" => {
                let name = pattern.strip_suffix(":*").or_else(|| pattern.strip_suffix(" *"));
                vec![name.unwrap_or(pattern).to_owned()]
            }
            "Task" => vec![native_role(pattern).to_owned()],
            WEB_FETCH => vec![pattern.strip_prefix("domain:").unwrap_or(pattern).to_owned()],
            tool if PATH_TOOLS.contains(&tool) || CHANGE_TOOLS.contains(&tool) => {
                vec![native_path(pattern)]
            }
            _ => vec![pattern.clone()],
        };
        let texts = patterns.into_iter().map(|pattern| format!("{tool}({pattern})"));
        texts.map(|text| Rule::parse(&text).map(|_| text)).collect()
    }
}

const MAX_PATTERNS: usize = 16;

/// In Claude Code `*` matches several words; in our rules it does so only alone.
fn expand_wildcards(pattern: &str) -> Vec<String> {
    let mut patterns = vec![String::new()];
    let words: Vec<&str> = pattern.split_whitespace().collect();
    for (n, word) in words.iter().enumerate() {
        let is_last = n + 1 == words.len();
        let core = if is_last { word.strip_suffix(":*").unwrap_or(word) } else { word };
        let inner = core.trim_matches('*');
        let mut ways = vec![(*word).to_owned()];
        if !inner.is_empty() && inner.len() < core.len() || inner.contains('*') {
            let before = if core.starts_with('*') { "* " } else { "" };
            let after = if core.ends_with('*') && !is_last { " *" } else { "" };
            ways = vec![format!("{before}{word}{after}")];
            // The parts around `*` may be in different words. (More of them would be too many combinations.)
            if let Some((begin, rest)) =
                inner.split_once('*').filter(|_| patterns.len() < MAX_PATTERNS)
            {
                let end = rest.rsplit_once('*').map_or(rest, |(_, end)| end);
                let lead = if before.is_empty() { "" } else { "*" };
                let trail = if core.ends_with('*') { "*" } else { "" };
                ways.push(format!("{before}{lead}{begin}* * *{end}{trail}{after}"));
            }
        }
        let joined = |begin: &String, way: &String| format!("{begin} {way}").trim().to_owned();
        patterns = patterns
            .iter()
            .flat_map(|begin| ways.iter().map(|way| joined(begin, way)).collect::<Vec<_>>())
            .collect();
    }
    patterns
}

fn syntax_error(piece: &str) -> String {
    format!(
        "`{piece}` is not a rule: write `Tool` or `Tool(pattern)`, for instance `Bash(git log *)`; a task goes before \
         this option"
    )
}

fn native_role(name: &str) -> &str {
    match name {
        "Explore" => "explore",
        "Plan" => "plan",
        "general-purpose" => "general",
        other => other,
    }
}

fn native_path(pattern: &str) -> String {
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
    fn star_of_a_rule_that_denies_matches_several_words() {
        let fits = |foreign: &str, command: &str| {
            let rules = ClaudeRule::parse_all(foreign).expect(foreign);
            let words: Vec<String> = command.split(' ').map(ToOwned::to_owned).collect();
            let texts = rules
                .iter()
                .flat_map(|rule| rule.to_native_rules(RuleAction::Deny).expect(foreign));
            texts.map(|text| Rule::parse(&text).expect(foreign)).any(|rule| rule.fits_words(&words))
        };
        for (rule, command) in [
            ("Bash(git push *--force*)", "git push origin main --force-with-lease"),
            ("Bash(git push *--force*)", "git push --force"),
            ("Bash(*--no-verify*)", "git commit -m x --no-verify"),
            ("Bash(*curl*)", "sudo /usr/bin/curl x"),
            ("Bash(git* --hard)", "git -C x reset --hard"),
            ("Bash(npm*publish)", "npm -w a publish"),
            ("Bash(npm*publish)", "npm-publish"),
            ("Bash(rm:*)", "rm -rf x"),
            ("Bash(git push)", "git push origin"),
        ] {
            assert!(fits(rule, command), "{rule} {command}");
        }
        for (rule, command) in [
            ("Bash(git push *--force*)", "git push origin main"),
            ("Bash(npm*publish)", "npm run build"),
            ("Bash(*curl*)", "wget x"),
        ] {
            assert!(!fits(rule, command), "{rule} {command}");
        }
    }

    #[test]
    fn rules_mean_the_same_in_our_syntax() {
        let check = |verb: RuleAction, foreign: &str, expected: &[&str]| {
            let rules = ClaudeRule::parse_all(foreign).expect(foreign);
            let texts: Vec<String> =
                rules.iter().flat_map(|rule| rule.to_native_rules(verb).expect(foreign)).collect();
            assert_eq!(texts, expected, "{foreign}");
        };
        let allow = |foreign: &str, expected: &[&str]| check(RuleAction::Allow, foreign, expected);
        allow("Read,Edit Bash", &["Read", "Edit", "Bash"]);
        allow("Bash(git:*),Bash(npm run test *)", &["Bash(git:*)", "Bash(npm run test *)"]);
        allow("Bash(npm run build)", &["Bash(npm run build $)"]);
        check(RuleAction::Deny, "Bash(rm)", &["Bash(rm)"]);
        allow("Read(//etc/hosts) Read(/src/**)", &["Read(/etc/hosts)", "Read(./src/**)"]);
        allow("Edit(~/x/*),Write(docs/**)", &["Edit(~/x/*)", "Write(docs/**)"]);
        allow("mcp__git__log", &["mcp(mcp__git__log)"]);
        let servers = ["mcp(mcp__git__*)", "mcp(mcp__git__*)", "mcp"];
        allow("mcp__git,mcp__git__*,mcp__*", &servers);
        allow("AskUserQuestion KillShell", &["AskUser", "BashKill"]);
        allow("Agent(Explore),Task(reviewer)", &["Task(explore)", "Task(reviewer)"]);
        allow("WebFetch(domain:docs.rs) WebSearch", &["WebFetch(docs.rs)", "WebSearch"]);
        allow("Skill(pdf),Skill(pdf:*),Skill(pdf *)", &["Skill(pdf)"; 3]);
        for wrong in ["Bash(", "fix the bug!", "(x)", "Read()", "mcp__db__query(SELECT *)"] {
            let rules = ClaudeRule::parse_all(wrong);
            let texts = rules
                .and_then(|it| it.iter().map(|it| it.to_native_rules(RuleAction::Deny)).collect());
            let texts: Result<Vec<Vec<String>>, String> = texts;
            texts.expect_err(wrong);
        }
    }
}
