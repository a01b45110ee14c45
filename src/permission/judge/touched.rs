//! Which files a line takes away, overwrites or moves, as far as its words name them.

use std::collections::{BTreeSet, HashSet};

use super::args::Args;
use super::sed::{Call, Deed};
use super::survey::Survey;
use super::values::Values;
use super::{Ground, Place, Reach};
use crate::permission::line::Line;
use crate::permission::paths::guarded;
use crate::permission::shell::{Kind, Word, join};

/// What a look at a path costs, in values that are compared, and what it costs to put one together.
const A_LOOK: usize = 10;
const A_PATH: usize = 5;

/// What happens to a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Change {
    /// It is written.
    Written,
    /// Something is moved there.
    MovedTo,
    /// It goes, with all that is in it.
    Gone,
}

/// What a line changes, in the order in which it says so.
#[derive(Default)]
struct Touched {
    paths: Vec<(String, Change)>,
    seen: HashSet<(String, Change)>,
    /// Folders whose files come to lie in others.
    filled: Vec<(String, String)>,
}

impl Touched {
    fn add(&mut self, path: String, change: Change) {
        let touched = (path, change);
        if self.seen.insert(touched.clone()) {
            self.paths.push(touched);
        }
    }
}

/// The files that the line, run in this folder, takes away, overwrites or moves something to, where they are
/// named: what they are should be kept before.
pub(in super::super) fn removes(line: &Line, directory: &str, ground: &dyn Ground) -> Vec<String> {
    let ground = &Survey::new(ground);
    let look = |path: &str| ground.spend(A_LOOK).then(|| ground.look(path));
    let is_kept = |path: &str, change: Change| match look(path) {
        Some(Place::File) => change == Change::Written || guarded(path).is_none(),
        // It is created: an undo takes it away again.
        Some(Place::Nothing) => {
            let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
            let is_folder = || folder.is_empty() || look(folder) != Some(Place::Nothing);
            change == Change::MovedTo && guarded(path).is_none() && is_folder()
        }
        Some(Place::Folder | Place::Project | Place::Above | Place::Elsewhere) | None => false,
    };
    let touched = touched(line, directory, ground).paths.into_iter();
    let kept = touched.filter(|(path, change)| is_kept(path, *change)).map(|(path, _)| path);
    kept.collect::<BTreeSet<String>>().into_iter().collect()
}

/// A file of this kind that the line, run in this folder, is known to change.
pub(in super::super) fn changes(
    line: &Line,
    directory: &str,
    ground: &Survey<'_>,
    is_it: &(dyn Fn(&str) -> bool + Sync),
) -> Option<String> {
    let touched = touched(line, directory, ground);
    let found = touched.paths.into_iter().find_map(|(path, change)| {
        // (A name that fits is enough where no more can be looked at.)
        let can_look = ground.spend(A_LOOK);
        let real = if can_look { ground.real(&path) } else { path.clone() };
        if is_it(&real) {
            return Some(real);
        }
        let is_gone = can_look && change == Change::Gone;
        let is_folder =
            is_gone && matches!(ground.look(&path), Place::Folder | Place::Project);
        is_folder.then(|| ground.find(&path, Reach::All, is_it)).flatten()
    });
    found.or_else(|| {
        let mut filled = touched.filled.into_iter();
        filled.find_map(|(from, to)| {
            if !ground.spend(A_LOOK) || ground.look(&from) != Place::Folder {
                return None;
            }
            let from = ground.real(&from);
            let place =
                |path: &str| Some(join(&to, path.strip_prefix(&from)?.trim_start_matches('/')));
            let is_there = |path: &str| place(path).is_some_and(|path| is_it(&path));
            place(&ground.find(&from, Reach::All, &is_there)?)
        })
    })
}

/// What the line, run in this folder, changes, as far as it is named.
fn touched(line: &Line, directory: &str, ground: &Survey<'_>) -> Touched {
    let directory = if directory == "." { "" } else { directory };
    let values = Values::of(line, ground);
    let mut touched = Touched::default();
    for run in line.runs() {
        let args = Args { run, directory, ground };
        Toucher { args, values: &values, ground, touched: &mut touched }.look();
    }
    touched
}

struct Toucher<'a, 'b> {
    args: Args<'b>,
    values: &'a Values<'b>,
    ground: &'a Survey<'b>,
    touched: &'a mut Touched,
}

