//! The command line: parses it, and has one file per command.

mod acp;
mod attach;
mod attempts;
mod background;
mod chat;
mod config;
mod demo;
mod doctor;
mod editor;
mod eval;
mod guarded_tools;
mod mcp;
mod memory;
mod models;
mod options;
mod receipt;
mod run;
mod sandbox_report;
mod sdk;
mod session;
mod signals;
mod stdin;
mod stdout;
mod team;
mod terminal_prompt;
mod tool;
mod trace;
mod trust;
mod user_message;
mod worktree;

use clap::error::{ContextKind, ContextValue};
use clap::parser::ValueSource;
use clap::{
    Args as _, CommandFactory as _, FromArgMatches as _, Parser, Subcommand, ValueEnum as _,
};

use crate::app::OpenError;
use agent_protocol::control::{PermissionMode, SessionControl};
use agent_protocol::most_similar;
use agent_ui::{CommandOutput, OutputFormat};
use options::{InputFormat, RunArgs};

/// A code agent for the terminal: every step diagnosable, every failure answered, everything recorded.
#[derive(Debug, Parser)]
#[command(
    name = "agent",
    version,
    max_term_width = 100,
    args_conflicts_with_subcommands = true,
    after_help = "Start: `agent demo` (needs no key), then `agent` in a project."
)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    /// Run one task and print the answer: the same as `agent run`
    #[arg(short = 'p', long = "print")]
    print: bool,
    /// Chat with plain lines, for screen readers and simple terminals
    #[arg(long)]
    plain: bool,
    #[command(flatten)]
    run: RunArgs,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Chat in this folder: the same as `agent` alone
    Chat(Box<chat::ChatArgs>),
    /// Run one task, then exit
    Run(Box<RunArgs>),
    /// List the sessions that run now, of all projects
    Ps(background::PsArgs),
    /// Show what a session does, or did
    Logs(background::LogsArgs),
    /// Chat with a session that runs in the background
    Attach(attach::AttachArgs),
    /// End a session that runs
    Stop {
        /// The session, or the beginning or end of its id
        id: String,
    },
    /// Wait until sessions have ended; the exit code is that of the first that failed
    Wait(background::WaitArgs),
    /// Run the real loop on a small broken project; needs no key
    Demo(demo::DemoArgs),
    /// Call the tools without a model, with the same checks
    #[command(subcommand)]
    Tool(tool::ToolCommand),
    /// Show and change the recorded sessions of this project
    #[command(subcommand)]
    Session(session::SessionCommand),
    /// Check a receipt of a session: its log, files, checks and signature
    Verify(receipt::VerifyArgs),
    /// Show and measure recorded sessions
    #[command(subcommand)]
    Trace(trace::TraceCommand),
    /// Compare variants of prompts, models and settings on a suite of tasks
    Eval(eval::EvalArgs),
    /// Show and change the lessons of earlier sessions
    #[command(subcommand)]
    Memory(memory::MemoryCommand),
    /// Share the lessons of a repository between machines
    #[command(subcommand)]
    Team(team::TeamCommand),
    /// Serve an editor by the Agent Client Protocol, over standard input and output
    Acp(Box<acp::AcpArgs>),
    /// List, add, remove and try MCP servers, or be one
    #[command(subcommand)]
    Mcp(mcp::McpCommand),
    /// Show the active configuration
    #[command(subcommand)]
    Config(config::ConfigCommand),
    /// Trust this folder's settings of keys, endpoints, permissions and checks
    Trust(trust::TrustArgs),
    /// List the models that can be used now, with window and price
    Models(models::ModelsArgs),
    /// Check the installation, and how to fix problems
    Doctor(doctor::DoctorArgs),
    /// Print shell completions
    Completions {
        /// For which shell
        shell: clap_complete::Shell,
    },
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum ReportFormat {
    /// For people
    Text,
    /// For programs
    Json,
}

/// Parses the command line, runs the command, and returns the exit code.
pub fn main() -> u8 {
    let code = dispatch();
    // EX_IOERR of sysexits.h.
    if code == 0 && agent_ui::has_lost_output() { 74 } else { code }
}

