//! WebFetch: requests a page of the web and shows its text as Markdown, or an image.

mod markdown;

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use url::Url;

use super::{
    CallTarget, Tool, ToolCx, cancelled_failure, embedded_spec, fill_defaults, json_object,
    parse_input, read, run_blocking,
};
use agent_host::workspace::{Charset, ImageData, ImageKind};
use agent_protocol::embedded;
use agent_protocol::envelope::{ErrorCode, Failure, Report};
use agent_protocol::mask::Masker;
use agent_protocol::terminal_escape::hides_text;
use agent_protocol::tool::{Effect, ToolSpec};
use agent_protocol::web::{PageAddress, PageLoader, PageRequest, PageResponse, WEB_FETCH};
use agent_protocol::{Object, format_thousands, one_line, shorten};

/// How long a page is shown again without a request.
const CACHE_TIME: Duration = Duration::from_mins(15);
const MAX_CACHED: usize = 16;
/// A longer line is broken, so that paging reaches all of it.
const MAX_LINE_BYTES: usize = 2000;
/// Bytes of text in one result.
const MAX_SHOWN_BYTES: usize = 40_000;
/// Bytes of the beginning of a page that show its type and may name its encoding.
const HEAD_BYTES: usize = 2048;
const PARSING_TIME: Duration = Duration::from_secs(5);
const MAX_TITLE_BYTES: usize = 200;
/// A page with scripts and less text than this may need them.
const LITTLE_TEXT: usize = 200;
/// Parts of the types of text that do not begin with `text/`.
const TEXT_TYPES: [&str; 7] = ["json", "script", "xml", "yaml", "toml", "x-sh", "sql"];

/// What the agents of a session share to reach the web.
pub struct WebAccess {
    load: PageLoader,
    masker: Arc<Masker>,
    pages: Mutex<Vec<Arc<WebPage>>>,
}

struct WebPage {
    /// As requested, and whether a rule named the host.
    key: (Url, bool),
    loaded: Instant,
    /// After redirects.
    url: Url,
    title: String,
    text: String,
    /// The size of what the server sent.
    n_bytes: usize,
    notes: String,
    /// Of the whole text in `tool-output/`; `None` if it could not be written.
    path: OnceLock<Option<String>>,
}

impl WebAccess {
    /// Access by this client. A URL that contains a secret which `masker` knows is not requested.
    pub fn new(load: PageLoader, masker: Arc<Masker>) -> Self {
        Self { load, masker, pages: Mutex::default() }
    }

    /// No page can be reached.
    pub fn none() -> Self {
        let failure = || Failure::new(ErrorCode::ExecutionError, "there is no access to the web");
        let load = move |_: PageRequest| std::future::ready(Err(failure())).boxed();
        Self::new(Arc::new(load), Arc::default())
    }

    fn cached(&self, key: &(Url, bool)) -> Option<Arc<WebPage>> {
        let mut pages = self.pages.lock();
        pages.retain(|page| page.loaded.elapsed() < CACHE_TIME);
        pages.iter().find(|page| page.key == *key).cloned()
    }

    fn store(&self, page: Arc<WebPage>) {
        let mut pages = self.pages.lock();
        if pages.len() >= MAX_CACHED {
            pages.remove(0);
        }
        pages.push(page);
    }

    /// Also finds secrets whose characters are encoded.
    pub(super) fn check_secrets(&self, text: &str) -> Result<(), Failure> {
        check_secrets(text, |text| *self.masker.mask(text) == *text)
    }
}

fn check_secrets(text: &str, is_clean: impl Fn(&str) -> bool) -> Result<(), Failure> {
    let mut pieces = url::form_urlencoded::parse(text.as_bytes());
    if is_clean(text) && pieces.all(|(name, value)| is_clean(&name) && is_clean(&value)) {
        return Ok(());
    }
    Err(Failure::new(ErrorCode::AccessDenied, "not sent: it contains a secret")
        .with_hint("leave the secret out"))
}

pub(super) async fn check_project_secrets(text: String, cx: &ToolCx) -> Result<(), Failure> {
    let (secrets, workspace) = (Arc::clone(&cx.secrets), Arc::clone(&cx.workspace));
    let check = move || {
        let redactor = secrets.redactor(&workspace);
        check_secrets(&text, |text| *redactor.redact(text) == *text)
    };
    run_blocking(check).await
}

#[derive(Debug, Deserialize, Serialize)]
struct Args {
    url: String,
    #[serde(default = "first_line")]
    start_line: i64,
    #[serde(default = "default_limit")]
    limit: usize,
}

fn first_line() -> i64 {
    1
}

fn default_limit() -> usize {
    500
}

struct WebFetchTool(ToolSpec);

