//! The page's own interface.

use std::time::Duration;

use prepose::output::png::read_request;
use prepose::picture::Picture;
use serde_json::{Value, json};

use super::Server;
use crate::run::{finish, prepose};
use crate::support::root;

pub fn job(server: &Server, body: &Value) -> Value {
    let accepted = server.post("/api/jobs", body);
    assert_eq!(accepted.status, 202, "{}", accepted.text());
    let path = format!("/api/jobs/{}", accepted.json()["id"].as_str().unwrap());
    loop {
        let state = server.get(&path).json();
        match state["status"].as_str() {
            Some("queued" | "running") => std::thread::sleep(Duration::from_millis(50)),
            _ => return state,
        }
    }
}

pub fn of<'a>(state: &'a Value, kind: &str) -> Vec<&'a Value> {
    let events = state["events"].as_array().unwrap().iter();
    events
        .filter(|event| event[0] == kind)
        .map(|event| &event[1])
        .collect()
}

pub fn pixels(png: &[u8]) -> Vec<u8> {
    Picture::decode(png).unwrap().rgb
}

#[test]
fn plain_and_guided_pictures_are_those_of_the_command_line() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &["--no-token", "--batch", "2"]);
    let prompt = "a dog to the left of a cat";
    let request = json!({"prompt": prompt, "steps": 4, "guide": {"method": "pos"}});
    let state = job(
        &server,
        &json!({"request": request, "seeds": [3, 4], "plain": true, "maps": false}),
    );
    assert_eq!(state["status"], "done", "{state}");
    let pictures = of(&state, "picture");
    assert_eq!(pictures.len(), 4);
    for (kind, more) in [("plain", &[][..]), ("guided", &["--guide", "pos"])] {
        let out = folder.path().join(kind);
        let mut command = prepose(&[
            "generate", prompt, "--steps", "4", "--seeds", "3,4", "--batch", "2", "--quiet",
        ]);
        command.args(more).arg("--out").arg(&out);
        finish(command);
        let mut files: Vec<_> = std::fs::read_dir(&out)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        files.retain(|path| path.extension().is_some_and(|ending| ending == "png"));
        files.sort();
        let mut served: Vec<_> = pictures
            .iter()
            .filter(|picture| picture["kind"] == kind)
            .collect();
        served.sort_by_key(|picture| picture["seed"].as_u64());
        assert_eq!(files.len(), served.len());
        for (file, picture) in files.iter().zip(served) {
            let path = format!("/api/pictures/{}.png", picture["id"].as_str().unwrap());
            let answer = server.get(&path);
            assert!(answer.head.contains("content-type: image/png"));
            assert!(
                pixels(&answer.body) == pixels(&std::fs::read(file).unwrap()),
                "{kind} {picture}"
            );
            assert!(picture["verdict"]["status"].is_string(), "{picture}");
            let copy = folder.path().join("served.png");
            std::fs::write(&copy, &answer.body).unwrap();
            let [made, served] = [file, &copy].map(|path| read_request(path).unwrap().model);
            assert_eq!(made, served, "the same networks by the same hash");
        }
    }
    let listed = server.get("/api/pictures?limit=3").json();
    assert_eq!(
        (
            listed["total"].as_u64(),
            listed["pictures"].as_array().unwrap().len()
        ),
        (Some(4), 3)
    );
    let page = server.get("/");
    assert!(
        page.status == 200
            && page
                .head
                .contains("content-security-policy: default-src 'none'")
    );
    assert!(!page.head.contains("unsafe"));
}

#[test]
fn what_is_left_out_is_said_as_on_the_command_line() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &["--no-token"]);
    let savings = json!({"deep_cache": {"every": 2}, "tgate": 2, "token_merging": 0.5});
    let guide = json!({"method": "pos", "steps": 2, "every": 2});
    let prompt = "a dog to the left of a cat";
    let request = json!({"prompt": prompt, "steps": 4, "seed": 3, "guide": guide, "savings": savings,
                         "timestep_spacing": "trailing"});
    let state = job(
        &server,
        &json!({"request": request, "maps": false, "check": false}),
    );
    assert_eq!(state["status"], "done", "{state}");
    let id = of(&state, "picture")[0]["id"].as_str().unwrap();
    let served = server.get(&format!("/api/pictures/{id}.png")).body;
    let file = folder.path().join("a.png");
    let mut command = prepose(&["generate", prompt, "--steps", "4", "--seed", "3", "--quiet"]);
    command.args(["--guide", "pos", "--guide-steps", "2", "--guide-every", "2"]);
    command.args([
        "--deep-cache",
        "2",
        "--tgate",
        "2",
        "--token-merging",
        "0.5",
    ]);
    command
        .args(["--timestep-spacing", "trailing"])
        .arg("--out")
        .arg(&file);
    finish(command);
    assert!(pixels(&served) == pixels(&std::fs::read(file).unwrap()));
    let mut wrong = request;
    wrong["savings"]["tgate"] = json!(1);
    let refused = server.post("/api/jobs", &json!({"request": wrong}));
    assert_eq!(
        (refused.status, refused.json()["error"]["param"].as_str()),
        (400, Some("request.savings"))
    );
}

