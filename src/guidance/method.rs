//! What a guidance method is: the trait that each of them implements, and the handle that requests name it by.

use std::fmt::{self, Debug};
use std::str::FromStr;
use std::sync::Arc;

use clap::builder::PossibleValue;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::classifier::Classifier;
use super::gradient::MapLoss;
use super::steps::Refinement;
use super::{GuidanceConfig, GuidanceError, METHODS, Network, Preset, Settings, Target};

/// A way of guiding that somebody has published.
pub trait GuidanceMethod: Sync {
    /// The name in requests and on the command line.
    fn name(&self) -> &'static str;

    /// The name in `prepose run` and in reports, if the field knows the method by another. `run` takes both.
    fn known_as(&self) -> &'static str {
        self.name()
    }

    /// One line for `--help`.
    fn about(&self) -> &'static str;

    /// Whose constants there are, [`Preset::Default`] among them.
    fn presets(&self) -> &'static [Preset];

    /// What it goes by.
    fn needs(&self) -> Needs;

    /// Which of the options `loss`, `combine`, `distance` and `smoothing` it reads; they shape the loss. It may read
    /// all others.
    fn reads(&self) -> &'static [&'static str];

    /// The constants of `config.preset` for `network`, and over them what `config` says about the loss; the caller puts
    /// the rest of `config` over them. The preset is one of [`presets`](Self::presets).
    fn settings(&self, config: &GuidanceConfig, network: Network) -> Settings;

    /// Whether its loss is a classifier that was trained for the checkpoint ([`Loss::taught`]). It says which layers are
    /// read, and the network's own call is not recorded.
    fn is_learned(&self) -> bool {
        false
    }

    /// What `refine` turns on where the preset repeats no step; without any, it is refused.
    fn refinement(&self) -> Refinement {
        Refinement::published(false)
    }
}

/// What a method goes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// The relations of the prompt; at least one, and none of depth.
    Relations,
    /// Boxes, or the layout of the prompt's only relation.
    Boxes,
    /// The objects of the prompt; at least so many.
    Objects(usize),
}

/// A loss with its constants, before it is told about pictures.
pub trait Loss: Debug + Send + Sync {
    /// The losses for a batch with these targets, to be applied one after the other within a step.
    ///
    /// # Errors
    /// [`GuidanceError::NotInThePlane`].
    fn passes(&self, targets: &[Target]) -> Result<Vec<Box<dyn MapLoss>>, GuidanceError>;

    /// The same loss with a classifier, if it goes by one. Without, it has no passes.
    fn taught(&self, _classifier: &Arc<Classifier>) -> Option<Arc<dyn Loss>> {
        None
    }
}

/// One of [`METHODS`]; in requests and on the command line its name.
#[derive(Clone, Copy)]
pub struct Method(pub(super) &'static dyn GuidanceMethod);

impl Method {
    /// The method with that name, or [known](GuidanceMethod::known_as) by it.
    pub fn named(name: &str) -> Option<Self> {
        let is = |method: &&Self| name == method.name() || name == method.known_as();
        METHODS.iter().find(is).copied()
    }
}

impl Method {
    /// Two methods as one, if they are, in whatever order.
    pub fn both(one: Self, other: Self) -> Option<Self> {
        let joined = |[a, b]: [Self; 2]| Self::named(&format!("{}+{}", a.name(), b.name()));
        joined([one, other]).or_else(|| joined([other, one]))
    }
}

impl<M: GuidanceMethod> From<&'static M> for Method {
    fn from(method: &'static M) -> Self {
        Self(method)
    }
}

impl std::ops::Deref for Method {
    type Target = dyn GuidanceMethod;

    fn deref(&self) -> &Self::Target {
        self.0
    }
}

impl PartialEq for Method {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Eq for Method {}

impl Debug for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Method {
    type Err = String;

    /// Reads the name in requests, and no other, so that a request is spelt in one way.
    fn from_str(name: &str) -> Result<Self, String> {
        let found = METHODS.iter().find(|method| method.name() == name);
        found.copied().ok_or_else(|| {
            let names: Vec<&str> = METHODS.iter().map(|method| method.name()).collect();
            format!(
                "{name:?} is not a guidance method; there are {}",
                names.join(", ")
            )
        })
    }
}

impl Serialize for Method {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for Method {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        name.parse().map_err(de::Error::custom)
    }
}

impl clap::ValueEnum for Method {
    fn value_variants<'a>() -> &'a [Self] {
        METHODS
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        let name = PossibleValue::new(self.name()).help(self.about());
        Some(name.alias(self.known_as()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_read_back() {
        for (i, method) in METHODS.iter().enumerate() {
            for name in [method.name(), method.known_as()] {
                assert_eq!(Method::named(name), Some(*method));
                let owners = METHODS
                    .iter()
                    .filter(|other| [other.name(), other.known_as()].contains(&name));
                assert_eq!(owners.count(), 1, "{name}");
            }
            let json = serde_json::to_string(method).unwrap();
            assert_eq!(json, format!("{:?}", method.name()));
            assert_eq!(serde_json::from_str::<Method>(&json).unwrap(), METHODS[i]);
        }
        assert_eq!(Method::named("magic"), None);
        let error = serde_json::from_str::<Method>("\"magic\"").unwrap_err();
        assert!(
            error.to_string().contains("there are pos, boxdiff"),
            "{error}"
        );
    }

    #[test]
    fn every_preset_of_every_method_has_settings() {
        for method in METHODS {
            assert!(method.presets().contains(&Preset::Default));
            for preset in method.presets() {
                for network in [Network::Toybox, Network::Sd1, Network::Sdxl] {
                    let config = GuidanceConfig {
                        preset: *preset,
                        ..GuidanceConfig::new(*method)
                    };
                    let settings = config.settings(network).unwrap();
                    assert_eq!(settings.method, *method);
                    assert!(settings.to_step > 0 && settings.step_size.scale > 0.0);
                }
            }
        }
    }
}
