//! Does the user's next message say that the result is wrong? A table; what users say in English and Chinese.
//!
//! Where a message begins, a pronoun can refer to nothing but what was said before: "that did not work" counts in
//! the opening, and in what follows only what names the result itself ("your fix"). A question, a condition, a
//! quotation and what somebody else says are no rejection.

use std::sync::LazyLock;

use regex::Regex;

use crate::protocol::speech::{self, Sentence, expression, led_by, sentences};

/// So many sentences at the beginning of a message may tell of the last result.
const SENTENCES: usize = 3;

/// One of these stands in every rejection: most messages hold none of them, and cost nothing.
const HINTS: [&str; 29] = [
    "not",
    "n't",
    "n’t",
    "nt ",
    "never",
    "wrong",
    "incorrect",
    "false",
    "mis",
    "still",
    "same",
    "broke",
    "break",
    "fail",
    "crash",
    "worse",
    "keep",
    "persist",
    "不",
    "错",
    "没",
    "remain",
    "nonsense",
    "rubbish",
    "garbage",
    "还",
    "仍",
    "依",
    "坏",
];

/// The sentence that rejects the last result, in the user's words.
pub(super) fn rejects(message: &str) -> Option<String> {
    let lower = message.to_lowercase();
    if !HINTS.iter().any(|hint| lower.contains(hint)) {
        return None;
    }
    let mut said = sentences(message);
    said.truncate(SENTENCES);
    let mut is_opening = true;
    let at = said.iter().position(|sentence| is_rejection(sentence, &mut is_opening))?;
    let is_taken_back =
        said[at + 1..].iter().any(|next| clauses(&next.own).any(|c| TAKES_IT_BACK.is_match(c)));
    (!is_taken_back).then(|| said.swap_remove(at).text)
}

/// `is_opening`: nothing was said before that a pronoun could refer to; false behind this sentence, unless it
/// only leads to the next.
fn is_rejection(sentence: &Sentence, is_opening: &mut bool) -> bool {
    let clauses: Vec<&str> = clauses(&sentence.own).collect();
    for (at, clause) in clauses.iter().enumerate() {
        // What comes behind these words is thought, not found, or not said by the user.
        if ELSEWHERE.is_match(&clause.replace("as before", "")) {
            *is_opening = false;
            return false;
        }
        let says = NAMES_THE_RESULT.iter().any(|words| words.is_match(clause))
            || *is_opening && REFERS_TO_IT.iter().any(|words| words.is_match(clause));
        if says {
            let rest = &clauses[at + 1..];
            return !rest.iter().any(|clause| TAKES_IT_BACK.is_match(clause))
                && (!sentence.is_question()
                    || rest.last().is_some_and(|last| ASKS.is_match(last)));
        }
        *is_opening &= LEADS.is_match(clause);
    }
    false
}

/// Parts of a sentence between commas and the like, without the words that only lead to one.
fn clauses(sentence: &str) -> impl Iterator<Item = &str> {
    let parts = speech::clauses(sentence).flat_map(|clause| PARTING.split(clause));
    parts.filter_map(|part| led_by(&LEAD, part))
}

static PARTING: LazyLock<Regex> = LazyLock::new(|| expression(r"\s(?:but|and|so|because)\s"));

/// Words in front of what a clause says.
static LEAD: LazyLock<Regex> = LazyLock::new(|| {
    expression(
        r"^(?:(?:no|nope|nah|but|and|so|well|hm+|oh|ok|okay|sorry|hey|yeah|yes|ugh|wow|look|actually|unfortunately|sadly|apparently|afraid|i'm afraid|i am afraid|i think|i believe|i(?:'m| am) sorry|i said|as i said|again|thanks|thank you)\b[\s…]*|(?:可是|但是?|不过|然而|抱歉|对不起|嗯+|呃|唉|哎|啊|我觉得|我认为|好像|似乎|感觉|谢谢你?)\s*)+",
    )
});

