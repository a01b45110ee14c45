//! The operating-system sandbox of commands: namespaces, Landlock and seccomp (`docs/SECURITY.md`).

mod layout;
mod linux;
mod owners;
mod plan;
mod profile;
mod refusal;
mod session_folder;
mod tables;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tokio::sync::OnceCell;

use crate::git_guard::{ContentKeeper, GitGuard, GuardPlaces};
use agent_protocol::disk;
use agent_protocol::event::SandboxStatus as Guarantees;
pub(super) use agent_protocol::settings::{SandboxBackend as Backend, SandboxNetwork as Network};
use agent_protocol::tool::CommandRights;
use linux::StandbyProcess;
use plan::FileId;
use refusal::ClosedPath;
use session_folder::SessionFolder;

pub use layout::is_private_temporary;
pub(super) use linux::{
    SocketRequest, Supervisor, SupervisorMessage, has_children, is_readable, kill_children, sys,
    wait_any,
};
pub use owners::FileOwners;
pub(super) use plan::ProgramInvocation;
pub use profile::{GitPaths, SandboxFacts, SandboxProfile};
pub use session_folder::temporary_directory;
pub use tables::{SECRET_STORES, STARTUP_FILES};

/// True once `main` has called [`run_if_supervisor`]: only such a binary can be a supervisor.
static CAN_SUPERVISE: AtomicBool = AtomicBool::new(false);

/// Runs the stand-by, supervisor or guard if this process was started as one; returns its exit code. Must be the first
/// call in `main`; without it there is no sandbox.
pub fn run_if_supervisor() -> Option<u8> {
    CAN_SUPERVISE.store(true, Ordering::Relaxed);
    linux::main().or_else(super::service::main)
}

pub(super) fn can_supervise() -> bool {
    CAN_SUPERVISE.load(Ordering::Relaxed)
}

/// The arguments of [`Sandbox::open`].
#[derive(Clone, Debug, Default)]
pub struct SandboxSettings {
    pub backend: Backend,
    pub facts: SandboxFacts,
    /// If false, an impossible `loopback` becomes `off`.
    pub is_network_explicit: bool,
}

/// Why there is no sandbox.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    #[error("no sandbox on this system: {0}")]
    Unavailable(String),
    /// The user configured something that the system does not support.
    #[error("{0}")]
    Impossible(String),
}

/// The sandbox of the commands of one session.
#[derive(Debug)]
pub struct Sandbox {
    facts: SandboxFacts,
    profile: SandboxProfile,
    namespaces: bool,
    guarantees: Guarantees,
    /// Spilled tool output and similar files: readable even inside a hidden directory.
    readable: Vec<PathBuf>,
    closed: Mutex<ClosedPaths>,
    session: OnceCell<SandboxSession>,
    expects_temporary: AtomicBool,
    notified_of_temporary: AtomicBool,
    /// By the network of the commands; the key is `None` without namespaces.
    standbys: Mutex<BTreeMap<Option<Network>, StandbyProcess>>,
}

/// Further paths that rules of the session deny.
#[derive(Debug, Default)]
struct ClosedPaths {
    hidden: Vec<PathBuf>,
    read_only: Vec<PathBuf>,
    reasons: Vec<ClosedPath>,
}

#[derive(Debug)]
pub(super) struct SandboxSession {
    folder: SessionFolder,
    cache: PathBuf,
    sockets: Vec<PathBuf>,
    /// Identities of the hidden files and directories: a rename does not change them.
    hidden_ids: Vec<FileId>,
}

