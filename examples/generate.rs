//! Makes pictures of one prompt: `cargo run --release --example generate`.

use std::error::Error;

use prepose::device;
use prepose::engine::Engine;
use prepose::make::PictureMaker;
use prepose::request::ModelRequest;

fn main() -> Result<(), Box<dyn Error>> {
    let device = device::open("auto".parse()?)?;
    // Or the path of a diffusers folder, or of a .safetensors file.
    let model = ModelRequest::new("toybox", device.default_dtype());
    let engine = Engine::open(&model, &device)?;

    let mut requests = Vec::new();
    for seed in 0..4 {
        let mut request = engine.request("a dog to the left of a cat");
        request.steps = 20;
        request.seed = seed;
        requests.push(request);
    }

    // Two at a time; the pictures do not depend on it.
    let mut maker = PictureMaker::new(&engine, 2);
    let mut done = 0;
    while done < requests.len() {
        let batch = maker.make(&requests[done..], None, &mut [])?;
        for picture in &batch.pictures {
            let path = format!("dog-cat-{}.png", picture.request.seed);
            picture.save(&path, &device.title())?;
            println!("{path}");
        }
        done += batch.requests;
    }
    Ok(())
}
