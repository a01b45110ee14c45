//! Parses redirections and here-documents.

use tree_sitter::Node;

use super::{ScriptReader, StatementContext, children, find_expansions, is_simple_kind, is_word};
use crate::shell::word::{self, Word};
use crate::shell::{Redirect, RedirectKind};

const MAX_BACKQUOTES: usize = 100;

impl ScriptReader<'_> {
    pub(super) fn visit_redirected(
        &mut self,
        node: Node<'_>,
        body: Option<Node<'_>>,
        context: &StatementContext,
    ) {
        let mut redirects = Vec::new();
        let mut words = Vec::new();
        // The rest of the line after `<< END` belongs to the statement around it.
        let mut piped: Vec<Node<'_>> = Vec::new();
        let mut after: Vec<Node<'_>> = Vec::new();
        let mut own: Vec<Node<'_>> =
            node.children_by_field_name("redirect", &mut node.walk()).collect();
        // `done <<< text`, which has no field name in the grammar.
        let here_strings = children(node).into_iter().filter(|child| {
            child.kind() == "herestring_redirect"
                && body.is_some_and(|body| !is_simple_kind(body.kind()))
        });
        own.extend(here_strings.filter(|child| !own.contains(child)).collect::<Vec<_>>());
        for child in &own {
            if child.kind() != "heredoc_redirect" {
                self.read_redirect(*child, &mut redirects, &mut words);
                continue;
            }
            self.read_here_document(*child, &mut redirects);
            for part in children(*child) {
                match part.kind() {
                    "pipeline" => piped.push(part),
                    "file_redirect" | "herestring_redirect" => {
                        self.read_redirect(part, &mut redirects, &mut words);
                    }
                    kind if is_redirect_part(kind) => {}
                    kind if is_word(kind) => words.push(part),
                    _ if part.is_named() => after.push(part),
                    _ => {}
                }
            }
        }
        let mut inner = context.inner();
        inner.writes_pipe |= !piped.is_empty();
        match body {
            Some(body) if is_simple_kind(body.kind()) => {
                let at = self.script.commands.len();
                self.visit_simple_command(body, &words, redirects, &inner);
                // The grammar drops the word `-` before `<<`.
                let next = own.first().map_or(body.end_byte(), Node::start_byte);
                let between = self.text.get(body.end_byte()..next).unwrap_or_default();
                if between.trim() == "-"
                    && let Some(command) = self.script.commands.get_mut(at)
                {
                    command.words.push(Word::literal("-"));
                    self.covered = self.covered.max(next);
                }
            }
            Some(body) => {
                // `! x=1 >file a b`: it is unclear to which command the words belong.
                self.script.is_fully_parsed &= words.is_empty();
                inner.redirects.extend(redirects);
                self.visit_statement(body, &inner);
            }
            // `> file a b`
            None => {
                let words = self.join_words(&words);
                self.push_command(words, Vec::new(), &redirects, &inner, node.byte_range());
            }
        }
        for redirect in own {
            self.visit_nested(redirect);
        }
        for stage in piped.into_iter().flat_map(children).filter(Node::is_named) {
            let before = self.directory.clone();
            self.visit_statement(stage, &StatementContext { reads_pipe: true, ..context.inner() });
            self.directory = before;
        }
        for statement in after {
            self.visit_statement(statement, &context.inner());
        }
        self.mark_visited(node.byte_range());
    }

    pub(super) fn read_here_document(&mut self, node: Node<'_>, redirects: &mut Vec<Redirect>) {
        let named = |kind: &str| children(node).into_iter().find(|child| child.kind() == kind);
        let start = named("heredoc_start").map(|start| self.text_of(start).to_owned());
        let Some((start, body)) = start.zip(named("heredoc_body")) else {
            self.script.is_fully_parsed = false;
            return;
        };
        // `<<$(x)` is a substitution to the grammar, not to bash.
        if start.contains(['$', '`']) {
            self.script.is_fully_parsed = false;
        }
        let is_quoted = start.contains(['\'', '"', '\\']);
        let mut target = if is_quoted {
            Word::literal(self.text_of(body))
        } else {
            let found = find_expansions(body);
            let is_in_hole = |at: usize| found.iter().any(|(hole, _)| hole.contains(&at));
            // The grammar misses commands in backquotes here.
            let mut backquotes = self.text_of(body).match_indices('`').take(MAX_BACKQUOTES);
            if backquotes.any(|(at, _)| !is_in_hole(body.start_byte() + at)) {
                self.script.is_fully_parsed = false;
            }
            word::read_here_document_body(self.text, body.byte_range(), &found)
        };
        if named("<<-").is_some() {
            let lines = target.text.split('\n').map(|line| line.trim_start_matches('\t'));
            target.text = lines.collect::<Vec<_>>().join("\n");
        }
        redirects.push(Redirect { kind: RedirectKind::Text, target, descriptor: None });
    }

    /// Further targets in the grammar are words of the command.
    pub(super) fn read_redirect<'t>(
        &mut self,
        node: Node<'t>,
        redirects: &mut Vec<Redirect>,
        words: &mut Vec<Node<'t>>,
    ) {
        let mut how = RedirectKind::Read;
        let mut descriptor = None;
        let mut target = None;
        let mut closes = false;
        for child in children(node) {
            match child.kind() {
                "file_descriptor" => descriptor = self.text_of(child).parse().ok(),
                "<<<" => how = RedirectKind::Text,
                "<" => how = RedirectKind::Read,
                "<&" => how = RedirectKind::Copy,
                "<&-" | ">&-" => {
                    how = RedirectKind::Copy;
                    closes = true;
                }
                ">&" => {
                    // `>&2` copies, `>& file` writes both.
                    let next = child.next_sibling().map(|next| self.text_of(next).to_owned());
                    let copies = next.is_some_and(|next| {
                        next.trim_end_matches('-').chars().all(|char| char.is_ascii_digit())
                    });
                    how = if copies { RedirectKind::Copy } else { RedirectKind::Write };
                }
                kind if kind.starts_with('>') || kind.starts_with('&') => {
                    how = RedirectKind::Write;
                }
                _ if target.is_none() && !closes => target = Some(child),
                _ => words.push(child),
            }
        }
        let (kind, target) = match target {
            Some(node) => {
                let word = word::read_word(self.text, node.byte_range(), &find_expansions(node));
                (how, if how == RedirectKind::Text { word.without_quotes() } else { word })
            }
            // `>&-`
            None => (RedirectKind::Copy, Word::literal("-")),
        };
        redirects.push(Redirect { kind, target, descriptor });
    }
}

