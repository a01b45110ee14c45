//! Is a remembered item worth telling to a task unasked? Only where the task will come to what the item is about.
//!
//! What is known of commands is told where the task asks for what the command does (its topic, its name), unless the
//! task is about a text that nothing is run for; what is known of tools, where the task will use them. Quoted words,
//! what the task says not to do, and requests to explain or to list ask for nothing.

use std::collections::BTreeSet;

use super::item::{FailurePattern, Fix, Item};
use super::store::words;
use super::topics;
use crate::protocol::envelope::ErrorCode;

/// Words that say that something is run, whatever else the task is about.
const RUNNING: &[&str] = &[
    "run", "runs", "running", "rerun", "execute", "pass", "passes", "passing", "fail", "fails",
    "failing", "failed", "compile", "rebuild", "try", "green", "red", "broken",
];
const RUNNING_IN_CHINESE: &[&str] =
    &["运行", "跑", "执行", "通过", "失败", "重新", "启动", "报错", "挂了", "编译", "入库"];
/// A sentence that begins so asks for words.
const DESCRIBING: &[&str] = &[
    "explain",
    "describe",
    "what",
    "where",
    "who",
    "list",
    "document",
    "summarise",
    "summarize",
    "mention",
    "tell",
    "translate",
    "compare",
    "note",
];
const DESCRIBING_IN_CHINESE: &[&str] =
    &["解释", "说明", "描述", "列出", "翻译", "译成", "介绍", "哪里"];
/// Before a word of these the sentence says not to.
const NEGATIONS: &[&str] = &["don't", "dont", "not", "without", "never"];
const ACTS: &[&str] = &[
    "run",
    "running",
    "rerun",
    "execute",
    "touch",
    "use",
    "using",
    "start",
    "build",
    "building",
    "test",
    "testing",
    "install",
    "installing",
    "format",
    "lint",
    "launch",
    "bother",
    "change",
    "edit",
];
const NEGATIONS_IN_CHINESE: &[&str] = &["不要", "不用", "别", "无需"];
/// Texts and data: nothing is run for them by itself.
const TEXTS: &[&str] = &[
    "txt",
    "md",
    "rst",
    "adoc",
    "csv",
    "tsv",
    "log",
    "properties",
    "json",
    "html",
    "svg",
    "po",
    "srt",
];
const TEXT_NAMES: &[&str] =
    &["readme", "changes", "changelog", "license", "authors", "news", "notes", "notice"];

/// Words of changing files, and of looking for something.
const CHANGING: &[&str] = &[
    "fix",
    "change",
    "rename",
    "add",
    "edit",
    "replace",
    "update",
    "implement",
    "remove",
    "rewrite",
    "refactor",
    "set",
    "bump",
    "insert",
    "delete",
    "correct",
    "修改",
    "修复",
    "改",
    "重命名",
    "添加",
    "增加",
    "删除",
    "替换",
    "实现",
    "重构",
];
const LOOKING: &[&str] = &[
    "find", "search", "grep", "where", "every", "places", "which", "look", "list", "查找", "找",
    "看看", "搜索", "哪些", "几个", "目录",
];
const PLANNING: &[&str] = &["plan", "todo", "todos", "steps", "计划", "清单", "步骤"];

/// What runs files of these kinds.
const RUNS: &[(&str, &[&str])] = &[
    ("python", &["py"]),
    ("python3", &["py"]),
    ("node", &["js", "mjs", "cjs", "ts"]),
    ("ruby", &["rb"]),
    ("perl", &["pl"]),
    ("php", &["php"]),
    ("bash", &["sh"]),
    ("sh", &["sh"]),
];
/// Which tool does what these programs are used for.
const INSTEAD: &[(&str, &str)] = &[
    ("cat", "Read"),
    ("head", "Read"),
    ("tail", "Read"),
    ("sed", "Edit"),
    ("grep", "Grep"),
    ("rg", "Grep"),
    ("find", "Glob"),
    ("ls", "LS"),
];
/// Programs that do anything: their names say nothing of a command.
const GENERAL: &[&str] = &[
    "npm", "pnpm", "yarn", "make", "cargo", "go", "bash", "sh", "python", "python3", "node", "run",
    "git", "env", "just", "npx", "sudo", "cd", "cat", "ls", "echo", "cp", "mv", "find", "grep",
    "sed", "bin", "src", "lib", "tools", "scripts", "services",
];

