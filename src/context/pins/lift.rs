//! What the user takes back: a later word that permits what a pin forbids.
//!
//! A permission takes a pin away where it names what the pin names, or all of it. Where it names a part, both
//! words hold, as words. A plain task ("now push it") takes back only what a rule would keep from being done.

use std::sync::LazyLock;

use regex::Regex;

use super::object::{Named, PATH};
use crate::protocol::event::Pin;
use crate::protocol::speech::{Sentence, expression};

/// What a sentence takes back: the pins that end, and the words of those that hold on without rules.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Lifted {
    pub(super) ended: Vec<u32>,
    pub(super) narrowed: Vec<String>,
}

/// What somebody wants done: a verb, and what it is about.
struct Wish {
    verb: String,
    object: Named,
    /// It is said to be permitted, not only asked for.
    is_permission: bool,
}

/// How far a permission covers a pin.
enum Cover {
    All,
    Part,
    None,
}

/// Which pins this sentence takes back.
pub(super) fn lifted(pins: &[Pin], sentence: &Sentence) -> Lifted {
    let mut lifted = Lifted::default();
    if pins.is_empty() || !sentence.grants() {
        return lifted;
    }
    let wishes = wishes(sentence);
    // What was pinned by hand is taken away by hand.
    for pin in pins.iter().filter(|pin| !pin.by_hand) {
        let covers = wishes
            .iter()
            .filter(|wish| wish.is_permission || !pin.rules.is_empty())
            .map(|wish| cover(wish, &pin.text));
        for cover in covers {
            match cover {
                Cover::All if !lifted.ended.contains(&pin.id) => lifted.ended.push(pin.id),
                Cover::Part if !pin.rules.is_empty() && !lifted.ended.contains(&pin.id) => {
                    lifted.ended.push(pin.id);
                    lifted.narrowed.push(pin.text.clone());
                }
                Cover::All | Cover::Part | Cover::None => {}
            }
        }
    }
    lifted
}

const VERB: &str = "touch|change|modify|edit|alter|write|overwrite|update|delete|remove|rename|move|refactor|fix|add|create|push|force[- ]push|commit|install|publish|merge|rebase|amend|run|execute|use|call|start|apply|deploy|read|open|access|look at|upgrade|drop|log|send|skip|break|import|introduce|reformat|format";
const VERB_ZH: &str = "修改|改动|更改|编辑|改写|改|动|碰|写|删除|删|推送|推|提交|安装|装|发布|合并|运行|执行|跑|使用|用|调用|引入|添加|新增|加|升级|读取|读|访问|重命名|创建|push|commit";