fn dispatch() -> u8 {
    let parsed = build_command().try_get_matches();
    let parsed = parsed.and_then(|matches| Ok((Cli::from_arg_matches(&matches)?, matches)));
    let (cli, matches) = match parsed {
        Ok(parsed) => parsed,
        Err(mut error) => {
            remove_risky_suggestion(&mut error);
            // clap writes help to standard output and errors to standard error.
            _ = error.print();
            return u8::try_from(error.exit_code()).unwrap_or(2);
        }
    };
    match cli.command {
        Some(Command::Chat(args)) => {
            let own = matches.subcommand_matches("chat").unwrap_or(&matches);
            chat::run(&args.to_run_args().with_given(own), args.plain)
        }
        Some(Command::Run(args)) => run::run(&args),
        Some(Command::Ps(args)) => background::list(&args),
        Some(Command::Logs(args)) => background::show_log(&args),
        Some(Command::Attach(args)) => attach::run(&args),
        Some(Command::Stop { id }) => background::stop(&id),
        Some(Command::Wait(args)) => background::wait(&args),
        Some(Command::Demo(args)) => demo::run(&args),
        Some(Command::Tool(command)) => tool::run(command),
        Some(Command::Session(command)) => session::run(&command),
        Some(Command::Verify(args)) => receipt::verify(&args),
        Some(Command::Trace(command)) => trace::run(&command),
        Some(Command::Eval(args)) => eval::run(&args),
        Some(Command::Memory(command)) => memory::run(&command),
        Some(Command::Team(command)) => team::run(&command),
        Some(Command::Acp(args)) => acp::run(&args),
        Some(Command::Mcp(command)) => mcp::run(command),
        Some(Command::Config(command)) => config::run(&command),
        Some(Command::Trust(args)) => trust::run(&args),
        Some(Command::Models(args)) => models::run(&args),
        Some(Command::Doctor(args)) => doctor::run(&args),
        Some(Command::Completions { shell }) => {
            let mut out = Vec::new();
            clap_complete::generate(shell, &mut build_command(), "agent", &mut out);
            let out = String::from_utf8_lossy(&out).into_owned();
            agent_ui::print_output(&CommandOutput::Data(out));
            0
        }
        None if cli.print
            || cli.run.output_format != OutputFormat::Text
            || cli.run.input_format != InputFormat::Text =>
        {
            run::run(&cli.run)
        }
        None => match unknown_command_error(&cli.run).or_else(|| run_only_option_error(&matches)) {
            None => chat::run(&cli.run.with_given(&matches), cli.plain),
            Some(reason) => report_error(&reason),
        },
    }
}

/// An option that allows everything is not what an unknown one means.
fn remove_risky_suggestion(error: &mut clap::Error) {
    let Some(ContextValue::String(option)) = error.get(ContextKind::SuggestedArg) else { return };
    if option == "--yolo" || option.ends_with("-skip-permissions") {
        error.remove(ContextKind::SuggestedArg);
        // The usage names the suggestion, too.
        error.remove(ContextKind::Usage);
    }
}

/// `agent -p` accepts the options of `run`. Those that the chat lacks are hidden, and documented
/// there.
fn build_command() -> clap::Command {
    let chat_options = chat_option_ids();
    Cli::command()
        .override_usage(
            "agent [OPTIONS] [\"MESSAGE\"]\n       agent -p [OPTIONS OF RUN] <TASK>\n       agent <COMMAND>",
        )
        .mut_args(|arg| match arg.get_id().as_str() {
            "print" => arg,
            // Values with descriptions would spread every option over several lines.
            "permission_mode" => {
                let modes = PermissionMode::value_variants().iter().map(|mode| mode.as_str());
                let modes = modes.collect::<Vec<_>>().join(", ");
                arg.hide_possible_values(true).help(format!("The permission mode: {modes}"))
            }
            "task" => {
                let help = "The first message of a chat, in quotes; a single word is a command";
                arg.value_name("MESSAGE").help(help)
            }
            _ => {
                let is_hidden = arg.is_hide_set() || !chat_options.contains(arg.get_id());
                arg.hide(is_hidden)
            }
        })
}

