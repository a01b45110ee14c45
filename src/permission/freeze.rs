//! "Don't change anything until I say so": a red line that the user draws in passing, in English or
//! Chinese, heard in code because a model's memory is no place for it.
//!
//! Only a plain "nothing at all" is heard. What names a file or leaves something out ("nothing else",
//! "除了测试") is a rule about that, not a freeze. Text in quotes, code and citations is nobody's word.

use std::sync::LazyLock;

use regex::Regex;

use crate::protocol::speech::{self, Sentence, expression, led_by, sentences};

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
    let rest = Rest { only_looks: only_looks(&sentences), asks_change: asks_change(&sentences) };
    let forbids = |sentence: &&Sentence| {
        if sentence.is_question() {
            asks_for_none(&sentence.own)
        } else {
            freezes(&sentence.own, rest)
        }
    };
    if let Some(sentence) = sentences.iter().find(forbids) {
        return Some(Heard::Freeze(sentence.text.clone()));
    }
    if !frozen || sentences.iter().any(|sentence| LOOKS_FIRST.is_match(&sentence.own)) {
        return None;
    }
    let lifting = sentences.iter().find(|sentence| lifts(sentence));
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
    "forbid",
    "freeze",
    "pause",
    "halt",
    "suspend",
    "refrain",
    "avoid",
    "before",
    "leave",
    "keep",
    "wait",
    "stay",
    "treat",
    "consider",
    "regard",
    "保持",
    "前",
    "不",
    "别",
    "勿",
    "禁",
    "停",
    "住手",
    "只",
    "仅",
];

/// What the whole message asks for, where a sentence alone may be an order or a report.
#[derive(Clone, Copy, Default)]
struct Rest {
    /// To look at something, and for no change.
    only_looks: bool,
    /// To change something now.
    asks_change: bool,
}

/// A question that is a polite order to change nothing, or to look without a change.
fn asks_for_none(sentence: &str) -> bool {
    static POLITE: LazyLock<Regex> = LazyLock::new(|| {
        expression(
            r"^(?:please |and |but |ok |so )*(?:can|could|would|will) you (?:please |just )*",
        )
    });
    static LOOK: LazyLock<Regex> = LazyLock::new(|| {
        expression(
            r"^(?:look|explain|describe|analy[sz]e|review|summari[sz]e|investigate|inspect|study|audit|read|check)\b",
        )
    });
    // What is done without a change may be what is looked for.
    static MORE: LazyLock<Regex> = LazyLock::new(|| expression(r"\b(?:and|then|to|can|could)\b"));
    let Some(lead) = POLITE.find(sentence) else { return false };
    let asked = sentence[lead.end()..].trim_end_matches(['?', '？', '!', ' ']);
    if asked.starts_with("not ") {
        return freezes(&format!("do {asked}"), Rest::default());
    }
    LOOK.is_match(asked) && !MORE.is_match(asked) && WITHOUT.is_match(asked)
}

fn freezes(sentence: &str, rest: Rest) -> bool {
    let sentence = &TEXT_OF.replace_all(sentence, "…");
    if BEFORE.is_match(sentence) {
        return true;
    }
    // "Nothing gets written until …. Fix that": what is to be mended, and no order.
    let is_order = |time: &Regex, said: &str| !rest.asks_change || time.is_match(said);
    if TIME_FIRST.is_match(sentence) && is_order(&SAYS, sentence) {
        return true;
    }
    let sentence = &ASIDE.replace_all(sentence, " ");
    // Of three, the second pass finds the last two.
    let pairs = LIST.replace_all(sentence, "$1 or $2");
    let sentence = &LIST.replace_all(&pairs, "$1 or $2");
    let clauses: Vec<&str> = clauses(sentence).collect();
    let is_limited = |n: usize| {
        let others = clauses.iter().enumerate().filter(|(other, _)| *other != n);
        let mut others = others.map(|(other, clause)| (other > n, clause));
        others.any(|(is_behind, clause)| {
            EXCEPT.is_match(clause)
                || CHANGES.is_match(clause)
                || is_behind && INSTEAD.is_match(clause)
        })
    };
    for (n, clause) in clauses.iter().enumerate() {
        let is_freeze = FREEZES.iter().any(|freeze| freeze.is_match(clause))
            || WITHOUT.is_match(clause) && LOOKS.is_match(sentence)
            || NOT_YET.is_match(clause)
            || NOT_IT.is_match(clause) && rest.only_looks
            || STATES.is_match(clause) && is_order(&SAYS, clause)
            || PASSIVE.is_match(clause) && is_order(&NOT_ITS_OWN, clause);
        if is_freeze && !is_limited(n) {
            return true;
        }
        // What a file or a program says is not the user's word.
        if CITES.is_match(clause) {
            return false;
        }
    }
    false
}

