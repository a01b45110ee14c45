//! TodoWrite: replaces the plan.

use serde_json::json;

use super::{InternalTool, Tool, embedded_spec, json_object, parse_input};
use agent_protocol::Object;
use agent_protocol::embedded;
use agent_protocol::envelope::{ErrorCode, Failure, Report};
use agent_protocol::plan::{Plan, Todo, TodoStatus};
use agent_protocol::tool::Effect;

/// Limits: todos of a plan, and characters of each.
const MAX_TODOS: usize = 20;
const MAX_LENGTH: usize = 120;

pub(super) fn tool() -> impl Tool {
    InternalTool {
        spec: embedded_spec("TodoWrite", embedded::TODO_WRITE),
        effect: Effect::Plan,
        run: |input, _| Box::pin(async move { write_plan(&input) }),
    }
}

fn write_plan(input: &Object) -> Result<Report, Failure> {
    let plan: Plan = parse_input(input)?;
    check_plan(&plan).map_err(|why| Failure::new(ErrorCode::InvalidParam, why))?;
    // (The call itself says what is pending.)
    let text = match (plan.current_todo(), plan.open_todos().next()) {
        (Some((_, todo)), _) => format!("[{}] In progress: {}.", plan.progress(), todo.content),
        (None, Some(_)) => format!("[{}]", plan.progress()),
        (None, None) if plan.todos.is_empty() => "The plan is cleared.".to_owned(),
        (None, None) => "Nothing in the plan is open.".to_owned(),
    };
    let data = json_object(json!({ "todos": plan.todos }));
    let (total, open) = (plan.todos.len(), plan.open_todos().count());
    let stats = json_object(json!({ "total": total, "open": open }));
    Ok(Report { data, text, stats, ..Report::default() })
}

fn check_plan(plan: &Plan) -> Result<(), String> {
    if plan.todos.len() > MAX_TODOS {
        let n = plan.todos.len();
        return Err(format!("{n} todos are too many; keep at most {MAX_TODOS}, in larger steps"));
    }
    for (n, todo) in (1..).zip(&plan.todos) {
        let length = todo.content.chars().count();
        if todo.content.trim().is_empty() {
            return Err(format!("todo {n} has no content; describe the task"));
        }
        if length > MAX_LENGTH {
            return Err(format!(
                "todo {n} has {length} characters; say it in at most {MAX_LENGTH}"
            ));
        }
    }
    let is_current = |todo: &&Todo| todo.status == TodoStatus::InProgress;
    let n_current = plan.todos.iter().filter(is_current).count();
    if n_current > 1 {
        return Err(format!(
            "{n_current} todos are in_progress; work on one, leave the others pending"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn answer(todos: &Value) -> Result<Report, Failure> {
        let Value::Object(input) = json!({"summary": "why", "todos": todos}) else { panic!() };
        write_plan(&input)
    }

    #[test]
    fn todo_write_returns_the_plan_and_its_progress() {
        let todos = json!([
            {"content": "a", "status": "completed"},
            {"content": "b", "status": "in_progress"},
            {"content": "c", "status": "pending"},
        ]);
        let report = answer(&todos).expect("a report");
        assert_eq!(report.data["todos"], todos);
        assert_eq!(report.text, "[1/3] In progress: b.");
        assert_eq!(answer(&json!([])).expect("a report").text, "The plan is cleared.");
    }

    #[test]
    fn invalid_plan_is_refused_with_an_explanation() {
        let todo = |content: &str, status: &str| json!({"content": content, "status": status});
        for (todos, expected) in [
            (json!(vec![todo("a", "pending"); 21]), "21 todos are too many"),
            (json!([todo("a", "pending"), todo(" ", "pending")]), "todo 2 has no content"),
            (json!([todo(&"ä".repeat(121), "pending")]), "todo 1 has 121 characters"),
            (json!(vec![todo("a", "in_progress"); 2]), "2 todos are in_progress"),
            (json!([todo("a", "done")]), "unknown variant"),
        ] {
            let failure = answer(&todos).expect_err(expected);
            assert_eq!(failure.code, ErrorCode::InvalidParam);
            assert!(failure.message.starts_with(expected), "{}", failure.message);
        }
        assert!(answer(&json!([todo(&"ä".repeat(120), "pending")])).is_ok());
    }

    #[test]
    fn tool_schema_rejects_additional_properties() {
        let tool = tool();
        assert_eq!(tool.spec().schema["additionalProperties"], false);
        assert_eq!(tool.spec().schema["properties"]["todos"]["maxItems"], MAX_TODOS);
    }
}
