//! The arguments of a call: parsed, renamed and validated. Names that models know from other agents are accepted if they
//! mean the same; all errors are reported together, each with what is expected.

use std::sync::OnceLock;

use boon::ErrorKind;
use serde_json::Value;

use agent_protocol::envelope::{ErrorCode, Failure};
use agent_protocol::json_repair::read_argument_object;
use agent_protocol::message::ToolCall;
use agent_protocol::schema::{Mismatch, Schema};
use agent_protocol::tool::{BASH_KILL, BASH_OUTPUT};
use agent_protocol::{Object, most_similar, shorten};

const MAX_SHOWN_BYTES: usize = 60;

/// The fields of the expected snapshot: injected, not accepted from the model.
pub(super) const SNAPSHOT_FIELDS: [&str; 2] = ["file_mtime_ms", "file_size_bytes"];

/// Aliases of parameters. The first line with a parameter of the tool applies. `camelCase` is converted to
/// `snake_case`.
const ALIASES: &[(&str, &[&str])] = &[
    ("file_pattern", &["glob", "include_pattern"]),
    ("pattern", &["query", "regex", "glob", "glob_pattern", "search_pattern"]),
    (
        "path",
        &[
            "file_path",
            "filepath",
            "filename",
            "file_name",
            "file",
            "target_file",
            "absolute_path",
            "dir",
            "dir_path",
            "directory",
            "folder",
            "directory_path",
        ],
    ),
    ("start_line", &["offset", "line", "line_start"]),
    ("limit", &["max_results", "head_limit", "max_lines"]),
    ("content", &["contents", "text", "file_text", "new_content"]),
    ("old_string", &["old_str", "old_text", "search"]),
    ("new_string", &["new_str", "new_text", "replace"]),
    ("command", &["cmd", "shell_command"]),
    ("timeout_ms", &["timeout", "wait_ms"]),
    ("directory", &["cwd", "workdir", "working_directory"]),
    ("background", &["run_in_background", "is_background", "bash_id"]),
    ("kill", &["shell_id"]),
    ("output", &["output_mode"]),
    ("subagent_type", &["role", "agent", "agent_type", "agent_name", "subagent"]),
    ("prompt", &["task", "instructions", "message"]),
    ("fixed_string", &["literal", "is_literal"]),
    ("include_hidden", &["hidden"]),
    ("case_sensitive", &["-i"]),
    ("context", &["-C"]),
    ("tool", &["name", "tool_name"]),
    ("arguments", &["args", "input", "parameters", "params"]),
    ("search", &["query"]),
    ("name", &["skill", "skill_name"]),
];

const VALUE_ALIASES: &[(&str, &str, &str)] =
    &[("output", "content", "matches"), ("output", "files_with_matches", "files")];

/// Converts the value of an alias: other agents count lines from 0, and use the opposite of `case_sensitive`.
fn convert_alias_value(parameter: &str, value: Value) -> Value {
    match (parameter, &value) {
        ("start_line", Value::Number(n)) if n.as_u64() == Some(0) => 1.into(),
        ("case_sensitive", Value::Bool(ignores_case)) => (!ignores_case).into(),
        _ => value,
    }
}

/// Parameters of other agents without a counterpart and without effect: ignored silently.
const IGNORED_PARAMETERS: &[&str] =
    &["active_form", "id", "priority", "description", "explanation", "reason", "thought"];

/// What the model should know about the arguments of its call. `correction` is a sentence.
pub(super) fn describe_notes(ignored: &[String], correction: Option<&str>) -> String {
    let mut words = String::new();
    if !ignored.is_empty() {
        words.push_str(&format!(" Ignored: {}.", ignored.join(", ")));
    }
    if let Some(sentence) = correction {
        words.push_str(&format!(" {sentence}"));
    }
    words
}

/// A call of `BashOutput` (`id`, `wait_ms`) or `BashKill` (`id`), tools that models know from other agents, as a call of
/// Bash.
pub(super) fn as_bash_call(call: &ToolCall) -> Option<ToolCall> {
    let operations = [(BASH_OUTPUT, "background"), (BASH_KILL, "kill")];
    let (_, parameter) = operations.into_iter().find(|(name, _)| *name == call.name)?;
    // Without a time Bash does not wait for output.
    let name = "Bash".to_owned();
    let Ok((input, _)) = parse_arguments(call) else {
        // The call of Bash says what is wrong with them.
        return Some(ToolCall { name, ..call.clone() });
    };
    let input = input.into_iter().filter(|(_, value)| *value != 0);
    let input = input.map(|(name, value)| {
        let is_id = name.to_lowercase().ends_with("id");
        (if is_id { parameter.to_owned() } else { name }, value)
    });
    let arguments = Value::Object(input.collect()).to_string();
    Some(ToolCall { name, arguments, ..call.clone() })
}

/// The call's input for its envelope; empty if it is invalid.
pub(super) fn envelope_input(call: &ToolCall) -> Object {
    parse_arguments(call).map(|(arguments, _)| arguments).unwrap_or_default()
}

