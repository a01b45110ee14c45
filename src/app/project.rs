//! The project's files for the context, read through the workspace.

use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;

use crate::config::{self, AGENT_DIR, UserDirs};
use agent_engine::context::{MentionTarget, MentionTargetKind, Project, RulesFile};
use agent_host::workspace::{ImageKind, Workspace};
use agent_protocol::disk;
use agent_protocol::envelope::ErrorCode::AccessDenied;
use agent_protocol::terminal_escape::escape_literal_line;

/// Names in any case of letters.
const RULES_FILES: [&str; 2] = ["CODE_LAW.md", "AGENTS.md"];
/// The name in a folder that has none of `RULES_FILES`.
const OTHER_RULES_FILE: &str = "CLAUDE.md";
/// A folder that may contain `OTHER_RULES_FILE` instead, in a project and in the home.
const OTHER_RULES_FOLDER: &str = ".claude";

/// Up to the top of the project's git repository, the nearest first.
pub(super) fn enclosing_directories(root: &Path) -> impl Iterator<Item = &Path> {
    let depth = root.ancestors().position(|folder| folder.join(".git").exists());
    root.ancestors().skip(1).take(depth.unwrap_or(0))
}

/// A notice for each configuration file around the project that would apply to a session in its directory.
pub(super) fn unused_settings_notices(root: &Path) -> impl Iterator<Item = String> {
    let files =
        enclosing_directories(root).map(|folder| folder.join(AGENT_DIR).join(config::FILE_NAME));
    files.filter(|file| file.is_file()).map(|file| {
        let file = file.display().to_string();
        let file = escape_literal_line(&file);
        format!("{file} is not used: it applies only to sessions in its directory (-C DIR)")
    })
}

/// Up to the top of the project's git repository, the outermost first. The directories are outside of the workspace,
/// so links are not followed.
pub(super) fn enclosing_rules(root: &Path, is_shown: impl Fn(&str) -> bool) -> Vec<RulesFile> {
    let mut rules = Vec::new();
    for (n, folder) in enclosing_directories(root).enumerate().collect::<Vec<_>>().into_iter().rev()
    {
        let up = "../".repeat(n + 1);
        let read = |file: &Path| {
            let path = folder.join(file);
            let is_shown = path.to_str().is_some_and(&is_shown);
            let text = is_shown.then(|| disk::read_small_text_without_links(&path).ok())??;
            Some(RulesFile { path: up.clone() + file.to_str()?, text })
        };
        let texts_in = |inside: &str, names: &[&str]| {
            let files = std::fs::read_dir(folder.join(inside)).into_iter().flatten().flatten();
            let mut files: Vec<OsString> = files.map(|entry| entry.file_name()).collect();
            files.sort();
            let named = names
                .iter()
                .flat_map(|name| files.iter().filter(move |file| file.eq_ignore_ascii_case(name)));
            named.filter_map(|file| read(&Path::new(inside).join(file))).collect()
        };
        rules.extend(first_rules(texts_in));
    }
    rules
}

/// `texts_in` reads the files with these names in the folder, or in one inside it.
fn first_rules(texts_in: impl Fn(&str, &[&str]) -> Vec<RulesFile>) -> Vec<RulesFile> {
    let other: &[&str] = &[OTHER_RULES_FILE];
    let places = [("", &RULES_FILES[..]), ("", other), (OTHER_RULES_FOLDER, other)];
    let mut rules = places.iter().map(|(inside, names)| texts_in(inside, names));
    rules.find(|rules| !rules.is_empty()).unwrap_or_default()
}

pub(super) fn user_rules(dirs: Option<&UserDirs>) -> Option<RulesFile> {
    let own = dirs.map(|dirs| dirs.config.join("AGENTS.md"));
    let other =
        std::env::home_dir().map(|home| home.join(OTHER_RULES_FOLDER).join(OTHER_RULES_FILE));
    own.into_iter().chain(other).find_map(|path| {
        let text = disk::read_small_text(&path).ok()?;
        Some(RulesFile { path: path.display().to_string(), text })
    })
}

pub(super) struct ProjectFiles {
    pub(super) workspace: Arc<Workspace>,
}

impl Project for ProjectFiles {
    fn find_path(&self, path: &str) -> Option<MentionTarget> {
        let path = self.workspace.resolve(path).ok()?;
        let is_folder = self.workspace.metadata(&path).ok()?.is_dir();
        let kind = if is_folder { MentionTargetKind::Folder } else { MentionTargetKind::File };
        Some(MentionTarget { path: path.relative().to_owned(), kind })
    }

    fn find_unreadable_path(&self, path: &str) -> Option<MentionTarget> {
        let place = self.workspace.root().join(path);
        // `@/` and `@..` are text, not mentions.
        place.file_name()?;
        let head = disk::read_beginning(&place, 16);
        let kind = if head.is_ok_and(|head| ImageKind::of(&head).is_some()) {
            MentionTargetKind::File
        } else {
            let failure = self.workspace.resolve(path).err()?;
            // Nothing is there, or it is no path.
            let real = place.canonicalize().ok().filter(|_| failure.code == AccessDenied)?;
            let folder = if real.is_dir() { &real } else { real.parent()? };
            MentionTargetKind::Outside(match self.workspace.resolve(folder.to_str()?) {
                Ok(_) => failure.message,
                Err(_) => format!(
                    "it is outside the project; add its folder with /add-dir or --add-dir: {}",
                    folder.display()
                ),
            })
        };
        Some(MentionTarget { path: path.to_owned(), kind })
    }

    fn rules_in(&self, folder: &str, is_shown: &dyn Fn(&str) -> bool) -> Vec<RulesFile> {
        let workspace = &self.workspace;
        first_rules(|inside, names| {
            let folder = Path::new(folder).join(inside);
            // The failure about a missing folder would search the project for similar names.
            if !workspace.root().join(&folder).is_dir() {
                return Vec::new();
            }
            let folder = folder.to_str().and_then(|folder| workspace.resolve(folder).ok());
            let Some(folder) = folder else { return Vec::new() };
            // A rules file may be a link to a file that must not be shown.
            let texts = workspace.read_texts_in(&folder, names, is_shown);
            texts.into_iter().map(|(path, text)| RulesFile { path, text }).collect()
        })
    }
}
