//! Restricts a process before it executes the command: Landlock, capabilities, seccomp.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, PathBeneath, Ruleset, RulesetAttr,
    RulesetCreated, RulesetCreatedAttr, Scope,
};
use rustix::fs::OFlags;
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, set_capabilities, set_no_new_privs,
};
use seccompiler::SeccompCmpOp::{self, Eq, MaskedEq, Ne};
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCondition, SeccompFilter,
    SeccompRule, apply_filter, sock_filter,
};

use super::super::Network;
use super::super::plan::SandboxPlan;
use super::supervisor::prefix_error;
use agent_protocol::disk::nofollow;

/// The newest Landlock version that the agent supports; rights that the kernel lacks are left out.
const NEWEST: ABI = ABI::V9;

pub(in crate::exec) fn confine_process(plan: &SandboxPlan) -> Result<(), String> {
    apply_landlock(plan).map_err(prefix_error("Landlock"))?;
    keep_rights_over_owners(plan).map_err(prefix_error("capabilities"))?;
    // Root gets no other back by starting a program either.
    set_no_new_privs(true).map_err(prefix_error("no_new_privs"))?;
    let filters =
        seccomp_filters(plan.network, plan.namespaces).map_err(prefix_error("seccomp"))?;
    filters.iter().try_for_each(|filter| apply_filter(filter)).map_err(prefix_error("seccomp"))
}

/// Root in a project of others keeps the rights of root over their files, and no others: in the user namespace these
/// concern the mapped users only, and the mounts limit what can be changed. Without namespaces they would concern all users.
fn keep_rights_over_owners(plan: &SandboxPlan) -> rustix::io::Result<()> {
    let rights = CapabilitySet::CHOWN | CapabilitySet::DAC_OVERRIDE | CapabilitySet::FOWNER;
    let has_owners = plan.namespaces && !plan.owners.users.is_empty();
    let kept = if has_owners { rights } else { CapabilitySet::empty() };
    let kept = kept & capabilities(None)?.permitted;
    let inheritable = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective: kept, permitted: kept, inheritable })
}

fn apply_landlock(plan: &SandboxPlan) -> Result<(), Box<dyn std::error::Error>> {
    let write = AccessFs::from_write(NEWEST);
    let mut ruleset = Ruleset::default().handle_access(write)?.scope(Scope::from_all(NEWEST))?;
    if plan.network == Network::Off {
        ruleset = ruleset.handle_access(AccessNet::from_all(NEWEST))?;
    }
    let mut ruleset = ruleset.create()?;
    let hidden = plan.hidden.iter().map(Path::new);
    let hidden_above: HashSet<&Path> = hidden.flat_map(Path::ancestors).collect();
    for path in &plan.writable {
        let (mut free, mut above) = (Vec::new(), Vec::new());
        split_at_hidden(plan, &hidden_above, path.into(), (&mut free, &mut above));
        for path in free {
            ruleset = allow_below(ruleset, &path, write)?;
        }
        // Also permitted in the hidden directory below: so nothing is moved into or out of it, nor a directory in it renamed.
        for path in above {
            ruleset =
                allow_below(ruleset, &path, write & !(AccessFs::Refer | AccessFs::RemoveDir))?;
        }
    }
    ruleset.restrict_self()?;
    if plan.hidden.is_empty() {
        return Ok(());
    }
    // A second layer for reading. A layer that does not handle moves forbids them all.
    let read = AccessFs::ReadFile | AccessFs::Execute;
    let mut layer = Ruleset::default().handle_access(read | AccessFs::Refer)?.create()?;
    layer = allow_below(layer, Path::new("/"), AccessFs::Refer.into())?;
    let mut free = plan.readable.iter().map(PathBuf::from).collect();
    split_at_hidden(plan, &hidden_above, PathBuf::from("/"), (&mut free, &mut Vec::new()));
    for path in free {
        layer = allow_below(layer, &path, read)?;
    }
    layer.restrict_self()?;
    Ok(())
}

