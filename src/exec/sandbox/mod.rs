//! The operating-system sandbox of commands: namespaces, Landlock and seccomp.
//!
//! [`Sandbox::open`] only checks which backend the system permits. Everything else is prepared when the first command
//! starts: a private directory, a stand-by process and the session's namespaces. `docs/SECURITY.md` lists the guarantees.

mod channel;
mod confine;
mod folder;
mod git_guard;
mod layout;
mod mounts;
mod plan;
mod probe;
mod profile;
mod refusal;
mod sockets;
mod standby;
mod supervisor;
mod sys;
mod tables;

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::OnceCell;

use super::ClosedPath;
use crate::disk;
use crate::protocol::event::Sandbox as Guarantees;
use crate::protocol::tool::Rights;
use folder::Folder;
use git_guard::GitGuard;
use plan::{FileId, Plan};
use sockets::SocketHelper;
use standby::{Request, Standby};

pub(super) use channel::{Message, Supervisor};
pub use folder::temporary_directory;
pub(super) use git_guard::GitGuard as Guard;
pub(super) use plan::Run;
pub use profile::{Facts, GitPaths, Profile};
pub(super) use sockets::Socket;
pub use tables::{SECRET_STORES, STARTUP_FILES};

/// How long a supervisor may take to receive its plan.
const PLAN_TIME: Duration = Duration::from_secs(5);

/// Set once `main` has called [`supervise`]: this program's binary can be a supervisor.
static CAN_SUPERVISE: AtomicBool = AtomicBool::new(false);

/// Must be the first call in `main`. If this process was started as a stand-by or supervisor, runs it and returns its exit
/// code. A program that does not call this has no sandbox.
pub fn supervise() -> Option<u8> {
    CAN_SUPERVISE.store(true, Ordering::Relaxed);
    supervisor::main()
}

/// What enforces the profile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Backend {
    /// Namespaces where the system permits them, else Landlock.
    #[default]
    Auto,
    /// Namespaces, or an error.
    Namespaces,
    /// Landlock and seccomp alone.
    Landlock,
}

/// The network of commands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Network {
    /// None.
    #[default]
    Off,
    /// A loopback interface that the commands of a session share.
    Loopback,
    /// The network of the user.
    On,
}

impl Network {
    /// Its name in the configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Loopback => "loopback",
            Self::On => "on",
        }
    }
}

/// What [`Sandbox::open`] needs.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// What enforces the profile.
    pub backend: Backend,
    /// The profile is computed from these.
    pub facts: Facts,
    /// The user configured the network; without that, an impossible `loopback` becomes `off`.
    pub is_network_explicit: bool,
}

/// Why there is no sandbox.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// The system permits neither namespaces nor Landlock.
    #[error("no sandbox on this system: {0}")]
    Unavailable(String),
    /// The user configured something that is impossible here.
    #[error("{0}")]
    Impossible(String),
}

/// A command that was started.
pub(super) struct Started {
    pub(super) supervisor: Supervisor,
    pub(super) stdout: OwnedFd,
    pub(super) stderr: OwnedFd,
}

/// The sandbox of the commands of one session.
#[derive(Debug)]
pub struct Sandbox {
    facts: Facts,
    profile: Profile,
    namespaces: bool,
    guarantees: Guarantees,
    /// Spilled tool output: readable although it lies in a hidden directory.
    readable: Option<PathBuf>,
    /// What rules of the session close besides: hidden paths, and read-only ones.
    closed: Mutex<(Vec<PathBuf>, Vec<PathBuf>)>,
    session: OnceCell<Session>,
    /// Supervisors are forked from it. It is started by the first command, and again if it has ended.
    standby: Mutex<Option<Standby>>,
}

/// What the first command prepares.
#[derive(Debug)]
struct Session {
    folder: Folder,
    /// Where build tools keep their caches.
    cache: PathBuf,
    /// The profile's hidden paths and the sockets of local services.
    hidden: Vec<PathBuf>,
    /// Identities of the hidden files and directories: they keep these if a command renames them.
    hidden_ids: Vec<FileId>,
    /// What its commands share: the user namespace, which root may not have, and the network namespace.
    namespaces: Vec<OwnedFd>,
    /// Makes sockets inside the network namespace.
    sockets: Option<Mutex<SocketHelper>>,
}

