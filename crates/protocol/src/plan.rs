//! The plan: the model's todo list.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::envelope::Envelope;

/// How far a todo is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TodoStatus {
    /// Not begun.
    Pending,
    /// Being worked on; at most one is.
    InProgress,
    /// Done.
    Completed,
    /// Given up.
    Cancelled,
}

/// One thing to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Todo {
    /// The task.
    pub content: String,
    /// Its status.
    pub status: TodoStatus,
}

/// The todo list and its goal. Empty if there is no plan.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Plan {
    /// The goal, in the model's words.
    #[serde(default)]
    pub summary: String,
    /// The todos, in the model's order.
    pub todos: Vec<Todo>,
    /// The methodology that a planner selected (`prompts/methodologies/`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub methodology: Option<String>,
}

impl Plan {
    /// The plan in the result of a todo tool; `None` if the call wrote none.
    pub fn from_envelope(answer: &Envelope) -> Option<Self> {
        let todos = answer.data.get("todos").filter(|_| answer.error().is_none())?;
        let todos = Vec::deserialize(todos).ok()?;
        let summary = answer.context.params_input.get("summary").and_then(Value::as_str);
        Some(Self { summary: summary.unwrap_or_default().to_owned(), todos, methodology: None })
    }

    /// The todos that are neither completed nor cancelled.
    pub fn open_todos(&self) -> impl Iterator<Item = &Todo> {
        self.todos
            .iter()
            .filter(|todo| matches!(todo.status, TodoStatus::Pending | TodoStatus::InProgress))
    }

    /// The todo in progress, and its place in the list from 1.
    pub fn current_todo(&self) -> Option<(usize, &Todo)> {
        let at = self.todos.iter().position(|todo| todo.status == TodoStatus::InProgress)?;
        Some((at + 1, &self.todos[at]))
    }

    /// The number of completed todos, and of all but the cancelled ones: `2/5`.
    pub fn progress(&self) -> String {
        let count = |status| self.todos.iter().filter(|todo| todo.status == status).count();
        let total = self.todos.len() - count(TodoStatus::Cancelled);
        format!("{}/{total}", count(TodoStatus::Completed))
    }

    /// `[2/5] In progress: …. Pending: …; ….`, without cancelled todos; `None` if nothing is open.
    pub fn recap(&self) -> Option<String> {
        self.open_todos().next()?;
        let mut line = format!("[{}]", self.progress());
        if let Some((_, todo)) = self.current_todo() {
            line.push_str(&format!(" In progress: {}.", todo.content));
        }
        let pending: Vec<&str> = self
            .todos
            .iter()
            .filter(|todo| todo.status == TodoStatus::Pending)
            .map(|todo| todo.content.as_str())
            .collect();
        if !pending.is_empty() {
            line.push_str(&format!(" Pending: {}.", pending.join("; ")));
        }
        Some(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(todos: &[(&str, TodoStatus)]) -> Plan {
        let todos = todos
            .iter()
            .map(|(content, status)| Todo { content: (*content).into(), status: *status });
        Plan { todos: todos.collect(), ..Plan::default() }
    }

    #[test]
    fn plan_recap_excludes_cancelled_todos() {
        use TodoStatus::{Cancelled, Completed, InProgress, Pending};
        let plan = plan(&[
            ("a", Completed),
            ("b", InProgress),
            ("c", Pending),
            ("d", Pending),
            ("e", Cancelled),
        ]);
        assert_eq!(plan.recap().as_deref(), Some("[1/4] In progress: b. Pending: c; d."));
    }

    #[test]
    fn plan_without_open_todos_has_no_recap() {
        assert_eq!(plan(&[("a", TodoStatus::Completed)]).recap(), None);
        assert_eq!(Plan::default().recap(), None);
    }
}
