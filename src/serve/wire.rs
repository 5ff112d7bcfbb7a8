//! What a client may ask for, in the words of the wire. It is no `Request` of the engine: it names no file.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

/// A `T` from a JSON object alone: derived code would also take a list of its fields' values in their order, which nobody means.
pub(crate) struct Object<T>(pub T);

struct ObjectVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for ObjectVisitor<T> {
    type Value = Object<T>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(Object)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ObjectVisitor(PhantomData))
    }
}

fn object<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<T, D::Error> {
    Object::deserialize(deserializer).map(|Object(value)| value)
}

fn object_or_null<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    let given = Option::<Object<T>>::deserialize(deserializer)?;
    Ok(given.map(|Object(value)| value))
}

fn objects<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Vec<T>, D::Error> {
    let given = Vec::<Object<T>>::deserialize(deserializer)?;
    Ok(given.into_iter().map(|Object(value)| value).collect())
}

/// One job: a request, made from several seeds perhaps.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Wanted {
    /// What each picture is made from.
    #[serde(deserialize_with = "object")]
    pub request: RequestWanted,
    /// A picture for each; none for the request's own seed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub seeds: Vec<Seed>,
    /// Also without guidance, from the same seeds.
    #[serde(default)]
    pub plain: bool,
    /// The best of several noises, for each seed.
    #[serde(
        default,
        deserialize_with = "object_or_null",
        skip_serializing_if = "Option::is_none"
    )]
    pub search: Option<SearchWanted>,
    /// Each picture larger, drawn over once more.
    #[serde(
        default,
        deserialize_with = "object_or_null",
        skip_serializing_if = "Option::is_none"
    )]
    pub second_pass: Option<SecondPassWanted>,
    /// Whether the checker looks at the finished pictures.
    #[serde(default = "yes")]
    pub check: bool,
    /// A preview every so many steps; 0 for none.
    #[serde(default = "one")]
    pub previews: usize,
    /// Whether attention maps, the loss and the probability of superiority are sent.
    #[serde(default = "yes")]
    pub maps: bool,
}

fn yes() -> bool {
    true
}

fn one() -> usize {
    1
}

/// What one picture is made from. What is not said is the checkpoint's.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RequestWanted {
    /// The prompt as typed.
    pub prompt: String,
    /// What should not be there.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub negative_prompt: String,
    /// Of the noise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<Seed>,
    /// In pixels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub width: Option<usize>,
    /// In pixels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub height: Option<usize>,
    /// Denoising steps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps: Option<usize>,
    /// Classifier-free guidance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guidance_scale: Option<f64>,
    /// The steps in which it acts, from 0: `{first, last}`, or as `2-14`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guidance_steps: Option<Value>,
    /// By name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduler: Option<String>,
    /// `leading`, `trailing` or `linspace`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timestep_spacing: Option<String>,
    /// `{deep_cache, tgate, token_merging}`: what is left out of the network's calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub savings: Option<Value>,
    /// As `dog | left of | cat`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub relations: Vec<String>,
    /// `{object, box}` each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub boxes: Vec<Value>,
    /// `{part, box}` each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub regions: Vec<Value>,
    /// `{share}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ground: Option<Value>,
    /// `{method, …}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guide: Option<Value>,
    /// By name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<String>,
    /// By name.
    #[serde(
        default,
        deserialize_with = "objects",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub loras: Vec<LoraWanted>,
    /// Layers of the text encoder that are left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clip_skip: Option<usize>,
    /// Whose random numbers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub noise: Option<String>,
    /// The picture to begin with.
    #[serde(
        default,
        deserialize_with = "object_or_null",
        skip_serializing_if = "Option::is_none"
    )]
    pub init: Option<Init>,
    /// What the checkpoint's IP-Adapters show to the network.
    #[serde(
        default,
        deserialize_with = "objects",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub pictures: Vec<PictureWanted>,
}

/// A picture that is shown to the network.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct PictureWanted {
    /// As [`Init::image`].
    pub image: String,
    /// Which of the checkpoint's adapters shows it, from 1.
    #[serde(default = "one")]
    pub adapter: usize,
    /// How strongly.
    #[serde(default = "full")]
    pub scale: f64,
    /// The first step with it, from 0.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub first_step: usize,
    /// The last step with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_step: Option<usize>,
    /// Where it acts; none for everywhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<RegionWanted>,
}

