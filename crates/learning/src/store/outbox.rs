//! What a team is to learn, kept in the user's file until it was sent.

use rusqlite::{Connection, params};
use serde::{Deserialize, Serialize};

use super::sqlite::{delete_lesson, lesson_by_id, parse_json_column, replace_lesson, to_json};
use super::{SqliteStore, Store as _, StoreError};
use crate::credit::Credit;
use crate::lesson::{Lesson, Scope};

/// The latest ones stay: a database may be away for good.
const MAX_REPORTS: i64 = 10_000;
const MAX_AT_ONCE: i64 = 500;

/// One fact for the team. Sent twice it changes nothing, except that an outcome weighs more on its own machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TeamReport {
    Learned(Box<Lesson>),
    /// A lesson of an earlier session helped or hurt.
    Outcome(Credit),
    /// The user forgot a lesson.
    Retired {
        id: String,
        reason: String,
    },
    /// What a process has spent on a day so far; `run` is random.
    Spent {
        day: String,
        run: String,
        tokens: i64,
        cost_usd: f64,
    },
}

/// The table is not in the schema: a file without a team has none.
pub(super) fn add_reports(
    db: &Connection,
    reports: &[(Scope, TeamReport)],
) -> rusqlite::Result<()> {
    if reports.is_empty() {
        return Ok(());
    }
    db.execute_batch(
        "CREATE TABLE IF NOT EXISTS reports (n INTEGER PRIMARY KEY AUTOINCREMENT, scope TEXT NOT NULL, body TEXT NOT NULL)",
    )?;
    for (team, report) in reports {
        let body = to_json(report)?;
        let values = params![team.project(), body];
        db.execute("INSERT INTO reports (scope, body) VALUES (?1, ?2)", values)?;
    }
    let oldest = db.last_insert_rowid() - MAX_REPORTS;
    db.execute("DELETE FROM reports WHERE n <= ?1", [oldest]).map(drop)
}

impl SqliteStore {
    /// The oldest reports about this scope that are not sent yet, each with its number.
    pub fn unsent_reports(&self, team: &Scope) -> Result<Vec<(i64, TeamReport)>, StoreError> {
        let found = self.read(|db| {
            if !db.table_exists(None, "reports")? {
                return Ok(Vec::new());
            }
            let sql = "SELECT n, body FROM reports WHERE scope = ?1 ORDER BY n LIMIT ?2";
            let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, parse_json_column(row, 1).ok()));
            db.prepare(sql)?.query_map(params![team.project(), MAX_AT_ONCE], read)?.collect()
        })?;
        let found: Vec<(i64, Option<TeamReport>)> = found.unwrap_or_default();
        // One of another version must not hold up the others.
        for (number, _) in found.iter().filter(|(_, report)| report.is_none()) {
            self.remove_report(*number)?;
        }
        Ok(found.into_iter().filter_map(|(number, report)| Some((number, report?))).collect())
    }

    /// Removes a report that was sent.
    pub fn remove_report(&self, number: i64) -> Result<(), StoreError> {
        self.write(|db| db.execute("DELETE FROM reports WHERE n = ?1", [number]).map(drop))
    }

    /// Makes these the team's lessons in the file; returns how many are new. One that the project has learnt itself, or
    /// that was used already, stays as it is.
    pub fn replace_team_lessons(
        &self,
        team: &Scope,
        lessons: &[Lesson],
    ) -> Result<usize, StoreError> {
        let known = self.lessons(std::slice::from_ref(team))?;
        if known.is_empty() && lessons.is_empty() {
            return Ok(0);
        }
        self.write(|db| {
            for old in known.iter().filter(|old| lessons.iter().all(|it| it.id != old.id)) {
                delete_lesson(db, &old.id)?;
            }
            let mut n_new = 0;
            for lesson in lessons {
                if lesson_by_id(db, &lesson.id)?.is_none() {
                    replace_lesson(db, lesson)?;
                    n_new += 1;
                }
            }
            Ok(n_new)
        })
    }
}
