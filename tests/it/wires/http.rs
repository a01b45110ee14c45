//! The HTTP model client: what it sends, how it handles responses, and when it retries.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use agent_model::Endpoint;
use agent_protocol::message::{Message, Role};
use agent_protocol::model::{
    Delta, Model, ModelError, ModelErrorKind, Purpose, Reply as Answer, Request, RetryNotice,
    StopReason, Usage,
};
use futures_util::StreamExt;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::json;

use crate::support::Test;
use crate::support::server::{
    Chunk, Reply, Server, html, json, no_answer, sse_calls, sse_raw, sse_text,
};

const SHORT: Duration = Duration::from_millis(100);
const LONG: Duration = Duration::from_secs(20);

fn endpoint(server: &Server) -> Endpoint {
    endpoint_at(&server.url())
}

fn endpoint_at(url: &str) -> Endpoint {
    let mut endpoint = Endpoint::new("test/m", url);
    endpoint.api_key = Some("sk-secret".into());
    endpoint.key_source = "TEST_API_KEY".into();
    endpoint.retries.base_delay = Duration::from_millis(1);
    endpoint
}

fn request(messages: &[Message]) -> Request<'_> {
    Request::new(Purpose::Main, "be brief", messages)
}

/// The answer, and the retries before it.
async fn ask(model: &dyn Model) -> Result<(Answer, Vec<RetryNotice>), ModelError> {
    let messages = [Message::text(Role::User, "hello")];
    let request = request(&messages);
    let mut stream = model.stream(&request);
    let (mut answer, mut retries) = (Answer::default(), Vec::new());
    while let Some(item) = stream.next().await {
        let delta = item?;
        answer.apply_delta(&delta);
        if let Delta::Retry(retry) = delta {
            retries.push(retry);
        }
    }
    Ok((answer, retries))
}

async fn ask_server(server: &Server) -> Result<(Answer, Vec<RetryNotice>), ModelError> {
    ask(&*agent_model::connect(endpoint(server)).unwrap()).await
}

/// Asserts that the server's only reply is a permanent error, without a retry.
async fn check_refused(reply: Reply, kind: ModelErrorKind, parts: &[&str]) {
    let server = Server::playing([reply]);
    let error = ask_server(&server).await.unwrap_err();
    assert_eq!(error.kind, kind, "{error}");
    let host = server.url();
    for part in parts.iter().chain([&host.as_str()]) {
        assert!(error.message.contains(part), "`{part}` is not in: {error}");
    }
    assert!(!error.message.contains("sk-secret"), "{error}");
    assert_eq!(server.finish().len(), 1, "{error}");
}

/// Asserts that the first reply is retried and reported with these parts; the second reply is
/// "fine".
async fn check_retried(reply: Reply, parts: &[&str]) {
    let is_slow = reply.body.iter().any(|chunk| matches!(chunk, Chunk::Pause(_)));
    let server = Server::playing([reply, sse_text("fine")]);
    let mut endpoint = endpoint(&server);
    if is_slow {
        endpoint.timeouts.idle = Some(SHORT);
        endpoint.timeouts.first_byte = Some(SHORT);
    }
    let (answer, retries) = ask(&*agent_model::connect(endpoint).unwrap()).await.unwrap();
    assert_eq!(answer.text, "fine", "{retries:?}");
    assert_eq!(retries.len(), 1, "{retries:?}");
    for part in parts {
        assert!(retries[0].error.contains(part), "`{part}` is not in: {}", retries[0].error);
    }
}

#[tokio::test]
async fn request_and_response_round_trip() {
    let server = Server::playing([sse_text("hi")]);
    let mut endpoint = endpoint(&server);
    endpoint.headers.push(("x-team".into(), "blue".into()));
    let (answer, retries) = ask(&*agent_model::connect(endpoint).unwrap()).await.unwrap();
    assert_eq!((answer.text.as_str(), answer.stop), ("hi", Some(StopReason::End)));
    assert_eq!(
        answer.usage,
        Some(Usage { input_tokens: 10, output_tokens: 2, cached_tokens: 0, ..Usage::default() })
    );
    assert_eq!(retries, []);

    let sent = server.finish().remove(0);
    assert_eq!((sent.method.as_str(), sent.path.as_str()), ("POST", "/v1/chat/completions"));
    assert_eq!(sent.header("authorization"), Some("Bearer sk-secret"));
    assert_eq!(sent.header("content-type"), Some("application/json"));
    assert_eq!(sent.header("x-team"), Some("blue"));
    let body = sent.json();
    assert_eq!((&body["model"], &body["stream"]), (&json!("m"), &json!(true)));
    assert_eq!(body["messages"][1], json!({"role": "user", "content": "hello"}));
}

