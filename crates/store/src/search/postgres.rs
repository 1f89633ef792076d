//! Search on PostgreSQL: full text with `tsvector` and a ranking like that of SQLite, vectors with pgvector.

use emergent_domain::{fusion::RankedHit, ids::ProjectId};
use icu_normalizer::{ComposingNormalizerBorrowed, DecomposingNormalizerBorrowed};

use super::{
    SearchTarget, VectorQuery, embeddings,
    rank::{LENGTH_PENALTY, TYPICAL_LENGTH},
    write::SearchIndex,
};
use crate::{engine::Engine, error::Result, params, tx::Tx, value::Param};

/// pgvector indexes a `vector` up to this many dimensions, and a `halfvec` up to twice as many.
const MAX_VECTOR_DIMS: usize = 2_000;
const MAX_HALFVEC_DIMS: usize = 4_000;
/// The range of `hnsw.ef_search`: how many candidates a scan of the vector index holds.
const MIN_EF_SEARCH: usize = 100;
const MAX_EF_SEARCH: usize = 1_000;

/// The best rows for a query in the syntax of `to_tsquery`.
pub(super) fn search_text(
    tx: &mut Tx<'_>,
    project: ProjectId,
    target: &SearchTarget,
    tsquery: &str,
    limit: usize,
) -> Result<Vec<RankedHit<i64>>> {
    let tsquery = without_accents(tsquery);
    let mut params: Vec<Param<'_>> = vec![tsquery.into(), project.into(), limit.into()];
    let (conditions, values) = target.conditions(Engine::Postgres, params.len() + 1);
    params.extend(values);
    let join = match conditions.as_str() {
        "" => String::new(),
        _ => format!(" JOIN {} AS o ON o.no = f.no", target.table()),
    };
    // The weights are for D, C, B and A. Bodies are indexed as B, names as A.
    let sql = format!(
        "SELECT f.no, (ts_rank('{{0.1, 0.1, 0.25, 1}}', f.tsv, to_tsquery('english', $1))
             / (1 + {LENGTH_PENALTY} * ln(greatest(length(f.tsv), {TYPICAL_LENGTH:.0}) / {TYPICAL_LENGTH:.1})))
             ::double precision AS score
         FROM {} AS f{join}
         WHERE f.project_id = $2 AND f.tsv @@ to_tsquery('english', $1){conditions}
         ORDER BY score DESC, f.no LIMIT $3",
        target.text_table()
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

/// The rows with the nearest vectors.
pub(super) fn search_vectors(
    tx: &mut Tx<'_>,
    project: ProjectId,
    target: &SearchTarget,
    query: &VectorQuery<'_>,
) -> Result<Vec<RankedHit<i64>>> {
    if let Some(type_) = index_type(query.vector.len()) {
        // `iterative_scan` continues the index scan until enough rows match the conditions.
        let settings = "SELECT set_config('hnsw.iterative_scan', 'strict_order', true), \
                           set_config('hnsw.ef_search', $1, true)";
        let ef_search = query.limit.clamp(MIN_EF_SEARCH, MAX_EF_SEARCH).to_string();
        tx.for_each_row(settings, params![ef_search.as_str()], |_| Ok(()))?;
        let hits = nearest_rows(tx, project, target, query, &format!("::{type_}"))?;
        if hits.len() >= query.limit {
            return Ok(hits);
        }
    }
    // Without the cast the index is not used, and every vector is compared.
    nearest_rows(tx, project, target, query, "")
}

/// `cast` is the cast to the type of the index, `::vector(384)`, or nothing.
fn nearest_rows(
    tx: &mut Tx<'_>,
    project: ProjectId,
    target: &SearchTarget,
    query: &VectorQuery<'_>,
    cast: &str,
) -> Result<Vec<RankedHit<i64>>> {
    let mut params: Vec<Param<'_>> =
        vec![query.vector.into(), project.into(), query.model.into(), query.limit.into()];
    let (conditions, values) = target.conditions(Engine::Postgres, params.len() + 1);
    params.extend(values);
    let join = match conditions.as_str() {
        "" => String::new(),
        _ => format!(" JOIN {} AS o ON o.no = e.no", target.table()),
    };
    // The number of dimensions is a literal: PostgreSQL uses a partial index only if the statement itself
    // shows that it applies.
    let sql = format!(
        "SELECT e.no, (e.vector{cast}) <=> ($1::vector{cast}) AS distance
         FROM {} AS e{join}
         WHERE e.project_id = $2 AND e.model = $3 AND vector_dims(e.vector) = {}{conditions}
         ORDER BY distance LIMIT $4",
        embeddings::table(target.index()),
        query.vector.len()
    );
    tx.query(&sql, &params, |row| Ok(RankedHit { id: row.get(0)?, score: 1.0 - row.get::<f64>(1)? }))
}

/// The type that vectors with this many dimensions are indexed as; `None` when pgvector cannot index them.
fn index_type(dims: usize) -> Option<String> {
    if dims == 0 || dims > MAX_HALFVEC_DIMS {
        return None;
    }
    Some(if dims <= MAX_VECTOR_DIMS { format!("vector({dims})") } else { format!("halfvec({dims})") })
}

/// Creates the index for vectors with this many dimensions, if it does not exist and pgvector supports it.
pub(crate) fn ensure_index(tx: &mut Tx<'_>, index: SearchIndex, dims: usize) -> Result<()> {
    let Some(type_) = index_type(dims) else { return Ok(()) };
    let operators = if dims <= MAX_VECTOR_DIMS { "vector_cosine_ops" } else { "halfvec_cosine_ops" };
    let table = embeddings::table(index);
    let name = format!("{table}_hnsw_{dims}");
    let exists =
        tx.query_opt("SELECT to_regclass($1) IS NOT NULL", params![name.as_str()], |row| row.get(0))?;
    if exists == Some(true) {
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
