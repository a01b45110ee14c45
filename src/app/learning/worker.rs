//! The writing thread: derives lessons from the session's events and stores them.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc::Receiver;

use super::{Settings, Shared, Work};
use agent_learning::credit::credits;
use agent_learning::distil::{self, Request};
use agent_learning::fold::{Fold, Harvest};
use agent_learning::lesson::{Lesson, Scope};
use agent_learning::pair::pairs;
use agent_learning::store::{Batch, Learned, SqliteStore, StoreError};
use agent_learning::trace::ExecutionTrace;
use agent_protocol::event::{Body, Event};
use agent_protocol::recall::MemoryWritten;

/// Notices for the user, until the session can report them.
pub(super) type Notices = Arc<Mutex<Vec<String>>>;

/// Adds a notice.
pub(super) fn into(notices: &Notices) -> impl Fn(String) + Send + use<> {
    let notices = notices.clone();
    move |notice| notices.lock().unwrap_or_else(PoisonError::into_inner).push(notice)
}

pub(super) struct Worker {
    settings: Settings,
    shared: Arc<Shared>,
    store: SqliteStore,
    notices: Notices,
    /// Notices that were reported.
    reported: Vec<String>,
    fold: Fold,
    /// The request about the last turn.
    request: Option<Request>,
    is_pruned: bool,
}

impl Worker {
    pub(super) fn new(settings: Settings, shared: Arc<Shared>, notices: Notices) -> Self {
        Self {
            store: SqliteStore::new(settings.file.clone(), into(&notices)),
            fold: Fold::new(&settings.project),
            settings,
            shared,
            notices,
            reported: Vec::new(),
            request: None,
            is_pruned: false,
        }
    }

    /// Works until the last message.
    pub(super) fn work(mut self, mut queue: Receiver<Work>) {
        while let Some(work) = queue.blocking_recv() {
            match work {
                Work::Event(event) => self.event(&event),
                Work::Distil(give) => _ = give.send(self.request.take()),
                Work::Distilled { request, answer, done } => {
                    self.distilled(&request, &answer);
                    _ = done.send(());
                }
                Work::End(done) => {
                    _ = done.send(());
                    return;
                }
            }
        }
    }

    fn event(&mut self, event: &Event) {
        if self.shared.lost.load(Ordering::SeqCst) {
            self.notice("the memory could not keep up; this session teaches nothing".to_owned());
            return self.report();
        }
        let harvest = self.fold.apply(event);
        let traces = self.fold.early_traces();
        self.store(&Batch { traces, ..Batch::default() }, event.header.seq);
        let Some(mut harvest) = harvest else { return };
        self.request = None;
        // They are stored only: a copy for a long turn would take megabytes.
        let traces = std::mem::take(&mut harvest.traces);
        let work = || self.batch(&harvest, traces);
        match catch_unwind(AssertUnwindSafe(work)) {
            Ok(batch) => {
                self.store(&batch, harvest.events.1);
                self.request = distil::request(&harvest);
            }
            Err(_) => self.notice(format!(
                "learning from turn {} failed unexpectedly (a defect of this program); nothing is learnt from it",
                harvest.turn
            )),
        }
        self.report();
    }

    /// The data to store for a turn.
    fn batch(&self, harvest: &Harvest, traces: Vec<ExecutionTrace>) -> Batch {
        let ids = harvest.recalled.iter().flat_map(|(_, recalled)| &recalled.items);
        let known: Vec<Lesson> =
            ids.filter_map(|item| self.store.lesson(&item.id).ok().flatten()).collect();
        let mut lessons = pairs(harvest);
        lessons.extend(distil::of_reflections(harvest).0);
        Batch { traces, lessons, credits: credits(harvest, &known) }
    }

    fn distilled(&mut self, request: &Request, answer: &str) {
        if let Ok((mut lessons, _)) = request.lessons(answer) {
            // An untrusted folder provides no lessons for other projects.
            if !self.settings.is_trusted {
                for lesson in &mut lessons {
                    *lesson =
                        lesson.clone().with_scope(Scope::Project(self.settings.project.clone()));
                }
            }
            self.store(&Batch { lessons, ..Batch::default() }, 0);
        }
        self.report();
    }

    fn store(&mut self, batch: &Batch, up_to: u64) {
        if batch.traces.is_empty() && batch.lessons.is_empty() && batch.credits.is_empty() {
            return;
        }
        match self.store.commit(batch) {
            Ok(learned) => {
                let mut written = MemoryWritten { new: Vec::new(), confirmed: Vec::new(), up_to };
                for (lesson, learned) in batch.lessons.iter().zip(learned) {
                    match learned {
                        Learned::New => written.new.push(lesson.recalled()),
                        Learned::Known => written.confirmed.push(lesson.recalled()),
                    }
                }
                if !batch.lessons.is_empty() {
                    self.shared.emit(Body::MemoryWritten(written));
                }
                self.prune();
            }
            Err(error) => self.complain(&error),
        }
    }

    /// Once per session.
    fn prune(&mut self) {
        if std::mem::replace(&mut self.is_pruned, true) {
            return;
        }
        let age = Duration::from_hours(24) * self.settings.keep_days;
        let age = i64::try_from(age.as_millis()).unwrap_or(i64::MAX);
        let before_ms = jiff::Timestamp::now().as_millisecond() - age;
        if let Err(error) = self.store.prune(before_ms, self.settings.max_lessons) {
            self.complain(&error);
        }
    }

    fn complain(&self, error: &StoreError) {
        self.notice(format!("{error}; the lessons of this turn are not stored"));
    }

    fn notice(&self, notice: String) {
        self.notices.lock().unwrap_or_else(PoisonError::into_inner).push(notice);
    }

    /// Reports each notice once.
    fn report(&mut self) {
        let notices =
            std::mem::take(&mut *self.notices.lock().unwrap_or_else(PoisonError::into_inner));
        for message in notices {
            if self.reported.contains(&message) {
                continue;
            }
            self.reported.push(message.clone());
            self.shared.emit(Body::error("memory", message));
        }
    }
}
