//! Which files a line takes away, overwrites or moves, as far as its words name them.

use std::cell::Cell;
use std::collections::{BTreeSet, HashSet};

use super::args::Args;
use super::folders::found as found_by_find;
use super::handed::{A_LOOK, Flow, MOST_FOLLOWED};
use super::pathspec::{Pathspecs, is_git_pattern, top};
use super::survey::Survey;
use super::values::Values;
use super::{Ground, Place, Reach};
use crate::permission::line::Line;
use crate::permission::paths::guarded;
use crate::permission::shell::{Effects, Kind, Run, Word, join};

/// So many paths of a line are looked at, whatever was spent to find their names.
const MOST_LOOKS: usize = 20_000;

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
    /// What git is told to take away or put back by patterns of its own.
    by_git: Vec<Pathspecs>,
    /// Words that stand for what another command of the line writes, and the place of the command.
    handed: Vec<(usize, Word, Change)>,
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
    let left = Cell::new(MOST_LOOKS);
    let look = |path: &str| {
        left.set(left.get().checked_sub(1)?);
        Some(ground.look(path))
    };
    let kept = |path: &str, change: Change| {
        let is_kept = match look(path)? {
            Place::File => change == Change::Written || guarded(path).is_none(),
            // It is created: an undo takes it away again.
            Place::Nothing => {
                let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
                let is_folder = || folder.is_empty() || look(folder) != Some(Place::Nothing);
                change == Change::MovedTo && guarded(path).is_none() && is_folder()
            }
            // What is written through a link is what lies behind it.
            Place::Elsewhere => {
                change == Change::Written && look(&ground.real(path)) == Some(Place::File)
            }
            Place::Folder | Place::Project | Place::Above => false,
        };
        is_kept.then(|| ground.real(path))
    };
    let directory = if directory == "." { "" } else { directory };
    let touched = touched(line, directory, ground, &Values::of(line, ground)).paths.into_iter();
    let kept = touched.filter_map(|(path, change)| kept(&path, change));
    kept.collect::<BTreeSet<String>>().into_iter().collect()
}

/// A file of this kind that the line, run in this folder, is known to change.
pub(in super::super) fn changes(
    line: &Line,
    directory: &str,
    ground: &Survey<'_>,
    is_it: &(dyn Fn(&str) -> bool + Sync),
) -> Option<String> {
    let directory = if directory == "." { "" } else { directory };
    let values = &Values::of(line, ground);
    let touched = touched(line, directory, ground, values);
    let found = touched.paths.into_iter().enumerate().find_map(|(n, (path, change))| {
        // (A name that fits is enough where no more can be looked at.)
        let can_look = n < MOST_LOOKS;
        let real = if can_look { ground.real(&path) } else { path.clone() };
        if is_it(&real) {
            return Some(real);
        }
        let is_gone = can_look && change == Change::Gone;
        let is_folder = is_gone && matches!(ground.look(&path), Place::Folder | Place::Project);
        is_folder.then(|| ground.find(&path, Reach::All, is_it)).flatten()
    });
    let found = found.or_else(|| {
        let mut by_git = touched.by_git.iter();
        by_git.find_map(|chosen| chosen.find(ground, Reach::All, is_it))
    });
    let found = found.or_else(|| {
        let flow = |goes_down| Flow {
            line,
            directory,
            ground,
            values,
            reach: Reach::All,
            is_it,
            goes_down,
        };
        let runs = line.runs();
        // (A line that is too long is looked at as a whole.)
        if runs.len() > MOST_FOLLOWED {
            return (!touched.handed.is_empty()).then(|| flow(true).anything()).flatten();
        }
        let deletes =
            |run: &Run| run.name() == "find" && run.words.iter().any(|word| word.text == "-delete");
        let mut finders = runs.iter().filter(|run| deletes(run));
        let lost = finders.find_map(|run| {
            let args = Args { run, directory, ground, values: Some(values) };
            found_by_find(&args, Reach::All, is_it, true)
        });
        let mut handed = touched.handed.iter();
        lost.or_else(|| {
            handed.find_map(|(n, word, change)| flow(*change == Change::Gone).behind(word, *n))
        })
    });
    found.or_else(|| {
        let mut filled = touched.filled.into_iter().take(MOST_LOOKS);
        filled.find_map(|(from, to)| {
            if ground.look(&from) != Place::Folder {
                return None;
            }
            let (from, to) = (ground.real(&from), ground.real(&to));
            let place =
                |path: &str| Some(join(&to, path.strip_prefix(&from)?.trim_start_matches('/')));
            let is_there = |path: &str| place(path).is_some_and(|path| is_it(&path));
            place(&ground.find(&from, Reach::All, &is_there)?)
        })
    })
}

