//! A prompt of a benchmark, with the objects and relations that its pictures are checked for.

use prepose_scene::StatedRelation;
use serde::{Deserialize, Serialize};

/// One prompt of a set, with what it asks for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SuitePrompt {
    /// Unique in the set; letters, digits, `.`, `_` and `-`, as it becomes part of file names.
    pub prompt_id: String,
    /// The text.
    pub prompt: String,
    /// What should be there, in the order of mention, in the set's words.
    #[serde(default)]
    pub objects: Vec<String>,
    /// How they should stand to each other; none for neutral prompts.
    #[serde(default, with = "relations_of_two")]
    pub relations: Vec<StatedRelation>,
    /// The prompt that says the same the other way round, or names the same pair in the other order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counterpart: Option<String>,
    /// What the set says of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// The text without names and order of mention, where it is not to be derived from the prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub neutral: Option<String>,
    /// The text with the objects in the other order, where it is not to be derived from the prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reverse: Option<String>,
    /// Where things belong, for methods that go by boxes: `OBJECT: X0,Y0,X1,Y1`, in shares of width and height.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub boxes: Vec<String>,
    /// The picture that the prompt changes; none for one made from nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edit: Option<Edit>,
}

/// A picture that a prompt is to change.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Edit {
    /// What it shows, in words: the prompt that it is made from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<String>,
    /// Its file; `{seed}` stands for the number of the seed, with four digits. None if it is still to be made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub picture: Option<String>,
    /// How much of it is changed, in (0, 1], for models that change pictures by adding noise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strength: Option<f64>,
}

impl Edit {
    /// How much of a picture is changed where nothing is said: as diffusers does.
    pub const STRENGTH: f64 = 0.8;

    /// Of a picture that is made from this prompt.
    pub fn of(seed: String) -> Self {
        Self {
            seed: Some(seed),
            ..Self::default()
        }
    }

    /// The file of the picture for a seed, if it is made.
    pub fn path(&self, seed: u64) -> Option<String> {
        let picture = self.picture.as_ref()?;
        Some(picture.replace("{seed}", &format!("{seed:04}")))
    }
}

/// Relations of two objects in files: `{"relation": "left_of", "a": 0, "b": 1}`, named as in the released records.
pub mod relations_of_two {
    use serde::de::Error as _;
    use serde::ser::Error as _;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use crate::spatialbench::record::relation_name;
    use prepose_scene::StatedRelation;

    #[derive(Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct OfTwo {
        relation: String,
        a: usize,
        b: usize,
    }

    /// For `#[serde(with = "relations_of_two")]`.
    ///
    /// # Errors
    /// A relation of three objects.
    pub fn serialize<S: Serializer>(
        relations: &[StatedRelation],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let of_two = |stated: &StatedRelation| {
            let (a, b) = stated
                .two()
                .ok_or_else(|| S::Error::custom("a relation of three objects has no form here"))?;
            let relation = relation_name(stated.relation);
            Ok(OfTwo { relation, a, b })
        };
        let all: Vec<OfTwo> = relations.iter().map(of_two).collect::<Result<_, _>>()?;
        all.serialize(serializer)
    }

    /// For `#[serde(with = "relations_of_two")]`.
    ///
    /// # Errors
    /// A field that is missing or unknown, a relation that has no such name.
    pub fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<StatedRelation>, D::Error> {
        let stated = |OfTwo { relation, a, b }| {
            let relation = relation.parse().map_err(D::Error::custom)?;
            Ok(StatedRelation::of_two(a, relation, b))
        };
        let all = Vec::<OfTwo>::deserialize(deserializer)?;
        all.into_iter().map(stated).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prepose_scene::Relation;

    #[test]
    fn a_prompt_survives_json() {
        let prompt = SuitePrompt {
            prompt_id: "p1".into(),
            prompt: "a dog to the left of a cat".into(),
            objects: vec!["dog".into(), "cat".into()],
            relations: vec![StatedRelation::of_two(0, Relation::LeftOf, 1)],
            ..SuitePrompt::default()
        };
        let json = serde_json::to_string(&prompt).unwrap();
        assert!(json.contains(r#""relation":"left_of""#), "{json}");
        assert_eq!(serde_json::from_str::<SuitePrompt>(&json).unwrap(), prompt);
    }
}
