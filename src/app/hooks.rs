//! The hooks of a session: runs those that match, within their time limits, and reports each run.

mod hook_command;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, join_all};
use parking_lot::{Mutex, RwLock};
use serde_json::Value;

use super::mcp_servers::host_exec;
use super::{Options, WritableDirs};
use crate::config::{self, HookScripts, Matcher};
use agent_protocol::event::EventBody;
use agent_protocol::hook::json::{self, HookAnswer};
use agent_protocol::hook::{
    HookEvent, HookFinished, HookOutcome, HookRequest, HookRuling, HookStatus, Hooks,
};
use agent_protocol::mask::Masker;
use agent_protocol::{one_line, shorten};
use hook_command::HookCommand;

/// Limit of a text for the model, in bytes.
const MAX_TEXT: usize = 10_000;
/// Limit of a text in an event, in bytes.
const MAX_EVENT_TEXT: usize = 400;

/// Asks a hook in another program: question and answer in JSON; the error says why there is no answer.
pub type Callback = Box<dyn Fn(Value) -> BoxFuture<'static, Result<Value, String>> + Send + Sync>;

/// The hooks of a session. Further ones can be added at any time.
#[derive(Default)]
pub struct HookSet {
    entries: RwLock<Vec<Arc<HookEntry>>>,
    log: OnceLock<PathBuf>,
    /// Problems that were shown: one per hook and kind, since the output may differ each time.
    reported: Mutex<BTreeSet<(HookEvent, String, HookProblem)>>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum HookProblem {
    Failed(Option<i32>),
    /// The programs are not those that the user trusted.
    Changed,
    /// A part of the output was not used.
    Truncated,
}

struct HookEntry {
    event: HookEvent,
    matcher: Matcher,
    timeout: Duration,
    handler: Handler,
    /// Scripts of the project's hooks, as they were when the session began.
    scripts: Option<Arc<HookScripts>>,
}

impl HookEntry {
    async fn changed_folder(&self) -> Option<&'static str> {
        let scripts = self.scripts.clone()?;
        let changed = tokio::task::spawn_blocking(move || scripts.changed_folder()).await;
        changed.unwrap_or(Some("the folder of its programs"))
    }

    /// Within the time limit of the hook and that of the occasion.
    async fn ask(&self, question: &Value, limit: Option<Duration>) -> HookResult {
        let timeout = limit.map_or(self.timeout, |limit| limit.min(self.timeout));
        let answering = async {
            match &self.handler {
                Handler::Command(command) => command.ask(self.event, question).await,
                Handler::Callback { ask, .. } => {
                    let answer = ask(question.clone()).await;
                    let answer = answer.and_then(|value| json::parse_answer(self.event, &value));
                    HookResult::without_status(answer)
                }
            }
        };
        tokio::time::timeout(timeout, answering).await.unwrap_or_else(|_| {
            let limit = agent_host::exec::seconds(timeout);
            let why = format!("it did not end within {limit}, and was ended");
            HookResult::without_status(Err(why))
        })
    }
}

enum Handler {
    Command(HookCommand),
    Callback { name: String, ask: Callback },
}

impl Handler {
    fn name(&self) -> &str {
        match self {
            Self::Command(command) => &command.line,
            Self::Callback { name, .. } => name,
        }
    }
}

struct HookResult {
    exit_code: Option<i32>,
    answer: Result<HookAnswer, String>,
    is_truncated: bool,
}

impl HookResult {
    fn without_status(answer: Result<HookAnswer, String>) -> Self {
        Self { exit_code: None, answer, is_truncated: false }
    }
}

/// The hooks of the options, and the configured ones; `None` if there are none. `log`: the session's record.
pub(super) fn session_hooks(
    options: &Options,
    writable: &WritableDirs,
    log: Option<&Path>,
) -> Option<Arc<dyn Hooks>> {
    let configured = &options.config.hooks;
    if configured.is_empty() && options.hooks.is_none() {
        return None;
    }
    let hooks = options.hooks.clone().unwrap_or_default();
    if let Some(log) = log {
        // A set belongs to one session.
        _ = hooks.log.set(log.to_owned());
    }
    let exec = Arc::new(host_exec(&options.config.config, writable));
    for config::Hook { event, matcher, command, timeout, scripts, .. } in configured {
        let (line, exec, root) = (command.clone(), exec.clone(), writable.root().to_owned());
        hooks.add_entry(HookEntry {
            event: *event,
            matcher: matcher.clone(),
            timeout: *timeout,
            handler: Handler::Command(HookCommand { line, exec, root }),
            scripts: scripts.clone(),
        });
    }
    Some(hooks)
}

impl HookSet {
    pub fn add(
        &self,
        event: HookEvent,
        matcher: Matcher,
        timeout: Duration,
        (name, ask): (String, Callback),
    ) {
        let handler = Handler::Callback { name, ask };
        self.add_entry(HookEntry { event, matcher, timeout, handler, scripts: None });
    }

    fn add_entry(&self, entry: HookEntry) {
        self.entries.write().push(Arc::new(entry));
    }

    /// Each command once.
    fn matching_hooks(&self, event: HookEvent, names: Option<[&str; 3]>) -> Vec<Arc<HookEntry>> {
        let entries = self.entries.read();
        let mut matching: Vec<Arc<HookEntry>> = Vec::new();
        for entry in entries.iter().filter(|entry| entry.event == event) {
            let is_same = |other: &Arc<HookEntry>| match (&other.handler, &entry.handler) {
                (Handler::Command(one), Handler::Command(another)) => one.line == another.line,
                _ => false,
            };
            if names.is_none_or(|names| entry.matcher.matches_any(&names))
                && !matching.iter().any(is_same)
            {
                matching.push(entry.clone());
            }
        }
        matching
    }

