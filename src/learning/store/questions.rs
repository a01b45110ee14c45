//! Open questions in the database, and what closes them.

use rusqlite::{Connection, params};

use crate::learning::question::Question;

/// So many questions of one project are open; of more the oldest go.
const MAX_OPEN: i64 = 50;
/// A question, open or closed, is forgotten after so long.
const KEPT_MS: i64 = 30 * 24 * 3600 * 1000;
/// After so many answers that could not be used, and so many times without any, it is not asked again.
const MAX_BAD: i64 = 2;
const MAX_ASKED: i64 = 5;

/// Keeps a question, unless one of this failure is there, open or closed.
pub(super) fn keep(db: &Connection, question: &Question) -> rusqlite::Result<()> {
    let body = serde_json::to_string(question)
        .map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))?;
    db.prepare_cached(
        "INSERT OR IGNORE INTO questions (id, project, created_at_ms, n_asked, n_bad, body)
         VALUES (?1, ?2, ?3, 0, 0, ?4)",
    )?
    .execute(params![question.id, question.project, question.created_at_ms, body])?;
    db.prepare_cached(
        "DELETE FROM questions WHERE id IN (
             SELECT id FROM questions WHERE project = ?1 AND body IS NOT NULL
             ORDER BY created_at_ms DESC, id LIMIT -1 OFFSET ?2)",
    )?
    .execute(params![question.project, MAX_OPEN])
    .map(drop)
}

/// The open questions of a project or of all, those first that were asked least.
pub(super) fn open(db: &Connection, project: Option<&str>) -> rusqlite::Result<Vec<Question>> {
    let mut select = db.prepare_cached(
        "SELECT body FROM questions
         WHERE body IS NOT NULL AND n_asked < ?2 AND (?1 IS NULL OR project = ?1)
         ORDER BY n_asked, n_bad, created_at_ms, id",
    )?;
    let bodies = select.query_map(params![project, MAX_ASKED], |row| row.get(0))?;
    let bodies = bodies.collect::<Result<Vec<String>, _>>()?;
    // One that can not be read is asked of nobody, and goes in time.
    Ok(bodies.iter().filter_map(|body| serde_json::from_str(body).ok()).collect())
}

/// It is asked now; false where it is closed, or was asked too often. The last time it stays, for its answer.
pub(super) fn ask(db: &Connection, id: &str) -> rusqlite::Result<bool> {
    db.prepare_cached(
        "UPDATE questions SET n_asked = n_asked + 1
         WHERE id = ?1 AND n_asked < ?2 AND body IS NOT NULL",
    )?
    .execute(params![id, MAX_ASKED])
    .map(|n| n == 1)
}

/// It was answered and is closed; false where it was closed before.
pub(super) fn close(db: &Connection, id: &str) -> rusqlite::Result<bool> {
    let close = "UPDATE questions SET body = NULL WHERE id = ?1 AND body IS NOT NULL";
    db.prepare_cached(close)?.execute([id]).map(|n| n == 1)
}

/// Its answer could not be used.
pub(super) fn answered_badly(db: &Connection, id: &str) -> rusqlite::Result<()> {
    db.prepare_cached(
        "UPDATE questions SET body = iif(n_bad + 1 >= ?2, NULL, body), n_bad = n_bad + 1
         WHERE id = ?1",
    )?
    .execute(params![id, MAX_BAD])
    .map(drop)
}

/// It may be asked again, once its failure comes again: what its answer taught is forgotten.
pub(super) fn allow_again(db: &Connection, id: &str) -> rusqlite::Result<()> {
    let delete = "DELETE FROM questions WHERE id = ?1 AND body IS NULL";
    db.prepare_cached(delete)?.execute([id]).map(drop)
}

/// Forgets those of a project, or all.
pub(super) fn forget(db: &Connection, project: Option<&str>) -> rusqlite::Result<()> {
    db.execute("DELETE FROM questions WHERE ?1 IS NULL OR project = ?1", [project]).map(drop)
}

/// Forgets what is too old to be asked.
pub(super) fn prune(db: &Connection, now_ms: i64) -> rusqlite::Result<()> {
    let before_ms = now_ms.saturating_sub(KEPT_MS);
    db.execute("DELETE FROM questions WHERE created_at_ms < ?1", [before_ms]).map(drop)
}
