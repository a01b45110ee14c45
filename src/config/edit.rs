//! Changes a configuration file without rewriting the rest of its text.

use toml::de::{DeTable, DeValue};
use toml::{Table, Value};

/// The text of a configuration file with a further permission rule in this list. Comments and order are kept.
pub fn with_rule(text: &str, list: &str, rule: &str) -> Result<String, String> {
    let mut wanted: Table = toml::from_str(text).map_err(|error| error.message().to_owned())?;
    let permissions = wanted.entry("permissions").or_insert_with(|| Table::new().into());
    let permissions = permissions.as_table_mut().ok_or("permissions is not a table")?;
    let rules = permissions.entry(list).or_insert_with(|| Value::Array(Vec::new()));
    let rules = rules.as_array_mut().ok_or_else(|| format!("permissions.{list} is not a list"))?;
    if rules.iter().any(|known| known.as_str() == Some(rule)) {
        return Ok(text.to_owned());
    }
    rules.push(rule.into());
    let rule = Value::from(rule);
    // Where the rule can be written depends on how the file writes its tables: the first place with the wanted
    // meaning.
    let places = [
        in_list(text, list, &rule),
        below_header(text, list, &rule),
        Some(format!("permissions.{list} = [{rule}]\n{text}")),
        Some(format!("{}[permissions]\n{list} = [{rule}]\n", ended(text))),
    ];
    let is_wanted =
        |text: &String| toml::from_str::<Table>(text).is_ok_and(|table| table == wanted);
    let written = places.into_iter().flatten().find(is_wanted);
    written.ok_or_else(|| format!("add {rule} to permissions.{list} yourself"))
}

/// After the last item of the list.
fn in_list(text: &str, list: &str, rule: &Value) -> Option<String> {
    let table = DeTable::parse(text).ok()?;
    let DeValue::Table(permissions) = table.get_ref().get("permissions")?.get_ref() else {
        return None;
    };
    let rules = permissions.get(list)?;
    let DeValue::Array(items) = rules.get_ref() else { return None };
    let (at, comma) = match items.iter().last() {
        Some(item) => (item.span().end, ", "),
        None => (rules.span().start + 1, ""),
    };
    Some(format!("{}{comma}{rule}{}", text.get(..at)?, text.get(at..)?))
}

/// In a table that has no such list.
fn below_header(text: &str, list: &str, rule: &Value) -> Option<String> {
    let mut at = 0;
    let header = text.split_inclusive('\n').find(|line| {
        at += line.len();
        line.trim_start().starts_with("[permissions]")
    })?;
    let line_end = if header.ends_with('\n') { "" } else { "\n" };
    Some(format!("{}{line_end}{list} = [{rule}]\n{}", &text[..at], &text[at..]))
}

/// The text with an empty line at its end, if it has any.
fn ended(text: &str) -> String {
    match text.trim_end() {
        "" => String::new(),
        text => format!("{text}\n\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rule_is_added_and_the_rest_of_the_file_is_kept() {
        let check = |text: &str, expected: &str| {
            assert_eq!(with_rule(text, "allow", "Bash(make *)").as_deref(), Ok(expected), "{text}");
        };
        check("", "permissions.allow = [\"Bash(make *)\"]\n");
        check(
            "# mine\n[permissions]\nallow = [\n  \"Read\", # all\n]\nmode = \"ask\"\n",
            "# mine\n[permissions]\nallow = [\n  \"Read\", \"Bash(make *)\", # all\n]\nmode = \"ask\"\n",
        );
        check("[permissions] # x\nallow = []", "[permissions] # x\nallow = [\"Bash(make *)\"]");
        check(
            "[permissions]\nmode = \"ask\"\n[ui]\n",
            "[permissions]\nallow = [\"Bash(make *)\"]\nmode = \"ask\"\n[ui]\n",
        );
        check(
            "permissions.mode = \"ask\"\n[ui]\nscreen = \"full\"\n",
            "permissions.allow = [\"Bash(make *)\"]\npermissions.mode = \"ask\"\n[ui]\nscreen = \"full\"\n",
        );
        let known = "permissions.allow = [\"Bash(make *)\"]\n";
        check(known, known);
        let inline = with_rule("permissions = { mode = \"ask\" }\n", "deny", "Bash(rm *)");
        assert_eq!(inline, Err("add \"Bash(rm *)\" to permissions.deny yourself".to_owned()));
    }
}
