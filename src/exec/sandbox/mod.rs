//! What holds a command: namespaces, Landlock and seccomp, set up by a copy of our own binary between the
//! agent and bash.
//!
//! A [`Sandbox`] is tried once, when it is opened, and says what holds here ([`Sandbox::holds`]). What
//! it does not say is not promised; `docs/SECURITY.md` is the whole of it.

mod channel;
mod confine;
mod folder;
mod git;
mod index;
mod layout;
mod mounts;
mod plan;
mod readable;
mod refusal;
mod remotes;
mod settings;
mod standby;
mod supervisor;
mod sys;
mod tables;
mod traps;
mod watch;

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::process::Watcher;
use super::{GitWork, Pushes};
use crate::disk;
use crate::protocol::event::Sandbox as Holds;
use folder::Folder;
use git::{Places, Repository};
use plan::Plan;
use readable::{Hidden, Readable};
use standby::{Answer, Asked, Standby};
use watch::{Gits, Watched};

pub(super) use channel::{Message, Supervisor};
pub(super) use git::WorkedIn;
pub(super) use plan::Run;
pub use tables::{SECRET_STORES, STARTUP_FILES};
pub use watch::Changed;
pub(super) use watch::Watch;

/// So is said of a supervisor that somebody ended.
const ENDED_EARLY: &str = "the supervisor ended early";

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
    /// More folders that commands may write, canonical.
    pub writable: Vec<PathBuf>,
    /// More that commands may not read: our own configuration.
    pub hidden: Vec<PathBuf>,
    /// More that they may not write: what says whom the user trusts.
    pub protected: Vec<PathBuf>,
    /// Where build caches are kept, for this project.
    pub cache: Option<PathBuf>,
}

/// Why there is no sandbox although there should be.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// Neither namespaces nor Landlock.
    #[error("no sandbox on this system: {0}")]
    Unavailable(String),
    /// There is one on this system, and now it could not be set up.
    #[error(
        "the sandbox could not be set up now: {0}; begin again when there is room (disk, memory, processes)"
    )]
    Failed(String),
    /// What was asked for in particular is not possible.
    #[error("{0}")]
    Impossible(String),
}

impl SandboxError {
    fn without(is_momentary: bool, why: String) -> Self {
        if is_momentary { Self::Failed(why) } else { Self::Unavailable(why) }
    }
}

/// What a command gets besides.
#[derive(Clone, Debug, Default)]
pub(super) struct Grants {
    /// The repositories that it may change, by their `.git`.
    pub(super) git: Vec<PathBuf>,
    /// It works in one without a working tree.
    pub(super) bare_git: bool,
    /// It has the user's network.
    pub(super) network: bool,
    /// It writes nothing but its private temporary folder.
    pub(super) read_only: bool,
}

impl Grants {
    /// Git takes no folder for a repository that has no `.git`, but where it is to work in such a one: files that it
    /// checks out could make any folder one, and name what it runs there, with what it may write here.
    pub(super) fn settle(&self, variables: &mut Vec<(OsString, OsString)>) {
        const COUNT: &str = "GIT_CONFIG_COUNT";
        if self.git.is_empty() || self.bare_git {
            return;
        }
        let of_user = variables.iter().rfind(|(name, _)| name == COUNT);
        let n_own = of_user.map_or(Some(0), |(_, n)| n.to_str()?.parse::<u32>().ok());
        // (Git itself stops at one that it can not read.)
        let Some(next) = n_own else { return };
        variables.retain(|(name, _)| name != COUNT);
        let settings = [
            (COUNT.to_owned(), (next + 1).to_string()),
            (format!("GIT_CONFIG_KEY_{next}"), "safe.bareRepository".to_owned()),
            (format!("GIT_CONFIG_VALUE_{next}"), "explicit".to_owned()),
        ];
        variables.extend(settings.map(|(name, value)| (name.into(), value.into())));
    }

    /// It does not run in a box that it can not write from.
    pub(super) fn may_write(&self) -> bool {
        !self.read_only
    }
}