impl Sandbox {
    /// Checks which backend the system permits. Creates nothing.
    pub fn open(settings: SandboxSettings) -> Result<Self, SandboxError> {
        let SandboxSettings { backend, mut facts, is_network_explicit } = settings;
        let unavailable = |why: String| Err(SandboxError::Unavailable(why));
        if !can_supervise() {
            return unavailable("this program cannot supervise commands".to_owned());
        }
        let mut places = std::iter::once(&facts.root).chain(&facts.added);
        if let Some(whole) = places.find(|place| place.parent().is_none()) {
            return unavailable(format!("all of {} would be writable", whole.display()));
        }
        let abi = sys::landlock_abi();
        let probed = match backend {
            Backend::Auto | Backend::Namespaces => linux::mount_proc_in_child()
                .map_err(|error| format!("namespaces, or /proc in them, are refused: {error}")),
            Backend::Landlock => Err("sandbox.backend is \"landlock\"".to_owned()),
        };
        let impossible = |why: String| Err(SandboxError::Impossible(why));
        if let Err(why) = &probed {
            if backend == Backend::Namespaces {
                return impossible(format!("sandbox.backend is \"namespaces\": {why}"));
            }
            if abi == 0 {
                return unavailable(format!("{why}; and no Landlock"));
            }
            if facts.network == Network::Loopback {
                if is_network_explicit {
                    return impossible(format!(
                        "sandbox.network is \"loopback\", which needs a network namespace: {why}; set it to \"off\" \
                         or \"on\""
                    ));
                }
                facts.network = Network::Off;
            }
        }
        if !facts.host_ports.is_empty() && facts.network == Network::Off {
            let because = probed.as_ref().err().map_or(String::new(), |why| format!(": {why}"));
            return impossible(format!(
                "sandbox.host_ports needs sandbox.network = \"loopback\"{because}"
            ));
        }
        let profile = SandboxProfile::new(&facts);
        let mut guarantees = Guarantees {
            backend: match (&probed, abi) {
                (Ok(()), 1..) => "namespaces+landlock+seccomp",
                (Ok(()), _) => "namespaces+seccomp",
                (Err(_), _) => "landlock+seccomp",
            }
            .to_owned(),
            filesystem: "enforced".to_owned(),
            network: profile.network.as_str().to_owned(),
            gaps: Vec::new(),
        };
        if let Err(why) = &probed {
            guarantees.gaps.push(format!("no namespaces: {why}"));
            guarantees.gaps.extend(landlock_gaps(&profile, abi));
            facts.owners = FileOwners::default();
        }
        Ok(Self {
            facts,
            profile,
            namespaces: probed.is_ok(),
            guarantees,
            readable: Vec::new(),
            closed: Mutex::default(),
            session: OnceCell::new(),
            expects_temporary: AtomicBool::new(false),
            notified_of_temporary: AtomicBool::new(false),
            standbys: Mutex::default(),
        })
    }

    /// Makes this directory readable for commands even inside a hidden one.
    #[must_use]
    pub fn with_readable(mut self, directory: &Path) -> Self {
        self.readable.push(directory.to_owned());
        self
    }

    /// The guarantees on this system, and their gaps.
    pub fn guarantees(&self) -> &Guarantees {
        &self.guarantees
    }

    /// The policy of the session.
    pub fn profile(&self) -> &SandboxProfile {
        &self.profile
    }

    pub(super) fn variables(&self) -> Vec<(OsString, OsString)> {
        let cache = self.session.get().map_or(&self.facts.cache, |session| &session.cache);
        let is_private = self.namespaces && layout::is_directory(Path::new("/tmp"));
        let temporary = if is_private { Path::new("/tmp") } else { &self.facts.temporary };
        let temporary = (OsString::from("TMPDIR"), OsString::from(temporary));
        let caches = tables::CACHES.iter();
        let caches = caches.map(|(name, folder)| ((*name).into(), cache.join(folder).into()));
        std::iter::once(temporary).chain(caches).collect()
    }

    /// Returns the supervisor, output and error output. Must be awaited in a runtime.
    pub(super) async fn start(
        &self,
        run: ProgramInvocation,
        rights: CommandRights,
        report: Option<BorrowedFd<'_>>,
    ) -> io::Result<(Supervisor, OwnedFd, OwnedFd)> {
        let session = self.prepare().await?;
        let (stdout, their_stdout) = io::pipe()?;
        let (stderr, their_stderr) = io::pipe()?;
        let descriptors: Vec<BorrowedFd<'_>> =
            [their_stdout.as_fd(), their_stderr.as_fd()].into_iter().chain(report).collect();
        let network = self.command_profile(rights).network;
        let supervisor = self.with_standby(network, |standby| {
            standby
                .fork_supervisor(&descriptors, || layout::plan_command(self, session, rights, run))
        });
        let supervisor = supervisor.map_err(|error| {
            io::Error::new(error.kind(), format!("its supervisor could not be started: {error}"))
        })?;
        Ok((supervisor, stdout.into(), stderr.into()))
    }

    pub(super) async fn prepare(&self) -> io::Result<&SandboxSession> {
        self.session.get_or_try_init(async || self.make_session()).await
    }

