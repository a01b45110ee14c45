//! The store in one SQLite file: opened when it is first needed, shared by all agents of a user.

use std::cell::RefCell;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, ErrorCode, OptionalExtension as _, TransactionBehavior, params};

use super::file::{self, Identity, OpenFailure};
use super::{Batch, Found, Learned, Outcome, Query, Store, StoreError, index, questions};
use crate::learning::item::{Item, Scope};
use crate::learning::question::{self, Question};
use crate::learning::trace::ExecutionTrace;

/// What a skill or methodology weighs of which nothing is known.
const NO_WEIGHT: f64 = 0.5;
/// From so many new items on the index is brought into one piece.
const MANY: usize = 1000;
/// From so many traces in one batch on the pages that hold them are let go.
const MANY_TRACES: usize = 100;
/// A file that is replaced while it is worked on is followed so often.
const MAX_TRIES: usize = 3;

/// The memory in one file.
///
/// Nothing is opened before the first call, and no file is made before the first that writes. A file that turns
/// out to be damaged is set aside, what can be read of its items is taken over, and the person is told.
pub struct SqliteStore {
    path: PathBuf,
    tell: Box<dyn Fn(String) + Send>,
    open: RefCell<Option<Open>>,
}

/// An open file, and which one it is: another process may set it aside meanwhile.
struct Open {
    db: Connection,
    identity: Option<Identity>,
}

/// What a look at the file found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// Items, in use or not.
    pub n_items: u64,
    /// Traces.
    pub n_traces: u64,
    /// Bytes of the file.
    pub bytes: u64,
    /// It lies on a drive of another machine: no write-ahead log there, so readers wait for writers.
    pub is_on_network: bool,
    /// What is wrong inside; empty: nothing.
    pub damage: Vec<String>,
}

/// What a piece of work does to the file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Access {
    Read,
    Write,
}

impl SqliteStore {
    /// The store in this file. `tell` is given what the person should know, in one line.
    pub fn new(path: PathBuf, tell: impl Fn(String) + Send + 'static) -> Self {
        Self { path, tell: Box::new(tell), open: RefCell::new(None) }
    }

    /// Where it lies.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the whole file and says how it is; `None`: there is no file yet. Nothing is set aside.
    pub fn examine(&self) -> Result<Option<Health>, StoreError> {
        let Some(metadata) = std::fs::metadata(&self.path).ok() else { return Ok(None) };
        let mut health = Health {
            n_items: 0,
            n_traces: 0,
            bytes: metadata.len(),
            is_on_network: file::is_on_network(&self.path),
            damage: Vec::new(),
        };
        match self.look(&mut health) {
            Ok(()) => Ok(Some(health)),
            Err(OpenFailure::Refused(error)) => Err(error),
            Err(OpenFailure::Sqlite(error)) if is_damage(&error) => {
                health.damage.push(error.to_string());
                Ok(Some(health))
            }
            Err(OpenFailure::Sqlite(error)) => Err(self.error(&error)),
        }
    }

