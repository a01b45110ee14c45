//! Which files a line may show the content of, by the names in its words.
//!
//! What is known only when it runs (`cat $(…)`, a script, `git log -p`) is not seen.

use std::borrow::Cow;

use super::args::Args;
use super::everything::INTERPRETERS;
use super::folders::{found, goes_down, searched};
use super::handed::{Flow, MOST_FOLLOWED, runs_what_it_finds};
use super::survey::Survey;
use super::table::{COPIES, NAMES_ONLY, SEARCHES, SHOWS};
use super::values::Values;
use super::{Ground, Place, Reach};
use crate::permission::line::Line;
use crate::permission::paths::holds_a_key;
use crate::permission::shell::{Effects, How, Input, Kind, Run, SHELLS, Word, join};

/// What of a line is taken for a name of a file that it shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Suspicion {
    /// What programs that are known to show files are given, by name or by another command of the line, and the
    /// project's own files in the folders that they go through. A program that reads it for itself goes on.
    Known,
    /// Whatever looks like a path, also in a script's text, of every program that is not known to
    /// look at names alone; and the folders that it goes through.
    Any,
}

impl Suspicion {
    /// Where it looks in folders.
    fn reach(self) -> Reach {
        match self {
            Self::Known => Reach::Own,
            Self::Any => Reach::All,
        }
    }
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
    "interpret-trailers",
    "mailinfo",
    "merge-file",
];

/// They complain of what they do not understand with the line that it stands in, or write out what they read.
const COMPILERS: &[&str] = &["gcc", "g++", "cc", "c++", "clang", "clang++", "cpp"];

/// Modules of python that write out the file that they are given.
/// They tell what they do not understand with the line that it stands in, too.
const SHOWING_MODULES: &[&str] = &[
    "base64",
    "json.tool",
    "tokenize",
    "gzip",
    "quopri",
    "ast",
    "pygments",
    "tarfile",
    "zipfile",
    "fileinput",
    "trace",
    "runpy",
    "cProfile",
    "profile",
    "py_compile",
    "compileall",
    "dis",
    "symtable",
    "doctest",
    "pdb",
];

/// Programs that are told options by files, `@file`, and repeat those that they do not know.
const READ_OPTIONS: &[&str] = &[
    "ld", "ld.bfd", "ld.gold", "ld.lld", "lld", "as", "ar", "nm", "objcopy", "objdump", "ranlib",
    "readelf", "size", "strip", "javac", "java", "javadoc", "jar", "rustc", "swiftc", "ghc",
    "mypy", "pytest", "pylint",
];

/// What `openssl` does that shows certificates and sums, and never a key.
const SHOWS_NO_KEY: &[&str] = &["x509", "verify", "crl", "dgst", "req"];

/// Programs that show variables, or set what shows them.
const SHOW_VARIABLES: &[&str] = &[
    "env", "printenv", "export", "declare", "typeset", "readonly", "local", "compgen", "set",
    "shopt", "trap", "ps", "history",
];

/// Variables that name a file which the shell behind them runs.
const RUN_BY_SHELLS: &[&str] = &["BASH_ENV=", "ENV="];

