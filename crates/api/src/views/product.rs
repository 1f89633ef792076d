//! Products as the outside sees them, and what changing one does.

use emergent_domain::time::Timestamp;
use emergent_products::{
    ManifestInput, ManifestProblem, ManifestSource, Plan, Product, ProductOutcome, ProductUpdate,
    diff::FieldDiff,
    plan::{OwnChange, Step, StepChange, Warning},
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

use crate::ApiError;

/// A manifest, or where one is.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct InstallProduct {
    /// A manifest: `GET /api/products/manifest.schema.json` says what may stand in it.
    #[schema(value_type = Option<Object>)]
    manifest: Option<Value>,
    /// An address (`https://…`), a repository (`github.com/owner/name`, the `manifest.json` of its
    /// latest release), or the name of a product that comes with the server.
    #[schema(example = "emergent.research", max_length = 2000)]
    source: Option<String>,
    /// Only tell what would be done.
    #[serde(default)]
    pub(crate) dry_run: bool,
}

impl InstallProduct {
    pub(crate) fn into_input(self) -> Result<ManifestInput, ApiError> {
        let none = || ApiError::invalid("source", "is required, or `manifest`");
        manifest_input(self.manifest, self.source)?.ok_or_else(none)
    }
}

/// With neither, the newest at the source it was installed from.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct UpgradeProduct {
    /// A manifest, of any version: an older one is a downgrade.
    #[schema(value_type = Option<Object>)]
    manifest: Option<Value>,
    /// As of an install.
    #[schema(example = "github.com/acme/support", max_length = 2000)]
    source: Option<String>,
    /// Only tell what would be done.
    #[serde(default)]
    pub(crate) dry_run: bool,
}

impl UpgradeProduct {
    pub(crate) fn into_input(self) -> Result<Option<ManifestInput>, ApiError> {
        manifest_input(self.manifest, self.source)
    }
}

