use super::*;

fn fts5(text: &str) -> String {
    TextQuery::parse(text).to_fts5(MatchMode::All).unwrap_or_default()
}

fn check(text: &str, expected_fts5: &str, expected_tsquery: &str) {
    let query = TextQuery::parse(text);
    let both = (query.to_fts5(MatchMode::All), query.to_tsquery(MatchMode::All));
    let both = (both.0.unwrap_or_default(), both.1.unwrap_or_default());
    assert_eq!(both, (expected_fts5.to_owned(), expected_tsquery.to_owned()), "{text:?}");
}

#[test]
fn words_phrases_prefixes_and_exclusions_are_understood() {
    check("apple", r#""apple""#, "'apple'");
    check("red pears", r#""red" AND "pears""#, "'red' & 'pears'");
    check(r#""red pears""#, r#""red pears""#, "('red' <-> 'pears')");
    check("plum*", r#""plum" *"#, "'plum':*");
    check(r#""red pe"*"#, r#""red pe" *"#, "('red' <-> 'pe':*)");
    check("apple plum -rotten", r#"("apple" AND "plum") NOT "rotten""#, "('apple' & 'plum') & !'rotten'");
    check(
        r#"apple -"very rotten" -old"#,
        r#""apple" NOT ("very rotten" OR "old")"#,
        "('apple') & !('very' <-> 'rotten') & !'old'",
    );
}

#[test]
fn any_asks_for_one_of_the_terms() {
    let query = TextQuery::parse("apple \"red pears\" plum* -rotten");
    assert_eq!(
        query.to_fts5(MatchMode::Any).unwrap(),
        r#"("apple" OR "red pears" OR "plum" *) NOT "rotten""#
    );
    assert_eq!(
        query.to_tsquery(MatchMode::Any).unwrap(),
        "('apple' | ('red' <-> 'pears') | 'plum':*) & !'rotten'"
    );
}

#[test]
fn names_from_the_world_of_programs_stay_useful() {
    check("node.js", r#""node js""#, "('node' <-> 'js')");
    check("C++", r#""C""#, "'C'");
    check("libssl3", r#""libssl3""#, "'libssl3'");
    check("has_session", r#""has session""#, "('has' <-> 'session')");
    check("well-known", r#""well known""#, "('well' <-> 'known')");
    check("node.j*", r#""node j" *"#, "('node' <-> 'j':*)");
    check("std::io", r#""std" AND "io""#, "'std' & 'io'");
    check("--verbose", r#""verbose""#, "'verbose'");
}

#[test]
fn a_possessive_is_found_like_its_name() {
    check("Ada's engine", r#""Ada" AND "engine""#, "'Ada' & 'engine'");
    check("Babbage’s", r#""Babbage""#, "'Babbage'");
    check("don't", r#""don t""#, "('don' <-> 't')");
    check("\"Ada's engine\"", r#""Ada s engine""#, "('Ada' <-> 's' <-> 'engine')");
    check("'s", r#""s""#, "'s'");
}

#[test]
fn query_languages_have_no_power_here() {
    check("apple OR NOT plum", r#""apple" AND "OR" AND "NOT" AND "plum""#, "'apple' & 'OR' & 'NOT' & 'plum'");
    check("NEAR(a b, 5)", r#""NEAR" AND "a" AND "b" AND "5""#, "'NEAR' & 'a' & 'b' & '5'");
    check("title:foo ^bar", r#""title" AND "foo" AND "bar""#, "'title' & 'foo' & 'bar'");
    check("{a b}:c", r#""a" AND "b" AND "c""#, "'a' & 'b' & 'c'");
    check("a*b", r#""a" AND "b""#, "'a' & 'b'");
    check("a & !b | c:*", r#""a" AND "b" AND "c""#, "'a' & 'b' & 'c'");
    check("a\0b\u{7}c", r#""a" AND "b" AND "c""#, "'a' & 'b' & 'c'");
}

#[test]
fn quotes_and_backslashes_cannot_break_out() {
    check("o'neil\\", r#""o neil""#, "('o' <-> 'neil')");
    check("' | 'x", r#""x""#, "'x'");
    check(r#"\' OR 1=1 --"#, r#""OR" AND "1""#, "'OR' & '1'");
    let term = Term { words: vec![r#"a'b\c"d"#.to_owned()], prefix: false, excluded: false };
    assert_eq!(tsquery_term(&term), r#"'a''b\\c"d'"#);
    assert_eq!(fts5_term(&term), r#""a'b\c""d""#);
}

#[test]
fn unbalanced_quotes_are_left_out() {
    check(r#""red pears"#, r#""red" AND "pears""#, "'red' & 'pears'");
    check(r#"a "b c" d""#, r#""a" AND "b c" AND "d""#, "'a' & ('b' <-> 'c') & 'd'");
    check(r#"-"rotten"#, "", "");
    assert_eq!(fts5(r#"say"hello world"now"#), r#""say" AND "hello world" AND "now""#);
}

#[test]
fn a_query_has_a_part_that_is_searched_and_a_part_that_is_excluded() {
    let query = TextQuery::parse("apples -rotten \"red pears\" -\"too old\" -plum*");
    assert_eq!(query.without_exclusions(), TextQuery::parse("apples \"red pears\""));
    assert_eq!(query.exclusions(), Some(TextQuery::parse("rotten \"too old\" plum*")));
    assert_eq!(query.without_exclusions().exclusions(), None);
}

#[test]
fn stop_words_exclude_nothing() {
    let query = TextQuery::parse("apples -the -\"of the\" -the* -Not -\"too old\"");
    assert_eq!(query, TextQuery::parse("apples -\"too old\""));
    assert_eq!(TextQuery::parse("apples -the").exclusions(), None);
}

#[test]
fn nothing_positive_is_no_query() {
    for text in ["", "  ", "-rotten", "* - \" \" ()", "🚀", "\0"] {
        let query = TextQuery::parse(text);
        assert_eq!(query.to_fts5(MatchMode::All), None, "{text:?}");
        assert_eq!(query.to_tsquery(MatchMode::Any), None, "{text:?}");
    }
    assert!(TextQuery::parse("* - \"\"").is_empty());
    assert!(!TextQuery::parse("-rotten").is_empty());
}

#[test]
fn words_of_every_script_stay_whole() {
    for word in ["naïve", "nai\u{308}ve", "Straße", "ночь", "検索", "क्या", "ที่นี่", "٣"]
    {
        assert_eq!(fts5(word), format!("\"{word}\""));
    }
    assert_eq!(fts5("\u{301}"), "");
}

#[test]
fn words_that_are_everywhere_are_left_out_when_there_are_others() {
    let left =
        |text: &str| TextQuery::parse(text).without_stop_words().to_fts5(MatchMode::All).unwrap_or_default();
    assert_eq!(left("how is the Agent limited"), r#""Agent" AND "limited""#);
    assert_eq!(left("The \"house of the\" of*"), r#""house of the" AND "of" *"#);
    assert_eq!(left("to be or not to be"), left("to be or not"));
    assert_eq!(left("the -house"), r#""the" NOT "house""#);
}

#[test]
fn repeated_terms_count_once() {
    assert_eq!(fts5("a b a a b"), r#""a" AND "b""#);
}

#[test]
fn a_query_of_any_length_stays_small() {
    let many: String = (0..1000).map(|n| format!("w{n} ")).collect();
    assert_eq!(TextQuery::parse(&many).terms().len(), 32);
    let many: String = (0..1000).map(|n| format!("w{n},")).collect();
    assert_eq!(TextQuery::parse(&many).terms().len(), 32);

    let many: String = (0..1000).map(|n| format!("w{n} -x{n} ")).collect();
    assert_eq!(TextQuery::parse(&many).terms().len(), 64);

    let phrase = TextQuery::parse(&format!("\"{}\"", "a ".repeat(1000)));
    assert_eq!(phrase.terms()[0].words.len(), 16);

    let long = TextQuery::parse(&"é".repeat(1_000_000));
    assert_eq!(long.terms()[0].words[0].chars().count(), 128);
    assert!(long.terms()[0].prefix);
}

#[test]
fn a_long_question_keeps_what_it_excludes_at_its_end() {
    let many: String = (0..100).map(|n| format!("w{n} ")).collect();
    let excluded = TextQuery::parse(&format!("{many} -rotten")).exclusions().expect("an exclusion");
    assert_eq!(excluded.terms()[0].words, ["rotten"]);
}

#[test]
fn the_words_of_a_text_are_those_a_query_would_have() {
    let all: Vec<&str> = words("node.js, (C++) & \"has_session\"").collect();
    assert_eq!(all, ["node", "js", "C", "has", "session"]);
}

/// Returns the text outside of quotes. Panics if a quote is unclosed or if anything but words
/// is quoted.
fn outside_quotes(text: &str, quote: char) -> String {
    let parts: Vec<&str> = text.split(quote).collect();
    assert!(parts.len() % 2 == 1, "open quote in {text:?}");
    for quoted in parts.iter().skip(1).step_by(2) {
        assert!(quoted.chars().all(|c| is_word(c) || c == ' '), "{text:?}");
        assert!(quoted.contains(char::is_alphanumeric), "{text:?}");
    }
    parts.iter().step_by(2).copied().collect()
}

fn assert_sound(text: &str) {
    let query = TextQuery::parse(text);
    assert!(query.without_exclusions().terms().len() <= MAX_TERMS);
    assert!(query.exclusions().is_none_or(|excluded| excluded.terms().len() <= MAX_TERMS));
    for mode in [MatchMode::All, MatchMode::Any] {
        let (fts5, tsquery) = (query.to_fts5(mode), query.to_tsquery(mode));
        assert_eq!(fts5.is_some(), tsquery.is_some(), "{text:?}");

        let left = outside_quotes(&fts5.unwrap_or_default(), '"');
        let operators_allowed = ["AND", "OR", "NOT", "*", ""];
        let operators = left.split([' ', '(', ')']);
        assert!(operators.clone().all(|word| operators_allowed.contains(&word)), "{left:?}");

        let left = outside_quotes(&tsquery.unwrap_or_default(), '\'');
        assert!(left.chars().all(|c| " &|!<->:*()".contains(c)), "{left:?}");
        assert_eq!(left.matches('(').count(), left.matches(')').count());
    }
}

/// A deterministic random generator without dependencies (SplitMix64).
struct Dice(u64);

impl Dice {
    fn below(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((mixed ^ (mixed >> 31)) % sides as u64) as usize
    }

    fn text(&mut self) -> String {
        const HOSTILE: &[&str] = &[
            "\"",
            "\"\"",
            "'",
            "''",
            "\\",
            "-",
            "--",
            "*",
            " * ",
            "(",
            ")",
            ":",
            ":*",
            "^",
            "&",
            "|",
            "!",
            "<->",
            "AND",
            " OR ",
            "NOT ",
            "NEAR(",
            "{",
            "}",
            "+",
            ",",
            ";",
            "%",
            "\0",
            "\n",
            "\u{1b}",
            "\u{2028}",
            "\u{feff}",
            "\u{301}",
            "\u{200d}",
            " ",
            " -",
            "-\"",
            "a",
            "node.js",
            "é",
            "क्या",
            "検索",
            "😀",
            "Ⓐ",
            "½",
        ];
        let mut text = String::new();
        for _ in 0..self.below(40) {
            match self.below(3) {
                0 => text.extend(char::from_u32(self.below(0x11_0000) as u32)),
                _ => text.push_str(HOSTILE[self.below(HOSTILE.len())]),
            }
        }
        text
    }
}

#[test]
fn any_text_at_all_gives_a_sound_query() {
    let mut dice = Dice(1);
    for _ in 0..5_000 {
        assert_sound(&dice.text());
    }
}
