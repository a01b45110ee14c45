//! `agent memory`: shows and changes lessons of earlier sessions.

mod change;
mod review;
mod show;

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::options::{self, ToolOptions};
use super::{print_answer, usage_error};
use crate::app::{self, OpenError, Storage, Team};
use crate::config::{Config, LoadedConfig, UserDirs};
use agent_learning::lesson::{Lesson, Scope};
use agent_learning::lesson_filter;
use agent_learning::store::{SqliteStore, Store as _, StoreError};
use agent_protocol::one_line;
use agent_protocol::recall::LessonKind;
use agent_ui::CommandOutput;

#[derive(Debug, Subcommand)]
pub(super) enum MemoryCommand {
    /// List the lessons of this project and of the user, the latest first
    List(show::LessonListArgs),
    /// Show a lesson: its text, origin and success
    Show(show::ShowArgs),
    /// Find lessons by words, an error message or an identifier, the best first
    Search(show::SearchArgs),
    /// Add a rule or a pattern of your own
    Add(change::LessonAddArgs),
    /// Change the text of a lesson
    Edit(change::EditArgs),
    /// Forget lessons
    Forget(change::ForgetArgs),
    /// Report on a period, and remove lessons that stopped helping
    Review(review::ReviewArgs),
}

#[derive(Debug, Args)]
pub(super) struct MemoryProjectArgs {
    /// Of the project in this folder
    #[arg(short = 'C', long = "cwd", value_name = "DIR")]
    cwd: Option<PathBuf>,
    /// Treat the folder as trusted, like `agent run --trust`: identified by its remote, not its path
    #[arg(long)]
    trust: bool,
}

#[derive(Debug, Args)]
pub(super) struct ScopeArgs {
    /// Of all projects
    #[arg(long)]
    all: bool,
    /// Only this project's
    #[arg(long, conflicts_with_all = ["all", "user"])]
    project: bool,
    /// Only those for all projects
    #[arg(long, conflicts_with = "all")]
    user: bool,
    #[command(flatten)]
    project_args: MemoryProjectArgs,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum LessonKindArg {
    /// A rule that always applies
    Rule,
    /// How a kind of task is done
    Pattern,
}

impl From<LessonKindArg> for LessonKind {
    fn from(kind: LessonKindArg) -> Self {
        match kind {
            LessonKindArg::Rule => Self::Rule,
            LessonKindArg::Pattern => Self::Pattern,
        }
    }
}

fn kind_name(kind: LessonKind) -> &'static str {
    match kind {
        LessonKind::Rule => "rule",
        LessonKind::Pattern => "pattern",
        LessonKind::FailurePattern => "failure",
    }
}

pub(super) fn run(command: &MemoryCommand) -> u8 {
    let done = match command {
        MemoryCommand::List(args) => show::list(args),
        MemoryCommand::Show(args) => show::show(args),
        MemoryCommand::Search(args) => show::search(args),
        MemoryCommand::Add(args) => change::add(args).map(CommandOutput::Text),
        MemoryCommand::Edit(args) => change::edit(args).map(CommandOutput::Text),
        MemoryCommand::Forget(args) => change::forget(args).map(CommandOutput::Text),
        MemoryCommand::Review(args) => review::run(args),
    };
    print_answer(done)
}

/// Answers `/memory` in the chat, for the project in this folder, with the configuration of its session; `tell`
/// receives notices.
pub(super) fn answer_chat(
    root: PathBuf,
    loaded: LoadedConfig,
    arguments: &str,
    tell: impl Fn(String) + Send + 'static,
) -> Result<String, OpenError> {
    let memory = ProjectMemory::with_config(root, loaded.config, loaded.is_trusted, tell)?;
    let is_id = |id: &str| !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    match arguments.split_whitespace().collect::<Vec<_>>().as_slice() {
        [] | ["list"] => show::list_in_use(&memory),
        ["add", words @ ..] => {
            let text = words.join(" ");
            let added = change::add_lesson(&memory, memory.scope(), LessonKind::Rule, &text)?;
            Ok(format!("lesson {added}"))
        }
        ["show", id] | [id] if is_id(id) => Ok(show::describe(&memory, &memory.find_lesson(id)?)),
        ["forget", id] if is_id(id) => {
            change::forget_lessons(&memory, &[memory.find_lesson(id)?], None)
        }
        _ => {
            let usage =
                "/memory lists lessons; /memory add TEXT, /memory show ID, /memory forget ID";
            Err(usage_error(usage))
        }
    }
}

