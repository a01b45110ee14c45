//! OTLP in JSON: the mapping of Protocol Buffers, with ids in hexadecimal digits, times and whole numbers as
//! texts, and enumerations as numbers.

use serde_json::{Value as Json, json};

use super::{Attributes, Span, Value};

/// Limit of the events of a span.
pub(super) const MAX_EVENTS: usize = 128;

/// What produces the telemetry.
#[derive(Clone, Debug, Default)]
pub struct Resource(Vec<(String, String)>);

impl Resource {
    /// The conventions that names follow.
    pub(super) const SCHEMA: &str = "https://opentelemetry.io/schemas/1.41.0";

    /// Of a process (`instance` is its own id), with the attributes that the user gives it.
    pub fn new(mut attributes: Vec<(String, String)>, instance: &str) -> Self {
        let version = env!("CARGO_PKG_VERSION");
        for (name, value) in [
            ("service.version", version),
            ("service.instance.id", instance),
            ("telemetry.sdk.name", "code-agent"),
            ("telemetry.sdk.language", "rust"),
            ("telemetry.sdk.version", version),
        ] {
            if !attributes.iter().any(|(given, _)| given == name) {
                attributes.push((name.to_owned(), value.to_owned()));
            }
        }
        Self(attributes)
    }

    pub(super) fn json(&self) -> Json {
        let attributes = self.0.iter().map(|(name, text)| attribute(name, &text.as_str().into()));
        json!({"attributes": attributes.collect::<Vec<_>>()})
    }

    pub(super) fn scope() -> Json {
        json!({"name": "code-agent", "version": env!("CARGO_PKG_VERSION")})
    }
}

/// The request to export spans.
pub fn spans(spans: &[Span], resource: &Resource) -> Json {
    json!({"resourceSpans": [{
        "resource": resource.json(),
        "scopeSpans": [{
            "scope": Resource::scope(),
            "spans": spans.iter().map(span).collect::<Vec<_>>(),
            "schemaUrl": Resource::SCHEMA,
        }],
    }]})
}

fn span(span: &Span) -> Json {
    let events = span.events.iter().take(MAX_EVENTS).map(|event| {
        json!({
            "timeUnixNano": number(event.time),
            "name": event.name,
            "attributes": attributes(&event.attributes),
        })
    });
    let mut json = json!({
        "traceId": hex(&span.trace),
        "spanId": hex(&span.id),
        "name": span.name,
        // INTERNAL and CLIENT.
        "kind": if span.is_client { 3 } else { 1 },
        "startTimeUnixNano": number(span.start),
        "endTimeUnixNano": number(span.end),
        "attributes": attributes(&span.attributes),
        "events": events.collect::<Vec<_>>(),
        // ERROR and UNSET.
        "status": if span.is_error { json!({"code": 2}) } else { json!({}) },
    });
    if let Some(parent) = &span.parent {
        json["parentSpanId"] = hex(parent).into();
    }
    let dropped = span.events.len().saturating_sub(MAX_EVENTS);
    if dropped > 0 {
        json["droppedEventsCount"] = dropped.into();
    }
    json
}

pub(super) fn attributes(attributes: &Attributes) -> Json {
    attributes.iter().map(|(name, value)| attribute(name, value)).collect()
}

fn attribute(name: &str, value: &Value) -> Json {
    let text = |text: &String| json!({"stringValue": text});
    let value = match value {
        Value::Text(value) => text(value),
        Value::Int(value) => json!({"intValue": number(*value)}),
        Value::Double(value) => json!({"doubleValue": value}),
        Value::Bool(value) => json!({"boolValue": value}),
        Value::Texts(values) => {
            json!({"arrayValue": {"values": values.iter().map(text).collect::<Vec<_>>()}})
        }
    };
    json!({"key": name, "value": value})
}

/// A 64-bit number.
pub(super) fn number(number: u64) -> String {
    number.to_string()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
