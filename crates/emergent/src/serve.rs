//! `emergent serve`: runs the server until it receives a signal to stop.

use std::time::Duration;

use emergent_api::server::{self, ConnectionLimits, Deadlines, ServerOptions};
use emergent_domain::agent::ModelConfig;
use emergent_graph::cleanup::CleanupSettings;
use emergent_llm::Models;
use tokio::{
    net::TcpListener,
    signal::unix::{Signal, SignalKind, signal},
    sync::watch,
    time::Instant,
};
use tracing::{info, warn};

use crate::{
    commands::login_link,
    config::{self, Settings, StoreFlags},
    datadir::{self, LOCK_RETRY_INTERVAL, LOCK_TIMEOUT},
    error::{Error, Result},
    hints, lock_holder, output, private_files,
    sample::{self, SampleState},
    services::{self, Services},
    settings_report,
    text::wrap_item,
};

/// How long requests in flight, and then background tasks, may take to end after a signal to stop.
const GRACE: Duration = Duration::from_secs(10);

/// Start the server
///
/// It listens on this machine only, unless --listen says otherwise, and prints its address. The admin token is in
/// the data folder. Ctrl-C stops it; runs in progress go on after the next start.
#[derive(Debug, clap::Args)]
pub struct Serve {
    /// Address to listen on [default: 127.0.0.1:4400]
    #[arg(long, env = "EMERGENT_LISTEN", value_name = "ADDRESS")]
    listen: Option<String>,
    /// Fill an empty graph with a small sample, install the default agents, and print what to try
    #[arg(long)]
    sample: bool,
}

impl Serve {
    pub async fn run(self, store: &StoreFlags) -> Result<()> {
        let settings = Settings::load(store, self.listen.clone())?;
        survive_file_limit();
        let unknown = settings_report::unknown_variables(&config::env_names());
        for sentence in unknown.into_iter().chain(settings_report::missing_folders(&settings.describe())) {
            warn!("{sentence}");
        }
        let failed = |source| Error::listen(&settings.listen, source);
        // The port is bound before the folder is opened: the admin token is shown only once, so a start that
        // cannot listen must not create it. Clients that connect now wait until the store is open.
        let listener = TcpListener::bind(&settings.listen).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        if let Some(files) = &settings.tls {
            server::check_tls(files).map_err(|error| settings.tls_error(&error))?;
        }
        let services = open_when_released(&settings).await?;
        // A command that works on the same database does not know the settings of the server, so only a server says
        // whether there is a webhook.
        let has_webhook = settings.webhook.is_some();
        services.executor.set_server_webhook(has_webhook).await.map_err(Error::Webhook)?;
        let mut sample_notes = None;
        if self.sample {
            let state = sample::import_sample(&services.graph).await?;
            sample::install_default_agents(&services.graph, &services.app.products).await?;
            let columns = output::terminal_width().unwrap_or(DEFAULT_COLUMNS);
            let notes = sample::trigger_notes(&services.graph, &services.executor, columns).await?;
            sample_notes = Some((state, notes));
        }
        if settings.model.is_some()
            && let Err(error) = services.executor.models().choose(None)
        {
            let name = settings.origins.name_in_file("EMERGENT_MODEL");
            let name = name.as_deref().unwrap_or("EMERGENT_MODEL");
            warn!("no agent can use the model of {name}: {error}");
        }
        let scheme = if settings.tls.is_some() { "https" } else { "http" };
        services.app.set_listen_address(address, settings.tls.is_some());
        services.data.write_address(&format!("{scheme}://{address}"), &settings)?;
        if settings.tls.is_none() && !emergent_api::is_loopback(address) {
            warn!(
                "listening beyond this machine without TLS: tokens travel in the clear; set \
                 EMERGENT_TLS_CERT and EMERGENT_TLS_KEY, or put a proxy with TLS in front"
            );
        }
        if services.admin_token_ended {
            warn!("the admin token {}", ended_token_message(&settings));
        }
        let login_path = services.login_path().await?;
        let address = format!("{scheme}://{address}");
        // From here on others take the server for started, so a signal to stop must no longer end it at once.
        let stop_signals = StopSignals::listen()?;
        print_welcome(&settings, &services, &address, login_path, sample_notes);
        let options = ServerOptions {
            limits: ConnectionLimits::for_open_files(raise_open_files()),
            tls: settings.tls.clone(),
            deadlines: Deadlines::default(),
        };
        serve(listener, services, options, settings.cleanup(), stop_signals).await
    }
}

