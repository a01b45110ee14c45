#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;

use crate::tools::tool_tests::{TestProject, numbered_lines};
use crate::tools::{Tool as _, ToolCx, read};
use agent_protocol::envelope::ErrorCode;

/// Asserts the content, and the encoding and line ending in the stats.
async fn check(bytes: &[u8], content: &str, encoding: &str, ending: &str) {
    let desk = TestProject::new();
    desk.file("a", bytes);
    let report = desk.call_ok(&read::tool(), json!({"path": "a"})).await;
    assert_eq!(report.data["content"], content);
    assert_eq!(report.stats["encoding"], encoding);
    assert_eq!(report.stats["line_ending"], ending);
    assert!(!report.partial);
}

#[tokio::test]
async fn encodings_and_line_ends_are_reported_in_metadata() {
    check(b"one\ntwo\n", "1 | one\n2 | two", "utf-8", "lf").await;
    check(b"one\r\ntwo", "1 | one\n2 | two", "utf-8", "crlf").await;
    check(b"one\rtwo\r", "1 | one\n2 | two", "utf-8", "cr").await;
    check(b"o\rne\ntwo", "1 | o\rne\n2 | two", "utf-8", "lf").await;
    check(b"one\r\ntwo\n", "1 | one\n2 | two", "utf-8", "mixed").await;
    check(b"\xEF\xBB\xBFone", "1 | one", "utf-8-bom", "none").await;
    check(b"\xFF\xFEa\0\n\0\xE4\0", "1 | a\n2 | ä", "utf-16le", "lf").await;
    check(b"\xFE\xFF\0a\0\r\0\n\0b", "1 | a\n2 | b", "utf-16be", "crlf").await;
    check(b"caf\xE9 na\xEFve\n", "1 | café naïve", "windows-1252", "lf").await;
    check(b"", "", "utf-8", "none").await;
}

#[tokio::test]
async fn asian_encodings_are_recognised() {
    let (gbk, ..) =
        encoding_rs::GBK.encode("这是一个测试文件，包含一些中文字符。\n第二行也是中文。\n");
    let (sjis, ..) =
        encoding_rs::SHIFT_JIS.encode("これは日本語のテキストファイルです。\nカタカナ\n");
    for (bytes, name) in [(gbk, "gb18030"), (sjis, "shift_jis")] {
        let desk = TestProject::new();
        desk.file("a", &bytes);
        let report = desk.call_ok(&read::tool(), json!({"path": "a"})).await;
        assert_eq!(report.stats["encoding"], name);
        let format = format!("Encoding {name} (guessed).");
        assert!(!report.partial && report.text.ends_with(&format), "{}", report.text);
    }
}

#[tokio::test]
async fn a_file_is_read_page_by_page() {
    let desk = TestProject::new();
    desk.file("a", numbered_lines(10, |n| format!("line {}\n", n + 1)));
    let read = read::tool();
    let page = desk.call_ok(&read, json!({"path": "a", "start_line": 4, "limit": 3})).await;
    assert_eq!(page.data["content"], "4 | line 4\n5 | line 5\n6 | line 6");
    assert_eq!(page.data["total_lines"], 10);
    assert_eq!(page.data["truncated"], false);
    assert!(!page.partial && page.text.contains("start_line 7"), "{}", page.text);

    let last = desk.call_ok(&read, json!({"path": "a", "start_line": -2})).await;
    assert_eq!(last.data["content"], "9 | line 9\n10 | line 10");
    assert!(!last.partial);
    let all = desk.call_ok(&read, json!({"path": "a", "start_line": -99, "limit": 10})).await;
    assert_eq!((all.data["start_line"].clone(), all.partial), (json!(1), false));

    let past = json!({"path": "a", "start_line": 11});
    let failure = desk.call_fails(&read, past, ErrorCode::InvalidParam).await;
    assert!(failure.message.contains("10 lines"), "{}", failure.message);
    desk.call_fails(&read, json!({"path": "a", "start_line": 0}), ErrorCode::InvalidParam).await;
}

