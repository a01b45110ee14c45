//! Sub-agents: a kernel with a registry of its own for each Task call, within the limits of the configuration.

mod roles;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use tokio::sync::Semaphore;

pub(super) use roles::Roles;
use roles::{Kind, Role};

use super::{McpServers, OpenError, ToolChoice};
use crate::config::{self, Config};
use agent_engine::context::{Budget, Layers, Project, Rules};
use agent_engine::kernel::{
    CallIds, Checks, Kernel, Limits, Parts, Speaker, Speakers, SpendLimit, SubAgent,
};
use agent_engine::mcp::Servers;
use agent_engine::registry::{self, Registry};
use agent_engine::tools::{self, Tool, ToolCx};
use agent_protocol::control::{Control, Interrupt, Recovery};
use agent_protocol::delegate::{Delegate, Delegated, ModelChoice, Order, RoleFacts};
use agent_protocol::directives::UserInput;
use agent_protocol::event::{Events, TurnFinished};
use agent_protocol::prompt::Prompts;

/// Runs the sub-agents of a session.
pub(super) struct Agents {
    roles: Roles,
    /// What they have besides the fixed tools, like the session.
    skill: Option<tools::Skill>,
    servers: Option<Servers>,
    /// The tools that the user chose.
    choice: ToolChoice,
    limits: config::Agents,
    timeout: Duration,
    compact_at: f64,
    places: Semaphore,
    session: OnceLock<Session>,
}

/// What sub-agents share with the session, which is opened after its tools.
struct Session {
    registry: Arc<registry::Session>,
    cx: ToolCx,
    events: Events,
    control: Control,
    prompts: Arc<Prompts>,
    project: Arc<dyn Project>,
    /// The section *Place* of the system prompt.
    place: String,
    rules: Vec<Rules>,
    max_rules_bytes: usize,
    speakers: Speakers,
    fallback: Vec<Speaker>,
    call_ids: CallIds,
    spend_limit: SpendLimit,
    keep_rounds: usize,
    recovery: Recovery,
    /// Commands are confined, so that those of an agent that only reads can change nothing.
    is_sandboxed: bool,
}

impl Agents {
    /// The sub-agents of a session with these roles.
    pub(super) fn new(
        config: &Config,
        roles: Roles,
        skill: Option<tools::Skill>,
        mcp: &McpServers,
        choice: &ToolChoice,
    ) -> Result<Self, OpenError> {
        let limits = config.agents.clone();
        let timeout =
            agent_protocol::settings::parse_duration(&limits.timeout).map_err(OpenError::Usage)?;
        let places = Semaphore::new(limits.max_concurrent.min(Semaphore::MAX_PERMITS));
        let compact_at = config.context.compact_at;
        let (servers, session) = (mcp.servers.clone(), OnceLock::new());
        let choice = choice.clone();
        Ok(Self { roles, skill, servers, choice, limits, timeout, compact_at, places, session })
    }

    /// The tool that loads skills, if there are any.
    pub(super) fn skill_tool(&self) -> Option<Box<dyn Tool>> {
        self.skill.clone().map(|skill| Box::new(skill) as Box<dyn Tool>)
    }

