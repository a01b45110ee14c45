//! Which files a command meets in the folders that it goes through: what `find` and `fd` find, and what a search
//! or a copy goes down to.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use globset::{GlobBuilder, GlobMatcher};
use regex::Regex;

use super::args::Args;
use super::pathspec::{Pathspecs, is_git_pattern};
use super::table::SEARCHES;
use super::{Place, Reach};
use crate::permission::pattern::Pattern;
use crate::permission::shell::Word;
use crate::protocol::nests_too_deep;

/// What stands for whole paths or names.
enum Names {
    /// As shells and most programs read it.
    Pattern(Pattern),
    /// As `rg` reads it: `{a,b}`.
    Glob(GlobMatcher),
}

impl Names {
    fn new(text: &str, any_case: bool) -> Self {
        Self::Pattern(Pattern::new(text, any_case))
    }

    fn of_rg(text: &str) -> Self {
        let built = if nests_too_deep(text) { None } else { GlobBuilder::new(text).build().ok() };
        // What can not be read may stand for anything.
        match built {
            Some(glob) => Self::Glob(glob.compile_matcher()),
            None => Self::Pattern(Pattern::anything()),
        }
    }

    fn is_match(&self, name: &str) -> bool {
        match self {
            Self::Pattern(pattern) => pattern.is_match(name),
            Self::Glob(glob) => glob.is_match(name),
        }
    }

    /// It stands for no more than is written.
    fn is_exact(&self) -> bool {
        match self {
            Self::Pattern(pattern) => pattern.is_exact,
            Self::Glob(_) => true,
        }
    }
}

/// What stands between two `-o` of a `find`: never more than what it tests, for parentheses are not read.
#[derive(Default)]
struct Alternative {
    wanted: Vec<(bool, Names)>,
    unwanted: Vec<(bool, Names)>,
    /// Folders, links and the like.
    is_of_others: bool,
    prunes: bool,
    acts: bool,
}

/// The alternatives of a `find`, and how deep it goes.
fn alternatives(args: &Args<'_>) -> (Vec<Alternative>, usize) {
    let words: Vec<&str> = args.words().map(|word| word.text.as_str()).collect();
    let is_not = |word: &str| matches!(word, "!" | "-not");
    let mut deepest = usize::MAX;
    if words.windows(2).any(|pair| is_not(pair[0]) && pair[1] == "(") {
        return (vec![Alternative::default()], deepest);
    }
    let mut all = vec![Alternative::default()];
    let mut at = 0;
    while let Some(test) = words.get(at).copied() {
        let value = words.get(at + 1).copied().unwrap_or("");
        let is_turned = at > 0 && is_not(words[at - 1]);
        at += 1;
        if matches!(test, "-o" | "-or" | ",") {
            all.push(Alternative::default());
            continue;
        }
        let Some(one) = all.last_mut() else { break };
        match test {
            "-maxdepth" => deepest = value.parse().unwrap_or(usize::MAX),
            "-prune" => one.prunes = true,
            "-type" if !is_turned && matches!(value, "d" | "l" | "s" | "p") => {
                one.is_of_others = true;
            }
            "-name" | "-iname" | "-path" | "-ipath" | "-wholename" | "-iwholename" => {
                at += 1;
                let names = Names::new(value, test.starts_with("-i"));
                // (What may stand for more takes nothing out.)
                if !is_turned || names.is_exact() {
                    let all = if is_turned { &mut one.unwanted } else { &mut one.wanted };
                    all.push((!test.ends_with("iname") && test != "-name", names));
                }
            }
            "-exec" | "-execdir" | "-ok" | "-okdir" => {
                one.acts = true;
                at += words[at..].iter().take_while(|word| !matches!(**word, ";" | "+")).count();
            }
            _ => one.acts |= test.starts_with("-print") || matches!(test, "-ls" | "-delete"),
        }
    }
    // `-name .git -prune -o -type f -print`: what is left out is not printed.
    if !words.contains(&"(") && all.iter().any(|one| one.acts) {
        all.retain(|one| one.acts || !one.prunes);
    }
    (all, deepest)
}

