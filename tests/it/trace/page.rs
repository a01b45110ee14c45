//! `agent trace html`: the page is written by the built binary and used in a real browser.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::recovery::run::recorded;
use crate::support::browser::{self, Browser};
use crate::support::{Test, say};

const ID: &str = "01890a5d-ac96-774b-bcce-b302099a8057";

/// A scenario in `tests/trace`.
fn scenario(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/trace").join(name)
}

/// Starts the browser; without one, reports that the test is skipped.
fn browser(test: &str) -> Option<Browser> {
    let program = browser::installed();
    if program.is_none() {
        say(&format!("SKIPPED: {test}: there is no chromium or chrome here"));
    }
    program.map(|program| Browser::start(&program))
}

/// Writes the page of the latest session; returns its path.
fn page(test: &Test) -> PathBuf {
    let file = test.home().join("page.html");
    let done = test.agent(&["trace", "html", "-o", file.to_str().unwrap()]).expect_code(0);
    assert_eq!(done.stdout, format!("{}\n", file.display()));
    file
}

/// What an element shows, in one line.
fn words(browser: &mut Browser, element: &str) -> String {
    browser.text(&format!("({element}).innerText.replace(/\\s+/g, ' ')"))
}

/// Lines of a log: events of these types and fields, numbered.
fn log(bodies: &[Value]) -> String {
    let lines = bodies.iter().enumerate().map(|(n, body)| {
        let mut event = json!({
            "v": 2, "seq": n + 1, "ts": "2026-11-20T12:00:00.000Z", "session": ID, "agent": "main",
            "turn": 1, "round": 1, "step": 0,
        });
        event.as_object_mut().unwrap().extend(body.as_object().unwrap().clone());
        format!("{event}\n")
    });
    lines.collect()
}

fn asked() -> Value {
    json!({"type": "model.requested", "purpose": "main", "model": "m/m", "messages": 1, "bytes": 1,
        "estimated_tokens": 1, "layers": {}})
}

fn answered(text: &str, calls: &Value) -> Value {
    json!({"type": "model.responded", "purpose": "main", "text": text, "calls": calls, "stop": "end",
        "time_ms": 1})
}

fn finished(call: &str, data: &Value) -> Value {
    json!({"type": "tool.finished", "call": call, "tool": "Bash", "envelope": {"status": "success",
        "data": data, "text": "Exited 0.", "stats": {"time_ms": 1},
        "context": {"cwd": ".", "params_input": {}}}})
}

#[test]
fn conflict_story_is_found_within_three_clicks() {
    let Some(mut browser) = browser("conflict_story_is_found_within_three_clicks") else { return };
    let test = recorded(&scenario("conflict.txt"));
    let file = page(&test);
    browser.size(1360, 940);
    browser.open(&file, "");
    // The first failure in the list, one click away, is the conflict.
    let list = browser.text("document.querySelector('.failures').innerText");
    assert!(list.contains("CONFLICT") && list.contains("NO_MATCH"), "{list}");
    browser.click("document.querySelector('.failures button')");
    let shown = words(&mut browser, "document.querySelector('article.open')");
    for part in [
        // What it had read, and what happened to the file since.
        "Read \u{2713} \u{2192} Edit CONFLICT \u{2192} Edit NO_MATCH",
        "What another process changed since the file was read:",
        "-port = 8080",
        "+port = 8081",
        // What was refused and why, what the model received, and what the kernel decided.
        "CONFLICT",
        "File changed since last read",
        "old_string",
        "The kernel: retry feedback",
        "\u{201c}I try the edit again.\u{201d} Edit server.toml NO_MATCH the same call again",
        "Decided: retry feedback",
        "retries 0 \u{2192} 1 / 3",
    ] {
        assert!(shown.contains(part), "{part}\n{shown}");
    }
    assert!(browser.eval("document.querySelector('article.open .failed').getBoundingClientRect().top < innerHeight") == true);
    if std::env::var_os("UPDATE_PICTURE").is_some() {
        let picture = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/images/trace.png");
        fs::create_dir_all(picture.parent().unwrap()).unwrap();
        fs::write(picture, browser.picture()).unwrap();
    }
    // The second click: the model repeats the call, and the reflection says why it fails.
    browser.click("document.querySelectorAll('.failures button')[1]");
    let shown = words(&mut browser, "document.querySelectorAll('article.open')[1]");
    for part in [
        "The same call as #",
        "attempt 2",
        "NO_MATCH",
        "Reflected",
        "changed the port to 8081 since then",
    ] {
        assert!(shown.contains(part), "{part}\n{shown}");
    }
    assert_eq!(browser.problems, Vec::<String>::new());
}

