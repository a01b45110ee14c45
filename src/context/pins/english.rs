//! Which English sentences bind: they forbid, require or limit something.

use std::sync::LazyLock;

use regex::Regex;

use super::any;
use crate::protocol::speech::expression;

/// Verbs of what an agent could do to a project.
const ACT: &str = "(?:access|accept|add|allow|alter|amend|apply|assume|break|bump|bypass|call|change|check in|clean|commit|convert|copy|create|delete|depend|deploy|disable|downgrade|download|drop|edit|enable|exceed|execute|expose|extend|fetch|fix|force|format|generate|hard-?code|hardcode|import|include|inline|install|introduce|invoke|leak|log|make|merge|migrate|mix|modify|move|mutate|open|overwrite|print|publish|push|put|read|rebase|refactor|reformat|regenerate|rely|remove|rename|reorder|replace|reset|restart|revert|rewrite|run|save|send|set|ship|share|skip|spawn|start|store|suppress|swallow|switch|throw|touch|update|upgrade|upload|use|weaken|write)";
/// The same, done.
const ACTED: &str = "(?:accessed|accepted|added|allowed|altered|applied|broken|bypassed|called|changed|checked in|committed|copied|created|deleted|deployed|disabled|dropped|edited|exceeded|exposed|hard-?coded|imported|installed|introduced|leaked|logged|merged|modified|moved|mutated|overwritten|printed|published|pushed|read|rebased|removed|renamed|replaced|reset|rewritten|sent|shared|shipped|skipped|stored|swallowed|switched|touched|trusted|updated|upgraded|uploaded|used|weakened|written)";
/// Verbs with which a task begins.
const TASK: &str = "(?:add|analy[sz]e|audit|build|bump|change|check|clean|convert|create|debug|describe|document|explain|extend|extract|find|fix|generate|implement|improve|inline|inspect|investigate|list|look|make|merge|migrate|move|optimi[sz]e|plan|port|refactor|remove|rename|repair|replace|review|rewrite|show|simplify|solve|speed|split|summari[sz]e|test|tidy|translate|try|turn|update|upgrade|write)";

/// One of these stands in every sentence that binds.
const HINTS: &[&str] = &[
    "not",
    "n't",
    "dont",
    "never",
    "no ",
    "only",
    "exclusively",
    "must",
    "shall",
    "should",
    "may ",
    "can't",
    "always",
    "keep",
    "leave",
    "use ",
    "avoid",
    "ensure",
    "sure",
    "certain",
    "need",
    "has to",
    "have to",
    "stay",
    "remain",
    "stick",
    "limit",
    "restrict",
    "confine",
    "constrain",
    "ask",
    "without",
    "forbid",
    "forbidden",
    "allowed",
    "permitted",
    "prohibit",
    "banned",
    "require",
    "remember",
    "prefer",
    "rather",
    "instead",
    "follow",
    "obey",
    "comply",
    "conform",
    "match",
    "adhere",
    "preserve",
    "maintain",
    "retain",
    "respect",
    "hono",
    "hands off",
    "clear of",
    "out of",
    "under no",
    "in no ",
    "treat",
    "stop",
    "quit",
    "cease",
    "refrain",
    "abstain",
    "nothing",
    "nobody",
    "insist",
    "want",
    "at most",
    "at least",
    "max",
    "mandatory",
    "off-limits",
    "off limits",
    "taboo",
    "confidential",
    "sacred",
    "before",
    "let ",
    "wait",
    "careful",
    "take care",
    "see to it",
    "consult",
    "notify",
    "boundar",
    "scope",
    "frozen",
    "untouchable",
];

