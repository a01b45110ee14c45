//! Tools and arguments under the names that hooks written for Claude Code expect. The registry accepts these names as
//! aliases.

use std::path::Path;

use serde_json::Value;

use crate::Object;

/// Our name, and the name in Claude Code.
const TOOLS: &[(&str, &str)] = &[("AskUser", "AskUserQuestion"), ("BashKill", "KillShell")];
/// Further names from several versions of Claude Code, and our name.
const OTHER_NAMES: &[(&str, &str)] = &[
    ("Agent", "Task"),
    ("KillBash", "BashKill"),
    ("NotebookRead", "Read"),
    ("TaskOutput", "BashOutput"),
    ("TaskStop", "BashKill"),
];

/// Tool, our name of the argument, and the name in Claude Code.
const ARGUMENTS: &[(&str, &str, &str)] = &[
    ("Read", "path", "file_path"),
    ("Read", "start_line", "offset"),
    ("Write", "path", "file_path"),
    ("Edit", "path", "file_path"),
    ("MultiEdit", "path", "file_path"),
    ("Bash", "timeout_ms", "timeout"),
    ("Bash", "background", "run_in_background"),
    ("BashOutput", "background", "bash_id"),
    ("BashKill", "kill", "shell_id"),
    ("Grep", "file_pattern", "glob"),
    ("Grep", "output", "output_mode"),
    ("Grep", "limit", "head_limit"),
    ("Grep", "context", "-C"),
    ("Grep", "case_sensitive", "-i"),
    ("Skill", "name", "skill"),
    ("Skill", "arguments", "args"),
];

/// Our name of a tool of Claude Code.
pub fn native_tool_name(name: &str) -> &str {
    let renamed = TOOLS.iter().find(|(_, foreign)| *foreign == name).map(|(own, _)| *own);
    let other = || OTHER_NAMES.iter().find(|(foreign, _)| *foreign == name).map(|(_, own)| *own);
    renamed.or_else(other).unwrap_or(name)
}

/// Claude Code's name of a tool.
pub fn claude_tool_name(name: &str) -> &str {
    TOOLS.iter().find(|(own, _)| *own == name).map_or(name, |(_, foreign)| foreign)
}

/// The arguments of a call as Claude Code names them. Paths are absolute.
pub fn claude_tool_input(tool: &str, input: &Object, root: &Path) -> Object {
    let has_path = matches!(tool, "Read" | "Write" | "Edit" | "MultiEdit" | "Glob" | "Grep" | "LS");
    let foreign = |(name, value): (&String, &Value)| {
        let renamed = ARGUMENTS.iter().find(|(of, own, _)| *of == tool && own == name);
        let value = match (name.as_str(), value) {
            ("path", Value::String(path)) if has_path => {
                // (An absolute path replaces the root.)
                root.join(path).to_string_lossy().into_owned().into()
            }
            ("output", Value::String(output)) if tool == "Grep" => match output.as_str() {
                "matches" => "content".into(),
                "files" => "files_with_matches".into(),
                _ => value.clone(),
            },
            ("case_sensitive", Value::Bool(is_sensitive)) if tool == "Grep" => {
                (!is_sensitive).into()
            }
            _ => value.clone(),
        };
        (renamed.map_or_else(|| name.clone(), |(_, _, foreign)| (*foreign).to_owned()), value)
    };
    input.iter().map(foreign).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn arguments_have_the_names_that_hooks_expect() {
        let check = |tool: &str, own: Value, expected: Value| {
            let Value::Object(own) = own else { unreachable!() };
            let foreign = claude_tool_input(tool, &own, Path::new("/p"));
            assert_eq!(Value::Object(foreign), expected, "{tool}");
        };
        check("Edit", json!({"path": "a/b"}), json!({"file_path": "/p/a/b"}));
        check(
            "Read",
            json!({"path": "/x/b", "start_line": 3}),
            json!({"file_path": "/x/b", "offset": 3}),
        );
        check(
            "Glob",
            json!({"path": "a", "pattern": "*"}),
            json!({"path": "/p/a", "pattern": "*"}),
        );
        check(
            "Grep",
            json!({"output": "matches", "case_sensitive": false}),
            json!({"output_mode": "content", "-i": true}),
        );
        check("mcp__a__b", json!({"path": "a"}), json!({"path": "a"}));
    }
}