/// It changes files that something else names than the line: a patch.
pub(in super::super) fn changes_what_a_patch_names(line: &Line) -> bool {
    const LOOKS: &[&str] = &["--check", "--stat", "--numstat", "--summary", "--cached"];
    line.runs().iter().any(|run| {
        let args = Args::alone(run);
        let looks = LOOKS.iter().any(|option| args.surely_has(option));
        match run.name() {
            "git" => args.sub_is("am") || args.sub_is("apply") && !looks,
            "patch" => args.own_operands().is_empty() && !args.surely_has("--dry-run"),
            _ => false,
        }
    })
}

/// What the line, run in this folder, changes, as far as it is named.
fn touched(line: &Line, directory: &str, ground: &Survey<'_>, values: &Values<'_>) -> Touched {
    let mut touched = Touched::default();
    for (n, run) in line.runs().iter().enumerate() {
        let args = Args { run, directory, ground, values: Some(values) };
        Toucher { args, n, ground, touched: &mut touched }.look();
    }
    touched
}

struct Toucher<'a, 'b> {
    args: Args<'b>,
    /// Which command of the line it is.
    n: usize,
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
            "git" if self.args.sub_is("rm") => {
                self.add_by_git(self.args.operands().skip(1).collect());
            }
            "git" if self.args.sub_is("mv") => {
                let mut operands: Vec<&Word> = self.args.operands().skip(1).collect();
                if let Some(target) = operands.pop() {
                    self.put_to(target, &operands, moved);
                    self.add_all(operands, gone);
                }
            }
            "git" => self.take_back(),
            "sed" => {
                if self.args.gives(&["-i", "--in-place"]) {
                    let is_given = |option| self.args.gives(&[option]);
                    let has_script =
                        ["-e", "--expression", "-f", "--file"].into_iter().any(is_given);
                    let files = self.args.own_operands().into_iter();
                    self.add_all(files.skip(usize::from(!has_script)), written);
                }
                let Effects { writes, kind, .. } = self.args.sed();
                let writes: Vec<Word> =
                    writes.into_iter().map(|text| Word { text, kind }).collect();
                self.add_all(&writes, written);
            }
            "gzip" | "gunzip" | "bzip2" | "bunzip2" | "xz" | "unxz" | "lzma" | "unlzma"
            | "compress" | "uncompress"
                if !self.args.gives(LEAVES) =>
            {
                self.add_all(self.args.operands(), gone);
            }
            // `zip -m a.zip FILE`: the first is written, the others are taken into it.
            "zip" => {
                let mut operands = self.args.operands();
                self.add_all(operands.next(), written);
                if self.args.gives(&["-m", "--move"]) {
                    self.add_all(operands, gone);
                }
            }
            "tar" | "bsdtar" => self.add_all(&self.unpacked(), written),
            "awk" | "gawk" | "mawk" | "nawk" => {
                for path in self.args.words().flat_map(|word| printed_to(&word.text)) {
                    self.add(&Word::literal(path), written);
                }
            }
            "perl" if self.args.has("-i") => self.add_all(self.args.operands(), written),
            _ => {}
        }
        self.add_all(&self.args.written_by_option(), written);
        self.add_all(run.redirects.iter().filter_map(|to| to.writes()), written);
    }

    /// What of the files that git tracks it puts back, takes away or writes: those that are named, else all of them.
    ///
    /// To go from one commit to another (`checkout BRANCH`, `merge`, `pull`, `stash pop`) is none of it: which files
    /// differ is not known, and git keeps what was not committed.
    fn take_back(&mut self) {
        let args = &self.args;
        let Some(sub) = args.operands().next().map(|word| word.text.as_str()) else { return };
        let has = |options: &[&str]| options.iter().any(|own| args.has(own));
        let is_there = |word: &&Word| {
            let is_path = |path: &String| {
                matches!(self.ground.look(path), Place::File | Place::Folder | Place::Project)
            };
            word.text == "."
                || is_git_pattern(word)
                || args.known_paths(word).iter().any(is_path)
                || !args.expanded(word).is_empty()
        };
        let behind_dashes = || args.words().skip_while(|word| word.text != "--").skip(1);
        let given = || args.operands().skip(1);
        let named: Vec<&Word> = match sub {
            "checkout" if has(&["-f"]) || args.may_have("--force") => Vec::new(),
            "checkout" if args.may_have("--pathspec-from-file") => Vec::new(),
            "checkout" if has(&["-b", "-B", "--orphan"]) => return,
            "checkout" => {
                let named: Vec<&Word> = match behind_dashes().next() {
                    Some(_) => behind_dashes().collect(),
                    None => given().filter(is_there).collect(),
                };
                if named.is_empty() {
                    return;
                }
                named
            }
            "restore" if !args.restores_files() => return,
            "restore" if args.may_have("--pathspec-from-file") => Vec::new(),
            "checkout-index" if !has(&["-f", "--force"]) || args.has("--prefix") => return,
            "checkout-index" if has(&["-a", "--all", "--stdin"]) => Vec::new(),
            "switch" if has(&["-f", "--force", "--discard-changes"]) => Vec::new(),
            "reset" if args.may_have("--hard") || args.may_have("--merge") => Vec::new(),
            "read-tree" if has(&["-u"]) => Vec::new(),
            "sparse-checkout" => match given().next().map(|word| word.text.as_str()) {
                Some("set" | "init" | "reapply") => Vec::new(),
                _ => return,
            },
            "filter-branch" | "filter-repo" => Vec::new(),
            "stash" => match given().next().map(|word| word.text.as_str()) {
                None | Some("push" | "save") => match behind_dashes().next() {
                    Some(_) => behind_dashes().collect(),
                    None => given().skip(1).filter(is_there).collect(),
                },
                Some(_) if behind_dashes().next().is_some() => behind_dashes().collect(),
                // `git stash -m "before"`: the message.
                Some(_) if has(&["-m", "--message"]) => Vec::new(),
                Some(_) => return,
            },
            "clean" if args.cleans_nothing() => return,
            "clean" if has(&["-e", "--exclude"]) => Vec::new(),
            "restore" | "checkout-index" | "clean" => given().collect(),
            "merge-file" if has(&["-p", "--stdout"]) => return,
            "merge-file" => given().take(1).collect(),
            "bundle" => given().skip(1).take(1).collect(),
            _ => return,
        };
        if !named.is_empty() {
            return self.add_by_git(named);
        }
        let first = args.words().next();
        let here = first.map_or(Vec::new(), |word| args.folders_of_operand(word));
        for folder in here {
            // (`git clean` stays below the folder where it runs.)
            let is_top = sub != "clean";
            let root = folder.map(|folder| if is_top { top(&self.args, &folder) } else { folder });
            self.touched.add(root.unwrap_or_default(), Change::Gone);
        }
    }

    /// The files that git takes away or puts back, by names and patterns.
    fn add_by_git(&mut self, words: Vec<&Word>) {
        if words.iter().any(|word| is_git_pattern(word)) {
            self.touched.by_git.push(Pathspecs::of(&self.args, words));
        } else {
            self.add_all(words, Change::Gone);
        }
    }

    /// What `tar xf a.tar FILE` is told to unpack.
    fn unpacked(&self) -> Vec<Word> {
        let is_cluster = |at: usize, text: &str| {
            at == 0 && !text.starts_with('-') || text.starts_with('-') && !text.starts_with("--")
        };
        let words: Vec<&Word> = self.args.words().collect();
        let mut letters = words.iter().enumerate().filter(|(at, word)| is_cluster(*at, &word.text));
        let unpacks = letters.any(|(_, word)| word.text.contains('x'))
            || self.args.has("--extract")
            || self.args.has("--get");
        let mut members = Vec::new();
        for (at, word) in words.iter().enumerate().filter(|_| unpacks) {
            let before = at.checked_sub(1).map(|before| words[before].text.as_str());
            let is_archive =
                before.is_some_and(|text| is_cluster(at - 1, text) && text.ends_with(['f', 'C']));
            if !is_archive && !is_cluster(at, &word.text) && !word.text.starts_with("--") {
                members.push((*word).clone());
            }
        }
        members
    }

    fn add_all<'w>(&mut self, words: impl IntoIterator<Item = &'w Word>, change: Change) {
        for word in words {
            self.add(word, change);
        }
    }

    fn add(&mut self, word: &Word, change: Change) {
        // (What it is handed as the name of something in a folder lies there.)
        let is_whole = word.text.starts_with(['$', '`', '{', '<']) || !word.text.contains('/');
        let is_unknown = |word: &Word| word.kind >= Kind::Quoted;
        if is_whole && is_unknown(word) && self.args.values_behind(word).iter().any(is_unknown) {
            self.touched.handed.push((self.n, word.clone(), change));
        }
        for path in self.args.places(word) {
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
        let targets = self.args.places(target).into_iter().map(|target| {
            self.touched.add(target.clone(), change);
            let is_new = self.ground.spend(A_LOOK) && self.ground.look(&target) == Place::Nothing;
            (target, is_new)
        });
        let targets: Vec<(String, bool)> = targets.collect();
        for source in sources {
            // (`cp -r a/. b` puts what is in it there.)
            let name = source.known().map(|text| last(text).to_owned());
            let mut paths: Vec<Option<String>> =
                self.args.places(source).into_iter().map(Some).collect();
            if paths.is_empty() && name.is_some() {
                paths.push(None);
            }
            let is_many = paths.len() * targets.len() > 1;
            for (path, (target, is_new)) in
                paths.iter().flat_map(|one| targets.iter().map(move |to| (one, to)))
            {
                if is_many && !self.ground.spend(A_LOOK) {
                    return;
                }
                let path = path.as_deref();
                let name = name.as_deref().or(path.map(last)).unwrap_or_default();
                let within = join(target, name);
                if let Some(path) = path {
                    if *is_new {
                        self.touched.filled.push((path.to_owned(), target.clone()));
                    }
                    self.touched.filled.push((path.to_owned(), within.clone()));
                }
                self.touched.add(within, change);
            }
        }
    }
}

