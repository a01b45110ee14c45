//! Where commands run: folders that are followed through `cd`, by their names alone.

use std::sync::Arc;

use super::word::{Kind, Word};

/// How many folders a command may run in, before they count as unknown.
const MOST_DIRECTORIES: usize = 4;
/// So many ways into folders that are not known here are kept, each with so many words.
const MOST_WAYS: usize = 4;
const MOST_WORDS: usize = 8;
/// So many ways back are kept; of a line with more it is not known where it runs.
const MOST_BACK: usize = 16;
/// What begins a path from the folder that a command runs in, and from the one that was left for it.
const HERE: &[&str] = &["$PWD", "${PWD}", "~+"];
const HERE_BY_COMMAND: &[&str] = &["$(pwd)", "`pwd`"];
const LEFT: &[&str] = &["$OLDPWD", "${OLDPWD}", "~-"];

/// A folder: relative to the project's root (`""`, `a/b`, `../c`), from the root of all (`/etc`), from the
/// home (`~`, `~/x`); `None` where it is not known.
pub(in super::super) type Dir = Option<String>;

/// The words that lead into a folder, one after the other, where what they stand for is not known here: `cd c*f`, `cd $d`.
pub(in super::super) type Way = Vec<Word>;

/// A `..` on the way into a folder. Where that is not there, and a link led to what is left, bash goes back from where the
/// link led.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in super::super) struct Back {
    /// What is left, where that is known.
    pub(in super::super) from: Dir,
    /// The folder, by the names.
    pub(in super::super) to: String,
}

/// The folders that a command may run in, and those that the last `cd` before it may have left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct Folders {
    pub(in super::super) here: Arc<[Dir]>,
    left: Arc<[Dir]>,
    /// The ways into those here that are not known.
    pub(in super::super) ways: Arc<[Way]>,
    left_ways: Arc<[Way]>,
    /// The ways back; none where there are too many.
    pub(in super::super) back: Option<Arc<[Back]>>,
}

impl Folders {
    /// Where a line runs. What was left for it is not known.
    pub(super) fn root() -> Self {
        Self {
            here: Arc::new([Some(String::new())]),
            left: Arc::new([None]),
            ways: Arc::new([]),
            left_ways: Arc::new([]),
            back: Some(Arc::new([])),
        }
    }

    /// Those that a word is seen from: `~-/x` from what was left.
    pub(in super::super) fn of(&self, word: &Word) -> &[Dir] {
        if behind(word, LEFT).is_some() { &self.left } else { &self.here }
    }

    /// After `cd`, `pushd` with these arguments.
    pub(super) fn change(&mut self, arguments: &[Word]) {
        let is_option =
            |word: &&Word| matches!(word.known(), Some("-P" | "-L" | "-e" | "--" | "-n"));
        let no_way: Arc<[Way]> = Arc::new([]);
        let (here, ways) = match arguments.iter().find(|word| !is_option(word)) {
            None => (Arc::new([Some("~".to_owned())]) as Arc<[Dir]>, no_way),
            Some(word) if word.text == "-" => (Arc::clone(&self.left), Arc::clone(&self.left_ways)),
            Some(word) if word.text.starts_with(['+', '-']) => (Arc::new([None]) as _, no_way),
            Some(word) => {
                let here = self.of(word).iter().map(|dir| path_of(dir, word)).collect();
                (here, self.ways_by(word))
            }
        };
        // By where links lead; here they are followed by their names.
        let is_physical = |word: &Word| {
            word.known().is_some_and(|text| text.starts_with('-') && text.contains('P'))
        };
        let here = if arguments.iter().any(is_physical) { Arc::new([None]) as _ } else { here };
        for word in arguments {
            let back = self.backs_by(word);
            self.keep_back(back.as_deref());
        }
        self.go(here, ways);
    }

    fn keep_back(&mut self, more: Option<&[Back]>) {
        let (Some(kept), Some(more)) = (&self.back, more) else {
            self.back = None;
            return;
        };
        let new: Vec<Back> = more.iter().filter(|back| !kept.contains(back)).cloned().collect();
        if !new.is_empty() {
            let all: Arc<[Back]> = kept.iter().cloned().chain(new).collect();
            self.back = Some(all).filter(|all| all.len() <= MOST_BACK);
        }
    }