/// The sentence forbids, requires or limits something. In lower case, without what it quotes.
pub(super) fn binds(sentence: &str) -> bool {
    // Most sentences hold none of them: they cost nothing.
    if !HINTS.iter().any(|hint| sentence.contains(hint)) {
        return false;
    }
    // An insertion parts the prohibition from its verb: "do not, under any circumstances, run".
    let sentence = sentence.replace("even think about ", "");
    let sentence = sentence.replace("never, ever", "never");
    let sentence = INSERTED.replace(&sentence, "$1 ");
    if ASKS.is_match(&sentence) {
        return false;
    }
    let is_task = begins_a_task(&sentence);
    // What is made is itself a rule: what it demands is no demand on who makes it.
    let makes_a_rule = is_task && RULE.is_match(strip_lead(&sentence));
    if SENTENCE.is_match(strip_lead(&sentence)) || is_task && WITHOUT.is_match(&sentence) {
        return true;
    }
    for clause in clauses(&sentence) {
        if is_condition(clause) {
            continue;
        }
        let directs = DIRECTS.iter().any(|form| form.is_match(clause));
        let states = STATES.iter().any(|form| form.is_match(clause));
        let states = states && !makes_a_rule && !begins_a_task(clause) && !REPORTS.is_match(clause);
        if (directs || states) && !IDLE.is_match(clause) {
            return true;
        }
        // What somebody or something else says is not the user's word.
        if REPORTED.is_match(clause) {
            return false;
        }
    }
    false
}

fn begins_a_task(sentence: &str) -> bool {
    static BEGINS: LazyLock<Regex> =
        LazyLock::new(|| expression(&format!(r"^(?:{TASK}|do (?:it|this|that|all|the))\b")));
    BEGINS.is_match(strip_lead(sentence))
}

/// The sentence without the words that only lead to it.
fn strip_lead(sentence: &str) -> &str {
    static LEAD: LazyLock<Regex> = LazyLock::new(|| {
        expression(
            r"^(?:(?:please|pls|ok|okay|and|so|then|but|also|now|first|again|really|hey|hi|yes|sure|alright|great|good|thanks|well|oh|however|though|just|finally|additionally|furthermore|absolutely|strictly|for now|from now on|in (?:this|the) (?:session|task|project|repo|repository|codebase)|for (?:this|the) (?:task|project|change|time being)|this time|in general|generally|note(?: that)?|please note(?: that)?|remember that|keep in mind(?: that)?|be aware that|it(?:'s| is) (?:very |really )?(?:important|essential|critical|crucial|vital|mandatory)(?: that)?|i (?:said|told you|repeat|think|insist|guess)(?: that| to)?|as i said|one (?:more )?thing|important|note|warning|attention|caution|nb|ps|btw|by the way|reminder|rule|hard rule|constraint|security|whatever you do|no matter what|at any rate|in any case|seriously|try to)\b[\s:!]*|[-–—…'(\s]+)+",
        )
    });
    let end = LEAD.find(sentence).map_or(0, |lead| lead.end());
    &sentence[end..]
}

/// Parts of a sentence between commas, dashes and the words that join clauses.
fn clauses(sentence: &str) -> impl Iterator<Item = &str> {
    static ENDS: LazyLock<Regex> = LazyLock::new(|| {
        any(&[
            r"[,;:()–—]+(?:\s|$)",
            r" - ",
            r"\s(?:but|and|so|because|since|then|although|though|yet|which means)\s",
            r"\s(?:if|when|whenever|while|unless|until|till|once)\s",
        ])
    });
    // What joins two clauses belongs to the second.
    let mut starts = vec![0];
    for end in ENDS.find_iter(sentence) {
        let joins = end.as_str().starts_with(' ') && !end.as_str().contains('-');
        starts.push(if joins { end.start() + 1 } else { end.end() });
    }
    starts.push(sentence.len());
    let ranges: Vec<_> = starts.windows(2).map(|pair| pair[0]..pair[1]).collect();
    ranges.into_iter().map(move |range| {
        let clause =
            sentence[range].trim_matches(|c: char| c.is_whitespace() || ".!,;:()".contains(c));
        strip_lead(clause)
    })
}

fn is_condition(clause: &str) -> bool {
    static CONDITION: LazyLock<Regex> = LazyLock::new(|| {
        expression(
            r"^(?:if|when|whenever|while|unless|until|till|because|since|once|as|whether|in case|assuming|suppose|although|though)\b",
        )
    });
    CONDITION.is_match(clause)
}

