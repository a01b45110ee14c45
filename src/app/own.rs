//! What is the agent's own outside of a project: its folders, what its configuration links to, and whom the user trusts.
//! Looked at once, when a session begins.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::OpenError;
use super::gate::leads_where_it_says;
use crate::config::{self, AGENT_DIR, Linked, UserDirs};
use crate::disk::{self, canonical_prefix};
use crate::exec::sandbox;
use crate::workspace::Guarded;

/// In a folder for caches: what it is, for programs that make copies of a home. It is a file that can be covered
/// where the caches themselves are written.
const TAG: (&str, &[u8]) = (
    "CACHEDIR.TAG",
    b"Signature: 8a477f597d28d172789f06886806bc55\n# Caches of agent. https://bford.info/cachedir/\n",
);

/// The agent's own.
#[derive(Debug, Default)]
pub struct Own {
    dirs: Option<UserDirs>,
    /// As the environment and the system name them, canonical.
    homes: Vec<PathBuf>,
    /// `dirs`, and where they are by default: a session with other variables has its own there.
    all: Vec<UserDirs>,
    linked: Linked,
    /// Whom the user trusts, and in which of these folders that stands.
    trusted: Vec<(UserDirs, PathBuf)>,
}

/// What the box of a session covers of it.
#[derive(Debug, Default)]
pub(super) struct Cover {
    /// What no command reads.
    pub(super) hidden: Vec<PathBuf>,
    /// What no command writes.
    pub(super) protected: Vec<PathBuf>,
    /// What can not be covered.
    pub(super) gaps: Vec<String>,
    /// Trusted, and not there: by whom, and the folder.
    pub(super) gone: Vec<(UserDirs, PathBuf)>,
}

impl Own {
    /// Of a user whose folders are these.
    pub fn of(dirs: Option<&UserDirs>) -> Self {
        let mut homes = sandbox::homes();
        // (One that is not there yet, or is all there is, is none to the box.)
        let named = std::env::home_dir().map(|home| canonical_prefix(&home));
        homes.extend(named.filter(|home| !homes.contains(home)));
        let mut all: Vec<UserDirs> = dirs.cloned().into_iter().collect();
        let by_default = homes.iter().map(|home| UserDirs::below(home));
        all.extend(by_default.filter(|other| dirs != Some(other)));
        let linked = config::linked(all.iter().map(|dirs| dirs.config.as_path()));
        let trusted = all.iter().flat_map(|dirs| {
            config::trusted(Some(dirs)).into_iter().map(|folder| (dirs.clone(), folder))
        });
        Self { dirs: dirs.cloned(), homes, trusted: trusted.collect(), all, linked }
    }

    /// Of a user whose folders the environment names.
    pub fn find() -> Self {
        Self::of(UserDirs::find().as_ref())
    }

    /// Where this session has it.
    pub fn dirs(&self) -> Option<&UserDirs> {
        self.dirs.as_ref()
    }

