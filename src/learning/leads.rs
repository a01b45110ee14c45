//! Where a call leads: who reads `compose.yaml` will run docker compose, who changes `a.py` its tests. What is known of a
//! command is told there, before it is run as it failed once.
//!
//! The files of programs stand in `data/manifests.toml`. Texts and data lead nowhere, nor does what is not the project's own.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use serde::Deserialize;
use serde_json::Value;

use super::item::{FailurePattern, Fix, Item, Scope};
use super::pattern::{kind_of, plain_path};
use super::relevance::{Subject, Subjects};
use super::trace::Attempt;
use crate::protocol::command::{INTERPRETERS, Simple, name_of, simple_commands, unquoted};
use crate::protocol::recall::Done;

/// What is done with a source once it was changed.
const AFTER_A_CHANGE: [&str; 4] = ["test", "build", "lint", "format"];
/// What is done with a test that was looked for.
const AFTER_A_TEST: [&str; 1] = ["test"];
/// Work of every kind looks at what these say: to call one leads to no other of its tasks.
const LEAD_NOWHERE: [&str; 1] = ["git"];
/// So many kinds of files are kept that led to a command.
const MAX_LED_BY: usize = 4;
/// Whatever the language is.
const ANY: &str = "";
const TEST_FOLDERS: [&str; 6] = ["test", "tests", "spec", "specs", "__tests__", "e2e"];
/// What lies below these is somebody else's.
const FOREIGN: [&str; 5] = ["..", "node_modules", "vendor", "site-packages", ".git"];

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Manifests {
    tool: Vec<Tool>,
}

/// Programs, and the files that lead to them.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Tool {
    programs: Vec<String>,
    #[serde(default)]
    files: Vec<String>,
    #[serde(default)]
    sources: Vec<String>,
}

static TOOLS: LazyLock<Vec<Tool>> = LazyLock::new(|| {
    let manifests: Manifests = toml::from_str(include_str!("../../data/manifests.toml"))
        .expect("data/manifests.toml is a table");
    manifests.tool
});

/// Their places, by the names of their programs.
static BY_PROGRAM: LazyLock<BTreeMap<&str, usize>> = LazyLock::new(|| {
    let named = |(at, tool): (usize, &'static Tool)| {
        tool.programs.iter().map(move |program| (program.as_str(), at))
    };
    TOOLS.iter().enumerate().flat_map(named).collect()
});

/// What leads to which items: their places in the list that they were made of, the best first.
#[derive(Debug, Default)]
pub(super) struct Leads {
    /// By the files of their programs.
    files: BTreeMap<&'static str, Vec<usize>>,
    /// By the language of a source that is changed.
    changes: BTreeMap<&'static str, Vec<usize>>,
    /// By that of a test that is looked for.
    tests: BTreeMap<&'static str, Vec<usize>>,
    /// By the files of the project that the lesson itself names.
    named: BTreeMap<String, Vec<usize>>,
    /// By what lies beside files that led to it before, as [`led_by`] has it.
    beside: BTreeMap<String, Vec<usize>>,
    /// By the program, as it is called.
    programs: BTreeMap<String, Vec<usize>>,
}

impl Leads {
    /// `items`, each with what it is about.
    pub(super) fn new(items: &[Item], subjects: &Subjects) -> Self {
        let mut leads = Self::default();
        let subjects: Vec<&Subject> = subjects.iter().collect();
        let mut places: Vec<usize> = (0..items.len()).collect();
        places.sort_by(|one, other| by_standing(&items[*one], &items[*other]));
        for at in places {
            leads.add(at, &items[at], subjects[at]);
        }
        leads
    }

