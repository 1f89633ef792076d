//! The relationships of an object that is deleted or restored, batch by batch: an object may have more of them
//! than one transaction can write. Their properties are not loaded.

use emergent_domain::{
    ids::{ObjectId, RelationshipId},
    time::Timestamp,
};

use crate::{
    deletion::{Allowance, size_sql},
    error::Result,
    params,
    tx::Tx,
    value::{Param, Row},
};

/// The most relationships that one transaction deletes or restores together with their object. There are fewer
/// if they are large.
pub const CASCADE_BATCH: usize = 1_500;

/// A locked relationship of an object that is deleted or restored.
#[derive(Debug, Clone, PartialEq)]
pub struct CascadeEdge {
    pub no: i64,
    pub id: RelationshipId,
    pub type_: String,
    pub from: ObjectId,
    pub to: ObjectId,
    pub version: i64,
    pub updated_at: Timestamp,
}

const COLUMNS: &str = "r.no, r.id, r.type, r.from_id, r.to_id, r.version, r.updated_at";

fn from_row(row: &Row<'_>) -> Result<(CascadeEdge, i64)> {
    let edge = CascadeEdge {
        no: row.get(0)?,
        id: row.get(1)?,
        type_: row.get(2)?,
        from: row.get(3)?,
        to: row.get(4)?,
        version: row.get(5)?,
        updated_at: row.get(6)?,
    };
    Ok((edge, row.get(7)?))
}

/// Which edges of an object a statement selects. Each end has an index of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EdgeSide {
    /// The edges that start at the object.
    Outgoing,
    /// The edges that end at the object and start at another one.
    Incoming,
}

impl EdgeSide {
    const ALL: [EdgeSide; 2] = [EdgeSide::Outgoing, EdgeSide::Incoming];

    /// The condition on the edges `r` of the object `$1`.
    fn sql(self) -> &'static str {
        match self {
            EdgeSide::Outgoing => "r.from_id = $1",
            EdgeSide::Incoming => "r.to_id = $1 AND r.from_id <> $1",
        }
    }

    fn other_end(self) -> &'static str {
        match self {
            EdgeSide::Outgoing => "r.to_id",
            EdgeSide::Incoming => "r.from_id",
        }
    }
}

/// Locks some live relationships of an object, whether their other end is live or not.
pub fn lock_live_batch(tx: &mut Tx<'_>, object: ObjectId, limit: usize) -> Result<Vec<CascadeEdge>> {
    let (size, lock) = (size_sql(tx.engine(), &["r.properties"]), tx.for_update());
    let mut edges = Vec::new();
    for side in EdgeSide::ALL {
        if edges.len() < limit {
            let sql = format!(
                "SELECT {COLUMNS}, {size} FROM graph_relationships AS r
                 WHERE {} AND r.deleted_at IS NULL LIMIT $2{lock}",
                side.sql()
            );
            edges.extend(tx.query(&sql, params![object, limit - edges.len()], from_row)?);
        }
    }
    Ok(Allowance::new(limit).take_rows(edges))
}

/// Whether an object has a live relationship, whether its other end is live or not.
pub fn has_live(tx: &mut Tx<'_>, object: ObjectId) -> Result<bool> {
    for side in EdgeSide::ALL {
        let sql = format!(
            "SELECT r.no FROM graph_relationships AS r WHERE {} AND r.deleted_at IS NULL LIMIT 1",
            side.sql()
        );
        if tx.query_opt(&sql, params![object], |row| row.get::<i64>(0))?.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// When a live relationship of an object was written last.
pub fn latest_live_update(tx: &mut Tx<'_>, object: ObjectId) -> Result<Option<Timestamp>> {
    let mut latest = None;
    for side in EdgeSide::ALL {
        let sql = format!(
            "SELECT max(r.updated_at) FROM graph_relationships AS r WHERE {} AND r.deleted_at IS NULL",
            side.sql()
        );
        let found = tx.query_opt(&sql, params![object], |row| row.get::<Option<Timestamp>>(0))?;
        latest = latest.max(found.flatten());
    }
    Ok(latest)
}

/// Where restoring the relationships of an object continues. Those that were created last come first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RestoreCursor {
    side: EdgeSide,
    before: i64,
}

impl RestoreCursor {
    pub const START: RestoreCursor = RestoreCursor { side: EdgeSide::Outgoing, before: i64::MAX };

    fn next_side(self) -> Option<Self> {
        match self.side {
            EdgeSide::Outgoing => Some(Self { side: EdgeSide::Incoming, before: i64::MAX }),
            EdgeSide::Incoming => None,
        }
    }
}

/// Which relationships [`lock_deleted_batch`] selects.
#[derive(Debug, Clone, Copy)]
pub struct DeletedEdges<'a> {
    pub object: ObjectId,
    /// Only relationships of this type.
    pub type_: Option<&'a str>,
    pub after: RestoreCursor,
    pub limit: usize,
}

