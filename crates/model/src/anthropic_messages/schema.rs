//! Reduces the JSON Schema of an answer to the part of the standard that the API enforces.

use serde_json::{Value, json};

use agent_protocol::Object;

/// Keys that are passed on as they are. Bounds and formats are left out: the answer is validated afterwards.
const PASSED_KEYS: [&str; 7] =
    ["type", "enum", "const", "title", "description", "required", "$ref"];

/// `None` if the API cannot express the schema: it has no objects with arbitrary keys.
pub(super) fn reduce_schema(schema: &Value) -> Option<Value> {
    let schema = schema.as_object()?;
    let is_typed = ["type", "enum", "const", "anyOf", "oneOf", "allOf", "$ref"];
    if !is_typed.iter().any(|key| schema.contains_key(*key)) {
        return None;
    }
    let mut reduced = Object::new();
    for (key, value) in schema {
        let (key, value) = match key.as_str() {
            key if PASSED_KEYS.contains(&key) => (key, value.clone()),
            key @ ("properties" | "$defs") => (key, reduce_values(value)?),
            "items" => ("items", reduce_schema(value)?),
            "anyOf" | "oneOf" => ("anyOf", reduce_items(value)?),
            "allOf" => ("allOf", reduce_items(value)?),
            "additionalProperties" if value != false => return None,
            _ => continue,
        };
        reduced.insert(key.to_owned(), value);
    }
    if schema.get("type").is_some_and(is_object) {
        reduced.get("properties")?;
        reduced.insert("additionalProperties".to_owned(), json!(false));
    }
    Some(Value::Object(reduced))
}

fn is_object(kind: &Value) -> bool {
    kind == "object" || kind.as_array().is_some_and(|kinds| kinds.contains(&json!("object")))
}

fn reduce_values(schemas: &Value) -> Option<Value> {
    let schemas = schemas.as_object()?.iter();
    let reduced = schemas.map(|(name, schema)| Some((name.clone(), reduce_schema(schema)?)));
    Some(Value::Object(reduced.collect::<Option<Object>>()?))
}

fn reduce_items(schemas: &Value) -> Option<Value> {
    schemas.as_array()?.iter().map(reduce_schema).collect::<Option<Vec<_>>>().map(Value::Array)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schema_is_reduced_or_refused() {
        let text = json!({"type": "string", "minLength": 1});
        let schema = json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object", "required": ["a"],
            "properties": {
                "a": text, "b": {"type": ["number", "null"], "minimum": 0, "default": null},
                "c": {"type": "array", "maxItems": 3, "items": {"$ref": "#/$defs/x"}},
            },
            "$defs": {"x": {"oneOf": [{"const": "y"}, {"type": "object", "properties": {}}]}},
        });
        assert_eq!(
            reduce_schema(&schema),
            Some(json!({
                "type": "object", "required": ["a"],
                "properties": {
                    "a": {"type": "string"}, "b": {"type": ["number", "null"]},
                    "c": {"type": "array", "items": {"$ref": "#/$defs/x"}},
                },
                "$defs": {"x": {"anyOf": [
                    {"const": "y"},
                    {"type": "object", "properties": {}, "additionalProperties": false},
                ]}},
                "additionalProperties": false,
            }))
        );
        for free in [
            json!(true),
            json!({}),
            json!({"type": "object"}),
            json!({"type": ["object", "null"]}),
            json!({"type": "object", "properties": {}, "additionalProperties": {"type": "string"}}),
            json!({"type": "object", "properties": {"a": {"description": "anything"}}}),
        ] {
            assert_eq!(reduce_schema(&free), None, "{free}");
        }
    }
}
