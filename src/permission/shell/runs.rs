//! Every command that may be run: through `env`, `xargs`, `find -exec`, `sh -c` and their kin.

mod settings;
mod wrappers;

use super::place::Folders;
use super::read::read_at;
use super::sed::Effects;
use super::word::{Kind, Word};
use super::{How, Redirect, Script, Simple, Values};
use crate::permission::filled::filled;
pub(in super::super) use settings::{Sets, is_harmless_setting};
use wrappers::{WRAPPERS, Wrapper};

/// How deep a command that runs a command is followed.
const DEPTH: usize = 8;
/// How many commands of a line are looked at.
const MOST_RUNS: usize = 10_000;

/// A command that may be run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct Run {
    /// The bare name of its program and its arguments.
    pub(in super::super) words: Vec<Word>,
    /// The path below its folder by which its program was named, if it was: `bin/fmt` may be a script of the
    /// project's own.
    pub(in super::super) path: Option<Word>,
    /// Where its input comes from.
    pub(in super::super) input: Input,
    /// Another command reads what it writes.
    pub(in super::super) writes_pipe: bool,
    pub(in super::super) redirects: Vec<Redirect>,
    pub(in super::super) directories: Folders,
    /// In so many substitutions it stands.
    pub(in super::super) nesting: usize,
    /// What variables that are set for it alone, or for what follows, may do.
    pub(in super::super) sets: Sets,
    /// The place of its simple command in the script.
    pub(in super::super) of: usize,
    /// What runs it.
    pub(in super::super) by: By,
    /// What runs it is told to run another command, perhaps: that one begins elsewhere in its words.
    pub(in super::super) is_guess: bool,
}

impl Run {
    /// The name of its program as it is written; empty where it has none.
    pub(in super::super) fn name(&self) -> &str {
        self.words.first().map_or("", |word| word.text.as_str())
    }
}

/// All that a line may run.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct Runs {
    /// Every command that may be run.
    pub(in super::super) all: Vec<Run>,
    /// What it gives to variables, the scripts that it runs included.
    pub(in super::super) bindings: Vec<Binding>,
    /// That is certain to be all.
    pub(in super::super) is_known: bool,
    /// A text that it runs was not read to its end.
    pub(in super::super) is_too_long: bool,
    /// Names that stand for programs elsewhere: `hash -p /usr/bin/git g`.
    hashed: Vec<(String, Word)>,
    /// What any of its scripts gives to variables, and whether one that a command runs evaluates some.
    values: Values,
}

/// A variable, and words that it may stand for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct Binding {
    pub(in super::super) name: String,
    pub(in super::super) words: Vec<Word>,
}

/// What runs a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in super::super) enum By {
    /// The line itself.
    Line,
    /// Another command.
    Command,
    /// Another command, which ends it after a time.
    Timeout,
}

/// What a command reads as its standard input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) enum Input {
    /// Nothing that the line says.
    None,
    /// What another command writes.
    Pipe,
    /// A file.
    File(Word),
    /// A text of the line.
    Text(Word),
}

/// Programs that run a text, given after `-c`, in a file, or as their input.
pub(in super::super) const SHELLS: &[&str] =
    &["ash", "bash", "csh", "dash", "fish", "ksh", "mksh", "rbash", "sh", "tcsh", "yash", "zsh"];

/// Every command that may be run.
pub(super) fn runs(script: &Script) -> Runs {
    let mut found = Runs { is_known: true, ..Runs::default() };
    found.script(script, None, DEPTH);
    found
}

