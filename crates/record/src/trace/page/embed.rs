//! Embeds JSON in the page, and refers to texts instead of repeating them.

use memchr::memmem;
use serde_json::Value;

use agent_protocol::Object;
use agent_protocol::envelope::Envelope;
use agent_protocol::terminal_escape::hides_text;
use agent_protocol::view::render_for_model;

/// No text can end or change its element, or control a terminal: such characters become JSON escapes.
pub(super) fn embed(json: &str, page: &mut String) {
    let mut rest = 0;
    let mut escape = |at: usize, char: char| {
        page.push_str(&json[rest..at]);
        let mut units = [0; 2];
        for unit in char.encode_utf16(&mut units) {
            page.push_str(&format!("\\u{unit:04x}"));
        }
        rest = at + char.len_utf8();
    };
    // `</script`, `<script` and `<!--`: escaping each `<` would make pages about markup much longer.
    let is_markup = |at: usize| json[at + 1..].starts_with(['/', '!', 's', 'S']);
    if json.is_ascii() {
        for at in memchr::memchr2_iter(b'<', 0x7f, json.as_bytes()) {
            let char = char::from(json.as_bytes()[at]);
            if char != '<' || is_markup(at) {
                escape(at, char);
            }
        }
    } else {
        for (at, char) in json.char_indices() {
            if char == '<' && is_markup(at) || char > '~' && hides_text(char) {
                escape(at, char);
            }
        }
    }
    page.push_str(&json[rest..]);
}

/// A text below this length in bytes is repeated: a reference is not shorter.
const MIN_REFERENCE: usize = 12;
/// A text from this length in bytes on is searched in the whole rest of the view.
const LONG_TEXT: usize = 120;
/// Range in bytes of the search for a short text.
const SEARCH_RANGE: usize = 256;

/// The model's view of a result: `None` if it is the envelope's `text`; else a text, or a list of texts and numbers:
/// `n` stands for text `n` of `data`, in the order of the record, without one line break at its end.
pub(super) fn view_by_reference(envelope: &Envelope) -> Option<Value> {
    let view = render_for_model(envelope);
    if view == envelope.text {
        return None;
    }
    let mut texts = TextCollector::default();
    texts.collect_from(&envelope.data);
    if texts.order_is_lost {
        return Some(view.into());
    }
    let mut parts: Vec<Value> = Vec::new();
    let (mut from, mut to) = (0, 0);
    for (n, text) in texts.texts.iter().enumerate() {
        let text = text.strip_suffix('\n').unwrap_or(text);
        if text.len() < MIN_REFERENCE {
            continue;
        }
        let rest = &view.as_bytes()[to..];
        let range = if text.len() > LONG_TEXT { usize::MAX } else { text.len() + SEARCH_RANGE };
        let rest = &rest[..rest.len().min(range)];
        let Some(at) = memmem::find(rest, text.as_bytes()) else { continue };
        if from < to + at {
            parts.push(view[from..to + at].into());
        }
        parts.push(n.into());
        to += at + text.len();
        from = to;
    }
    if parts.is_empty() {
        return Some(view.into());
    }
    if from < view.len() {
        parts.push(view[from..].into());
    }
    Some(parts.into())
}

/// In the order of the record.
#[derive(Default)]
struct TextCollector<'a> {
    texts: Vec<&'a str>,
    /// True if a script would see the fields in another order: it moves names that are numbers to the front.
    order_is_lost: bool,
}

impl<'a> TextCollector<'a> {
    fn collect_from(&mut self, fields: &'a Object) {
        for (name, value) in fields {
            self.order_is_lost |= name.starts_with(|c: char| c.is_ascii_digit());
            self.collect(value);
        }
    }

    fn collect(&mut self, value: &'a Value) {
        match value {
            Value::String(text) => self.texts.push(text),
            Value::Array(items) => items.iter().for_each(|item| self.collect(item)),
            Value::Object(fields) => self.collect_from(fields),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn embedded_json_has_the_same_value_and_no_markup() {
        for text in [
            "</script><script>alert(1)</script>",
            "<!-- <script> a < b && Vec<u8>",
            "\u{1b}[31m \u{7f} \u{9b} \u{202e} \u{2028} \u{e0001} 😀 中文",
        ] {
            let json = json!({ "text": text }).to_string();
            let mut page = String::new();
            embed(&json, &mut page);
            assert_eq!(serde_json::from_str::<Value>(&page).unwrap_or_default()["text"], text);
            let lower = page.to_lowercase();
            assert!(!["</", "<!", "<s"].iter().any(|mark| lower.contains(mark)), "{page}");
            assert!(!page.chars().any(hides_text), "{page:?}");
        }
    }

    fn resolved(view: &Value, envelope: &Envelope) -> String {
        let mut texts = TextCollector::default();
        texts.collect_from(&envelope.data);
        let part = |part: &Value| match part.as_u64() {
            Some(n) => {
                let text = texts.texts[usize::try_from(n).unwrap_or_default()];
                text.strip_suffix('\n').unwrap_or(text).to_owned()
            }
            None => part.as_str().unwrap_or_default().to_owned(),
        };
        match view {
            Value::Array(parts) => parts.iter().map(part).collect(),
            text => part(text),
        }
    }

    #[test]
    fn references_give_the_view() {
        let line = "let value = compute_something_long();";
        let long = format!("{line}\n").repeat(50);
        let matches: Vec<Value> = (1..40)
            .map(|n| json!({"file": "src/some_module.rs", "line": n, "text": line}))
            .collect();
        for (data, most) in [
            (json!({"content": long, "truncated": false}), 60),
            (json!({"stdout": long, "stderr": long, "exit_code": 1}), 200),
            (json!({"matches": matches}), 1_000),
            (json!({"7": long, "1": long}), 4_000),
            (json!({"empty": "", "path": "src/some_module.rs", "content": "one line\n"}), 200),
        ] {
            let envelope = json!({
                "status": "partial", "data": data, "text": "As asked.", "stats": {},
                "context": {"cwd": ".", "params_input": {}},
            });
            let envelope: Envelope = serde_json::from_value(envelope).expect("an envelope");
            let by_reference = view_by_reference(&envelope).expect("it differs from the text");
            assert_eq!(resolved(&by_reference, &envelope), render_for_model(&envelope));
            assert!(by_reference.to_string().len() < most, "{by_reference}");
        }
    }
}