    fn make_session(&self) -> io::Result<SandboxSession> {
        let folder = SessionFolder::create(&self.facts.temporary)?;
        let cache = match disk::create_folder_all(&self.facts.cache, 0o755) {
            Ok(_) => self.facts.cache.clone(),
            Err(_) => folder.path.join(session_folder::CACHE),
        };
        // The home may be the project: a command must not create the agent's own configuration.
        let places = [&self.facts.root].into_iter().chain(&self.facts.added);
        for own in &self.facts.own {
            if places.clone().any(|place| own.starts_with(place)) {
                disk::create_folder_all(own, 0o700)?;
            }
        }
        let hidden = &self.profile.hidden;
        let sockets = if self.namespaces { layout::service_sockets() } else { Vec::new() };
        Ok(SandboxSession { folder, cache, sockets, hidden_ids: file_ids(hidden) })
    }

    /// A reader of this text misses files that are left in the private `/tmp`, if it names that.
    pub(super) fn add_reader(&self, text: &str) {
        self.expects_temporary.fetch_or(text.contains("/tmp"), Ordering::Relaxed);
    }

    /// Once in a session, where somebody misses them: files that commands left in `/tmp` are private to it.
    pub(super) fn notice_of_temporary_files(&self) -> Option<String> {
        let is_due = self.namespaces && self.expects_temporary.load(Ordering::Relaxed);
        if !is_due || self.notified_of_temporary.load(Ordering::Relaxed) {
            return None;
        }
        let file = self.session.get()?.folder.first_temporary_file()?;
        self.notified_of_temporary.store(true, Ordering::Relaxed);
        Some(format!(
            "/tmp is private to this session and removed at its end, so {} exists only for its commands in the \
             sandbox; write what has to stay into the project",
            Path::new("/tmp").join(file).display()
        ))
    }

    fn with_standby<T>(
        &self,
        network: Network,
        question: impl FnOnce(&mut StandbyProcess) -> io::Result<T>,
    ) -> io::Result<T> {
        let mut standbys = self.standbys.lock();
        // Another process may have ended the stand-by.
        standbys.retain(|_, standby| matches!(standby.process.try_wait(), Ok(None)));
        let network = self.namespaces.then_some(network);
        question(match standbys.entry(network) {
            Entry::Occupied(running) => running.into_mut(),
            Entry::Vacant(place) => {
                let session = self.session.get().ok_or(io::ErrorKind::NotConnected)?;
                let (folder, writable) = (&session.folder.path, &self.profile.writable);
                place.insert(StandbyProcess::start(network, folder, writable)?)
            }
        })
    }

    pub(super) fn create_socket(&self, socket: SocketRequest, port: u16) -> io::Result<OwnedFd> {
        self.with_standby(Network::Loopback, |standby| standby.create_socket(socket, port))
    }

    pub(super) fn listening_ports(&self) -> Vec<u16> {
        let standbys = self.standbys.lock();
        let standby = standbys.get(&Some(Network::Loopback));
        standby.map_or_else(Vec::new, |standby| linux::listening_ports(standby.process.id()))
    }

    pub(super) fn has_private_localhost(&self, rights: CommandRights) -> bool {
        self.namespaces && !rights.network && self.profile.network == Network::Loopback
    }

    pub(super) fn refused_connections(&self) -> u64 {
        let standbys = self.standbys.lock();
        let standby = standbys.get(&Some(Network::Loopback));
        standby.map_or(0, |standby| linux::refused_connections(standby.process.id()))
    }

    /// Applies from the next command on, to paths that exist.
    pub(super) fn close_paths(
        &self,
        hidden: Vec<(PathBuf, String)>,
        read_only: Vec<(PathBuf, String)>,
    ) {
        let real = |paths: &[(PathBuf, String)]| {
            paths.iter().filter_map(|(path, _)| disk::resolve_existing(path)).collect()
        };
        let mut closed = self.closed.lock();
        (closed.hidden, closed.read_only) = (real(&hidden), real(&read_only));
        closed.reasons.clear();
        for (path, reason) in hidden.into_iter().chain(read_only) {
            closed.reasons.push(ClosedPath { path: disk::canonical_prefix(&path), reason });
        }
    }

    fn command_profile(&self, rights: CommandRights) -> SandboxProfile {
        let mut profile = self.profile.clone();
        let closed = self.closed.lock();
        profile.hidden.extend_from_slice(&closed.hidden);
        profile.read_only.extend_from_slice(&closed.read_only);
        profile.apply_rights(rights, &self.facts);
        profile
    }

