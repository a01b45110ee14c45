//! Tools beyond the fixed ones, and commands of the user: each exists only if the session has what it needs.

use std::iter;
use std::path::{Path, PathBuf};

use super::Options;
use super::project::enclosing_directories;
use crate::config::{AGENT_DIR, UserDirs};
use crate::extend::folders::{self, ExtensionFolder};
use crate::extend::{commands, skills};
use agent_engine::tools::SkillTool;
use agent_host::exec::sandbox::Sandbox;
use agent_host::workspace::Workspace;
use agent_protocol::custom_command::{CustomCommand, Skill};
use agent_protocol::prompt::{Prompt, Prompts};
use agent_protocol::shorten;

/// Follows a text with commands whose output belongs into it.
const SHELL_LINES: Prompt = Prompt::named("commands/shell_lines.md");

/// Limits of a skill's description in bytes, from the most generous: the first with which all fit applies.
const DESCRIPTION_LIMITS: [usize; 4] = [1024, 300, 100, 0];
const BYTES_PER_TOKEN: usize = 4;

#[derive(Default)]
pub(super) struct Skills {
    pub(super) tool: Option<SkillTool>,
    /// Folders outside the project.
    readable: Vec<PathBuf>,
}

impl Skills {
    /// Skills are instructions like the project's rules files, so they need no trust.
    pub(super) fn open(options: &Options, notices: &mut Vec<String>) -> Self {
        let folders = skill_folders(&options.root, options.dirs.as_ref());
        if folders.is_empty() {
            return Self::default();
        }
        let (mut all, mut about) = skills::load_skills(&folders);
        for skill in &mut all {
            add_shell_instructions(&mut skill.command, &options.config.prompts);
        }
        // In an added folder the agent could have replaced it by a link.
        let added = |folder: &ExtensionFolder| {
            let mut places = options.add_dirs.iter().filter_map(|place| place.canonicalize().ok());
            places.any(|place| is_in(folder, &place))
        };
        let is_outside = |folder: &ExtensionFolder| {
            folder.is_user_folder || !folder.path.starts_with(&options.root)
        };
        let outside = folders.iter().filter(|folder| is_outside(folder) && !added(folder));
        // A link of the repository could lead to all of its files. (The root and the folders above it have no links.)
        let real = |folder: &ExtensionFolder| {
            let real = folder.path.canonicalize().ok()?;
            (folder.is_user_folder || real == folder.path).then_some(real)
        };
        let readable = outside.filter_map(real).collect();
        let for_model: Vec<Skill> = all.into_iter().filter(|skill| skill.for_model).collect();
        let max_tokens = options.config.config.context.max_skill_tokens;
        let (list, notice) = describe_skills(&for_model, max_tokens);
        about.extend(notice);
        notices.extend(about.iter().map(|notice| relative_to_project(notice, &options.root)));
        let tool = (!for_model.is_empty()).then(|| SkillTool::new(for_model, &list));
        Self { tool, readable }
    }

    /// Files of skills outside the project, for file tools and commands.
    pub(super) fn make_readable(
        &self,
        mut workspace: Workspace,
        mut sandbox: Option<Sandbox>,
    ) -> (Workspace, Option<Sandbox>) {
        for folder in &self.readable {
            workspace = workspace.with_readable(folder);
            sandbox = sandbox.map(|sandbox| sandbox.with_readable(folder));
        }
        (workspace, sandbox)
    }
}

/// The list for the description of the tool, and a notice about what it leaves out.
fn describe_skills(skills: &[Skill], max_tokens: usize) -> (String, Option<String>) {
    let room = max_tokens.saturating_mul(BYTES_PER_TOKEN);
    let line = |skill: &Skill, max: usize| match max {
        0 => format!("- {}", skill.name),
        max => format!("- {}: {}", skill.name, shorten(&skill.command.description, max)),
    };
    for max in DESCRIPTION_LIMITS {
        let lines: Vec<String> = skills.iter().map(|skill| line(skill, max)).collect();
        let list = lines.join("\n");
        if list.len() <= room {
            let notice = (max < DESCRIPTION_LIMITS[0]).then(|| {
                let how = match max {
                    0 => "left out".to_owned(),
                    max => format!("cut to {max} bytes"),
                };
                format!(
                    "the descriptions of skills are {how} for the model: they are longer than context.max_skill_tokens \
                     ({max_tokens})"
                )
            });
            return (list, notice);
        }
    }
    let mut list = String::new();
    let mut left_out = 0;
    for line in skills.iter().map(|skill| line(skill, 0)) {
        if list.len() + line.len() < room {
            list.push_str(&line);
            list.push('\n');
        } else {
            left_out += 1;
        }
    }
    let notice = format!(
        "the model is not told of {left_out} of {} skills: context.max_skill_tokens ({max_tokens}) is used up",
        skills.len()
    );
    (list.trim_end().to_owned(), Some(notice))
}

