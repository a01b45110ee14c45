//! Paths as terminals paste them when the user drops a file.

use url::Url;

/// The absolute path that a paste consists of: plain, in quotes, with escaped blanks, or `file://`.
/// One directly below `/` is not accepted: it looks like a command of the chat.
pub fn parse_dropped_path(paste: &str) -> Option<String> {
    let paste = paste.trim();
    let path = match paste.strip_prefix("file://") {
        Some(address) if address.contains(char::is_whitespace) => return None,
        Some(_) => {
            // The name of this host stands in some.
            let local = format!("file://{}", Url::parse(paste).ok()?.path());
            let path = Url::parse(&local).ok()?.to_file_path().ok()?;
            path.into_os_string().into_string().ok()?
        }
        None => parse_single_word(paste)?,
    };
    let is_below =
        path.strip_prefix('/').is_some_and(|rest| rest.trim_end_matches('/').contains('/'));
    (is_below && !path.contains('\n')).then_some(path)
}

/// `None` if there are several words.
fn parse_single_word(text: &str) -> Option<String> {
    let mut word = String::with_capacity(text.len());
    let mut quote = None;
    let mut chars = text.chars();
    while let Some(char) = chars.next() {
        match (quote, char) {
            (None, '\'' | '"') => quote = Some(char),
            (Some(open), close) if open == close => quote = None,
            (None | Some('"'), '\\') => word.push(chars.next()?),
            (None, char) if char.is_whitespace() => return None,
            (_, char) => word.push(char),
        }
    }
    quote.is_none().then_some(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(paste: &str, path: Option<&str>) {
        assert_eq!(parse_dropped_path(paste).as_deref(), path, "{paste}");
    }

    #[test]
    fn paths_are_read_as_terminals_write_them() {
        check("/home/me/a.png", Some("/home/me/a.png"));
        check("/home/me/a.png ", Some("/home/me/a.png"));
        check("'/home/me/my pic.png'", Some("/home/me/my pic.png"));
        check("\"/home/me/my pic.png\"", Some("/home/me/my pic.png"));
        check("/home/me/my\\ pic\\(1\\).png", Some("/home/me/my pic(1).png"));
        check("'/home/me/it'\\''s.png' ", Some("/home/me/it's.png"));
        check("file:///home/me/my%20pic.png\n", Some("/home/me/my pic.png"));
        check("file://host/home/b%C3%A4r.png", Some("/home/bär.png"));
    }

    #[test]
    fn other_pastes_are_no_paths() {
        check("/help", None);
        check("/help me", None);
        check("", None);
        check("src/a.png", None);
        check("/home/me/a.png /home/me/b.png", None);
        check("/home/me/a.png\n/home/me/b.png", None);
        check("'/home/me/a.png", None);
        check("/home/me/a.png\\", None);
        check("file://host", None);
        check("file:///home/%FF.png", None);
        check("see /home/me/a.png", None);
    }
}
