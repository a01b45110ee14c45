//! `agent models`: the models that can be used now.

use clap::Args;
use serde_json::json;

use super::options::{self, ToolOptions};
use super::{print_answer, print_notices};
use crate::app::{self, OpenError, UsableModel};
use crate::config::UserDirs;
use agent_protocol::control::SessionControl;
use agent_ui::CommandOutput;

#[derive(Debug, Args)]
pub(super) struct ModelsArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    options: ToolOptions,
}

pub(super) fn run(args: &ModelsArgs) -> u8 {
    let control = SessionControl::default();
    super::block_on(async { print_answer(list_models(args).await) }, &control)
}

async fn list_models(args: &ModelsArgs) -> Result<CommandOutput, OpenError> {
    let root = options::project_root(args.options.cwd.as_deref())?;
    let loaded = options::load_config(&root, UserDirs::find().as_ref(), &args.options, None)?;
    let (models, problems) = app::usable_models(&loaded.config).await?;
    print_notices(loaded.warnings.iter().chain(&problems));
    if args.json {
        let models: Vec<_> = models.iter().map(to_json).collect();
        return Ok(CommandOutput::Data(format!("{}\n", json!({ "models": models }))));
    }
    if models.is_empty() {
        return Err(app::no_model_error());
    }
    let width = models.iter().map(|model| model.id.chars().count()).max().unwrap_or(0);
    let lines = models.iter().map(|model| {
        let UsableModel { id, source, is_chosen, facts } = model;
        let mark = if *is_chosen { '*' } else { ' ' };
        format!("{mark} {id:<width$}  {} · {source}\n", facts.describe())
    });
    Ok(lines.collect::<String>().into())
}

fn to_json(model: &UsableModel) -> serde_json::Value {
    let UsableModel { id, source, is_chosen, facts } = model;
    let price = facts
        .price
        .map(|price| json!({"in": price.input, "out": price.output, "cached": price.cached}));
    json!({
        "id": id,
        "source": source,
        "chosen": is_chosen,
        "context_window": facts.window.tokens,
        "context_window_source": facts.window.source,
        "max_output_tokens": facts.max_output_tokens,
        "price_per_million_tokens_usd": price,
    })
}
