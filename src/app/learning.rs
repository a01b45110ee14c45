//! Connects a session to the memory: a thread writes the lessons of each turn; the kernel reads lessons itself.
//!
//! The loop never waits for the thread: events go into a bounded queue.

mod distillation;
mod stored_lessons;
mod team_sync;
mod worker;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot};

use super::{AttemptGroup, OpenError, Team};
use crate::config::{Config, DistillationMode, UserDirs};
use agent_engine::kernel::{BackgroundRequester, LessonMemory};
use agent_learning::distillation::DistillationRequest;
use agent_learning::lesson::Scope;
use agent_protocol::event::{Event, EventBody, EventStream, Sink, StampedEvent};
use agent_protocol::prompt::Prompts;
use distillation::Distillation;
use stored_lessons::StoredLessons;
use team_sync::{TeamSync, TeamWork};
use worker::{LearningWorker, Notices};

/// Limit of the queue, which takes memory only for what is in it; a turn has fewer events, unless the store hangs.
const QUEUE_CAPACITY: usize = 8192;
/// Time for the session's lessons to be written.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(300);
/// Time for the team's database to get them.
const TEAM_TIMEOUT: Duration = Duration::from_millis(500);

enum LearningMessage {
    Event(Box<Event>),
    TakeRequest(oneshot::Sender<Option<DistillationRequest>>),
    StoreAnswer {
        request: DistillationRequest,
        answer: String,
        done: oneshot::Sender<()>,
    },
    /// The last message; the thread reports when all work is done.
    End(SyncSender<()>),
}

#[derive(Clone)]
struct MemorySettings {
    project: String,
    /// The user trusts the folder: its lessons may also apply to other projects.
    is_trusted: bool,
    file: PathBuf,
    keep_days: u32,
    max_lessons: usize,
    attempt_group: Option<Arc<AttemptGroup>>,
}

pub(super) struct SessionLearning {
    lessons: Arc<StoredLessons>,
    sender: mpsc::Sender<LearningMessage>,
    shared: Arc<LearningState>,
    max_tokens: u64,
    /// Limit of the wait for the file, before the first task.
    open_timeout: Duration,
    distil: DistillationMode,
    distillation: Mutex<Option<Distillation>>,
    team: Option<TeamSync>,
}

#[derive(Default)]
struct LearningState {
    /// An event did not fit into the queue: no lessons of this session are learned any more.
    overflowed: AtomicBool,
    /// Receives notices, until the session ends.
    events: Mutex<Option<EventStream>>,
}

impl LearningState {
    fn emit(&self, body: EventBody) {
        if let Some(events) = &*self.events.lock() {
            events.emit(body);
        }
    }
}

impl SessionLearning {
    /// `None` if learning is off, or there is no place for the file.
    pub(super) fn start(
        config: &Config,
        dirs: Option<&UserDirs>,
        project: String,
        is_trusted: bool,
        attempt_group: Option<Arc<AttemptGroup>>,
    ) -> Result<Option<Self>, OpenError> {
        let learning = &config.learning;
        if !learning.enabled || (dirs.is_none() && learning.database.is_none()) {
            return Ok(None);
        }
        let settings = MemorySettings {
            project: project.clone(),
            is_trusted,
            file: super::memory_file(config, dirs)?,
            keep_days: learning.keep_days,
            max_lessons: learning.max_items,
            attempt_group,
        };
        let team = Team::find(config, dirs, &project);
        let of_team = team.as_ref().map(|team| team.scope.clone());
        let here = [Scope::Project(project)].into_iter().chain(of_team).collect();
        let lessons = Arc::new(StoredLessons::new(here));
        let shared = Arc::new(LearningState::default());
        let work = team.map(|team| {
            let sync = TeamSync::start(team.clone(), settings.file.clone(), shared.clone());
            (TeamWork::new(team, sync.clone()), sync)
        });
        let (work, team) = work.unzip();
        let (sender, queue) = mpsc::channel(QUEUE_CAPACITY);
        let (its_lessons, its_shared) = (lessons.clone(), shared.clone());
        let thread = std::thread::Builder::new().name("memory".to_owned());
        let spawned = thread.spawn(move || {
            let notices = Notices::default();
            its_lessons.open(settings.file.clone(), &notices);
            LearningWorker::new(settings, its_shared, notices, work).run(queue);
        });
        // Without a thread the session continues without memory.
        Ok(spawned.ok().map(|_| Self {
            lessons,
            sender,
            shared,
            max_tokens: learning.max_recalled_tokens,
            open_timeout: Duration::from_millis(learning.wait_ms),
            distil: learning.distil,
            distillation: Mutex::new(None),
            team,
        }))
    }

    pub(super) fn memory(&self) -> LessonMemory {
        LessonMemory { recall: self.lessons.clone(), max_tokens: self.max_tokens }
    }

    pub(super) fn sink(&self) -> LearningSink {
        LearningSink { sender: self.sender.clone(), shared: self.shared.clone() }
    }

    /// Called when the session has begun. `request` sends distillation requests.
    pub(super) fn attach_session(
        &self,
        events: &EventStream,
        request: Option<BackgroundRequester>,
        prompts: &Arc<Prompts>,
    ) {
        *self.shared.events.lock() = Some(events.clone());
        let may_distil = |model: &BackgroundRequester| match self.distil {
            DistillationMode::Auto => !model.uses_local_server(),
            DistillationMode::Always => true,
            DistillationMode::Never => false,
        };
        let distillation = request.filter(may_distil).map(|model| Distillation {
            model: Arc::new(model),
            prompts: prompts.clone(),
            sender: self.sender.clone(),
            shared: self.shared.clone(),
        });
        *self.distillation.lock() = distillation;
    }

    /// The work for the turn that just ended.
    pub(super) fn distil(&self) -> Option<BoxFuture<'static, ()>> {
        let distillation = self.distillation.lock().clone()?;
        Some(distillation.run().boxed())
    }

    pub(super) async fn wait_until_open(&self) {
        _ = tokio::time::timeout(self.open_timeout, self.lessons.wait_until_open()).await;
    }

    pub(super) fn finish(&self) {
        let (done, all_done) = sync_channel(1);
        if self.sender.try_send(LearningMessage::End(done)).is_ok() {
            _ = all_done.recv_timeout(CLOSE_TIMEOUT);
        }
        if let Some(team) = &self.team {
            team.finish(TEAM_TIMEOUT);
        }
        *self.shared.events.lock() = None;
    }
}

impl Drop for SessionLearning {
    fn drop(&mut self) {
        // The events hold the queue's sender, so the thread is ended by a message.
        let (done, _) = sync_channel(1);
        _ = self.sender.try_send(LearningMessage::End(done));
        *self.shared.events.lock() = None;
    }
}

pub(super) struct LearningSink {
    sender: mpsc::Sender<LearningMessage>,
    shared: Arc<LearningState>,
}

impl Sink for LearningSink {
    fn receive(&mut self, stamped: &StampedEvent) {
        let event = &stamped.event;
        // Requests are large and not needed for learning.
        if !event.body.is_stored()
            || matches!(event.body, EventBody::ModelRequested(_))
            || self.shared.overflowed.load(Ordering::Relaxed)
        {
            return;
        }
        if self.sender.try_send(LearningMessage::Event(Box::new(event.clone()))).is_err() {
            self.shared.overflowed.store(true, Ordering::SeqCst);
        }
    }
}
