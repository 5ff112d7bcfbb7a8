//! Pictures that clients send, looked at before anything is decoded.

use std::io::Cursor;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use image::metadata::Orientation;
use image::{DynamicImage, ImageDecoder, ImageFormat, ImageReader, ImageResult, Limits};

use crate::problem::Refusal;

/// Files with more text than this in them are no pictures.
const MOST_TEXT: u64 = 1 << 20;

/// The bytes in base64, with or without `data:…;base64,` before it.
///
/// # Errors
/// It is an address, or no base64.
pub fn from_base64(text: &str, param: &'static str) -> Result<Vec<u8>, Refusal> {
    let text = text.trim();
    if text.starts_with("http:") || text.starts_with("https:") || text.starts_with("file:") {
        let message = "pictures are not fetched from addresses; send the bytes as base64";
        return Err(Refusal::new(param, message));
    }
    let encoded = match text.strip_prefix("data:") {
        Some(rest) => rest.split_once(";base64,").map(|(_, encoded)| encoded),
        None => Some(text),
    };
    let encoded = encoded.ok_or_else(|| Refusal::new(param, "the data URL is not in base64"))?;
    let decoded = STANDARD
        .decode(encoded)
        .or_else(|_| STANDARD_NO_PAD.decode(encoded));
    decoded.map_err(|error| Refusal::new(param, format!("the picture is not in base64: {error}")))
}

/// The picture as a PNG without anything else in it: the right way up, in 8 bits. What is transparent stays transparent, so that
/// the studio makes of it what it makes of files.
///
/// # Errors
/// Not a PNG, JPEG or WebP of at most `pixels` pixels, or one that moves.
pub fn clean(bytes: &[u8], pixels: u64, param: &'static str) -> Result<Vec<u8>, Refusal> {
    let decoded = decode(bytes, pixels, param)?;
    let decoded: DynamicImage = match decoded.color().has_alpha() {
        true => decoded.into_rgba8().into(),
        false => decoded.into_rgb8().into(),
    };
    encode(&decoded, param)
}

/// A picture whose file is `bytes` with what is transparent laid over white; as it was sent if nothing can be.
///
/// # Errors
/// As [`clean`].
pub fn over_white(bytes: Vec<u8>, pixels: u64, param: &'static str) -> Result<Vec<u8>, Refusal> {
    let decoded = decode(&bytes, pixels, param)?;
    if !decoded.color().has_alpha() {
        return Ok(bytes);
    }
    let mut picture = decoded.into_rgba8();
    for pixel in picture.pixels_mut() {
        let alpha = u32::from(pixel.0[3]);
        let over = |value: u8| u32::from(value) * alpha + 255 * (255 - alpha);
        // Rounded, as Pillow pastes.
        pixel.0 = pixel.0.map(|value| ((over(value) + 127) / 255) as u8);
    }
    let opaque = DynamicImage::from(picture).into_rgb8();
    encode(&opaque.into(), param)
}

/// The picture the right way up, if [`clean`] takes it.
pub(crate) fn decode(
    bytes: &[u8],
    pixels: u64,
    param: &'static str,
) -> Result<DynamicImage, Refusal> {
    let wrong = |message: String| Refusal::new(param, message);
    let unreadable = "not a readable PNG, JPEG or WebP picture";
    let reader = || ImageReader::new(Cursor::new(bytes)).with_guessed_format();
    let reader_of_size = reader().map_err(|_| wrong(unreadable.into()))?;
    match reader_of_size.format() {
        Some(ImageFormat::Png | ImageFormat::Jpeg | ImageFormat::WebP) => {}
        _ => return Err(wrong(unreadable.into())),
    }
    if is_animated(bytes) {
        return Err(wrong("the picture moves; send one that does not".into()));
    }
    let size = reader_of_size.into_dimensions();
    let (width, height) =
        size.map_err(|_| wrong(format!("{unreadable}: its header is damaged")))?;
    let area = u64::from(width) * u64::from(height);
    if area == 0 || area > pixels {
        let message = format!(
            "the picture has {width}x{height} pixels; at most {pixels} are read, and at least one"
        );
        return Err(wrong(message));
    }
    let reader = reader().map_err(|_| wrong(unreadable.into()))?;
    let mut limits = Limits::default();
    limits.max_alloc = Some(pixels * 16 + MOST_TEXT);
    upright(reader, limits).map_err(|_| wrong(format!("{unreadable}: it is damaged or cut short")))
}

