//! Is a remembered item worth telling to a task unasked? Only where the task asks for what the item is about; words
//! that two texts share are not enough.
//!
//! A task asks for a topic (tests, a build …) where a sentence of it tells to do it: the topic's word is its verb, or
//! stands beside a word of doing (`run`, `fix`, `passes`). A sentence that explains, lists or describes asks for
//! nothing; neither does one that says not to.

use std::collections::BTreeSet;

use super::item::{FailurePattern, Fix, Item};
use super::store::words;
use super::topics;

/// Words of doing: with one of them in its sentence a topic is asked for.
const DOING: &[&str] = &[
    "run", "runs", "running", "rerun", "execute", "pass", "passes", "passing", "fail", "fails",
    "failing", "failed", "fix", "fixes", "repair", "broken", "breaks", "green", "red", "verify",
    "ensure", "make", "try", "get", "works", "working", "launch", "use", "call",
];
const DOING_IN_CHINESE: &[&str] = &[
    "运行",
    "跑",
    "执行",
    "通过",
    "失败",
    "修复",
    "修好",
    "修一下",
    "确保",
    "验证",
    "重新",
    "启动",
    "报错",
    "挂了",
];
/// A word behind one of these is what is to be done.
const BEFORE_A_VERB: &[&str] = &[
    "and", "then", "to", "please", "also", "must", "should", "can", "could", "now", "just", "you",
    "me", "us", "let's", "lets", "finally", "first", "re",
];
/// `add a test`: what is written is tried.
const MAKING: &[&str] = &["add", "write", "create", "extend", "update"];
const ARTICLES: &[&str] =
    &["a", "an", "the", "some", "more", "new", "unit", "missing", "regression"];
/// A sentence that begins so asks for words.
const DESCRIBING: &[&str] = &[
    "explain",
    "describe",
    "what",
    "how",
    "where",
    "which",
    "who",
    "when",
    "list",
    "count",
    "document",
    "summarise",
    "summarize",
    "mention",
    "tell",
    "translate",
    "does",
    "do",
    "is",
    "are",
    "compare",
    "note",
];
const DESCRIBING_IN_CHINESE: &[&str] =
    &["解释", "说明", "描述", "是什么", "为什么", "列出", "统计", "翻译", "介绍", "多少"];
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

/// Words of changing files, and of looking at them.
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
    "read", "look", "show", "find", "search", "open", "print", "grep", "where", "which", "count",
    "list", "读", "查找", "找", "看", "搜索", "打开",
];

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

/// Of an item that fits by its words alone so many must be in the task, and this part of them.
const MIN_SHARED_WORDS: usize = 3;
const MIN_SHARED_PART: f64 = 0.5;

/// What a task says, read once.
#[derive(Debug)]
pub(super) struct Task {
    sentences: Vec<Sentence>,
    /// Topics of lines that are commands.
    commands: BTreeSet<&'static str>,
    words: BTreeSet<String>,
}

#[derive(Debug)]
struct Sentence {
    text: String,
    tokens: Vec<String>,
    /// It tells to do something.
    orders: bool,
    /// A word of doing stands in it.
    does: bool,
}

impl Task {
    /// The task's words; a line of it may be a command that decides about its end.
    pub(super) fn read(text: &str) -> Self {
        let sentences: Vec<Sentence> = sentences(text).map(Sentence::read).collect();
        let commands = text.lines().filter(|line| is_command(line)).filter_map(topics::of_command);
        let words = words::of(text).into_iter().collect();
        Self { sentences, commands: commands.collect(), words }
    }

