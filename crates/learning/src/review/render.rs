//! Renders a review as Markdown or as a self-contained HTML page.

use super::Review;
use super::report::{ReportBlock, report_blocks};

const STYLE: &str = include_str!("page.css");

/// As Markdown.
pub fn render_markdown(review: &Review) -> String {
    let mut page = String::new();
    for block in report_blocks(review) {
        match block {
            ReportBlock::Title(text) => page.push_str(&format!("# {text}\n\n")),
            ReportBlock::Heading(text) => page.push_str(&format!("## {text}\n\n")),
            ReportBlock::Text(text) | ReportBlock::Note(text) => {
                page.push_str(&format!("{text}\n\n"));
            }
            ReportBlock::List(items) => {
                for item in items {
                    page.push_str(&format!("- {item}\n"));
                }
                page.push('\n');
            }
            ReportBlock::Lines(lines) => {
                page.push_str(&format!("```diff\n{}\n```\n\n", lines.join("\n")));
            }
            ReportBlock::Table { head, rows, numbers } => {
                page.push_str(&markdown_row(head.iter().copied()));
                let rule =
                    (0..head.len()).map(|at| if numbers.contains(&at) { "--:" } else { "---" });
                page.push_str(&markdown_row(rule));
                for cells in rows {
                    // A bar would end the cell.
                    let cells: Vec<String> =
                        cells.iter().map(|cell| cell.replace('|', "\\|")).collect();
                    page.push_str(&markdown_row(cells.iter().map(String::as_str)));
                }
                page.push('\n');
            }
        }
    }
    page.truncate(page.trim_end().len());
    page.push('\n');
    page
}

fn markdown_row<'a>(cells: impl Iterator<Item = &'a str>) -> String {
    format!("| {} |\n", cells.collect::<Vec<_>>().join(" | "))
}

/// As one HTML page that loads and executes nothing.
pub fn render_html(review: &Review) -> String {
    let blocks = report_blocks(review);
    let title = blocks.iter().find_map(|block| match block {
        ReportBlock::Title(text) => Some(escape_html(text)),
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
            ReportBlock::Title(text) => {
                page.push_str(&format!("<h1>{}</h1>\n", inline_html(&text)));
            }
            ReportBlock::Heading(text) => {
                page.push_str(&format!("<h2>{}</h2>\n", inline_html(&text)));
            }
            ReportBlock::Text(text) => page.push_str(&format!("<p>{}</p>\n", inline_html(&text))),
            ReportBlock::Note(text) => {
                page.push_str(&format!("<p class=\"note\">{}</p>\n", inline_html(&text)));
            }
            ReportBlock::List(items) => {
                let items = items.iter().map(|item| format!("<li>{}</li>\n", inline_html(item)));
                page.push_str(&format!("<ul>\n{}</ul>\n", items.collect::<String>()));
            }
            ReportBlock::Lines(lines) => {
                let lines = lines.iter().map(|line| {
                    let class = if line.starts_with('+') && !line.starts_with("+++") {
                        " class=\"new\""
                    } else {
                        ""
                    };
                    // The style puts each on its own line.
                    format!("<span{class}>{}</span>", escape_html(line))
                });
                page.push_str(&format!("<pre>{}</pre>\n", lines.collect::<String>()));
            }
            ReportBlock::Table { head, rows, numbers } => {
                page.push_str("<div class=\"wide\"><table>\n<thead>");
                page.push_str(&html_row("th", head.iter().copied(), &numbers));
                page.push_str("</thead>\n<tbody>\n");
                for row in rows {
                    page.push_str(&html_row("td", row.iter().map(String::as_str), &numbers));
                }
                page.push_str("</tbody>\n</table></div>\n");
            }
        }
    }
    page.push_str("</main>\n</body>\n</html>\n");
    page
}

fn html_row<'a>(tag: &str, texts: impl Iterator<Item = &'a str>, numbers: &[usize]) -> String {
    let cells = texts.enumerate().map(|(at, text)| {
        let class = if numbers.contains(&at) { " class=\"n\"" } else { "" };
        format!("<{tag}{class}>{}</{tag}>", inline_html(text))
    });
    format!("<tr>{}</tr>\n", cells.collect::<String>())
}

/// A text with code in backticks.
fn inline_html(text: &str) -> String {
    let mut html = String::new();
    for (at, part) in text.split('`').enumerate() {
        let part = escape_html(part);
        html.push_str(&if at % 2 == 1 { format!("<code>{part}</code>") } else { part });
    }
    html
}

fn escape_html(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
