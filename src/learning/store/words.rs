//! The words of a text, as the index holds them: English, Chinese, identifiers, paths and error codes.
//!
//! - An identifier, a path or a code is one word as a whole, and each of its parts is one: `parseConfig_v2` gives
//!   `parseconfig_v2`, `parseconfig`, `parse`, `config`, `v2`; `E0308` stays whole; `python3` is `python` as well.
//! - Chinese, Japanese and Korean have no spaces: each pair of neighbouring characters is a word.
//! - English endings go (`tests`, `testing`, `tested` are `test`), and so do words that say nothing (`the`, `的`).
//!
//! No word holds white space or `"`, and none begins with `@`.

/// A longer word is a hash or a piece of data: nobody looks for it.
const MAX_WORD: usize = 64;

/// English words that say nothing of a text's subject. What denies is not among them: `near` counts it.
const EMPTY: &[&str] = &[
    "a",
    "about",
    "after",
    "again",
    "all",
    "also",
    "although",
    "an",
    "and",
    "any",
    "are",
    "as",
    "at",
    "be",
    "because",
    "been",
    "before",
    "being",
    "but",
    "by",
    "can",
    "could",
    "did",
    "do",
    "does",
    "doing",
    "each",
    "either",
    "else",
    "even",
    "every",
    "for",
    "from",
    "get",
    "gets",
    "got",
    "had",
    "has",
    "have",
    "here",
    "how",
    "however",
    "i",
    "if",
    "in",
    "into",
    "is",
    "it",
    "its",
    "just",
    "let",
    "like",
    "many",
    "may",
    "me",
    "might",
    "more",
    "most",
    "much",
    "must",
    "my",
    "need",
    "needs",
    "now",
    "of",
    "off",
    "on",
    "once",
    "one",
    "only",
    "or",
    "other",
    "our",
    "out",
    "own",
    "please",
    "same",
    "shall",
    "she",
    "should",
    "since",
    "so",
    "some",
    "something",
    "still",
    "such",
    "than",
    "that",
    "the",
    "their",
    "them",
    "then",
    "there",
    "these",
    "they",
    "this",
    "those",
    "though",
    "through",
    "to",
    "too",
    "two",
    "under",
    "until",
    "up",
    "upon",
    "us",
    "very",
    "via",
    "want",
    "was",
    "we",
    "were",
    "what",
    "when",
    "where",
    "whether",
    "which",
    "while",
    "who",
    "why",
    "will",
    "with",
    "would",
    "yet",
    "you",
    "your",
];

/// Chinese characters that say nothing either: a pair with one of them is no word.
const EMPTY_SIGNS: &[char] =
    &['的', '了', '吗', '呢', '吧', '我', '你', '它', '这', '那', '请', '把', '很', '也', '就'];

/// The words of a text in their order, each as often as it stands there.
pub fn of(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut name = String::new();
    let mut signs = Vec::new();
    for c in text.chars() {
        if is_sign(c) {
            add_name(&name, &mut words);
            name.clear();
            signs.push(c);
            continue;
        }
        add_signs(&signs, &mut words);
        signs.clear();
        if c.is_alphanumeric() || is_joint(c) {
            name.push(c);
        } else if !matches!(c, '\'' | '’') {
            add_name(&name, &mut words);
            name.clear();
        }
    }
    add_signs(&signs, &mut words);
    add_name(&name, &mut words);
    words
}

/// The word has parts that are words themselves.
pub fn is_compound(word: &str) -> bool {
    word.contains(is_joint)
}

/// The word is a pair of signs of a script without spaces: as often as not it is no word of its language.
pub fn is_pair(word: &str) -> bool {
    word.chars().next().is_some_and(is_sign)
}

/// A character of a script that puts no spaces between words.
fn is_sign(c: char) -> bool {
    matches!(c,
        '\u{2E80}'..='\u{2FDF}' | '\u{3005}'..='\u{3007}' | '\u{3040}'..='\u{30FF}' | '\u{3400}'..='\u{4DBF}'
        | '\u{4E00}'..='\u{9FFF}' | '\u{AC00}'..='\u{D7AF}' | '\u{F900}'..='\u{FAFF}' | '\u{20000}'..='\u{3FFFF}')
}

/// A character that joins the parts of an identifier, a path or a flag.
fn is_joint(c: char) -> bool {
    matches!(c, '_' | '-' | '.' | '/' | '\\' | ':' | '@' | '#' | '+' | '~')
}

fn add_signs(signs: &[char], words: &mut Vec<String>) {
    match signs {
        [] => {}
        [one] if EMPTY_SIGNS.contains(one) => {}
        [one] => words.push(one.to_string()),
        _ => {
            let pairs = signs.windows(2);
            let telling = pairs.filter(|pair| !pair.iter().any(|sign| EMPTY_SIGNS.contains(sign)));
            words.extend(telling.map(|pair| pair.iter().collect::<String>()));
        }
    }
}

