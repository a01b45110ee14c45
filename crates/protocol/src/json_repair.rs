//! Repairs JSON that models write with mistakes of which the meaning is certain.
//!
//! In the JSON itself only two: control characters inside strings, which are escaped, and commas before a closing bracket,
//! which are removed. Nothing is completed: what is missing may have been cut off.

use serde_json::Value;

use super::Object;

/// The object in the arguments of a call, and a sentence for the model about what was corrected in them. `None` if
/// their meaning is not certain. Nothing at all is an empty object: servers send that for a call without arguments.
pub fn read_argument_object(text: &str) -> Option<(Object, Option<&'static str>)> {
    const EMPTY: &str = "The arguments were empty: read as {}.";
    if text.trim().is_empty() {
        return Some((Object::new(), None));
    }
    match serde_json::from_str(text) {
        Ok(Value::Object(object)) => Some((object, None)),
        Ok(Value::Null) => Some((Object::new(), Some(EMPTY))),
        Ok(Value::String(inner)) if inner.trim().is_empty() => Some((Object::new(), Some(EMPTY))),
        Ok(Value::String(inner)) => {
            let object = serde_json::from_str(&inner).ok().or_else(|| repair_json(&inner))?;
            Some((object, Some("The arguments were a string: the JSON in it was used.")))
        }
        Ok(_) => None,
        Err(_) => {
            let sentence = "The JSON of the arguments was invalid and was repaired.";
            repair_json(text).map(|object| (object, Some(sentence)))
        }
    }
}

/// Parses the object in a text that is not valid JSON; `None` if other mistakes remain.
pub fn repair_json(text: &str) -> Option<Object> {
    let mut fixed = String::with_capacity(text.len() + 16);
    let mut in_string = false;
    let mut after_backslash = false;
    // The last comma outside strings, if only white space followed.
    let mut comma = None;
    for c in text.chars() {
        if in_string {
            match c {
                '"' if !after_backslash => in_string = false,
                '\0'..' ' if !after_backslash => {
                    fixed.push_str(&format!("\\u{:04x}", u32::from(c)));
                    continue;
                }
                _ => {}
            }
            after_backslash = c == '\\' && !after_backslash;
        } else {
            match c {
                '"' => in_string = true,
                ',' => comma = Some(fixed.len()),
                ']' | '}' => {
                    if let Some(comma) = comma {
                        fixed.remove(comma);
                    }
                }
                _ => {}
            }
            if c != ',' && !c.is_ascii_whitespace() {
                comma = None;
            }
        }
        fixed.push(c);
    }
    serde_json::from_str(&fixed).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn check(text: &str, expected: &Value) {
        assert_eq!(repair_json(text).map(Value::Object).as_ref(), Some(expected), "{text}");
    }

    #[test]
    fn mistakes_with_a_certain_meaning_are_repaired() {
        check("{\"a\": \"one\ntwo\tthree\"}", &json!({"a": "one\ntwo\tthree"}));
        check("{\"a\": [1, 2,],\n}", &json!({"a": [1, 2]}));
        check("{\"a\": \"x,}\", \"b\": \"\\\",]\",}", &json!({"a": "x,}", "b": "\",]"}));
        check("{\"a\": \"\\\\\n\"}", &json!({"a": "\\\n"}));
    }

    #[test]
    fn other_mistakes_are_not_repaired() {
        for text in
            ["{\"a\": \"b", "{\"a\": 1", "{a: 1}", "{'a': 1}", "{\"a\": True}", "[1,]", "{,,}", ""]
        {
            assert_eq!(repair_json(text), None, "{text}");
        }
    }

    #[test]
    fn arguments_without_an_object_are_corrected_where_their_meaning_is_certain() {
        for (text, expected, is_corrected) in [
            ("", Some("{}"), false),
            (" ", Some("{}"), false),
            ("{\"a\":1}", Some("{\"a\":1}"), false),
            ("null", Some("{}"), true),
            ("\"\"", Some("{}"), true),
            ("\"{\\\"a\\\":1}\"", Some("{\"a\":1}"), true),
            ("\"{\\\"a\\\":1,}\"", Some("{\"a\":1}"), true),
            ("{\"a\":1,}", Some("{\"a\":1}"), true),
            // Only once.
            ("\"\\\"{}\\\"\"", None, false),
            ("\"a\"", None, false),
            ("[1]", None, false),
            ("{", None, false),
        ] {
            let found = read_argument_object(text);
            let found = found.map(|(object, note)| (Value::Object(object).to_string(), note));
            assert_eq!(found.as_ref().map(|(object, _)| object.as_str()), expected, "{text}");
            assert_eq!(found.is_some_and(|(_, note)| note.is_some()), is_corrected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn valid_objects_are_unchanged(
            entries in prop::collection::vec(("[a-z\\\\\",\\]}]{0,6}", "\\PC{0,12}"), 0..5),
        ) {
            let object: Object =
                entries.into_iter().map(|(name, text)| (name, json!([text, {"x": text}]))).collect();
            let text = Value::Object(object.clone()).to_string();
            prop_assert_eq!(repair_json(&text), Some(object));
        }
    }
}
