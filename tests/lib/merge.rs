//! Shards with pictures from nowhere, joined: the result is what an undivided run writes, and whatever is wrong with a shard
//! is said.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use prepose::check::spatialbench::read_records;
use prepose::judge::book::{Book, Entry, entries};
use prepose::output::manifest::ManifestLine;
use prepose::prompt::scene::StatedRelation;
use prepose::store::ledger::{LEDGER, Look};
use prepose::store::{LocalStore, Store, StoreError};
use prepose::suite::Suite;
use prepose::suite::SuitePrompt;
use prepose::suite::folder::RunFolder;
use prepose::suite::merge::{MergeError, Merged, Why, find, merge};
use prepose::suite::plan::{Job, Plan, RunConfig};
use prepose::suite::sample::{Sample, Scores};
use serde_json::json;

const RECORD: &str = r#"{"sample_id": "s0", "prompt_id": "p", "relation": "left_of", "object_a": "cat", "object_b": "dog", "verdict_raw": "PASS", "verdict_reason": null, "conf": 0.5, "conf_components": {"detection": 0.9, "geometry": 1.0, "stability": 0.75, "agreement": 1.0}, "detectors": {"primary": {"type": "fasterrcnn", "detections": [{"label": "cat", "score": 0.9, "box_xyxy": [0.0, 100.0, 100.0, 200.0]}]}}, "selected": {"box_a_xyxy": [0.0, 100.0, 100.0, 200.0], "box_b_xyxy": [300.0, 100.0, 400.0, 200.0], "score_a": 0.9, "score_b": 0.9}, "geometry": {"delta": -0.5859375, "margin": 0.1, "iou_ab": 0.0}, "overlay_path": null}"#;

/// Two methods, three prompts (one neutral, one with two relations), two seeds: twelve pictures.
fn plan(shard: Option<&str>) -> Plan {
    let prompt = |id: &str, relations: usize| SuitePrompt {
        prompt_id: id.into(),
        prompt: format!("a cat and a dog, {id}"),
        objects: vec!["cat".into(), "dog".into()],
        relations: vec![StatedRelation::of_two(0, "left of".parse().unwrap(), 1); relations],
        counterpart: None,
        tags: Vec::new(),
        ..SuitePrompt::default()
    };
    let suite = Suite {
        name: "tiny".into(),
        version: "1".into(),
        prompts: vec![prompt("p1", 1), prompt("p2", 2), prompt("p3", 0)],
        pictures_per_prompt: 2,
    };
    let config = json!({
        "suite": suite.id().unwrap(),
        "prompts": 3,
        "seeds": [0, 7],
        "methods": [{"name": "plain"}, {"name": "other"}],
        "model": {"checkpoint": "none", "dtype": "f32"},
        "sampling": {
            "steps": 20, "guidance_scale": 7.5, "scheduler": "ddim", "width": 64, "height": 64, "negative_prompt": "",
            "noise": "torch", "clip_skip": 0, "vae_tiling": false,
        },
        "checker": {"sha256": "0", "secondary_sha256": null, "config": ["a: 1"]},
        "shard": shard,
    });
    Plan {
        config: serde_json::from_value::<RunConfig>(config).unwrap(),
        prompts: suite.prompts,
    }
}

fn sample(plan: &Plan, index: usize) -> Sample {
    let job = plan.job(index);
    let prompt = &plan.prompts[job.prompt];
    let sample_id = plan.sample_id(job);
    let manifest = json!({
        "sample_id": sample_id, "run_id": "r", "prompt_id": prompt.prompt_id,
        "image_path": format!("images/{sample_id}.png"),
        "model": {"pipeline": "p", "model_id": "none", "revision": null},
        "gen_params": {
            "seed": job.seed, "height": 64, "width": 64, "num_inference_steps": 20, "guidance_scale": 0.1 + index as f64,
            "scheduler": "ddim", "negative_prompt": null,
        },
        "prompt": prompt.prompt, "relation": null, "object_a": null, "object_b": null,
        "timestamp_utc": "2026-01-01T00:00:00Z",
        "code_version": {"prepose": "0", "burn": "0", "device": "flex", "git_commit": null},
    });
    let mut records = Vec::new();
    for number in 0..prompt.relations.len() {
        let mut record = read_records(RECORD).unwrap().remove(0);
        record.sample_id = match prompt.relations.len() {
            1 => sample_id.clone(),
            _ => format!("{sample_id}_relation{number}"),
        };
        record.conf = 0.1 * index as f64;
        records.push(record);
    }
    Sample {
        index,
        manifest: serde_json::from_value::<ManifestLine>(manifest).unwrap(),
        records,
        scores: Scores {
            sample_id,
            prompt_id: prompt.prompt_id.clone(),
            seed: job.seed,
            ..Scores::default()
        },
    }
}

