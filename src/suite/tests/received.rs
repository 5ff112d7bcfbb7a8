//! Pictures that cost something: none is lost, none is paid for twice, and nothing of them is left lying about, whenever a run is
//! killed.

use sha2::{Digest, Sha256};

use super::*;
use crate::output::png;
use crate::sources::{
    Deliver, File, Job as SourceJob, Origin, Outcome, Refusal, Source, SourceError, Wishes,
};
use crate::suite::elsewhere::SourceMaker;
use crate::suite::plan::{Interface, SourceId};

/// Pictures by their jobs, one at a time, and how often each was asked for.
#[derive(Default)]
struct Counting {
    asked: BTreeMap<String, usize>,
    /// After so many it fails.
    most: Option<usize>,
}

impl Counting {
    fn file(job: &SourceJob) -> File {
        let picture = Picture {
            width: 8,
            height: 8,
            rgb: vec![pixel(&job.name); 8 * 8 * 3],
        };
        let bytes = png::encode_plain(&picture).unwrap();
        let sha256 = format!("{:x}", Sha256::digest(&bytes));
        File {
            bytes,
            origin: Origin {
                sha256,
                ..Origin::default()
            },
            seconds: 0.25,
        }
    }
}

impl Source for Counting {
    fn at_once(&self) -> usize {
        3
    }

    fn fetch(&mut self, jobs: &[SourceJob], deliver: &mut Deliver) -> Result<(), SourceError> {
        for (index, job) in jobs.iter().enumerate() {
            if self.most.is_some_and(|most| self.asked.len() >= most) {
                return Err(SourceError::Stopped);
            }
            if job.prompt_id == "p00003" {
                deliver(
                    index,
                    Outcome::Refused(Refusal {
                        code: "no".into(),
                        message: "not this".into(),
                    }),
                )?;
                continue;
            }
            *self.asked.entry(job.name.clone()).or_default() += 1;
            deliver(index, Outcome::Picture(Self::file(job)))?;
        }
        Ok(())
    }
}

/// Four prompts, of which the last is refused, by one picture and by the better of two.
fn dear(seeds: &[u64]) -> Plan {
    let mut plan = plan(4, 2, &["prompt-only", "best-of-2"]);
    plan.config.seeds = seeds.to_vec();
    (plan.config.model, plan.config.sampling) = (None, None);
    plan.config.source = Some(SourceId::Endpoint {
        name: "m".into(),
        interface: Interface::OpenAi,
        address: "http://localhost".into(),
        wishes: Wishes::default(),
        fields: serde_json::Map::new(),
        workflow: None,
    });
    plan
}

/// Goes on with the run until it ends or something fails.
fn buy(store: Arc<dyn Store>, plan: &Plan, source: &mut Counting) -> Result<(), RunError> {
    let folder = RunFolder::claim(store, plan.clone())?;
    let mut maker = SourceMaker::new(&folder, source, None);
    let runner = Runner {
        folder: &folder,
        examiner: &mut NoExaminer,
        watcher: &mut Count::default(),
        device: "stub".into(),
        stop: &AtomicBool::new(false),
    };
    runner.run(&mut maker)
}

fn received(store: &MemoryStore) -> Vec<String> {
    let files = store.files.lock().unwrap();
    let names = files.keys().filter(|name| name.contains("/received/"));
    names.cloned().collect()
}

#[test]
fn whenever_it_is_killed_nothing_is_paid_for_twice_or_left_lying_about() {
    let plan = dear(&[0, 1]);
    let calm = Arc::new(MemoryStore::default());
    let mut source = Counting::default();
    buy(calm.clone(), &plan, &mut source).unwrap();
    // Of three prompts and two seeds, one and two.
    assert_eq!(source.asked.values().sum::<usize>(), 3 * 2 * (1 + 2));
    let wanted = files(&calm);
    assert_eq!(received(&calm), [""; 0]);
    assert_eq!(damage(calm.clone()), [""; 0]);
    let operations = calm.operations.load(Ordering::Relaxed);
    assert!(operations > 100, "{operations}");
    for killed in 0..operations {
        let store = Arc::new(MemoryStore {
            dead_from: Some(killed),
            ..MemoryStore::default()
        });
        let mut source = Counting::default();
        // Which of two threads has the last operation is not always the same.
        let _ = buy(store.clone(), &plan, &mut source);
        let left = Arc::try_unwrap(store).ok().unwrap().files;
        let again = Arc::new(MemoryStore {
            files: left,
            ..MemoryStore::default()
        });
        buy(again.clone(), &plan, &mut source).unwrap();
        assert_eq!(differing(&files(&again), &wanted), [""; 0], "{killed}");
        assert_eq!(received(&again), [""; 0], "{killed}");
        assert_eq!(damage(again), [""; 0], "{killed}");
        // One alone was under way: it was given and could not be kept.
        let asked: usize = source.asked.values().sum();
        assert!(asked <= 3 * 2 * (1 + 2) + 1, "{killed}: {asked}");
    }
}

#[test]
fn what_is_of_no_use_any_more_is_removed_when_the_run_is_taken_up() {
    let (small, large) = (dear(&[1]), dear(&[0, 1]));
    let store = Arc::new(MemoryStore::default());
    let mut source = Counting::default();
    buy(store.clone(), &small, &mut source).unwrap();
    let name = |name: &str| format!("prompt-only/received/{name}");
    let done: Vec<String> = source.asked.keys().cloned().collect();
    let put = |names: &[&str]| {
        for one in names {
            store.put(&name(one), b"left").unwrap();
        }
    };
    // A run that is complete: what is of a picture that is there, and of none at all.
    let nobody = "0".repeat(64);
    put(&[&done[0], &nobody, "notes.txt"]);
    buy(store.clone(), &small, &mut Counting::default()).unwrap();
    assert_eq!(received(&store), [name("notes.txt")]);
    // One that goes on: before it asks for anything.
    put(&[&done[0]]);
    let mut poor = Counting {
        most: Some(0),
        ..Counting::default()
    };
    buy(store.clone(), &large, &mut poor).unwrap_err();
    assert_eq!(received(&store), [name("notes.txt")]);
}

/// A run that has grown finds what was received before.
#[test]
fn what_was_received_is_used_by_a_run_that_has_grown() {
    let (small, large) = (dear(&[1]), dear(&[0, 1]));
    let files = (0..)
        .find_map(|killed| {
            let store = Arc::new(MemoryStore {
                dead_from: Some(killed),
                ..MemoryStore::default()
            });
            let _ = buy(store.clone(), &small, &mut Counting::default());
            (!received(&store).is_empty()).then(|| store.files.lock().unwrap().clone())
        })
        .unwrap();
    let store = Arc::new(MemoryStore {
        files: Mutex::new(files),
        ..MemoryStore::default()
    });
    let had: Vec<String> = received(&store);
    let mut source = Counting::default();
    buy(store.clone(), &large, &mut source).unwrap();
    for name in had {
        let (_, name) = name.rsplit_once('/').unwrap();
        // By the other method alone.
        assert_eq!(source.asked.get(name), Some(&1));
    }
    assert_eq!(received(&store), [""; 0]);
}
