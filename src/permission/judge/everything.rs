//! What would take away the whole project, home or system, or run what nobody has seen.

use super::args::Args;
use super::values::names_variable;
use super::{Ground, Place};
use crate::permission::line::Line;
use crate::permission::shell::{
    How, Input, Kind, Redirect, Run, SHELLS, Script, Simple, Word, alternatives, path_of,
};

/// What fetches a text from elsewhere.
const FETCHERS: &[&str] =
    &["curl", "wget", "aria2c", "http", "https", "xh", "fetch", "nc", "ncat", "lynx"];
/// What runs a text that it is given, besides shells.
pub(super) const INTERPRETERS: &[&str] =
    &["python", "python2", "python3", "perl", "ruby", "node", "php", "lua", "deno", "bun", "tclsh"];

/// A fork bomb as everybody writes it, without its blanks.
const FORK_BOMB: &str = ":(){:|:&};:";

const ALL: &[Place] = &[Place::Project, Place::Above];

pub(super) fn removes(args: &Args<'_>) -> bool {
    is_recursive(args) && args.operands().any(|word| covers(args, word, ALL))
}

/// `git rm -r .`; what stays on the disk is not taken away.
pub(super) fn removes_by_git(args: &Args<'_>) -> bool {
    // Git has patterns of its own.
    let is_all = |word: &Word| match &*word.text {
        ":/" | ":/*" | ":(top)" => true,
        ":" | "*" => covers(args, &Word::literal("."), ALL),
        _ => covers(args, word, ALL),
    };
    args.sub_is("rm")
        && !["--cached", "-n", "--dry-run"].iter().any(|option| args.has(option))
        && args.operands().skip(1).any(is_all)
}

fn is_recursive(args: &Args<'_>) -> bool {
    ["-r", "-R", "--recursive"].iter().any(|option| args.may_have(option))
}

/// `find / -delete`: everything below, without a choice among it.
pub(super) fn finds(args: &Args<'_>) -> bool {
    let deletes = args.words().any(|word| word.text == "-delete")
        || args.words().zip(args.words().skip(1)).any(|(exec, program)| {
            exec.text.starts_with("-exec")
                && matches!(program.text.as_str(), "rm" | "/bin/rm" | "unlink" | "shred")
        });
    deletes && finds_all(args)
}

/// It goes through everything, and names all that it meets.
fn finds_all(args: &Args<'_>) -> bool {
    const CHOOSING: &[&str] = &[
        "-name",
        "-iname",
        "-path",
        "-ipath",
        "-regex",
        "-iregex",
        "-wholename",
        "-newer",
        "-mtime",
        "-mmin",
        "-size",
        "-empty",
        "-user",
        "-perm",
        "-atime",
        "-ctime",
    ];
    let is_place = |word: &&Word| !word.text.starts_with(['-', '(', '!']);
    let places: Vec<&Word> = args.words().take_while(is_place).collect();
    let words: Vec<&str> = args.words().map(|word| word.text.as_str()).collect();
    let chooses = words.iter().enumerate().any(|(at, test)| {
        let value = words.get(at + 1).copied().unwrap_or_default();
        // `-name '*'`, and `! -path './.git/*'`, without which nobody deletes everything.
        let is_turned = at > 0 && matches!(words[at - 1], "!" | "-not");
        let is_any = value.chars().all(|char| matches!(char, '*' | '.' | '/'))
            || is_turned && value.split('/').any(|name| name == ".git");
        CHOOSING.contains(test) && !is_any
    });
    let here = Word::literal(".");
    let is_all = |word: &Word| covers(args, word, ALL);
    !chooses && if places.is_empty() { is_all(&here) } else { places.into_iter().any(is_all) }
}

/// What is taken away is listed by another command of the line, and that lists everything: `ls | xargs rm -r`,
/// `rm -r $(ls)`, `for f in *; do rm -r $f; done`.
pub(super) fn removes_what_is_listed(line: &Line, directory: &str, ground: &dyn Ground) -> bool {
    let runs = line.runs();
    let removes_all = |(n, run): (usize, &Run)| {
        let args = Args { run, directory, ground, values: None };
        if run.name() != "rm" || args.operands().all(Word::is_literal) {
            return false;
        }
        let with_folders = is_recursive(&args);
        let lists =
            |run: &Run| lists_all(&Args { run, directory, ground, values: None }, with_folders);
        let is_all = |word: &Word| match word.kind {
            Kind::Output => {
                let inner = Line::part(&format!("true {}", word.text));
                let here = |own: &Run| Run { directories: run.directories.clone(), ..own.clone() };
                let mut own = inner.runs().iter().skip(1).map(here);
                own.next().is_some_and(|first| lists(&first)) && own.all(|run| keeps_all(&run))
                    || with_folders && covers(&args, word, ALL)
            }
            Kind::Literal | Kind::Pattern | Kind::Home | Kind::Quoted | Kind::Variable => {
                with_folders && covers(&args, word, ALL)
            }
        };
        args.operands().any(|word| {
            let is_it =
                |name: &str| word.text == format!("${name}") || word.text == format!("${{{name}}}");
            match word.kind {
                Kind::Output if word.text.contains(['$', '`']) => is_all(word),
                // What `xargs` puts in.
                Kind::Output => {
                    let before = runs[..n].iter().rev().skip_while(|one| one.of == run.of);
                    piped_all(before, lists)
                }
                Kind::Quoted | Kind::Variable => {
                    let mut bound = line.bindings().iter().filter(|binding| is_it(&binding.name));
                    let reads = |run: &Run| {
                        run.name() == "read"
                            && run.words.iter().skip(1).any(|word| is_it(&word.text))
                    };
                    bound.any(|binding| binding.words.iter().any(is_all))
                        || (0..n)
                            .any(|n| reads(&runs[n]) && piped_all(runs[..n].iter().rev(), lists))
                }
                Kind::Literal | Kind::Pattern | Kind::Home => false,
            }
        })
    };
    runs.iter().enumerate().any(removes_all)
}