    fn look(&self, health: &mut Health) -> Result<(), OpenFailure> {
        let db = file::open(&self.path)?;
        let mut check = db.prepare("PRAGMA quick_check(5)")?;
        for line in check.query_map([], |row| row.get::<_, String>(0))? {
            let line = line?;
            if line != "ok" {
                health.damage.push(line);
            }
        }
        let count = |table: &str| {
            let n = db.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0));
            n.map(|n: i64| n.unsigned_abs())
        };
        health.n_items = count("items")?;
        health.n_traces = count("traces")?;
        Ok(())
    }

    /// All items of these scopes, in use or not, the newest first; empty: of all scopes.
    pub fn every_item(&self, scopes: &[Scope]) -> Result<Vec<Item>, StoreError> {
        let items = self.read(|db| {
            let mut items: Vec<Item> = Vec::new();
            if scopes.is_empty() {
                let mut select =
                    db.prepare_cached("SELECT id, body FROM items JOIN bodies USING (n)")?;
                for item in select.query_map([], index::from_row)? {
                    items.push(item?);
                }
            }
            let mut select = db.prepare_cached(
                "SELECT id, body FROM items JOIN bodies USING (n) WHERE scope = ?1",
            )?;
            for scope in scopes {
                for item in select.query_map([index::column(scope)], index::from_row)? {
                    items.push(item?);
                }
            }
            Ok(items)
        })?;
        let mut items = items.unwrap_or_default();
        items.sort_by(|one, other| {
            other.last_occurred_ms.cmp(&one.last_occurred_ms).then_with(|| one.id.cmp(&other.id))
        });
        Ok(items)
    }

    /// Changes the item of just this id as it is now: what others wrote of it meanwhile stays. `None`: there is none.
    pub fn change(
        &mut self,
        id: &str,
        change: impl Fn(&mut Item),
    ) -> Result<Option<Item>, StoreError> {
        self.write(|db| {
            let Some(mut item) = index::by_id(db, id)? else { return Ok(None) };
            change(&mut item);
            index::write(db, &item)?;
            Ok(Some(item))
        })
    }

    /// Takes in items that are not there yet, all or nothing: how many were new. One that is there is left as it is.
    pub fn import(&mut self, items: &[Item]) -> Result<usize, StoreError> {
        self.write(|db| {
            let mut n_new = 0;
            for item in items {
                if index::by_id(db, &item.id)?.is_none() {
                    index::write(db, item)?;
                    n_new += 1;
                }
            }
            if n_new > MANY {
                index::tidy(db)?;
            }
            Ok(n_new)
        })
    }

    /// Forgets what was tried in a project, or everywhere, and what is to be asked of it; how many traces went.
    pub fn forget_traces(&mut self, project: Option<&str>) -> Result<usize, StoreError> {
        if self.read(|_| Ok(()))?.is_none() {
            return Ok(0);
        }
        self.write(|db| {
            questions::forget(db, project)?;
            db.execute("DELETE FROM traces WHERE ?1 IS NULL OR project = ?1", [project])
        })
    }

    fn read<T>(
        &self,
        work: impl Fn(&Connection) -> rusqlite::Result<T>,
    ) -> Result<Option<T>, StoreError> {
        self.with(Access::Read, |db| work(db))
    }

    fn write<T>(&self, work: impl Fn(&Connection) -> rusqlite::Result<T>) -> Result<T, StoreError> {
        let done = self.with(Access::Write, |db| {
            let transaction = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let done = work(&transaction)?;
            transaction.commit()?;
            Ok(done)
        })?;
        done.ok_or_else(|| self.broken("it was replaced again and again while it was written"))
    }

    /// Does a piece of work on the file that stands at the path now; `None`: nothing is there to read.
    fn with<T>(
        &self,
        access: Access,
        work: impl Fn(&mut Connection) -> rusqlite::Result<T>,
    ) -> Result<Option<T>, StoreError> {
        let mut open = self.open.borrow_mut();
        for _ in 0..MAX_TRIES {
            let now = Identity::of(&self.path);
            open.take_if(|open| open.identity != now);
            let done = match (&mut *open, now) {
                (Some(open), _) => work(&mut open.db),
                (None, None) if access == Access::Read => return Ok(None),
                (none, _) => {
                    file::make(&self.path).map_err(|error| self.broken(&error.to_string()))?;
                    let identity = Identity::of(&self.path);
                    match file::open(&self.path) {
                        Ok(db) => work(&mut none.insert(Open { db, identity }).db),
                        Err(OpenFailure::Refused(error)) => return Err(error),
                        Err(OpenFailure::Sqlite(error)) => Err(error),
                    }
                }
            };
            let identity = open.as_ref().map_or(now, |open| open.identity);
            match done {
                // What was written into a file that had been set aside meanwhile is written again.
                Ok(done) if access == Access::Read || Identity::of(&self.path) == identity => {
                    return Ok(Some(done));
                }
                Ok(_) => {}
                Err(error) if is_damage(&error) => {
                    // The file is closed before it is moved.
                    *open = None;
                    self.begin_again(identity, &error)?;
                }
                Err(error) => return Err(self.error(&error)),
            }
        }
        Ok(None)
    }

    /// Sets the damaged file aside and begins a new one with what can be read of the old.
    fn begin_again(
        &self,
        damaged: Option<Identity>,
        why: &rusqlite::Error,
    ) -> Result<(), StoreError> {
        let Some(aside) = file::set_aside(&self.path, damaged)? else { return Ok(()) };
        let bodies = file::salvage(&aside);
        let mut n_saved = 0;
        if !bodies.is_empty() {
            file::make(&self.path).map_err(|error| self.broken(&error.to_string()))?;
            if let Ok(mut db) = file::open(&self.path)
                && let Ok(transaction) =
                    db.transaction_with_behavior(TransactionBehavior::Immediate)
            {
                let items =
                    bodies.iter().filter_map(|body| serde_json::from_str::<Item>(body).ok());
                n_saved = items.filter(|item| index::write(&transaction, item).is_ok()).count();
                if transaction.commit().is_err() {
                    n_saved = 0;
                }
            }
        }
        let saved = match n_saved {
            0 => "none of its items could be read".to_owned(),
            1 => "one of its items could be taken over".to_owned(),
            n => format!("{n} of its items could be taken over"),
        };
        (self.tell)(format!(
            "the memory {} is damaged ({why}); it was set aside as {}, and {saved}",
            self.path.display(),
            aside.display(),
        ));
        Ok(())
    }

    fn error(&self, error: &rusqlite::Error) -> StoreError {
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StoreError::Locked,
            _ => self.broken(&error.to_string()),
        }
    }

    fn broken(&self, reason: &str) -> StoreError {
        StoreError::Broken(format!("{}: {reason}", self.path.display()))
    }
}