    /// The session is open: these are the components of its kernel, the section *Place*, and the rules.
    pub(super) fn begin(&self, parts: &Parts, l2: (String, Vec<Rules>), is_sandboxed: bool) {
        let (place, rules) = l2;
        let session = Session {
            registry: parts.registry.session().clone(),
            cx: parts.registry.cx().clone(),
            events: parts.events.clone(),
            control: parts.control.clone(),
            prompts: parts.prompts.clone(),
            project: parts.project.clone(),
            place,
            rules,
            max_rules_bytes: parts.max_rules_bytes,
            speakers: parts.speakers.clone(),
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

    /// The tools of a sub-agent, which has no plan that is shown, asks no user and starts no sub-agents. Those of
    /// servers are as they are known now.
    fn tools_of(&self, role: &Role, session: &Session) -> Vec<Box<dyn Tool>> {
        let is_allowed = |name: &str| {
            // A command could change anything if nothing confines it.
            let is_confined = session.is_sandboxed || !role.reads_only() || name != "Bash";
            role.kind.has(name) && role.has(name) && is_confined
        };
        let mut tools = tools::all();
        tools.retain(|tool| is_allowed(&tool.spec().name));
        tools.extend(self.skill_tool().filter(|tool| role.has(&tool.spec().name)));
        self.choice.apply(&mut tools);
        let scope = self.choice.of_servers(role.scope());
        let of_servers = self.servers.iter().flat_map(|servers| servers.tools(scope.clone()));
        tools.extend(of_servers.filter(|tool| !role.lacks(&tool.spec().name)));
        tools
    }

    async fn work(&self, order: Order) -> Result<Delegated, String> {
        let Some(session) = self.session.get() else {
            return Err("not begun: there is no session with a model".to_owned());
        };
        let cancel = session.control.cancel();
        let place = cancel.run_until_cancelled(self.places.acquire()).await;
        let Some(Ok(_place)) = place.filter(|_| !cancel.is_cancelled()) else {
            return Err("not begun: the turn was interrupted".to_owned());
        };
        let role = self.roles.get(&order.role).ok_or("not begun: there is no such role")?;
        let control = session.control.of_agent();
        let mut kernel = self.kernel(session, role, &order, &control)?;
        // Another agent wrote it: its sentences are no directives of the user.
        let mut input = UserInput::default();
        input.push_pasted(&order.prompt);
        let finished = self.within_time(&mut kernel, &input, &control).await;
        kernel.end_background().await;
        Ok(Delegated { finished, calls: kernel.calls_made().clone() })
    }

    async fn within_time(
        &self,
        kernel: &mut Kernel,
        input: &UserInput,
        control: &Control,
    ) -> TurnFinished {
        let run = kernel.run(input);
        tokio::pin!(run);
        match tokio::time::timeout(self.timeout, &mut run).await {
            Ok(finished) => finished,
            Err(_) => {
                control.interrupt(Interrupt::Timeout);
                run.await
            }
        }
    }

    fn kernel(
        &self,
        session: &Session,
        role: &Role,
        order: &Order,
        control: &Control,
    ) -> Result<Kernel, String> {
        let (main, light) = session.speakers.current().ok_or("not begun: no model is in use")?;
        let speaker = match (order.model, &role.speaker) {
            (None, Some(speaker)) => speaker.clone(),
            (choice, _) => match choice.unwrap_or(role.model) {
                ModelChoice::Main => main,
                ModelChoice::Light => light.clone(),
            },
        };
        let (events, prompts) = (session.events.of_agent(&order.call), &session.prompts);
        let cx = ToolCx {
            workspace: Arc::new(session.cx.workspace.of_agent()),
            cancel: control.cancel(),
            takes_images: speaker.takes_images,
            ..session.cx.clone()
        };
        let reads_only = role.reads_only();
        let mut registry = Registry::of_agent(
            session.registry.clone(),
            self.tools_of(role, session),
            cx,
            events.clone(),
            control.clone(),
            reads_only,
        );
        registry.describe(prompts);
        let mut texts = vec![prompts.text(role.kind.prompt())];
        texts.extend(Some(role.text.as_str()).filter(|text| !text.is_empty()));
        texts.push(&session.place);
        let budget = Budget::new(speaker.model.id(), speaker.context_window, self.compact_at);
        let layers = Layers::of_agent(
            prompts,
            &texts,
            registry.specs(),
            &session.rules,
            session.max_rules_bytes,
        );
        Ok(Kernel::new(Parts {
            main: speaker,
            light,
            fallback: session.fallback.clone(),
            registry,
            expand: None,
            layers,
            project: session.project.clone(),
            max_rules_bytes: session.max_rules_bytes,
            checks: Checks { commands: Vec::new(), timeout: Duration::ZERO },
            verifier: None,
            answer_schema: None,
            control: control.clone(),
            limits: Limits { max_turns: self.limits.max_turns, max_budget_usd: None },
            budget,
            keep_rounds: session.keep_rounds,
            // The changes of a turn are undone together, when it ends.
            recovery: Recovery { undo_on_failure: false, ..session.recovery },
            memory: None,
            prompts: prompts.clone(),
            spend_limit: SpendLimit::default(),
            call_ids: session.call_ids.clone(),
            sub_agent: Some(SubAgent {
                role: role.name.clone(),
                description: order.description.clone(),
                turn: session.events.place().turn,
                max_tokens: self.limits.max_tokens,
                payer: session.spend_limit.clone(),
            }),
            speakers: Speakers::default(),
            events,
        }))
    }
}

impl Delegate for Agents {
    fn role(&self, name: &str) -> Result<RoleFacts, Vec<String>> {
        let role = self.roles.get(name).ok_or_else(|| self.roles.names())?;
        Ok(RoleFacts { name: role.name.clone(), reads_only: role.reads_only() })
    }

    fn roles(&self) -> &str {
        self.roles.described()
    }

    fn carry_out(&self, order: Order) -> BoxFuture<'_, Result<Delegated, String>> {
        self.work(order).boxed()
    }
}

impl Kind {
    fn has(self, tool: &str) -> bool {
        match self {
            Self::General => !["TodoWrite", "AskUser"].contains(&tool),
            Self::Explore | Self::Plan | Self::Summary => {
                ["LS", "Glob", "Grep", "Read", "Bash"].contains(&tool)
            }
        }
    }
}
