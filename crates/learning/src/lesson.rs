//! A lesson: its content, its origin, and how successful it was.

use serde::{Deserialize, Serialize};

use agent_protocol::Object;
use agent_protocol::envelope::ErrorCode;
use agent_protocol::recall::{LessonKind, RecalledLesson};

/// The kernel itself applies the fix of a lesson from this confidence on.
pub const MIN_APPLY_CONFIDENCE: f64 = 0.6;
/// Below this confidence a lesson is not recalled, and the next review removes it.
pub const MIN_RECALL_CONFIDENCE: f64 = 0.26;
/// Beyond this number of cases older ones count half.
const MAX_CASES: u32 = 8;
/// The latest ones stay.
const MAX_SOURCES: usize = 5;

/// A lesson, as stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Lesson {
    /// The first 10 hexadecimal digits of the hash of its identifying content.
    pub id: String,
    pub scope: Scope,
    pub kind: LessonKind,
    /// The text for a model: one or two sentences.
    pub text: String,
    /// Only for the search: the task of the session. Not shown to models.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub context: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<FailurePattern>,
    /// Verbatim, from the evidence of a distilled lesson.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quote: Option<String>,
    pub origin: Origin,
    /// Latest last.
    #[serde(default)]
    pub sources: Vec<Source>,
    pub frequency: u32,
    /// How often a model has seen the lesson.
    #[serde(default)]
    pub recalled: u32,
    /// Cases in which the lesson helped, with that which it describes; see [`Lesson::record_outcomes`].
    pub helped: u32,
    /// Cases in which the lesson did not help, likewise.
    pub hurt: u32,
    /// In milliseconds since 1970.
    pub created_at_ms: i64,
    pub last_occurred_ms: i64,
}

impl Lesson {
    /// Creates a lesson that has only a text. `at_ms`: in milliseconds since 1970.
    pub fn new(scope: Scope, kind: LessonKind, text: String, origin: Origin, at_ms: i64) -> Self {
        Self {
            id: Self::compute_id(&scope, kind, &[&text]),
            scope,
            kind,
            text,
            context: String::new(),
            failure: None,
            quote: None,
            origin,
            sources: Vec::new(),
            frequency: 1,
            recalled: 0,
            helped: 0,
            hurt: 0,
            created_at_ms: at_ms,
            last_occurred_ms: at_ms,
        }
    }

    /// The id of a lesson; `key`: the identifying content.
    pub fn compute_id(scope: &Scope, kind: LessonKind, key: &[&str]) -> String {
        let words = serde_json::to_string(&(scope, kind, key)).unwrap_or_default();
        blake3::hash(words.as_bytes()).to_hex()[..10].to_owned()
    }

    /// The same lesson of another scope.
    #[must_use]
    pub fn with_scope(self, scope: Scope) -> Self {
        Self { id: Self::compute_id(&scope, self.kind, &[&self.text]), scope, ..self }
    }

    /// `(helped + 1) / (helped + hurt + 2)`: Laplace's rule of succession.
    pub fn confidence(&self) -> f64 {
        (f64::from(self.helped) + 1.0) / (f64::from(self.helped) + f64::from(self.hurt) + 2.0)
    }

    /// Counts the results of uses. Beyond [`MAX_CASES`] the earlier ones count half: a lesson may go stale.
    pub fn record_outcomes(&mut self, helped: u32, hurt: u32) {
        if helped == 0 && hurt == 0 {
            return;
        }
        while self.helped.saturating_add(self.hurt) >= MAX_CASES {
            self.helped /= 2;
            self.hurt /= 2;
        }
        self.helped = self.helped.saturating_add(helped);
        self.hurt = self.hurt.saturating_add(hurt);
    }

    /// Whether the lesson helps often enough, or the user wrote it.
    pub fn is_in_use(&self) -> bool {
        self.origin == Origin::User || self.confidence() >= MIN_RECALL_CONFIDENCE
    }

    /// Whether the lesson may be recalled: it is in use, and if one word alone relates its calls, it occurred twice.
    pub fn is_recallable(&self) -> bool {
        let is_chance = self.failure.as_ref().is_some_and(|failure| failure.is_related_by_one_word);
        self.is_in_use() && (self.origin == Origin::User || !is_chance || self.frequency > 1)
    }

    /// See [`FailurePattern::subjects`].
    pub fn subjects(&self) -> &[String] {
        self.failure.as_ref().map_or(&[], |failure| &failure.subjects)
    }

    /// Whether the lesson may be shown for this task. A check names a program only if that is one of the project.
    pub fn concerns_task(&self, task: &str, checks: &[String]) -> bool {
        let is_named = |subject: &String| {
            let begins = |check: &String| check.trim_start_matches("./").starts_with(subject);
            names(task, subject) || subject.contains('/') && checks.iter().any(begins)
        };
        self.subjects().is_empty() || self.subjects().iter().any(is_named)
    }

