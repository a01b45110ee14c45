//! What the record costs: an event appended, a session of 20,000 events read back and taken up again.
//!
//! `cargo bench --bench record` prints the table of `docs/BENCHMARKS.md`. `AGENT_EVENTS` sets the number of events.
#![expect(clippy::print_stdout, reason = "it prints its table")]
#![expect(clippy::unwrap_used, reason = "a benchmark may panic")]
#![expect(clippy::disallowed_methods, reason = "it starts the binary and waits for it")]

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use agent_engine::context::History;
use agent_protocol::control::{ControlDecision, Count, Counters, PermissionMode};
use agent_protocol::envelope::{Envelope, ResultContext, Verdict};
use agent_protocol::event::{
    Caller, Clock, EventBody, EventStream, ModelRequested, ModelResponded, SandboxStatus,
    SessionStarted, UserMessage, WorkPosition,
};
use agent_protocol::mask::Masker;
use agent_protocol::message::ToolCall;
use agent_protocol::model::{Purpose, StopReason, Usage};
use agent_protocol::tool::Effect;
use agent_record::Log;
use serde_json::{Map, json};

const SESSION: &str = "01890a5d-ac96-774b-bcce-b302099a8057";
const ROUNDS_A_TURN: u32 = 20;

struct SystemClock;

impl Clock for SystemClock {
    fn timestamp(&self) -> String {
        format!("{:.3}", jiff::Timestamp::now())
    }

    fn now(&self) -> Instant {
        Instant::now()
    }
}

fn main() {
    // Started by itself: what a loaded session takes, in a process that has done nothing else.
    if let Some(log) = std::env::var_os("AGENT_BENCH_LOAD") {
        let loaded = agent_record::load_session(Path::new(&log)).unwrap();
        println!("{} {:.1}", loaded.events.len(), peak_mib());
        return;
    }
    let wanted: u64 =
        std::env::var("AGENT_EVENTS").ok().and_then(|n| n.parse().ok()).unwrap_or(20_000);
    let dir = tempfile::tempdir().unwrap();
    let project = dir.path().join("project");
    std::fs::create_dir_all(dir.path().join("home")).unwrap();
    std::fs::create_dir_all(&project).unwrap();
    let sessions = sessions(&dir.path().join("home"), &project.canonicalize().unwrap());
    let log = sessions.join(SESSION).join("events.jsonl");
    let (n, append) = write_session(&project, &log, wanted);
    let bytes = std::fs::metadata(&log).unwrap().len();
    #[expect(clippy::cast_precision_loss, reason = "small numbers")]
    let (mib, each) = (bytes as f64 / 1_048_576.0, micros(append) / n as f64);
    println!("a session of {n} events, {mib:.1} MiB");
    println!("append, with its mask, an event        {each:>9.1} µs");

    let load = median(9, || {
        std::hint::black_box(agent_record::load_session(&log).unwrap());
    });
    println!("load                                   {:>9.1} ms", micros(load) / 1e3);
    let half = dir.path().join("half.jsonl");
    let text = std::fs::read_to_string(&log).unwrap();
    let lines = text.split_inclusive('\n').take((n / 2) as usize);
    std::fs::write(&half, lines.collect::<String>()).unwrap();
    for log in [&half, &log] {
        let mut itself = Command::new(std::env::current_exe().unwrap());
        let output = itself.env("AGENT_BENCH_LOAD", log).output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        let (n, mib) = said.trim().split_once(' ').unwrap();
        println!("peak memory of loading {n:<8} events  {mib:>9} MiB");
    }
    let fold = median(9, || {
        let loaded = agent_record::load_session(&log).unwrap();
        let mut history = History::default();
        for event in &loaded.events {
            history.apply(event);
        }
        std::hint::black_box((
            history.messages().len(),
            agent_record::unanswered_calls(&loaded.events),
        ));
    });
    println!("load, and fold the conversation        {:>9.1} ms", micros(fold) / 1e3);

    std::fs::write(dir.path().join("script"), "text: ok\n").unwrap();
    let agent = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_agent"));
        command
            .args(args)
            .current_dir(&project)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", dir.path().join("home"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        assert!(command.status().unwrap().success(), "{args:?}");
    };
    let run = ["run", "task", "--model", "script:../script", "--set", "sandbox.enabled=false"];
    let fresh = median(9, || agent(&[&run[..], &["--ephemeral"]].concat()));
    let resumed = median(9, || agent(&[&run[..], &["--resume", SESSION]].concat()));
    println!("a run that starts afresh               {:>9.1} ms", micros(fresh) / 1e3);
    println!("a run that takes the session up        {:>9.1} ms", micros(resumed) / 1e3);
    let list = median(9, || agent(&["session", "list"]));
    println!("session list, this one                 {:>9.1} ms", micros(list) / 1e3);
    let text = std::fs::read(&log).unwrap();
    for n in 0..300 {
        let folder = sessions.join(uuid::Uuid::from_u128(n).to_string());
        std::fs::create_dir_all(&folder).unwrap();
        // The ends of a log that was closed: what a list reads.
        let head = text.split_inclusive(|byte| *byte == b'\n').take(200).flatten();
        let tail = text.rsplitn(4, |byte| *byte == b'\n').collect::<Vec<_>>().into_iter().rev();
        let tail: Vec<u8> = tail.skip(1).flat_map(|line| [line, b"\n"].concat()).collect();
        let log: Vec<u8> = head.copied().chain(tail).collect();
        std::fs::write(folder.join("events.jsonl"), log).unwrap();
    }
    let list = median(9, || agent(&["session", "list"]));
    println!("session list, and 300 others           {:>9.1} ms", micros(list) / 1e3);
}