/// Writes down a picture.
fn commit(run: &RunFolder, job: Job, sample: &Sample) {
    let id = run.plan().sample_id(job);
    let files = [
        (
            format!("images/{id}.png"),
            format!("picture of {id}").into_bytes(),
        ),
        (format!("maps/{id}-cat.png"), b"map".to_vec()),
    ];
    run.commit(job, &files, sample).unwrap();
}

/// Makes the first `jobs` pictures of each method of a run or shard, and folds what is complete.
fn make(folder: &Path, plan: Plan, jobs: usize) -> RunFolder {
    make_methods(folder, plan, jobs, 2)
}

fn make_methods(folder: &Path, plan: Plan, jobs: usize, methods: usize) -> RunFolder {
    let run = RunFolder::claim(Arc::new(LocalStore::new(folder)), plan).unwrap();
    for method in 0..methods {
        for job in run.plan().jobs(method).take(jobs) {
            commit(&run, job, &sample(run.plan(), job.index));
        }
        if run.pending(method).unwrap().is_empty() {
            run.fold(method).unwrap();
        }
    }
    let note = format!("provenance/{}.json", run.plan().len());
    run.store().put(&note, b"{}").unwrap();
    run
}

fn shards(folder: &Path, count: usize) {
    for index in 0..count {
        let plan = plan(Some(&format!("{index}/{count}")));
        let shard = plan.config.shard.unwrap();
        make(&folder.join(shard.folder()), plan, 100);
    }
}

fn join(from: &[&Path], out: &Path) -> Result<Merged, MergeError> {
    let locations: Vec<_> = from.iter().map(|path| path.display().to_string()).collect();
    merge(
        find(&locations)?,
        Arc::new(LocalStore::new(out)),
        &|_, _| {},
    )
}

/// All files of a run but its provenance, the times in its metrics left out.
fn contents(folder: &Path) -> BTreeMap<String, String> {
    let store = LocalStore::new(folder);
    let names = store.list("").unwrap().into_iter().map(|entry| entry.name);
    let names = names.filter(|name| {
        !name.starts_with("provenance/") && !name.starts_with("shard-") && name != LEDGER
    });
    names
        .map(|name| {
            let text = String::from_utf8(store.get(&name).unwrap().unwrap()).unwrap();
            let lines = text
                .lines()
                .filter(|line| !line.contains("timestamp_utc\": \"20") || name.ends_with("l"));
            let text = lines.collect::<Vec<_>>().join("\n");
            (name, text)
        })
        .collect()
}

fn assert_same(a: &Path, b: &Path) {
    let (a, b) = (contents(a), contents(b));
    assert!(a.keys().eq(b.keys()), "{:?}\n{:?}", a.keys(), b.keys());
    for (name, text) in a {
        assert_eq!(text, b[&name], "{name}");
    }
}

#[test]
fn joined_shards_are_the_undivided_run() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    make(&path("whole"), plan(None), 100);
    // With as many shards as pictures, and more, too.
    for count in [2, 3, 5, 12, 13] {
        let (run, out) = (path(&format!("run{count}")), path(&format!("out{count}")));
        shards(&run, count);
        let merged = join(&[&run], &out).unwrap();
        assert_eq!((merged.shards, merged.pictures), (count, 12));
        assert_eq!(merged.copied, 24 + count);
        assert_same(&out, &path("whole"));
        // Nothing to do a second time.
        assert_eq!(join(&[&run], &out).unwrap().copied, 0);
        assert_same(&out, &path("whole"));
    }
    let names = fs::read_dir(path("out2/provenance")).unwrap();
    let mut names: Vec<_> = names.map(|e| e.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(
        names,
        ["shard-000-of-002-12.json", "shard-001-of-002-12.json"]
    );
}

#[test]
fn joining_goes_on_where_it_stopped() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    make(&folder.path().join("whole"), plan(None), 100);
    shards(&run, 2);
    // Into the run's own folder, beside the shards.
    assert_eq!(join(&[&run], &run).unwrap().copied, 26);
    fs::remove_file(run.join("plain/images/plain_p2_seed0007.png")).unwrap();
    // A store that copies may leave a part, where linking leaves all.
    let half = run.join("plain/images/plain_p3_seed0000.png");
    fs::remove_file(&half).unwrap();
    fs::write(&half, "half").unwrap();
    fs::remove_file(run.join("other/manifest.jsonl")).unwrap();
    fs::remove_dir_all(run.join("plain/eval")).unwrap();
    assert_eq!(join(&[&run], &run).unwrap().copied, 2);
    assert_same(&run, &folder.path().join("whole"));
}

