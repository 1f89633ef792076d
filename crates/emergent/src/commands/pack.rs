//! `emergent pack`: adds, lists, shows, assigns and deletes template packs.

use std::path::PathBuf;

use emergent_wire::pack::PackView;
use serde_json::{Value, json};

use super::{
    encode,
    resolve::{PACKS, resolve_id},
};
use crate::{
    client::{Client, DataAccess, Received},
    error::{Error, Result},
    output::{self, bold},
    text::is_id,
};

const PATH: &str = "/api/template-packs";

#[derive(Debug, clap::Subcommand)]
pub enum Pack {
    /// List the template packs that the project can use, newest first
    List,
    /// Show one template pack, with its types
    Show {
        /// NAME, NAME@VERSION, an id, or the end of an id
        pack: String,
    },
    /// Store a template pack: a JSON file with name, version and the schemas of its types
    Add {
        /// The file; `-` is standard input
        file: PathBuf,
        /// Also validate the project's writes against it
        #[arg(long)]
        assign: bool,
    },
    /// Validate the project's writes against a template pack from now on
    Assign {
        /// NAME, NAME@VERSION, an id, or the end of an id
        pack: String,
    },
    /// Stop validating the project's writes against a template pack
    Unassign {
        /// NAME, NAME@VERSION, an id, or the end of an id
        pack: String,
    },
    /// Delete a template pack that is not assigned
    Delete {
        /// NAME, NAME@VERSION, an id, or the end of an id
        pack: String,
    },
}

impl Pack {
    /// Whether the command may create the data folder.
    pub fn data_access(&self) -> DataAccess {
        match self {
            Pack::Add { .. } => DataAccess::Create,
            _ => DataAccess::Existing,
        }
    }

    pub async fn run(self, client: &Client, as_json: bool) -> Result<()> {
        match self {
            Pack::List => {
                let packs: Vec<Received<PackView>> = client.get_all_pages(PATH).await?;
                if as_json { output::print_json(&packs) } else { print_packs(&packs) }
            }
            Pack::Show { pack } => {
                let path = pack_path(client, &pack).await?;
                let pack: Received<PackView> = client.get(&path).await?.data().await?;
                if as_json { output::print_json(&pack) } else { print_pack(&pack) }
            }
            Pack::Add { file, assign } => {
                let pack: Value = super::read_json_file(&file)?;
                let added: Received<PackView> = client.post(PATH, &pack).await?.data().await?;
                if assign {
                    client.post(&format!("{PATH}/{}/assign", added.id), &json!({})).await?;
                }
                if as_json {
                    return output::print_json(&added);
                }
                let assigned = if assign { " and assigned" } else { "" };
                output::print_line(&format!("{}@{} is added{assigned}", added.name, added.version))
            }
            Pack::Assign { pack } => {
                let path = pack_path(client, &pack).await?;
                client.post(&format!("{path}/assign"), &json!({})).await?;
                print_changed(&pack, "assigned", as_json)
            }
            Pack::Unassign { pack } => {
                let path = pack_path(client, &pack).await?;
                client.delete(&format!("{path}/assign")).await?;
                print_changed(&pack, "not assigned any more", as_json)
            }
            Pack::Delete { pack } => {
                let path = pack_path(client, &pack).await?;
                client.delete(&path).await?;
                print_changed(&pack, "deleted", as_json)
            }
        }
    }
}

/// The API path of the pack that a person names.
async fn pack_path(client: &Client, reference: &str) -> Result<String> {
    let Some((name, version)) = reference.split_once('@').filter(|_| !is_id(reference)) else {
        let id = resolve_id(client, &PACKS, reference).await?;
        return Ok(format!("{PATH}/{}", encode(&id)));
    };
    let packs: Vec<PackView> = client.get_all_pages(PATH).await?;
    match packs.iter().find(|pack| pack.name == name && pack.version == version) {
        Some(pack) => Ok(format!("{PATH}/{}", pack.id)),
        None => {
            let versions: Vec<&str> =
                packs.iter().filter(|pack| pack.name == name).map(|pack| pack.version.as_str()).collect();
            Err(Error::Usage(match versions.is_empty() {
                true => format!("there is no template pack `{name}`"),
                false => format!("`{name}` has no version `{version}`; it has {}", versions.join(", ")),
            }))
        }
    }
}

fn print_changed(pack: &str, outcome: &str, as_json: bool) -> Result<()> {
    if as_json {
        return output::print_json(&json!({ "pack": pack, "outcome": outcome }));
    }
    output::print_line(&format!("{pack} is {outcome}"))
}

fn print_packs(packs: &[Received<PackView>]) -> Result<()> {
    let rows: Vec<_> = packs
        .iter()
        .map(|pack| {
            let types = pack.object_type_schemas.len() + pack.relationship_type_schemas.len();
            vec![
                pack.id.to_string(),
                format!("{}@{}", pack.name, pack.version),
                if pack.assigned { "yes" } else { "no" }.to_owned(),
                if pack.built_in { "yes" } else { "no" }.to_owned(),
                types.to_string(),
                pack.description.clone().unwrap_or_default(),
            ]
        })
        .collect();
    output::print_table(&["ID", "PACK", "ASSIGNED", "BUILT IN", "TYPES", "DESCRIPTION"], &rows)
}

fn print_pack(pack: &PackView) -> Result<()> {
    output::print_line(&bold(&format!("{}@{}", pack.name, pack.version)))?;
    let names = |names: Vec<&String>| names.into_iter().map(String::as_str).collect::<Vec<_>>().join(", ");
    let facts = [
        ("id", pack.id.to_string()),
        ("description", pack.description.clone().unwrap_or_default()),
        ("assigned", if pack.assigned { "yes" } else { "no" }.to_owned()),
        ("built in", if pack.built_in { "yes" } else { "no" }.to_owned()),
        ("objects", names(pack.object_type_schemas.keys().collect())),
        ("edges", names(pack.relationship_type_schemas.keys().collect())),
    ];
    for (label, value) in facts.iter().filter(|(_, value)| !value.is_empty()) {
        output::print_fact(label, value)?;
    }
    Ok(())
}