/// Landlock can only permit: splits at hidden paths into the free paths and the directories `above` something hidden.
/// `hidden_above`: the hidden paths and all above them, of which a directory such as `/tmp` may contain one among thousands.
fn split_at_hidden(
    plan: &SandboxPlan,
    hidden_above: &HashSet<&Path>,
    folder: PathBuf,
    (free, above): (&mut Vec<PathBuf>, &mut Vec<PathBuf>),
) {
    if !hidden_above.contains(&*folder) {
        free.push(folder);
        return;
    }
    for path in list_entries(plan, &folder) {
        let Ok(metadata) = fs::symlink_metadata(&path) else { continue };
        // The target of a link is listed at its own path, or hidden.
        let is_hidden = || plan.hidden.iter().any(|hidden| *hidden == path);
        let is_left_out = metadata.is_symlink()
            || hidden_above.contains(&*path) && is_hidden()
            || plan.hidden_ids.contains(&(metadata.dev(), metadata.ino()));
        if !is_left_out {
            split_at_hidden(plan, hidden_above, path, (free, above));
        }
    }
    above.push(folder);
}

/// If the directory cannot be listed, the entries that the plan names.
fn list_entries(plan: &SandboxPlan, folder: &Path) -> HashSet<PathBuf> {
    if let Ok(entries) = fs::read_dir(folder) {
        return entries.flatten().map(|entry| entry.path()).collect();
    }
    let below = plan.hidden.iter().chain(&plan.known);
    let below = below.filter_map(|path| Path::new(path).strip_prefix(folder).ok());
    below.filter_map(|path| Some(folder.join(path.components().next()?))).collect()
}

fn allow_below(
    ruleset: RulesetCreated,
    path: &Path,
    access: BitFlags<AccessFs>,
) -> Result<RulesetCreated, landlock::RulesetError> {
    match nofollow::open(path, OFlags::PATH) {
        Ok(descriptor) => ruleset.add_rule(PathBeneath::new(descriptor, access)),
        Err(_) => Ok(ruleset),
    }
}

/// Denied: calls that change mounts, namespaces or the machine, or avoid other rules (`io_uring` makes sockets).
#[rustfmt::skip]
const DENIED_CALLS: &[i64] = &[
    libc::SYS_mount, libc::SYS_umount2, libc::SYS_pivot_root, libc::SYS_chroot, libc::SYS_open_tree,
    libc::SYS_move_mount, libc::SYS_fsopen, libc::SYS_fsconfig, libc::SYS_fsmount, libc::SYS_fspick,
    libc::SYS_mount_setattr, libc::SYS_setns, libc::SYS_open_by_handle_at, libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter, libc::SYS_io_uring_register, libc::SYS_bpf, libc::SYS_perf_event_open,
    libc::SYS_userfaultfd, libc::SYS_fanotify_init, libc::SYS_add_key, libc::SYS_request_key,
    libc::SYS_keyctl, libc::SYS_init_module, libc::SYS_finit_module, libc::SYS_delete_module,
    libc::SYS_kexec_load, libc::SYS_reboot, libc::SYS_swapon, libc::SYS_swapoff, libc::SYS_acct,
    libc::SYS_quotactl, libc::SYS_syslog, libc::SYS_sethostname, libc::SYS_setdomainname,
    libc::SYS_settimeofday, libc::SYS_clock_settime, libc::SYS_vhangup,
    #[cfg(target_arch = "x86_64")] libc::SYS_kexec_file_load,
    #[cfg(target_arch = "x86_64")] libc::SYS_ioperm,
    #[cfg(target_arch = "x86_64")] libc::SYS_iopl,
    #[cfg(target_arch = "x86_64")] libc::SYS_modify_ldt,
];

/// Denied without an IPC namespace: memory and queues that other programs share.
#[rustfmt::skip]
const SHARED_MEMORY_CALLS: &[i64] = &[
    libc::SYS_shmget, libc::SYS_shmat, libc::SYS_shmctl, libc::SYS_semget, libc::SYS_semop,
    libc::SYS_semtimedop, libc::SYS_semctl, libc::SYS_msgget, libc::SYS_msgsnd, libc::SYS_msgrcv,
    libc::SYS_msgctl, libc::SYS_mq_open, libc::SYS_mq_unlink,
];

type ArgumentCondition = (u8, SeccompCmpOp, u64);

