//! From a text to its simple commands, by the tree that the grammar makes of it.

use std::borrow::Cow;
use std::cell::RefCell;
use std::ops::{ControlFlow, Range};

use tree_sitter::{Node, ParseOptions, Parser, Tree};

use super::place::Folders;
use super::runs;
use super::word::{self, Kind, Word};
use super::{Binding, Pipeline, Redirect, Script, Simple};

mod evaluated;
mod mended;
mod pipelines;
mod redirects;

/// Longer than what bash takes as one argument.
const LONGEST: usize = 128 * 1024;
/// How deep commands in commands are followed.
const DEPTH: usize = 100;
/// How often the parser may ask whether to go on: a measure of its work that is no clock. Some 40 KB of dense script; a
/// here-document in quotes is one step, however long it is.
const MOST_WORK: usize = 500;
/// How many backquotes of a here-document are looked at.
const MOST_BACKQUOTES: usize = 100;
/// How many redirections of one command are looked at.
const MOST_REDIRECTS: usize = 32;

/// Words that begin or end what is no simple command.
const RESERVED: &[&str] = &[
    "!", "{", "}", "(", ")", "if", "then", "elif", "else", "fi", "for", "while", "until", "do",
    "done", "case", "esac", "select", "function", "coproc", "time",
];

thread_local! {
    /// Its tables are large; it keeps nothing of a text.
    static PARSER: RefCell<Option<Parser>> = RefCell::new(new_parser());
}

fn new_parser() -> Option<Parser> {
    let mut parser = Parser::new();
    parser.set_language(&tree_sitter_bash::LANGUAGE.into()).ok()?;
    Some(parser)
}

/// Reads a line: it is run at the root, and is given no arguments.
pub(super) fn read(text: &str) -> Script {
    Reading { depth: DEPTH, gets_arguments: false, is_mended: false }.of(text, Folders::root())
}

/// Reads a text that is run in these folders, so deep in others.
pub(super) fn read_at(text: &str, directories: Folders, depth: usize) -> Script {
    Reading { depth, gets_arguments: true, is_mended: false }.of(text, directories)
}

/// How a text is read.
struct Reading {
    /// So deep may commands stand in commands.
    depth: usize,
    gets_arguments: bool,
    /// It stands in one that is read once more, with letters where the grammar stumbles: so it is read in that way alone.
    is_mended: bool,
}

impl Reading {
    fn of(&self, text: &str, directories: Folders) -> Script {
        let too_long = Script { is_too_long: true, ..Script::default() };
        if text.len() > LONGEST {
            return too_long;
        }
        // A zero byte ends what bash gets.
        if text.contains('\0') {
            return Script::default();
        }
        let text = &*ended(text);
        let Some(tree) = parse(text) else { return too_long };
        let root = tree.root_node();
        if !root.has_error() {
            let evaluation = evaluated::evaluation(root, text, self.gets_arguments);
            // The grammar begins a comment in the middle of a word that is broken over two lines.
            let is_understood = !text.contains("\\\n#")
                && redirects::ends_as_in_bash(root, text)
                && !evaluation.hides_commands;
            let mut script = self.by_tree(root, text, directories);
            script.is_understood &= is_understood;
            script.values.are_evaluated |= evaluation.evaluates;
            script.values.can_be_commands |= evaluation.gives_text;
            return script;
        }
        let mended = mended::mended(text);
        let mut script = Script::default();
        if mended.is_none() || !self.is_mended {
            script = self.by_tree(root, text, directories.clone());
        }
        if let Some(mended) = mended {
            let Some(tree) = parse(&mended) else { return too_long };
            let once_more = Self { is_mended: true, ..*self };
            script.take_over(once_more.by_tree(tree.root_node(), text, directories), 0);
        }
        script.is_understood = false;
        script
    }

    /// What the tree, which may be that of another text of this length, makes of a text.
    fn by_tree(&self, root: Node<'_>, text: &str, directories: Folders) -> Script {
        let script = Script { is_understood: true, is_plain: true, ..Script::default() };
        let (depth, is_mended) = (self.depth, self.is_mended);
        let mut reader =
            Reader { text, directories, depth, is_mended, script, nesting: 0, covered: 0 };
        reader.statements(root, &Context { is_top: true, ..Context::default() });
        reader.cover(text.len()..text.len());
        reader.script
    }
}

