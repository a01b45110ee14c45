//! Repairs JSON that models write with mistakes of which the meaning is certain.
//!
//! Only two: control characters inside strings, which are escaped, and commas before a closing bracket,
//! which are removed. Nothing is completed: what is missing may have been cut off.

use super::Object;

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
    use serde_json::{Value, json};

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