/// A command that was started.
pub(super) struct Started {
    pub(super) supervisor: Supervisor,
    /// What it writes.
    pub(super) stdout: OwnedFd,
    pub(super) stderr: OwnedFd,
    pub(super) watch: Watch,
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
    /// What supervisors are copied from. Another is started where it has gone.
    standby: Mutex<Option<Standby>>,
    /// The user and the network namespace of the session.
    session: Option<Namespaces>,
    /// What is protected inside the writable places.
    found: git::Found,
    /// Found when the first command needs them.
    sockets: OnceLock<Vec<PathBuf>>,
    /// As they were when the session began.
    hidden_files: OnceLock<Vec<plan::FileId>>,
    /// Canonical, as they were when the session began.
    first_secrets: OnceLock<Vec<PathBuf>>,
    /// As it was made for the last command, where there are no namespaces.
    readable: Mutex<Option<Readable>>,
    /// Of the repositories that were looked at.
    indexes: traps::Indexes,
}

/// What of git's is looked at besides.
#[derive(Default)]
struct Others {
    settings: Vec<PathBuf>,
    hooks: Vec<PathBuf>,
    folders: Vec<PathBuf>,
}

/// What the commands of a session share.
#[derive(Debug)]
struct Namespaces {
    user: Option<OwnedFd>,
    network: OwnedFd,
}

