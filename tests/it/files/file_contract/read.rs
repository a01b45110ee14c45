//! Read: text with line numbers.

use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;

use serde_json::{Value, json};

use crate::support::Test;
use crate::support::batch::{Project, says, text};

fn numbered(n: usize) -> String {
    (1..=n).map(|n| format!("line {n}\n")).collect()
}

#[test]
fn page_content_and_metadata() {
    let mut project = Project::new(&[("a", &numbered(10))]);
    let page = project.ok("Read", &json!({"path": "a", "start_line": 4, "limit": 3}));
    let data = json!({
        "content": "4 | line 4\n5 | line 5\n6 | line 6",
        "start_line": 4, "end_line": 6, "total_lines": 10, "truncated": false,
    });
    assert_eq!(page["data"], data);
    assert_eq!(page["text"], "Read lines 4-6 of 10 of a; continue with start_line 7.");
    let stats = &page["stats"];
    let told = ["file_size_bytes", "encoding", "line_ending"].map(|name| stats[name].clone());
    assert_eq!(told, [json!(71), json!("utf-8"), json!("lf")]);
    assert!(stats["file_mtime_ms"].is_u64());

    let all = project.ok("Read", &json!({"path": "a"}));
    assert_eq!((&all["data"]["end_line"], &all["data"]["truncated"]), (&json!(10), &json!(false)));
    assert_eq!(all["text"], "Read all of a (10 lines).");
}

#[test]
fn page_range_follows_start_line_and_limit() {
    let mut project = Project::new(&[("a", &numbered(2500))]);
    let mut check = |start: i64, limit: u64, status: &str, first: u64, last: u64| {
        let page = project.call("Read", &json!({"path": "a", "start_line": start, "limit": limit}));
        assert_eq!(page["status"], status, "{page}");
        assert_eq!(page["data"]["start_line"], first);
        assert_eq!(page["data"]["end_line"], last);
        let content = text(&page, "/data/content");
        assert_eq!(content.lines().count() as u64, last + 1 - first);
        assert!(content.lines().last().unwrap().ends_with(&format!(" | line {last}")));
    };
    check(1, 1, "success", 1, 1);
    check(1, 500, "success", 1, 500);
    check(1, 2000, "success", 1, 2000);
    check(501, 2000, "success", 501, 2500);
    check(-1, 500, "success", 2500, 2500);
    check(-500, 500, "success", 2001, 2500);
    check(-500, 499, "success", 2001, 2499);
    check(-2500, 1, "success", 1, 1);
    check(-9999, 1, "success", 1, 1);
    check(i64::MIN, 1, "success", 1, 1);
    check(2500, 2000, "success", 2500, 2500);
    let default = project.partial("Read", &json!({"path": "a"}));
    assert_eq!(default["data"]["end_line"], 500);
    assert_eq!(default["data"]["truncated"], true);
    for (start, limit) in [(0, 1), (1, 0), (1, 2001), (1, -1)] {
        let input = json!({"path": "a", "start_line": start, "limit": limit});
        project.fails("Read", &input, "INVALID_PARAM");
    }
    for start in [2501, i64::MAX] {
        let input = json!({"path": "a", "start_line": start});
        let past = project.fails("Read", &input, "INVALID_PARAM");
        says(&past, "/error/message", "a has 2500 lines");
        assert_eq!(past["data"]["total_lines"], 2500);
    }
}

#[test]
fn line_numbers_are_not_padded() {
    let mut project = Project::new(&[("a", &numbered(10_001))]);
    for (start, shown) in [
        (9, "9 | line 9\n10 | line 10"),
        (99, "99 | line 99\n100 | line 100"),
        (999, "999 | line 999\n1000 | line 1000"),
        (9999, "9999 | line 9999\n10000 | line 10000"),
    ] {
        let page = project.ok("Read", &json!({"path": "a", "start_line": start, "limit": 2}));
        assert_eq!(page["data"]["content"], shown);
    }
}

