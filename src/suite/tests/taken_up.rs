//! Runs that are taken up again: grown, asked for less, and damaged.

use super::*;

#[test]
fn settings_and_prompts_that_were_changed_are_brought_back() {
    let store = Arc::new(MemoryStore::default());
    let plan = plan(2, 1, &["prompt-only"]);
    go(store.clone(), &plan).2.unwrap();
    let before = files(&store);
    for name in ["prompts.jsonl", "run.json"] {
        let bytes = store.get(name).unwrap().unwrap();
        let mut changed = bytes.clone();
        changed[bytes.len() / 2] ^= 1;
        for damaged in [&changed[..], b"", b"{}\n", &bytes[..20]] {
            store.put(name, damaged).unwrap();
            let named = self::damage(store.clone());
            assert!(named.len() == 1 && named[0].starts_with(name), "{named:?}");
            assert!(go(store.clone(), &plan).0.is_empty());
            assert_eq!(differing(&files(&store), &before), [""; 0]);
        }
        store.remove(name).unwrap();
        assert_eq!(damage(store.clone()), [format!("{name} (deleted)")]);
        assert!(go(store.clone(), &plan).0.is_empty());
        assert_eq!(differing(&files(&store), &before), [""; 0]);
    }
}

/// A run that has grown is like one that was as large from the beginning, whenever it was killed; what it had is not made
/// again.
#[test]
fn a_run_that_grows_is_as_if_it_had_been_so_large() {
    let small = plan(4, 2, &["prompt-only", "psg"]);
    let large = plan(6, 3, &["prompt-only", "boxdiff", "psg"]);
    let calm = Arc::new(MemoryStore::default());
    go(calm.clone(), &large).2.unwrap();
    let wanted = files(&calm);
    let begun = || {
        let store = Arc::new(MemoryStore::default());
        go(store.clone(), &small).2.unwrap();
        Arc::try_unwrap(store).ok().unwrap()
    };
    let mut store = begun();
    let from = store.operations.load(Ordering::Relaxed);
    store.fails = None;
    let grown = Arc::new(store);
    let (made, ..) = go(grown.clone(), &large);
    assert_eq!(made.len(), 6 * 3 * 3 - 4 * 2 * 2);
    assert_eq!(differing(&files(&grown), &wanted), [""; 0]);
    let to = grown.operations.load(Ordering::Relaxed);
    for fails in (from..to).step_by(7) {
        let mut store = begun();
        let before: BTreeMap<_, _> = store.files.lock().unwrap().clone();
        store.fails = Some(fails);
        let shared = Arc::new(store);
        assert!(go(shared.clone(), &large).2.is_err(), "{fails}");
        let again = Arc::new(MemoryStore {
            files: Arc::try_unwrap(shared).ok().unwrap().files,
            ..MemoryStore::default()
        });
        let (second, ..) = go(again.clone(), &large);
        assert_eq!(differing(&files(&again), &wanted), [""; 0], "{fails}");
        assert_eq!(damage(again.clone()), [""; 0], "{fails}");
        // The pictures that it had are the same files.
        for index in second {
            let job = large.job(index);
            let name = format!(
                "{}/images/{}.png",
                large.config.methods[job.method].name,
                large.sample_id(job)
            );
            assert!(!before.contains_key(&name), "{fails}: {name} is made again");
        }
    }
}

/// A command whose run is made larger while it goes on takes nothing from the one that made it so.
#[test]
fn what_is_added_meanwhile_is_kept() {
    let (small, large) = (
        plan(2, 1, &["prompt-only"]),
        plan(3, 2, &["psg", "prompt-only"]),
    );
    let calm = Arc::new(MemoryStore::default());
    go(calm.clone(), &large).2.unwrap();
    let wanted = files(&calm);
    // The other one is done before.
    let store = Arc::new(MemoryStore::default());
    let first = RunFolder::claim(store.clone(), small.clone()).unwrap();
    go(store.clone(), &large).2.unwrap();
    first.fold(0).unwrap();
    first.finish().unwrap();
    assert_eq!(differing(&files(&store), &wanted), [""; 0]);
    assert_eq!(damage(store), [""; 0]);

    // It has not made anything yet.
    struct Meanwhile<'a>(Stub<'a>, Arc<MemoryStore>, &'a Plan);
    impl Maker for Meanwhile<'_> {
        fn make(&mut self, jobs: &[Job]) -> Result<Vec<Made>, RunError> {
            RunFolder::claim(self.1.clone(), self.2.clone()).unwrap();
            self.0.make(jobs)
        }
    }
    let store = Arc::new(MemoryStore::default());
    let first = RunFolder::claim(store.clone(), small).unwrap();
    let runner = Runner {
        folder: &first,
        examiner: &mut NoExaminer,
        watcher: &mut Count::default(),
        device: "stub".into(),
        stop: &AtomicBool::new(false),
    };
    let stub = Stub {
        plan: first.plan(),
        made: Vec::new(),
        batch: 3,
    };
    let mut maker = Meanwhile(stub, store.clone(), &large);
    runner.run(&mut maker).unwrap();
    let of_first = files(&store);
    let samples = of_first.keys().filter(|name| name.contains("/samples/"));
    assert_eq!(samples.count(), 2);
    let (made, ..) = go(store.clone(), &large);
    assert_eq!(made.len(), 3 * 2 * 2 - 2);
    assert_eq!(differing(&files(&store), &wanted), [""; 0]);
    assert_eq!(damage(store), [""; 0]);
}

