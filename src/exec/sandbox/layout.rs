//! From the profile to the plan of one command: which mounts it gets, and what Landlock permits.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

use super::plan::{Access, Bind, Bytes, Plan, Run};
use super::{Network, Sandbox, Session, tables};
use crate::disk;
use crate::protocol::tool::Rights;

/// The plan of a command with these rights.
pub(super) fn plan(sandbox: &Sandbox, session: &Session, run: Option<Run>, rights: Rights) -> Plan {
    let (closed, read_only) = super::lock(&sandbox.closed).clone();
    let hidden_ids = super::file_ids(&closed);
    let hidden = session.hidden.iter().cloned().chain(closed).collect();
    let layout = Layout { sandbox, session, rights, hidden, read_only };
    let mut writable = layout.writable();
    writable.extend(tables::DEVICES.iter().chain(tables::TERMINALS).map(PathBuf::from));
    let network = sandbox.network(rights);
    let mut plan = Plan { namespaces: sandbox.namespaces, network, run, ..Plan::default() };
    if sandbox.namespaces {
        writable.extend(tables::PRIVATE.iter().map(PathBuf::from));
        plan.binds = layout.binds(network);
        plan.empty =
            vec![Bytes(session.folder.empty_directory()), Bytes(session.folder.empty_file())];
        plan.covered = layout.covered().iter().map(Bytes::from).collect();
        plan.on_top = layout.on_top(&mut plan.covered);
    } else {
        let mut hidden = layout.hidden;
        // Device files as well: root could read disks.
        let mut places = sandbox.profile.writable.iter();
        if !places.any(|place| place.starts_with(tables::ALL_DEVICES)) {
            hidden.push(tables::ALL_DEVICES.into());
        }
        let readable = writable.iter().chain(&sandbox.readable);
        let readable = readable.filter(|path| hidden.iter().any(|it| path.starts_with(it)));
        plan.readable = readable.map(Bytes::from).collect();
        plan.hidden = hidden.iter().map(Bytes::from).collect();
        plan.hidden_ids = session.hidden_ids.iter().copied().chain(hidden_ids).collect();
        plan.known = sandbox.profile.writable.iter().map(Bytes::from).collect();
    }
    plan.writable = writable.iter().map(Bytes::from).collect();
    plan
}

struct Layout<'a> {
    sandbox: &'a Sandbox,
    session: &'a Session,
    rights: Rights,
    hidden: Vec<PathBuf>,
    /// Besides those of the profile.
    read_only: Vec<PathBuf>,
}