/// A clause that says nothing to which a pronoun behind it could refer.
static LEADS: LazyLock<Regex> = LazyLock::new(|| {
    expression(
        r"^(?:no|nope|nah|but|well|hm+|oh|ok|okay|sorry|hey|yes|yeah|ugh|wow|actually|unfortunately|sadly|thanks|thank you|nice try|good try|not quite|不|不是|不行|不不不?|嗯+|呃|唉|哎|抱歉|对不起|谢谢你?|可惜)(?: (?:for (?:trying|that|the (?:quick )?(?:work|try|effort|fix|answer))|a lot|again))*$|^i(?:'ve| have)? (?:just )?(?:tried|tested|ran|run|checked|applied|rebuilt|restarted|looked|installed|used)\b|^(?:刚才?|刚刚)?我?(?:刚才?|刚刚)?(?:试|跑|测|看|运行|检查|测试)(?:过|了)",
    )
});

/// Somebody else's word, a thought, a condition, another time, another thing; or it is meant to fail.
static ELSEWHERE: LazyLock<Regex> = LazyLock::new(|| {
    expression(
        r"\b(?:fail(?:s|ed|ing)?|crash(?:es|ed|ing)?|panics?|throws?|broken|red) (?:just |exactly )?as (?:expected|intended|planned|wanted|hoped)\b|\b(?:for|in|on|of|from) (?:the |some |an)?other\b|\b(?:if|unless|whether|when(?:ever)? (?:it|that|this|the)|in case|suppose|assuming|imagine|pretend|until|once|while|why|before|earlier|yesterday|previously|originally|initially|at first|used to|last (?:week|month|year|time)|says?|claims?|complains?|reports?|wrote|writes?|told|tells|prints?|shows?|thinks|would|might|could|should|may|let's say|make sure|explain|for example|someone|somebody)\b|如果|假如|假设|要是|万一|倘若|一旦|的话|除非|是否|为什么|为啥|怎么会|哪里|什么|之前|以前|原来|原本|昨天|上次|刚开始|起初|曾经|他说|她说|有人|用户说|客户|提示|显示|写着|检查|看看|找出|确认|比如|例如|吗$|么$|呢$",
    )
});

/// What follows makes it good again, or says that something else was meant.
static TAKES_IT_BACK: LazyLock<Regex> = LazyLock::new(|| {
    let words = [
        r"^(?:(?:it(?:'s| is)?|that(?:'s| is)?|now|my) )?(?:now )?(?:works?(?: now)?|does now|(?:it )?is fine|fine|was me|my (?:fault|bad|mistake)|never mind|nevermind|wait|hold on|i was wrong|just kidding|which is (?:fine|ok|okay|expected))\b|\bnow it (?:does|works)\b",
        // Praise.
        r"^(?:(?:it(?:'s| is)|that(?:'s| is)|this is|which is|looks|even|very|really|so|all) )*(?:good|nice|great|perfect|excellent|cool|awesome|lovely|wonderful|brilliant|fantastic|amazing|better)(?: (?:job|work)\b.*| (?:then|now|enough|to (?:know|see|hear)))?$|^well done\b",
        // Consent: it was meant so, it is known, or it is to be left.
        r"^(?:just |exactly )?as (?:it should|they should|(?:i |we |was |it was )?(?:intended|expected|planned|wanted|hoped|supposed))\b|^(?:it(?:'s| is)|that(?:'s| is)|this is|they(?:'re| are)) (?:ok|okay|alright|all right|expected|intended|intentional|normal|known|on purpose|by design|as (?:expected|intended|it should))\b|^(?:but )?i know(?: (?:that|it|about (?:it|that)))?$|^(?:(?:please|just|you can|let's) )*ignore (?:it|that|this|them|those)\b|^(?:don't|do not|no need to|need not) (?:worry|mind|care)\b|\b(?:separate|unrelated) (?:issue|problem|matter|bug|thing|task|topic|story)\b|^(?:(?:that(?:'s| is)|it(?:'s| is)) )?unrelated$|^(?:that(?:'s| is)|it(?:'s| is)) (?:another (?:story|matter))\b",
        r"^(?:等等|等一下|没事|算了|是我|现在(?:可以|好|行)了)",
        r"^(?:这|那|这样|结果)?(?:很|挺|非常|真|太|也)?(?:好|不错|棒|完美|厉害|漂亮)(?:极了|了|的|啊|呀)$|^(?:这|那|这样)?(?:很|挺|非常|真|太|也)(?:好|不错|棒|完美|厉害|漂亮)$|^(?:不错|完美|漂亮|好棒|干得好|做得好)",
        r"^(?:不过|但)?(?:这个?|那个?)?我(?:也|都|已经)?知道|^(?:这|那)?(?:都|也)?(?:是)?(?:很)?(?:正常|故意|有意|预期|意料之中)|^(?:这|也)?(?:正)?(?:符合|如|和)(?:我的)?预期|^(?:先|就|都)?(?:不用|不必|不要|别|甭)(?:管|理|担心)|^没关系|^(?:请|先|可以)?忽略|^(?:那|这)是(?:另|别的|单独)",
    ];
    expression(&words.join("|"))
});

