//! Search on PostgreSQL: `tsvector` with a ranking like that of SQLite, and pgvector.

use emergent_domain::{fusion::RankedHit, ids::ProjectId};
use icu_normalizer::{ComposingNormalizerBorrowed, DecomposingNormalizerBorrowed};

use super::{
    SearchTarget, VectorQuery, embeddings,
    rank::{LENGTH_PENALTY, TYPICAL_LENGTH},
    write::SearchIndex,
};
use crate::{engine::Engine, error::Result, params, tx::Tx, value::Param};

pub(super) fn search_text(
    tx: &mut Tx<'_>,
    project: ProjectId,
    among: &SearchTarget,
    words: &str,
    limit: usize,
) -> Result<Vec<RankedHit<i64>>> {
    let words = without_accents(words);
    let mut params: Vec<Param<'_>> = vec![words.into(), project.into(), limit.into()];
    let (conditions, values) = among.conditions(Engine::Postgres, params.len() + 1);
    params.extend(values);
    let join = match conditions.as_str() {
        "" => String::new(),
        _ => format!(" JOIN {} AS o ON o.no = f.no", among.table()),
    };
    // The weights are for D, C, B and A. Bodies are indexed as B, names as A.
    let sql = format!(
        "SELECT f.no, (ts_rank('{{0.1, 0.1, 0.25, 1}}', f.tsv, to_tsquery('english', $1))
             / (1 + {LENGTH_PENALTY} * ln(greatest(length(f.tsv), {TYPICAL_LENGTH:.0}) / {TYPICAL_LENGTH:.1})))
             ::double precision AS score
         FROM {} AS f{join}
         WHERE f.project_id = $2 AND f.tsv @@ to_tsquery('english', $1){conditions}
         ORDER BY score DESC, f.no LIMIT $3",
        among.text_table()
    );
    tx.query(&sql, &params, |row| Ok(RankedHit { id: row.get(0)?, score: row.get(1)? }))
}

/// Removes accents. FTS5 removes them from indexed texts and from queries; the configuration of
/// PostgreSQL does not, so texts and queries have none when they get there.
pub(super) fn without_accents(text: &str) -> String {
    if text.is_ascii() {
        return text.to_owned();
    }
    let letters = DecomposingNormalizerBorrowed::new_nfd().normalize_iter(text.chars());
    let letters = letters.filter(|c| !matches!(c, '\u{0300}'..='\u{036F}'));
    ComposingNormalizerBorrowed::new_nfc().normalize_iter(letters).collect()
}

pub(super) fn search_vectors(
    tx: &mut Tx<'_>,
    project: ProjectId,
    among: &SearchTarget,
    nearest: &VectorQuery<'_>,
) -> Result<Vec<RankedHit<i64>>> {
    if let Some(type_) = index_type(nearest.vector.len()) {
        // Continues the index scan until enough rows match the conditions.
        let look = "SELECT set_config('hnsw.iterative_scan', 'strict_order', true), \
                           set_config('hnsw.ef_search', $1, true)";
        let width = nearest.limit.clamp(100, 1_000).to_string();
        tx.for_each_row(look, params![width.as_str()], |_| Ok(()))?;
        let hits = nearest_rows(tx, project, among, nearest, &format!("::{type_}"))?;
        if hits.len() >= nearest.limit {
            return Ok(hits);
        }
    }
    // Without the cast the index is not used, and every vector is compared.
    nearest_rows(tx, project, among, nearest, "")
}

fn nearest_rows(
    tx: &mut Tx<'_>,
    project: ProjectId,
    among: &SearchTarget,
    nearest: &VectorQuery<'_>,
    cast: &str,
) -> Result<Vec<RankedHit<i64>>> {
    let mut params: Vec<Param<'_>> =
        vec![nearest.vector.into(), project.into(), nearest.model.into(), nearest.limit.into()];
    let (conditions, values) = among.conditions(Engine::Postgres, params.len() + 1);
    params.extend(values);
    let join = match conditions.as_str() {
        "" => String::new(),
        _ => format!(" JOIN {} AS o ON o.no = e.no", among.table()),
    };
    // The length is a literal: PostgreSQL uses a partial index only if the plan shows that it applies.
    let sql = format!(
        "SELECT e.no, (e.vector{cast}) <=> ($1::vector{cast}) AS distance
         FROM {} AS e{join}
         WHERE e.project_id = $2 AND e.model = $3 AND vector_dims(e.vector) = {}{conditions}
         ORDER BY distance LIMIT $4",
        embeddings::table(among.index()),
        nearest.vector.len()
    );
    tx.query(&sql, &params, |row| Ok(RankedHit { id: row.get(0)?, score: 1.0 - row.get::<f64>(1)? }))
}

/// The type that vectors of a length are indexed as; `None` when pgvector cannot index them.
fn index_type(dims: usize) -> Option<String> {
    match dims {
        1..=2_000 => Some(format!("vector({dims})")),
        2_001..=4_000 => Some(format!("halfvec({dims})")),
        _ => None,
    }
}

/// Creates the index for vectors of a length if there is none.
pub(crate) fn ensure_index(tx: &mut Tx<'_>, index: SearchIndex, dims: usize) -> Result<()> {
    let Some(type_) = index_type(dims) else { return Ok(()) };
    let operators = if dims <= 2_000 { "vector_cosine_ops" } else { "halfvec_cosine_ops" };
    let table = embeddings::table(index);
    let name = format!("{table}_hnsw_{dims}");
    let there =
        tx.query_opt("SELECT to_regclass($1) IS NOT NULL", params![name.as_str()], |row| row.get(0))?;
    if there == Some(true) {
        return Ok(());
    }
    // Two servers that create it concurrently would both fail, so one waits for the other.
    tx.advisory_lock(&name)?;
    let sql = format!(
        "CREATE INDEX IF NOT EXISTS {name} ON {table} USING hnsw ((vector::{type_}) {operators})
         WHERE vector_dims(vector) = {dims}"
    );
    tx.execute(&sql, &[])?;
    Ok(())
}
