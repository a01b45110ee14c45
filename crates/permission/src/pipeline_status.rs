//! Determines which pipelines of a line ran, and the status of each stage, from bash's reports of the last
//! pipeline before each command and at the end. Without a consistent match there is no result.

use super::command_line::CommandLine;
use super::judge::{self, Command};
use super::shell::Pipeline;

/// A pipeline that ran.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PipelineRun {
    /// The text, if it is known, and the exit status of each.
    pub stages: Vec<(Option<String>, i32)>,
    /// The line says with `||` what follows a failure.
    pub is_handled: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RunCondition {
    Always,
    Success,
    Failure,
}

impl CommandLine {
    /// Whether the line has several pipelines to which statuses can be assigned.
    pub fn needs_all_statuses(&self) -> bool {
        self.pipelines().len() > 1 && self.runs_as_written() && self.run_conditions().is_some()
    }

    /// What exit status 1 of the line states, if the command that determined it gave an answer; `recorded` as for
    /// [`Self::pipeline_runs`], or only the last report.
    pub fn answer(&self, recorded: &[Vec<i32>]) -> Option<&'static str> {
        let (stage, status) = match self.pipelines() {
            [only] if self.runs_as_written() => {
                (only.stages.last()?.clone(), *recorded.last()?.last()?)
            }
            all if all.iter().flat_map(|one| &one.stages).any(|stage| ends_shell(stage)) => {
                return None;
            }
            _ => {
                let (stage, status) = self.pipeline_runs(recorded)?.pop()?.stages.pop()?;
                (stage?, status)
            }
        };
        Self::stage_answer(&stage).filter(|_| status == 1)
    }

    /// What exit status 1 of this simple command states; `None` if it is a failure.
    pub fn stage_answer(stage: &str) -> Option<&'static str> {
        let line = Self::parse(stage);
        let mut commands = line.commands().iter().filter(|command| !command.is_wrapper);
        let answer = judge::answer(commands.next()?);
        let is_alone = commands.next().is_none() || line.has_substitution();
        answer.filter(|_| is_alone && line.is_fully_parsed())
    }

    /// The pipelines that ran; `recorded`: bash's reports before each command and at its end.
    pub fn pipeline_runs(&self, recorded: &[Vec<i32>]) -> Option<Vec<PipelineRun>> {
        let after = self.run_conditions().filter(|_| self.runs_as_written())?;
        let end = recorded.len().checked_sub(1)?;
        let mut ran = Vec::new();
        let (mut at, mut status, mut is_strict) = (0, 0, false);
        for (n, pipeline) in self.pipelines().iter().enumerate() {
            let is_due = match after[n] {
                RunCondition::Always => true,
                RunCondition::Success => status == 0,
                RunCondition::Failure => status != 0,
            };
            if !is_due {
                continue;
            }
            let n_stages = pipeline.stages.len();
            // The shell exited before this one started: `set -e`, or a signal.
            if at == end {
                return Some(ran);
            }
            // There is one report per stage, all of the previous pipeline.
            let begun = recorded.get(at..at + n_stages)?;
            if begun.iter().any(|codes| *codes != begun[0]) {
                return None;
            }
            // `exit` exits the shell.
            if n_stages == 1 && ends_shell(&pipeline.stages[0]) {
                return (at + 1 == end).then_some(ran);
            }
            at += n_stages;
            let codes = recorded.get(at).filter(|codes| codes.len() == n_stages)?;
            status = if is_strict {
                codes.iter().rev().find(|code| **code != 0).copied().unwrap_or_default()
            } else {
                *codes.last()?
            };
            is_strict |= pipeline.stages[0].contains("pipefail");
            let texts = pipeline.stages.iter().cloned().map(Some);
            let stages = texts.zip(codes.iter().copied()).collect();
            let mut list =
                after[n + 1..].iter().take_while(|after| **after != RunCondition::Always);
            let is_handled = list.any(|after| *after == RunCondition::Failure);
            ran.push(PipelineRun { stages, is_handled });
        }
        (at == end).then_some(ran)
    }

    /// The programs (of [`CommandLine::programs`]) that may fail although the line exits with 0.
    pub fn unproven_programs(&self) -> Vec<String> {
        let mut programs = self.programs();
        let proven: Vec<String> = match self.proven_pipelines() {
            Some(all) if all.len() == self.pipelines().len() => return Vec::new(),
            Some(pipelines) => {
                let text = |pipeline: &Pipeline| pipeline.stages.join("|");
                pipelines.iter().flat_map(|one| Self::parse(&text(one)).programs()).collect()
            }
            None => Vec::new(),
        };
        programs.retain(|program| !proven.contains(program));
        programs
    }

    /// `None` if not certain: with a `cd`, only if `&&` joins all commands.
    pub(super) fn directory_of<'a>(&self, command: &'a Command) -> Option<&'a str> {
        let changes = |command: &Command| matches!(command.name(), "cd" | "pushd" | "popd");
        let is_certain = !self.commands().iter().any(changes)
            || self.proven_pipelines().is_some_and(|proven| proven.len() == self.pipelines().len());
        command.directory.as_deref().filter(|_| is_certain)
    }

    /// The pipelines at the end that `&&` joins: they have succeeded if the line exits with 0.
    fn proven_pipelines(&self) -> Option<&[Pipeline]> {
        let pipelines = self.pipelines();
        let after = self.run_conditions()?;
        let rest = self.text().get(pipelines.last()?.at.end..)?.trim_start();
        let is_simple = self.is_fully_parsed()
            && pipelines.iter().all(|one| one.is_simple)
            && !pipelines.iter().flat_map(|one| &one.stages).any(|stage| ends_shell(stage));
        let first =
            after.iter().rposition(|after| *after == RunCondition::Always).unwrap_or_default();
        let is_joined = !after[first..].contains(&RunCondition::Failure) && !rest.starts_with('&');
        (is_simple && is_joined).then_some(&pipelines[first..])
    }

    /// `None` if the operators are not simple.
    fn run_conditions(&self) -> Option<Vec<RunCondition>> {
        let mut end = 0;
        let mut after = Vec::new();
        for pipeline in self.pipelines() {
            let between = self.text().get(end..pipeline.at.start)?;
            let code = between.lines().map(|line| line.split('#').next().unwrap_or_default());
            let marks: String = code.flat_map(str::split_whitespace).collect();
            after.push(match marks.as_str() {
                "" | ";" => RunCondition::Always,
                "&&" => RunCondition::Success,
                "||" => RunCondition::Failure,
                _ => return None,
            });
            end = pipeline.at.end;
        }
        // Other ways to change `pipefail` are not detected.
        let text = self.text();
        let is_followed = !text.contains("+o") && !text.contains("shopt");
        is_followed.then_some(after)
    }
}

