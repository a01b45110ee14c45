//! The content of requests: L1 (system prompt), L2 (rules), L3 (the conversation); `docs/CONTEXT.md` shows one.
//!
//! Pure: texts and events in, a request out. L1 and L2 do not change between compactions and L3 is
//! append-only, so that each request begins with the previous one: providers cache that prefix.

mod budget;
mod call_outcome;
mod compaction;
mod history;
mod images;
mod mentions;
mod received_lessons;
mod rules;
mod summary;

use std::collections::{BTreeMap, BTreeSet};

pub use budget::{ContextBudget, DEFAULT_WINDOW};
pub use compaction::{
    ArchivedRange, LargeText, LongUserMessages, count_forgotten_summaries, front_bytes,
    large_results, long_texts, long_user_messages, select_archived_range, shorten_large_text,
    stale_results, summary_tokens,
};
pub(crate) use history::result_part;
pub use history::{History, HistoryMark};
pub use images::without_images;
pub use mentions::{MentionTarget, MentionTargetKind, Mentions, resource_mentions};
pub use received_lessons::{ReceivedLessons, memory_reminder};
pub use rules::{MAX_RULES_BYTES, NestedRules, RulesFile};
pub use summary::{SummaryParts, SummarySections, compose_summary, summary_request};
pub use summary::{parse_sections, transcript};

use agent_protocol::event::{Event, EventBody, ModelRequested, RequestLayer};
use agent_protocol::model::{Purpose, Request};
use agent_protocol::prompt::{BOUNDARY, Prompt, Prompts};
use agent_protocol::tool::ToolSpec;

/// Prohibitions, decisions, and failures.
const L1: [Prompt; 3] =
    [BOUNDARY, Prompt::named("system/decision.md"), Prompt::named("system/recovery.md")];

/// The project's files, as far as the context needs them.
pub trait Project: Send + Sync {
    /// The file that a path in a message refers to, if it exists inside the project.
    fn find_path(&self, path: &str) -> Option<MentionTarget>;
    /// The target of a path that the model cannot read; or an image, which may be anywhere.
    fn find_unreadable_path(&self, path: &str) -> Option<MentionTarget>;
    /// The complete rules files of a folder, as far as `is_shown` permits; `.` is the root.
    fn rules_in(&self, folder: &str, is_shown: &dyn Fn(&str) -> bool) -> Vec<RulesFile>;
}

/// L1, the tools, and L2: everything that precedes the conversation.
#[derive(Clone, Debug)]
pub struct Layers {
    /// L1 and L2, as sent.
    system: String,
    l1_bytes: usize,
    /// End of the part that is unchanged since the session began.
    base_bytes: usize,
    tools: String,
    /// Hashes of L1, the tools, and L2.
    hashes: [String; 3],
}

/// The facts about sent requests on which later requests depend.
#[derive(Clone, Debug, Default)]
pub struct SentRequests {
    /// Hashes of the texts that are in the log.
    recorded_texts: BTreeSet<String>,
    last_request: Option<RequestPrefix>,
    pub(crate) is_compacted: bool,
}

impl SentRequests {
    /// Number of bytes that the next request must have in common with the previous one; `None` if none was
    /// sent in this process.
    pub fn expected_shared_bytes(&self) -> Option<usize> {
        self.last_request.as_ref().filter(|_| !self.is_compacted).map(|prefix| prefix.bytes)
    }

    /// Whether a request of the conversation was sent.
    pub fn has_requests(&self) -> bool {
        !self.recorded_texts.is_empty()
    }

    /// Applies an event of a recorded session.
    pub fn apply(&mut self, event: &Event) {
        if let EventBody::ModelRequested(requested) = &event.body {
            self.recorded_texts.extend(requested.texts.keys().cloned());
        }
    }
}

impl Layers {
    /// L1 with the facts about the machine and project, and L2 with these rules, each up to a size limit.
    /// `append` is the user's addition to the prompt.
    pub fn new(
        prompts: &Prompts,
        tools: &[ToolSpec],
        environment: &str,
        append: Option<&str>,
        rules: &[RulesFile],
        max_rules_bytes: usize,
    ) -> Self {
        let mut system: Vec<&str> =
            L1.iter().map(|layer| prompts.text(*layer).trim_end()).collect();
        // The user may have replaced instructions by nothing.
        system.retain(|text| !text.is_empty());
        system.push(environment);
        system.extend(append);
        Self::from_parts(&system, tools, rules, max_rules_bytes)
    }

    /// The layers of a sub-agent: after the prohibitions, L1 is these texts.
    pub fn for_agent(
        prompts: &Prompts,
        texts: &[&str],
        tools: &[ToolSpec],
        rules: &[RulesFile],
        max_rules_bytes: usize,
    ) -> Self {
        let mut system = vec![prompts.text(BOUNDARY).trim_end()];
        system.extend(texts.iter().map(|text| text.trim_end()));
        Self::from_parts(&system, tools, rules, max_rules_bytes)
    }

