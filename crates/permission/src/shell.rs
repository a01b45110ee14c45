//! Parses a command line with a grammar of bash into its simple commands, at any nesting depth.
//!
//! An expansion is marked, not evaluated. If the grammar does not accept a line, or parses it
//! differently from bash, the line counts as not understood; its parsed commands are still used.

pub(super) mod directory;
mod script_reader;
mod word;

use std::ops::Range;

pub(super) use word::{Word, WordKind};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "they are independent findings")]
pub(super) struct Script {
    /// In the order of the text, those in substitutions and functions included.
    pub(super) commands: Vec<SimpleCommand>,
    pub(super) functions: Vec<String>,
    /// Only those at the top level; a single command is a pipeline of one stage.
    pub(super) pipelines: Vec<Pipeline>,
    /// The grammar accepts the whole text.
    pub(super) is_fully_parsed: bool,
    /// A limit of the parser was reached.
    pub(super) is_too_long: bool,
    /// A sequence of pipelines of simple commands.
    pub(super) is_plain: bool,
    pub(super) has_substitution: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Pipeline {
    pub(super) stages: Vec<String>,
    /// Each stage is a simple command, and the pipeline is neither negated nor timed.
    pub(super) is_simple: bool,
    /// Bytes of the text; set only if the pipeline is simple.
    pub(super) at: Range<usize>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SimpleCommand {
    /// Without the assignments before them.
    pub(super) words: Vec<Word>,
    /// Before the words, or the whole command.
    pub(super) assignments: Vec<Word>,
    /// Also those of the statements around the command.
    pub(super) redirects: Vec<Redirect>,
    pub(super) reads_pipe: bool,
    pub(super) writes_pipe: bool,
    /// `None`: not known. See [`directory`].
    pub(super) directory: Option<String>,
    /// Bytes of the text.
    pub(super) at: Range<usize>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Redirect {
    pub(super) kind: RedirectKind,
    /// The file, or the text.
    pub(super) target: Word,
    /// The number before the operator.
    pub(super) descriptor: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RedirectKind {
    /// `< file`
    Read,
    /// `> file`, `>> file`, `&> file`, `<> file` and so on.
    Write,
    /// `<<< text`, `<< END`: the target is the text.
    Text,
    /// `2>&1`, `<&3`, `>&-`: no file is opened.
    Copy,
}

impl Script {
    /// Parses a line that starts in the root. Never fails; takes time in proportion to the text.
    pub(super) fn parse(text: &str) -> Self {
        Self::parse_nested(text, Some(String::new()), script_reader::MAX_DEPTH)
    }

    /// Parses a text that another command executes, nested up to `depth` levels.
    pub(super) fn parse_nested(text: &str, directory: Option<String>, depth: usize) -> Self {
        script_reader::parse_script(text, directory, depth)
    }
}

impl Redirect {
    /// False for the harmless devices.
    pub(super) fn writes_file(&self) -> bool {
        let harmless = ["/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty"];
        self.kind == RedirectKind::Write
            && !(self.target.is_literal() && harmless.contains(&self.target.text.as_str()))
    }
}

/// `NAME=value`, `NAME+=value` or `NAME[…]=value`.
pub(super) fn is_assignment(text: &str) -> bool {
    let Some((name, _)) = text.split_once('=') else { return false };
    let name = name.split('[').next().unwrap_or(name).trim_end_matches('+');
    name.starts_with(|char: char| char.is_ascii_alphabetic() || char == '_')
        && name.chars().all(|char| char.is_ascii_alphanumeric() || char == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One text per command, `words·words >file <text`: `?` marks a word that is not literal, `|` a
    /// command that reads from a pipe.
    fn shown(line: &str) -> Vec<String> {
        let word = |word: &Word| {
            let mark = if word.is_literal() { "" } else { "?" };
            format!("{}{mark}", word.text)
        };
        let simple = |simple: &SimpleCommand| {
            let words = simple.assignments.iter().chain(&simple.words).map(word);
            let mut text = words.collect::<Vec<_>>().join("·");
            for redirect in &simple.redirects {
                let sign = match redirect.kind {
                    RedirectKind::Read => "<",
                    RedirectKind::Write => ">",
                    RedirectKind::Text => "<<",
                    RedirectKind::Copy => continue,
                };
                text.push_str(&format!(" {sign}{}", word(&redirect.target)));
            }
            if simple.reads_pipe { format!("|{text}") } else { text }
        };
        Script::parse(line).commands.iter().map(simple).collect()
    }

    fn check(line: &str, expected: &[&str]) {
        assert_eq!(shown(line), expected, "{line}");
        assert!(Script::parse(line).is_fully_parsed, "{line}");
    }

    #[test]
    fn a_line_is_split_into_simple_commands() {
        check("cargo test --lib", &["cargo·test·--lib"]);
        check("a; b && c || d | e |& f\ng;", &["a", "b", "c", "d", "|e", "|f", "g"]);
        check("a |\n b &&\n c # d; e", &["a", "|b", "c"]);
        check("r\"\"m '-r'f \\rm \"a b\"", &["rm·-rf·rm·a b"]);
        check("r\\\nm -rf x \\\n  y", &["rm·-rf·x·y"]);
        check("echo $HOME \"${X}y\" *.rs ~ {} '*' \\*", &["echo·$HOME?·${X}y?·*.rs?·~?·{}·*·*"]);
        check("X=1 a; Y=2", &["X=1·a", "Y=2"]);
        check("a \"x\\n\\\"\" \\\n b", &["a·x\\n\"·b"]);
        check("", &[]);
        check("echo a#b", &["echo·a#b"]);
        check("a & b", &["a", "b"]);
        check("a $'\\x41\\u00e9\\103\\n\\'b' $\"c\"", &["a·AéC\n'b·c"]);
        check("rm a{b,c}d x{,.bak}", &["rm·abd·acd·x·x.bak"]);
        check("a {1..3}", &["a·{1..3}?"]);
    }

    #[test]
    fn nested_commands_are_found() {
        check("a $(b \"$(c)\") `d`", &["a·$(b \"$(c)\")?·`d`?", "b·$(c)?", "c", "d"]);
        check("echo `rm \\`x\\``", &["echo·`rm \\`x\\``?", "rm·`x`?", "x"]);
        check("(a; b) | { c; }", &["a", "b", "|c"]);
        check("if a; then b; elif c; then d; else e; fi", &["a", "b", "c", "d", "e"]);
        check("for x in $(a); do b; done", &["a", "b"]);
        check("while read x; do b \"$x\"; done < f", &["read·x <f", "b·$x? <f"]);
        check("f() { a; }; f", &["a", "f"]);
        check("diff <(a) <(b)", &["diff·<(a)?·<(b)?", "a", "b"]);
        check("X=$(a) b; Y=$(c)", &["X=$(a)?·b", "a", "Y=$(c)?", "c"]);
        check("! a && [[ -f $(b) ]]; ! c | d", &["a", "[[", "b", "c", "|d"]);
        check("echo $((1 + x)) ${x:-$(b)}", &["echo·$((1 + x))?·${x:-$(b)}?", "b"]);
        check("for x in 1 2; do a $((x + 1)) ${y[x]}; done", &["a·$((x + 1))?·${y[x]}?"]);
        check(
            "for x in $(a); do [[ -f $x ]] && [ \"$x\" -gt 1 ] && b \"${x%.*}\" \"${#x}\"; done",
            &["a", "[[", "[", "b·${x%.*}?·${#x}?"],
        );
        check("declare x=$(a); export y=1", &["declare·x=$(a)?", "a", "export·y=1"]);
    }

    #[test]
    fn redirections_are_parsed() {
        check("a 2>&1 >/dev/null 2> x <in", &["a >/dev/null >x <in"]);
        check("a <<<\"text\" b", &["a·b <<text"]);
        check("a >out 2>>err &>both >|over b", &["a·b >out >err >both >over"]);
        check("a >& file 1>&2 >&-", &["a >file"]);
        check("> out", &[" >out"]);
        check("2>&- a b", &["a·b"]);
        check("> out >more a b", &["a·b >out >more"]);
        check("a <in >out b >>more c", &["a·b·c <in >out >more"]);
        check("{ a; b; } > x 2>&1", &["a >x", "b >x"]);
        check("cat <<EOF | sh\na $(b)\nEOF\nc", &["cat <<a $(b)\n?", "b", "|sh", "c"]);
        check("cat > new <<'EOF'\n$(rm x)\nEOF\nb", &["cat >new <<$(rm x)\n", "b"]);
        check("a <<X >f && b\nx\nX\nc", &["a <<x\n >f", "b", "c"]);
        check("a && b | c 2>x | d >y; e", &["a", "b", "|c >x", "|d >y", "e"]);
        check("a && b > x", &["a", "b >x"]);
        check("a | b | c && d | e >x", &["a", "|b", "|c", "d", "|e >x"]);
        check("a | b | c >x && d || e | f 2>y", &["a", "|b", "|c >x", "d", "e", "|f >y"]);
        check("a && b <<X\nt\nX\n", &["a", "b <<t\n"]);
        check("while a; do b; done <<< x", &["a <<x", "b <<x"]);
        check("if a; then b; fi <<< \"$x\"", &["a <<$x?", "b <<$x?"]);
        check("a -F - <<'X'\nt\nX", &["a·-F·- <<t\n"]);
        check("bash <<-X\n\ta\n\tX\n", &["bash <<a\n"]);
        check("bash <<X\n  a \\\n  b\nX\nc", &["bash <<a   b\n", "c"]);
        check("a <<'X' \\\n  | b\nx\\\nX\nc", &["a <<x\\\n", "|b", "c"]);
        check("a $(b <<\"X Y\"\nX\nX Y\n) c", &["a·$(b <<\"X Y\"\nX\nX Y\n)?·c", "b <<X\n"]);
    }

    #[test]
    fn syntax_errors_are_not_understood() {
        for line in [
            "a 'b",
            "a \"b",
            "if a; then",
            "a )",
            "a; ; b",
            "((a) ; b)",
            "a#b",
            "a <in <<<b",
            "cat <<$(x)\ny\n$(x)",
            "echo a\\\n#b; rm -rf c",
            "*x=1",
            "! { a; }",
            "time { a; }",
            "time -p if a; then b; fi",
            "cat <<X\n`a`\nX\n",
            "a &&\\ b",
            "a |\\ b",
            "x=1 \\ ",
        ] {
            assert!(!Script::parse(line).is_fully_parsed, "{line}: {:?}", shown(line));
        }
    }

    #[test]
    fn cd_is_tracked() {
        for (line, expected) in [
            ("a", Some("")),
            ("cd b && a", Some("b")),
            ("cd b; a", Some("b")),
            ("cd / && a", Some("/")),
            ("cd && a", Some("~")),
            ("cd b/c && cd .. && a", Some("b")),
            ("(cd b && c); a", Some("")),
            ("cd \"$x\" && a", None),
            ("cd - && a", None),
            ("cd ~/x && a", Some("~/x")),
            ("cd ~+/x && a", Some("x")),
            ("if x; then cd b; fi; a", None),
            ("command cd b && a", Some("b")),
            ("cd b | c; a", Some("")),
            ("cd b && c 2>&1 | d && a", Some("b")),
        ] {
            let script = Script::parse(line);
            let last = script.commands.last().expect(line);
            assert_eq!(last.directory.as_deref(), expected, "{line}");
        }
    }

    #[test]
    fn deep_nesting_is_parsed() {
        for (open, close) in [
            ("(", ")"),
            ("$(", ")"),
            ("{ ", "; }"),
            ("\"$(", ")\""),
            ("if ", "; then a; fi"),
            ("${a:-", "}"),
            ("a <(", ")"),
            ("`", "`"),
            ("{a,", "}"),
            ("a && ", ""),
            ("! ", ""),
            ("eval ", ""),
            ("case a in b) ", ";; esac"),
            ("((", "))"),
            ("f() { ", "; }"),
            ("cat <<X | ", ""),
        ] {
            for n in [3, 99, 10_000] {
                let line = format!("{}a{}", open.repeat(n), close.repeat(n));
                Script::parse(&line);
            }
        }
    }
}