    fn add(&mut self, at: usize, item: &Item, subject: &Subject) {
        let Some((failure, head)) = command_of(item) else { return };
        let tools: Vec<&Tool> = tools_of(failure, head).collect();
        for file in tools.iter().flat_map(|tool| &tool.files) {
            self.files.entry(file).or_default().push(at);
        }
        if item.scope != Scope::User {
            for file in files_of(failure, head) {
                self.named.entry(file).or_default().push(at);
            }
            for files in &failure.led_by {
                self.beside.entry(files.clone()).or_default().push(at);
            }
        }
        // Where everything is to happen is known only where it does not happen here.
        if subject.sets_place() {
            return;
        }
        let program = head.split_whitespace().next().unwrap_or_default();
        if !LEAD_NOWHERE.contains(&program) && !INTERPRETERS.contains(&name_of(program)) {
            self.programs.entry(program.to_owned()).or_default().push(at);
        }
        let named: BTreeSet<&str> =
            tools.iter().flat_map(|tool| &tool.sources).map(String::as_str).collect();
        let languages = match (named.is_empty(), &item.scope) {
            (false, _) => named,
            (true, Scope::Project(_)) => BTreeSet::from([ANY]),
            // Nobody knows whether such work comes to it here.
            (true, Scope::User) => return,
        };
        for (moment, topics) in
            [(&mut self.changes, &AFTER_A_CHANGE[..]), (&mut self.tests, &AFTER_A_TEST)]
        {
            if subject.is_for(topics) {
                for language in &languages {
                    moment.entry(language).or_default().push(at);
                }
            }
        }
    }

    /// The places of the items that a call leads to, which has these commands, of those that are open: so many at most from each file.
    pub(super) fn of(
        &self,
        done: &Done<'_>,
        commands: &[Simple<'_>],
        n: usize,
        is_open: &dyn Fn(usize) -> bool,
    ) -> BTreeSet<usize> {
        let mut found = BTreeSet::new();
        for path in done.paths.iter().filter(|path| is_own(path)) {
            let of_files = self.files.iter().filter(|(file, _)| is_file(path, file));
            let of_sources = match source_of(path) {
                Some(language) if done.changes => Some((&self.changes, language)),
                Some(language) if is_test(path) => Some((&self.tests, language)),
                Some(_) | None => None,
            };
            let of_sources = of_sources.into_iter().flat_map(|(moment, language)| {
                [language, ANY].into_iter().filter_map(|of| moment.get_key_value(of))
            });
            let items = of_files.chain(of_sources).map(|(_, items)| items);
            let beside = all_of_kind(path).and_then(|files| self.beside.get(&files));
            for items in items.chain(self.named.get(*path)).chain(beside) {
                found.extend(items.iter().copied().filter(|at| is_open(*at)).take(n));
            }
        }
        for simple in commands {
            let program = simple.program().first().map(|program| unquoted(program));
            let items = program.and_then(|program| self.programs.get(&program));
            let items = items.into_iter().flatten().copied();
            found.extend(items.filter(|at| is_open(*at)).take(n));
        }
        found
    }
}

/// A source was changed.
pub(super) fn is_change_of_source(done: &Done<'_>) -> bool {
    done.changes && done.paths.iter().any(|path| source_of(path).is_some())
}

/// The surer one first, then that of the project, what was seen more often, and later.
pub(super) fn by_standing(one: &Item, other: &Item) -> Ordering {
    let rank = |item: &Item| (item.scope != Scope::User, item.frequency, item.last_occurred_ms);
    let by_confidence = other.confidence().total_cmp(&one.confidence());
    by_confidence.then_with(|| rank(other).cmp(&rank(one)))
}

/// The command that an item is about, if it may be told of before that command is run.
fn command_of(item: &Item) -> Option<(&FailurePattern, &str)> {
    let failure = item.failure.as_ref()?;
    let head = failure.when.command_head.as_deref()?;
    let is_here = failure.when.platform.as_deref().is_none_or(|os| os == std::env::consts::OS);
    let is_of_command = !matches!(failure.fix, Some(Fix::OtherTool { .. }));
    (is_here && is_of_command).then_some((failure, head))
}

/// Programs that the command names, and those that its fix has in their place.
fn tools_of(failure: &FailurePattern, head: &str) -> impl Iterator<Item = &'static Tool> {
    let program = head.split_whitespace().next();
    let instead = match &failure.fix {
        Some(Fix::ReplaceWords { from, to }) if from.split_whitespace().next() == program => to,
        _ => "",
    };
    let mut places: BTreeSet<usize> = BTreeSet::new();
    for words in [head, instead] {
        let words: Vec<&str> = words.split_whitespace().map(name_of).collect();
        places.extend(words.iter().filter_map(|word| BY_PROGRAM.get(word)));
        let pairs = words.windows(2).map(|pair| pair.join(" "));
        places.extend(pairs.filter_map(|pair| BY_PROGRAM.get(pair.as_str())));
    }
    places.into_iter().map(|at| &TOOLS[at])
}

