//! The call of a tool that does what a command does, with its arguments filled in.

mod search;

use serde_json::{Map, Value, json};

use super::args::Args;
use super::{Ground, Instead, Place};
use crate::permission::line::Line;
use crate::permission::shell::{By, Input, Kind, Run, Sets, Word};

pub(super) use search::extended;

/// What stands behind the command in its pipeline.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cut {
    Nothing,
    Head(u64),
    Tail(u64),
    Lines,
}

/// A call of a tool.
struct Call {
    tool: &'static str,
    does: &'static str,
    input: Map<String, Value>,
}

impl Call {
    fn new(tool: &'static str, input: Value) -> Self {
        let does = match tool {
            "LS" => "listing directories",
            "Glob" => "finding files",
            "Grep" => "searching in files",
            "Read" => "reading files",
            _ => "changing files",
        };
        let Value::Object(input) = input else { return Self { tool, does, input: Map::new() } };
        Self { tool, does, input }
    }

    fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.input.insert(name.to_owned(), value.into());
        self
    }

    fn shown(&self) -> String {
        format!("{} {}", self.tool, Value::Object(self.input.clone()))
    }
}

/// The tool to use where the whole line is what a tool does.
pub(super) fn better_tool(line: &Line, directory: &str, ground: &dyn Ground) -> Option<Instead> {
    let runs = line.only_pipeline().filter(|runs| !runs.iter().any(|run| run.path.is_some()))?;
    let args = |run| Args { run, directory, ground, values: None };
    let (first, cut) = match runs {
        [run] => (run, Cut::Nothing),
        [first, last] => {
            if let Some(path) = writes_its_text(first, &args(last)) {
                return Some(instead(&changing(&path, None)));
            }
            (first, cut(&args(last))?)
        }
        _ => return None,
    };
    if runs.iter().any(|run| run.sets != Sets::Nothing) {
        return None;
    }
    if let Some(call) = change(&args(first)).filter(|_| cut == Cut::Nothing) {
        return Some(instead(&call));
    }
    if runs.iter().any(|run| run.redirects.iter().any(|to| to.writes().is_some())) {
        return None;
    }
    looking(&args(first), cut).map(|call| instead(&call))
}

/// The tool that would have done a part of a line that runs.
pub(super) fn note(line: &Line, directory: &str, ground: &dyn Ground) -> Option<String> {
    line.runs()
        .iter()
        .filter(|run| run.by == By::Line && run.sets == Sets::Nothing && run.path.is_none())
        .find_map(|run| {
            let args = Args { run, directory, ground, values: None };
            let name = &run.words.first()?.text;
            let call = change(&args).or_else(|| looking(&args, Cut::Nothing))?;
            Some(format!(
                "{} does what `{name}` does here, without Bash: {}",
                call.tool,
                call.shown()
            ))
        })
}

fn instead(call: &Call) -> Instead {
    let tool = call.tool;
    let why = match tool {
        "Write" | "Edit" => ", so that nothing of somebody else's is lost and it can be undone",
        _ => "",
    };
    Instead {
        is_tool: true,
        text: format!("Use {tool} tool instead of Bash for {}{why}.", call.does),
        hint: Some(call.shown()),
    }
}

/// `head`, `tail`, `wc -l` on what comes through the pipe.
fn cut(args: &Args<'_>) -> Option<Cut> {
    let name = args.run.words.first()?.known()?;
    if args.run.input != Input::Pipe || !args.has_known_words() {
        return None;
    }
    match name {
        "head" | "tail" => {
            let (n, operands) = lines_wanted(args)?;
            let n = u64::try_from(n).ok()?;
            operands.is_empty().then_some(if name == "head" { Cut::Head(n) } else { Cut::Tail(n) })
        }
        "wc" if args.words().all(|word| word.text == "-l") && args.words().count() == 1 => {
            Some(Cut::Lines)
        }
        _ => None,
    }
}

