//! The tokenizers in a checkpoint's folder.

use serde_json::{Map, Value, json};

use crate::error::WeightsError;
use crate::family::Family;
use crate::files::Files;
use crate::tokenizer::{ClipTokenizer, Padding};

/// A tokenizer for each text encoder: from `tokenizer/` and `tokenizer_2/` of its folder, or CLIP's.
pub(crate) fn tokenizers(
    family: Family,
    places: &[Option<Files>],
) -> Result<Vec<ClipTokenizer>, WeightsError> {
    const FOLDERS: [&str; 2] = ["tokenizer", "tokenizer_2"];
    let mut tokenizers = Vec::new();
    for ((files, folder), padding) in places.iter().zip(FOLDERS).zip(paddings(family)) {
        let own = match files {
            Some(files) => own(files, folder)?,
            None => None,
        };
        tokenizers.push(own.unwrap_or_else(|| ClipTokenizer::clip(padding)));
    }
    Ok(tokenizers)
}

/// What fills up the contexts of each text encoder: OpenCLIP's is trained with zeros.
pub(crate) fn paddings(family: Family) -> [Padding; 2] {
    let first = match family {
        Family::Sd2 => Padding::Exclamation,
        Family::Sd1 | Family::Sdxl => Padding::EndOfText,
    };
    [first, Padding::Exclamation]
}

/// The tokenizer in `folder` ("" for `files` themselves), if there is one: `vocab.json` with `merges.txt`, or the
/// `tokenizer.json` that replaces both since transformers 5.
pub(crate) fn own(files: &Files, folder: &str) -> Result<Option<ClipTokenizer>, WeightsError> {
    let name = |file: &str| match folder {
        "" => file.to_owned(),
        _ => format!("{folder}/{file}"),
    };
    let (vocab, merges) = if files.has(&name("vocab.json")) {
        (
            files.read(&name("vocab.json"))?,
            files.read(&name("merges.txt"))?,
        )
    } else if files.has(&name("tokenizer.json")) {
        let path = name("tokenizer.json");
        unpack(&files.json(&path)?).ok_or_else(|| WeightsError::Json {
            path: files.path(&path),
            what: "this is not a byte-pair tokenizer".into(),
            source: None,
        })?
    } else {
        return Ok(None);
    };
    let config = config(files, &name)?.to_string();
    ClipTokenizer::from_json(&vocab, &merges, Some(config.as_bytes()))
        .map(Some)
        .map_err(|source| WeightsError::Tokenizer {
            path: files.path(folder),
            source,
        })
}

/// What `tokenizer_config.json` says. If it is of an older version and lists no added tokens, the files beside it count, as in
/// transformers: `special_tokens_map.json` before it, and for added tokens `added_tokens.json` and `tokenizer.json`.
fn config(files: &Files, name: &dyn Fn(&str) -> String) -> Result<Value, WeightsError> {
    const ADDED: &str = "added_tokens_decoder";
    let wrong = |file: &str, what: &str| WeightsError::Json {
        path: files.path(&name(file)),
        what: what.into(),
        source: None,
    };
    let table = |file: &str| -> Result<Map<String, Value>, WeightsError> {
        if !files.has(&name(file)) {
            return Ok(Map::new());
        }
        match files.json(&name(file))? {
            Value::Object(table) => Ok(table),
            _ => Err(wrong(file, "this is not a table")),
        }
    };
    let mut config = table("tokenizer_config.json")?;
    if config.get(ADDED).is_none_or(Value::is_null) {
        config.extend(table("special_tokens_map.json")?);
        let mut added = Map::new();
        for (token, id) in table("added_tokens.json")? {
            if !id.is_u64() {
                return Err(wrong(
                    "added_tokens.json",
                    "this is not a table of token to id",
                ));
            }
            added.insert(id.to_string(), json!({"content": token}));
        }
        if let Some(Value::Array(tokens)) = table("tokenizer.json")?.remove("added_tokens") {
            added.extend(
                tokens
                    .into_iter()
                    .map(|token| (token["id"].to_string(), token)),
            );
        }
        config.insert(ADDED.into(), Value::Object(added));
    }
    Ok(Value::Object(config))
}

