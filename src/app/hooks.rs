//! The hooks of a session: asks those that match, within their time limits, and reports each run.

mod command;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, join_all};
use serde_json::Value;

use super::mcp_servers::host_exec;
use super::{Options, Writable};
use crate::config::{self, Matcher, Scripts};
use agent_protocol::event::Body;
use agent_protocol::hook::json::{self, Answer};
use agent_protocol::hook::{Asked, HookEnd, HookEvent, HookFinished, HookRuling, Hooks, Outcome};
use agent_protocol::mask::Masker;
use agent_protocol::{counted, shorten};
use command::Command;

/// Limit of a text for the model, in bytes.
const MAX_TEXT: usize = 10_000;
/// Limit of a text in an event, in bytes.
const SHOWN: usize = 400;

/// Asks a hook in another program: the question in JSON, then the answer in JSON, or why there is none.
pub type Callback = Box<dyn Fn(Value) -> BoxFuture<'static, Result<Value, String>> + Send + Sync>;

/// The hooks of a session. Further ones can be added at any time.
#[derive(Default)]
pub struct HookSet {
    entries: RwLock<Vec<Arc<Entry>>>,
    /// The record of the session.
    log: OnceLock<PathBuf>,
    /// The notices that were shown: one for each hook and kind of problem, since the output may differ each time.
    told: Mutex<BTreeSet<(HookEvent, String, Problem)>>,
}

/// A kind of problem with a hook.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Problem {
    /// It failed; its exit status.
    Failed(Option<i32>),
    /// Its programs are not those that the user trusted.
    Changed,
    /// A part of its output was not used.
    Cut,
}

struct Entry {
    event: HookEvent,
    matcher: Matcher,
    timeout: Duration,
    handler: Handler,
    /// The programs of the project's hooks, as they were when the session began.
    scripts: Option<Arc<Scripts>>,
}

impl Entry {
    /// The folder whose programs are not those that the user trusted.
    async fn changed(&self) -> Option<&'static str> {
        let scripts = self.scripts.clone()?;
        let changed = tokio::task::spawn_blocking(move || scripts.changed()).await;
        changed.unwrap_or(Some("the folder of its programs"))
    }

    /// Asks it, within its time limit and that of the occasion.
    async fn answer(&self, question: &Value, limit: Option<Duration>) -> Ran {
        let timeout = limit.map_or(self.timeout, |limit| limit.min(self.timeout));
        let answering = async {
            match &self.handler {
                Handler::Command(command) => command.ask(self.event, question).await,
                Handler::Callback { ask, .. } => {
                    let answer = ask(question.clone()).await;
                    let answer = answer.and_then(|value| json::answer(self.event, &value));
                    Ran::without_status(answer)
                }
            }
        };
        tokio::time::timeout(timeout, answering).await.unwrap_or_else(|_| {
            let limit = counted(timeout.as_secs().max(1), "second");
            let why = format!("it did not end within {limit}, and was ended");
            Ran::without_status(Err(why))
        })
    }
}

enum Handler {
    Command(Command),
    Callback { name: String, ask: Callback },
}

impl Handler {
    fn name(&self) -> &str {
        match self {
            Self::Command(command) => command.line(),
            Self::Callback { name, .. } => name,
        }
    }
}

/// How a hook ended.
struct Ran {
    exit_code: Option<i32>,
    /// Its answer, or why it failed.
    answer: Result<Answer, String>,
    /// A part of its output was not used.
    is_cut: bool,
}

impl Ran {
    /// It has no exit status.
    fn without_status(answer: Result<Answer, String>) -> Self {
        Self { exit_code: None, answer, is_cut: false }
    }
}