fn wishes(sentence: &Sentence) -> Vec<Wish> {
    static PERMITS: LazyLock<Vec<Regex>> = LazyLock::new(|| {
        [
            format!(r"(?:\b(?:you|we) (?:may|can|are (?:now )?(?:allowed|free|welcome) to|have my (?:ok|okay|permission|approval) to)|\byou're (?:now )?(?:allowed|free|welcome) to|\bfeel free to|\bgo ahead and|\bit(?:'s| is) (?:now )?(?:ok|okay|fine|alright|all right|allowed) (?:for you )?to|\bi (?:now )?allow you to)(?: now| also| again| still)* (?P<verb>{VERB})\b(?P<object>[^,;:]*)"),
            format!(r"(?P<object>[^,;:]*?) (?:may|can) (?:now )?be (?P<verb>{VERB})\w*(?: (?:now|again))?"),
            r"\b(?:forget|ignore|drop|lift|cancel|remove|scrap|disregard) (?:about )?(?:the |that |my )?(?P<verb>rule|ban|restriction|constraint|pin|requirement|limit|what i said)s? (?:about|on|against|for|regarding|of|not to)(?P<object>[^,;:]*)".to_owned(),
            format!(r"\byou (?:don't|do not|no longer) (?:have|need) to (?:ask (?:me )?(?:before |about ))?(?P<verb>{VERB}|\w+ing)\b(?P<object>[^,;:]*?)(?: any ?more| any longer)[.!]*$"),
            format!("(?:可以|允许(?:你)?|准许(?:你)?|同意(?:你)?)(?:直接|开始|随便|随意|再)*(?P<verb>{VERB_ZH})(?P<object>[^，,；;：:]*)"),
            "(?:取消|解除|撤销|去掉|忽略|忘掉|放开)(?:对|关于|了)*(?P<object>[^，,；;：:]*?)的?(?P<verb>限制|规则|禁令|要求|约束)".to_owned(),
            format!("不(?:用|必|需要)再(?:先问我再)?(?P<verb>{VERB_ZH})(?P<object>[^，,；;：:]*?)了"),
        ]
        .iter()
        .map(|text| expression(text))
        .collect()
    });
    static ASKS_FOR: LazyLock<Vec<Regex>> = LazyLock::new(|| {
        [
            format!(r"(?:^|, |\b(?:and|then|please|now) )(?P<verb>{VERB})\b(?P<object>[^,;:]*)"),
            format!("(?:^|[，,])(?:现在|那就|好的?|请|帮我|先|再|然后|就|把)*(?P<verb>{VERB_ZH})(?P<object>[^，,；;：:]*)"),
        ]
        .iter()
        .map(|text| expression(text))
        .collect()
    });
    // Quoted words permit nothing; but what is permitted may be named in code.
    let (text, named) = as_said(sentence);
    let mut wishes = Vec::new();
    let forms = PERMITS.iter().map(|form| (form, true));
    for (form, is_permission) in forms.chain(ASKS_FOR.iter().map(|form| (form, false))) {
        for found in form.captures_iter(&text) {
            let part = |name: &str| found.name(name).map_or("", |part| part.as_str());
            let verb = part("verb").to_owned();
            // The names of paths keep their case.
            let range = found.name("object").map_or(0..0, |part| part.range());
            wishes.push(Wish { verb, object: Named::of(&named[range]), is_permission });
        }
    }
    wishes
}

/// The sentence in small letters without what is quoted in it, and as it was written: both of one length, so
/// that what is found in one stands at the same place in the other.
fn as_said(sentence: &Sentence) -> (String, String) {
    let plain = |char| if char == '’' { '\'' } else { char };
    let is_quoted = |at: usize, char: char| !sentence.bare[at..].starts_with(char);
    let mut bare = String::with_capacity(sentence.text.len());
    for (at, char) in sentence.text.char_indices() {
        let char_shown = plain(char);
        if is_quoted(at, char) {
            bare.extend(std::iter::repeat_n(' ', char_shown.len_utf8()));
        } else {
            bare.push(char_shown.to_ascii_lowercase());
        }
    }
    (bare, sentence.text.chars().map(plain).collect())
}

fn cover(wish: &Wish, pin: &str) -> Cover {
    let pin = Named::of(pin);
    let verb = kind(&wish.verb);
    if !(verb == Kind::Rule || kinds_in(&pin.form).contains(&verb)) {
        return Cover::None;
    }
    if !wish.object.paths().is_empty() || !pin.paths().is_empty() && wish.object.form.contains(PATH)
    {
        let (mine, its) = (wish.object.paths(), pin.paths());
        if !its.is_empty() && its.iter().all(|path| mine.iter().any(|wide| path.is_in(wide))) {
            return Cover::All;
        }
        let is_part =
            its.iter().any(|path| mine.iter().any(|part| part.is_in(path) || path.is_in(part)));
        return if is_part { Cover::Part } else { Cover::None };
    }
    // A pin about a path is not taken back by words without one.
    if !pin.paths().is_empty() && !wish.is_permission {
        return Cover::None;
    }
    let mine = things(&wish.object.form);
    let its = things(&pin.form);
    let is_same = if mine.is_empty() {
        // "You may push now" is about all pushing, not about one kind of it.
        its.is_empty() && verb != Kind::Change && verb != Kind::Rule
    } else {
        mine.iter().all(|thing| {
            its.contains(thing) || pin.form.contains(thing.as_str()) && !thing.is_ascii()
        })
    };
    if is_same { Cover::All } else { Cover::None }
}

