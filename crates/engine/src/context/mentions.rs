//! Mentions with `@`, and dropped images: a reminder asks the model to read a text file; an image becomes a part of
//! the message.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::LazyLock;

use regex::{Captures, Regex};

use agent_protocol::directives::UserInput;
use agent_protocol::dropped_path::parse_dropped_path;
use agent_protocol::message::Image;
use agent_protocol::prompt::{Prompt, Prompts};

/// Further mentions are only counted.
const MAX_NAMED: usize = 5;

static FENCED: LazyLock<Regex> = LazyLock::new(|| compile_regex(r"(?s)```.*?(?:```|\z)"));

/// The file or folder that a mention refers to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MentionTarget {
    /// Relative to the root, without symlinks, as tools display it; verbatim if it is outside.
    pub path: String,
    pub kind: MentionTargetKind,
}

/// The kind of a mention's target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MentionTargetKind {
    /// A file of the project, or an image anywhere.
    File,
    Folder,
    /// The reason why the model cannot read it.
    Outside(String),
}

/// The mentions of one turn that the model has not received yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mentions(Vec<Mention>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Mention {
    /// Text for display, with the lines: `@src/a.rs:10-20`.
    shown: String,
    target: MentionTarget,
    /// The user dropped the file: only an image counts as a mention.
    is_dropped: bool,
}

