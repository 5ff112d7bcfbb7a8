//! JSON as Python's `json` module reads and writes it, to the byte: the released records and metrics were written by it.

use std::fmt::Write as _;
use std::io;

use serde::Serialize;
use serde::de::{DeserializeOwned, Error as _};
use serde_json::ser::{Formatter, PrettyFormatter, Serializer};
use serde_json::{Number, Value};

/// Reads `text`, every number as the double nearest to it.
///
/// `serde_json` alone may be off in the last place of a number of 16 or 17 digits, which is how most of a record's are
/// written, unless the whole program is built with its `float_roundtrip`.
pub fn from_str<T: DeserializeOwned>(text: &str) -> serde_json::Result<T> {
    // Read as it is wanted first: only then do the errors say where in the text they are.
    let _: T = serde_json::from_str(text)?;
    let mut value: Value = serde_json::from_str(text)?;
    let mut numbers = numbers(text);
    read_exactly(&mut value, &mut numbers);
    // A key that was given twice is kept once, so its number would be left over.
    if numbers.next().is_some() {
        return Err(serde_json::Error::custom("a key is given twice"));
    }
    serde_json::from_value(value)
}

/// What is wrong with a line, without the place in it: the reader of a file of lines knows the line's number, and the same
/// mistake in many lines should be the same message.
pub fn without_place(error: &serde_json::Error) -> String {
    let message = error.to_string();
    match message.rsplit_once(" at line ") {
        Some((before, _)) => before.to_owned(),
        None => message,
    }
}

/// Puts the numbers of a text into the value that was read from it, which holds them in the same order.
fn read_exactly<'a>(value: &mut Value, numbers: &mut impl Iterator<Item = &'a str>) {
    match value {
        Value::Number(number) => {
            let exact = numbers.next().and_then(|text| text.parse().ok());
            // Whole numbers are exact already.
            if let Some(exact) = exact.and_then(Number::from_f64)
                && number.is_f64()
            {
                *number = exact;
            }
        }
        Value::Array(items) => items
            .iter_mut()
            .for_each(|item| read_exactly(item, numbers)),
        Value::Object(fields) => fields
            .values_mut()
            .for_each(|field| read_exactly(field, numbers)),
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

/// The numbers of a valid JSON text, in its order.
fn numbers(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        loop {
            let start = rest.find(|c: char| c == '"' || c == '-' || c.is_ascii_digit())?;
            rest = &rest[start..];
            if let Some(string) = rest.strip_prefix('"') {
                rest = &string[end_of_string(string)..];
                continue;
            }
            let end = rest
                .find(|c: char| !matches!(c, '0'..='9' | '-' | '+' | '.' | 'e' | 'E'))
                .unwrap_or(rest.len());
            let number = &rest[..end];
            rest = &rest[end..];
            return Some(number);
        }
    })
}

/// Where the text after a string's opening quotation mark goes on after its closing one.
fn end_of_string(text: &str) -> usize {
    let mut escaped = false;
    text.bytes()
        .position(|byte| {
            let closes = byte == b'"' && !escaped;
            escaped = byte == b'\\' && !escaped;
            closes
        })
        .map_or(text.len(), |at| at + 1)
}

/// What `json.dumps(value)` gives: one line, `", "` and `": "` between things, nothing but ASCII.
pub fn to_line<T: Serialize>(value: &T) -> serde_json::Result<String> {
    write(value, Line)
}

/// What `json.dumps(value, indent=2)` gives; no line feed at the end.
pub fn to_indented<T: Serialize>(value: &T) -> serde_json::Result<String> {
    write(value, Indented(PrettyFormatter::new()))
}

fn write<T: Serialize>(value: &T, formatter: impl Formatter) -> serde_json::Result<String> {
    let mut text = Vec::new();
    value.serialize(&mut Serializer::with_formatter(&mut text, formatter))?;
    String::from_utf8(text).map_err(|error| serde_json::Error::custom(error.to_string()))
}

/// What `repr(number)` gives: the shortest digits that read back as `number`, the closest of these, the even one of two
/// equally close ones; with an exponent from 1e16 on and below 1e-4.
pub fn float(number: f64) -> String {
    if number.is_nan() {
        return "NaN".into();
    }
    if number.is_infinite() {
        return if number > 0.0 {
            "Infinity"
        } else {
            "-Infinity"
        }
        .into();
    }
    let mut scientific = format!("{number:e}");
    let digits = scientific.bytes().filter(u8::is_ascii_digit).count();
    let exponent_digits = scientific
        .bytes()
        .rev()
        .take_while(u8::is_ascii_digit)
        .count();
    // Of two equally close texts, Rust takes the larger one; with a given number of digits it rounds to even.
    let even = format!("{number:.*e}", digits - exponent_digits - 1);
    if even.parse() == Ok(number) {
        scientific = even;
    }
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if !(-4..16).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{mantissa}e{sign}{:02}", exponent.abs());
    }
    let (sign, mantissa) = match mantissa.strip_prefix('-') {
        Some(mantissa) => ("-", mantissa),
        None => ("", mantissa),
    };
    let mut digits = mantissa.replace('.', "");
    let whole = match usize::try_from(exponent) {
        Ok(exponent) => exponent + 1,
        Err(_) => {
            digits.insert_str(0, &"0".repeat(exponent.unsigned_abs() as usize));
            1
        }
    };
    while digits.len() <= whole {
        digits.push('0');
    }
    let (whole, fraction) = digits.split_at(whole);
    format!("{sign}{whole}.{fraction}")
}

