//! Sub-agents: a kernel with a registry of its own for each Task call, within the limits of the configuration.

mod roles;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use tokio::sync::Semaphore;

pub(super) use roles::Roles;
use roles::{Role, RoleKind};

use super::{McpServers, OpenError, Options, ToolChoice, parse_duration, web};
use crate::config;
use agent_engine::context::{ContextBudget, Layers, Project, RulesFile};
use agent_engine::kernel::{
    BackgroundRequester, CallIds, Checks, ConfiguredModel, Kernel, KernelParts, SessionModels,
    SpendLimit, SubAgent, TurnLimits,
};
use agent_engine::mcp::Servers;
use agent_engine::registry::{self, Registry};
use agent_engine::tools::{self, Tool, ToolCx};
use agent_protocol::control::{Interrupt, Recovery, SessionControl};
use agent_protocol::directives::UserInput;
use agent_protocol::envelope::{ErrorCode, Failure};
use agent_protocol::event::EventStream;
use agent_protocol::prompt::Prompts;
use agent_protocol::subagent::{
    ModelChoice, RoleFacts, SubagentResult, SubagentRunner, SubagentTask,
};
use agent_protocol::web::{SearchHit, SearchQuery};

pub(super) struct SessionAgents {
    roles: Roles,
    skill: Option<tools::SkillTool>,
    search: Option<tools::WebSearchTool>,
    servers: Option<Servers>,
    tool_choice: ToolChoice,
    limits: config::Agents,
    timeout: Duration,
    compact_at: f64,
    permits: Arc<Semaphore>,
    /// That of the session, which waits for its agents.
    inherited_permit: Semaphore,
    session: Arc<OnceLock<ParentSession>>,
}

/// What a sub-agent shares with the session, which is opened after its tools.
struct ParentSession {
    registry: Arc<registry::SharedState>,
    cx: ToolCx,
    events: EventStream,
    control: SessionControl,
    prompts: Arc<Prompts>,
    project: Arc<dyn Project>,
    place: String,
    rules: Vec<RulesFile>,
    max_rules_bytes: usize,
    session_models: SessionModels,
    fallback: Vec<ConfiguredModel>,
    call_ids: CallIds,
    spend_limit: SpendLimit,
    keep_rounds: usize,
    recovery: Recovery,
    /// Commands of an agent that only reads can change nothing.
    is_sandboxed: bool,
}

impl SessionAgents {
    pub(super) fn new(
        options: &Options,
        (roles, model_searches): (Roles, bool),
        skill: Option<tools::SkillTool>,
        mcp: &McpServers,
    ) -> Result<Self, OpenError> {
        let config = &options.config.config;
        let limits = config.agents.clone();
        let permits = limits.max_concurrent.min(Semaphore::MAX_PERMITS);
        let group = options.attempt_group.as_ref();
        let inherited_permit = Semaphore::new(usize::from(group.is_some()));
        let shared = group.map(|group| Arc::clone(&group.permits));
        let permits = shared.unwrap_or_else(|| Semaphore::new(permits).into());
        let session = Arc::new(OnceLock::<ParentSession>::new());
        let by_model = || {
            let session = Arc::clone(&session);
            let search = move |query| search_by_provider(Arc::clone(&session), query).boxed();
            model_searches.then(|| tools::WebSearchTool::new(Arc::new(search)))
        };
        Ok(Self {
            roles,
            skill,
            search: web::open_search(config)?.or_else(by_model),
            servers: mcp.servers.clone(),
            tool_choice: options.tools.clone(),
            timeout: parse_duration(&limits.timeout)?,
            compact_at: config.context.compact_at,
            permits,
            inherited_permit,
            limits,
            session,
        })
    }