    /// How well an item fits; `None`: it is not told unasked.
    pub(super) fn fits(&self, item: &Item) -> Option<f64> {
        let Some(failure) = &item.failure else { return self.fits_words(item) };
        let when = &failure.when;
        if let Some(path) = path_of(failure) {
            return self.names_path(path).then_some(3.0);
        }
        if let Some(head) = &when.command_head {
            return self.asks_for_command(head);
        }
        let is_contract = when.argument.is_some() || !matches!(when.tool.as_str(), "" | "Bash");
        if is_contract {
            let words = match when.tool.as_str() {
                "Edit" | "MultiEdit" | "Write" => CHANGING,
                _ => LOOKING,
            };
            let kind = when.file_kind.as_deref();
            let has_kind = kind.is_none_or(|kind| self.names_kind(kind));
            let asks =
                self.sentences.iter().any(|sentence| words.iter().any(|word| sentence.has(word)));
            return (asks && has_kind).then_some(1.0);
        }
        self.fits_words(item)
    }

    /// The task asks for what this command does.
    fn asks_for_command(&self, head: &str) -> Option<f64> {
        let names = names_of(head);
        if self.sentences.iter().any(|sentence| names.iter().any(|name| sentence.asks_for(name))) {
            return Some(3.0);
        }
        let topic = topics::of_command(head);
        if topic.is_some_and(|topic| self.asks_for(topic)) {
            return Some(2.0);
        }
        let runs = RUNS.iter().find(|(program, _)| *program == head);
        let is_run = |kind: &&str| {
            self.sentences.iter().any(|sentence| sentence.does && sentence.names_kind(kind))
        };
        runs.is_some_and(|(_, kinds)| kinds.iter().any(|kind| is_run(&kind))).then_some(2.0)
    }

    fn asks_for(&self, topic: &str) -> bool {
        let words = topics::words_of(topic);
        self.commands.contains(topic)
            || self
                .sentences
                .iter()
                .any(|sentence| words.iter().any(|word| sentence.asks_for(word)))
    }

    fn names_path(&self, path: &str) -> bool {
        let name = path.rsplit('/').next().unwrap_or(path);
        let is_file = name.contains('.');
        self.sentences.iter().flat_map(|sentence| &sentence.tokens).any(|token| {
            token == path
                || token.strip_prefix(path).is_some_and(|rest| rest.starts_with('/'))
                || (is_file && token == name)
        })
    }

    fn names_kind(&self, kind: &str) -> bool {
        self.sentences.iter().any(|sentence| sentence.names_kind(kind))
    }

    /// An item that is bound to no call: its subject is asked for, and its own words stand in the task.
    fn fits_words(&self, item: &Item) -> Option<f64> {
        let topic = item.tags.topic.as_str();
        if !topics::words_of(topic).is_empty() {
            return self.asks_for(topic).then_some(2.0);
        }
        let own: BTreeSet<String> = words::of(&item.text).into_iter().collect();
        let shared = own.intersection(&self.words).count();
        #[expect(clippy::cast_precision_loss, reason = "a few words")]
        let part = shared as f64 / own.len().max(1) as f64;
        (shared >= MIN_SHARED_WORDS && part >= MIN_SHARED_PART).then_some(1.0 + part)
    }
}

impl Sentence {
    fn read(text: &str) -> Self {
        let text = text.to_lowercase();
        let tokens: Vec<String> = text
            .split(|c: char| !c.is_alphanumeric() && !matches!(c, '-' | '_' | '.' | '/' | '\''))
            .map(|token| token.trim_matches(['.', '\'', '-']).to_owned())
            .filter(|token| !token.is_empty())
            .collect();
        let first =
            tokens.iter().find(|token| !["please", "now", "then"].contains(&token.as_str()));
        let describes = first.is_some_and(|first| DESCRIBING.contains(&first.as_str()))
            || DESCRIBING_IN_CHINESE.iter().any(|word| text.contains(word));
        let refuses = tokens
            .windows(2)
            .any(|pair| NEGATIONS.contains(&pair[0].as_str()) && ACTS.contains(&pair[1].as_str()))
            || NEGATIONS_IN_CHINESE.iter().any(|word| text.contains(word));
        let does = tokens.iter().any(|token| DOING.contains(&token.as_str()))
            || DOING_IN_CHINESE.iter().any(|word| text.contains(word));
        Self { text, tokens, orders: !describes && !refuses, does }
    }

