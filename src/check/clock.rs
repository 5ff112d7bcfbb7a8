//! What time it is, in one form everywhere.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The last second that RFC 3339 can write, since 1970: the end of the year 9999.
const LAST: Duration = Duration::from_secs(253_402_300_799);

/// Now, in UTC, as RFC 3339 has it, to the second.
pub fn now() -> String {
    stamp(SystemTime::now())
}

/// A time in UTC, as RFC 3339 has it, to the second. A clock before 1970 or after the year 9999 is wrong, and what it says
/// cannot be written: such a time becomes the nearest that can.
pub fn stamp(time: SystemTime) -> String {
    humantime::format_rfc3339_seconds(within(time)).to_string()
}

fn within(time: SystemTime) -> SystemTime {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    UNIX_EPOCH + since.min(LAST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_clock_can_be_written() {
        let year = Duration::from_secs(31_556_952);
        for (time, written) in [
            (UNIX_EPOCH, "1970-01-01T00:00:00Z"),
            (UNIX_EPOCH - year * 70, "1970-01-01T00:00:00Z"),
            (UNIX_EPOCH + year * 8_030, "9999-12-31T23:59:59Z"),
            (UNIX_EPOCH + year * 300_000, "9999-12-31T23:59:59Z"),
            (
                UNIX_EPOCH + Duration::from_secs(86_400),
                "1970-01-02T00:00:00Z",
            ),
        ] {
            assert_eq!(stamp(time), written);
        }
    }
}
