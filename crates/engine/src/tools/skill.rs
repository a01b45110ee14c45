//! Skill: loads the text of a skill.

use futures_util::future::BoxFuture;
use serde::Deserialize;

use super::{CallTarget, Tool, ToolCx, embedded_spec, parse_input};
use agent_protocol::custom_command::Skill as Known;
use agent_protocol::embedded;
use agent_protocol::envelope::{ErrorCode, Failure, Report};
use agent_protocol::tool::{Effect, ToolSpec};
use agent_protocol::{Object, most_similar};

/// Loads the text of a skill.
#[derive(Clone)]
pub struct SkillTool {
    spec: ToolSpec,
    skills: Vec<Known>,
}

#[derive(Deserialize)]
struct Args {
    name: String,
    #[serde(default)]
    arguments: String,
}

impl SkillTool {
    /// The tool for these skills; `list` describes them to the model.
    pub fn new(skills: Vec<Known>, list: &str) -> Self {
        let mut spec = embedded_spec("Skill", embedded::SKILL);
        spec.description = format!("{}\n{list}", spec.description).into();
        Self { spec, skills }
    }

    fn find_skill(&self, name: &str) -> Result<&Known, Failure> {
        let name = name.trim().trim_start_matches('/');
        let is_named = |skill: &&Known| skill.name == name || skill.command.name == name;
        self.skills.iter().find(is_named).ok_or_else(|| {
            let message = format!("there is no skill {name:?}");
            let names = || self.skills.iter().map(|skill| skill.name.as_str());
            let hint = match most_similar(name, names()) {
                Some(known) => format!("did you mean {known}?"),
                None => format!("the skills are {}", names().collect::<Vec<_>>().join(", ")),
            };
            Failure::new(ErrorCode::InvalidParam, message).with_hint(hint)
        })
    }
}

impl Tool for SkillTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn target(&self, input: &Object, _: &ToolCx) -> Result<CallTarget, Failure> {
        let Args { name, .. } = parse_input(input)?;
        Ok(Effect::Skill { name: self.find_skill(&name)?.name.clone() }.into())
    }

    fn run<'a>(&'a self, input: Object, _: &'a ToolCx) -> BoxFuture<'a, Result<Report, Failure>> {
        Box::pin(async move {
            let Args { name, arguments } = parse_input(&input)?;
            let text = self.find_skill(&name)?.command.expand(arguments.trim());
            Ok(Report { text, ..Report::default() })
        })
    }
}
