//! Linked search: reads what [`emergent_domain::linked`] needs, and ranks with it.

use std::collections::{BTreeSet, HashMap, HashSet};

use emergent_domain::{
    dates::DateMatch,
    document::Chunk,
    fusion::{ChannelRank, FusedHit, RankedHit},
    ids::{DocumentId, ProjectId},
    indexed_text::NAME_PROPERTIES,
    linked::{MAX_TEXTS_OF_NAME, PlainHit, PlainRanking, SharedName},
    mentions,
    object::Object,
    query::HitLink,
    text_query::TextQuery,
};
use emergent_store::{
    Tx, documents,
    search::links::{self, FindableRows},
};
use uuid::Uuid;

use crate::{
    objects::object_indexed_text,
    search::{Load, SearchRequest},
};

/// The number of plain hits that a linked search takes into account.
pub(crate) const PLAIN_HITS: usize = 300;
/// Among this many of the best plain hits, those that the question names are preferred. The mode `auto` looks for a
/// name among as many.
pub(crate) const MAX_NAMED: usize = 20;
/// The number of names that are followed; each is a look-up in the full-text index.
const MAX_NAMES: usize = 32;
/// The number of names of one seed, so that one long text does not use up all.
const MAX_NAMES_OF_SEED: usize = 16;
/// Only the beginning of a long text is read for names, as long as what an embedder is given of it. Reading ten seeds of
/// this length takes some milliseconds at most.
const MAX_TEXT_BYTES: usize = 32 << 10;
/// Rows are filtered in batches of this size, from the best downwards.
const FILTER_BATCH: usize = 512;

/// What can be linked: an object or a chunk.
pub(crate) trait Linkable {
    fn id(&self) -> Uuid;
    /// What it is called.
    fn own_names(&self) -> Vec<String>;
    /// The document whose title it is called by, because it has no name of its own.
    fn named_by(&self) -> Option<DocumentId>;
    /// The text in which names are looked for.
    fn text(&self) -> String;
    /// All text by which it is found.
    fn searched_text(&self) -> String;
}

impl Linkable for Object {
    fn id(&self) -> Uuid {
        self.id.0
    }

    /// The key is the name of an object only if it has no other: keys are often numbers.
    fn own_names(&self) -> Vec<String> {
        let properties = self.properties.to_map();
        let names = NAME_PROPERTIES.iter().filter_map(|name| properties.get(*name)?.as_str());
        let names: Vec<String> = names.map(str::to_owned).collect();
        if names.is_empty() { self.key.clone().into_iter().collect() } else { names }
    }

    fn named_by(&self) -> Option<DocumentId> {
        None
    }

    fn text(&self) -> String {
        object_indexed_text(self).body
    }

    fn searched_text(&self) -> String {
        let text = object_indexed_text(self);
        format!("{}\n{}", text.name, text.body)
    }
}

impl Linkable for Chunk {
    fn id(&self) -> Uuid {
        self.id.0
    }

    fn own_names(&self) -> Vec<String> {
        self.heading.clone().into_iter().collect()
    }

    fn named_by(&self) -> Option<DocumentId> {
        self.heading.is_none().then_some(self.document)
    }

    fn text(&self) -> String {
        self.text.clone()
    }

    fn searched_text(&self) -> String {
        format!("{}\n{}", self.heading.as_deref().unwrap_or_default(), self.text)
    }
}

/// The titles of documents, which name their passages without a heading.
#[derive(Default)]
pub(crate) struct Titles(HashMap<DocumentId, String>);

impl Titles {
    pub(crate) fn load(
        tx: &mut Tx<'_>,
        project: ProjectId,
        documents: &[DocumentId],
    ) -> emergent_store::Result<Self> {
        Ok(Self(documents::titles(tx, project, documents)?))
    }

