//! Redirections and here-documents: what streams a command reads and writes.

use std::sync::Arc;

use tree_sitter::Node;

use super::{Context, MOST_BACKQUOTES, Reader, children, holes, is_simple_kind, is_word};
use crate::permission::shell::word::{self, Word};
use crate::permission::shell::{How, Redirect};

impl Reader<'_> {
    /// A command, or several, whose streams are redirected by what stands in this node.
    pub(super) fn redirected(&mut self, node: Node<'_>, body: Option<Node<'_>>, context: &Context) {
        let mut redirects = Vec::new();
        let mut words = Vec::new();
        // What stands behind `<< END` on its line belongs to the statement around it.
        let mut piped: Vec<Node<'_>> = Vec::new();
        let mut after: Vec<Node<'_>> = Vec::new();
        let mut own: Vec<Node<'_>> =
            node.children_by_field_name("redirect", &mut node.walk()).collect();
        // `done <<< text`, which the grammar gives no name.
        let here_strings = children(node).into_iter().filter(|child| {
            child.kind() == "herestring_redirect"
                && body.is_some_and(|body| !is_simple_kind(body.kind()))
        });
        own.extend(here_strings.filter(|child| !own.contains(child)).collect::<Vec<_>>());
        for child in &own {
            if child.kind() != "heredoc_redirect" {
                self.redirect(*child, &mut redirects, &mut words);
                continue;
            }
            self.here_document(*child, &mut redirects);
            for part in children(*child) {
                match part.kind() {
                    "pipeline" => piped.push(part),
                    "file_redirect" | "herestring_redirect" => {
                        self.redirect(part, &mut redirects, &mut words);
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
                self.simple(body, &words, redirects, &inner);
                // The grammar leaves out the word `-` before `<<`.
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
                // `! x=1 >file a b`: words of which command?
                self.script.is_understood &= words.is_empty();
                inner.redirects.extend(redirects);
                self.statement(body, &inner);
            }
            // `> file a b`
            None => {
                let words = self.words(&words);
                self.command(words, Vec::new(), &redirects, &inner, node.byte_range());
            }
        }
        for redirect in own {
            self.nested(redirect);
        }
        for stage in piped.into_iter().flat_map(children).filter(Node::is_named) {
            let before = Arc::clone(&self.directories);
            self.statement(stage, &Context { reads_pipe: true, ..context.inner() });
            self.directories = before;
        }
        for statement in after {
            self.statement(statement, &context.inner());
        }
        self.cover(node.byte_range());
    }

    pub(super) fn here_document(&mut self, node: Node<'_>, redirects: &mut Vec<Redirect>) {
        let named = |kind: &str| children(node).into_iter().find(|child| child.kind() == kind);
        let start = named("heredoc_start").map(|start| self.of(start).to_owned());
        let Some((start, body)) = start.zip(named("heredoc_body")) else {
            self.script.is_understood = false;
            return;
        };
        // The grammar takes `<<$(x)` for a substitution, bash does not.
        if start.contains(['$', '`']) {
            self.script.is_understood = false;
        }
        let is_quoted = start.contains(['\'', '"', '\\']);
        let strips = children(node).first().is_some_and(|operator| self.of(*operator) == "<<-");
        let text = if is_quoted {
            Word::literal(self.of(body))
        } else {
            let found = holes(body);
            let is_in_hole = |at: usize| found.iter().any(|(hole, _)| hole.contains(&at));
            let mut backquotes = self.of(body).match_indices('`').take(MOST_BACKQUOTES);
            // The grammar finds few of the commands in backquotes here.
            if backquotes.any(|(at, _)| !is_in_hole(body.start_byte() + at)) {
                self.script.is_understood = false;
            }
            word::read_body(self.text, body.byte_range(), &holes(body))
        };
        let text = if strips {
            let lines = text.text.split('\n').map(|line| line.trim_start_matches('\t'));
            Word { text: lines.collect::<Vec<_>>().join("\n"), ..text }
        } else {
            text
        };
        redirects.push(Redirect { how: How::Text, target: text, descriptor: None });
    }

    /// Reads a redirection; what the grammar takes for further targets are words of the command.
    pub(super) fn redirect<'t>(
        &mut self,
        node: Node<'t>,
        redirects: &mut Vec<Redirect>,
        words: &mut Vec<Node<'t>>,
    ) {
        let mut how = How::Read;
        let mut descriptor = None;
        let mut target = None;
        let mut closes = false;
        for child in children(node) {
            match child.kind() {
                "file_descriptor" => descriptor = self.of(child).parse().ok(),
                "<<<" => how = How::Text,
                "<" => how = How::Read,
                "<&" => how = How::Copy,
                "<&-" | ">&-" => {
                    how = How::Copy;
                    closes = true;
                }
                ">&" => {
                    // `>&2` copies, `>& file` writes both.
                    let next = child.next_sibling().map(|next| self.of(next).to_owned());
                    let copies = next.is_some_and(|next| {
                        next.trim_end_matches('-').chars().all(|char| char.is_ascii_digit())
                    });
                    how = if copies { How::Copy } else { How::Write };
                }
                kind if kind.starts_with('>') || kind.starts_with('&') => how = How::Write,
                _ if target.is_none() && !closes => target = Some(child),
                _ => words.push(child),
            }
        }
        match target {
            Some(target) => {
                let target = word::read(self.text, target.byte_range(), &holes(target));
                redirects.push(Redirect { how, target, descriptor });
            }
            // `>&-`
            None => {
                redirects.push(Redirect { how: How::Copy, target: Word::literal("-"), descriptor });
            }
        }
    }
}

/// What a here-document consists of besides words.
pub(super) fn is_redirect_part(kind: &str) -> bool {
    matches!(
        kind,
        "heredoc_body" | "heredoc_start" | "heredoc_end" | "file_redirect" | "herestring_redirect"
    )
}
