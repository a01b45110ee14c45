//! The programs that hooks of a project run: the files in its folders for hooks, as the user trusted them.

use std::fs;
use std::io::{self, ErrorKind, Read as _};
use std::path::{Path, PathBuf};

use toml::{Table, Value};

use agent_protocol::disk;

/// Relative to a project's root.
const FOLDERS: [&str; 2] = [".agent/hooks", ".claude/hooks"];
/// Files and folders in each of the folders.
const MAX_FILES: usize = 200;
/// Bytes of all files in each of the folders.
const MAX_BYTES: u64 = 32 << 20;

#[derive(Clone, Debug, PartialEq)]
pub struct HookScripts {
    root: PathBuf,
    /// By folder: the hash of each file, or why the folder cannot be trusted.
    folders: Vec<(&'static str, Result<Table, String>)>,
}

impl HookScripts {
    pub(super) fn read(root: &Path) -> Self {
        let read = |folder| {
            let mut found =
                ScriptCollector { files: Table::new(), n_entries: 0, remaining_bytes: MAX_BYTES };
            let done = found.add_folder(&root.join(folder), "");
            (folder, done.map(|()| found.files).map_err(|why| format!("{folder}{why}")))
        };
        Self { root: root.to_owned(), folders: FOLDERS.map(read).into() }
    }

    pub(super) fn hashes_by_folder(&self) -> impl Iterator<Item = (&str, Value)> {
        let is_set =
            |files: &Result<Table, String>| files.as_ref().map_or(true, |it| !it.is_empty());
        self.folders.iter().filter(move |(_, files)| is_set(files)).map(|(folder, files)| {
            let value = files.clone().map(Value::Table);
            (*folder, value.unwrap_or_else(Value::String))
        })
    }

    pub(super) fn untrusted_reason(&self) -> Option<&str> {
        self.folders.iter().find_map(|(_, files)| files.as_ref().err()).map(String::as_str)
    }

    /// The first folder whose files differ now.
    pub fn changed_folder(&self) -> Option<&'static str> {
        let now = Self::read(&self.root).folders;
        let different = self.folders.iter().zip(now).find(|(then, now)| **then != *now);
        different.map(|((folder, _), _)| *folder)
    }
}

struct ScriptCollector {
    files: Table,
    n_entries: usize,
    remaining_bytes: u64,
}

impl ScriptCollector {
    /// The error begins with the path in the folder, after a slash. A file that the hash does not
    /// cover is an error: it could change unnoticed.
    fn add_folder(&mut self, folder: &Path, prefix: &str) -> Result<(), String> {
        let wrong = |error: &io::Error| format!("{prefix}: {}", disk::in_words(error));
        let opened = match disk::open_folder(folder) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            opened => opened.map_err(|error| {
                if folder.is_symlink() { link_error(prefix) } else { wrong(&error) }
            })?,
        };
        let entries =
            fs::read_dir(disk::descriptor_path(&opened)).map_err(|error| wrong(&error))?;
        for entry in entries {
            let entry = entry.map_err(|error| wrong(&error))?;
            self.n_entries += 1;
            if self.n_entries > MAX_FILES {
                return Err(format!(": there are more than {MAX_FILES} files in it"));
            }
            let file_name = entry.file_name();
            // Different names could have the same readable form.
            let name = file_name.to_str().ok_or_else(|| {
                format!("{prefix}/{}: its name is not UTF-8", file_name.to_string_lossy())
            })?;
            let (path, name) = (folder.join(name), format!("{prefix}/{name}"));
            let wrong = |error: &io::Error| format!("{name}: {}", disk::in_words(error));
            let kind = entry.file_type().map_err(|error| wrong(&error))?;
            if kind.is_symlink() {
                return Err(link_error(&name));
            } else if kind.is_dir() {
                self.add_folder(&path, &name)?;
            } else {
                let hash = self.hash_file(&path).map_err(|error| wrong(&error))?;
                self.files.insert(name[1..].to_owned(), Value::String(hash));
            }
        }
        Ok(())
    }

    /// The full hash: with a shortened one an author could find two files with equal hashes.
    fn hash_file(&mut self, path: &Path) -> io::Result<String> {
        let mut hasher = blake3::Hasher::new();
        let mut bytes = disk::open_file(path)?.take(self.remaining_bytes + 1);
        let n_bytes = io::copy(&mut bytes, &mut hasher)?;
        self.remaining_bytes = self.remaining_bytes.checked_sub(n_bytes).ok_or_else(|| {
            let limit = MAX_BYTES >> 20;
            io::Error::other(format!("the files of the folder are larger than {limit} MiB"))
        })?;
        Ok(hasher.finalize().to_hex().to_string())
    }
}

fn link_error(name: &str) -> String {
    format!("{name}: it is a link, whose target commands could change; put the file itself there")
}
