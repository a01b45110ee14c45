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

use super::plan::{Access, Bind};
use super::sys::{self, restrict_mounts};
use super::tables;
use crate::disk::without_links;

/// Lays the plan over the file system. To be called in a mount and a PID namespace of its own.
pub(super) fn arrange(binds: &[Bind]) -> Result<(), String> {
    let failed = |what: &str, error: io::Error| format!("{what}: {error}");
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
        .map_err(|error| failed("the mounts could not be made private", error.into()))?;
    // Copied before anything is covered: what lies where is decided by the plan, not by its order.
    let mut trees = Vec::new();
    for bind in binds {
        match copy(bind) {
            Ok(tree) => trees.push((bind, tree)),
            // It has gone meanwhile: nothing is left to protect.
            Err(error) if bind.access == Access::Read && is_gone(&error) => {}
            Err(error) => return Err(failed(&bind.from.0.display().to_string(), error)),
        }
    }
    let root = open_tree(CWD, "/", OpenTreeFlags::OPEN_TREE_CLOEXEC)
        .map_err(|error| failed("/", error.into()))?;
    restrict_mounts(&root, sys::MountFlags::READ).map_err(|error| failed("/", error))?;
    own_file_systems().map_err(|error| failed("/proc, /dev/shm, /dev/pts", error))?;
    // What is new there is empty: folders that a command may only read have no place in it yet.
    for (bind, tree) in trees.iter().filter(|(bind, _)| bind.access == Access::Read) {
        let is_folder =
            || fstat(tree).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode).is_dir());
        if bind.to.0.starts_with(tables::SHARED_MEMORY) && is_folder() {
            fs::create_dir_all(&bind.to.0)
                .map_err(|error| failed(&bind.to.0.display().to_string(), error))?;
        }
    }
    for (bind, tree) in trees {
        match attach(&tree, &bind.to.0, bind.access == Access::Write) {
            Err(error) if bind.access == Access::Nothing && is_gone(&error) => {}
            result => {
                result.map_err(|error| failed(&bind.to.0.display().to_string(), error))?;
            }
        }
    }
    Ok(())
}

fn is_gone(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

fn copy(bind: &Bind) -> io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_RECURSIVE;
    // A command that may write there could put a link into its place while this is done.
    let path = open(&bind.from.0)?;
    if bind.access == Access::Nothing {
        is_nothing(&path)?;
    }
    let tree = open_tree(&path, "", flags | OpenTreeFlags::AT_EMPTY_PATH)?;
    restrict_mounts(
        &tree,
        match bind.access {
            Access::Read | Access::Nothing => sys::MountFlags::READ,
            Access::Write => sys::MountFlags::WRITE,
            Access::Device => sys::MountFlags::DEVICE,
        },
    )?;
    Ok(tree)
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

/// Where the private /tmp has no place for it yet, one is made.
fn attach(tree: &OwnedFd, to: &Path, makes_place: bool) -> io::Result<()> {
    let place = match open(to) {
        Err(error) if makes_place && error.kind() == io::ErrorKind::NotFound => {
            fs::create_dir_all(to)?;
            open(to)?
        }
        opened => opened?,
    };
    let by_descriptors =
        MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    Ok(move_mount(tree.as_fd(), "", place, "", by_descriptors)?)
}

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
