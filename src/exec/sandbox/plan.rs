//! What the supervisor is told: the first that the agent says on its channel, once the stand-by has made it.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::Network;

/// What the system keeps as bytes: a path, a word of a command, a variable. It need not be UTF-8.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(from = "Written", into = "Written")]
pub(super) struct Bytes(pub(super) PathBuf);

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Written {
    Text(String),
    Bytes(Vec<u8>),
}

impl From<Written> for Bytes {
    fn from(written: Written) -> Self {
        Self(match written {
            Written::Text(text) => text.into(),
            Written::Bytes(bytes) => OsString::from_vec(bytes).into(),
        })
    }
}

impl From<Bytes> for Written {
    fn from(bytes: Bytes) -> Self {
        match bytes.0.into_os_string().into_string() {
            Ok(text) => Self::Text(text),
            Err(other) => Self::Bytes(other.into_vec()),
        }
    }
}

impl<T: AsRef<OsStr> + ?Sized> From<&T> for Bytes {
    fn from(text: &T) -> Self {
        Self(text.as_ref().into())
    }
}

/// The device and the number of a file.
pub(super) type FileId = (u64, u64);

/// The box of one command.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Plan {
    /// Namespaces of its own; without them Landlock and seccomp alone hold.
    pub(super) namespaces: bool,
    /// What of the network is there.
    pub(super) network: Network,
    /// What lies where, in this order.
    pub(super) binds: Vec<Bind>,
    /// Over what of these is there, lies nothing.
    pub(super) covered: Vec<Bytes>,
    /// The nothing that lies over a folder, and over a file.
    pub(super) nothing: [Bytes; 2],
    /// Where Landlock lets it write.
    pub(super) writable: Vec<Bytes>,
    /// What Landlock does not let it read; in namespaces it is covered instead.
    pub(super) hidden: Vec<Bytes>,
    /// Files of those, by which they are known under other names.
    pub(super) hidden_files: Vec<FileId>,
    /// To be entered instead of new ones: what one command serves on its loopback interface the next
    /// can reach.
    pub(super) session: Option<Session>,
    /// What is run. Where it is nothing, it is only tried whether all this holds, until the agent has taken
    /// what it needs.
    pub(super) run: Option<Run>,
}

/// Which namespaces of its session a supervisor is given.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Session {
    /// The user namespace; root may have done without.
    pub(super) has_user: bool,
}

/// A program, and how it is started.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(in crate::exec) struct Run {
    /// Where it lies, then its arguments.
    pub(super) words: Vec<Bytes>,
    /// All of its variables; the last of a name counts.
    pub(super) variables: Vec<(Bytes, Bytes)>,
    /// Where it runs.
    pub(super) directory: Bytes,
    /// Under which number it has the stages' report.
    pub(super) report: Option<i32>,
}

/// One place in the box.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Bind {
    /// What is there.
    pub(super) from: Bytes,
    /// Where it lies in the box.
    pub(super) to: Bytes,
    /// What may be done with it.
    pub(super) access: Access,
}

/// What may be done with what lies there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Access {
    /// Reading.
    Read,
    /// Reading and writing.
    Write,
    /// It is a device that can be opened.
    Device,
}

impl Run {
    /// This program with these words and variables, there.
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
    /// Says it, its length first.
    pub(super) fn write(&self, to: &mut impl Write) -> io::Result<()> {
        let text = serde_json::to_vec(self)?;
        to.write_all(&text.len().to_le_bytes())?;
        to.write_all(&text)
    }

    /// Hears it; waits until it is said. `None`: there is nobody any more who would.
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
