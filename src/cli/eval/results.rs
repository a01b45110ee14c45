//! The directory of the results: `results.jsonl`, the reports, and the state of the sessions.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::app::OpenError;
use agent_protocol::disk::{self, ResolvedPath};
use agent_record::eval::report::{self, EvaluationReport};
use agent_record::eval::results::ResultsHeader;

const RESULTS_FILE: &str = "results.jsonl";

pub(super) struct EvaluationResults {
    pub(super) directory: PathBuf,
    file: File,
}

impl EvaluationResults {
    /// In a new or an empty directory. `shown` is the directory as the user named it.
    pub(super) fn create(
        path: &ResolvedPath,
        shown: &Path,
        header: &ResultsHeader,
    ) -> Result<Self, OpenError> {
        let shown = shown.display();
        let wrong = |why: &dyn std::fmt::Display| OpenError::Usage(format!("-o {shown}: {why}"));
        path.create_folder_all().map_err(|error| wrong(&error))?;
        let directory = path.path.clone();
        if fs::read_dir(&directory).map_err(|error| wrong(&error))?.next().is_some() {
            return Err(wrong(&"holds other files; name a new directory"));
        }
        let file = disk::create_file(&directory.join(RESULTS_FILE), 0o644);
        let mut results = Self { directory, file: file.map_err(|error| wrong(&error))? };
        results.add(header)?;
        Ok(results)
    }

    pub(super) fn add(&mut self, line: &impl Serialize) -> Result<(), OpenError> {
        let line = serde_json::to_string(line).unwrap_or_default();
        let written = self.file.write_all(format!("{line}\n").as_bytes());
        written.map_err(|error| self.write_error(RESULTS_FILE, &error))
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
