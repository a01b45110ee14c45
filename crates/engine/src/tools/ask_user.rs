//! AskUser: asks the user questions, and waits for the answers.

use futures_util::future::BoxFuture;
use serde::Deserialize;
use serde_json::json;

use super::{CallTarget, Tool, ToolCx, embedded_spec, parse_input};
use agent_protocol::Object;
use agent_protocol::embedded;
use agent_protocol::envelope::{ErrorCode, Failure, Report};
use agent_protocol::question::{Question, UserAnswer};
use agent_protocol::tool::{Effect, ToolSpec};

/// Asks the user.
#[derive(Debug)]
pub(super) struct AskUser {
    spec: ToolSpec,
}

impl Default for AskUser {
    fn default() -> Self {
        Self { spec: embedded_spec("AskUser", embedded::ASK_USER) }
    }
}

#[derive(Deserialize)]
struct AskUserInput {
    questions: Vec<Question>,
}

impl Tool for AskUser {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn target(&self, _: &Object, _: &ToolCx) -> Result<CallTarget, Failure> {
        Ok(Effect::Ask.into())
    }

    fn run<'a>(&'a self, input: Object, cx: &'a ToolCx) -> BoxFuture<'a, Result<Report, Failure>> {
        Box::pin(ask_user(input, cx))
    }
}

async fn ask_user(input: Object, cx: &ToolCx) -> Result<Report, Failure> {
    let AskUserInput { questions } = parse_input(&input)?;
    if let Some(n) = questions.iter().position(|question| question.question.trim().is_empty()) {
        let message = format!("question {} has no text; ask something", n + 1);
        return Err(Failure::new(ErrorCode::InvalidParam, message));
    }
    let Some(inquirer) = &cx.inquirer else {
        let message = "no user can be asked here";
        return Err(Failure::new(ErrorCode::AskUserUnavailable, message)
            .with_hint("decide yourself, and say in the final answer what you assumed"));
    };
    let Some(answers) = inquirer.ask_user(&questions).await else {
        let message = "the turn was interrupted before the user answered";
        return Err(Failure::new(ErrorCode::Cancelled, message));
    };
    let mut data = Object::new();
    data.insert("answers".to_owned(), json!(answers));
    let text: Vec<String> = answers.iter().map(format_answer).collect();
    Ok(Report { data, text: text.join("\n"), ..Report::default() })
}

/// The answer as the model receives it.
fn format_answer(answer: &UserAnswer) -> String {
    format!("{} → {}", answer.question.trim(), answer.in_words())
}
