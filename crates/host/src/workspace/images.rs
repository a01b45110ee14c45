//! Images: recognises them in files by their content, and keeps each once beside the session.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use super::{ProjectPath, Workspace, io_failure};
use agent_protocol::disk;
use agent_protocol::envelope::{ErrorCode, Failure};
use agent_protocol::format_thousands;
use agent_protocol::message::{Image, ImageSource};
use parking_lot::Mutex;

/// Size limit in bytes: providers accept no larger images.
const MAX_BYTES: u64 = 5 * 1024 * 1024;
/// Number of first bytes that identify the types of images that models accept.
const HEAD: usize = 12;

/// The content and type of an image, with its size.
#[derive(Clone, Debug)]
pub struct ImageData {
    pub bytes: Vec<u8>,
    pub kind: ImageKind,
    pub width: usize,
    pub height: usize,
}

/// A type of image that models accept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageKind {
    Png,
    Jpeg,
    WebP,
}

impl ImageKind {
    /// The type of a file that begins with these bytes; `None` for other files.
    pub fn of(head: &[u8]) -> Option<Self> {
        match head {
            [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1A, b'\n', ..] => Some(Self::Png),
            [0xFF, 0xD8, 0xFF, ..] => Some(Self::Jpeg),
            [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some(Self::WebP),
            _ => None,
        }
    }

    /// The media type: `image/png`.
    pub fn media_type(self) -> &'static str {
        match self {
            Self::Png => "image/png",
            Self::Jpeg => "image/jpeg",
            Self::WebP => "image/webp",
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Png => "PNG",
            Self::Jpeg => "JPEG",
            Self::WebP => "WebP",
        }
    }

    /// The file ends before the image does. A JPEG has no length, and decoders accept one without an end.
    fn is_cut_off(self, bytes: &[u8]) -> bool {
        match self {
            Self::Png => memchr::memmem::rfind(bytes, b"IEND").is_none(),
            Self::Jpeg => false,
            Self::WebP => {
                let length = bytes.get(4..8).and_then(|length| length.try_into().ok());
                length.is_none_or(|length| {
                    u64::from(u32::from_le_bytes(length)) + 8 > bytes.len() as u64
                })
            }
        }
    }
}

impl ImageData {
    /// Checks an image that did not come from a file; the error says why it cannot be shown.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Self, String> {
        if bytes.len() as u64 > MAX_BYTES {
            let size = format_thousands(bytes.len() as u64);
            return Err(format!("it has {size} bytes, and models accept at most 5 MB"));
        }
        let kind = ImageKind::of(&bytes).ok_or("models accept PNG, JPEG and WebP")?;
        Self::new_checked(bytes, kind).map_err(str::to_owned)
    }

    fn new_checked(bytes: Vec<u8>, kind: ImageKind) -> Result<Self, &'static str> {
        let size = imagesize::blob_size(&bytes).map_err(|_| "its header is broken")?;
        if size.width == 0 || size.height == 0 {
            return Err("its header is broken");
        }
        if kind.is_cut_off(&bytes) {
            return Err("it is cut off");
        }
        Ok(Self { bytes, kind, width: size.width, height: size.height })
    }
}

impl Workspace {
    /// Reads an image; `None` if the file is no image that models accept.
    pub fn read_image(&self, path: &ProjectPath) -> Result<Option<ImageData>, Failure> {
        let (file, data) = self.open_file(path)?;
        read_image_file(&file, data.len(), path.relative())
    }

    /// Reads an image outside the project, which the user names by its absolute path.
    pub fn read_user_image(&self, path: &Path) -> Result<Option<ImageData>, Failure> {
        let at = path.display().to_string();
        let failed = |error: io::Error| io_failure(&error, "read", &at);
        let file = disk::open_file(path).map_err(failed)?;
        let length = file.metadata().map_err(failed)?.len();
        read_image_file(&file, length, &at)
    }
}

