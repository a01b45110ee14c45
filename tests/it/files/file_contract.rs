//! `docs/TOOLS.md`, statement by statement, for the seven file tools.

mod common;
mod edit;
mod glob;
mod grep;
mod ls;
mod multi_edit;
mod read;
mod write;

use std::fs::File;
use std::time::{Duration, SystemTime};

use crate::support::batch::Project;

/// A project in which each file is older than the one before it.
fn aged(files: &[(&str, &str)]) -> Project {
    let project = Project::new(files);
    for (age, (path, _)) in files.iter().enumerate() {
        set_age(&project, path, age as u64 * 60);
    }
    project
}

fn set_age(project: &Project, path: &str, seconds: u64) {
    let time = SystemTime::now() - Duration::from_secs(seconds);
    File::options().write(true).open(project.at(path)).unwrap().set_modified(time).unwrap();
}
