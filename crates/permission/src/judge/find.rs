//! The expression of a `find`: which paths its deletions may reach (POSIX `find`; the manual of GNU
//! findutils).

use globset::{GlobBuilder, GlobMatcher};

use crate::shell::Word;

const TRUE_PREDICATES: &[&str] = &[
    "-depth",
    "-d",
    "-mount",
    "-xdev",
    "-daystart",
    "-follow",
    "-noleaf",
    "-print",
    "-print0",
    "-prune",
    "-quit",
    "-ls",
    "-true",
];
/// Tests and actions whose result is not known or does not restrict what is found.
const UNKNOWN_WITH_ARGUMENT: &[&str] = &[
    "-amin",
    "-anewer",
    "-atime",
    "-cmin",
    "-cnewer",
    "-context",
    "-ctime",
    "-fls",
    "-fprint",
    "-fprint0",
    "-fstype",
    "-gid",
    "-group",
    "-ilname",
    "-inum",
    "-ipath",
    "-iregex",
    "-iwholename",
    "-links",
    "-lname",
    "-maxdepth",
    "-mindepth",
    "-mmin",
    "-mtime",
    "-path",
    "-perm",
    "-printf",
    "-regex",
    "-regextype",
    "-samefile",
    "-size",
    "-uid",
    "-used",
    "-user",
    "-wholename",
    "-xtype",
];
const UNKNOWN_PREDICATES: &[&str] =
    &["-nouser", "-nogroup", "-readable", "-writable", "-executable"];
const DELETING_PROGRAMS: &[&str] = &["rm", "/bin/rm", "shred", "unlink"];

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Tristate {
    No,
    Maybe,
    Yes,
}

#[derive(Debug)]
pub(super) enum FindExpression {
    All(Vec<FindExpression>),
    Any(Vec<FindExpression>),
    Not(Box<FindExpression>),
    Name(GlobMatcher),
    /// `true`: only directories; `false`: only other files.
    Directory(bool),
    Empty,
    Always,
    Unknown,
    Deletes,
}

impl FindExpression {
    /// Parses the words after the start paths. `None`: the expression is not understood.
    pub(super) fn parse(words: &[Word]) -> Option<Self> {
        let mut words = words.iter().peekable();
        let parsed = parse_any(&mut words)?;
        words.next().is_none().then_some(parsed)
    }

    /// Whether a path with this name may be deleted, if it is not empty.
    pub(super) fn may_delete(&self, name: &str, is_directory: bool) -> bool {
        let mut is_reached = false;
        self.evaluate(name, is_directory, &mut is_reached);
        is_reached
    }

    fn evaluate(&self, name: &str, is_directory: bool, is_reached: &mut bool) -> Tristate {
        let mut visit = |part: &Self| part.evaluate(name, is_directory, is_reached);
        let truth = |is_so| if is_so { Tristate::Yes } else { Tristate::No };
        match self {
            Self::All(parts) => {
                let mut all = Tristate::Yes;
                for part in parts {
                    all = all.min(visit(part));
                    if all == Tristate::No {
                        break;
                    }
                }
                all
            }
            Self::Any(parts) => {
                let mut any = Tristate::No;
                for part in parts {
                    any = any.max(visit(part));
                    if any == Tristate::Yes {
                        break;
                    }
                }
                any
            }
            Self::Not(part) => match visit(part) {
                Tristate::No => Tristate::Yes,
                Tristate::Maybe => Tristate::Maybe,
                Tristate::Yes => Tristate::No,
            },
            Self::Name(glob) => truth(glob.is_match(name)),
            Self::Directory(wanted) => truth(*wanted == is_directory),
            Self::Empty => Tristate::No,
            Self::Always => Tristate::Yes,
            Self::Unknown => Tristate::Maybe,
            Self::Deletes => {
                *is_reached = true;
                Tristate::Yes
            }
        }
    }
}

type WordIter<'a> = std::iter::Peekable<std::slice::Iter<'a, Word>>;

fn parse_any(words: &mut WordIter<'_>) -> Option<FindExpression> {
    let mut parts = vec![parse_all(words)?];
    while words.next_if(|word| matches!(word.text.as_str(), "-o" | "-or")).is_some() {
        parts.push(parse_all(words)?);
    }
    Some(FindExpression::Any(parts))
}

fn parse_all(words: &mut WordIter<'_>) -> Option<FindExpression> {
    let mut parts = Vec::new();
    while let Some(word) = words.peek() {
        match word.text.as_str() {
            "-o" | "-or" | ")" => break,
            "-a" | "-and" => _ = words.next(),
            _ => parts.push(parse_not(words)?),
        }
    }
    Some(FindExpression::All(parts))
}

fn parse_not(words: &mut WordIter<'_>) -> Option<FindExpression> {
    if words.next_if(|word| matches!(word.text.as_str(), "!" | "-not")).is_some() {
        return Some(FindExpression::Not(Box::new(parse_not(words)?)));
    }
    parse_primary(words)
}