/// Where the sessions of a project are recorded.
fn sessions(home: &Path, project: &Path) -> std::path::PathBuf {
    let hash = blake3::hash(project.as_os_str().as_encoded_bytes()).to_hex();
    home.join(".local/state/agent/projects").join(format!("project-{}/sessions", &hash[..16]))
}

fn peak_mib() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib: f64 = peak.and_then(|p| p.split_whitespace().next()?.parse().ok()).unwrap_or(0.0);
    kib / 1024.0
}

fn micros(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e6
}

fn median(runs: usize, mut work: impl FnMut()) -> Duration {
    let mut took: Vec<Duration> = (0..runs)
        .map(|_| {
            let started = Instant::now();
            work();
            started.elapsed()
        })
        .collect();
    took.sort();
    took[took.len() / 2]
}

/// Records a session as the kernel would, and says how many events it has and how long that took.
fn write_session(project: &Path, log: &Path, wanted: u64) -> (u64, Duration) {
    let sink = Box::new(Log::create(log).unwrap());
    let environment = [("MY_API_KEY".to_owned(), "sk-live-0123456789abcdef".to_owned())];
    let masker = Arc::new(Masker::new(environment, &[]).unwrap());
    let events = EventStream::new(SESSION.to_owned(), 0, Arc::new(SystemClock), masker, vec![sink]);
    // What is recorded is made beforehand: only the record is measured.
    let bodies: Vec<(WorkPosition, EventBody)> = session(project, wanted);
    let n = bodies.len() as u64;
    let started = Instant::now();
    for (place, body) in bodies {
        events.set_position(place);
        events.emit(body);
    }
    (n, started.elapsed())
}

fn session(project: &Path, wanted: u64) -> Vec<(WorkPosition, EventBody)> {
    let mut bodies = vec![(WorkPosition::default(), started(project))];
    let mut turn = 0;
    let mut n = 0;
    while (bodies.len() as u64) < wanted {
        turn += 1;
        bodies.push((
            WorkPosition { turn, round: 0, step: 0 },
            EventBody::TurnStarted(UserMessage {
                input: format!("task number {turn}: find out why it fails"),
                ..UserMessage::default()
            }),
        ));
        for round in 1..=ROUNDS_A_TURN {
            let place = WorkPosition { turn, round, step: 0 };
            n += 1;
            bodies.extend(self::round(n).into_iter().map(|body| (place, body)));
        }
    }
    bodies
}

