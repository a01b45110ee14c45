//! Roles of sub-agents in JSON.

use std::path::PathBuf;

use serde_json::Value;

use crate::app::OpenError;
use crate::extend::check_name;
use crate::extend::roles::{RoleDefinition, one_line_description};

const FIELDS: [&str; 5] = ["description", "prompt", "tools", "disallowedTools", "model"];
/// An error, because a role without their effect would do something else.
const UNSUPPORTED_FIELDS: [&str; 2] = ["hooks", "permissionMode"];

/// The roles in an object by name. Names unused fields. `source`: the origin for messages.
pub(crate) fn parse_roles(
    json: &Value,
    option: &str,
    source: &str,
) -> Result<Vec<RoleDefinition>, OpenError> {
    let parsed = parse(json, source);
    let (roles, unused) = parsed.map_err(|why| OpenError::Usage(format!("{option}: {why}")))?;
    if !unused.is_empty() {
        agent_ui::print_notice(&format!("{option}: without effect: {}", unused.join(", ")));
    }
    Ok(roles)
}

/// Also returns unused fields.
fn parse(json: &Value, source: &str) -> Result<(Vec<RoleDefinition>, Vec<String>), String> {
    let Value::Object(given) = json else {
        return Err(
            "write an object of roles: {\"name\": {\"description\": …, \"prompt\": …}}".to_owned()
        );
    };
    let (mut roles, mut unused) = (Vec::new(), Vec::new());
    for (name, given) in given {
        let wrong = |why: &str| format!("the role {name}: {why}");
        let Value::Object(fields) = given else {
            return Err(wrong("write an object with description and prompt"));
        };
        if let Some(field) = UNSUPPORTED_FIELDS.iter().find(|field| fields.contains_key(**field)) {
            return Err(wrong(&format!("{field} is not supported; leave it out")));
        }
        unused.extend(fields.keys().filter(|field| !FIELDS.contains(&field.as_str())).cloned());
        let text = |field: &str| match &given[field] {
            Value::Null => Ok(String::new()),
            Value::String(text) => Ok(text.trim().to_owned()),
            _ => Err(wrong(&format!("{field} is not text"))),
        };
        let list = |field: &str| match &given[field] {
            Value::Null => Ok(None),
            list => serde_json::from_value::<Vec<String>>(list.clone())
                .map(Some)
                .map_err(|_| wrong(&format!("{field} is no list of names"))),
        };
        let model = text("model")?;
        let name = name.trim();
        check_name(name)?;
        roles.push(RoleDefinition {
            name: name.to_owned(),
            description: one_line_description(&text("description")?)
                .ok_or_else(|| wrong("it has no description"))?,
            tools: list("tools")?.filter(|tools| !tools.iter().any(|tool| tool == "*")),
            denied_tools: list("disallowedTools")?.unwrap_or_default(),
            model: (!model.is_empty()).then_some(model),
            text: text("prompt")?,
            path: PathBuf::from(source),
        });
    }
    unused.sort();
    unused.dedup();
    Ok((roles, unused))
}
