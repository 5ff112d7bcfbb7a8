use std::io::Cursor;
use std::sync::Arc;

use image::{DynamicImage, ImageFormat, RgbaImage};

use crate::ask::JudgeError;
use crate::picture;

#[test]
fn pictures_are_sent_as_every_server_takes_them() {
    let folder = tempfile::tempdir().unwrap();
    let sent = |name: &str, picture: &DynamicImage, format: ImageFormat, largest| {
        let path = folder.path().join(name);
        let mut bytes = Vec::new();
        picture
            .write_to(&mut Cursor::new(&mut bytes), format)
            .unwrap();
        std::fs::write(&path, &bytes).unwrap();
        let seen = picture::read(&path).unwrap();
        let sent = seen.sent(&path, largest).unwrap();
        (sent == bytes, image::load_from_memory(&sent).unwrap())
    };
    let plain = DynamicImage::ImageRgb8(image::RgbImage::from_pixel(40, 20, image::Rgb([9, 8, 7])));
    assert!(sent("a.png", &plain, ImageFormat::Png, None).0, "as it is");
    assert!(sent("a.jpg", &plain, ImageFormat::Jpeg, Some(40)).0);
    let (same, webp) = sent("a.webp", &plain, ImageFormat::WebP, None);
    assert!(!same && webp.to_rgb8() == plain.to_rgb8());
    let (_, small) = sent("b.png", &plain, ImageFormat::Png, Some(20));
    assert_eq!((small.width(), small.height()), (20, 10));
    let clear = DynamicImage::ImageRgba8(RgbaImage::from_pixel(4, 4, image::Rgba([0, 0, 0, 51])));
    let (_, white) = sent("c.png", &clear, ImageFormat::Png, None);
    assert_eq!(white.to_rgba8().get_pixel(0, 0).0, [204, 204, 204, 255]);
    let path = folder.path().join("d.png");
    std::fs::write(&path, "no picture").unwrap();
    let error = picture::read(&path).unwrap().sent(&path, None).unwrap_err();
    assert!(matches!(JudgeError::from(error), JudgeError::Picture(_)));
}

#[test]
fn what_is_sent_is_made_once() {
    let folder = tempfile::tempdir().unwrap();
    let named = &super::pictures(folder.path(), 1)[0];
    let seen = picture::read(&named.path).unwrap();
    let first = seen.encoded(&named.path, None).unwrap();
    assert!(first.starts_with("data:image/png;base64,iVBOR"));
    let again = seen.clone().encoded(&named.path, None).unwrap();
    assert!(Arc::ptr_eq(&first, &again));
}