/// Its checkpoints have classifiers of their own, whichever one a picture was made with elsewhere.
#[test]
fn a_classifier_from_elsewhere_is_not_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let toybox = root().join("weights/toybox");
    let networks = ["--no-token", "--checkpoint", toybox.to_str().unwrap()];
    let server = Server::start(folder.path(), &networks);
    let guide =
        json!({"method": "steer", "steps": 1, "updates": 1, "classifier_sha256": "0".repeat(64)});
    let request = json!({"prompt": "a dog to the left of a cat", "steps": 2, "guide": guide});
    let body = json!({"request": request, "maps": false, "check": false});
    let state = job(&server, &body);
    assert_eq!(state["status"], "done", "{state}");
}

#[test]
fn steps_can_be_watched_and_searches_end_with_the_best() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &["--no-token"]);
    let mut stream = server.connect();
    use std::io::{BufRead, BufReader, Write};
    write!(
        stream,
        "GET /api/events HTTP/1.1\r\nHost: {}\r\n\r\n",
        server.address
    )
    .unwrap();
    let mut lines = BufReader::new(stream).lines();
    assert!(lines.any(|line| line.unwrap() == ": prepose"));
    let request =
        json!({"prompt": "a dog to the left of a cat", "steps": 4, "guide": {"method": "pos"}});
    let state = job(&server, &json!({"request": request, "seeds": [1]}));
    assert_eq!(
        (
            of(&state, "preview").len(),
            of(&state, "maps").len(),
            of(&state, "trace").len()
        ),
        (3, 4, 4)
    );
    let trace = of(&state, "trace")[0];
    assert!(
        trace["loss"].is_number() && trace["pos"][0].is_number(),
        "{trace}"
    );
    let maps = of(&state, "maps")[0];
    assert_eq!(
        (&maps["objects"][0]["name"], &maps["objects"][1]["name"]),
        (&json!("dog"), &json!("cat"))
    );
    let heard: Vec<String> = lines
        .map(Result::unwrap)
        .filter_map(|line| line.strip_prefix("event: ").map(str::to_owned))
        .take_while(|kind| kind != "done")
        .collect();
    for kind in [
        "queued", "started", "step", "preview", "maps", "trace", "picture",
    ] {
        assert!(heard.iter().any(|one| one == kind), "{kind} of {heard:?}");
    }
    let request = json!({"prompt": "a dog to the left of a cat", "steps": 8});
    let body = json!({"request": request, "search": {"best_of": 4, "pruning": [2]}});
    let state = job(&server, &body);
    let rounds = of(&state, "candidates");
    assert_eq!(rounds[0]["dropped"].as_array().unwrap().len(), 2);
    assert_eq!(
        rounds[0]["scores"].as_array().unwrap().len(),
        4,
        "{rounds:?}"
    );
    let scores: Vec<f64> = rounds.last().unwrap()["scores"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["score"].as_f64().unwrap())
        .collect();
    let picture = of(&state, "picture")[0];
    assert_eq!(scores.len(), 4);
    assert_eq!(
        scores[picture["lane"].as_u64().unwrap() as usize],
        picture["score"].as_f64().unwrap()
    );
    // Two of four went after two of eight steps. Nobody listens any more, so that maps are not sent.
    let traced = |lane: usize| {
        let traces = of(&state, "trace").into_iter();
        traces.filter(|trace| trace["lane"] == lane).count()
    };
    let traced: Vec<usize> = (0..4).map(traced).collect();
    let mut sorted = traced.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, [2, 2, 8, 8], "{traced:?}");
}