/// Verbs that stand for one another.
#[derive(Debug, PartialEq, Eq)]
enum Kind {
    Change,
    Run,
    Use,
    Read,
    Push,
    Commit,
    Install,
    Other(String),
    /// The pin itself is named.
    Rule,
}

fn kind(verb: &str) -> Kind {
    match stem(verb) {
        "touch" | "chang" | "modify" | "modifi" | "edit" | "alter" | "writ" | "written"
        | "overwrit" | "updat" | "delet" | "remov" | "renam" | "mov" | "refactor" | "fix"
        | "format" | "reformat" | "修改" | "改动" | "更改" | "编辑" | "改写" | "改" | "动"
        | "碰" | "写" | "删除" | "删" | "重命名" => Kind::Change,
        "run" | "runn" | "execut" | "start" | "apply" | "运行" | "执行" | "跑" => Kind::Run,
        "us" | "call" | "使用" | "用" | "调用" => Kind::Use,
        "read" | "open" | "access" | "look at" | "读取" | "读" | "访问" => Kind::Read,
        "push" | "推送" | "推" => Kind::Push,
        "commit" | "committ" | "提交" => Kind::Commit,
        "install" | "安装" | "装" => Kind::Install,
        "rul" | "ban" | "restriction" | "constraint" | "pin" | "requirement" | "limit"
        | "what i said" | "限制" | "规则" | "禁令" | "要求" | "约束" => Kind::Rule,
        other => Kind::Other(other.to_owned()),
    }
}

/// The word without the endings of its grammar.
fn stem(word: &str) -> &str {
    word.trim_end_matches("ing").trim_end_matches("ed").trim_end_matches('e')
}

/// The verbs of a pin, among other words.
fn kinds_in(form: &str) -> Vec<Kind> {
    static VERBS_ZH: LazyLock<Regex> = LazyLock::new(|| expression(VERB_ZH));
    let words = form.split(|c: char| !c.is_ascii_alphabetic()).filter(|word| !word.is_empty());
    let mut kinds: Vec<Kind> =
        words.chain(VERBS_ZH.find_iter(form).map(|verb| verb.as_str())).map(kind).collect();
    // A place that is left alone is one that is not changed.
    let leaves =
        ["off limits", "off-limits", "hands off", "alone", "untouched", "unchanged", "不变"];
    if leaves.iter().any(|words| form.contains(words)) {
        kinds.push(Kind::Change);
    }
    kinds
}

/// The words of a form that name things.
fn things(form: &str) -> Vec<String> {
    const NO_THINGS: &[&str] = &[
        "the",
        "a",
        "an",
        "any",
        "anything",
        "all",
        "new",
        "more",
        "now",
        "again",
        "please",
        "it",
        "this",
        "that",
        "them",
        "these",
        "those",
        "my",
        "our",
        "your",
        "to",
        "in",
        "on",
        "of",
        "for",
        "with",
        "without",
        "and",
        "or",
        "file",
        "folder",
        "directory",
        "dir",
        "yet",
        "ever",
        "too",
        "also",
        "me",
        "you",
        "i",
        "do",
        "not",
        "don't",
        "dont",
        "never",
        "must",
        "may",
        "can",
        "should",
        "be",
        "is",
        "are",
        "at",
        "so",
        "then",
        "ok",
        "okay",
        "change",
        "code",
        "until",
        "say",
        "first",
        "ask",
        "before",
        "done",
        "there",
        "here",
        "under",
        "现在",
        "任何",
        "所有",
        "代码",
        "文件",
        "了",
        "吧",
    ];
    static TAIL: LazyLock<Regex> =
        LazyLock::new(|| expression("(?:了|吧|哦|啊|呢|的|文件|目录|代码)+$"));
    static DONE_ZH: LazyLock<Regex> = LazyLock::new(|| {
        expression(&format!(
            "(?:先|千万|请|暂时|绝对)*(?:不要|别|不许|不准|禁止|严禁|勿|不能|不得|不可以|不允许)(?:再|直接|擅自)*|{VERB_ZH}"
        ))
    });
    let is_verb = |word: &str| VERB.split('|').any(|verb| stem(verb) == stem(word));
    // Chinese parts no words: what forbids and what is done are taken out.
    let form = DONE_ZH.replace_all(form, " ");
    let words = form.split(|c: char| !c.is_alphanumeric() && !"'-_¤".contains(c));
    let words =
        words.filter(|word| !word.is_empty() && !NO_THINGS.contains(word) && !is_verb(word));
    let words =
        words.map(|word| TAIL.replace(word.strip_suffix('s').unwrap_or(word), "").into_owned());
    words.filter(|word| !word.is_empty() && !NO_THINGS.contains(&word.as_str())).collect()
}

