//! A lesson: what is remembered, where it came from, and how it has served.

use serde::{Deserialize, Serialize};

use crate::protocol::Object;
use crate::protocol::envelope::ErrorCode;
use crate::protocol::recall::{LessonKind, Recalled};

/// From this confidence on the kernel applies the fix of a lesson itself.
pub const APPLY_AT: f64 = 0.6;
/// A lesson with less confidence is not recalled any more, and the next review removes it.
pub const RETIRE_BELOW: f64 = 0.26;
/// With more cases than this the older ones count half.
const MAX_CASES: u32 = 8;
/// So many sources are kept, the latest ones.
const MAX_SOURCES: usize = 5;

/// What is remembered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Lesson {
    /// The first 10 hexadecimal digits of the hash of what makes two lessons equal.
    pub id: String,
    /// Where it applies.
    pub scope: Scope,
    /// Its kind.
    pub kind: LessonKind,
    /// What a model sees: one or two sentences.
    pub text: String,
    /// What it is found by besides its text: the task in which it was learnt. No model sees it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub context: String,
    /// The failure that it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<FailurePattern>,
    /// The evidence of a distilled lesson, word for word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quote: Option<String>,
    /// Who wrote it.
    pub origin: Origin,
    /// Where it was learnt, latest last.
    #[serde(default)]
    pub sources: Vec<Source>,
    /// How often it was learnt.
    pub frequency: u32,
    /// How often a model has seen it.
    #[serde(default)]
    pub recalled: u32,
    /// How often it helped; older cases fade ([`Lesson::count`]). The success that it was learnt from is the first case.
    pub helped: u32,
    /// How often it did not help, likewise.
    pub hurt: u32,
    /// Creation time, in milliseconds since 1970.
    pub created_at_ms: i64,
    /// When it was last learnt, in milliseconds since 1970.
    pub last_occurred_ms: i64,
}

impl Lesson {
    /// A lesson that was just learnt from nothing but its text. `at_ms`: in milliseconds since 1970.
    pub fn new(scope: Scope, kind: LessonKind, text: String, origin: Origin, at_ms: i64) -> Self {
        Self {
            id: Self::id_of(&scope, kind, &[&text]),
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

    /// The id of the lesson with this content; `key`: what makes two lessons equal.
    pub fn id_of(scope: &Scope, kind: LessonKind, key: &[&str]) -> String {
        let words = serde_json::to_string(&(scope, kind, key)).unwrap_or_default();
        blake3::hash(words.as_bytes()).to_hex()[..10].to_owned()
    }

    /// The same lesson of another scope.
    #[must_use]
    pub fn with_scope(self, scope: Scope) -> Self {
        Self { id: Self::id_of(&scope, self.kind, &[&self.text]), scope, ..self }
    }

    /// `(helped + 1) / (helped + hurt + 2)`: Laplace's rule of succession.
    pub fn confidence(&self) -> f64 {
        (f64::from(self.helped) + 1.0) / (f64::from(self.helped) + f64::from(self.hurt) + 2.0)
    }

    /// Counts how its use turned out. With [`MAX_CASES`] cases the earlier ones count half, so that a lesson that no
    /// longer holds is noticed after a few cases.
    pub fn count(&mut self, helped: u32, hurt: u32) {
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

    /// It is recalled: it helps often enough, or the user wrote it.
    pub fn is_in_use(&self) -> bool {
        self.origin == Origin::User || self.confidence() >= RETIRE_BELOW
    }

    /// Adds what an equal lesson was learnt from.
    pub fn learn_again(&mut self, other: Self) {
        self.frequency = self.frequency.saturating_add(other.frequency);
        self.count(other.helped, 0);
        self.last_occurred_ms = self.last_occurred_ms.max(other.last_occurred_ms);
        self.sources.extend(other.sources);
        let excess = self.sources.len().saturating_sub(MAX_SOURCES);
        self.sources.drain(..excess);
        if self.origin != Origin::User {
            (self.text, self.context) = (other.text, other.context);
            (self.failure, self.origin) = (other.failure, other.origin);
        }
    }

    /// What a model sees.
    pub fn recalled(&self) -> Recalled {
        Recalled { id: self.id.clone(), kind: self.kind, text: self.text.clone() }
    }
}

/// Where a lesson applies.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// In the project with this identity: its remote's address, or its path.
    Project(String),
    /// In all projects of the user.
    User,
}

impl Scope {
    /// The project's identity; empty for the user's lessons.
    pub fn project(&self) -> &str {
        match self {
            Self::Project(project) => project,
            Self::User => "",
        }
    }
}

/// Who wrote a lesson.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// The user: no review changes or removes it.
    User,
    /// A failure and the success that followed.
    Pair,
    /// A model that was asked what a turn teaches.
    Distilled,
    /// A reflection whose failure was resolved.
    Reflection,
}

/// Where a lesson was learnt: a session, and the numbers of the first and the last event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// The session.
    pub session: String,
    /// The first and the last event.
    pub events: (u64, u64),
}

/// How a call failed, and what worked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FailurePattern {
    /// The method: the `skill_id` of its traces.
    pub skill: String,
    /// The telling line of the failure.
    pub condition: String,
    /// `parameter_error`, `dependency_error` …
    pub error_type: String,
    /// The tool.
    pub tool: String,
    /// What the call was about: a program, a file, a check.
    pub target: String,
    /// The envelope's code.
    pub code: ErrorCode,
    /// The telling line without numbers, paths, hashes and the call's own arguments.
    pub signature: String,
    /// The arguments of the failed call.
    pub input: Object,
    /// What worked was the same call, after something else was done.
    #[serde(default)]
    pub is_same_call: bool,
    /// Something was done between the failure and the success.
    #[serde(default)]
    pub is_prepared: bool,
    /// Words that the successful call has and the failed one has not.
    pub new_words: Vec<String>,
    /// The arguments of the successful call, if it was a single call of the same tool.
    pub fix: Option<Object>,
}

impl FailurePattern {
    /// Failures with equal keys are the same failure.
    pub fn key(&self) -> String {
        key(&self.tool, &self.target, self.code, &self.signature)
    }
}

/// See [`FailurePattern::key`].
pub fn key(tool: &str, target: &str, code: ErrorCode, signature: &str) -> String {
    [tool, target, code.as_str(), signature].join("\n")
}