    fn from_parts(
        l1: &[&str],
        tools: &[ToolSpec],
        rules: &[RulesFile],
        max_rules_bytes: usize,
    ) -> Self {
        let mut system = l1.join("\n\n");
        let l1_bytes = system.len();
        for file in rules {
            system.push_str("\n\n");
            system.push_str(&file.l2_text(max_rules_bytes));
        }
        let (base_bytes, hashes) = (system.len(), Default::default());
        let mut layers = Self { system, l1_bytes, base_bytes, tools: String::new(), hashes };
        layers.set_tools(tools);
        layers
    }

    /// Sets the tools: before the first request, or where what was sent changes anyway.
    pub fn set_tools(&mut self, tools: &[ToolSpec]) {
        let described = |tool: &ToolSpec| {
            format!("{}: {}\n{}\n", tool.name, tool.description, tool.parameters())
        };
        self.tools = tools.iter().map(described).collect();
        self.update_hashes();
    }

    /// Sets the part of L2 that is new since the session began; called at a compaction.
    pub fn set_l2_additions(&mut self, more: &str) {
        self.system.truncate(self.base_bytes);
        if !more.is_empty() {
            self.system.push_str("\n\n");
            self.system.push_str(more);
        }
        self.update_hashes();
    }

    /// Size of L1, the tools and L2, in bytes.
    pub fn bytes(&self) -> usize {
        self.system.len() + self.tools.len()
    }

    /// Size of L1, the tools and L2 in bytes, with `more` added to L2.
    pub fn bytes_with(&self, more: &str) -> usize {
        self.base_bytes + more.len() + self.tools.len()
    }

    fn update_hashes(&mut self) {
        let (l1, l2) = self.system.split_at(self.l1_bytes);
        self.hashes = [l1, &self.tools, l2]
            .map(|text| blake3::hash(text.as_bytes()).to_hex()[..16].to_owned());
    }

    /// The request for the next answer.
    pub fn request<'a>(&'a self, tools: &'a [ToolSpec], history: &'a History) -> Request<'a> {
        Request {
            tools,
            l1_bytes: self.l1_bytes,
            ..Request::new(Purpose::Main, &self.system, history.messages())
        }
    }

    /// The record of a request of the conversation. Each text is included once, and later referred to by
    /// hash.
    pub fn describe_request(
        &self,
        sent: &mut SentRequests,
        model: &str,
        request: &Request<'_>,
        history: &History,
        budget: &ContextBudget,
    ) -> ModelRequested {
        let (l1, l2) = self.system.split_at(self.l1_bytes);
        let fixed = [("l1", l1), ("tools", self.tools.as_str()), ("l2", l2)];
        let layer = |hash, bytes| RequestLayer { hash, bytes, tokens: budget.tokens(bytes) };
        let mut layers = BTreeMap::new();
        let mut texts = BTreeMap::new();
        for ((name, text), hash) in fixed.into_iter().zip(&self.hashes) {
            if !text.is_empty() && sent.recorded_texts.insert(hash.clone()) {
                texts.insert(hash.clone(), text.to_owned());
            }
            layers.insert(name.to_owned(), layer(hash.clone(), text.len()));
        }
        layers.insert("l3".to_owned(), layer(String::new(), history.bytes()));
        let prefix = RequestPrefix {
            fixed: self.hashes.clone(),
            sizes: fixed.map(|(_, text)| text.len()),
            conversation: history.mark(),
            bytes: self.bytes() + history.bytes(),
        };
        let shared_bytes =
            sent.last_request.as_ref().map_or(0, |last| last.shared_bytes_with(&prefix, history));
        let bytes = prefix.bytes;
        sent.last_request = Some(prefix);
        sent.is_compacted = false;
        ModelRequested {
            purpose: request.purpose,
            model: model.to_owned(),
            effort: request.effort,
            messages: request.messages.len(),
            bytes,
            estimated_tokens: budget.request_tokens(bytes),
            window: Some(budget.window()),
            max_output_tokens: None,
            window_source: Some(budget.context_window().source),
            compacts_at: Some(budget.threshold()),
            shared_bytes,
            layers,
            texts,
            question: None,
        }
    }
}

#[derive(Clone, Debug)]
struct RequestPrefix {
    /// Hashes of the parts that precede the conversation, in order.
    fixed: [String; 3],
    sizes: [usize; 3],
    conversation: HistoryMark,
    bytes: usize,
}

impl RequestPrefix {
    fn shared_bytes_with(&self, next: &Self, history: &History) -> usize {
        let same = self.fixed.iter().zip(&next.fixed).take_while(|(a, b)| a == b).count();
        if same == self.fixed.len() && history.is_continuation_of(&self.conversation) {
            self.bytes
        } else {
            self.sizes[..same].iter().sum()
        }
    }
}
