//! Arguments in, exit code out.

use std::process::ExitCode;

fn main() -> ExitCode {
    // Before anything else: a command that waits for its sandbox pays for every line above this.
    if let Some(code) = code_agent::exec::sandbox::supervise() {
        return ExitCode::from(code);
    }
    ExitCode::from(code_agent::cli::main())
}
