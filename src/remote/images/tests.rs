//! The three kinds of servers, good and bad.

use std::sync::Mutex;
use std::time::Duration;

use base64::Engine as _;
use serde_json::{Value, json};

use super::*;
use crate::stub::{Asked, Reply, Stub};
use crate::{Client, Key, Retry, Settings};

/// The smallest PNG file that counts as one here.
const PNG: &[u8] = b"\x89PNG\r\n\x1a\n....IEND\xaeB`\x82";

fn encoded(bytes: &[u8]) -> String {
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

fn client(address: &str) -> Client {
    let settings = Settings {
        retry: Retry {
            attempts: 3,
            first: Duration::from_millis(1),
            ..Retry::default()
        },
        ..Settings::default()
    };
    Client::new(address, Some(Key::new("sk-SECRET", "K").unwrap()), settings).unwrap()
}

fn serve(answer: impl Fn(&Asked) -> Reply + Send + Sync + 'static) -> Stub {
    Stub::start(answer).unwrap()
}

fn request() -> PictureRequest<'static> {
    PictureRequest {
        name: "0123456789abcdef0123456789abcdef99",
        prompt: "a {seed} of \"cups\"",
        seed: u64::MAX,
        size: Some([512, 768]),
        ..PictureRequest::default()
    }
}

#[test]
fn openai_makes_and_edits() {
    let stub = serve(|asked| match asked.before {
        // Damaged once, then whole.
        0 => Reply::Json(200, json!({"data": [{"b64_json": "%%%"}]})),
        1 => Reply::Json(200, json!({"data": [{"b64_json": encoded(&PNG[..12])}]})),
        2 => Reply::Json(
            200,
            json!({"data": [{"b64_json": encoded(PNG), "revised_prompt": "cups", "seed": 3}]}),
        ),
        _ => Reply::Json(200, json!({"data": [{"b64_json": encoded(PNG)}]})),
    });
    let mut extra = Extra::default();
    extra.0.insert("seed".into(), json!("{seed}"));
    extra.0.insert("quality".into(), json!("low"));
    let server = OpenAiImages::new(client(&format!("{}/v1", stub.address)), "m", extra);
    let made = server.make(&request()).unwrap();
    assert_eq!(
        (made.bytes.as_slice(), made.attempts, made.seed),
        (PNG, 3, Some(3))
    );
    assert_eq!(made.revised_prompt.as_deref(), Some("cups"));
    let asked = &stub.asked()[2];
    assert_eq!(asked.path, "/v1/images/generations");
    assert_eq!(asked.header("idempotency-key"), Some(request().name));
    assert_eq!(
        asked.json(),
        json!({"model": "m", "prompt": "a {seed} of \"cups\"", "n": 1, "size": "512x768", "seed": u64::MAX, "quality": "low"})
    );
    let edit = PictureRequest {
        init: Some(PNG),
        ..request()
    };
    server.make(&edit).unwrap();
    let asked = &stub.asked()[3];
    assert_eq!(asked.path, "/v1/images/edits");
    assert_eq!(asked.field("image").as_deref(), Some(PNG));
    assert_eq!(
        asked.field("prompt").as_deref(),
        Some(request().prompt.as_bytes())
    );
    assert_eq!(asked.field("n").as_deref(), Some(&b"1"[..]));
}

#[test]
fn openai_says_no_in_many_ways() {
    let make = |reply: Reply| {
        let stub = serve(move |_| reply.clone());
        let server = OpenAiImages::new(client(&stub.address), "m", Extra::default());
        server.make(&request()).unwrap_err()
    };
    for reply in [
        Reply::error(400, "moderation_blocked", "no"),
        Reply::Json(200, json!({"data": []})),
        Reply::Json(200, json!({"data": [{"moderated": true}]})),
    ] {
        assert!(matches!(make(reply), RemoteError::Refused { .. }));
    }
    let damaged = make(Reply::Json(200, json!({"data": [{"b64_json": "AAAA"}]}))).to_string();
    assert!(
        damaged.contains("does not answer as a server of pictures does: a picture that is damaged"),
        "{damaged}"
    );
    let other = make(Reply::Json(200, json!({"hello": "world"}))).to_string();
    assert!(
        other.contains("does not answer as a server with OpenAI's images/generations does"),
        "{other}"
    );
}

