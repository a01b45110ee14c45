//! JSON Schema validation of final answers (`--json-schema`).

use serde_json::Value;

use agent_protocol::schema::Schema;
use agent_protocol::shorten;

/// A JSON Schema for final answers.
pub struct AnswerSchema(Schema);

impl AnswerSchema {
    /// Compiles a schema; the error says what is wrong.
    pub fn new(schema: &Value) -> Result<Self, String> {
        Schema::new(schema).map(Self)
    }

    pub(super) fn parse_answer(&self, answer: &str) -> Result<Value, String> {
        let value: Value = serde_json::from_str(strip_code_fence(answer))
            .map_err(|error| format!("It is not JSON: {error}."))?;
        let problems = self.0.mismatches(&value, |mismatch| {
            let place = if mismatch.pointer.is_empty() { "at the top" } else { &*mismatch.pointer };
            format!("{place}: {}", shorten(&mismatch.reason, 200))
        });
        let problems = &problems[..problems.len().min(5)];
        if problems.is_empty() { Ok(value) } else { Err(format!("{}.", problems.join("; "))) }
    }
}

/// Models often put JSON into a Markdown code block.
fn strip_code_fence(answer: &str) -> &str {
    let answer = answer.trim();
    let Some(inner) = answer.strip_prefix("```").and_then(|rest| rest.strip_suffix("```")) else {
        return answer;
    };
    inner.strip_prefix("json").unwrap_or(inner).trim()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_answer_is_read_bare_or_from_a_code_block() {
        let schema = serde_json::json!({"type": "object", "required": ["n"]});
        let schema = AnswerSchema::new(&schema).expect("a schema");
        assert!(schema.parse_answer("{\"n\": 1}").is_ok());
        assert!(schema.parse_answer("```json\n{\"n\": 1}\n```").is_ok());
        assert!(schema.parse_answer("{}").is_err_and(|why| why.contains('n')));
        assert!(schema.parse_answer("n is 1").is_err_and(|why| why.starts_with("It is not JSON")));
    }
}
