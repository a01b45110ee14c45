//! Classifies refusals of servers: temporary or permanent, and what the user can do. Pure; no other module
//! evaluates status codes.

use std::time::Duration;

use serde_json::Value;

use super::overflow;
use agent_protocol::mask::mask_for_kind;
use agent_protocol::model::{ModelError, ModelErrorKind};
use agent_protocol::{one_line, shorten};

#[derive(Clone, Debug, PartialEq)]
pub(super) struct AttemptFailure {
    pub(super) error: ModelError,
    pub(super) retry: RetryAdvice,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RetryAdvice {
    Never,
    WithBackoff,
    /// After the time that the server asks for.
    After(Duration),
    /// At once, without what the server rejects.
    Without(Omission),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Omission {
    /// The reasoning of earlier answers, or the request for reasoning that can be sent back.
    Reasoning,
    /// Settings of the thinking.
    Thinking,
    /// The limit of the answer, or its field.
    AnswerLimit,
}

impl AttemptFailure {
    pub(super) fn temporary(message: impl Into<String>) -> Self {
        Self {
            error: ModelError::new(ModelErrorKind::Unavailable, message),
            retry: RetryAdvice::WithBackoff,
        }
    }

    pub(super) fn with_reason(mut self, reason: impl Into<String>) -> Self {
        self.error.reason = Some(reason.into());
        self
    }

    pub(super) fn permanent(kind: ModelErrorKind, message: impl Into<String>) -> Self {
        Self { error: ModelError::new(kind, message), retry: RetryAdvice::Never }
    }
}

#[derive(Clone)]
pub(super) struct EndpointFacts {
    /// Address of the request, without user, password and query.
    pub(super) url: String,
    pub(super) models_url: String,
    /// The path of the base URL contains a version, as `/v1`.
    pub(super) is_versioned: bool,
    pub(super) model: String,
    /// Empty if unknown.
    pub(super) key_source: String,
    /// Removed from messages.
    pub(super) key: Option<String>,
}

pub(super) struct Refusal<'a> {
    /// HTTP status; `None` inside an answer that started normally.
    pub(super) status: Option<u16>,
    pub(super) retry_after: Option<Duration>,
    pub(super) body: &'a str,
}

impl EndpointFacts {
    pub(super) fn classify_refusal(&self, refusal: &Refusal<'_>) -> AttemptFailure {
        let body = ErrorBody::parse(refusal.body);
        let status = refusal.status.or(body.status);
        let retry_after = refusal.retry_after.or(body.retry_after);
        let kind = body.error_kind(status, retry_after);
        let message = self.refusal_message(status, kind, &body);
        let again = match (kind, retry_after) {
            (ModelErrorKind::Unavailable, Some(delay)) => RetryAdvice::After(delay),
            (ModelErrorKind::Unavailable, None) => RetryAdvice::WithBackoff,
            (ModelErrorKind::Refused, _) => {
                let omissions: [(Omission, &[&str]); 3] = [
                    (Omission::Reasoning, &REASONING_PHRASES),
                    (Omission::Thinking, &["thinking"]),
                    (Omission::AnswerLimit, &LIMIT_FIELDS),
                ];
                let omission = omissions.into_iter().find(|(_, phrases)| body.mentions(phrases));
                omission.map_or(RetryAdvice::Never, |(omission, _)| RetryAdvice::Without(omission))
            }
            _ => RetryAdvice::Never,
        };
        let window = (kind == ModelErrorKind::Overflow).then(|| overflow::parse_window(&body.text));
        let reason = Some(match status {
            Some(status) => format!("answered {status}"),
            None => "reported an error".to_owned(),
        });
        let window = window.flatten();
        AttemptFailure { error: ModelError { kind, message, reason, status, window }, retry: again }
    }

    pub(super) fn html_page_failure(&self) -> AttemptFailure {
        AttemptFailure::temporary(format!(
            "the server answered with an HTML page, which no model does; check base_url{} ({})",
            self.base_url_advice(),
            self.url
        ))
        .with_reason("answered with an HTML page")
    }

