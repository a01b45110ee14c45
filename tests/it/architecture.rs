//! Module structure: which module may import which.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use agent_protocol::delegate::{Delegate, Delegated, Order, RoleFacts};
use futures_util::future::BoxFuture;

/// Module → the modules it may import.
const MAY_IMPORT: &[(&str, &[&str])] = &[
    ("protocol", &[]),
    ("disk", &[]),
    ("workspace", &["protocol", "disk"]),
    ("exec", &["protocol", "disk"]),
    ("model", &["protocol"]),
    ("permission", &["protocol"]),
    ("context", &["protocol"]),
    ("learning", &["protocol"]),
    ("tools", &["protocol", "workspace", "exec", "permission"]),
    ("mcp", &["protocol", "disk", "workspace", "exec", "model", "tools"]),
    ("registry", &["protocol", "permission", "workspace", "tools"]),
    ("kernel", &["protocol", "registry", "context", "exec"]),
    ("record", &["protocol", "disk"]),
    ("trace", &["protocol", "record"]),
    ("ui", &["protocol"]),
    ("otel", &["protocol"]),
    ("config", &["protocol", "disk"]),
    ("eval", &["protocol", "config"]),
    ("extend", &["protocol", "disk"]),
];
/// These may import every module.
const TOP: [&str; 4] = ["app", "cli", "lib", "main"];

/// Modules that may access the file system: the user's files, and the program's own.
const FILES: &[&str] =
    &["disk", "workspace", "exec", "model", "record", "learning", "config", "extend", "app", "cli"];

/// Words that only the listed modules may use.
const OWN: &[(&str, &[&str])] = &[
    ("reqwest", &["model"]),
    ("rusqlite", &["learning"]),
    ("process::Command", &["exec"]),
    ("io::stdout", &["ui"]),
    ("fs::read", FILES),
    ("fs::write", FILES),
    ("fs::remove", FILES),
    ("fs::rename", FILES),
    ("File::open", FILES),
    ("File::create", FILES),
    ("OpenOptions", FILES),
    ("unsafe ", &["exec"]),
];

/// Every source file with its top-level module.
fn sources() -> Vec<(String, PathBuf, String)> {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let with_room = |path: PathBuf| {
        let room = path.strip_prefix(&src).unwrap().components().next().unwrap();
        let room = room.as_os_str().to_str().unwrap().trim_end_matches(".rs").to_owned();
        let text = std::fs::read_to_string(&path).unwrap();
        (room, path, text)
    };
    rust_files(&src).into_iter().map(with_room).collect()
}

fn rust_files(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut dirs = vec![root.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                dirs.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(path);
            }
        }
    }
    found
}

/// Modules that a source names with `crate::`: in `use` lines, in braces after it, and in paths.
fn imports(text: &str) -> Vec<String> {
    let mut rooms = Vec::new();
    for (at, _) in text.match_indices("crate::") {
        let line_start = text[..at].rfind('\n').map_or(0, |n| n + 1);
        if text[line_start..at].trim_start().starts_with("//") {
            continue;
        }
        let rest = &text[at + "crate::".len()..];
        let words = |text: &str| -> String {
            text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
        };
        if let Some(list) = rest.strip_prefix('{') {
            // `crate::{a, b::{c, d}}`: the names at the first level.
            let mut depth = 0;
            let mut start = true;
            for (i, c) in list.char_indices() {
                match c {
                    '{' => depth += 1,
                    '}' if depth == 0 => break,
                    '}' => depth -= 1,
                    ',' if depth == 0 => start = true,
                    c if start && c.is_alphabetic() => {
                        rooms.push(words(&list[i..]));
                        start = false;
                    }
                    _ => {}
                }
            }
        } else {
            rooms.push(words(rest));
        }
    }
    rooms
}

fn violations(sources: &[(String, PathBuf, String)]) -> Vec<String> {
    let may: BTreeMap<&str, &[&str]> = MAY_IMPORT.iter().copied().collect();
    let mut found = Vec::new();
    for (room, path, text) in sources {
        if TOP.contains(&room.as_str()) {
            continue;
        }
        let Some(allowed) = may.get(room.as_str()) else {
            found.push(format!("{}: the room {room} is not in the table", path.display()));
            continue;
        };
        for import in imports(text) {
            if import != *room && !allowed.contains(&import.as_str()) {
                found.push(format!("{}: {room} may not import {import}", path.display()));
            }
        }
    }
    found
}

#[test]
fn imports_run_downwards_only() {
    assert_eq!(violations(&sources()), [""; 0]);
}

