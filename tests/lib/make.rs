//! The one way to make pictures: batches, searches, attention maps, cancellation, and memory that runs out.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::atomic::AtomicBool;

use prepose::attention_maps::{AttentionMaps, Half, MapSelection};
use prepose::device;
use prepose::engine::{Blueprint, Engine, EngineError};
use prepose::guidance::maps::LayerRule;
use prepose::make::{MakeError, MapOptions, PictureMaker, PictureWriter, check};
use prepose::output::manifest::ManifestLine;
use prepose::output::png::read_request;
use prepose::request::{
    DeepCache, DelayedOrder, Dtype, ModelRequest, Pruning, Request, RewardKind, Savings,
    SearchConfig,
};
use prepose::sampling::StepRange;
use prepose::sampling::denoise::{Hook, HookError, State};
use prepose::search::{Scorer, Search, unet_calls};

fn model() -> ModelRequest {
    ModelRequest::new("toybox", Dtype::F32)
}

fn engine() -> Engine {
    let device = device::open("flex".parse().unwrap()).unwrap();
    let blueprint = Blueprint::open(&model()).unwrap();
    blueprint.load(&model(), &device).unwrap()
}

/// Small pictures of a prompt in few steps, one for each seed.
fn requests(engine: &Engine, prompt: &str, seeds: std::ops::Range<u64>) -> Vec<Request> {
    let one = Request {
        steps: 2,
        width: 64,
        height: 64,
        ..engine.blueprint().request(prompt, &model())
    };
    seeds
        .map(|seed| Request {
            seed,
            ..one.clone()
        })
        .collect()
}

const PROMPT: &str = "a dog to the left of a cat";

fn best_of(best_of: usize, reward: RewardKind) -> SearchConfig {
    SearchConfig {
        best_of,
        reward,
        pruning: None,
    }
}

#[test]
fn batches_are_the_engines() {
    let engine = engine();
    let mut all = requests(&engine, PROMPT, 0..3);
    // Another size does not fit into the same batch.
    all.push(Request {
        width: 128,
        ..all[0].clone()
    });
    let mut maker = PictureMaker::new(&engine, 2);
    let (mut sizes, mut pictures) = (Vec::new(), Vec::new());
    while pictures.len() < all.len() {
        let batch = maker.make(&all[pictures.len()..], None, &mut []).unwrap();
        assert_eq!(batch.requests, batch.pictures.len());
        sizes.push(batch.requests);
        pictures.extend(batch.pictures);
    }
    assert_eq!(sizes, [2, 1, 1]);
    for (made, request) in pictures.iter().zip(&all) {
        let alone = engine
            .generate(std::slice::from_ref(request), &mut [])
            .unwrap();
        let (made_rgb, alone_rgb) = (&made.picture.rgb, &alone.pictures[0].rgb);
        let apart = made_rgb.iter().zip(alone_rgb).map(|(a, b)| a.abs_diff(*b));
        assert!(apart.max() <= Some(1));
        assert_eq!(made.request, *request);
        assert_eq!((made.cost.unet_calls, made.cost.candidates), (2, 1));
        assert!(made.maps.is_empty() && !made.scheduler.is_empty());
    }
    let none = maker.make(&[], None, &mut []).unwrap();
    assert_eq!((none.requests, none.pictures.len()), (0, 0));
}

#[test]
fn a_search_keeps_the_best_or_all_with_maps_of_the_best() {
    let engine = engine();
    let one = requests(&engine, PROMPT, 7..8);
    let search = best_of(3, RewardKind::Attention);
    let make = |keeps_all| {
        let mut maker = PictureMaker::new(&engine, 2)
            .keeping_all(keeps_all)
            .with_maps(Some(MapOptions::default()));
        maker.make(&one, Some(&search), &mut []).unwrap()
    };
    let (best, all) = (make(false), make(true));
    assert_eq!((best.pictures.len(), all.pictures.len()), (1, 3));
    assert_eq!(best.pictures[0].picture, all.pictures[0].picture);
    assert_eq!(all.unet_calls, 6);
    let found: Vec<_> = (all.pictures.iter())
        .map(|made| made.request.found.clone().unwrap())
        .collect();
    assert!(
        found
            .iter()
            .zip(1..)
            .all(|(found, rank)| found.rank == rank && found.seed == 7)
    );
    assert!(found.windows(2).all(|pair| pair[0].score >= pair[1].score));
    assert_eq!(all.pictures[0].maps[0].objects, ["dog", "cat"]);
    assert!(all.pictures[1].maps.is_empty());
}