/// A piece of a string that needs no escape but for what is not ASCII.
fn ascii<W: ?Sized + io::Write>(writer: &mut W, fragment: &str) -> io::Result<()> {
    let mut text = String::with_capacity(fragment.len());
    for c in fragment.chars() {
        if matches!(c, ' '..='~') {
            text.push(c);
        } else {
            for unit in c.encode_utf16(&mut [0; 2]) {
                // Writing into a string cannot fail.
                let _ = write!(text, "\\u{unit:04x}");
            }
        }
    }
    writer.write_all(text.as_bytes())
}

struct Line;

impl Formatter for Line {
    fn write_f64<W: ?Sized + io::Write>(&mut self, writer: &mut W, value: f64) -> io::Result<()> {
        writer.write_all(float(value).as_bytes())
    }

    fn write_string_fragment<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        ascii(writer, fragment)
    }

    fn begin_array_value<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> io::Result<()> {
        writer.write_all(if first { b"" } else { b", " })
    }

    fn begin_object_key<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> io::Result<()> {
        writer.write_all(if first { b"" } else { b", " })
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b": ")
    }
}

struct Indented(PrettyFormatter<'static>);

impl Formatter for Indented {
    fn write_f64<W: ?Sized + io::Write>(&mut self, writer: &mut W, value: f64) -> io::Result<()> {
        writer.write_all(float(value).as_bytes())
    }

    fn write_string_fragment<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        ascii(writer, fragment)
    }

    fn begin_array<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.begin_array(writer)
    }

    fn end_array<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_array(writer)
    }

    fn begin_array_value<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> io::Result<()> {
        self.0.begin_array_value(writer, first)
    }

    fn end_array_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_array_value(writer)
    }

    fn begin_object<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.begin_object(writer)
    }

    fn end_object<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_object(writer)
    }

    fn begin_object_key<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> io::Result<()> {
        self.0.begin_object_key(writer, first)
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.begin_object_value(writer)
    }

    fn end_object_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_object_value(writer)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn floats_are_written_as_python_writes_them() {
        let cases = [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (1.0, "1.0"),
            (0.1 + 0.2, "0.30000000000000004"),
            (1e-4, "0.0001"),
            (1e-5, "1e-05"),
            (-1.5e-7, "-1.5e-07"),
            (1e15, "1000000000000000.0"),
            (1e16, "1e+16"),
            (1.25e300, "1.25e+300"),
            (5e-324, "5e-324"),
            // Exactly between two texts of 17 digits, as coordinates in f32 often are.
            (f64::from(251.64676_f32), "251.64675903320312"),
            (-f64::from(318.16748_f32), "-318.16748046875"),
            (9007199254740993.0, "9007199254740992.0"),
            (123456789012345680.0, "1.2345678901234568e+17"),
            (0.001234, "0.001234"),
        ];
        for (number, text) in cases {
            assert_eq!(float(number), text);
        }
    }

    #[test]
    fn text_is_written_as_python_writes_it() {
        let value = json!({"a": [1, 2.0], "b": {}, "c": "é\u{1f600}\u{7f}\n\"\\", "d": null});
        assert_eq!(
            to_line(&value).unwrap(),
            r#"{"a": [1, 2.0], "b": {}, "c": "\u00e9\ud83d\ude00\u007f\n\"\\", "d": null}"#
        );
        assert_eq!(
            to_indented(&json!({"a": [1], "b": {}})).unwrap(),
            "{\n  \"a\": [\n    1\n  ],\n  \"b\": {}\n}"
        );
    }

    #[test]
    fn numbers_are_read_exactly() {
        let text = r#"{"x": "1 \" 2", "a": [0.9096215518364407, -1e-05, 12, 1.0], "b": 0.8606502796506634}"#;
        assert_eq!(
            numbers(text).collect::<Vec<_>>(),
            [
                "0.9096215518364407",
                "-1e-05",
                "12",
                "1.0",
                "0.8606502796506634"
            ]
        );
        let value: Value = from_str(text).unwrap();
        assert_eq!(to_line(&value).unwrap(), text);
        // One in every few numbers of 17 digits is read one unit off without care.
        let mut state = 1u64;
        for _ in 0..2000 {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1);
            let number = (state >> 11) as f64 / (1u64 << 53) as f64 * 512.0;
            let read: f64 = from_str(&float(number)).unwrap();
            assert_eq!(read, number);
        }
    }

    #[test]
    fn errors_say_where() {
        let error = from_str::<Value>("{\"a\": 1,\n \"b\": }").unwrap_err();
        assert!(error.to_string().contains("line 2 column 7"), "{error}");
        let error = from_str::<Value>(r#"{"a": 1, "a": 2}"#).unwrap_err();
        assert!(error.to_string().contains("twice"), "{error}");
    }
}