#[cfg(unix)]
#[test]
fn pictures_are_linked() {
    use std::os::unix::fs::MetadataExt;
    let folder = tempfile::tempdir().unwrap();
    let (run, out) = (folder.path().join("run"), folder.path().join("out"));
    shards(&run, 2);
    join(&[&run], &out).unwrap();
    let about = fs::metadata(out.join("plain/images/plain_p1_seed0000.png")).unwrap();
    assert_eq!(about.nlink(), 2);
}

#[test]
fn a_complete_shard_need_not_be_folded() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    make(&folder.path().join("whole"), plan(None), 100);
    shards(&run, 2);
    // Killed after the last picture.
    let shard = run.join("shard-000-of-002");
    let store = LocalStore::new(&shard);
    let open = RunFolder::open(Arc::new(LocalStore::new(&shard))).unwrap();
    let mut samples = Vec::new();
    open.samples(1, |sample| {
        samples.push(sample);
        Ok(())
    })
    .unwrap();
    fs::remove_file(shard.join(LEDGER)).unwrap();
    fs::remove_dir_all(shard.join("other")).unwrap();
    let jobs: Vec<_> = open.plan().jobs(1).collect();
    for (job, sample) in jobs.into_iter().zip(samples) {
        commit(&open, job, &sample);
    }
    assert!(store.get("other/manifest.jsonl").unwrap().is_none());
    join(&[&run], &folder.path().join("out")).unwrap();
    assert_same(&folder.path().join("out"), &folder.path().join("whole"));
}

/// Changes the first occurrence of a text in a file.
fn change(file: &Path, from: &str, to: &str) {
    let text = fs::read_to_string(file).unwrap();
    assert!(text.contains(from), "{from} in {}", file.display());
    fs::remove_file(file).unwrap();
    fs::write(file, text.replacen(from, to, 1)).unwrap();
}

/// One of a shard's pictures.
fn picture(shard: &Path) -> PathBuf {
    let mut pictures = fs::read_dir(shard.join("plain/images")).unwrap();
    pictures.next().unwrap().unwrap().path()
}

fn without_last_line(file: &Path) {
    let text = fs::read_to_string(file).unwrap();
    let lines: Vec<_> = text.lines().collect();
    fs::write(file, lines[..lines.len() - 1].join("\n") + "\n").unwrap();
}

