//! A message as speech: its sentences, and in each only what its author says in their own name.
//!
//! Quotes, code, citations, piped text and pasted logs are nobody's word here.

use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;

/// One sentence of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sentence {
    /// As it was written, in one line, without the mark of a list in front.
    pub text: String,
    /// The same, byte for byte, with blanks for what is quoted.
    pub bare: String,
    /// In lower case, with `…` for what is quoted.
    pub own: String,
    /// The line that a list hangs on (`Constraints:`), where the sentence is an item of one.
    pub heading: Option<String>,
    /// The line before says who else said this: `The README says:`.
    is_cited: bool,
}

impl Sentence {
    /// It asks something.
    pub fn is_question(&self) -> bool {
        self.own.ends_with(['?', '？'])
            || self.own.trim_end_matches(['.', '。', '!', '！']).ends_with('吗')
    }

    /// What it permits is permitted: by its author, now, and with no condition. Where that is not certain it is not:
    /// one more question costs less than a change that nobody wanted.
    pub fn grants(&self) -> bool {
        // They hold the words of a prohibition and are none, or take one back; who speaks of themself reports nobody.
        static NO_MATTER: LazyLock<Regex> = LazyLock::new(|| {
            expression(
                r"\b(?:no (?:problem|worries)|not bad|why not|(?:do not|don't) worry)\b|\b(?:don't|do not|no longer) (?:have|need) to\b(?: ask (?:me |us )?(?:before|about|for)\b)?|\bno longer\b|\bnot to\b|\b(?:as )?i (?:already |just )?(?:say|said|told you)\b|\bas you (?:said|wrote|suggested)\b|不错|不客气|不要紧|只读|不(?:用|必|需要)再|你说的|我说|说明",
            )
        });
        let said = NO_MATTER.replace_all(&self.own, " ");
        !(self.is_question() || self.is_cited || HELD_BACK.is_match(&said) || is_report(&said))
    }
}

/// Whoever says this does not permit it now: a "not", a condition, another time, or no more than a thought.
static HELD_BACK: LazyLock<Regex> = LazyLock::new(|| {
    let not = r"\b(?:not|never|dont|nothing|nobody|no|none|only|cannot|without)\b|n't\b";
    let condition = r"\b(?:if|when|whenever|before|until|till|unless|once|after|soon|provided|assuming|in case|as long as|whether|wait)\b";
    let later = r"\b(?:tomorrow|later|tonight|yesterday|eventually|some ?day|afterwards|(?:next|last|this) (?:time|evening|afternoon|night|week|weekend|month|year|sprint|session)|(?:on |next )(?:mon|tues|wednes|thurs|fri|satur|sun)day|in (?:a|an|one|two|three|five|ten|[0-9]+) (?:\w+ )?(?:seconds?|minutes?|hours?|days?|weeks?|months?))\b";
    let thought = r"\b(?:would|could|might|maybe|perhaps|suppose|imagine|pretend|hypothetically|mentally|in theory|in thought|in principle)\b";
    let chinese = "不|别|勿|之前|等|如果|要是|假如|假设|倘若|除非|万一|一旦|只|仅|禁止|明天|后天|下周|下次|晚点|稍后|待会|[以之]后再|再说|也许|可能";
    expression(&[not, condition, later, thought, chinese].join("|"))
});

/// Somebody or something else says so.
fn is_report(said: &str) -> bool {
    static REPORT: LazyLock<Regex> = LazyLock::new(|| {
        expression(
            r"\b(?:says|said|say|told|tells|wrote|writes|reads|states|stated|claims|claimed|mentions|mentioned|according to|prints|reports|asked|suggests|suggested|thinks|believes|shows|outputs|reckons)\b|写着|写道|写明|据说|提示|告诉我|显示[:：，]|表示|认为|说",
        )
    });
    REPORT.is_match(said)
}

/// Stands for each byte of what is quoted.
const QUOTED: u8 = 1;

