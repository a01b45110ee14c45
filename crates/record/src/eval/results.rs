//! The file of results: a line for the evaluation, then one for each run.

use serde::{Deserialize, Serialize};

use super::variants::Variant;

/// The version of the format.
pub const FORMAT: u32 = 1;

/// The first line: what is evaluated. An evaluation continues only if nothing of it has changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResultsHeader {
    /// The version of the format.
    pub format: u32,
    /// The name of the suite.
    pub suite: String,
    /// A hash of the suite, with the files of its tasks.
    pub suite_hash: String,
    /// The version of the program.
    pub program: String,
    /// When it began.
    pub started: String,
    /// The variants, the one that others are compared with first.
    pub variants: Vec<EvaluatedVariant>,
}

/// A variant with what it resulted in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EvaluatedVariant {
    /// The variant.
    #[serde(flatten)]
    pub variant: Variant,
    /// The configured model.
    pub model: String,
    /// A hash of its whole configuration and of its prompts.
    pub configuration_hash: String,
}

impl ResultsHeader {
    /// Why results with this header cannot be continued as `now`; `None` if they can.
    pub fn continuation_obstacle(&self, now: &Self) -> Option<String> {
        if self.format != now.format {
            return Some(format!(
                "they have format {}, and this program writes format {}",
                self.format, now.format
            ));
        }
        if self.suite != now.suite {
            return Some(format!("they are of suite {}, not {}", self.suite, now.suite));
        }
        if self.suite_hash != now.suite_hash {
            return Some(format!("suite {} has changed since", now.suite));
        }
        if self.program != now.program {
            return Some(format!("they are of agent {}, not {}", self.program, now.program));
        }
        let names = |header: &Self| -> Vec<String> {
            header.variants.iter().map(|it| it.variant.name.clone()).collect()
        };
        let (before, after) = (names(self), names(now));
        if before != after {
            return Some(format!(
                "they are of the variants {}, not {}",
                before.join(", "),
                after.join(", ")
            ));
        }
        let mut pairs = self.variants.iter().zip(&now.variants);
        let changed = pairs.find(|(before, after)| {
            before.configuration_hash != after.configuration_hash
                || before.variant.changes != after.variant.changes
        });
        changed.map(|(variant, _)| {
            format!("the configuration of variant {} has changed since", variant.variant.name)
        })
    }
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RunOutcome {
    /// The agent ended with an answer, and all checks passed.
    Success,
    /// The agent did not end with an answer, or a check failed.
    Failure,
    /// The run could not be carried out: it says nothing about the variant, and is repeated when the evaluation is
    /// continued.
    Error,
}

/// One run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunResult {
    /// The task.
    pub task: String,
    /// The variant.
    pub variant: String,
    /// The repetition, from 1.
    pub repetition: u32,
    /// How it ended.
    pub outcome: RunOutcome,
    /// Why it did not succeed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The checks that ran.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<CheckResult>,
    /// What the agent recorded; `None` if it did not start.
    #[serde(flatten)]
    pub session: Option<SessionResult>,
}

/// What the agent recorded in a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SessionResult {
    /// The id of the session.
    pub session: String,
    /// Its log, relative to the directory of the results.
    pub log: String,
    /// The model that answered first.
    pub model: String,
    /// How the turn ended; `None` if it did not.
    pub ending: Option<String>,
    /// Model calls of the loop.
    pub steps: u32,
    /// Tokens of all requests.
    pub input_tokens: u64,
    /// Those that the provider had cached.
    pub cached_tokens: u64,
    /// Tokens of all answers.
    pub output_tokens: u64,
    /// US dollars, if the model's price is known.
    pub cost_usd: Option<f64>,
    /// Time of the turn.
    pub time_ms: u64,
}

/// One check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckResult {
    /// The command.
    pub command: String,
    /// Whether it exited 0.
    pub passed: bool,
    /// `exited 1`, `did not end within 60 s`.
    pub how: String,
    /// The end of its output.
    pub tail: String,
}

