//! How the box of a command is laid out: what can be written, what is protected, what is not there.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, Metadata};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, mkdirat};

use super::super::process;
use super::git::Repository;
use super::plan::{self, Access, Bind, Bytes, FileId, Plan};
use super::readable::Hidden;
use super::watch::Watched;
use super::{Grants, Namespaces, Network, Sandbox, tables};
use crate::disk;

/// Where a socket of a relative name lies is only guessed: so often it is looked for the first command, the places
/// that it can write first. It takes some 20 ms.
const MOST_LOOKS: usize = 20_000;

impl Sandbox {
    pub(super) fn plan(
        &self,
        run: Option<plan::Run>,
        grants: &Grants,
        network: Network,
        protected: &[PathBuf],
        granted: &[Repository],
        hidden: Hidden,
    ) -> Plan {
        let places = if grants.read_only {
            vec![self.folder.temporary().to_owned()]
        } else {
            self.all_writable()
        };
        let mut writable: Vec<Bytes> = places.iter().map(Bytes::from).collect();
        writable.extend(tables::DEVICES.iter().map(|path| (*path).into()));
        writable.extend(tables::TERMINALS.iter().map(|path| (*path).into()));
        writable.extend(
            granted.iter().flat_map(|it| it.written(self.namespaces)).map(|own| Bytes::from(&own)),
        );
        if self.namespaces {
            let own = tables::OWN_IN_NAMESPACES.iter();
            writable.extend(own.map(|path| (*path).into()));
        }
        let (binds, covered) = if self.namespaces {
            let covered = self.covered();
            let binds = self.binds(grants, network, protected, granted, &covered);
            (binds, covered.iter().map(Bytes::from).collect())
        } else {
            (Vec::new(), Vec::new())
        };
        Plan {
            namespaces: self.namespaces,
            network,
            binds,
            covered,
            nothing: [self.folder.closed_folder(), self.folder.closed_file()].map(Bytes::from),
            writable,
            hidden: hidden.paths,
            hidden_files: hidden.files,
            session: self
                .session_for(network)
                .map(|namespaces| plan::Session { has_user: namespaces.user.is_some() }),
            run,
        }
    }

    /// The namespaces of the session that a command with this network enters.
    pub(super) fn session_for(&self, network: Network) -> Option<&Namespaces> {
        self.session.as_ref().filter(|_| network == self.settings.network)
    }

    /// What lies where in the box; what comes later lies over what came before.
    fn binds(
        &self,
        grants: &Grants,
        network: Network,
        protected: &[PathBuf],
        granted: &[Repository],
        covered: &[PathBuf],
    ) -> Vec<Bind> {
        let access = if grants.read_only { Access::Read } else { Access::Write };
        let mut binds = self.of_the_system(network);
        // A repository around the project: the project lies over it, and what else lies in it is none of git's.
        let lies_around =
            |repository: &&Repository| repository.lies_around(&self.writable).is_some();
        let (around, beside): (Vec<_>, Vec<_>) = granted.iter().partition(lies_around);
        let commons = around.iter().filter_map(|it| it.lies_around(&self.writable));
        let commons: Vec<&PathBuf> = commons.collect();
        binds.extend(commons.iter().map(|common| itself(common, Access::Write)));
        let others = around.iter().flat_map(|it| &it.others);
        binds.extend(others.map(|path| itself(path, Access::Read)));
        binds.extend(self.places(access));
        // What git may take away is no mount, while it may; the file of a place itself nobody takes away.
        let is_root = |path: &Path| {
            let above = path.parent().filter(|_| path.ends_with(".git"));
            above.is_some_and(|above| self.writable.iter().any(|root| root == above))
        };
        let removable = granted.iter().flat_map(Repository::removable);
        let removable: Vec<PathBuf> = removable.filter(|path| !is_root(path)).collect();
        let protected: Vec<&PathBuf> =
            protected.iter().filter(|path| !removable.contains(*path)).collect();
        let mut hooks: Vec<PathBuf> = granted.iter().flat_map(covered_hooks).collect();
        hooks.extend(beside.iter().flat_map(|it| it.others.iter().cloned()));
        let cache = self.cache();
        let kept = protected.iter().copied().chain(covered).chain(&hooks).chain([&cache]);
        binds.extend(self.above(kept).iter().map(|path| itself(path, access)));
        let is_no_link = |path: &Path| disk::may_be(path, |metadata| !metadata.is_symlink());
        let protected: Vec<&PathBuf> =
            protected.into_iter().filter(|path| is_no_link(path)).collect();
        binds.extend(protected.iter().map(|path| itself(path, Access::Read)));
        let own: BTreeSet<PathBuf> = granted
            .iter()
            .flat_map(|repository| repository.written(true))
            .filter(|path| !removable.contains(path) && disk::may_be(path, |_| true))
            .filter(|path| !commons.contains(&path))
            .collect();
        binds.extend(gits(&own, &protected, &hooks));
        binds
    }

