//! Reads objects and revisions of a git repository, and makes further working trees and clones of it.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::io::{self, BufRead as _, Read as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
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

    /// The top of the working tree around the directory; `None` outside of one.
    pub fn work_tree(&self, directory: &Path) -> Option<PathBuf> {
        let top = self.run(directory, &["rev-parse", "--show-toplevel"]).ok()?;
        let top = PathBuf::from(OsStr::from_bytes(top.strip_suffix(b"\n")?));
        (!top.as_os_str().is_empty()).then_some(top)
    }

    /// The tracked files of a working tree, and those that are neither tracked nor ignored, relative to it. A nested
    /// repository is one path.
    pub fn project_files(&self, work_tree: &Path) -> io::Result<Vec<PathBuf>> {
        self.list_files(work_tree, &["--cached", "--others", "--exclude-standard"])
    }

    /// The ignored files of a working tree, relative to it; a directory of which all is ignored is one path.
    pub fn ignored_paths(&self, work_tree: &Path) -> io::Result<Vec<PathBuf>> {
        self.list_files(work_tree, &["--others", "--ignored", "--exclude-standard", "--directory"])
    }

    fn list_files(&self, work_tree: &Path, which: &[&str]) -> io::Result<Vec<PathBuf>> {
        let listed = self.run(work_tree, &[&["ls-files", "-z"], which].concat())?;
        let names = listed.split(|byte| *byte == 0).filter(|name| !name.is_empty());
        let mut files: Vec<PathBuf> =
            names.map(|name| PathBuf::from(OsStr::from_bytes(name))).collect();
        // A conflict lists its file several times.
        files.dedup();
        Ok(files)
    }

    /// The location of a file of the repository, such as the index.
    pub fn git_path(&self, work_tree: &Path, name: &str) -> io::Result<PathBuf> {
        let path = self.run(work_tree, &["rev-parse", "--git-path", name])?;
        Ok(work_tree.join(OsStr::from_bytes(path.trim_ascii_end())))
    }

    /// Clones a repository, without checking files out. The objects are read from the original, so that nothing that
    /// is written in the clone can change them; refs are copied, and no remote leads back.
    pub fn clone_shared(&self, from: &Path, to: &Path) -> io::Result<()> {
        let (source, copy) = (from.to_string_lossy(), to.to_string_lossy());
        let clone = ["clone", "--quiet", "--shared", "--no-checkout", "--template=", "--"];
        self.run(from, &[&clone[..], &[&source, &copy]].concat())?;
        self.run(to, &["remote", "remove", "origin"])?;
        let fetch = ["fetch", "--quiet", "--no-tags", "--update-head-ok", "--no-auto-gc", "--"];
        self.run(to, &[&fetch[..], &[&source, "+refs/*:refs/*"]].concat())?;
        Ok(())
    }

    /// Checks `HEAD` out in a new working tree, on a new branch, or an existing branch. Without `runs_filters`, the
    /// programs that the repository's configuration names are not run.
    pub fn add_worktree(
        &self,
        work_tree: &Path,
        to: &Path,
        (branch, is_new_branch): (&str, bool),
        runs_filters: bool,
    ) -> io::Result<()> {
        let copy = to.to_string_lossy();
        let filters = self.disabled_filters(work_tree, runs_filters)?;
        let mut arguments: Vec<&str> = filters.iter().map(String::as_str).collect();
        arguments.extend(["worktree", "add", "--quiet"]);
        if is_new_branch {
            arguments.extend(["-b", branch, "--", &copy, "HEAD"]);
        } else {
            arguments.extend(["--", &copy, branch]);
        }
        self.run(work_tree, &arguments).map(drop)
    }

    /// Removes a working tree.
    pub fn remove_worktree(&self, work_tree: &Path, path: &Path) -> io::Result<()> {
        let path = path.to_string_lossy();
        self.run(work_tree, &["worktree", "remove", "--force", "--", &path]).map(drop)
    }

    /// Removes a branch if `HEAD` has its commits.
    pub fn remove_branch(&self, work_tree: &Path, branch: &str) -> io::Result<()> {
        self.run(work_tree, &["branch", "--quiet", "-d", "--", branch]).map(drop)
    }

    /// Whether a working tree has the files of its `HEAD`, and no others but ignored ones. Git enters no submodule, where it
    /// would run what the configuration there names: with the files of one, a working tree is not clean.
    pub fn is_clean(&self, work_tree: &Path, runs_filters: bool) -> io::Result<bool> {
        let filters = self.disabled_filters(work_tree, runs_filters)?;
        let mut arguments: Vec<&str> = filters.iter().map(String::as_str).collect();
        // Options outrank what the user configured for a quick overview.
        let all = ["--untracked-files=normal", "--ignore-submodules=dirty"];
        arguments.extend(["status", "--porcelain"].into_iter().chain(all));
        let entries = self.run(work_tree, &["ls-files", "-z", "--stage"])?;
        let submodules = entries.split(|byte| *byte == 0).filter(|it| it.starts_with(b"160000 "));
        let has_files = |entry: &[u8]| {
            let name = entry.splitn(2, |byte| *byte == b'\t').nth(1).unwrap_or_default();
            let files = std::fs::read_dir(work_tree.join(OsStr::from_bytes(name)));
            files.is_ok_and(|mut files| files.next().is_some())
        };
        Ok(!submodules.into_iter().any(has_files) && self.run(work_tree, &arguments)?.is_empty())
    }

    /// Options that replace configured filters by none.
    fn disabled_filters(&self, work_tree: &Path, runs_filters: bool) -> io::Result<Vec<String>> {
        if runs_filters {
            return Ok(Vec::new());
        }
        // It fails if there are none.
        let names =
            self.run(work_tree, &["config", "-z", "--name-only", "--get-regexp", "^filter."]);
        let names = String::from_utf8(names.unwrap_or_default()).map_err(io::Error::other)?;
        if names.contains('=') {
            return Err(io::Error::other("the name of a filter of git contains `=`"));
        }
        let keys = names.split_terminator('\0').flat_map(|key| {
            let off = if key.ends_with(".required") { "false" } else { "" };
            ["-c".to_owned(), format!("{key}={off}")]
        });
        Ok(keys.collect())
    }

    /// Runs no hook. The output, or an error with git's message.
    fn run(&self, directory: &Path, arguments: &[&str]) -> io::Result<Vec<u8>> {
        let mut git = self.command(directory);
        git.args(["-c", "core.hooksPath=/dev/null", "-c", "submodule.recurse=false"])
            .args(arguments);
        let output = git.stdin(Stdio::null()).stderr(Stdio::piped()).output()?;
        if output.status.success() {
            return Ok(output.stdout);
        }
        let message = String::from_utf8_lossy(&output.stderr);
        let message = message.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("it failed");
        Err(io::Error::other(format!("git: {message}")))
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
