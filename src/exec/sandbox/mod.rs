//! What holds a command: namespaces, Landlock and seccomp, set up by our own binary started again
//! between the agent and bash.
//!
//! A [`Sandbox`] is tried once, when it is opened, and says what holds here ([`Sandbox::holds`]). What
//! it does not say is not promised; `docs/SECURITY.md` is the whole of it.

mod channel;
mod confine;
mod folder;
mod git;
mod layout;
mod mounts;
mod plan;
mod refusal;
mod settings;
mod supervisor;
mod sys;
mod tables;
mod watch;

use std::ffi::OsString;
use std::fs;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::protocol::event::Sandbox as Holds;
use folder::Folder;

pub(super) use channel::{Message, Supervisor};
pub(super) use watch::Watch;

/// How long the first try may take.
const TRY_TIME: Duration = Duration::from_secs(5);

/// This process's own binary can be the supervisor: it looked whether it is one.
static CAN_SUPERVISE: AtomicBool = AtomicBool::new(false);

/// To be called first thing in `main`: if this process was started to be a supervisor, it is one, and
/// this is its exit code. A program that does not call it has no sandbox.
pub fn supervise() -> Option<u8> {
    CAN_SUPERVISE.store(true, Ordering::Relaxed);
    supervisor::main()
}

/// What enforces it.
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

/// What of the network a command has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Network {
    /// Nothing.
    #[default]
    Off,
    /// A loopback interface of its own.
    Loopback,
    /// What the user has.
    On,
}

/// What a sandbox is to be.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// What enforces it.
    pub backend: Backend,
    /// What of the network commands have that were not given more.
    pub network: Network,
    /// The project's root, canonical.
    pub root: PathBuf,
    /// More folders that commands may write.
    pub writable: Vec<PathBuf>,
    /// More that commands may not read: our own configuration.
    pub hidden: Vec<PathBuf>,
    /// Where build caches are kept, for this project.
    pub cache: Option<PathBuf>,
}

/// Why there is no sandbox although there should be.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// Neither namespaces nor Landlock.
    #[error("no sandbox on this system: {0}")]
    Unavailable(String),
    /// What was asked for in particular is not possible.
    #[error("{0}")]
    Impossible(String),
}

/// What a command gets besides.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Grants {
    /// It may change the repository itself.
    pub(super) git: bool,
    /// It has the user's network.
    pub(super) network: bool,
    /// It writes nothing but its private temporary folder.
    pub(super) read_only: bool,
}

/// The box of the commands of one session.
#[derive(Debug)]
pub struct Sandbox {
    settings: Settings,
    /// Every place that commands may write, outermost first; canonical.
    writable: Vec<PathBuf>,
    homes: Vec<PathBuf>,
    namespaces: bool,
    folder: Folder,
    holds: Holds,
    /// The user and the network namespace of the session.
    session: Option<Namespaces>,
    /// Found when the first command needs them.
    repositories: OnceLock<Vec<git::Repository>>,
    sockets: OnceLock<Vec<PathBuf>>,
}

/// What the commands of a session share.
#[derive(Debug)]
struct Namespaces {
    user: Option<OwnedFd>,
    network: OwnedFd,
}

