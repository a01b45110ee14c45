//! Answers of the editor to permission requests that are settled.

use agent_client_protocol::v1::schema::{
    CancelNotification, SessionId, SetSessionModeRequest, StopReason,
};

use super::editor::{Editor, User, edit};
use crate::support::Test;

/// A command that runs until the test is done with its turn.
const WAIT: &str = "call: Bash {\"command\":\"until [ -e go ]; do sleep 0.05; done\"}\n---\n";

async fn set_mode(editor: &Editor, session: &SessionId, mode: &'static str) {
    let request = SetSessionModeRequest::new(session.clone(), mode);
    editor.connection.send_request(request).block_task().await.unwrap();
}

/// The editor cancels the withdrawn request while the command runs. The command ends when the agent has read the answer.
async fn answer_late(test: &Test, editor: &Editor, session: &SessionId) {
    let command = |editor: &Editor| {
        let calls = editor.updates_of("tool_call");
        calls.iter().any(|call| call["kind"] == "execute")
    };
    editor.wait_for("a command", command).await;
    editor.wait_for("a withdrawal", Editor::is_withdrawn).await;
    editor.cancel_request();
    set_mode(editor, session, "auto-edit").await;
    std::fs::write(test.root().join("go"), "").unwrap();
}

#[test]
fn answer_after_another_mode_settled_the_request_interrupts_nothing() {
    let test = Test::new().script(&format!(
        "call: Write {{\"path\":\"a\",\"content\":\"x\"}}\n---\n{WAIT}text: done"
    ));
    edit(&test, &[], User::permitting(|_| None), async |editor| {
        let session = editor.open(&test).await.session_id;
        let late = async {
            editor.wait_for("a permission request", |editor| !editor.asked().is_empty()).await;
            set_mode(&editor, &session, "full").await;
            answer_late(&test, &editor, &session).await;
        };
        let (ended, ()) = tokio::join!(editor.say(&session, "write"), late);
        assert_eq!(ended.unwrap(), StopReason::EndTurn);
        assert_eq!(editor.text(&session), "done");
    });
    assert_eq!(test.read("a"), "x");
}

#[test]
fn answer_to_a_request_of_a_cancelled_turn_does_not_interrupt_the_next_turn() {
    let test = Test::new().script(&format!(
        "call: Write {{\"path\":\"a\",\"content\":\"x\"}}\n---\n{WAIT}text: done"
    ));
    edit(&test, &[], User::permitting(|_| None), async |editor| {
        let session = editor.open(&test).await.session_id;
        let cancelling = async {
            editor.wait_for("a permission request", |editor| !editor.asked().is_empty()).await;
            let cancel = CancelNotification::new(session.clone());
            editor.connection.send_notification(cancel).unwrap();
        };
        let (ended, ()) = tokio::join!(editor.say(&session, "write"), cancelling);
        assert_eq!(ended.unwrap(), StopReason::Cancelled);
        set_mode(&editor, &session, "full").await;
        let late = answer_late(&test, &editor, &session);
        let (ended, ()) = tokio::join!(editor.say(&session, "go on"), late);
        assert_eq!(ended.unwrap(), StopReason::EndTurn);
        assert_eq!(editor.text(&session), "done");
    });
}

#[test]
fn cancelled_request_ends_its_turn() {
    let test = Test::new().script("call: Write {\"path\":\"a\",\"content\":\"x\"}");
    edit(&test, &[], User::permitting(|_| None), async |editor| {
        let session = editor.open(&test).await.session_id;
        let cancelling = async {
            editor.wait_for("a permission request", |editor| !editor.asked().is_empty()).await;
            editor.cancel_request();
        };
        let (ended, ()) = tokio::join!(editor.say(&session, "write"), cancelling);
        assert_eq!(ended.unwrap(), StopReason::Cancelled);
    });
    assert!(!test.root().join("a").exists());
}
