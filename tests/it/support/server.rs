//! A scripted HTTP server on loopback, using only `std`: it plays replies and records requests.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

/// A reply of the server.
#[derive(Clone)]
pub(crate) struct Reply {
    /// 0: the connection is closed without a response.
    pub(crate) status: u16,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: Vec<Chunk>,
}

#[derive(Clone)]
pub(crate) enum Chunk {
    Send(Vec<u8>),
    /// Waits for this time, or until the client hangs up.
    Pause(Duration),
    Hangup,
}

/// A recorded request.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) path: String,
    /// Names are in lower case.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
    /// Number of the connection, starting at 0.
    pub(crate) connection: usize,
}

impl Request {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }
}

impl Reply {
    pub(crate) fn new(status: u16, content_type: &str, body: impl Into<Vec<u8>>) -> Self {
        let headers = vec![("content-type", content_type.to_owned())];
        Self { status, headers, body: vec![Chunk::Send(body.into())] }
    }

    pub(crate) fn header(mut self, name: &'static str, value: &str) -> Self {
        self.headers.push((name, value.to_owned()));
        self
    }

    pub(crate) fn then(mut self, chunk: Chunk) -> Self {
        self.body.push(chunk);
        self
    }
}

/// Closes the connection without a response.
pub(crate) fn no_answer() -> Reply {
    Reply { status: 0, headers: vec![], body: vec![] }
}

/// A stream with exactly these `data` lines.
pub(crate) fn sse_raw(data: &[&str]) -> Reply {
    let events = data.iter().map(|data| format!("data: {data}\n\n"));
    Reply::new(200, "text/event-stream", events.collect::<String>())
}

/// A complete streamed text answer.
pub(crate) fn sse_text(text: &str) -> Reply {
    whole(&json!({"content": text}), "stop")
}

/// A complete streamed answer with tool calls.
pub(crate) fn sse_calls(calls: &[(&str, Value)]) -> Reply {
    let calls = (0..).zip(calls).map(|(index, (name, arguments)): (u32, _)| {
        json!({"index": index, "id": format!("c{index}"), "type": "function",
               "function": {"name": name, "arguments": arguments.to_string()}})
    });
    whole(&json!({"tool_calls": calls.collect::<Vec<_>>()}), "tool_calls")
}

fn whole(delta: &Value, finish_reason: &str) -> Reply {
    let chunks = [
        json!({"choices": [{"index": 0, "delta": delta, "finish_reason": null}]}),
        json!({"choices": [{"index": 0, "delta": {}, "finish_reason": finish_reason}]}),
        json!({"choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": 2}}),
    ];
    let [said, end, usage] = chunks.map(|chunk| chunk.to_string());
    sse_raw(&[&said, &end, &usage, "[DONE]"])
}

pub(crate) fn json(status: u16, body: &Value) -> Reply {
    Reply::new(status, "application/json", body.to_string())
}

pub(crate) fn html(status: u16) -> Reply {
    Reply::new(status, "text/html", "<!doctype html><h1>hello</h1>")
}

type Answers = dyn Fn(&Request, usize) -> Reply + Send + Sync;

/// Serves until the test ends.
pub(crate) struct Server {
    address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    answers: Box<Answers>,
    knows_windows: bool,
    seen: Mutex<Seen>,
    changed: Condvar,
}

#[derive(Default)]
struct Seen {
    requests: Vec<Request>,
    /// Requests with calls and results that do not pair.
    broken: Vec<String>,
    /// Number of clients that hung up before the response was complete.
    hangups: usize,
}

impl Server {
    /// Plays these replies, one per request.
    pub(crate) fn playing(replies: impl IntoIterator<Item = Reply>) -> Self {
        let replies = Mutex::new(replies.into_iter().collect::<VecDeque<_>>());
        Self::with(move |_, _| {
            let next = replies.lock().unwrap().pop_front();
            next.unwrap_or_else(|| json(400, &json!({"error": "no reply is left in the test"})))
        })
    }

