//! What the user may mean by an unknown option: its words decide, because names that share letters mean different things.

use clap::Command;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use agent_protocol::has_words_of;

/// The options that allow everything.
const NEVER_SUGGESTED: [&str; 3] =
    ["yolo", "dangerously-skip-permissions", "allow-dangerously-skip-permissions"];

/// Keeps the option that clap suggests if it has the words of the unknown one; otherwise names the command whose words
/// that has.
pub(super) fn suggest_by_words(error: &mut clap::Error) {
    let Some(ContextValue::String(option)) = error.get(ContextKind::InvalidArg) else { return };
    let option = option.strip_prefix("--").filter(|_| error.kind() == ErrorKind::UnknownArgument);
    let Some(option) = option.map(str::to_owned) else { return };
    if let Some(ContextValue::String(similar)) = error.get(ContextKind::SuggestedArg) {
        let name = similar.trim_start_matches('-');
        if has_words_of(name, &option) && !NEVER_SUGGESTED.contains(&name) {
            return;
        }
        error.remove(ContextKind::SuggestedArg);
        // The usage names the suggestion, too.
        error.remove(ContextKind::Usage);
    }
    let names = command_names(&super::build_command()).into_iter();
    let meant = names.filter(|name| has_words_of(&option, name));
    if let Some(name) = meant.max_by_key(|name| name.split(' ').count()) {
        let tip = format!("did you mean `agent {name}`?");
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
}

fn command_names(root: &Command) -> Vec<String> {
    let commands = root.get_subcommands().filter(|command| !command.is_hide_set());
    let names = commands.flat_map(|command| {
        let inner = command_names(command).into_iter();
        let inner = inner.map(|name| format!("{} {name}", command.get_name()));
        std::iter::once(command.get_name().to_owned()).chain(inner)
    });
    names.collect()
}