/// Opens the data folder, and makes its secrets private. While another process has it locked, tries again for up to
/// `LOCK_TIMEOUT`: the lock of a server that was killed is released only when the system has ended its process.
async fn open_when_released(settings: &Settings) -> Result<Services> {
    private_files::protect_secrets(&settings.data_dir);
    let deadline = Instant::now() + LOCK_TIMEOUT;
    let mut has_notice = false;
    loop {
        match services::open_services(settings).await {
            Err(Error::Locked { path }) if Instant::now() < deadline => {
                if !has_notice {
                    output::print_notice(&format!(
                        "the data folder `{}` is in use by {}; waiting up to {} seconds for it to end",
                        path.display(),
                        lock_holder::name(&path),
                        LOCK_TIMEOUT.as_secs()
                    ));
                    has_notice = true;
                }
                tokio::time::sleep(LOCK_RETRY_INTERVAL).await;
            }
            result => return result,
        }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "each task ends with the `stop` channel, and is awaited at the end for `GRACE`"
)]
async fn serve(
    listener: TcpListener,
    services: Services,
    options: ServerOptions,
    cleanup: CleanupSettings,
    mut stop_signals: StopSignals,
) -> Result<()> {
    let (stop, stopping) = watch::channel(false);
    let (graph, stop_embedder) = (services.graph.clone(), stopping.clone());
    let embedder = tokio::spawn(async move { graph.run_embedder(stop_embedder).await });
    let runner = {
        let (executor, stop_runner) = (services.executor.clone(), stopping.clone());
        tokio::spawn(async move { executor.run(stop_runner).await })
    };
    let dispatcher = {
        let (dispatcher, stop_dispatcher) = (services.dispatcher.clone(), stopping.clone());
        tokio::spawn(async move { dispatcher.run(stop_dispatcher).await })
    };
    let triggers = {
        let (executor, stop_triggers) = (services.executor.clone(), stopping.clone());
        tokio::spawn(async move { executor.run_triggers(stop_triggers).await })
    };
    let servers = {
        let (servers, stop_servers) = (services.servers.clone(), stopping.clone());
        tokio::spawn(async move { servers.run(stop_servers).await })
    };
    let (executor, stop_expiry) = (services.executor.clone(), stopping.clone());
    let expiry = tokio::spawn(async move { executor.run_approval_expiry(stop_expiry).await });
    let webhooks = {
        let (executor, stop_webhooks) = (services.executor.clone(), stopping.clone());
        let settings = services.webhooks.clone();
        tokio::spawn(async move { executor.run_webhooks(settings, stop_webhooks).await })
    };
    let (app, stop_push) = (services.app.clone(), stopping.clone());
    let a2a_push = tokio::spawn(async move { app.run_a2a_push(stop_push).await });
    let (chat, stop_chat) = (services.app.chat.clone(), stopping.clone());
    let chat = tokio::spawn(async move { chat.run(stop_chat).await });
    let (graph, stop_housekeeping) = (services.graph.clone(), stopping.clone());
    let housekeeping = tokio::spawn(async move {
        tokio::join!(
            graph.run_housekeeping(stop_housekeeping.clone()),
            graph.run_statistics(stop_housekeeping.clone()),
            graph.run_vector_indexes(stop_housekeeping)
        )
    });
    let (graph, stop_cleanup) = (services.graph.clone(), stopping.clone());
    let cleanup = tokio::spawn(async move { graph.run_cleanup(cleanup, stop_cleanup).await });
    let (graph, stop_cascades) = (services.graph.clone(), stopping.clone());
    let cascades = tokio::spawn(async move { graph.run_cascades(stop_cascades).await });
    let (graph, stop_reverts) = (services.graph.clone(), stopping.clone());
    let reverts = tokio::spawn(async move { graph.run_reverts(stop_reverts).await });
    let router = emergent_api::router(services.app.clone());
    let mut server = tokio::spawn(server::serve(listener, router, options, stopping.clone()));
    tokio::select! {
        () = stop_signals.recv() => info!("stopping"),
        ended = &mut server => {
            warn!("the listener ended by itself");
            return ended.map_err(|error| Error::Unexpected(error.to_string()))?.map_err(Error::Io);
        }
    }
    let _ = stop.send(true);
    // Event streams would otherwise stay open for as long as their clients read.
    services.app.close();
    tokio::select! {
        ended = tokio::time::timeout(GRACE, server) => if ended.is_err() {
            warn!("some requests did not end within {} seconds and were dropped", GRACE.as_secs());
        },
        () = stop_signals.recv() => warn!("a second signal to stop: requests that had not ended were dropped"),
    }
    // Work that these tasks have not finished is recorded in the database; the next start continues it.
    let background_tasks = async {
        let of_graph = async { tokio::join!(housekeeping, cleanup, cascades, reverts) };
        let of_people = async { tokio::join!(expiry, webhooks, a2a_push, chat) };
        tokio::join!(embedder, runner, dispatcher, triggers, servers, of_graph, of_people)
    };
    let _ = tokio::time::timeout(GRACE, background_tasks).await;
    services.data.remove_address();
    Ok(())
}

