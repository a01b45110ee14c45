//! The identity of a project, and the file of the user's memory.

use std::path::{Path, PathBuf};

use super::OpenError;
use crate::config::{Config, UserDirs};
use agent_learning::store::FILE_NAME;
use agent_protocol::disk::{read_small_text, repository::linked_directory};

pub fn memory_file(config: &Config, dirs: Option<&UserDirs>) -> Result<PathBuf, OpenError> {
    let wrong = |why: &str| OpenError::Usage(format!("learning.database: {why}"));
    match config.learning.database.as_deref() {
        None => dirs
            .map(|dirs| dirs.data.join(FILE_NAME))
            .ok_or_else(|| wrong("there is no home; name a file")),
        Some("") => Err(wrong("is empty; name a file, or leave it out")),
        Some(path) => match path.strip_prefix("~/") {
            Some(below) => {
                Ok(std::env::home_dir().ok_or_else(|| wrong("needs a home"))?.join(below))
            }
            None if Path::new(path).is_absolute() => Ok(PathBuf::from(path)),
            None => Err(wrong(&format!("{path:?} is not an absolute path; begin it with / or ~/"))),
        },
    }
}

/// The identity of a project: the URL of its git remote without scheme, user and extension, so that clones
/// are one project; without a remote, the path of its main checkout, so that its worktrees are one project;
/// outside a repository, its path. A subfolder of a repository is part of the identity.
///
/// The repository's configuration is used only if the user trusts the folder: otherwise any folder could name
/// the remote of another project and add lessons to it. The identity of an untrusted folder is its path.
pub fn project_identity(root: &Path, is_trusted: bool) -> String {
    if !is_trusted {
        return root.display().to_string();
    }
    let Some((top, git)) = root.ancestors().find_map(|top| Some((top, git_folder(top)?))) else {
        return root.display().to_string();
    };
    let below = root.strip_prefix(top).unwrap_or(Path::new(""));
    let config = read_small_text(&git.join("config")).unwrap_or_default();
    let name = remote_url(&config).and_then(|url| remote_address(&url));
    let name = name.unwrap_or_else(|| git.parent().unwrap_or(top).display().to_string());
    if below.as_os_str().is_empty() { name } else { format!("{name}/{}", below.display()) }
}

fn git_folder(top: &Path) -> Option<PathBuf> {
    let git = top.join(".git");
    if git.is_dir() {
        return git.canonicalize().ok();
    }
    // A worktree names its own folder, which names the common one.
    let text = read_small_text(&git).ok()?;
    let own = linked_directory(&git, text.as_bytes())?;
    let common = read_small_text(&own.join("commondir"));
    let folder = common.map_or_else(|_| own.clone(), |common| own.join(common.trim()));
    folder.canonicalize().ok()
}

/// The URL of `origin`, or of the first remote.
fn remote_url(config: &str) -> Option<String> {
    let mut section = "";
    let mut first = None;
    for line in config.lines().map(str::trim) {
        if line.starts_with('[') {
            section = line;
        } else if section.starts_with("[remote ")
            && let Some((key, url)) = line.split_once('=')
            && key.trim() == "url"
            && !url.trim().is_empty()
        {
            if section == "[remote \"origin\"]" {
                return Some(url.trim().to_owned());
            }
            first.get_or_insert_with(|| url.trim().to_owned());
        }
    }
    first
}

/// `host/path` of a URL in any notation, without user name and credentials; `None` for a path that is valid only in
/// one checkout.
fn remote_address(url: &str) -> Option<String> {
    let (host, path) = match url.split_once("://") {
        Some(("file", path)) => return Some(strip_git_suffix(path).to_owned()),
        Some((_, rest)) => rest.split_once('/').unwrap_or((rest, "")),
        // `git@host:path`; a local path contains no colon before its first slash.
        None => match url.split_once(':').filter(|(host, _)| !host.contains('/')) {
            Some(parts) => parts,
            None if url.starts_with('/') => return Some(strip_git_suffix(url).to_owned()),
            None => return None,
        },
    };
    let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
    let host = host.split(':').next().unwrap_or(host).to_lowercase();
    Some(format!("{host}/{}", strip_git_suffix(path).trim_start_matches('/')))
}

fn strip_git_suffix(path: &str) -> &str {
    let path = path.trim_end_matches('/');
    path.strip_suffix(".git").unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equivalent_git_urls_have_one_address() {
        for url in [
            "git@Example.com:team/app.git",
            "https://example.com/team/app.git",
            "https://me:secret@example.com/team/app/",
            "ssh://git@example.com:2222/team/app.git",
        ] {
            assert_eq!(remote_address(url).as_deref(), Some("example.com/team/app"), "{url}");
        }
        assert_eq!(remote_address("/srv/git/app.git").as_deref(), Some("/srv/git/app"));
        assert_eq!(remote_address("file:///srv/git/app.git").as_deref(), Some("/srv/git/app"));
        assert_eq!(remote_address("../app"), None);
    }

    #[test]
    fn clones_and_worktrees_share_an_identity_and_subdirectories_do_not() {
        let dir = tempfile::tempdir().expect("a folder");
        let root = dir.path().canonicalize().expect("a path");
        let write = |path: &str, text: &str| {
            let path = root.join(path);
            std::fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
            std::fs::write(path, text).expect("a file");
        };
        let config = "[core]\n\tbare = false\n[remote \"fork\"]\n\turl = x:y\n[remote \"origin\"]\n\turl = git@h.org:a/b.git\n";
        write("one/.git/config", config);
        write("two/.git/config", config);
        write("one/.git/worktrees/w/commondir", "../..\n");
        write("w/.git", &format!("gitdir: {}\n", root.join("one/.git/worktrees/w").display()));
        write("one/web/x", "");
        write("alone/.git/config", "[core]\n");
        write("plain/x", "");
        assert_eq!(project_identity(&root.join("one"), true), "h.org/a/b");
        assert_eq!(project_identity(&root.join("two"), true), "h.org/a/b");
        assert_eq!(project_identity(&root.join("w"), true), "h.org/a/b");
        assert_eq!(project_identity(&root.join("one/web"), true), "h.org/a/b/web");
        assert_eq!(
            project_identity(&root.join("alone"), true),
            root.join("alone").display().to_string()
        );
        assert_eq!(
            project_identity(&root.join("plain"), true),
            root.join("plain").display().to_string()
        );
    }

    #[test]
    fn untrusted_project_is_identified_by_its_path() {
        let dir = tempfile::tempdir().expect("a folder");
        let root = dir.path().canonicalize().expect("a path");
        std::fs::create_dir(root.join(".git")).expect("a folder");
        let config = "[remote \"origin\"]\n\turl = git@h.org:a/b.git\n";
        std::fs::write(root.join(".git/config"), config).expect("a file");
        assert_eq!(project_identity(&root, true), "h.org/a/b");
        assert_eq!(project_identity(&root, false), root.display().to_string());
    }
}
