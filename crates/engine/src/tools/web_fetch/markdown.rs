//! The main content of an HTML page as Markdown: without navigation, scripts and what is hidden. Pure.

use std::cell::RefCell;
use std::rc::Rc;

use htmd::element_handler::{HandlerResult, Handlers};
use htmd::options::{BulletListMarker, HrStyle, Options};
use htmd::{Element, HtmlToMarkdown, Node};
use html5ever::tendril::{StrTendril, TendrilSink as _};
use html5ever::tree_builder::TreeBuilderOpts;
use html5ever::{ParseOpts, parse_document};
use markup5ever_rcdom::{NodeData, RcDom};
use url::{Position, Url};

use agent_protocol::one_line;

/// Bytes that are parsed between two looks at the clock.
const PIECE: usize = 4096;
/// Elements that are nested deeper are shown as text: conversion is recursive.
const MAX_DEPTH: usize = 100;
/// Children of an element above which equal neighbours are not joined, which takes quadratic time.
const MANY_CHILDREN: usize = 1000;

/// Elements and roles that are never content.
const NO_CONTENT: &str = "alertdialog audio banner button canvas contentinfo dialog embed input link menu menubar \
    meta nav navigation noframes object script search select style svg tablist template textarea title toolbar video";
/// Content only inside of the main content.
const AROUND_CONTENT: &str = "aside complementary footer header";
/// May hold the content, together with something else.
const CONTAINERS: &str = "article body center div form html main section span";
/// May be a list of links.
const LISTS: &str = "div dl ol p section table td ul";
/// Begin the class that names the language of code.
const LANGUAGE_PREFIXES: [&str; 3] = ["language-", "lang-", "highlight-source-"];

pub(super) struct MarkdownPage {
    pub(super) title: String,
    pub(super) text: String,
    pub(super) has_scripts: bool,
    /// The time did not suffice.
    pub(super) is_cut: bool,
}

type Handle = Rc<Node>;

/// `is_late` is polled while the page is parsed.
pub(super) fn convert(html: &str, page: &Url, is_late: &dyn Fn() -> bool) -> MarkdownPage {
    let (document, is_cut) = parse(html, is_late);
    let element = |name: &str| find(&document, |node| tag(node) == name);
    let title = element("title").map(|title| text_of(&title)).unwrap_or_default();
    let has_scripts = element("script").is_some();
    let base = element("base").and_then(|base| page.join(&attribute(&base, "href")?).ok());
    clean(&document, 0, false);
    let converter = converter(page.clone(), base.unwrap_or_else(|| page.clone()));
    let text = converter.tree_to_markdown(&main_content(&document));
    MarkdownPage { title, text, has_scripts, is_cut }
}

/// In pieces: the time that nested elements take grows with their depth.
fn parse(html: &str, is_late: &dyn Fn() -> bool) -> (Handle, bool) {
    let tree_builder = TreeBuilderOpts { scripting_enabled: false, ..TreeBuilderOpts::default() };
    let options = ParseOpts { tree_builder, ..ParseOpts::default() };
    let mut parser = parse_document(RcDom::default(), options);
    let mut rest = html;
    while !rest.is_empty() && !is_late() {
        let (piece, after) = rest.split_at(rest.floor_char_boundary(PIECE));
        parser.process(StrTendril::from(piece));
        rest = after;
    }
    (parser.finish().document, !rest.is_empty())
}

fn tag(node: &Node) -> &str {
    match &node.data {
        NodeData::Element { name, .. } => &name.local,
        _ => "",
    }
}

fn attribute(node: &Node, wanted: &str) -> Option<String> {
    let NodeData::Element { attrs, .. } = &node.data else { return None };
    let attrs = attrs.borrow();
    attrs.iter().find(|attr| *attr.name.local == *wanted).map(|attr| attr.value.to_string())
}

fn is_in(list: &str, name: &str) -> bool {
    list.split(' ').any(|other| other == name)
}

