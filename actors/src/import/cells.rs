//! Values of a row, by the names of their columns.
//!
//! Owns what a value has to be; what it means is its component's. `Debug` shows kinds, never values.

use super::RowFault;
use crate::contract::canonical;
use crate::contract::json::{Integer, Object, Value};
use crate::contract::text::{Sha256, Token};
use crate::contract::time::{Ceiling, Timestamp};
use std::fmt;

/// One value, as a store keeps it.
#[derive(Clone, PartialEq)]
pub enum Cell {
    /// None.
    Null,
    /// An integer.
    Integer(i64),
    /// A number.
    Real(f64),
    /// Text.
    Text(String),
    /// Bytes, or text that is no UTF-8: no column holds any.
    Bytes,
}

impl fmt::Debug for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Null => "null",
            Self::Integer(_) => "integer",
            Self::Real(_) => "real",
            Self::Text(_) => "text",
            Self::Bytes => "bytes",
        })
    }
}

/// The values of one row.
#[derive(Debug, Clone, Copy)]
pub struct Cells<'a> {
    columns: &'static [&'static str],
    cells: &'a [Cell],
}

impl<'a> Cells<'a> {
    /// A row of these columns; `None` for another number of values.
    #[must_use]
    pub fn new(columns: &'static [&'static str], cells: &'a [Cell]) -> Option<Self> {
        (columns.len() == cells.len()).then_some(Self { columns, cells })
    }

    /// The value of a column; null for one that the component does not have.
    pub(super) fn get(&self, column: &str) -> &'a Cell {
        let place = self.columns.iter().position(|name| *name == column);
        place.map_or(&Cell::Null, |place| &self.cells[place])
    }

    /// Whether there is a value.
    pub(super) fn has(&self, column: &str) -> bool {
        *self.get(column) != Cell::Null
    }

    /// Text.
    pub(super) fn text(&self, column: &str) -> Result<&'a str, RowFault> {
        self.optional_text(column)?.ok_or(RowFault::Value)
    }

    /// Text, or none.
    pub(super) fn optional_text(&self, column: &str) -> Result<Option<&'a str>, RowFault> {
        match self.get(column) {
            Cell::Null => Ok(None),
            Cell::Text(text) => Ok(Some(text)),
            Cell::Integer(_) | Cell::Real(_) | Cell::Bytes => Err(RowFault::Value),
        }
    }

    /// An integer.
    pub(super) fn integer(&self, column: &str) -> Result<i64, RowFault> {
        match self.get(column) {
            Cell::Integer(value) => Ok(*value),
            Cell::Null | Cell::Real(_) | Cell::Text(_) | Cell::Bytes => Err(RowFault::Value),
        }
    }

    /// A number of seconds, finite and not negative, exactly as it is kept; none where there is none.
    pub(super) fn optional_seconds(&self, column: &str) -> Result<Option<f64>, RowFault> {
        let seconds = match self.get(column) {
            Cell::Null => return Ok(None),
            Cell::Real(value) => *value,
            Cell::Integer(value) => *value as f64,
            Cell::Text(_) | Cell::Bytes => return Err(RowFault::Value),
        };
        if Timestamp::new(seconds).is_some() { Ok(Some(seconds)) } else { Err(RowFault::Time) }
    }

    /// A time.
    pub(super) fn time(&self, column: &str) -> Result<Timestamp, RowFault> {
        let seconds = self.optional_seconds(column)?.ok_or(RowFault::Value)?;
        Timestamp::new(seconds).ok_or(RowFault::Time)
    }

    /// A name.
    pub(super) fn token(&self, column: &str) -> Result<Token, RowFault> {
        Token::new(self.text(column)?).ok_or(RowFault::Identity)
    }

    /// A hash.
    pub(super) fn sha256(&self, column: &str) -> Result<Sha256, RowFault> {
        Sha256::from_hex(self.text(column)?).ok_or(RowFault::Hash)
    }

    /// A ceiling.
    pub(super) fn ceiling(&self, column: &str) -> Result<Ceiling, RowFault> {
        Ceiling::new(self.integer(column)?).ok_or(RowFault::Ceiling)
    }

    /// How many attempts, or failures.
    pub(super) fn tries(&self, column: &str) -> Result<u32, RowFault> {
        u32::try_from(self.integer(column)?).map_err(|_| RowFault::Attempts)
    }

    /// The whole row as an object, its columns by name, in its canonical form.
    pub(super) fn canonical(&self) -> Result<String, RowFault> {
        let members = self.columns.iter().zip(self.cells).map(|(name, cell)| {
            let value = match cell {
                Cell::Null => Value::Null,
                Cell::Integer(value) => Value::Integer(Integer::Small(*value)),
                Cell::Real(value) if value.is_finite() => Value::Float(*value),
                Cell::Text(text) => Value::String(text.clone()),
                Cell::Real(_) | Cell::Bytes => return Err(RowFault::Value),
            };
            Ok(((*name).to_owned(), value))
        });
        let members = members.collect::<Result<Vec<_>, RowFault>>()?;
        let object = Object::new(members).map_err(|_| RowFault::Value)?;
        Ok(canonical::print(&Value::Object(object)))
    }
}
