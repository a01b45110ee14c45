//! `agent demo`: runs the real loop on a small broken project, with a scripted model.

use std::io::Write as _;
use std::path::PathBuf;

use clap::Args;

use super::chat;
use super::options::{self, LimitOptions, ModelOptions, ToolOptions};
use crate::app::{OpenError, Options, Session, SessionChoice};
use crate::config::UserDirs;
use agent_protocol::control::{Interrupt, SessionControl};
use agent_protocol::disk::{self, ResolvedPath};
use agent_protocol::event::{EventBody, Sink, StampedEvent};
use agent_ui::tui::ChatRequest;

const FILES: [(&str, &str); 3] = [
    ("stats.sh", include_str!("../../demo/stats.sh")),
    ("test.sh", include_str!("../../demo/test.sh")),
    ("README.md", include_str!("../../demo/README.md")),
];
const SCRIPT: &str = include_str!("../../demo/script.txt");
const TASK: &str = "bash test.sh fails. Find out why and repair it.";
const CHECK: &str = "bash test.sh";
const COMMENT: &str = "# Somebody else was here while the agent was thinking.\n";

#[derive(Debug, Args)]
pub(super) struct DemoArgs {
    /// Work in this folder, which must not exist yet, instead of a temporary one
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

pub(super) fn run(args: &DemoArgs) -> u8 {
    let control = SessionControl::default();
    super::block_on_result(Box::pin(run_demo(args, &control)), &control)
}

async fn run_demo(args: &DemoArgs, control: &SessionControl) -> Result<u8, OpenError> {
    let path = args.dir.as_deref().map(options::resolve_path).transpose()?;
    let root = create_project(path)
        .map_err(|error| OpenError::Usage(format!("the demo's folder: {error}")))?;
    agent_ui::print_text(&format!(
        "The model's answers are scripted; everything else is real: the tools, the files, the conflict, \
         bash, the check.\n\n$ cd {}\n$ agent --check \"{CHECK}\" \"{TASK}\"\n\n",
        root.display()
    ));
    // In a separate file that the demo's tools do not see.
    let script = tempfile::Builder::new().prefix("agent-demo-").suffix(".script").tempfile();
    let script = script.and_then(|mut file| file.write_all(SCRIPT.as_bytes()).map(|()| file));
    let script = script.map_err(|error| OpenError::Usage(format!("the demo's script: {error}")))?;
    let run = options::RunArgs {
        model: ModelOptions {
            model: Some(format!("script:{}", script.path().display())),
            ..ModelOptions::default()
        },
        limits: LimitOptions { check: vec![CHECK.to_owned()], ..LimitOptions::default() },
        no_memory: true,
        tools: ToolOptions { allow: vec![format!("Bash({CHECK})")], ..ToolOptions::default() },
        ..options::RunArgs::default()
    };
    let config = options::load_config(&root, None, &run.tools, Some(&run))?;
    let mut chat = chat::start_display(&root, &config)?;
    let options = Options::new(root.clone(), config, SessionChoice::New, UserDirs::find());
    let concurrent_change = Box::new(ConcurrentChange { file: Some(root.join(FILES[0].0)) });
    let sinks: Vec<Box<dyn Sink>> = vec![Box::new(chat.handle.clone()), concurrent_change];
    let mut session = Session::open(options, control.clone(), sinks).await?;
    let finished = {
        let running = session.run(TASK);
        tokio::pin!(running);
        loop {
            tokio::select! {
                finished = &mut running => break finished,
                request = chat.requests.recv() => match request {
                    Some(ChatRequest::Interrupt | ChatRequest::Quit) | None => {
                        control.interrupt(Interrupt::User);
                        break running.await;
                    }
                    Some(_) => {}
                },
            }
        }
    };
    session.close().await;
    let shown = chat.end();
    let root = root.display();
    agent_ui::print_text(&format!(
        "\nWhat next:\n  agent session undo -C {root}    undo the changes\n  agent trace show -C {root}      \
         what happened, step by step\n  agent doctor    what a project of your own needs: a model, mostly\n"
    ));
    shown.map_err(|error| OpenError::Usage(format!("the screen: {error}")))?;
    Ok(finished.ending.exit_code())
}

fn create_project(path: Option<ResolvedPath>) -> std::io::Result<PathBuf> {
    let root = match path {
        Some(path) => {
            path.create_folder()?;
            path.path
        }
        // Kept, so that the user can inspect the result.
        None => {
            let place = disk::temporary_folder(&[]);
            tempfile::Builder::new().prefix("agent-demo-").tempdir_in(place)?.keep()
        }
    };
    for (name, text) in FILES {
        // Another process may create a link at this path.
        disk::create_file(&root.join(name), 0o644)?.write_all(text.as_bytes())?;
    }
    Ok(root)
}

/// Changes the file after the agent has read it for the first time, to cause a real conflict.
struct ConcurrentChange {
    file: Option<PathBuf>,
}

impl Sink for ConcurrentChange {
    fn receive(&mut self, stamped: &StampedEvent) {
        let EventBody::ToolFinished { tool, .. } = &stamped.event.body else { return };
        if tool == "Read"
            && let Some(path) = self.file.take()
        {
            _ = disk::open_for_append(&path, false)
                .and_then(|mut file| file.write_all(COMMENT.as_bytes()));
        }
    }
}