/// It asks, with or without a mark.
static ASKS: LazyLock<Regex> = LazyLock::new(|| {
    expression(
        r"\?$|^(?:(?:and|so|but|ok|also|then|hm+|hmm)[,\s]+)*(?:why|how|what|which|where|who|whose|should (?:i|we)|must (?:i|we)|do (?:i|we|you)|does|did|is|are|was|were|am i|can (?:i|we|you)|could (?:i|we|you)|would|will you|shall|may i|don't you|can't you|couldn't|isn't|aren't|won't|wouldn't)\b",
    )
});

static RULE: LazyLock<Regex> = LazyLock::new(|| {
    expression(
        r"^(?:add|write|implement|create|make|build) (?:\S+ ){0,4}?(?:validation|validator|check|rule|lint|constraint|limit|policy|guard|assertion|test)s?\b",
    )
});
static INSERTED: LazyLock<Regex> =
    LazyLock::new(|| expression(r"\b(not|never|don't|always|must), [^,]{2,40}, "));

/// Seen only in the whole sentence: two parts make one demand.
static SENTENCE: LazyLock<Regex> = LazyLock::new(|| {
    any(&[
        r"^(?:use|prefer|write|choose|pick|take|go with|call|import|log|return|indent with|stay with|name)\b.*(?:\b(?:instead of|rather than|in place of|as opposed to)\b|(?:,|\band\b|\bbut\b) ?(?:not|never)\b)",
        r"^before\b.+, ?(?:please )?(?:ask|check with|consult|confirm with|notify|tell|warn|talk to) (?:me|us)\b",
        r"^(?:do )?nothing (?:else )?(?:but|except|outside|beyond)\b",
        r"^(?:if|when|before|unless|until) .+, (?:always|never)\b",
        r"^only .+(?:,|\band\b|\bbut\b) ?(?:no|not|never|nothing)\b",
        r"\b(?:as|so) long as\b.*\b(?:stays?|remains?|keeps?|is not|isn't|are not|aren't|does not|doesn't|do not|don't)\b",
        r"^(?:nobody|no one|nothing) (?:but|except|other than)\b.*\b(?:may|must|can|should)\b",
        &format!(
            r"^{TASK}\b.*(?:,|\band\b) ?(?:nothing (?:else|more)|no(?:thing)? other (?:files?|changes?))[.!]?$"
        ),
        r"^(?:the )?(?:hard |strict )?(?:constraints?|restrictions?|non-goals?|off.?limits|out of scope|forbidden|taboo|boundar(?:y|ies)|limits?)\s?[:=] ?\S",
    ])
});

static WITHOUT: LazyLock<Regex> = LazyLock::new(|| {
    expression(
        r"\bwithout (?:ever )?(?:chang|touch|modify|break|edit|add|alter|remov|delet|us|introduc|install|renam|rewrit|affect|reformat|refactor|los|rely|relax|weaken|disabl|bump|upgrad|creat|mov|ask|increas|chang|regress|slow|block|pull|going over|allocat|log|leak|expos|stor|writ|runn|restart|download|access)\w*|\bwithout (?:any |a |the |adding )?(?:new |additional |extra |external |third-party |further |breaking |other |big )*(?:dependenc|librar|package|change|framework|plugin|side effect|regression|downtime|lock|allocation|network)\w*",
    )
});

