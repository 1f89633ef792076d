//! Installed products, requests to install and upgrade one, and the plan of what that changes.

use emergent_domain::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

/// A manifest, or where one is.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct InstallProduct {
    /// A manifest: `GET /api/products/manifest.schema.json` says what may stand in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub manifest: Option<Value>,
    /// An address (`https://…`), a repository (`github.com/owner/name`, the `manifest.json` of its
    /// latest release), or the name of a product that comes with the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "emergent.research", max_length = 2000)]
    pub source: Option<String>,
    /// The consent to what the plan lists under `uses`: true, or the `digest` of a plan that was looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accept: Option<Accept>,
    /// Only tell what would be done.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
}

/// With neither, the newest at the source it was installed from.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct UpgradeProduct {
    /// A manifest, of any version: an older one is a downgrade.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub manifest: Option<Value>,
    /// As of an install.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "github.com/acme/support", max_length = 2000)]
    pub source: Option<String>,
    /// The consent to what the plan lists under `uses`: true, or the `digest` of a plan that was looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accept: Option<Accept>,
    /// Only tell what would be done.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
}

/// A consent to what a product uses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum Accept {
    /// True: whatever the product uses. False is no consent.
    Everything(bool),
    /// The `digest` of a plan: exactly what that plan lists.
    Digest(String),
}

#[derive(Debug, Clone, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DryRun {
    /// Only tell what would be done.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
}

/// A product that the project has.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Product)]
pub struct ProductView {
    pub name: String,
    pub version: String,
    pub description: String,
    pub source: SourceView,
    /// What was accepted that it uses.
    #[serde(default)]
    pub uses: UsesView,
    /// Counts installs and upgrades.
    pub revision: i64,
    /// Names of what it brought, as its manifest says.
    pub agents: Vec<String>,
    pub packs: Vec<ProductPack>,
    pub servers: Vec<String>,
    /// Its jobs.
    pub schedules: Vec<String>,
    pub prompts: Vec<String>,
    #[schema(value_type = String, format = DateTime)]
    pub installed_at: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    pub updated_at: Timestamp,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct ProductPack {
    pub name: String,
    pub version: String,
}

/// Where a manifest came from.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = ProductSource)]
pub struct SourceView {
    /// `builtin`, `url`, `github`, or `manifest` for one that came by itself.
    pub kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
}

/// A product with its manifest, and what was changed of its agents by hand.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ProductDetail)]
pub struct ProductDetailView {
    #[serde(flatten)]
    pub product: ProductView,
    /// As it was installed.
    #[schema(value_type = Object)]
    pub manifest: Value,
    pub own_changes: Vec<OwnChangeView>,
}

/// An agent of the product that is no longer what the manifest says.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = OwnChange)]
pub struct OwnChangeView {
    pub agent: String,
    /// It was deleted by hand.
    pub deleted: bool,
    /// `before` is the manifest, `after` the agent as it is.
    pub fields: Vec<FieldChangeView>,
}

/// What was done, or, of a dry run, what would be.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = ProductOutcome)]
pub struct OutcomeView {
    /// The product as it is now; null after an uninstall, and for an install that was a dry run.
    pub product: Option<ProductView>,
    pub plan: PlanView,
}

/// What a change of a product does to the project.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = ProductPlan)]
pub struct PlanView {
    pub name: String,
    pub from: Option<String>,
    pub to: Option<String>,
    /// `install`, `upgrade`, `downgrade`, `same` or `uninstall`.
    pub direction: String,
    /// In the order they are done.
    pub steps: Vec<StepView>,
    /// What people should know; nothing of it stops anything.
    pub warnings: Vec<WarningView>,
    /// What the product will use of the world outside its agents.
    #[serde(default)]
    pub uses: UsesView,
    /// What has to be accepted before this is done; absent if there is nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consent: Option<ConsentView>,
}

/// What a product uses of the world outside its agents.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = ProductUses)]
pub struct UsesView {
    /// Programs that the server runs, with their variables and arguments.
    pub programs: Vec<String>,
    /// Addresses that the server contacts.
    #[schema(example = json!(["https://mcp.example.com/mcp"]))]
    pub hosts: Vec<String>,
    pub secrets: Vec<SecretUseView>,
    pub schedules: Vec<ScheduleUseView>,
    pub events: Vec<EventUseView>,
}

/// A secret, and who gets it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = ProductSecretUse)]
pub struct SecretUseView {
    pub name: String,
    /// One of the hosts or programs.
    pub target: String,
}

/// A schedule that starts an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ProductScheduleUse)]
pub struct ScheduleUseView {
    pub agent: String,
    pub cron: String,
    pub time_zone: String,
}

/// An event that starts an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = ProductEventUse)]
pub struct EventUseView {
    pub agent: String,
    /// Such as `on_document_ingested`.
    pub event: String,
    /// Which of the objects or documents start it; absent if all do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "types [\"Note\"]")]
    pub filter: Option<String>,
}

/// What has to be accepted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = ProductConsent)]
pub struct ConsentView {
    /// To be sent as `accept`, for a consent to exactly what the plan lists under `uses`.
    pub digest: String,
    /// What of `uses` was not accepted before.
    pub adds: UsesView,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = ProductPlanStep)]
pub struct StepView {
    /// `template_pack`, `agent`, `server`, `prompt` or `job`.
    pub what: String,
    pub name: String,
    /// `add`, `update`, `remove` or `keep`.
    pub change: String,
    /// Of an update, every place that differs.
    pub fields: Vec<FieldChangeView>,
}

/// One place that differs; a side that is absent is not there.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = FieldChange)]
pub struct FieldChangeView {
    /// A JSON pointer.
    pub pointer: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<Value>,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = ProductWarning)]
pub struct WarningView {
    /// A stable word, such as `own_change`.
    pub kind: String,
    /// The agent or server it is about.
    pub about: String,
    pub message: String,
}

/// Whether there is something newer where a product came from.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = ProductUpdate)]
pub struct UpdateView {
    pub name: String,
    pub version: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latest: Option<String>,
    pub available: bool,
    /// Why it could not be found out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}
