//! Rules as a person writes them: `Tool` or `Tool(pattern)`.

use std::borrow::Cow;
use std::ffi::OsString;

use globset::{GlobBuilder, GlobMatcher};

use super::filled::{ANYTHING, Values, filled};
use super::shell::join;
use super::{CHANGES, Ground, judge, synonyms};
use crate::protocol::{nests_too_deep, unescape};

/// What a rule does to the calls it fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// They may be made.
    Allow,
    /// A person has to agree.
    Ask,
    /// They may not be made.
    Deny,
}

/// Who made a rule. A person's word on the command line outranks what stands in files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// `--allow`, `--ask`, `--deny`.
    CommandLine,
    /// A person's answer to a question: "always".
    Answer,
    /// The user's configuration.
    UserFile,
    /// The project's configuration.
    ProjectFile,
    /// The user's words, pinned under this number.
    Pin(u32),
}

/// `Tool` or `Tool(pattern)`.
#[derive(Clone, Debug)]
pub struct Rule {
    tool: String,
    pattern: Pattern,
    /// The same paths by where the links in them lead.
    behind_links: Option<Pattern>,
    /// The same commands by other names of what they are told to do.
    synonyms: Vec<Vec<String>>,
    text: String,
}

/// What a word may be besides one of those that a rule says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Skip {
    /// Nothing: it says what is done.
    No,
    /// An option, or another word beside what is done.
    Itself,
    /// An option with a value in the next word.
    WithNext,
    /// An option that is not known: one or the other.
    Either,
}

#[derive(Clone, Debug)]
enum Pattern {
    /// Every call of the tool.
    Any,
    /// The leading words of a simple command; `*` alone stands for any words.
    Words(Vec<String>),
    /// All of its words.
    AllWords(Vec<String>),
    /// Every file.
    Files,
    /// Paths.
    Path(Box<Paths>),
}

#[derive(Clone, Debug)]
struct Paths {
    text: String,
    glob: GlobMatcher,
    /// What lies in a folder of this name, where it may be one's.
    below: Option<GlobMatcher>,
    start: Start,
}

/// Where the paths of a pattern begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Start {
    Project,
    Home,
    Root,
}

/// Where the project and the home lie: for patterns that begin there, or at the root of all.
#[derive(Clone, Debug, Default)]
pub struct Places {
    /// The project's root.
    pub project: String,
    /// The user's home.
    pub home: Option<String>,
}

impl Places {
    /// From the root of all; a path of a command may begin with `~`.
    fn absolute(&self, path: &str) -> String {
        match (path.strip_prefix('~'), &self.home) {
            (Some(below), Some(home)) => format!("{home}{below}"),
            _ if path.starts_with('/') => path.to_owned(),
            _ if path == "." => self.project.clone(),
            _ => format!("{}/{path}", self.project),
        }
    }

    /// From the home, where it lies there.
    fn below_home(&self, path: &str) -> Option<String> {
        let absolute = self.absolute(path);
        let below = absolute.strip_prefix(self.home.as_deref()?)?;
        below.starts_with('/').then(|| format!("~{below}"))
    }
}

impl Rule {
    /// Reads `Tool` or `Tool(pattern)`. For Bash the pattern is the leading words of a simple
    /// command: `cargo test` fits `cargo test --lib`; `*` stands for any words, inside a word for
    /// any characters, and `rm:*` is `rm *`. For the others it is a glob over paths from the project root, the home (`~/`) or
    /// the root of all (`/`); one without `/` fits in any folder, `./a` in the root alone.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = |why: &str| {
            format!(
                "`{text}` is no rule: {why}; write `Tool` or `Tool(pattern)`, for instance \
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
            && tool.chars().all(is_of_tool);
        if !is_name {
            return Err(wrong("it does not begin with a tool's name"));
        }
        let is_about_files = tool == "Read" || CHANGES.contains(&tool);
        let pattern = match pattern {
            Some("") => return Err(wrong("the pattern is empty")),
            None => Pattern::Any,
            Some("*" | "**") if !is_about_files => Pattern::Any,
            Some(_) if tool == "TodoWrite" => return Err(wrong("TodoWrite takes no pattern")),
            Some(words) if tool == "Bash" => {
                Pattern::Words(words.split_ascii_whitespace().map(ToOwned::to_owned).collect())
            }
            Some(glob) => {
                let glob = plain(glob).map_err(|why| wrong(&why))?;
                Pattern::of_paths(&glob).map_err(|why| wrong(&why))?
            }
        };
        let (tool, text) = (tool.to_owned(), trimmed.to_owned());
        let synonyms = match &pattern {
            Pattern::Words(words) => synonyms::others(words),
            _ => Vec::new(),
        };
        Ok(Self { tool, pattern, behind_links: None, synonyms, text })
    }