impl Runs {
    /// The commands of a script; of one that a command runs, which reads and writes as that one does.
    fn script(&mut self, script: &Script, by: Option<&Run>, depth: usize) {
        self.values.can_be_commands |= script.values.can_be_commands;
        // What another text gave to a variable that was exported, or is its own in `eval`.
        self.values.are_evaluated |= by.is_some() && script.values.are_evaluated;
        self.is_known &=
            script.is_understood && !(self.values.can_be_commands && self.values.are_evaluated);
        self.is_too_long |= script.is_too_long;
        self.bindings.extend(script.loops.iter().cloned());
        let set = script
            .commands
            .iter()
            .flat_map(|simple| simple.assignments.iter().chain(&simple.words));
        self.bindings.extend(set.filter_map(binding));
        for (n, simple) in script.commands.iter().enumerate() {
            // What the shell behind it runs before each line that it reads.
            for text in simple
                .assignments
                .iter()
                .chain(&simple.words)
                .filter_map(|word| word.after("PROMPT_COMMAND="))
            {
                let run = by.cloned().unwrap_or_else(|| run_of(simple, n));
                if let Some(depth) = depth.checked_sub(1) {
                    self.text(&text, &Run { input: Input::None, ..run }, depth);
                }
            }
            let set = || simple.assignments.iter().chain(&simple.words);
            for text in set().filter_map(expanded_later) {
                let run = by.cloned().unwrap_or_else(|| run_of(simple, n));
                if let Some(depth) = depth.checked_sub(1) {
                    self.text(
                        &text,
                        &Run { input: Input::None, nesting: run.nesting + 1, ..run },
                        depth,
                    );
                }
            }
            // What git and others start.
            for text in set().filter_map(|word| STARTED.iter().find_map(|name| word.after(name))) {
                let run = by.cloned().unwrap_or_else(|| run_of(simple, n));
                if let Some(depth) = depth.checked_sub(1) {
                    self.started(&text, &run, depth);
                }
            }
            let mut run = run_of(simple, by.map_or(n, |by| by.of));
            if run.input == Input::Pipe
                && let Some(text) = n.checked_sub(1).and_then(|n| said(&script.commands[n]))
            {
                run.input = Input::Text(text);
            }
            if let Some(by) = by {
                run.by = by.by.max(By::Command);
                run.nesting += by.nesting;
                run.is_guess |= by.is_guess;
                run.writes_pipe |= by.writes_pipe;
                run.sets = run.sets.max(by.sets);
                run.redirects.extend(by.redirects.iter().cloned());
                if run.input == Input::None && by.input == Input::Pipe {
                    run.input = Input::Pipe;
                }
            }
            self.add(run, depth);
        }
    }

    fn add(&mut self, mut run: Run, depth: usize) {
        if self.all.len() >= MOST_RUNS {
            self.is_known = false;
            self.is_too_long = true;
            return;
        }
        let Some(program) = run.words.first_mut() else {
            self.all.push(run);
            return;
        };
        if matches!(program.text.as_str(), "$SHELL" | "${SHELL}" | "$BASH" | "${BASH}") {
            *program = Word::literal("bash");
            self.is_known = false;
        }
        if !program.is_literal() {
            self.is_known = false;
        }
        // The name of a program is the same at every place.
        if let Some((_, name)) = program.text.rsplit_once('/').filter(|(_, name)| !name.is_empty())
        {
            let name = name.to_owned();
            if is_below(&program.text) {
                run.path = Some(program.clone());
            }
            program.text = name;
        }
        let Some(depth) = depth.checked_sub(1) else {
            self.is_known = false;
            self.is_too_long = true;
            self.all.push(run);
            return;
        };
        self.all.push(run.clone());
        let Some(name) = run.words.first().and_then(Word::known).map(ToOwned::to_owned) else {
            return;
        };
        self.by_options(&run, depth);
        let arguments = &run.words[1..];
        if let Some((_, path)) = self.hashed.iter().find(|(own, _)| *own == name) {
            let words = [std::slice::from_ref(path), arguments].concat();
            self.inner(&run, words, depth);
        }
        match name.as_str() {
            "command" if matches!(arguments.first().and_then(Word::known), Some("-v" | "-V")) => {}
            "eval" => self.text(&joined(arguments), &run, depth),
            "trap" => {
                if let Some(text) = arguments.iter().find(|word| !word.text.starts_with('-')) {
                    self.text(text, &run, depth);
                }
            }
            "." | "source" | "alias" | "parallel" | "bind" | "fc" => self.is_known = false,
            // From then on `NAME=value` sets a variable for a command behind its words too.
            "set" | "shopt" if arguments.iter().any(sets_keyword) => self.is_known = false,
            "enable" | "hash" if !arguments.is_empty() => {
                self.is_known = false;
                if let [option, path, names @ ..] = arguments
                    && option.text == "-p"
                {
                    let named = names.iter().map(|name| (name.text.clone(), path.clone()));
                    self.hashed.extend(named);
                }
            }
            "mapfile" | "readarray" | "complete" | "compgen" => self.called_back(&run, depth),
            "find" | "fd" | "fdfind" => self.found(&run, depth),
            "git" => self.by_git(&run, depth),
            "sed" => {
                for command in Effects::of(arguments).runs {
                    // (A line that it is given.)
                    self.is_known &= !command.is_empty();
                    self.text(&Word::literal(command), &run, depth);
                }
            }
            name if SHELLS.contains(&name) => self.shell(&run, depth),
            "capsh" => self.by_capsh(&run, depth),
            "su" | "script" | "runuser" => self.after_c(&run, depth),
            name => {
                // Their options are many.
                let is_odd = matches!(
                    name,
                    "coproc"
                        | "unshare"
                        | "bwrap"
                        | "firejail"
                        | "xvfb-run"
                        | "systemd-run"
                        | "setarch"
                        | "setpriv"
                        | "nsenter"
                        | "linux32"
                        | "linux64"
                        | "x86_64"
                        | "i386"
                );
                self.is_known &= !is_odd;
                for wrapper in WRAPPERS.iter().filter(|wrapper| wrapper.names.contains(&name)) {
                    self.wrapped(wrapper, &run, depth);
                }
            }
        }
    }