/// Where each candidate of a search looks, for those who watch; and which are dropped where they do not fit into one batch.
#[test]
fn the_maps_of_searches_can_be_watched() {
    use std::io::{BufRead, BufReader, Write};
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &["--no-token"]);
    let mut stream = server.connect();
    write!(
        stream,
        "GET /api/events HTTP/1.1\r\nHost: {}\r\n\r\n",
        server.address
    )
    .unwrap();
    let mut lines = BufReader::new(stream).lines();
    assert!(lines.any(|line| line.unwrap() == ": prepose"));
    let request = json!({"prompt": "a dog to the left of a cat", "steps": 4});
    let search = json!({"best_of": 18, "pruning": [1, 2]});
    let body = json!({"request": request, "search": search, "check": false});
    let state = job(&server, &body);
    let best = of(&state, "picture")[0]["lane"].as_u64().unwrap() as usize;
    let mut steps = vec![Vec::new(); 18];
    for maps in of(&state, "maps") {
        let lane = maps["lane"].as_u64().unwrap() as usize;
        steps[lane].push(maps["step"].as_u64().unwrap());
        assert_eq!(
            (&maps["objects"][0]["name"], &maps["objects"][1]["name"]),
            (&json!("dog"), &json!("cat"))
        );
    }
    let mut dropped = vec![4; 18];
    for round in of(&state, "candidates") {
        for lane in round["dropped"].as_array().unwrap() {
            dropped[lane.as_u64().unwrap() as usize] = round["step"].as_u64().unwrap();
        }
    }
    // Each was seen in every step that it was taken through, and in no other: 9 went after the first, 4 after the second.
    for (steps, dropped) in steps.iter().zip(&dropped) {
        assert_eq!(*steps, (1..=*dropped).collect::<Vec<u64>>());
    }
    assert_eq!(dropped[best], 4);
    let count = |after: u64| dropped.iter().filter(|step| **step == after).count();
    assert_eq!([count(1), count(2), count(4)], [9, 4, 5]);
}

#[test]
fn what_nobody_wants_any_more_is_not_made_and_a_kill_breaks_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = Server::start(folder.path(), &["--no-token"]);
    let long = json!({"request": {"prompt": "a dog", "steps": 150}, "seeds": [1, 2, 3]});
    let id = server.post("/api/jobs", &long).json()["id"]
        .as_str()
        .unwrap()
        .to_owned();
    assert_eq!(
        server
            .ask("DELETE", &format!("/api/jobs/{id}"), "", b"")
            .status,
        204
    );
    // The next one's turn comes within a step, not after 450 of them.
    let state = job(
        &server,
        &json!({"request": {"prompt": "a cat", "steps": 2}}),
    );
    assert_eq!(state["status"], "done");
    assert_eq!(
        server.get(&format!("/api/jobs/{id}")).json()["status"],
        "cancelled"
    );
    server.post(
        "/api/jobs",
        &json!({"request": {"prompt": "a cat", "steps": 2}, "seeds": [1, 2, 3, 4, 5, 6, 7, 8]}),
    );
    std::thread::sleep(Duration::from_millis(300));
    server.kill();
    let server = Server::start(folder.path(), &["--no-token"]);
    let listed = server.get("/api/pictures?limit=100").json();
    let pictures = listed["pictures"].as_array().unwrap();
    assert!(!pictures.is_empty());
    for picture in pictures {
        let answer = server.get(&format!(
            "/api/pictures/{}.png",
            picture["id"].as_str().unwrap()
        ));
        assert_eq!(pixels(&answer.body).len(), 128 * 128 * 3);
    }
}

#[cfg(unix)]
#[test]
fn it_ends_when_it_is_told_to() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &["--no-token"]);
    let state = job(
        &server,
        &json!({"request": {"prompt": "a cat", "steps": 2}}),
    );
    assert_eq!(state["status"], "done");
    assert_eq!(server.get("/ready").status, 200);
    assert_eq!(server.terminate(), Some(0));
}

