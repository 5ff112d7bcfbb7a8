//! The picture that `img2img` begins with.

use image::imageops::{self, FilterType};
use image::{Rgb, RgbImage};
use serde_json::Value;

use super::super::options;
use super::Fields;
use crate::app::App;
use crate::picture;
use crate::problem::Refusal;
use crate::wire::Init;

/// What `denoising_strength` is where clients leave it out.
const DENOISING: f64 = 0.75;

/// The share of the noise that was asked for.
pub fn denoising(fields: &Fields) -> Result<f64, Refusal> {
    let denoising = fields.number("denoising_strength")?.unwrap_or(DENOISING);
    if !(0.0..=1.0).contains(&denoising) {
        let message = format!("denoising_strength is {denoising}; it is from 0 to 1");
        return Err(Refusal::new("denoising_strength", message));
    }
    Ok(denoising)
}

/// The steps that the web UI makes of a schedule of `steps`: `t_enc + 1` in `setup_img2img_steps` and `sample_img2img`, one more
/// than diffusers and we make of the same share.
fn steps_made(steps: usize, denoising: f64) -> usize {
    (denoising.min(0.999) * steps as f64) as usize + 1
}

/// Our strength that makes the last `made` of `steps` steps.
fn strength(steps: usize, made: usize) -> f64 {
    let share = made as f64 / steps as f64;
    match (steps as f64 * share) as usize == made {
        true => share,
        // Rounding took one away.
        false => share.next_up(),
    }
}

/// What a picture of `size` in `steps` steps begins with.
///
/// # Errors
/// There is no such picture, there are several, or something is asked of it that is not here.
pub fn begin_with(
    app: &App,
    fields: &Fields,
    steps: usize,
    size: [usize; 2],
) -> Result<Init, Refusal> {
    const PARAM: &str = "init_images";
    if fields.get("mask").is_some() {
        return Err(Refusal::new(
            "mask",
            "masks are not supported; leave it out",
        ));
    }
    let images = fields.get(PARAM).and_then(Value::as_array);
    let images = images.map_or(&[][..], Vec::as_slice);
    if images.len() > 1 {
        let message = format!(
            "init_images has {} pictures, and one request begins with one; send a request for each",
            images.len()
        );
        return Err(Refusal::new(PARAM, message));
    }
    let first = images.first().and_then(Value::as_str);
    let first = first
        .ok_or_else(|| Refusal::new(PARAM, "init_images has no picture: give one in base64"))?;
    let bytes = picture::from_base64(first, PARAM)?;
    // As the web UI does, whose `img2img_background_color` is white.
    let bytes = picture::over_white(bytes, app.limits.pixels_sent, PARAM)?;
    let bytes = match Fitting::of(fields)? {
        Fitting::Stretched => bytes,
        fitting => fitted(app, bytes, fitting, size)?,
    };
    let made = steps_made(steps, denoising(fields)?);
    Ok(options::init(&bytes, strength(steps, made)))
}

/// How a picture of another shape becomes one of the shape that is made: `resize_mode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fitting {
    /// The engine does so.
    Stretched,
    /// It covers all, and what is over is cut.
    Cropped,
    /// All of it is seen, and its edges go on beside it.
    Filled,
    /// Its latents are stretched.
    Latent,
}

impl Fitting {
    fn of(fields: &Fields) -> Result<Self, Refusal> {
        match fields.whole("resize_mode")? {
            None | Some(0) => Ok(Self::Stretched),
            Some(1) => Ok(Self::Cropped),
            Some(2) => Ok(Self::Filled),
            Some(3) => Ok(Self::Latent),
            Some(other) => Err(Refusal::new(
                "resize_mode",
                format!("resize_mode is 0 (stretch), 1 (crop) or 2 (fill), not {other}"),
            )),
        }
    }
}