/// The sentences of a message, in order. A dot inside a name ends none.
pub fn sentences(message: &str) -> Vec<Sentence> {
    let own = own_words(message);
    let mut sentences = Vec::new();
    let mut heading: Option<&str> = None;
    // The line before ends by saying who speaks in the next.
    let mut cites = false;
    for range in paragraphs(&own) {
        let line = &own[range.clone()];
        let mark = MARK.find(line).map_or(0, |mark| mark.end());
        // A blank line may stand between a heading and its list.
        if line.trim().is_empty() {
            continue;
        }
        let is_cited = cites;
        let ends_open = line.trim_end().ends_with([':', '：']);
        // All of a list is said by whom its heading names.
        cites = ends_open && is_report(&line.to_lowercase()) || cites && mark > 0;
        if mark == 0 {
            heading = line.trim_end().ends_with([':', '：']).then(|| message[range.clone()].trim());
        }
        let heading = heading.filter(|_| mark > 0).map(str::to_owned);
        for part in parts(&line[mark..]) {
            let at = range.start + mark + part.start..range.start + mark + part.end;
            let shown = without_quotes(&own[at.clone()]);
            if shown.chars().any(char::is_alphanumeric) {
                let text = in_one_line(&message[at.clone()]);
                let bare = bare(&message[at.clone()], &own[at]);
                let own = shown.split_whitespace().collect::<Vec<_>>().join(" ");
                let own = without_emphasis(&own.to_lowercase().replace('’', "'"));
                sentences.push(Sentence { text, bare, own, heading: heading.clone(), is_cited });
            }
        }
    }
    sentences
}

/// Parts of a sentence between commas, colons, parentheses and dashes.
pub fn clauses(sentence: &str) -> impl Iterator<Item = &str> {
    const ENDS: [char; 12] = [',', '，', '、', ':', '：', '(', ')', '（', '）', '–', '—', ';'];
    sentence.split(ENDS).flat_map(|part| part.split(" - "))
}

/// What a clause says behind the words that only lead to it; a clause of such words alone says what they say. `None`:
/// it says nothing.
pub fn led_by<'a>(lead: &Regex, clause: &'a str) -> Option<&'a str> {
    let is_mark = |c: char| c.is_whitespace() || ".!?;。！？；…~～".contains(c);
    let clause = clause.trim_matches(is_mark);
    let end = lead.find(clause).map_or(0, |lead| lead.end());
    let said = if end < clause.len() { &clause[end..] } else { clause };
    (!said.is_empty()).then_some(said)
}

/// An expression over what people say. The words that are looked for are ASCII, or have no ends: so the tables of all
/// letters are not needed, which are most of what an expression costs to be made.
///
/// # Panics
/// Where the text is none: each is fixed, and a test makes it.
pub fn expression(text: &str) -> Regex {
    let text = text.replace(r"\b", r"(?-u:\b)");
    let text = text.replace(r"\w", "[A-Za-z0-9_]").replace(r"\W", "[^A-Za-z0-9_]");
    Regex::new(&text).expect("a fixed expression")
}

/// What stands in front of an item of a list, or of a heading.
static MARK: LazyLock<Regex> = LazyLock::new(|| {
    expression(
        r"^\s*(?:(?:[-*+•·‣]|#{1,6}|[0-9]{1,2}[.)、]|[(（][0-9]{1,2}[)）])\s+(?:\[[ x]\]\s+)?|[0-9]{1,2}、|[•·]\s*)",
    )
});

/// The message with the same bytes, but those of what is quoted.
fn own_words(message: &str) -> String {
    static SPANS: LazyLock<Regex> = LazyLock::new(|| {
        expression(
            r#"(?s)```.*?(?:```|\z)|~~~.*?(?:~~~|\z)|(?m:^<stdin>$).*</stdin>|`[^`\n]*`|"[^"\n]*"|“[^”\n]*”|「[^」\n]*」|『[^』\n]*』|(?m:^[ \t]*>[^\n]*$)"#,
        )
    });
    // What programs print, one line each.
    static LOG: LazyLock<Regex> = LazyLock::new(|| {
        expression(
            r"(?m)^\s*(?:\[?[0-9]{4}-[0-9]{2}-[0-9]{2}[T ]|\[?(?:[0-9]{2}:){2}[0-9]{2}|\[?(?:ERROR|WARN|WARNING|INFO|DEBUG|FATAL|TRACE)\b|(?:error|warning|fatal|panic)(?:\[\w+\])?: |= (?:note|help): |Traceback |at \S+\(|File \x22|[$%] \S|>>> |thread '|Caused by:|npm (?:ERR!|error|warn)|diff --git|@@ |\w+(?:Error|Exception)(?::|$)|E\s{3}).*$",
        )
    });
    static INDENTED: LazyLock<Regex> = LazyLock::new(|| expression(r"(?m)^(?: {4}|\t)[^\n]*$"));

    let mut bytes = message.as_bytes().to_vec();
    let mut hide = |range: Range<usize>| bytes[range].fill(QUOTED);
    for found in SPANS.find_iter(message).chain(LOG.find_iter(message)) {
        hide(found.range());
    }
    for found in INDENTED.find_iter(message) {
        if !MARK.is_match(found.as_str()) {
            hide(found.range());
        }
    }
    // Whole characters were replaced by ASCII: it still is UTF-8.
    String::from_utf8(bytes).unwrap_or_default()
}