/// What stands between commas and parts no clauses.
static ASIDE: LazyLock<Regex> = LazyLock::new(|| {
    expression(r", (?:under any circumstances|for any reason|at any point|for now|please), ")
});
/// Verbs with a comma between them, which parts no clauses.
static LIST: LazyLock<Regex> =
    LazyLock::new(|| expression(&format!(r"\b({VERB}|{OTHER}),(?: or| and)? ({VERB}|{OTHER})\b")));

/// The message asks to look at something and for no change.
fn only_looks(sentences: &[Sentence]) -> bool {
    sentences.iter().any(|sentence| LOOKS.is_match(&sentence.own))
        && !sentences.iter().any(|it| clauses(&it.own).any(|clause| CHANGES.is_match(clause)))
}

/// The message asks for a change, and not for later or for a proposal.
fn asks_change(sentences: &[Sentence]) -> bool {
    sentences
        .iter()
        .any(|it| !LATER.is_match(&it.own) && clauses(&it.own).any(|clause| ASKS.is_match(clause)))
}

/// In doubt it lifts nothing.
fn lifts(sentence: &Sentence) -> bool {
    sentence.grants()
        && !clauses(&sentence.own).any(|clause| LOOKS_ON.is_match(clause))
        && clauses(&sentence.own).any(|clause| {
            let any = |forms: &[Regex]| forms.iter().any(|form| form.is_match(clause));
            any(&LIFTS) || any(&ALLOWS) && !SPEAKS.is_match(clause)
        })
}

/// Parts of a sentence without the words that only lead to one.
fn clauses(sentence: &str) -> impl Iterator<Item = &str> {
    static LEAD: LazyLock<Regex> = LazyLock::new(|| {
        expression(
            r"^(?:(?:please|ok|okay|and|so|then|but|for now|also|now|first|again|really|hey|yes|sure|alright|great|good|thanks|i meant?|请|从?现在(?:开始|起)|接下来|今天|这次|现在|好的?|那么?|另外|记住|注意|先|你|但是?)[\s:：]*)+",
        )
    });
    speech::clauses(sentence).filter_map(|clause| led_by(&LEAD, clause))
}

/// All that there is: the object of a freeze.
const ANYTHING: &str = r"(?:anything|any (?:\w+ )?(?:files?|code|thing)|any of (?:it|this|that|(?:the|my|our|these) (?:\w+ )?(?:files|code))|an?y? (?:single )?(?:file|line|byte|thing|character)(?: of (?:the )?code)?|(?:the |my |our |this )?(?:whole |entire )?(?:files|code|codebase|source|sources|repo|repository|project|working tree))";
/// The same, of what is to stay.
const ALL: &str = r"(?:everything|all of it|all(?: of)?(?: the| my| our)? (?:files|code|sources)|every file|(?:the |my |our |this )?(?:whole |entire )?(?:files|code|codebase|source|sources|repo|repository|project|working tree))";
/// What may follow without taking anything back.
const TAIL: &str = r"(?:\s+(?:just yet|yet|for now|for the (?:moment|time being)|right now|now|at all|please|today|(?:to|on) (?:the )?disk|at this (?:point|stage)|here|whatsoever|ok|okay|though|in any way|under any circumstances|in (?:this|the) (?:session|repo|repository|project|codebase|code)|(?:to|in) (?:the|my|our|any) (?:code|files?|codebase|repo|repository|project)|anywhere|thanks))*(?:\s+(?:until|till|before|unless|while|without (?:my|our|asking|checking|telling|talking|consulting|permission|approval))\b.*)?$";
const VERB: &str =
    "(?:code|change|modify|edit|touch|alter|write(?: to)?|rewrite|update|fix|implement)";
