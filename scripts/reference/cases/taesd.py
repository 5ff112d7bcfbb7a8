"""`fixtures/taesd-tiny/`: diffusers' AutoencoderTiny."""

import torch
from common import case_dir, randomize, round_to_f16, write_json, write_tensors
from diffusers import AutoencoderTiny
from networks import save_network
from outputs import image_in_bytes, random_like, relative_error

# TAESD has four levels of 64 channels and blocks (1, 3, 3, 3), (3, 3, 3, 1).
CONFIG = {
    "_class_name": "AutoencoderTiny",
    "_diffusers_version": "0.20.0.dev0",
    "act_fn": "relu",
    "block_out_channels": [16, 16, 16],
    "decoder_block_out_channels": [16, 16, 16],
    "encoder_block_out_channels": [16, 16, 16],
    "force_upcast": False,
    "in_channels": 3,
    "latent_channels": 4,
    "latent_magnitude": 3,
    "latent_shift": 0.5,
    "num_decoder_blocks": [2, 2, 1],
    "num_encoder_blocks": [1, 2, 2],
    "out_channels": 3,
    "scaling_factor": 1.0,
    "upsampling_scaling_factor": 2,
}


@torch.no_grad()
def make():
    path = case_dir("taesd-tiny")
    model = round_to_f16(randomize(AutoencoderTiny.from_config(CONFIG), 111))
    save_network(path, CONFIG, model.state_dict())
    model = AutoencoderTiny.from_pretrained(path, dtype=torch.float32)
    image, latents = image_in_bytes((2, 3, 32, 48), 112) * 2 - 1, random_like((2, 4, 8, 12), 113)
    encoded, decoded = model.encode(image).latents, model.decode(latents).sample
    exact = model.double()
    for name, value, reference in (
        ("encode", encoded, exact.encode(image.double()).latents),
        ("decode", decoded, exact.decode(latents.double()).sample),
    ):
        print(f"  {name}: std {value.std():.2f}, f32 against f64 {relative_error(value, reference):.1e}")
    write_tensors(
        path / "expected.safetensors", {"image": image, "encoded": encoded, "latents": latents, "decoded": decoded}
    )
    write_json(path / "case.json", {"picture": "[-1, 1]", "latents": "as the UNet has them (scaling factor 1)"})
