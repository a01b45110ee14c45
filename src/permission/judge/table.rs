//! What is known of programs: one table, a line for each thing that makes a command what it is.
//!
//! A command may stand in several lines, and each that fits counts. What stands in none is a program like
//! any other: it runs in the sandbox.

use super::args::Args;
use super::everything;
use crate::permission::shell::Input;

/// What a command is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Class {
    /// Only reads, and runs nothing else.
    Reads,
    /// Changes the repository's own files.
    Git,
    /// Waits for a person at a terminal.
    Interactive,
    /// Never ends by itself.
    Endless,
    /// Talks to other machines.
    Network,
    /// Takes away what nobody can bring back.
    Destructive,
    /// Never run, whatever the mode and the rules.
    Never,
}

/// When a line of the table fits; all of `any` and `not` are options or words.
pub(super) enum When {
    /// Always.
    Always,
    /// It has one of these options: `-x` also in `-axy`, `--long` also with a value or shortened.
    Has(&'static [&'static str]),
    /// It has nothing that could be one of these.
    HasNot(&'static [&'static str]),
    /// Its first words that are no options are these, blanks between them.
    Sub(&'static [&'static str]),
    /// The same, and one of these options.
    SubHas(&'static [&'static str], &'static [&'static str]),
    /// The same, and none of these options.
    SubHasNot(&'static [&'static str], &'static [&'static str]),
    /// The same, and nothing that could be one of these options.
    SubMayNot(&'static [&'static str], &'static [&'static str]),
    /// This is so.
    Is(fn(&Args<'_>) -> bool),
}

/// A line of the table.
pub(super) struct Entry {
    pub(super) programs: &'static [&'static str],
    pub(super) class: Class,
    pub(super) when: When,
    /// What it would do, and the better way.
    pub(super) why: &'static str,
}

const fn entry(
    class: Class,
    programs: &'static [&'static str],
    when: When,
    why: &'static str,
) -> Entry {
    Entry { programs, class, when, why }
}

use Class::{Destructive, Endless, Git, Interactive, Network, Never, Reads};
use When::{Always, Has, HasNot, Is, Sub, SubHas, SubHasNot, SubMayNot};

pub(super) const EVERYTHING: &str =
    "it would delete the whole project, home or system; delete what you mean by name";
const DISK: &str = "it would overwrite a disk";
const MACHINE: &str = "it would stop the machine";
const TALKS: &str = "it talks to other machines";
const FETCHES: &str = "it fetches from other machines";
const NOBODY: &str = "nobody sits at a terminal to answer it";
const NEVER_ENDS: &str = "it never ends by itself: `timeout 10 …`, or background: true";
const LOST: &str = "what it removes can not be brought back";
const UNSAVED: &str = "changes that were not committed would be lost";
const REMOTE: &str = "it changes what others see";

/// Entry points of package managers that fetch.
const INSTALLS: &[&str] = &[
    "install",
    "i",
    "ci",
    "add",
    "update",
    "upgrade",
    "up",
    "outdated",
    "publish",
    "login",
    "audit",
    "view",
    "info",
    "search",
    "dlx",
    "create",
    "link",
    "dedupe",
    "unpublish",
    "whoami",
    "fund",
    "x",
];

