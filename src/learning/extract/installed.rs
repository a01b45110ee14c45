//! What an installed program refuses of itself it refuses in every project on this system.
//!
//! What it does for a project (its tasks, services, places, versions at odds) is that project's alone, and so is what a
//! program takes that each project installs for itself.

use super::super::command::SYSTEM;
use super::super::evidence::{has_word, is_circumstance, knows_no_option};
use super::super::item::Fix;
use super::super::pattern::kind_of;
use super::commands::on_this_system;
use super::{Lesson, Try};
use crate::protocol::command::{INTERPRETERS, unquoted};
use crate::protocol::topics;

/// Programs that know nothing but the files that they are given, and what they were built with.
const CONVERTERS: [&str; 12] = [
    "convert",
    "dot",
    "ffmpeg",
    "ffprobe",
    "gs",
    "identify",
    "inkscape",
    "magick",
    "pandoc",
    "pdftotext",
    "rsvg-convert",
    "sox",
];
/// Programs whose options are their tasks', which a project writes.
const RUN_TASKS: [&str; 17] = [
    "make", "gmake", "just", "rake", "task", "npm", "pnpm", "yarn", "bun", "npx", "mvn", "gradle",
    "sbt", "mix", "composer", "bundle", "deno",
];
/// What hands its options on to something else.
const HANDS_ON: [&str; 4] = ["run", "exec", "test", "x"];
/// What programs are for that each project installs for itself, in the version that it needs.
const OF_PROJECTS: [&str; 8] =
    ["test", "build", "lint", "format", "docs", "migrate", "start", "bench"];
/// The values of a switch.
const SWITCHED: [&str; 6] = ["0", "1", "true", "false", "on", "off"];

/// The lesson, of all projects on this system where it is about the program as it is installed.
pub(super) fn of_installed(lesson: Lesson, bad: &Try<'_>) -> Lesson {
    let head = lesson.when.command_head.clone().unwrap_or_default();
    let (program, task) = head.split_once(' ').unwrap_or((&head, ""));
    let is_foreign = program.is_empty()
        || program.contains('/')
        || SYSTEM.contains(&program)
        || INTERPRETERS.contains(&program)
        || RUN_TASKS.contains(&program)
        || topics::of_command(program).is_some_and(|topic| OF_PROJECTS.contains(&topic));
    // Paths, files and what is worked out of the place are not the program's.
    let is_file = |word: &str| word.split('=').any(|part| kind_of(&unquoted(part)).is_some());
    let is_plain =
        |words: &str| !words.contains(['/', '$', '`']) && !words.split_whitespace().any(is_file);
    // An option is the same whatever is given with it: `--package=web`.
    let name = |word: &str| word.split('=').next().unwrap_or_default().to_owned();
    let is_its_own = || match &lesson.fix {
        Some(Fix::ReplaceWords { from, to }) if is_plain(from) && is_plain(to) => {
            let first = from.split_whitespace().next().unwrap_or_default();
            let is_refused = || {
                first.starts_with('-')
                    && !to.split_whitespace().any(|word| name(word) == name(first))
                    && !HANDS_ON.contains(&task)
                    && knows_no_option(bad.error, first)
            };
            CONVERTERS.contains(&program) || is_refused()
        }
        // `go: -race requires cgo; enable cgo by setting CGO_ENABLED=1`: it speaks in its own name.
        Some(Fix::Prefix { with }) => {
            let says = |name: &str| {
                bad.error.lines().any(|line| {
                    let own = line.strip_prefix(program);
                    own.is_some_and(|said| said.starts_with(": "))
                        && is_circumstance(line)
                        && has_word(line, name)
                })
            };
            let is_switch = |word: &str| {
                let (name, value) = word.split_once('=').unwrap_or_default();
                SWITCHED.contains(&value) && says(name)
            };
            with.split_whitespace().all(is_switch)
        }
        Some(
            Fix::ReplaceWords { .. }
            | Fix::RunFirst { .. }
            | Fix::RenameArgument { .. }
            | Fix::SetArguments { .. }
            | Fix::ReplacePath { .. }
            | Fix::OtherTool { .. },
        )
        | None => false,
    };
    if is_foreign || !is_its_own() {
        return lesson;
    }
    on_this_system(lesson)
}