    /// The tools that exist only with skills, or with a service or provider for searches.
    pub(super) fn further_tools(&self) -> impl Iterator<Item = Box<dyn Tool>> {
        let search = self.search.clone().map(|search| Box::new(search) as Box<dyn Tool>);
        search.into_iter().chain(self.skill.clone().map(|skill| Box::new(skill) as Box<dyn Tool>))
    }

    /// Called when the session is open. `place`: the section *Place*.
    pub(super) fn attach_session(
        &self,
        parts: &KernelParts,
        place: String,
        rules: Vec<RulesFile>,
        is_sandboxed: bool,
    ) {
        let session = ParentSession {
            registry: parts.registry.shared_state().clone(),
            cx: parts.registry.cx().clone(),
            events: parts.events.clone(),
            control: parts.control.clone(),
            prompts: parts.prompts.clone(),
            project: parts.project.clone(),
            place,
            rules,
            max_rules_bytes: parts.max_rules_bytes,
            session_models: parts.session_models.clone(),
            fallback: parts.fallback.clone(),
            call_ids: parts.call_ids.clone(),
            spend_limit: parts.spend_limit.clone(),
            keep_rounds: parts.keep_rounds,
            recovery: parts.recovery,
            is_sandboxed,
        };
        // Only one session is ever opened with it.
        _ = self.session.set(session);
    }

    /// A sub-agent has no plan that is shown, asks no user and starts no sub-agents. The tools of servers are the
    /// current ones.
    fn role_tools(&self, role: &Role, session: &ParentSession) -> Vec<Box<dyn Tool>> {
        let is_of_kind = |name: &str| match role.kind {
            RoleKind::General => !["TodoWrite", "AskUser"].contains(&name),
            _ => name.starts_with("Web") || ["LS", "Glob", "Grep", "Read", "Bash"].contains(&name),
        };
        let is_allowed = |name: &str| {
            // A command could change anything if nothing confines it.
            let is_confined = session.is_sandboxed || !role.reads_only() || name != "Bash";
            is_of_kind(name) && role.allows(name) && is_confined
        };
        let mut tools = tools::all_tools();
        tools.retain(|tool| is_allowed(&tool.spec().name));
        tools.extend(self.further_tools().filter(|tool| role.allows(&tool.spec().name)));
        self.tool_choice.apply(&mut tools);
        let scope = self.tool_choice.restrict_scope(role.server_scope());
        let of_servers = self.servers.iter().flat_map(|servers| servers.tools(scope.clone()));
        tools.extend(of_servers.filter(|tool| !role.denies(&tool.spec().name)));
        tools
    }

    async fn run_agent(&self, task: SubagentTask) -> Result<SubagentResult, String> {
        let Some(session) = self.session.get() else {
            return Err("not begun: there is no session with a model".to_owned());
        };
        let cancel = session.control.cancellation_token();
        let permit = async {
            tokio::select! {
                biased;
                permit = self.inherited_permit.acquire() => permit,
                permit = self.permits.acquire() => permit,
            }
        };
        let permit = cancel.run_until_cancelled(permit).await;
        let Some(Ok(_permit)) = permit.filter(|_| !cancel.is_cancelled()) else {
            return Err("not begun: the turn was interrupted".to_owned());
        };
        let role = self.roles.get(&task.role).ok_or("not begun: there is no such role")?;
        let control = session.control.for_subagent();
        let mut kernel = self.build_kernel(session, role, &task, &control)?;
        // Another agent wrote it: its sentences are no directives of the user.
        let mut input = UserInput::default();
        input.push_pasted(&task.prompt);
        let turn = {
            let run = kernel.run(&input);
            tokio::pin!(run);
            match tokio::time::timeout(self.timeout, &mut run).await {
                Ok(finished) => finished,
                Err(_) => {
                    control.interrupt(Interrupt::Timeout);
                    run.await
                }
            }
        };
        kernel.registry().end_background_commands().await;
        Ok(SubagentResult { turn, calls: kernel.calls_made().clone() })
    }

