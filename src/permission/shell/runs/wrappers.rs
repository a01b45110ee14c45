//! Programs that run the command in their arguments, and how far their own options reach.

use super::super::word::{Kind, Word};
use super::is_assignment;

/// A program that runs the command in its arguments.
pub(super) struct Wrapper {
    pub(super) names: &'static [&'static str],
    /// What it is told to do where it runs one; nothing where it does nothing else.
    subs: &'static [&'static str],
    /// Options with a value in the next word.
    with_value: &'static [&'static str],
    /// Its other options; those that many programs have are not named again.
    others: &'static [(Takes, &'static [&'static str])],
    /// Arguments of its own, before the command.
    n_own: usize,
    /// It puts the words of the command together and tells them to a shell.
    joins: bool,
}

/// What an option of a wrapper is followed by, or makes of the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Takes {
    Nothing,
    /// A value, in the next word.
    Value,
    /// Two of them.
    Two,
    /// A text that a shell runs.
    Text,
    /// A text that stands for arguments: they are its words.
    Split,
    /// Nothing: the words of the command are put together and told to a shell.
    Joins,
    /// Nothing: the words of the command are run as they are.
    Words,
    /// Nothing: the command is a module, run by this.
    By(&'static [&'static str]),
}

/// What a wrapper makes of its arguments.
#[derive(Debug, Default)]
pub(super) struct Followed {
    /// Where the command begins.
    pub(super) at: usize,
    /// What runs it.
    pub(super) by: &'static [&'static str],
    /// Its words are put together and told to a shell.
    pub(super) is_joined: bool,
    /// Texts that a shell runs.
    pub(super) texts: Vec<Word>,
    /// Arguments that it has instead of its own: a text among them stands for several.
    pub(super) instead: Option<Vec<Word>>,
    /// What is set for the command.
    pub(super) sets: Vec<Word>,
    /// That it begins there is a guess, for it is not certain that the program is told to run one.
    pub(super) is_guess: bool,
    /// Places where it may begin instead, behind an option that is not known: perhaps that takes a value.
    pub(super) later: std::ops::Range<usize>,
    /// Texts that may be some that a shell runs.
    pub(super) may_be_texts: Vec<Word>,
    /// How far each option reaches is known.
    pub(super) is_known: bool,
}

/// All words up to `--` are its own.
const UP_TO_DASHES: usize = usize::MAX;
/// So many words behind the place where a command seems to begin it may begin instead.
const MOST_LATER: usize = 3;
/// Words before what a runner is told to do: `pnpm recursive exec`, `yarn workspace x exec`, `uv tool run`.
const LEAD_THERE: &[&str] =
    &["foreach", "m", "multi", "recursive", "tool", "workspace", "workspaces"];

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
    "-vv",
    "-w",
    "-x",
    "-y",
    "--foreground",
    "--install",
    "--ignore-environment",
    "--no-run-if-empty",
    "--null",
    "--preserve-status",
    "--quiet",
    "--silent",
    "--verbose",
    "--fork",
    "--wait",
    "--shared",
    "--exclusive",
    "--nonblock",
    "--portability",
    "--non-interactive",
    "--offline",
    "--yes",
];