/// The number of `head` and `tail`, and their files; negative for `tail -n +5`.
fn lines_wanted<'a>(args: &Args<'a>) -> Option<(i64, Vec<&'a Word>)> {
    let mut n = 10_i64;
    let mut operands = Vec::new();
    let mut words = args.words();
    while let Some(word) = words.next() {
        let number = match word.text.as_str() {
            "-n" | "--lines" => words.next()?.text.as_str(),
            text if text.starts_with("--lines=") => &text[8..],
            "-q" | "--quiet" | "--silent" => continue,
            text if text.starts_with("-n") => &text[2..],
            text if text.starts_with('-') && text.len() > 1 => &text[1..],
            _ => {
                operands.push(word);
                continue;
            }
        };
        n = match number.strip_prefix('+') {
            Some(from) => -from.parse::<i64>().ok()?,
            None => number.parse().ok().filter(|n| *n > 0)?,
        };
    }
    Some((n, operands))
}

/// The tool that looks at what this command looks at.
fn looking(args: &Args<'_>, cut: Cut) -> Option<Call> {
    if args.run.input == Input::Pipe || matches!(args.run.input, Input::Text(_)) {
        return None;
    }
    let call = match args.run.words.first()?.known()? {
        "cat" | "less" | "more" | "bat" | "most" => read(args, cut)?,
        "head" | "tail" if cut == Cut::Nothing => part(args)?,
        "sed" if cut == Cut::Nothing => lines_of(args)?,
        "ls" => list(args, cut)?,
        "tree" if cut == Cut::Nothing && args.words().all(|word| !word.text.starts_with('-')) => {
            Call::new(
                "Glob",
                json!({"pattern": "**", "path": folder(args, &args.operands().collect::<Vec<_>>())?}),
            )
        }
        "grep" | "egrep" | "fgrep" | "rg" | "ag" | "ack" => return search::search(args, cut),
        "find" if cut != Cut::Lines => find(args)?,
        "fd" | "fdfind" if cut != Cut::Lines => fd(args)?,
        _ => return None,
    };
    Some(match cut {
        Cut::Head(n) => call.with("limit", n.min(200)),
        Cut::Nothing | Cut::Tail(_) | Cut::Lines => call,
    })
}

/// The one file of the project that these words name.
fn file(args: &Args<'_>, words: &[&Word]) -> Option<String> {
    let [word] = words else { return None };
    let (path, place) = args.place(word).filter(|_| word.is_literal())?;
    matches!(place, Place::File | Place::Nothing).then_some(path)
}

/// The one folder of the project that these words name; without words, where it runs.
fn folder(args: &Args<'_>, words: &[&Word]) -> Option<String> {
    let here = Word::literal(".");
    let word = match words {
        [] => &here,
        [word] => *word,
        _ => return None,
    };
    let (path, place) = args.place(word).filter(|_| word.is_literal())?;
    let is_folder = matches!(place, Place::Folder | Place::Project | Place::Nothing);
    is_folder.then(|| if path.is_empty() { ".".to_owned() } else { path })
}

fn read(args: &Args<'_>, cut: Cut) -> Option<Call> {
    let knows = |word: &Word| {
        !word.text.starts_with('-')
            || matches!(
                word.text.as_str(),
                "-n" | "--number"
                    | "-b"
                    | "-p"
                    | "-pp"
                    | "--plain"
                    | "-R"
                    | "-N"
                    | "-S"
                    | "-F"
                    | "-X"
            )
    };
    if !args.words().all(knows) {
        return None;
    }
    let operands: Vec<&Word> = args.operands().collect();
    let path = match &args.run.input {
        Input::File(word) if operands.is_empty() => file(args, &[word])?,
        _ => file(args, &operands)?,
    };
    let call = Call::new("Read", json!({"path": path}));
    match cut {
        Cut::Nothing => Some(call),
        Cut::Head(n) => (n <= 200).then_some(call),
        Cut::Tail(n) => (n <= 2000).then(|| {
            let from = i64::try_from(n).map_or(-2000, |n| -n);
            call.with("start_line", from).with("limit", n)
        }),
        Cut::Lines => None,
    }
}

fn part(args: &Args<'_>) -> Option<Call> {
    let is_head = args.run.words[0].text == "head";
    if args.has("-f") || args.has("-F") || args.has("-c") {
        return None;
    }
    let (n, operands) = lines_wanted(args)?;
    let path = match &args.run.input {
        Input::File(word) if operands.is_empty() => file(args, &[word])?,
        _ => file(args, &operands)?,
    };
    let call = Call::new("Read", json!({"path": path}));
    match (is_head, n) {
        (true, 1..=2000) => Some(call.with("limit", n)),
        (false, 1..=2000) => Some(call.with("start_line", -n).with("limit", n)),
        (false, ..=-1) => Some(call.with("start_line", -n)),
        _ => None,
    }
}

