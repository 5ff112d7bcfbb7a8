//! `prepose score opse`

use std::io::Write;

use anyhow::ensure;
use prepose::check::rules::opse::{Clock, Opse, OpseError, SplitMix};
use prepose_untrusted::escaped;
use serde_json::json;

use super::{Args, Asked, OPSE, table};
use crate::cli::OK;

/// OPSE over pictures that are there already: a round draws some of a model's at random.
pub fn compare(args: &Args, asked: &Asked) -> anyhow::Result<u8> {
    let mut code = OK;
    let mut scores = Vec::new();
    for file in &args.files {
        let scored = asked.of_files(&args.of, std::slice::from_ref(file))?;
        code = code.max(scored.told());
        let found = scored.report.outcomes.iter().flatten();
        let found: Vec<f64> = found.filter_map(|outcome| outcome.score).collect();
        ensure!(
            !found.is_empty(),
            "no picture of {} has a score",
            file.display()
        );
        scores.push(found);
    }
    let opse = Opse {
        batch: args.batch,
        rounds: args.rounds,
        clock: if asked.options.published {
            Clock::Published
        } else {
            Clock::Rounds
        },
        seed: args.seed,
        ..Opse::default()
    };
    let mut random = SplitMix(args.seed);
    let comparison = opse.compare(scores.len(), |model| {
        let scores: &Vec<f64> = &scores[model];
        Ok::<f64, OpseError>(scores[random.below(scores.len())])
    })?;
    let best = &args.files[comparison.best()];
    let models = args.files.iter().zip(&scores).zip(&comparison.standings);
    let mut out = std::io::stdout().lock();
    if args.json {
        let models = models.map(|((file, scores), standing)| {
            json!({
                "file": file,
                "pictures": scores.len(),
                "rounds": standing.rounds,
                "mean": standing.mean,
            })
        });
        let result = json!({
            "rule": OPSE,
            "of": args.of,
            "published": asked.options.published,
            "best": best,
            "models": models.collect::<Vec<_>>(),
            "chosen": comparison.chosen,
        });
        writeln!(out, "{result}")?;
    } else {
        let mut rows = vec![["model", "rounds", "mean"].map(String::from)];
        rows.extend(models.map(|((file, _), standing)| {
            let mean = format!("{:.4}", standing.mean);
            [
                file.display().to_string(),
                standing.rounds.to_string(),
                mean,
            ]
        }));
        let said = format!("{}\nbest: {}", table(&rows), best.display());
        writeln!(out, "{}", escaped(&said))?;
    }
    Ok(code)
}
