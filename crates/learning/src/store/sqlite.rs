//! The store: opened on first use, created on the first write.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::types::Type;
use rusqlite::{Connection, ErrorCode, OptionalExtension as _, Row, TransactionBehavior, params};
use serde::de::DeserializeOwned;

use super::database_file::{self, FileIdentity, OpenFailure};
use super::outbox;
use super::{Batch, LearnOutcome, Store, StoreError, searchable_text, single};
use crate::lesson::{Lesson, Origin, Scope};
use crate::trace::ExecutionTrace;

/// Another process may replace the file at each try.
const MAX_TRIES: usize = 3;
/// Limit on the lessons that contain the words of a query, each counted once per word.
const MAX_OCCURRENCES: i64 = 3000;

/// The memory of a user in one file. A damaged one is set aside, and its readable lessons are restored.
pub struct SqliteStore {
    path: PathBuf,
    notify: Box<dyn Fn(String) + Send>,
    busy_timeout: Duration,
    open: RefCell<Option<OpenDatabase>>,
}

/// The identity shows whether another process set the file aside.
struct OpenDatabase {
    db: Connection,
    identity: Option<FileIdentity>,
}

/// The state of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreHealth {
    /// Retired lessons are included.
    pub n_lessons: u64,
    pub n_traces: u64,
    pub bytes: u64,
    /// Empty if the file is not damaged.
    pub damage: Vec<String>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Access {
    Read,
    Write,
}

impl SqliteStore {
    /// Creates a store in this file. `notify` is called with messages for the user, one line each.
    pub fn new(path: PathBuf, notify: impl Fn(String) + Send + 'static) -> Self {
        let patience = Duration::from_secs(5);
        Self { path, notify: Box::new(notify), busy_timeout: patience, open: RefCell::new(None) }
    }