/// What is a part of all changes.
const OTHER: &str = "(?:run|execute|delete|remove|commit|overwrite|move|rename|create|add)";
const OR: &str = "(?: or | and |/)";
const DONE: &str = "(?:changed|edited|modified|touched|altered|written|updated)";
const DOING: &str = "(?:editing|changing|writing|modifying|touching|altering)";
const EDITS: &str = "(?:changes?|edits?|modifications?|writes?)";
/// How a prohibition begins: with an order, or of whom it is said to. "These settings don't change anything" is none.
const NOT: &str = r"(?:(?:^|\b(?:and|but|so|please|just|then|also|now|or|you|we|though|ok|okay|again|really|absolutely|that|instead|yet|circumstances|case) )(?:do not|don't|dont|never)|\b(?:you|we|you're|you are)(?: (?:really|absolutely|still))? (?:must not|mustn't|may not|shouldn't|should not|can't|cannot|can not|are not to|not to|(?:are not|aren't|not) (?:allowed|permitted|supposed) to)|^not to|\b(?:told|want|need|like|expect|ask|asked|beg|prefer|warned) you (?:not to|to (?:not|never))|\bi (?:do not|don't|dont|never) (?:want|wish) (?:you|us|anybody|anyone) to|\bi(?:'d| would) (?:rather|prefer)(?: it)?(?: if| that)? you (?:didn't|did not|don't|do not)|^under no circumstances(?: (?:should|may|must|can|are) you(?: (?:allowed )?to)?)?|^let(?:'s| us) not|\bi forbid (?:you|anybody|anyone) to)(?: (?:yet|even|ever|just|you|actually|please|dare(?: to)?))*";
/// What the user wants to be asked with.
const ASK: &str = r"(?:ask|check with|consult|tell|talk to) (?:me|us)|wait for (?:me|my (?:ok|okay|approval|go-?ahead|confirmation|word|permission))|wait (?:until|till) (?:i|we) (?:confirm|approve|agree|say (?:so|go|ok|okay)|have (?:confirmed|approved|agreed|talked))";
/// What the user wants to be asked before.
const START: &str =
    "(?:mak(?:e|ing)|chang(?:e|ing)|edit(?:ing)?|modify(?:ing)?|touch(?:ing)?|writ(?:e|ing))";

