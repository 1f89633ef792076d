//! `emergent product`: installs, upgrades, uninstalls and validates products.

mod consent;
mod file;
mod show;

use emergent_wire::product::{
    InstallProduct, OutcomeView, ProductDetailView, ProductView, UpdateView, UpgradeProduct,
};

use super::{
    encode,
    resolve::{LAST, suggestion},
};
use crate::{
    client::{Client, DataAccess, Received, ServerFlags},
    config::StoreFlags,
    error::{Error, Result},
    output,
};
use consent::ProductChange;
use show::Consent;

#[derive(Debug, clap::Subcommand)]
pub enum Product {
    /// Install a product, all of it or nothing
    ///
    /// Programs, hosts, secrets, schedules and events that it uses have to be accepted: at a terminal you are
    /// asked.
    Install {
        /// A manifest.json, a folder with one, an address, github.com/OWNER/NAME (its latest
        /// release), or one of emergent.memory, emergent.research, emergent.code
        source: String,
        /// Accept what the product uses, without being asked
        #[arg(long, visible_alias = "yes")]
        accept: bool,
        /// Only show what would be done
        #[arg(long)]
        dry_run: bool,
    },
    /// Bring a product to another version
    ///
    /// Without SOURCE, to the newest where it came from, and never to an older one. A SOURCE with
    /// an older version is a downgrade, one with the same version puts back what was changed.
    Upgrade {
        /// The product, such as emergent.memory
        name: String,
        /// As for `install`
        source: Option<String>,
        /// Accept what the product uses, without being asked
        #[arg(long, visible_alias = "yes")]
        accept: bool,
        /// Only show what would be done
        #[arg(long)]
        dry_run: bool,
    },
    /// Uninstall a product with everything it brought; what its agents wrote stays
    Uninstall {
        /// The product, such as emergent.memory
        name: String,
        /// Only show what would be done
        #[arg(long)]
        dry_run: bool,
    },
    /// Look for newer versions where the products came from
    Check,
    /// List the products of the project
    List,
    /// Show one product: what it brought, and what was changed of it by hand
    Show {
        /// The product, such as emergent.memory, or `last`: the one that was installed last
        name: String,
    },
    /// Print the JSON Schema of a manifest
    Schema,
    /// Check a manifest, without a server
    ///
    /// Looks at the manifest.json, and at a rehearsal.yaml beside it. What depends on a project,
    /// such as names that are taken, is checked when it is installed (see --dry-run).
    Validate {
        /// A manifest.json, a folder with one, or `-` for standard input
        path: String,
    },
}

impl Product {
    pub async fn run(self, server: &ServerFlags, store: &StoreFlags, as_json: bool) -> Result<()> {
        match self {
            // These two need no project, so they work without a server or data folder.
            Product::Schema => output::print_line(emergent_products::schema::SCHEMA_JSON.trim_end()),
            Product::Validate { path } => file::validate(&path, as_json),
            project_command => {
                // What cannot be installed makes no data folder.
                if let Product::Install { source, .. } = &project_command
                    && source != "-"
                {
                    file::install_request(source)?;
                }
                let access = match &project_command {
                    Product::Install { .. } => DataAccess::Create,
                    _ => DataAccess::Existing,
                };
                project_command.send(&Client::connect(server, store, access).await?, as_json).await
            }
        }
    }