/// Names agree that begin alike in so many letters.
const MIN_ALIKE: usize = 4;
/// Of an item that fits by its words alone so many must be in the task, and this part of them.
const MIN_SHARED_WORDS: usize = 3;
const MIN_SHARED_PART: f64 = 0.5;

/// What an item is about, read once: tasks are many.
#[derive(Debug)]
pub(super) struct Subject {
    /// By which words a task would name its command.
    names: Vec<String>,
    topics: BTreeSet<&'static str>,
    words: BTreeSet<String>,
}

impl Subject {
    pub(super) fn of(item: &Item) -> Self {
        let head = item.failure.as_ref().and_then(|failure| failure.when.command_head.as_deref());
        let names = head.map(names_of).unwrap_or_default();
        let topics = head.map(|head| topics_of(item, head)).unwrap_or_default();
        Self { names, topics, words: words::of(&item.text).into_iter().collect() }
    }
}

/// What a task says, read once.
#[derive(Debug)]
pub(super) struct Task {
    sentences: Vec<Sentence>,
    topics: BTreeSet<&'static str>,
    words: BTreeSet<String>,
    /// It is about a text, and nothing is run for it.
    is_about_text: bool,
}

#[derive(Debug)]
struct Sentence {
    text: String,
    tokens: Vec<String>,
    /// It asks for something to be done or found out.
    orders: bool,
    is_question: bool,
    /// It says that something is run.
    runs: bool,
}

impl Task {
    /// The task's words; a line of it may be a command that decides about its end.
    pub(super) fn read(text: &str) -> Self {
        let (commands, prose): (Vec<&str>, Vec<&str>) =
            text.lines().partition(|line| is_command(line));
        let prose = without_quotes(&prose.join("\n"));
        let sentences: Vec<Sentence> = sentences(&prose).map(Sentence::read).collect();
        let mut topics: BTreeSet<&str> =
            commands.iter().filter_map(|line| topics::of_command(line)).collect();
        let orders = sentences.iter().filter(|sentence| sentence.orders);
        topics.extend(orders.flat_map(|sentence| topics::of_words(&sentence.text)));
        let names_text = sentences.iter().any(|sentence| {
            TEXTS.iter().any(|kind| sentence.names_kind(kind))
                || TEXT_NAMES.iter().any(|name| sentence.has(name))
        });
        let runs = sentences.iter().any(|sentence| sentence.orders && sentence.runs);
        let words = words::of(&prose).into_iter().collect();
        Self { sentences, topics, words, is_about_text: names_text && !runs }
    }

    /// How well an item fits; `None`: it is not told unasked.
    pub(super) fn fits(&self, item: &Item, subject: &Subject) -> Option<f64> {
        let Some(failure) = &item.failure else { return self.fits_words(item, subject) };
        let when = &failure.when;
        if let Some(path) = path_of(failure) {
            // Where the sources lie now matters to whoever does not name them.
            let is_folder = !path.rsplit('/').next().unwrap_or(path).contains('.');
            let is_general = is_folder && !self.is_about_text && self.names_no_path();
            return (self.names_path(path) || is_general).then_some(3.0);
        }
        let head = when.command_head.as_deref().unwrap_or_default();
        let instead = INSTEAD.iter().find(|(program, _)| *program == head);
        let tool = match (&failure.fix, instead) {
            (Some(Fix::OtherTool { tool, .. }), _) => tool.as_str(),
            (None, Some((_, tool))) if when.code == Some(ErrorCode::UseTool) => tool,
            _ => when.tool.as_str(),
        };
        match (tool, &when.command_head) {
            ("Bash" | "", Some(head)) => self.asks_for_command(subject, failure, head),
            ("Bash" | "", None) => self.fits_words(item, subject),
            _ => self.will_use(tool, when.file_kind.as_deref()).then_some(1.0),
        }
    }

    /// The task asks for what this command does.
    fn asks_for_command(
        &self,
        subject: &Subject,
        failure: &FailurePattern,
        head: &str,
    ) -> Option<f64> {
        if self.is_about_text {
            return None;
        }
        let fix = match &failure.fix {
            Some(Fix::ReplaceWords { to, .. }) => to.as_str(),
            Some(Fix::Prefix { with }) => with,
            Some(Fix::RunFirst { command }) => command,
            Some(
                Fix::RenameArgument { .. }
                | Fix::SetArguments { .. }
                | Fix::ReplacePath { .. }
                | Fix::OtherTool { .. },
            )
            | None => "",
        };
        let orders = || self.sentences.iter().filter(|sentence| sentence.orders);
        if orders().any(|sentence| subject.names.iter().any(|name| sentence.names(name))) {
            return Some(3.0);
        }
        let folder = fix.strip_prefix("cd ").and_then(|rest| rest.split_whitespace().next());
        if folder.is_some_and(|folder| self.names_path(folder)) {
            return Some(2.5);
        }
        if subject.topics.iter().any(|topic| self.topics.contains(topic)) {
            return Some(2.0);
        }
        let runs = RUNS.iter().find(|(program, _)| *program == head);
        let is_run = |kind: &str| orders().any(|sentence| sentence.names_kind(kind));
        let is_used =
            orders().any(|sentence| sentence.has(head) && RUNS.iter().any(|(p, _)| *p == head));
        runs.is_some_and(|(_, kinds)| is_used || kinds.iter().any(|kind| is_run(kind)))
            .then_some(2.0)
    }

