//! The paths that words name, from where the command, or the git that it is, works.

use std::collections::BTreeSet;
use std::rc::Rc;

use super::{Args, global_values};
use crate::permission::judge::Place;
use crate::permission::judge::values::Values;
use crate::permission::paths::guarded;
use crate::permission::shell::{Dir, Kind, Way, Word, join, path_of};

/// So many `-C` of git are followed.
const MOST_MOVES: usize = 8;
/// To so many folders a `cd` with a pattern or variable is followed.
const MOST_FOLDERS: usize = 16;

impl<'a> Args<'a> {
    /// The folders that git works in, as they are named from the project's root: `None` where one is not known, or where
    /// `-C` names one that is none of the project's or reached by a link.
    pub(in super::super) fn works_in(&self) -> Option<Vec<String>> {
        let here = self.folders(self.run.words.first()?);
        let there = self.git_folders(&here);
        let is_moved = !there.is_empty();
        let mut folders = if is_moved { there } else { here };
        if let Some(top) = self.begin_of_top().filter(|_| !is_moved) {
            folders.iter_mut().filter(|folder| folder.is_none()).for_each(|folder| {
                *folder = Some(top.clone());
            });
        }
        let real = |folder: Dir| {
            let folder = folder?;
            let real = match self.ground.real(&folder) {
                root if root == "." => String::new(),
                real => real,
            };
            let is_inside =
                !real.starts_with(['/', '~']) && real.split('/').all(|name| name != "..");
            (!is_moved || is_inside && real == folder).then_some(real)
        };
        folders.into_iter().map(real).collect()
    }

    /// Where it stood before it went to the top of the repository: `cd "$(git rev-parse --show-toplevel)"`.
    fn begin_of_top(&self) -> Option<String> {
        const TOP: &str = "git rev-parse --show-toplevel";
        let [way] = &self.run.directories.ways[..] else { return None };
        let n_unknown = self.run.directories.here.iter().filter(|folder| folder.is_none()).count();
        let [begin, to] = &way[..] else { return None };
        let is_top = to.text == format!("$({TOP})") || to.text == format!("`{TOP}`");
        (is_top && n_unknown == 1 && begin.is_literal()).then(|| join(self.directory, &begin.text))
    }

    /// A word of it may name something in `.git`: git writes there what it keeps itself, and where it is told to
    /// (`git worktree add .git/hooks`) it writes anything.
    pub(in super::super) fn names_git_folder(&self) -> bool {
        let is_folder = |name: &str, kind: Kind| {
            name.eq_ignore_ascii_case(".git")
                || kind >= Kind::Pattern && name.starts_with('.') && name.contains(['*', '?', '['])
        };
        if self.any_sub(&["remote", "fetch", "pull", "push"]) {
            // Where another repository lies.
            return false;
        }
        let makes_folders = self.any_sub(&["worktree", "clone", "init", "submodule"]);
        let is_below = |path: &str, kind| path.split(['/', '=']).any(|name| is_folder(name, kind));
        self.words().any(|word| {
            let leads_there = |path: &String| {
                is_below(path, word.kind) || is_below(&self.ground.real(path), word.kind)
            };
            is_below(&word.text, word.kind)
                || makes_folders
                    && self.paths(word).is_none_or(|paths| paths.iter().any(leads_there))
        })
    }

    /// Every path that a word may name, from the project's root; `None` where one is not known.
    pub(in super::super) fn paths(&self, word: &Word) -> Option<Vec<String>> {
        let is_known = |folder: &Dir| path_of(folder, word).is_some();
        self.folders(word).iter().all(is_known).then(|| self.known_paths(word))
    }

    /// Those that are known.
    pub(in super::super) fn known_paths(&self, word: &Word) -> Vec<String> {
        // A redirection is followed from here, what git is given from there.
        let here = self.folders(word);
        let there = self.git_folders(&here);
        let known = here.into_iter().chain(there).chain(self.found_folders());
        known.filter_map(|folder| path_of(&folder, word)).collect()
    }

    /// Every path that a word may name: what is written, what the line gives to its variables, and what its
    /// patterns stand for. This is how a word becomes paths wherever something is suspected of it.
    pub(in super::super) fn places(&self, word: &Word) -> BTreeSet<String> {
        let values = self.values_behind(word);
        let is_variable = matches!(word.kind, Kind::Quoted | Kind::Variable);
        let mut places = BTreeSet::new();
        for value in values.iter() {
            places.extend(self.places_of_value(value));
            if is_variable && !self.values.is_some_and(Values::may_go_on) {
                break;
            }
        }
        places
    }

    /// The same of a word that values were put into.
    pub(in super::super) fn places_of_value(&self, value: &Word) -> Vec<String> {
        let mut places = self.expanded(value);
        if value.kind != Kind::Pattern {
            places.extend(self.known_paths(value));
        }
        places
    }

    /// What a word may stand for by what the line gives to its variables.
    pub(in super::super) fn values_behind(&self, word: &Word) -> Rc<[Word]> {
        self.values.map_or_else(|| Rc::from([word.clone()]), |values| values.behind(word))
    }

    /// The folders that git looks from, or any other program, as far as they are known or can be found out.
    pub(in super::super) fn stands(&self) -> Vec<String> {
        let here = self.folders_of_operand(&Word::literal("."));
        here.into_iter().chain(self.found_folders()).flatten().collect()
    }

