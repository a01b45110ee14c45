//! Images in messages and from Read: sent, stored, resumed, and refused.

use std::os::unix::fs::{PermissionsExt as _, symlink};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use crate::support::server::{self, Reply, Request, Server};
use crate::support::{Done, Pty, Test, wait_for};
use crate::wires::{anthropic_messages, gemini, openai_responses};

/// 3 x 2 pixels, red.
const PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAAAMAAAACCAIAAAASFvFNAAAAEElEQVR4nGP4z8AAQQxwFgBB0gX7h/C5SAAAAABJRU5ErkJggg==";
/// 16 x 8 pixels, grey.
const JPEG: &str = "/9j/2wBDAAEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQH/wAALCAAIABABAREA/8QAFAABAAAAAAAAAAAAAAAAAAAAAP/EABQQAQAAAAAAAAAAAAAAAAAAAAD/2gAIAQEAAD8AD//Z";
/// 1 x 1 pixel.
const WEBP: &str = "UklGRhoAAABXRUJQVlA4TA0AAAAvAAAAEAcQERGIiP4HAA==";

fn bytes(image: &str) -> Vec<u8> {
    BASE64_STANDARD.decode(image).unwrap()
}

fn hash(image: &str) -> String {
    blake3::hash(&bytes(image)).to_hex().to_string()
}

fn project() -> Test {
    Test::new().file("a.png", bytes(PNG)).file("b.dat", bytes(JPEG)).file("my c.webp", bytes(WEBP))
}

fn run(test: &Test, server: &Server, wire: &str, args: &[&str]) -> Done {
    let provider = [
        format!("providers.local.base_url={}", server.url()),
        format!("providers.local.wire={wire}"),
    ];
    let mut all = vec!["run", "--model", "local/m", "--no-memory"];
    for set in &provider {
        all.extend(["--set", set]);
    }
    all.extend(args);
    test.agent(&all)
}

/// Whether the request has the content of the image.
fn shows(request: &Request, image: &str) -> bool {
    request.body.contains(image)
}

type Calls = fn(&[(&str, Value)]) -> Reply;
type Text = fn(&str) -> Reply;

#[test]
fn each_wire_sends_images_of_messages_and_of_results() {
    let wires: [(&str, Calls, Text); 4] = [
        ("openai-chat", server::sse_calls, server::sse_text),
        ("anthropic-messages", anthropic_messages::calls, anthropic_messages::text),
        ("openai-responses", openai_responses::calls, openai_responses::text),
        ("gemini", gemini::calls, gemini::text),
    ];
    for (wire, calls, text) in wires {
        let read = calls(&[("Read", json!({"path": "b.dat"})), ("LS", json!({}))]);
        let server = Server::playing([read, text("A red square.")]);
        let test = project();
        let task = "what is in @a.png and in @\"my c.webp\"?";
        run(&test, &server, wire, &[task]).expect_code(0).expect_stdout("A red square.\n");
        let requests = server.finish();
        assert!(requests.iter().all(|it| shows(it, PNG) && shows(it, WEBP)), "{wire}");
        assert!(!shows(&requests[0], JPEG) && shows(&requests[1], JPEG), "{wire}");
        // The model is not asked to read what it sees.
        assert!(!requests[0].body.contains("The user mentioned"), "{}", requests[0].body);
        assert!(requests[1].body.contains("Read b.dat: image/jpeg, 16 x 8, 141 bytes."), "{wire}");
        for media_type in ["image/png", "image/jpeg", "image/webp"] {
            assert!(requests[1].body.contains(media_type), "{wire} {media_type}");
        }
    }
}

