//! The entry point: passes the arguments to the library and returns the exit code.

use std::process::ExitCode;

fn main() -> ExitCode {
    // First of all: a command that waits for its sandbox pays for everything above this line.
    if let Some(code) = agent_host::exec::sandbox::run_if_supervisor() {
        return ExitCode::from(code);
    }
    ExitCode::from(code_agent::cli::main())
}
