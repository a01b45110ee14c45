//! Is a failure that is known still to be expected of a call that is about to be made? Pure: what is there now it is
//! told by the trait [`Surroundings`].
//!
//! What can be looked at is looked at: a program that is there now, a path that is there again is called as it was
//! written. Of the rest (an option that was refused, a target that did not exist) only so much is known that nothing
//! speaks against it; how far that is trusted is [`super::advisor`]'s to say.

use serde_json::Value;

use super::command::{Simple, head, is_assignment, is_redirection, simple_commands, unquoted};
use super::item::{FailurePattern, Fix};
use super::pattern::{input_of, moved, plain_path};
use super::topics;
use crate::protocol::Object;
use crate::protocol::envelope::ErrorCode;
use crate::protocol::message::ToolCall;
use crate::protocol::recall::Surroundings;
use crate::protocol::signature::signature;

/// What may stand before a command in its line and makes nothing possible that was not.
const PREPARES_NOTHING: [&str; 11] =
    ["cd", "echo", "set", "export", "true", "cat", "printf", "ls", "head", "pwd", ":"];

/// How sure it is that a call fails in the way that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Outlook {
    /// It has become possible, or too little is known of it.
    Open,
    /// Nothing that can be looked at speaks against it.
    Likely,
    /// What is there now says that it fails.
    Certain,
}

use Outlook::{Certain, Likely, Open};

impl FailurePattern {
    /// What is to be expected of this call, if it is made as it is. Open where the fix does not change it.
    pub(super) fn outlook(&self, call: &ToolCall, around: &dyn Surroundings) -> Outlook {
        self.expected(call, around).unwrap_or(Open)
    }

    fn expected(&self, call: &ToolCall, around: &dyn Surroundings) -> Option<Outlook> {
        let fix = self.fix.as_ref()?;
        // Looked at first, since arguments may be long.
        let named = match fix {
            Fix::ReplacePath { from, .. } | Fix::RenameArgument { from, .. } => from.as_str(),
            Fix::ReplaceWords { .. }
            | Fix::Prefix { .. }
            | Fix::SetArguments { .. }
            | Fix::OtherTool { .. }
            | Fix::RunFirst { .. } => "",
        };
        (call.arguments.contains(named) && self.fits_place(call)).then_some(())?;
        self.action(call)?;
        let input = input_of(call);
        let path = || input.get("path").and_then(Value::as_str);
        let is_certain = match fix {
            // Whether it was run is not seen in the call.
            Fix::RunFirst { .. } => return None,
            Fix::RenameArgument { from, to } => {
                self.when.argument.as_ref() == Some(from)
                    && around.has_tool(&call.name)
                    && !around.takes(&call.name, from)
                    && around.takes(&call.name, to)
            }
            Fix::ReplacePath { from, to } => {
                let (_, new) = moved(&input, from, to)?;
                // A file that is not there can be written.
                call.name != "Write" && !around.has(path()?) && around.has(&new)
            }
            Fix::OtherTool { tool, .. } => {
                let is_there = !self.when.tool.is_empty() && around.has_tool(tool);
                let fails = match self.when.code? {
                    ErrorCode::UnknownTool => !around.has_tool(&call.name),
                    ErrorCode::IsDirectory => around.has_folder(path()?),
                    ErrorCode::NotADirectory => around.has(path()?) && !around.has_folder(path()?),
                    _ => false,
                };
                is_there && fails
            }
            Fix::ReplaceWords { .. } | Fix::Prefix { .. } | Fix::SetArguments { .. } => {
                return self.expected_of_command(&input, fix, around);
            }
        };
        Some(if is_certain { Certain } else { Open })
    }

