//! A command line as those see it who rule on it and run it.

use std::cell::RefCell;
use std::sync::{Arc, OnceLock};

use super::filled::Values;
use super::judge::{self, Class, GitFolders, Ground, Own};
use super::shell::{Binding, Pipeline, Run, Runs, Script};

/// Words after which a command is not what its text says, or is only a part of one.
const NOT_SIMPLE: &[&str] =
    &["!", "[[", ".", "builtin", "command", "coproc", "eval", "exec", "source", "time", "trap"];

thread_local! {
    /// The gate, the ruling and the tool read the same line, one after the other.
    static LAST: RefCell<Option<Line>> = const { RefCell::new(None) };
}

/// A command line that was read.
#[derive(Clone, Debug)]
pub struct Line(Arc<Parts>);

#[derive(Debug)]
struct Parts {
    text: String,
    script: Script,
    runs: Runs,
    values: OnceLock<Values>,
}

impl Line {
    /// Reads a line. Never fails: what is not understood is said by the answers. The line that was read last is
    /// not read again.
    pub fn read(command: &str) -> Self {
        LAST.with_borrow_mut(|last| match last {
            Some(line) if line.0.text == command => line.clone(),
            _ => last.insert(Self::part(command)).clone(),
        })
    }

    /// Reads what stands in a line, or was made of one.
    pub(super) fn part(text: &str) -> Self {
        let script = Script::read(text);
        let runs = script.runs();
        Self(Arc::new(Parts { text: text.to_owned(), script, runs, values: OnceLock::new() }))
    }

    /// The stages of the pipeline that the shell ends with, where it is certain which one that is.
    pub fn last_pipeline(&self) -> Option<&[String]> {
        let (last, others) = self.0.script.pipelines.split_last()?;
        let is_last = others.iter().all(|pipeline| pipeline.stages.len() == 1);
        (is_last && self.is_certain()).then_some(&*last.stages)
    }

    /// It is nothing but pipelines of commands that are what their texts say.
    pub(super) fn is_certain(&self) -> bool {
        let is_simple = |text: &String| {
            let first = text.split_ascii_whitespace().next();
            first.is_some_and(|word| !NOT_SIMPLE.contains(&word))
        };
        let is_plain =
            |pipeline: &Pipeline| pipeline.is_simple && pipeline.stages.iter().all(is_simple);
        self.0.script.is_understood
            && self.0.script.is_plain
            && self.0.script.pipelines.iter().all(is_plain)
    }

    pub(super) fn pipelines(&self) -> &[Pipeline] {
        &self.0.script.pipelines
    }

    /// The line is certain to change nothing: it may run beside others.
    pub fn is_read_only(&self) -> bool {
        judge::is_read_only(self)
    }

    /// Where git works, if it is made of git commands known to write the repository's own files, with nothing beside
    /// them that does more than read. Else nowhere.
    pub fn git_works_in(&self, directory: &str, ground: &dyn Ground) -> GitFolders {
        judge::git_works_in(self, directory, ground)
    }

    /// A command of it is a `git push`: the names or addresses of where it sends to, and what the line says of remotes
    /// besides.
    pub fn pushes_to(&self) -> Option<(Vec<String>, Vec<String>)> {
        judge::pushes_to(self)
    }

    /// A command of it talks to other machines, where it runs in this folder, in a sandbox that has this of its own.
    pub(super) fn needs_network(&self, directory: &str, ground: &dyn Ground, own: Own) -> bool {
        judge::has_beyond(self, Class::Network, directory, ground, own)
    }

    /// The files of the project that it takes away or overwrites, as far as they are named: what they are
    /// is to be kept before it runs in this folder.
    pub fn removes(&self, directory: &str, ground: &dyn Ground) -> Vec<String> {
        judge::removes(self, directory, ground)
    }

    /// A command of it that reads standard input although nothing is given to it there.
    pub fn reads_input(&self) -> Option<String> {
        judge::reads_input(self)
    }

    /// A sentence about the tool that would have done a part of it, if there is one.
    pub fn note(&self, directory: &str, ground: &dyn Ground) -> Option<String> {
        judge::notes(self, directory, ground)
    }

    pub(super) fn text(&self) -> &str {
        &self.0.text
    }

    pub(super) fn script(&self) -> &Script {
        &self.0.script
    }

    /// Every command that may run, also through others.
    pub(super) fn runs(&self) -> &[Run] {
        &self.0.runs.all
    }