    /// The folders it may run in that are found only by what the line gives to variables, and by what is there:
    /// `cd $d`, `cd c*f`, `git -C $d`.
    fn found_folders(&self) -> Vec<Dir> {
        let Some(values) = self.values else { return Vec::new() };
        let moves: Vec<&Word> = if self.is_git() { self.git_moves() } else { Vec::new() };
        if moves.len() > MOST_MOVES {
            return Vec::new();
        }
        let known = || {
            let here = self.run.directories.here.iter().flatten().filter(|_| !moves.is_empty());
            here.map(|folder| {
                let kind = if folder.starts_with('~') { Kind::Home } else { Kind::Literal };
                vec![Word { text: folder.clone(), kind }]
            })
        };
        let mut ways: Vec<Way> = self.run.directories.ways.to_vec();
        if !moves.iter().all(|word| word.is_literal()) {
            ways.extend(known());
        }
        for way in &mut ways {
            way.extend(moves.iter().map(|word| (*word).clone()));
        }
        ways.iter()
            .flat_map(|way| values.led_to(way, || self.follow(way)).to_vec())
            .map(Some)
            .collect()
    }

    /// Where the words of a way lead.
    fn follow(&self, way: &Way) -> Vec<String> {
        let mut folders = BTreeSet::from([self.directory.to_owned()]);
        for word in way {
            let words = self.values_behind(word);
            let next = |from: &String, word: &Word| {
                let own = |kind| Word { text: word.text.clone(), kind };
                let is_pattern = word.kind == Kind::Pattern;
                let word = own(if is_pattern { Kind::Literal } else { word.kind });
                let path = path_of(&Some(from.clone()), &word);
                let has_signs = word.text.contains(['*', '?', '[', '(']);
                match path {
                    Some(path) if has_signs => self.ground.expand(&path),
                    path => path.into_iter().collect(),
                }
            };
            let led = words.iter().flat_map(|word| {
                folders.iter().flat_map(|from| next(from, word)).collect::<Vec<_>>()
            });
            let is_folder =
                |path: &String| !matches!(self.ground.look(path), Place::Nothing | Place::File);
            folders = led.filter(is_folder).take(MOST_FOLDERS).collect();
        }
        folders.into_iter().collect()
    }

    /// Where a word is seen from, from the project's root.
    fn folders(&self, word: &Word) -> Vec<Dir> {
        let here = self.run.directories.of(word).iter();
        here.map(|folder| folder.as_ref().map(|folder| join(self.directory, folder))).collect()
    }

    /// The same of an operand, which git sees from where it was told to work.
    pub(in super::super) fn folders_of_operand(&self, word: &Word) -> Vec<Dir> {
        let here = self.folders(word);
        let there = self.git_folders(&here);
        if there.is_empty() { here } else { there }
    }

    /// What the patterns of a word stand for; behind `~/` and `$PWD/` there may be one too.
    pub(in super::super) fn expanded(&self, word: &Word) -> Vec<String> {
        let kind = match word.kind {
            Kind::Literal | Kind::Output => return Vec::new(),
            Kind::Pattern => Kind::Literal,
            Kind::Home | Kind::Quoted | Kind::Variable => word.kind,
        };
        if !word.text.contains(['*', '?', '[', '(']) {
            return Vec::new();
        }
        let patterns = self.known_paths(&Word { text: word.text.clone(), kind });
        patterns.iter().flat_map(|pattern| self.ground.expand(pattern)).collect()
    }

    /// Where git works that is started here, if that is elsewhere: each `-C` moves it, as `cd` would.
    fn git_folders(&self, here: &[Dir]) -> Vec<Dir> {
        if !self.is_git() {
            return Vec::new();
        }
        let mut there = Vec::new();
        let moves = self.git_moves();
        // Nobody goes that way, and to follow it for each word takes long.
        if moves.len() > MOST_MOVES {
            return vec![None];
        }
        for folder in moves {
            let from = if there.is_empty() { here } else { &there };
            there = from.iter().map(|dir| path_of(dir, folder)).collect();
        }
        there
    }

    /// What stands behind each `-C` of git, and behind one more than are followed.
    fn git_moves(&self) -> Vec<&'a Word> {
        let values = global_values("git");
        let mut moves = Vec::new();
        let mut words = self.words();
        while let Some(word) = words.next().filter(|word| word.text.starts_with('-')) {
            if word.text == "-C" {
                moves.extend(words.next());
            } else if values.contains(&word.text.as_str()) {
                words.next();
            }
            if moves.len() > MOST_MOVES {
                break;
            }
        }
        moves
    }

    /// A script of the project's own has no more than its name in common with a program that is known.
    pub(in super::super) fn is_own(&self) -> bool {
        let is_inside = |path: &String| !path.starts_with(['/', '~']) && !path.starts_with("..");
        let paths = self.run.path.as_ref().and_then(|path| self.paths(path));
        paths.is_some_and(|paths| {
            paths.iter().all(|path| is_inside(path) && is_inside(&self.ground.real(path)))
        })
    }

    /// What stands at the one path that a word names.
    pub(in super::super) fn place(&self, word: &Word) -> Option<(String, Place)> {
        let paths = self.paths(word)?;
        let [path] = paths.as_slice() else { return None };
        Some((path.clone(), self.ground.look(path)))
    }

    /// The file of the project that a literal word names, whether it is there or not.
    pub(super) fn file(&self, word: &Word) -> Option<(String, Place)> {
        // Git has patterns of its own.
        if self.is_git() && (word.text.contains(['*', '?', '[']) || word.text.starts_with(':')) {
            return None;
        }
        let (path, place) = self.place(word).filter(|_| word.is_literal())?;
        let is_file = matches!(place, Place::File | Place::Nothing) && self.is_changeable(&path);
        is_file.then_some((path, place))
    }

    /// The file tools may change it, and so may an undo.
    pub(in super::super) fn is_changeable(&self, path: &str) -> bool {
        guarded(path).is_none() && self.ground.is_changeable(path)
    }
}
