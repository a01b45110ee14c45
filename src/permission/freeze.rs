//! "Don't change anything until I say so": a red line that the user draws in passing, in English or
//! Chinese, heard in code because a model's memory is no place for it.
//!
//! Only a plain "nothing at all" is heard. What names a file or leaves something out ("nothing else",
//! "除了测试") is a rule about that, not a freeze. Text in quotes, code and citations is nobody's word.

use std::sync::LazyLock;

use regex::Regex;

use crate::protocol::speech::{self, expression, led_by, sentences};

/// What a message says about changes as such.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    /// Nothing is to be changed until the user lifts it; in the user's words.
    Freeze(String),
    /// Changes are welcome again; in the user's words.
    Lift(String),
}

/// What the user says in this message. Whether something is lifted is only asked while it is `frozen`.
pub fn heard(message: &str, frozen: bool) -> Option<Heard> {
    // Most messages hold none of the words that every freeze needs: they cost nothing.
    let lower = message.to_lowercase();
    if !frozen && !HINTS.iter().any(|hint| lower.contains(hint)) {
        return None;
    }
    let sentences = sentences(message);
    let said = || sentences.iter().filter(|sentence| !sentence.is_question());
    if let Some(sentence) = said().find(|sentence| freezes(&sentence.own)) {
        return Some(Heard::Freeze(sentence.text.clone()));
    }
    let lifting = said().find(|sentence| frozen && lifts(&sentence.own));
    lifting.map(|sentence| Heard::Lift(sentence.text.clone()))
}

/// One of these stands in every freeze.
const HINTS: &[&str] = &[
    "not",
    "n't",
    "n’t",
    "dont",
    "never",
    "without",
    "no ",
    "nothing",
    "only",
    "just look",
    "just read",
    "just browse",
    "hands off",
    "stop",
    "hold off",
    "refrain",
    "avoid",
    "before",
    "leave",
    "不",
    "别",
    "勿",
    "只",
    "仅",
];

fn freezes(sentence: &str) -> bool {
    let mut clauses = clauses(sentence).peekable();
    while let Some(clause) = clauses.next() {
        let is_freeze = FREEZES.iter().any(|freeze| freeze.is_match(clause))
            || WITHOUT.is_match(clause) && LOOKS.is_match(sentence);
        let is_limited = clauses.peek().is_some_and(|next| EXCEPT.is_match(next));
        if is_freeze && !is_limited {
            return true;
        }
    }
    false
}

fn lifts(sentence: &str) -> bool {
    !NOT.is_match(sentence)
        && clauses(sentence).any(|clause| LIFTS.iter().any(|l| l.is_match(clause)))
}

/// Parts of a sentence without the words that only lead to one.
fn clauses(sentence: &str) -> impl Iterator<Item = &str> {
    static LEAD: LazyLock<Regex> = LazyLock::new(|| {
        expression(
            r"^(?:(?:please|ok|okay|and|so|then|but|for now|also|now|first|again|really|hey|yes|sure|alright|great|good|thanks|请|现在|好的?|那么?|另外|记住|注意|先|你|但是?)[\s:：]*)+",
        )
    });
    speech::clauses(sentence).filter_map(|clause| led_by(&LEAD, clause))
}

/// All that there is: the object of a freeze.
const ANYTHING: &str = r"(?:anything|any (?:\w+ )?(?:files?|code|thing)|any of (?:it|this|that|the (?:files|code))|(?:the |my |our )?(?:files|code|codebase|source|repo|repository|project))";
/// What may follow without taking anything back.
const TAIL: &str = r"(?:\s+(?:yet|for now|for the moment|right now|now|at all|please|today|here|whatsoever|ok|okay|though))*(?:\s+(?:until|till|before|unless|without|while)\s.*)?$";

