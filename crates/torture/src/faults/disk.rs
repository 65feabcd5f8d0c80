//! Disks that are full, broken or read-only, under a store that writes to them itself.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use crate::engine::Engine;
use crate::ground::{Market, Setting, folder, order};
use crate::patience::until;
use crate::shops::Conduct;
use crate::small_disk::SmallDisk;
use crate::store::StoreUrl;

const DISK_BYTES: u64 = 24 << 20;
const BALLAST_BYTES: usize = 16 << 20;
/// Orders with a long note, so that a small disk is soon full.
const NOTE_BYTES: usize = 200_000;
const ORDERS_MAX: usize = 2_000;

fn long_order() -> Value {
    let mut order = order();
    // No two bytes alike for long: a store may compress what it keeps.
    let mut draw = 0x2545_f491_4f6c_dd1d_u64;
    let note: String = std::iter::repeat_with(|| {
        draw ^= draw << 13;
        draw ^= draw >> 7;
        draw ^= draw << 17;
        char::from(b'0' + (draw % 75) as u8)
    })
    .filter(|letter| letter.is_ascii_alphanumeric())
    .take(NOTE_BYTES)
    .collect();
    order["note"] = note.into();
    order
}

/// Orders until the store takes no more; gives the ids of those that were acknowledged, and what the last one was told.
pub(super) async fn order_until_refused(market: &Market) -> Result<(Vec<String>, String)> {
    let mut acknowledged = Vec::new();
    let input = long_order();
    for n in 0..ORDERS_MAX {
        let id = format!("order-{n}");
        let submission = json!({ "saga": "demo-order", "id": id, "input": input });
        let answer = market.ground.api.post("/v1/sagas", &submission).await?;
        match answer.status {
            201 => acknowledged.push(id),
            503 if answer.problem() == "store-unavailable" => return Ok((acknowledged, answer.text)),
            // Too many in memory at once: they are let go on.
            503 => tokio::time::sleep(std::time::Duration::from_millis(50)).await,
            _ => answer.expect(201).map(drop)?,
        }
    }
    anyhow::bail!("{ORDERS_MAX} orders, and the disk took them all")
}

/// Whether the engine says that it is not ready, and why.
pub(super) async fn is_unready(market: &Market, words: &str) -> Result<()> {
    until("it says that it is not ready", || async {
        let ready = market.ground.api.get("/readyz").await?;
        Ok((ready.status == 503 && ready.text.contains(words)).then_some(()))
    })
    .await?;
    let alive = market.ground.api.get("/healthz").await?;
    ensure!(alive.status == 200, "whoever looks whether it lives would restart it: {}", alive.text);
    Ok(())
}

/// What was acknowledged is there, also while nothing can be written.
pub(super) async fn all_are_there(market: &Market, ids: &[String]) -> Result<()> {
    for id in ids {
        let saga = market.ground.api.saga(id).await?;
        ensure!(saga["input"]["note"].as_str().map(str::len) == Some(NOTE_BYTES), "{id} is not whole");
    }
    Ok(())
}

pub(super) async fn disk_is_full(store: StoreUrl) -> Result<()> {
    if !store.is_embedded() {
        return Ok(());
    }
    let Some(disk) = SmallDisk::mount(DISK_BYTES)? else {
        // Without the right to mount, a limit on the size of files is what there is.
        return disk_fails(store).await;
    };
    let ballast = disk.path().join("ballast");
    fs::write(&ballast, vec![0; BALLAST_BYTES])?;
    let setting = Setting { store: Some(store.fresh(disk.path())?), ..Setting::default() };
    let market = Market::set(&store, folder(&store)?, Conduct::default(), setting).await?;
    let (mut ids, told) = order_until_refused(&market).await?;
    ensure!(told.contains("no room left") && told.contains("amends.db"), "{told}");
    is_unready(&market, "no room left").await?;
    all_are_there(&market, &ids).await?;
    fs::remove_file(&ballast)?;
    until("it is ready again by itself", || async {
        Ok((market.ground.api.get("/readyz").await?.status == 200).then_some(()))
    })
    .await?;
    market.ground.api.start("demo-order", "afterwards", &order()).await?;
    ids.push("afterwards".into());
    ensure!(ids.len() > 3, "only {} orders fit: nothing was shown", ids.len());
    let settled = market.settle_clean(&ids).await?;
    ensure!(settled.verdict.completed == ids.len(), "{:?}", settled.verdict);
    Ok(())
}

