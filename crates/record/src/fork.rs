//! Forks a session: creates a new one as a copy of another one's record.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;

use memchr::memmem;

use super::log::{EVENTS, LogError, load_session};
use agent_protocol::disk;
use agent_protocol::event::{Event, EventBody, EventHeader, FORMAT_VERSION};

const OUTPUT: &str = "tool-output";
const IMAGES: &str = "images";

/// Why a fork failed.
#[derive(Debug, thiserror::Error)]
pub enum ForkError {
    #[error(transparent)]
    Log(#[from] LogError),
    #[error("session {session} has no turn {turn}; its last is {last}")]
    NoTurn { session: String, turn: u32, last: u32 },
}

/// Copies the record of a session up to the end of a turn (`None`: all of it) into a new folder; folders are
/// named by session ids. Spilled output and images that the copied events refer to are copied too. The new session
/// is created completely or not at all.
pub fn fork_session(
    from: &Path,
    to: &Path,
    up_to: Option<u32>,
    ts: String,
) -> Result<(), ForkError> {
    let (old, new) = (session_id(from), session_id(to));
    let log = from.join(EVENTS);
    let loaded = load_session(&log)?;
    let n = match up_to {
        None => loaded.events.len(),
        Some(turn) => {
            count_until_turn_end(&loaded.events, turn).ok_or_else(|| ForkError::NoTurn {
                session: old.clone(),
                turn,
                last: loaded.events.last().map_or(0, |event| event.header.place.turn),
            })?
        }
    };
    let place = loaded.events[..n].last().map(|last| last.header.place).unwrap_or_default();
    let text = disk::read_file(&log).map_err(LogError::io(&log))?;
    let mut copy: Vec<u8> = Vec::with_capacity(text.len());
    let id = (format!("\"session\":\"{old}\""), format!("\"session\":\"{new}\""));
    let paths = (format!("sessions/{old}/{OUTPUT}/"), format!("sessions/{new}/{OUTPUT}/"));
    for line in text.split_inclusive(|byte| *byte == b'\n').take(n) {
        copy.extend(replace_bytes(&replace_bytes(line, &id, 1), &paths, usize::MAX));
    }
    let header = EventHeader {
        v: FORMAT_VERSION,
        seq: n as u64 + 1,
        ts,
        session: new,
        agent: "main".to_owned(),
        place,
    };
    let body = EventBody::SessionForked { from: old, up_to: place.turn };
    // An event contains only strings and numbers: it always serialises.
    copy.extend(serde_json::to_vec(&Event { header, body }).unwrap_or_default());
    copy.push(b'\n');
    write_fork(from, to, &copy).inspect_err(|_| _ = disk::remove_folder(to))?;
    Ok(())
}

fn session_id(folder: &Path) -> String {
    folder.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// A turn that was killed ends where the next begins.
fn count_until_turn_end(events: &[Event], turn: u32) -> Option<usize> {
    let is_of_turn = |event: &Event| event.header.place.turn == turn;
    let begin = events.iter().position(is_of_turn)?;
    let is_end =
        |event: &Event| is_of_turn(event) && matches!(event.body, EventBody::TurnFinished(_));
    let finished = events.iter().position(is_end).map(|at| at + 1);
    let next = events[begin..].iter().position(|event| !is_of_turn(event)).map(|n| begin + n);
    Some(finished.or(next).unwrap_or(events.len()))
}

fn replace_bytes(line: &[u8], (old, new): &(String, String), most: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(line.len());
    let mut rest = 0;
    for at in memmem::find_iter(line, old.as_bytes()).take(most) {
        out.extend_from_slice(&line[rest..at]);
        out.extend_from_slice(new.as_bytes());
        rest = at + old.len();
    }
    out.extend_from_slice(&line[rest..]);
    out
}

fn write_fork(from: &Path, to: &Path, events: &[u8]) -> Result<(), LogError> {
    disk::create_folder(to, 0o700).map_err(LogError::io(to))?;
    let outputs = outputs_in(events).into_iter().map(|name| (OUTPUT, name));
    let images = images_in(&from.join(IMAGES), events).into_iter().map(|name| (IMAGES, name));
    for (folder, name) in outputs.chain(images) {
        // A link could lead to any file of the user.
        let Ok(mut file) = disk::open_file(&from.join(folder).join(&name)) else { continue };
        let copy = to.join(folder).join(name);
        disk::create_folder_all(&to.join(folder), 0o700).map_err(LogError::io(&copy))?;
        let mut new = disk::create_file(&copy, 0o600).map_err(LogError::io(&copy))?;
        io::copy(&mut file, &mut new).map_err(LogError::io(&copy))?;
    }
    // The log comes last: without it a folder is no session.
    let half = to.join(format!("{EVENTS}.new"));
    let mut file = disk::create_file(&half, 0o600).map_err(LogError::io(&half))?;
    io::Write::write_all(&mut file, events).map_err(LogError::io(&half))?;
    fs::rename(&half, to.join(EVENTS)).map_err(LogError::io(&half))
}

/// The names are the hashes of the images.
fn images_in(folder: &Path, events: &[u8]) -> Vec<String> {
    let files = fs::read_dir(folder).into_iter().flatten().flatten();
    let names = files.filter_map(|file| file.file_name().into_string().ok());
    let is_named = |name: &String| memmem::find(events, name.as_bytes()).is_some();
    names.filter(|name| blake3::Hash::from_hex(name).is_ok() && is_named(name)).collect()
}

fn outputs_in(events: &[u8]) -> BTreeSet<String> {
    let mark = format!("/{OUTPUT}/");
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || b"._-".contains(byte);
    memmem::find_iter(events, mark.as_bytes())
        .filter_map(|at| {
            let rest = &events[at + mark.len()..];
            let end = rest.iter().position(|byte| !is_name(byte)).unwrap_or(rest.len());
            let name = String::from_utf8_lossy(&rest[..end]).into_owned();
            (!name.is_empty() && !name.starts_with('.')).then_some(name)
        })
        .collect()
}
