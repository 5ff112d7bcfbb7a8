//! Where the page finds the pictures: beside it, copied to it, or within it.

use std::io::{Cursor, ErrorKind};
use std::path::{Component, Path, PathBuf};

use image::imageops::FilterType;
use image::{DynamicImage, ImageFormat, RgbImage};
use thiserror::Error;

use super::model::{Picture, Place, Report};
use prepose_check::audit::page::{embed, link, picture_type};
use prepose_draw::picture::Picture as Pixels;
use prepose_store::StoreError;
use prepose_store::files::{WriteError, prepare_folder, write_atomically};
use prepose_untrusted::read_regular;

/// What is done with pictures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Keep {
    /// They stay where they are, and the page shows them from there. Those in an object store are copied.
    #[default]
    Link,
    /// They are copied into a folder beside the page, so that both can be sent away together.
    Copy,
    /// They are in the page.
    Embed,
    /// Small ones are in the page, without attention maps.
    Thumbnails,
}

/// Why a picture could not be taken along.
#[derive(Debug, Error)]
pub enum PictureError {
    /// It cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// It cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// The copy cannot be written.
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// Where the page finds one picture, and its attention maps with their objects: an address within the picture's place, a whole
/// address, or a data URL. None if there is none.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Shown {
    /// The picture.
    pub image: Option<String>,
    /// The attention maps.
    pub maps: Vec<(String, String)>,
}

/// Where the page finds all pictures.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Addresses {
    /// For each of [`Report::places`], what stands before the addresses of its pictures.
    pub bases: Vec<String>,
    /// For each method and picture.
    pub shown: Vec<Vec<Shown>>,
    /// The files that were not taken along, and why: a run of somebody else's must not have files of this machine sent away.
    pub left: Vec<(String, &'static str)>,
}

/// More than any picture's file has.
const MOST_BYTES: u64 = 1 << 30;

/// The longer side of a thumbnail, in pixels.
const THUMBNAIL: u32 = 192;

/// Finds the pictures' addresses for a page in the folder `out`, and copies what has to be copied. Only pictures are taken
/// along, and only from the run's own folder and those in `also`, wherever links lead.
///
/// # Errors
/// A picture that cannot be read or copied.
pub fn addresses(
    report: &Report,
    keep: Keep,
    out: &Path,
    also: &[PathBuf],
) -> Result<Addresses, PictureError> {
    let also: Vec<PathBuf> = (also.iter())
        .filter_map(|folder| folder.canonicalize().ok())
        .collect();
    let mut left = Vec::new();
    let keeps: Vec<Keep> = (report.places.iter())
        .map(|place| match keep {
            Keep::Link if is_remote(place) => Keep::Copy,
            keep => keep,
        })
        .collect();
    let folders: Vec<String> = copies(report);
    let bases = (report.places.iter().zip(&keeps).zip(&folders))
        .map(|((place, keep), folder)| match keep {
            Keep::Link => base(place, out),
            Keep::Copy => format!("{folder}/"),
            Keep::Embed | Keep::Thumbnails => String::new(),
        })
        .collect();
    let mut shown = Vec::with_capacity(report.methods.len());
    for method in &report.methods {
        let mut one = |picture: &Picture| {
            let (place, keep) = (&report.places[picture.place], keeps[picture.place]);
            let to = out.join(&folders[picture.place]);
            let mut address = |file: &str| {
                let taken = take(place, file, keep, &to, &also)?;
                Ok::<_, PictureError>(match taken {
                    Taken::At(address) => Some(address),
                    Taken::Missing => None,
                    Taken::Left(why) => {
                        left.push((file.to_owned(), why));
                        None
                    }
                })
            };
            let image = match &picture.image {
                Some(file) => address(file)?,
                None => None,
            };
            let mut maps = Vec::new();
            for (object, file) in picture.maps.iter().filter(|_| keep != Keep::Thumbnails) {
                maps.extend(address(file)?.map(|address| (object.clone(), address)));
            }
            Ok(Shown { image, maps })
        };
        let all: Result<Vec<Shown>, PictureError> = method.pictures.iter().map(&mut one).collect();
        shown.push(all?);
    }
    Ok(Addresses { bases, shown, left })
}