#[tokio::test]
async fn one_connection_serves_all_requests() {
    let server = Server::with(|_, n| match n {
        // The end of the body arrives later than `[DONE]`.
        1 => sse_text("b").then(Chunk::Pause(Duration::from_millis(10))),
        2 => sse_calls(&[("Read", json!({"path": "a"})), ("LS", json!({}))]),
        _ => sse_text("a"),
    });
    let model = agent_model::connect(endpoint(&server)).unwrap();
    for _ in 0..4 {
        ask(&*model).await.unwrap();
    }
    let connections = server.finish().iter().map(|request| request.connection).collect::<Vec<_>>();
    assert_eq!(connections, [0, 0, 0, 0]);
}

#[tokio::test]
async fn calls_come_in_fragments() {
    let server = Server::playing([sse_raw(&[
        r#"{"choices":[{"delta":{"tool_calls":[{"function":{"name":"Read","arguments":"{\"pa"}}]}}]}"#,
        r#"{"choices":[{"delta":{"tool_calls":[{"function":{"arguments":"th\":\"a\"}"}}]}}]}"#,
        r#"{"choices":[{"delta":{"tool_calls":[{"function":{"name":"LS","arguments":{"n":1}}}]}}]}"#,
        "[DONE]",
    ])]);
    let (answer, _) = ask_server(&server).await.unwrap();
    let calls = answer.calls.iter().map(|call| (call.name.as_str(), call.arguments.as_str()));
    let expected = [("Read", "{\"path\":\"a\"}"), ("LS", "{\"n\":1}")];
    assert_eq!(calls.collect::<Vec<_>>(), expected);
    assert!(answer.calls[0].id.starts_with("call_") && answer.calls[0].id != answer.calls[1].id);
    assert_eq!((answer.stop, answer.usage), (Some(StopReason::ToolCalls), None));
}

#[tokio::test]
async fn non_streaming_response_is_accepted() {
    let server = Server::playing([json(
        200,
        &json!({"object": "chat.completion", "choices": [{"finish_reason": "stop",
                "message": {"role": "assistant", "content": "whole"}}],
                "usage": {"prompt_tokens": 3, "completion_tokens": 1}}),
    )]);
    let (answer, _) = ask_server(&server).await.unwrap();
    assert_eq!((answer.text.as_str(), answer.stop), ("whole", Some(StopReason::End)));
}

#[tokio::test]
async fn characters_split_over_chunks_are_decoded() {
    let event = "data: {\"choices\":[{\"delta\":{\"content\":\"a😀é\"}}]}\n\ndata: [DONE]\n\n";
    let mut reply = Reply::new(200, "text/event-stream", &b":"[..]);
    reply.body = event.bytes().map(|byte| Chunk::Send(vec![byte])).collect();
    let (answer, _) = ask_server(&Server::playing([reply])).await.unwrap();
    assert_eq!(answer.text, "a😀é");
}

#[tokio::test]
async fn complete_answer_does_not_need_done_or_eof() {
    let finished = r#"{"choices":[{"delta":{"content":"a"},"finish_reason":"stop"}]}"#;
    let (answer, _) = ask_server(&Server::playing([sse_raw(&[finished])])).await.unwrap();
    assert_eq!(answer.stop, Some(StopReason::End));

    // The server hangs after its last event.
    let server = Server::playing([sse_raw(&[finished, "[DONE]"]).then(Chunk::Pause(LONG))]);
    let start = Instant::now();
    let (answer, retries) = ask_server(&server).await.unwrap();
    assert_eq!((answer.text.as_str(), retries.len()), ("a", 0));
    assert!(start.elapsed() < LONG);
}

