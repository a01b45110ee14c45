//! Converts the syntax tree of a command line to its simple commands.

use std::borrow::Cow;
use std::cell::RefCell;
use std::ops::{ControlFlow, Range};

use tree_sitter::{Node, ParseOptions, Parser, Tree};

use super::directory;
use super::word::{self, Word, WordKind};
use super::{Pipeline, Redirect, Script, SimpleCommand};

mod pipelines;
mod redirects;

/// The longest argument that bash accepts.
const MAX_LENGTH: usize = 128 * 1024;
pub(super) const MAX_DEPTH: usize = 100;
/// Limit on the parser's progress callbacks, a measure of its work that does not depend on the
/// machine: some 40 KB of dense script. A quoted here-document counts as one step, whatever its
/// length.
const MAX_STEPS: usize = 500;
const MAX_REDIRECTS: usize = 32;

/// Reserved words: a command with such a name was misparsed.
const RESERVED: &[&str] = &[
    "!", "{", "}", "(", ")", "if", "then", "elif", "else", "fi", "for", "while", "until", "do",
    "done", "case", "esac", "select", "function", "coproc", "time",
];

thread_local! {
    /// Reused, because its tables are large.
    static PARSER: RefCell<Option<Parser>> = RefCell::new(new_parser());
}

fn new_parser() -> Option<Parser> {
    let mut parser = Parser::new();
    parser.set_language(&tree_sitter_bash::LANGUAGE.into()).ok()?;
    Some(parser)
}

/// Parses a text that runs in `directory` (see [`directory`]), nested up to `depth` levels.
pub(super) fn parse_script(text: &str, directory: Option<String>, depth: usize) -> Script {
    let too_long = Script { is_too_long: true, ..Script::default() };
    if text.len() > MAX_LENGTH {
        return too_long;
    }
    // Bash ends a line at a NUL byte.
    if text.contains('\0') {
        return Script::default();
    }
    let text = &*with_newline(text);
    let Some(tree) = parse_tree(text) else { return too_long };
    let root = tree.root_node();
    let script = Script { is_fully_parsed: true, is_plain: true, ..Script::default() };
    let mut reader = ScriptReader { text, directory, depth, script, covered: 0 };
    reader
        .visit_statements(root, &StatementContext { is_top: true, ..StatementContext::default() });
    reader.mark_visited(text.len()..text.len());
    // The grammar starts a comment inside a word that continues on the next line.
    reader.script.is_fully_parsed &= !root.has_error()
        && !text.contains("\\\n#")
        && redirects::here_documents_end_as_in_bash(root, text);
    reader.script
}

fn parse_tree(text: &str) -> Option<Tree> {
    let mut work = 0;
    PARSER.with_borrow_mut(|parser| {
        let parser = parser.as_mut()?;
        parser.reset();
        let mut progress = |_: &_| {
            work += 1;
            if work > MAX_STEPS { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let options = ParseOptions::new().progress_callback(&mut progress);
        let text = with_small_code_points(text);
        let bytes = text.as_bytes();
        parser.parse_with_options(&mut |at, _| bytes.get(at..).unwrap_or(&[]), None, Some(options))
    })
}

/// The grammar's scanner passes code points to `isdigit`, which reads past the end of its table for
/// those above U+00FF. The replacements are letters of the same byte length.
fn with_small_code_points(text: &str) -> Cow<'_, str> {
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

/// Without a newline at the end the parser pursues two parses of a pipeline, and is much slower.
fn with_newline(text: &str) -> Cow<'_, str> {
    // (After a backslash a newline would not end the line.)
    if text.ends_with(['\n', '\\']) { text.into() } else { format!("{text}\n").into() }
}

struct ScriptReader<'a> {
    text: &'a str,
    /// The directory of the next command; `None`: not known.
    directory: Option<String>,
    depth: usize,
    script: Script,
    /// Every byte of the text before this offset belongs to a visited node.
    covered: usize,
}

#[derive(Clone, Default)]
struct StatementContext {
    redirects: Vec<Redirect>,
    reads_pipe: bool,
    writes_pipe: bool,
    /// The statement is not nested in another command.
    is_top: bool,
}

