//! Where the token of a command comes from, and what to do about one that a server refuses.

use std::path::{Path, PathBuf};

use crate::{config::env_value, datadir::ADMIN_TOKEN_FILE};

/// The variable with the admin token of a server.
const ADMIN_TOKEN: &str = "EMERGENT_ADMIN_TOKEN";

/// Where a token comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TokenSource {
    /// A flag, or the variable that stands for it; with what else there is.
    Given { name: &'static str, other: &'static str },
    /// The variable with the admin token.
    AdminVariable,
    /// The file with the admin token of a data folder.
    AdminFile(PathBuf),
    /// The command made it for itself.
    Own,
}

impl TokenSource {
    /// The source of a token of `--token`, which also has the value of `EMERGENT_TOKEN`. `other` says what else there is.
    pub fn from_flag(token: &str, other: &'static str) -> Self {
        let is_in_environment = env_value("EMERGENT_TOKEN").as_deref() == Some(token);
        Self::Given { name: if is_in_environment { "EMERGENT_TOKEN" } else { "--token" }, other }
    }

    /// The source of the admin token of a data folder.
    pub fn from_data_dir(folder: &Path) -> Self {
        match env_value(ADMIN_TOKEN) {
            Some(_) => Self::AdminVariable,
            None => Self::AdminFile(folder.join(ADMIN_TOKEN_FILE)),
        }
    }

    /// Its name in messages; `None` for a token that the command made for itself.
    pub fn name(&self) -> Option<String> {
        match self {
            Self::Given { name, .. } => Some((*name).to_owned()),
            Self::AdminVariable => Some(ADMIN_TOKEN.to_owned()),
            Self::AdminFile(path) => Some(format!("`{}`", path.display())),
            Self::Own => None,
        }
    }

    /// What to do if the server does not accept the token; empty for a token that the command made for itself.
    pub fn way_out(&self) -> String {
        match self {
            Self::Given { other, .. } => (*other).to_owned(),
            Self::AdminVariable => format!(
                "if the server has another one, set it here; for a new one stop the server, set {ADMIN_TOKEN} to another \
                 value, and start it again"
            ),
            Self::AdminFile(_) => format!(
                "if the server was started with {ADMIN_TOKEN}, set it here as well; for a new one stop the server, \
                 delete this file, and start it again"
            ),
            Self::Own => String::new(),
        }
    }

    /// What an operator does who has revoked the token, in a sentence.
    pub fn renewal(&self) -> String {
        let change = match self {
            Self::AdminVariable => format!("set {ADMIN_TOKEN} to another value"),
            Self::AdminFile(path) => format!("delete `{}`", path.display()),
            Self::Given { name, .. } => {
                return format!("Commands with the token of {name} are refused then, and need another one.");
            }
            Self::Own => return String::new(),
        };
        format!(
            "A running server then refuses the commands on this data folder. For a new admin token stop the server, \
             {change}, and start it again."
        )
    }

    /// What is added to the message of a server that refuses the token.
    pub fn note(&self) -> Option<String> {
        Some(format!("it is the one of {}: {}", self.name()?, self.way_out()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_token_is_named_by_its_source_with_what_to_do() {
        let file = TokenSource::AdminFile(PathBuf::from("data/admin-token"));
        let note = file.note().unwrap();
        assert!(
            note.starts_with("it is the one of `data/admin-token`: if the server was started with"),
            "{note}"
        );
        assert!(
            note.ends_with("for a new one stop the server, delete this file, and start it again"),
            "{note}"
        );
        assert!(file.renewal().contains("stop the server, delete `data/admin-token`, and start it again"));
        let given = TokenSource::from_flag("emt_x", "give another one");
        assert_eq!(given.note().unwrap(), "it is the one of --token: give another one");
        assert!(given.renewal().starts_with("Commands with the token of --token are refused then"));
        assert_eq!(TokenSource::Own.note(), None);
    }
}