    /// Devices, the private folders for temporary files, and what is left of `/run`.
    fn of_the_system(&self, network: Network) -> Vec<Bind> {
        let devices = tables::DEVICES.iter().map(Path::new).filter(|path| is_device(path));
        let mut binds: Vec<Bind> = devices.map(|device| itself(device, Access::Device)).collect();
        for shared in tables::SHARED_TEMPORARY.iter().map(Path::new) {
            // (A folder above it may be reached by a link, as the system has it.)
            if is_real_folder(shared)
                && let Ok(real) = shared.canonicalize()
            {
                binds.push(bind(self.folder.temporary(), &real, Access::Write));
            }
        }
        let runtime = Path::new(tables::RUNTIME);
        if !is_real_folder(runtime) {
            return binds;
        }
        binds.push(bind(self.folder.runtime(), runtime, Access::Read));
        let with_network = tables::RUNTIME_KEPT_WITH_NETWORK.iter();
        let kept = tables::RUNTIME_KEPT
            .iter()
            .chain(with_network.filter(|_| network == Network::On))
            .map(|name| runtime.join(name));
        for path in kept.filter(|path| self.folder.has_runtime(path)) {
            // (Systems make links to what they run.)
            if let Some(real) = path.canonicalize().ok().filter(|real| real.is_dir()) {
                binds.push(bind(&real, &path, Access::Read));
            }
        }
        binds
    }

    /// What commands work in, and the way there.
    fn places(&self, access: Access) -> Vec<Bind> {
        let cache = self.cache();
        let places: Vec<&PathBuf> =
            self.writable.iter().chain([&cache]).filter(|path| may_be_folder(path)).collect();
        // What lies in a shared temporary folder has its place in the private one. The folders above that are mounts
        // of their own, in every box: else a command could put something else there while the next is set up.
        let mut on_the_way = BTreeSet::new();
        for path in self.homes.iter().chain(places.iter().copied()) {
            on_the_way.extend(self.folder.make_place(path));
        }
        let on_the_way = on_the_way.iter().map(|(from, to)| bind(from, to, Access::Write));
        // A home there is a home all the same.
        let homes = self.homes.iter().filter(|home| is_covered(home));
        let homes = homes.map(|home| itself(home, Access::Read));
        on_the_way.chain(homes).chain(places.into_iter().map(|path| itself(path, access))).collect()
    }

