//! The conversation for a model that does not accept all of its images.

use std::collections::BTreeSet;

use agent_protocol::message::{Image, Message, Part};
use agent_protocol::prompt::{Prompt, Prompts};

const IMAGE_NOT_SHOWN: Prompt = Prompt::named("feedback/image_not_shown.md");
const IMAGE_REFUSED: Prompt = Prompt::named("feedback/image_refused.md");

/// The messages with a short text in place of each image with one of these hashes; `None`: of every image, because the
/// model accepts none.
pub fn without_images(
    prompts: &Prompts,
    messages: &[Message],
    hashes: Option<&BTreeSet<String>>,
) -> Vec<Message> {
    let prompt = if hashes.is_some() { IMAGE_REFUSED } else { IMAGE_NOT_SHOWN };
    let text = prompts.text(prompt).trim_end();
    let is_left_out = |image: &Image| hashes.is_none_or(|hashes| hashes.contains(&image.hash));
    let shown = |part: &Part| match part {
        Part::Image(image) if is_left_out(image) => Part::Text { text: text.to_owned() },
        Part::Result(result) => {
            let mut result = result.clone();
            for _ in result.images.extract_if(.., |image| is_left_out(image)) {
                result.text.push('\n');
                result.text.push_str(text);
            }
            Part::Result(result)
        }
        Part::Image(_) | Part::Text { .. } | Part::Carried(_) | Part::Call(_) => part.clone(),
    };
    let messages = messages.iter().map(|message| Message {
        role: message.role,
        parts: message.parts.iter().map(shown).collect(),
    });
    messages.collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;
    use crate::context::History;
    use agent_protocol::Object;
    use agent_protocol::envelope::{Envelope, ResultContext, Verdict};
    use agent_protocol::event::{
        Compaction, CompactionCause, ShortenedText, SummaryAuthor, WorkPosition,
    };
    use agent_protocol::message::{Image, Role, ToolCall};

    fn image(hash: &str) -> Image {
        Image { hash: hash.to_owned(), media_type: "image/png".to_owned(), bytes: 1 }
    }

    /// Two turns, each with an image of the user and one of Read.
    fn history() -> History {
        let mut history = History::default();
        for turn in 1..=2 {
            history.place = WorkPosition { turn, round: 0, step: 0 };
            history.add_user_message("look", &[image("of the user")]);
            let data = json!({"type": "image", "hash": "h", "media_type": "image/png", "bytes": 1});
            let data: Object = data.as_object().cloned().expect("an object");
            let context = ResultContext {
                cwd: ".".to_owned(),
                params_input: Object::new(),
                path_resolved: None,
            };
            let (verdict, text, stats) =
                (Verdict::Success, "Read a.png.".to_owned(), Object::new());
            let envelope = Envelope { verdict, data, text, stats, context };
            let (id, name) = (format!("c{turn}"), "Read".to_owned());
            let call = ToolCall { id, name, arguments: "{}".to_owned() };
            history.add_exchange("", &[call], &[], &[&envelope]);
        }
        history
    }

    fn compacted(archived: usize) -> Compaction {
        Compaction {
            cause: CompactionCause::Manual,
            focus: None,
            archived,
            from: WorkPosition::default(),
            to: WorkPosition::default(),
            summary: "what was done".to_owned(),
            by: SummaryAuthor::Program,
            forgotten: 0,
            cut: BTreeMap::new(),
            shortened: Vec::new(),
            user_messages: Vec::new(),
            tokens_before: 0,
            tokens_after: 0,
            window: 1000,
        }
    }

    #[test]
    fn images_count_as_much_as_the_text_that_they_cost() {
        let history = history();
        assert_eq!(history.n_images(), 4);
        assert!(history.bytes() > 4 * Image::BYTES_OF_TEXT);
    }

    #[test]
    fn compaction_drops_the_images_of_archived_turns_and_shortened_results() {
        let mut archived = history();
        archived.compact(&compacted(3));
        assert_eq!(archived.n_images(), 2);

        let mut shortened = history();
        let cut = BTreeMap::from([("c2".to_owned(), "read again later".to_owned())]);
        let short = ShortenedText { message: 3, text: "loo".to_owned() };
        shortened.compact(&Compaction { cut, shortened: vec![short], ..compacted(3) });
        assert_eq!(shortened.n_images(), 1);
        let task = shortened.messages().iter().find(|message| message.parts.len() == 2);
        let text = Part::Text { text: "loo".to_owned() };
        assert_eq!(task.expect("the task").parts, [text, Part::Image(image("of the user"))]);
    }

    #[test]
    fn a_text_replaces_each_image() {
        let messages = without_images(&Prompts::default(), history().messages(), None);
        assert!(
            messages.iter().flat_map(|message| &message.parts).all(|part| part.images().is_empty())
        );
        let text = "[image not shown: this model takes no images]";
        let task = [Part::Text { text: "look".to_owned() }, Part::Text { text: text.to_owned() }];
        assert_eq!(messages[0], Message { role: Role::User, parts: task.to_vec() });
        let Part::Result(result) = &messages[2].parts[0] else { panic!("{messages:?}") };
        assert_eq!(result.text, format!("Read a.png.\n{text}"));
    }
}