    /// Sets how long an operation waits for another process.
    #[must_use]
    pub fn with_busy_timeout(self, patience: Duration) -> Self {
        Self { busy_timeout: patience, ..self }
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the whole file and reports its state; `None`: there is no file. Nothing is set aside.
    pub fn check_health(&self) -> Result<Option<StoreHealth>, StoreError> {
        let Ok(metadata) = std::fs::metadata(&self.path) else { return Ok(None) };
        let mut health = StoreHealth { bytes: metadata.len(), ..StoreHealth::default() };
        match self.run_quick_check(&mut health) {
            Ok(()) => Ok(Some(health)),
            Err(OpenFailure::Refused(error)) => Err(error),
            Err(OpenFailure::Sqlite(error)) if is_damage(&error) => {
                health.damage.push(error.to_string());
                Ok(Some(health))
            }
            Err(OpenFailure::Sqlite(error)) => Err(self.store_error(&error)),
        }
    }

    fn run_quick_check(&self, health: &mut StoreHealth) -> Result<(), OpenFailure> {
        let db = database_file::open_database(&self.path, self.busy_timeout)?;
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
        health.n_lessons = count("lessons")?;
        health.n_traces = count("traces")?;
        Ok(())
    }

    /// The first column contains JSON.
    fn select<T: DeserializeOwned>(
        &self,
        sql: &str,
        values: &[&dyn rusqlite::ToSql],
    ) -> Result<Vec<T>, StoreError> {
        let found = self.read(|db| {
            let mut select = db.prepare_cached(sql)?;
            select
                .query_map(values, |row| parse_json_column(row, 0))?
                .collect::<Result<Vec<_>, _>>()
        })?;
        Ok(found.unwrap_or_default())
    }

    /// Removes the traces of a project, or all; returns their number.
    pub fn forget_traces(&self, project: Option<&str>) -> Result<usize, StoreError> {
        self.write_if_exists(|db| {
            db.execute("DELETE FROM traces WHERE ?1 IS NULL OR project = ?1", [project])
        })
    }

    /// The traces that began at or after this moment, the oldest first.
    pub fn traces(&self, since_ms: i64) -> Result<Vec<ExecutionTrace>, StoreError> {
        self.select(
            "SELECT body FROM traces WHERE created_at_ms >= ?1 ORDER BY created_at_ms, id",
            params![since_ms],
        )
    }

    /// Removes older traces, and the least used lessons beyond `max_lessons`; returns the number.
    pub fn prune(&self, before_ms: i64, max_lessons: usize) -> Result<usize, StoreError> {
        self.write_if_exists(|db| {
            let mut n_gone =
                db.execute("DELETE FROM traces WHERE created_at_ms < ?1", [before_ms])?;
            let n: i64 = db.query_row("SELECT count(*) FROM lessons", [], |row| row.get(0))?;
            let n_over = n.saturating_sub(to_sql_integer(max_lessons));
            if n_over > 0 {
                // Lessons that the user wrote are kept.
                let mut select = db.prepare(
                    "SELECT id FROM lessons WHERE NOT is_users
                     ORDER BY is_in_use, (body ->> 'helped') + (body ->> 'frequency'), last_occurred_ms
                     LIMIT ?1",
                )?;
                let ids = select.query_map([n_over], |row| row.get(0))?;
                for id in ids.collect::<Result<Vec<String>, _>>()? {
                    n_gone += usize::from(delete_lesson(db, &id)?);
                }
            }
            Ok(n_gone)
        })
    }

    pub(super) fn read<T>(
        &self,
        work: impl Fn(&Connection) -> rusqlite::Result<T>,
    ) -> Result<Option<T>, StoreError> {
        self.with_connection(Access::Read, |db| work(db))
    }

    pub(super) fn write<T>(
        &self,
        work: impl Fn(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        let done = self.with_connection(Access::Write, |db| {
            let transaction = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let done = work(&transaction)?;
            transaction.commit()?;
            Ok(done)
        })?;
        done.ok_or_else(|| self.broken_error("it was replaced repeatedly while it was written"))
    }

    /// The default if there is no file, which is not created then.
    fn write_if_exists<T: Default>(
        &self,
        work: impl Fn(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        match self.read(|_| Ok(()))? {
            Some(()) => self.write(work),
            None => Ok(T::default()),
        }
    }

    /// Uses the current file at the path; `None`: there is nothing to read.
    fn with_connection<T>(
        &self,
        access: Access,
        work: impl Fn(&mut Connection) -> rusqlite::Result<T>,
    ) -> Result<Option<T>, StoreError> {
        let mut open = self.open.borrow_mut();
        for _ in 0..MAX_TRIES {
            let now = FileIdentity::from_path(&self.path);
            open.take_if(|open| open.identity != now);
            let done = match (&mut *open, now) {
                (Some(open), _) => work(&mut open.db),
                (None, None) if access == Access::Read => return Ok(None),
                (none, _) => {
                    database_file::create_if_missing(&self.path)
                        .map_err(|error| self.broken_error(&error.to_string()))?;
                    let identity = FileIdentity::from_path(&self.path);
                    match database_file::open_database(&self.path, self.busy_timeout) {
                        Ok(db) => work(&mut none.insert(OpenDatabase { db, identity }).db),
                        Err(OpenFailure::Refused(error)) => return Err(error),
                        Err(OpenFailure::Sqlite(error)) => Err(error),
                    }
                }
            };
            let identity = open.as_ref().map_or(now, |open| open.identity);
            match done {
                // A write into a file that had been set aside is repeated.
                Ok(done)
                    if access == Access::Read
                        || FileIdentity::from_path(&self.path) == identity =>
                {
                    return Ok(Some(done));
                }
                Ok(_) => {}
                Err(error) if is_damage(&error) => {
                    *open = None;
                    self.replace_damaged(identity, &error)?;
                }
                Err(error) => return Err(self.store_error(&error)),
            }
        }
        Ok(None)
    }

    /// The new file contains the readable lessons.
    fn replace_damaged(
        &self,
        damaged: Option<FileIdentity>,
        why: &rusqlite::Error,
    ) -> Result<(), StoreError> {
        let Some(aside) = database_file::set_aside(&self.path, damaged)? else { return Ok(()) };
        let bodies = database_file::salvage(&aside);
        let mut n_saved = 0;
        if !bodies.is_empty() {
            database_file::create_if_missing(&self.path)
                .map_err(|error| self.broken_error(&error.to_string()))?;
            if let Ok(mut db) = database_file::open_database(&self.path, self.busy_timeout)
                && let Ok(transaction) =
                    db.transaction_with_behavior(TransactionBehavior::Immediate)
            {
                let lessons =
                    bodies.iter().filter_map(|body| serde_json::from_str::<Lesson>(body).ok());
                n_saved =
                    lessons.filter(|lesson| replace_lesson(&transaction, lesson).is_ok()).count();
                if transaction.commit().is_err() {
                    n_saved = 0;
                }
            }
        }
        (self.notify)(format!(
            "the memory {} is damaged ({why}); it was set aside as {}; lessons restored: {n_saved}",
            self.path.display(),
            aside.display(),
        ));
        Ok(())
    }

    fn store_error(&self, error: &rusqlite::Error) -> StoreError {
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StoreError::Locked,
            _ => self.broken_error(&error.to_string()),
        }
    }

    fn broken_error(&self, reason: &str) -> StoreError {
        StoreError::Broken(format!("{}: {reason}", self.path.display()))
    }

    /// Changes the current version of a lesson, so that concurrent changes are kept; `None`: there is none.
    pub fn update_lesson(
        &self,
        id: &str,
        change: impl Fn(&mut Lesson),
    ) -> Result<Option<Lesson>, StoreError> {
        self.write(|db| {
            let Some(mut lesson) = lesson_by_id(db, id)? else { return Ok(None) };
            change(&mut lesson);
            replace_lesson(db, &lesson)?;
            Ok(Some(lesson))
        })
    }
}

impl Store for SqliteStore {
    fn commit(&self, batch: &Batch) -> Result<Vec<LearnOutcome>, StoreError> {
        self.write(|db| {
            batch.traces.iter().try_for_each(|trace| write_trace(db, trace))?;
            for credit in &batch.credits {
                if let Some(mut lesson) = lesson_by_id(db, &credit.id)? {
                    lesson.recalled = lesson.recalled.saturating_add(1);
                    lesson.record_outcomes(credit.helped, credit.hurt);
                    replace_lesson(db, &lesson)?;
                }
            }
            outbox::add_reports(db, &batch.reports)?;
            batch.lessons.iter().map(|lesson| store_lesson(db, lesson)).collect()
        })
    }

    fn lessons(&self, scopes: &[Scope]) -> Result<Vec<Lesson>, StoreError> {
        self.select(
            "SELECT body FROM lessons WHERE ?1 = '[]' OR scope IN (SELECT value FROM json_each(?1))
             ORDER BY last_occurred_ms DESC, id",
            params![scope_names(scopes)],
        )
    }

    fn latest_lessons(&self, scopes: &[Scope], limit: usize) -> Result<Vec<Lesson>, StoreError> {
        let mut found: Vec<Lesson> = Vec::new();
        // The index has those of one scope in this order.
        for scope in scopes {
            found.extend(self.select::<Lesson>(
                "SELECT body FROM lessons WHERE scope = ?1 AND is_in_use = 1 AND body -> '$.failure.subjects' IS NULL
                 ORDER BY is_users DESC, last_occurred_ms DESC LIMIT ?2",
                params![scope.project(), to_sql_integer(limit)],
            )?);
        }
        found.sort_by_key(|it| Reverse((it.origin == Origin::User, it.last_occurred_ms)));
        found.truncate(limit);
        Ok(found)
    }

    fn lessons_about(&self, scopes: &[Scope], failure: &str) -> Result<Vec<Lesson>, StoreError> {
        self.select(
            "SELECT body FROM lessons WHERE failure = ?1 AND scope IN (SELECT value FROM json_each(?2)) AND is_in_use",
            params![failure, scope_names(scopes)],
        )
    }

    fn matching_lessons(
        &self,
        scopes: &[Scope],
        query: &str,
        limit: usize,
    ) -> Result<Vec<(f64, Lesson)>, StoreError> {
        let mut words: Vec<&str> = query.split(' ').filter(|word| !word.is_empty()).collect();
        words.sort_unstable();
        words.dedup();
        if words.is_empty() {
            return Ok(Vec::new());
        }
        let found = self.read(|db| {
            let quoted = rarest_words(db, &words)?.into_iter().map(|word| format!("\"{word}\""));
            let mut query = format!("({})", quoted.collect::<Vec<_>>().join(" OR "));
            if !scopes.is_empty() {
                let scopes: Vec<String> = scopes.iter().map(scope_term).collect();
                query.push_str(&format!(" AND ({})", scopes.join(" OR ")));
            }
            let mut select = db.prepare_cached(
                "SELECT -score, body FROM
                   (SELECT rowid AS found, rank AS score FROM terms WHERE terms MATCH ?1 ORDER BY rank LIMIT 2 * ?2)
                 JOIN lessons ON n = found WHERE is_in_use ORDER BY score LIMIT ?2",
            )?;
            // (Some of the first results may be retired.)
            let values = params![query, to_sql_integer(limit.min(10_000))];
            let rows = select.query_map(values, |row| Ok((row.get(0)?, parse_json_column(row, 1)?)))?;
            rows.collect::<Result<Vec<_>, _>>()
        })?;
        Ok(found.unwrap_or_default())
    }

    fn find_lesson(&self, id: &str) -> Result<Option<Lesson>, StoreError> {
        // No id contains a character after `~`.
        let sql = "SELECT body FROM lessons WHERE id >= ?1 AND id < ?1 || '~'";
        single(id, self.select(sql, params![id])?)
    }

    fn forget_lesson(&self, id: &str) -> Result<bool, StoreError> {
        self.write_if_exists(|db| delete_lesson(db, id))
    }
}

fn is_damage(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase))
}

