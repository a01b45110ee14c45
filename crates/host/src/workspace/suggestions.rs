//! Suggestions for paths that do not exist, and names that look the same.

use std::cmp::Reverse;
use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::walk::{Walk, WalkRules};
use super::{ProjectPath, Workspace};
use agent_protocol::envelope::{ErrorCode, Failure};
use agent_protocol::typed_name;
use parking_lot::Mutex;

const MAX_ENTRIES: usize = 20_000;
const MAX_TIME: Duration = Duration::from_millis(150);
/// Of the score of two paths, which is at most 3,000,000.
const MIN_SCORE: u64 = 2_000_000;

/// The only entry of the directory whose name differs from this one in the kind of its blanks or in the composition
/// of its letters, which is not visible.
pub(super) fn entry_that_looks_like(path: &Path) -> Option<OsString> {
    let name = path.file_name()?.to_str()?;
    if name.is_ascii() && !name.contains(' ') {
        return None;
    }
    let typed = typed_name(name);
    let entries = fs::read_dir(path.parent()?).ok()?.take(MAX_ENTRIES);
    let names = entries.filter_map(|entry| Some(entry.ok()?.file_name()));
    let mut alike = names.filter(|name| name.to_str().is_some_and(|it| typed_name(it) == typed));
    alike.next().filter(|_| alike.next().is_none())
}

impl Workspace {
    /// `NOT_FOUND`, with the three most similar existing names.
    pub(super) fn not_found_failure(&self, path: &ProjectPath) -> Failure {
        let message = format!("{} does not exist", path.relative());
        let nearest = self.nearest_names(path);
        let failure = path.failure(ErrorCode::NotFound, message);
        if nearest.is_empty() {
            return failure.with_hint("list the directory with LS, or search with Glob");
        }
        let hint = format!("the nearest existing names: {}", nearest.join(", "));
        failure.with_hint(hint).with_data("nearest", nearest)
    }

    fn nearest_names(&self, path: &ProjectPath) -> Vec<String> {
        let Some(root) = self.writable_root(path.absolute()) else { return Vec::new() };
        let best: Mutex<Vec<(Reverse<u64>, ProjectPath)>> = Mutex::default();
        let seen = AtomicUsize::new(0);
        let until = Instant::now() + MAX_TIME;
        let collect_names = |start: &Path, depth: Option<usize>| {
            let walk = Walk { base: self.project_path(start), rules: WalkRules::default(), depth };
            self.walk(&walk, || {
                Box::new(|entry| {
                    let existing = entry.to_project_path();
                    if let Some(score) = similarity(path.relative(), existing.relative()) {
                        let mut best = best.lock();
                        best.push((Reverse(score), existing));
                        best.sort_by(|a, b| (a.0, a.1.relative()).cmp(&(b.0, b.1.relative())));
                        best.dedup();
                        best.truncate(3);
                    }
                    seen.fetch_add(1, Ordering::Relaxed) < MAX_ENTRIES && Instant::now() < until
                })
            });
        };
        // The expected folder comes first: searching all of a large project may take too long.
        let parent = path.absolute().ancestors().skip(1).find(|dir| dir.is_dir());
        if let Some(parent) = parent {
            collect_names(parent, Some(1));
        }
        collect_names(root, None);
        let best = best.into_inner();
        let existing_paths = best.into_iter().filter(|(_, path)| self.still_exists(path));
        existing_paths.map(|(_, path)| path.relative().to_owned()).collect()
    }
}

/// The name counts more than the folders. `None` if they have little in common.
fn similarity(expected: &str, existing: &str) -> Option<u64> {
    let name = |path: &str| path.rsplit('/').next().unwrap_or(path).to_lowercase();
    let names = strsim::jaro_winkler(&name(expected), &name(existing));
    let paths = strsim::jaro_winkler(&expected.to_lowercase(), &existing.to_lowercase());
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to 3e6")]
    let score = ((names * 2.0 + paths) * 1e6) as u64;
    (score >= MIN_SCORE).then_some(score)
}