/// A request that runs `delay` steps of `steps` with another prompt.
fn delayed(blueprint: &Blueprint, delay: usize, steps: usize) -> Request {
    let delay = DelayedOrder {
        neutral_prompt: "two animals".into(),
        steps: delay,
    };
    Request {
        steps,
        width: 64,
        height: 64,
        delay_order: Some(delay),
        ..blueprint.request(PROMPT, &model())
    }
}

#[test]
fn candidates_are_dropped_only_when_attention_has_seen_the_final_prompt() {
    let engine = engine();
    let blueprint = engine.blueprint();
    let pruned = |best, reward, pruning| SearchConfig {
        pruning: Some(pruning),
        ..best_of(best, reward)
    };
    let refused = |reward, after: &[usize]| {
        let search = pruned(32, reward, Pruning::After(after.to_vec()));
        let mut request = delayed(blueprint, 8, 20);
        let error = check(blueprint, &mut request, Some(&search), None).err();
        error.map(|error| error.to_string())
    };
    // Steps 0 to 7 have the neutral prompt, so that the ninth step is the first with a score.
    let said = refused(RewardKind::Attention, &[3, 12]).unwrap();
    assert!(
        said.contains("after step 3:") && said.contains("step 9 or later"),
        "{said}"
    );
    assert!(refused(RewardKind::Attention, &[8]).is_some());
    assert_eq!(refused(RewardKind::Attention, &[9, 12]), None);
    assert_eq!(refused(RewardKind::Checker, &[3]), None);

    // Of the rounds after 3, 5 and 8 of 20 steps those are left that can see.
    let auto = pruned(32, RewardKind::Attention, Pruning::Auto);
    let calls = |delay| unet_calls(blueprint, &delayed(blueprint, delay, 20), &auto).unwrap();
    assert_eq!(calls(8), 32 * 20);
    assert_eq!(calls(4), 32 * 5 + 16 * 3 + 8 * 12);

    // Of 4 steps, after 1 and 2.
    let auto = pruned(4, RewardKind::Attention, Pruning::Auto);
    let mut maker = PictureMaker::new(&engine, 4);
    for (delay, calls) in [(1, 4 * 2 + 2 * 2), (2, 4 * 4)] {
        let one = [delayed(blueprint, delay, 4)];
        let made = maker.make(&one, Some(&auto), &mut []).unwrap();
        assert_eq!(made.unet_calls, calls, "{delay}");
        let scored = |candidate: &prepose::search::Candidate| candidate.score.is_finite();
        assert!(made.candidates.iter().all(scored), "{delay}");
    }
}

#[test]
fn maps_are_those_of_steps_with_the_final_prompt() {
    let engine = engine();
    let blueprint = engine.blueprint();
    let every = |every| MapOptions {
        selection: MapSelection {
            every,
            ..MapSelection::default()
        },
        ..MapOptions::default()
    };
    let one = [delayed(blueprint, 2, 5)];
    for (every_steps, seen) in [(1, vec![2, 3, 4]), (2, vec![2, 4])] {
        let options = every(every_steps);
        options.check(blueprint, &one[0]).unwrap();
        let mut maker = PictureMaker::new(&engine, 1).with_maps(Some(options));
        let made = maker.make(&one, None, &mut []).unwrap();
        assert_eq!(made.pictures[0].maps[0].steps, seen);
        assert_eq!(made.pictures[0].maps[0].mean().len(), 2);
    }
    // Of every fifth step the first alone, which has the neutral prompt.
    let refused = every(5).check(blueprint, &one[0]).unwrap_err().to_string();
    assert!(refused.contains("once every 5 steps"), "{refused}");
}

