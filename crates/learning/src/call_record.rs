//! Calls and their results as recorded in events, shortened for storage.

use serde_json::Value;

use super::lesson::failure_key;
use agent_protocol::command_output::{error_line, render_output};
use agent_protocol::envelope::{Envelope, ErrorClass, ErrorCode};
use agent_protocol::event::Caller;
use agent_protocol::tool::Effect;
use agent_protocol::{Object, shorten, signature};

/// The tool name of a check.
pub const CHECK: &str = "check";
const VALUE_BYTES: usize = 400;
/// The end of an output stays.
const OUTPUT_BYTES: usize = 1500;
const EXCERPT_BYTES: usize = 150;

/// A call with its result.
#[derive(Clone, Debug, Default, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "each is so or not, whatever the others are")]
pub struct CallRecord {
    /// The number of the event with the result.
    pub seq: u64,
    pub id: String,
    /// The number of the model call in the turn.
    pub round: u32,
    pub step: u32,
    /// Start and end, in milliseconds since 1970.
    pub time_ms: (i64, i64),
    /// The tool, or [`CHECK`].
    pub tool: String,
    /// Long values are cut, and end with a hash of the rest.
    pub input: Object,
    /// The call cannot be repeated from cut arguments.
    pub is_truncated: bool,
    /// See [`Effect::Command`]; of a successful call the programs that have succeeded.
    pub programs: Vec<String>,
    pub caller: Caller,
    /// The call for which the kernel made this one.
    pub parent_call: Option<String>,
    pub failure: Option<CallFailure>,
    /// A program may have failed although the call succeeded: `make | tail`.
    pub hides_failure: bool,
    pub result: String,
    pub may_change: bool,
    /// A failure may come from a mode that allows no changes.
    pub was_read_only: bool,
}

/// How a call failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallFailure {
    pub code: ErrorCode,
    /// The output if it is short, otherwise from the line with the reason.
    pub excerpt: String,
    /// The line with the reason; numbers, paths, hashes and the call's own arguments are masked.
    pub signature: String,
    /// The message, and the end of the output of a command.
    pub evidence: String,
    /// `None` if no command ended.
    pub exit_code: Option<i64>,
}

impl CallRecord {
    /// The call with this result. `arguments`: as the model sent them, in case the result has none.
    pub fn from_result(id: &str, tool: &str, arguments: &str, envelope: &Envelope) -> Self {
        let mut input = envelope.context.params_input.clone();
        if input.is_empty() {
            input = serde_json::from_str(arguments).unwrap_or_default();
        }
        let failure = failure_from_envelope(&input, envelope);
        let (input, is_truncated) = stored_arguments(&input);
        let (id, tool) = (id.to_owned(), tool.to_owned());
        Self { id, tool, input, is_truncated, failure, ..Self::default() }
    }

    /// The `command` argument.
    pub fn command(&self) -> Option<&str> {
        text_argument(&self.input, "command")
    }

    /// The file that the call is about.
    pub fn path(&self) -> Option<&str> {
        text_argument(&self.input, "path")
    }

    /// The subject of the call; see [`call_target`].
    pub fn target(&self) -> String {
        call_target(&self.tool, &self.input, &self.programs)
    }

    /// The last program: if it succeeds, all that `&&` joins have succeeded.
    pub fn last_program(&self) -> Option<&String> {
        self.programs.last()
    }

    /// Whether the call was not allowed: a way around that is no lesson.
    pub fn was_denied(&self) -> bool {
        let class = self.failure.as_ref().map(|failed| failed.code.class(&self.tool));
        class == Some(ErrorClass::Policy)
    }

    /// The key of the failure; `None` if the call did not fail.
    pub fn failure_key(&self) -> Option<String> {
        let failed = self.failure.as_ref()?;
        Some(failure_key(&self.tool, &self.target(), failed.code, &failed.signature))
    }
}

pub(super) fn text_argument<'a>(input: &'a Object, name: &str) -> Option<&'a str> {
    input.get(name).and_then(Value::as_str)
}

/// The subject of a call: the program, the check, the file; the tool itself if it names none.
pub fn call_target(tool: &str, input: &Object, programs: &[String]) -> String {
    let command = text_argument(input, "command");
    if tool == CHECK {
        return command.unwrap_or_default().to_owned();
    }
    if let Some(line) = command {
        let first = programs.first().map_or(line, String::as_str);
        return first.split_whitespace().next().unwrap_or_default().to_owned();
    }
    let subject = match text_argument(input, "path") {
        Some(path) if !input.contains_key("pattern") => path.strip_prefix("./").unwrap_or(path),
        _ => tool,
    };
    subject.to_owned()
}

/// The programs of an effect.
pub fn effect_programs(effect: Option<&Effect>) -> Vec<String> {
    match effect {
        Some(Effect::Command { programs, .. }) => programs.clone(),
        _ => Vec::new(),
    }
}

/// The programs that have succeeded if the call has succeeded.
pub fn proven_programs(effect: Option<&Effect>) -> Vec<String> {
    match effect {
        // (The command is still running.)
        Some(Effect::Command { background: true, .. }) => Vec::new(),
        Some(Effect::Command { programs, unproven, .. }) => {
            programs.iter().filter(|program| !unproven.contains(program)).cloned().collect()
        }
        _ => Vec::new(),
    }
}