/// Characters that a browser, a terminal or a reader must not act on.
const EVIL: &str = "</script><script>window.pwned = 1</script><img src=x onerror='window.pwned = 2'><!-- <script>\
    \u{1b}[31mred\u{202e}txt \u{0}\u{7} \" onload='window.pwned = 3' \u{2028}";

#[test]
fn page_shows_foreign_text_and_executes_nothing() {
    let Some(mut browser) = browser("page_shows_foreign_text_and_executes_nothing") else { return };
    let input = json!({"path": EVIL, EVIL: EVIL, "__proto__": {"polluted": true}});
    let call = json!([{"id": EVIL, "name": EVIL, "arguments": input.to_string()}]);
    let mut failed = finished(EVIL, &json!({"stdout": EVIL, EVIL: [EVIL], "diff_preview": EVIL}));
    failed["tool"] = EVIL.into();
    failed["envelope"]["status"] = "error".into();
    failed["envelope"]["error"] = json!({"code": "COMMAND_FAILED", "message": EVIL, "hint": EVIL});
    let events = log(&[
        json!({"type": "turn.started", "input": EVIL}),
        asked(),
        answered(EVIL, &call),
        failed,
        json!({"type": "error", "source": EVIL, "message": EVIL}),
        json!({"type": "feedback", "text": EVIL}),
        json!({"type": EVIL, EVIL: EVIL}),
    ]);
    let test = Test::new();
    test.record(ID, &events);
    let file = page(&test);
    let html = fs::read_to_string(&file).unwrap();
    let is_control = |char: char| char.is_control() && !matches!(char, '\n' | '\t');
    assert!(!html.contains(is_control) && !html.contains('\u{202e}'));
    assert_eq!(html.matches("<script").count(), 3);
    browser.open(&file, "#seq-4");
    browser.key("o");
    browser.eval("document.querySelectorAll('details').forEach((part) => { part.open = true; })");
    let shown = words(&mut browser, "document.body");
    assert!(shown.contains("</script><script>window.pwned = 1</script><img src=x"), "{shown}");
    assert!(shown.contains("\u{241b}[31mred\u{27e8}U+202E\u{27e9}txt"), "{shown}");
    assert!(browser.eval("window.pwned === undefined && ({}).polluted === undefined") == true);
    assert_eq!(
        browser.eval("document.querySelectorAll('img, iframe, link, article script').length"),
        0
    );
    // A script that got into the page would not run, and nothing is loaded.
    browser.eval(
        "document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"window.pwned = 4\">'); \
         document.body.append(Object.assign(document.createElement('script'), {textContent: 'window.pwned = 5'}))",
    );
    std::thread::sleep(std::time::Duration::from_millis(100));
    assert!(browser.eval("window.pwned === undefined") == true);
    let refused =
        browser.problems.drain(..).filter(|problem| !problem.contains("Content Security Policy"));
    assert_eq!(refused.collect::<Vec<_>>(), Vec::<String>::new());
}

