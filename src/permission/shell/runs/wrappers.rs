//! Programs that run the command in their arguments, and how far their own options reach.

use super::super::word::Word;

/// A program that runs the command in its arguments.
pub(super) struct Wrapper {
    pub(super) names: &'static [&'static str],
    /// What it is told to do where it runs one; nothing where it does nothing else.
    pub(super) subs: &'static [&'static str],
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
    "--call",
    "--command",
    "--foreground",
    "--install",
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
    /// Where its arguments begin, in those of the program; nowhere where it is told to do something else.
    pub(super) fn begin(&self, arguments: &[Word]) -> Option<usize> {
        if self.subs.is_empty() {
            return Some(0);
        }
        let mut at = 0;
        while let Some(option) = arguments.get(at).filter(|word| word.text.starts_with('-')) {
            at += if self.with_value.contains(&option.text.as_str()) { 2 } else { 1 };
        }
        let sub = arguments.get(at)?;
        self.subs.contains(&sub.text.as_str()).then_some(at + 1)
    }

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
    Wrapper { names, subs: &[], with_value, n_own }
}

/// A program that runs a command where it is told to.
const fn runner(
    names: &'static [&'static str],
    subs: &'static [&'static str],
    with_value: &'static [&'static str],
    n_own: usize,
) -> Wrapper {
    Wrapper { names, subs, with_value, n_own }
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
    wrapper(&["eatmydata", "proxychains", "proxychains4"], &["-f"], 0),
    wrapper(&["cross-env", "valgrind"], &[], 0),
    wrapper(&["env-cmd"], &["-f", "--file", "-e", "--environments", "-r", "--rc-file"], 0),
    wrapper(&["dotenv"], &["-e", "-f", "--file"], 0),
    wrapper(&["fakeroot"], &["-l", "--lib", "--faked", "-s", "-i", "-b"], 0),
    wrapper(&["ssh-agent"], &["-a", "-E", "-O", "-P", "-t"], 0),
    wrapper(&["rlwrap"], &["-b", "-C", "-D", "-f", "-H", "-s"], 0),
    wrapper(&["tini"], &["-e", "-p"], 0),
    wrapper(&["dumb-init"], &["-r", "--rewrite"], 0),
    wrapper(&["envdir", "envuidgid", "gosu", "setuidgid", "su-exec"], &[], 1),
    wrapper(
        &["chpst", "softlimit"],
        &[
            "-a", "-b", "-c", "-d", "-e", "-f", "-l", "-L", "-m", "-n", "-o", "-p", "-r", "-s",
            "-t", "-u", "-U", "-/",
        ],
        0,
    ),
    runner(&["rustup"], &["run"], &[], 1),
    runner(
        &["npm", "pnpm", "yarn"],
        &["exec", "x"],
        &["-w", "--workspace", "-p", "--package", "--prefix", "-C", "--dir", "--filter"],
        0,
    ),
    runner(
        &["uv"],
        &["run"],
        &[
            "-p",
            "--python",
            "--directory",
            "--env-file",
            "--extra",
            "--group",
            "--index",
            "--package",
            "--project",
            "--with",
            "--with-editable",
            "--with-requirements",
        ],
        0,
    ),
    runner(
        &["poetry", "pipenv", "hatch", "pdm", "rye", "pixi"],
        &["run"],
        &["-C", "--directory", "-P", "-p", "--project", "-e", "--env", "--environment"],
        0,
    ),
    runner(
        &["conda", "mamba", "micromamba"],
        &["run"],
        &["-n", "--name", "-p", "--prefix", "--cwd"],
        0,
    ),
    runner(&["bundle", "bundler"], &["exec"], &["--gemfile"], 0),
    runner(&["mise", "rtx"], &["exec", "x"], &["-C", "--cd", "-E", "--env"], 0),
    runner(&["direnv"], &["exec"], &[], 1),
];