impl Sandbox {
    /// Tries what holds here, and opens the best of it.
    pub fn open(mut settings: Settings) -> Result<Self, SandboxError> {
        let unavailable = |why: &str| SandboxError::Unavailable(why.to_owned());
        if !CAN_SUPERVISE.load(Ordering::Relaxed) {
            return Err(unavailable("this program can not supervise commands"));
        }
        let writable = writable(&settings);
        if let Some(whole) = writable.iter().find(|path| path.parent().is_none()) {
            let whole = whole.display();
            return Err(SandboxError::Unavailable(format!("all of {whole} would be writable")));
        }
        // First, because it takes the longest: it starts while the rest is made.
        let standby = Mutex::new(Standby::start(&writable).ok());
        // (Where commands can write its place, a link there leads nowhere.)
        settings.cache = settings.cache.filter(|cache| disk::make_folder(cache, 0o755).is_ok());
        let written: Vec<PathBuf> = writable.iter().chain(&settings.cache).cloned().collect();
        let folder = Folder::make(&written).map_err(|error| {
            SandboxError::without(
                is_momentary(&error.to_string()),
                format!("no private temporary folder: {error}"),
            )
        })?;
        let found = git::find(&settings.root, &writable);
        let mut sandbox = Self {
            homes: homes(),
            writable,
            namespaces: settings.backend != Backend::Landlock,
            folder,
            holds: Holds::none(),
            standby,
            session: None,
            found,
            sockets: OnceLock::new(),
            hidden_files: OnceLock::new(),
            first_secrets: OnceLock::new(),
            readable: Mutex::new(None),
            indexes: traps::Indexes::default(),
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
            let is_asked = sandbox.settings.backend == Backend::Landlock;
            // Nobody is to bring the weaker box about by what only lasts a while.
            if !is_asked && !why.starts_with(supervisor::REFUSED) && is_momentary(why) {
                return Err(SandboxError::Failed(why.clone()));
            }
            sandbox.namespaces = false;
            if abi == 0 {
                return Err(SandboxError::Unavailable(format!("{why}; and no Landlock")));
            }
            let tried = sandbox.attempt();
            tried.map_err(|error| {
                SandboxError::without(is_momentary(&error), format!("{why}; {error}"))
            })?;
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

    /// Starts a command. To be awaited in a runtime; if this is dropped, nothing has run.
    pub(super) async fn start(
        &self,
        run: Run,
        grants: &Grants,
        report: Option<BorrowedFd<'_>>,
    ) -> io::Result<Started> {
        let (stdout, their_stdout) = io::pipe()?;
        let (stderr, their_stderr) = io::pipe()?;
        let network = self.network(grants);
        let session = self.session_for(network).into_iter();
        let session = session.flat_map(|own| own.user.iter().chain([&own.network]));
        let (hidden, readable) = self.hidden_and_readable()?;
        let given: Vec<BorrowedFd<'_>> = [their_stdout.as_fd(), their_stderr.as_fd()]
            .into_iter()
            .chain(report)
            .chain(session.map(|own| own.as_fd()))
            .chain(readable.as_ref().map(|layer| layer.as_fd()))
            .collect();
        // The copy is made while we put its plan together.
        let asked = self.ask(&given)?;
        let (plan, watch) = self.prepare(run, grants, network, hidden);
        let (channel, process) = self.tell(asked.answer_later().await?, &plan)?;
        let supervisor = Supervisor::new(channel, process)?;
        Ok(Started { supervisor, stdout: stdout.into(), stderr: stderr.into(), watch })
    }

    /// What Landlock alone hides, and the layer that does. In namespaces it is covered.
    fn hidden_and_readable(&self) -> io::Result<(Hidden, Option<Arc<OwnedFd>>)> {
        if self.namespaces {
            return Ok((Hidden::default(), None));
        }
        let hidden = self.hidden_from_landlock();
        let mut last = self.readable.lock().unwrap_or_else(PoisonError::into_inner);
        if !last.as_ref().is_some_and(|readable| readable.is_for(&hidden)) {
            *last = Some(Readable::of(hidden.clone())?);
        }
        Ok((hidden, last.as_ref().map(Readable::layer)))
    }

    /// The box of a command, and what is looked at before it.
    fn prepare(
        &self,
        run: Run,
        grants: &Grants,
        network: Network,
        hidden: Hidden,
    ) -> (Plan, Watch) {
        let (protected, granted) = self.protected_and_granted(grants);
        if self.namespaces {
            granted.iter().for_each(layout::make_hooks);
        }
        let plan = self.plan(Some(run), grants, network, &protected, &granted, hidden);
        (plan, self.look(protected, grants, granted, Others::default()))
    }

    /// How what those who live, with these grants, must not change is now. (What one of them opened for writing may
    /// have been handed to another.)
    pub(super) fn watch(&self, grants: &Grants) -> Watch {
        let (protected, granted) = self.protected_and_granted(grants);
        let all = self.found.repositories(&self.writable);
        let links = all.iter().filter_map(|repository| repository.link.clone());
        let settings = all.iter().flat_map(|repository| repository.settings.clone());
        let settings = settings.chain(links).collect();
        let folders = all.iter().flat_map(|repository| repository.own.clone()).collect();
        let hooks = all.into_iter().flat_map(|repository| repository.hooks).collect();
        self.look(protected, grants, granted, Others { settings, hooks, folders })
    }

    fn protected_and_granted(&self, grants: &Grants) -> (Vec<PathBuf>, Vec<Repository>) {
        let repositories = self.found.repositories(&self.writable);
        let protected = self.protected(&repositories);
        let granted =
            repositories.into_iter().filter(|it| grants.git.iter().any(|place| it.is_at(place)));
        (protected, granted.filter_map(Repository::granted).collect())
    }

    /// The repositories that git writes which works so, by their `.git`.
    pub(super) fn worked_in(&self, work: &GitWork) -> WorkedIn {
        if work.writes_in.is_empty() {
            return WorkedIn::default();
        }
        // What lies there is the commands' alone, or is not there outside.
        let mut own = vec![self.folder.temporary().to_owned(), self.cache()];
        if self.namespaces {
            own.extend(tables::OWN_IN_NAMESPACES.iter().map(PathBuf::from));
            own.push(tables::RUNTIME.into());
        }
        let places = Places { writable: &self.writable, own: &own };
        git::worked_in(work, &self.found.repositories(&self.writable), &places)
    }

    fn look(
        &self,
        protected: Vec<PathBuf>,
        grants: &Grants,
        granted: Vec<Repository>,
        Others { mut settings, hooks, mut folders }: Others,
    ) -> Watch {
        let mut watched = self.watched(protected, grants, &granted);
        watched.extend(hooks.into_iter().map(|path| Watched { path, in_depth: true }));
        // (Without namespaces whoever writes something can write all of them.)
        let written = match self.namespaces {
            true => granted.clone(),
            false if grants.may_write() => self.found.repositories(&self.writable),
            false => Vec::new(),
        };
        folders.extend(written.into_iter().flat_map(|repository| repository.own));
        layout::outermost(&mut folders);
        settings.extend(granted.into_iter().flat_map(|repository| repository.settings));
        Watch::new(watched, Gits { settings, folders, indexes: self.indexes.clone() })
    }

    /// Asks for a supervisor, which gets these descriptors. Until it hears its plan it has run nothing: where the
    /// stand-by fails, another is started and asked once more.
    fn ask<'a>(&'a self, given: &'a [BorrowedFd<'a>]) -> io::Result<Asked<'a>> {
        // (Who comes while it is asked starts one too; one of them stays.)
        let standby = self.standby().take();
        Asked::new(standby, given, &self.writable)
    }

    /// Tells it.
    fn tell(
        &self,
        (standby, mut channel, process): Answer,
        plan: &Plan,
    ) -> io::Result<(UnixStream, Watcher)> {
        *self.standby() = Some(standby);
        channel.set_write_timeout(Some(TRY_TIME))?;
        plan.write(&mut channel).map_err(|error| {
            io::Error::other(format!("the sandbox's supervisor did not take its plan: {error}"))
        })?;
        Ok((channel, process))
    }

    fn standby(&self) -> MutexGuard<'_, Option<Standby>> {
        self.standby.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn network(&self, grants: &Grants) -> Network {
        if grants.network { Network::On } else { self.settings.network }
    }

    /// What stderr says of the box, in words: the path that was refused, and how it can be allowed.
    pub(super) fn explain(
        &self,
        stderr: &str,
        directory: &Path,
        grants: &Grants,
    ) -> Option<String> {
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
            protected: &self.protected(&self.found.repositories(&self.writable)),
            closed: &self.found.closed,
            network,
        };
        refusal::explain(stderr, directory, &view)
    }

    /// Runs nothing in the box, and says whether it holds; then with the namespaces of the session.
    fn attempt(&self) -> Result<Option<Namespaces>, String> {
        let text = |error: io::Error| error.to_string();
        let (hidden, readable) = self.hidden_and_readable().map_err(text)?;
        let given: Vec<BorrowedFd<'_>> = readable.iter().map(|layer| layer.as_fd()).collect();
        let asked = self.ask(&given).map_err(text)?;
        let plan = self.plan(None, &Grants::default(), self.settings.network, &[], &[], hidden);
        let (mut ours, process) =
            asked.answer().and_then(|answer| self.tell(answer, &plan)).map_err(text)?;
        let message = channel::verdict(&mut ours, TRY_TIME);
        let session = self.namespaces.then(|| namespaces_of(process.pid())).flatten();
        match message {
            Message::Exited { status: 0, .. } => Ok(session),
            Message::Failed(why) => Err(why),
            Message::Exited { .. } | Message::Shell(_) | Message::Gone => {
                Err(ENDED_EARLY.to_owned())
            }
        }
    }

    /// Something of what is protected or hidden has another name that a mount does not cover, and a rule of the
    /// judge's does not know.
    fn has_other_spellings(&self) -> bool {
        let protected = self.protected(&self.found.repositories(&self.writable));
        protected.iter().chain(&self.hidden()).any(|path| has_other_spelling(path))
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
        gap(
            self.found.is_cut,
            "the project has too many folders: .git and .agent of some inner ones are not protected",
        );
        gap(
            self.has_other_spellings(),
            "the file system ignores case: what is protected or hidden may be reached by another spelling (.GIT)",
        );
        let home =
            std::env::var_os("HOME").and_then(|home| PathBuf::from(home).canonicalize().ok());
        gap(
            home.is_some_and(|home| home.parent().is_none()),
            "the home is /: secret stores in it are not covered",
        );
        gap(
            self.session.as_ref().is_some_and(|session| session.user.is_none()),
            "no user namespaces: an open folder that one command hands to another shows what is covered",
        );
        if let Some(why) = refused {
            gap(true, &format!("no namespaces: {why}"));
            gap(true, "chmod, chown and utime of the user's own files outside are possible");
            gap(true, ".git and .agent can be written: a change is reported, not prevented");
            gap(true, "records of sessions in .agent can be written: that is not reported");
            gap(true, "of a .git or .agent with more than 20000 files the rest is not compared");
            gap(true, "sockets of local services (docker, ssh-agent, dbus) can be connected to");
            gap(true, "names in folders of secrets can be listed, their content not read");
            gap(true, "in mode read-only, mode and times of the user's own files can be changed");
            let secrets = self.secrets();
            let is_above = |root: &PathBuf| secrets.iter().any(|path| path.starts_with(root));
            gap(
                self.writable.iter().any(is_above),
                "secrets in a writable folder can be written (a change is reported), not read; what a command makes \
                 directly beside them it can only write (no sed -i, no linker), and the next one read",
            );
            gap(abi < 2, "files can not be moved between folders (kernel before 5.19)");
            gap(abi < 3, "files outside can be truncated (kernel before 6.2)");
            gap(
                abi < 5,
                "requests (ioctl) to devices that can be opened pass (kernel before 6.10)",
            );
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

/// What somebody else can bring about for a while: a full disk, too many processes or files, locks, a slow machine. (A
/// supervisor says in words why it failed.)
fn is_momentary(why: &str) -> bool {
    const NUMBERS: &[i32] =
        &[libc::EAGAIN, libc::ENOMEM, libc::ENOSPC, libc::EDQUOT, libc::EMFILE, libc::ENFILE];
    // (A path may hold any words.)
    const WORDS: &[&str] = &[standby::ENDED, standby::LATE, channel::LATE, ENDED_EARLY];
    NUMBERS.iter().any(|number| why.contains(&format!("(os error {number})")))
        || WORDS.iter().any(|words| why.ends_with(words))
}

/// The same file or folder is there under another name, which differs in its case alone.
fn has_other_spelling(path: &Path) -> bool {
    let Some(name) = path.file_name().map(OsStr::to_ascii_uppercase) else { return false };
    let (other, id) = (path.with_file_name(name), |path: &Path| {
        fs::symlink_metadata(path).ok().map(|metadata| (metadata.dev(), metadata.ino()))
    });
    other != path && id(path).is_some_and(|found| id(&other) == Some(found))
}

/// The user and the network namespace of a supervisor, where they are its own.
fn namespaces_of(pid: i32) -> Option<Namespaces> {
    let own = |kind: &str| fs::metadata(format!("/proc/self/ns/{kind}")).ok().map(|ns| ns.ino());
    let open = |kind: &str| {
        let namespace = fs::File::open(format!("/proc/{pid}/ns/{kind}")).ok()?;
        let is_own = Some(namespace.metadata().ok()?.ino()) == own(kind);
        (!is_own).then(|| OwnedFd::from(namespace))
    };
    Some(Namespaces { user: open("user"), network: open("net")? })
}

/// The places that commands may write, the outer ones first. They are canonical as they come: looked at again, one could
/// lead somewhere else by now.
fn writable(settings: &Settings) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = std::iter::once(&settings.root)
        .chain(&settings.writable)
        .filter(|path| path.is_dir())
        .cloned()
        .collect();
    paths.sort();
    paths.dedup();
    paths
}

/// The user's home as the environment names it, and as the system does.
pub fn homes() -> Vec<PathBuf> {
    let uid = rustix::process::getuid().as_raw().to_string();
    // (Names of people may be in any encoding.)
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
