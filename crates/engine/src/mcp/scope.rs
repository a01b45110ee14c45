//! Which tools of servers an agent has.

use agent_protocol::tool::sanitized;

/// The tools of servers that one agent may use.
#[derive(Clone, Debug, Default)]
pub struct Scope {
    /// Only these: `mcp__server__tool`, or `mcp__server` for all of a server; `None`: all.
    pub only: Option<Vec<String>>,
    /// None of these, named in the same way.
    pub without: Vec<String>,
    /// Only those that the server says only read.
    pub reads_only: bool,
}

impl Scope {
    /// It has this tool, which may have a name with a hash.
    pub(super) fn has(
        &self,
        server: &str,
        tool: &str,
        hashed: Option<&str>,
        reads_only: bool,
    ) -> bool {
        let is_it = |given: &String| is_tool(given, server, tool) || hashed == Some(given);
        (reads_only || !self.reads_only)
            && self.only.as_ref().is_none_or(|only| only.iter().any(is_it))
            && !self.without.iter().any(is_it)
    }

    /// It has all tools.
    pub(super) fn is_all(&self) -> bool {
        self.only.is_none() && self.without.is_empty() && !self.reads_only
    }

    /// It may have tools of this server, as far as their names decide it.
    pub(super) fn may_have(&self, server: &str) -> bool {
        let is_of = |given: &String| is_of_server(given, server);
        let is_whole = |given: &String| *given == server_name(server);
        self.only.as_ref().is_none_or(|only| only.iter().any(is_of))
            && !self.without.iter().any(is_whole)
    }
}

/// A name of a role means this tool.
pub(super) fn is_tool(given: &str, server: &str, tool: &str) -> bool {
    let rest = given.strip_prefix(&server_name(server));
    rest.is_some_and(|rest| match rest.strip_prefix("__") {
        Some(name) => name == "*" || name == sanitized(tool),
        None => rest.is_empty(),
    })
}

/// A name of a role means this server, or a tool that it may have.
pub(super) fn is_of_server(given: &str, server: &str) -> bool {
    let rest = given.strip_prefix(&server_name(server));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with("__"))
}

/// How the names of a server's tools and prompts begin.
pub(super) fn server_name(server: &str) -> String {
    format!("mcp__{}", sanitized(server))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_roles_mean_tools_or_whole_servers() {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let has = |only: &[&str], without: &[&str], tool: &str| {
            let (only, without) = (Some(names(only)), names(without));
            let scope = Scope { only, without, reads_only: false };
            scope.has("my git", tool, None, false)
        };
        assert!(has(&["mcp__my_git"], &[], "log"));
        assert!(has(&["mcp__my_git__*"], &[], "log"));
        assert!(has(&["mcp__my_git__log"], &[], "log"));
        assert!(!has(&["mcp__my_git__log"], &[], "commit"));
        assert!(!has(&["mcp__my_git"], &["mcp__my_git__commit"], "commit"));
        assert!(!has(&["mcp__my"], &[], "log"));
        assert!(!has(&[], &[], "log"));
        let reading = Scope { reads_only: true, ..Scope::default() };
        assert!(reading.has("s", "t", None, true) && !reading.has("s", "t", None, false));
        let names_one = Scope { without: names(&["mcp__s__t_1a2b3c"]), ..Scope::default() };
        assert!(!names_one.has("s", "t", Some("mcp__s__t_1a2b3c"), true));
        assert!(names_one.has("s", "t", None, true));
        let without = Scope { without: names(&["mcp__a", "mcp__b__c"]), ..Scope::default() };
        assert!(!without.may_have("a") && without.may_have("b") && without.may_have("c"));
    }
}
