//! What the memory costs: a search among 100,000 items, learning one, reading a project's.
//!
//! `cargo bench --bench memory` prints the table of `docs/BENCHMARKS.md`. `AGENT_ITEMS` sets the number of items.
#![expect(clippy::print_stdout, reason = "it prints its table")]
#![expect(clippy::unwrap_used, reason = "a benchmark may panic")]
#![expect(clippy::cast_precision_loss, reason = "small numbers")]

use std::path::Path;
use std::time::{Duration, Instant};

use code_agent::learning::advisor::Advisor;
use code_agent::learning::item::{Condition, FailurePattern, Fix, Item, Origin, Scope};
use code_agent::learning::store::{Batch, Query, SqliteStore, Store};
use code_agent::protocol::message::ToolCall;
use code_agent::protocol::recall::{Done, ItemKind};
use code_agent::protocol::reflection::Tags;

const NOW: i64 = 1_795_000_000_000;
const N_PROJECTS: u64 = 40;
const DAY: i64 = 86_400_000;

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

fn item(n: u64, random: &mut Random) -> Item {
    let text = sentence(random);
    let kinds = [ItemKind::Rule, ItemKind::Pattern, ItemKind::FailurePattern];
    let scope = match random.below(8) {
        0 => Scope::User,
        _ => Scope::Project(format!("example.com/team/app-{}", n % N_PROJECTS)),
    };
    let age = i64::try_from(random.below(700)).unwrap() * DAY;
    Item {
        id: format!("{n:010x}"),
        scope,
        kind: kinds[random.below(3)],
        text,
        tags: Tags { topic: random.of(THINGS).to_owned(), pattern: None },
        failure: None,
        because: Some(format!("{} {}", random.of(ERRORS), random.name())),
        evidence: vec!["01890a5d-ac96-774b-bcce-b302099a8057".to_owned()],
        origin: Origin::Trace,
        frequency: 1,
        wins: u32::try_from(random.below(5)).unwrap(),
        losses: u32::try_from(random.below(3)).unwrap(),
        created_at_ms: NOW - age,
        last_occurred_ms: NOW - age,
    }
}

/// As people and failures ask: tasks of common words, Chinese, pasted errors, names.
fn queries(random: &mut Random, n: usize) -> Vec<(&'static str, String)> {
    let mut queries = Vec::new();
    for _ in 0..n {
        let task = format!(
            "{} the failing {} and {} the {}",
            random.of(VERBS),
            random.of(THINGS),
            random.of(VERBS),
            random.of(THINGS)
        );
        queries.push(("task", task));
        queries.push(("中文", format!("请帮我{}，注意{}", random.of(CHINESE), random.of(THINGS))));
        let error = format!(
            "error[E0432]: {} `{}`\n --> src/{}.rs:42:5\n  |\n42 | use crate::{};\n  |     ^^^ {} {}",
            random.of(ERRORS),
            random.name(),
            random.of(VERBS),
            random.name(),
            random.of(ERRORS),
            random.of(THINGS)
        );
        queries.push(("error", error));
        queries.push(("name", random.name()));
    }
    queries
}

fn micros(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e6
}

/// Milliseconds that this thread was on a processor: what other work on the machine does not lengthen.
fn on_cpu() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos: f64 = text.split(' ').next().and_then(|n| n.parse().ok()).unwrap_or(0.0);
    nanos / 1e6
}

/// The median and the 99th of a hundred, in milliseconds.
fn spread(mut took: Vec<Duration>) -> (f64, f64) {
    took.sort();
    (micros(took[took.len() / 2]) / 1e3, micros(took[took.len() * 99 / 100]) / 1e3)
}

fn time<T>(work: impl FnOnce() -> T) -> (Duration, T) {
    let started = Instant::now();
    let done = work();
    (started.elapsed(), done)
}

