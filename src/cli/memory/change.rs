//! Adds, edits and forgets lessons.

use clap::Args;

use super::{LessonKindArg, MemoryProjectArgs, ProjectMemory, now_ms};
use crate::app::{HostPrograms, OpenError};
use crate::cli::terminal_prompt::confirm;
use crate::cli::{block_on, editor};
use crate::config::UserDirs;
use agent_learning::lesson::{Lesson, Origin, Scope};
use agent_learning::store::{Batch, LearnOutcome, Store as _};
use agent_protocol::control::SessionControl;
use agent_protocol::recall::LessonKind;
use agent_protocol::{one_line, shorten};

#[derive(Debug, Args)]
pub(in crate::cli) struct LessonAddArgs {
    /// One imperative sentence
    #[arg(required = true)]
    text: Vec<String>,
    /// Rule or pattern
    #[arg(long, value_name = "KIND", default_value = "rule")]
    kind: LessonKindArg,
    /// For all projects, not only this one
    #[arg(long)]
    user: bool,
    #[command(flatten)]
    project_args: MemoryProjectArgs,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct EditArgs {
    /// The lesson, by id or prefix
    id: String,
    /// The new text; without it $VISUAL, $EDITOR or vi is opened
    #[arg(long, value_name = "TEXT")]
    text: Option<String>,
    /// For all projects
    #[arg(long)]
    user: bool,
    /// For this project only
    #[arg(long, conflicts_with = "user")]
    project: bool,
    #[command(flatten)]
    project_args: MemoryProjectArgs,
}

#[expect(clippy::struct_excessive_bools, reason = "each is a switch of the command line")]
#[derive(Debug, Args)]
pub(in crate::cli) struct ForgetArgs {
    /// The lessons, by id or prefix
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    ids: Vec<String>,
    /// All lessons and traces; with --project or --user only those
    #[arg(long)]
    all: bool,
    /// With --all: those of this project
    #[arg(long, requires = "all", conflicts_with = "user")]
    project: bool,
    /// With --all: those for all projects
    #[arg(long, requires = "all")]
    user: bool,
    /// Why, for the team
    #[arg(long, value_name = "TEXT", conflicts_with = "all")]
    reason: Option<String>,
    /// Do not ask
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    project_args: MemoryProjectArgs,
}

pub(super) fn add(args: &LessonAddArgs) -> Result<String, OpenError> {
    let memory = ProjectMemory::open(&args.project_args)?;
    let scope = if args.user { Scope::User } else { memory.scope() };
    add_lesson(&memory, scope, args.kind.into(), &args.text.join(" "))
}

pub(super) fn add_lesson(
    memory: &ProjectMemory,
    scope: Scope,
    kind: LessonKind,
    text: &str,
) -> Result<String, OpenError> {
    let text = memory.check_text(text)?;
    let lesson = Lesson::new(scope, kind, text, Origin::User, now_ms());
    let batch = Batch { lessons: vec![lesson.clone()], ..Batch::default() };
    Ok(match memory.store.commit(&batch)?.pop() {
        Some(LearnOutcome::Reinforced) => format!("{}  was known already\n", lesson.id),
        Some(LearnOutcome::New) | None => format!("{}  {}\n", lesson.id, lesson.text),
    })
}

pub(super) fn edit(args: &EditArgs) -> Result<String, OpenError> {
    let memory = ProjectMemory::open(&args.project_args)?;
    let item = memory.find_lesson(&args.id)?;
    let text = match &args.text {
        Some(text) => Some(text.clone()),
        None if args.user || args.project => None,
        None => {
            let mut edited = Err("the editor was not opened".to_owned());
            let outside = HostPrograms::from_config(&memory.config, &memory.root, &[]);
            let (text, dirs) = (format!("{}\n", item.text), UserDirs::find());
            let work = async {
                edited = editor::edit_text(&text, &outside, dirs.as_ref()).await;
                0
            };
            block_on(work, &SessionControl::default());
            Some(edited.map_err(|why| OpenError::Usage(format!("{why}; or give --text")))?)
        }
    };
    let text = text.map(|text| memory.check_text(&text)).transpose()?;
    let of_project = args.project.then(|| memory.scope());
    let scope = if args.user { Some(Scope::User) } else { of_project };
    // The current version: an agent may have used it while the editor was open.
    let changed = memory.store.update_lesson(&item.id, |item| {
        if let Some(text) = text.as_ref().filter(|text| **text != item.text) {
            item.text.clone_from(text);
            // The kernel no longer applies the fix of the old text.
            if let Some(failure) = &mut item.failure {
                failure.fix = None;
            }
        }
        if let Some(scope) = &scope {
            item.scope.clone_from(scope);
        }
        item.origin = Origin::User;
    })?;
    let item = changed.ok_or_else(|| {
        let id = &item.id;
        OpenError::Usage(format!("{id} was forgotten meanwhile; `agent memory add` adds it again"))
    })?;
    Ok(format!("{}  {}\n", item.id, item.text))
}

pub(super) fn forget(args: &ForgetArgs) -> Result<String, OpenError> {
    let memory = ProjectMemory::open(&args.project_args)?;
    if args.all {
        return forget_all(&memory, args);
    }
    let mut items: Vec<Lesson> =
        args.ids.iter().map(|id| find_anywhere(&memory, id)).collect::<Result<_, _>>()?;
    items.sort_by(|one, other| one.id.cmp(&other.id));
    items.dedup_by(|one, other| one.id == other.id);
    let what = match items.as_slice() {
        [one] => format!("{} ({})", one.id, shorten(&one.text, 100)),
        several => format!("{} items", several.len()),
    };
    let also = if memory.team.is_some() { ", also for the team" } else { "" };
    if !args.yes && !confirm(&format!("forget {what}{also}?"), "whether to forget")? {
        return Ok("nothing is forgotten\n".to_owned());
    }
    let done = forget_lessons(&memory, &items, args.reason.as_deref())?;
    if let Some(team) = &memory.team
        && let Err(error) = team.connect().and_then(|database| team.send(&memory.store, &database))
    {
        agent_ui::print_notice(&format!("{error}; the team forgets it later"));
    }
    Ok(done)
}

/// The next session, or `agent team push`, sends it to the team.
pub(super) fn forget_lessons(
    memory: &ProjectMemory,
    items: &[Lesson],
    reason: Option<&str>,
) -> Result<String, OpenError> {
    let mut out = String::new();
    for item in items {
        memory.store.forget_lesson(&item.id)?;
        out.push_str(&format!("forgot {}\n", item.id));
    }
    if let Some(team) = &memory.team {
        let here = memory.here();
        let ids = items.iter().filter(|it| here.contains(&it.scope)).map(|it| it.id.clone());
        team.retire(&memory.store, ids, &one_line(reason.unwrap_or("forgotten")))?;
    }
    Ok(out)
}

/// In the user's file, otherwise in the team's database: a machine may refuse what others have.
fn find_anywhere(memory: &ProjectMemory, id: &str) -> Result<Lesson, OpenError> {
    let found = memory.find_lesson(id);
    let (Err(_), Some(team), false) = (&found, &memory.team, id.is_empty()) else { return found };
    let others = team.connect().and_then(|database| database.team_lessons(&team.scope));
    let mut others = others.unwrap_or_default();
    others.retain(|other| other.lesson.id.starts_with(id));
    match (others.pop(), others.is_empty()) {
        (Some(other), true) => Ok(other.lesson),
        _ => found,
    }
}

fn forget_all(memory: &ProjectMemory, args: &ForgetArgs) -> Result<String, OpenError> {
    let (scopes, whose) = match (args.project, args.user) {
        (true, _) => (memory.here(), "of this project"),
        (_, true) => (vec![Scope::User], "for all projects"),
        (false, false) => (Vec::new(), "of all projects"),
    };
    let items = memory.store.lessons(&scopes)?;
    let question =
        format!("forget everything {whose} ({} lessons, and their traces)?", items.len());
    if !args.yes && !confirm(&question, "whether to forget")? {
        return Ok("nothing is forgotten\n".to_owned());
    }
    for item in &items {
        memory.store.forget_lesson(&item.id)?;
    }
    let n_traces = match (args.project, args.user) {
        (true, _) => memory.store.forget_traces(Some(&memory.project))?,
        // Every trace belongs to a project.
        (_, true) => 0,
        (false, false) => memory.store.forget_traces(None)?,
    };
    Ok(format!("forgot {} items and {n_traces} traces\n", items.len()))
}
