//! The lessons that a repository's machines share: what is given to the team's database, and taken from it.

use std::path::{Path, PathBuf};

use crate::config::{Config, UserDirs};
use agent_learning::credit::Credit;
use agent_learning::lesson::{Lesson, Scope};
use agent_learning::lesson_filter::SharingRules;
use agent_learning::store::{
    Batch, PostgresStore, SqliteStore, Store as _, StoreError, TeamReport,
};
use agent_permission::may_recommend;
use agent_protocol::disk;

/// Of systems and images, not of people: these words are in many lessons.
const SYSTEM_USERS: [&str; 13] = [
    "agent", "app", "build", "ci", "git", "node", "python", "root", "runner", "test", "ubuntu",
    "user", "vscode",
];

/// The team of a repository.
#[derive(Clone, Debug)]
pub struct Team {
    pub scope: Scope,
    url: String,
    /// Where the random number of this machine is.
    machine_file: PathBuf,
    project: Scope,
    rules: SharingRules,
}

impl Team {
    /// `None` if no database is configured, or the project is not one with a remote on a host in a trusted folder: the
    /// identity of others is a path.
    pub fn find(config: &Config, dirs: Option<&UserDirs>, project: &str) -> Option<Self> {
        let url = config.team.database.clone().filter(|url| !url.is_empty())?;
        if project.starts_with('/') {
            return None;
        }
        let user = nix::unistd::User::from_uid(nix::unistd::getuid()).ok().flatten();
        let users = [user.map(|user| user.name), super::variable("USER")].into_iter().flatten();
        let home = std::env::home_dir();
        let rules = SharingRules {
            host: project.split('/').next().unwrap_or_default().to_owned(),
            users: users
                .filter(|user| !user.is_empty() && !SYSTEM_USERS.contains(&user.as_str()))
                .collect(),
            home: home.map(|home| home.display().to_string()),
        };
        Some(Self {
            scope: Scope::team(project),
            url,
            machine_file: dirs?.data.join("machine"),
            project: Scope::Project(project.to_owned()),
            rules,
        })
    }

    /// Prepares the database; returns whether that changed something.
    pub fn prepare(&self) -> Result<bool, StoreError> {
        PostgresStore::prepare(&self.url)
    }

    /// Connects to the database.
    pub fn connect(&self) -> Result<PostgresStore, StoreError> {
        let machine = self.machine().map_err(|error| {
            StoreError::Team(format!("{}: {error}", self.machine_file.display()))
        })?;
        PostgresStore::connect(&self.url, &machine)
    }

    fn machine(&self) -> std::io::Result<String> {
        use std::io::Write as _;
        if let Ok(number) = std::fs::read_to_string(&self.machine_file) {
            return Ok(number);
        }
        let folder = self.machine_file.parent().unwrap_or(Path::new("/"));
        disk::create_folder_all(folder, 0o700)?;
        // Neither a time nor the name of the machine can be read in it.
        let number = blake3::hash(uuid::Uuid::now_v7().as_bytes()).to_hex();
        let mut new = tempfile::NamedTempFile::new_in(folder)?;
        new.write_all(number.as_bytes())?;
        // Another session may have chosen it already.
        _ = new.persist_noclobber(&self.machine_file);
        std::fs::read_to_string(&self.machine_file)
    }

    /// What the team is to learn of this lesson; an error says why it stays here.
    pub fn report(&self, lesson: &Lesson) -> Result<TeamReport, String> {
        if lesson.scope != self.project {
            return Err("it is not about this project alone".to_owned());
        }
        let shared = lesson.to_shared(&self.scope);
        match self.rules.objection(&shared, may_recommend) {
            None => Ok(TeamReport::Learned(Box::new(shared))),
            Some(why) => Err(why),
        }
    }

    /// What the team is to learn of the use of this lesson in a session.
    pub fn outcome(&self, credit: &Credit, lesson: &Lesson, session: &str) -> Option<TeamReport> {
        // In the session that learnt it, it proves nothing.
        let is_earlier = lesson.sources.is_empty()
            || lesson.sources.iter().any(|source| source.session != session);
        let is_shared = lesson.scope == self.project || lesson.scope == self.scope;
        let is_known = is_earlier && is_shared && credit.helped + credit.hurt > 0;
        is_known.then(|| TeamReport::Outcome(credit.clone()))
    }

    /// Queues everything that this project has learnt and the team may know; returns the number, and why others stay.
    pub fn queue_all(&self, store: &SqliteStore) -> Result<(usize, Vec<String>), StoreError> {
        let (mut n, mut reports, mut kept) = (0, Vec::new(), Vec::new());
        let mut lessons = store.lessons(std::slice::from_ref(&self.project))?;
        lessons.retain(Lesson::is_in_use);
        for lesson in lessons {
            match self.report(&lesson) {
                Ok(report) => {
                    n += 1;
                    reports.push(report);
                    // Each time that it was learnt counts as help, too.
                    let helped = lesson.helped.saturating_sub(lesson.frequency);
                    let (helped, hurt) =
                        (u32::from(helped > lesson.hurt), u32::from(helped < lesson.hurt));
                    if lesson.recalled > 0 && helped + hurt > 0 {
                        reports.push(TeamReport::Outcome(Credit { id: lesson.id, helped, hurt }));
                    }
                }
                Err(why) => kept.push(format!("{} stays here: {why}", lesson.id)),
            }
        }
        self.queue(store, reports)?;
        Ok((n, kept))
    }

    fn queue(&self, store: &SqliteStore, reports: Vec<TeamReport>) -> Result<(), StoreError> {
        if reports.is_empty() {
            return Ok(());
        }
        let reports = reports.into_iter().map(|report| (self.scope.clone(), report)).collect();
        store.commit(&Batch { reports, ..Batch::default() }).map(drop)
    }

    /// Queues that the team forgets these lessons.
    pub fn retire(
        &self,
        store: &SqliteStore,
        ids: impl Iterator<Item = String>,
        reason: &str,
    ) -> Result<(), StoreError> {
        let report = |id| TeamReport::Retired { id, reason: reason.to_owned() };
        self.queue(store, ids.map(report).collect())
    }

    /// Sends what waits in the file; returns why the database refused some, which are dropped.
    pub fn send(
        &self,
        store: &SqliteStore,
        database: &PostgresStore,
    ) -> Result<Vec<String>, StoreError> {
        let mut refused = Vec::new();
        loop {
            let reports = store.unsent_reports(&self.scope)?;
            if reports.is_empty() {
                return Ok(refused);
            }
            for (number, report) in reports {
                match database.send(&self.scope, &report) {
                    Err(StoreError::Rejected(why)) => refused.push(why),
                    sent => sent?,
                }
                store.remove_report(number)?;
            }
        }
    }

    /// Takes the lessons that have proved themselves; returns how many are new, and why others are refused.
    pub fn pull(
        &self,
        store: &SqliteStore,
        database: &PostgresStore,
    ) -> Result<(usize, Vec<String>), StoreError> {
        let mut refused = Vec::new();
        let mut lessons = database.proven_lessons(&self.scope)?;
        lessons.retain(|lesson| {
            let is_ours = lesson.scope == self.scope && lesson.sources.is_empty();
            let why = self.rules.objection(lesson, may_recommend);
            let why =
                why.or_else(|| (!is_ours).then(|| "it is not the lesson of a team".to_owned()));
            refused.extend(why.iter().map(|why| format!("{} is refused: {why}", lesson.id)));
            why.is_none()
        });
        Ok((store.replace_team_lessons(&self.scope, &lessons)?, refused))
    }
}