    /// What it gives to variables.
    pub(super) fn bindings(&self) -> &[Binding] {
        &self.0.runs.bindings
    }

    /// What words may be by that.
    pub(super) fn values(&self) -> &Values {
        self.0.values.get_or_init(|| Values::new(self.bindings()))
    }

    /// The grammar accepts all of it.
    pub(super) fn is_understood(&self) -> bool {
        self.0.script.is_understood
    }

    /// It is too much to read, or a text that it runs is.
    pub(super) fn is_too_long(&self) -> bool {
        self.0.runs.is_too_long
    }

    /// All that may run stands in the runs.
    pub(super) fn is_known(&self) -> bool {
        self.0.runs.is_known
    }

    /// The line is this one pipeline of simple commands and nothing else.
    pub(super) fn only_pipeline(&self) -> Option<&[Run]> {
        let is_alone = self.is_known()
            && self.0.script.is_plain
            && self.0.script.pipelines.len() == 1
            && self.runs().len() == self.0.script.commands.len()
            && self.0.script.commands.len() == self.0.script.pipelines[0].stages.len();
        is_alone.then_some(self.runs())
    }
}

#[cfg(test)]
mod tests {
    use super::super::judge::Nowhere;
    use super::*;

    fn check(line: &str, expected: Option<&[&str]>) {
        let expected = expected.map(|names| names.iter().map(ToString::to_string).collect());
        assert_eq!(Line::read(line).last_pipeline().map(<[String]>::to_vec), expected, "{line}");
    }

    #[test]
    fn a_plain_pipeline_at_the_end_is_named() {
        check("a | b", Some(&["a", "b"]));
        check(
            "a 2>&1 |& b 'x | y' | c \"; $z\" # d | e",
            Some(&["a 2>&1", "b 'x | y'", "c \"; $z\""]),
        );
        check("cd x && a | b;", Some(&["a", "b"]));
        check("cd x\na |\n  b\n", Some(&["a", "b"]));
        check("cd x && a 2>&1 | b > c", Some(&["a 2>&1", "b > c"]));
        check("echo a\\|b &>/dev/null | c >| d", Some(&["echo a\\|b &>/dev/null", "c >| d"]));
        check("find . | xargs -I{} wc {}", Some(&["find .", "xargs -I{} wc {}"]));
        check("a ${x#|} | b", Some(&["a ${x#|}", "b"]));
        check("a $'\\'' | b", Some(&["a $'\\''", "b"]));
        check("a; b", Some(&["b"]));
    }

    #[test]
    fn what_is_not_certain_has_no_name() {
        for line in [
            "a | b; c | d",
            "a | b || exit; c | d",
            "a $(b) | c",
            "a \"$(b)\" | c",
            "a `b` | c",
            "(a | b)",
            "{ a | b; }",
            "for x in 1; do a | b; done",
            "if a | b; then c; fi",
            "f() { a; }; a | b",
            "! a | b",
            "time a | b",
            "cat <<X | b\n|\nX",
            "a | b &",
            "eval x; a | b",
            ". ./env; a | b",
            "[[ a || b ]]",
            "a 'b | c",
            "a | | b",
            "coproc a | b",
            "a | { b; }",
            "",
        ] {
            check(line, None);
        }
    }

    #[test]
    fn the_line_that_was_read_last_is_not_read_again() {
        let line = Line::read("a | b");
        assert!(Arc::ptr_eq(&line.0, &Line::read("a | b").0));
        assert!(!Arc::ptr_eq(&line.0, &Line::read("a | c").0));
        assert_eq!(Line::read("a | c").text(), "a | c");
    }

    #[test]
    fn pipelines_are_told_in_order() {
        let line = Line::read("a | b && c; (d | e); f");
        let pipelines: Vec<String> =
            line.script().pipelines.iter().map(|pipeline| pipeline.stages.join("|")).collect();
        assert_eq!(pipelines, ["a|b", "c", "", "f"]);
    }

