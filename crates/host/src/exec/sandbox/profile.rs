//! The sandbox policy of a session, as one value. No file system access.

use std::path::{Path, PathBuf};

use super::{FileOwners, Network, tables};
use agent_protocol::tool::{CommandRights, GitConfigAccess};

/// What commands may do. Every path is absolute; the backends skip one that does not exist.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SandboxProfile {
    pub writable: Vec<PathBuf>,
    /// Places inside the writable directories where commands cannot write.
    pub read_only: Vec<PathBuf>,
    pub hidden: Vec<PathBuf>,
    pub network: Network,
    /// Ports of the host's 127.0.0.1 that are reachable on the session's own loopback.
    pub host_ports: Vec<u16>,
}

/// Input of the profile. Every path is absolute and canonical, or does not exist.
#[derive(Clone, Debug, Default)]
pub struct SandboxFacts {
    pub root: PathBuf,
    /// `--add-dir` and `sandbox.extra_writable`.
    pub added: Vec<PathBuf>,
    pub temporary: PathBuf,
    pub cache: PathBuf,
    pub homes: Vec<PathBuf>,
    pub git: GitPaths,
    pub secrets: Vec<PathBuf>,
    pub own: Vec<PathBuf>,
    pub denied_reads: Vec<PathBuf>,
    pub denied_writes: Vec<PathBuf>,
    pub network: Network,
    pub host_ports: Vec<u16>,
    /// Limit of the processes and threads of one command.
    pub max_processes: u32,
    pub owners: FileOwners,
}

/// Where git keeps its state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GitPaths {
    /// `.git` of each writable directory, and those of a linked worktree or of a repository around the project.
    pub directories: Vec<PathBuf>,
    /// The work trees of the repositories that contain the project or an added directory.
    pub work_trees: Vec<PathBuf>,
    /// Hooks and configuration in the git directories, also of submodules and worktrees.
    pub settings: Vec<PathBuf>,
    pub links: Vec<PathBuf>,
}

impl SandboxProfile {
    /// Computes the policy from the facts.
    pub fn new(facts: &SandboxFacts) -> Self {
        let places: Vec<&PathBuf> = std::iter::once(&facts.root).chain(&facts.added).collect();
        let lies_in_place =
            |path: &Path| places.iter().any(|place| path.starts_with(place) && path != *place);
        let mut writable: Vec<PathBuf> = places.iter().map(|place| (*place).clone()).collect();
        writable.extend(facts.git.directories.iter().cloned());
        writable.extend([facts.temporary.clone(), facts.cache.clone()]);
        // Outer directories first: a mount of an outer one covers the inner ones.
        sort(&mut writable);

        let mut read_only: Vec<PathBuf> =
            places.iter().map(|place| place.join(tables::AGENT_FOLDER)).collect();
        read_only
            .extend(places.iter().flat_map(|it| tables::HOOKS.iter().map(|name| it.join(name))));
        read_only.extend(facts.git.settings.iter().chain(&facts.git.links).cloned());
        // The home directory itself may be the project.
        let startup = facts
            .homes
            .iter()
            .flat_map(|home| tables::STARTUP_FILES.iter().map(move |name| home.join(name)));
        read_only.extend(startup.filter(|path| lies_in_place(path)));
        read_only.extend(facts.denied_writes.iter().filter(|path| lies_in_place(path)).cloned());
        sort(&mut read_only);

        let system = tables::SYSTEM_SECRETS.iter().map(PathBuf::from);
        let mut hidden: Vec<PathBuf> =
            facts.secrets.iter().chain(&facts.own).cloned().chain(system).collect();
        hidden.extend(facts.denied_reads.iter().cloned());
        // A directory that the user opened as a project is not hidden from its own session.
        hidden.retain(|path| !places.iter().any(|place| place.starts_with(path)));
        sort(&mut hidden);
        // Entries of a hidden directory are hidden with it.
        hidden.dedup_by(|inner, outer| inner.starts_with(outer));
        let (network, host_ports) = (facts.network, facts.host_ports.clone());
        Self { writable, read_only, hidden, network, host_ports }
    }

    pub(super) fn apply_rights(&mut self, rights: CommandRights, facts: &SandboxFacts) {
        if rights.read_only {
            self.writable = vec![facts.temporary.clone()];
        }
        if rights.network {
            self.network = Network::On;
        }
        if rights.git_config != GitConfigAccess::Protected {
            let is_hooks = |path: &Path| path.ends_with("hooks");
            self.read_only.retain(|path| is_hooks(path) || !facts.git.settings.contains(path));
        }
    }
}

fn sort(paths: &mut Vec<PathBuf>) {
    paths.sort();
    paths.dedup();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts() -> SandboxFacts {
        SandboxFacts {
            root: "/home/u/project".into(),
            added: vec!["/srv/data".into()],
            temporary: "/tmp/agent-1/tmp".into(),
            cache: "/home/u/.cache/agent/projects/1".into(),
            homes: vec!["/home/u".into()],
            git: GitPaths {
                work_trees: Vec::new(),
                directories: vec!["/home/u/project/.git".into()],
                settings: vec!["/home/u/project/.git/config".into()],
                links: vec!["/srv/data/.git".into()],
            },
            secrets: vec!["/home/u/.ssh".into()],
            own: vec!["/home/u/.config/agent".into()],
            denied_reads: vec!["/home/u/.ssh/id".into(), "/home/u/project/private".into()],
            denied_writes: vec!["/home/u/project/vendor".into(), "/etc/hosts".into()],
            network: Network::Loopback,
            host_ports: vec![5432],
            max_processes: 100,
            owners: FileOwners::default(),
        }
    }

    fn paths(paths: &[&str]) -> Vec<PathBuf> {
        paths.iter().map(PathBuf::from).collect()
    }

    #[test]
    fn profile_is_derived_from_the_facts() {
        let mut profile = SandboxProfile::new(&facts());
        profile.hidden.retain(|path| path.starts_with("/home"));
        assert_eq!(
            profile,
            SandboxProfile {
                writable: paths(&[
                    "/home/u/.cache/agent/projects/1",
                    "/home/u/project",
                    "/home/u/project/.git",
                    "/srv/data",
                    "/tmp/agent-1/tmp",
                ]),
                read_only: paths(&[
                    "/home/u/project/.agent",
                    "/home/u/project/.claude/hooks",
                    "/home/u/project/.claude/settings.json",
                    "/home/u/project/.claude/settings.local.json",
                    "/home/u/project/.git/config",
                    "/home/u/project/vendor",
                    "/srv/data/.agent",
                    "/srv/data/.claude/hooks",
                    "/srv/data/.claude/settings.json",
                    "/srv/data/.claude/settings.local.json",
                    "/srv/data/.git",
                ]),
                hidden: paths(&[
                    "/home/u/.config/agent",
                    "/home/u/.ssh",
                    "/home/u/project/private"
                ]),
                network: Network::Loopback,
                host_ports: vec![5432],
            }
        );
    }

    #[test]
    fn a_project_in_a_hidden_directory_is_not_hidden() {
        let facts = SandboxFacts { root: "/home/u/.ssh/tools".into(), ..facts() };
        assert!(!SandboxProfile::new(&facts).hidden.contains(&"/home/u/.ssh".into()));
    }

    #[test]
    fn startup_files_are_read_only_where_the_home_is_the_project() {
        let facts = SandboxFacts { root: "/home/u".into(), ..facts() };
        assert!(SandboxProfile::new(&facts).read_only.contains(&"/home/u/.bashrc".into()));
    }
}