impl Wrapper {
    /// Follows its arguments to the command; nowhere where it is told to do something else.
    pub(super) fn follow(&self, arguments: &[Word]) -> Option<Followed> {
        let mut found = Followed { is_joined: self.joins, is_known: true, ..Followed::default() };
        let mut n_own = self.n_own;
        let mut is_told = self.subs.is_empty();
        // An option that is not known stands before this.
        let mut is_odd = false;
        // Behind `--` stand no more options.
        let mut is_over = false;
        while let Some(word) = arguments.get(found.at) {
            let text = word.text.as_str();
            let is_option = text.starts_with('-') && text.len() > 1 && !is_over;
            if is_option && text == "--" {
                found.at += 1;
                is_over = is_told;
                if is_told && self.n_own == UP_TO_DASHES {
                    n_own = 0;
                }
            } else if is_option {
                match self.takes(word) {
                    (Some(Takes::Text), Some(attached)) => found.texts.push(attached),
                    (Some(Takes::Text), None) => {
                        found.at += 1;
                        found.texts.extend(arguments.get(found.at).cloned());
                    }
                    (Some(Takes::Split), attached) => {
                        let own = &arguments[..found.at];
                        let rest = &arguments[found.at + 1..];
                        let (text, rest) = match attached {
                            Some(text) => (text, rest),
                            None => rest.split_first().map(|(text, rest)| (text.clone(), rest))?,
                        };
                        let words = split(&text);
                        // (It has quotes of its own, much like those of a shell.)
                        if words.iter().any(|word| word.kind > text.kind) {
                            found.may_be_texts.push(text);
                        }
                        found.instead = Some([own, &words, rest].concat());
                        return Some(found);
                    }
                    (Some(Takes::Value), None) => found.at += 1,
                    (Some(Takes::Two), None) => found.at += 2,
                    (Some(Takes::Joins), _) => found.is_joined = true,
                    (Some(Takes::Words), _) => found.is_joined = false,
                    (Some(Takes::By(program)), _) => found.by = program,
                    (Some(Takes::Nothing | Takes::Value | Takes::Two), _) => {}
                    (None, _) => {
                        is_odd = true;
                        found.is_known = false;
                    }
                }
                found.at += 1;
            } else if !is_told {
                if self.subs.contains(&text) {
                    is_told = true;
                    is_odd = false;
                } else if found.is_known && word.is_literal() && !LEAD_THERE.contains(&text) {
                    return None;
                } else {
                    found.is_known = false;
                    found.is_guess = true;
                    found.may_be_texts.extend(has_blank(word).then(|| word.clone()));
                }
                found.at += 1;
            } else if self.is_env() && text.contains('=') || is_assignment(text) {
                found.sets.push(word.clone());
                found.at += 1;
            } else if n_own > 0 {
                n_own -= 1;
                found.at += 1;
            } else {
                break;
            }
        }
        let end = arguments.len();
        found.at = found.at.min(end);
        // (To npm a switch may be told what it is.)
        let is_switch = |word: &Word| matches!(word.text.as_str(), "false" | "true");
        if found.at > 0
            && arguments[found.at - 1].text.starts_with('-')
            && arguments[found.at - 1].text != "--"
            && arguments.get(found.at).is_some_and(is_switch)
        {
            is_odd = true;
            found.is_known = false;
        }
        if is_odd {
            found.later = (found.at + 1).min(end)..(found.at + 1 + MOST_LATER).min(end);
            let is_text = |at: usize| {
                at == found.at
                    || matches!(self.takes(&arguments[at - 1]), (Some(Takes::Text), None))
            };
            let places = (found.at..found.later.end).filter(|at| is_text(*at));
            let texts = places.map(|at| arguments[at].clone()).filter(has_blank);
            found.may_be_texts.extend(texts);
        }
        is_told.then_some(found)
    }

    pub(super) fn is_env(&self) -> bool {
        self.names.contains(&"env")
    }

    /// What this option takes, and its value where that is attached; nothing where it is not known.
    fn takes(&self, option: &Word) -> (Option<Takes>, Option<Word>) {
        let text = option.text.as_str();
        let part = |text: &str| Some(Word { text: text.to_owned(), kind: option.kind });
        if !option.is_literal() {
            return (None, None);
        }
        if let Some(takes) = self.named(text) {
            return (Some(takes), None);
        }
        if text.starts_with("--") {
            let (name, value) =
                text.split_once('=').map_or((text, None), |(name, value)| (name, Some(value)));
            // (npm took a beginning for the whole.)
            let is_text = |(takes, names): &(Takes, &[&str])| {
                matches!(takes, Takes::Text | Takes::Split)
                    && names.iter().any(|own| own.starts_with(name))
            };
            let takes = match self.others.iter().find(|other| is_text(other)) {
                Some((takes, _)) => Some(*takes),
                None => value.and(Some(self.named(name).unwrap_or(Takes::Nothing))),
            };
            return (takes, value.and_then(part));
        }
        // `-10`, `-rc`, `-n1`
        if text[1..].bytes().all(|byte| byte.is_ascii_digit()) {
            return (Some(Takes::Nothing), None);
        }
        let mut takes = Takes::Nothing;
        for (at, letter) in text.char_indices().skip(1) {
            let rest = &text[at + letter.len_utf8()..];
            match self.named(&format!("-{letter}")) {
                Some(Takes::Nothing) => {}
                Some(own @ (Takes::Value | Takes::Two | Takes::Text | Takes::Split))
                    if rest.is_empty() =>
                {
                    return (Some(own), None);
                }
                Some(own @ (Takes::Text | Takes::Split)) => {
                    return (Some(own), part(rest.strip_prefix('=').unwrap_or(rest)));
                }
                Some(Takes::Value | Takes::Two) => return (Some(takes), part(rest)),
                Some(other) => takes = other,
                None => return (None, None),
            }
        }
        (Some(takes), None)
    }

