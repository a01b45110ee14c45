//! What the user may mean by an unknown option: its words decide, because names that share letters mean different things.

use clap::Command;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use agent_protocol::word_similarity;

/// In percent.
const MIN_SIMILARITY: usize = 60;
const MAX_SUGGESTIONS: usize = 2;
/// The options that allow everything.
const NEVER_SUGGESTED: [&str; 2] = ["yolo", "allow-dangerously-skip-permissions"];

/// Replaces the suggestion of clap, which compares letters, by options of the command and by commands.
pub(super) fn suggest_by_words(error: &mut clap::Error) {
    let Some(ContextValue::String(option)) = error.get(ContextKind::InvalidArg) else { return };
    let option = option.strip_prefix("--").filter(|_| error.kind() == ErrorKind::UnknownArgument);
    let Some(option) = option else { return };
    // `--allowedTool` means the same as `--allowed-tool`.
    let separator = |letter: char| letter.is_uppercase().then_some('-');
    let words = option.chars().flat_map(|c| separator(c).into_iter().chain(c.to_lowercase()));
    let names = similar_names(&words.collect::<String>());
    if error.remove(ContextKind::SuggestedArg).is_some() {
        // The usage names the suggestion, too.
        error.remove(ContextKind::Usage);
    }
    if !names.is_empty() {
        let tip = format!("did you mean {}?", names.join(" or "));
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
}

/// The most similar first.
fn similar_names(option: &str) -> Vec<String> {
    let mut root = super::build_command().disable_help_subcommand(true);
    root.build();
    let (mut command, mut path) = (&root, "agent ".to_owned());
    for word in std::env::args_os().skip(1) {
        let Some(inner) = command.find_subcommand(&word) else { break };
        path = format!("{path}{} ", inner.get_name());
        command = inner;
    }
    let longs = command.get_arguments().filter_map(clap::Arg::get_long);
    let longs = longs.filter(|long| !NEVER_SUGGESTED.contains(long));
    let mut names: Vec<(usize, String)> =
        longs.map(|long| (word_similarity(option, long), format!("`--{long}`"))).collect();
    names.extend(command_paths(&root, "agent").into_iter().map(|name| {
        let words = name.strip_prefix(&path).or_else(|| name.strip_prefix("agent "));
        (word_similarity(option, words.unwrap_or_default()), format!("`{name}`"))
    }));
    names.retain(|(similarity, _)| *similarity >= MIN_SIMILARITY);
    names.sort();
    names.dedup();
    names.into_iter().rev().take(MAX_SUGGESTIONS).map(|(_, name)| name).collect()
}

fn command_paths(command: &Command, path: &str) -> Vec<String> {
    let commands = command.get_subcommands().filter(|inner| !inner.is_hide_set());
    let paths = commands.flat_map(|inner| {
        let path = format!("{path} {}", inner.get_name());
        let inner = command_paths(inner, &path);
        std::iter::once(path).chain(inner)
    });
    paths.collect()
}
