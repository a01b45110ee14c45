//! A command's arguments, as the table asks for them.

use std::collections::BTreeSet;
use std::rc::Rc;

use super::table::{GLOBAL_VALUES, When};
use super::values::Values;
use super::{Ground, Place};
use crate::permission::paths::guarded;
use crate::permission::shell::{
    Dir, Effects, Input, Kind, Run, Way, Word, is_harmless_setting, join, path_of,
};

/// So many `-C` of git are followed.
const MOST_MOVES: usize = 8;
/// To so many folders a `cd` with a pattern or variable is followed.
const MOST_FOLDERS: usize = 16;

/// The options of programs that take a value, as letters and by name, and letters whose value can only be attached.
/// (`sort -k 2 -uo x`: without these it is not certain which word is what.)
const WITH_VALUE: &[(&[&str], &str, &str, &[&str])] = &[
    (
        &["sort"],
        "kotST",
        "",
        &[
            "--key",
            "--output",
            "--field-separator",
            "--buffer-size",
            "--temporary-directory",
            "--batch-size",
            "--compress-program",
            "--files0-from",
            "--parallel",
            "--random-source",
        ],
    ),
    (&["cp", "mv", "ln"], "tS", "", &["--target-directory", "--suffix"]),
    (
        &["install"],
        "tSmog",
        "",
        &["--target-directory", "--suffix", "--mode", "--owner", "--group", "--strip-program"],
    ),
    (&["sed"], "efl", "i", &["--expression", "--file", "--line-length"]),
    (
        &["xargs"],
        "adEILnPs",
        "eil",
        &[
            "--arg-file",
            "--delimiter",
            "--max-args",
            "--max-procs",
            "--max-chars",
            "--process-slot-var",
        ],
    ),
    (
        &["patch"],
        "BdDFgioprVYz",
        "",
        &["--directory", "--input", "--output", "--strip", "--reject-file", "--prefix", "--suffix"],
    ),
    (&["diff"], "FILSUCWXx", "", &["--to-file", "--from-file", "--exclude", "--exclude-from"]),
    (&["truncate"], "sr", "", &["--size", "--reference"]),
    (&["touch"], "drt", "", &["--date", "--reference"]),
    (&["shred"], "ns", "", &["--iterations", "--size", "--random-source"]),
];

/// The words of a command as its program takes them.
struct Given<'a> {
    options: Vec<(&'a str, Option<Word>)>,
    operands: Vec<&'a Word>,
}

/// A command and where it runs.
pub(in super::super) struct Args<'a> {
    pub(super) run: &'a Run,
    pub(super) directory: &'a str,
    pub(super) ground: &'a dyn Ground,
    /// What the line gives to variables, for those who ask what a word may name.
    pub(super) values: Option<&'a Values<'a>>,
}

/// What a word behind the program is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Part {
    /// An option before what the program is told to do, or its value.
    Global,
    /// An option behind that.
    Option,
    /// No option.
    Operand,
}

impl<'a> Args<'a> {
    /// A command of which nothing but its words is asked.
    pub(super) fn alone(run: &'a Run) -> Self {
        Self { run, directory: "", ground: &super::Nowhere, values: None }
    }

    /// All words behind the program.
    pub(super) fn words(&self) -> impl Iterator<Item = &'a Word> + Clone + use<'a> {
        self.run.words.iter().skip(1)
    }

    /// The words that are no options; behind `--` all.
    pub(super) fn operands(&self) -> impl Iterator<Item = &'a Word> + use<'a> {
        self.parts().filter(|(_, part)| *part == Part::Operand).map(|(word, _)| word)
    }

