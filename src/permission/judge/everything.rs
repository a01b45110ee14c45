//! What would take away the whole project, home or system, or run what nobody has seen.

use super::Place;
use super::args::Args;
use crate::permission::shell::{
    How, Input, Kind, Redirect, Run, SHELLS, Script, Simple, Word, join, path_of,
};

/// What fetches a text from elsewhere.
const FETCHERS: &[&str] =
    &["curl", "wget", "aria2c", "http", "https", "xh", "fetch", "nc", "ncat", "lynx"];
/// What runs a text that it is given, besides shells.
pub(super) const INTERPRETERS: &[&str] =
    &["python", "python2", "python3", "perl", "ruby", "node", "php", "lua", "deno", "bun"];

/// A fork bomb as everybody writes it, without its blanks.
const FORK_BOMB: &str = ":(){:|:&};:";

pub(super) fn removes(args: &Args<'_>) -> bool {
    let is_recursive = ["-r", "-R", "--recursive"].iter().any(|option| args.may_have(option));
    is_recursive && args.operands().any(|word| covers(args, word, &[Place::Project, Place::Above]))
}

/// `find / -delete`: everything below, without a choice among it.
pub(super) fn finds(args: &Args<'_>) -> bool {
    let is_place = |word: &&Word| !word.text.starts_with(['-', '(', '!']);
    let places: Vec<&Word> = args.words().take_while(is_place).collect();
    let chooses = args.words().any(|word| {
        matches!(
            word.text.as_str(),
            "-name"
                | "-iname"
                | "-path"
                | "-ipath"
                | "-regex"
                | "-iregex"
                | "-wholename"
                | "-newer"
                | "-mtime"
                | "-mmin"
                | "-size"
                | "-empty"
                | "-user"
                | "-perm"
                | "-atime"
                | "-ctime"
        )
    });
    let deletes = args.words().any(|word| word.text == "-delete")
        || args.words().zip(args.words().skip(1)).any(|(exec, program)| {
            exec.text.starts_with("-exec")
                && matches!(program.text.as_str(), "rm" | "/bin/rm" | "unlink" | "shred")
        });
    let here = Word::literal(".");
    let is_all = |word: &Word| covers(args, word, &[Place::Project, Place::Above]);
    deletes
        && !chooses
        && if places.is_empty() { is_all(&here) } else { places.into_iter().any(is_all) }
}

pub(super) fn changes(args: &Args<'_>) -> bool {
    let is_recursive = args.may_have("-R") || args.may_have("--recursive");
    is_recursive && args.operands().any(|word| covers(args, word, &[Place::Above]))
}

pub(super) fn moves(args: &Args<'_>) -> bool {
    let operands: Vec<&Word> = args.operands().collect();
    let sources = operands.split_last().map_or(&[] as &[_], |(_, sources)| sources);
    // Of the project's files only the folder itself: `mv * old/` is asked about.
    sources.iter().any(|word| {
        covers(args, word, &[Place::Above])
            || word.kind != Kind::Pattern && covers(args, word, &[Place::Project])
    })
}

/// The word names one of these, or all that is in it.
fn covers(args: &Args<'_>, word: &Word, places: &[Place]) -> bool {
    let text = word.text.replace("$(pwd)", "$PWD").replace("`pwd`", "$PWD");
    if text.starts_with("$(git rev-parse --show-toplevel)") {
        return places.contains(&Place::Project) && !text.contains("toplevel)/");
    }
    let is_wild = |part: &str| {
        part.contains(['*', '?']) && part.chars().all(|char| "*.?[]!^{},".contains(char))
    };
    let base =
        match text.trim_end_matches('/').rsplit_once('/') {
            Some((base, last)) if word.kind != Kind::Literal && is_wild(last) => {
                if base.is_empty() { "/" } else { base }
            }
            None if word.kind != Kind::Literal && is_wild(&text) => ".",
            _ => text.as_str(),
        };
    let kind = match word.kind {
        Kind::Literal | Kind::Home => word.kind,
        Kind::Pattern | Kind::Variable | Kind::Output if base.starts_with('$') => Kind::Variable,
        Kind::Pattern if base.contains(['*', '?', '[']) => return false,
        Kind::Pattern if base.starts_with('~') => Kind::Home,
        Kind::Pattern => Kind::Literal,
        Kind::Variable | Kind::Output => return false,
    };
    let word = Word { text: base.to_owned(), kind };
    let paths = args.run.directories.iter().filter_map(|folder| {
        let base = folder.as_ref().map(|folder| join(args.directory, folder));
        path_of(&base, &word)
    });
    paths.into_iter().any(|path| places.contains(&place_of(args, &path)))
}

