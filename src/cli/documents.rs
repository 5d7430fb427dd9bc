//! Documents out of files: one JSON document, or one per line.
//!
//! Owns where a document came from, for reports. Must not judge documents.

use super::failure::Failed;
use leasehold_actors::contract::json::Value;
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// One document and where it stands.
#[derive(Debug)]
pub(super) struct Document {
    pub(super) file: PathBuf,
    pub(super) line: usize,
    pub(super) text: Vec<u8>,
}

/// Reads files, `-` for standard input. Empty lines are skipped.
pub(super) fn read(files: &[PathBuf]) -> Result<Vec<Document>, Failed> {
    let mut documents = Vec::new();
    for file in files {
        let bytes = bytes(file)?;
        documents.extend(split(file, &bytes));
    }
    Ok(documents)
}

fn bytes(file: &Path) -> Result<Vec<u8>, Failed> {
    if file.as_os_str() == "-" {
        let mut bytes = Vec::new();
        std::io::stdin()
            .lock()
            .read_to_end(&mut bytes)
            .map_err(|_| Failed::Input(file.to_path_buf()))?;
        return Ok(bytes);
    }
    std::fs::read(file).map_err(|_| Failed::Input(file.to_path_buf()))
}

/// One document per line where any line is a document of its own; otherwise the file is one document,
/// so that a broken one in several lines is refused once and not once per line.
fn split(file: &Path, bytes: &[u8]) -> Vec<Document> {
    let document =
        |line, text: &[u8]| Document { file: file.to_path_buf(), line, text: text.to_vec() };
    let lines: Vec<(usize, &[u8])> = bytes
        .split(|byte| *byte == b'\n')
        .enumerate()
        .filter(|(_, text)| !text.trim_ascii().is_empty())
        .collect();
    let whole = |text: &[u8]| Value::parse(text).is_ok_and(|value| value.as_object().is_some());
    match lines.first() {
        None => Vec::new(),
        Some((first, _)) if whole(bytes) || !lines.iter().any(|(_, text)| whole(text)) => {
            vec![document(first + 1, bytes)]
        }
        Some(_) => lines.into_iter().map(|(number, text)| document(number + 1, text)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(bytes: &[u8]) -> Vec<usize> {
        split(Path::new("f"), bytes).iter().map(|document| document.line).collect()
    }

    #[test]
    fn a_file_is_one_document_or_one_per_line() {
        assert_eq!(lines(b"{\n \"a\": 1\n}\n"), [1]);
        assert_eq!(lines(b"{\"a\":1}\n\n{\"b\":2}\nnonsense\n"), [1, 3, 4]);
        assert_eq!(lines(b""), Vec::<usize>::new());
        assert_eq!(lines(b"\n \n"), Vec::<usize>::new());
        assert_eq!(lines(b"\n{\n \"a\": 1,\n \"a\": 2\n}\n"), [2], "broken, and one all the same");
        assert_eq!(lines(b"nonsense"), [1]);
    }
}
