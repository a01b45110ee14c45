//! Learning, beside the loop: one thread reads what is known when a session begins, and writes what each turn taught.
//!
//! The loop never waits for it: facts go into a queue that is bounded, what does not fit is done from the record at the
//! next start, and whatever is wrong with the store is said once. `docs/LEARNING.md` tells the whole.

mod asking;
mod begun;
mod known;
mod leftovers;
mod worker;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use tokio::sync::{oneshot, watch};

use super::{OpenError, Storage};
use crate::config::{AskModel, Config, UserDirs};
use crate::kernel::{BackgroundRequest, Memory};
use crate::learning::question::Question;
use crate::protocol::event::{Body, Event, Events, Sink, Stamped};
use crate::protocol::prompt::Prompts;
use asking::{Answered, Asking, Heard};
use known::Known;
use worker::Worker;

/// So many facts may wait; a turn has fewer, unless the store hangs.
const QUEUE: usize = 8192;
/// So long the end of a session waits for what it taught to be written; the rest is done at the next start.
const LAST_PATIENCE: Duration = Duration::from_millis(50);

/// What the thread is given to do.
enum Work {
    Begin(Box<Begun>),
    /// Somebody may have changed what is known.
    Read,
    Fact(Box<Event>),
    /// Which question is next, of those that were not asked yet in this session?
    Ask {
        asked: BTreeSet<String>,
        give: oneshot::Sender<Option<Box<Question>>>,
    },
    /// The question of this id is sent.
    Asked(String),
    /// What came of a question.
    Answered(Box<Question>, Answered),
    /// Nothing follows; tell when all is done.
    End(SyncSender<()>),
}

/// A session that begins or goes on.
struct Begun {
    session: String,
    /// Its record; `None`: nothing of it is kept, and nothing is learnt.
    record: Option<Record>,
}

/// Where a session is recorded, beside others of its project.
struct Record {
    storage: Storage,
    /// The number of the last event that was there when the session went on; 0: it is new.
    seq: u64,
}

/// Whose memory, and where it lies.
#[derive(Clone)]
pub(super) struct Whose {
    /// The project's identity.
    pub(super) project: String,
    /// The user trusts the folder: what it teaches may hold elsewhere too.
    pub(super) is_trusted: bool,
    file: PathBuf,
    keep_days: u32,
    max_items: usize,
    /// What the rules see nothing in is kept as a question.
    keeps_questions: bool,
}

/// A session's side of the memory.
pub(super) struct Learning {
    known: Arc<Known>,
    work: SyncSender<Work>,
    shared: Arc<Shared>,
    max_tokens: u64,
    /// So long the first task waits for what is known.
    patience: Duration,
    is_trusted: bool,
    heard: watch::Sender<Heard>,
}

/// What the loop's side and the thread know of each other.
#[derive(Default)]
struct Shared {
    /// Facts are missing: what the session teaches is done from its record.
    lost: AtomicBool,
    /// Where there is something to be told: until the session ends. With the stream goes the hold on its record.
    events: Mutex<Option<Events>>,
}

impl Shared {
    /// Tells something, as long as the session goes on.
    fn tell(&self, body: Body) {
        if let Some(events) = &*self.events() {
            events.emit(body);
        }
    }

