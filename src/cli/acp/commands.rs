//! Slash commands: those of the user and the project, and the few of the chat that make sense in an editor.

use agent_client_protocol::v1::schema::{
    AvailableCommand, AvailableCommandInput, UnstructuredCommandInput,
};

use super::prompt::ParsedPrompt;
use crate::app::{self, Options, Session};
use crate::cli::chat::prompt_commands;
use crate::cli::run;
use agent_engine::mcp::Servers;
use agent_protocol::directives::UserInput;
use agent_ui::tui::{self, CommandAction};

/// The others concern the chat's screen, or editors have their own.
const OFFERED: [&str; 3] = ["compact", "init", "review"];

pub(super) enum PromptAction {
    Turn(UserInput),
    /// The focus, which may be empty.
    Compact(String),
}

pub(super) fn available_commands(
    options: &Options,
    servers: Option<&Servers>,
) -> Vec<AvailableCommand> {
    let of_chat = OFFERED.iter().filter_map(|name| tui::find_built_in(name)).map(|command| {
        to_available_command(command.name, command.description, command.args.trim())
    });
    let is_built_in = |name: &str| OFFERED.contains(&name);
    let (root, dirs) = (&options.root, options.dirs.as_ref());
    let (mut own, _) = app::own_commands(root, dirs, &options.config.prompts, is_built_in);
    own.extend(servers.into_iter().flat_map(Servers::commands));
    let own = own.iter().map(|command| {
        to_available_command(&command.name, &command.description, &command.argument_hint)
    });
    of_chat.chain(own).collect()
}

fn to_available_command(name: &str, about: &str, hint: &str) -> AvailableCommand {
    let input = (!hint.is_empty())
        .then(|| AvailableCommandInput::Unstructured(UnstructuredCommandInput::new(hint)));
    AvailableCommand::new(name, about).input(input)
}

pub(super) async fn prompt_action(
    prompt: ParsedPrompt,
    session: &Session,
    options: &Options,
) -> Result<PromptAction, String> {
    let Some(line) = prompt.command() else { return Ok(PromptAction::Turn(prompt.into_input())) };
    let (name, arguments) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let arguments = arguments.trim();
    let message = match name {
        "compact" => return Ok(PromptAction::Compact(arguments.to_owned())),
        "init" | "review" => {
            let action = if name == "init" { CommandAction::Init } else { CommandAction::Review };
            prompt_commands::command_message(session, options, action, arguments).await?
        }
        _ => {
            let (root, dirs) = (&options.root, options.dirs.as_ref());
            let task = format!("/{line}");
            run::expand_own_command(&task, root, dirs, &options.config.prompts)
                .map_err(|error| error.to_string())?
        }
    };
    Ok(PromptAction::Turn(prompt.with_command(message)))
}
