//! What words of tasks and of agents mean alike: `summarise`, `digest` and `tl;dr` are one thing
//! to do, `paper`, `study` and `thesis` one thing to do it to.

use std::{collections::HashMap, sync::LazyLock};

/// A concept: what there is to do, or what it is done to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Concept {
    Research,
    Design,
    Plan,
    Implement,
    Test,
    Review,
    Summarise,
    Extract,
    Browse,
    Query,
    Remember,
    Code,
    Document,
    Text,
    Entity,
    Web,
    Tasks,
}

use Concept::*;

impl Concept {
    pub fn is_activity(self) -> bool {
        self <= Remember
    }

    pub fn name(self) -> &'static str {
        match self {
            Research => "research",
            Design => "design",
            Plan => "planning",
            Implement => "implementation",
            Test => "testing",
            Review => "review",
            Summarise => "summaries",
            Extract => "extraction",
            Browse => "browsing",
            Query => "queries",
            Remember => "remembering",
            Code => "code",
            Document => "documents",
            Text => "texts",
            Entity => "entities",
            Web => "the web",
            Tasks => "tasks",
        }
    }

    /// What comes close, for a project without an agent for the thing itself.
    pub fn related(self) -> &'static [(Concept, f64)] {
        match self {
            Test => &[(Review, 0.8)],
            Review => &[(Test, 0.6)],
            Query => &[(Research, 0.5), (Remember, 0.15)],
            Browse => &[(Web, 0.5), (Research, 0.3)],
            Summarise => &[(Research, 0.3), (Extract, 0.2)],
            Extract => &[(Summarise, 0.1)],
            Design => &[(Plan, 0.2)],
            Remember => &[(Query, 0.1)],
            _ => &[],
        }
    }
}

/// Words of each concept, the telling ones first; those behind the bar point to it less.
const WORDS: &[(Concept, &str, &str)] = &[
    (
        Research,
        "research investigate synthesize literature background study-of findings-on evidence briefing explore compare feasibility analyse analysis",
        "find organize gather collect overview survey evaluate sources arguments competitor learn prior-art state-of-the-art deep-dive theme",
    ),
    (
        Design,
        "design spec specification specify architecture requirement draft define blueprint",
        "propose schema decide model api interface behaviour technical write refine document",
    ),
    (
        Plan,
        "plan planner planning roadmap breakdown break-down decompose split sequence dag subtask reorder schedule milestone re-plan",
        "order dependency dependencies task steps estimate epic work-package parallel block",
    ),
    (
        Implement,
        "implement build develop code-it realise implementation programme migrate",
        "create add fix make apply change write feature endpoint approved bug",
    ),
    (
        Test,
        "test verify validate qa acceptance verification check-that make-sure",
        "check pass fail verdict edge-case correct complete really works against compare quality",
    ),
    (
        Review,
        "review reviewer critique assess judge code-review second-pair audit",
        "approve comment quality look-over look-at go-through check feedback correctness",
    ),
    (
        Summarise,
        "summarize summary summarise abstract digest condense tl-dr tldr shorten key-finding key-findings main-result",
        "finding conclusion methodology method result short main read contribution claim findings",
    ),
    (
        Extract,
        "extract extraction ner parse structure-this structured named-entities pull-out turn-into",
        "identify pull-all get-all out-of mention structure convert scan process mentioned ingest unstructured",
    ),
    (
        Browse,
        "browse browser google internet online website url http https visit fetch web-search homepage",
        "web page news link site blog latest current recent look-up open",
    ),
    (
        Query,
        "query question answer search traverse lookup retrieve count list show",
        "find which who how-many tell explain overview similar path connected",
    ),
    (
        Remember,
        "remember memory note-that keep-in-mind forget correct merge record-that save store curate",
        "update connect link delete undo tidy duplicate clean change write-down wrong relationship knows status add record",
    ),
    (
        Code,
        "code diff patch pr pull-request commit branch refactor style sql",
        "file readability naming convention parser function change",
    ),
    (
        Document,
        "document paper pdf thesis preprint article proceedings handbook whitepaper report",
        "study chapter ingested uploaded page contract",
    ),
    (
        Text,
        "text chunk passage paragraph excerpt snippet transcript unstructured raw",
        "note section email minutes chat protocol log interview",
    ),
    (
        Entity,
        "entity entities person people organisation company companies concept",
        "place date name object product contact instrument material compound relation gene",
    ),
    (Web, "web internet online website url https", "page link site"),
    (Tasks, "task dag subtask dependencies dependency", "order step block sequence follow-up"),
];

