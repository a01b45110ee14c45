//! Which names a command of a line gets from the rest of it: from `find -exec`, through a pipe into
//! `xargs`, from `$(…)`, or by a variable.
//!
//! What is written to a file and read back, or put together by a program, is not followed; nor is what lies
//! behind the limits of a ruling (`Survey`).

use std::collections::HashSet;

use regex::{Regex, RegexBuilder};

use super::args::Args;
use super::folders::{below, found, found_by_fd, is_folder, searched};
use super::instead::extended;
use super::shows::{counts, fragments};
use super::survey::Survey;
use super::table::SEARCHES;
use super::values::{Values, names_argument};
use super::{Ground, Reach};
use crate::permission::line::Line;
use crate::permission::pattern::with_classes;
use crate::permission::shell::{How, Input, Kind, Run, SHELLS, Word};
use crate::protocol::nests_too_deep;

/// Through so many searches names are followed.
const MOST_FILTERS: usize = 8;
/// What a look at a path costs, in values that are compared.
pub(super) const A_LOOK: usize = 10;
/// So many commands of a line are followed, each by itself.
pub(super) const MOST_FOLLOWED: usize = 64;

/// A line, where it runs, and what is looked for in it.
#[derive(Clone, Copy)]
pub(super) struct Flow<'a> {
    pub(super) line: &'a Line,
    pub(super) directory: &'a str,
    pub(super) ground: &'a Survey<'a>,
    pub(super) values: &'a Values<'a>,
    /// Where what goes through folders is followed to.
    pub(super) reach: Reach,
    pub(super) is_it: &'a (dyn Fn(&str) -> bool + Sync),
    /// Who gets the name of a folder goes through it.
    pub(super) goes_down: bool,
}

