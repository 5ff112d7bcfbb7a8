//! Batches: what they hold, and that every picture in one is as it would be alone.

use prepose::request::Request;

use super::{Case, assert_close};

#[test]
fn a_batch_is_diffusers_and_every_picture_is_its_own() {
    let case = Case::open("sd1-tiny");
    for scheduler in ["ddim", "euler_a"] {
        let requests: Vec<Request> = case
            .batch_seeds
            .iter()
            .map(|seed| Request {
                seed: *seed,
                ..case.with_scheduler(scheduler)
            })
            .collect();
        let latents = case.engine.latents(&requests, &mut []).unwrap();
        let name = format!("txt2img/{scheduler}_batch");
        assert_close(&name, &latents, &case.expected(&format!("{name}/latents")));
    }
    // The same picture alone, first and last, among other prompts.
    let request = case.with_scheduler("euler_a");
    let mut other = request.clone();
    other.prompt = "two red birds".into();
    other.seed = 99;
    let picture = |requests: &[Request], index: usize| {
        case.engine.generate(requests, &mut []).unwrap().pictures[index].clone()
    };
    let alone = picture(std::slice::from_ref(&request), 0);
    assert_eq!(alone, picture(&[request.clone(), other.clone()], 0));
    assert_eq!(alone, picture(&[other.clone(), other, request], 2));
}

#[test]
fn batches_hold_only_what_belongs_together() {
    let case = Case::open("sd1-tiny");
    let request = case.request.clone();
    let same = Request {
        prompt: "another".into(),
        seed: 1,
        ..request.clone()
    };
    let longer = Request {
        prompt: "a bird ".repeat(60),
        ..request.clone()
    };
    let wider = Request {
        width: 64,
        ..request.clone()
    };
    let size = |requests: &[Request], most| case.engine.batch_size(requests, most).unwrap();
    assert_eq!(size(&[request.clone(), same.clone(), same.clone()], 8), 3);
    assert_eq!(size(&[request.clone(), same.clone(), same.clone()], 2), 2);
    assert_eq!(size(&[request.clone(), longer], 8), 1);
    assert_eq!(size(&[request, wider], 8), 1);
}

#[test]
fn the_texts_of_a_batch_change_together() {
    let case = Case::open("sd1-tiny");
    let of = |prompt: &str, negative: &str| Request {
        prompt: prompt.into(),
        negative_prompt: negative.into(),
        ..case.request.clone()
    };
    let still = of("a dog on grass", "blurry");
    let early = of("a [dog:cat:3] on grass", "blurry");
    let late = of("a [dog:cat:5] on grass", "blurry");
    let negative = of("a dog on grass", "[blurry:ugly:3]");
    let fit = |one: &Request, other: &Request| {
        let pair = [one.clone(), other.clone()];
        case.engine.batch_size(&pair, 8).unwrap() == 2
    };
    assert!(fit(&early, &of("a [bird:fish:3] on sand", "ugly")));
    assert!(fit(&negative, &of("two cats", "[dull:dark:3]")));
    for (one, other) in [
        (&still, &early),
        (&still, &negative),
        (&early, &late),
        (&early, &negative),
    ] {
        assert!(!fit(one, other), "{one:?} and {other:?}");
    }
}

#[test]
fn a_batch_that_shrinks_on_the_way_makes_the_same_pictures() {
    let case = Case::open("sd1-tiny");
    for scheduler in ["unipc", "euler_a", "dpmpp_2m"] {
        let requests: Vec<Request> = (0..3)
            .map(|seed| Request {
                seed,
                prompt: format!("a cat {seed}"),
                ..case.with_scheduler(scheduler)
            })
            .collect();
        let whole = case.engine.latents(&requests, &mut []).unwrap();
        let mut session = case.engine.begin(&requests, &mut []).unwrap();
        session.advance(2, &mut []).unwrap();
        session.retain(&[2, 0], &mut []);
        session.advance(1, &mut []).unwrap();
        session.retain(&[1], &mut []);
        session.advance(usize::MAX, &mut []).unwrap();
        let expected = whole.narrow(0, 0, 1).to_data().try_to_vec::<f32>().unwrap();
        assert_close(scheduler, &session.finish().unwrap(), &expected);
    }
}