impl Mentions {
    /// Adds the mentions of existing files in a message, each once. Addresses, decorators and packages are
    /// ignored unless a file of that name exists; so are code and pasted text.
    pub fn add(&mut self, message: &UserInput, find: impl Fn(&str) -> Option<MentionTarget>) {
        static NAME: LazyLock<Regex> =
            LazyLock::new(|| compile_regex(r#"^(?:"([^"\n]+)"(:\d+(?:-\d+)?)?|([^\s"@`'<>|]+))"#));
        let pasted = message.pasted.iter().map(|range| &message.text[range.clone()]);
        for path in pasted.filter_map(parse_dropped_path) {
            let found = find(&path);
            if let Some(target) = found
                && !matches!(target.kind, MentionTargetKind::Outside(_))
            {
                self.push(Mention { shown: path, target, is_dropped: true });
            }
        }
        let typed = message.typed_text();
        if message.mentions.is_empty() && !typed.contains('@') {
            return;
        }
        let typed = FENCED.replace_all(&typed, " ");
        let message = format!("{typed}\n{}", message.mentions.join("\n"));
        for (at, _) in message.match_indices('@') {
            if is_in_word(&message, at) {
                continue;
            }
            let Some(found) = NAME.captures(&message[at + 1..]) else { continue };
            let quoted = found.get(1).and_then(|name| {
                let lines = found.get(2).map_or("", |lines| lines.as_str());
                Some((format!("@\"{}\"{lines}", name.as_str()), find(name.as_str())?))
            });
            let plain =
                || found.get(3).and_then(|name| longest_existing_prefix(name.as_str(), &find));
            if let Some((shown, target)) = quoted.or_else(plain) {
                self.push(Mention { shown, target, is_dropped: false });
            }
        }
    }

    fn push(&mut self, mention: Mention) {
        if !self.0.iter().any(|other| other.target == mention.target) {
            self.0.push(mention);
        }
    }

    /// Looks at each file: an image, nothing for a text, or why the model cannot read it. Removes all but the
    /// texts. Returns the images, and a sentence for the user about each file that is not read.
    pub fn take_images(
        &mut self,
        load: impl Fn(&str) -> Result<Option<Image>, String>,
    ) -> (Vec<Image>, Vec<String>) {
        let (mut images, mut sentences) = (Vec::new(), Vec::new());
        self.0.retain(|Mention { shown, target, is_dropped }| {
            let seen = match &target.kind {
                MentionTargetKind::Folder => return !is_dropped,
                MentionTargetKind::Outside(reason) => Err(reason.clone()),
                MentionTargetKind::File => load(&target.path),
            };
            match seen {
                Ok(None) => return !is_dropped,
                Ok(Some(image)) if images.contains(&image) => {}
                Ok(Some(image)) => images.push(image),
                Err(reason) => sentences.push(format!("{shown} is not read: {reason}")),
            }
            false
        });
        (images, sentences)
    }

    /// The message about the mentions, once.
    pub fn take_reminder(&mut self, prompts: &Prompts) -> Option<String> {
        const FILES: Prompt = Prompt::named("feedback/mentioned_files.md");
        const FOLDERS: Prompt = Prompt::named("feedback/mentioned_folders.md");
        let mentions = std::mem::take(&mut self.0);
        let named = mentions.iter().take(MAX_NAMED);
        let (folders, files): (Vec<_>, Vec<_>) =
            named.partition(|mention| mention.target.kind == MentionTargetKind::Folder);
        let more = match mentions.len().saturating_sub(MAX_NAMED) {
            0 => String::new(),
            n => format!(" and {n} more"),
        };
        let (files_more, folders_more) = if files.is_empty() { ("", &*more) } else { (&*more, "") };
        let line = |prompt: Prompt, placeholder: &str, mentions: &[&Mention], more: &str| {
            let shown: Vec<&str> = mentions.iter().map(|mention| mention.shown.as_str()).collect();
            let list = shown.join(", ") + more;
            prompts.text(prompt).replace(placeholder, &list).trim_end().to_owned()
        };
        let mut lines = Vec::new();
        if !files.is_empty() {
            lines.push(line(FILES, "{{files}}", &files, files_more));
        }
        if !folders.is_empty() {
            lines.push(line(FOLDERS, "{{folders}}", &folders, folders_more));
        }
        (!lines.is_empty()).then(|| lines.join("\n"))
    }
}

/// The longest prefix of a text that exists: punctuation or Chinese text may follow a name.
fn longest_existing_prefix(
    text: &str,
    find: impl Fn(&str) -> Option<MentionTarget>,
) -> Option<(String, MentionTarget)> {
    const MAX_TRIED: usize = 24;
    let mut ends: BTreeSet<usize> = BTreeSet::from([text.len()]);
    let mut before: Option<char> = None;
    for (at, char) in text.char_indices() {
        // `..` is one name.
        let is_sign = |char: char| {
            !char.is_alphanumeric() && !"/_-".contains(char) && (char, before) != ('.', Some('.'))
        };
        let parts = before.is_some_and(|before| before.is_ascii() != char.is_ascii());
        if at > 0 && (is_sign(char) || parts) {
            ends.insert(at);
        }
        before = Some(char);
    }
    for end in ends.into_iter().rev().take(MAX_TRIED) {
        if let Some(found) = find(&text[..end]) {
            static LINES: LazyLock<Regex> = LazyLock::new(|| compile_regex(r"^:\d+(?:-\d+)?"));
            let lines = LINES.find(&text[end..]).map_or("", |lines| lines.as_str());
            return Some((format!("@{}{lines}", &text[..end]), found));
        }
    }
    None
}

/// Where a message names resources of MCP servers: `@server:protocol://path`. Each range begins with its `@`.
pub fn resource_mentions(
    message: &UserInput,
    is_server: impl Fn(&str) -> bool,
) -> Vec<Range<usize>> {
    static NAME: LazyLock<Regex> = LazyLock::new(|| {
        // An address has only ASCII characters.
        compile_regex(r#"^([^\s:@"`'<>|]+):([A-Za-z][A-Za-z0-9+.-]*:[!-~&&[^"`<>|]]+)"#)
    });
    let mut text = message.text.clone();
    if !text.contains('@') {
        return Vec::new();
    }
    for range in &message.pasted {
        text.replace_range(range.clone(), &" ".repeat(range.len()));
    }
    let text = FENCED.replace_all(&text, |code: &Captures<'_>| " ".repeat(code[0].len()));
    let mut found = Vec::new();
    for (at, _) in text.match_indices('@') {
        if is_in_word(&text, at) {
            continue;
        }
        let Some(named) = NAME.captures(&text[at + 1..]) else { continue };
        if is_server(&named[1]) {
            // Punctuation may follow an address.
            let length = named[0].trim_end_matches(|c| ".,;:!?)]}'".contains(c)).len();
            found.push(at..at + 1 + length);
        }
    }
    found
}

/// After a letter, `@` is part of an address; after a Chinese character it is not.
fn is_in_word(text: &str, at: usize) -> bool {
    let before = text[..at].chars().next_back();
    before.is_some_and(|c| c.is_ascii_alphanumeric() || "_.+@/-".contains(c))
}

fn compile_regex(text: &str) -> Regex {
    Regex::new(text).expect("a fixed expression")
}

#[cfg(test)]
mod tests {
    use super::*;

    const THERE: &[&str] = &[
        "a.rs",
        "src/a.rs",
        "src/",
        "my file.txt",
        "Makefile",
        "设计.md",
        "a",
        "v1.2.md",
        "@types",
        "./",
    ];

    fn find(path: &str) -> Option<MentionTarget> {
        let is_folder = THERE.contains(&format!("{}/", path.trim_end_matches('/')).as_str());
        let path = path.trim_start_matches("./").trim_end_matches('/');
        let kind = if is_folder { MentionTargetKind::Folder } else { MentionTargetKind::File };
        (is_folder || THERE.contains(&path)).then(|| MentionTarget { path: path.to_owned(), kind })
    }

    fn check(message: &str, expected: &[&str]) {
        let mut mentions = Mentions::default();
        mentions.add(&message.into(), find);
        let shown: Vec<&str> = mentions.0.iter().map(|mention| mention.shown.as_str()).collect();
        assert_eq!(shown, expected, "{message}");
    }

    #[test]
    fn existing_paths_are_recognised_as_mentions() {
        check(
            "look at @a.rs and @src/a.rs:10-20, then @src/",
            &["@a.rs", "@src/a.rs:10-20", "@src/"],
        );
        check("(see @a.rs), @./a.rs; @\"my file.txt\":3.", &["@a.rs", "@\"my file.txt\":3"]);
        check("is it @a.rs? or @Makefile!", &["@a.rs", "@Makefile"]);
        check("看看@src/a.rs里的函数，还有@设计.md。", &["@src/a.rs", "@设计.md"]);
        check("read @v1.2.md.", &["@v1.2.md"]);
        check("@a.rs:7 and @a.rs", &["@a.rs:7"]);
    }

    #[test]
    fn missing_paths_and_other_at_signs_are_not_mentions() {
        check("mail me@a.rs, or x.y@src/a.rs", &[]);
        check("use @property and @scope/package, @nobody, @ a.rs, @@a.rs", &[]);
        check("```\n@a.rs\n```", &[]);
        check("@missing.rs:10-20 @\"no such file\" @../a.rs", &[]);
        check("see @a.rs... and @v1.2.md..", &["@a.rs", "@v1.2.md"]);
        let mut pasted = UserInput::from("read @src/a.rs\n");
        pasted.push_pasted("@a.rs");
        let mut mentions = Mentions::default();
        mentions.add(&pasted, find);
        assert_eq!(mentions.0.len(), 1, "nothing that was pasted is a mention");
    }

    #[test]
    fn resources_of_servers_are_recognised_as_mentions() {
        let check = |message: &UserInput, expected: &[&str]| {
            let found = resource_mentions(message, |server| ["docs", "文"].contains(&server));
            let found: Vec<&str> = found.into_iter().map(|range| &message.text[range]).collect();
            assert_eq!(found, expected, "{}", message.text);
        };
        check(
            &"see @docs:file:///a/b.md, @docs:note://x?y=1#z. And (@docs:urn:a)".into(),
            &["@docs:file:///a/b.md", "@docs:note://x?y=1#z", "@docs:urn:a"],
        );
        check(&"看@文:file:///a里的".into(), &["@文:file:///a"]);
        check(&"@other:file:///a @docs:10 @docs x@docs:file:///a".into(), &[]);
        check(&"```\n@docs:file:///a\n```".into(), &[]);
        let mut pasted = UserInput::from("see ");
        pasted.push_pasted("@docs:file:///a");
        check(&pasted, &[]);
    }

    #[test]
    fn dropped_file_is_a_mention_only_if_it_is_an_image() {
        let mut message = UserInput::from("what is this? ");
        message.push_pasted("/p/a.png ");
        message.text.push_str("and ");
        message.push_pasted("/p/a.rs");
        let image = Image { hash: "h".to_owned(), media_type: "image/png".to_owned(), bytes: 1 };
        let mut mentions = Mentions::default();
        let found = |path: &str| {
            Some(MentionTarget { path: path.to_owned(), kind: MentionTargetKind::File })
        };
        mentions.add(&message, found);
        let look = |path: &str| Ok((path == "/p/a.png").then(|| image.clone()));
        assert_eq!(mentions.take_images(look), (vec![image.clone()], Vec::new()));
        assert!(mentions.0.is_empty(), "{mentions:?}");
    }

    #[test]
    fn at_most_five_mentions_are_listed() {
        let found = |path: &str| {
            let kind = if path.ends_with('/') {
                MentionTargetKind::Folder
            } else {
                MentionTargetKind::File
            };
            Some(MentionTarget { path: path.to_owned(), kind })
        };
        let mut mentions = Mentions::default();
        mentions.add(&"@a @b @c @d/ @e @f @g".into(), found);
        let expected = "The user mentioned @a, @b, @c, @e and 2 more. You MUST read these files with the \
             Read tool before answering.\nThe user mentioned the folders @d/. You MUST look into them with \
             LS or Glob before answering.";
        assert_eq!(mentions.take_reminder(&Prompts::default()).as_deref(), Some(expected));
        assert_eq!(mentions.take_reminder(&Prompts::default()), None);
    }
}
