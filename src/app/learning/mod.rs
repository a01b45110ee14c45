//! Connects a session to the memory: a thread writes the lessons of each turn; the kernel reads lessons
//! itself.
//!
//! The loop never waits for the thread: events go into a bounded queue. Each problem of the store is reported
//! once.

mod distillation;
mod recall;
mod worker;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use tokio::sync::{mpsc, oneshot};

use super::OpenError;
use crate::config::{Config, Distil, UserDirs};
use agent_engine::kernel::{BackgroundRequest, Memory};
use agent_learning::distil::Request;
use agent_protocol::event::{Body, Event, Events, Sink, Stamped};
use agent_protocol::prompt::Prompts;
use distillation::Distillation;
use recall::StoredLessons;
use worker::{Notices, Worker};

/// Limit of the queue, which takes memory only for what is in it; a turn has fewer events, unless the store hangs.
const QUEUE: usize = 8192;
/// How long the end of a session waits for its lessons to be written.
const LAST_PATIENCE: Duration = Duration::from_secs(2);

/// A message to the thread.
enum Work {
    Event(Box<Event>),
    /// The request about the last turn, if there is one?
    Distil(oneshot::Sender<Option<Request>>),
    /// The answer of a model.
    Distilled {
        request: Request,
        answer: String,
        done: oneshot::Sender<()>,
    },
    /// The last message; report when all work is done.
    End(SyncSender<()>),
}

/// The memory's file and project.
#[derive(Clone)]
struct Settings {
    /// The project's identity.
    project: String,
    /// The user trusts the folder: its lessons may also apply to other projects.
    is_trusted: bool,
    file: PathBuf,
    keep_days: u32,
    max_lessons: usize,
}

/// The memory as used by a session.
pub(super) struct Learning {
    lessons: Arc<StoredLessons>,
    work: mpsc::Sender<Work>,
    shared: Arc<Shared>,
    max_tokens: u64,
    /// How long the first task waits for the file to be opened.
    patience: Duration,
    distils: bool,
    distillation: Mutex<Option<Distillation>>,
}

/// State shared by the loop and the thread.
#[derive(Default)]
struct Shared {
    /// An event did not fit into the queue: this session is not learnt from any further.
    lost: AtomicBool,
    /// Receives notices, until the session ends.
    events: Mutex<Option<Events>>,
}

impl Shared {
    fn emit(&self, body: Body) {
        if let Some(events) = &*self.events() {
            events.emit(body);
        }
    }

    fn events(&self) -> MutexGuard<'_, Option<Events>> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Learning {
    /// Opens the memory. `None` if learning is off, or there is no place for the file.
    pub(super) fn begin(
        config: &Config,
        dirs: Option<&UserDirs>,
        project: String,
        is_trusted: bool,
    ) -> Result<Option<Self>, OpenError> {
        let learning = &config.learning;
        if !learning.enabled || (dirs.is_none() && learning.database.is_none()) {
            return Ok(None);
        }
        let settings = Settings {
            project: project.clone(),
            is_trusted,
            file: super::memory_file(config, dirs)?,
            keep_days: learning.keep_days,
            max_lessons: learning.max_items,
        };
        let lessons = Arc::new(StoredLessons::of(project));
        let shared = Arc::new(Shared::default());
        let (work, queue) = mpsc::channel(QUEUE);
        let (its_lessons, its_shared) = (lessons.clone(), shared.clone());
        let thread = std::thread::Builder::new().name("memory".to_owned());
        let begun = thread.spawn(move || {
            let notices = Notices::default();
            its_lessons.open(settings.file.clone(), &notices);
            Worker::new(settings, its_shared, notices).work(queue);
        });
        // Without a thread the session continues without memory.
        Ok(begun.ok().map(|_| Self {
            lessons,
            work,
            shared,
            max_tokens: learning.max_recalled_tokens,
            patience: Duration::from_millis(learning.wait_ms),
            distils: learning.distil == Distil::Auto,
            distillation: Mutex::new(None),
        }))
    }

    /// The kernel's interface to the memory.
    pub(super) fn memory(&self) -> Memory {
        Memory { recall: self.lessons.clone(), max_tokens: self.max_tokens }
    }

    /// The sink for the session's events.
    pub(super) fn recorder(&self) -> Recorder {
        Recorder { work: self.work.clone(), shared: self.shared.clone() }
    }

    /// Called when the session has begun. `request`: sends distillation requests.
    pub(super) fn session(
        &self,
        events: &Events,
        request: Option<BackgroundRequest>,
        prompts: &Arc<Prompts>,
    ) {
        *self.shared.events() = Some(events.clone());
        let distillation = request.filter(|_| self.distils).map(|model| Distillation {
            model: Arc::new(model),
            prompts: prompts.clone(),
            work: self.work.clone(),
            shared: self.shared.clone(),
        });
        *self.distillation.lock().unwrap_or_else(PoisonError::into_inner) = distillation;
    }

    /// Distils the turn that just ended, while this is polled.
    pub(super) fn distil(&self) -> Option<BoxFuture<'static, ()>> {
        let distillation = self.distillation.lock().unwrap_or_else(PoisonError::into_inner);
        distillation.clone().map(|distillation| distillation.run().boxed())
    }

    /// Waits until the memory is open, or the time limit is reached.
    pub(super) async fn ready(&self) {
        _ = tokio::time::timeout(self.patience, self.lessons.opened()).await;
    }

    /// Called at the end of the session.
    pub(super) fn end(&self) {
        let (done, all_done) = sync_channel(1);
        if self.work.try_send(Work::End(done)).is_ok() {
            _ = all_done.recv_timeout(LAST_PATIENCE);
        }
        *self.shared.events() = None;
    }
}

impl Drop for Learning {
    fn drop(&mut self) {
        // The events hold the queue's sender, so the thread is ended by a message.
        let (done, _) = sync_channel(1);
        _ = self.work.try_send(Work::End(done));
        *self.shared.events() = None;
    }
}

/// A sink that passes events to the thread.
pub(super) struct Recorder {
    work: mpsc::Sender<Work>,
    shared: Arc<Shared>,
}

impl Sink for Recorder {
    fn take(&mut self, stamped: &Stamped) {
        let event = &stamped.event;
        // (Requests are large and not needed for learning.)
        if !event.body.is_stored()
            || matches!(event.body, Body::ModelRequested(_))
            || self.shared.lost.load(Ordering::Relaxed)
        {
            return;
        }
        if self.work.try_send(Work::Event(Box::new(event.clone()))).is_err() {
            self.shared.lost.store(true, Ordering::SeqCst);
        }
    }
}
