//! Values that several commands take: lists of whole numbers, seeds, sizes of pictures.

use std::fmt::Display;
use std::str::FromStr;

/// More numbers than this in one list are a slip of the keyboard.
const MOST: u64 = 1_000_000;

/// What [`numbers`] reads, in a type of its own: clap would take a bare `Vec` for a repeated option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seeds(pub Vec<u64>);

/// A value, or `off`, which takes away what is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrOff<T>(pub Option<T>);

impl<T: Display> OrOff<T> {
    /// `name` with it.
    pub fn label(&self, name: &str) -> String {
        match &self.0 {
            Some(value) => format!("{name} {value}"),
            None => format!("{name} off"),
        }
    }
}

impl<T: FromStr> FromStr for OrOff<T>
where
    T::Err: Display,
{
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "off" => Ok(Self(None)),
            text => match text.parse() {
                Ok(value) => Ok(Self(Some(value))),
                Err(error) => Err(error.to_string()),
            },
        }
    }
}

/// As [`Seeds`], for numbers that count something: steps, heads, noises.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Numbers(pub Vec<usize>);

/// Reads `--seeds`: as [`numbers`].
pub fn parse_seeds(text: &str) -> Result<Seeds, String> {
    numbers(text).map(Seeds)
}

/// Reads `--switch-at` and its like: as [`numbers`].
pub fn parse_numbers(text: &str) -> Result<Numbers, String> {
    let whole = |number| usize::try_from(number).map_err(|_| format!("{number} is too large"));
    let numbers = numbers(text)?.into_iter().map(whole);
    numbers.collect::<Result<_, _>>().map(Numbers)
}

/// Reads a list of whole numbers: `0-7` or `0..7` (both ends are in it), `1,5,9`, or several of these with commas between.
pub fn numbers(text: &str) -> Result<Vec<u64>, String> {
    let number = |text: &str| {
        text.trim().parse::<u64>().map_err(|_| {
            format!(
                "{text:?} is not a number from 0 to {}; lists look like 0-7 or 1,5,9",
                u64::MAX
            )
        })
    };
    let mut numbers = Vec::new();
    for part in text.split(',') {
        let range = part.split_once("..").or_else(|| part.split_once('-'));
        let (first, last) = match range {
            Some((first, last)) => (number(first)?, number(last.trim_start_matches('='))?),
            None => {
                let one = number(part)?;
                (one, one)
            }
        };
        if last < first {
            return Err(format!(
                "{part:?} goes down; the smaller number comes first"
            ));
        }
        if last - first >= MOST - numbers.len() as u64 {
            return Err(format!("more than a million numbers, up to {part:?}"));
        }
        numbers.extend(first..=last);
    }
    Ok(numbers)
}

/// Reads a size in pixels: `768x512`, or `512` for a square.
pub fn parse_size(text: &str) -> Result<(usize, usize), String> {
    let number = |text: &str| {
        text.parse::<usize>()
            .map_err(|_| "give the size as WIDTHxHEIGHT, for instance 768x512".to_string())
    };
    match text.split_once(['x', 'X', '×']) {
        Some((width, height)) => Ok((number(width)?, number(height)?)),
        None => number(text).map(|side| (side, side)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_ranges_or_numbers() {
        assert_eq!(numbers("0-2,7").unwrap(), [0, 1, 2, 7]);
        assert_eq!(numbers("0..2, 5-5").unwrap(), [0, 1, 2, 5]);
        assert_eq!(numbers("1..=2").unwrap(), [1, 2]);
        assert_eq!(
            numbers(&format!("{}", u64::MAX)).unwrap(),
            [u64::MAX],
            "the largest seed"
        );
        for wrong in [
            "",
            "a",
            "3-1",
            "5..1",
            "1..",
            "..",
            "-1",
            "1,,2",
            "0-1000000",
            "0-999999,7",
        ] {
            assert!(numbers(wrong).is_err(), "{wrong}");
        }
        assert_eq!(numbers("0-999999").unwrap().len(), 1_000_000);
    }

    #[test]
    fn sizes_are_read() {
        assert_eq!(parse_size("768x512").unwrap(), (768, 512));
        assert_eq!(parse_size("64").unwrap(), (64, 64));
        assert!(parse_size("64x").is_err());
    }
}