/// A question behind a statement: the statement stands. (A tag as in "isn't it" takes it back.)
static ASKS: LazyLock<Regex> = LazyLock::new(|| {
    expression(
        r"^(?:please )?(?:can|could|would|will) you\b|^(?:why|what|how|where|any idea|please)\b|^(?:请|麻烦|能不能|能否|可以|可否|你能|为什么|为啥|怎么|再)",
    )
});

/// What may stand behind a statement that something does not work. What came since something else happened is
/// not the result's.
const TAIL: &str = r"(?:\s+(?:at all|either|yet|again|here|for me|on my (?:machine|side|end)|now|anymore|any more|though|unfortunately|sadly|sorry|properly|correctly|as (?:expected|intended|before|i (?:asked|wanted|said))|like (?:before|that|this)))*(?:\s(?:(?:when|if|for|with|after|because)|(?:since|as) (?:you|your|it)\b)\s.*)?$";
const IT: &str =
    r"(?:it|this|that|that one|this one|the (?:result|answer|output|fix|solution|change|patch))";
const FAILS: &str = r"(?:does(?: not|n't|nt)|do(?: not|n't|nt)|did(?: not|n't|nt)|is(?: not|n't|nt)|still (?:does(?: not|n't|nt)|do(?: not|n't|nt)|is(?: not|n't|nt))|has(?: not|n't|nt)) (?:\w+ly )?(?:work(?:ed|ing|s)?|help(?:ed|ing)?|compil(?:e|ed|ing)|build|pass(?:ed|ing)?|(?:fix|solve|cure|change)(?:ed|d)? (?:it|that|this|anything|the \w+)|do (?:it|the trick|anything|what i (?:asked|want(?:ed)?))|right|correct|true|fixed|solved|what i (?:asked|want|need|mean|expect|said|had)(?:ed|t)?(?: for| in mind)?)";