fn read_image_file(file: &File, length: u64, at: &str) -> Result<Option<ImageData>, Failure> {
    let failed = |error: io::Error| io_failure(&error, "read", at);
    let mut bytes = Vec::new();
    file.take(HEAD as u64).read_to_end(&mut bytes).map_err(failed)?;
    let Some(kind) = ImageKind::of(&bytes) else { return Ok(None) };
    // The file may grow meanwhile.
    file.take(MAX_BYTES + 1 - bytes.len() as u64).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > MAX_BYTES {
        let size = format_thousands(length.max(bytes.len() as u64));
        let message =
            format!("{at} has {size} bytes; models accept images of at most 5 MB (5,242,880)");
        return Err(Failure::new(ErrorCode::TooLarge, message)
            .with_hint("make a smaller copy with a command, and use that one")
            .with_path(at));
    }
    let picture = ImageData::new_checked(bytes, kind).map_err(|why| {
        let name = kind.name();
        Failure::new(ErrorCode::BinaryFile, format!("{at} is no valid {name} image: {why}"))
            .with_hint("check the file with a command that knows the format")
            .with_path(at)
    });
    picture.map(Some)
}

/// The images of a session; equal images are stored once.
#[derive(Debug)]
pub enum ImageStore {
    /// The folder `images/` of a session, created with its first image.
    Folder(PathBuf),
    /// For a session that is not recorded, by hash.
    Memory(Mutex<HashMap<String, Vec<u8>>>),
}

impl ImageStore {
    /// Stores images until the end of the session.
    pub fn in_memory() -> Self {
        Self::Memory(Mutex::default())
    }

    /// Stores an image.
    pub fn store(&self, picture: ImageData) -> io::Result<Image> {
        let ImageData { bytes, kind, .. } = picture;
        let image = Image {
            hash: blake3::hash(&bytes).to_hex().to_string(),
            media_type: kind.media_type().to_owned(),
            bytes: bytes.len() as u64,
        };
        match self {
            Self::Folder(folder) => {
                if self.content(&image).is_none() {
                    let folder = disk::create_folder_all(folder, 0o700)?;
                    // A file under its final name is complete.
                    let half = format!("{}.new", uuid::Uuid::now_v7());
                    disk::create_file_in(&folder, &half)?.write_all(&bytes)?;
                    rustix::fs::renameat(&folder, half, &folder, &image.hash)?;
                }
            }
            Self::Memory(kept) => drop(kept.lock().insert(image.hash.clone(), bytes)),
        }
        Ok(image)
    }
}

impl ImageSource for ImageStore {
    fn content(&self, image: &Image) -> Option<Vec<u8>> {
        match self {
            Self::Folder(folder) => {
                // The hash may come from a record: it could be a path.
                let hash = blake3::Hash::from_hex(&image.hash).ok()?;
                let bytes = disk::read_file(&folder.join(hash.to_hex().as_str())).ok()?;
                (blake3::hash(&bytes) == hash).then_some(bytes)
            }
            Self::Memory(kept) => kept.lock().get(&image.hash).cloned(),
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test may panic")]

    use super::*;

    fn picture(bytes: &[u8]) -> ImageData {
        ImageData { bytes: bytes.to_vec(), kind: ImageKind::Png, width: 1, height: 1 }
    }

    #[test]
    fn images_are_kept_once_and_found_by_their_hash() {
        let dir = tempfile::tempdir().unwrap();
        for store in [ImageStore::Folder(dir.path().join("s/images")), ImageStore::in_memory()] {
            let image = store.store(picture(b"one")).unwrap();
            assert_eq!(store.store(picture(b"one")).unwrap(), image);
            assert_eq!((image.bytes, image.media_type.as_str()), (3, "image/png"));
            assert_eq!(store.content(&image).as_deref(), Some(&b"one"[..]));
            let other = Image { hash: blake3::hash(b"two").to_hex().to_string(), ..image };
            assert_eq!(store.content(&other), None);
        }
        let files = std::fs::read_dir(dir.path().join("s/images")).unwrap();
        assert_eq!(files.count(), 1);
    }

    #[test]
    fn changed_file_and_hash_that_is_a_path_give_nothing() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("secret"), "x").unwrap();
        let store = ImageStore::Folder(dir.path().join("images"));
        let image = store.store(picture(b"one")).unwrap();
        let path = Image { hash: "../secret".to_owned(), ..image.clone() };
        assert_eq!(store.content(&path), None);
        std::fs::write(dir.path().join("images").join(&image.hash), "two").unwrap();
        assert_eq!(store.content(&image), None);
    }
}