/// What a task without failures pays on the loop's own thread: one look at its start, one behind each call. The peer
/// is what the loop does with those calls in any case, at the very least: each is read as JSON and written again.
fn loop_side(random: &mut Random) {
    const N_CALLS: usize = 20;
    let items = (0..5_000).map(|n| {
        let item = item(n, random);
        let failure = (n % 2 == 0).then(|| FailurePattern {
            skill: "Bash test".to_owned(),
            condition: "it is run".to_owned(),
            error_type: "dependency_error".to_owned(),
            suggested_fix: None,
            when: Condition {
                tool: "Bash".to_owned(),
                command_head: Some(random.of(COMMANDS).to_owned()),
                signature: Some(random.of(ERRORS).to_owned()),
                ..Condition::default()
            },
            fix: Some(Fix::Prefix { with: "LC_ALL=C ".to_owned() }),
            led_by: Vec::new(),
        });
        Item { failure, ..item }
    });
    let advisor = Advisor::new(items.collect());
    let tasks = queries(random, 50);
    // Commands, looks at files that lead to some, changes of sources.
    let calls: Vec<(ToolCall, &[&str])> = (0..N_CALLS)
        .map(|n| {
            let (name, argument, paths): (_, _, &[&str]) = match n % 4 {
                0 => ("Read", "package.json".to_owned(), &["package.json"]),
                1 => ("Edit", "src/a.py".to_owned(), &["src/a.py"]),
                _ => ("Bash", format!("{} --part {n}", random.of(COMMANDS)), &[]),
            };
            let key = if paths.is_empty() { "command" } else { "path" };
            let arguments = format!("{{\"{key}\": \"{argument}\"}}");
            (ToolCall { id: format!("c{n}"), name: name.to_owned(), arguments }, paths)
        })
        .collect();
    let (mut started, mut called, mut peer) = (Vec::new(), Vec::new(), Vec::new());
    for (_, task) in &tasks {
        started.push(time(|| std::hint::black_box(advisor.for_task(task, 400, "s", &|_| true))).0);
        let before = |(call, paths): &(ToolCall, &[&str])| {
            let done = Done { call, paths, changes: call.name == "Edit", task };
            std::hint::black_box(advisor.before(&done, "s", &|_, _| false));
        };
        called.push(time(|| calls.iter().for_each(before)).0);
        let read = |(call, _): &(ToolCall, &[&str])| {
            let value: serde_json::Value = serde_json::from_str(&call.arguments).unwrap();
            std::hint::black_box(value.to_string());
        };
        peer.push(time(|| calls.iter().for_each(read)).0);
    }
    let [(start, start_p99), (call, call_p99), (peer, _)] = [started, called, peer].map(spread);
    println!(
        "5,000 items, at a task's start              p50 {start:>7.3} ms   p99 {start_p99:>6.3} ms"
    );
    println!(
        "5,000 items, behind {N_CALLS} calls                p50 {call:>7.3} ms   p99 {call_p99:>6.3} ms"
    );
    println!("both, to reading those calls as JSON (peer)   ratio {:>6.1}", (start + call) / peer);
}

fn main() {
    let n_items: u64 =
        std::env::var("AGENT_ITEMS").ok().and_then(|n| n.parse().ok()).unwrap_or(100_000);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("memory.db");
    let mut random = Random(0x2545_F491_4F6C_DD1D);
    let items: Vec<Item> = (0..n_items).map(|n| item(n, &mut random)).collect();
    let mut store = open(&path);
    let (took, _) = time(|| store.import(&items).unwrap());
    let bytes = std::fs::metadata(&path).unwrap().len()
        + std::fs::metadata(path.with_extension("db-wal")).map_or(0, |wal| wal.len());
    println!(
        "{n_items} items in {N_PROJECTS} projects, {:.1} MiB, written in {:.1} s",
        bytes as f64 / 1_048_576.0,
        took.as_secs_f64()
    );
    drop(store);

    let queries = queries(&mut random, 250);
    let ask = |text: &str, project: Option<&str>| Query {
        text: text.to_owned(),
        project: project.map(str::to_owned),
        limit: 5,
        now_ms: NOW,
        ..Query::default()
    };
    let (took, n) = time(|| open(&path).search(&ask("run the failing tests", None)).unwrap().len());
    println!("open, and the first search             {:>9.2} ms ({n} found)", micros(took) / 1e3);
    let mut store = open(&path);
    let home = "example.com/team/app-7";
    for (of, project) in [("all projects", None), ("one project and the user's", Some(home))] {
        for kind in ["task", "中文", "error", "name"] {
            let took = queries
                .iter()
                .filter(|(k, _)| *k == kind)
                .map(|(_, text)| time(|| store.search(&ask(text, project)).unwrap()).0);
            let (p50, p99) = spread(took.collect());
            println!("search {of:<27} {kind:<6} p50 {p50:>6.2} ms   p99 {p99:>6.2} ms");
        }
        let before = on_cpu();
        let took =
            queries.iter().map(|(_, text)| time(|| store.search(&ask(text, project)).unwrap()).0);
        let (p50, p99) = spread(took.collect());
        let mean = (on_cpu() - before) / queries.len() as f64;
        println!("search {of:<27} all    p50 {p50:>6.2} ms   p99 {p99:>6.2} ms   CPU {mean:.2} ms");
    }
    // What does without an index: each text is looked at for one word.
    let db = rusqlite::Connection::open(&path).unwrap();
    let mut like = db.prepare("SELECT count(*) FROM bodies WHERE body LIKE ?1").unwrap();
    let took = queries.iter().take(40).map(|(_, text)| {
        let word = format!("%{}%", text.split_whitespace().last().unwrap());
        time(|| like.query_row([word], |row| row.get::<_, i64>(0)).unwrap()).0
    });
    let (p50, p99) = spread(took.collect());
    println!("LIKE for one word (peer)                      p50 {p50:>6.2} ms   p99 {p99:>6.2} ms");

    let (took, items) = time(|| store.items(&[Scope::Project(home.to_owned())]).unwrap());
    println!("read a project's {} items           {:>9.2} ms", items.len(), micros(took) / 1e3);
    let took = (0..200).map(|n| {
        let mut item = item(n_items + n, &mut random);
        item.id = format!("new{n}");
        let batch =
            Batch { session: format!("s{n}"), seq: 1, items: vec![item], ..Batch::default() };
        time(|| store.commit(&batch).unwrap()).0
    });
    let (p50, p99) = spread(took.collect());
    println!("commit of one item, with its near ones        p50 {p50:>6.2} ms   p99 {p99:>6.2} ms");
    loop_side(&mut random);
}

fn open(path: &Path) -> SqliteStore {
    SqliteStore::new(path.to_path_buf(), |line| panic!("{line}"))
}
