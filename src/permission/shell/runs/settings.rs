//! Settings that run nothing, name no place and trust nobody: those may stand behind `git -c`, or before a command.

use super::super::word::Word;

/// Sections whose every setting is one.
const SECTIONS: &[&str] = &["advice", "author", "color", "column", "committer", "i18n"];

/// Settings of other sections, in lower case as git compares them.
const KEYS: &[&str] = &[
    "blame.date",
    "branch.sort",
    "commit.cleanup",
    "commit.status",
    "commit.verbose",
    "core.abbrev",
    "core.autocrlf",
    "core.commentchar",
    "core.compression",
    "core.eol",
    "core.filemode",
    "core.ignorecase",
    "core.precomposeunicode",
    "core.preloadindex",
    "core.quotepath",
    "core.safecrlf",
    "core.symlinks",
    "core.whitespace",
    "diff.algorithm",
    "diff.colormoved",
    "diff.context",
    "diff.mnemonicprefix",
    "diff.noprefix",
    "diff.renamelimit",
    "diff.renames",
    "gc.auto",
    "grep.linenumber",
    "grep.patterntype",
    "init.defaultbranch",
    "log.abbrevcommit",
    "log.date",
    "log.decorate",
    "log.follow",
    "log.showroot",
    "maintenance.auto",
    "merge.conflictstyle",
    "merge.ff",
    "merge.log",
    "merge.renamelimit",
    "merge.renames",
    "pull.ff",
    "pull.rebase",
    "push.default",
    "rebase.autosquash",
    "rebase.autostash",
    "rebase.updaterefs",
    "stash.showpatch",
    "status.branch",
    "status.relativepaths",
    "status.short",
    "status.showstash",
    "status.showuntrackedfiles",
    "tag.sort",
    "user.email",
    "user.name",
    "user.useconfigonly",
];

/// Settings that run a program where they are on.
const SWITCHES: &[&str] =
    &["commit.gpgsign", "core.fsmonitor", "log.showsignature", "push.gpgsign", "tag.gpgsign"];

/// Variables that say how something is written, or who writes it.
const VARIABLES: &[&str] = &[
    "CLICOLOR",
    "COLUMNS",
    "FORCE_COLOR",
    "GIT_AUTHOR_DATE",
    "GIT_AUTHOR_EMAIL",
    "GIT_AUTHOR_NAME",
    "GIT_COMMITTER_DATE",
    "GIT_COMMITTER_EMAIL",
    "GIT_COMMITTER_NAME",
    "LANG",
    "LC_ALL",
    "LC_COLLATE",
    "LC_CTYPE",
    "LC_NUMERIC",
    "LC_TIME",
    "NO_COLOR",
    "TZ",
];
/// Variables that name a program, which may be `cat`.
const PAGERS: &[&str] = &["GIT_PAGER", "PAGER"];

/// Variables that name the editor.
const EDITORS: &[&str] = &["EDITOR", "GIT_EDITOR", "GIT_SEQUENCE_EDITOR", "VISUAL"];

/// What is set before a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in super::super::super) enum Sets {
    /// Nothing, or what lets it do nothing that it would not do without it.
    Nothing,
    /// An editor that leaves the text as it is.
    Editor,
    /// Anything.
    Anything,
}

/// What this sets.
pub(super) fn sets(assignment: &Word) -> Sets {
    let Some((name, value)) = assignment.known().and_then(|text| text.split_once('=')) else {
        return Sets::Anything;
    };
    // (A locale can be a folder.)
    let is_harmless = VARIABLES.contains(&name) && !value.contains('/')
        || PAGERS.contains(&name) && value == "cat";
    if is_harmless {
        Sets::Nothing
    } else if EDITORS.contains(&name) && leaves_as_it_is(value) {
        Sets::Editor
    } else {
        Sets::Anything
    }
}

/// An editor that leaves the text as it is.
fn leaves_as_it_is(editor: &str) -> bool {
    matches!(editor, "true" | ":")
}

/// What stands behind `git -c` lets git run nothing that it would not run without it.
pub(in super::super::super) fn is_harmless_setting(word: &Word) -> bool {
    let Some(text) = word.known() else { return false };
    let (key, value) = text.split_once('=').unwrap_or((text, "on"));
    let key = key.to_ascii_lowercase();
    let is_in_section = key.split_once('.').is_some_and(|(section, _)| SECTIONS.contains(&section));
    is_in_section
        || KEYS.contains(&&*key)
        || matches!(&*key, "core.editor" | "sequence.editor") && leaves_as_it_is(value)
        || SWITCHES.contains(&&*key) && matches!(value, "false" | "no" | "off" | "0")
}