    /// The ways back in a word; none where there are too many.
    fn backs_by(&self, word: &Word) -> Option<Vec<Back>> {
        let parts: Vec<&str> = word.text.split('/').collect();
        if parts.iter().filter(|part| **part == "..").count() > MOST_BACK {
            return None;
        }
        let ends = parts.iter().enumerate().filter(|(_, part)| **part == "..").map(|(end, _)| end);
        let before = |end: usize| Word { text: parts[..end].join("/"), kind: word.kind };
        let ways = ends.flat_map(|end| {
            self.of(word).iter().filter_map(move |dir| {
                let to = path_of(dir, word)?;
                let from = if end == 0 { dir.clone() } else { path_of(dir, &before(end)) };
                Some(Back { from: from.filter(|_| word.is_literal()), to })
            })
        });
        Some(ways.collect())
    }

    /// After `popd`.
    pub(super) fn forget(&mut self) {
        self.go(Arc::new([None]), Arc::new([]));
    }

    fn go(&mut self, here: Arc<[Dir]>, ways: Arc<[Way]>) {
        self.left = std::mem::replace(&mut self.here, here);
        self.left_ways = std::mem::replace(&mut self.ways, ways);
    }

    /// The ways into what a word leads to that is not known.
    fn ways_by(&self, word: &Word) -> Arc<[Way]> {
        // (From the root of all it is known wherever that begins.)
        let further = self.ways.iter().filter(|_| path_of(&None, word).is_none()).cloned();
        let unknown = |dir: &&Dir| dir.is_some() && path_of(dir, word).is_none();
        let begun = self.of(word).iter().filter(unknown).flatten().map(|dir| {
            let kind = if dir.starts_with('~') { Kind::Home } else { Kind::Literal };
            vec![Word { text: dir.clone(), kind }]
        });
        let begun = begun.chain(further).filter(|way| way.len() < MOST_WORDS);
        let mut ways: Vec<Way> = begun.take(MOST_WAYS).collect();
        for way in &mut ways {
            way.push(word.clone());
        }
        ways.into()
    }

    /// What follows runs where it would have run before, or where it would now.
    pub(super) fn either(&mut self, before: &Self) {
        self.keep_back(before.back.as_deref());
        for (all, before) in [(&mut self.here, &before.here), (&mut self.left, &before.left)] {
            if all == before {
                continue;
            }
            let mut both: Vec<Dir> = before.to_vec();
            both.extend(all.iter().filter(|dir| !before.contains(dir)).cloned());
            *all = if both.len() > MOST_DIRECTORIES { Arc::new([None]) } else { both.into() };
        }
        let ways = [(&mut self.ways, &before.ways), (&mut self.left_ways, &before.left_ways)];
        for (all, before) in ways.into_iter().filter(|(all, before)| all != before) {
            let more = all.iter().filter(|way| !before.contains(way));
            *all = before.iter().chain(more).take(MOST_WAYS).cloned().collect();
        }
    }
}

/// What stands behind one of these in a word that bash replaces it in, and is a path.
fn behind<'a>(word: &'a Word, begins: &[&str]) -> Option<&'a str> {
    let mut rests = begins.iter().filter_map(|begin| word.text.strip_prefix(begin));
    rests
        .find(|rest| (rest.is_empty() || rest.starts_with('/')) && !rest.contains('$'))
        .filter(|_| !word.is_literal())
}

/// `cwd` or `root` of `/proc/self`, `/proc/$$`, `/proc/N`, and what stands behind it: the folder that commands run in,
/// and the root of all.
fn by_process(text: &str) -> Option<(&str, &str)> {
    let mut rest = text.strip_prefix('/')?;
    let mut next = || {
        loop {
            let own = rest.trim_start_matches('/');
            let (part, behind) = own.split_at(own.find('/').unwrap_or(own.len()));
            rest = behind;
            if part != "." {
                return part;
            }
        }
    };
    let is_process = next() == "proc" && !next().is_empty();
    let mut place = next();
    if place == "task" {
        next();
        place = next();
    }
    // `root$PWD`
    let name = &place[..place.find('$').unwrap_or(place.len())];
    let n_left = rest.len() + place.len() - name.len();
    (is_process && matches!(name, "cwd" | "root")).then(|| (name, &text[text.len() - n_left..]))
}

/// A path as seen from a folder, without `.` and, as far as that goes, `..`.
pub(in super::super) fn join(dir: &str, path: &str) -> String {
    let base = match path.chars().next() {
        Some('/') => "",
        _ if path == "~" || path.starts_with("~/") => "",
        _ => dir,
    };
    let is_absolute = base.starts_with('/') || base.is_empty() && path.starts_with('/');
    let mut parts: Vec<&str> = Vec::new();
    for part in base.split('/').chain(path.split('/')) {
        match part {
            "" | "." => {}
            ".." => match parts.last() {
                // Above the home is a place without a name.
                None if is_absolute => {}
                None | Some(&(".." | "~")) => parts.push(".."),
                Some(_) => _ = parts.pop(),
            },
            _ => parts.push(part),
        }
    }
    let joined = parts.join("/");
    if is_absolute { format!("/{joined}") } else { joined }
}

