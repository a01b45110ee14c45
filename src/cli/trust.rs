//! `agent trust`: trusts a folder's configuration in its current state.

use std::path::{Path, PathBuf};

use clap::Args;
use toml::Value;

use super::config::collect_leaves;
use super::options::{self, ToolOptions};
use super::{print_answer, print_notices, usage_error};
use crate::app::{self, OpenError};
use crate::config::{self, AGENT_DIR, LoadedConfig, MCP_FILE, Trust, UserDirs};
use agent_protocol::terminal_escape::escape_literal_line;

#[derive(Debug, Args)]
pub(super) struct TrustArgs {
    /// The folder; where none is given, this one
    dir: Option<PathBuf>,
}

pub(super) fn run(args: &TrustArgs) -> u8 {
    let root = options::project_root(args.dir.as_deref());
    print_answer(root.and_then(|root| trust_current_settings(&root)).map(Into::into))
}

fn trust_current_settings(root: &Path) -> Result<String, OpenError> {
    let no_home = || usage_error("there is no home folder to store it in: set HOME");
    let dirs = UserDirs::find().ok_or_else(no_home)?;
    // An invalid configuration would be an error in each session.
    let in_full = ToolOptions { trust: true, ..ToolOptions::default() };
    let loaded = options::load_config(root, Some(&dirs), &in_full, None)?;
    print_notices(&loaded.warnings);
    let (shown, seal, needs) =
        (root.display(), loaded.sensitive_settings.digest(), describe_needs(&loaded)?);
    if matches!(config::folder_trust(Some(&dirs), root), Trust::WithSettings(old) if old == seal) {
        return Ok(format!("{shown} is trusted already{needs}"));
    }
    let file = dirs.trusted_file();
    agent_ui::print_text(&format!("to trust: {shown}{needs}"));
    config::trust_folder(&dirs, root, &seal)
        .map_err(|error| OpenError::Usage(format!("{}: {error}", file.display())))?;
    Ok(format!("{shown} is trusted now; to undo this, remove its line from {}\n", file.display()))
}

/// Keeps the beginning and the end: a program could stand at either.
fn cut_middle(text: &str) -> String {
    const KEPT: usize = 300;
    let n_cut = text.chars().count().saturating_sub(2 * KEPT);
    if n_cut == 0 {
        return text.to_owned();
    }
    let begin: String = text.chars().take(KEPT).collect();
    let end: String = text.chars().skip(KEPT + n_cut).collect();
    format!("{begin} … {n_cut} characters … {end}")
}

fn describe_needs(loaded: &LoadedConfig) -> Result<String, OpenError> {
    if loaded.sensitive_settings.is_empty() {
        return Ok("; it currently sets nothing that needs trust\n".to_owned());
    }
    // Only header values are masked: the folder's own `redact_extra` could hide other settings.
    let masker = app::build_masker(&loaded.config, &[])?;
    let (mut settings, mut out) = (Vec::new(), ", with these current settings:\n".to_owned());
    for (name, value) in loaded.sensitive_settings.iter() {
        let mut value = value.clone();
        let with_secrets = match name {
            "providers" | MCP_FILE => Some(&mut value),
            "mcp" => value.get_mut("servers"),
            _ => None,
        };
        let tables = with_secrets.and_then(Value::as_table_mut).into_iter().flatten();
        for (_, table) in tables.filter_map(|(name, it)| Some((name, it.as_table_mut()?))) {
            for key in ["headers", "env"] {
                let fields = table.get_mut(key).and_then(Value::as_table_mut);
                for (_, field) in fields.into_iter().flatten() {
                    let shown = masker.mask(field.as_str().unwrap_or_default()).into_owned();
                    *field = Value::from(shown);
                }
            }
        }
        match (name.strip_prefix("prompts/"), value.as_str()) {
            (Some(_), Some(text)) => {
                out.push_str(&format!("  {AGENT_DIR}/{name} ({} bytes)\n", text.len()));
            }
            _ => collect_leaves(&value, name, &mut settings),
        }
    }
    for (key, value) in settings {
        let shown = [&key, &value].map(|text| cut_middle(&escape_literal_line(text)));
        out.push_str(&format!("  {} = {}\n", shown[0], shown[1]));
    }
    Ok(out)
}
