//! Embeds the files of `data/`, and the texts of tools in `prompts/`, at build time.
//! [`prompt`](super::prompt) embeds the prompts.

pub const PROVIDERS: &str = include_str!("../../../data/providers.toml");
pub const MODELS: &str = include_str!("../../../data/models.toml");
pub const COMMANDS: &str = include_str!("../../../data/commands.toml");
pub const SEARCH_SERVICES: &str = include_str!("../../../data/search.toml");
pub const DIRECTIVES: &str = include_str!("../../../data/directives.toml");

/// The description and the input schema of a tool.
#[derive(Clone, Copy, Debug)]
pub struct ToolText {
    pub description: &'static str,
    pub schema: &'static str,
}

macro_rules! tool_texts {
    ($($name:ident $path:literal),* $(,)?) => {
        $(
            #[doc = concat!("`prompts/", $path, "`")]
            pub const $name: ToolText = ToolText {
                description: include_str!(concat!("../../../prompts/", $path, ".md")),
                schema: include_str!(concat!("../../../prompts/", $path, ".json")),
            };
        )*
    };
}

tool_texts![
    ASK_USER "tools/ask_user",
    BASH "tools/bash",
    EDIT "tools/edit",
    GLOB "tools/glob",
    GREP "tools/grep",
    LS "tools/ls",
    MCP_TOOL "mcp/tool",
    MULTI_EDIT "tools/multi_edit",
    READ "tools/read",
    SKILL "tools/skill",
    TASK "tools/task",
    TODO_WRITE "tools/todo_write",
    WEB_FETCH "tools/web_fetch",
    WEB_SEARCH "tools/web_search",
    WRITE "tools/write",
];
