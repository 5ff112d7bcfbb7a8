//! When to ask again, and after how long.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ureq::http::HeaderMap;

/// How often and how patiently a server is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retry {
    /// Tries in all, at least 1.
    pub attempts: u32,
    /// The wait before the second try, or longer if the server says so; doubled before each further one.
    pub first: Duration,
    /// The longest such wait.
    pub longest: Duration,
    /// The longest wait that a server may ask for.
    pub patience: Duration,
}

impl Default for Retry {
    fn default() -> Self {
        Self {
            attempts: 6,
            first: Duration::from_millis(500),
            longest: Duration::from_secs(30),
            patience: Duration::from_secs(120),
        }
    }
}

impl Retry {
    /// The wait after so many failed tries (from 1), without a word from the server: between a half and the whole of
    /// what doubling gives, as `chance` (0..1) decides, so that many clients do not come back at once.
    pub fn wait(&self, failed: u32, chance: f64) -> Duration {
        let doubled = self
            .first
            .saturating_mul(1 << failed.saturating_sub(1).min(20));
        doubled
            .min(self.longest)
            .mul_f64(0.5 + chance.clamp(0.0, 1.0) / 2.0)
    }
}

/// What a server said about asking again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Asked {
    /// `x-should-retry`.
    pub again: Option<bool>,
    /// `retry-after-ms`, `Retry-After` in seconds or as a date.
    pub after: Option<Duration>,
}

impl Asked {
    pub fn of(headers: &HeaderMap, now: SystemTime) -> Self {
        let text = |name| headers.get(name)?.to_str().ok().map(str::trim);
        let again = match text("x-should-retry") {
            Some("true") => Some(true),
            Some("false") => Some(false),
            _ => None,
        };
        let milliseconds = text("retry-after-ms").and_then(|text| text.parse::<f64>().ok());
        let seconds = text("retry-after").and_then(|text| match text.parse::<f64>() {
            Ok(seconds) => Some(seconds),
            Err(_) => date(text).map(|at| at.duration_since(now).unwrap_or_default().as_secs_f64()),
        });
        let seconds = milliseconds.map(|ms| ms / 1000.0).or(seconds);
        Self {
            again,
            after: seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()),
        }
    }
}

/// A wait as some servers write it into their answers: `17s`, `1.5s`, `20ms`, `6m0s`.
pub(crate) fn written(text: &str) -> Option<Duration> {
    let mut total = 0.0;
    let mut rest = text.trim();
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let number: f64 = rest[..digits].parse().ok()?;
        let units = &rest[digits..];
        let end = units
            .find(|c: char| c.is_ascii_digit())
            .unwrap_or(units.len());
        total += number
            * match &units[..end] {
                "ms" => 0.001,
                "s" => 1.0,
                "m" => 60.0,
                "h" => 3600.0,
                _ => return None,
            };
        rest = &units[end..];
    }
    Duration::try_from_secs_f64(total).ok()
}

/// `Sun, 06 Nov 1994 08:49:37 GMT`, the form of dates in HTTP (RFC 9110, 5.6.7).
fn date(text: &str) -> Option<SystemTime> {
    const MONTHS: [&str; 12] = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    let mut words = text.split_once(", ")?.1.strip_suffix(" GMT")?.split(' ');
    let day: u64 = words.next()?.parse().ok()?;
    let month = words.next()?;
    let month = MONTHS.iter().position(|name| *name == month)? as u64 + 1;
    let year: u64 = words.next()?.parse().ok()?;
    let time = words
        .next()?
        .split(':')
        .map(|part| part.parse::<u64>().ok());
    let time: Vec<u64> = time.collect::<Option<_>>()?;
    let [hours, minutes, seconds] = time.try_into().ok()?;
    if !(1970..10_000).contains(&year) || !(1..=31).contains(&day) {
        return None;
    }
    // Days since 0000-03-01, when leap days are the last ones of their years.
    let (year, month) = match month {
        1 | 2 => (year - 1, month + 9),
        month => (year, month - 3),
    };
    let days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 1;
    let days = days.checked_sub(719_468)?;
    let seconds = days * 86_400 + hours.min(23) * 3600 + minutes.min(59) * 60 + seconds.min(60);
    Some(UNIX_EPOCH + Duration::from_secs(seconds))
}

/// A number from 0 to 1 that is another each time.
pub(crate) fn chance() -> f64 {
    use std::hash::{BuildHasher, Hasher};
    // Each has keys of its own, from the system's random numbers.
    let random = std::hash::RandomState::new().build_hasher().finish();
    (random >> 11) as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_longest() {
        let retry = Retry {
            longest: Duration::from_secs(8),
            ..Retry::default()
        };
        let whole: Vec<f64> = (1..8)
            .map(|failed| retry.wait(failed, 1.0).as_secs_f64())
            .collect();
        assert_eq!(whole, [0.5, 1.0, 2.0, 4.0, 8.0, 8.0, 8.0]);
        assert_eq!(retry.wait(2, 0.0), Duration::from_millis(500));
        assert_eq!(retry.wait(u32::MAX, 1.0), Duration::from_secs(8));
        let chances: Vec<f64> = (0..100).map(|_| chance()).collect();
        assert!(chances.iter().all(|chance| (0.0..=1.0).contains(chance)));
        assert!(chances.iter().any(|chance| *chance != chances[0]));
    }

    #[test]
    fn what_servers_say_is_heard() {
        let now = UNIX_EPOCH + Duration::from_secs(784_111_777);
        let said = |pairs: &[(&'static str, &str)]| {
            let mut headers = HeaderMap::new();
            for (name, value) in pairs {
                headers.insert(*name, value.parse().unwrap());
            }
            Asked::of(&headers, now)
        };
        let after = |seconds: f64| Some(Duration::from_secs_f64(seconds));
        assert_eq!(said(&[("retry-after", "12")]).after, after(12.0));
        assert_eq!(said(&[("retry-after", "0.25")]).after, after(0.25));
        let both = [("retry-after", "12"), ("retry-after-ms", "1500")];
        assert_eq!(said(&both).after, after(1.5));
        for (text, seconds) in [
            ("Sun, 06 Nov 1994 08:49:47 GMT", Some(10.0)),
            ("Sun, 06 Nov 1994 08:49:07 GMT", Some(0.0)),
            ("Tue, 29 Feb 2000 00:00:00 GMT", Some(167_670_623.0)),
            ("soon", None),
            ("-1", None),
            ("NaN", None),
            ("1e300", None),
            ("Sun, 99 Nov 1994 08:49:37 GMT", None),
        ] {
            assert_eq!(
                said(&[("retry-after", text)]).after,
                seconds.and_then(after),
                "{text}"
            );
        }
        assert_eq!(said(&[("x-should-retry", "false")]).again, Some(false));
        assert_eq!(said(&[]), Asked::default());
        for (text, seconds) in [
            ("17s", Some(17.0)),
            ("6m0s", Some(360.0)),
            ("20ms", Some(0.02)),
            ("1.5s", Some(1.5)),
            ("", None),
            ("s", None),
            ("3 weeks", None),
        ] {
            assert_eq!(written(text), seconds.and_then(after), "{text}");
        }
    }
}