    /// What options of programs name that they run.
    fn by_options(&mut self, run: &Run, depth: usize) {
        let name = run.name();
        let own = STARTED_BY.iter().filter(|(programs, _)| programs.contains(&name));
        for option in own.flat_map(|(_, options)| options.iter()) {
            for (at, word) in run.words.iter().enumerate().skip(1) {
                let text = match word.after(option) {
                    Some(rest) if rest.text.is_empty() => run.words.get(at + 1).cloned(),
                    // `--exec=x`, `-xx`
                    Some(rest) if option.starts_with("--") => rest.after("="),
                    Some(rest) if option.len() == 2 => Some(rest),
                    Some(_) | None => None,
                };
                if let Some(text) = text {
                    self.started(&text, run, depth);
                }
            }
        }
    }

    /// A text that is run as a script, and fed or told files by what starts it. Those that only show or leave a text as it
    /// is count for nothing.
    fn started(&mut self, text: &Word, run: &Run, depth: usize) {
        if matches!(text.text.as_str(), "" | "cat" | "less" | "more" | "true" | ":" | "false") {
            return;
        }
        let run = Run { input: Input::Pipe, is_guess: true, ..run.clone() };
        self.text(text, &run, depth);
    }

    fn inner(&mut self, run: &Run, words: Vec<Word>, depth: usize) {
        if !words.is_empty() {
            // (Not by a clone of the run: its own words may be many, and there may be many of it.)
            let inner = Run {
                words,
                path: None,
                input: run.input.clone(),
                writes_pipe: run.writes_pipe,
                redirects: run.redirects.clone(),
                directories: run.directories.clone(),
                nesting: run.nesting,
                is_guess: run.is_guess,
                sets: run.sets,
                of: run.of,
                by: if run.words[0].text == "timeout" {
                    By::Timeout
                } else {
                    run.by.max(By::Command)
                },
            };
            self.add(inner, depth);
        }
    }

    /// A text that is run as a script.
    fn text(&mut self, text: &Word, run: &Run, depth: usize) {
        match text.known() {
            Some(text) => {
                let script = read_at(text, run.directories.clone(), DEPTH * depth);
                self.script(&script, Some(run), depth);
            }
            None => self.is_known = false,
        }
    }

