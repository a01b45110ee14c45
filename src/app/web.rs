//! The access of a session's tools to the web, and the service that searches it.

use std::sync::Arc;

use futures_util::FutureExt as _;

use super::{OpenError, variable};
use crate::config::Config;
use agent_engine::tools::{WebAccess, WebSearchTool};
use agent_model::{SearchService, WebClient};
use agent_protocol::mask::Masker;
use agent_protocol::web::{PageRequest, SearchQuery};

/// Makes no client before the first request.
pub(super) fn open_access(masker: Arc<Masker>) -> Arc<WebAccess> {
    let client = Arc::new(WebClient::default());
    let load = move |request: PageRequest| {
        let client = Arc::clone(&client);
        async move { client.get(&request).await }.boxed()
    };
    Arc::new(WebAccess::new(Arc::new(load), masker))
}

/// `None` unless a service is configured.
pub fn open_search(config: &Config) -> Result<Option<WebSearchTool>, OpenError> {
    let web = &config.web;
    let Some(name) = &web.search else { return Ok(None) };
    let (address, key) = (web.address.as_deref(), web.api_key_env.as_deref());
    let service = SearchService::new(name, address, key, variable).map_err(OpenError::Usage)?;
    config.restrictions.check_url(service.address())?;
    let service = Arc::new(service);
    let search = move |query: SearchQuery| {
        let service = Arc::clone(&service);
        async move { service.search(&query).await }.boxed()
    };
    Ok(Some(WebSearchTool::new(Arc::new(search))))
}
