//! The `leasehold` program; everything is in the library.

use mimalloc::MiMalloc;
use std::process::ExitCode;

/// Records and answers are many small pieces that one thread makes and another lets go of. A host that
/// embeds the library has its own.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    leasehold::cli::run()
}
