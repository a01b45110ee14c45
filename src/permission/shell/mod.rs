//! A command line, read with a grammar of bash: every simple command in it, wherever it stands.
//!
//! What is known only when it runs is marked so and never guessed to be harmless; what the grammar does
//! not accept makes the whole line one that is not understood.

mod place;
mod read;
mod runs;
mod sed;
mod word;

use std::ops::Range;

pub(super) use place::{Back, Dir, Folders, Way, join, path_of};
pub(super) use runs::{
    Binding, By, Input, Run, Runs, SHELLS, Sets, is_assignment, is_harmless_setting,
};
pub(super) use sed::Effects;
pub(super) use word::{Kind, Word, alternatives};

/// A text that bash runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Script {
    /// Its simple commands in the order of the text, those in substitutions and functions included.
    pub(super) commands: Vec<Simple>,
    /// The texts of the stages of every pipeline that stands in no other command; a command alone is a
    /// pipeline of one.
    pub(super) pipelines: Vec<Pipeline>,
    /// The variables of its `for` loops, and the words that they stand for.
    pub(super) loops: Vec<Binding>,
    /// The names of the functions it defines.
    pub(super) functions: Vec<String>,
    /// The grammar accepts all of it.
    pub(super) is_understood: bool,
    /// It, or a text in it, was not read to its end.
    pub(super) is_too_long: bool,
    /// It is nothing but pipelines of simple commands, one after the other.
    pub(super) is_plain: bool,
    pub(super) values: Values,
}

/// What a text has to do with the values of variables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Values {
    /// It evaluates variables that others may have set.
    pub(super) are_evaluated: bool,
    /// It gives variables texts that could run a command where they are evaluated.
    pub(super) can_be_commands: bool,
}

/// The stages of a pipeline.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Pipeline {
    /// The text of each.
    pub(super) stages: Vec<String>,
    /// Each is a simple command, and the pipeline's status is not turned round or timed.
    pub(super) is_simple: bool,
    /// Its place in the text, where it is one of simple commands.
    pub(super) at: Range<usize>,
}

/// A simple command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Simple {
    /// Its words, without the assignments before them.
    pub(super) words: Vec<Word>,
    /// The assignments before its words, or those that it is made of.
    pub(super) assignments: Vec<Word>,
    /// Where its input comes from and its output goes, those of the commands around it included.
    pub(super) redirects: Vec<Redirect>,
    /// It reads what another command writes.
    pub(super) reads_pipe: bool,
    /// Another command reads what it writes.
    pub(super) writes_pipe: bool,
    /// In so many substitutions it stands.
    pub(super) nesting: usize,
    /// Where it may run, seen from where the line runs.
    pub(super) directories: Folders,
    /// Its place in the text.
    pub(super) at: Range<usize>,
}

/// A redirection of a simple command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Redirect {
    pub(super) how: How,
    /// The file, or the text.
    pub(super) target: Word,
    /// The number before it, where there is one.
    pub(super) descriptor: Option<u32>,
}

/// How a redirection redirects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
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
    /// Reads a text; never fails, and takes time in proportion to the text.
    pub(super) fn read(text: &str) -> Self {
        read::read(text)
    }

    /// Every command that may be run.
    pub(super) fn runs(&self) -> Runs {
        runs::runs(self)
    }

    /// Takes over what another text runs, in so many substitutions of this one.
    fn take_over(&mut self, other: Self, nesting: usize) {
        self.is_understood &=
            other.is_understood && !(other.values.are_evaluated && self.values.can_be_commands);
        self.is_too_long |= other.is_too_long;
        self.values.are_evaluated |= other.values.are_evaluated;
        self.values.can_be_commands |= other.values.can_be_commands;
        let commands = other.commands.into_iter();
        let deeper = commands.map(|command| {
            let nesting = nesting + command.nesting;
            Simple { nesting, ..command }
        });
        self.commands.extend(deeper);
        self.functions.extend(other.functions);
        self.loops.extend(other.loops);
    }
}

