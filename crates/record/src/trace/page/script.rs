//! The script and the style of the page, from separate files.

pub(super) const STYLE: &str = include_str!("page.css");

/// The files share one scope; each uses only those before it, except in functions.
pub(super) const SCRIPT: &str = concat!(
    "\"use strict\";\n",
    include_str!("dom.js"),
    include_str!("fold.js"),
    include_str!("charts.js"),
    include_str!("detail.js"),
    include_str!("panels.js"),
    include_str!("timeline.js"),
    include_str!("page.js"),
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn script_and_style_contain_no_end_tag() {
        for text in [SCRIPT, STYLE] {
            assert!(!text.contains("</") && !text.contains("<!--"));
        }
    }
}
