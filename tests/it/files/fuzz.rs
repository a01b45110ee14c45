//! Any JSON input gets an envelope: no panic, no missing answer, no access outside the root.
//! `cargo test --test it fuzz -- --ignored` runs it for a few seconds; set `AGENT_FUZZ_SECONDS=600` to run
//! longer and `AGENT_FUZZ_SEED` to reproduce a run.

use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use serde_json::{Map, Value, json};

use crate::support::batch::Project;
use crate::support::{Test, say};

/// Content of every file outside the root; must not appear in any answer.
const OUTSIDE: &str = "7c1e-what-lies-outside-4f0b";
/// The project is recreated after this number of calls.
const CALLS: usize = 400;

#[test]
#[ignore = "slow"]
fn any_json_gets_an_envelope() {
    let variable = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let time = Duration::from_secs(variable("AGENT_FUZZ_SECONDS").unwrap_or(4));
    let seed = variable("AGENT_FUZZ_SEED")
        .or_else(|| variable("AGENT_FUZZ_SECONDS").map(|_| u64::from(std::process::id())))
        .unwrap_or(1);
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let lines = line();
    let begin = Instant::now();
    let mut n_calls = 0;
    let mut codes = std::collections::BTreeMap::<String, u64>::new();
    while begin.elapsed() < time {
        let (outside, mut project) = world();
        let before = contents(&outside);
        let _dog = Watchdog::of(project.batch.id());
        for _ in 0..CALLS {
            if begin.elapsed() > time {
                break;
            }
            let line = lines.new_tree(&mut runner).unwrap().current();
            let shown = || format!("seed {seed}: {}", String::from_utf8_lossy(&line));
            project.batch.send_line(&line);
            project.batch.send_line(b"\n");
            let envelope =
                project.batch.answer().unwrap_or_else(|| panic!("no answer, {}", shown()));
            if let Some(wrong) = wrong(&envelope) {
                panic!("{wrong}, {}: {envelope}", shown());
            }
            let code = envelope["error"]["code"].as_str().or(envelope["status"].as_str());
            *codes.entry(code.unwrap_or_default().to_owned()).or_default() += 1;
            n_calls += 1;
        }
        let code = project.batch.end();
        assert!([Some(0), Some(2)].contains(&code), "seed {seed}: it ended with {code:?}");
        assert_eq!(contents(&outside), before, "seed {seed}: something outside was changed");
    }
    assert!(codes["success"] * 20 > n_calls, "hardly any call is good: {codes:?}");
    if variable("AGENT_FUZZ_SECONDS").is_some() {
        say(&format!("fuzz: {n_calls} calls, seed {seed}: {codes:?}"));
    }
}

/// The first way in which an envelope violates its format.
fn wrong(envelope: &Value) -> Option<&'static str> {
    let fields: Vec<&str> = envelope.as_object()?.keys().map(String::as_str).collect();
    let is_error = envelope["status"] == "error";
    let expected: &[&str] = if is_error {
        &["status", "error", "data", "text", "stats", "context"]
    } else {
        &["status", "data", "text", "stats", "context"]
    };
    let statuses = ["success", "partial", "error"];
    if fields != expected || !statuses.contains(&envelope["status"].as_str()?) {
        return Some("no envelope");
    }
    if ["INTERNAL_ERROR", "EXECUTION_ERROR"]
        .contains(&envelope["error"]["code"].as_str().unwrap_or(""))
    {
        return Some("it failed by itself");
    }
    if envelope["text"].as_str()?.is_empty() {
        return Some("it says nothing");
    }
    envelope.to_string().contains(OUTSIDE).then_some("something outside was read")
}

/// A project with various files, and a directory outside of it.
fn world() -> (Test, Project) {
    let outside = Test::new().file("secret.txt", OUTSIDE).file(&format!("{OUTSIDE}/x"), OUTSIDE);
    let test = Test::in_memory()
        .file("a.txt", "one\ntwo\nthree\n")
        .file("b/c.rs", "fn main() {\r\n\tprint(\"x\");\r\n}\r\n")
        .file("b/d e.md", "x\n".repeat(3000))
        .file("bom", b"\xEF\xBB\xBFone\n")
        .file("wide", b"\xFF\xFEo\0n\0e\0\n\0")
        .file("latin", b"caf\xE9 one\n")
        .file("binary", b"one\0two")
        .file("empty", "")
        .file("long", "one ".repeat(100_000))
        .file("readonly", "one\n")
        .file(".gitignore", "ignored\n")
        .file("ignored/x", "one\n")
        .file(".git/config", "one\n")
        .file("../home/x", OUTSIDE);
    let at = |path: &str| test.root().join(path);
    fs::write(test.root().join(std::ffi::OsStr::from_bytes(b"raw\xFF\n")), "one\n").unwrap();
    fs::set_permissions(at("readonly"), fs::Permissions::from_mode(0o444)).unwrap();
    for (target, link) in [
        (outside.root().join("secret.txt"), "out"),
        (outside.root(), "outdir"),
        ("../../..".into(), "b/up"),
        ("loop".into(), "loop"),
        ("nowhere".into(), "dangling"),
        ("b".into(), "in"),
    ] {
        symlink(target, at(link)).unwrap();
    }
    rustix::fs::mkfifoat(rustix::fs::CWD, at("pipe"), rustix::fs::Mode::RWXU).unwrap();
    (outside, Project::of(test))
}

