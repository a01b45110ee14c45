//! `agent session receipt` writes what a session did, and `agent verify` checks it, also on another machine.

use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use clap::Args;

use super::options::{self, ToolOptions};
use super::session::{SessionArgs, find_session, find_session_by_id};
use super::usage_error;
use crate::app::{HostPrograms, OpenError, ProjectCopies, find_failing_check, new_name, quote};
use crate::config::{LoadedConfig, UserDirs};
use agent_host::exec::Command;
use agent_host::workspace::SessionChanges;
use agent_protocol::control::SessionControl;
use agent_protocol::disk;
use agent_record::{Receipt, ReceiptCheck, ReceiptFacts, ReceiptFile};
use agent_ui::CommandOutput;

/// What the signature is for, so that one for another purpose does not count.
const NAMESPACE: &str = "agent-receipt";
const SIGN_TIMEOUT: Duration = Duration::from_mins(1);
const MAX_BYTES: u64 = 1 << 30;

#[derive(Debug, Args)]
pub(super) struct ReceiptArgs {
    #[command(flatten)]
    one: SessionArgs,
    /// Write the receipt to FILE, and the log beside it as FILE.events.jsonl, which holds all that the session read and wrote
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Sign it with this key of SSH; default: `record.signing_key`
    #[arg(long, value_name = "KEY")]
    sign: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(super) struct VerifyArgs {
    /// The receipt, a file of `agent session receipt`
    receipt: PathBuf,
    /// The log of the session; default: RECEIPT.events.jsonl beside it, else the session on this machine
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// The project whose files are compared; default: this folder
    #[arg(long, value_name = "DIR")]
    repo: Option<PathBuf>,
    /// Who may have signed it: a file like `gpg.ssh.allowedSignersFile` of git
    #[arg(long, value_name = "FILE")]
    allowed_signers: Option<PathBuf>,
    /// Run the checks of the receipt again, in a copy of the project
    #[arg(long)]
    rerun: bool,
}

pub(super) fn write(args: &ReceiptArgs) -> u8 {
    let work = async {
        agent_ui::print_output(&write_receipt(args).await?);
        Ok(0)
    };
    super::block_on_result(work, &SessionControl::default())
}

async fn write_receipt(args: &ReceiptArgs) -> Result<CommandOutput, OpenError> {
    let (storage, id) = find_session(&args.one.project_args, args.one.id.as_deref())?;
    let project = storage.project_dir().map_err(|error| usage_error(error.to_string()))?;
    let root = storage.work_copy(&id).unwrap_or(project);
    let tools = ToolOptions { cwd: Some(root.clone()), ..ToolOptions::default() };
    let (_, _, loaded) = options::load_project_config(&tools)?;
    let programs = HostPrograms::from_config(&loaded.config, &root, &[]);
    let path = storage.log_path(&id);
    let mut log = disk::read_file(&path).map_err(|error| usage_error(error.to_string()))?;
    log.truncate(log.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1));
    let events = agent_record::parse_log(&log).map_err(usage_error)?;
    let changes = SessionChanges::read(&storage.operations_dir(&id));
    let finished = agent_record::turns(&events).into_iter().filter_map(|turn| turn.finished);
    if changes.last_change_ms == 0 && finished.into_iter().any(|it| !it.files_changed.is_empty()) {
        let why =
            "what this session changed was not recorded (checkpoints.enabled): there is no receipt";
        return Err(usage_error(why));
    }
    let hex = |hash: &blake3::Hash| hash.to_string();
    let files = changes.files.iter().map(|(path, (before, after))| ReceiptFile {
        path: path.clone(),
        before: before.as_ref().map(hex),
        after: after.as_ref().map(hex),
    });
    let facts = ReceiptFacts {
        files: files.collect(),
        last_change_ms: Some(changes.last_change_ms).filter(|time| *time > 0),
        commit: programs.git().commit_id(&root, "HEAD").ok().flatten(),
    };
    let mut receipt = Receipt::of(&log, &events, facts);
    let configured = loaded.config.record.signing_key.as_ref().map(PathBuf::from);
    if let Some(key) = args.sign.as_ref().or(configured.as_ref()) {
        let line = format!("ssh-keygen -Y sign -n {NAMESPACE} -f {}", quote(key));
        receipt.signature = Some(ssh_keygen(&programs, &line, &receipt.signed_text()).await?);
    }
    let text = serde_json::to_string_pretty(&receipt).unwrap_or_default() + "\n";
    let Some(output) = &args.output else { return Ok(CommandOutput::Data(text)) };
    let beside = log_beside(output);
    for (path, bytes) in [(output, text.as_bytes()), (&beside, &log)] {
        write_privately(path, bytes).map_err(|error| {
            usage_error(format!("{}: {}", path.display(), disk::in_words(&error)))
        })?;
    }
    let (output, beside) = (output.display(), beside.display());
    agent_ui::print_notice(&format!(
        "wrote {output}, and {beside} (the log: all that the session read and wrote)"
    ));
    Ok(CommandOutput::Data(String::new()))
}

