//! Learning, beside the loop: one thread writes what each turn teaches; the kernel reads the lessons itself.
//!
//! The loop never waits for the thread: events go into a bounded queue. What is wrong with the store is reported once.

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
use tokio::sync::oneshot;

use super::OpenError;
use crate::config::{Config, Distil, UserDirs};
use crate::kernel::{BackgroundRequest, Memory};
use crate::learning::distil::Request;
use crate::protocol::event::{Body, Event, Events, Sink, Stamped};
use crate::protocol::prompt::Prompts;
use distillation::Distillation;
use recall::StoredLessons;
use worker::{Notices, Worker};

/// So many events may wait; a turn has fewer, unless the store hangs.
const QUEUE: usize = 8192;
/// So long the end of a session waits for its lessons to be written.
const LAST_PATIENCE: Duration = Duration::from_secs(2);

/// What the thread is given to do.
enum Work {
    Event(Box<Event>),
    /// What is a model asked about the last turn?
    Distil(oneshot::Sender<Option<Request>>),
    /// What it answered.
    Distilled {
        request: Request,
        answer: String,
        done: oneshot::Sender<()>,
    },
    /// Nothing follows; report when all is done.
    End(SyncSender<()>),
}

/// Whose memory, and where it is.
#[derive(Clone)]
struct Settings {
    /// The project's identity.
    project: String,
    /// The user trusts the folder: its lessons may apply elsewhere too.
    is_trusted: bool,
    file: PathBuf,
    keep_days: u32,
    max_lessons: usize,
}

/// A session's side of the memory.
pub(super) struct Learning {
    lessons: Arc<StoredLessons>,
    work: SyncSender<Work>,
    shared: Arc<Shared>,
    max_tokens: u64,
    /// So long the first task waits for the file to be opened.
    patience: Duration,
    distils: bool,
    distillation: Mutex<Option<Distillation>>,
}

/// What the loop's side and the thread share.
#[derive(Default)]
struct Shared {
    /// An event did not fit into the queue: nothing more of this session is learnt.
    lost: AtomicBool,
    /// Where notices go, until the session ends.
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
    /// Opens the memory. `None` if learning is off, or there is no place for it.
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
        let (work, queue) = sync_channel(QUEUE);
        let (its_lessons, its_shared) = (lessons.clone(), shared.clone());
        let thread = std::thread::Builder::new().name("memory".to_owned());
        let begun = thread.spawn(move || {
            let notices = Notices::default();
            its_lessons.open(settings.file.clone(), &notices);
            Worker::new(settings, its_shared, notices).work(&queue);
        });
        // Without a thread there is no memory, and the work continues.
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

    /// What the kernel asks.
    pub(super) fn memory(&self) -> Memory {
        Memory { recall: self.lessons.clone(), max_tokens: self.max_tokens }
    }

    /// Takes the events of the session.
    pub(super) fn recorder(&self) -> Recorder {
        Recorder { work: self.work.clone(), shared: self.shared.clone() }
    }

    /// The session has begun. `request`: how a model is asked to distil lessons.
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

    /// Distils the turn that has just ended, as long as this is polled.
    pub(super) fn distil(&self) -> Option<BoxFuture<'static, ()>> {
        let distillation = self.distillation.lock().unwrap_or_else(PoisonError::into_inner);
        distillation.clone().map(|distillation| distillation.run().boxed())
    }

    /// The memory was opened, or was waited for long enough.
    pub(super) async fn ready(&self) {
        _ = tokio::time::timeout(self.patience, self.lessons.opened()).await;
    }

    /// The session ends.
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
        // The events hold the thread's queue: the thread ends by a message.
        let (done, _) = sync_channel(1);
        _ = self.work.try_send(Work::End(done));
        *self.shared.events() = None;
    }
}

/// Passes events on to the thread.
pub(super) struct Recorder {
    work: SyncSender<Work>,
    shared: Arc<Shared>,
}

impl Sink for Recorder {
    fn take(&mut self, stamped: &Stamped) {
        let event = &stamped.event;
        // (Requests are large, and nothing is learnt from them.)
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