/// The contents of `vocab.json` and `merges.txt` from those of `tokenizer.json`, which has merges as
/// pairs or, from older versions, as text.
fn unpack(tokenizer: &Value) -> Option<(Vec<u8>, Vec<u8>)> {
    let model = &tokenizer["model"];
    let vocab = serde_json::to_vec(model["vocab"].as_object()?).ok()?;
    let mut merges = String::from("#version: 0.2\n");
    for merge in model["merges"].as_array()? {
        match merge {
            Value::String(merge) => merges.push_str(merge),
            pair => {
                merges.push_str(pair[0].as_str()?);
                merges.push(' ');
                merges.push_str(pair[1].as_str()?);
            }
        }
        merges.push('\n');
    }
    Some((vocab, merges.into_bytes()))
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::*;

    fn ids(files: Files) -> Vec<Vec<u32>> {
        let tokenizers = tokenizers(Family::Sd1, &[Some(files)]).unwrap();
        let tokens = |text: &str| {
            tokenizers[0]
                .encode(text)
                .unwrap()
                .iter()
                .map(|token| token.id)
                .collect()
        };
        ["a dog and a cat", "thin, brown: 3 things!", ""]
            .map(tokens)
            .to_vec()
    }

    /// The tokenizer of the tiny SD 1.x, whose vocabulary has 1000 tokens, with `texts` in the place of its files.
    fn changed(texts: &[(&str, Value)]) -> ClipTokenizer {
        let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/sd1-tiny/tokenizer");
        let folder = tempfile::tempdir().unwrap();
        for entry in std::fs::read_dir(fixture).unwrap() {
            let entry = entry.unwrap();
            std::fs::copy(entry.path(), folder.path().join(entry.file_name())).unwrap();
        }
        for (name, text) in texts {
            std::fs::write(folder.path().join(name), text.to_string()).unwrap();
        }
        own(&Files::Folder(folder.path().into()), "")
            .unwrap()
            .unwrap()
    }

    fn encoded(tokenizer: &ClipTokenizer, text: &str) -> Vec<u32> {
        let tokens = tokenizer.encode(text).unwrap().into_iter();
        tokens.map(|token| token.id).collect()
    }

    /// SD 2.1 is published with two files that contradict each other. The ids are those of transformers 5.24.
    #[test]
    fn older_files_override_a_configuration_without_added_tokens() {
        let map = ("special_tokens_map.json", json!({"pad_token": "!"}));
        let config = |added: Value| {
            let end = "<|endoftext|>";
            let mut config = json!({"pad_token": end, "model_max_length": 77});
            if !added.is_null() {
                config["added_tokens_decoder"] = added;
            }
            ("tokenizer_config.json", config)
        };
        let old = changed(&[map.clone(), config(Value::Null)]);
        assert_eq!(
            (old.pad(), encoded(&old, "a dog!")),
            (0, vec![320, 639, 326, 0])
        );
        let new = changed(&[map, config(json!({"999": {"content": "<|endoftext|>"}}))]);
        assert_eq!(
            (new.pad(), encoded(&new, "a dog!")),
            (999, vec![320, 639, 326, 256])
        );
    }

    /// A word of several vectors, wherever the added tokens are listed. The ids are those of transformers 5.24 for what
    /// diffusers makes of the prompt, "a <x> <x>_1 dog".
    #[test]
    fn added_tokens_are_read() {
        let list = [("<x>", 1000), ("<x>_1", 1001), ("<|endoftext|>", 999)];
        let table: Map<String, Value> = (list.iter())
            .map(|(token, id)| ((*token).to_owned(), json!(id)))
            .collect();
        let decoder: Map<String, Value> = (list.iter())
            .map(|(token, id)| (id.to_string(), json!({"content": token})))
            .collect();
        let entries = list.map(|(token, id)| json!({"id": id, "content": token}));
        for (name, text) in [
            ("added_tokens.json", Value::Object(table)),
            (
                "tokenizer_config.json",
                json!({"added_tokens_decoder": decoder}),
            ),
            ("tokenizer.json", json!({"added_tokens": entries})),
        ] {
            let tokenizer = changed(&[(name, text)]);
            let ids = encoded(&tokenizer, "a <x> dog");
            assert_eq!(ids, [320, 1000, 1001, 639, 326], "{name}");
            assert_eq!(
                (tokenizer.eos(), tokenizer.vocabulary()),
                (999, 1002),
                "{name}"
            );
        }
    }

    #[test]
    fn both_forms_are_one_tokenizer() {
        let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/sd1-tiny");
        let read =
            |name: &str| std::fs::read_to_string(fixture.join("tokenizer").join(name)).unwrap();
        let vocab: Value = serde_json::from_str(&read("vocab.json")).unwrap();
        let merges: Vec<String> = read("merges.txt")
            .lines()
            .skip(1)
            .map(str::to_string)
            .collect();
        let pairs: Vec<Vec<&str>> = merges
            .iter()
            .map(|merge| merge.split(' ').collect())
            .collect();
        let reference = ids(Files::Folder(fixture.clone()));
        for merges in [serde_json::json!(merges), serde_json::json!(pairs)] {
            let folder = tempfile::tempdir().unwrap();
            let inner: PathBuf = folder.path().join("tokenizer");
            std::fs::create_dir(&inner).unwrap();
            let json =
                serde_json::json!({"model": {"type": "BPE", "vocab": vocab, "merges": merges}});
            std::fs::write(inner.join("tokenizer.json"), json.to_string()).unwrap();
            std::fs::write(
                inner.join("tokenizer_config.json"),
                read("tokenizer_config.json"),
            )
            .unwrap();
            assert_eq!(ids(Files::Folder(folder.path().into())), reference);
        }
    }
}
