//! Words that bash accepts and the grammar does not.
//!
//! A text with such a word is read once more, with letters where the grammar stumbles: `{cat,.env}`, which is no group,
//! a pattern of `extglob`, a class in a program's name (`z[a-b]p`), and `<>`. Both readings count, for which is bash's
//! depends on its settings; and it stays a text that is not understood.

/// What stands for what the grammar does not take.
const LETTER: u8 = b'_';
/// A brace is looked for no further than this.
const LONGEST_BRACE: usize = 1024;

/// What the next byte stands in.
#[derive(Clone, Copy, PartialEq, Eq)]
enum In {
    Commands,
    /// `@(…)`
    Pattern,
    /// `"…"`
    Quotes,
}

/// The text, of the same length, as the grammar accepts it; `None` where no such word stands in it.
pub(super) fn mended(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let at = |at: usize| bytes.get(at).copied().unwrap_or(b'\n');
    let mut mended = bytes.to_vec();
    let mut inside = vec![In::Commands];
    let mut n = 0;
    while n < bytes.len() {
        let within = inside.last().copied().unwrap_or(In::Commands);
        let begins_word = n == 0 || is_between(at(n - 1));
        match (at(n), within) {
            (b'\\', _) => n += 1,
            (b'"', In::Quotes) => _ = inside.pop(),
            (b'"', _) => inside.push(In::Quotes),
            (b'$', _) if at(n + 1) == b'(' => {
                inside.push(In::Commands);
                n += 1;
            }
            (_, In::Quotes) => {}
            (b'\'', _) => n += length_to(&bytes[n + 1..], |byte| byte == b'\'') + 1,
            (b'#', In::Commands) if begins_word => {
                n += length_to(&bytes[n..], |byte| byte == b'\n');
            }
            (b'(', _) => {
                let is_pattern = within == In::Pattern
                    || n > 0 && b"@?*+!".contains(&at(n - 1)) && at(n + 1) != b')';
                if is_pattern {
                    mended[n] = LETTER;
                }
                inside.push(if is_pattern { In::Pattern } else { In::Commands });
            }
            (b')', _) => {
                if within == In::Pattern {
                    mended[n] = LETTER;
                }
                if inside.len() > 1 {
                    inside.pop();
                }
            }
            (byte, In::Pattern) if is_between(byte) && byte != b'\n' => mended[n] = LETTER,
            (b'{', In::Commands) if begins_word => {
                if let Some(close) = closing(&bytes[n..bytes.len().min(n + LONGEST_BRACE)]) {
                    (mended[n], mended[n + close]) = (LETTER, LETTER);
                }
            }
            (b'[', In::Commands) if is_pattern_behind_name(bytes, n) => {
                let end = n + length_to(&bytes[n..], is_between);
                let brackets = mended[n..end].iter_mut().filter(|byte| b"[]".contains(byte));
                brackets.for_each(|byte| *byte = LETTER);
            }
            // It opens for both; the words tell what stood there.
            (b'<', In::Commands) if at(n + 1) == b'>' && at(n + 2) != b'(' => {
                (mended[n], mended[n + 1]) = (b'>', b' ');
                n += 1;
            }
            _ => {}
        }
        n += 1;
    }
    String::from_utf8(mended).ok().filter(|mended| mended != text)
}

/// The bracket begins a class in a word that begins with a name, `z[a-b]p`, and no element of an array that is set.
fn is_pattern_behind_name(bytes: &[u8], at: usize) -> bool {
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    let n_name = bytes[..at].iter().rev().take_while(|byte| is_name(byte)).count();
    let begins_word = n_name == at || is_between(bytes[at - n_name - 1]);
    let rest = &bytes[at..at + length_to(&bytes[at..], is_between)];
    let sets = |sign: &[u8]| rest.windows(sign.len()).any(|own| own == sign);
    n_name > 0 && begins_word && rest.contains(&b']') && !sets(b"]=") && !sets(b"]+=")
}

/// The last brace of a word that begins with one, and is more than a brace or two.
fn closing(bytes: &[u8]) -> Option<usize> {
    let (mut quote, mut close) = (None, None);
    for (n, byte) in bytes.iter().copied().enumerate() {
        match (byte, quote) {
            (_, Some(sign)) => quote = quote.filter(|_| byte != sign),
            (b'\'' | b'"', None) => quote = Some(byte),
            (b'}', None) => close = Some(n),
            (_, None) if is_between(byte) => break,
            _ => {}
        }
    }
    close.filter(|close| *close > 1)
}

/// Between two words.
fn is_between(byte: u8) -> bool {
    b" \t\n;&|()<>".contains(&byte)
}

fn length_to(bytes: &[u8], is_end: impl Fn(u8) -> bool) -> usize {
    bytes.iter().position(|byte| is_end(*byte)).unwrap_or(bytes.len())
}
