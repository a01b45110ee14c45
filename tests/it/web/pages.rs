//! Pages in the shapes of well-known sites: their content is kept, and what is around it is not.
//!
//! A page is a shape (`tests/web/*.shape`) with a text (`tests/web/*.html`): five shapes, four texts.

use std::path::Path;

use serde_json::json;

use super::{NAMED, call_all, content, page, site, text};

const TEXTS: [&str; 4] = ["parser", "queue", "cache", "build"];

/// A shape, and how it marks a block of code: before and after it, and the language that is shown.
const SHAPES: [(&str, &str, &str, &str); 5] = [
    (
        "docs_rs",
        "<div class=\"example-wrap\"><pre class=\"rust rust-example-rendered\"><code>",
        "</code></pre></div>",
        "",
    ),
    (
        "mdn",
        "<div class=\"code-example\"><pre class=\"brush: js notranslate\"><code>",
        "</code></pre></div>",
        "",
    ),
    (
        "issue",
        "<div class=\"highlight notranslate\"><pre class=\"highlight-source-shell\">",
        "</pre></div>",
        "shell",
    ),
    (
        "forum",
        "<div class=\"codebox\"><p>Code: <a href=\"#\">Select all</a></p><pre><code>",
        "</code></pre></div>",
        "",
    ),
    ("man", "<pre>", "</pre>", ""),
];

fn stored(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/web");
    std::fs::read_to_string(folder.join(name)).unwrap()
}

/// Every third word in an element, as highlighters do.
fn highlighted(code: &str) -> String {
    let escaped = code.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let words = escaped.split_inclusive(' ').enumerate();
    let marked = words.map(|(n, word)| match n % 3 {
        0 => format!("<span class=\"token-{n}\">{word}</span>"),
        _ => word.to_owned(),
    });
    marked.collect()
}

struct Page {
    html: String,
    title: String,
    code: String,
    /// The texts of its paragraphs and items, without elements.
    sentences: Vec<String>,
}

fn compose((shape, before, after, _): (&str, &str, &str, &str), name: &str) -> Page {
    let stored_text = stored(&format!("{name}.html"));
    let (title, rest) = stored_text.split_once('\n').unwrap();
    let (body, code) = rest.split_once("\n<!-- code:\n").unwrap();
    let code = code.trim_end().trim_end_matches("-->").trim_end();
    let block = format!("{before}{}{after}", highlighted(code));
    let links: String = (1..=60)
        .map(|n| {
            format!("<li><a class=\"menu-item\" href=\"/section/{n}\">Menu entry {n}</a></li>\n")
        })
        .collect();
    let html = stored(&format!("{shape}.shape"))
        .replace("{{title}}", title)
        .replace("{{content}}", &body.replace("<!-- code -->", &block))
        .replace("{{links}}", &links)
        .replace("{{style}}", &".menu-item > a:hover { color: var(--link); }\n".repeat(80))
        .replace(
            "{{script}}",
            &"{\"settings\":{\"theme\":\"dark\",\"flags\":[1,2,3]}}\n".repeat(80),
        );
    let sentences = body.split(['<', '>']).skip(2).step_by(2).map(str::trim);
    let sentences = sentences.filter(|text| text.len() > 20).map(str::to_owned).collect();
    Page { html, title: title.to_owned(), code: code.to_owned(), sentences }
}

#[test]
fn content_of_twenty_pages_is_kept_and_navigation_is_gone() {
    let (_server, url) = site(|request| {
        let (shape, name) = request.path[1..].split_once('/').unwrap();
        let shape = SHAPES.into_iter().find(|known| known.0 == shape).unwrap();
        page(compose(shape, name).html)
    });
    let pages = SHAPES.into_iter().flat_map(|shape| TEXTS.map(|name| (shape, name)));
    let pages: Vec<_> = pages.collect();
    let inputs =
        pages.iter().map(|(shape, name)| json!({"url": format!("{url}/{}/{name}", shape.0)}));
    let envelopes = call_all(&inputs.collect::<Vec<_>>(), &NAMED);
    assert_eq!(envelopes.len(), 20);
    for ((shape, name), envelope) in pages.into_iter().zip(&envelopes) {
        let Page { html, title, code, sentences } = compose(shape, name);
        let shown = content(envelope);
        let place = format!("{} {name}\n{shown}", shape.0);
        assert!(text(envelope).contains(&title), "{place}");
        assert!(sentences.len() >= 8, "{sentences:?}");
        for sentence in &sentences {
            assert!(shown.contains(sentence.as_str()), "{sentence}: {place}");
        }
        let block = format!("```{}\n{code}\n```\n", shape.3);
        assert!(shown.contains(&block), "{block}: {place}");
        for menu in ["Menu entry", "Sign in", "Cookie settings", "settings\":", "hover"] {
            assert!(!shown.contains(menu), "{menu}: {place}");
        }
        let (shown, whole) = (shown.len(), html.len());
        assert!(shown * 100 <= whole * 15, "{shown} of {whole} bytes: {place}");
    }
}
