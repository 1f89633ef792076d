//! Converts products for the API, with the plans of their installations, upgrades and removals.

use emergent_domain::mcp_server::SecretUse;
use emergent_products::{
    Consent, ManifestInput, ManifestProblem, ManifestSource, Plan, Product, ProductOutcome, ProductUpdate,
    Uses,
    diff::FieldDiff,
    plan::{OwnChange, Step, StepChange, Warning},
    uses::{EventUse, ScheduleUse},
};
pub(crate) use emergent_wire::product::*;
use serde_json::Value;

use super::IntoView;
use crate::ApiError;

const MAX_SOURCE_BYTES: usize = 2_000;
const MAX_PROBLEMS: usize = 100;

/// Returns the manifest or source to install, which is required.
pub(crate) fn install_input(body: InstallProduct) -> Result<ManifestInput, ApiError> {
    let missing = || ApiError::invalid("source", "is required, or `manifest`");
    manifest_input(body.manifest, body.source)?.ok_or_else(missing)
}

/// Returns the manifest or source of an upgrade; `None` means the source of the installed version.
pub(crate) fn upgrade_input(body: UpgradeProduct) -> Result<Option<ManifestInput>, ApiError> {
    manifest_input(body.manifest, body.source)
}

fn manifest_input(
    manifest: Option<Value>,
    source: Option<String>,
) -> Result<Option<ManifestInput>, ApiError> {
    match (manifest, source) {
        (None, None) => Ok(None),
        (Some(manifest), None) => Ok(Some(ManifestInput::Manifest(Box::new(manifest)))),
        (None, Some(source)) if source.len() > MAX_SOURCE_BYTES => {
            Err(ApiError::invalid("source", format!("is longer than {MAX_SOURCE_BYTES} bytes")))
        }
        (None, Some(source)) => {
            let source: ManifestSource =
                source.parse().map_err(|reason: String| ApiError::invalid("source", reason))?;
            Ok(Some(ManifestInput::Source(source)))
        }
        (Some(_), Some(_)) => {
            Err(ApiError::invalid("source", "give either `manifest` or `source`, not both"))
        }
    }
}

/// Returns the consent of a request.
pub(crate) fn consent(accept: Option<Accept>) -> Consent {
    match accept {
        None | Some(Accept::Everything(false)) => Consent::NotGiven,
        Some(Accept::Everything(true)) => Consent::Everything,
        Some(Accept::Digest(digest)) => Consent::Digest(digest),
    }
}

impl IntoView<UsesView> for Uses {
    fn into_view(self) -> UsesView {
        let uses = self;
        let secret = |one: SecretUse| SecretUseView { name: one.name, target: one.target };
        let schedule =
            |one: ScheduleUse| ScheduleUseView { agent: one.agent, cron: one.cron, time_zone: one.time_zone };
        let event = |one: EventUse| EventUseView {
            agent: one.agent,
            event: one.event,
            filter: one.filter.filter(|filter| !filter.is_empty()),
        };
        UsesView {
            programs: uses.programs.into_iter().collect(),
            hosts: uses.hosts.into_iter().collect(),
            secrets: uses.secrets.into_iter().map(secret).collect(),
            schedules: uses.schedules.into_iter().map(schedule).collect(),
            events: uses.events.into_iter().map(event).collect(),
        }
    }
}

/// Returns what has to be accepted as the `details` of an error.
pub(crate) fn consent_json(uses: Uses, added: Uses) -> Value {
    let digest = uses.digest();
    let (uses, adds): (UsesView, UsesView) = (uses.into_view(), added.into_view());
    serde_json::json!({ "digest": digest, "adds": adds, "uses": uses })
}