/// Forms in which the user directs the reader.
static DIRECTS: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    let not = r"(?:do not|don't|dont|do never|never|don't you|must not|mustn't)";
    let me = r"(?:me|us|my \w+|the team|\w+)";
    [
        format!(r"^(?:you )?{not}(?: (?:ever|even|just|actually|please|you|also|under any circumstances))* [a-z]"),
        r"^you(?:'re| are)?(?: (?:absolutely|really|also|still|definitely|strictly))* (?:must|mustn't|may not|may only|must only|can only|can't|cannot|can not|should never|should not|shouldn't|should only|should always|shall|are not to|ought not|(?:are )?not (?:allowed|permitted|supposed|authori[sz]ed|to)|aren't (?:allowed|permitted|supposed)|only (?:allowed|permitted)|(?:are )?forbidden|(?:are )?required|always|never)\b".to_owned(),
        format!(r"^you (?:have|need) to (?:always |never |only )?(?:use|keep|follow|stick|ask|make sure|respect|support|stay|preserve|ensure|avoid|be (?:careful|compatible)|{ACT} .*\b(?:before|each|every|whenever|first)\b)"),
        format!(r"^we (?:must|mustn't|may not|shall|should (?:never|not|always|only)|shouldn't|(?:can't|cannot|can not|never|don't|do not|dont|always|only|won't|will not) (?:ever |want to )?(?:afford|risk|have|support|rely|want|{ACT})\b|(?:have|need) to (?:keep|support|stay|use|preserve|avoid|remain|be|stick|respect|follow)\b|are (?:not allowed|only allowed|required|not permitted|stuck))"),
        r"^i (?:do not|don't|dont|never|won't) (?:want|allow|accept|like|permit|tolerate)\b.*\b(?:you|any|to see|anything|new|more|the)\b".to_owned(),
        r"^i(?:'d| would)? (?:need|want|expect|like|prefer) you to (?:only|not|never|always|keep|use|avoid|stay|make sure|preserve|respect|follow|stick)\b".to_owned(),
        r"^i (?:need|want|expect|require) (?:all|every|each|no|zero)\b".to_owned(),
        r"^i(?:'d| would) (?:prefer|rather) (?:that )?(?:you|we) (?:not|never|didn't|don't|only|keep|avoid)\b".to_owned(),
        r"^i (?:forbid|require|insist)\b".to_owned(),
        r"^i (?:only want|want only) (?:to )?(?:change|see|have|you|the|a|one|\w+s)\b".to_owned(),
        r"^let's (?:not|never|keep|stick|avoid|only|stay)\b".to_owned(),
        r"^only (?:\S+ ){1,4}(?:please|and nothing else|from now on)$".to_owned(),
        r"^(?:use|change|edit|touch|modify|run|work on|target|support|read|write|test|import|fix|call|commit)\b.* (?:only|exclusively)$".to_owned(),
        r"^(?:no more than|not more than|at most|at least|max(?:imum)?|no fewer than|no less than) (?:\d+|one|two|three|four|five|ten|a|half)\b".to_owned(),
        format!(r"^(?:just|only) (?:the|in|within|inside|under|{ACT})\b.*\S"),
        format!(r"^(?:{ACT}|work|look|focus|operate)(?: (?:on|in|at|with))? (?:only|exclusively|nothing but|at most|no more than|at least|exactly one)\b"),
        r"^(?:limit|restrict|confine|constrain|cap)\b.+\bto\b".to_owned(),
        r"^(?:stay|remain|work only|work exclusively) (?:in|inside|within|below|under|out of|away|on|with|off|clear|at or)\b".to_owned(),
        r"^(?:keep|leave) (?:(?:the|all|your|our|my|every\w*|each|existing|changes|compat\w*|this|that|any|to|backwards?|public|both|old|\S*/\S*|\S+\.\w+)\b.+|\S+ .*)\b(?:as (?:is|it is|they are|they were|it was)|alone|unchanged|untouched|intact|stable|compatible|compatibility|private|secret|the same|small|minimal|short|simple|green|passing|style|working|low|clean|in sync|sorted|below|under|out of|within|consistent|separate|where it is|readable|at most)\b".to_owned(),
        r"^(?:keep|preserve|maintain|retain|respect|honou?r)\b.*\b(?:compat\w*|api|interfaces?|behaviou?r|style|semantics|format|order|contract|signatures?|licen[cs]e|conventions?|structure|naming|schema|comments)\b".to_owned(),
        r"^(?:keep|stick) (?:to|with)\b".to_owned(),
        r"^adhere to\b|^(?:follow|obey|comply with|conform to|match|respect)\b.*\b(?:style|styles|conventions?|guide|guides|guidelines?|patterns?|naming|standards?|spec|specification|rules|polic(?:y|ies)|pep ?8|semver)\b".to_owned(),
        r"^(?:keep (?:your )?)?hands off\b.+".to_owned(),
        r"^always (?:\w*[^s\W]|\w*ss|focus|canvas) ".to_owned(),
        r"^(?:make sure|make certain|ensure|be sure|be certain|be careful not|take care|see to it|remember|don't forget|do not forget|never forget) (?:that|to|not|\w)".to_owned(),
        r"^(?:try to )?(?:avoid|refrain from|abstain from|steer clear of|stay clear of)\b".to_owned(),
        r"^(?:stop|no more|quit|cease) (?:using|adding|writing|making|committing|changing|touching|editing|creating|putting|removing|deleting|renaming|running|pushing|installing|reformatting)\b".to_owned(),
        format!(r"^(?:always )?(?:ask|check with|consult|consult with|confirm with|notify|tell|warn|talk to|wait for|get|seek|request|run it by|let) {me}\b.*\b(?:before|first|prior to|beforehand)\b"),
        r"^(?:always )?ask (?:me |us )?(?:first|before)\b".to_owned(),
        r"^(?:under no (?:circumstances?|conditions?)|in no (?:case|event)|on no account|at no (?:time|point)|not under any)\b".to_owned(),
        r"^treat .+ as (?:read-?only|immutable|frozen|off.?limits|untouchable|secret|confidential|untrusted)\b".to_owned(),
        r"^(?:and )?nothing (?:else|more)(?: (?:please|than that))?$".to_owned(),
        r"^(?:not|never) (?:in|to|on|outside|without|beyond|the|any)\b".to_owned(),
        NO.to_owned(),
    ]
    .iter()
    .map(|text| expression(text))
    .collect()
});