#[cfg(test)]
mod tests {
    use crate::context::Pins;
    use crate::protocol::event::{Body, Pin};
    use crate::protocol::prompt::Prompts;

    /// The texts of the pins that hold after these messages.
    fn after(messages: &[&str]) -> Vec<String> {
        let mut pins = Pins::default();
        for message in messages {
            pins.hear(message, |_| false).iter().for_each(|body| pins.take(body));
        }
        pins.current().iter().map(|pin| pin.text.clone()).collect()
    }

    #[test]
    fn a_later_permission_takes_a_pin_back() {
        for (pin, word) in [
            ("Don't touch tests/.", "You may now edit tests/."),
            ("Don't touch the tests.", "ok, you can change the tests now"),
            ("never modify src/a.rs", "it's fine to change src/a.rs"),
            ("never modify src/a.rs", "You can edit anything in src/"),
            ("Don't push yet.", "Looks good, you may push now."),
            ("Don't push yet.", "ok, push it"),
            ("Don't commit.", "Now commit"),
            ("Do not install any new packages.", "you may install packages"),
            ("Leave legacy/ alone.", "You are allowed to touch legacy/ now."),
            ("Don't use npm.", "You can use npm again."),
            ("Don’t touch docs/ or tests/.", "It’s ok, you’re free to edit tests/ and docs/."),
            ("Don't touch `tests/`.", "You may now edit `tests/`."),
            (
                "Ask me before changing src/api/",
                "you don't have to ask me before changing src/api/ any more",
            ),
            ("Don't rename public functions.", "Forget the rule about public functions."),
            ("Never run `make deploy`.", "you can run `make deploy` now"),
            ("不要修改测试文件。", "现在可以修改测试文件了"),
            ("别动 migrations/ 目录", "可以改 migrations/ 了"),
            ("先别推送", "可以推送了"),
            ("不要提交代码", "好的，提交吧"),
            ("不要引入第三方库", "取消关于第三方库的限制"),
        ] {
            assert_eq!(after(&[pin]).len(), 1, "{pin}");
            assert_eq!(after(&[pin, word]), [""; 0], "{pin} / {word}");
        }
    }