/// Variables that name a file of git's settings, or set what names one.
const SETTINGS_OF_GIT: &[&str] =
    &["GIT_CONFIG", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_PARAMETERS"];
const SETTING_OF_GIT: &str = "GIT_CONFIG_VALUE_";

/// Those whose answer is no more than a number or a sum.
const COUNTS: &[&str] = &["wc", "md5sum", "sha1sum", "sha256sum", "sha512sum", "b2sum", "cksum"];

/// Texts with which what is read is written out again.
const PRINTS: &[&str] = &[
    "print",
    "console.",
    "stdout",
    "puts",
    "echo",
    "say",
    "getline",
    "dump",
    "system",
    "subprocess",
    "popen",
    "check_output",
    "spawn",
    "exec",
    "`",
    "stderr",
    "os.write",
    "writeSync",
    "logging",
    // They show the line that they do not understand.
    "runpy",
    "configparser",
    "ConfigParser",
    "ast.parse",
    "SourceFileLoader",
    "netrc",
];

/// Words with which a program complains, of what it has read as of anything else.
const COMPLAINS: &[&str] =
    &["throw", "raise", "assert", "exit", "die", "warn", "warning", "fail", "abort", "croak"];

/// Texts with which a file is read, besides settings that are loaded by others.
const OPENS: &[&str] = &[
    "open(",
    "open ",
    "readFile",
    "readText",
    "read_text",
    "read_bytes",
    "readlines",
    "file_get_contents",
    "File.read",
    "File.new",
    "IO.read",
    "io.lines",
    "Bun.file",
    "createReadStream",
    "file(",
    "slurp",
    "<>",
    "ARGV",
];

/// What reads a file in a statement.
const READS_IN_DATABASE: &[&str] =
    &["readfile(", ".read", ".import", "read_text(", "read_blob(", "read_csv"];

/// Options of programs that show what they read, or repeat it in what they complain of, with the file that they
/// read: attached, or in the next word.
const FILE_OPTIONS: &[(&str, &[&str])] = &[
    ("diff", &["--to-file", "--from-file"]),
    ("date", &["-f", "--file"]),
    ("du", &["--files0-from"]),
    ("find", &["-files0-from"]),
    ("sort", &["--files0-from"]),
    ("wc", &["--files0-from"]),
    ("xargs", &["-a", "--arg-file"]),
    ("file", &["-f", "--files-from", "-m", "--magic-file"]),
    ("make", &["-f", "--file", "--makefile"]),
    ("gmake", &["-f", "--file", "--makefile"]),
    ("wget", &["--post-file", "--body-file", "-i", "--input-file", "--config", "-e", "--execute"]),
    ("curl", &["-T", "--upload-file", "-K", "--config"]),
    ("tar", &["-T", "--files-from"]),
    ("sysctl", &["-p", "--load"]),
    ("bash", &["--rcfile", "--init-file"]),
    ("pip install", &["-r", "--requirement", "-c", "--constraint"]),
    ("pip3 install", &["-r", "--requirement", "-c", "--constraint"]),
    ("git blame", &["--contents"]),
    ("git annotate", &["--contents"]),
    ("git commit", &["-F", "--file", "-t", "--template"]),
    ("git tag", &["-F", "--file"]),
    ("git merge", &["-F", "--file"]),
    ("git notes", &["-F", "--file"]),
    ("git config", &["-f", "--file"]),
    ("git", &["--pathspec-from-file"]),
];

/// Options of `curl` whose value is a file behind `@`, or behind a name and `@`.
const SENT_BY_CURL: &[&str] = &[
    "-d",
    "--data",
    "--data-ascii",
    "--data-binary",
    "--json",
    "-H",
    "--header",
    "--proxy-header",
    "-w",
    "--write-out",
    "--url",
];
const SENT_BY_NAME: &[&str] = &["--data-urlencode", "--url-query", "--variable"];

/// Names of what a command writes to.
const OUTPUTS: &[&str] =
    &["/dev/stdout", "/dev/stderr", "/dev/fd/1", "/dev/fd/2", "/proc/self/fd/1", "/proc/self/fd/2"];

/// What lets a pattern stand for more than it would.
const WIDENS: &[&str] = &["dotglob", "GLOBIGNORE", "nocaseglob"];

/// Whether a path is one of those that are looked for, where this simple command of the line would show it:
/// its place among them, if it is known which it is.
pub(in super::super) type IsIt<'a> = dyn Fn(Option<usize>, &str) -> bool + Sync + 'a;

/// The first file of this kind that the line, run in this folder, may show.
pub(in super::super) fn shows(
    line: &Line,
    directory: &str,
    ground: &Survey<'_>,
    is_it: &IsIt<'_>,
    suspicion: Suspicion,
) -> Option<String> {
    let directory = if directory == "." { "" } else { directory };
    let by = |command| move |path: &str| is_it(command, &as_rules_say(path));
    let is_it = &by(None);
    let is_long = line.runs().len() > MOST_FOLLOWED;
    let values = &Values::of(line, ground);
    let flow = |reach| Flow { line, directory, ground, values, reach, is_it, goes_down: false };
    let reads_unknown = || line.runs().iter().any(reads_unknown);
    let found = (0..line.runs().len()).find_map(|n| {
        let run = &line.runs()[n];
        let args = Args { run, directory, ground, values: Some(values) };
        Looker { line, n, args, ground, values, is_it: &by(Some(run.of)), suspicion }.look()
    });
    found
        .or_else(|| {
            (is_long && reads_unknown()).then(|| flow(suspicion.reach()).anything()).flatten()
        })
        .or_else(|| {
            // `x=secret.txt; cat $x`
            let commands = line.script().commands.iter().filter(|_| suspicion == Suspicion::Any);
            let mut set = commands.flat_map(|command| &command.assignments);
            set.find_map(|word| {
                fragments(&word.text).find(|text| is_it(text)).map(ToOwned::to_owned)
            })
        })
        .or_else(|| {
            // Of a line that is not understood each word may be one.
            let is_all_known = line.is_known() || suspicion == Suspicion::Known;
            let mut words = fragments(line.text()).filter(|_| !is_all_known);
            words.find(|word| is_it(word)).map(ToOwned::to_owned)
        })
        .map(|path| as_rules_say(&path).into_owned())
}

/// `./a/../b` is `b` for a rule.
fn as_rules_say(path: &str) -> Cow<'_, str> {
    let is_plain = |part: &str| !matches!(part, "" | "." | "..");
    let names = path.strip_prefix('/').unwrap_or(path);
    if names.split('/').all(is_plain) { path.into() } else { join("", path).into() }
}

