//! Hooks that are commands: run as the user, outside the sandbox and without keys.

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};

use super::HookResult;
use agent_host::exec::{Exec, ServiceCommand};
use agent_protocol::hook::HookEvent;
use agent_protocol::hook::json;

/// Limit of each output, in bytes.
const MAX_OUTPUT: usize = 1024 * 1024;
/// The project's root: for hooks of Claude Code, and for ours.
const ROOT_VARIABLES: [&str; 2] = ["CLAUDE_PROJECT_DIR", "AGENT_PROJECT_DIR"];

pub(super) struct HookCommand {
    pub(super) line: String,
    pub(super) exec: Arc<Exec>,
    pub(super) root: PathBuf,
}

impl HookCommand {
    /// When the future is dropped, all processes end.
    pub(super) async fn ask(&self, event: HookEvent, question: &Value) -> HookResult {
        let root = self.root.to_string_lossy();
        let command = ServiceCommand {
            program: "bash".to_owned(),
            arguments: vec!["-c".to_owned(), self.line.clone()],
            environment: ROOT_VARIABLES.map(|name| (name.to_owned(), root.to_string())).into(),
            directory: self.root.clone(),
        };
        let mut service = match self.exec.start_service(&command) {
            Ok(service) => service,
            Err(error) => {
                return HookResult::without_status(Err(format!("it did not start: {error}")));
            }
        };
        let (stdin, stdout, stderr) =
            (service.stdin.take(), service.stdout.take(), service.stderr.take());
        let question = question.to_string();
        let write = async {
            // A hook need not read its input.
            if let Some(mut stdin) = stdin {
                _ = stdin.write_all(question.as_bytes()).await;
                _ = stdin.write_all(b"\n").await;
            }
        };
        let ((), (stdout, is_long), (stderr, _)) =
            tokio::join!(write, read_output(stdout), read_output(stderr));
        let exit_code = service.wait_for_exit().await;
        let answer = match exit_code {
            Some(0) if is_long && stdout.trim_start().starts_with('{') => {
                Err(format!("its output is longer than {} KiB", MAX_OUTPUT / 1024))
            }
            Some(code) if code <= 128 => json::parse_command_answer(event, code, &stdout, &stderr),
            Some(code) => Err(format!("it was ended by signal {}", code - 128)),
            None => Err("how it ended is not known".to_owned()),
        };
        HookResult { exit_code, answer, is_truncated: is_long }
    }
}

/// Keeps the beginning; true: the output is longer.
async fn read_output(output: Option<impl AsyncRead + Unpin>) -> (String, bool) {
    let Some(mut output) = output else { return (String::new(), false) };
    let mut beginning = Vec::new();
    _ = (&mut output).take(MAX_OUTPUT as u64).read_to_end(&mut beginning).await;
    let more = tokio::io::copy(&mut output, &mut tokio::io::sink()).await.unwrap_or_default();
    (String::from_utf8_lossy(&beginning).into_owned(), more > 0)
}