    fn wrapped(&mut self, wrapper: &Wrapper, run: &Run, depth: usize) {
        let arguments = &run.words[1..];
        let name = run.words[0].text.as_str();
        let Some(followed) = wrapper.follow(arguments) else { return };
        self.is_known &= followed.is_known;
        let guess = Run { is_guess: true, ..run.clone() };
        for at in followed.later {
            self.inner(&guess, arguments[at..].to_vec(), depth);
        }
        for text in &followed.may_be_texts {
            self.text(text, &guess, depth);
        }
        if let Some(words) = followed.instead {
            return self.inner(run, [&run.words[..1], &words].concat(), depth);
        }
        let sets = followed.sets.iter().map(settings::sets).max().unwrap_or(Sets::Nothing);
        let mut run = Run {
            is_guess: run.is_guess || followed.is_guess,
            sets: run.sets.max(sets),
            ..run.clone()
        };
        for text in &followed.texts {
            self.text(text, &run, depth);
        }
        let (own, command) = arguments.split_at(followed.at);
        let mut words = command.to_vec();
        if wrapper.is_env() {
            for (n, word) in own.iter().enumerate() {
                let folder = word.after("--chdir=").or_else(|| match word.text.as_str() {
                    "-C" | "--chdir" => own.get(n + 1).cloned(),
                    text if text.starts_with("-C") => word.after("-C"),
                    _ => None,
                });
                if let Some(folder) = folder {
                    run.directories.change(&[folder]);
                }
            }
        }
        if name == "xargs" && !words.is_empty() {
            unknown_words(&mut words, replaced(arguments, followed.at));
        }
        if words.is_empty() {
            return;
        }
        if followed.is_joined {
            return self.text(&joined(&words), &run, depth);
        }
        words.splice(..0, followed.by.iter().copied().map(Word::literal));
        self.inner(&run, words, depth);
    }

    /// What `find -exec … ;` and `fd -x …` run.
    fn found(&mut self, run: &Run, depth: usize) {
        let mut rest = &run.words[1..];
        let is_find = run.words[0].text == "find";
        while let Some((word, after)) = rest.split_first() {
            rest = after;
            let runs = match word.text.as_str() {
                "-exec" | "-execdir" | "-ok" | "-okdir" => is_find,
                "-x" | "-X" | "--exec" | "--exec-batch" => !is_find,
                text if text.starts_with("--exec") && !is_find => {
                    self.is_known = false;
                    let program = text.split_once('=').map_or("", |(_, program)| program);
                    let mut words = vec![Word::literal(program)];
                    words.extend(rest.iter().cloned());
                    words.push(Word { text: "{}".to_owned(), kind: Kind::Output });
                    self.inner(run, words, depth);
                    false
                }
                text => !is_find && !text.starts_with("--") && is_cluster_of(text, ['x', 'X']),
            };
            if runs {
                let is_end = |word: &Word| matches!(word.text.as_str(), ";" | "+");
                let end = rest.iter().position(is_end).unwrap_or(rest.len());
                let mut words = rest[..end].to_vec();
                rest = &rest[end..];
                unknown_words(&mut words, Some("{}"));
                if !is_find {
                    words.push(Word { text: "{}".to_owned(), kind: Kind::Output });
                }
                self.inner(run, words, depth);
            }
        }
    }

