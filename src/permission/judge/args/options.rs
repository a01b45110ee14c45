//! Options and what stands behind them, as each program takes its words apart.

use super::Args;
use crate::permission::shell::Word;

/// The options of programs that take a value, as letters and by name, and letters whose value can only be attached.
/// (`sort -k 2 -uo x`: without these it is not certain which word is what.)
const WITH_VALUE: &[(&[&str], &str, &str, &[&str])] = &[
    (
        &["sort"],
        "kotST",
        "",
        &[
            "--key",
            "--output",
            "--field-separator",
            "--buffer-size",
            "--temporary-directory",
            "--batch-size",
            "--compress-program",
            "--files0-from",
            "--parallel",
            "--random-source",
        ],
    ),
    (&["cp", "mv", "ln"], "tS", "", &["--target-directory", "--suffix"]),
    (
        &["install"],
        "tSmog",
        "",
        &["--target-directory", "--suffix", "--mode", "--owner", "--group", "--strip-program"],
    ),
    (&["sed"], "efl", "i", &["--expression", "--file", "--line-length"]),
    (
        &["xargs"],
        "adEILnPs",
        "eil",
        &[
            "--arg-file",
            "--delimiter",
            "--max-args",
            "--max-procs",
            "--max-chars",
            "--process-slot-var",
        ],
    ),
    (
        &["patch"],
        "BdDFgioprVYz",
        "",
        &["--directory", "--input", "--output", "--strip", "--reject-file", "--prefix", "--suffix"],
    ),
    (&["diff"], "FILSUCWXx", "", &["--to-file", "--from-file", "--exclude", "--exclude-from"]),
    (&["truncate"], "sr", "", &["--size", "--reference"]),
    (&["touch"], "drt", "", &["--date", "--reference"]),
    (&["shred"], "ns", "", &["--iterations", "--size", "--random-source"]),
];

/// The words of a command as its program takes them.
struct Given<'a> {
    options: Vec<(&'a str, Option<Word>)>,
    operands: Vec<&'a Word>,
}

impl<'a> Args<'a> {
    /// What stands behind these options: attached, or in the next word, also among letters (`-uo x`) and
    /// shortened (`--out=x`).
    pub(in super::super) fn values_of(&self, options: &[&'static str]) -> Vec<Word> {
        let given = self.given(options).options.into_iter();
        given.filter(|(name, _)| options.contains(name)).filter_map(|(_, value)| value).collect()
    }

    /// One of these options is given, and not as the value of another one.
    pub(in super::super) fn gives(&self, options: &[&str]) -> bool {
        self.given(&[]).options.iter().any(|(name, _)| {
            options
                .iter()
                .any(|option| option.strip_prefix('-') == Some(*name) || is_begun(option, name))
        })
    }

    /// The words that are neither options nor the values of some.
    pub(in super::super) fn own_operands(&self) -> Vec<&'a Word> {
        self.given(&[]).operands
    }

    /// Takes the words apart; these options take a value as well.
    fn given(&self, with_value: &[&'static str]) -> Given<'a> {
        let name = self.run.name();
        let own = WITH_VALUE.iter().find(|(programs, ..)| programs.contains(&name));
        let (letters, attached, long) =
            own.map_or(("", "", &[] as &[&'static str]), |own| (own.1, own.2, own.3));
        let all = || with_value.iter().chain(long).copied();
        let mut given = Given { options: Vec::new(), operands: Vec::new() };
        let mut words = self.words();
        while let Some(word) = words.next() {
            let text = word.text.as_str();
            let value_at = |at: usize| Word { text: text[at..].to_owned(), kind: word.kind };
            if text == "--" {
                break;
            }
            if text.len() < 2 || !text.starts_with('-') {
                given.operands.push(word);
                // What it runs has options of its own.
                if name == "xargs" {
                    break;
                }
            } else if let Some(exact) = all().find(|option| *option == text) {
                given.options.push((exact, words.next().cloned()));
            } else if text.starts_with("--") {
                let end = text.find('=').unwrap_or(text.len());
                let known = all().find(|option| *option == &text[..end]);
                let known = known.or_else(|| all().find(|option| is_begun(option, &text[..end])));
                let value = if end < text.len() {
                    Some(value_at(end + 1))
                } else if known.is_some() {
                    words.next().cloned()
                } else {
                    None
                };
                given.options.push((known.unwrap_or(&text[..end]), value));
            } else {
                for (at, letter) in text.char_indices().skip(1) {
                    let end = at + letter.len_utf8();
                    let is_it = |option: &&&str| option.strip_prefix('-') == Some(&text[at..end]);
                    let asked = with_value.iter().find(is_it).copied();
                    if attached.contains(letter) {
                        given.options.push((&text[at..end], Some(value_at(end))));
                        break;
                    }
                    if asked.is_none() && !letters.contains(letter) {
                        given.options.push((&text[at..end], None));
                        continue;
                    }
                    let value = match &text[end..] {
                        "" => words.next().cloned(),
                        rest => Some(value_at(end + usize::from(rest.starts_with('=')))),
                    };
                    given.options.push((asked.unwrap_or(&text[at..end]), value));
                    break;
                }
            }
        }
        given.operands.extend(words);
        given
    }

    /// What options say to write: `sort -o`, `find -fprint`, `git log --output=`.
    pub(in super::super) fn written_by_option(&self) -> Vec<Word> {
        let options: &[&str] = match self.run.name() {
            "sort" | "patch" => &["-o", "--output"],
            "find" => &["-fprint", "-fprint0", "-fprintf", "-fls"],
            "curl" => &["-o", "--output", "-D", "--dump-header", "-c", "--cookie-jar"],
            "wget" => &["-O", "--output-document", "-o", "--output-file"],
            "gcc" | "g++" | "cc" | "clang" => &["-o"],
            "git" if self.sub_is("archive") => &["-o", "--output"],
            "git" => &["--output"],
            _ => return Vec::new(),
        };
        self.values_of(options)
    }
}

/// An option of a long name, shortened.
fn is_begun(option: &str, given: &str) -> bool {
    given.len() > 2 && option.starts_with("--") && option.starts_with(given)
}
