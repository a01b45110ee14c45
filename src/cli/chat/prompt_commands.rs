//! `/init` and `/review`: messages whose text for the model is a prompt.

use std::path::Path;

use crate::app::{HostPrograms, Options, Session};
use agent_host::exec::git::Git;
use agent_protocol::directives::UserInput;
use agent_protocol::prompt::{Prompt, fill};
use agent_ui::tui::CommandAction;

const INIT: Prompt = Prompt::named("commands/init.md");
const REVIEW: Prompt = Prompt::named("commands/review.md");
/// For a project that has none.
const NEW_RULES_FILE: &str = "AGENTS.md";

pub(in crate::cli) async fn command_message(
    session: &Session,
    options: &Options,
    action: CommandAction,
    arguments: &str,
) -> Result<UserInput, String> {
    let prompts = &options.config.prompts;
    let (name, prompt) = if action == CommandAction::Init {
        let existing = session.rules_file();
        let task = if existing.is_some() { "Update" } else { "Write" };
        let file = existing.unwrap_or_else(|| NEW_RULES_FILE.to_owned());
        let words = if arguments.is_empty() {
            String::new()
        } else {
            format!("\n\nThe user adds: {arguments}")
        };
        let values = [("task", task), ("file", &file), ("words", &words)];
        ("init", fill(prompts.text(INIT), &values))
    } else {
        let (root, branch) = (options.root.clone(), arguments.to_owned());
        let git = HostPrograms::from_writable(session.writable()).git();
        let changes =
            tokio::task::spawn_blocking(move || review_subject(&git, &root, &branch)).await;
        let (subject, how) = changes.map_err(|error| error.to_string())??;
        let values = [("subject", subject.as_str()), ("how", &how)];
        ("review", fill(prompts.text(REVIEW), &values))
    };
    let text = format!("/{name} {arguments}").trim_end().to_owned();
    Ok(UserInput { prompt: Some(prompt.trim_end().to_owned()), ..text.into() })
}

fn review_subject(git: &Git, root: &Path, branch: &str) -> Result<(String, String), String> {
    const UNTRACKED: &str =
        "`git ls-files --others --exclude-standard` lists new files; they are part of the change.";
    let failed = |error: std::io::Error| format!("git could not be run: {error}");
    if !git.is_work_tree(root).map_err(failed)? {
        return Err(format!("/review needs a git repository, and {} is in none", root.display()));
    }
    let head = git.commit_id(root, "HEAD").map_err(failed)?;
    if branch.is_empty() {
        // Without a commit only the index can be compared with something.
        let how = match head {
            Some(_) => "`git diff HEAD` shows it, staged or not",
            None => "there is no commit yet: `git diff --cached` shows what is staged",
        };
        return Ok(("the uncommitted changes".to_owned(), format!("{how}; {UNTRACKED}")));
    }
    let Some(other) = git.commit_id(root, branch).map_err(failed)? else {
        return Err(format!(
            "there is no branch or commit {branch:?}; `!git branch --all` lists the branches"
        ));
    };
    let head =
        head.ok_or("there is no commit yet; /review without a branch reviews what is staged")?;
    let Some(base) = git.merge_base(root, &other, &head).map_err(failed)? else {
        return Err(format!("{branch} and the current commit have no common ancestor"));
    };
    let subject = format!("the changes since the merge base with `{branch}`, which is {base}");
    let how = format!(
        "`git log --oneline {base}..HEAD` lists the commits, `git diff {base}` shows the change with what is \
         not committed yet; {UNTRACKED}"
    );
    Ok((subject, how))
}
