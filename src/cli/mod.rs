//! The command line: one file per subcommand.
//!
//! Owns arguments, texts and exit codes. Must hold no rule. Text for people and `--json` for machines
//! go to stdout; progress, notices and logs go to stderr. Nothing prints a secret, a payload or a
//! token.
//!
//! Exit codes: 0 fine; 1 findings (something failed, is blocked or does not verify); 2 usage;
//! 3 cannot open or read.

mod archive;
mod audit;
mod bench;
mod doctor;
mod documents;
mod explain;
mod failure;
#[cfg(feature = "import")]
mod import;
mod interventions;
mod pauses;
mod place;
mod print;
mod records;
mod remote;
mod replay;
mod report;
mod retention;
mod run;
mod salvage;
mod sandbox;
mod serve;
mod signals;
mod summary;
mod top;

use clap::{Parser, Subcommand};
use failure::Failed;
use std::process::ExitCode;
use tracing_subscriber::Layer as _;
use tracing_subscriber::filter::{EnvFilter, filter_fn};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

/// Delivers content changes of a website to a localization service, durably, and proves it.
#[derive(Debug, Parser)]
#[command(name = "leasehold", version, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Run(run::RunArguments),
    Serve(serve::ServeArguments),
    Top(top::TopArguments),
    Sandbox(sandbox::SandboxArguments),
    Health(records::HealthArguments),
    List(records::ListArguments),
    Show(records::ShowArguments),
    Explain(explain::ExplainArguments),
    Audit(audit::AuditArguments),
    Report(report::ReportArguments),
    Replay(replay::ReplayArguments),
    Requeue(interventions::RequeueArguments),
    Dismiss(interventions::DismissArguments),
    Repin(interventions::RepinArguments),
    Pause(pauses::PauseArguments),
    Resume(pauses::ResumeArguments),
    Archive(retention::ArchiveArguments),
    Export(archive::ExportArguments),
    Import(archive::ImportArguments),
    Verify(archive::VerifyArguments),
    Doctor(doctor::DoctorArguments),
    Salvage(salvage::SalvageArguments),
    #[cfg(feature = "import")]
    ImportSqlite(import::ImportArguments),
    Bench(bench::BenchArguments),
}

/// How a command ended, apart from failures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ended {
    /// As hoped.
    Fine,
    /// Something failed, is blocked or does not verify.
    Findings,
}

/// Runs the command line of this process.
#[must_use]
pub fn run() -> ExitCode {
    quiet_panics();
    start_logging();
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            // clap prints the usage; --help and --version are no errors.
            let code = if error.use_stderr() { 2 } else { 0 };
            return if error.print().is_ok() { ExitCode::from(code) } else { ExitCode::from(3) };
        }
    };
    if reads(&arguments.command) {
        signals::remove_copies_when_stopped();
    }
    let result = match arguments.command {
        Command::Run(arguments) => on_tokio(run::run(arguments)),
        Command::Serve(arguments) => on_tokio(serve::run(arguments)),
        Command::Top(arguments) => on_tokio(top::run(arguments)),
        Command::Sandbox(arguments) => on_tokio(sandbox::run(arguments)),
        Command::Health(arguments) => records::health(&arguments),
        Command::List(arguments) => records::list(&arguments),
        Command::Show(arguments) => records::show(&arguments),
        Command::Explain(arguments) => explain::run(&arguments),
        Command::Audit(arguments) => audit::run(&arguments),
        Command::Report(arguments) => report::run(&arguments),
        Command::Replay(arguments) => replay::run(&arguments),
        Command::Requeue(arguments) => on_tokio(interventions::requeue(arguments)),
        Command::Dismiss(arguments) => on_tokio(interventions::dismiss(arguments)),
        Command::Repin(arguments) => on_tokio(interventions::repin(arguments)),
        Command::Pause(arguments) => on_tokio(pauses::pause(arguments)),
        Command::Resume(arguments) => on_tokio(pauses::resume(arguments)),
        Command::Archive(arguments) => retention::run(&arguments),
        Command::Export(arguments) => archive::export(&arguments),
        Command::Import(arguments) => archive::import(&arguments),
        Command::Verify(arguments) => archive::verify(&arguments),
        Command::Doctor(arguments) => doctor::run(&arguments),
        Command::Salvage(arguments) => salvage::run(&arguments),
        #[cfg(feature = "import")]
        Command::ImportSqlite(arguments) => import::run(&arguments),
        Command::Bench(arguments) => on_tokio(bench::run(arguments)),
    };
    match result {
        Ok(Ended::Fine) => ExitCode::SUCCESS,
        Ok(Ended::Findings) => ExitCode::from(1),
        Err(failed) => {
            eprintln!("leasehold: {failed}");
            ExitCode::from(failed.exit_code())
        }
    }
}

/// Whether a command works on a copy that has to go when it is interrupted.
fn reads(command: &Command) -> bool {
    #[cfg(feature = "import")]
    if matches!(command, Command::ImportSqlite(_)) {
        return true;
    }
    matches!(
        command,
        Command::Health(_)
            | Command::List(_)
            | Command::Show(_)
            | Command::Explain(_)
            | Command::Audit(_)
            | Command::Report(_)
            | Command::Replay(_)
            | Command::Archive(_)
            | Command::Export(_)
            | Command::Verify(_)
            | Command::Doctor(_)
            | Command::Salvage(_)
    )
}

fn on_tokio<T>(future: impl Future<Output = Result<T, Failed>>) -> Result<T, Failed> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|_| Failed::Runtime)?
        .block_on(future)
}

/// A panic's message may hold what a library was given; only its place is printed.
fn quiet_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map_or_else(String::new, |at| {
            format!(" at {}:{}", at.file().rsplit('/').next().unwrap_or_default(), at.line())
        });
        eprintln!("leasehold: internal fault{place}");
    }));
}

/// Logs of our own targets only: libraries below print addresses and paths.
fn start_logging() {
    let level = EnvFilter::try_from_env("RUST_LOG").unwrap_or_else(|_| EnvFilter::new("warn"));
    let ours = filter_fn(|metadata| metadata.target().starts_with("leasehold"));
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_ansi(false);
    if tracing_subscriber::registry().with(level).with(lines.with_filter(ours)).try_init().is_err()
    {
        // A host that set its own subscriber keeps it.
        tracing::debug!("logging was set up already");
    }
}