    /// Reads rules as people write several: with commas or blanks between them.
    pub fn parse_all(text: &str) -> Result<Vec<Self>, String> {
        let mut rules = Vec::new();
        let mut rest = text.trim_matches(is_between_rules);
        loop {
            let n_name = rest.find(|char| !is_of_tool(char)).unwrap_or(rest.len());
            let mut ends =
                std::iter::once(n_name).chain(rest.match_indices(')').map(|(at, _)| at + 1));
            let is_end = |at: &usize| {
                let after = &rest[*at..];
                let next = after.trim_start_matches(is_between_rules);
                after.is_empty() || next.len() < after.len() && begins_rule(next)
            };
            let end = ends.find(is_end).unwrap_or(rest.len());
            rules.push(Self::parse(&rest[..end])?);
            rest = rest[end..].trim_start_matches(is_between_rules);
            if rest.is_empty() {
                return Ok(rules);
            }
        }
    }

    /// Holds also for what the names of its pattern lead to, up to the first `*`, where they are links.
    #[must_use]
    pub(super) fn through_links(self, ground: &dyn Ground) -> Self {
        let behind_links = match &self.pattern {
            Pattern::Path(paths) => {
                behind_links(&paths.text, ground).and_then(|glob| Pattern::of_paths(&glob).ok())
            }
            Pattern::Any | Pattern::Words(_) | Pattern::AllWords(_) | Pattern::Files => None,
        };
        Self { behind_links, ..self }
    }

    /// The tool it is about.
    pub fn tool(&self) -> &str {
        &self.tool
    }

    /// As it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Fits no command with more words than it says, but where a `*` stands for them.
    #[must_use]
    pub(super) fn whole(self) -> Self {
        let pattern = match self.pattern {
            Pattern::Words(words) => Pattern::AllWords(words),
            other => other,
        };
        Self { pattern, ..self }
    }

    /// Fits every call of its tool.
    pub(super) fn is_bare(&self) -> bool {
        matches!(self.pattern, Pattern::Any)
    }

    /// Says of no file that it means this one.
    pub(super) fn is_of_any_file(&self) -> bool {
        matches!(self.pattern, Pattern::Any | Pattern::Files)
    }

    /// Fits a call that touches this path.
    pub(super) fn fits_path(&self, path: &str, places: &Places) -> bool {
        self.fits(path, places, |paths| Some(&paths.glob))
    }

    /// The same, and what lies below it where it is a folder: what a rule forbids it forbids there too.
    pub(super) fn holds_for_path(&self, path: &str, places: &Places) -> bool {
        self.fits_path(path, places) || self.fits(path, places, |paths| paths.below.as_ref())
    }

    fn fits(
        &self,
        path: &str,
        places: &Places,
        glob: impl Fn(&Paths) -> Option<&GlobMatcher>,
    ) -> bool {
        [Some(&self.pattern), self.behind_links.as_ref()].into_iter().flatten().any(|pattern| {
            let paths = match pattern {
                Pattern::Any | Pattern::Files => return true,
                Pattern::Words(_) | Pattern::AllWords(_) => return false,
                Pattern::Path(paths) => paths,
            };
            let path = match paths.start {
                Start::Project => Some(path.into()),
                Start::Root => Some(Cow::Owned(places.absolute(path))),
                Start::Home => places.below_home(path).map(Cow::Owned),
            };
            // (A name is shown escaped, and means what it is.)
            glob(paths).zip(path).is_some_and(|(glob, path)| {
                glob.is_match(&*path) || unescape(&path).is_some_and(|raw| glob.is_match(raw))
            })
        })
    }

