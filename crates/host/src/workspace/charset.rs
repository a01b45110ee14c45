//! Character encodings of files: UTF-8 or UTF-16 by their bytes, otherwise a guess that is marked as one.

use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use encoding_rs::{
    Decoder, DecoderResult, EncoderResult, Encoding, GB18030, GBK, UTF_8, UTF_16BE, UTF_16LE,
    WINDOWS_1252,
};

/// Size in bytes of a file's beginning that is searched for NUL bytes.
pub(super) const SNIFFED: usize = 8 * 1024;
/// Size in bytes of the text that a guess is based on, from the first byte that is not ASCII.
pub(super) const GUESSED_FROM: usize = 256 * 1024;

/// A file's encoding with its byte order mark, for writing the file back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Charset {
    encoding: &'static Encoding,
    bom: bool,
    guessed: bool,
}

impl Charset {
    pub const UTF_8: Self = Self { encoding: UTF_8, bom: false, guessed: false };

    /// Also returns the length of the byte order mark in bytes.
    pub(super) fn of_bom(head: &[u8]) -> Option<(Self, usize)> {
        // FF FE 00 00 is UTF-32; its NUL bytes make the file binary.
        if head.starts_with(&[0xFF, 0xFE, 0, 0]) {
            return None;
        }
        let (encoding, length) = Encoding::for_bom(head)?;
        Some((Self { encoding, bom: true, guessed: false }, length))
    }

    /// For text that is not UTF-8 and has no BOM.
    pub(super) fn guess(sample: &[u8]) -> Self {
        let mut detector = EncodingDetector::new(Iso2022JpDetection::Allow);
        detector.feed(sample, true);
        let encoding = match detector.guess(None, Utf8Detection::Deny) {
            // GB18030 is a superset of GBK.
            encoding if encoding == GBK => GB18030,
            encoding => encoding,
        };
        // A guess that does not fit the sample is rejected. A cut sample may end with half a character.
        let whole = sample.len() < GUESSED_FROM;
        let mut decoder = encoding.new_decoder_without_bom_handling();
        let room = decoder.max_utf8_buffer_length_without_replacement(sample.len());
        let mut text = String::with_capacity(room.unwrap_or(sample.len()));
        let (result, _) = decoder.decode_to_string_without_replacement(sample, &mut text, whole);
        let fits = !matches!(result, DecoderResult::Malformed(..));
        let encoding = if fits { encoding } else { WINDOWS_1252 };
        Self { encoding, bom: false, guessed: true }
    }

    /// Text that is not a file: by its byte order mark, else by the name that its sender gives the encoding, else UTF-8, else a
    /// guess. Bytes that are no text in it become U+FFFD.
    pub fn decode_labelled(bytes: &[u8], label: Option<&str>) -> (Self, String) {
        let labelled = || {
            let encoding = Encoding::for_label(label?.as_bytes())?;
            Some(Self { encoding, bom: false, guessed: false })
        };
        let own = || match std::str::from_utf8(bytes) {
            Ok(_) => Self::UTF_8,
            Err(_) => Self::guess(&bytes[..bytes.len().min(GUESSED_FROM)]),
        };
        let (charset, n_mark) =
            Self::of_bom(bytes).unwrap_or_else(|| (labelled().unwrap_or_else(own), 0));
        let (text, _) = charset.encoding.decode_without_bom_handling(&bytes[n_mark..]);
        (charset, text.into_owned())
    }

    /// The name for display.
    pub fn name(&self) -> String {
        let name = self.encoding.name().to_ascii_lowercase();
        if self.bom && self.encoding == UTF_8 { format!("{name}-bom") } else { name }
    }

    /// Whether the encoding is a guess from the bytes.
    pub fn is_guessed(&self) -> bool {
        self.guessed
    }

    pub(super) fn is_utf_8(&self) -> bool {
        self.encoding == UTF_8
    }

