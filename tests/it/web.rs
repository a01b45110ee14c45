//! The web: pages from a server on loopback, which a rule names, and searches.

mod bad_input;
mod fetch;
mod pages;
mod permission;
mod provider_search;
mod search;

use serde_json::{Value, json};

use crate::support::Test;
use crate::support::server::{Reply, Request, Server};

/// Options with which the pages of the test's server may be fetched.
pub(crate) const NAMED: [&str; 2] = ["--allow", "WebFetch(127.0.0.1)"];

/// A server of pages, and its address.
fn site(answers: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> (Server, String) {
    let server = Server::with(move |request, _| answers(request));
    let url = server.url().trim_end_matches("/v1").to_owned();
    (server, url)
}

fn page(html: impl Into<Vec<u8>>) -> Reply {
    Reply::new(200, "text/html; charset=utf-8", html)
}

/// The envelope of a call with these options.
fn call_with(test: &Test, input: &Value, options: &[&str]) -> Value {
    let input = input.to_string();
    let args = [&["tool", "call", "WebFetch", &input], options].concat();
    let done = test.agent(&args);
    serde_json::from_str(&done.stdout).unwrap_or_else(|_| panic!("{done:?}"))
}

/// The envelope of a call for this page of a host that a rule names.
fn fetch(url: &str) -> Value {
    call_with(&Test::new(), &json!({ "url": url }), &NAMED)
}

/// The envelopes of several calls in one process, with these options.
fn call_all(inputs: &[Value], options: &[&str]) -> Vec<Value> {
    let lines = (0..).zip(inputs).map(|(id, input): (u32, _)| {
        format!("{}\n", json!({"id": id, "name": "WebFetch", "input": input}))
    });
    let test = Test::new().stdin(lines.collect::<String>());
    let done = test.agent(&[&["tool", "batch"], options].concat());
    let lines = done.stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.map(|mut line| line["envelope"].take()).collect()
}

fn content(envelope: &Value) -> &str {
    envelope["data"]["content"].as_str().unwrap_or_else(|| panic!("{envelope}"))
}

fn code(envelope: &Value) -> &str {
    envelope["error"]["code"].as_str().unwrap_or_default()
}

fn text(envelope: &Value) -> &str {
    envelope["text"].as_str().unwrap()
}