fn chat_option_ids() -> Vec<clap::Id> {
    let chat = chat::ChatArgs::augment_args(clap::Command::new("chat"));
    chat.get_arguments().map(|option| option.get_id().clone()).collect()
}

fn run_only_option_error(matches: &clap::ArgMatches) -> Option<String> {
    let command = build_command();
    let chat_options = chat_option_ids();
    let is_given = |arg: &&clap::Arg| {
        arg.is_hide_set()
            && !chat_options.contains(arg.get_id())
            && matches.value_source(arg.get_id().as_str()) == Some(ValueSource::CommandLine)
    };
    let option = command.get_arguments().find(is_given)?.get_long()?;
    Some(format!(
        "--{option} is an option of `agent run`, which works on one task without a chat: write \
         `agent run --{option} …`"
    ))
}

/// One word is probably a command: a message contains a space.
fn unknown_command_error(args: &RunArgs) -> Option<String> {
    let word = args.task.first().filter(|word| !word.trim().contains(char::is_whitespace))?;
    let command = Cli::command();
    if command.find_subcommand(word).is_some() {
        return Some(format!("options follow the command: `agent {word} …`"));
    }
    let names = command.get_subcommands().map(clap::Command::get_name);
    Some(match most_similar(word, names) {
        Some(name) => format!("there is no command {word:?}: did you mean `agent {name}`?"),
        None => {
            let words = args.task.join(" ");
            format!(
                "there is no command {word:?}; `agent chat \"{words}\"` sends it as a message, `agent run \
                 \"{words}\"` works on it without a chat"
            )
        }
    })
}

fn print_answer(done: Result<CommandOutput, OpenError>) -> u8 {
    exit_code(done.map(|answer| {
        agent_ui::print_output(&answer);
        0
    }))
}

/// Prints the error.
fn exit_code(done: Result<u8, OpenError>) -> u8 {
    done.unwrap_or_else(|error| {
        agent_ui::print_notice(&error.to_string());
        error.exit_code()
    })
}

/// Returns the exit code of wrong usage.
fn report_error(why: &str) -> u8 {
    agent_ui::print_notice(why);
    2
}

fn print_notices<'a>(notices: impl IntoIterator<Item = &'a String>) {
    notices.into_iter().for_each(|notice| agent_ui::print_notice(notice));
}

fn usage_error(why: impl Into<String>) -> OpenError {
    OpenError::Usage(why.into())
}

fn json_answer(value: &impl serde::Serialize) -> CommandOutput {
    // Names, numbers and texts always serialise.
    let json = serde_json::to_string_pretty(value).unwrap_or_default();
    CommandOutput::Data(format!("{json}\n"))
}

fn report_left_out(mut errors: impl Iterator<Item = impl std::fmt::Display>) {
    if let Some(first) = errors.next() {
        let others = match errors.count() {
            0 => String::new(),
            n => format!(" (and {n} more)"),
        };
        agent_ui::print_notice(&format!("left out: {first}{others}"));
    }
}

fn block_on_result(
    work: impl Future<Output = Result<u8, OpenError>>,
    control: &SessionControl,
) -> u8 {
    block_on(async { exit_code(work.await) }, control)
}

fn block_on(work: impl Future<Output = u8>, control: &SessionControl) -> u8 {
    block_on_with(work, control, false)
}

fn block_on_with(
    work: impl Future<Output = u8>,
    control: &SessionControl,
    survives_hangup: bool,
) -> u8 {
    match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => {
            let code = runtime.block_on(signals::run_with_signals(work, control, survives_hangup));
            // A blocking thread that ignores its cancellation must not delay the exit.
            runtime.shutdown_background();
            code
        }
        Err(error) => report_error(&format!("the runtime could not start: {error}")),
    }
}
