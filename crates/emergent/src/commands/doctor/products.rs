//! Checks the installed products of a project, and names their agents that were changed by hand.

use emergent_wire::product::{ProductDetailView, ProductView};

use super::{Finding, contents::ProjectLabel, ok_finding};
use crate::{client::Client, commands::encode, error::Result};

/// Does not look for updates: the sources may be remote, and `product check` does that.
pub async fn check_products(client: &Client, label: &ProjectLabel) -> Result<Vec<Finding>> {
    let products: Vec<ProductView> = client.get("/api/products").await?.data().await?;
    let mut findings = Vec::new();
    for product in &products {
        let name = &product.name;
        let detail: ProductDetailView =
            client.get(&format!("/api/products/{}", encode(name))).await?.data().await?;
        let changed: Vec<_> = detail.own_changes.iter().map(|change| change.agent.as_str()).collect();
        let mut found = format!("{name} {}{}", product.version, label.suffix());
        if !changed.is_empty() {
            found.push_str(&format!(
                "; changed by hand, and put back by an upgrade: {} (`emergent product show {name}{}`)",
                changed.join(", "),
                label.project_flag()
            ));
        }
        findings.push(ok_finding("products", found));
    }
    if !products.is_empty() {
        let found =
            format!("updates were not looked for: `emergent product check{}` does", label.project_flag());
        findings.push(ok_finding("products", found));
    }
    Ok(findings)
}