/// `sed -n '3,9p' file`
fn lines_of(args: &Args<'_>) -> Option<Call> {
    let words: Vec<&Word> = args.words().collect();
    let [quiet, script, path] = words.as_slice() else { return None };
    let lines = script.known().filter(|_| quiet.text == "-n")?.strip_suffix('p')?;
    let (from, to) = lines.split_once(',').unwrap_or((lines, lines));
    let (from, to): (u64, u64) = (from.parse().ok()?, to.parse().ok()?);
    let limit = (to + 1).checked_sub(from).filter(|n| (1..=2000).contains(n) && from > 0)?;
    let path = file(args, &[path])?;
    Some(Call::new("Read", json!({"path": path, "start_line": from, "limit": limit})))
}

fn list(args: &Args<'_>, cut: Cut) -> Option<Call> {
    let options: Vec<&str> =
        args.words().map(|word| word.text.as_str()).filter(|text| text.starts_with('-')).collect();
    let knows = |option: &&str| match option.strip_prefix("--") {
        Some(long) => matches!(
            long,
            "all"
                | "almost-all"
                | "human-readable"
                | "color"
                | "color=never"
                | "color=auto"
                | "classify"
        ),
        None => option[1..].chars().all(|letter| "laAh1FpGRC".contains(letter)),
    };
    if !options.iter().all(knows) || matches!(cut, Cut::Tail(_) | Cut::Lines) {
        return None;
    }
    let operands: Vec<&Word> = args.operands().collect();
    if let [word] = operands.as_slice()
        && word.kind == Kind::Pattern
    {
        let is_below = word.text.contains('/') && !word.text.starts_with(['/', '.', '*', '~']);
        return (is_below
            && args.directory.is_empty()
            && args.run.directories.here.len() == 1
            && args.run.directories.here[0].as_deref() == Some(""))
        .then(|| Call::new("Glob", json!({"pattern": word.text})));
    }
    let path = folder(args, &operands)?;
    if options.iter().any(|option| option.contains('R')) {
        return Some(Call::new("Glob", json!({"pattern": "**", "path": path})));
    }
    let call = Call::new("LS", json!({"path": path}));
    let shows_hidden = options.iter().any(|option| {
        option.starts_with("--al") || !option.starts_with("--") && option.contains(['a', 'A'])
    });
    Some(if shows_hidden { call.with("include_hidden", true) } else { call })
}

fn find(args: &Args<'_>) -> Option<Call> {
    let mut words = args.words().peekable();
    let mut places = Vec::new();
    while let Some(word) = words.next_if(|word| !word.text.starts_with(['-', '(', '!'])) {
        places.push(word);
    }
    let path = folder(args, &places)?;
    let mut name = None;
    let mut is_flat = false;
    while let Some(word) = words.next() {
        match word.text.as_str() {
            "-name" if name.is_none() => name = Some(words.next()?.known()?),
            "-type" if words.next()?.text == "f" => {}
            "-maxdepth" if words.next()?.text == "1" => is_flat = true,
            "-print" => {}
            _ => return None,
        }
    }
    if is_flat {
        return name.is_none().then(|| Call::new("LS", json!({"path": path})));
    }
    let pattern = name.map_or("**".to_owned(), |name| format!("**/{name}"));
    let call = Call::new("Glob", json!({"pattern": pattern}));
    Some(if path == "." { call } else { call.with("path", path) })
}