fn parse(text: &str) -> Option<Tree> {
    let mut work = 0;
    PARSER.with_borrow_mut(|parser| {
        let parser = parser.as_mut()?;
        parser.reset();
        let mut go_on = |_: &_| {
            work += 1;
            if work > MOST_WORK { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let options = ParseOptions::new().progress_callback(&mut go_on);
        let text = in_small_letters(text);
        let bytes = text.as_bytes();
        parser.parse_with_options(&mut |at, _| bytes.get(at..).unwrap_or(&[]), None, Some(options))
    })
}

/// The text with a letter below U+0100 for each that is none, in as many bytes. The grammar's scanner asks C what kind a
/// letter is (`isdigit`), which reads past the end of its table for others: it crashed. To bash all of them are letters.
fn in_small_letters(text: &str) -> Cow<'_, str> {
    if text.is_ascii() {
        return text.into();
    }
    let small = |char: char| match char.len_utf8() {
        1 => char.to_string(),
        2 => "\u{aa}".to_owned(),
        3 => "\u{aa}a".to_owned(),
        _ => "\u{aa}\u{aa}".to_owned(),
    };
    text.chars().map(small).collect::<String>().into()
}

/// The text with an end of its last line. Where that is missing, the parser takes longer over it than over all the rest:
/// it follows two readings of a pipeline, and mends the one that the end of the text cut off.
fn ended(text: &str) -> Cow<'_, str> {
    // (Behind a backslash it would be no end.)
    if text.ends_with(['\n', '\\']) { text.into() } else { format!("{text}\n").into() }
}

struct Reader<'a> {
    text: &'a str,
    /// Where the next command may run.
    directories: Folders,
    depth: usize,
    /// The tree is that of another text.
    is_mended: bool,
    script: Script,
    /// In so many substitutions it is now.
    nesting: usize,
    /// Up to here every byte of the text belongs to something that was looked at.
    covered: usize,
}

/// What stands around a statement.
#[derive(Clone, Default)]
struct Context {
    redirects: Vec<Redirect>,
    reads_pipe: bool,
    writes_pipe: bool,
    /// It stands in no other command.
    is_top: bool,
}

impl Context {
    /// The same streams, inside another command.
    fn inner(&self) -> Self {
        Self { is_top: false, ..self.clone() }
    }

    /// Streams of its own.
    fn apart() -> Self {
        Self::default()
    }
}

