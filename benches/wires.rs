//! What it costs to decode a streamed answer, as a ratio to parsing the same payloads with `serde_json`, and how
//! long after its arrival a text is decoded.
//!
//! `cargo bench --bench wires` prints the tables of `docs/BENCHMARKS.md`. Goals: 3, and 1 ms.
#![expect(clippy::print_stdout, reason = "it prints its tables")]

use std::error::Error;
use std::fmt::Write as _;
use std::hint::black_box;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener};
use std::time::{Duration, Instant};

use agent_model::Endpoint;
use agent_protocol::message::{Message, Role};
use agent_protocol::model::{Delta, Model, Purpose, Reply, Request};
use agent_protocol::provider::WireFormat;
use futures_util::StreamExt as _;
use serde_json::{Value, json};

const TEXTS: usize = 5_000;
const FRAGMENTS: usize = 500;
const RUNS: usize = 15;

fn main() -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    println!("{:<20} {:>10} {:>10} {:>7}", "wire format", "serde_json", "decoded", "ratio");
    for (wire, payloads) in [
        (WireFormat::OpenaiChat, chat()),
        (WireFormat::AnthropicMessages, messages()),
        (WireFormat::OpenaiResponses, responses()),
        (WireFormat::Gemini, gemini()),
    ] {
        let parsed = median(|| payloads.iter().filter_map(|text| parse(text)).count());
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let mut endpoint = Endpoint::new("p/m", format!("http://{}/v1", listener.local_addr()?));
        endpoint.wire = wire;
        let server = std::thread::spawn(move || send_answers(&listener, &payloads));
        let mut times = Vec::new();
        for _ in 0..RUNS {
            let model = agent_model::connect(endpoint.clone())?;
            let started = Instant::now();
            let reply = runtime.block_on(answer(&*model));
            times.push(started.elapsed());
            assert_eq!(reply.calls.len(), 1, "{}: {:?}", wire.as_str(), reply.stop);
        }
        server.join().map_err(|_| "the server panicked")??;
        times.sort();
        let decoded = times[RUNS / 2];
        let ratio = decoded.as_secs_f64() / parsed.as_secs_f64();
        let name = wire.as_str();
        println!("{name:<20} {:>7.2} ms {:>7.2} ms {ratio:>7.2}", ms(parsed), ms(decoded));
    }
    let mut delays = runtime.block_on(delays())?;
    delays.sort();
    let at = |part: usize| ms(delays[delays.len() * part / 100]);
    println!(
        "\nfrom the server's write to the delta: median {:.3} ms, p99 {:.3} ms",
        at(50),
        at(99)
    );
    Ok(())
}

fn ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

fn median(mut work: impl FnMut() -> usize) -> Duration {
    let mut times: Vec<Duration> = (0..RUNS)
        .map(|_| {
            let started = Instant::now();
            black_box(work());
            started.elapsed()
        })
        .collect();
    times.sort();
    times[RUNS / 2]
}

fn parse(text: &str) -> Option<Value> {
    black_box(serde_json::from_str(text).ok())
}

async fn answer(model: &dyn Model) -> Reply {
    let messages = [Message::text(Role::User, "hello")];
    let request = Request::new(Purpose::Main, "", &messages);
    let mut stream = model.stream(&request);
    let mut reply = Reply::default();
    while let Some(Ok(delta)) = stream.next().await {
        reply.apply_delta(&delta);
    }
    reply
}

/// Answers each run with these payloads, as fast as they are read.
fn send_answers(listener: &TcpListener, payloads: &[String]) -> std::io::Result<()> {
    let mut answer = String::from(
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n",
    );
    for text in payloads {
        let _ = write!(answer, "data: {text}\n\n");
    }
    for _ in 0..RUNS {
        let (mut stream, _) = listener.accept()?;
        let _ = stream.read(&mut vec![0; 65_536])?;
        stream.write_all(answer.as_bytes())?;
        stream.shutdown(Shutdown::Write)?;
        // Closing a connection with unread bytes would take the answer back.
        std::io::copy(&mut stream, &mut std::io::sink())?;
    }
    Ok(())
}

/// The delays between writing a text and its delta, through a real connection.
async fn delays() -> Result<Vec<Duration>, Box<dyn Error>> {
    const N: u64 = 1_000;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let url = format!("http://{}/v1", listener.local_addr()?);
    let start = Instant::now();
    let server = std::thread::spawn(move || -> std::io::Result<()> {
        let (mut stream, _) = listener.accept()?;
        stream.set_nodelay(true)?;
        let _ = stream.read(&mut vec![0; 65_536])?;
        stream.write_all(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n",
        )?;
        for _ in 0..N {
            std::thread::sleep(Duration::from_millis(1));
            let now = format!("{} ", start.elapsed().as_nanos());
            let chunk = json!({"choices": [{"index": 0, "delta": {"content": now}}]});
            stream.write_all(format!("data: {chunk}\n\n").as_bytes())?;
        }
        stream.write_all(
            b"data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n",
        )
    });
    let model = agent_model::connect(Endpoint::new("p/m", url))?;
    let messages = [Message::text(Role::User, "hello")];
    let request = Request::new(Purpose::Main, "", &messages);
    let mut stream = model.stream(&request);
    let mut delays = Vec::new();
    while let Some(delta) = stream.next().await {
        if let Delta::Text(text) = delta? {
            let sent = Duration::from_nanos(text.trim().parse()?);
            delays.push(start.elapsed().saturating_sub(sent));
        }
    }
    server.join().map_err(|_| "the server panicked")??;
    Ok(delays)
}

/// A few words of an answer.
fn words(n: usize) -> String {
    format!(" word{n} and \"quoted\" é")
}

