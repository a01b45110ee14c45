//! Index terms of texts: words, and pairs of characters in scripts without spaces.

use std::fmt::Write as _;

const MAX_TERMS: usize = 400;

/// The terms of a text, separated by spaces: its words in lower case, and each pair of neighbouring
/// Chinese, Japanese or Korean characters. A word with signs inside is split at them.
pub fn index_terms(text: &str) -> String {
    let mut terms = String::with_capacity(text.len());
    let mut n = 0;
    for run in text.split(|c: char| !c.is_alphanumeric()).filter(|run| !run.is_empty()) {
        for word in split_by_script(run) {
            if n >= MAX_TERMS {
                return terms;
            }
            let chars: Vec<char> = word.chars().take(MAX_TERMS - n + 1).collect();
            if chars.len() == 1 || !is_unspaced_script(chars[0]) {
                _ = write!(terms, "{} ", word.to_lowercase());
                n += 1;
            } else {
                chars.windows(2).for_each(|pair| _ = write!(terms, "{}{} ", pair[0], pair[1]));
                n += chars.len() - 1;
            }
        }
    }
    terms
}

/// Each part is entirely of a script without spaces, or contains none of it.
fn split_by_script(run: &str) -> impl Iterator<Item = &str> {
    let mut rest = run;
    std::iter::from_fn(move || {
        let first = is_unspaced_script(rest.chars().next()?);
        let end = rest.find(|c| is_unspaced_script(c) != first).unwrap_or(rest.len());
        let (piece, left) = rest.split_at(end);
        rest = left;
        Some(piece)
    })
}

fn is_unspaced_script(c: char) -> bool {
    matches!(c, '\u{2e80}'..='\u{9fff}' | '\u{ac00}'..='\u{d7af}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_are_words_and_cjk_bigrams() {
        assert_eq!(index_terms("Run `make fmt-check`!"), "run make fmt check ");
        assert_eq!(index_terms("读取文件data.csv"), "读取 取文 文件 data csv ");
        assert_eq!(index_terms("改 a"), "改 a ");
        assert_eq!(index_terms(" \n"), "");
        for long in ["改".repeat(2000), "改 ".repeat(2000), "改a".repeat(2000)] {
            assert_eq!(index_terms(&long).split_whitespace().count(), MAX_TERMS);
        }
    }
}