fn manifest_input(
    manifest: Option<Value>,
    source: Option<String>,
) -> Result<Option<ManifestInput>, ApiError> {
    match (manifest, source) {
        (None, None) => Ok(None),
        (Some(manifest), None) => Ok(Some(ManifestInput::Manifest(Box::new(manifest)))),
        (None, Some(source)) if source.len() > 2_000 => {
            Err(ApiError::invalid("source", "is longer than 2000 bytes"))
        }
        (None, Some(source)) => {
            let source: ManifestSource =
                source.parse().map_err(|why: String| ApiError::invalid("source", why))?;
            Ok(Some(ManifestInput::Source(source)))
        }
        (Some(_), Some(_)) => {
            Err(ApiError::invalid("source", "give either `manifest` or `source`, not both"))
        }
    }
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct DryRun {
    /// Only tell what would be done.
    #[serde(default)]
    pub(crate) dry_run: bool,
}

/// A product that the project has.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Product)]
pub(crate) struct ProductView {
    name: String,
    version: String,
    description: String,
    source: SourceView,
    /// Counts installs and upgrades.
    revision: i64,
    /// Names of what it brought, as its manifest says.
    agents: Vec<String>,
    packs: Vec<ProductPack>,
    servers: Vec<String>,
    /// Its jobs.
    schedules: Vec<String>,
    prompts: Vec<String>,
    #[schema(value_type = String, format = DateTime)]
    installed_at: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    updated_at: Timestamp,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct ProductPack {
    name: String,
    version: String,
}

/// Where a manifest came from.
#[derive(Serialize, ToSchema)]
#[schema(as = ProductSource)]
pub(crate) struct SourceView {
    /// `builtin`, `url`, `github`, or `manifest` for one that came by itself.
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<String>,
}

impl From<Product> for ProductView {
    fn from(product: Product) -> Self {
        let names = |list: &str| {
            let all = product.raw.pointer(list).and_then(Value::as_array).into_iter().flatten();
            all.filter_map(|one| one["name"].as_str().map(str::to_owned)).collect::<Vec<_>>()
        };
        let packs = product.raw["template_packs"].as_array().into_iter().flatten().map(|pack| ProductPack {
            name: pack["name"].as_str().unwrap_or_default().to_owned(),
            version: pack["version"].as_str().unwrap_or_default().to_owned(),
        });
        let source = SourceView {
            kind: product.source.as_ref().map_or("manifest", ManifestSource::kind),
            at: product.source.as_ref().map(ManifestSource::to_string),
        };
        Self {
            version: product.version.to_string(),
            description: product.raw["description"].as_str().unwrap_or_default().to_owned(),
            source,
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

/// A product with its manifest, and what was changed of its agents by hand.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ProductDetail)]
pub(crate) struct ProductDetailView {
    #[serde(flatten)]
    product: ProductView,
    /// As it was installed.
    #[schema(value_type = Object)]
    manifest: Value,
    own_changes: Vec<OwnChangeView>,
}

/// An agent of the product that is no longer what the manifest says.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = OwnChange)]
pub(crate) struct OwnChangeView {
    agent: String,
    /// It was deleted by hand.
    deleted: bool,
    /// `before` is the manifest, `after` the agent as it is.
    fields: Vec<FieldChangeView>,
}

impl From<(Product, Vec<OwnChange>)> for ProductDetailView {
    fn from((product, changes): (Product, Vec<OwnChange>)) -> Self {
        let change = |change: OwnChange| OwnChangeView {
            agent: change.agent,
            deleted: change.deleted,
            fields: change.fields.into_iter().map(FieldChangeView::from).collect(),
        };
        Self {
            manifest: product.raw.clone(),
            product: product.into(),
            own_changes: changes.into_iter().map(change).collect(),
        }
    }
}

/// What was done, or, of a dry run, what would be.
#[derive(Serialize, ToSchema)]
#[schema(as = ProductOutcome)]
pub(crate) struct OutcomeView {
    /// The product as it is now; null after an uninstall, and for an install that was a dry run.
    product: Option<ProductView>,
    plan: PlanView,
}

impl From<ProductOutcome> for OutcomeView {
    fn from(outcome: ProductOutcome) -> Self {
        Self { product: outcome.product.map(ProductView::from), plan: outcome.plan.into() }
    }
}

/// What a change of a product does to the project.
#[derive(Serialize, ToSchema)]
#[schema(as = ProductPlan)]
pub(crate) struct PlanView {
    name: String,
    from: Option<String>,
    to: Option<String>,
    /// `install`, `upgrade`, `downgrade`, `same` or `uninstall`.
    direction: &'static str,
    /// In the order they are done.
    steps: Vec<StepView>,
    /// What people should know; nothing of it stops anything.
    warnings: Vec<WarningView>,
}

#[derive(Serialize, ToSchema)]
#[schema(as = ProductPlanStep)]
pub(crate) struct StepView {
    /// `template_pack`, `agent`, `server`, `prompt` or `job`.
    what: &'static str,
    name: String,
    /// `add`, `update`, `remove` or `keep`.
    change: &'static str,
    /// Of an update, every place that differs.
    fields: Vec<FieldChangeView>,
}

/// One place that differs; a side that is absent is not there.
#[derive(Serialize, ToSchema)]
#[schema(as = FieldChange)]
pub(crate) struct FieldChangeView {
    /// A JSON pointer.
    pointer: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    before: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    after: Option<Value>,
}

#[derive(Serialize, ToSchema)]
#[schema(as = ProductWarning)]
pub(crate) struct WarningView {
    /// A stable word, such as `own_change`.
    kind: &'static str,
    /// The agent or server it is about.
    about: String,
    message: String,
}

impl From<Plan> for PlanView {
    fn from(plan: Plan) -> Self {
        Self {
            name: plan.name,
            from: plan.from.map(|version| version.to_string()),
            to: plan.to.map(|version| version.to_string()),
            direction: plan.direction.as_str(),
            steps: plan.steps.into_iter().map(StepView::from).collect(),
            warnings: plan.warnings.iter().map(WarningView::from).collect(),
        }
    }
}

impl From<Step> for StepView {
    fn from(step: Step) -> Self {
        let (what, change) = (step.kind.as_str(), step.change.as_str());
        let fields = match step.change {
            StepChange::Update(fields) => fields.into_iter().map(FieldChangeView::from).collect(),
            StepChange::Add | StepChange::Remove | StepChange::Keep => Vec::new(),
        };
        Self { what, name: step.name, change, fields }
    }
}

impl From<FieldDiff> for FieldChangeView {
    fn from(field: FieldDiff) -> Self {
        Self { pointer: field.pointer, before: field.before, after: field.after }
    }
}

impl From<&Warning> for WarningView {
    fn from(warning: &Warning) -> Self {
        Self { kind: warning.kind(), about: warning.subject().to_owned(), message: warning.to_string() }
    }
}

/// Whether there is something newer where a product came from.
#[derive(Serialize, ToSchema)]
#[schema(as = ProductUpdate)]
pub(crate) struct UpdateView {
    name: String,
    version: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    latest: Option<String>,
    available: bool,
    /// Why it could not be found out.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

impl From<ProductUpdate> for UpdateView {
    fn from(update: ProductUpdate) -> Self {
        Self {
            name: update.name,
            version: update.version.to_string(),
            latest: update.latest.map(|version| version.to_string()),
            available: update.available,
            error: update.error,
        }
    }
}

/// As `details` of a refusal: at most a hundred, since a manifest may be wrong everywhere.
pub(crate) fn problems_json(problems: &[ManifestProblem]) -> Value {
    let told = problems.iter().take(100).map(|problem| {
        let mut told = serde_json::json!({ "pointer": problem.pointer, "message": problem.message });
        if let Some(fix) = &problem.fix {
            told["fix"] = Value::from(fix.as_str());
        }
        told
    });
    told.collect()
}
