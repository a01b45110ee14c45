//! What six small tasks cost in input tokens, model calls and failed calls, beside pi.
//!
//! The answers were given in the model's place, by a player who went by the requests, and are
//! replayed here: `benches/tokens/README.md` tells how they are recorded and what is counted.
//! `cargo bench --bench tokens` prints the table of `docs/BENCHMARKS.md`, and fails if a task is not solved.
#![expect(clippy::unwrap_used, reason = "a benchmark that can not go on ends")]
#![expect(clippy::print_stdout, reason = "it prints its table")]
#![expect(clippy::disallowed_methods, reason = "it starts what it measures")]
#![expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]

#[path = "../tests/it/support/server.rs"]
#[expect(dead_code, reason = "the tests use the rest of it")]
mod server;

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use regex::Regex;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use server::{Reply, Server, sse_raw};
use tempfile::TempDir;

const TASKS: [&str; 6] = ["bug", "feature", "rename", "logs", "shop", "filter"];

/// No replay takes longer, unless the agent hangs.
const LIMIT: Duration = Duration::from_mins(5);

/// What `record.py` writes, and the tokens of each request.
#[derive(Serialize, Deserialize)]
struct Transcript {
    agent: String,
    version: Option<String>,
    task: String,
    solved: bool,
    exit_code: i32,
    requests: usize,
    calls: usize,
    failed_calls: usize,
    failed_commands: usize,
    #[serde(default)]
    input_tokens: Vec<usize>,
    answers: Vec<Answer>,
}

#[derive(Clone, Serialize, Deserialize)]
struct Answer {
    text: String,
    calls: Vec<Call>,
}

#[derive(Clone, Serialize, Deserialize)]
struct Call {
    name: String,
    arguments: Value,
}

/// How an agent is configured and started.
#[derive(Deserialize)]
struct Agent {
    version: Option<String>,
    command: Vec<String>,
    env: BTreeMap<String, String>,
    files: BTreeMap<String, Value>,
}

/// What a run came to.
#[derive(Default)]
struct Figures {
    tokens: usize,
    requests: usize,
    calls: usize,
    failed: Failed,
    is_solved: bool,
}

#[derive(Clone, Copy, Default)]
struct Failed {
    calls: usize,
    /// How many of them are commands that did not exit with 0, which a test that finds something does too.
    commands: usize,
}

/// The folders of a run.
#[derive(Clone)]
struct Places {
    base: PathBuf,
    /// Of pi, which names the folder of its own documents in its prompt.
    package: Option<PathBuf>,
}

impl Places {
    fn home(&self) -> PathBuf {
        self.base.join("home")
    }

    fn root(&self) -> PathBuf {
        self.home().join("project")
    }

    fn tmp(&self) -> PathBuf {
        self.base.join("tmp")
    }

    /// The same folders under the names that they have on any machine, so that a count does not depend on it.
    fn neutral(&self) -> Vec<(String, &'static str)> {
        let package = self.package.as_deref().map(|path| (path.to_owned(), PACKAGE));
        let places = [(self.home(), "/home/user"), (self.tmp(), "/tmp")].into_iter().chain(package);
        places.map(|(path, name)| (path.to_str().unwrap().to_owned(), name)).collect()
    }
}

const PACKAGE: &str = "/usr/lib/node_modules/@earendil-works/pi-coding-agent";

/// Names that differ from run to run, and what stands for them in a count.
const RANDOM: [(&str, &str); 4] = [
    ("/projects/project-[0-9a-f]{16}/", "/projects/project-0123456789abcdef/"),
    ("/sessions/[0-9a-f-]{36}/", "/sessions/01234567-89ab-7cde-8f01-23456789abcd/"),
    ("tool_[0-9]{8}T[0-9]{6}_", "tool_20240305T100000_"),
    ("pi-bash-[0-9a-f]{16}", "pi-bash-0123456789abcdef"),
];

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    match words.split_first() {
        Some((word, states)) if word == "keep" => {
            for state in states {
                keep(Path::new(state));
            }
            ExitCode::SUCCESS
        }
        Some(_) => table(&words),
        None => table(&TASKS.map(ToOwned::to_owned)),
    }
}

fn here() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/tokens")
}

fn transcript_path(agent: &str, task: &str) -> PathBuf {
    here().join("transcripts").join(agent).join(format!("{task}.json"))
}

