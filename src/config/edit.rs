//! Changes a configuration file without rewriting the rest of its text.

use std::fs::{self, Permissions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use toml::de::{DeTable, DeValue};
use toml::{Table, Value};

use super::mcp::McpServer;
use super::{AGENT_DIR, FILE_NAME};
use agent_protocol::disk;

/// Replaces the text of a configuration file, which may not exist yet.
pub fn change_file(
    file: &Path,
    change: impl FnOnce(String) -> Result<String, String>,
) -> Result<(), String> {
    let failed = |error: io::Error| format!("{}: {}", file.display(), disk::in_words(&error));
    let old = match fs::read_to_string(file) {
        Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
        read => read.map_err(failed)?,
    };
    let new = change(old).map_err(|reason| format!("{}: {reason}", file.display()))?;
    // The user's configuration may be a link to a file elsewhere.
    let real = file.canonicalize().unwrap_or_else(|_| file.to_owned());
    let folder = real.parent().unwrap_or(&real);
    fs::create_dir_all(folder).map_err(failed)?;
    let permissions = fs::metadata(&real).map(|data| data.permissions());
    let permissions = permissions.unwrap_or_else(|_| Permissions::from_mode(0o644));
    let mut copy = tempfile::NamedTempFile::new_in(folder).map_err(failed)?;
    copy.write_all(new.as_bytes()).map_err(failed)?;
    copy.as_file().set_permissions(permissions).map_err(failed)?;
    copy.persist(&real).map(drop).map_err(|error| failed(error.error))
}

/// The project's configuration file, unless it is a link.
pub fn changeable_project_file(root: &Path) -> Result<PathBuf, String> {
    let folder = root.join(AGENT_DIR);
    let file = folder.join(FILE_NAME);
    if folder.is_symlink() || file.is_symlink() {
        let file = file.display();
        return Err(format!("{file}: a link is not changed; edit the file it leads to"));
    }
    Ok(file)
}

pub fn with_server(text: &str, name: &str, server: &McpServer) -> Result<String, String> {
    let existing: Table = toml::from_str(text).map_err(|error| error.message().to_owned())?;
    if find_server(&existing, name).is_some() {
        return Err(format!("there is an MCP server {name} already; remove it first"));
    }
    let default = McpServer::default();
    let of = |server: &McpServer| Table::try_from(server).map_err(|error| error.to_string());
    let (mut own, default) = (of(server)?, of(&default)?);
    own.retain(|key, value| default.get(key) != Some(value));
    let header = format!("[mcp.servers.{}]", toml_key(name));
    let lines: String = own.iter().map(|(key, value)| format!("{key} = {value}\n")).collect();
    let new = format!("{}{header}\n{lines}", with_blank_line(text));
    let own = Value::Table(own);
    let is_expected =
        toml::from_str::<Table>(&new).is_ok_and(|table| find_server(&table, name) == Some(&own));
    if is_expected { Ok(new) } else { Err(format!("add {header} yourself")) }
}

pub fn without_server(text: &str, name: &str) -> Result<String, String> {
    let mut expected: Table = toml::from_str(text).map_err(|error| error.message().to_owned())?;
    let servers = expected.get_mut("mcp").and_then(|mcp| mcp.get_mut("servers"));
    let removed = servers.and_then(Value::as_table_mut).and_then(|servers| servers.remove(name));
    removed.ok_or_else(|| format!("there is no MCP server {name}"))?;
    // The tables of the server, up to the header of another table.
    let mut new = String::with_capacity(text.len());
    let mut is_removed = false;
    for line in text.split_inclusive('\n') {
        if line.trim_start().starts_with('[') {
            let header = toml::from_str::<Table>(line);
            is_removed = header.is_ok_and(|table| find_server(&table, name).is_some());
        }
        if !is_removed {
            new.push_str(line);
        }
    }
    let empty = |table: &mut Table| {
        // The last server leaves an empty table or none.
        if let Some(mcp) = table.get_mut("mcp").and_then(Value::as_table_mut) {
            mcp.retain(|_, value| value.as_table().is_none_or(|servers| !servers.is_empty()));
        }
        table.retain(|_, value| value.as_table().is_none_or(|table| !table.is_empty()));
    };
    empty(&mut expected);
    let is_expected = toml::from_str::<Table>(&new).is_ok_and(|mut table| {
        empty(&mut table);
        table == expected
    });
    if is_expected { Ok(new) } else { Err(format!("remove [mcp.servers.{name}] yourself")) }
}

pub(super) fn find_server<'a>(table: &'a Table, name: &str) -> Option<&'a Value> {
    table.get("mcp")?.get("servers")?.get(name)
}

