//! Which tools of a project have the same name, for people who look at its servers.

use std::collections::HashSet;

use emergent_domain::tool_name::{self, external};

use crate::{
    BareNameOwner,
    remote::{NameConflict, RemoteTools},
};

/// The names that several tools of a project have.
pub struct NameConflicts {
    builtin: HashSet<String>,
    remote: RemoteTools,
}

/// A name that several tools have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedName {
    /// Whose tool the bare name means.
    pub owner: BareNameOwner,
    /// The other servers with a tool of this name.
    pub others: Vec<String>,
}

impl NameConflicts {
    pub(crate) fn new(builtin: HashSet<String>, remote: RemoteTools) -> Self {
        Self { builtin, remote }
    }

    /// The conflict of a tool with others, accepted or not; `None` if it has its name alone.
    pub fn find(&self, server: &str, announced: &str) -> Option<SharedName> {
        self.find_escaped(server, &external::escape(announced))
    }

    /// Like [`NameConflicts::find`], with the escaped name of the tool.
    pub fn find_escaped(&self, server: &str, name: &str) -> Option<SharedName> {
        if self.is_builtin(name) {
            return Some(SharedName { owner: BareNameOwner::Builtin, others: vec![server.to_owned()] });
        }
        let conflict = self.remote.conflicts.iter().find(|conflict| conflict.name == name);
        let (owner, mut others) = match conflict {
            Some(NameConflict { owner, others, .. }) => (owner, others.clone()),
            None => (self.remote.owners.get(name).filter(|owner| *owner != server)?, Vec::new()),
        };
        // A tool that is held back has no claim to its name, and its conflict is shown all the same.
        if owner != server && !others.iter().any(|other| other == server) {
            others.push(server.to_owned());
        }
        Some(SharedName { owner: BareNameOwner::Server(owner.clone()), others })
    }

    /// How many accepted tools of a server share their name with others.
    pub fn count(&self, server: &str) -> usize {
        let shared = self.remote.conflicts.iter().filter(|conflict| {
            conflict.owner == server || conflict.others.iter().any(|other| other == server)
        });
        let hides_builtin = |(name, owner): &(&String, &String)| *owner == server && self.is_builtin(name);
        shared.count() + self.remote.owners.iter().filter(hides_builtin).count()
    }

    fn is_builtin(&self, name: &str) -> bool {
        self.builtin.contains(tool_name::canonical(name))
    }
}
