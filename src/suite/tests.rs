//! The runner with pictures from nowhere: whatever fails, nothing is lost and nothing is made twice.

mod received;
mod taken_up;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use super::examiner::NoExaminer;
use super::folder::RunFolder;
use super::method::Method;
use super::plan::{Job, Plan, RunConfig, Sampling};
use super::run::{Made, Maker, RunError, Runner, Watcher};
use super::sample::{Cost, Sample};
use super::{Suite, SuitePrompt};
use crate::make::FinishedPicture;
use crate::output::attention::ObjectMaps;
use crate::output::heatmap::HeatMap;
use crate::picture::Picture;
use crate::request::Request;
use crate::sampling::noise::NoiseKind;
use crate::store::ledger::{Damage, LEDGER, Look};
use crate::store::{Entry, LocalStore, Store, StoreError};

/// Files in memory. The operation number `fails` fails: before it has any effect, or, if it is odd, after it. From the operation
/// number `dead_from` on, all fail and none has an effect, as when the program is killed.
#[derive(Default)]
struct MemoryStore {
    files: Mutex<BTreeMap<String, Vec<u8>>>,
    operations: AtomicUsize,
    fails: Option<usize>,
    dead_from: Option<usize>,
}

impl MemoryStore {
    fn operation<T>(
        &self,
        act: impl FnOnce(&mut BTreeMap<String, Vec<u8>>) -> T,
    ) -> Result<T, StoreError> {
        let number = self.operations.fetch_add(1, Ordering::Relaxed);
        let fail = self.fails == Some(number);
        let dead = self.dead_from.is_some_and(|from| number >= from);
        let error = || StoreError::File {
            action: "write",
            name: number.to_string(),
            location: "memory".into(),
            source: "no space left on device".into(),
        };
        if dead || (fail && number.is_multiple_of(2)) {
            return Err(error());
        }
        let done = act(&mut self.files.lock().unwrap());
        match fail {
            true => Err(error()),
            false => Ok(done),
        }
    }
}

impl Store for MemoryStore {
    fn location(&self) -> String {
        "memory".into()
    }

    fn get(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.operation(|files| files.get(name).cloned())
    }

    fn put(&self, name: &str, bytes: &[u8]) -> Result<(), StoreError> {
        self.operation(|files| drop(files.insert(name.into(), bytes.into())))
    }

    fn put_new(&self, name: &str, bytes: &[u8]) -> Result<bool, StoreError> {
        self.operation(|files| {
            let new = !files.contains_key(name);
            if new {
                files.insert(name.into(), bytes.into());
            }
            new
        })
    }

    fn list(&self, folder: &str) -> Result<Vec<Entry>, StoreError> {
        self.operation(|files| {
            let below =
                |name: &&String| folder.is_empty() || name.starts_with(&format!("{folder}/"));
            let entry = |name: &String| Entry {
                bytes: files[name].len() as u64,
                name: name.clone(),
                modified: None,
            };
            files.keys().filter(below).map(entry).collect()
        })
    }

    fn remove(&self, name: &str) -> Result<(), StoreError> {
        self.operation(|files| drop(files.remove(name)))
    }
}

pub(super) fn plan(prompts: usize, seeds: u64, methods: &[&str]) -> Plan {
    let prompt = |index: usize| SuitePrompt {
        prompt_id: format!("p{index:05}"),
        prompt: format!("a photo of thing {index}"),
        objects: vec!["thing".into()],
        relations: Vec::new(),
        counterpart: None,
        tags: Vec::new(),
        ..SuitePrompt::default()
    };
    let suite = Suite {
        name: "things".into(),
        version: "1".into(),
        prompts: (0..prompts).map(prompt).collect(),
        pictures_per_prompt: seeds as usize,
    };
    Plan {
        config: RunConfig {
            suite: suite.id().unwrap(),
            prompts,
            seeds: (0..seeds).collect(),
            methods: methods.iter().map(|name| name.parse().unwrap()).collect(),
            model: Some(crate::request::tests::request().model),
            sampling: Some(Sampling {
                steps: 1,
                guidance_scale: 1.0,
                guidance_steps: None,
                savings: crate::request::Savings::default(),
                timestep_spacing: None,
                scheduler: "ddim".into(),
                eta: None,
                width: 8,
                height: 8,
                negative_prompt: String::new(),
                noise: NoiseKind::Torch,
                clip_skip: 0,
                vae_tiling: false,
                pictures: Vec::new(),
            }),
            source: None,
            checker: None,
            judge: None,
            attention_maps: false,
            shard: None,
        },
        prompts: suite.prompts,
    }
}

