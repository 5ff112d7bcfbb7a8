//! AUTOMATIC1111's lists and settings. Clients ask for all of them and take a missing one for a broken server.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::Response;
use axum::routing::{get, post};
use serde_json::{Map, Value, json};

use super::body::{self, Typed};
use super::native::{answer, aside};
use super::sdapi::{Fields, Told, model_named, refuse_standing};
use super::{Shared, openai, options};
use crate::app::App;
use crate::picture;

/// Lists that are empty here.
const EMPTY: [&str; 7] = [
    "sd-vae",
    "sd-modules",
    "prompt-styles",
    "hypernetworks",
    "face-restorers",
    "extensions",
    "realesrgan-models",
];
/// What there is nothing to do for.
const NOTHING: [&str; 5] = [
    "refresh-checkpoints",
    "refresh-vae",
    "refresh-embeddings",
    "unload-checkpoint",
    "reload-checkpoint",
];

/// The routes.
pub fn routes() -> Router<Arc<App>> {
    let mut routes = Router::new()
        .route("/sdapi/v1/options", get(settings).post(set))
        .route("/sdapi/v1/sd-models", get(models))
        .route("/sdapi/v1/samplers", get(samplers))
        .route("/sdapi/v1/schedulers", get(schedulers))
        .route("/sdapi/v1/loras", get(loras))
        .route("/sdapi/v1/refresh-loras", post(refresh_loras))
        .route("/sdapi/v1/upscalers", get(upscalers))
        .route("/sdapi/v1/latent-upscale-modes", get(latent_upscale_modes))
        .route(
            "/sdapi/v1/embeddings",
            get(|| async { answer(&json!({"loaded": {}, "skipped": {}})) }),
        )
        .route(
            "/sdapi/v1/scripts",
            get(|| async { answer(&json!({"txt2img": ["prepose"], "img2img": ["prepose"]})) }),
        )
        .route("/sdapi/v1/script-info", get(script_info))
        .route("/sdapi/v1/cmd-flags", get(|| async { answer(&json!({})) }))
        .route("/sdapi/v1/memory", get(memory))
        .route("/sdapi/v1/png-info", post(png_info));
    for name in EMPTY {
        routes = routes.route(
            &format!("/sdapi/v1/{name}"),
            get(|| async { answer(&json!([])) }),
        );
    }
    for name in NOTHING {
        routes = routes.route(
            &format!("/sdapi/v1/{name}"),
            post(|| async { answer(&json!(null)) }),
        );
    }
    routes
}

async fn models(State(app): Shared) -> Response<Body> {
    let models: Vec<Value> = (openai::names(&app).iter())
        .map(|name| json!({"title": name, "model_name": name, "hash": null, "sha256": null, "filename": name, "config": null}))
        .collect();
    answer(&json!(models))
}

async fn samplers() -> Response<Body> {
    let all = options::SAMPLERS.map(|(ours, label, others)| {
        let aliases: Vec<&str> = std::iter::once(ours)
            .chain(others.iter().copied())
            .collect();
        json!({"name": label, "aliases": aliases, "options": {}})
    });
    answer(&json!(all))
}

async fn schedulers() -> Response<Body> {
    let all = options::SCHEDULES.map(|(name, label)| {
        json!({"name": name, "label": label, "aliases": null, "default_rho": -1.0, "need_inner_model": false})
    });
    answer(&json!(all))
}

async fn loras(State(app): Shared) -> Response<Body> {
    let about = app.studio.about();
    let loras = about["loras"].as_array().cloned().unwrap_or_default();
    let loras: Vec<Value> = (loras.iter())
        .map(|lora| json!({"name": lora["name"], "alias": lora["name"], "path": lora["name"], "metadata": {}}))
        .collect();
    answer(&json!(loras))
}

async fn refresh_loras(State(app): Shared) -> Told {
    let seen = aside(&app, |app| app.studio.refresh_loras().map_err(Into::into));
    seen.await?;
    Ok(answer(&json!(null)))
}

