//! The access of a session's tools to the web.

use std::sync::Arc;

use futures_util::FutureExt as _;

use agent_engine::tools::WebAccess;
use agent_model::WebClient;
use agent_protocol::mask::Masker;
use agent_protocol::web::PageRequest;

/// Makes no client before the first request.
pub(super) fn open_access(masker: Arc<Masker>) -> Arc<WebAccess> {
    let client = Arc::new(WebClient::default());
    let load = move |request: PageRequest| {
        let client = Arc::clone(&client);
        async move { client.get(&request).await }.boxed()
    };
    Arc::new(WebAccess::new(Arc::new(load), masker))
}
