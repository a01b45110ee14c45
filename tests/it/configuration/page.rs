//! `docs/CONFIGURATION.md`: the complete configuration file is generated from the schema, and is valid.

use std::fmt::Write as _;

use code_agent::config::{Config, presets};
use serde_json::Value;

use crate::support::{Test, check_generated};

const PAGE: &str = "docs/CONFIGURATION.md";
/// Names for the tables that contain one entry per provider or model.
const NAMES: [(&str, &str); 3] =
    [("providers", "my-server"), ("models", "\"my-server/qwen3-coder\""), ("servers", "git")];
/// Keys without a default that are set in the example, because it needs them.
const SET: [&str; 3] =
    ["providers.my-server.base_url", "providers.my-server.api_key_env", "mcp.servers.git.command"];
const WIDTH: usize = 98;

/// The configuration file, from the schema.
struct File {
    schema: Value,
    text: String,
}

impl File {
    fn new() -> Self {
        let schema = serde_json::to_value(schemars::schema_for!(Config)).unwrap();
        let mut file = Self { text: String::new(), schema };
        let root = file.schema.clone();
        file.table("", &root);
        file
    }

    /// The keys of a table, then its inner tables: TOML needs this order.
    fn table(&mut self, path: &str, schema: &Value) {
        let properties = schema["properties"].as_object().unwrap();
        let mut tables = Vec::new();
        for (key, property) in properties {
            let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
            match self.inner(key, &path, property) {
                Some(inner) => tables.push((property["description"].as_str().unwrap(), inner)),
                None => self.key(&path, key, property),
            }
        }
        for (about, (name, inner)) in tables {
            self.text.push('\n');
            self.comment(about);
            _ = writeln!(self.text, "[{name}]");
            self.table(&name, &inner);
        }
    }

    /// The name and the schema of an inner table.
    fn inner(&self, key: &str, path: &str, property: &Value) -> Option<(String, Value)> {
        let entry = self.followed(&property["additionalProperties"]);
        if entry["properties"].is_object() {
            let (_, name) = NAMES.iter().find(|(of, _)| *of == key).expect("a name for its entry");
            return Some((format!("{path}.{name}"), entry));
        }
        let table = self.followed(property);
        table["properties"].is_object().then(|| (path.to_owned(), table))
    }

    fn followed(&self, schema: &Value) -> Value {
        let name = schema["$ref"].as_str().and_then(|path| path.strip_prefix("#/$defs/"));
        name.map_or_else(|| schema.clone(), |name| self.schema["$defs"][name].clone())
    }

    fn key(&mut self, path: &str, key: &str, property: &Value) {
        let description = property["description"].as_str().unwrap();
        let mut about = description.to_owned();
        let values = self.followed(property)["oneOf"].as_array().cloned().unwrap_or_default();
        let values: Vec<&str> = values.iter().filter_map(|value| value["const"].as_str()).collect();
        if !values.iter().all(|value| description.contains(&format!("`{value}`"))) {
            _ = write!(about, " One of `{}`.", values.join("`, `"));
        }
        let (default, example) = (&property["default"], &property["examples"][0]);
        if default.is_null() {
            assert!(!example.is_null(), "{path} needs an example: #[schemars(example = …)]");
            let mark = if SET.contains(&path) { "" } else { "# " };
            if !description.to_lowercase().contains("unset:") {
                about.push_str(" Not set by default.");
            }
            self.comment(&about);
            _ = writeln!(self.text, "{mark}{key} = {}", toml(example));
            return;
        }
        if !example.is_null() {
            _ = write!(about, " Example: `{}`.", toml(example));
        }
        self.comment(&about);
        _ = writeln!(self.text, "{key} = {}", toml(default));
    }

    fn comment(&mut self, text: &str) {
        let mut line = "##".to_owned();
        for word in text.split_whitespace() {
            if line.chars().count() + 1 + word.chars().count() > WIDTH {
                _ = writeln!(self.text, "{line}");
                "##".clone_into(&mut line);
            }
            _ = write!(line, " {word}");
        }
        _ = writeln!(self.text, "{line}");
    }
}

fn toml(value: &Value) -> String {
    match value {
        Value::Object(entries) => {
            let entries = entries.iter().map(|(key, value)| format!("{key} = {}", toml(value)));
            let entries = entries.collect::<Vec<_>>().join(", ");
            if entries.is_empty() { "{}".to_owned() } else { format!("{{ {entries} }}") }
        }
        Value::Array(items) => {
            format!("[{}]", items.iter().map(toml).collect::<Vec<_>>().join(", "))
        }
        value => value.to_string(),
    }
}

#[test]
fn docs_have_the_whole_configuration_of_the_schema() {
    let file = File::new().text;
    check_generated(
        PAGE,
        "<!-- config.toml -->\n",
        &format!("\n```toml\n{file}```\n\n"),
        "UPDATE_SCHEMA",
    );

    // Every key is accepted, also those that are only shown.
    // (A server has a program or an address.)
    let lines = file.lines().filter(|line| !line.starts_with("# url = "));
    let complete: String =
        lines.map(|line| format!("{}\n", line.strip_prefix("# ").unwrap_or(line))).collect();
    for text in [&file, &complete] {
        let test = Test::new().user_config(text);
        let done = test.agent(&["config", "show"]).expect_code(0);
        assert_eq!(done.stderr, "");
        assert!(done.stdout.contains("providers.my-server.base_url"), "{}", done.stdout);
    }
}

#[test]
fn docs_have_every_provider_with_its_dialect() {
    let rows = presets().iter().map(|preset| {
        let names: Vec<String> = preset.keys.iter().map(|name| format!("`{name}`")).collect();
        let keys = match names.join(" or ") {
            names if names.is_empty() => "none needed".to_owned(),
            names if preset.key_is_optional => format!("{names}, if it has one"),
            names => names,
        };
        let url = preset.base_url.as_deref().unwrap_or("yours");
        let model = preset.model.as_deref().map_or("–".to_owned(), |name| format!("`{name}`"));
        let (name, wire, tested) = (&preset.name, preset.wire.as_str(), &preset.tested);
        format!("| `{name}` | {url} | {keys} | `{wire}` | {model} | {tested} |\n")
    });
    let head = "\n| provider | server | key | wire format | model of `auto` | tested |\n|---|---|---|---|---|---|\n";
    let table = format!("{head}{}\n", rows.collect::<String>());
    check_generated("docs/MODELS.md", "<!-- providers -->\n", &table, "UPDATE_SCHEMA");

    let rows = presets().iter().filter_map(|preset| {
        let dialect = serde_json::to_value(preset.dialect).unwrap();
        let fields = dialect.as_object()?.iter().filter(|(_, value)| !value.is_null());
        let fields: Vec<String> =
            fields.map(|(name, value)| format!("`{name} = {}`", toml(value))).collect();
        (!fields.is_empty()).then(|| format!("| `{}` | {} |\n", preset.name, fields.join(", ")))
    });
    let table = format!("\n| provider | dialect |\n|---|---|\n{}\n", rows.collect::<String>());
    check_generated("docs/MODELS.md", "<!-- dialects -->\n", &table, "UPDATE_SCHEMA");
}
