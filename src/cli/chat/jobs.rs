//! Jobs in the background of the chat: commands of the user, reading files and records, the editor.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::LocalBoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, StreamExt as _};
use tokio_util::sync::CancellationToken;

use super::chat_files::ChatFiles;
use crate::app::{self, HostPrograms, Options, Session, SessionStatus, WritableDirs};
use crate::cli::editor::{PrivateFolder, edit_text};
use crate::cli::session::session_descriptions;
use crate::cli::{config, doctor, memory};
use agent_engine::mcp::{self, Servers};
use agent_host::exec::{Command, Exec};
use agent_host::workspace::{FileKind, Walk, WalkRules, Workspace};
use agent_protocol::control::{Interrupt, SessionControl};
use agent_protocol::disk::{self, ResolvedPath, canonical_prefix};
use agent_protocol::event::Event;
use agent_protocol::mask::Masker;
use agent_protocol::terminal_escape::escape_for_file;
use agent_ui::tui::{ChatHandle, ChatRequest, ChatUpdate, CommandAction, PagePlace};

const USER_COMMAND_TIMEOUT: Duration = Duration::from_hours(1);
const NO_CHANGE: &str = "there is no change (what commands change in build output and large ignored directories is not recorded)";
const MAX_FILES: usize = 200_000;

pub(super) struct FinishedUserCommand {
    pub(super) command: String,
    pub(super) output: String,
    pub(super) exit_code: Option<i32>,
}

pub(super) struct Jobs<'a> {
    running: FuturesUnordered<LocalBoxFuture<'a, Option<FinishedUserCommand>>>,
    pub(super) options: &'a Options,
    chat_files: &'a ChatFiles,
    pub(super) handle: ChatHandle,
    workspace: Arc<Workspace>,
    writable: WritableDirs,
    masker: Arc<Masker>,
    pub(super) host_programs: HostPrograms,
    /// Runs programs as the user, outside the sandbox; the user's commands get the whole
    /// environment.
    exec: Arc<Exec>,
    /// Runs the commands of the model.
    pub(super) commands: Arc<Exec>,
    /// Folder and number of the images.
    pub(super) pasted_images: Option<(Rc<PrivateFolder>, u32)>,
    pub(super) cancel: CancellationToken,
    servers: Option<Servers>,
    log: Option<PathBuf>,
    session: String,
    pub(super) model: String,
}

impl<'a> Jobs<'a> {
    pub(super) fn new(
        session: &Session,
        options: &'a Options,
        places: &'a ChatFiles,
        handle: ChatHandle,
    ) -> Self {
        let outside = HostPrograms::from_writable(session.writable());
        Self {
            running: FuturesUnordered::new(),
            host_programs: outside.clone(),
            options,
            chat_files: places,
            handle,
            workspace: session.workspace().clone(),
            writable: session.writable().clone(),
            masker: session.masker(),
            exec: Arc::new(outside.exec()),
            commands: session.exec().clone(),
            pasted_images: None,
            cancel: CancellationToken::new(),
            servers: session.servers().cloned(),
            log: session.log_path.clone(),
            session: session.id().to_owned(),
            model: session.model().to_owned(),
        }
    }

    /// Pending forever if no command runs.
    pub(super) async fn next_finished(&mut self) -> Option<FinishedUserCommand> {
        match self.running.next().await {
            Some(done) => done,
            None => std::future::pending().await,
        }
    }

    pub(super) fn spawn(&mut self, work: impl Future<Output = ()> + 'a) {
        self.running.push(work.map(|()| None).boxed_local());
    }

    /// For a request that does not need the session.
    pub(super) fn start(&mut self, request: ChatRequest) {
        match request {
            ChatRequest::AddToHistory(message) => {
                self.chat_files.append_history(&self.masker.mask(&message));
            }
            ChatRequest::ListFiles => self.find_files(),
            ChatRequest::ListModels => self.find_models(),
            ChatRequest::ListOwnCommands => {
                let (mut commands, _) = self.chat_files.commands(&self.options.config.prompts);
                commands.extend(self.servers.iter().flat_map(Servers::commands));
                self.handle.send(ChatUpdate::OwnCommands(commands));
            }
            ChatRequest::RunShell(id, command) => self.run_shell(id, command),
            ChatRequest::OpenEditor(text) => self.edit_message(text),
            ChatRequest::PasteImage => self.paste_image(),
            ChatRequest::RunCommand(action, arguments) => self.run_chat_command(action, &arguments),
            // The session's loop handles the others.
            _ => {}
        }
    }