/// BM25 weights a word by its rarity; [`MAX_OCCURRENCES`] limits the cost.
fn rarest_words<'a>(db: &Connection, words: &[&'a str]) -> rusqlite::Result<Vec<&'a str>> {
    let mut count = db.prepare_cached("SELECT doc FROM term_counts WHERE term = ?1")?;
    let mut counted = Vec::with_capacity(words.len());
    for word in words {
        let n: Option<i64> = count.query_row([word], |row| row.get(0)).optional()?;
        counted.push((n.unwrap_or(0), *word));
    }
    counted.sort_unstable();
    let mut n_before = 0;
    let within = counted.into_iter().take_while(|(n, _)| {
        let is_within = n_before == 0 || n_before + n <= MAX_OCCURRENCES;
        n_before += n;
        is_within
    });
    Ok(within.map(|(_, word)| word).collect())
}

/// Increases the count of an equal lesson.
fn store_lesson(db: &Connection, lesson: &Lesson) -> rusqlite::Result<LearnOutcome> {
    match lesson_by_id(db, &lesson.id)? {
        Some(mut known) => {
            known.merge(lesson.clone());
            replace_lesson(db, &known).map(|()| LearnOutcome::Reinforced)
        }
        None => replace_lesson(db, lesson).map(|()| LearnOutcome::New),
    }
}

