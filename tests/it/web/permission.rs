//! Which pages may be requested: rules, questions, private addresses, secrets.

use std::io::Write as _;
use std::net::{TcpListener, ToSocketAddrs as _, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::{Value, json};

use super::{NAMED, call_all, call_with, code, content, fetch, page, site, text};
use crate::support::server::Server;
use crate::support::{Pty, Test, say};

fn refused(url: &str, options: &[&str], expected: &str) -> Value {
    let envelope = call_with(&Test::new(), &json!({ "url": url }), options);
    assert_eq!(code(&envelope), expected, "{url}: {envelope}");
    envelope
}

#[test]
fn page_without_a_rule_needs_approval() {
    let asked = refused("https://docs.invalid/a?b=c", &[], "APPROVAL_REQUIRED");
    assert!(text(&asked).contains("--allow 'WebFetch(docs.invalid)'"), "{asked}");
    refused("https://docs.invalid/", &["--allow", "WebFetch(*.docs.invalid)"], "APPROVAL_REQUIRED");
    refused("https://docs.invalid/", &["--yolo", "--deny", "WebFetch(*.invalid)"], "ACCESS_DENIED");
    // It is requested: there is no such host.
    refused("https://docs.invalid/", &["--allow", "WebFetch(*.Invalid)"], "NOT_FOUND");
}

#[test]
fn rules_name_hosts() {
    for rule in
        ["WebFetch(https://docs.rs)", "WebFetch(docs.rs/serde)", "WebFetch(h:80)", "WebSearch(x)"]
    {
        let done = Test::new().script("text: done").run(&["x", "--allow", rule]).expect_code(2);
        done.expect_stderr("is not a rule");
    }
}

#[test]
fn private_addresses_need_a_rule_that_names_them() {
    let (server, url) = site(|_| page("<p>inside"));
    let port = url.rsplit(':').next().unwrap().to_owned();
    let mut inputs = Vec::new();
    for host in [
        "127.0.0.1",
        "localhost",
        "LOCALHOST.",
        "2130706433",
        "0x7f.0.0.1",
        "127.1",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "10.0.0.1",
        "169.254.169.254",
        "[fd00:ec2::254]",
    ] {
        for scheme in ["http", "https"] {
            inputs.push(json!({"url": format!("{scheme}://{host}:{port}/")}));
        }
    }
    for envelope in call_all(&inputs, &["--yolo"]) {
        assert_eq!(code(&envelope), "ACCESS_DENIED", "{envelope}");
        assert!(text(&envelope).contains("private network"), "{envelope}");
    }
    refused(&url, &["--allow", "WebFetch"], "ACCESS_DENIED");
    refused(&url, &["--allow", "WebFetch(127.0.0.*)"], "ACCESS_DENIED");
    assert!(server.finish().is_empty());
    assert_eq!(content(&fetch(&url)), "inside\n");
    // An address in another form is the same address.
    assert_eq!(content(&fetch(&format!("http://2130706433:{port}/"))), "inside\n");
    let http = refused("http://docs.invalid/", &["--yolo"], "ACCESS_DENIED");
    assert!(text(&http).contains("not encrypted"), "{http}");
}

/// The name of this machine leads to an address of a private network, or of the machine.
#[test]
fn name_that_leads_to_a_private_address_is_refused() {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = name.trim();
    let found: Vec<_> = (name, 443).to_socket_addrs().into_iter().flatten().collect();
    let is_private = |found: &std::net::SocketAddr| !agent_protocol::web::is_public(found.ip());
    if found.is_empty() || !found.iter().all(is_private) || name.starts_with("localhost") {
        return say(
            "SKIPPED: name_that_leads_to_a_private_address_is_refused: the name of this machine leads to no private address",
        );
    }
    let envelope = refused(&format!("https://{name}/"), &["--yolo"], "ACCESS_DENIED");
    assert!(text(&envelope).contains("leads to"), "{envelope}");
}

/// A server of names leads a host to a public address once, then to this machine. It runs, as this test does, in a
/// network of its own, in which the public address is ours.
#[test]
fn name_that_is_led_to_another_address_later_gains_nothing() {
    const INSIDE: &str = "AGENT_TEST_REBINDING";
    const NAME: &str = "name_that_is_led_to_another_address_later_gains_nothing";
    if std::env::var_os(INSIDE).is_some() {
        return check_rebinding();
    }
    let names = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(names.path(), "nameserver 127.0.0.1\n").unwrap();
    let prepare = "ip link set lo up && ip address add 8.8.8.8/32 dev lo && mount --bind \"$0\" /etc/resolv.conf";
    let run = |script: &str| {
        let mut command = std::process::Command::new("unshare");
        command.args(["-Urnm", "bash", "-c", script]).arg(names.path());
        command.args([std::env::current_exe().unwrap().as_os_str(), NAME.as_ref()]);
        command.env(INSIDE, "1").output()
    };
    if !run(prepare).is_ok_and(|done| done.status.success()) {
        return say(&format!("SKIPPED: {NAME}: there is no network of our own"));
    }
    let done = run(&format!("{prepare} && \"$1\" --exact web::permission::\"$2\"")).unwrap();
    let output = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success() && output.contains("1 passed"), "{output}");
}

