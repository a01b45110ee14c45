//! OpenTelemetry: what a receiver gets from the built binary, and what happens if it does not work.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::support::server::{Chunk, Reply, Request, Server, json as answer, sse_text};
use crate::support::{Done, Test, wait_for};

const TRACEPARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

fn receiver() -> Server {
    Server::with(|_: &Request, _| answer(200, &json!({})))
}

/// Exports to this receiver; what ends is sent at the end.
fn exporting(test: Test, receiver: &Server) -> Test {
    let base = receiver.url();
    test.env("OTEL_EXPORTER_OTLP_ENDPOINT", base.trim_end_matches("/v1"))
}

/// A span as received, with its attributes by name.
#[derive(Clone, Debug)]
struct Span {
    trace: String,
    id: String,
    parent: Option<String>,
    name: String,
    kind: u64,
    times: (u64, u64),
    is_error: bool,
    attributes: BTreeMap<String, Value>,
    events: Vec<String>,
}

/// The spans that the receiver got, the latest to begin last; each field is in the form of OTLP's JSON.
fn spans(receiver: &Server) -> Vec<Span> {
    let requests = receiver.finish().into_iter().filter(|request| request.path == "/v1/traces");
    let mut spans = Vec::new();
    for request in requests {
        assert_eq!(request.header("content-type"), Some("application/json"));
        let body = request.json();
        let [resource] = array(&body["resourceSpans"]) else { panic!("{body}") };
        let [scope] = array(&resource["scopeSpans"]) else { panic!("{body}") };
        assert_eq!(scope["scope"]["name"], "code-agent");
        spans.extend(array(&scope["spans"]).iter().map(span));
    }
    spans.sort_by_key(|span| span.times);
    spans
}

fn span(json: &Value) -> Span {
    const FIELDS: [&str; 10] = [
        "traceId",
        "spanId",
        "parentSpanId",
        "name",
        "kind",
        "startTimeUnixNano",
        "endTimeUnixNano",
        "attributes",
        "events",
        "status",
    ];
    for name in json.as_object().unwrap().keys() {
        assert!(FIELDS.contains(&name.as_str()), "{name}");
    }
    let id = |name: &str, length: usize| {
        let id = json[name].as_str().unwrap().to_owned();
        assert!(id.len() == length && id.bytes().all(|byte| byte.is_ascii_hexdigit()), "{id}");
        id
    };
    let events = array(&json["events"]).iter();
    Span {
        trace: id("traceId", 32),
        id: id("spanId", 16),
        parent: json.get("parentSpanId").map(|_| id("parentSpanId", 16)),
        name: json["name"].as_str().unwrap().to_owned(),
        kind: json["kind"].as_u64().unwrap(),
        times: (number(&json["startTimeUnixNano"]), number(&json["endTimeUnixNano"])),
        is_error: json["status"] == json!({"code": 2}),
        attributes: attributes(&json["attributes"]),
        events: events.map(|event| event["name"].as_str().unwrap().to_owned()).collect(),
    }
}

/// 64-bit numbers are texts.
fn number(json: &Value) -> u64 {
    json.as_str().unwrap().parse().unwrap()
}

fn array(json: &Value) -> &[Value] {
    json.as_array().map_or(&[], Vec::as_slice)
}

fn attributes(json: &Value) -> BTreeMap<String, Value> {
    let pairs = array(json).iter().map(|attribute| {
        let value = attribute["value"].as_object().unwrap();
        assert_eq!(value.len(), 1);
        let (kind, value) = value.iter().next().unwrap();
        let value = match kind.as_str() {
            "intValue" => number(value).into(),
            "arrayValue" => {
                array(&value["values"]).iter().map(|item| item["stringValue"].clone()).collect()
            }
            "stringValue" | "doubleValue" | "boolValue" => value.clone(),
            other => panic!("{other}"),
        };
        (attribute["key"].as_str().unwrap().to_owned(), value)
    });
    pairs.collect()
}

