//! Changes to the project by another process between two steps of the agent.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Command, Stdio};

use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};
use serde_json::Value;

use super::scenario::Change;
use crate::support::Test;

/// Runs the binary to completion and makes these changes on the way. Returns its exit code and
/// standard error.
///
/// Its events come through a pipe with a capacity of one packet: it can be at most one event ahead
/// of the reader here, and writes its events before it continues. So each change is complete before
/// the next call starts, independent of the speed of the machine.
pub(super) fn run_with_changes(test: &Test, args: &[&str], changes: &[Change]) -> (i32, String) {
    let (reader, writer) = pipe_with(PipeFlags::DIRECT | PipeFlags::CLOEXEC).unwrap();
    fcntl_setpipe_size(&writer, 1).unwrap();
    let stderr = tempfile::tempfile().unwrap();
    let mut command = test.command(args);
    command.stdin(Stdio::null()).stdout(writer).stderr(stderr.try_clone().unwrap());
    let mut child = command.spawn().unwrap();
    // Close our writing end, so that reading ends when the child exits.
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