    fn by_git(&mut self, run: &Run, depth: usize) {
        let arguments = &run.words[1..];
        let position = |name: &str| arguments.iter().position(|word| word.text == name);
        if let (Some(_), Some(at)) = (position("bisect"), position("run")) {
            self.inner(run, arguments[at + 1..].to_vec(), depth);
        }
        if let (Some(_), Some(at)) = (position("submodule"), position("foreach")) {
            let rest = arguments[at + 1..].iter().filter(|word| word.text != "--recursive");
            self.text(&joined(&rest.cloned().collect::<Vec<_>>()), run, depth);
        }
        let (rebases, own) = (position("rebase").is_some(), position_of_command(arguments));
        for (at, word) in arguments.iter().enumerate() {
            if let Some(text) = word.after("--exec=") {
                self.text(&text, run, depth);
            } else if rebases && let Some(text) = executed(word, arguments.get(at + 1)) {
                self.text(&text, run, depth);
            }
            // Configuration may name programs: `core.pager`, `alias.x=!…`.
            let sets = match word.text.as_str() {
                "-c" => !arguments.get(at + 1).is_some_and(is_harmless_setting),
                text => matches!(text, "--config-env" | "--exec-path"),
            };
            if let Some(text) = word.after("ext::") {
                self.started(&text, run, depth);
            }
            if word.text == "-c"
                && at < own
                && let Some(setting) = arguments.get(at + 1)
                && let Some((key, value)) = setting.text.split_once('=')
                && (names_program(key) || value.starts_with('!'))
            {
                let text = value.strip_prefix('!').unwrap_or(value).to_owned();
                self.started(&Word { text, kind: setting.kind }, run, depth);
            }
            if position("difftool").is_some_and(|tool| tool < at)
                && let Some(rest) = word.after("-x")
            {
                let next = || arguments.get(at + 1).cloned();
                let text = if rest.text.is_empty() { next() } else { Some(rest) };
                if let Some(text) = text {
                    self.started(&text, run, depth);
                }
            }
            // `git grep -Oless`
            let letters = word.text.strip_prefix('-').filter(|text| !text.starts_with('-'));
            if position("grep").is_some_and(|grep| grep < at)
                && arguments[at - 1].text != "-e"
                && let Some((before, pager)) = letters.and_then(|text| text.split_once('O'))
                && before.bytes().all(|byte| byte.is_ascii_alphabetic())
                && !before.contains(['e', 'f', 'm', 'A', 'B', 'C'])
            {
                self.started(&Word { text: pager.to_owned(), kind: word.kind }, run, depth);
            }
            if sets && at < own || word.text.starts_with("--exec-path=") {
                self.is_known = false;
            }
        }
    }

    /// What stands behind `--` is told to a shell, or to what is named in its place; behind `==` to itself.
    fn by_capsh(&mut self, run: &Run, depth: usize) {
        self.is_known = false;
        let arguments = &run.words[1..];
        let is_end = |word: &Word| matches!(word.text.as_str(), "--" | "-+" | "==" | "=+");
        let Some(end) = arguments.iter().position(is_end) else { return };
        let (own, rest) = arguments.split_at(end);
        let shell = own.iter().rev().find_map(|word| word.after("--shell="));
        let shell = shell.unwrap_or_else(|| Word::literal("bash"));
        self.inner(run, [&[shell], &rest[1..]].concat(), depth);
        if rest[0].text.starts_with('=') {
            self.inner(run, [&run.words[..1], &rest[1..]].concat(), depth);
        }
    }

    fn shell(&mut self, run: &Run, depth: usize) {
        let mut arguments = run.words[1..].iter();
        let mut reads_text = false;
        while let Some(word) = arguments.next() {
            match word.text.as_str() {
                "--rcfile" | "--init-file" => {
                    self.is_known = false;
                    arguments.next();
                }
                "-o" | "-O" | "+O" | "+o" => {
                    self.is_known &= !arguments.next().is_some_and(sets_keyword);
                }
                "-" | "--" => {}
                text if text.starts_with("--") => {}
                text if text.starts_with(['-', '+']) && word.is_literal() => {
                    reads_text |= text.contains('c');
                    self.is_known &= !sets_keyword(word);
                    // `-euo pipefail`
                    if text.contains(['o', 'O']) {
                        self.is_known &= !arguments.next().is_some_and(sets_keyword);
                    }
                }
                _ if reads_text => return self.text(word, run, depth),
                // What a file holds, or `<(…)` writes, is not known here.
                _ => {
                    self.is_known = false;
                    return;
                }
            }
        }
        match &run.input {
            Input::Text(text) => {
                let run = Run { input: Input::None, ..run.clone() };
                self.text(text, &run, depth);
            }
            Input::Pipe | Input::File(_) => self.is_known = false,
            Input::None => {}
        }
    }

