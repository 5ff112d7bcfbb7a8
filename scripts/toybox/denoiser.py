"""The UNet: what it is, and how the trained one comes into weights/toybox.

    python scripts/toybox/denoiser.py take TRAINING DATA [EVENTS]

`take` copies what `prepose train unet` made in TRAINING of the drawings in DATA to weights/toybox/unet, and writes its record onto the card; EVENTS
is what its `--json` printed. Two choices make it learn layouts early, which a plain epsilon loss learns last:

* it predicts v (Salimans and Ho, 2022), so that the noisiest steps, where the layout is decided,
  weigh as much as the others (as an epsilon loss with the weight (snr + 1) / snr);
* a part of the training timesteps is drawn with a bias towards high noise (`--layout-share`).
"""

import json
import shutil
import sys
from pathlib import Path

import trained

UNET = "diffusion_pytorch_model.safetensors"


def new_unet():
    from diffusers import UNet2DConditionModel

    import text_encoder
    import world

    return UNet2DConditionModel(
        sample_size=world.GRID, in_channels=4, out_channels=4,
        down_block_types=["CrossAttnDownBlock2D", "CrossAttnDownBlock2D", "DownBlock2D"],
        up_block_types=["UpBlock2D", "CrossAttnUpBlock2D", "CrossAttnUpBlock2D"],
        block_out_channels=(48, 96, 128), layers_per_block=1, norm_num_groups=16,
        cross_attention_dim=text_encoder.WIDTH, attention_head_dim=2)  # SD1's misnomer: 2 heads


def new_scheduler():
    from diffusers import DDIMScheduler

    return DDIMScheduler(
        num_train_timesteps=1000, beta_schedule="scaled_linear", beta_start=0.00085, beta_end=0.012,
        clip_sample=False, set_alpha_to_one=False, steps_offset=1, prediction_type="v_prediction")


def take(training, data, events=None):
    made = training / "checkpoint/unet" / UNET
    shutil.copyfile(made, trained.WEIGHTS / "unet" / UNET)
    checkpoint = json.loads((training / "training.json").read_text())["checkpoint"]
    trained.add_record(trained.WEIGHTS / "README.md", "unet", trained.record(training, f"unet {data} --checkpoint {checkpoint}", events))


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["take", training, data, *events] if len(events) < 2:
            take(Path(training), data, *events)
        case _:
            raise SystemExit(__doc__)
