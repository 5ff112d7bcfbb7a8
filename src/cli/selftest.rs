//! `prepose selftest`

use std::io::Write;

use anyhow::ensure;
use prepose::device::{self, DeviceSpec, OpenDevice};
use prepose::request::Dtype;
use prepose::selftest::{self, Outcome, Part};

use super::{NO, OK};

/// Test every operation and the toybox's networks on a device.
///
/// Operations are compared with loops in f64, networks with results recorded from PyTorch. Exit code 1 if anything is wrong.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The device.
    #[arg(long, default_value = "auto")]
    device: DeviceSpec,
    /// Types to compute in [default: all that the device has].
    #[arg(long, value_delimiter = ',')]
    dtype: Vec<Dtype>,
    /// Test only this part.
    #[arg(long, value_enum)]
    part: Option<Part>,
    /// Test only what has one of these in its name: attention, norm, detector ...
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Print one JSON object per line on standard output.
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args) -> anyhow::Result<u8> {
    let device = device::open(args.device)?;
    for &dtype in &args.dtype {
        device.check_dtype(dtype)?;
    }
    let mut dtypes = args.dtype.clone();
    if dtypes.is_empty() {
        dtypes = vec![Dtype::F32, Dtype::F16, Dtype::Bf16];
        dtypes.retain(|dtype| device.check_dtype(*dtype).is_ok());
    }
    let wanted = |part: Part, name: &str| {
        args.part.is_none_or(|only| only == part)
            && (args.only.is_empty() || args.only.iter().any(|only| name.contains(&**only)))
    };

    let mut out = std::io::stdout().lock();
    let (mut all, mut wrong) = (0, Vec::new());
    let mut written = Ok(());
    selftest::run(&device, &dtypes, wanted, |outcome| {
        if written.is_ok() {
            written = match args.json {
                true => write_json(&mut out, &outcome),
                false if all == 0 => {
                    write_head(&mut out, &device).and_then(|()| write_row(&mut out, &outcome))
                }
                false => write_row(&mut out, &outcome),
            };
        }
        all += 1;
        if outcome.failure.is_some() {
            wrong.push(outcome);
        }
    });
    written?;
    ensure!(all > 0, "nothing has any of {:?} in its name", args.only);
    if !args.json {
        writeln!(out)?;
        for outcome in &wrong {
            let failure = outcome.failure.as_deref().unwrap_or_default();
            writeln!(out, "{} in {:?}: {failure}", outcome.name, outcome.dtype)?;
        }
        match wrong.len() {
            0 => writeln!(out, "All {all} are right.")?,
            wrong => writeln!(
                out,
                "{wrong} of {all} are wrong: do not trust pictures from this device in these types."
            )?,
        }
    }
    Ok(if wrong.is_empty() { OK } else { NO })
}

fn write_json(out: &mut impl Write, outcome: &Outcome) -> std::io::Result<()> {
    writeln!(out, "{}", serde_json::json!(outcome))
}

fn write_head(out: &mut impl Write, device: &OpenDevice) -> std::io::Result<()> {
    writeln!(out, "{} ({})\n", device.spec, device.name)?;
    writeln!(out, "| | of | in | cases | error | at most | s |")?;
    writeln!(out, "| --- | --- | --- | ---: | ---: | ---: | ---: |")
}

fn write_row(out: &mut impl Write, outcome: &Outcome) -> std::io::Result<()> {
    let mark = if outcome.failure.is_none() {
        "ok"
    } else {
        "WRONG"
    };
    let error = outcome
        .error
        .map_or("-".into(), |error| format!("{error:.1e}"));
    writeln!(
        out,
        "| {mark} | {} | {} | {} | {error} | {:.0e} | {:.1} |",
        outcome.name,
        format!("{:?}", outcome.dtype).to_lowercase(),
        outcome.cases,
        outcome.tolerance,
        outcome.seconds
    )?;
    out.flush()
}