fn is_zero(number: &usize) -> bool {
    *number == 0
}

/// Where a picture acts.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RegionWanted {
    /// Left, upper, right and lower edge, in shares of the picture that is made.
    Box([f64; 4]),
    /// Where a picture of the shape of the one that is made is bright; as [`Init::image`].
    Mask(String),
}

/// A LoRA of the server's folder.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct LoraWanted {
    /// The file's name without its ending.
    pub name: String,
    /// How strongly it is merged.
    #[serde(default = "full")]
    pub weight: f64,
}

fn full() -> f64 {
    1.0
}

/// A picture to begin with.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Init {
    /// Base64, with or without `data:…;base64,` before it; after it was taken in, `sha256:` and its hash.
    pub image: String,
    /// In (0, 1].
    #[serde(default = "most")]
    pub strength: f64,
}

fn most() -> f64 {
    0.75
}

/// A second pass: the finished picture made larger, with noise, and denoised again.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct SecondPassWanted {
    /// To this width in pixels, less what is no whole latent.
    pub width: usize,
    /// To this height in pixels, likewise.
    pub height: usize,
    /// Width and height of the middle that is kept; none is all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub crop: Option<[usize; 2]>,
    /// `lanczos` for its pixels, or for its latents `latent`, `latent-antialiased`, `latent-bicubic`,
    /// `latent-bicubic-antialiased`, `latent-nearest` or `latent-nearest-exact`.
    #[serde(default = "latent")]
    pub upscaler: String,
    /// Denoising steps that are made; none is as many as the first pass makes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps: Option<usize>,
    /// In (0, 1]: the share of the noise that is put on.
    #[serde(default = "most")]
    pub strength: f64,
    /// By name; none is the first pass's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduler: Option<String>,
    /// None is the first pass's. What changes in it is counted through the steps of both passes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// None is the first pass's; counted likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub negative_prompt: Option<String>,
}

fn latent() -> String {
    "latent".into()
}

/// Best-of-N.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct SearchWanted {
    /// How many candidates.
    pub best_of: usize,
    /// What makes one good.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reward: Option<String>,
    /// `auto`, or the numbers of steps after which half is dropped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pruning: Option<Value>,
}

/// A seed: a number, or its digits where JavaScript's numbers would lose some.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seed(pub u64);

/// Above it JavaScript's numbers have gaps.
const SAFE: u64 = (1 << 53) - 1;

impl Serialize for Seed {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 <= SAFE {
            true => serializer.serialize_u64(self.0),
            false => serializer.serialize_str(&self.0.to_string()),
        }
    }
}

impl<'de> Deserialize<'de> for Seed {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        let seed = match &value {
            Value::Number(number) => number.as_u64(),
            Value::String(digits) => digits.parse().ok(),
            _ => None,
        };
        let wrong = || {
            D::Error::custom(format!(
                "{} is not a seed: a whole number from 0 to {}",
                prepose_untrusted::printable(&value.to_string()),
                u64::MAX
            ))
        };
        seed.map(Self).ok_or_else(wrong)
    }
}

impl Wanted {
    /// One picture of `request`, without the page's extras.
    pub fn of(request: RequestWanted) -> Self {
        Self {
            request,
            seeds: Vec::new(),
            plain: false,
            search: None,
            second_pass: None,
            check: false,
            previews: 0,
            maps: false,
        }
    }

    /// The pictures in it, in base64 or taken in, each with the field that it is in.
    pub(crate) fn images(&mut self) -> Vec<(&'static str, &mut String)> {
        let init = self.request.init.as_mut();
        let mut images: Vec<_> = init
            .map(|init| ("request.init.image", &mut init.image))
            .into_iter()
            .collect();
        for shown in &mut self.request.pictures {
            images.push(("request.pictures", &mut shown.image));
            if let Some(RegionWanted::Mask(mask)) = &mut shown.region {
                images.push(("request.pictures", mask));
            }
        }
        images
    }

    /// The seeds that it asks for.
    pub fn seeds(&self) -> Vec<u64> {
        match self.seeds.is_empty() {
            true => vec![self.request.seed.map_or(0, |seed| seed.0)],
            false => self.seeds.iter().map(|seed| seed.0).collect(),
        }
    }
}