const CONDITIONAL_CALLS: &[(i64, &[ArgumentCondition])] = &[
    // With a new user namespace come capabilities; the other namespaces need them.
    (libc::SYS_clone, &[(0, MaskedEq(NEW_USER), NEW_USER)]),
    (libc::SYS_unshare, &[(0, MaskedEq(NEW_USER), NEW_USER)]),
    // Requests that change files by a descriptor opened for reading, which Landlock does not check: of btrfs all but
    // FICLONE, FICLONERANGE and FIDEDUPERANGE, of bcachefs all, fscrypt and fs-verity, OCFS2_IOC_REFLINK. Requests that change
    // contents without a change time: EXT4_IOC_MOVE_EXT, XFS_IOC_SWAPEXT, XFS_IOC_EXCHANGE_RANGE, F2FS_IOC_MOVE_RANGE.
    (
        libc::SYS_ioctl,
        &[
            (1, MaskedEq(0xff00), 0x9400),
            (1, Ne, 0x4004_9409),
            (1, Ne, 0x4020_940d),
            (1, Ne, 0xc018_9436),
        ],
    ),
    (libc::SYS_ioctl, &[(1, MaskedEq(0xff00), 0xbc00)]),
    (libc::SYS_ioctl, &[(1, MaskedEq(0xff10), 0x6610)]),
    (libc::SYS_ioctl, &[(1, MaskedEq(0xff80), 0x6680)]),
    (libc::SYS_ioctl, &[(1, Eq, 0x4018_6f04)]),
    (libc::SYS_ioctl, &[(1, Eq, 0xc028_660f)]),
    (libc::SYS_ioctl, &[(1, Eq, 0xc0c0_586d)]),
    (libc::SYS_ioctl, &[(1, Eq, 0x4028_5881)]),
    (libc::SYS_ioctl, &[(1, Eq, 0xc020_f509)]),
];
const NEW_USER: u64 = 0x1000_0000;

/// The programs in the order of installation; the kernel executes the last one first.
fn seccomp_filters(network: Network, namespaces: bool) -> Result<[BpfProgram; 2], BackendError> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> =
        DENIED_CALLS.iter().map(|call| (*call, Vec::new())).collect();
    let mut conditional = CONDITIONAL_CALLS.to_vec();
    // The flags of `clone3` are in memory. "Not implemented" makes every libc use the older call.
    let missing = BTreeMap::from([(libc::SYS_clone3, Vec::new())]);
    if !namespaces {
        rules.extend(SHARED_MEMORY_CALLS.iter().map(|call| (*call, Vec::new())));
    }
    let families = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];
    let permitted = if network == Network::Off { &families[..1] } else { &families };
    let others: Vec<ArgumentCondition> =
        permitted.iter().map(|family| (0, Ne, u64::from(family.cast_unsigned()))).collect();
    conditional.extend([(libc::SYS_socket, &*others), (libc::SYS_socketpair, &*others)]);
    for (call, conditions) in conditional {
        let conditions = conditions.iter().map(|(argument, op, value)| {
            SeccompCondition::new(*argument, SeccompCmpArgLen::Dword, op.clone(), *value)
        });
        let rule = SeccompRule::new(conditions.collect::<Result<_, _>>()?)?;
        rules.entry(call).or_default().push(rule);
    }
    // A call of another ABI (32-bit) kills the process: its numbers have other meanings.
    let program = |rules, errno: i32| -> Result<BpfProgram, BackendError> {
        let action = SeccompAction::Errno(errno.cast_unsigned());
        let arch = std::env::consts::ARCH.try_into()?;
        SeccompFilter::new(rules, SeccompAction::Allow, action, arch)?.try_into()
    };
    // Numbers from bit 30 on are the x32 ABI: the same calls under other numbers.
    let step = |code, k, jt, jf| sock_filter { code, jt, jf, k };
    let (load, if_at_least, answer) = (0x20, 0x35, 0x06);
    let mut denied = vec![
        step(load, 0, 0, 0),
        step(if_at_least, 0x4000_0000, 0, 1),
        step(answer, libc::SECCOMP_RET_ERRNO | libc::EPERM.cast_unsigned(), 0, 0),
    ];
    denied.extend(program(rules, libc::EPERM)?);
    Ok([program(missing, libc::ENOSYS)?, denied])
}