#[test]
fn what_is_wrong_is_said_and_nothing_written() {
    type Spoil = fn(&Path);
    let cases: [(&str, Spoil, &str); 15] = [
        (
            "a shard that is not there",
            |run| fs::remove_dir_all(run.join("shard-001-of-003")).unwrap(),
            "of 3 shards, no. 1 is missing",
        ),
        (
            "a shard without run.json",
            |run| fs::remove_file(run.join("shard-001-of-003/run.json")).unwrap(),
            "shard-001-of-003 is damaged: run.json (deleted)",
        ),
        (
            "settings",
            |run| {
                let shard = run.join("shard-002-of-003");
                fs::remove_dir_all(&shard).unwrap();
                let mut plan = plan(Some("2/3"));
                plan.config.sampling.as_mut().unwrap().steps = 30;
                make(&shard, plan, 100);
            },
            "different settings: steps is 20 in the first and 30 in the second",
        ),
        (
            "settings that were changed by hand",
            |run| {
                change(
                    &run.join("shard-002-of-003/run.json"),
                    "\"steps\": 20",
                    "\"steps\": 30",
                )
            },
            "shard-002-of-003 is damaged: run.json (changed)",
        ),
        (
            "prompts",
            |run| {
                change(
                    &run.join("shard-002-of-003/prompts.jsonl"),
                    "a cat",
                    "a cow",
                )
            },
            "prompts.jsonl (changed)",
        ),
        (
            "another number",
            |run| {
                make(&run.join("shard-002-of-004"), plan(Some("2/4")), 100);
            },
            "shard-002-of-004 is shard 2/4: they are of runs that were divided into different numbers of shards",
        ),
        (
            "no shard",
            |run| {
                fs::remove_file(run.join("shard-002-of-003").join(LEDGER)).unwrap();
                change(&run.join("shard-002-of-003/run.json"), "\"2/3\"", "\"3/3\"");
            },
            "there is no shard 3 of 3",
        ),
        (
            "unfinished",
            |run| {
                let shard = run.join("shard-001-of-003");
                fs::remove_dir_all(&shard).unwrap();
                make(&shard, plan(Some("1/3")), 1);
            },
            "shard-001-of-003 is unfinished: 1 of its 3 pictures by plain are done",
        ),
        (
            "a line is gone",
            |run| without_last_line(&run.join("shard-001-of-003/other/manifest.jsonl")),
            "other/manifest.jsonl (cut)",
        ),
        (
            "a line of the records is gone, and nothing is listed",
            |run| {
                fs::remove_file(run.join("shard-001-of-003").join(LEDGER)).unwrap();
                without_last_line(&run.join("shard-001-of-003/plain/eval/per_sample.jsonl"));
            },
            "per_sample.jsonl in",
        ),
        (
            "a line of the scores is gone, and nothing is listed",
            |run| {
                fs::remove_file(run.join("shard-001-of-003").join(LEDGER)).unwrap();
                without_last_line(&run.join("shard-001-of-003/other/eval/scores.jsonl"));
            },
            "shard-001-of-003 is unfinished: 2 of its 3 pictures by other",
        ),
        (
            "half a line",
            |run| {
                change(
                    &run.join("shard-000-of-003/plain/manifest.jsonl"),
                    "\"run_id\": ",
                    "",
                )
            },
            "plain/manifest.jsonl (cut)",
        ),
        (
            "no picture",
            |run| fs::remove_file(picture(&run.join("shard-001-of-003"))).unwrap(),
            ".png (deleted)",
        ),
        (
            "an empty picture",
            |run| fs::write(picture(&run.join("shard-001-of-003")), "").unwrap(),
            ".png (emptied)",
        ),
        (
            "nothing at all",
            |run| fs::remove_dir_all(run).unwrap(),
            "there is no run in",
        ),
    ];
    for (name, spoil, wanted) in cases {
        let folder = tempfile::tempdir().unwrap();
        let (run, out) = (folder.path().join("run"), folder.path().join("out"));
        shards(&run, 3);
        spoil(&run);
        let error = anyhow::Error::from(join(&[&run], &out).unwrap_err());
        let text = format!("{error:#}");
        assert!(text.contains(wanted), "{name}: {text}");
        assert!(!text.contains('\n'), "{name}: {text}");
        assert!(!out.exists(), "{name}");
    }
}

#[test]
fn the_same_shard_twice_must_be_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    make(&path("whole"), plan(None), 100);
    shards(&path("run"), 2);
    make(&path("again"), plan(Some("1/2")), 100);
    // As from another machine, by a version that lists nothing.
    fs::remove_file(path("again").join(LEDGER)).unwrap();
    let picture = picture(&path("again"));
    let id = picture.file_stem().unwrap().to_str().unwrap().to_string();
    change(
        &path("again/plain/manifest.jsonl"),
        "2026-01-01",
        "2026-01-02",
    );
    change(&path("again/plain/manifest.jsonl"), "flex", "cuda");
    join(&[&path("run"), &path("again")], &path("out")).unwrap();
    assert_same(&path("out"), &path("whole"));

    let fails = |wanted: &str| {
        let error = join(&[&path("run"), &path("again")], &path("out2")).unwrap_err();
        assert!(error.to_string().contains(wanted), "{error}");
        assert!(!path("out2").exists());
    };
    fs::write(&picture, "another").unwrap();
    fails(&format!("both have {id}, but their pictures differ"));
    fs::write(&picture, format!("picture of {id}")).unwrap();
    change(
        &path("again/plain/eval/scores.jsonl"),
        "\"candidates\": 0",
        "\"candidates\": 1",
    );
    fails("but their scores differ");
}

#[test]
fn another_run_is_not_written_over() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    shards(&path("run"), 2);
    let mut other = plan(None);
    other.config.sampling.as_mut().unwrap().steps = 5;
    make(&path("out"), other, 100);
    let before = contents(&path("out"));
    let error = join(&[&path("run")], &path("out")).unwrap_err().to_string();
    assert!(error.contains("steps: 5 there, 20 asked for"), "{error}");
    assert_eq!(contents(&path("out")), before);
    let shard = path("run/shard-000-of-002");
    let error = join(&[&path("run")], &shard).unwrap_err().to_string();
    assert!(error.contains("is one of the shards"), "{error}");
}

