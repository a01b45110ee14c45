//! Which files a line may show the content of, by the names in its words.
//!
//! What is known only when it runs (`cat $(…)`, a script, `git log -p`) is not seen.

use globset::{Glob, GlobMatcher};

use super::args::Args;
use super::table::{NAMES_ONLY, SEARCHES, SHOWS};
use super::{Ground, Place};
use crate::permission::line::Line;
use crate::permission::shell::{How, Input, Kind, Run, Word};
use crate::protocol::nests_too_deep;

/// What of a line is taken for a name of a file that it shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Suspicion {
    /// The operands of programs that are known to show files.
    Known,
    /// Whatever looks like a path, also in a script's text, of every program that is not known to
    /// look at names alone; and the folders that it goes through.
    Any,
}

/// Git's commands that show what is in files.
const GIT_SHOWS: &[&str] = &[
    "show",
    "diff",
    "log",
    "blame",
    "annotate",
    "grep",
    "cat-file",
    "archive",
    "format-patch",
    "stash",
    "difftool",
    "whatchanged",
    "diff-tree",
    "diff-index",
    "diff-files",
    "bundle",
];

/// Programs that go through the folders they are given without being told to.
const GO_DOWN: &[&str] = &["rg", "ag", "ack", "tar", "zip", "rsync", "scp", "7z"];

/// The first file of this kind that the line, run in this folder, may show.
pub(in super::super) fn shows(
    line: &Line,
    directory: &str,
    ground: &dyn Ground,
    is_it: &(dyn Fn(&str) -> bool + Sync),
    suspicion: Suspicion,
) -> Option<String> {
    let directory = if directory == "." { "" } else { directory };
    let found = line.runs().iter().find_map(|run| {
        let looker = Looker { args: Args { run, directory, ground }, is_it, suspicion };
        // Names that one command writes are read by another.
        let hands_on = run.writes_pipe && has_xargs(line) || looker.runs_others();
        looker.look(hands_on)
    });
    found
        .or_else(|| {
            // `x=secret.txt; cat $x`
            let commands = line.script().commands.iter().filter(|_| suspicion == Suspicion::Any);
            let mut set = commands.flat_map(|command| &command.assignments);
            set.find_map(|word| {
                fragments(&word.text).find(|text| is_it(text)).map(ToOwned::to_owned)
            })
        })
        .or_else(|| {
            // `for f in hidden/*; do cat "$f"; done`: the name stands somewhere else in the line.
            let is_wanted = suspicion == Suspicion::Any && line.runs().iter().any(reads_unknown);
            let mut words = line.text().split_ascii_whitespace().filter(|_| is_wanted);
            words.find_map(|word| {
                let word = word.trim_matches(|char| "\"'();{}".contains(char));
                let pattern = Word { text: word.to_owned(), kind: Kind::Pattern };
                let run = line.runs().first()?;
                let looker = Looker { args: Args { run, directory, ground }, is_it, suspicion };
                looker.named(&pattern)
            })
        })
        .or_else(|| {
            // Of a line that is not understood each word may be one.
            let is_all_known = line.is_known() || suspicion == Suspicion::Known;
            let mut words = fragments(line.text()).filter(|_| !is_all_known);
            words.find(|word| is_it(word)).map(ToOwned::to_owned)
        })
}

/// It shows a file whose name is known only when it runs.
fn reads_unknown(run: &Run) -> bool {
    let name = run.words.first().map_or("", |word| word.text.as_str());
    let is_unknown = |word: &Word| matches!(word.kind, Kind::Variable | Kind::Output);
    SHOWS.contains(&name) && run.words.iter().skip(1).any(is_unknown)
}

fn has_xargs(line: &Line) -> bool {
    line.runs().iter().any(|run| run.words.first().is_some_and(|word| word.text == "xargs"))
}

struct Looker<'a> {
    args: Args<'a>,
    is_it: &'a (dyn Fn(&str) -> bool + Sync),
    suspicion: Suspicion,
}

