//! The file of results: one line for the evaluation, then one for each run.

use serde::{Deserialize, Serialize};

use super::variants::Variant;

pub const FORMAT: u32 = 1;

/// The first line: the evaluated configuration. An evaluation continues only if it is unchanged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResultsHeader {
    pub format: u32,
    pub suite: String,
    pub suite_hash: String,
    pub program: String,
    pub started: String,
    /// The variants; the first one is the baseline.
    pub variants: Vec<EvaluatedVariant>,
}

/// A variant with its effective model and configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EvaluatedVariant {
    #[serde(flatten)]
    pub variant: Variant,
    pub model: String,
    /// Hash of the whole configuration and of the prompts.
    pub configuration_hash: String,
}

impl ResultsHeader {
    /// Why results with this header cannot be continued as `now`; `None` if they can.
    pub fn continuation_obstacle(&self, now: &Self) -> Option<String> {
        if self.format != now.format || self.program != now.program {
            return Some(format!("they are of agent {}, not {}", self.program, now.program));
        }
        if (&self.suite, &self.suite_hash) != (&now.suite, &now.suite_hash) {
            return Some(format!("suite {} has changed since", now.suite));
        }
        let is_changed = self.variants != now.variants;
        is_changed
            .then(|| "the variants, or the configuration of one, have changed since".to_owned())
    }
}

/// The result of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RunOutcome {
    /// The agent ended with an answer, and all checks passed.
    Success,
    /// The agent did not end with an answer, or a check failed.
    Failure,
    /// Not carried out: no result of the variant, and repeated when the evaluation continues.
    Error,
}

/// The outcome of one run, with its checks and its session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunResult {
    pub task: String,
    pub variant: String,
    pub repetition: u32,
    pub outcome: RunOutcome,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<CheckResult>,
    /// `None` if the agent did not start.
    #[serde(flatten)]
    pub session: Option<SessionResult>,
}

impl RunResult {
    fn key(&self) -> (&str, &str, u32) {
        (&self.task, &self.variant, self.repetition)
    }
}

/// Figures from the record of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SessionResult {
    pub session: String,
    /// Path of the log, relative to the directory of the results.
    pub log: String,
    /// The model that answered first.
    pub model: String,
    /// The ending of the turn; `None` without an end.
    pub ending: Option<String>,
    pub steps: u32,
    pub input_tokens: u64,
    pub cached_tokens: u64,
    pub output_tokens: u64,
    /// US dollars; `None` if the model's price is unknown.
    pub cost_usd: Option<f64>,
    pub time_ms: u64,
}

/// The result of one check command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckResult {
    pub command: String,
    pub passed: bool,
    /// The end as text: `exited 1`, `did not end within 60 s`.
    pub how: String,
    pub tail: String,
}

/// The contents of a results file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ResultsFile {
    /// The first line; `None` in an empty file.
    pub header: Option<ResultsHeader>,
    /// One run for each task, variant and repetition: the latest.
    pub runs: Vec<RunResult>,
    /// Length of the complete lines in bytes. The rest was cut off when the program ended.
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
    /// Adds a run, or replaces an earlier one.
    pub fn add_run(&mut self, run: RunResult) {
        match self.runs.iter_mut().find(|other| other.key() == run.key()) {
            Some(earlier) => *earlier = run,
            None => self.runs.push(run),
        }
    }

    /// Whether this run succeeded or failed, so that it need not be repeated.
    pub fn is_done(&self, task: &str, variant: &str, repetition: u32) -> bool {
        self.runs
            .iter()
            .any(|run| run.outcome != RunOutcome::Error && run.key() == (task, variant, repetition))
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