    /// Fits a simple command that is exactly what its words say.
    pub(super) fn fits_words(&self, words: &[String]) -> bool {
        let (pattern, is_whole) = match &self.pattern {
            Pattern::Any => return true,
            Pattern::Words(pattern) => (pattern, false),
            Pattern::AllWords(pattern) => (pattern, true),
            Pattern::Files | Pattern::Path(_) => return false,
        };
        let fits = |part: &str, n: usize, _| word_fits(part, '*', &words[n]);
        lead(pattern, words.len(), is_whole, fits, |_| Skip::No)
    }

    /// Fits a simple command each of whose words may be one of these texts, by any name of what it is told to do and
    /// wherever its options stand. A last one of which nothing is known may be several.
    pub(super) fn may_fit(&self, words: &[Vec<String>], skips: &[Skip]) -> bool {
        let (pattern, is_whole) = match &self.pattern {
            Pattern::Any => return true,
            Pattern::Words(pattern) => (pattern, false),
            Pattern::AllWords(pattern) => (pattern, true),
            Pattern::Files | Pattern::Path(_) => return false,
        };
        let is_unknown = |word: &Vec<String>| word.iter().any(|text| is_anything(text));
        let is_open = words.last().is_some_and(is_unknown);
        let may_lead = |pattern: &Vec<String>| {
            let program = pattern.first().map_or("", String::as_str);
            let n_more = if is_open { pattern.len() } else { 0 };
            let fits = |part: &str, n: usize, is_behind_star: bool| {
                let word = &words[n.min(words.len() - 1)];
                // (Behind a `*` any word could be the option that the rule is about.)
                let is_meant =
                    |text: &String| !(is_behind_star && part.starts_with('-') && is_anything(text));
                word.iter().filter(|text| is_meant(text)).any(|text| {
                    word_may_fit(part, text)
                        || n > 0 && !is_behind_star && synonyms::begins(program, text, part)
                })
            };
            let skip = |n: usize| match words.get(n).zip(skips.get(n)) {
                None => Skip::No,
                Some((word, Skip::No)) if is_unknown(word) => Skip::Itself,
                // `o=-q; npm $o publish`
                Some((word, Skip::No)) if word.iter().any(|text| text.starts_with('-')) => {
                    Skip::Either
                }
                Some((_, skip)) => *skip,
            };
            lead(pattern, words.len() + n_more, is_whole, fits, skip)
        };
        may_lead(pattern) || self.synonyms.iter().any(may_lead)
    }

    /// The words that it says, up to the first `*`.
    pub(super) fn leading(&self) -> &[String] {
        let (Pattern::Words(pattern) | Pattern::AllWords(pattern)) = &self.pattern else {
            return &[];
        };
        let n_leading = pattern.iter().position(|word| word.contains('*'));
        &pattern[..n_leading.unwrap_or(pattern.len())]
    }

    /// A word of the pattern, as it stands, is or holds the name of this file.
    pub(super) fn names(&self, path: &str) -> bool {
        let (Pattern::Words(pattern) | Pattern::AllWords(pattern)) = &self.pattern else {
            return false;
        };
        let plain = |path: &str| join("", path);
        let literal = pattern.iter().filter(|word| !word.contains('*'));
        let mut named = literal.flat_map(|word| judge::fragments(word).chain([word.as_str()]));
        named.any(|name| plain(name) == plain(path))
    }