/// A file of this kind among what `find` finds: below its places, with a name that it looks for; or in a folder
/// with such a name, where who gets that goes through it.
pub(super) fn found(
    args: &Args<'_>,
    reach: Reach,
    is_it: &(dyn Fn(&str) -> bool + Sync),
    goes_down: bool,
) -> Option<String> {
    let is_place = |word: &&Word| !word.text.starts_with(['-', '(', '!']);
    let mut places: Vec<&Word> = args.words().take_while(is_place).collect();
    if places.is_empty() {
        places.push(&HERE);
    }
    let (alternatives, deepest) = alternatives(args);
    for place in places {
        for folder in args.places(place) {
            let stands = args.ground.look(&folder);
            if !is_folder(stands) && stands != Place::File {
                continue;
            }
            let real = args.ground.real(&folder);
            let begin = if real == "." { "" } else { real.as_str() };
            let is_found = |path: &str, is_file: bool| {
                let inner = path.strip_prefix(begin).unwrap_or(path);
                let inner = inner.trim_start_matches('/');
                let name = path.rsplit('/').next().unwrap_or(path);
                // (Of a pattern or variable it is not known how the place is written that it stands for.)
                let begin = if place.is_literal() { &place.text } else { &folder };
                let written = format!("{}/{inner}", begin.trim_end_matches('/'));
                let below = written.match_indices('/').map(|(at, _)| &written[at + 1..]);
                let below: Vec<&str> = below.filter(|_| !place.is_literal()).collect();
                let is = |(is_path, names): &(bool, Names)| match is_path {
                    true => names.is_match(&written) || below.iter().any(|one| names.is_match(one)),
                    false => names.is_match(name),
                };
                let is_not = |(is_path, names): &(bool, Names)| match is_path {
                    true => names.is_match(&written) && below.iter().all(|one| names.is_match(one)),
                    false => names.is_match(name),
                };
                inner.matches('/').count() < deepest
                    && alternatives.iter().any(|one| {
                        !(is_file && one.is_of_others)
                            && one.wanted.iter().all(is)
                            && !one.unwanted.iter().any(is_not)
                    })
            };
            let fits = |path: &str| {
                let mut folders = path.match_indices('/').map(|(at, _)| &path[..at]);
                let lies_in = |folder: &str| folder.len() >= begin.len() && is_found(folder, false);
                is_it(path) && (is_found(path, true) || goes_down && folders.any(lies_in))
            };
            if stands == Place::File && fits(&real) {
                return Some(real);
            }
            if let Some(found) = args.ground.find(&folder, reach, &fits) {
                return Some(found);
            }
        }
    }
    None
}

/// The same of `fd`.
pub(super) fn found_by_fd(
    args: &Args<'_>,
    reach: Reach,
    is_it: &(dyn Fn(&str) -> bool + Sync),
) -> Option<String> {
    let all = ["-H", "-u", "-I", "--hidden", "--no-ignore", "--unrestricted"];
    let reach = if all.iter().any(|own| args.may_have(own)) { reach } else { reach.shown() };
    let mut words = args.words();
    let (mut pattern, mut ending) = (None, None);
    let mut folders = Vec::new();
    while let Some(word) = words.next() {
        match word.text.as_str() {
            "-x" | "-X" | "--exec" | "--exec-batch" => break,
            "-e" | "--extension" => ending = words.next().map(|word| format!(".{}", word.text)),
            "-t" | "--type" | "-E" | "--exclude" | "-d" | "--max-depth" => _ = words.next(),
            text if text.starts_with('-') => {}
            _ if pattern.is_some() => folders.push(word),
            text => pattern = Regex::new(text).ok(),
        }
    }
    let fits = |path: &str| {
        let name = path.rsplit('/').next().unwrap_or(path);
        pattern.as_ref().is_none_or(|pattern| pattern.is_match(name))
            && ending.as_ref().is_none_or(|ending| name.ends_with(ending.as_str()))
            && is_it(path)
    };
    if folders.is_empty() {
        folders.push(&HERE);
    }
    below(args, folders, reach, &fits)
}

