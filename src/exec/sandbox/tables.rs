//! What the sandbox knows of a user's machine, as data.

/// Below the home: what no command has to read. Keys, passwords, tokens, other people's letters.
pub const SECRET_STORES: &[&str] = &[
    ".ssh",
    ".gnupg",
    ".pki",
    ".password-store",
    ".local/share/keyrings",
    ".local/share/kwalletd",
    ".aws",
    ".azure",
    ".kube",
    ".oci",
    ".config/gcloud",
    ".config/gh",
    ".config/glab-cli",
    ".config/hub",
    ".config/op",
    ".config/sops",
    ".config/rclone",
    ".config/git/credentials",
    ".config/containers/auth.json",
    ".docker/config.json",
    ".docker/run",
    ".git-credentials",
    ".netrc",
    ".pgpass",
    ".my.cnf",
    ".mylogin.cnf",
    ".npmrc",
    ".yarnrc",
    ".pypirc",
    ".gem/credentials",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".m2/settings.xml",
    ".m2/settings-security.xml",
    ".terraform.d/credentials.tfrc.json",
    ".vault-token",
    ".huggingface/token",
    ".cache/huggingface/token",
    ".claude/.credentials.json",
    ".codex/auth.json",
    ".gemini/oauth_creds.json",
    ".bash_history",
    ".zsh_history",
    ".python_history",
    ".psql_history",
    ".mysql_history",
    ".mozilla",
    ".thunderbird",
    ".config/BraveSoftware",
    ".config/chromium",
    ".config/google-chrome",
    ".config/microsoft-edge",
    ".config/vivaldi",
    ".config/opera",
    ".config/Signal",
    "snap/firefox",
    "snap/chromium",
    ".var/app/org.mozilla.firefox",
    ".var/app/com.google.Chrome",
    ".var/app/org.chromium.Chromium",
    "Library/Keychains",
];

/// The same for the machine: root could read them.
pub(super) const SYSTEM_SECRETS: &[&str] = &[
    "/etc/shadow",
    "/etc/shadow-",
    "/etc/gshadow",
    "/etc/gshadow-",
    "/etc/sudoers",
    "/etc/sudoers.d",
    "/etc/ssl/private",
    "/etc/krb5.keytab",
    "/etc/ssh/ssh_host_ecdsa_key",
    "/etc/ssh/ssh_host_ed25519_key",
    "/etc/ssh/ssh_host_rsa_key",
];

/// Below the home: what runs or counts the next time the user does something. Where the home is writable
/// (it is the project), these are not.
pub const STARTUP_FILES: &[&str] = &[
    ".bashrc",
    ".bash_profile",
    ".bash_login",
    ".bash_logout",
    ".bash_aliases",
    ".bashrc.d",
    ".bash_completion",
    ".config/bash_completion",
    ".local/share/bash-completion",
    ".profile",
    ".zshrc",
    ".zshenv",
    ".zprofile",
    ".zlogin",
    ".zlogout",
    ".config/zsh",
    ".oh-my-zsh",
    ".p10k.zsh",
    ".fzf.bash",
    ".fzf.zsh",
    ".config/fish",
    ".config/starship.toml",
    ".config/direnv",
    ".nvm/nvm.sh",
    ".asdf/asdf.sh",
    ".sdkman/bin",
    ".inputrc",
    ".xprofile",
    ".xinitrc",
    ".xsession",
    ".xsessionrc",
    ".pam_environment",
    ".screenrc",
    ".tmux.conf",
    ".config/tmux",
    ".exrc",
    ".selected_editor",
    ".vimrc",
    ".gvimrc",
    ".vim",
    ".config/vim",
    ".config/nvim",
    ".local/share/nvim/site",
    ".emacs",
    ".emacs.el",
    ".emacs.d",
    ".doom.d",
    ".config/doom",
    ".config/emacs",
    ".nanorc",
    ".config/nano",
    ".config/helix",
    ".config/micro",
    ".config/kak",
    ".vscode/extensions",
    ".config/Code/User",
    ".config/VSCodium/User",
    ".config/Cursor/User",
    ".cursor/extensions",
    ".gdbinit",
    ".lessfilter",
    ".mailcap",
    ".curlrc",
    ".gitconfig",
    ".config/git",
    ".hgrc",
    ".config/hg",
    ".config/jj",
    ".cargo/bin",
    ".cargo/config.toml",
    ".cargo/env",
    ".local/bin",
    ".pyenv/shims",
    ".rbenv/shims",
    ".bun/bin",
    ".deno/bin",
    "go/bin",
    "bin",
    ".config/autostart",
    ".config/i3",
    ".config/sway",
    ".config/hypr",
    ".local/share/applications",
    ".config/systemd",
    ".local/share/systemd/user",
    ".config/environment.d",
];

/// In a project: the agent's own folder, which configures it.
pub(super) const AGENT_FOLDER: &str = ".agent";
/// Devices that a command may open; all others are there and can not be opened.
pub(super) const DEVICES: &[&str] =
    &["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"];

/// Where devices lie.
pub(super) const ALL_DEVICES: &str = "/dev";
/// Memory that programs share by a name.
pub(super) const SHARED_MEMORY: &str = "/dev/shm";

/// Queues of messages that programs share by a name (POSIX), where the system shows them.
pub(super) const MESSAGE_QUEUES: &str = "/dev/mqueue";

/// Where Landlock, too, lets a command write in namespaces: nothing of it is there outside.
pub(super) const OWN_IN_NAMESPACES: &[&str] = &["/tmp", "/var/tmp", SHARED_MEMORY, "/dev/pts"];
/// Devices of terminals that a command makes for itself.
pub(super) const TERMINALS: &[&str] = &["/dev/ptmx", "/dev/pts/ptmx"];

/// Folders that every program shares: in the box there is one of its own under each name.
pub(super) const SHARED_TEMPORARY: &[&str] = &["/tmp", "/var/tmp"];

/// The sockets of the machine's services lie here; it is empty in the box but for what programs need
/// in order to run.
pub(super) const RUNTIME: &str = "/run";
pub(super) const RUNTIME_KEPT: &[&str] =
    &["current-system", "booted-system", "opengl-driver", "opengl-driver-32"];
/// Names are resolved by way of these, where there is a network.
pub(super) const RUNTIME_KEPT_WITH_NETWORK: &[&str] =
    &["systemd/resolve", "NetworkManager", "resolvconf", "nscd"];

/// Where build tools keep what they can make again: the variable, and the folder's name in the
/// project's cache. What a tool only reads there (`~/.cargo`, `~/.rustup`, `~/go/pkg/mod`) stays where
/// it is.
pub(super) const CACHES: &[(&str, &str)] = &[
    ("XDG_CACHE_HOME", "xdg"),
    ("GOCACHE", "go-build"),
    ("npm_config_cache", "npm"),
    ("YARN_CACHE_FOLDER", "yarn"),
    ("PIP_CACHE_DIR", "pip"),
    ("UV_CACHE_DIR", "uv"),
    ("POETRY_CACHE_DIR", "poetry"),
    ("GRADLE_USER_HOME", "gradle"),
    ("CCACHE_DIR", "ccache"),
    ("SCCACHE_DIR", "sccache"),
    ("DENO_DIR", "deno"),
    ("ELECTRON_CACHE", "electron"),
    ("PUPPETEER_CACHE_DIR", "puppeteer"),
    ("NUGET_HTTP_CACHE_PATH", "nuget"),
];