    /// In all other encodings ASCII bytes, including line ends, represent themselves.
    pub(super) fn is_utf_16(&self) -> bool {
        self.encoding == UTF_16LE || self.encoding == UTF_16BE
    }

    pub(super) fn decoder(&self) -> Decoder {
        self.encoding.new_decoder_without_bom_handling()
    }

    /// `None` if some bytes are not text, or would be written back as others.
    pub(super) fn decode(&self, bytes: &[u8]) -> Option<String> {
        let body = match Self::of_bom(bytes) {
            Some((_, length)) if self.bom => &bytes[length..],
            Some(_) | None => bytes,
        };
        let text = self.encoding.decode_without_bom_handling_and_without_replacement(body)?;
        // UTF-8 and UTF-16 have one form for each text; older encodings have duplicates.
        let exact = !self.guessed || self.encode(&text).is_ok_and(|encoded| encoded == bytes);
        exact.then(|| text.into_owned())
    }

    /// Includes the BOM. The error is the first character that the encoding lacks.
    pub(super) fn encode(&self, text: &str) -> Result<Vec<u8>, char> {
        let mut bytes = Vec::with_capacity(text.len() + 3);
        if self.is_utf_16() {
            let little = self.encoding == UTF_16LE;
            let mark = self.bom.then_some(0xFEFF);
            for unit in mark.into_iter().chain(text.encode_utf16()) {
                bytes.extend(if little { unit.to_le_bytes() } else { unit.to_be_bytes() });
            }
            return Ok(bytes);
        }
        if self.is_utf_8() && self.bom {
            bytes.extend_from_slice(&[0xEF, 0xBB, 0xBF]);
        }
        let mut encoder = self.encoding.new_encoder();
        let mut rest = text;
        loop {
            bytes.reserve(rest.len() + 64);
            let (result, read) =
                encoder.encode_from_utf8_to_vec_without_replacement(rest, &mut bytes, true);
            rest = &rest[read..];
            match result {
                EncoderResult::InputEmpty => return Ok(bytes),
                EncoderResult::OutputFull => {}
                EncoderResult::Unmappable(character) => return Err(character),
            }
        }
    }
}

pub(super) fn binary_kind(head: &[u8]) -> &'static str {
    const MAGIC: &[(&[u8], &str)] = &[
        (b"\x89PNG", "a PNG image"),
        (b"\xFF\xD8\xFF", "a JPEG image"),
        (b"GIF8", "a GIF image"),
        (b"BM", "a bitmap image"),
        (b"RIFF", "a RIFF file (WebP, WAV, AVI)"),
        (b"%PDF", "a PDF document"),
        (b"PK\x03\x04", "a ZIP archive (or a document made of one)"),
        (b"\x1F\x8B", "gzip-compressed data"),
        (b"\x28\xB5\x2F\xFD", "zstd-compressed data"),
        (b"\xFD7zXZ", "xz-compressed data"),
        (b"BZh", "bzip2-compressed data"),
        (b"7z\xBC\xAF", "a 7z archive"),
        (b"\x7FELF", "an ELF program or library"),
        (b"MZ", "a Windows program or library"),
        (b"\xCF\xFA\xED\xFE", "a macOS program or library"),
        (b"\xCA\xFE\xBA\xBE", "a Java class or macOS program"),
        (b"\0asm", "a WebAssembly module"),
        (b"SQLite format 3", "a SQLite database"),
        (b"OggS", "Ogg audio or video"),
        (b"ID3", "MP3 audio"),
        (b"wOFF", "a web font"),
        (b"\0\x01\0\0", "a TrueType font"),
        (b"!<arch>", "a static library"),
    ];
    let known = MAGIC.iter().find(|(magic, _)| head.starts_with(magic)).map(|(_, kind)| *kind);
    known.unwrap_or_else(|| {
        if head.get(257..262) == Some(b"ustar") { "a tar archive" } else { "binary data" }
    })
}