    /// The folders above something that stays where it is. They are mounts of their own: else one could be renamed, and
    /// what lies in it would lie somewhere else. Outer ones first.
    fn above<'a>(&'a self, kept: impl Iterator<Item = &'a PathBuf>) -> BTreeSet<PathBuf> {
        let roots = &self.writable;
        kept.chain(roots)
            .flat_map(|path| path.ancestors().skip(1))
            .filter(|path| roots.iter().any(|root| path.starts_with(root) && *path != root))
            .filter(|path| may_be_folder(path))
            .map(Path::to_path_buf)
            .collect()
    }

    /// What is not to be seen, where it is not covered by a folder above it already, or by the private /tmp.
    fn covered(&self) -> Vec<PathBuf> {
        let is_seen = |path: &PathBuf| {
            !is_covered(path)
                || self.homes.iter().chain(&self.writable).any(|kept| path.starts_with(kept))
        };
        // Messages that programs outside wait for.
        let queues = PathBuf::from(tables::MESSAGE_QUEUES);
        let queues = Some(queues).filter(|path| is_real_folder(path));
        let sockets = self.sockets().iter().cloned();
        self.hidden().into_iter().chain(sockets).chain(queues).filter(is_seen).collect()
    }

    /// Everything that commands may write, as it is named outside.
    pub(super) fn all_writable(&self) -> Vec<PathBuf> {
        let mut all = self.writable.clone();
        all.push(self.cache());
        all.push(self.folder.temporary().to_owned());
        all
    }

    pub(super) fn cache(&self) -> PathBuf {
        // Without a home the caches last as long as the session. A tool that finds its cache missing makes it; a
        // folder that is bound must be there.
        match &self.settings.cache {
            Some(cache) if disk::make_folder(cache, 0o755).is_ok() => cache.clone(),
            Some(_) | None => self.folder.cache().to_owned(),
        }
    }

    pub(super) fn temporary_folder(&self) -> PathBuf {
        let shared = Path::new("/tmp");
        if self.namespaces && is_real_folder(shared) {
            shared.to_owned()
        } else {
            self.folder.temporary().to_owned()
        }
    }

    /// What is never written although it lies in a writable place, whether it is there or not.
    pub(super) fn protected(&self, repositories: &[Repository]) -> Vec<PathBuf> {
        let mut protected: Vec<PathBuf> = Vec::new();
        for root in &self.writable {
            protected.push(root.join(tables::AGENT_FOLDER));
            // A link that is none of git's a command can make, to any folder.
            protected.extend(Some(root.join(".git")).filter(|git| !git.is_symlink()));
        }
        protected.extend(self.settings.protected.iter().cloned());
        protected.extend(self.records(tables::SESSIONS_FOLDER));
        protected.extend(self.found.closed.iter().cloned());
        let of_git = repositories.iter().flat_map(|r| r.link.iter().cloned().chain(r.kept()));
        protected.extend(of_git);
        for home in &self.homes {
            protected.extend(tables::STARTUP_FILES.iter().map(|name| home.join(name)));
        }
        // Who works on a start-up file, in its own folder, has said so by that.
        let lies_in = |path: &PathBuf| {
            self.writable.iter().any(|root| path.starts_with(root) && path != root)
        };
        protected.retain(&lies_in);
        // A link is protected by what it points to, and looked at itself. To the project as a whole a command could
        // have made one, so that nothing of it could be written any more.
        let real: Vec<PathBuf> =
            protected.iter().filter_map(|path| disk::real(path).filter(&lies_in)).collect();
        protected.retain(|path| !path.exists() || path.is_symlink());
        protected.extend(real);
        protected.sort();
        protected.dedup();
        protected
    }

    /// The folder of this name in each of the agent's own folders. Who does not trust the folder in which one lies is
    /// configured by nothing in it; what the agent itself kept there counts for him, too.
    fn records(&self, name: &'static str) -> impl Iterator<Item = PathBuf> {
        let folders = self.found.agents.iter().map(move |agent| agent.join(name));
        // A link leads the agent nowhere, and here it could lead to any folder.
        folders.filter(|folder| may_be_folder(folder))
    }

    /// What of it is looked at before and after: all of it where nothing else protects it, and what is
    /// not there and so can not be covered.
    pub(super) fn watched(
        &self,
        mut watched: Vec<PathBuf>,
        grants: &Grants,
        granted: &[Repository],
    ) -> Vec<Watched> {
        if self.namespaces {
            watched.retain(|path| !disk::may_be(path, |metadata| !metadata.is_symlink()));
        } else {
            // Sessions in other folders go on meanwhile.
            let records: Vec<PathBuf> = self.records(tables::SESSIONS_FOLDER).collect();
            watched.retain(|path| !records.contains(path));
            let stores = self.existing(self.stores());
            watched.extend(stores.filter(|path| self.is_writable(path)));
        }
        // By a link a store is covered where it leads now; by the one that somebody makes of it, elsewhere.
        let links = self.stores().flat_map(|store| {
            let above = store.ancestors().map(Path::to_path_buf).collect::<Vec<_>>();
            above.into_iter().filter(|path| self.is_writable(path) && path.is_symlink())
        });
        watched.extend(links);
        watched.sort();
        watched.dedup();
        watched.retain(|path| {
            !grants.git.contains(path)
                && !granted.iter().any(|r| r.kept().contains(path) || r.link.as_ref() == Some(path))
        });
        // Not even git writes there. Of a link it is looked at where it leads.
        let hooks = granted.iter().flat_map(|repository| &repository.hooks);
        let hooks = hooks.filter(|path| !self.namespaces || !is_real_folder(path));
        let hooks = hooks.map(|path| Watched { path: path.clone(), in_depth: true });
        let watched = watched.into_iter().map(|path| {
            let in_depth = !self.namespaces || path.is_symlink();
            Watched { path, in_depth }
        });
        watched.chain(hooks).collect()
    }

    /// What Landlock alone hides. Besides the secrets the devices, but for the few that can be written: root could read
    /// disks, anybody what is typed at his own terminals. (Namespaces have none.)
    pub(super) fn hidden_from_landlock(&self) -> Hidden {
        let mut hidden = self.secrets();
        let devices = Path::new(tables::ALL_DEVICES);
        let is_needed = |path: &Path| self.writable.iter().any(|root| root.starts_with(path));
        if is_needed(devices) {
            // The project lies in shared memory, say.
            let entries = fs::read_dir(devices).into_iter().flatten().flatten();
            hidden.extend(entries.map(|entry| entry.path()).filter(|path| !is_needed(path)));
        } else {
            hidden.push(devices.to_owned());
        }
        let mut spared = self.all_writable();
        spared.extend(tables::DEVICES.iter().chain(tables::TERMINALS).map(PathBuf::from));
        spared.retain(|path| hidden.iter().any(|hidden| path.starts_with(hidden)));
        let paths = hidden.iter().map(Bytes::from).collect();
        Hidden { paths, files: self.hidden_files(), spared, places: self.writable.clone() }
    }

    /// What is there and is not to be read. A folder that the user gave to commands is none of it.
    pub fn hidden(&self) -> Vec<PathBuf> {
        let undo = [tables::AGENT_FOLDER, tables::UNDO_FOLDER].iter().collect::<PathBuf>();
        let undo = self.records(tables::UNDO_FOLDER).chain([self.settings.root.join(undo)]);
        let mut hidden = self.secrets();
        hidden.extend(self.existing(undo));
        outermost(&mut hidden);
        hidden
    }

    /// The same without what the agent keeps in the project itself: in every project there is some, and with Landlock
    /// a command could not read what it makes in the folders above it.
    pub(super) fn secrets(&self) -> Vec<PathBuf> {
        let of_homes = self.stores();
        let of_system = tables::SYSTEM_SECRETS.iter().map(PathBuf::from).filter(can_be_read);
        let all = of_homes.chain(of_system).chain(self.settings.hidden.iter().cloned());
        let mut secrets: Vec<PathBuf> = self.existing(all).collect();
        // A link that led to one may have been taken away, or lead elsewhere now.
        let first = self.first_secrets.get_or_init(|| secrets.clone()).iter();
        secrets.extend(first.filter(|path| is_there(path)).cloned());
        outermost(&mut secrets);
        secrets
    }

    fn is_writable(&self, path: &Path) -> bool {
        self.writable.iter().any(|root| path.starts_with(root))
    }

    fn stores(&self) -> impl Iterator<Item = PathBuf> {
        let of = |home: &PathBuf| {
            let home = home.clone();
            tables::SECRET_STORES.iter().map(move |name| home.join(name))
        };
        self.homes.iter().flat_map(of)
    }

    /// The secrets that lie where commands write and are one file each, now and when the session began: a command can
    /// have given them another name.
    fn hidden_files(&self) -> Vec<FileId> {
        let now = || {
            let secrets = self.secrets().into_iter();
            let own =
                secrets.filter(|path| self.writable.iter().any(|root| path.starts_with(root)));
            let files = own.filter_map(|path| fs::metadata(path).ok()).filter(Metadata::is_file);
            files.map(|metadata| (metadata.dev(), metadata.ino())).collect::<Vec<_>>()
        };
        let mut files = self.hidden_files.get_or_init(now).clone();
        files.extend(now());
        files
    }

    fn existing(&self, paths: impl Iterator<Item = PathBuf>) -> impl Iterator<Item = PathBuf> {
        paths
            // Few are there; to look is cheaper than to resolve.
            .filter(|path| disk::may_be(path, |_| true))
            .filter_map(|path| disk::real(&path))
            .filter(|path| !self.writable.iter().any(|root| root.starts_with(path)))
    }

    /// Sockets that lie somewhere, of services that were running when the first command was.
    fn sockets(&self) -> &[PathBuf] {
        self.sockets.get_or_init(|| {
            let hidden = self.hidden();
            // (Names are bytes: one that is no text hides no other.)
            let table = fs::read("/proc/net/unix").unwrap_or_default();
            let lines = table.split(|byte| *byte == b'\n').skip(1);
            let (full, from_somewhere): (Vec<&Path>, Vec<&Path>) =
                lines.filter_map(socket_name).partition(|name| name.is_absolute());
            // Of the others only the program knows where it stood; most still stand there.
            let mut places = self.writable.clone();
            if !from_somewhere.is_empty() {
                places.extend(process::directories());
            }
            let found = sockets_in(&places, &from_somewhere);
            let mut sockets: Vec<PathBuf> = full
                .iter()
                .map(PathBuf::from)
                .chain(found)
                .filter_map(|path| disk::real(&path))
                .filter(|path| {
                    // Also in the project: an editor that listens there does what it is told, outside.
                    let is_own = self.writable.iter().any(|root| path.starts_with(root));
                    !path.starts_with(tables::RUNTIME) && (is_own || !is_covered(path))
                })
                .filter(|path| !hidden.iter().any(|folder| path.starts_with(folder)))
                .collect();
            sockets.sort();
            sockets.dedup();
            sockets
        })
    }
}