fn read_json<T: for<'a> Deserialize<'a>>(path: &Path) -> T {
    let text = fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// Counts the tokens of a recording, and puts its transcript beside the others.
fn keep(state: &Path) {
    let run: Value = read_json(&state.join("run.json"));
    let mut transcript: Transcript = read_json(&state.join("transcript.json"));
    assert_eq!(
        transcript.requests,
        transcript.answers.len(),
        "{}: not every request has one answer",
        state.display()
    );
    let place = |name: &str| run["places"][name].as_str().map(ToOwned::to_owned);
    let places = [("HOME", "/home/user"), ("TMP", "/tmp"), ("PACKAGE", PACKAGE)];
    let places: Vec<_> =
        places.into_iter().filter_map(|(name, neutral)| Some((place(name)?, neutral))).collect();
    transcript.input_tokens = (1..=transcript.requests)
        .map(|n| tokens(&read_json(&state.join(format!("requests/{n:03}.json"))), &places))
        .collect();
    let path = transcript_path(&transcript.agent, &transcript.task);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, serde_json::to_string_pretty(&transcript).unwrap() + "\n").unwrap();
    let total: usize = transcript.input_tokens.iter().sum();
    println!("{}: {} requests, {total} tokens", path.display(), transcript.requests);
}

/// The tokens of what a model reads of a request.
fn tokens(body: &Value, places: &[(String, &str)]) -> usize {
    let names = RANDOM.map(|(pattern, neutral)| (Regex::new(pattern).unwrap(), neutral));
    let count = |part: &str| {
        let mut text = body.get(part).map(Value::to_string).unwrap_or_default();
        for (path, neutral) in places {
            text = text.replace(path, neutral);
        }
        for (pattern, neutral) in &names {
            text = pattern.replace_all(&text, *neutral).into_owned();
        }
        tiktoken_rs::o200k_base_singleton().encode_ordinary(&text).len()
    };
    count("messages") + count("tools")
}

fn table(tasks: &[String]) -> ExitCode {
    let pi = pi();
    match &pi {
        Ok(path) => println!("pi: replayed with {}", path.display()),
        Err(why) => println!("pi: figures stored with the transcripts, because {why}"),
    }
    let mut is_good = true;
    let mut rows: Vec<(&str, Figures, Option<Figures>)> = Vec::new();
    for task in tasks {
        let path = transcript_path("ours", task);
        if !path.exists() {
            println!("{task}: no transcript of ours, {} is not there", path.display());
            is_good = false;
            continue;
        }
        let transcript: Transcript = read_json(&path);
        let (ours, is_complete) = replay(Path::new(env!("CARGO_BIN_EXE_agent")), &transcript);
        is_good &= ours.is_solved && is_complete;
        let path = transcript_path("pi", task);
        let theirs = path.exists().then(|| {
            let transcript: Transcript = read_json(&path);
            match &pi {
                Ok(binary) => replay(binary, &transcript).0,
                Err(_) => stored(&transcript),
            }
        });
        if theirs.is_none() {
            println!("{task}: no transcript of pi, {} is not there", path.display());
        }
        rows.push((task, ours, theirs));
    }
    print_table(&rows);
    if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn print_table(rows: &[(&str, Figures, Option<Figures>)]) {
    println!();
    println!(
        "{:<9} {:^25}   {:^21}   {:^11}   {:^21}   solved",
        "", "input tokens (o200k)", "model calls", "tool calls", "failed (commands)"
    );
    println!(
        "{:<9} {:>8} {:>8} {:>7}   {:>6} {:>6} {:>7}   {:>5} {:>5}   {:>10} {:>10}   ours pi",
        "task", "ours", "pi", "ratio", "ours", "pi", "ratio", "ours", "pi", "ours", "pi"
    );
    for (task, ours, theirs) in rows {
        print_row(task, ours, theirs.as_ref());
    }
    let sum = |figures: &[&Figures]| Figures {
        tokens: figures.iter().map(|f| f.tokens).sum(),
        requests: figures.iter().map(|f| f.requests).sum(),
        calls: figures.iter().map(|f| f.calls).sum(),
        failed: Failed {
            calls: figures.iter().map(|f| f.failed.calls).sum(),
            commands: figures.iter().map(|f| f.failed.commands).sum(),
        },
        is_solved: figures.iter().all(|f| f.is_solved),
    };
    let ours: Vec<_> = rows.iter().map(|(_, ours, _)| ours).collect();
    // A sum beside one of fewer tasks would say nothing.
    let theirs: Option<Vec<_>> = rows.iter().map(|(_, _, theirs)| theirs.as_ref()).collect();
    if !rows.is_empty() {
        print_row("total", &sum(&ours), theirs.map(|theirs| sum(&theirs)).as_ref());
    }
}

fn print_row(task: &str, ours: &Figures, theirs: Option<&Figures>) {
    let number = |part: &dyn Fn(&Figures) -> usize| {
        theirs.map_or_else(|| "-".to_owned(), |theirs| part(theirs).to_string())
    };
    let ratio = |part: &dyn Fn(&Figures) -> usize| {
        let ratio = theirs.map(|theirs| part(ours) as f64 / part(theirs) as f64);
        ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}"))
    };
    let failed =
        |figures: &Figures| format!("{} ({})", figures.failed.calls, figures.failed.commands);
    let solved = |figures: &Figures| if figures.is_solved { "yes" } else { "NO" };
    println!(
        "{task:<9} {:>8} {:>8} {:>7}   {:>6} {:>6} {:>7}   {:>5} {:>5}   {:>10} {:>10}   {:<4} {}",
        ours.tokens,
        number(&|f| f.tokens),
        ratio(&|f| f.tokens),
        ours.requests,
        number(&|f| f.requests),
        ratio(&|f| f.requests),
        ours.calls,
        number(&|f| f.calls),
        failed(ours),
        theirs.map_or_else(|| "-".to_owned(), failed),
        solved(ours),
        theirs.map_or("-", solved),
    );
}

