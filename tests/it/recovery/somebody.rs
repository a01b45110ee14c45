//! Somebody else, who changes the project between two steps of the agent.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Command, Stdio};

use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};
use serde_json::Value;

use super::scenario::Change;
use crate::support::Test;

/// Runs the binary to its end; these changes happen on the way. Its exit code and what it said on
/// standard error.
///
/// Its events come through a pipe that holds one packet: it can be at most one event ahead of what was read
/// here, and writes its events before it goes on. So each change is whole before the next call begins,
/// however fast or slow the machine is.
pub(super) fn run_beside(test: &Test, args: &[&str], changes: &[Change]) -> (i32, String) {
    let (reader, writer) = pipe_with(PipeFlags::DIRECT | PipeFlags::CLOEXEC).unwrap();
    fcntl_setpipe_size(&writer, 1).unwrap();
    let stderr = tempfile::tempfile().unwrap();
    let mut command = test.command(args);
    command.stdin(Stdio::null()).stdout(writer).stderr(stderr.try_clone().unwrap());
    let mut child = command.spawn().unwrap();
    // The last end for writing is the child's: reading ends with it.
    drop(command);
    let mut left = changes.to_vec();
    for line in BufReader::new(File::from(reader)).lines() {
        let line = line.unwrap();
        if left.is_empty() {
            continue;
        }
        let event: Value = serde_json::from_str(&line).expect(&line);
        if event["type"] == "tool.finished" {
            let is_due = |change: &Change| event["tool"] == change.after.as_str();
            for change in left.extract_if(.., |change| is_due(change)) {
                make(test, &change);
            }
        }
    }
    let code = child.wait().unwrap().code().unwrap_or(-1);
    (code, said(stderr))
}

fn make(test: &Test, change: &Change) {
    let commands = ["-ec", &change.commands];
    let output = Command::new("bash").args(commands).current_dir(test.root()).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "the change after {} failed: {stderr}", change.after);
}

fn said(mut stderr: File) -> String {
    let mut text = String::new();
    std::io::Seek::rewind(&mut stderr).unwrap();
    stderr.read_to_string(&mut text).unwrap();
    text
}