/// The first node, in document order. Not recursive.
fn find(root: &Handle, is_it: impl Fn(&Node) -> bool) -> Option<Handle> {
    let mut open = vec![Rc::clone(root)];
    while let Some(node) = open.pop() {
        if is_it(&node) {
            return Some(node);
        }
        open.extend(node.children.borrow().iter().rev().cloned());
    }
    None
}

/// All text of a node; a line break for `<br>`. Not recursive.
fn text_of(root: &Handle) -> String {
    let mut text = String::new();
    let mut open = vec![Rc::clone(root)];
    while let Some(node) = open.pop() {
        match &node.data {
            NodeData::Text { contents } => text.push_str(&contents.borrow()),
            _ if tag(&node) == "br" => text.push('\n'),
            _ => open.extend(node.children.borrow().iter().rev().cloned()),
        }
    }
    text
}

/// Removes what is no content below this node. `is_content`: the page marks it as such.
fn clean(node: &Handle, depth: usize, is_content: bool) {
    if depth > MAX_DEPTH {
        let contents = RefCell::new(text_of(node).into());
        *node.children.borrow_mut() = vec![Node::new(NodeData::Text { contents })];
        return;
    }
    let is_content = is_content || is_main(node) || tag(node) == "article";
    let mut children = node.children.borrow_mut();
    children.retain(|child| !is_left_out(child, is_content));
    children.iter().for_each(|child| clean(child, depth + 1, is_content));
    if children.len() > MANY_CHILDREN {
        let separator = || Node::new(NodeData::Comment { contents: StrTendril::new() });
        *children = children.drain(..).flat_map(|child| [child, separator()]).collect();
    }
}

fn is_main(node: &Node) -> bool {
    tag(node) == "main" || attribute(node, "role").as_deref() == Some("main")
}

fn is_left_out(node: &Node, is_content: bool) -> bool {
    let value = |name: &str| attribute(node, name).unwrap_or_default();
    let is_of = |list: &str| is_in(list, tag(node)) || is_in(list, &value("role"));
    is_of(NO_CONTENT)
        || !is_content && is_of(AROUND_CONTENT)
        || attribute(node, "hidden").is_some()
        || value("aria-hidden") == "true"
        || value("style").replace(' ', "").contains("display:none")
}

/// What the page marks as its main content; otherwise the smallest element with most of the text.
fn main_content(document: &Handle) -> Handle {
    let all = weight(document);
    if let Some(main) = find(document, |node| is_main(node) && weight(node) * 4 >= all) {
        return main;
    }
    let mut root = Rc::clone(document);
    loop {
        let whole = weight(&root);
        let is_most =
            |child: &&Handle| is_in(CONTAINERS, tag(child)) && weight(child) * 4 > whole * 3;
        let inner = root.children.borrow().iter().find(is_most).cloned();
        let Some(inner) = inner else { break };
        root = inner;
    }
    // Navigation consists of links. A page that has little else is a page of links.
    let TextAmount { all, .. } = amount(&root);
    if (all - listed_text(&root)) * 5 >= all {
        drop_link_lists(&root);
    }
    root
}

/// The amount of text. That of links counts a quarter.
fn weight(node: &Node) -> usize {
    let TextAmount { all, linked, .. } = amount(node);
    all - linked + linked / 4
}

/// Bytes of text without spaces.
#[derive(Clone, Copy, Default)]
struct TextAmount {
    all: usize,
    linked: usize,
    n_links: usize,
}

fn amount(node: &Node) -> TextAmount {
    let mut sum = TextAmount::default();
    if let NodeData::Text { contents } = &node.data {
        sum.all = contents.borrow().split_whitespace().map(str::len).sum();
    }
    for part in node.children.borrow().iter().map(|child| amount(child)) {
        sum.all += part.all;
        sum.linked += part.linked;
        sum.n_links += part.n_links;
    }
    if tag(node) == "a" && attribute(node, "href").is_some() {
        (sum.linked, sum.n_links) = (sum.all, 1);
    }
    sum
}