    /// All words behind the program, and what each is.
    pub(super) fn parts(&self) -> impl Iterator<Item = (&'a Word, Part)> + use<'a> {
        let mut is_over = false;
        let mut is_value = false;
        let name = self.run.name();
        let mut values = global_values(name);
        // What it is told to do is not known yet.
        let mut is_before = true;
        self.words().map(move |word| {
            let text = word.text.as_str();
            let option = if is_before { Part::Global } else { Part::Option };
            if std::mem::take(&mut is_value) {
                return (word, option);
            }
            if is_over {
                return (word, Part::Operand);
            }
            if text == "--" {
                is_over = true;
                return (word, option);
            }
            if text.starts_with('-') && text.len() > 1 {
                is_value = is_before && values.contains(&text);
                return (word, option);
            }
            // `cargo +nightly`
            if is_before && text.starts_with('+') {
                return (word, option);
            }
            // `docker compose -f x down`
            if is_before {
                values = values_behind(name, text);
                is_before = !values.is_empty();
            }
            (word, Part::Operand)
        })
    }

    /// The words behind those that say what it is told to do.
    pub(super) fn behind(&self, sub: &str) -> impl Iterator<Item = &'a Word> + Clone + use<'a> {
        let last = self.operands().nth(sub.split(' ').count() - 1);
        let mut words = self.words();
        words.find(|word| last.is_some_and(|last| std::ptr::eq(*word, last)));
        words
    }

    /// It has this option: `-x` also among others, `--long` also with a value, or shortened.
    pub(super) fn has(&self, option: &str) -> bool {
        has(self.words(), option)
    }

    /// One of these options stands before the first word behind these: what follows is a command with
    /// options of its own.
    pub(super) fn has_before(&self, sub: &str, options: &[&str]) -> bool {
        const WITH_VALUE: &[&str] = &[
            "-u",
            "-w",
            "-e",
            "-v",
            "-p",
            "-h",
            "-l",
            "-m",
            "-n",
            "-c",
            "--user",
            "--workdir",
            "--env",
            "--volume",
            "--publish",
            "--name",
            "--network",
            "--entrypoint",
            "--mount",
            "--env-file",
            "--add-host",
            "--platform",
            "--container",
            "--namespace",
            "--hostname",
        ];
        let n_sub = self.words().position(|word| sub.ends_with(&word.text)).unwrap_or_default();
        let mut words = self.words().skip(n_sub + 1);
        while let Some(word) = words.next().filter(|word| word.text.starts_with('-')) {
            if word.text == "--" {
                return false;
            }
            if options.iter().any(|option| is_option(word, option)) {
                return true;
            }
            if WITH_VALUE.contains(&word.text.as_str()) {
                words.next();
            }
        }
        // `kubectl exec POD -it -- sh`
        let mut words = self.words();
        words.any(|word| word.text == "--") && options.iter().any(|option| self.has(option))
    }

    /// The same, also where it would be the value of another one: to be certain that it has it not.
    pub(super) fn may_have(&self, option: &str) -> bool {
        may_have(self.words(), option)
    }

    /// It has this option for certain: by itself, or among a few letters that take no value.
    pub(super) fn surely_has(&self, option: &str) -> bool {
        let is_it = |word: &Word| {
            let letters = word.text.strip_prefix('-').unwrap_or_default();
            let name = word.text.split('=').next().unwrap_or_default();
            name == option
                || option.len() == 2
                    && letters.contains(&option[1..])
                    && !letters.is_empty()
                    && letters.chars().all(|letter| "ndxXfqiyvams".contains(letter))
        };
        self.words().take_while(|word| word.text != "--").any(is_it)
    }

    /// Options that change what git does stand before its first word, besides one that names a folder below:
    /// what `cd` says as well.
    pub(super) fn has_globals_but_folder(&self) -> bool {
        let first = self.operands().next();
        let mut before =
            self.words().take_while(|word| !first.is_some_and(|end| std::ptr::eq(*word, end)));
        while let Some(word) = before.next() {
            let is_harmless = match word.text.as_str() {
                "--no-pager" | "-P" | "--no-optional-locks" | "--no-color" => true,
                "-c" => before.next().is_some_and(is_harmless_setting),
                "-C" => before.next().is_some_and(|folder| {
                    let is_below = |folder: &str| {
                        !folder.starts_with(['/', '-'])
                            && folder.split('/').all(|part| part != "..")
                    };
                    folder.known().is_some_and(is_below)
                }),
                text => !text.starts_with('-'),
            };
            if !is_harmless {
                return true;
            }
        }
        false
    }

    /// Where git is told to work is a folder of the project, and no link leads there.
    pub(super) fn works_by_its_name(&self) -> bool {
        let Some(word) = self.words().next() else { return true };
        let mut there = self.git_folders(&self.folders(word)).into_iter();
        there.all(|folder| {
            folder.is_some_and(|folder| {
                let is_inside =
                    !folder.starts_with(['/', '~']) && folder.split('/').all(|name| name != "..");
                is_inside && (folder.is_empty() || self.ground.real(&folder) == folder)
            })
        })
    }

    /// Its first words that are no options are these.
    pub(super) fn sub_is(&self, words: &str) -> bool {
        let mut operands = self.operands();
        words.split(' ').all(|word| match word.strip_prefix("--") {
            // `git config --get`
            Some(_) => self.has(word),
            None => operands.next().is_some_and(|operand| operand.text == word),
        })
    }

    /// What it is told to do is one of these.
    fn any_sub(&self, subs: &[&str]) -> bool {
        self.fitting(subs).next().is_some()
    }

    /// Those of these that it is told to do. (The first word is looked at once: tables of git's are long.)
    fn fitting<'s>(&self, subs: &'s [&'s str]) -> impl Iterator<Item = &'s str> {
        let first = self.operands().next().map(|first| first.text.as_str());
        let begins =
            move |sub: &&str| first.is_some_and(|first| sub.split(' ').next() == Some(first));
        subs.iter().copied().filter(begins).filter(|sub| self.sub_is(sub))
    }

    /// A word of it may name something in `.git`: git writes there what it keeps itself, and where it is told to
    /// (`git worktree add .git/hooks`) it writes anything.
    pub(super) fn names_git_folder(&self) -> bool {
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

    /// Whether it is so. What is `grave` is better suspected than missed; what exempts has to be certain.
    pub(super) fn fit(&self, when: &When, is_grave: bool) -> bool {
        match when {
            When::Always => true,
            When::Has(options) => has_any(&self.words(), options, is_grave),
            When::HasNot(options) => !options.iter().any(|option| self.may_have(option)),
            When::Sub(subs) => self.any_sub(subs),
            When::SubHas(subs, options) => {
                self.fitting(subs).any(|sub| has_any(&self.behind(sub), options, is_grave))
            }
            When::SubHasNot(subs, options) => {
                self.any_sub(subs) && !options.iter().any(|option| self.surely_has(option))
            }
            When::SubMayNot(subs, options) => {
                self.any_sub(subs) && !options.iter().any(|option| self.may_have(option))
            }
            When::Is(is_so) => is_so(self),
        }
    }

    /// It reads something that the line gives it.
    pub(super) fn feeds(&self) -> bool {
        self.run.input != Input::None
    }

    /// Every path that a word may name, from the project's root; `None` where one is not known.
    pub(super) fn paths(&self, word: &Word) -> Option<Vec<String>> {
        let is_known = |folder: &Dir| path_of(folder, word).is_some();
        self.folders(word).iter().all(is_known).then(|| self.known_paths(word))
    }

    /// Those that are known.
    pub(super) fn known_paths(&self, word: &Word) -> Vec<String> {
        // A redirection is followed from here, what git is given from there.
        let here = self.folders(word);
        let there = self.git_folders(&here);
        let known = here.into_iter().chain(there).chain(self.found_folders());
        known.filter_map(|folder| path_of(&folder, word)).collect()
    }

    /// Every path that a word may name: what is written, what the line gives to its variables, and what its
    /// patterns stand for. This is how a word becomes paths wherever something is suspected of it.
    pub(super) fn places(&self, word: &Word) -> BTreeSet<String> {
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
    pub(super) fn places_of_value(&self, value: &Word) -> Vec<String> {
        let mut places = self.expanded(value);
        if value.kind != Kind::Pattern {
            places.extend(self.known_paths(value));
        }
        places
    }

    /// What a word may stand for by what the line gives to its variables.
    pub(super) fn values_behind(&self, word: &Word) -> Rc<[Word]> {
        self.values.map_or_else(|| Rc::from([word.clone()]), |values| values.behind(word))
    }

    /// The folders that git looks from, or any other program, as far as they are known or can be found out.
    pub(super) fn stands(&self) -> Vec<String> {
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
    pub(super) fn folders_of_operand(&self, word: &Word) -> Vec<Dir> {
        let here = self.folders(word);
        let there = self.git_folders(&here);
        if there.is_empty() { here } else { there }
    }

    /// What the patterns of a word stand for; behind `~/` and `$PWD/` there may be one too.
    pub(super) fn expanded(&self, word: &Word) -> Vec<String> {
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
    pub(super) fn is_own(&self) -> bool {
        let is_inside = |path: &String| !path.starts_with(['/', '~']) && !path.starts_with("..");
        let paths = self.run.path.as_ref().and_then(|path| self.paths(path));
        paths.is_some_and(|paths| {
            paths.iter().all(|path| is_inside(path) && is_inside(&self.ground.real(path)))
        })
    }

    /// What stands at the one path that a word names.
    pub(super) fn place(&self, word: &Word) -> Option<(String, Place)> {
        let paths = self.paths(word)?;
        let [path] = paths.as_slice() else { return None };
        Some((path.clone(), self.ground.look(path)))
    }

    /// The file of the project that a literal word names, whether it is there or not.
    fn file(&self, word: &Word) -> Option<(String, Place)> {
        // Git has patterns of its own.
        if self.is_git() && (word.text.contains(['*', '?', '[']) || word.text.starts_with(':')) {
            return None;
        }
        let (path, place) = self.place(word).filter(|_| word.is_literal())?;
        let is_file = matches!(place, Place::File | Place::Nothing) && guarded(&path).is_none();
        is_file.then_some((path, place))
    }

    fn is_git(&self) -> bool {
        self.run.name() == "git"
    }

    /// `rm`, `git rm` or `unlink` of files that are all named.
    pub(super) fn removes_literal_files(&self) -> bool {
        let is_recursive =
            ["-r", "-R", "--recursive", "-d", "--dir"].iter().any(|option| self.has(option));
        let is_shred = self.run.words[0].text == "shred";
        if is_shred || self.is_git() && self.git_is_elsewhere() {
            return false;
        }
        let mut operands = self.operands().skip(usize::from(self.is_git()));
        operands.all(|word| {
            self.file(word).is_some_and(|(_, place)| {
                // Of what is not there yet nobody knows what it will be.
                !is_recursive || place == Place::File && !word.text.ends_with('/')
            })
        })
    }

    /// `mv` or `git mv` of files, to a place of the project, that are all named.
    pub(super) fn moves_literal_files(&self) -> bool {
        let elsewhere = ["-t", "--target-directory", "-T", "-b", "--backup"];
        if elsewhere.iter().any(|option| self.has(option))
            || self.is_git() && self.git_is_elsewhere()
        {
            return false;
        }
        let operands: Vec<&Word> = self.operands().skip(usize::from(self.is_git())).collect();
        let Some((target, sources)) = operands.split_last() else { return false };
        let Some((to, place)) = self.place(target).filter(|_| target.is_literal()) else {
            return false;
        };
        let is_folder = matches!(place, Place::Folder | Place::Project);
        let is_free = |within: &str| {
            matches!(self.ground.look(within), Place::File | Place::Nothing)
                && guarded(within).is_none()
        };
        let mut sources = sources.iter();
        (is_folder || matches!(place, Place::File | Place::Nothing))
            && guarded(&to).is_none()
            && sources.all(|source| {
                self.file(source).is_some_and(|(path, place)| {
                    let name = path.rsplit('/').next().unwrap_or(&path);
                    place == Place::Nothing || !is_folder || is_free(&join(&to, name))
                })
            })
    }

    /// What stands behind these options: attached, or in the next word, also among letters (`-uo x`) and
    /// shortened (`--out=x`).
    pub(super) fn values_of(&self, options: &[&'static str]) -> Vec<Word> {
        let given = self.given(options).options.into_iter();
        given.filter(|(name, _)| options.contains(name)).filter_map(|(_, value)| value).collect()
    }

    /// One of these options is given, and not as the value of another one.
    pub(super) fn gives(&self, options: &[&str]) -> bool {
        self.given(&[]).options.iter().any(|(name, _)| {
            options
                .iter()
                .any(|option| option.strip_prefix('-') == Some(*name) || is_begun(option, name))
        })
    }

    /// The words that are neither options nor the values of some.
    pub(super) fn own_operands(&self) -> Vec<&'a Word> {
        self.given(&[]).operands
    }

    /// Takes the words apart; these options take a value as well.
    fn given(&self, with_value: &[&'static str]) -> Given<'a> {
        let name = self.run.name();
        let own = WITH_VALUE.iter().find(|(programs, ..)| programs.contains(&name));
        let (letters, attached, long) =
            own.map_or(("", "", &[] as &[&'static str]), |own| (own.1, own.2, own.3));
        let all = || with_value.iter().chain(long).copied();
        let mut given = Given { options: Vec::new(), operands: Vec::new() };
        let mut words = self.words();
        while let Some(word) = words.next() {
            let text = word.text.as_str();
            let value_at = |at: usize| Word { text: text[at..].to_owned(), kind: word.kind };
            if text == "--" {
                break;
            }
            if text.len() < 2 || !text.starts_with('-') {
                given.operands.push(word);
                // What it runs has options of its own.
                if name == "xargs" {
                    break;
                }
            } else if let Some(exact) = all().find(|option| *option == text) {
                given.options.push((exact, words.next().cloned()));
            } else if text.starts_with("--") {
                let end = text.find('=').unwrap_or(text.len());
                let known = all().find(|option| *option == &text[..end]);
                let known = known.or_else(|| all().find(|option| is_begun(option, &text[..end])));
                let value = if end < text.len() {
                    Some(value_at(end + 1))
                } else if known.is_some() {
                    words.next().cloned()
                } else {
                    None
                };
                given.options.push((known.unwrap_or(&text[..end]), value));
            } else {
                for (at, letter) in text.char_indices().skip(1) {
                    let end = at + letter.len_utf8();
                    let is_it = |option: &&&str| option.strip_prefix('-') == Some(&text[at..end]);
                    let asked = with_value.iter().find(is_it).copied();
                    if attached.contains(letter) {
                        given.options.push((&text[at..end], Some(value_at(end))));
                        break;
                    }
                    if asked.is_none() && !letters.contains(letter) {
                        given.options.push((&text[at..end], None));
                        continue;
                    }
                    let value = match &text[end..] {
                        "" => words.next().cloned(),
                        rest => Some(value_at(end + usize::from(rest.starts_with('=')))),
                    };
                    given.options.push((asked.unwrap_or(&text[at..end]), value));
                    break;
                }
            }
        }
        given.operands.extend(words);
        given
    }

    /// What options say to write: `sort -o`, `find -fprint`, `git log --output=`.
    pub(super) fn written_by_option(&self) -> Vec<Word> {
        let options: &[&str] = match self.run.name() {
            "sort" | "patch" => &["-o", "--output"],
            "find" => &["-fprint", "-fprint0", "-fprintf", "-fls"],
            "curl" => &["-o", "--output", "-D", "--dump-header", "-c", "--cookie-jar"],
            "wget" => &["-O", "--output-document", "-o", "--output-file"],
            "gcc" | "g++" | "cc" | "clang" => &["-o"],
            "git" if self.sub_is("archive") => &["-o", "--output"],
            "git" => &["--output"],
            _ => return Vec::new(),
        };
        self.values_of(options)
    }

    /// What the scripts of a `sed` do besides to the text.
    pub(super) fn sed(&self) -> Effects {
        Effects::of(&self.run.words[1..])
    }

    fn git_is_elsewhere(&self) -> bool {
        self.words().any(|word| {
            ["-C", "--git-dir", "--work-tree"].iter().any(|begin| word.text.starts_with(begin))
        })
    }

    /// `git checkout` of files, which throws away what they are.
    pub(super) fn checks_out_files(&self) -> bool {
        let creates = ["-b", "-B", "--orphan"].iter().any(|option| self.has(option));
        let mut words = self.words();
        let names = words.any(|word| word.text == "--") && words.next().is_some();
        let is_file = |word: &Word| {
            let is_there = |path: &String| {
                matches!(self.ground.look(path), Place::File | Place::Folder | Place::Project)
            };
            self.paths(word).is_some_and(|paths| paths.iter().any(is_there))
        };
        // No branch has such a name.
        let is_pattern =
            |word: &Word| word.text.starts_with(':') || word.text.contains(['*', '?', '[']);
        let is_path = |word: &Word| word.text == "." || is_pattern(word) || is_file(word);
        names
            || self.has("-f")
            || self.may_have("--force")
            || self.may_have("--pathspec-from-file")
            || !creates && self.operands().skip(1).any(is_path)
    }

    /// `git clean` that says what it would remove, and removes nothing.
    pub(super) fn cleans_nothing(&self) -> bool {
        let sub = self.operands().next();
        let mut words =
            self.words().skip_while(|word| !sub.is_some_and(|sub| std::ptr::eq(*word, sub)));
        let mut is_dry = false;
        while let Some(word) = words.next().filter(|word| word.text != "--") {
            if let Some(long) = word.text.strip_prefix("--") {
                let name = long.split('=').next().unwrap_or(long);
                is_dry |= "dry-run".starts_with(name);
                is_dry &= !name.starts_with("no-");
                if "exclude".starts_with(name) && !long.contains('=') {
                    words.next();
                }
            } else if let Some(letters) = word.text.strip_prefix('-') {
                // What stands behind `-e` is a pattern, in the same word or the next.
                let own = letters.split('e').next().unwrap_or(letters);
                is_dry |= own.contains('n');
                if letters.ends_with('e') && own.len() + 1 == letters.len() {
                    words.next();
                }
            }
        }
        is_dry
    }

    /// `git apply` that takes away what a patch brought, and does not only look.
    pub(super) fn applies_back(&self) -> bool {
        let looks = ["--check", "--stat", "--numstat", "--summary"];
        let only_looks =
            looks.iter().any(|option| self.surely_has(option)) && !self.may_have("--apply");
        ["-R", "--reverse"].iter().any(|option| self.may_have(option)) && !only_looks
    }

    /// `git restore` of files, and not of the index alone.
    pub(super) fn restores_files(&self) -> bool {
        let is_staged = self.has("--staged") || self.has("-S");
        !is_staged || self.may_have("--worktree") || self.has("-W")
    }

    /// `git push` that takes away, or puts something else in the place of, what is there.
    pub(super) fn pushes_over(&self) -> bool {
        let long = ["--force", "--force-with-lease", "--mirror", "--delete", "--prune"];
        self.has("-f")
            || self.has("-d")
            || long.iter().any(|option| self.may_have(option))
            || self.operands().any(|word| word.text.starts_with([':', '+']))
    }

    /// `gh api -X DELETE`
    pub(super) fn requests_deletion(&self) -> bool {
        let words: Vec<String> = self.words().map(|word| word.text.to_ascii_lowercase()).collect();
        let is_method = |option: &str| matches!(option, "-x" | "--method");
        words.windows(2).any(|pair| is_method(&pair[0]) && pair[1] == "delete")
            || words
                .iter()
                .any(|word| matches!(word.as_str(), "-xdelete" | "-x=delete" | "--method=delete"))
    }

    /// A statement among its words or in its input drops or empties something.
    pub(super) fn drops(&self) -> bool {
        self.words().chain(self.text_given()).any(|word| {
            let text = word.text.to_ascii_lowercase();
            text.split(';').any(drops) || text.contains("dropdatabase")
        })
    }

    /// A command of sqlite's own runs a program.
    pub(super) fn runs_from_sqlite(&self) -> bool {
        let database = self.operands().next();
        let is_other = |word: &&Word| !database.is_some_and(|own| std::ptr::eq(*word, own));
        let mut texts = self.words().filter(is_other).chain(self.text_given());
        texts.any(|word| word.text.lines().any(sqlite_runs))
    }

    fn text_given(&self) -> Option<&'a Word> {
        match &self.run.input {
            Input::Text(text) => Some(text),
            Input::None | Input::Pipe | Input::File(_) => None,
        }
    }

    /// What is there is cut off; a file that is not there is made.
    pub(super) fn empties(&self) -> bool {
        let size = |word: &Word| word.text.ends_with(|char: char| "0123456789KMG".contains(char));
        let mut files = self.operands().filter(|word| !size(word));
        !files.all(|word| matches!(self.place(word), Some((_, Place::Nothing))))
    }

    /// `sed` that prints lines and does nothing else.
    pub(super) fn only_prints(&self) -> bool {
        let quiet = [
            "-", "-e", "-ne", "-n", "-E", "-r", "-nE", "-nr", "-u", "-z", "-s", "--quiet",
            "--silent",
        ];
        let mut options = self.words().filter(|word| word.text.starts_with('-'));
        options.all(|word| quiet.contains(&word.text.as_str())) && self.sed().are_none()
    }

    /// `set -euo pipefail`
    pub(super) fn sets_how_it_ends(&self) -> bool {
        let mut words = self.words();
        while let Some(word) = words.next() {
            let letters = word.known().and_then(|text| text.strip_prefix(['-', '+']));
            let letters = letters.unwrap_or_default();
            let is_name =
                |name: &str| matches!(name, "errexit" | "nounset" | "pipefail" | "xtrace");
            let ends = letters.ends_with('o');
            if letters.is_empty()
                || !letters.trim_end_matches('o').bytes().all(|letter| b"eux".contains(&letter))
                || ends && !words.next().and_then(Word::known).is_some_and(is_name)
            {
                return false;
            }
        }
        self.run.words.len() > 1
    }

    /// `awk` that neither writes nor runs anything.
    pub(super) fn only_computes(&self) -> bool {
        let mut words = self.words().peekable();
        while let Some(word) = words.peek() {
            match word.text.as_str() {
                "-F" | "-v" => {
                    words.next();
                    words.next();
                }
                text if text.starts_with("-F") || text.starts_with("-v") => _ = words.next(),
                text if text.starts_with('-') => return false,
                _ => break,
            }
        }
        words.next().and_then(Word::known).is_some_and(|program| {
            let program = program.replace("||", " or ");
            !["system", "getline", "|", "@", "close", "fflush"]
                .iter()
                .any(|word| program.contains(word))
                && !prints_to_a_file(&program)
        })
    }

    /// `--version` or `--help` and nothing else. (Of few programs is `version` no file and no target.)
    pub(super) fn only_asks_version(&self) -> bool {
        const HAVE_VERSION: &[&str] =
            &["cargo", "docker", "go", "helm", "kubectl", "npm", "pnpm", "terraform", "yarn"];
        const HAVE_V: &[&str] = &[
            "node", "npm", "npx", "pnpm", "yarn", "ruby", "perl", "php", "gcc", "g++", "clang",
            "cmake",
        ];
        let name = self.run.name();
        let mut words = self.words();
        let asks = words.next().and_then(Word::known).is_some_and(|word| {
            matches!(word, "--version" | "--help" | "-V" | "-vV")
                || word == "version" && HAVE_VERSION.contains(&name)
                || word == "-v" && HAVE_V.contains(&name)
                || word == "-version" && name == "java"
        });
        let is_more =
            |word: &Word| matches!(word.text.as_str(), "--verbose" | "--client" | "--short");
        asks && words.all(is_more)
    }

    /// Nothing is put into its words that could be an option.
    pub(super) fn has_known_words(&self) -> bool {
        self.words().all(|word| match word.kind {
            Kind::Literal | Kind::Home => true,
            Kind::Pattern => !word.text.starts_with(['*', '?', '[']),
            Kind::Quoted | Kind::Variable | Kind::Output => false,
        })
    }
}

/// The same behind a first word, for those that have more there.
fn values_behind(program: &str, first: &str) -> &'static [&'static str] {
    let is_it = |own: &str| {
        let behind = own.strip_prefix(program).and_then(|rest| rest.strip_prefix(' '));
        behind == Some(first)
    };
    GLOBAL_VALUES.iter().find(|(own, _)| is_it(own)).map_or(&[], |(_, values)| values)
}

fn global_values(program: &str) -> &'static [&'static str] {
    GLOBAL_VALUES.iter().find(|(own, _)| *own == program).map_or(&[], |(_, values)| values)
}

/// One of them is one of these options, or may be where it is `grave`.
fn has_any<'a>(
    words: &(impl Iterator<Item = &'a Word> + Clone),
    options: &[&str],
    is_grave: bool,
) -> bool {
    let has = |option: &&str| {
        if is_grave { may_have(words.clone(), option) } else { has(words.clone(), option) }
    };
    options.iter().any(has)
}

/// One of them is this option.
fn has<'a>(words: impl Iterator<Item = &'a Word>, option: &str) -> bool {
    let mut words = words.take_while(|word| word.text != "--");
    words.any(|word| is_option(word, option))
}

/// One of them is, or may be, this option.
fn may_have<'a>(words: impl Iterator<Item = &'a Word> + Clone, option: &str) -> bool {
    let is_short = option.len() == 2;
    let may_be = |word: &Word| {
        is_short
            && word.text.starts_with('-')
            && !word.text.starts_with("--")
            && word.text.contains(&option[1..])
    };
    // Git takes any beginning that can be no other option.
    let is_begun = |word: &Word| {
        let name = word.text.strip_prefix("--").and_then(|given| given.split('=').next());
        let long = option.strip_prefix("--");
        name.zip(long).is_some_and(|(name, long)| !name.is_empty() && long.starts_with(name))
    };
    has(words.clone(), option) || words.into_iter().any(|word| may_be(word) || is_begun(word))
}

/// `-x` also among others, `--long` also with a value, or shortened.
fn is_option(word: &Word, option: &str) -> bool {
    let text = word.text.as_str();
    if text == option {
        return true;
    }
    match option.strip_prefix("--") {
        Some(long) => {
            let Some(given) = text.strip_prefix("--") else { return false };
            let name = given.split('=').next().unwrap_or(given);
            // The programs take a beginning that can be no other option.
            name == long || name.len() >= 4 && long.starts_with(name)
        }
        None => {
            let letter = option.strip_prefix('-').filter(|letter| letter.len() == 1);
            let Some(letters) = text.strip_prefix('-') else { return false };
            letter.is_some_and(|letter| {
                !letters.starts_with('-')
                    && letters.split('=').next().unwrap_or(letters).contains(letter)
                    && letters.len() <= 6
            })
        }
    }
}

/// The statement, in small letters, takes a table or all that is in it away.
fn drops(statement: &str) -> bool {
    let code: Vec<&str> = statement.lines().filter_map(|line| line.split("-- ").next()).collect();
    let code = code.join(" ");
    let words: Vec<&str> = code
        .split(|char: char| !char.is_ascii_alphanumeric() && char != '_')
        .filter(|word| !word.is_empty())
        .collect();
    // `where 1` holds for all.
    let holds_always = |word: &&str| *word == "true" || word.parse::<u64>().is_ok();
    let chooses = |words: &[&str]| {
        let at = words.iter().position(|word| *word == "where");
        at.is_some_and(|at| !words[at + 1..].iter().all(holds_always))
    };
    words.windows(2).enumerate().any(|(at, pair)| match pair {
        ["drop", what] => {
            ["table", "database", "schema", "view", "index", "column", "user", "role"]
                .contains(what)
        }
        ["truncate", _] => true,
        ["delete", "from"] => !chooses(&words[at + 2..]),
        _ => false,
    })
}

/// `.shell make`, `.sy make`, `.once |make`
fn sqlite_runs(line: &str) -> bool {
    let Some(command) = line.trim_start().strip_prefix('.') else { return false };
    let mut words = command.split_ascii_whitespace();
    let Some(name) = words.next() else { return false };
    // A beginning that can be no other command is enough.
    let is_one = |of: &[&str]| of.iter().any(|whole| whole.starts_with(name)) && name.len() > 1;
    is_one(&["shell", "system"])
        || is_one(&["once", "output", "import", "read"])
            && words.any(|word| word.trim_start_matches(['"', '\'']).starts_with('|'))
}

/// An option of a long name, shortened.
fn is_begun(option: &str, given: &str) -> bool {
    given.len() > 2 && option.starts_with("--") && option.starts_with(given)
}

/// In a statement of `awk` that prints, `>` names a file; anywhere else it compares.
fn prints_to_a_file(program: &str) -> bool {
    if !program.contains('>') {
        return false;
    }
    // Where a quote may stand in a pattern, it is not certain where a text ends.
    if program.contains('"') && program.contains('/') || program.contains('\\') {
        return true;
    }
    let outside_texts = program.split('"').step_by(2).collect::<Vec<_>>().join(" ");
    outside_texts.split([';', '{', '}', '\n']).any(|statement| {
        let after_print = statement.find("print").map(|at| &statement[at..]);
        after_print.is_some_and(|rest| rest.contains('>'))
    })
}
