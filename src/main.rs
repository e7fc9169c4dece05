//! The `sawmill` program: parse, run, exit code.

use std::process::ExitCode;

fn main() -> ExitCode {
    sawmill::cluster::engine::end_process_on_panic();
    ExitCode::from(sawmill::cli::main())
}