impl Sandbox {
    /// Checks which backend the system permits. Nothing is created.
    pub fn open(settings: Settings) -> Result<Self, SandboxError> {
        let Settings { backend, mut facts, is_network_explicit } = settings;
        let unavailable = |why: String| Err(SandboxError::Unavailable(why));
        if !CAN_SUPERVISE.load(Ordering::Relaxed) {
            return unavailable("this program cannot supervise commands".to_owned());
        }
        let mut places = std::iter::once(&facts.root).chain(&facts.added);
        if let Some(whole) = places.find(|place| place.parent().is_none()) {
            return unavailable(format!("all of {} would be writable", whole.display()));
        }
        let abi = sys::landlock_abi();
        let probed = match backend {
            Backend::Auto | Backend::Namespaces => probe::namespaces(),
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
        let profile = Profile::new(&facts);
        let namespaces = probed.is_ok();
        let guarantees = guarantees(&profile, abi, probed.err().as_deref());
        Ok(Self {
            facts,
            profile,
            namespaces,
            guarantees,
            readable: None,
            closed: Mutex::default(),
            session: OnceCell::new(),
            standby: Mutex::default(),
        })
    }

    /// Commands can read this directory although it may lie in a hidden one.
    #[must_use]
    pub fn with_readable(mut self, directory: &Path) -> Self {
        self.readable = Some(directory.to_owned());
        self
    }

    /// What is enforced here, and the gaps.
    pub fn guarantees(&self) -> &Guarantees {
        &self.guarantees
    }

    /// The policy.
    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    /// The variables of every command: its temporary directory and caches that can be written.
    pub(super) fn variables(&self) -> Vec<(OsString, OsString)> {
        let cache = self.session.get().map_or(&self.facts.cache, |session| &session.cache);
        let temporary = (OsString::from("TMPDIR"), OsString::from(self.temporary_directory()));
        let caches = tables::CACHES.iter();
        let caches = caches.map(|(name, folder)| ((*name).into(), cache.join(folder).into()));
        std::iter::once(temporary).chain(caches).collect()
    }

    /// Prepares what all commands of the session share, once.
    pub(super) async fn prepare(&self) -> io::Result<()> {
        self.session().await.map(drop)
    }

    /// Starts a command. Must be awaited in a runtime; if this future is dropped, nothing has run.
    pub(super) async fn start(
        &self,
        run: Run,
        rights: Rights,
        report: Option<BorrowedFd<'_>>,
    ) -> io::Result<Started> {
        let session = self.session().await?;
        let (stdout, their_stdout) = io::pipe()?;
        let (stderr, their_stderr) = io::pipe()?;
        let network = self.network(rights);
        let shared = session.namespaces.iter().filter(|_| network == self.profile.network);
        let descriptors: Vec<BorrowedFd<'_>> = [their_stdout.as_fd(), their_stderr.as_fd()]
            .into_iter()
            .chain(report)
            .chain(shared.map(|namespace| namespace.as_fd()))
            .collect();
        // The supervisor is forked while its plan is computed.
        let request = self.request(&descriptors)?;
        let plan = layout::plan(self, session, Some(run), rights);
        let supervisor = self.send_plan(request, &plan).await?;
        Ok(Started { supervisor, stdout: stdout.into(), stderr: stderr.into() })
    }

    async fn session(&self) -> io::Result<&Session> {
        self.session.get_or_try_init(|| self.make_session()).await
    }

    async fn make_session(&self) -> io::Result<Session> {
        let folder = Folder::make(&self.facts.temporary)?;
        let cache = match disk::make_folder(&self.facts.cache, 0o755) {
            Ok(_) => self.facts.cache.clone(),
            Err(_) => folder.cache(),
        };
        // The home may be the project: a command must not create the agent's own configuration.
        let places = [&self.facts.root].into_iter().chain(&self.facts.added);
        for own in &self.facts.own {
            if places.clone().any(|place| own.starts_with(place)) {
                disk::make_folder(own, 0o700)?;
            }
        }
        let mut hidden = self.profile.hidden.clone();
        if self.namespaces {
            hidden.extend(layout::service_sockets(&hidden));
        }
        let hidden_ids = file_ids(&hidden);
        let mut session =
            Session { folder, cache, hidden, hidden_ids, namespaces: Vec::new(), sockets: None };
        if self.namespaces && self.profile.network != Network::On {
            let plan = layout::plan(self, &session, None, Rights::default());
            let mut supervisor = self.send_plan(self.request(&[])?, &plan).await?;
            match supervisor.next().await {
                Message::Ready => {}
                Message::Failed(why) => return Err(io::Error::other(why)),
                _ => return Err(io::Error::other("its supervisor ended early")),
            }
            session.namespaces = namespaces_of(supervisor.process.pid());
            if self.profile.network == Network::Loopback {
                session.sockets = Some(Mutex::new(SocketHelper::new(supervisor)?));
            }
        }
        Ok(session)
    }

    /// A socket inside the session's network namespace. `None`: there is none, or no command has run yet.
    pub(super) fn socket(&self, socket: Socket) -> Option<io::Result<OwnedFd>> {
        self.sockets().map(|mut sockets| sockets.socket(socket))
    }

    /// The TCP ports on which commands of the session listen now.
    pub(super) fn listening_ports(&self) -> Vec<u16> {
        self.sockets().map_or_else(Vec::new, |sockets| sockets.listening_ports())
    }

    fn sockets(&self) -> Option<MutexGuard<'_, SocketHelper>> {
        self.session.get()?.sockets.as_ref().map(lock)
    }