/// A joined run has what the shards have not, and they have what it has not.
#[test]
fn a_refused_run_is_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    for index in 0..2 {
        let mut half = plan(Some(&format!("{index}/2")));
        half.config.methods.remove(0);
        let shard = path("run").join(format!("shard-00{index}-of-002"));
        make_methods(&shard, half, 100, 1);
    }
    let mut other = plan(None);
    other.config.methods.truncate(1);
    other.config.seeds = vec![0];
    make_methods(&path("out"), other, 100, 1);
    let before = contents(&path("out"));
    let error = join(&[&path("run")], &path("out")).unwrap_err().to_string();
    assert!(
        error.contains("already holds 3 pictures, and the shards lack 3 of them"),
        "{error}"
    );
    assert_eq!(contents(&path("out")), before);
}

/// A file of another content is put right, whatever its size; its time alone is no fault.
#[test]
fn what_was_changed_in_the_joined_run_is_put_right() {
    let folder = tempfile::tempdir().unwrap();
    let (run, out) = (folder.path().join("run"), folder.path().join("out"));
    make(&folder.path().join("whole"), plan(None), 100);
    shards(&run, 2);
    join(&[&run], &out).unwrap();
    let damage = || {
        let joined = RunFolder::open(Arc::new(LocalStore::new(&out))).unwrap();
        joined.damage(Look::Quick).unwrap().len()
    };
    // It is a second name of the shard's file.
    let rewritten = |name: &str, change: u8| {
        let file = out.join(name);
        let mut bytes = fs::read(&file).unwrap();
        bytes[0] ^= change;
        fs::remove_file(&file).unwrap();
        fs::write(&file, bytes).unwrap();
        let open = fs::File::options().write(true).open(&file).unwrap();
        open.set_modified(std::time::SystemTime::UNIX_EPOCH)
            .unwrap();
    };
    rewritten("plain/images/plain_p1_seed0007.png", 1);
    rewritten("other/images/other_p1_seed0007.png", 0);
    assert_eq!(damage(), 1);
    assert_eq!(join(&[&run], &out).unwrap().copied, 1);
    assert_same(&out, &folder.path().join("whole"));
    assert_eq!(damage(), 0);
    assert_eq!(join(&[&run], &out).unwrap().copied, 0);
}

/// More prompts, seeds and methods in the same shards, one after the other.
#[test]
fn shards_grow() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    make(&path("whole"), plan(None), 100);
    let small = |shard: Option<&str>| {
        let mut small = plan(shard);
        small.config.seeds = vec![7];
        small.config.methods.truncate(1);
        small.prompts.truncate(2);
        small.config.prompts = 2;
        let suite = Suite {
            name: "tiny".into(),
            version: "1".into(),
            prompts: small.prompts.clone(),
            pictures_per_prompt: 2,
        };
        small.config.suite = suite.id().unwrap();
        small
    };
    for index in 0..3 {
        let shard = path("run").join(format!("shard-00{index}-of-003"));
        make_methods(&shard, small(Some(&format!("{index}/3"))), 100, 1);
    }
    join(&[&path("run")], &path("out")).unwrap();
    // A picture's shard is the same in the grown run.
    let before = contents(&path("run/shard-001-of-003"));
    for index in [0, 2] {
        let shard = path("run").join(format!("shard-00{index}-of-003"));
        make(&shard, plan(Some(&format!("{index}/3"))), 100);
    }
    let error = join(&[&path("run")], &path("out")).unwrap_err().to_string();
    assert!(error.contains("shard-001-of-003 is unfinished"), "{error}");
    assert_eq!(contents(&path("run/shard-001-of-003")), before);
    make(&path("run/shard-001-of-003"), plan(Some("1/3")), 100);
    // Into the smaller joined run.
    join(&[&path("run")], &path("out")).unwrap();
    assert_same(&path("out"), &path("whole"));
    // Shards that have less than a joined run do not make it smaller.
    fs::remove_dir_all(path("run")).unwrap();
    for index in 0..3 {
        let shard = path("run").join(format!("shard-00{index}-of-003"));
        make_methods(&shard, small(Some(&format!("{index}/3"))), 100, 1);
    }
    let error = join(&[&path("run")], &path("out")).unwrap_err().to_string();
    assert!(
        error.contains("already holds 12 pictures, and the shards lack 10 of them"),
        "{error}"
    );
    assert_same(&path("out"), &path("whole"));
}

/// Puts a file into a folder of a run.
fn put(run: &Path, name: &str, text: &str) {
    let store = LocalStore::new(run);
    store.put(name, text.as_bytes()).unwrap();
}

