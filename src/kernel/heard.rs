//! What is heard and met on the way: the user's demands, mentions, rules in folders.

use super::Kernel;
use super::evaluate::Round;
use super::rejected::rejects;
use super::turn::{PastCall, Turn};
use crate::context::Rules;
use crate::protocol::event::{Body, Event, Pin, TurnFinished};
use crate::protocol::message::ToolCall;
use crate::protocol::prompt::{Prompt, fill, prompt};
use crate::protocol::shorten;
use crate::protocol::tool::Effect;
use crate::registry::Answer;

/// All rules that were met on the way take this part of the window in L2: an eighth.
const RULES_MET: u64 = 8;

impl Kernel {
    /// The demands of the user's that hold now.
    pub fn pins(&self) -> &[Pin] {
        self.pins.current()
    }

    /// The user pins this by hand; `None` where it is a pin already, or says nothing.
    pub fn pin(&mut self, text: &str) -> Option<Pin> {
        self.record(self.pins.add(text)?);
        self.pins.current().last().cloned()
    }

    /// The user takes a pin away by hand; false where there is none of this number.
    pub fn unpin(&mut self, id: u32) -> bool {
        let removed = self.pins.remove(id);
        removed.map(|body| self.record(body)).is_some()
    }

    /// The user said something: it may demand something for good, or take such a demand back.
    pub(super) fn hear(&mut self, message: &str) {
        self.parts.registry.hear(message);
        let registry = &self.parts.registry;
        for body in self.pins.hear(message, |sentence| registry.is_freeze(sentence)) {
            self.record(body);
        }
    }

    /// The user may begin by saying that the last result is wrong: that is evidence, and the model is told once
    /// what it had claimed. The task begins anew with every counter at nothing, as with any message.
    pub(super) fn hear_rejection(&mut self, turn: &mut Turn, message: &str) {
        const REJECTED: Prompt = prompt!("feedback/rejected.md");
        let Some(claim) = self.claim.take() else { return };
        let Some(words) = rejects(message) else { return };
        self.evaluate(turn, &Round::Rejected { words: &words });
        let outcome = format!("rejected by the user: {}", shorten(&words, 200));
        turn.case.attempts.push(PastCall { call: format!("a final answer ({claim})"), outcome });
        let template = self.parts.prompts.text(REJECTED).trim_end();
        let values = [("claim", claim.as_str()), ("words", &shorten(&words, 300))];
        turn.trailing.reminders.push(fill(template, &values));
    }

    /// A fact that is no part of the conversation itself.
    pub(super) fn note(&mut self, event: &Event) {
        self.parts.registry.apply(event);
        // What the user does not want to be read is read by nobody.
        if let Some(verifier) = &self.parts.verifier {
            verifier.registry.apply(event);
        }
        self.pins.apply(event);
        self.rules_met.apply(event);
        self.memories.apply(event);
        if let Body::MemoryRecalled(recalled) = &event.body
            && recalled.in_rules
        {
            self.parts.layers.join(&self.memories.layer(&self.parts.prompts));
        }
    }

    /// The conversation gives way: what was pinned and met since then moves into L2.
    pub(super) fn join_l2(&mut self) {
        self.pins.promote();
        let joining = self.joining_l2();
        self.parts.layers.join(&joining);
    }

    /// What L2 would say besides, if the conversation gave way now.
    pub(super) fn joining_l2(&self) -> String {
        let mut pins = self.pins.clone();
        pins.promote();
        let prompts = &self.parts.prompts;
        let room = self.budget.bytes(self.budget.window() / RULES_MET);
        let parts = [
            pins.layer(prompts, |text| self.history.names(text)),
            self.rules_met.layer(prompts, room),
            self.memories.layer(prompts),
        ];
        let parts: Vec<&str> =
            parts.iter().map(String::as_str).filter(|part| !part.is_empty()).collect();
        parts.join("\n\n")
    }

    /// Tells of the rules that hold where tools worked in this round, behind all of its results.
    pub(super) fn meet_rules(&mut self, turn: &mut Turn) {
        for path in std::mem::take(&mut turn.touched) {
            self.meet_rules_of(&path);
        }
    }

    fn meet_rules_of(&mut self, path: &str) {
        let project = self.parts.project.clone();
        // By the rules that hold now: a pin may have come since the session began.
        let withheld = self.parts.registry.withheld();
        let is_shown = |path: &str| withheld.why("Read", path).is_none();
        let is_folder = project.find(path).is_some_and(|found| found.is_folder);
        for folder in self.rules_met.folders(path, is_folder) {
            for rules in project.rules_in(&folder, &is_shown) {
                let Rules { path, .. } = &rules;
                let text = rules.shown(self.parts.max_rules_bytes);
                // A link to what stands in L2, or a copy, says nothing new.
                let in_l2 = || {
                    let known = project.rules_in(".", &is_shown);
                    known.iter().any(|known| known.text == rules.text)
                };
                if self.rules_met.has(path, &text) || in_l2() {
                    continue;
                }
                let path = path.clone();
                let found = self.parts.events.emit(Body::RulesFound { path, text });
                self.history.apply(&found);
                self.note(&found);
            }
        }
    }

    fn record(&mut self, body: Body) {
        let event = self.parts.events.emit(body);
        self.note(&event);
    }
}

/// What a turn claimed when it was done, in one line.
pub(super) fn claim_of(finished: &TurnFinished) -> Option<String> {
    const BYTES: usize = 200;
    let words: Vec<&str> = finished.result.split_whitespace().collect();
    let is_claim = finished.ending.is_success() && !words.is_empty();
    is_claim.then(|| shorten(&words.join(" "), BYTES))
}

impl Turn {
    /// What the answers of calls touched: mentions that are followed now, and places where rules may hold.
    pub(super) fn look_around(&mut self, calls: &[ToolCall], answers: &[Answer]) {
        for (call, answer) in calls.iter().zip(answers) {
            let Some(Effect::Read { path } | Effect::Write { path }) = &answer.effect else {
                continue;
            };
            self.trailing.mentions.followed(path, call.name == "Read");
            if answer.envelope.error().is_none() {
                self.touched.push(path.clone());
            }
        }
    }
}