static FREEZES: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    let not =
        r"(?:do not|don't|dont|must not|mustn't|shouldn't|should not|never|not to|can't|cannot)";
    let verb = r"(?:change|modify|edit|touch|alter|write(?: to)?|rewrite|update|fix|implement|commit|delete|overwrite)";
    let verbs = format!("{verb}(?:(?:,| or| and|/) ?{verb})*");
    let zh_not = "(?:不要|不许|不准|不得|不能|不可以?|先别|先不要?|先勿|别|勿|请勿|切勿|千万别|千万不要|暂时不要?|暂时别|暂不)";
    let zh_verb = "(?:修改|改动|更改|变更|编辑|改写|改|动|碰|写入?|动手)";
    let zh_all = "(?:任何|一切|所有|我的|这些|现有的?)?(?:的)?(?:东西|文件|代码|内容|地方|源码|源代码|项目|仓库)?";
    let zh_tail = "(?:了|哦|啊|吧|呢|哈|先|谢谢|\\s)*$";
    let zh_until = "(?:在?我?.{0,12}(?:之前|以前|前)[^改动]{0,4})?";
    [
        format!(r"\b{not} (?:(?:yet|even|ever|just|you|actually) )?{verbs} {ANYTHING}{TAIL}"),
        format!(r"\b{not} (?:make|do|apply|commit) (?:any )?(?:\w+ )?(?:changes?|edits?|modifications?|writes?){TAIL}"),
        r"^(?:make |absolutely |with )?no (?:code |file )?(?:changes|edits|modifications|writes)(?: (?:yet|for now|please|allowed|at all|until .*|before .*))*$".to_owned(),
        format!(r"^(?:make |do )?nothing (?:is|may|must|shall|should|can) (?:to )?(?:be )?(?:changed|edited|modified|touched|written){TAIL}"),
        r"^(?:let's |you )?(?:just|only) (?:look|read|browse)(?: (?:around|at it|at this|it|through it|please|for now))*$".to_owned(),
        r"^look(?:,)? (?:but |and )?(?:do not|don't) touch".to_owned(),
        r"^(?:look|read)(?: |-)only(?: mode)?(?: (?:please|for now|from now on|until .*))*$".to_owned(),
        format!(r"\b(?:stay|switch|go|be|keep|remain|work)(?: (?:in|to|into|it))? read-?only(?: mode)?{TAIL}"),
        format!(r"^(?:keep your )?hands off(?: {ANYTHING})?{TAIL}"),
        format!(r"^(?:stop|hold off|refrain from|avoid) (?:on )?(?:any |all |making )*(?:editing|changing|writing|modifying|changes|edits|modifications|touching)(?: {ANYTHING})?{TAIL}"),
        format!(r"\b(?:ask|check with|wait for|consult) (?:me|my (?:ok|okay|approval|go-?ahead|confirmation|word|permission))(?: first)? before (?:you )?(?:mak(?:e|ing)|chang(?:e|ing)|edit(?:ing)?|modify(?:ing)?|touch(?:ing)?|writ(?:e|ing)) (?:{ANYTHING}|any (?:\w+ )?(?:changes?|edits?))$"),
        format!(r"^leave {ANYTHING} (?:alone|as (?:it is|they are|is)|untouched|unchanged){TAIL}"),
        format!("^{zh_until}{zh_not}(?:再|去|先|急着)?{zh_verb}{zh_all}{zh_tail}"),
        format!("^{zh_until}{zh_not}(?:再|先)?(?:做|作|进行)(?:任何|什么)?(?:代码)?(?:修改|改动|更改|变更|编辑){zh_tail}"),
        format!("^(?:先)?(?:只|仅)(?:看|读|分析|讨论|查看|阅读)(?:代码|看)?(?:不|别|不要)?(?:改|动|写|修改|改动)?{zh_tail}"),
        format!("(?:切换到|切到|进入|保持|改为|用|处于)只读(?:模式|状态)?{zh_tail}"),
        format!("^只读(?:模式)?{zh_tail}"),
        format!("^(?:任何|所有)(?:东西|文件|代码)?都?(?:不要|别|不许|不能)(?:修改|改|动|碰)(?:动)?{zh_tail}"),
    ]
    .iter()
    .map(|text| expression(text))
    .collect()
});

