//! AskUser: asks the user questions, and waits for the answers.

use serde::Deserialize;
use serde_json::json;

use super::{InternalTool, Tool, ToolCx, embedded_spec, json_object, parse_input};
use agent_protocol::Object;
use agent_protocol::embedded;
use agent_protocol::envelope::{ErrorCode, Failure, Report};
use agent_protocol::question::{Question, UserAnswer};
use agent_protocol::tool::Effect;

#[derive(Deserialize)]
struct AskUserInput {
    questions: Vec<Question>,
}

pub(super) fn tool() -> impl Tool {
    InternalTool {
        spec: embedded_spec("AskUser", embedded::ASK_USER),
        effect: Effect::Ask,
        run: |input, cx| Box::pin(ask_user(input, cx)),
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
    let line = |answer: &UserAnswer| format!("{} → {}", answer.question.trim(), answer.in_words());
    let text = answers.iter().map(line).collect::<Vec<_>>().join("\n");
    Ok(Report { data: json_object(json!({ "answers": answers })), text, ..Report::default() })
}