#[test]
fn encodings_and_line_ends_are_reported_in_metadata() {
    let check = |bytes: &[u8], lines: &[&str], encoding: &str, ending: &str| {
        let mut project = Project::of(Test::new().file("a", bytes));
        let page = project.call("Read", &json!({"path": "a"}));
        let lines: Vec<String> =
            lines.iter().zip(1..).map(|(line, n)| format!("{n} | {line}")).collect();
        assert_eq!(page["data"]["content"], lines.join("\n"));
        let told = (&page["stats"]["encoding"], &page["stats"]["line_ending"]);
        assert_eq!(told, (&json!(encoding), &json!(ending)));
        assert_eq!(page["status"], "success", "{page}");
    };
    check(b"one\ntwo\n", &["one", "two"], "utf-8", "lf");
    check(b"one\ntwo", &["one", "two"], "utf-8", "lf");
    check(b"one\r\ntwo", &["one", "two"], "utf-8", "crlf");
    check(b"one\r\ntwo\n", &["one", "two"], "utf-8", "mixed");
    check(b"one\rtwo\r", &["one", "two"], "utf-8", "cr");
    check(b"o\rne\ntwo", &["o\rne", "two"], "utf-8", "lf");
    check(b"o\rne\r\ntwo", &["o\rne", "two"], "utf-8", "crlf");
    check(b"one", &["one"], "utf-8", "none");
    check(b"\n", &[""], "utf-8", "lf");
    check(b"\n\n", &["", ""], "utf-8", "lf");
    check(b"", &[], "utf-8", "none");
    check(b"\xEF\xBB\xBFone\n", &["one"], "utf-8-bom", "lf");
    check(b"\xEF\xBB\xBF", &[], "utf-8-bom", "none");
    check(b"\xFF\xFEa\0\n\0\xE4\0", &["a", "ä"], "utf-16le", "lf");
    check(b"\xFE\xFF\0a\0\r\0\n\0b", &["a", "b"], "utf-16be", "crlf");
    check(b"\xFF\xFE", &[], "utf-16le", "none");
    check(b"caf\xE9 na\xEFve\n", &["café naïve"], "windows-1252", "lf");
    let chinese = "这是一个测试文件，包含一些中文字符。";
    check(&encoding_rs::GB18030.encode(chinese).0, &[chinese], "gb18030", "none");
    let japanese = "これは日本語のテキストファイルです。";
    check(&encoding_rs::SHIFT_JIS.encode(japanese).0, &[japanese], "shift_jis", "none");
}

#[test]
fn text_names_line_ends_and_encoding() {
    let check = |bytes: &[u8], words: &str| {
        let mut project = Project::of(Test::new().file("a", bytes));
        let page = project.ok("Read", &json!({"path": "a"}));
        assert_eq!(page["text"], format!("Read all of a (1 line).{words}"));
        page["data"]["encoding_guessed"] == true
    };
    assert!(check(b"caf\xE9 na\xEFve\n", " Encoding windows-1252 (guessed)."));
    assert!(!check(b"one\r\n", " CRLF line ends."));
    assert!(!check(b"\xFE\xFF\0a\0\r\0\n", " CRLF line ends. Encoding utf-16be."));
    assert!(!check(b"one\n", ""));
}

#[test]
fn long_lines_are_truncated_and_marked() {
    let (whole, long) = ("ä".repeat(2000), "ä".repeat(2001));
    let mut project = Project::new(&[("a", &format!("{whole}\n{long}\nend\n"))]);
    let page = project.partial("Read", &json!({"path": "a"}));
    let content = format!("1 | {whole}\n2 | {whole}… [cut: 2000 of 2001 characters]\n3 | end");
    assert_eq!(page["data"]["content"], content);
    assert_eq!(page["data"]["truncated"], true);
    assert_eq!(page["text"], "Read lines 1-3 of 3 of a. 1 line was cut at 2,000 characters.");
}

#[test]
fn an_empty_file_has_no_lines() {
    let mut project = Project::new(&[("a", "")]);
    let page = project.ok("Read", &json!({"path": "a"}));
    let data = json!({
        "content": "", "start_line": 1, "end_line": 0, "total_lines": 0, "truncated": false,
    });
    assert_eq!((page["data"].clone(), page["text"].clone()), (data, json!("a is empty.")));
    let last = project.ok("Read", &json!({"path": "a", "start_line": -5}));
    assert_eq!(last["data"]["content"], "");
    project.fails("Read", &json!({"path": "a", "start_line": 2}), "INVALID_PARAM");
}

#[test]
fn binary_files_are_refused() {
    let mut late = vec![b'a'; 8192];
    let later = [&late, &b"\0\nend"[..]].concat();
    late[8191] = 0;
    let test = Test::new()
        .file("image", b"GIF89a\0\0")
        .file("program", b"\x7FELF\x02\x01\x01\0")
        .file("utf-32", b"\xFF\xFE\0\0a\0\0\0")
        .file("nul", b"abc\0def\n")
        .file("late", &late)
        .file("later", later)
        .file("folder/x", "");
    let mut project = Project::of(test);
    for (path, kind) in [
        ("image", "a GIF image"),
        ("program", "an ELF program or library"),
        ("utf-32", "binary data"),
        ("nul", "binary data"),
        ("late", "binary data"),
    ] {
        let refused = project.fails("Read", &json!({"path": path}), "BINARY_FILE");
        assert_eq!(refused["error"]["message"], format!("{path} is not text but {kind}"));
        assert_eq!(refused["data"]["kind"], kind);
    }
    let later = project.call("Read", &json!({"path": "later"}));
    says(&later, "/data/content", "2 | end");
    let later = project.call("Read", &json!({"path": "later", "start_line": "2"}));
    assert_eq!(later["data"]["content"], "2 | end", "a number in a string");
    let listed = project.ok("Read", &json!({"path": "folder"}));
    assert_eq!(listed["data"]["entries"][0]["path"], "folder/x", "as LS answers");
}