/// The lines, with those joined that only the width of a window parted.
fn paragraphs(own: &str) -> Vec<Range<usize>> {
    const WIDE: usize = 60;
    let mut found: Vec<Range<usize>> = Vec::new();
    let mut at = 0;
    for line in own.split_inclusive('\n') {
        let range = at..at + line.trim_end_matches('\n').len();
        at += line.len();
        let goes_on = found.last().is_some_and(|before| {
            let before = &own[before.clone()];
            let width = before.rsplit('\n').next().unwrap_or(before).chars().count();
            width >= WIDE
                && !before.trim_end().ends_with(['.', '!', '?', ':', ';', '。', '！', '？', '：'])
                && line.trim_start().starts_with(|c: char| c.is_lowercase() || c == '`')
                && !MARK.is_match(line)
        });
        match found.last_mut().filter(|_| goes_on) {
            Some(before) => before.end = range.end,
            None => found.push(range),
        }
    }
    found
}

/// Where the sentences of a line stand.
fn parts(line: &str) -> Vec<Range<usize>> {
    const ABBREVIATIONS: &[&str] =
        &["e.g", "i.e", "etc", "vs", "cf", "resp", "approx", "incl", "no"];
    let mut found = Vec::new();
    let mut start = 0;
    let mut chars = line.char_indices().peekable();
    while let Some((at, char)) = chars.next() {
        let next = chars.peek().map(|(_, next)| *next);
        // What is emphasised ends with its mark.
        let is_last = || {
            let rest = line[at + char.len_utf8()..].trim_start_matches(EMPHASIS);
            rest.chars().next().is_none_or(char::is_whitespace)
        };
        let is_end = match char {
            '。' | '！' | '？' | '；' => true,
            '!' | '?' | ';' => is_last(),
            '.' if is_last() => {
                let word = line[start..at].rsplit(char::is_whitespace).next().unwrap_or_default();
                let word = word.trim_start_matches('(').to_lowercase();
                let is_short = ABBREVIATIONS.contains(&word.as_str())
                    && chars.clone().nth(1).is_some_and(|(_, c)| !c.is_uppercase());
                !is_short
            }
            _ => false,
        };
        // Several marks end one sentence.
        if is_end && !next.is_some_and(|next| "!?！？。.".contains(next)) {
            let rest = &line[at + char.len_utf8()..];
            let end = line.len() - rest.trim_start_matches(EMPHASIS).len();
            found.push(start..end);
            start = end;
        }
    }
    found.push(start..line.len());
    found
}

/// What emphasises, in Markdown.
const EMPHASIS: [char; 2] = ['*', '_'];

/// Without the marks of what is emphasised; those inside a word stay.
fn without_emphasis(own: &str) -> String {
    static MARKS: LazyLock<Regex> =
        LazyLock::new(|| expression(r"\*\*|__|(^|[\s(])[*_]([^\s*_./])"));
    static ENDS: LazyLock<Regex> = LazyLock::new(|| expression(r"([^\s*_/])[*_]([\s,.:;!?)]|$)"));
    let own = MARKS.replace_all(own, "$1$2");
    ENDS.replace_all(&own, "$1$2").into_owned()
}

/// Without the line breaks, and otherwise as it was written.
fn in_one_line(text: &str) -> String {
    text.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ")
}

/// What [`in_one_line`] makes of a text, with blanks for what is quoted: `own` has the same bytes but those.
fn bare(text: &str, own: &str) -> String {
    let mut lines = Vec::new();
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let start = at + line.len() - line.trim_start().len();
        let shown = line.trim();
        at += line.len();
        if !shown.is_empty() {
            lines.push(own[start..start + shown.len()].replace(char::from(QUOTED), " "));
        }
    }
    lines.join(" ")
}

