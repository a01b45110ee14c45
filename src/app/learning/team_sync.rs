//! Exchanges lessons with the team's database, in a thread of its own: nothing waits for the network.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::time::Duration;

use super::LearningState;
use crate::app::Team;
use agent_learning::credit::Credit;
use agent_learning::lesson::{Lesson, Scope};
use agent_learning::store::{Batch, PostgresStore, SqliteStore, StoreError, TeamReport};
use agent_protocol::event::{Event, EventBody};

enum SyncMessage {
    /// There may be something to send.
    Wake,
    /// The last message; the thread reports when it has tried to send all.
    End(SyncSender<()>),
}

#[derive(Clone)]
pub(super) struct TeamSync(Sender<SyncMessage>);

impl TeamSync {
    pub(super) fn start(team: Team, file: PathBuf, shared: Arc<LearningState>) -> Self {
        let (sender, queue) = channel();
        let exchange = Exchange {
            team,
            store: SqliteStore::new(file, |_| {}),
            shared,
            database: None,
            is_pulled: false,
            is_away: false,
            has_reported: false,
        };
        let thread = std::thread::Builder::new().name("team".to_owned());
        // Without a thread the reports stay in the file.
        _ = thread.spawn(move || exchange.run(&queue));
        Self(sender)
    }

    /// Waits at most this long until all is sent, not at all if the database is away.
    pub(super) fn finish(&self, patience: Duration) {
        let (done, all_done) = sync_channel(1);
        if self.0.send(SyncMessage::End(done)).is_ok() {
            _ = all_done.recv_timeout(patience);
        }
    }
}

struct Exchange {
    team: Team,
    /// The user's file; the thread that learns reports its damage.
    store: SqliteStore,
    shared: Arc<LearningState>,
    database: Option<PostgresStore>,
    is_pulled: bool,
    /// The last try failed.
    is_away: bool,
    /// The user knows that a try failed.
    has_reported: bool,
}

impl Exchange {
    fn run(mut self, queue: &Receiver<SyncMessage>) {
        while let Ok(message) = queue.recv() {
            if let (SyncMessage::End(done), true) = (&message, self.is_away) {
                _ = done.send(());
                return;
            }
            let exchanged = self.exchange();
            self.is_away = exchanged.is_err();
            if let Err(error) = exchanged {
                self.database = None;
                if !std::mem::replace(&mut self.has_reported, true) {
                    let then = "what was learnt waits here until it can be sent";
                    self.report_error(format!("{error}; {then}"));
                }
            }
            if let SyncMessage::End(done) = message {
                _ = done.send(());
                return;
            }
        }
    }

    fn exchange(&mut self) -> Result<(), StoreError> {
        let database = match self.database.take() {
            Some(database) => database,
            None => self.team.connect()?,
        };
        // What the user forgot is retired before lessons are taken.
        if let Some(why) = self.team.send(&self.store, &database)?.first() {
            self.report_error(format!("{why}; that report to the team is lost"));
        }
        if !self.is_pulled {
            // `agent team pull` says which are refused.
            _ = self.team.pull(&self.store, &database)?;
            self.is_pulled = true;
        }
        self.database = Some(database);
        Ok(())
    }

    fn report_error(&self, message: String) {
        self.shared.emit(EventBody::error("memory", message));
    }
}

/// The part of the learning thread that collects reports.
pub(super) struct TeamWork {
    team: Team,
    sync: TeamSync,
    /// Empty before the first event.
    session: String,
    /// A random number, and what this process has spent on a day.
    run: String,
    day: String,
    tokens: u64,
    cost_usd: f64,
    spent: Option<TeamReport>,
}

impl TeamWork {
    pub(super) fn new(team: Team, sync: TeamSync) -> Self {
        Self {
            team,
            sync,
            session: String::new(),
            run: uuid::Uuid::now_v7().to_string(),
            day: String::new(),
            tokens: 0,
            cost_usd: 0.0,
            spent: None,
        }
    }

    pub(super) fn wake(&self) {
        _ = self.sync.0.send(SyncMessage::Wake);
    }

    pub(super) fn handle_event(&mut self, event: &Event) {
        if self.session.is_empty() {
            self.session.clone_from(&event.header.session);
            self.wake();
        }
        let EventBody::TurnFinished(turn) = &event.body else { return };
        let day = event.header.ts.get(..10).unwrap_or_default();
        if self.day != day {
            (self.day, self.tokens, self.cost_usd) = (day.to_owned(), 0, 0.0);
        }
        self.tokens += turn.usage.total();
        self.cost_usd += turn.cost_usd.unwrap_or_default();
        self.spent = Some(TeamReport::Spent {
            day: self.day.clone(),
            run: self.run.clone(),
            tokens: i64::try_from(self.tokens).unwrap_or(i64::MAX),
            cost_usd: self.cost_usd,
        });
    }

    /// What the team may know of these lessons, of their use, and the spending that is not reported yet.
    pub(super) fn reports(
        &mut self,
        batch: &Batch,
        recalled: &[Lesson],
    ) -> Vec<(Scope, TeamReport)> {
        let lesson = |credit: &Credit| recalled.iter().find(|lesson| lesson.id == credit.id);
        let learned = batch.lessons.iter().filter_map(|lesson| self.team.report(lesson).ok());
        let outcomes = batch
            .credits
            .iter()
            .filter_map(|credit| self.team.outcome(credit, lesson(credit)?, &self.session));
        let reports = learned.chain(outcomes).chain(self.spent.take());
        reports.map(|report| (self.team.scope.clone(), report)).collect()
    }
}
