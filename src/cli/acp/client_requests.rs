//! Requests to the client: permission for a call, and the model's questions.

use std::collections::BTreeMap;

use agent_client_protocol::RequestCancellationHandle;
use agent_client_protocol::v1::schema::{
    CreateElicitationRequest, ElicitationAction, ElicitationContentValue, ElicitationFormMode,
    ElicitationSchema, ElicitationSessionScope, MultiSelectPropertySchema, PermissionOption,
    PermissionOptionKind, RequestPermissionOutcome, RequestPermissionRequest, SessionId,
    StringPropertySchema, ToolCallId, ToolCallUpdate,
};

use super::updates::Peer;
use agent_protocol::control::{ApprovalDecision, Grant, SessionControl};
use agent_protocol::question::{Question, UserAnswer};
use agent_protocol::terminal_escape::{escape_literal_line, escape_prose};

const ONCE: &str = "once";
const REJECT: &str = "reject";

pub(super) struct PendingClientRequest {
    call: String,
    request: RequestCancellationHandle,
}

impl PendingClientRequest {
    /// The call may be settled in another way: then the client need not answer.
    pub(super) fn cancel_for_call(open: &mut Option<Self>, call: &str) {
        if let Some(pending) = open.take_if(|pending| pending.call == call) {
            // Without effect if the client has answered.
            _ = pending.request.cancel();
        }
    }
}

fn permission_options(grants: Vec<Grant>) -> Vec<(PermissionOption, ApprovalDecision)> {
    let choices = ApprovalDecision::choices(grants).into_iter().enumerate();
    let option = |(n, (words, approval)): (usize, (String, ApprovalDecision))| {
        let words = escape_literal_line(&words).into_owned();
        let (id, kind) = match &approval {
            ApprovalDecision::AllowOnce => (ONCE.to_owned(), PermissionOptionKind::AllowOnce),
            ApprovalDecision::AllowAlways(_) => {
                (format!("always-{}", n - 1), PermissionOptionKind::AllowAlways)
            }
            ApprovalDecision::Reject(_)
            | ApprovalDecision::RejectAndStop(_)
            | ApprovalDecision::AllowChanged(_) => {
                (REJECT.to_owned(), PermissionOptionKind::RejectOnce)
            }
        };
        (PermissionOption::new(id, words, kind), approval)
    };
    choices.map(option).collect()
}

/// The call waits until the client answers or the turn is cancelled.
pub(super) fn request_permission(
    peer: &Peer,
    control: &SessionControl,
    (session, call): (&SessionId, &str),
    shown: ToolCallUpdate,
    grants: Vec<Grant>,
) -> Option<PendingClientRequest> {
    let answers = permission_options(grants);
    let options = answers.iter().map(|(option, _)| option.clone()).collect();
    let request = RequestPermissionRequest::new(session.clone(), shown, options);
    let (control, id) = (control.clone(), call.to_owned());
    let sent = peer.connection.send_request(request);
    let handle = sent.cancellation_handle();
    let registered = sent.on_receiving_result(async move |answer| {
        let approval = match answer.map(|answer| answer.outcome) {
            Ok(RequestPermissionOutcome::Selected(selected)) => {
                let mut answers = answers.into_iter();
                let chosen = answers.find(|(option, _)| option.option_id == selected.option_id);
                // An option that was not offered allows nothing.
                chosen.map_or(ApprovalDecision::Reject(None), |(_, approval)| approval)
            }
            // The client answers this when it cancels the turn. The answer may be late: the
            // question may be settled, and another turn may run.
            Ok(_) => {
                control.cancel_question(&id);
                return Ok(());
            }
            Err(error) if agent_client_protocol::is_incoming_transport_closed(&error) => {
                control.cancel_question(&id);
                return Ok(());
            }
            Err(error) => {
                agent_ui::print_notice(&format!("the editor did not ask for permission: {error}"));
                ApprovalDecision::Reject(None)
            }
        };
        control.answer_approval(&id, approval);
        Ok(())
    });
    registered.ok().map(|()| PendingClientRequest { call: call.to_owned(), request: handle })
}

