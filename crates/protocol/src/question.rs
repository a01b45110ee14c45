//! Questions of the model to the user ([`Question`]), and the type that asks them ([`Inquirer`]).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::control::{SessionControl, UserReply};
use super::event::{EventBody, EventStream};

/// A question of the model to the user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Question {
    /// The question.
    pub question: String,
    /// Its topic in a word or two.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub header: Option<String>,
    /// Answers to choose from; the user can also answer in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<AnswerOption>,
    /// Several options can be chosen.
    #[serde(default, skip_serializing_if = "std::ops::Not::not", alias = "multiSelect")]
    pub multi_select: bool,
}

/// An answer to choose.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AnswerOption {
    /// The answer.
    pub label: String,
    /// What it means.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

/// What the user answered to one question: options, words, or both.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UserAnswer {
    /// The question.
    pub question: String,
    /// The labels of the chosen options, in the order of the question.
    pub selected: Vec<String>,
    /// The answer in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

impl UserAnswer {
    /// The answer alone: `a, b, in words`.
    pub fn in_words(&self) -> String {
        let parts = self.selected.iter().chain(&self.text);
        parts.map(String::as_str).collect::<Vec<_>>().join(", ")
    }
}

/// Asks the user on behalf of one call.
#[derive(Clone)]
pub struct Inquirer {
    pub control: SessionControl,
    pub events: EventStream,
    pub call: String,
}

impl Inquirer {
    /// Asks these questions together and waits; `None` after an interrupt.
    pub async fn ask_user(&self, questions: &[Question]) -> Option<Vec<UserAnswer>> {
        let mut open = self.control.open_question(&self.call);
        self.events.emit(EventBody::QuestionAsked {
            call: self.call.clone(),
            questions: questions.to_vec(),
        });
        loop {
            match open.next_reply().await? {
                UserReply::Answers(answers) => {
                    self.events.emit(EventBody::QuestionAnswered {
                        call: self.call.clone(),
                        answers: answers.clone(),
                    });
                    return Some(answers);
                }
                // No mode answers a question.
                UserReply::Decision(_) | UserReply::ModeRequested => {}
            }
        }
    }
}
