//! Finds reasoning in the text of answers: models mark it with tags, and some servers leave it there. A tag begins reasoning
//! only at the beginning of an answer; elsewhere it is text.

use agent_protocol::model::Delta;

/// The beginning and the end of reasoning: most open models, fine-tuned ones, Magistral, gpt-oss.
const TAGS: [(&str, &str); 5] = [
    ("<think>", "</think>"),
    ("<thinking>", "</thinking>"),
    ("<reasoning>", "</reasoning>"),
    ("[THINK]", "[/THINK]"),
    ("<|channel|>analysis<|message|>", "<|channel|>final<|message|>"),
];
/// More white space is text: before a tag, and after one.
const MAX_BLANKS: usize = 64;

#[derive(Default)]
pub(super) struct ThinkingReader {
    state: ReadingState,
    /// White space, and text that may be a part of a tag.
    held: String,
    /// White space that follows a tag belongs neither to reasoning nor to the answer.
    follows_tag: bool,
}

#[derive(Clone, Copy, Default)]
enum ReadingState {
    /// Before the answer: reasoning may begin here.
    #[default]
    Start,
    /// It ends with this tag.
    Reasoning(&'static str),
    Answer,
}

impl ThinkingReader {
    pub(super) fn read(&mut self, received: Vec<Delta>) -> Vec<Delta> {
        let mut deltas = Vec::new();
        for delta in received {
            if let Delta::Text(text) = &delta {
                self.held.push_str(text);
                deltas.extend(std::iter::from_fn(|| self.next_part(false)));
            } else {
                deltas.push(delta);
            }
        }
        deltas
    }

    pub(super) fn finish(&mut self) -> Vec<Delta> {
        std::iter::from_fn(|| self.next_part(true)).collect()
    }

    /// `None` if more text is needed; `is_end`: none follows.
    fn next_part(&mut self, is_end: bool) -> Option<Delta> {
        let text = self.held.trim_start();
        let n_blanks = self.held.len() - text.len();
        let is_blank = n_blanks > MAX_BLANKS;
        match self.state {
            ReadingState::Start => {
                let begun = TAGS.iter().find(|(tag, _)| !is_blank && text.starts_with(tag));
                if let Some((tag, end_tag)) = begun {
                    self.held.drain(..n_blanks + tag.len());
                    (self.state, self.follows_tag) = (ReadingState::Reasoning(end_tag), true);
                } else if is_end || is_blank || !TAGS.iter().any(|(tag, _)| tag.starts_with(text)) {
                    self.drop_blanks(n_blanks);
                    self.state = ReadingState::Answer;
                } else {
                    return None;
                }
                self.next_part(is_end)
            }
            ReadingState::Reasoning(end_tag) => {
                if self.follows_tag && text.is_empty() && !is_blank && !is_end {
                    return None;
                }
                self.drop_blanks(n_blanks);
                let end = self.held.find(end_tag);
                let is_part =
                    |n: &usize| end_tag.get(..*n).is_some_and(|it| self.held.ends_with(it));
                let part = (1..end_tag.len()).rev().find(is_part).filter(|_| !is_end);
                let end_of_text = end.unwrap_or(self.held.len() - part.unwrap_or_default());
                let text: String = self.held.drain(..end_of_text).collect();
                if end.is_some() {
                    self.held.drain(..end_tag.len());
                    (self.state, self.follows_tag) = (ReadingState::Start, true);
                }
                match end {
                    Some(_) if text.is_empty() => self.next_part(is_end),
                    _ => (!text.is_empty()).then_some(Delta::Reasoning(text)),
                }
            }
            ReadingState::Answer => {
                let text = std::mem::take(&mut self.held);
                (!text.is_empty()).then_some(Delta::Text(text))
            }
        }
    }

    fn drop_blanks(&mut self, n_blanks: usize) {
        if std::mem::take(&mut self.follows_tag) && n_blanks <= MAX_BLANKS {
            self.held.drain(..n_blanks);
        }
    }
}

#[cfg(test)]
#[path = "thinking_tests.rs"]
mod tests;
