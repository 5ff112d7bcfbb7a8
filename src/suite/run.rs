//! The runner: makes what is missing, has it looked at meanwhile, and writes it down.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;

use thiserror::Error;

use super::examiner::{Examiner, Finished};
use super::folder::{FolderError, RunFolder};
use super::method::MethodError;
use super::plan::Job;
use super::sample::{Cost, Sample};
use crate::check::detect::checker::CheckError;
use crate::engine::EngineError;
use crate::output::manifest::{self, ManifestLine, Place};
use crate::output::png;
use crate::picture::Picture;
use crate::request::Request;

/// Why a run ended early. What was finished before is kept, and the same run goes on from there.
#[derive(Debug, Error)]
pub enum RunError {
    /// Ctrl-C or a signal.
    #[error("interrupted; what is finished is kept, and the same command goes on from there")]
    Interrupted,
    /// The run's files.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The networks.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The detector.
    #[error(transparent)]
    Check(#[from] CheckError),
    /// A prompt that a method cannot change.
    #[error(transparent)]
    Method(#[from] MethodError),
    /// A reward that cannot be given.
    #[error(transparent)]
    Reward(#[from] crate::check::detect::reward::RewardError),
    /// A picture that cannot be encoded.
    #[error("cannot encode the picture of {sample_id}")]
    Encode {
        /// Whose.
        sample_id: String,
        /// The encoder's reason.
        source: ::png::EncodingError,
    },
    /// The thread that looks at pictures has died.
    #[error("looking at the pictures failed: {0}")]
    Panic(String),
}

/// A file's name within the method's folder, and what is in it.
pub type NamedFile = (String, Vec<u8>);

/// A picture that was made.
pub struct Made {
    /// From what, with the seed that it was made from at last.
    pub request: Request,
    /// The scheduler's name.
    pub scheduler: String,
    /// What it shows.
    pub picture: Picture,
    /// Further files.
    pub files: Vec<NamedFile>,
    /// What it took.
    pub cost: Cost,
}

/// Makes pictures.
pub trait Maker {
    /// How many of the first of these jobs, all of one method, it makes together: at least 1, at most all.
    ///
    /// # Errors
    /// A prompt that cannot be used.
    fn together(&self, jobs: &[Job]) -> Result<usize, RunError>;

    /// Makes the pictures of some jobs of one method, in their order.
    ///
    /// # Errors
    /// Whatever fails; [`RunError::Interrupted`] if it was told to stop.
    fn make(&mut self, jobs: &[Job]) -> Result<Vec<Made>, RunError>;
}

/// What a run tells while it goes on.
pub trait Watcher: Send {
    /// So many pictures of this run are still to be made, of so many.
    fn begins(&mut self, _pending: usize, _total: usize) {}

    /// A picture is finished and written down.
    fn finished(&mut self, sample: &Sample);
}

/// One call of the runner.
pub struct Runner<'a> {
    /// Where the run is.
    pub folder: &'a RunFolder,
    /// Looks at the pictures.
    pub examiner: &'a mut dyn Examiner,
    /// Hears how it goes.
    pub watcher: &'a mut dyn Watcher,
    /// The device and the type of the weights, for the manifest.
    pub device: String,
    /// Asks the run to stop after the batch at hand.
    pub stop: &'a AtomicBool,
}

/// Batches that wait to be looked at, at most: more would only take memory.
const WAITING: usize = 2;

impl Runner<'_> {
    /// Makes every picture of the run that is missing, and folds the files of methods that are complete.
    ///
    /// # Errors
    /// [`RunError`]; what is finished is kept.
    pub fn run(self, maker: &mut dyn Maker) -> Result<(), RunError> {
        let Self {
            folder,
            examiner,
            watcher,
            device,
            stop,
        } = self;
        let methods = 0..folder.plan().config.methods.len();
        let pending: Vec<Vec<Job>> = (methods.clone())
            .map(|method| folder.pending(method))
            .collect::<Result<_, _>>()?;
        let total = methods.clone().map(|m| folder.plan().jobs(m).count()).sum();
        watcher.begins(pending.iter().map(Vec::len).sum(), total);
        for (method, jobs) in methods.zip(pending) {
            let desk = Desk {
                folder,
                examiner: &mut *examiner,
                watcher: &mut *watcher,
                device: &device,
            };
            make_all(desk, maker, &jobs, stop)?;
            if !jobs.is_empty() {
                folder.fold(method)?;
            }
        }
        folder.finish()?;
        Ok(())
    }
}

/// Makes the pictures of `jobs`, while another thread looks at those before.
fn make_all(
    desk: Desk,
    maker: &mut dyn Maker,
    mut jobs: &[Job],
    stop: &AtomicBool,
) -> Result<(), RunError> {
    std::thread::scope(|scope| {
        let (send, receive) = sync_channel::<Vec<(Job, Made)>>(WAITING);
        let looking = scope.spawn(move || {
            let mut desk = desk;
            receive.iter().try_for_each(|batch| desk.finish(batch))
        });
        let mut made = Ok(());
        while !jobs.is_empty() {
            if stop.load(Ordering::Relaxed) {
                made = Err(RunError::Interrupted);
                break;
            }
            let batch = maker.together(jobs).and_then(|size| {
                let (batch, rest) = jobs.split_at(size);
                jobs = rest;
                Ok(batch.iter().copied().zip(maker.make(batch)?).collect())
            });
            let sent = batch.map(|batch| send.send(batch).is_ok());
            match sent {
                Ok(true) => {}
                // The other thread has ended with an error, which is the one to tell.
                Ok(false) => break,
                Err(error) => {
                    made = Err(error);
                    break;
                }
            }
        }
        drop(send);
        let looked = looking.join().unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string));
            Err(RunError::Panic(text.unwrap_or_default()))
        });
        looked.and(made)
    })
}