fn fd(args: &Args<'_>) -> Option<Call> {
    let mut words = args.words();
    let mut operands = Vec::new();
    let mut ending = None;
    let mut is_glob = false;
    while let Some(word) = words.next() {
        match word.text.as_str() {
            "-e" | "--extension" => ending = Some(words.next()?.known()?),
            "-t" | "--type" if words.next()?.text == "f" => {}
            "-g" | "--glob" => is_glob = true,
            text if text.starts_with('-') => return None,
            _ => operands.push(word),
        }
    }
    let mut operands = operands.into_iter();
    let pattern = match operands.next().map(Word::known) {
        Some(None) => return None,
        None | Some(Some(".")) => None,
        Some(Some(pattern)) => Some(pattern),
    };
    let path = folder(args, &operands.collect::<Vec<_>>())?;
    let is_name =
        |text: &str| text.chars().all(|char| char.is_alphanumeric() || matches!(char, '_' | '-'));
    let ending = ending.map_or(String::new(), |ending| format!(".{ending}"));
    let pattern = match pattern {
        None => format!("**/*{ending}"),
        Some(pattern) if is_glob && ending.is_empty() => format!("**/{pattern}"),
        Some(pattern) if !is_glob && is_name(pattern) => format!("**/*{pattern}*{ending}"),
        Some(_) => return None,
    };
    let call = Call::new("Glob", json!({"pattern": pattern}));
    Some(if path == "." { call } else { call.with("path", path) })
}

/// `echo x | tee file`: the file of the project, where it is there.
fn writes_its_text(first: &Run, last: &Args<'_>) -> Option<String> {
    let says =
        matches!(first.words.first()?.known()?, "echo" | "printf") && first.sets == Sets::Nothing;
    if !says || last.run.words.first()?.text != "tee" {
        return None;
    }
    existing(last, &last.operands().collect::<Vec<_>>())
}

/// The one file of the project that these words name, where it is there and a tool would change it.
fn existing(args: &Args<'_>, words: &[&Word]) -> Option<String> {
    let [word] = words else { return None };
    let (path, place) = args.place(word).filter(|_| word.is_literal())?;
    (place == Place::File && args.ground.is_changeable(&path)).then_some(path)
}

/// The tool that changes the one file that is there and that this command changes.
fn change(args: &Args<'_>) -> Option<Call> {
    let written: Vec<&Word> = args.run.redirects.iter().filter_map(|to| to.writes()).collect();
    // `> file` empties it.
    let Some(program) = args.run.words.first() else {
        let path = existing(args, &written)?;
        return Some(Call::new("Write", json!({"path": path, "content": ""})));
    };
    match program.known()? {
        ":" | "true" => existing(args, &written)
            .map(|path| Call::new("Write", json!({"path": path, "content": ""}))),
        "echo" | "printf" if args.run.input == Input::None => {
            existing(args, &written).map(|path| changing(&path, None))
        }
        "cat" if matches!(args.run.input, Input::Text(_)) && args.operands().next().is_none() => {
            existing(args, &written).map(|path| changing(&path, None))
        }
        "tee" if matches!(args.run.input, Input::Text(_)) => {
            existing(args, &args.operands().collect::<Vec<_>>()).map(|path| changing(&path, None))
        }
        "sed" | "perl" if written.is_empty() && args.words().any(|word| in_place(&word.text)) => {
            let words: Vec<&Word> =
                args.words().filter(|word| !word.text.starts_with('-')).collect();
            let (path, scripts) = words.split_last()?;
            let script = match scripts {
                [script] => script.known(),
                _ => return None,
            };
            let path = existing(args, &[path])?;
            Some(changing(&path, script))
        }
        _ => None,
    }
}

fn in_place(option: &str) -> bool {
    option.starts_with("--in-place")
        || option.starts_with('-')
            && !option.starts_with("--")
            && option.len() < 8
            && option.contains('i')
}

/// A call that changes a file; `s/a/b/` as its arguments, where it is that plain.
fn changing(path: &str, script: Option<&str>) -> Call {
    let parts = script.and_then(|script| {
        let rest = script.strip_prefix('s')?;
        let mark = rest.chars().next().filter(|mark| mark.is_ascii_punctuation())?;
        let mut parts = rest[1..].split(mark);
        let (old, new, flags) = (parts.next()?, parts.next()?, parts.next()?);
        let is_plain =
            |text: &str| !text.contains(|char: char| "\\.*[]^$&+?(){}|\n".contains(char));
        (parts.next().is_none() && is_plain(old) && is_plain(new) && !old.is_empty())
            .then(|| (old.to_owned(), new.to_owned(), flags == "g"))
    });
    match parts {
        Some((old, new, is_all)) => {
            let call =
                Call::new("Edit", json!({"path": path, "old_string": old, "new_string": new}));
            if is_all { call.with("replace_all", true) } else { call }
        }
        None => Call::new("Edit", json!({"path": path, "old_string": "…", "new_string": "…"})),
    }
}
