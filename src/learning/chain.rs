//! Is a later call another try at what an earlier one failed to do? Pure, and careful: two calls that have
//! nothing to do with each other are two chains.

use serde_json::Value;

use super::call::{CHECK, Failed, Made, is_again};
use super::command::{SYSTEM, has_options_more, head, is_option};
use super::evidence::{
    blames_option, fails_tests, is_circumstance, is_verdict, names, narrows, printed,
};
use super::pattern::CHANGES;
use crate::protocol::command::{
    INTERPRETERS, Simple, WITH_TASK, name_of, simple_commands, unquoted,
};
use crate::protocol::envelope::ErrorCode;
use crate::protocol::topics;

/// So many answers of the model later a call is no more an answer to one that could not be read.
const SOON: u32 = 3;

/// The later call tries what the failed one tried. `failed` has failed.
pub fn continues(failed: &Made, later: &Made) -> bool {
    let Some(failure) = &failed.failed else { return false };
    if later.parent.as_ref() == Some(&failed.id) {
        return true;
    }
    let soon = later.round <= failed.round + SOON;
    match failure.code {
        ErrorCode::UnknownTool => {
            soon && later.tool != failed.tool && shares_a_value(failed, later)
        }
        ErrorCode::InvalidParam => {
            let same = failed.tool == later.tool;
            same && (shares_a_value(failed, later) || (soon && failed.path().is_none()))
        }
        ErrorCode::IsDirectory | ErrorCode::NotADirectory => {
            failed.path().is_some() && failed.path() == later.path()
        }
        ErrorCode::BinaryFile if later.command().is_some() => soon && shows_file(failed, later),
        ErrorCode::NotFound
        | ErrorCode::BinaryFile
        | ErrorCode::AccessDenied
        | ErrorCode::PermissionDenied
        | ErrorCode::NoMatch
        | ErrorCode::MultipleMatches
        | ErrorCode::NotRead
        | ErrorCode::Conflict
        | ErrorCode::Encoding
        | ErrorCode::TooLarge
        | ErrorCode::Timeout
        | ErrorCode::Cancelled
        | ErrorCode::ExecutionError
        | ErrorCode::CommandFailed
        | ErrorCode::CommandBlocked
        | ErrorCode::ApprovalRequired
        | ErrorCode::ApprovalRejected
        | ErrorCode::RepeatedCall
        | ErrorCode::CircuitOpen
        | ErrorCode::AskUserUnavailable
        | ErrorCode::InternalError => match (failed.command(), later.command()) {
            (Some(_), Some(_)) => is_same_command(failed, later),
            (None, None) => is_same_file(failed, later) || looks_for_names(failed, later),
            (Some(_), None) | (None, Some(_)) => false,
        },
    }
}

/// A program of the project's own, or one that not every system has, is given the file that is no text.
fn shows_file(failed: &Made, later: &Made) -> bool {
    let (Some(path), Some(line)) = (failed.path(), later.command()) else { return false };
    simple_commands(line).iter().any(|simple| {
        let program = simple.program();
        program.first().is_some_and(|first| !SYSTEM.contains(&name_of(first)))
            && program.iter().skip(1).any(|word| unquoted(word) == path)
    })
}

/// A path with wildcards was no path, and is looked for as a pattern.
fn looks_for_names(failed: &Made, later: &Made) -> bool {
    let pattern = later.input.get("pattern").and_then(Value::as_str);
    let (Some(path), Some(pattern)) = (failed.path(), pattern) else { return false };
    path.contains('*') && later.tool == "Glob" && (pattern == path || pattern.starts_with(path))
}

/// Two calls of one way to touch files, and one file, wherever it is looked for.
fn is_same_file(failed: &Made, later: &Made) -> bool {
    let both = |tools: &[&str]| {
        tools.contains(&failed.tool.as_str()) && tools.contains(&later.tool.as_str())
    };
    if failed.tool != later.tool && !both(&CHANGES) {
        return false;
    }
    match (failed.path(), later.path()) {
        (Some(one), Some(other)) => {
            one == other || has_same_stem(one, other) || is_cut_from(other, one)
        }
        // A pattern with a path that is wrong, and then without one.
        (Some(_), None) => failed.input.get("pattern") == later.input.get("pattern"),
        (None, _) => failed.input == later.input || failed.path() == later.path(),
    }
}

