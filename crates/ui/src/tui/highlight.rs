//! Syntax highlighting, line by line: comments, strings, numbers, keywords and names, without a
//! grammar. Needs no loading and accepts incomplete code, so that it works while code is streamed.

use ratatui::text::Span;

use super::theme::{StyleRole, Theme};

#[derive(Clone, Copy, Debug)]
pub(super) struct Language {
    line_comments: &'static [&'static str],
    block_comment: Option<(&'static str, &'static str)>,
    quotes: &'static [&'static str],
    /// Separated by blanks.
    keywords: &'static str,
    /// A diff marks lines by their first character.
    is_diff: bool,
}

/// A construct that continues on the next line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum OpenConstruct {
    #[default]
    Nothing,
    Comment,
    /// The text ends the string.
    String(&'static str),
}

const C_LIKE: &str = "auto bool boolean break case catch char class const constexpr continue \
    default delete do double else enum explicit extends extern final finally float for friend \
    goto if implements import include inline int interface long namespace new null nullptr \
    operator override package private protected public return short signed sizeof static struct \
    super switch template this throw throws try typedef typename union unsigned using var \
    virtual void volatile while true false fun val when object data sealed record";
const RUST: &str = "as async await break const continue crate dyn else enum extern false fn for \
    if impl in let loop match mod move mut pub ref return self Self static struct super trait \
    true type unsafe use where while";
const SCRIPT: &str = "any as async await boolean break case catch class const continue debugger \
    default delete do else enum export extends false finally for from function if implements \
    import in instanceof interface let new null number of private protected public readonly \
    return static string super switch this throw true try type typeof undefined var void while \
    yield";
const PYTHON: &str = "False None True and as assert async await break class continue def del \
    elif else except finally for from global if import in is lambda match nonlocal not or pass \
    raise return self try while with yield";
const GO: &str = "break case chan const continue default defer else fallthrough false for func \
    go goto if import interface map nil package range return select struct switch true type var \
    error string int bool byte";
const SHELL: &str = "case do done echo elif else esac exit export fi for function if in local \
    return set source then until while cd";
const RUBY: &str = "begin break case class def do else elsif end ensure false for if in module \
    next nil not or and require rescue return self super then true unless until when while \
    yield local function";
const SQL: &str = "SELECT FROM WHERE INSERT INTO VALUES UPDATE SET DELETE CREATE TABLE INDEX \
    DROP ALTER JOIN LEFT RIGHT INNER ON AND OR NOT NULL ORDER BY GROUP HAVING LIMIT AS DISTINCT \
    UNION PRIMARY KEY REFERENCES DEFAULT CASE WHEN THEN ELSE END IN IS LIKE EXISTS BEGIN COMMIT";
const DATA: &str = "true false null yes no";

const C_COMMENTS: (&[&str], Option<(&str, &str)>) = (&["//"], Some(("/*", "*/")));
const QUOTES: &[&str] = &["\"", "'"];

