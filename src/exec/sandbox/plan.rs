//! What the supervisor is told: the first that the agent says on the channel to its own re-exec.

use std::io::{self, Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::Network;

/// A path, which need not be UTF-8.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(from = "Vec<u8>", into = "Vec<u8>")]
pub(super) struct Bytes(pub(super) PathBuf);

impl From<Vec<u8>> for Bytes {
    fn from(bytes: Vec<u8>) -> Self {
        Self(std::ffi::OsString::from_vec(bytes).into())
    }
}

impl From<Bytes> for Vec<u8> {
    fn from(path: Bytes) -> Self {
        path.0.into_os_string().as_bytes().to_vec()
    }
}

impl From<&Path> for Bytes {
    fn from(path: &Path) -> Self {
        Self(path.to_owned())
    }
}

/// The box of one command.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Plan {
    /// Namespaces of its own; without them Landlock and seccomp alone hold.
    pub(super) namespaces: bool,
    /// What of the network is there.
    pub(super) network: Network,
    /// What lies where, in this order.
    pub(super) binds: Vec<Bind>,
    /// Where Landlock lets it write.
    pub(super) writable: Vec<Bytes>,
    /// What Landlock does not let it read; in namespaces it is covered instead.
    pub(super) hidden: Vec<Bytes>,
    /// Where it runs.
    pub(super) directory: Bytes,
    /// The descriptor of the stages' report.
    pub(super) report: Option<i32>,
    /// To be entered instead of new ones: what one command serves on its loopback interface the next
    /// can reach.
    pub(super) session: Option<Session>,
    /// Nothing is run; it stays until the agent has taken what it needs.
    pub(super) only_tries: bool,
}

/// Descriptors of the namespaces of a session.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Session {
    /// Root may have done without.
    pub(super) user: Option<i32>,
    pub(super) network: i32,
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
    /// Nothing: it lies over something that is not to be seen.
    Nothing,
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
