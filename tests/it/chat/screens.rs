//! Whole screens in two sizes. `UPDATE_SCHEMA=1` writes them anew.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::Duration;

use regex::Regex;
use serde_json::{Value, json};

use super::docs::with_fixed_facts;
use crate::support::server::{self, Chunk, Reply, Server};
use crate::support::{Pty, Test};

const WAIT: &str = "until [ -e go ]; do sleep 0.05; done";
const SIZES: [(u16, u16); 2] = [(24, 80), (40, 120)];

/// Waits until the screen is the kept one.
#[track_caller]
fn look(pty: &Pty, name: &str) {
    let (rows, cols) = pty.with_screen(vt100::Screen::size);
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/chat/screens");
    let path = format!("{folder}/{cols}x{rows}/{name}.txt");
    let rules = [
        (r"~?\d[\d.]*k? tokens \(\d+ %\)", "2.6k tokens (2 %)"),
        (r" \(\+\d+ s waiting for you\)", ""),
        (r"(?m)  0\.2 s$", ""),
        (r"\d{4}-\d\d-\d\d \d\d:\d\d", "2026-11-29 10:00"),
        (r"\b[0-9a-f]{6}\b", "fab1e5"),
        (r"(?m) +$", ""),
    ];
    let rules = rules.map(|(pattern, settled)| (Regex::new(pattern).unwrap(), settled));
    let settled = |screen: &str| {
        let screen = rules.iter().fold(with_fixed_facts(screen), |screen, (pattern, settled)| {
            pattern.replace_all(&screen, *settled).into_owned()
        });
        screen + "\n"
    };
    if std::env::var_os("UPDATE_SCHEMA").is_some() {
        std::thread::sleep(Duration::from_secs(2));
        std::fs::write(&path, settled(&pty.screen())).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    // How much of the history has scrolled away depends on lists that opened and closed meanwhile.
    pty.wait(&path, |screen| {
        let now = settled(screen);
        let [short, long] = if now.len() < kept.len() { [&now, &kept] } else { [&kept, &now] };
        long.ends_with(short.as_str()) && 2 * short.len() > long.len()
    });
}

fn chat(test: &Test, args: &[&str], (rows, cols): (u16, u16)) -> Pty {
    let pty = Pty::start(test, args, rows, cols, "xterm-256color");
    pty.wait_for("/help");
    pty
}

fn project(server: &Server, config: &str) -> Test {
    Test::new().env("MINE_KEY", "sk-something").user_config(&format!(
        "model = \"test/m\"\n[providers.test]\nbase_url = \"{}\"\napi_key_env = \"MINE_KEY\"\n\
         [models.\"test/m\"]\ncontext_window = 128000\nprice_in = 0.2\nprice_out = 1.05\n{config}",
        server.url()
    ))
}

fn todos(n_done: usize) -> Value {
    let names = "read the shop, fix pricing, fix cart, fix invoice, move tests, update pages, \
                 remove the old shop, run tests, write notes, say what changed";
    let todos = names.split(", ").enumerate().map(|(n, name)| {
        let status = match n {
            _ if n < n_done => "completed",
            _ if n == n_done => "in_progress",
            _ => "pending",
        };
        json!({"content": name, "status": status})
    });
    json!({"summary": "prices in one place", "todos": todos.collect::<Vec<_>>()})
}

/// Plays these replies to the main agent. Sub-agents list a directory, and but for the one about prices wait for a file.
fn playing(replies: Vec<Reply>) -> Server {
    let replies = Mutex::new(VecDeque::from(replies));
    Server::with(move |request, _| {
        if request.path.ends_with("/models") {
            return server::json(200, &json!({"data": [{"id": "m"}, {"id": "large"}]}));
        }
        let is_main = request.body.contains("TodoWrite");
        let wait = if request.body.contains("prices") { "ls" } else { WAIT };
        match request.body.contains("tool_call_id") {
            _ if is_main => replies.lock().unwrap().pop_front().unwrap(),
            false => server::sse_calls(&[bash(wait)]),
            true => server::sse_text("It is fine."),
        }
    })
}

fn bash(command: &str) -> (&'static str, Value) {
    ("Bash", json!({"command": command}))
}

fn busy() -> Reply {
    server::json(503, &json!({"error": "busy"})).header("retry-after-ms", "0")
}

/// A failed check, two retries, a plan of ten items, three sub-agents and a dangerous approval.
#[test]
fn turn_with_everything_is_a_report_on_one_screen() {
    for size in SIZES {
        let task = |what: &str| {
            let description = format!("check {what}");
            (
                "Task",
                json!({"description": description, "prompt": what, "subagent_type": "explore"}),
            )
        };
        let tasks = ["prices", "the cart", "invoices"].map(task);
        let server = playing(vec![
            server::sse_calls(&[&[("TodoWrite", todos(0))], &tasks[..]].concat()),
            busy(),
            busy(),
            server::sse_text("The prices are in one place now."),
            server::sse_calls(&[bash("rm -rf shop"), ("TodoWrite", todos(10))]),
            server::sse_text("All prices come from `pricing.py`, and the old shop is gone."),
        ]);
        let test = project(&server, "");
        (1..=22).for_each(|n| test.write(&format!("shop/f{n}.py"), "x\n"));
        let check = "if [ -e shop ]; then echo AssertionError: there are two shops; exit 1; fi";
        let mut pty = chat(&test, &["--check", check], size);
        pty.say("put all prices into pricing.py");
        look(&pty, "sub-agents and todos");
        test.write("go", "");
        pty.wait_for_question();
        look(&pty, "a danger");
        // The time that it waited is part of the report.
        pty.wait("a second", |screen| !screen.contains("waiting for you · 0 s"));
        pty.send("y");
        look(&pty, "a report");
    }
}

#[test]
fn screens_are_the_kept_ones() {
    for size in SIZES {
        let lines: String = (1..=8).map(|n| format!("touch made{n}\n")).collect();
        let table = "| file | what it does | why it is there |\n|---|---|---|\n";
        let rows: String = ["cart", "invoice"]
            .map(|name| {
                let what = "adds the prices of all items and rounds the sum to whole cents";
                format!("| shop/{name}.py | {what} | `https://example.com/a/long/address/of/the/page/about/{name}` |\n")
            })
            .concat();
        let ask = json!({"questions": [{"question": "Which currency?", "header": "Currency",
            "options": [{"label": "EUR", "description": "as in the invoices"},
                        {"label": "USD", "description": "as in the shop"}]}]});
        let edit = json!({"path": "shop.py", "old_string": "100", "new_string": "180"});
        let words = "Incorrect API key provided: find yours at https://example.com/keys.";
        let new = format!("{{\"path\": \"new.py\", \"content\": \"{}", "x = 1\\n".repeat(84));
        let call = json!({"index": 0, "id": "c", "type": "function", "function": {"name": "Write", "arguments": new}});
        let begun = json!({"choices": [{"index": 0, "delta": {"tool_calls": [call]}, "finish_reason": null}]});
        let server = playing(vec![
            server::sse_calls(&[
                ("Read", json!({"path": "shop.py"})),
                ("Read", json!({"path": "cart.py"})),
                ("Grep", json!({"pattern": "RATE"})),
            ]),
            server::sse_text(&format!("There are two:\n\n{table}{rows}\nThat is all.")),
            server::sse_calls(&[("TodoWrite", todos(2)), ("Edit", edit)]),
            server::sse_calls(&[bash(&lines)]),
            server::sse_calls(&[("AskUser", ask)]),
            server::sse_text("The rate is 180 EUR now."),
            server::sse_raw(&[&begun.to_string()]).then(Chunk::Pause(Duration::from_mins(1))),
            server::json(401, &json!({"error": {"message": words}})),
        ]);
        let test = project(&server, "[mcp.servers.docs]\ncommand = \"no-such-program\"\n")
            .file("shop.py", "RATE = 100\n")
            .file("cart.py", "import shop\n");
        let test = test.script("text: done");
        test.run(&["look into the carts"]);
        let mut pty = chat(&test, &[], size);
        pty.send("?");
        look(&pty, "keys");
        pty.send("\x15");
        pty.say("what is there?");
        look(&pty, "reads and a table");
        pty.say("make it 180");
        pty.wait_for_question();
        look(&pty, "a question about a diff");
        pty.send("y");
        pty.wait_until_it_accepts_keys("Run these 8 lines?");
        look(&pty, "a question about lines");
        pty.send("y");
        pty.wait_until_it_accepts_keys("Which currency?");
        look(&pty, "a question of the model");
        pty.send("1");
        look(&pty, "the end of a turn");
        pty.say("write it");
        pty.wait_for("84 lines so far");
        look(&pty, "a call that is written");
        pty.send("\x1b");
        pty.wait_for("stopped by you");
        pty.say("go on");
        look(&pty, "a refused key");
        for name in ["undo", "mcp", "hooks"] {
            pty.say(&format!("/{name}"));
            look(&pty, name);
        }
        for (keys, name) in [("/", "commands"), ("model ", "models"), ("\x15/resume ", "sessions")]
        {
            pty.send(keys);
            look(&pty, name);
        }
        pty.send("\x15");
        pty.say("/help");
        look(&pty, "help");
    }
}