    /// What something is called.
    pub(crate) fn names_of<T: Linkable>(&self, item: &T) -> Vec<String> {
        match item.named_by().and_then(|document| self.0.get(&document)) {
            Some(title) => vec![title.clone()],
            None => item.own_names(),
        }
    }
}

/// The hits of a search, the best first, and what raised them, by row number.
pub(crate) struct LinkedHits {
    pub(crate) hits: Vec<FusedHit<i64>>,
    /// The names that each hit shares with seeds, the one that raised it first. The index compares words without their
    /// endings, so some hits have only a similar word, such as `engine` for the name `engineer`.
    pub(crate) links: HashMap<i64, Vec<HitLink>>,
    pub(crate) dates: HashMap<i64, DateMatch>,
}

impl LinkedHits {
    /// The first link whose name a hit has as it is written: a person who reads the name looks for it in both texts. The
    /// seed has it, because the name was read there.
    pub(crate) fn link_of<T: Linkable>(&self, no: i64, item: &T) -> Option<HitLink> {
        let links = self.links.get(&no)?;
        let text = item.searched_text();
        let words = mentions::Question::new(&text);
        links.iter().find(|link| words.contains(&link.name)).cloned()
    }
}

impl From<Vec<FusedHit<i64>>> for LinkedHits {
    /// Hits that nothing raised.
    fn from(hits: Vec<FusedHit<i64>>) -> Self {
        Self { hits, links: HashMap::new(), dates: HashMap::new() }
    }
}

/// Ranks the plain hits again, together with the texts that share a name with the best of them. With a filter, the plain
/// hits contain the best texts that it leaves out: they lead to others, but are not returned.
pub(crate) fn rank<T: Linkable>(
    tx: &mut Tx<'_>,
    search: &SearchRequest,
    mut plain: Vec<FusedHit<i64>>,
    load: Load<T>,
) -> emergent_store::Result<LinkedHits> {
    let (project, target, query) = (search.project, &search.among, TextQuery::parse(&search.query));
    let findable = FindableRows::new(tx, project, target, &query)?;
    let nos: Vec<i64> = plain.iter().map(|hit| hit.id).collect();
    // Without a filter, all of them match already.
    let matching: HashSet<i64> =
        if search.has_filter() { findable.among(tx, &nos)? } else { nos.iter().copied().collect() };
    if search.has_filter() {
        recount_places(&mut plain, &matching);
    }
    let text_hits: Vec<RankedHit<i64>> =
        plain.iter().filter_map(|hit| Some(RankedHit { id: hit.id, score: hit.text?.score })).collect();
    let words = links::matched_words(tx, target, &query, &text_hits)?;
    let matching_nos = nos.iter().filter(|no| matching.contains(*no));
    let best: BTreeSet<i64> =
        nos.iter().take(MAX_NAMED).chain(matching_nos.take(MAX_NAMED)).copied().collect();
    let best = load(tx, project, &best.into_iter().collect::<Vec<_>>())?;
    let documents: Vec<DocumentId> = best.values().filter_map(|item| item.row.named_by()).collect();
    let titles = Titles::load(tx, project, &documents)?;
    let included = search.included_text();
    let question = mentions::Question::new(&included);
    let is_named = |no: i64| {
        let names = best.get(&no).map(|item| titles.names_of(&item.row)).unwrap_or_default();
        names.iter().filter_map(|name| mentions::normal_name(name)).any(|name| question.contains(&name))
    };
    let ranking = PlainRanking::new(
        plain
            .iter()
            .map(|hit| PlainHit {
                id: hit.id,
                score: hit.score,
                words: words.get(&hit.id).copied().unwrap_or_default(),
                is_named: is_named(hit.id),
                is_findable: matching.contains(&hit.id),
            })
            .collect(),
    );
    let mut names = names_of_seeds(&ranking, &titles, |no| best.get(&no).map(|item| &item.row));
    let phrases: Vec<String> = names.iter().map(|name| name.name.clone()).collect();
    // One more than the limit shows that a name is too common.
    let texts = links::texts_with_names(tx, project, target, &phrases, MAX_TEXTS_OF_NAME + 1)?;
    for (name, texts) in names.iter_mut().zip(texts) {
        name.texts = texts;
    }
    let plain_by_no: HashMap<i64, &FusedHit<i64>> = plain.iter().map(|hit| (hit.id, hit)).collect();
    let (mut hits, mut found_links) = (Vec::with_capacity(search.limit), HashMap::new());
    for batch in ranking.rank(&names).chunks(FILTER_BATCH) {
        // Of the plain hits, only those that match are there.
        let linked: Vec<i64> =
            batch.iter().map(|hit| hit.id).filter(|no| !plain_by_no.contains_key(no)).collect();
        let matching = findable.among(tx, &linked)?;
        for hit in batch {
            let plain = plain_by_no.get(&hit.id);
            if plain.is_none() && !matching.contains(&hit.id) {
                continue;
            }
            let (text, vector) = plain.map_or((None, None), |plain| (plain.text, plain.vector));
            hits.push(FusedHit { id: hit.id, score: hit.score, text, vector });
            if let Some(link) = &hit.link {
                let others = names
                    .iter()
                    .filter(|name| name.texts.len() <= MAX_TEXTS_OF_NAME && name.texts.contains(&hit.id));
                let others = others.filter_map(|name| {
                    let from = name.seeds.iter().find(|seed| **seed != hit.id)?;
                    Some((*from, &name.name))
                });
                let links = std::iter::once((link.from, &link.name)).chain(others);
                let links = links.filter_map(|(from, name)| {
                    Some(HitLink { from: best.get(&from)?.row.id(), name: name.clone() })
                });
                found_links.insert(hit.id, links.collect());
            }
        }
        if hits.len() >= search.limit {
            break;
        }
    }
    Ok(LinkedHits { hits, links: found_links, dates: HashMap::new() })
}