/// The program of pi to replay with, or why there is none.
fn pi() -> Result<PathBuf, String> {
    let path = std::env::var_os("AGENT_BENCH_PI").ok_or("AGENT_BENCH_PI does not name a pi")?;
    let path = fs::canonicalize(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    let wanted = agent("pi").version.unwrap();
    let said = Command::new(&path).arg("--version").output().map_err(|e| e.to_string())?;
    // It says so on standard error where it is piped.
    let version = [said.stdout, said.stderr].concat();
    let version = String::from_utf8_lossy(&version).trim().to_owned();
    if version == wanted {
        Ok(path)
    } else {
        Err(format!("{} is version {version}, not {wanted}", path.display()))
    }
}

fn agent(name: &str) -> Agent {
    read_json(&here().join("agents").join(format!("{name}.json")))
}

fn stored(transcript: &Transcript) -> Figures {
    Figures {
        tokens: transcript.input_tokens.iter().sum(),
        requests: transcript.requests,
        calls: transcript.calls,
        failed: Failed { calls: transcript.failed_calls, commands: transcript.failed_commands },
        is_solved: transcript.solved,
    }
}

/// Plays the answers of a transcript to an agent; and whether there was one for each of its requests.
fn replay(binary: &Path, transcript: &Transcript) -> (Figures, bool) {
    let name = format!("{} with {}", transcript.task, transcript.agent);
    let agent = agent(&transcript.agent);
    let task = here().join("tasks").join(&transcript.task);
    let (_folder, places) = lay_out(&task, &transcript.agent, binary);
    let bodies: Arc<Mutex<Vec<Value>>> = Arc::default();
    let server = {
        let (bodies, places) = (Arc::clone(&bodies), places.clone());
        let answers = transcript.answers.clone();
        Server::with(move |request, _| {
            if request.method != "POST" || !request.path.ends_with("/chat/completions") {
                return server::json(404, &json!({"error": {"message": "only chat/completions"}}));
            }
            let mut bodies = bodies.lock().unwrap();
            bodies.push(request.json());
            match answers.get(bodies.len() - 1) {
                Some(answer) => encode(answer, bodies.len(), request.body.len(), &places),
                None => server::json(400, &json!({"error": {"message": "no answer is left"}})),
            }
        })
    };
    let started = Instant::now();
    let (output, exit_code) = run(binary, &agent, &task, &places, &server.url());
    if started.elapsed() > LIMIT {
        println!("{name}: it did not end, and was killed after {} s", LIMIT.as_secs());
    } else if exit_code != Some(transcript.exit_code) {
        println!(
            "{name}: it exited with {exit_code:?}, when recorded with {}",
            transcript.exit_code
        );
    }
    let is_solved = check(&name, &agent, &task, &places);
    let bodies = bodies.lock().unwrap();
    let n_answers = transcript.answers.len();
    if bodies.len() > n_answers {
        println!(
            "{name}: the sequence differs from the recording: {} requests, and only {n_answers} answers. What \
             comes after that is not comparable: record it anew.",
            bodies.len()
        );
    } else if bodies.len() < n_answers {
        println!(
            "{name}: the sequence differs from the recording: {} requests, and {n_answers} answers",
            bodies.len()
        );
    }
    let failed =
        if transcript.agent == "pi" { failed_of_pi(&output) } else { failed_of_ours(&bodies) };
    let played = &transcript.answers[..bodies.len().min(n_answers)];
    let figures = Figures {
        tokens: bodies.iter().map(|body| tokens(body, &places.neutral())).sum(),
        requests: bodies.len(),
        calls: played.iter().map(|answer| answer.calls.len()).sum(),
        failed,
        is_solved,
    };
    let recorded = stored(transcript);
    if figures.failed.calls != recorded.failed.calls {
        println!(
            "{name}: {} failed calls, when recorded {}",
            figures.failed.calls, recorded.failed.calls
        );
    }
    (figures, bodies.len() <= n_answers)
}

/// A fresh copy of the task, as a git repository in a home of its own; `record.py` makes the same.
fn lay_out(task: &Path, agent: &str, binary: &Path) -> (TempDir, Places) {
    let folder = tempfile::Builder::new().prefix("tokens-").tempdir().unwrap();
    // A program in node_modules/.bin is a link into its package.
    let program = fs::canonicalize(binary).unwrap();
    let package = program
        .ancestors()
        .find(|folder| folder.join("package.json").is_file())
        .map(Path::to_owned);
    let base = fs::canonicalize(folder.path()).unwrap();
    let places = Places { base, package: package.filter(|_| agent == "pi") };
    fs::create_dir_all(places.tmp()).unwrap();
    copy(&task.join("project"), &places.root());
    let git = [
        "init -q -b main",
        "add -A",
        "-c user.name=bench -c user.email=b@localhost commit -qm Begin",
    ];
    for arguments in git {
        let mut command = Command::new("git");
        command.args(arguments.split(' ')).current_dir(places.root());
        command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
        assert!(command.status().unwrap().success(), "git {arguments}");
    }
    (folder, places)
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let name = entry.file_name();
        if name == "__pycache__" {
            continue;
        }
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to.join(name));
        } else {
            fs::copy(entry.path(), to.join(name)).unwrap();
        }
    }
}