static FREEZES: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    // What is only deleted, committed or overwritten is a part of all changes.
    let verbs = format!("(?:{OTHER}{OR})*{VERB}(?:{OR}(?:{VERB}|{OTHER}))*");
    let stays = r"(?:alone|as (?:it is|they are|is)|exactly as (?:it is|they are)|untouched|unchanged|unmodified|intact)";
    let zh_not = "(?:不要|不许|不准|不得|不能|不可以?|不允许|不应该?|还不要?|还别|先别|先不要?|先勿|别|勿|请勿|切勿|千万别|千万不要|绝对不要|绝不要|暂时不要?|暂时别|暂不|禁止|严禁|我?不希望你?|我?不想让?你)";
    let zh_verb = "(?:修改|改动|更改|变更|编辑|改写|修复|改|动|碰|写入?|动手|实现)";
    let zh_all = "(?:任何一?|一切|所有|我的|这些|现有的?|一)?(?:的)?(?:东西|文件|代码|内容|地方|源码|源代码|项目|仓库|行代码|个文件|个字)?";
    let zh_thing = "(?:任何|所有|一切|我的|这些|现有的?|整个)?的?(?:东西|文件|代码|源码|源代码|项目|仓库|一行代码|什么)";
    let zh_tail = "(?:了|哦|啊|吧|呢|哈|先|它|谢谢|\\s)*$";
    let zh_until = "(?:在?我?.{0,12}(?:之前|以前|前)[^改动]{0,4}|(?:未经|没有|没经过)我的?(?:允许|同意|许可|批准)(?:都|就)?)?";
    [
        format!(r"{NOT} {verbs} {ANYTHING}{TAIL}"),
        format!(r"{NOT} (?:make|do|apply) (?:any |an?y? single |a )?(?:\w+ )?{EDITS}{TAIL}"),
        format!(r"{NOT} (?:do|start) (?:anything|coding|editing|changing(?: {ANYTHING})?|implementing(?: {ANYTHING})?|with the (?:changes|edits|implementation))(?: yet| for now| right now| until .*| before .*)+$"),
        format!(r"{NOT} start (?:coding|editing|implementing){TAIL}"),
        format!(r"{NOT} write (?:anything )?to (?:the )?disk(?: (?:yet|for now|right now|at all|please|until (?:i|we) .*))*$"),
        format!(r"^(?:let's )?(?:freeze|pause|halt|suspend) (?:all |any )?(?:{EDITS}|{ALL}){TAIL}"),
        format!(r"^no (?:{DOING}|coding)(?: {ANYTHING})?{TAIL}"),
        r"^no code(?: (?:yet|for now|right now|please))+$".to_owned(),
        format!(r"^ask(?: first)? before (?:you )?{START} (?:{ANYTHING}|(?:any )?{EDITS})$"),
        format!(r"\bi (?:do not|don't|dont|never) want you {DOING} {ANYTHING}{TAIL}"),
        format!(r"\bi (?:do not|don't|dont) want (?:any (?:\w+ )?{EDITS}|{ANYTHING} (?:to be )?{DONE}|to see any {EDITS}){TAIL}"),
        format!(r"^(?:make |absolutely |with |i want |there (?:must|should|shall) be )?no (?:more |further )?(?:code |file )?(?:changes|edits|modifications|writes)(?: allowed)?{TAIL}"),
        format!(r"^do nothing (?:to {ALL}{TAIL}|(?:yet|for now)$)"),
        format!(r"^(?:the |my |our )?(?:files|code|codebase|repo|repository|project) (?:must|should|shall|has to|have to|is to|are to) (?:stay|remain|be left) {stays}{TAIL}"),
        r"^(?:let's |you )?(?:just|only) (?:look|read|browse)(?: (?:around|at it|at this|it|through it|please|for now))*$".to_owned(),
        r"^look(?:,)? (?:but |and )?(?:do not|don't) touch".to_owned(),
        r"^(?:look|read|analysis|planning|explanations?)(?: |-)only(?: mode)?(?: (?:please|for now|from now on|until .*))*$".to_owned(),
        format!(r"\b(?:stay|switch|go|be|keep|remain|work)(?: (?:in|to|into|it))? (?:read|look)[- ]?only(?: mode)?{TAIL}"),
        format!(r"^(?:treat|consider|regard) (?:{ALL}|(?:this|the) (?:session|conversation|chat)) (?:as |to be )?(?:read-?only|immutable|frozen|untouchable|off[- ]limits){TAIL}"),
        format!(r"^(?:you are|you're) (?:in )?(?:read|look)[- ]?only(?: mode)? (?:{WORD}|{WHILE})"),
        format!(r"^this is (?:a |strictly )*read-?only (?:task|session|job|question|request|review){TAIL}"),
        format!(r"^(?:keep your )?hands off(?: {ANYTHING})?{TAIL}"),
        format!(r"^(?:let's )?(?:stop|hold off|refrain from|avoid|wait with) (?:on |with )?(?:any |all |the |making )*(?:{DOING}|{EDITS}|coding|implementing)(?: (?:{ANYTHING}|things|stuff))?{TAIL}"),
        format!(r"\b(?:{ASK})(?: first)? before (?:you )?{START} (?:{ANYTHING}|any (?:\w+ )?{EDITS})$"),
        format!(r"^{ALL} (?:stays|remains) {stays}{TAIL}"),
        format!(r"^(?:let's )?(?:leave|keep) {ALL} {stays}{TAIL}"),
        format!("^{zh_until}{zh_not}(?:再|去|先|急着|擅自)?{zh_verb}{zh_all}{zh_tail}"),
        format!("^{zh_until}{zh_not}(?:再|先)?(?:对{zh_thing})?(?:再|先)?(?:做出?|作出?|进行)(?:任何|什么)?(?:代码)?(?:修改|改动|更改|变更|编辑){zh_tail}"),
        format!("^(?:立即|立刻|马上|暂时|都|先)*(?:停止|暂停)(?:一切|所有|任何)?的?(?:代码|文件)?(?:的)?(?:修改|改动|更改|变更|编辑|改){zh_all}{zh_tail}"),
        format!("^(?:先|快|都)*(?:停手|住手){zh_tail}"),
        format!("^{zh_thing}(?:都|也|先|暂时|现在|一律)*{zh_not}(?:再|去|先)?{zh_verb}动?{zh_tail}"),
        format!("^(?:请)?保持(?:任何|所有|一切|全部)?的?(?:文件|代码|项目|仓库)(?:不变|原样|不动){zh_tail}"),
        format!("^(?:修改|改动|改|动手|动)(?:代码|文件|任何(?:东西|文件|代码))?(?:之前|以前|前)(?:必须|一定|都|请|先|要)*(?:问|告诉|征求)(?:一下|过)?我{zh_tail}"),
        format!("^(?:先|这次|今天|目前|暂时)*(?:只|仅)(?:看|读|分析|讨论|查看|阅读)(?:代码|看)?(?:不|别|不要)?(?:改|动|写|修改|改动)?{zh_tail}"),
        format!("(?:切换到|切到|进入|保持|改为|用|处于)只读(?:模式|状态)?{zh_tail}"),
        format!("^只读(?:模式)?{zh_tail}"),
    ]
    .iter()
    .map(|text| expression(text))
    .collect()
});