    /// What is mounted read-only for a command inside of what it can write; at least the agent's own folder. Nothing without
    /// namespaces, where a command can change modes of files.
    pub(super) fn read_only_mounts(&self, rights: CommandRights) -> Vec<PathBuf> {
        if self.namespaces { self.command_profile(rights).read_only } else { Vec::new() }
    }

    /// A guard of the repositories that commands can write.
    pub(super) fn git_guard(&self, keep: ContentKeeper) -> GitGuard {
        let SandboxFacts { root, added, git, homes, cache, .. } = &self.facts;
        // Commands of other sessions wrote in their caches and copies: the agent's folder has `projects` and `worktrees`.
        let of_projects = cache.parent().filter(|projects| projects.ends_with("projects"));
        let caches = of_projects.and_then(Path::parent).map(Path::to_owned);
        let user_settings =
            homes.iter().flat_map(|home| tables::USER_SETTINGS.map(|it| home.join(it)));
        let places = GuardPlaces {
            roots: std::iter::once(root).chain(added).cloned().collect(),
            git_directories: git.directories.clone(),
            writable: self.profile.writable.iter().cloned().chain(caches).collect(),
            user_settings: user_settings.collect(),
        };
        GitGuard::new(places, keep)
    }

    /// The refused path or right and how to allow it; `None` if `stderr` shows no refusal by the sandbox.
    pub(super) fn explain_refusal(
        &self,
        stderr: &str,
        directory: &Path,
        rights: CommandRights,
    ) -> Option<String> {
        let mut profile = self.command_profile(rights);
        if !self.namespaces {
            profile.read_only.clear();
        }
        let closed = self.closed.lock();
        refusal::explain_refusal(stderr, directory, &profile, &self.facts, &closed.reasons, rights)
    }
}

fn file_ids(paths: &[PathBuf]) -> Vec<FileId> {
    let id = |path: &PathBuf| {
        let metadata = fs::symlink_metadata(path).ok()?;
        Some((metadata.dev(), metadata.ino()))
    };
    paths.iter().filter_map(id).collect()
}

fn landlock_gaps(profile: &SandboxProfile, abi: i32) -> impl Iterator<Item = String> {
    let is_inside = |hidden: &PathBuf| profile.writable.iter().any(|it| hidden.starts_with(it));
    let has_inside = profile.hidden.iter().any(|hidden| is_inside(hidden) && hidden.exists());
    let gaps = [
        (true, ".git (with hooks and configuration) and .agent can be written"),
        (true, "mode, owner and times of the user's own files outside can be changed"),
        (true, "sockets of local services (docker, ssh-agent, dbus) can be connected to"),
        (true, "names in directories of secrets can be listed, their content not read"),
        (abi < 2, "files cannot be moved between directories (kernel before 5.19)"),
        (abi < 3, "files outside can be truncated (kernel before 6.2)"),
        (abi < 5, "ioctl requests to devices that can be opened pass (kernel before 6.10)"),
        (abi < 6, "the user's other processes can be sent signals (kernel before 6.12)"),
        (
            has_inside,
            "hidden files in writable directories can be overwritten, not read; what a command creates directly beside \
             them only later commands can read",
        ),
    ];
    gaps.into_iter().filter(|(applies, _)| *applies).map(|(_, gap)| gap.to_owned())
}

/// The user's canonical home directories, by the environment and by the system.
pub fn home_directories() -> Vec<PathBuf> {
    let user = nix::unistd::User::from_uid(nix::unistd::getuid());
    let of_system = user.ok().flatten().map(|user| user.dir);
    let of_environment = std::env::var_os("HOME").map(PathBuf::from);
    let mut homes = existing_folders(of_environment.into_iter().chain(of_system));
    homes.dedup();
    homes
}

/// The canonical home directories of all users in the system's table.
pub fn all_home_directories() -> Vec<PathBuf> {
    let table = fs::read_to_string("/etc/passwd").unwrap_or_default();
    existing_folders(table.lines().filter_map(|user| user.split(':').nth(5)).map(PathBuf::from))
}

fn existing_folders(named: impl Iterator<Item = PathBuf>) -> Vec<PathBuf> {
    let real = named.filter_map(|path| disk::resolve_existing(&path));
    real.filter(|path| path.parent().is_some()).collect()
}