/// The files of the project that a lesson names: the program, and what its fix gives it or runs first.
fn files_of(failure: &FailurePattern, head: &str) -> BTreeSet<String> {
    let fix = match &failure.fix {
        Some(
            Fix::ReplaceWords { to: words, .. }
            | Fix::Prefix { with: words }
            | Fix::RunFirst { command: words },
        ) => words,
        Some(
            Fix::RenameArgument { .. }
            | Fix::SetArguments { .. }
            | Fix::ReplacePath { .. }
            | Fix::OtherTool { .. },
        )
        | None => "",
    };
    let words = [head, fix].into_iter().flat_map(|words| words.split([' ', '=']));
    let words = words.map(unquoted).map(|word| word.trim_start_matches("./").to_owned());
    let is_file = |word: &String| {
        !word.starts_with(['-', '/', '~'])
            && !word.contains(['$', '*', ':', ','])
            && (word.contains('/') || kind_of(word).is_some())
    };
    words.filter(is_file).collect()
}

/// The files that led to a command: those that it was given, and those that the turn had changed before it. Sources lead
/// to what is done with sources, whatever they led to once.
pub(super) fn led_by(failed: &Attempt) -> Vec<String> {
    let text = |of: &Value, name: &str| of[name].as_str().map(str::to_owned);
    let input = failed.context.get("input").unwrap_or(&Value::Null);
    let Some(line) = text(input, "command") else { return Vec::new() };
    let changed = failed.context.get("changed").and_then(Value::as_array);
    let changed = changed.into_iter().flatten().filter_map(|call| text(&call["input"], "path"));
    let commands = simple_commands(&line);
    let given = commands.iter().flat_map(|simple| simple.program().iter().skip(1));
    let mut files: Vec<String> = given
        .map(|word| unquoted(word))
        .chain(changed)
        .filter_map(|path| all_of_kind(&path))
        .collect();
    files.sort_unstable();
    files.dedup();
    files.truncate(MAX_LED_BY);
    files
}

impl FailurePattern {
    /// What led to it once more leads to it as well.
    pub(super) fn was_led_to_by(&mut self, files: &[String]) {
        for files in files {
            if self.led_by.len() < MAX_LED_BY && !self.led_by.contains(files) {
                self.led_by.push(files.clone());
            }
        }
    }
}

/// What has this file's kind and lies in its folder; nothing for a source, or at the top, where all kinds of work lie.
fn all_of_kind(path: &str) -> Option<String> {
    let (folder, _) = plain_path(path).rsplit_once('/')?;
    let is_plain = !path.starts_with('-') && !path.contains(['$', '*', ':', '=', ',']);
    let kind = kind_of(path).filter(|_| is_plain && is_own(path) && source_of(path).is_none())?;
    Some(format!("{folder}/*.{kind}"))
}

/// It lies in the project, and is nobody else's.
fn is_own(path: &str) -> bool {
    !path.starts_with('/') && !path.split('/').any(|part| FOREIGN.contains(&part))
}

/// The language of a source; texts and data have none.
pub(super) fn source_of(path: &str) -> Option<&str> {
    let kind = kind_of(path)?;
    TOOLS.iter().any(|tool| tool.sources.iter().any(|source| source == kind)).then_some(kind)
}

/// A test by its name, or by a folder that it lies in.
fn is_test(path: &str) -> bool {
    let (folders, name) = path.rsplit_once('/').unwrap_or(("", path));
    words_of(name).any(|word| word == "test" || word == "tests")
        || [".spec.", "_spec.", "-spec."].iter().any(|part| name.contains(part))
        || folders.split('/').any(|folder| TEST_FOLDERS.contains(&folder))
}

/// It is this file of the table, wherever it lies.
fn is_file(path: &str, file: &str) -> bool {
    let mut parts = path.rsplit('/');
    file.rsplit('/').all(|file| parts.next().is_some_and(|part| fits(part, file)))
}