fn text(run: &Path, name: &str) -> Option<String> {
    let bytes = LocalStore::new(run).get(name).unwrap();
    bytes.map(|bytes| String::from_utf8(bytes).unwrap())
}

/// What the joined run does not get, by name.
fn left(merged: Merged) -> Vec<(String, usize, Why)> {
    let left = merged.left.into_iter();
    left.map(|one| (one.name, one.others, one.why)).collect()
}

/// What somebody measured of a shard's pictures is not of the run's, and is not taken for it.
#[test]
fn what_is_of_a_part_is_left_out_and_named() {
    let folder = tempfile::tempdir().unwrap();
    let (run, out) = (folder.path().join("run"), folder.path().join("out"));
    make(&folder.path().join("whole"), plan(None), 100);
    shards(&run, 2);
    let shard = |index: usize| run.join(format!("shard-00{index}-of-002"));
    put(&shard(0), "plain/quality/figures.json", "[]");
    put(&shard(1), "plain/quality/figures.json", "[]");
    put(&shard(1), "plain/quality/clip-1/000000.safetensors", "");
    put(&shard(1), "audit/labels_filled.json", "[]");
    put(&shard(1), "other/refused/other_p9_seed0000.json", "{}");
    put(&shard(1), "other/notes.txt", "mine");
    // A book of answers of another judge, and answers of other rules beside no records.
    put(&shard(0), "judged/other/answers.jsonl", "");
    put(&shard(0), "plain/eval_near/rules.jsonl", "");
    put(&out, "plain/quality/figures.json", "[1]");
    // A run writes these itself.
    put(&shard(0), "plain/received/something", "");
    let merged = join(&[&run], &out).unwrap();
    let told = merged.left.iter().map(ToString::to_string);
    let told = told.collect::<Vec<_>>().join("\n");
    assert_eq!(
        left(merged),
        [
            ("audit".to_string(), 0, Why::Foreign),
            ("judged/other".to_string(), 0, Why::Foreign),
            ("other/notes.txt".to_string(), 0, Why::Foreign),
            ("plain/eval_near/rules.jsonl".to_string(), 0, Why::Foreign),
            ("plain/quality".to_string(), 1, Why::Quality),
        ]
    );
    assert!(
        told.contains("plain/quality in ") && told.contains("-000-of-002 and in another shard ("),
        "{told}"
    );
    assert_eq!(
        text(&out, "other/refused/other_p9_seed0000.json").as_deref(),
        Some("{}")
    );
    // What the joined run has from before is nobody's to take away, and is told of.
    let stays = |line: &&str| line.ends_with("is from before, and stays");
    let staying: Vec<&str> = told.lines().filter(stays).collect();
    assert!(
        staying.len() == 1 && staying[0].contains("plain/quality"),
        "{told}"
    );
    fs::remove_dir_all(out.join("plain/quality")).unwrap();
    fs::remove_dir_all(out.join("other/refused")).unwrap();
    assert_same(&out, &folder.path().join("whole"));
}

