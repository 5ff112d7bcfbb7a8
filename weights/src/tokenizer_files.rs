//! The tokenizers in a checkpoint's folder.

use serde_json::Value;

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
    let config = name("tokenizer_config.json");
    let config = if files.has(&config) {
        Some(files.read(&config)?)
    } else {
        None
    };
    ClipTokenizer::from_json(&vocab, &merges, config.as_deref())
        .map(Some)
        .map_err(|source| WeightsError::Tokenizer {
            path: files.path(folder),
            source,
        })
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