#[test]
fn pictures_that_lie_elsewhere_are_fetched_without_the_key() {
    let files = serve(|_| Reply::Bytes(200, "image/png", PNG.to_vec()));
    let url = format!("{}/x.png?sig=1", files.address);
    let stub = serve(move |_| Reply::Json(200, json!({"data": [{"url": url}]})));
    let server = OpenAiImages::new(client(&stub.address), "m", Extra::default());
    assert_eq!(server.make(&request()).unwrap().bytes, PNG);
    assert_eq!(files.asked()[0].header("authorization"), None);
}

#[test]
fn the_web_ui_is_spoken_to() {
    let stub = serve(|asked| match asked.path.as_str() {
        "/sdapi/v1/sd-models" => Reply::Json(
            200,
            json!([{"title": "a.safetensors [1]", "model_name": "a"}]),
        ),
        _ => {
            let info = json!({"all_seeds": [77], "index_of_first_image": 1, "sd_model_name": "a"})
                .to_string();
            Reply::Json(200, json!({"images": ["grid", encoded(PNG)], "info": info}))
        }
    });
    let server = WebUi::new(client(&stub.address), Some("a".into()), Extra::default());
    server.check().unwrap();
    let made = server
        .make(&PictureRequest {
            steps: Some(9),
            guidance_scale: Some(3.5),
            ..request()
        })
        .unwrap();
    assert_eq!(
        (made.bytes.as_slice(), made.seed, made.model.as_deref()),
        (PNG, Some(77), Some("a"))
    );
    let sent = stub.asked()[1].json();
    assert_eq!(
        (&sent["width"], &sent["height"], &sent["steps"]),
        (&json!(512), &json!(768), &json!(9))
    );
    assert_eq!(
        (
            &sent["cfg_scale"],
            &sent["override_settings"]["sd_model_checkpoint"]
        ),
        (&json!(3.5), &json!("a"))
    );
    let server = WebUi::new(client(&stub.address), Some("b".into()), Extra::default());
    let error = server.check().unwrap_err().to_string();
    assert!(error.contains("no model \"b\", but a"), "{error}");
    let bare = serve(|_| Reply::Json(404, json!({"detail": "Not Found"})));
    let error = WebUi::new(client(&bare.address), None, Extra::default())
        .check()
        .unwrap_err()
        .to_string();
    assert!(
        error.ends_with("/sdapi/v1/sd-models answered 404: Not Found"),
        "{error}"
    );
}

#[test]
fn other_settings_of_the_web_ui_stand_beside_its_model() {
    let stub = serve(|_| Reply::Json(200, json!({"images": [encoded(PNG)], "info": "{}"})));
    let mut extra = Extra::default();
    extra.0.insert(
        "override_settings".into(),
        json!({"CLIP_stop_at_last_layers": 2}),
    );
    extra.0.insert("seed".into(), json!(-1));
    for (model, settings) in [
        (
            Some("a"),
            json!({"sd_model_checkpoint": "a", "CLIP_stop_at_last_layers": 2}),
        ),
        (None, json!({"CLIP_stop_at_last_layers": 2})),
    ] {
        let model = model.map(str::to_owned);
        let server = WebUi::new(client(&stub.address), model, extra.clone());
        server.make(&request()).unwrap();
        let sent = stub.asked().pop().unwrap().json();
        assert_eq!(sent["override_settings"], settings);
        // What is no object is replaced.
        assert_eq!(sent["seed"], -1);
    }
}

fn graph() -> Value {
    json!({
        "3": {"class_type": "KSampler", "inputs": {"seed": 1, "steps": 20, "cfg": 7.0, "model": ["4", 0]}},
        "5": {"class_type": "EmptyLatentImage", "inputs": {"width": 1024, "height": 1024, "batch_size": 1}},
        "6": {"class_type": "CLIPTextEncode", "inputs": {"text": "best, {prompt} {x}"}},
        "7": {"class_type": "CLIPTextEncode", "inputs": {"text": "{negative_prompt}"}},
        "9": {"class_type": "SaveImage", "inputs": {"filename_prefix": "ComfyUI", "images": ["8", 0]}},
    })
}