/// It may show a file whose name is known only when it runs.
fn reads_unknown(run: &Run) -> bool {
    let name = run.name();
    let is_unknown = |word: &Word| word.kind >= Kind::Quoted;
    (SHOWS.contains(&name) || SEARCHES.contains(&name)) && run.words.iter().skip(1).any(is_unknown)
}

/// Of what it reads it writes no more than how much it is.
pub(super) fn counts(args: &Args<'_>) -> bool {
    let name = args.run.name();
    COUNTS.contains(&name) || SEARCHES.contains(&name) && only_counts(args)
}

/// A search that says whether, or how often, it finds something; and the word that says so is no value of another
/// option.
fn only_counts(args: &Args<'_>) -> bool {
    const COUNTING: &[&str] = &["--quiet", "--silent", "--count"];
    let is_cluster = |text: &str| {
        text.strip_prefix('-').is_some_and(|letters| {
            letters.contains(['c', 'q'])
                && letters.chars().all(|letter| "cqivwxFEGPHhnsrR".contains(letter))
        })
    };
    let takes_next = |text: &str| {
        text.starts_with('-')
            && (text.starts_with("--") && !text.contains('=')
                || text.ends_with(['e', 'f', 'm', 'A', 'B', 'C', 'd', 'D', 'g', 't', 'T']))
    };
    let words: Vec<&Word> = args.words().take_while(|word| word.text != "--").collect();
    words.iter().enumerate().any(|(at, word)| {
        let is_value = at > 0 && takes_next(&words[at - 1].text);
        let counts = COUNTING.contains(&word.text.as_str()) || is_cluster(&word.text);
        counts && !is_value && word.is_literal()
    })
}

fn has_xargs(line: &Line) -> bool {
    line.runs().iter().any(|run| run.words.first().is_some_and(|word| word.text == "xargs"))
}

struct Looker<'a> {
    line: &'a Line,
    /// Which command of the line it is.
    n: usize,
    args: Args<'a>,
    ground: &'a Survey<'a>,
    values: &'a Values<'a>,
    is_it: &'a (dyn Fn(&str) -> bool + Sync),
    suspicion: Suspicion,
}

impl<'a> Looker<'a> {
    fn look(&self) -> Option<String> {
        let run = self.args.run;
        // Names that one command writes are read by another.
        let hands_on = run.writes_pipe && has_xargs(self.line) || runs_what_it_finds(&self.args);
        let read = run.redirects.iter().filter(|to| to.how == How::Read).map(|to| &to.target);
        if self.loads_settings_only() {
            return None;
        }
        let named = read.chain(self.operands(hands_on)).find_map(|word| self.named(word));
        let named = named.or_else(|| self.run_by_a_shell());
        let named = named.or_else(|| self.by_option()).or_else(|| self.by_settings_of_git());
        let named = named.or_else(|| self.sent()).or_else(|| self.by_value());
        named.or_else(|| self.in_texts()).or_else(|| self.met()).or_else(|| {
            let is_handed_on =
                hands_on && self.suspicion == Suspicion::Any && self.name() == "find";
            is_handed_on.then(|| found(&self.args, Reach::All, self.is_it, false)).flatten()
        })
    }

    /// `BASH_ENV=.env bash -c 'echo $KEY'`
    fn run_by_a_shell(&self) -> Option<String> {
        let set = self.line.script().commands.get(self.args.run.of)?.assignments.iter();
        let set = set.filter(|_| SHELLS.contains(&self.name()));
        let mut files = set.filter_map(|word| RUN_BY_SHELLS.iter().find_map(|own| word.after(own)));
        files.find_map(|file| self.at(&file))
    }

