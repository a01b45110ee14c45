//! Upgrades events of older formats step by step. The file on disk is not changed.

use serde_json::Value;

use crate::protocol::Object;
use crate::protocol::event::{Event, VERSION};

/// The upgrades from format `n` to `n + 1`, in order.
const STEPS: [fn(&mut Object); VERSION as usize] = [from_0];

/// The event in a line of an older format.
pub(super) fn upgrade(line: &[u8]) -> Result<Event, String> {
    let mut object: Object = serde_json::from_slice(line).map_err(|error| error.to_string())?;
    let version = object.get("v").and_then(Value::as_u64).ok_or("it has no version `v`")?;
    if version > u64::from(VERSION) {
        return Err(format!("written by a newer version, format {version}"));
    }
    let first = usize::try_from(version).unwrap_or(STEPS.len());
    for step in &STEPS[first..] {
        step(&mut object);
    }
    object.insert("v".to_owned(), VERSION.into());
    serde_json::from_value(Value::Object(object)).map_err(|error| error.to_string())
}

/// Format 0, of the drafts: it had one agent, one number for rounds and steps, and called the user's message
/// `text`.
fn from_0(event: &mut Object) {
    event.entry("agent").or_insert_with(|| "main".into());
    for place in ["round", "step"] {
        event.entry(place).or_insert_with(|| 0.into());
    }
    if event.get("type").and_then(Value::as_str) == Some("turn.started")
        && let Some(text) = event.shift_remove("text")
    {
        event.insert("input".to_owned(), text);
    }
}