pub(super) fn tool() -> impl Tool {
    WebFetchTool(embedded_spec(WEB_FETCH, embedded::WEB_FETCH))
}

impl Tool for WebFetchTool {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn target(&self, input: &Object, cx: &ToolCx) -> Result<CallTarget, Failure> {
        let args: Args = parse_input(input)?;
        cx.web.check_secrets(&args.url)?;
        let PageAddress { url, host } = parse_address(&args.url)?;
        Ok(Effect::Fetch { url: url.into(), host }.into())
    }

    fn canonical_input(&self, input: &Object) -> Object {
        fill_defaults::<Args>(input)
    }

    fn run<'a>(&'a self, input: Object, cx: &'a ToolCx) -> BoxFuture<'a, Result<Report, Failure>> {
        let fetch = async move { fetch(parse_input(&input)?, cx.clone()).await };
        Box::pin(async move {
            cx.cancel.run_until_cancelled(fetch).await.unwrap_or_else(|| Err(cancelled_failure()))
        })
    }
}

fn parse_address(text: &str) -> Result<PageAddress, Failure> {
    PageAddress::parse(text).map_err(|why| {
        let shown = shorten(&one_line(text), MAX_TITLE_BYTES);
        let message = format!("{shown:?} is not the address of a web page: {why}");
        Failure::new(ErrorCode::InvalidParam, message)
            .with_hint("write it like https://docs.rs/serde/latest/serde/")
    })
}

async fn fetch(args: Args, cx: ToolCx) -> Result<Report, Failure> {
    let address = parse_address(&args.url)?;
    let key = (address.url.clone(), cx.is_host_named);
    if let Some(page) = cx.web.cached(&key) {
        return run_blocking(move || show_page(&page, &args, &cx)).await;
    }
    check_project_secrets(args.url.clone(), &cx).await?;
    let request = PageRequest { address, is_host_named: cx.is_host_named };
    let (url, content_type, body) = match (cx.web.load)(request).await? {
        PageResponse::Page { url, content_type, body } => (url, content_type, body),
        PageResponse::Redirect { status, target } => {
            let from = args.url.trim();
            let text = format!("{from} redirects to {target} ({status}), which was not requested.");
            let data = json_object(json!({ "redirect": target }));
            return Ok(Report { text, data, ..Report::default() });
        }
    };
    run_blocking(move || {
        if ImageKind::of(&body).is_some() {
            return image_report(&url, body, &cx);
        }
        let page = Arc::new(WebPage::new(key, url, &content_type, &body)?);
        cx.web.store(Arc::clone(&page));
        show_page(&page, &args, &cx)
    })
    .await
}

fn image_report(url: &Url, body: Vec<u8>, cx: &ToolCx) -> Result<Report, Failure> {
    let size = format_thousands(body.len() as u64);
    let refused = |why: &str| {
        Failure::new(ErrorCode::BinaryFile, format!("{url} is an image of {size} bytes: {why}"))
    };
    if !cx.takes_images {
        return Err(refused("you receive no images"));
    }
    let picture = ImageData::from_bytes(body).map_err(|why| refused(&why))?;
    read::stored_image(cx, picture, &format!("The image {url}"))
}

impl WebPage {
    fn new(key: (Url, bool), url: Url, content_type: &str, body: &[u8]) -> Result<Self, Failure> {
        let head =
            String::from_utf8_lossy(&body[..body.len().min(HEAD_BYTES)]).to_ascii_lowercase();
        let content_type = content_type.to_ascii_lowercase();
        let (media_type, parameters) = content_type.split_once(';').unwrap_or((&content_type, ""));
        let media_type = media_type.trim();
        let is_unnamed = matches!(media_type, "" | "application/octet-stream");
        let begin = head.trim_start_matches(['\u{feff}', ' ', '\t', '\r', '\n']);
        let is_html = matches!(media_type, "text/html" | "application/xhtml+xml")
            || is_unnamed && (begin.starts_with("<!doctype html") || begin.starts_with("<html"));
        let is_text = is_unnamed
            || media_type.starts_with("text/")
            || TEXT_TYPES.iter().any(|part| media_type.contains(part));
        // Text has no zero bytes, except in UTF-16.
        let is_wide = body.starts_with(&[0xFF, 0xFE]) || body.starts_with(&[0xFE, 0xFF]);
        if !is_text || head.contains('\0') && !is_wide {
            let size = format_thousands(body.len() as u64);
            let what = if is_unnamed { "binary data" } else { media_type };
            let message =
                format!("{url} is {what}, {size} bytes: not text, HTML, JSON or an image");
            return Err(Failure::new(ErrorCode::BinaryFile, message)
                .with_hint("if you need the file, download it with a command"));
        }
        let in_page = || charset_in(&head).filter(|_| is_html);
        let (charset, mut text) =
            Charset::decode_labelled(body, charset_in(parameters).or_else(in_page));
        let (mut title, mut notes) = (String::new(), String::new());
        if charset.is_guessed() {
            notes.push_str(&format!(" The encoding, {}, is a guess.", charset.name()));
        }
        if is_html {
            let start = Instant::now();
            let page = markdown::convert(&text, &url, &|| start.elapsed() > PARSING_TIME);
            (title, text) = (page.title, page.text);
            if page.is_cut {
                notes.push_str(" The page was too complex to be read to its end.");
            }
            if page.has_scripts && text.len() < LITTLE_TEXT {
                let note =
                    " It has scripts and little text: it may need JavaScript, which is not run.";
                notes.push_str(note);
            }
        } else if media_type.ends_with("json")
            && let Ok(value) = serde_json::from_str::<Value>(&text)
        {
            text = format!("{value:#}");
        }
        let title: String = one_line(&title).chars().filter(|char| !hides_text(*char)).collect();
        let (title, text) = (shorten(&title, MAX_TITLE_BYTES), break_lines(&text));
        let (loaded, n_bytes) = (Instant::now(), body.len());
        Ok(Self { key, loaded, url, title, text, n_bytes, notes, path: OnceLock::new() })
    }
}

