//! Walk a journal, rebuild every record, and say what does not hold.
//!
//! Owns the audit and everything else that reads a journal. Must not write to what it reads: a folder
//! without an engine is copied first, since sled cannot open read-only.
//!
//! | module | owns |
//! | --- | --- |
//! | [`source`] | a folder or an archive, as something to walk over |
//! | [`archives`] | the archives of one journal, in their order |
//! | [`states`] | every record's state, and one record's history |
//! | [`mod@explain`] | why one record stands where it stands |
//! | [`travel`] | the state of everything at an earlier point |
//! | `copies` | private places for copies |
//! | `live` | the records of a journal that an engine has open |
//! | [`check`] | the audit |
//! | [`doctor`] | what is wrong that the database does not report |
//! | [`records`] | its part about the records of each flow |
//! | [`controls`] | its part about what was ever paused |
//! | [`report`] | its findings |

pub mod archives;
pub mod check;
pub mod controls;
pub(crate) mod copies;
pub mod doctor;
pub mod explain;
pub(crate) mod live;
pub mod records;
pub mod report;
pub mod source;
pub mod states;
pub mod travel;

pub use check::audit;
pub(crate) use explain::Damage;
pub use explain::{Pins, explain};
pub use leasehold_actors::explain::{Explanation, Place};
pub use report::{Finding, Report};
pub use source::Source;
pub use states::{AllHealth, Happening, History, Row, States};
pub use travel::{Past, TravelError, Until};