/// A picture whose file is `bytes` in the shape of `size`; as it was sent where stretching does the same.
fn fitted(
    app: &App,
    bytes: Vec<u8>,
    fitting: Fitting,
    size: [usize; 2],
) -> Result<Vec<u8>, Refusal> {
    const PARAM: &str = "resize_mode";
    let limits = &app.limits;
    // The plan would refuse it, but it comes later.
    limits.check_pixels("width", size)?;
    let sent = picture::decode(&bytes, limits.pixels_sent, "init_images")?;
    let from = [sent.width() as usize, sent.height() as usize];
    let alike = match fitting {
        Fitting::Latent => from == size,
        _ => from[0] * size[1] == from[1] * size[0],
    };
    // Of no size the plan says what is wrong.
    if alike || size.contains(&0) {
        return Ok(bytes);
    }
    if fitting == Fitting::Latent {
        let message =
            "resize_mode 3, which stretches latents, is not supported; 0 stretches the picture";
        return Err(Refusal::new(PARAM, message));
    }
    let scaled = scaled(from, size, fitting);
    if scaled[0].saturating_mul(scaled[1]) as u64 > limits.pixels_sent {
        let [[width, height], [wide, high]] = [from, size];
        let message = format!(
            "a picture of {width}x{height} pixels is too large where it covers {wide}x{high}; crop it before it is sent"
        );
        return Err(Refusal::new(PARAM, message));
    }
    let [wide, high] = scaled.map(|side| side as u32);
    let scaled = imageops::resize(&sent.into_rgb8(), wide, high, FilterType::Lanczos3);
    let fitted = match fitting {
        Fitting::Filled => filled(&scaled, size),
        _ => cropped(&scaled, size),
    };
    picture::encode(&fitted.into(), PARAM)
}

/// What a picture of `from` is scaled to, to cover `size` or to be seen whole in it; `src_w` and `src_h` in the web UI's
/// `resize_image`.
fn scaled(
    [from_wide, from_high]: [usize; 2],
    [wide, high]: [usize; 2],
    fitting: Fitting,
) -> [usize; 2] {
    let by_width = [wide, (from_high * wide / from_wide).max(1)];
    let by_height = [(from_wide * high / from_high).max(1), high];
    let is_wider = wide * from_high > high * from_wide;
    match is_wider == (fitting == Fitting::Cropped) {
        true => by_width,
        false => by_height,
    }
}

/// The middle of a picture that covers `size`.
fn cropped(scaled: &RgbImage, [wide, high]: [usize; 2]) -> RgbImage {
    let [wide, high] = [wide, high].map(|side| side as u32);
    let left = (scaled.width() / 2).saturating_sub(wide / 2);
    let top = (scaled.height() / 2).saturating_sub(high / 2);
    imageops::crop_imm(scaled, left, top, wide, high).to_image()
}

/// A picture in the middle of `size`, and on both sides of it what its edges become if they go on: the web UI lets Pillow stretch
/// a box of no height, or no width, at each edge, where its bicubic filter takes 9/8 of the last row less 1/8 of that before.
fn filled(scaled: &RgbImage, [wide, high]: [usize; 2]) -> RgbImage {
    let within = [scaled.width(), scaled.height()];
    let [left, top] = [
        (wide as u32 / 2).saturating_sub(within[0] / 2),
        (high as u32 / 2).saturating_sub(within[1] / 2),
    ];
    RgbImage::from_fn(wide as u32, high as u32, |x, y| {
        let (across, past_x) = along(x, left, within[0]);
        let (down, past_y) = along(y, top, within[1]);
        let edge = *scaled.get_pixel(across, down);
        if !(past_x || past_y) {
            return edge;
        }
        let inwards = |at: u32, length: u32, past: bool| match (past, at) {
            (true, 0) => (length - 1).min(1),
            (true, last) => last - 1,
            (false, at) => at,
        };
        let before = scaled.get_pixel(
            inwards(across, within[0], past_x),
            inwards(down, within[1], past_y),
        );
        let go_on = |channel: usize| {
            let [edge, before] = [edge, *before].map(|Rgb(pixel)| i32::from(pixel[channel]));
            (9 * edge - before + 4).div_euclid(8).clamp(0, 255) as u8
        };
        Rgb([0, 1, 2].map(go_on))
    })
}