/// "No new dependencies": without a verb.
const NO: &str = r"^(?:absolutely |strictly |also )?no (?:(?:new|more|other|extra|external|additional|breaking|third[- ]party|drive-by|further|unrelated|unnecessary|global|inline|hard-?coded|magic|raw|direct|manual|network|internet|outside|production|public|api|schema|style|code|cosmetic|runtime|heavy|nested|dynamic|plain[- ]?text|private|real|live|major|big|large|untyped|untested|commented-out|debug|default|wildcard|circular) )*(?:dependenc\w*|deps|packages?|librar\w+|crates?|modules?|changes?|edits?|modifications?|commits?|pushe?s?|pushing|refactor\w*|rewrit\w+|renam\w+|unsafe|panics?|unwraps?|globals?|comments?|emojis?|mocks?|mocking|networks?|access|calls?|requests?|internet|downloads?|uploads?|force[- ]push\w*|side[- ]effects?|numbers?|strings?|abbreviations?|files?|folders?|deletions?|deleting|migrations?|any types?|any|todos?|console\S*|prints?|print statements|logging|secrets?|credentials?|passwords?|tokens?|keys?|shortcuts?|hacks?|frameworks?|recursion|async|macros?|templates?|exceptions?|sudo|root|telemetry|tracking|analytics|cloud|tabs|semicolons?|regress\w+|allocations?|locks?|threads?|sleeps?|warnings|reformatting|formatting|features?|imports?|casts?|copies|data|state|styles?|html|javascript|css|sql|queries|jquery|config|installs?|installing|editing|touching|merging|squashing|rebasing|amending)(?:\W|$)(?:(?:please|at all|in|into|on|to|for|outside|beyond|of|from|with|without|whatsoever|ever|allowed|here|than|via|through|or|nor|and|other|by|unless|until|over|inside|under|yet).*|[\w-]*)?$";

