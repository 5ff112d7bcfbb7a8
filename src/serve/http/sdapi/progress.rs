//! How far a job is, for clients that ask again and again.

use axum::Extension;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::Response;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use super::super::body::{self, Typed};
use super::super::native::answer;
use super::super::{Asking, Shared};
use super::{Fields, Told};
use crate::jobs::{Api, Status};

pub async fn progress(
    State(app): Shared,
    Extension(Asking(caller)): Extension<Asking>,
) -> Response<Body> {
    let jobs = app.jobs.of(caller, Api::WebUi);
    let job = jobs
        .iter()
        .find(|job| job.state().status == Status::Running);
    let Some(job) = job.or(jobs.first()) else {
        let state = json!({"skipped": false, "interrupted": false, "stopping_generation": false, "job": "", "job_count": 0,
                           "job_timestamp": "0", "job_no": 0, "sampling_step": 0, "sampling_steps": 0});
        return answer(
            &json!({"progress": 0.0, "eta_relative": 0.0, "state": state, "current_image": null, "textinfo": null,
                              "current_task": null}),
        );
    };
    let (step, of, preview) = {
        let state = job.state();
        (state.step, state.of, state.preview.clone())
    };
    let each = app.metrics.mean("prepose_step_seconds").unwrap_or(0.0);
    let state = json!({"skipped": false, "interrupted": false, "stopping_generation": false, "job": job.id, "job_count": jobs.len(),
                       "job_timestamp": job.made.to_string(), "job_no": 0, "sampling_step": step, "sampling_steps": of});
    answer(&json!({
        // 0 means that nothing is made.
        "progress": (step as f64 / of.max(1) as f64).clamp(0.01, 0.99), "eta_relative": each * of.saturating_sub(step) as f64,
        "state": state, "current_image": preview.map(|png| STANDARD.encode(&png)), "textinfo": null, "current_task": job.task,
    }))
}

pub async fn internal_progress(
    State(app): Shared,
    Extension(Asking(caller)): Extension<Asking>,
    request: Request,
) -> Told {
    let fields = Fields(body::json(request, &app.limits, Typed::UnlessEmpty).await?);
    let task = fields.text("id_task")?;
    let jobs = app.jobs.of(caller, Api::WebUi);
    let job = jobs.iter().find(|job| job.task.as_deref() == task);
    let state = job.map(|job| {
        let state = job.state();
        (
            state.status.clone(),
            state.step,
            state.of,
            state.preview.clone(),
        )
    });
    let (status, step, of, preview) = state.unwrap_or((Status::Done, 1, 1, None));
    let seen = fields.flag("live_preview", true)?;
    let preview = preview.filter(|_| seen);
    Ok(answer(&json!({
        "active": status == Status::Running, "queued": status == Status::Queued, "completed": status.is_final(),
        "progress": step as f64 / of.max(1) as f64, "eta": null,
        "live_preview": preview.map(|png| format!("data:image/png;base64,{}", STANDARD.encode(&png))),
        "id_live_preview": step, "textinfo": null,
    })))
}
