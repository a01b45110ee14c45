//! What a process gives up before it becomes the command: Landlock, capabilities, seccomp.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, PathBeneath, Ruleset, RulesetAttr,
    RulesetCreated, RulesetCreatedAttr, Scope,
};
use rustix::fs::{FileType, OFlags};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities, set_no_new_privs,
};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, apply_filter, sock_filter,
};

use super::Network;
use super::plan::{Bytes, FileId, Plan};
use crate::disk::without_links;

/// The newest Landlock version that is known here; rights that the kernel does not know are left out.
const NEWEST: ABI = ABI::V9;

/// Restricts this process and all that it will start.
pub(super) fn confine(plan: &Plan) -> Result<(), String> {
    landlock(plan).map_err(|error| format!("Landlock: {error}"))?;
    drop_capabilities().map_err(|error| format!("capabilities: {error}"))?;
    set_no_new_privs(true).map_err(|error| format!("no_new_privs: {error}"))?;
    let filter =
        filter(plan.network, plan.namespaces).map_err(|error| format!("seccomp: {error}"))?;
    apply_filter(&filter).map_err(|error| format!("seccomp: {error}"))
}

fn landlock(plan: &Plan) -> Result<(), Box<dyn std::error::Error>> {
    let write = AccessFs::from_write(NEWEST);
    let mut ruleset = Ruleset::default().handle_access(write)?.scope(Scope::from_all(NEWEST))?;
    if plan.network == Network::Off {
        ruleset = ruleset.handle_access(AccessNet::from_all(NEWEST))?;
    }
    let mut ruleset = ruleset.create()?;
    let hidden = Hidden { paths: &plan.hidden, ids: &plan.hidden_ids, known: &plan.known };
    for path in &plan.writable {
        let Around { free, above } = hidden.around(&path.0);
        for path in free {
            ruleset = allow(ruleset, &path, write)?;
        }
        // What is permitted here is permitted in the hidden directory below as well: nothing is moved into or out of it,
        // and no directory in it gets another name.
        for path in above {
            ruleset = allow(ruleset, &path, write & !(AccessFs::Refer | AccessFs::RemoveDir))?;
        }
    }
    ruleset.restrict_self()?;
    if plan.hidden.is_empty() {
        return Ok(());
    }
    // A second layer for reading. A layer that does not handle moves forbids them all.
    let read = AccessFs::ReadFile | AccessFs::Execute;
    let mut layer = Ruleset::default().handle_access(read | AccessFs::Refer)?.create()?;
    let all = Path::new("/");
    layer = allow(layer, all, AccessFs::Refer.into())?;
    for path in hidden.around(all).free.iter().chain(plan.readable.iter().map(|path| &path.0)) {
        layer = allow(layer, path, read)?;
    }
    layer.restrict_self()?;
    Ok(())
}

/// Hidden paths, for Landlock, which can only permit: everything beside them is named instead.
struct Hidden<'a> {
    paths: &'a [Bytes],
    ids: &'a [FileId],
    known: &'a [Bytes],
}

/// A directory without what is hidden in it.
#[derive(Default)]
struct Around {
    /// All the rest, in as few paths as possible.
    free: Vec<PathBuf>,
    /// The directories that contain something hidden.
    above: Vec<PathBuf>,
}

impl Hidden<'_> {
    fn around(&self, folder: &Path) -> Around {
        let mut around = Around::default();
        self.add(&mut around, folder.to_owned());
        around
    }

    fn add(&self, around: &mut Around, folder: PathBuf) {
        if !self.paths.iter().any(|path| path.0.starts_with(&folder)) {
            around.free.push(folder);
            return;
        }
        for path in self.entries(&folder) {
            let Ok(metadata) = fs::symlink_metadata(&path) else { continue };
            // What a link leads to is named where it lies, or hidden.
            let is_left_out = metadata.is_symlink()
                || self.paths.iter().any(|hidden| hidden.0 == path)
                || self.ids.contains(&(metadata.dev(), metadata.ino()));
            if !is_left_out {
                self.add(around, path);
            }
        }
        around.above.push(folder);
    }

    fn entries(&self, folder: &Path) -> BTreeSet<PathBuf> {
        if let Ok(entries) = fs::read_dir(folder) {
            return entries.flatten().map(|entry| entry.path()).collect();
        }
        let below = self.paths.iter().chain(self.known);
        let below = below.filter_map(|path| path.0.strip_prefix(folder).ok());
        below.filter_map(|path| Some(folder.join(path.components().next()?))).collect()
    }
}

