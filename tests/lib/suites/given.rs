//! What methods go by: the relations that a set gives, where its texts say others or the same in another order.

use prepose::engine::Blueprint;
use prepose::suite::method::Method;
use prepose::suite::plan::{Plan, RunConfig};
use prepose::suite::requests::request;
use serde_json::{Value, json};

use super::files::open;

/// The relations that PSG's requests for these lines of a file give beside the prompts.
fn relations(lines: &[Value]) -> Vec<Vec<String>> {
    let lines: Vec<String> = lines.iter().map(Value::to_string).collect();
    let suite = open("jsonl", lines.join("\n")).unwrap();
    let config = json!({
        "suite": suite.id().unwrap(),
        "prompts": lines.len(),
        "seeds": [0],
        "methods": ["psg".parse::<Method>().unwrap()],
        "model": {"checkpoint": "toybox", "dtype": "f32"},
        "sampling": {
            "steps": 20, "guidance_scale": 7.5, "scheduler": "ddim", "width": 128, "height": 128, "negative_prompt": "",
            "noise": "torch", "clip_skip": 0, "vae_tiling": false,
        },
        "checker": null,
    });
    let config: RunConfig = serde_json::from_value(config).unwrap();
    let blueprint = Blueprint::open(config.model.as_ref().unwrap()).unwrap();
    let plan = Plan {
        config,
        prompts: suite.prompts,
    };
    let given = |job| {
        let request = request(&plan, &blueprint, job).unwrap();
        let given = request.relations.iter().map(ToString::to_string);
        given.collect::<Vec<String>>()
    };
    plan.first_jobs(0).map(given).collect()
}

#[test]
fn methods_go_by_the_relations_that_are_given() {
    let of_two = |prompt: &str| json!({"prompt": prompt, "relation": "left_of", "object_a": "dog", "object_b": "cat"});
    let of_dogs = |a: usize, b: usize| {
        let stated = json!([{"relation": "left_of", "a": a, "b": b}]);
        json!({"prompt": "a dog left of a dog", "objects": ["dog", "dog"], "relations": stated})
    };
    let given = relations(&[
        // The text says so itself.
        json!({"prompt": "a dog left of a cat"}),
        of_two("A dog is left of a cat"),
        of_dogs(0, 1),
        // It says something else.
        of_two("a dog next to a cat"),
        of_two("a cat left of a dog"),
        of_dogs(1, 0),
    ]);
    let stated: Vec<&str> = given.iter().flatten().map(String::as_str).collect();
    assert!(given[..3].iter().all(Vec::is_empty), "{given:?}");
    assert_eq!(
        stated,
        [
            "dog | left of | cat",
            "dog | left of | cat",
            "dog#2 | left of | dog#1",
        ]
    );
}
