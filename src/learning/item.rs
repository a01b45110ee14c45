//! What is remembered: rules, patterns and failure patterns, each with the evidence it rests on.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::protocol::Object;
use crate::protocol::envelope::ErrorCode;
use crate::protocol::recall::ItemKind;
use crate::protocol::reflection::Tags;

/// From this confidence on the kernel applies a mechanical fix itself; below it the fix is offered.
pub const APPLY_AT: f64 = 0.6;
/// An item that has become less sure than this is not used any more, and goes with the next review.
pub const RETIRE_BELOW: f64 = 0.26;
/// Of more cases than this the older ones count less.
const MAX_CASES: u32 = 8;

/// One thing that is remembered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Item {
    /// The first 10 hexadecimal digits of the hash of scope, kind and text as they were at first: what is
    /// learnt twice is one item.
    pub id: String,
    /// Where it holds.
    pub scope: Scope,
    /// What kind.
    pub kind: ItemKind,
    /// One imperative sentence, in the words that a model is shown.
    pub text: String,
    /// What it is about.
    pub tags: Tags,
    /// Where it is a failure pattern: of which failure, and what helped.
    pub failure: Option<FailurePattern>,
    /// The failure it came from, in a few words.
    pub because: Option<String>,
    /// Sessions that it came from, the latest last; a few are kept.
    pub evidence: Vec<String>,
    /// Who wrote it.
    pub origin: Origin,
    /// So often it was seen.
    pub frequency: u32,
    /// So often it was used and the work went well; older cases fade ([`Item::count`]).
    pub wins: u32,
    /// So often it was used and did not help, likewise.
    pub losses: u32,
    /// In milliseconds since 1970.
    pub created_at_ms: i64,
    /// When it was last seen or used, in milliseconds since 1970.
    pub last_occurred_ms: i64,
}

impl Item {
    /// The id of what is learnt in these words.
    pub fn id_of(scope: &Scope, kind: ItemKind, text: &str) -> String {
        // An array serialises without fail, and tells its parts apart whatever they hold.
        let words = serde_json::to_string(&(scope, kind, text)).unwrap_or_default();
        blake3::hash(words.as_bytes()).to_hex()[..10].to_owned()
    }

    /// How sure it is: [`confidence`].
    ///
    /// The success that it was learnt from is its first win.
    pub fn confidence(&self) -> f64 {
        confidence(self.wins, self.losses)
    }

    /// Counts how using it turned out. Where there are [`MAX_CASES`] already, those before count half: what held a
    /// hundred times and holds no longer is noticed after a few.
    pub fn count(&mut self, wins: u32, losses: u32) {
        if wins == 0 && losses == 0 {
            return;
        }
        while self.wins.saturating_add(self.losses) >= MAX_CASES {
            self.wins /= 2;
            self.losses /= 2;
        }
        self.wins = self.wins.saturating_add(wins);
        self.losses = self.losses.saturating_add(losses);
    }

    /// It still helps often enough to be used; what a person wrote is used until that person takes it back.
    pub fn is_in_use(&self) -> bool {
        self.origin == Origin::User || self.confidence() >= RETIRE_BELOW
    }
}

/// `(wins + 1) / (wins + losses + 2)`: the expected value of a share of which nothing is known but these cases
/// (Laplace's rule of succession).
pub fn confidence(wins: u32, losses: u32) -> f64 {
    (f64::from(wins) + 1.0) / (f64::from(wins) + f64::from(losses) + 2.0)
}

/// Where an item holds.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// In the project of this identity: its remote's address, or its path.
    Project(String),
    /// Everywhere this user works.
    User,
}

/// Who wrote an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// A person: it is never changed or dropped by a review.
    User,
    /// Taken from a failure and the success after it.
    Trace,
    /// A reflection's, after its patch had helped.
    Reflection,
    /// A model's that was asked what a failure and its success teach, where the rules saw nothing.
    Model,
}

/// How something failed, and what helped.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FailurePattern {
    /// The method that failed: the `skill_id` of its traces.
    pub skill: String,
    /// When it fails, in words.
    pub condition: String,
    /// `dependency_error`, `parameter_error` …
    pub error_type: String,
    /// What helped, in words.
    pub suggested_fix: Option<String>,
    /// When it fails, for matching.
    pub when: Condition,
    /// What helped, for the kernel to do.
    pub fix: Option<Fix>,
    /// The files that led to the failed command, each as all of its kind in its folder: `data/*.csv`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub led_by: Vec<String>,
}

/// What a call and its failure have to be for a pattern to fit: everything that is named.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Condition {
    /// The tool's name; empty: any.
    pub tool: String,
    /// The envelope's code.
    pub code: Option<ErrorCode>,
    /// A piece of the masked signature.
    pub signature: Option<String>,
    /// The first words of the command that failed: `npm test`; `npm *`: whatever it is to do, of a build tool what
    /// builds the code.
    pub command_head: Option<String>,
    /// The ending of the file's name: `rs`; or its name, where files of a kind have one: `Makefile`.
    pub file_kind: Option<String>,
    /// The path, where it is about one file; with a `/` behind it about all below a folder.
    pub path: Option<String>,
    /// A folder, with a `/` behind it, that the path does not lie below.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_below: Option<String>,
    /// An argument that the call has.
    pub argument: Option<String>,
    /// A piece of that argument's text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub holds: Option<String>,
    /// The operating system, where it is about a program that is or is not installed.
    pub platform: Option<String>,
    /// Of a change of a file: a word that it puts in, or blanks that a line of it begins with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub puts_in: Option<String>,
    /// Where the call itself goes well: the later one that fails for it, and how; `tool` is `Edit` then, and means all
    /// that change files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub leads_to: Option<Box<Self>>,
}

/// A fix that needs no model: how the call that failed becomes one that works.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Fix {
    /// Words of the command are others; the rest of it stands.
    ReplaceWords {
        /// As they were, `*` for any one word that is no option; a name alone also where it is a side of a range
        /// (`master..HEAD`). Empty: nothing is replaced, and `to` stands behind the command's last argument.
        from: String,
        /// As they have to be; what `*` stood for stays.
        to: String,
    },
    /// The command needs something in front of it: `cd web &&`, `LC_ALL=C`.
    Prefix {
        /// With the space behind it.
        with: String,
    },
    /// An argument has another name.
    RenameArgument {
        /// The name that was sent.
        from: String,
        /// The name that is taken.
        to: String,
    },
    /// Arguments have these values.
    SetArguments {
        /// Name and value.
        input: Object,
    },
    /// A file, or everything below a folder, lies elsewhere.
    ReplacePath {
        /// As it was asked for.
        from: String,
        /// Where it is.
        to: String,
    },
    /// Something has to be run first; then the call works as it is.
    RunFirst {
        /// The command.
        command: String,
    },
    /// Another tool does it.
    OtherTool {
        /// Which.
        tool: String,
        /// Its arguments, besides the path, which is that of the call that failed.
        input: Object,
        /// What the call that failed has to hold, and by which name the other tool takes it.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        named: BTreeMap<String, String>,
    },
}