#[test]
fn page_of_a_damaged_or_newer_log_shows_what_can_be_read() {
    let events = log(&[
        json!({"type": "turn.started", "input": "the task"}),
        asked(),
        answered("I look.", &json!([{"id": "1", "name": "Bash", "arguments": "{}"}])),
        finished("1", &json!({"stdout": "some output"})),
        json!({"type": "quantum.entangled", "spin": "up, says the newer version", "v": 3}),
        json!({"type": "control.decided", "decision": ["an", "unknown", "shape"], "before": 7}),
        json!({"type": "tool.finished", "call": "2", "tool": "Bash", "envelope": "no object"}),
        json!({"type": "model.responded", "purpose": "main", "calls": "none", "text": 5, "usage": []}),
        json!({"type": "turn.started", "input": "taken back", "turn": 2}),
        json!({"type": "session.rewound", "from_turn": 2, "turn": 2}),
    ]);
    let test = Test::new();
    let log = test.record(ID, &format!("{events}this is not JSON\n{{\"type\":\"torn"));
    let file = test.home().join("page.html");
    let done = test.agent(&["trace", "html", ID, "-o", file.to_str().unwrap()]).expect_code(0);
    for notice in [
        "recorded by a newer version (event format 3, this version knows 2)",
        "4 events not understood and shown as recorded",
        "1 line is not readable as JSON",
        "the last line is incomplete and left out",
    ] {
        assert!(done.stderr.contains(&format!("{}: ", log.display())), "{done:?}");
        assert!(done.stderr.contains(notice), "{notice}: {done:?}");
    }
    let Some(mut browser) = browser("page_of_a_damaged_or_newer_log_shows_what_can_be_read") else {
        return;
    };
    browser.open(&file, "#seq-5");
    browser.eval("trace.items.forEach(open)");
    let shown = words(&mut browser, "document.body");
    for part in [
        "a newer version",
        "left out",
        "quantum.entangled",
        "up, says the newer version",
        "some output",
        "unknown",
        "no object",
        "this is not JSON",
        "removed by a rewind",
        "unfinished",
    ] {
        assert!(shown.contains(part), "{part}\n{shown}");
    }
    assert_eq!(browser.eval("document.querySelectorAll('section.turn.gone').length"), 1);
    assert_eq!(browser.problems, Vec::<String>::new());

    test.record(ID, "not an event\n{\"torn");
    test.agent(&["trace", "html", ID, "-o", file.to_str().unwrap()]).expect_code(0);
    browser.open(&file, "#seq-1");
    assert_eq!(browser.problems, Vec::<String>::new());
}

#[test]
fn long_result_is_clipped_until_all_of_it_is_asked_for() {
    let Some(mut browser) = browser("long_result_is_clipped_until_all_of_it_is_asked_for") else {
        return;
    };
    let line = "a line of a very long output, which nobody reads as a whole\n";
    let mut output = line.repeat(50_000_000 / line.len());
    output.push_str("THE END");
    let events = log(&[
        json!({"type": "turn.started", "input": "the task"}),
        asked(),
        answered("", &json!([{"id": "1", "name": "Bash", "arguments": "{}"}])),
        finished("1", &json!({"stdout": output})),
    ]);
    let test = Test::new();
    let log = test.record(ID, &events);
    let file = page(&test);
    let [page, log] = [&file, &log].map(|path| fs::metadata(path).unwrap().len());
    assert!(page < log + log / 10, "the page repeats the output: {page}, {log}");
    browser.open(&file, "#seq-4");
    browser.eval("document.querySelectorAll('article.open details').forEach((part) => { part.open = true; })");
    browser.wait("document.querySelectorAll('.clipped').length > 0");
    assert!(browser.eval("document.body.textContent.length < 100000") == true);
    browser.eval("document.querySelector('.clipped .more').click()");
    browser.wait("document.querySelector('.clipped pre').textContent.endsWith('THE END')");
    browser.key("c");
    assert_eq!(browser.eval("document.querySelectorAll('article.open').length"), 0);
    assert_eq!(browser.problems, Vec::<String>::new());
}