fn bind(from: &Path, to: &Path, access: Access) -> Bind {
    Bind { from: from.into(), to: to.into(), access }
}

/// It lies where it lies outside.
fn itself(path: &Path, access: Access) -> Bind {
    bind(path, path, access)
}

/// What git writes, with the folders above its hooks, which are mounts of their own. Outer ones first: one repository may
/// lie in another, or be made to.
fn gits(own: &BTreeSet<PathBuf>, protected: &[&PathBuf], hooks: &[PathBuf]) -> Vec<Bind> {
    let is_inside =
        |path: &Path| own.iter().any(|own| path.starts_with(own) && path != own.as_path());
    let mut writable: BTreeSet<&Path> = own.iter().map(|path| path.as_path()).collect();
    let above_hooks = hooks.iter().flat_map(|hooks| hooks.ancestors().skip(1));
    writable.extend(above_hooks.filter(|path| is_inside(path)));
    let writable = writable.into_iter().map(|path| itself(path, Access::Write));
    // A command could have made a repository around what is none of git's.
    let others = protected.iter().filter(|path| is_inside(path) && !own.contains(path.as_path()));
    let others = others.copied().chain(hooks).map(|path| itself(path, Access::Read));
    writable.chain(others).collect()
}

/// What lies in another of them is hidden with it.
pub(super) fn outermost(paths: &mut Vec<PathBuf>) {
    paths.sort();
    // The outer one sorts first.
    paths.dedup_by(|inner, outer| inner.starts_with(outer));
}

