//! Validates arguments against the tool's schema; reports all errors together, each with what is expected.

use std::sync::OnceLock;

use boon::ErrorKind;
use serde_json::Value;

use agent_protocol::Object;
use agent_protocol::envelope::{ErrorCode, Failure};
use agent_protocol::json_repair::read_argument_object;
use agent_protocol::schema::{Mismatch, Schema};
use agent_protocol::{most_similar, shorten};

const MAX_SHOWN_BYTES: usize = 60;

/// A schema, compiled on first use.
#[derive(Default)]
pub(super) struct Validator(OnceLock<Result<Schema, String>>);

impl Validator {
    pub(super) fn check_input(&self, schema: &Value, input: &Object) -> Result<(), Failure> {
        let validator = self.0.get_or_init(|| Schema::new(schema)).as_ref().map_err(|why| {
            Failure::new(ErrorCode::InternalError, format!("the tool's schema is invalid: {why}"))
        })?;
        let input = Value::Object(input.clone());
        let problems =
            validator.mismatches(&input, |mismatch| describe_mismatch(mismatch, schema, &input));
        if problems.is_empty() {
            return Ok(());
        }
        Err(Failure::new(ErrorCode::InvalidParam, problems.join("; "))
            .with_hint(parameters_hint(schema)))
    }

    /// The same for a schema that we did not write: one that cannot be compiled accepts everything, since the server
    /// checks its arguments itself. Where null is no valid value, it stands for a parameter that is left out.
    pub(super) fn check_foreign(&self, schema: &Value, input: Object) -> Result<Object, Failure> {
        if self.0.get_or_init(|| Schema::new(schema)).is_err() {
            return Ok(input);
        }
        let Err(failure) = self.check_input(schema, &input) else { return Ok(input) };
        let mut without_null = input;
        let n_before = without_null.len();
        without_null.retain(|_, value| !value.is_null());
        if without_null.len() == n_before || self.check_input(schema, &without_null).is_err() {
            return Err(failure);
        }
        Ok(without_null)
    }
}

pub(super) fn parameters_hint(schema: &Value) -> String {
    let required = schema["required"].as_array().into_iter().flatten();
    let required: Vec<&str> = required.filter_map(Value::as_str).collect();
    let is_listed = |name: &&str| schema["properties"][*name]["x-unlisted"] != true;
    let optional = property_names(schema).filter(is_listed).filter(|name| !required.contains(name));
    let optional: Vec<&str> = optional.collect();
    let mut hint = format!("required: {}", quote_names(&required));
    if !optional.is_empty() {
        hint.push_str(&format!("; optional: {}", quote_names(&optional)));
    }
    hint
}

/// Parses the arguments' JSON text as an object; with what was corrected in it.
pub(super) fn parse_json_object(text: &str) -> Result<(Object, Option<&'static str>), Failure> {
    if let Some(parsed) = read_argument_object(text) {
        return Ok(parsed);
    }
    Err(match serde_json::from_str::<Value>(text) {
        Ok(other) => Failure::new(
            ErrorCode::InvalidParam,
            format!(
                "the arguments are not a JSON object: {}",
                shorten(&other.to_string(), MAX_SHOWN_BYTES)
            ),
        )
        .with_hint("send one JSON object, {\"name\": value, …}"),
        Err(error) => {
            let message = format!("the arguments are not valid JSON: {error}");
            Failure::new(ErrorCode::InvalidParam, message).with_hint(
                "send the call again as one complete JSON object; escape quotes and line breaks",
            )
        }
    })
}