/// With these a program that packs files leaves them where they are.
const LEAVES: &[&str] = &[
    "-c",
    "--stdout",
    "--to-stdout",
    "-k",
    "--keep",
    "-l",
    "--list",
    "-t",
    "--test",
    "-V",
    "--version",
    "-h",
    "--help",
];

/// The files behind `>` in a program of `awk`.
fn printed_to(program: &str) -> impl Iterator<Item = &str> {
    program.split('>').skip(1).filter_map(|rest| {
        let text = rest.trim_start().strip_prefix('"')?;
        text.split_once('"').map(|(path, _)| path)
    })
}

/// The last name of a path.
fn last(path: &str) -> &str {
    path.trim_end_matches('/').rsplit('/').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A ground on which nothing stands, and which counts who looks.
    #[derive(Default)]
    struct Empty(Cell<usize>);

    impl Ground for Empty {
        fn look(&self, _: &str) -> Place {
            self.0.set(self.0.get() + 1);
            Place::Nothing
        }

        fn real(&self, path: &str) -> String {
            self.0.set(self.0.get() + 1);
            path.to_owned()
        }
    }

    /// Whether a line is seen to change `hidden/keys.txt`, and how often something is looked at for it.
    fn seen(line: &str) -> (bool, usize) {
        let (line, ground) = (Line::part(line), Empty::default());
        let is_it = |path: &str| path == "hidden/keys.txt";
        _ = removes(&line, ".", &ground);
        let found = changes(&line, ".", &Survey::new(&ground), &is_it);
        (found.is_some(), ground.0.get())
    }

    #[test]
    fn what_stands_there_twice_is_looked_at_once() {
        let many = format!("{}{}", "x=a;".repeat(500), "true >$x >$x >$x;".repeat(200));
        assert_eq!(seen(&many), (false, 2));
    }

    #[test]
    fn of_too_many_values_some_are_looked_at_and_names_are_still_read() {
        let sets: String = (0..300).map(|n| format!("x=a{n};y=b{n};")).collect();
        for many in [
            format!("{sets}{}", "true >$x/$y >$y/$x;".repeat(100)),
            format!("{sets}{}", "cp $x $y; mv -t $x $y;".repeat(100)),
            format!("{sets}false && cp {} $x", "$y ".repeat(1000)),
        ] {
            let (found, looks) = seen(&many);
            assert!(!found && (1..200_000).contains(&looks), "{looks}");
            let plain = [">hidden/keys.txt", "; cp a/keys.txt hidden", "; rm hidden/keys.txt"];
            for line in plain {
                assert!(seen(&format!("{many}{line}")).0, "{line}");
            }
        }
        let doubled: String = (0..40).map(|n| format!("x{n}=$x{m}$x{m};", m = n + 1)).collect();
        assert!(!seen(&format!("{doubled}x40=a; echo > $x0")).0);
    }

    #[test]
    fn git_is_followed_through_a_few_folders() {
        let git = |n: usize| format!("git -C hidden {} rm keys.txt", "-C . ".repeat(n));
        assert!(seen(&git(0)).0 && seen(&git(7)).0 && !seen(&git(8)).0);
        assert!(seen("git -c a=b --no-pager -C hidden -c c=d rm -f keys.txt").0);
        assert!(!seen("git -c -C -c hidden rm keys.txt").0);
    }
}