/// What only people do to files; what is "updated" or "written" a program may do.
const BY_PEOPLE: &str = "(?:changed|edited|modified|touched|altered)";
/// Until the user says so: no program is spoken of.
const WORD: &str = r"(?:without (?:my|our|asking|checking|telling|talking|consulting|permission|approval)\b[^,]*|(?:until|till|before|unless) (?:further notice|(?:i|we) (?:say|tell|ask|give|let)\b[^,]*|you (?:hear|have heard|are told)\b[^,]*|my (?:ok|okay|approval|go-?ahead|word|permission|confirmation|signal)\b[^,]*))";
/// Where and how, between a verb and the time.
const PLACE: &str = r"(?: (?:here|yet|please|now|right now|at all|whatsoever|anywhere|in any way|under any circumstances|(?:to|on) (?:the )?disk|(?:in|to) (?:this|the|my|our|any) (?:session|repo|repository|project|codebase|code|files?)))*";
/// A time as people set it for each other: of the user's own doing, a date, what is due in a project.
const WHILE: &str = r"(?:for now|for the (?:moment|time being)|today|in this session|(?:until|till|before) (?:(?:i|we)(?:'ve|'m|'re)?(?: have| am| are| both| all)* (?:confirm|approve|agree|decide|talk|discuss|review|sign|read|seen|had|look|check|return|back|done|ready|finished|sure|happy|(?:get|come) back)|tomorrow|tonight|noon|later|next |the (?:weekend|end of)|(?:mon|tues|wednes|thurs|fri|satur|sun)day|(?:the|our|my|this|that|all) (?:\w+ )?(?:release|review|meeting|demo|deploy|launch|audit|freeze|merge|call|discussion|sprint|plan|design|proposal|tests?|ci|build|pipeline|backup)\b)[^,]*)";
static SAYS: LazyLock<Regex> = LazyLock::new(|| expression(&format!(r"\b{WORD}")));
/// No time, or one that people set.
static NOT_ITS_OWN: LazyLock<Regex> =
    LazyLock::new(|| expression(&format!(r"\b{DONE}{PLACE}(?:$| (?:{WORD}|{WHILE}))")));
