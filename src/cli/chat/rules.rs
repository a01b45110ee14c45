//! `/permissions`: lists, adds and removes permission rules.

use std::fs::{self, Permissions};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use crate::app::{self, Options, Session};
use crate::cli::options::{self, ToolOptions};
use crate::cli::trust;
use crate::config::{self, AGENT_DIR, Trust, with_rule};
use crate::protocol::event::SessionRule;
use crate::ui::tui::{News, PagePlace};

const USAGE: &str =
    "/permissions [list | add allow|ask|deny RULE [session|project|user] | remove NUMBER]";

/// Where a rule is kept.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Scope {
    Session,
    Project,
    User,
}

pub(super) fn permissions(session: &Session, options: &Options, arguments: &str) -> News {
    let (word, rest) = arguments.split_once(char::is_whitespace).unwrap_or((arguments, ""));
    let done = match (word, rest.trim()) {
        ("" | "list", "") => {
            let (title, text) = ("Permissions".to_owned(), in_words(session, options));
            return News::Page { title, text, place: PagePlace::Conversation };
        }
        ("add", rule) if !rule.is_empty() => add(session, options, rule),
        ("remove", number) if number.parse().is_ok_and(|id| session.remove_rule(id)) => {
            Ok("the rule is removed".to_owned())
        }
        ("remove", _) => {
            Err("there is no session rule of this number: /permissions lists them".to_owned())
        }
        _ => Err(USAGE.to_owned()),
    };
    match done {
        Ok(text) => News::Note(true, text),
        Err(reason) => News::Note(false, reason),
    }
}

/// Adds `allow Bash(cargo test *) user`; returns what was done.
fn add(session: &Session, options: &Options, text: &str) -> Result<String, String> {
    let (list, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    if !matches!(list, "allow" | "ask" | "deny") {
        return Err(format!("begin the rule with allow, ask or deny: {USAGE}"));
    }
    let (rule, scope) = scope_of(rest.trim());
    let rules = app::permission_rules(rule)?;
    let is_trusted = scope == Scope::Project && is_trusted(options);
    let stored = match file_of(options, scope)? {
        Some(file) => {
            for rule in &rules {
                store(&file, list, rule.text())?;
            }
            Some(file)
        }
        None => None,
    };
    // A stored rule applies to this session, too.
    let is_new = session.add_rules(list, &rules);
    let Some(file) = stored else {
        let text =
            if is_new { "the rule applies to this session" } else { "this rule is there already" };
        return Ok(text.to_owned());
    };
    let file = file.display();
    // Only what permits something needs trust in the folder.
    if scope == Scope::User || list != "allow" {
        return Ok(format!("the rule is in {file}"));
    }
    if !is_trusted {
        return Ok(format!(
            "the rule is in {file}; later sessions apply it once you run `agent trust`"
        ));
    }
    // The user trusts the folder, and wrote this change.
    trust::trust_as_it_is(&options.root, |_| ()).map_err(|error| error.to_string())?;
    Ok(format!("the rule is in {file}, which is trusted with it"))
}

/// The user trusts the folder with the settings that it has now.
fn is_trusted(options: &Options) -> bool {
    let (root, dirs) = (&options.root, options.dirs.as_ref());
    let loaded = || options::load(root, dirs, &ToolOptions::default(), None);
    matches!(config::trust_in(dirs, root), Trust::With(_))
        && loaded().is_ok_and(|loaded| loaded.trusted)
}

/// The rule and where it is kept: the last word, if that is a scope.
fn scope_of(text: &str) -> (&str, Scope) {
    let (rule, word) = text.rsplit_once(char::is_whitespace).unwrap_or((text, ""));
    match word {
        "session" => (rule, Scope::Session),
        "project" => (rule, Scope::Project),
        "user" => (rule, Scope::User),
        _ => (text, Scope::Session),
    }
}

/// The configuration file of a scope.
fn file_of(options: &Options, scope: Scope) -> Result<Option<PathBuf>, String> {
    let folder = match scope {
        Scope::Session => return Ok(None),
        Scope::Project => options.root.join(AGENT_DIR),
        Scope::User => {
            let dirs = options.dirs.as_ref();
            dirs.ok_or("there is no home folder for your configuration: set HOME")?.config.clone()
        }
    };
    let file = folder.join(config::FILE_NAME);
    if scope == Scope::Project && (folder.is_symlink() || file.is_symlink()) {
        return Err(format!(
            "{}: a link is not changed; edit the file it leads to",
            file.display()
        ));
    }
    Ok(Some(file))
}

/// Adds the rule to the file, which keeps everything else.
fn store(file: &Path, list: &str, rule: &str) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("{}: {error}", file.display());
    let old = match fs::read_to_string(file) {
        Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
        read => read.map_err(failed)?,
    };
    let new =
        with_rule(&old, list, rule).map_err(|reason| format!("{}: {reason}", file.display()))?;
    // (The user's configuration may be a link to a file elsewhere.)
    let real = file.canonicalize().unwrap_or_else(|_| file.to_owned());
    let folder = real.parent().unwrap_or(&real);
    fs::create_dir_all(folder).map_err(failed)?;
    let permissions = fs::metadata(&real).map(|data| data.permissions());
    let permissions = permissions.unwrap_or_else(|_| Permissions::from_mode(0o644));
    let mut copy = tempfile::NamedTempFile::new_in(folder).map_err(failed)?;
    copy.write_all(new.as_bytes()).map_err(failed)?;
    copy.as_file().set_permissions(permissions).map_err(failed)?;
    copy.persist(&real).map(drop).map_err(|error| failed(error.error))
}

fn in_words(session: &Session, options: &Options) -> String {
    let mut text = format!("mode {} (/mode changes it)\n\n", session.mode().as_str());
    let rules = session.session_rules();
    text.push_str("Rules of this session (/permissions remove NUMBER):\n");
    if rules.is_empty() {
        text.push_str("  none\n");
    }
    for SessionRule { id, rule, words, is_written } in &rules {
        let source = match (is_written, words.as_str()) {
            (true, _) => "/permissions add",
            (false, "") => "your answer “always”",
            (false, words) => words,
        };
        text.push_str(&format!("{id:>3}  {rule}  · {source}\n"));
    }
    text.push_str("\nConfigured rules:\n");
    if options.config.rules.is_empty() {
        text.push_str("  none\n");
    }
    for (list, rule, origin) in &options.config.rules {
        text.push_str(&format!("     {list} {rule}  · {origin}\n"));
    }
    text
}
