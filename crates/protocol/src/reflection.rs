//! Reflections: the structured answer of a model that was asked why something failed, followed only as far as
//! the kernel's table allows.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Object;
use super::control::{CauseCategory, FailureSignal};
use super::event::default_true;

/// Confidence from which a reflection counts; below it the deterministic decision applies.
pub const MIN_CONFIDENCE: f64 = 0.5;

/// Words of advice that would widen permissions.
const WIDENING_WORDS: [&str; 16] = [
    "--allow",
    "--yolo",
    "permission mode",
    "permission-mode",
    "sandbox",
    "sudo",
    "approval",
    "without asking",
    "you are allowed",
    "you may now",
    "as root",
    "outside the project",
    "chmod 777",
    "--no-verify",
    "disable the check",
    "skip the check",
];
const NEGATIONS: [&str; 6] = ["not ", "never", "n't", "avoid", "without anything", "不"];
/// The answer, field by field.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Reflection {
    /// What kind of evidence there was.
    pub failure_signal: FailureSignal,
    /// Why it failed.
    pub root_cause: RootCause,
    /// What would help, one to three ways.
    #[serde(default)]
    pub fix_strategy: Vec<Fix>,
    /// What the kernel should try itself.
    #[serde(default)]
    pub suggested_action: Option<SuggestedAction>,
    /// Imperative rules for the next decisions.
    #[serde(default)]
    pub patch_prompt: String,
    /// What is worth keeping beyond this task.
    #[serde(default)]
    pub memory_to_write: Vec<MemoryItem>,
}

impl Reflection {
    /// Whether the confidence is sufficient.
    pub fn is_confident(&self) -> bool {
        self.root_cause.confidence >= MIN_CONFIDENCE
    }
}

/// Why something failed.
#[expect(clippy::struct_excessive_bools, reason = "each is a question of its own")]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RootCause {
    /// Where the cause lies.
    pub category: CauseCategory,
    /// What kind of mistake it is.
    #[serde(default)]
    pub kind: CauseKind,
    /// The cause in one sentence.
    #[serde(default)]
    pub text: String,
    /// It may pass by itself.
    #[serde(default)]
    pub transient: bool,
    /// Another try may succeed.
    #[serde(default = "default_true")]
    pub retry_may_succeed: bool,
    /// The plan is still the right one.
    #[serde(default = "default_true")]
    pub plan_still_holds: bool,
    /// This step can be saved as it is.
    #[serde(default = "default_true")]
    pub recoverable: bool,
    /// From 0 to 1.
    #[serde(default)]
    pub confidence: f64,
}

/// What kind of mistake it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CauseKind {
    /// The task can be read in several ways.
    PromptAmbiguous,
    /// What was sent does not fit what is taken.
    SchemaMismatch,
    /// Something was not looked at.
    MissingObservation,
    /// The plan is wrong.
    BadPlan,
    /// The tool is not for this.
    ToolMisuse,
    /// Something else.
    #[default]
    #[serde(other)]
    Other,
}

/// One way that would help.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Fix {
    /// What is changed.
    pub kind: FixKind,
    /// How.
    #[serde(default)]
    pub text: String,
}

/// What a fix changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FixKind {
    /// What the model is told.
    Prompt,
    /// What is sent.
    Schema,
    /// What is checked first.
    Check,
    /// Which tool is used.
    Tool,
    /// How the work is cut into steps.
    Decompose,
}

/// What the kernel should try itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum SuggestedAction {
    /// The same tool with these arguments in the place of those that were sent.
    Adjust {
        /// The arguments that differ.
        input: Object,
    },
    /// Another tool.
    Alternative {
        /// Which.
        tool: String,
        /// Its arguments.
        input: Object,
    },
}

/// Something worth keeping.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MemoryItem {
    /// `rule` or `pattern`.
    #[serde(rename = "type")]
    pub kind: MemoryKind,
    /// One imperative sentence.
    pub text: String,
}

/// What kind of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MemoryKind {
    /// What always holds.
    Rule,
    /// How a kind of task is done.
    Pattern,
}

/// The sentences of an advice, in lower case, that propose something: sentences with a warning are left out.
pub fn extract_proposals(advice: &str) -> Vec<&str> {
    let warns = |sentence: &str| NEGATIONS.iter().any(|no| sentence.contains(no));
    // A dot inside a name ends no sentence.
    let sentences = advice.split([';', '\n', '。', '；']).flat_map(|part| part.split(". "));
    sentences.filter(|sentence| !warns(sentence)).collect()
}

/// The word by which a sentence, in lower case, would widen permissions.
pub fn find_widening_word(sentence: &str) -> Option<&'static str> {
    WIDENING_WORDS.into_iter().find(|word| sentence.contains(word))
}
