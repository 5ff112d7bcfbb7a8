//! Servers of pictures on this machine, good and bad.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use base64::Engine as _;
use prepose::output::png::encode_plain;
use prepose::picture::Picture;
use prepose::remote::stub::{Asked, Nobody, Reply, Stub};
use serde_json::{Value, json};

use super::{engine, four, same};
use crate::run::{finish, prepose, refused};

pub const KEY: &str = "sk-SECRET-5f1c";

/// The engine's pictures by prompt and seed, in base64.
pub fn pictures() -> HashMap<(String, u64), String> {
    let encode =
        |path: &Path| base64::engine::general_purpose::STANDARD.encode(fs::read(path).unwrap());
    let one = |(_, prompt, seed, path): &(String, String, u64, std::path::PathBuf)| {
        ((prompt.clone(), *seed), encode(path))
    };
    engine().pictures.iter().map(one).collect()
}

/// What a good server with OpenAI's interface answers.
pub fn good(pictures: &HashMap<(String, u64), String>, asked: &Asked) -> Reply {
    let body = asked.json();
    let key = (
        body["prompt"].as_str().unwrap_or_default().to_owned(),
        body["seed"].as_u64().unwrap_or(0),
    );
    match pictures.get(&key) {
        Some(encoded) => Reply::Json(200, json!({"created": 1, "data": [{"b64_json": encoded}]})),
        None => Reply::error(400, "unknown", "no such picture"),
    }
}

pub fn endpoint<'a>(address: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let mut all = vec![
        "--endpoint",
        address,
        "--endpoint-model",
        "m-1",
        "--endpoint-set",
        "seed={seed}",
    ];
    all.extend(["--endpoint-key-env", "MY_KEY"]);
    all.extend(more);
    all
}

/// Every file below a folder has no secret in it.
fn no_secret_in(folder: &Path) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            no_secret_in(&path);
        } else {
            let bytes = fs::read(&path).unwrap();
            let found = bytes.windows(6).any(|window| window == b"SECRET");
            assert!(!found, "{}", path.display());
        }
    }
}

#[test]
fn a_server_with_faults_makes_the_engines_run() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    let all = pictures();
    let stub = Stub::start(move |asked| {
        let reply = good(&all, asked);
        match asked.before {
            0 => Reply::busy(1),
            1 => Reply::error(500, "broken", "broken"),
            2 => Reply::Close,
            3 => Reply::Cut(400, Box::new(reply)),
            4 => Reply::Json(200, json!({"data": [{"b64_json": "no base64!"}]})),
            _ => reply,
        }
    })
    .unwrap();
    let address = stub.address.replace("http://", "http://me:SECRET@") + "/v1?sig=SECRET";
    let mut command = four(&run, &endpoint(&address, &["--parallel", "2", "-v"]));
    command.env("MY_KEY", KEY);
    let output = finish(command);
    assert!(!String::from_utf8_lossy(&output.stderr).contains("SECRET"));
    same(&run, &engine().run);
    no_secret_in(&run);
    assert_eq!(stub.count(), 8 + 5);
    assert!(stub.most_at_once() <= 2);
    let config: Value = serde_json::from_slice(&fs::read(run.join("run.json")).unwrap()).unwrap();
    let shown = stub.address.replace("http://", "http://***@") + "/v1?***";
    assert_eq!(
        config["source"],
        json!({"kind": "endpoint", "name": "m-1", "interface": "openai", "address": shown, "wishes": {},
               "fields": {"seed": "{seed}"}})
    );
    // It is complete: nothing is asked for again.
    let mut command = four(&run, &endpoint(&address, &[]));
    command.env("MY_KEY", KEY);
    finish(command);
    assert_eq!(stub.count(), 8 + 5);
}

