//! Skill: loads the text of a skill.

use futures_util::future::BoxFuture;
use serde::Deserialize;

use super::{Target, Tool, ToolCx, parse, spec};
use agent_protocol::embedded;
use agent_protocol::envelope::{ErrorCode, Failure, Report};
use agent_protocol::own_command::Skill as Known;
use agent_protocol::tool::{Effect, ToolSpec};
use agent_protocol::{Object, nearest};

/// Loads the text of a skill.
#[derive(Clone)]
pub struct Skill {
    spec: ToolSpec,
    skills: Vec<Known>,
}

#[derive(Deserialize)]
struct Args {
    name: String,
    #[serde(default)]
    arguments: String,
}

impl Skill {
    /// The tool for these skills; `list` describes them to the model.
    pub fn new(skills: Vec<Known>, list: &str) -> Self {
        let mut spec = spec("Skill", embedded::SKILL);
        spec.description = format!("{}\n{list}", spec.description).into();
        Self { spec, skills }
    }

    fn named(&self, name: &str) -> Result<&Known, Failure> {
        let name = name.trim().trim_start_matches('/');
        let is_named = |skill: &&Known| skill.name == name || skill.command.name == name;
        self.skills.iter().find(is_named).ok_or_else(|| {
            let message = format!("there is no skill {name:?}");
            let names = || self.skills.iter().map(|skill| skill.name.as_str());
            let hint = match nearest(name, names()) {
                Some(known) => format!("did you mean {known}?"),
                None => format!("the skills are {}", names().collect::<Vec<_>>().join(", ")),
            };
            Failure::new(ErrorCode::InvalidParam, message).hint(hint)
        })
    }
}

impl Tool for Skill {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn target(&self, input: &Object, _: &ToolCx) -> Result<Target, Failure> {
        let Args { name, .. } = parse(input)?;
        Ok(Effect::Skill { name: self.named(&name)?.name.clone() }.into())
    }

    fn run<'a>(&'a self, input: Object, _: &'a ToolCx) -> BoxFuture<'a, Result<Report, Failure>> {
        Box::pin(async move {
            let Args { name, arguments } = parse(&input)?;
            let text = self.named(&name)?.command.filled(arguments.trim());
            Ok(Report { text, ..Report::default() })
        })
    }
}