/// A picture's colour, whatever its place in the plan.
fn pixel(sample_id: &str) -> u8 {
    sample_id
        .bytes()
        .fold(7, |sum: u8, byte| sum.wrapping_mul(31).wrapping_add(byte))
}

/// Makes small pictures, and counts them.
struct Stub<'a> {
    plan: &'a Plan,
    made: Vec<usize>,
    batch: usize,
}

impl Maker for Stub<'_> {
    fn make(&mut self, jobs: &[Job]) -> Result<Vec<Made>, RunError> {
        let jobs = &jobs[..jobs.len().min(self.batch)];
        self.made.extend(jobs.iter().map(|job| job.index));
        let one = |job: &Job| FinishedPicture {
            request: Request {
                prompt: self.plan.prompts[job.prompt].prompt.clone(),
                seed: job.seed,
                ..crate::request::tests::request()
            },
            scheduler: "ddim".into(),
            calls: 20,
            picture: Picture {
                width: 8,
                height: 8,
                rgb: vec![pixel(&self.plan.sample_id(*job)); 8 * 8 * 3],
            },
            maps: Vec::new(),
            cost: Cost::default(),
        };
        let made = jobs.iter().map(one).map(Box::new);
        Ok(made.map(Made::Here).collect())
    }
}

/// Makes pictures with maps of two objects of one name.
struct Twins<'a>(Stub<'a>);

impl Maker for Twins<'_> {
    fn make(&mut self, jobs: &[Job]) -> Result<Vec<Made>, RunError> {
        let map = |value: f32| HeatMap {
            width: 2,
            height: 2,
            values: vec![value, 0.0, 0.0, 0.0],
        };
        let maps = ObjectMaps {
            objects: vec!["Dog".into(), "dog".into()],
            steps: vec![0],
            maps: vec![vec![map(1.0), map(0.0)]],
        };
        let mut made = self.0.make(jobs)?;
        for one in &mut made {
            if let Made::Here(picture) = one {
                picture.maps.push(maps.clone());
            }
        }
        Ok(made)
    }
}

#[derive(Default)]
struct Count(usize);

impl Watcher for Count {
    fn finished(&mut self, _sample: &Sample) {
        self.0 += 1;
    }
}

/// Goes on with the run until it ends or something fails; the pictures that were made, and how many were finished.
fn go(store: Arc<dyn Store>, plan: &Plan) -> (Vec<usize>, usize, Result<(), RunError>) {
    let mut made = Vec::new();
    let mut count = Count::default();
    let run = || {
        let folder = RunFolder::claim(store, plan.clone())?;
        let mut stub = Stub {
            plan: folder.plan(),
            made: Vec::new(),
            batch: 3,
        };
        let runner = Runner {
            folder: &folder,
            examiner: &mut NoExaminer,
            watcher: &mut count,
            device: "stub".into(),
            stop: &AtomicBool::new(false),
        };
        let result = runner.run(&mut stub);
        made = stub.made;
        result
    };
    let result = run();
    (made, count.0, result)
}

/// The files of a run, without what tells when they were made.
fn files(store: &MemoryStore) -> BTreeMap<String, String> {
    let files = store.files.lock().unwrap();
    let text = |bytes: &Vec<u8>| String::from_utf8_lossy(bytes).into_owned();
    let blank = |text: String| {
        let lines = text
            .lines()
            .map(|line| match line.split_once("\"timestamp_utc\": \"") {
                Some((before, after)) => format!("{before}{}", &after[20..]),
                None => line.to_string(),
            });
        lines.collect::<Vec<_>>().join("\n")
    };
    // Digests tell of times too.
    let each = files.iter().filter(|(name, _)| *name != LEDGER);
    each.map(|(name, bytes)| (name.clone(), blank(text(bytes))))
        .collect()
}