#[tokio::test]
async fn transient_errors_are_retried() {
    let half = r#"{"choices":[{"delta":{"content":"half"}}]}"#;
    check_retried(json(500, &json!({"error": {"message": "boom"}})), &["500", "boom"]).await;
    check_retried(json(429, &json!({"error": "slow"})), &["429", "too many requests"]).await;
    check_retried(html(200), &["HTML", "check base_url"]).await;
    check_retried(html(503), &["503", "HTML"]).await;
    check_retried(no_answer(), &["broke before an answer"]).await;
    check_retried(sse_raw(&[half]).then(Chunk::Hangup), &["broke in mid-answer"]).await;
    check_retried(sse_raw(&[half]), &["ended before it was complete"]).await;
    check_retried(sse_raw(&[]), &["ended before it was complete"]).await;
    check_retried(sse_raw(&[half, "{\"choi"]), &["garbage: {\"choi"]).await;
    check_retried(sse_raw(&[half, r#"{"error":{"code":502}}"#]), &["answered 502"]).await;
    check_retried(sse_raw(&[half]).then(Chunk::Pause(LONG)), &["no data for 0.1 s"]).await;
    check_retried(Reply { body: vec![Chunk::Pause(LONG)], ..sse_raw(&[]) }, &["no data"]).await;
}

#[tokio::test]
async fn retry_after_header_is_honoured() {
    let busy = |seconds| json(429, &json!({"error": "slow"})).header("retry-after", seconds);
    let server = Server::playing([busy("0"), busy("1"), sse_text("fine")]);
    let start = Instant::now();
    let (answer, retries) = ask_server(&server).await.unwrap();
    assert_eq!(answer.text, "fine");
    let delays = retries.iter().map(|retry| (retry.attempt, retry.delay.as_secs()));
    assert_eq!(delays.collect::<Vec<_>>(), [(1, 0), (2, 1)]);
    assert!(start.elapsed() >= Duration::from_secs(1));

    check_refused(busy("3600"), ModelErrorKind::Unavailable, &["wait 3600 s"]).await;
}

#[tokio::test]
async fn number_of_retries_is_limited() {
    let server = Server::with(|_, _| json(503, &json!({"error": "busy"})));
    let error = ask_server(&server).await.unwrap_err();
    assert_eq!((error.kind, error.status), (ModelErrorKind::Unavailable, Some(503)));
    assert!(error.message.ends_with("(10 tries)"), "{error}");
    assert_eq!(server.finish().len(), 10);
}

#[tokio::test]
async fn permanent_errors_are_not_retried() {
    use ModelErrorKind::{Overflow, Refused};
    let said = |message: &str| json!({"error": {"message": message}});
    let key = json(401, &said("bad key sk-secret"));
    check_refused(key, Refused, &["bad key [redacted:key]", "from TEST_API_KEY"]).await;
    check_refused(json(403, &said("no")), Refused, &["not allowed"]).await;
    check_refused(json(404, &said("no m")), Refused, &["`m` is unknown", "GET http", "models"])
        .await;
    check_refused(json(400, &said("bad")), Refused, &["`m` (400); \"bad\" (http"]).await;
    check_refused(html(413), Refused, &["too large"]).await;
    let quota = json!({"error": {"message": "pay", "code": "insufficient_quota"}});
    check_refused(json(429, &quota), ModelErrorKind::Quota, &["quota is used up", "TEST_API_KEY"])
        .await;
    let moved = html(307).header("location", "https://user:pw@elsewhere.example/x?key=1");
    check_refused(moved, Refused, &["redirects to https://elsewhere.example/x (307)"]).await;
    let long = said("This model's maximum context length is 10 tokens");
    check_refused(json(400, &long), Overflow, &["longer than m accepts"]).await;
    check_refused(sse_raw(&[&long.to_string()]), Overflow, &["longer than m accepts"]).await;
}

#[tokio::test]
async fn unreachable_server_is_reported() {
    // The port is free again once the listener is dropped.
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let model = agent_model::connect(endpoint_at(&format!("http://{address}/v1"))).unwrap();
    let error = ask(&*model).await.unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::Unavailable);
    let expected = format!("nothing listens at {address}; start the server");
    assert!(error.message.contains(&expected), "{error}");

    let mut endpoint = endpoint_at("http://no-such-host.invalid/v1");
    endpoint.proxy = Some("none".into());
    endpoint.retries.max_attempts = 1;
    let error = ask(&*agent_model::connect(endpoint).unwrap()).await.unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::Unavailable);
    assert!(error.message.contains("no-such-host.invalid"), "{error}");
}

#[tokio::test]
async fn a_proxy_is_used() {
    let server = Server::playing([sse_text("hi")]);
    let mut endpoint = endpoint_at("http://model.example/v1");
    endpoint.proxy = Some(server.url().replace("/v1", ""));
    let (answer, _) = ask(&*agent_model::connect(endpoint).unwrap()).await.unwrap();
    assert_eq!(answer.text, "hi");
    assert_eq!(server.finish()[0].path, "http://model.example/v1/chat/completions");
}

#[test]
fn proxy_of_the_environment_that_is_down_is_named() {
    // A port that is free again when the listener is dropped.
    let proxy =
        format!("http://{}", TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap());
    let run = |variables: &[(&str, &str)], base_url: &str| {
        let test = Test::new().env("OPENAI_API_KEY", "k");
        let test = variables.iter().fold(test, |test, (name, value)| test.env(name, value));
        let url = format!("providers.openai.base_url={base_url}");
        let retry = "requests.retry_for=100ms";
        let args = ["run", "x", "--model", "openai/m", "--set", &url, "--set", retry];
        test.agent(&args).expect_code(75).stderr
    };
    let named = format!("nothing listens at the proxy {proxy}; start it, or check HTTPS_PROXY");
    for (variable, url) in [
        ("HTTPS_PROXY", "https://model.invalid/v1"),
        ("ALL_PROXY", "https://model.invalid/v1"),
        ("http_proxy", "http://model.invalid/v1"),
    ] {
        let stderr = run(&[(variable, &proxy)], url);
        assert!(stderr.contains(&named), "{variable}: {stderr}");
    }
    let without = [("HTTPS_PROXY", proxy.as_str()), ("NO_PROXY", "model.invalid")];
    let stderr = run(&without, "https://model.invalid/v1");
    assert!(!stderr.contains("proxy") && stderr.contains("no host of that name"), "{stderr}");
}

/// Runs `serve` on each connection; returns the address with this scheme.
fn raw_server(scheme: &str, serve: impl Fn(TcpStream) + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || listener.incoming().map_while(Result::ok).for_each(serve));
    format!("{scheme}://{address}/v1")
}