/// The lines of a verification, and whether all is as the receipt says.
struct Verification {
    text: String,
    is_true: bool,
}

impl Verification {
    fn add(&mut self, what: &str, result: Result<String, String>) {
        self.is_true &= result.is_ok();
        let mark = if result.is_ok() { '✓' } else { '✗' };
        let (Ok(said) | Err(said)) = result;
        self.text.push_str(&format!("{mark} {what:<9} {said}\n"));
    }
}

/// Exit code 1: something is not as the receipt says.
pub(super) fn verify(args: &VerifyArgs) -> u8 {
    let control = SessionControl::default();
    super::block_on_result(Box::pin(verify_receipt(args, &control)), &control)
}

async fn verify_receipt(args: &VerifyArgs, control: &SessionControl) -> Result<u8, OpenError> {
    let shown = args.receipt.display();
    let text = disk::read_small(&args.receipt, MAX_BYTES)
        .map_err(|error| usage_error(format!("{shown}: {}", disk::in_words(&error))))?;
    let wrong = |why: &dyn std::fmt::Display| {
        usage_error(format!("{shown} is no receipt of this version: {why}"))
    };
    let receipt: Receipt = serde_json::from_slice(&text).map_err(|error| wrong(&error))?;
    if serde_json::from_slice::<serde_json::Value>(&text).ok()
        != serde_json::to_value(&receipt).ok()
    {
        return Err(wrong(&"it has a field that no receipt has"));
    }
    let tools = ToolOptions { cwd: args.repo.clone(), ..ToolOptions::default() };
    let (root, dirs, loaded) = options::load_project_config(&tools)?;
    let programs = HostPrograms::from_config(&loaded.config, &root, &[]);
    let mut done = Verification { text: String::new(), is_true: true };
    let beside = Some(log_beside(&args.receipt)).filter(|path| path.exists());
    let log = args.log.clone().or(beside);
    let log = log.or_else(|| {
        find_session_by_id(&receipt.session).ok().map(|(storage, id)| storage.log_path(&id))
    });
    let Some(log) = log else {
        return Err(usage_error(format!(
            "the log of session {} is not on this machine: copy it beside the receipt as {}, or name it with --log",
            receipt.session,
            log_beside(&args.receipt).display()
        )));
    };
    done.add("log", verify_log(&receipt, &log));
    done.add("checks", verify_checks(&receipt));
    done.add("files", verify_files(&receipt, &root));
    done.add("signature", verify_signature(&receipt, args, &programs).await);
    if args.rerun && done.is_true {
        done.add("rerun", rerun_checks(&receipt, &root, &loaded, dirs.as_ref(), control).await?);
    }
    agent_ui::print_output(&CommandOutput::Text(done.text));
    Ok(u8::from(!done.is_true))
}

fn verify_log(receipt: &Receipt, path: &Path) -> Result<String, String> {
    let log = disk::read_small(path, MAX_BYTES)
        .map_err(|error| format!("{}: {}", path.display(), disk::in_words(&error)))?;
    let part = receipt.sealed_part(&log)?;
    let events = agent_record::parse_log(part)?;
    match receipt.differing_field(part, &events) {
        Some(field) => Err(format!("the receipt's field `{field}` is not what the log says")),
        None => {
            Ok(format!("{} events, as recorded, and the receipt says what they say", events.len()))
        }
    }
}

/// The last run of each command.
fn last_checks(receipt: &Receipt) -> Vec<&ReceiptCheck> {
    let mut last: Vec<&ReceiptCheck> = Vec::new();
    for check in &receipt.checks {
        last.retain(|it| it.command != check.command);
        last.push(check);
    }
    last
}

fn verify_checks(receipt: &Receipt) -> Result<String, String> {
    let last = last_checks(receipt);
    for ReceiptCheck { command, passed, after_last_change, .. } in &last {
        if !passed {
            return Err(format!("`{command}` failed"));
        } else if !after_last_change {
            return Err(format!(
                "`{command}` passed before the last change, and did not run again"
            ));
        }
    }
    let commands: Vec<&str> = last.iter().map(|check| check.command.as_str()).collect();
    let passed = format!("passed after the last change: {}", commands.join("; "));
    Ok(if last.is_empty() { "none ran".to_owned() } else { passed })
}

