//! Notes beside dots, where there is room for them.

use super::drawing::{Anchor, Drawing, Ink};
use crate::font;

const SIZE: f64 = 11.5;

/// Rectangles that are taken: left, top, right, bottom.
#[derive(Debug, Default)]
pub(super) struct Taken(Vec<[f64; 4]>);

impl Taken {
    /// A square around a dot.
    pub fn dot(&mut self, (x, y): (f64, f64), radius: f64) {
        self.0
            .push([x - radius, y - radius, x + radius, y + radius]);
    }

    fn is_free(&self, [left, top, right, bottom]: [f64; 4]) -> bool {
        let apart =
            |[l, t, r, b]: &[f64; 4]| right <= *l || *r <= left || bottom <= *t || *b <= top;
        self.0.iter().all(apart)
    }

    /// Writes `text` beside `(x, y)` within `bounds`, at the first side where it covers nothing; not at all if there is none.
    pub fn note(
        &mut self,
        on: &mut Drawing,
        (x, y): (f64, f64),
        text: &str,
        bounds: [f64; 4],
        ink: Ink,
    ) -> bool {
        let width = font::width(text, SIZE);
        let sides = [
            (x + 9.0, y + 4.0, Anchor::Start),
            (x - 9.0, y + 4.0, Anchor::End),
            (x, y - 9.0, Anchor::Middle),
            (x, y + 18.0, Anchor::Middle),
            (x + 8.0, y - 8.0, Anchor::Start),
            (x + 8.0, y + 16.0, Anchor::Start),
            (x - 8.0, y - 8.0, Anchor::End),
            (x - 8.0, y + 16.0, Anchor::End),
        ];
        for (at_x, at_y, anchor) in sides {
            let left = match anchor {
                Anchor::Start => at_x,
                Anchor::Middle => at_x - width / 2.0,
                Anchor::End => at_x - width,
            };
            let here = [left, at_y - 0.85 * SIZE, left + width, at_y + 0.25 * SIZE];
            let within = here[0] >= bounds[0]
                && here[1] >= bounds[1]
                && here[2] <= bounds[2]
                && here[3] <= bounds[3];
            if within && self.is_free(here) {
                self.0.push(here);
                on.text((at_x, at_y), text, SIZE, anchor, ink);
                return true;
            }
        }
        false
    }
}
