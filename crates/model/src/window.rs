//! The window of a model at its server: asked for, and remembered as long as the program runs.

use std::collections::BTreeMap;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::Value;
use tokio::time::timeout;

use super::endpoint::Endpoint;
use super::transport::Transport;
use agent_protocol::model::{ContextWindow, MIN_WINDOW, ModelErrorKind, WindowSource};
use agent_protocol::provider::WindowQuestion;

/// For all questions together: without an answer in time the window is assumed.
const TIME_LIMIT: Duration = Duration::from_secs(1);
/// Stands for the name of a model in a question.
const MODEL: &str = "{model}";

/// What servers said last, by `provider/model`.
static WINDOWS: Mutex<BTreeMap<String, ContextWindow>> = Mutex::new(BTreeMap::new());

/// What the server of `provider/model` said of its window.
pub fn recall_window(id: &str) -> Option<ContextWindow> {
    WINDOWS.lock().get(id).copied()
}

/// An error outranks the answers: what the server does counts, not what it says.
pub(super) fn record_window(id: &str, tokens: u64, source: WindowSource) {
    let mut windows = WINDOWS.lock();
    let window = windows.entry(id.to_owned()).or_insert(ContextWindow { tokens, source });
    match window.source {
        WindowSource::Error => window.tokens = window.tokens.min(tokens),
        _ => *window = ContextWindow { tokens, source },
    }
}

/// Asks the server for the windows of these models, `provider/model` and their names there: [`recall_window`] returns them.
pub async fn ask_windows(endpoint: &Endpoint, models: &[(String, String)]) {
    if let Ok(transport) = Transport::new(endpoint.clone()) {
        ask(&transport, &endpoint.window_questions, models).await;
    }
}

pub(super) async fn ask(
    transport: &Transport,
    questions: &[&WindowQuestion],
    models: &[(String, String)],
) {
    let mut missing: Vec<&(String, String)> = models.iter().collect();
    let asking = async {
        for question in questions {
            let Some((_, name)) = missing.first() else { return };
            if question.list.is_none() && models.len() > 1 {
                continue;
            }
            match transport.get(&question.path.replace(MODEL, name), TIME_LIMIT).await {
                Ok(text) => {
                    let document = serde_json::from_str(&text).unwrap_or_default();
                    missing.retain(|(id, name)| {
                        let window = find_window(question, &document, name);
                        window.map(|it| record_window(id, it, WindowSource::Server)).is_none()
                    });
                }
                // Nobody answers there, or not now.
                Err(failure) if failure.error.kind == ModelErrorKind::Unavailable => return,
                Err(_) => {}
            }
        }
    };
    let _ = timeout(TIME_LIMIT, asking).await;
}

/// The window of the model in a server's answer.
fn find_window(question: &WindowQuestion, document: &Value, model: &str) -> Option<u64> {
    // Ollama lists `name:latest` for `name`.
    let is_name = |name: &str| name == model || name.strip_suffix(":latest") == Some(model);
    let window = |item: &Value| {
        let mut values = question.window.iter().filter_map(|pointer| item.pointer(pointer));
        values.find_map(Value::as_u64).filter(|window| *window >= MIN_WINDOW)
    };
    let Some(list) = &question.list else { return window(document) };
    let items = document.pointer(list)?.as_array()?.iter().filter(|item| {
        let name = question.model_name.as_ref().and_then(|pointer| item.pointer(pointer)?.as_str());
        name.is_some_and(is_name)
    });
    // Several servers may share a name.
    items.filter_map(window).min()
}
