//! The wire format of Gemini's `generateContent`.
//!
//! Signatures of thoughts, which belong to parts of an answer, are carried in three forms:
//! `{"thoughtSignature"}` belongs to the call before it, `{"thoughtSignature", "textBytes"}` to so many last
//! bytes of the text before it, and anything else is a part of its own.

mod decode;
mod encode;

use std::borrow::Cow;

use serde_json::Value;

pub(super) use decode::GeminiDecoder;
pub(super) use encode::encode;

const SIGNATURE: &str = "thoughtSignature";
const TEXT_BYTES: &str = "textBytes";

/// A name with a slash, such as `tunedModels/mine`, is a resource already.
fn model_resource(model: &str) -> Cow<'_, str> {
    if model.contains('/') { Cow::Borrowed(model) } else { Cow::Owned(format!("models/{model}")) }
}

/// `None` if the model does not generate text.
pub(super) fn listed_model_name(model: &Value) -> Option<&str> {
    let methods = model["supportedGenerationMethods"].as_array();
    if methods.is_some_and(|methods| !methods.iter().any(|method| method == "generateContent")) {
        return None;
    }
    let name = model["name"].as_str()?;
    Some(name.strip_prefix("models/").unwrap_or(name))
}