#[test]
fn special_files_are_refused_without_opening_them() {
    let mut project = Project::new(&[]);
    rustix::fs::mkfifoat(rustix::fs::CWD, project.at("pipe"), rustix::fs::Mode::RWXU).unwrap();
    let _socket = UnixListener::bind(project.at("socket")).unwrap();
    symlink("loop", project.at("loop")).unwrap();
    let calls = |path: &str| {
        [
            ("Read", json!({"path": path})),
            ("Write", json!({"path": path, "content": "x"})),
            ("Edit", json!({"path": path, "old_string": "x", "new_string": "y"})),
            ("Grep", json!({"path": path, "pattern": "x"})),
        ]
    };
    for (path, what) in [
        ("pipe", "a FIFO, no regular file"),
        ("socket", "a socket, no regular file"),
        ("loop", "a loop of symlinks"),
    ] {
        for (tool, input) in calls(path) {
            let refused = project.fails(tool, &input, "INVALID_PARAM");
            says(&refused, "/error/message", what);
        }
    }
    let found = project.ok("Grep", &json!({"pattern": "x"}));
    assert_eq!(found["stats"]["files_searched"], 0);
    assert_eq!(project.names("."), ["loop", "pipe", "socket"]);
    let mut batch = crate::support::batch::Batch::start(&mut project.test.command(&[
        "tool",
        "batch",
        "--add-dir",
        "/dev",
    ]));
    for (tool, input) in calls("/dev/zero") {
        let refused = batch.call(tool, &input);
        assert_eq!(refused["error"]["code"], "INVALID_PARAM", "{refused}");
        says(&refused, "/error/message", "a device");
    }
}

#[test]
fn external_changes_are_noted_and_own_ones_are_not() {
    let mut project = Project::new(&[("a", "one\n")]);
    let read = json!({"path": "a"});
    let note = |page: &Value| text(page, "/text").contains("modified externally");
    assert!(!note(&project.ok("Read", &read)));
    project.ok("Write", &json!({"path": "a", "content": "two\n"}));
    assert!(!note(&project.ok("Read", &read)), "our own change");
    project.test.write("a", "six\n");
    assert!(note(&project.ok("Read", &read)));
    assert!(!note(&project.ok("Read", &read)), "it is told once");
}

#[test]
fn reading_one_page_allows_edits_and_detects_changes_anywhere() {
    let mut project = Project::new(&[("a", &numbered(1000))]);
    project.ok("Read", &json!({"path": "a", "limit": 1}));
    let edit = json!({"path": "a", "old_string": "line 900\n", "new_string": "nine\n"});
    project.ok("Edit", &edit);
    project.ok("Read", &json!({"path": "a", "limit": 2}));
    let changed = project.test.read("a").replace("line 1000", "LINE 1000");
    project.test.write("a", &changed);
    let edit = json!({"path": "a", "old_string": "line 1\n", "new_string": "one\n"});
    project.fails("Edit", &edit, "CONFLICT");
    assert_eq!(project.test.read("a"), changed);
}

#[test]
fn pages_of_a_gibibyte_file_are_read_with_a_snapshot() {
    let mut project = Project::new(&[("log", &numbered(1000))]);
    let mut file = std::fs::File::options().write(true).open(project.at("log")).unwrap();
    file.set_len((1 << 30) + 1).unwrap();
    std::io::Seek::seek(&mut file, std::io::SeekFrom::End(0)).unwrap();
    file.write_all(b"\nnext to last\nlast\n").unwrap();
    let first = project.ok("Read", &json!({"path": "log", "limit": 2}));
    assert_eq!(first["data"]["content"], "1 | line 1\n2 | line 2");
    assert_eq!(first["stats"]["file_size_bytes"], (1u64 << 30) + 20);
    let last = project.ok("Read", &json!({"path": "log", "start_line": -2}));
    assert_eq!(last["data"]["content"], "-2 | next to last\n-1 | last");
    if let Some(peak) = peak_kib(project.batch.id()) {
        assert!(peak < 256 * 1024, "memory does not grow with the file: {peak} KiB");
    }
    let edit = json!({"path": "log", "old_string": "last", "new_string": "x"});
    project.fails("Edit", &edit, "TOO_LARGE");
    // Its snapshot exists (the call above did not return NOT_READ) and is compared.
    file.write_all(b"more\n").unwrap();
    let again = project.ok("Read", &json!({"path": "log", "limit": 1}));
    says(&again, "/text", "modified externally");
}

/// Peak memory of a process, if the system reports it.
fn peak_kib(process: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    peak.trim().strip_suffix(" kB")?.parse().ok()
}

#[test]
fn page_over_the_byte_limit_ends_at_a_line_end() {
    let line = "x".repeat(1000);
    let mut project = Project::new(&[("a", &format!("{line}\n").repeat(100))]);
    let (mut start, mut n_lines) = (1, 0);
    loop {
        let page = project.call("Read", &json!({"path": "a", "start_line": start}));
        let content = text(&page, "/data/content");
        assert!(content.len() <= 50 * 1024 && page["data"].get("full_output").is_none());
        assert!(content.lines().all(|shown| shown.ends_with(&line)));
        n_lines += content.lines().count();
        if page["status"] == "success" {
            break;
        }
        start = page["data"]["end_line"].as_u64().unwrap() + 1;
        says(&page, "/text", &format!("continue with start_line {start}"));
    }
    assert_eq!(n_lines, 100);
}
