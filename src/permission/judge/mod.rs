//! What a command line is, by what is known of its programs. It explains and guides; what holds is the
//! sandbox.

mod args;
mod everything;
mod extended;
mod folders;
mod handed;
mod instead;
mod pathspec;
mod shows;
mod spared;
mod survey;
mod table;
mod touched;
mod values;

use std::collections::{BTreeSet, HashMap};
use std::sync::LazyLock;

use args::{Args, Part};
pub(super) use shows::{IsIt, Suspicion, fragments, shows};
pub(super) use spared::Own;
use spared::is_spared;
pub(super) use survey::Survey;
pub(super) use table::Class;
use table::{Entry, READ_INPUT, TABLE};
pub(super) use table::{GLOBAL_FLAGS, GLOBAL_VALUES};
pub(super) use touched::{changes, changes_what_a_patch_names, removes};

use super::line::Line;
use super::rule::Skip;
use super::shell::{Back, By, How, Input, Redirect, Run, Sets, Word};
use crate::protocol::tool::Effect;

/// What stands at a path. Whoever asks for a ruling tells it: this room looks at no file.
pub trait Ground {
    /// `path` is relative to the project's root, or begins with `/` or `~`; it was put together by its
    /// names alone.
    fn look(&self, path: &str) -> Place;

    /// The path behind the links in this one, as tools name it; the same where that is not known.
    fn real(&self, path: &str) -> String {
        path.to_owned()
    }

    /// What a shell makes of a pattern, as far as that can be found out at once.
    fn expand(&self, _pattern: &str) -> Vec<String> {
        Vec::new()
    }

    /// The places in the project that no tool touches, as tools name them: stores of the user's, and the agent's own.
    fn closed(&self) -> Vec<String> {
        Vec::new()
    }

    /// Whether the file tools would change what stands there: not what is git's or the agent's.
    fn is_changeable(&self, _path: &str) -> bool {
        true
    }

    /// A file like this below a folder.
    fn find(
        &self,
        _folder: &str,
        _reach: Reach,
        _is_it: &(dyn Fn(&str) -> bool + Sync),
    ) -> Option<String> {
        None
    }
}

/// What of a folder is looked through.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reach {
    /// What is neither hidden nor ignored.
    Shown,
    /// That too, but not what package managers put there.
    Own,
    /// Everything.
    All,
}

impl Reach {
    /// No further than what is shown.
    fn shown(self) -> Self {
        match self {
            Self::Shown | Self::Own | Self::All => Self::Shown,
        }
    }
}

/// What stands at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Nothing, at a place where the project's files may be.
    Nothing,
    /// A file of the project.
    File,
    /// A folder of the project.
    Folder,
    /// The project's own folder.
    Project,
    /// The home, the root of all, or a folder that holds the project.
    Above,
    /// Anything else.
    Elsewhere,
}

/// What was found in a line.
#[derive(Clone, Debug, Default)]
pub(super) struct Findings {
    /// Why it is never run.
    pub(super) never: Option<&'static str>,
    /// A better way, where the line should not run as it is.
    pub(super) instead: Option<Instead>,
    /// What needs a person: the place of the simple command, and why.
    pub(super) asks: Vec<(usize, Class, String)>,
}

/// A better way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Instead {
    pub(super) is_tool: bool,
    pub(super) text: String,
    pub(super) hint: Option<String>,
}

/// The lines of the table about each program.
static BY_NAME: LazyLock<HashMap<&str, Vec<&Entry>>> = LazyLock::new(|| {
    let mut by_name: HashMap<&str, Vec<&Entry>> = HashMap::new();
    for entry in TABLE {
        for program in entry.programs {
            by_name.entry(*program).or_default().push(entry);
        }
    }
    by_name
});

fn entries_of(name: &str) -> impl Iterator<Item = &'static Entry> {
    // `mkfs.ext4`
    let name = if name.starts_with("mkfs.") { "mkfs" } else { name };
    BY_NAME.get(name).into_iter().flatten().copied()
}