fn is_remote(place: &Place) -> bool {
    place.store.location().contains("://")
}

/// The folder that each place's pictures are copied to, within the page's.
fn copies(report: &Report) -> Vec<String> {
    let mut taken = std::collections::HashSet::new();
    let name = |(index, place): (usize, &Place)| {
        let location = format!("{}/{}", place.store.location(), place.folder);
        let last = location
            .trim_end_matches('/')
            .rsplit('/')
            .next()
            .unwrap_or_default();
        let plain = |c: char| match c {
            'a'..='z' | 'A'..='Z' | '0'..='9' | '-' | '_' | '+' => c,
            _ => '_',
        };
        let name: String = last.chars().map(plain).collect();
        match taken.insert(name.clone()) {
            true => format!("pictures/{name}"),
            false => format!("pictures/{name}-{index}"),
        }
    };
    report.places.iter().enumerate().map(name).collect()
}

/// The folder of a place as the page addresses it.
fn base(place: &Place, out: &Path) -> String {
    let whole = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
    let folder = whole(&Path::new(&place.store.location()).join(&place.folder));
    let address = link(&relative(&folder, &whole(out)).replace('\\', "/"));
    match address.as_str() {
        "" => String::new(),
        _ => format!("{}/", address.trim_end_matches('/')),
    }
}

/// The way from one folder to another; the whole path where there is no way.
fn relative(to: &Path, from: &Path) -> String {
    let (to_parts, from_parts): (Vec<Component>, Vec<Component>) =
        (to.components().collect(), from.components().collect());
    let common = to_parts
        .iter()
        .zip(&from_parts)
        .take_while(|(a, b)| a == b)
        .count();
    if common == 0 {
        return to.to_string_lossy().into_owned();
    }
    let up = from_parts[common..].iter().map(|_| "..".to_owned());
    let down = to_parts[common..]
        .iter()
        .map(|part| part.as_os_str().to_string_lossy().into_owned());
    up.chain(down).collect::<Vec<_>>().join("/")
}

/// What became of a file.
enum Taken {
    /// The page finds it there.
    At(String),
    /// It is not there.
    Missing,
    /// It is not taken along.
    Left(&'static str),
}

const OUTSIDE: &str = "it lies outside of the run's folder";
const NO_PICTURE: &str = "it is not a picture that a browser shows";
const NOT_REGULAR: &str = "it is not a regular file";

/// The address of a file of a place.
fn take(
    place: &Place,
    file: &str,
    keep: Keep,
    to: &Path,
    also: &[PathBuf],
) -> Result<Taken, PictureError> {
    if keep == Keep::Link {
        return Ok(Taken::At(link(file)));
    }
    let bytes = match is_remote(place) {
        true => match place.store.get(&format!("{}{file}", place.folder))? {
            Some(bytes) => bytes,
            None => return Ok(Taken::Missing),
        },
        false => match local(place, file, also)? {
            Ok(bytes) => bytes,
            Err(left) => return Ok(left),
        },
    };
    if picture_type(&bytes).is_none() {
        return Ok(Taken::Left(NO_PICTURE));
    }
    let embedded = || embed(&bytes).map_or(Taken::Left(NO_PICTURE), Taken::At);
    Ok(match keep {
        Keep::Thumbnails => thumbnail(&bytes).map_or_else(embedded, Taken::At),
        Keep::Embed => embedded(),
        Keep::Link | Keep::Copy => {
            // What lies outside its place is copied into it.
            let name = match is_inside(file) {
                true => file.to_owned(),
                false => file
                    .trim_start_matches('/')
                    .replace("..", "_")
                    .replace(':', "_"),
            };
            let path = to.join(&name);
            prepare_parent(&path)?;
            write_atomically(&path, &bytes)?;
            Taken::At(link(&name))
        }
    })
}

fn is_inside(file: &str) -> bool {
    !file.starts_with('/') && file.split('/').all(|part| part != "..")
}

/// The bytes of a file of this machine, if they may be taken along.
fn local(
    place: &Place,
    file: &str,
    also: &[PathBuf],
) -> Result<Result<Vec<u8>, Taken>, PictureError> {
    let root = PathBuf::from(place.store.location());
    let path = root.join(&place.folder).join(file);
    let unreadable = |source| PictureError::Read {
        path: path.clone(),
        source,
    };
    let whole = match path.canonicalize() {
        Ok(whole) => whole,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Err(Taken::Missing)),
        Err(source) => return Err(unreadable(source)),
    };
    let root = root.canonicalize().map_err(unreadable)?;
    let allowed = also.iter().chain([&root]);
    if !allowed.into_iter().any(|folder| whole.starts_with(folder)) {
        return Ok(Err(Taken::Left(OUTSIDE)));
    }
    match read_regular(&whole, MOST_BYTES) {
        Ok(bytes) => Ok(Ok(bytes)),
        Err(error) if error.kind() == ErrorKind::InvalidInput => Ok(Err(Taken::Left(NOT_REGULAR))),
        Err(source) => Err(unreadable(source)),
    }
}

