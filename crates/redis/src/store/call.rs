//! A call of the commit function; `functions/store/commit.lua` says its form.

use std::collections::{HashMap, HashSet};

use amends_core::SagaId;
use amends_store::{Advance, Error, Item, Kind, StoredEntry, Submission};

use super::encode;
use super::words::Arguments;

/// The saga that an item is of.
pub(super) fn saga_of(item: &Item) -> &SagaId {
    match item {
        Item::Submit(submission) => &submission.row.id,
        Item::Advance(advance) => &advance.id,
    }
}

/// The arguments of one call, while its items are added. There are at most 255: a place is one byte.
pub(super) struct CommitCall<'a> {
    /// The sagas; their places are counted from 1, as Lua does.
    sagas: Vec<&'a SagaId>,
    places: HashMap<&'a SagaId, u8>,
    /// How many of them, the first, have a row that is looked at.
    looked_at: usize,
    /// Sagas that an item has been added of.
    begun: HashSet<u8>,
    plan: Vec<u8>,
    claims: Arguments,
    words: Arguments,
    entries: Arguments,
}

impl<'a> CommitCall<'a> {
    /// A call for these items, which are to be added in their order.
    pub(super) fn of(items: &'a [Item]) -> Self {
        let mut call = Self {
            sagas: Vec::new(),
            places: HashMap::new(),
            looked_at: 0,
            begun: HashSet::new(),
            plan: Vec::with_capacity(items.len() * 6),
            claims: Arguments::default(),
            words: Arguments::default(),
            entries: Arguments::default(),
        };
        let looks = |item: &Item| matches!(item, Item::Advance(advance) if !only_appends(advance));
        items.iter().filter(|item| looks(item)).for_each(|item| call.place(saga_of(item)));
        call.looked_at = call.sagas.len();
        items.iter().for_each(|item| call.place(saga_of(item)));
        call
    }

    fn place(&mut self, id: &'a SagaId) {
        if !self.places.contains_key(id) {
            self.sagas.push(id);
            let place = u8::try_from(self.sagas.len()).expect("invariant: a call has few items");
            self.places.insert(id, place);
        }
    }

    /// Adds an item. One that is refused is added as such: what stands on it must not be committed. `lost`: sagas of which an earlier part of
    /// the batch was not committed.
    pub(super) fn add(&mut self, item: &Item, lost: &HashSet<SagaId>) -> Result<(), Error> {
        let place = self.places[saga_of(item)];
        let is_first = self.begun.insert(place);
        let is_advance = matches!(item, Item::Advance(_));
        if is_first && is_advance && lost.contains(saga_of(item)) {
            self.refuse(place);
        }
        let added = item.check().and_then(|()| match item {
            Item::Submit(submission) => self.add_submission(place, submission),
            Item::Advance(advance) if only_appends(advance) => self.add_append(place, advance),
            Item::Advance(advance) => self.add_advance(place, advance),
        });
        if added.is_err() && is_advance {
            self.refuse(place);
        }
        added
    }

    fn add_submission(&mut self, place: u8, submission: &Submission) -> Result<(), Error> {
        let Submission { row, entries, claims, fingerprint, nonce } = submission;
        let given = encode::given(row, fingerprint)?;
        let written = encode::written(row, entries.len() as u64, claims)?;
        self.header(b's', place, entries.len() + 1, &[claims.len()])?;
        self.words.add(written);
        if !claims.is_empty() {
            self.words.add(encode::hold(row.created_at, &row.id));
        }
        self.add_claims(claims);
        self.entries.add(encode::field(&row.id, 0)).add(given);
        self.add_entries(&row.id, entries, *nonce);
        Ok(())
    }

    fn add_append(&mut self, place: u8, advance: &Advance) -> Result<(), Error> {
        self.header(b'p', place, advance.entries.len(), &[])?;
        self.add_heads(advance);
        self.add_entries(&advance.id, &advance.entries, advance.nonce);
        Ok(())
    }

    fn add_advance(&mut self, place: u8, advance: &Advance) -> Result<(), Error> {
        let Advance { id, rowid: _, after: _, entries, row, release_claims, take_claims, mail, nonce } =
            advance;
        let row = row.as_ref().map(|row| encode::written(row, last(advance), &[])).transpose()?;
        self.header(b'a', place, entries.len(), &[take_claims.len(), mail.len()])?;
        self.plan.extend([u8::from(row.is_some()), u8::from(*release_claims)]);
        self.add_heads(advance);
        if let Some(row) = row {
            self.words.add(row);
        }
        if !take_claims.is_empty() {
            self.words.add(encode::hold(advance.at(), id));
        }
        for (mail, answer) in mail {
            self.words.number(mail).add(answer.as_slice());
        }
        self.add_claims(take_claims);
        self.add_entries(id, entries, *nonce);
        Ok(())
    }

    /// What an item's part of the plan begins with. Either all of it is added or nothing.
    fn header(&mut self, kind: u8, place: u8, entries: usize, more: &[usize]) -> Result<(), Error> {
        let mut counts = Vec::with_capacity(6);
        for count in [entries].iter().chain(more) {
            let count = u16::try_from(*count).map_err(|_| {
                Error::new(
                    Kind::Refused,
                    format!("an item with {count} entries, claims or mails is too large for the store"),
                )
            })?;
            counts.extend(count.to_be_bytes());
        }
        self.plan.extend([kind, place]);
        self.plan.extend(counts);
        Ok(())
    }

    fn refuse(&mut self, place: u8) {
        self.plan.extend([b'x', place, 0, 0]);
    }

    fn add_heads(&mut self, advance: &Advance) {
        self.words
            .add(encode::head(advance.rowid, advance.after))
            .add(encode::head(advance.rowid, last(advance)));
    }

    fn add_claims(&mut self, claims: &[String]) {
        for claim in claims {
            self.claims.add(claim.as_bytes());
        }
    }

    fn add_entries(&mut self, id: &SagaId, entries: &[StoredEntry], nonce: u64) {
        for entry in entries {
            self.entries.add(encode::field(id, entry.seq)).add(encode::entry(entry, nonce));
        }
    }

    pub(super) fn finish(self) -> Arguments {
        let count =
            |count: usize| u32::try_from(count).expect("invariant: calls are far smaller").to_be_bytes();
        let mut plan = Vec::with_capacity(16 + self.plan.len());
        for number in [self.sagas.len(), self.looked_at, self.claims.len(), self.words.len()] {
            plan.extend(count(number));
        }
        plan.extend(self.plan);
        let mut arguments = Arguments::default();
        arguments.add(plan);
        for id in self.sagas {
            arguments.add(id.as_str());
        }
        arguments.append(self.claims).append(self.words).append(self.entries);
        arguments
    }
}

/// Whether nothing but entries is written.
fn only_appends(advance: &Advance) -> bool {
    advance.row.is_none()
        && !advance.release_claims
        && advance.take_claims.is_empty()
        && advance.mail.is_empty()
}

/// The number of the last entry when it is committed.
fn last(advance: &Advance) -> u64 {
    advance.after.saturating_add(advance.entries.len() as u64)
}
