//! Commands: Markdown files whose text is sent as a message.

use std::fs;
use std::path::{Path, PathBuf};

use super::folders::ExtensionFolder;
use super::{custom_command, front_matter, is_command_name, one_line_description};
use agent_protocol::custom_command::CustomCommand;
use agent_protocol::disk::{read_small_text, read_small_text_without_links};

/// Files of one folder, and levels of folders in it.
const MAX_FILES: usize = 500;
const MAX_LEVELS: usize = 4;
/// Files that one notice names.
const MAX_NAMED: usize = 5;

/// Loads the commands in these folders, sorted by name, and notices about files that cannot be
/// used. Of several with the same name, the one in the first folder counts.
pub fn load_commands(
    folders: &[ExtensionFolder],
    is_reserved: impl Fn(&str) -> bool,
) -> (Vec<CustomCommand>, Vec<String>) {
    let (mut commands, mut notices): (Vec<(CustomCommand, PathBuf)>, _) = (Vec::new(), Vec::new());
    let mut misnamed = Vec::new();
    for folder in folders {
        let mut files = Vec::new();
        find_files(&folder.path, "", folder.is_user_folder, MAX_LEVELS, &mut files);
        files.sort();
        files.truncate(MAX_FILES);
        for (name, path) in files {
            if !is_command_name(&name) || is_reserved(&name) {
                // Escaped: a name may contain line breaks.
                misnamed.push(format!("{:?}", path.to_string_lossy()));
                continue;
            }
            let shown = path.display();
            match read_command(name, &path, folder.is_user_folder) {
                Ok(command) => match commands.iter().find(|known| known.0.name == command.name) {
                    Some((known, _)) if *known == command => {}
                    Some((known, at)) => {
                        let (name, at) = (&known.name, at.display());
                        notices.push(format!("{shown}: not used, {at} defines /{name} too"));
                    }
                    None => commands.push((command, path)),
                },
                Err(why) => notices.push(format!("{shown}: {why}; the command is left out")),
            }
        }
    }
    notices.extend(misnamed_notice(misnamed));
    let mut commands: Vec<CustomCommand> =
        commands.into_iter().map(|(command, _)| command).collect();
    commands.sort_by(|a, b| a.name.cmp(&b.name));
    (commands, notices)
}

fn misnamed_notice(mut files: Vec<String>) -> Option<String> {
    files.sort();
    let more = files.len().saturating_sub(MAX_NAMED);
    files.truncate(MAX_NAMED);
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    (!files.is_empty()).then(|| {
        format!(
            "no command is made of {}{more}: the name of one is letters, digits, - _ . and :, and none that the \
             chat itself understands",
            files.join(", ")
        )
    })
}

/// `git/commit.md` is `git:commit`.
fn find_files(
    folder: &Path,
    prefix: &str,
    follows_links: bool,
    levels: usize,
    files: &mut Vec<(String, PathBuf)>,
) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let is_link = entry.file_type().is_ok_and(|kind| kind.is_symlink());
        let Some(name) = entry.file_name().to_str().map(str::to_owned) else { continue };
        if let Some(stem) = name.strip_suffix(".md") {
            files.push((format!("{prefix}{stem}"), path));
        } else if levels > 0 && (follows_links || !is_link) && path.is_dir() {
            find_files(&path, &format!("{prefix}{name}:"), follows_links, levels - 1, files);
        }
        if files.len() > 2 * MAX_FILES {
            return;
        }
    }
}

fn read_command(name: String, path: &Path, is_users: bool) -> Result<CustomCommand, String> {
    // A link of the project may lead to a file that the user does not want to send.
    let read = if is_users { read_small_text } else { read_small_text_without_links };
    let text = read(path).map_err(|error| error.to_string())?;
    let (matter, text) = front_matter::split(&text)?;
    Ok(custom_command(name, one_line_description(&matter, text), &matter, text))
}
