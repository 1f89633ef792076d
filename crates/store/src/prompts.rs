//! The prompts that products brought to a project.

use emergent_domain::{ids::ProjectId, prompt::Prompt};

use crate::{
    error::{Error, Result},
    params,
    tx::Tx,
    value::{Param, Row, json},
};

/// A prompt and the product it is of.
#[derive(Debug, Clone, PartialEq)]
pub struct ProductPrompt {
    pub product: String,
    pub prompt: Prompt,
}

fn from_row(row: &Row<'_>) -> Result<ProductPrompt> {
    let text: String = row.get(1)?;
    let prompt =
        serde_json::from_str(&text).map_err(|_| Error::Column { column: 1, expected: "a prompt" })?;
    Ok(ProductPrompt { product: row.get(0)?, prompt })
}

/// Every prompt of a project, by name and then by product.
pub fn list_all(tx: &mut Tx<'_>, project: ProjectId) -> Result<Vec<ProductPrompt>> {
    let sql = "SELECT product, prompt FROM product_prompts WHERE project_id = $1 ORDER BY name, product";
    tx.query(sql, params![project], from_row)
}

/// Writes a prompt of a product, in place of the one of that name.
pub fn upsert_for_product(tx: &mut Tx<'_>, project: ProjectId, product: &str, prompt: &Prompt) -> Result<()> {
    let text =
        serde_json::to_string(prompt).map_err(|_| Error::Column { column: 3, expected: "a prompt" })?;
    tx.execute(
        "INSERT INTO product_prompts (project_id, product, name, prompt) VALUES ($1, $2, $3, $4)
         ON CONFLICT (project_id, product, name) DO UPDATE SET prompt = excluded.prompt",
        &[Param::from(project), Param::from(product), Param::from(&prompt.name), json(&text)],
    )?;
    Ok(())
}

/// Takes one prompt of a product away.
pub fn delete_for_product(tx: &mut Tx<'_>, project: ProjectId, product: &str, name: &str) -> Result<()> {
    tx.execute(
        "DELETE FROM product_prompts WHERE project_id = $1 AND product = $2 AND name = $3",
        params![project, product, name],
    )?;
    Ok(())
}