pub(super) const TABLE: &[Entry] = &[
    // Never.
    entry(Never, &["rm"], Is(everything::removes), EVERYTHING),
    entry(Never, &["git"], Is(everything::removes_by_git), EVERYTHING),
    entry(Never, &["find"], Is(everything::finds), EVERYTHING),
    entry(
        Never,
        &["chmod", "chown", "chgrp"],
        Is(everything::changes),
        "it would change every file of the home or system; name the files you mean",
    ),
    entry(
        Never,
        &["mv"],
        Is(everything::moves),
        "it would move the whole project, home or system away",
    ),
    entry(
        Never,
        &["sudo", "su", "doas", "pkexec", "runuser"],
        Always,
        "commands run as the user only; ask the person to do what needs other rights",
    ),
    entry(
        Never,
        &[
            "mkfs",
            "fdisk",
            "sfdisk",
            "cfdisk",
            "gdisk",
            "sgdisk",
            "parted",
            "wipefs",
            "mkswap",
            "blkdiscard",
            "cryptsetup",
        ],
        Always,
        DISK,
    ),
    entry(
        Never,
        &["dd"],
        Is(|args| {
            args.words()
                .any(|word| word.after("of=").is_some_and(|file| everything::is_device(&file.text)))
        }),
        "it would overwrite a device",
    ),
    entry(
        Never,
        &["shred", "tee", "cp", "mv"],
        Is(|args| args.operands().any(|word| everything::is_device(&word.text))),
        "it would overwrite a device",
    ),
    entry(Never, &["shutdown", "reboot", "halt", "poweroff"], Always, MACHINE),
    entry(
        Never,
        &["systemctl", "loginctl"],
        Sub(&["poweroff", "reboot", "halt", "kexec", "suspend", "hibernate"]),
        MACHINE,
    ),
    entry(Never, &["init", "telinit"], Sub(&["0", "6"]), MACHINE),
    entry(
        Never,
        &["kill"],
        Is(|args| {
            args.words().skip(1).any(|word| word.text == "-1")
                || args.words().next().is_some_and(|word| word.text == "-1")
                    && args.words().count() == 1
        }),
        "it would end every process of the user",
    ),
    // Destructive: files.
    entry(Destructive, &["rm", "unlink", "shred"], Is(|args| !args.removes_literal_files()), LOST),
    entry(
        Destructive,
        &["mv"],
        Is(|args| !args.moves_literal_files() && !args.moves_folder_to_free_name()),
        "folders, patterns and what is not known by name are moved over what is there",
    ),
    entry(
        Destructive,
        &["chmod", "chown", "chgrp", "setfacl"],
        Has(&["-R", "--recursive"]),
        "it changes every file below; name the files you mean",
    ),
    entry(Destructive, &["truncate"], Is(|args| args.empties()), LOST),
    entry(Destructive, &["find"], Has(&["-delete"]), LOST),
    entry(
        Destructive,
        &["rsync"],
        Has(&["--delete", "--delete-before", "--delete-after", "--remove-source-files"]),
        LOST,
    ),
    entry(Destructive, &["rclone"], Sub(&["delete", "purge", "sync"]), LOST),
    entry(Destructive, &["crontab"], Has(&["-r"]), LOST),
    // Destructive: git.
    entry(Destructive, &["git"], SubHas(&["reset"], &["--hard", "--merge"]), UNSAVED),
    entry(
        Destructive,
        &["git"],
        Is(|args| args.sub_is("clean") && !args.cleans_nothing()),
        "files that git does not know would be lost; `git clean -n` shows which",
    ),
    entry(
        Destructive,
        &["git"],
        Is(|args| args.sub_is("checkout") && args.checks_out_files()),
        UNSAVED,
    ),
    entry(
        Destructive,
        &["git"],
        SubHas(&["switch"], &["-f", "--force", "--discard-changes"]),
        UNSAVED,
    ),
    entry(
        Destructive,
        &["git"],
        Is(|args| args.sub_is("restore") && args.restores_files()),
        UNSAVED,
    ),
    entry(Destructive, &["git"], SubHas(&["checkout-index"], &["-f", "--force"]), UNSAVED),
    entry(Destructive, &["git"], SubHas(&["read-tree"], &["--reset"]), UNSAVED),
    entry(
        Destructive,
        &["git"],
        Is(|args| args.sub_is("apply") && args.applies_back()),
        "it takes changes away: `Edit`, or `git revert` for what is committed",
    ),
    entry(
        Destructive,
        &["git"],
        Sub(&[
            "stash drop",
            "stash clear",
            "reflog expire",
            "reflog delete",
            "filter-branch",
            "filter-repo",
            "prune",
        ]),
        LOST,
    ),
    entry(Destructive, &["git"], SubHas(&["branch"], &["-D"]), LOST),
    // (`git branch -M main` gives a new repository its name.)
    entry(
        Destructive,
        &["git"],
        Is(|args| args.sub_is("branch") && args.has("-M") && args.operands().count() > 2),
        LOST,
    ),
    entry(Destructive, &["git"], Is(|args| args.deletes_branch_by_force()), LOST),
    entry(Destructive, &["git"], SubHas(&["tag"], &["-d", "--delete"]), LOST),
    entry(Destructive, &["git"], SubHas(&["update-ref"], &["-d", "--stdin"]), LOST),
    entry(Destructive, &["git"], SubHas(&["gc"], &["--prune"]), LOST),
    entry(
        Destructive,
        &["git"],
        SubHas(&["worktree remove", "submodule deinit"], &["-f", "--force"]),
        UNSAVED,
    ),
    entry(Destructive, &["git"], Is(|args| args.sub_is("push") && args.pushes_over()), REMOTE),
    entry(
        Destructive,
        &["git"],
        Is(|args| args.sub_is("rm") && !args.has("--cached") && !args.removes_literal_files()),
        LOST,
    ),
    entry(
        Destructive,
        &["git"],
        Is(|args| {
            args.sub_is("mv") && !args.moves_literal_files() && !args.moves_folder_to_free_name()
        }),
        "folders, patterns and what is not known by name are moved over what is there",
    ),
    // Destructive: data and services.
    entry(Destructive, &["dropdb", "dropuser"], Always, LOST),
    entry(
        Destructive,
        &[
            "psql",
            "mysql",
            "mariadb",
            "sqlite3",
            "sqlite",
            "clickhouse-client",
            "duckdb",
            "mongosh",
            "mongo",
            "sqlcmd",
            "cqlsh",
            "cockroach",
        ],
        Is(|args| args.drops()),
        "it drops or empties what a database holds",
    ),
    entry(
        Destructive,
        &["sqlite3", "sqlite"],
        Is(|args| args.runs_from_sqlite()),
        "what `.shell`, `.system` and `.once |…` run is not read here: run it by itself",
    ),
    entry(
        Destructive,
        &["redis-cli", "valkey-cli"],
        Is(|args| {
            args.words().any(|word| {
                matches!(word.text.to_ascii_lowercase().as_str(), "flushall" | "flushdb")
            })
        }),
        LOST,
    ),
    entry(
        Destructive,
        &["docker", "podman", "nerdctl"],
        Sub(&[
            "system prune",
            "volume rm",
            "volume prune",
            "image prune",
            "container prune",
            "builder prune",
        ]),
        LOST,
    ),
    entry(
        Destructive,
        &["docker", "podman", "nerdctl"],
        SubHas(
            &["rm", "container rm", "compose rm", "rmi", "image rm"],
            &["-v", "--volumes", "-f", "--force"],
        ),
        LOST,
    ),
    entry(
        Destructive,
        &["docker", "podman", "nerdctl"],
        SubHas(&["compose down"], &["-v", "--volumes"]),
        LOST,
    ),
    entry(
        Destructive,
        &["docker-compose", "podman-compose"],
        SubHas(&["down"], &["-v", "--volumes"]),
        LOST,
    ),
    entry(
        Destructive,
        &["docker-compose", "podman-compose"],
        SubHas(&["rm"], &["-v", "--volumes", "-f", "--force"]),
        LOST,
    ),
    entry(Destructive, &["kubectl", "oc"], Sub(&["delete", "drain", "replace"]), LOST),
    entry(Destructive, &["helm"], Sub(&["uninstall", "delete", "del", "un"]), LOST),
    entry(
        Destructive,
        &["terraform", "tofu", "pulumi"],
        Sub(&["destroy", "apply", "up", "state rm"]),
        REMOTE,
    ),
    entry(Destructive, &["aws"], Sub(&["s3 rm", "s3 rb"]), LOST),
    entry(
        Destructive,
        &["gh"],
        Sub(&["repo delete", "release delete", "pr merge", "pr close", "issue delete"]),
        REMOTE,
    ),
    entry(Destructive, &["gh"], Is(|args| args.sub_is("api") && args.requests_deletion()), REMOTE),
    entry(
        Destructive,
        &["npm", "pnpm", "yarn", "cargo", "twine", "gem", "poetry", "uv", "hatch", "flit"],
        Sub(&["publish", "unpublish", "yank", "upload", "push"]),
        "what is published can not be taken back",
    ),
    entry(
        Destructive,
        &["rails", "rake", "bin/rails", "artisan", "prisma"],
        Sub(&["db:drop", "db:reset", "db:schema:load", "migrate reset", "db push"]),
        LOST,
    ),
    // Network.
    entry(
        Network,
        &[
            "curl",
            "wget",
            "wget2",
            "aria2c",
            "http",
            "https",
            "xh",
            "lynx",
            "w3m",
            "links",
            "ftp",
            "lftp",
            "sftp",
            "scp",
            "ssh",
            "mosh",
            "telnet",
            "nc",
            "ncat",
            "netcat",
            "socat",
            "ping",
            "traceroute",
            "dig",
            "nslookup",
            "host",
            "whois",
            "nmap",
            "mail",
            "sendmail",
            "ssh-copy-id",
            "rclone",
            "youtube-dl",
            "yt-dlp",
        ],
        Always,
        TALKS,
    ),
    entry(
        Network,
        &["rsync"],
        Is(|args| args.operands().any(|word| word.text.contains(':'))),
        TALKS,
    ),
    entry(
        Network,
        &["git"],
        Sub(&[
            "push",
            "pull",
            "fetch",
            "clone",
            "ls-remote",
            "remote update",
            "remote show",
            "remote prune",
            "submodule update",
            "submodule add",
            "svn",
            "lfs pull",
            "lfs push",
            "lfs fetch",
            "send-email",
            "request-pull",
            "subtree pull",
            "subtree push",
        ]),
        TALKS,
    ),
    entry(Network, &["git"], SubHas(&["remote add"], &["-f", "--fetch"]), TALKS),
    entry(
        Network,
        &[
            "gh",
            "glab",
            "hub",
            "aws",
            "gcloud",
            "az",
            "kubectl",
            "oc",
            "helm",
            "ansible",
            "ansible-playbook",
            "heroku",
            "vercel",
            "netlify",
            "fly",
            "flyctl",
            "wrangler",
            "doctl",
            "s3cmd",
            "gsutil",
            "twine",
        ],
        Always,
        TALKS,
    ),
    entry(Network, &["npm", "pnpm", "yarn", "bun"], Sub(INSTALLS), FETCHES),
    entry(
        Network,
        &["yarn"],
        Is(|args| args.operands().next().is_none() && !args.has("--version")),
        FETCHES,
    ),
    entry(Network, &["npx", "bunx", "pnpx", "uvx", "pipx"], Always, FETCHES),
    entry(
        Network,
        &["pip", "pip3", "uv", "pipenv", "poetry", "conda", "mamba", "pdm", "hatch"],
        Sub(&[
            "install",
            "download",
            "sync",
            "add",
            "update",
            "upgrade",
            "lock",
            "search",
            "create",
            "publish",
            "pip install",
            "pip sync",
            "pip compile",
            "tool install",
            "python install",
            "index",
            "remove",
        ]),
        FETCHES,
    ),
    entry(
        Network,
        &["python", "python3", "python2"],
        Is(|args| {
            args.has("-m")
                && args.words().any(|word| word.text == "pip")
                && args.words().any(|word| matches!(word.text.as_str(), "install" | "download"))
        }),
        FETCHES,
    ),
    entry(
        Network,
        &["cargo"],
        Sub(&[
            "install", "publish", "add", "update", "fetch", "search", "login", "yank", "owner",
            "info",
        ]),
        FETCHES,
    ),
    entry(
        Network,
        &["rustup"],
        Sub(&[
            "update",
            "install",
            "self update",
            "toolchain install",
            "component add",
            "target add",
        ]),
        FETCHES,
    ),
    entry(Network, &["go"], Sub(&["get", "install", "mod download", "mod tidy"]), FETCHES),
    entry(
        Network,
        &[
            "gem", "bundle", "bundler", "composer", "mix", "cpan", "cpanm", "luarocks", "cabal",
            "stack", "opam", "nuget", "pod", "carthage",
        ],
        Sub(&[
            "install",
            "update",
            "require",
            "add",
            "fetch",
            "push",
            "outdated",
            "deps.get",
            "restore",
            "create-project",
            "search",
        ]),
        FETCHES,
    ),
    entry(Network, &["dotnet"], Sub(&["add", "restore", "tool install"]), FETCHES),
    entry(
        Network,
        &[
            "apt",
            "apt-get",
            "aptitude",
            "dnf",
            "yum",
            "pacman",
            "zypper",
            "apk",
            "brew",
            "snap",
            "flatpak",
            "port",
            "nix",
            "nix-env",
            "nix-shell",
        ],
        Always,
        FETCHES,
    ),
    entry(
        Network,
        &["docker", "podman", "nerdctl"],
        Sub(&["pull", "push", "login", "search", "run", "build", "compose", "buildx"]),
        FETCHES,
    ),
    entry(Network, &["docker-compose", "podman-compose"], Always, FETCHES),
    entry(Network, &["openssl"], Sub(&["s_client", "s_time", "ocsp"]), TALKS),
    entry(
        Network,
        &["terraform", "tofu", "pulumi"],
        Sub(&["init", "apply", "plan", "destroy", "refresh", "import", "up", "preview"]),
        TALKS,
    ),
    entry(Network, &["deno"], Sub(&["install", "add", "cache", "publish", "upgrade"]), FETCHES),
    entry(
        Network,
        &[
            "systemd-run",
            "dbus-send",
            "gdbus",
            "busctl",
            "machinectl",
            "at",
            "batch",
            "tmux",
            "screen",
            "emacsclient",
            "xdg-open",
            "gio",
            "open",
            "osascript",
            "launchctl",
            "docker",
            "podman",
            "nerdctl",
            "lxc",
            "incus",
            "virsh",
            "flatpak-spawn",
            "distrobox",
            "toolbox",
        ],
        Always,
        "it hands work to a program outside the sandbox",
    ),
    entry(Network, &["crontab"], HasNot(&["-l"]), "it hands work to a program outside the sandbox"),
    // Interactive.
    entry(
        Interactive,
        &[
            "vi", "vim", "nvim", "view", "nano", "pico", "joe", "micro", "helix", "hx", "kak",
            "mcedit", "code", "subl",
        ],
        Is(|args| {
            !["-es", "-Es", "--headless", "--batch", "-s"]
                .iter()
                .any(|option| args.words().any(|word| word.text == *option))
        }),
        "nobody sits at the editor: change the file with Edit or Write",
    ),
    entry(
        Interactive,
        &["emacs"],
        HasNot(&["--batch", "-batch"]),
        "nobody sits at the editor: change the file with Edit or Write",
    ),
    entry(
        Interactive,
        &["less", "more", "most", "pg"],
        Is(|args| !matches!(args.run.input, Input::File(_)) && args.operands().next().is_none()),
        "a pager waits for keys: leave it out, all output is kept",
    ),
    entry(
        Interactive,
        &["top", "atop"],
        HasNot(&["-b"]),
        "it waits for keys: `top -b -n 1`, or `ps aux --sort=-%cpu`",
    ),
    entry(
        Interactive,
        &["htop", "btop", "iotop", "nvtop", "iftop", "bmon", "glances"],
        Always,
        "it waits for keys: `ps aux --sort=-%cpu`",
    ),
    entry(
        Endless,
        &["watch"],
        Always,
        "it never ends by itself: run the command once, or background: true",
    ),
    entry(
        Endless,
        &["tail"],
        Has(&["-f", "-F", "--follow"]),
        "it never ends by itself: `tail -n 100`, `timeout 10 tail -f …`, or background: true",
    ),
    entry(
        Endless,
        &["journalctl", "dmesg"],
        Has(&["-f", "--follow", "-w"]),
        "it never ends by itself: `-n 100`, or background: true",
    ),
    entry(
        Endless,
        &["docker", "kubectl", "podman"],
        SubHas(&["logs", "compose logs"], &["-f", "--follow"]),
        "it never ends by itself: `--tail 100`, or background: true",
    ),
    entry(
        Interactive,
        &["docker", "kubectl", "podman"],
        Is(|args| {
            ["run", "exec", "attach", "compose exec", "compose run"]
                .iter()
                .any(|sub| args.sub_is(sub) && args.has_before(sub, &["-t", "--tty"]))
        }),
        "there is no terminal: without `-t`",
    ),
    entry(
        Interactive,
        &["ssh", "telnet", "ftp", "sftp", "mosh"],
        Is(|args| {
            args.run.words[0].text != "sftp"
                && args.operands().count() < 2
                && !args.feeds()
                && !["-N", "-V", "-T", "-Q", "-G"].iter().any(|option| args.has(option))
        }),
        "nobody sits at a terminal: give the command to run, `ssh -o BatchMode=yes host 'command'`",
    ),
    entry(
        Interactive,
        &[
            "python", "python2", "python3", "ipython", "bpython", "ptpython", "node", "deno",
            "bun", "ruby", "irb", "pry", "lua", "ghci", "iex", "erl", "scala", "jshell", "julia",
            "R", "octave", "php", "perl", "racket", "guile", "sbcl", "clj", "ocaml", "utop",
        ],
        Is(|args| args.words().next().is_none() && !args.feeds()),
        "it waits for lines at a terminal: give it the code with `-c`/`-e`, a file, or a here-document",
    ),
    entry(
        Interactive,
        &["sh", "bash", "zsh", "dash", "ksh", "fish"],
        Is(|args| args.operands().next().is_none() && !args.has("-c") && !args.feeds()),
        "it waits for lines at a terminal: write the commands themselves",
    ),
    entry(Interactive, &["php"], Has(&["-a"]), NOBODY),
    entry(
        Interactive,
        &["psql", "mysql", "mariadb", "mongosh", "sqlcmd", "clickhouse-client"],
        Is(|args| {
            !args.feeds()
                && ![
                    "-c",
                    "--command",
                    "-e",
                    "--execute",
                    "--eval",
                    "-f",
                    "--file",
                    "-l",
                    "--list",
                    "-Q",
                    "--query",
                    "-q",
                    "-i",
                ]
                .iter()
                .any(|option| args.has(option))
        }),
        "it waits for lines at a terminal: give the statement with `-c`/`-e`, or a here-document",
    ),
    entry(
        Interactive,
        &["sqlite3", "duckdb"],
        Is(|args| !args.feeds() && args.operands().count() < 2 && !args.has("-c")),
        "it waits for lines at a terminal: give the statement as an argument",
    ),
    entry(
        Interactive,
        &["redis-cli", "valkey-cli"],
        Is(|args| !args.feeds() && args.operands().next().is_none()),
        "it waits for lines at a terminal: give the command as arguments",
    ),
    entry(
        Interactive,
        &["gdb", "lldb"],
        HasNot(&["-batch", "--batch", "-b", "-ex"]),
        "it waits for lines at a terminal: `gdb -batch -ex 'bt' …`",
    ),
    entry(
        Interactive,
        &["python", "python3"],
        Is(|args| {
            args.has("-m")
                && args.words().any(|word| matches!(word.text.as_str(), "pdb" | "ipdb"))
                && !args.feeds()
        }),
        "it waits for lines at a terminal: print what you need to see",
    ),
    entry(
        Interactive,
        &["git"],
        SubHas(&["rebase"], &["-i", "--interactive", "--edit-todo"]),
        "nobody sits at the editor: `GIT_SEQUENCE_EDITOR=true git rebase -i …`, `git rebase --onto …`, or `git commit --fixup` and `git rebase --autosquash`",
    ),
    entry(
        Interactive,
        &["git"],
        SubHas(&["rebase", "cherry-pick", "revert", "merge"], &["--continue", "--edit"]),
        "nobody sits at the editor: `GIT_EDITOR=true git … --continue`",
    ),
    entry(
        Interactive,
        &["git"],
        SubHas(&["add", "stage"], &["-p", "--patch", "-i", "--interactive", "-e", "--edit"]),
        "nobody answers hunk by hunk: `git add FILE`, or `git apply --cached` with a patch",
    ),
    entry(
        Interactive,
        &["git"],
        Is(|args| {
            let picks = ["checkout", "reset", "restore", "stash", "commit"];
            picks.iter().any(|sub| args.sub_is(sub))
                && !args.sub_is("stash show")
                && (args.has("-p") || args.has("--patch"))
        }),
        "nobody answers hunk by hunk: name the files",
    ),
    entry(
        Interactive,
        &["git"],
        SubHasNot(
            &["commit"],
            &[
                "-m",
                "--message",
                "-F",
                "--file",
                "-C",
                "--reuse-message",
                "--no-edit",
                "--fixup",
                "--squash",
                "-p",
                "--patch",
                "--dry-run",
                "--short",
                "--porcelain",
                "-h",
            ],
        ),
        "nobody sits at the editor: `git commit -m 'message'`; with `--amend`, `--no-edit` keeps the message",
    ),
    entry(
        Interactive,
        &["git"],
        Is(|args| {
            args.sub_is("tag")
                && (args.has("-a")
                    || args.has("-s")
                    || args.has("--annotate")
                    || args.has("--sign"))
                && !args.has("-m")
                && !args.has("-F")
                && !args.has("--message")
                && !args.has("--file")
        }),
        "nobody sits at the editor: `git tag -a NAME -m 'message'`",
    ),
    entry(
        Interactive,
        &["git"],
        Sub(&["mergetool", "difftool", "gui", "citool", "instaweb"]),
        "nobody sits at the tool: edit the files, then `git add` them",
    ),
    entry(
        Interactive,
        &[
            "gitk",
            "tig",
            "lazygit",
            "gitui",
            "mc",
            "ranger",
            "nnn",
            "lf",
            "yazi",
            "fzf",
            "dialog",
            "whiptail",
            "screen",
            "passwd",
            "chsh",
            "visudo",
            "mutt",
            "ncdu",
            "k9s",
            "lazydocker",
        ],
        Always,
        NOBODY,
    ),
    entry(
        Interactive,
        &["tmux"],
        Is(|args| {
            args.operands().next().is_none()
                || args.sub_is("attach")
                || args.sub_is("a")
                || args.sub_is("new") && !args.has("-d")
        }),
        "nobody sits at a terminal: `tmux new -d …`",
    ),
    entry(Interactive, &["crontab"], Has(&["-e"]), "nobody sits at the editor: `crontab FILE`"),
    entry(
        Interactive,
        &["npm", "pnpm", "yarn"],
        SubHasNot(&["init"], &["-y", "--yes"]),
        "nobody answers it: `npm init -y`",
    ),
    entry(Interactive, &["gh"], Sub(&["auth login"]), NOBODY),
    entry(
        Interactive,
        &["cat", "tee"],
        Is(|args| args.operands().next().is_some_and(|word| word.text == "/dev/tty")),
        NOBODY,
    ),
    entry(Endless, &["yes"], Is(|args| !args.run.writes_pipe), NEVER_ENDS),
    entry(
        Endless,
        &["sleep"],
        Is(|args| args.operands().any(|word| word.text.starts_with("inf"))),
        NEVER_ENDS,
    ),
    // The repository's own files.
    entry(
        Git,
        &["git"],
        Sub(&[
            "add",
            "stage",
            "commit",
            "checkout",
            "switch",
            "branch",
            "tag",
            "stash",
            "merge",
            "rebase",
            "reset",
            "restore",
            "rm",
            "mv",
            "cherry-pick",
            "revert",
            "am",
            "init",
            "fetch",
            "pull",
            "push",
            "worktree add",
            "worktree prune",
            "worktree remove",
            "notes",
            "bisect",
            "update-index",
            "write-tree",
            "commit-tree",
            "read-tree",
            "symbolic-ref",
            "update-ref",
            "pack-refs",
            "gc",
            "sparse-checkout",
            "remote add",
            "remote prune",
            "remote remove",
            "remote rename",
            "remote update",
        ]),
        "",
    ),
    entry(Git, &["git"], SubHas(&["apply"], &["--index", "--cached", "-3", "--3way"]), ""),
    // What only reads: options that write or run are named.
    entry(
        Reads,
        &[
            "ls",
            "cat",
            "tac",
            "head",
            "tail",
            "wc",
            "pwd",
            "echo",
            "true",
            "false",
            ":",
            "test",
            "[",
            "[[",
            "whoami",
            "id",
            "uname",
            "arch",
            "nproc",
            "basename",
            "dirname",
            "realpath",
            "readlink",
            "stat",
            "du",
            "df",
            "nl",
            "cut",
            "tr",
            "comm",
            "diff",
            "cmp",
            "md5sum",
            "sha1sum",
            "sha256sum",
            "sha512sum",
            "b2sum",
            "cksum",
            "sum",
            "od",
            "hexdump",
            "strings",
            "column",
            "fold",
            "fmt",
            "paste",
            "join",
            "seq",
            "sleep",
            "which",
            "type",
            "rev",
            "expr",
            "printenv",
            "groups",
            "uptime",
            "free",
            "ps",
            "grep",
            "egrep",
            "fgrep",
            "zcat",
            "zgrep",
            "jq",
            "tput",
            "exit",
            "cd",
            "numfmt",
            "factor",
            "expand",
            "unexpand",
            "base64",
            "base32",
            "getconf",
            "locale",
            "cal",
            "look",
        ],
        Always,
        "",
    ),
    // (Any option of `set` can be set by it too.)
    entry(Reads, &["shopt"], HasNot(&["-o"]), ""),
    entry(Reads, &["printf"], HasNot(&["-v"]), ""),
    entry(Reads, &["date"], HasNot(&["-s", "--set"]), ""),
    entry(
        Reads,
        &["sort"],
        HasNot(&["-o", "--output", "--compress-program", "-T", "--temporary-directory"]),
        "",
    ),
    entry(Reads, &["uniq"], Is(|args| args.operands().count() < 2), ""),
    entry(Reads, &["xxd"], Is(|args| args.operands().count() < 2), ""),
    entry(Reads, &["file"], HasNot(&["-C", "--compile", "-z", "-Z"]), ""),
    entry(Reads, &["rg"], HasNot(&["--pre", "--hostname-bin", "-z", "--search-zip"]), ""),
    entry(Reads, &["ag", "ack"], HasNot(&["--pager", "-z"]), ""),
    entry(Reads, &["fd", "fdfind"], HasNot(&["-x", "-X", "--exec", "--exec-batch"]), ""),
    entry(
        Reads,
        &["find"],
        HasNot(&[
            "-exec", "-execdir", "-ok", "-okdir", "-delete", "-fprint", "-fprint0", "-fprintf",
            "-fls",
        ]),
        "",
    ),
    entry(Reads, &["tree"], HasNot(&["-o", "-R"]), ""),
    entry(Reads, &["command"], Has(&["-v", "-V"]), ""),
    // How a script ends.
    entry(Reads, &["set"], Is(|args| args.sets_how_it_ends()), ""),
    entry(Reads, &["sed"], Is(|args| args.only_prints()), ""),
    entry(Reads, &["awk", "gawk", "mawk"], Is(|args| args.only_computes()), ""),
    entry(
        Reads,
        &["git"],
        SubMayNot(
            &[
                "status",
                "log",
                "diff",
                "show",
                "ls-files",
                "ls-tree",
                "blame",
                "annotate",
                "rev-parse",
                "rev-list",
                "describe",
                "shortlog",
                "cat-file",
                "merge-base",
                "name-rev",
                "show-ref",
                "for-each-ref",
                "whatchanged",
                "grep",
                "check-ignore",
                "count-objects",
                "diff-tree",
                "diff-index",
                "diff-files",
                "stash list",
                "stash show",
                "reflog",
                "remote get-url",
                "version",
                "var",
                "cherry",
                "worktree list",
                "config --get",
                "config --list",
            ],
            &[
                "--output",
                "--ext-diff",
                "--textconv",
                "-O",
                "--open-files-in-pager",
                "--no-index",
                "--filters",
                "--upload-pack",
            ],
        ),
        "",
    ),
    entry(
        Reads,
        &["git"],
        Is(|args| {
            let lists = !args.sub_is("remote") && (args.has("-l") || args.has("--list"));
            (args.sub_is("branch") || args.sub_is("tag") || args.sub_is("remote"))
                && (lists || args.operands().count() == 1)
                && args.words().skip(1).all(|word| {
                    lists && !word.text.starts_with('-')
                        || matches!(
                            word.text.as_str(),
                            "-a" | "-r"
                                | "-v"
                                | "-vv"
                                | "-l"
                                | "--list"
                                | "--all"
                                | "--show-current"
                        )
                })
        }),
        "",
    ),
    entry(Reads, &["go"], Sub(&["version"]), ""),
    entry(Reads, &["npm"], Sub(&["ls", "list", "root", "prefix"]), ""),
    entry(Reads, &["docker", "podman"], Sub(&["ps", "images", "version", "info"]), ""),
    // Not those for which a file of the project names the program that is run, for this too: `rust-toolchain.toml`
    // (cargo, rustc, rustup), `.yarnrc.yml`, `packageManager` (pnpm), `global.json` (dotnet), plugins (poetry).
    entry(
        Reads,
        &[
            "python",
            "python3",
            "node",
            "npm",
            "npx",
            "bun",
            "deno",
            "go",
            "java",
            "javac",
            "gcc",
            "g++",
            "clang",
            "make",
            "cmake",
            "git",
            "docker",
            "kubectl",
            "terraform",
            "bash",
            "ruby",
            "perl",
            "php",
            "curl",
            "wget",
            "gh",
            "rg",
            "fd",
            "jq",
            "psql",
            "mysql",
            "sqlite3",
            "uv",
            "swift",
            "ghc",
            "tsc",
            "eslint",
            "helm",
            "aws",
            "ssh",
        ],
        Is(|args| args.only_asks_version()),
        "",
    ),
];