impl StatementContext {
    fn inner(&self) -> Self {
        Self { is_top: false, ..self.clone() }
    }
}

fn children(node: Node<'_>) -> Vec<Node<'_>> {
    node.children(&mut node.walk()).collect()
}

impl ScriptReader<'_> {
    fn text_of(&self, node: Node<'_>) -> &str {
        &self.text[node.byte_range()]
    }

    /// If the tree skips more than blanks and continued lines, bash parses the text differently.
    fn mark_visited(&mut self, range: Range<usize>) {
        if range.start > self.covered {
            let between = &self.text[self.covered..range.start];
            let is_blank =
                between.replace("\\\n", " ").chars().all(|char| matches!(char, ' ' | '\t' | '\n'));
            self.script.is_fully_parsed &= is_blank;
        }
        self.covered = self.covered.max(range.end);
    }

    fn with_depth(&mut self, work: impl FnOnce(&mut Self)) {
        if self.depth == 0 {
            self.script.is_fully_parsed = false;
            self.script.is_too_long = true;
            return;
        }
        self.depth -= 1;
        work(self);
        self.depth += 1;
    }

    fn visit_statements(&mut self, node: Node<'_>, context: &StatementContext) {
        for child in children(node) {
            self.visit_statement(child, context);
        }
    }

    fn visit_statement(&mut self, node: Node<'_>, context: &StatementContext) {
        self.script.is_fully_parsed &= !(node.is_error() || node.is_missing());
        self.with_depth(|reader| reader.visit_by_kind(node, context));
    }

    fn visit_by_kind(&mut self, node: Node<'_>, context: &StatementContext) {
        match node.kind() {
            kind if is_simple_kind(kind) => {
                if context.is_top {
                    self.record_single(node);
                }
                self.visit_simple_command(node, &[], Vec::new(), context);
            }
            "pipeline" | "redirected_statement" => self.visit_pipeline(node, None, context),
            // `$(< file)`
            "file_redirect" => {
                let (mut redirects, mut words) = (Vec::new(), Vec::new());
                self.read_redirect(node, &mut redirects, &mut words);
                self.mark_visited(node.byte_range());
                self.script.commands.push(SimpleCommand {
                    words: Vec::new(),
                    assignments: Vec::new(),
                    redirects,
                    reads_pipe: false,
                    writes_pipe: context.writes_pipe,
                    directory: self.directory.clone(),
                    at: node.byte_range(),
                });
            }
            "list" => self.visit_statements(node, context),
            "subshell" | "command_substitution" | "process_substitution" => {
                self.mark_not_plain(context);
                self.visit_isolated(node, context);
            }
            "function_definition" => {
                self.mark_not_plain(context);
                if let Some(name) = node.child_by_field_name("name") {
                    self.script.functions.push(self.text[name.byte_range()].to_owned());
                }
                let before = self.directory.clone();
                self.visit_statements(node, &StatementContext::default());
                self.directory = before;
            }
            "comment" => self.mark_visited(node.byte_range()),
            "heredoc_body" | "heredoc_start" | "heredoc_end" => self.visit_nested(node),
            // `((…))`, `if`, `for`, `while`, `case`, `{ … }`, `!`, and unknown nodes.
            kind if node.is_named() => {
                self.mark_not_plain(context);
                if is_word(kind) {
                    self.visit_nested(node);
                    return;
                }
                let before = self.directory.clone();
                self.visit_statements(node, &context.inner());
                if self.directory != before {
                    self.directory = None;
                }
            }
            _ => {
                self.script.is_plain &= self.text_of(node) != "&";
                self.mark_visited(node.byte_range());
            }
        }
    }

    fn mark_not_plain(&mut self, context: &StatementContext) {
        if context.is_top {
            self.script.is_plain = false;
            self.script.pipelines.push(Pipeline::default());
        }
    }

    /// A `cd` in a subshell or a substitution has no effect outside.
    fn visit_isolated(&mut self, node: Node<'_>, context: &StatementContext) {
        let before = self.directory.clone();
        let covered = std::mem::replace(&mut self.covered, node.start_byte());
        let text = self.text_of(node);
        let mut inner = match node.kind() {
            "subshell" => context.inner(),
            _ => StatementContext::default(),
        };
        let is_process = node.kind() == "process_substitution";
        inner.writes_pipe |= is_process && text.starts_with('<');
        inner.reads_pipe |= is_process && text.starts_with('>');
        match text.strip_prefix('`').and_then(|text| text.strip_suffix('`')) {
            // In backquotes a backslash escapes the next character, so bash executes a different text.
            Some(text) if text.contains('\\') => {
                let text = text.replace("\\`", "`").replace("\\$", "$").replace("\\\\", "\\");
                self.add_embedded(&text);
            }
            _ => self.visit_statements(node, &inner),
        }
        self.directory = before;
        self.covered = covered.max(node.end_byte());
    }

    fn add_embedded(&mut self, text: &str) {
        let script = match self.depth.checked_sub(1) {
            Some(depth) => parse_script(text, self.directory.clone(), depth),
            None => Script { is_too_long: true, ..Script::default() },
        };
        self.script.is_fully_parsed &= script.is_fully_parsed;
        self.script.is_too_long |= script.is_too_long;
        self.script.commands.extend(script.commands);
        self.script.functions.extend(script.functions);
    }

    /// `further` are words after the redirections.
    fn visit_simple_command(
        &mut self,
        node: Node<'_>,
        further: &[Node<'_>],
        mut redirects: Vec<Redirect>,
        context: &StatementContext,
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
                "variable_assignment" if words.is_empty() => assignments.push(child),
                "file_redirect" | "herestring_redirect" | "heredoc_redirect" => {
                    self.read_redirect(child, &mut redirects, &mut words);
                }
                "subshell" if is_command => self.script.is_fully_parsed = false,
                _ => words.push(child),
            }
            self.script.is_fully_parsed &= !(child.is_error() || child.is_missing());
        }
        words.extend(further);
        words.sort_by_key(Node::start_byte);
        // The grammar continues a command on the next line if that begins with a quote.
        let continues = words.windows(2).any(|pair| {
            let between = self.text.get(pair[0].end_byte()..pair[1].start_byte());
            between.is_some_and(|between| between.replace("\\\n", "").contains('\n'))
        });
        self.script.is_fully_parsed &= !continues;
        // `[[ … ]]` runs nothing itself, but `-v` and comparisons of numbers evaluate subscripts.
        if is_test {
            words.truncate(1);
            let inner = self.text_of(node).trim_matches(['[', ']']);
            let is_hidden = inner.contains('[') && (inner.contains("$(") || inner.contains('`'));
            self.script.is_fully_parsed &= !is_hidden;
        }
        let words = self.join_words(&words);
        // To the grammar `*x=1` is an assignment, to bash a program.
        let is_named = |node: &Node<'_>| {
            let text = self.text_of(*node);
            let end = text.find(['=', '[', '+']).unwrap_or(text.len());
            super::is_assignment(&format!("{}=", &text[..end]))
        };
        self.script.is_fully_parsed &= assignments.iter().all(is_named);
        let assignments = assignments
            .iter()
            .map(|node| word::read_word(self.text, node.byte_range(), &find_expansions(*node)))
            .collect();
        self.push_command(words, assignments, &redirects, context, node.byte_range());
        self.visit_nested(node);
    }

    /// Nodes separated only by a continued line are one word.
    fn join_words(&self, nodes: &[Node<'_>]) -> Vec<Word> {
        let mut words: Vec<Word> = Vec::with_capacity(nodes.len());
        let mut nodes = nodes.iter().peekable();
        while let Some(first) = nodes.next() {
            let mut at = first.byte_range();
            let mut within = find_expansions(*first);
            while let Some(next) = nodes.peek() {
                let between = self.text.get(at.end..next.start_byte()).unwrap_or_default();
                if next.start_byte() < at.end || !between.replace("\\\n", "").is_empty() {
                    break;
                }
                at.end = next.end_byte();
                within.extend(find_expansions(**next));
                nodes.next();
            }
            words.extend(word::read_words(self.text, at, &within));
        }
        words
    }

    fn push_command(
        &mut self,
        words: Vec<Word>,
        assignments: Vec<Word>,
        redirects: &[Redirect],
        context: &StatementContext,
        at: Range<usize>,
    ) {
        let directory = self.directory.clone();
        // The grammar reads `! { a; }` and `time if …` as commands of these names.
        let is_timed = words.first().is_some_and(|word| word.text == "time");
        let first = words.iter().skip(usize::from(is_timed)).find(|word| word.text != "-p");
        if first.is_some_and(|word| RESERVED.contains(&word.text.as_str())) {
            self.script.is_fully_parsed = false;
        }
        let mut plain = words
            .iter()
            .skip_while(|word| matches!(word.literal_text(), Some("command" | "builtin")));
        match plain.next().and_then(Word::literal_text) {
            Some("cd" | "pushd") => {
                self.directory = directory::after_cd(self.directory.as_deref(), plain);
            }
            Some("popd") => self.directory = None,
            _ => {}
        }
        let mut all = [&*context.redirects, redirects].concat();
        if all.len() > MAX_REDIRECTS {
            all.truncate(MAX_REDIRECTS);
            self.script.is_fully_parsed = false;
            self.script.is_too_long = true;
        }
        self.script.commands.push(SimpleCommand {
            words,
            assignments,
            redirects: all,
            reads_pipe: context.reads_pipe,
            writes_pipe: context.writes_pipe,
            directory,
            at,
        });
    }

    fn visit_nested(&mut self, node: Node<'_>) {
        // Inside a text the grammar has nodes only for the special parts.
        if is_word(node.kind()) || node.kind() == "heredoc_body" {
            self.mark_visited(node.byte_range());
        }
        self.script.is_fully_parsed &= !hides_command(node.kind(), self.text_of(node));
        for child in children(node) {
            match child.kind() {
                "command_substitution" | "process_substitution" => {
                    self.script.has_substitution = true;
                    self.with_depth(|reader| {
                        reader.visit_isolated(child, &StatementContext::default());
                    });
                }
                // Visited by `redirected`.
                "pipeline" | "command" | "list" | "redirected_statement" => {
                    self.mark_visited(child.byte_range());
                }
                _ => self.with_depth(|reader| reader.visit_nested(child)),
            }
            self.script.is_fully_parsed &= !child.is_error();
        }
        self.mark_visited(node.byte_range());
    }
}

