//! `agent trust`: the user says that a folder's own configuration counts in full.

use std::path::PathBuf;

use clap::Args;

use super::options;
use crate::config::{self, UserDirs};
use crate::ui;

#[derive(Debug, Args)]
pub(super) struct TrustArgs {
    /// The folder; where none is given, this one
    dir: Option<PathBuf>,
}

pub(super) fn trust(args: &TrustArgs) -> u8 {
    let root = match options::root(args.dir.as_deref()) {
        Ok(root) => root,
        Err(error) => {
            ui::tell(&error.to_string());
            return error.exit_code();
        }
    };
    let Some(dirs) = UserDirs::find() else {
        ui::tell("there is no home folder to remember it in: set HOME");
        return 2;
    };
    if config::is_trusted(Some(&dirs), &root) {
        ui::print(&format!("{} is trusted already\n", root.display()));
        return 0;
    }
    let file = dirs.trusted_file();
    match config::trust(&dirs, &root) {
        Ok(()) => {
            ui::print(&format!(
                "{} is trusted; to take that back, remove its line from {}\n",
                root.display(),
                file.display()
            ));
            0
        }
        Err(error) => {
            ui::tell(&format!("{}: {error}", file.display()));
            2
        }
    }
}