/// The pipeline that these stand before, the last of them first, begins with one that lists all, and keeps it.
fn piped_all<'a>(before: impl Iterator<Item = &'a Run>, lists: impl Fn(&Run) -> bool) -> bool {
    for run in before {
        if !run.writes_pipe || lists(run) {
            return run.writes_pipe;
        }
        if !keeps_all(run) {
            return false;
        }
    }
    false
}

/// It writes the name of everything that lies in the project, the home or the system.
fn lists_all(args: &Args<'_>, with_folders: bool) -> bool {
    let (name, mut operands) = (args.run.name(), args.operands().peekable());
    match name {
        "find" => finds_all(args),
        "git" => args.sub_is("ls-files") && args.operands().count() == 1,
        "ls" | "dir" if with_folders => {
            operands.peek().is_none() && covers(args, &Word::literal("."), ALL)
                || operands.any(|word| covers(args, word, ALL))
        }
        "echo" | "printf" if with_folders => {
            operands.any(|word| word.kind != Kind::Literal && covers(args, word, ALL))
        }
        _ => false,
    }
}

/// What it is given it writes, all of it.
fn keeps_all(run: &Run) -> bool {
    matches!(run.name(), "cat" | "sort" | "tac" | "tr" | "tee" | "shuf" | "xargs")
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
    if let Some(words) = alternatives(word) {
        return words.iter().any(|word| covers(args, word, places));
    }
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
        Kind::Pattern | Kind::Quoted | Kind::Variable | Kind::Output if base.starts_with('$') => {
            Kind::Variable
        }
        Kind::Pattern if base.contains(['*', '?', '[']) => return false,
        Kind::Pattern if base.starts_with('~') => Kind::Home,
        Kind::Pattern => Kind::Literal,
        Kind::Quoted | Kind::Variable | Kind::Output => return false,
    };
    let word = Word { text: base.to_owned(), kind };
    let folders = args.folders_of_operand(&word);
    let mut paths = folders.iter().filter_map(|folder| path_of(folder, &word));
    paths.any(|path| places.contains(&place_of(args, &path)))
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
pub(super) fn runs_what_it_fetches(line: &Line) -> bool {
    let names_fetcher = |text: &str| {
        text.split(|char: char| !char.is_ascii_alphanumeric() && char != '-')
            .any(|part| FETCHERS[..2].contains(&part))
    };
    // The variables that hold it: `x=$(curl …)`, `read x < <(curl …)`.
    let mut names: Vec<String> = Vec::new();
    let is_fetched = |word: &Word, names: &[String]| match word.kind {
        Kind::Output => {
            names_fetcher(&word.text) || names.iter().any(|name| names_variable(&word.text, name))
        }
        Kind::Quoted | Kind::Variable => names.iter().any(|name| names_variable(&word.text, name)),
        Kind::Literal | Kind::Pattern | Kind::Home => false,
    };
    for binding in line.bindings() {
        if binding.words.iter().any(|word| is_fetched(word, &names)) {
            names.push(binding.name.clone());
        }
    }
    // What flows through the pipes of each substitution, and of the line itself.
    let mut fetched = vec![false];
    for run in line.runs() {
        let outer = fetched.last().copied().unwrap_or_default();
        fetched.resize(run.nesting + 1, outer);
        let was_fetched = &mut fetched[run.nesting];
        let name = run.name();
        let is_shell = SHELLS.contains(&name);
        let is_source = matches!(name, "source" | ".");
        let words = || run.words.iter().skip(1);
        // (`.` reads no input but where it is told so.)
        let is_reader = is_shell
            || INTERPRETERS.contains(&name)
            || is_source && words().next().is_some_and(is_input);
        let runs_words = is_reader || is_source || name == "eval";
        let is_given = |to: &Redirect| {
            matches!(to.how, How::Read | How::Text) && is_fetched(&to.target, &names)
        };
        let is_input_fetched = run.redirects.iter().any(is_given);
        if runs_words && words().any(|word| is_fetched(word, &names))
            || is_reader && is_input_fetched
        {
            return true;
        }
        *was_fetched &= run.input == Input::Pipe;
        let is_text = words().any(|word| matches!(word.text.as_str(), "-c" | "-e" | "-m" | "-n"));
        let mut operands = words().filter(|word| !word.text.starts_with('-') || is_input(word));
        // `xargs bash -c`: the words that are put in.
        let is_put_in =
            |word: &Word| word.kind == Kind::Output && !word.text.contains(['$', '`', ' ']);
        if *was_fetched && is_shell && is_text && operands.clone().next().is_some_and(is_put_in) {
            return true;
        }
        let has_own = !is_shell && operands.next().is_some_and(|word| !is_input(word));
        if *was_fetched && is_reader && !is_text && !has_own {
            return true;
        }
        if matches!(name, "read" | "mapfile" | "readarray") && (*was_fetched || is_input_fetched) {
            let read = words().map(|word| word.text.clone());
            names.extend(read.chain(["REPLY", "MAPFILE"].map(ToOwned::to_owned)));
        }
        *was_fetched |= FETCHERS.contains(&name)
            || matches!(name, "echo" | "printf") && words().any(|word| is_fetched(word, &names))
            || name == "cat" && is_input_fetched;
    }
    false
}

/// What a program calls its standard input.
fn is_input(word: &Word) -> bool {
    matches!(word.text.as_str(), "-" | "/dev/stdin" | "/dev/fd/0" | "/proc/self/fd/0")
}
