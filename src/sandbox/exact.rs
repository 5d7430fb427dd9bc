//! Times in the state file, to the last bit.
//!
//! Owns how a time is written there: as the shortest digits that read back to it, in a string. As a
//! JSON number it would be off by one bit now and then after reading, and a step that was in time when
//! it was written could be too late when it is read.

use leasehold_actors::contract::time::Timestamp;
use serde::de::{Deserialize as _, Deserializer, Error as _};
use serde::ser::Serializer;

pub(super) fn serialize<S: Serializer>(time: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&time.seconds())
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Timestamp, D::Error> {
    let text = Box::<str>::deserialize(deserializer)?;
    let seconds = text.parse::<f64>().ok();
    seconds.and_then(Timestamp::new).ok_or_else(|| D::Error::custom("time_invalid"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::{Deserialize, Serialize};

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Dated {
        #[serde(with = "super::super::exact")]
        at: Timestamp,
    }

    #[test]
    fn a_time_is_read_back_to_the_last_bit() {
        for number in 0..10_000_u32 {
            let seconds = 1_900_000_000.0 + f64::from(number) * 0.123_456_789;
            let dated = Dated { at: Timestamp::new(seconds).expect("a time") };
            let text = serde_json::to_string(&dated).expect("JSON");
            let again: Dated = serde_json::from_str(&text).expect("it was just written");
            assert_eq!(again.at.seconds().to_bits(), seconds.to_bits(), "{text}");
        }
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for bad in ["\"\"", "\"-1\"", "\"inf\"", "\"NaN\"", "\"1 \"", "1", "null"] {
            let text = format!("{{\"at\":{bad}}}");
            assert!(serde_json::from_str::<Dated>(&text).is_err(), "{bad}");
        }
    }
}
