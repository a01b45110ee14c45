//! `agent trace html`: writes a session as one HTML page.

use std::io::{self, Write as _};
use std::path::PathBuf;

use clap::Args;

use crate::app::OpenError;
use crate::cli::options;
use crate::cli::session::{SessionArgs, find_session};
use agent_protocol::disk::{self, ResolvedPath};
use agent_record::trace::page;

#[derive(Debug, Args)]
pub(in crate::cli) struct HtmlArgs {
    #[command(flatten)]
    one: SessionArgs,
    /// Write to this file, `-` for standard output; otherwise to agent-trace-ID.html in this folder
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

pub(super) fn write_html(args: &HtmlArgs) -> Result<agent_ui::CommandOutput, OpenError> {
    let (storage, id) = find_session(&args.one.project_args, args.one.id.as_deref())?;
    let log = storage.log_path(&id);
    let text = disk::read_file(&log);
    let text = text.map_err(|error| OpenError::Usage(format!("{}: {error}", log.display())))?;
    let page = page::render_html(&text);
    for notice in &page.notices {
        agent_ui::print_notice(&format!("{}: {notice}", log.display()));
    }
    let named = args.output.clone();
    if named.as_ref().is_some_and(|path| path.as_os_str() == "-") {
        return Ok(agent_ui::CommandOutput::Data(page.html));
    }
    let short = storage.short_id(&id);
    let path = named.unwrap_or_else(|| format!("agent-trace-{short}.html").into());
    let written = write_page(&options::resolve_path(&path)?, &page.html);
    written.map_err(|error| {
        let why = match error.kind() {
            io::ErrorKind::NotFound => "its folder does not exist".to_owned(),
            io::ErrorKind::AlreadyExists => {
                "exists and is not a page of `agent trace html`; name another file with -o"
                    .to_owned()
            }
            _ => format!("{}; name another file with -o", disk::in_words(&error)),
        };
        OpenError::Usage(format!("{}: {why}", path.display()))
    })?;
    Ok(format!("{}\n", path.display()).into())
}

/// Replaces an earlier page, but no other file. Follows no link, which a command may have created.
fn write_page(path: &ResolvedPath, page: &str) -> io::Result<()> {
    let mut file = match path.create_file() {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let beginning = page::BEGINNING.as_bytes();
            if disk::read_beginning(&path.path, beginning.len() as u64)? != beginning {
                return Err(error);
            }
            let file = path.open_for_write()?;
            file.set_len(0)?;
            file
        }
        created => created?,
    };
    file.write_all(page.as_bytes())
}
