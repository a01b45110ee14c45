//! What the memory costs: recall from 10,000 lessons, what a turn leaves, and what a turn without failures pays.
//!
//! `cargo bench --bench memory` prints the table of `docs/BENCHMARKS.md`. `AGENT_LESSONS` sets the number of lessons.
#![expect(clippy::print_stdout, reason = "it prints its table")]
#![expect(clippy::unwrap_used, reason = "a benchmark may panic")]
#![expect(clippy::cast_precision_loss, reason = "small numbers")]
#![expect(clippy::disallowed_methods, reason = "it starts the binary and waits for it")]

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use agent_learning::credit::compute_credits;
use agent_learning::distillation;
use agent_learning::lesson::{FailurePattern, Lesson, Origin, Scope};
use agent_learning::pair::lessons_from_failures;
use agent_learning::recall;
use agent_learning::store::{Batch, SqliteStore, Store as _};
use agent_learning::trace_builder::{TraceBuilder, TurnRecord};
use agent_protocol::Object;
use agent_protocol::envelope::{ErrorCode, SealedEnvelope};
use agent_protocol::event::{Event, EventBody};
use agent_protocol::message::ToolCall;
use agent_protocol::recall::{FailedCall, LessonKind};
use agent_protocol::tool::Effect;
use serde_json::json;

const NOW: i64 = 1_795_000_000_000;
/// As many as a project has over the years, and a few others.
const N_PROJECTS: u64 = 4;
const HERE: &str = "example.com/team/app-1";
const DAY: i64 = 86_400_000;

fn here() -> [Scope; 1] {
    [Scope::Project(HERE.to_owned())]
}

const VERBS: &[&str] = &[
    "run",
    "call",
    "read",
    "edit",
    "start",
    "install",
    "format",
    "check",
    "build",
    "migrate",
    "set",
    "pass",
    "use",
    "open",
    "restart",
    "regenerate",
    "pin",
    "export",
    "lint",
    "mock",
];
const THINGS: &[&str] = &[
    "tests",
    "server",
    "database",
    "config",
    "build",
    "linter",
    "lock file",
    "schema",
    "fixture",
    "snapshot",
    "cache",
    "token",
    "port",
    "migration",
    "container",
    "module",
    "package",
    "script",
    "environment",
    "generated file",
    "documentation",
    "release",
    "parser",
    "router",
    "queue",
];
const COMMANDS: &[&str] = &[
    "pytest",
    "python3 -m pytest",
    "npm test",
    "npm run build",
    "cargo test",
    "make check",
    "go test ./...",
    "docker compose up",
    "tox",
    "jest --runInBand",
    "pnpm lint",
    "gradle test",
    "mvn -q verify",
    "bundle exec rspec",
    "poetry run pytest",
    "alembic upgrade head",
    "cmake --build .",
    "terraform plan",
    "ruff check",
    "mypy src",
];
const WHENS: &[&str] = &[
    "before a commit",
    "before the tests",
    "after a change of the schema",
    "when it is not installed here",
    "when the port is in use",
    "in this project",
    "if the lock file is stale",
    "when the module is missing",
    "because the working folder is another",
    "since the option has another name",
];
const ERRORS: &[&str] = &[
    "command not found",
    "no module named",
    "cannot find module",
    "permission denied",
    "connection refused",
    "no such file or directory",
    "address already in use",
    "mismatched types",
    "unresolved import",
    "undefined reference to",
    "unexpected token in",
    "failed to resolve",
    "version conflict of",
    "timed out waiting for",
];
const CHINESE: &[&str] = &[
    "运行测试之前先启动数据库",
    "修改配置文件后需要重新构建",
    "提交之前先格式化代码",
    "依赖缺失时先安装依赖",
    "生成的文件不要直接修改",
    "端口被占用时换一个端口",
    "路径已经移动到新的目录",
    "接口参数名称已经改变",
    "在子目录中执行脚本",
    "迁移数据库之后再运行服务",
];

/// Numbers that look like chance and are the same each time.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % n as u64).unwrap()
    }

    fn of<'a>(&mut self, words: &[&'a str]) -> &'a str {
        words[self.below(words.len())]
    }

    /// A name as programs have them: some stand in many items, most in few.
    fn name(&mut self) -> String {
        let n = self.below(40).pow(2) * self.below(12);
        match n % 4 {
            0 => format!("{}_{}_{n}", self.of(VERBS), self.of(THINGS).replace(' ', "_")),
            1 => format!("src/{}/{}{n}.rs", self.of(THINGS).replace(' ', "_"), self.of(VERBS)),
            2 => {
                let (one, other) = (self.of(VERBS), self.of(THINGS).replace(' ', ""));
                format!("{one}{}{}{n}", other[..1].to_uppercase(), &other[1..])
            }
            _ => format!("E{:04}", n % 1000),
        }
    }
}

