//! A sweep over all keys: records of other programs are adopted, and what an index lacks is put back.

use redis::Value;

use crate::client::Error;
use crate::log::{ADOPT, BusinessId, Log, Words, threshold};

use super::{Failure, Parked, Report, Scanner, concerns_all, each};

/// How many keys the server looks at in one step. Small enough that nobody waits for it.
const KEYS_PER_STEP: usize = 100;

/// What became of one record.
enum Swept {
    Kept,
    Adopted,
    Parked(String),
    Foreign(Foreign),
}

/// A record that another program wrote.
struct Foreign {
    id: BusinessId,
    status: Vec<u8>,
    created_at: u64,
    rollback_cmd: Vec<u8>,
}

impl Scanner {
    /// Goes through the keys of every primary, a page at a time.
    pub(super) async fn sweep(&self, report: &mut Report) -> Result<(), Error> {
        let client = self.log.client();
        for (address, _) in client.on_each_primary(redis::cmd("DBSIZE")).await? {
            let mut cursor = b"0".to_vec();
            loop {
                let mut scan = redis::cmd("SCAN");
                scan.arg(&cursor).arg("MATCH").arg("compensate_log:*").arg("COUNT").arg(KEYS_PER_STEP);
                scan.arg("TYPE").arg("hash");
                let (next, keys) = page(client.on_primary(&address, scan).await?)?;
                self.adopt_all(keys, report).await?;
                cursor = next;
                if cursor == b"0" {
                    break;
                }
            }
        }
        Ok(())
    }

    async fn adopt_all(&self, keys: Vec<Vec<u8>>, report: &mut Report) -> Result<(), Error> {
        let ids: Vec<_> = keys.iter().filter_map(|key| BusinessId::of_key(key)).collect();
        let looked = each(ids.iter().map(|id| look(self.log.clone(), id.clone())).collect()).await;
        let mut foreign = Vec::new();
        for (id, swept) in ids.iter().zip(looked) {
            match note(id, swept, report)? {
                Some(Swept::Foreign(record)) => foreign.push(record),
                Some(Swept::Kept | Swept::Adopted | Swept::Parked(_)) | None => {}
            }
        }
        foreign.sort_by(|a, b| (a.created_at, &a.id).cmp(&(b.created_at, &b.id)));
        for record in foreign {
            let id = record.id.clone();
            let swept = adopt(&self.log, record, threshold(self.options.threshold)).await;
            note(&id, swept, report)?;
        }
        Ok(())
    }
}

/// Writes into the report what became of a record, and gives it back if there was no error.
fn note(id: &BusinessId, swept: Result<Swept, Error>, report: &mut Report) -> Result<Option<Swept>, Error> {
    match swept {
        Ok(swept) => {
            match &swept {
                Swept::Adopted => report.adopted += 1,
                Swept::Parked(reason) => {
                    report.parked.push(Parked { id: id.clone(), reason: reason.clone() })
                }
                Swept::Kept | Swept::Foreign(_) => {}
            }
            Ok(Some(swept))
        }
        Err(error) if concerns_all(&error) => Err(error),
        Err(error) => {
            report.failures.push(Failure { what: id.to_string(), error });
            Ok(None)
        }
    }
}

async fn look(log: Log, id: BusinessId) -> Result<Swept, Error> {
    let answer = log.call(&ADOPT, &id, &[], &[b"look".to_vec()]).await?;
    read(Words::new(&ADOPT, answer)?, id)
}

/// Takes over one record: with its text as a command, or parked with the reason why it is none.
async fn adopt(log: &Log, record: Foreign, threshold: Vec<u8>) -> Result<Swept, Error> {
    let commands = match record.status.as_slice() {
        b"pending" => log.parse_foreign(&record.id, &record.rollback_cmd),
        other => Err(format!(
            "its status {:?} is none of pending, committed and compensated",
            String::from_utf8_lossy(other)
        )),
    };
    let mut arguments = vec![threshold, record.rollback_cmd];
    let answer = match &commands {
        Ok(commands) => {
            arguments.push(b"commands".to_vec());
            commands.append_to(&mut arguments);
            log.call(&ADOPT, &record.id, &commands.keys(), &arguments).await?
        }
        Err(reason) => {
            arguments.push(b"park".to_vec());
            arguments.push(reason.clone().into_bytes());
            log.call(&ADOPT, &record.id, &[], &arguments).await?
        }
    };
    match (read(Words::new(&ADOPT, answer)?, record.id)?, commands) {
        (Swept::Parked(_), Err(reason)) => Ok(Swept::Parked(reason)),
        // Another program changed it in between: the next sweep sees it again.
        (Swept::Foreign(_), _) => Ok(Swept::Kept),
        (swept, _) => Ok(swept),
    }
}

fn read(mut words: Words, id: BusinessId) -> Result<Swept, Error> {
    match words.text()?.as_str() {
        "kept" | "absent" => Ok(Swept::Kept),
        "adopted" => Ok(Swept::Adopted),
        "parked" => Ok(Swept::Parked(String::new())),
        "foreign" => {
            let (status, created_at) = (words.next()?, words.text()?);
            // What has no time comes first.
            let created_at = created_at.parse().unwrap_or(0);
            Ok(Swept::Foreign(Foreign { id, status, created_at, rollback_cmd: words.next()? }))
        }
        _ => Err(words.unreadable()),
    }
}

/// The cursor and the keys that SCAN gave.
fn page(answer: Value) -> Result<(Vec<u8>, Vec<Vec<u8>>), Error> {
    redis::from_redis_value(answer.clone()).map_err(|_| Error::unreadable("SCAN", &answer))
}
