//! Which names a command of a line gets from the rest of it: from `find -exec`, through a pipe into
//! `xargs`, from `$(…)`, or by a variable.
//!
//! What is written to a file and read back, or put together by a program, is not followed; nor is what lies
//! behind the limits of a ruling (`Survey`).

use std::collections::HashSet;

use regex::{Regex, RegexBuilder};

use super::args::Args;
use super::folders::{found, found_by_fd, searched};
use super::instead::extended;
use super::shows::{counts, fragments};
use super::survey::Survey;
use super::table::SEARCHES;
use super::{Ground, Reach};
use crate::permission::line::Line;
use crate::permission::shell::{How, Input, Kind, Run, SHELLS, Word};
use crate::protocol::nests_too_deep;

/// Through so many searches names are followed.
const MOST_FILTERS: usize = 8;
/// So many commands of a line are followed, each by itself.
pub(super) const MOST_FOLLOWED: usize = 64;

/// A line, where it runs, and what is looked for in it.
#[derive(Clone, Copy)]
pub(super) struct Flow<'a> {
    pub(super) line: &'a Line,
    pub(super) directory: &'a str,
    pub(super) ground: &'a Survey<'a>,
    /// Where what goes through folders is followed to.
    pub(super) reach: Reach,
    pub(super) is_it: &'a (dyn Fn(&str) -> bool + Sync),
}