    /// Whether the lesson may be shown for a call with these arguments that failed in the same way.
    pub fn concerns_call(&self, input: &Object) -> bool {
        let is_same = |failure: &FailurePattern| {
            ["command", "directory", "path"]
                .iter()
                .all(|it| failure.input.get(*it) == input.get(*it))
        };
        self.subjects().is_empty() || self.failure.as_ref().is_some_and(is_same)
    }

    /// Adds the sources of an equal lesson.
    pub fn merge(&mut self, other: Self) {
        self.frequency = self.frequency.saturating_add(other.frequency);
        self.record_outcomes(other.helped, 0);
        self.last_occurred_ms = self.last_occurred_ms.max(other.last_occurred_ms);
        self.sources.extend(other.sources);
        let excess = self.sources.len().saturating_sub(MAX_SOURCES);
        self.sources.drain(..excess);
        if self.origin != Origin::User {
            (self.text, self.context) = (other.text, other.context);
            (self.failure, self.origin) = (other.failure, other.origin);
            // What a team taught is this project's own once it was learnt here.
            self.scope = other.scope;
        }
    }

    /// The lesson as a team gets it: without its task, its sessions and its counts.
    #[must_use]
    pub fn to_shared(&self, team: &Scope) -> Self {
        Self {
            scope: team.clone(),
            context: String::new(),
            sources: Vec::new(),
            frequency: 1,
            recalled: 0,
            helped: 0,
            hurt: 0,
            ..self.clone()
        }
    }

    /// The lesson as shown to a model.
    pub fn to_recalled(&self) -> RecalledLesson {
        RecalledLesson { id: self.id.clone(), kind: self.kind, text: self.text.clone() }
    }
}

/// Where a lesson applies.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// The identity: the address of the remote, or the path.
    Project(String),
    User,
    /// A lesson of others: `team:` and the hash of the project's identity. The kernel never applies it by itself.
    Team(String),
}

impl Scope {
    /// The team's lessons for the project with this identity, which is the address of a remote.
    pub fn team(project: &str) -> Self {
        Self::Team(format!("team:{}", blake3::hash(project.as_bytes()).to_hex()))
    }

    /// The project's identity, or the name of the team's lessons for it; empty for the user's lessons.
    pub fn project(&self) -> &str {
        match self {
            Self::Project(project) | Self::Team(project) => project,
            Self::User => "",
        }
    }
}

/// Who wrote a lesson.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// No review changes or removes such a lesson.
    User,
    /// A failure and the success that followed.
    Pair,
    /// A model's answer about a turn.
    Distilled,
    /// A reflection whose failure was resolved.
    Reflection,
}

/// Where a lesson was learnt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    pub session: String,
    /// The numbers of the first and the last event.
    pub events: (u64, u64),
}

/// How a call failed, and what worked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FailurePattern {
    /// The `skill_id` of its traces.
    pub skill: String,
    /// The line with the reason of the failure.
    pub condition: String,
    /// `parameter_error`, `dependency_error` …
    pub error_type: String,
    pub tool: String,
    /// A program, a file or a check.
    pub target: String,
    pub code: ErrorCode,
    /// The condition with numbers, paths, hashes and the call's own arguments masked.
    pub signature: String,
    pub input: Object,
    /// The failed call worked later, after something else was done.
    #[serde(default)]
    pub is_same_call: bool,
    /// Something was done between the failure and the success.
    #[serde(default)]
    pub is_prepared: bool,
    #[serde(default)]
    pub is_related_by_one_word: bool,
    /// If files were changed before the success: these files, and the program that failed. The lesson is about them alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub subjects: Vec<String>,
    /// Words of the successful call that the failed one does not have.
    pub new_words: Vec<String>,
    /// The arguments of the successful call; `None` unless it was a single call of the same tool.
    pub fix: Option<Object>,
}

impl FailurePattern {
    /// Failures with equal keys are the same failure.
    pub fn key(&self) -> String {
        failure_key(&self.tool, &self.target, self.code, &self.signature)
    }
}

/// Whether the text names this file or command, and not a longer one.
fn names(text: &str, subject: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || "_-./".contains(c);
    text.match_indices(subject).any(|(at, _)| {
        let before = text[..at].trim_end_matches("./");
        // A sentence may end after it.
        let after = text[at + subject.len()..].trim_start_matches('.');
        !before.ends_with(is_part) && !after.starts_with(is_part)
    })
}

/// See [`FailurePattern::key`].
pub fn failure_key(tool: &str, target: &str, code: ErrorCode, signature: &str) -> String {
    [tool, target, code.as_str(), signature].join("\n")
}

#[cfg(test)]
mod tests {
    use super::names;

    #[test]
    fn text_names_a_whole_path() {
        for (text, expected) in [
            ("Fix a.py, please", true),
            ("运行a.py", true),
            ("See ./a.py.", true),
            ("See lib/a.py", false),
            ("See ../a.py", false),
            ("See a.pyc", false),
            ("See data.py", false),
        ] {
            assert_eq!(names(text, "a.py"), expected, "{text}");
        }
    }
}