/// Records of a second look are joined like the run's own where all shards have them, and else left where they are.
#[test]
fn a_second_look_is_joined_if_it_is_of_all_pictures() {
    let folder = tempfile::tempdir().unwrap();
    let (run, out) = (folder.path().join("run"), folder.path().join("out"));
    shards(&run, 2);
    let shard = |index: usize| run.join(format!("shard-00{index}-of-002"));
    let own = |index: usize, method: &str| {
        text(&shard(index), &format!("{method}/eval/per_sample.jsonl")).unwrap()
    };
    for index in 0..2 {
        let again = own(index, "plain").replace("\"conf\": ", "\"more\": 1, \"conf\": ");
        put(&shard(index), "plain/eval_again/per_sample.jsonl", &again);
        put(
            &shard(index),
            "plain/eval_again/checker_config.yaml",
            "a: 2\n",
        );
        let overlay = format!("plain/eval_again/overlays/{index}.png");
        put(&shard(index), &overlay, "drawn");
        put(
            &shard(index),
            "other/eval_new/per_sample.jsonl",
            &own(index, "other"),
        );
        let settings = format!("a: {index}\n");
        put(
            &shard(index),
            "other/eval_new/checker_config.yaml",
            &settings,
        );
    }
    // A detector that does not know what one of the prompts names.
    for index in 0..2 {
        let known = |line: &&str| !line.contains("_p2_");
        let all = own(index, "plain");
        let lines: Vec<&str> = all.lines().filter(known).collect();
        assert!(!lines.is_empty() && lines.len() < all.lines().count());
        let file = "plain/eval_few/per_sample.jsonl";
        put(&shard(index), file, &(lines.join("\n") + "\n"));
    }
    // Figures of a part, as earlier versions left them in the joined run.
    put(&out, "plain/eval_again/metrics.json", "{}");
    let before = own(0, "other");
    put(&shard(0), "other/eval_half/per_sample.jsonl", &before);
    let some: Vec<&str> = before.lines().take(1).collect();
    put(
        &shard(0),
        "other/eval_cut/per_sample.jsonl",
        &(some.join("\n") + "\n"),
    );
    put(
        &shard(1),
        "other/eval_cut/per_sample.jsonl",
        &own(1, "other"),
    );
    put(&shard(1), "other/eval_torn/per_sample.jsonl", "{\n");
    for _ in 0..2 {
        let merged = join(&[&run], &out).unwrap();
        let left = left(merged);
        let names: Vec<&str> = left.iter().map(|(name, ..)| name.as_str()).collect();
        let all = [
            "other/eval_cut",
            "other/eval_half",
            "other/eval_new",
            "other/eval_torn",
        ];
        assert_eq!(names, all);
        assert!(matches!(&left[0].2, Why::Silent(id) if id.starts_with("other_p")));
        assert!(matches!(&left[1].2, Why::Lacking(shard) if shard.ends_with("shard-001-of-002")));
        assert_eq!(left[2].2, Why::Settings);
        assert!(matches!(&left[3].2, Why::Broken(shard) if shard.ends_with("shard-001-of-002")));
        for name in all {
            assert!(!out.join(name).exists(), "{name}");
        }
        let joined = text(&out, "plain/eval_again/per_sample.jsonl").unwrap();
        let as_own = joined.replace("\"more\": 1, ", "");
        assert_ne!(joined, as_own);
        assert_eq!(text(&out, "plain/eval/per_sample.jsonl").unwrap(), as_own);
        let few = text(&out, "plain/eval_few/per_sample.jsonl").unwrap();
        assert!(few.contains("plain_p1_seed0000") && few.contains("plain_p1_seed0007"));
        let metrics = |eval: &str| text(&out, &format!("plain/{eval}/metrics.json"));
        assert_eq!(metrics("eval_again"), metrics("eval"));
        let settings = text(&out, "plain/eval_again/checker_config.yaml");
        assert_eq!(settings.as_deref(), Some("a: 2\n"));
        assert!(out.join("plain/eval_again/overlays/1.png").exists());
    }
}

/// An answer of a judge, who was paid for it.
fn answer(key: &str) -> Entry {
    Entry {
        key: key.into(),
        question: "q".into(),
        model: "m".into(),
        picture: "p".into(),
        system: None,
        text: "What is there?".into(),
        settings: json!({}),
        answer: format!("the answer to {key}"),
        thoughts: None,
        end: serde_json::from_value(json!("stop")).unwrap(),
        prompt_tokens: 1,
        answer_tokens: 1,
    }
}

#[test]
fn no_answer_of_a_judge_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let (run, out) = (folder.path().join("run"), folder.path().join("out"));
    shards(&run, 2);
    let shard = |index: usize| run.join(format!("shard-00{index}-of-002"));
    let book = |run: &Path| {
        fs::create_dir_all(run.join("judged")).unwrap();
        Book::open(&run.join("judged/answers.jsonl")).unwrap()
    };
    for index in 0..2 {
        let mut book = book(&shard(index));
        book.add(answer("both")).unwrap();
        book.add(answer(&format!("of {index}"))).unwrap();
        put(&shard(index), "judged/judged.json", "{}");
    }
    // A kill leaves half a line.
    let path = shard(1).join("judged/answers.jsonl");
    let half = fs::read_to_string(&path).unwrap() + "{\"key\": ";
    fs::write(&path, half).unwrap();
    book(&out).add(answer("own")).unwrap();

    let held = book(&out);
    let error = join(&[&run], &out).unwrap_err().to_string();
    assert!(error.contains("is being written by another"), "{error}");
    assert!(!out.join("run.json").exists());
    drop(held);
    for new in [3, 0] {
        let merged = join(&[&run], &out).unwrap();
        assert_eq!(merged.answers, new);
        assert_eq!(left(merged), [("judged".to_string(), 1, Why::Tables)]);
        let bytes = fs::read(out.join("judged/answers.jsonl")).unwrap();
        let there = entries(&bytes).unwrap().into_iter();
        let keys: Vec<String> = there.map(|entry| entry.key).collect();
        assert_eq!(keys, ["own", "both", "of 0", "of 1"]);
        assert!(!out.join("judged/judged.json").exists());
    }

    fs::write(&path, "no answer\n").unwrap();
    let out = folder.path().join("out2");
    let error = anyhow::Error::from(join(&[&run], &out).unwrap_err());
    let message = format!("{error:#}");
    assert!(
        message.contains("shard-001-of-002/judged/answers.jsonl cannot be joined: ")
            && message.contains("line 1 is not a judge's answer"),
        "{message}"
    );
    assert!(!out.exists());
}