#[test]
fn heads_that_no_layer_has_are_refused_and_those_that_one_has_are_not() {
    let engine = engine();
    let blueprint = engine.blueprint();
    let one = requests(&engine, PROMPT, 0..1).remove(0);
    let check = |heads: Vec<usize>, layers: LayerRule| {
        let options = MapOptions {
            selection: MapSelection {
                heads: Some(heads),
                layers,
                ..MapSelection::default()
            },
            ..MapOptions::default()
        };
        options.check(blueprint, &one)
    };
    let unet = blueprint.checkpoint().unet_config().unwrap();
    let layers = unet.cross_attention_layers(8, 8).unwrap();
    let of = |block: &str| {
        let of = layers.iter().filter(|layer| layer.name.starts_with(block));
        of.map(|layer| layer.heads).max().unwrap()
    };
    let (all, middle) = (of(""), of("mid_block"));
    let named = |name: &str| LayerRule::Named(vec![name.to_owned()]);
    let default = MapSelection::default().layers;
    check(vec![all, 0], default.clone()).unwrap();
    check(vec![all - 1], LayerRule::Named(Vec::new())).unwrap();
    check(vec![middle - 1], named("mid_block")).unwrap();
    for (heads, layers, there) in [
        (vec![all], default, None),
        (vec![all, all + 7], LayerRule::Named(Vec::new()), Some(all)),
        (vec![middle], named("mid_block"), Some(middle)),
    ] {
        let refused = check(heads, layers).unwrap_err().to_string();
        let last = there.map_or_else(String::new, |there| format!("heads 0 to {};", there - 1));
        assert!(
            refused.contains("--attention-heads") && refused.contains(&last),
            "{refused}"
        );
    }
}

#[test]
fn pictures_are_kept_where_no_step_has_maps() {
    let engine = engine();
    let blueprint = engine.blueprint();
    // Steps 0 and 1 have the neutral prompt. The network is whole in steps 0, 2 and 4.
    let one = [Request {
        savings: Savings {
            deep_cache: Some(DeepCache {
                every: 2,
                branch: 0,
            }),
            ..Savings::default()
        },
        ..delayed(blueprint, 2, 5)
    }];
    let options = MapOptions {
        selection: MapSelection {
            every: 3,
            ..MapSelection::default()
        },
        ..MapOptions::default()
    };
    options.check(blueprint, &one[0]).unwrap();
    for search in [None, Some(best_of(2, RewardKind::Attention))] {
        let mut maker = PictureMaker::new(&engine, 2).with_maps(Some(options.clone()));
        let made = maker.make(&one, search.as_ref(), &mut []).unwrap();
        assert_eq!(made.pictures.len(), 1);
        assert!(made.pictures[0].maps.is_empty());
    }
}

/// Maps of the negative half.
fn negative_half(words: &[&str], every: usize) -> MapOptions {
    MapOptions {
        selection: MapSelection {
            half: Half::Negative,
            every,
            ..MapSelection::default()
        },
        words: words.iter().map(|word| (*word).to_string()).collect(),
    }
}

/// A request that names a cat in its negative prompt from its third step of five on; the prompt names one elsewhere.
fn without_a_cat(engine: &Engine) -> Request {
    Request {
        negative_prompt: "[blurry:a cat:2]".into(),
        steps: 5,
        guidance_scale: 3.0,
        ..requests(engine, PROMPT, 0..1).remove(0)
    }
}

#[test]
fn maps_of_the_negative_half_are_of_its_own_words() {
    let engine = engine();
    let one = [without_a_cat(&engine)];
    let options = negative_half(&["cat"], 1);
    options.check(engine.blueprint(), &one[0]).unwrap();
    let mut hook = AttentionMaps::new(options.selection.clone());
    engine.latents(&one, &mut [&mut hook]).unwrap();
    let mut maker = PictureMaker::new(&engine, 1).with_maps(Some(options));
    let made = maker.make(&one, None, &mut []).unwrap();
    let maps = &made.pictures[0].maps[0];
    assert_eq!(maps.objects, ["cat"]);
    assert_eq!(maps.steps, [2, 3, 4]);
    let seen = hook.into_steps();
    assert_eq!(seen.len(), 3);
    for (step, shown) in seen.iter().zip(&maps.maps) {
        // After the start token and "a".
        let cat = step.groups[0].maps.clone().narrow(3, 2, 1).to_data();
        let pairs = cat.iter::<f32>().zip(&shown[0].values);
        assert!(pairs.map(|(a, b)| (a - b).abs()).fold(0f32, f32::max) < 1e-6);
    }
}