impl Looker<'_> {
    /// `find -exec`, `fd -x`.
    fn runs_others(&self) -> bool {
        let options = ["-exec", "-execdir", "-ok", "-x", "-X", "--exec", "--exec-batch"];
        matches!(self.name(), "find" | "fd" | "fdfind")
            && self.args.words().any(|word| options.contains(&word.text.as_str()))
    }

    fn look(&self, hands_on: bool) -> Option<String> {
        let run = self.args.run;
        let read = run.redirects.iter().filter(|to| to.how == How::Read).map(|to| &to.target);
        let named = read.chain(self.operands(hands_on)).find_map(|word| self.named(word));
        if named.is_some() || self.suspicion == Suspicion::Known {
            return named;
        }
        let handed_on = || if hands_on { self.handed_on() } else { None };
        self.in_texts().or_else(|| self.below()).or_else(handed_on)
    }

    fn name(&self) -> &str {
        self.args.run.words.first().map_or("", |word| word.text.as_str())
    }

    /// The words that name what it shows, or hands on to others.
    fn operands(&self, hands_on: bool) -> Vec<&Word> {
        let name = self.name();
        let searches = SEARCHES.contains(&name);
        let is_suspect = match self.suspicion {
            // What `tee` names it writes.
            Suspicion::Known => searches || SHOWS.contains(&name) && name != "tee",
            Suspicion::Any if name == "git" => {
                self.args.operands().next().is_some_and(|sub| GIT_SHOWS.contains(&&*sub.text))
            }
            Suspicion::Any => hands_on || !NAMES_ONLY.contains(&name),
        };
        if !is_suspect {
            return Vec::new();
        }
        let has_pattern = ["-e", "-f", "--regexp", "--file"].iter().any(|own| self.args.has(own));
        let mut operands: Vec<&Word> =
            self.args.operands().skip(usize::from(searches && !has_pattern)).collect();
        // The last word of a copy is what is written.
        let n_written = usize::from(matches!(name, "cp" | "mv" | "ln" | "install"));
        operands.truncate(operands.len().saturating_sub(n_written));
        if self.suspicion == Suspicion::Any {
            operands.extend(self.args.words().filter(|word| word.text.starts_with('-')));
        }
        operands
    }

    /// The file of this kind that a word names.
    fn named(&self, word: &Word) -> Option<String> {
        if word.kind == Kind::Pattern
            && let Some(found) = self.expanded(word)
        {
            return Some(found);
        }
        let whole = word.text.trim_start_matches('@');
        let whole = whole.strip_prefix("if=").unwrap_or(whole);
        let is_name = !whole.starts_with('-') && !whole.contains(['\n', '\0']);
        let texts = std::iter::once(whole).filter(|_| is_name);
        match self.suspicion {
            Suspicion::Known => texts
                .filter(|text| !text.contains(' '))
                .find_map(|text| self.at(&Word { text: text.to_owned(), kind: word.kind })),
            Suspicion::Any => texts
                .chain(fragments(&word.text))
                .find_map(|text| self.at(&Word { text: text.to_owned(), kind: word.kind })),
        }
    }

    /// The path of a word, if it is one of them.
    fn at(&self, word: &Word) -> Option<String> {
        if (self.is_it)(&word.text) {
            return Some(word.text.clone());
        }
        let paths = self.args.paths(word)?.into_iter();
        // Behind a link lies another name.
        paths.map(|path| self.args.ground.real(&path)).find(|path| (self.is_it)(path))
    }

    /// What of the files that a pattern stands for is one of them.
    fn expanded(&self, word: &Word) -> Option<String> {
        let as_literal = Word { text: word.text.clone(), kind: Kind::Literal };
        let patterns = self.args.paths(&as_literal)?.into_iter();
        patterns
            .flat_map(|pattern| self.args.ground.expand(&pattern))
            .find(|path| (self.is_it)(path))
    }

    /// Texts that it runs as a program: here-documents of interpreters.
    fn in_texts(&self) -> Option<String> {
        let name = self.name();
        let is_data = SHOWS.contains(&name) || NAMES_ONLY.contains(&name) || name == "git";
        match &self.args.run.input {
            Input::Text(text) if !is_data && !SEARCHES.contains(&name) => {
                fragments(&text.text).find_map(|text| self.at(&Word::literal(text)))
            }
            Input::Text(_) | Input::None | Input::Pipe | Input::File(_) => None,
        }
    }

    /// One of them among what `find` hands on to others: below its places, with a name that it looks for.
    fn handed_on(&self) -> Option<String> {
        if self.name() != "find" {
            return None;
        }
        let is_place = |word: &&Word| !word.text.starts_with(['-', '(', '!']);
        let here = Word::literal(".");
        let mut places: Vec<&Word> = self.args.words().take_while(is_place).collect();
        if places.is_empty() {
            places.push(&here);
        }
        let names = self.args.words().zip(self.args.words().skip(1));
        let names = names.filter(|(option, _)| matches!(option.text.as_str(), "-name" | "-iname"));
        let globs: Vec<GlobMatcher> = names
            // What can not be read may stand for anything.
            .map(|(_, name)| if nests_too_deep(&name.text) { "*" } else { name.text.as_str() })
            .filter_map(|name| Some(Glob::new(name).ok()?.compile_matcher()))
            .collect();
        let fits = |path: &str| {
            let name = path.rsplit('/').next().unwrap_or(path);
            (self.is_it)(path) && (globs.is_empty() || globs.iter().any(|glob| glob.is_match(name)))
        };
        let paths = places.into_iter().filter_map(|word| self.args.paths(word)).flatten();
        paths
            .filter(|path| is_folder(self.args.ground.look(path)))
            .find_map(|path| self.args.ground.find(&path, true, &fits))
    }

    /// One of them, in a folder that it goes through.
    fn below(&self) -> Option<String> {
        let (name, args) = (self.name(), &self.args);
        let is_git = name == "git" && args.sub_is("grep");
        let is_told = ["-r", "-R", "-a", "--recursive", "--archive"];
        let searches = SEARCHES.contains(&name) || is_git;
        let shows = searches || SHOWS.contains(&name) || GO_DOWN.contains(&name);
        let goes_down =
            is_git || GO_DOWN.contains(&name) || is_told.iter().any(|own| args.has(own));
        if !shows || !goes_down {
            return None;
        }
        let skipped = usize::from(searches) + usize::from(is_git);
        let here = Word::literal(".");
        let mut folders: Vec<&Word> = args.operands().skip(skipped).collect();
        if folders.is_empty() && searches {
            folders.push(&here);
        }
        let all = !is_git
            && (name != "rg"
                || ["-u", "--hidden", "--no-ignore", "-."].iter().any(|own| args.may_have(own)));
        let paths = folders.into_iter().filter_map(|word| args.paths(word)).flatten();
        paths
            .filter(|path| is_folder(args.ground.look(path)))
            .find_map(|path| args.ground.find(&path, all, self.is_it))
    }
}

fn is_folder(place: Place) -> bool {
    match place {
        Place::Folder | Place::Project | Place::Above => true,
        Place::Nothing | Place::File | Place::Elsewhere => false,
    }
}

/// What in a text may be a path: `x.txt` in `open("x.txt")`, `HEAD:x.txt`, `if=x.txt`, `-fx.txt`.
fn fragments(text: &str) -> impl Iterator<Item = &str> {
    let is_between =
        |char: char| char.is_ascii() && !char.is_ascii_alphanumeric() && !"._-+~/%".contains(char);
    text.split(is_between).filter(|part| !part.is_empty()).flat_map(|part| {
        let behind_option = part.strip_prefix('-').filter(|rest| rest.is_char_boundary(1));
        [Some(part), behind_option.and_then(|rest| rest.get(1..)).filter(|rest| !rest.is_empty())]
            .into_iter()
            .flatten()
    })
}