/// Permits this on the path and all below it. A path that does not exist needs no rule.
fn allow(
    ruleset: RulesetCreated,
    path: &Path,
    access: BitFlags<AccessFs>,
) -> Result<RulesetCreated, landlock::RulesetError> {
    let opened = without_links::open(path, OFlags::PATH | OFlags::NOFOLLOW);
    let Ok(descriptor) = opened else { return Ok(ruleset) };
    let Ok(stat) = rustix::fs::fstat(&descriptor) else { return Ok(ruleset) };
    let access = match FileType::from_raw_mode(stat.st_mode) {
        FileType::Symlink => return Ok(ruleset),
        FileType::Directory => access,
        _ => access & AccessFs::from_file(NEWEST),
    };
    if access.is_empty() {
        Ok(ruleset)
    } else {
        ruleset.add_rule(PathBeneath::new(descriptor, access))
    }
}

/// Root loses its capabilities as well, also those that a program would get when it starts.
fn drop_capabilities() -> rustix::io::Result<()> {
    if capabilities(None)?.permitted.is_empty() {
        return Ok(());
    }
    for number in 0..64 {
        match remove_capability_from_bounding_set(CapabilitySet::from_bits_retain(1 << number)) {
            Ok(()) => {}
            // The last one that the kernel knows.
            Err(rustix::io::Errno::INVAL) => break,
            Err(error) => return Err(error),
        }
    }
    clear_ambient_capability_set()?;
    let none = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })
}

/// Denied with any arguments: calls that change mounts, namespaces or the machine, and those that get around the other
/// rules (`io_uring` makes sockets).
const DENIED: &[i64] = &[
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_setns,
    libc::SYS_open_by_handle_at,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_fanotify_init,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_syslog,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_vhangup,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_kexec_file_load,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_modify_ldt,
];

/// `ioctl` requests that change files by a descriptor opened for reading, past mounts and Landlock: snapshots of btrfs and
/// bcachefs, keys of fscrypt, fs-verity. Given by type and number (`_IOC_TYPE`, `_IOC_NR`).
const REQUESTS: &[u64] = &[
    0x9401, // BTRFS_IOC_SNAP_CREATE
    0x940e, // BTRFS_IOC_SUBVOL_CREATE
    0x940f, // BTRFS_IOC_SNAP_DESTROY
    0x9413, // BTRFS_IOC_DEFAULT_SUBVOL
    0x9417, // BTRFS_IOC_SNAP_CREATE_V2
    0x9418, // BTRFS_IOC_SUBVOL_CREATE_V2
    0x941a, // BTRFS_IOC_SUBVOL_SETFLAGS
    0x9425, // BTRFS_IOC_SET_RECEIVED_SUBVOL
    0x943f, // BTRFS_IOC_SNAP_DESTROY_V2
    0xbc10, // BCH_IOCTL_SUBVOLUME_CREATE
    0xbc11, // BCH_IOCTL_SUBVOLUME_DESTROY
    0xbc1d, // BCH_IOCTL_SUBVOLUME_CREATE_v2
    0xbc1e, // BCH_IOCTL_SUBVOLUME_DESTROY_v2
    0x6613, // FS_IOC_SET_ENCRYPTION_POLICY
    0x6617, // FS_IOC_ADD_ENCRYPTION_KEY
    0x6618, // FS_IOC_REMOVE_ENCRYPTION_KEY
    0x6619, // FS_IOC_REMOVE_ENCRYPTION_KEY_ALL_USERS
    0x6685, // FS_IOC_ENABLE_VERITY
];
/// `OCFS2_IOC_REFLINK`, whose type and number other requests share.
const REFLINK: u64 = 0x4018_6f04;

/// Denied without an IPC namespace: memory and queues that other programs share.
const SHARED: &[i64] = &[
    libc::SYS_shmget,
    libc::SYS_shmat,
    libc::SYS_shmctl,
    libc::SYS_semget,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_semctl,
    libc::SYS_msgget,
    libc::SYS_msgsnd,
    libc::SYS_msgrcv,
    libc::SYS_msgctl,
    libc::SYS_mq_open,
    libc::SYS_mq_unlink,
];

/// Denied without a PID namespace: calls on another process, with the index of the argument that names it.
const ON_OTHERS: &[(i64, u8)] = &[
    (libc::SYS_prlimit64, 0),
    (libc::SYS_sched_setaffinity, 0),
    (libc::SYS_sched_setscheduler, 0),
    (libc::SYS_sched_setparam, 0),
    (libc::SYS_sched_setattr, 0),
    (libc::SYS_setpriority, 1),
    (libc::SYS_ioprio_set, 1),
];

/// Denied without mounts: opening with access mode 3, which Landlock does not check and which can start a device (a
/// watchdog). With the index of the argument; `openat2` has it in memory.
const OPENS: &[(i64, u8)] = &[
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_open, 1),
    (libc::SYS_openat, 2),
];

/// New namespaces would give a command capabilities in them.
const NEW_NAMESPACES: i32 = libc::CLONE_NEWUSER
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWCGROUP;