    /// `git -c include.path=.env config -l`, `GIT_CONFIG_GLOBAL=.env git config -l`
    fn by_settings_of_git(&self) -> Option<String> {
        if self.name() != "git" {
            return None;
        }
        let is_one =
            |name: &str| SETTINGS_OF_GIT.contains(&name) || name.starts_with(SETTING_OF_GIT);
        let bindings = self.line.bindings().iter().filter(|binding| is_one(&binding.name));
        let mut set = bindings.flat_map(|binding| &binding.words);
        set.find_map(|word| self.behind(word)).or_else(|| {
            let words: Vec<&Word> = self.args.words().collect();
            let mut pairs = words.windows(2).filter(|pair| pair[0].text == "-c");
            pairs.find_map(|pair| {
                let (_, value) = pair[1].text.split_once('=')?;
                // (It may be an alias, which a shell takes apart.)
                self.behind(&Word { text: value.to_owned(), kind: pair[1].kind }.bare())
            })
        })
    }

    /// A file that is sent somewhere: `curl -F f=@.env`.
    fn sent(&self) -> Option<String> {
        let all = |options: &[&'static str]| {
            let given = self.args.values_of(options);
            given.iter().flat_map(|word| self.values.behind(word).to_vec()).collect::<Vec<Word>>()
        };
        // (Of a form several files may be one field, and say what they hold: `f=@a,b;type=x`.)
        let first_of = |word: &Word, text: &str| {
            let mut parts =
                text.split([',', ';', '{', '}', '"', '=']).filter(|part| !part.is_empty());
            parts.find_map(|part| {
                let part = part.trim_start_matches(['@', '<']);
                self.at(&Word { text: part.to_owned(), kind: word.kind })
            })
        };
        match self.name() {
            "curl" => {
                let whole = all(SENT_BY_CURL);
                let found =
                    whole.iter().find_map(|word| first_of(word, word.text.strip_prefix('@')?));
                let named = || {
                    all(SENT_BY_NAME).iter().find_map(|word| {
                        let (name, path) = word.text.split_once('@')?;
                        if name.contains('=') { None } else { first_of(word, path) }
                    })
                };
                let in_form = || {
                    all(&["-F", "--form"]).iter().find_map(|word| {
                        let (_, value) = word.text.split_once('=')?;
                        first_of(word, value.strip_prefix(['@', '<'])?)
                    })
                };
                let put = || {
                    let put = all(&["-T", "--upload-file"]);
                    put.iter().find_map(|word| first_of(word, &word.text))
                };
                found.or_else(named).or_else(in_form).or_else(put)
            }
            "http" | "https" | "xh" | "xhs" => {
                let words = self.args.words().flat_map(|word| self.values.behind(word).to_vec());
                words.into_iter().find_map(|word| {
                    let (_, path) = word.text.rsplit_once('@')?;
                    first_of(&word, path)
                })
            }
            _ => None,
        }
    }

    /// `x='cat .env'; $x`: a program and what it is given, by one value.
    fn by_value(&self) -> Option<String> {
        let program = self.args.run.words.first().filter(|word| word.kind == Kind::Variable)?;
        let values = self.values.behind(program);
        values.iter().find_map(|value| {
            let mut parts = self.values.parts(&value.text);
            let name = parts.next()?;
            let name = name.rsplit('/').next().unwrap_or(name);
            let shows = SHOWS.contains(&name) || SEARCHES.contains(&name);
            let mut parts = parts.filter(|_| shows && value.kind != Kind::Output);
            parts.find_map(|part| self.at(&Word { text: part.to_owned(), kind: value.kind }))
        })
    }

    /// The file of this kind that a word, or what it stands for, names.
    fn behind(&self, word: &Word) -> Option<String> {
        self.values.behind(word).iter().find_map(|word| self.at(word))
    }

    /// `. ./.env && npm start`: the shell loads settings for programs, and nothing of the line shows a variable.
    fn loads_settings_only(&self) -> bool {
        let is_settings = |word: &&Word| {
            let name = word.text.rsplit('/').next().unwrap_or_default();
            word.is_literal() && (name == ".env" || name.starts_with(".env."))
        };
        let is_source = |run: &Run| matches!(run.name(), "." | "source");
        let run = self.args.run;
        let is_it = self.suspicion == Suspicion::Known
            && is_source(run)
            && run.words.len() == 2
            && run.words.iter().skip(1).all(|word| is_settings(&word));
        let is_plain =
            |word: &Word| matches!(word.kind, Kind::Literal | Kind::Pattern | Kind::Home);
        let exports = |run: &Run| {
            let words: Vec<&str> = run.words.iter().map(|word| word.text.as_str()).collect();
            matches!(words[..], ["set", "-a" | "+a"] | ["set", "-o" | "+o", "allexport"])
        };
        let shows_none = |run: &Run| {
            let name = run.name();
            let has_text = ["-c", "-e", "-p", "-m", "-r"]
                .iter()
                .any(|own| run.words.iter().skip(1).any(|word| word.text.starts_with(own)));
            exports(run)
                || run.words.iter().all(is_plain)
                    && run.redirects.iter().all(|to| is_plain(&to.target) && to.how != How::Text)
                    && run.input == Input::None
                    && !SHOW_VARIABLES.contains(&name)
                    && !SHELLS.contains(&name)
                    && !(INTERPRETERS.contains(&name) && (has_text || run.words.len() < 2))
                    && !name.ends_with("awk")
        };
        let is_quiet = || {
            let commands = &self.line.script().commands;
            commands.iter().all(|command| command.assignments.iter().all(is_plain))
                && !self.line.text().contains('$')
                && self.line.runs().iter().all(|run| is_source(run) || shows_none(run))
                && self.line.runs().iter().any(|run| !is_source(run) && !exports(run))
        };
        is_it && is_quiet()
    }