    /// What builtins call: `mapfile -C`, `complete -C`; where it is not told plainly, or expanded, it is not known.
    fn called_back(&mut self, run: &Run, depth: usize) {
        let mut words = run.words[1..].iter();
        while let Some(word) = words.next() {
            match word.text.as_str() {
                "-C" => {
                    if let Some(text) = words.next() {
                        self.text(text, run, depth);
                    }
                }
                text if text.starts_with('-') && text.contains(['C', 'F', 'W']) => {
                    self.is_known = false;
                }
                _ => self.is_known &= !(word.text.is_empty() || word.text.starts_with('$')),
            }
        }
    }

    fn after_c(&mut self, run: &Run, depth: usize) {
        let words = &run.words[1..];
        for (at, word) in words.iter().enumerate() {
            let next = || words.get(at + 1).cloned();
            let part = |text: &str| Word { text: text.to_owned(), kind: word.kind };
            let (name, value) = word.text.split_once('=').unwrap_or((&word.text, ""));
            let text = match name.strip_prefix("--") {
                // `script -q -- program`
                Some("") => return self.inner(run, words[at + 1..].to_vec(), depth),
                Some(long) if long.starts_with("co") && "command".starts_with(long) => {
                    if value.is_empty() { next() } else { Some(part(value)) }
                }
                Some(_) => None,
                // `-qc TEXT`, `-cTEXT`
                None => word.text.strip_prefix('-').and_then(|letters| {
                    let (before, text) = letters.split_once('c')?;
                    let is_cluster = before.bytes().all(|byte| byte.is_ascii_alphabetic());
                    if !is_cluster {
                        None
                    } else if text.is_empty() {
                        next()
                    } else {
                        Some(part(text))
                    }
                }),
            };
            if let Some(text) = text {
                self.text(&text, run, depth);
            }
        }
    }
}

/// Variables that name a program, or a line that a shell runs.
const STARTED: &[&str] = &[
    "BROWSER=",
    "EDITOR=",
    "GIT_ASKPASS=",
    "GIT_EDITOR=",
    "GIT_EXTERNAL_DIFF=",
    "GIT_PAGER=",
    "GIT_PROXY_COMMAND=",
    "GIT_SEQUENCE_EDITOR=",
    "GIT_SSH=",
    "GIT_SSH_COMMAND=",
    "LESSOPEN=",
    "MANPAGER=",
    "PAGER=",
    "RUSTC_WRAPPER=",
    "VISUAL=",
];

/// Options of programs that name what they start: attached, or in the next word.
const STARTED_BY: &[(&[&str], &[&str])] = &[
    (
        &["git"],
        &[
            "--open-files-in-pager",
            "--extcmd",
            "--upload-pack",
            "--receive-pack",
            "--setup",
            "--env-filter",
            "--tree-filter",
            "--index-filter",
            "--parent-filter",
            "--msg-filter",
            "--commit-filter",
            "--tag-name-filter",
            "--sendmail-cmd",
            "--to-cmd",
            "--cc-cmd",
            "--header-cmd",
        ],
    ),
    (
        &["tar", "bsdtar"],
        &["-I", "--use-compress-program", "--to-command", "--info-script", "--new-volume-script"],
    ),
    (&["tar"], &["--checkpoint-action=exec", "--rsh-command", "--rmt-command"]),
    (&["rsync"], &["--rsh", "-e"]),
    (&["sort"], &["--compress-program"]),
    (&["split"], &["--filter"]),
    (&["rg"], &["--pre", "--hostname-bin"]),
    (&["ag", "ack", "bat", "delta"], &["--pager"]),
    (&["man"], &["-P", "--pager"]),
    (&["zip"], &["-TT", "--unzip-command"]),
    (&["install"], &["--strip-program"]),
    (&["npm", "npx", "pnpm"], &["--script-shell", "--shell"]),
    (&["sdiff", "diff3"], &["--diff-program"]),
    (&["gcc", "g++", "cc", "c++", "clang", "clang++"], &["-wrapper"]),
    (&["wget"], &["--use-askpass"]),
];