#[test]
fn maps_of_a_negative_half_that_is_not_there_are_refused() {
    let engine = engine();
    let one = without_a_cat(&engine);
    let refused = |options: MapOptions, request: &Request, says: &str| {
        let error = options.check(engine.blueprint(), request).unwrap_err();
        assert!(error.to_string().contains(says), "{error}");
    };
    // The negative prompt has no objects, and a dog is in the prompt alone.
    refused(negative_half(&[], 1), &one, "--attention-words");
    refused(
        negative_half(&["dog"], 1),
        &one,
        "not in the negative prompt",
    );
    let cat = |every| negative_half(&["cat"], every);
    let unguided = Request {
        guidance_scale: 1.0,
        ..one.clone()
    };
    refused(cat(1), &unguided, "--guidance-scale above 1");
    let early = Request {
        guidance_steps: Some(StepRange {
            first: 0,
            last: Some(1),
        }),
        ..one.clone()
    };
    refused(cat(1), &early, "--guidance-steps");
    // The first step alone, which has the other negative prompt.
    refused(cat(5), &one, "once every 5 steps");
}

#[test]
fn what_a_reward_cannot_score_is_refused() {
    let engine = engine();
    let labels = ["dog".to_string(), "cat".to_string()];
    let refused = |prompt: &str, reward| {
        let mut one = requests(&engine, prompt, 0..1).remove(0);
        let search = best_of(2, reward);
        let error = check(engine.blueprint(), &mut one, Some(&search), Some(&labels));
        matches!(error, Err(MakeError::Reward { prompt: named, .. }) if named == prompt)
    };
    for reward in [RewardKind::Checker, RewardKind::Pse] {
        assert!(refused("a dog near a cat", reward));
        assert!(refused("a dog behind a cat", reward));
        assert!(refused("a dog to the left of a bus", reward));
        assert!(!refused(PROMPT, reward));
    }
    let one = requests(&engine, PROMPT, 0..1);
    let search = best_of(2, RewardKind::Checker);
    let error = PictureMaker::new(&engine, 1).make(&one, Some(&search), &mut []);
    assert!(matches!(error, Err(MakeError::NoJudge)));
}

/// Fails as CubeCL does when an allocation is refused, for batches of more than two.
struct Greedy;

impl Hook for Greedy {
    fn before_unet(&mut self, state: &mut State) -> Result<(), HookError> {
        if state.latents().dims()[0] > 2 {
            panic!("out of device memory allocating 1073741824 bytes\n  0: backtrace");
        }
        Ok(())
    }
}

#[test]
fn memory_that_runs_out_halves_the_batch() {
    prepose::memory::silence_panics();
    let engine = engine();
    let five = requests(&engine, PROMPT, 0..5);
    let mut maker = PictureMaker::new(&engine, 5);
    let made = maker.make(&five, None, &mut [&mut Greedy]).unwrap();
    assert_eq!((made.requests, maker.batch()), (2, 2));
    let search = best_of(4, RewardKind::Attention);
    let mut maker = PictureMaker::new(&engine, 16);
    let made = maker
        .make(&five, Some(&search), &mut [&mut Greedy])
        .unwrap();
    assert_eq!((made.requests, made.unet_calls, maker.batch()), (1, 8, 2));
    let mut maker = PictureMaker::new(&engine, 5).without_halving();
    let error = maker.make(&five, None, &mut [&mut Greedy]).err().unwrap();
    assert!(matches!(&error, MakeError::Engine(short) if short.out_of_memory().is_some()));
}

/// Scores candidates by nothing, and counts itself.
struct Counted {
    rows: usize,
    alive: Rc<Cell<usize>>,
    fails: bool,
}

impl Hook for Counted {
    fn retain(&mut self, keep: &[usize]) {
        self.rows = keep.len();
    }
}

impl Scorer for Counted {
    fn scores(&mut self) -> Result<Vec<f64>, HookError> {
        // As a tensor that is read from a GPU whose memory ran out.
        assert!(!self.fails, "out of device memory allocating 64 bytes");
        Ok(vec![0.0; self.rows])
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.alive.set(self.alive.get() - 1);
    }
}

