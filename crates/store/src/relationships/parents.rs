//! The parents of objects along a type of relationship, for results that are grouped by them.

use std::collections::HashMap;

use emergent_domain::{
    ids::{ObjectId, ProjectId},
    query::Direction,
};

use super::{HAS_LIVE_ENDS, IS_LIVE};
use crate::{error::Result, page, tx::Tx, value::Param};

/// The object at the other end of the live relationship of this type of each object, of the oldest one if it has
/// several. [`Direction::In`] follows relationships that end at the objects, the others those that start there. Objects
/// without such a relationship are not included.
pub fn parents(
    tx: &mut Tx<'_>,
    project: ProjectId,
    objects: &[ObjectId],
    type_: &str,
    direction: Direction,
) -> Result<HashMap<ObjectId, ObjectId>> {
    let (child, parent) = match direction {
        Direction::In => ("to_id", "from_id"),
        Direction::Out | Direction::Both => ("from_id", "to_id"),
    };
    let mut parents = HashMap::with_capacity(objects.len());
    for list in page::in_chunks(objects) {
        // The type is a condition of its own, since an index has the relationships of each type of an object. Those of
        // other types are not read, however many an object has.
        let sql = format!(
            "SELECT edge.{child}, edge.{parent} FROM (
                 SELECT min(r.no) AS no FROM graph_relationships AS r
                 WHERE r.{child} IN ({}) AND r.type = $2 AND r.{IS_LIVE} AND {} AND {HAS_LIVE_ENDS}
                 GROUP BY r.{child}
             ) AS oldest JOIN graph_relationships AS edge ON edge.no = oldest.no",
            page::placeholders(3, list.len()),
            page::on_row("r.project_id = $1"),
        );
        let mut params = vec![Param::from(project), Param::from(type_)];
        params.extend(list.into_iter().map(Param::from));
        parents
            .extend(tx.query(&sql, &params, |row| Ok((row.get::<ObjectId>(0)?, row.get::<ObjectId>(1)?)))?);
    }
    Ok(parents)
}