    /// The task comes to this tool.
    fn will_use(&self, tool: &str, kind: Option<&str>) -> bool {
        let any = |is: &dyn Fn(&Sentence) -> bool| self.sentences.iter().any(is);
        let says = |words: &[&str]| any(&|sentence| words.iter().any(|word| sentence.has(word)));
        let names_file = any(&|sentence| match kind {
            Some(kind) => sentence.names_kind(kind),
            None => sentence.names_file(),
        });
        match tool {
            "Edit" | "MultiEdit" | "Write" => {
                let is_stated = any(&|sentence| sentence.names_file() && !sentence.is_question);
                (kind.is_none() || names_file) && (says(CHANGING) || is_stated)
            }
            "Read" => names_file,
            "TodoWrite" => says(PLANNING),
            _ => says(LOOKING),
        }
    }

    fn names_path(&self, path: &str) -> bool {
        let path = path.trim_matches('/').to_lowercase();
        let name = path.rsplit('/').next().unwrap_or(&path);
        let is_file = name.contains('.');
        self.sentences.iter().flat_map(|sentence| &sentence.tokens).any(|token| {
            *token == path
                || token.strip_prefix(path.as_str()).is_some_and(|rest| rest.starts_with('/'))
                || (is_file && token == name)
        })
    }

    fn names_no_path(&self) -> bool {
        !self.sentences.iter().any(|sentence| {
            sentence.names_file() || sentence.tokens.iter().any(|token| token.contains('/'))
        })
    }

    /// An item that is bound to no call: its subject is asked for, or most of its words stand in the task.
    fn fits_words(&self, item: &Item, subject: &Subject) -> Option<f64> {
        let topic = item.tags.topic.as_str();
        if !self.is_about_text && self.topics.contains(topic) {
            return Some(2.0);
        }
        let own = &subject.words;
        let shared = own.intersection(&self.words).count();
        #[expect(clippy::cast_precision_loss, reason = "a few words")]
        let part = shared as f64 / own.len().max(1) as f64;
        (shared >= MIN_SHARED_WORDS && part >= MIN_SHARED_PART).then_some(1.0 + part)
    }
}

impl Sentence {
    fn read(text: &str) -> Self {
        let is_question = text.trim_end().ends_with(['?', '？']);
        let text = text.to_lowercase();
        let tokens: Vec<String> = text
            .split(|c: char| !c.is_alphanumeric() && !matches!(c, '-' | '_' | '.' | '/' | '\''))
            .map(|token| token.trim_matches(['.', '\'', '-', '/']).to_owned())
            .filter(|token| !token.is_empty())
            .collect();
        let first =
            tokens.iter().find(|token| !["please", "now", "then", "and"].contains(&token.as_str()));
        let describes = first.is_some_and(|first| DESCRIBING.contains(&first.as_str()))
            || DESCRIBING_IN_CHINESE.iter().any(|word| text.contains(word));
        let refuses = tokens
            .windows(2)
            .any(|pair| NEGATIONS.contains(&pair[0].as_str()) && ACTS.contains(&pair[1].as_str()))
            || NEGATIONS_IN_CHINESE.iter().any(|word| text.contains(word));
        let runs = tokens.iter().any(|token| RUNNING.contains(&token.as_str()))
            || RUNNING_IN_CHINESE.iter().any(|word| text.contains(word));
        Self { text, tokens, orders: !describes && !refuses, is_question, runs }
    }

    fn has(&self, word: &str) -> bool {
        if !word.is_ascii() {
            return self.text.contains(word);
        }
        self.tokens.iter().any(|token| token == word)
    }

