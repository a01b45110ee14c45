//! The start of a chat: options, screen settings, and the message without a model.

use clap::Args;

use super::chat_files::ChatFiles;
use crate::app::{self, OpenError, Storage};
use crate::cli::options::{
    self, ContinueOptions, LimitOptions, ModelOptions, RunArgs, ToolOptions,
};
use crate::cli::session::pick_session;
use crate::cli::worktree::WorktreeOptions;
use crate::compat::CompatibleOptions;
use crate::config::{self, AGENT_DIR, LoadedConfig, UiTheme, UserDirs};
use agent_protocol::control::{Interrupt, PermissionMode, SessionControl};
use agent_ui::tui::{Background, ColorDepth, Keymap, Settings, StatusItem, Theme};

const KEYS_PER_LINE: usize = 3;

/// The options of `agent chat`.
#[derive(Clone, Debug, Default, Args)]
pub(in crate::cli) struct ChatArgs {
    /// The first message, which is sent; never a command of the chat
    #[arg(value_name = "MESSAGE")]
    message: Vec<String>,
    /// Plain lines, for screen readers and simple terminals
    #[arg(long)]
    pub(in crate::cli) plain: bool,
    #[command(flatten)]
    model: ModelOptions,
    #[command(flatten)]
    limits: LimitOptions,
    #[command(flatten)]
    continued: ContinueOptions,
    #[command(flatten)]
    worktree: WorktreeOptions,
    /// Do not record this session
    #[arg(long, conflicts_with_all = ["continue_latest", "resume"])]
    ephemeral: bool,
    /// Neither learn lessons nor use them (also: `AGENT_NO_MEMORY=1`)
    #[arg(long)]
    no_memory: bool,
    /// Add this to the model's instructions
    #[arg(long, value_name = "TEXT")]
    append_system_prompt: Option<String>,
    #[command(flatten)]
    compatible: CompatibleOptions,
    #[command(flatten)]
    tools: ToolOptions,
}

impl ChatArgs {
    pub(in crate::cli) fn to_run_args(&self) -> RunArgs {
        let args = self.clone();
        RunArgs {
            task: args.message,
            model: args.model,
            limits: args.limits,
            continued: args.continued,
            worktree: args.worktree,
            ephemeral: args.ephemeral,
            no_memory: args.no_memory,
            append_system_prompt: args.append_system_prompt,
            compatible: args.compatible,
            tools: args.tools,
            ..RunArgs::default()
        }
    }
}

impl RunArgs {
    /// Lets the user choose if the session to resume is not named; `true`: the chat offers the
    /// sessions. The user can interrupt.
    pub(super) async fn choose_session(
        &self,
        may_offer: bool,
        control: &SessionControl,
    ) -> Result<(Self, bool), OpenError> {
        let args = self.clone();
        let choosing = tokio::task::spawn_blocking(move || args.choose_session_blocking(may_offer));
        match control.cancellation_token().run_until_cancelled(choosing).await {
            Some(chosen) => chosen.map_err(|error| OpenError::Usage(error.to_string()))?,
            None => {
                Err(OpenError::Interrupted(control.interrupt_cause().unwrap_or(Interrupt::User)))
            }
        }
    }

    fn choose_session_blocking(&self, may_offer: bool) -> Result<(Self, bool), OpenError> {
        let mut args = self.clone();
        args.worktree.take_task(&mut args.task);
        let mut offers = false;
        if self.resume_id() == Some("") {
            let root = options::project_root(self.tools.cwd.as_deref())?;
            let storage = Storage::find(&root, UserDirs::find().as_ref());
            let mut ids = storage.session_ids();
            ids.reverse();
            offers = may_offer && !ids.is_empty() && self.task.is_empty() && !self.continued.fork;
            args.continued.resume = match ids.as_slice() {
                [] => Some(storage.resolve_session_id(None)?),
                _ if offers => None,
                ids => Some(pick_session(&storage, ids, "these sessions can be resumed")?),
            };
        }
        Ok((args, offers))
    }

    /// An id, or the beginning of one. Empty: the user chooses.
    pub(super) fn resume_id(&self) -> Option<&str> {
        self.continued.resume.as_deref()
    }
}

pub(in crate::cli) fn chat_settings(
    args: &RunArgs,
    config: &LoadedConfig,
    places: &ChatFiles,
) -> Result<Settings, OpenError> {
    let ui = &config.config.ui;
    let variable = |name: &str| std::env::var(name).ok();
    let background = match ui.theme {
        UiTheme::Light => Background::Light,
        UiTheme::Auto if has_light_background(&variable) => Background::Light,
        UiTheme::Auto | UiTheme::Dark => Background::Dark,
    };
    let message = args.task.join(" ");
    let (own_commands, about_commands) = places.commands(&config.prompts);
    Ok(Settings {
        keymap: Keymap::new(&ui.keys).map_err(OpenError::Usage)?,
        theme: Theme::new(ColorDepth::from_env(&variable), background),
        is_theme_configured: ui.theme != UiTheme::Auto,
        status_line: StatusItem::from_names(ui.statusline.iter().map(String::as_str))
            .map_err(|reason| OpenError::Usage(format!("ui.statusline: {reason}")))?,
        notifications: ui.notifications,
        title: ui.title,
        history: places.history(),
        own_commands,
        offers_sessions: false,
        // The user may choose it, unless settings disable it.
        mode_limits: [
            &args.compatible.mode_limit(PermissionMode::Full),
            &config.config.restrictions.mode,
        ]
        .into_iter()
        .flatten()
        .cloned()
        .collect(),
        first_message: (!message.is_empty()).then_some(message),
        notices: config
            .warnings
            .iter()
            .cloned()
            .chain(config.untrusted_checks.as_ref().map(|why| {
                format!("{AGENT_DIR}/config.toml: ignored checks.commands because {why}")
            }))
            .chain(about_commands)
            .collect(),
        branch: places.branch(),
        prompts: config.prompts.clone(),
        models: config::model_choices(&config.config, &variable)
            .into_iter()
            .map(|id| (id.clone(), app::model_facts(&config.config, &id).describe_briefly()))
            .collect(),
    })
}

/// `COLORFGBG=0;15` means a light background; most terminals are queried and respond later.
fn has_light_background(variable: &dyn Fn(&str) -> Option<String>) -> bool {
    let background = variable("COLORFGBG").and_then(|it| it.rsplit(';').next()?.parse::<u8>().ok());
    matches!(background, Some(7 | 9..=15))
}

pub(super) fn welcome_text() -> String {
    let keys = config::key_variables();
    let first = keys.first().unwrap_or(&"OPENAI_API_KEY");
    let all: Vec<String> = keys.chunks(KEYS_PER_LINE).map(|names| names.join(", ")).collect();
    let all = all.join(&format!(",\n{:24}", ""));
    format!(
        "agent needs a model to talk to. Any one of these will do:\n\n\
         \x20 a key of a provider   export {first}=…\n\
         \x20                       ({all})\n\
         \x20 one on this machine   ollama serve   (or llama.cpp, vLLM, LM Studio)\n\
         \x20 any other server      agent --model NAME --base-url URL\n\n\
         Then start agent again. To see it work without any model: agent demo\n\
         To check what works here: agent doctor\n"
    )
}