impl IntoView<ProductView> for Product {
    fn into_view(self) -> ProductView {
        let product = self;
        let names = |pointer: &str| {
            let entries = product.raw.pointer(pointer).and_then(Value::as_array).into_iter().flatten();
            entries.filter_map(|entry| entry["name"].as_str().map(str::to_owned)).collect::<Vec<_>>()
        };
        let packs = product.raw["template_packs"].as_array().into_iter().flatten().map(|pack| ProductPack {
            name: pack["name"].as_str().unwrap_or_default().to_owned(),
            version: pack["version"].as_str().unwrap_or_default().to_owned(),
        });
        let source = SourceView {
            kind: product.source.as_ref().map_or("manifest", ManifestSource::kind).to_owned(),
            at: product.source.as_ref().map(ManifestSource::to_string),
        };
        ProductView {
            version: product.version.to_string(),
            description: product.raw["description"].as_str().unwrap_or_default().to_owned(),
            source,
            uses: product.accepted.into_view(),
            revision: product.revision,
            agents: names("/agents"),
            packs: packs.collect(),
            servers: names("/mcp/servers"),
            schedules: names("/jobs"),
            prompts: names("/mcp/prompts"),
            installed_at: product.installed_at,
            updated_at: product.updated_at,
            name: product.name,
        }
    }
}

impl IntoView<ProductDetailView> for (Product, Vec<OwnChange>) {
    fn into_view(self) -> ProductDetailView {
        let (product, changes) = self;
        let change = |change: OwnChange| OwnChangeView {
            agent: change.agent,
            deleted: change.deleted,
            fields: change.fields.into_iter().map(IntoView::into_view).collect(),
        };
        ProductDetailView {
            manifest: product.raw.clone(),
            product: product.into_view(),
            own_changes: changes.into_iter().map(change).collect(),
        }
    }
}

impl IntoView<OutcomeView> for ProductOutcome {
    fn into_view(self) -> OutcomeView {
        let outcome = self;
        OutcomeView { product: outcome.product.map(IntoView::into_view), plan: outcome.plan.into_view() }
    }
}

impl IntoView<PlanView> for Plan {
    fn into_view(self) -> PlanView {
        let plan = self;
        let digest = plan.uses.digest();
        let is_needed = !plan.added.is_empty();
        PlanView {
            uses: plan.uses.into_view(),
            consent: is_needed.then(|| ConsentView { digest, adds: plan.added.into_view() }),
            name: plan.name,
            from: plan.from.map(|version| version.to_string()),
            to: plan.to.map(|version| version.to_string()),
            direction: plan.direction.as_str().to_owned(),
            steps: plan.steps.into_iter().map(IntoView::into_view).collect(),
            warnings: plan.warnings.iter().map(IntoView::into_view).collect(),
        }
    }
}

impl IntoView<StepView> for Step {
    fn into_view(self) -> StepView {
        let step = self;
        let (what, change) = (step.kind.as_str().to_owned(), step.change.as_str().to_owned());
        let fields = match step.change {
            StepChange::Update(fields) => fields.into_iter().map(IntoView::into_view).collect(),
            StepChange::Add | StepChange::Remove | StepChange::Keep => Vec::new(),
        };
        StepView { what, name: step.name, change, fields }
    }
}

impl IntoView<FieldChangeView> for FieldDiff {
    fn into_view(self) -> FieldChangeView {
        let field = self;
        FieldChangeView { pointer: field.pointer, before: field.before, after: field.after }
    }
}

impl IntoView<WarningView> for &Warning {
    fn into_view(self) -> WarningView {
        let warning = self;
        WarningView {
            kind: warning.kind().to_owned(),
            about: warning.subject().to_owned(),
            message: warning.to_string(),
        }
    }
}

impl IntoView<UpdateView> for ProductUpdate {
    fn into_view(self) -> UpdateView {
        let update = self;
        UpdateView {
            name: update.name,
            version: update.version.to_string(),
            latest: update.latest.map(|version| version.to_string()),
            available: update.available,
            error: update.error,
        }
    }
}

/// Converts problems of a manifest into the `details` of an error. There are at most [`MAX_PROBLEMS`], since
/// every entry of a manifest may be invalid.
pub(crate) fn problems_json(problems: &[ManifestProblem]) -> Value {
    let entries = problems.iter().take(MAX_PROBLEMS).map(|problem| {
        let mut entry = serde_json::json!({ "pointer": problem.pointer, "message": problem.message });
        if let Some(fix) = &problem.fix {
            entry["fix"] = Value::from(fix.as_str());
        }
        entry
    });
    entries.collect()
}
