//! The sizes that pictures are brought to: one, or kohya's buckets of about the same area.

use prepose_draw::picture::Picture;
use serde::{Deserialize, Serialize};

/// Width and height in pixels.
pub type Size = [usize; 2];

/// The longest side of a picture before it is cropped, as of those that are read: very thin ones would take all memory.
const LONGEST: usize = 16_384;

/// Which sizes there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sizes {
    /// The size, or that of which buckets have at most the area.
    pub resolution: Size,
    /// Buckets of other shapes, if there are any.
    pub buckets: Option<Buckets>,
}

/// kohya's settings of buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Buckets {
    /// The shortest side.
    pub shortest: usize,
    /// The longest side.
    pub longest: usize,
    /// Sides are multiples of it.
    pub step: usize,
    /// Small pictures stay as small as they are, their sides cut to multiples of the step.
    pub no_upscale: bool,
}

impl Buckets {
    /// With sides that are multiples of the step: the shortest rounded down and the longest up, as kohya's
    /// `adjust_min_max_bucket_reso_by_steps` does it.
    pub fn in_steps(self) -> Self {
        let step = self.step.max(1);
        Self {
            shortest: self.shortest - self.shortest % step,
            longest: self
                .longest
                .checked_next_multiple_of(step)
                .unwrap_or(self.longest),
            ..self
        }
    }
}

/// How a picture comes to its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Fit {
    /// What it is resized to, its shape kept.
    pub resized: Size,
    /// Left and top of what is cut out of the middle.
    pub offset: Size,
    /// The size at the end.
    pub size: Size,
}

/// The sizes, ready to be chosen from.
#[derive(Clone, Debug)]
pub struct Chooser {
    sizes: Sizes,
    /// In kohya's order.
    buckets: Vec<Size>,
}

fn aspect([width, height]: Size) -> f64 {
    width as f64 / height as f64
}

impl Sizes {
    /// The sizes that there are, in kohya's order.
    pub fn chooser(self) -> Chooser {
        let mut buckets = Vec::new();
        if let Some(Buckets {
            shortest,
            longest,
            step,
            ..
        }) = self.buckets
        {
            let area = self.resolution[0] * self.resolution[1];
            let square = ((area as f64).sqrt() / step as f64) as usize * step;
            buckets.push([square, square]);
            // A wider one would be lower than the shortest side.
            for width in (shortest..=longest.min(area / shortest.max(1))).step_by(step) {
                let height = longest.min(area / width / step * step);
                if height >= shortest {
                    buckets.extend([[width, height], [height, width]]);
                }
            }
            buckets.sort_unstable();
            buckets.dedup();
        }
        Chooser {
            sizes: self,
            buckets,
        }
    }
}

impl Chooser {
    /// The buckets; none where there is but one size.
    pub fn buckets(&self) -> &[Size] {
        &self.buckets
    }

    /// How a picture of this size comes to that of a bucket.
    ///
    /// # Errors
    /// Why it comes to none: without upscaling a picture may be too small for any, and a very thin one would be too long before
    /// it is cropped.
    pub fn fit(&self, picture: Size) -> Result<Fit, String> {
        let [width, height] = picture;
        let fit = match self.sizes.buckets {
            Some(Buckets {
                no_upscale: true,
                step,
                ..
            }) => self.fit_within(picture, step).ok_or_else(|| {
                format!(
                    "it has {width} x {height} pixels, and without upscaling (--no-upscale) a side would be shorter than the step \
                     of buckets, {step} (--bucket-step)"
                )
            })?,
            Some(_) => Fit::covering(picture, self.nearest(picture)),
            None => Fit::covering(picture, self.sizes.resolution),
        };
        let [wide, high] = fit.resized;
        match wide.max(high) <= LONGEST {
            true => Ok(fit),
            false => Err(format!(
                "it has {width} x {height} pixels, and to cover {} x {} it would be resized to {wide} x {high}, where a side \
                 may have {LONGEST}; crop it",
                fit.size[0], fit.size[1]
            )),
        }
    }

    /// The bucket of the same size, or of the nearest shape by the difference of width / height; the first of equals.
    fn nearest(&self, picture: Size) -> Size {
        if self.buckets.contains(&picture) {
            return picture;
        }
        let shape = aspect(picture);
        let off = |size: &Size| (aspect(*size) - shape).abs();
        let nearest = self.buckets.iter().min_by(|a, b| off(a).total_cmp(&off(b)));
        nearest.copied().unwrap_or(self.sizes.resolution)
    }

    fn fit_within(&self, picture: Size, step: usize) -> Option<Fit> {
        let [width, height] = picture;
        let area = self.sizes.resolution[0] * self.sizes.resolution[1];
        let resized = if width * height <= area {
            picture
        } else {
            let shape = aspect(picture);
            let rounded = |side: f64| {
                let whole = (side + 0.5) as usize;
                whole - whole % step
            };
            let wide = (area as f64 * shape).sqrt();
            let tall = area as f64 / wide;
            let by_width = rounded(wide).max(step);
            let of_width = rounded(by_width as f64 / shape).max(step);
            let by_height = rounded(tall).max(step);
            let of_height = rounded(by_height as f64 * shape).max(step);
            let off = |size: Size| (aspect(size) - shape).abs();
            match off([by_width, of_width]) < off([of_height, by_height]) {
                true => [by_width, (by_width as f64 / shape + 0.5) as usize],
                false => [(by_height as f64 * shape + 0.5) as usize, by_height],
            }
        };
        let size = resized.map(|side| side - side % step);
        (!size.contains(&0)).then(|| Fit::cut(resized, size))
    }
}

impl Fit {
    /// The picture covers the size and is cut on two sides.
    fn covering(picture: Size, size: Size) -> Self {
        let scale = match aspect(picture) > aspect(size) {
            true => size[1] as f64 / picture[1] as f64,
            false => size[0] as f64 / picture[0] as f64,
        };
        let resized = [0, 1].map(|i| ((picture[i] as f64 * scale + 0.5) as usize).max(size[i]));
        Self::cut(resized, size)
    }

    fn cut(resized: Size, size: Size) -> Self {
        Self {
            resized,
            offset: [0, 1].map(|i| (resized[i] - size[i]) / 2),
            size,
        }
    }

    /// Resizes (Lanczos) and cuts a picture.
    pub fn apply(&self, picture: &Picture) -> Picture {
        let [width, height] = self.resized;
        let resized = match [picture.width, picture.height] == self.resized {
            true => picture.clone(),
            false => picture.resized(width, height),
        };
        match self.size == self.resized {
            true => resized,
            false => resized.cropped(self.offset, self.size),
        }
    }
}