/// What a file of results contains.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ResultsFile {
    /// The first line; `None`: there is none yet.
    pub header: Option<ResultsHeader>,
    /// The runs; of two of the same task, variant and repetition the later one.
    pub runs: Vec<RunResult>,
    /// The length of the complete lines in bytes. What follows was cut off when the program ended.
    pub complete_bytes: usize,
}

/// Reads the file. An error names the line.
pub fn parse_results(text: &str) -> Result<ResultsFile, String> {
    let whole = text.rfind('\n').map_or(0, |end| end + 1);
    let mut recorded = ResultsFile { complete_bytes: whole, ..ResultsFile::default() };
    for (number, line) in text[..whole].lines().enumerate() {
        let wrong = |error: serde_json::Error| format!("line {}: {error}", number + 1);
        if number == 0 {
            recorded.header = Some(serde_json::from_str(line).map_err(wrong)?);
            continue;
        }
        let run: RunResult = serde_json::from_str(line).map_err(wrong)?;
        recorded.add_run(run);
    }
    Ok(recorded)
}

impl ResultsFile {
    /// Adds a run, in place of an earlier one.
    pub fn add_run(&mut self, run: RunResult) {
        let is_same = |known: &&mut RunResult| {
            (known.task == run.task)
                && known.variant == run.variant
                && known.repetition == run.repetition
        };
        match self.runs.iter_mut().find(is_same) {
            Some(known) => *known = run,
            None => self.runs.push(run),
        }
    }

    /// The result of this run says something about the variant.
    pub fn is_done(&self, task: &str, variant: &str, repetition: u32) -> bool {
        self.runs.iter().any(|run| {
            run.outcome != RunOutcome::Error
                && run.task == task
                && run.variant == variant
                && run.repetition == repetition
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(repetition: u32, outcome: RunOutcome) -> RunResult {
        RunResult {
            task: "a".to_owned(),
            variant: "base".to_owned(),
            repetition,
            outcome,
            reason: None,
            checks: Vec::new(),
            session: None,
        }
    }

    fn header() -> ResultsHeader {
        ResultsHeader {
            format: FORMAT,
            suite: "s".to_owned(),
            suite_hash: "1".to_owned(),
            program: "0".to_owned(),
            started: String::new(),
            variants: Vec::new(),
        }
    }

    #[test]
    fn cut_off_line_is_left_out_and_a_repeated_run_replaces_the_first() {
        let line = |run: &RunResult| serde_json::to_string(run).expect("JSON") + "\n";
        let head = serde_json::to_string(&header()).expect("JSON") + "\n";
        let whole = [
            head.as_str(),
            &line(&run(1, RunOutcome::Error)),
            &line(&run(2, RunOutcome::Failure)),
            &line(&run(1, RunOutcome::Success)),
        ]
        .concat();
        let recorded = parse_results(&format!("{whole}{{\"task\":\"a")).expect("results");
        assert_eq!(recorded.header, Some(header()));
        assert_eq!(recorded.complete_bytes, whole.len());
        assert_eq!(recorded.runs, [run(1, RunOutcome::Success), run(2, RunOutcome::Failure)]);
        assert!(recorded.is_done("a", "base", 1) && !recorded.is_done("a", "base", 3));
        assert_eq!(parse_results("{\"format\"").expect("nothing"), ResultsFile::default());
        assert!(parse_results("{}\n").expect_err("no header").starts_with("line 1: "));
    }

    #[test]
    fn changed_evaluation_is_not_continued() {
        assert_eq!(header().continuation_obstacle(&header()), None);
        let now = ResultsHeader { started: "later".to_owned(), ..header() };
        assert_eq!(header().continuation_obstacle(&now), None);
        let now = ResultsHeader { suite_hash: "2".to_owned(), ..header() };
        let why = header().continuation_obstacle(&now);
        assert_eq!(why.as_deref(), Some("suite s has changed since"));
    }
}