/// Locks some relationships of an object that were deleted together with one of their ends, whose other end is
/// live, and which no live relationship of the same type and ends replaces. Returns where the next batch begins;
/// `None` when there is no more.
pub fn lock_deleted_batch(
    tx: &mut Tx<'_>,
    select: DeletedEdges<'_>,
) -> Result<(Vec<CascadeEdge>, Option<RestoreCursor>)> {
    let RestoreCursor { side, before } = select.after;
    let mut params = vec![Param::from(select.object), Param::from(before), Param::from(select.limit)];
    let mut type_condition = "";
    if let Some(type_) = select.type_ {
        type_condition = " AND r.type = $4";
        params.push(Param::from(type_));
    }
    let sql = format!(
        "SELECT {COLUMNS}, {} FROM graph_relationships AS r
         WHERE {} AND r.no < $2 AND r.deleted_at IS NOT NULL AND r.deleted_with IS NOT NULL{type_condition}
             AND {} AND NOT EXISTS (
                 SELECT 1 FROM graph_relationships AS l WHERE l.from_id = r.from_id AND l.type = r.type
                     AND l.to_id = r.to_id AND l.deleted_at IS NULL)
         ORDER BY r.no DESC LIMIT $3{}",
        size_sql(tx.engine(), &["r.properties"]),
        side.sql(),
        other_end_lives(side),
        tx.for_update()
    );
    let edges = Allowance::new(select.limit).take_rows(tx.query(&sql, &params, from_row)?);
    // A concurrent change may leave fewer rows than the limit, so only an empty batch is the last one.
    let next = match edges.last() {
        Some(last) => Some(RestoreCursor { side, before: last.no }),
        None => select.after.next_side(),
    };
    Ok((edges, next))
}

/// The condition that the end of the edges `r` that is not the object `$1` is live. An edge from the object to
/// itself follows the object.
fn other_end_lives(side: EdgeSide) -> String {
    let end = side.other_end();
    format!("({end} = $1 OR (SELECT e.deleted_at FROM graph_objects AS e WHERE e.id = {end}) IS NULL)")
}

/// The ends of the relationships of one type that deleting an object ends (`is_live`), or that restoring it
/// restores, each as (from, to), ordered by their ids.
pub fn list_ends(
    tx: &mut Tx<'_>,
    object: ObjectId,
    type_: &str,
    is_live: bool,
) -> Result<Vec<(ObjectId, ObjectId)>> {
    let mut edges: Vec<(RelationshipId, (ObjectId, ObjectId))> = Vec::new();
    for side in EdgeSide::ALL {
        let state = match is_live {
            true => "r.deleted_at IS NULL".to_owned(),
            false => format!(
                "r.deleted_at IS NOT NULL AND r.deleted_with IS NOT NULL AND {}",
                other_end_lives(side)
            ),
        };
        let sql = format!(
            "SELECT r.id, r.from_id, r.to_id FROM graph_relationships AS r WHERE {} AND r.type = $2 AND {state}",
            side.sql()
        );
        let read = |row: &Row<'_>| Ok((row.get(0)?, (row.get(1)?, row.get(2)?)));
        edges.extend(tx.query(&sql, params![object, type_], read)?);
    }
    edges.sort_unstable_by_key(|(id, _)| *id);
    Ok(edges.into_iter().map(|(_, ends)| ends).collect())
}