    /// Runs a command that needs a project.
    async fn send(self, client: &Client, as_json: bool) -> Result<()> {
        match self {
            Product::Install { source, accept, dry_run } => {
                let request = file::install_request(&source)?;
                let body = |accept, dry_run| InstallProduct { accept, dry_run, ..request.clone() };
                let changed =
                    consent::post(client, "/api/products/install", body, accept, dry_run, as_json).await?;
                print_change(&changed, dry_run, as_json)
            }
            Product::Upgrade { name, source, accept, dry_run } => {
                let replacement = source.as_deref().map(file::install_request).transpose()?;
                let request = match replacement {
                    Some(InstallProduct { manifest, source, .. }) => {
                        UpgradeProduct { manifest, source, ..UpgradeProduct::default() }
                    }
                    None => UpgradeProduct::default(),
                };
                let body = |accept, dry_run| UpgradeProduct { accept, dry_run, ..request.clone() };
                let path = format!("/api/products/{}/upgrade", encode(&name));
                let changed = consent::post(client, &path, body, accept, dry_run, as_json).await;
                let changed = with_nearest(client, &name, changed).await?;
                print_change(&changed, dry_run, as_json)
            }
            Product::Uninstall { name, dry_run } => {
                let path = format!("/api/products/{}?dryRun={dry_run}", encode(&name));
                let response = with_nearest(client, &name, client.delete(&path).await).await?;
                let outcome: Received<OutcomeView> = response.data().await?;
                print_change(&ProductChange { outcome, is_plan_shown: false }, dry_run, as_json)
            }
            Product::Check => {
                let updates: Vec<Received<UpdateView>> =
                    client.get("/api/products/check-updates").await?.data().await?;
                if as_json { output::print_json(&updates) } else { show::print_updates(&updates) }
            }
            Product::List => {
                let products: Vec<Received<ProductView>> = client.get("/api/products").await?.data().await?;
                if as_json { output::print_json(&products) } else { show::print_products(&products) }
            }
            Product::Show { name } => {
                let name = if name == LAST { newest(client).await? } else { name };
                let response = client.get(&format!("/api/products/{}", encode(&name))).await;
                let response = with_nearest(client, &name, response).await?;
                let product: Received<ProductDetailView> = response.data().await?;
                if as_json { output::print_json(&product) } else { show::print_product(&product) }
            }
            Product::Schema | Product::Validate { .. } => {
                Err(Error::Unexpected("this needs no project".to_owned()))
            }
        }
    }
}

/// The name of the product that was installed last.
async fn newest(client: &Client) -> Result<String> {
    let products: Vec<Received<ProductView>> = client.get("/api/products").await?.data().await?;
    let newest = products.iter().max_by_key(|product| product.installed_at);
    newest
        .map(|product| product.name.clone())
        .ok_or_else(|| Error::Usage("there is no product yet, so there is no last one".to_owned()))
}

/// Adds the installed product that was probably meant to the error for a name that no product has.
async fn with_nearest<T>(client: &Client, name: &str, result: Result<T>) -> Result<T> {
    let error = match result {
        Err(error) if error.is_not_found() => error,
        result => return result,
    };
    let installed: Vec<Received<ProductView>> = client.get("/api/products").await?.data().await?;
    // Names of one publisher begin alike, so only their last parts say whether they are similar.
    let is_similar = |other: &&str| !suggestion(last_part(name), [last_part(other)]).is_empty();
    let names = installed.iter().map(|product| product.name.as_str()).filter(is_similar);
    Err(error.with_nearest(name, names, "product list"))
}

/// `memory` of `emergent.memory`.
fn last_part(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}

/// Prints the plan of a change, unless the person has seen it, and what came of it.
fn print_change(changed: &ProductChange, dry_run: bool, as_json: bool) -> Result<()> {
    let ProductChange { outcome, is_plan_shown } = changed;
    if as_json {
        return output::print_json(outcome);
    }
    if !is_plan_shown {
        let consent = if dry_run { Consent::Pending } else { Consent::Given };
        show::print_lines(&show::plan_lines(&outcome.plan, consent))?;
    }
    if dry_run {
        return output::print_line(&output::dim("nothing was changed (--dry-run)"));
    }
    let name = &outcome.plan.name;
    let message = match &outcome.product {
        Some(product) => format!("✓ {name} is at {}", product.version),
        None => format!("✓ {name} is gone"),
    };
    output::print_line(&output::green(&message))
}