impl<'b> Toucher<'_, 'b> {
    fn look(&mut self) {
        let run = self.args.run;
        let (written, moved, gone) = (Change::Written, Change::MovedTo, Change::Gone);
        match run.name() {
            "rm" | "unlink" | "rmdir" | "shred" => self.add_all(self.args.own_operands(), gone),
            "mv" => {
                let sources = self.put(moved);
                self.add_all(sources, gone);
            }
            "cp" | "install" | "ln" => _ = self.put(written),
            "dd" => {
                let files: Vec<Word> =
                    self.args.words().filter_map(|word| word.after("of=")).collect();
                self.add_all(&files, written);
            }
            "tee" | "truncate" | "touch" | "patch" => {
                self.add_all(self.args.own_operands(), written);
            }
            // `uniq IN OUT`
            "uniq" => self.add_all(self.args.operands().nth(1), written),
            "git" if self.args.sub_is("rm") => self.add_all(self.args.operands().skip(1), gone),
            "git" if self.args.sub_is("mv") => {
                let mut operands: Vec<&Word> = self.args.operands().skip(1).collect();
                if let Some(target) = operands.pop() {
                    self.put_to(target, &operands, moved);
                    self.add_all(operands, gone);
                }
            }
            "sed" => {
                let call = Call::of(&self.args);
                if call.is_in_place {
                    self.add_all(call.files.iter().copied(), written);
                }
                for deed in call.deeds() {
                    if let Deed::Writes(path) = deed {
                        let word = Word { text: path.to_owned(), kind: call.script.kind };
                        self.add(&word, written);
                    }
                }
            }
            "perl" if self.args.has("-i") => self.add_all(self.args.operands(), written),
            _ => {}
        }
        self.add_all(&self.args.written_by_option(), written);
        self.add_all(run.redirects.iter().filter_map(|to| to.writes()), written);
    }

    fn add_all<'w>(&mut self, words: impl IntoIterator<Item = &'w Word>, change: Change) {
        for word in words {
            self.add(word, change);
        }
    }

    fn add(&mut self, word: &Word, change: Change) {
        for path in self.places(word) {
            self.touched.add(path, change);
        }
    }

    /// Notes where `mv`, `cp` and their kin put what they are given, and tells what that is.
    fn put(&mut self, change: Change) -> Vec<&'b Word> {
        let mut sources = self.args.own_operands();
        let target = match self.args.values_of(&["-t", "--target-directory"]).into_iter().next() {
            Some(target) => Some(target),
            None => sources.pop().cloned(),
        };
        if let Some(target) = target {
            self.put_to(&target, &sources, change);
        }
        sources
    }

    fn put_to(&mut self, target: &Word, sources: &[&Word], change: Change) {
        let targets = self.places(target);
        for target in &targets {
            self.touched.add(target.clone(), change);
        }
        for source in sources {
            // (`cp -r a/. b` puts what is in it there.)
            let name = source.known().map(|text| last(text).to_owned());
            let mut paths: Vec<Option<String>> =
                self.places(source).into_iter().map(Some).collect();
            if paths.is_empty() && name.is_some() {
                paths.push(None);
            }
            for (path, target) in
                paths.iter().flat_map(|one| targets.iter().map(move |to| (one, to)))
            {
                if !self.ground.spend(A_PATH) {
                    return;
                }
                let path = path.as_deref();
                let name = name.as_deref().or(path.map(last)).unwrap_or_default();
                let within = join(target, name);
                if let Some(path) = path {
                    if self.ground.look(target) == Place::Nothing {
                        self.touched.filled.push((path.to_owned(), target.clone()));
                    }
                    self.touched.filled.push((path.to_owned(), within.clone()));
                }
                self.touched.add(within, change);
            }
        }
    }

    /// The files that a word names: itself, by a pattern, or by variables that the line sets.
    fn places(&self, word: &Word) -> BTreeSet<String> {
        let is_variable = word.kind == Kind::Variable;
        let mut places = BTreeSet::new();
        for word in self.values.behind(word).iter() {
            if word.kind == Kind::Pattern {
                let pattern = Word { text: word.text.clone(), kind: Kind::Literal };
                let patterns = self.args.paths(&pattern).unwrap_or_default();
                let files = patterns.iter().flat_map(|pattern| self.ground.expand(pattern));
                places.extend(files);
            } else {
                places.extend(self.args.paths(word).unwrap_or_default());
            }
            if is_variable && !self.ground.spend(A_PATH) {
                break;
            }
        }
        places
    }
}

/// The last name of a path.
fn last(path: &str) -> &str {
    path.trim_end_matches('/').rsplit('/').next().unwrap_or_default()
}
