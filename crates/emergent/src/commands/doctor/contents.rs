//! Checks the contents of all projects: secrets, MCP servers, packs, products and triggers. Like other commands, it
//! asks the server that uses the data folder, or opens the folder itself.

use emergent_store::{Db, secrets as rows};
use emergent_wire::{mcp_server::McpServerView, project::ProjectView};

use super::{
    Finding, agents, neutral_finding, ok_finding, packs, problem_finding, products, secrets, servers,
    setup::DataLocation, triggers, usable_models::UsableModels,
};
use crate::{
    client::Client,
    config::{Settings, env_value},
    datadir,
    error::{Error, Result},
    hints,
};

/// How findings name a project: not at all when there is only one.
#[derive(Default)]
pub struct ProjectLabel {
    name: Option<String>,
}

impl ProjectLabel {
    /// The project in parentheses for the end of a sentence; empty when it is not named.
    pub fn suffix(&self) -> String {
        self.name.as_ref().map_or(String::new(), |name| format!(" (project `{name}`)"))
    }

    /// The flags for the end of a suggested command: `-p NAME` when the project is named, and where the data is.
    pub fn project_flag(&self) -> String {
        let project = self.name.as_ref().map_or(String::new(), |name| format!(" -p {name}"));
        format!("{project}{}", hints::location_flags())
    }
}

/// Checks the key of the secrets, then every project. Empty when there is no data, or another command has
/// the data folder open.
pub async fn check_contents(
    settings: &Settings,
    data: DataLocation,
    models: Option<&UsableModels>,
) -> Vec<Finding> {
    let key_location = match data {
        DataLocation::None => return Vec::new(),
        // The server that uses the folder is asked instead; this one does not respond, or is a command.
        DataLocation::OnServer => "the server has the key".to_owned(),
        DataLocation::Local(db) => match check_key(settings, &db).await {
            Ok(location) => location,
            Err(finding) => return vec![finding],
        },
    };
    let has_token = env_value("EMERGENT_ADMIN_TOKEN").is_some()
        || settings.data_dir.join(datadir::ADMIN_TOKEN_FILE).exists();
    if !has_token && datadir::running_server(&settings.data_dir).is_none() {
        // To open the services would create a token, and a check must not do that.
        let found = "not checked: there is no admin token yet; it is made at the first start";
        return vec![neutral_finding("projects", found)];
    }
    // Other checks report problems with these settings; without them the services open anyway.
    let settings = Settings {
        embeddings: "off".to_owned(),
        model: None,
        model_calls: None,
        model_prices: None,
        recordings: None,
        judge_model: None,
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
        // Another command is using the data folder.
        Err(Error::Locked { .. }) => return Vec::new(),
        Err(error) => return vec![not_checked(&error)],
    };
    let projects = check_projects(client, &key_location, models).await;
    projects.unwrap_or_else(|error| vec![not_checked(&error)])
}

/// Checks every project of a server.
pub async fn check_server_contents(client: Client, models: Option<&UsableModels>) -> Vec<Finding> {
    let projects = check_projects(client, "the server has the key", models).await;
    projects.unwrap_or_else(|error| vec![not_checked(&error)])
}

/// The finding for an error that kept the projects from being checked.
fn not_checked(error: &Error) -> Finding {
    if matches!(error, Error::Setting { .. }) {
        return problem_finding("configuration", error.describe(), "correct the setting it names");
    }
    let fix = match error {
        Error::Refused { code, .. } if code == "unauthorized" => "set EMERGENT_ADMIN_TOKEN to the server's",
        _ => "fix what it names, or look at the server's log",
    };
    problem_finding("projects", error.describe(), fix)
}

/// Describes where the key of the secrets is. Without a key, returns a finding instead: to open the secrets
/// would create a key, and a check must not do that.
async fn check_key(settings: &Settings, db: &Db) -> Result<String, Finding> {
    let file = settings.data_dir.join("secret-key");
    if env_value("EMERGENT_SECRET_KEY").is_some() {
        return Ok("the key is in EMERGENT_SECRET_KEY".to_owned());
    }
    if file.exists() {
        return Ok(format!("the key is in {}", file.display()));
    }
    let keys = db.read(|tx| rows::list_keys(tx, rows::LockMode::None)).await;
    let keys = keys.map_err(|error: emergent_store::Error| {
        problem_finding("secrets", Error::from(error).describe(), "look at the database")
    })?;
    Err(match keys.iter().find(|key| key.is_active()) {
        None => ok_finding("secrets", "no key yet; it is made at the first start"),
        Some(missing) => problem_finding(
            "secrets",
            format!(
                "the key `{}`, which the secrets of this database are sealed with, is not here",
                missing.id
            ),
            format!(
                "set EMERGENT_SECRET_KEY, or bring the file of the server that made it to {}",
                file.display()
            ),
        ),
    })
}

/// Checks each project. `key_location` is the text about the key for the finding on secrets.
async fn check_projects(
    mut client: Client,
    key_location: &str,
    models: Option<&UsableModels>,
) -> Result<Vec<Finding>> {
    let mut projects: Vec<ProjectView> = client.get_all_pages("/api/projects").await?;
    // The API lists the newest first.
    projects.reverse();
    let (mut findings, mut secret_count) = (Vec::new(), 0);
    for project in &projects {
        let label = ProjectLabel { name: (projects.len() > 1).then(|| project.name.clone()) };
        client = client.in_project(&project.id.to_string());
        let mcp_servers: Vec<McpServerView> = client.get_all_pages("/api/admin/mcp-servers").await?;
        let (count, missing, of_secrets) = secrets::check_secrets(&client, &label, &mcp_servers).await?;
        secret_count += count;
        findings.extend(of_secrets);
        findings.extend(servers::check_servers(&client, &label, &mcp_servers, &missing).await?);
        let servers = agents::Servers { all: &mcp_servers, missing_secrets: &missing };
        findings.extend(agents::check_agents(&client, &label, &servers, models).await?);
        findings.extend(packs::check_packs(&client, &label).await?);
        findings.extend(products::check_products(&client, &label).await?);
        findings.extend(triggers::check_triggers(&client, &label, models).await?);
    }
    findings.push(ok_finding("secrets", format!("{secret_count} set; {key_location}")));
    // Findings are grouped by section and not by project.
    let order = ["secrets", "mcp servers", "agents", "packs", "products", "triggers"];
    findings.sort_by_key(|finding| order.iter().position(|section| *section == finding.what));
    Ok(findings)
}