fn prepare_parent(path: &Path) -> Result<(), WriteError> {
    match path.parent() {
        Some(folder) if !folder.is_dir() => prepare_folder(folder),
        _ => Ok(()),
    }
}

/// A JPEG as a data URL; none if the bytes are no picture, or a small one.
fn thumbnail(bytes: &[u8]) -> Option<String> {
    let mut jpeg = Cursor::new(Vec::new());
    small(bytes)?.write_to(&mut jpeg, ImageFormat::Jpeg).ok()?;
    embed(jpeg.get_ref())
}

/// The picture in a thumbnail's size; none if the bytes are no picture, or a small one. It is turned as its EXIF data say, which
/// a thumbnail does not have.
fn small(bytes: &[u8]) -> Option<DynamicImage> {
    let Pixels { width, height, rgb } = Pixels::decode_upright(bytes).ok()?;
    let [width, height] = [u32::try_from(width).ok()?, u32::try_from(height).ok()?];
    if width.max(height) <= THUMBNAIL {
        return None;
    }
    let picture = DynamicImage::ImageRgb8(RgbImage::from_raw(width, height, rgb)?);
    Some(picture.resize(THUMBNAIL, THUMBNAIL, FilterType::Triangle))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_lead_from_folder_to_folder() {
        let way = |to: &str, from: &str| relative(Path::new(to), Path::new(from));
        assert_eq!(way("/a/run/psg", "/a/run/report"), "../psg");
        assert_eq!(way("/a/run", "/a/run"), "");
        assert_eq!(way("/a/run/psg", "/a/run"), "psg");
        assert_eq!(way("/b", "/a/c"), "../../b");
    }

    #[test]
    fn a_thumbnail_is_small() {
        let mut png = Cursor::new(Vec::new());
        let picture = image::RgbImage::from_fn(400, 300, |x, y| image::Rgb([x as u8, y as u8, 90]));
        picture.write_to(&mut png, ImageFormat::Png).unwrap();
        let url = thumbnail(png.get_ref()).unwrap();
        assert!(
            url.starts_with("data:image/jpeg;base64,") && url.len() < 20_000,
            "{}",
            url.len()
        );
        assert_eq!(thumbnail(b"no picture"), None);
    }

    #[test]
    fn a_thumbnail_of_a_photo_is_upright() {
        let mut jpeg = Cursor::new(Vec::new());
        RgbImage::new(400, 200)
            .write_to(&mut jpeg, ImageFormat::Jpeg)
            .unwrap();
        // Behind the start of the image, a segment of EXIF data with one entry: the orientation (tag 0x112, a short) is 6, a
        // quarter turn to the right.
        let mut exif = b"Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0".to_vec();
        exif.extend([0; 4]);
        let length = u16::try_from(exif.len() + 2).unwrap().to_be_bytes();
        let (start, rest) = jpeg.get_ref().split_at(2);
        let photo = [start, &[0xFF, 0xE1], &length, &exif, rest].concat();
        let small = small(&photo).unwrap();
        assert_eq!((small.width(), small.height()), (96, 192));
    }
}
