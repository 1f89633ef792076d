//! What the projects hold. It is asked for as every other command does: of the server that has the
//! data, or of the data itself.

use emergent_store::{Db, secrets as rows};
use emergent_wire::{mcp_server::McpServerView, project::ProjectView};

use super::{
    Finding, ok_finding, problem_finding, products, secrets, servers, setup::DataLocation, triggers,
};
use crate::{
    client::Client,
    config::{Settings, env_value},
    error::{Error, Result},
};

/// A project, as it is named to people: not at all where there is but one.
pub struct ProjectLabel {
    name: Option<String>,
}

impl ProjectLabel {
    /// For the end of a sentence.
    pub fn suffix(&self) -> String {
        self.name.as_ref().map_or(String::new(), |name| format!(" (project `{name}`)"))
    }

    /// For the end of a command.
    pub fn project_flag(&self) -> String {
        self.name.as_ref().map_or(String::new(), |name| format!(" -p {name}"))
    }
}

pub async fn check_contents(settings: &Settings, data: DataLocation) -> Vec<Finding> {
    let key = match data {
        DataLocation::None => return Vec::new(),
        // It would not run without its key.
        DataLocation::OnServer => "the server has the key".to_owned(),
        DataLocation::Local(db) => match check_key(settings, &db).await {
            Ok(place) => place,
            Err(finding) => return vec![finding],
        },
    };
    // What is wrong with these has been told, and nothing here needs them.
    let settings = Settings {
        embeddings: "off".to_owned(),
        model: None,
        model_calls: None,
        model_prices: None,
        recordings: None,
        ..settings.clone()
    };
    let client = match Client::for_data_dir(&settings).await {
        Ok(client) => client,
        Err(error @ Error::Secrets(_)) => {
            return vec![problem_finding(
                "secrets",
                error.describe(),
                "bring the key it names, as docs/secrets.md says",
            )];
        }
        // Another command has it at the moment.
        Err(Error::Locked { .. }) => return Vec::new(),
        Err(error) => return vec![not_checked(&error)],
    };
    check_projects(client, &key).await.unwrap_or_else(|error| vec![not_checked(&error)])
}

fn not_checked(error: &Error) -> Finding {
    let fix = match error {
        Error::Refused { code, .. } if code == "unauthorized" => "set EMERGENT_ADMIN_TOKEN to the server's",
        _ => "mend what it names, or look at the server's log",
    };
    problem_finding("projects", error.describe(), fix)
}

/// Where the key of the secrets is. Without one there is nothing to look at, and to look must not
/// make one.
async fn check_key(settings: &Settings, db: &Db) -> Result<String, Finding> {
    let file = settings.data_dir.join("secret-key");
    if env_value("EMERGENT_SECRET_KEY").is_some() {
        return Ok("the key is in EMERGENT_SECRET_KEY".to_owned());
    }
    if file.exists() {
        return Ok(format!("the key is in {}", file.display()));
    }
    let known = db.read(|tx| rows::list_keys(tx, rows::LockMode::None)).await;
    let known = known.map_err(|error: emergent_store::Error| {
        problem_finding("secrets", Error::from(error).describe(), "look at the database")
    })?;
    Err(match known.iter().find(|key| key.is_active()) {
        None => ok_finding("secrets", "no key yet; it is made at the first start"),
        Some(wanted) => problem_finding(
            "secrets",
            format!(
                "the key `{}`, which the secrets of this database are sealed with, is not here",
                wanted.id
            ),
            format!(
                "set EMERGENT_SECRET_KEY, or bring the file of the server that made it to {}",
                file.display()
            ),
        ),
    })
}

async fn check_projects(mut client: Client, key: &str) -> Result<Vec<Finding>> {
    let mut projects: Vec<ProjectView> = client.get_all_pages("/api/projects").await?;
    projects.reverse();
    let (mut findings, mut set) = (Vec::new(), 0);
    for project in &projects {
        let place = ProjectLabel { name: (projects.len() > 1).then(|| project.name.clone()) };
        client = client.in_project(&project.id.to_string());
        let found: Vec<McpServerView> = client.get_all_pages("/api/admin/mcp-servers").await?;
        let (count, missing) = secrets::check_secrets(&client, &place, &found).await?;
        set += count;
        findings.extend(missing);
        findings.extend(servers::check_servers(&client, &place, &found).await?);
        findings.extend(products::check_products(&client, &place).await?);
        findings.extend(triggers::check_triggers(&client, &place).await?);
    }
    findings.push(ok_finding("secrets", format!("{set} set; {key}")));
    // One kind after the other, whichever project it was found in.
    let order = ["secrets", "mcp servers", "products", "triggers"];
    findings.sort_by_key(|finding| order.iter().position(|what| *what == finding.what));
    Ok(findings)
}
