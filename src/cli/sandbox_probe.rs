//! The part of `agent doctor` that prints the sandbox profile and tries to escape from the sandbox.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::doctor::DoctorReport;
use crate::app::{self, StateDirs, WritableDirs};
use crate::config::LoadedConfig;
use agent_host::exec::{Command, Exec};
use agent_host::workspace::Workspace;
use agent_protocol::control::SessionControl;

const FIX: &str = "permit user namespaces (sysctl user.max_user_namespaces, \
                   kernel.unprivileged_userns_clone, kernel.apparmor_restrict_unprivileged_userns), \
                   or use a kernel from 6.12 on";

/// The line prints something only if the escape succeeds.
struct EscapeAttempt {
    what: &'static str,
    line: &'static str,
}

const ESCAPE_ATTEMPTS: &[EscapeAttempt] = &[
    EscapeAttempt {
        what: "a file outside the project cannot be written",
        line: "{ : > \"$OUTSIDE/.agent-doctor\"; } 2>/dev/null && rm \"$OUTSIDE/.agent-doctor\" && echo open",
    },
    EscapeAttempt {
        what: "times and modes of files outside cannot be changed",
        line: "touch -c -r \"$OUTSIDE\" \"$OUTSIDE\" 2>/dev/null && echo open",
    },
    EscapeAttempt {
        what: "the user's secret stores cannot be read",
        line: "while read -r store; do [ -n \"$store\" ] && find \"$store\" -type f 2>/dev/null | head -3 | \
               while read -r file; do head -c 1 \"$file\" 2>/dev/null | wc -c | grep -v '^0$'; done; \
               done <<< \"$STORES\"",
    },
    EscapeAttempt {
        what: "the agent's environment cannot be read",
        line: "cat \"/proc/$AGENT_PID/environ\" 2>/dev/null | head -c 1 | wc -c | grep -v '^0$'",
    },
    EscapeAttempt {
        what: "the agent cannot be sent a signal",
        line: "kill -0 \"$AGENT_PID\" 2>/dev/null && echo open",
    },
    EscapeAttempt {
        what: "git's hooks and .agent cannot be written",
        line: "for own in .git/hooks .agent; do [ -d $own ] && { : > $own/doctor; } 2>/dev/null && \
               rm $own/doctor && echo open; done",
    },
    EscapeAttempt {
        what: "services of this machine cannot be reached by their sockets",
        line: "for socket in /run/docker.sock /run/dbus/system_bus_socket \"/run/user/$UID/bus\" \
               \"$SSH_AUTH_SOCK\"; do [ -S \"$socket\" ] && echo \"$socket\"; done",
    },
];
const NETWORK_ATTEMPT: EscapeAttempt = EscapeAttempt {
    what: "the network cannot be reached",
    line: "exec 2>/dev/null; exec 3<>\"/dev/tcp/127.0.0.1/$PORT\" && echo open",
};

pub(super) async fn examine_sandbox(
    config: &LoadedConfig,
    workspace: &Workspace,
    own: &StateDirs,
    control: &SessionControl,
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
    let hidden = profile.hidden.iter().filter(|path| path.exists());
    let stores: Vec<String> = hidden.map(|path| path.display().to_string()).collect();
    let stores = stores.join("\n");
    let exec = Exec::new(&[]).with_sandbox(sandbox, std::sync::Arc::new(|_, _| None));
    let root = workspace.root();
    let home = std::env::home_dir().filter(|home| !root.starts_with(home) || root != home);
    let outside = home.as_deref().or(root.parent()).unwrap_or(Path::new("/"));
    // A service of this machine, outside the sandbox.
    let listener = TcpListener::bind(("127.0.0.1", 0));
    let port = listener.as_ref().ok().and_then(|listener| listener.local_addr().ok());
    let port = port.map_or(0, |address| address.port());
    let is_off = guarantees.network != "on";
    for trial in ESCAPE_ATTEMPTS.iter().chain(is_off.then_some(&NETWORK_ATTEMPT)) {
        let mut command =
            Command::new(trial.line.to_owned(), root.to_path_buf(), Duration::from_secs(10));
        command.environment = vec![
            ("OUTSIDE".to_owned(), outside.display().to_string()),
            ("STORES".to_owned(), stores.clone()),
            ("AGENT_PID".to_owned(), std::process::id().to_string()),
            ("PORT".to_owned(), port.to_string()),
        ];
        match exec.run(command, &control.cancellation_token()).await {
            Ok(outcome) if outcome.stdout.text.trim().is_empty() => report.pass("", trial.what),
            Ok(_) => report.warn("", &format!("OPEN: it is not true that {}; {FIX}", trial.what)),
            Err(error) => report.fail("sandbox", &error.to_string()),
        }
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
