//! Guides a picture by the gradient of its attention maps, and shows where the network looked:
//! `cargo run --release --example guide`.

use std::error::Error;

use prepose::device;
use prepose::engine::Engine;
use prepose::guidance::GuidanceConfig;
use prepose::guidance::pos::Pos;
use prepose::make::{MapOptions, PictureMaker, PictureWriter, check};
use prepose::request::ModelRequest;

fn main() -> Result<(), Box<dyn Error>> {
    let device = device::open("auto".parse()?)?;
    let model = ModelRequest::new("toybox", device.default_dtype());
    let engine = Engine::open(&model, &device)?;

    let mut request = engine.request("a dog to the left of a cat");
    request.steps = 20;
    request.seed = 9;
    request.guide = Some(GuidanceConfig {
        // What is not said is the method's own.
        scale: Some(10.0),
        ..GuidanceConfig::new(&Pos)
    });
    // Finds out what is wrong with a request before anything is computed: here, whether the prompt states a relation.
    check(engine.blueprint(), &mut request, None, None)?;

    let mut maker = PictureMaker::new(&engine, 1).with_maps(Some(MapOptions::default()));
    let batch = maker.make(&[request], None, &mut [])?;
    let writer = PictureWriter::new(device.title(), None, Some("maps".into()));
    writer.save(&batch.pictures[0], "guided.png".as_ref())?;
    println!("guided.png, and maps/ with the attention of dog and cat");
    Ok(())
}
