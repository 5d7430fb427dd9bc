//! The `leasehold` program; everything is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    leasehold::cli::run()
}