    fn named(&self, option: &str) -> Option<Takes> {
        let mut others = self.others.iter();
        if self.with_value.contains(&option) {
            Some(Takes::Value)
        } else if let Some((takes, _)) = others.find(|(_, names)| names.contains(&option)) {
            Some(*takes)
        } else {
            WITHOUT_VALUE.contains(&option).then_some(Takes::Nothing)
        }
    }
}

/// The words that `env -S 'a b'` makes of its text.
fn split(text: &Word) -> Vec<Word> {
    // It has quotes and variables of its own.
    let is_simple = !text.text.contains(['\\', '\'', '"', '$']);
    let kind = text.kind.max(if is_simple { Kind::Literal } else { Kind::Variable });
    let words = text.text.split_ascii_whitespace();
    words.map(|text| Word { text: text.to_owned(), kind }).collect()
}

fn has_blank(word: &Word) -> bool {
    word.text.contains(' ')
}

const fn wrapper(
    names: &'static [&'static str],
    with_value: &'static [&'static str],
    n_own: usize,
) -> Wrapper {
    Wrapper { names, subs: &[], with_value, others: &[], n_own, joins: false }
}

/// A program that runs a command where it is told to.
const fn runner(
    names: &'static [&'static str],
    subs: &'static [&'static str],
    with_value: &'static [&'static str],
    others: &'static [(Takes, &'static [&'static str])],
) -> Wrapper {
    Wrapper { names, subs, with_value, others, n_own: 0, joins: false }
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
    Wrapper {
        others: &[(Takes::Split, &["-S", "--split-string"])],
        ..wrapper(&["env"], &["-u", "--unset", "-C", "--chdir"], 0)
    },
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
    Wrapper {
        others: &[(Takes::Text, &["-c", "--command"])],
        ..wrapper(&["flock"], &["-w", "-E", "--timeout"], 1)
    },
    Wrapper {
        others: &[
            (Takes::Words, &["-x", "--exec"]),
            (
                Takes::Nothing,
                &[
                    "-C",
                    "-d",
                    "-g",
                    "--beep",
                    "--chgexit",
                    "--color",
                    "--differences",
                    "--errexit",
                    "--no-color",
                    "--no-rerun",
                    "--no-title",
                    "--precise",
                ],
            ),
        ],
        joins: true,
        ..wrapper(&["watch"], &["-n", "--interval", "-q", "--equexit", "-s", "--shotsdir"], 0)
    },
    wrapper(&["unshare", "firejail", "dbus-run-session", "prlimit", "xvfb-run"], &[], 0),
    Wrapper {
        others: &[(
            Takes::Two,
            &[
                "--bind",
                "--bind-try",
                "--dev-bind",
                "--dev-bind-try",
                "--ro-bind",
                "--ro-bind-try",
                "--setenv",
                "--symlink",
            ],
        )],
        ..wrapper(
            &["bwrap"],
            &[
                "--chdir",
                "--dev",
                "--dir",
                "--gid",
                "--hostname",
                "--proc",
                "--tmpfs",
                "--uid",
                "--unsetenv",
            ],
            0,
        )
    },
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
    Wrapper { n_own: 1, ..runner(&["rustup"], &["run"], &[], &[]) },
    // (`-p` is not `--package` here: it takes nothing.)
    runner(&["npm"], &["exe", "exec", "x"], NPM_VALUES, NPM),
    Wrapper { n_own: 1, joins: true, ..runner(&["npm"], &["explore"], NPM_VALUES, NPM) },
    runner(
        &["npx"],
        &[],
        &[
            "-C",
            "-L",
            "-m",
            "-p",
            "-w",
            "--cache",
            "--globalconfig",
            "--location",
            "--loglevel",
            "--node-options",
            "--package",
            "--prefix",
            "--reg",
            "--registry",
            "--script-shell",
            "--shell",
            "--tag",
            "--userconfig",
            "--workspace",
        ],
        NPM,
    ),
    runner(&["pnpm"], &["dlx", "exec"], PNPM_VALUES, PNPM),
    runner(&["pnpx"], &[], PNPM_VALUES, PNPM),
    runner(
        &["yarn"],
        &["dlx", "exec"],
        &["-p", "--cwd", "--from", "--include", "--exclude", "--jobs", "-j", "--package"],
        &[(
            Takes::Nothing,
            &[
                "-A",
                "-R",
                "-W",
                "--all",
                "--interlaced",
                "--no-private",
                "--parallel",
                "--recursive",
                "--topological",
                "--topological-dev",
                "--worktree",
            ],
        )],
    ),
    runner(&["bun"], &["x"], &["-p", "--package", "--cwd"], BUN),
    runner(&["bunx"], &[], &["-p", "--package"], BUN),
    runner(&["uv"], &["run"], UV_VALUES, UV),
    runner(&["uvx"], &[], UV_VALUES, UV),
    runner(
        &["pipx"],
        &["run"],
        &["--index-url", "--pip-args", "--python", "--spec", "--with"],
        &[(Takes::Nothing, &["--no-cache", "--no-path-check", "--system-site-packages"])],
    ),
    runner(
        &["poetry", "pipenv", "hatch", "pdm", "rye", "pixi"],
        &["run"],
        &[
            "-C",
            "-P",
            "-e",
            "-p",
            "--color",
            "--directory",
            "--env",
            "--environment",
            "--manifest-path",
            "--project",
            "--python",
        ],
        &[(
            Takes::Nothing,
            &[
                "--as-is",
                "--clean-env",
                "--executable",
                "--frozen",
                "--locked",
                "--no-ansi",
                "--no-cache",
                "--no-install",
                "--no-interaction",
                "--no-lockfile-update",
                "--no-plugins",
                "--no-progress",
                "--site-packages",
                "--skip-deps",
            ],
        )],
    ),
    runner(
        &["conda", "mamba", "micromamba"],
        &["run"],
        &["-a", "-e", "-n", "-p", "-r", "--attach", "--cwd", "--env", "--name", "--prefix"],
        &[(
            Takes::Nothing,
            &[
                "--clean-env",
                "--debug-wrapper-scripts",
                "--dev",
                "--live-stream",
                "--no-capture-output",
            ],
        )],
    ),
    runner(
        &["bundle", "bundler"],
        &["exec"],
        &["--gemfile"],
        &[(Takes::Nothing, &["--keep-file-descriptors", "--no-color"])],
    ),
    Wrapper {
        n_own: UP_TO_DASHES,
        ..runner(
            &["mise", "rtx"],
            &["exec", "x"],
            &["-C", "-E", "-P", "-j", "--cd", "--env", "--jobs", "--log-level", "--profile"],
            &[
                (Takes::Text, &["-c", "--command"]),
                (Takes::Nothing, &["--fresh-env", "--no-prepare", "--raw"]),
            ],
        )
    },
    Wrapper { n_own: 1, ..runner(&["direnv"], &["exec"], &[], &[]) },
    runner(&["asdf", "goenv", "jenv", "nodenv", "pyenv", "rbenv"], &["exec"], &[], &[]),
    runner(&["volta"], &["run"], &["--node", "--npm", "--pnpm", "--yarn"], &[]),
    runner(&["fnm"], &["exec"], &["--using"], &[]),
    // (One of two programs of this name, the other one runs what it is told without that word.)
    runner(&["dotenv"], &["run"], &["-e", "-f", "--file"], &[]),
];

