//! From OpenAI's fields to ours.

use serde_json::{Map, Value, json};

use super::super::options;
use super::{names, no_model};
use crate::app::App;
use crate::problem::{Problem, Refusal};
use crate::wire::{RequestWanted, Wanted};

/// What is wanted, in our words.
pub fn wanted(
    app: &App,
    fields: &Map<String, Value>,
    image: Option<Vec<u8>>,
) -> Result<Wanted, Problem> {
    let given = |name: &str| fields.get(name).filter(|value| !value.is_null());
    let prompt = given("prompt").ok_or_else(|| refuse("prompt", "there is no prompt".into()))?;
    let prompt = prompt
        .as_str()
        .ok_or_else(|| refuse("prompt", "the prompt is a text".into()))?;
    let mut wanted = Wanted::of(RequestWanted {
        prompt: prompt.into(),
        ..RequestWanted::default()
    });
    // Fields of ours stand beside OpenAI's, or in an object of their own, where nothing is ignored.
    options::ours(fields, &mut wanted)?;
    if let Some(own) = given("prepose") {
        let own = own.as_object();
        let own = own.ok_or_else(|| refuse("prepose", "prepose is an object".into()))?;
        options::only_ours(own, "prepose", &mut wanted)?;
    }
    if let Some(asked) = given("size").filter(|size| *size != "auto") {
        let (width, height) = size(asked)?;
        let request = &mut wanted.request;
        request.width = request.width.or(Some(width));
        request.height = request.height.or(Some(height));
    }
    if let Some(model) = given("model") {
        let model = model
            .as_str()
            .ok_or_else(|| refuse("model", "model is a name".into()))?;
        match names(app).iter().any(|name| name == model) {
            true => wanted.request.checkpoint = Some(model.into()),
            false if app.any_model => {}
            false => return Err(no_model(app, model)),
        }
    }
    let pictures = match given("n") {
        None => 1,
        Some(n) => {
            let n = n.as_u64().filter(|n| (1..=10).contains(n));
            n.ok_or_else(|| refuse("n", "n is a whole number from 1 to 10".into()))? as usize
        }
    };
    let streams = given("stream").is_some_and(|stream| stream == true);
    if streams && pictures > 1 {
        return Err(refuse(
            "n",
            "streams are of one picture: their events do not say which one they are of".into(),
        ));
    }
    let seed = wanted
        .request
        .seed
        .map_or_else(options::any_seed, |seed| seed.0);
    wanted.seeds = options::seeds(seed, pictures);
    wanted.previews =
        usize::from(streams && given("partial_images").is_some_and(|partial| *partial != json!(0)));
    if let Some(bytes) = image {
        let strength = match given("strength") {
            None => 0.75,
            Some(strength) => strength.as_f64().ok_or_else(|| {
                refuse(
                    "strength",
                    "strength is a number above 0 and at most 1".into(),
                )
            })?,
        };
        wanted.request.init = Some(options::init(&bytes, strength));
    }
    Ok(wanted)
}

fn refuse(name: &'static str, message: String) -> Problem {
    Problem::from(Refusal::new(name, message))
}

/// Width and height in pixels.
fn size(asked: &Value) -> Result<(usize, usize), Problem> {
    let sides = asked
        .as_str()
        .and_then(|size| size.split_once(['x', 'X', '×']));
    let sides = sides.and_then(|(width, height)| {
        Some((width.trim().parse().ok()?, height.trim().parse().ok()?))
    });
    sides.ok_or_else(|| {
        refuse(
            "size",
            "size is WIDTHxHEIGHT in pixels, as 512x512, or auto".into(),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::worker::tests::app;

    #[test]
    fn nothing_of_ours_is_ignored() {
        let of = |own: Value| {
            let body = json!({"prompt": "a cat", "size": "128x96", "prepose": own});
            wanted(&app(), body.as_object().unwrap(), None)
        };
        let request = of(json!({"width": 64})).unwrap().request;
        assert_eq!((request.width, request.height), (Some(64), Some(96)));
        // Two that stand beside ours in this interface, and one that is none.
        for name in ["init", "prompt", "pormpt"] {
            let mut own = json!({"steps": 3});
            own[name] = json!("x");
            let refused = of(own).unwrap_err();
            assert_eq!(refused.param.as_deref(), Some("prepose"));
            assert!(refused.message.contains(name), "{}", refused.message);
        }
    }
}
