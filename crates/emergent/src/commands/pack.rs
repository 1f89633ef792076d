//! `emergent pack`: adds, lists, shows, assigns and deletes template packs.

use std::path::PathBuf;

use emergent_wire::pack::{CreatePack, PackView};
use serde_json::{Value, json};

use super::{
    encode,
    resolve::{PACKS, resolve_id},
};
use crate::{
    client::{Client, DataAccess, Received},
    error::{Error, Result},
    hints, messages,
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

    /// Refuses input that cannot be sent, before a data folder is made for it.
    pub fn check_input(&self) -> Result<()> {
        match self {
            Pack::Add { file, .. } if file.as_os_str() != "-" => {
                super::read_json_file::<Value>(file).map(drop)
            }
            _ => Ok(()),
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
                messages::remember_file(&file);
                add(client, &pack, assign, as_json).await
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

/// Stores a pack. One that is stored with the same content stays as it is.
async fn add(client: &Client, pack: &Value, assign: bool, as_json: bool) -> Result<()> {
    let (stored, outcome) = match client.post(PATH, pack).await {
        Ok(response) => (response.data().await?, "added"),
        Err(error @ Error::Refused { .. }) if is_conflict(&error) => {
            (find_same(client, pack, error).await?, "unchanged")
        }
        Err(error) => return Err(error),
    };
    if assign {
        client.post(&format!("{PATH}/{}/assign", stored.id), &json!({})).await?;
    }
    if as_json {
        return output::print_json(&stored);
    }
    let assigned = if assign { " and assigned" } else { "" };
    output::print_line(&format!("{}@{} is {outcome}{assigned}", stored.name, stored.version))
}

fn is_conflict(error: &Error) -> bool {
    matches!(error, Error::Refused { code, .. } if code == "conflict")
}

/// The stored pack of the same name and version, if it has the same content; else an error that says what to do.
async fn find_same(client: &Client, pack: &Value, refusal: Error) -> Result<Received<PackView>> {
    let Ok(pack) = serde_json::from_value::<CreatePack>(pack.clone()) else { return Err(refusal) };
    let packs: Vec<Received<PackView>> = client.get_all_pages(PATH).await?;
    let mut same_version =
        packs.into_iter().filter(|stored| stored.name == pack.name && stored.version == pack.version);
    let Some(stored) = same_version.next() else { return Err(refusal) };
    if has_content(&stored, &pack) {
        return Ok(stored);
    }
    let reference = format!("{}@{}", pack.name, pack.version);
    Err(Error::Usage(format!(
        "`{reference}` is stored with other content: give the changed pack a new `version`, or use the stored one with \
         `{}`",
        hints::command(&format!("pack assign {reference}"))
    )))
}

fn has_content(stored: &PackView, pack: &CreatePack) -> bool {
    stored.description == pack.description
        && stored.object_type_schemas == pack.object_type_schemas
        && stored.relationship_type_schemas == pack.relationship_type_schemas
        && stored.ui_configs == pack.ui_configs
        && stored.extraction_prompts == pack.extraction_prompts
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
    let headers = ["ID", "PACK", "ASSIGNED", "BUILT IN", "TYPES", "DESCRIPTION"];
    output::print_table_with_optional(&headers, &rows, &["PACK"], &["TYPES", "BUILT IN"])
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