impl Language {
    /// `name`: of a code fence, or a file extension.
    pub(super) fn from_name(name: &str) -> Option<Self> {
        let name = name.rsplit('.').next().unwrap_or(name).to_lowercase();
        let ((line_comments, block_comment), quotes, keywords): ((&[&str], _), &[&str], _) =
            match name.as_str() {
                "rust" | "rs" => (C_COMMENTS, &["\""], RUST),
                "js" | "jsx" | "ts" | "tsx" | "javascript" | "typescript" | "mjs" | "cjs"
                | "vue" | "svelte" => (C_COMMENTS, &["`", "\"", "'"], SCRIPT),
                "py" | "python" | "pyi" => ((&["#"], None), &["\"\"\"", "'''", "\"", "'"], PYTHON),
                "go" => (C_COMMENTS, &["`", "\""], GO),
                "c" | "h" | "cpp" | "cc" | "hpp" | "cxx" | "java" | "kt" | "kotlin" | "cs"
                | "csharp" | "swift" | "scala" | "dart" | "php" | "zig" | "m" | "proto" => {
                    (C_COMMENTS, QUOTES, C_LIKE)
                }
                "sh" | "bash" | "zsh" | "shell" | "console" | "fish" | "dockerfile"
                | "makefile" | "make" | "just" | "justfile" => ((&["#"], None), QUOTES, SHELL),
                "rb" | "ruby" | "ex" | "exs" | "elixir" | "jl" | "perl" | "pl" => {
                    ((&["#"], None), QUOTES, RUBY)
                }
                "lua" => ((&["--"], Some(("--[[", "]]"))), QUOTES, RUBY),
                "sql" => ((&["--"], Some(("/*", "*/"))), QUOTES, SQL),
                "toml" | "yaml" | "yml" | "ini" | "conf" | "env" | "properties" => {
                    ((&["#", ";"], None), QUOTES, DATA)
                }
                "json" | "jsonc" | "json5" => (C_COMMENTS, &["\""], DATA),
                "html" | "xml" | "svg" => ((&[], Some(("<!--", "-->"))), QUOTES, ""),
                "css" | "scss" | "less" => ((&[], Some(("/*", "*/"))), QUOTES, ""),
                "diff" | "patch" => ((&[], None), &[][..], ""),
                _ => return None,
            };
        let is_diff = matches!(name.as_str(), "diff" | "patch");
        Some(Self { line_comments, block_comment, quotes, keywords, is_diff })
    }

    /// The construct continues on the next line.
    pub(super) fn highlight_line(
        self,
        line: &str,
        open: OpenConstruct,
        theme: Theme,
    ) -> (Vec<Span<'static>>, OpenConstruct) {
        if self.is_diff {
            let span = Span::styled(line.to_owned(), theme.style(diff_line_role(line)));
            return (vec![span], OpenConstruct::Nothing);
        }
        let mut spans: Vec<Span<'static>> = Vec::new();
        let mut put = |text: &str, role: StyleRole| {
            if !text.is_empty() {
                spans.push(Span::styled(text.to_owned(), theme.style(role)));
            }
        };
        let mut rest = line;
        let mut open = open;
        loop {
            match open {
                OpenConstruct::Nothing => {}
                OpenConstruct::Comment => {
                    let end = self.block_comment.map_or("", |(_, end)| end);
                    let Some(at) = rest.find(end) else {
                        put(rest, StyleRole::Comment);
                        return (spans, open);
                    };
                    put(&rest[..at + end.len()], StyleRole::Comment);
                    rest = &rest[at + end.len()..];
                    open = OpenConstruct::Nothing;
                }
                OpenConstruct::String(quote) => {
                    let Some(at) = end_of_string(rest, quote) else {
                        put(rest, StyleRole::String);
                        // Only these may span lines.
                        let continues = quote.len() == 3 || quote == "`";
                        return (spans, if continues { open } else { OpenConstruct::Nothing });
                    };
                    put(&rest[..at], StyleRole::String);
                    rest = &rest[at..];
                    open = OpenConstruct::Nothing;
                }
            }
            let Some(first) = rest.chars().next() else { return (spans, open) };
            if let Some((start, _)) =
                self.block_comment.filter(|(start, _)| rest.starts_with(start))
            {
                put(start, StyleRole::Comment);
                rest = &rest[start.len()..];
                open = OpenConstruct::Comment;
            } else if self.line_comments.iter().any(|mark| rest.starts_with(mark)) {
                put(rest, StyleRole::Comment);
                return (spans, OpenConstruct::Nothing);
            } else if let Some(quote) = self.quotes.iter().find(|quote| rest.starts_with(**quote)) {
                put(quote, StyleRole::String);
                rest = &rest[quote.len()..];
                open = OpenConstruct::String(quote);
            } else if first.is_alphanumeric() || first == '_' {
                let end =
                    rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
                let (word, after) = rest.split_at(end);
                let role = if self.keywords.split(' ').any(|keyword| keyword == word) {
                    StyleRole::Keyword
                } else if first.is_ascii_digit() {
                    StyleRole::Number
                } else if after.starts_with('(') || after.starts_with("!(") {
                    StyleRole::Name
                } else {
                    StyleRole::Text
                };
                put(word, role);
                rest = after;
            } else {
                let end = rest[first.len_utf8()..]
                    .find(|c: char| c.is_alphanumeric() || "_\"'`/#-<;".contains(c))
                    .map_or(rest.len(), |at| at + first.len_utf8());
                put(&rest[..end], StyleRole::Text);
                rest = &rest[end..];
            }
        }
    }
}