#[test]
fn tokens_keep_callers_apart() {
    let folder = tempfile::tempdir().unwrap();
    let tokens = folder.path().join("tokens.txt");
    std::fs::write(&tokens, "first-token\nsecond-token\n").unwrap();
    let server = Server::start(folder.path(), &["--token-file", tokens.to_str().unwrap()]);
    for path in [
        "/api/about",
        "/api/jobs",
        "/v1/models",
        "/sdapi/v1/options",
        "/metrics",
        "/api/events",
        "/runs/x/report/",
    ] {
        assert_eq!(server.get(path).status, 401, "{path}");
    }
    for path in ["/", "/health", "/openapi.json", "/page/main.js"] {
        assert_eq!(server.get(path).status, 200, "{path}");
    }
    // It may be loading.
    assert!([200, 503].contains(&server.get("/ready").status));
    let of =
        |token: &str| format!("Authorization: Bearer {token}\nContent-Type: application/json\n");
    let body = json!({"request": {"prompt": "a cat", "steps": 2}}).to_string();
    let accepted = server.ask("POST", "/api/jobs", &of("first-token"), body.as_bytes());
    let path = format!("/api/jobs/{}", accepted.json()["id"].as_str().unwrap());
    assert_eq!(
        server.ask("GET", &path, &of("second-token"), b"").status,
        404
    );
    assert_eq!(
        server.ask("GET", &path, &of("first-token"), b"").status,
        200
    );
    let body = json!({"token": "second-token"}).to_string();
    let opened = server.ask(
        "POST",
        "/api/session",
        "Content-Type: application/json\n",
        body.as_bytes(),
    );
    assert_eq!(opened.status, 204);
    let cookie = opened
        .head
        .lines()
        .find_map(|line| line.strip_prefix("set-cookie: "))
        .unwrap();
    assert!(
        cookie.contains("httponly") && cookie.contains("samesite=strict"),
        "{cookie}"
    );
    let cookie = format!("Cookie: {}\n", cookie.split(';').next().unwrap());
    assert_eq!(server.ask("GET", "/api/about", &cookie, b"").status, 200);
}

#[test]
fn the_history_outlives_a_token_that_was_made_up() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &["--no-token"]);
    let body = json!({"request": {"prompt": "a dog", "steps": 2}, "check": false});
    assert_eq!(job(&server, &body)["status"], "done");
    drop(server);
    let total = |server: &Server, token: &str| {
        let headers = format!("Authorization: Bearer {token}\n");
        let listed = server.ask("GET", "/api/pictures", &headers, b"");
        listed.json()["total"].as_u64()
    };
    let server = Server::start(folder.path(), &[]);
    assert_eq!(total(&server, server.token.as_ref().unwrap()), Some(1));
    drop(server);
    // Whoever has a token of their own did not make it.
    let tokens = folder.path().join("tokens.txt");
    std::fs::write(&tokens, "first-token\n").unwrap();
    let server = Server::start(folder.path(), &["--token-file", tokens.to_str().unwrap()]);
    assert_eq!(total(&server, "first-token"), Some(0));
}

/// A start picture goes into a request by its bytes; what is spelt of it reads a file, and makes the same picture.
#[test]
fn a_start_picture_is_sent_and_spelt() {
    use base64::Engine as _;
    let folder = tempfile::tempdir().unwrap();
    let start = folder.path().join("start.png");
    let mut command = prepose(&["generate", "a dog", "--steps", "2", "--quiet", "--out"]);
    command.arg(&start);
    finish(command);
    let server = Server::start(folder.path(), &["--no-token"]);
    let image = base64::engine::general_purpose::STANDARD.encode(std::fs::read(&start).unwrap());
    let wanted = |strength: f64| {
        let init = json!({"image": image, "strength": strength});
        let request = json!({"prompt": "it's a cat", "steps": 4, "noise": "philox", "init": init});
        json!({"request": request, "seeds": [5], "maps": false})
    };
    let state = job(&server, &wanted(0.6));
    let picture = of(&state, "picture")[0]["id"].as_str().unwrap().to_owned();
    let served = server.get(&format!("/api/pictures/{picture}.png")).body;
    assert!(!state.to_string().contains(&image));

    let spelt = server.post("/api/spell", &wanted(0.6)).json();
    for (form, signs) in [
        (
            "command",
            &["--init-image start.png --strength 0.6", "--noise philox"][..],
        ),
        (
            "python",
            &["open(\"start.png\", \"rb\")", "base64.b64encode"],
        ),
        ("curl", &["base64 < start.png", "-d @-"]),
        ("json", &["\"image\": \"start.png\""]),
    ] {
        let text = spelt[form].as_str().unwrap();
        assert!(!text.contains(&image), "{form}");
        for sign in signs {
            assert!(text.contains(sign), "{form}: {text}");
        }
    }
    let command = spelt["command"].as_str().unwrap();
    let command = command.replacen("prepose", env!("CARGO_BIN_EXE_prepose"), 1);
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", &format!("{command} --quiet --out again.png")]);
    shell.current_dir(folder.path());
    finish(shell);
    let again = std::fs::read(folder.path().join("again.png")).unwrap();
    assert!(pixels(&again) == pixels(&served));

    let refused = server.post("/api/jobs", &wanted(1.5));
    assert_eq!(refused.status, 400);
    assert_eq!(refused.json()["error"]["param"], "request.init.strength");
}
