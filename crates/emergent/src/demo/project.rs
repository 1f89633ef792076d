//! Which project a demo plays in. It never plays in a project that has something else: it installs products with all that
//! they bring, and a person did not ask for that beside their own agents.

use emergent_domain::foreign_json;
use emergent_wire::{
    budget::{BudgetsView, LimitView},
    project::{CreateProject, ProjectView},
    trigger::TriggersView,
};
use serde_json::Value;

use super::PRODUCTS;
use crate::{client::Client, error::Result};

/// The project of the demo in a data folder that has nothing else.
pub const FIRST_PROJECT: &str = "default";
/// The project of the demo where the first one has something else. Those of later demos are `demo-2`, `demo-3` and so on.
const OWN_PROJECT: &str = "demo";

/// What a project may have that a demo did not bring. Secrets are a list without pages.
const LISTS: [&str; 5] = [
    "/api/graph/objects",
    "/api/documents",
    "/api/chat/conversations",
    "/api/coordination/workflows",
    "/api/admin/runs",
];
const SECRETS: &str = "/api/admin/secrets";
const TRIGGERS: &str = "/api/admin/triggers";
const BUDGETS: &str = "/api/coordination/budgets";
const PACKS: &str = "/api/template-packs";
/// What products bring as well, each with the field that names its product.
const LISTS_OF_PRODUCTS: [(&str, &str); 3] = [
    ("/api/products", "name"),
    ("/api/admin/agents?include_internal=true", "product"),
    ("/api/admin/mcp-servers", "product"),
];

/// The number of the demo that a project is for; `None` for other projects.
pub fn demo_number(project: &str) -> Option<u32> {
    match project.strip_prefix("demo-") {
        Some(number) => number.parse().ok().filter(|number| *number > 1),
        None => [FIRST_PROJECT, OWN_PROJECT].contains(&project).then_some(1),
    }
}

/// The name of the project for the demo with this number.
fn project_name(number: u32) -> String {
    if number > 1 { format!("{OWN_PROJECT}-{number}") } else { OWN_PROJECT.to_owned() }
}

/// Chooses the project of the first demo in a data folder, and creates it if there is none: `default`, or a project of
/// its own if that has something else. `has_own_folder` says that nobody else uses the folder, so the products of the
/// demo in it are from a start that was interrupted.
pub async fn choose_first(client: Client, has_own_folder: bool) -> Result<Client> {
    let client = client.in_project(FIRST_PROJECT);
    if is_unused(&client, has_own_folder).await? {
        return Ok(client);
    }
    create(client, 1).await
}

/// Creates the project of the demo with this number, or of the next number that is free. One that an interrupted start
/// left behind is used again.
pub async fn create(mut client: Client, first_number: u32) -> Result<Client> {
    let projects: Vec<ProjectView> = client.get_all_pages("/api/projects").await?;
    let mut number = first_number;
    loop {
        let name = project_name(number);
        if projects.iter().all(|project| project.name != name) {
            let body = CreateProject { name, strict: false };
            let created: ProjectView = client.post("/api/projects", &body).await?.data().await?;
            return Ok(client.in_project(&created.name));
        }
        client = client.in_project(&name);
        if is_unused(&client, true).await? {
            return Ok(client);
        }
        number += 1;
    }
}

/// Whether the project has nothing, apart from the products of the demo if these are allowed.
async fn is_unused(client: &Client, allows_products: bool) -> Result<bool> {
    for path in LISTS {
        if !client.get_newest::<Value>(path, 1).await?.is_empty() {
            return Ok(false);
        }
    }
    let secrets: Vec<Value> = client.get(SECRETS).await?.data().await?;
    if !secrets.is_empty() {
        return Ok(false);
    }
    for (path, field) in LISTS_OF_PRODUCTS {
        let items: Vec<Value> = client.get_all_pages(path).await?;
        let is_brought = |item: &Value| item[field].as_str().is_some_and(|name| PRODUCTS.contains(&name));
        if !items.iter().all(|item| allows_products && is_brought(item)) {
            return Ok(false);
        }
    }
    let packs: Vec<Value> = client.get_all_pages(PACKS).await?;
    let is_brought = |pack: &Value| allows_products && brought_packs().any(|name| pack["name"] == *name);
    if !packs.iter().all(|pack| pack["builtIn"] == true || is_brought(pack)) {
        return Ok(false);
    }
    let budgets: BudgetsView = client.get(BUDGETS).await?.data().await?;
    let of_agents = budgets.agents.iter().map(|agent| &agent.budget.limit);
    let is_limit = |limit: &LimitView| limit.usd.is_some() || limit.tokens.is_some();
    if std::iter::once(&budgets.project.limit).chain(of_agents).any(is_limit) {
        return Ok(false);
    }
    let triggers: TriggersView = client.get(TRIGGERS).await?.data().await?;
    Ok(allows_products || (triggers.schedules.is_empty() && triggers.events.is_empty()))
}

/// The names of the template packs that the products of the demo bring.
fn brought_packs() -> impl Iterator<Item = String> {
    let products = emergent_products::builtin::ALL.iter().filter(|product| PRODUCTS.contains(&product.name));
    let manifests = products.filter_map(|product| foreign_json::from_str::<Value>(product.manifest).ok());
    manifests.flat_map(|manifest| {
        let packs = manifest["template_packs"].as_array().cloned().unwrap_or_default();
        packs.into_iter().filter_map(|pack| pack["name"].as_str().map(str::to_owned))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_packs_of_the_products_are_told_from_others() {
        let names: Vec<String> = brought_packs().collect();
        assert!(names.iter().any(|name| name == "emergent-code"), "{names:?}");
        assert!(
            !names.iter().any(|name| name == "emergent-memory"),
            "the demo does not install it: {names:?}"
        );
    }

    #[test]
    fn the_projects_of_demos_are_told_from_others() {
        let numbers = ["default", "demo", "demo-2", "demo-1", "demo-x", "demonstration"].map(demo_number);
        assert_eq!(numbers, [Some(1), Some(1), Some(2), None, None, None]);
        assert_eq!([1, 2].map(project_name), ["demo", "demo-2"]);
    }
}