fn sentence(random: &mut Random) -> String {
    match random.below(6) {
        0 => format!(
            "{}，使用 `{}`，涉及 {}",
            random.of(CHINESE),
            random.of(COMMANDS),
            random.name()
        ),
        1 => format!("{}，然后{}：{}", random.of(CHINESE), random.of(CHINESE), random.name()),
        2 => format!(
            "Run `{}`, not `{}`: {} {}.",
            random.of(COMMANDS),
            random.of(COMMANDS),
            random.of(ERRORS),
            random.name()
        ),
        _ => format!(
            "{} the {} of {} with `{}` {}.",
            random.of(VERBS),
            random.of(THINGS),
            random.name(),
            random.of(COMMANDS),
            random.of(WHENS)
        ),
    }
}

fn lesson(n: u64, random: &mut Random) -> Lesson {
    let (program, said) = (random.of(COMMANDS).to_owned(), random.of(ERRORS).to_owned());
    let input = Object::from_iter([("command".to_owned(), program.as_str().into())]);
    let failure = (!n.is_multiple_of(3)).then(|| FailurePattern {
        skill: "Bash".to_owned(),
        condition: said.clone(),
        error_type: "environment_error".to_owned(),
        tool: "Bash".to_owned(),
        target: program.split(' ').next().unwrap_or_default().to_owned(),
        code: ErrorCode::CommandFailed,
        signature: said.clone(),
        fix: Some(input.clone()),
        input,
        is_same_call: false,
        is_prepared: false,
        is_related_by_one_word: false,
        subjects: Vec::new(),
        new_words: vec!["--fast".to_owned()],
    });
    let scope = match random.below(8) {
        0 => Scope::User,
        _ => Scope::Project(format!("example.com/team/app-{}", n % N_PROJECTS)),
    };
    let age = i64::try_from(random.below(700)).unwrap() * DAY;
    Lesson {
        id: format!("{n:010x}"),
        context: sentence(random),
        failure,
        helped: u32::try_from(random.below(5)).unwrap(),
        hurt: u32::try_from(random.below(3)).unwrap(),
        ..Lesson::new(scope, LessonKind::FailurePattern, sentence(random), Origin::Pair, NOW - age)
    }
}

/// As people ask: tasks of common words, Chinese, pasted errors, names.
fn tasks(random: &mut Random, n: usize) -> Vec<String> {
    let task = |n: usize| match n % 4 {
        0 => {
            let (verb, thing) = (random.of(VERBS), random.of(THINGS));
            format!("{verb} the failing {thing} and {} the {}", random.of(VERBS), random.of(THINGS))
        }
        1 => format!("请帮我{}，注意{}", random.of(CHINESE), random.of(THINGS)),
        2 => format!(
            "error[E0432]: {} `{}`\n --> src/{}.rs:42:5\n  |\n42 | use crate::{};\n  |     ^^^ {} {}",
            random.of(ERRORS),
            random.name(),
            random.of(VERBS),
            random.name(),
            random.of(ERRORS),
            random.of(THINGS)
        ),
        _ => random.name(),
    };
    (0..n).map(task).collect()
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

/// Milliseconds that this thread was on a processor: what other work on the machine does not lengthen.
fn on_cpu() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos: f64 = text.split(' ').next().and_then(|n| n.parse().ok()).unwrap_or(0.0);
    nanos / 1e6
}

fn time<T>(work: impl FnOnce() -> T) -> (Duration, T) {
    let started = Instant::now();
    let done = work();
    (started.elapsed(), done)
}

/// Does this so often: the median, the 99th of a hundred and the processor's part of each, in milliseconds.
fn measure(what: &str, n: usize, goal: &str, mut work: impl FnMut(usize)) {
    let before = on_cpu();
    let mut took: Vec<Duration> = (0..n).map(|n| time(|| work(n)).0).collect();
    let cpu = (on_cpu() - before) / n as f64;
    took.sort();
    let (p50, p99) = (millis(took[n / 2]), millis(took[n * 99 / 100]));
    println!("{what:<46} p50 {p50:>6.2} ms   p99 {p99:>6.2} ms   CPU {cpu:>5.2} ms{goal}");
}