const NPM_VALUES: &[&str] = &[
    "-C",
    "-L",
    "-m",
    "-w",
    "--cache",
    "--globalconfig",
    "--location",
    "--loglevel",
    "--node-options",
    "--package",
    "--prefix",
    "--reg",
    "--registry",
    "--script-shell",
    "--tag",
    "--userconfig",
    "--workspace",
];

/// Options of npm besides those with a value.
const NPM: &[(Takes, &[&str])] = &[
    (Takes::Text, &["-c", "--call"]),
    (
        Takes::Nothing,
        &[
            "-B",
            "-D",
            "-O",
            "-P",
            "-S",
            "-d",
            "-dd",
            "-ddd",
            "-g",
            "-iwr",
            "-ws",
            "--always-spawn",
            "--color",
            "--force",
            "--global",
            "--ignore-existing",
            "--ignore-scripts",
            "--include-workspace-root",
            "--json",
            "--legacy-peer-deps",
            "--no",
            "--no-audit",
            "--no-color",
            "--no-fund",
            "--no-install",
            "--no-progress",
            "--no-update-notifier",
            "--no-yes",
            "--parseable",
            "--prefer-offline",
            "--prefer-online",
            "--shell-auto-fallback",
            "--workspaces",
        ],
    ),
];

const PNPM_VALUES: &[&str] = &[
    "-C",
    "-F",
    "--allow-build",
    "--changed-files-ignore-pattern",
    "--dir",
    "--filter",
    "--filter-prod",
    "--loglevel",
    "--package",
    "--registry",
    "--reporter",
    "--resume-from",
    "--store-dir",
    "--test-pattern",
    "--workspace-concurrency",
];

