//! The stages of a feedback: pictures are drawn, and looked at.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::Context;
use burn::tensor::Tensor;
use prepose::check::rules::Options as RuleOptions;
use prepose::engine::Engine;
use prepose::judge::oracle::Oracle;
use prepose::judge::picture::Named;
use prepose::judge::question::Question;
use prepose::judge::scene::graph::Graph;
use prepose::judge::scene::questions::{Rules, questions, vocabulary};
use prepose::judge::scene::score::{Found, found};
use prepose::make::feedback::Feedback;
use prepose::make::{PictureMaker, PictureWriter, check};
use prepose::output::files::{parent, prepare_folder};
use prepose::request::Request;
use prepose::sampling::denoise::{Hook, HookError, State};

use super::super::super::judge::asking::{RoundArgs, Totals, Who, ask_all, open_book, outcomes};
use super::super::super::judge::pictures::{Eyes, look, wanted};
use super::Refine;
use crate::cli::progress::Progress;

/// What all stages share.
pub(super) struct Work<'a> {
    pub(super) args: &'a Refine,
    pub(super) engine: &'a Engine,
    pub(super) device: String,
    pub(super) again: Feedback,
    pub(super) stop: &'a Arc<AtomicBool>,
    pub(super) quiet: bool,
}

impl Work<'_> {
    /// Where something of `graphs` is `missing` in the first picture, draws that, and then the scene again with both in sight. Returns
    /// where each scene's last picture is.
    pub(super) fn draw_again(
        &self,
        firsts: &[Request],
        places: &[PathBuf],
        [graphs, missing]: [&[Graph]; 2],
    ) -> anyhow::Result<Vec<PathBuf>> {
        let wrong: Vec<usize> = (0..missing.len())
            .filter(|i| !missing[*i].objects.is_empty())
            .collect();
        let references = wrong.iter().map(|&i| {
            let request = self.again.reference(&firsts[i], &missing[i]);
            (request, self.args.place("missing", i))
        });
        self.make(references.collect())?;
        let lasts = wrong.iter().map(|&i| {
            let reference = self.args.place("missing", i);
            let pictures = [places[i].as_path(), &reference];
            let last = self.again.last(&firsts[i], &graphs[i], pictures);
            (last, self.args.place("last", i))
        });
        self.make(lasts.collect())?;
        let ends = places
            .iter()
            .enumerate()
            .map(|(i, first)| match wrong.contains(&i) {
                true => self.args.place("last", i),
                false => first.clone(),
            });
        Ok(ends.collect())
    }

    /// Makes the pictures that are not there yet.
    pub(super) fn make(&self, wanted: Vec<(Request, PathBuf)>) -> anyhow::Result<()> {
        let mut rest = Vec::new();
        for (mut request, place) in wanted {
            if !place.is_file() {
                check(self.engine.blueprint(), &mut request, None, None)
                    .with_context(|| format!("cannot draw {:?}", request.prompt))?;
                rest.push((request, place));
            }
        }
        let Some((first, _)) = rest.first() else {
            return Ok(());
        };
        let batch = self.args.batch.choose(self.engine, first, 1)?;
        let mut maker = PictureMaker::new(self.engine, batch).with_cancel(self.stop);
        let writer = PictureWriter::new(self.device.clone(), None, None);
        let steps = rest
            .iter()
            .map(|(request, _)| self.engine.steps(request) as u64);
        let mut progress = Progress::new(steps.sum(), "steps", self.quiet);
        let (requests, places): (Vec<Request>, Vec<PathBuf>) = rest.into_iter().unzip();
        let mut done = 0;
        while done < requests.len() {
            progress.prompt(&requests[done].prompt);
            let mut steps = Steps(&mut progress);
            let made = maker.make(&requests[done..], None, &mut [&mut steps])?;
            for (picture, place) in made.pictures.iter().zip(&places[done..]) {
                prepare_folder(parent(place))?;
                writer.save(picture, place)?;
            }
            done += made.pictures.len();
        }
        progress.finish();
        Ok(())
    }

    /// Asks about the pictures; what was answered is kept, and not asked again.
    pub(super) fn look(
        &self,
        graphs: &[Graph],
        files: &[PathBuf],
    ) -> anyhow::Result<(Vec<Found>, Totals)> {
        let parts = questions(graphs, &vocabulary(graphs), &Rules::default());
        let all: Vec<Question> = parts.iter().map(|part| part.question.clone()).collect();
        let named = graphs.iter().zip(files).map(|(graph, path)| Named {
            id: graph.id.clone(),
            path: path.clone(),
        });
        let named: Vec<Named> = named.collect();
        let judge = &self.args.judge;
        let who = match judge.is_oracle() {
            false => Who::Model(judge),
            true => {
                let eyes = Eyes {
                    checker: self.args.checker.as_deref(),
                    device: self.args.networks.device,
                };
                let cases = look(&named, &wanted(named.len(), &all), &eyes, self.quiet)?;
                Who::Oracle(Box::new(Oracle::new(cases, RuleOptions::default())))
            }
        };
        let mut book = open_book(&self.args.out)?;
        let once = RoundArgs { judge_rounds: 1 };
        let given = (named.as_slice(), &all);
        let asked = ask_all(&who, once, self.stop, &mut book, given, self.quiet)?;
        let (rounds, totals) = outcomes(asked);
        let first = rounds.first().map_or(&[][..], Vec::as_slice);
        Ok((found(graphs, &parts, first), totals))
    }
}

/// Counts steps.
struct Steps<'a>(&'a mut Progress);

impl Hook for Steps<'_> {
    fn after_step(&mut self, _: &mut State, denoised: &Tensor<4>) -> Result<(), HookError> {
        self.0.advance(denoised.dims()[0] as u64);
        Ok(())
    }
}
