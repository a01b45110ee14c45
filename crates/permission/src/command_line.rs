//! A parsed command line.

use std::cell::RefCell;
use std::sync::Arc;

use super::judge::{self, Command, Commands};
use super::shell::{Pipeline, Script, SimpleCommand, WordKind};

/// Commands whose text is not executed as it is, or only in part.
const NOT_SIMPLE: &[&str] =
    &["!", "[[", ".", "builtin", "command", "coproc", "eval", "exec", "source", "time", "trap"];

const MAX_PROGRAMS: usize = 8;

thread_local! {
    /// The tool, the policy and the registry parse the same line in turn.
    static LAST_LINE: RefCell<Option<CommandLine>> = const { RefCell::new(None) };
}

/// A parsed command line.
#[derive(Clone, Debug)]
pub struct CommandLine(Arc<ParsedLine>);

#[derive(Debug)]
struct ParsedLine {
    text: String,
    script: Script,
    commands: Commands,
}

impl CommandLine {
    /// Parses a line. Never fails: text that cannot be parsed is marked. The last line is cached.
    pub fn parse(command: &str) -> Self {
        LAST_LINE.with_borrow_mut(|last| match last {
            Some(line) if line.0.text == command => line.clone(),
            _ => {
                let script = Script::parse(command);
                let commands = Commands::from_script(&script);
                let parts = ParsedLine { text: command.to_owned(), script, commands };
                last.insert(Self(Arc::new(parts))).clone()
            }
        })
    }

    /// Whether every command of the line is known to only read, and no file is written.
    pub fn is_read_only(&self) -> bool {
        self.is_fully_parsed()
            && !self.commands().is_empty()
            && self.commands().iter().all(|command| judge::only_reads(command, self.text()))
    }

    /// The programs that are not known to only read, each with its first operand; all if each only reads.
    /// Wrappers such as `timeout 60` and the directory of a program are left out.
    pub fn programs(&self) -> Vec<String> {
        let run = self.commands().iter().filter(|command| !command.is_wrapper);
        let (reading, others): (Vec<_>, Vec<_>) =
            run.partition(|command| judge::only_reads(command, self.text()));
        let chosen = if others.is_empty() { reading } else { others };
        let mut programs: Vec<String> =
            chosen.into_iter().filter_map(Command::program_and_operand).collect();
        programs.dedup();
        programs.truncate(MAX_PROGRAMS);
        programs
    }

    /// The stages of the pipeline that runs last, if the text determines which one that is.
    pub fn last_pipeline(&self) -> Option<&[String]> {
        let (last, others) = self.pipelines().split_last()?;
        let is_last = others.iter().all(|pipeline| pipeline.stages.len() == 1);
        (is_last && self.runs_as_written()).then_some(&*last.stages)
    }

    /// The words of each stage, if the line is one pipeline of simple commands with literal words only.
    pub fn literal_stages(&self) -> Option<Vec<Vec<String>>> {
        let script = &self.0.script;
        let [pipeline] = script.pipelines.as_slice() else { return None };
        let is_literal = |command: &SimpleCommand| {
            command.redirects.is_empty()
                && command.assignments.is_empty()
                && command.words.iter().all(|word| word.kind == WordKind::Literal)
        };
        let is_whole = self.runs_as_written()
            && !script.is_too_long
            && pipeline.stages.len() == script.commands.len()
            && script.commands.iter().all(is_literal);
        let words =
            |command: &SimpleCommand| command.words.iter().map(|word| word.text.clone()).collect();
        is_whole.then(|| script.commands.iter().map(words).collect())
    }

    /// Whether the line consists of pipelines of commands that are executed as written.
    pub(super) fn runs_as_written(&self) -> bool {
        let is_simple = |text: &String| {
            let first = text.split_ascii_whitespace().next();
            first.is_some_and(|word| !NOT_SIMPLE.contains(&word))
        };
        let is_plain =
            |pipeline: &Pipeline| pipeline.is_simple && pipeline.stages.iter().all(is_simple);
        let script = &self.0.script;
        script.is_fully_parsed && script.is_plain && script.pipelines.iter().all(is_plain)
    }

    pub(super) fn has_substitution(&self) -> bool {
        self.0.script.has_substitution
    }

    pub(super) fn functions(&self) -> &[String] {
        &self.0.script.functions
    }

    pub(super) fn pipelines(&self) -> &[Pipeline] {
        &self.0.script.pipelines
    }

    pub(super) fn text(&self) -> &str {
        &self.0.text
    }

    pub(super) fn commands(&self) -> &[Command] {
        &self.0.commands.all
    }

    pub(super) fn is_fully_parsed(&self) -> bool {
        self.0.commands.is_fully_parsed
    }

    pub(super) fn is_too_long(&self) -> bool {
        self.0.commands.is_too_long
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, expected: Option<&[&str]>) {
        let expected = expected.map(|names| names.iter().map(ToString::to_string).collect());
        assert_eq!(
            CommandLine::parse(line).last_pipeline().map(<[String]>::to_vec),
            expected,
            "{line}"
        );
    }

    #[test]
    fn stages_of_the_last_pipeline_are_found() {
        check("a | b", Some(&["a", "b"]));
        check(
            "a 2>&1 |& b 'x | y' | c \"; $z\" # d | e",
            Some(&["a 2>&1", "b 'x | y'", "c \"; $z\""]),
        );
        check("cd x && a | b;", Some(&["a", "b"]));
        check("cd x\na |\n  b\n", Some(&["a", "b"]));
        check("cd x && a 2>&1 | b > c", Some(&["a 2>&1", "b > c"]));
        check("echo a\\|b &>/dev/null | c >| d", Some(&["echo a\\|b &>/dev/null", "c >| d"]));
        check("find . | xargs -I{} wc {}", Some(&["find .", "xargs -I{} wc {}"]));
        check("a ${x#|} | b", Some(&["a ${x#|}", "b"]));
        check("a $'\\'' | b", Some(&["a $'\\''", "b"]));
        check("a; b", Some(&["b"]));
    }

    #[test]
    fn ambiguous_last_pipeline_is_not_reported() {
        for line in [
            "a | b; c | d",
            "a | b || exit; c | d",
            "(a | b)",
            "{ a | b; }",
            "for x in 1; do a | b; done",
            "if a | b; then c; fi",
            "f() { a; }; a | b",
            "! a | b",
            "time a | b",
            "cat <<X | b\n|\nX",
            "a | b &",
            "eval x; a | b",
            ". ./env; a | b",
            "[[ a || b ]]",
            "a 'b | c",
            "a | | b",
            "coproc a | b",
            "a | { b; }",
            "",
        ] {
            check(line, None);
        }
    }

    #[test]
    fn parsed_line_is_cached() {
        let line = CommandLine::parse("a | b");
        assert!(Arc::ptr_eq(&line.0, &CommandLine::parse("a | b").0));
        assert!(!Arc::ptr_eq(&line.0, &CommandLine::parse("a | c").0));
        assert_eq!(CommandLine::parse("a | c").text(), "a | c");
    }

    #[test]
    fn pipelines_are_in_the_order_of_the_text() {
        let line = CommandLine::parse("a | b && c; (d | e); f");
        let pipelines: Vec<String> =
            line.pipelines().iter().map(|pipeline| pipeline.stages.join("|")).collect();
        assert_eq!(pipelines, ["a|b", "c", "", "f"]);
    }
}
