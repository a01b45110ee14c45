//! Extracts the model's window from a provider's overflow message.

use agent_protocol::model::MIN_WINDOW;

/// Words shortly before or after the number.
const WORDS_BEFORE: [&str; 6] =
    ["context length", "context window", "context size", "n_ctx", "maximum", "limit"];
const WORDS_AFTER: [&str; 2] = [" maximum", " tokens max"];
/// In bytes.
const MAX_DISTANCE: usize = 40;

/// The window in tokens.
pub(super) fn parse_window(text: &str) -> Option<u64> {
    let text = text.to_lowercase();
    let mut found = None;
    let mut rest = 0;
    while let Some(start) = text[rest..].find(|c: char| c.is_ascii_digit()) {
        let start = rest + start;
        let length = text[start..].find(|c: char| !(c.is_ascii_digit() || c == ','));
        let end = length.map_or(text.len(), |length| start + length);
        rest = end;
        let Ok(number) = text[start..end].replace(',', "").parse::<u64>() else { continue };
        // Part of a name, as in `gpt-4`, or too small to be a window.
        if number < MIN_WINDOW {
            continue;
        }
        let from = text.floor_char_boundary(start.saturating_sub(MAX_DISTANCE));
        // Words belong to the number after them.
        let before = text[from..start].rsplit(|c: char| c.is_ascii_digit()).next().unwrap_or("");
        // In a comparison the window is the smaller side: `178959 + 64000 > 200000`.
        if [" +", " >"].iter().any(|operator| text[end..].starts_with(operator)) {
            continue;
        }
        // The end of a range: `[1, 129024]`.
        let is_range = before == ", " && text[end..].starts_with(']');
        let is_named = is_range
            || before.trim_end().ends_with('>')
            || WORDS_BEFORE.iter().any(|word| before.contains(word))
            || WORDS_AFTER.iter().any(|word| text[end..].starts_with(word));
        if is_named {
            found = Some(found.map_or(number, |window: u64| window.min(number)));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn window_is_parsed_from_provider_error_messages() {
        for (text, expected) in [
            (
                "This model's maximum context length is 8192 tokens. However, you requested 9007 \
                 tokens (7007 in the messages, 2000 in the completion).",
                Some(8192),
            ),
            ("prompt is too long: 212345 tokens > 200000 maximum", Some(200_000)),
            (
                "the request exceeds the available context size (4096 tokens), try increasing it",
                Some(4096),
            ),
            (
                "The input token count (1200000) exceeds the maximum number of tokens allowed \
                 (1048576).",
                Some(1_048_576),
            ),
            (
                "input length and `max_tokens` exceed context limit: 178959 + 64000 > 200000, \
                 decrease input length or `max_tokens` and try again",
                Some(200_000),
            ),
            ("Your request exceeded model token limit: 262144 (requested: 300000)", Some(262_144)),
            ("Range of input length should be [1, 129024]", Some(129_024)),
            ("gpt-4 does not take so many messages", None),
            ("Your input exceeds the context window of this model.", None),
            ("maximum context length is 131,072 tokens", Some(131_072)),
        ] {
            assert_eq!(parse_window(text), expected, "{text}");
        }
    }
}