/// In the opening of a message: it is the last result.
static REFERS_TO_IT: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    let still = r"(?:(?:is |are )?still|keeps?)";
    [
        format!(r"^{IT}(?:'s| is| was| looks| seems) (?:\w+ly |still |just |all |also |just plain |not only )?(?:wrong|incorrect|false|broken|buggy|nonsense|rubbish|garbage|not (?:right|correct|true|fixed|solved|working|it|what i (?:asked|want|need|mean|expect|said|had)\w*(?: for| in mind)?)){TAIL}"),
        format!(r"^{IT} {FAILS}{TAIL}"),
        format!(r"^(?:{IT} )?{still} (?:fails?|failing|broken|wrong|crash(?:es|ing)?|hangs?|hanging|not (?:working|right|correct|fixed|passing|compiling|building)|does(?: not|n't) (?:work|compile|build|pass|run|help)|the same(?: (?:error|problem|issue|failure|result|thing))?|red|there|happens?|happening|buggy|panics?|panicking|throws?|throwing)\b{TAIL}"),
        format!(r"^(?:{IT} )?(?:just )?(?:fails?|failed|crashes|crashed|breaks|broke)(?: again| now| as before){TAIL}"),
        format!(r"^(?:wrong|incorrect|not (?:right|correct|true|fixed|working|quite right))(?: (?:answer|result|output|again))?{TAIL}"),
        format!(r"^(?:does(?: not|n't)|did(?: not|n't)|is(?: not|n't)|not) (?:work(?:ing|ed)?|help(?:ed)?|fixed|solved){TAIL}"),
        format!(r"^not what i (?:asked|want|meant|need|expect|said)\w*(?: for)?{TAIL}"),
        format!(r"^{IT}(?:'s| is) (?:even |now )?worse(?: than before)?{TAIL}"),
        r"^i (?:do not|don't) think (?:that|this|it)(?:'s| is) (?:right|correct|true|fixed|what i \w+)$".to_owned(),
        format!(r"^the (?:same )?(?:error|problem|issue|bug|failure) (?:still )?(?:persists|remains){TAIL}"),
        format!(r"^(?:the )?same (?:error|problem|issue|failure|result|wrong \w+)(?: as before| again)?{TAIL}"),
        format!(r"^(?:the|my) (?:\w+ )?(?:tests?|build|check|error|problem|issue|bug|failure|warning|crash)s? (?:is|are)? ?still (?:there|fails?|failing|broken|red|exists?|happens?|persists?|occurs?|not (?:passing|fixed|solved|gone))\b{TAIL}"),
        r"^i(?:'m| am)? (?:still|keep) (?:get|getting|see|seeing|have|having) (?:the |that |an? )?(?:(?:very )?same |old )?(?:\w+ )?(?:error|problem|issue|failure|exception|crash|panic|bug|warning|traceback)".to_owned(),
        r"^(?:你|您)?(?:全都?|又|还是|这次|都)?(?:搞|弄|改|做|写|理解|想|算|说|答|回答|猜)?(?:得)?错(?:误)?了(?:啊|哦|呀|吧|的)?$".to_owned(),
        r"^(?:这|那|这个|那个|这样|结果|答案|输出|你的?(?:回答|答案|结果|修改|改动|方案|代码)|这(?:个)?(?:结果|答案|回答|修改|方案))?(?:是|也|还是|仍然?|依然|依旧|根本|完全|明显|都|就|显然)*(?:不对|不正确|错的|错误的|有误|不是我(?:想)?要的(?:结果|东西|效果)?|没有?(?:用|效果?|解决|修好|改好|成功|生效)(?:问题)?|不起作用|不管用|不好使|不能用|无效)(?:啊|哦|呀|吧|的|了|呢|嘛)*$".to_owned(),
        r"^(?:(?:这样|它|测试|程序|代码|编译|运行|跑起来|结果|问题|构建|这个|那个|现在|改完(?:后|之后)?|改了)*(?:还是|仍然?|依然|依旧|又|照样))(?:是|会|跑|有|存在|没有?|报|不)*(?:不行|报错|错的?|有bug|失败|出错|崩溃?|挂了?|有问题|有?错误?|一样|老样子|没变化?|没好|没用|不对|不通过?|过不了|跑不通|跑不起来|编译不(?:过|了)|运行不了|同样的(?:错误|问题)|行|通过|能用|修好|解决|好)(?:啊|哦|呀|了|的|吧|诶)*$".to_owned(),
        r"^(?:这样?)?(?:还|这样|根本|完全)不行(?:啊|哦|呀|的)?$".to_owned(),
        r"^(?:问题|错误|报错|bug|这个(?:问题|错误))(?:还是?|仍然?|依然|依旧|一直)+(?:在|存在|没有?(?:解决|修好|消失))(?:啊|哦|呀|的|呢)*$".to_owned(),
    ]
    .iter()
    .map(|text| expression(text))
    .collect()
});