/// Every file below the root, with bytes and mode.
fn contents(test: &Test) -> Vec<(std::path::PathBuf, Vec<u8>, u32)> {
    fn add(folder: &Path, all: &mut Vec<(std::path::PathBuf, Vec<u8>, u32)>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                add(&path, all);
            } else {
                let mode = path.metadata().unwrap().permissions().mode();
                all.push((path.clone(), fs::read(&path).unwrap(), mode));
            }
        }
    }
    let mut all = Vec::new();
    add(&test.root(), &mut all);
    all.sort();
    all
}

/// A line for the batch; never an empty one, which gets no answer.
fn line() -> BoxedStrategy<Vec<u8>> {
    let call = (tool(), any::<u16>()).prop_flat_map(|(tool, id)| {
        input(tool)
            .prop_map(move |input| json!({"id": id, "name": tool, "input": input}).to_string())
    });
    let odd = (json_value(), json_value(), json_value())
        .prop_map(|(id, name, input)| json!({"id": id, "name": name, "input": input}).to_string());
    let broken =
        (call.clone(), any::<prop::sample::Index>(), any::<u8>()).prop_map(|(text, at, byte)| {
            let mut bytes = text.into_bytes();
            let at = at.index(bytes.len());
            bytes[at] = if byte == b'\n' { 0 } else { byte };
            bytes
        });
    let special = prop::sample::select(vec![
        format!("{}{}", "[".repeat(5000), "]".repeat(5000)),
        format!("{{\"id\":1,\"name\":\"LS\",\"input\":{}1{}}}", "{\"a\":".repeat(200), "}".repeat(200)),
        "{\"id\":1,\"name\":\"Read\",\"input\":{\"path\":\"\\ud800\"}}".to_owned(),
        "{\"id\":1,\"name\":\"Read\",\"input\":{\"path\":\"a.txt\",\"path\":\"b\"}}".to_owned(),
        "{\"id\":1,\"name\":\"Read\",\"input\":{\"path\":\"a.txt\",\"start_line\":1e999}}".to_owned(),
        "{\"id\":1,\"name\":\"Read\",\"input\":{\"path\":\"a.txt\",\"limit\":99999999999999999999}}".to_owned(),
        "null".to_owned(),
        "\u{FEFF}{}".to_owned(),
    ]);
    // Files that were read may be changed.
    let read = path().prop_map(|path| {
        json!({"id": 0, "name": "Read", "input": {"path": path}}).to_string().into_bytes()
    });
    prop_oneof![
        10 => read,
        30 => call.prop_map(String::into_bytes),
        3 => odd.prop_map(String::into_bytes),
        2 => broken,
        1 => special.prop_map(String::into_bytes),
    ]
    .boxed()
}

const TOOLS: [&str; 7] = ["LS", "Glob", "Grep", "Read", "Write", "Edit", "MultiEdit"];

fn tool() -> impl Strategy<Value = &'static str> + Clone {
    prop::sample::select(TOOLS.to_vec())
}

/// Fields of all tools, with a preference for those of this tool.
fn input(tool: &'static str) -> BoxedStrategy<Value> {
    let required: &[&str] = match tool {
        "Glob" | "Grep" => &["pattern"],
        "Read" => &["path"],
        "Write" => &["path", "content"],
        "Edit" => &["path", "old_string", "new_string"],
        "MultiEdit" => &["path", "edits"],
        _ => &[],
    };
    let optional: &[&str] = match tool {
        "LS" => &["path", "limit", "include_hidden"],
        "Glob" => &["path", "limit", "include_hidden", "include_ignored"],
        "Grep" => &[
            "path",
            "file_pattern",
            "include",
            "case_sensitive",
            "fixed_string",
            "multiline",
            "context",
            "output",
            "limit",
            "include_hidden",
            "include_ignored",
        ],
        "Read" => &["start_line", "limit"],
        "Edit" => &["replace_all", "dry_run"],
        _ => &["dry_run"],
    };
    let some = prop::sample::subsequence(optional.to_vec(), 0..=optional.len().min(3));
    let stray = prop::option::weighted(0.05, "[a-z_]{1,12}");
    (some, stray, any::<prop::sample::Index>(), prop::bool::weighted(0.05))
        .prop_flat_map(move |(some, stray, dropped, drops)| {
            let mut names: Vec<String> =
                required.iter().chain(&some).map(|name| (*name).to_owned()).collect();
            names.extend(stray);
            if drops && !names.is_empty() {
                names.remove(dropped.index(names.len()));
            }
            let fields: Vec<_> = names
                .into_iter()
                .map(|name| {
                    let value = prop_oneof![30 => field(&name), 1 => json_value()];
                    (Just(name), value)
                })
                .collect();
            fields.prop_map(|fields| Value::Object(fields.into_iter().collect::<Map<_, _>>()))
        })
        .boxed()
}