    fn base_url_advice(&self) -> &'static str {
        if self.is_versioned { "" } else { ": it probably lacks `/v1` at its end" }
    }

    fn refusal_message(
        &self,
        status: Option<u16>,
        kind: ModelErrorKind,
        body: &ErrorBody,
    ) -> String {
        let model = &self.model;
        let key = match (&self.key, self.key_source.as_str()) {
            (None, "") => "no key is configured for it".to_owned(),
            (None, source) => format!("no key was sent: set {source}"),
            (Some(_), "") => "check the key".to_owned(),
            (Some(_), source) => format!("check the key from {source}"),
        };
        let answered = match status {
            Some(status) => format!("the server answered {status}"),
            None => "the server reported an error in its answer".to_owned(),
        };
        let code = status.map_or_else(String::new, |status| format!(" ({status})"));
        // The codes of an error inside an answer say the same as a status.
        let what = match (kind, Some(status.unwrap_or_else(|| body.implied_status()))) {
            (ModelErrorKind::Overflow, _) => {
                format!("the request is longer than {model} accepts{code}")
            }
            (ModelErrorKind::Unavailable, Some(429)) => {
                format!("{answered}: too many requests for now; try again later")
            }
            (ModelErrorKind::Unavailable, _) => format!("{answered}; try again later"),
            (ModelErrorKind::Quota, _) if self.key.is_none() => {
                format!("the quota is used up{code}; {key}")
            }
            (ModelErrorKind::Quota, _) => {
                let source = Some(&self.key_source).filter(|source| !source.is_empty());
                let from = source.map_or_else(String::new, |source| format!(" from {source}"));
                format!("the quota is used up{code}; check plan and billing of the key{from}")
            }
            (_, Some(status)) if status == 401 || body.mentions(&["api_key_invalid"]) => {
                // Google's status for it is 400.
                let refused =
                    if self.key.is_some() { "the key was refused" } else { "a key is needed" };
                format!("{refused}{code}; {key}")
            }
            (_, Some(403)) => {
                format!("access is not allowed{code}; {key}, and what it may use")
            }
            (_, Some(404 | 405)) => format!(
                "the model `{model}` is unknown there{code}; `GET {}` lists what is, or base_url is wrong{}",
                self.models_url,
                self.base_url_advice()
            ),
            (_, Some(413)) => format!("the request is too large for the server{code}"),
            (_, Some(400 | 422)) => {
                format!("the server does not take this request for the model `{model}`{code}")
            }
            _ => format!("{answered}; {key}, the model `{model}` and base_url"),
        };
        format!("{what}{} ({})", self.quote_server(&body.text), self.url)
    }

    fn quote_server(&self, text: &str) -> String {
        if text.is_empty() {
            return String::new();
        }
        format!("; \"{}\"", shorten(&self.redact_key(&one_line(text)), 300))
    }

    pub(super) fn redact_key(&self, text: &str) -> String {
        match self.key.as_deref() {
            Some(key) if !key.is_empty() => text.replace(key, &mask_for_kind("key")),
            _ => text.to_owned(),
        }
    }
}

#[derive(Debug, Default)]
struct ErrorBody {
    text: String,
    /// Machine-readable values: code, type, status, and Google's reasons and quotas; in lower case.
    codes: Vec<String>,
    status: Option<u16>,
    retry_after: Option<Duration>,
}

const OVERFLOW_PHRASES: [&str; 19] = [
    "context_length_exceeded",
    "exceed_context_size",
    "model_max_prompt_tokens_exceeded",
    "maximum context length",
    "context window",
    "context length",
    "context limit",
    "context size",
    "maximum prompt length",
    "prompt is too long",
    "prompt too long",
    "input is too long",
    "input token count",
    "reduce the length of the messages",
    // Moonshot, Z.ai (two), DashScope, Anthropic (the bytes of the request).
    "model token limit",
    "max tokens allowed",
    "exceeds max length",
    "range of input length",
    "request_too_large",
];

