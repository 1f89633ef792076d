//! Asks whether a product may use what it uses, before it is installed or upgraded.

use std::io::IsTerminal;

use emergent_wire::product::{Accept, OutcomeView};
use serde::Serialize;

use super::show;
use crate::{
    client::{Client, Received},
    error::{Error, Result},
    output,
};

/// Posts a change of a product. If something has to be accepted and `--accept` is not given, shows the plan
/// and asks; where nobody can be asked, fails. `body` makes the request with a consent, for a dry run or not.
pub async fn post<B: Serialize>(
    client: &Client,
    path: &str,
    body: impl Fn(Option<Accept>, bool) -> B,
    accept: bool,
    dry_run: bool,
    as_json: bool,
) -> Result<Received<OutcomeView>> {
    let accept = accept.then_some(Accept::Everything(true));
    match client.post(path, &body(accept, dry_run)).await {
        Ok(response) => return response.data().await,
        Err(Error::Refused { code, .. }) if code == "consent_required" => {}
        Err(error) => return Err(error),
    }
    let outcome: Received<OutcomeView> = client.post(path, &body(None, true)).await?.data().await?;
    let Some(consent) = &outcome.plan.consent else {
        return Err(Error::Unexpected("what is to be accepted is not in the plan; try again".to_owned()));
    };
    if !as_json {
        for line in show::plan_lines(&outcome.plan) {
            output::print_line(&line)?;
        }
    }
    let name = &outcome.plan.name;
    if as_json || !ask(name)? {
        return Err(Error::Usage(format!(
            "nothing was changed: `{name}` uses what nobody accepted; look at it with --dry-run, and accept it \
             with --accept"
        )));
    }
    // The digest makes the server refuse if the source has another manifest by now.
    let accept = Some(Accept::Digest(consent.digest.clone()));
    client.post(path, &body(accept, false)).await?.data().await
}

/// Asks at a terminal. Without one, the answer is no.
fn ask(name: &str) -> Result<bool> {
    if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        return Ok(false);
    }
    let terminal = console::Term::stderr();
    terminal.write_str(&format!("May {name} use this? [y/N] "))?;
    let answer = terminal.read_line()?;
    Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
}