    pub(super) fn run_chat_command(&mut self, action: CommandAction, arguments: &str) {
        match action {
            CommandAction::Sessions => {
                let mut sessions = session_descriptions(&self.options.session_storage());
                let own = self.short_id();
                if arguments == "list" {
                    // The current session is not offered.
                    sessions.retain(|(id, _)| *id != own);
                    return self.handle.send(ChatUpdate::Sessions(sessions));
                }
                let running = SessionStatus::find(self.options.dirs.as_ref(), false);
                let text = sessions.iter().map(|(id, description)| {
                    let status = running.iter().find(|status| status.id.ends_with(id));
                    let mark = match status {
                        _ if *id == own => "  ← this one".to_owned(),
                        Some(status) if status.background.is_some() => {
                            format!("  ← {}: agent attach {id}", status.state.in_words())
                        }
                        Some(status) => format!("  ← {} elsewhere", status.state.in_words()),
                        None => String::new(),
                    };
                    format!("{id}  {description}{mark}\n")
                });
                let title = "Sessions of this project";
                self.show_page(title, Ok(text.collect()), PagePlace::Conversation);
            }
            CommandAction::Trace => {
                let trace = self.recorded_events().map(|events| agent_record::timeline(&events));
                self.show_page("What happened", trace, PagePlace::ViewerAtEnd);
            }
            CommandAction::Export => {
                let exported = self.export(arguments);
                self.handle.send(match exported {
                    Ok(path) => ChatUpdate::Note(true, format!("written to {}", path.display())),
                    Err(reason) => ChatUpdate::Note(false, reason),
                });
            }
            CommandAction::Memory => self.run_memory_command(arguments.to_owned()),
            CommandAction::Config => {
                let text = config::describe_config(&self.options.config);
                let text = text.map_err(|error| error.to_string());
                self.show_page("Configuration", text, PagePlace::Viewer);
            }
            CommandAction::Doctor => self.run_doctor(),
            CommandAction::Tasks => self.run_tasks_command(arguments),
            CommandAction::Mcp => {
                let text = self.servers.as_ref().map(Servers::in_words);
                let text = text.ok_or_else(|| mcp::NO_SERVERS.to_owned());
                self.show_page("MCP servers", text, PagePlace::Conversation);
            }
            CommandAction::Hooks => {
                let text = crate::config::describe_hooks(&self.options.config.hooks);
                self.show_page("Hooks", text, PagePlace::Conversation);
            }
            CommandAction::Diff => {
                let diff = self.workspace.session_diff();
                if diff.as_deref() == Some("") {
                    return self.handle.send(ChatUpdate::Note(true, NO_CHANGE.to_owned()));
                }
                let diff = diff.ok_or_else(|| "nothing of this session is recorded".to_owned());
                self.show_page("Changes of this session", diff, PagePlace::Conversation);
            }
            // The chat's screen runs the others, and requests none while the agent works.
            _ => {
                let text = "the agent works: send this command again when it is idle";
                self.handle.send(ChatUpdate::Note(false, text.to_owned()));
            }
        }
    }

    fn short_id(&self) -> String {
        self.options.session_storage().short_id(&self.session)
    }

    fn run_memory_command(&mut self, arguments: String) {
        let (handle, notices) = (self.handle.clone(), self.handle.clone());
        let (root, loaded) = (self.options.root.clone(), self.options.config.clone());
        let masker = Arc::clone(&self.masker);
        let tell = move |line| notices.send(ChatUpdate::Note(false, line));
        let work = move || memory::answer_chat(root, loaded, &arguments, tell);
        let work = tokio::task::spawn_blocking(work);
        self.spawn(async move {
            let (title, place) = ("Memory".to_owned(), PagePlace::Conversation);
            handle.send(match work.await {
                Ok(Ok(text)) => {
                    let text = masker.mask(text.trim_end()).into_owned();
                    ChatUpdate::Page { title, text, place }
                }
                Ok(Err(error)) => ChatUpdate::Note(false, masker.mask(&error.to_string()).into()),
                Err(error) => ChatUpdate::Note(false, error.to_string()),
            });
        });
    }