/// Raises the limit of open files as far as the system allows, and returns it.
fn raise_open_files() -> u64 {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Handles the signal for a file that would become larger than the limit of the process, which would end it.
/// The write then fails like one on a full disk.
fn survive_file_limit() {
    let number = rustix::process::Signal::XFSZ.as_raw();
    // The handler stays when the stream of signals is dropped.
    if let Err(error) = signal(SignalKind::from_raw(number)) {
        warn!(%error, "a limit on the size of files would end the server");
    }
}

/// The signals that stop the server, Ctrl-C and SIGTERM. One that arrives before somebody waits for it is kept.
struct StopSignals {
    interrupt: Signal,
    terminate: Signal,
}

impl StopSignals {
    fn listen() -> Result<Self> {
        Ok(Self { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    async fn recv(&mut self) {
        tokio::select! { _ = self.interrupt.recv() => {}, _ = self.terminate.recv() => {} }
    }
}

/// What an operator does whose admin token was revoked or has expired.
fn ended_token_message(settings: &Settings) -> String {
    let data_dir = settings.data_dir.display();
    let renewal = match config::env_value("EMERGENT_ADMIN_TOKEN") {
        Some(_) => "set EMERGENT_ADMIN_TOKEN to another value".to_owned(),
        None => format!("delete {data_dir}/admin-token"),
    };
    format!(
        "was revoked or has expired, and is not accepted; for a new one stop the server, {renewal}, and start it \
         again, or run `emergent token create` on the data folder {data_dir} while the server is stopped"
    )
}

/// Whether a question can be answered: by the model for everything, or by that of the default agent.
fn can_answer(models: &Models) -> bool {
    let own: Option<ModelConfig> = "google/gemini-2.0-flash".parse().ok();
    [None, own].iter().any(|own| models.choose_for_run(None, own.as_ref()).is_ok())
}

/// The columns of the output where it is no terminal.
const DEFAULT_COLUMNS: usize = 80;

/// Prints the address, the admin token when it is new, commands to try with `sample`, and a link to the web UI.
fn print_welcome(
    settings: &Settings,
    services: &Services,
    address: &str,
    login_path: Option<String>,
    sample: Option<(SampleState, String)>,
) {
    let engine = services.graph.db().engine().name();
    info!(%address, engine, "listening");
    let mut text = format!("Emergent listens on {address}  ({engine})\n");
    let token_file = settings.data_dir.join(datadir::ADMIN_TOKEN_FILE);
    if services.admin_token_ended {
        let columns = output::terminal_width().unwrap_or(DEFAULT_COLUMNS);
        let lines = wrap_item("  admin token  ", &ended_token_message(settings), columns);
        text.push_str(&(lines.join("\n") + "\n"));
    } else if services.token_is_new {
        text.push_str(&format!("  admin token  {}\n", services.admin_token));
        text.push_str(&format!("               (kept in {}; not printed again)\n", token_file.display()));
    } else if config::env_value("EMERGENT_ADMIN_TOKEN").is_none() {
        text.push_str(&format!("  admin token  in {}\n", token_file.display()));
    }
    text.push_str(&format!("  API          {address}/api/docs\n"));
    if let Some((state, notes)) = sample {
        text.push_str(&match state {
            SampleState::Imported => commands_to_try(settings, services, address),
            SampleState::Refused => refused_sample_text(settings.database_url.is_some()),
        });
        text.push_str(&notes);
        text.push('\n');
    }
    // The link comes last: it is what most people need next, and nothing that follows moves it out of sight.
    if let Some(path) = login_path {
        let link = format!("{}{path}", login_link::browser_address(address));
        let columns = output::terminal_width().unwrap_or(DEFAULT_COLUMNS);
        text.push_str(&web_ui_text(&link, &hints::local_command("login-link"), columns));
    }
    // Standard output may be closed, and the server works without it.
    let _ = output::print_line(&text);
}

/// What a start says about the link to the web UI, for a terminal of so many columns.
fn web_ui_text(link: &str, another: &str, columns: usize) -> String {
    let purpose = format!(
        "Open this link in a browser to use the web UI, logged in. It works once and for 10 minutes; `{another}` prints another."
    );
    let mut lines = wrap_item("  web UI       ", &purpose, columns);
    // The link has a line of its own without a margin: it is as wide as many terminals, and must not be broken.
    lines.push(link.to_owned());
    lines.join("\n") + "\n"
}

/// Why a start with `--sample` added no sample.
fn refused_sample_text(has_database_url: bool) -> String {
    let another = match has_database_url {
        true => "a server with another database adds it",
        false => "`emergent serve --sample --data-dir FOLDER` starts with it in a new folder",
    };
    format!(
        "\nThe graph has objects already, so the sample was not added:\n{another}.\nThe default agents are installed.\n"
    )
}

/// The commands that a person can try on the sample.
fn commands_to_try(settings: &Settings, services: &Services, address: &str) -> String {
    let data_dir_flag = match settings.data_dir.as_os_str() == "data" {
        true => String::new(),
        false => format!(" --data-dir {}", hints::quoted(&settings.data_dir.to_string_lossy())),
    };
    let model_hint = if can_answer(services.executor.models()) {
        ""
    } else {
        "\n      (needs a model: set GEMINI_API_KEY, or EMERGENT_MODEL=provider/name,\n       and start the server again)"
    };
    let program = std::env::args().next().unwrap_or_else(|| "emergent".to_owned());
    // The token itself is printed only once, so the shell reads it from its place.
    let token = match config::env_value("EMERGENT_ADMIN_TOKEN") {
        Some(_) => "$EMERGENT_ADMIN_TOKEN".to_owned(),
        None => {
            let file = settings.data_dir.join(datadir::ADMIN_TOKEN_FILE);
            format!("$(cat {})", hints::quoted(&file.to_string_lossy()))
        }
    };
    let mut text = format!(
        "\nTry, in another terminal:\n\
         \x20 {program} graph search \"who shaped early computing\"{data_dir_flag}\n\
         \x20 {program} graph traverse Person/ada-lovelace --depth 2{data_dir_flag}\n\
         \x20 {program} chat \"Who worked with Ada Lovelace?\"{data_dir_flag}{model_hint}\n"
    );
    if !services.admin_token_ended {
        text.push_str(&format!(
            "  curl -s -H \"Authorization: Bearer {token}\" \\\n       '{address}/api/graph/objects?type=Person'\n"
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_says_what_its_link_is_for_at_any_width() {
        let link = "http://127.0.0.1:4400/login?code=emc_h-4mW81e-tw5QcaXDX4R4YQCzRab5XdkRFyUMVwCbNI";
        for columns in [120, 80, 60, 40] {
            let text = web_ui_text(link, "emergent login-link", columns);
            let (purpose, last) = text.trim_end().rsplit_once('\n').unwrap();
            assert_eq!(last, link);
            assert!(purpose.lines().all(|line| line.chars().count() <= columns), "{columns}: {text}");
            let words = purpose.split_whitespace().collect::<Vec<_>>().join(" ");
            assert_eq!(
                words,
                "web UI Open this link in a browser to use the web UI, logged in. It works once and for 10 minutes; \
                 `emergent login-link` prints another."
            );
        }
    }
}