/// Options of pnpm besides those with a value.
const PNPM: &[(Takes, &[&str])] = &[
    (Takes::Joins, &["-c", "--shell-mode"]),
    (
        Takes::Nothing,
        &[
            "-w",
            "--aggregate-output",
            "--color",
            "--no-bail",
            "--no-color",
            "--no-reporter-hide-prefix",
            "--no-sort",
            "--parallel",
            "--prefer-offline",
            "--recursive",
            "--report-summary",
            "--reverse",
            "--sort",
            "--stream",
            "--use-stderr",
            "--workspace-root",
        ],
    ),
];

const BUN: &[(Takes, &[&str])] = &[(Takes::Nothing, &["--bun", "--no-install"])];

const UV_VALUES: &[&str] = &[
    "-C",
    "-P",
    "-f",
    "-i",
    "-p",
    "-w",
    "--allow-insecure-host",
    "--cache-dir",
    "--color",
    "--config-file",
    "--config-setting",
    "--default-index",
    "--directory",
    "--env-file",
    "--exclude-newer",
    "--extra",
    "--extra-index-url",
    "--find-links",
    "--from",
    "--group",
    "--index",
    "--index-strategy",
    "--index-url",
    "--keyring-provider",
    "--link-mode",
    "--no-binary-package",
    "--no-build-isolation-package",
    "--no-build-package",
    "--no-extra",
    "--no-group",
    "--only-group",
    "--package",
    "--prerelease",
    "--project",
    "--python",
    "--python-platform",
    "--python-preference",
    "--refresh-package",
    "--reinstall-package",
    "--resolution",
    "--upgrade-package",
    "--with",
    "--with-editable",
    "--with-requirements",
];

/// Options of uv besides those with a value.
const UV: &[(Takes, &[&str])] = &[
    (Takes::By(&["python", "-m"]), &["-m", "--module"]),
    (
        Takes::Nothing,
        &[
            "-U",
            "--active",
            "--all-extras",
            "--all-groups",
            "--all-packages",
            "--compile-bytecode",
            "--dev",
            "--exact",
            "--frozen",
            "--gui-script",
            "--inexact",
            "--isolated",
            "--locked",
            "--managed-python",
            "--native-tls",
            "--no-active",
            "--no-binary",
            "--no-build",
            "--no-build-isolation",
            "--no-cache",
            "--no-config",
            "--no-default-groups",
            "--no-dev",
            "--no-editable",
            "--no-env-file",
            "--no-index",
            "--no-managed-python",
            "--no-progress",
            "--no-project",
            "--no-python-downloads",
            "--no-sources",
            "--no-sync",
            "--only-dev",
            "--preview",
            "--refresh",
            "--reinstall",
            "--script",
            "--upgrade",
        ],
    ),
];