#[tokio::test]
async fn tls_to_a_plain_http_port_is_explained() {
    let url = raw_server("https", |mut stream| {
        let _ = stream.read(&mut [0; 1024]);
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
    });
    let error = ask(&*agent_model::connect(endpoint_at(&url)).unwrap()).await.unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::Refused, "{error}");
    assert!(error.message.contains("is it http://?"), "{error}");
}

/// The certificate of the authority that [`tls_server`] needs.
pub(crate) fn authority() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/wires/tls/authority.pem")
}

/// The address of a server that answers each request over TLS with this body.
pub(crate) fn tls_server(content_type: &'static str, body: &'static str) -> String {
    let folder = authority().with_file_name("");
    let certificate = CertificateDer::from_pem_file(folder.join("server.pem")).unwrap();
    let key = PrivateKeyDer::from_pem_file(folder.join("server.key")).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    let config = Arc::new(config);
    raw_server("https", move |stream| {
        let connection = rustls::ServerConnection::new(Arc::clone(&config)).unwrap();
        let mut stream = rustls::StreamOwned::new(connection, stream);
        // A client that does not trust the certificate ends the handshake.
        let _ = stream.read(&mut [0; 4096]).and_then(|_| {
            let n = body.len();
            let head = format!("content-type: {content_type}\r\ncontent-length: {n}");
            write!(stream, "HTTP/1.1 200 OK\r\n{head}\r\n\r\n{body}")
        });
    })
}

#[tokio::test]
async fn a_certificate_is_trusted_through_its_authority() {
    let body = r#"{"choices":[{"message":{"content":"safe"}}]}"#;
    let url = tls_server("application/json", body);
    let mut endpoint = endpoint_at(&url);
    let error = ask(&*agent_model::connect(endpoint.clone()).unwrap()).await.unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::Refused, "{error}");
    assert!(error.message.contains("certificate is not trusted"), "{error}");
    assert!(error.message.contains("`ca_file`"), "{error}");

    endpoint.ca_file = Some(authority());
    let (answer, _) = ask(&*agent_model::connect(endpoint).unwrap()).await.unwrap();
    assert_eq!(answer.text, "safe");
}