fn describe_mismatch(mismatch: &Mismatch<'_>, schema: &Value, input: &Value) -> String {
    let place = mismatch.pointer.trim_start_matches('/').replace('/', ".");
    let field = if place.is_empty() { "the input".to_owned() } else { format!("`{place}`") };
    let value = || {
        let value = input.pointer(&mismatch.pointer).map(Value::to_string);
        shorten(&value.unwrap_or_default(), MAX_SHOWN_BYTES)
    };
    match mismatch.kind {
        ErrorKind::AdditionalProperties { got } => {
            let known: Vec<&str> = property_names(subschema_at(schema, &place)).collect();
            let each = got.iter().map(|name| match most_similar(name, known.iter().copied()) {
                Some(to) => format!("unknown parameter `{name}`: did you mean `{to}`?"),
                None => format!("unknown parameter `{name}`"),
            });
            each.collect::<Vec<_>>().join("; ")
        }
        ErrorKind::Required { want } => {
            let verb = if want.len() == 1 { "is" } else { "are" };
            let inside = if place.is_empty() { String::new() } else { format!(" in {field}") };
            format!("{} {verb} missing{inside}", quote_names(want))
        }
        ErrorKind::Type { want, .. } => {
            let types: Vec<String> = want.iter().map(|kind| kind.to_string()).collect();
            format!("{field} must be of type {}, not {}", types.join(" or "), value())
        }
        ErrorKind::Enum { want } => {
            format!("{field} must be one of {}, not {}", Value::from((*want).clone()), value())
        }
        ErrorKind::Minimum { got, want } => {
            format!("{field} must be at least {want}, not {got}")
        }
        ErrorKind::Maximum { got, want } => {
            format!("{field} must be at most {want}, not {got}")
        }
        _ => format!("{field}: {}", shorten(&mismatch.reason, 200)),
    }
}

/// The part of the schema for this position of the input (`edits.0`).
fn subschema_at<'a>(schema: &'a Value, place: &str) -> &'a Value {
    place.split('.').filter(|part| !part.is_empty()).fold(schema, |schema, part| {
        match part.parse::<usize>() {
            Ok(_) => &schema["items"],
            Err(_) => &schema["properties"][part],
        }
    })
}

pub(super) fn property_names(schema: &Value) -> impl Iterator<Item = &str> {
    schema["properties"].as_object().into_iter().flat_map(|map| map.keys().map(String::as_str))
}

fn quote_names(names: &[&str]) -> String {
    if names.is_empty() {
        return "nothing".to_owned();
    }
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(input: &str, expected: &str) {
        let schema = serde_json::json!({
            "type": "object",
            "properties": {
                "path": {"type": "string"},
                "limit": {"type": "integer", "minimum": 1, "maximum": 200},
                "output": {"enum": ["files", "count"]},
                "edits": {"type": "array", "items": {
                    "type": "object",
                    "properties": {"old_string": {"type": "string"}},
                    "required": ["old_string"],
                    "additionalProperties": false
                }}
            },
            "required": ["path"],
            "additionalProperties": false
        });
        let result = parse_json_object(input)
            .and_then(|(input, _)| Validator::default().check_input(&schema, &input))
            .map_or_else(|failure| failure.message, |()| "fits".to_owned());
        assert_eq!(result, expected, "{input}");
    }

    #[test]
    fn validation_errors_say_what_is_valid() {
        check(r#"{"path":"a"}"#, "fits");
        check("", "`path` is missing");
        check(r#"{"path":"a","limits":1}"#, "unknown parameter `limits`: did you mean `limit`?");
        check(r#"{"path":"a","limit":500}"#, "`limit` must be at most 200, not 500");
        check(r#"{"path":"a","limit":"5"}"#, "`limit` must be of type integer, not \"5\"");
        check(r#"{"path":"a","limit":true}"#, "`limit` must be of type integer, not true");
        check(
            r#"{"path":"a","output":"all"}"#,
            "`output` must be one of [\"files\",\"count\"], not \"all\"",
        );
        check(
            r#"{"path":"a","edits":[{"old_str":"x"}]}"#,
            "`old_string` is missing in `edits.0`; unknown parameter `old_str`: did you mean `old_string`?",
        );
    }

    #[test]
    fn non_object_and_invalid_json_arguments_are_distinguished() {
        check("[1]", "the arguments are not a JSON object: [1]");
        check(
            r#"{"path":"a"#,
            "the arguments are not valid JSON: EOF while parsing a string at line 1 column 10",
        );
    }
}
