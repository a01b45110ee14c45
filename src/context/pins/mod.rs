//! Pins: what the user forbids, requires or limits in passing, kept word for word.
//!
//! A summary may lose anything; a pin is lost by nothing but the user's own later word. New pins stand
//! behind the conversation and move into L2 when it is compacted, so that nothing in front of it changes
//! in between. What forbids all changes is no pin: that is a freeze, which holds in code.

mod chinese;
mod english;
mod lift;
mod object;
mod rules;

use lift::Lifted;
use regex::Regex;

use crate::protocol::event::{Body, Event, Pin};
use crate::protocol::prompt::{Prompt, Prompts, prompt};
use crate::protocol::speech::{Sentence, expression, sentences};

const PINS: Prompt = prompt!("pins/hold.md");
const WITHDRAWN: Prompt = prompt!("pins/withdrawn.md");
const IN_SUMMARIES: Prompt = prompt!("pins/in_summaries.md");

/// The pins of a session.
#[derive(Clone, Debug, Default)]
pub struct Pins {
    current: Vec<Pin>,
    /// Those that stand in L2, as they were when they moved there.
    in_l2: Vec<Pin>,
    /// Those that hold no longer: a summary may still name them.
    withdrawn: Vec<Pin>,
    last_id: u32,
}

impl Pins {
    /// What a message of the user does to the pins: to be emitted and applied, in this order. What
    /// `is_held` elsewhere (a freeze) is left out.
    pub fn hear(&self, message: &str, is_held: impl Fn(&str) -> bool) -> Vec<Body> {
        let sentences = sentences(message);
        let mut after = self.clone();
        let mut bodies = Vec::new();
        for sentence in &sentences {
            let Lifted { ended, narrowed } = lift::lifted(&after.current, sentence);
            let reason = &sentence.text;
            let mut changes: Vec<Body> = ended
                .into_iter()
                .map(|id| Body::PinRemoved { id, reason: reason.clone() })
                .collect();
            let mut id = after.last_id;
            let mut pin = |text: String, rules: Vec<String>| {
                id += 1;
                changes.push(Body::PinAdded { pin: Pin { id, text, rules, by_hand: false } });
            };
            if !narrowed.is_empty() {
                // Both words hold, as words only: no rule can say the exception.
                for text in narrowed {
                    pin(text, Vec::new());
                }
                pin(sentence.text.clone(), Vec::new());
            } else if binds(sentence) && !is_held(&sentence.text) {
                let text = text_of(sentence);
                let rules = rules::of(sentence, &sentences);
                if !after.has(&text) {
                    pin(text, rules);
                }
            }
            for body in &changes {
                after.take(body);
            }
            bodies.append(&mut changes);
        }
        bodies
    }

    /// A pin that the user makes by hand; `None` where it is one already, or says nothing.
    pub fn add(&self, text: &str) -> Option<Body> {
        let text = text.trim();
        if self.has(text) {
            return None;
        }
        let rules = match sentences(text).as_slice() {
            [] => return None,
            [sentence] => rules::of(sentence, std::slice::from_ref(sentence)),
            _ => Vec::new(),
        };
        let pin = Pin { id: self.last_id + 1, text: text.to_owned(), rules, by_hand: true };
        Some(Body::PinAdded { pin })
    }

    /// The user takes a pin away by hand; `None` where there is none of this number.
    pub fn remove(&self, id: u32) -> Option<Body> {
        let is_there = self.current.iter().any(|pin| pin.id == id);
        is_there.then(|| Body::PinRemoved { id, reason: "removed by hand".to_owned() })
    }

    /// Takes one more event of the session.
    pub fn apply(&mut self, event: &Event) {
        self.take(&event.body);
    }

    fn take(&mut self, body: &Body) {
        match body {
            Body::PinAdded { pin } => {
                self.last_id = self.last_id.max(pin.id);
                self.current.push(pin.clone());
            }
            Body::PinRemoved { id, .. } => {
                self.withdrawn.extend(self.current.extract_if(.., |pin| pin.id == *id));
            }
            Body::ContextCompacted(_) => self.promote(),
            _ => {}
        }
    }

    /// The pins that hold now, oldest first.
    pub fn current(&self) -> &[Pin] {
        &self.current
    }

