//! The arguments of a call that the user changed. The user sees masks in place of secrets:
//! unchanged parts keep their values, and a mask never becomes a value.

use serde_json::Value;

use crate::Object;
use crate::mask::MASK;

/// The arguments of a call that the user changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChangedInput {
    /// Names of the call's arguments that keep their values.
    pub unchanged: Vec<String>,
    /// Arguments that were shown with masks and changed: name, value as shown, changed value.
    pub edited: Vec<(String, Value, Value)>,
    /// Further arguments, by the names that a model may use.
    pub others: Object,
}

impl ChangedInput {
    /// Whether an argument contains a mask.
    pub fn is_masked(value: &Value) -> bool {
        match value {
            Value::String(text) => text.contains(MASK),
            Value::Array(items) => items.iter().any(Self::is_masked),
            Value::Object(fields) => fields.values().any(Self::is_masked),
            Value::Null | Value::Bool(_) | Value::Number(_) => false,
        }
    }

    /// The arguments, with the call's own values where unchanged. The error: the argument that cannot be recovered.
    pub fn into_arguments(self, own: &Object) -> Result<Object, String> {
        let Self { unchanged, edited, others: mut arguments } = self;
        let is_new = |(name, value): (&String, &Value)| {
            (Self::is_masked(value) && own.get(name) != Some(value)).then(|| name.clone())
        };
        if let Some(name) = arguments.iter().find_map(is_new) {
            return Err(name);
        }
        for name in unchanged {
            if let Some(value) = own.get(&name) {
                arguments.insert(name, value.clone());
            }
        }
        for (name, shown, changed) in edited {
            let value = merge_edits(own.get(&name).unwrap_or(&Value::Null), &shown, changed);
            arguments.insert(name.clone(), value.ok_or(name)?);
        }
        Ok(arguments)
    }
}

/// Restores the own value in each part that is left as shown; `None` if a changed text has a mask.
fn merge_edits(own: &Value, shown: &Value, changed: Value) -> Option<Value> {
    if changed == *shown {
        return Some(own.clone());
    }
    match (own, shown, changed) {
        (Value::Object(own), Value::Object(shown), Value::Object(changed)) => {
            let field = |(name, value): (String, Value)| {
                let value = match (own.get(&name), shown.get(&name)) {
                    (Some(own), Some(shown)) => merge_edits(own, shown, value)?,
                    _ => reject_masked(value)?,
                };
                Some((name, value))
            };
            changed.into_iter().map(field).collect::<Option<Object>>().map(Value::Object)
        }
        (Value::Array(own), Value::Array(shown), Value::Array(changed))
            if own.len() == shown.len() && shown.len() == changed.len() =>
        {
            let items = changed.into_iter().zip(own.iter().zip(shown));
            let items = items.map(|(item, (own, shown))| merge_edits(own, shown, item));
            items.collect::<Option<_>>().map(Value::Array)
        }
        // No part of it was masked.
        (own, shown, changed) if own == shown => Some(changed),
        (.., changed) => reject_masked(changed),
    }
}

fn reject_masked(value: Value) -> Option<Value> {
    (!ChangedInput::is_masked(&value)).then_some(value)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn mask_is_not_taken_for_the_value_of_another_argument() {
        let input = |value: &str| ChangedInput {
            others: Object::from_iter([("to".to_owned(), json!(value))]),
            ..ChangedInput::default()
        };
        let own = |value: &str| Object::from_iter([("to".to_owned(), json!(value))]);
        let mask = "[redacted:key]";
        assert_eq!(input(mask).into_arguments(&own("x")), Err("to".to_owned()));
        // The model itself wrote these words.
        assert_eq!(input(mask).into_arguments(&own(mask)), Ok(own(mask)));
        assert_eq!(input("y").into_arguments(&own("x")), Ok(own("y")));
    }

    #[test]
    fn what_is_left_as_it_was_shown_keeps_its_value() {
        let own = json!([{"old": "a KEY", "new": "b", "n": 1}, {"old": "c"}]);
        let shown = json!([{"old": "a [redacted:key]", "new": "b", "n": 1}, {"old": "c"}]);
        let check = |changed: Value, expected: Option<Value>| {
            let edited = vec![("edits".to_owned(), shown.clone(), changed)];
            let input = ChangedInput { edited, ..ChangedInput::default() };
            let own = Object::from_iter([("edits".to_owned(), own.clone())]);
            let expected = expected.map(|value| Object::from_iter([("edits".to_owned(), value)]));
            assert_eq!(input.into_arguments(&own), expected.ok_or_else(|| "edits".to_owned()));
        };
        check(
            json!([{"old": "a [redacted:key]", "new": "B"}, {"old": "C"}]),
            Some(json!([{"old": "a KEY", "new": "B"}, {"old": "C"}])),
        );
        check(json!([{"old": "other"}]), Some(json!([{"old": "other"}])));
        check(json!("plain"), Some(json!("plain")));
        let with_a_mask = json!([{"old": "a [redacted:key]", "new": "[redacted:b]"}, {"old": "c"}]);
        check(with_a_mask, Some(json!([{"old": "a KEY", "new": "[redacted:b]"}, {"old": "c"}])));
        // A text around a mask, and a mask in another place.
        check(json!([{"old": "x [redacted:key]"}, {"old": "c"}]), None);
        check(json!([{"old": "a [redacted:key]"}]), None);
        check(json!([{"more": "[redacted:key]"}, {"old": "c"}]), None);
    }
}