fn is_link_list(node: &Node) -> bool {
    let TextAmount { all, linked, n_links } = amount(node);
    is_in(LISTS, tag(node)) && n_links >= 3 && linked * 10 >= all * 7
}

fn listed_text(node: &Node) -> usize {
    let in_child = |child: &Handle| {
        if is_link_list(child) { amount(child).all } else { listed_text(child) }
    };
    node.children.borrow().iter().map(in_child).sum()
}

fn drop_link_lists(node: &Node) {
    let mut children = node.children.borrow_mut();
    children.retain(|child| !is_link_list(child));
    children.iter().for_each(|child| drop_link_lists(child));
}

fn converter(page: Url, base: Url) -> HtmlToMarkdown {
    let options = Options {
        hr_style: HrStyle::Dashes,
        bullet_list_marker: BulletListMarker::Dash,
        ul_bullet_spacing: 1,
        ol_number_spacing: 1,
        ..Options::default()
    };
    let frame_base = base.clone();
    let link = move |handlers: &dyn Handlers, element: Element<'_>| {
        let content = handlers.walk_children(element.node).content;
        link(element.node, content, &page, &base).map(HandlerResult::from)
    };
    let frame = move |_: &dyn Handlers, element: Element<'_>| {
        let target = frame_base.join(&attribute(element.node, "src")?).ok()?;
        Some(HandlerResult::from(format!("\n\n[frame: {target}]\n\n")))
    };
    let image = |_: &dyn Handlers, element: Element<'_>| {
        let text = attribute(element.node, "alt").filter(|text| !text.trim().is_empty())?;
        Some(HandlerResult::from(format!("[image: {}]", text.trim())))
    };
    let code = |_: &dyn Handlers, element: Element<'_>| {
        Some(HandlerResult::from(code_block(element.node)))
    };
    HtmlToMarkdown::builder()
        .options(options)
        .add_handler(vec!["a"], link)
        .add_handler(vec!["iframe", "frame"], frame)
        .add_handler(vec!["img"], image)
        .add_handler(vec!["pre"], code)
        .build()
}

/// With its whole address; a link into the same page is its text. `None`: it says nothing, like the mark of a heading.
fn link(node: &Node, content: String, page: &Url, base: &Url) -> Option<String> {
    let target = attribute(node, "href").and_then(|target| base.join(&target).ok());
    let target = target.filter(|target| matches!(target.scheme(), "http" | "https" | "mailto"));
    let Some(target) = target else { return Some(content) };
    if target[..Position::AfterQuery] == page[..Position::AfterQuery] {
        return content.contains(char::is_alphanumeric).then_some(content);
    }
    let text = one_line(&content);
    let space = |is_space: bool| if is_space { " " } else { "" };
    let before = space(content.starts_with(char::is_whitespace));
    let after = space(content.ends_with(char::is_whitespace));
    (!text.is_empty()).then(|| format!("{before}[{text}]({target}){after}"))
}

/// With its text as it is, whatever elements highlight it.
fn code_block(block: &Handle) -> String {
    let text = text_of(block);
    let text = text.trim_end().trim_start_matches('\n');
    let longest = text.split(|char| char != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    let code = find(block, |node| tag(node) == "code");
    let classes = [Some(block), code.as_ref()].into_iter().flatten();
    let classes: Vec<String> = classes.filter_map(|node| attribute(node, "class")).collect();
    let classes = classes.join(" ");
    let language = classes
        .split_whitespace()
        .find_map(|class| LANGUAGE_PREFIXES.iter().find_map(|prefix| class.strip_prefix(prefix)));
    let language = language.filter(|name| !name.contains('`')).unwrap_or_default();
    format!("\n\n{fence}{language}\n{text}\n{fence}\n\n")
}