/// Settings of git that name what it starts.
fn names_program(key: &str) -> bool {
    const LAST: &[&str] = &[
        "askpass",
        "clean",
        "cmd",
        "command",
        "difffilter",
        "driver",
        "editor",
        "external",
        "fsmonitor",
        "gitproxy",
        "packobjectshook",
        "pager",
        "process",
        "program",
        "smudge",
        "sshcommand",
        "textconv",
    ];
    let key = key.to_ascii_lowercase();
    let last = key.rsplit('.').next().unwrap_or(&key);
    key.starts_with("pager.") || LAST.contains(&last)
}

/// What a shell puts in when it traces or starts: the commands in `PS4='$(…)'`.
fn expanded_later(word: &Word) -> Option<Word> {
    let text = ["PS4=", "BASH_ENV=", "ENV="].iter().find_map(|name| word.after(name))?;
    let mut commands = Vec::new();
    filled(&text.text, |hole| {
        commands.extend(
            ["$(", "`", "${"].iter().any(|open| hole.starts_with(open)).then(|| hole.to_owned()),
        );
        String::new()
    });
    commands.retain(|hole| hole.contains("$(") || hole.contains('`'));
    let is_one = !commands.is_empty() && text.is_literal();
    is_one.then(|| Word::literal(format!(": \"{}\"", commands.join("\" \""))))
}

/// `-k` or `keyword`, for a shell, `set` or `shopt`.
fn sets_keyword(word: &Word) -> bool {
    let letters = word.text.strip_prefix('-').filter(|letters| !letters.starts_with('-'));
    word.text == "keyword" || letters.is_some_and(|letters| letters.contains('k'))
}

/// The text that `git rebase` is told to run by this word: `-x TEXT`, `-xTEXT`, `-qxTEXT`, `--exec TEXT`.
fn executed(word: &Word, next: Option<&Word>) -> Option<Word> {
    let part = |text: &str| Word { text: text.to_owned(), kind: word.kind };
    if let Some(long) = word.text.strip_prefix("--") {
        let (name, value) = long.split_once('=').map_or((long, None), |(a, b)| (a, Some(b)));
        // Git takes a beginning that can be no other option.
        let is_it = name.starts_with("ex") && "exec".starts_with(name);
        return if is_it { value.map(part).or_else(|| next.cloned()) } else { None };
    }
    let letters = word.text.strip_prefix('-')?;
    // Those before it have no value, in the rest of the word or not.
    let at = letters.find(['x', 's', 'S', 'X', 'C'])?;
    match letters[at..].strip_prefix('x')? {
        "" => next.cloned(),
        text => Some(part(text)),
    }
}

/// `-Hx`: short options, the last of which is one of these.
fn is_cluster_of(text: &str, last: [char; 2]) -> bool {
    text.strip_prefix('-').is_some_and(|letters| {
        letters.ends_with(last) && letters.bytes().all(|byte| byte.is_ascii_alphabetic())
    })
}

/// What `echo` and `printf` write into a pipe, where that stands in the line.
fn said(simple: &Simple) -> Option<Word> {
    let (program, arguments) = simple.words.split_first()?;
    let text = joined(arguments);
    let text = text.known().filter(|_| simple.writes_pipe && simple.redirects.is_empty())?;
    let is_as_written = match program.known()? {
        "echo" => !text.starts_with('-'),
        "printf" => arguments.len() == 1 && !text.contains(['%', '\\']),
        _ => false,
    };
    is_as_written.then(|| Word::literal(text))
}

/// `bin/fmt`, `./test`, but not `/usr/bin/curl` or `../bin/curl`. What a package manager put there has the
/// name that it is known by.
fn is_below(path: &str) -> bool {
    !path.starts_with(['/', '~', '$'])
        && !path.split('/').any(|part| matches!(part, ".." | "node_modules" | ".venv" | "venv"))
}