/// What the lines above do not mean.
pub(super) const SPARED: &[(Class, &[&str], When)] = &[
    // What wants no network needs none.
    (Network, &["npx"], Has(&["--no-install", "--no", "--offline"])),
    (Network, &["npx"], Is(|args| args.runs_installed())),
    (Network, &["npm", "pnpm", "yarn", "bun", "uv", "uvx", "conda", "mamba"], Has(&["--offline"])),
    (Network, &["cargo"], Has(&["--offline", "--frozen"])),
    (Network, &["pip", "pip3", "python", "python3"], Has(&["--no-index"])),
    (Network, &["git"], Is(|args| args.is_about_a_path())),
    // What is kept on this machine.
    (Network, &["apt"], Sub(&["list", "show", "search", "policy", "depends", "rdepends"])),
    (Network, &["helm"], Sub(&["lint", "create", "env"])),
    (Network, &["helm"], Is(|args| args.renders_a_folder())),
    (Network, &["docker", "podman", "nerdctl"], Sub(&["compose config"])),
    (Network, &["docker-compose", "podman-compose"], Sub(&["config"])),
    (Destructive, &["cargo", "npm", "pnpm", "uv"], Is(|args| args.publishes_nothing())),
];

/// Programs that show or send what the files hold that are named to them.
pub(super) const SHOWS: &[&str] = &[
    "cat",
    "tac",
    "head",
    "tail",
    "less",
    "more",
    "bat",
    "nl",
    "od",
    "xxd",
    "hexdump",
    "strings",
    "base64",
    "base32",
    "sed",
    "awk",
    "gawk",
    "cut",
    "sort",
    "uniq",
    "tr",
    "rev",
    "paste",
    "column",
    "jq",
    "yq",
    "cp",
    "mv",
    "ln",
    "tar",
    "zip",
    "gzip",
    "dd",
    "install",
    "source",
    ".",
    "diff",
    "cmp",
    "openssl",
    "gpg",
    "split",
    "fold",
    "fmt",
    "tee",
    "scp",
    "rsync",
    "curl",
    "nc",
    "comm",
    "join",
    "pr",
    "vim",
    "vi",
    "nano",
    "view",
    "iconv",
    "expand",
    "csplit",
    "hd",
    "shuf",
    "tsort",
    "ptx",
    "sdiff",
    "diff3",
    "colordiff",
    "wdiff",
    "batcat",
    "mawk",
    "nawk",
    "zcat",
    "zless",
    "bzip2",
    "xz",
    "zstd",
    "lz4",
    "cpio",
    "ed",
    "ex",
    "m4",
    "xmllint",
    "uuencode",
    "basenc",
    "pygmentize",
    "most",
    "pg",
    "mapfile",
    "readarray",
    "history",
    "objdump",
    "ul",
    "col",
    "colcrt",
    "vis",
    "man",
    "groff",
    "troff",
    "nroff",
    "msgfmt",
    "msgcat",
    "msgconv",
    "pandoc",
    "enscript",
    "a2ps",
    "lolcat",
    "glow",
    "mdcat",
    "delta",
    "difft",
    "dwdiff",
    "icdiff",
    "gron",
    "mlr",
    "qrencode",
];