#[test]
fn comfyui_makes_a_graph_of_each_picture() {
    let stub = serve(|asked| {
        let done = json!({"status": {"status_str": "success"}, "outputs": {"9": {"images": [
            {"filename": "p.png", "subfolder": "", "type": "temp"},
            {"filename": "a b&.png", "subfolder": "s", "type": "output"}]}}});
        match (asked.method.as_str(), asked.path.as_str()) {
            ("POST", "/prompt") => Reply::Json(
                200,
                json!({"prompt_id": asked.json()["prompt_id"], "node_errors": {}}),
            ),
            (_, path) if path.starts_with("/history/") && asked.before < 3 => {
                Reply::Json(200, json!({}))
            }
            (_, path) if path.starts_with("/history/") => {
                Reply::Json(200, json!({&path[9..]: done}))
            }
            _ => Reply::Bytes(200, "image/png", PNG.to_vec()),
        }
    });
    let workflow = Workflow::parse(&graph().to_string()).unwrap();
    let server = ComfyUi::new(client(&stub.address), workflow);
    let made = server
        .make(&PictureRequest {
            negative_prompt: "blur",
            ..request()
        })
        .unwrap();
    assert_eq!((made.bytes.as_slice(), made.attempts), (PNG, 1));
    let id = "01234567-89ab-cdef-0123-456789abcdef";
    assert_eq!(made.request_id.as_deref(), Some(id));
    let all = stub.asked();
    let queued = all
        .iter()
        .find(|asked| asked.method == "POST")
        .unwrap()
        .json();
    assert_eq!(queued["prompt_id"], id);
    let nodes = &queued["prompt"];
    assert_eq!(
        nodes["3"]["inputs"],
        json!({"seed": u64::MAX, "steps": 20, "cfg": 7.0, "model": ["4", 0]})
    );
    assert_eq!(nodes["5"]["inputs"]["height"], 768);
    // A prompt's own braces are left alone.
    assert_eq!(
        nodes["6"]["inputs"]["text"],
        "best, a {seed} of \"cups\" {x}"
    );
    assert_eq!(nodes["7"]["inputs"]["text"], "blur");
    assert_eq!(
        all.last().unwrap().path,
        "/view?filename=a%20b%26.png&subfolder=s&type=output"
    );
    // What was made for a run that was killed is not made again.
    let before = stub.count();
    assert_eq!(server.make(&request()).unwrap().attempts, 0);
    assert!(
        stub.asked()[before..]
            .iter()
            .all(|asked| asked.method == "GET")
    );
}

/// It remembers graphs whose files are gone, and graphs that failed.
#[test]
fn comfyui_makes_anew_what_it_no_longer_has() {
    let made = |file: &str| {
        let image = json!({"filename": file, "subfolder": "", "type": "output"});
        json!({"outputs": {"9": {"images": [image]}}})
    };
    for (remembered, old) in [
        (made("old.png"), Reply::Json(404, json!({}))),
        (
            made("old.png"),
            Reply::Bytes(200, "text/plain", b"gone".to_vec()),
        ),
        (json!({"status": {"status_str": "error"}}), Reply::Close),
    ] {
        let (new, history) = (made("new.png"), Mutex::new(Some(remembered)));
        let stub = serve(move |asked| {
            let mut entry = history.lock().unwrap();
            match (asked.method.as_str(), asked.path.as_str()) {
                ("POST", "/history") => {
                    *entry = None;
                    Reply::Bytes(200, "text/plain", Vec::new())
                }
                ("POST", _) => {
                    // An earlier end of the same name is what is found until this graph has ended.
                    entry.get_or_insert_with(|| new.clone());
                    let id = asked.json()["prompt_id"].clone();
                    Reply::Json(200, json!({"prompt_id": id, "node_errors": {}}))
                }
                (_, path) if path.starts_with("/history/") => match &*entry {
                    Some(entry) => Reply::Json(200, json!({&path[9..]: entry})),
                    None => Reply::Json(200, json!({})),
                },
                (_, path) if path.contains("old.png") => old.clone(),
                _ => Reply::Bytes(200, "image/png", PNG.to_vec()),
            }
        });
        let workflow = Workflow::parse(&graph().to_string()).unwrap();
        let server = ComfyUi::new(client(&stub.address), workflow);
        let picture = server.make(&request()).unwrap();
        assert_eq!((picture.bytes.as_slice(), picture.attempts), (PNG, 1));
        let id = "01234567-89ab-cdef-0123-456789abcdef";
        assert_eq!(picture.request_id.as_deref(), Some(id));
        let posted: Vec<Asked> = (stub.asked().into_iter())
            .filter(|asked| asked.method == "POST")
            .collect();
        assert_eq!(posted[0].json(), json!({"delete": [id]}));
        let queued = posted[1].json();
        assert_eq!(queued["prompt_id"], id);
        // Of a graph that it knows it would tell the file that it wrote for it then.
        let prefix = queued["prompt"]["9"]["inputs"]["filename_prefix"].as_str();
        let first = format!("prepose-{}-", request().name);
        assert!(
            prefix.is_some_and(|prefix| prefix.starts_with(&first)),
            "{prefix:?}"
        );
        // Now it has it.
        assert_eq!(server.make(&request()).unwrap().attempts, 0);
    }
}

