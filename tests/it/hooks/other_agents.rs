//! Hooks that were written for Claude Code, unchanged.

use serde_json::json;

use super::{code, ends, envelopes};
use crate::support::{Test, has};

/// A public layout: settings with scripts in `.claude/hooks`, in Python and in bash.
const SETTINGS: &str = r#"{
  "permissions": { "allow": ["Bash(npm run lint)"] },
  "hooks": {
    "PreToolUse": [
      {
        "matcher": "Bash",
        "hooks": [
          { "type": "command", "command": "python3 \"$CLAUDE_PROJECT_DIR\"/.claude/hooks/bash_validator.py", "timeout": 30 }
        ]
      },
      {
        "matcher": "Edit|MultiEdit|Write",
        "hooks": [ { "type": "command", "command": "$CLAUDE_PROJECT_DIR/.claude/hooks/protect-files.sh" } ]
      }
    ],
    "PostToolUse": [
      {
        "matcher": "Edit|MultiEdit|Write",
        "hooks": [ { "type": "command", "command": "$CLAUDE_PROJECT_DIR/.claude/hooks/format.sh", "statusMessage": "Formatting" } ]
      }
    ],
    "UserPromptSubmit": [
      { "hooks": [ { "type": "command", "command": "echo \"Current branch: main\"" } ] }
    ],
    "Stop": [
      { "hooks": [ { "type": "command", "command": "python3 \"${CLAUDE_PROJECT_DIR}/.claude/hooks/stop.py\"" } ] }
    ]
  }
}
"#;

const VALIDATOR: &str = r#"#!/usr/bin/env python3
import json, re, sys

RULES = [(r"\bgrep\b(?!.*\|)", "Use 'rg' (ripgrep) instead of 'grep'")]

try:
    input_data = json.load(sys.stdin)
except json.JSONDecodeError as e:
    print(f"Error: Invalid JSON input: {e}", file=sys.stderr)
    sys.exit(1)

if input_data.get("tool_name", "") != "Bash":
    sys.exit(0)
command = input_data.get("tool_input", {}).get("command", "")
issues = [message for pattern, message in RULES if re.search(pattern, command)]
if issues:
    for message in issues:
        print(f"- {message}", file=sys.stderr)
    sys.exit(2)
"#;

const PROTECT: &str = r#"#!/bin/bash
INPUT=$(cat)
FILE_PATH=$(printf '%s' "$INPUT" | sed -n 's/.*"file_path":"\([^"]*\)".*/\1/p')
case "$FILE_PATH" in
  "$CLAUDE_PROJECT_DIR"/package-lock.json)
    printf '{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny","permissionDecisionReason":"Blocked: %s is protected"}}' "$(basename "$FILE_PATH")" ;;
esac
exit 0
"#;

const FORMAT: &str = r#"#!/bin/bash
FILE_PATH=$(sed -n 's/.*"tool_input":{[^}]*"file_path":"\([^"]*\)".*/\1/p')
tr a-z A-Z < "$FILE_PATH" > "$FILE_PATH.tmp" && mv "$FILE_PATH.tmp" "$FILE_PATH"
"#;

const STOP: &str = r#"import json, os, sys
data = json.load(sys.stdin)
if not data["stop_hook_active"] and not os.path.exists("CHANGELOG.md"):
    print(json.dumps({"decision": "block", "reason": "Write CHANGELOG.md first"}))
"#;

#[test]
fn hooks_in_a_public_layout_work_unchanged() {
    if !has("python3", "hooks_in_a_public_layout_work_unchanged") {
        return;
    }
    let test = Test::new()
        .file(".claude/settings.json", SETTINGS)
        .file(".claude/hooks/bash_validator.py", VALIDATOR)
        .file(".claude/hooks/protect-files.sh", PROTECT)
        .file(".claude/hooks/format.sh", FORMAT)
        .file(".claude/hooks/stop.py", STOP)
        .script(
            "call: Bash {\"command\":\"grep -r TODO src\"}\n---\n\
             expect: a hook denied this call: - Use 'rg' \\(ripgrep\\) instead of 'grep'\n\
             call: Write {\"path\":\"package-lock.json\",\"content\":\"{}\"}\n---\n\
             expect: Blocked: package-lock.json is protected\n\
             call: Write {\"path\":\"a.txt\",\"content\":\"loud\"}\n---\n\
             call: Bash {\"command\":\"true\"}\n---\ntext: done\n---\n\
             call: Write {\"path\":\"CHANGELOG.md\",\"content\":\"x\"}\n---\ntext: really done",
        );
    for name in ["protect-files.sh", "format.sh"] {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(test.root().join(".claude/hooks").join(name), mode).unwrap();
    }
    test.agent(&["trust"]).expect_code(0);
    test.run(&["go"]).expect_code(0).expect_stdout("really done\n");
    assert_eq!(test.read("a.txt"), "LOUD");
    let codes: Vec<String> = envelopes(&test).iter().map(|it| code(it).to_owned()).collect();
    assert_eq!(codes, ["COMMAND_BLOCKED", "ACCESS_DENIED", "", "", ""]);
    assert_eq!(ends(&test).iter().filter(|end| *end == "blocked").count(), 1);
    assert_eq!(test.events_of("feedback")[0]["text"], "Current branch: main");
    assert!(test.events_of("error").iter().all(|error| error["source"] != json!("hook")));
}

/// They only restrict, so they need no trust; what permits is not used.
#[test]
fn rules_of_claude_code_that_restrict_apply() {
    let settings = r#"{"permissions": {
        "allow": ["Bash(touch made)"],
        "ask": ["Bash(make deploy:*)"],
        "deny": ["Read(./secret.txt)", "WebFetch", "Edit(./b.py)", "Bash(touch forbidden)", "Bash(",
                 "mcp__github", "mcp__a__b", "mcp__*"]
    }}"#;
    let test = Test::new()
        .file(".claude/settings.json", settings)
        .file("secret.txt", "hidden\n")
        .file("b.py", "one\n")
        .script(
            "call: Read {\"path\": \"secret.txt\"}\ncall: Bash {\"command\": \"touch forbidden\"}\n\
             call: Bash {\"command\": \"make deploy x\"}\ncall: Bash {\"command\": \"touch other\"}\n---\ntext: done",
        );
    let done = test.run(&["do it", "--permission-mode", "auto-edit"]);
    let codes: Vec<String> = envelopes(&test).iter().map(|it| code(it).to_owned()).collect();
    assert_eq!(
        codes,
        ["ACCESS_DENIED", "COMMAND_BLOCKED", "APPROVAL_REQUIRED", ""],
        "{}",
        done.stderr
    );
    assert!(done.stderr.contains(".claude/settings.json:4: not used"), "{}", done.stderr);
    let shown = test.agent(&["config", "show"]).expect_code(0);
    assert!(!shown.stdout.contains("touch made"), "{}", shown.stdout);
}