#[test]
fn what_is_refused_is_neither_missing_nor_a_failure() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    let all = pictures();
    let (_, forbidden, ..) = engine().pictures[2].clone();
    let stub = Stub::start(move |asked| match asked.json()["prompt"] == forbidden {
        true => Reply::error(400, "moderation_blocked", "not this"),
        false => good(&all, asked),
    })
    .unwrap();
    let mut command = four(&run, &endpoint(&stub.address, &["--json"]));
    let output = {
        command.env("MY_KEY", KEY);
        finish(command)
    };
    let told: Vec<Value> = (String::from_utf8(output.stdout).unwrap().lines())
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let refusals = told
        .iter()
        .filter(|line| line["refused"] == "moderation_blocked")
        .count();
    assert_eq!((told.len(), refusals), (8, 2));
    let lines = |file: &str| {
        fs::read_to_string(run.join("prompt-only").join(file))
            .unwrap()
            .lines()
            .count()
    };
    assert_eq!(
        (
            lines("manifest.jsonl"),
            lines("eval/scores.jsonl"),
            lines("eval/per_sample.jsonl")
        ),
        (6, 6, 6)
    );
    assert_eq!(
        fs::read_dir(run.join("prompt-only/refused"))
            .unwrap()
            .count(),
        2
    );
    let metrics: Value =
        serde_json::from_slice(&fs::read(run.join("prompt-only/eval/metrics.json")).unwrap())
            .unwrap();
    assert_eq!(metrics["total_samples"], 6);
    // They are not asked for again, the run is complete, and its summary says how many there were.
    let count = stub.count();
    let mut command = four(&run, &endpoint(&stub.address, &[]));
    command.env("MY_KEY", KEY);
    let output = finish(command);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.contains("6 pictures")
            && text.contains("refused by the source, and left out of all figures: 2 pictures"),
        "{text}"
    );
    assert_eq!(stub.count(), count);
    let page = folder.path().join("report");
    let mut report = crate::program::prepose();
    report.arg("report").arg(&run).arg("--out").arg(&page);
    finish(report);
    let html = fs::read_to_string(page.join("report.html")).unwrap();
    assert!(!html.contains("Not finished"));
    assert!(html.contains("<dt>refused</dt><dd>2</dd>"));
    assert!(html.contains("6 pictures, 2 more refused by the source"));
    // By prompt too.
    let table = fs::read_to_string(page.join("tables/refusals.csv")).unwrap();
    let forbidden = &engine().pictures[2].1;
    let rows = [
        "run,prompt,refused,made,refused_share,codes".to_owned(),
        "\"prompt-only\",\"all prompts\",2,6,0.2500,\"moderation_blocked 2\"".to_owned(),
        format!("\"prompt-only\",\"{forbidden}\",2,0,1.0000,\"moderation_blocked 2\""),
    ];
    assert_eq!(table.lines().collect::<Vec<_>>(), rows);
}

#[test]
fn pictures_of_another_size_are_told_and_kept_as_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    let all = pictures();
    let small = Picture {
        width: 64,
        height: 96,
        rgb: vec![90; 64 * 96 * 3],
    };
    let small = base64::engine::general_purpose::STANDARD.encode(encode_plain(&small).unwrap());
    let (_, other, ..) = engine().pictures[2].clone();
    let stub = Stub::start(move |asked| match asked.json()["prompt"] == other {
        true => Reply::Json(200, json!({"data": [{"b64_json": small}]})),
        false => good(&all, asked),
    })
    .unwrap();
    let mut command = four(&run, &endpoint(&stub.address, &["--size", "128"]));
    command.env("MY_KEY", KEY);
    let output = finish(command);
    // Once while they come, and how many at the end.
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(
        errors.matches("64x96, but 128x128 was asked for").count(),
        1,
        "{errors}"
    );
    let text = String::from_utf8(output.stdout).unwrap();
    let wanted = "not 128x128, which was asked for: 2 pictures (64x96 2)";
    assert!(text.contains(wanted), "{text}");
    let manifest = fs::read_to_string(run.join("prompt-only/manifest.jsonl")).unwrap();
    let sizes = manifest.lines().map(|line| {
        let line: Value = serde_json::from_str(line).unwrap();
        let side = |name: &str| line["gen_params"][name].as_u64().unwrap();
        (side("width"), side("height"))
    });
    let sizes: Vec<_> = sizes.collect();
    assert_eq!(sizes.iter().filter(|size| **size == (64, 96)).count(), 2);
    assert_eq!(sizes.iter().filter(|size| **size == (128, 128)).count(), 6);
    let origins = fs::read_dir(run.join("prompt-only/origin")).unwrap();
    let asked = origins.filter(|entry| {
        let path = entry.as_ref().unwrap().path();
        let origin: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
        origin["asked_size"] == json!([128, 128])
    });
    assert_eq!(asked.count(), 2);
    // The page says it too.
    let mut report = crate::program::prepose();
    report.arg("report").arg(&run);
    let output = finish(report);
    let note = "2 of 8 pictures by prompt-only are not 128x128";
    assert!(String::from_utf8_lossy(&output.stderr).contains(note));
    let html = fs::read_to_string(run.join("report/report.html")).unwrap();
    assert!(html.contains(note));
}

