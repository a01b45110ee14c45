//! Records the requests and answers of servers byte by byte, and reads them back: `--record-wire DIR` and
//! `--model replay:DIR`. Each request is a JSON file.
//!
//! Secrets are masked, except one whose characters arrive in several events.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::endpoint::Endpoint;
use super::failure::{AttemptFailure, RetryAdvice};
use agent_protocol::mask::{Masker, mask_for_kind};
use agent_protocol::model::Purpose;
use agent_protocol::provider::{Dialect, WireFormat};

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Exchange {
    /// `provider/model`.
    pub(super) model: String,
    pub(super) wire: WireFormat,
    pub(super) dialect: Dialect,
    pub(super) purpose: Purpose,
    /// Below the base URL.
    pub(super) path: String,
    pub(super) request: Value,
    /// HTTP status; `None` if there was no response.
    pub(super) status: Option<u16>,
    /// Headers of the response that matter for retries.
    pub(super) headers: BTreeMap<String, String>,
    pub(super) body: Vec<BodyPiece>,
    /// Why there was no response, or why its body ended early.
    pub(super) failure: Option<String>,
    /// The failure was not retried.
    #[serde(default)]
    pub(super) is_permanent: bool,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct BodyPiece {
    /// Milliseconds after the request.
    pub(super) ms: u64,
    #[serde(flatten)]
    pub(super) content: PieceContent,
}

/// Bytes that are not UTF-8 are in Base64: a character may be split.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum PieceContent {
    Text(String),
    Base64(String),
}

impl PieceContent {
    fn new(bytes: &[u8]) -> Self {
        match std::str::from_utf8(bytes) {
            Ok(text) => Self::Text(text.to_owned()),
            Err(_) => Self::Base64(BASE64_STANDARD.encode(bytes)),
        }
    }

    /// Empty if a changed record contains no Base64.
    pub(super) fn bytes(&self) -> Vec<u8> {
        match self {
            Self::Text(text) => text.as_bytes().to_vec(),
            Self::Base64(text) => BASE64_STANDARD.decode(text).unwrap_or_default(),
        }
    }
}

/// Writes a record.
pub struct WireRecorder {
    folder: PathBuf,
    masker: Arc<Masker>,
    next: AtomicU32,
}

impl WireRecorder {
    /// Writes to this folder, which is created; it must not contain a record.
    pub fn create(folder: &Path, masker: Arc<Masker>) -> io::Result<Self> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        if !record_files(folder)?.is_empty() {
            return Err(io::Error::other("it already contains a record"));
        }
        Ok(Self { folder: folder.to_owned(), masker, next: AtomicU32::new(1) })
    }

    pub(super) fn start_recording(
        self: &Arc<Self>,
        endpoint: &Endpoint,
        purpose: Purpose,
        path: &str,
        body: &[u8],
    ) -> Recording {
        let key = endpoint.api_key.clone();
        let mask = RecordMasker { masker: Arc::clone(&self.masker), key };
        let exchange = Exchange {
            model: endpoint.id.clone(),
            wire: endpoint.wire,
            dialect: endpoint.dialect,
            purpose,
            path: path.to_owned(),
            request: mask.mask_json(serde_json::from_slice(body).unwrap_or_default()),
            status: None,
            headers: BTreeMap::new(),
            body: Vec::new(),
            failure: None,
            is_permanent: false,
        };
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let recorder = Arc::clone(self);
        Recording { recorder, mask, number, start: Instant::now(), exchange, pieces: Vec::new() }
    }
}

/// The record is written on drop: an answer may be interrupted.
pub(super) struct Recording {
    recorder: Arc<WireRecorder>,
    mask: RecordMasker,
    number: u32,
    start: Instant,
    exchange: Exchange,
    /// Milliseconds after the request, and bytes.
    pieces: Vec<(u64, Vec<u8>)>,
}

struct RecordMasker {
    masker: Arc<Masker>,
    key: Option<String>,
}

impl RecordMasker {
    fn mask_text(&self, text: &str) -> String {
        let masked = self.masker.mask(text);
        match &self.key {
            Some(key) => masked.replace(key.trim(), &mask_for_kind("api-key")),
            None => masked.into_owned(),
        }
    }

