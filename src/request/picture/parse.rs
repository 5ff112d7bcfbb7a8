//! Pictures as prompts from the command line: `FILE`, and options behind commas.

use std::str::FromStr;

use super::{BlockScale, PicturePrompt, PicturePromptError, PictureRegion};
use crate::guidance::boxes::BBox;
use crate::sampling::StepRange;

impl FromStr for PicturePrompt {
    type Err = PicturePromptError;

    /// `FILE`, and behind commas `adapter=2`, `scale=0.6`, `blocks=down2:0:1+up0:0:1:0`, `steps=0-14`,
    /// `region=0:0:0.5:1` or `region=mask.png`, and `softmax=own`. Commas before the first option belong to the name.
    fn from_str(given: &str) -> Result<Self, PicturePromptError> {
        const OPTIONS: [&str; 6] = ["adapter", "scale", "blocks", "steps", "region", "softmax"];
        let wrong = |why: String| PicturePromptError::Syntax {
            given: given.into(),
            why,
        };
        let mut options = Vec::new();
        let mut path = given;
        while let Some((before, option)) = path.rsplit_once(',') {
            let Some((key, value)) = option.split_once('=') else {
                break;
            };
            if !OPTIONS.contains(&key) {
                return Err(wrong(format!(
                    "{key:?} is not an option; there are {}",
                    OPTIONS.join(", ")
                )));
            }
            options.push((key, value));
            path = before;
        }
        if path.is_empty() {
            return Err(wrong("the file is missing".into()));
        }
        let mut picture = Self::new(path);
        for (key, value) in options.into_iter().rev() {
            picture.set(key, value).map_err(wrong)?;
        }
        Ok(picture)
    }
}

impl PicturePrompt {
    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        let number = |value: &str| {
            let read = value.parse::<f64>();
            read.map_err(|_| format!("{key} is {value:?}, which is not a number"))
        };
        match key {
            "adapter" => {
                let read = value.parse();
                self.adapter =
                    read.map_err(|_| format!("adapter is {value:?}; adapters are counted from 1"))?;
            }
            "scale" => self.scale = number(value)?,
            "steps" => {
                let steps: StepRange = value.parse()?;
                (self.first_step, self.last_step) = (steps.first, steps.last);
            }
            "blocks" => {
                let read = |part: &str| {
                    let mut parts = part.split(':');
                    let block = parts.next().unwrap_or_default().to_string();
                    let scales = parts.map(number).collect::<Result<Vec<_>, _>>()?;
                    match scales.is_empty() {
                        true => Err(format!("the block {part:?} has no factor, as in up0:0:1:0")),
                        false => Ok(BlockScale { block, scales }),
                    }
                };
                self.blocks = value.split('+').map(read).collect::<Result<_, _>>()?;
            }
            "region" => self.region = Some(region(value)?),
            _ => {
                self.own_softmax = match value {
                    "own" => true,
                    "joint" => false,
                    _ => return Err(format!("softmax is {value:?}; it is own or joint")),
                }
            }
        }
        Ok(())
    }
}

/// Four numbers are a box, anything else is the name of a mask.
fn region(value: &str) -> Result<PictureRegion, String> {
    let corners: Result<Vec<f64>, _> = value.split(':').map(str::parse).collect();
    match corners.as_deref() {
        Ok(&[x0, y0, x1, y1]) => {
            let bbox = BBox::new([x0, y0, x1, y1]).map_err(|error| error.to_string())?;
            Ok(PictureRegion::Box(bbox))
        }
        Ok(_) => Err(format!(
            "the region {value:?} has not four corners, as in 0:0:0.5:1"
        )),
        Err(_) if value.is_empty() => Err("the region is empty".into()),
        Err(_) => Ok(PictureRegion::Mask {
            path: value.into(),
            sha256: None,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> PicturePrompt {
        text.parse().unwrap()
    }

    #[test]
    fn pictures_are_read() {
        assert_eq!(read("a, b.png"), PicturePrompt::new("a, b.png"));
        let all = read(
            "dog.png,adapter=2,scale=0.6,blocks=down2:0:1+up0:0.5,steps=3-14,region=0:0:0.5:1,softmax=own",
        );
        assert_eq!((all.adapter, all.scale, all.own_softmax), (2, 0.6, true));
        assert_eq!((all.first_step, all.last_step), (3, Some(14)));
        assert_eq!(all.blocks[0].scales, [0.0, 1.0]);
        let corners = BBox::new([0.0, 0.0, 0.5, 1.0]).unwrap();
        assert_eq!(all.region, Some(PictureRegion::Box(corners)));
        let json = serde_json::to_string(&all).unwrap();
        assert_eq!(serde_json::from_str::<PicturePrompt>(&json).unwrap(), all);
        let steps = |text: &str| {
            let picture = read(&format!("a,steps={text}"));
            (picture.first_step, picture.last_step)
        };
        assert_eq!(
            [steps("15-"), steps("-4"), steps("7")],
            [(15, None), (0, Some(4)), (7, Some(7))]
        );
        let mask = read("a,region=left.png").region;
        assert!(
            matches!(mask, Some(PictureRegion::Mask { path, .. }) if path.ends_with("left.png"))
        );
        assert!(read("a,steps=3-4").acts_at(4) && !read("a,steps=3-4").acts_at(5));
        for (wrong, why) in [
            (",scale=1", "file is missing"),
            ("a,size=3", "not an option"),
            ("a,scale=big", "not a number"),
            ("a,steps=few", "counted from 0"),
            ("a,region=0:0:1", "four corners"),
            ("a,region=0:0:2:1", "not within"),
            ("a,blocks=up0", "no factor"),
            ("a,softmax=two", "own or joint"),
            ("a,adapter=one", "counted from 1"),
        ] {
            let error = wrong.parse::<PicturePrompt>().unwrap_err().to_string();
            assert!(error.contains(why), "{wrong}: {error}");
        }
    }
}