/// The PNG of a picture.
pub(crate) fn encode(picture: &DynamicImage, param: &'static str) -> Result<Vec<u8>, Refusal> {
    let mut png = Vec::new();
    let written = picture.write_to(&mut Cursor::new(&mut png), ImageFormat::Png);
    written.map_err(|error| Refusal::new(param, format!("the picture cannot be used: {error}")))?;
    Ok(png)
}

/// Reads a picture within the limits and turns it as its EXIF data say.
fn upright(
    mut reader: ImageReader<Cursor<&[u8]>>,
    mut limits: Limits,
) -> ImageResult<DynamicImage> {
    reader.limits(limits.clone());
    let mut decoder = reader.into_decoder()?;
    // Unlike `ImageReader::decode`, decoders alone do not look at what the whole picture takes.
    limits.reserve(decoder.total_bytes())?;
    // Of data that cannot be read nothing is known.
    let orientation = decoder.orientation().unwrap_or(Orientation::NoTransforms);
    let mut image = DynamicImage::from_decoder(decoder)?;
    image.apply_orientation(orientation);
    Ok(image)
}

/// Whether it is an animated PNG or WebP.
fn is_animated(bytes: &[u8]) -> bool {
    let head = &bytes[..bytes.len().min(4096)];
    let has = |name: &[u8]| head.windows(name.len()).any(|window| window == name);
    match bytes.starts_with(b"\x89PNG") {
        true => has(b"acTL"),
        false => bytes.starts_with(b"RIFF") && has(b"ANIM"),
    }
}

/// Another form of a PNG that was made here.
///
/// # Errors
/// The encoder's.
pub fn convert(png: &[u8], format: &str, quality: u8) -> Result<Vec<u8>, image::ImageError> {
    if format == "png" {
        return Ok(png.to_vec());
    }
    let picture = image::load_from_memory_with_format(png, ImageFormat::Png)?.into_rgb8();
    let mut bytes = Vec::new();
    match format {
        "jpeg" => {
            let encoder = image::codecs::jpeg::JpegEncoder::new_with_quality(
                &mut bytes,
                quality.clamp(1, 100),
            );
            picture.write_with_encoder(encoder)?;
        }
        _ => picture.write_to(&mut Cursor::new(&mut bytes), ImageFormat::WebP)?,
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_pictures_get_in() {
        let mut png = Vec::new();
        image::RgbImage::new(3, 2)
            .write_to(&mut Cursor::new(&mut png), ImageFormat::Png)
            .unwrap();
        let text = STANDARD.encode(&png);
        for given in [
            text.clone(),
            format!("data:image/png;base64,{text}"),
            text.trim_end_matches('=').into(),
        ] {
            assert_eq!(from_base64(&given, "image").unwrap(), png);
        }
        for wrong in [
            "http://127.0.0.1/x.png",
            "file:///etc/passwd",
            "data:image/png,x",
            "!!",
        ] {
            assert!(from_base64(wrong, "image").is_err(), "{wrong}");
        }
        assert!(clean(&png, 6, "image").is_ok());
        let refused = |bytes: &[u8]| clean(bytes, 5, "image").unwrap_err().message;
        assert!(refused(&png).contains("3x2"));
        assert!(refused(b"GIF89a").contains("not a readable"));
        assert!(refused(&png[..20]).contains("header"));
        let cut = clean(&png[..png.len() - 20], 6, "image").unwrap_err();
        assert!(cut.message.contains("cut short"), "{cut}");
        let moving = [&png[..33], b"\0\0\0\x08acTL", &png[33..]].concat();
        assert!(refused(&moving).contains("moves"));
    }

    #[test]
    fn pictures_are_upright_and_stay_transparent() {
        let fixtures = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures");
        let sent_and_clean = |name: &str| {
            let sent = std::fs::read(fixtures.join(name)).unwrap();
            let clean = clean(&sent, 1 << 24, "image").unwrap();
            [sent, clean].map(|bytes| image::load_from_memory(&bytes).unwrap())
        };
        // 24 × 16 in the file, whose EXIF orientation is 6: a quarter turn to the right.
        let [sent, photo] = sent_and_clean("training-data/turned.jpg");
        assert_eq!((photo.width(), photo.height()), (16, 24));
        assert!(photo == sent.rotate90());
        for name in ["pictures/transparent.png", "pictures/rgb.png"] {
            let [sent, clean] = sent_and_clean(name);
            assert!(clean == sent, "{name}");
        }
    }
}