/// The classes that a command belongs to, and why.
fn classes(args: &Args<'_>) -> Vec<&'static Entry> {
    let Some(name) = args.run.words.first().filter(|word| word.is_literal()) else {
        return Vec::new();
    };
    let asks_version = args.only_asks_version();
    let is_grave = |entry: &Entry| matches!(entry.class, Class::Never | Class::Destructive);
    let fits = |entry: &&Entry| match entry.class {
        Class::Interactive | Class::Endless | Class::Network | Class::Destructive
            if asks_version =>
        {
            false
        }
        Class::Endless if args.run.by == By::Timeout => false,
        // A person gave the editor.
        Class::Interactive if name.text == "git" => {
            let has_editor = args.run.sets != Sets::Nothing
                || args.words().any(|word| word.text.contains("editor="));
            !has_editor && args.fit(&entry.when, is_grave(entry))
        }
        Class::Reads => {
            !(name.text == "git" && args.has_globals_but_folder() && !asks_version)
                && (matches!(entry.when, table::When::Always) || args.has_known_words())
                && args.fit(&entry.when, is_grave(entry))
        }
        Class::Interactive
        | Class::Endless
        | Class::Network
        | Class::Destructive
        | Class::Never
        | Class::Git => args.fit(&entry.when, is_grave(entry)) && !is_spared(entry.class, args),
    };
    let mut entries: Vec<&Entry> = entries_of(&name.text).filter(fits).collect();
    if args.run.path.is_some() {
        let is_own = args.is_own();
        entries.retain(|entry| is_grave(entry) || !is_own && entry.class != Class::Reads);
    }
    // `git branch` changes the repository, `git branch -a` does not.
    if entries.iter().any(|entry| entry.class == Class::Reads) {
        entries.retain(|entry| entry.class != Class::Git);
    }
    entries
}

/// The line of an effect that runs one, and what is found in it.
pub(super) fn findings(effect: &Effect, ground: &dyn Ground, own: Own) -> Option<(Line, Findings)> {
    match effect {
        Effect::Command { command, directory, background, .. } => {
            let line = Line::read(command);
            let findings = judge(&line, directory, *background, ground, own);
            Some((line, findings))
        }
        Effect::Read { .. } | Effect::Write { .. } | Effect::Job { .. } | Effect::Plan => None,
    }
}

/// Looks at every command of a line that runs in this folder.
fn judge(
    line: &Line,
    directory: &str,
    background: bool,
    ground: &dyn Ground,
    own: Own,
) -> Findings {
    let own = own.of(line);
    let directory = if directory == "." { "" } else { directory };
    let mut found = Findings::default();
    if everything::is_fork_bomb(line.text(), line.script()) {
        found.never = Some("it would start processes without end");
    } else if everything::runs_what_it_fetches(line) {
        found.never = Some("it would run what it fetches unseen; save it to a file and look at it");
    } else if everything::removes_what_is_listed(line, directory, ground) {
        found.never = Some(table::EVERYTHING);
    }
    for run in line.runs() {
        if found.never.is_some() {
            break;
        }
        look_at(run, directory, background, ground, own, &mut found);
    }
    // What is too long is not run at all.
    if !line.is_understood() && !line.is_too_long() && found.never.is_none() {
        guess(line.text(), directory, ground, &mut found);
    }
    if found.never.is_none() && found.instead.is_none() {
        found.instead = instead::better_tool(line, directory, ground);
    }
    found
}

/// What the grammar does not accept may still run: what its words look like needs a person.
fn guess(text: &str, directory: &str, ground: &dyn Ground, found: &mut Findings) {
    let plain = text.chars().map(|char| match char {
        '(' | ')' | '{' | '}' | '`' | '<' | '>' | '|' | '&' => ';',
        ',' | '\\' | '\'' | '"' | '$' | '#' => ' ',
        _ => char,
    });
    let plain: String = plain.collect();
    // Each may be where a command begins.
    let mut commands: Vec<Vec<&str>> = Vec::new();
    for part in plain.split(';') {
        commands.push(Vec::new());
        for word in part.split_ascii_whitespace() {
            if matches!(
                word,
                "rm" | "mv" | "git" | "curl" | "wget" | "dd" | "sudo" | "find" | "chmod"
            ) {
                commands.push(Vec::new());
            }
            if let Some(command) = commands.last_mut() {
                command.push(word);
            }
        }
    }
    commands.retain(|command| !command.is_empty());
    let commands: Vec<String> = commands.iter().map(|command| command.join(" ")).collect();
    let line = Line::part(&commands.join(";"));
    let mut guessed = Findings::default();
    for run in line.runs() {
        look_at(run, directory, false, ground, Own::default(), &mut guessed);
    }
    if guessed.never.is_some() {
        let why = "a part that is not understood looks like it deletes everything".to_owned();
        found.asks.push((0, Class::Destructive, why));
    }
    found.asks.extend(guessed.asks.into_iter().map(|(_, class, why)| (0, class, why)));
}

fn look_at(
    run: &Run,
    directory: &str,
    background: bool,
    ground: &dyn Ground,
    own: Own,
    found: &mut Findings,
) {
    let args = Args { run, directory, ground, values: None };
    for to in run.redirects.iter().filter(|to| matches!(to.how, How::Read | How::Write)) {
        let target = to.target.text.as_str();
        if to.how == How::Write && everything::is_device(target) {
            found.never = Some("it would overwrite a device");
        } else if own.is_left_by(to) {
            found.asks.push((run.of, Class::Network, "it talks to other machines".to_owned()));
        }
    }
    let Some(program) = run.words.first() else { return };
    for entry in classes(&args) {
        match entry.class {
            Class::Never => found.never = found.never.or(Some(entry.why)),
            // Who starts it in the background wants it to go on.
            Class::Endless if background => {}
            // What may be the argument of another command is not what keeps it from running.
            Class::Interactive | Class::Endless if run.is_guess => {}
            class if own.suffices(class, &args) => {}
            Class::Interactive | Class::Endless if found.instead.is_none() => {
                found.instead = Some(Instead {
                    is_tool: false,
                    text: format!("`{}` can not run here: {}", program.text, entry.why),
                    hint: None,
                });
            }
            Class::Destructive | Class::Network => {
                found.asks.push((
                    run.of,
                    entry.class,
                    format!("`{}`: {}", program.text, entry.why),
                ));
            }
            Class::Interactive | Class::Endless | Class::Reads | Class::Git => {}
        }
    }
}

/// The line is certain to change nothing and to run nothing else.
pub(super) fn is_read_only(line: &Line) -> bool {
    line.is_known()
        && !line.runs().is_empty()
        && line.script().functions.is_empty()
        // An index of an array is evaluated, also one in quotes: `test -v 'a[$(x)]'`.
        && !line.text().contains("[$(")
        && !line.text().contains("[`")
        && line.runs().iter().all(|run| {
            let args = Args::alone(run);
            let classes = classes(&args);
            run.sets != Sets::Anything
                && run.redirects.iter().all(|to| to.writes().is_none())
                && classes.iter().any(|entry| entry.class == Class::Reads)
                && classes
                    .iter()
                    .all(|entry| {
                        matches!(entry.class, Class::Reads | Class::Interactive | Class::Endless)
                    })
        })
}

/// A program of this name may be of this class.
pub(super) fn can_be(name: &str, class: Class) -> bool {
    entries_of(name).any(|entry| entry.class == class)
}

/// What this simple command of a line runs talks to other machines.
pub(super) fn talks(line: &Line, n: usize) -> bool {
    let runs = line.runs().iter().filter(|run| run.of == n);
    runs.map(Args::alone).any(|args| {
        let is_device = |to: &Redirect| Own::default().is_left_by(to);
        classes(&args).iter().any(|entry| entry.class == Class::Network)
            || args.run.redirects.iter().any(is_device)
    })
}

/// Of this program another word behind this one says what it is told to do: `git remote show`.
pub(super) fn has_more_behind(name: &str, word: &str) -> bool {
    let subs = entries_of(name).flat_map(|entry| match entry.when {
        table::When::Sub(subs)
        | table::When::SubHas(subs, _)
        | table::When::SubHasNot(subs, _)
        | table::When::SubMayNot(subs, _) => subs,
        table::When::Always | table::When::Has(_) | table::When::HasNot(_) | table::When::Is(_) => {
            &[]
        }
    });
    let mut behind = subs.filter_map(|sub| sub.split_once(' ')).filter(|(own, _)| *own == word);
    behind.any(|(_, next)| !next.starts_with('-'))
}

/// A command of this class is among those that may run.
pub(super) fn has(line: &Line, class: Class) -> bool {
    has_beyond(line, class, "", &Nowhere, Own::default())
}

/// The same where the line runs in this folder, and what is the sandbox's own does not suffice for it.
pub(super) fn has_beyond(
    line: &Line,
    class: Class,
    directory: &str,
    ground: &dyn Ground,
    own: Own,
) -> bool {
    let own = own.of(line);
    let directory = if directory == "." { "" } else { directory };
    line.runs().iter().any(|run| {
        let args = Args { run, directory, ground, values: None };
        let mut of_it = classes(&args).into_iter().filter(|entry| entry.class == class);
        let read = || run.redirects.iter().filter(|to| matches!(to.how, How::Read | How::Write));
        of_it.any(|_| !own.suffices(class, &args))
            || class == Class::Network && read().any(|to| own.is_left_by(to))
    })
}

/// Options with which git runs what it is told, or puts files of others into the repository.
const UNSAFE: &[&str] = &[
    "--exec",
    "--upload-pack",
    "--receive-pack",
    "--template",
    "--separate-git-dir",
    "--ext-diff",
    "--textconv",
    "--gpg-sign",
];

/// Where git works, if the line is nothing but git commands that are known to write the repository, and what only reads
/// beside them, and runs in this folder.
pub(super) fn git_works_in(line: &Line, directory: &str, ground: &dyn Ground) -> GitFolders {
    let is_known = line.is_known() && line.script().functions.is_empty() && has(line, Class::Git);
    // In `.git` itself a name needs no `.git` before it.
    if !is_known || directory.split('/').any(|name| name.eq_ignore_ascii_case(".git")) {
        return GitFolders::default();
    }
    let directory = if directory == "." { "" } else { directory };
    let pushes = pushes_to(line).is_some();
    let mut all = GitFolders::default();
    for run in line.runs() {
        let args = Args { run, directory, ground, values: None };
        let classes = classes(&args);
        let is = |class: Class| classes.iter().any(|entry| entry.class == class);
        let writes = is(Class::Git);
        // Everything but the program may be put in: `git commit -m "$(cat msg)"`.
        let is_harmless = run.sets != Sets::Anything
            && run.redirects.iter().all(|to| to.writes().is_none())
            && (is(Class::Reads)
                || writes
                    && !args.has_globals_but_folder()
                    && !args.names_git_folder()
                    && !UNSAFE.iter().any(|option| args.may_have(option))
                    && !args.merges_by_a_program()
                    && (!pushes || !args.names_somewhere()));
        let folders = match run.name() {
            _ if !is_harmless => None,
            "git" => args.works_in(),
            _ => Some(Vec::new()),
        };
        let Some(folders) = folders else { return GitFolders::default() };
        let Some(back) = &run.directories.back else { return GitFolders::default() };
        all.back.extend(back.iter().cloned().map(|Back { from, to }| (from, to)));
        if writes { all.writes.extend(folders) } else { all.reads.extend(folders) }
    }
    all
}

/// Where it sends to, if a command of it does, and what it says of remotes (`git remote add x ./other && git push x`).
pub(super) fn pushes_to(line: &Line) -> Option<(Vec<String>, Vec<String>)> {
    let gits = line.runs().iter().filter(|run| run.name() == "git").map(Args::alone);
    let gits: Vec<Args<'_>> = gits.collect();
    let pushes = gits.iter().filter(|args| args.sub_is("push"));
    let to = pushes.clone().filter_map(Args::pushed_to).map(|word| word.text.clone());
    let remotes = gits.iter().filter(|args| args.sub_is("remote")).flat_map(Args::operands);
    let remotes = remotes.map(|word| word.text.clone());
    pushes.clone().next().map(|_| (to.collect(), remotes.collect()))
}

/// A command of the line that reads standard input, and is given none.
pub(super) fn reads_input(line: &Line) -> Option<String> {
    let script = line.script();
    // What is given in another way is not followed.
    if !line.is_known() || !script.functions.is_empty() || line.text().contains("exec ") {
        return None;
    }
    let mut own = line.runs().iter().filter(|run| run.nesting == 0 && run.input == Input::None);
    own.find_map(|run| {
        let args = Args::alone(run);
        let name = run.words.first()?.known()?;
        let (_, most) = READ_INPUT.iter().find(|(names, _)| names.contains(&name))?;
        let elsewhere = run
            .redirects
            .iter()
            .any(|to| to.how == How::Copy && to.descriptor.is_none_or(|n| n == 0));
        let gives_program = *most == 1 && ["-e", "-f"].iter().any(|option| args.may_have(option));
        let needs_none = ["-n", "-r", "-R", "-u"].iter().any(|option| args.may_have(option))
            && *most == 1
            || name == "read" && args.may_have("-u")
            || args.words().any(|word| word.text.starts_with("BEGIN"))
            || args.only_asks_version();
        let n_operands = args.operands().filter(|word| word.text != "-").count();
        let reads = n_operands <= if gives_program { 0 } else { *most };
        (reads && !needs_none && !elsewhere).then(|| name.to_owned())
    })
}

/// Tools that would do a part of the line.
pub(super) fn notes(line: &Line, directory: &str, ground: &dyn Ground) -> Option<String> {
    let directory = if directory == "." { "" } else { directory };
    instead::note(line, directory, ground)
}

/// Programs each of whose words is something to do: `make clean deploy`.
const DO_EACH: &[&str] =
    &["make", "gmake", "bmake", "ninja", "rake", "mvn", "mvnw", "gradle", "gradlew"];

/// What each word of a command may be besides one that says what it is told to do. Of an option that is not known nobody
/// knows whether the next word is its value.
pub(super) fn skips(run: &Run) -> Vec<Skip> {
    let name = run.name();
    let is_in = |table: &[(&str, &[&str])], option: &str| {
        let is_own = |own: &str| own.split(' ').next() == Some(name);
        table.iter().any(|(own, options)| is_own(own) && options.contains(&option))
    };
    let skip = |(n, word): (usize, &Word)| match word.text.as_str() {
        _ if n == 0 => Skip::No,
        text if !text.starts_with('-') => {
            // `cargo +nightly`
            let is_beside = text.starts_with('+') || DO_EACH.contains(&name);
            if is_beside { Skip::Itself } else { Skip::No }
        }
        "-" | "--" => Skip::Itself,
        option if is_in(GLOBAL_VALUES, option) => Skip::WithNext,
        option if is_in(GLOBAL_FLAGS, option) => Skip::Itself,
        option if option.starts_with("--") && option.contains('=') => Skip::Itself,
        _ => Skip::Either,
    };
    run.words.iter().enumerate().map(skip).collect()
}

/// The place of the first word that is neither an option nor the value of one.
pub(super) fn first_operand(run: &Run) -> Option<usize> {
    let args = Args::alone(run);
    args.parts().position(|(_, part)| part == Part::Operand).map(|n| n + 1)
}

/// Where git works in a line: folders from the project's root, from the home (`~/x`) or full.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct GitFolders {
    /// It writes the repository there.
    pub writes: BTreeSet<String>,
    /// It only reads it, which runs programs, too.
    pub reads: BTreeSet<String>,
    /// By way of these it may be led elsewhere: where the second is not there, and the first, of which that is known, is
    /// reached by a link.
    pub back: BTreeSet<(Option<String>, String)>,
}

/// A ground of which nothing is known.
pub(super) struct Nowhere;

impl Ground for Nowhere {
    fn look(&self, _: &str) -> Place {
        Place::Elsewhere
    }
}