    fn mask_json(&self, mut value: Value) -> Value {
        self.masker.mask_value(&mut value);
        match &self.key {
            Some(key) => {
                let text = value.to_string().replace(key.trim(), &mask_for_kind("api-key"));
                serde_json::from_str(&text).unwrap_or_default()
            }
            None => value,
        }
    }

    /// Secrets in JSON are found only in its values.
    fn mask_body(&self, text: &str) -> String {
        let lines = text.split_inclusive('\n').map(|line| {
            let start = line.find('{').unwrap_or(line.len());
            let (before, json) = line.split_at(start);
            let Ok(value) = serde_json::from_str::<Value>(json) else {
                return self.mask_text(line);
            };
            let masked = self.mask_json(value.clone());
            if masked == value {
                return line.to_owned();
            }
            format!("{before}{masked}{}", &json[json.trim_end().len()..])
        });
        match serde_json::from_str::<Value>(text) {
            Ok(document) => self.mask_json(document).to_string(),
            Err(_) => lines.collect(),
        }
    }
}

impl Recording {
    pub(super) fn record_response(&mut self, status: u16, headers: &reqwest::header::HeaderMap) {
        self.exchange.status = Some(status);
        let matter = headers.iter().filter(|(name, _)| {
            let name = name.as_str();
            name == "content-type" || name.starts_with("retry-after") || name.contains("ratelimit")
        });
        let texts = matter.filter_map(|(name, value)| {
            Some((name.as_str().to_owned(), value.to_str().ok()?.to_owned()))
        });
        self.exchange.headers.extend(texts);
    }

    pub(super) fn record_piece(&mut self, bytes: &[u8]) {
        let ms = u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.pieces.push((ms, bytes.to_vec()));
    }

    pub(super) fn record_failure(&mut self, failure: &AttemptFailure) {
        self.exchange.failure = Some(self.mask.mask_text(&failure.error.message));
        self.exchange.is_permanent = failure.retry == RetryAdvice::Never;
    }

    fn write(&mut self) -> io::Result<()> {
        let whole: Vec<u8> = self.pieces.iter().flat_map(|(_, bytes)| bytes).copied().collect();
        let whole = String::from_utf8_lossy(&whole);
        let masked = self.mask.mask_body(&whole);
        let has_secret = match serde_json::from_str::<Value>(&whole) {
            Ok(document) => serde_json::from_str::<Value>(&masked).ok() != Some(document),
            Err(_) => masked != whole,
        };
        let pieces = match self.pieces.first() {
            Some((ms, _)) if has_secret => vec![(*ms, masked.into_bytes())],
            _ => std::mem::take(&mut self.pieces),
        };
        let pieces = pieces
            .iter()
            .map(|(ms, bytes)| BodyPiece { ms: *ms, content: PieceContent::new(bytes) });
        self.exchange.body = pieces.collect();
        let path = self.recorder.folder.join(format!("{:04}.json", self.number));
        let mut text = serde_json::to_vec_pretty(&self.exchange)?;
        text.push(b'\n');
        fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?.write_all(&text)
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        // A recording that cannot be written must not end the answer; the file is missing then.
        let _ = self.write();
    }
}

/// The exchanges with the names of their files, in order.
pub(super) fn read_exchanges(folder: &Path) -> Result<Vec<(String, Exchange)>, String> {
    let because =
        |path: &Path, error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let paths = record_files(folder).map_err(|error| because(folder, &error))?;
    if paths.is_empty() {
        return Err(because(folder, &"it contains no record (0001.json …)"));
    }
    let read = |path: PathBuf| {
        let text = fs::read_to_string(&path).map_err(|error| because(&path, &error))?;
        let exchange = serde_json::from_str(&text).map_err(|error| because(&path, &error))?;
        Ok((path.display().to_string(), exchange))
    };
    paths.into_iter().map(read).collect()
}

fn record_files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let is_number = |stem: &str| !stem.is_empty() && stem.bytes().all(|b| b.is_ascii_digit());
        let stem = path.file_stem().and_then(|stem| stem.to_str());
        if path.extension().is_some_and(|end| end == "json") && stem.is_some_and(is_number) {
            paths.push(path);
        }
    }
    paths.sort_by_key(|path| {
        path.file_stem().and_then(|stem| stem.to_str()?.parse::<u64>().ok()).unwrap_or(u64::MAX)
    });
    Ok(paths)
}
