//! What one other side is asked for at most: calls at once, calls per second, and nothing while it is down.
//!
//! A destination is one side: the CMS, the receiver or the source runtime, whichever flows call it. Owns
//! the decision whether one more call may start now. Must not know a flow, a record or a client. Pure:
//! every call is given the time, in seconds of a clock that never jumps.
//!
//! | module | owns |
//! | --- | --- |
//! | `limits` | the numbers and their checks |
//! | `bucket` | calls per second |
//! | `breaker` | whether the side is thought to work, and how the backlog is let go afterwards |
//! | `gate` | one side: all of these together |
//! | `overall` | calls at once over all sides |
//! | `gates` | all sides |
//!
//! What holds whatever happens, each with a test in `gates`: never more calls under way than the
//! limits; never more starts in any stretch of time than `requests_per_second` × its length + `burst`;
//! nothing is let through while a breaker is open; a side that hangs never takes the share of another.

mod breaker;
mod bucket;
mod gate;
mod gates;
mod limits;
mod overall;

pub use breaker::GateState;
pub use gate::{Gate, Outcome, Permit, Standing, Verdict};
pub use gates::Gates;
pub use limits::{Limits, LimitsInvalid};
pub use overall::{OVERALL_MAX, Overall, Seat};
