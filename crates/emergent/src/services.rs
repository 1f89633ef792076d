//! Builds the services of a server from its settings: store, embedder, graph, models, tools, executor,
//! dispatcher and API.

use std::time::Duration;

use emergent_api::{AllowedHosts, App, AppOptions, ServerDescription};
use emergent_coordination::Dispatcher;
use emergent_domain::{ids::TokenId, time::Clock, token::Scope};
use emergent_executor::{Executor, webhooks::WebhookSettings};
use emergent_graph::Graph;
use emergent_llm::{Models, Script};
use emergent_products::Products;
use emergent_secrets::Secrets;
use emergent_store::{Db, leases};
use emergent_tools::{ToolPool, remote::McpServers};
use emergent_web::WebUi;
use parking_lot::Mutex;
use tokio::runtime::{Handle, RuntimeFlavor};
use tracing::warn;

use crate::{
    build_info,
    config::Settings,
    database_error,
    datadir::{self, DataDir},
    demo,
    error::{Error, Result},
    logs, server_file, telemetry,
};

/// How long the token of [`Services::local_token`] is valid if the command that has it is killed: longer than a command
/// that follows a run.
const LOCAL_TOKEN_LIFETIME: Duration = Duration::from_secs(24 * 3_600);

/// The opened services of a data folder. A server or a command in this process works with them.
pub struct Services {
    /// Before `data`, which it needs: fields are dropped in this order.
    local_token: Mutex<Option<LocalToken>>,
    pub app: App,
    pub graph: Graph,
    pub executor: Executor,
    pub dispatcher: Dispatcher,
    pub servers: McpServers,
    pub webhooks: WebhookSettings,
    pub data: DataDir,
    pub admin_token: String,
    admin_token_id: TokenId,
    /// The admin token was revoked or has expired. It stays so; see [`Services::local_token`].
    pub admin_token_ended: bool,
    /// The admin token was created by this start, so it has not been shown to anybody.
    pub token_is_new: bool,
}

/// Opens the data folder or database of these settings, brings its schema up to date and creates what a
/// first start needs: keys, admin token, default project and built-in packs.
pub async fn open_services(settings: &Settings) -> Result<Services> {
    settings.check_data_folder()?;
    let data = match &settings.database_url {
        Some(_) => DataDir::open_shared(&settings.data_dir)?,
        None => {
            check_embedded_is_meant(settings)?;
            DataDir::open_exclusive(&settings.data_dir)?
        }
    };
    let embedder = emergent_llm::embedder(&settings.embedder()?, &Settings::credentials())?;
    let models = models(settings)?;
    let coordination = settings.coordination()?;
    if let Some(judge) = &coordination.judge {
        // As for `EMERGENT_MODEL`: a key may be set later, but a provider that there is not would fail each question.
        let unknown = |error: emergent_llm::Error| settings.setting_error("EMERGENT_JUDGE_MODEL", error);
        models.check_provider(judge).map_err(unknown)?;
    }
    database_error::check_address(settings)?;
    let opened = Db::open_with(settings.database(), settings.time_limits).await;
    let db = opened.map_err(|error| database_error::describe_open_error(settings, error))?;
    let clock = Clock::system();
    if data.is_exclusive() {
        let now = clock.now();
        // A server that was killed leaves leases behind. The lock on the folder proves that it has ended,
        // so its work can be claimed at once.
        db.write(move |tx| leases::expire_all(tx, now)).await?;
    }
    let keys = data.secret_keys()?;
    let secrets = Secrets::open(db.clone(), clock.clone(), keys, logs::redactor().clone()).await?;
    // The token comes after what may fail: it is shown only once, so a failed start must not create it.
    let (admin_token, token_is_new) = data.admin_token()?;
    let graph = Graph::new(db, clock, embedder);
    if let Some(min) = settings.min_similarity {
        graph.set_min_similarity(min);
    }
    if let Some(min) = settings.min_passage_similarity {
        graph.set_min_passage_similarity(min);
    }
    match std::env::current_exe() {
        Ok(program) => graph.set_extraction_program(program),
        Err(error) => {
            warn!(%error, "documents are extracted without limits on memory: the path of this program is unknown")
        }
    }
    graph.ensure_builtin_packs().await?;
    graph.ensure_default_project().await?;
    let stored_admin_token = graph.ensure_admin_token(&admin_token).await?;
    let admin_token_ended = !stored_admin_token.is_valid(graph.clock().now());
    let limits = emergent_executor::Settings {
        max_runs: settings.max_runs,
        max_project_runs: settings.max_project_runs,
        capture_content: telemetry::captures_content(),
        allow_private_hosts: settings.allow_private_hosts,
        ..Default::default()
    };
    let servers = McpServers::new(
        graph.db().clone(),
        graph.clock().clone(),
        secrets.clone(),
        settings.external_servers(),
    );
    let builtin = emergent_tools::builtin::tools().into_iter().chain(emergent_coordination::tools::tools());
    let tools = ToolPool::new(builtin.collect::<Vec<_>>()).with_remote(servers.clone());
    let executor = Executor::new(graph.clone(), models, tools, limits);
    executor.backfill_triggers().await.map_err(Error::Triggers)?;
    telemetry::record_model_calls(&executor);
    let products = Products::new(executor.clone(), settings.products());
    let dispatcher = Dispatcher::new(executor.clone(), coordination);
    let options = AppOptions {
        products: Some(products),
        dispatcher: Some(dispatcher.clone()),
        allowed_hosts: Some(AllowedHosts::new(settings.allowed_hosts.as_deref(), &settings.listen)),
        description: server_description(settings),
        invoke_rate: settings.invoke_rate,
        web_ui: WebUi::embedded(),
        ..Default::default()
    };
    let webhooks = WebhookSettings { secrets: secrets.clone(), server: settings.webhook.clone() };
    let app = App::with_options(executor.clone(), secrets, options);
    Ok(Services {
        local_token: Mutex::new(None),
        app,
        graph,
        executor,
        dispatcher,
        servers,
        webhooks,
        data,
        admin_token,
        admin_token_id: stored_admin_token.id,
        admin_token_ended,
        token_is_new,
    })
}