impl<'a> Flow<'a> {
    fn args(&self, run: &'a Run) -> Args<'a> {
        Args { run, directory: self.directory, ground: self.ground }
    }

    /// The first file of this kind whose name this command of the line may get from elsewhere in it, for its words.
    pub(super) fn handed(&self, n: usize) -> Option<String> {
        let mut followed = HashSet::new();
        let mut words = self.line.runs()[n].words.iter().skip(1);
        words.find_map(|word| self.behind(word, n, &mut followed))
    }

    /// The same for its input: `done < "$f"`.
    pub(super) fn handed_as_input(&self, n: usize) -> Option<String> {
        let mut followed = HashSet::new();
        let mut redirects = self.line.runs()[n].redirects.iter().filter(|to| to.how == How::Read);
        redirects.find_map(|to| self.behind(&to.target, n, &mut followed))
    }

    /// What a word may stand for that is known only when the command runs. Each text is followed once for a question.
    fn behind(&self, word: &'a Word, n: usize, followed: &mut HashSet<&'a str>) -> Option<String> {
        let is_unknown = matches!(word.kind, Kind::Variable | Kind::Output);
        if word.text.starts_with('-') || !is_unknown || !followed.insert(&word.text) {
            return None;
        }
        if word.kind == Kind::Output {
            return self.put_there(word, n);
        }
        let run = &self.line.runs()[n];
        if let Some(found) = self.by_default(word, run) {
            return Some(found);
        }
        let mut is_bound = false;
        for binding in self.line.bindings() {
            if !self.ground.spend(1) {
                return None;
            }
            if !names_variable(&word.text, &binding.name) {
                continue;
            }
            is_bound = true;
            let found = binding.words.iter().find_map(|value| match value.kind {
                Kind::Variable | Kind::Output => self.behind(value, n, followed),
                Kind::Literal | Kind::Home | Kind::Pattern => {
                    if !self.ground.spend(1) {
                        return None;
                    }
                    let put_in = put_in(&word.text, &binding.name, &value.text);
                    self.named(run, &Word { text: put_in, kind: value.kind })
                }
            });
            if found.is_some() {
                return found;
            }
        }
        if is_bound { None } else { self.set_by_others(&word.text, run) }
    }

    /// `${x:-file}`
    fn by_default(&self, word: &Word, run: &'a Run) -> Option<String> {
        let (begin, rest) = word.text.split_once("${")?;
        let (inner, end) = rest.split_once('}')?;
        let value = inner.split_once(['-', '=', '+']).map(|(_, value)| value)?;
        self.named(run, &Word::literal(format!("{begin}{value}{end}")))
    }

    /// What `$(…)` writes, or what `find -exec` and `xargs` put in.
    fn put_there(&self, word: &Word, n: usize) -> Option<String> {
        let run = &self.line.runs()[n];
        if !["$(", "`", "<("].iter().any(|open| word.text.contains(open)) {
            let finds = |at: &Run| run.of == at.of && runs_what_it_finds(&self.args(at));
            return self
                .written_by(|at, run| finds(run) || at < n && self.flows_to(at, n))
                .or_else(|| self.in_text(run));
        }
        // Its own commands, by their words; where those can not be told, all that stand as deep.
        let quote = if word.text.starts_with("<(") { "" } else { "\"" };
        let inner = Line::part(&format!("true {quote}{}{quote}", word.text));
        let own: HashSet<Vec<&str>> = inner.runs().iter().skip(1).map(texts).collect();
        let is_own = |run: &Run| own.is_empty() || own.contains(&texts(run));
        self.written_by(|_, inner| inner.nesting > run.nesting && is_own(inner))
    }

    /// What a variable may be that no assignment and no loop sets: an argument of a script or function of the
    /// line, or what `read` and its kin read. The environment's own are none of these.
    fn set_by_others(&self, text: &str, run: &'a Run) -> Option<String> {
        let runs = self.line.runs();
        let is_read = || {
            let readers =
                runs.iter().filter(|run| matches!(run.name(), "read" | "mapfile" | "readarray"));
            readers
                .flat_map(|run| run.words.iter().skip(1).map(|word| word.text.as_str()))
                .chain(["REPLY", "MAPFILE"])
                .any(|name| !name.is_empty() && names_variable(text, name))
        };
        let is_argument = is_argument(text);
        if !is_argument && !is_read() {
            return None;
        }
        let functions = &self.line.script().functions;
        let arguments = |run: &'a Run| -> Vec<&'a Word> {
            let (name, args) = (run.name(), self.args(run));
            if SHELLS.contains(&name) {
                // The first is the script.
                args.operands().skip(1).collect()
            } else if name == "set" || functions.iter().any(|own| own == name) {
                args.words().collect()
            } else {
                Vec::new()
            }
        };
        self.written_by(|_, run| run.writes_pipe || runs_what_it_finds(&self.args(run)))
            .or_else(|| {
                let mut given = runs.iter().filter(|_| is_argument).flat_map(arguments);
                // `f() { cat .$1; }; f env`
                let put_in = |word: &Word| {
                    let mut names = ["1", "2", "3", "@", "*"].iter();
                    names.find_map(|name| {
                        let is_it =
                            names_variable(text, name) || text.contains(&format!("${name}"));
                        let text = put_in(text, name, &word.text);
                        self.named(run, &Word { text, kind: word.kind }).filter(|_| is_it)
                    })
                };
                given.find_map(|word| self.named(run, word).or_else(|| put_in(word)))
            })
            .or_else(|| runs.iter().find_map(|run| self.in_text(run)))
    }

    /// One of the names that anything in the line may hand on: of a line that is too long to be followed.
    pub(super) fn anything(&self) -> Option<String> {
        let runs = self.line.runs();
        let first = runs.first()?;
        let mut values = self.line.bindings().iter().flat_map(|binding| &binding.words);
        self.written_by(|_, _| true)
            .or_else(|| values.find_map(|value| self.named(first, value)))
            .or_else(|| runs.iter().find_map(|run| self.in_text(run)))
    }

    /// One of the names in a text that the command reads.
    fn in_text(&self, run: &'a Run) -> Option<String> {
        let Input::Text(text) = &run.input else { return None };
        let mut names = text.text.split_ascii_whitespace();
        names.find_map(|name| self.named(run, &Word::literal(name)))
    }

    /// The file of this kind that a word or pattern names.
    fn named(&self, run: &'a Run, word: &Word) -> Option<String> {
        let args = self.args(run);
        let expanded = args.expanded(word).into_iter().find(|path| (self.is_it)(path));
        if expanded.is_some() || word.kind == Kind::Pattern {
            return expanded;
        }
        let paths = args.known_paths(word).into_iter();
        paths.map(|path| self.ground.real(&path)).find(|path| (self.is_it)(path))
    }

    /// What the command at the first place writes comes to that at the second, through pipes.
    fn flows_to(&self, from: usize, to: usize) -> bool {
        self.line.runs()[from..to].iter().all(|run| {
            run.writes_pipe || run.name() == "xargs" || run.of == self.line.runs()[to].of
        })
    }

    /// One of the names that these commands write, past the searches that they flow through.
    fn written_by(&self, is_meant: impl Fn(usize, &Run) -> bool) -> Option<String> {
        let runs = self.line.runs();
        let mut meant = runs.iter().enumerate().filter(|(at, run)| is_meant(*at, run));
        meant.find_map(|(at, run)| {
            let behind = runs[at + 1..].iter().take(MOST_FILTERS).take_while(|_| run.writes_pipe);
            let behind: Vec<&Run> = behind.take_while(|run| run.input == Input::Pipe).collect();
            // What is given names as its words reads files, and not the names: it neither lets some through
            // nor makes a number of them.
            let is_given = |n: usize| {
                let is_unknown = |word: &Word| matches!(word.kind, Kind::Variable | Kind::Output);
                let by_xargs = |one: &&Run| one.of == behind[n].of && one.name() == "xargs";
                behind[..n].iter().any(by_xargs)
                    || self.args(behind[n]).operands().skip(1).any(is_unknown)
            };
            let readers = (0..behind.len()).filter(|n| !is_given(*n));
            let readers: Vec<Args<'_>> = readers.map(|n| self.args(behind[n])).collect();
            // A number is no name.
            if readers.iter().any(counts) {
                return None;
            }
            let filters: Vec<Filter> = readers.iter().filter_map(Filter::of).collect();
            // `find` writes the place that it was given in front of each.
            let begin = if run.name() == "find" { "./" } else { "" };
            let passes = |path: &str| filters.iter().all(|one| one.passes(path, begin));
            let is_it = |path: &str| (self.is_it)(path) && passes(path);
            self.writes(run, &is_it)
        })
    }

    /// One of the names that a command writes.
    fn writes(&self, run: &'a Run, is_it: &(dyn Fn(&str) -> bool + Sync)) -> Option<String> {
        let args = self.args(run);
        let flow = Flow { is_it, ..*self };
        match run.name() {
            "find" => found(&args, self.reach, is_it),
            "fd" | "fdfind" => found_by_fd(&args, self.reach, is_it),
            "ls" | "dir" => flow.listed(run),
            "cat" if matches!(run.input, Input::Text(_)) => flow.in_text(run),
            "echo" | "printf" => run.words.iter().skip(1).find_map(|word| {
                let mut parts = fragments(&word.text).map(Word::literal);
                let part = || parts.find_map(|part| flow.named(run, &part));
                flow.named(run, word).or_else(part)
            }),
            "rg" if args.has("--files") => searched(&args, self.reach, is_it),
            name if SEARCHES.contains(&name)
                && ["-l", "-L", "--files-with-matches", "--files-without-match"]
                    .iter()
                    .any(|own| args.has(own)) =>
            {
                searched(&args, self.reach, is_it)
            }
            // What it tracks everybody has who has the repository.
            "git" if args.sub_is("ls-files") && (args.has("-o") || args.has("--others")) => {
                self.ground.find(run.directories.here.first()?.as_deref()?, self.reach, is_it)
            }
            _ => None,
        }
    }

    /// What `ls` lists.
    fn listed(&self, run: &'a Run) -> Option<String> {
        let args = self.args(run);
        let here = Word::literal(".");
        let mut operands: Vec<&Word> = args.operands().collect();
        if operands.is_empty() {
            operands.push(&here);
        }
        let shows_hidden =
            ["-a", "-A", "-f", "--all", "--almost-all"].iter().any(|own| args.has(own));
        operands.into_iter().find_map(|word| {
            self.named(run, word).or_else(|| {
                let inner = if shows_hidden { &["*", ".*"] as &[&str] } else { &["*"] };
                let folders = args.paths(word)?;
                let patterns = folders.iter().flat_map(|folder| {
                    inner.iter().map(move |name| match folder.as_str() {
                        "" => (*name).to_owned(),
                        _ => format!("{folder}/{name}"),
                    })
                });
                let mut names = patterns.flat_map(|pattern| self.ground.expand(&pattern));
                names.find(|path| (self.is_it)(path))
            })
        })
    }
}

/// `find -exec`, `fd -x`.
pub(super) fn runs_what_it_finds(args: &Args<'_>) -> bool {
    let options = ["-exec", "-execdir", "-ok", "-okdir", "-x", "-X", "--exec", "--exec-batch"];
    matches!(args.run.name(), "find" | "fd" | "fdfind")
        && args.words().any(|word| options.contains(&word.text.as_str()))
}

fn texts(run: &Run) -> Vec<&str> {
    run.words.iter().map(|word| word.text.as_str()).collect()
}

/// `$1`, `${1%.*}`, `$@`, `$*` stands in a text.
fn is_argument(text: &str) -> bool {
    text.match_indices('$').any(|(at, _)| {
        let rest = text[at + 1..].strip_prefix('{').unwrap_or(&text[at + 1..]);
        rest.starts_with(|char: char| char.is_ascii_digit() || "@*".contains(char))
    })
}

/// `$name`, `${name}`, `${name%.*}` stands in a text.
pub(super) fn names_variable(text: &str, name: &str) -> bool {
    text.match_indices('$').any(|(at, _)| {
        let rest = text[at + 1..].strip_prefix('{').unwrap_or(&text[at + 1..]);
        rest.strip_prefix(name).is_some_and(|rest| {
            !rest.starts_with(|char: char| char.is_ascii_alphanumeric() || char == '_')
        })
    })
}

/// The text with a value in the variable's place.
fn put_in(text: &str, name: &str, value: &str) -> String {
    let put_in = text.replace(&format!("${{{name}}}"), value).replace(&format!("${name}"), value);
    // `${name%.*}` is taken for all of it.
    if put_in.contains('$') { value.to_owned() } else { put_in }
}

/// A search that lets some names through.
struct Filter {
    pattern: Regex,
    is_turned: bool,
    /// It takes the pattern for a whole word or line, so that it may let through what the pattern fits.
    is_whole: bool,
}

impl Filter {
    fn of(args: &Args<'_>) -> Option<Self> {
        let name = args.run.name();
        let pattern = args.operands().next()?.known()?;
        if !SEARCHES.contains(&name) || args.has("-e") || args.has("-f") {
            return None;
        }
        let is_fixed = name == "fgrep" || args.has("-F");
        let is_basic = name == "grep" && !args.has("-E") && !args.has("-P");
        let pattern = match (is_fixed, is_basic) {
            (true, _) => regex::escape(pattern),
            (_, true) => extended(pattern),
            _ => pattern.to_owned(),
        };
        if nests_too_deep(&pattern) {
            return None;
        }
        let pattern = RegexBuilder::new(&pattern).case_insensitive(args.has("-i")).build().ok()?;
        let any = |options: &[&str]| options.iter().any(|own| args.has(own));
        let is_turned = any(&["-v", "--invert-match"]);
        let is_whole = any(&["-x", "-w", "--line-regexp", "--word-regexp"]);
        Some(Self { pattern, is_turned, is_whole })
    }

    /// It may let this file's name through. What exactly was written is not known (the folder it ran in, the place
    /// it was given): one that wants something is believed to want any of the ways to write it, one that takes
    /// out to take out what it fits in all.
    fn passes(&self, path: &str, begin: &str) -> bool {
        let fits = |path: &str| self.pattern.is_match(path);
        if self.is_turned {
            let name = path.rsplit('/').next().unwrap_or(path);
            let is_out = || [path, name].iter().all(|path| fits(&format!("{begin}{path}")));
            return self.is_whole || !is_out();
        }
        let below = path.match_indices('/').map(|(at, _)| &path[at + 1..]);
        let mut written = std::iter::once(path).chain(below);
        written.any(|path| fits(path) || fits(&format!("./{path}")))
    }
}