    /// A word of it, or a part of one, means this name: `verification` means `verify`.
    fn names(&self, name: &str) -> bool {
        if !name.is_ascii() {
            return self.text.contains(name);
        }
        self.tokens.iter().any(|token| {
            token == name || token.split(['/', '.', '-', '_']).any(|part| is_alike(part, name))
        })
    }

    fn names_kind(&self, kind: &str) -> bool {
        self.tokens.iter().any(|token| token.rsplit_once('.').is_some_and(|(_, end)| end == kind))
    }

    /// A word of it is a file's name.
    fn names_file(&self) -> bool {
        self.tokens.iter().any(|token| {
            token.rsplit_once('.').is_some_and(|(stem, end)| {
                !stem.is_empty()
                    && (1..=6).contains(&end.len())
                    && end.chars().any(char::is_alphabetic)
            }) || TEXT_NAMES.contains(&token.as_str())
        })
    }
}

/// What a command is for, by the table of commands and by the words of its names.
fn topics_of(item: &Item, head: &str) -> BTreeSet<&'static str> {
    let mut found: BTreeSet<&str> = topics::of_command(head).into_iter().collect();
    let names = names_of(head);
    found.extend(names.iter().flat_map(|name| topics::of_words(name)));
    found.extend(topics::all().filter(|topic| {
        let mut words = topics::words_of(topic).iter().filter(|word| word.len() >= MIN_ALIKE);
        words.any(|word| names.iter().any(|name| name.contains(word.as_str())))
    }));
    found.extend(topics::all().filter(|topic| *topic == item.tags.topic));
    found
}

/// The parts of a text that each say something.
fn sentences(text: &str) -> impl Iterator<Item = &str> {
    let parts = text.split_inclusive(['\n', '!', '?', ';', '。', '！', '？', '；', '，']);
    parts.flat_map(|part| part.split(". ")).filter(|part| !part.trim().is_empty())
}

/// The text without what stands in quotation marks: words that are spoken of, not asked for.
fn without_quotes(text: &str) -> String {
    let mut parts = text.split('"');
    let mut plain = parts.next().unwrap_or_default().to_owned();
    while let Some(quoted) = parts.next() {
        match parts.next() {
            Some(rest) => plain.push_str(rest),
            // A quotation that is not closed is none.
            None => plain.push_str(quoted),
        }
    }
    plain
}

/// A line that is a command rather than a sentence: it begins with a program in small letters and has few words.
fn is_command(line: &str) -> bool {
    let words: Vec<&str> = line.split_whitespace().collect();
    let is_end = line.trim_end().ends_with(['.', '?', '!']);
    let is_verb =
        |word: &str| [CHANGING, RUNNING, LOOKING].iter().any(|words| words.contains(&word));
    let Some(first) = words.first().copied() else { return false };
    let has_option = words.iter().skip(1).any(|word| word.starts_with('-'));
    let is_known = !is_verb(first) && (first.contains('/') || topics::of_command(line).is_some());
    !is_end && line.is_ascii() && first == first.to_lowercase() && (has_option || is_known)
}

/// The words by which a task would name this command.
fn names_of(head: &str) -> Vec<String> {
    let mut names = Vec::new();
    for word in head.split_whitespace().filter(|word| !word.starts_with('-')) {
        for part in word.split('/') {
            let part = part.to_lowercase();
            let stem = part.rsplit_once('.').map_or(part.as_str(), |(stem, _)| stem);
            let is_word = stem.chars().count() >= if stem.is_ascii() { 3 } else { 2 };
            if is_word && !GENERAL.contains(&stem) {
                names.push(stem.to_owned());
            }
        }
    }
    names
}

/// Two words with the same beginning: one is a form of the other.
fn is_alike(one: &str, other: &str) -> bool {
    let shorter = one.len().min(other.len());
    let alike = one.bytes().zip(other.bytes()).take_while(|(a, b)| a == b).count();
    one == other || (alike >= MIN_ALIKE && alike + 1 >= shorter)
}

