//! The prompts that installed products add to a project.

use emergent_domain::{ids::ProjectId, prompt::Prompt};

use crate::{
    error::Result,
    params,
    row::{TableRow, read_row, to_param},
    tx::Tx,
    value::Param,
};

/// A prompt and the name of the product that it belongs to.
#[derive(Debug, Clone, PartialEq)]
pub struct ProductPrompt {
    pub product: String,
    pub prompt: Prompt,
}

read_row! {
    ProductPrompt in "product_prompts" { product: "product", prompt: "prompt" }
}

/// Every prompt of a project, by name and then by product.
pub fn list_all(tx: &mut Tx<'_>, project: ProjectId) -> Result<Vec<ProductPrompt>> {
    let columns = ProductPrompt::COLUMNS;
    let sql = format!("SELECT {columns} FROM product_prompts WHERE project_id = $1 ORDER BY name, product");
    tx.query(&sql, params![project], ProductPrompt::from_row)
}

/// Writes a prompt of a product and replaces the previous one of the same name.
pub fn upsert_for_product(tx: &mut Tx<'_>, project: ProjectId, product: &str, prompt: &Prompt) -> Result<()> {
    let columns = [
        ("project_id", Param::from(project)),
        ("product", Param::from(product)),
        ("name", Param::from(&prompt.name)),
        ("prompt", to_param(prompt, ProductPrompt::TABLE, "prompt")?),
    ];
    let on_conflict = "ON CONFLICT (project_id, product, name) DO UPDATE SET prompt = excluded.prompt";
    tx.insert_columns(ProductPrompt::TABLE, columns, on_conflict)?;
    Ok(())
}

/// Deletes one prompt of a product.
pub fn delete_for_product(tx: &mut Tx<'_>, project: ProjectId, product: &str, name: &str) -> Result<()> {
    tx.execute(
        "DELETE FROM product_prompts WHERE project_id = $1 AND product = $2 AND name = $3",
        params![project, product, name],
    )?;
    Ok(())
}
