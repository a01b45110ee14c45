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

use super::super::plan::{Mount, MountAccess, SandboxPlan};
use super::supervisor::prefix_error;
use super::sys::restrict_mounts;
use agent_protocol::disk::{self, nofollow};

const CLONE: OpenTreeFlags = OpenTreeFlags::OPEN_TREE_CLONE.union(OpenTreeFlags::OPEN_TREE_CLOEXEC);
const READ_ONLY: u64 = libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV;

pub(in crate::exec) const NAMESPACES: CloneFlags =
    CloneFlags::CLONE_NEWNS.union(CloneFlags::CLONE_NEWPID).union(CloneFlags::CLONE_NEWIPC);

/// Must be called in a new mount and PID namespace. Returns the previous `/proc`.
pub(in crate::exec) fn apply_mounts(plan: &SandboxPlan) -> Result<OwnedFd, String> {
    make_mounts_private().map_err(prefix_error("the mounts could not be made private"))?;
    let proc = open_tree(CWD, "/proc", CLONE | OpenTreeFlags::AT_RECURSIVE)
        .map_err(prefix_error("/proc"))?;
    let [directory, file] = &plan.empty;
    let empty = |path: &OsString| open_path(path.as_ref()).map_err(prefix_error(path.display()));
    let empty = (empty(directory)?, empty(file)?);
    // Copied before anything is covered, so that the order of the plan does not matter for the sources.
    let mut trees = Vec::new();
    for mount in &plan.mounts {
        trees.push(match mount {
            Mount::Hide(_) => None,
            Mount::Bind { from, to, access } => {
                match open_path(from.as_ref()).and_then(|from| clone_mount(&from, *access)) {
                    Ok(tree) => Some(tree),
                    // A path of the profile that does not exist is skipped.
                    Err(error) if from == to && is_gone(&error) => None,
                    Err(error) => return Err(prefix_error(from.display())(error)),
                }
            }
        });
    }
    let root = open_tree(CWD, "/", OpenTreeFlags::OPEN_TREE_CLOEXEC).map_err(prefix_error("/"))?;
    restrict_mounts(&root, READ_ONLY).map_err(prefix_error("/"))?;
    mount_own_file_systems().map_err(prefix_error("/proc, /dev/shm, /dev/pts"))?;
    for (mount, tree) in plan.mounts.iter().zip(trees) {
        match (mount, tree) {
            (Mount::Hide(path), _) => {
                hide_path(path.as_ref(), &empty).map_err(prefix_error(path.display()))?;
            }
            (Mount::Bind { to, .. }, Some(tree)) => {
                mount_at(&tree, to.as_ref()).map_err(prefix_error(to.display()))?;
            }
            (Mount::Bind { .. }, None) => {}
        }
    }
    Ok(proc)
}

/// A link in the place of the path is an error: the path could come back.
fn is_gone(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

fn clone_mount(from: &OwnedFd, access: MountAccess) -> io::Result<OwnedFd> {
    let attributes = match access {
        MountAccess::Read => READ_ONLY,
        MountAccess::Write => libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV,
        // A device can be opened for writing, but its mode and times cannot be changed.
        MountAccess::Device => libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NOSUID,
    };
    let tree =
        open_tree(from, "", CLONE | OpenTreeFlags::AT_RECURSIVE | OpenTreeFlags::AT_EMPTY_PATH)?;
    restrict_mounts(&tree, attributes)?;
    Ok(tree)
}

fn hide_path(path: &Path, (directory, file): &(OwnedFd, OwnedFd)) -> io::Result<()> {
    let place = match open_path(path) {
        Err(error) if is_gone(&error) => return Ok(()),
        opened => opened?,
    };
    let empty = if is_folder(&place)? { directory } else { file };
    move_mount_onto(&clone_mount(empty, MountAccess::Read)?, &place)
}

fn is_folder(descriptor: &OwnedFd) -> io::Result<bool> {
    Ok(FileType::from_raw_mode(fstat(descriptor)?.st_mode).is_dir())
}

/// Makes a missing mount point of a directory, for example in the private `/tmp`.
fn mount_at(tree: &OwnedFd, to: &Path) -> io::Result<()> {
    let place = match open_path(to) {
        Err(error) if error.kind() == io::ErrorKind::NotFound && is_folder(tree)? => {
            drop(disk::create_folder_all(to, 0o755)?);
            open_path(to)?
        }
        opened => opened?,
    };
    move_mount_onto(tree, &place)
}

fn move_mount_onto(tree: &OwnedFd, place: &OwnedFd) -> io::Result<()> {
    let by_descriptors =
        MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    Ok(move_mount(tree.as_fd(), "", place, "", by_descriptors)?)
}

/// Follows no link: another running command could have created one.
fn open_path(path: &Path) -> io::Result<OwnedFd> {
    Ok(nofollow::open(path, OFlags::PATH)?)
}

pub(in crate::exec) fn make_mounts_private() -> rustix::io::Result<()> {
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
}

pub(in crate::exec) fn mount_proc() -> rustix::io::Result<()> {
    let strict = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    mount("proc", "/proc", "proc", strict | MountFlags::RDONLY, None)
}

fn mount_own_file_systems() -> io::Result<()> {
    mount_proc()?;
    if Path::new("/dev/shm").is_dir() {
        let options = c"mode=1777";
        mount("tmpfs", "/dev/shm", "tmpfs", MountFlags::NOSUID | MountFlags::NODEV, options)?;
    }
    if Path::new("/dev/pts").is_dir() {
        let options = c"newinstance,ptmxmode=0666,mode=620";
        mount("devpts", "/dev/pts", "devpts", MountFlags::NOSUID | MountFlags::NOEXEC, options)?;
        let ptmx = open_tree(CWD, "/dev/pts/ptmx", CLONE)?;
        // `/dev/ptmx` may be a link to that already.
        if !fs::symlink_metadata("/dev/ptmx")?.is_symlink() {
            mount_at(&ptmx, Path::new("/dev/ptmx"))?;
        }
    }
    Ok(())
}
