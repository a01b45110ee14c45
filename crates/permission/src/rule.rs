//! Permission rules: `Tool` or `Tool(pattern)`.

use std::borrow::Cow;
use std::ffi::OsString;

use globset::{GlobBuilder, GlobMatcher};

use super::PathFacts;
use super::judge::Command;
use agent_protocol::tool::{CHANGE_TOOLS, mcp_tool_name};
use agent_protocol::web::{WEB_FETCH, WEB_SEARCH, normalize_host};
use agent_protocol::{has_too_many_braces, typed_name, unescape_path};

/// What a rule decides about the calls that it matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleAction {
    Allow,
    Ask,
    Deny,
}

/// The source of a rule. The command line takes precedence over files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleOrigin {
    /// The machine's administrator: where it asks, nothing allows.
    Policy,
    /// `--allow`, `--ask`, `--deny`.
    CommandLine,
    /// Options in the syntax of Claude Code, where a rule that asks outranks one that allows.
    Compatible,
    UserFile,
    ProjectFile,
    /// The user, during the session; the number of the session rule.
    Session(u32),
}

/// The name of the tools of all MCP servers in rules: `mcp(server.tool)`.
pub const MCP: &str = "mcp";

const NAME_TOOLS: [&str; 3] = [MCP, "Skill", "Task"];

const NO_HOST: &str = "it names a host without scheme, port and path, like `WebFetch(docs.rs)` or `WebFetch(*.docs.rs)`";

/// `Tool` or `Tool(pattern)`.
#[derive(Clone, Debug)]
pub struct Rule {
    tool: String,
    pattern: RulePattern,
    link_target_pattern: Option<RulePattern>,
    text: String,
}

#[derive(Clone, Debug)]
enum RulePattern {
    Any,
    /// The leading words of a simple command; `*` matches any words.
    Words(Vec<String>),
    AllWords(Vec<String>),
    Files,
    Path(Box<PathPattern>),
    /// Names of skills, of roles, of hosts, of the tools of MCP servers (`server.tool`).
    Name(Box<GlobMatcher>),
}

#[derive(Clone, Debug)]
struct PathPattern {
    text: String,
    glob: GlobMatcher,
    /// `None` if the pattern cannot name a directory.
    below: Option<GlobMatcher>,
    base: PatternBase,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PatternBase {
    Project,
    Home,
    Root,
}

/// The project and home directories, which patterns may be relative to.
#[derive(Clone, Debug, Default)]
pub struct PathRoots {
    pub project: String,
    pub home: Option<String>,
}

impl PathRoots {
    fn absolute(&self, path: &str) -> String {
        match (path.strip_prefix('~'), &self.home) {
            (Some(below), Some(home)) => format!("{home}{below}"),
            _ if path.starts_with('/') => path.to_owned(),
            _ if path == "." => self.project.clone(),
            _ => format!("{}/{path}", self.project),
        }
    }

    pub(super) fn expand(&self, path: &str) -> String {
        if path.starts_with('~') { self.absolute(path) } else { path.to_owned() }
    }