fn children(node: Node<'_>) -> Vec<Node<'_>> {
    node.children(&mut node.walk()).collect()
}

impl Reader<'_> {
    fn of(&self, node: Node<'_>) -> &str {
        &self.text[node.byte_range()]
    }

    /// Between what the grammar names stand only blanks, comments and continued lines: where it left
    /// out more, it understood the text otherwise than bash does.
    fn cover(&mut self, range: Range<usize>) {
        if range.start > self.covered {
            let between = &self.text[self.covered..range.start];
            let is_blank =
                between.replace("\\\n", " ").chars().all(|char| matches!(char, ' ' | '\t' | '\n'));
            if !is_blank {
                self.script.is_understood = false;
            }
        }
        self.covered = self.covered.max(range.end);
    }

    /// Does it one level deeper, as far as that goes.
    fn deeper(&mut self, work: impl FnOnce(&mut Self)) {
        if self.depth == 0 {
            self.script.is_understood = false;
            self.script.is_too_long = true;
            return;
        }
        self.depth -= 1;
        work(self);
        self.depth += 1;
    }

    /// Statements one after the other.
    fn statements(&mut self, node: Node<'_>, context: &Context) {
        for child in children(node) {
            let before = self.directories.clone();
            self.statement(child, context);
            // It may have failed: then the next one runs where this one did.
            self.directories.either(&before);
        }
    }

    fn statement(&mut self, node: Node<'_>, context: &Context) {
        if node.is_error() || node.is_missing() {
            self.script.is_understood = false;
        }
        self.deeper(|reader| reader.statement_of(node, context));
    }

    fn statement_of(&mut self, node: Node<'_>, context: &Context) {
        match node.kind() {
            kind if is_simple_kind(kind) => {
                if context.is_top {
                    self.note_single(node);
                }
                self.simple(node, &[], Vec::new(), context);
            }
            "pipeline" | "redirected_statement" => self.piped(node, None, context),
            // `$(< file)`: all that it does is to read.
            "file_redirect" => {
                let (mut redirects, mut words) = (Vec::new(), Vec::new());
                self.redirect(node, &mut redirects, &mut words);
                self.cover(node.byte_range());
                self.script.commands.push(Simple {
                    words: Vec::new(),
                    assignments: Vec::new(),
                    redirects,
                    reads_pipe: false,
                    writes_pipe: context.writes_pipe,
                    nesting: self.nesting,
                    directories: self.directories.clone(),
                    at: node.byte_range(),
                });
            }
            "list" => {
                for child in children(node) {
                    let before = self.directories.clone();
                    self.statement(child, context);
                    if child.next_sibling().is_some_and(|next| next.kind() == "||") {
                        self.directories.either(&before);
                    }
                }
            }
            "subshell" | "command_substitution" | "process_substitution" => {
                self.not_plain(context);
                self.apart(node, context);
            }
            "function_definition" => {
                self.not_plain(context);
                if let Some(name) = node.child_by_field_name("name") {
                    let name = self.of(name).to_owned();
                    self.script.functions.push(name);
                }
                let before = self.directories.clone();
                self.statements(node, &Context::apart());
                self.directories.either(&before);
            }
            "comment" => self.cover(node.byte_range()),
            "heredoc_body" | "heredoc_start" | "heredoc_end" => self.nested(node),
            // `((…))`, `if`, `for`, `while`, `case`, `{ … }`, `!`, and what is not known here.
            kind if node.is_named() => {
                self.not_plain(context);
                if is_word(kind) {
                    self.nested(node);
                    return;
                }
                self.note_loop(node);
                let before = self.directories.clone();
                self.statements(node, &context.inner());
                self.directories.either(&before);
            }
            _ => {
                if self.of(node) == "&" {
                    self.script.is_plain = false;
                }
                self.cover(node.byte_range());
            }
        }
    }

    /// The words that the variable of a `for` or `select` stands for.
    fn note_loop(&mut self, node: Node<'_>) {
        let Some(variable) = node.child_by_field_name("variable") else { return };
        let values: Vec<Node<'_>> =
            node.children_by_field_name("value", &mut node.walk()).collect();
        let (name, words) = (self.of(variable).to_owned(), self.words(&values));
        self.script.is_understood &= !steers(&name);
        self.script.loops.push(Binding { name, words });
    }

    fn not_plain(&mut self, context: &Context) {
        if context.is_top {
            self.script.is_plain = false;
            self.script.pipelines.push(Pipeline::default());
        }
    }

    /// Commands in a shell of their own.
    fn apart(&mut self, node: Node<'_>, context: &Context) {
        let before = self.directories.clone();
        let covered = std::mem::replace(&mut self.covered, node.start_byte());
        let mut inner = match node.kind() {
            "subshell" => context.inner(),
            _ => Context::apart(),
        };
        inner.writes_pipe |=
            node.kind() == "process_substitution" && self.of(node).starts_with('<');
        inner.reads_pipe |= node.kind() == "process_substitution" && self.of(node).starts_with('>');
        let nesting = self.nesting;
        self.nesting += usize::from(node.kind() != "subshell");
        let text = self.of(node);
        match text.strip_prefix('`').and_then(|text| text.strip_suffix('`')) {
            // In backquotes a backslash stands for the one after it: what is run is another text.
            Some(text) if text.contains('\\') => {
                let text = text.replace("\\`", "`").replace("\\$", "$").replace("\\\\", "\\");
                self.embed(&text);
            }
            _ => self.statements(node, &inner),
        }
        self.nesting = nesting;
        self.directories = before;
        self.covered = covered.max(node.end_byte());
    }

    /// Takes over the commands of another text that is run here.
    fn embed(&mut self, text: &str) {
        let directories = self.directories.clone();
        let is_mended = self.is_mended;
        let script = match self.depth.checked_sub(1) {
            Some(depth) => Reading { depth, gets_arguments: true, is_mended }.of(text, directories),
            None => Script { is_too_long: true, ..Script::default() },
        };
        self.script.take_over(script, self.nesting);
    }

    /// A simple command, with the words and redirections that stand behind it.
    fn simple(
        &mut self,
        node: Node<'_>,
        further: &[Node<'_>],
        mut redirects: Vec<Redirect>,
        context: &Context,
    ) {
        let mut assignments = Vec::new();
        let mut words: Vec<Node<'_>> = Vec::new();
        let is_test = node.kind() == "test_command";
        let is_assignment = node.kind() == "variable_assignment";
        let is_command = node.kind() == "command";
        let mut own: Vec<Node<'_>> = if is_assignment { vec![node] } else { children(node) };
        own.retain(|child| !child.is_extra());
        for child in own {
            match child.kind() {
                // Behind the name they are words like others.
                "variable_assignment" if words.is_empty() => assignments.push(child),
                "file_redirect" | "herestring_redirect" | "heredoc_redirect" => {
                    self.redirect(child, &mut redirects, &mut words);
                }
                "subshell" if is_command => {
                    self.script.is_understood = false;
                }
                _ => words.push(child),
            }
            if child.is_error() || child.is_missing() {
                self.script.is_understood = false;
            }
        }
        words.extend(further);
        words.sort_by_key(Node::start_byte);
        // The grammar lets a command go on behind the end of a line that a quote follows.
        let goes_on = words.windows(2).any(|pair| {
            let between = self.text.get(pair[0].end_byte()..pair[1].start_byte());
            between.is_some_and(|between| between.replace("\\\n", "").contains('\n'))
        });
        if goes_on {
            self.script.is_understood = false;
        }
        // A `[[ … ]]` runs nothing itself.
        if is_test {
            words.truncate(1);
        }
        let words = self.words(&words);
        // The grammar takes `*x=1` for one; to bash it is the name of a program.
        let is_named = |node: &Node<'_>| {
            let text = self.of(*node);
            let end = text.find(['=', '[', '+']).unwrap_or(text.len());
            runs::is_assignment(&format!("{}=", &text[..end]))
        };
        if !assignments.iter().all(is_named) {
            self.script.is_understood = false;
        }
        let assignments = assignments
            .iter()
            .map(|node| word::read(self.text, node.byte_range(), &holes(*node)))
            .collect();
        self.command(words, assignments, &redirects, context, node.byte_range());
        self.nested(node);
    }

    /// Nodes that touch each other, or are only broken over two lines, are one word.
    fn words(&self, nodes: &[Node<'_>]) -> Vec<Word> {
        let mut words: Vec<Word> = Vec::with_capacity(nodes.len());
        let mut nodes = nodes.iter().peekable();
        while let Some(first) = nodes.next() {
            let mut at = first.byte_range();
            let mut within = holes(*first);
            while let Some(next) = nodes.peek() {
                let between = self.text.get(at.end..next.start_byte()).unwrap_or_default();
                if next.start_byte() < at.end || !between.replace("\\\n", "").is_empty() {
                    break;
                }
                at.end = next.end_byte();
                within.extend(holes(**next));
                nodes.next();
            }
            words.extend(word::words(self.text, at, &within));
        }
        words
    }

    fn command(
        &mut self,
        words: Vec<Word>,
        assignments: Vec<Word>,
        redirects: &[Redirect],
        context: &Context,
        at: Range<usize>,
    ) {
        let directories = self.directories.clone();
        // The grammar takes `! { a; }` and `time if …` for commands of these names.
        let behind_time = words.first().is_some_and(|word| word.text == "time");
        let first = words.iter().skip(usize::from(behind_time)).find(|word| word.text != "-p");
        if first.is_some_and(|word| RESERVED.contains(&word.text.as_str())) {
            self.script.is_understood = false;
        }
        let mut plain =
            words.iter().skip_while(|word| matches!(word.known(), Some("command" | "builtin")));
        match plain.next().and_then(Word::known) {
            Some("cd" | "pushd") => {
                let arguments: Vec<Word> = plain.cloned().collect();
                self.directories.change(&arguments);
            }
            Some("popd") => self.directories.forget(),
            Some("read" | "mapfile" | "readarray" | "getopts" | "printf") => {
                // (An option and its argument can be one word.)
                let is_steering = |word: &Word| {
                    let text = word.text.as_str();
                    let options = text.trim_start_matches(|char: char| !char.is_ascii_uppercase());
                    steers(text) || text.starts_with('-') && steers(options)
                };
                self.script.is_understood &= !plain.any(is_steering);
            }
            _ => {}
        }
        let mut all = [&*context.redirects, redirects].concat();
        if all.len() > MOST_REDIRECTS {
            all.truncate(MOST_REDIRECTS);
            self.script.is_understood = false;
            self.script.is_too_long = true;
        }
        self.script.commands.push(Simple {
            words,
            assignments,
            redirects: all,
            reads_pipe: context.reads_pipe,
            writes_pipe: context.writes_pipe,
            nesting: self.nesting,
            directories,
            at,
        });
    }

    /// The commands in the words below a node.
    fn nested(&mut self, node: Node<'_>) {
        // Of a text the grammar names only the parts that are special.
        if is_word(node.kind()) || node.kind() == "heredoc_body" {
            self.cover(node.byte_range());
        }
        for child in children(node) {
            match child.kind() {
                "command_substitution" | "process_substitution" => {
                    self.script.is_plain = false;
                    self.deeper(|reader| reader.apart(child, &Context::apart()));
                }
                // They are read by `redirected`.
                "pipeline" | "command" | "list" | "redirected_statement" => {
                    self.cover(child.byte_range());
                }
                _ => self.deeper(|reader| reader.nested(child)),
            }
            if child.is_error() {
                self.script.is_understood = false;
            }
        }
        self.cover(node.byte_range());
    }
}

fn is_simple_kind(kind: &str) -> bool {
    matches!(
        kind,
        "command"
            | "declaration_command"
            | "unset_command"
            | "test_command"
            | "variable_assignment"
            | "variable_assignments"
    )
}

/// A variable that says which program a name stands for, or what programs run besides.
fn steers(name: &str) -> bool {
    const NAMES: &[&str] = &[
        "PATH",
        "HOME",
        "ENV",
        "IFS",
        "CDPATH",
        "SHELL",
        "SHELLOPTS",
        "BASHOPTS",
        "PS4",
        "PROMPT_COMMAND",
        "PAGER",
        "EDITOR",
        "VISUAL",
        "RIPGREP_CONFIG_PATH",
    ];
    NAMES.contains(&name)
        || ["LD_", "GIT_", "BASH_", "XDG_", "LESS"].iter().any(|begin| name.starts_with(begin))
}

/// The grammar's words, wherever they stand.
fn is_word(kind: &str) -> bool {
    matches!(
        kind,
        "word"
            | "number"
            | "string"
            | "raw_string"
            | "ansi_c_string"
            | "translated_string"
            | "concatenation"
            | "simple_expansion"
            | "expansion"
            | "arithmetic_expansion"
            | "brace_expression"
            | "extglob_pattern"
            | "regex"
            | "variable_name"
            | "special_variable_name"
            | "array"
            | "subscript"
    )
}

/// What bash replaces in a word, outermost first.
fn holes(node: Node<'_>) -> Vec<(Range<usize>, Kind)> {
    let mut found = Vec::new();
    let mut open = vec![node];
    while let Some(node) = open.pop() {
        let kind = match node.kind() {
            "command_substitution" | "process_substitution" => Kind::Output,
            // Inside them commands may stand, too; `nested` finds those.
            "expansion"
            | "simple_expansion"
            | "arithmetic_expansion"
            | "brace_expression"
            | "array" => Kind::Variable,
            "extglob_pattern" => Kind::Pattern,
            _ => {
                open.extend(children(node));
                continue;
            }
        };
        found.push((node.byte_range(), kind));
    }
    found.sort_by_key(|(hole, _)| hole.start);
    found
}