fn named<'a>(spans: &'a [Span], name: &str) -> &'a Span {
    let found: Vec<&Span> = spans.iter().filter(|span| span.name == name).collect();
    assert_eq!(found.len(), 1, "{name} in {spans:#?}");
    found[0]
}

/// The points of the metrics that the receiver got, by the metric's name.
fn points(receiver: &Server) -> BTreeMap<String, Vec<Value>> {
    let mut points: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for request in receiver.finish() {
        if request.path != "/v1/metrics" {
            continue;
        }
        let body = request.json();
        for metric in array(&body["resourceMetrics"][0]["scopeMetrics"][0]["metrics"]) {
            assert_eq!(metric["histogram"]["aggregationTemporality"], 2);
            let name = metric["name"].as_str().unwrap().to_owned();
            let more = array(&metric["histogram"]["dataPoints"]).to_vec();
            points.entry(name).or_default().extend(more);
        }
    }
    points
}

#[test]
fn turn_is_a_trace_of_model_requests_and_tool_calls() {
    let receiver = receiver();
    let script = "call: Read {\"path\":\"a.txt\"}\n---\ncall: Bash {\"command\":\"exit 3\"}\n---\n\
        text: the answer";
    let test = Test::new().file("a.txt", "secret content\n").script(script);
    let test = exporting(test, &receiver).env("OTEL_SERVICE_NAME", "mine");
    let test = test.env("OTEL_RESOURCE_ATTRIBUTES", "team=a%20b");
    test.run(&["the task", "--no-memory"]).expect_code(0);
    let session = test.events()[0]["session"].clone();
    let spans = spans(&receiver);
    let turn = named(&spans, "invoke_agent agent").clone();
    assert_eq!((turn.parent.as_deref(), turn.kind, turn.is_error), (None, 1, false));
    let names: Vec<&str> = spans.iter().map(|span| span.name.as_str()).collect();
    assert_eq!(names.len(), 6, "{names:?}");
    for span in &spans {
        assert_eq!(span.trace, turn.trace);
        assert_eq!(span.attributes["gen_ai.conversation.id"], session);
        assert!(span.id == turn.id || span.parent.as_ref() == Some(&turn.id), "{span:?}");
        assert!(span.times.0 >= turn.times.0 && span.times.1 <= turn.times.1);
        assert!(span.times.0 <= span.times.1 && span.times.0 > 1_600_000_000_000_000_000);
    }
    for (name, value) in [
        ("gen_ai.operation.name", json!("invoke_agent")),
        ("gen_ai.agent.name", json!("agent")),
        ("code_agent.turn", json!(1)),
        ("code_agent.model_calls", json!(3)),
        ("code_agent.ending", json!("completed")),
    ] {
        assert_eq!(turn.attributes.get(name), Some(&value), "{name}");
    }
    let chats: Vec<&Span> = spans.iter().filter(|span| span.kind == 3).collect();
    assert_eq!(chats.len(), 3);
    assert!(chats.iter().all(|chat| chat.name == "chat script" && !chat.is_error));
    assert_eq!(chats[0].attributes["gen_ai.provider.name"], "script");
    assert_eq!(chats[0].attributes["gen_ai.response.finish_reasons"], json!(["tool_calls"]));
    assert_eq!(chats[2].attributes["gen_ai.response.finish_reasons"], json!(["stop"]));
    assert!(chats[0].attributes["gen_ai.usage.input_tokens"].as_u64().unwrap() > 0);
    let read = named(&spans, "execute_tool Read");
    assert_eq!(read.attributes["gen_ai.tool.name"], "Read");
    assert!(!read.is_error && read.attributes["gen_ai.tool.call.id"].is_string());
    let bash = named(&spans, "execute_tool Bash");
    assert!(bash.is_error);
    assert_eq!(bash.attributes["error.type"], "COMMAND_FAILED");
    // Content is exported only on request.
    for request in receiver.finish() {
        for content in ["the task", "secret content", "the answer", "exit 3", "a.txt"] {
            assert!(!request.body.contains(content), "{content}: {}", request.body);
        }
    }
    let resource = receiver.finish()[0].json()["resourceSpans"][0]["resource"].clone();
    let resource = attributes(&resource["attributes"]);
    assert_eq!(resource["service.name"], "mine");
    assert_eq!(resource["team"], "a b");
    assert!(resource["service.instance.id"].is_string());
}