    fn events(&self) -> MutexGuard<'_, Option<Events>> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Learning {
    /// Begins to read what is known. `None` where learning is off, or there is no place for it.
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
        let whose = Whose {
            project,
            is_trusted,
            file: super::memory_file(config, dirs)?,
            keep_days: learning.keep_days,
            max_items: learning.max_items,
            // What an untrusted folder's programs print is shown to no model but the one at work.
            keeps_questions: is_trusted && learning.ask_model != AskModel::Never,
        };
        let (known, shared) = (Arc::new(Known::default()), Arc::new(Shared::default()));
        let (work, queue): (_, Receiver<Work>) = sync_channel(QUEUE);
        let (its_known, its_shared) = (known.clone(), shared.clone());
        let thread = std::thread::Builder::new().name("memory".to_owned());
        let begun = thread.spawn(move || Worker::new(whose, its_known, its_shared).work(&queue));
        // Without a thread there is no memory, and the work goes on.
        let max_tokens = learning.max_recalled_tokens;
        let patience = Duration::from_millis(learning.wait_ms);
        let heard = watch::Sender::default();
        Ok(begun.ok().map(|_| Self {
            known,
            work,
            shared,
            max_tokens,
            patience,
            is_trusted,
            heard,
        }))
    }

    /// What the kernel asks.
    pub(super) fn memory(&self) -> Memory {
        Memory { recall: self.known.clone(), max_tokens: self.max_tokens }
    }

    /// Who takes the facts of the session.
    pub(super) fn recorder(&self) -> Recorder {
        Recorder { work: self.work.clone(), shared: self.shared.clone(), heard: self.heard.clone() }
    }

    /// The session has begun; `record`: where it is kept, and how much of it there was already. Open questions are asked
    /// through `aside` for as long as what is given back is polled; of what is kept nowhere, or in a folder that is not
    /// trusted, nobody is asked.
    pub(super) fn session(
        &self,
        events: &Events,
        record: Option<(Storage, u64)>,
        aside: Option<BackgroundRequest>,
        prompts: &Arc<Prompts>,
    ) -> Option<BoxFuture<'static, ()>> {
        self.known.asked_by(events.session());
        let record = record.map(|(storage, seq)| Record { storage, seq });
        let may_ask = record.is_some() && self.is_trusted;
        *self.shared.events() = Some(events.clone());
        let begun = Begun { session: events.session().to_owned(), record };
        self.give(Work::Begin(Box::new(begun)));
        let (work, shared) = (self.work.clone(), self.shared.clone());
        let heard = self.heard.subscribe();
        let asking = |aside| Asking { aside, prompts: prompts.clone(), work, shared, heard };
        aside.filter(|_| may_ask).map(asking).map(|asking| asking.ask().boxed())
    }

    /// A turn begins: what is known is read again, since a person or another agent may have changed it.
    pub(super) fn turn_begins(&self) {
        if self.known.is_read() {
            self.known.is_stale();
            if !self.give(Work::Read) {
                self.known.give_up();
            }
        }
    }

    /// What is known has been read, or was waited for long enough.
    pub(super) async fn ready(&self) {
        // Later it is there or not: nothing waits for it a second time.
        _ = tokio::time::timeout(self.patience, self.known.ready()).await;
    }

    /// The session ends.
    pub(super) fn end(&self) {
        let (done, all_done) = sync_channel(1);
        if self.give(Work::End(done)) {
            // What is not written by then is done at the next start.
            _ = all_done.recv_timeout(LAST_PATIENCE);
        }
        *self.shared.events() = None;
    }

    fn give(&self, work: Work) -> bool {
        let given = self.work.try_send(work).is_ok();
        if !given {
            self.shared.lost.store(true, Ordering::SeqCst);
        }
        given
    }
}

impl Drop for Learning {
    fn drop(&mut self) {
        // The stream holds the thread's queue: the thread is ended by a word.
        let (done, _) = sync_channel(1);
        _ = self.work.try_send(Work::End(done));
        *self.shared.events() = None;
    }
}

/// Passes facts on to the thread.
pub(super) struct Recorder {
    work: SyncSender<Work>,
    shared: Arc<Shared>,
    heard: watch::Sender<Heard>,
}

impl Sink for Recorder {
    fn take(&mut self, stamped: &Stamped) {
        let event = &stamped.event;
        if !event.body.is_stored() {
            return;
        }
        // What a request was made of is large, and nothing is learnt of it.
        if !matches!(event.body, Body::ModelRequested(_)) {
            self.pass_on(event);
        }
        // Behind the fact: who hears of it finds in the store what it teaches.
        self.heard.send_if_modified(|heard| heard.apply(event));
    }
}

impl Recorder {
    fn pass_on(&self, event: &Event) {
        if !self.shared.lost.load(Ordering::Relaxed)
            && self.work.try_send(Work::Fact(Box::new(event.clone()))).is_err()
        {
            self.shared.lost.store(true, Ordering::SeqCst);
        }
    }
}