fn run_of(simple: &Simple, of: usize) -> Run {
    let is_input = |redirect: &&Redirect| {
        matches!(redirect.how, How::Read | How::Text) && redirect.descriptor.unwrap_or(0) == 0
    };
    // The last one counts; those of the command itself come after those around it.
    let input = match simple.redirects.iter().rfind(is_input) {
        Some(Redirect { how: How::Text, target, .. }) => Input::Text(target.clone()),
        Some(Redirect { target, .. }) => Input::File(target.clone()),
        None if simple.reads_pipe => Input::Pipe,
        None => Input::None,
    };
    Run {
        words: simple.words.clone(),
        path: None,
        input,
        writes_pipe: simple.writes_pipe,
        redirects: simple.redirects.clone(),
        directories: simple.directories.clone(),
        nesting: simple.nesting,
        is_guess: false,
        sets: simple.assignments.iter().map(settings::sets).max().unwrap_or(Sets::Nothing),
        of,
        by: By::Line,
    }
}

/// What `NAME=value` binds, also behind `export`.
fn binding(word: &Word) -> Option<Binding> {
    let (name, value) = word.text.split_once('=').filter(|_| is_assignment(&word.text))?;
    let name = name.strip_suffix('+').unwrap_or(name).to_owned();
    let value = Word { text: value.to_owned(), kind: word.kind };
    // `a=(x y)`
    let items = value.text.strip_prefix('(').and_then(|text| text.strip_suffix(')'));
    let words = match items {
        Some(items) if !items.contains('$') => items.split_ascii_whitespace().map(item).collect(),
        // What an array is made of is taken apart, another value is not: `a=$x`.
        None if value.kind == Kind::Variable => vec![Word { kind: Kind::Quoted, ..value }],
        Some(_) | None => vec![value],
    };
    Some(Binding { name, words })
}

/// An item of an array, as it is written there.
fn item(text: &str) -> Word {
    let kind = if text.contains(['*', '?', '[']) { Kind::Pattern } else { Kind::Literal };
    Word { text: text.trim_matches(['"', '\'']).to_owned(), kind }
}

/// Words as one text, as `eval` and `watch` put them together.
fn joined(words: &[Word]) -> Word {
    let kind = words.iter().map(|word| word.kind).max().unwrap_or(Kind::Literal);
    let texts: Vec<&str> = words.iter().map(|word| word.text.as_str()).collect();
    Word { text: texts.join(" "), kind }
}

/// What `xargs -I` replaces; without it, it adds words at the end.
fn replaced(arguments: &[Word], n: usize) -> Option<&str> {
    let own = arguments.get(..n)?;
    let at = own.iter().position(|word| word.text.starts_with("-I") || word.text == "-i")?;
    match own[at].text.as_str() {
        "-I" => own.get(at + 1).map(|word| word.text.as_str()),
        "-i" => Some("{}"),
        text => text.strip_prefix("-I"),
    }
}

/// Marks the words that are put in when it runs.
fn unknown_words(words: &mut Vec<Word>, replaced: Option<&str>) {
    match replaced {
        Some(replaced) => {
            for word in words.iter_mut().filter(|word| word.text.contains(replaced)) {
                word.kind = Kind::Output;
            }
        }
        None => words.push(Word { text: "{}".to_owned(), kind: Kind::Output }),
    }
}

/// Where git's own options end.
fn position_of_command(arguments: &[Word]) -> usize {
    let mut at = 0;
    while let Some(word) = arguments.get(at) {
        match word.text.as_str() {
            "-c" | "-C" | "--git-dir" | "--work-tree" | "--config-env" | "--namespace"
            | "--attr-source" => at += 2,
            text if text.starts_with('-') => at += 1,
            _ => break,
        }
    }
    at
}

/// `NAME=value` or `NAME+=value`.
pub(in super::super) fn is_assignment(word: &str) -> bool {
    let Some((name, _)) = word.split_once('=') else { return false };
    let name = name.strip_suffix('+').unwrap_or(name);
    !name.is_empty()
        && !name.starts_with(|char: char| char.is_ascii_digit())
        && name.chars().all(|char| char.is_ascii_alphanumeric() || char == '_')
}