pub(super) async fn disk_fails(store: StoreUrl) -> Result<()> {
    if !store.is_embedded() {
        return Ok(());
    }
    let setting = Setting { write_errors: true, ..Setting::default() };
    let mut market = Market::set(&store, folder(&store)?, Conduct::default(), setting).await?;
    let largest =
        fs::read_dir(market.folder())?.filter_map(|file| file.ok()?.metadata().ok()).map(|meta| meta.len());
    let limit = largest.max().context("there is no file")? + (4 << 20);
    market.ground.engine.limit_files(Some(limit))?;
    let (mut ids, _) = order_until_refused(&market).await?;
    is_unready(&market, "restart").await?;
    // The limit was the process's own: the next one has none.
    market.ground.kill_and_restart().await?;
    all_are_there(&market, &ids).await?;
    market.ground.api.start("demo-order", "afterwards", &order()).await?;
    ids.push("afterwards".into());
    ensure!(ids.len() > 3, "only {} orders fit: nothing was shown", ids.len());
    // One that was cut off may be there after all: nobody was told so, but its effects would be its own.
    let cut_off = format!("order-{}", ids.len() - 1);
    if market.ground.api.look(&crate::api::saga_path(&cut_off)).await?.status == 200 {
        ids.push(cut_off);
    }
    let settled = market.settle_clean(&ids).await?;
    ensure!(settled.verdict.completed == ids.len(), "{:?}", settled.verdict);
    Ok(())
}

/// A folder that nobody may write to, not even root.
enum ReadOnly {
    Disk(SmallDisk),
    Modes(Vec<std::path::PathBuf>),
}

impl ReadOnly {
    fn set(&self, on: bool) -> Result<()> {
        match self {
            Self::Disk(disk) => disk.read_only(on),
            Self::Modes(files) => {
                for file in files {
                    let mode = if on { 0o555 } else { 0o755 };
                    fs::set_permissions(file, fs::Permissions::from_mode(mode))?;
                }
                Ok(())
            }
        }
    }
}

fn everything_in(folder: &Path) -> Result<Vec<std::path::PathBuf>> {
    let files = fs::read_dir(folder)?.map(|file| Ok(file?.path()));
    files.chain([Ok(folder.to_owned())]).collect()
}

pub(super) async fn file_is_read_only(store: StoreUrl) -> Result<()> {
    if !store.is_embedded() {
        return Ok(());
    }
    let folder = folder(&store)?;
    let disk = SmallDisk::mount(DISK_BYTES)?;
    let at = match &disk {
        Some(disk) => disk.path().to_owned(),
        None => folder.path().join("disk"),
    };
    fs::create_dir_all(&at)?;
    let setting = Setting { store: Some(store.fresh(&at)?), ..Setting::default() };
    let mut market = Market::set(&store, folder, Conduct::default(), setting).await?;
    let ids: Vec<String> = (0..8).map(|n| format!("order-{n}")).collect();
    for id in &ids {
        market.ground.api.start("demo-order", id, &order()).await?;
    }
    market.ground.engine.kill().await?;
    let read_only = match disk {
        Some(disk) => ReadOnly::Disk(disk),
        None => ReadOnly::Modes(everything_in(&at)?),
    };
    read_only.set(true)?;
    let start = market.ground.engine.start_with().clone();
    let (code, told) = Engine::start_in_vain(&start).await?;
    ensure!(
        code == Some(1) && told.contains("amends.db") && told.contains("next: check the folder"),
        "{code:?}: {told}"
    );
    read_only.set(false)?;
    market.ground.engine.start_again().await?;
    let settled = market.settle_clean(&ids).await?;
    ensure!(settled.verdict.completed == ids.len(), "{:?}", settled.verdict);
    drop(read_only);
    Ok(())
}