/// The sockets of these names in these folders, as far as `MOST_LOOKS` goes.
fn sockets_in(places: &[PathBuf], names: &[&Path]) -> impl Iterator<Item = PathBuf> {
    // Each listening one and each of its connections is a line.
    let names: BTreeSet<&Path> = names.iter().copied().collect();
    let paths = places
        .iter()
        .flat_map(move |place| names.iter().map(|name| place.join(name)).collect::<Vec<_>>());
    // What was bound is no link.
    let is_socket =
        |path: &PathBuf| fs::symlink_metadata(path).is_ok_and(|met| met.file_type().is_socket());
    paths.take(MOST_LOOKS).filter(is_socket)
}

/// What a line of `/proc/net/unix` calls a socket of the file system: the path that it was made with.
fn socket_name(line: &[u8]) -> Option<&Path> {
    let mut rest = line;
    for _ in 0..7 {
        rest = rest.trim_ascii_start();
        rest = &rest[rest.iter().position(|byte| *byte == b' ')?..];
    }
    // An abstract one lies nowhere.
    let name = rest.strip_prefix(b" ").filter(|name| !name.starts_with(b"@"))?;
    Some(Path::new(OsStr::from_bytes(name)))
}

/// The folders of hooks that are there. A link to a folder of the project's (`../githooks`) names what is the project's.
fn covered_hooks(repository: &Repository) -> impl Iterator<Item = PathBuf> {
    let own = |hooks: &PathBuf| repository.own.iter().any(|own| hooks.starts_with(own));
    repository.hooks.iter().filter_map(move |hooks| disk::real(hooks).filter(own))
}

