//! Colour, where a terminal wants it: `anstream` leaves it out elsewhere, and where NO_COLOR says so.

use anstyle::{AnsiColor, Style};

/// In bold and in this colour.
const fn bold(colour: AnsiColor) -> Style {
    colour.on_default().bold()
}

/// Of "error:".
pub const ERROR: Style = bold(AnsiColor::Red);

/// `text` in `style`.
pub fn paint(style: Style, text: &str) -> String {
    format!("{style}{text}{style:#}")
}

/// A verdict in its colour: PASS green, FAIL red, anything else yellow.
pub fn verdict(verdict: &str) -> String {
    let colour = match verdict {
        "PASS" => AnsiColor::Green,
        "FAIL" => AnsiColor::Red,
        _ => AnsiColor::Yellow,
    };
    paint(bold(colour), verdict)
}

/// Whether what is printed on standard output may be coloured.
pub fn on_stdout() -> bool {
    anstream::AutoStream::choice(&std::io::stdout()) != anstream::ColorChoice::Never
}
