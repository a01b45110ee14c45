//! The lessons of a team in PostgreSQL. Each write is one statement, so that concurrent writers lose nothing and a
//! connection may end at any moment.

#[cfg(feature = "postgres")]
mod connection;
#[cfg(not(feature = "postgres"))]
#[path = "postgres/no_connection.rs"]
mod connection;

use std::cmp::Reverse;

use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{
    Batch, LearnOutcome, LessonState, Store, StoreError, TeamLesson, TeamReport, searchable_text,
    single,
};
use crate::credit::Credit;
use crate::lesson::{FailurePattern, Lesson, Origin, Scope};
use connection::Connection;

/// Each brings the schema to the next version.
const MIGRATIONS: [&str; 1] = [include_str!("postgres/schema.sql")];

/// An empty list: of all scopes.
const OF_SCOPES: &str = "($1->0 = '[]' OR $1->0 ? scope)";
const IN_USE: &str = "state <> 'retired'";

/// The lessons of a team, seen from one machine.
pub struct PostgresStore {
    connection: Connection,
    machine: String,
}

impl PostgresStore {
    /// Connects to the database at this URL. `machine`: a random number that stays.
    pub fn connect(url: &str, machine: &str) -> Result<Self, StoreError> {
        let store = Self { connection: Connection::open(url)?, machine: machine.to_owned() };
        match store.version()? {
            None => Err(StoreError::Team(
                "the team's database is not prepared; run `agent team init` once".to_owned(),
            )),
            Some((version, _)) if version == MIGRATIONS.len() => Ok(store),
            Some((version, agent)) => Err(other_version(version, &agent)),
        }
    }

    /// Connects, and brings the schema to the version of this program; returns whether it was changed.
    pub fn prepare(url: &str) -> Result<bool, StoreError> {
        let store = Self { connection: Connection::open(url)?, machine: String::new() };
        // Of several programs one prepares; a connection that ends changes nothing.
        store.connection.execute("BEGIN; SELECT pg_advisory_xact_lock(7020616765)")?;
        let (version, agent) = store.version()?.unwrap_or_default();
        let Some(missing) = MIGRATIONS.get(version..) else {
            return Err(other_version(version, &agent));
        };
        for migration in missing {
            store.connection.execute(migration)?;
        }
        if !missing.is_empty() {
            let (version, agent) = (MIGRATIONS.len(), env!("CARGO_PKG_VERSION"));
            store.connection.execute(&format!(
                "DELETE FROM agent_team.version; INSERT INTO agent_team.version VALUES ({version}, '{agent}')"
            ))?;
        }
        store.connection.execute("COMMIT")?;
        Ok(!missing.is_empty())
    }

    /// With the agent that made it; `None`: there is no schema.
    fn version(&self) -> Result<Option<(usize, String)>, StoreError> {
        let there =
            "SELECT to_jsonb(to_regclass('agent_team.version') IS NOT NULL) WHERE $1 IS NOT NULL";
        if self.query_one(there, &json!([]))? != Some(true) {
            return Ok(None);
        }
        let version =
            "SELECT jsonb_build_array(version, agent) FROM agent_team.version WHERE $1 IS NOT NULL";
        self.query_one(version, &json!([]))
    }

    /// Sends a report about these lessons.
    pub fn send(&self, team: &Scope, report: &TeamReport) -> Result<(), StoreError> {
        match report {
            TeamReport::Learned(lesson) => self.learn(lesson).map(drop),
            TeamReport::Outcome(credit) => self.vote(credit).map(drop),
            TeamReport::Retired { id, reason } => {
                self.call("retire", &json!([id, reason])).map(drop)
            }
            TeamReport::Spent { day, run, tokens, cost_usd } => {
                self.call("spend", &json!([team.project(), day, run, tokens, cost_usd])).map(drop)
            }
        }
    }

