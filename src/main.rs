//! The `sawmill` program: parse, run, exit code.

use std::panic::PanicHookInfo;
use std::process::ExitCode;

use sawmill::error::exit;

fn main() -> ExitCode {
    std::panic::set_hook(Box::new(end_process(std::panic::take_hook())));
    ExitCode::from(sawmill::cli::main())
}

/// What happens when a thread panics: the whole process ends. With plain threads, the other workers would wait for the
/// one that is gone; and timely reports a lost connection by a panic.
fn end_process(report: Box<dyn Fn(&PanicHookInfo<'_>) + Send + Sync>) -> impl Fn(&PanicHookInfo<'_>) + Send + Sync {
    move |info| {
        let message = info.payload_as_str().unwrap_or("");
        if message.contains("timely communication error") {
            eprintln!("sawmill: a connection to another process of this job was lost ({message})");
            std::process::exit(exit::CLUSTER.into());
        }
        report(info);
        eprintln!("sawmill: this is a fault of sawmill itself; please report it with the lines above");
        std::process::exit(exit::PANIC.into());
    }
}
