//! Templates in scripts: `{{last.text}}`, `{{last.line}}` and `{{match.1}}`.

use serde_json::Value;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Template {
    pieces: Vec<TemplatePiece>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum TemplatePiece {
    Literal(String),
    LastText,
    LastLine,
    Match(usize),
}

#[derive(Clone, Debug, Default)]
pub(super) struct TemplateValues {
    pub(super) last: String,
    /// Groups of the turn's `expect`, the first one at 0.
    pub(super) groups: Vec<String>,
}

impl Template {
    /// Other `{{…}}` are ordinary text: a script may write a file that contains them.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut pieces = Vec::new();
        let mut rest = text;
        let mut literal = String::new();
        while let Some(start) = rest.find("{{") {
            let (before, hole) = rest.split_at(start);
            literal.push_str(before);
            let end = hole.find("}}").map_or(hole.len(), |end| end + 2);
            let name = hole[..end].trim_start_matches("{{").trim_end_matches("}}").trim();
            let piece = match name.split_once('.') {
                Some(("last", "text")) => Some(TemplatePiece::LastText),
                Some(("last", "line")) => Some(TemplatePiece::LastLine),
                Some(("match", group)) if group.parse().is_ok_and(|group: usize| group > 0) => {
                    group.parse().ok().map(TemplatePiece::Match)
                }
                Some(("last" | "match", _)) => {
                    return Err(format!(
                        "unknown `{}`: there are {{{{last.text}}}}, {{{{last.line}}}} and \
                         {{{{match.1}}}}, {{{{match.2}}}} …",
                        &hole[..end]
                    ));
                }
                _ => None,
            };
            match piece {
                Some(piece) => {
                    pieces.extend([TemplatePiece::Literal(std::mem::take(&mut literal)), piece]);
                    rest = &hole[end..];
                }
                None => {
                    literal.push_str("{{");
                    rest = &hole[2..];
                }
            }
        }
        literal.push_str(rest);
        pieces.push(TemplatePiece::Literal(literal));
        // A script may have thousands of them.
        pieces.shrink_to_fit();
        Ok(Self { pieces })
    }

    pub(super) fn max_group(&self) -> usize {
        let group = |piece: &TemplatePiece| match piece {
            TemplatePiece::Match(group) => *group,
            TemplatePiece::Literal(_) | TemplatePiece::LastText | TemplatePiece::LastLine => 0,
        };
        self.pieces.iter().map(group).max().unwrap_or_default()
    }

    pub(super) fn render_text(&self, filling: &TemplateValues) -> String {
        self.pieces.iter().map(|piece| piece.fill(filling)).collect()
    }

    /// Inside a string the values are escaped, elsewhere they are not.
    pub(super) fn render_json(&self, filling: &TemplateValues) -> String {
        let mut json = String::new();
        let mut in_string = false;
        for piece in &self.pieces {
            let filled = piece.fill(filling);
            match piece {
                TemplatePiece::Literal(_) => {
                    in_string = ends_in_string(&filled, in_string);
                    json.push_str(&filled);
                }
                _ if in_string => {
                    let quoted = Value::String(filled).to_string();
                    json.push_str(&quoted[1..quoted.len() - 1]);
                }
                _ => json.push_str(&filled),
            }
        }
        json
    }

    /// Each placeholder counts as a digit, which is valid everywhere.
    pub(super) fn check_json(&self) -> Result<(), String> {
        let filling =
            TemplateValues { last: "0".to_owned(), groups: vec!["0".to_owned(); self.max_group()] };
        let json = self.render_json(&filling);
        serde_json::from_str::<Value>(&json).map(drop).map_err(|error| error.to_string())
    }
}

impl TemplatePiece {
    fn fill(&self, filling: &TemplateValues) -> String {
        match self {
            Self::Literal(text) => text.clone(),
            Self::LastText => filling.last.clone(),
            Self::LastLine => filling.last.lines().next().unwrap_or_default().to_owned(),
            Self::Match(group) => filling.groups.get(group - 1).cloned().unwrap_or_default(),
        }
    }
}

/// `in_string`: a string is open at the beginning.
fn ends_in_string(text: &str, mut in_string: bool) -> bool {
    let mut escaped = false;
    for letter in text.chars() {
        match letter {
            _ if escaped => escaped = false,
            '\\' if in_string => escaped = true,
            '"' => in_string = !in_string,
            _ => {}
        }
    }
    in_string
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filling() -> TemplateValues {
        TemplateValues { last: "a \"b\"\nsecond".into(), groups: vec!["7".into(), "x\\y".into()] }
    }

    fn check(template: &str, text: &str, json: &str) {
        let template = Template::parse(template).expect("a template");
        assert_eq!(template.render_text(&filling()), text);
        assert_eq!(template.render_json(&filling()), json);
    }

    #[test]
    fn placeholders_are_substituted() {
        check("no hole {{ other }} {{", "no hole {{ other }} {{", "no hole {{ other }} {{");
        check(
            r#"{"n":{{match.1}},"s":"\"{{ match.2 }}|{{last.line}}"}"#,
            "{\"n\":7,\"s\":\"\\\"x\\y|a \"b\"\"}",
            r#"{"n":7,"s":"\"x\\y|a \"b\""}"#.replace("a \"b\"", "a \\\"b\\\"").as_str(),
        );
        check("\"{{last.text}}\"", "\"a \"b\"\nsecond\"", "\"a \\\"b\\\"\\nsecond\"");
    }

    #[test]
    fn misspelt_placeholders_are_errors() {
        for text in ["{{last.txt}}", "{{match.x}}", "{{match.0}}", "{{last.text"] {
            let parsed = Template::parse(text);
            assert_eq!(parsed.is_err(), text != "{{last.text", "{text}: {parsed:?}");
        }
    }
}