#[test]
fn a_run_that_is_asked_for_less_keeps_what_it_has() {
    let large = plan(3, 2, &["prompt-only", "psg"]);
    let store = Arc::new(MemoryStore::default());
    go(store.clone(), &large).2.unwrap();
    let before = files(&store);
    let small = plan(2, 1, &["psg"]);
    assert!(go(store.clone(), &small).0.is_empty());
    assert_eq!(differing(&files(&store), &before), [""; 0]);
    // Another method for some of the prompts alone: only they are made, and the run is whole where it was.
    let one = plan(1, 1, &["boxdiff"]);
    assert_eq!(go(store.clone(), &one).0.len(), 1);
    assert_eq!(damage(store.clone()), [""; 0]);
    let now = files(&store);
    for (name, text) in &before {
        assert!(name == "run.json" || now[name] == *text, "{name}");
    }
    let rest = plan(3, 2, &["boxdiff"]);
    assert_eq!(go(store.clone(), &rest).0.len(), 5);
    assert_eq!(files(&store)["boxdiff/manifest.jsonl"].lines().count(), 6);
    assert_eq!(damage(store), [""; 0]);
}

#[test]
fn whatever_is_damaged_is_named_and_made_again() {
    let plan = plan(2, 2, &["prompt-only"]);
    let store = Arc::new(MemoryStore::default());
    go(store.clone(), &plan).2.unwrap();
    let before = files(&store);
    let whole: BTreeMap<_, _> = store.files.lock().unwrap().clone();
    for (name, bytes) in whole.iter().filter(|(name, _)| *name != LEDGER) {
        let mut flipped = bytes.clone();
        flipped[bytes.len() / 3] ^= 1;
        let longer = [&bytes[..], b"x"].concat();
        for (damaged, what) in [
            (Some(flipped), "changed"),
            (Some(bytes[..bytes.len() / 2].to_vec()), "cut"),
            (Some(Vec::new()), "emptied"),
            (Some(longer), "longer"),
            (Some(vec![0; bytes.len()]), "changed"),
            (None, "deleted"),
        ] {
            *store.files.lock().unwrap() = whole.clone();
            match damaged {
                Some(damaged) => store.put(name, &damaged).unwrap(),
                None => store.remove(name).unwrap(),
            }
            assert_eq!(damage(store.clone()), [format!("{name} ({what})")]);
            go(store.clone(), &plan).2.unwrap();
            assert_eq!(differing(&files(&store), &before), [""; 0], "{name} {what}");
            assert_eq!(damage(store.clone()), [""; 0], "{name} {what}");
            let now = store.files.lock().unwrap().clone();
            let same = |(name, bytes): (&String, &Vec<u8>)| name == LEDGER || now[name] == *bytes;
            assert!(whole.iter().all(same), "{name} {what}");
        }
    }
    // The ledger itself.
    *store.files.lock().unwrap() = whole.clone();
    store.put(LEDGER, b"").unwrap();
    assert_eq!(damage(store.clone()), [format!("{LEDGER} (emptied)")]);
    go(store.clone(), &plan).2.unwrap();
    assert_eq!(damage(store.clone()), [""; 0]);
    assert_eq!(differing(&files(&store), &before), [""; 0]);
}

/// Files of an unfinished run.
#[test]
fn whatever_is_damaged_before_a_method_is_complete_is_named_and_made_again() {
    let plan = plan(2, 2, &["prompt-only"]);
    let store = Arc::new(MemoryStore::default());
    let folder = RunFolder::claim(store.clone(), plan.clone()).unwrap();
    let runner = |stop: &AtomicBool, maker: &mut dyn Maker| {
        let runner = Runner {
            folder: &folder,
            examiner: &mut NoExaminer,
            watcher: &mut Count::default(),
            device: "stub".into(),
            stop,
        };
        runner.run(maker)
    };
    let stop = AtomicBool::new(false);
    struct Once<'a>(Stub<'a>, &'a AtomicBool);
    impl Maker for Once<'_> {
        fn make(&mut self, jobs: &[Job]) -> Result<Vec<Made>, RunError> {
            self.1.store(true, Ordering::Relaxed);
            self.0.make(jobs)
        }
    }
    let stub = Stub {
        plan: &plan,
        made: Vec::new(),
        batch: 3,
    };
    runner(&stop, &mut Once(stub, &stop)).unwrap_err();
    let whole: BTreeMap<_, _> = store.files.lock().unwrap().clone();
    assert_eq!(
        whole
            .keys()
            .filter(|name| name.contains("/samples/"))
            .count(),
        3
    );
    assert_eq!(damage(store.clone()), [""; 0]);
    for (name, bytes) in whole.iter().filter(|(name, _)| name.contains('/')) {
        let mut flipped = bytes.clone();
        flipped[bytes.len() / 3] ^= 1;
        let folder = |name: &String| name.rsplit_once('/').map(|(folder, _)| folder.to_string());
        let other = whole
            .iter()
            .find(|(other, _)| *other != name && folder(other) == folder(name));
        for damaged in [
            flipped,
            bytes[..bytes.len() / 2].to_vec(),
            Vec::new(),
            other.unwrap().1.clone(),
        ] {
            *store.files.lock().unwrap() = whole.clone();
            store.put(name, &damaged).unwrap();
            let named = damage(store.clone());
            assert!(
                named.len() == 1 && named[0].starts_with(name),
                "{name}: {named:?}"
            );
            assert_eq!(go(store.clone(), &plan).0.len(), 2, "{name}");
            assert_eq!(damage(store.clone()), [""; 0], "{name}");
        }
    }
}
