//! A front end that allows a call with other arguments.

use std::sync::Arc;
use std::time::Instant;

use agent_engine::registry::{OutputLimits, Registry, RegistrySettings};
use agent_engine::tools::{self, ToolCx, WebAccess};
use agent_host::exec::Exec;
use agent_host::workspace::{ImageStore, SpillFolder, Workspace};
use agent_permission::{HiddenFiles, Policy, Rule, RuleAction, RuleOrigin};
use agent_protocol::control::{ApprovalDecision, ChangedInput, PermissionMode, SessionControl};
use agent_protocol::event::{Clock, EventBody, EventStream, Sink, StampedEvent};
use agent_protocol::mask::Masker;
use agent_protocol::message::ToolCall;
use agent_protocol::tool::CommandRights;
use serde_json::{Value, json};

struct Now;

impl Clock for Now {
    fn timestamp(&self) -> String {
        String::new()
    }

    fn now(&self) -> Instant {
        Instant::now()
    }
}

/// Answers each question with these arguments.
struct Answering(SessionControl, Value);

impl Sink for Answering {
    fn receive(&mut self, stamped: &StampedEvent) {
        if let EventBody::PermissionRequested { call, .. } = &stamped.event.body {
            let Value::Object(input) = self.1.clone() else { unreachable!() };
            self.0.answer_approval(
                call,
                ApprovalDecision::AllowChanged(ChangedInput {
                    others: input,
                    ..ChangedInput::default()
                }),
            );
        }
    }
}

/// The envelope of a Write of `a`, which is allowed with these arguments instead.
async fn written(folder: &std::path::Path, instead: Value) -> Value {
    let control = SessionControl::default();
    control.enable_user_questions();
    let sink = Box::new(Answering(control.clone(), instead));
    let masker = Arc::new(Masker::default());
    let events = EventStream::new("s".to_owned(), 0, Arc::new(Now), masker, vec![sink]);
    let cx = ToolCx {
        call_id: String::new(),
        workspace: Arc::new(Workspace::open(folder, &[]).unwrap()),
        exec: Arc::new(Exec::new(&[])),
        spill: Arc::new(SpillFolder::temporary(&[])),
        images: Arc::new(ImageStore::in_memory()),
        takes_images: true,
        cancel: control.cancellation_token(),
        web: Arc::new(WebAccess::none()),
        is_host_named: false,
        secrets: Arc::default(),
        rights: CommandRights::default(),
        hidden_files: HiddenFiles::default(),
        output_watcher: None,
        inquirer: None,
        resolved_path: None,
        expected_snapshot: None,
        draft: None,
    };
    let denied = Rule::parse_all("Write(closed/**)").unwrap();
    let settings = RegistrySettings {
        policy: Policy::new(PermissionMode::Ask, false).with_rules(
            RuleAction::Deny,
            RuleOrigin::UserFile,
            denied,
        ),
        limits: OutputLimits { max_lines: 100, max_bytes: 10_000 },
        hides_secrets: false,
        hooks: None,
    };
    let registry = Registry::new(tools::all_tools(), cx, events, control, settings);
    let arguments = json!({"path": "a", "content": "asked"}).to_string();
    let call = ToolCall { id: "1".into(), name: "Write".into(), arguments };
    let answer = registry.run_call(&call).await;
    serde_json::to_value(&*answer.envelope).unwrap()
}

#[tokio::test]
async fn call_goes_on_with_the_arguments_of_the_answer() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().canonicalize().unwrap();
    let envelope = written(&path, json!({"file_path": "b", "content": "answered"})).await;
    assert_eq!(envelope["status"], "success", "{envelope}");
    let text = envelope["text"].as_str().unwrap();
    assert!(text.contains("The user changed the arguments of this call to {"), "{text}");
    assert_eq!(std::fs::read_to_string(path.join("b")).unwrap(), "answered");
    assert!(!path.join("a").exists());
}

#[tokio::test]
async fn changed_arguments_are_validated_and_judged() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().canonicalize().unwrap();
    let envelope = written(&path, json!({"path": "b"})).await;
    assert_eq!(envelope["error"]["code"], "INVALID_PARAM", "{envelope}");
    let envelope = written(&path, json!({"path": "closed/b", "content": "x"})).await;
    assert_eq!(envelope["error"]["code"], "ACCESS_DENIED", "{envelope}");
    let envelope = written(&path, json!({"path": "../b", "content": "x"})).await;
    assert_eq!(envelope["status"], "error", "{envelope}");
    assert_eq!(std::fs::read_dir(&path).unwrap().count(), 0);
}