    pub(super) fn show_page(&self, title: &str, text: Result<String, String>, place: PagePlace) {
        self.handle.send(match text {
            Ok(text) => {
                let (title, text) = (title.to_owned(), self.masker.mask(&text).into_owned());
                ChatUpdate::Page { title, text, place }
            }
            // Nothing to show is no error.
            Err(reason) => ChatUpdate::Note(true, reason),
        });
    }

    fn recorded_events(&self) -> Result<Vec<Event>, String> {
        let log = self.log.as_ref().ok_or("this session is not recorded")?;
        let loaded = agent_record::load_session(log).map_err(|error| error.to_string())?;
        Ok(loaded.events)
    }

    fn export(&self, file: &str) -> Result<PathBuf, String> {
        let events = self.recorded_events()?;
        let (path, created) = if file.is_empty() {
            self.create_export_file()?
        } else {
            let of_home = file.strip_prefix("~/").zip(std::env::home_dir());
            let named = of_home.map_or_else(|| file.into(), |(below, home)| home.join(below));
            let path = self.options.root.join(named);
            let created = ResolvedPath::resolve(&path, self.writable.places()).create_file();
            (path, created)
        };
        let text = agent_record::markdown(&events);
        let written =
            created.and_then(|mut file| file.write_all(escape_for_file(&text).as_bytes()));
        written.map_err(|error| {
            let why = match error.kind() {
                io::ErrorKind::NotFound => "its directory does not exist".to_owned(),
                _ => disk::in_words(&error),
            };
            format!("{}: {why}; name another file: /export FILE", path.display())
        })?;
        Ok(path)
    }