fn started(project: &Path) -> EventBody {
    EventBody::SessionStarted(SessionStarted {
        cwd: project.display().to_string(),
        model: "script:../script".to_owned(),
        permission_mode: PermissionMode::AutoEdit,
        tools: vec!["Read".to_owned()],
        mcp_servers: Vec::new(),
        sandbox: SandboxStatus::none(),
        program: "0".to_owned(),
        place: String::new(),
        settings: serde_json::Map::new(),
    })
}

/// A reading of 40 to 160 lines, and what the kernel says of it.
fn round(n: u32) -> Vec<EventBody> {
    let id = format!("call_{n}");
    let path = format!("src/module_{}.rs", n % 50);
    let input = Map::from_iter([("path".to_owned(), json!(path))]);
    let lines = 40 + n % 5 * 30;
    let content: String = (0..lines)
        .map(|line| format!("{:>6}  let value_{line} = \"quoted\\tand {n}\";\n", line + 1))
        .collect();
    let envelope = Envelope {
        verdict: Verdict::Success,
        data: Map::from_iter([
            ("content".to_owned(), json!(content)),
            ("truncated".to_owned(), json!(false)),
        ]),
        text: format!("Read {lines} lines of {path}."),
        stats: Map::from_iter([
            ("time_ms".to_owned(), json!(1)),
            ("file_mtime_ms".to_owned(), json!(1_795_264_226_623_u64)),
            ("file_size_bytes".to_owned(), json!(4096)),
        ]),
        context: ResultContext {
            cwd: ".".to_owned(),
            params_input: input.clone(),
            path_resolved: Some(path.clone()),
        },
    };
    let count = Count { n: 0, max: 3 };
    let counters = Counters {
        retry_count: count,
        single_step_repair_count: count,
        task_replan_count: count,
        consecutive_failures: 0,
        unvaried_failures: count,
        reflections: count,
    };
    vec![
        EventBody::ModelRequested(ModelRequested {
            purpose: Purpose::Main,
            model: "script:../script".to_owned(),
            effort: None,
            messages: n as usize,
            bytes: 10_000,
            estimated_tokens: 2_500,
            window: Some(200_000),
            max_output_tokens: Some(32_000),
            window_source: None,
            compacts_at: None,
            shared_bytes: 9_000,
            layers: std::collections::BTreeMap::new(),
            texts: std::collections::BTreeMap::new(),
            question: None,
        }),
        EventBody::ModelResponded(ModelResponded {
            purpose: Purpose::Main,
            text: "I look at the module that the message names.".to_owned(),
            reasoning: String::new(),
            carried: Vec::new(),
            calls: vec![ToolCall {
                id: id.clone(),
                name: "Read".to_owned(),
                arguments: json!(input).to_string(),
            }],
            usage: Some(Usage {
                input_tokens: 2_500,
                output_tokens: 40,
                cached_tokens: 2_000,
                ..Usage::default()
            }),
            estimate: None,
            cost_usd: Some(0.001),
            stop: StopReason::ToolCalls,
            time_ms: 900,
            discarded: false,
        }),
        EventBody::ToolStarted {
            call: id.clone(),
            tool: "Read".to_owned(),
            input,
            effect: Effect::Read { path },
            by: Caller::Model,
            parent_call: None,
            changed_by: None,
        },
        EventBody::ToolFinished {
            call: id,
            tool: "Read".to_owned(),
            envelope: envelope.into(),
            synthetic: false,
            by: Caller::Model,
            parent_call: None,
        },
        EventBody::Evaluation { step_success: true, failure: None },
        EventBody::ControlDecided {
            decision: ControlDecision::Continue,
            reason: "nothing failed".to_owned(),
            before: counters,
            after: counters,
            evidence: 1,
        },
    ]
}
