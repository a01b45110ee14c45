//! Roles of sub-agents: Markdown files whose front matter names the role, its tools and its model, and whose text is
//! added to the system prompt.

use std::path::{Path, PathBuf};

use super::{check_name, front_matter};
use agent_protocol::disk::read_small_text;
use agent_protocol::one_line;

/// Files of one folder.
const MAX_FILES: usize = 200;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoleDefinition {
    pub name: String,
    pub description: String,
    /// `None`: all.
    pub tools: Option<Vec<String>>,
    pub denied_tools: Vec<String>,
    /// As the file names it.
    pub model: Option<String>,
    /// Added to the system prompt.
    pub text: String,
    pub path: PathBuf,
}

/// Loads the roles in these folders, sorted by name, and a notice for each file that is no role. Of
/// several with the same name, the one in the first folder counts.
pub fn load_roles(
    folders: &[PathBuf],
    is_reserved: impl Fn(&str) -> bool,
) -> (Vec<RoleDefinition>, Vec<String>) {
    let (mut roles, mut notices): (Vec<RoleDefinition>, Vec<String>) = (Vec::new(), Vec::new());
    for path in folders.iter().flat_map(|folder| role_files(folder)) {
        let shown = path.display();
        match read_role(&path) {
            Ok(role) if is_reserved(&role.name) => {
                let name = &role.name;
                notices.push(format!("{shown}: the role {name} is built in; give it another name"));
            }
            Ok(role) => match roles.iter().find(|known| known.name == role.name) {
                Some(known) => {
                    let (name, known) = (&role.name, known.path.display());
                    notices.push(format!("{shown}: not used, {known} defines the role {name} too"));
                }
                None => roles.push(role),
            },
            Err(why) => notices.push(format!("{shown}: {why}; the role is left out")),
        }
    }
    roles.sort_by(|a, b| a.name.cmp(&b.name));
    (roles, notices)
}

pub(crate) fn one_line_description(text: &str) -> Option<String> {
    Some(one_line(text)).filter(|line| !line.is_empty())
}

fn role_files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    let mut files: Vec<PathBuf> =
        paths.filter(|path| path.extension().is_some_and(|end| end == "md")).collect();
    files.sort();
    files.truncate(MAX_FILES);
    files
}

fn read_role(path: &Path) -> Result<RoleDefinition, String> {
    let real = path.canonicalize().map_err(|error| error.to_string())?;
    let folder = path.parent().and_then(|folder| folder.canonicalize().ok());
    if folder.is_none_or(|folder| !real.starts_with(folder)) {
        return Err("it is a link that leaves its folder".to_owned());
    }
    let text = read_small_text(&real).map_err(|error| error.to_string())?;
    let (matter, text) = front_matter::split(&text)?;
    let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    let name = matter.text("name").or(stem).unwrap_or_default().trim().to_owned();
    check_name(&name)?;
    let description = one_line_description(&matter.text("description").unwrap_or_default())
        .ok_or("its front matter has no description")?;
    let tools = matter.list("tools").or_else(|| matter.list("allowed-tools"));
    Ok(RoleDefinition {
        name,
        description,
        tools: tools.filter(|tools| !tools.iter().any(|tool| tool == "*")),
        denied_tools: matter.list("disallowedTools").unwrap_or_default(),
        model: matter.text("model"),
        text: text.trim().to_owned(),
        path: path.to_owned(),
    })
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn role_of_the_first_folder_counts() {
        let dir = tempfile::tempdir().unwrap();
        let folders = ["a", "b", "none"].map(|name| dir.path().join(name));
        let write = |folder: usize, name: &str, text: &str| {
            fs::create_dir_all(&folders[folder]).unwrap();
            fs::write(folders[folder].join(name), text).unwrap();
        };
        write(0, "reviewer.md", "---\ndescription: Reviews.\n---\nBe strict.\n");
        write(0, "notes.txt", "no role");
        write(0, "explore.md", "---\ndescription: x\n---\n");
        write(1, "x.md", "---\nname: reviewer\ndescription: Other.\n---\n");
        write(
            1,
            "y.md",
            "---\nname: a b\ndescription: |\n  Two\n  lines.\ntools: Read, mcp__x__y\nmodel: haiku\n---\n",
        );
        write(1, "plain.md", "no front matter");
        write(1, "torn.md", "---\nname: torn\n");
        std::os::unix::fs::symlink(folders[0].join("reviewer.md"), folders[1].join("z.md"))
            .unwrap();
        let (roles, notices) = load_roles(&folders, |name| name == "explore");
        let names: Vec<&str> = roles.iter().map(|role| role.name.as_str()).collect();
        assert_eq!(names, ["a b", "reviewer"]);
        assert_eq!(roles[0].description, "Two lines.");
        assert_eq!(roles[0].tools, Some(vec!["Read".to_owned(), "mcp__x__y".to_owned()]));
        assert_eq!((roles[1].text.as_str(), &roles[1].tools), ("Be strict.", &None));
        let expected = [
            "is built in",
            "no description",
            "no end",
            "defines the role reviewer too",
            "leaves its folder",
        ];
        assert_eq!(notices.len(), expected.len(), "{notices:?}");
        for (notice, expected) in notices.iter().zip(expected) {
            assert!(notice.contains(expected), "{notice}");
        }
    }
}