/// Forms in which a requirement is stated of something.
static STATES: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    let np = r"(?:[^\s,]+ ){1,9}?";
    [
        format!(r"^{np}(?:must|mustn't|shall)(?: (?:always|never|only|also|still|not|all|both))* [a-z]"),
        format!(r"^{np}(?:has|have|needs?) to (?:always |never |only |still )?(?:be (?:\w+ly )?(?:in|on|at|under|below|above|within|compatible|valid|unique|sorted|documented|tested|signed|stable|readable|idempotent|deterministic|written|able|encrypted|validated|escaped|thread-?safe|backwards?|reproducible|reviewed|approved|optional|immutable|private|{ACTED})\b|work|stay|run|support|compile|pass|remain|keep|match|follow|fit|handle|conform|comply|go through|use|build|have)\b"),
        format!(r"^{np}(?:should|shouldn't|may|can|cannot|can't|could|will|shall|must|is|are)(?: not| never| only)* (?:ever |to )?be (?:\w+ly )?{ACTED}\b"),
        format!(r"^(?:nothing|nobody|no one|none of|no \w+)\b.*\b(?:may|must|should|shall|can|is to|are to|gets?|leaves?|goes)\b(?: ever)?(?: (?:be )?(?:{ACTED}|{ACT})\b| .*\b(?:without|unless|outside)\b)"),
        r"^.{2,60}\b(?:is|are|remains?|stays?)(?: (?:strictly|absolutely|completely|all|totally|currently|now|still|explicitly))* (?:off[- ]?limits|not to be|forbidden|prohibited|banned|taboo|not allowed|not permitted|disallowed|mandatory|out of (?:scope|bounds)|not negotiable|non-negotiable|untouchable|sacred|a (?:hard )?(?:requirement|must)|a no-?go|not an option|required (?:for|on|in|before|to be)|frozen until|confidential|not up for)\b".to_owned(),
        format!(r"^(?:{ACT}ing|\w+ing) .{{0,60}}\bis (?:forbidden|prohibited|not allowed|banned|not permitted|off.?limits)\b"),
        r"^(?:every|each|all|any|new) .{2,60}\b(?:needs?|requires?|gets?) (?:a|an|its|their|at least|one|two|to (?:have|be|pass|carry|include|contain))\b".to_owned(),
        r"^it(?:'s| is) (?:strictly )?(?:forbidden|prohibited|not allowed|not permitted) to\b".to_owned(),
        format!(r"^(?:tests?|{np}code|changes?|commits?|prs?|everything|all|every|each|any|the) .{{0,60}}\b(?:should|may|can) (?:never|only|always)\b"),
        r"^(?:only )?.{2,60}\bonly (?:after|with|on|upon) (?:my|our|explicit|prior|written|a) .*\b(?:approval|permission|ok|okay|consent|review|confirmation|go-?ahead|request)\b".to_owned(),
        r"^.{2,80}\b(?:not|nothing|never) .*\bwithout (?:my|our|explicit|prior|asking|checking)\b".to_owned(),
    ]
    .iter()
    .map(|text| expression(text))
    .collect()
});

/// They look like directions and bind nobody.
static IDLE: LazyLock<Regex> = LazyLock::new(|| {
    any(&[
        r"^(?:you )?(?:do not|don't|dont|never|do never)(?: (?:you|just|even|really|ever|actually))* (?:worry|bother|hesitate|be (?:afraid|shy|surprised|sorry|too|so|mad|silly)|know|knew|think|get (?:me|it|that|why|how|what|the)|mind|care|understand|see|have|need|recall|like|feel|expect|believe|look (?:like|right|good)|seem|work|works|worked|pass|remember|really|panic|give up|ask me (?:why|how)|blame|laugh|say|happen\w*|fires?|fired|loads?|loaded|mentioned|got|found|saw|seen|had|has|been|was|were|did|tried|again|once|in my|before|called|gets?|ends?|ended|stops?|stopped|returns?|returned|terminat\w+|finish\w*|wrote|used|ran|went|came|made|said|told|heard|asked|thought|could|would|should|a|an|the|this|that|it|is|are|will|i|we|he|she|they|quite|mind)\b",
        r"^(?:you )?never (?:\w+[^e]ed|[a-rt-z]\w*[^s]s)\b",
        r"^you (?:must|can't|cannot|can not|may not|shouldn't|should not)(?: not)? (?:have (?:\w+ed|been|seen|meant|had|made|got\w*|missed)|be (?:kidding|joking|tired|serious|wrong|right|able|aware|surprised)|know|miss it|see|tell|worry|mind|need|have to)\b",
        r"^(?:always|only) (?:the (?:first|last|second|one|same)|happens|fails|works|returns|when|if|a|an|in (?:production|prod|ci|release|debug|chrome|firefox|safari|windows))\b",
        r"^(?:keep|leave) (?:going|it up|up|on|me|in touch|trying|a |an |you)\b",
        r"^remember (?:when|the|how|why|me|last|that (?:time|bug))\b",
        r"^ensure\w*d\b",
        r"^make sure(?: i| that i) (?:understand|got)\b",
        r"^let (?:me|us) (?:know|see|think|check|try|first|just|be|explain|start|begin)\b(?:.*\bif\b|$)",
        r"^we don't (?:have|support|use|want to (?:bother|worry))\b.*\b(?:yet|anymore|any more|any longer|at the moment|currently)\b",
        r"^we (?:don't|do not|only|never|always|cannot|can't) (?:have|had)\b",
        r"^we (?:must|shall) (?:have \w+ed|have been|talk|discuss|meet|look)\b",
        r"^we never (?:\w+ed|got|found|made|had|did|ran|wrote)\b",
        r"^stop the\b",
        r"^get (?:me|the|us)\b.*\bfirst\b",
        r"^let (?:me|us) know first\b",
        r"^tell (?:me|us)(?: \w+)* first (?:which|what|how|why)\b",
        r"^i (?:only want|want only) to (?:know|see|understand|ask|say|check|find)\b",
        r"^let's (?:keep|stay) (?:going|in touch|at it)\b",
        r"^(?:at least|at most|max(?:imum)?|no more than) (?:\w+ )*(?:is|are|was|were|works?|fails?)\b",
        r"^not (?:in|to|on|the|any) (?:the mood|mention|be|sure|best|only|problem|idea|good|one|same|right|case|a)\b",
    ])
});