fn diff_line_role(line: &str) -> StyleRole {
    // The names of the files, before the lines.
    if line.starts_with("+++ ") || line.starts_with("--- ") {
        return StyleRole::Strong;
    }
    match line.chars().next() {
        Some('+') => StyleRole::Added,
        Some('-') => StyleRole::Removed,
        Some(' ') | None => StyleRole::Text,
        Some(_) => StyleRole::Quiet,
    }
}

/// `None` if the string does not end in this text.
fn end_of_string(text: &str, quote: &str) -> Option<usize> {
    let mut from = 0;
    loop {
        let at = from + text[from..].find(quote)?;
        let escapes = text[..at].bytes().rev().take_while(|byte| *byte == b'\\').count();
        if escapes % 2 == 0 {
            return Some(at + quote.len());
        }
        from = at + quote.len();
    }
}

#[cfg(test)]
mod tests {
    use super::super::theme::{Background, ColorDepth};
    use super::*;

    /// The coloured parts of the line, each after a letter for its colour.
    fn check(language: &str, lines: &str, expected: &str) {
        let theme = Theme::new(ColorDepth::True, Background::Dark);
        let parts = [
            (StyleRole::Keyword, 'k'),
            (StyleRole::String, 's'),
            (StyleRole::Comment, 'c'),
            (StyleRole::Number, 'n'),
            (StyleRole::Name, 'f'),
        ];
        let language = Language::from_name(language).expect("a language");
        let mut open = OpenConstruct::Nothing;
        let mut shown = Vec::new();
        for line in lines.lines() {
            let (spans, next) = language.highlight_line(line, open, theme);
            open = next;
            let text: String = spans.iter().map(|span| &*span.content).collect();
            assert_eq!(text, line);
            for span in spans {
                let letter = parts.iter().find(|(part, _)| theme.style(*part) == span.style);
                if let Some((_, letter)) = letter {
                    shown.push(format!("{letter}:{}", span.content));
                }
            }
        }
        assert_eq!(shown.join(" "), expected);
    }

    #[test]
    fn code_is_highlighted() {
        check("rust", "let x = 3; // three", "k:let n:3 c:// three");
        check("rs", "/* a\nb */ fn f() {}", "c:/* c: a c:b */ k:fn f:f");
        check("py", "x = '''a\nb''' # c", "s:''' s:a s:b''' c:# c");
        check("js", r#"f("a\"b", 'c')"#, r#"f:f s:" s:a\"b" s:' s:c'"#);
        check("rust", "&'a str", "");
        check("sh", "echo \"x\" # y", "k:echo s:\" s:x\" c:# y");
        assert!(Language::from_name("brainfog").is_none());
    }

    #[test]
    fn diff_is_highlighted() {
        let theme = Theme::new(ColorDepth::True, Background::Dark);
        let diff = Language::from_name("diff").expect("a language");
        for (line, part) in [
            ("--- a/x.rs", StyleRole::Strong),
            ("+++ b/x.rs", StyleRole::Strong),
            ("@@ -1,2 +1,2 @@", StyleRole::Quiet),
            (" the same", StyleRole::Text),
            ("-old \"text\"", StyleRole::Removed),
            ("+new", StyleRole::Added),
            ("", StyleRole::Text),
        ] {
            let (spans, open) = diff.highlight_line(line, OpenConstruct::Nothing, theme);
            assert_eq!(spans, [Span::styled(line.to_owned(), theme.style(part))], "{line}");
            assert_eq!(open, OpenConstruct::Nothing);
        }
    }
}
