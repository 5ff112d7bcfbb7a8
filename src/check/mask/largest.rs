//! The largest part of a mask.

use super::Mask;

impl Mask {
    /// The part with the largest outline, its holes filled. Pixels that touch at a corner are of one part. An outline goes
    /// through the centres of its pixels, so a line is none; of equal outlines the one whose highest row is lowest counts,
    /// as in OpenCV's `findContours`, whose largest outline the released script of PSE in depth fills.
    pub fn largest_part(&self) -> Self {
        let (width, height) = (self.width, self.height);
        let filled: Vec<bool> = outside(width, height, &self.pixels())
            .into_iter()
            .map(|outside| !outside)
            .collect();
        let mut largest: Option<(usize, Vec<usize>)> = None;
        let mut seen = vec![false; filled.len()];
        for start in 0..filled.len() {
            if !filled[start] || seen[start] {
                continue;
            }
            let part = part(width, height, &filled, &mut seen, start);
            let halves = twice_outlined(width, &filled, &part);
            if largest.as_ref().is_none_or(|(most, _)| halves >= *most) {
                largest = Some((halves, part));
            }
        }
        let mut covered = vec![false; filled.len()];
        for at in largest.map(|(_, part)| part).unwrap_or_default() {
            covered[at] = true;
        }
        Self::new(width, height, covered).unwrap_or_else(|_| self.clone())
    }
}

/// The uncovered pixels that the picture's border can be reached from, over edges.
fn outside(width: usize, height: usize, covered: &[bool]) -> Vec<bool> {
    let mut outside = vec![false; covered.len()];
    let border = |at: &usize| {
        let (x, y) = (at % width, at / width);
        x == 0 || y == 0 || x + 1 == width || y + 1 == height
    };
    let mut open: Vec<usize> = (0..covered.len()).filter(border).collect();
    while let Some(at) = open.pop() {
        if covered[at] || outside[at] {
            continue;
        }
        outside[at] = true;
        let (x, y) = (at % width, at / width);
        open.extend((x > 0).then(|| at - 1));
        open.extend((x + 1 < width).then(|| at + 1));
        open.extend((y > 0).then(|| at - width));
        open.extend((y + 1 < height).then(|| at + width));
    }
    outside
}

/// The pixels that hang together with one, over edges and corners.
fn part(
    width: usize,
    height: usize,
    filled: &[bool],
    seen: &mut [bool],
    start: usize,
) -> Vec<usize> {
    let mut part = Vec::new();
    let mut open = vec![start];
    seen[start] = true;
    while let Some(at) = open.pop() {
        part.push(at);
        let (x, y) = (at % width, at / width);
        for y in y.saturating_sub(1)..(y + 2).min(height) {
            for x in x.saturating_sub(1)..(x + 2).min(width) {
                let next = y * width + x;
                if filled[next] && !seen[next] {
                    seen[next] = true;
                    open.push(next);
                }
            }
        }
    }
    part
}

/// Twice the area that the outline of a part without holes encloses: of each four pixels that meet at a corner, two halves if
/// the part has all, and one if it has three.
fn twice_outlined(width: usize, filled: &[bool], part: &[usize]) -> usize {
    let has = |x: usize, y: usize| x < width && filled.get(y * width + x).is_some_and(|&on| on);
    // What meets at a corner hangs together, so all filled pixels there are of this part. Blocks of three without their first
    // pixel are counted from the one below it.
    let halves = part.iter().map(|at| {
        let (x, y) = (at % width, at / width);
        let around = [has(x + 1, y), has(x, y + 1), has(x + 1, y + 1)];
        let below = around
            .into_iter()
            .filter(|on| *on)
            .count()
            .saturating_sub(1);
        let without_first = x > 0 && y > 0 && has(x - 1, y) && has(x, y - 1) && !has(x - 1, y - 1);
        below + usize::from(without_first)
    });
    halves.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mask(rows: &[String]) -> Mask {
        let covered = rows
            .iter()
            .flat_map(|row| row.bytes().map(|byte| byte == b'#'));
        Mask::new(rows[0].len(), rows.len(), covered.collect()).unwrap()
    }

    #[test]
    fn the_largest_part_is_opencvs() {
        #[derive(serde::Deserialize)]
        struct Case {
            mask: Vec<String>,
            largest: Vec<String>,
        }
        let text = include_str!("../../../fixtures/masks/largest_parts.json");
        let cases: Vec<Case> = serde_json::from_str(text).unwrap();
        assert!(cases.len() > 20);
        for case in cases {
            assert_eq!(
                mask(&case.mask).largest_part(),
                mask(&case.largest),
                "{:#?}",
                case.mask
            );
        }
    }

    #[test]
    fn nothing_has_no_part() {
        for (width, height) in [(0, 0), (3, 2), (1, 5)] {
            let nothing = Mask::new(width, height, vec![false; width * height]).unwrap();
            assert_eq!(nothing.largest_part(), nothing);
        }
    }
}