fn toml_key(name: &str) -> String {
    let is_bare = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    if !name.is_empty() && name.bytes().all(is_bare) {
        name.to_owned()
    } else {
        Value::from(name).to_string()
    }
}

/// Adds a permission rule to this list in the text of a configuration file; keeps comments and
/// order.
pub fn with_rule(text: &str, list: &str, rule: &str) -> Result<String, String> {
    let mut expected: Table = toml::from_str(text).map_err(|error| error.message().to_owned())?;
    let permissions = expected.entry("permissions").or_insert_with(|| Table::new().into());
    let permissions = permissions.as_table_mut().ok_or("permissions is not a table")?;
    let rules = permissions.entry(list).or_insert_with(|| Value::Array(Vec::new()));
    let rules = rules.as_array_mut().ok_or_else(|| format!("permissions.{list} is not a list"))?;
    if rules.iter().any(|other| other.as_str() == Some(rule)) {
        return Ok(text.to_owned());
    }
    rules.push(rule.into());
    let rule = Value::from(rule);
    // The style of the file's tables decides where the rule fits: the first place that keeps its
    // meaning.
    let places = [
        append_to_list(text, list, &rule),
        insert_below_header(text, list, &rule),
        Some(format!("permissions.{list} = [{rule}]\n{text}")),
        Some(format!("{}[permissions]\n{list} = [{rule}]\n", with_blank_line(text))),
    ];
    let is_expected =
        |text: &String| toml::from_str::<Table>(text).is_ok_and(|table| table == expected);
    let written = places.into_iter().flatten().find(is_expected);
    written.ok_or_else(|| format!("add {rule} to permissions.{list} yourself"))
}

fn append_to_list(text: &str, list: &str, rule: &Value) -> Option<String> {
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

fn insert_below_header(text: &str, list: &str, rule: &Value) -> Option<String> {
    let mut at = 0;
    let header = text.split_inclusive('\n').find(|line| {
        at += line.len();
        line.trim_start().starts_with("[permissions]")
    })?;
    let line_end = if header.ends_with('\n') { "" } else { "\n" };
    Some(format!("{}{line_end}{list} = [{rule}]\n{}", &text[..at], &text[at..]))
}

fn with_blank_line(text: &str) -> String {
    match text.trim_end() {
        "" => String::new(),
        text => format!("{text}\n\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_is_added_and_removed_again() {
        let server = McpServer {
            command: Some("npx".to_owned()),
            args: vec!["-y".to_owned(), "a b".to_owned()],
            env: [("A.B".to_owned(), "\"x\"".to_owned())].into(),
            ..McpServer::default()
        };
        let text = "# mine\nmodel = \"a/b\"\n";
        let added = with_server(text, "my git", &server).expect("added");
        let lines = "[mcp.servers.\"my git\"]\nargs = [\"-y\", \"a b\"]\ncommand = \"npx\"\nenv = { \"A.B\" = '\"x\"' }\n";
        assert_eq!(added, format!("{text}\n{lines}"));
        assert!(with_server(&added, "my git", &server).is_err());
        let more = format!("{added}\n[ui]\nscreen = \"full\"\n");
        let removed = without_server(&more, "my git").expect("removed");
        assert_eq!(removed, format!("{text}\n[ui]\nscreen = \"full\"\n"));
        let tables = "[mcp.servers.a]\ncommand = \"x\"\n[mcp.servers.a.env]\nB = \"c\"\n[mcp.servers.b]\nurl = \"u\"\n";
        let removed = without_server(tables, "a");
        assert_eq!(removed.as_deref(), Ok("[mcp.servers.b]\nurl = \"u\"\n"));
        let inline = "mcp.servers = { a = { command = \"x\" } }\n";
        assert_eq!(without_server(inline, "a"), Err("remove [mcp.servers.a] yourself".to_owned()));
        assert_eq!(without_server("", "a"), Err("there is no MCP server a".to_owned()));
    }

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
