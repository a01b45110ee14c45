//! The window of a model at its server: asked for, and remembered as long as the program runs.

use std::collections::BTreeMap;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::Value;
use tokio::time::timeout;

use super::endpoint::Endpoint;
use super::transport::Transport;
use agent_protocol::model::{ContextWindow, WindowSource};
use agent_protocol::provider::WindowQuestion;

/// For all questions together: without an answer in time the window is assumed.
const TIME_LIMIT: Duration = Duration::from_secs(1);
/// A smaller number is no window.
const MIN_WINDOW: u64 = 256;
/// Stands for the name of a model in a question.
const MODEL: &str = "{model}";

/// What servers said last, by base URL and model.
static WINDOWS: Mutex<BTreeMap<(String, String), ContextWindow>> = Mutex::new(BTreeMap::new());

/// What the server of this model said of its window.
pub fn recall_window(endpoint: &Endpoint) -> Option<ContextWindow> {
    WINDOWS.lock().get(&(endpoint.base_url.clone(), endpoint.model.clone())).copied()
}

/// An error outranks the answers: what the server does counts, not what it says.
pub(super) fn record_window(endpoint: &Endpoint, model: &str, tokens: u64, source: WindowSource) {
    let mut windows = WINDOWS.lock();
    let window = windows
        .entry((endpoint.base_url.clone(), model.to_owned()))
        .or_insert(ContextWindow { tokens, source });
    if window.source != WindowSource::Error || tokens < window.tokens {
        *window = ContextWindow { tokens, source };
    }
}

/// Asks for the windows of these models of the server: [`recall_window`] returns them.
pub async fn ask_windows(endpoint: &Endpoint, models: &[String]) {
    if let (Ok(transport), false) =
        (Transport::new(endpoint.clone()), endpoint.window_questions.is_empty())
    {
        ask(&transport, endpoint, models, &endpoint.window_questions).await;
    }
}

pub(super) async fn ask(
    transport: &Transport,
    endpoint: &Endpoint,
    models: &[String],
    questions: &[&WindowQuestion],
) {
    let mut missing: Vec<&String> = models.iter().collect();
    let asking = async {
        for question in questions {
            let Some(model) = missing.first() else { return };
            let name = Value::from(model.as_str()).to_string();
            let path = question.path.replace(MODEL, model);
            let body = question.body.as_ref().map(|body| body.replace(MODEL, &name));
            let is_about_one = path != question.path || body != question.body;
            if is_about_one && models.len() > 1 {
                continue;
            }
            match transport.fetch(&path, body, "application/json", TIME_LIMIT).await {
                Ok(text) => {
                    let document = serde_json::from_str(&text).unwrap_or_default();
                    missing.retain(|model| {
                        let window = find_window(question, &document, model);
                        let source = WindowSource::Server;
                        window.map(|it| record_window(endpoint, model, it, source)).is_none()
                    });
                }
                // Nobody answers there, or not now.
                Err(failure) if failure.error.status.is_none() => return,
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
    let number = |value: &Value| match &question.word {
        None => value.as_u64(),
        Some(word) => {
            let mut words = value.as_str()?.split_whitespace().skip_while(|found| found != word);
            words.nth(1)?.parse().ok()
        }
    };
    let window = |item: &Value| {
        let mut values = question.window.iter().filter_map(|pointer| item.pointer(pointer));
        values.find_map(number).filter(|window| *window >= MIN_WINDOW)
    };
    let Some(list) = &question.list else { return window(document) };
    let items = document.pointer(list)?.as_array()?.iter().filter(|item| {
        let mut names = question.names.iter().filter_map(|pointer| item.pointer(pointer)?.as_str());
        names.any(is_name)
    });
    // Several servers may share a name.
    items.filter_map(window).min()
}