    /// Asks the stand-by for a supervisor that inherits these descriptors.
    fn request<'a>(&'a self, descriptors: &'a [BorrowedFd<'a>]) -> io::Result<Request<'a>> {
        // A concurrent request finds none and starts another; one of the two is kept.
        let standby = lock(&self.standby).take();
        Request::new(standby, descriptors, &self.profile.writable)
    }

    async fn send_plan(&self, request: Request<'_>, plan: &Plan) -> io::Result<Supervisor> {
        let started = request.answer().await.and_then(|(standby, mut channel, process)| {
            *lock(&self.standby) = Some(standby);
            channel.set_write_timeout(Some(PLAN_TIME))?;
            plan.write(&mut channel)?;
            Supervisor::new(channel, process)
        });
        started.map_err(|error| {
            io::Error::new(error.kind(), format!("its supervisor could not be started: {error}"))
        })
    }

    /// From the next command on these paths are hidden or read-only as well, as far as they exist.
    pub(super) fn close(&self, hidden: &[PathBuf], read_only: &[PathBuf]) {
        let real = |paths: &[PathBuf]| paths.iter().filter_map(|path| disk::real(path)).collect();
        *lock(&self.closed) = (real(hidden), real(read_only));
    }

    fn network(&self, rights: Rights) -> Network {
        if rights.network { Network::On } else { self.profile.network }
    }

    /// TMPDIR as commands see it.
    fn temporary_directory(&self) -> &Path {
        let shared = Path::new("/tmp");
        if self.namespaces && layout::is_directory(shared) { shared } else { &self.facts.temporary }
    }

    /// Remembers what a writing command must not change in git directories.
    pub(super) fn guard(&self) -> GitGuard {
        GitGuard::before(&self.facts.git.directories)
    }

    /// Why the sandbox made a command fail, if its error output says so.
    pub(super) fn explain(
        &self,
        stderr: &str,
        directory: &Path,
        rights: Rights,
        closed: &[ClosedPath],
    ) -> Option<String> {
        let profile = &self.profile;
        let view = refusal::View {
            writable: if rights.read_only {
                std::slice::from_ref(&self.facts.temporary)
            } else {
                &profile.writable
            },
            is_read_only: rights.read_only,
            read_only: if self.namespaces { &profile.read_only } else { &[] },
            git: if rights.git_config { &[] } else { &self.facts.git.settings },
            hidden: &profile.hidden,
            closed,
            network: self.network(rights),
        };
        refusal::explain(stderr, directory, &view)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Device and inode of those that exist.
fn file_ids(paths: &[PathBuf]) -> Vec<plan::FileId> {
    let id = |path: &PathBuf| {
        let metadata = fs::symlink_metadata(path).ok()?;
        Some((metadata.dev(), metadata.ino()))
    };
    paths.iter().filter_map(id).collect()
}

/// The user and the network namespace of a process, where they are not this process's.
fn namespaces_of(pid: i32) -> Vec<OwnedFd> {
    let open = |kind: &str| {
        let namespace = fs::File::open(format!("/proc/{pid}/ns/{kind}")).ok()?;
        let own = fs::metadata(format!("/proc/self/ns/{kind}")).ok()?;
        (namespace.metadata().ok()?.ino() != own.ino()).then(|| OwnedFd::from(namespace))
    };
    open("net").map_or_else(Vec::new, |network| open("user").into_iter().chain([network]).collect())
}

/// What is enforced with this Landlock version; `refused` says why there are no namespaces.
fn guarantees(profile: &Profile, abi: i32, refused: Option<&str>) -> Guarantees {
    let mut gaps: Vec<String> = Vec::new();
    if let Some(why) = refused {
        gaps.push(format!("no namespaces: {why}"));
        let always = [
            ".git (with hooks and configuration) and .agent can be written",
            "mode, owner and times of the user's own files outside can be changed",
            "sockets of local services (docker, ssh-agent, dbus) can be connected to",
            "names in directories of secrets can be listed, their content not read",
        ];
        gaps.extend(always.map(str::to_owned));
        let older = [
            (2, "files cannot be moved between directories (kernel before 5.19)"),
            (3, "files outside can be truncated (kernel before 6.2)"),
            (5, "ioctl requests to devices that can be opened pass (kernel before 6.10)"),
            (6, "the user's other processes can be sent signals (kernel before 6.12)"),
        ];
        let older = older.iter().filter(|(since, _)| abi < *since);
        gaps.extend(older.map(|(_, gap)| (*gap).to_owned()));
        let is_inside = |hidden: &PathBuf| profile.writable.iter().any(|it| hidden.starts_with(it));
        if profile.hidden.iter().any(|hidden| is_inside(hidden) && hidden.exists()) {
            gaps.push(
                "hidden files in writable directories can be overwritten, not read; what a command creates directly \
                 beside them only later commands can read"
                    .to_owned(),
            );
        }
    }
    Guarantees {
        backend: match (refused, abi) {
            (None, 1..) => "namespaces+landlock+seccomp",
            (None, _) => "namespaces+seccomp",
            (Some(_), _) => "landlock+seccomp",
        }
        .to_owned(),
        filesystem: "enforced".to_owned(),
        network: profile.network.as_str().to_owned(),
        gaps,
    }
}

/// The user's home directories: as the environment names it, and as the system does. Canonical.
pub fn homes() -> Vec<PathBuf> {
    let uid = rustix::process::getuid().as_raw().to_string();
    let users = fs::read("/etc/passwd").unwrap_or_default();
    let of_system = users.split(|byte| *byte == b'\n').find_map(|line| {
        let fields: Vec<&[u8]> = line.split(|byte| *byte == b':').collect();
        let is_own = fields.get(2) == Some(&uid.as_bytes());
        is_own.then(|| fields.get(5).map(|home| PathBuf::from(OsStr::from_bytes(home))))?
    });
    let of_environment = std::env::var_os("HOME").map(PathBuf::from);
    let mut homes: Vec<PathBuf> = of_environment
        .into_iter()
        .chain(of_system)
        .filter_map(|home| disk::real(&home))
        .filter(|home| home.parent().is_some())
        .collect();
    homes.dedup();
    homes
}
