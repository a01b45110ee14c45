//! `/tasks`: the commands of the model that run in the background.

use super::jobs::Jobs;
use agent_host::exec::{BackgroundCommand, seconds};
use agent_ui::tui::{ChatUpdate, PagePlace};

/// Of the output of each command.
const SHOWN_LINES: usize = 3;

impl Jobs<'_> {
    pub(super) fn run_tasks_command(&mut self, arguments: &str) {
        let (handle, exec) = (self.handle.clone(), self.commands.clone());
        let words: Vec<&str> = arguments.split_whitespace().collect();
        match words[..] {
            [] => {
                let mut text = String::new();
                for command in exec.running_commands() {
                    let BackgroundCommand { id, line, time, last_output } = command;
                    let time = time.map(|time| format!("{}  ", seconds(time))).unwrap_or_default();
                    text.push_str(&format!("{id}  {time}{}\n", line.trim()));
                    let lines: Vec<&str> = last_output.trim_end().lines().collect();
                    for line in &lines[lines.len().saturating_sub(SHOWN_LINES)..] {
                        text.push_str(&format!("    {line}\n"));
                    }
                }
                if text.is_empty() {
                    let text = "no command runs in the background".to_owned();
                    handle.send(ChatUpdate::Note(true, text));
                } else {
                    text.push_str("/tasks stop ID ends one");
                    self.show_page("Commands in the background", Ok(text), PagePlace::Conversation);
                }
            }
            ["stop", id] => {
                let id = id.to_owned();
                self.spawn(async move {
                    let is_stopped = exec.stop(&id).await;
                    let text = if is_stopped {
                        format!("{id} is ended; the model learns it when it reads its output")
                    } else {
                        format!("no command {id} runs in the background; /tasks lists them")
                    };
                    handle.send(ChatUpdate::Note(is_stopped, text));
                });
            }
            _ => handle.send(ChatUpdate::Note(false, "/tasks [stop ID]".to_owned())),
        }
    }
}