/// A file of this kind in the folders that these words name. Of several that one pattern stands for, and that are
/// no links, the folder in which they lie is gone through once.
pub(super) fn below<'w>(
    args: &Args<'_>,
    words: impl IntoIterator<Item = &'w Word>,
    reach: Reach,
    is_it: &(dyn Fn(&str) -> bool + Sync),
) -> Option<String> {
    let ground = args.ground;
    let mut looked = BTreeSet::new();
    words.into_iter().find_map(|word| {
        let mut places = args.places(word);
        places.retain(|path| is_folder(ground.look(path)));
        let mut beside: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let mut alone = Vec::new();
        for path in places {
            let real = ground.real(&path);
            let folder = real.rsplit_once('/').map_or("", |(folder, _)| folder);
            let is_inside = !real.starts_with(['/', '~', '.']) && !real.is_empty();
            // (What is the project's own is asked for: what others fill is left out of several, and gone
            // through where it is named.)
            if reach == Reach::Own
                && !word.is_literal()
                && is_inside
                && real == path.trim_end_matches('/')
            {
                beside.entry(folder.to_owned()).or_default().push(real);
            } else if looked.insert(real) {
                alone.push(path);
            }
        }
        beside.retain(|_, folders| {
            let is_one = folders.len() == 1;
            alone.extend(
                folders.iter().filter(|one| is_one && looked.insert((*one).clone())).cloned(),
            );
            !is_one
        });
        let in_several = |(folder, several): (String, Vec<String>)| {
            let lies_in = |path: &str| {
                let mut above = path.match_indices('/').map(|(at, _)| &path[..at]);
                above.any(|folder| several.iter().any(|one| one == folder))
            };
            ground.find(&folder, reach, &|path| lies_in(path) && is_it(path))
        };
        alone
            .iter()
            .find_map(|folder| ground.find(folder, reach, is_it))
            .or_else(|| beside.into_iter().find_map(in_several))
    })
}

/// Programs that go through the folders they are given without being told to.
const GO_DOWN: &[&str] = &["rg", "rgrep", "ag", "ack", "tar", "zip", "rsync", "scp", "7z"];

/// The command goes through the folders that it is given.
pub(super) fn goes_down(args: &Args<'_>) -> bool {
    let name = args.run.name();
    let by_git =
        name == "git" && (args.sub_is("grep") || args.sub_is("diff") && args.has("--no-index"));
    let options = ["-r", "-R", "-a", "--recursive", "--archive", "--dereference-recursive"];
    let words: Vec<&str> = args.words().map(|word| word.text.as_str()).collect();
    by_git
        || GO_DOWN.contains(&name)
        || options.iter().any(|own| args.has(own))
        || words.iter().any(|word| matches!(*word, "-drecurse" | "--directories=recurse"))
        || words
            .windows(2)
            .any(|pair| matches!(pair[0], "-d" | "--directories") && pair[1] == "recurse")
}

/// A file of this kind in a folder that the command goes through.
pub(super) fn searched(
    args: &Args<'_>,
    reach: Reach,
    is_it: &(dyn Fn(&str) -> bool + Sync),
) -> Option<String> {
    if !goes_down(args) {
        return None;
    }
    let name = args.run.name();
    let by_git = name == "git" && args.sub_is("grep");
    let searches = SEARCHES.contains(&name) || by_git;
    let given = Given::of(args);
    let n_patterns = usize::from(searches && !given.has_pattern && !args.has("--files"));
    let mut folders: Vec<&Word> =
        given.operands.into_iter().skip(n_patterns + usize::from(name == "git")).collect();
    if folders.is_empty() && searches {
        folders.push(&HERE);
    }
    let leaves_out = matches!(name, "rg" | "ag" | "ack")
        && !["-u", "--hidden", "--no-ignore", "-."].iter().any(|own| args.may_have(own));
    // (What `-g` asks for `rg` searches, hidden or not.)
    let leaves_out = leaves_out && (name != "rg" || given.wanted.is_empty());
    let by_index = by_git && !args.has("--no-index") && !args.has("--untracked");
    let reach = if by_index || leaves_out { reach.shown() } else { reach };
    let fits = |path: &str| {
        let file = path.rsplit('/').next().unwrap_or(path);
        let is = |names: &Names| names.is_match(file) || names.is_match(path);
        let lies_in = |names: &Names| path.split('/').any(|part| names.is_match(part));
        (given.wanted.is_empty() || given.wanted.iter().any(is))
            && !given.unwanted.iter().any(lies_in)
            && !given.unwanted.iter().any(is)
            && is_it(path)
    };
    if by_git {
        return Pathspecs::of(args, chosen_by_git(args, folders)).find(args.ground, reach, &fits);
    }
    below(args, folders, reach, &fits)
}