#[test]
fn image_is_stored_once_and_a_resumed_or_forked_session_sends_it() {
    let read = || server::sse_calls(&[("Read", json!({"path": "a.png"}))]);
    let text = || server::sse_text("ok");
    let server = Server::playing([read(), text(), text(), text()]);
    let test = project();
    run(&test, &server, "openai-chat", &["what is @a.png?"]).expect_code(0);

    let image = json!({"hash": hash(PNG), "media_type": "image/png", "bytes": bytes(PNG).len()});
    assert_eq!(test.events_of("turn.started")[0]["images"], json!([image]));
    let finished = test.events_of("tool.finished");
    let mut data = image;
    data["type"] = json!("image");
    data["width"] = json!(3);
    data["height"] = json!(2);
    assert_eq!(finished[0]["envelope"]["data"], data);
    assert!(!std::fs::read_to_string(test.log()).unwrap().contains(PNG));
    let folder = test.log().with_file_name("images");
    let files: Vec<_> = std::fs::read_dir(&folder).unwrap().map(Result::unwrap).collect();
    assert_eq!(files.iter().map(|it| it.file_name()).collect::<Vec<_>>(), [hash(PNG).as_str()]);
    assert_eq!(files[0].metadata().unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(std::fs::read(files[0].path()).unwrap(), bytes(PNG));

    // The file itself may change or vanish.
    std::fs::remove_file(test.root().join("a.png")).unwrap();
    run(&test, &server, "openai-chat", &["-c", "thanks"]).expect_code(0);
    run(&test, &server, "openai-chat", &["-c", "--fork", "again"]).expect_code(0);
    let requests = server.finish();
    for (before, after) in requests.iter().zip(&requests[1..]) {
        let shared = before.body.strip_suffix("]}").unwrap();
        assert!(after.body.starts_with(shared), "{shared}\n{}", after.body);
    }
    assert_eq!(requests[3].body.matches(PNG).count(), 2);

    let forked = test.log();
    assert_ne!(forked.with_file_name("images"), folder);
    assert!(forked.with_file_name("images").join(hash(PNG)).exists());
    let exported = test.agent(&["session", "export"]).expect_code(0).stdout;
    let line = format!("[image/png, {} bytes]", bytes(PNG).len());
    assert!(exported.contains(&line), "{exported}");
    let id = folder.parent().unwrap().file_name().unwrap().to_str().unwrap();
    test.agent(&["session", "rm", id, "--yes"]).expect_code(0);
    assert!(!folder.exists());

    // A lost image is named as such.
    std::fs::write(forked.with_file_name("images").join(hash(PNG)), "other").unwrap();
    let server = Server::playing([server::sse_text("ok")]);
    run(&test, &server, "openai-chat", &["-c", "and now?"]).expect_code(0);
    assert_eq!(server.finish()[0].body.matches("[image lost]").count(), 2);
}

#[test]
fn session_that_is_not_recorded_sends_images() {
    let server = Server::playing([server::sse_text("ok")]);
    let test = project();
    run(&test, &server, "openai-chat", &["--ephemeral", "what is @a.png?"]).expect_code(0);
    assert!(shows(&server.finish()[0], PNG));
    assert!(test.try_log().is_none());
}

#[test]
fn model_without_images_receives_a_text_instead() {
    let read = || server::sse_calls(&[("Read", json!({"path": "a.png"}))]);
    let text = || server::sse_text("ok");
    let server = Server::playing([read(), text(), read(), text()]);
    let test = project();
    run(&test, &server, "openai-chat", &["what is @b.dat?"]).expect_code(0);
    let blind = ["--set", "models.\"local/m\".images=false", "-c", "and @a.png?"];
    let done = run(&test, &server, "openai-chat", &blind).expect_code(0);
    let done =
        done.expect_stderr("local/m takes no images: it does not see 2 images of the conversation");
    done.expect_stderr(
        "@a.png is not read: a.png is not text but a PNG image, and this model takes no images: describe it",
    );
    let requests = server.finish();
    assert!(shows(&requests[1], PNG) && shows(&requests[1], JPEG));
    for request in &requests[2..] {
        assert!(!shows(request, PNG) && !shows(request, JPEG), "{}", request.body);
        let text = "[image not shown: this model takes no images]";
        assert_eq!(request.body.matches(text).count(), 2, "{}", request.body);
    }
    assert!(requests[3].body.contains("you receive no images"), "{}", requests[3].body);
}

#[test]
fn image_that_the_server_refuses_is_left_out_also_after_a_resume() {
    let server = Server::with(|request, n| match n {
        0 => server::sse_calls(&[("Read", json!({"path": "a.png"}))]),
        _ if shows(request, PNG) => {
            server::json(400, &json!({"error": {"message": "Could not process image"}}))
        }
        _ => server::sse_text("I see the other one."),
    });
    let test = project();
    let done = run(&test, &server, "openai-chat", &["compare @b.dat with a.png"]).expect_code(0);
    done.expect_stdout("I see the other one.\n")
        .expect_stderr("Could not process image")
        .expect_stderr("this and later requests are sent without 1 image");
    run(&test, &server, "openai-chat", &["-c", "and now?"]).expect_code(0);
    let requests = server.finish();
    assert_eq!(requests.len(), 4);
    for request in &requests[2..] {
        assert!(shows(request, JPEG) && !shows(request, PNG), "{}", request.body);
        let text = "[image not shown: the server refused the request that contained it]";
        assert_eq!(request.body.matches(text).count(), 1, "{}", request.body);
    }
    let withheld = test.events_of("images.withheld");
    assert_eq!(withheld.len(), 1);
    assert_eq!(withheld[0]["images"], json!([hash(PNG)]));
    let trace = test.agent(&["trace", "show"]).expect_code(0).stdout;
    assert_eq!(trace.matches("requests are sent without 1 image").count(), 1, "{trace}");
}

#[test]
fn all_images_that_no_answer_followed_are_left_out() {
    let server = Server::with(|request, _| {
        if request.body.contains("image_url") {
            let error = json!({"error": {"message": "no endpoint supports image input"}});
            return server::json(404, &error);
        }
        server::sse_text("I see none.")
    });
    let test = project();
    let done = run(&test, &server, "openai-chat", &["what are @a.png and @b.dat?"]).expect_code(0);
    done.expect_stdout("I see none.\n");
    assert_eq!(server.finish().len(), 2);
    assert_eq!(test.events_of("images.withheld")[0]["images"].as_array().unwrap().len(), 2);
    // A refusal for another reason is none of an image.
    let server = Server::with(|_, _| server::json(400, &json!({"error": {"message": "no"}})));
    let test = project();
    run(&test, &server, "openai-chat", &["what is @a.png?"]).expect_code(69);
    assert_eq!(server.finish().len(), 1);
}

#[test]
fn refusal_that_is_not_about_images_withholds_none() {
    let server = Server::with(|_, n| match n {
        0 => server::json(400, &json!({"error": {"message": "messages: no"}})),
        1 => server::json(401, &json!({"error": {"message": "bad key for images"}})),
        _ => server::sse_text("A red square."),
    });
    let test = project();
    run(&test, &server, "openai-chat", &["what is @a.png?"]).expect_code(69);
    run(&test, &server, "openai-chat", &["-c", "again"]).expect_code(69);
    run(&test, &server, "openai-chat", &["-c", "again"]).expect_code(0);
    let shown: Vec<bool> = server.finish().iter().map(|request| shows(request, PNG)).collect();
    assert_eq!(shown, [true, true, true]);
}

#[test]
fn unusable_images_are_refused_with_the_reason() {
    let mut large = bytes(PNG);
    large.resize(6_000_000, 0);
    let test = project()
        .file("empty.png", "")
        .file("text.png", "not an image\n")
        .file("head.png", &bytes(PNG)[..20])
        .file("half.png", &bytes(PNG)[..50])
        .file("head.jpg", &bytes(JPEG)[..72])
        .file("half.webp", &bytes(WEBP)[..30])
        .file("large.png", large)
        .file("private/x.png", bytes(PNG));
    let outside = test.home().join("outside.png");
    std::fs::write(&outside, bytes(PNG)).unwrap();
    symlink(&outside, test.root().join("link.png")).unwrap();

    let read = |path: &str| test.call("Read", &json!({ "path": path }));
    assert_eq!(read("empty.png")["status"], "success");
    assert_eq!(read("text.png")["data"]["content"], "1 | not an image");
    let invalid = [
        ("head.png", "BINARY_FILE", "head.png is no valid PNG image: its header is broken"),
        ("half.png", "BINARY_FILE", "half.png is no valid PNG image: it is cut off"),
        ("head.jpg", "BINARY_FILE", "head.jpg is no valid JPEG image: its header is broken"),
        ("half.webp", "BINARY_FILE", "half.webp is no valid WebP image: it is cut off"),
        (
            "large.png",
            "TOO_LARGE",
            "large.png has 6,000,000 bytes; models accept images of at most 5 MB (5,242,880)",
        ),
    ];
    for (path, code, message) in invalid {
        let error = read(path)["error"].clone();
        assert_eq!((&error["code"], &error["message"]), (&json!(code), &json!(message)));
        assert!(error["hint"].is_string(), "{error}");
    }
    assert_eq!(read("link.png")["error"]["code"], "ACCESS_DENIED");

    let server = Server::playing([server::sse_text("ok")]);
    let task = "@empty.png @text.png @head.png @large.png @link.png @private/x.png";
    let done = run(&test, &server, "openai-chat", &[task, "--deny", "Read(private/)"]);
    let done = done.expect_code(0);
    for part in [
        "@head.png is not read: head.png is no valid PNG image",
        "@large.png is not read: large.png has 6,000,000 bytes",
        "@link.png is not read: link.png",
        "@private/x.png is not read: ",
    ] {
        assert!(done.stderr.contains(part), "{part}\n{}", done.stderr);
    }
    let request = &server.finish()[0];
    assert!(!request.body.contains("image_url"), "{}", request.body);
    // Text is read with Read, whatever the name says.
    assert!(request.body.contains("The user mentioned @empty.png, @text.png."), "{}", request.body);
}

#[test]
fn image_outside_the_project_is_sent_if_the_user_names_its_absolute_path() {
    let test = project();
    let outside = test.home().join("outside.png");
    std::fs::write(&outside, bytes(PNG)).unwrap();
    let path = outside.display().to_string();
    let read = server::sse_calls(&[("Read", json!({"path": path}))]);
    let server = Server::playing([read, server::sse_text("ok")]);
    run(&test, &server, "openai-chat", &[&format!("look at @{path}")]).expect_code(0);
    let requests = server.finish();
    assert!(shows(&requests[0], PNG));
    // The model itself cannot name one.
    let finished = &test.events_of("tool.finished")[0];
    assert_eq!(finished["envelope"]["error"]["code"], "ACCESS_DENIED", "{finished}");
    // Rules that deny the file apply.
    let server = Server::playing([server::sse_text("ok")]);
    let deny = format!("Read({path})");
    let done = run(&test, &server, "openai-chat", &[&format!("@{path}"), "--deny", &deny]);
    done.expect_code(0).expect_stderr("is not read: ");
    assert!(!shows(&server.finish()[0], PNG));
}

#[test]
fn command_that_prints_an_image_is_not_answered_by_read() {
    let cat = server::sse_calls(&[("Bash", json!({"command": "cat a.png"}))]);
    let server = Server::playing([cat, server::sse_text("ok")]);
    let test = project();
    run(&test, &server, "openai-chat", &["--yolo", "print it"]).expect_code(0);
    let finished = &test.events_of("tool.finished")[0];
    assert_eq!(finished["envelope"]["data"]["redirected_to"], Value::Null, "{finished}");
    assert!(!shows(&server.finish()[1], PNG));
}

#[test]
fn fallback_to_a_model_without_images_is_reported() {
    let main = Server::with(|_, _| server::json(503, &json!({"error": {"message": "busy"}})));
    let other = Server::playing([server::sse_text("I see none.")]);
    let config = format!(
        "model = \"main/m\"\nfallback = [\"other/m\"]\n[requests]\nmax_tries = 1\n\
         [providers.main]\nbase_url = \"{}\"\n[providers.other]\nbase_url = \"{}\"\nimages = false\n",
        main.url(),
        other.url()
    );
    let test = project().user_config(&config);
    let done = test.agent(&["run", "--no-memory", "what is @a.png?"]).expect_code(0);
    done.expect_stdout("I see none.\n")
        .expect_stderr("other/m takes no images: it does not see 1 image of the conversation");
    assert!(shows(&main.finish()[0], PNG) && !shows(&other.finish()[0], PNG));
}

/// A chat with a server whose models `m` and `blind` differ in what they take.
fn chat(test: Test, server: &Server) -> (Test, Pty) {
    let config = format!(
        "model = \"test/m\"\n[providers.test]\nbase_url = \"{}\"\nwire = \"openai-chat\"\n\
         [providers.test.dialect]\nreasoning_back = \"reasoning-content\"\n\
         [models.\"test/blind\"]\nimages = false\n[learning]\nenabled = false\n",
        server.url()
    );
    let test = test.user_config(&config);
    let pty = Pty::start(&test, &["--yolo"], 30, 100, "xterm-256color");
    pty.wait_for("/help");
    (test, pty)
}

#[test]
fn dropped_file_is_attached_and_a_switch_reports_what_is_not_carried() {
    let server = Server::with(|request, _| {
        if request.path.ends_with("/models") {
            return server::json(200, &json!({"data": [{"id": "m"}, {"id": "blind"}]}));
        }
        let said = if request.body.contains(WEBP) { "I see it." } else { "I see none." };
        let delta = json!({"reasoning_content": "hm", "content": said});
        let chunk = json!({"choices": [{"delta": delta, "finish_reason": "stop"}]}).to_string();
        server::sse_raw(&[&chunk, "[DONE]"])
    });
    let (test, mut pty) = chat(project(), &server);
    // As a terminal writes the path of a dropped file.
    let path = test.root().join("my c.webp").display().to_string().replace(' ', "\\ ");
    pty.send("\x1b[200~");
    pty.send(&format!("{path} \x1b[201~"));
    pty.send("what is this?");
    pty.wait_for("what is this?");
    pty.send("\r");
    pty.wait_for("image/webp, 34 bytes");
    pty.wait_for("I see it.");
    assert_eq!(test.events_of("turn.started")[0]["images"][0]["media_type"], "image/webp");

    pty.wait_for("/help");
    pty.say("/model test/blind");
    pty.wait_for("test/blind takes no images: it does not see 1 image of the conversation");
    pty.wait_for("the reasoning of the other model is not passed on");
    pty.say("and now?");
    pty.wait_for("I see none.");
    // An image counts like the text that costs as much.
    let asked = test.events_of("model.requested");
    assert!(asked[0]["layers"]["l3"]["bytes"].as_u64().unwrap() > 6400, "{asked:?}");
    pty.say("/quit");
    assert_eq!(pty.end(), 0);
}

#[test]
fn message_during_a_turn_attaches_its_images() {
    let server = Server::with(|request, _| {
        if request.body.contains(PNG) {
            return server::sse_text("I see it.");
        }
        let line = "touch begun; until [ -e go ]; do sleep 0.02; done";
        server::sse_calls(&[("Bash", json!({"command": line}))])
    });
    let (test, mut pty) = chat(project(), &server);
    pty.say("wait");
    wait_for(|| test.root().join("begun").exists());
    pty.say("look at @a.png too");
    // (The list of files is open.)
    pty.wait_for("after this call: look at @a.png too");
    test.write("go", "");
    pty.wait_for("I see it.");
    let steered = test.events_of("turn.steered");
    assert_eq!(steered[0]["images"][0]["hash"], hash(PNG).as_str(), "{steered:?}");
    pty.say("/quit");
    assert_eq!(pty.end(), 0);
}

/// A program that reads the clipboard, and the PATH with it.
fn clipboard(test: Test, program: &str, script: &str) -> Test {
    let folder = test.root().join("../bin");
    std::fs::create_dir(&folder).unwrap();
    let folder = folder.canonicalize().unwrap();
    let program = folder.join(program);
    std::fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
    test.env("PATH", &path)
}

#[test]
fn ctrl_v_pastes_the_image_in_the_clipboard() {
    let script = format!("[ \"$*\" = '--type image/png' ] && echo {PNG} | base64 -d");
    let test = clipboard(Test::new().script("text: a red flag"), "wl-paste", &script);
    let test = test.env("WAYLAND_DISPLAY", "wayland-7");
    let mut pty = Pty::chat(&test, &[]);
    pty.wait_for("/help");
    pty.send("what is \x16");
    pty.wait_for("image-1.png");
    pty.send("\r");
    pty.wait_for("a red flag");
    let turn = &test.events_of("turn.started")[0];
    assert_eq!(turn["images"][0]["hash"], hash(PNG), "{turn}");
    let pasted = turn["input"].as_str().unwrap().split_whitespace().last().unwrap();
    assert!(std::path::Path::new(pasted.trim_matches(['@', '"'])).exists(), "{turn}");
    pty.say("/quit");
    pty.end();
    assert!(!std::path::Path::new(pasted.trim_matches(['@', '"'])).exists(), "{turn}");
}

#[test]
fn ctrl_v_without_an_image_says_why() {
    let named = "an image's file can be dropped here, or named with @";
    let says = |test: Test, why: &str| {
        let mut pty = Pty::chat(&test, &[]);
        pty.wait_for("/help");
        pty.send("\x16");
        pty.wait("the reason", |screen| screen.replace("\n  ", " ").contains(why));
        assert!(pty.screen().replace("\n  ", " ").contains(named), "{}", pty.screen());
    };
    let test = || Test::new().script("text: x");
    says(test(), "there is no display whose clipboard could be read");
    let text = clipboard(test(), "xclip", "echo 'Error: target not available' >&2; exit 1");
    says(text.env("DISPLAY", ":7"), "there is no image in the clipboard");
    let empty = clipboard(test(), "wl-paste", "exit 127").env("WAYLAND_DISPLAY", "wayland-7");
    says(empty, "wl-paste reads the clipboard and is not installed (package wl-clipboard)");
}