/// What is not there can not be covered, and git itself (`git worktree add .git/hooks`) can be told to make it.
pub(super) fn make_hooks(repository: &Repository) {
    repository.hooks.iter().for_each(|hooks| make_in(repository, hooks));
}

fn make_in(repository: &Repository, folder: &Path) {
    let (Some(parent), Some(name)) = (folder.parent(), folder.file_name()) else { return };
    if repository.own.iter().any(|own| parent.starts_with(own))
        && let Ok(parent) = disk::open_folder(parent)
    {
        // It is there already, or it is looked at before and after.
        _ = mkdirat(&parent, name, Mode::from_raw_mode(0o755));
    }
}

/// In the box there is something else of this name.
fn is_covered(path: &Path) -> bool {
    tables::SHARED_TEMPORARY.iter().any(|shared| path.starts_with(shared))
        || path.starts_with(tables::SHARED_MEMORY)
}

fn is_real_folder(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_dir())
}

fn may_be_folder(path: &Path) -> bool {
    disk::may_be(path, Metadata::is_dir)
}

fn is_device(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|metadata| metadata.file_type().is_char_device())
}

/// Not taken away, and no link by now.
fn is_there(path: &Path) -> bool {
    disk::real(path).is_some_and(|real| real == *path)
}

/// By this user: what he can not read himself needs no cover.
fn can_be_read(path: &PathBuf) -> bool {
    rustix::fs::access(path, rustix::fs::Access::READ_OK).is_ok()
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test may panic")]

    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn sockets_are_looked_for_by_their_names_and_not_for_ever() {
        let dir = tempfile::tempdir().unwrap();
        let (own, other) = (dir.path().join("own"), dir.path().join("other"));
        for place in [&own, &other] {
            fs::create_dir(place).unwrap();
            let _listens = UnixListener::bind(place.join("z")).unwrap();
            symlink("z", place.join("link")).unwrap();
        }
        let found = |places: &[&PathBuf], names: &[&str]| -> Vec<PathBuf> {
            let places: Vec<PathBuf> = places.iter().map(|place| (*place).clone()).collect();
            let names: Vec<&Path> = names.iter().map(Path::new).collect();
            sockets_in(&places, &names).collect()
        };
        let both = found(&[&own, &other], &["z", "link", "z", "none"]);
        assert_eq!(both, [own.join("z"), other.join("z")]);
        let many: Vec<String> = (1..MOST_LOOKS).map(|n| n.to_string()).collect();
        let mut names: Vec<&str> = many.iter().map(String::as_str).collect();
        names.push("z");
        // The first folder takes all the looks there are.
        assert_eq!(found(&[&own, &other], &names), [own.join("z")]);
    }
}
