//! The user's "nothing is to be changed", in force until the user lifts it.

use crate::permission::{Heard, heard};
use crate::protocol::control::{Reason, Ruling};
use crate::protocol::envelope::ErrorCode;
use crate::protocol::event::{Body, FreezeCause};
use crate::protocol::tool::Effect;

/// Why nothing may be changed now; usually there is no reason.
#[derive(Debug, Default)]
pub(super) struct Freeze(Option<(FreezeCause, String)>);

impl Freeze {
    /// A message of the user begins a turn: what happens to the freeze.
    pub(super) fn hear(&self, message: &str) -> Option<Body> {
        let by_user = matches!(self.0, Some((FreezeCause::User, _)));
        match heard(message, by_user) {
            Some(Heard::Freeze(words)) => Some(Body::Frozen { by: FreezeCause::User, words }),
            Some(Heard::Lift(words)) => Some(Body::Thawed { words }),
            // An interrupt holds until the next message.
            None if !by_user && self.0.is_some() => {
                Some(Body::Thawed { words: "the next message".to_owned() })
            }
            None => None,
        }
    }

    pub(super) fn apply(&mut self, body: &Body) {
        match body {
            Body::Frozen { by, words } => self.0 = Some((*by, words.clone())),
            Body::Thawed { .. } => self.0 = None,
            _ => {}
        }
    }

    /// In whose words nothing may be changed.
    pub(super) fn words(&self) -> Option<&str> {
        self.0.as_ref().map(|(_, words)| words.as_str())
    }

    /// A red line: no rule and no mode outranks it.
    pub(super) fn rule_on(&self, effect: &Effect) -> Option<Ruling> {
        let (_, words) = self.0.as_ref()?;
        let words = words.trim_end_matches(['.', '。']);
        if effect.is_read_only() || matches!(effect, Effect::Job { .. } | Effect::Plan) {
            return None;
        }
        let reason = Reason {
            rule: "freeze".to_owned(),
            text: format!("nothing is changed until the user lifts it: “{words}”"),
            hint: Some(
                "look, and say what you would change; the user lifts it with “go ahead” (“可以改了”)"
                    .to_owned(),
            ),
            pin: None,
        };
        Some(Ruling::Refuse(ErrorCode::AccessDenied, reason))
    }
}
