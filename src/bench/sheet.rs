//! The result of a sheet, for programs and for people.

mod markdown;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::machine::Machine;
use super::row::{BEST_OF, Outcome, Row, What};

/// What happens when time is short, in this order.
const ORDER: &str = "fewer timed calls, fewer steps of whole pictures, no larger batches, no further types; smaller pictures \
                     where a single call of the UNet takes more than a third of the time that there is";

/// Everything that one run measured.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Sheet {
    /// Where.
    pub machine: Machine,
    /// The command line.
    pub command: String,
    /// What it was to take.
    pub budget_seconds: f64,
    /// What it took.
    pub seconds: f64,
    /// What was left out or made smaller, and why.
    pub cuts: Vec<String>,
    /// What was measured.
    pub rows: Vec<Outcome>,
}

/// The rows of a sheet that is there, to measure the same again.
#[derive(Debug, Deserialize)]
pub struct Plan {
    /// In their order.
    pub rows: Vec<Row>,
}

impl Sheet {
    /// With what follows from the numbers: medians, rates, ratios.
    pub fn to_json(&self) -> Value {
        let mut value = json!(self);
        value["order_of_cuts"] = json!(ORDER);
        if let Some(rows) = value["rows"].as_array_mut() {
            for (row, outcome) in rows.iter_mut().zip(&self.rows) {
                row["median"] = json!(outcome.median());
                row["cpu_median"] = json!(outcome.cpu_median());
                row["spread"] = json!(outcome.spread());
                row["pictures_per_second"] = json!(self.pictures_per_second(outcome));
                row["flop_rate"] = json!(outcome.flop_rate());
                row["of_matmul"] = json!(self.of_matmul(outcome));
                row["of_plain_step"] = json!(self.of_plain_step(outcome));
            }
        }
        value
    }

    fn pictures_per_second(&self, outcome: &Outcome) -> Option<f64> {
        let pictures = match outcome.row.what {
            What::Picture | What::Decode => outcome.row.batch,
            What::Search => BEST_OF,
            _ => return None,
        };
        Some(pictures as f64 / outcome.median()?)
    }

    /// The share of the speed of a large product of matrices in the same type that a row reaches.
    fn of_matmul(&self, outcome: &Outcome) -> Option<f64> {
        let mut products = self
            .rows
            .iter()
            .filter(|other| other.row.what == What::Matmul && other.row.dtype == outcome.row.dtype);
        let ceiling = products.find_map(Outcome::flop_rate)?;
        (outcome.row.what != What::Matmul)
            .then(|| outcome.flop_rate().map(|rate| rate / ceiling))
            .flatten()
    }

    /// A guided step over the plain one.
    fn of_plain_step(&self, outcome: &Outcome) -> Option<f64> {
        let row = &outcome.row;
        if row.what != What::Guided {
            return None;
        }
        let mut plain = self.rows.iter().filter(|other| {
            let other = &other.row;
            let like = [&other.model, &other.checkpoint] == [&row.model, &row.checkpoint];
            let sizes = (other.size, other.batch) == (row.size, row.batch);
            other.what == What::Step && other.dtype == row.dtype && like && sizes
        });
        Some(outcome.median()? / plain.find_map(Outcome::median)?)
    }
}

#[cfg(test)]
mod tests {
    use super::super::machine::tests::machine;
    use super::super::row::FamilyTime;
    use super::super::row::tests::row;
    use super::*;

    fn measured(what: What, seconds: f64, flops: Option<u64>) -> Outcome {
        Outcome {
            seconds: vec![seconds],
            flops,
            peak_bytes: Some(3 << 20),
            ..Outcome::empty(&row(what))
        }
    }

    fn sheet() -> Sheet {
        let mut families = measured(What::Families, 2.0, None);
        let part = |family: &str, seconds, flops| FamilyTime {
            family: family.into(),
            calls: 1,
            seconds,
            flops,
        };
        families.families = vec![
            part("convolution", 1.5, 3_000_000_000_000),
            part("rest", 0.5, 0),
        ];
        let mut guided = measured(What::Guided, 3.0, None);
        guided.row.variant = "pos".into();
        let rows = vec![
            measured(What::Matmul, 1.0, Some(4_000_000_000_000)),
            measured(What::Unet, 2.0, Some(2_000_000_000_000)),
            measured(What::Step, 2.0, None),
            guided,
            families,
            measured(What::Picture, 4.0, None),
            Outcome::failed(&row(What::Decode), "out of memory"),
        ];
        Sheet {
            machine: machine(),
            command: "prepose bench sheet".into(),
            budget_seconds: 480.0,
            seconds: 12.0,
            cuts: vec!["unet: 2 timed calls instead of 5".into()],
            rows,
        }
    }

    #[test]
    fn ratios_are_of_the_right_rows() {
        let json = sheet().to_json();
        let rows = json["rows"].as_array().unwrap();
        assert_eq!(rows[1]["of_matmul"], 0.25);
        assert_eq!(rows[3]["of_plain_step"], 1.5);
        assert_eq!(rows[5]["pictures_per_second"], 0.25);
        assert!(rows[6]["median"].is_null() && rows[6]["problem"] == "out of memory");
        let plan: Plan = serde_json::from_value(json.clone()).unwrap();
        assert_eq!(plan.rows.len(), 7);
        assert_eq!(plan.rows[3].variant, "pos");
        assert_eq!(
            serde_json::from_value::<Sheet>(json).unwrap().rows,
            sheet().rows
        );
    }

    #[test]
    fn tables_have_every_row_once() {
        let text = sheet().to_markdown();
        for part in [
            "| unet | sd15 | 512² | f16 | 1 | 2.000 s | – | – | 1.000 | 25 % | 3 MiB |",
            "| pos | sd15 | 512² | f16 | 1 | 3.000 s | 1.50 | +10.0 % | ? |",
            "| convolution | 1 | 1.500 s | 75 % | 2.000 |",
            "- decode sd15 512², f16, batch 1: out of memory",
            "- unet: 2 timed calls instead of 5",
            "| picture, 20 steps |",
        ] {
            assert_eq!(text.matches(part).count(), 1, "{part}:\n{text}");
        }
    }
}
