//! Ctrl-V: an image from the clipboard, as a file that the message mentions.

use std::rc::Rc;
use std::time::Duration;

use super::jobs::Jobs;
use crate::app::quote;
use crate::cli::editor::PrivateFolder;
use agent_host::exec::Command;
use agent_ui::tui::ChatUpdate;

const CLIPBOARD_TIMEOUT: Duration = Duration::from_secs(10);
/// A shell's exit code if there is no such program.
const NOT_FOUND: i32 = 127;

/// Variable that names the display, program that reads its clipboard, its arguments, its package.
const PROGRAMS: [(&str, &str, &str, &str); 2] = [
    ("WAYLAND_DISPLAY", "wl-paste", "--type image/png", "wl-clipboard"),
    ("DISPLAY", "xclip", "-selection clipboard -target image/png -out", "xclip"),
];

impl Jobs<'_> {
    pub(super) fn paste_image(&mut self) {
        let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let program = PROGRAMS.iter().find(|(variable, ..)| is_set(variable));
        let Some((_, program, arguments, package)) = program else {
            return self.report_no_image("there is no display whose clipboard could be read");
        };
        if self.pasted_images.is_none() {
            match PrivateFolder::create(&self.host_programs, self.options.dirs.as_ref()) {
                Ok(folder) => self.pasted_images = Some((Rc::new(folder), 0)),
                Err(error) => return self.report_no_image(&error.to_string()),
            }
        }
        let Some((folder, n_pasted)) = &mut self.pasted_images else { return };
        *n_pasted += 1;
        // The task keeps the folder until the program has ended.
        let (folder, path) = (folder.clone(), folder.0.join(format!("image-{n_pasted}.png")));
        let line = format!("{program} {arguments} > {}", quote(&path));
        let run = self.run_host_program(Command::new(
            line,
            self.host_programs.working_directory(),
            CLIPBOARD_TIMEOUT,
        ));
        let handle = self.handle.clone();
        let pasting = async move {
            let exit_code = run.await.exit_code;
            let has_content = path.metadata().is_ok_and(|file| file.len() > 0);
            handle.send(match exit_code {
                Some(0) if has_content => ChatUpdate::ImagePasted(path.display().to_string()),
                Some(NOT_FOUND) => no_image_note(&format!(
                    "{program} reads the clipboard and is not installed (package {package})"
                )),
                _ => no_image_note("there is no image in the clipboard"),
            });
            drop(folder);
        };
        self.spawn(pasting);
    }

    fn report_no_image(&self, why: &str) {
        self.handle.send(no_image_note(why));
    }
}

fn no_image_note(why: &str) -> ChatUpdate {
    ChatUpdate::Note(false, format!("{why}; an image's file can be dropped here, or named with @"))
}
