//! `/permissions`: lists, adds and removes permission rules.

use std::fs;
use std::path::PathBuf;

use crate::app::{self, OpenError, Options, Session};
use crate::cli::options::{self, ToolOptions};
use crate::config::{
    self, LoadedConfig, Origin, SensitiveSettings, Trust, UserDirs, change_file, with_rule,
};
use agent_permission::Rule;
use agent_protocol::event::SessionRule;
use agent_ui::tui::{ChatUpdate, PagePlace};

const USAGE: &str =
    "/permissions [list | add allow|ask|deny RULE [session|project|user] | remove NUMBER]";

#[derive(Clone, Copy, PartialEq, Eq)]
enum RuleScope {
    Session,
    Project,
    User,
}

/// Rules that the chat added to files since the configuration was loaded: list, rule, origin.
pub(super) type StoredRules = Vec<(String, String, Origin)>;

pub(super) fn run_permissions_command(
    session: &Session,
    options: &Options,
    arguments: &str,
    stored: &mut StoredRules,
) -> Option<ChatUpdate> {
    let (word, rest) = arguments.split_once(char::is_whitespace).unwrap_or((arguments, ""));
    let done = match (word, rest.trim()) {
        ("" | "list", "") => {
            let (title, text) = ("Permissions".to_owned(), describe_rules(session, options));
            return Some(ChatUpdate::Page { title, text, place: PagePlace::Conversation });
        }
        ("add", rule) if !rule.is_empty() => add_rule(session, options, rule, stored),
        ("remove", number) => remove_rule(session, options, number, stored),
        _ => Err(USAGE.to_owned()),
    };
    match done {
        Ok(text) => text.map(|text| ChatUpdate::Note(true, text)),
        Err(reason) => Some(ChatUpdate::Note(false, reason)),
    }
}

/// `allow Bash(cargo test *) user`. Returns what the event of the session does not say.
fn add_rule(
    session: &Session,
    options: &Options,
    text: &str,
    stored: &mut StoredRules,
) -> Result<Option<String>, String> {
    let (list, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    if !matches!(list, "allow" | "ask" | "deny") {
        return Err(format!("begin the rule with allow, ask or deny: {USAGE}"));
    }
    let (rule, scope) = split_scope(rest.trim());
    let rules = app::parse_permission_rules(rule)?;
    let Some(file) = scope_file(options, scope)? else {
        let is_new = session.add_rules(list, &rules);
        return Ok((!is_new).then(|| "this rule is there already".to_owned()));
    };
    // Only what permits something needs trust in the folder.
    let needs_trust = scope == RuleScope::Project && list == "allow";
    let trusted = trusted_needs(options).filter(|_| needs_trust);
    let add =
        |old: String| rules.iter().try_fold(old, |text, rule| with_rule(&text, list, rule.text()));
    change_file(&file, add).map_err(|reason| format!("{reason}; the rule is not stored"))?;
    // A stored rule applies to this session, too.
    session.add_rules(list, &rules);
    let is_still_trusted = trusted.is_some();
    if let Some((dirs, needs)) = trusted {
        // The settings that were checked and this rule, not what the files contain by now.
        let seal = needs.with_allowed_rules(rules.iter().map(Rule::text)).digest();
        config::trust_folder(dirs, &options.root, &seal).map_err(|error| error.to_string())?;
    }
    // Without trust in the folder this leaves out what needs it.
    let loaded = reload_config(options).map(|loaded| loaded.rules).unwrap_or_default();
    let is_this = |(its_list, text): (&str, &str)| {
        its_list == list && rules.iter().any(|rule| rule.text() == text)
    };
    let is_listed = options.config.rules.iter().chain(&*stored).any(|it| is_this((&it.0, &it.1)));
    stored.extend(loaded.into_iter().filter(|it| !is_listed && is_this((&it.0, &it.1))));
    let then = match (needs_trust, is_still_trusted) {
        (false, _) => "",
        (true, true) => "; the folder is still trusted",
        (true, false) => "; later sessions apply it once you run `agent trust`",
    };
    Ok(Some(format!("the rule is stored in {}{then}", file.display())))
}

/// Returns which file still has the rule.
fn remove_rule(
    session: &Session,
    options: &Options,
    number: &str,
    stored: &mut StoredRules,
) -> Result<Option<String>, String> {
    let rules = session.session_rules();
    let removed = rules.iter().find(|rule| rule.id.to_string() == number);
    let removed = removed.filter(|rule| session.remove_rule(rule.id));
    let removed =
        removed.ok_or("there is no session rule of this number: /permissions lists them")?;
    let (list, rule) = removed.rule.split_once(' ').unwrap_or_default();
    stored.retain(|(its_list, text, _)| (its_list.as_str(), text.as_str()) != (list, rule));
    let has_it = |file: &PathBuf| {
        let text = fs::read_to_string(file).unwrap_or_default();
        with_rule(&text, list, rule).is_ok_and(|new| new == text)
    };
    let files = [RuleScope::Project, RuleScope::User]
        .map(|scope| scope_file(options, scope).ok().flatten());
    let files: Vec<String> =
        files.into_iter().flatten().filter(has_it).map(|it| it.display().to_string()).collect();
    let files = files.join(" and ");
    Ok((!files.is_empty()).then(|| {
        format!("{files} still has this rule; remove it there, then start the agent again")
    }))
}

/// `None` if the user does not trust the folder with them.
fn trusted_needs(options: &Options) -> Option<(&UserDirs, SensitiveSettings)> {
    let dirs = options.dirs.as_ref()?;
    let is_sealed =
        matches!(config::folder_trust(Some(dirs), &options.root), Trust::WithSettings(_));
    let loaded = reload_config(options).ok().filter(|loaded| is_sealed && loaded.is_trusted);
    loaded.map(|loaded| (dirs, loaded.sensitive_settings))
}

fn reload_config(options: &Options) -> Result<LoadedConfig, OpenError> {
    options::load_config(&options.root, options.dirs.as_ref(), &ToolOptions::default(), None)
}

fn split_scope(text: &str) -> (&str, RuleScope) {
    let (rule, word) = text.rsplit_once(char::is_whitespace).unwrap_or((text, ""));
    match word {
        "session" => (rule, RuleScope::Session),
        "project" => (rule, RuleScope::Project),
        "user" => (rule, RuleScope::User),
        _ => (text, RuleScope::Session),
    }
}

fn scope_file(options: &Options, scope: RuleScope) -> Result<Option<PathBuf>, String> {
    Ok(match scope {
        RuleScope::Session => None,
        RuleScope::Project => Some(config::changeable_project_file(&options.root)?),
        RuleScope::User => {
            let dirs = options.dirs.as_ref();
            let dirs = dirs.ok_or("there is no home folder for your configuration: set HOME")?;
            Some(dirs.config.join(config::FILE_NAME))
        }
    })
}

fn describe_rules(session: &Session, options: &Options) -> String {
    let mut text =
        format!("mode {} (/mode changes it)\n\n", session.apply_requested_mode().as_str());
    let rules = session.session_rules();
    text.push_str("Rules of this session (/permissions remove NUMBER):\n");
    if rules.is_empty() {
        text.push_str("  none\n");
    }
    for SessionRule { id, rule, words, directories, is_written } in &rules {
        let source = match (is_written, words.as_str()) {
            (true, _) => "/permissions add",
            (false, "") => "your answer “always”",
            (false, words) => words,
        };
        let here = if directories.is_empty() { "" } else { " in " };
        let here = format!("{here}{}", directories.join(", "));
        text.push_str(&format!("{id:>3}  {rule}{here}  · {source}\n"));
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