/// The hooks of a session: those of the options, and the configured ones. `None` if there are none. `log`: the session's
/// record.
pub(super) fn of_session(
    options: &Options,
    writable: &Writable,
    log: Option<&Path>,
) -> Option<Arc<dyn Hooks>> {
    let configured = &options.config.hooks;
    if configured.is_empty() && options.hooks.is_none() {
        return None;
    }
    let hooks = options.hooks.clone().unwrap_or_default();
    if let Some(log) = log {
        // (A set belongs to one session.)
        _ = hooks.log.set(log.to_owned());
    }
    let exec = Arc::new(host_exec(&options.config.config, writable));
    for config::Hook { event, matcher, command, timeout, scripts, .. } in configured {
        let command = Command::new(command.clone(), exec.clone(), writable.root());
        hooks.add_entry(Entry {
            event: *event,
            matcher: matcher.clone(),
            timeout: *timeout,
            handler: Handler::Command(command),
            scripts: scripts.clone(),
        });
    }
    Some(hooks)
}

impl HookSet {
    /// Adds a hook in another program.
    pub fn add(
        &self,
        event: HookEvent,
        matcher: Matcher,
        timeout: Duration,
        (name, ask): (String, Callback),
    ) {
        let handler = Handler::Callback { name, ask };
        self.add_entry(Entry { event, matcher, timeout, handler, scripts: None });
    }

    fn add_entry(&self, entry: Entry) {
        self.entries.write().unwrap_or_else(PoisonError::into_inner).push(Arc::new(entry));
    }

    /// The hooks that match, each command once.
    fn matching(&self, event: HookEvent, names: Option<[&str; 3]>) -> Vec<Arc<Entry>> {
        let entries = self.entries.read().unwrap_or_else(PoisonError::into_inner);
        let mut matching: Vec<Arc<Entry>> = Vec::new();
        for entry in entries.iter().filter(|entry| entry.event == event) {
            let is_same = |other: &Arc<Entry>| match (&other.handler, &entry.handler) {
                (Handler::Command(one), Handler::Command(other)) => one.line() == other.line(),
                (Handler::Callback { .. }, _) | (_, Handler::Callback { .. }) => false,
            };
            if names.is_none_or(|names| entry.matcher.fits(&names)) && !matching.iter().any(is_same)
            {
                matching.push(entry.clone());
            }
        }
        matching
    }

    /// Asks one hook, and reports how it ended.
    async fn run(&self, entry: &Entry, asked: &Asked<'_>, question: &Value) -> Outcome {
        let (events, event) = (asked.events, entry.event);
        let running = Running { entry, asked, begun: events.clock().now(), is_over: false };
        let changed = entry.changed().await;
        let Ran { exit_code, answer, is_cut } = match changed {
            Some(folder) => Ran::without_status(Err(format!(
                "{folder} changed since the session began; review it, then start a new session"
            ))),
            None => entry.answer(question, asked.limit).await,
        };
        let (masker, name) = (events.masker(), entry.handler.name());
        let (outcome, text, message, end) = match answer {
            Ok(Answer { outcome, message }) => {
                let text = said(&outcome);
                let outcome = limited(outcome, masker);
                let end = HookEnd::of(&outcome);
                (outcome, text, message, end)
            }
            Err(why) => (Outcome::default(), why, None, HookEnd::Failed),
        };
        let text = masker.mask(&text);
        running.finish(end, exit_code, &text, message);
        let (problem, what) = match (end, changed) {
            (HookEnd::Failed, Some(_)) => (Problem::Changed, format!(" is not run: {text}")),
            (HookEnd::Failed, None) => {
                let what = format!(" failed and has no effect: {}", one_line(&text));
                (Problem::Failed(exit_code), what)
            }
            _ if is_cut => (Problem::Cut, ": its output is too long and was cut".to_owned()),
            _ => return outcome,
        };
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.insert((event, name.to_owned(), problem)) {
            let shown = format!("hook {} {:?}", event.as_str(), brief(masker, name, 100));
            events.emit(Body::error("hook", format!("{shown}{what}")));
        }
        // The call that it may have been meant to stop is made only if the user wants it.
        if changed.is_some() && event == HookEvent::PreToolUse {
            let reason = format!("hook {:?} is not run: {text}", brief(masker, name, 100));
            return Outcome { ruling: Some((HookRuling::Ask, reason)), ..outcome };
        }
        outcome
    }
}