#[tokio::test]
async fn invalid_endpoint_configuration_is_reported() {
    fn check(change: impl FnOnce(&mut Endpoint), part: &str) -> Option<Box<dyn Model>> {
        let mut endpoint = endpoint_at("http://127.0.0.1:9/v1");
        change(&mut endpoint);
        match agent_model::connect(endpoint) {
            Ok(model) => Some(model),
            Err(error) => {
                assert_eq!(error.kind, ModelErrorKind::Configuration);
                assert!(error.message.contains(part), "{error}");
                None
            }
        }
    }
    for url in ["", "localhost:8080/v1", "ftp://h/v1", "h/v1"] {
        let model =
            check(|endpoint| endpoint.base_url = url.into(), "it has to begin with http://");
        assert!(model.is_none(), "{url}");
    }
    let model =
        check(|endpoint| endpoint.base_url = "ftp://me:pw@h/v1?key=1".into(), "`ftp://h/v1`");
    assert!(model.is_none());
    let key = |endpoint: &mut Endpoint| endpoint.api_key = Some("a\nb".into());
    assert!(check(key, "the key from TEST_API_KEY").is_none());
    let header = |endpoint: &mut Endpoint| endpoint.headers.push(("a b".into(), "c".into()));
    assert!(check(header, "the header `a b`").is_none());

    // The file is read at the first request.
    let model = check(|endpoint| endpoint.ca_file = Some("/no/such.pem".into()), "").unwrap();
    let error = ask(&*model).await.unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::Configuration);
    assert!(error.message.starts_with("ca_file /no/such.pem: "), "{error}");
}

#[tokio::test]
async fn dropping_the_stream_hangs_up() {
    let half = r#"{"choices":[{"delta":{"content":"half"}}]}"#;
    let server = Server::playing([sse_raw(&[half]).then(Chunk::Pause(LONG))]);
    let model = agent_model::connect(endpoint(&server)).unwrap();
    let request = request(&[]);
    let mut stream = model.stream(&request);
    assert_eq!(stream.next().await, Some(Ok(Delta::Text("half".into()))));
    drop(stream);
    // Lets the connection's task notice.
    tokio::task::yield_now().await;
    tokio::task::spawn_blocking(move || server.wait_for_hangup()).await.unwrap();
}

#[tokio::test]
async fn dropping_the_stream_ends_a_wait() {
    let server = Server::with(|_, _| json(429, &json!({})).header("retry-after", "1"));
    let model = agent_model::connect(endpoint(&server)).unwrap();
    let request = request(&[]);
    let mut stream = model.stream(&request);
    assert!(matches!(stream.next().await, Some(Ok(Delta::Retry(_)))));
    let waited = tokio::time::timeout(SHORT, stream.next()).await;
    assert!(waited.is_err());
    drop(stream);
    assert_eq!(server.finish().len(), 1);
}

#[tokio::test]
async fn models_are_listed() {
    let server = Server::with(|request, _| match request.path.as_str() {
        "/v1/models" => json(200, &json!({"data": [{"id": "a"}, {"id": "b"}]})),
        _ => html(404),
    });
    assert_eq!(agent_model::list_models(&endpoint(&server), LONG).await.unwrap(), ["a", "b"]);
    let without_path = server.url().replace("/v1", "");
    assert_eq!(
        agent_model::list_models(&endpoint_at(&without_path), LONG).await.unwrap(),
        ["a", "b"]
    );
    let other_path = server.url().replace("/v1", "/api");
    let error = agent_model::list_models(&endpoint_at(&other_path), LONG).await.unwrap_err();
    assert_eq!(error.status, Some(404));
    assert!(error.message.contains("lacks `/v1`"), "{error}");
}

#[tokio::test]
async fn connection_that_the_server_closed_after_an_answer_is_replaced_without_a_retry() {
    // The connection ends at the next request, as if it had been closed meanwhile.
    let server = Server::with(|request, n| match (n, request.connection) {
        (0, _) => sse_text("one"),
        (_, 0) => no_answer(),
        _ => sse_text("two"),
    });
    let model = agent_model::connect(endpoint(&server)).unwrap();
    ask(&*model).await.unwrap();
    let (answer, retries) = ask(&*model).await.unwrap();
    assert_eq!((answer.text.as_str(), retries.len()), ("two", 0));
    assert_eq!(server.finish().len(), 3);
}