    fn below_home(&self, path: &str) -> Option<String> {
        let absolute = self.absolute(path);
        let below = absolute.strip_prefix(self.home.as_deref()?)?;
        below.starts_with('/').then(|| format!("~{below}"))
    }
}

impl Rule {
    /// Parses `Tool` or `Tool(pattern)`. For Bash the pattern is the leading words of a simple
    /// command: `cargo test` matches `cargo test --lib`; `*` matches any words, inside a word any
    /// characters, and `rm:*` is `rm *`; a last `$` matches no further words. For other tools the
    /// pattern is a glob over paths from the project root, the home (`~/`) or `/`; a glob without
    /// `/` matches in any directory, `./a` only in the root. A rule with a glob for one tool that
    /// changes files applies to all of them. For `WebFetch` it is a host; `*.docs.rs` are its subdomains.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = |why: &str| {
            format!(
                "`{text}` is not a rule: {why}; write `Tool` or `Tool(pattern)`, for instance \
                 `Bash(cargo test *)` or `Write(src/**)`"
            )
        };
        let trimmed = text.trim();
        let (tool, pattern) = match trimmed.split_once('(') {
            None => (trimmed, None),
            Some((tool, rest)) => {
                let pattern = rest.strip_suffix(')').ok_or_else(|| wrong("the `)` is missing"))?;
                (tool, Some(pattern.trim()))
            }
        };
        let is_name = tool.starts_with(|char: char| char.is_ascii_alphabetic())
            && tool.chars().all(is_tool_name_char);
        if !is_name {
            return Err(wrong("it does not begin with a tool's name"));
        }
        let is_about_files = tool == "Read" || CHANGE_TOOLS.contains(&tool);
        let pattern = match pattern {
            Some("") => return Err(wrong("the pattern is empty")),
            None => RulePattern::Any,
            Some("*" | "**") if !is_about_files => RulePattern::Any,
            Some(_) if matches!(tool, "TodoWrite" | "AskUser" | WEB_SEARCH) => {
                return Err(wrong(&format!("{tool} takes no pattern")));
            }
            Some(words) if tool == "Bash" => {
                let words = words.split_ascii_whitespace().map(ToOwned::to_owned);
                let mut words: Vec<String> = words.collect();
                match words.pop_if(|last| last == "$") {
                    Some(_) => RulePattern::AllWords(words),
                    None => RulePattern::Words(words),
                }
            }
            Some(glob) if NAME_TOOLS.contains(&tool) || tool == WEB_FETCH => {
                let host = || normalize_host(glob).ok_or_else(|| wrong(NO_HOST));
                let host = if tool == WEB_FETCH { Some(host()?) } else { None };
                let glob = host.as_deref().unwrap_or(glob);
                let glob = globset::Glob::new(glob).map_err(|error| wrong(&error.to_string()))?;
                RulePattern::Name(Box::new(glob.compile_matcher()))
            }
            Some(glob) => {
                let glob = normalize_glob(glob).map_err(|why| wrong(&why))?;
                RulePattern::from_glob(&glob).map_err(|why| wrong(&why))?
            }
        };
        let (tool, text) = (tool.to_owned(), trimmed.to_owned());
        Ok(Self { tool, pattern, link_target_pattern: None, text })
    }

    /// Parses several rules, separated by commas or blanks.
    pub fn parse_all(text: &str) -> Result<Vec<Self>, String> {
        split_rules(text).into_iter().map(Self::parse).collect()
    }

    /// Also matches the target of symlinks before the first `*` of the pattern.
    #[must_use]
    pub(super) fn with_link_targets(mut self, facts: &dyn PathFacts) -> Self {
        if let RulePattern::Path(paths) = &self.pattern {
            self.link_target_pattern = resolve_links_in_glob(&paths.text, facts)
                .and_then(|glob| RulePattern::from_glob(&glob).ok());
        }
        self
    }

    /// The tool that the rule is about.
    pub fn tool(&self) -> &str {
        &self.tool
    }

    /// The text from which the rule was parsed.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// A pattern that ends with `*` still matches further words.
    #[must_use]
    pub(super) fn without_further_words(mut self) -> Self {
        if let RulePattern::Words(words) = self.pattern {
            self.pattern = RulePattern::AllWords(words);
        }
        self
    }

    pub(super) fn is_bare(&self) -> bool {
        matches!(self.pattern, RulePattern::Any)
    }

    pub(super) fn matches_any_file(&self) -> bool {
        matches!(self.pattern, RulePattern::Any | RulePattern::Files)
    }

    pub(super) fn fits_path(&self, path: &str, places: &PathRoots) -> bool {
        self.fits_glob(path, places, |paths| Some(&paths.glob))
    }

    /// Also matches a directory above the path: for rules that deny or ask.
    pub(super) fn covers_path(&self, path: &str, places: &PathRoots) -> bool {
        self.fits_path(path, places) || self.fits_glob(path, places, |paths| paths.below.as_ref())
    }

    fn fits_glob(
        &self,
        path: &str,
        places: &PathRoots,
        glob: impl Fn(&PathPattern) -> Option<&GlobMatcher>,
    ) -> bool {
        [Some(&self.pattern), self.link_target_pattern.as_ref()].into_iter().flatten().any(
            |pattern| {
                let paths = match pattern {
                    RulePattern::Any | RulePattern::Files => return true,
                    RulePattern::Path(paths) => paths,
                    _ => return false,
                };
                let path = match paths.base {
                    PatternBase::Project => Some(path.into()),
                    PatternBase::Root => Some(Cow::Owned(places.absolute(path))),
                    PatternBase::Home => places.below_home(path).map(Cow::Owned),
                };
                // (Names that are not UTF-8 are shown escaped.)
                glob(paths).zip(path).is_some_and(|(glob, path)| {
                    glob.is_match(&*typed_name(&path))
                        || unescape_path(&path).is_some_and(|raw| glob.is_match(raw))
                })
            },
        )
    }

    /// `server.tool` matches, or the name that the model calls.
    pub(super) fn fits_mcp_tool(&self, server: &str, tool: &str) -> bool {
        self.fits_name(&format!("{server}.{tool}")) || self.fits_name(&mcp_tool_name(server, tool))
    }

    pub(super) fn fits_name(&self, name: &str) -> bool {
        match &self.pattern {
            RulePattern::Any => true,
            RulePattern::Name(glob) => glob.is_match(name),
            _ => false,
        }
    }

    /// The pattern is this name itself, without `*`.
    pub(super) fn is_name(&self, name: &str) -> bool {
        matches!(&self.pattern, RulePattern::Name(glob) if glob.glob().glob() == name)
    }

    pub(super) fn fits_words(&self, words: &[String]) -> bool {
        self.matches_words(words.len(), |part, n| word_fits(part, &words[n]), |_| false)
    }

    /// The position of the command's options is ignored: for rules that deny or ask.
    pub(super) fn fits_command(&self, command: &Command) -> bool {
        let fits = |part: &str, n: usize| word_fits(part, &command.words[n].text);
        self.fits_words(&command.source_words())
            || self.matches_words(command.words.len(), fits, |n| command.is_option_at(n))
    }

    fn matches_words(
        &self,
        n_words: usize,
        fits: impl Fn(&str, usize) -> bool,
        skip: impl Fn(usize) -> bool,
    ) -> bool {
        match &self.pattern {
            RulePattern::Any => true,
            RulePattern::Words(pattern) => match_words(pattern, n_words, false, fits, skip),
            RulePattern::AllWords(pattern) => match_words(pattern, n_words, true, fits, skip),
            _ => false,
        }
    }

    /// `src`, `src/` and `src/**` are the directory; `None` for other patterns.
    pub(super) fn literal_path(&self) -> Option<String> {
        let RulePattern::Path(paths) = &self.pattern else { return None };
        let path = paths.text.trim_end_matches("**").trim_end_matches('/');
        let path = path.strip_prefix("./").unwrap_or(path);
        literal_of_glob(path).filter(|path| !path.is_empty())
    }

    /// The pattern that matches this path only; a folder ends with `/`.
    pub fn path_pattern(path: &str) -> String {
        let root = if path.starts_with('/') { "" } else { "./" };
        format!("{root}{}", globset::escape(path).replace('\\', "[\\]"))
    }
}

