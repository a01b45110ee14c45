//! OpenTelemetry: spans and measurements of the events of a session, and OTLP in JSON.
//!
//! The module follows the semantic conventions for generative AI (`docs/TELEMETRY.md`). It does not access files
//! or the network.

mod content;
mod encode;
mod fold;
mod metrics;
mod settings;
mod span;

pub use encode::{Resource, encode_spans};
pub use fold::TelemetryFold;
pub use metrics::{Measurement, Metrics};
pub use settings::{
    ExportTarget, TelemetrySettings, header_values, is_headers_variable, read_settings,
};
pub use span::{ParentSpan, Span, TelemetryRecord};

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq)]
pub enum AttributeValue {
    Text(String),
    Int(u64),
    Double(f64),
    Bool(bool),
    Texts(Vec<String>),
}

impl From<&str> for AttributeValue {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for AttributeValue {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<u64> for AttributeValue {
    fn from(number: u64) -> Self {
        Self::Int(number)
    }
}

impl From<f64> for AttributeValue {
    fn from(number: f64) -> Self {
        Self::Double(number)
    }
}

impl From<bool> for AttributeValue {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

/// Attributes by name.
pub type Attributes = Vec<(&'static str, AttributeValue)>;

/// The provider's name in the conventions, and the model's name at the provider, from `provider/model`.
fn provider_and_model(id: &str) -> (&str, &str) {
    let (provider, model) = id.split_once('/').unwrap_or((id, id));
    // `script:FILE`: the path is not the name of a model.
    if let Some((kind, _)) = provider.split_once(':') {
        return (kind, kind);
    }
    let provider = match provider {
        "gemini" => "gcp.gemini",
        "vertex" => "gcp.vertex_ai",
        "moonshot" => "moonshot_ai",
        "mistral" => "mistral_ai",
        "xai" => "x_ai",
        "azure" => "azure.ai.openai",
        "bedrock" => "aws.bedrock",
        other => other,
    };
    (provider, model)
}
