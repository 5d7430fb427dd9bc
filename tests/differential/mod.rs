//! Canonical JSON by the library and by CPython, document by document.
//!
//! Owns the question, the comparison and the counts. Must not know what a document looks like: that is
//! [`documents`]. Used by the test and by the example that runs as many documents as one likes.

mod corners;
mod documents;
pub(crate) mod numbers;

use documents::document;
use leasehold_actors::contract::MESSAGE_BYTES_MAX;
use leasehold_actors::contract::payload::Payload;
use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, BufWriter, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};

/// What either side says of a document that is none.
pub(crate) const REFUSED: &str = "refused";

/// Differences that are kept to be shown; all of them are counted.
const SHOWN_MAX: usize = 10;

/// Why nothing could be compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Failure {
    /// There is no such program.
    #[error("python_missing")]
    PythonMissing,
    /// It could not be started, asked or waited for.
    #[error("python_failed")]
    PythonFailed,
    /// It answered another number of times than it was asked.
    #[error("python_answers: {answers}")]
    Answers {
        /// How often it answered, or one more than it was asked.
        answers: u64,
    },
}

/// A document the two sides do not agree on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Difference {
    /// Its place among the documents of the seed.
    pub(crate) index: u64,
    /// Its bytes in hex.
    pub(crate) hex: String,
    /// Our answer.
    pub(crate) ours: String,
    /// CPython's.
    pub(crate) theirs: String,
}

/// What came of a comparison.
#[derive(Debug, Default)]
pub(crate) struct Comparison {
    /// Documents with the same canonical form.
    pub(crate) agree: u64,
    /// Documents that both refuse.
    pub(crate) both_refuse: u64,
    /// Documents with different answers.
    pub(crate) differ: u64,
    /// The first of these.
    pub(crate) differences: Vec<Difference>,
}

impl Comparison {
    fn take(&mut self, index: u64, document: &[u8], ours: String, theirs: String) {
        if ours != theirs {
            self.differ += 1;
            if self.differences.len() < SHOWN_MAX {
                let hex = hex(document);
                self.differences.push(Difference { index, hex, ours, theirs });
            }
        } else if ours == REFUSED {
            self.both_refuse += 1;
        } else {
            self.agree += 1;
        }
    }
}

/// The library's answer: the hash of the canonical form.
pub(crate) fn canonical_sha256(document: &[u8]) -> String {
    match Payload::parse(document, MESSAGE_BYTES_MAX) {
        Ok((_, payload)) => payload.sha256().to_string(),
        Err(_) => REFUSED.to_owned(),
    }
}

/// Compares the first `documents` documents of a seed. `ours` is [`canonical_sha256`], or what a test
/// puts in its place.
///
/// # Errors
/// [`Failure`].
pub(crate) fn compare(
    python: &str,
    script: &Path,
    documents: u64,
    seed: u64,
    ours: fn(&[u8]) -> String,
) -> Result<Comparison, Failure> {
    let started = Command::new(python)
        .arg("-I") // neither its environment nor the folder it runs in may change what it does
        .arg(script)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let missing = |error: std::io::Error| error.kind() == std::io::ErrorKind::NotFound;
    let mut child = started.map_err(|error| {
        if missing(error) { Failure::PythonMissing } else { Failure::PythonFailed }
    })?;
    let comparison = converse(&mut child, documents, seed, ours);
    let ended = child.wait().map_err(|_| Failure::PythonFailed)?;
    let comparison = comparison?;
    if ended.success() { Ok(comparison) } else { Err(Failure::PythonFailed) }
}

/// One thread asks, this one listens: neither side ever waits for a full pipe of the other. Both make
/// the documents for themselves, since they follow from the seed.
fn converse(
    child: &mut Child,
    documents: u64,
    seed: u64,
    ours: fn(&[u8]) -> String,
) -> Result<Comparison, Failure> {
    let input = child.stdin.take().ok_or(Failure::PythonFailed)?;
    let output = child.stdout.take().ok_or(Failure::PythonFailed)?;
    std::thread::scope(|scope| {
        let asking = scope.spawn(move || ask(input, documents, seed));
        let mut answers = BufReader::new(output).lines();
        let mut comparison = Comparison::default();
        for index in 0..documents {
            // The output is dropped on the way out, so that the other side and the thread end too.
            let theirs = answers.next().and_then(Result::ok);
            let theirs = theirs.ok_or(Failure::Answers { answers: index })?;
            let document = document(seed, index);
            comparison.take(index, &document, ours(&document), theirs);
        }
        if answers.next().is_some() {
            return Err(Failure::Answers { answers: documents + 1 });
        }
        match asking.join() {
            Ok(Ok(())) => Ok(comparison),
            Ok(Err(_)) | Err(_) => Err(Failure::PythonFailed),
        }
    })
}

fn ask(input: ChildStdin, documents: u64, seed: u64) -> std::io::Result<()> {
    let mut input = BufWriter::with_capacity(1 << 16, input);
    for index in 0..documents {
        input.write_all(hex(&document(seed, index)).as_bytes())?;
        input.write_all(b"\n")?;
    }
    input.flush()
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        write!(text, "{byte:02x}").expect("writing to a string cannot fail");
    }
    text
}
