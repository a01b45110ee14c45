//! Computes the plan of one command from the profile: its mounts, and the permissions of Landlock.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

use super::plan::{Mount, MountAccess, ProgramInvocation, SandboxPlan};
use super::{Network, Sandbox, SandboxProfile, SandboxSession, session_folder, tables};
use agent_protocol::disk;
use agent_protocol::tool::CommandRights;

pub(super) fn plan_command(
    sandbox: &Sandbox,
    session: &SandboxSession,
    rights: CommandRights,
    run: ProgramInvocation,
) -> SandboxPlan {
    let mut profile = sandbox.command_profile(rights);
    profile.hidden.extend(session.sockets.iter().cloned());
    // What cannot be reached, where no command can put it, needs neither a mount nor a rule for each entry beside it.
    let is_writable = |path: &Path| sandbox.profile.writable.iter().any(|it| path.starts_with(it));
    profile.hidden.retain(|path| is_writable(path) || path.symlink_metadata().is_ok());
    let mut writable = profile.writable.clone();
    if !rights.read_only {
        writable.push(session.cache.clone());
    }
    writable.extend(tables::DEVICES.iter().map(PathBuf::from));
    let empty = [session_folder::EMPTY_DIRECTORY, session_folder::EMPTY_FILE];
    let mut plan = SandboxPlan {
        namespaces: sandbox.namespaces,
        network: profile.network,
        max_processes: sandbox.facts.max_processes,
        owners: sandbox.facts.owners.clone(),
        empty: empty.map(|name| session.folder.path.join(name).into()),
        run,
        ..SandboxPlan::default()
    };
    if sandbox.namespaces {
        writable.extend(tables::PRIVATE.iter().map(PathBuf::from));
        plan.mounts = MountLayout { sandbox, session, profile: &profile, rights }.mounts();
    } else {
        plan.hidden_ids = super::file_ids(&profile.hidden);
        plan.hidden_ids.extend(&session.hidden_ids);
        let mut hidden = profile.hidden;
        // Device files are included: root could read disks.
        let mut places = sandbox.profile.writable.iter();
        if !places.any(|place| place.starts_with(tables::ALL_DEVICES)) {
            hidden.push(tables::ALL_DEVICES.into());
        }
        let readable = writable.iter().chain(&sandbox.readable);
        let readable = readable.filter(|path| hidden.iter().any(|it| path.starts_with(it)));
        plan.readable = readable.map(OsString::from).collect();
        plan.hidden = hidden.into_iter().map(OsString::from).collect();
        plan.known = sandbox.profile.writable.iter().map(OsString::from).collect();
    }
    plan.writable = writable.into_iter().map(OsString::from).collect();
    plan
}

struct MountLayout<'a> {
    sandbox: &'a Sandbox,
    session: &'a SandboxSession,
    profile: &'a SandboxProfile,
    rights: CommandRights,
}

