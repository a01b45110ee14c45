//! The thread that holds the store: reads what is known, folds what happens, writes what it taught.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::asking::Answered;
use super::begun::Begun as Marks;
use super::known::Known;
use super::leftovers::{self, Leftover};
use super::{Begun, Shared, Whose, Work};
use crate::learning::advisor::Advisor;
use crate::learning::fold::{Fold, Harvest};
use crate::learning::item::{Item, Scope};
use crate::learning::lessons::{Lessons, lessons};
use crate::learning::question::Question;
use crate::learning::store::{Batch, Learned, SqliteStore, Store, StoreError};
use crate::protocol::event::{Body, Event};
use crate::protocol::methodology;
use crate::protocol::recall::{MemoryWritten, Recalled};

/// What the store has to say, until it can be told.
type Notices = Arc<Mutex<Vec<String>>>;

pub(super) struct Worker {
    whose: Whose,
    known: Arc<Known>,
    shared: Arc<Shared>,
    store: SqliteStore,
    notices: Notices,
    told: Vec<String>,
    /// What was read last.
    items: Vec<Item>,
    at_work: Option<AtWork>,
    marks: Marks,
    /// What a turn teaches.
    lessons: fn(&Harvest, &[Item]) -> Lessons,
}

/// The session that is recorded.
struct AtWork {
    session: String,
    /// `None`: nothing is learnt of it.
    fold: Option<Fold>,
}

impl Worker {
    pub(super) fn new(whose: Whose, known: Arc<Known>, shared: Arc<Shared>) -> Self {
        let notices = Notices::default();
        let tell = notices.clone();
        let tell = move |notice| tell.lock().unwrap_or_else(PoisonError::into_inner).push(notice);
        let store = SqliteStore::new(whose.file.clone(), tell);
        let (told, items) = (Vec::new(), Vec::new());
        let marks = Marks::beside(&whose.file);
        let at_work = None;
        Self { whose, known, shared, store, notices, told, items, at_work, marks, lessons }
    }

    /// Works until nothing follows.
    pub(super) fn work(mut self, queue: &Receiver<Work>) {
        self.read();
        self.known.give_up();
        while let Ok(work) = queue.recv() {
            match work {
                Work::Begin(begun) => self.begin(*begun),
                Work::Read => {
                    self.read();
                    self.known.give_up();
                }
                Work::Fact(event) => {
                    self.fact(&event);
                    self.look_at_losses();
                }
                Work::Ask { asked, give } => {
                    // Who has gone meanwhile is told nothing.
                    _ = give.send(self.next_question(&asked).map(Box::new));
                }
                Work::Asked(id) => {
                    if let Err(error) = self.store.ask(&id) {
                        self.complain(&error);
                    }
                }
                Work::Answered(question, answered) => self.answered(&question, &answered),
                Work::End(done) => {
                    _ = done.send(());
                    return;
                }
            }
        }
    }

    /// Something happened in the session that is at work.
    fn fact(&mut self, event: &Event) {
        let fold = self.at_work.as_mut().and_then(|at_work| at_work.fold.as_mut());
        let Some(fold) = fold else { return };
        let harvest = fold.apply(event);
        let traces = fold.settled();
        if self.shared.lost.load(Ordering::SeqCst) {
            return;
        }
        // Traces are known by their ids: those of a turn that is never finished are not counted twice.
        if !traces.is_empty()
            && let Err(error) = self.store.commit(&Batch { traces, ..Batch::default() })
        {
            self.complain(&error);
        }
        if let Some(harvest) = harvest {
            let (session, seq) = (harvest.session.clone(), harvest.seq);
            let batch = Batch { session, seq, ..Batch::default() };
            self.keep(batch, vec![harvest], true);
        }
    }