    fn create_export_file(&self) -> Result<(PathBuf, io::Result<File>), String> {
        let dirs = self.options.dirs.as_ref();
        let dirs = dirs.ok_or("there is no home directory: name a file, /export FILE")?;
        let folder = canonical_prefix(&dirs.data).join("exports");
        let created = disk::create_folder_all(&folder, 0o700);
        created.map_err(|error| {
            let why = disk::in_words(&error);
            format!("{}: {why}; name a file: /export FILE", folder.display())
        })?;
        let name = format!("session-{}", self.short_id());
        // An earlier export must stay.
        let mut n = 1;
        loop {
            let number = if n > 1 { format!("-{n}") } else { String::new() };
            let path = folder.join(format!("{name}{number}.md"));
            match disk::create_file(&path, 0o600) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => n += 1,
                created => return Ok((path, created)),
            }
        }
    }

    pub(super) fn run_host_program(
        &self,
        command: Command<'static>,
    ) -> impl Future<Output = CommandOutput> + use<> {
        run_command(&self.exec, command, &self.cancel)
    }

    fn run_shell(&mut self, id: u32, command: String) {
        let (handle, masker) = (self.handle.clone(), self.masker.clone());
        let (watcher, masks) = (handle.clone(), masker.clone());
        let watcher = move |tail: &str| {
            watcher.send(ChatUpdate::ShellOutput { id, tail: masks.mask(tail).into_owned() });
        };
        let environment = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect();
        let run = self.run_host_program(Command {
            environment,
            watcher: Some(Box::new(watcher)),
            ..Command::new(command.clone(), self.options.root.clone(), USER_COMMAND_TIMEOUT)
        });
        let places = self.chat_files;
        self.running.push(
            async move {
                let CommandOutput { output, n_omitted, exit_code } = run.await;
                let output = masker.mask(&output).into_owned();
                handle.send(ChatUpdate::ShellFinished {
                    id,
                    command: command.clone(),
                    output: output.clone(),
                    n_omitted,
                    exit_code,
                });
                // The command may have been one of git.
                handle.send(ChatUpdate::BranchChanged(places.branch()));
                Some(FinishedUserCommand { command, output, exit_code })
            }
            .boxed_local(),
        );
    }

    fn run_doctor(&mut self) {
        let (handle, masker) = (self.handle.clone(), self.masker.clone());
        let added = self.workspace.extra_folders();
        let setup = doctor::DoctorSetup::from_chat(self.options, added, &self.model);
        let (stop, control) = (self.cancel.clone(), SessionControl::default());
        let examined = control.clone();
        let examining = tokio::task::spawn_blocking(move || setup.report(&examined));
        self.spawn(async move {
            let title = "What works here".to_owned();
            match stop.run_until_cancelled(examining).await {
                None => control.interrupt(Interrupt::User),
                Some(Ok(Ok(text))) => {
                    let text = masker.mask(&text).into_owned();
                    let place = PagePlace::Conversation;
                    handle.send(ChatUpdate::Page { title, text, place });
                }
                Some(Ok(Err(error))) => handle.send(ChatUpdate::Note(false, error.to_string())),
                Some(Err(error)) => handle.send(ChatUpdate::Note(false, error.to_string())),
            }
        });
    }

    fn edit_message(&mut self, text: String) {
        let (handle, outside) = (self.handle.clone(), self.host_programs.clone());
        let dirs = self.options.dirs.clone();
        self.spawn(async move {
            handle.send(ChatUpdate::EditorClosed(edit_text(&text, &outside, dirs.as_ref()).await));
        });
    }

    fn find_models(&mut self) {
        let (config, handle) = (&self.options.config.config, self.handle.clone());
        self.spawn(async move {
            if let Ok((models, _)) = app::usable_models(config).await {
                let models = models.into_iter();
                let models = models.map(|model| (model.id, model.facts.describe_briefly()));
                handle.send(ChatUpdate::Models(models.collect()));
            }
        });
    }

    fn find_files(&mut self) {
        let (workspace, handle) = (self.workspace.clone(), self.handle.clone());
        let resources = self.servers.as_ref().map(Servers::resources).unwrap_or_default();
        let found = tokio::task::spawn_blocking(move || project_files(&workspace, resources));
        self.spawn(async move {
            if let Ok(files) = found.await {
                handle.send(ChatUpdate::Files(files));
            }
        });
    }
}

pub(super) struct CommandOutput {
    output: String,
    n_omitted: usize,
    pub(super) exit_code: Option<i32>,
}

fn run_command(
    exec: &Arc<Exec>,
    command: Command<'static>,
    cancel: &CancellationToken,
) -> impl Future<Output = CommandOutput> + use<> {
    let (exec, cancel) = (exec.clone(), cancel.clone());
    async move {
        match exec.run(command, &cancel).await {
            Ok(outcome) => {
                let streams = [&outcome.stdout, &outcome.stderr];
                let omitted = streams.iter().filter(|stream| stream.truncated).map(|stream| {
                    let total = usize::try_from(stream.total_lines).unwrap_or(usize::MAX);
                    total.saturating_sub(stream.text.lines().count())
                });
                let n_omitted = omitted.sum();
                let output = streams.map(|stream| stream.text.as_str()).concat();
                CommandOutput { output, n_omitted, exit_code: outcome.exit_code }
            }
            Err(error) => {
                CommandOutput { output: error.to_string(), n_omitted: 0, exit_code: None }
            }
        }
    }
}

/// Sorted, without ignored files; then these resources of MCP servers.
pub(in crate::cli) fn project_files(
    workspace: &Workspace,
    resources: Vec<String>,
) -> Arc<[String]> {
    let Ok(base) = workspace.resolve(".") else { return Arc::new([]) };
    let files = parking_lot::Mutex::new(Vec::new());
    let walk = Walk { base, rules: WalkRules::default(), depth: None };
    workspace.walk(&walk, || {
        Box::new(|entry| {
            let mut files = files.lock();
            if entry.kind() == FileKind::File {
                files.push(entry.to_project_path().relative().to_owned());
            }
            files.len() < MAX_FILES
        })
    });
    let mut files = files.into_inner();
    files.sort_unstable();
    files.extend(resources);
    files.into()
}