fn check_rebinding() {
    let [public, own] = ["8.8.8.8:443", "127.0.0.1:443"].map(|address| {
        let listener = TcpListener::bind(address).unwrap();
        let n_connections = Arc::new(AtomicU32::new(0));
        let count = Arc::clone(&n_connections);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                count.fetch_add(1, Ordering::Relaxed);
                _ = stream.unwrap().write_all(b"no TLS\n");
            }
        });
        n_connections
    });
    let names = UdpSocket::bind("127.0.0.1:53").unwrap();
    std::thread::spawn(move || {
        let (mut query, mut address) = ([0; 512], [8, 8, 8, 8]);
        loop {
            let (length, client) = names.recv_from(&mut query).unwrap();
            // The question ends with the name, its type and its class; others may follow.
            let end = 12 + query[12..].iter().position(|byte| *byte == 0).unwrap() + 5;
            let is_ipv4 = query[end - 4..end - 2] == [0, 1];
            let mut reply =
                [&query[..2], &[0x81, 0x80, 0, 1, 0, u8::from(is_ipv4), 0, 0, 0, 0]].concat();
            reply.extend(&query[12..end.min(length)]);
            if is_ipv4 {
                reply.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4]);
                reply.extend(std::mem::replace(&mut address, [127, 0, 0, 1]));
            }
            names.send_to(&reply, client).unwrap();
        }
    });
    let url = "https://led.test/";
    let first = refused(url, &["--yolo"], "EXECUTION_ERROR");
    assert!(text(&first).contains("no secure connection"), "{first}");
    let later = refused(url, &["--yolo"], "ACCESS_DENIED");
    assert!(text(&later).contains("led.test leads to 127.0.0.1"), "{later}");
    assert_eq!([public, own].map(|it| it.load(Ordering::Relaxed)), [1, 0]);
}

#[test]
fn only_addresses_of_pages_are_accepted() {
    let urls = [
        "file:///etc/passwd",
        "data:text/html,x",
        "ftp://h/x",
        "https://user@h/",
        "docs.rs/serde",
        "javascript:alert(1)",
        "https://",
        "",
    ];
    for envelope in call_all(&urls.map(|url| json!({ "url": url })), &["--yolo"]) {
        assert_eq!(code(&envelope), "INVALID_PARAM", "{envelope}");
    }
}

#[test]
fn url_with_a_secret_is_not_requested() {
    let (server, url) = site(|_| page("<p>sent"));
    let test = Test::new()
        .env("SERVICE_TOKEN", "q7Rt-zz81-Lm0p-Xw")
        .file(".env", "API_KEY=k9Vd-11aa-Qe5y-Bn\n");
    for query in [
        "?t=q7Rt-zz81-Lm0p-Xw",
        "?t=q7Rt%2Dzz81-%4Cm0p-Xw",
        "q7Rt-zz81-Lm0p-Xw",
        "?t=k9Vd-11aa-Qe5y-Bn",
        "?t=k9%56d-11aa-Qe5y-Bn",
        "?t=ghp_abcdefghijklmnopqrstuvwxyz0123456789",
    ] {
        let envelope = call_with(&test, &json!({"url": format!("{url}/{query}")}), &NAMED);
        assert_eq!(code(&envelope), "ACCESS_DENIED", "{query}: {envelope}");
        assert!(text(&envelope).contains("it contains a secret"), "{envelope}");
    }
    refused("https://me:pass-word-1@docs.rs/", &["--yolo"], "ACCESS_DENIED");
    assert!(server.finish().is_empty());
}

#[test]
fn question_shows_the_whole_address_and_offers_the_host() {
    let call = "call: WebFetch {\"url\": \"https://docs.invalid/a/long/path?with=a&query=1\"}\n---\ntext: done";
    let test = Test::new().script(call);
    let mut pty = Pty::chat(&test, &[]);
    pty.wait_for("/help");
    pty.say("look it up");
    pty.wait_for_question();
    let screen = pty.screen();
    for part in [
        "Allow WebFetch docs.invalid/a/long/path?with=a&query=1?",
        "always this host, this session",
    ] {
        assert!(screen.contains(part), "{part}\n{screen}");
    }
    pty.send("a");
    pty.wait_for("done");
    let rule = &test.events_of("rule.added")[0];
    assert_eq!(rule["rule"]["rule"], "allow WebFetch(docs.invalid)", "{rule}");
}

#[test]
fn proxy_of_the_environment_is_used() {
    let server = Server::with(|_, _| page("<p>by the proxy"));
    let proxy = server.url().trim_end_matches("/v1").to_owned();
    let test = Test::new().env("http_proxy", &proxy);
    let input = json!({"url": "http://docs.invalid/page"});
    let envelope = call_with(&test, &input, &["--allow", "WebFetch(docs.invalid)"]);
    assert_eq!(content(&envelope), "by the proxy\n");
    assert_eq!(server.finish()[0].path, "http://docs.invalid/page");
}
