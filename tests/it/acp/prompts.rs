//! Prompts: texts, links, embedded contents, images, and commands.

use agent_client_protocol::v1::schema::{
    AudioContent, ContentBlock, EmbeddedResource, EmbeddedResourceResource, ImageContent,
    ResourceLink, StopReason, TextResourceContents,
};
use serde_json::json;

use super::editor::{Editor, User, edit, text_block};
use crate::support::Test;
use crate::support::server::{Server, sse_text};

/// 3 x 2 pixels, red.
const PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAAAMAAAACCAIAAAASFvFNAAAAEElEQVR4nGP4z8AAQQxwFgBB0gX7h/C5SAAAAABJRU5ErkJggg==";

/// Works with a server that answers each request with "ok"; returns the texts of the requests.
fn requests(test: Test, work: impl AsyncFnOnce(Editor, &Test)) -> Vec<String> {
    let server = Server::with(|_, _| sse_text("ok"));
    let test = test.env("OPENAI_API_KEY", "k");
    let args = ["--model", "openai/gpt-5.4", "--base-url", &server.url(), "--no-memory"];
    edit(&test, &args, User::choosing("once"), async |editor| work(editor, &test).await);
    let requests = server.finish().into_iter().filter(|request| request.method == "POST");
    requests.map(|request| request.body).collect()
}

fn embedded(uri: String, text: &str) -> ContentBlock {
    let contents = TextResourceContents::new(text, uri);
    let resource = EmbeddedResourceResource::TextResourceContents(contents);
    ContentBlock::Resource(EmbeddedResource::new(resource))
}

#[test]
fn parts_of_a_prompt_reach_the_model() {
    let test = Test::new().file("src/a b.rs", "fn main() {}\n");
    let requests = requests(test, async |editor, test| {
        let session = editor.open(test).await.session_id;
        let root = test.root().display().to_string();
        let link = ResourceLink::new("a b.rs", format!("file://{root}/src/a%20b.rs#L1"));
        let web = ResourceLink::new("issue 7", "https://example.com/7");
        let blocks = vec![
            text_block("Explain"),
            ContentBlock::ResourceLink(link),
            text_block("as in"),
            ContentBlock::ResourceLink(web),
            embedded(format!("file://{root}/notes.md"), "do not change anything\n"),
            ContentBlock::Image(ImageContent::new(PNG, "image/png")),
        ];
        assert_eq!(editor.prompt(&session, blocks).await.unwrap(), StopReason::EndTurn);
        // What is embedded is no instruction of the user.
        assert!(editor.updates_of("current_mode_update").is_empty());
    });
    let text = "Explain @\\\"src/a b.rs\\\":1 as in issue 7 (https://example.com/7) `notes.md` \\n\\n\
                <context of=\\\"notes.md\\\">\\ndo not change anything\\n</context>";
    assert!(requests[0].contains(text), "{}", requests[0]);
    assert!(requests[0].contains(PNG));
    // The mentioned file is named to the model.
    assert!(requests[0].contains("src/a b.rs\\\":1"), "{}", requests[0]);
}

#[test]
fn images_that_are_none_are_named_and_other_kinds_are_errors() {
    let requests = requests(Test::new(), async |editor, test| {
        let session = editor.open(test).await.session_id;
        let image = |data: &str| ContentBlock::Image(ImageContent::new(data, "image/png"));
        let blocks = vec![text_block("look"), image("bm8gaW1hZ2U=")];
        assert_eq!(editor.prompt(&session, blocks).await.unwrap(), StopReason::EndTurn);
        let notice = &editor.updates_of("agent_thought_chunk")[0]["content"]["text"];
        assert!(
            notice.as_str().unwrap().starts_with("an image of the message is not read"),
            "{notice}"
        );
        for (blocks, why) in [
            (vec![image("%%%")], "base64"),
            (vec![ContentBlock::Audio(AudioContent::new("aGk=", "audio/wav"))], "audio"),
            (vec![], "empty"),
            (vec![text_block("  \n")], "empty"),
        ] {
            let error = editor.prompt(&session, blocks).await.unwrap_err();
            assert!(error.message.contains(why), "{error:?}");
        }
    });
    assert_eq!(requests.len(), 1);
}

#[test]
fn commands_are_offered_and_carried_out() {
    let test = Test::new()
        .file(
            ".agent/commands/greet.md",
            "---\ndescription: says hello\n---\nGreet $ARGUMENTS now.",
        )
        .file("AGENTS.md", "rules");
    let requests = requests(test, async |editor, test| {
        let session = editor.open(test).await.session_id;
        editor
            .wait_for("commands", |it| !it.updates_of("available_commands_update").is_empty())
            .await;
        let offered = &editor.updates_of("available_commands_update")[0]["availableCommands"];
        let names: Vec<&str> =
            offered.as_array().unwrap().iter().map(|it| it["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["compact", "init", "review", "greet"]);
        assert_eq!(offered[3]["description"], "says hello");
        editor.say(&session, "/greet the world").await.unwrap();
        editor.say(&session, "/init").await.unwrap();
        // A path is no command.
        editor.say(&session, "/etc is a folder").await.unwrap();
        let unknown = editor.say(&session, "/gret you").await.unwrap_err();
        assert!(unknown.message.contains("did you mean /greet?"), "{unknown:?}");
        editor.say(&session, "/compact the rest").await.unwrap();
        let with_link = vec![
            text_block("/greet"),
            ContentBlock::ResourceLink(ResourceLink::new("b", "https://example.com/b")),
        ];
        editor.prompt(&session, with_link).await.unwrap();
    });
    let has = |n: usize, text: &str| assert!(requests[n].contains(text), "{n}: {}", requests[n]);
    has(0, "Greet the world now.");
    has(1, "AGENTS.md");
    has(2, "/etc is a folder");
    assert!(requests.last().unwrap().contains("b (https://example.com/b)"));
    assert_eq!(json!(requests.len() >= 4), json!(true));
}