    fn build_kernel(
        &self,
        session: &ParentSession,
        role: &Role,
        task: &SubagentTask,
        control: &SessionControl,
    ) -> Result<Kernel, String> {
        let (main, light) =
            session.session_models.current().ok_or("not begun: no model is in use")?;
        let configured_model = match (task.model, &role.configured_model) {
            (None, Some(configured_model)) => configured_model.clone(),
            (choice, _) => match choice.unwrap_or(role.model) {
                ModelChoice::Main => main,
                ModelChoice::Light => light.clone(),
            },
        };
        let (events, prompts) = (session.events.for_subagent(&task.call), &session.prompts);
        let cx = ToolCx {
            workspace: Arc::new(session.cx.workspace.of_agent()),
            cancel: control.cancellation_token(),
            takes_images: configured_model.takes_images,
            ..session.cx.clone()
        };
        let mut registry = Registry::for_agent(
            session.registry.clone(),
            self.role_tools(role, session),
            cx,
            events.clone(),
            control.clone(),
            role.reads_only(),
        );
        registry.override_descriptions(prompts);
        let mut texts = vec![prompts.text(role.kind.prompt())];
        texts.extend(Some(role.text.as_str()).filter(|text| !text.is_empty()));
        texts.push(&session.place);
        let (model, window) = (configured_model.model.id(), configured_model.window);
        let budget = ContextBudget::new(model, window, self.compact_at);
        let (specs, max_rules_bytes) = (registry.specs(), session.max_rules_bytes);
        let layers = Layers::for_agent(prompts, &texts, specs, &session.rules, max_rules_bytes);
        Ok(Kernel::new(KernelParts {
            main: configured_model,
            light,
            fallback: session.fallback.clone(),
            registry,
            message_expander: None,
            layers,
            project: session.project.clone(),
            max_rules_bytes,
            checks: Checks { commands: Vec::new(), timeout: Duration::ZERO },
            verifier: None,
            answer_schema: None,
            control: control.clone(),
            limits: TurnLimits { max_turns: self.limits.max_turns, max_budget_usd: None },
            budget,
            keep_rounds: session.keep_rounds,
            // The changes of a turn are undone together, when it ends.
            recovery: session.recovery,
            memory: None,
            prompts: prompts.clone(),
            spend_limit: SpendLimit::default(),
            call_ids: session.call_ids.clone(),
            sub_agent: Some(SubAgent {
                role: role.name.clone(),
                description: task.description.clone(),
                turn: session.events.position().turn,
                max_tokens: self.limits.max_tokens,
                payer: session.spend_limit.clone(),
            }),
            session_models: SessionModels::default(),
            events,
        }))
    }
}

/// By the provider of the model in use.
async fn search_by_provider(
    session: Arc<OnceLock<ParentSession>>,
    query: SearchQuery,
) -> Result<Vec<SearchHit>, Failure> {
    let current = session.get().and_then(|it| Some((it, it.session_models.current()?.0)));
    let Some((session, main)) = current else {
        return Err(Failure::new(ErrorCode::ExecutionError, "no model is in use"));
    };
    let ParentSession { events, control, spend_limit, prompts, .. } = session;
    BackgroundRequester::new(main, events, control, spend_limit).search(prompts, &query).await
}

impl SubagentRunner for SessionAgents {
    fn find_role(&self, name: &str) -> Result<RoleFacts, Vec<String>> {
        let names = || self.roles.all.iter().map(|role| role.name.clone()).collect::<Vec<_>>();
        let role = self.roles.get(name).ok_or_else(names)?;
        Ok(RoleFacts { name: role.name.clone(), reads_only: role.reads_only() })
    }

    fn role_descriptions(&self) -> &str {
        &self.roles.descriptions
    }

    fn run_subagent(&self, task: SubagentTask) -> BoxFuture<'_, Result<SubagentResult, String>> {
        self.run_agent(task).boxed()
    }
}
