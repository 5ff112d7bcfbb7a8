//! Where two runs' settings differ.

use serde_json::Value;

/// Where two settings differ: the place, what stands there in `a`, and in `b`.
pub fn differences(a: &Value, b: &Value) -> Vec<(String, String, String)> {
    let mut found = Vec::new();
    compare(a, b, String::new(), &mut found);
    found
}

fn compare(a: &Value, b: &Value, at: String, found: &mut Vec<(String, String, String)>) {
    if a == b {
        return;
    }
    match (a, b) {
        (Value::Object(a), Value::Object(b)) => {
            let only_b = b.keys().filter(|key| !a.contains_key(*key));
            for key in a.keys().chain(only_b) {
                let at = match at.as_str() {
                    "" => key.clone(),
                    at => format!("{at}.{key}"),
                };
                let side = |side: &serde_json::Map<_, _>| side.get(key).cloned();
                let (a, b) = (side(a).unwrap_or_default(), side(b).unwrap_or_default());
                compare(&a, &b, at, found);
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (index, (a, b)) in a.iter().zip(b).enumerate() {
                compare(a, b, format!("{at}[{index}]"), found);
            }
        }
        _ => found.push((at, short(a), short(b))),
    }
}

/// A value in a message.
fn short(value: &Value) -> String {
    let text = match value {
        Value::Null => "not given".into(),
        value => value.to_string(),
    };
    match text.char_indices().nth(80) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn differences_are_named() {
        let a = json!({"steps": 20, "methods": [{"name": "a"}, {"name": "b"}], "seeds": [0, 1], "shard": null});
        let b = json!({"steps": 30, "methods": [{"name": "a"}, {"name": "c", "n": 1}], "seeds": [0], "shard": null});
        let found = differences(&a, &b);
        let found: Vec<_> = found
            .iter()
            .map(|(at, a, b)| (at.as_str(), a.as_str(), b.as_str()))
            .collect();
        assert_eq!(
            found,
            [
                ("steps", "20", "30"),
                ("methods[1].name", "\"b\"", "\"c\""),
                ("methods[1].n", "not given", "1"),
                ("seeds", "[0,1]", "[0]"),
            ]
        );
        assert!(differences(&a, &a).is_empty());
    }
}
