//! `emergent serve`: the server, until it is told to stop.

use std::time::Duration;

use emergent_api::server::{self, ConnectionLimits, ServerOptions};
use tokio::{net::TcpListener, sync::watch};
use tracing::{info, warn};

use crate::{
    config::{self, Settings, StoreFlags},
    error::{Error, Result},
    output, sample,
    services::{self, Services},
};

/// How long requests in flight may take to end once the server was told to stop.
const GRACE: Duration = Duration::from_secs(10);

#[derive(Debug, clap::Args)]
pub struct Serve {
    /// Address to listen on [default: 127.0.0.1:4400]
    #[arg(long, env = "EMERGENT_LISTEN", value_name = "ADDRESS")]
    listen: Option<String>,
    /// Fill an empty graph with a small sample, and print what to try
    #[arg(long)]
    sample: bool,
}

impl Serve {
    pub async fn run(self, store: &StoreFlags) -> Result<()> {
        let settings = Settings::load(store, self.listen.clone())?;
        let failed = |source| Error::Listen { address: settings.listen.clone(), source };
        // Before the folder is touched: a start that cannot listen must not make the token that is
        // shown only once. Whoever connects already waits until the store is open.
        let listener = TcpListener::bind(&settings.listen).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        protect_memory();
        let opened = services::open_services(&settings).await?;
        if self.sample {
            sample::import_sample(&opened.graph).await?;
        }
        let scheme = if settings.tls.is_some() { "https" } else { "http" };
        opened.data.write_address(&format!("{scheme}://{address}"))?;
        if settings.tls.is_none() && !emergent_api::is_loopback(address) {
            warn!(
                "listening beyond this machine without TLS: tokens travel in the clear; set \
                 EMERGENT_TLS_CERT and EMERGENT_TLS_KEY, or put a proxy with TLS in front"
            );
        }
        print_welcome(&settings, &opened, &format!("{scheme}://{address}"), self.sample);
        let options = ServerOptions {
            limits: ConnectionLimits::for_open_files(raise_open_files()),
            tls: settings.tls.clone(),
        };
        serve(listener, opened, options).await
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "each task ends with the `stop` channel, and is awaited at the end for `GRACE`"
)]
async fn serve(listener: TcpListener, opened: Services, options: ServerOptions) -> Result<()> {
    let (stop, stopping) = watch::channel(false);
    let (graph, stop_worker) = (opened.graph.clone(), stopping.clone());
    let worker = tokio::spawn(async move { graph.run_embedder(stop_worker).await });
    let runner = {
        let (executor, stop_runner) = (opened.executor.clone(), stopping.clone());
        tokio::spawn(async move { executor.run(stop_runner).await })
    };
    let dispatcher = {
        let (dispatcher, stop_dispatcher) = (opened.dispatcher.clone(), stopping.clone());
        tokio::spawn(async move { dispatcher.run(stop_dispatcher).await })
    };
    let triggers = {
        let (executor, stop_triggers) = (opened.executor.clone(), stopping.clone());
        tokio::spawn(async move { executor.run_triggers(stop_triggers).await })
    };
    let servers = {
        let (servers, stop_servers) = (opened.servers.clone(), stopping.clone());
        tokio::spawn(async move { servers.run(stop_servers).await })
    };
    let (graph, stop_housekeeping) = (opened.graph.clone(), stopping.clone());
    let housekeeping = tokio::spawn(async move { graph.run_housekeeping(stop_housekeeping).await });
    let router = emergent_api::router(opened.app.clone());
    let mut server = tokio::spawn(server::serve(listener, router, options, stopping.clone()));
    tokio::select! {
        () = shutdown_signal() => info!("stopping"),
        ended = &mut server => {
            warn!("the listener ended by itself");
            return ended.map_err(|error| Error::Unexpected(error.to_string()))?.map_err(Error::Io);
        }
    }
    let _ = stop.send(true);
    // Event streams have no end of their own.
    opened.app.close();
    tokio::select! {
        ended = tokio::time::timeout(GRACE, server) => if ended.is_err() {
            warn!("some requests did not end within {} seconds and were dropped", GRACE.as_secs());
        },
        () = shutdown_signal() => warn!("told twice: requests that had not ended were dropped"),
    }
    // What the workers had not finished is on record, and goes on at the next start.
    let workers = async { tokio::join!(worker, runner, dispatcher, triggers, servers, housekeeping) };
    let _ = tokio::time::timeout(GRACE, workers).await;
    opened.data.remove_address();
    Ok(())
}

/// Raises the limit of open files as far as the system allows, and returns it.
fn raise_open_files() -> u64 {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Keeps other programs of the same user, such as MCP servers that this server starts, from reading its
/// memory and environment, which hold keys and tokens. It also means that no core file is written.
fn protect_memory() {
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)
    {
        warn!(%error, "programs of the same user can read this server's memory");
    }
}

/// Ctrl-C, or the system asking to end.
async fn shutdown_signal() {
    let interrupt = tokio::signal::ctrl_c();
    #[cfg(unix)]
    {
        let terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate());
        if let Ok(mut terminate) = terminate {
            tokio::select! { _ = interrupt => {}, _ = terminate.recv() => {} }
            return;
        }
    }
    let _ = interrupt.await;
}

/// Says where the server is and, on a first start, how to get in.
fn print_welcome(settings: &Settings, opened: &Services, address: &str, sample: bool) {
    let engine = opened.graph.db().engine().name();
    info!(%address, engine, "listening");
    let mut text = format!("Emergent listens on {address}  ({engine})\n");
    let token_file = settings.data_dir.join("admin-token");
    if opened.token_is_new || sample {
        text.push_str(&format!("  admin token  {}\n", opened.admin_token));
    }
    if opened.token_is_new {
        text.push_str(&format!("               (kept in {}; not printed again)\n", token_file.display()));
    } else if !sample && config::env_value("EMERGENT_ADMIN_TOKEN").is_none() {
        text.push_str(&format!("  admin token  in {}\n", token_file.display()));
    }
    text.push_str(&format!("  API          {address}/api/docs\n"));
    if sample {
        let server = if settings.data_dir.as_os_str() == "data" {
            String::new()
        } else {
            format!(" --data-dir {}", settings.data_dir.display())
        };
        let program = std::env::args().next().unwrap_or_else(|| "emergent".to_owned());
        text.push_str(&format!(
            "\nTry, in another terminal:\n\
             \x20 {program} graph search \"who shaped early computing\"{server}\n\
             \x20 {program} graph traverse Person/ada-lovelace --depth 2{server}\n\
             \x20 curl -s -H 'Authorization: Bearer {}' {address}/api/graph/objects?type=Person\n",
            opened.admin_token
        ));
    }
    // Logs go to stderr; this is for the person who started it, who may have closed the ears.
    let _ = output::print_line(&text);
}
