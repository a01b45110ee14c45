//! What a message of the user may contain, whichever way it arrives.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

/// Limit of its text in bytes. A longer one should be in a file that the message names.
pub(super) const MAX_TEXT: usize = 10 << 20;

/// Why a longer one is refused; `what` it is.
pub(super) fn too_long_error(what: &str) -> String {
    let limit = MAX_TEXT >> 20;
    format!(
        "{what} has more than {limit} MiB of text: write it to a file in the project and mention that file"
    )
}

/// An image that was sent as base64; `None` if it is none.
pub(super) fn decode_image(data: &str) -> Option<Vec<u8>> {
    BASE64_STANDARD.decode(data).ok()
}