impl RulePattern {
    fn from_glob(text: &str) -> Result<Self, String> {
        if matches!(text, "*" | "**" | "./") {
            return Ok(Self::Files);
        }
        let start = match text {
            _ if text.starts_with('/') => PatternBase::Root,
            _ if text.starts_with("~/") => PatternBase::Home,
            _ => PatternBase::Project,
        };
        let last = text.rsplit('/').next().unwrap_or_default();
        let is_name = !last.is_empty() && literal_of_glob(last).is_some();
        let below = is_name.then(|| compile_path_glob(text, "/**")).transpose()?;
        let glob = compile_path_glob(text, "")?;
        Ok(Self::Path(Box::new(PathPattern { text: text.to_owned(), glob, below, base: start })))
    }
}

/// Rules are separated by commas or blanks. There is at least one, which may be wrong.
pub(super) fn split_rules(text: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut rest = text.trim_matches(is_between_rules);
    loop {
        let n_name = rest.find(|char| !is_rule_name_char(char)).unwrap_or(rest.len());
        let mut ends = std::iter::once(n_name).chain(rest.match_indices(')').map(|(at, _)| at + 1));
        let is_end = |at: &usize| {
            let after = &rest[*at..];
            let next = after.trim_start_matches(is_between_rules);
            after.is_empty() || next.len() < after.len() && starts_rule(next)
        };
        let end = ends.find(is_end).unwrap_or(rest.len());
        pieces.push(&rest[..end]);
        rest = rest[end..].trim_start_matches(is_between_rules);
        if rest.is_empty() {
            return pieces;
        }
    }
}