    /// The latest thousand lessons that have proved themselves, the latest first.
    pub fn proven_lessons(&self, team: &Scope) -> Result<Vec<Lesson>, StoreError> {
        // Most lessons have one vote.
        let proven = "scope = $1->>0 AND state = 'proven' AND id IN (SELECT lesson FROM agent_team.votes
            GROUP BY lesson HAVING bool_or(helped > 0) OR count(*) > 1) ORDER BY last_occurred_ms DESC LIMIT 1000";
        self.lessons_where(proven, &json!([team.project()]))
    }

    /// All lessons of the repository with their state, including forgotten ones.
    pub fn team_lessons(&self, team: &Scope) -> Result<Vec<TeamLesson>, StoreError> {
        self.select("scope = $1->>0 ORDER BY last_occurred_ms DESC, id", &json!([team.project()]))
    }

    /// The state of the database for this repository: a JSON object.
    pub fn status(&self, team: &Scope) -> Result<Value, StoreError> {
        Ok(self.query_one(&call_sql("status"), &json!([team.project()]))?.unwrap_or_default())
    }

    fn learn(&self, lesson: &Lesson) -> Result<LearnOutcome, StoreError> {
        let terms = searchable_text(lesson);
        // The limit on a term is 2046 bytes.
        let terms = terms.split(' ').filter(|term| (1..=200).contains(&term.len()));
        let is_new = self.call(
            "learn",
            &json!({
                "id": lesson.id,
                "machine": self.machine,
                "scope": lesson.scope.project(),
                "failure": lesson.failure.as_ref().map(FailurePattern::key),
                "is_of_files": !lesson.subjects().is_empty(),
                "is_users": lesson.origin == Origin::User,
                "last_occurred_ms": lesson.last_occurred_ms,
                "terms": terms.collect::<Vec<_>>(),
                "body": serde_json::to_string(lesson).unwrap_or_default(),
            }),
        )?;
        Ok(if is_new { LearnOutcome::New } else { LearnOutcome::Reinforced })
    }

    fn vote(&self, credit: &Credit) -> Result<bool, StoreError> {
        self.call("vote", &json!([credit.id, self.machine, credit.helped, credit.hurt]))
    }

    /// Calls a function of the schema.
    fn call(&self, function: &str, values: &Value) -> Result<bool, StoreError> {
        Ok(self.query_one::<Option<bool>>(&call_sql(function), values)?.flatten() == Some(true))
    }

    fn lessons_where(&self, condition: &str, values: &Value) -> Result<Vec<Lesson>, StoreError> {
        Ok(self.select(condition, values)?.into_iter().map(|it| it.lesson).collect())
    }

    fn select(&self, condition: &str, values: &Value) -> Result<Vec<TeamLesson>, StoreError> {
        let columns = "jsonb_build_array(body, learned, helped, hurt, state, reason)";
        let sql = format!("SELECT {columns} FROM agent_team.lesson_states WHERE {condition}");
        // Lessons of another version are left out.
        Ok(self.connection.query(&sql, values)?.into_iter().filter_map(team_lesson).collect())
    }

    fn query_one<T: DeserializeOwned>(
        &self,
        sql: &str,
        values: &Value,
    ) -> Result<Option<T>, StoreError> {
        let row = self.connection.query(sql, values)?.pop();
        let value = row.map(serde_json::from_value).transpose();
        value.map_err(|error| StoreError::Team(format!("the team's database: {error}")))
    }
}

impl Store for PostgresStore {
    fn commit(&self, batch: &Batch) -> Result<Vec<LearnOutcome>, StoreError> {
        batch.credits.iter().try_for_each(|credit| self.vote(credit).map(drop))?;
        batch.lessons.iter().map(|lesson| self.learn(lesson)).collect()
    }

    fn lessons(&self, scopes: &[Scope]) -> Result<Vec<Lesson>, StoreError> {
        let latest = "ORDER BY last_occurred_ms DESC, id";
        let condition = format!("reason IS NULL AND {OF_SCOPES} {latest}");
        self.lessons_where(&condition, &json!([names(scopes)]))
    }