    /// Computes each reply from the request and its number, starting at 0. The first question about windows is refused and not
    /// recorded: the server is busy, so that no other one follows.
    pub(crate) fn with(answers: impl Fn(&Request, usize) -> Reply + Send + Sync + 'static) -> Self {
        Self::start(answers, false)
    }

    /// As [`Server::with`], with the questions about windows.
    pub(crate) fn asked(
        answers: impl Fn(&Request, usize) -> Reply + Send + Sync + 'static,
    ) -> Self {
        Self::start(answers, true)
    }

    fn start(
        answers: impl Fn(&Request, usize) -> Reply + Send + Sync + 'static,
        knows_windows: bool,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (seen, changed) = (Mutex::default(), Condvar::new());
        let shared = Arc::new(Shared { answers: Box::new(answers), knows_windows, seen, changed });
        let server = Self { address, shared: Arc::clone(&shared) };
        std::thread::spawn(move || {
            for (connection, stream) in listener.incoming().map_while(Result::ok).enumerate() {
                let shared = Arc::clone(&shared);
                // Connection errors are ignored: the client is under test.
                std::thread::spawn(move || shared.serve(&stream, connection));
            }
        });
        server
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// The requests received so far.
    pub(crate) fn finish(&self) -> Vec<Request> {
        self.shared.seen.lock().unwrap().requests.clone()
    }

    /// Waits until a client hung up before its response was complete.
    pub(crate) fn wait_for_hangup(&self) {
        let seen = self.shared.seen.lock().unwrap();
        let limit = Duration::from_secs(5);
        let wait = self.shared.changed.wait_timeout_while(seen, limit, |seen| seen.hangups == 0);
        assert!(!wait.unwrap().1.timed_out(), "the client did not hang up");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let seen = self.shared.seen.lock().unwrap();
        if !std::thread::panicking() {
            assert!(seen.broken.is_empty(), "requests with calls and results that do not pair");
        }
    }
}

impl Shared {
    /// In every request of every test, each call has exactly one result right after it.
    fn check(&self, request: &Request) {
        let Ok(body) = serde_json::from_str::<Value>(&request.body) else { return };
        let items = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let mut waiting: Vec<String> = Vec::new();
        let mut paired = true;
        let mut answered = |waiting: &mut Vec<String>, id: &Value| match waiting
            .iter()
            .position(|call| id == call)
        {
            Some(at) => drop(waiting.remove(at)),
            None => paired = false,
        };
        let mut misplaced = false;
        for message in items(&body["messages"]) {
            if message["role"] == "tool" {
                answered(&mut waiting, &message["tool_call_id"]);
                continue;
            }
            // Anthropic Messages: the results begin the next message.
            for block in items(&message["content"]) {
                if block["type"] == "tool_result" {
                    answered(&mut waiting, &block["tool_use_id"]);
                } else {
                    misplaced |= message["role"] != "assistant" && !waiting.is_empty();
                }
            }
            misplaced |= !waiting.is_empty();
            waiting = items(&message["tool_calls"]).iter().map(|call| text(&call["id"])).collect();
            let blocks = items(&message["content"]).into_iter();
            let calls = blocks.filter(|block| block["type"] == "tool_use");
            waiting.extend(calls.map(|call| text(&call["id"])));
        }
        let is_paired = paired
            && !misplaced
            && waiting.is_empty()
            && gemini_pairs(&body)
            && responses_pair(&body);
        if !is_paired {
            self.seen.lock().unwrap().broken.push(request.body.clone());
        }
    }

