//! Reads objects and revisions of a git repository.

use std::collections::HashMap;
use std::ffi::OsString;
use std::io::{self, BufRead as _, Read as _, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

/// Git variables that select another repository than the one around the directory.
const REPOSITORY_VARIABLES: [&str; 6] = [
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_COMMON_DIR",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_CEILING_DIRECTORIES",
];

/// Git, found in this environment.
#[derive(Clone, Debug)]
pub struct Git {
    environment: Vec<(OsString, OsString)>,
}

impl Git {
    /// The environment should name no directory that commands can write.
    pub fn new(environment: Vec<(OsString, OsString)>) -> Self {
        Self { environment }
    }

    /// Contents of the blobs by id, as far as the repository has them. Runs no filter, hook or monitor of it.
    pub fn read_blobs(
        &self,
        directory: &Path,
        ids: &[String],
    ) -> io::Result<HashMap<String, Vec<u8>>> {
        let mut git =
            self.command(directory).args(["cat-file", "--batch"]).stdin(Stdio::piped()).spawn()?;
        let (Some(mut stdin), Some(stdout)) = (git.stdin.take(), git.stdout.take()) else {
            return Err(io::ErrorKind::BrokenPipe.into());
        };
        let request: String = ids.iter().map(|id| format!("{id}\n")).collect();
        let blobs = std::thread::scope(|scope| {
            let writer = scope.spawn(move || stdin.write_all(request.as_bytes()));
            let mut stdout = io::BufReader::new(stdout);
            let mut blobs = HashMap::new();
            for id in ids {
                let mut header = String::new();
                stdout.read_line(&mut header)?;
                // `<id> blob <size>`, or `<id> missing`.
                let Some(size) = header.trim_end().strip_prefix(&format!("{id} blob ")) else {
                    continue;
                };
                let size: usize = size.parse().map_err(io::Error::other)?;
                let mut bytes = vec![0; size + 1];
                stdout.read_exact(&mut bytes)?;
                bytes.truncate(size);
                blobs.insert(id.clone(), bytes);
            }
            let written = writer.join().unwrap_or(Ok(()));
            written.map(|()| blobs)
        });
        let ended = git.wait();
        blobs.and_then(|blobs| ended.map(|_| blobs))
    }

    /// The id of the commit that a revision names; `None` if there is no such commit or no repository.
    pub fn commit_id(&self, directory: &Path, revision: &str) -> io::Result<Option<String>> {
        let commit = format!("{revision}^{{commit}}");
        self.first_line(
            directory,
            &["rev-parse", "--verify", "--quiet", "--end-of-options", &commit],
        )
    }

    /// The best common ancestor of two commits; `None` if there is none.
    pub fn merge_base(
        &self,
        directory: &Path,
        one: &str,
        other: &str,
    ) -> io::Result<Option<String>> {
        self.first_line(directory, &["merge-base", one, other])
    }

    /// Whether the directory is in the working tree of a repository.
    pub fn is_work_tree(&self, directory: &Path) -> io::Result<bool> {
        let answer = self.first_line(directory, &["rev-parse", "--is-inside-work-tree"])?;
        Ok(answer.as_deref() == Some("true"))
    }

    fn first_line(&self, directory: &Path, arguments: &[&str]) -> io::Result<Option<String>> {
        let output = self.command(directory).args(arguments).stdin(Stdio::null()).output()?;
        let text = String::from_utf8_lossy(&output.stdout);
        Ok(text.lines().next().filter(|_| output.status.success()).map(str::to_owned))
    }

    /// Only for subcommands that run nothing of the repository.
    fn command(&self, directory: &Path) -> Command {
        #[expect(clippy::disallowed_methods, reason = "this module starts processes")]
        let mut git = Command::new("git");
        git.env_clear().envs(self.environment.iter().map(|(name, value)| (name, value)));
        // A hook of another repository may have started the agent.
        for name in REPOSITORY_VARIABLES {
            git.env_remove(name);
        }
        // Repositories of other users are read as well.
        git.args(["-c", "core.fsmonitor=false", "-c", "safe.directory=*"])
            .current_dir(directory)
            .env("GIT_NO_LAZY_FETCH", "1")
            .env("GIT_TERMINAL_PROMPT", "0")
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        git
    }
}
