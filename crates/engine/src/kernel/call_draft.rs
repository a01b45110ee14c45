//! A call while its arguments stream: its subject, and the number of lines so far.

use agent_protocol::Object;
use agent_protocol::event::CallProgress;
use agent_protocol::view::call_subject;

/// No subject is longer.
const MAX_SUBJECT: usize = 1000;

/// Reads each character once: the work stays in proportion to the arguments.
#[derive(Default)]
pub(super) struct CallDraft {
    progress: CallProgress,
    index: Option<usize>,
    /// Complete texts of the arguments' first level; of several lines the first.
    input: Object,
    depth: usize,
    /// A text is open.
    in_string: bool,
    after_backslash: bool,
    /// The open or last text as it is written, to the end of its first line or the limit.
    text: String,
    is_text_complete: bool,
    /// The name to which the next text belongs.
    field: Option<String>,
}

impl CallDraft {
    /// Returns whether more than the number of lines changed. `index` is that of the call in the answer's deltas.
    pub(super) fn push(&mut self, index: usize, name: Option<&str>, arguments: &str) -> bool {
        if self.index != Some(index) {
            let number = self.progress.number + usize::from(self.index.is_some());
            let progress = CallProgress { number, ..CallProgress::default() };
            *self = Self { index: Some(index), progress, ..Self::default() };
        }
        let before = (self.progress.number, self.input.len());
        if let (Some(name), true) = (name, self.progress.tool.is_empty()) {
            name.clone_into(&mut self.progress.tool);
        }
        arguments.chars().for_each(|c| self.read(c));
        name.is_some() || before != (self.progress.number, self.input.len())
    }

    /// `None`: no call has begun.
    pub(super) fn progress(&self) -> Option<CallProgress> {
        self.index?;
        let subject = call_subject(&self.progress.tool, &self.input);
        Some(CallProgress { subject, ..self.progress.clone() })
    }

    fn read(&mut self, c: char) {
        if self.in_string {
            return self.read_in_string(c);
        }
        match c {
            '"' => {
                self.in_string = true;
                self.text.clear();
                self.is_text_complete = false;
            }
            ':' if self.depth == 1 => self.field = Some(std::mem::take(&mut self.text)),
            ',' if self.depth == 1 => self.field = None,
            '{' | '[' => self.depth += 1,
            '}' | ']' => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
    }

    fn read_in_string(&mut self, c: char) {
        let is_escaped = self.after_backslash;
        self.after_backslash = c == '\\' && !is_escaped;
        if c == '"' && !is_escaped {
            self.in_string = false;
            self.complete_text("");
        } else if c == '\n' || c == 'n' && is_escaped {
            // (Some models write line breaks as they are.)
            self.progress.lines += 1;
            if is_escaped {
                self.text.pop();
            }
            self.complete_text(" …");
        } else if !self.is_text_complete && self.text.len() < MAX_SUBJECT {
            self.text.push(c);
        }
    }

    /// Ends the open text, or its first line. A field's name is kept for the colon.
    fn complete_text(&mut self, end: &str) {
        let is_complete = std::mem::replace(&mut self.is_text_complete, true);
        if is_complete || self.depth != 1 || self.text.len() >= MAX_SUBJECT {
            return;
        }
        if let Some(field) = &self.field
            && let Ok(text) = serde_json::from_str::<String>(&format!("\"{}{end}\"", self.text))
        {
            self.input.insert(field.clone(), text.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_split_of_the_arguments_gives_the_same_progress() {
        let write =
            r#"{"path": "a \"b\".py", "content": "one\ntwo\\n\n\tthree", "x": [{"path": "c"}]}"#;
        let late = r#"{"content": "{\"path\": \"no\"}\n", "path": "z"}"#;
        let bash = r#"{"command": "set -e\necho hi", "background": true}"#;
        let open = r#"{"path": "src/ma"#;
        for (tool, text, subject, lines) in [
            ("Write", write, "a \"b\".py", 2),
            ("Write", late, "z", 1),
            ("Write", "{\"content\": \"a\nb\", \"path\": \"y\"", "y", 1),
            ("Bash", bash, "set -e …", 1),
            ("Read", open, "", 0),
        ] {
            for size in [1, 7, 1000] {
                let mut draft = CallDraft::default();
                assert!(draft.push(3, Some(tool), ""));
                for piece in text.as_bytes().chunks(size) {
                    draft.push(3, None, std::str::from_utf8(piece).expect("ASCII"));
                }
                let (tool, subject) = (tool.to_owned(), subject.to_owned());
                let expected = CallProgress { number: 0, tool, subject, lines };
                assert_eq!(draft.progress(), Some(expected), "{text} by {size}");
                draft.push(4, Some("LS"), "{}");
                assert_eq!(draft.progress().map(|next| (next.number, next.lines)), Some((1, 0)));
            }
        }
    }
}
