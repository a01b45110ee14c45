//! OTLP in JSON: the mapping of Protocol Buffers, with ids in hexadecimal digits, times and whole numbers as
//! texts, and enumerations as numbers.

use serde_json::{Value as Json, json};

use super::{AttributeValue, Attributes, Span};

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
            "timeUnixNano": encode_number(event.time),
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
        "startTimeUnixNano": encode_number(span.start),
        "endTimeUnixNano": encode_number(span.end),
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

fn encode_attribute(name: &str, value: &AttributeValue) -> Json {
    let text = |text: &String| json!({"stringValue": text});
    let value = match value {
        AttributeValue::Text(value) => text(value),
        AttributeValue::Int(value) => json!({"intValue": encode_number(*value)}),
        AttributeValue::Double(value) => json!({"doubleValue": value}),
        AttributeValue::Bool(value) => json!({"boolValue": value}),
        AttributeValue::Texts(values) => {
            json!({"arrayValue": {"values": values.iter().map(text).collect::<Vec<_>>()}})
        }
    };
    json!({"key": name, "value": value})
}

/// OTLP encodes 64-bit numbers as strings.
pub(super) fn encode_number(number: u64) -> String {
    number.to_string()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