/// What was given as a path holds more than one: names with wildcards, lines.
pub(super) fn is_cut_from(path: &str, longer: &str) -> bool {
    longer.contains(['*', '?', '{', ':'])
        && longer.strip_prefix(path).is_some_and(|rest| rest.starts_with(['/', ':', '*']))
}

/// One name without its ending, in any folder.
pub(super) fn has_same_stem(one: &str, other: &str) -> bool {
    let stem = |path: &str| -> String {
        let name = name_of(path);
        name.rsplit_once('.').map_or(name, |(stem, _)| stem).to_lowercase()
    };
    !stem(one).is_empty() && stem(one) == stem(other)
}

/// Two command lines that are after the same thing.
fn is_same_command(failed: &Made, later: &Made) -> bool {
    let (Some(one), Some(other)) = (failed.command(), later.command()) else { return false };
    if (failed.tool == CHECK) != (later.tool == CHECK) {
        return false;
    }
    if is_again(failed, later) {
        return true;
    }
    if failed.tool == CHECK {
        return false;
    }
    let commands = simple_commands(other);
    let Some(main) = main_command(&simple_commands(one)).cloned() else { return false };
    let Some(failure) = &failed.failed else { return false };
    commands.iter().any(|command| is_akin(&main, command, failure))
        || commands.windows(2).any(|pair| is_filtered(&main, &pair[0], &pair[1]))
}

/// What the program was given to read goes through another one first: `bash x.sh` → `tr -d '\r' < x.sh | bash`.
fn is_filtered(one: &Simple<'_>, filter: &Simple<'_>, other: &Simple<'_>) -> bool {
    let (one, other) = (one.program(), other.program());
    let left = one.iter().filter(|word| !other.contains(word)).collect::<Vec<_>>();
    filter.operator == Some("|")
        && one.first() == other.first()
        && matches!(left.as_slice(), [file] if filter.program().contains(file))
}

/// The command of a line that does its work: the last with a purpose, else the last that is no `cd`. A line that only
/// sets variables has none.
pub(super) fn main_command<'a, 'b>(commands: &'b [Simple<'a>]) -> Option<&'b Simple<'a>> {
    const LOOKS: [&str; 8] = ["cd", "echo", "tail", "head", "export", "source", "true", "sleep"];
    let works = |command: &&Simple<'_>| {
        command.program().first().is_some_and(|program| !LOOKS.contains(program))
    };
    let topical = commands.iter().rev().find(|command| topics::of_simple(command).is_some());
    let last = || commands.last().filter(|command| !command.program().is_empty());
    topical.or_else(|| commands.iter().rev().find(works)).or_else(last)
}