fn is_damage(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase))
}

impl Store for SqliteStore {
    fn commit(&mut self, batch: &Batch) -> Result<Vec<Learned>, StoreError> {
        let learned = self.write(|db| {
            for trace in &batch.traces {
                write_trace(db, trace)?;
            }
            let reviewed = reviewed(db, &batch.session)?;
            let is_done = batch.seq > 0 && batch.seq <= reviewed;
            if is_done || batch.after.is_some_and(|after| after < reviewed) {
                return Ok(batch
                    .items
                    .iter()
                    .map(|item| Learned::Known(item.id.clone()))
                    .collect());
            }
            let learn = |item| index::learn(db, item, batch.is_untrusted);
            let learned = batch.items.iter().map(learn).collect::<Result<_, _>>()?;
            for (id, outcome) in &batch.credits {
                credit(db, id, *outcome, used_at(&batch.traces))?;
            }
            for question in &batch.questions {
                questions::keep(db, question)?;
            }
            if batch.seq > 0 {
                db.prepare_cached("INSERT OR REPLACE INTO sessions (id, seq) VALUES (?1, ?2)")?
                    .execute(params![batch.session, integer(batch.seq)])?;
            }
            Ok(learned)
        })?;
        if batch.traces.len() >= MANY_TRACES
            && let Some(open) = &*self.open.borrow()
        {
            // Nobody reads them again soon: their pages need not be kept. If they are, nothing is lost.
            _ = open.db.execute_batch("PRAGMA shrink_memory");
        }
        Ok(learned)
    }

    fn reviewed(&self, session: &str) -> Result<u64, StoreError> {
        Ok(self.read(|db| reviewed(db, session))?.unwrap_or(0))
    }

    fn items(&self, scopes: &[Scope]) -> Result<Vec<Item>, StoreError> {
        let mut items = self.every_item(scopes)?;
        items.retain(Item::is_in_use);
        Ok(items)
    }

    fn item(&self, id: &str) -> Result<Option<Item>, StoreError> {
        let found = self.read(|db| {
            // No id holds a letter that comes behind `~`.
            let mut select =
                db.prepare_cached("SELECT id, body FROM items JOIN bodies USING (n) WHERE id >= ?1 AND id < ?1 || '~'")?;
            select.query_map([id], index::from_row)?.collect::<Result<Vec<_>, _>>()
        })?;
        let mut found = found.unwrap_or_default();
        match found.len() {
            0 | 1 => Ok(found.pop()),
            n => match found.into_iter().find(|item| item.id == id) {
                Some(item) => Ok(Some(item)),
                None => Err(StoreError::Ambiguous(id.to_owned(), n)),
            },
        }
    }

    fn put(&mut self, item: &Item) -> Result<(), StoreError> {
        self.write(|db| index::write(db, item))
    }

    fn forget(&mut self, id: &str) -> Result<bool, StoreError> {
        // Where there is no file there is nothing to forget, and none is made for that.
        if self.read(|_| Ok(()))?.is_none() {
            return Ok(false);
        }
        self.write(|db| {
            // What stopped helping is not asked for anew.
            if let Some(item) = index::by_id(db, id)?.filter(Item::is_in_use)
                && let (Scope::Project(project), Some(failure)) = (&item.scope, &item.failure)
            {
                questions::allow_again(db, &question::id_of(project, failure))?;
            }
            index::erase(db, id)
        })
    }

    fn search(&self, query: &Query) -> Result<Vec<Found>, StoreError> {
        Ok(self.read(|db| index::search(db, query))?.unwrap_or_default())
    }

    fn traces(
        &self,
        since_ms: i64,
        project: Option<&str>,
    ) -> Result<Vec<ExecutionTrace>, StoreError> {
        let bodies = self.read(|db| {
            let mut select = db.prepare_cached(
                "SELECT id, body FROM traces WHERE created_at_ms >= ?1 AND (?2 IS NULL OR project = ?2)
                 ORDER BY created_at_ms, id",
            )?;
            let rows = select.query_map(params![since_ms, project], |row| Ok((row.get(0)?, row.get(1)?)))?;
            rows.collect::<Result<Vec<(String, String)>, _>>()
        })?;
        let parsed = bodies.unwrap_or_default().into_iter().map(|(id, body)| {
            serde_json::from_str(&body)
                .map_err(|error| self.broken(&format!("trace {id}: {error}")))
        });
        parsed.collect()
    }