impl Layout<'_> {
    fn writable(&self) -> Vec<PathBuf> {
        let facts = &self.sandbox.facts;
        if self.rights.read_only {
            return vec![facts.temporary.clone()];
        }
        let profile = self.sandbox.profile.writable.iter();
        profile.chain([&self.session.cache]).cloned().collect()
    }

    /// What lies where; later mounts lie over earlier ones.
    fn binds(&self, network: Network) -> Vec<Bind> {
        let (facts, profile) = (&self.sandbox.facts, &self.sandbox.profile);
        let access = if self.rights.read_only { Access::Read } else { Access::Write };
        let mut binds = self.system(network);
        let places = profile.writable.iter().filter(|path| **path != facts.temporary);
        let places: Vec<&PathBuf> =
            places.chain([&self.session.cache]).filter(|path| is_directory(path)).collect();
        // What lies in a shared temporary directory needs a mount point in the private one. The directories above it are
        // mounts as well: otherwise a command could rename them while the next command starts.
        let mut above = BTreeMap::new();
        for path in facts.homes.iter().chain(places.iter().copied()) {
            above.extend(self.session.folder.make_place(path));
        }
        binds.extend(above.iter().map(|(from, to)| bind(from, to, Access::Write)));
        let homes = facts.homes.iter().filter(|home| is_replaced(home));
        binds.extend(homes.map(|home| itself(home, Access::Read)));

        let is_kept = |path: &&PathBuf| {
            !self.rights.git_config || !facts.git.settings.contains(path) || path.ends_with("hooks")
        };
        let read_only = profile.read_only.iter().chain(&self.read_only).filter(is_kept);
        let read_only: Vec<&PathBuf> = read_only.filter(|path| is_no_link(path)).collect();
        let mut mounts: BTreeMap<&Path, Access> = BTreeMap::new();
        let hidden = self.hidden.iter().filter(|path| is_no_link(path));
        for kept in read_only.iter().chain(&places).copied().chain(hidden) {
            // A directory that contains a mount point is one itself: it cannot be renamed then.
            let inside = kept.ancestors().skip(1).filter(|path| {
                places.iter().any(|place| path.starts_with(place))
                    && !read_only.iter().any(|kept| path.starts_with(kept))
            });
            mounts.extend(inside.map(|path| (path, access)));
        }
        mounts.extend(places.iter().map(|place| (place.as_path(), access)));
        mounts.extend(read_only.iter().map(|path| (path.as_path(), Access::Read)));
        // In this order a directory comes before what lies in it.
        binds.extend(mounts.into_iter().map(|(path, access)| itself(path, access)));
        binds
    }

    /// Devices, the private directories for temporary files, and what is kept of `/run`.
    fn system(&self, network: Network) -> Vec<Bind> {
        let folder = &self.session.folder;
        let devices = tables::DEVICES.iter().map(Path::new).filter(|path| is_device(path));
        let mut binds: Vec<Bind> = devices.map(|device| itself(device, Access::Device)).collect();
        for shared in tables::SHARED_TEMPORARY.iter().map(Path::new) {
            if is_directory(shared)
                && let Ok(real) = shared.canonicalize()
            {
                binds.push(bind(folder.temporary(), &real, Access::Write));
            }
        }
        let runtime = Path::new(tables::RUNTIME);
        if !is_directory(runtime) {
            return binds;
        }
        binds.push(bind(&folder.runtime(), runtime, Access::Read));
        let with_network = tables::RUNTIME_KEPT_WITH_NETWORK.iter();
        let with_network = with_network.filter(|_| network == Network::On);
        for name in tables::RUNTIME_KEPT.iter().chain(with_network) {
            let (path, place) = (runtime.join(name), folder.runtime().join(name));
            // On some systems these are links to directories elsewhere.
            if let Some(real) = path.canonicalize().ok().filter(|real| real.is_dir())
                && disk::make_folder(&place, 0o755).is_ok()
            {
                binds.push(bind(&real, &path, Access::Read));
            }
        }
        binds
    }

    /// Hidden paths, as far as they are not in a directory that the sandbox replaces anyway.
    fn covered(&self) -> Vec<PathBuf> {
        let facts = &self.sandbox.facts;
        let is_visible = |path: &&PathBuf| {
            let places = facts.homes.iter().chain(&self.sandbox.profile.writable);
            !is_replaced(path) || places.into_iter().any(|place| path.starts_with(place))
        };
        let queues = PathBuf::from(tables::MESSAGE_QUEUES);
        let queues = Some(queues).filter(|path| is_directory(path));
        self.hidden.iter().filter(is_visible).cloned().chain(queues).collect()
    }

    /// The readable directory, where it lies in a hidden or a replaced one.
    fn on_top(&self, covered: &mut Vec<Bytes>) -> Vec<Bind> {
        let Some(readable) = self.sandbox.readable.as_ref().filter(|path| is_directory(path))
        else {
            return Vec::new();
        };
        let around = covered.iter().position(|hidden| readable.starts_with(&hidden.0));
        if let Some(around) = around {
            let hidden = covered.remove(around);
            let below = readable.strip_prefix(&hidden.0).unwrap_or(Path::new(""));
            let Ok(cover) = self.session.folder.cover_with_place(below) else {
                covered.push(hidden);
                return Vec::new();
            };
            return vec![bind(&cover, &hidden.0, Access::Read), itself(readable, Access::Read)];
        }
        if !is_replaced(readable) {
            return Vec::new();
        }
        self.session.folder.make_place(readable);
        vec![itself(readable, Access::Read)]
    }
}

/// Sockets of services outside `/run` that exist now, by their absolute paths.
pub(super) fn service_sockets(hidden: &[PathBuf]) -> Vec<PathBuf> {
    let table = fs::read("/proc/net/unix").unwrap_or_default();
    // The path is the last field; an abstract socket begins with `@`.
    let paths = table.split(|byte| *byte == b'\n').filter_map(|line| {
        let path = &line[line.iter().position(|byte| *byte == b'/')?..];
        disk::real(Path::new(OsStr::from_bytes(path)))
    });
    let mut sockets: Vec<PathBuf> = paths
        .filter(|path| !path.starts_with(tables::RUNTIME))
        .filter(|path| !hidden.iter().any(|hidden| path.starts_with(hidden)))
        .filter(|path| path.symlink_metadata().is_ok_and(|it| it.file_type().is_socket()))
        .collect();
    sockets.sort();
    sockets.dedup();
    sockets
}

fn bind(from: &Path, to: &Path, access: Access) -> Bind {
    Bind { from: from.into(), to: to.into(), access }
}

fn itself(path: &Path, access: Access) -> Bind {
    bind(path, path, access)
}

/// The sandbox has a private directory in this place.
fn is_replaced(path: &Path) -> bool {
    tables::SHARED_TEMPORARY.iter().any(|shared| path.starts_with(shared))
        || path.starts_with(tables::SHARED_MEMORY)
}

pub(super) fn is_directory(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|metadata| metadata.is_dir())
}

fn is_no_link(path: &Path) -> bool {
    match path.symlink_metadata() {
        Ok(metadata) => !metadata.is_symlink(),
        // A command has closed a directory above it; it can be opened again.
        Err(error) => error.kind() == std::io::ErrorKind::PermissionDenied,
    }
}

fn is_device(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|metadata| metadata.file_type().is_char_device())
}