fn parse_primary(words: &mut WordIter<'_>) -> Option<FindExpression> {
    let word = words.next()?.literal_text()?;
    Some(match word {
        "(" => {
            let inner = parse_any(words)?;
            words.next_if(|word| word.text == ")")?;
            inner
        }
        "-delete" => FindExpression::Deletes,
        "-empty" => FindExpression::Empty,
        "-false" => FindExpression::Not(Box::new(FindExpression::Always)),
        "-name" | "-iname" => {
            match words.next()?.literal_text().and_then(|glob| compile_name(glob, word == "-iname"))
            {
                Some(glob) => FindExpression::Name(glob),
                None => FindExpression::Unknown,
            }
        }
        "-type" => match words.next()?.literal_text() {
            Some("d") => FindExpression::Directory(true),
            Some("f") => FindExpression::Directory(false),
            _ => FindExpression::Unknown,
        },
        "-exec" | "-execdir" | "-ok" | "-okdir" => {
            let deletes = DELETING_PROGRAMS.contains(&words.peek()?.text.as_str());
            words.find(|word| matches!(word.text.as_str(), ";" | "+"))?;
            if deletes { FindExpression::Deletes } else { FindExpression::Unknown }
        }
        "-fprintf" => {
            words.nth(1)?;
            FindExpression::Always
        }
        _ if TRUE_PREDICATES.contains(&word) => FindExpression::Always,
        _ if UNKNOWN_PREDICATES.contains(&word) => FindExpression::Unknown,
        _ if UNKNOWN_WITH_ARGUMENT.contains(&word) || word.starts_with("-newer") => {
            words.next()?;
            FindExpression::Unknown
        }
        // Whether an argument follows an unknown word is not known.
        _ => return None,
    })
}

/// A pattern of `fnmatch(3)`; `None` for one with brackets, which globs treat differently.
fn compile_name(pattern: &str, ignores_case: bool) -> Option<GlobMatcher> {
    if pattern.contains('[') {
        return None;
    }
    let pattern = pattern.replace('{', "[{]").replace('}', "[}]");
    let glob =
        GlobBuilder::new(&pattern).backslash_escape(true).case_insensitive(ignores_case).build();
    Some(glob.ok()?.compile_matcher())
}

pub(super) fn deletes(arguments: &[Word]) -> bool {
    let is_exec = |word: &Word| matches!(word.text.as_str(), "-exec" | "-execdir");
    let deletes = |word: &Word| DELETING_PROGRAMS.contains(&word.text.as_str());
    arguments.iter().any(|word| word.text == "-delete")
        || arguments.windows(2).any(|pair| is_exec(&pair[0]) && deletes(&pair[1]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(expression: &str, deleted: &[&str], kept: &[&str]) {
        let words: Vec<Word> = expression.split(' ').map(Word::literal).collect();
        let parsed = FindExpression::parse(&words).unwrap_or_else(|| panic!("{expression}"));
        let is_reached = |path: &&&str| {
            let name = path.trim_end_matches('/');
            parsed.may_delete(name, name != **path)
        };
        assert_eq!(deleted.iter().find(|path| !is_reached(path)), None, "{expression}");
        assert_eq!(kept.iter().find(is_reached), None, "{expression}");
    }

    #[test]
    fn expression_decides_what_may_be_deleted() {
        check("-name *.db -delete", &["a.db", "b.db/"], &["a", "adb"]);
        check("-iname *.DB -type f -delete", &["a.db"], &["b.db/", "a"]);
        check("-type d -name tmp -exec rm -rf {} +", &["tmp/"], &["tmp", "a/"]);
        check("( -name a -o -name b ) -delete", &["a", "b"], &["c"]);
        check("-name a -o -type f -delete", &["b"], &["a", "b/"]);
        check("-path ./x -prune -o -name *.py -print -delete", &["a.py"], &["a"]);
        check("! -name conf -exec rm {} ;", &["a"], &["conf"]);
        check("-mtime +7 -delete", &["a"], &[]);
        check("-name a -exec grep -q x {} ; -delete", &["a"], &["b"]);
        check("-type d -empty -delete", &[], &["a", "a/"]);
        check("-name a{b -delete -o -false -delete", &["a{b"], &["ab", "c"]);
        check("-name a -print", &[], &["a"]);
        check("-name [[:digit:]]* -delete", &["1"], &[]);
    }

    #[test]
    fn expression_that_is_not_understood_is_none() {
        for expression in [
            "( -name a -delete",
            "-name a ) -delete",
            "-name",
            "x -delete",
            "-exec rm {}",
            "-unheard-of -delete",
        ] {
            let words: Vec<Word> = expression.split(' ').map(Word::literal).collect();
            assert!(FindExpression::parse(&words).is_none(), "{expression}");
        }
    }
}
