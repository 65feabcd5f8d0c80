//! Random histories: which calls are made, in which order. The same seed gives the same history.

use crate::Row;

/// Calls of one history.
pub(super) const CALLS: u64 = 250;

/// Few of everything, so that calls meet each other.
const SAGAS: u64 = 8;
const CLAIMS: u64 = 3;
const NODES: u64 = 3;
pub(super) const STATUSES: [&str; 4] = ["running", "unknown", Row::DEAD, "completed"];

/// A small generator of numbers (splitmix64): the same seed, the same history.
pub(super) struct Random(pub(super) u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn is(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

/// What of a row a call decides; numbers, owners and mails are each store's own.
#[derive(Debug, Clone)]
pub(super) struct Rows {
    pub(super) status: usize,
    pub(super) owner: Option<u64>,
    pub(super) due: Option<bool>,
    pub(super) contradictions: u32,
}

#[derive(Debug, Clone)]
pub(super) enum Part {
    Submit {
        saga: u64,
        fingerprint: u64,
        claims: Vec<u64>,
        row: Rows,
    },
    Advance {
        saga: u64,
        off: i64,
        entries: u64,
        row: Option<Rows>,
        release: bool,
        take: Vec<u64>,
        mail: Option<u64>,
    },
}

#[derive(Debug, Clone)]
pub(super) enum Kind {
    Commit(Vec<Part>),
    ClaimDue { node: u64, limit: usize },
    TakeOver { node: u64, limit: usize },
    Claim { node: u64, saga: u64 },
    Join { node: u64 },
    Renew { node: u64 },
    Leave { node: u64 },
    Post { saga: u64, input: u64 },
    Prune { limit: usize },
    Read { saga: u64 },
    Count,
    List { status: Option<usize>, limit: usize },
}

/// One call, made to both stores.
#[derive(Debug, Clone)]
pub(super) struct Call {
    pub(super) seed: u64,
    pub(super) nth: u64,
    pub(super) kind: Kind,
}

impl Call {
    pub(super) fn random(random: &mut Random, seed: u64, nth: u64) -> Self {
        let saga = random.below(SAGAS);
        let node = random.below(NODES);
        let limit = usize::try_from(1 + random.below(4)).expect("a small number");
        let kind = match random.below(100) {
            0..50 => Kind::Commit((0..=random.below(4)).map(|_| part(random)).collect()),
            50..55 => Kind::ClaimDue { node, limit },
            55..60 => Kind::TakeOver { node, limit },
            60..64 => Kind::Claim { node, saga },
            64..67 => Kind::Join { node },
            67..69 => Kind::Renew { node },
            69..72 => Kind::Leave { node },
            72..80 => Kind::Post { saga, input: random.below(4) },
            80..83 => Kind::Prune { limit },
            83..90 => Kind::Read { saga },
            90..95 => Kind::Count,
            _ => {
                let status = random.is(70).then(|| index(random.below(4)));
                Kind::List { status, limit }
            }
        };
        Self { seed, nth, kind }
    }

    pub(super) fn id(&self, saga: u64) -> String {
        format!("{}:{saga}", self.seed)
    }
}

fn part(random: &mut Random) -> Part {
    let saga = random.below(SAGAS);
    if random.is(30) {
        let claims = (0..CLAIMS).filter(|_| random.is(25)).collect();
        return Part::Submit { saga, fingerprint: u64::from(random.is(15)), claims, row: rows(random) };
    }
    Part::Advance {
        saga,
        off: if random.is(85) { 0 } else { i64::try_from(random.below(3)).expect("a small number") - 1 },
        entries: random.below(3),
        row: random.is(50).then(|| rows(random)),
        release: random.is(30),
        take: (0..CLAIMS).filter(|_| random.is(10)).collect(),
        mail: random.is(40).then(|| random.below(40)),
    }
}

fn rows(random: &mut Random) -> Rows {
    Rows {
        status: index(random.below(4)),
        owner: random.is(50).then(|| random.below(NODES)),
        due: random.is(50).then(|| random.is(50)),
        contradictions: u32::from(random.is(20)),
    }
}

pub(super) fn index(number: u64) -> usize {
    usize::try_from(number).expect("a small number")
}