/// `*` occurs in rules of other agents: `mcp__server__*`.
pub(super) fn is_rule_name_char(char: char) -> bool {
    is_tool_name_char(char) || char == '*'
}

fn is_tool_name_char(char: char) -> bool {
    char.is_ascii_alphanumeric() || matches!(char, '_' | '-')
}

fn is_between_rules(char: char) -> bool {
    char.is_whitespace() || char == ','
}

/// A pattern, another rule or nothing follows the name.
fn starts_rule(text: &str) -> bool {
    let after = text.trim_start_matches(is_rule_name_char);
    let is_name =
        after.len() < text.len() && text.starts_with(|char: char| char.is_ascii_alphabetic());
    after.is_empty() || is_name && after.starts_with(|char| char == '(' || is_between_rules(char))
}

/// `src/./a//b` is `src/a/b`, and `.` the project. The error: why the glob cannot match anything.
fn normalize_glob(glob: &str) -> Result<String, String> {
    let quotes = ['"', '\'', '`'];
    if glob.starts_with(quotes) || glob.ends_with(quotes) {
        return Err("write the path without quotes".to_owned());
    }
    if glob.starts_with("//") {
        return Err("a path from the root of all begins with one `/`".to_owned());
    }
    let mut depth = 0_usize;
    for char in glob.chars() {
        depth = match char {
            '(' => depth + 1,
            ')' => depth
                .checked_sub(1)
                .ok_or("a `)` ends it; write one rule, a blank or comma, and the next")?,
            _ => depth,
        };
    }
    let name = glob.trim_end_matches('/');
    let (begin, rest) = match glob {
        "~" => ("~/", ""),
        _ if glob.starts_with('/') => ("/", &glob[1..]),
        _ if glob.starts_with("~/") => ("~/", &glob[2..]),
        // A single name matches in any directory.
        _ if name.contains('/') || matches!(name, "." | "..") => ("./", glob),
        _ => ("", glob),
    };
    let mut parts: Vec<&str> = Vec::new();
    for part in rest.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|part| !part.contains("**")) => _ = parts.pop(),
            ".." if begin == "/" && parts.is_empty() => {}
            ".." => {
                return Err(
                    "its `..` leads out of the project; a path outside begins with `/` or `~/`"
                        .to_owned(),
                );
            }
            _ => parts.push(part),
        }
    }
    let end = if rest.ends_with('/') && !parts.is_empty() { "/" } else { "" };
    Ok(format!("{begin}{}{end}", parts.join("/")))
}

/// `[x]` is an escaped character. `None` if the glob matches several texts.
fn literal_of_glob(glob: &str) -> Option<String> {
    let mut text = String::with_capacity(glob.len());
    let mut rest = glob.chars();
    while let Some(char) = rest.next() {
        match char {
            '[' => match (rest.next()?, rest.next()?) {
                ('!' | '^', _) => return None,
                (escaped, ']') => text.push(escaped),
                _ => return None,
            },
            '*' | '?' | '{' | '\\' => return None,
            char => text.push(char),
        }
    }
    Some(text)
}

