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
            .map_err(|_| Failed::File("standard input cannot be read"))?;
        return Ok(bytes);
    }
    std::fs::read(file).map_err(|_| Failed::File("an input file cannot be read"))
}

fn split(file: &Path, bytes: &[u8]) -> Vec<Document> {
    let document =
        |line, text: &[u8]| Document { file: file.to_path_buf(), line, text: text.to_vec() };
    if Value::parse(bytes).is_ok() {
        return vec![document(1, bytes)];
    }
    let lines = bytes.split(|byte| *byte == b'\n').enumerate();
    lines
        .filter(|(_, text)| !text.trim_ascii().is_empty())
        .map(|(number, text)| document(number + 1, text))
        .collect()
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
    }
}
