//! bincode, with every option spelled out. The only module that names it.
//!
//! Owns how values become body bytes. Must not know which values.
//!
//! bincode describes nothing in its bytes and is no longer maintained (RUSTSEC-2025-0141), so it is
//! pinned to one version and kept behind these two functions; what a body is and which version of
//! it, the caller writes in front. Its own defaults have no limit: ten bytes that claim a long list
//! abort the process, and trailing bytes are ignored. Both are closed here.

use crate::error::JournalError;
use bincode::config::{Configuration, Limit, LittleEndian, Varint};
use serde::{Serialize, de::DeserializeOwned};

/// Largest encoded value and largest claimed length when decoding: the contract's 4,000,000 byte
/// message and room for what stands around it.
pub const PAYLOAD_BYTES_MAX: usize = 4_200_000;

const CONFIGURATION: Configuration<LittleEndian, Varint, Limit<PAYLOAD_BYTES_MAX>> =
    bincode::config::standard()
        .with_little_endian()
        .with_variable_int_encoding()
        .with_limit::<PAYLOAD_BYTES_MAX>();

/// Appends the encoded `value` to `out`.
///
/// # Errors
/// [`JournalError::Payload`] when it cannot be encoded, [`JournalError::TooLarge`] over
/// [`PAYLOAD_BYTES_MAX`].
pub fn encode_into<T: Serialize>(out: &mut Vec<u8>, value: &T) -> Result<(), JournalError> {
    let before = out.len();
    bincode::serde::encode_into_std_write(value, out, CONFIGURATION)
        .map_err(|_| JournalError::Payload)?;
    if out.len() - before > PAYLOAD_BYTES_MAX { Err(JournalError::TooLarge) } else { Ok(()) }
}

/// Decodes a value that takes up all of `bytes`.
///
/// # Errors
/// [`JournalError::Payload`] for anything malformed, over the limit, or followed by more bytes.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, JournalError> {
    let (value, used) = bincode::serde::decode_from_slice(bytes, CONFIGURATION)
        .map_err(|_| JournalError::Payload)?;
    if used == bytes.len() { Ok(value) } else { Err(JournalError::Payload) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encode<T: Serialize>(value: &T) -> Vec<u8> {
        let mut out = Vec::new();
        encode_into(&mut out, value).expect("a small value encodes");
        out
    }

    #[test]
    fn a_value_reads_back_and_trailing_bytes_are_refused() {
        let mut bytes = encode(&(7_u32, "text".to_owned()));
        assert_eq!(decode::<(u32, String)>(&bytes), Ok((7, "text".to_owned())));
        bytes.push(0);
        assert_eq!(decode::<(u32, String)>(&bytes), Err(JournalError::Payload));
    }

    #[test]
    fn a_claimed_length_without_the_bytes_is_refused_before_anything_is_allocated() {
        let mut bytes = vec![253];
        bytes.extend_from_slice(&(1_u64 << 40).to_le_bytes());
        assert_eq!(decode::<Vec<u64>>(&bytes), Err(JournalError::Payload));
        assert_eq!(decode::<String>(&bytes), Err(JournalError::Payload));
    }

    #[test]
    fn a_value_over_the_limit_is_refused_on_the_way_in() {
        let large = "x".repeat(PAYLOAD_BYTES_MAX + 1);
        assert!(encode_into(&mut Vec::new(), &large).is_err());
    }

    #[test]
    fn the_spelling_of_numbers_is_fixed() {
        assert_eq!(encode(&300_u64), [251, 44, 1]);
        assert_eq!(encode(&1.5_f64), 1.5_f64.to_le_bytes());
    }
}