/// With the environment of a run: nothing of the user's own settings.
fn in_place(command: &mut Command, agent: &Agent, places: &Places) {
    let kept = ["PATH", "USER", "SHELL"].map(|name| (name, std::env::var_os(name)));
    command
        .current_dir(places.root())
        .env_clear()
        .envs(kept.into_iter().filter_map(|(name, value)| Some((name, value?))))
        .envs([("LANG", "C.UTF-8")])
        .env("HOME", places.home())
        .env("TMPDIR", places.tmp())
        .envs(&agent.env)
        .stdin(Stdio::null());
}

/// What the agent wrote to standard output, and its exit code.
fn run(
    binary: &Path,
    agent: &Agent,
    task: &Path,
    places: &Places,
    url: &str,
) -> (String, Option<i32>) {
    for (name, content) in &agent.files {
        let path = places.home().join(name);
        let text = content.as_str().map_or_else(|| content.to_string(), ToOwned::to_owned);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text.replace("{{URL}}", url)).unwrap();
    }
    let asked = fs::read_to_string(task.join("task.txt")).unwrap();
    let words = agent.command[1..].iter();
    let words = words.map(|word| if word == "{{TASK}}" { asked.trim() } else { word });
    let out = places.base.join("stdout.txt");
    let mut command = Command::new(binary);
    in_place(command.args(words), agent, places);
    command.stdout(fs::File::create(&out).unwrap()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let started = Instant::now();
    let code = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status.code();
        }
        if started.elapsed() > LIMIT {
            child.kill().unwrap();
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    (String::from_utf8_lossy(&fs::read(out).unwrap()).into_owned(), code)
}

/// Whether the task is solved; says why not.
fn check(name: &str, agent: &Agent, task: &Path, places: &Places) -> bool {
    let mut command = Command::new("bash");
    in_place(command.arg(task.join("check.sh")), agent, places);
    let done = command.output().unwrap();
    if !done.status.success() {
        let said = [done.stdout, done.stderr].concat();
        println!("{name}: NOT solved\n{}", String::from_utf8_lossy(&said).trim_end());
    }
    done.status.success()
}

