//! Which files a command meets in the folders that it goes through: what `find` and `fd` find, and what a search
//! or a copy goes down to.

use globset::{GlobBuilder, GlobMatcher};
use regex::Regex;

use super::args::Args;
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

/// A file of this kind among what `find` finds: below its places, with a name that it looks for.
pub(super) fn found(
    args: &Args<'_>,
    reach: Reach,
    is_it: &(dyn Fn(&str) -> bool + Sync),
) -> Option<String> {
    let is_place = |word: &&Word| !word.text.starts_with(['-', '(', '!']);
    let here = Word::literal(".");
    let mut places: Vec<&Word> = args.words().take_while(is_place).collect();
    if places.is_empty() {
        places.push(&here);
    }
    let (alternatives, deepest) = alternatives(args);
    for place in places {
        for folder in args.paths(place).into_iter().flatten() {
            if !is_folder(args.ground.look(&folder)) {
                continue;
            }
            let real = args.ground.real(&folder);
            let begin = if real == "." { "" } else { real.as_str() };
            let fits = |path: &str| {
                let inner = path.strip_prefix(begin).unwrap_or(path);
                let inner = inner.trim_start_matches('/');
                let name = path.rsplit('/').next().unwrap_or(path);
                let written = format!("{}/{inner}", place.text.trim_end_matches('/'));
                let is = |(is_path, names): &(bool, Names)| {
                    names.is_match(if *is_path { written.as_str() } else { name })
                };
                inner.matches('/').count() < deepest
                    && alternatives.iter().any(|one| {
                        !one.is_of_others
                            && one.wanted.iter().all(is)
                            && !one.unwanted.iter().any(is)
                    })
                    && is_it(path)
            };
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
    while let Some(word) = words.next() {
        match word.text.as_str() {
            "-x" | "-X" | "--exec" | "--exec-batch" => break,
            "-e" | "--extension" => ending = words.next().map(|word| format!(".{}", word.text)),
            "-t" | "--type" | "-E" | "--exclude" | "-d" | "--max-depth" => _ = words.next(),
            text if text.starts_with('-') => {}
            text => pattern = pattern.or_else(|| Regex::new(text).ok()),
        }
    }
    let fits = |path: &str| {
        let name = path.rsplit('/').next().unwrap_or(path);
        pattern.as_ref().is_none_or(|pattern| pattern.is_match(name))
            && ending.as_ref().is_none_or(|ending| name.ends_with(ending.as_str()))
            && is_it(path)
    };
    args.ground.find(args.run.directories.here.first()?.as_deref()?, reach, &fits)
}

/// Programs that go through the folders they are given without being told to.
const GO_DOWN: &[&str] = &["rg", "rgrep", "ag", "ack", "tar", "zip", "rsync", "scp", "7z"];

/// A file of this kind in a folder that the command goes through.
pub(super) fn searched(
    args: &Args<'_>,
    reach: Reach,
    is_it: &(dyn Fn(&str) -> bool + Sync),
) -> Option<String> {
    let name = args.run.name();
    let by_git = name == "git" && args.sub_is("grep");
    let options = ["-r", "-R", "-a", "--recursive", "--archive", "--dereference-recursive"];
    let searches = SEARCHES.contains(&name) || by_git;
    let words: Vec<&str> = args.words().map(|word| word.text.as_str()).collect();
    let is_told = options.iter().any(|own| args.has(own))
        || words.iter().any(|word| matches!(*word, "-drecurse" | "--directories=recurse"))
        || words
            .windows(2)
            .any(|pair| matches!(pair[0], "-d" | "--directories") && pair[1] == "recurse");
    let by_git_diff = name == "git" && args.sub_is("diff") && args.has("--no-index");
    let goes_down = by_git || by_git_diff || GO_DOWN.contains(&name) || is_told;
    if !goes_down {
        return None;
    }
    let given = Given::of(args);
    let n_patterns = usize::from(searches && !given.has_pattern && !args.has("--files"));
    let here = Word::literal(".");
    let mut folders: Vec<&Word> =
        given.operands.into_iter().skip(n_patterns + usize::from(name == "git")).collect();
    if folders.is_empty() && searches {
        folders.push(&here);
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
    let paths = folders.into_iter().filter_map(|word| args.paths(word)).flatten();
    paths
        .filter(|path| is_folder(args.ground.look(path)))
        .find_map(|path| args.ground.find(&path, reach, &fits))
}

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

fn is_folder(place: Place) -> bool {
    match place {
        Place::Folder | Place::Project | Place::Above => true,
        Place::Nothing | Place::File | Place::Elsewhere => false,
    }
}