#[test]
fn tokens_and_durations_are_exported_as_histograms() {
    let receiver = receiver();
    let script = "call: LS {}\n---\ncall: NoSuchTool {}\n---\ntext: done";
    let test = exporting(Test::new().script(script), &receiver);
    test.run(&["task", "--no-memory"]).expect_code(0);
    let points = points(&receiver);
    let names: Vec<&str> = points.keys().map(String::as_str).collect();
    let expected = [
        "gen_ai.client.operation.duration",
        "gen_ai.client.token.usage",
        "gen_ai.execute_tool.duration",
        "gen_ai.invoke_agent.duration",
    ];
    assert_eq!(names, expected);
    for point in points.values().flatten() {
        let counts: u64 = array(&point["bucketCounts"]).iter().filter_map(Value::as_u64).sum();
        assert_eq!(point["count"], counts);
        let (counts, bounds) = (array(&point["bucketCounts"]), array(&point["explicitBounds"]));
        assert_eq!(counts.len(), bounds.len() + 1);
        assert!(number(&point["startTimeUnixNano"]) < number(&point["timeUnixNano"]));
    }
    let chats = &points["gen_ai.client.operation.duration"];
    assert_eq!((chats.len(), &chats[0]["count"]), (1, &json!(3)));
    let tokens = &points["gen_ai.client.token.usage"];
    let kinds: Vec<Value> = tokens
        .iter()
        .map(|point| attributes(&point["attributes"])["gen_ai.token.type"].clone())
        .collect();
    assert_eq!(kinds, ["input", "output"]);
    let events = test.events_of("model.responded");
    let sent: f64 = events.iter().filter_map(|it| it["usage"]["input_tokens"].as_f64()).sum();
    assert!((tokens[0]["sum"].as_f64().unwrap() - sent).abs() < 0.1, "{tokens:?}");
    // Names that a model invents make no series of their own.
    let tools: Vec<BTreeMap<String, Value>> = points["gen_ai.execute_tool.duration"]
        .iter()
        .map(|point| attributes(&point["attributes"]))
        .collect();
    let tools: Vec<Option<&Value>> = tools.iter().map(|it| it.get("gen_ai.tool.name")).collect();
    assert_eq!(tools, [None, Some(&json!("LS"))]);
}

#[test]
fn facts_are_exported_as_log_events() {
    let receiver = receiver();
    let script = "call: Read {\"path\":\"secret.txt\"}\n---\ntext: the answer";
    let test = exporting(Test::new().script(script), &receiver);
    test.run(&["the task", "--no-memory"]).expect_code(0);
    let requests = receiver.finish().into_iter().filter(|request| request.path == "/v1/logs");
    let mut records = Vec::new();
    for request in requests {
        for content in ["the task", "secret.txt", "the answer"] {
            assert!(!request.body.contains(content), "{content}: {}", request.body);
        }
        let body = request.json();
        assert!(body["resourceLogs"][0]["resource"]["attributes"].is_array());
        records.extend(array(&body["resourceLogs"][0]["scopeLogs"][0]["logRecords"]).to_vec());
    }
    let names: Vec<&str> = records.iter().map(|it| it["eventName"].as_str().unwrap()).collect();
    assert_eq!(
        names,
        [
            "code_agent.session.started",
            "code_agent.turn.started",
            "code_agent.call.finished",
            "code_agent.decision",
            "code_agent.turn.finished"
        ]
    );
    let session = test.events()[0]["session"].clone();
    let turn = named(&spans(&receiver), "invoke_agent agent").clone();
    for record in &records {
        assert_eq!(attributes(&record["attributes"])["gen_ai.conversation.id"], session);
        assert!(number(&record["timeUnixNano"]) > 1_600_000_000_000_000_000);
    }
    for record in &records[1..] {
        assert_eq!((&record["traceId"], &record["spanId"]), (&json!(turn.trace), &json!(turn.id)));
    }
    let call = attributes(&records[2]["attributes"]);
    assert_eq!(
        (&call["gen_ai.tool.name"], &call["error.type"]),
        (&json!("Read"), &json!("NOT_FOUND"))
    );
    let severities: Vec<&Value> = records.iter().map(|it| &it["severityText"]).collect();
    assert_eq!(severities, ["INFO", "INFO", "WARN", "INFO", "INFO"]);
}