    /// What file tools leave alone in this project.
    pub(super) fn guarded(&self, root: &Path) -> Guarded {
        let in_homes = |names: &'static [&'static str]| {
            let homes = self.homes.iter();
            homes.flat_map(move |home| names.iter().map(move |name| home.join(name)))
        };
        let closed = in_homes(sandbox::SECRET_STORES).chain(self.folders().cloned());
        let unchanged = in_homes(sandbox::STARTUP_FILES).chain(self.led_to(Some(root)));
        Guarded::new(&closed.collect::<Vec<_>>(), &unchanged.collect::<Vec<_>>())
    }

    /// Nothing of it, and of what configures it, is led elsewhere by somebody who writes in these places, or made by
    /// him. `root`: a project that is trusted.
    pub(super) fn holds(&self, root: Option<&Path>, places: &[PathBuf]) -> Result<(), OpenError> {
        for own in self.dirs.iter().flat_map(|dirs| [&dirs.config, &dirs.data, &dirs.state]) {
            leads_where_it_says(own, places)?;
        }
        let links: Vec<PathBuf> = self.links(root).collect();
        let own = self.folders().map(|own| canonical_prefix(own));
        let covered = own.chain(links.iter().filter_map(|link| link.canonicalize().ok()));
        let covered: BTreeSet<PathBuf> = covered.filter(|path| path.is_dir()).collect();
        let is_covered = |path: &Path| path.ancestors().any(|above| covered.contains(above));
        for link in &links {
            // (In a folder that is covered nobody changes a link.)
            let Some(target) = config::target_of(link) else { continue };
            let goes_up = target.components().any(|part| part.as_os_str() == "..");
            if goes_up || !is_covered(&disk::settled(&target, places)) {
                leads_where_it_says(&target, places).map_err(|_| {
                    OpenError::Usage(format!(
                        "{} configures the agent and leads to {} by a link that commands may lead elsewhere: start in \
                         another folder, or let it name where that is ({})",
                        link.display(),
                        target.display(),
                        canonical_prefix(link).display()
                    ))
                })?;
            }
            let real = canonical_prefix(link);
            if !real.exists() && disk::is_below(&real, places) && !is_covered(&real) {
                return Err(OpenError::Usage(format!(
                    "{} configures the agent and leads to {}, which is not there and lies where commands write: make \
                     it, or remove the link",
                    link.display(),
                    real.display()
                )));
            }
        }
        // What it writes by itself is not written into what commands write.
        for link in self.all.iter().flat_map(UserDirs::linked_records) {
            if config::target_of(&link).is_some_and(|target| disk::is_below(&target, places)) {
                return Err(OpenError::Usage(format!(
                    "{} is the agent's own and a link into a folder that commands write: put the file itself there",
                    link.display()
                )));
            }
        }
        Ok(())
    }

    /// What a box with these places has to cover. What is not there can not be covered: where a command could make it,
    /// it is made.
    pub(super) fn cover(&self, root: Option<&Path>, places: &[PathBuf]) -> Cover {
        let mut cover = Cover::default();
        // (Around everything there is no box.)
        if places.iter().any(|place| place.parent().is_none()) {
            return cover;
        }
        // (The home may be reached by a link.)
        cover.hidden = self.folders().map(|folder| canonical_prefix(folder)).collect();
        for folder in &cover.hidden {
            if is_in(folder, places)
                && let Err(error) = disk::make_folder(folder, 0o700)
            {
                cover.gaps.push(not_made(folder, &error));
            }
        }
        for dirs in &self.all {
            cover
                .protected
                .extend([&dirs.config, &dirs.trusted_file()].map(|it| canonical_prefix(it)));
            // As it is written: where this was somebody's project, a link there may be a command's.
            let cache = disk::settled(&dirs.cache, places);
            if is_in(&cache, places) {
                let tag = cache.join(TAG.0);
                if let Err(error) = disk::make_folder(&cache, 0o755).and_then(|_| mark(&tag)) {
                    cover.gaps.push(not_made(&tag, &error));
                }
                cover.protected.push(tag);
            }
        }
        // Of those of this session an error has said it.
        let others = self.all.iter().filter(|dirs| self.dirs.as_ref() != Some(dirs));
        for own in others.flat_map(|dirs| [&dirs.config, &dirs.data, &dirs.state, &dirs.cache]) {
            cover
                .gaps
                .extend(leads_where_it_says(own, places).err().map(|error| error.to_string()));
        }
        cover.protected.extend(self.led_to(root));
        if self.linked.is_cut {
            cover.gaps.push(
                "the agent's configuration has too many files: what some of its links lead to is not protected"
                    .to_owned(),
            );
        }
        if let Some(root) = root {
            cover.trusted(root, places, None);
        }
        for (dirs, folder) in &self.trusted {
            cover.trusted(folder, places, Some(dirs));
        }
        cover
    }

    fn folders(&self) -> impl Iterator<Item = &PathBuf> {
        self.all.iter().flat_map(|dirs| [&dirs.config, &dirs.data, &dirs.state])
    }

    /// What links lead to that configure the agent, there or not.
    fn led_to(&self, root: Option<&Path>) -> impl Iterator<Item = PathBuf> {
        self.links(root).map(|link| canonical_prefix(&link))
    }

    /// The links of the user's configuration, and those in the place of a trusted project's. (What leads a project back
    /// into itself counts for nothing.)
    fn links(&self, root: Option<&Path>) -> impl Iterator<Item = PathBuf> {
        let file = |folder: &Path| folder.join(AGENT_DIR).join("config.toml");
        let files = self.trusted.iter().map(move |(_, folder)| file(folder));
        let files = files.chain(root.map(file));
        let is_link = |file: &PathBuf| file.is_symlink() && !config::is_led_by_commands(file);
        self.linked.links.iter().cloned().chain(files.filter(is_link))
    }
}

impl Cover {
    /// What a trusted folder in these places is configured by counts at the next start.
    fn trusted(&mut self, folder: &Path, places: &[PathBuf], dirs: Option<&UserDirs>) {
        if !is_in(folder, places) {
            return;
        }
        let is_there = match folder.symlink_metadata() {
            Ok(data) => data.is_dir(),
            Err(error) if disk::is_not_there(&error) => false,
            Err(error) => {
                self.gaps.push(format!(
                    "{} is trusted and can not be looked at ({error}): a command may put its own there",
                    folder.display()
                ));
                return;
            }
        };
        if is_there {
            let agent = folder.join(AGENT_DIR);
            if let Err(error) = disk::make_folder(&agent, 0o755) {
                self.gaps.push(not_made(&agent, &error));
            }
            self.protected.push(agent);
        } else if let Some(dirs) = dirs {
            self.gone.push((dirs.clone(), folder.to_owned()));
        }
    }
}

/// What a command makes in the place of a trusted folder is not what the user trusted. It says what came of it.
pub(super) fn forget((dirs, folder): &(UserDirs, PathBuf)) -> String {
    let shown = folder.display();
    match config::forget_trust(dirs, folder) {
        Ok(()) => format!(
            "{shown} was trusted and is not there: it is trusted no more (agent trust, when it is back)"
        ),
        Err(error) => format!(
            "{shown} is trusted and not there, which can not be taken back ({error}): a command may put its own there"
        ),
    }
}

fn is_in(path: &Path, places: &[PathBuf]) -> bool {
    places.iter().any(|place| path.starts_with(place))
}

fn not_made(path: &Path, error: &std::io::Error) -> String {
    let path = path.display();
    format!("{path} is not there and can not be made ({error}): a command may put its own there")
}

/// Makes the file that says what a folder for caches is.
fn mark(tag: &Path) -> std::io::Result<()> {
    if fs::symlink_metadata(tag).is_ok_and(|data| data.is_file()) {
        return Ok(());
    }
    disk::replace(tag, TAG.1)
}