    fn questions(&self, project: Option<&str>) -> Result<Vec<Question>, StoreError> {
        Ok(self.read(|db| questions::open(db, project))?.unwrap_or_default())
    }

    fn ask(&mut self, id: &str) -> Result<bool, StoreError> {
        self.write(|db| questions::ask(db, id))
    }

    fn answer(&mut self, id: &str, items: Option<&[Item]>) -> Result<Vec<Learned>, StoreError> {
        self.write(|db| match items {
            None => questions::answered_badly(db, id).map(|()| Vec::new()),
            Some(items) => {
                if !questions::close(db, id)? {
                    return Ok(Vec::new());
                }
                // A model's word of this project is no other project's evidence.
                items.iter().map(|item| index::learn(db, item, true)).collect()
            }
        })
    }

    fn weight(&self, subject: &str) -> Result<f64, StoreError> {
        let weight = self.read(|db| {
            let mut select = db.prepare_cached("SELECT weight FROM weights WHERE subject = ?1")?;
            select.query_row([subject], |row| row.get(0)).optional()
        })?;
        Ok(weight.flatten().unwrap_or(NO_WEIGHT))
    }

    fn set_weight(&mut self, subject: &str, weight: f64) -> Result<(), StoreError> {
        self.write(|db| {
            db.prepare_cached("INSERT OR REPLACE INTO weights (subject, weight) VALUES (?1, ?2)")?
                .execute(params![subject, weight])
                .map(drop)
        })
    }

    fn prune(&mut self, before_ms: i64, max_items: usize) -> Result<usize, StoreError> {
        if self.read(|_| Ok(()))?.is_none() {
            return Ok(0);
        }
        self.write(|db| {
            let mut n_gone =
                db.execute("DELETE FROM traces WHERE created_at_ms < ?1", [before_ms])?;
            questions::prune(db, jiff::Timestamp::now().as_millisecond())?;
            let n_items: i64 = db.query_row("SELECT count(*) FROM items", [], |row| row.get(0))?;
            let n_over = n_items.saturating_sub(i64::try_from(max_items).unwrap_or(i64::MAX));
            if n_over > 0 {
                // What a person wrote stays, however many there are.
                let mut select = db.prepare(
                    "SELECT id FROM items JOIN bodies USING (n) WHERE body ->> 'origin' <> 'user'
                     ORDER BY is_in_use, wins + losses + (body ->> 'frequency'),
                              last_occurred_ms
                     LIMIT ?1",
                )?;
                let ids = select.query_map([n_over], |row| row.get(0))?;
                for id in ids.collect::<Result<Vec<String>, _>>()? {
                    n_gone += usize::from(index::erase(db, &id)?);
                }
            }
            Ok(n_gone)
        })
    }
}

fn write_trace(db: &Connection, trace: &ExecutionTrace) -> rusqlite::Result<()> {
    let body = serde_json::to_string(trace)
        .map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))?;
    db.prepare_cached(
        "INSERT OR IGNORE INTO traces (id, project, created_at_ms, body) VALUES (?1, ?2, ?3, ?4)",
    )?
    .execute(params![trace.id, trace.project, trace.created_at_ms, body])
    .map(drop)
}

fn reviewed(db: &Connection, session: &str) -> rusqlite::Result<u64> {
    let seq: Option<i64> = db
        .prepare_cached("SELECT seq FROM sessions WHERE id = ?1")?
        .query_row([session], |row| row.get(0))
        .optional()?;
    Ok(seq.and_then(|seq| u64::try_from(seq).ok()).unwrap_or(0))
}

fn credit(db: &Connection, id: &str, outcome: Outcome, at_ms: Option<i64>) -> rusqlite::Result<()> {
    // One that was forgotten meanwhile takes its credit along.
    let Some(mut item) = index::by_id(db, id)? else { return Ok(()) };
    match outcome {
        Outcome::Won => item.count(1, 0),
        Outcome::Lost => item.count(0, 1),
    }
    item.last_occurred_ms = item.last_occurred_ms.max(at_ms.unwrap_or(0));
    index::write(db, &item)
}

/// When what a batch used was used: at the end of its latest trace.
fn used_at(traces: &[ExecutionTrace]) -> Option<i64> {
    let ends =
        traces.iter().map(|trace| trace.created_at_ms.saturating_add_unsigned(trace.duration_ms));
    ends.max()
}

fn integer(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}
