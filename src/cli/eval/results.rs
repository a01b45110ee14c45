//! The directory of the results: `results.jsonl`, the reports, and the state of the sessions.

use std::fs::{self, File, TryLockError};
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

use crate::app::OpenError;
use agent_protocol::disk::{self, ResolvedPath};
use agent_record::eval::report::{self, EvaluationReport};
use agent_record::eval::results::{self, ResultsFile, ResultsHeader, RunResult};

const RESULTS_FILE: &str = "results.jsonl";

/// One process writes the results at a time.
pub(super) struct EvaluationResults {
    pub(super) directory: PathBuf,
    file: File,
    pub(super) header: ResultsHeader,
    pub(super) recorded: ResultsFile,
}

impl EvaluationResults {
    /// Creates the results if there are none. `shown` is the directory as the user named it.
    pub(super) fn open(
        path: &ResolvedPath,
        shown: &Path,
        header: ResultsHeader,
    ) -> Result<Self, OpenError> {
        let shown = shown.display();
        let wrong = |why: &dyn std::fmt::Display| OpenError::Usage(format!("-o {shown}: {why}"));
        path.create_folder_all().map_err(|error| wrong(&error))?;
        let directory = path.path.clone();
        let name = directory.join(RESULTS_FILE);
        let is_empty = fs::read_dir(&directory).map_err(|error| wrong(&error))?.next().is_none();
        if !is_empty && !name.exists() {
            return Err(wrong(&"holds other files than results; name a new directory"));
        }
        let mut file = disk::open_for_append(&name, true).map_err(|error| wrong(&error))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let why = format!("-o {shown}: another evaluation writes there");
                return Err(OpenError::InUse(why));
            }
            Err(TryLockError::Error(error)) => return Err(wrong(&error)),
        }
        let mut text = String::new();
        file.read_to_string(&mut text).map_err(|error| wrong(&error))?;
        let mut recorded = results::parse_results(&text)
            .map_err(|error| wrong(&format!("{RESULTS_FILE}, {error}")))?;
        let obstacle = recorded.header.as_ref().and_then(|it| it.continuation_obstacle(&header));
        if let Some(why) = obstacle {
            return Err(wrong(&format!(
                "these results cannot be continued: {why}; undo that, or name a new directory"
            )));
        }
        // The program ended in the middle of a line.
        file.set_len(recorded.complete_bytes as u64).map_err(|error| wrong(&error))?;
        let header = match recorded.header.take() {
            Some(recorded) => recorded,
            None => {
                let line = serde_json::to_string(&header).unwrap_or_default();
                file.write_all(format!("{line}\n").as_bytes()).map_err(|error| wrong(&error))?;
                header
            }
        };
        Ok(Self { directory, file, header, recorded })
    }

    pub(super) fn add(&mut self, run: RunResult) -> Result<(), OpenError> {
        let line = serde_json::to_string(&run).unwrap_or_default();
        // One call: a line is written completely, or cut off at the end.
        let written = self.file.write_all(format!("{line}\n").as_bytes());
        written.map_err(|error| self.write_error(RESULTS_FILE, &error))?;
        self.recorded.add_run(run);
        Ok(())
    }

    pub(super) fn write_report(&self, report: &EvaluationReport) -> Result<(), OpenError> {
        let directory = self.directory.display().to_string();
        let json = serde_json::to_string_pretty(report).unwrap_or_default() + "\n";
        for (name, text) in
            [("report.md", report::render_markdown(report, &directory)), ("report.json", json)]
        {
            disk::replace_file(&self.directory.join(name), text.as_bytes())
                .map_err(|error| self.write_error(name, &error))?;
        }
        Ok(())
    }

    fn write_error(&self, name: &str, error: &std::io::Error) -> OpenError {
        OpenError::Usage(format!("{}/{name}: {error}", self.directory.display()))
    }
}