    /// It tells to do what this word is about.
    fn asks_for(&self, word: &str) -> bool {
        if !self.orders || !(self.has(word) || self.does && self.has_in_path(word)) {
            return false;
        }
        self.does
            || self.tokens.iter().enumerate().any(|(at, token)| {
                let before = |back: usize| at.checked_sub(back).map(|at| self.tokens[at].as_str());
                let is_verb =
                    at == 0 || before(1).is_some_and(|before| BEFORE_A_VERB.contains(&before));
                let mut back = 1;
                while before(back).is_some_and(|before| ARTICLES.contains(&before)) {
                    back += 1;
                }
                let is_made = before(back).is_some_and(|before| MAKING.contains(&before));
                token == word && (is_verb || is_made)
            })
    }

    fn has(&self, word: &str) -> bool {
        if !word.is_ascii() {
            return self.text.contains(word);
        }
        let parts: Vec<&str> = word.split(' ').collect();
        self.tokens
            .windows(parts.len())
            .any(|window| window.iter().zip(&parts).all(|(a, b)| a == b))
    }

    /// A folder or file of this name: `tests/test_b.py fails`.
    fn has_in_path(&self, word: &str) -> bool {
        let paths = self.tokens.iter().filter(|token| token.contains('/'));
        paths.into_iter().any(|path| path.split(['/', '.', '_']).any(|part| part == word))
    }

    fn names_kind(&self, kind: &str) -> bool {
        self.tokens.iter().any(|token| token.rsplit_once('.').is_some_and(|(_, end)| end == kind))
    }
}

/// The parts of a text that each say something.
fn sentences(text: &str) -> impl Iterator<Item = &str> {
    let parts = text.split(['\n', '!', '?', ';', '。', '！', '？', '；', '，']);
    parts.flat_map(|part| part.split(". ")).filter(|part| !part.trim().is_empty())
}

/// A line that is a command rather than a sentence: it begins with a program in small letters and has few words.
fn is_command(line: &str) -> bool {
    let words: Vec<&str> = line.split_whitespace().collect();
    let is_end = line.trim_end().ends_with(['.', '?', '!']);
    !words.is_empty() && words.len() <= 8 && !is_end && line.is_ascii() && {
        let first = words[0];
        first == first.to_lowercase() && !DOING.contains(&first) && !MAKING.contains(&first)
    }
}

/// The words by which a task would name this command.
fn names_of(head: &str) -> Vec<String> {
    const GENERAL: &[&str] = &[
        "npm", "pnpm", "yarn", "make", "cargo", "go", "bash", "sh", "python", "python3", "node",
        "run", "git", "env", "just", "npx", "-m", "sudo", "cd", "cat", "ls", "echo", "cp", "mv",
        "find", "grep", "sed",
    ];
    let mut names = vec![head.to_lowercase()];
    for word in head.split_whitespace() {
        let name = word.rsplit('/').next().unwrap_or(word).to_lowercase();
        let stem = name.rsplit_once('.').map_or(name.as_str(), |(stem, _)| stem);
        if !GENERAL.contains(&name.as_str()) && stem.len() >= 3 && !word.starts_with('-') {
            names.extend([stem.to_owned(), name.clone(), word.to_lowercase()]);
        }
    }
    if let [program] = names.as_slice() {
        // `python` alone, `make` alone: that very word.
        names = vec![program.clone()];
    }
    names
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
            assert!(Task::read(task).fits(item).is_some(), "{task}");
        }
        for task in others {
            assert_eq!(Task::read(task).fits(item), None, "{task}");
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
        check(&moved("src"), &["fix src/a.py"], &["fix the source", "see srcs/a.py"]);
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