/// Anywhere in what is said first: the result itself is named.
static NAMES_THE_RESULT: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    let yours = r"your (?:last |latest |new |previous )?(?:fix|change|changes|edit|edits|patch|answer|solution|code|version|result|implementation|conclusion|explanation|summary)";
    // These may be there to fail.
    let tests = r"your (?:last |latest |new |previous )?(?:test|script)";
    [
        format!(r"^(?:{yours}|{tests}) (?:is|are|was|were|looks?|seems?) (?:\w+ly |still |just |all )?(?:wrong|incorrect|false|broken|buggy|not (?:right|correct|true|working|what i \w+))\b"),
        format!(r"^{yours} (?:still )?{FAILS}{TAIL}"),
        format!(r"^{tests} (?:still )?(?:does|did)(?: not|n't) work{TAIL}"),
        format!(r"^{yours} (?:just |still )?(?:broke|breaks|fails?|failed|crashes|crashed|made it worse|makes it worse)\b"),
        r"^you(?:'ve| have)? (?:just |completely |totally |actually |only )*(?:broke|broken|misunderstood|misread|got (?:it|that|this) wrong|made (?:it|things) worse)\b".to_owned(),
        r"^you (?:changed|edited|fixed|picked|used|deleted|moved|renamed|took) the wrong \w+".to_owned(),
        r"^you(?:'re| are) (?:\w+ly |still )?(?:wrong|mistaken)\b(?: about\b.*)?$".to_owned(),
        r"^you (?:did(?: not|n't)|have(?: not|n't)|never) (?:actually |even |really )?(?:fix(?:ed)?|solved?|finish(?:ed)?|do(?:ne)?|did|change(?:d)?|test(?:ed)?|implement(?:ed)?|run|ran|answer(?:ed)?) (?:it|that|this|anything|the \w+|what i (?:asked|wanted|said)(?: for)?|my \w+)\b".to_owned(),
        format!(r"^(?:this|that|it)(?:'s| is) not what i (?:asked|wanted|meant|need(?:ed)?|had in mind|expected|said)(?: for)?{TAIL}"),
        r"^(?:这|那)?(?:根本|完全)?不是我(?:想)?要的(?:结果|东西|效果)?(?:啊|哦|呀)?$".to_owned(),
        r"^你(?:的)?(?:改动|修改|修复|方案|代码|改法|答案|回答|改的(?:东西|代码)?|这(?:个|次)(?:改动|修改|修复))(?:还|又|是|都|把|也|根本|完全)*(?:不对|不行|错了?|有问题|没用|没效果|不起作用|不管用|报错|跑不通|.{0,12}(?:弄坏|搞坏|改坏)了?)(?:了|的|啊|哦)*$".to_owned(),
        r"^你(?:又|还是|根本|完全|压根)*(?:没有?)(?:真的)?(?:修好|改好|修|改|解决|做|看懂|理解|运行|测试)(?:它|问题|对|完|我的.{1,6}|这个.{0,6})?(?:啊|呀)?$".to_owned(),
        r"^你?(?:把.{1,16})(?:弄坏|搞坏|改坏|改错|弄错|搞错)了(?:啊|呀|吧)?$".to_owned(),
        r"^你(?:又|完全|全)?(?:理解|弄|搞|改|做|写|算|看|想)错了".to_owned(),
    ]
    .iter()
    .map(|text| expression(text))
    .collect()
});

#[cfg(test)]
mod tests {
    use super::*;

    const REJECTIONS: &[&str] = &[
        "No, that's wrong.",
        "that did not work",
        "That didn't work, try something else.",
        "Nope, still broken.",
        "It still fails.",
        "it still doesn't work, can you check again?",
        "Hmm, that is not right: the total must be 12.",
        "Wrong.",
        "wrong answer",
        "Incorrect. It has to return a list.",
        "This isn't what I asked for.",
        "That's not what I meant.",
        "Your fix doesn't work.",
        "Thanks for the quick work. But your change broke the login.",
        "Sorry, but the tests still fail.",
        "I tried it and it still crashes.",
        "I just ran it again, same error as before.",
        "Same error.",
        "I still get the same error",
        "I'm still getting a TypeError exception when I click",
        "The bug is still there.",
        "You didn't fix it.",
        "You broke the build!",
        "you're wrong about the cause",
        "You misunderstood me. I want the other column.",
        "No, it does not compile.",
        "doesn't work",
        "Not fixed.",
        "unfortunately that didn't help",
        "It's still not working on my machine",
        "The output is wrong.",
        "This is incorrect, the year has 366 days then.",
        "It fails again with a timeout",
        "You have not answered my question",
        "ok, but that's wrong because the index starts at 0",
        "I tested it. It doesn't work.",
        "不对",
        "不对，结果应该是 12",
        "这不对吧",
        "还是不行",
        "还是不行，换个办法",
        "还是报错。",
        "错了",
        "你改错了，应该改另一个文件",
        "你理解错了",
        "这不是我要的",
        "没用",
        "这个结果不对。",
        "测试还是失败",
        "问题还在",
        "我试了，还是一样",
        "你没修好",
        "你把登录弄坏了",
        "你的修改不对",
        "这样没有解决问题",
        "仍然报错，能不能再看一下？",
        "结果是错的",
        "可是还是跑不通",
        "Hm, no. It's wrong again.",
        "That does not fix the problem.",
        "it's worse now",
        "this doesn't do what I asked",
        "The answer is incorrect",
        "Still not working",
        "still failing",
        "No it isn't fixed",
        "That is wrong, the file has 3 lines",
        "Your answer is wrong.",
        "I don't think that's right",
        "It's not working",
        "You changed the wrong file",
        "The result is not correct",
        "that's completely wrong",
        "Nope.  Didn't work.",
        "This does not work at all",
        "That's just not true",
        "The same problem again",
        "No, you broke the tests",
        "the problem persists",
        "Not what I wanted",
        "Still wrong",
        "did not work",
        "The fix doesn't work: I still see the error.",
        "that is false",
        "还不行",
        "不行，还是错",
        "还是没有效果",
        "你错了",
        "这样不行",
        "结果不正确",
        "没有解决",
        "又错了",
        "完全不对",
        "还是有bug",
        "That didn't fix it, the test is still red",
        "no, the output is still wrong",
        "Your patch doesn't compile",
        "It doesn't work for negative numbers.",
        "It still crashes when I open an empty file.",
        "nope. same failure",
        "Good try, but it's still broken.",
        "Thanks, but that's not what I asked for",
        "Your test is wrong, it asserts nothing",
        "You broke the login page.",
        "It didn't work since you never saved the file",
        "The tests still fail after your change",
        "That's not correct. Nice try though.",
        "I ran it and it still fails with exit 1",
        "这个方案没用",
        "还是不对，再看看",
        "你改的代码报错",
        "测试还是不通过",
        "不是我要的效果",
        "问题还是存在",
    ];