    #[test]
    fn what_a_line_needs_is_known() {
        for (line, reads, git, network) in [
            ("git status", true, false, false),
            ("git add a && git commit -m 'b'", false, true, false),
            ("git fetch", false, true, true),
            ("cargo test", false, false, false),
            ("make; curl x", false, false, true),
            ("cat a | sort", true, false, false),
            ("cat a > b", false, false, false),
            ("git add . && make", false, false, false),
            ("git add . > a", false, false, false),
            ("git -c a=b commit -m c", false, false, false),
            ("git -c user.name=a -c user.email=b commit -m c", false, true, false),
            ("git -c Core.AutoCRLF=false -c color.ui=never status", true, false, false),
            ("git -c commit.gpgSign=false commit -m c", false, true, false),
            ("git -c commit.gpgsign=true commit -m c", false, false, false),
            ("git -c commit.gpgsign commit -m c", false, false, false),
            ("git -c user.name=a -c core.editor=b commit -m c", false, false, false),
            ("git -c user.name=a -c alias.x=!b x", false, false, false),
            ("git -c user.name=$a commit -m c", false, false, false),
            ("git -c user.name=\"$a\" commit -m c", false, false, false),
            ("git -c userx.name=a commit -m c", false, false, false),
            ("git -c user.name.x=a commit -m c", false, false, false),
            ("git -C a status", true, false, false),
            ("git -C ../a status", false, false, false),
            ("git -C $a status", false, false, false),
            ("git -C a commit -m c", false, true, false),
            ("git -C . commit -m c", false, true, false),
            ("git -C a -C b add x", false, true, false),
            ("git -C ../a commit -m c", false, false, false),
            ("git -C $a commit -m c", false, false, false),
            ("git -C .git commit -m c", false, false, false),
            ("git -C a/.git commit -m c", false, false, false),
            ("cd .. && git -C a commit -m c", false, false, false),
            ("X=1 git commit -m c", false, false, false),
            ("GIT_AUTHOR_DATE='2020-01-01 00:00' TZ=UTC git commit -m c", false, true, false),
            ("GIT_AUTHOR_DATE=$x git commit -m c", false, false, false),
            ("GIT_EDITOR=true git commit", false, true, false),
            ("GIT_EDITOR=true git rebase --continue", false, true, false),
            ("git -c core.editor=true revert --continue", false, true, false),
            ("git -c sequence.editor=: rebase -i HEAD~2", false, true, false),
            ("GIT_EDITOR=./x git commit", false, false, false),
            ("git -c core.editor commit", false, false, false),
            ("git -c core.editor='true; ./x' commit", false, false, false),
            ("set -e; git add -A; git commit -m c", false, true, false),
            ("set -euo pipefail; git commit -m c", false, true, false),
            ("set -ex -o pipefail; cat a", true, false, false),
            ("set +e; git commit -m c", false, true, false),
            ("set -a; git commit -m c", false, false, false),
            ("set -euk; git commit -m c", false, false, false),
            ("set -o allexport; git commit -m c", false, false, false),
            ("set -e a; git commit -m c", false, false, false),
            ("git remote update", false, true, true),
            ("git remote prune origin", false, true, true),
            ("git remote add -f a b", false, true, true),
            ("git remote add a b", false, true, false),
            ("GIT_DIR=a git commit -m c", false, false, false),
            ("LC_ALL=C sort a", true, false, false),
            ("LC_ALL=./a sort a", false, false, false),
            ("PATH=a LC_ALL=C sort a", false, false, false),
            ("GIT_PAGER=cat git log", true, false, false),
            ("GIT_PAGER=./a git log", false, false, false),
            ("git commit -m \"$(make)\"", false, false, false),
            ("git commit -m \"$x\"", false, true, false),
            ("git commit --templ=a -m c", false, false, false),
            ("git worktree add ../tree", false, true, false),
            ("git worktree add .git/hooks evil", false, false, false),
            ("git worktree add ./.Git/modules/x/hooks evil", false, false, false),
            ("git worktree add $x evil", false, false, false),
            ("cd .git && git worktree add hooks evil", false, false, false),
            ("cd $x && git worktree add hooks evil", false, false, false),
            ("git add .gitignore .github/*", false, true, false),
            ("git commit -m 'ignore .git/hooks of others'", false, true, false),
            ("cd ../x && git worktree add ~-/.git/y", false, false, false),
            ("git config a b", false, false, false),
            ("git $x", false, false, false),
            ("$x commit", false, false, false),
        ] {
            let read = Line::read(line);
            let found = (
                read.is_read_only(),
                !read.git_works_in("", &Nowhere).writes.is_empty(),
                read.needs_network("", &Nowhere, Own::default()),
            );
            assert_eq!(found, (reads, git, network), "{line}");
        }
    }
}