/// The models that these settings configure, and the scripted ones of this program.
pub fn models(settings: &Settings) -> Result<Models> {
    let models = Models::from_settings(&settings.models()).map_err(|error| settings.models_error(error))?;
    // Each built-in product has a scripted model, so it can be tried without a key: `rehearsal/<product>`.
    for product in emergent_products::builtin::ALL {
        let script = Script::parse(product.rehearsal).map_err(|error| Error::setting(product.name, error))?;
        models.add_script(product.name, script);
    }
    let (name, script) = demo::SCRIPT;
    models.add_script(name, Script::parse(script).map_err(|error| Error::setting(name, error))?);
    Ok(models)
}

/// Refuses to create an embedded database in the folder of a server on PostgreSQL: somebody who forgot the address of
/// the database would get an empty one.
fn check_embedded_is_meant(settings: &Settings) -> Result<()> {
    let folder = &settings.data_dir;
    let postgres = server_file::read(folder).and_then(|server| server.database);
    match postgres.filter(|_| !datadir::has_database(folder)) {
        None => Ok(()),
        Some(database) => Err(Error::Usage(format!(
            "the server of the data folder `{}` uses the database {database}, and no database is set here: set \
             EMERGENT_DATABASE_URL, or choose another folder with --data-dir; to start with an empty embedded database \
             in this folder, remove `{}`",
            folder.display(),
            server_file::path(folder).display()
        ))),
    }
}

/// What the API tells an operator about this server.
fn server_description(settings: &Settings) -> ServerDescription {
    ServerDescription {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        commit: build_info::COMMIT.map(str::to_owned),
        config_file: settings.file.as_ref().map(|path| path.display().to_string()),
        settings: settings.describe(),
        model: settings.model.clone(),
    }
}

impl Services {
    /// The path of a page that logs a browser in once, as the admin token; `None` if that has ended.
    pub async fn login_path(&self) -> Result<Option<String>> {
        if self.admin_token_ended {
            return Ok(None);
        }
        let (code, _) = self.graph.create_login_code(self.admin_token_id).await?;
        Ok(Some(format!("/login?code={code}")))
    }

    /// The token with which a command works on the data folder itself: the admin token or, if that has ended,
    /// a new one that nobody else learns and that ends with the command. Whoever can open the folder or the database
    /// is the operator, so a revoked admin token must not lock them out.
    pub async fn local_token(&self) -> Result<String> {
        if !self.admin_token_ended {
            return Ok(self.admin_token.clone());
        }
        let scopes = Scope::ALL.iter().copied().collect();
        let expires_at = self.graph.clock().now() + LOCAL_TOKEN_LIFETIME;
        let (token, secret) =
            self.graph.create_token("local operator", scopes, None, Some(expires_at)).await?;
        *self.local_token.lock() = Some(LocalToken { graph: self.graph.clone(), id: token.id });
        Ok(secret)
    }
}

/// The token of a command that works on the data folder itself. It is revoked when this is dropped, so that no valid
/// token with all rights is left behind.
struct LocalToken {
    graph: Graph,
    id: TokenId,
}

impl Drop for LocalToken {
    fn drop(&mut self) {
        // Commands run on a runtime with several threads, where this thread may wait.
        let Ok(runtime) = Handle::try_current() else { return };
        if runtime.runtime_flavor() != RuntimeFlavor::MultiThread {
            return;
        }
        let revoked =
            tokio::task::block_in_place(|| runtime.block_on(self.graph.revoke_token(None, self.id)));
        if let Err(error) = revoked {
            warn!(%error, "the token of this command could not be revoked; it expires in a day");
        }
    }
}
