//! Wrong requests to the page's own interface.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::{Case, JSON, asked, bomb, sent, wanted};

pub fn natives() -> Vec<Case> {
    let deep = [vec![b'['; 5000], vec![b']'; 5000]].concat();
    let cat = |name: &str, value: Value| {
        let mut request = json!({"prompt": "a dog to the left of a cat", "steps": 2});
        request[name] = value;
        request
    };
    vec![
        sent("/api/jobs", JSON, "", 400, "not JSON"),
        sent("/api/jobs", JSON, "{\"request\": ", 400, "not JSON"),
        sent("/api/read", JSON, deep, 422, "not what is asked for"),
        sent(
            "/api/jobs",
            JSON,
            b"{\"request\": {\"prompt\": \"\xff\xfe\"}}".to_vec(),
            400,
            "not JSON",
        ),
        sent("/api/jobs", JSON, "[]", 422, "an object"),
        sent("/api/read", JSON, "[\"a dog\"]", 422, "an object"),
        sent(
            "/api/jobs",
            JSON,
            "{\"request\": [\"a dog\"]}",
            422,
            "request: invalid type",
        ),
        sent(
            "/api/jobs",
            JSON,
            "{\"request\": {\"prompt\": \"a dog\"}} {}",
            400,
            "not JSON",
        ),
        sent("/api/jobs", JSON, "{}", 422, "request"),
        sent(
            "/api/jobs",
            "Content-Type: text/plain\n",
            "{}",
            415,
            "application/json",
        ),
        sent("/api/jobs", "", "{}", 415, "application/json"),
        sent(
            "/api/jobs",
            "Content-Type: application/x-www-form-urlencoded\n",
            "a=b",
            415,
            "application/json",
        ),
        wanted(json!({}), 422, "prompt"),
        wanted(json!({"prompt": 7}), 422, "string"),
        wanted(json!({"prompt": "  "}), 400, "empty"),
        wanted(json!({"prompt": "()"}), 400, "empty"),
        wanted(cat("pormpt", json!(1)), 422, "pormpt"),
        wanted(cat("steps", json!(0)), 400, "steps"),
        wanted(cat("steps", json!(-1)), 422, "usize"),
        wanted(cat("steps", json!(1_000_000)), 400, "steps"),
        wanted(
            cat("steps", json!("many")),
            422,
            "request.steps: invalid type",
        ),
        wanted(
            cat("loras", json!([["a", 1.0]])),
            422,
            "request.loras[0]: invalid type",
        ),
        wanted(
            cat("init", json!(["sha256:00", 0.5])),
            422,
            "request.init: invalid type",
        ),
        wanted(cat("width", json!(130)), 400, "128x128"),
        wanted(cat("width", json!(u64::MAX)), 400, "pixels"),
        wanted(cat("height", json!(1e300)), 422, "invalid"),
        wanted(cat("guidance_scale", json!(-1)), 400, "guidance scale"),
        wanted(cat("guidance_steps", json!("late")), 400, "look like"),
        wanted(cat("guidance_steps", json!([0, 1])), 400, "look like"),
        wanted(
            cat("guidance_steps", json!("1-0")),
            400,
            "the last of the guidance steps",
        ),
        wanted(cat("guidance_steps", json!({"first": 900})), 400, "900"),
        wanted(cat("scheduler", json!("magic")), 400, "magic"),
        wanted(cat("clip_skip", json!(99)), 400, "clip skip"),
        wanted(cat("noise", json!("pink")), 400, "pink"),
        wanted(cat("seed", json!(-3)), 422, "not a seed"),
        wanted(
            cat("seed", json!("18446744073709551616")),
            422,
            "not a seed",
        ),
        wanted(cat("relations", json!(["dog, cat"])), 400, "not written as"),
        wanted(
            cat("relations", json!(["dog | left of | unicorn"])),
            400,
            "unicorn",
        ),
        wanted(
            cat("boxes", json!([{"object": "dog", "box": [0, 0, 2, 1]}])),
            400,
            "not within the picture",
        ),
        wanted(
            cat("regions", json!([{"part": 2, "box": [0, 0, 1, 1]}])),
            400,
            "part 2",
        ),
        wanted(
            cat("regions", json!([{"part": 0, "box": [0, 0, 1, 1]}])),
            400,
            "part 0",
        ),
        wanted(
            cat("guide", json!({"method": "magic"})),
            400,
            "not a guidance method",
        ),
        wanted(
            cat("guide", json!({"method": "pos", "steps": 50})),
            400,
            "cannot be guided",
        ),
        wanted(
            cat("guide", json!({"method": "pos", "extra": 1})),
            400,
            "extra",
        ),
        wanted(
            cat("ground", json!({"share": 2})),
            400,
            "share of grounded steps",
        ),
        wanted(
            cat("checkpoint", json!("../../etc/passwd")),
            404,
            "there is no checkpoint",
        ),
        wanted(
            cat("loras", json!([{"name": "../x"}])),
            400,
            "there is no LoRA",
        ),
        wanted(cat("init", json!({"image": "/etc/passwd"})), 400, "picture"),
        wanted(
            cat("init", json!({"image": "http://127.0.0.1/x.png"})),
            400,
            "not fetched",
        ),
        wanted(
            cat("init", json!({"image": STANDARD.encode(bomb(60_000))})),
            400,
            "60000x60000",
        ),
        wanted(
            cat("init", json!({"image": STANDARD.encode(bomb(64))})),
            400,
            "damaged or cut short",
        ),
        wanted(
            cat("init", json!({"image": STANDARD.encode(b"GIF89a")})),
            400,
            "not a readable",
        ),
        sent(
            "/api/jobs",
            JSON,
            json!({"request": {"prompt": "a cat"}, "seeds": vec![1; 65]}).to_string(),
            400,
            "65 pictures",
        ),
        sent(
            "/api/jobs",
            JSON,
            json!({"request": {"prompt": "a cat"}, "search": {"best_of": u64::MAX}}).to_string(),
            400,
            "pictures",
        ),
        sent(
            "/api/jobs",
            JSON,
            json!({"request": {"prompt": "a cat"}, "search": {"best_of": 0}}).to_string(),
            400,
            "best of 0",
        ),
        sent(
            "/api/jobs",
            JSON,
            json!({"request": {"prompt": "a cat"}, "search": {"best_of": 2}}).to_string(),
            400,
            "no relation",
        ),
        sent(
            "/api/jobs",
            JSON,
            json!({"request": {"prompt": "a cat"}, "search": {"best_of": 2, "reward": "judge"}})
                .to_string(),
            400,
            "no judge",
        ),
        sent("/api/read", JSON, "{\"prompt\": 3}", 422, "string"),
        asked("GET", "/api/jobs/..%2f..%2fetc", "", 404, "no such job"),
        asked(
            "GET",
            "/api/pictures/..%2f..%2fCargo.toml",
            "",
            404,
            "no such picture",
        ),
        asked(
            "GET",
            "/api/pictures/..%2fx.png",
            "",
            404,
            "no such picture",
        ),
        asked("DELETE", "/api/pictures/%2e%2e", "", 404, ""),
        asked("GET", "/api/pictures?limit=-1", "", 400, "invalid"),
        asked("GET", "/runs/..%2f/report/x", "", 404, "no such run"),
        asked("GET", "/page/..%2fmod.rs", "", 404, "no such file"),
        asked("GET", "/nothing", "", 404, "nothing at this address"),
        asked("PATCH", "/api/jobs", "", 405, "not asked in that way"),
    ]
}