/// Where the pixel `at` is in a picture of `length` that begins at `start`, and whether it is past one of its ends.
fn along(at: u32, start: u32, length: u32) -> (u32, bool) {
    match at.checked_sub(start) {
        None => (0, true),
        Some(at) if at >= length => (length - 1, true),
        Some(at) => (at, false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_steps_are_made_as_the_web_ui_makes() {
        // What its progress bar counts to.
        for (steps, denoising, made) in [
            (20, 0.75, 16),
            (20, 0.5, 11),
            (20, 1.0, 20),
            (50, 0.75, 38),
            (1, 0.75, 1),
            (20, 0.0, 1),
            (7, 0.3, 3),
        ] {
            assert_eq!(steps_made(steps, denoising), made, "{steps} {denoising}");
        }
        // And ours comes to the same, whatever is asked for.
        for steps in 1..=150 {
            for percent in 0..=100 {
                let made = steps_made(steps, f64::from(percent) / 100.0);
                let strength = strength(steps, made);
                assert_eq!(
                    (steps as f64 * strength) as usize,
                    made,
                    "{steps} {percent}"
                );
                assert!(strength > 0.0 && strength <= 1.0, "{steps} {percent}");
            }
        }
    }

    /// `src_w` and `src_h` of the web UI's `resize_image`.
    #[test]
    fn pictures_cover_or_fit() {
        let both = |from, size| {
            [Fitting::Cropped, Fitting::Filled].map(|fitting| scaled(from, size, fitting))
        };
        assert_eq!(both([512, 768], [512, 512]), [[512, 768], [341, 512]]);
        assert_eq!(both([768, 512], [512, 512]), [[768, 512], [512, 341]]);
        assert_eq!(both([100, 100], [64, 128]), [[128, 128], [64, 64]]);
        assert_eq!(both([4096, 1], [64, 64])[1], [64, 1]);
    }

    #[test]
    fn the_middle_is_kept_and_edges_go_on() {
        let pixel = |x: u32, y: u32| Rgb([(16 * x) as u8, (16 * y) as u8, 7]);
        let square = RgbImage::from_fn(16, 16, pixel);
        let middle = RgbImage::from_fn(16, 8, |x, y| pixel(x, y + 4));
        assert!(cropped(&square, [16, 8]) == middle);
        assert!(cropped(&square, [8, 16]) == RgbImage::from_fn(8, 16, |x, y| pixel(x + 4, y)));
        // What Pillow 12 makes of boxes of no height at the upper and lower edge of these two rows.
        let rows = [[10_u8, 60, 200, 250], [40, 90, 120, 20]];
        let small = RgbImage::from_fn(4, 2, |x, y| {
            let value = rows[y as usize][x as usize];
            Rgb([value, 255 - value, 10 * x as u8])
        });
        let above = [[6, 249, 0], [56, 199, 10], [210, 45, 20], [255, 0, 30]];
        let below = [[44, 211, 0], [94, 161, 10], [110, 145, 20], [0, 255, 30]];
        let tall = filled(&small, [4, 8]);
        let wide = filled(&imageops::rotate90(&small), [8, 4]);
        for at in 0..8 {
            for across in 0..4 {
                let expected = match at {
                    0..3 => Rgb(above[across as usize]),
                    5.. => Rgb(below[across as usize]),
                    _ => *small.get_pixel(across, at - 3),
                };
                assert_eq!(*tall.get_pixel(across, at), expected, "{across} {at}");
                // A quarter turn: the upper edge is the right one.
                assert_eq!(*wide.get_pixel(7 - at, across), expected, "{across} {at}");
            }
        }
        let line = RgbImage::from_pixel(4, 1, Rgb([9, 8, 7]));
        assert!(filled(&line, [4, 4]) == RgbImage::from_pixel(4, 4, Rgb([9, 8, 7])));
    }
}