/// Prometheus names a metric by its name and unit.
#[test]
fn dashboard_names_only_metrics_that_are_exported() {
    let receiver = receiver();
    let test = exporting(Test::new().script("call: LS {}\n---\ntext: done"), &receiver);
    test.run(&["task", "--no-memory"]).expect_code(0);
    let exported: Vec<String> = points(&receiver)
        .keys()
        .map(|name| {
            let unit = if name.ends_with("duration") { "_seconds" } else { "" };
            format!("{}{unit}", name.replace('.', "_"))
        })
        .collect();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/telemetry/grafana.json");
    let dashboard: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let panels = array(&dashboard["panels"]);
    let sources = panels.iter().flat_map(|panel| array(&panel["targets"]));
    let queries: String = sources.map(|it| format!("{} ", it["expr"].as_str().unwrap())).collect();
    let used = queries.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let used: Vec<&str> = used
        .filter(|word| {
            word.starts_with("gen_ai_") && word.contains("_seconds_")
                || word.starts_with("gen_ai_client_token")
        })
        .collect();
    assert!(used.len() >= 6, "{queries}");
    for name in used {
        let base = ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end));
        assert!(
            exported.iter().any(|metric| Some(metric.as_str()) == base),
            "{name}: {exported:?}"
        );
    }
}

#[test]
fn nothing_is_exported_unless_variables_say_so() {
    let receiver = receiver();
    let base = receiver.url();
    let base = base.trim_end_matches("/v1");
    let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", base);
    for variables in [
        vec![("OTEL_SERVICE_NAME", "mine"), ("OTEL_TRACES_EXPORTER", "otlp")],
        vec![endpoint, ("OTEL_SDK_DISABLED", "true")],
        vec![
            endpoint,
            ("OTEL_TRACES_EXPORTER", "none"),
            ("OTEL_METRICS_EXPORTER", "none"),
            ("OTEL_LOGS_EXPORTER", "none"),
        ],
    ] {
        let mut test = Test::new().script("text: done");
        for (name, value) in variables {
            test = test.env(name, value);
        }
        let done = test.run(&["task", "--quiet"]).expect_code(0);
        assert_eq!(done.stderr, "");
    }
    assert!(receiver.finish().is_empty());
    // Another protocol is one warning for all signals.
    let test = exporting(Test::new().script("text: done"), &receiver);
    let test = test.env("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc");
    let done = test.run(&["task", "--quiet"]).expect_code(0);
    done.expect_one_line_of_stderr("OTEL_EXPORTER_OTLP_PROTOCOL=grpc is not supported");
    assert!(receiver.finish().is_empty());
}