#[test]
fn wrong_servers_and_keys_have_one_clear_message_each() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    let fails = |reply: Reply, more: &[&str]| {
        let stub = Stub::start(move |_| reply.clone()).unwrap();
        let mut command = four(&run, &endpoint(&stub.address, more));
        command.env("MY_KEY", KEY);
        let error = refused(command);
        assert!(!error.contains("SECRET"), "{error}");
        let _ = fs::remove_dir_all(&run);
        error
    };
    for (reply, wanted) in [
        (
            Reply::error(401, "invalid_api_key", &format!("Incorrect API key: {KEY}")),
            "Incorrect API key: ***; the one in MY_KEY was not accepted",
        ),
        (
            Reply::error(429, "insufficient_quota", "pay"),
            "will not go on without payment (insufficient_quota): pay",
        ),
        (
            Reply::error(404, "model_not_found", "no model m-1"),
            "answered 404: no model m-1",
        ),
        (
            Reply::Bytes(200, "text/html", b"<title>Welcome</title>".to_vec()),
            "does not answer as a server with OpenAI's images/generations does",
        ),
        (
            Reply::Headers(
                307,
                vec![("location", "http://elsewhere/".into())],
                json!({}),
            ),
            "redirects to http://elsewhere/",
        ),
    ] {
        let error = fails(reply, &[]);
        assert!(error.contains(wanted), "{error}");
    }
    let nothing = Reply::Json(200, json!([]));
    for (more, wanted) in [
        (
            &["--endpoint-kind", "comfyui"][..],
            "ComfyUI needs to know what to do: --workflow",
        ),
        (
            &["--endpoint-kind", "mine"],
            "there are openai, comfyui and webui",
        ),
        (&["--endpoint-kind", "webui"], "it has no model \"m-1\""),
        (
            &[
                "--endpoint-kind",
                "webui",
                "--endpoint-set",
                "override_settings={\"sd_model_checkpoint\": \"m-2\"}",
            ],
            "both name a checkpoint",
        ),
        (&["--endpoint-set", "api_key=SECRET"], "looks like a secret"),
        (&["--parallel", "0"], "--parallel is 0"),
        (
            &["--scheduler", "ddim"],
            "--scheduler is about making pictures here",
        ),
    ] {
        let error = fails(nothing.clone(), more);
        assert!(error.contains(wanted), "{error}");
    }
    for (more, wanted) in [
        (
            &["--endpoint", "localhost:80", "--endpoint-model", "m"][..],
            "is not the address of a server",
        ),
        (
            &["--endpoint", "http://127.0.0.1:9"],
            "--endpoint-model NAME says which",
        ),
        (
            &[
                "--endpoint",
                "http://127.0.0.1:9",
                "--endpoint-model",
                "m",
                "--endpoint-key-env",
                "NO_SUCH_KEY_1",
            ],
            "NO_SUCH_KEY_1 is not set",
        ),
        (
            &[
                "--endpoint",
                "http://127.0.0.1:9",
                "--endpoint-model",
                "m",
                "--endpoint-key-env",
                "sk-SECRET",
            ],
            "may be the key itself",
        ),
    ] {
        let error = refused(four(&run, more));
        assert!(
            error.contains(wanted) && !error.contains("SECRET"),
            "{error}"
        );
    }
    // Nobody is there.
    let nobody = Nobody::new().unwrap();
    let mut command = four(
        &run,
        &endpoint(&nobody.address, &["--endpoint-kind", "webui"]),
    );
    command.env("MY_KEY", KEY);
    let error = refused(command);
    assert!(error.contains("no answer from http://127.0.0.1"), "{error}");
}