/// Whether bash executes commands in this text that the grammar does not show: `@P` expands a prompt, and a subscript
/// is an arithmetic expression, in which a further subscript may hold a substitution.
fn hides_command(kind: &str, text: &str) -> bool {
    let subscripts = || text.split('[').skip(1).map(|rest| rest.split(']').next().unwrap_or(rest));
    match kind {
        "expansion" => {
            let is_plain = |text: &str| {
                let name = text.strip_prefix('$').unwrap_or(text);
                matches!(text, "@" | "*" | "#")
                    || name.chars().all(|char| char.is_ascii_alphanumeric() || "_+-".contains(char))
            };
            let name_end =
                text.find([':', '#', '%', '/', '^', ',', '=', '?']).unwrap_or(text.len());
            let has_subscript = text[..name_end].contains('[');
            text.contains("@P")
                || text.contains('`')
                || has_subscript && !subscripts().take(1).all(is_plain)
        }
        "arithmetic_expansion" => subscripts().next().is_some(),
        _ => false,
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

/// The outermost expansion comes first.
fn find_expansions(node: Node<'_>) -> Vec<(Range<usize>, WordKind)> {
    let mut found = Vec::new();
    let mut open = vec![node];
    while let Some(node) = open.pop() {
        let kind = match node.kind() {
            "command_substitution" | "process_substitution" => WordKind::Output,
            // (`nested` finds the commands inside.)
            "expansion"
            | "simple_expansion"
            | "arithmetic_expansion"
            | "brace_expression"
            | "array" => WordKind::Variable,
            "extglob_pattern" => WordKind::Pattern,
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
