//! A prompt of the client as a message of the user.
//!
//! Only its text counts as the user's own words: embedded contents (files, selections) are treated
//! like a paste, and never searched for instructions. A link to a file is a mention (`@src/a.rs`).

use std::path::Path;

use url::Url;

use crate::cli::user_message::{self, MAX_TEXT};
use agent_client_protocol::v1::schema::{ContentBlock, EmbeddedResourceResource, ImageContent};
use agent_protocol::directives::UserInput;

#[derive(Debug, Default)]
pub(super) struct ParsedPrompt {
    first_text: String,
    rest: UserInput,
    /// Contents that follow the text, with the names by which the text refers to them.
    embedded: Vec<(String, String)>,
}

pub(super) fn parse_prompt(blocks: Vec<ContentBlock>, root: &Path) -> Result<ParsedPrompt, String> {
    let mut read = ParsedPrompt::default();
    for (at, block) in blocks.into_iter().enumerate() {
        match block {
            ContentBlock::Text(text) if at == 0 => read.first_text = text.text,
            ContentBlock::Text(text) => read.rest.text.push_str(&text.text),
            ContentBlock::ResourceLink(link) => match file_location(&link.uri, root) {
                Some(place) => read.add_reference(&mention(&place)),
                None => read.add_reference(&format!("{} ({})", link.name, link.uri)),
            },
            ContentBlock::Image(image) => read.add_image(&image, root)?,
            ContentBlock::Resource(resource) => match resource.resource {
                EmbeddedResourceResource::TextResourceContents(contents) => {
                    let name = file_location(&contents.uri, root).unwrap_or(contents.uri);
                    read.add_reference(&format!("`{name}`"));
                    read.embedded.push((name, contents.text));
                }
                EmbeddedResourceResource::BlobResourceContents(contents) => {
                    let is_image =
                        contents.mime_type.as_deref().is_some_and(|it| it.starts_with("image/"));
                    if !is_image {
                        return Err(format!(
                            "{} is embedded and neither a text nor an image: only those are passed on",
                            contents.uri
                        ));
                    }
                    let mime_type = contents.mime_type.unwrap_or_default();
                    read.add_image(&ImageContent::new(contents.blob, mime_type), root)?;
                }
                _ => return Err("an embedded resource has a kind that is not known".to_owned()),
            },
            ContentBlock::Audio(_) => return Err("audio is not supported: send text".to_owned()),
            _ => return Err("a part of the prompt has a kind that is not known".to_owned()),
        }
    }
    let is_empty = read.first_text.trim().is_empty()
        && read.rest.text.trim().is_empty()
        && read.rest.images.is_empty();
    if is_empty {
        return Err("the prompt is empty".to_owned());
    }
    let embedded: usize = read.embedded.iter().map(|(_, text)| text.len()).sum();
    if read.first_text.len() + read.rest.text.len() + embedded > MAX_TEXT {
        return Err(user_message::too_long_error("the prompt"));
    }
    Ok(read)
}

impl ParsedPrompt {
    /// The text after a slash at the beginning: perhaps a command with its arguments.
    pub(super) fn command(&self) -> Option<&str> {
        self.first_text.trim().strip_prefix('/')
    }

    pub(super) fn into_input(self) -> UserInput {
        let first = UserInput::from(self.first_text.clone());
        self.with_command(first)
    }

    /// `first` replaces the first text.
    pub(super) fn with_command(self, first: UserInput) -> UserInput {
        let mut rest = self.rest;
        for (name, text) in self.embedded {
            let end = if text.ends_with('\n') { "" } else { "\n" };
            rest.push_pasted(&format!("\n\n<context of=\"{name}\">\n{text}{end}</context>"));
        }
        if rest.text.is_empty() && rest.images.is_empty() {
            return first;
        }
        UserInput::join(vec![first, rest], "")
    }

    fn add_image(&mut self, image: &ImageContent, root: &Path) -> Result<(), String> {
        if image.data.is_empty()
            && let Some(place) = image.uri.as_deref().and_then(|uri| file_location(uri, root))
        {
            self.add_reference(&mention(&place));
            return Ok(());
        }
        let bytes =
            user_message::decode_image(image.data.trim()).ok_or("an image is no valid base64")?;
        self.rest.images.push(bytes);
        Ok(())
    }

    fn add_reference(&mut self, words: &str) {
        let before = self.rest.text.chars().next_back().or(self.first_text.chars().next_back());
        if before.is_some_and(|before| !before.is_whitespace()) {
            self.rest.text.push(' ');
        }
        self.rest.text.push_str(words);
        self.rest.text.push(' ');
    }
}

/// `@"src/a.rs":10-20`
fn mention(place: &str) -> String {
    let lines = |lines: &&str| {
        !lines.is_empty() && lines.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-')
    };
    match place.rsplit_once(':').filter(|(_, rest)| lines(rest)) {
        Some((path, lines)) => format!("@\"{path}\":{lines}"),
        None => format!("@\"{place}\""),
    }
}

/// For a `file:` address; relative to the root if the file is in it, with its lines:
/// `src/a.rs:10-20`.
fn file_location(uri: &str, root: &Path) -> Option<String> {
    let url = Url::parse(uri).ok().filter(|url| url.scheme() == "file")?;
    let path = url.to_file_path().ok()?;
    let fragment = url.fragment().unwrap_or_default();
    let path = path.strip_prefix(root).unwrap_or(&path).to_str()?.to_owned();
    let path = if path.is_empty() { ".".to_owned() } else { path };
    let numbers: Vec<&str> =
        fragment.split(['L', ':', '-']).filter(|part| !part.is_empty()).collect();
    let are_numbers = numbers.iter().all(|part| part.bytes().all(|byte| byte.is_ascii_digit()));
    Some(match numbers[..] {
        [line] if are_numbers => format!("{path}:{line}"),
        [first, last] if are_numbers => format!("{path}:{first}-{last}"),
        _ => path,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_addresses_are_places_of_the_project() {
        let root = Path::new("/srv/my project");
        for (uri, expected) in [
            ("file:///srv/my%20project/src/a.rs", Some("src/a.rs")),
            ("file://localhost/srv/my%20project/src/a.rs", Some("src/a.rs")),
            ("file:///srv/my%20project/src/a.rs#L10", Some("src/a.rs:10")),
            ("file:///srv/my%20project/a.rs?symbol=main#L10:20", Some("a.rs:10-20")),
            ("file:///srv/my%20project/a.rs#L10-L20", Some("a.rs:10-20")),
            ("file:///srv/my%20project", Some(".")),
            ("file:///etc/hosts%", Some("/etc/hosts%")),
            ("file:///etc/%e4%b8%ad#top", Some("/etc/中")),
            ("https://example.com/a", None),
        ] {
            assert_eq!(file_location(uri, root).as_deref(), expected, "{uri}");
        }
        assert_eq!(mention("src/a.rs:10-20"), "@\"src/a.rs\":10-20");
        assert_eq!(mention("a:b"), "@\"a:b\"");
    }
}
