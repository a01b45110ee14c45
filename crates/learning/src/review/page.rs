//! Renders a review as Markdown or as a self-contained HTML page.

use super::Review;
use super::report::{Block, blocks};

const STYLE: &str = include_str!("page.css");

/// As Markdown.
pub fn markdown(review: &Review) -> String {
    let mut page = String::new();
    for block in blocks(review) {
        match block {
            Block::Title(text) => page.push_str(&format!("# {text}\n\n")),
            Block::Heading(text) => page.push_str(&format!("## {text}\n\n")),
            Block::Text(text) | Block::Note(text) => page.push_str(&format!("{text}\n\n")),
            Block::List(items) => {
                for item in items {
                    page.push_str(&format!("- {item}\n"));
                }
                page.push('\n');
            }
            Block::Lines(lines) => {
                page.push_str(&format!("```diff\n{}\n```\n\n", lines.join("\n")));
            }
            Block::Table { head, rows, numbers } => {
                page.push_str(&row(head.iter().copied()));
                let rule =
                    (0..head.len()).map(|at| if numbers.contains(&at) { "--:" } else { "---" });
                page.push_str(&row(rule));
                for cells in rows {
                    // A bar would end the cell.
                    let cells: Vec<String> =
                        cells.iter().map(|cell| cell.replace('|', "\\|")).collect();
                    page.push_str(&row(cells.iter().map(String::as_str)));
                }
                page.push('\n');
            }
        }
    }
    page.truncate(page.trim_end().len());
    page.push('\n');
    page
}

fn row<'a>(cells: impl Iterator<Item = &'a str>) -> String {
    format!("| {} |\n", cells.collect::<Vec<_>>().join(" | "))
}

/// As one HTML page that loads and executes nothing.
pub fn html(review: &Review) -> String {
    let blocks = blocks(review);
    let title = blocks.iter().find_map(|block| match block {
        Block::Title(text) => Some(escaped(text)),
        _ => None,
    });
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>{}</title>\n<style>\n{STYLE}</style>\n\
         </head>\n<body>\n<main>\n",
        title.unwrap_or_default()
    );
    for block in blocks {
        match block {
            Block::Title(text) => page.push_str(&format!("<h1>{}</h1>\n", inline(&text))),
            Block::Heading(text) => page.push_str(&format!("<h2>{}</h2>\n", inline(&text))),
            Block::Text(text) => page.push_str(&format!("<p>{}</p>\n", inline(&text))),
            Block::Note(text) => {
                page.push_str(&format!("<p class=\"note\">{}</p>\n", inline(&text)));
            }
            Block::List(items) => {
                let items = items.iter().map(|item| format!("<li>{}</li>\n", inline(item)));
                page.push_str(&format!("<ul>\n{}</ul>\n", items.collect::<String>()));
            }
            Block::Lines(lines) => {
                let lines = lines.iter().map(|line| {
                    let class = if line.starts_with('+') && !line.starts_with("+++") {
                        " class=\"new\""
                    } else {
                        ""
                    };
                    // The style puts each on its own line.
                    format!("<span{class}>{}</span>", escaped(line))
                });
                page.push_str(&format!("<pre>{}</pre>\n", lines.collect::<String>()));
            }
            Block::Table { head, rows, numbers } => {
                page.push_str("<div class=\"wide\"><table>\n<thead>");
                page.push_str(&cells("th", head.iter().copied(), &numbers));
                page.push_str("</thead>\n<tbody>\n");
                for row in rows {
                    page.push_str(&cells("td", row.iter().map(String::as_str), &numbers));
                }
                page.push_str("</tbody>\n</table></div>\n");
            }
        }
    }
    page.push_str("</main>\n</body>\n</html>\n");
    page
}

fn cells<'a>(tag: &str, texts: impl Iterator<Item = &'a str>, numbers: &[usize]) -> String {
    let cells = texts.enumerate().map(|(at, text)| {
        let class = if numbers.contains(&at) { " class=\"n\"" } else { "" };
        format!("<{tag}{class}>{}</{tag}>", inline(text))
    });
    format!("<tr>{}</tr>\n", cells.collect::<String>())
}

/// A text with code in backticks.
fn inline(text: &str) -> String {
    let mut html = String::new();
    for (at, part) in text.split('`').enumerate() {
        let part = escaped(part);
        html.push_str(&if at % 2 == 1 { format!("<code>{part}</code>") } else { part });
    }
    html
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