impl Sandbox {
    /// Tries what holds here, and opens the best of it.
    pub fn open(settings: Settings) -> Result<Self, SandboxError> {
        let unavailable = |why: &str| SandboxError::Unavailable(why.to_owned());
        if !CAN_SUPERVISE.load(Ordering::Relaxed) {
            return Err(unavailable("this program can not supervise commands"));
        }
        let writable = writable(&settings);
        if let Some(whole) = writable.iter().find(|path| path.parent().is_none()) {
            let whole = whole.display();
            return Err(SandboxError::Unavailable(format!("all of {whole} would be writable")));
        }
        let folder = Folder::make().map_err(|error| {
            SandboxError::Unavailable(format!("no private temporary folder: {error}"))
        })?;
        let mut sandbox = Self {
            homes: homes(),
            writable,
            namespaces: settings.backend != Backend::Landlock,
            folder,
            holds: Holds::none(),
            session: None,
            repositories: OnceLock::new(),
            sockets: OnceLock::new(),
            settings,
        };
        let abi = sys::landlock_abi();
        let tried = match sandbox.settings.backend {
            Backend::Auto | Backend::Namespaces => sandbox.attempt().map(|session| {
                sandbox.session = session;
            }),
            Backend::Landlock => Err("sandbox.backend is \"landlock\"".to_owned()),
        };
        if let Err(why) = &tried {
            if sandbox.settings.backend == Backend::Namespaces {
                return Err(SandboxError::Impossible(format!(
                    "sandbox.backend is \"namespaces\": {why}"
                )));
            }
            if sandbox.settings.network == Network::Loopback {
                return Err(SandboxError::Impossible(format!(
                    "sandbox.network is \"loopback\", which needs a network namespace: {why}; set it \
                     to \"off\" or \"on\""
                )));
            }
            sandbox.namespaces = false;
            if abi == 0 {
                return Err(SandboxError::Unavailable(format!("{why}; and no Landlock")));
            }
            let tried = sandbox.attempt();
            tried.map_err(|error| SandboxError::Unavailable(format!("{why}; {error}")))?;
        }
        sandbox.holds = sandbox.describe(abi, tried.err().as_deref());
        Ok(sandbox)
    }

    /// What is enforced here, and what is open.
    pub fn holds(&self) -> &Holds {
        &self.holds
    }

    /// Variables of every command: its temporary folder, and caches that can be written.
    pub(super) fn variables(&self) -> Vec<(OsString, OsString)> {
        let mut variables =
            vec![(OsString::from("TMPDIR"), OsString::from(self.temporary_folder()))];
        let cache = self.cache();
        for (name, folder) in tables::CACHES {
            variables.push((name.into(), cache.join(folder).into()));
        }
        variables
    }

    /// What of the session the supervisor of a command is to inherit, under the numbers that they have:
    /// copies would have others.
    pub(super) fn inherited(&self, grants: Grants) -> impl Iterator<Item = BorrowedFd<'_>> {
        let session = self.session_for(self.network(grants)).into_iter();
        session.flat_map(|own| own.user.iter().chain([&own.network])).map(|own| own.as_fd())
    }

    /// Tells a supervisor that was started the box of its command.
    pub(super) fn prepare(
        &self,
        directory: &Path,
        grants: Grants,
        report: Option<i32>,
        channel: &mut UnixStream,
    ) -> std::io::Result<Watch> {
        let network = self.network(grants);
        // A tool that finds its cache missing makes it; a folder that is bound must be there.
        _ = fs::create_dir_all(self.cache());
        let protected = self.protected();
        let plan = self.plan(directory, grants, network, report, &protected);
        let repositories = self.repositories().iter().filter(|_| grants.git);
        let settings = repositories.flat_map(|r| r.settings.clone()).collect();
        let watch = Watch::new(self.watched(protected, grants), !self.namespaces, settings);
        plan.write(channel)?;
        Ok(watch)
    }

    fn network(&self, grants: Grants) -> Network {
        if grants.network { Network::On } else { self.settings.network }
    }

    /// What stderr says of the box, in words: the path that was refused, and how it can be allowed.
    pub(super) fn explain(&self, stderr: &str, directory: &Path, grants: Grants) -> Option<String> {
        if stderr.is_empty() {
            return None;
        }
        let network = self.network(grants);
        let hidden = self.hidden();
        let view = refusal::View {
            read_only: grants.read_only,
            namespaces: self.namespaces,
            writable: &self.all_writable(),
            hidden: &hidden,
            protected: &self.protected(),
            network,
        };
        refusal::explain(stderr, directory, &view)
    }

    /// Runs nothing in the box, and says whether it holds; then with the namespaces of the session.
    fn attempt(&self) -> Result<Option<Namespaces>, String> {
        let text = |error: std::io::Error| error.to_string();
        _ = fs::create_dir_all(self.cache());
        let root = self.settings.root.clone();
        let mut plan = self.plan(&root, Grants::default(), self.settings.network, None, &[]);
        plan.only_tries = true;
        let (mut ours, theirs) = UnixStream::pair().map_err(text)?;
        #[expect(
            clippy::disallowed_methods,
            reason = "it starts the supervisor, which starts nothing and ends"
        )]
        let mut command = std::process::Command::new("/proc/self/exe");
        command
            .args(supervisor_arguments(&theirs))
            .env_clear()
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let mut child = super::inheriting(&[theirs.as_fd()], || command.spawn()).map_err(text)?;
        drop(theirs);
        plan.write(&mut ours).map_err(text)?;
        let message = channel::verdict(&mut ours, TRY_TIME);
        let session = self.namespaces.then(|| namespaces_of(child.id())).flatten();
        drop(ours);
        _ = child.wait();
        match message {
            Message::Exited { status: 0, .. } => Ok(session),
            Message::Failed(why) => Err(why),
            Message::Exited { .. } | Message::Shell(_) | Message::Gone => {
                Err("the supervisor ended early".to_owned())
            }
        }
    }

    fn describe(&self, abi: i32, refused: Option<&str>) -> Holds {
        let parts = [
            self.namespaces.then_some("namespaces"),
            (abi > 0).then_some("landlock"),
            Some("seccomp"),
        ];
        let network = match self.settings.network {
            Network::Off => "off",
            Network::Loopback => "loopback",
            Network::On => "on",
        };
        let mut gaps: Vec<String> = Vec::new();
        let mut gap = |is_open: bool, text: &str| {
            if is_open {
                gaps.push(text.to_owned());
            }
        };
        if let Some(why) = refused {
            gap(true, &format!("no namespaces: {why}"));
            gap(true, "chmod, chown and utime of the user's own files outside are possible");
            gap(true, ".git and .agent can be written: a change is reported, not prevented");
            gap(true, "sockets of local services (docker, ssh-agent, dbus) can be connected to");
            gap(true, "names in folders of secrets can be listed, their content not read");
            gap(true, "in mode read-only, mode and times of the user's own files can be changed");
            gap(abi < 2, "files can not be moved between folders (kernel before 5.19)");
            gap(abi < 3, "files outside can be truncated (kernel before 6.2)");
            gap(abi < 6, "the user's other processes can be sent signals (kernel before 6.12)");
        }
        Holds {
            backend: parts.into_iter().flatten().collect::<Vec<_>>().join("+"),
            filesystem: "enforced".to_owned(),
            network: network.to_owned(),
            gaps,
        }
    }
}