    fn latest_lessons(&self, scopes: &[Scope], limit: usize) -> Result<Vec<Lesson>, StoreError> {
        let condition = format!(
            "scope = $1->>0 AND NOT is_of_files AND {IN_USE}
             ORDER BY is_users DESC, last_occurred_ms DESC LIMIT ($1->1)::bigint"
        );
        let mut found = Vec::new();
        // The index has those of one scope in this order.
        for scope in scopes {
            found.extend(self.lessons_where(&condition, &json!([scope.project(), limit]))?);
        }
        found.retain(Lesson::is_recallable);
        found.sort_by_key(|it| Reverse((it.origin == Origin::User, it.last_occurred_ms)));
        found.truncate(limit);
        Ok(found)
    }

    fn lessons_about(&self, scopes: &[Scope], failure: &str) -> Result<Vec<Lesson>, StoreError> {
        let condition = format!("failure = $1->>1 AND {OF_SCOPES} AND {IN_USE}");
        let mut found = self.lessons_where(&condition, &json!([names(scopes), failure]))?;
        found.retain(Lesson::is_recallable);
        Ok(found)
    }

    fn matching_lessons(
        &self,
        scopes: &[Scope],
        query: &str,
        limit: usize,
    ) -> Result<Vec<(f64, Lesson)>, StoreError> {
        // Terms are letters and digits only.
        let words = query.split(' ').filter(|word| !word.is_empty());
        let words: Vec<String> = words.map(|word| format!("'{word}'")).collect();
        if words.is_empty() {
            return Ok(Vec::new());
        }
        // Of very frequent words only some lessons are compared: sessions search in the user's file. Votes are counted
        // for the best alone.
        let condition = format!(
            "id IN (SELECT id FROM (SELECT id, terms FROM agent_team.lessons
                 WHERE terms @@ ($1->>1)::tsquery AND {OF_SCOPES} LIMIT 3000) AS compared
                 ORDER BY ts_rank(terms, ($1->>1)::tsquery) DESC LIMIT 2 * ($1->2)::bigint) AND {IN_USE}
             ORDER BY ts_rank(terms, ($1->>1)::tsquery) DESC, id LIMIT ($1->2)::bigint"
        );
        let found =
            self.lessons_where(&condition, &json!([names(scopes), words.join(" | "), limit]))?;
        // The rank by place: a score has no other meaning.
        let ranked = (1_u32..).zip(found).map(|(place, lesson)| (1.0 / f64::from(place), lesson));
        Ok(ranked.filter(|(_, lesson)| lesson.is_recallable()).collect())
    }

    fn find_lesson(&self, id: &str) -> Result<Option<Lesson>, StoreError> {
        let condition = "id >= $1->>0 AND id < ($1->>0) || '~' AND reason IS NULL LIMIT 100";
        single(id, self.lessons_where(condition, &json!([id]))?)
    }

    fn forget_lesson(&self, id: &str) -> Result<bool, StoreError> {
        self.call("retire", &json!([id, ""]))
    }
}

fn other_version(version: usize, agent: &str) -> StoreError {
    let (own, needed) = (env!("CARGO_PKG_VERSION"), MIGRATIONS.len());
    let advice = if version > needed {
        format!("use agent {agent} or a later one")
    } else {
        "`agent team init` brings it up to date".to_owned()
    };
    StoreError::Team(format!(
        "the team's database has version {version}, made by agent {agent}; this agent {own} needs {needed}: {advice}"
    ))
}

fn names(scopes: &[Scope]) -> Vec<&str> {
    scopes.iter().map(Scope::project).collect()
}

/// A call of a function of the schema with the values.
fn call_sql(function: &str) -> String {
    format!("SELECT coalesce(to_jsonb(agent_team.{function}($1)), 'null')")
}

fn team_lesson(row: Value) -> Option<TeamLesson> {
    let row: (String, u32, u32, u32, LessonState, Option<String>) =
        serde_json::from_value(row).ok()?;
    let (body, frequency, helped, hurt, state, reason) = row;
    let lesson: Lesson = serde_json::from_str(&body).ok()?;
    Some(TeamLesson { lesson: Lesson { frequency, helped, hurt, ..lesson }, state, reason })
}
