//! The changes of a session as text.

use std::borrow::Cow;
use std::collections::HashSet;

use super::journal::own_operations;
use super::manifest::{PathName, PathState};
use super::restore::Contents;
use super::undo_plan::UndoPlan;
use super::{Checkpoints, Hash, display_name, is_directory};
use crate::workspace::{Diff, DiffSize, Workspace};
use agent_protocol::disk;

impl Workspace {
    /// The remaining changes of the session as unified diffs, with the number of ignored files. `None` if not recorded.
    pub fn session_diff(&self) -> Option<String> {
        let checkpoints = self.checkpoints()?;
        let operations = checkpoints.journal.read();
        // Undone operations are not effective, so the undo is no change either.
        let own = own_operations(&operations);
        let plan = UndoPlan::of(&own, |operation| &operation.changes);
        let contents =
            checkpoints.read_contents(plan.steps.values().filter_map(|it| it.target.as_ref()));
        let named: HashSet<&PathName> = own
            .iter()
            .flat_map(|it| &it.changes)
            .filter(|change| !change.is_ignored)
            .map(|change| &change.path)
            .collect();
        let (mut text, mut n_ignored) = (String::new(), 0);
        for (name, step) in &plan.steps {
            match checkpoints.diff_of(name, step.target.as_ref(), &contents) {
                Some(diff) if named.contains(name) => text.push_str(&diff),
                Some(_) => n_ignored += 1,
                None => {}
            }
        }
        match n_ignored {
            0 => {}
            1 => text.push_str("1 ignored file changed too; an undo restores it\n"),
            n => text.push_str(&format!("{n} ignored files changed too; an undo restores them\n")),
        }
        Some(text)
    }
}

impl Checkpoints {
    fn diff_of(
        &self,
        name: &PathName,
        before: Option<&PathState>,
        contents: &Contents,
    ) -> Option<String> {
        let path = self.scanner.root().join(name.as_path());
        let now = self.current_entry(name, [before, None]);
        let now = now.as_ref().map(|entry| &entry.state);
        if before == now || is_directory(before, now) {
            return None;
        }
        let old = text_of(before, |hash| Some(contents.get(hash)?.as_ref().ok()?.into()));
        let new = text_of(now, |_| Some(disk::read_file(&path).ok()?.into()));
        let name = display_name(name);
        let side = |state: Option<&PathState>, side: &str| match state {
            Some(_) => format!("{side}/{name}"),
            None => "/dev/null".to_owned(),
        };
        Some(match (old, new) {
            (Some(old), Some(new)) if old == new => {
                let what = match (before, now) {
                    (None, _) => "created, empty",
                    (_, None) => "removed, it was empty",
                    (Some(_), Some(_)) => "other permissions",
                };
                format!("{name}: {what}\n")
            }
            (Some(old), Some(new)) => {
                let (a, b) = (side(before, "a"), side(now, "b"));
                let diff = Diff::after_lines(0, &old, &new, (&a, &b), DiffSize::Whole);
                format!("{}\n", diff.text.trim_end())
            }
            _ => format!("{name}: changed; it is not text, or its content is not stored\n"),
        })
    }
}

fn text_of<'a>(
    state: Option<&PathState>,
    read: impl FnOnce(&Hash) -> Option<Cow<'a, [u8]>>,
) -> Option<String> {
    match state {
        None | Some(PathState::Directory { .. }) => Some(String::new()),
        Some(PathState::Link { target }) => Some(format!("link to {}\n", display_name(target))),
        Some(PathState::File { hash, .. }) => {
            let bytes = read(hash).filter(|bytes| !bytes.contains(&0))?;
            Some(std::str::from_utf8(&bytes).ok()?.replace("\r\n", "\n"))
        }
        Some(PathState::NotCovered { .. }) => None,
    }
}