#[tokio::test]
async fn long_lines_are_truncated_and_marked() {
    let desk = TestProject::new();
    desk.file("a", format!("{}\n{}\n", "ä".repeat(2000), "ä".repeat(300_000)));
    let report = desk.call_ok(&read::tool(), json!({"path": "a"})).await;
    let content = report.data["content"].as_str().unwrap();
    let lines: Vec<&str> = content.lines().collect();
    assert_eq!(lines[0], format!("1 | {}", "ä".repeat(2000)));
    let cut = format!("2 | {}… [cut: 2000 of 300000 characters]", "ä".repeat(2000));
    assert_eq!(lines[1], cut);
    assert!(report.partial && report.data["truncated"] == true);
}

#[tokio::test]
async fn binary_files_are_refused() {
    let desk = TestProject::new();
    desk.file("image", b"GIF89a\0\0").file("sub/x", "");
    let read = read::tool();
    let failure = desk.call_fails(&read, json!({"path": "image"}), ErrorCode::BinaryFile).await;
    assert!(failure.message.contains("GIF"), "{}", failure.message);
    desk.call_fails(&read, json!({"path": "image/x"}), ErrorCode::NotADirectory).await;
    desk.call_fails(&read, json!({"path": "a\0b"}), ErrorCode::InvalidParam).await;
    rustix::fs::mkfifoat(rustix::fs::CWD, desk.path_of("pipe"), rustix::fs::Mode::RWXU).unwrap();
    let failure = desk.call_fails(&read, json!({"path": "pipe"}), ErrorCode::InvalidParam).await;
    assert!(failure.message.contains("FIFO"), "{}", failure.message);
    symlink("loop", desk.path_of("loop")).unwrap();
    desk.call_fails(&read, json!({"path": "loop"}), ErrorCode::InvalidParam).await;
}

#[tokio::test]
async fn paths_outside_the_project_are_not_read() {
    let desk = TestProject::new();
    symlink("/etc/passwd", desk.path_of("link")).unwrap();
    symlink("/etc", desk.path_of("folder")).unwrap();
    for path in ["/etc/passwd", "../x", "link", "folder/passwd", "folder/none/x", "sub/../../x"] {
        let failure =
            desk.call_fails(&read::tool(), json!({"path": path}), ErrorCode::AccessDenied).await;
        assert!(failure.message.contains("outside"), "{}", failure.message);
    }
}

#[tokio::test]
async fn missing_file_error_lists_the_nearest_names() {
    let desk = TestProject::new();
    desk.file("src/parser.rs", "").file("src/lexer.rs", "").file("docs/parsing.md", "");
    let failure =
        desk.call_fails(&read::tool(), json!({"path": "src/parsr.rs"}), ErrorCode::NotFound).await;
    let hint = failure.hint.unwrap();
    assert!(hint.contains("names: src/parser.rs"), "{hint}");
    let failure =
        desk.call_fails(&read::tool(), json!({"path": "parser.rs"}), ErrorCode::NotFound).await;
    assert_eq!(failure.data["nearest"][0], "src/parser.rs");
}

#[tokio::test]
async fn non_utf8_name_is_accepted_in_escaped_form() {
    use std::os::unix::ffi::OsStrExt;
    let desk = TestProject::new();
    let name = std::ffi::OsStr::from_bytes(b"caf\xE9.txt");
    std::fs::write(desk.path_of("").join(name), "x\n").unwrap();
    let report = desk.call_ok(&read::tool(), json!({"path": "caf\\xe9.txt"})).await;
    assert_eq!(report.path.as_deref(), Some("caf\\xe9.txt"));
}

#[tokio::test]
async fn external_changes_are_noted_and_own_ones_are_not() {
    let desk = TestProject::new();
    desk.file("a", "one\n");
    let read = read::tool();
    desk.call_ok(&read, json!({"path": "a"})).await;
    desk.call_ok(&crate::tools::change::write_tool(), json!({"path": "a", "content": "two\n"}))
        .await;
    let own = desk.call_ok(&read, json!({"path": "a"})).await;
    assert!(!own.text.contains("externally"), "{}", own.text);
    desk.file("a", "three\n");
    let foreign = desk.call_ok(&read, json!({"path": "a"})).await;
    assert!(foreign.text.contains("modified externally"), "{}", foreign.text);
}

