//! Pipelines and lists: which commands are the stages of a pipeline, and what follows it.

use std::ops::Range;

use tree_sitter::Node;

use super::redirects::is_redirect_part;
use super::{ScriptReader, StatementContext, children, is_word};
use crate::shell::Pipeline;

/// `owner` holds the redirections.
struct Stage<'t> {
    node: Node<'t>,
    owner: Option<Node<'t>>,
    before: Vec<Range<usize>>,
}

/// Follows a pipeline after `&&` or `||`.
struct ListRest<'t> {
    operator: Node<'t>,
    node: Node<'t>,
    owner: Option<Node<'t>>,
}

impl ScriptReader<'_> {
    pub(super) fn record_single(&mut self, node: Node<'_>) {
        self.record_pipeline(&[Stage { node, owner: None, before: Vec::new() }]);
    }

    fn record_pipeline(&mut self, stages: &[Stage<'_>]) {
        let is_command = |stage: &Stage<'_>| match stage.node.kind() {
            "command"
            | "declaration_command"
            | "unset_command"
            | "variable_assignment"
            | "variable_assignments" => true,
            "test_command" => self.text_of(stage.node).starts_with("[ "),
            "redirected_statement" => stage
                .node
                .child_by_field_name("body")
                .is_none_or(|body| matches!(body.kind(), "command" | "declaration_command")),
            _ => false,
        };
        // After `<< END` the rest of the line is a child of the redirection.
        let continues = |node: Node<'_>| {
            let here =
                children(node).into_iter().filter(|child| child.kind() == "heredoc_redirect");
            here.flat_map(children).any(|part| {
                part.is_named() && !is_redirect_part(part.kind()) && !is_word(part.kind())
            })
        };
        let is_simple = stages.iter().all(|stage| {
            is_command(stage) && !continues(stage.node) && !stage.owner.is_some_and(continues)
        });
        self.script.is_plain &= is_simple;
        let end =
            |stage: &Stage<'_>| stage.owner.map_or(stage.node.end_byte(), |owner| owner.end_byte());
        let text =
            |stage: &Stage<'_>| self.text[stage.node.start_byte()..end(stage)].trim().to_owned();
        let start = stages.first().map_or(0, |stage| stage.node.start_byte());
        let at = start..stages.last().map_or(start, end);
        let stages = stages.iter().map(text).collect();
        self.script.pipelines.push(Pipeline { stages, is_simple, at });
    }

    /// Also for a statement with redirections; those may belong to the node around it.
    pub(super) fn visit_pipeline<'t>(
        &mut self,
        node: Node<'t>,
        owner: Option<Node<'t>>,
        context: &StatementContext,
    ) {
        let (mut stages, mut rest) = (Vec::new(), Vec::new());
        self.with_depth(|reader| {
            reader.collect_stages(node, owner, context, &mut stages, &mut rest);
        });
        if context.is_top {
            self.record_pipeline(&stages);
        }
        let n_stages = stages.len();
        for (n, stage) in stages.into_iter().enumerate() {
            let before = self.directory.clone();
            let mut inner = context.inner();
            inner.reads_pipe |= n > 0;
            inner.writes_pipe |= n + 1 < n_stages;
            for between in stage.before {
                self.mark_visited(between);
            }
            let Stage { node, owner, .. } = stage;
            match owner {
                Some(owner) => self.visit_redirected(owner, Some(node), &inner),
                None if node.kind() == "redirected_statement" => {
                    self.visit_redirected(node, node.child_by_field_name("body"), &inner);
                }
                None => self.visit_statement(node, &inner),
            }
            // Each stage runs in a subshell.
            if n_stages > 1 {
                self.directory = before;
            }
        }
        for ListRest { operator, node, owner } in rest {
            self.mark_visited(operator.byte_range());
            match owner {
                Some(_) => self.with_depth(|reader| reader.visit_pipeline(node, owner, context)),
                None => self.visit_statement(node, context),
            }
        }
    }

    /// The grammar parses `a && b | c >d | e` as `(a && b | c) >d | e`: statements that belong to
    /// no stage are visited here, and redirections go to the command before them.
    fn collect_stages<'t>(
        &mut self,
        node: Node<'t>,
        owner: Option<Node<'t>>,
        context: &StatementContext,
        stages: &mut Vec<Stage<'t>>,
        rest: &mut Vec<ListRest<'t>>,
    ) {
        let body = node.child_by_field_name("body");
        match node.kind() {
            "list" => {
                let parts = children(node);
                let (Some(first), Some(last)) = (parts.first(), parts.last()) else { return };
                self.visit_statement(*first, context);
                for part in &parts[1..parts.len() - 1] {
                    self.mark_visited(part.byte_range());
                }
                self.with_depth(|reader| {
                    reader.collect_stages(*last, owner, context, stages, rest);
                });
            }
            "pipeline" => {
                let parts = children(node);
                let last = parts.iter().rposition(|part| part.is_named() && !part.is_extra());
                // The operators, and comments between them.
                let mut before = Vec::new();
                for (n, part) in parts.into_iter().enumerate() {
                    let owner = owner.filter(|_| Some(n) == last);
                    if n == 0 {
                        self.with_depth(|reader| {
                            reader.collect_stages(part, owner, context, stages, rest);
                        });
                    } else if part.is_named() && !part.is_extra() {
                        let before = std::mem::take(&mut before);
                        self.collect_further_stages(part, owner, before, stages, rest);
                    } else {
                        before.push(part.byte_range());
                    }
                }
            }
            "redirected_statement"
                if body.is_some_and(|body| matches!(body.kind(), "list" | "pipeline")) =>
            {
                if owner.is_some() {
                    self.script.is_fully_parsed = false;
                }
                if let Some(body) = body {
                    self.with_depth(|reader| {
                        reader.collect_stages(body, Some(node), context, stages, rest);
                    });
                }
            }
            _ => stages.push(Stage { node, owner, before: Vec::new() }),
        }
    }

    /// The grammar parses `a | b | c && d` as `a | (b | c && d)`: the first of the list belongs to
    /// the pipeline, the others follow it.
    fn collect_further_stages<'t>(
        &mut self,
        node: Node<'t>,
        owner: Option<Node<'t>>,
        before: Vec<Range<usize>>,
        stages: &mut Vec<Stage<'t>>,
        rest: &mut Vec<ListRest<'t>>,
    ) {
        let parts: Vec<Node<'t>> = match node.kind() {
            "list" | "pipeline" => {
                children(node).into_iter().filter(|part| !part.is_extra()).collect()
            }
            _ => Vec::new(),
        };
        let Some((first, others)) = parts.split_first() else {
            stages.push(Stage { node, owner, before });
            return;
        };
        let is_list = node.kind() == "list";
        let at_end = |n: usize| owner.filter(|_| n + 1 == others.len());
        let own = owner.filter(|_| others.is_empty());
        self.with_depth(|reader| reader.collect_further_stages(*first, own, before, stages, rest));
        let mut operator = *first;
        for (n, part) in others.iter().enumerate() {
            match (part.is_named(), is_list) {
                (false, _) => operator = *part,
                (true, true) => rest.push(ListRest { operator, node: *part, owner: at_end(n) }),
                (true, false) => {
                    let before = vec![operator.byte_range()];
                    self.with_depth(|reader| {
                        reader.collect_further_stages(*part, at_end(n), before, stages, rest);
                    });
                }
            }
        }
    }
}