    /// The pattern's words up to its first `*` occur in the text, one after the other, with whatever bash may put
    /// into it.
    pub(super) fn occurs_in(&self, text: &str, values: &Values) -> bool {
        let (Pattern::Words(pattern) | Pattern::AllWords(pattern)) = &self.pattern else {
            return self.is_bare();
        };
        let is_between =
            |char: char| char.is_whitespace() || ";|&()<>{}`\"'\\$/=!,[]".contains(char);
        let split = |text: &str| -> Vec<String> {
            let words = text.split(is_between).filter(|word| !word.is_empty());
            words.map(str::to_owned).collect()
        };
        let open = pattern.last().and_then(|last| last.strip_suffix(":*"));
        let n_known = pattern.len() - usize::from(open.is_some());
        let known =
            pattern[..n_known].iter().map(String::as_str).take_while(|word| !word.contains('*'));
        let known: Vec<&str> = known.collect();
        let open = open.filter(|open| known.len() == n_known && !open.contains('*'));
        let leading: Vec<String> = known.into_iter().chain(open).flat_map(split).collect();
        let Some((last, others)) = leading.split_last() else { return true };
        // `deploy:*` is `deploy`, and `deploy:prod`.
        let ends = |word: &str| match word.strip_prefix(last.as_str()) {
            Some(rest) => rest.is_empty() || open.is_some() && rest.starts_with(':'),
            None => false,
        };
        let occurs = |text: &str| {
            split(text).windows(leading.len()).any(|window| {
                window.split_last().is_some_and(|(word, before)| before == others && ends(word))
            })
        };
        // `r$(:)m`: what is put in may be nothing.
        let nothing = [filled(text, |_| String::new())].into_iter();
        let texts =
            nothing.chain(values.in_text(text, "")).map(|text| text.replace(['"', '\'', '\\'], ""));
        occurs(text) || texts.into_iter().any(|text| occurs(&text))
    }
}

impl Pattern {
    fn of_paths(text: &str) -> Result<Self, String> {
        if matches!(text, "*" | "**" | "./") {
            return Ok(Self::Files);
        }
        let start = match text {
            _ if text.starts_with('/') => Start::Root,
            _ if text.starts_with("~/") => Start::Home,
            _ => Start::Project,
        };
        let last = text.rsplit('/').next().unwrap_or_default();
        let is_name = !last.is_empty() && !last.contains(['*', '?', '[', '{']);
        let below = is_name.then(|| path_glob(text, "/**")).transpose()?;
        let glob = path_glob(text, "")?;
        Ok(Self::Path(Box::new(Paths { text: text.to_owned(), glob, below, start })))
    }
}

/// What stands in the name of a tool.
fn is_of_tool(char: char) -> bool {
    char.is_ascii_alphanumeric() || matches!(char, '_' | '-')
}

fn is_between_rules(char: char) -> bool {
    char.is_whitespace() || char == ','
}

/// A tool's name, and then its pattern, another rule or nothing.
fn begins_rule(text: &str) -> bool {
    let behind = text.trim_start_matches(is_of_tool);
    let is_name =
        behind.len() < text.len() && text.starts_with(|char: char| char.is_ascii_alphabetic());
    behind.is_empty() || is_name && behind.starts_with(|char| char == '(' || is_between_rules(char))
}

