//! Pictures that are changed by servers and programs: seed pictures first, and then the same pictures with an instruction.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;

use base64::Engine as _;
use prepose::output::png::{encode_plain, read_request};
use prepose::picture::Picture;
use prepose::remote::stub::{Asked, Reply, Stub};
use prepose::store::ledger::sha256;
use serde_json::{Value, json};

use crate::program;
use crate::run::{finish, refused};
use crate::support::gateway::Gateway;

/// A picture in grey.
fn grey(value: u8) -> Vec<u8> {
    let picture = Picture {
        width: 8,
        height: 8,
        rgb: vec![value; 192],
    };
    encode_plain(&picture).unwrap()
}

/// The seed picture of a seed, and what it becomes.
fn seed_picture(seed: u64) -> Vec<u8> {
    grey(40 + seed as u8)
}

fn changed(seed: u64) -> Vec<u8> {
    grey(100 + seed as u8)
}

fn encoded(bytes: &[u8]) -> String {
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

/// Two instructions for one seed picture, in `mine.jsonl`.
fn put_suite(folder: &Path) {
    let edit = json!({"seed": "a dog on the left and a cat on the right"});
    let lines = [
        json!({"prompt_id": "under", "prompt": "One animal is sleeping.", "edit": edit}),
        json!({"prompt_id": "named", "prompt": "The dog is sleeping and the cat is jumping.", "edit": edit,
            "objects": ["dog", "cat"], "relations": [], "tags": ["aligned"]}),
    ];
    let lines: Vec<String> = lines.iter().map(Value::to_string).collect();
    fs::write(folder.join("mine.jsonl"), lines.join("\n")).unwrap();
}

fn edit(folder: &Path, more: &[&str]) -> Command {
    edit_into(folder, "run", more)
}

fn edit_into(folder: &Path, out: &str, more: &[&str]) -> Command {
    put_suite(folder);
    let mut command = program::prepose();
    command
        .args(["ots", "edit", "--suite", "mine.jsonl", "--device", "flex"])
        .args(["--strength", "0.5", "--checker", "none", "--out", out])
        .args(["--seeds", "0-1"])
        .args(more)
        .current_dir(folder);
    command
}

/// Makes sure that a run has two seed pictures and, of each, two changed ones that say what they were made from.
fn all_there(folder: &Path) {
    for seed in [0, 1] {
        let of = |name: String| fs::read(folder.join("run").join(name)).unwrap();
        let id = format!("prompt-only_seed_0000_seed{seed:04}");
        assert_eq!(
            of(format!("seeds/prompt-only/images/{id}.png")),
            seed_picture(seed)
        );
        for prompt in ["under", "named"] {
            let id = format!("prompt-only_{prompt}_seed{seed:04}");
            assert_eq!(of(format!("prompt-only/images/{id}.png")), changed(seed));
            let origin = of(format!("prompt-only/origin/{id}.json"));
            let origin: Value = serde_json::from_slice(&origin).unwrap();
            assert_eq!(origin["start"], sha256(&seed_picture(seed)));
        }
    }
}

/// OpenAI's interface: pictures from nothing, and from the seed pictures and no others.
fn openai(asked: &Asked) -> Reply {
    let answer =
        |bytes: Vec<u8>| Reply::Json(200, json!({"data": [{"b64_json": encoded(&bytes)}]}));
    if asked.path.ends_with("/images/generations") {
        return answer(seed_picture(asked.json()["seed"].as_u64().unwrap()));
    }
    let field = |name: &str| String::from_utf8(asked.field(name).unwrap()).unwrap();
    let seed = field("seed").parse().unwrap();
    let wanted = asked.path.ends_with("/images/edits")
        && asked.field("image") == Some(seed_picture(seed))
        && field("strength") == "0.5";
    match wanted {
        true => answer(changed(seed)),
        false => Reply::error(400, "wrong", "not what was to be changed"),
    }
}

const OPENAI: [&str; 6] = [
    "--endpoint-model",
    "m",
    "--endpoint-set",
    "seed={seed}",
    "--endpoint-set",
    "strength={strength}",
];

#[test]
fn openais_interface_changes_pictures() {
    let folder = tempfile::tempdir().unwrap();
    let stub = Stub::start(openai).unwrap();
    let args = [&["--endpoint", &stub.address], &OPENAI[..]].concat();
    finish(edit(folder.path(), &args));
    all_there(folder.path());
    assert_eq!(stub.count(), 2 + 4);
    // The second time nothing is left to do.
    finish(edit(folder.path(), &args));
    assert_eq!(stub.count(), 2 + 4);
    // Pictures that are there already are changed by `run` as well.
    let line = json!({"prompt_id": "own", "prompt": "One animal is sleeping.", "objects": ["dog"], "relations": [],
        "edit": {"picture": "own/{seed}.png", "strength": 0.5}});
    fs::write(folder.path().join("own.jsonl"), line.to_string()).unwrap();
    let run = || {
        let mut command = program::prepose();
        command
            .args(["run", "own.jsonl", "--device", "flex", "--checker", "none"])
            .args(["--seeds", "0-1", "--out", "own-run"])
            .args(&args)
            .current_dir(folder.path());
        command
    };
    fs::create_dir(folder.path().join("own")).unwrap();
    fs::write(folder.path().join("own/0000.png"), seed_picture(0)).unwrap();
    let error = refused(run());
    assert!(
        error.contains("\"own\" changes own/0001.png, which cannot be read"),
        "{error}"
    );
    assert_eq!(stub.count(), 2 + 4);
    fs::write(folder.path().join("own/0001.png"), seed_picture(1)).unwrap();
    finish(run());
    let picture = folder
        .path()
        .join("own-run/prompt-only/images/prompt-only_own_seed0001.png");
    assert_eq!(fs::read(picture).unwrap(), changed(1));
}

#[test]
fn what_was_refused_is_not_changed() {
    let folder = tempfile::tempdir().unwrap();
    let stub = Stub::start(|asked| match asked.json()["seed"].as_u64() {
        Some(1) => Reply::error(400, "moderation_blocked", "not this"),
        _ => openai(asked),
    })
    .unwrap();
    let args = [&["--endpoint", &stub.address], &OPENAI[..]].concat();
    finish(edit(folder.path(), &args));
    let path = folder.path().join("run/prompt-only/refused");
    let refusals: Vec<_> = fs::read_dir(path).unwrap().collect();
    assert_eq!(refusals.len(), 2);
    for entry in refusals {
        let text = fs::read_to_string(entry.unwrap().path()).unwrap();
        assert!(
            text.contains("of the picture that is changed: not this"),
            "{text}"
        );
    }
    let manifest = folder.path().join("run/prompt-only/manifest.jsonl");
    assert_eq!(fs::read_to_string(manifest).unwrap().lines().count(), 2);
    // Two of nothing and two changed; none of what is not there.
    assert_eq!(stub.count(), 2 + 2);
}

/// As [`edit`], into `s3://bucket/run`.
fn edit_in_store(folder: &Path, gateway: &Gateway, more: &[&str]) -> Command {
    let mut command = edit_into(folder, "s3://bucket/run", more);
    command
        .env("AWS_ENDPOINT_URL", &gateway.url)
        .env("AWS_ACCESS_KEY_ID", "key")
        .env("AWS_SECRET_ACCESS_KEY", "secret");
    command
}

/// Puts what is in the store into `run`.
fn fetch(gateway: &Gateway, folder: &Path) {
    for (name, bytes) in gateway.files() {
        let path = folder.join(name.strip_prefix("/bucket/").unwrap());
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
}

#[test]
fn seed_pictures_in_a_store_are_changed() {
    let folder = tempfile::tempdir().unwrap();
    let gateway = Gateway::start(|_| None);
    // All seed pictures and one that is changed; and the others when it is asked again.
    let stub = Stub::start(|asked| match asked.before {
        3 => Reply::error(401, "invalid_api_key", "no more"),
        _ => openai(asked),
    })
    .unwrap();
    let args = [
        &["--endpoint", &stub.address, "--parallel", "1"],
        &OPENAI[..],
    ]
    .concat();
    let error = refused(edit_in_store(folder.path(), &gateway, &args));
    assert!(error.contains("no more"), "{error}");
    finish(edit_in_store(folder.path(), &gateway, &args));
    assert_eq!(stub.count(), 2 + 4 + 1);
    // It is complete: nothing is asked for again.
    finish(edit_in_store(folder.path(), &gateway, &args));
    assert_eq!(stub.count(), 2 + 4 + 1);
    assert!(!folder.path().join("s3:").exists());
    fetch(&gateway, folder.path());
    all_there(folder.path());
}

#[test]
fn what_was_refused_in_a_store_is_not_changed() {
    let folder = tempfile::tempdir().unwrap();
    let gateway = Gateway::start(|_| None);
    let stub = Stub::start(|asked| match asked.json()["seed"].as_u64() {
        Some(1) => Reply::error(400, "moderation_blocked", "not this"),
        _ => openai(asked),
    })
    .unwrap();
    let args = [&["--endpoint", &stub.address], &OPENAI[..]].concat();
    finish(edit_in_store(folder.path(), &gateway, &args));
    let files = gateway.files();
    let refusals = files
        .iter()
        .filter(|(name, _)| name.starts_with("/bucket/run/prompt-only/refused/"));
    let texts: Vec<&str> = refusals
        .map(|(_, text)| std::str::from_utf8(text).unwrap())
        .collect();
    assert_eq!(texts.len(), 2);
    for text in texts {
        assert!(
            text.contains("of the picture that is changed: not this"),
            "{text}"
        );
    }
    assert_eq!(stub.count(), 2 + 2);
}

#[test]
fn the_engine_changes_pictures_in_a_store() {
    let folder = tempfile::tempdir().unwrap();
    let gateway = Gateway::start(|_| None);
    let args = ["--steps", "4", "--batch", "4"];
    finish(edit_in_store(folder.path(), &gateway, &args));
    // The same to the pixel as in a folder.
    let there = tempfile::tempdir().unwrap();
    fetch(&gateway, there.path());
    finish(edit(folder.path(), &args));
    for id in [
        "under_seed0000",
        "under_seed0001",
        "named_seed0000",
        "named_seed0001",
    ] {
        let name = format!("run/prompt-only/images/prompt-only_{id}.png");
        let pixels = |root: &Path| Picture::decode(&fs::read(root.join(&name)).unwrap()).unwrap();
        assert_eq!(pixels(there.path()), pixels(folder.path()), "{id}");
        let request = read_request(&there.path().join(&name)).unwrap();
        let init = request.init.unwrap();
        assert!(
            init.path.starts_with("s3://bucket/run/seeds"),
            "{:?}",
            init.path
        );
        assert!(init.sha256.is_some());
    }
    let results = |root: &Path| {
        let mut all = HashMap::new();
        for entry in fs::read_dir(root.join("run/results")).unwrap() {
            let path = entry.unwrap().path();
            all.insert(
                path.file_name().unwrap().to_owned(),
                fs::read(&path).unwrap(),
            );
        }
        all
    };
    assert!(!results(there.path()).is_empty());
    assert_eq!(results(there.path()), results(folder.path()));
}

#[test]
fn the_web_ui_changes_pictures() {
    let folder = tempfile::tempdir().unwrap();
    let stub = Stub::start(|asked| {
        let body = asked.json();
        let seed = body["seed"].as_u64().unwrap_or_default();
        let answer = |bytes: Vec<u8>| Reply::Json(200, json!({"images": [encoded(&bytes)]}));
        let begins = body["init_images"] == json!([encoded(&seed_picture(seed))]);
        match asked.path.as_str() {
            "/sdapi/v1/sd-models" => Reply::Json(200, json!([])),
            "/sdapi/v1/txt2img" => answer(seed_picture(seed)),
            "/sdapi/v1/img2img" if begins && body["denoising_strength"] == 0.5 => {
                answer(changed(seed))
            }
            _ => Reply::error(400, "wrong", "not what was to be changed"),
        }
    })
    .unwrap();
    let args = ["--endpoint", &stub.address, "--endpoint-kind", "webui"];
    finish(edit(folder.path(), &args));
    all_there(folder.path());
}

/// A ComfyUI that gives uploads other names.
#[derive(Default)]
struct Comfy {
    uploads: Mutex<HashMap<String, Vec<u8>>>,
    done: Mutex<HashMap<String, Vec<u8>>>,
}

impl Comfy {
    fn answer(&self, asked: &Asked) -> Reply {
        let (mut uploads, mut done) = (self.uploads.lock().unwrap(), self.done.lock().unwrap());
        match (asked.method.as_str(), asked.path.as_str()) {
            (_, "/system_stats") => Reply::Json(200, json!({"system": {}})),
            ("POST", "/upload/image") => {
                let name = format!("x ({}).png", uploads.len());
                uploads.insert(name.clone(), asked.field("image").unwrap());
                Reply::Json(200, json!({"name": name, "subfolder": "", "type": "input"}))
            }
            ("POST", "/prompt") => {
                let body = asked.json();
                let seed = body["prompt"]["3"]["inputs"]["seed"].as_u64().unwrap();
                let begins = body["prompt"]["1"]["inputs"]["image"].as_str();
                let made = match begins {
                    None => seed_picture(seed),
                    Some(name) => {
                        let right = uploads.get(name) == Some(&seed_picture(seed));
                        let share = &body["prompt"]["3"]["inputs"]["denoise"];
                        match right && *share == 0.5 {
                            true => changed(seed),
                            false => return Reply::error(400, "wrong", "no such upload"),
                        }
                    }
                };
                let id = body["prompt_id"].as_str().unwrap();
                done.insert(id.to_owned(), made);
                Reply::Json(200, json!({"prompt_id": id, "node_errors": {}}))
            }
            (_, path) => match path.strip_prefix("/history/") {
                Some(id) if done.contains_key(id) => {
                    let image = json!({"filename": id, "subfolder": "", "type": "output"});
                    Reply::Json(200, json!({id: {"outputs": {"9": {"images": [image]}}}}))
                }
                Some(_) => Reply::Json(200, json!({})),
                None => {
                    let id = path.split(['=', '&']).nth(1).unwrap();
                    Reply::Bytes(200, "image/png", done[id].clone())
                }
            },
        }
    }
}

#[test]
fn comfyui_changes_pictures_by_a_graph_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let comfy = Comfy::default();
    let stub = Stub::start(move |asked| comfy.answer(asked)).unwrap();
    let mut graph = json!({
        "3": {"class_type": "KSampler", "inputs": {"seed": 1}},
        "6": {"class_type": "CLIPTextEncode", "inputs": {"text": "{prompt}"}},
        "9": {"class_type": "SaveImage", "inputs": {"filename_prefix": "ComfyUI", "images": ["8", 0]}},
    });
    fs::write(folder.path().join("make.json"), graph.to_string()).unwrap();
    graph["1"] = json!({"class_type": "LoadImage", "inputs": {"image": "{image}"}});
    graph["3"]["inputs"]["denoise"] = json!("{strength}");
    fs::write(folder.path().join("change.json"), graph.to_string()).unwrap();
    graph["3"]["inputs"]["steps"] = json!(20);
    fs::write(folder.path().join("stepped.json"), graph.to_string()).unwrap();
    let with = |more: &[&str]| {
        let args = [&["--endpoint", &stub.address, "--workflow"], more].concat();
        edit(folder.path(), &args)
    };
    for (more, wanted) in [
        (&["make.json"][..], "Give --edit-workflow too"),
        (
            &["make.json", "--edit-workflow", "make.json"],
            "make.json does not begin with a picture",
        ),
        (
            &[
                "make.json",
                "--edit-workflow",
                "change.json",
                "--steps",
                "9",
            ],
            "--steps would do nothing, since change.json has no place for it",
        ),
        (
            &[
                "make.json",
                "--edit-workflow",
                "stepped.json",
                "--steps",
                "9",
            ],
            "--steps would do nothing, since make.json has no place for it",
        ),
        (
            &[
                "make.json",
                "--edit-workflow",
                "stepped.json",
                "--guidance-scale",
                "3",
            ],
            "give a node a number called cfg",
        ),
        (
            &[
                "make.json",
                "--edit-workflow",
                "change.json",
                "--negative-prompt",
                "blur",
            ],
            "write {negative_prompt} into the text",
        ),
        (
            &["change.json", "--edit-workflow", "change.json"],
            "change begins with a picture ({image} in its workflow), but \"seed_0000\" has none",
        ),
    ] {
        let error = refused(with(more));
        assert!(error.contains(wanted), "{error}");
    }
    assert!(stub.asked().iter().all(|asked| asked.method == "GET"));
    finish(with(&["make.json", "--edit-workflow", "change.json"]));
    all_there(folder.path());
    // The seed pictures could not be changed by the graph that makes them.
    let line = json!({"prompt_id": "own", "prompt": "One animal is sleeping.", "objects": ["dog"], "relations": [],
        "edit": {"picture": "run/seeds/prompt-only/images/prompt-only_seed_0000_seed0000.png"}});
    fs::write(folder.path().join("own.jsonl"), line.to_string()).unwrap();
    let mut command = program::prepose();
    command
        .args(["run", "own.jsonl", "--device", "flex", "--checker", "none"])
        .args(["--seeds", "0", "--out", "own-run"])
        .args(["--endpoint", &stub.address, "--workflow", "make.json"])
        .current_dir(folder.path());
    let error = refused(command);
    assert!(
        error.contains("\"own\" changes a picture, but make only makes pictures from nothing"),
        "{error}"
    );
}

/// A maker in the shell: `SEED.png` from nothing, and `1SEED.png` from that.
const MAKER: &str = r#"
field() { printf '%s\n' "$line" | sed "s/.*\"$1\":\"\{0,1\}\([^\",}]*\)\"\{0,1\}[,}].*/\1/"; }
echo "{\"type\":\"hello\",\"protocol\":1,\"name\":\"both\",\"edits\":$EDITS}"
while read -r line; do
  id=$(field id); out=$(field out); seed=$(field seed)
  case "$line" in
    *'"image":null'*) cp "$PICTURES/$seed.png" "$out/$id.png" || exit 3 ;;
    *) cmp "$(field image)" "$PICTURES/$seed.png" >&2 || exit 4
       [ "$(field strength)" = 0.5 ] || exit 5
       cp "$PICTURES/1$seed.png" "$out/$id.png" || exit 3 ;;
  esac
  echo "{\"type\":\"done\",\"id\":\"$id\",\"path\":\"$out/$id.png\"}"
