//! Other users than root whose files are in the writable directories: commands of root keep their rights over them.

use std::collections::{BTreeSet, VecDeque};
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

use rustix::process::getuid;
use rustix::thread::{CapabilitySet, capabilities};
use serde::{Deserialize, Serialize};

/// Limits: entries that are looked at, and users and groups (the kernel takes a map of less than a page).
const MAX_ENTRIES: usize = 10_000;
const MAX_OWNERS: usize = 100;

/// Users and groups, root among them; empty where the agent is not root, or lacks a right for it, or all files are root's.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileOwners {
    pub users: BTreeSet<u32>,
    pub groups: BTreeSet<u32>,
}

impl FileOwners {
    /// The owners of the first entries in these directories, the upper ones first.
    pub fn of_entries(places: &[PathBuf]) -> Self {
        let needed = CapabilitySet::DAC_OVERRIDE | CapabilitySet::SETUID | CapabilitySet::SETGID;
        let has_rights = capabilities(None).is_ok_and(|sets| sets.permitted.contains(needed));
        if !getuid().is_root() || !has_rights {
            return Self::default();
        }
        let mut owners = Self { users: BTreeSet::from([0]), groups: BTreeSet::from([0]) };
        let mut queue: VecDeque<PathBuf> = places.iter().cloned().collect();
        for _ in 0..MAX_ENTRIES {
            let Some(path) = queue.pop_front() else { break };
            let Ok(metadata) = path.symlink_metadata() else { continue };
            owners.users.insert(metadata.uid());
            owners.groups.insert(metadata.gid());
            if metadata.is_dir() {
                let n_free = MAX_ENTRIES.saturating_sub(queue.len());
                let entries = fs::read_dir(&path).into_iter().flatten().flatten();
                queue.extend(entries.map(|entry| entry.path()).take(n_free));
            }
        }
        for ids in [&mut owners.users, &mut owners.groups] {
            *ids = ids.iter().take(MAX_OWNERS).copied().collect();
        }
        if owners.users.len() > 1 { owners } else { Self::default() }
    }

    /// The maps of a user namespace with these users and groups only.
    pub(super) fn id_maps(&self) -> Option<[String; 2]> {
        let map =
            |ids: &BTreeSet<u32>| ids.iter().map(|id| format!("{id} {id} 1\n")).collect::<String>();
        (!self.users.is_empty()).then(|| [map(&self.users), map(&self.groups)])
    }
}
