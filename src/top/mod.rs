//! The dashboard in a terminal.
//!
//! Owns what is on the screen and what a key does. Pure: answers of a door and keys come in, lines come
//! out; it must not ask, wait, read a clock or touch a terminal.
//!
//! Every text an answer holds is data from outside. It is made harmless where an answer is read and
//! nowhere else, and the model takes answers in no other form than as they came.
//!
//! | module | owns |
//! | --- | --- |
//! | [`model`] | what is known, what is selected, what to ask next |
//! | [`reading`] | answers, and what is wrong with them |
//! | [`screen`] | where the parts stand, on a terminal and as text |
//! | `tables`, `figures` | the parts, and how figures read in them |

mod figures;
pub mod model;
pub mod reading;
pub mod screen;
mod tables;

pub use model::{Event, Key, Model, Next, Question, key};
pub use reading::{DoorFault, REPLY_BYTES_MAX, Reply};
pub use screen::{draw, text};
