//! What only Linux has: namespaces, mounts, Landlock and seccomp, and the processes that use them.

mod channel;
mod confine;
mod mounts;
mod probe;
mod sockets;
mod standby;
mod supervisor;
pub(in crate::exec) mod sys;

pub(in crate::exec) use channel::{Supervisor, SupervisorMessage};
pub(super) use probe::mount_proc_in_child;
pub(in crate::exec) use sockets::SocketRequest;
pub(super) use sockets::{listening_ports, refused_connections};
pub(super) use standby::StandbyProcess;
pub(super) use supervisor::main;
pub(in crate::exec) use supervisor::{has_children, is_readable, kill_children, wait_any};