    /// Reads what is known here.
    fn read(&mut self) {
        let scopes = [Scope::Project(self.whose.project.clone()), Scope::User];
        match self.store.items(&scopes) {
            Ok(items) => {
                self.items.clone_from(&items);
                let names = methodology::ALL.iter().map(|way| way.name);
                // What can not be read weighs as much as what is not known.
                let weight =
                    |name: &str| self.store.weight(&methodology::subject(name)).unwrap_or(0.5);
                let weights = names.map(|name| (name.to_owned(), weight(name))).collect();
                self.known.publish(Advisor::new(items).with_weights(weights));
            }
            Err(error) => self.complain(&error),
        }
    }

    fn begin(&mut self, begun: Begun) {
        let Begun { session, record } = begun;
        let fold = record.is_some().then(|| Fold::new(&self.whose.project));
        self.at_work = Some(AtWork { session: session.clone(), fold });
        self.tell();
        let Some(record) = record else { return };
        // What of this session itself is not written yet, where it was known before.
        let reviewed = match self.reviewed(&session) {
            Ok(reviewed) => reviewed,
            Err(error) => {
                self.mark(&session, record.seq.max(1));
                return self.complain(&error);
            }
        };
        if (1..record.seq).contains(&reviewed) {
            let (log, project) = (record.storage.log_path(&session), &self.whose.project);
            let left = leftovers::of(session.clone(), &log, reviewed, record.seq, project);
            let harvests = left.map(|left| left.harvests).unwrap_or_default();
            let (session, after) = (session.clone(), Some(reviewed));
            let batch = Batch { session, seq: record.seq, after, ..Batch::default() };
            self.keep(batch, harvests, false);
        } else if reviewed == 0 {
            // From here on it is ours: a record that came with the folder teaches nothing.
            let seq = record.seq.max(1);
            // Noted first: the program may have ended before the store can be written.
            self.mark(&session, seq);
            let batch = Batch { session: session.clone(), seq, ..Batch::default() };
            self.keep(batch, Vec::new(), false);
        }
        let reviewed = |session: &str| self.reviewed(session).ok();
        let left: Vec<_> =
            leftovers::others(&record.storage, reviewed, &session, &self.whose.project).collect();
        for leftover in left {
            let Leftover { session, after, seq, harvests, held } = leftover;
            let batch = Batch { session, seq, after: Some(after), ..Batch::default() };
            self.keep(batch, harvests, false);
            drop(held);
        }
        let age = Duration::from_hours(24) * self.whose.keep_days;
        let before_ms = now_ms() - i64::try_from(age.as_millis()).unwrap_or(i64::MAX);
        if let Err(error) = self.store.prune(before_ms, self.whose.max_items) {
            self.complain(&error);
        }
        self.marks.clear_older_than(age);
    }

    /// Up to which event a session was reviewed, if only at its beginning; 0: not at all.
    fn reviewed(&self, session: &str) -> Result<u64, StoreError> {
        let reviewed = self.store.reviewed(session)?;
        Ok(if reviewed > 0 { reviewed } else { self.marks.marked(session).unwrap_or(0) })
    }

    /// It is ours from here on, whether or not the store can be told.
    fn mark(&self, session: &str, seq: u64) {
        if let Err(error) = self.marks.mark(session, seq) {
            self.say(format!(
                "the memory can not note that session {session} has begun ({error}); \
                 what it teaches is not learnt if the memory can not be written while it lasts"
            ));
        }
    }

