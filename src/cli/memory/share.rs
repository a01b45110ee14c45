//! Items as lines of JSON: for a copy, a colleague, another machine.

use std::io::Read as _;
use std::path::PathBuf;

use clap::Args;
use serde_json::Value;

use super::{Memory, Place, Range};
use crate::app::{self, OpenError};
use crate::learning::item::{Item, Scope};

#[derive(Debug, Args)]
pub(in crate::cli) struct ExportArgs {
    #[command(flatten)]
    range: Range,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct ImportArgs {
    /// The file; `-` reads standard input
    file: PathBuf,
    /// What held in some project holds in this one
    #[arg(long)]
    here: bool,
    #[command(flatten)]
    place: Place,
}

pub(super) fn export(args: &ExportArgs) -> Result<String, OpenError> {
    let memory = Memory::open(&args.range.place)?;
    let items = memory.store.every_item(&memory.scopes(&args.range))?;
    Ok(items
        .iter()
        .map(|item| format!("{}\n", serde_json::to_string(item).unwrap_or_default()))
        .collect())
}

pub(super) fn import(args: &ImportArgs) -> Result<String, OpenError> {
    let mut memory = Memory::open(&args.place)?;
    let from = args.file.display().to_string();
    let text = if from == "-" {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).map(|_| text)
    } else {
        std::fs::read_to_string(&args.file)
    };
    let text = text.map_err(|error| OpenError::Usage(format!("{from}: {error}")))?;
    let masker = app::masker(&memory.config, &[])?;
    let mut items = Vec::new();
    // Everything is read before anything is written.
    for (n, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let read = || -> serde_json::Result<Item> {
            let mut value: Value = serde_json::from_str(line)?;
            masker.mask_value(&mut value);
            serde_json::from_value(value)
        };
        let mut item = read().map_err(|error| {
            let hint = "nothing was taken in; give what `agent memory export` has written";
            OpenError::Usage(format!("{from}:{}: is no item: {error}; {hint}", n + 1))
        })?;
        // An id is typed and stands in an index: letters, digits and little else.
        if item.id.is_empty()
            || !item.id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        {
            item.id = Item::id_of(&item.scope, item.kind, &item.text);
        }
        if args.here && item.scope != Scope::User {
            item.scope = memory.scope();
            item.id = Item::id_of(&item.scope, item.kind, &item.text);
        }
        items.push(item);
    }
    let n_new = memory.store.import(&items)?;
    Ok(format!("took in {n_new} of {} items; the others were there already\n", items.len()))
}