/// A statement of how things are or must have come about, not of how they are to be.
static REPORTS: LazyLock<Regex> = LazyLock::new(|| {
    any(&[
        r"^\S+ (?:don't|doesn't|do not|does not|needn't) (?:need|have)\b",
        r"^(?:it|this|that|there|something|someone|somebody|the (?:\w+ )?(?:bug|problem|error|issue|cause|reason|fault|crash|failure|culprit|leak|regression)s?) (?:must|shall) (?:be (?:a|an|the|some\w*|due|because|caused|related|coming|in|on|here|there|somewhere|wrong|broken|another|from|why|possible|missing|something|my|our|one|hidden|triggered|that)\b|have|come|happen|exist|lie|do with|originate)",
        r"\bmust have (?:\w+ed|been|gone|got|gotten|come|made|lost|left|broken|run|had|forgotten|put|set)\b",
        r"^i\b",
        r"^(?:he|she|they|it|he|who) (?:can't|cannot|could|can|will|should|may|might)\b",
        r"\b(?:says?|said|claims?|complains?|states?|warns?|reports?|prints?|shows?|tells?|told|mentions?|according|reads|suggests?|thinks?|asks?|asked|seems?|looks like|apparently|somehow|currently|sometimes|keeps?|fails?|crash\w*|whenever|every time|each time)\b.*\b(?:must|should|shall|can|cannot|can't|may|has to|have to|needs? to|forbidden|not allowed|prohibited|required|mandatory)\b",
        r"\b(?:can|cannot|can't|could|will) (?:not )?be (?:read|used|created|accessed|installed|called|changed|opened|updated|removed|deleted|replaced|imported|run|written|moved|merged|logged|dropped|skipped|printed|sent|stored|reset|copied|renamed|applied|added)\b",
        r"^(?:there|here|no (?:problem|idea|need|way|one|error)|thanks|not sure|i think|maybe|perhaps|probably)\b",
        r"\b(?:be|to) fixed\b",
        r"\bmust be (?:\w+ing|fixed|wrong|missing|broken|possible|confused|a (?:bug|mistake|typo|better|way))\b",
        r"^(?:the )?(?:users?|customers?|visitors?|clients?|admins?|players?) (?:can|could|cannot|can't|(?:is|are) not allowed)\b",
    ])
});

/// What follows is said by somebody or something else.
static REPORTED: LazyLock<Regex> = LazyLock::new(|| {
    expression(
        r"\b(?:says?|said|saying|complains?|claims?|states?|warns?|warning|reads|prints?|reports?|shows?|tells (?:me|us)|told (?:me|us)|mentions?|according to|displays?|outputs?|message is|got|getting|reported|raises?|throws?|logs|comment is|comment)$",
    )
});