    /// What a turn teaches; a fault of ours costs what this turn teaches and nothing else, and is not met again at the
    /// next start.
    fn lessons_of(&self, harvest: &Harvest) -> Lessons {
        let work = || (self.lessons)(harvest, &self.items);
        catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
            let Harvest { turn, session, .. } = harvest;
            self.say(format!(
                "what turn {turn} of session {session} teaches could not be worked out, which is a fault of \
                 this program: nothing is learnt of it; please report it with the record of that session"
            ));
            Lessons::default()
        })
    }

    /// Writes what turns of one session taught; `tells`: it is the one that is at work.
    fn keep(&mut self, mut batch: Batch, harvests: Vec<Harvest>, tells: bool) {
        batch.is_untrusted = !self.whose.is_trusted;
        for harvest in harvests {
            let lessons = self.lessons_of(&harvest);
            batch.traces.extend(harvest.traces);
            batch.items.extend(lessons.items.into_iter().map(|item| self.here(item)));
            batch.credits.extend(lessons.credits);
            if self.whose.keeps_questions {
                batch.questions.extend(lessons.questions);
            }
        }
        match self.store.commit(&batch) {
            Ok(learned) => {
                self.marks.clear(&batch.session);
                if !batch.items.is_empty() || !batch.credits.is_empty() {
                    self.read();
                }
                if tells && !batch.items.is_empty() {
                    self.written(batch.seq, &batch.items, &learned);
                }
            }
            Err(error) => self.complain(&error),
        }
        self.tell();
    }

    /// A folder that nobody trusts teaches nothing about programs of the machine: its scripts may have hidden
    /// them. What a tool takes it can not change.
    fn here(&self, item: Item) -> Item {
        let is_of_machine = item.failure.as_ref().is_none_or(|failure| failure.when.tool == "Bash");
        if self.whose.is_trusted || item.scope != Scope::User || !is_of_machine {
            return item;
        }
        let scope = Scope::Project(self.whose.project.clone());
        let id = Item::id_of(&scope, item.kind, &item.text);
        Item { id, scope, ..item }
    }

    /// The next open question of this project, besides these.
    fn next_question(&mut self, asked: &BTreeSet<String>) -> Option<Question> {
        match self.store.questions(Some(&self.whose.project)) {
            Ok(open) => open.into_iter().find(|question| !asked.contains(&question.id)),
            Err(error) => {
                self.complain(&error);
                None
            }
        }
    }

    /// Takes what a model's answer teaches.
    fn answered(&mut self, question: &Question, answered: &Answered) {
        let items = match answered {
            // An answer that is none is asked for once more, at the next start.
            Answered::Said(words) => question.taken_from(words).ok().map(|taken| taken.items),
            Answered::Withheld => Some(Vec::new()),
        };
        match self.store.answer(&question.id, items.as_deref()) {
            Ok(learned) => {
                // Where another process had the answer first, what this one says is not kept.
                if !learned.is_empty() {
                    self.read();
                    self.written(0, &items.unwrap_or_default(), &learned);
                }
            }
            Err(error) => self.complain(&error),
        }
    }

    fn written(&self, up_to: u64, items: &[Item], learned: &[Learned]) {
        let mut written = MemoryWritten { new: Vec::new(), confirmed: Vec::new(), up_to };
        for (item, learned) in items.iter().zip(learned) {
            let recalled =
                |id: &String| Recalled { id: id.clone(), kind: item.kind, text: item.text.clone() };
            match learned {
                Learned::New => written.new.push(recalled(&item.id)),
                Learned::Known(id) => written.confirmed.push(recalled(id)),
            }
        }
        self.shared.tell(Body::MemoryWritten(written));
    }

    /// Facts are missing: what the session taught is not to be told apart from what it did not.
    fn look_at_losses(&mut self) {
        if self.shared.lost.load(Ordering::SeqCst)
            && let Some(at_work) = &mut self.at_work
            && at_work.fold.take().is_some()
        {
            let session = at_work.session.clone();
            self.say(format!(
                "the memory could not keep up: what session {session} teaches is learnt at the next start"
            ));
            self.tell();
        }
    }

    fn complain(&mut self, error: &StoreError) {
        self.say(format!("{error}; what was missed is learnt at the next start"));
        self.tell();
    }

    fn say(&self, notice: String) {
        self.notices.lock().unwrap_or_else(PoisonError::into_inner).push(notice);
    }

    /// Tells what there is to tell, each thing once.
    fn tell(&mut self) {
        if self.at_work.is_none() {
            return;
        }
        let notices =
            std::mem::take(&mut *self.notices.lock().unwrap_or_else(PoisonError::into_inner));
        for message in notices {
            if self.told.contains(&message) {
                continue;
            }
            self.told.push(message.clone());
            let source = "memory".to_owned();
            let (retry_in_ms, attempt) = (None, None);
            self.shared.tell(Body::Error { source, message, retry_in_ms, attempt });
        }
    }
}