fn verify_files(receipt: &Receipt, root: &Path) -> Result<String, String> {
    let is_plain = |path: &Path| path.components().all(|it| matches!(it, Component::Normal(_)));
    let differs = |file: &&ReceiptFile| {
        let path = root.join(&file.path);
        let now = match disk::metadata_without_links(&path) {
            Ok(data) if data.is_file() => disk::read_small(&path, MAX_BYTES).ok(),
            Err(error) if disk::is_missing(&error) => return file.after.is_some(),
            _ => None,
        };
        let now = now.map(|bytes| blake3::hash(&bytes).to_string());
        now.is_none() || now != file.after || !is_plain(Path::new(&file.path))
    };
    let others: Vec<&str> =
        receipt.files.iter().filter(differs).map(|file| file.path.as_str()).collect();
    let (n, root) = (receipt.files.len(), root.display());
    match others.as_slice() {
        [] => Ok(format!("{n} in {root}, as the session left them")),
        others => Err(format!(
            "{} of {n} in {root} are not as the session left them: {}",
            others.len(),
            others.join(", ")
        )),
    }
}

async fn verify_signature(
    receipt: &Receipt,
    args: &VerifyArgs,
    programs: &HostPrograms,
) -> Result<String, String> {
    let Some(signature) = &receipt.signature else {
        let unsigned = "none: who wrote the receipt is not known";
        return if args.allowed_signers.is_some() {
            Err(unsigned.into())
        } else {
            Ok(unsigned.into())
        };
    };
    let file = tempfile::NamedTempFile::new_in(programs.temporary_folder())
        .and_then(|file| std::fs::write(file.path(), signature).map(|()| file))
        .map_err(|error| error.to_string())?;
    let of = format!("-n {NAMESPACE} -s {}", quote(file.path()));
    let line = match &args.allowed_signers {
        None => format!("ssh-keygen -Y check-novalidate {of}"),
        Some(signers) => {
            let signers = quote(signers);
            format!(
                "who=$(ssh-keygen -Y find-principals -f {signers} -s {}) && \
                 ssh-keygen -Y verify -f {signers} -I \"${{who%%,*}}\" {of}",
                quote(file.path())
            )
        }
    };
    let said = ssh_keygen(programs, &line, &receipt.signed_text()).await;
    let unknown = "; whose key that is was not checked (--allowed-signers FILE)";
    let unknown = if args.allowed_signers.is_some() { "" } else { unknown };
    said.map(|said| said + unknown).map_err(|error| error.to_string())
}

/// Runs a line with this input; returns what it prints.
async fn ssh_keygen(programs: &HostPrograms, line: &str, input: &str) -> Result<String, OpenError> {
    let wrong = |why: &str| usage_error(format!("ssh-keygen: {}", why.trim()));
    let file = tempfile::NamedTempFile::new_in(programs.temporary_folder())
        .and_then(|file| std::fs::write(file.path(), input).map(|()| file))
        .map_err(|error| wrong(&error.to_string()))?;
    let line = format!("{{ {line}; }} < {}", quote(file.path()));
    let command = Command::new(line, programs.working_directory(), SIGN_TIMEOUT);
    let control = SessionControl::default();
    let outcome = programs.exec().run(command, &control.cancellation_token()).await;
    let outcome = outcome.map_err(|error| wrong(&error.to_string()))?;
    match outcome.exit_code {
        Some(0) => Ok(outcome.stdout.text.trim_end().to_owned()),
        _ => Err(wrong(&format!("{}{}", outcome.stdout.text, outcome.stderr.text))),
    }
}

async fn rerun_checks(
    receipt: &Receipt,
    root: &Path,
    loaded: &LoadedConfig,
    dirs: Option<&UserDirs>,
    control: &SessionControl,
) -> Result<Result<String, String>, OpenError> {
    let commands: Vec<String> =
        last_checks(receipt).iter().map(|check| check.command.clone()).collect();
    let mut copies = ProjectCopies::of(root, loaded, dirs)?;
    // A check must not pass by what an earlier build left.
    copies.has_ignored_files = false;
    let cancel = control.cancellation_token();
    let copy = copies.prepare(copies.copy_files(new_name("verify")).await, &cancel).await?;
    let failed = find_failing_check((loaded, dirs), &copy.root, &commands, &cancel).await;
    copies.remove(&copy);
    Ok(match failed? {
        Some(failed) => Err(failed),
        None => Ok(format!("{} passed in a copy of {}", commands.join("; "), root.display())),
    })
}

fn log_beside(receipt: &Path) -> PathBuf {
    let mut name = receipt.as_os_str().to_owned();
    name.push(".events.jsonl");
    name.into()
}

fn write_privately(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600).open(path)?.write_all(bytes)
}
