//! Wrong requests to other programs' interfaces, and from strangers.

use serde_json::{Value, json};

use super::{Case, FORM, JSON, asked, sent};

pub fn foreign() -> Vec<Case> {
    let pictures = "/v1/images/generations";
    let image = |value: Value| sent(pictures, JSON, value.to_string(), 400, "");
    let says = |case: Case, says| Case { says, ..case };
    vec![
        says(image(json!({"n": 1})), "no prompt"),
        says(image(json!({"prompt": "a cat", "n": 11})), "1 to 10"),
        says(
            image(json!({"prompt": "a cat", "size": "big"})),
            "WIDTHxHEIGHT",
        ),
        says(
            image(json!({"prompt": "a cat", "size": "100x100"})),
            "nearest",
        ),
        says(
            image(json!({"prompt": "a cat", "response_format": "url"})),
            "b64_json",
        ),
        says(
            image(json!({"prompt": "a cat", "background": "transparent"})),
            "transparent",
        ),
        says(
            image(json!({"prompt": "a cat", "stream": true, "n": 2})),
            "one picture",
        ),
        says(
            image(json!({"prompt": "a cat", "prepose": {"pormpt": 1}})),
            "pormpt",
        ),
        Case {
            status: 404,
            says: "there is no model",
            ..image(json!({"prompt": "a cat", "model": "dall-e-3"}))
        },
        sent("/v1/images/edits", JSON, "{}", 415, "multipart"),
        sent("/v1/images/edits", FORM, "--b\r\n\r\n", 400, "form"),
        sent("/v1/images/edits", FORM, "--b--\r\n", 400, "image"),
        sent(
            "/v1/images/edits",
            FORM,
            "--b\r\nContent-Disposition: form-data; name=\"image\"; filename=\"/etc/passwd\"\r\n\r\nx\r\n--b--\r\n",
            400,
            "prompt",
        ),
        sent(
            "/v1/images/edits",
            "Content-Type: multipart/form-data\n",
            "x",
            400,
            "form",
        ),
        sent("/sdapi/v1/txt2img", JSON, "[]", 422, "an object"),
        sent(
            "/sdapi/v1/options",
            JSON,
            "{\"CLIP_stop_at_last_layers\": 2}",
            400,
            "override_settings.CLIP_stop_at_last_layers",
        ),
        sent(
            "/sdapi/v1/options",
            JSON,
            "{\"sd_vae\": \"other.safetensors\"}",
            400,
            "sd_vae",
        ),
        sent(
            "/sdapi/v1/txt2img",
            JSON,
            "{\"prompt\": 3}",
            400,
            "prompt is a text",
        ),
        sent(
            "/sdapi/v1/txt2img",
            JSON,
            "{\"prompt\": \"a cat\", \"steps\": 2.5}",
            400,
            "whole number",
        ),
        sent(
            "/sdapi/v1/txt2img",
            JSON,
            "{\"prompt\": \"a cat\", \"batch_size\": 1000000, \"n_iter\": 1000000}",
            400,
            "pictures",
        ),
        sent(
            "/sdapi/v1/txt2img",
            JSON,
            "{\"prompt\": \"a cat <lora:../x:1>\"}",
            400,
            "there is no LoRA",
        ),
        sent(
            "/sdapi/v1/txt2img",
            JSON,
            "{\"prompt\": \"a cat <lora:ink:te=0:unet=0.3>\"}",
            400,
            "one weight here, not 0 and 0.3",
        ),
        sent(
            "/sdapi/v1/txt2img",
            JSON,
            "{\"prompt\": \"a cat\", \"alwayson_scripts\": {\"prepose\": {\"args\": [{\"gide\": {}}]}}}",
            400,
            "gide",
        ),
        sent(
            "/sdapi/v1/txt2img",
            JSON,
            "{\"prompt\": \"a cat\", \"enable_hr\": true, \"hr_upscaler\": \"R-ESRGAN 4x+\"}",
            400,
            "Latent (nearest)",
        ),
        sent(
            "/sdapi/v1/txt2img",
            JSON,
            "{\"prompt\": \"a cat\", \"enable_hr\": true, \"hr_scale\": 1e9}",
            400,
            "hr_scale is from 1 to 64",
        ),
        sent(
            "/sdapi/v1/txt2img",
            JSON,
            "{\"prompt\": \"a cat\", \"enable_hr\": true, \"denoising_strength\": 0}",
            400,
            "above 0",
        ),
        sent(
            "/sdapi/v1/txt2img",
            JSON,
            "{\"prompt\": \"a cat\", \"enable_hr\": true, \"hr_resize_x\": 900000}",
            400,
            "pixels",
        ),
        sent(
            "/sdapi/v1/img2img",
            JSON,
            "{\"prompt\": \"a cat\"}",
            400,
            "init_images",
        ),
        sent(
            "/sdapi/v1/img2img",
            JSON,
            "{\"prompt\": \"a cat\", \"init_images\": [\"file:///etc/passwd\"]}",
            400,
            "not fetched",
        ),
        sent(
            "/sdapi/v1/png-info",
            JSON,
            "{\"image\": \"eA==\"}",
            400,
            "not a readable",
        ),
    ]
}

pub fn strangers() -> Vec<Case> {
    let good = json!({"request": {"prompt": "a cat"}}).to_string();
    vec![
        asked(
            "GET",
            "/api/about",
            "Host: evil.example\n",
            421,
            "evil.example",
        ),
        asked(
            "GET",
            "/",
            "Host: 127.0.0.1.evil.example\n",
            421,
            "not called",
        ),
        sent(
            "/api/jobs",
            "Content-Type: application/json\nOrigin: http://evil.example\n",
            good.clone(),
            403,
            "other sites",
        ),
        sent(
            "/api/jobs",
            "Content-Type: application/json\nOrigin: null\n",
            good.clone(),
            403,
            "other sites",
        ),
        sent(
            "/api/jobs",
            "Content-Type: text/plain\nSec-Fetch-Site: cross-site\n",
            good,
            403,
            "other sites",
        ),
        sent(
            "/sdapi/v1/interrupt",
            "Sec-Fetch-Site: cross-site\n",
            "",
            403,
            "other sites",
        ),
        sent(
            "/v1/images/edits",
            "Content-Type: multipart/form-data; boundary=b\nOrigin: http://evil.example\n",
            "--b--",
            403,
            "other sites",
        ),
        asked(
            "GET",
            "/sdapi/v1/interrupt",
            "",
            405,
            "not asked in that way",
        ),
    ]
}