/// "Nothing gets edited" is an order with a time that a user sets; else it may be what went wrong.
static STATES: LazyLock<Regex> = LazyLock::new(|| {
    expression(&format!(
        r"^nothing (?:(?:changes|(?:gets|is|will be|can be) {DONE}){PLACE} (?:{WORD}|{WHILE})|(?:gets|is|will be) {BY_PEOPLE}{PLACE} (?:until|till|before) {THING}|is (?:touched|edited){TAIL})$"
    ))
});
/// The same with the time in front.
static TIME_FIRST: LazyLock<Regex> = LazyLock::new(|| {
    expression(&format!(
        r"^(?:please |and |but |ok |so )*(?:(?:{WORD}|{WHILE}),? nothing (?:gets|is|will be) {DONE}{PLACE}|(?:until|till|before) {THING},? nothing (?:gets|is|will be) {BY_PEOPLE}{PLACE})[.!]*$"
    ))
});
const THING: &str = "(?:the|our|my|this|that|all|everyone|everybody) [^,]*";
/// "No file may be written": an order, or until something of its own what a program is to do.
static PASSIVE: LazyLock<Regex> = LazyLock::new(|| {
    expression(&format!(
        r"^(?:(?:make |do )?nothing (?:(?:may|must|shall|should) (?:be )?|is to be ){DONE}|(?:no files?|none of the files) (?:may|must|shall|should|is to|are to) be {DONE}|(?:the |my |our )?(?:files|code|codebase|repo|repository|project) (?:must|may|should|shall) (?:not|never) be {DONE}){TAIL}"
    ))
});
/// Behind the colon stands a text that is spoken of. "Explain this error: don't change anything" may be an order, "you
/// cannot" there is what the error says.
static TEXT_OF: LazyLock<Regex> = LazyLock::new(|| {
    let article = "(?:me |us )?(?:the|this|that|these|an?)";
    let noun = r"(?:messages?|errors?|warnings?|exceptions?|dialog|banner|toast|tooltip|label|notice|comment|text|popup)";
    let asked =
        format!(r"\b(?:explain|understand|about|behind|of) {article} (?:\w+ ){{0,2}}{noun}");
    let seen = format!(
        r"\b(?:gets?|getting|got|sees?|seeing|saw|hits?|with|fix|resolve|causes?|gives?|throws?|shows?|prints?) {article} (?:\w+ ){{0,2}}{noun}"
    );
    let worded = format!(
        r"\b(?:reword|rephrase|translate)(?: {article}(?: \w+){{0,3}}| this| that)?|^(?:log line|error(?: message)?|stderr|stdout|output|exception)|\b{noun}(?: \w+)? (?:should|must|shall|has to) (?:be|read|say)"
    );
    let states = "(?:you|we|users?) (?:cannot|can not|can't|may not|must not|mustn't|should not|shouldn't|are not)";
    let forbids = "(?:please )*(?:do not|don't|dont|never|nothing|no)";
    let zh_seen = "(?:报错|错误|提示|警告|日志)(?:信息|消息|内容)?[:：] ?(?:你|您|用户)?(?:不能|无法|无权|不可|不允许)";
    let zh_worded = "(?:报错|错误|提示|警告|文案|注释|信息|消息|文字)(?:信息|消息|内容|文字)?(?:是|为|改成|改为|写成|换成|写着|显示)[:：]";
    expression(&format!(
        r"(?:(?:(?:{asked})[:：] ?{states}|(?:{seen}|{worded})[:：] ?(?:{states}|{forbids}))\b|{zh_seen}|{zh_worded})[^,，;()（–—]*"
    ))
});
/// "Before you change anything, ask me": in two clauses.
static BEFORE: LazyLock<Regex> = LazyLock::new(|| {
    expression(&format!(
        r"^(?:please |and |but |ok |so )*before (?:you )?{START} (?:{ANYTHING}|any (?:\w+ )?{EDITS}), ?(?:please )?(?:{ASK})(?: first)?[.!]*$"
    ))
});
/// "Don't fix it yet": whatever it is, nothing is to be done now.
static NOT_YET: LazyLock<Regex> = LazyLock::new(|| {
    expression(&format!(
        r"{NOT} (?:{MEND} {IT}|edit|modify|code|implement)(?: (?:just yet|yet|for now|right now))+{TAIL}"
    ))
});
/// "Don't fix it": a freeze only where the message asks to look, and for nothing else.
static NOT_IT: LazyLock<Regex> = LazyLock::new(|| {
    expression(&format!(
        r"{NOT} (?:{MEND} {IT}{TAIL}|(?:change|edit|write|apply|make|add) (?:it|them|that)(?: (?:just yet|yet|for now|right now))+{TAIL})|(?:(?:^|\b(?:and|but|so|please|just|then|also|now|or|instead) )(?:do not|don't|dont|never)(?: (?:just|you|please|actually|even))*|\byou (?:must not|mustn't|may not|should not|shouldn't|are not to)) (?:implement|code|edit|modify)$|\b(?:do not|don't) (?:actually|really) (?:change|edit|write|apply|make|do) (?:it|them|that){TAIL}"
    ))
});
const MEND: &str = "(?:fix|implement|solve|repair|patch)";
const IT: &str = "(?:it|this|that|them|the (?:bug|issue|problem))";
/// "… without changing anything": a freeze only where the rest asks to look.
static WITHOUT: LazyLock<Regex> =
    LazyLock::new(|| expression(&format!(r"\bwithout {DOING} {ANYTHING}{TAIL}")));
