//! OTLP in JSON: ids in hexadecimal digits, times and whole numbers as texts, and enumerations as numbers.

use serde_json::{Value as Json, json};

use super::{Attributes, Span};

pub(super) const MAX_EVENTS: usize = 128;

/// The source of the telemetry: attributes of the process.
#[derive(Clone, Debug, Default)]
pub struct Resource(Vec<(String, String)>);

impl Resource {
    /// The version of the conventions for names.
    pub(super) const SCHEMA: &str = "https://opentelemetry.io/schemas/1.41.0";

    /// Attributes of the user, and of the process; `instance` is a unique id of it.
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

    pub(super) fn to_json(&self) -> Json {
        let attributes =
            self.0.iter().map(|(name, text)| encode_attribute(name, &text.as_str().into()));
        json!({"attributes": attributes.collect::<Vec<_>>()})
    }

    pub(super) fn scope_json() -> Json {
        json!({"name": "code-agent", "version": env!("CARGO_PKG_VERSION")})
    }
}

/// The request to export spans.
pub fn encode_spans(spans: &[Span], resource: &Resource) -> Json {
    json!({"resourceSpans": [{
        "resource": resource.to_json(),
        "scopeSpans": [{
            "scope": Resource::scope_json(),
            "spans": spans.iter().map(encode_span).collect::<Vec<_>>(),
            "schemaUrl": Resource::SCHEMA,
        }],
    }]})
}

fn encode_span(span: &Span) -> Json {
    let events = span.events.iter().take(MAX_EVENTS).map(|event| {
        json!({
            "timeUnixNano": event.time.to_string(),
            "name": event.name,
            "attributes": encode_attributes(&event.attributes),
        })
    });
    let mut json = json!({
        "traceId": hex(&span.trace),
        "spanId": hex(&span.id),
        "name": span.name,
        // INTERNAL and CLIENT.
        "kind": if span.is_client { 3 } else { 1 },
        "startTimeUnixNano": span.start.to_string(),
        "endTimeUnixNano": span.end.to_string(),
        "attributes": encode_attributes(&span.attributes),
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

pub(super) fn encode_attributes(attributes: &Attributes) -> Json {
    attributes.iter().map(|(name, value)| encode_attribute(name, value)).collect()
}

fn encode_attribute(name: &str, value: &Json) -> Json {
    json!({"key": name, "value": encode_value(value)})
}

fn encode_value(value: &Json) -> Json {
    match value {
        Json::Number(number) if number.is_f64() => json!({"doubleValue": number}),
        Json::Number(number) => json!({"intValue": number.to_string()}),
        Json::Bool(value) => json!({"boolValue": value}),
        Json::Array(values) => {
            json!({"arrayValue": {"values": values.iter().map(encode_value).collect::<Vec<_>>()}})
        }
        text => json!({"stringValue": text}),
    }
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