fn resolve_links_in_glob(glob: &str, facts: &dyn PathFacts) -> Option<String> {
    let name = glob.trim_end_matches('/');
    let (begin, rest) = match (literal_of_glob(name), glob.find(['*', '?', '[', '{', '\\'])) {
        (Some(path), _) => (path, &glob[name.len()..]),
        (None, at) => {
            let (begin, rest) = glob.split_at(glob[..at?].rfind('/')?);
            (begin.to_owned(), rest)
        }
    };
    let begin = begin.strip_prefix("./").unwrap_or(&begin);
    let real =
        Some(facts.resolve_links(begin)).filter(|real| real != begin && !begin.is_empty())?;
    let raw = unescape_path(&real).map_or(Ok(real.clone()), OsString::into_string).ok()?;
    Some(match real.as_str() {
        "." => format!(".{}", if rest.is_empty() { "/" } else { rest }),
        _ if raw.starts_with('/') => format!("{}{rest}", globset::escape(&raw)),
        _ => format!("./{}{rest}", globset::escape(&raw)),
    })
}

fn compile_path_glob(pattern: &str, below: &str) -> Result<GlobMatcher, String> {
    if has_too_many_braces(pattern) {
        return Err("its braces are nested too deeply".to_owned());
    }
    let from_root = pattern.strip_prefix("./");
    let mut glob = from_root.unwrap_or(pattern).to_owned();
    if glob.ends_with('/') {
        glob.push_str("**");
    }
    if from_root.is_none() && !glob.contains('/') {
        glob.insert_str(0, "**/");
    }
    glob.push_str(below);
    // File tools find a file by the name as it is typed.
    let glob = GlobBuilder::new(&typed_name(&glob)).literal_separator(true).build();
    glob.map(|glob| glob.compile_matcher()).map_err(|error| error.to_string())
}

/// `is_whole`: no further words may follow. `fits` compares a part of the pattern with a word;
/// words for which `skip` is true may occur in between.
fn match_words(
    pattern: &[String],
    n_words: usize,
    is_whole: bool,
    fits: impl Fn(&str, usize) -> bool,
    skip: impl Fn(usize) -> bool,
) -> bool {
    let n_parts = pattern.len();
    // The number of parts that may be matched before this word, and before the next.
    let mut here = vec![false; n_parts + 1];
    let mut next = here.clone();
    here[0] = true;
    for n in 0..=n_words {
        for at in 0..=n_parts {
            if !here[at] {
                continue;
            }
            let Some(part) = pattern.get(at) else {
                if !is_whole || n == n_words {
                    return true;
                }
                continue;
            };
            if part == "*" {
                here[at + 1] = true;
                next[at] = true;
                continue;
            }
            if n == n_words {
                continue;
            }
            // `rm:*` means `rm *`.
            let open = part.strip_suffix(":*").filter(|_| at + 1 == n_parts);
            if open.is_some_and(|open| fits(open, n)) {
                return true;
            }
            next[at + 1] |= fits(part, n);
            next[at] |= at > 0 && skip(n);
        }
        if !next.contains(&true) {
            return false;
        }
        here.fill(false);
        std::mem::swap(&mut here, &mut next);
    }
    false
}