#[test]
fn content_is_exported_on_request_and_masked() {
    let receiver = receiver();
    let script = "call: Read {\"path\":\"a.txt\"}\n---\ntext: the answer is ghp_abcdefghijklmnopqrstuvwxyz0123456789";
    let test = Test::new().file("a.txt", "the content\n").script(script);
    let test = exporting(test, &receiver)
        .env("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "true");
    test.run(&["the task", "--no-memory"]).expect_code(0);
    let spans = spans(&receiver);
    let json_of = |span: &Span, name: &str| -> Value {
        serde_json::from_str(span.attributes[name].as_str().unwrap()).unwrap()
    };
    let turn = named(&spans, "invoke_agent agent");
    let task = json!([{"role": "user", "parts": [{"type": "text", "content": "the task"}]}]);
    assert_eq!(json_of(turn, "gen_ai.input.messages"), task);
    let chats: Vec<&Span> = spans.iter().filter(|span| span.kind == 3).collect();
    assert_eq!(json_of(chats[0], "gen_ai.input.messages"), task);
    let called = json_of(chats[0], "gen_ai.output.messages");
    assert_eq!(called[0]["parts"][0]["type"], "tool_call");
    assert_eq!(called[0]["parts"][0]["arguments"], json!({"path": "a.txt"}));
    assert_eq!(called[0]["finish_reason"], "tool_call");
    // A request has what is new since the last one.
    let returned = json_of(chats[1], "gen_ai.input.messages");
    assert_eq!(returned.as_array().unwrap().len(), 1, "{returned}");
    assert_eq!(returned[0]["role"], "tool");
    assert!(returned[0]["parts"][0]["response"].as_str().unwrap().contains("the content"));
    let read = named(&spans, "execute_tool Read");
    assert_eq!(json_of(read, "gen_ai.tool.call.arguments"), json!({"path": "a.txt"}));
    let result = read.attributes["gen_ai.tool.call.result"].as_str().unwrap();
    assert!(result.contains("the content"));
    let last = json_of(chats[1], "gen_ai.output.messages")[0]["parts"][0]["content"].clone();
    assert_eq!(last, "the answer is [redacted:github-token]");
    assert!(receiver.finish().iter().all(|request| !request.body.contains("ghp_")));
}

#[test]
fn turn_is_part_of_the_trace_of_the_caller() {
    let receiver = receiver();
    let test = exporting(Test::new().script("text: done"), &receiver);
    let test = test.env("TRACEPARENT", TRACEPARENT);
    test.run(&["task"]).expect_code(0);
    let turn = named(&spans(&receiver), "invoke_agent agent").clone();
    assert_eq!(turn.trace, "4bf92f3577b34da6a3ce929d0e0e4736");
    assert_eq!(turn.parent.as_deref(), Some("00f067aa0ba902b7"));
}

#[test]
fn headers_are_sent_and_secret() {
    const KEY: &str = "q7Zp93kdLmx20aWbXX";
    let receiver = receiver();
    let script =
        "call: Bash {\"command\":\"env | grep OTEL; echo q7Zp93kdLmx20aWbXX\"}\n---\ntext: done";
    let test = exporting(Test::new().script(script), &receiver);
    let test =
        test.env("OTEL_EXPORTER_OTLP_HEADERS", &format!("x-team={KEY},authorization=Basic%20abcd"));
    test.run(&["task"]).expect_code(0);
    let requests = receiver.finish();
    assert_eq!(requests.len(), 3);
    for request in requests {
        assert_eq!(request.header("x-team"), Some(KEY));
        assert_eq!(request.header("authorization"), Some("Basic abcd"));
    }
    let log = std::fs::read_to_string(test.log()).unwrap();
    assert!(log.contains("[redacted:x-team]") && !log.contains(KEY), "{log}");
    assert!(!log.contains("HEADERS="), "{log}");
}

/// Runs with a receiver that answers so; returns the run and the number of requests for spans.
fn run_with(answers: impl Fn(&Request, usize) -> Reply + Send + Sync + 'static) -> (Done, usize) {
    let receiver = Server::with(answers);
    let test = exporting(Test::new().script("text: done"), &receiver);
    let test = test.env("OTEL_METRICS_EXPORTER", "none").env("OTEL_LOGS_EXPORTER", "none");
    let started = Instant::now();
    let done = test.run(&["task", "--quiet"]).expect_code(0);
    assert!(started.elapsed() < Duration::from_secs(30), "the exit is not delayed");
    assert_eq!(done.stdout, "done\n");
    (done, receiver.finish().len())
}

#[test]
fn temporary_failures_of_the_receiver_are_retried() {
    let busy = |_: &Request, n: usize| match n {
        0 => answer(429, &json!({})).header("retry-after", "0"),
        1 => answer(503, &json!({})).header("retry-after", "0.1"),
        _ => answer(200, &json!({})),
    };
    let (done, n) = run_with(busy);
    assert_eq!((done.stderr.as_str(), n), ("", 3));
}

#[test]
fn lost_telemetry_is_reported_once_and_changes_nothing() {
    let (done, n) = run_with(|_, _| answer(500, &json!({"message": "no\u{1b}[31m space"})));
    assert_eq!(n, 1);
    assert!(!done.stderr.contains('\u{1b}'), "{done:?}");
    done.expect_one_line_of_stderr("/v1/traces answered 500");
    let (done, n) = run_with(|_, _| answer(503, &json!({})).header("retry-after", "3600"));
    assert_eq!(n, 1);
    done.expect_one_line_of_stderr("answered 503");
    let partial = json!({"partialSuccess": {"rejectedSpans": "2", "errorMessage": "too old"}});
    let (done, _) = run_with(move |_, _| answer(200, &partial));
    done.expect_one_line_of_stderr("the receiver rejected a part: too old");
    // It answers too late: the run does not wait for it.
    let (done, _) =
        run_with(|_, _| answer(200, &json!({})).then(Chunk::Pause(Duration::from_mins(2))));
    assert_eq!(done.stdout, "done\n");
}

#[test]
fn receiver_that_is_not_there_does_not_disturb() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for (endpoint, why) in [
        (format!("http://{free}"), "telemetry: http://"),
        ("localhost:4318".to_owned(), "is not a URL"),
    ] {
        let test = Test::new().script("text: done").env("OTEL_EXPORTER_OTLP_ENDPOINT", &endpoint);
        let started = Instant::now();
        let done = test.run(&["task", "--quiet"]).expect_code(0);
        done.expect_stdout("done\n").expect_one_line_of_stderr(why);
        assert!(started.elapsed() < Duration::from_secs(30));
    }
    // Scripts see it too, beside the result.
    let test = Test::new().script("text: done");
    let test = test.env("OTEL_EXPORTER_OTLP_ENDPOINT", &format!("http://{free}"));
    let done = test.run(&["task", "--quiet", "--output-format", "json"]).expect_code(0);
    assert_eq!(done.lines().len(), 1);
    done.expect_one_line_of_stderr("telemetry: http://");
}

