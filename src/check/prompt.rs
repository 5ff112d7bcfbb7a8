//! A prompt of a benchmark, with the objects and relations that its pictures are checked for.

use prepose_scene::Relation;
use serde::{Deserialize, Serialize};

/// One prompt of a set, with what it asks for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
    #[serde(default)]
    pub relations: Vec<SuiteRelation>,
    /// The prompt that says the same the other way round, or names the same pair in the other order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counterpart: Option<String>,
    /// What the set says of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
}

/// `objects[a]` stands in `relation` to `objects[b]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SuiteRelation {
    /// As in the released records: `left_of`.
    #[serde(with = "relation_name")]
    pub relation: Relation,
    /// Index of the subject.
    pub a: usize,
    /// Index of the other.
    pub b: usize,
}

/// Relations by their names in the released records.
mod relation_name {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    use crate::spatialbench::record::relation_name;
    use prepose_scene::Relation;

    pub fn serialize<S: Serializer>(relation: &Relation, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&relation_name(*relation))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Relation, D::Error> {
        let name = String::deserialize(deserializer)?;
        name.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prompt_survives_json() {
        let prompt = SuitePrompt {
            prompt_id: "p1".into(),
            prompt: "a dog to the left of a cat".into(),
            objects: vec!["dog".into(), "cat".into()],
            relations: vec![SuiteRelation {
                relation: Relation::LeftOf,
                a: 0,
                b: 1,
            }],
            counterpart: None,
            tags: Vec::new(),
        };
        let json = serde_json::to_string(&prompt).unwrap();
        assert!(json.contains(r#""relation":"left_of""#), "{json}");
        assert_eq!(serde_json::from_str::<SuitePrompt>(&json).unwrap(), prompt);
    }
}
