//! The items of the status line that the user chooses.

use clap::ValueEnum;

use super::cells::format_count;
use super::state::State;
use super::theme::StyleRole;
use agent_protocol::control::PermissionMode;
use agent_protocol::terminal_escape::escape_literal_line;

/// Percent of the window, and of the size at which a compaction follows.
const CROWDED: u64 = 70;
const AT_LIMIT: u64 = 95;

/// An item of the status line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum StatusItem {
    Mode,
    /// The number of commands in the background.
    Background,
    /// The used part of the context window.
    Context,
    Cost,
    Model,
    Branch,
}

impl StatusItem {
    /// The items with these names, in this order.
    pub fn from_names<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<Vec<Self>, String> {
        let mut items = Vec::new();
        for name in names {
            let item = Self::from_str(name, false).map_err(|_| {
                let all = Self::value_variants().iter().filter_map(Self::to_possible_value);
                let all: Vec<String> = all.map(|item| item.get_name().to_owned()).collect();
                format!("the status line has no item {name:?}: {}", all.join(", "))
            })?;
            if !items.contains(&item) {
                items.push(item);
            }
        }
        Ok(items)
    }
}

impl State {
    /// `None` if there is nothing to show.
    pub(super) fn status_item(&self, item: StatusItem) -> Option<(String, StyleRole)> {
        let conversation = &self.conversation;
        let text = match item {
            StatusItem::Mode => {
                let mode = conversation.mode?;
                let role = match mode {
                    PermissionMode::Full => StyleRole::Bad,
                    PermissionMode::AutoEdit => StyleRole::Warn,
                    PermissionMode::Plan => StyleRole::Strong,
                    PermissionMode::ReadOnly | PermissionMode::Ask => StyleRole::Quiet,
                };
                return Some((mode.as_str().to_owned(), role));
            }
            StatusItem::Background => match self.background.len() {
                0 => return None,
                n => format!("{n} in background"),
            },
            StatusItem::Model => {
                let model = escape_literal_line(&conversation.model);
                let effort = conversation.effort.map(|effort| format!(" {}", effort.as_str()));
                format!("{model}{}", effort.unwrap_or_default())
            }
            StatusItem::Context if conversation.context_tokens > 0 => {
                let used = conversation.context_tokens;
                let percent_of = |all: u64| used.saturating_mul(100) / all.max(1);
                let percent = conversation.window.map(percent_of);
                let share = percent.map_or_else(String::new, |percent| format!(" ({percent} %)"));
                let tilde = if conversation.tokens_are_estimated { "~" } else { "" };
                let text = format!("{tilde}{} tokens{share}", format_count(used));
                return Some(if conversation.compacts_at.map(percent_of) >= Some(AT_LIMIT) {
                    (format!("{text}, compacts soon"), StyleRole::Bad)
                } else if percent > Some(CROWDED) {
                    (text, StyleRole::Warn)
                } else {
                    (text, StyleRole::Quiet)
                });
            }
            StatusItem::Context => return None,
            StatusItem::Cost => {
                let running = conversation.running_cost_usd;
                let cost = conversation.spending.cost_usd.unwrap_or(0.0) + running.unwrap_or(0.0);
                let tilde =
                    if running.is_some() { "~" } else { conversation.spending.estimate_mark() };
                if cost > 0.0 { format!("{tilde}${cost:.2}") } else { String::new() }
            }
            StatusItem::Branch => escape_literal_line(self.settings.branch.as_ref()?).into_owned(),
        };
        (!text.is_empty()).then_some((text, StyleRole::Quiet))
    }
}
