//! Names under which the model calls the tools of servers: `mcp__server__tool`, accepted by every provider.

use std::collections::{HashMap, HashSet};

use agent_protocol::tool::mcp_tool_name;

const MAX_BYTES: usize = 64;
const HASH_BYTES: usize = 6;

#[derive(Debug, Default)]
pub(super) struct ToolNames {
    used: HashSet<String>,
    /// Names with a hash by server and tool.
    hashed: HashMap<(String, String), String>,
}

impl ToolNames {
    /// A hash makes the name unique if it was cut, or if another tool has the same letters.
    pub(super) fn assign_name(&mut self, server: &str, tool: &str) -> String {
        let plain = mcp_tool_name(server, tool);
        let mut name = plain.clone();
        let mut n = 0;
        while name.len() > MAX_BYTES || !self.used.insert(name.clone()) {
            let hash = blake3::hash(format!("{server}\0{tool}\0{n}").as_bytes()).to_hex();
            // All of it is ASCII.
            let cut = &plain[..plain.len().min(MAX_BYTES - HASH_BYTES - 1)];
            name = format!("{cut}_{}", &hash[..HASH_BYTES]);
            n += 1;
        }
        if name != plain {
            self.hashed.insert((server.to_owned(), tool.to_owned()), name.clone());
        }
        name
    }

    /// `None` unless the tool's own name is too long or in use.
    pub(super) fn hashed_name(&self, server: &str, tool: &str) -> Option<&str> {
        if self.hashed.is_empty() {
            return None;
        }
        self.hashed.get(&(server.to_owned(), tool.to_owned())).map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_valid_and_bounded() {
        let mut names = ToolNames::default();
        assert_eq!(names.assign_name("git", "log"), "mcp__git__log");
        assert_eq!(names.assign_name("my server", "get.it"), "mcp__my_server__get_it");
        let other = names.assign_name("my.server", "get it");
        assert!(other.starts_with("mcp__my_server__get_it_") && other.len() < 64, "{other}");
        assert_eq!(names.hashed_name("my.server", "get it"), Some(other.as_str()));
        assert_eq!(names.hashed_name("my server", "get.it"), None);
        let long = "x".repeat(200);
        let cut: Vec<String> =
            (0..3).map(|n| names.assign_name("s", &format!("{long}{n}"))).collect();
        assert!(cut.iter().all(|name| name.len() == 64), "{cut:?}");
        assert!(cut[0] != cut[1] && cut[1] != cut[2], "{cut:?}");
        // The same letters are shown for other scripts, too.
        assert_ne!(names.assign_name("地", "图"), names.assign_name("天", "气"));
    }
}