fn filter(network: Network, namespaces: bool) -> Result<BpfProgram, seccompiler::BackendError> {
    let denied = || SeccompAction::Errno(libc::EPERM.cast_unsigned());
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> =
        DENIED.iter().map(|call| (*call, Vec::new())).collect();
    let families: &[i32] = match network {
        Network::Off => &[libc::AF_UNIX],
        Network::Loopback | Network::On => {
            &[libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK]
        }
    };
    let others: Vec<_> = families
        .iter()
        .map(|family| (0, SeccompCmpOp::Ne, u64::from(family.cast_unsigned())))
        .collect();
    rules.insert(libc::SYS_socket, vec![rule(others.clone())?]);
    rules.insert(libc::SYS_socketpair, vec![rule(others)?]);
    let requests = REQUESTS.iter().map(|number| (1, SeccompCmpOp::MaskedEq(0xffff), *number));
    let requests = requests.chain([(1, SeccompCmpOp::Eq, REFLINK)]);
    let requests = requests.map(|request| rule([request])).collect::<Result<_, _>>()?;
    rules.insert(libc::SYS_ioctl, requests);
    if !namespaces {
        rules.extend(SHARED.iter().map(|call| (*call, Vec::new())));
        for (call, argument) in ON_OTHERS {
            rules.insert(*call, vec![rule([(*argument, SeccompCmpOp::Ne, 0)])?]);
        }
        for (call, argument) in OPENS {
            let nothing = u64::from(libc::O_ACCMODE.cast_unsigned());
            rules.insert(
                *call,
                vec![rule([(*argument, SeccompCmpOp::MaskedEq(nothing), nothing)])?],
            );
        }
        // All processes of a user: 0 is the caller's own.
        for (call, users) in [(libc::SYS_setpriority, libc::PRIO_USER), (libc::SYS_ioprio_set, 3)] {
            let all = rule([(0, SeccompCmpOp::Eq, u64::from(users))])?;
            rules.entry(call).or_default().push(all);
        }
    }
    let arch = std::env::consts::ARCH.try_into()?;
    // A call of another ABI (32-bit) ends the process: its numbers have other meanings.
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, denied(), arch)?;
    let mut program = prelude(namespaces);
    program.extend(BpfProgram::try_from(filter)?);
    Ok(program)
}

fn rule(
    conditions: impl IntoIterator<Item = (u8, SeccompCmpOp, u64)>,
) -> Result<SeccompRule, seccompiler::BackendError> {
    let conditions = conditions
        .into_iter()
        .map(|(argument, op, value)| {
            SeccompCondition::new(argument, SeccompCmpArgLen::Dword, op, value)
        })
        .collect::<Result<Vec<_>, _>>()?;
    SeccompRule::new(conditions)
}

/// Rules that the crate cannot express. `clone3` has its flags in memory: "not implemented" makes every libc use `clone`. Numbers from bit 30 on are the x32 ABI: the same calls under other
/// numbers. `clone` and `unshare` are denied with any flag for a namespace. Where `openat2` is "not implemented", as before
/// Linux 5.6, `openat` is used.
fn prelude(namespaces: bool) -> BpfProgram {
    const LOAD: u16 = 0x20;
    const IF_EQUAL: u16 = 0x15;
    const IF_AT_LEAST: u16 = 0x35;
    const IF_ANY_BIT: u16 = 0x45;
    const RETURN: u16 = 0x06;
    const ERRNO: u32 = 0x0005_0000;
    const X32: u32 = 0x4000_0000;
    /// Where the number of the call stands, and the lower half of its first argument.
    const NUMBER: u32 = 0;
    const FIRST_ARGUMENT: u32 = if cfg!(target_endian = "little") { 16 } else { 20 };
    // Each goes on with the next step, or skips so many.
    let step = |code, k, if_so, otherwise| sock_filter { code, jt: if_so, jf: otherwise, k };
    let number = |call: i64| u32::try_from(call).unwrap_or(u32::MAX);
    let denied = |errno: i32| step(RETURN, ERRNO | errno.cast_unsigned(), 0, 0);
    let missing =
        Some(libc::SYS_clone3).into_iter().chain((!namespaces).then_some(libc::SYS_openat2));
    let mut program = vec![step(LOAD, NUMBER, 0, 0)];
    program.extend(
        missing.flat_map(|call| [step(IF_EQUAL, number(call), 0, 1), denied(libc::ENOSYS)]),
    );
    program.extend([
        step(IF_AT_LEAST, X32, 0, 1),
        denied(libc::EPERM),
        step(IF_EQUAL, number(libc::SYS_clone), 1, 0),
        step(IF_EQUAL, number(libc::SYS_unshare), 0, 3),
        step(LOAD, FIRST_ARGUMENT, 0, 0),
        step(IF_ANY_BIT, NEW_NAMESPACES.cast_unsigned(), 0, 1),
        denied(libc::EPERM),
    ]);
    program
}