/// The call's arguments without null values and without injected fields, and what was corrected in them.
pub(super) fn parse_arguments(call: &ToolCall) -> Result<(Object, Option<&'static str>), Failure> {
    let (mut arguments, correction) = parse_json_object(&call.arguments)?;
    // Models that fill in every field use null for "no value".
    arguments.retain(|name, value| !value.is_null() && !SNAPSHOT_FIELDS.contains(&name.as_str()));
    Ok((arguments, correction))
}

/// Renames the arguments to the names of a schema. Returns an error if a name is one typing error away from a known one,
/// or if two names of a parameter have different values.
pub(super) fn rename_aliases(
    schema: &Value,
    arguments: &mut Object,
    place: &str,
    ignored: &mut Vec<String>,
) -> Result<(), Failure> {
    // With strict schemas models send every parameter: null stands for one that is left out.
    let is_required = |name: &str| {
        schema["required"].as_array().is_some_and(|names| names.iter().any(|own| own == name))
    };
    arguments.retain(|name, value| !value.is_null() || is_required(name));
    let known = |name: &str| schema["properties"].get(name).is_some();
    let names: Vec<String> = arguments.keys().filter(|name| !known(name)).cloned().collect();
    for name in names {
        let Some(value) = arguments.remove(&name) else { continue };
        let plain = if name.starts_with('-') { name.clone() } else { snake_case(&name) };
        let alias = resolve_alias(&plain, schema);
        let (meant, value) = match alias {
            _ if known(&plain) => (Some(plain.as_str()), value),
            Some(parameter) => (alias, convert_alias_value(parameter, value)),
            None => (None, value),
        };
        let Some(meant) = meant else {
            let is_typo =
                |known: &&str| known.len() > 2 && strsim::osa_distance(&plain, known) == 1;
            let aliases = ALIASES.iter().filter(|(name, _)| known(name));
            let aliases = aliases.flat_map(|(_, aliases)| aliases.iter().copied());
            let mut accepted_names = property_names(schema).chain(aliases);
            if let Some(known) = accepted_names.find(is_typo) {
                let parameter = resolve_alias(known, schema).unwrap_or(known);
                let message =
                    format!("unknown parameter `{place}{name}`: did you mean `{parameter}`?");
                return Err(Failure::new(ErrorCode::InvalidParam, message)
                    .with_hint(format!("send the call again with `{parameter}`")));
            }
            if !IGNORED_PARAMETERS.contains(&plain.as_str()) {
                ignored.push(format!("{place}{name}"));
            }
            continue;
        };
        match arguments.get(meant) {
            Some(other) if *other != value => {
                let message =
                    format!("`{place}{name}` and `{place}{meant}` mean the same and differ");
                return Err(Failure::new(ErrorCode::InvalidParam, message)
                    .with_hint(format!("send `{meant}` alone")));
            }
            _ => _ = arguments.insert(meant.to_owned(), value),
        }
    }
    for (name, value) in arguments.iter_mut() {
        let property = &schema["properties"][name];
        if let Some(text) = value.as_str() {
            let alias = VALUE_ALIASES.iter().find(|alias| alias.0 == name && alias.1 == text);
            let meant = match (alias, property["type"].as_str()) {
                (Some(alias), _) => Some(alias.2.into()),
                (None, Some("integer")) => text.trim().parse::<i64>().ok().map(Value::from),
                (None, Some("boolean")) => text.trim().parse::<bool>().ok().map(Value::from),
                (None, _) => None,
            };
            if let Some(meant) = meant {
                *value = meant;
            }
        }
        let items = &property["items"];
        for (n, item) in value.as_array_mut().into_iter().flatten().enumerate() {
            if let Value::Object(item) = item {
                rename_aliases(items, item, &format!("{place}{name}.{n}."), ignored)?;
            }
        }
    }
    Ok(())
}

fn resolve_alias<'a>(name: &str, schema: &'a Value) -> Option<&'a str> {
    let properties = schema["properties"].as_object()?;
    let mut names = ALIASES.iter().filter(|(_, aliases)| aliases.contains(&name));
    names.find_map(|(known, _)| Some(properties.get_key_value(*known)?.0.as_str()))
}