    /// Answers the requests of a connection; `None` when it is closed.
    fn serve(&self, mut stream: &TcpStream, connection: usize) -> Option<()> {
        // Send each chunk immediately, as streaming servers do.
        stream.set_nodelay(true).unwrap();
        let mut reader = BufReader::new(stream);
        loop {
            let request = read(&mut reader, connection)?;
            let is_about_window =
                ["/props", "/api/ps"].iter().any(|end| request.path.ends_with(end));
            if !self.knows_windows && is_about_window {
                write!(stream, "HTTP/1.1 503 X\r\ncontent-length: 0\r\n\r\n").ok()?;
                continue;
            }
            let number = {
                let mut seen = self.seen.lock().unwrap();
                seen.requests.push(request.clone());
                seen.requests.len() - 1
            };
            self.check(&request);
            let reply = (self.answers)(&request, number);
            if reply.status == 0 {
                return None;
            }
            let headers = reply.headers.iter().map(|(name, value)| format!("{name}: {value}\r\n"));
            let headers = headers.collect::<String>();
            let head = format!("HTTP/1.1 {} X\r\n{headers}", reply.status);
            if request.method == "HEAD" {
                write!(stream, "{head}content-length: 0\r\n\r\n").ok()?;
                continue;
            }
            write!(stream, "{head}transfer-encoding: chunked\r\n\r\n").ok()?;
            for chunk in reply.body {
                match chunk {
                    Chunk::Send(bytes) => {
                        write!(stream, "{:x}\r\n", bytes.len()).ok()?;
                        stream.write_all(&bytes).ok()?;
                        stream.write_all(b"\r\n").ok()?;
                    }
                    Chunk::Pause(pause) => {
                        stream.set_read_timeout(Some(pause)).unwrap();
                        // In the middle of a response the client can only hang up.
                        if stream.read(&mut [0]).is_ok_and(|n_bytes| n_bytes == 0) {
                            self.seen.lock().unwrap().hangups += 1;
                            self.changed.notify_all();
                            return None;
                        }
                        stream.set_read_timeout(None).unwrap();
                    }
                    Chunk::Hangup => return stream.shutdown(std::net::Shutdown::Both).ok(),
                }
            }
            stream.write_all(b"0\r\n\r\n").ok()?;
        }
    }
}

/// Gemini: the next content has all results, in the order of the calls.
fn gemini_pairs(body: &Value) -> bool {
    let mut waiting = Vec::new();
    let mut paired = true;
    for content in body["contents"].as_array().into_iter().flatten() {
        let parts = |kind: &str| {
            let parts = content["parts"].as_array().into_iter().flatten();
            let parts = parts.filter(|part| part[kind].is_object());
            parts.map(|part| [part[kind]["id"].clone(), part[kind]["name"].clone()]).collect()
        };
        let results: Vec<_> = parts("functionResponse");
        paired &= results == waiting;
        waiting = parts("functionCall");
    }
    paired && waiting.is_empty()
}

/// OpenAI Responses: calls and their results are items of one list.
fn responses_pair(body: &Value) -> bool {
    let (mut waiting, mut answering) = (Vec::new(), false);
    for item in body["input"].as_array().into_iter().flatten() {
        match item["type"].as_str() {
            Some("function_call_output") => {
                let call = waiting.iter().position(|call| *call == &item["call_id"]);
                let Some(call) = call else { return false };
                waiting.remove(call);
                answering = true;
                continue;
            }
            Some("function_call") if !answering => waiting.push(&item["call_id"]),
            _ if item["role"] != "user" && !answering => {}
            // All results come before anything else.
            _ if !waiting.is_empty() => return false,
            Some("function_call") => waiting.push(&item["call_id"]),
            _ => {}
        }
        answering = false;
    }
    waiting.is_empty()
}

fn read(reader: &mut BufReader<&TcpStream>, connection: usize) -> Option<Request> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        match line.trim_end() {
            "" => break,
            line => lines.push(line.to_owned()),
        }
    }
    let mut words = lines.first()?.split(' ').map(ToOwned::to_owned);
    let (method, path) = (words.next()?, words.next()?);
    let headers = lines[1..].iter().filter_map(|line| line.split_once(": "));
    let headers = headers.map(|(name, value)| (name.to_lowercase(), value.to_owned()));
    let headers = headers.collect();
    let mut request = Request { method, path, headers, body: String::new(), connection };
    let length = request.header("content-length").map_or(0, |length| length.parse().unwrap());
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    request.body = String::from_utf8(body).unwrap();
    Some(request)
}
