//! Pictures are read as Pillow reads them: `fixtures/pictures`, made by `scripts/reference/make.py`.

use std::path::PathBuf;

use prepose::picture::Picture;

use crate::support::fixture;

fn folder() -> PathBuf {
    fixture("pictures")
}

fn read(name: &str) -> Picture {
    Picture::decode(&std::fs::read(folder().join(name)).unwrap()).unwrap()
}

#[test]
fn every_form_of_a_picture_is_read() {
    for name in [
        "palette.png",
        "grey.png",
        "transparent.png",
        "cmyk.jpg",
        "grey.jpg",
        "lossless.webp",
    ] {
        let expected = match name {
            "palette.png" | "grey.png" | "cmyk.jpg" | "grey.jpg" => format!("{name}.expected.png"),
            _ => "rgb.png".to_string(),
        };
        let (read, expected) = (read(name), read(&expected));
        assert_eq!((read.width, read.height), (expected.width, expected.height));
        let pairs = read.rgb.iter().zip(&expected.rgb);
        let off: u64 = pairs.map(|(a, b)| u64::from(a.abs_diff(*b))).sum();
        let mean = off as f64 / read.rgb.len() as f64;
        println!("{name}: {mean:.3} of 255 on average");
        let limit = if name.ends_with("jpg") { 2.0 } else { 0.0 };
        assert!(mean <= limit, "{name}: {mean}");
    }
}

#[test]
fn sixteen_bits_become_eight() {
    let deep = image::ImageBuffer::from_fn(9, 7, |x, y| {
        image::Rgb([257 * (20 * x) as u16, 257 * (30 * y) as u16, 65_535u16])
    });
    let mut bytes = std::io::Cursor::new(Vec::new());
    deep.write_to(&mut bytes, image::ImageFormat::Png).unwrap();
    let read = Picture::decode(bytes.get_ref()).unwrap();
    assert_eq!((read.width, read.height), (9, 7));
    assert_eq!(read.rgb[(2 * 9 + 3) * 3..][..3], [60, 60, 255]);
}

#[test]
fn truncated_pictures_are_refused() {
    for name in ["rgb.png", "cmyk.jpg", "lossless.webp"] {
        let whole = std::fs::read(folder().join(name)).unwrap();
        for part in [1, 10, 100, whole.len() / 2] {
            assert!(Picture::decode(&whole[..part]).is_err(), "{name}, {part}");
        }
    }
}