/// The events of a session of the binary that makes these calls.
fn session(dir: &Path, calls: &[serde_json::Value]) -> Vec<Event> {
    let project = dir.join("project");
    std::fs::create_dir_all(&project).unwrap();
    std::fs::write(project.join("a.txt"), "a line\n".repeat(50)).unwrap();
    let turns = calls.iter().map(|call| {
        let (name, input) = (call[0].as_str().unwrap(), &call[1]);
        format!("call: {name} {input}\n---\n")
    });
    std::fs::write(dir.join("script"), turns.collect::<String>() + "text: done\n").unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_agent"));
    command.args(["run", "look at it", "--model", "script:../script", "--output-format", "events"]);
    command.args(["--no-memory", "--allow", "Bash", "--max-turns", "100"]);
    command.current_dir(&project).env_clear().env("HOME", dir);
    command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
    let output = command.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// A failed call, what it would touch, and its result.
type Failure = (ToolCall, Effect, SealedEnvelope);

/// Makes this command fail: in a folder that has nothing for it.
fn fail(dir: &Path, command: &str) -> Failure {
    let command = format!("{command} --no-such-option");
    let events = session(dir, &[json!(["Bash", {"command": command}])]);
    let mut made = None;
    for event in events {
        match event.body {
            EventBody::ToolStarted { call, tool, input, effect, .. } => {
                let arguments = serde_json::to_string(&input).unwrap();
                made = Some((ToolCall { id: call, name: tool, arguments }, effect));
            }
            EventBody::ToolFinished { envelope, .. } => {
                let (call, effect) = made.unwrap();
                assert!(envelope.error().is_some(), "{command} did not fail");
                return (call, effect, envelope);
            }
            _ => {}
        }
    }
    panic!("{command} was not called");
}

/// What a turn teaches.
fn batch(harvest: &TurnRecord) -> Batch {
    std::hint::black_box(distillation::distillation_request(harvest));
    let (traces, lessons) = (harvest.traces.clone(), lessons_from_failures(harvest, |_, _| true));
    Batch { traces, lessons, credits: compute_credits(harvest, &[]), ..Batch::default() }
}

/// The record of each turn of a session.
fn build_turn_records(project: &str, events: &[Event]) -> Vec<TurnRecord> {
    let mut builder = TraceBuilder::new(project);
    let mut records: Vec<TurnRecord> =
        events.iter().filter_map(|event| builder.apply(event)).collect();
    records.extend(builder.finish_turn());
    records
}

fn main() {
    let n_lessons: u64 =
        std::env::var("AGENT_LESSONS").ok().and_then(|n| n.parse().ok()).unwrap_or(10_000);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("memory.db");
    let open = || SqliteStore::new(path.clone(), |line| panic!("{line}"));
    let mut random = Random(0x2545_F491_4F6C_DD1D);
    let lessons: Vec<Lesson> = (0..n_lessons).map(|n| lesson(n, &mut random)).collect();
    let first = Batch { lessons, ..Batch::default() };
    let (took, _) = time(|| open().commit(&first).unwrap());
    let bytes = std::fs::metadata(&path).unwrap().len();
    println!(
        "{n_lessons} lessons in {N_PROJECTS} projects, {:.1} MiB, written in {:.1} s",
        bytes as f64 / 1_048_576.0,
        took.as_secs_f64()
    );
    let tasks = tasks(&mut random, 400);
    let (took, n) =
        time(|| recall::lessons_for_task(&open(), &here(), (&tasks[0], &[]), 400).unwrap().len());
    println!(
        "open, and the first recall                     {:>10.2} ms ({n} lessons)",
        millis(took)
    );
    let store = open();
    measure("recall for a task", 400, "   (goal 5)", |n| {
        std::hint::black_box(
            recall::lessons_for_task(&store, &here(), (&tasks[n], &[]), 400).unwrap(),
        );
    });
    let failures: Vec<Failure> = COMMANDS.iter().map(|command| fail(dir.path(), command)).collect();
    let failed = |n: usize| {
        let (call, effect, envelope) = &failures[n % failures.len()];
        FailedCall { call, effect: Some(effect), envelope }
    };
    measure("recall after a failure", 400, "   (goal 5)", |n| {
        std::hint::black_box(recall::find_remedy(&store, &here(), &failed(n)).unwrap());
    });
    measure("recall for a reflection", 400, "", |n| {
        std::hint::black_box(recall::similar_lessons(&store, &here(), &failed(n)).unwrap());
    });

    let look = |n: usize| match n % 3 {
        0 => json!(["Read", {"path": "a.txt", "offset": n + 1}]),
        1 => json!(["Grep", {"pattern": format!("line {n}")}]),
        _ => json!(["Bash", {"command": format!("echo {n}")}]),
    };
    let well = session(dir.path(), &(0..20).map(look).collect::<Vec<_>>());
    let found = build_turn_records(HERE, &well);
    let n_calls: Vec<usize> = found.iter().map(|it| it.calls.len()).collect();
    assert!(found.iter().all(|it| it.chains.is_empty()) && n_calls == [20], "{n_calls:?}");
    let mut at = 0_u64;
    let mut anew = |harvest: &mut TurnRecord| {
        at += 1;
        for trace in &mut harvest.traces {
            trace.id = format!("{}-{at}", trace.id);
        }
    };
    measure("a turn of 20 calls without failures: the fold", 200, "   (goal 1)", |_| {
        for harvest in &build_turn_records(HERE, &well) {
            std::hint::black_box(batch(harvest));
        }
    });
    let found = build_turn_records(HERE, &well).remove(0);
    measure("  its commit", 200, "", |_| {
        let mut harvest = found.clone();
        anew(&mut harvest);
        store.commit(&batch(&harvest)).unwrap();
    });
    let wrong = session(
        dir.path(),
        &[json!(["Bash", {"command": "cat b.txt"}]), json!(["Bash", {"command": "cat a.txt"}])],
    );
    let found = build_turn_records(HERE, &wrong).remove(0);
    assert_eq!(lessons_from_failures(&found, |_, _| true).len(), 1);
    measure("commit of a turn that teaches a lesson", 200, "", |_| {
        let mut harvest = found.clone();
        anew(&mut harvest);
        store.commit(&batch(&harvest)).unwrap();
    });
}