fn is_akin(one: &Simple<'_>, other: &Simple<'_>, failure: &Failed) -> bool {
    let (one_program, other_program) = (one.program(), other.program());
    let (Some(first), Some(second)) = (one_program.first(), other_program.first()) else {
        return false;
    };
    let (name, other_name) = (name_of(first), name_of(second));
    let missing = [Some(126), Some(127)].contains(&failure.exit_code);
    let arguments = &one_program[1..];
    let kept = arguments.iter().filter(|word| other_program.contains(word)).count();
    // `pytest` → `python3 -m pytest`, `./gen.sh` → `bash gen.sh`.
    let holds = other_program[1..].iter().any(|word| name_of(&unquoted(word)) == name);
    if missing && (holds || name == other_name) {
        return true;
    }
    // `python a.py` → `python3 a.py`.
    if missing && kept == arguments.len() && (kept > 0 || strsim::jaro(name, other_name) > 0.85) {
        return true;
    }
    let said = printed(&failure.evidence);
    let topic = topics::of_simple(one);
    // `git branch` is no other try at `git diff`: that both are about commits is no purpose.
    let is_subject = name == other_name
        && WITH_TASK.contains(&name)
        && head(one_program) != head(other_program)
        && topic == topics::of_command(name);
    let same_purpose = topic.is_some() && topic == topics::of_simple(other) && !is_subject;
    let blames = |word: &&str| {
        let word = unquoted(word);
        names(said, &word).is_some() || blames_option(said, &word)
    };
    // The output says no to the work: only what looks at all of it again can show that it is good now.
    if is_verdict(said) && !arguments.iter().any(blames) {
        let before: Vec<&str> = targets(one_program).collect();
        let is_as_wide = targets(other_program).all(|target| before.contains(&target))
            && (!before.is_empty() || targets(other_program).next().is_none());
        // Nothing but options more, of code that may have been built or run in a wrong way, or where the output speaks of
        // the call too: `cargo +nightly check`, `cargo test --features sqlite`.
        let mut more = other_program.iter().filter(|word| !one_program.contains(word));
        let is_more = one_program.iter().all(|word| other_program.contains(word))
            && more.clone().next().is_some_and(|word| is_option(word))
            && !more.any(|word| narrows(word))
            && (!fails_tests(said) || said.lines().any(is_circumstance));
        return (is_as_wide || is_more) && (same_purpose || name == other_name);
    }
    let (head, other_head) = (head(one_program), head(other_program));
    if head == other_head {
        // `tool a --fast` → `tool a`; `run tests.unit` → `run tests/unit`.
        let of_moved = arguments.iter().zip(&other_program[1..]).all(|(one, other)| {
            one == other || (other.contains('/') && name_of(one) == name_of(other))
        });
        return kept * 2 >= arguments.len()
            || same_purpose
            || (of_moved && one_program.len() == other_program.len())
            || arguments.iter().any(blames);
    }
    // Of a program with tasks another task is another try only where that was blamed: `git branch` after
    // `git diff main` looks around.
    let n_blamed = if WITH_TASK.contains(&name) { head.len() - 1 } else { arguments.len() };
    let same_script = INTERPRETERS.contains(&name)
        && matches!((head, other_head), ([_, one], [_, other]) if has_same_stem(one, other));
    // `npm run lint` → `pnpm run lint`, where npm is refused.
    let is_renamed = kept == arguments.len() && kept > 0 && blames(first);
    let is_renamed = is_renamed && other_program.len() == one_program.len();
    // `bin/rake x` → `../bin/rake x`, from another folder.
    let is_from_elsewhere = name == other_name && arguments == &other_program[1..];
    same_purpose
        || has_options_more(one_program, other_program)
        || holds
        || is_from_elsewhere
        || same_script
        || is_renamed
        || (name == other_name && arguments[..n_blamed].iter().any(blames))
}

/// What a command is about: its words behind those that say what is done, without options.
pub(super) fn targets<'a>(program: &'a [&'a str]) -> impl Iterator<Item = &'a str> {
    let n = head(program).len();
    program[n..]
        .iter()
        .copied()
        .filter(|word| !word.starts_with(['-', '>', '<']) && !word.starts_with("2>"))
}

/// Any text of two letters or more that both were given.
fn shares_a_value(one: &Made, other: &Made) -> bool {
    texts(&one.input).any(|text| texts(&other.input).any(|known| known == text))
}

fn texts(input: &crate::protocol::Object) -> impl Iterator<Item = &str> {
    input.values().filter_map(Value::as_str).filter(|text| text.chars().count() >= 2)
}

#[cfg(test)]
mod tests {
    use super::super::call::testing::made;
    use super::*;

    fn check(bad: &str, said: &str, good: &str, goes_on: bool) {
        let (failed, later) = (made(1, bad, Some(said)), made(2, good, None));
        assert_eq!(continues(&failed, &later), goes_on, "{bad}: {said} → {good}");
    }

    #[test]
    fn the_words_of_the_command_are_no_verdict_on_the_work() {
        check("bin/assert a x", "boom 7", "bin/assert a y", true);
        check("bin/run a x", "assert x == y", "bin/run a y", false);
    }
}
