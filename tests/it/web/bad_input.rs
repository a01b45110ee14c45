//! Servers and pages that misbehave.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;

use serde_json::json;

use super::{NAMED, call_with, code, content, fetch, page, site, text};
use crate::support::Test;
use crate::support::server::{Chunk, Reply};
use crate::wires::http::{authority, tls_server};

/// The address of a server that treats each connection like this.
fn raw_site(serve: impl Fn(TcpStream) + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || listener.incoming().map_while(Result::ok).for_each(serve));
    format!("http://{address}")
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn body_has_a_limit_also_after_decompression() {
    let (_server, url) = site(|request| match request.path.as_str() {
        "/large" => page(vec![b'a'; 10_000_001]),
        "/bomb" => page(gzip(&vec![0; 20_000_000])).header("content-encoding", "gzip"),
        "/zipped" => page(gzip(b"<p>small")).header("content-encoding", "gzip"),
        "/torn" => page(&gzip(b"<p>small")[..12]).header("content-encoding", "gzip"),
        "/other" => page("x").header("content-encoding", "br"),
        _ => page(vec![b'a'; 1_000_000]),
    });
    let of = |path: &str| fetch(&format!("{url}{path}"));
    for path in ["/large", "/bomb"] {
        let envelope = of(path);
        assert_eq!(code(&envelope), "TOO_LARGE", "{envelope}");
        assert!(text(&envelope).contains("10,000,000 bytes"), "{envelope}");
    }
    assert_eq!(content(&of("/zipped")), "small\n");
    for path in ["/torn", "/other"] {
        assert_eq!(code(&of(path)), "ENCODING");
    }
    assert_eq!(of("/million")["data"]["total_lines"], 500);
}

#[test]
fn body_that_never_ends_is_given_up() {
    let url = raw_site(|mut stream| {
        let _ = stream.read(&mut [0; 4096]);
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n\r\n");
        let piece = vec![b'x'; 65536];
        while stream.write_all(&piece).is_ok() {}
    });
    assert_eq!(code(&fetch(&url)), "TOO_LARGE");
}

#[test]
fn wrong_lengths_are_reported() {
    let answering = |head: &'static str| {
        raw_site(move |mut stream| {
            let _ = stream.read(&mut [0; 4096]);
            let _ = write!(
                stream,
                "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n{head}\r\n\r\nshort"
            );
        })
    };
    let longer = fetch(&answering("content-length: 50"));
    assert_eq!(code(&longer), "EXECUTION_ERROR");
    assert!(text(&longer).contains("the connection broke after 5 bytes"), "{longer}");
    let declared = fetch(&answering("content-length: 99000000"));
    assert_eq!(code(&declared), "TOO_LARGE");
    assert_eq!(content(&fetch(&answering("content-length: 3"))), "sho\n");
    let (_server, url) = site(|_| page("<p>half").then(Chunk::Hangup));
    assert_eq!(code(&fetch(&url)), "EXECUTION_ERROR");
    let none = raw_site(drop);
    assert_eq!(code(&fetch(&none)), "EXECUTION_ERROR");
}

#[test]
fn server_without_tls_is_no_page_of_https() {
    let url = raw_site(|mut stream| {
        let _ = stream.read(&mut [0; 1024]);
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
    });
    let envelope = fetch(&url.replace("http:", "https:"));
    assert_eq!(code(&envelope), "EXECUTION_ERROR");
    assert!(text(&envelope).contains("no secure connection"), "{envelope}");
}

#[test]
fn certificate_is_trusted_through_the_authorities_of_the_environment() {
    let url = tls_server("text/plain", "safe");
    let envelope = fetch(&url);
    assert_eq!(code(&envelope), "EXECUTION_ERROR");
    assert!(
        text(&envelope).contains("no secure connection: invalid peer certificate"),
        "{envelope}"
    );
    let test = Test::new().env("SSL_CERT_FILE", authority().to_str().unwrap());
    assert_eq!(content(&call_with(&test, &json!({ "url": url }), &NAMED)), "safe\n");
}

