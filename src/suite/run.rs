//! The runner: makes what is missing, has it looked at meanwhile, and writes it down.

mod error;

pub use error::RunError;
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;

use super::elsewhere;
use super::examiner::{Examiner, Submission};
use super::folder::{FolderError, NamedFile, RunFolder};
use super::plan::Job;
use super::sample::{Cost, Sample};
use crate::make::FinishedPicture;
use crate::output::manifest::{ManifestLine, Place};
use crate::output::png;
use crate::picture::Picture;
use crate::sources::{Origin, Refusal};

/// What became of a job.
#[derive(Clone, Debug)]
pub enum Made {
    /// The engine made it.
    Here(Box<FinishedPicture>),
    /// It was made elsewhere.
    Elsewhere(Box<Fetched>),
    /// Its source's rules about content forbid it.
    Refused(Refusal),
    /// It is not there yet.
    Missing,
}

/// A picture that was made elsewhere.
#[derive(Clone, Debug)]
pub struct Fetched {
    /// What it shows.
    pub picture: Picture,
    /// Its PNG file.
    pub png: Vec<u8>,
    /// Where it comes from.
    pub origin: Origin,
    /// What it took.
    pub cost: Cost,
    /// Names of files that are of no use once it is written down.
    pub received: Vec<String>,
}

impl Made {
    fn picture(&self) -> Option<(&Picture, Cost)> {
        match self {
            Self::Here(made) => Some((&made.picture, made.cost)),
            Self::Elsewhere(fetched) => Some((&fetched.picture, fetched.cost)),
            Self::Refused(_) | Self::Missing => None,
        }
    }
}

/// Makes pictures.
pub trait Maker {
    /// Makes the pictures of the first of these jobs, all of one method: of at least one, in their order.
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

    /// A source has refused to make a picture.
    fn refused(&mut self, _sample_id: &str, _refusal: &Refusal) {}
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
    /// Makes some pictures of one method, which are not there.
    ///
    /// # Errors
    /// [`RunError`]; what is finished is kept.
    pub fn some(self, maker: &mut dyn Maker, jobs: &[Job]) -> Result<(), RunError> {
        let writer = ResultWriter {
            folder: self.folder,
            examiner: self.examiner,
            watcher: self.watcher,
            device: &self.device,
        };
        make_all(writer, maker, jobs, self.stop)
    }

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
        for method in methods.clone() {
            // Of an earlier call that was killed.
            folder.tidy_received(method)?;
        }
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
        let (send, receive) = sync_channel::<Vec<(Job, Made)>>(WAITING);
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

    fn finish(&mut self, batch: &[(Job, Made)]) -> Result<(), RunError> {
        let plan = self.folder.plan();
        let pictures: Vec<(&(Job, Made), &Picture, Cost)> = (batch.iter())
            .filter_map(|one| one.1.picture().map(|(picture, cost)| (one, picture, cost)))
            .collect();
        let submitted: Vec<Submission> = (pictures.iter())
            .map(|((job, _), picture, cost)| Submission {
                sample_id: plan.sample_id(*job),
                prompt: &plan.prompts[job.prompt],
                seed: job.seed,
                picture,
                cost: *cost,
            })
            .collect();
        let seen = match submitted.is_empty() {
            true => Vec::new(),
            false => self.examiner.examine(&submitted)?,
        };
        for (((job, made), ..), (records, scores)) in pictures.into_iter().zip(seen) {
            let name = format!("images/{}.png", plan.sample_id(*job));
            let sample = Sample {
                index: job.index,
                manifest: self.line(*job, made, &name),
                records,
                scores,
            };
            let files = self.files(&sample.manifest.sample_id, made, name)?;
            if self.folder.commit(*job, &files, &sample)? {
                self.watcher.finished(&sample);
            }
            if let Made::Elsewhere(fetched) = made {
                let store = self.folder.store();
                store
                    .remove_all(&fetched.received)
                    .map_err(FolderError::from)?;
            }
        }
        for (job, made) in batch {
            if let Made::Refused(refusal) = made {
                self.folder.refuse(*job, refusal)?;
                self.watcher.refused(&plan.sample_id(*job), refusal);
            }
        }
        Ok(())
    }

    /// The picture's file `name` and what is beside it: `maps/{sample_id}-{object}.png` for each object that it has a map of
    /// (the mean over the steps as a heat map), or `origin/{sample_id}.json`, which says where it comes from.
    fn files(
        &self,
        sample_id: &str,
        made: &Made,
        name: String,
    ) -> Result<Vec<NamedFile>, RunError> {
        let fail = |source| RunError::Encode {
            sample_id: sample_id.into(),
            source,
        };
        match made {
            Made::Here(made) => {
                let mut files = vec![(name, made.to_png(self.device).map_err(fail)?)];
                // Of several sizes the first, which has the most cells.
                if let Some(maps) = made.maps.first() {
                    for (object, map) in maps.file_names(&[]).iter().zip(maps.mean()) {
                        let name = format!("maps/{sample_id}-{object}.png");
                        let drawn = map.over(&made.picture, map.peak());
                        files.push((name, png::encode_plain(&drawn).map_err(fail)?));
                    }
                }
                Ok(files)
            }
            Made::Elsewhere(fetched) => {
                let origin = serde_json::to_string(&fetched.origin).map_err(FolderError::from)?;
                let origin = (
                    format!("origin/{sample_id}.json"),
                    (origin + "\n").into_bytes(),
                );
                Ok(vec![(name, fetched.png.clone()), origin])
            }
            Made::Refused(_) | Made::Missing => Ok(Vec::new()),
        }
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
        let mut line = match made {
            Made::Here(made) => made.manifest_line(self.device, &place),
            made => elsewhere::line(plan, job, made.picture(), self.device, &place),
        };
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