/// "… without changing anything": a freeze only where the rest asks to look.
static WITHOUT: LazyLock<Regex> = LazyLock::new(|| {
    expression(&format!(
        r"\bwithout (?:changing|modifying|editing|touching|altering|writing) {ANYTHING}{TAIL}"
    ))
});
static LOOKS: LazyLock<Regex> = LazyLock::new(|| {
    expression(
        r"\b(?:explain|describe|look|analy[sz]e|review|tell|show|find|summari[sz]e|investigate|check|plan|propose|suggest|list|read|think|inspect|study|audit)\b",
    )
});
/// What follows takes something out of it.
static EXCEPT: LazyLock<Regex> = LazyLock::new(|| {
    expression(
        r"^(?:except|other than|apart from|aside from|besides|unless it|only (?:change|edit|fix|touch)|(?:just|instead|do|then|you (?:can|may)|only) ?(?:change|edit|fix|update|add|write|rename|move|remove|touch)|(?:fix|change|edit|update|add|write|rename|remove|implement) |除了|除|只改|只修改|仅修改|但(?:是)?(?:可以)?(?:改|修改))",
    )
});

static NOT: LazyLock<Regex> = LazyLock::new(|| {
    expression(
        r"\b(?:don't|do not|dont|not|never|before|until|once|when|if|after)\b|不|别|勿|之前|等我",
    )
});
static LIFTS: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    [
        r"^(?:you (?:can|may|could) )?(?:now )?(?:go ahead|proceed|go for it|do it|do so)\b",
        r"^(?:let's |you (?:can|may) )?(?:now )?(?:make|apply|implement|carry out) (?:it|them|that|this|your|the|all|these|those)\b",
        r"^you(?:'re| are)? (?:can|may|free to|allowed to|welcome to)(?: now)? (?:change|edit|modify|write|start|make|touch|implement|fix)\b",
        r"^(?:lift|end|cancel|remove|drop) (?:the |that )?(?:freeze|read-?only|ban)",
        r"^(?:unfreeze|thaw|approved|permission granted|green light|you have my (?:ok|okay|approval|go-?ahead))\b",
        r"^(?:start|begin|resume) (?:editing|changing|coding|writing|implementing|with the (?:changes|edits|implementation))\b",
        r"^(?:changes|edits) are (?:fine|ok|okay|allowed|welcome)\b",
        r"^i say so\b",
        r"^(?:可以|能)(?:开始)?(?:修改|改|动手|动|写|编辑|实施|执行)",
        r"^(?:就|开始|继续)?(?:动手|修改|改|写|执行|实施)(?:代码|文件)?(?:吧|了)$",
        r"^(?:开始|继续)(?:修改|改|动手|写代码|实施|执行)",
        r"^(?:解除|取消|结束)(?:冻结|只读|限制)",
        r"^(?:就)?按(?:这个|你的|此)?(?:方案|计划|思路)?(?:改|做|来|修改|执行)",
        r"^(?:我)?(?:同意|批准)(?:了|修改|改)?",
    ]
    .iter()
    .map(|text| expression(text))
    .collect()
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_freeze_is_heard() {
        for message in [
            "Don't change anything until I say so.",
            "don’t change anything yet",
            "Please do not modify any files.",
            "Look at the parser. Do not edit anything for now.",
            "Explain the failure, but don't touch the code!",
            "don't make any changes",
            "Don't make changes before I have seen the plan",
            "Make no changes yet.",
            "No edits please",
            "Just look.",
            "only read for now",
            "look but don't touch",
            "Read-only please",
            "stay in read-only mode",
            "Switch to read-only until I'm back.",
            "Hands off the code for now.",
            "Stop editing!",
            "hold off on any changes until tomorrow",
            "Ask me before you change anything.",
            "Check with me first before making any changes",
            "Explain how the cache works without changing anything.",
            "Review src/main.rs without touching the code",
            "You must not write any code yet",
            "Nothing may be changed until the release is out.",
            "Leave the code alone for now",
            "ok, don't change or delete anything",
            "I want to understand it first: don't change anything.",
            "不要改任何文件",
            "先别改代码。",
            "先看看，别动代码",
            "在我同意之前不要修改任何代码",
            "我没说可以之前别动",
            "请不要做任何修改。",
            "只看不改",
            "暂时不要动任何东西，谢谢",
            "切换到只读模式",
            "先不要动手",
            "所有文件都不要动",
            "分析一下这个错误，不要修改代码！",
            "别改了",
        ] {
            let heard = heard(message, false);
            assert!(matches!(heard, Some(Heard::Freeze(_))), "{message}: {heard:?}");
        }
    }

    #[test]
    fn what_leaves_something_out_or_asks_is_no_freeze() {
        for message in [
            "Fix the bug. Don't change anything else.",
            "don't change anything in vendor/",
            "Don't touch the files in tests/",
            "Don't change the code style",
            "Don't change anything except the tests.",
            "Don't change anything, except the tests.",
            "Don't modify the public API",
            "Rename it without changing any behaviour",
            "Refactor this function without changing anything else",
            "Simplify the parser without changing the code paths of errors",
            "Why does it not change anything?",
            "Should I not change anything?",
            "The test says \"don't change anything\" and fails",
            "Print `do not modify any files` at the start",
            "> don't change anything\nThat is what the old comment says; remove it.",
            "There are no changes in the log, find out why",
            "Make the file read-only with chmod",
            "Implement the read-only mode of the store",
            "Add a check so that users can't edit files they don't own",
            "Just look up the version and bump it",
            "Only change src/a.rs",
            "Don't write tests",
            "Don't forget to update the changelog",
            "The button does not change anything, repair it",
            "Never commit secrets",
            "Stop the server when the tests end",
            "不要改 src/api 里的代码",
            "不要修改测试文件",
            "除了测试不要改别的",
            "不要改任何文件，除了 README",
            "不要改变接口，修复这个错误",
            "为什么不能修改文件？",
            "实现只读模式的存储",
            "别忘了更新文档",
            "把不要的代码删掉",
        ] {
            assert_eq!(heard(message, false), None, "{message}");
        }
    }

    #[test]
    fn a_lift_is_heard_while_frozen() {
        for message in [
            "Go ahead.",
            "ok, go ahead and fix it",
            "Yes, proceed",
            "do it",
            "You may change things now... you can edit the parser",
            "Make the changes",
            "Apply it",
            "Implement it now",
            "Approved!",
            "unfreeze",
            "Great, start editing",
            "lift the freeze",
            "可以改了",
            "好的，开始改吧",
            "动手吧",
            "改吧",
            "按这个方案改",
            "同意",
            "解除只读",
        ] {
            let heard_frozen = heard(message, true);
            assert!(matches!(heard_frozen, Some(Heard::Lift(_))), "{message}: {heard_frozen:?}");
            assert_eq!(heard(message, false), None, "{message}");
        }
        for message in [
            "What does it do?",
            "Don't go ahead yet",
            "Can you make the changes smaller in the plan?",
            "Tell me more before you go ahead",
            "continue the analysis",
            "不可以改",
            "等我说可以改了再改",
            "继续分析",
        ] {
            let heard = heard(message, true);
            assert!(!matches!(heard, Some(Heard::Lift(_))), "{message}: {heard:?}");
        }
    }

    #[test]
    fn the_users_sentence_is_kept_as_it_was() {
        let message = "Look at it first. Don't change anything until I say so! Thanks.";
        let expected = "Don't change anything until I say so!";
        assert_eq!(heard(message, false), Some(Heard::Freeze(expected.to_owned())));
    }
}
