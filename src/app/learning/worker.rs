//! The writing thread: derives lessons from the session's events and stores them.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::mpsc::Receiver;

use super::team_sync::TeamWork;
use super::{LearningMessage, LearningState, MemorySettings};
use agent_learning::credit::compute_credits;
use agent_learning::distillation::{self, DistillationRequest};
use agent_learning::lesson::{Lesson, Scope};
use agent_learning::lesson_filter::code_spans;
use agent_learning::pair::lessons_from_failures;
use agent_learning::store::{Batch, LearnOutcome, SqliteStore, Store as _, StoreError};
use agent_learning::trace::ExecutionTrace;
use agent_learning::trace_builder::{TraceBuilder, TurnRecord};
use agent_permission::may_recommend;
use agent_protocol::event::{Event, EventBody};
use agent_protocol::recall::MemoryWritten;

/// Messages for the user, until the session can report them.
pub(super) type Notices = Arc<Mutex<Vec<String>>>;

pub(super) fn notice_sender(notices: &Notices) -> impl Fn(String) + Send + use<> {
    let notices = notices.clone();
    move |notice| notices.lock().push(notice)
}

/// Whether the judge has no objection to the code that a model's lesson quotes.
fn recommends_safely(lesson: &Lesson) -> bool {
    code_spans(&lesson.text).all(|code| may_recommend(code, ""))
}

pub(super) struct LearningWorker {
    settings: MemorySettings,
    shared: Arc<LearningState>,
    store: SqliteStore,
    notices: Notices,
    reported: Vec<String>,
    fold: TraceBuilder,
    request: Option<DistillationRequest>,
    is_pruned: bool,
    team: Option<TeamWork>,
}

impl LearningWorker {
    pub(super) fn new(
        settings: MemorySettings,
        shared: Arc<LearningState>,
        notices: Notices,
        team: Option<TeamWork>,
    ) -> Self {
        Self {
            team,
            store: SqliteStore::new(settings.file.clone(), notice_sender(&notices)),
            fold: TraceBuilder::new(&settings.project),
            settings,
            shared,
            notices,
            reported: Vec::new(),
            request: None,
            is_pruned: false,
        }
    }

    pub(super) fn run(mut self, mut queue: Receiver<LearningMessage>) {
        while let Some(work) = queue.blocking_recv() {
            match work {
                LearningMessage::Event(event) => self.handle_event(&event),
                LearningMessage::TakeRequest(give) => _ = give.send(self.request.take()),
                LearningMessage::StoreAnswer { request, answer, done } => {
                    self.store_distilled(&request, &answer);
                    _ = done.send(());
                }
                LearningMessage::End(done) => {
                    _ = done.send(());
                    return;
                }
            }
        }
    }

    fn handle_event(&mut self, event: &Event) {
        if self.shared.overflowed.load(Ordering::SeqCst) {
            let notice = "the memory could not keep up; this session teaches nothing";
            self.add_notice(notice.to_owned());
            return self.report_notices();
        }
        if let Some(team) = &mut self.team {
            team.handle_event(event);
        }
        let harvest = self.fold.apply(event);
        let traces = self.fold.take_early_traces();
        self.store_batch(Batch { traces, ..Batch::default() }, event.header.seq, &[]);
        let Some(mut harvest) = harvest else { return };
        self.request = None;
        // The traces are stored only: a copy for a long turn would take megabytes.
        let traces = std::mem::take(&mut harvest.traces);
        let work = || self.build_batch(&harvest, traces);
        match catch_unwind(AssertUnwindSafe(work)) {
            Ok((batch, recalled)) => {
                self.store_batch(batch, harvest.events.1, &recalled);
                self.request = distillation::distillation_request(&harvest);
            }
            Err(_) => self.add_notice(format!(
                "learning from turn {} failed unexpectedly (a defect of this program); nothing is learnt from it",
                harvest.turn
            )),
        }
        self.report_notices();
    }

    /// With the lessons that were recalled.
    fn build_batch(
        &self,
        harvest: &TurnRecord,
        traces: Vec<ExecutionTrace>,
    ) -> (Batch, Vec<Lesson>) {
        let ids = harvest.recalled_lessons.iter().flat_map(|(_, recalled)| &recalled.items);
        let recalled: Vec<Lesson> =
            ids.filter_map(|item| self.store.find_lesson(&item.id).ok().flatten()).collect();
        let mut lessons = lessons_from_failures(harvest, may_recommend);
        let reflections = distillation::lessons_from_reflections(harvest).0.into_iter();
        lessons.extend(reflections.filter(recommends_safely));
        if let Some(group) = &self.settings.attempt_group {
            // What several attempts at one task learn alike is one experience.
            let mut learned = group.learned.lock();
            lessons.retain(|lesson| learned.insert(lesson.id.clone()));
        }
        let credits = compute_credits(harvest, &recalled);
        (Batch { traces, lessons, credits, reports: Vec::new() }, recalled)
    }

    fn store_distilled(&mut self, request: &DistillationRequest, answer: &str) {
        if let Ok((mut lessons, _)) = request.parse_lessons(answer) {
            lessons.retain(recommends_safely);
            // An untrusted folder provides no lessons for other projects.
            if !self.settings.is_trusted {
                let scope = Scope::Project(self.settings.project.clone());
                let scoped = lessons.into_iter().map(|lesson| lesson.with_scope(scope.clone()));
                lessons = scoped.collect();
            }
            self.store_batch(Batch { lessons, ..Batch::default() }, 0, &[]);
        }
        self.report_notices();
    }

    /// `recalled`: the lessons that the credits are about.
    fn store_batch(&mut self, mut batch: Batch, up_to: u64, recalled: &[Lesson]) {
        if let Some(team) = &mut self.team {
            batch.reports = team.reports(&batch, recalled);
        }
        if batch == Batch::default() {
            return;
        }
        match self.store.commit(&batch) {
            Ok(learned) => {
                if let (Some(team), false) = (&self.team, batch.reports.is_empty()) {
                    team.wake();
                }
                let mut written = MemoryWritten { new: Vec::new(), confirmed: Vec::new(), up_to };
                for (lesson, outcome) in batch.lessons.iter().zip(learned) {
                    let list = match outcome {
                        LearnOutcome::New => &mut written.new,
                        LearnOutcome::Reinforced => &mut written.confirmed,
                    };
                    list.push(lesson.to_recalled());
                }
                if !batch.lessons.is_empty() {
                    self.shared.emit(EventBody::MemoryWritten(written));
                }
                self.prune();
            }
            Err(error) => self.notice_error(&error),
        }
    }

    fn prune(&mut self) {
        if std::mem::replace(&mut self.is_pruned, true) {
            return;
        }
        let age = Duration::from_hours(24) * self.settings.keep_days;
        let age = i64::try_from(age.as_millis()).unwrap_or(i64::MAX);
        let before_ms = jiff::Timestamp::now().as_millisecond() - age;
        if let Err(error) = self.store.prune(before_ms, self.settings.max_lessons) {
            self.notice_error(&error);
        }
    }

    fn notice_error(&self, error: &StoreError) {
        self.add_notice(format!("{error}; the lessons of this turn are not stored"));
    }

    fn add_notice(&self, notice: String) {
        self.notices.lock().push(notice);
    }

    fn report_notices(&mut self) {
        let notices = std::mem::take(&mut *self.notices.lock());
        for message in notices {
            if !self.reported.contains(&message) {
                self.reported.push(message.clone());
                self.shared.emit(EventBody::error("memory", message));
            }
        }
    }
}