/// `text/html; charset="utf-8"`, `<meta charset=utf-8>`.
fn charset_in(text: &str) -> Option<&str> {
    let (_, name) = text.split_once("charset=")?;
    let name = name.trim_start_matches(['"', '\'', ' ']);
    let end = name.find(|char: char| !char.is_ascii_alphanumeric() && !"-_:".contains(char));
    Some(&name[..end.unwrap_or(name.len())])
}

/// Without characters that hide or reorder text.
fn break_lines(text: &str) -> String {
    let mut broken = String::with_capacity(text.len());
    for line in text.lines() {
        let line: String =
            line.chars().filter(|char| *char == '\t' || !hides_text(*char)).collect();
        let mut rest = line.trim_end();
        while rest.len() > MAX_LINE_BYTES {
            let most = rest.floor_char_boundary(MAX_LINE_BYTES);
            let end = rest[..most].rfind(' ').map_or(most, |at| at + 1);
            broken.extend([&rest[..end], "\n"]);
            rest = &rest[end..];
        }
        broken.extend([rest, "\n"]);
    }
    broken
}

/// The lines that were asked for, as far as they fit into a result.
fn show_page(page: &WebPage, args: &Args, cx: &ToolCx) -> Result<Report, Failure> {
    let WebPage { url, title, text, n_bytes, notes, .. } = page;
    let n_lines = text.lines().count();
    let n = usize::try_from(args.start_line.unsigned_abs()).unwrap_or(usize::MAX);
    let skipped = if args.start_line > 0 { n - 1 } else { n_lines.saturating_sub(n) };
    if args.start_line == 0 || skipped > 0 && skipped >= n_lines {
        let message = format!("there is no line {}: {url} has {n_lines} lines", args.start_line);
        return Err(Failure::new(ErrorCode::InvalidParam, message)
            .with_hint("the first line is 1; -1 is the last"));
    }
    let (mut content, mut end) = (String::new(), skipped);
    for line in text.lines().skip(skipped).take(args.limit) {
        if content.len() + line.len() > MAX_SHOWN_BYTES && end > skipped {
            break;
        }
        content.extend([line, "\n"]);
        end += 1;
    }
    let (start, is_whole) = (skipped + 1, skipped == 0 && end == n_lines);
    let name = if title.is_empty() { String::new() } else { format!(" ({title:?})") };
    let mut words = match (n_lines, is_whole) {
        (0, _) => format!("The page {url}{name} has no text."),
        (_, true) => format!("The text of the page {url}{name}."),
        (_, false) => format!("Lines {start}-{end} of {n_lines} of the page {url}{name}."),
    };
    if end < n_lines {
        words.push_str(&format!(" More follow: continue with start_line {}.", end + 1));
    }
    let mut path = None;
    if !is_whole {
        path = page.path.get_or_init(|| cx.spill.write(WEB_FETCH, text).ok()).as_ref();
        words.extend(path.map(|path| format!(" The whole text is in {path}.")));
    }
    words.push_str(notes);
    let stats = json_object(json!({ "page_bytes": n_bytes, "shown_bytes": content.len() }));
    let mut data = json_object(json!({
        "content": content, "start_line": start, "end_line": end, "total_lines": n_lines,
    }));
    data.extend(path.map(|path| ("full_output".to_owned(), path.clone().into())));
    let has_more = end < n_lines;
    if has_more {
        data.insert("truncated".to_owned(), true.into());
    }
    Ok(Report { partial: has_more, data, text: words, stats, path: None })
}