impl Redirect {
    /// A file that is written, and is none of those that take everything.
    pub(super) fn writes(&self) -> Option<&Word> {
        let harmless = ["/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty"];
        let is_file = self.how == How::Write
            && !(self.target.is_literal() && harmless.contains(&self.target.text.as_str()));
        is_file.then_some(&self.target)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `words·words >file <text`, one text a command; `?` stands behind a word that is not literal, `|`
    /// before a command that reads a pipe.
    fn shown(line: &str) -> Vec<String> {
        let word = |word: &Word| {
            let mark = if word.is_literal() { "" } else { "?" };
            format!("{}{mark}", word.text)
        };
        let simple = |simple: &Simple| {
            let words = simple.assignments.iter().chain(&simple.words).map(word);
            let mut text = words.collect::<Vec<_>>().join("·");
            for redirect in &simple.redirects {
                let sign = match redirect.how {
                    How::Read => "<",
                    How::Write => ">",
                    How::Text => "<<",
                    How::Copy => continue,
                };
                text.push_str(&format!(" {sign}{}", word(&redirect.target)));
            }
            if simple.reads_pipe { format!("|{text}") } else { text }
        };
        Script::read(line).commands.iter().map(simple).collect()
    }

    fn check(line: &str, expected: &[&str]) {
        assert_eq!(shown(line), expected, "{line}");
        assert!(Script::read(line).is_understood, "{line}");
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
    fn commands_are_found_wherever_they_stand() {
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
    fn redirections_are_seen() {
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
    fn what_the_grammar_does_not_accept_is_not_understood() {
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
            assert!(!Script::read(line).is_understood, "{line}: {:?}", shown(line));
        }
    }

    #[test]
    fn what_bash_reads_once_more_is_not_understood() {
        for line in [
            "a ${x:-`b`}",
            "a \"${x#`b`}\"",
            "a ${x:-${y:-`b`}}",
            "a \"${x:-'$(b)'}\"",
            "a ${x:-<(b)}",
            "a <<X\n${x:-`b`}\nX",
            "a ${x[$'\\x24(b)']}",
            "a $(('x[$(b)]'))",
            "a $((1 + $(b)))",
            "a ${x:$(b)}",
            "a ${x@P}",
            "[[ 'x[$(b)]' -eq 0 ]]",
            "[[ $(b) -gt 0 ]]",
            "test -v 'x[$(b)]'",
            "\\[ -\"v\" 'x[$(b)]' ]",
            "(( 'x[$(b)]' ))",
            "for ((i = $(b); i < 1; i++)); do a; done",
            "for x in 'y[$(b)]'; do a $((x)); done",
            "for x in *; do a ${!x}; done",
            "for x in '-v y[$(b)]'; do test $x; done",
            "while read x; do a $((x)); done",
            "a ${x='y[$(b)]'} $((x))",
            // The shell itself gives values.
            "b 'x[$(c)]'; a $((_))",
            "b 'x[$(c)]'; a ${y:_}",
            "b 'x[$(c)]'; a ${!_}",
            "b 'x[$(c)]'; a ${y[_]}",
            "b 'x[$(c)]'; a $[_]",
            "b 'x[$(c)]'; test -v \"$_\"",
            "b 'x[$(c)]'; test </dev/null -v \"$_\"",
            "</dev/null test -v 'x[$(b)]'",
            "time test -v 'x[$(b)]'",
            "[[ 'x[$(b)]' =~ .* ]]; a $((BASH_REMATCH))",
            "a $((${BASH_EXECUTION_STRING##*%})) #%x[$(b)]",
            "cd 'x[$(b)]'; cd ..; a $((${OLDPWD##*/}))",
            "set -- 'x[$(b)]'; a $(($1))",
            "f() { a $((${1})); }; f 'x[$(b)]'",
            "let 'x[$(b)]=1'",
            "for x in 'y[$(b)]'; do let x; done",
            "for x in -vy; do printf $x 'z[$(b)]'; a $((y)); done",
            // However the builtin is written.
            "\\read x; a $((x))",
            "\"read\" x; a $((x))",
            "builtin read x; a $((x))",
            "command -p read x; a $((x))",
            "$'\\x72ead' x; a $((x))",
            "IFS= read -r x; a $((x))",
            "read -rax; a $((x))",
            "read <f x; a $((x))",
            "read \"$y\"; a $((x))",
            "printf -v x %s 'y[$(b)]'; a $((x))",
            "a {x['$(b)']}</dev/null",
            "a {x['$(b)']}\\\n</dev/null",
            // One variable can be the name of another.
            "for x in 'z[$(b)]'; do for y in x; do a $((y)); done; done",
            "for x in 'z[$(b)]'; do y=$x; a $((y)); done",
            "for root in 'z[$(b)]'; do a $((USER)); done",
            "for xy in 'z[$(b)]'; do a $((x${u:-y})); done",
            "for x8 in 'z[$(b)]'; do a $((x$(nproc))); done",
            // What looks like a number and is none.
            "a $(($(date +'x[$(b)]')))",
            "a $(($(wc -l 'x[$(b)]')))",
            "a $(($(echo 'x[$(b)]'; c | wc -l)))",
            "a $(($(wc -l 2>&1 <'x[$(b)]')))",
            "wc() { echo 'x[$(b)]'; }; a $(($(wc -l)))",
            "for i in $(seq -f 'x[$(b)]' 2); do a $((i)); done",
            "read -r n; for i in $(seq $n); do a $((i)); done",
            "declare -A x; x['y[$(b)]']=1; for i in \"${!x[@]}\"; do a $((i)); done",
            "a ${x#\\\\$(b)`c`}",
            "a \"${x:-\\`b\\``c`}\"",
        ] {
            assert!(!Script::read(line).is_understood, "{line}: {:?}", shown(line));
        }
    }

    #[test]
    fn what_builtins_evaluate_is_not_understood() {
        for line in [
            "y='x[$(b)]'; a $((y))",
            "y='x[$(b)]'; a \"${z:y}\" ${!y}",
            "x[0]=\"y[\\$(b)]\"; [[ x -eq 1 ]]",
            // What a variable that has a kind is given.
            "declare -i x='y[$(b)]'",
            "typeset -xi x='y[$(b)]'",
            "f() { local -i x='y[$(b)]'; }; f",
            "builtin declare -i x='y[$(b)]'",
            "declare -\"i\" x='y[$(b)]'",
            "declare -i x=$(b)",
            "declare -i x; x='y[$(b)]'",
            "declare -i x; x+='y[$(b)]'",
            "declare -i x; export x='y[$(b)]'",
            "declare -i x; read x",
            "d'ec'lare -i x; read x",
            "declare -i x; for x in 'y[$(b)]'; do a; done",
            "declare -i x; a ${x:='y[$(b)]'}",
            "export y='z[$(b)]'; declare -i x=y",
            "declare -ia x=('y[$(b)]')",
            "for x in 'y[$(b)]'; do declare -i z=$x; done",
            "declare -n x='y[$(b)]'; a $x",
            "declare -n x; for x in 'y[$(b)]'; do a $x; done",
            "f() { local -n x=$1; x=1; }; f 'y[$(b)]'",
            "for RANDOM in 'y[$(b)]'; do a; done",
            "export RANDOM='y[$(b)]'",
            "read OPTIND",
            "export PS4='$(b)'; set -x; a",
            // The text of an array is one more.
            "declare -a x='([$(b)]=1)'",
            "declare -A x='($(b))'",
            "readonly -a x=\"$(b)\"",
            "declare -a x; declare x='($(b))'",
            "mapfile x; declare x=\"$(b)\"",
            "declare -a x=(['y[$(b)]']=1)",
            "export $(b)",
            // Names.
            "declare 'x[$(b)]=1'",
            "declare >f 'x[$(b)]=1'",
            "unset 'x[$(b)]'",
            "command unset 'x[$(b)]'",
            "read 'x[$(b)]'",
            "read <f 'x[$(b)]'",
            "printf -v 'x[$(b)]' 1",
            "printf '-vx[$(b)]' 1",
            "wait -n -p 'x[$(b)]'",
            "read $(b)",
            "for x in 'y[$(b)]'; do unset \"$x\"; done",
            "f() { printf -v \"$1\" 1; }; f 'y[$(b)]'",
            "f() { a $(($2)); }; mapfile -C f -c 1 x",
            // What may be an operator of `test`.
            "test $(b)",
            "[ $(b) ]",
            "[ $(b) = x ]",
            "[ \"$(b)\" 'x[$(c)]' ]",
            "[ \"$(b)\" \"$(c)\" ]",
            "[ ! \"$(b)\" \"$(c)\" ]",
            "[ -n \"$(b)\" -a \"$(c)\" \"$(d)\" ]",
            "[ $x 'y[$(b)]' ]",
            "for x in -v; do [ \"$x\" \"$y\" ]; done",
            // What a function is called with.
            "f() { a $(($1)); }; for x in 'y[$(b)]'; do f $x; done",
            "f() { a $(($1)); }; for x in 'y[$(b)]'; do f x; done",
            "f() { a $(($1)); }; f \"$(b)\"",
            "f() { a $((${!#})); }; f 'y[$(b)]'",
            "f() { for x; do a $((x)); done; }; f 'y[$(b)]'",
            "f() { local x=${1:-5}; a $((x)); }; \"f\" 'y[$(b)]'",
            "f() { \"$@\"; }; g() { a $(($1)); }; f g 'y[$(b)]'",
            "f() { a $(($1)); }; x=f; $x 'y[$(b)]'",
            "f() { a $(($1)); }; export -f f; b",
            "f() { a $(($1)); }; trap \"f 'y[\\$(b)]'\" EXIT",
            "command_not_found_handle() { a $(($2)); }; b 'y[$(c)]'",
            "eval 'read x'; a $((x))",
            "source f; a $((x))",
            // Which program a name stands for.
            "for PATH in f; do a; done",
            "for HOME in f; do git status; done",
            "read -r LD_PRELOAD",
            "for stat in 1; do stat() { b; }; a $(($(stat -c %s f))); done",
            "a $(($(stat -c %n f)))",
            "a $(($(grep -c x f g)))",
            "a $(($(grep -rc x .)))",
            "a $(($(grep -c x *)))",
        ] {
            assert!(!Script::read(line).is_understood, "{line}: {:?}", shown(line));
        }
    }

    #[test]
    fn numbers_and_patterns_are_understood() {
        for line in [
            "make -j$(($(nproc)+1))",
            "echo $(($(date +%s)-start))",
            "start=$(date +%s); make; echo $(($(date +%s) - start))",
            "[[ $(git status --porcelain | wc -l) -gt 0 ]]",
            "[[ $(wc -l < a.txt) -gt 0 ]]",
            "for c in $(git log --format=%h); do echo \"${c:0:7}\"; done",
            "for c in *.md; do echo \"${c: -3}\"; done",
            "for i in \"${!files[@]}\"; do git add \"${files[$i]}\"; done",
            "for i in $(seq 5); do sleep $((i*2)); done",
            "for i in {1..3}; do echo $((i+1)); done",
            "while read -r l; do n=$((n+1)); done < f",
            "echo \"${v#\\$}\" \"${v//\\`/}\"",
            "[[ $x =~ v(.*) ]] && echo \"${BASH_REMATCH[1]}\"",
            "cd \"$(dirname \"${BASH_SOURCE[0]}\")\"",
            "a | b; echo ${PIPESTATUS[0]}",
            "echo $((RANDOM % 6)) ${files[@]}>new.txt",
            "echo {a,b}>new.txt",
            "let n=n+1",
            "re='^[0-9]+$'; n=$(a); [[ $x =~ $re ]] && echo $((n+N))",
            "echo \"$i ${files[0]}\" \"$i $((i+1))\"",
            // Functions that are called with numbers, or names that nothing is given.
            "add() { echo $(($1 + $2)); }; add 1 2",
            "f() { local n=$1; echo $((n+1)); }; f 4",
            "f() { local n=${1:-5}; while (( n > 0 )); do n=$((n-1)); done; }; f",
            "f() { for x in \"$@\"; do echo $((x*2)); done; }; f 1 $((2+3)) $(nproc)",
            "retry() { local n=$1; shift; for ((i=0;i<n;i++)); do \"$@\" && break; done; }; retry 3 make",
            "max() { (( $1 > $2 )) && echo $1; }; max \"$x\" 3",
            "set -euo pipefail; n=10; for ((i=0;i<n;i++)); do echo $i; done",
            // More that writes numbers.
            "for f in *.txt; do n=$(wc -l < \"$f\"); sum=$((sum+n)); done",
            "for f in *.txt; do echo $(($(stat -c %s \"$f\") / 1024)); done",
            "echo $(($(date +%s) - $(stat -c %Y a.txt)))",
            "echo $(( ($(date +%s) - $(git log -1 --format=%ct)) / 86400 ))",
            "(( $(grep -c '^ok$' build.log 2>/dev/null) > 3 ))",
            // Operands of `test` that can be nothing else.
            "[ \"$(git status --porcelain)\" = '' ]",
            "[ -n \"$(a)\" -a \"$(b)\" != \"$(c)\" ]",
            "[ $(git rev-parse HEAD) = abc ] && [ $(id -u) -eq 0 ]",
            "[ $(grep -c x a.txt) -gt 0 ] || [ $(ls | wc -l) -eq 0 ]",
            "[ x = '$5' ] && test \"$(b)\"",
            // Declarations without an index, a kind or what comes from elsewhere.
            "local re='^[0-9]+$'; [[ $x =~ $re ]]",
            "declare -i n=5; n=$((n*2)); declare -a all=(a \"$x\"); local -r y=\"$(b)\"",
            "export PATH=\"$HOME/bin:$PATH\" X=$(b)",
            "unset x \"all[$i]\"; wait $! $(jobs -p)",
            "for p in $(a); do wait \"$p\"; done",
            "read -r -d '' x <<'X'\n$1[0]\nX",
            "printf '%s\\n' \"$(a)\" \"$x\"",
            "trap 'kill $PID' EXIT; for i in a b; do echo $((n+1)); done",
            "while read -r l; do printf '%s\\n' \"$l\"; n=$((n+1)); done < f",
        ] {
            assert!(Script::read(line).is_understood, "{line}: {:?}", shown(line));
        }
    }

    fn check_runs(line: &str, expected: &[&str]) {
        let runs = Script::read(line).runs();
        let texts = runs.all.iter().map(|run| {
            run.words.iter().map(|word| word.text.as_str()).collect::<Vec<_>>().join(" ")
        });
        assert_eq!(texts.collect::<Vec<_>>(), expected, "{line}");
    }

    #[test]
    fn what_a_wrapper_runs_is_seen() {
        check_runs("/bin/rm x", &["rm x"]);
        check_runs("env X=1 rm x", &["env X=1 rm x", "rm x"]);
        check_runs("env -S 'rm x' y", &["env -S rm x y", "env rm x y", "rm x y"]);
        check_runs("env -u A -- rm x", &["env -u A -- rm x", "rm x"]);
        check_runs(
            "timeout -k 5 10s nice -n 5 rm x",
            &["timeout -k 5 10s nice -n 5 rm x", "nice -n 5 rm x", "rm x"],
        );
        check_runs("ls | xargs -n 1 -I{} rm {}", &["ls", "xargs -n 1 -I{} rm {}", "rm {}"]);
        check_runs("xargs -0 rm", &["xargs -0 rm", "rm {}"]);
        check_runs("bash -lc 'a; b | c'", &["bash -lc a; b | c", "a", "b", "c"]);
        check_runs("bash -euo pipefail -c a", &["bash -euo pipefail -c a", "a"]);
        check_runs("bash <<< 'rm x'", &["bash", "rm x"]);
        check_runs("sh <<'E'\nrm x\nE", &["sh", "rm x"]);
        check_runs(
            "find . -exec rm {} + -exec a ';'",
            &["find . -exec rm {} + -exec a ;", "rm {}", "a"],
        );
        check_runs("command -v sudo", &["command -v sudo"]);
        check_runs("eval 'a' \"b; c\"", &["eval a b; c", "a b", "c"]);
        check_runs("trap 'rm x' EXIT", &["trap rm x EXIT", "rm x"]);
        check_runs("git bisect run rm x", &["git bisect run rm x", "rm x"]);
        check_runs("git rebase -x 'rm x' main", &["git rebase -x rm x main", "rm x"]);
    }

    #[test]
    fn folders_are_followed_through_cd() {
        let dirs = |line: &str| {
            let script = Script::read(line);
            let last = script.commands.last().expect(line).directories.clone();
            last.here.iter().map(|dir| dir.as_deref().unwrap_or("?").to_owned()).collect::<Vec<_>>()
        };
        for (line, expected) in [
            ("a", &[""] as &[&str]),
            ("cd b && a", &["b"]),
            ("cd b; a", &["", "b"]),
            ("cd / && a", &["/"]),
            ("cd && a", &["~"]),
            ("cd b/c && cd .. && a", &["b"]),
            ("(cd b && c); a", &[""]),
            ("cd \"$x\" && a", &["?"]),
            ("cd - && a", &["?"]),
            ("cd b && cd c && cd - && a", &["b"]),
            ("cd b && cd ~-/c && a", &["c"]),
            ("cd b && cd \"$OLDPWD\" && cd ~- && a", &["b"]),
            ("cd b && cd ~+/c && a", &["b/c"]),
            ("cd ~/x && a", &["~/x"]),
            ("cd b || a", &["", "b"]),
            ("if x; then cd b; fi; a", &["", "b"]),
            ("command cd b && a", &["b"]),
            ("cd b | c; a", &[""]),
            ("cd b && c 2>&1 | d && a", &["b"]),
            ("c | d | e && cd b && a", &["b"]),
            ("c | d | e || cd b && a", &["", "b"]),
        ] {
            assert_eq!(dirs(line), expected, "{line}");
        }
    }

    #[test]
    fn nesting_of_any_depth_is_read() {
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
                Script::read(&line).runs();
            }
        }
    }
}
