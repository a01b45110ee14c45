//! OpenTelemetry: spans, measurements and log records of the events of a session, and OTLP in JSON (`docs/TELEMETRY.md`).

mod content;
mod encode;
mod fold;
mod log_record;
mod metrics;
mod settings;
mod span;

pub use encode::{Resource, encode_spans};
pub use fold::TelemetryFold;
pub use log_record::{LogRecord, encode_logs};
pub use metrics::{Measurement, Metrics};
pub use settings::{
    ExportTarget, TelemetrySettings, header_values, is_headers_variable, read_settings,
};
pub use span::{ParentSpan, Span, TelemetryRecord};

/// Attributes by name: texts, numbers, truth values and lists of texts.
type Attributes = Vec<(&'static str, serde_json::Value)>;

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