/// The path that a pattern is about.
fn path_of(failure: &FailurePattern) -> Option<&str> {
    match &failure.fix {
        Some(Fix::ReplacePath { from, .. }) => Some(from),
        Some(
            Fix::ReplaceWords { .. }
            | Fix::Prefix { .. }
            | Fix::RenameArgument { .. }
            | Fix::SetArguments { .. }
            | Fix::RunFirst { .. }
            | Fix::OtherTool { .. },
        )
        | None => failure.when.path.as_deref(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::item::{Condition, Origin, Scope};
    use super::*;
    use crate::protocol::Object;
    use crate::protocol::recall::ItemKind;
    use crate::protocol::reflection::Tags;

    fn item(text: &str, topic: &str, failure: Option<FailurePattern>) -> Item {
        Item {
            id: "i".into(),
            scope: Scope::User,
            kind: if failure.is_some() { ItemKind::FailurePattern } else { ItemKind::Rule },
            text: text.into(),
            tags: Tags { topic: topic.into(), pattern: None },
            failure,
            because: None,
            evidence: Vec::new(),
            origin: Origin::Trace,
            frequency: 1,
            wins: 1,
            losses: 0,
            created_at_ms: 0,
            last_occurred_ms: 0,
        }
    }

    fn pattern(when: Condition, fix: Option<Fix>) -> Item {
        let failure = FailurePattern {
            skill: String::new(),
            condition: String::new(),
            error_type: String::new(),
            suggested_fix: None,
            when,
            fix,
        };
        item("do it so", "", Some(failure))
    }

    fn command(head: &str) -> Item {
        let when = Condition {
            tool: "Bash".into(),
            command_head: Some(head.into()),
            ..Condition::default()
        };
        pattern(when, None)
    }

    #[track_caller]
    fn check(item: &Item, fitting: &[&str], others: &[&str]) {
        for task in fitting {
            assert!(Task::read(task).fits(item, &Subject::of(item)).is_some(), "{task}");
        }
        for task in others {
            assert_eq!(Task::read(task).fits(item, &Subject::of(item)), None, "{task}");
        }
    }

    #[test]
    fn what_is_about_tests_is_told_where_tests_are_to_be_run_or_mended() {
        let fitting = [
            "Run the tests.",
            "The tests do not pass; fix them.",
            "tests/test_b.py fails. Find out why.",
            "make the suite green again",
            "fix the failing test in parser",
            "Add a regression test for parse().",
            "rename foo\npytest -q",
            "运行测试",
            "修复失败的测试",
        ];
        let others = [
            "Rename the variable test_path in config.txt.",
            "Write in the README where the tests live.",
            "Explain how the tests are run.",
            "List the test files.",
            "Fix the typo in the greeting. Don't run the tests, they take an hour.",
            "测试文件在哪里？说明一下",
        ];
        check(&command("pytest"), &fitting, &others);
        check(&item("Run the tests with -q.", "test", None), &fitting, &others);
    }

    #[test]
    fn a_command_of_the_project_is_told_where_its_name_is_to_be_done() {
        let others = ["What does the seed file hold?", "rename seed to kernel in a.txt"];
        check(&command("make seed"), &["Seed the database.", "please run seed"], &others);
        check(
            &command("./tools/gen.sh"),
            &["Regenerate the client and commit it.", "run tools/gen.sh"],
            &["Describe the tools in the README."],
        );
        check(
            &command("python"),
            &["run hello.py", "Use python to fix it"],
            &["rename a in b.txt"],
        );
    }

    #[test]
    fn a_path_is_told_where_it_is_named() {
        let moved = |from: &str| {
            let fix = Fix::ReplacePath { from: from.into(), to: "lib".into() };
            pattern(Condition { tool: "Read".into(), ..Condition::default() }, Some(fix))
        };
        check(
            &moved("src"),
            &["fix src/a.py", "Is the greeting still in English?"],
            &["fix lib/a.py", "see srcs/a.py", "Who is named in notes.txt?"],
        );
        check(&moved("src/util.py"), &["fix util.py", "fix src/util.py."], &["fix util.rs"]);
    }

    #[test]
    fn what_a_tool_takes_is_told_where_the_tool_will_be_used() {
        let edit = Condition {
            tool: "Edit".into(),
            argument: Some("file_path".into()),
            ..Condition::default()
        };
        let fix = Fix::RenameArgument { from: "file_path".into(), to: "path".into() };
        check(&pattern(edit, Some(fix)), &["rename a to b in c.txt"], &["What is in c.txt?"]);
        let json = Condition {
            tool: "Edit".into(),
            file_kind: Some("json".into()),
            ..Condition::default()
        };
        let fix = Fix::SetArguments { input: Object::new() };
        check(&pattern(json, Some(fix)), &["Change a.json"], &["Change a.rs"]);
    }

    #[test]
    fn a_rule_without_a_known_topic_needs_most_of_its_words() {
        let rule = item("Regenerate the fixtures after changing a mapper.", "mapper", None);
        check(
            &rule,
            &["I'm changing the user mapper: regenerate what has to be, fixtures too."],
            &["Change the mapper's name in the docs.", "list the fixtures"],
        );
    }
}