#[test]
fn graphs_that_fail_say_why() {
    let run = |queued: Value, done: Value| {
        let stub = serve(move |asked| match asked.method.as_str() {
            "POST" => Reply::Json(200, queued.clone()),
            _ if asked.before == 0 => Reply::Json(200, json!({})),
            _ => Reply::Json(200, json!({"x1": done.clone()})),
        });
        let workflow = Workflow::parse(&graph().to_string()).unwrap();
        ComfyUi::new(client(&stub.address), workflow)
            .make(&request())
            .unwrap_err()
            .to_string()
    };
    let queued = json!({"prompt_id": "x1", "node_errors": {}});
    let failed = json!({"status": {"status_str": "error", "messages": [["execution_start", {}],
        ["execution_error", {"exception_message": "out of memory"}]]}});
    let error = run(queued.clone(), failed);
    assert!(error.contains("the graph failed: out of memory"), "{error}");
    let error = run(queued, json!({"outputs": {}}));
    assert!(error.contains("made no picture"), "{error}");
    let error = run(
        json!({"prompt_id": "x1", "node_errors": {"3": {"errors": []}}}),
        json!({}),
    );
    assert!(error.contains("left out parts of the graph"), "{error}");
}

#[test]
fn graphs_have_places_for_wishes_or_none() {
    let takes = |graph: &Value| {
        let graph = Workflow::parse(&graph.to_string()).unwrap();
        [
            graph.takes_steps(),
            graph.takes_guidance_scale(),
            graph.takes_negative_prompt(),
        ]
    };
    let mut graph = graph();
    assert_eq!(takes(&graph), [true; 3]);
    // Steps that come from another node, a guider without cfg, and no text for what should not be there.
    graph["3"]["inputs"] = json!({"seed": 1, "steps": ["12", 0], "guidance": 3.5});
    graph["7"]["inputs"] = json!({"text": "blur"});
    graph["9"]["inputs"]["filename_prefix"] = json!("{negative_prompt}");
    assert_eq!(takes(&graph), [false; 3]);
}

#[test]
fn files_that_are_no_graph_are_refused() {
    let without = |id: &str| {
        let mut graph = graph();
        graph.as_object_mut().unwrap().remove(id);
        Workflow::parse(&graph.to_string()).unwrap_err()
    };
    assert_eq!(without("6"), WorkflowError::NoPrompt);
    assert_eq!(without("3"), WorkflowError::NoSeed);
    assert!(matches!(Workflow::parse("{"), Err(WorkflowError::Json(_))));
    assert_eq!(Workflow::parse("[]"), Err(WorkflowError::NoGraph));
    assert_eq!(Workflow::parse("{\"a\": 1}"), Err(WorkflowError::NoGraph));
    assert_eq!(
        Workflow::parse("{\"nodes\": [], \"links\": []}"),
        Err(WorkflowError::Interface)
    );
}