#[test]
fn spans_are_sent_in_batches_while_the_session_runs() {
    let receiver = receiver();
    let test = Test::new().script("call: LS {}\n---\nfault: hang");
    let test = exporting(test, &receiver).env("OTEL_BSP_SCHEDULE_DELAY", "1");
    let mut child = test.spawn(&["run", "task", "--model", "script:../script", "--no-memory"]);
    let has = |name: &str| spans(&receiver).iter().any(|span| span.name.starts_with(name));
    wait_for(|| has("execute_tool LS") && has("chat "));
    assert!(!has("invoke_agent"));
    child.kill().unwrap();
    child.wait().unwrap();
    // The turn of a killed program ends when the session is resumed.
    let before = spans(&receiver);
    let test = test.script("text: done");
    test.run(&["more", "-c", "--no-memory"]).expect_code(0);
    let after = spans(&receiver);
    let killed: Vec<&Span> = after
        .iter()
        .filter(|span| span.attributes.get("error.type") == Some(&json!("killed")))
        .collect();
    let names: Vec<&str> = killed.iter().map(|span| span.name.as_str()).collect();
    assert!(names.len() == 2 && names[0] == "invoke_agent agent", "{names:?}");
    assert!(names[1].starts_with("chat "), "{names:?}");
    assert_eq!(killed[0].trace, before[0].trace);
    assert_eq!(before[0].parent.as_ref(), Some(&killed[0].id));
    let turns = after.iter().filter(|span| span.name == "invoke_agent agent").count();
    assert_eq!(turns, 2);
}

