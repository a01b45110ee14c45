//! What a command finds in its mount namespace: everything read-only, and a few places laid over it.

use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, OFlags, fstat};
use rustix::mount::{
    MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, mount, mount_change,
    move_mount, open_tree,
};

use super::plan::{Access, Bytes, Plan};
use super::sys::{self, restrict_mounts};
use super::tables;
use crate::disk::{self, without_links};

/// Lays the plan over the file system. To be called in a mount and a PID namespace of its own. Gives `/proc` as it was
/// before.
pub(super) fn arrange(plan: &Plan) -> Result<OwnedFd, String> {
    let failed = |what: &str, error: io::Error| format!("{what}: {error}");
    let at = |path: &Bytes, error| failed(&path.0.display().to_string(), error);
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
        .map_err(|error| failed("the mounts could not be made private", error.into()))?;
    let clone = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    let proc = open_tree(CWD, "/proc", clone | OpenTreeFlags::AT_RECURSIVE)
        .map_err(|error| failed("/proc", error.into()))?;
    // Copied before anything is covered: what lies where is decided by the plan, not by its order.
    let mut trees = Vec::new();
    for bind in &plan.binds {
        match open(&bind.from.0).and_then(|from| copy(&from, bind.access)) {
            Ok(tree) => trees.push((bind, tree)),
            // What has gone from its own place leaves nothing to protect, and nothing to write.
            Err(error) if bind.from == bind.to && is_gone(&error) => {}
            Err(error) => return Err(at(&bind.from, error)),
        }
    }
    let mut nothing = Vec::new();
    for from in &plan.nothing {
        let it = open(&from.0).map_err(|error| at(from, error))?;
        is_nothing(&it).map_err(|error| at(from, error))?;
        nothing.push(it);
    }
    let root = open_tree(CWD, "/", OpenTreeFlags::OPEN_TREE_CLOEXEC)
        .map_err(|error| failed("/", error.into()))?;
    restrict_mounts(&root, sys::MountFlags::READ).map_err(|error| failed("/", error))?;
    own_file_systems().map_err(|error| failed("/proc, /dev/shm, /dev/pts", error))?;
    // What is new there is empty: folders that a command may only read have no place in it yet.
    for (bind, tree) in trees.iter().filter(|(bind, _)| bind.access == Access::Read) {
        if bind.to.0.starts_with(tables::SHARED_MEMORY)
            && is_folder(tree).is_ok_and(|is_folder| is_folder)
        {
            fs::create_dir_all(&bind.to.0).map_err(|error| at(&bind.to, error))?;
        }
    }
    for (bind, tree) in trees {
        let makes_place = bind.access == Access::Write;
        attach(&tree, &bind.to.0, makes_place).map_err(|error| at(&bind.to, error))?;
    }
    for path in &plan.covered {
        cover(&path.0, &nothing).map_err(|error| at(path, error))?;
    }
    Ok(proc)
}

/// (A link that somebody put there is none: what it took the place of may come back.)
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
            Access::Read => sys::MountFlags::READ,
            Access::Write => sys::MountFlags::WRITE,
            Access::Device => sys::MountFlags::DEVICE,
        },
    )?;
    Ok(tree)
}

/// Lays nothing over what is there. What that is only shows here: the agent itself may not be able to look at it.
fn cover(path: &Path, nothing: &[OwnedFd]) -> io::Result<()> {
    let place = match open(path) {
        Err(error) if is_gone(&error) => return Ok(()),
        opened => opened?,
    };
    let is_folder = is_folder(&place)?;
    for from in nothing {
        if self::is_folder(from)? == is_folder {
            return lay(&copy(from, Access::Read)?, &place);
        }
    }
    Err(io::Error::other("there is nothing to cover it"))
}

fn is_folder(it: &OwnedFd) -> io::Result<bool> {
    Ok(FileType::from_raw_mode(fstat(it)?.st_mode).is_dir())
}

/// What is to cover something is as this user made it: else it would show what somebody put there.
fn is_nothing(path: &OwnedFd) -> io::Result<()> {
    let stat = fstat(path)?;
    let is_open =
        Mode::from_raw_mode(stat.st_mode).intersects(Mode::RWXU | Mode::RWXG | Mode::RWXO);
    let is_closed = !is_open && stat.st_uid == rustix::process::getuid().as_raw();
    let is_empty = match FileType::from_raw_mode(stat.st_mode) {
        // (Its own name, and its name for itself.)
        FileType::Directory => stat.st_nlink <= 2,
        FileType::RegularFile => stat.st_size == 0,
        _ => false,
    };
    if is_closed && is_empty {
        Ok(())
    } else {
        Err(io::Error::other("somebody changed what covers secrets"))
    }
}

/// Where there is no place for it yet, one is made: in the private /tmp, say.
fn attach(tree: &OwnedFd, to: &Path, makes_place: bool) -> io::Result<()> {
    let place = match open(to) {
        Err(error) if makes_place && error.kind() == io::ErrorKind::NotFound => {
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

/// A command that may write there could put a link into its place while this is done: none is followed.
fn open(path: &Path) -> io::Result<OwnedFd> {
    Ok(without_links::open(path, OFlags::PATH)?)
}

/// The processes of this namespace alone, and memory and terminals that nobody outside shares.
fn own_file_systems() -> io::Result<()> {
    let strict = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    mount("proc", "/proc", "proc", strict | MountFlags::RDONLY, None)?;
    if Path::new("/dev/shm").is_dir() {
        let options = c"mode=1777";
        mount("tmpfs", "/dev/shm", "tmpfs", MountFlags::NOSUID | MountFlags::NODEV, options)?;
    }
    if Path::new("/dev/pts").is_dir() {
        let options = c"newinstance,ptmxmode=0666,mode=620";
        mount("devpts", "/dev/pts", "devpts", MountFlags::NOSUID | MountFlags::NOEXEC, options)?;
        let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
        let ptmx = open_tree(CWD, "/dev/pts/ptmx", flags)?;
        // Where it is a link to it already, it is right as it is.
        if !fs::symlink_metadata("/dev/ptmx")?.is_symlink() {
            attach(&ptmx, Path::new("/dev/ptmx"), false)?;
        }
    }
    Ok(())
}
