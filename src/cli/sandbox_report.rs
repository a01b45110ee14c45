//! The part of `agent doctor` that prints what the sandbox enforces.

use std::path::PathBuf;

use super::doctor::DoctorReport;
use crate::app::{self, StateDirs, WritableDirs};
use crate::config::LoadedConfig;
use agent_host::workspace::Workspace;

const FIX: &str = "permit user namespaces (sysctl user.max_user_namespaces, \
                   kernel.unprivileged_userns_clone, kernel.apparmor_restrict_unprivileged_userns), \
                   or use a kernel from 6.12 on";

pub(super) fn examine_sandbox(
    config: &LoadedConfig,
    workspace: &Workspace,
    own: &StateDirs,
    report: &mut DoctorReport,
) {
    let opened = WritableDirs::from_workspace(&config.config, workspace)
        .and_then(|writable| app::open_sandbox(config, &writable, own));
    let (sandbox, guarantees) = match opened {
        Ok(opened) => opened,
        Err(error) => return report.fail("sandbox", &error.to_string()),
    };
    let Some(sandbox) = sandbox else {
        let why = guarantees.gaps.join("; ");
        let effect = "commands need --allow 'Bash(…)' or --permission-mode full";
        return report.warn("sandbox", &format!("none ({why}): {effect}; {FIX}"));
    };
    report.pass("sandbox", &format!("{}, network {}", guarantees.backend, guarantees.network));
    for gap in &guarantees.gaps {
        report.warn("sandbox", gap);
    }
    let profile = sandbox.profile();
    for (what, paths) in [
        ("writable", &profile.writable),
        ("read-only", &profile.read_only),
        ("hidden", &profile.hidden),
    ] {
        report.pass("", &format!("{what}: {}", describe_paths(paths)));
    }
    if !profile.host_ports.is_empty() {
        let ports: Vec<String> = profile.host_ports.iter().map(u16::to_string).collect();
        report.pass("", &format!("ports of this machine: {}", ports.join(", ")));
    }
}

fn describe_paths(paths: &[PathBuf]) -> String {
    let existing = paths.iter().filter(|path| path.symlink_metadata().is_ok());
    let mut shown: Vec<String> = existing.map(|path| path.display().to_string()).collect();
    let missing = paths.len() - shown.len();
    if missing > 0 {
        shown.push(format!("{missing} that do not exist"));
    }
    shown.join(", ")
}