    fn expected_of_command(
        &self,
        input: &Object,
        fix: &Fix,
        around: &dyn Surroundings,
    ) -> Option<Outlook> {
        let named = self.when.command_head.as_deref()?;
        let line = input.get("command").and_then(Value::as_str)?;
        let folder = input.get("directory").and_then(Value::as_str).unwrap_or(".");
        let commands = simple_commands(line);
        let place = Place::of(&commands, |simple| self.when.fits_simple(simple), folder)?;
        if let Fix::ReplaceWords { from, to } = fix
            && from == named
            && from.split_whitespace().count() == 1
        {
            if line.contains("PATH=") || line.contains("alias ") {
                return None;
            }
            let program = place.simple.program().first()?;
            if !is_plain(program) || !place.runs(to, around)? {
                return None;
            }
            if !around.has_program(program, &place.folder) {
                return Some(Certain);
            }
            // It was missing, or could not be executed, and now it is there.
            if self.is_about_missing(from) {
                return None;
            }
        }
        self.is_likely(input, fix, named, &place, around).then_some(Likely)
    }

    /// It is known that the program was not there, or could not be executed.
    fn is_about_missing(&self, program: &str) -> bool {
        let says = signature(&format!("{program}: "));
        self.when.signature.as_ref().is_none_or(|said| said.starts_with(says.trim()))
    }

    /// The condition names something of this call, and the fix would do what it did.
    fn is_likely(
        &self,
        input: &Object,
        fix: &Fix,
        named: &str,
        place: &Place<'_, '_>,
        around: &dyn Surroundings,
    ) -> bool {
        let is_the_commands = match self.when.code {
            None | Some(ErrorCode::CommandFailed | ErrorCode::Timeout) => true,
            Some(_) => false,
        };
        let fits = match fix {
            Fix::ReplaceWords { from, to } => {
                let more = to.strip_prefix(from.as_str());
                let only_adds = from.is_empty() || more.is_some_and(|more| more.starts_with(' '));
                let can_be = !to.starts_with("cd ") || place.takes(to, around);
                (!only_adds || place.is_just(named)) && can_be
            }
            Fix::Prefix { with } => place.is_just(named) && place.takes(with, around),
            Fix::SetArguments { input: wanted } => {
                let ms = |input: &Object| input.get("timeout_ms").and_then(Value::as_u64);
                let folder = wanted.get("directory").and_then(Value::as_str);
                let is_known = |name: &String| ["directory", "timeout_ms"].contains(&name.as_str());
                place.is_just(named)
                    && wanted.keys().all(is_known)
                    && folder.is_none_or(|folder| place.can_move_to(folder, around))
                    && ms(wanted).is_none_or(|wanted| ms(input).is_none_or(|ms| ms < wanted))
            }
            Fix::RenameArgument { .. }
            | Fix::ReplacePath { .. }
            | Fix::RunFirst { .. }
            | Fix::OtherTool { .. } => false,
        };
        is_the_commands && fits
    }
}

/// Where in a line, and in which folder, the command stands of which a pattern speaks.
struct Place<'a, 'b> {
    simple: &'b Simple<'a>,
    /// Those behind it.
    rest: &'b [Simple<'a>],
    /// Assignments and `export`s before it, and its own.
    sets: Vec<&'a str>,
    folder: String,
}

impl<'a, 'b> Place<'a, 'b> {
    /// The first that fits; `None` where something before it may have made it possible, or leads where nobody knows.
    fn of(
        commands: &'b [Simple<'a>],
        fits: impl Fn(&Simple<'a>) -> bool,
        folder: &str,
    ) -> Option<Self> {
        let at = commands.iter().position(fits)?;
        let (before, simple) = (&commands[..at], &commands[at]);
        let mut place = Self {
            simple,
            rest: &commands[at + 1..],
            sets: simple.words[..simple.own_words()].to_vec(),
            folder: folder.to_owned(),
        };
        for simple in before {
            let program = simple.program();
            place.sets.extend(simple.words.iter().filter(|word| is_assignment(word)));
            match program.split_first() {
                None => {}
                Some((&"cd", [to])) => place.folder = joined(&place.folder, to)?,
                Some((&"cd", _)) => return None,
                Some((first, _)) if PREPARES_NOTHING.contains(first) => {}
                Some(_) => return None,
            }
        }
        Some(place)
    }