/// A run of a hook. If nobody waits for its end any more, because of an interrupt or because the question of a notification
/// was answered, it is ended when this is dropped. That is an event, too.
struct Running<'a> {
    entry: &'a Entry,
    asked: &'a Asked<'a>,
    begun: Instant,
    is_over: bool,
}

impl Running<'_> {
    fn finish(
        mut self,
        outcome: HookEnd,
        exit_code: Option<i32>,
        text: &str,
        message: Option<String>,
    ) {
        self.is_over = true;
        self.report(outcome, exit_code, text, message);
    }

    fn report(
        &self,
        outcome: HookEnd,
        exit_code: Option<i32>,
        text: &str,
        message: Option<String>,
    ) {
        let events = self.asked.events;
        let masker = events.masker();
        let time_ms = events.clock().now().duration_since(self.begun).as_millis();
        events.emit(Body::HookFinished(HookFinished {
            event: self.entry.event,
            hook: brief(masker, self.entry.handler.name(), SHOWN),
            call: self.asked.occasion.call().map(|call| call.id.to_owned()),
            outcome,
            exit_code,
            text: brief(masker, text, SHOWN),
            message: message.map(|message| brief(masker, &message, MAX_TEXT)),
            time_ms: u64::try_from(time_ms).unwrap_or(u64::MAX),
        }));
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            self.report(HookEnd::Failed, None, "it was ended before it answered", None);
        }
    }
}

impl Hooks for HookSet {
    fn has(&self, event: HookEvent) -> bool {
        let entries = self.entries.read().unwrap_or_else(PoisonError::into_inner);
        entries.iter().any(|entry| entry.event == event)
    }

    fn ask<'a>(&'a self, asked: Asked<'a>) -> BoxFuture<'a, Outcome> {
        async move {
            let matching = self.matching(asked.occasion.event(), asked.occasion.matched());
            if matching.is_empty() {
                return Outcome::default();
            }
            let question = json::question(&asked, self.log.get().map(PathBuf::as_path));
            let runs = matching.iter().map(|entry| self.run(entry, &asked, &question));
            let mut outcome = Outcome::default();
            for answer in join_all(runs).await {
                outcome.add(answer);
            }
            outcome
        }
        .boxed()
    }
}

/// A text without secrets, shortened. (A part of a secret would not be recognized: it is masked first.)
fn brief(masker: &Masker, text: &str, max: usize) -> String {
    shorten(&masker.mask(text), max)
}

/// The texts for the model, without secrets and of limited length.
fn limited(mut outcome: Outcome, masker: &Masker) -> Outcome {
    let limit = |text: &mut String| *text = shorten(&masker.mask(text), MAX_TEXT);
    outcome.context.iter_mut().for_each(limit);
    outcome.block.iter_mut().chain(&mut outcome.stop).for_each(limit);
    outcome.ruling.iter_mut().for_each(|(_, reason)| limit(reason));
    outcome
}

/// What a hook said, for the event.
fn said(outcome: &Outcome) -> String {
    let Outcome { ruling, updated_input, block, context, stop } = outcome;
    let ruling = ruling.iter().map(|(_, reason)| reason.clone());
    let input = updated_input.iter().map(|input| Value::Object(input.clone()).to_string());
    let texts = stop.iter().chain(block).chain(context).cloned();
    let texts = ruling.chain(texts).chain(input).filter(|text| !text.is_empty());
    texts.collect::<Vec<_>>().join("\n")
}

fn one_line(text: &str) -> String {
    shorten(&text.split_whitespace().collect::<Vec<_>>().join(" "), SHOWN)
}
