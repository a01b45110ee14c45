//! The common parts of self-contained HTML pages.

use agent_protocol::terminal_escape::escape_prose;

/// From `<html>` to `<body>`. `policy`: what the page may load; `attributes`: those of its style element.
pub(crate) fn head(title: &str, policy: &str, attributes: &str, style: &str) -> String {
    format!(
        "<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; {policy}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n{}\
         <style{attributes}>\n{style}</style>\n</head>\n<body>\n",
        element("title", title)
    )
}

pub(crate) const END: &str = "</body>\n</html>\n";

pub(crate) fn element(name: &str, content: &str) -> String {
    format!("<{name}>{}</{name}>\n", escape_text(content))
}

/// Escapes foreign text: it cannot contain markup, terminal control or text direction marks.
pub(crate) fn escape_text(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in escape_prose(text).chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}