fn now_ms() -> i64 {
    jiff::Timestamp::now().as_millisecond()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn worker(folder: &std::path::Path) -> Worker {
        let whose = Whose {
            project: "p".to_owned(),
            is_trusted: true,
            file: folder.join("memory.db"),
            keep_days: 90,
            max_items: 100,
            keeps_questions: true,
        };
        Worker::new(whose, Arc::default(), Arc::default())
    }

    #[test]
    fn a_turn_that_can_not_be_learnt_of_is_said_and_left_behind() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut worker = worker(folder.path());
        worker.lessons = |_, _| panic!("a fault of ours");
        let harvest = Harvest { session: "s".to_owned(), turn: 3, seq: 7, ..Harvest::default() };
        let batch = Batch { session: "s".to_owned(), seq: 7, ..Batch::default() };
        worker.keep(batch, vec![harvest], true);
        assert_eq!(worker.store.reviewed("s").expect("a store"), 7);
        let notices = worker.notices.lock().expect("nobody else");
        assert!(notices.iter().any(|notice| notice.contains("turn 3 of session s")), "{notices:?}");
    }

    #[test]
    fn a_start_that_can_not_be_written_is_marked_beside_the_store() {
        let folder = tempfile::tempdir().expect("a folder");
        let worker = worker(folder.path());
        assert_eq!(worker.reviewed("s").expect("a store"), 0);
        worker.mark("s", 4);
        assert_eq!(worker.reviewed("s").expect("a store"), 4);
        worker.marks.clear_older_than(Duration::from_hours(1));
        assert_eq!(worker.reviewed("s").expect("a store"), 4);
        worker.marks.clear("s");
        assert_eq!(worker.reviewed("s").expect("a store"), 0);
    }

    #[test]
    fn a_queue_that_is_full_costs_what_the_session_teaches_until_the_next_start_and_nothing_else() {
        let folder = tempfile::tempdir().expect("a folder");
        let (work, queue) = std::sync::mpsc::sync_channel(1);
        let shared = Arc::new(Shared::default());
        let heard = tokio::sync::watch::Sender::default();
        let recorder = super::super::Recorder { work, shared: shared.clone(), heard };
        let clock: Arc<dyn crate::protocol::event::Clock> = Arc::new(crate::app::SystemClock);
        let masker = crate::protocol::mask::Masker::new([], &[]).expect("a masker");
        let sinks: Vec<Box<dyn crate::protocol::event::Sink>> = vec![Box::new(recorder)];
        let events =
            crate::protocol::event::Events::new("s".to_owned(), 0, clock, masker.into(), sinks);
        let said = |n: u32| Body::TurnStarted { input: format!("task {n}"), shown: None };
        (1..=3).for_each(|n| drop(events.emit(said(n))));
        assert!(shared.lost.load(Ordering::SeqCst));
        assert_eq!(queue.try_iter().count(), 1, "the loop went on, and what came later is dropped");
        let mut worker = Worker { shared, ..worker(folder.path()) };
        let fold = Some(Fold::new("p"));
        worker.at_work = Some(AtWork { session: "s".to_owned(), fold });
        worker.look_at_losses();
        worker.look_at_losses();
        assert!(worker.at_work.as_ref().is_some_and(|at_work| at_work.fold.is_none()));
        assert_eq!(worker.told.len(), 1, "{:?}", worker.told);
        assert_eq!(worker.store.reviewed("s").expect("a store"), 0, "the next start does it");
    }
}