/// The most batches that a search kept at a time.
fn kept_batches(engine: &Engine, search: &SearchConfig, fails: bool) -> Result<usize, EngineError> {
    let one = requests(engine, PROMPT, 0..1).remove(0);
    let search = Search {
        engine,
        request: &one,
        config: search,
        batch: 2,
    };
    let (alive, most) = (Rc::new(Cell::new(0)), Cell::new(0));
    let scorer = |requests: &[Request]| {
        alive.set(alive.get() + 1);
        most.set(most.get().max(alive.get()));
        Ok(Counted {
            rows: requests.len(),
            alive: alive.clone(),
            fails,
        })
    };
    let found = search.run(scorer, &mut [])?;
    assert_eq!(found.latents.dims()[0], found.finished.len());
    Ok(most.get())
}

#[test]
fn of_a_batch_whose_candidates_are_finished_only_these_are_kept() {
    let engine = engine();
    let plain = best_of(6, RewardKind::Judge);
    assert_eq!(kept_batches(&engine, &plain, false).unwrap(), 1);
    let pruned = SearchConfig {
        pruning: Some(Pruning::After(vec![1])),
        ..plain
    };
    assert_eq!(kept_batches(&engine, &pruned, false).unwrap(), 3);
}

#[test]
fn memory_that_runs_out_where_candidates_are_scored_is_an_error_that_says_so() {
    prepose::memory::silence_panics();
    let engine = engine();
    let error = kept_batches(&engine, &best_of(2, RewardKind::Judge), true).unwrap_err();
    assert!(error.out_of_memory().is_some(), "{error}");
}

#[test]
fn a_search_tells_the_rows_of_all_its_candidates() {
    let engine = engine();
    let one = Request {
        steps: 4,
        savings: Savings {
            deep_cache: Some(DeepCache {
                every: 2,
                branch: 0,
            }),
            ..Savings::default()
        },
        ..requests(&engine, PROMPT, 0..1).remove(0)
    };
    let rows = |search: Option<&SearchConfig>| {
        let mut maker = PictureMaker::new(&engine, 2);
        let one = std::slice::from_ref(&one);
        let made = maker.make(one, search, &mut []).unwrap();
        made.pictures[0].cost.rows.unwrap()
    };
    // Both halves of two steps of each kind.
    assert_eq!(rows(None), [4, 4]);
    let plain = best_of(3, RewardKind::Attention);
    assert_eq!(rows(Some(&plain)), [12, 12]);
    // Of four candidates two are left after two steps.
    let pruned = SearchConfig {
        pruning: Some(Pruning::After(vec![2])),
        ..best_of(4, RewardKind::Attention)
    };
    assert_eq!(rows(Some(&pruned)), [4 * 2 + 2 * 2, 4 * 2 + 2 * 2]);
}

#[test]
fn a_flag_cancels() {
    let engine = engine();
    let one = requests(&engine, PROMPT, 0..1);
    let cancel = AtomicBool::new(true);
    let mut maker = PictureMaker::new(&engine, 1).with_cancel(&cancel);
    let error = maker.make(&one, None, &mut []).err().unwrap();
    assert!(matches!(error, MakeError::Cancelled));
    cancel.store(false, std::sync::atomic::Ordering::Relaxed);
    assert!(maker.make(&one, None, &mut []).is_ok());
}

#[test]
fn pictures_are_written_with_their_provenance() {
    let engine = engine();
    let one = requests(&engine, PROMPT, 3..4);
    let hash = engine.blueprint().fingerprint();
    let mut maker = PictureMaker::new(&engine, 1).with_fingerprint(hash);
    let made = maker.make(&one, None, &mut []).unwrap().pictures.remove(0);
    assert_eq!(
        made.request.model.sha256.as_ref().map(String::len),
        Some(64)
    );
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.png");
    let writer = PictureWriter::new("flex (a CPU)", None, None);
    writer.save(&made, &path).unwrap();
    assert_eq!(read_request(&path).unwrap(), made.request);
    let manifest = std::fs::read_to_string(folder.path().join("manifest.jsonl")).unwrap();
    let line: ManifestLine = serde_json::from_str(&manifest).unwrap();
    assert_eq!(
        (line.image_path.as_str(), line.gen_params.seed),
        ("a.png", 3)
    );
    assert_eq!(line.code_version.burn.split('.').count(), 3);
    assert_eq!(line.model.revision, made.request.model.sha256);
}