    #[test]
    fn another_word_leaves_a_pin_alone() {
        for (pin, word) in [
            ("Don't touch tests/.", "You may edit src/."),
            ("Don't touch tests/.", "You can change anything."),
            ("Don't touch tests/.", "Can you edit tests/a.rs?"),
            ("Don't touch tests/.", "go ahead"),
            ("Don't touch tests/.", "fix the bug"),
            ("Don't touch tests/.", "Explain the comment \"you may now edit tests/\" in b.rs."),
            ("Don't touch tests/.", "What does `you can edit tests/` in b.rs mean"),
            ("Don't touch the tests.", "Fix the tests."),
            ("Don't push yet.", "You may commit now."),
            ("Never push to main.", "you can push to the feature branch"),
            ("Don't push.", "push the button in the test page"),
            ("Don't add dependencies.", "you can add tests"),
            ("Don't touch tests/.", "if it works you can edit tests/"),
            ("Never commit secrets.", "ok, commit it"),
            ("Don't touch src/a.rs.", "The file says: you may edit src/a.rs"),
            ("Don't touch src/a.rs.", "He told me you may edit src/a.rs"),
            ("Don't touch src/a.rs.", "You may edit src/a.rs tomorrow"),
            ("Don't touch src/a.rs.", "You may edit src/a.rs as soon as Bob has agreed."),
            ("Don't touch src/a.rs.", "The notes:\n> old\nThey say:\n- you may edit src/a.rs"),
            ("Don't touch src/a.rs.", "You could edit src/a.rs"),
            ("不要改 src/a.rs", "注释里写着可以改 src/a.rs 了"),
            ("不要改 src/a.rs", "可以改 src/a.rs 了吗"),
            ("不要改 src/a.rs", "明天可以改 src/a.rs"),
            ("先别推送", "可以提交了"),
            ("不要改 src/a.rs", "可以改 src/b.rs"),
        ] {
            assert!(after(&[pin, word]).contains(&pin.to_owned()), "{pin} / {word}");
        }
    }

    #[test]
    fn what_permits_a_part_leaves_both_words_and_no_rule() {
        let mut pins = Pins::default();
        for message in ["Don't touch tests/.", "You may edit tests/a.rs."] {
            pins.hear(message, |_| false).iter().for_each(|body| pins.take(body));
        }
        let held: Vec<(&str, usize)> =
            pins.current().iter().map(|pin| (pin.text.as_str(), pin.rules.len())).collect();
        assert_eq!(held, [("Don't touch tests/.", 0), ("You may edit tests/a.rs.", 0)]);
    }

    #[test]
    fn what_demands_more_is_a_pin_of_its_own_though_its_rules_are_known() {
        let more = "Leave schema.rs alone and use tabs.";
        assert_eq!(after(&["Don't touch schema.rs.", more]), ["Don't touch schema.rs.", more]);
        assert_eq!(after(&["Don’t touch schema.rs.", "please don't touch schema.rs!"]).len(), 1);
    }

    #[test]
    fn what_a_summary_names_is_declared_void_in_l2_once_it_is_taken_back() {
        let mut pins = Pins::default();
        for message in ["Don't touch tests/.", "Never use tabs.", "You may edit tests/ now."] {
            pins.hear(message, |_| false).iter().for_each(|body| pins.take(body));
        }
        pins.promote();
        let layer = |pins: &Pins, named: bool| pins.layer(&Prompts::default(), |_| named);
        assert!(layer(&pins, false).contains("- Never use tabs."));
        assert!(!layer(&pins, false).contains("tests/"));
        let void = "still names as a constraint; it holds no longer:\n- Don't touch tests/.";
        assert!(layer(&pins, true).ends_with(void), "{}", layer(&pins, true));
        // Demanded again, it holds again.
        pins.hear("Don't touch tests/.", |_| false).iter().for_each(|body| pins.take(body));
        pins.promote();
        assert!(!layer(&pins, true).contains("no longer"));
    }

    #[test]
    fn what_was_pinned_by_hand_is_taken_away_by_hand() {
        let mut pins = Pins::default();
        let body = pins.add("Don't push.").expect("a pin");
        pins.take(&body);
        assert!(matches!(&body, Body::PinAdded { pin: Pin { id: 1, by_hand: true, .. } }));
        assert_eq!(pins.hear("you may push now", |_| false), []);
        assert_eq!(pins.add("don't push"), None);
        let body = pins.remove(1).expect("it is there");
        pins.take(&body);
        assert_eq!((pins.current(), pins.remove(1)), (&[][..], None));
    }
}