/// The user and the network namespace of a supervisor, where they are its own.
fn namespaces_of(pid: u32) -> Option<Namespaces> {
    let own = |kind: &str| fs::metadata(format!("/proc/self/ns/{kind}")).ok().map(|ns| ns.ino());
    let open = |kind: &str| {
        let namespace = fs::File::open(format!("/proc/{pid}/ns/{kind}")).ok()?;
        let is_own = Some(namespace.metadata().ok()?.ino()) == own(kind);
        (!is_own).then(|| OwnedFd::from(namespace))
    };
    Some(Namespaces { user: open("user"), network: open("net")? })
}

/// The first arguments of a supervisor.
pub(super) fn supervisor_arguments(channel: &UnixStream) -> [String; 2] {
    [supervisor::WORD.to_owned(), channel.as_raw_fd().to_string()]
}

/// The places that commands may write, canonical, without those inside others.
fn writable(settings: &Settings) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = std::iter::once(&settings.root)
        .chain(&settings.writable)
        .filter_map(|path| path.canonicalize().ok())
        .filter(|path| path.is_dir())
        .collect();
    paths.sort();
    // The outer one sorts first.
    paths.dedup_by(|inner, outer| inner.starts_with(outer));
    paths
}

/// The user's home as the environment names it, and as the system does.
fn homes() -> Vec<PathBuf> {
    let uid = rustix::process::getuid().as_raw().to_string();
    let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let of_system = users.lines().find_map(|line| {
        let fields: Vec<&str> = line.split(':').collect();
        (fields.get(2) == Some(&uid.as_str())).then(|| fields.get(5).map(PathBuf::from))?
    });
    let of_environment = std::env::var_os("HOME").map(PathBuf::from);
    let mut homes: Vec<PathBuf> = of_environment
        .into_iter()
        .chain(of_system)
        .filter_map(|home| home.canonicalize().ok())
        .filter(|home| home.parent().is_some())
        .collect();
    homes.dedup();
    homes
}