fn ends_shell(stage: &str) -> bool {
    matches!(stage.split_ascii_whitespace().next(), Some("exit" | "exec" | "return"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `recorded`: separated by spaces, `0|1 0|0`.
    fn reports(recorded: &str) -> Vec<Vec<i32>> {
        let codes = |codes: &str| codes.split('|').map(|code| code.parse().expect(code)).collect();
        recorded.split(' ').map(codes).collect()
    }

    fn check(line: &str, recorded: &str, expected: Option<&[&str]>) {
        let ran = CommandLine::parse(line).pipeline_runs(&reports(recorded));
        let stage = |(text, code): &(Option<String>, i32)| {
            format!("{}={code}", text.as_deref().unwrap_or_default())
        };
        let shown: Option<Vec<String>> = ran.map(|ran| {
            ran.iter()
                .map(|one| one.stages.iter().map(stage).collect::<Vec<_>>().join(" | "))
                .collect()
        });
        let shown: Option<Vec<&str>> =
            shown.as_ref().map(|shown| shown.iter().map(String::as_str).collect());
        assert_eq!(shown.as_deref(), expected, "{line}");
    }

    #[test]
    fn statuses_are_assigned_to_every_pipeline_that_ran() {
        check("a | b; c", "0 0 1|0 0", Some(&["a=1 | b=0", "c=0"]));
        check("a | b && c | d", "0 0 2|0 2|0 0|0", Some(&["a=2 | b=0", "c=0 | d=0"]));
        check("a | b || c; d", "0 0 0|0 0", Some(&["a=0 | b=0", "d=0"]));
        check("a | b && c; d", "0 0 0|1 0", Some(&["a=0 | b=1", "d=0"]));
        check("a\nb | c\nd", "0 0 0 1|0 0", Some(&["a=0", "b=1 | c=0", "d=0"]));
        check("# x\na | b # y; z\n# && z\nd", "0 0 0|0 0", Some(&["a=0 | b=0", "d=0"]));
        check("a | b && # y\nd", "0 0 0|1", Some(&["a=0 | b=1"]));
        check(
            "set -o pipefail; a | b && c; d",
            "0 0 0 1|0 0",
            Some(&["set -o pipefail=0", "a=1 | b=0", "d=0"]),
        );
        check(
            "grep x y | cat; a | b | c && echo a | cat",
            "0 0 2|0 2|0 2|0 0|1|0 0|1|0 0|0",
            Some(&["grep x y=2 | cat=0", "a=0 | b=1 | c=0", "echo a=0 | cat=0"]),
        );
        // The shell ended early.
        check("set -e; a | b; c", "0 0 0 0|1", Some(&["set -e=0", "a=0 | b=1"]));
        check("a | b; exit 3; c", "0 0 1|0 1|0", Some(&["a=1 | b=0"]));
    }

    #[test]
    fn failure_before_an_alternative_is_handled() {
        for (line, recorded, expected) in [
            ("a; b", "0 1 0", ""),
            ("a && b; c || d", "0 1 0", "c"),
            ("a || b; c", "0 1 0 0", "a"),
            ("a && b || c", "0 1 0", "a"),
        ] {
            let recorded: Vec<Vec<i32>> =
                recorded.split(' ').map(|code| vec![code.parse().expect(line)]).collect();
            let ran = CommandLine::parse(line).pipeline_runs(&recorded).expect(line);
            let handled = ran
                .iter()
                .filter(|one| one.is_handled)
                .filter_map(|one| one.stages[0].0.as_deref());
            assert_eq!(handled.collect::<Vec<_>>().join(" "), expected, "{line}");
        }
    }

    #[test]
    fn inconsistent_status_reports_are_discarded() {
        check("a | b; c", "0 0 1|0 0 0", None);
        check("a | b; c", "0 1 1|0 0", None);
        check("a | b; c", "0 0 0 0", None);
        check("(a | b); c", "0 0|0 0", None);
        check("for x in 1; do a | b; done; c", "0 0 0|0 0", None);
        check("set +o pipefail; a | b; c", "0 0 0 0|0 0", None);
        check("a", "0", Some(&[]));
    }

    #[test]
    fn programs_are_proven_by_the_status_of_the_line() {
        for (line, expected) in [
            ("make", ""),
            ("cd web && make 2>&1", ""),
            ("cd web; make", ""),
            ("export A=1; make && make test", ""),
            ("echo start; make | tail -2", ""),
            ("source bin/activate && time make", ""),
            ("cat a", ""),
            ("touch a; make", "touch a"),
            ("make clean; make", "make clean"),
            ("cat a; cat b", "cat a"),
            ("cat a 2>/dev/null || echo none", "cat a, echo none"),
            ("make || true", "make"),
            ("make; echo exit=$?", "make"),
            ("make & wait; echo done", "make"),
            ("make &", "make"),
            ("! make", "make"),
            ("make -q && exit 0; make all", "make, make all"),
            ("if make; then echo yes; fi", "make"),
            ("(cd web && make)", "make"),
        ] {
            assert_eq!(CommandLine::parse(line).unproven_programs().join(", "), expected, "{line}");
        }
    }

    #[test]
    fn all_status_reports_are_requested_for_several_pipelines() {
        for (line, expected) in [
            ("a | b; c", true),
            ("a | b && c | d", true),
            ("a | b", false),
            ("a; b", true),
            ("a && b | c", true),
            ("a", false),
            ("a; b | c", true),
            ("a | b; (c)", false),
            ("a | b; trap x DEBUG", false),
            ("a | b; c &", false),
            ("a | b; c $(d; e) | f; g", true),
            ("for x in 1 2; do a; done; b", false),
        ] {
            assert_eq!(CommandLine::parse(line).needs_all_statuses(), expected, "{line}");
        }
    }

    #[test]
    fn status_1_is_an_answer_of_the_command_that_determined_it() {
        const NO_LINES: Option<&str> = Some("no lines selected");
        for (line, recorded, expected) in [
            ("grep -q x a", "1", NO_LINES),
            ("a | LC_ALL=C timeout 9 git -C web grep x", "0|1", NO_LINES),
            ("grep -q x $(ls)", "1", NO_LINES),
            ("x=$(grep -q x a)", "1", None),
            ("rg x | wc -l", "1|1", None),
            ("grep x nofile", "2", None),
            ("./grep x a", "1", None),
            ("! grep x a", "1", None),
            ("git diff --quiet", "1", Some("the inputs differ")),
            ("git stash", "1", None),
            ("[ -f a ] && make", "0 1", Some("false")),
            ("[ -f a ] && make", "0 0 1", None),
            ("make; cmp a b", "0 1 1", Some("the inputs differ")),
            ("set -e; make; cmp a b", "0 0 1", None),
            ("grep -q x a || exit 1", "0 1 1", None),
            ("make; grep x a", "1", None),
        ] {
            assert_eq!(CommandLine::parse(line).answer(&reports(recorded)), expected, "{line}");
        }
    }
}
