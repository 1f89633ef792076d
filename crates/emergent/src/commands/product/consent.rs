//! Asks whether a product may use what it uses, before it is installed or upgraded.

use emergent_wire::product::{Accept, OutcomeView};
use serde::Serialize;

use super::show::{self, Consent};
use crate::{
    client::{Client, Received},
    commands::confirm,
    error::{Error, Result},
    progress,
};

/// Shown while a product is changed: its source may have to be fetched, and its servers to be asked.
const ACTIVITY: &str = "changing the product";

/// A change of a product.
pub struct ProductChange {
    pub outcome: Received<OutcomeView>,
    /// Whether the person has seen the plan.
    pub is_plan_shown: bool,
}

/// Posts a change of a product. If something has to be accepted and `--accept` is not given, shows the plan
/// and asks; where nobody can be asked, fails. `body` makes the request with a consent, for a dry run or not.
pub async fn post<B: Serialize>(
    client: &Client,
    path: &str,
    body: impl Fn(Option<Accept>, bool) -> B,
    accept: bool,
    dry_run: bool,
    as_json: bool,
) -> Result<ProductChange> {
    let accept = accept.then_some(Accept::Everything(true));
    let request = body(accept, dry_run);
    match progress::show_while(ACTIVITY, client.post(path, &request)).await {
        Ok(response) => return Ok(ProductChange { outcome: response.data().await?, is_plan_shown: false }),
        Err(Error::Refused { code, .. }) if code == "consent_required" => {}
        Err(error) => return Err(error),
    }
    let outcome: Received<OutcomeView> = client.post(path, &body(None, true)).await?.data().await?;
    let Some(consent) = &outcome.plan.consent else {
        return Err(Error::Unexpected("what is to be accepted is not in the plan; try again".to_owned()));
    };
    if !as_json {
        show::print_lines(&show::plan_lines(&outcome.plan, Consent::Pending))?;
    }
    let name = &outcome.plan.name;
    let answer = if as_json { None } else { confirm::ask(&format!("May {name} use this?"))? };
    if answer == Some(false) {
        return Err(Error::Declined);
    }
    if answer.is_none() {
        return Err(Error::Usage(format!(
            "nothing was changed: `{name}` uses what nobody accepted; look at it with --dry-run, and accept it \
             with --accept"
        )));
    }
    // The digest makes the server refuse if the source has another manifest by now.
    let accept = Some(Accept::Digest(consent.digest.clone()));
    let request = body(accept, false);
    let outcome = progress::show_while(ACTIVITY, client.post(path, &request)).await?.data().await?;
    Ok(ProductChange { outcome, is_plan_shown: true })
}