pub(super) fn is_redirect_part(kind: &str) -> bool {
    matches!(
        kind,
        "heredoc_body" | "heredoc_start" | "heredoc_end" | "file_redirect" | "herestring_redirect"
    )
}

/// The grammar accepts a delimiter with blanks around it, a `;` after it, or on a continued line.
pub(super) fn here_documents_end_as_in_bash(root: Node<'_>, text: &str) -> bool {
    if !text.contains("<<") {
        return true;
    }
    let mut open = vec![(root, false)];
    while let Some((node, in_backquotes)) = open.pop() {
        // A backquote ends the substitution, also inside a here-document.
        let in_backquotes = in_backquotes
            || node.kind() == "command_substitution"
                && text.as_bytes().get(node.start_byte()) == Some(&b'`');
        if node.kind() == "heredoc_redirect"
            && (in_backquotes || here_document_end(node, text).is_none())
        {
            return false;
        }
        open.extend(children(node).into_iter().map(|child| (child, in_backquotes)));
    }
    true
}

/// `None` if the grammar and bash do not agree.
fn here_document_end(node: Node<'_>, text: &str) -> Option<usize> {
    let named = |kind: &str| children(node).into_iter().find(|child| child.kind() == kind);
    let start = named("heredoc_start")?;
    let (body, end) = (named("heredoc_body")?, named("heredoc_end")?);
    let written = text.get(start.byte_range())?;
    let after = text.get(start.end_byte()..)?;
    // `<<"X"Y`: the grammar knows the first half.
    if !after.starts_with([' ', '\t', '\n', ';', '&', '|', '<', '>', '(', ')']) {
        return None;
    }
    let delimiter = written
        .strip_prefix('\\')
        .or_else(|| written.strip_prefix('\'')?.strip_suffix('\''))
        .or_else(|| written.strip_prefix('"')?.strip_suffix('"'))
        .unwrap_or(written);
    if delimiter.contains(['\'', '"', '\\', '$', '`', '\n']) {
        return None;
    }
    let first = start.end_byte() + end_of_line(after)? + 1;
    // The grammar skips blanks before the body, but nothing else may be there.
    let before = text.get(first..body.start_byte())?;
    if !before.trim_matches([' ', '\t', '\n']).is_empty() {
        return None;
    }
    let strips = named("<<-").is_some();
    let is_end =
        |line: &str| delimiter == if strips { line.trim_start_matches('\t') } else { line };
    let ends = |joins| find_delimiter_line(text.get(first..).unwrap_or_default(), joins, is_end);
    let (from, to) = ends(false)?;
    // Without quotes a backslash continues the line in bash, but not in every shell.
    if written == delimiter && ends(true)? != (from, to) {
        return None;
    }
    let own = text.get(first + from..first + to)?;
    let tabs = if strips { own.len() - own.trim_start_matches('\t').len() } else { 0 };
    (end.byte_range() == (first + from + tabs..first + to)).then_some(first + to)
}

/// A backslash continues the line.
fn end_of_line(text: &str) -> Option<usize> {
    let at =
        text.match_indices('\n').map(|(at, _)| at).find(|at| !ends_with_backslash(&text[..*at]))?;
    // A comment is not continued.
    let line = &text[..at];
    (!(line.contains('#') && line.contains('\n'))).then_some(at)
}

fn ends_with_backslash(line: &str) -> bool {
    (line.len() - line.trim_end_matches('\\').len()) % 2 == 1
}

fn find_delimiter_line(
    text: &str,
    joins: bool,
    is_end: impl Fn(&str) -> bool,
) -> Option<(usize, usize)> {
    let mut from = 0;
    let mut joined = String::new();
    let mut at = 0;
    for line in text.split('\n') {
        let to = at + line.len();
        joined.push_str(line);
        if joins && ends_with_backslash(line) {
            joined.pop();
        } else {
            if is_end(&joined) {
                return Some((from, to));
            }
            joined.clear();
            from = to + 1;
        }
        at = to + 1;
    }
    None
}
