//! The limits of an object and of a relationship, for somebody who may write but not read. Whether a change fits would
//! tell what it replaces or repeats: which properties there are, and which items of lists and which labels. So everything
//! that such an author sends counts in addition to everything that is stored.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use emergent_domain::{
    invalid::Invalid,
    object::{NewObject, json_bytes, limits},
    token::Scope,
};
use emergent_store::Tx;
use parking_lot::Mutex;
use serde_json::{Map, Value};
use uuid::Uuid;

use super::{may_read, refusal_of_stored};
use crate::{Error, WriteContext, error::Result};

/// What is stored is rounded up to this size: otherwise the refusals would tell its size to the byte, and with it whether a
/// value is `true` or `false`.
const SIZE_STEP: usize = 64 << 10;

/// How large what a transaction changes was before it, with everything that was sent since. Several writes of one object in a
/// transaction that is not committed would otherwise tell what the first of them replaced.
#[derive(Debug, Clone, Default)]
pub(crate) struct SentSizes(Arc<Mutex<HashMap<Uuid, SentSize>>>);

#[derive(Debug, Clone, Copy)]
struct SentSize {
    /// The size of the properties as JSON.
    bytes: usize,
    labels: usize,
}

impl SentSizes {
    /// Returns the sizes of an object or a relationship, which are those of `stored` if it was not changed before.
    fn get(&self, id: Uuid, stored: Stored<'_>) -> SentSize {
        let mut sizes = self.0.lock();
        *sizes.entry(id).or_insert_with(|| SentSize {
            bytes: json_bytes(stored.properties).checked_next_multiple_of(SIZE_STEP).unwrap_or(usize::MAX),
            labels: stored.labels.len(),
        })
    }

    fn set(&self, id: Uuid, size: SentSize) {
        self.0.lock().insert(id, size);
    }
}

impl SentSize {
    fn with(self, sent: &Map<String, Value>) -> Self {
        // Whoever only removes properties may do so however large the object is.
        match sent.values().any(|value| !value.is_null()) {
            true => Self { bytes: self.bytes.saturating_add(json_bytes(sent)), ..self },
            false => self,
        }
    }
}

/// What is stored of an object or a relationship that is changed.
#[derive(Clone, Copy)]
pub(crate) struct Stored<'a> {
    pub(crate) properties: &'a Map<String, Value>,
    /// Empty for a relationship.
    pub(crate) labels: &'a [String],
}

/// Whether what is written counts as sent by the author. The patch of a merge also has stored content; what was sent has been
/// counted. The server itself and the commands of people on workflows and tasks write what the server chooses, and must
/// succeed. A tool that changes a task, with its links or without, writes what its caller sends.
fn counts(ctx: &WriteContext) -> bool {
    !ctx.writes_stored_content && !ctx.is_trusted_with_tasks()
}

/// Refuses properties that do not fit besides the stored ones, if their author may not read. This does not depend on what is
/// in either of them.
pub(crate) fn check_fits(
    tx: &mut Tx<'_>,
    ctx: &WriteContext,
    (id, stored): (Uuid, Stored<'_>),
    sent: Option<&Map<String, Value>>,
) -> Result<()> {
    if !counts(ctx) {
        return Ok(());
    }
    let before = ctx.sent_sizes.get(id, stored);
    let after = sent.map_or(before, |sent| before.with(sent));
    if after.bytes == before.bytes || after.bytes <= limits::PROPERTIES || may_read(tx, ctx)? {
        return Ok(());
    }
    Err(over_size().into())
}

/// Like [`check_fits`], and counts what is sent, for the later writes of the transaction.
pub(crate) fn count_sent(
    tx: &mut Tx<'_>,
    ctx: &WriteContext,
    (id, stored): (Uuid, Stored<'_>),
    sent: Option<&Map<String, Value>>,
) -> Result<()> {
    check_fits(tx, ctx, (id, stored), sent)?;
    if let Some(sent) = sent.filter(|_| counts(ctx)) {
        ctx.sent_sizes.set(id, ctx.sent_sizes.get(id, stored).with(sent));
    }
    Ok(())
}

/// Like [`count_sent`], for an object that is merged: its labels are added to the stored ones.
pub(crate) fn count_merged(
    tx: &mut Tx<'_>,
    ctx: &WriteContext,
    (id, stored): (Uuid, Stored<'_>),
    new: &NewObject,
) -> Result<()> {
    count_sent(tx, ctx, (id, stored), Some(&new.properties))?;
    let different: BTreeSet<&String> = new.labels.iter().collect();
    let size = ctx.sent_sizes.get(id, stored);
    let labels = size.labels + different.len();
    if !different.is_empty() && labels > limits::LABELS && !may_read(tx, ctx)? {
        let reason = format!(
            "would be more than the maximum of {} labels, together with those that are stored; without the scope `{}`, \
             equal ones count twice",
            limits::LABELS,
            Scope::GraphRead
        );
        return Err(Invalid::new("labels", reason).into());
    }
    ctx.sent_sizes.set(id, SentSize { labels, ..size });
    Ok(())
}

/// Returns the error about stored content that exceeds a limit with a change, as the author of the change may see it.
pub(crate) fn refusal_of_size(tx: &mut Tx<'_>, ctx: &WriteContext, error: Invalid) -> Error {
    refusal_of_stored(tx, ctx, error.into(), over_size)
}

fn over_size() -> Invalid {
    let reason = format!(
        "would exceed the maximum of {} bytes of JSON for one object, together with what is stored; without the scope \
         `{}`, all that is stored counts, rounded up to a multiple of {SIZE_STEP}, and what is replaced counts as well",
        limits::PROPERTIES,
        Scope::GraphRead
    );
    Invalid::new("properties", reason)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn text(bytes: usize) -> Map<String, Value> {
        let Value::Object(map) = json!({ "a": "x".repeat(bytes - r#"{"a":""}"#.len()) }) else {
            unreachable!()
        };
        map
    }

    /// The size after these were sent, one after the other.
    fn size(stored: &Map<String, Value>, sent: &[&Map<String, Value>]) -> usize {
        let (sizes, id) = (SentSizes::default(), Uuid::nil());
        let mut stored = stored.clone();
        for sent in sent {
            let size = sizes.get(id, Stored { properties: &stored, labels: &[] }).with(sent);
            sizes.set(id, size);
            stored = Map::clone(sent);
        }
        sizes.get(id, Stored { properties: &stored, labels: &[] }).bytes
    }

    #[test]
    fn what_is_sent_counts_besides_what_is_stored() {
        // The same name in both replaces the stored value, and counts nevertheless.
        assert_eq!(size(&text(10), &[&text(500)]), SIZE_STEP + 500);
        assert_eq!(size(&text(SIZE_STEP), &[&text(500)]), SIZE_STEP + 500);
        assert_eq!(size(&text(SIZE_STEP + 1), &[&text(500), &text(20)]), 2 * SIZE_STEP + 520);
    }

    #[test]
    fn what_is_removed_does_not_count() {
        let Value::Object(removed) = json!({ "a": null }) else { unreachable!() };
        assert_eq!(size(&text(100_000), &[&removed, &text(20)]), 2 * SIZE_STEP + 20);
    }
}