/// A plausible value for this field.
fn field(name: &str) -> BoxedStrategy<Value> {
    let text = |strategy: BoxedStrategy<String>| strategy.prop_map(Value::from).boxed();
    match name {
        "path" => text(path()),
        "pattern" => text(prop_oneof![glob(), passage(), "[a-z(){}|*+?.^$\\[\\]\\\\-]{1,12}", any::<String>()].boxed()),
        "file_pattern" | "include" => text(glob()),
        "content" | "old_string" | "new_string" => text(passage()),
        "output" => text(prop::sample::select(vec!["matches", "files", "count", "lines"]).prop_map(str::to_owned).boxed()),
        "edits" => prop::collection::vec(
            (passage(), passage(), any::<bool>()).prop_map(|(old, new, all)| {
                json!({"old_string": old, "new_string": new, "replace_all": all})
            }),
            0..5,
        )
        .prop_map(Value::from)
        .boxed(),
        "limit" | "start_line" | "context" => prop_oneof![
            30 => (1..10i64).prop_map(Value::from),
            1 => Just(Value::from(0)),
            2 => prop::sample::select(vec![-1, 100, 200, 500, 1000, 2000, i64::MAX, i64::MIN]).prop_map(Value::from),
            1 => any::<f64>().prop_map(Value::from),
        ]
        .boxed(),
        _ => any::<bool>().prop_map(Value::from).boxed(),
    }
}

/// Paths that exist, nearly exist, or must not be accessible.
fn path() -> BoxedStrategy<String> {
    let known = prop::sample::select(vec![
        "a.txt",
        "b/c.rs",
        "b/d e.md",
        "bom",
        "wide",
        "latin",
        "binary",
        "empty",
        "long",
        "readonly",
        "raw\\xff\\x0a",
        "ignored/x",
        "pipe",
        "in/c.rs",
        "dangling",
        "new",
        "new/deep/er",
        ".",
        "b",
        "",
    ]);
    let known = known.prop_map(str::to_owned);
    let part = prop_oneof![
        prop::sample::select(vec![
            "..",
            ".",
            "b",
            "up",
            "out",
            "outdir",
            "loop",
            "dangling",
            "in",
            "a.txt",
            "pipe",
            "home",
            "x",
            ".git",
            "config",
            "\\xff",
            "\\x2e\\x2e",
            "\\x2f",
            "~",
            "etc",
            "passwd",
            "proc",
            "self",
            "root",
        ])
        .prop_map(str::to_owned),
        "[a-c.]{1,3}",
        any::<String>().prop_map(|text| text.replace('/', "")),
    ];
    let built = (any::<bool>(), prop::collection::vec(part, 0..6)).prop_map(|(absolute, parts)| {
        format!("{}{}", if absolute { "/" } else { "" }, parts.join("/"))
    });
    // A path too long for system calls, and a name too long for file systems.
    let long = (1usize..3).prop_map(|n| format!("{}x", "n/".repeat(n * 1500)));
    let name = Just("n".repeat(300));
    prop_oneof![80 => known, 50 => built, 1 => long, 4 => name].boxed()
}

fn glob() -> BoxedStrategy<String> {
    prop_oneof![
        prop::sample::select(vec![
            "*", "**", "*.rs", "**/*", "b/*", "[a-c]*", "{a,b}*", "a[", "{", "../*", "/*", "\\"
        ])
        .prop_map(str::to_owned),
        "[a-c*?{},!/\\[\\]\\\\-]{1,10}",
    ]
    .boxed()
}

fn passage() -> BoxedStrategy<String> {
    prop_oneof![
        6 => prop::sample::select(vec!["one", "two", "x", "\n", "\r\n", "one\n", "fn main", "print", "", "é", "中", " ", "\t", "   1 | one", "one\\ntwo"])
            .prop_map(str::to_owned),
        2 => any::<String>(),
        1 => "[a-z\n]{0,2000}",
    ]
    .boxed()
}

fn json_value() -> BoxedStrategy<Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
        path().prop_map(Value::from),
        tool().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((any::<String>(), inner), 0..4)
                .prop_map(|fields| Value::Object(fields.into_iter().collect::<Map<_, _>>())),
        ]
    })
    .boxed()
}

/// Kills a process that does not terminate, so that the test fails instead of hanging.
struct Watchdog {
    stop: std::sync::mpsc::Sender<()>,
}

impl Watchdog {
    fn of(process: u32) -> Self {
        let (stop, stopped) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            if stopped.recv_timeout(Duration::from_mins(5))
                == Err(std::sync::mpsc::RecvTimeoutError::Timeout)
            {
                crate::support::signal(process, "KILL");
            }
        });
        Self { stop }
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        _ = self.stop.send(());
    }
}
