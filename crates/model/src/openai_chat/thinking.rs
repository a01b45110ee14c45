//! Finds reasoning in the text of answers: models mark it with tags, and some servers leave it there. A tag begins reasoning
//! only at the beginning of an answer; elsewhere it is text.

use agent_protocol::model::Delta;

/// The beginning and the end of reasoning: most open models, fine-tuned ones, Seed-OSS, Magistral, Kimi-VL, Command A
/// Reasoning, Gemma 4, gpt-oss.
const TAGS: [(&str, &str); 10] = [
    ("<think>", "</think>"),
    ("<thinking>", "</thinking>"),
    ("<thought>", "</thought>"),
    ("<reasoning>", "</reasoning>"),
    ("<seed:think>", "</seed:think>"),
    ("[THINK]", "[/THINK]"),
    ("◁think▷", "◁/think▷"),
    ("<|START_THINKING|>", "<|END_THINKING|>"),
    ("<|channel>thought", "<channel|>"),
    ("<|channel|>analysis<|message|>", "<|channel|>final<|message|>"),
];

#[derive(Default)]
pub(super) struct ThinkingReader {
    place: Place,
    /// Text that may be a part of a tag.
    held: String,
    /// The blanks that follow belong neither to reasoning nor to the answer.
    drops_blanks: bool,
}

#[derive(Clone, Copy, Default)]
enum Place {
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
        if self.drops_blanks {
            self.held = self.held.trim_start().to_owned();
        }
        let text = self.held.trim_start();
        match self.place {
            Place::Start => {
                if let Some((tag, end_tag)) = TAGS.iter().find(|(tag, _)| text.starts_with(tag)) {
                    self.held.drain(..self.held.len() - text.len() + tag.len());
                    (self.place, self.drops_blanks) = (Place::Reasoning(end_tag), true);
                } else if is_end || !TAGS.iter().any(|(tag, _)| tag.starts_with(text)) {
                    (self.place, self.drops_blanks) = (Place::Answer, false);
                } else {
                    return None;
                }
                self.next_part(is_end)
            }
            Place::Reasoning(end_tag) => {
                let end = self.held.find(end_tag);
                let is_part = |n: &usize| end_tag.get(..*n).is_some_and(|it| text.ends_with(it));
                let part = (1..end_tag.len()).rev().find(is_part).filter(|_| !is_end);
                let end_of_text = end.unwrap_or(self.held.len() - part.unwrap_or_default());
                let text: String = self.held.drain(..end_of_text).collect();
                self.drops_blanks &= text.is_empty();
                if end.is_some() {
                    self.held.drain(..end_tag.len());
                    (self.place, self.drops_blanks) = (Place::Start, true);
                }
                match end {
                    Some(_) if text.is_empty() => self.next_part(is_end),
                    _ => (!text.is_empty()).then_some(Delta::Reasoning(text)),
                }
            }
            Place::Answer => {
                let text = std::mem::take(&mut self.held);
                (!text.is_empty()).then_some(Delta::Text(text))
            }
        }
    }
}

#[cfg(test)]
#[path = "thinking_tests.rs"]
mod tests;