impl MountLayout<'_> {
    /// Later mounts cover earlier ones.
    fn mounts(&self) -> Vec<Mount> {
        let (facts, session) = (&self.sandbox.facts, self.session);
        let access = if self.rights.read_only { MountAccess::Read } else { MountAccess::Write };
        let places = self.sandbox.profile.writable.iter().chain([&session.cache]);
        let places: Vec<&PathBuf> =
            places.filter(|path| **path != facts.temporary && is_directory(path)).collect();
        let mut binds = self.system_mounts();
        // A path in a shared temporary directory needs a mount point in the private one. The directories above are mounts too:
        // otherwise a command could rename them while the next one starts. They are read-only: files beside would be lost.
        let mut above = BTreeMap::new();
        for path in self.readable_folders().chain(places.iter().copied()) {
            above.extend(session.folder.make_mount_point(path));
        }
        binds.extend(above.iter().map(|(from, to)| bind(from, to, MountAccess::Read)));
        binds.extend(
            self.readable_folders()
                .filter(|it| is_private_temporary(it))
                .map(|it| bind_in_place(it, MountAccess::Read)),
        );

        let read_only: Vec<&PathBuf> =
            self.profile.read_only.iter().filter(|path| !path.is_symlink()).collect();
        let mut mounts: BTreeMap<&Path, MountAccess> = BTreeMap::new();
        for kept in read_only.iter().chain(&places).copied().chain(&self.profile.hidden) {
            // A directory that contains a mount point is a mount too: it cannot be renamed then.
            let inside = kept.ancestors().skip(1).filter(|path| {
                places.iter().any(|place| path.starts_with(place))
                    && !read_only.iter().any(|kept| path.starts_with(kept))
            });
            mounts.extend(inside.map(|path| (path, access)));
        }
        mounts.extend(places.iter().map(|place| (place.as_path(), access)));
        mounts.extend(read_only.iter().map(|path| (path.as_path(), MountAccess::Read)));
        // The sorted order puts a directory before its entries.
        binds.extend(mounts.into_iter().map(|(path, access)| bind_in_place(path, access)));
        self.cover_hidden_paths(&mut binds);
        binds
    }

    /// Readable even in a place that the sandbox replaces: git regards the files of an invisible work tree as deleted.
    fn readable_folders(&self) -> impl Iterator<Item = &PathBuf> {
        let facts = &self.sandbox.facts;
        // A repository of a whole temporary directory does not replace the private one.
        let is_whole =
            |tree: &&PathBuf| tables::PRIVATE.iter().any(|path| Path::new(path) == *tree);
        facts.homes.iter().chain(facts.git.work_trees.iter().filter(move |tree| !is_whole(tree)))
    }

    fn system_mounts(&self) -> Vec<Mount> {
        let folder = &self.session.folder;
        let devices = tables::DEVICES.iter().map(Path::new).filter(|path| {
            path.symlink_metadata().is_ok_and(|metadata| metadata.file_type().is_char_device())
        });
        let mut binds: Vec<Mount> =
            devices.map(|device| bind_in_place(device, MountAccess::Device)).collect();
        let temporary = folder.path.join(session_folder::TEMPORARY);
        for shared in tables::SHARED_TEMPORARY.iter().map(Path::new) {
            if is_directory(shared)
                && let Ok(real) = shared.canonicalize()
            {
                binds.push(bind(&temporary, &real, MountAccess::Write));
            }
        }
        let runtime = Path::new(tables::RUNTIME);
        if !is_directory(runtime) {
            return binds;
        }
        binds.push(bind(&folder.path.join(session_folder::RUNTIME), runtime, MountAccess::Read));
        let with_network = tables::RUNTIME_KEPT_WITH_NETWORK.iter();
        let with_network = with_network.filter(|_| self.profile.network == Network::On);
        for name in tables::RUNTIME_KEPT.iter().chain(with_network) {
            let path = runtime.join(name);
            // On some systems these are links to directories elsewhere.
            if let Some(real) = path.canonicalize().ok().filter(|real| real.is_dir()) {
                folder.make_mount_point(&path);
                binds.push(bind(&real, &path, MountAccess::Read));
            }
        }
        binds
    }

    /// Skips paths in a directory that the sandbox replaces. The readable directories may be in either.
    fn cover_hidden_paths(&self, binds: &mut Vec<Mount>) {
        let is_visible = |path: &&PathBuf| {
            let mut places = self.readable_folders().chain(&self.sandbox.profile.writable);
            !is_private_temporary(path) || places.any(|place| path.starts_with(place))
        };
        let readable = self.sandbox.readable.iter().filter(|path| is_directory(path));
        let readable: Vec<&PathBuf> = readable.collect();
        let mut covered: Vec<&PathBuf> = Vec::new();
        for path in self.profile.hidden.iter().filter(is_visible) {
            let mut cover = None;
            for readable in &readable {
                let Ok(below) = readable.strip_prefix(path) else { continue };
                let folder = self.session.folder.path.join(session_folder::COVER);
                if disk::create_folder_all(&folder.join(below), 0o755).is_ok() {
                    cover = Some(folder);
                    covered.push(readable);
                }
            }
            match cover {
                Some(cover) => binds.push(bind(&cover, path, MountAccess::Read)),
                None => binds.push(Mount::Hide(path.into())),
            }
        }
        for path in readable {
            if covered.contains(&path) || is_private_temporary(path) {
                self.session.folder.make_mount_point(path);
                binds.push(bind_in_place(path, MountAccess::Read));
            }
        }
    }
}

pub(super) fn service_sockets() -> Vec<PathBuf> {
    let table = fs::read("/proc/net/unix").unwrap_or_default();
    // The path is the last field; an abstract socket begins with `@`.
    let paths = table.split(|byte| *byte == b'\n').filter_map(|line| {
        let path = &line[line.iter().position(|byte| *byte == b'/')?..];
        disk::resolve_existing(Path::new(OsStr::from_bytes(path)))
    });
    let mut sockets: Vec<PathBuf> = paths
        .filter(|path| !path.starts_with(tables::RUNTIME))
        .filter(|path| path.symlink_metadata().is_ok_and(|it| it.file_type().is_socket()))
        .collect();
    sockets.sort();
    sockets.dedup();
    sockets
}

fn bind(from: &Path, to: &Path, access: MountAccess) -> Mount {
    Mount::Bind { from: from.into(), to: to.into(), access }
}

fn bind_in_place(path: &Path, access: MountAccess) -> Mount {
    bind(path, path, access)
}

/// Whether the sandbox replaces the path with a private directory.
pub fn is_private_temporary(path: &Path) -> bool {
    tables::SHARED_TEMPORARY.iter().any(|shared| path.starts_with(shared))
        || path.starts_with(tables::SHARED_MEMORY)
}

pub(super) fn is_directory(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|metadata| metadata.is_dir())
}