pub(super) fn ask_questions(
    peer: &Peer,
    control: &SessionControl,
    (session, call): (&SessionId, &str),
    questions: Vec<Question>,
) -> Option<PendingClientRequest> {
    let scope = ElicitationSessionScope::new(session.clone()).tool_call_id(ToolCallId::new(call));
    let message = questions.iter().map(|question| question.question.trim());
    let message = escape_prose(&message.collect::<Vec<_>>().join("\n")).into_owned();
    let request = CreateElicitationRequest::new(
        ElicitationFormMode::new(scope, build_form(&questions)),
        message,
    );
    let (control, id) = (control.clone(), call.to_owned());
    let sent = peer.connection.send_request(request);
    let handle = sent.cancellation_handle();
    let registered = sent.on_receiving_result(async move |answer| {
        let values = match answer.map(|answer| answer.action) {
            Ok(ElicitationAction::Accept(accepted)) => accepted.content.unwrap_or_default(),
            // Declined: no question is answered.
            Ok(_) => BTreeMap::new(),
            Err(error) => {
                if !agent_client_protocol::is_incoming_transport_closed(&error) {
                    agent_ui::print_notice(&format!("the editor did not show a question: {error}"));
                }
                control.cancel_question(&id);
                return Ok(());
            }
        };
        control.answer_questions(&id, answers_from_form(&questions, &values));
        Ok(())
    });
    registered.ok().map(|()| PendingClientRequest { call: call.to_owned(), request: handle })
}

/// Fields of a question: for a choice, and for an answer in words.
fn field_names(n: usize) -> (String, String) {
    (format!("answer{}", n + 1), format!("answer{}_in_words", n + 1))
}

fn build_form(questions: &[Question]) -> ElicitationSchema {
    let mut form = ElicitationSchema::new();
    for (n, question) in questions.iter().enumerate() {
        let (field, in_words) = field_names(n);
        let labels: Vec<String> = question
            .options
            .iter()
            .map(|option| escape_prose(&option.label).into_owned())
            .collect();
        let described = question.options.iter().filter_map(|option| {
            Some(format!("{}: {}", option.label, option.description.as_ref()?))
        });
        let mut about = vec![question.question.clone()];
        about.extend(described);
        let about = escape_prose(&about.join("\n")).into_owned();
        let title =
            escape_prose(question.header.as_ref().unwrap_or(&question.question)).into_owned();
        form = if labels.is_empty() {
            form.property(field, StringPropertySchema::new().title(title).description(about), true)
        } else if question.multi_select {
            let choice = MultiSelectPropertySchema::new(labels).title(title).description(about);
            form.property(field, choice, false)
        } else {
            let choice = StringPropertySchema::new().title(title).description(about);
            form.property(field, choice.enum_values(labels), false)
        };
        if !question.options.is_empty() {
            let words = StringPropertySchema::new().title("In your own words");
            form = form.property(in_words, words, false);
        }
    }
    form
}

fn answers_from_form(
    questions: &[Question],
    values: &BTreeMap<String, ElicitationContentValue>,
) -> Vec<UserAnswer> {
    let words = |field: &str| match values.get(field) {
        Some(ElicitationContentValue::String(text)) if !text.trim().is_empty() => {
            Some(text.clone())
        }
        _ => None,
    };
    let answers = questions.iter().enumerate().map(|(n, question)| {
        let (field, in_words) = field_names(n);
        let chosen = match values.get(&field) {
            Some(ElicitationContentValue::StringArray(chosen)) => chosen.clone(),
            _ => words(&field).into_iter().collect(),
        };
        let is_label = |text: &String| question.options.iter().any(|it| it.label == *text);
        let (selected, other): (Vec<String>, Vec<String>) = chosen.into_iter().partition(is_label);
        let text = words(&in_words).or_else(|| (!other.is_empty()).then(|| other.join(", ")));
        UserAnswer { question: question.question.clone(), selected, text }
    });
    answers.collect()
}
