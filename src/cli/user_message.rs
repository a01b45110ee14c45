//! What a message of the user may contain, whichever way it arrives.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

/// Bytes. A longer text should be in a file that the message names.
pub(super) const MAX_TEXT: usize = 10 << 20;

pub(super) fn too_long_error(what: &str) -> String {
    let limit = MAX_TEXT >> 20;
    format!(
        "{what} has more than {limit} MiB of text: write it to a file in the project and mention that file"
    )
}

pub(super) fn decode_image(data: &str) -> Option<Vec<u8>> {
    BASE64_STANDARD.decode(data).ok()
}
