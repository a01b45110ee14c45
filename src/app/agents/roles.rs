//! The roles of sub-agents in a session: the built-in ones and those in files.

use std::collections::HashSet;
use std::iter;
use std::path::PathBuf;

use super::super::models::{budget_notice, open_model};
use super::super::project::enclosing_directories;
use super::super::{HostPrograms, McpServers, Options};
use crate::config::{Config, is_file_model};
use crate::extend::roles::{self, RoleDefinition as File};
use agent_engine::kernel::ConfiguredModel;
use agent_engine::mcp::{self, ToolScope};
use agent_engine::tools;
use agent_protocol::control::SessionControl;
use agent_protocol::hook::claude_names::native_tool_name;
use agent_protocol::prompt::Prompt;
use agent_protocol::subagent::ModelChoice;
use agent_protocol::web::WEB_SEARCH;
use agent_protocol::{pluralize, shorten};

/// Limits in the description of Task: bytes of one role, and of all.
const ROLE_BYTES: usize = 200;
const ROLES_BYTES: usize = 1200;

/// Tools that no sub-agent has, and parts of Bash: a role that lists them gets the others.
const NOT_FOR_AGENTS: &[&str] =
    &["AskUser", "BashKill", "BashOutput", "ExitPlanMode", "TodoRead", "TodoWrite"];

/// The kind decides about the tools and the prompt of a role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RoleKind {
    General,
    Explore,
    Plan,
    Summary,
}

impl RoleKind {
    const ALL: [Self; 4] = [Self::General, Self::Explore, Self::Plan, Self::Summary];

    fn name(self) -> &'static str {
        match self {
            Self::General => "general",
            Self::Explore => "explore",
            Self::Plan => "plan",
            Self::Summary => "summary",
        }
    }

    pub(super) fn prompt(self) -> Prompt {
        match self {
            Self::General => const { Prompt::named("agents/general.md") },
            Self::Explore => const { Prompt::named("agents/explore.md") },
            Self::Plan => const { Prompt::named("agents/plan.md") },
            Self::Summary => const { Prompt::named("agents/summary.md") },
        }
    }
}

pub(super) struct Role {
    pub(super) name: String,
    pub(super) kind: RoleKind,
    /// `None`: all of the kind.
    tools: Option<Vec<String>>,
    denied_tools: Vec<String>,
    pub(super) model: ModelChoice,
    pub(super) configured_model: Option<ConfiguredModel>,
    /// Added to the prompt of the kind.
    pub(super) text: String,
    description: String,
}

impl Role {
    fn built_in(kind: RoleKind) -> Self {
        Self {
            name: kind.name().to_owned(),
            kind,
            tools: None,
            denied_tools: Vec::new(),
            model: ModelChoice::Main,
            configured_model: None,
            text: String::new(),
            description: String::new(),
        }
    }

    pub(super) fn allows(&self, tool: &str) -> bool {
        self.tools.as_ref().is_none_or(|names| names.iter().any(|name| name == tool))
            && !self.denies(tool)
    }

    pub(super) fn denies(&self, tool: &str) -> bool {
        self.denied_tools.iter().any(|name| name == tool)
    }

    /// What a tool of a server that the role's list names does is unknown.
    pub(super) fn reads_only(&self) -> bool {
        let changes = ["Write", "Edit", "MultiEdit", "Bash"];
        let is_of_server = |name: &String| name == mcp::MCP_TOOL_NAME || name.starts_with("mcp__");
        let names_servers = || self.tools.iter().flatten().any(is_of_server);
        self.kind != RoleKind::General
            || !changes.iter().any(|tool| self.allows(tool)) && !names_servers()
    }

    pub(super) fn server_scope(&self) -> ToolScope {
        // `McpTool` calls any of them.
        let all = |names: &&Vec<String>| !names.iter().any(|name| name == mcp::MCP_TOOL_NAME);
        let only = self.tools.as_ref().filter(all).cloned();
        ToolScope { only, excluded: self.denied_tools.clone(), reads_only: self.reads_only() }
    }
}

pub(in crate::app) struct Roles {
    pub(super) all: Vec<Role>,
    pub(super) descriptions: String,
    pub(in crate::app) notices: Vec<String>,
    pub(in crate::app) keys: Vec<String>,
}

impl Roles {
    /// The built-in roles, and those in the folders of the project and the user. Those of the project, which are
    /// instructions like its rules files, need no trust.
    pub(in crate::app) async fn open(
        options: &Options,
        config: &Config,
        mcp: &McpServers,
        programs: &HostPrograms,
        control: &SessionControl,
    ) -> Self {
        let built_in = |name: &str| role_kind(name).is_some();
        let (mut files, mut notices) = roles::load_roles(&role_folders(options), built_in);
        for role in &options.roles {
            if built_in(&role.name) {
                let (path, name) = (role.path.display(), &role.name);
                notices.push(format!("{path}: the role {name} is built in; give it another name"));
                continue;
            }
            files.retain(|file| file.name != role.name);
            files.push(role.clone());
        }
        let all = RoleKind::ALL.into_iter().map(Role::built_in).collect();
        let mut opened = Self { all, descriptions: String::new(), notices, keys: Vec::new() };
        for file in files {
            let role = opened.build_role(file, options, config, mcp, programs, control).await;
            opened.all.push(role);
        }
        opened.write_descriptions();
        opened
    }

