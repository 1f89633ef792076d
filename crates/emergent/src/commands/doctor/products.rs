//! Installed products, and what was changed of their agents by hand.

use serde_json::Value;

use super::{
    Finding,
    contents::{ProjectLabel, text},
    ok_finding,
};
use crate::{client::Client, commands::encode, error::Result};

/// Where a product came from is not asked: that may be anywhere, and `product check` does it.
pub async fn check_products(client: &Client, at: &ProjectLabel) -> Result<Vec<Finding>> {
    let products: Vec<Value> = client.get("/api/products").await?.data().await?;
    let mut findings = Vec::new();
    for product in &products {
        let name = text(&product["name"]);
        let detail: Value = client.get(&format!("/api/products/{}", encode(name))).await?.data().await?;
        let changed: Vec<_> =
            detail["ownChanges"].as_array().into_iter().flatten().map(|one| text(&one["agent"])).collect();
        let mut found = format!("{name} {}{}", text(&product["version"]), at.suffix());
        if !changed.is_empty() {
            found.push_str(&format!(
                "; changed by hand, and put back by an upgrade: {} (`emergent product show {name}{}`)",
                changed.join(", "),
                at.project_flag()
            ));
        }
        findings.push(ok_finding("products", found));
    }
    if !products.is_empty() {
        let found =
            format!("updates were not looked for: `emergent product check{}` does", at.project_flag());
        findings.push(ok_finding("products", found));
    }
    Ok(findings)
}
