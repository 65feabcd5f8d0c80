//! The engine of the demo: `amends serve`, as anybody runs it, in a process that is killed.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use amends_shop::Address;

use crate::exit::Failure;
use crate::server_process::ServerProcess;
use crate::stores::data_folder;

/// How long it stays dead, so that submissions and callers notice.
const DEAD_FOR: Duration = Duration::from_millis(150);

/// The process, and what is needed to start it again.
#[derive(Debug)]
pub(super) struct Engine {
    arguments: Vec<OsString>,
    log: PathBuf,
    process: ServerProcess,
    /// How often it was killed and started again.
    pub(super) restarts: u32,
}

impl Engine {
    /// Writes its configuration into `folder` and starts it; it comes back at the same `port`.
    pub(super) async fn start(
        folder: &Path,
        store: &str,
        port: u16,
        participants: &[Address],
    ) -> Result<Self, Failure> {
        let config = folder.join("amends.toml");
        let sections = participants
            .iter()
            .map(|Address { name, at }| format!("[participants.{name}]\nurl = \"http://{at}\"\n"));
        let state = data_folder(folder);
        std::fs::write(&config, state + &sections.collect::<String>()).map_err(|e| {
            Failure::failed(format!("{} cannot be written: {e}", config.display()), "check the disk")
        })?;
        let listen = format!("127.0.0.1:{port}");
        let mut arguments: Vec<OsString> =
            ["serve", "--listen", &listen, "--store", store].map(OsString::from).into();
        arguments.extend(["--config".into(), config.into()]);
        let log = folder.join("engine.log");
        let process = ServerProcess::start(&arguments, &log).await?;
        Ok(Self { arguments, log, process, restarts: 0 })
    }

    /// Where it listens.
    pub(super) fn url(&self) -> &str {
        &self.process.url
    }

    /// `kill -9`, and a new start.
    pub(super) async fn kill_and_restart(&mut self) -> Result<(), Failure> {
        self.process.kill().await?;
        tokio::time::sleep(DEAD_FOR).await;
        self.process = ServerProcess::start(&self.arguments, &self.log).await?;
        self.restarts += 1;
        Ok(())
    }

    /// Asks it to stop and waits until it has.
    pub(super) async fn stop(self) -> Result<(), Failure> {
        self.process.stop().await
    }
}
