//! The formats of calls in a text, each without its marker. An empty list: the text does not have
//! the format.

use serde::Deserialize;
use serde_json::Value;

use super::reader::{MISTRAL_MARKER, Segment};
use agent_protocol::Object;
use agent_protocol::json_repair::repair_json;
use agent_protocol::tool::ToolSpec;

#[derive(Deserialize)]
struct JsonCall {
    name: String,
    #[serde(alias = "parameters")]
    arguments: Option<Value>,
}

impl JsonCall {
    fn from_value(value: Value) -> Option<Self> {
        serde_json::from_value(value).ok()
    }

    fn into_segment(self) -> Option<Segment> {
        let arguments = match self.arguments {
            None => "{}".to_owned(),
            Some(Value::Object(object)) => Value::Object(object).to_string(),
            // Some models write the object as a string.
            Some(Value::String(text)) => text,
            Some(_) => return None,
        };
        Some(Segment::Call { name: self.name, arguments })
    }
}

/// One object, an array, or several values.
pub(super) fn json_calls(text: &str) -> Vec<Segment> {
    let calls = match parse_objects(text) {
        Some(calls) => calls.into_iter().map(JsonCall::into_segment).collect::<Option<Vec<_>>>(),
        None => repairable_call(text.trim()).map(|call| vec![call]),
    };
    calls.unwrap_or_default()
}

/// Calls only if the text is nothing else, names tools and has arguments: it could be an example.
pub(super) fn calls_to_known_tools(text: &str, tools: &[ToolSpec]) -> Vec<Segment> {
    let has_arguments =
        parse_objects(text).is_none_or(|calls| calls.iter().all(|call| call.arguments.is_some()));
    let is_of_a_tool = |call: &Segment| match call {
        Segment::Call { name, .. } => tools.iter().any(|tool| tool.name == *name),
        Segment::Text(_) | Segment::Dropped(_) => false,
    };
    let calls = json_calls(text);
    if has_arguments && calls.iter().all(is_of_a_tool) { calls } else { Vec::new() }
}

fn parse_objects(text: &str) -> Option<Vec<JsonCall>> {
    let values = parse_values(text)?.into_iter().flat_map(|value| match value {
        Value::Array(items) => items,
        value => vec![value],
    });
    values.map(JsonCall::from_value).collect()
}

/// Arguments with repairable mistakes stay as they are: the caller repairs them and says so.
fn repairable_call(text: &str) -> Option<Segment> {
    let call = JsonCall::from_value(repair_json(text)?.into())?;
    let expected = call.arguments?;
    let end = text.strip_suffix('}')?.rfind('}')? + 1;
    let slices = text.match_indices('{').filter_map(|(at, _)| text.get(at..end));
    let mut arguments =
        slices.filter(|slice| repair_json(slice).map(Value::Object).as_ref() == Some(&expected));
    Some(Segment::Call { name: call.name, arguments: arguments.next()?.to_owned() })
}

/// JSON values one after the other; models separate them by white space or semicolons.
fn parse_values(text: &str) -> Option<Vec<Value>> {
    let is_between = |c: char| c.is_whitespace() || c == ';';
    let mut rest = text.trim_matches(is_between);
    let mut values = Vec::new();
    while !rest.is_empty() {
        let mut stream = serde_json::Deserializer::from_str(rest).into_iter();
        values.push(stream.next()?.ok()?);
        rest = rest[stream.byte_offset()..].trim_start_matches(is_between);
    }
    Some(values)
}

/// `[{"name": …}]`, or `NAME[ARGS]{…}`, several with a marker between them.
pub(super) fn mistral_calls(text: &str) -> Vec<Segment> {
    let calls = text.split(MISTRAL_MARKER).map(|text| match text.split_once("[ARGS]") {
        Some((name, arguments)) => vec![Segment::Call {
            // Newer models also write an id: `NAME[CALL_ID]ID[ARGS]`.
            name: name.split("[CALL_ID]").next().unwrap_or(name).trim().to_owned(),
            arguments: arguments.trim().to_owned(),
        }],
        None => json_calls(text),
    });
    let calls: Vec<Vec<Segment>> = calls.collect();
    if calls.iter().any(Vec::is_empty) { Vec::new() } else { calls.into_iter().flatten().collect() }
}

/// `<function=NAME><parameter=P>value</parameter>…</function>`, one or more.
pub(super) fn xml_calls(text: &str, tools: &[ToolSpec]) -> Vec<Segment> {
    let mut calls = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        let Some((call, after)) = xml_call(rest, tools) else { return Vec::new() };
        calls.push(call);
        rest = after.trim_start();
    }
    calls
}

/// Returns the text after the call, too. Only the schema tells whether a value is text or JSON.
fn xml_call<'a>(text: &'a str, tools: &[ToolSpec]) -> Option<(Segment, &'a str)> {
    let (name, mut rest) = text.strip_prefix("<function=")?.split_once('>')?;
    let name = name.trim();
    let tool = tools.iter().find(|tool| tool.name == name);
    let mut arguments = Object::new();
    loop {
        rest = rest.trim_start();
        if let Some(after) = rest.strip_prefix("</function>") {
            let arguments = Value::Object(arguments).to_string();
            return Some((Segment::Call { name: name.to_owned(), arguments }, after));
        }
        let (parameter, value) = rest.strip_prefix("<parameter=")?.split_once('>')?;
        let (value, after) = value.split_once("</parameter>")?;
        // The line breaks around a value belong to the format.
        let value = value.strip_prefix('\n').unwrap_or(value);
        let value = value.strip_suffix('\n').unwrap_or(value);
        let is_text = tool.is_none_or(|tool| {
            tool.schema["properties"][parameter]["type"]
                .as_str()
                .is_none_or(|kind| kind == "string")
        });
        let json = if is_text { None } else { serde_json::from_str(value).ok() };
        arguments.insert(parameter.to_owned(), json.unwrap_or_else(|| value.into()));
        rest = after;
    }
}
