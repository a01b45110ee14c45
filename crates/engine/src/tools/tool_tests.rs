//! Test support: a project in a temporary folder, and calls as the registry makes them.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::Value;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use super::{Tool, ToolCx};
use agent_host::exec::Exec;
use agent_host::workspace::{ImageStore, SpillFolder, Workspace};
use agent_protocol::envelope::{ErrorCode, Failure, Report};
use agent_protocol::tool::CommandRights;

/// This many lines.
pub(super) fn numbered_lines(n: usize, line: impl Fn(usize) -> String) -> String {
    (0..n).map(line).collect::<Vec<_>>().concat()
}

pub(super) struct TestProject {
    dir: TempDir,
    pub(super) cx: ToolCx,
}

impl TestProject {
    pub(super) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let cx = ToolCx {
            call_id: String::new(),
            workspace: Arc::new(Workspace::open(dir.path(), &[]).unwrap()),
            exec: Arc::new(Exec::new(&[])),
            spill: Arc::new(SpillFolder::temporary(&[])),
            images: Arc::new(ImageStore::in_memory()),
            takes_images: true,
            cancel: CancellationToken::new(),
            web: Arc::new(super::WebAccess::none()),
            is_host_named: false,
            secrets: Arc::default(),
            rights: CommandRights::default(),
            hidden_files: agent_permission::HiddenFiles::default(),
            output_watcher: None,
            inquirer: None,
            resolved_path: None,
            expected_snapshot: None,
            draft: None,
        };
        Self { dir, cx }
    }

    pub(super) fn path_of(&self, path: &str) -> PathBuf {
        self.dir.path().join(path)
    }

    pub(super) fn file(&self, path: &str, bytes: impl AsRef<[u8]>) -> &Self {
        let path = self.path_of(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
        self
    }

    pub(super) fn bytes(&self, path: &str) -> Vec<u8> {
        fs::read(self.path_of(path)).unwrap()
    }

    pub(super) fn text(&self, path: &str) -> String {
        String::from_utf8(self.bytes(path)).unwrap()
    }

    /// Every name in the project's top folder, sorted, to check that no temporary file is left.
    pub(super) fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.dir.path()).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// A call: its effect, the lock from the ledger, and the run.
    pub(super) async fn call(&self, tool: &dyn Tool, input: Value) -> Result<Report, Failure> {
        let Value::Object(input) = input else { panic!("no object: {input}") };
        let resolved_path = tool.target(&input, &self.cx)?.resolved_path;
        let seen = resolved_path.as_ref().and_then(|path| self.cx.workspace.snapshot(path));
        let cx = ToolCx { resolved_path, expected_snapshot: seen, ..self.cx.clone() };
        tool.run(input, &cx).await
    }

    pub(super) async fn call_ok(&self, tool: &dyn Tool, input: Value) -> Report {
        self.call(tool, input).await.unwrap()
    }

    pub(super) async fn call_fails(
        &self,
        tool: &dyn Tool,
        input: Value,
        code: ErrorCode,
    ) -> Failure {
        let failure = self.call(tool, input).await.unwrap_err();
        assert_eq!(failure.code, code, "{failure:?}");
        failure
    }
}

#[test]
fn names_are_those_of_all_tools() {
    let all = super::all_tools();
    let names: Vec<&str> = all.iter().map(|tool| &*tool.spec().name).collect();
    assert_eq!(names, super::TOOL_NAMES);
}