const STRONG: f64 = 1.0;
const WEAK: f64 = 0.45;

/// Each stem, or pair of stems, with what it points to.
static CONCEPTS_BY_STEM: LazyLock<HashMap<String, Vec<(Concept, f64)>>> = LazyLock::new(|| {
    let mut pointers: HashMap<String, Vec<(Concept, f64)>> = HashMap::new();
    for (concept, telling, less) in WORDS {
        for (words, weight) in [(telling, STRONG), (less, WEAK)] {
            for word in words.split(' ') {
                let stems: Vec<String> = word.split('-').map(stem).collect();
                let all = pointers.entry(stems.join(" ")).or_default();
                if !all.iter().any(|(one, _)| one == concept) {
                    all.push((*concept, weight));
                }
            }
        }
    }
    pointers
});

pub(super) fn concepts_of(stems: &str) -> &'static [(Concept, f64)] {
    CONCEPTS_BY_STEM.get(stems).map(Vec::as_slice).unwrap_or_default()
}

const STOP_WORDS: &[&str] = &[
    "a", "an", "the", "of", "for", "to", "in", "on", "and", "or", "is", "it", "its", "be", "by", "as", "at",
    "with", "from", "that", "this", "we", "our", "you", "i", "are", "was", "what", "do", "does", "did",
    "not", "no", "has", "have", "had", "but", "so", "if", "one", "all", "each", "into", "their", "there",
    "them", "they", "should", "can", "will", "agent", "sub", "internal", "help", "helps", "project",
];

/// The stems of a text, in order.
pub(super) fn stems(text: &str) -> Vec<String> {
    let lower = text.to_lowercase();
    let words = lower.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    words.map(stem).collect()
}

pub(super) fn is_significant(stem: &str) -> bool {
    stem.len() > 2 && !STOP_WORDS.contains(&stem)
}

/// A word without its ending. Crude, and the same for the words of tasks, agents and concepts:
/// that they meet is all that matters.
pub(super) fn stem(word: &str) -> String {
    let mut word = word.to_lowercase().replace('z', "s");
    // What was found is another thing than to find.
    if matches!(word.as_str(), "finding" | "findings") {
        return "finding".to_owned();
    }
    for ending in [
        "isations", "isation", "ising", "ations", "ation", "ings", "ing", "ised", "iser", "ises", "ise",
        "ers", "ors", "ions", "ion", "ies", "ied", "er", "or", "ed", "es", "s", "e", "y",
    ] {
        if let Some(short) = word.strip_suffix(ending)
            && short.chars().count() >= 3
        {
            word.truncate(short.len());
            break;
        }
    }
    let letters: Vec<char> = word.chars().collect();
    if let [.., a, b] = letters[..]
        && a == b
        && letters.len() > 4
        && !"aeiousl".contains(b)
    {
        word.pop();
    }
    word
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_of_a_word_meet() {
        for forms in [
            "summarise summarize summariser summarising",
            "plan planning planner plans",
            "extract extracts extraction extractor",
            "review reviews reviewer reviewing",
            "implement implements implemented",
            "specify specified",
            "entity entities",
        ] {
            let all: Vec<String> = forms.split(' ').map(stem).collect();
            assert!(all.iter().all(|one| *one == all[0]), "{all:?}");
        }
    }
}
