//! Tables of paths with a special meaning.

/// Below the home: keys, passwords, tokens, histories and mail.
#[rustfmt::skip]
pub const SECRET_STORES: &[&str] = &[
    ".ssh", ".gnupg", ".pki", ".password-store", ".local/share/keyrings", ".local/share/kwalletd",
    ".aws", ".azure", ".kube", ".oci", ".config/gcloud", ".config/gh", ".config/glab-cli",
    ".config/hub", ".config/op", ".config/sops", ".config/rclone", ".config/git/credentials",
    ".config/containers/auth.json", ".docker/config.json", ".docker/run", ".git-credentials",
    ".netrc", ".pgpass", ".my.cnf", ".mylogin.cnf", ".npmrc", ".yarnrc", ".pypirc",
    ".gem/credentials", ".cargo/credentials", ".cargo/credentials.toml", ".m2/settings.xml",
    ".m2/settings-security.xml", ".terraform.d/credentials.tfrc.json", ".vault-token",
    ".huggingface/token", ".cache/huggingface/token", ".claude/.credentials.json",
    ".codex/auth.json", ".gemini/oauth_creds.json", ".bash_history", ".zsh_history",
    ".python_history", ".psql_history", ".mysql_history", ".mozilla", ".thunderbird",
    ".config/BraveSoftware", ".config/chromium", ".config/google-chrome", ".config/microsoft-edge",
    ".config/vivaldi", ".config/opera", ".config/Signal", "snap/firefox", "snap/chromium",
    ".var/app/org.mozilla.firefox", ".var/app/com.google.Chrome", ".var/app/org.chromium.Chromium",
];

#[rustfmt::skip]
pub(super) const SYSTEM_SECRETS: &[&str] = &[
    "/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-", "/etc/sudoers",
    "/etc/sudoers.d", "/etc/ssl/private", "/etc/krb5.keytab", "/etc/ssh/ssh_host_ecdsa_key",
    "/etc/ssh/ssh_host_ed25519_key", "/etc/ssh/ssh_host_rsa_key",
    "/dev/mqueue",
];

/// Below the home: files that the user's programs execute or read later. Read-only if the home is the project.
#[rustfmt::skip]
pub const STARTUP_FILES: &[&str] = &[
    ".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".bashrc.d",
    ".bash_completion", ".config/bash_completion", ".local/share/bash-completion", ".profile",
    ".zshrc", ".zshenv", ".zprofile", ".zlogin", ".zlogout", ".config/zsh", ".oh-my-zsh",
    ".p10k.zsh", ".fzf.bash", ".fzf.zsh", ".config/fish", ".config/starship.toml", ".config/direnv",
    ".nvm/nvm.sh", ".asdf/asdf.sh", ".sdkman/bin", ".inputrc", ".xprofile", ".xinitrc", ".xsession",
    ".xsessionrc", ".pam_environment", ".screenrc", ".tmux.conf", ".config/tmux", ".exrc",
    ".selected_editor", ".vimrc", ".gvimrc", ".vim", ".config/vim", ".config/nvim",
    ".local/share/nvim/site", ".emacs", ".emacs.el", ".emacs.d", ".doom.d", ".config/doom",
    ".config/emacs", ".nanorc", ".config/nano", ".config/helix", ".config/micro", ".config/kak",
    ".vscode/extensions", ".config/Code/User", ".config/VSCodium/User", ".config/Cursor/User",
    ".cursor/extensions", ".gdbinit", ".lessfilter", ".mailcap", ".curlrc", ".gitconfig",
    ".config/git", ".hgrc", ".config/hg", ".config/jj", ".cargo/bin", ".cargo/config.toml",
    ".cargo/env", ".local/bin", ".pyenv/shims", ".rbenv/shims", ".bun/bin", ".deno/bin", "go/bin",
    "bin", ".config/autostart", ".config/i3", ".config/sway", ".config/hypr",
    ".local/share/applications", ".config/systemd", ".local/share/systemd/user",
    ".config/environment.d",
];

/// Those of them, which may not exist yet, that name programs for all repositories.
pub(super) const USER_SETTINGS: [&str; 4] =
    [".gitconfig", ".config/git/config", ".hgrc", ".config/jj/config.toml"];

pub(super) const AGENT_FOLDER: &str = ".agent";
/// Hooks in a project; git and the agent run them outside the sandbox.
pub(super) const HOOKS: &[&str] =
    &[".claude/settings.json", ".claude/settings.local.json", ".claude/hooks"];
/// The only devices that a command can open.
pub(super) const DEVICES: &[&str] =
    &["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"];
pub(super) const ALL_DEVICES: &str = "/dev";
pub(super) const SHARED_MEMORY: &str = "/dev/shm";
/// Private with namespaces, so Landlock permits writing here.
pub(super) const PRIVATE: &[&str] = &["/tmp", "/var/tmp", SHARED_MEMORY, "/dev/pts", "/dev/ptmx"];
pub(super) const SHARED_TEMPORARY: &[&str] = &["/tmp", "/var/tmp"];

/// Sockets of services; replaced by a directory with only the following paths.
pub(super) const RUNTIME: &str = "/run";
pub(super) const RUNTIME_KEPT: &[&str] =
    &["current-system", "booted-system", "opengl-driver", "opengl-driver-32"];
/// For name resolution, with the network of the user.
pub(super) const RUNTIME_KEPT_WITH_NETWORK: &[&str] =
    &["systemd/resolve", "NetworkManager", "resolvconf", "nscd"];

/// Caches of build tools: the variable, and the folder in the project's cache directory.
#[rustfmt::skip]
pub(super) const CACHES: &[(&str, &str)] = &[
    ("XDG_CACHE_HOME", "xdg"), ("GOCACHE", "go-build"), ("npm_config_cache", "npm"),
    ("YARN_CACHE_FOLDER", "yarn"), ("PIP_CACHE_DIR", "pip"), ("UV_CACHE_DIR", "uv"),
    ("POETRY_CACHE_DIR", "poetry"), ("GRADLE_USER_HOME", "gradle"), ("CCACHE_DIR", "ccache"),
    ("SCCACHE_DIR", "sccache"), ("DENO_DIR", "deno"), ("ELECTRON_CACHE", "electron"),
    ("PUPPETEER_CACHE_DIR", "puppeteer"), ("NUGET_HTTP_CACHE_PATH", "nuget"),
];