    /// The command is what is named and nothing more, and for one thing: not `make lint` where `make` is
    /// named, nor a program that is for anything.
    fn is_just(&self, named: &str) -> bool {
        let head: Vec<String> = head(self.simple.program()).iter().map(|w| unquoted(w)).collect();
        let is_for_one_thing =
            head.len() > 1 || named.contains('/') || topics::of_simple(self.simple).is_some();
        // `cargo *`: any task of it.
        let is_it = match named.strip_suffix(" *") {
            Some(program) => head.len() > 1 && head[0] == program,
            None => head.join(" ") == named,
        };
        is_it && is_for_one_thing
    }

    /// What a fix puts in front is new here, and can be: variables that are not set, a folder that is there.
    fn takes(&self, words: &str, around: &dyn Surroundings) -> bool {
        let is_unset = |word: &str| {
            let name = word.split('=').next().unwrap_or_default();
            let is_it = |set: &&str| set.split('=').next() == Some(name);
            !around.has_variable(name) && !self.sets.iter().any(is_it)
        };
        simple_commands(words).iter().all(|simple| {
            let sets = simple.words.iter().filter(|word| is_assignment(word));
            let folder = match simple.program() {
                ["cd", folder] => Some(*folder),
                _ => None,
            };
            sets.into_iter().all(|word| is_unset(word))
                && folder.is_none_or(|folder| self.can_move_to(folder, around))
        })
    }

    /// The folder is there, and nothing that the command names lies here and not there.
    fn can_move_to(&self, folder: &str, around: &dyn Surroundings) -> bool {
        let Some(there) = joined(&self.folder, folder) else { return false };
        let is_here_alone = |word: &&str| {
            let word = unquoted(word);
            let word = plain_path(&word);
            let both = (joined(&self.folder, word), joined(&there, word));
            matches!(both, (Some(here), Some(there)) if around.has(&here) && !around.has(&there))
        };
        let program = self.simple.program();
        let writes = |word: &&str| is_redirection(word) && !word.ends_with("&1");
        // What follows would be run there too.
        let is_piped = |simple: &Simple<'_>| simple.operator == Some("|");
        let is_last = self.rest.is_empty() || is_piped(self.simple);
        is_last
            && self.rest.iter().rev().skip(1).all(is_piped)
            && around.has_folder(&there)
            && !program.iter().any(writes)
            && !program.iter().skip(1).any(is_here_alone)
    }

    /// What the fix would call can be called here; `None` where that can not be seen.
    fn runs(&self, words: &str, around: &dyn Surroundings) -> Option<bool> {
        let mut folder = self.folder.clone();
        for simple in simple_commands(words) {
            match simple.program() {
                ["cd", to] => {
                    folder = joined(&folder, to)?;
                    if !around.has_folder(&folder) {
                        return Some(false);
                    }
                }
                [program, ..] if is_plain(program) => {
                    if !around.has_program(program, &folder) {
                        return Some(false);
                    }
                }
                _ => return None,
            }
        }
        Some(true)
    }
}

/// A path from a folder of the project; `None` where only a shell knows where it leads.
fn joined(folder: &str, path: &str) -> Option<String> {
    let path = unquoted(path);
    if path.starts_with(['~', '-']) || path.contains(['$', '`', '*', '?', '(', '=']) {
        return None;
    }
    Some(match (folder, path.as_str()) {
        (_, absolute) if absolute.starts_with('/') => path,
        (folder, "" | ".") => folder.to_owned(),
        (".", _) => path,
        (folder, path) => format!("{}/{path}", folder.trim_end_matches('/')),
    })
}