    /// What L2 says of the pins: all that held at the last compaction, and those that a summary `names` though
    /// they had been withdrawn by then. It changes only then.
    pub fn layer(&self, prompts: &Prompts, names: impl Fn(&str) -> bool) -> String {
        let is_void =
            |pin: &&Pin| names(&pin.text) && !self.in_l2.iter().any(|l2| l2.text == pin.text);
        let void: Vec<&Pin> = self.withdrawn.iter().filter(is_void).collect();
        let held = (!self.in_l2.is_empty()).then(|| filled(prompts.text(PINS), self.in_l2.iter()));
        let void = (!void.is_empty()).then(|| filled(prompts.text(IN_SUMMARIES), void.into_iter()));
        let parts: Vec<String> = [held, void].into_iter().flatten().collect();
        parts.join("\n\n")
    }

    /// What stands behind the conversation: what L2 does not say yet, and what it still says.
    pub fn trailing(&self, prompts: &Prompts) -> Option<String> {
        let missing = |from: &[Pin], pin: &Pin| !from.iter().any(|other| other.id == pin.id);
        let new: Vec<&Pin> = self.current.iter().filter(|pin| missing(&self.in_l2, pin)).collect();
        let gone: Vec<&Pin> = self.in_l2.iter().filter(|pin| missing(&self.current, pin)).collect();
        let new = (!new.is_empty()).then(|| filled(prompts.text(PINS), new.into_iter()));
        let gone = (!gone.is_empty()).then(|| filled(prompts.text(WITHDRAWN), gone.into_iter()));
        let parts: Vec<String> = [new, gone].into_iter().flatten().collect();
        (!parts.is_empty()).then(|| parts.join("\n"))
    }

    /// The conversation was compacted: from now on L2 says all that holds.
    pub fn promote(&mut self) {
        self.in_l2.clone_from(&self.current);
    }

    /// The same is pinned already. Other words may demand more than the rules that both come to.
    fn has(&self, text: &str) -> bool {
        self.current.iter().any(|pin| normal(&pin.text) == normal(text))
    }
}

/// The sentence forbids, requires or limits something.
pub fn binds(sentence: &Sentence) -> bool {
    !sentence.is_question()
        && (hangs_on_constraints(sentence)
            || english::binds(&sentence.own)
            || chinese::binds(&sentence.own))
}

/// An item of a list that is headed as one of constraints.
fn hangs_on_constraints(sentence: &Sentence) -> bool {
    const HEADINGS: &[&str] = &[
        "constraint",
        "restriction",
        "rules",
        "boundaries",
        "don'ts",
        "do not",
        "don't",
        "never",
        "must not",
        "off limits",
        "out of scope",
        "non-goals",
        "约束",
        "限制",
        "规则",
        "禁止",
        "不要",
        "红线",
        "禁区",
        "边界",
        "注意事项",
    ];
    sentence.heading.as_ref().is_some_and(|heading| {
        let heading = heading.to_lowercase().replace('’', "'");
        let words = heading.split_whitespace().count();
        words <= 6 && HEADINGS.iter().any(|name| heading.contains(name))
    })
}

/// The user's words; those of an item with the heading without which it may say the opposite.
fn text_of(sentence: &Sentence) -> String {
    match &sentence.heading {
        Some(heading) if hangs_on_constraints(sentence) => format!("{heading} {}", sentence.text),
        Some(_) | None => sentence.text.clone(),
    }
}

fn filled<'a>(template: &str, pins: impl Iterator<Item = &'a Pin>) -> String {
    let lines: Vec<String> =
        pins.map(|pin| format!("- {}", pin.text.replace('\n', "\n  "))).collect();
    template.trim_end().replace("{{pins}}", &lines.join("\n"))
}

/// Two pins that differ in nothing but this are one.
fn normal(text: &str) -> String {
    let text = text.to_lowercase().replace('’', "'");
    let words = text.split(|c: char| c.is_whitespace() || ".!,;。！，；".contains(c));
    words.filter(|word| !word.is_empty() && *word != "please").collect::<Vec<_>>().join(" ")
}

/// Any of these fits.
fn any(forms: &[&str]) -> Regex {
    expression(&forms.join("|"))
}