pub(super) fn replace_lesson(db: &Connection, lesson: &Lesson) -> rusqlite::Result<()> {
    delete_lesson(db, &lesson.id)?;
    let failure = lesson.failure.as_ref();
    db.prepare_cached(
        "INSERT INTO lessons (id, scope, failure, is_in_use, is_users, last_occurred_ms, body)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
    )?
    .execute(params![
        lesson.id,
        lesson.scope.project(),
        failure.map(crate::lesson::FailurePattern::key),
        lesson.is_recallable(),
        lesson.origin == Origin::User,
        lesson.last_occurred_ms,
        to_json(lesson)?,
    ])?;
    let text = format!("{} {}", scope_term(&lesson.scope), searchable_text(lesson));
    db.prepare_cached("INSERT INTO terms (rowid, text) VALUES (?1, ?2)")?
        .execute(params![db.last_insert_rowid(), text])
        .map(drop)
}

fn scope_names(scopes: &[Scope]) -> String {
    serde_json::json!(scopes.iter().map(Scope::project).collect::<Vec<_>>()).to_string()
}

/// The term occurs in no text.
fn scope_term(scope: &Scope) -> String {
    format!("scope{}", &blake3::hash(scope.project().as_bytes()).to_hex()[..16])
}

pub(super) fn delete_lesson(db: &Connection, id: &str) -> rusqlite::Result<bool> {
    db.prepare_cached("DELETE FROM terms WHERE rowid = (SELECT n FROM lessons WHERE id = ?1)")?
        .execute([id])?;
    let n = db.prepare_cached("DELETE FROM lessons WHERE id = ?1")?.execute([id])?;
    Ok(n > 0)
}

pub(super) fn lesson_by_id(db: &Connection, id: &str) -> rusqlite::Result<Option<Lesson>> {
    db.prepare_cached("SELECT body FROM lessons WHERE id = ?1")?
        .query_row([id], |row| parse_json_column(row, 0))
        .optional()
}

pub(super) fn parse_json_column<T: DeserializeOwned>(
    row: &Row<'_>,
    column: usize,
) -> rusqlite::Result<T> {
    let body: String = row.get(column)?;
    serde_json::from_str(&body).map_err(|error| {
        rusqlite::Error::FromSqlConversionFailure(column, Type::Text, Box::new(error))
    })
}

pub(super) fn to_json(value: &impl serde::Serialize) -> rusqlite::Result<String> {
    serde_json::to_string(value)
        .map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))
}

fn write_trace(db: &Connection, trace: &ExecutionTrace) -> rusqlite::Result<()> {
    db.prepare_cached(
        "INSERT OR IGNORE INTO traces (id, project, created_at_ms, body) VALUES (?1, ?2, ?3, ?4)",
    )?
    .execute(params![trace.id, trace.project, trace.created_at_ms, to_json(trace)?])
    .map(drop)
}

fn to_sql_integer(n: usize) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}