impl<'a> Flow<'a> {
    fn args(&self, run: &'a Run) -> Args<'a> {
        Args { run, directory: self.directory, ground: self.ground, values: Some(self.values) }
    }

    /// The first file of this kind whose name this command of the line may get from elsewhere in it, for its words.
    pub(super) fn handed(&self, n: usize) -> Option<String> {
        let run = &self.line.runs()[n];
        // A shell takes a text that it runs apart, in whatever quotes it was given: `bash -lc "$x"`.
        let is_taken_apart = SHELLS.contains(&run.name());
        let words = run.words.iter().skip(1);
        let mut words = words.map(|word| if is_taken_apart { word.bare() } else { word.clone() });
        let mut followed = HashSet::new();
        words.find_map(|word| {
            let found = followed.insert((word.text.clone(), word.kind));
            found.then(|| self.behind(&word, n)).flatten()
        })
    }

    /// The same for its input: `done < "$f"`.
    pub(super) fn handed_as_input(&self, n: usize) -> Option<String> {
        let mut redirects = self.line.runs()[n].redirects.iter().filter(|to| to.how == How::Read);
        redirects.find_map(|to| self.behind(&to.target, n))
    }

    /// What a word may stand for that is known only when the command runs.
    pub(super) fn behind(&self, word: &Word, n: usize) -> Option<String> {
        let is_unknown = word.kind >= Kind::Quoted;
        if word.text.starts_with('-') || !is_unknown {
            return None;
        }
        let run = &self.line.runs()[n];
        let values = self.values.behind(word);
        let mut values = values.iter().take_while(|_| self.ground.spend(1));
        let by_name = |value: &Word| self.named_by_value(run, value);
        values.find_map(|value| match value.kind {
            Kind::Output => self.put_there(value, n),
            Kind::Quoted | Kind::Variable => {
                by_name(value).or_else(|| self.set_by_others(&value.text))
            }
            Kind::Literal | Kind::Home | Kind::Pattern => by_name(value),
        })
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

    /// What a variable may be that no assignment and no loop sets: an argument that another command gives a script
    /// or function of the line, or what `read` and its kin read. The environment's own are none of these.
    fn set_by_others(&self, text: &str) -> Option<String> {
        if !names_argument(text) && !self.values.is_read(text) {
            return None;
        }
        let mut runs = self.line.runs().iter();
        self.written_by(|_, run| run.writes_pipe || runs_what_it_finds(&self.args(run)))
            .or_else(|| runs.find_map(|run| self.in_text(run)))
    }

    /// One of the names that anything in the line may hand on: of a line that is too long to be followed.
    pub(super) fn anything(&self) -> Option<String> {
        let runs = self.line.runs();
        let first = runs.first()?;
        let mut values = self.line.bindings().iter().flat_map(|binding| &binding.words);
        self.written_by(|_, _| true)
            .or_else(|| values.find_map(|value| self.named_by_value(first, value)))
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
        let mut places = self.args(run).places(word).into_iter();
        places.find_map(|path| self.at(&path))
    }

    /// The same of a word that values were put into.
    fn named_by_value(&self, run: &'a Run, value: &Word) -> Option<String> {
        let mut places = self.args(run).places_of_value(value).into_iter();
        places.find_map(|path| self.at(&path))
    }

    /// The file of this kind that a path leads to, or that lies in the folder there.
    fn at(&self, path: &str) -> Option<String> {
        let real = self.ground.real(path);
        if (self.is_it)(&real) {
            return Some(real);
        }
        let goes_down = self.goes_down && self.ground.spend(A_LOOK);
        let goes_down = goes_down && is_folder(self.ground.look(path));
        goes_down.then(|| self.ground.find(path, self.reach, self.is_it)).flatten()
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
                let is_unknown = |word: &Word| word.kind >= Kind::Quoted;
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
            // What lists the folder alone: with its name goes what is in it.
            let is_by_folder =
                self.goes_down && matches!(run.name(), "ls" | "dir" | "echo" | "printf");
            let passes = |path: &str| {
                let mut folders = path.match_indices('/').map(|(at, _)| &path[..at]);
                filters.iter().all(|one| one.passes(path, begin))
                    && (!is_by_folder
                        || folders
                            .all(|path| filters.iter().all(|one| !one.takes_out(path, begin))))
            };
            let is_it = |path: &str| (self.is_it)(path) && passes(path);
            self.writes(run, &is_it)
        })
    }

    /// One of the names that a command writes.
    fn writes(&self, run: &'a Run, is_it: &(dyn Fn(&str) -> bool + Sync)) -> Option<String> {
        let args = self.args(run);
        let flow = Flow { is_it, ..*self };
        match run.name() {
            "find" => found(&args, self.reach, is_it, self.goes_down),
            "fd" | "fdfind" => found_by_fd(&args, self.reach, is_it),
            "ls" | "dir" => flow.listed(run),
            "cat" if matches!(run.input, Input::Text(_)) => flow.in_text(run),
            "echo" | "printf" => run.words.iter().skip(1).find_map(|word| {
                let mut parts = fragments(&word.text).map(Word::literal);
                let part = || parts.find_map(|part| flow.named(run, &part));
                // (Who reads it may take it apart.)
                flow.named(run, &word.bare()).or_else(part)
            }),
            "rg" if args.has("--files") => searched(&args, self.reach, is_it),
            name if SEARCHES.contains(&name)
                && ["-l", "-L", "--files-with-matches", "--files-without-match"]
                    .iter()
                    .any(|own| args.has(own)) =>
            {
                searched(&args, self.reach, is_it)
            }
            "realpath" | "readlink" | "basename" | "stat" => {
                args.operands().find_map(|word| flow.named(run, word))
            }
            "du" | "tree" if args.has("-a") || args.has("--all") => {
                let here = Word::literal(".");
                below(&args, args.operands().chain([&here]), self.reach, is_it)
            }
            "compgen" => flow.completed(run),
            "git" if args.sub_is("check-ignore") => {
                args.operands().skip(1).find_map(|word| flow.named(run, word))
            }
            "git"
                if args.sub_is("status") && args.has("--ignored")
                    || args.sub_is("clean") && (args.has("-x") || args.has("-X")) =>
            {
                below(&args, [&Word::literal(".")], self.reach, is_it)
            }
            // What it tracks everybody has who has the repository.
            "git" if args.sub_is("ls-files") && (args.has("-o") || args.has("--others")) => {
                below(&args, [&Word::literal(".")], self.reach, is_it)
            }
            _ => None,
        }
    }