impl From<StoreError> for OpenError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Locked => Self::InUse(error.to_string()),
            StoreError::Broken(_) | StoreError::Ambiguous(..) | StoreError::Team(_) => {
                Self::Usage(error.to_string())
            }
            StoreError::Unreachable(_) | StoreError::Rejected(_) => Self::Failed(error.to_string()),
        }
    }
}

pub(super) struct ProjectMemory {
    pub(super) store: SqliteStore,
    pub(super) project: String,
    team: Option<Team>,
    root: PathBuf,
    storage: Storage,
    config: Config,
}

impl ProjectMemory {
    pub(super) fn open(project_args: &MemoryProjectArgs) -> Result<Self, OpenError> {
        let root = options::project_root(project_args.cwd.as_deref())?;
        let tools = ToolOptions { trust: project_args.trust, ..ToolOptions::default() };
        let loaded = options::load_config(&root, UserDirs::find().as_ref(), &tools, None)?;
        Self::with_config(root, loaded.config, loaded.is_trusted, |line| {
            agent_ui::print_notice(&line);
        })
    }

    fn with_config(
        root: PathBuf,
        config: Config,
        is_trusted: bool,
        tell: impl Fn(String) + Send + 'static,
    ) -> Result<Self, OpenError> {
        let dirs = UserDirs::find();
        let project = app::project_identity(&root, is_trusted);
        Ok(Self {
            store: SqliteStore::new(app::memory_file(&config, dirs.as_ref())?, tell),
            team: Team::find(&config, dirs.as_ref(), &project),
            project,
            storage: Storage::find(&root, dirs.as_ref()),
            config,
            root,
        })
    }

    fn scope(&self) -> Scope {
        Scope::Project(self.project.clone())
    }

    pub(super) fn team(&self) -> Result<&Team, OpenError> {
        self.team.as_ref().ok_or_else(|| {
            usage_error(match self.config.team.database {
                None => "no database is configured: set [team] database in your configuration, or AGENT_TEAM_DATABASE",
                Some(_) => "a team shares the lessons of a repository with a remote on a host, in a folder that you trust (`agent trust`)",
            })
        })
    }

    /// The scopes of the project.
    fn here(&self) -> Vec<Scope> {
        [self.scope()]
            .into_iter()
            .chain(self.team.as_ref().map(|team| team.scope.clone()))
            .collect()
    }

    /// Empty: all.
    fn scopes(&self, range: &ScopeArgs) -> Vec<Scope> {
        match (range.all, range.project, range.user) {
            (true, _, _) => Vec::new(),
            (_, true, false) => vec![self.scope()],
            (_, false, true) => vec![Scope::User],
            (false, _, _) => [self.here(), vec![Scope::User]].concat(),
        }
    }

    fn find_lesson(&self, id: &str) -> Result<Lesson, OpenError> {
        let found = if id.is_empty() { None } else { self.store.find_lesson(id)? };
        found.ok_or_else(|| {
            let file = self.store.path().display();
            OpenError::Usage(format!(
                "no lesson {id:?} in {file}; `agent memory list --all` shows all"
            ))
        })
    }

    fn check_text(&self, text: &str) -> Result<String, OpenError> {
        const MAX: usize = 1000;
        let text = one_line(text);
        let wrong = |why: &str| Err(usage_error(format!("this cannot be stored: {why}")));
        let n = text.len();
        if n == 0 {
            return wrong("the text is empty");
        }
        if n > MAX {
            return wrong(&format!("it has {n} bytes, and a lesson at most {MAX}; shorten it"));
        }
        // The text would be sent to a model with every task that it matches.
        let is_masked = *app::build_masker(&self.config, &[])?.mask(&text) != text;
        if is_masked || lesson_filter::contains_secret(&text) {
            return wrong("it contains something that looks like a secret; leave that out");
        }
        Ok(text)
    }
}

fn now_ms() -> i64 {
    jiff::Timestamp::now().as_millisecond()
}

fn format_day(ms: i64) -> String {
    let time = jiff::Timestamp::from_millisecond(ms).map(|time| time.to_string());
    time.map_or_else(|_| "-".to_owned(), |time| time.chars().take(10).collect())
}
