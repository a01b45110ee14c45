//! Which tools of servers an agent has.

use agent_protocol::tool::sanitize_name;

/// The tools of servers that one agent may use.
#[derive(Clone, Debug, Default)]
pub struct ToolScope {
    /// `mcp__server__tool`, or `mcp__server` for all of a server; `None`: all.
    pub only: Option<Vec<String>>,
    /// Named like those in `only`.
    pub excluded: Vec<String>,
    /// Only tools that only read, according to their servers.
    pub reads_only: bool,
}

impl ToolScope {
    /// The tool may have a name with a hash.
    pub(super) fn allows(
        &self,
        server: &str,
        tool: &str,
        hashed: Option<&str>,
        reads_only: bool,
    ) -> bool {
        let is_named = |given: &String| names_tool(given, server, tool) || hashed == Some(given);
        (reads_only || !self.reads_only)
            && self.only.as_ref().is_none_or(|only| only.iter().any(is_named))
            && !self.excluded.iter().any(is_named)
    }

    pub(super) fn allows_all(&self) -> bool {
        self.only.is_none() && self.excluded.is_empty() && !self.reads_only
    }

    /// True unless the names in the scope exclude the server.
    pub(super) fn may_allow_server(&self, server: &str) -> bool {
        let is_of = |given: &String| names_server(given, server);
        let is_whole = |given: &String| *given == server_prefix(server);
        self.only.as_ref().is_none_or(|only| only.iter().any(is_of))
            && !self.excluded.iter().any(is_whole)
    }
}

/// `given`: in the list of a role.
pub(super) fn names_tool(given: &str, server: &str, tool: &str) -> bool {
    let rest = given.strip_prefix(&server_prefix(server));
    rest.is_some_and(|rest| match rest.strip_prefix("__") {
        Some(name) => name == "*" || name == sanitize_name(tool),
        None => rest.is_empty(),
    })
}

/// The name in the list of a role is this server, or a tool that it may have.
pub(super) fn names_server(given: &str, server: &str) -> bool {
    let rest = given.strip_prefix(&server_prefix(server));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with("__"))
}

pub(super) fn server_prefix(server: &str) -> String {
    format!("mcp__{}", sanitize_name(server))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_roles_mean_tools_or_whole_servers() {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let has = |only: &[&str], without: &[&str], tool: &str| {
            let (only, without) = (Some(names(only)), names(without));
            let scope = ToolScope { only, excluded: without, reads_only: false };
            scope.allows("my git", tool, None, false)
        };
        assert!(has(&["mcp__my_git"], &[], "log"));
        assert!(has(&["mcp__my_git__*"], &[], "log"));
        assert!(has(&["mcp__my_git__log"], &[], "log"));
        assert!(!has(&["mcp__my_git__log"], &[], "commit"));
        assert!(!has(&["mcp__my_git"], &["mcp__my_git__commit"], "commit"));
        assert!(!has(&["mcp__my"], &[], "log"));
        assert!(!has(&[], &[], "log"));
        let reading = ToolScope { reads_only: true, ..ToolScope::default() };
        assert!(reading.allows("s", "t", None, true) && !reading.allows("s", "t", None, false));
        let names_one =
            ToolScope { excluded: names(&["mcp__s__t_1a2b3c"]), ..ToolScope::default() };
        assert!(!names_one.allows("s", "t", Some("mcp__s__t_1a2b3c"), true));
        assert!(names_one.allows("s", "t", None, true));
        let without =
            ToolScope { excluded: names(&["mcp__a", "mcp__b__c"]), ..ToolScope::default() };
        assert!(
            !without.may_allow_server("a")
                && without.may_allow_server("b")
                && without.may_allow_server("c")
        );
    }
}