/// The arguments of a call, in fragments.
fn arguments() -> Vec<String> {
    let mut text = String::from("{\"path\":\"a.txt\",\"content\":\"");
    for n in 0..FRAGMENTS {
        let _ = write!(text, "line {n}\\n");
    }
    text.push_str("\"}");
    text.as_bytes().chunks(12).map(|part| String::from_utf8_lossy(part).into_owned()).collect()
}

fn chat() -> Vec<String> {
    let chunk = |delta: &Value, finish: &Value| {
        json!({"id": "chatcmpl-B9MHDbslfkBeAs8l4bebGdFOJ6PeG", "object": "chat.completion.chunk",
               "created": 1_741_570_283, "model": "gpt-5.5", "service_tier": "default",
               "system_fingerprint": "fp_50cad350e4",
               "choices": [{"index": 0, "delta": delta, "logprobs": null, "finish_reason": finish}]})
        .to_string()
    };
    let texts = (0..TEXTS).map(|n| chunk(&json!({"content": words(n)}), &Value::Null));
    let mut payloads: Vec<String> = texts.collect();
    let head = json!({"tool_calls": [{"index": 0, "id": "call_1", "type": "function",
                                      "function": {"name": "Write", "arguments": ""}}]});
    payloads.push(chunk(&head, &Value::Null));
    payloads.extend(arguments().iter().map(|part| {
        let call = json!({"tool_calls": [{"index": 0, "function": {"arguments": part}}]});
        chunk(&call, &Value::Null)
    }));
    payloads.push(chunk(&json!({}), &json!("tool_calls")));
    payloads.push("[DONE]".to_owned());
    payloads
}

fn messages() -> Vec<String> {
    let delta = |index: usize, delta: &Value| {
        json!({"type": "content_block_delta", "index": index, "delta": delta}).to_string()
    };
    let block = |index: usize, block: &Value| {
        json!({"type": "content_block_start", "index": index, "content_block": block}).to_string()
    };
    let stop = |index: usize| json!({"type": "content_block_stop", "index": index}).to_string();
    let mut payloads = vec![
        json!({"type": "message_start", "message": {"id": "msg_1", "type": "message", "role": "assistant",
               "model": "m", "content": [], "stop_reason": null,
               "usage": {"input_tokens": 9, "output_tokens": 1}}})
        .to_string(),
        block(0, &json!({"type": "text", "text": ""})),
    ];
    payloads.extend((0..TEXTS).map(|n| delta(0, &json!({"type": "text_delta", "text": words(n)}))));
    payloads.push(stop(0));
    payloads.push(block(
        1,
        &json!({"type": "tool_use", "id": "toolu_1", "name": "Write", "input": {}}),
    ));
    let fragments = arguments();
    payloads.extend(
        fragments
            .iter()
            .map(|part| delta(1, &json!({"type": "input_json_delta", "partial_json": part}))),
    );
    payloads.push(stop(1));
    payloads.push(
        json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 9}})
            .to_string(),
    );
    payloads.push(json!({"type": "message_stop"}).to_string());
    payloads
}

fn responses() -> Vec<String> {
    let text: String = (0..TEXTS).map(words).collect();
    let whole = arguments().concat();
    let message = json!({"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
                         "content": [{"type": "output_text", "text": text, "annotations": []}]});
    let call = json!({"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "Write",
                      "arguments": whole, "status": "completed"});
    let event = |kind: &str, index: usize, id: &str, key: &str, value: &Value| {
        let mut event = json!({"type": format!("response.{kind}"), "sequence_number": 7, "item_id": id,
                               "output_index": index, "content_index": 0, "logprobs": []});
        event[key] = value.clone();
        event.to_string()
    };
    let begun = json!({"type": "message", "id": "msg_1", "role": "assistant", "content": []});
    let mut payloads = vec![event("output_item.added", 0, "msg_1", "item", &begun)];
    payloads.extend(
        (0..TEXTS).map(|n| event("output_text.delta", 0, "msg_1", "delta", &json!(words(n)))),
    );
    payloads.push(event("output_item.done", 0, "msg_1", "item", &message));
    let begun = json!({"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "Write", "arguments": ""});
    payloads.push(event("output_item.added", 1, "fc_1", "item", &begun));
    let kind = "function_call_arguments.delta";
    payloads.extend(arguments().iter().map(|part| event(kind, 1, "fc_1", "delta", &json!(part))));
    payloads.push(event("output_item.done", 1, "fc_1", "item", &call));
    payloads.push(
        json!({"type": "response.completed", "response": {"object": "response", "status": "completed",
               "output": [message, call], "usage": {"input_tokens": 9, "output_tokens": 9}}})
        .to_string(),
    );
    payloads
}

fn gemini() -> Vec<String> {
    let chunk = |part: &Value, finish: Option<&str>| {
        json!({"candidates": [{"content": {"parts": [part], "role": "model"}, "finishReason": finish, "index": 0}],
               "usageMetadata": {"promptTokenCount": 9, "candidatesTokenCount": 9, "totalTokenCount": 18,
                                 "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 9}]},
               "modelVersion": "gemini-3-pro", "responseId": "mMqJaKD5A6qTxN8P8u2i8Ac"})
        .to_string()
    };
    let mut payloads: Vec<String> =
        (0..TEXTS).map(|n| chunk(&json!({"text": words(n)}), None)).collect();
    let arguments: Value = serde_json::from_str(&arguments().concat()).unwrap_or_default();
    payloads
        .push(chunk(&json!({"functionCall": {"name": "Write", "args": arguments}}), Some("STOP")));
    payloads
}