/// A store that is no folder of this machine.
struct Afar(LocalStore);

impl Store for Afar {
    fn location(&self) -> String {
        self.0.location()
    }

    fn get(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.0.get(name)
    }

    fn put(&self, name: &str, bytes: &[u8]) -> Result<(), StoreError> {
        self.0.put(name, bytes)
    }

    fn put_new(&self, name: &str, bytes: &[u8]) -> Result<bool, StoreError> {
        self.0.put_new(name, bytes)
    }

    fn list(&self, folder: &str) -> Result<Vec<prepose::store::Entry>, StoreError> {
        self.0.list(folder)
    }

    fn remove(&self, name: &str) -> Result<(), StoreError> {
        self.0.remove(name)
    }
}

#[test]
fn answers_reach_an_object_store() {
    let folder = tempfile::tempdir().unwrap();
    let (run, out) = (folder.path().join("run"), folder.path().join("out"));
    make(&folder.path().join("whole"), plan(None), 100);
    shards(&run, 2);
    let line = |key: &str| serde_json::to_string(&answer(key)).unwrap() + "\n";
    put(
        &run.join("shard-000-of-002"),
        "judged/answers.jsonl",
        &(line("a") + &line("own")),
    );
    put(
        &run.join("shard-001-of-002"),
        "judged/answers.jsonl",
        &line("b"),
    );
    // Somebody copied it while it was written.
    put(
        &out,
        "judged/answers.jsonl",
        &(line("own") + "{\"key\": \"x"),
    );
    for new in [2, 0] {
        let shards = find(&[run.display().to_string()]).unwrap();
        let store = Arc::new(Afar(LocalStore::new(&out)));
        assert_eq!(merge(shards, store, &|_, _| {}).unwrap().answers, new);
        let all = line("own") + &line("a") + &line("b");
        assert_eq!(text(&out, "judged/answers.jsonl"), Some(all));
    }
    fs::remove_dir_all(out.join("judged")).unwrap();
    assert_same(&out, &folder.path().join("whole"));
}

/// What a link leads to is not part of the joined run.
#[cfg(unix)]
#[test]
fn nothing_is_put_through_a_link() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    shards(&path("run"), 2);
    for name in ["plain", "plain/images", "other/eval", "provenance"] {
        let (out, elsewhere) = (path("out"), path("elsewhere"));
        fs::create_dir(&elsewhere).unwrap();
        fs::create_dir_all(out.join(name).parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(&elsewhere, out.join(name)).unwrap();
        let error = join(&[&path("run")], &out).unwrap_err().to_string();
        assert!(error.contains(&format!(": {name} is a link")), "{error}");
        assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0, "{name}");
        for begun in ["run.json", "prompts.jsonl", LEDGER] {
            assert!(!out.join(begun).exists(), "{name}: {begun}");
        }
        fs::remove_dir_all(&out).unwrap();
        fs::remove_dir(&elsewhere).unwrap();
    }
}

#[test]
fn folding_survives_another_copy_that_folds_first() {
    for _ in 0..20 {
        let folder = tempfile::tempdir().unwrap();
        make(&folder.path().join("whole"), plan(None), 100);
        let run = folder.path().join("run");
        let open = |plan| RunFolder::claim(Arc::new(LocalStore::new(&run)), plan).unwrap();
        let first = open(plan(None));
        for job in first.plan().jobs(0) {
            let id = first.plan().sample_id(job);
            let files = [(format!("images/{id}.png"), b"x".to_vec())];
            first
                .commit(job, &files, &sample(first.plan(), job.index))
                .unwrap();
        }
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| open(plan(None)).fold(0).unwrap());
            }
        });
        let lines = fs::read_to_string(run.join("plain/manifest.jsonl")).unwrap();
        assert_eq!(lines.lines().count(), 6);
    }
}