    /// Rejections that are not heard: too much that is none is said in the same words.
    const MISSED: &[&str] = &[
        "you forgot the second file",
        "no good, it crashes now",
        "Nothing has changed, the page is still blank",
        "It still shows the old value",
    ];

    const INNOCENT: &[&str] = &[
        "No, wait, first do X.",
        "Is that wrong?",
        "The wrong file is read by the parser, fix it.",
        "No.",
        "No, use tabs instead.",
        "No, thanks.",
        "No need to run the tests.",
        "That's wrong, isn't it?",
        "Is it still broken?",
        "Why did that not work?",
        "If that's wrong, tell me.",
        "Tell me if it still fails.",
        "If it still fails, take it back.",
        "When it does not work, print a hint.",
        "Make sure that it does not work without a key.",
        "Print \"that's wrong\" when the guess is wrong.",
        "The label says: that's wrong. Make it friendlier.",
        "The reviewer thinks it did not work.",
        "He told me that is incorrect.",
        "It did not work yesterday, now it does.",
        "That didn't work before your change, thanks!",
        "That would be wrong.",
        "that's not wrong",
        "Nothing is wrong with it.",
        "What is wrong with the parser?",
        "Fix the wrong indentation in a.py",
        "There is a bug in the parser: it does not work with tabs. Fix it.",
        "Add a test for what is not correct yet",
        "The login page is broken on phones. Repair it.",
        "Write an error page for wrong passwords",
        "Users report that it still crashes on Windows; add a log line.",
        "Great, that works. Now do the same for b.",
        "That's right.",
        "Not bad! Next: the docs.",
        "Don't get me wrong, I like it.",
        "Correct me if I'm wrong, but is this thread-safe?",
        "It could not be better",
        "You were right, the cache was wrong.",
        "Explain why it did not work",
        "> that's wrong\nThat is what the old comment says, remove it",
        "The function returns false for wrong input, is that what we want?",
        "rename `wrong` to `mistaken`",
        "Suppose that's wrong. What then?",
        "No problem, go on.",
        "Same again for the other file, please.",
        "It doesn't matter, go on",
        "Does it still fail?",
        "The tests fail. Find out why.",
        "It still fails... no wait, it works now",
        "Revert it",
        "Not now, do the README first",
        "哪里不对？",
        "为什么不对",
        "如果还是不行就回滚",
        "要是错了就告诉我",
        "检查一下有没有不对的地方",
        "把不对齐的文字修一下",
        "不对称加密怎么实现？",
        "不管用什么方法，先跑起来",
        "把没用的代码删掉",
        "没用到的变量都删了",
        "提示“不对”的地方改成英文",
        "不是，先做另外一个",
        "不用了，谢谢",
        "不，先看测试",
        "用户说还是不行，加一个日志",
        "输入错了要给提示",
        "修复错误的文件名",
        "之前不行，现在可以了",
        "还是用原来的方案吧",
        "还是先写测试",
        "不对，等等，先看看测试",
        "对不对？",
        "这样行不行",
        "是不是错了？",
        "没问题，继续",
        "不错，继续",
        "Now that it works, remove the debug output",
        "Wrong branch, switch to dev first",
        "not yet, wait for me",
        "It works, but add a comment",
        "That is not so urgent",
        "The build still takes 3 minutes, make it faster",
        "Do not fix it yet",
        "Your change looks good",
        "It is still open in my editor",
        "That's not all: also rename b",
        "The parser does not support tabs, add that",
        "This project does not compile on Windows, port it",
        "This does not have to be fast",
        "the tests are still running, wait",
        "it's still there? delete it",
        "It is not necessary to test",
        "That was quick! Same thing for c.py",
        "it does not matter whether it's wrong",
        "The error message is wrong, it should say 'no such file'",
        "The result is wrong in the old version too",
        "This is broken on main: the CI fails",
        "the tests still pass, good",
        "Your test is good",
        "You never know",
        "you did it!",
        "The answer to life",
        "That is not what I asked, but it's fine",
        "It still needs a license header",
        "It fails with a good error now, perfect",
        "no wrong turns please",
        "不行的话就用别的",
        "这个测试原来就失败",
        "没有问题了",
        "不对外公开的接口不要改",
        "又快又好，谢谢",
        "问题解决了",
        "一样的改法用在 b.py 上",
        "错误处理也加上",
        "不是很急",
        "Your test fails, as it should. Now write the code.",
        "Your test fails as intended. Now implement it.",
        "That's not what I expected, nice!",
        "Same result, great!",
        "You didn't change the README, good",
        "It doesn't run as root, good.",
        "It is not running, please start the server",
        "It's not done yet, I know; go on with step 2",
        "My tests still fail for the other module, that's a separate issue.",
        "The build is still broken since the upgrade to Rust 1.90. Can you look at it?",
        "I still see a warning in the other crate, ignore it",
        "Your new test fails, perfect. Make it pass now.",
        "The tests still fail, that's expected at this step.",
        "Still fails, as planned. Next step.",
        "It still crashes on Windows, but that's a known issue, skip it",
        "Not what I expected, but even better!",
        "The same error as in the other repo, don't worry about it",
        "It doesn't build on Rust 1.60, that's fine.",
        "This isn't fixed yet in upstream, so pin the version",
        "The server isn't running, start it first",
        "it's not finished yet, continue",
        "That's wrong in the spec, not in your code",
        "Your script fails without a key, which is right",
        "I still get the warning from clippy, that's unrelated",
        "It does not work offline, as designed. Document it.",
        "The check still fails because of the missing key, I know. Go on.",
        "You didn't change the API, great",
        "You did not touch the tests. Good.",
        "测试还是失败，这是预期的，继续",
        "还是报错，不过没关系，下一步",
        "不行，太晚了，明天再说",
        "结果不对，不过是我输入错了",
        "还是一样，很好",
        "没有用的文件可以删了",
        "仍然失败，我知道，先做第二步",
        "The bug is still there on the old branch, leave it",
        "The build is still red on main, someone else is on it",
        "It's not right to call this a bug, it's a feature. Document it.",
        "Does not work is what the ticket says; close it",
        "Same result as the reference, excellent",
        "I keep getting errors from my editor, unrelated. Go on.",
        "不要再改了",
    ];

    /// Precise before complete: a message that is wrongly taken for a rejection misleads, one that is missed only
    /// says less.
    #[test]
    fn a_rejection_is_heard_and_nothing_else() {
        let missed: Vec<_> = REJECTIONS.iter().filter(|said| rejects(said).is_none()).collect();
        let wrongly: Vec<_> = INNOCENT.iter().filter(|said| rejects(said).is_some()).collect();
        assert_eq!((missed, wrongly), (vec![], vec![]));
        assert!(MISSED.iter().all(|said| rejects(said).is_none()), "it is heard: move it up");
    }

    #[test]
    fn the_users_sentence_is_kept_as_it_was() {
        let said = rejects("Thanks! But your fix doesn't WORK: `a` is 1. Go on.");
        assert_eq!(said.as_deref(), Some("But your fix doesn't WORK: `a` is 1."));
    }
}
