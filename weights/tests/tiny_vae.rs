//! The tiny autoencoder, against diffusers.

use crate::support::{Expected, chain, device, fixture};
use burn::tensor::FloatDType;
use prepose_weights::load_tiny_vae;

#[test]
fn encodes_and_decodes() {
    let expected = Expected::read("taesd-tiny/expected.safetensors");
    for path in [
        "taesd-tiny",
        "taesd-tiny/diffusion_pytorch_model.safetensors",
    ] {
        let vae = load_tiny_vae(&fixture(path), &device(), FloatDType::F32).unwrap();
        expected.compare("encoded", vae.encode(expected.tensor("image")), 2e-5);
        expected.compare("decoded", vae.decode(expected.tensor("latents")), 2e-5);
    }
}

#[test]
fn another_autoencoder() {
    let error = load_tiny_vae(&fixture("sd1-tiny/vae"), &device(), FloatDType::F32).unwrap_err();
    assert!(chain(&error).contains("not an AutoencoderTiny"), "{error}");
}
