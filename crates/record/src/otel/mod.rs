//! OpenTelemetry: what the events of a session are as spans and measurements, and as OTLP in JSON.
//!
//! Pure: strings and events in, spans and JSON out. It follows the semantic conventions for generative AI
//! (`docs/TELEMETRY.md`). Sending is not its task.

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
    /// A text.
    Text(String),
    /// A whole number.
    Int(u64),
    /// Another number.
    Double(f64),
    /// Yes or no.
    Bool(bool),
    /// Several texts.
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

/// The provider's name in the conventions, and the model's name at the provider, of `provider/model`.
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
