//! The mounts of a command: everything read-only, with the plan's mounts on top.

use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{CWD, FileType, OFlags, fstat};
use rustix::mount::{
    MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, mount, mount_change,
    move_mount, open_tree,
};

use super::plan::{Access, Bind, Plan};
use super::supervisor::named;
use super::sys::restrict_mounts;
use super::tables;
use crate::disk::{self, without_links};

const READ_ONLY: u64 = libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV;

/// Mounts the plan. Must be called in a new mount and PID namespace. Returns `/proc` as it was before.
pub(super) fn arrange(plan: &Plan) -> Result<OwnedFd, String> {
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
        .map_err(named("the mounts could not be made private"))?;
    let clone = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    let proc =
        open_tree(CWD, "/proc", clone | OpenTreeFlags::AT_RECURSIVE).map_err(named("/proc"))?;
    // Copied before anything is covered, so that the order of the plan does not matter for the sources.
    let copies = |binds: &[Bind]| -> Result<Vec<(Bind, OwnedFd)>, String> {
        let mut trees = Vec::new();
        for bind in binds {
            match open(&bind.from.0).and_then(|from| copy(&from, bind.access)) {
                Ok(tree) => trees.push((bind.clone(), tree)),
                // A path of the profile that does not exist is skipped.
                Err(error) if bind.from == bind.to && is_gone(&error) => {}
                Err(error) => return Err(named(bind.from.0.display())(error)),
            }
        }
        Ok(trees)
    };
    let (trees, on_top) = (copies(&plan.binds)?, copies(&plan.on_top)?);
    let mut empty = Vec::new();
    for from in &plan.empty {
        empty.push(open(&from.0).map_err(named(from.0.display()))?);
    }
    let root = open_tree(CWD, "/", OpenTreeFlags::OPEN_TREE_CLOEXEC).map_err(named("/"))?;
    restrict_mounts(&root, READ_ONLY).map_err(named("/"))?;
    own_file_systems().map_err(named("/proc, /dev/shm, /dev/pts"))?;
    // The new shared memory is empty: read-only directories need a mount point in it.
    for (bind, tree) in trees.iter().filter(|(bind, _)| bind.access == Access::Read) {
        if bind.to.0.starts_with(tables::SHARED_MEMORY)
            && is_folder(tree).is_ok_and(|is_folder| is_folder)
        {
            fs::create_dir_all(&bind.to.0).map_err(named(bind.to.0.display()))?;
        }
    }
    for (bind, tree) in trees {
        let makes_place = bind.access == Access::Write;
        attach(&tree, &bind.to.0, makes_place).map_err(named(bind.to.0.display()))?;
    }
    for path in &plan.covered {
        cover(&path.0, &empty).map_err(named(path.0.display()))?;
    }
    for (bind, tree) in on_top {
        attach(&tree, &bind.to.0, false).map_err(named(bind.to.0.display()))?;
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

/// Covers what is there with an empty directory or file.
fn cover(path: &Path, empty: &[OwnedFd]) -> io::Result<()> {
    let place = match open(path) {
        Err(error) if is_gone(&error) => return Ok(()),
        opened => opened?,
    };
    let is_folder = is_folder(&place)?;
    for from in empty {
        if self::is_folder(from)? == is_folder {
            return lay(&copy(from, Access::Read)?, &place);
        }
    }
    Err(io::Error::other("it is neither a file nor a directory"))
}

fn is_folder(it: &OwnedFd) -> io::Result<bool> {
    Ok(FileType::from_raw_mode(fstat(it)?.st_mode).is_dir())
}

/// Mounts a tree; `makes_place`: a missing mount point is created, for example in the private `/tmp`.
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

/// No link is followed: a command that runs meanwhile could have put one there.
fn open(path: &Path) -> io::Result<OwnedFd> {
    Ok(without_links::open(path, OFlags::PATH)?)
}

/// `/proc` of this namespace, and private shared memory and terminals.
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
        // It may be a link to that already.
        if !fs::symlink_metadata("/dev/ptmx")?.is_symlink() {
            attach(&ptmx, Path::new("/dev/ptmx"), false)?;
        }
    }
    Ok(())
}