done
"#;

#[test]
fn a_program_changes_pictures_if_it_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let pictures = folder.path().join("pictures");
    fs::create_dir(&pictures).unwrap();
    for seed in [0, 1] {
        fs::write(pictures.join(format!("{seed}.png")), seed_picture(seed)).unwrap();
        fs::write(pictures.join(format!("1{seed}.png")), changed(seed)).unwrap();
    }
    fs::write(folder.path().join("maker.sh"), MAKER).unwrap();
    let with = |edits: &str| {
        let mut command = edit(folder.path(), &["--maker", "sh maker.sh"]);
        command.env("PICTURES", &pictures).env("EDITS", edits);
        command
    };
    // Before it makes a seed picture that it could not change.
    let error = refused(with("false"));
    assert!(
        error.contains("both only makes pictures from nothing, but here they are changed next"),
        "{error}"
    );
    assert!(!folder.path().join("run").exists());
    finish(with("true"));
    all_there(folder.path());
}

#[test]
fn pictures_in_a_folder_cannot_be_changed() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("there")).unwrap();
    let more = [
        "--pictures",
        "there",
        "--name-template",
        "{prompt_id}_{seed}.png",
    ];
    let error = refused(edit(folder.path(), &more));
    assert!(
        error.contains("are already there") && error.contains("run mine.jsonl --pictures"),
        "{error}"
    );
    // Those that were changed elsewhere are measured.
    for id in ["under", "named"] {
        for seed in [0, 1] {
            let path = folder.path().join(format!("there/{id}_{seed}.png"));
            fs::write(path, changed(seed)).unwrap();
        }
    }
    let mut command = program::prepose();
    command
        .args(["run", "mine.jsonl", "--device", "flex", "--checker", "none"])
        .args(["--seeds", "0-1", "--out", "run"])
        .args(more)
        .current_dir(folder.path());
    finish(command);
    let images = fs::read_dir(folder.path().join("run/prompt-only/images")).unwrap();
    assert_eq!(images.count(), 4);
}