/// A pattern of paths without what stands for nothing in it: `src/./a//b` is `src/a/b`, and `.` the project. Or why it
/// can mean nothing.
fn plain(glob: &str) -> Result<String, String> {
    let quotes = ['"', '\'', '`'];
    if glob.starts_with(quotes) || glob.ends_with(quotes) {
        return Err("a path stands in it without quotes".to_owned());
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
        // What is one name fits in any folder.
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

/// The pattern with what its beginning leads to, where that is something else.
fn behind_links(glob: &str, ground: &dyn Ground) -> Option<String> {
    let n_known = match glob.find(['*', '?', '[', '{', '\\']) {
        Some(at) => glob[..at].rfind('/')?,
        None => glob.trim_end_matches('/').len(),
    };
    let (begin, rest) = glob.split_at(n_known);
    let begin = begin.strip_prefix("./").unwrap_or(begin);
    let real = Some(ground.real(begin)).filter(|real| real != begin && !begin.is_empty())?;
    let raw = unescape(&real).map_or(Ok(real.clone()), OsString::into_string).ok()?;
    Some(match real.as_str() {
        "." => format!(".{}", if rest.is_empty() { "/" } else { rest }),
        _ if raw.starts_with('/') => format!("{}{rest}", globset::escape(&raw)),
        _ => format!("./{}{rest}", globset::escape(&raw)),
    })
}

fn path_glob(pattern: &str, below: &str) -> Result<GlobMatcher, String> {
    if nests_too_deep(pattern) {
        return Err("its braces stand too deep in each other".to_owned());
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
    let glob = GlobBuilder::new(&glob).literal_separator(true).build();
    glob.map(|glob| glob.compile_matcher()).map_err(|error| error.to_string())
}

/// So many words begin with the pattern, or are it, where `fits` says which of its parts fits which of them, and `skip`
/// what of them may stand between.
fn lead(
    pattern: &[String],
    n_words: usize,
    is_whole: bool,
    fits: impl Fn(&str, usize, bool) -> bool,
    skip: impl Fn(usize) -> Skip,
) -> bool {
    let n_parts = pattern.len();
    let first_star = pattern.iter().position(|part| part == "*").unwrap_or(n_parts);
    // How many parts may be settled before this word, the next one, and the one behind it.
    let mut here = vec![false; n_parts + 1];
    let mut next = here.clone();
    let mut behind = here.clone();
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
            // `rm:*`, as others write `rm *`.
            let open = part.strip_suffix(":*").filter(|_| at + 1 == n_parts);
            if open.is_some_and(|open| fits(open, n, at > first_star)) {
                return true;
            }
            next[at + 1] |= fits(part, n, at > first_star);
            if at > 0 {
                let skip = skip(n);
                next[at] |= matches!(skip, Skip::Itself | Skip::Either);
                behind[at] |= matches!(skip, Skip::WithNext | Skip::Either);
            }
        }
        if !next.contains(&true) && !behind.contains(&true) {
            return false;
        }
        here.fill(false);
        (here, next, behind) = (next, behind, here);
    }
    false
}

/// The mark stands for any characters.
fn word_fits(pattern: &str, mark: char, word: &str) -> bool {
    let Some((begin, rest)) = pattern.split_once(mark) else { return pattern == word };
    let Some(mut word) = word.strip_prefix(begin) else { return false };
    let mut parts = rest.split(mark).peekable();
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

fn is_anything(word: &str) -> bool {
    !word.is_empty() && word.chars().all(|char| char == ANYTHING)
}

/// The same of a word that bash puts something into: anything, or, where the pattern has a `*`, nothing.
fn word_may_fit(pattern: &str, word: &str) -> bool {
    if is_anything(word) {
        return true;
    }
    if word.contains(ANYTHING) && !pattern.contains('*') {
        return word_fits(word, ANYTHING, pattern);
    }
    word_fits(pattern, '*', &word.replace(ANYTHING, ""))
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
    fn a_pattern_of_words_is_the_beginning_of_a_command() {
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
        check("Bash", "anything at all", true);
        check("Bash(*)", "anything at all", true);
    }

    fn check_path(rule: &str, path: &str, expected: bool) {
        let rule = Rule::parse(rule).expect(rule);
        let places =
            Places { project: "/home/me/it".to_owned(), home: Some("/home/me".to_owned()) };
        assert_eq!(rule.fits_path(path, &places), expected, "{rule:?} on {path}");
    }

    #[test]
    fn a_pattern_of_a_file_tool_is_a_glob_over_paths() {
        check_path("Write(src/**)", "src/a/b.rs", true);
        check_path("Write(src/)", "src/a/b.rs", true);
        check_path("Write(src/*.rs)", "src/a.rs", true);
        check_path("Write(src/*.rs)", "src/a/b.rs", false);
        check_path("Write(./a.rs)", "a.rs", true);
        check_path("Write(./a.rs)", "x/a.rs", false);
        check_path("Read(.env)", "deep/.env", true);
        check_path("Read(.env)", ".env", true);
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
    fn a_pattern_means_what_it_says_however_it_is_written() {
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
    fn a_list_of_rules_is_read_as_people_write_it() {
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
    fn what_a_rule_forbids_of_a_folder_it_forbids_below_it() {
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
            let places = Places { project: "/home/me/it".to_owned(), home: None };
            assert_eq!(rule.holds_for_path(path, &places), expected, "{rule:?} on {path}");
        }
        // None that allows says more than it says.
        check_path("Edit(src)", "src/a.rs", false);
    }

    #[test]
    fn a_bad_rule_says_the_form() {
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
