//! Runs programs that take over the terminal: the user's editor.

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::process::{ExitStatus, Stdio};

use super::new_command;

/// Runs a program on the file, with the user's terminal and this environment, until it exits.
/// `program` may contain options: `code --wait`.
pub async fn run_in_foreground(
    program: &str,
    file: &Path,
    directory: &Path,
    environment: Vec<(OsString, OsString)>,
) -> io::Result<ExitStatus> {
    let line = format!("exec {program} \"$1\"");
    let mut command = new_command(Path::new("/bin/sh"));
    command.arg("-c").arg(line).arg("sh").arg(file).current_dir(directory);
    command.env_clear().envs(environment);
    command.stdin(Stdio::inherit()).stdout(Stdio::inherit()).stderr(Stdio::inherit());
    command.kill_on_drop(true).status().await
}
