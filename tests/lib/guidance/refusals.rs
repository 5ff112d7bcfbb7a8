//! Wrong input.

use prepose::engine::Blueprint;
use prepose::guidance::boxes::ObjectBox;
use prepose::guidance::{GuidanceConfig, Method, Network, Preset, Target};
use prepose::prompt::scene::Scene;

use super::support::*;

#[test]
fn wrong_input_is_refused() {
    let blueprint = Blueprint::open(&model("toybox")).unwrap();
    let tokenizer = &blueprint.checkpoint().tokenizers().unwrap()[0];
    let unet = blueprint.checkpoint().unet_config().unwrap();
    let refused = |config: &str| {
        let config: GuidanceConfig = serde_json::from_str(config).unwrap();
        let settings = match config.settings(Network::Toybox) {
            Ok(settings) => settings,
            Err(error) => return error.to_string(),
        };
        settings.check(20, &unet, [16, 16]).unwrap_err().to_string()
    };
    for (config, says) in [
        (
            r#"{"method": "layout", "preset": "sdxl-reference"}"#,
            "has no preset sdxl-reference",
        ),
        (
            r#"{"method": "pos", "steps": 21}"#,
            "21 steps cannot be guided",
        ),
        (
            r#"{"method": "pos", "steps": 5, "from_step": 16}"#,
            "cannot be guided",
        ),
        (r#"{"method": "pos", "steps": 0}"#, "at least 1"),
        (r#"{"method": "pos", "scale": -1.0}"#, "a positive number"),
        (r#"{"method": "pos", "distance": 1.5}"#, "less than 1"),
        (
            r#"{"method": "boxdiff", "loss": "paper"}"#,
            "does not read the option \"loss\"",
        ),
        (
            r#"{"method": "pos", "one_pass": true, "refine": true}"#,
            "\"refine\"",
        ),
        (
            r#"{"method": "pos", "loss": "paper", "refine": true}"#,
            "the paper's loss",
        ),
        (r#"{"method": "steer+pos", "refine": true}"#, "\"refine\""),
        // Nothing is repeated until anything.
        (
            r#"{"method": "steer", "refine": false, "updates": 4}"#,
            "does not read the option \"updates\"",
        ),
        (
            r#"{"method": "steer", "refine": false, "threshold": 0.1}"#,
            "does not read the option \"threshold\"",
        ),
        (
            r#"{"method": "pos", "from_step": 18446744073709551615}"#,
            "cannot be guided",
        ),
        (
            r#"{"method": "pos", "resolution": 32}"#,
            "the sizes are 4, 8, 16",
        ),
        (
            r#"{"method": "pos", "layers": {"named": ["up_blocks.0"]}}"#,
            "no layer \"up_blocks.0\"",
        ),
    ] {
        assert!(
            refused(config).contains(says),
            "{config}: {}",
            refused(config)
        );
    }
    for works in [
        r#"{"method": "steer", "updates": 4, "threshold": 0.1}"#,
        r#"{"method": "steer", "refine": true, "updates": 4, "threshold": 0.1}"#,
    ] {
        let config: GuidanceConfig = serde_json::from_str(works).unwrap();
        assert!(config.settings(Network::Toybox).is_ok(), "{works}");
    }
    assert!(serde_json::from_str::<GuidanceConfig>(r#"{"method": "pos", "sclae": 1}"#).is_err());
    assert!(
        serde_json::from_str::<GuidanceConfig>(r#"{"method": "pos", "preset": "best"}"#).is_err()
    );

    let refused = |method: &str, prompt: &str, boxes: &[&str]| {
        let settings = GuidanceConfig::new(method.parse::<Method>().unwrap())
            .settings(Network::Toybox)
            .unwrap();
        let boxes: Vec<ObjectBox> = boxes.iter().map(|text| text.parse().unwrap()).collect();
        let scene = Scene::parse(prompt).unwrap();
        let refused = Target::new(&settings, prompt, &scene, &boxes, tokenizer);
        refused.unwrap_err().to_string()
    };
    let beside = "a dog to the left of a cat";
    for (error, says) in [
        (refused("pos", "a dog and a cat", &[]), "states no relation"),
        (
            refused("pos", "a dog behind a cat", &[]),
            "a relation of depth",
        ),
        (refused("pos", beside, &["dog: 0,0,1,1"]), "\"box\""),
        (
            refused("conform", "a red dog", &[]),
            "at least 2 objects; the prompt names 1",
        ),
        (refused("boxdiff", "a dog and a cat", &[]), "needs a box"),
        (refused("boxdiff", "a dog near a cat", &[]), "needs a box"),
        (
            refused("boxdiff", beside, &["cow: 0,0,1,1"]),
            "not in the prompt",
        ),
        (
            refused("layout", beside, &["dog: 0,0,1,1", "dog: 0,0,.5,1"]),
            "two boxes",
        ),
        (
            refused("layout", beside, &["dog: 0,0,1,1", "a dog: 0,0,.5,1"]),
            "two boxes for \"a dog\"",
        ),
        (
            refused("boxdiff", "a black dog and a white dog", &["dog: 0,0,.5,1"]),
            "\"dog\" names 2 objects of the prompt; write dog#1 to dog#2",
        ),
        (
            refused("layout", "a dog to the left of a dog", &["dog#3: 0,0,1,1"]),
            "no occurrence 3 of \"dog\", only 2",
        ),
        (
            refused(
                "layout",
                "a dog on grass and a cat on grass",
                &["grass: 0,0,1,1"],
            ),
            "write grass#1 to grass#2",
        ),
    ] {
        assert!(error.contains(says), "{error}");
    }
}

#[test]
fn boxes_name_one_of_several_by_number() {
    let blueprint = Blueprint::open(&model("toybox")).unwrap();
    let tokenizer = &blueprint.checkpoint().tokenizers().unwrap()[0];
    let settings = GuidanceConfig::new("boxdiff".parse::<Method>().unwrap())
        .settings(Network::Toybox)
        .unwrap();
    for (prompt, boxes) in [
        (
            "a dog to the left of a dog",
            ["dog#2: 0.5,0,1,1", "dog#1: 0,0,0.5,1"],
        ),
        (
            "a black dog and a white dog",
            ["dog#2: 0.5,0,1,1", "black dog: 0,0,0.5,1"],
        ),
    ] {
        let boxes = boxes.map(|text| text.parse::<ObjectBox>().unwrap());
        let scene = Scene::parse(prompt).unwrap();
        let target = Target::new(&settings, prompt, &scene, &boxes, tokenizer).unwrap();
        let placed: Vec<_> = target.objects.iter().map(|object| object.bbox).collect();
        assert_eq!(
            placed,
            [Some(boxes[1].bbox), Some(boxes[0].bbox)],
            "{prompt}"
        );
    }
}

/// GLIGEN's phrases have articles, and the same boxes serve methods that guide by the attention to a word.
#[test]
fn boxes_name_objects_with_their_articles() {
    let blueprint = Blueprint::open(&model("toybox")).unwrap();
    let tokenizer = &blueprint.checkpoint().tokenizers().unwrap()[0];
    for preset in [Preset::Default, Preset::Sd14Reference] {
        let config = GuidanceConfig {
            preset,
            ..GuidanceConfig::new("boxdiff".parse::<Method>().unwrap())
        };
        let settings = config.settings(Network::Toybox).unwrap();
        let target = |prompt: &str, boxes: &[&str]| {
            let boxes: Vec<ObjectBox> = boxes.iter().map(|text| text.parse().unwrap()).collect();
            let scene = Scene::parse(prompt).unwrap();
            Target::new(&settings, prompt, &scene, &boxes, tokenizer).unwrap()
        };
        for (prompt, with, without) in [
            (
                "a dog and a cat",
                ["a dog: 0,0,.5,1", "The Cat: .5,0,1,1"],
                ["dog: 0,0,.5,1", "cat: .5,0,1,1"],
            ),
            (
                "two dogs and a red cat",
                ["two dogs: 0,0,.5,1", "a red cat: .5,0,1,1"],
                ["dogs: 0,0,.5,1", "red cat: .5,0,1,1"],
            ),
            (
                "a black dog and a white dog",
                ["the dog#2: 0,0,.5,1", "a black dog: .5,0,1,1"],
                ["dog#2: 0,0,.5,1", "black dog: .5,0,1,1"],
            ),
            (
                "a dog on the grass",
                ["a dog: 0,0,.5,1", "the grass: .5,0,1,1"],
                ["dog: 0,0,.5,1", "grass: .5,0,1,1"],
            ),
        ] {
            assert_eq!(target(prompt, &with), target(prompt, &without), "{prompt}");
        }
    }
}