/// With one sign for all that is quoted in one go.
fn without_quotes(text: &str) -> String {
    let mut own = String::with_capacity(text.len());
    for char in in_one_line(text).chars() {
        match (char == char::from(QUOTED), own.ends_with('…')) {
            (true, true) => {}
            (true, false) => own.push('…'),
            (false, _) => own.push(char),
        }
    }
    own
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(message: &str, expected: &[&str]) {
        let found: Vec<String> = sentences(message).into_iter().map(|one| one.text).collect();
        assert_eq!(found, expected, "{message:?}");
    }

    #[test]
    fn a_dot_inside_a_name_ends_no_sentence() {
        check(
            "Fix src/a.rs, e.g. its parser. Don't touch v1.2.3! Use node.js; never tabs.",
            &[
                "Fix src/a.rs, e.g. its parser.",
                "Don't touch v1.2.3!",
                "Use node.js;",
                "never tabs.",
            ],
        );
        check("不要改 a.b.c。先看看！好吗？", &["不要改 a.b.c。", "先看看！", "好吗？"]);
        check(
            "Write etc. into it. No. 5 stays, e.g.",
            &["Write etc. into it.", "No. 5 stays, e.g."],
        );
        check("Really?! Wait... what", &["Really?!", "Wait...", "what"]);
        check("**Stop!** *Look.* _Go?_ a", &["**Stop!**", "*Look.*", "_Go?_", "a"]);
    }

    /// A dot that ends nothing costs no look back: with one for each this would take an hour.
    #[test]
    fn many_numbers_are_one_sentence() {
        let numbers = "1.5,2.5,".repeat(1 << 18);
        check(&numbers, &[&numbers]);
    }

    #[test]
    fn items_of_a_list_are_sentences_and_know_their_heading() {
        let found = sentences("Rules:\n\n- no tabs\n2. no `x`\n* [ ] done\nBye\n- x");
        let found: Vec<_> =
            found.iter().map(|one| (one.text.as_str(), one.heading.as_deref())).collect();
        let rules = Some("Rules:");
        let expected = [
            ("Rules:", None),
            ("no tabs", rules),
            ("no `x`", rules),
            ("done", rules),
            ("Bye", None),
            ("x", None),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_line_that_only_the_window_parted_goes_on() {
        check(
            "Please be so kind and do not change anything that belongs to the\npublic API. Thanks",
            &[
                "Please be so kind and do not change anything that belongs to the public API.",
                "Thanks",
            ],
        );
        check("one\ntwo", &["one", "two"]);
    }

    #[test]
    fn a_clause_stands_behind_the_words_that_lead_to_it() {
        let lead = expression(r"^(?:(?:please|but|请)\b? *)+");
        let said = |sentence| -> Vec<&str> {
            clauses(sentence).filter_map(|clause| led_by(&lead, clause)).collect()
        };
        assert_eq!(said("please stop, but look - here (now)!"), ["stop", "look", "here", "now"]);
        assert_eq!(said("请停：别动（真的）~"), ["停", "别动", "真的"]);
        assert_eq!(said("please, ..., look"), ["please", "look"]);
    }

    #[test]
    fn what_is_emphasised_is_said_as_any_other_word() {
        for (message, own) in [
            ("**Don't** touch *it*.", "don't touch it."),
            ("_Never_ in src/*.rs or a_b", "never in src/*.rs or a_b"),
            ("__Stop__ (*now*)", "stop (now)"),
        ] {
            assert_eq!(sentences(message)[0].own, own, "{message}");
        }
    }

    #[test]
    fn only_what_its_author_permits_now_is_permitted() {
        let grants = |message: &str| sentences(message).last().is_some_and(Sentence::grants);
        for message in [
            "You may edit it now.",
            "No problem, you can change it",
            "I said you may edit it.",
            "you no longer have to ask me before changing it",
            "**You may edit it.**",
            "The list:\n- you may edit it",
            "不错，可以改了",
            "我说可以改了",
        ] {
            assert!(grants(message), "{message}");
        }
        for message in [
            "The file says: you may edit it",
            "He told me you may edit it",
            "The file says:\n- read\n- you may edit it",
            "It says:\nYou may edit it.",
            "You may edit it tomorrow.",
            "You may edit it as soon as Bob has agreed",
            "You could edit it",
            "You may edit it only in part",
            "You may edit it?",
            "可以改了吗",
            "文件里写着可以改",
            "等测试过了可以改",
        ] {
            assert!(!grants(message), "{message}");
        }
    }

    #[test]
    fn what_is_quoted_is_nobodys_word() {
        let message = "It prints “never”:\n```\ndon't touch\n```\n> never push\n    let x = 1;\n\
             error: must not be empty\n2026-01-01T00:00:00 never\nTypeError: never\n\
             <stdin>\nnever push\n</stdin>";
        let found: Vec<String> = sentences(message).into_iter().map(|one| one.own).collect();
        assert_eq!(found, ["it prints …:"]);
        let found = sentences("Say `é’`\n");
        assert_eq!((&*found[0].text, &*found[0].bare), ("Say `é’`", "Say        "));
        let found = sentences("Run ’x’ and `a b` twice");
        assert_eq!(
            (&*found[0].own, &*found[0].text),
            ("run 'x' and … twice", "Run ’x’ and `a b` twice")
        );
    }
}