/// Those of them that write to another file, or send to another machine, what they are given, and show nothing of
/// it.
pub(super) const COPIES: &[&str] = &[
    "curl", "nc", "cp", "mv", "ln", "install", "tar", "zip", "gzip", "bzip2", "xz", "zstd", "lz4",
    "split", "csplit", "rsync", "scp", "cpio",
];

/// The same, where their first word is no file.
pub(super) const SEARCHES: &[&str] =
    &["grep", "egrep", "fgrep", "rg", "ag", "ack", "zgrep", "rgrep", "ugrep", "look"];

/// Programs that look at names, or take files away, and show nothing of what is in them.
pub(super) const NAMES_ONLY: &[&str] = &[
    "ls", "tree", "find", "fd", "fdfind", "stat", "du", "df", "echo", "printf", "test", "[", "[[",
    "touch", "mkdir", "rmdir", "rm", "unlink", "shred", "chmod", "chown", "chgrp", "basename",
    "dirname", "realpath", "readlink", "cd", "pushd", "popd", "pwd", "which", "type", "command",
    "true", "false", ":", "sleep", "seq", "date", "exit", "export", "set", "unset", "kill", "tee",
    "truncate", "mktemp",
];

/// Programs that read standard input where they are given no more operands than this.
pub(super) const READ_INPUT: &[(&[&str], usize)] = &[
    (
        &[
            "cat",
            "sort",
            "wc",
            "tac",
            "nl",
            "rev",
            "uniq",
            "cut",
            "head",
            "tail",
            "base64",
            "column",
            "fold",
            "md5sum",
            "sha256sum",
        ],
        0,
    ),
    (&["grep", "egrep", "fgrep", "sed", "awk", "jq"], 1),
    (&["read", "mapfile", "readarray", "tr", "tee", "xargs"], usize::MAX),
];