/// Counts the places of the matching hits in each channel without the others.
fn recount_places(plain: &mut [FusedHit<i64>], matching: &HashSet<i64>) {
    let (mut text, mut vector) = (Vec::new(), Vec::new());
    for hit in plain.iter_mut().filter(|hit| matching.contains(&hit.id)) {
        text.extend(hit.text.as_mut());
        vector.extend(hit.vector.as_mut());
    }
    for mut ranks in [text, vector] {
        ranks.sort_by_key(|rank: &&mut ChannelRank| rank.rank);
        for (place, rank) in (1..).zip(ranks) {
            rank.rank = place;
        }
    }
}

/// The names of the seeds, without the texts that have them. Those of the best seed come first.
fn names_of_seeds<'a, T: Linkable + 'a>(
    ranking: &PlainRanking<i64>,
    titles: &Titles,
    item: impl Fn(i64) -> Option<&'a T>,
) -> Vec<SharedName<i64>> {
    let mut names: Vec<SharedName<i64>> = Vec::new();
    for seed in ranking.seeds() {
        let Some(item) = item(seed) else { continue };
        for name in names_of(item, titles) {
            if let Some(known) = names.iter_mut().find(|known| known.name == name) {
                known.seeds.push(seed);
            } else if names.len() < MAX_NAMES {
                names.push(SharedName { name, seeds: vec![seed], texts: Vec::new() });
            }
        }
    }
    names
}

/// What an object is called, and the names in its text.
fn names_of<T: Linkable>(item: &T, titles: &Titles) -> Vec<String> {
    let own = titles.names_of(item);
    let mut names: Vec<String> = own.iter().filter_map(|name| mentions::normal_name(name)).collect();
    let text = item.text();
    let text = &text[..text.floor_char_boundary(MAX_TEXT_BYTES)];
    let texts = own.iter().map(String::as_str).chain([text]);
    for name in texts.flat_map(|text| mentions::mentioned_names(text, MAX_NAMES_OF_SEED)) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names.truncate(MAX_NAMES_OF_SEED);
    names
}