fn word_fits(pattern: &str, word: &str) -> bool {
    let Some((begin, rest)) = pattern.split_once('*') else { return pattern == word };
    let Some(mut word) = word.strip_prefix(begin) else { return false };
    let mut parts = rest.split('*').peekable();
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return word.ends_with(part);
        }
        match word.find(part) {
            Some(at) => word = &word[at + part.len()..],
            None => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(rule: &str, command: &str, expected: bool) {
        let words: Vec<String> = command.split(' ').map(ToOwned::to_owned).collect();
        let rule = Rule::parse(rule).expect(rule);
        assert_eq!(rule.fits_words(&words), expected, "{rule:?} on {command}");
    }

    #[test]
    fn command_pattern_matches_a_prefix_of_the_words() {
        check("Bash(cargo test)", "cargo test --lib", true);
        check("Bash(cargo test *)", "cargo test", true);
        check("Bash(cargo test*)", "cargo test --lib", true);
        check("Bash(cargo test)", "cargo tests", false);
        check("Bash(cargo test)", "cargo", false);
        check("Bash(cargo test)", "X=1 cargo test", false);
        check("Bash(git * --stat)", "git -C x log --stat", true);
        check("Bash(git * --stat)", "git log", false);
        check("Bash(npm run test:*)", "npm run test:unit", true);
        check("Bash(npm run test:*)", "npm run build", false);
        check("Bash(npm run test:*)", "npm run test --all", true);
        check("Bash(rm:*)", "rm -r x", true);
        check("Bash(rm:*)", "rm", true);
        check("Bash(rm:*)", "rmdir x", false);
        check("Bash(a*b*c)", "axxbyyc", true);
        check("Bash(a*b*c)", "axxc", false);
        check("Bash(cargo test $)", "cargo test", true);
        check("Bash(cargo test $)", "cargo test --lib", false);
        check("Bash(git * $)", "git log", true);
        check("Bash", "anything at all", true);
        check("Bash(*)", "anything at all", true);
    }

    #[test]
    fn literal_path_of_a_rule() {
        for (rule, expected) in [
            ("Read(.env)", Some(".env")),
            ("Edit(src/**)", Some("src")),
            ("Edit(./src/)", Some("src")),
            ("Edit(/etc/hosts)", Some("/etc/hosts")),
            ("Edit(~/notes/**)", Some("~/notes")),
            ("Edit(./app/[[]slug[]]/[{]a[}].tsx)", Some("app/[slug]/{a}.tsx")),
            ("Edit(./a[\\]b[?])", Some("a\\b?")),
            ("Edit(/other/[[]x[]]/)", Some("/other/[x]")),
            ("Edit(src/[ab].rs)", None),
            ("Edit(src/[!a].rs)", None),
            ("Edit(src/*.rs)", None),
            ("Edit(**)", None),
            ("Edit", None),
            ("Bash(rm)", None),
        ] {
            let rule = Rule::parse(rule).expect(rule);
            assert_eq!(rule.literal_path().as_deref(), expected, "{rule:?}");
        }
    }

    #[test]
    fn escaped_path_pattern_matches_only_that_path() {
        let places = PathRoots { project: "/p".to_owned(), home: None };
        for path in ["app/[slug]/{a}.tsx", "a*b?", "back\\slash", "/other/[x]/y.rs", "plain.rs"] {
            let rule = Rule::parse(&format!("Edit({})", Rule::path_pattern(path))).expect(path);
            assert!(rule.covers_path(path, &places), "{rule:?}");
            assert!(rule.covers_path(&format!("{path}/below"), &places), "{rule:?}");
            assert_eq!(rule.literal_path().as_deref(), Some(path), "{rule:?}");
            assert!(!rule.covers_path("app/s/a.tsx", &places), "{rule:?}");
            assert!(!rule.covers_path("axb1", &places), "{rule:?}");
        }
    }

    fn check_path(rule: &str, path: &str, expected: bool) {
        let rule = Rule::parse(rule).expect(rule);
        let places =
            PathRoots { project: "/home/me/it".to_owned(), home: Some("/home/me".to_owned()) };
        assert_eq!(rule.fits_path(path, &places), expected, "{rule:?} on {path}");
    }

    #[test]
    fn file_tool_pattern_is_a_glob() {
        check_path("Write(src/**)", "src/a/b.rs", true);
        check_path("Write(src/)", "src/a/b.rs", true);
        check_path("Write(src/*.rs)", "src/a.rs", true);
        check_path("Write(src/*.rs)", "src/a/b.rs", false);
        check_path("Write(./a.rs)", "a.rs", true);
        check_path("Write(./a.rs)", "x/a.rs", false);
        check_path("Read(.env)", "deep/.env", true);
        check_path("Read(.env)", ".env", true);
        // Composed and decomposed letters, a no-break space.
        check_path("Read(caf\u{e9} a.txt)", "cafe\u{301}\u{a0}a.txt", true);
        check_path("Read(cafe\u{301}.txt)", "caf\u{e9}.txt", true);
        check_path("Read(cafe.txt)", "caf\u{e9}.txt", false);
        check_path("Read", "anything", true);
        check_path("Read(/home/me/it/a.rs)", "a.rs", true);
        check_path("Read(/home/me/it/src/**)", "src/a/b.rs", true);
        check_path("Read(/home/me/other/a.rs)", "a.rs", false);
        check_path("Read(/etc/**)", "/etc/hosts", true);
        check_path("Read(~/notes/*)", "/home/me/notes/a", true);
        check_path("Read(~/notes/*)", "~/notes/a", true);
        check_path("Read(/home/me/notes/*)", "~/notes/a", true);
        check_path("Read(~/notes/*)", "notes/a", false);
    }

    #[test]
    fn rule_patterns_are_normalised() {
        check_path("Read(a//b)", "a/b", true);
        check_path("Read(./x/../y)", "y", true);
        check_path("Read(./x/../y)", "d/y", false);
        check_path("Read(x/./y)", "x/y", true);
        check_path("Read(app/(group)/*.tsx)", "app/(group)/a.tsx", true);
        check_path("Read(/home/me/x/../it/a.rs)", "a.rs", true);
        check_path("Read(~)", "/home/me/notes/a", true);
        for all in ["Edit(.)", "Edit(./)", "Edit(*)", "Edit(**)", "Edit(x/..)"] {
            check_path(all, "a.rs", true);
            check_path(all, "deep/.env", true);
        }
        check_path("Read(s?k.txt)", "s\\x0ak.txt", true);
        check_path("Read(s?k.txt)", "s\\xffk.txt", true);
        check_path("Read(s?k.txt)", "s\\xff\\xffk.txt", false);
    }

    #[test]
    fn rules_are_separated_by_commas_or_spaces() {
        for (text, expected) in [
            ("Edit(a.txt) Edit(b.txt)", &["Edit(a.txt)", "Edit(b.txt)"][..]),
            ("Edit(a.txt),Edit(b.txt)", &["Edit(a.txt)", "Edit(b.txt)"]),
            ("Edit, Write  Bash(git push *)", &["Edit", "Write", "Bash(git push *)"]),
            ("Bash(a b) Edit", &["Bash(a b)", "Edit"]),
            ("Bash(echo (a) b)", &["Bash(echo (a) b)"]),
            ("Read(app/(a b)/c) Edit(d)", &["Read(app/(a b)/c)", "Edit(d)"]),
        ] {
            let rules = Rule::parse_all(text).expect(text);
            assert_eq!(rules.iter().map(Rule::text).collect::<Vec<_>>(), expected, "{text}");
        }
        for text in ["", "Edit(a) (b)", "Edit(a) rm -rf", "Edit(a), Edit(b"] {
            Rule::parse_all(text).expect_err(text);
        }
    }

    #[test]
    fn deny_rule_for_a_directory_covers_its_contents() {
        for (rule, path, expected) in [
            ("Edit(src)", "src/a/b.rs", true),
            ("Edit(src)", "web/src/a.rs", true),
            ("Edit(./src)", "src/a.rs", true),
            ("Edit(./src)", "web/src/a.rs", false),
            ("Edit(src)", "src", true),
            ("Edit(src)", "srcs/a.rs", false),
            ("Edit(src/*)", "src/a/b.rs", false),
            ("Edit(/home/me/it/src)", "src/a.rs", true),
        ] {
            let rule = Rule::parse(rule).expect(rule);
            let places = PathRoots { project: "/home/me/it".to_owned(), home: None };
            assert_eq!(rule.covers_path(path, &places), expected, "{rule:?} on {path}");
        }
        // Allow rules do not.
        check_path("Edit(src)", "src/a.rs", false);
    }

    #[test]
    fn invalid_rule_error_shows_the_syntax() {
        for text in ["", "(x)", "Bash(", "Bash(ls", "Bash()", "rm -rf", "Write([)", "TodoWrite(x)"]
        {
            let error = Rule::parse(text).expect_err(text);
            assert!(error.contains("`Tool(pattern)`"), "{error}");
        }
        for text in [
            "Edit(a.txt)Edit(b.txt)",
            "Edit(..)",
            "Edit(../a)",
            "Edit(a/../../b)",
            "Edit(**/../b)",
            "Edit(~/../b)",
            "Edit(\"b.txt\")",
            "Read('a')",
            "Read(//etc/hosts)",
        ] {
            Rule::parse(text).expect_err(text);
        }
        assert_eq!(Rule::parse(" Bash(ls *) ").map(|rule| rule.text), Ok("Bash(ls *)".into()));
    }
}