#[test]
fn kills_lose_nothing_and_nothing_is_paid_for_twice() {
    kill_while_making(&["spatialbench-uc", "--seeds", "0-1"], 400);
}

#[test]
#[ignore = "makes 5,000 pictures, which takes minutes"]
fn kills_lose_nothing_of_five_thousand_pictures() {
    kill_while_making(&["visor-5000", "--seeds", "0"], 5000);
}

/// Five kills while many pictures are made: all are there at the end, and what was received was not asked for again.
fn kill_while_making(suite: &[&str], all: usize) {
    const PARALLEL: usize = 4;
    const KILLS: usize = 5;
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    let picture = Picture {
        width: 8,
        height: 8,
        rgb: vec![90; 192],
    };
    let encoded = base64::engine::general_purpose::STANDARD.encode(encode_plain(&picture).unwrap());
    let paid: std::sync::Arc<std::sync::Mutex<HashMap<String, usize>>> = Default::default();
    let (bill, served) = (paid.clone(), std::sync::Arc::new(AtomicUsize::new(0)));
    let count = served.clone();
    let stub = Stub::start(move |asked| {
        let name = asked
            .header("idempotency-key")
            .unwrap_or_default()
            .to_owned();
        *bill.lock().unwrap().entry(name).or_default() += 1;
        count.fetch_add(1, Ordering::SeqCst);
        Reply::Json(200, json!({"data": [{"b64_json": encoded}]}))
    })
    .unwrap();
    let address = stub.address.clone();
    let command = || {
        let mut command = prepose(&[&["run"], suite].concat());
        command.args(["--checker", "none", "--out"]);
        command.arg(&run).args([
            "--endpoint",
            &address,
            "--endpoint-model",
            "m",
            "--parallel",
            "4",
        ]);
        command
    };
    for kill in 0..KILLS {
        let mut child = command()
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let until = served.load(Ordering::SeqCst) + 7 + all / 40 * (kill + 1);
        while served.load(Ordering::SeqCst) < until && child.try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_millis(1));
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }
    finish(command());
    let paid = paid.lock().unwrap();
    let pictures = fs::read_dir(run.join("prompt-only/images")).unwrap();
    let whole = pictures.filter(|entry| {
        !entry
            .as_ref()
            .unwrap()
            .file_name()
            .to_string_lossy()
            .starts_with('.')
    });
    assert_eq!(whole.count(), all);
    // A server that knows names of requests has made each picture once.
    assert_eq!(paid.len(), all);
    // Another has made again what was under way at a kill, and no more.
    let again: usize = paid.values().map(|times| times - 1).sum();
    println!("{again} of {all} pictures were under way at one of {KILLS} kills");
    assert!(again <= KILLS * PARALLEL, "{again}");
    let manifest = fs::read_to_string(run.join("prompt-only/manifest.jsonl")).unwrap();
    assert_eq!(manifest.lines().count(), all);
    let left = fs::read_dir(run.join("prompt-only/received")).map_or(0, |left| {
        left.filter(|entry| {
            !entry
                .as_ref()
                .unwrap()
                .file_name()
                .to_string_lossy()
                .starts_with('.')
        })
        .count()
    });
    assert_eq!(left, 0);
}