const QUOTA_PHRASES: [&str; 8] = [
    "insufficient_quota",
    "billing",
    "usage limits",
    "credit balance",
    "insufficient balance",
    "insufficient credit",
    "out of credits",
    "exceeded your current quota",
];

/// Parts of messages about reasoning that the server encrypted or signed: it cannot read it, or the model has none.
const REASONING_PHRASES: [&str; 5] = [
    "encrypted content",
    "encrypted_content",
    "`signature` in `thinking` block",
    "thought signature",
    "thought_signature",
];

/// The fields for the limit of an answer.
const LIMIT_FIELDS: [&str; 4] =
    ["max_tokens", "max_completion_tokens", "max_output_tokens", "maxoutputtokens"];

/// Parts of error codes that come without a status, and the corresponding status.
const STATUS_BY_CODE: [(&str, u16); 15] = [
    ("rate_limit", 429),
    ("too_many_requests", 429),
    ("resource_exhausted", 429),
    ("insufficient_quota", 429),
    ("billing", 402),
    ("authentication", 401),
    ("invalid_api_key", 401),
    ("permission", 403),
    ("model_not_found", 404),
    ("not_found", 404),
    ("invalid_", 400),
    ("_policy", 400),
    ("content_filter", 400),
    ("image", 400),
    ("request_too_large", 413),
];

impl ErrorBody {
    fn parse(body: &str) -> Self {
        // LiteLLM also answers with an event stream if its status is that of an error.
        let event = body.lines().find_map(|line| line.strip_prefix("data:"));
        let Ok(body) = serde_json::from_str::<Value>(event.unwrap_or(body)) else {
            let is_page = body.trim_start().starts_with('<');
            let text = if is_page { "an HTML page" } else { body.trim() };
            return Self { text: text.to_owned(), ..Self::default() };
        };
        // Google sends the object in an array.
        let body = body.get(0).unwrap_or(&body);
        let error = if body["error"].is_object() { &body["error"] } else { body };
        let text = [&error["message"], &body["error"], &body["detail"], &body["message"]]
            .into_iter()
            .find(|value| !value.is_null())
            .unwrap_or(body);
        let text = text.as_str().map_or_else(|| text.to_string(), ToOwned::to_owned);
        // OpenRouter hides the cause behind "Provider returned error".
        let text = match error["metadata"]["raw"].as_str() {
            Some(raw) => format!("{text}: {raw}"),
            None => text,
        };
        let keys = ["code", "type", "status"];
        let codes = keys.iter().filter_map(|key| error[key].as_str());
        let details = error["details"].as_array().map(Vec::as_slice).unwrap_or_default();
        let violations = details.iter().filter_map(|detail| detail["violations"].as_array());
        let codes = codes
            .chain(details.iter().filter_map(|detail| detail["reason"].as_str()))
            .chain(violations.flatten().filter_map(|violation| violation["quotaId"].as_str()))
            .map(str::to_lowercase);
        let retry_after = details.iter().find_map(|detail| {
            let seconds = detail["retryDelay"].as_str()?.strip_suffix('s')?.parse().ok()?;
            Duration::try_from_secs_f64(seconds).ok()
        });
        let status = keys.iter().find_map(|key| {
            let number = error[key].as_u64().or_else(|| error[key].as_str()?.parse().ok())?;
            u16::try_from(number).ok().filter(|status| (400..600).contains(status))
        });
        Self { text, codes: codes.collect(), status, retry_after }
    }

    fn mentions(&self, parts: &[&str]) -> bool {
        let text = self.text.to_lowercase();
        parts.iter().any(|part| text.contains(part) || self.codes.iter().any(|c| c.contains(part)))
    }

    /// A server error by default.
    fn implied_status(&self) -> u16 {
        let means = |(part, _): &&(&str, u16)| self.codes.iter().any(|code| code.contains(part));
        STATUS_BY_CODE.iter().find(means).map_or(500, |&(_, status)| status)
    }

