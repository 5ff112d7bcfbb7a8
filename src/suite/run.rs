//! The runner: makes what is missing, has it looked at meanwhile, and writes it down.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;

use thiserror::Error;

use super::examiner::{Examiner, Submission};
use super::folder::{FolderError, NamedFile, RunFolder};
use super::method::MethodError;
use super::plan::Job;
use super::sample::{Cost, Sample};
use crate::detect::checker::CheckError;
use crate::detect::reward::RewardError;
use crate::engine::EngineError;
use crate::make::{FinishedPicture, MakeError};
use crate::output::files::slug;
use crate::output::manifest::{ManifestLine, Place};
use crate::output::png;
use crate::picture::Picture;
use crate::request::RewardKind;

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
    /// A picture that cannot be made.
    #[error(transparent)]
    Make(MakeError),
    /// A prompt that cannot be used.
    #[error("{method} cannot make {prompt_id:?}")]
    Prompt {
        /// By which method.
        method: String,
        /// Which prompt.
        prompt_id: String,
        /// Why not.
        source: Box<RunError>,
    },
    /// A search by the picture without a detector.
    #[error("{method} goes by what the checker sees, but there is --checker none")]
    NoChecker {
        /// The method with that search.
        method: String,
    },
    /// Prompts whose candidates a search cannot score.
    #[error(
        "{method} scores candidates by the reward {reward}, which has nothing to say about {} of {prompts} prompts \
         ({}): {why}; leave them out, or choose another reward",
        unscored.len(), list(unscored)
    )]
    Unscored {
        /// The method with that search.
        method: String,
        /// What it scores candidates by.
        reward: RewardKind,
        /// How many prompts the run has.
        prompts: usize,
        /// Ids of those that cannot be scored.
        unscored: Vec<String>,
        /// Why the first of them cannot.
        why: Box<RewardError>,
    },
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

/// The ids of the first few prompts.
fn list(prompt_ids: &[String]) -> String {
    const SHOWN: usize = 10;
    let shown = prompt_ids.len().min(SHOWN);
    let mut text = prompt_ids[..shown].join(", ");
    if prompt_ids.len() > shown {
        text += &format!(" and {} more", prompt_ids.len() - shown);
    }
    text
}

impl From<MakeError> for RunError {
    fn from(error: MakeError) -> Self {
        match error {
            MakeError::Cancelled => Self::Interrupted,
            error => Self::Make(error),
        }
    }
}

/// Makes pictures.
pub trait Maker {
    /// Makes the pictures of the first of these jobs, all of one method: of at least one, in their order.
    ///
    /// # Errors
    /// Whatever fails; [`RunError::Interrupted`] if it was told to stop.
    fn make(&mut self, jobs: &[Job]) -> Result<Vec<FinishedPicture>, RunError>;
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
        let total = methods.clone().map(|method| folder.asked_for(method)).sum();
        watcher.begins(pending.iter().map(Vec::len).sum(), total);
        for (method, mut jobs) in methods.zip(pending) {
            let mut writer = ResultWriter {
                folder,
                examiner: &mut *examiner,
                watcher: &mut *watcher,
                device: &device,
            };
            let begun = !jobs.is_empty();
            let said = writer.say_again(&jobs, stop)?;
            jobs.retain(|job| !said.contains(&job.index));
            make_all(writer, maker, &jobs, stop)?;
            if begun {
                folder.fold_if_whole(method)?;
            }
        }
        folder.finish()?;
        Ok(())
    }
}

