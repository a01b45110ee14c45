//! The structure of the code: which crate and which module may import which, and what the documents say of it.

use std::path::{Path, PathBuf};

use agent_protocol::envelope::Failure;
use agent_protocol::subagent::{RoleFacts, SubagentResult, SubagentRunner, SubagentTask};
use agent_protocol::web::{SearchHit, SearchQuery};
use futures_util::future::BoxFuture;

/// Crate → the project's crates it may depend on. Cargo enforces the manifests, this table the direction.
const CRATES: &[(&str, &[&str])] = &[
    ("protocol", &[]),
    ("model", &["protocol"]),
    ("permission", &["protocol"]),
    ("learning", &["protocol"]),
    ("ui", &["protocol"]),
    ("host", &["protocol"]),
    ("record", &["protocol"]),
    ("engine", &["protocol", "host", "permission"]),
];

/// Module of a crate with several → the modules beside it that it may import. `app` and `cli` may import all.
const MODULES: &[(&str, &[&str])] = &[
    ("host/workspace", &[]),
    ("host/git_guard", &[]),
    ("host/exec", &["git_guard"]),
    ("engine/context", &[]),
    ("engine/tools", &[]),
    ("engine/mcp", &["tools"]),
    ("engine/registry", &["tools"]),
    ("engine/kernel", &["registry", "context"]),
    ("record/otel", &[]),
    ("record/eval", &[]),
    ("src/config", &[]),
    ("src/extend", &[]),
];

/// Places that may access the file system: the user's files, and the program's own.
const FILES: &[&str] = &[
    "protocol/disk",
    "host/workspace",
    "host/git_guard",
    "host/exec",
    "model",
    "record",
    "learning",
    "src/config",
    "src/extend",
    "src/app",
    "src/cli",
];

/// Words that only the listed places may use.
const RESTRICTED: &[(&str, &[&str])] = &[
    ("reqwest", &["model", "engine/mcp/http"]),
    ("rusqlite", &["learning"]),
    ("tokio_postgres", &["learning"]),
    ("process::Command", &["host/exec"]),
    ("io::stdout", &["ui"]),
    ("fs::read", FILES),
    ("fs::write", FILES),
    ("fs::remove", FILES),
    ("fs::rename", FILES),
    ("File::open", FILES),
    ("File::create", FILES),
    ("OpenOptions", FILES),
    ("unsafe_code", &["host/exec"]),
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A source file: its place (`engine/tools/edit`, `src/cli/run`) and its text.
struct Source {
    place: String,
    text: String,
}

impl Source {
    fn is_in(&self, place: &str) -> bool {
        self.place.strip_prefix(place).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    /// The text without unit tests, which are exempt, and without comments.
    fn code(&self) -> impl Iterator<Item = &str> {
        let is_test = ["tests", "testing"].iter().any(|name| self.place.ends_with(name));
        let text =
            if is_test { "" } else { self.text.split("#[cfg(test)]").next().unwrap_or_default() };
        text.lines().filter(|line| !line.trim_start().starts_with("//"))
    }
}

fn sources() -> Vec<Source> {
    let files = ["src", "crates"].into_iter().flat_map(|dir| rust_files(&root().join(dir)));
    files
        .map(|path| {
            let text = std::fs::read_to_string(&path).unwrap();
            let place = path.strip_prefix(root()).unwrap().with_extension("");
            let place = place.to_str().unwrap().replace("/src/", "/");
            let place = place.strip_prefix("crates/").unwrap_or(&place);
            let place = place.trim_end_matches("/mod").trim_end_matches("/lib").to_owned();
            Source { place, text }
        })
        .collect()
}

fn rust_files(root: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut dirs = vec![root.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                dirs.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.push(path);
            }
        }
    }
    files
}

/// Imports of a module beside its own that [`MODULES`] does not list.
fn violations(source: &Source) -> Vec<String> {
    let Some((module, allowed)) = MODULES.iter().find(|(module, _)| source.is_in(module)) else {
        return Vec::new();
    };
    let (top, own) = module.split_once('/').unwrap();
    let beside: Vec<&str> = MODULES.iter().filter_map(|(name, _)| name.strip_prefix(top)).collect();
    let beside = beside.iter().map(|name| name.trim_start_matches('/')).chain(["app", "cli"]);
    let forbidden: Vec<String> = beside
        .filter(|name| *name != own && !allowed.contains(name))
        .map(|name| format!("crate::{name}"))
        .collect();
    let is_violation = |line: &&str| {
        line.contains("crate::{") || forbidden.iter().any(|path| line.contains(path.as_str()))
    };
    source.code().filter(is_violation).map(|line| format!("{}: {line}", source.place)).collect()
}

