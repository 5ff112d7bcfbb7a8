//! Lists of moments at which a prompt changes.

use prepose::suite::method::Moment;

use crate::cli::values::numbers;

/// What [`parse_moments`] reads, in a type of its own: clap would take a bare `Vec` for a repeated option.
#[derive(Clone, Debug, PartialEq)]
pub struct Moments(pub Vec<Moment>);

/// Reads `--switch-at`: `0-5`, `1,2,4`, `0.1,0.25`, `sigma5.5`, or several of these; 0 is left out, as it is no change.
pub fn parse_moments(text: &str) -> Result<Moments, String> {
    let mut moments: Vec<Moment> = Vec::new();
    for part in text.split(',').map(str::trim) {
        let range = part.contains('-') || part.contains("..");
        let whole = part.chars().all(|c| c.is_ascii_digit());
        let new: Vec<Moment> = match (range || whole) && !part.is_empty() {
            true => {
                let steps = numbers(part)?.into_iter().filter(|steps| *steps > 0);
                let moment = |steps: u64| steps.to_string().parse();
                let moments = steps.map(moment).collect::<Result<_, _>>();
                moments.map_err(|error: prepose::suite::method::MethodError| error.to_string())?
            }
            false => vec![
                part.parse()
                    .map_err(|error: prepose::suite::method::MethodError| error.to_string())?,
            ],
        };
        for moment in new {
            if !moments.contains(&moment) {
                moments.push(moment);
            }
        }
    }
    Ok(Moments(moments))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_steps_shares_and_noise_levels() {
        let texts = |list: &str| {
            let moments = parse_moments(list).unwrap().0;
            moments.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(texts("0-2"), ["1", "2"]);
        assert_eq!(texts("0..2,2, 4"), ["1", "2", "4"]);
        assert_eq!(texts("0.1,0.25,sigma8"), ["0.1", "0.25", "sigma8"]);
        assert!(texts("0").is_empty());
        for wrong in ["", "5..1", "1,,2", "x", "1.5", "sigma", "0-1000000"] {
            assert!(parse_moments(wrong).is_err(), "{wrong}");
        }
    }
}