/// What of the words behind the pattern of a `git grep` are no commits.
fn chosen_by_git<'w>(args: &Args<'w>, operands: Vec<&'w Word>) -> Vec<&'w Word> {
    let mut behind_dashes = args.words().skip_while(|word| word.text != "--").skip(1).peekable();
    if behind_dashes.peek().is_some() {
        return behind_dashes.collect();
    }
    let is_there = |path: &String| args.ground.look(path) != Place::Nothing;
    let is_path = |word: &&Word| is_git_pattern(word) || args.places(word).iter().any(is_there);
    let mut chosen: Vec<&Word> = operands.into_iter().filter(is_path).collect();
    if chosen.is_empty() {
        chosen.push(&HERE);
    }
    chosen
}

/// Where a command runs.
static HERE: LazyLock<Word> = LazyLock::new(|| Word::literal("."));

/// What a command that goes through folders was told of them.
struct Given<'a> {
    wanted: Vec<Names>,
    unwanted: Vec<Names>,
    operands: Vec<&'a Word>,
    has_pattern: bool,
}

impl<'a> Given<'a> {
    fn of(args: &Args<'a>) -> Self {
        let mut given = Self {
            wanted: Vec::new(),
            unwanted: Vec::new(),
            operands: Vec::new(),
            has_pattern: false,
        };
        let mut words = args.words();
        let is_search = SEARCHES.contains(&args.run.name()) || args.run.name() == "git";
        while let Some(word) = words.next() {
            let (option, value) = match word.text.split_once('=') {
                Some((option, value)) if option.starts_with("--") => (option, Some(value)),
                _ => (word.text.as_str(), None),
            };
            let is_wanted = match option {
                "--include" | "-g" | "--glob" | "--iglob" => true,
                "--exclude" | "--exclude-dir" | "--ignore" => false,
                "-e" | "--regexp" | "-f" | "--file" if is_search => {
                    given.has_pattern = true;
                    if value.is_none() {
                        words.next();
                    }
                    continue;
                }
                // (Of `tar` it is a folder that it goes to.)
                "-A" | "-B" | "-C" | "-d" | "-D" | "-m" | "-t" | "-T" | "--type"
                | "--directories"
                    if is_search =>
                {
                    if value.is_none() {
                        words.next();
                    }
                    continue;
                }
                text if text.starts_with('-') && text.len() > 1 => continue,
                _ => {
                    given.operands.push(word);
                    continue;
                }
            };
            let Some(text) = value.or_else(|| words.next().map(|word| word.text.as_str())) else {
                break;
            };
            let (text, is_wanted) = match text.strip_prefix('!') {
                Some(rest) => (rest, false),
                None => (text, is_wanted),
            };
            let text = text.trim_start_matches("./").trim_end_matches('/');
            let by_rg = args.run.name() == "rg";
            let names = if by_rg { Names::of_rg(text) } else { Names::new(text, false) };
            if is_wanted {
                given.wanted.push(names);
            } else if names.is_exact() {
                given.unwanted.push(names);
            }
        }
        given
    }
}

pub(super) fn is_folder(place: Place) -> bool {
    match place {
        Place::Folder | Place::Project | Place::Above => true,
        Place::Nothing | Place::File | Place::Elsewhere => false,
    }
}