#[test]
fn crates_depend_downwards_only() {
    let mut names: Vec<String> = std::fs::read_dir(root().join("crates"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    let mut listed: Vec<&str> = CRATES.iter().map(|(name, _)| *name).collect();
    listed.sort_unstable();
    assert_eq!(names, listed);
    for (name, allowed) in CRATES {
        let manifest = root().join("crates").join(name).join("Cargo.toml");
        let manifest: toml::Table = std::fs::read_to_string(manifest).unwrap().parse().unwrap();
        for dependency in manifest["dependencies"].as_table().unwrap().keys() {
            let Some(other) = dependency.strip_prefix("agent-") else { continue };
            assert!(allowed.contains(&other), "{name} may not depend on {other}");
        }
    }
}

#[test]
fn modules_import_downwards_only() {
    let found: Vec<String> = sources().iter().flat_map(violations).collect();
    assert_eq!(found, [""; 0]);
}

#[test]
fn import_violations_are_detected() {
    let n_violations = |place: &str, text: &str| {
        violations(&Source { place: place.to_owned(), text: text.to_owned() }).len()
    };
    assert_eq!(n_violations("engine/tools/edit", "use crate::kernel::Kernel;"), 1);
    assert_eq!(n_violations("engine/kernel/think", "use crate::context::History;"), 0);
    assert_eq!(n_violations("engine/kernel", "let tools = crate::tools::all();"), 1);
    assert_eq!(n_violations("engine/mcp/tool", "use crate::{tools::Tool};"), 1);
    assert_eq!(n_violations("src/config/layers", "use crate::app::Session;"), 1);
    assert_eq!(n_violations("host/exec", "// crate::workspace"), 0);
}

#[test]
fn restricted_apis_are_used_only_in_their_modules() {
    let mut found = Vec::new();
    for source in sources() {
        for line in source.code() {
            for (word, places) in RESTRICTED {
                if has_word(line, word) && !places.iter().any(|place| source.is_in(place)) {
                    found.push(format!("{}: {line}", source.place));
                }
            }
        }
    }
    assert_eq!(found, [""; 0]);
}

/// `ExistingFile::open` is no `File::open`.
fn has_word(line: &str, word: &str) -> bool {
    let begins = |(at, _): (usize, &str)| !line[..at].ends_with(char::is_alphanumeric);
    line.match_indices(word).any(begins)
}

/// Fields and variants may explain themselves; what a crate exports has a doc comment.
#[test]
fn exported_functions_and_types_are_documented() {
    let kinds = ["fn", "struct", "enum", "trait", "type", "async fn", "const fn"];
    let mut found = Vec::new();
    let crates = |source: &&Source| !source.is_in("src") && !source.place.ends_with("tests");
    for source in sources().iter().filter(crates) {
        let text = source.text.split("#[cfg(test)]").next().unwrap_or_default();
        let mut is_documented = false;
        for line in text.lines() {
            let line = line.trim();
            if line.starts_with("///") || line.starts_with("#[doc") {
                is_documented = true;
            } else if !line.starts_with("#[") && !line.starts_with("//") {
                let item = line.strip_prefix("pub ");
                let is_exported = item.is_some_and(|item| {
                    kinds
                        .iter()
                        .any(|kind| item.strip_prefix(kind).is_some_and(|r| r.starts_with(' ')))
                });
                if is_exported && !is_documented {
                    found.push(format!("{}: {line}", source.place));
                }
                // An attribute of several lines keeps the comment above it.
                is_documented &= line.ends_with(',') || line.ends_with(")]");
            }
        }
    }
    assert_eq!(found, [""; 0]);
}

/// A session without sub-agents.
struct NoAgents;

impl SubagentRunner for NoAgents {
    fn find_role(&self, _: &str) -> Result<RoleFacts, Vec<String>> {
        Err(Vec::new())
    }

    fn role_descriptions(&self) -> &'static str {
        ""
    }

    fn run_subagent(&self, _: SubagentTask) -> BoxFuture<'_, Result<SubagentResult, String>> {
        Box::pin(async { Err("there are none".to_owned()) })
    }
}

#[test]
fn every_tool_has_a_prompt_and_every_tool_prompt_a_tool() {
    let dir = root().join("prompts/tools");
    let mut files: Vec<String> = std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap().replace('_', ""))
        .collect();
    files.sort();
    let mut tools = agent_engine::tools::all_tools();
    // It depends on the session.
    tools.push(Box::new(agent_engine::tools::TaskTool::new(std::sync::Arc::new(NoAgents))));
    tools.push(Box::new(agent_engine::tools::SkillTool::new(Vec::new(), "")));
    let search = |_: SearchQuery| -> BoxFuture<'static, Result<Vec<SearchHit>, Failure>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    };
    tools.push(Box::new(agent_engine::tools::WebSearchTool::new(std::sync::Arc::new(search))));
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
    let root = root();
    let sources =
        ["src", "crates", "tests/it"].into_iter().flat_map(|dir| rust_files(&root.join(dir)));
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
    let root = root();
    for text in ["CODE_LAW.md", "docs/ARCHITECTURE.md"] {
        let text = std::fs::read_to_string(root.join(text)).unwrap();
        for word in text.split('`').skip(1).step_by(2) {
            let tops = ["src/", "crates/", "tests/", "docs/", "prompts/", "benches/", ".ci/"];
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
    let root = root();
    let manifest = std::fs::read_to_string(root.join("Cargo.toml")).unwrap();
    let page = std::fs::read_to_string(root.join("docs/DEPENDENCIES.md")).unwrap();
    let manifest: toml::Table = manifest.parse().unwrap();
    let rows = page.lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").next());
    let described: Vec<&str> = rows.flat_map(|names| names.split(", ")).collect();
    let names = manifest["workspace"]["dependencies"].as_table().unwrap().keys();
    let development = ["insta", "portable-pty", "proptest", "tiktoken-rs", "vt100"];
    let names = names.filter(|name| !is_own(name) && !development.contains(&name.as_str()));
    let missing: Vec<_> = names.filter(|name| !described.contains(&name.as_str())).collect();
    assert!(missing.is_empty(), "docs/DEPENDENCIES.md: {missing:?}");
}

/// A crate of the project itself.
fn is_own(dependency: &str) -> bool {
    dependency
        .strip_prefix("agent-")
        .is_some_and(|name| CRATES.iter().any(|(listed, _)| *listed == name))
}
