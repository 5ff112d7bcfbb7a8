//! Noise schedules full of numbers that nobody should believe: each is refused by one short message that names the key,
//! or every step can be taken.

use burn::tensor::{Device, Tensor};
use prepose::sampling::schedulers::{History, Scheduler, SchedulerError, SchedulerKind};
use serde_json::{Value, json};

fn sound() -> Value {
    json!({
        "beta_start": 0.00085, "beta_end": 0.012, "beta_schedule": "scaled_linear", "clip_sample": true,
        "num_train_timesteps": 1000, "skip_prk_steps": true, "steps_offset": 1,
    })
}

/// What is put in the place of a value.
fn values() -> Vec<Value> {
    vec![
        json!(-1),
        json!(0),
        json!(1),
        json!(2),
        json!(30),
        json!(999),
        json!(1_000_000_000),
        json!(1u64 << 31),
        json!(1u64 << 63),
        json!(u64::MAX),
        json!(1e30),
        json!(1e-30),
        json!(0.5),
        json!(0.999999999),
        json!(-5.1),
        json!(true),
        json!("x"),
        json!([]),
        json!({}),
        json!([0, 1, 2]),
        json!(vec![0.0; 1000]),
        json!(vec![0.99; 1000]),
        json!(vec![0.01; 1000]),
    ]
}

const KEYS: &[&str] = &[
    "num_train_timesteps",
    "beta_start",
    "beta_end",
    "trained_betas",
    "steps_offset",
    "clip_sample_range",
    "lambda_min_clipped",
    "timestep_scaling",
    "original_inference_steps",
    "solver_order",
    "disable_corrector",
    "beta_schedule",
    "timestep_spacing",
];

/// Takes all `steps` steps; whether all samples were finite.
fn sample(scheduler: &Scheduler, steps: usize) -> Result<bool, SchedulerError> {
    let schedule = scheduler.schedule(steps)?;
    let mut history = History::default();
    let start = Tensor::<4>::ones([1, 1, 2, 2], &Device::flex());
    let mut sample = start.clone() * schedule.init_noise_sigma();
    for i in 0..schedule.len() {
        let input = schedule.scale_model_input(sample.clone(), i);
        let noise = schedule.needs_noise(i).then(|| start.clone() * 0.1);
        let output = schedule.step(&mut history, i, input * 0.1, sample, noise);
        sample = output.prev_sample;
    }
    let values: Vec<f32> = sample.into_data().iter().collect();
    Ok(values.iter().all(|value| value.is_finite()))
}

#[test]
fn numbers_in_a_schedule() {
    let (mut refused, mut run) = (0, 0);
    for kind in SchedulerKind::ALL {
        for spacing in ["leading", "linspace", "trailing"] {
            for (key, value) in KEYS
                .iter()
                .flat_map(|key| values().into_iter().map(move |value| (key, value)))
            {
                let mut config = sound();
                config["timestep_spacing"] = json!(spacing);
                config[key] = value.clone();
                let what = format!("{kind}, {spacing}, {key} = {value}");
                let scheduler = Scheduler::from_config(&config, Some(kind));
                for steps in [1, 4, 50, 999] {
                    let outcome = match &scheduler {
                        Ok(scheduler) if steps > 4 => scheduler.schedule(steps).map(|_| true),
                        Ok(scheduler) => sample(scheduler, steps),
                        Err(error) => {
                            let message = error.to_string();
                            assert!(
                                message.contains("scheduler_config.json"),
                                "{what}: {message}"
                            );
                            refused += 1;
                            break;
                        }
                    };
                    match outcome {
                        Ok(finite) => {
                            assert!(finite, "{what}, {steps} steps");
                            run += 1;
                        }
                        Err(error) => {
                            assert!(error.to_string().contains("steps"), "{what}: {error}")
                        }
                    }
                }
            }
        }
    }
    assert!(refused > 2000 && run > 2000, "{refused} refused, {run} run");
}

#[test]
fn settings_that_leave_no_room_are_named() {
    let with = |key: &str, value: Value, kind, steps| {
        let mut config = sound();
        config[key] = value;
        let scheduler = Scheduler::from_config(&config, Some(kind));
        scheduler
            .and_then(|scheduler| scheduler.schedule(steps))
            .unwrap_err()
            .to_string()
    };
    for (key, value, kind, steps, expected) in [
        (
            "steps_offset",
            json!(5000),
            SchedulerKind::Ddim,
            4,
            "`steps_offset` is 5000, but must be between 0 and 999",
        ),
        (
            "steps_offset",
            json!(500),
            SchedulerKind::Ddim,
            50,
            "`steps_offset` 500 leads beyond the last of 1000 timesteps",
        ),
        (
            "beta_end",
            json!(0.9999),
            SchedulerKind::Ddim,
            4,
            "`beta_end` is 0.9999, but must be such that picture and noise are mixed",
        ),
        (
            "clip_sample_range",
            json!(-1),
            SchedulerKind::Ddim,
            4,
            "`clip_sample_range` is -1, but must be between 0.001",
        ),
        (
            "steps_offset",
            json!("x"),
            SchedulerKind::Ddim,
            4,
            "`steps_offset` cannot be \"x\"",
        ),
        (
            "num_train_timesteps",
            json!(1),
            SchedulerKind::Euler,
            1,
            "between 2 and 100000",
        ),
    ] {
        let message = with(key, value, kind, steps);
        assert!(message.contains(expected), "{message}");
    }
}

/// As diffusers' `StableDiffusionPipeline` sets `steps_offset` to 1 and `clip_sample` to false on whichever scheduler it is given.
#[test]
fn outdated_settings_are_corrected() {
    let of = |kind: SchedulerKind, offset: Value, clip: Value| {
        let mut config = sound();
        config["timestep_spacing"] = json!("leading");
        config["steps_offset"] = offset;
        config["clip_sample"] = clip;
        Scheduler::from_config(&config, Some(kind)).unwrap()
    };
    // The timesteps, and where the first leads from latents that clipping would change.
    let run = |scheduler: &Scheduler| {
        let schedule = scheduler.schedule(10).unwrap();
        let sample = Tensor::<4>::ones([1, 1, 2, 2], &Device::flex()) * 5.0;
        let noise = schedule.needs_noise(0).then(|| sample.clone());
        let answer = sample.clone() * 0.1;
        let output = schedule.step(&mut History::default(), 0, answer, sample, noise);
        let values: Vec<f32> = output.prev_sample.into_data().iter().collect();
        (schedule.timesteps().to_vec(), values)
    };
    for kind in SchedulerKind::ALL {
        let expected = run(&of(kind, json!(1), json!(false)));
        for (offset, clip) in [(json!(0), json!(true)), (Value::Null, Value::Null)] {
            let outdated = of(kind, offset, clip);
            assert_eq!(run(&outdated.corrected()), expected, "{kind}");
        }
    }
    // Without a pipeline the class goes by its file.
    let (one, zero) = (json!(1), json!(0));
    let ddim =
        |offset: &Value, clip: bool| run(&of(SchedulerKind::Ddim, offset.clone(), json!(clip)));
    let (clipped, early) = (ddim(&one, true), ddim(&zero, false));
    let (times, values) = ddim(&one, false);
    assert_eq!(clipped.0, times);
    assert_ne!(clipped.1, values);
    assert_eq!(early.0, times.iter().map(|t| t - 1.0).collect::<Vec<_>>());
}
