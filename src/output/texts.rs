//! The texts in a PNG, which can be packed.

/// The most text that is read, in bytes, when it is unpacked: some thousand times a request. A chunk of kilobytes can
/// claim to be gigabytes.
pub(super) const MAX_TEXTS: usize = 1 << 24;

/// The text chunks by keyword, or the keyword of the first that is damaged or too long.
pub(super) fn texts(info: &png::Info) -> Result<Vec<(String, String)>, String> {
    let mut texts = Texts {
        texts: Vec::new(),
        room: MAX_TEXTS,
    };
    for chunk in &info.uncompressed_latin1_text {
        texts.add(&chunk.keyword, Some(chunk.text.clone()))?;
    }
    for chunk in &info.compressed_latin1_text {
        let mut chunk = chunk.clone();
        let unpacked = chunk.decompress_text_with_limit(texts.room).is_ok();
        let text = unpacked.then(|| chunk.get_text().ok()).flatten();
        texts.add(&chunk.keyword, text)?;
    }
    for chunk in &info.utf8_text {
        let mut chunk = chunk.clone();
        let unpacked = chunk.decompress_text_with_limit(texts.room).is_ok();
        let text = unpacked.then(|| chunk.get_text().ok()).flatten();
        texts.add(&chunk.keyword, text)?;
    }
    Ok(texts.texts)
}

/// Texts by keyword, and how many bytes more are taken.
struct Texts {
    texts: Vec<(String, String)>,
    room: usize,
}

impl Texts {
    fn add(&mut self, keyword: &str, text: Option<String>) -> Result<(), String> {
        let text = text.filter(|text| text.len() <= self.room);
        let text = text.ok_or_else(|| keyword.to_string())?;
        self.room -= text.len();
        self.texts.push((keyword.to_string(), text));
        Ok(())
    }
}
