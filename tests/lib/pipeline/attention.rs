//! Hooks that see the attention, and that have a pass recorded for its gradients.

use burn::tensor::Tensor;
use prepose::attention_maps::{AttentionMaps, MapSelection};
use prepose::guidance::maps::Pooling;
use prepose::request::Request;
use prepose::sampling::denoise::{Hook, HookError, Rows, State};
use prepose_models::attention::{AttentionProbe, LayerInfo};
use prepose_models::unet::Recording;

use super::{Case, assert_close};

/// Keeps the probabilities of one layer at each step.
#[derive(Default)]
struct Watcher(Vec<Tensor<4>>);

impl AttentionProbe for Watcher {
    fn wants(&self, layer: &LayerInfo) -> bool {
        layer.index == 1
    }

    fn record(&mut self, _layer: &LayerInfo, probabilities: Tensor<4>) {
        self.0.push(probabilities);
    }
}

impl Hook for Watcher {
    fn probe(&mut self, state: &State, rows: Rows) -> Option<&mut dyn AttentionProbe> {
        assert!(matches!(rows, Rows::Both { .. }));
        (state.step != 1).then_some(self)
    }
}

#[test]
fn a_hook_sees_the_attention_of_the_steps_it_asks_for() {
    let case = Case::open("sdxl-tiny");
    let request = Request {
        steps: 3,
        ..case.request.clone()
    };
    let plain = (case.engine)
        .latents(std::slice::from_ref(&request), &mut [])
        .unwrap();
    let mut watcher = Watcher::default();
    let watched = (case.engine)
        .latents(&[request], &mut [&mut watcher])
        .unwrap();
    assert_close(
        "watched",
        &watched,
        &plain.to_data().try_to_vec::<f32>().unwrap(),
    );
    assert_eq!(watcher.0.len(), 2);
    // Both halves of classifier-free guidance, and a distribution over the tokens.
    assert_eq!(watcher.0[0].dims()[0], 2);
    let sums = watcher.0[0].clone().sum_dim(3).to_data();
    assert!(sums.iter::<f32>().all(|sum| (sum - 1.0).abs() < 1e-5));
}

/// Has the conditional half recorded.
#[derive(Default)]
struct OnePass {
    watcher: Watcher,
    gradients: Vec<Tensor<4>>,
}

impl Hook for OnePass {
    fn recorder(&mut self, _state: &State) -> Option<&mut dyn AttentionProbe> {
        Some(&mut self.watcher)
    }

    fn recorded(&mut self, _state: &State, recording: Recording) -> Result<(), HookError> {
        let maps = self.watcher.0.last().unwrap().clone();
        let gradient = recording.sample_gradient(&move |_: &LayerInfo| Some(maps.clone()));
        self.gradients.push(gradient);
        Ok(())
    }
}

#[test]
fn recording_the_conditional_half_does_not_change_the_picture() {
    for name in ["sd1-tiny", "sdxl-tiny"] {
        let case = Case::open(name);
        let request = Request {
            steps: 3,
            ..case.with_scheduler("ddim")
        };
        let unguided = Request {
            guidance_scale: 1.0,
            ..request.clone()
        };
        for request in [request, unguided] {
            let plain = case.engine.latents(std::slice::from_ref(&request), &mut []);
            let expected = plain.unwrap().to_data().try_to_vec::<f32>().unwrap();
            let mut hook = OnePass::default();
            let recorded = case.engine.latents(&[request], &mut [&mut hook]).unwrap();
            assert_close("recorded", &recorded, &expected);
            assert_eq!(hook.gradients.len(), 3);
            let size: f32 = hook.gradients[0].clone().abs().sum().into_scalar();
            assert!(size.is_finite() && size > 0.0);
        }
    }
}

#[test]
fn maps_of_chosen_tokens_shrink_with_their_batch() {
    let case = Case::open("sd1-tiny");
    let requests: Vec<Request> = (0..3)
        .map(|seed| Request {
            seed,
            steps: 4,
            ..case.with_scheduler("ddim")
        })
        .collect();
    // Another token of each picture.
    let objects = [1, 2, 3].map(|position| vec![vec![position]]);
    let hook = |objects: &[Vec<Vec<usize>>]| {
        AttentionMaps::new(MapSelection {
            pooling: Pooling::Each(objects.to_vec()),
            ..MapSelection::default()
        })
    };
    let mut maps = hook(&objects);
    let mut session = case.engine.begin(&requests, &mut [&mut maps]).unwrap();
    session.advance(2, &mut [&mut maps]).unwrap();
    session.retain(&[2, 0], &mut [&mut maps]);
    session.advance(usize::MAX, &mut [&mut maps]).unwrap();
    session.finish().unwrap();
    let kept = maps.into_steps();
    let numbers = |tensor: &Tensor<4>| tensor.to_data().iter::<f32>().collect::<Vec<f32>>();
    for (place, row) in [(0, 2), (1, 0)] {
        let mut maps = hook(&objects[row..=row]);
        let one = std::slice::from_ref(&requests[row]);
        case.engine.latents(one, &mut [&mut maps]).unwrap();
        let alone = maps.into_steps();
        assert_eq!((kept.len(), alone.len()), (4, 4));
        let groups = kept.iter().flat_map(|step| &step.groups);
        let alone = alone.iter().flat_map(|step| &step.groups);
        for (kept, alone) in groups.zip(alone) {
            assert_eq!(kept.maps.dims()[0], 2);
            let mine = kept.select(&[place]);
            assert_close("maps", &mine.maps, &numbers(&alone.maps));
            let selectors = [&mine, alone].map(|group| group.selector.clone().unwrap());
            let [mine, alone] = selectors.map(|selector| numbers(&selector.unsqueeze_dim(0)));
            assert_eq!(mine, alone);
        }
    }
}