static LOOKS: LazyLock<Regex> = LazyLock::new(|| {
    expression(
        r"\b(?:explain|describe|look|analy[sz]e|review|tell|show|find|summari[sz]e|investigate|check|plan|propose|suggest|list|read|think|inspect|study|audit)\b",
    )
});
/// Another part takes something out of it.
static EXCEPT: LazyLock<Regex> = LazyLock::new(|| {
    expression(
        r"^(?:except|other than|apart from|aside from|besides|unless it|only (?:change|edit|fix|touch)|除了|除|只改|只修改|仅修改|但(?:是)?(?:可以)?(?:改|修改))",
    )
});
/// What follows is to be changed after all.
static INSTEAD: LazyLock<Regex> = LazyLock::new(|| {
    expression(
        r"^(?:just|instead|do|then|you (?:can|may)|only) ?(?:change|edit|fix|update|add|write|rename|move|remove|touch)|^(?:write|remove) ",
    )
});
/// An order to change something.
static CHANGES: LazyLock<Regex> = LazyLock::new(|| {
    expression(
        r"^(?:fix|repair|change|edit|update|add|rename|implement|refactor|delete|replace|bump|correct) |^(?:请|帮我)*(?:修改|更新|修复|修一下|重构|添加|增加|实现|重命名)",
    )
});
/// The same, wherever it stands in a sentence of its own.
static ASKS: LazyLock<Regex> = LazyLock::new(|| {
    expression(
        r"(?:^|\b(?:and|then|please|must|can you|could you|would you|will you|you should|(?:want|need) you to) )(?:please )?(?:(?:fix|repair|solve|implement|refactor|rename|replace|delete|add)\b|(?:change|edit|update|correct) (?:it|this|that|the|them|all|every)\b|make (?:it|this|that|them|sure)\b|write (?:a|an|the|some|more) (?:\w+ )?(?:tests?|code|functions?|checks?|fix|patch|script)\b)|\b(?:needs?|want|get|have) (?:it|this|that) (?:fixed|repaired|solved|changed)\b|\bneeds? (?:fixing|repair|to be (?:fixed|repaired|changed))\b|^(?:that|this)(?:'s| is) (?:a bug|wrong|broken)$|^(?:请|帮我|你)*(?:修改|更新|修复|修|改好|重构|添加|增加|实现)",
    )
});
/// What comes later, or is only to be thought of.
static LATER: LazyLock<Regex> = LazyLock::new(|| {
    expression(
        r"^(?:then|afterwards|after|once|when|later)\b|\b(?:how|would|propose|suggest|later|afterwards|tomorrow|when (?:i|we)|once (?:i|we)|after (?:i|we|that)|until|before)\b|之后|以后|然后|怎么|如何|建议",
    )
});
/// What follows stands somewhere.
static CITES: LazyLock<Regex> = LazyLock::new(|| {
    expression(
        r"\b(?:file|readme|comments?|docs?|documentation|logs?|message|header|error|tests?|script|note|page|output|prompt|it|linter|compiler|ci|build|tool|server|program|app|bot)\b.*\b(?:says?|reads?|warns?|states?|prints?|shows?)$|(?:注释|文档|文件|日志|页面|报错|提示|脚本).{0,6}(?:写着|说|写道|显示|提示)$",
    )
});

/// What may follow a permission that is for all changes.
const NOW: &str = r"(?:,? (?:now|then|again|please|right away|right now|at once|freely|as (?:planned|you (?:proposed|suggested|said)|discussed|described)))*$";
/// Who goes ahead.
const GO: &str = r"^(?:you (?:can|may) |let's |just |i (?:say|said) )?(?:now )?(?:go ahead|proceed|go for it|do (?:it|so|that|them|all of (?:it|that)))";
/// What is done to files, whatever follows.
const ACT: &str = r"(?:change|edit|modify|fix|implement|refactor|rename|touch|commit|delete|remove|update|apply|patch|repair|carry out|rewrite|replace|move|add|create|write|do (?:it|that|so)$|make (?:(?:the|these|those|your|all|any|that|this) )?(?:\w+ ){0,3}(?:changes?|edits?|modifications?|fix(?:es)?|corrections?)|(?:start|begin) (?:editing|changing|coding|implementing|fixing|writing code|making (?:the |these )?(?:changes|edits)))\b";

