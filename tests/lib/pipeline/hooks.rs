//! Hooks into the denoising loop: their order, and what they can change.

use burn::tensor::Tensor;
use prepose::request::{DelayedOrder, PromptSwitch, Request};
use prepose::sampling::denoise::{Hook, HookError, State};

use super::Case;

/// Writes down when it is called, and ends the run at `stop`.
#[derive(Default)]
struct Recorder {
    calls: Vec<String>,
    stop: Option<usize>,
}

impl Hook for Recorder {
    fn before_loop(&mut self, state: &mut State) -> Result<(), HookError> {
        self.calls.push(format!("loop of {}", state.steps));
        Ok(())
    }

    fn before_step(&mut self, state: &mut State) -> Result<(), HookError> {
        self.calls.push(format!("step {}", state.step));
        Ok(())
    }

    fn before_unet(&mut self, _state: &mut State) -> Result<(), HookError> {
        self.calls.push("unet".into());
        Ok(())
    }

    fn after_prediction(
        &mut self,
        _state: &State,
        prediction: Tensor<4>,
    ) -> Result<Tensor<4>, HookError> {
        self.calls.push("prediction".into());
        Ok(prediction)
    }

    fn after_step(&mut self, state: &mut State, denoised: &Tensor<4>) -> Result<(), HookError> {
        assert_eq!(denoised.dims(), state.latents().dims());
        self.calls.push("after".into());
        match self.stop == Some(state.step) {
            true => Err("enough".into()),
            false => Ok(()),
        }
    }
}

#[test]
fn hooks_run_in_order_and_can_stop() {
    let case = Case::open("sd1-tiny");
    let request = Request {
        steps: 3,
        ..case.with_scheduler("ddim")
    };
    let mut recorder = Recorder {
        stop: Some(1),
        ..Recorder::default()
    };
    let error = case
        .engine
        .generate(&[request], &mut [&mut recorder])
        .err()
        .unwrap();
    assert_eq!(error.to_string(), "enough");
    assert_eq!(
        recorder.calls,
        [
            "loop of 3",
            "step 0",
            "unet",
            "prediction",
            "after",
            "step 1",
            "unet",
            "prediction",
            "after"
        ]
    );
}

/// Swaps the conditioning at a step, or edits the latents to the same values.
struct Swap {
    at: usize,
    to: prepose::sampling::denoise::Conditioning,
}

impl Hook for Swap {
    fn before_step(&mut self, state: &mut State) -> Result<(), HookError> {
        let same = state.latents().clone();
        state.edit_latents(same);
        Ok(())
    }

    fn before_unet(&mut self, state: &mut State) -> Result<(), HookError> {
        if state.step == self.at {
            state.set_conditioning(self.to.clone());
        }
        Ok(())
    }
}

#[test]
fn swapping_the_prompt_at_the_first_step_is_the_other_prompt() {
    let case = Case::open("sd1-tiny");
    for scheduler in ["ddim", "pndm", "unipc"] {
        let request = case.with_scheduler(scheduler);
        let other = Request {
            prompt: "two red birds".into(),
            ..request.clone()
        };
        let latents = |request: &Request, hooks: &mut [&mut dyn Hook]| -> Vec<f32> {
            let latents = case
                .engine
                .latents(std::slice::from_ref(request), hooks)
                .unwrap();
            latents.to_data().iter::<f32>().collect()
        };
        let to = case
            .engine
            .conditioning(std::slice::from_ref(&other))
            .unwrap();
        let wanted = latents(&other, &mut []);
        let swapped = |at| latents(&request, &mut [&mut Swap { at, to: to.clone() }]);
        assert_eq!(swapped(0), wanted, "{scheduler}");
        assert_ne!(swapped(5), wanted, "{scheduler}");
        assert_ne!(swapped(5), latents(&request, &mut []), "{scheduler}");
        // The same by request, from either end.
        let switch = PromptSwitch {
            to: other.prompt.clone(),
            at: 5,
        };
        let switched = Request {
            switch: Some(switch),
            ..request.clone()
        };
        assert_eq!(swapped(5), latents(&switched, &mut []), "{scheduler}");
        let delay = DelayedOrder {
            neutral_prompt: request.prompt.clone(),
            steps: 5,
        };
        let delayed = Request {
            delay_order: Some(delay),
            ..other
        };
        assert_eq!(swapped(5), latents(&delayed, &mut []), "{scheduler}");
    }
}