    fn error_kind(&self, status: Option<u16>, retry_after: Option<Duration>) -> ModelErrorKind {
        let status = status.unwrap_or_else(|| self.implied_status());
        let by_rate = status == 429 || self.mentions(&["per minute", "tokens per min"]);
        match status {
            _ if !by_rate && status != 401 && self.mentions(&OVERFLOW_PHRASES) => {
                ModelErrorKind::Overflow
            }
            // Google gives a time for each quota, and the same message.
            429 if self.codes.iter().any(|code| code.contains("perday")) => ModelErrorKind::Quota,
            // A time means a rate limit, not a quota, whatever the message is.
            429 if retry_after.is_none() && self.mentions(&QUOTA_PHRASES) => ModelErrorKind::Quota,
            402 => ModelErrorKind::Quota,
            // Some servers report it as an invalid request.
            400 if self.mentions(&QUOTA_PHRASES) => ModelErrorKind::Quota,
            408 | 409 | 425 | 429 | 499.. => ModelErrorKind::Unavailable,
            _ => ModelErrorKind::Refused,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn endpoint_facts() -> EndpointFacts {
        EndpointFacts {
            url: "https://h/v1/chat/completions".into(),
            models_url: "https://h/v1/models".into(),
            is_versioned: true,
            model: "m".into(),
            key_source: "H_API_KEY".into(),
            key: Some("sk-secret".into()),
        }
    }

    fn check(status: Option<u16>, body: &str, kind: ModelErrorKind, part: &str) {
        let failure =
            endpoint_facts().classify_refusal(&Refusal { status, retry_after: None, body });
        assert_eq!(failure.error.kind, kind, "{body}: {failure:?}");
        let message = &failure.error.message;
        assert!(message.contains(part), "`{part}` is not in: {message}");
        assert!(!message.contains("sk-secret"), "{message}");
        assert!(failure.error.reason.is_some(), "{failure:?}");
        assert_eq!(
            failure.retry,
            if kind == ModelErrorKind::Unavailable {
                RetryAdvice::WithBackoff
            } else {
                RetryAdvice::Never
            }
        );
    }

    #[test]
    fn statuses() {
        use ModelErrorKind::{Overflow, Quota, Refused, Unavailable};
        for status in [408, 429, 499, 500, 502, 503, 504, 529] {
            check(
                Some(status),
                "",
                Unavailable,
                &format!("answered {status}; try again later")
                    .replace("429;", "429: too many requests for now;"),
            );
        }
        let wrong_key = r#"{"error":{"message":"Incorrect API key provided: sk-secret","code":1}}"#;
        check(Some(401), wrong_key, Refused, "check the key from H_API_KEY");
        check(Some(401), wrong_key, Refused, "\"Incorrect API key provided: [redacted:key]\"");
        check(Some(403), "", Refused, "H_API_KEY");
        check(Some(404), "", Refused, "`m` is unknown there");
        check(Some(404), "<html>", Refused, "`GET https://h/v1/models` lists what is");
        check(Some(413), "", Refused, "too large");
        check(Some(400), r#"{"detail":[{"loc":1}]}"#, Refused, r#"[{"loc":1}]"#);
        check(Some(422), r#"{"error":"no such thing"}"#, Refused, "\"no such thing\"");
        let quota = r#"{"error":{"message":"You exceeded …","code":"insufficient_quota"}}"#;
        check(Some(429), quota, Quota, "billing of the key from H_API_KEY");
        let keyless = EndpointFacts { key: None, ..endpoint_facts() };
        let refusal = Refusal { status: Some(429), retry_after: None, body: quota };
        let message = keyless.classify_refusal(&refusal).error.message;
        let key = "the quota is used up (429); no key was sent: set H_API_KEY; \"You exceeded …\" (https://h/";
        assert!(message.starts_with(key), "{message}");
        let long = r#"{"error":{"message":"This model's maximum context length is 8 tokens"}}"#;
        check(Some(400), long, Overflow, "longer than m accepts");
        let llama = r#"{"error":{"code":400,"type":"exceed_context_size_error","message":"x"}}"#;
        check(Some(400), llama, Overflow, "longer");
        check(Some(500), "the context size is 4096", Overflow, "longer");
        for text in [
            "Invalid request: Your request exceeded model token limit: 262144 (requested: 300000)",
            "tokens in request more than max tokens allowed",
            "Prompt exceeds max length",
            "<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 129024]",
        ] {
            let body = json!({"error": {"message": text}}).to_string();
            check(Some(400), &body, Overflow, "longer than m accepts");
        }
        let bytes = r#"{"type":"error","error":{"type":"request_too_large","message":"x"}}"#;
        check(Some(413), bytes, Overflow, "longer");
        let by_rate =
            r#"{"error":{"message":"Request too large: context length, tokens per min"}}"#;
        check(Some(429), by_rate, Unavailable, "too many requests");
        check(Some(400), &"long ".repeat(100), Refused, "…\"");
        let event = "data: {\"error\": {\"message\": \"two\\n\\nlines\"}}\n\ndata: [DONE]\n\n";
        check(
            Some(500),
            event,
            Unavailable,
            "later; \"two lines\" (https://h/v1/chat/completions)",
        );
    }

    #[test]
    fn errors_inside_an_answer() {
        use ModelErrorKind::{Overflow, Quota, Refused, Unavailable};
        check(None, r#"{"error":{"code":429,"message":"slow"}}"#, Unavailable, "answered 429");
        check(None, r#"{"error":{"type":"overloaded_error"}}"#, Unavailable, "reported an error");
        check(
            None,
            r#"{"error":{"type":"invalid_request_error"}}"#,
            Refused,
            "not take this request",
        );
        check(None, r#"{"error":{"code":"context_length_exceeded"}}"#, Overflow, "longer");
        for code in ["invalid_prompt", "cyber_policy", "content_filter", "image_too_large"] {
            check(
                None,
                &format!(r#"{{"error":{{"code":"{code}","message":"no"}}}}"#),
                Refused,
                "no",
            );
        }
        check(None, r#"{"error":{"code":"server_is_overloaded"}}"#, Unavailable, "later");
        let event =
            r#"{"type":"error","code":"rate_limit_exceeded","message":"Rate limit reached"}"#;
        check(None, event, Unavailable, "\"Rate limit reached\"");
        let quota =
            r#"{"error":{"code":"insufficient_quota","message":"You exceeded your quota"}}"#;
        check(None, quota, Quota, "You exceeded your quota");
        check(None, r#"[{"error":{"code":503,"message":"busy"}}]"#, Unavailable, "\"busy\"");
        let raw = r#"{"error":{"message":"Provider returned error","metadata":{"raw":"boom"}}}"#;
        check(None, raw, Unavailable, "Provider returned error: boom");
    }

    #[test]
    fn errors_of_google() {
        let refused = |error: &Value| {
            let body = json!([{ "error": error }]).to_string();
            endpoint_facts().classify_refusal(&Refusal {
                status: None,
                retry_after: None,
                body: &body,
            })
        };
        let quota = |id: &str| {
            json!({"code": 429, "status": "RESOURCE_EXHAUSTED",
            "message": "You exceeded your current quota, please check your plan and billing details.",
            "details": [
                {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [{
                    "quotaMetric": "generativelanguage.googleapis.com/generate_content_requests",
                    "quotaId": id, "quotaValue": "20"}]},
                {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "12.5s"},
            ]})
        };
        let per_minute = refused(&quota("GenerateRequestsPerMinutePerProjectPerModel-FreeTier"));
        assert_eq!(per_minute.error.kind, ModelErrorKind::Unavailable);
        assert_eq!(per_minute.retry, RetryAdvice::After(Duration::from_millis(12_500)));
        let per_day = refused(&quota("GenerateRequestsPerDayPerProjectPerModel-FreeTier"));
        assert_eq!(
            (per_day.error.kind, per_day.retry),
            (ModelErrorKind::Quota, RetryAdvice::Never)
        );
        assert!(per_day.error.message.contains("the quota is used up"), "{per_day:?}");

        let key = refused(&json!({"code": 400, "status": "INVALID_ARGUMENT",
            "message": "API key not valid. Please pass a valid API key.",
            "details": [{"@type": "type.googleapis.com/google.rpc.ErrorInfo",
                         "reason": "API_KEY_INVALID", "domain": "googleapis.com"}]}));
        assert!(key.error.message.contains("check the key from H_API_KEY"), "{key:?}");
        let busy = refused(&json!({"code": 503, "status": "UNAVAILABLE",
            "message": "The model is overloaded. Please try again later."}));
        assert_eq!(
            (busy.error.kind, busy.retry),
            (ModelErrorKind::Unavailable, RetryAdvice::WithBackoff)
        );
        let long = refused(&json!({"code": 400, "status": "INVALID_ARGUMENT",
            "message": "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)."}));
        assert_eq!(long.error.kind, ModelErrorKind::Overflow);
        assert_eq!(long.error.window, Some(1_048_576));
    }

    #[test]
    fn rejected_reasoning_is_left_out() {
        for error in [
            r#"{"message":"Encrypted content is not supported with this model.","param":"include"}"#,
            r#"{"message":"It could not be verified.","code":"invalid_encrypted_content"}"#,
            r#"{"message":"Could not decrypt the provided encrypted_content."}"#,
            r#"{"message":"messages.1.content.0: Invalid `signature` in `thinking` block"}"#,
        ] {
            let body = format!(r#"{{"error":{error}}}"#);
            let refusal = Refusal { status: Some(400), retry_after: None, body: &body };
            let failure = endpoint_facts().classify_refusal(&refusal);
            assert_eq!(failure.error.kind, ModelErrorKind::Refused, "{body}");
            assert_eq!(failure.retry, RetryAdvice::Without(Omission::Reasoning), "{body}");
        }
    }

    #[test]
    fn errors_of_the_messages_api() {
        use ModelErrorKind::{Overflow, Quota, Refused, Unavailable};
        for (status, name, message, kind, part) in [
            (400, "invalid_request_error", "messages: no", Refused, "\"messages: no\""),
            (400, "invalid_request_error", "Your credit balance is too low", Quota, "the quota"),
            (400, "invalid_request_error", "reached your API usage limits", Quota, "the quota"),
            (400, "invalid_request_error", "prompt is too long: 9 tokens", Overflow, "longer"),
            (401, "authentication_error", "invalid x-api-key", Refused, "H_API_KEY"),
            (402, "billing_error", "no payment", Quota, "billing of the key"),
            (403, "permission_error", "not yours", Refused, "H_API_KEY"),
            (404, "not_found_error", "model: m", Refused, "\"model: m\""),
            (413, "request_too_large", "too many bytes", Overflow, "\"too many bytes\""),
            (429, "rate_limit_error", "too fast", Unavailable, "\"too fast\""),
            (500, "api_error", "Internal server error", Unavailable, "try again later"),
            (504, "timeout_error", "late", Unavailable, "try again later"),
            (529, "overloaded_error", "Overloaded", Unavailable, "\"Overloaded\""),
        ] {
            let body = json!({"type": "error", "error": {"type": name, "message": message},
                              "request_id": "req_011CSHoEeqs5C35K2UUqR7Fy"});
            for status in [Some(status), None] {
                check(status, &body.to_string(), kind, part);
            }
        }
    }

    #[test]
    fn retry_after_takes_precedence_over_a_billing_message() {
        let retry_after = Some(Duration::from_secs(3));
        let body = "check your plan and billing details";
        let failure =
            endpoint_facts().classify_refusal(&Refusal { status: Some(429), retry_after, body });
        assert_eq!(failure.retry, RetryAdvice::After(Duration::from_secs(3)));
    }
}