fn place_of(args: &Args<'_>, path: &str) -> Place {
    let is_up = path.split('/').all(|part| part == "..") && !path.is_empty();
    // Whatever is there: `/`, `/usr`.
    let is_system = path.strip_prefix('/').is_some_and(|rest| !rest.contains('/') && rest != "tmp");
    if is_up || is_system || matches!(path, "~" | "~/..") {
        return Place::Above;
    }
    if path.is_empty() {
        return Place::Project;
    }
    args.ground.look(path)
}

pub(super) fn is_device(path: &str) -> bool {
    let harmless = [
        "null", "zero", "full", "stdout", "stderr", "tty", "fd/", "shm/", "tcp/", "udp/", "random",
        "urandom",
    ];
    path.strip_prefix("/dev/").is_some_and(|name| {
        !name.is_empty() && !harmless.iter().any(|harmless| name.starts_with(harmless))
    })
}

/// Starts processes without end.
pub(super) fn is_fork_bomb(text: &str, script: &Script) -> bool {
    let calls_itself_twice = |name: &String| {
        let is_call =
            |simple: &&Simple| simple.words.first().is_some_and(|word| word.text == *name);
        let calls: Vec<_> = script.commands.iter().filter(is_call).collect();
        calls.iter().any(|call| call.writes_pipe) && calls.iter().any(|call| call.reads_pipe)
    };
    script.functions.iter().any(calls_itself_twice)
        || text.contains(":|:")
            && text.split_ascii_whitespace().collect::<String>().contains(FORK_BOMB)
        || text.contains(": |")
            && text.split_ascii_whitespace().collect::<String>().contains(FORK_BOMB)
}

/// What is fetched is run unseen.
pub(super) fn runs_what_it_fetches(script: &Script, runs: &[Run]) -> bool {
    let names_fetcher = |text: &str| {
        text.split(|char: char| !char.is_ascii_alphanumeric() && char != '-')
            .any(|part| FETCHERS[..2].contains(&part))
    };
    let is_fetched = |word: &Word| word.kind == Kind::Output && names_fetcher(&word.text);
    let set = script.commands.iter().flat_map(|command| &command.assignments);
    let names = set.filter(|word| is_fetched(word)).filter_map(|word| word.text.split_once('='));
    let names: Vec<String> =
        names.flat_map(|(name, _)| [format!("${name}"), format!("${{{name}")]).collect();
    // What flows through the pipes of each substitution, and of the line itself.
    let mut fetched = vec![false];
    for run in runs {
        let outer = fetched.last().copied().unwrap_or_default();
        fetched.resize(run.nesting + 1, outer);
        let was_fetched = &mut fetched[run.nesting];
        let name = run.name();
        let is_shell = SHELLS.contains(&name);
        let is_reader = is_shell || INTERPRETERS.contains(&name);
        let runs_words = is_reader || matches!(name, "eval" | "source" | ".");
        let is_given =
            |to: &Redirect| matches!(to.how, How::Read | How::Text) && is_fetched(&to.target);
        if runs_words && run.words.iter().skip(1).any(is_fetched)
            || is_reader && run.redirects.iter().any(is_given)
        {
            return true;
        }
        // `x=$(curl …); eval "$x"`
        let holds = |word: &Word| names.iter().any(|name| word.text.contains(name.as_str()));
        if runs_words && run.words.iter().skip(1).any(holds) {
            return true;
        }
        *was_fetched &= run.input == Input::Pipe;
        let mut operands =
            run.words.iter().skip(1).filter(|word| !word.text.starts_with('-') || word.text == "-");
        let is_text = run
            .words
            .iter()
            .skip(1)
            .any(|word| matches!(word.text.as_str(), "-c" | "-e" | "-m" | "-n"));
        let has_own = !is_shell
            && operands
                .next()
                .is_some_and(|word| !matches!(word.text.as_str(), "-" | "/dev/stdin"));
        if *was_fetched && is_reader && !is_text && !has_own {
            return true;
        }
        *was_fetched |= FETCHERS.contains(&name);
    }
    false
}