fn add_name(name: &str, words: &mut Vec<String>) {
    let name = name.trim_matches(is_joint);
    let parts: Vec<&str> = name.split(is_joint).filter(|part| !part.is_empty()).collect();
    if parts.len() > 1 && name.len() <= MAX_WORD {
        words.push(name.to_lowercase());
    }
    for part in parts {
        add_part(part, words);
    }
}

fn add_part(part: &str, words: &mut Vec<String>) {
    let is_number = part.bytes().all(|byte| byte.is_ascii_digit());
    // One and two digits stand everywhere; long numbers are times and sizes.
    if part.len() > MAX_WORD || (is_number && !(3..=6).contains(&part.len())) {
        return;
    }
    let whole = part.to_lowercase();
    if EMPTY.contains(&whole.as_str()) {
        return;
    }
    words.push(stem(&whole));
    let humps = humps(part);
    if humps.len() > 1 {
        words.extend(
            humps.iter().filter(|hump| hump.len() > 1).map(|hump| stem(&hump.to_lowercase())),
        );
    }
    let letters = whole.trim_end_matches(|c: char| c.is_ascii_digit());
    if letters.len() < whole.len() && letters.len() >= 3 && humps.len() == 1 {
        words.push(stem(letters));
    }
}

/// The parts of `camelCase` and `HTTPServer`.
fn humps(part: &str) -> Vec<&str> {
    let chars: Vec<(usize, char)> = part.char_indices().collect();
    let mut humps = Vec::new();
    let mut start = 0;
    for (i, window) in chars.windows(2).enumerate() {
        let [(_, before), (at, here)] = window else { continue };
        let next_is_small = chars.get(i + 2).is_some_and(|(_, next)| next.is_lowercase());
        let is_hump = here.is_uppercase()
            && (before.is_lowercase() || (before.is_uppercase() && next_is_small));
        if is_hump {
            humps.push(&part[start..*at]);
            start = *at;
        }
    }
    humps.push(&part[start..]);
    humps
}

/// The word without an English ending.
pub fn stem(word: &str) -> String {
    if word.len() <= 3 || !word.bytes().all(|byte| byte.is_ascii_lowercase()) {
        return word.to_owned();
    }
    let mut stem = without_plural(word);
    for ending in ["ing", "ed"] {
        if let Some(rest) = stem.strip_suffix(ending)
            && rest.len() >= 3
            && rest.contains(['a', 'e', 'i', 'o', 'u', 'y'])
        {
            stem = rest.to_owned();
            let [.., before, last] = stem.as_bytes() else { break };
            if before == last && !matches!(last, b'l' | b's' | b'z' | b'e' | b'o') {
                stem.pop();
            }
            break;
        }
    }
    if stem.len() > 3 && stem.ends_with('e') {
        stem.pop();
    }
    stem
}

fn without_plural(word: &str) -> String {
    if let Some(rest) = word.strip_suffix("ies").filter(|rest| rest.len() > 1) {
        return format!("{rest}y");
    }
    if let Some(rest) = word.strip_suffix("es").filter(|rest| {
        rest.ends_with(['x', 'z', 's']) || rest.ends_with("ch") || rest.ends_with("sh")
    }) {
        return rest.to_owned();
    }
    match word.strip_suffix('s') {
        Some(rest) if !rest.ends_with(['s', 'u', 'i']) => rest.to_owned(),
        Some(_) | None => word.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        assert_eq!(of(text).join(" "), expected, "{text}");
    }

    #[test]
    fn an_identifier_is_found_whole_and_by_its_parts() {
        check("parse_config", "parse_config pars config");
        check("parseConfig", "parseconfig pars config");
        check("HTTPServer", "httpserver http server");
        check("--no-cache", "no-cache no cach");
        check("src/main.rs:12", "src/main.rs:12 src main rs");
        check("std::fs::read", "std::fs::read std fs read");
        check("error[E0308]", "error e0308");
        check("python3 -m pytest", "python3 python m pytest");
        check("exit 127 at 1763757600123", "exit 127");
    }

    #[test]
    fn english_endings_make_no_difference() {
        for word in ["test", "tests", "testing", "tested"] {
            check(word, "test");
        }
        for (word, other) in [
            ("running", "run"),
            ("failing", "failed"),
            ("compile", "compiling"),
            ("boxes", "box"),
            ("queries", "query"),
            ("files", "file"),
        ] {
            assert_eq!(of(word), of(other), "{word} {other}");
        }
        check("don't", "dont");
        check("status string class", "status string class");
    }

    #[test]
    fn chinese_is_pairs_of_characters() {
        check("运行测试", "运行 行测 测试");
        check("先运行 npm install 再测", "先运 运行 npm install 再测");
        check("错", "错");
        check("テスト", "テス スト");
    }

    #[test]
    fn no_word_can_be_taken_for_a_mark() {
        for word in of("@project \"quoted\" @@ #tag \u{a0}x\u{3000}y") {
            assert!(!word.starts_with('@') && !word.contains(['"', ' ']), "{word}");
        }
    }
}
