//! What a killed program left beside a file that it was changing.

use std::fs;
use std::path::Path;

use super::Workspace;
use super::snapshot::FileStat;

/// What a file looked like when it was read: time of change in milliseconds, and size.
pub type Seen = (i64, u64);

impl Workspace {
    /// Removes the temporary files that programs which are gone left beside this file. `seen` is what
    /// the file to be changed looked like; `None`: there was none. A temporary file is removed only
    /// where it is certain that its bytes are ours (the swap had not happened) or those that were
    /// seen (it had); any other could be somebody's, and is named instead.
    pub fn sweep(&self, path: &str, seen: Option<Seen>) -> Vec<String> {
        let Ok(path) = self.resolve(path) else { return Vec::new() };
        let looks_as_seen = |path: &Path| {
            let stat = fs::symlink_metadata(path).map(|data| FileStat::of(&data));
            stat.is_ok_and(|stat| seen == Some((stat.mtime_ms(), stat.size)))
        };
        let not_swapped = seen.is_none() || looks_as_seen(path.absolute());
        let folder = path.absolute().parent().and_then(|folder| fs::read_dir(folder).ok());
        let mut left = Vec::new();
        for entry in folder.into_iter().flatten().flatten() {
            let Some(writer) = entry.file_name().to_str().and_then(writer_of) else { continue };
            if Path::new("/proc").join(writer.to_string()).exists() {
                continue;
            }
            let file = entry.path();
            let is_ours = not_swapped || looks_as_seen(&file);
            if !is_ours || fs::remove_file(&file).is_err() {
                left.push(self.display(&file));
            }
        }
        left
    }
}

/// The process that made a temporary file of this name.
fn writer_of(name: &str) -> Option<u32> {
    let rest = name.strip_prefix(".agent-")?.strip_suffix(".tmp")?;
    let (pid, number) = rest.split_once('-')?;
    number.parse::<u64>().ok()?;
    pid.parse().ok()
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test may panic")]

    use super::*;

    // No process has this number: they end at 4194304.
    const TEMPORARY: &str = ".agent-99999999-0.tmp";

    fn seen(path: &Path) -> Seen {
        let stat = FileStat::of(&fs::metadata(path).unwrap());
        (stat.mtime_ms(), stat.size)
    }

    #[test]
    fn ours_and_what_was_seen_go_and_anybody_elses_stays() {
        let dir = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(dir.path(), &[]).unwrap();
        let (target, temporary) = (dir.path().join("a"), dir.path().join(TEMPORARY));
        fs::write(&target, "old").unwrap();
        let old = Some(seen(&target));

        fs::write(&temporary, "new, not swapped yet").unwrap();
        assert_eq!(workspace.sweep("a", old), [""; 0]);
        assert!(!temporary.exists());

        fs::rename(&target, &temporary).unwrap();
        fs::write(&target, "new, swapped").unwrap();
        assert_eq!(workspace.sweep("a", old), [""; 0]);
        assert!(!temporary.exists());

        fs::write(&temporary, "somebody's").unwrap();
        assert_eq!(workspace.sweep("a", old), [TEMPORARY]);
        assert!(temporary.exists());
    }

    #[test]
    fn a_living_writers_file_stays() {
        let dir = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(dir.path(), &[]).unwrap();
        let name = format!(".agent-{}-0.tmp", std::process::id());
        fs::write(dir.path().join(&name), "new").unwrap();
        assert_eq!(workspace.sweep("a", None), [""; 0]);
        assert!(dir.path().join(&name).exists());
    }
}