    async fn build_role(
        &mut self,
        file: File,
        options: &Options,
        config: &Config,
        mcp: &McpServers,
        programs: &HostPrograms,
        control: &SessionControl,
    ) -> Role {
        let File { name, description, tools, denied_tools, model, text, path: _ } = file;
        let mut unknown = Vec::new();
        let tools = tools.map(|tools| known_tool_names(tools, mcp, &mut unknown));
        if !unknown.is_empty() {
            let unknown = unknown.join(", ");
            self.notices.push(format!(
                "the role {name} is without {unknown}: sub-agents have no tools of these names"
            ));
        }
        let mut role = Role {
            tools,
            // An unknown name may be that of a tool which a server adds later.
            denied_tools: denied_tools.iter().map(|tool| native_tool_name(tool).into()).collect(),
            text,
            description,
            name,
            ..Role::built_in(RoleKind::General)
        };
        let Some(model) = model else { return role };
        if let Ok(choice) = serde_json::from_value(model.trim().to_lowercase().into()) {
            role.model = choice;
            return role;
        }
        match open_role_model(&model, options, config, programs, control).await {
            Ok((configured_model, key)) => {
                let notice = budget_notice(config, &configured_model);
                let notice = notice.filter(|notice| !self.notices.contains(notice));
                self.notices.extend(notice);
                role.configured_model = Some(configured_model);
                self.keys.extend(key);
            }
            Err(why) => self.notices.push(format!(
                "the role {} uses the session's model, not {model}: {why}",
                role.name
            )),
        }
        role
    }

    /// Also finds a role by the name of another agent's built-in role.
    pub(super) fn get(&self, name: &str) -> Option<&Role> {
        let named = self.all.iter().find(|role| role.name == name);
        named.or_else(|| {
            let kind = role_kind(name)?;
            self.all.iter().find(|role| role.name == kind.name())
        })
    }

    fn write_descriptions(&mut self) {
        let (mut lines, mut names) = (Vec::new(), Vec::new());
        let mut room = ROLES_BYTES;
        for Role { name, description, .. } in self.all.iter().skip(RoleKind::ALL.len()) {
            let line = format!("`{name}`: {}", shorten(description, ROLE_BYTES));
            if line.len() <= room && names.is_empty() {
                room -= line.len();
                lines.push(line);
            } else {
                names.push(format!("`{name}`"));
            }
        }
        if !names.is_empty() {
            self.notices.push(format!(
                "the model receives only the names of {}, whose descriptions are too long together: {}",
                pluralize(names.len() as u64, "role"),
                shorten(&names.join(", "), 200)
            ));
            lines.push(shorten(&format!("Also {}", names.join(", ")), ROLES_BYTES));
        }
        self.descriptions = lines.join("\n");
    }
}

fn role_kind(name: &str) -> Option<RoleKind> {
    let name = name.to_lowercase();
    let name = if name == "general-purpose" { "general" } else { name.as_str() };
    RoleKind::ALL.into_iter().find(|kind| kind.name() == name)
}

/// In order of precedence: those of the project, of the directories around it that belong to its repository, and
/// of the user. A folder that leads out of its place is ignored.
fn role_folders(options: &Options) -> Vec<PathBuf> {
    let mut folders = Vec::new();
    for place in iter::once(options.root.as_path()).chain(enclosing_directories(&options.root)) {
        let of_place = [".agent/agents", ".claude/agents"].map(|folder| place.join(folder));
        let is_inside =
            |folder: &PathBuf| folder.canonicalize().is_ok_and(|real| real.starts_with(place));
        folders.extend(of_place.into_iter().filter(is_inside));
    }
    folders.extend(options.dirs.as_ref().map(|dirs| dirs.config.join("agents")));
    folders.extend(std::env::home_dir().map(|home| home.join(".claude/agents")));
    // The home may be the project.
    let mut added = HashSet::new();
    folders.retain(|folder| added.insert(folder.clone()));
    folders
}

fn known_tool_names(
    names: Vec<String>,
    mcp: &McpServers,
    unknown: &mut Vec<String>,
) -> Vec<String> {
    let is_known = |name: &str| {
        matches!(name, "Skill" | WEB_SEARCH)
            || tools::TOOL_NAMES.contains(&name)
            || mcp.servers.as_ref().is_some_and(|servers| servers.is_known_name(name))
    };
    let mut own = Vec::new();
    for name in names {
        let ours = native_tool_name(&name);
        if NOT_FOR_AGENTS.contains(&ours) {
        } else if is_known(ours) {
            own.push(ours.to_owned());
        } else {
            unknown.push(name);
        }
    }
    own
}

/// `provider/model` of a role, and its key; the error says why it cannot be used.
async fn open_role_model(
    model: &str,
    options: &Options,
    config: &Config,
    programs: &HostPrograms,
    control: &SessionControl,
) -> Result<(ConfiguredModel, Option<String>), String> {
    // A script or a record is not a model: it would execute what the file's author wrote into it.
    if !model.contains('/') || is_file_model(model) {
        return Err("it is no name like provider/model".to_owned());
    }
    let config = Config { model: model.to_owned(), ..config.clone() };
    let opened = open_model(&config, &options.config.prompts, programs, control);
    let opened = opened.await.map_err(|error| error.to_string())?;
    let key = opened.key();
    Ok((opened.configured_model, key))
}
