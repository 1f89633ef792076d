//! Search on PostgreSQL: full text with `tsvector` and a ranking like that of SQLite, vectors with pgvector.

use std::collections::HashMap;

use emergent_domain::{fusion::RankedHit, ids::ProjectId};
use icu_normalizer::{ComposingNormalizerBorrowed, DecomposingNormalizerBorrowed};

use super::{
    SearchTarget, VectorQuery, embeddings,
    rank::{LENGTH_PART, MIN_NORM, SATURATION, TYPICAL_LENGTH},
};
use crate::{engine::Engine, error::Result, page, params, tx::Tx, value::Param};

/// pgvector indexes a `vector` up to this many dimensions, and a `halfvec` up to twice as many.
const MAX_VECTOR_DIMS: usize = 2_000;
const MAX_HALFVEC_DIMS: usize = 4_000;
/// The range of `hnsw.ef_search`: how many candidates a scan of the vector index holds.
const MIN_EF_SEARCH: usize = 100;
const MAX_EF_SEARCH: usize = 1_000;
/// The words of a question that a linked search tells apart.
const MAX_MATCHED_WORDS: usize = 20;

/// The best rows for a query in the syntax of `to_tsquery`. They match `tsquery` and are ranked by `rank_query`.
pub(super) fn search_text(
    tx: &mut Tx<'_>,
    project: ProjectId,
    target: &SearchTarget,
    tsquery: &str,
    rank_query: &str,
    limit: usize,
) -> Result<Vec<RankedHit<i64>>> {
    let (tsquery, rank_query) = (without_accents(tsquery), without_accents(rank_query));
    let mut params: Vec<Param<'_>> = vec![tsquery.into(), project.into(), limit.into(), rank_query.into()];
    let (conditions, values) = target.conditions(Engine::Postgres, params.len() + 1);
    params.extend(values);
    let join = match conditions.as_str() {
        "" => String::new(),
        _ => format!(" JOIN {} AS o ON o.no = f.no", target.table()),
    };
    // PostgreSQL leaves out words that it does not index. If only exclusions remain of a query, they would match
    // nearly everything.
    // The weights are for D, C, B and A. Bodies are indexed as B, names as A. The length counts as for a word
    // that occurs once in the ranking of SQLite.
    let sql = format!(
        "SELECT f.no, (ts_rank('{{0.1, 0.1, 0.25, 1}}', f.tsv, to_tsquery('english', $4))
             / (1 + {SATURATION} * greatest({MIN_NORM}, 1 - {LENGTH_PART} + {LENGTH_PART} * length(f.tsv) / {TYPICAL_LENGTH:.1})))
             ::double precision AS score
         FROM {} AS f{join}
         WHERE f.project_id = $2 AND f.tsv @@ to_tsquery('english', $1)
             AND numnode(to_tsquery('english', $4)) > 0{conditions}
         ORDER BY score DESC, f.no LIMIT $3",
        target.text_table()
    );
    tx.query(&sql, &params, |row| Ok(RankedHit { id: row.get(0)?, score: row.get(1)? }))
}

/// The words that each row has, one bit for each word. Each word is in the syntax of `to_tsquery`.
pub(super) fn matched_words(
    tx: &mut Tx<'_>,
    target: &SearchTarget,
    words: &[String],
    nos: &[i64],
) -> Result<HashMap<i64, u32>> {
    let mut matched = HashMap::with_capacity(nos.len());
    for list in page::in_chunks(nos) {
        let words: Vec<Param<'_>> =
            words.iter().take(MAX_MATCHED_WORDS).map(|word| without_accents(word).into()).collect();
        let bits: Vec<String> = (0..words.len())
            .map(|bit| {
                format!(
                    "CASE WHEN f.tsv @@ to_tsquery('english', ${}) THEN {} ELSE 0 END",
                    bit + 1,
                    1_i64 << bit
                )
            })
            .collect();
        let bits = if bits.is_empty() { "0".to_owned() } else { bits.join(" + ") };
        let placeholders = page::placeholders(words.len() + 1, list.len());
        let mut params = words;
        params.extend(list.into_iter().map(Param::from));
        let sql = format!(
            "SELECT f.no, ({bits})::bigint FROM {} AS f WHERE f.no IN ({placeholders})",
            target.text_table()
        );
        matched.extend(tx.query(&sql, &params, |row| {
            Ok((row.get::<i64>(0)?, u32::try_from(row.get::<i64>(1)?).unwrap_or_default()))
        })?);
    }
    Ok(matched)
}

/// For each name, the rows whose text has it as a phrase, at most `max`. One statement, since each is a round trip.
pub(super) fn texts_with_names(
    tx: &mut Tx<'_>,
    project: ProjectId,
    target: &SearchTarget,
    names: &[String],
    max: usize,
) -> Result<Vec<Vec<i64>>> {
    let mut texts = vec![Vec::new(); names.len()];
    if names.is_empty() {
        return Ok(texts);
    }
    let mut params: Vec<Param<'_>> = vec![project.into(), max.into()];
    params.extend(names.iter().map(|name| Param::from(without_accents(name))));
    let values: Vec<String> =
        (0..names.len()).map(|index| format!("({index}::bigint, ${}::text)", index + 3)).collect();
    let sql = format!(
        "SELECT n.position, f.no FROM (VALUES {}) AS n (position, name) CROSS JOIN LATERAL (
             SELECT t.no FROM {} AS t
             WHERE t.project_id = $1 AND t.tsv @@ phraseto_tsquery('english', n.name) LIMIT $2) AS f",
        values.join(", "),
        target.text_table()
    );
    let rows = tx.query(&sql, &params, |row| Ok((row.get::<i64>(0)?, row.get::<i64>(1)?)))?;
    for (position, no) in rows {
        if let Some(found) = usize::try_from(position).ok().and_then(|position| texts.get_mut(position)) {
            found.push(no);
        }
    }
    Ok(texts)
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

/// The rows with the nearest vectors. While there is no index, see [`super::vector_index`], all vectors of the project are
/// compared.
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
pub(super) fn index_type(dims: usize) -> Option<String> {
    if dims == 0 || dims > MAX_HALFVEC_DIMS {
        return None;
    }
    Some(if dims <= MAX_VECTOR_DIMS { format!("vector({dims})") } else { format!("halfvec({dims})") })
}

/// The operators of the index of vectors with this many dimensions: those of the cosine distance.
pub(super) fn index_operators(dims: usize) -> &'static str {
    if dims <= MAX_VECTOR_DIMS { "vector_cosine_ops" } else { "halfvec_cosine_ops" }
}