const COMPOSE_VALUES: &[&str] = &[
    "-f",
    "--file",
    "-p",
    "--project-name",
    "--profile",
    "--env-file",
    "--project-directory",
    "--ansi",
    "--parallel",
    "--progress",
];

const SQLITE_VALUES: &[&str] = &[
    "-cmd",
    "-init",
    "-separator",
    "-newline",
    "-nullvalue",
    "-vfs",
    "-maxsize",
    "-mmap",
    "-heap",
    "--cmd",
    "--init",
    "--separator",
    "--newline",
    "--nullvalue",
    "--vfs",
];

const KUBECTL_VALUES: &[&str] = &[
    "-n",
    "--namespace",
    "--context",
    "--kubeconfig",
    "-s",
    "--server",
    "--cluster",
    "--user",
    "-v",
    "--v",
    "--vmodule",
    "--as",
    "--as-group",
    "--as-uid",
    "--cache-dir",
    "--certificate-authority",
    "--client-certificate",
    "--client-key",
    "--password",
    "--profile",
    "--profile-output",
    "--request-timeout",
    "--tls-server-name",
    "--token",
    "--username",
];

/// Options of programs with a value in the next word that stand before the first word.
pub(in super::super) const GLOBAL_VALUES: &[(&str, &[&str])] = &[
    (
        "git",
        &[
            "-C",
            "-c",
            "--git-dir",
            "--work-tree",
            "--namespace",
            "--config-env",
            "--exec-path",
            "--attr-source",
        ],
    ),
    (
        "docker",
        &[
            "-H",
            "--host",
            "--context",
            "-c",
            "--config",
            "-l",
            "--log-level",
            "--tlscacert",
            "--tlscert",
            "--tlskey",
        ],
    ),
    ("docker compose", COMPOSE_VALUES),
    ("docker-compose", COMPOSE_VALUES),
    ("podman compose", COMPOSE_VALUES),
    ("podman-compose", COMPOSE_VALUES),
    ("nerdctl compose", COMPOSE_VALUES),
    (
        "nerdctl",
        &["-n", "--namespace", "-a", "--address", "-H", "--host", "--snapshotter", "--cni-path"],
    ),
    ("sqlite3", SQLITE_VALUES),
    ("sqlite", SQLITE_VALUES),
    (
        "podman",
        &["--url", "--connection", "-c", "--log-level", "--root", "--runroot", "--storage-driver"],
    ),
    ("kubectl", KUBECTL_VALUES),
    ("oc", KUBECTL_VALUES),
    ("npm", &["--prefix", "-w", "--workspace", "-C"]),
    ("pnpm", &["--dir", "-C", "--filter", "-F"]),
    ("yarn", &["--cwd"]),
    ("cargo", &["--config", "-C", "-Z", "--color"]),
    ("go", &["-C"]),
    ("make", &["-C", "--directory", "-f", "--file"]),
    (
        "aws",
        &[
            "--profile",
            "--region",
            "--endpoint-url",
            "--output",
            "--cli-connect-timeout",
            "--cli-read-timeout",
            "--query",
            "--color",
            "--ca-bundle",
            "--cli-binary-format",
        ],
    ),
    ("gh", &["-R", "--repo"]),
    (
        "helm",
        &[
            "-n",
            "--namespace",
            "--kube-context",
            "--kubeconfig",
            "--kube-apiserver",
            "--kube-as-user",
            "--kube-as-group",
            "--kube-ca-file",
            "--kube-token",
            "--kube-tls-server-name",
            "--burst-limit",
            "--qps",
            "--registry-config",
            "--repository-cache",
            "--repository-config",
        ],
    ),
    ("terraform", &["-chdir"]),
    ("ssh", &["-i", "-p", "-o", "-l", "-F", "-L", "-R", "-D", "-J", "-b", "-c", "-E", "-W", "-w"]),
    ("redis-cli", &["-h", "-p", "-a", "-n", "-u", "--user", "--pass"]),
];

/// Options without a value that stand before the first word.
pub(in super::super) const GLOBAL_FLAGS: &[(&str, &[&str])] = &[
    (
        "git",
        &[
            "--no-pager",
            "-P",
            "-p",
            "--paginate",
            "--bare",
            "--no-replace-objects",
            "--no-optional-locks",
            "--literal-pathspecs",
            "--glob-pathspecs",
            "--icase-pathspecs",
        ],
    ),
    ("cargo", &["-q", "--quiet", "-v", "--verbose", "-vv", "--offline", "--locked", "--frozen"]),
    ("npm", &["-s", "--silent", "-q", "--quiet", "--workspaces", "--offline"]),
    ("pnpm", &["-s", "--silent", "-r", "--recursive", "-w", "--workspace-root"]),
    ("yarn", &["-s", "--silent"]),
    ("docker", &["-D", "--debug"]),
    ("docker compose", &["--dry-run", "--compatibility"]),
    ("make", &["-s", "--silent", "--quiet", "-k", "--keep-going", "-B", "--no-print-directory"]),
];
