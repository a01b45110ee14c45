//! Log records of what the user sees happen: events of OpenTelemetry, without text, paths or commands.

use serde_json::{Value as Json, json};

use super::encode::{encode_attributes, hex};
use super::span::{SpanId, TraceId};
use super::{Attributes, Resource, provider_and_model};
use agent_protocol::event::{Event, EventBody};

/// `SEVERITY_NUMBER_INFO` and `SEVERITY_NUMBER_WARN` of OpenTelemetry's data model for logs.
const INFO: u8 = 9;
const WARN: u8 = 13;

pub(super) const SESSION_STARTED: &str = "code_agent.session.started";

/// An event of a session.
#[derive(Clone, Debug, PartialEq)]
pub struct LogRecord {
    /// Nanoseconds since 1970.
    pub(super) time: u64,
    pub(super) name: &'static str,
    pub(super) attributes: Attributes,
    pub(super) is_failure: bool,
    pub(super) turn: Option<(TraceId, SpanId)>,
}

/// The name and the attributes of the event, and whether it is a failure; `None`: it is not exported as a log record.
pub(super) fn describe(event: &Event) -> Option<(&'static str, Attributes, bool)> {
    let turn = || ("code_agent.turn", event.header.place.turn.into());
    let ids = |call: &str, tool: &str| {
        vec![("gen_ai.tool.name", tool.into()), ("gen_ai.tool.call.id", call.into())]
    };
    Some(match &event.body {
        EventBody::SessionStarted(started) | EventBody::SessionResumed { now: started, .. } => {
            let (provider, model) = provider_and_model(&started.model);
            let mode = started.permission_mode.as_str();
            let attributes = vec![
                ("gen_ai.provider.name", provider.into()),
                ("gen_ai.request.model", model.into()),
                ("code_agent.mode", mode.into()),
            ];
            (SESSION_STARTED, attributes, false)
        }
        EventBody::TurnStarted(_) => ("code_agent.turn.started", vec![turn()], false),
        EventBody::TurnFinished(finished) => {
            let files = finished.files_changed.len() as u64;
            let mut attributes = vec![
                turn(),
                ("code_agent.ending", finished.ending.as_str().into()),
                ("code_agent.files_changed", files.into()),
            ];
            attributes.extend(finished.cost_usd.map(|cost| ("code_agent.cost_usd", cost.into())));
            ("code_agent.turn.finished", attributes, !finished.ending.is_success())
        }
        EventBody::ToolFinished { call, tool, envelope, .. } => {
            let mut attributes = ids(call, tool);
            attributes.push(("code_agent.status", envelope.status().into()));
            let error = envelope.error().map(|error| ("error.type", error.code.as_str().into()));
            attributes.extend(error);
            ("code_agent.call.finished", attributes, envelope.error().is_some())
        }
        EventBody::ControlDecided { decision, .. } => {
            ("code_agent.decision", vec![("code_agent.decision", decision.label().into())], false)
        }
        EventBody::PermissionDecided { call, tool, ruling, .. } => {
            let mut attributes = ids(call, tool);
            attributes.push(("code_agent.ruling", ruling.as_str().into()));
            ("code_agent.permission", attributes, false)
        }
        EventBody::MemoryRecalled(recalled) => {
            let n = recalled.items.len() as u64;
            ("code_agent.lesson.recalled", vec![("code_agent.lessons", n.into())], false)
        }
        EventBody::MemoryWritten(written) => {
            let n = (written.new.len() + written.confirmed.len()) as u64;
            ("code_agent.lesson.learned", vec![("code_agent.lessons", n.into())], false)
        }
        _ => return None,
    })
}

/// The request to export log records.
pub fn encode_logs(records: &[LogRecord], resource: &Resource) -> Json {
    let records = records.iter().map(|record| {
        let (severity, text) = if record.is_failure { (WARN, "WARN") } else { (INFO, "INFO") };
        let mut json = json!({
            "timeUnixNano": record.time.to_string(),
            "observedTimeUnixNano": record.time.to_string(),
            "severityNumber": severity,
            "severityText": text,
            "eventName": record.name,
            "attributes": encode_attributes(&record.attributes),
        });
        if let Some((trace, span)) = &record.turn {
            json["traceId"] = hex(trace).into();
            json["spanId"] = hex(span).into();
        }
        json
    });
    json!({"resourceLogs": [{
        "resource": resource.to_json(),
        "scopeLogs": [{
            "scope": Resource::scope_json(),
            "logRecords": records.collect::<Vec<_>>(),
            "schemaUrl": Resource::SCHEMA,
        }],
    }]})
}
