//! The mounts of a command: everything read-only, with the plan's mounts on top.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use nix::sched::CloneFlags;
use rustix::fs::{CWD, FileType, OFlags, fstat};
use rustix::mount::{
    MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, mount, mount_change,
    move_mount, open_tree,
};

use super::plan::{Access, Mount, Plan};
use super::supervisor::named;
use super::sys::restrict_mounts;
use agent_protocol::disk::{self, without_links};

const READ_ONLY: u64 = libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV;

pub(super) const NAMESPACES: CloneFlags =
    CloneFlags::CLONE_NEWNS.union(CloneFlags::CLONE_NEWPID).union(CloneFlags::CLONE_NEWIPC);

/// Mounts the plan. Must be called in a new mount and PID namespace. Returns `/proc` as it was before.
pub(super) fn arrange(plan: &Plan) -> Result<OwnedFd, String> {
    make_private().map_err(named("the mounts could not be made private"))?;
    let clone = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    let proc =
        open_tree(CWD, "/proc", clone | OpenTreeFlags::AT_RECURSIVE).map_err(named("/proc"))?;
    let [directory, file] = &plan.empty;
    let empty = |path: &OsString| open(path.as_ref()).map_err(named(path.display()));
    let empty = (empty(directory)?, empty(file)?);
    // Copied before anything is covered, so that the order of the plan does not matter for the sources.
    let mut trees = Vec::new();
    for mount in &plan.mounts {
        trees.push(match mount {
            Mount::Hide(_) => None,
            Mount::Bind { from, to, access } => {
                match open(from.as_ref()).and_then(|from| copy(&from, *access)) {
                    Ok(tree) => Some(tree),
                    // A path of the profile that does not exist is skipped.
                    Err(error) if from == to && is_gone(&error) => None,
                    Err(error) => return Err(named(from.display())(error)),
                }
            }
        });
    }
    let root = open_tree(CWD, "/", OpenTreeFlags::OPEN_TREE_CLOEXEC).map_err(named("/"))?;
    restrict_mounts(&root, READ_ONLY).map_err(named("/"))?;
    own_file_systems().map_err(named("/proc, /dev/shm, /dev/pts"))?;
    for (mount, tree) in plan.mounts.iter().zip(trees) {
        match (mount, tree) {
            (Mount::Hide(path), _) => hide(path.as_ref(), &empty).map_err(named(path.display()))?,
            (Mount::Bind { to, .. }, Some(tree)) => {
                attach(&tree, to.as_ref()).map_err(named(to.display()))?;
            }
            (Mount::Bind { .. }, None) => {}
        }
    }
    Ok(proc)
}

/// (A link in its place is an error: the path could come back.)
fn is_gone(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

fn copy(from: &OwnedFd, access: Access) -> io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_RECURSIVE;
    let tree = open_tree(from, "", flags | OpenTreeFlags::AT_EMPTY_PATH)?;
    restrict_mounts(
        &tree,
        match access {
            Access::Read => READ_ONLY,
            Access::Write => libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV,
            // It can be opened to write too, but its mode and times cannot be changed.
            Access::Device => libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NOSUID,
        },
    )?;
    Ok(tree)
}

fn hide(path: &Path, (directory, file): &(OwnedFd, OwnedFd)) -> io::Result<()> {
    let place = match open(path) {
        Err(error) if is_gone(&error) => return Ok(()),
        opened => opened?,
    };
    let empty = if is_folder(&place)? { directory } else { file };
    lay(&copy(empty, Access::Read)?, &place)
}

fn is_folder(it: &OwnedFd) -> io::Result<bool> {
    Ok(FileType::from_raw_mode(fstat(it)?.st_mode).is_dir())
}

/// Mounts a tree. Makes a missing mount point of a directory, for example in the private `/tmp`.
fn attach(tree: &OwnedFd, to: &Path) -> io::Result<()> {
    let place = match open(to) {
        Err(error) if error.kind() == io::ErrorKind::NotFound && is_folder(tree)? => {
            drop(disk::make_folder(to, 0o755)?);
            open(to)?
        }
        opened => opened?,
    };
    lay(tree, &place)
}

fn lay(tree: &OwnedFd, place: &OwnedFd) -> io::Result<()> {
    let by_descriptors =
        MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    Ok(move_mount(tree.as_fd(), "", place, "", by_descriptors)?)
}

/// No link is followed: a command that runs meanwhile could have put one there.
fn open(path: &Path) -> io::Result<OwnedFd> {
    Ok(without_links::open(path, OFlags::PATH)?)
}

/// No mount of this namespace is passed on.
pub(super) fn make_private() -> rustix::io::Result<()> {
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
}

/// `/proc` of this PID namespace.
pub(super) fn mount_proc() -> rustix::io::Result<()> {
    let strict = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    mount("proc", "/proc", "proc", strict | MountFlags::RDONLY, None)
}

fn own_file_systems() -> io::Result<()> {
    mount_proc()?;
    if Path::new("/dev/shm").is_dir() {
        let options = c"mode=1777";
        mount("tmpfs", "/dev/shm", "tmpfs", MountFlags::NOSUID | MountFlags::NODEV, options)?;
    }
    if Path::new("/dev/pts").is_dir() {
        let options = c"newinstance,ptmxmode=0666,mode=620";
        mount("devpts", "/dev/pts", "devpts", MountFlags::NOSUID | MountFlags::NOEXEC, options)?;
        let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
        let ptmx = open_tree(CWD, "/dev/pts/ptmx", flags)?;
        // It may be a link to that already.
        if !fs::symlink_metadata("/dev/ptmx")?.is_symlink() {
            attach(&ptmx, Path::new("/dev/ptmx"))?;
        }
    }
    Ok(())
}