/// The names of files that one has otherwise than the other.
fn differing<'a>(
    a: &'a BTreeMap<String, String>,
    b: &'a BTreeMap<String, String>,
) -> Vec<&'a String> {
    let names = a.keys().chain(b.keys());
    names.filter(|name| a.get(*name) != b.get(*name)).collect()
}

/// What is not as it was written, by a look at all of it.
fn damage(store: Arc<dyn Store>) -> Vec<String> {
    let damage = RunFolder::open(store).unwrap().damage(Look::Whole);
    damage.unwrap().iter().map(Damage::to_string).collect()
}

#[test]
fn whatever_fails_nothing_is_lost_or_made_twice() {
    let plan = plan(4, 2, &["prompt-only", "psg"]);
    let calm = Arc::new(MemoryStore::default());
    let (made, finished, result) = go(calm.clone(), &plan);
    result.unwrap();
    assert_eq!((made, finished), ((0..16).collect(), 16));
    let wanted = files(&calm);
    assert_eq!(
        wanted.keys().filter(|name| name.ends_with(".png")).count(),
        16
    );
    assert!(!wanted.keys().any(|name| name.contains("/samples/")));
    let manifest = &wanted["psg/manifest.jsonl"];
    assert_eq!(manifest.lines().count(), 8);
    assert!(manifest.starts_with(r#"{"sample_id": "psg_p00000_seed0000", "run_id": "psg""#));

    let operations = calm.operations.load(Ordering::Relaxed);
    assert!(operations > 60, "{operations}");
    let mut store = MemoryStore::default();
    for fails in 0..operations {
        store = MemoryStore {
            fails: Some(fails),
            ..MemoryStore::default()
        };
        let shared = Arc::new(store);
        let (first, _, result) = go(shared.clone(), &plan);
        assert!(result.is_err(), "{fails}");
        let left = Arc::try_unwrap(shared).ok().unwrap().files;
        let again = Arc::new(MemoryStore {
            files: left,
            ..MemoryStore::default()
        });
        let before = files(&again);
        let (second, ..) = go(again.clone(), &plan);
        assert_eq!(differing(&files(&again), &wanted), [""; 0], "{fails}");
        assert_eq!(damage(again.clone()), [""; 0], "{fails}");
        // Only what was under way is made again: two batches wait, one is looked at and one is made.
        let twice = second.iter().filter(|index| first.contains(index)).count();
        assert!(twice <= 4 * 3, "{fails}: {twice}");
        for (name, text) in before {
            if let Some((_, id)) = name.split_once("/samples/") {
                let mut made = second.iter().map(|index| plan.sample_id(plan.job(*index)));
                assert!(
                    made.all(|made| format!("{made}.json") != id),
                    "{fails}: {id} is made twice"
                );
                assert!(!text.is_empty());
            }
        }
        store = MemoryStore::default();
    }
    drop(store);
}

#[test]
fn maps_of_objects_of_one_name_are_all_kept() {
    let store = Arc::new(MemoryStore::default());
    let folder = RunFolder::claim(store.clone(), plan(1, 1, &["prompt-only"])).unwrap();
    let runner = Runner {
        folder: &folder,
        examiner: &mut NoExaminer,
        watcher: &mut Count::default(),
        device: "stub".into(),
        stop: &AtomicBool::new(false),
    };
    let stub = Stub {
        plan: folder.plan(),
        made: Vec::new(),
        batch: 3,
    };
    runner.run(&mut Twins(stub)).unwrap();
    assert!(folder.is_complete().unwrap());
    let files = files(&store);
    let maps: Vec<&String> = files
        .keys()
        .filter(|name| name.contains("/maps/"))
        .collect();
    let id = "prompt-only_p00000_seed0000";
    let expected = ["-dog-2", "-dog"].map(|end| format!("prompt-only/maps/{id}{end}.png"));
    assert_eq!(maps, expected.each_ref());
    assert_ne!(files[&expected[0]], files[&expected[1]]);
}

#[test]
fn other_settings_are_refused_and_named() {
    let store = Arc::new(MemoryStore::default());
    let first = plan(2, 1, &["prompt-only"]);
    go(store.clone(), &first).2.unwrap();
    let mut other = first.clone();
    other.config.sampling.as_mut().unwrap().steps = 30;
    other.config.methods.push("psg".parse::<Method>().unwrap());
    let before = files(&store);
    let error = go(store.clone(), &other).2.unwrap_err().to_string();
    assert!(
        error.ends_with("the same settings: steps: 1 there, 30 asked for"),
        "{error}"
    );
    assert_eq!(differing(&files(&store), &before), [""; 0]);
}

#[test]
fn lost_and_empty_pictures_are_made_again() {
    let plan = plan(3, 1, &["prompt-only"]);
    let store = Arc::new(MemoryStore::default());
    go(store.clone(), &plan).2.unwrap();
    let wanted = files(&store);
    store
        .remove("prompt-only/images/prompt-only_p00001_seed0000.png")
        .unwrap();
    store
        .put("prompt-only/images/prompt-only_p00002_seed0000.png", b"")
        .unwrap();
    let (made, _, result) = go(store.clone(), &plan);
    result.unwrap();
    assert_eq!(made, [1, 2]);
    assert_eq!(differing(&files(&store), &wanted), [""; 0]);
    assert_eq!(damage(store.clone()), [""; 0]);
    assert!(go(store, &plan).0.is_empty());
}

#[test]
fn two_copies_of_a_run_make_one() {
    let plan = plan(20, 1, &["prompt-only"]);
    let folder = tempfile::tempdir().unwrap();
    let finished: usize = std::thread::scope(|scope| {
        let copies: Vec<_> = (0..3)
            .map(|_| {
                let store = Arc::new(LocalStore::new(folder.path()));
                let plan = &plan;
                scope.spawn(move || {
                    let (_, finished, result) = go(store, plan);
                    result.unwrap();
                    finished
                })
            })
            .collect();
        copies.into_iter().map(|copy| copy.join().unwrap()).sum()
    });
    // One copy may fold what another then finds undone; each picture is there once.
    assert!(finished >= 20);
    assert_eq!(damage(Arc::new(LocalStore::new(folder.path()))), [""; 0]);
    let manifest =
        std::fs::read_to_string(folder.path().join("prompt-only/manifest.jsonl")).unwrap();
    assert_eq!(manifest.lines().count(), 20);
}

/// The bookkeeping of a run over all of VISOR's prompts; the pictures are of 8 × 8 pixels.
#[test]
fn bookkeeping_costs_little() {
    // In a process of its own: memory is counted by process, and other tests share this one.
    const ALONE: &str = "PREPOSE_TEST_ALONE";
    if std::env::var_os(ALONE).is_none() {
        let name = "suite::tests::bookkeeping_costs_little";
        let alone = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", name, "--nocapture"])
            .env(ALONE, "1")
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&alone.stderr);
        eprintln!("{said}");
        assert!(alone.status.success() && said.contains("ms a picture"));
        return;
    }
    let plan = plan(25_280, 1, &["prompt-only"]);
    let folder = tempfile::tempdir().unwrap();
    let before = resident();
    let started = Instant::now();
    go(Arc::new(LocalStore::new(folder.path())), &plan)
        .2
        .unwrap();
    let made = started.elapsed().as_secs_f64() * 1e3 / 25_280.0;
    let started = Instant::now();
    assert!(
        go(Arc::new(LocalStore::new(folder.path())), &plan)
            .0
            .is_empty()
    );
    let again = started.elapsed().as_secs_f64();
    let megabytes = (resident() - before) / 1e6;
    eprintln!(
        "{made:.3} ms a picture, {again:.1} s to find nothing to do, at most {megabytes:.0} MB"
    );
    // How long it takes is told and decides nothing: the machine may be busy. Alone a picture takes a third of 1 ms.
    assert!(megabytes < 200.0, "{megabytes} MB");
}

/// The most memory this process has had, in bytes; 0 where nobody tells.
fn resident() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<f64>().ok());
    kilobytes.unwrap_or(0.0) * 1024.0
}