/// Where finished pictures are looked at and written down.
struct Desk<'a> {
    folder: &'a RunFolder,
    examiner: &'a mut dyn Examiner,
    watcher: &'a mut dyn Watcher,
    device: &'a str,
}

impl Desk<'_> {
    fn finish(&mut self, batch: Vec<(Job, Made)>) -> Result<(), RunError> {
        let plan = self.folder.plan();
        let finished: Vec<Finished> = (batch.iter())
            .map(|(job, made)| Finished {
                sample_id: plan.sample_id(*job),
                prompt: &plan.prompts[job.prompt],
                seed: job.seed,
                picture: &made.picture,
                cost: made.cost,
            })
            .collect();
        let seen = self.examiner.examine(&finished)?;
        for ((job, made), (records, scores)) in batch.iter().zip(seen) {
            let sample_id = plan.sample_id(*job);
            let picture = format!("images/{sample_id}.png");
            let encoded = png::encode(&made.picture, &made.request, &made.scheduler, self.device);
            let encoded = encoded.map_err(|source| RunError::Encode { sample_id, source })?;
            let mut files = vec![(picture.clone(), encoded)];
            files.extend(made.files.iter().cloned());
            let sample = Sample {
                index: job.index,
                manifest: self.line(*job, made, &picture),
                records,
                scores,
            };
            if self.folder.commit(*job, &files, &sample)? {
                self.watcher.finished(&sample);
            }
        }
        Ok(())
    }

    fn line(&self, job: Job, made: &Made, image_path: &str) -> ManifestLine {
        let plan = self.folder.plan();
        let prompt = &plan.prompts[job.prompt];
        let method = &plan.config.methods[job.method].name;
        let place = Place {
            run_id: method,
            prompt_id: &prompt.prompt_id,
            image_path,
        };
        let mut line = manifest::line(&made.request, &made.scheduler, self.device, &place);
        // A search ends with another seed than the one that it is named after.
        line.sample_id = plan.sample_id(job);
        line.model.pipeline = method.clone();
        if let [stated] = prompt.relations.as_slice() {
            let name = crate::check::spatialbench::record::relation_name(stated.relation);
            line.relation = Some(name);
            line.object_a = prompt.objects.get(stated.a).cloned();
            line.object_b = prompt.objects.get(stated.b).cloned();
        }
        line
    }
}
