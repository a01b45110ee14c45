//! Programs that run the command in their arguments, and how far their own options reach.

/// A program that runs the command in its arguments.
pub(super) struct Wrapper {
    pub(super) names: &'static [&'static str],
    /// Options with a value in the next word.
    pub(super) with_value: &'static [&'static str],
    /// Arguments of its own, before the command.
    pub(super) n_own: usize,
}

/// Options of wrappers without a value.
const WITHOUT_VALUE: &[&str] = &[
    "-",
    "-0",
    "-E",
    "-H",
    "-a",
    "-b",
    "-c",
    "-e",
    "-f",
    "-ff",
    "-i",
    "-k",
    "-l",
    "-n",
    "-o",
    "-p",
    "-q",
    "-qq",
    "-r",
    "-s",
    "-t",
    "-u",
    "-v",
    "-w",
    "-x",
    "--foreground",
    "--ignore-environment",
    "--no-run-if-empty",
    "--null",
    "--preserve-status",
    "--verbose",
    "--fork",
    "--wait",
    "--shared",
    "--exclusive",
    "--nonblock",
    "--portability",
    "--non-interactive",
];

impl Wrapper {
    /// It is certain how far this option reaches.
    pub(super) fn knows(&self, option: &str) -> bool {
        let has_value_inside = option.starts_with("--") && option.contains('=')
            || self.with_value.iter().any(|own| own.len() == 2 && option.starts_with(own));
        let is_number = option[1..].bytes().all(|byte| byte.is_ascii_digit());
        has_value_inside
            || is_number
            || self.with_value.contains(&option)
            || WITHOUT_VALUE.contains(&option)
    }
}

const fn wrapper(
    names: &'static [&'static str],
    with_value: &'static [&'static str],
    n_own: usize,
) -> Wrapper {
    Wrapper { names, with_value, n_own }
}

pub(super) const WRAPPERS: &[Wrapper] = &[
    wrapper(
        &["builtin", "busybox", "catchsegv", "command", "coproc", "nocache", "nohup", "setarch"],
        &[],
        0,
    ),
    wrapper(&["i386", "linux32", "linux64", "x86_64"], &[], 0),
    wrapper(
        &["setpriv"],
        &[
            "--ambient-caps",
            "--apparmor-profile",
            "--bounding-set",
            "--egid",
            "--euid",
            "--groups",
            "--inh-caps",
            "--pdeathsig",
            "--regid",
            "--reuid",
            "--rgid",
            "--ruid",
            "--securebits",
            "--selinux-label",
        ],
        0,
    ),
    wrapper(&["nsenter"], &["-t", "--target", "-S", "--setuid", "-G", "--setgid"], 0),
    wrapper(&["setsid", "toybox", "unbuffer", "winpty"], &[], 0),
    wrapper(&["time"], &["-f", "-o"], 0),
    wrapper(&["exec"], &["-a"], 0),
    wrapper(&["env"], &["-u", "--unset", "-C", "--chdir", "-S", "--split-string"], 0),
    wrapper(&["nice"], &["-n", "--adjustment"], 0),
    wrapper(&["ionice"], &["-c", "-n", "--class", "--classdata"], 0),
    wrapper(&["chrt", "taskset"], &[], 1),
    wrapper(&["stdbuf"], &["-i", "-o", "-e"], 0),
    wrapper(&["timeout"], &["-k", "-s", "--kill-after", "--signal"], 1),
    wrapper(
        &["xargs"],
        &[
            "-I",
            "-n",
            "-P",
            "-L",
            "-d",
            "-a",
            "-E",
            "-s",
            "--max-args",
            "--max-procs",
            "--arg-file",
        ],
        0,
    ),
    wrapper(&["sudo", "doas"], &["-u", "-g", "-C", "-p", "-h", "-r", "-t", "-D", "-R", "-T"], 0),
    wrapper(
        &["strace", "ltrace"],
        &["-e", "-o", "-s", "-p", "-u", "-P", "-a", "-I", "-O", "-S"],
        0,
    ),
    wrapper(&["flock"], &["-w", "-E", "--timeout"], 1),
    wrapper(&["watch"], &["-n", "--interval", "-q"], 0),
    wrapper(&["unshare", "bwrap", "firejail", "dbus-run-session", "prlimit", "xvfb-run"], &[], 0),
    wrapper(&["faketime"], &["-f"], 1),
    wrapper(&["chroot"], &["--userspec", "--groups"], 1),
];