/// The commands of the user and the project, with their skills, sorted by name, and what the user should know about
/// the others. `is_built_in`: a name that a file cannot have.
pub fn own_commands(
    root: &Path,
    dirs: Option<&UserDirs>,
    prompts: &Prompts,
    is_built_in: impl Fn(&str) -> bool,
) -> (Vec<CustomCommand>, Vec<String>) {
    let mut folders = user_folders(root, dirs, "commands");
    // What a repository brings along does not replace what the user wrote.
    folders.extend(project_folders(root, "commands"));
    let (mut all, mut notices) =
        commands::load_commands(&folders::distinct_folders(folders), &is_built_in);
    // Notices about their files are those of the session.
    let (skills, _) = skills::load_skills(&skill_folders(root, dirs));
    for Skill { command, for_user, .. } in skills {
        let name = &command.name;
        if !for_user {
        } else if is_built_in(name) {
            notices.push(format!("the skill {name} is no command: the chat has /{name}"));
        } else if all.iter().any(|other| other.name == *name) {
            notices.push(format!("the skill {name} is no command: a file defines /{name}"));
        } else {
            all.push(command);
        }
    }
    for command in &mut all {
        add_shell_instructions(command, prompts);
    }
    all.sort_by(|a, b| a.name.cmp(&b.name));
    let notices = notices.iter().map(|notice| relative_to_project(notice, root)).collect();
    (all, notices)
}

fn relative_to_project(notice: &str, root: &Path) -> String {
    notice.replace(&format!("{}/", root.display()), "")
}

/// The model has to run commands whose output belongs into the text, with the permissions of every call.
fn add_shell_instructions(command: &mut CustomCommand, prompts: &Prompts) {
    let mut marks = command.text.match_indices("!`");
    let has_some = marks.any(|(at, _)| {
        let before = command.text[..at].chars().next_back();
        before.is_none_or(|c| c.is_whitespace() || c == '(')
    });
    if has_some {
        command.text = format!("{}\n\n{}", command.text.trim_end(), prompts.text(SHELL_LINES));
    }
}

/// The project's folders come first.
fn skill_folders(root: &Path, dirs: Option<&UserDirs>) -> Vec<ExtensionFolder> {
    let mut folders = project_folders(root, "skills");
    folders.extend(user_folders(root, dirs, "skills"));
    folders::distinct_folders(folders)
}

/// Folders of the project, and of the directories around it that belong to its repository.
fn project_folders(root: &Path, name: &str) -> Vec<ExtensionFolder> {
    let places = iter::once(root).chain(enclosing_directories(root));
    places.flat_map(|place| folders::project_folders(place, AGENT_DIR, name)).collect()
}

/// Folders that the agent can change, because the home is in the project, count as the project's.
fn user_folders(root: &Path, dirs: Option<&UserDirs>, name: &str) -> Vec<ExtensionFolder> {
    let Some(dirs) = dirs else { return Vec::new() };
    let mut folders = folders::user_folders(&dirs.config, std::env::home_dir().as_deref(), name);
    folders.retain_mut(|folder| {
        if folder.path.starts_with(&dirs.config) || !is_in(folder, root) {
            return true;
        }
        folder.is_user_folder = false;
        folder.path.canonicalize().is_ok_and(|real| real.starts_with(root))
    });
    folders
}

/// The folder itself may be a link.
fn is_in(folder: &ExtensionFolder, place: &Path) -> bool {
    let above = folder.path.parent().and_then(|above| above.canonicalize().ok());
    above.is_some_and(|above| above.starts_with(place))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_of_skills_stays_within_its_limit() {
        let skill = |n: usize| Skill {
            name: format!("skill-{n}"),
            for_model: true,
            for_user: true,
            command: CustomCommand { description: "what ".repeat(100), ..CustomCommand::default() },
        };
        let skills: Vec<Skill> = (0..20).map(skill).collect();
        for (max_tokens, expected) in [
            (10_000, None),
            (1800, Some("cut to 300 bytes")),
            (1000, Some("cut to 100 bytes")),
            (100, Some("left out for the model")),
            (20, Some("not told of 12 of 20 skills")),
            (0, Some("not told of 20 of 20 skills")),
        ] {
            let (list, notice) = describe_skills(&skills, max_tokens);
            assert!(list.len() <= max_tokens * BYTES_PER_TOKEN, "{max_tokens}");
            let says = |part: &str| notice.as_ref().is_some_and(|it| it.contains(part));
            assert!(expected.map_or(notice.is_none(), says), "{notice:?}");
        }
    }
}