    /// What it shows without having been told its name here: in folders, or told by another command.
    fn met(&self) -> Option<String> {
        let (name, args, is_it) = (self.name(), &self.args, self.is_it);
        let searches = SEARCHES.contains(&name) || name == "git" && args.sub_is("grep");
        if self.suspicion == Suspicion::Any {
            let shows = searches || SHOWS.contains(&name) || name == "7z";
            // `git checkout-index -a --prefix=out/` puts each file there a second time.
            let puts_all = name == "git"
                && args.sub_is("checkout-index")
                && ["-a", "--all"].iter().any(|own| args.has(own));
            if puts_all {
                return self.ground.find("", Reach::All, is_it);
            }
            return shows.then(|| self.handed(is_it).or_else(|| self.below(is_it))).flatten();
        }
        let is_counted = || COUNTS.contains(&name) || self.is_counted();
        if searches {
            let only_names = ["-l", "-L", "-c", "-q", "--files", "--files-with-matches", "--count"];
            // What git tracks everybody has who has the repository.
            let only_tracked = name == "git" && !args.has("--no-index") && !args.has("--untracked");
            if only_tracked || only_names.iter().any(|own| args.has(own)) || is_counted() {
                return None;
            }
            // The lines of a key are not what anybody searches for, but with everything around them.
            let is_all = |word: &Word| matches!(word.text.as_str(), "" | "." | ".*" | "^" | "$");
            let shows_all = ["-A", "-B", "-C", "-v"].iter().any(|own| args.has(own))
                || args.operands().any(is_all);
            let is_it = |path: &str| is_it(path) && (shows_all || !holds_a_key(path));
            return self.handed(&is_it).or_else(|| self.below(&is_it));
        }
        let goes_down = name == "tar" && self.packs_to_a_reader()
            || name == "diff"
            || name == "git" && args.sub_is("diff") && args.has("--no-index");
        let to_output = || args.words().any(|word| OUTPUTS.contains(&word.text.as_str()));
        // A shell runs a text that may be handed to it.
        let is_reader = self.shows_what_it_is_given() && (!COPIES.contains(&name) || to_output())
            || SHELLS.contains(&name);
        let below = goes_down.then(|| self.below(is_it)).flatten();
        below.or_else(|| {
            let is_seen = !is_counted();
            let input = is_seen.then(|| self.handed_as_input()).flatten();
            input.or_else(|| (is_reader && is_seen).then(|| self.handed(is_it)).flatten())
        })
    }

    /// One of them whose name another command of the line hands on to it.
    fn handed(&self, is_it: &(dyn Fn(&str) -> bool + Sync)) -> Option<String> {
        // (A line that is too long is looked at as a whole.)
        let is_short = self.line.runs().len() <= MOST_FOLLOWED;
        is_short.then(|| self.flow(is_it).handed(self.n)).flatten()
    }

    fn handed_as_input(&self) -> Option<String> {
        let is_short = self.line.runs().len() <= MOST_FOLLOWED;
        is_short.then(|| self.flow(self.is_it).handed_as_input(self.n)).flatten()
    }

    /// One of them in a folder that it goes through.
    fn below(&self, is_it: &(dyn Fn(&str) -> bool + Sync)) -> Option<String> {
        searched(&self.args, self.suspicion.reach(), is_it)
    }

    fn flow<'b>(&'b self, is_it: &'b (dyn Fn(&str) -> bool + Sync)) -> Flow<'b> {
        let (directory, ground, values) = (self.args.directory, self.ground, self.values);
        let (line, reach) = (self.line, self.suspicion.reach());
        let goes_down = goes_down(&self.args);
        Flow { line, directory, ground, values, reach, is_it, goes_down }
    }

