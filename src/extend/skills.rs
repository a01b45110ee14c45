//! Skills: folders with a file `SKILL.md`, whose front matter says when the text is useful.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::folders::ExtensionFolder;
use super::{check_name, custom_command, front_matter, is_command_name, one_line_description};
use agent_protocol::custom_command::{CustomCommand, Skill};
use agent_protocol::disk::read_small_text_without_links;
use agent_protocol::one_line;

const SKILL_FILE: &str = "SKILL.md";
/// Entries of one folder.
const MAX_ENTRIES: usize = 500;

/// Loads the skills in these folders, sorted by name, and a notice for each that is left out. Of
/// several with the same name, the one in the first folder counts.
pub fn load_skills(folders: &[ExtensionFolder]) -> (Vec<Skill>, Vec<String>) {
    let real = |folder: &ExtensionFolder| folder.path.canonicalize().ok();
    let roots: Vec<PathBuf> = folders.iter().filter_map(real).collect();
    let (mut skills, mut notices): (Vec<(Skill, PathBuf)>, _) = (Vec::new(), Vec::new());
    let mut seen = HashSet::new();
    for path in folders.iter().flat_map(|folder| skill_files(&folder.path)) {
        let shown = path.display();
        let real = match path.canonicalize() {
            Ok(real) if roots.iter().any(|root| real.starts_with(root)) => Ok(real),
            Ok(_) => Err("it is a link that leaves the folders of skills".to_owned()),
            Err(error) => Err(error.to_string()),
        };
        // Installers link one agent's folder to another's.
        if real.as_ref().is_ok_and(|real| !seen.insert(real.clone())) {
            continue;
        }
        match real.and_then(|real| read_skill(&real)) {
            Ok(skill) => match skills.iter().find(|(known, _)| known.name == skill.name) {
                // Installers copy a skill for each agent.
                Some((Skill { command, .. }, _))
                    if command.text == skill.command.text
                        && command.description == skill.command.description => {}
                Some((_, at)) => {
                    let (name, at) = (&skill.name, at.display());
                    notices.push(format!("{shown}: not used, {at} defines the skill {name} too"));
                }
                None => skills.push((skill, path)),
            },
            Err(why) => notices.push(format!("{shown}: {why}; the skill is left out")),
        }
    }
    let mut skills: Vec<Skill> = skills.into_iter().map(|(skill, _)| skill).collect();
    skills.sort_by(|a, b| a.name.cmp(&b.name));
    (skills, notices)
}

fn skill_files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().take(MAX_ENTRIES);
    let files = entries.map(|entry| entry.path().join(SKILL_FILE));
    // Includes a link without a target, so that it is reported.
    let mut files: Vec<PathBuf> = files.filter(|path| path.symlink_metadata().is_ok()).collect();
    files.sort();
    files
}

fn read_skill(path: &Path) -> Result<Skill, String> {
    let text = read_small_text_without_links(path).map_err(|error| error.to_string())?;
    let (matter, text) = front_matter::split(&text)?;
    let folder = path.parent().unwrap_or(path);
    let of_folder = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let name = matter.text("name").map(|name| name.trim().to_owned());
    let name = name.filter(|name| !name.is_empty()).unwrap_or_else(|| of_folder.clone());
    check_name(&name)?;
    let mut description = one_line_description(&matter, text);
    if let Some(when) = matter.text("when_to_use") {
        description = format!("{description} {}", one_line(&when));
    }
    if description.is_empty() {
        return Err("it has no description".to_owned());
    }
    let command_name = if is_command_name(&name) { name.clone() } else { of_folder };
    let command = CustomCommand {
        folder: Some(folder.to_owned()),
        ..custom_command(command_name, description, &matter, text)
    };
    Ok(Skill {
        name,
        for_model: matter.is_set("disable-model-invocation") != Some(true),
        for_user: matter.is_set("user-invocable") != Some(false) && is_command_name(&command.name),
        command,
    })
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn skill_of_the_first_folder_counts() {
        let dir = tempfile::tempdir().unwrap();
        let folders = ["a", "b", "none"].map(|name| {
            let path = dir.path().canonicalize().unwrap().join(name);
            ExtensionFolder { path, is_user_folder: false }
        });
        let write = |folder: usize, name: &str, text: &str| {
            let folder = folders[folder].path.join(name);
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join(SKILL_FILE), text).unwrap();
        };
        write(0, "deploy", "---\nname: deploy\ndescription: Deploys.\n---\nGo.\n");
        write(0, "plain", "# A title\n\nText.\n");
        fs::write(folders[0].path.join("README.md"), "no skill").unwrap();
        write(1, "deploy", "---\ndescription: Deploys.\n---\nGo.\n");
        write(1, "other", "---\nname: plain\ndescription: Else.\n---\n");
        write(1, "torn", "---\nname: torn\ndescription: [\n---\n");
        let title = "---\nname: Make PDF\ndescription: x\nwhen_to_use: |\n  For\n  files.\n\
            user-invocable: false\ndisable-model-invocation: yes\n---\n";
        write(1, "pdf", title);
        symlink(folders[0].path.join("plain"), folders[1].path.join("linked")).unwrap();
        fs::create_dir(dir.path().join("out")).unwrap();
        fs::write(dir.path().join("out/SKILL.md"), "# Out\n").unwrap();
        symlink(dir.path().join("out"), folders[1].path.join("zz")).unwrap();
        let (skills, notices) = load_skills(&folders);
        let found: Vec<_> = skills
            .iter()
            .map(|it| (it.name.as_str(), it.command.name.as_str(), it.command.description.as_str()))
            .collect();
        assert_eq!(
            found,
            [
                ("Make PDF", "pdf", "x For files."),
                ("deploy", "deploy", "Deploys."),
                ("plain", "plain", "A title"),
            ]
        );
        assert_eq!((skills[0].for_model, skills[0].for_user), (false, false));
        assert_eq!((skills[1].for_model, skills[1].for_user), (true, true));
        assert_eq!(skills[1].command.folder, Some(folders[0].path.join("deploy")));
        let expected = ["defines the skill plain too", "not YAML", "leaves the folders"];
        assert_eq!(notices.len(), expected.len(), "{notices:?}");
        for (notice, expected) in notices.iter().zip(expected) {
            assert!(notice.contains(expected), "{notice}");
        }
    }
}
