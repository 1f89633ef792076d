//! API tokens and their scopes.

use std::{collections::BTreeSet, fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::{
    ids::{ProjectId, TokenId},
    time::Timestamp,
};

macro_rules! scopes {
    ($($name:ident = $text:literal),* $(,)?) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        pub enum Scope {
            $(#[serde(rename = $text)] $name),*
        }

        impl Scope {
            pub const ALL: &[Scope] = &[$(Scope::$name),*];

            pub fn as_str(self) -> &'static str {
                match self {
                    $(Scope::$name => $text),*
                }
            }
        }
    };
}

scopes! {
    GraphRead = "graph:read",
    GraphWrite = "graph:write",
    AgentsRead = "agents:read",
    AgentsWrite = "agents:write",
    AgentsInvoke = "agents:invoke",
    ChatUse = "chat:use",
    ApprovalsDecide = "approvals:decide",
    AdminRead = "admin:read",
    AdminWrite = "admin:write",
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Scope {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.iter().copied().find(|scope| scope.as_str() == text).ok_or_else(|| {
            let all: Vec<_> = Self::ALL.iter().map(|scope| scope.as_str()).collect();
            format!("`{text}` is not a scope; the scopes are {}", all.join(", "))
        })
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Token {
    pub id: TokenId,
    /// `None` for a token that spans projects. Each request then names a project.
    pub project: Option<ProjectId>,
    pub name: String,
    pub scopes: BTreeSet<Scope>,
    pub created_at: Timestamp,
    pub expires_at: Option<Timestamp>,
    pub revoked_at: Option<Timestamp>,
}

impl Token {
    pub fn is_valid(&self, now: Timestamp) -> bool {
        self.revoked_at.is_none() && self.expires_at.is_none_or(|end| now < end)
    }
}
