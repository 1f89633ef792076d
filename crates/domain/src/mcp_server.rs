//! External MCP servers: their description in a manifest or request, its validation, and the stored
//! row. A description contains references to secrets, never their values.

mod checks;
mod programs;
mod spec;

use serde::{Deserialize, Serialize};

use crate::{
    agent::string_enum,
    ids::{McpServerId, ProjectId},
    time::Timestamp,
};

pub use checks::has_secret_reference;
pub use programs::{ConfiguredBy, ProgramPatterns};
pub use spec::ServerSpec;

pub const DEFAULT_TIMEOUT: i64 = 60;
pub const MAX_TIMEOUT_SECONDS: i64 = 3_600;

string_enum! {
    TransportKind {
        Stdio = "stdio",
        Sse = "sse",
        Http = "http",
        A2a = "a2a",
    }
}

string_enum! {
    /// How a changed definition of a previously seen tool is handled.
    #[derive(Default)]
    PinPolicy {
        /// The tool is held back until somebody accepts the change.
        #[default]
        Pin = "pin",
        /// The new definition is used, and the change is reported.
        Warn = "warn",
        /// The new definition is used without a report.
        Off = "off",
    }
}

string_enum! {
    ToolStatus {
        /// The tool is as it was accepted.
        Live = "live",
        /// The server announced the tool after its first listing, and nobody accepted it yet. It is held back.
        New = "new",
        /// The definition differs from the accepted one. Under `pin` the tool is held back.
        Changed = "changed",
        /// The server no longer lists the tool.
        Gone = "gone",
    }
}

/// An MCP server of a project.
#[derive(Debug, Clone, PartialEq)]
pub struct McpServer {
    pub id: McpServerId,
    pub project: ProjectId,
    /// The product that installed the server. `None` if the project added it itself.
    pub product: Option<String>,
    pub spec: ServerSpec,
    /// Who configured what the server is, or enabled it. A program is checked against this when it
    /// starts.
    pub configured_by: ConfiguredBy,
    /// The version whose secrets are sent without a binding, because it was configured before
    /// bindings were recorded, and no operator confirmed it since.
    pub unbound_version: Option<i64>,
    /// The version for which a binding to the origin of its address counts, because it was configured
    /// before bindings had a path.
    pub origin_bound_version: Option<i64>,
    /// The version for which a binding to its address alone counts, because it was configured before bindings
    /// had headers.
    pub address_bound_version: Option<i64>,
    /// Glob patterns that select which tools of the server the project can use.
    pub tool_filter: Vec<String>,
    pub pin_policy: PinPolicy,
    /// Whether new tools of the server are accepted as they come.
    pub trust: bool,
    pub timeout_seconds: i64,
    pub enabled: bool,
    /// Incremented when the description of the server changes. A connection belongs to one version,
    /// so a change forces a new connection.
    pub version: i64,
    /// When the tools were last listed. `None` if the server was never reached.
    pub listed_at: Option<Timestamp>,
    /// When all tools of a listing were accepted, because whoever added the server consented to them.
    /// `None` before the first listing: the next one is accepted. A change of the program or the address
    /// does not clear it: the tools that come with it are held back.
    pub tools_accepted_at: Option<Timestamp>,
    /// Why the last contact failed. `None` if it succeeded, or there was none.
    pub last_error: Option<String>,
    pub last_error_at: Option<Timestamp>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

impl McpServer {
    /// A new server with the default settings, enabled and with all of its tools.
    pub fn new(project: ProjectId, spec: ServerSpec, configured_by: ConfiguredBy, now: Timestamp) -> Self {
        Self {
            id: McpServerId::new(),
            project,
            product: None,
            spec,
            configured_by,
            unbound_version: None,
            origin_bound_version: None,
            address_bound_version: None,
            tool_filter: vec!["*".to_owned()],
            pin_policy: PinPolicy::default(),
            trust: false,
            timeout_seconds: DEFAULT_TIMEOUT,
            enabled: true,
            version: 1,
            listed_at: None,
            tools_accepted_at: None,
            last_error: None,
            last_error_at: None,
            created_at: now,
            updated_at: now,
        }
    }

    pub fn name(&self) -> &str {
        self.spec.name()
    }

    /// Whether the server was configured before the bindings of secrets were recorded, and has not
    /// changed since.
    pub fn predates_bindings(&self) -> bool {
        self.unbound_version == Some(self.version)
    }

    /// Whether the server was configured before the paths of bindings were recorded, and has not changed
    /// since.
    pub fn predates_paths(&self) -> bool {
        self.origin_bound_version == Some(self.version)
    }

    /// Whether the server was configured before the headers of bindings were recorded, and has not changed
    /// since.
    pub fn predates_headers(&self) -> bool {
        self.address_bound_version == Some(self.version)
    }

    /// Whether the server has the rights of one that an operator configured only because it was configured
    /// before that was recorded: its program is started, and its secrets are sent. An operator should
    /// confirm it.
    pub fn needs_confirmation(&self) -> bool {
        self.predates_bindings() && self.configured_by == ConfiguredBy::Operator
    }
}

/// A secret, and where a server sends it: an address with the headers of its requests (`https://example.com/mcp
/// authorization: "Bearer ${TOKEN}"`), or a program as [`ServerSpec::program_line`] shows it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SecretUse {
    pub name: String,
    pub target: String,
}