/// The answer as the events of a stream; `record.py` sends the same.
fn encode(answer: &Answer, number: usize, n_bytes: usize, places: &Places) -> Reply {
    let calls: Vec<Value> = (0..)
        .zip(&answer.calls)
        .map(|(index, call): (usize, _)| {
            json!({"index": index, "id": format!("call_{number}_{index}"), "type": "function", "function": {
                "name": call.name, "arguments": local(&call.arguments, places).to_string()}})
        })
        .collect();
    let text = local(&json!(answer.text), places);
    let content = if answer.text.is_empty() { Value::Null } else { text };
    let reason = if calls.is_empty() { "stop" } else { "tool_calls" };
    let mut delta = json!({"role": "assistant", "content": content});
    if !calls.is_empty() {
        delta["tool_calls"] = json!(calls);
    }
    let n_tokens = n_bytes / 4;
    let usage = json!({"prompt_tokens": n_tokens, "completion_tokens": 100, "total_tokens": n_tokens + 100});
    let chunk = |choices: Value| {
        json!({"id": format!("answer_{number}"), "object": "chat.completion.chunk", "created": 0,
               "model": "model", "choices": choices})
    };
    let mut end = chunk(json!([]));
    end["usage"] = usage;
    let events = [
        chunk(json!([{"index": 0, "delta": delta, "finish_reason": null}])),
        chunk(json!([{"index": 0, "delta": {}, "finish_reason": reason}])),
        end,
    ];
    let [said, stop, usage] = events.map(|event| event.to_string());
    sse_raw(&[&said, &stop, &usage, "[DONE]"])
}

/// The same with the places of this run, where a transcript has names for them.
fn local(value: &Value, places: &Places) -> Value {
    match value {
        Value::String(text) => Value::String(local_text(text, places)),
        Value::Array(values) => values.iter().map(|value| local(value, places)).collect(),
        Value::Object(fields) => {
            let fields = fields.iter().map(|(name, value)| (name.clone(), local(value, places)));
            Value::Object(fields.collect())
        }
        other => other.clone(),
    }
}

fn local_text(text: &str, places: &Places) -> String {
    let shown = |path: &Path| path.to_str().unwrap().to_owned();
    let mut text = text
        .replace("{{ROOT}}", &shown(&places.root()))
        .replace("{{HOME}}", &shown(&places.home()))
        .replace("{{TMP}}", &shown(&places.tmp()));
    let projects = places.home().join(".local/state/agent/projects");
    let sessions =
        entries(&projects).into_iter().flat_map(|project| entries(&project.join("sessions")));
    if let Some(session) = sessions.last() {
        text = text.replace("{{STATE}}", &shown(&session));
        for output in entries(&session.join("tool-output")) {
            let name = output.file_name().unwrap().to_string_lossy().into_owned();
            // tool_<time>_<number>_<tool>.txt
            if let Some((_, rest)) =
                name.strip_prefix("tool_").and_then(|rest| rest.split_once('_'))
            {
                text = text.replace(&format!("tool_*_{rest}"), &name);
            }
        }
    }
    let logs = entries(&places.tmp());
    let newest = logs
        .iter()
        .filter(|path| {
            path.file_name().is_some_and(|n| n.as_encoded_bytes().starts_with(b"pi-bash-"))
        })
        .max_by_key(|path| path.metadata().and_then(|about| about.modified()).ok());
    if let Some(log) = newest {
        text = text.replace("pi-bash-*.log", &log.file_name().unwrap().to_string_lossy());
    }
    text
}

/// What is in a folder, in order; nothing where there is none.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    let mut paths: Vec<_> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

/// Results with status error.
fn failed_of_ours(bodies: &[Value]) -> Failed {
    let mut failed = Failed::default();
    let mut seen = HashSet::new();
    for message in bodies.iter().flat_map(|body| body["messages"].as_array().into_iter().flatten())
    {
        if message["role"] != "tool" || !seen.insert(message["tool_call_id"].as_str()) {
            continue;
        }
        let head = message["content"].as_str().and_then(|text| text.lines().next());
        let head =
            head.and_then(|line| serde_json::from_str::<Value>(line).ok()).unwrap_or_default();
        if head["status"] == "error" {
            failed.calls += 1;
            failed.commands += usize::from(head["code"] == "COMMAND_FAILED");
        }
    }
    failed
}

/// The same from pi's own events; a request does not say which of its results are errors.
fn failed_of_pi(output: &str) -> Failed {
    let mut failed = Failed::default();
    for event in output.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
        if event["type"] == "tool_execution_end" && event["isError"] == true {
            failed.calls += 1;
            let parts = event["result"]["content"].as_array().into_iter().flatten();
            let text: String = parts.filter_map(|part| part["text"].as_str()).collect();
            let last = text.trim_end().lines().last().unwrap_or_default();
            failed.commands += usize::from(last.starts_with("Command exited with code "));
        }
    }
    failed
}