/// The failure of a call, from its envelope; `None` if it did not fail or was interrupted.
pub fn failure_from_envelope(input: &Object, envelope: &Envelope) -> Option<CallFailure> {
    let exit_code = envelope.data.get("exit_code").and_then(Value::as_i64);
    let text = |name: &str| envelope.data.get(name).and_then(Value::as_str).unwrap_or_default();
    let missing = || stage_statuses(envelope).find(|status| matches!(status, 126 | 127));
    let (code, message, exit_code) = match envelope.error() {
        Some(error) => (error.code, error.message.as_str(), exit_code),
        // A pipeline with a missing program has failed, whatever the status of its last stage is.
        None => (ErrorCode::CommandFailed, "", Some(missing()?)),
    };
    let output = if text("stderr").trim().is_empty() { text("stdout") } else { text("stderr") };
    let error_text = if code == ErrorCode::CommandFailed { output } else { message };
    let error_text = if error_text.trim().is_empty() { message } else { error_text };
    let evidence = format!("{message}\n{}", output.trim());
    Some(build_failure(code, input, error_text, &evidence, exit_code))
}

/// Whether no program has certainly succeeded, or a stage of a pipeline failed (not with SIGPIPE). After an exit status
/// that is an answer (`[ -f a ] && make`), the rest of the line did not run.
pub fn hides_failure(effect: Option<&Effect>, envelope: &Envelope) -> bool {
    const SIGPIPE: i64 = 128 + 13;
    if !effect_programs(effect).is_empty() && proven_programs(effect).is_empty() {
        return true;
    }
    let earlier = envelope.data.get("pipelines").and_then(Value::as_array);
    let earlier = earlier.into_iter().flatten().filter_map(Value::as_array).flatten();
    let earlier = earlier.filter_map(|stage| stage["exit_code"].as_i64());
    let exit_code = envelope.data.get("exit_code").and_then(Value::as_i64);
    stage_statuses(envelope)
        .chain(earlier)
        .chain(exit_code)
        .any(|status| status != 0 && status != SIGPIPE)
}

fn stage_statuses(envelope: &Envelope) -> impl Iterator<Item = i64> {
    let stages = envelope.data.get("stages").and_then(Value::as_array);
    stages.into_iter().flatten().filter_map(|stage| stage["exit_code"].as_i64())
}

/// Builds a failure with its output.
pub fn build_failure(
    code: ErrorCode,
    input: &Object,
    error_text: &str,
    evidence: &str,
    exit_code: Option<i64>,
) -> CallFailure {
    let error_text = &*render_output(error_text);
    let line = error_line(error_text);
    let signature = mask_details(&shorten(line, EXCERPT_BYTES), input);
    let excerpt = shorten(&output_excerpt(error_text, line), EXCERPT_BYTES);
    CallFailure { code, excerpt, signature, evidence: output_tail(evidence), exit_code }
}

/// The whole output if it is short, otherwise from this line on.
fn output_excerpt(output: &str, line: &str) -> String {
    let joined = |text: &str| {
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        lines.collect::<Vec<_>>().join(" / ")
    };
    let whole = joined(&output[..output.floor_char_boundary(4 * EXCERPT_BYTES)]);
    if output.len() <= 4 * EXCERPT_BYTES && whole.len() <= EXCERPT_BYTES {
        return whole;
    }
    let rest = &output[output.find(line).unwrap_or_default()..];
    joined(&rest[..rest.floor_char_boundary(4 * EXCERPT_BYTES)])
}

/// Numbers, paths, hashes, and the words of the call itself differ between cases.
fn mask_details(text: &str, input: &Object) -> String {
    let mut line = text.to_owned();
    for value in input.values().filter_map(Value::as_str) {
        let is_end = |c: char| c.is_whitespace() || "'\"`=,;:()".contains(c);
        let mut words: Vec<&str> = value.split(is_end).filter(|word| word.len() > 2).collect();
        words.sort_by_key(|word| std::cmp::Reverse(word.len()));
        // The failure is about the program and its options.
        for word in words.into_iter().filter(|word| !word.starts_with('-')) {
            let is_name = word.contains(['.', '/']) || word.chars().any(|c| c.is_ascii_digit());
            if is_name && !value.starts_with(word) {
                line = line.replace(word, "<argument>");
            }
        }
    }
    signature::mask_message(&line)
}

/// The arguments without fields of the registry, with long values cut; and whether one was cut.
pub fn stored_arguments(input: &Object) -> (Object, bool) {
    let is_ours = |name: &str| matches!(name, "file_mtime_ms" | "file_size_bytes");
    let mut is_cut = false;
    let kept = input.iter().filter(|(name, _)| !is_ours(name)).map(|(name, value)| {
        let text = match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let value = if text.len() <= VALUE_BYTES {
            value.clone()
        } else {
            is_cut = true;
            signature::shorten_with_hash(&text, VALUE_BYTES).into()
        };
        (name.clone(), value)
    });
    (kept.collect(), is_cut)
}

/// Starts at a line.
fn output_tail(text: &str) -> String {
    let text = text.trim();
    if text.len() <= OUTPUT_BYTES {
        return text.to_owned();
    }
    let from = text.ceil_char_boundary(text.len() - OUTPUT_BYTES);
    let from = text[from..].find('\n').map_or(from, |at| from + at + 1);
    format!("…\n{}", &text[from..])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn failure_signature_ignores_file_names() {
        let key = |command: &str, output: &str| {
            let Value::Object(input) = json!({"command": command}) else { unreachable!() };
            build_failure(ErrorCode::CommandFailed, &input, output, output, Some(1)).signature
        };
        assert_eq!(
            key("./conv jan.csv", "conv: error: cannot decode jan.csv at byte 17"),
            key("./conv may-2.csv", "conv: error: cannot decode may-2.csv at byte 4")
        );
        assert_ne!(
            key("x --fast", "x: error: no option --fast"),
            key("x --slow", "x: error: no option --slow")
        );
    }
}