#[tokio::test]
async fn large_file_is_paged_and_editable() {
    let desk = TestProject::new();
    let line = format!("{}\n", "x".repeat(1023));
    let mut bytes = line.repeat(40 * 1024);
    bytes.replace_range(0..5, "first");
    desk.file("log", &bytes);
    let page = desk.call_ok(&read::tool(), json!({"path": "log", "limit": 2})).await;
    assert!(!page.partial && page.data["total_lines"] == 40 * 1024);
    let last = desk.call_ok(&read::tool(), json!({"path": "log", "start_line": -1})).await;
    assert_eq!(last.data["start_line"], 40 * 1024);
    let edit = json!({"path": "log", "old_string": "first", "new_string": "once"});
    desk.call_ok(&crate::tools::change::edit_tool(), edit).await;
    assert!(desk.bytes("log").starts_with(b"oncexx"));
}

#[tokio::test]
async fn lines_of_a_file_too_large_to_be_edited_count_from_its_end() {
    let desk = TestProject::new();
    // (Text within the inspected prefix, then a hole.)
    desk.file("log", format!("first\n{}", "a line\n".repeat(2000)));
    let mut file = std::fs::File::options().append(true).open(desk.path_of("log")).unwrap();
    file.set_len(1 << 28).unwrap();
    file.write_all(b"\nlast but one\nlast\n").unwrap();
    let pages = json!({"path": "log", "start_line": -2, "limit": 1});
    let last = desk.call_ok(&read::tool(), pages).await;
    assert_eq!((&last.data["start_line"], &last.data["end_line"]), (&json!(-2), &json!(-2)));
    assert!(!last.partial && last.text.contains("start_line -1"), "{}", last.text);
    let all = json!({"path": "log", "start_line": -99_999_999, "limit": 1});
    let all = desk.call_ok(&read::tool(), all).await;
    assert_eq!((&all.data["start_line"], &all.data["total_lines"]), (&json!(1), &json!(2004)));
    assert_eq!(all.data["content"], "1 | first");
}

#[tokio::test]
async fn cancelled_read_is_reported() {
    let desk = TestProject::new();
    desk.file("a", "one\n");
    desk.cx.cancel.cancel();
    desk.call_fails(&read::tool(), json!({"path": "a"}), ErrorCode::Cancelled).await;
}

#[tokio::test]
async fn constantly_changing_file_has_a_page_but_no_snapshot() {
    let desk = TestProject::new();
    desk.file("log", "a line\n".repeat(100_000));
    let (stop, log) = (Arc::new(AtomicBool::new(false)), desk.path_of("log"));
    let stopped = Arc::clone(&stop);
    let writer = std::thread::spawn(move || {
        let mut file = std::fs::File::options().append(true).open(log).unwrap();
        while !stopped.load(Ordering::Relaxed) {
            file.write_all(b"more\n").unwrap();
        }
    });
    // Whether the writer is scheduled during each read is not under our control.
    let page = loop {
        let page = desk.call_ok(&read::tool(), json!({"path": "log", "limit": 1})).await;
        assert_eq!(page.data["content"], "1 | a line");
        if page.text.contains("kept changing") {
            break page;
        }
    };
    stop.store(true, Ordering::Relaxed);
    writer.join().unwrap();
    assert!(page.text.contains("read it again before you change it"), "{}", page.text);
    let edit = json!({"path": "log", "old_string": "a line\n", "new_string": "x\n"});
    desk.call_fails(&crate::tools::change::edit_tool(), edit, ErrorCode::NotRead).await;
}

#[tokio::test]
async fn read_refuses_a_path_swapped_after_the_permission_check() {
    let desk = TestProject::new();
    desk.file("open/a", "free\n").file("closed/a", "not for you\n");
    let input = crate::tools::json_object(json!({"path": "open/a"}));
    let tool = read::tool();
    let resolved_path = tool.target(&input, &desk.cx).unwrap().resolved_path;
    std::fs::rename(desk.path_of("open"), desk.path_of("gone")).unwrap();
    symlink("closed", desk.path_of("open")).unwrap();
    let cx = ToolCx { resolved_path, ..desk.cx.clone() };
    let failure = tool.run(input, &cx).await.unwrap_err();
    assert_eq!(failure.code, ErrorCode::AccessDenied, "{failure:?}");
}
