//! The three participants of the shop, each behind a proxy.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use amends_shop::{Lie, Line, Options, Participant};
use anyhow::{Context as _, Result};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::proxy::Proxy;

/// Their names.
pub const NAMES: [&str; 3] = ["inventory", "payment", "shipping"];

/// What faults are drawn from, and how the participants lie.
#[derive(Debug, Clone, Copy, Default)]
pub struct Conduct {
    /// What faults are drawn from.
    pub seed: u64,
    /// The share of requests that meet a fault at the participant.
    pub fault_rate: f64,
    /// The share of requests that meet trouble on their way.
    pub trouble_rate: f64,
    /// How participants break their word: then the comparison must fail.
    pub lie: Option<Lie>,
}

/// One of them.
#[derive(Debug)]
struct Shop {
    name: &'static str,
    participant: Participant,
    proxy: Proxy,
    stop: oneshot::Sender<()>,
    serving: JoinHandle<()>,
}

/// All of them.
#[derive(Debug)]
pub struct Shops {
    shops: Vec<Shop>,
    met: Arc<Mutex<BTreeMap<&'static str, u32>>>,
}

impl Shops {
    /// Opens them, their books in `folder`.
    ///
    /// # Errors
    /// If a file or an address is missing.
    pub async fn open(folder: &Path, conduct: Conduct) -> Result<Self> {
        let Conduct { seed, fault_rate, trouble_rate, lie } = conduct;
        let met: Arc<Mutex<BTreeMap<&'static str, u32>>> = Arc::default();
        let mut shops = Vec::new();
        for name in NAMES {
            let counted = met.clone();
            let participant = Participant::open(Options {
                name: name.to_owned(),
                folder: folder.to_owned(),
                seed,
                fault_rate,
                crash_at: None,
                lie,
                met: Arc::new(move |fault| {
                    *counted.lock().unwrap_or_else(PoisonError::into_inner).entry(fault).or_default() += 1;
                }),
            })?;
            let listener = TcpListener::bind("127.0.0.1:0").await?;
            let proxy = Proxy::start(listener.local_addr()?).await?;
            if trouble_rate > 0.0 {
                proxy.draw(name, seed, trouble_rate);
            }
            let (stop, stopped) = oneshot::channel();
            let serving = tokio::spawn({
                let participant = participant.clone();
                async move {
                    participant
                        .serve(listener, async {
                            let _ = stopped.await;
                        })
                        .await;
                }
            });
            shops.push(Shop { name, participant, proxy, stop, serving });
        }
        Ok(Self { shops, met })
    }

    /// The proxy before one of them.
    ///
    /// # Errors
    /// If there is none of this name.
    pub fn proxy(&self, name: &str) -> Result<&Proxy> {
        let shop = self.shops.iter().find(|shop| shop.name == name);
        Ok(&shop.with_context(|| format!("there is no shop {name}"))?.proxy)
    }

    /// `[participants.NAME]` sections of `amends.toml` for all of them.
    #[must_use]
    pub fn config(&self) -> String {
        self.shops.iter().map(|shop| section(shop.name, shop.proxy.at)).collect()
    }

    /// Ends all faults and troubles.
    pub fn calm(&self) {
        for shop in &self.shops {
            shop.participant.calm();
            shop.proxy.calm();
        }
    }

    /// Every fault and trouble met so far, by name.
    #[must_use]
    pub fn met(&self) -> BTreeMap<&'static str, u32> {
        let mut all = self.met.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for (name, times) in self.shops.iter().flat_map(|shop| shop.proxy.met()) {
            *all.entry(name).or_default() += times;
        }
        all
    }

    /// Stops them; what was still to arrive late has arrived when this returns.
    ///
    /// # Errors
    /// If something on its way never arrives.
    pub async fn close(self) -> Result<()> {
        for shop in self.shops {
            shop.proxy.delivered().await?;
            let _ = shop.stop.send(());
            shop.serving.await?;
        }
        Ok(())
    }
}

/// A `[participants.NAME]` section.
#[must_use]
pub fn section(name: &str, at: std::net::SocketAddr) -> String {
    format!("[participants.{name}]\nurl = \"http://{at}\"\n")
}

/// Every line of every ledger in `folder`.
///
/// # Errors
/// If one cannot be read.
pub fn ledgers(folder: &Path) -> Result<Vec<Line>> {
    let mut lines = Vec::new();
    for name in NAMES {
        let file = folder.join("ledgers").join(format!("{name}.jsonl"));
        let read: Vec<Line> = amends_shop::read(&file).with_context(|| file.display().to_string())?;
        lines.extend(read);
    }
    Ok(lines)
}
