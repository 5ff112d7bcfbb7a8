//! Networks that take the guidance scale themselves, as LCM's.

use prepose::attention_maps::{Half, MapSelection};
use prepose::make::MapOptions;
use prepose::request::{DeepCache, Dtype, Gate, ModelRequest, Request, Savings};
use prepose::sampling::StepRange;
use safetensors::SafeTensors;
use safetensors::tensor::TensorView;
use serde_json::{Value, json};

use super::Case;
use super::gligen::copy;
use crate::support::fixture;

/// The checkpoint of `sd1-tiny`, whose UNet is told the guidance scale through a projection with these weights.
fn distilled(weights: [f32; 16 * 8]) -> (Case, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    copy(&fixture("sd1-tiny"), folder.path());
    let at = |name: &str| folder.path().join("unet").join(name);
    let text = std::fs::read_to_string(at("config.json")).unwrap();
    let mut config: Value = serde_json::from_str(&text).unwrap();
    config["time_cond_proj_dim"] = json!(8);
    std::fs::write(at("config.json"), config.to_string()).unwrap();
    let path = at("diffusion_pytorch_model.safetensors");
    let bytes = std::fs::read(&path).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let weights: Vec<u8> = weights.iter().flat_map(|it| it.to_le_bytes()).collect();
    let projection = TensorView::new(safetensors::Dtype::F32, vec![16, 8], &weights).unwrap();
    let mut views: Vec<_> = file.iter().collect();
    views.push(("time_embedding.cond_proj.weight", projection));
    safetensors::serialize_to_file(views, None, &path).unwrap();
    let model = ModelRequest::new(folder.path().to_string_lossy(), Dtype::F32);
    (Case::of(&fixture("sd1-tiny"), model), folder)
}

/// As diffusers' `do_classifier_free_guidance`, which a `time_cond_proj_dim` switches off whatever the scale.
#[test]
fn they_are_told_the_scale_and_have_no_negative_half() {
    let plain = Case::open("sd1-tiny");
    let (deaf, _deaf) = distilled([0.0; 16 * 8]);
    let weights = std::array::from_fn(|at| (at % 7) as f32 / 3.0 - 1.0);
    let (told, _told) = distilled(weights);
    let at = |case: &Case, scale, negative: &str| Request {
        steps: 2,
        guidance_scale: scale,
        negative_prompt: negative.into(),
        ..case.request.clone()
    };
    let latents = |case: &Case, scale, negative: &str| -> Vec<f32> {
        let request = at(case, scale, negative);
        let latents = case.engine.latents(&[request], &mut []).unwrap();
        latents.to_data().iter::<f32>().collect()
    };
    // Told nothing, such a network is the plain one without classifier-free guidance.
    assert_eq!(latents(&deaf, 7.5, ""), latents(&plain, 1.0, ""));
    assert_ne!(latents(&plain, 7.5, ""), latents(&plain, 1.0, ""));
    let strong = latents(&told, 7.5, "");
    assert_ne!(latents(&told, 2.0, ""), strong);
    assert_eq!(latents(&told, 7.5, "blurry"), strong);
    // One row a picture.
    let step = |case: &Case, scale| case.engine.needs(&at(case, scale, ""), 1).unwrap().step;
    assert_eq!(step(&told, 7.5), step(&told, 1.0));
    assert!(step(&plain, 7.5) > step(&plain, 1.0));
    let mut composed = Request {
        prompt: "a cat AND a dog".into(),
        ..at(&told, 7.5, "")
    };
    let error = told.engine.blueprint().check(&mut composed).unwrap_err();
    assert!(error.to_string().contains("AND"), "{error}");
    let mut stepwise = Request {
        guidance_steps: Some(StepRange {
            first: 0,
            last: None,
        }),
        ..at(&told, 7.5, "")
    };
    let error = told.engine.blueprint().check(&mut stepwise).unwrap_err();
    assert!(error.to_string().contains("distilled"), "{error}");
    told.engine.blueprint().drop_inert(&mut stepwise).unwrap();
    assert_eq!(stepwise, at(&told, 7.5, ""));
    // Nor maps of the half that there is not.
    let maps = MapOptions {
        selection: MapSelection {
            half: Half::Negative,
            ..MapSelection::default()
        },
        words: vec!["blurry".into()],
    };
    let checked = |case: &Case| maps.check(case.engine.blueprint(), &at(case, 7.5, "blurry"));
    checked(&plain).unwrap();
    let error = checked(&told).unwrap_err();
    assert!(error.to_string().contains("takes the scale"), "{error}");
}

/// Neither its length, to which the prompt would be padded, nor its changes, at which DeepCache would begin anew and which
/// T-GATE would refuse.
#[test]
fn a_negative_prompt_that_no_call_is_made_for_changes_nothing() {
    let (plain, (told, _told)) = (Case::open("sd1-tiny"), distilled([0.25; 16 * 8]));
    let long = "a bird ".repeat(60);
    let [deep, gate] = [
        Savings {
            deep_cache: Some(DeepCache {
                every: 4,
                branch: 0,
            }),
            ..Savings::default()
        },
        Savings {
            tgate: Some(Gate::Step(1)),
            ..Savings::default()
        },
    ];
    for (case, scale) in [(&plain, 1.0), (&told, 7.5)] {
        let of = |negative: &str, savings| Request {
            steps: 4,
            guidance_scale: scale,
            negative_prompt: negative.into(),
            savings,
            ..case.request.clone()
        };
        let latents = |request: &Request| -> Vec<f32> {
            let one = std::slice::from_ref(request);
            let latents = case.engine.latents(one, &mut []).unwrap();
            latents.to_data().iter::<f32>().collect()
        };
        let without = of("", deep);
        let expected = latents(&without);
        for negative in [&*long, "[blurry:ugly:2]"] {
            let with = of(negative, deep);
            assert_eq!(latents(&with), expected, "{negative} at {scale}");
            let pair = [without.clone(), with];
            assert_eq!(case.engine.batch_size(&pair, 2).unwrap(), 2);
            let blueprint = case.engine.blueprint();
            blueprint.check(&mut of(negative, gate)).unwrap();
        }
        // It must be sound all the same.
        let error = case
            .engine
            .blueprint()
            .check(&mut of("[blurry:ugly:99]", deep))
            .unwrap_err();
        assert!(error.to_string().contains("negative prompt"), "{error}");
    }
    // Composed prompts are measured against it at any scale.
    let composed = |negative: &str| {
        let request = Request {
            prompt: "a cat AND a dog".into(),
            negative_prompt: negative.into(),
            guidance_scale: 1.0,
            steps: 2,
            ..plain.request.clone()
        };
        let latents = plain.engine.latents(&[request], &mut []).unwrap();
        latents.to_data().iter::<f32>().collect::<Vec<f32>>()
    };
    assert_ne!(composed("blurry"), composed(""));
}
