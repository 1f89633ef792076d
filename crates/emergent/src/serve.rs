//! `emergent serve`: the server, until it is told to stop.

use std::{net::SocketAddr, time::Duration};

use axum::serve::ListenerExt;
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
        let opened = services::open_services(&settings).await?;
        if self.sample {
            sample::import_sample(&opened.graph).await?;
        }
        opened.data.write_address(&format!("http://{address}"))?;
        print_welcome(&settings, &opened, address, self.sample);
        serve(listener, opened).await
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "each task ends with the `stop` channel, and is awaited at the end for `GRACE`"
)]
async fn serve(listener: TcpListener, opened: Services) -> Result<()> {
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
    // Answers are small: waiting to fill a packet would only cost time.
    let listener = listener.tap_io(|stream| {
        let _ = stream.set_nodelay(true);
    });
    let mut told = stopping.clone();
    let server = axum::serve(listener, emergent_api::router(opened.app.clone()))
        .with_graceful_shutdown(async move {
            let _ = told.wait_for(|stop| *stop).await;
        })
        .into_future();
    let mut server = tokio::spawn(server);
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
fn print_welcome(settings: &Settings, opened: &Services, address: SocketAddr, sample: bool) {
    let engine = opened.graph.db().engine().name();
    info!(%address, engine, "listening");
    let mut text = format!("Emergent listens on http://{address}  ({engine})\n");
    let token_file = settings.data_dir.join("admin-token");
    if opened.token_is_new || sample {
        text.push_str(&format!("  admin token  {}\n", opened.admin_token));
    }
    if opened.token_is_new {
        text.push_str(&format!("               (kept in {}; not printed again)\n", token_file.display()));
    } else if !sample && config::env_value("EMERGENT_ADMIN_TOKEN").is_none() {
        text.push_str(&format!("  admin token  in {}\n", token_file.display()));
    }
    text.push_str(&format!("  API          http://{address}/api/docs\n"));
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
             \x20 curl -s -H 'Authorization: Bearer {}' http://{address}/api/graph/objects?type=Person\n",
            opened.admin_token
        ));
    }
    // Logs go to stderr; this is for the person who started it, who may have closed the ears.
    let _ = output::print_line(&text);
}
