//! The lessons of earlier sessions that the model has received in this one.

use agent_protocol::event::{Event, EventBody};
use agent_protocol::prompt::{Prompt, Prompts};
use agent_protocol::recall::{LessonKind, RecallMoment, RecalledLesson};

const KNOWN: Prompt = Prompt::named("memory/known.md");
const REMINDER: Prompt = Prompt::named("memory/reminder.md");

/// The latest lessons are kept.
const MAX_LAYER_BYTES: usize = 4000;

/// The lessons that the model has received, the latest last; each once.
#[derive(Clone, Debug, Default)]
pub struct ReceivedLessons(Vec<RecalledLesson>);

impl ReceivedLessons {
    /// Whether the model received this lesson, or another one with the same text: the user's and the project's may
    /// be equal.
    pub fn has_received(&self, id: &str, text: &str) -> bool {
        self.0.iter().any(|item| item.id == id || item.text == text)
    }

    /// Applies an event of the session.
    pub fn apply(&mut self, event: &Event) {
        if let EventBody::MemoryRecalled(recalled) = &event.body
            && recalled.moment != RecallMoment::Reflection
        {
            for item in &recalled.items {
                self.0.retain(|other| other.id != item.id);
                self.0.push(item.clone());
            }
        }
    }

    /// The lessons as part of L2.
    pub fn layer(&self, prompts: &Prompts) -> String {
        let mut room = MAX_LAYER_BYTES;
        let latest = self.0.iter().rev().take_while(|item| {
            let left = room.checked_sub(item.text.len());
            room = left.unwrap_or(0);
            left.is_some()
        });
        let mut items: Vec<RecalledLesson> = latest.cloned().collect();
        items.reverse();
        if items.is_empty() { String::new() } else { format_lessons(prompts, KNOWN, &items) }
    }
}

/// The message about lessons for the task.
pub fn memory_reminder(prompts: &Prompts, items: &[RecalledLesson]) -> String {
    format_lessons(prompts, REMINDER, items)
}

fn format_lessons(prompts: &Prompts, frame: Prompt, items: &[RecalledLesson]) -> String {
    const RULES: Prompt = Prompt::named("memory/rules.md");
    const PATTERNS: Prompt = Prompt::named("memory/patterns.md");

    let (rules, patterns): (Vec<_>, Vec<_>) = items.iter().partition(|item| match item.kind {
        LessonKind::Rule => true,
        LessonKind::Pattern | LessonKind::FailurePattern => false,
    });
    let groups = [(RULES, rules), (PATTERNS, patterns)];
    let groups = groups.into_iter().filter(|(_, items)| !items.is_empty()).map(|(head, items)| {
        let lines: Vec<String> = items.iter().map(|item| format!("- {}", item.text)).collect();
        prompts.text(head).trim_end().replace("{{items}}", &lines.join("\n"))
    });
    let groups: Vec<String> = groups.collect();
    prompts.text(frame).trim_end().replace("{{items}}", &groups.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(n: usize, kind: LessonKind) -> RecalledLesson {
        RecalledLesson { id: n.to_string(), kind, text: format!("do {n} {}", "x".repeat(300)) }
    }

    #[test]
    fn recalled_rules_precede_patterns_and_the_latest_fit_the_limit() {
        let prompts = Prompts::default();
        assert_eq!(ReceivedLessons::default().layer(&prompts), "");
        let items = [item(1, LessonKind::FailurePattern), item(2, LessonKind::Rule)];
        let text = memory_reminder(&prompts, &items);
        let at = |part| text.find(part).expect(part);
        assert!(at("Memory:") < at("Rules learned:\n- do 2"), "{text}");
        assert!(at("do 2") < at("Patterns learned:\n- do 1"), "{text}");

        let memories = ReceivedLessons((0..100).map(|n| item(n, LessonKind::Pattern)).collect());
        let layer = memories.layer(&prompts);
        assert!(layer.len() < MAX_LAYER_BYTES + 300, "{}", layer.len());
        assert!(layer.contains("do 99 ") && !layer.contains("do 0 "), "{layer}");
    }
}