/// A program's name, or its path, as it stands there.
fn is_plain(program: &str) -> bool {
    !program.contains(['$', '`', '~', '*', '?', '\'', '"', '\\', '(', '=', '{'])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// What is there: paths (folders end with `/`), programs, variables.
    struct There(&'static [&'static str]);

    impl Surroundings for There {
        fn has_tool(&self, tool: &str) -> bool {
            ["Bash", "Read", "LS", "Write"].contains(&tool)
        }
        fn takes(&self, _: &str, argument: &str) -> bool {
            ["path", "command"].contains(&argument)
        }
        fn has(&self, path: &str) -> bool {
            self.0.contains(&path) || self.has_folder(path)
        }
        fn has_folder(&self, path: &str) -> bool {
            self.0.iter().any(|there| there.strip_suffix('/') == Some(path))
        }
        fn has_program(&self, program: &str, folder: &str) -> bool {
            match program.strip_prefix("./") {
                Some(script) => joined(folder, script).is_some_and(|path| self.has(&path)),
                None => self.has(program),
            }
        }
        fn has_variable(&self, name: &str) -> bool {
            self.0.contains(&name)
        }
        fn now_ms(&self) -> i64 {
            0
        }
    }

    #[track_caller]
    fn check(
        pattern: (&Value, &Value),
        (tool, input): (&str, &Value),
        there: &'static [&'static str],
        expected: Outlook,
    ) {
        let (when, fix) = pattern;
        let pattern = json!({"skill": "", "condition": "", "error_type": "environment_error",
            "suggested_fix": null, "when": when, "fix": fix});
        let pattern: FailurePattern = serde_json::from_value(pattern).expect("a pattern");
        let (id, name) = (String::new(), tool.to_owned());
        let call = ToolCall { id, name, arguments: input.to_string() };
        assert_eq!(pattern.outlook(&call, &There(there)), expected, "{input} of {there:?}");
    }

    #[test]
    fn a_program_is_looked_for() {
        let when = json!({"tool": "Bash", "command_head": "pytest", "signature": "pytest:"});
        let fix = json!({"kind": "replace_words", "from": "pytest", "to": "python3 -m pytest"});
        let line = |line: &str, there, expected| {
            check((&when, &fix), ("Bash", &json!({"command": line})), there, expected);
        };
        line("pytest -q", &["python3"], Certain);
        line("cd api && pytest -q | tail -3", &["python3"], Certain);
        line("pytest -q", &["python3", "pytest"], Open);
        line("pytest -q", &[], Open);
        line("python3 -m pytest -q", &["python3"], Open);
        line("pip install pytest && pytest -q", &["python3"], Open);
        line("PATH=$PWD/bin:$PATH pytest -q", &["python3"], Open);
        line(". venv/bin/activate; pytest", &["python3"], Open);
    }

    #[test]
    fn a_script_that_can_not_be_executed_is_looked_for_where_it_is_run() {
        let when = json!({"tool": "Bash", "command_head": "./gradlew"});
        let fix = json!({"kind": "replace_words", "from": "./gradlew", "to": "sh ./gradlew"});
        let line = |line: &str, there, expected| {
            check((&when, &fix), ("Bash", &json!({"command": line})), there, expected);
        };
        line("./gradlew check", &["sh"], Certain);
        line("./gradlew check", &["sh", "gradlew"], Open);
        line("cd app && ./gradlew check", &["sh", "gradlew"], Certain);
        line("cd $APP && ./gradlew check", &["sh"], Open);
        line("chmod +x gradlew && ./gradlew check", &["sh"], Open);
    }

    #[test]
    fn what_can_not_be_looked_at_is_likely_where_the_command_is_named() {
        let refused = json!({"tool": "Bash", "command_head": "tool run", "signature": "--fast"});
        let fix = json!({"kind": "replace_words", "from": "--fast", "to": "--quick"});
        let line = |line: &str, expected| {
            check((&refused, &fix), ("Bash", &json!({"command": line})), &[], expected);
        };
        line("tool run --fast a", Likely);
        line("tool run a", Open);
        line("tool stop --fast", Open);
        line("setup && tool run --fast a", Open);

        let cd = json!({"kind": "prefix", "with": "cd web && "});
        for (head, line, expected) in
            [("make", "make lint", Open), ("make", "make", Open), ("pytest", "pytest -q", Likely)]
        {
            let when = json!({"tool": "Bash", "command_head": head, "signature": "no config"});
            check((&when, &cd), ("Bash", &json!({"command": line})), &["web/"], expected);
        }
        let sort = json!({"tool": "Bash", "command_head": "sort", "signature": "order"});
        let c = json!({"kind": "prefix", "with": "LC_ALL=C "});
        check((&sort, &c), ("Bash", &json!({"command": "sort a"})), &[], Open);
    }

    #[test]
    fn a_folder_has_to_be_there_and_to_hold_what_is_named() {
        let when = json!({"tool": "Bash", "command_head": "npm test", "signature": "missing"});
        let fix = json!({"kind": "prefix", "with": "cd web && "});
        let line = |line: &str, there, expected| {
            check((&when, &fix), ("Bash", &json!({"command": line})), there, expected);
        };
        line("npm test", &["web/"], Likely);
        line("npm test 2>&1 | tail -5", &["web/"], Likely);
        line("npm test", &[], Open);
        line("npm test -- web/a.js", &["web/", "web/a.js"], Open);
        line("npm test -- a.js", &["web/", "a.js", "web/a.js"], Likely);
        line("npm test > out.txt", &["web/"], Open);
        line("npm test && cat log", &["web/"], Open);
    }

    #[test]
    fn a_variable_has_to_be_unset() {
        let when = json!({"tool": "Bash", "command_head": "bin/migrate", "signature": "not set"});
        let fix = json!({"kind": "prefix", "with": "DB_URL=x "});
        let line = |line: &str, there, expected| {
            check((&when, &fix), ("Bash", &json!({"command": line})), there, expected);
        };
        line("bin/migrate up", &[], Likely);
        line("bin/migrate up", &["DB_URL"], Open);
        line("export DB_URL=y; bin/migrate up", &[], Open);
        line("DB_URL=y bin/migrate up", &[], Open);
        line("env DB_URL=y bin/migrate up", &[], Open);
    }

    #[test]
    fn tools_arguments_and_paths_are_looked_at() {
        let when = json!({"tool": "Read", "code": "INVALID_PARAM", "argument": "file_path"});
        let fix = json!({"kind": "rename_argument", "from": "file_path", "to": "path"});
        check((&when, &fix), ("Read", &json!({"file_path": "a"})), &[], Certain);
        let (from, to) = ("path", "file_path");
        let back = json!({"kind": "rename_argument", "from": from, "to": to});
        let takes = json!({"tool": "Read", "argument": "path"});
        check((&takes, &back), ("Read", &json!({"path": "a"})), &[], Open);

        let when = json!({"code": "NOT_FOUND", "path": "src/a.rs"});
        let fix = json!({"kind": "replace_path", "from": "src", "to": "lib"});
        let a = json!({"path": "src/b.rs"});
        check((&when, &fix), ("Read", &a), &["lib/b.rs"], Certain);
        check((&when, &fix), ("Read", &a), &["lib/b.rs", "src/b.rs"], Open);
        check((&when, &fix), ("Read", &a), &[], Open);
        check((&when, &fix), ("Write", &a), &["lib/b.rs"], Open);

        let when = json!({"tool": "Read", "code": "IS_DIRECTORY"});
        let fix = json!({"kind": "other_tool", "tool": "LS", "input": {}});
        check((&when, &fix), ("Read", &json!({"path": "src"})), &["src/"], Certain);
        check((&when, &fix), ("Read", &json!({"path": "src"})), &["src"], Open);
        let when = json!({"tool": "Find", "code": "UNKNOWN_TOOL"});
        check((&when, &fix), ("Find", &json!({"path": "src"})), &[], Certain);
        let fix = json!({"kind": "run_first", "command": "make gen"});
        let when = json!({"tool": "Bash", "command_head": "make test"});
        check((&when, &fix), ("Bash", &json!({"command": "make test"})), &[], Open);
    }
}