/// Makes the pictures of `jobs`, while another thread looks at those before.
fn make_all(
    writer: ResultWriter,
    maker: &mut dyn Maker,
    mut jobs: &[Job],
    stop: &AtomicBool,
) -> Result<(), RunError> {
    std::thread::scope(|scope| {
        let (send, receive) = sync_channel::<Vec<(Job, FinishedPicture)>>(WAITING);
        let looking = scope.spawn(move || {
            let mut writer = writer;
            receive.iter().try_for_each(|batch| writer.finish(&batch))
        });
        let mut made = Ok(());
        while !jobs.is_empty() {
            if stop.load(Ordering::Relaxed) {
                made = Err(RunError::Interrupted);
                break;
            }
            let sent = maker.make(jobs).map(|pictures| {
                let (batch, rest) = jobs.split_at(pictures.len());
                jobs = rest;
                let batch = batch.iter().copied().zip(pictures);
                send.send(batch.collect()).is_ok()
            });
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

/// Has finished pictures looked at and writes down what is known of them.
struct ResultWriter<'a> {
    folder: &'a RunFolder,
    examiner: &'a mut dyn Examiner,
    watcher: &'a mut dyn Watcher,
    device: &'a str,
}

impl ResultWriter<'_> {
    /// Looks again at pictures whose records alone were lost, and returns the indices of the jobs that are done by that.
    fn say_again(&mut self, jobs: &[Job], stop: &AtomicBool) -> Result<HashSet<usize>, RunError> {
        let folder = self.folder;
        let mut said = HashSet::new();
        for (job, mut sample) in folder.unsaid(jobs)? {
            if stop.load(Ordering::Relaxed) {
                return Err(RunError::Interrupted);
            }
            let bytes = folder.store().get(&folder.picture_name(job));
            let Some(bytes) = bytes.map_err(FolderError::from)? else {
                continue;
            };
            // One that cannot be read is made again.
            let Ok(picture) = Picture::decode(&bytes) else {
                continue;
            };
            let submitted = Submission {
                sample_id: folder.plan().sample_id(job),
                prompt: &folder.plan().prompts[job.prompt],
                seed: job.seed,
                picture: &picture,
                cost: Cost::default(),
            };
            let seen = self.examiner.examine(&[submitted])?;
            sample.records = seen.into_iter().flat_map(|(records, _)| records).collect();
            if folder.say_again(job, &sample)? {
                self.watcher.finished(&sample);
                said.insert(job.index);
            }
        }
        Ok(said)
    }

    fn finish(&mut self, batch: &[(Job, FinishedPicture)]) -> Result<(), RunError> {
        let plan = self.folder.plan();
        let submitted: Vec<Submission> = (batch.iter())
            .map(|(job, made)| Submission {
                sample_id: plan.sample_id(*job),
                prompt: &plan.prompts[job.prompt],
                seed: job.seed,
                picture: &made.picture,
                cost: made.cost,
            })
            .collect();
        let seen = self.examiner.examine(&submitted)?;
        for ((job, made), (records, scores)) in batch.iter().zip(seen) {
            let name = format!("images/{}.png", plan.sample_id(*job));
            let sample = Sample {
                index: job.index,
                manifest: self.line(*job, made, &name),
                records,
                scores,
            };
            let files = self.files(&sample.manifest.sample_id, made, name);
            let files = files.map_err(|source| RunError::Encode {
                sample_id: sample.manifest.sample_id.clone(),
                source,
            })?;
            if self.folder.commit(*job, &files, &sample)? {
                self.watcher.finished(&sample);
            }
        }
        Ok(())
    }

    /// The picture's file `name`, and `maps/{sample_id}-{object}.png` for each object that it has a map of: the mean
    /// over the steps as a heat map.
    fn files(
        &self,
        sample_id: &str,
        made: &FinishedPicture,
        name: String,
    ) -> Result<Vec<NamedFile>, ::png::EncodingError> {
        let mut files = vec![(name, made.to_png(self.device)?)];
        // Of several sizes the first, which has the most cells.
        if let Some(maps) = made.maps.first() {
            for (object, map) in maps.objects.iter().zip(maps.mean()) {
                let name = format!("maps/{sample_id}-{}.png", slug(object));
                let drawn = map.over(&made.picture, map.peak());
                files.push((name, png::encode_plain(&drawn)?));
            }
        }
        Ok(files)
    }

    fn line(&self, job: Job, made: &FinishedPicture, image_path: &str) -> ManifestLine {
        let plan = self.folder.plan();
        let prompt = &plan.prompts[job.prompt];
        let method = &plan.config.methods[job.method].name;
        let place = Place {
            run_id: method,
            prompt_id: &prompt.prompt_id,
            image_path,
        };
        let mut line = made.manifest_line(self.device, &place);
        // A search ends with another seed than the one that it is named after.
        line.sample_id = plan.sample_id(job);
        line.model.pipeline = method.clone();
        if let [stated] = prompt.relations.as_slice() {
            let name = crate::check::spatialbench::record::relation_name(stated.relation);
            line.relation = Some(name);
            let object = stated.two().map(|(_, object)| object);
            line.object_a = prompt.objects.get(stated.subject).cloned();
            line.object_b = object.and_then(|object| prompt.objects.get(object).cloned());
        }
        line
    }
}