/// Changes are welcome again, and nothing else follows.
static LIFTS: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    let may = r"^(?:let's |you (?:can|may) )?(?:now )?";
    let zh_end = "(?:了|吧|啦|咯|就行|就好|\\s)*$";
    let zh_act = "(?:修改|改动|改|动手|动|写代码|编辑|实施|执行)";
    let zh_all = "(?:任何|所有|这些|那些|全部|我的)?(?:东西|文件|代码|内容|项目|它们?)?";
    [
        format!("{GO}{NOW}"),
        format!(r"{GO} with (?:(?:the|your|this|that|these|those|all|all the|my) )?(?:\w+ ){{0,3}}(?:plan|proposal|suggestion|change|edit|fix|patch|implementation|refactor|refactoring|rename|migration|update|rewrite|modification|(?:option|variant|alternative|approach) \w+)(?:e?s)?{NOW}"),
        format!(r"{may}(?:apply|implement|carry out|execute|follow) (?:the|your|this|that|these|those) (?:\w+ )?(?:plan|proposal|suggestion|idea)s?{NOW}"),
        format!(r"{may}make (?:it so|(?:the|these|those|your|all|all the|that|this)(?: \w+){{0,3}} (?:changes?|edits?|modifications?|fix(?:es)?|corrections?)){NOW}"),
        format!(r"^you (?:can|may) (?:now )?(?:start|begin){NOW}"),
        format!(r"^(?:you (?:can|may) )?(?:now )?(?:start|begin|resume) (?:editing|changing|coding|implementing|fixing|writing(?: the)? code|with the (?:changes|edits|implementation|fix(?:es)?)){NOW}"),
        format!(r"^(?:lift|end|cancel|remove|drop) (?:the |that |this |your )?(?:freeze|read-?only(?: mode)?|ban){NOW}"),
        format!(r"^(?:unfreeze|thaw)(?: (?:it|everything|all|the (?:files|code|repo|project)))?{NOW}"),
        format!(r"^(?:(?:the|your|this|that) (?:plan|proposal|change|fix|patch)(?:e?s)? (?:is|are) )?approved{NOW}"),
        format!(r"^(?:(?:you have )?(?:permission granted|(?:a |the |my )?green light)|you have my (?:ok|okay|approval|go-?ahead|permission)){NOW}"),
        format!(r"^(?:changes|edits) are (?:now )?(?:fine|ok|okay|allowed|welcome|possible){NOW}"),
        format!(r"^i say so{NOW}"),
        format!(r"^(?:fix|repair|change|implement) (?:it|this|that|them|all of (?:it|them|that)){NOW}"),
        format!("^(?:我说)?(?:可以|能)(?:开始|直接|随便)*(?:{zh_act})+{zh_all}{zh_end}"),
        format!("^(?:就|开始|继续|直接)*(?:{zh_act}|写){zh_all}吧$"),
        "^(?:那就)?开始吧$|^(?:那就|就)?(?:这么|这样)(?:改|做|办)吧?$".to_owned(),
        format!("^(?:开始|继续)(?:{zh_act})+{zh_all}{zh_end}"),
        format!("^(?:解除|取消|结束)(?:冻结|只读|限制)(?:模式|状态)?{zh_end}"),
        format!("^(?:就)?按照?(?:这个|你的|此|上面的|你说的)?(?:方案|计划|思路)?(?:来|去)?(?:改|做|来|修改|执行|实施){zh_end}"),
        format!("^(?:我)?(?:同意|批准)(?:修改|改|(?:你的|这个)?(?:方案|计划|修改))?{zh_end}"),
    ]
    .iter()
    .map(|text| expression(text))
    .collect()
});
/// What is named may be changed again.
static ALLOWS: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    [
        format!(r"{GO}(?: now)? (?:and|to) (?:then |now |please )?{ACT}"),
        format!(r"^you(?:'re| are)? (?:can|may|free to|allowed to|welcome to|now allowed to|have my permission to)(?: now| also| again)? {ACT}"),
        r"^(?:let's |you (?:can|may) )?(?:now )?(?:(?:implement|carry out) (?:it|them|that|this|your|the|all|these|those)|apply (?:it|them|all|these|those|your|(?:the|this|that) (?:\w+ ){0,2}(?:change|edit|fix|patch|diff|modification|refactoring|rename|update)(?:e?s)?))\b".to_owned(),
        "^(?:可以|能)(?:开始|直接)?(?:修改|改|编辑)[^变]{1,20}(?:了|吧|啦)$".to_owned(),
    ]
    .iter()
    .map(|text| expression(text))
    .collect()
});
/// What is made is an answer, or nothing but a thought.
static SPEAKS: LazyLock<Regex> = LazyLock::new(|| {
    expression(
        r"\b(?:explain|explanation|describe|description|analy[sz]e|analysis|read|reading|think|thoughts?|mind|head|idea|theory|paper|mentally|summari[sz]e|summary|review|plan|outline|overview|reports?|proposal|draft|sketch|list|answer|reply|response|message|questions?|topic|subject|wording|discuss|discussion|look|tell|show|verbally|dry[- ]run|in words|write (?:down|(?:to )?(?:me|us))|chat|simulate|comparison|estimate)\b|总结|报告|说明|分析|解释|方案|计划|想法|看法|主意|脑|思路|回答|讨论",
    )
});
/// Looking comes first, or is all.
static LOOKS_FIRST: LazyLock<Regex> = LazyLock::new(|| {
    let look = r"(?:explain|describ|look|analy[sz]|review|read|summari[sz]|think|plan|inspect|discuss|stud)\w*";
    expression(&format!(
        r"\b(?:only|just|first),? {look}\b|\b{look}(?: \w+){{0,3}} (?:first|only)\b|先.{{0,4}}(?:分析|看|读|解释|说明|总结|讨论)"
    ))
});
/// It goes on with looking.
static LOOKS_ON: LazyLock<Regex> = LazyLock::new(|| {
    expression(
        r"^(?:explain|describe|look (?:at|into|through|for|around)|analy[sz]e|review|tell|show|find|summari[sz]e|investigate|check|plan|propose|suggest|list|read|think|inspect|study|audit|discuss|continue|compare|outline|sketch|draft)\b|^(?:先|再|继续|然后|接着|请)*(?:分析|看|读|阅读|解释|说明|总结|讨论|描述|检查|调查|研究|列|告诉|思考|想|规划|计划|评审)",
    )
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
