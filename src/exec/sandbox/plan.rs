//! The plan that the agent sends to a supervisor: the sandbox of one command.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::Network;

/// A path, a word or a variable. It need not be UTF-8: in the plan each byte is the character of that number.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub(super) struct Bytes(pub(super) PathBuf);

impl From<String> for Bytes {
    fn from(text: String) -> Self {
        let bytes = text.chars().filter_map(|byte| u8::try_from(byte).ok()).collect();
        Self(OsString::from_vec(bytes).into())
    }
}

impl From<Bytes> for String {
    fn from(bytes: Bytes) -> Self {
        bytes.0.as_os_str().as_bytes().iter().copied().map(char::from).collect()
    }
}

impl<T: AsRef<OsStr> + ?Sized> From<&T> for Bytes {
    fn from(text: &T) -> Self {
        Self(text.as_ref().into())
    }
}

/// The device and the number of a file.
pub(super) type FileId = (u64, u64);

/// The sandbox of one command.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Plan {
    /// The command gets namespaces; without them Landlock and seccomp alone enforce the profile.
    pub(super) namespaces: bool,
    pub(super) network: Network,
    /// Mounts, in this order.
    pub(super) binds: Vec<Bind>,
    /// Hidden paths: covered by an empty directory or file.
    pub(super) covered: Vec<Bytes>,
    /// What covers them: an empty directory and an empty file.
    pub(super) empty: Vec<Bytes>,
    /// Mounts that lie over the covered paths.
    pub(super) on_top: Vec<Bind>,
    /// Where Landlock permits writing.
    pub(super) writable: Vec<Bytes>,
    /// What Landlock does not permit to read; with namespaces it is covered instead.
    pub(super) hidden: Vec<Bytes>,
    /// Identities of these: a command may have renamed or linked them.
    pub(super) hidden_ids: Vec<FileId>,
    /// Paths that exist also where the directory above them cannot be listed.
    pub(super) known: Vec<Bytes>,
    /// What may be read although it lies in a hidden directory.
    pub(super) readable: Vec<Bytes>,
    /// The command. Without one the supervisor only makes sockets in the namespaces.
    pub(super) run: Option<Run>,
}

/// A program, and how it is started.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(in crate::exec) struct Run {
    /// The program, then its arguments.
    pub(super) words: Vec<Bytes>,
    /// All of its variables; the last one of a name counts.
    pub(super) variables: Vec<(Bytes, Bytes)>,
    /// Where it runs.
    pub(super) directory: Bytes,
    /// The descriptor number of the stages' report.
    pub(super) report: Option<i32>,
}

/// One mount.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Bind {
    pub(super) from: Bytes,
    pub(super) to: Bytes,
    pub(super) access: Access,
}

/// What is permitted on a mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Access {
    Read,
    Write,
    /// Opening a device file.
    Device,
}

impl Run {
    /// This program with these arguments and variables, in this directory.
    pub(in crate::exec) fn new(
        program: &Path,
        words: &[&str],
        variables: &[(OsString, OsString)],
        directory: &Path,
        report: Option<i32>,
    ) -> Self {
        let words = words.iter().map(|word| Bytes::from(*word));
        let variables = variables.iter().map(|(name, value)| (name.into(), value.into()));
        Self {
            words: std::iter::once(program.into()).chain(words).collect(),
            variables: variables.collect(),
            directory: directory.into(),
            report,
        }
    }
}

impl Plan {
    /// Writes its length, then itself.
    pub(super) fn write(&self, to: &mut impl Write) -> io::Result<()> {
        let text = serde_json::to_vec(self)?;
        to.write_all(&text.len().to_le_bytes())?;
        to.write_all(&text)
    }

    /// Waits for it and reads it. `None`: the agent has ended.
    pub(super) fn read(from: &mut impl Read) -> io::Result<Option<Self>> {
        let mut length = [0; size_of::<usize>()];
        match from.read_exact(&mut length) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            read => read?,
        }
        let mut text = vec![0; usize::from_le_bytes(length)];
        from.read_exact(&mut text)?;
        Ok(Some(serde_json::from_slice(&text)?))
    }
}