    /// What `compgen` completes: names of files that begin so, what a pattern stands for, words.
    fn completed(&self, run: &'a Run) -> Option<String> {
        let args = self.args(run);
        let pattern = |text: String| Word { text, kind: Kind::Pattern };
        let patterns = args.values_of(&["-G"]).into_iter().map(|word| pattern(word.text));
        let by_pattern = patterns.into_iter().find_map(|word| self.named(run, &word));
        let in_words = || {
            let words = args.values_of(&["-W"]);
            let mut parts = words.iter().flat_map(|word| fragments(&word.text));
            parts.find_map(|part| self.named(run, &Word::literal(part)))
        };
        let of_files = || {
            let completes = args.values_of(&["-A", "-o"]);
            let is_told = completes.iter().any(|word| matches!(&*word.text, "file" | "default"));
            if !is_told && !args.has("-f") {
                return None;
            }
            let last = run.words.last()?;
            let is_begin = !last.text.starts_with('-') && !completes.contains(last);
            let begins = if is_begin { vec![last.text.as_str()] } else { vec!["", "."] };
            begins.into_iter().find_map(|begin| self.named(run, &pattern(format!("{begin}*"))))
        };
        by_pattern.or_else(in_words).or_else(of_files)
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
                let folders = args.places(word);
                let patterns = folders.iter().flat_map(|folder| {
                    inner.iter().map(move |name| match folder.as_str() {
                        "" => (*name).to_owned(),
                        _ => format!("{folder}/{name}"),
                    })
                });
                let mut names = patterns.flat_map(|pattern| self.ground.expand(&pattern));
                names.find_map(|path| self.at(&path))
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
        let is_posix = !is_fixed && name != "rg" && !args.has("-P");
        let (pattern, is_exact) = if is_posix { with_classes(&pattern) } else { (pattern, true) };
        let pattern = RegexBuilder::new(&pattern).case_insensitive(args.has("-i")).build().ok()?;
        let any = |options: &[&str]| options.iter().any(|own| args.has(own));
        let is_turned = any(&["-v", "--invert-match"]);
        // (What may fit more lets all through.)
        if is_turned && !is_exact {
            return None;
        }
        let is_whole = any(&["-x", "-w", "--line-regexp", "--word-regexp"]);
        Some(Self { pattern, is_turned, is_whole })
    }

    /// It is certain to take this name out.
    fn takes_out(&self, path: &str, begin: &str) -> bool {
        let name = path.rsplit('/').next().unwrap_or(path);
        let is_out = || {
            let mut ways = [path, name].into_iter();
            ways.all(|path| self.pattern.is_match(&format!("{begin}{path}")))
        };
        self.is_turned && !self.is_whole && is_out()
    }

    /// It may let this file's name through. What exactly was written is not known (the folder it ran in, the place
    /// it was given): one that wants something is believed to want any of the ways to write it, one that takes
    /// out to take out what it fits in all.
    fn passes(&self, path: &str, begin: &str) -> bool {
        let fits = |path: &str| self.pattern.is_match(path);
        if self.is_turned {
            return !self.takes_out(path, begin);
        }
        let below = path.match_indices('/').map(|(at, _)| &path[at + 1..]);
        let mut written = std::iter::once(path).chain(below);
        written.any(|path| fits(path) || fits(&format!("./{path}")))
    }
}