    /// A program that is not known, or one that shows the files that it is given.
    fn shows_what_it_is_given(&self) -> bool {
        let (name, args) = (self.name(), &self.args);
        let goes_by_line = matches!(name, "perl" | "ruby") && (args.has("-n") || args.has("-p"));
        // (What `tee` names it writes, and so does `sed -i`.)
        let changes = args.has("-i") && matches!(name, "sed" | "perl" | "ruby");
        let is_unknown = args.run.words.first().is_some_and(|program| !program.is_literal());
        if name == "openssl"
            && args.operands().next().is_some_and(|sub| SHOWS_NO_KEY.contains(&sub.text.as_str()))
        {
            return false;
        }
        (is_unknown
            || COMPILERS.contains(&name)
            || SHOWS.contains(&name) && name != "tee"
            || goes_by_line)
            && !changes
    }

    /// Of what it writes nothing more is seen than how much it is.
    fn is_counted(&self) -> bool {
        let mut behind = self.readers();
        behind.any(|run| counts(&Args { run, ..self.args }))
    }

    /// The commands that what it writes flows through.
    fn readers(&self) -> impl Iterator<Item = &'a Run> {
        let runs = &self.line.runs()[self.n..];
        let behind = runs.iter().zip(runs.iter().skip(1)).take_while(|(run, _)| run.writes_pipe);
        behind.map(|(_, next)| next).skip_while(|run| run.input != Input::Pipe)
    }

    /// `tar c . | strings`: what it packs is shown. (`tar c . | tar x -C there` is a copy.)
    fn packs_to_a_reader(&self) -> bool {
        let words: Vec<&str> = self.args.words().map(|word| word.text.as_str()).collect();
        let has_letters = |(at, word): (usize, &&str)| {
            (at == 0 || word.starts_with('-')) && !word.starts_with("--") && word.contains('c')
        };
        let creates = words.iter().enumerate().any(has_letters) || self.args.has("--create");
        let to_file = words.iter().enumerate().any(|(at, word)| {
            let has_f = (at == 0 || word.starts_with('-'))
                && !word.starts_with("--")
                && word.ends_with('f');
            has_f && words.get(at + 1) != Some(&"-")
                || word.starts_with("--file=") && *word != "--file=-"
        });
        let run = self.args.run;
        let mut readers = self.readers();
        let is_shown = if run.writes_pipe {
            readers.any(|run| {
                let name = run.name();
                let unpacks = || run.words.iter().skip(1).any(|word| word.text.contains('O'));
                SEARCHES.contains(&name)
                    || SHOWS.contains(&name) && !COPIES.contains(&name)
                    || name == "tar" && unpacks()
            })
        } else {
            run.redirects.iter().all(|to| to.writes().is_none())
        };
        creates && !to_file && is_shown && !self.is_counted()
    }

    fn name(&self) -> &str {
        self.args.run.name()
    }

    /// The words that name what it shows, or hands on to others.
    fn operands(&self, hands_on: bool) -> Vec<&Word> {
        let name = self.name();
        let searches = SEARCHES.contains(&name);
        let is_suspect = match self.suspicion {
            // What `tee` names it writes.
            Suspicion::Known if name == "git" => self.git_shows(),
            Suspicion::Known if name == "xargs" => false,
            // As a script of theirs: they tell what they do not understand.
            Suspicion::Known if self.runs_showing_module() => true,
            Suspicion::Known if self.shows_what_its_text_opens() => true,
            Suspicion::Known if READ_OPTIONS.contains(&name) && !self.shows_what_it_is_given() => {
                let is_at = |word: &&Word| word.text.starts_with('@');
                return self.args.operands().filter(is_at).collect();
            }
            Suspicion::Known if SHELLS.contains(&name) || INTERPRETERS.contains(&name) => {
                let has_text = ["-c", "-e", "-m"].iter().any(|own| self.args.has(own));
                let n_scripts = if self.shows_what_it_is_given() { usize::MAX } else { 1 };
                let scripts = self.args.operands().take(n_scripts);
                return scripts.filter(|_| !has_text || n_scripts > 1).collect();
            }
            Suspicion::Known => {
                (searches && !only_counts(&self.args) || self.shows_what_it_is_given())
                    && !self.renames_a_secret()
            }
            // (What is moved, or put elsewhere from the index, has another name then.)
            Suspicion::Any if name == "git" => self.args.operands().next().is_some_and(|sub| {
                GIT_SHOWS.contains(&&*sub.text) || matches!(&*sub.text, "mv" | "checkout-index")
            }),
            Suspicion::Any => hands_on || !NAMES_ONLY.contains(&name),
        };
        if !is_suspect {
            return Vec::new();
        }
        let in_options = ["-e", "-f", "--regexp", "--file", "--expression"];
        let has_pattern = in_options.iter().any(|own| self.args.has(own));
        // (`s/a/.env/` is no path.)
        let begins_with_it = (searches || name == "sed") && !has_pattern;
        let mut operands: Vec<&Word> =
            self.args.operands().skip(usize::from(begins_with_it)).collect();
        // The last word of a copy is what is written, where that does not stand in front.
        let is_copy = matches!(name, "cp" | "mv" | "ln" | "install");
        let is_in_front = || !self.args.values_of(&["-t", "--target-directory"]).is_empty();
        let n_written = usize::from(is_copy && !is_in_front());
        operands.truncate(operands.len().saturating_sub(n_written));
        if self.suspicion == Suspicion::Any {
            operands.extend(self.args.words().filter(|word| word.text.starts_with('-')));
        }
        operands
    }

    /// `mv .env .env.bak`: under its new name it is one of them too.
    fn renames_a_secret(&self) -> bool {
        let operands: Vec<&Word> = self.args.operands().collect();
        let [from, to] = operands.as_slice() else { return false };
        let options = ["-t", "--target-directory"];
        self.name() == "mv"
            && from.is_literal()
            && to.is_literal()
            && self.args.values_of(&options).is_empty()
            && self.at(to).is_some()
    }

    /// `perl -e 'print <>' FILE`
    fn shows_what_its_text_opens(&self) -> bool {
        let texts = || self.args.words().map(|word| word.text.as_str());
        INTERPRETERS.contains(&self.name())
            && ["-c", "-e", "-E", "-r", "-p", "--eval", "--print"]
                .iter()
                .any(|own| self.args.has(own))
            && texts().any(|text| OPENS.iter().any(|own| text.contains(own)) && prints(text))
    }

    /// `python3 -m base64 FILE`
    fn runs_showing_module(&self) -> bool {
        let mut words = self.args.words().skip_while(|word| word.text != "-m").skip(1);
        self.name().starts_with("python")
            && words.next().is_some_and(|module| SHOWING_MODULES.contains(&module.text.as_str()))
    }

    /// The file of this kind that an option says to read.
    fn by_option(&self) -> Option<String> {
        let (name, sub) = (self.name(), self.args.operands().next());
        let command = sub.map(|sub| format!("{name} {}", sub.text)).unwrap_or_default();
        let own =
            FILE_OPTIONS.iter().filter(|(program, _)| *program == name || *program == command);
        let options: Vec<&'static str> =
            own.flat_map(|(_, options)| options.iter().copied()).collect();
        let files = self.args.values_of(&options);
        files.iter().find_map(|word| self.behind(word))
    }

    /// The file of this kind that a word names.
    fn named(&self, word: &Word) -> Option<String> {
        if let Some(found) = self.expanded(word) {
            return Some(found);
        }
        let whole = word.text.trim_start_matches('@');
        let whole = whole.strip_prefix("if=").unwrap_or(whole);
        let whole = whole.strip_prefix("file://").unwrap_or(whole);
        // `HEAD:.env`
        let behind = whole.rsplit_once(':').filter(|_| self.name() == "git");
        let whole = behind.map_or(whole, |(_, path)| path);
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
        // Where it is not known from where it is seen, it is what is written.
        let mut paths = self.args.known_paths(word);
        if paths.is_empty() {
            paths.push(word.text.clone());
        }
        self.first_of(paths)
    }

    /// What of the files that a pattern stands for is one of them.
    fn expanded(&self, word: &Word) -> Option<String> {
        let mut found = self.args.expanded(word);
        if word.kind == Kind::Pattern && WIDENS.iter().any(|own| self.line.text().contains(own)) {
            let as_literal = Word { text: word.text.clone(), kind: Kind::Literal };
            let patterns = self.args.known_paths(&as_literal).into_iter();
            found.extend(patterns.flat_map(|pattern| self.expanded_widely(&pattern)));
        }
        self.first_of(found)
    }

    /// The first that is one of them, itself or behind a link.
    fn first_of(&self, paths: Vec<String>) -> Option<String> {
        let mut names = paths.into_iter().flat_map(|path| [self.ground.real(&path), path]);
        names.find(|path| (self.is_it)(path))
    }

    /// What begins and ends as the last part of a pattern does, whatever stands between, and in any case.
    fn expanded_widely(&self, pattern: &str) -> Vec<String> {
        let (folder, last) = match pattern.rsplit_once('/') {
            Some((folder, last)) => (format!("{folder}/"), last),
            None => (String::new(), pattern),
        };
        let last = last.to_ascii_lowercase();
        let begin = last.split(['*', '?', '[']).next().unwrap_or_default();
        let end = last.rsplit(['*', '?', ']']).next().unwrap_or_default();
        ["*", ".*"]
            .iter()
            .flat_map(|any| self.ground.expand(&format!("{folder}{any}")))
            .filter(|path| {
                let name = path.rsplit('/').next().unwrap_or(path).to_ascii_lowercase();
                name.starts_with(begin) && name.ends_with(end)
            })
            .collect()
    }

    /// One of git's commands that shows more of a file than its name.
    fn git_shows(&self) -> bool {
        let args = &self.args;
        let has = |options: &[&str]| options.iter().any(|own| args.has(own));
        let Some(sub) = args.operands().next().map(|word| word.text.as_str()) else { return false };
        let is_log = matches!(sub, "log" | "whatchanged" | "stash");
        let summary =
            ["--stat", "--numstat", "--shortstat", "--name-only", "--name-status", "--quiet"];
        GIT_SHOWS.contains(&sub)
            && sub != "format-patch"
            && !has(&summary)
            && !(sub == "cat-file" && has(&["-e", "-s", "-t"]))
            && (!is_log || has(&["-p", "-u", "--patch", "-L"]))
    }

    /// In texts that it runs as a program: `-c`, `-e`, here-documents.
    fn in_texts(&self) -> Option<String> {
        let (name, run) = (self.name(), self.args.run);
        let input = match &run.input {
            Input::Text(text) => Some(text),
            Input::None | Input::Pipe | Input::File(_) => None,
        };
        let named =
            |text: &Word| fragments(&text.text).find_map(|text| self.at(&Word::literal(text)));
        if name == "sed" {
            return self.read_by_sed();
        }
        match self.suspicion {
            Suspicion::Any => {
                let is_data = SHOWS.contains(&name) || NAMES_ONLY.contains(&name) || name == "git";
                input.filter(|_| !is_data && !SEARCHES.contains(&name)).and_then(named)
            }
            // A program that loads its settings goes on; one that is written here to print them does not.
            Suspicion::Known => {
                if name == "sed" {
                    return self.read_by_sed();
                }
                let is_database = matches!(name, "sqlite3" | "sqlite" | "duckdb");
                let is_program =
                    INTERPRETERS.contains(&name) || matches!(name, "awk" | "gawk") || is_database;
                let texts = self.args.words().chain(input).filter(|_| is_program);
                let is_printed = matches!(name, "node" | "deno" | "bun")
                    && ["-p", "--print"].iter().any(|own| self.args.has(own));
                texts
                    .filter(|text| {
                        if is_database {
                            return READS_IN_DATABASE.iter().any(|own| text.text.contains(own));
                        }
                        is_printed || prints(&text.text)
                    })
                    .filter(|text| !name.ends_with("awk") || text.text.contains("getline"))
                    .find_map(named)
                    .filter(|path| self.ground.look(path) == Place::File)
            }
        }
    }

    /// `sed 'r file'`, `sed '1e cat file'`
    fn read_by_sed(&self) -> Option<String> {
        let Effects { reads, runs, kind, .. } = self.args.sed();
        let word = |text: &str| Word { text: text.to_owned(), kind };
        let parts = || runs.iter().flat_map(|command| fragments(command));
        reads.iter().find_map(|file| self.at(&word(file))).or_else(|| {
            parts().take_while(|_| self.ground.spend(1)).find_map(|text| self.at(&word(text)))
        })
    }
}

/// The text of a program writes out again what it reads, or complains of it.
fn prints(text: &str) -> bool {
    let is_in = |print: &&str| text.contains(*print);
    let mut words = text.split(|char: char| !char.is_ascii_alphanumeric() && char != '_');
    PRINTS.iter().any(is_in)
        || OPENS.iter().any(is_in) && words.any(|word| COMPLAINS.contains(&word))
}

/// What in a text may be a path: `x.txt` in `open("x.txt")`, `HEAD:x.txt`, `if=x.txt`, `-fx.txt`.
pub(in super::super) fn fragments(text: &str) -> impl Iterator<Item = &str> {
    let is_between =
        |char: char| char.is_ascii() && !char.is_ascii_alphanumeric() && !"._-+~/%".contains(char);
    text.split(is_between).filter(|part| !part.is_empty()).flat_map(|part| {
        let behind_option = part.strip_prefix('-').filter(|rest| rest.is_char_boundary(1));
        [Some(part), behind_option.and_then(|rest| rest.get(1..)).filter(|rest| !rest.is_empty())]
            .into_iter()
            .flatten()
    })
}
