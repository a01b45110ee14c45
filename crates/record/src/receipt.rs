//! Receipts: what a session did, and a seal of its log by which both can be checked elsewhere.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{live_events, parse_milliseconds, summary, turns};
use agent_protocol::control::Ending;
use agent_protocol::event::{Event, EventBody};
use agent_protocol::spending::Spending;

/// The version of the format.
const FORMAT: u32 = 1;
/// Characters of the hash of a line: enough to find an edited one; the whole log has a whole hash.
const LINE_HASH: usize = 8;

/// A receipt of a session. Everything but `files`, `last_change_ms` and `commit` follows from the log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Receipt {
    pub receipt: u32,
    pub session: String,
    /// The version of the program that recorded the session.
    pub program: String,
    pub started: String,
    pub ended: String,
    /// The user's messages.
    pub tasks: Vec<String>,
    /// The models that answered, with the number of answers.
    pub models: BTreeMap<String, u32>,
    /// Of the last turn; `None` if it has no end.
    pub ending: Option<Ending>,
    pub spending: Spending,
    /// Decisions about calls, and the number of each: allow, ask, refuse, reject.
    pub permissions: BTreeMap<String, u32>,
    /// Decisions of the kernel after failures, and the number of each.
    pub decisions: BTreeMap<String, u32>,
    pub checks: Vec<ReceiptCheck>,
    pub files: Vec<ReceiptFile>,
    /// The end of the last change, in milliseconds since 1970; `None`: nothing was changed.
    pub last_change_ms: Option<i64>,
    /// The commit of the repository when the receipt was written.
    pub commit: Option<String>,
    pub log: LogSeal,
    /// Of the receipt without this field, by `ssh-keygen -Y sign`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<String>,
}

/// A run of a check.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReceiptCheck {
    pub command: String,
    pub exit_code: Option<i32>,
    pub passed: bool,
    /// It began after the last change of a file.
    pub after_last_change: bool,
}

/// A changed file, with the BLAKE3 hash of its content; `None`: there is none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReceiptFile {
    pub path: String,
    pub before: Option<String>,
    pub after: Option<String>,
}

/// The beginning of a log, up to the last event when the receipt was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogSeal {
    pub bytes: usize,
    pub blake3: String,
    /// The beginnings of the BLAKE3 hashes of the lines, one after the other.
    pub lines: String,
}

/// What a log does not say.
#[derive(Clone, Debug, Default)]
pub struct ReceiptFacts {
    pub files: Vec<ReceiptFile>,
    pub last_change_ms: Option<i64>,
    pub commit: Option<String>,
}

impl Receipt {
    /// The receipt of a log, of which `events` are the events.
    pub fn of(log: &[u8], events: &[Event], facts: ReceiptFacts) -> Self {
        let (mut models, mut permissions, mut decisions) =
            (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        let mut checks = Vec::new();
        let count = |counts: &mut BTreeMap<String, u32>, name: &str| {
            *counts.entry(name.to_owned()).or_default() += 1;
        };
        let mut program = String::new();
        for Event { header, body } in events {
            match body {
                EventBody::SessionStarted(now) | EventBody::SessionResumed { now, .. } => {
                    program.clone_from(&now.program);
                }
                EventBody::ModelRequested(request) => count(&mut models, &request.model),
                EventBody::PermissionDecided { ruling, .. } => count(&mut permissions, ruling),
                EventBody::ControlDecided { decision, .. } => {
                    count(&mut decisions, decision.label());
                }
                EventBody::CheckFinished { command, exit_code, passed, time_ms, .. } => {
                    let ended = parse_milliseconds(&header.ts).unwrap_or_default();
                    let began = ended - i64::try_from(*time_ms).unwrap_or(i64::MAX);
                    checks.push(ReceiptCheck {
                        command: command.clone(),
                        exit_code: *exit_code,
                        passed: *passed,
                        after_last_change: facts.last_change_ms.is_none_or(|last| last <= began),
                    });
                }
                _ => {}
            }
        }
        let turns = turns(events);
        let tasks = live_events(events).into_iter().filter_map(|event| match &event.body {
            EventBody::TurnStarted(message) => Some(message.input.clone()),
            _ => None,
        });
        let time = |event: Option<&Event>| event.map(|it| it.header.ts.clone()).unwrap_or_default();
        Self {
            receipt: FORMAT,
            session: events.first().map(|it| it.header.session.clone()).unwrap_or_default(),
            program,
            started: time(events.first()),
            ended: time(events.last()),
            tasks: tasks.collect(),
            models,
            ending: turns.last().and_then(|turn| Some(turn.finished.as_ref()?.ending)),
            spending: summary(events).spending,
            permissions,
            decisions,
            checks,
            files: facts.files,
            last_change_ms: facts.last_change_ms,
            commit: facts.commit,
            log: LogSeal::of(log),
            signature: None,
        }
    }

    /// The text that is signed: the receipt without its signature.
    pub fn signed_text(&self) -> String {
        let receipt = Self { signature: None, ..self.clone() };
        serde_json::to_string(&receipt).unwrap_or_default() + "\n"
    }

    /// The part of a log that the receipt seals, or where the log differs.
    pub fn sealed_part<'a>(&self, log: &'a [u8]) -> Result<&'a [u8], String> {
        let part = &log[..self.log.bytes.min(log.len())];
        if LogSeal::of(part) == self.log {
            return Ok(part);
        }
        let now = LogSeal::of(part).lines;
        let (before, now) = (chunks(&self.log.lines), chunks(&now));
        let same = before.iter().zip(&now).take_while(|(before, now)| before == now).count();
        let what = match (before.get(same), now.get(same)) {
            (Some(_), None) => "it ends before".to_owned(),
            (Some(line), Some(_)) if !now[same..].contains(line) => "it was changed".to_owned(),
            (Some(_), Some(line)) if before.contains(line) => "the order is another".to_owned(),
            _ => "another line was added before it".to_owned(),
        };
        Err(format!("line {} of the log is not the recorded one: {what}", same + 1))
    }

    /// The first field that does not follow from the log.
    pub fn differing_field(&self, part: &[u8], events: &[Event]) -> Option<String> {
        let facts = ReceiptFacts {
            files: self.files.clone(),
            last_change_ms: self.last_change_ms,
            commit: self.commit.clone(),
        };
        let true_one = Self { signature: self.signature.clone(), ..Self::of(part, events, facts) };
        let [own, true_one] =
            [self, &true_one].map(|it| serde_json::to_value(it).unwrap_or_default());
        let fields = own.as_object()?.iter();
        let mut differing = fields.filter(|(name, value)| true_one.get(name) != Some(value));
        differing.next().map(|(name, _)| name.clone())
    }
}

impl LogSeal {
    fn of(log: &[u8]) -> Self {
        let lines = log.split_inclusive(|byte| *byte == b'\n');
        let hash = |bytes: &[u8]| blake3::hash(bytes).to_hex();
        let lines = lines.map(|line| hash(line)[..LINE_HASH].to_owned()).collect();
        Self { bytes: log.len(), blake3: hash(log).to_string(), lines }
    }
}

fn chunks(lines: &str) -> Vec<&[u8]> {
    lines.as_bytes().chunks(LINE_HASH).collect()
}