#[test]
fn filters_search_keys_and_links_work() {
    let Some(mut browser) = browser("filters_search_keys_and_links_work") else { return };
    let test = recorded(&scenario("conflict.txt"));
    browser.open(&page(&test), "");
    let rounds = "[...document.querySelectorAll('article.round .place')].map((it) => it.textContent).join(' ')";
    assert_eq!(browser.text(rounds), "1.1 1.2 1.3 1.4 1.5 1.6 1.7");
    // By code, decision and tool; each further chip restricts what is shown.
    let chip = |name: &str| {
        format!(
            "[...document.querySelectorAll('.chip')].find((it) => it.dataset.name === '{name}')"
        )
    };
    browser.click(&chip("CONFLICT"));
    assert_eq!(browser.text(rounds), "1.3");
    browser.click(&chip("CONFLICT"));
    browser.click(&chip("retry feedback"));
    assert_eq!(browser.text(rounds), "1.3 1.4");
    browser.click(&chip("TodoWrite"));
    assert_eq!(browser.text(rounds), "1.3");
    browser.key("Escape");
    assert_eq!(browser.text(rounds), "1.1 1.2 1.3 1.4 1.5 1.6 1.7");
    // A search in all that was recorded, with quotes as in the text.
    browser.key("/");
    browser.call("Input.insertText", json!({"text": "HOST = \"localhost\""}));
    browser.key("Enter");
    assert_eq!(browser.text(rounds), "1.2 1.3 1.5");
    browser.key("Enter");
    let found = words(&mut browser, "document.querySelector('article.open')");
    assert!(found.contains("host = \"localhost\""), "{found}");
    assert!(browser.eval("CSS.highlights.get('found').size > 0") == true);
    browser.key("Escape");
    // Failures by key, in a circle.
    let place = "document.querySelector('article.current .place').textContent";
    browser.key("c");
    for (key, expected) in [("n", "1.3"), ("n", "1.4"), ("n", "1.3"), ("p", "1.4")] {
        browser.key(key);
        assert_eq!(browser.text(place), expected);
    }
    assert!(browser.eval("location.hash === '#seq-' + trace.failures[1].seq") == true);
    browser.key("j");
    assert_eq!(browser.text(place), "1.5");
    browser.key("Enter");
    assert!(
        browser.eval("document.querySelector('article.current').classList.contains('open')")
            == true
    );
    // Every evidence is a link to its event.
    browser.key("c");
    browser.key("n");
    browser.eval("document.querySelector('article.open .decided a.seq').click()");
    browser.wait("document.querySelector('.flash')?.innerText.startsWith('Evaluated')");
    for (key, tab, part) in [
        ("2", "Files", "server.toml"),
        ("3", "Context", "No compaction"),
        ("1", "Timeline", "Turn 1"),
    ] {
        browser.key(key);
        assert!(browser.text("document.querySelector('.tab.on').innerText").starts_with(tab));
        assert!(browser.text("document.querySelector('main').innerText").contains(part), "{tab}");
    }
    browser.key("2");
    let files = browser.text("document.querySelector('.changed-file').innerText");
    assert!(files.contains("-port = 8081") && files.contains("+port = 9090"), "{files}");
    let background = "getComputedStyle(document.body).backgroundColor";
    let before = browser.text(background);
    browser.key("t");
    assert_ne!(browser.text(background), before);
    browser.key("?");
    assert!(
        browser
            .text("document.querySelector('dialog[open]').innerText")
            .contains("next, previous failure")
    );
    assert_eq!(browser.problems, Vec::<String>::new());
}

#[test]
fn page_is_written_beside_what_exists() {
    let test = Test::new().script("text: done");
    test.run(&["the task"]).expect_code(0);
    let done = test.agent(&["trace", "html"]).expect_code(0);
    let name = done.stdout.trim();
    assert!(name.starts_with("agent-trace-") && name.strip_suffix(".html").is_some(), "{name}");
    let html = test.read(name);
    assert!(html.starts_with("<!DOCTYPE html>") && html.ends_with("</html>\n"));
    // An earlier page is replaced, anything else is kept.
    test.agent(&["trace", "html"]).expect_code(0);
    test.write("notes.html", "mine");
    let done = test.agent(&["trace", "html", "-o", "notes.html"]).expect_code(2);
    assert!(
        done.stderr.contains("notes.html: exists and is not a page of `agent trace html`"),
        "{done:?}"
    );
    assert_eq!(test.read("notes.html"), "mine");
    // A link is not followed, not even to an earlier page.
    std::os::unix::fs::symlink(test.root().join(name), test.root().join("link.html")).unwrap();
    std::os::unix::fs::symlink("../victim", test.root().join("dangling.html")).unwrap();
    for link in ["link.html", "dangling.html"] {
        test.agent(&["trace", "html", "-o", link]).expect_code(2);
    }
    assert!(!test.root().join("../victim").exists());
    let done = test.agent(&["trace", "html", "-o", "nowhere/page.html"]).expect_code(2);
    assert!(done.stderr.contains("its folder does not exist"), "{done:?}");
    assert_eq!(test.agent(&["trace", "html", "-o", "-"]).expect_code(0).stdout, html);
    // What only the provider can read is not in the page.
    let carried =
        json!([{"model": "m/m", "after_bytes": 0, "after_calls": 0, "data": "a-signature"}]);
    let mut answer = answered("hello", &json!([]));
    answer["carried"] = carried;
    test.record(ID, &log(&[asked(), answer]));
    let html = test.agent(&["trace", "html", ID, "-o", "-"]).expect_code(0).stdout;
    assert!(html.contains("hello") && !html.contains("a-signature"));
}