/// The words of a name, in small letters: `TaxTest.java` has `tax`, `test` and `java`.
pub(super) fn words_of(name: &str) -> impl Iterator<Item = String> + use<> {
    let mut spaced = String::with_capacity(name.len() * 2);
    let mut was_small = false;
    for letter in name.chars() {
        if letter.is_uppercase() && was_small {
            spaced.push(' ');
        }
        was_small = letter.is_lowercase();
        spaced.push(if letter.is_alphanumeric() { letter } else { ' ' });
    }
    let words: Vec<String> = spaced.split_whitespace().map(str::to_lowercase).collect();
    words.into_iter()
}

/// The name is one of this pattern, in which `*` stands for anything.
fn fits(name: &str, pattern: &str) -> bool {
    let Some((before, after)) = pattern.split_once('*') else { return name == pattern };
    let Some(rest) = name.strip_prefix(before) else { return false };
    let ends = rest.char_indices().map(|(at, _)| at).chain([rest.len()]);
    ends.into_iter().any(|at| fits(&rest[at..], after))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_a_program_is_known_wherever_it_lies() {
        let check = |path: &str, program: &str, is_it: bool| {
            let tool = TOOLS.iter().find(|tool| tool.programs.iter().any(|one| one == program));
            let files = &tool.expect("it is in the table").files;
            assert_eq!(files.iter().any(|file| is_file(path, file)), is_it, "{path}: {program}");
        };
        check("pom.xml", "mvn", true);
        check("services/geo/pom.xml", "mvnw", true);
        check("pom.xml.bak", "mvn", false);
        check("requirements-dev.txt", "pip", true);
        check("notes.txt", "pip", false);
        check("infra/main.tf", "terraform", true);
        check("web/jest.config.ts", "jest", true);
        check("jest.config", "jest", false);
        check("app/.cargo/config.toml", "cargo", true);
        check("config.toml", "cargo", false);
        check("compose.yaml", "docker compose", true);
        check("compose.yaml", "docker", false);
        check("compose.dev.yml", "docker-compose", true);
    }

    #[test]
    fn no_program_stands_in_the_table_twice() {
        let n_programs: usize = TOOLS.iter().map(|tool| tool.programs.len()).sum();
        assert_eq!(BY_PROGRAM.len(), n_programs);
    }

    #[test]
    fn no_text_leads_anywhere_by_its_ending() {
        for ending in ["md", "txt", "csv", "json", "yaml", "toml", "html", "log", "xml"] {
            assert_eq!(source_of(&format!("a.{ending}")), None, "{ending}");
            // Nor does every file of a kind that holds anything.
            let pattern = format!("*.{ending}");
            assert!(!TOOLS.iter().any(|tool| tool.files.contains(&pattern)), "{ending}");
        }
        assert_eq!(source_of("src/a.py"), Some("py"));
        assert_eq!(source_of(".py"), None);
    }

    #[test]
    fn tests_are_known_by_their_names_and_folders() {
        for path in [
            "test_tax.py",
            "src/tax_test.go",
            "src/tax.test.ts",
            "src/tax.spec.ts",
            "spec/tax_spec.rb",
            "src/TaxTest.java",
            "tests/it/main.rs",
            "web/__tests__/tax.js",
        ] {
            assert!(is_test(path), "{path}");
        }
        for path in ["src/latest.py", "contest.go", "src/attestation.rs", "inspect.js"] {
            assert!(!is_test(path), "{path}");
        }
    }

    #[test]
    fn a_command_names_its_programs_and_those_of_its_fix() {
        let check = |head: &str, to: &str, programs: &[&str]| {
            let failure = serde_json::json!({"skill": "", "condition": "", "error_type": "",
                "suggested_fix": null, "when": {"tool": "Bash", "command_head": head},
                "fix": {"kind": "replace_words", "from": head, "to": to}});
            let failure: FailurePattern = serde_json::from_value(failure).expect("a pattern");
            let found = tools_of(&failure, head).map(|tool| tool.programs[0].as_str());
            assert_eq!(found.collect::<Vec<_>>(), programs, "{head}");
        };
        check("docker-compose", "docker compose", &["docker compose", "docker"]);
        check("node_modules/.bin/jest", "npx jest", &["npm", "jest"]);
        check("python3 -m pytest", "tox -e py", &["pytest", "tox", "python"]);
        check("./gradlew test", "sh ./gradlew test", &["gradle"]);
        check("./run.sh", "bash run.sh", &[]);
    }
}