/// The path that a word names: literal, or from the home or this folder, one of those that it is seen from.
pub(in super::super) fn path_of(dir: &Dir, word: &Word) -> Dir {
    let text = word.text.as_str();
    if let Some((place, rest)) = by_process(text) {
        let rest = rest.trim_start_matches('/');
        // `/proc/self/root$PWD`
        let text = match place {
            "root" if !rest.starts_with(['$', '~']) => format!("/{rest}"),
            "cwd" => format!("./{rest}"),
            _ => rest.to_owned(),
        };
        // Of the process's number nothing is left that would have to be known.
        let is_known = matches!(word.kind, Kind::Quoted | Kind::Variable) && !text.contains('$');
        let kind = if is_known { Kind::Literal } else { word.kind };
        return path_of(dir, &Word { text, kind });
    }
    match word.kind {
        // A file of that name, which `join` would take for the home.
        Kind::Literal if text.starts_with('~') => None,
        Kind::Literal => match dir {
            Some(dir) => Some(join(dir, text)),
            None => text.starts_with('/').then(|| join("", text)),
        },
        Kind::Home if text == "~" || text.starts_with("~/") => Some(join("", text)),
        Kind::Home | Kind::Quoted | Kind::Variable => match behind(word, &["$HOME", "${HOME}"]) {
            Some(rest) => Some(join("", &format!("~{rest}"))),
            None => {
                let rest = behind(word, HERE).or_else(|| behind(word, LEFT))?;
                dir.as_ref().map(|dir| join(dir, &format!("./{rest}")))
            }
        },
        Kind::Output => {
            let rest = behind(word, HERE_BY_COMMAND)?;
            dir.as_ref().map(|dir| join(dir, &format!("./{rest}")))
        }
        Kind::Pattern => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_of_a_process_is_the_one_it_runs_in() {
        let dir = Some("a".to_owned());
        for (text, kind, expected) in [
            ("/proc/self/cwd/b", Kind::Literal, Some("a/b")),
            ("//proc/./self//cwd/../b", Kind::Literal, Some("b")),
            ("/proc/self/cwd", Kind::Literal, Some("a")),
            ("/proc/$$/cwd/b", Kind::Variable, Some("a/b")),
            ("/proc/1/task/2/cwd/b", Kind::Literal, Some("a/b")),
            ("/proc/self/root/etc", Kind::Literal, Some("/etc")),
            ("/proc/self/root$PWD/b", Kind::Variable, Some("a/b")),
            ("/proc/self/root/$HOME/b", Kind::Variable, Some("~/b")),
            ("/proc/self/cwdx/b", Kind::Literal, Some("/proc/self/cwdx/b")),
            ("/proc/self/cwd/$x", Kind::Variable, None),
            ("/proc", Kind::Literal, Some("/proc")),
        ] {
            let found = path_of(&dir, &Word { text: text.to_owned(), kind });
            assert_eq!(found.as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn ways_back_are_kept_once_and_not_without_end() {
        let word = |text: &str| Word { text: text.to_owned(), kind: Kind::Literal };
        let back = |from: &str, to: &str| Back { from: Some(from.to_owned()), to: to.to_owned() };
        let mut folders = Folders::root();
        for _ in 0..1_000 {
            folders.change(&[word("a")]);
            folders.change(&[word("..")]);
        }
        folders.change(&[word("b/../c")]);
        assert_eq!(folders.back.as_deref(), Some(&[back("a", ""), back("b", "c")][..]));
        let mut deep = folders.clone();
        deep.change(&[word(&"../".repeat(MOST_BACK + 1))]);
        assert_eq!(deep.back, None);
        for n in 0..MOST_BACK {
            folders.change(&[word(&format!("{n}/.."))]);
        }
        folders.either(&Folders::root());
        assert_eq!(folders.back, None);
    }

    #[test]
    fn paths_are_joined_by_their_names() {
        for (dir, path, expected) in [
            ("", "a/./b/../c", "a/c"),
            ("a", "..", ""),
            ("a", "../..", ".."),
            ("", "../x", "../x"),
            ("a", "/etc//x/", "/etc/x"),
            ("/", "../..", "/"),
            ("/tmp", "x", "/tmp/x"),
            ("a", "~/x", "~/x"),
            ("~", "..", "~/.."),
            ("", ".", ""),
        ] {
            assert_eq!(join(dir, path), expected, "{dir} {path}");
        }
    }
}
