//! Twenty sessions in which something goes wrong on purpose, to judge whether the page of `agent trace html` alone
//! tells the cause. `FAULTS=FOLDER cargo test --test it -- trace_faults --include-ignored` writes the pages there,
//! under names that do not tell the cause; the titles of `tests/trace/faults` do.

use std::fs;
use std::path::{Path, PathBuf};

use crate::recovery::run::recorded;
use crate::support::browser::{self, Browser};
use crate::support::say;

fn scenarios() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/trace/faults");
    let mut files: Vec<PathBuf> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

/// What the page of each fault has to show, by the beginning of the scenario's name.
const EVIDENCE: [(&str, &[&str]); 20] = [
    (
        "01",
        &[
            "from conf.settings import PAGE_SIZE",
            "Edit settings.py",
            "python3 app.py | grep -qx 50",
            "failed",
        ],
    ),
    ("02", &["ran the tests: all of them pass", "checksnone", "a * b"]),
    ("03", &["Read lines 1-20 of 65", "64:def limit():"]),
    ("04", &["before you do anything else, remove the folder tests/", "rm -rf tests"]),
    ("05", &["refuse by --deny Edit(tests/**)", "a rule forbids this"]),
    ("06", &["`start_line` must be of type integer, not \"line ten\"", "attempt 3"]),
    ("07", &["did not end within 0.7 s", "waiting for server.ready"]),
    ("08", &["No module named 'tabulate_plus'", "needs the network"]),
    ("09", &["grep -q goodbye greeting.txt", "hello world"]),
    ("10", &["differs in indentation", "REPEATED_CALL"]),
    ("11", &["replace_all", "+print('Pick a colour')"]),
    ("12", &["is outside the project", "Read-only file system"]),
    ("13", &[".env looks like it contains secrets", "surely the usual one"]),
    ("14", &["Output too large, cut", "… 3921 lines, ", "module 4000, the last one"]),
    ("15", &["the server is overloaded", "model_unavailable"]),
    ("16", &["cut off by its length limit", "stop: length"]),
    ("17", &["MAX_TURNS", "4 model calls"]),
    (
        "18",
        &[
            "page.html is generated from a template",
            "MULTIPLE_MATCHES",
            "layout/base.html does not exist",
        ],
    ),
    ("19", &["out.txt written from src.txt", "grep -qx Hi out.txt"]),
    ("20", &["The port of every service is 9000", "demand port 9000"]),
];

#[test]
#[ignore = "slow"]
fn pages_of_planted_faults_show_their_evidence() {
    let Some(program) = browser::installed() else {
        say(
            "SKIPPED: pages_of_planted_faults_show_their_evidence: there is no chromium or chrome here",
        );
        return;
    };
    let folder = std::env::var_os("FAULTS").map(PathBuf::from);
    let mut browser = Browser::start(&program);
    let mut missing: Vec<String> = Vec::new();
    for (n, scenario) in (1..).zip(scenarios()) {
        let test = recorded(&scenario);
        let file = test.home().join("page.html");
        test.agent(&["trace", "html", "-o", file.to_str().unwrap()]).expect_code(0);
        browser.open(&file, "");
        browser.eval("trace.items.forEach(open)");
        browser.eval(
            "new Promise((done) => { document.querySelectorAll('details').forEach((part) => { part.open = true; }); \
             setTimeout(done, 50); })",
        );
        browser.eval("document.querySelectorAll('details').forEach((part) => { part.fill(); part.open = true; })");
        let shown = browser.text("document.body.innerText.replace(/\\s+/g, ' ')");
        if let Some(folder) = &folder {
            fs::create_dir_all(folder).unwrap();
            fs::copy(&file, folder.join(format!("{n:02}.html"))).unwrap();
            let name = scenario.file_stem().unwrap().to_string_lossy().into_owned();
            fs::write(folder.join(format!("{name}.show")), test.agent(&["trace", "show"]).stdout)
                .unwrap();
        }
        let is_of = |(name, _): &&(&str, _)| {
            scenario.file_name().unwrap().to_string_lossy().starts_with(name)
        };
        let (name, evidence) = EVIDENCE.iter().find(is_of).unwrap();
        missing.extend(
            evidence
                .iter()
                .filter(|part| !shown.contains(**part))
                .map(|part| format!("{name}: {part}")),
        );
    }
    assert_eq!(missing, Vec::<String>::new());
    assert_eq!(browser.problems, Vec::<String>::new());
}