#[test]
fn many_spans_are_sent_in_several_requests() {
    let receiver = receiver();
    let calls = "call: LS {}\n".repeat(300);
    let test = Test::new().script(&format!("{calls}---\n{calls}---\ntext: done"));
    let test = exporting(test, &receiver).env("OTEL_BSP_SCHEDULE_DELAY", "600000");
    test.run(&["task", "--no-memory"]);
    let requests = receiver.finish();
    let sizes: Vec<usize> = requests
        .iter()
        .filter(|request| request.path == "/v1/traces")
        .map(|request| array(&request.json()["resourceSpans"][0]["scopeSpans"][0]["spans"]).len())
        .collect();
    assert_eq!(sizes.len(), 2, "{sizes:?}");
    // The batch of log events may be full before.
    assert!(sizes[0] > 500 && sizes[0] <= 512, "{sizes:?}");
}

#[test]
fn interrupted_turn_ends_its_spans() {
    for (signal, error) in [(Signal::INT, "interrupted"), (Signal::TERM, "terminated")] {
        let receiver = receiver();
        let test = exporting(Test::new().script("fault: hang"), &receiver);
        let child = test.spawn(&["run", "task", "--model", "script:../script", "--no-memory"]);
        wait_for(|| test.has_event("model.requested"));
        kill_process(Pid::from_child(&child), signal).unwrap();
        child.wait_with_output().unwrap();
        let spans = spans(&receiver);
        assert_eq!(spans.len(), 2, "{spans:?}");
        for span in &spans {
            assert_eq!(span.attributes["error.type"], error);
            assert!(span.is_error);
        }
        assert_eq!(named(&spans, "invoke_agent agent").attributes["code_agent.ending"], error);
    }
}

#[test]
fn failed_requests_are_errors_with_the_code_of_the_turn() {
    for (fault, error, code) in
        [("unauthorized", "model_refused", 69), ("overloaded", "model_unavailable", 75)]
    {
        let receiver = receiver();
        let test = exporting(Test::new().script(&format!("fault: {fault}")), &receiver);
        let test = test.user_config("[requests]\nmax_tries = 1\n");
        test.run(&["task", "--no-memory"]).expect_code(code);
        let spans = spans(&receiver);
        assert_eq!(spans.len(), 2, "{spans:?}");
        assert!(spans.iter().all(|span| span.is_error && span.attributes["error.type"] == error));
    }
    // The window overflows.
    let receiver = receiver();
    let script = "call: LS {}\n---\nfault: overflow\n---\ntext: done";
    let test = exporting(Test::new().script(script), &receiver);
    test.run(&["task", "--no-memory"]);
    let spans = spans(&receiver);
    let errors: Vec<&Value> = spans
        .iter()
        .filter(|span| span.kind == 3)
        .filter_map(|span| span.attributes.get("error.type"))
        .collect();
    assert_eq!(errors, ["context_overflow"], "{spans:#?}");
}

#[test]
fn retries_of_a_request_are_events_of_its_span() {
    let receiver = receiver();
    let model = Server::with(|_: &Request, n| match n {
        0 => answer(503, &json!({"error": "busy"})).header("retry-after", "0"),
        _ => sse_text("ok"),
    });
    let test = exporting(Test::new(), &receiver);
    let args = ["run", "task", "--model", "openai/m", "--no-memory", "--base-url"];
    test.agent(&[&args[..], &[&model.url()]].concat()).expect_code(0);
    let spans = spans(&receiver);
    let chat = named(&spans, "chat m");
    assert_eq!(
        (chat.events.as_slice(), chat.is_error),
        (&["code_agent.retry".to_owned()][..], false)
    );
    assert_eq!(chat.attributes["gen_ai.provider.name"], "openai");
    assert_eq!(chat.attributes["gen_ai.usage.input_tokens"], 10);
}