#[test]
fn import_violations_are_detected() {
    let plant = |room: &str, text: &str| {
        violations(&[(room.to_owned(), PathBuf::from("planted.rs"), text.to_owned())])
    };
    assert_eq!(plant("protocol", "use crate::kernel::Kernel;").len(), 1);
    assert_eq!(
        plant("tools", "use crate::{protocol::Object, kernel::{Kernel, State}, ui};").len(),
        2
    );
    assert_eq!(plant("record", "fn f() { crate::app::open() }").len(), 1);
    assert_eq!(plant("newroom", "").len(), 1);
    assert_eq!(plant("kernel", "use crate::context::History; // crate::model").len(), 1);
    assert_eq!(plant("kernel", "use crate::context::History;\n// crate::model"), [""; 0]);
}

#[test]
fn restricted_apis_are_used_only_in_their_modules() {
    let mut found = Vec::new();
    for (room, path, text) in sources() {
        // Test code is exempt.
        let text = text.split("#[cfg(test)]").next().unwrap_or_default();
        if path.ends_with("tests.rs") || path.ends_with("testing.rs") {
            continue;
        }
        for line in text.lines().filter(|line| !line.trim_start().starts_with("//")) {
            for (word, rooms) in OWN {
                if line.contains(word) && !rooms.contains(&room.as_str()) {
                    found.push(format!("{}: {line}", path.display()));
                }
            }
        }
    }
    assert_eq!(found, [""; 0]);
}

/// A session without sub-agents.
struct NoAgents;

impl Delegate for NoAgents {
    fn role(&self, _: &str) -> Result<RoleFacts, Vec<String>> {
        Err(Vec::new())
    }

    fn roles(&self) -> &'static str {
        ""
    }

    fn carry_out(&self, _: Order) -> BoxFuture<'_, Result<Delegated, String>> {
        Box::pin(async { Err("there are none".to_owned()) })
    }
}

#[test]
fn every_tool_has_a_prompt_and_every_tool_prompt_a_tool() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("prompts/tools");
    let mut files: Vec<String> = std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap().replace('_', ""))
        .collect();
    files.sort();
    let mut tools = code_agent::tools::all();
    // It depends on the session.
    tools.push(Box::new(code_agent::tools::Task::new(std::sync::Arc::new(NoAgents))));
    tools.push(Box::new(code_agent::tools::Skill::new(Vec::new(), "")));
    let mut expected: Vec<String> = tools
        .iter()
        .flat_map(|tool| {
            let name = tool.spec().name.to_lowercase();
            [format!("{name}.json"), format!("{name}.md")]
        })
        .collect();
    expected.sort();
    assert_eq!(files, expected);
    for tool in tools {
        let spec = tool.spec();
        assert_eq!(spec.schema["type"], "object", "{}", spec.name);
        assert_eq!(spec.schema["additionalProperties"], false, "{}", spec.name);
        assert!(!spec.description.is_empty(), "{}", spec.name);
    }
}

#[test]
fn tests_named_in_docs_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let sources = ["src", "tests/it"].into_iter().flat_map(|dir| rust_files(&root.join(dir)));
    let tests: String = sources.map(|path| std::fs::read_to_string(path).unwrap()).collect();
    for page in ["docs/ARCHITECTURE.md", "docs/SECURITY.md"] {
        let text = std::fs::read_to_string(root.join(page)).unwrap();
        let mut n_named = 0;
        for word in text.split('`').skip(1).step_by(2) {
            let Some((_, name)) = word.rsplit_once("::").filter(|(_, name)| name.contains('_'))
            else {
                continue;
            };
            n_named += 1;
            // A shortened name is compared as a prefix.
            let begins = name.strip_suffix('…').map(|cut| format!("fn {cut}"));
            let named = begins.unwrap_or_else(|| format!("fn {name}("));
            assert!(tests.contains(&named), "{page} names {word}, which does not exist");
        }
        assert!(n_named > 10, "{page} names its tests");
    }
}

#[test]
fn paths_named_in_docs_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for text in ["CODE_LAW.md", "docs/ARCHITECTURE.md"] {
        let text = std::fs::read_to_string(root.join(text)).unwrap();
        for word in text.split('`').skip(1).step_by(2) {
            let tops = ["src/", "tests/", "docs/", "prompts/", "benches/", ".ci/"];
            if tops.iter().any(|top| word.starts_with(top)) && !word.contains(['<', '*', '…', '{'])
            {
                let there = root.join(word.trim_end_matches('/')).exists();
                assert!(there, "{word} is named and does not exist");
            }
        }
    }
}

#[test]
fn every_dependency_is_documented() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let manifest = std::fs::read_to_string(root.join("Cargo.toml")).unwrap();
    let page = std::fs::read_to_string(root.join("docs/DEPENDENCIES.md")).unwrap();
    let manifest: toml::Table = manifest.parse().unwrap();
    let rows = page.lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").next());
    let described: Vec<&str> = rows.flat_map(|names| names.split(", ")).collect();
    let names = manifest["dependencies"].as_table().unwrap().keys();
    let missing: Vec<_> = names.filter(|name| !described.contains(&name.as_str())).collect();
    assert!(missing.is_empty(), "docs/DEPENDENCIES.md: {missing:?}");
}