fn snake_case(name: &str) -> String {
    let mut plain = String::with_capacity(name.len() + 2);
    for char in name.chars() {
        if char.is_ascii_uppercase() {
            if !plain.is_empty() && !plain.ends_with('_') {
                plain.push('_');
            }
            plain.push(char.to_ascii_lowercase());
        } else {
            plain.push(if char == '-' { '_' } else { char });
        }
    }
    plain
}

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
    use serde_json::json;

    use super::*;

    fn canonicalize_names(schema: &Value, arguments: &mut Object) -> Result<Vec<String>, Failure> {
        let mut ignored = Vec::new();
        rename_aliases(schema, arguments, "", &mut ignored)?;
        Ok(ignored)
    }

    fn schema() -> Value {
        json!({"properties": {
            "path": {}, "start_line": {}, "limit": {}, "replace_all": {},
            "edits": {"items": {"properties": {"old_string": {}, "new_string": {}}}}
        }})
    }

    fn check(given: &Value, expected: Result<(Value, &[&str]), &str>) {
        let Value::Object(mut arguments) = given.clone() else { unreachable!() };
        let result =
            canonicalize_names(&schema(), &mut arguments).map_err(|failure| failure.message);
        let expected = expected.map_err(str::to_owned);
        let found = result.as_ref().map(|ignored| (Value::Object(arguments), ignored.as_slice()));
        match (found, expected) {
            (Ok((found, ignored)), Ok((expected, names))) => {
                assert_eq!(
                    (found, ignored),
                    (
                        expected,
                        names.iter().map(ToString::to_string).collect::<Vec<_>>().as_slice()
                    ),
                    "{given}"
                );
            }
            (Err(found), Err(expected)) => assert_eq!(*found, expected, "{given}"),
            (found, expected) => panic!("{given}: {found:?}, expected {expected:?}"),
        }
    }

    #[test]
    fn alias_values_are_converted() {
        let schema = json!({"properties": {"start_line": {}, "case_sensitive": {}, "context": {}}});
        for (given, expected, names) in [
            (json!({"offset": 0}), json!({"start_line": 1}), &[][..]),
            (json!({"offset": 7}), json!({"start_line": 7}), &[]),
            (json!({"start_line": 0}), json!({"start_line": 0}), &[]),
            (
                json!({"-i": true, "-C": 2, "-n": true, "-A": 1}),
                json!({"case_sensitive": false, "context": 2}),
                &["-n", "-A"],
            ),
            (json!({"-i": false}), json!({"case_sensitive": true}), &[]),
            (json!({"caseSensitive": false}), json!({"case_sensitive": false}), &[]),
        ] {
            let Value::Object(mut arguments) = given.clone() else { unreachable!() };
            let mut ignored = canonicalize_names(&schema, &mut arguments).expect("known names");
            ignored.sort();
            let mut names: Vec<&str> = names.to_vec();
            names.sort_unstable();
            assert_eq!(
                (Value::Object(arguments), ignored),
                (expected, names.iter().map(ToString::to_string).collect()),
                "{given}"
            );
        }
    }

    #[test]
    fn parameter_names_of_other_agents_are_accepted() {
        check(
            &json!({"file_path": "a", "offset": 3}),
            Ok((json!({"path": "a", "start_line": 3}), &[])),
        );
        check(
            &json!({"filePath": "a", "replaceAll": true}),
            Ok((json!({"path": "a", "replace_all": true}), &[])),
        );
        check(&json!({"path": "a", "filename": "a"}), Ok((json!({"path": "a"}), &[])));
        check(
            &json!({"path": "a", "edits": [{"old_str": "x", "newText": "y"}]}),
            Ok((json!({"path": "a", "edits": [{"old_string": "x", "new_string": "y"}]}), &[])),
        );
    }

    #[test]
    fn unknown_parameters_are_ignored_and_reported() {
        check(&json!({"path": "a", "verbose": true}), Ok((json!({"path": "a"}), &["verbose"])));
        check(&json!({"path": "a", "activeForm": "Reading"}), Ok((json!({"path": "a"}), &[])));
    }

    #[test]
    fn misspelt_and_contradicting_parameters_are_errors() {
        check(&json!({"pth": "a"}), Err("unknown parameter `pth`: did you mean `path`?"));
        check(
            &json!({"path": "a", "limits": 1}),
            Err("unknown parameter `limits`: did you mean `limit`?"),
        );
        check(
            &json!({"path": "a", "file": "b"}),
            Err("`file` and `path` mean the same and differ"),
        );
    }

    fn check_validation(input: &str, expected: &str) {
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
        check_validation(r#"{"path":"a"}"#, "fits");
        check_validation("", "`path` is missing");
        check_validation(
            r#"{"path":"a","limits":1}"#,
            "unknown parameter `limits`: did you mean `limit`?",
        );
        check_validation(r#"{"path":"a","limit":500}"#, "`limit` must be at most 200, not 500");
        check_validation(
            r#"{"path":"a","limit":"5"}"#,
            "`limit` must be of type integer, not \"5\"",
        );
        check_validation(
            r#"{"path":"a","limit":true}"#,
            "`limit` must be of type integer, not true",
        );
        check_validation(
            r#"{"path":"a","output":"all"}"#,
            "`output` must be one of [\"files\",\"count\"], not \"all\"",
        );
        check_validation(
            r#"{"path":"a","edits":[{"old_str":"x"}]}"#,
            "`old_string` is missing in `edits.0`; unknown parameter `old_str`: did you mean `old_string`?",
        );
    }

    #[test]
    fn non_object_and_invalid_json_arguments_are_distinguished() {
        check_validation("[1]", "the arguments are not a JSON object: [1]");
        check_validation(
            r#"{"path":"a"#,
            "the arguments are not valid JSON: EOF while parsing a string at line 1 column 10",
        );
    }
}