#[test]
fn checks_and_their_results_are_spans() {
    let receiver = receiver();
    let script =
        "text: done\n---\ncall: Write {\"path\":\"ok\",\"content\":\"\"}\n---\ntext: done now";
    let test = exporting(Test::new().script(script), &receiver);
    test.run(&["task", "--check", "test -e ok", "--no-memory"]).expect_code(0);
    let spans = spans(&receiver);
    let checks: Vec<&Span> = spans.iter().filter(|span| span.name == "check").collect();
    let passed: Vec<&Value> =
        checks.iter().map(|check| &check.attributes["code_agent.check.passed"]).collect();
    assert_eq!(passed, [&json!(false), &json!(true)]);
    assert_eq!(checks[0].attributes["error.type"], "check_failed");
    let turn = named(&spans, "invoke_agent agent");
    assert_eq!(turn.events, ["code_agent.decision"]);
    assert_eq!(turn.attributes["code_agent.verified"], true);
    assert_eq!(turn.attributes["code_agent.files_changed"], 1);
}

#[test]
fn verification_and_compaction_contain_their_requests() {
    let verifier = "for: task\ncall: Read {\"path\":\"a.txt\"}\n---\nfor: task\n\
        text: {\"confirmed\": true, \"objection\": \"\", \"evidence\": []}";
    let receiver = receiver();
    let test = Test::new().file("a.txt", "one\n").file(".verifier", verifier).script("text: done");
    let test = exporting(test, &receiver);
    let args = ["task", "--no-memory", "--set", "verify.model=script:../project/.verifier"];
    test.run(&args).expect_code(0);
    let found = spans(&receiver);
    let verification = named(&found, "verification");
    assert_eq!(verification.attributes["code_agent.verification.confirmed"], true);
    let requests = found.iter().filter(|span| span.parent.as_ref() == Some(&verification.id));
    assert_eq!(requests.filter(|span| span.name == "chat script").count(), 2);

    let receiver = self::receiver();
    let script = "call: Read {\"path\":\"a.txt\"}\n---\ntext: one\n---\ntext: two\n---\ntext: three\n---\n\
        for: summary\ntext: ## Objectives & Status\ntext: all done";
    let test = Test::new().file("a.txt", "a line of the file\n".repeat(200)).script(script);
    let test = exporting(test.stdin("first\nsecond\nthird\n/compact\n"), &receiver);
    test.agent(&["--plain", "--model", "script:../script", "--no-memory"]).expect_code(0);
    assert!(test.has_event("context.compacted"));
    let found = spans(&receiver);
    let compaction = named(&found, "compaction");
    assert!(!compaction.is_error);
    assert!(compaction.attributes["code_agent.compaction.messages"].as_u64().unwrap() > 0);
    let summary = found.iter().filter(|span| span.parent.as_ref() == Some(&compaction.id));
    let purposes: Vec<&Value> = summary.map(|it| &it.attributes["code_agent.purpose"]).collect();
    assert_eq!(purposes, ["summary"]);
}

/// The session is opened again while its export still waits for the receiver.
#[test]
fn slow_receiver_does_not_hold_the_session() {
    let receiver =
        Server::with(|_, _| answer(200, &json!({})).then(Chunk::Pause(Duration::from_mins(2))));
    let test = Test::new().script("text: first\n---\ntext: second");
    let test = exporting(test.stdin("one\n/rewind 1 conversation\ntwo\n"), &receiver);
    let args = ["--plain", "--model", "script:../script", "--no-memory"];
    let done = test.agent(&args).expect_code(0);
    assert!(!done.stdout.contains("in use"), "{done:?}");
    assert_eq!(test.events_of("session.rewound").len(), 1);
    assert_eq!(test.events_of("turn.finished").len(), 2);
}