    async fn run(
        &self,
        entry: &HookEntry,
        request: &HookRequest<'_>,
        question: &Value,
    ) -> HookOutcome {
        let (events, event) = (request.events, entry.event);
        let started = events.clock().now();
        let mut running = RunningHook { entry, request, started, is_over: false };
        let changed = entry.changed_folder().await;
        let HookResult { exit_code, answer, is_truncated } = match changed {
            Some(folder) => HookResult::without_status(Err(format!(
                "{folder} changed since the session began; review it, then start a new session"
            ))),
            None => entry.ask(question, request.limit).await,
        };
        let (masker, name) = (events.masker(), entry.handler.name());
        let (outcome, text, message, status) = match answer {
            Ok(HookAnswer { outcome, message }) => {
                let text = outcome_text(&outcome);
                let outcome = limit_texts(outcome, masker);
                let status = HookStatus::from_outcome(&outcome);
                (outcome, text, message, status)
            }
            Err(why) => (HookOutcome::default(), why, None, HookStatus::Failed),
        };
        let text = masker.mask(&text);
        running.finish(status, exit_code, &text, message);
        let (problem, what) = match (status, changed) {
            (HookStatus::Failed, Some(_)) => (HookProblem::Changed, format!(" is not run: {text}")),
            (HookStatus::Failed, None) => {
                let line = shorten(&one_line(&text), MAX_EVENT_TEXT);
                (HookProblem::Failed(exit_code), format!(" failed and has no effect: {line}"))
            }
            _ if is_truncated => {
                (HookProblem::Truncated, ": its output is too long and was cut".to_owned())
            }
            _ => return outcome,
        };
        let shown = mask_and_shorten(masker, name, 100);
        let mut reported = self.reported.lock();
        if reported.insert((event, name.to_owned(), problem)) {
            let message = format!("hook {} {shown:?}{what}", event.as_str());
            events.emit(EventBody::error("hook", message));
        }
        // The hook may have been meant to stop the call: the user decides about it.
        if changed.is_some() && event == HookEvent::PreToolUse {
            let reason = format!("hook {shown:?} is not run: {text}");
            return HookOutcome { ruling: Some((HookRuling::Ask, reason)), ..outcome };
        }
        outcome
    }
}

/// Dropped without an end if nothing waits for it any more: after an interrupt, or after the answer to the question of
/// a notification. That is an event, too.
struct RunningHook<'a> {
    entry: &'a HookEntry,
    request: &'a HookRequest<'a>,
    started: Instant,
    is_over: bool,
}

impl RunningHook<'_> {
    fn finish(
        &mut self,
        outcome: HookStatus,
        exit_code: Option<i32>,
        text: &str,
        message: Option<String>,
    ) {
        self.is_over = true;
        let events = self.request.events;
        let masker = events.masker();
        let time_ms = events.clock().now().duration_since(self.started).as_millis();
        events.emit(EventBody::HookFinished(HookFinished {
            event: self.entry.event,
            hook: mask_and_shorten(masker, self.entry.handler.name(), MAX_EVENT_TEXT),
            call: self.request.payload.call().map(|call| call.id.to_owned()),
            outcome,
            exit_code,
            text: mask_and_shorten(masker, text, MAX_EVENT_TEXT),
            message: message.map(|message| mask_and_shorten(masker, &message, MAX_TEXT)),
            time_ms: u64::try_from(time_ms).unwrap_or(u64::MAX),
        }));
    }
}

impl Drop for RunningHook<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            self.finish(HookStatus::Failed, None, "it was ended before it answered", None);
        }
    }
}

impl Hooks for HookSet {
    fn has_hook(&self, event: HookEvent) -> bool {
        self.entries.read().iter().any(|entry| entry.event == event)
    }

    fn run_matching<'a>(&'a self, request: HookRequest<'a>) -> BoxFuture<'a, HookOutcome> {
        async move {
            let payload = &request.payload;
            let matching = self.matching_hooks(payload.event(), payload.matcher_names());
            if matching.is_empty() {
                return HookOutcome::default();
            }
            let question = json::encode_request(&request, self.log.get().map(PathBuf::as_path));
            let runs = matching.iter().map(|entry| self.run(entry, &request, &question));
            let mut outcome = HookOutcome::default();
            for answer in join_all(runs).await {
                outcome.merge(answer);
            }
            outcome
        }
        .boxed()
    }
}

/// A part of a secret would not be recognized: the text is masked first.
fn mask_and_shorten(masker: &Masker, text: &str, max: usize) -> String {
    shorten(&masker.mask(text), max)
}

fn limit_texts(mut outcome: HookOutcome, masker: &Masker) -> HookOutcome {
    let limit = |text: &mut String| *text = mask_and_shorten(masker, text, MAX_TEXT);
    outcome.context.iter_mut().for_each(limit);
    outcome.block.iter_mut().chain(&mut outcome.stop).for_each(limit);
    outcome.ruling.iter_mut().for_each(|(_, reason)| limit(reason));
    outcome
}

fn outcome_text(outcome: &HookOutcome) -> String {
    let HookOutcome { ruling, updated_input, block, context, stop } = outcome;
    let ruling = ruling.iter().map(|(_, reason)| reason.clone());
    let input = updated_input.iter().map(|input| Value::Object(input.clone()).to_string());
    let texts = stop.iter().chain(block).chain(context).cloned();
    let texts = ruling.chain(texts).chain(input).filter(|text| !text.is_empty());
    texts.collect::<Vec<_>>().join("\n")
}