async fn upscalers() -> Response<Body> {
    let of = |(name, scale): (&str, u32)| json!({"name": name, "model_name": null, "model_path": null, "model_url": null, "scale": scale});
    answer(&json!([("None", 1), ("Lanczos", 4)].map(of)))
}

async fn latent_upscale_modes() -> Response<Body> {
    let labels = options::UPSCALERS.iter().map(|(_, label)| *label);
    let modes = labels.filter(|label| label.starts_with("Latent"));
    let modes: Vec<Value> = modes.map(|name| json!({"name": name})).collect();
    answer(&json!(modes))
}

async fn script_info() -> Response<Body> {
    let args = [
        json!({"label": "fields", "value": {}, "minimum": null, "maximum": null, "step": null, "choices": null}),
    ];
    let of = |img2img: bool| json!({"name": "prepose", "is_alwayson": true, "is_img2img": img2img, "args": args});
    answer(&json!([of(false), of(true)]))
}

async fn memory() -> Response<Body> {
    let used = crate::metrics::resident().unwrap_or(0);
    answer(&json!({"ram": {"used": used}, "cuda": {}}))
}

async fn settings(State(app): Shared) -> Response<Body> {
    let first = openai::names(&app).into_iter().next();
    answer(&json!({
        "sd_model_checkpoint": first, "sd_vae": "Automatic", "CLIP_stop_at_last_layers": 1, "samples_format": "png",
        "forge_preset": "sd", "sd_checkpoint_hash": null,
    }))
}

/// Which checkpoint is the default is decided when the server is started; clients that send all settings back are let through.
async fn set(State(app): Shared, request: Request) -> Told {
    let fields: Map<String, Value> = body::json(request, &app.limits, Typed::UnlessEmpty).await?;
    if let Some(model) = fields
        .get("sd_model_checkpoint")
        .and_then(Value::as_str)
        .filter(|name| !name.is_empty())
    {
        let found = model_named(&app, model)?;
        if Some(&found) != openai::names(&app).first() {
            let message = "the checkpoint is chosen with each request here: override_settings.sd_model_checkpoint";
            return Err(crate::problem::Refusal::new("sd_model_checkpoint", message).into());
        }
    }
    refuse_standing(&Fields(fields))?;
    Ok(answer(&json!(null)))
}

async fn png_info(State(app): Shared, request: Request) -> Told {
    let fields: Map<String, Value> = body::json(request, &app.limits, Typed::Always).await?;
    let image = fields
        .get("image")
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned();
    let told = aside(&app, move |app| {
        let bytes = picture::from_base64(&image, "image")?;
        picture::clean(&bytes, app.limits.pixels_sent, "image")?;
        let text = infotext(&bytes);
        Ok(json!({"info": text, "items": {"parameters": text}, "parameters": {}}))
    });
    Ok(answer(&told.await?))
}

/// The text under `parameters` in a PNG; empty if there is none.
pub(super) fn infotext(png: &[u8]) -> String {
    const MOST: usize = 1 << 20;
    let mut rest = png.get(8..).unwrap_or_default();
    while let Some(head) = rest.first_chunk::<8>() {
        let length = u32::from_be_bytes([head[0], head[1], head[2], head[3]]) as usize;
        let Some(data) = length.checked_add(8).and_then(|end| rest.get(8..end)) else {
            break;
        };
        let text = match &head[4..] {
            b"tEXt" => data
                .strip_prefix(b"parameters\0")
                .map(|text| text.iter().map(|byte| char::from(*byte)).collect()),
            // Not compressed, no language.
            b"iTXt" => data
                .strip_prefix(b"parameters\0\0\0\0\0")
                .map(|text| String::from_utf8_lossy(text).into_owned()),
            _ => None,
        };
        if let Some(text) = text.filter(|text: &String| text.len() <= MOST) {
            return text;
        }
        rest = rest.get(length + 12..).unwrap_or_default();
    }
    String::new()
}