#[test]
#[ignore = "slow"]
fn slow_body_is_given_up() {
    let (_server, url) = site(|_| page("<p>slow").then(Chunk::Pause(Duration::from_mins(2))));
    let envelope = fetch(&url);
    assert_eq!(code(&envelope), "TIMEOUT");
    assert!(text(&envelope).contains("did not arrive within 30 s"), "{envelope}");
}

#[test]
fn refusals_say_what_to_do() {
    let (_server, url) = site(|request| {
        let status = request.path[1..].parse().unwrap();
        Reply::new(status, "text/html", "<p>no").header("retry-after", "7")
    });
    for (status, expected, part) in [
        (401, "PERMISSION_DENIED", "needs a login"),
        (403, "PERMISSION_DENIED", "refuses programs"),
        (404, "NOT_FOUND", "404 (Not Found)"),
        (429, "EXECUTION_ERROR", "no further request for 7 s"),
        (503, "EXECUTION_ERROR", "503 (Service Unavailable)"),
        (204, "EXECUTION_ERROR", "204"),
    ] {
        let envelope = fetch(&format!("{url}/{status}"));
        assert_eq!(code(&envelope), expected, "{envelope}");
        assert!(text(&envelope).contains(part), "{envelope}");
    }
}

#[test]
fn page_that_needs_scripts_says_so_and_frames_are_links() {
    let (_server, url) = site(|request| match request.path.as_str() {
        "/app" => page("<title>App</title><div id=root></div><script src=app.js></script>"),
        "/iframe" => page("<p>around<iframe src='/inner?a=1'></iframe>"),
        "/frames" => {
            page("<frameset cols=50%,50%><frame src=menu.html><frame src=main.html></frameset>")
        }
        _ => page("<noscript><p>Enable scripts.</p></noscript><script>1</script>"),
    });
    let of = |path: &str| fetch(&format!("{url}{path}"));
    let app = of("/app");
    assert!(text(&app).contains("has no text"), "{app}");
    assert!(text(&app).contains("may need JavaScript, which is not run"), "{app}");
    assert!(content(&of("/iframe")).contains(&format!("[frame: {url}/inner?a=1]")));
    let frames = of("/frames");
    for name in ["menu.html", "main.html"] {
        assert!(content(&frames).contains(&format!("[frame: {url}/{name}]")), "{frames}");
    }
    assert_eq!(content(&of("/noscript")), "Enable scripts.\n");
}

#[test]
#[ignore = "slow"]
fn scripts_and_embedded_data_are_no_text() {
    let script = format!("<script>{}</script>", "var a = 1 + 2;\n".repeat(350_000));
    let image = format!("<img src='data:image/png;base64,{}'>", "A".repeat(200_000));
    let html = format!(
        "<html><body>{script}<main><p>kept</p>{image}<img src=x.png alt='a chart'><a href='data:text/html,x'>data</a> \
         <a href='javascript:go()'>go</a></main></body></html>"
    );
    let (_server, url) = site(move |_| page(html.clone()));
    let envelope = fetch(&url);
    let shown = content(&envelope);
    assert!(shown.starts_with("kept\n\n[image: a chart]"), "{shown}");
    assert!(shown.contains("data") && shown.contains("go") && !shown.contains("]("), "{shown}");
}

#[test]
#[ignore = "slow"]
fn nested_and_repeated_elements_take_no_time() {
    let (_server, url) = site(|request| match request.path.as_str() {
        "/deep" => page(format!("{}deep inside", "<div>".repeat(200_000))),
        "/formats" => page(format!("{}deep inside", "<b><i><a href=x>".repeat(20_000))),
        "/tables" => page(format!("{}deep inside", "<table><tr><td>".repeat(20_000))),
        _ => page("<b>x</b>".repeat(200_000)),
    });
    for path in ["/deep", "/formats", "/tables", "/wide"] {
        let envelope = fetch(&format!("{url}{path}"));
        assert_eq!(envelope["error"], serde_json::Value::Null, "{path}: {envelope}");
    }
}
