//! `amends serve`: configuration → store → engine → API, until somebody says stop.

use std::future::Future;
use std::io::{IsTerminal as _, stderr};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use amends_engine::{Engine, SystemClock};
use amends_participants::CallbackUrl;
use amends_server::App;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;

use crate::args::Serve;
use crate::config::Config;
use crate::exit::{Exit, Failure};
use crate::output::{print, say};
use crate::stdin;
use crate::stores::StoreUrl;

/// What is logged unless `AMENDS_LOG` says otherwise.
const LOG: &str = "info";
/// How long calls in flight may take to end when the engine stops. Nothing depends on it: what does not end is taken up again.
const ENGINE_GRACE: Duration = Duration::from_secs(5);

/// Serves until SIGTERM or SIGINT; a second one ends it at once, which loses nothing either.
pub(crate) async fn run(serve: Serve) -> Result<Exit, Failure> {
    log();
    let (mut config, file) = Config::load(serve.config.as_deref())?;
    if let Some(listen) = serve.listen {
        config.server.listen = listen;
    }
    let store_url = StoreUrl::parse(serve.store.as_deref().unwrap_or(&config.store.url))?;
    let scanned = config.redis.as_ref().map(|redis| {
        Ok::<_, Failure>((crate::stores::plain_url(&redis.url, "[redis] url")?, redis.scan_interval))
    });
    let scanned = scanned.transpose()?;
    let address = config.server.listen_address().map_err(wrong)?;
    let settings =
        amends_server::Settings::new(&config.server, &|name| std::env::var(name).ok()).map_err(wrong)?;
    if let Some(file) = file {
        tracing::info!("read {}", file.display());
    }

    let listener = TcpListener::bind(address).await.map_err(|e| cannot_listen(address, &e))?;
    let address = listener.local_addr().map_err(|e| cannot_listen(address, &e))?;
    let public_url = config.server.public_url(address);
    if config.server.public_url.is_none() && address.ip().is_unspecified() {
        tracing::warn!(
            "[server] public_url is not set: participants are told to call back at {public_url}, which no other machine can reach"
        );
    }
    let callback = CallbackUrl::new(&public_url).map_err(|e| wrong(format!("[server] public_url {e}")))?;
    let participants = crate::participants::open(config.participants.clone(), Some(callback));
    let participants = Arc::new(participants.map_err(|problems| {
        wrong(problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n       "))
    })?);
    let stop = stop_signals(serve.stop_with_stdin)?;
    let identity = store_url.identity(&config.store.data)?;
    let (store, locks) = store_url.open_with_locks(Some(&config.store.data)).await?;

    let mut engine_config = amends_engine::Config::new(identity.name(), uuid::Uuid::new_v4().as_u64_pair().0);
    engine_config.participants = Some(config.participants.keys().cloned().collect());
    engine_config.retention = Some(config.store.retention);
    let engine = Engine::start(engine_config, store, participants.clone(), Arc::new(SystemClock)).await;
    let engine = engine.map_err(|e| Failure::failed(e.to_string(), "`amends doctor` looks at the store"))?;
    let app = App::new(engine.clone(), locks, participants, &config.participants, settings);

    let scanner = scanned
        .map(|(url, interval)| tokio::spawn(crate::commands::redis::scan::beside_engine(url, interval)));
    print(&format!("amends listening on http://{address}\n"))?;
    let served = amends_server::serve(listener, app, stop).await;
    if let Some(scanner) = scanner {
        // Every call of it is one atomic step: stopped at any moment, it leaves nothing half done.
        scanner.abort();
    }
    engine.stop(ENGINE_GRACE).await;
    tracing::info!("stopped");
    served.map_err(|e| wrong(e.to_string()))?;
    Ok(Exit::Done)
}

fn log() {
    let wanted = std::env::var("AMENDS_LOG").unwrap_or_else(|_| LOG.to_owned());
    let filter = EnvFilter::try_new(&wanted).unwrap_or_else(|e| {
        say(&format!("AMENDS_LOG is no filter ({e}); logging `{LOG}`. Write it as debug, or as amends_engine=debug,info"));
        EnvFilter::new(LOG)
    });
    let color = stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    // It fails only if there is a subscriber already, and there is none.
    let _ = tracing_subscriber::fmt().with_env_filter(filter).with_writer(stderr).with_ansi(color).try_init();
}

/// What the server waits for to stop. The signals are taken over at once, so that one that comes early is not lost.
fn stop_signals(with_stdin: bool) -> Result<impl Future<Output = ()>, Failure> {
    let broken = |e: std::io::Error| {
        Failure::failed(format!("signals cannot be handled: {e}"), "check the system's limits")
    };
    let mut terminate = signal(SignalKind::terminate()).map_err(broken)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(broken)?;
    Ok(async move {
        let stdin_ended =
            async { if with_stdin { stdin::ended().await } else { std::future::pending().await } };
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            () = stdin_ended => {}
        }
        tracing::info!("stopping");
        tokio::spawn(async move {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            tracing::warn!("told twice to stop: ending at once");
            std::process::exit(Exit::Failed.number().into());
        });
    })
}

fn wrong(what: String) -> Failure {
    Failure::usage(
        what,
        "correct amends.toml, the flag or the variable named; flags go before AMENDS_*, those before amends.toml",
    )
}

fn cannot_listen(address: SocketAddr, error: &std::io::Error) -> Failure {
    let next = match error.kind() {
        std::io::ErrorKind::AddrInUse => {
            "another server runs there: stop it, or name another port with --listen (0 takes a free one)"
        }
        std::io::ErrorKind::PermissionDenied => {
            "take a port above 1023, or give the process the right to use this one"
        }
        _ => "name an address of this machine with --listen",
    };
    Failure::failed(format!("{address} cannot be listened on: {error}"), next)
}
