//! Tests of the dates that are read in questions, and of what is no date.

use proptest::{collection::vec, prelude::*, sample::select};

use super::*;
use crate::dates::tests::shown;

fn check(question: &str, expected: &str) {
    let periods: Vec<String> = periods_in(question).into_iter().map(shown).collect();
    assert_eq!(periods.join(" "), expected, "{question}");
}

#[test]
fn explicit_dates_are_read() {
    let day = "2023-05-07..2023-05-08";
    for written in [
        "2023-05-07",
        "2023-05-07T10:30:00Z",
        "7 May 2023",
        "7 May, 2023",
        "07 may 2023",
        "7th of May 2023",
        "the 7th May 2023",
        "May 7, 2023",
        "May 7th 2023",
        "May 07 2023",
    ] {
        check(&format!("Who led the team on {written}?"), day);
        check(written, day);
    }
    let month = "2023-05-01..2023-06-01";
    for written in ["May 2023", "may 2023", "May of 2023", "2023-05", "\"May 2023\"", "(May 2023)"] {
        check(&format!("What did Ada say about boats in {written}?"), month);
    }
    check("the weather of Sept. 2021", "2021-09-01..2021-10-01");
    check("born on 10 December 1815", "1815-12-10..1815-12-11");
    check("May 2023's boats", month);
    check("on 30 February 2023", "2023-02-01..2023-03-01");
}

#[test]
fn a_year_is_read_where_it_stands_as_a_year() {
    let year = "2022-01-01..2023-01-01";
    for question in [
        "in 2022",
        "who led the team in 2022?",
        "during 2022, what happened",
        "the boats of 2022",
        "what happened in the year 2022",
        "in early 2022 Ada was ill",
        "the trip in summer 2022",
        "in 2022 was there a boat",
        "in 2022 Ada's boat",
        "2022",
        "boats (2022)",
        "What happened, 2022?",
    ] {
        check(question, year);
    }
}

#[test]
fn words_before_a_date_open_the_period() {
    check("before 2020", "..2020-01-01");
    check("what was there before the year 2020?", "..2020-01-01");
    check("after 2020", "2021-01-01..");
    check("since May 2023", "2023-05-01..");
    check("since early 2021", "2021-01-01..");
    check("until 7 May 2023", "..2023-05-08");
    check("after the 7th of May 2023", "2023-05-08..");
    check("by May 2023", "..2023-06-01");
}

#[test]
fn ranges_are_one_period() {
    check("between March and June 2021", "2021-03-01..2021-07-01");
    check("from March to the 7th of June 2021", "2021-03-01..2021-06-08");
    check("between 2020 and 2022", "2020-01-01..2023-01-01");
    check("between 2022 and 2020", "2020-01-01..2023-01-01");
    check("from 7 to 9 May 2023", "2023-05-07..2023-05-10");
    check("from 30 April to 2 May 2023", "2023-04-30..2023-05-03");
    check("between April 30 and May 2, 2023", "2023-04-30..2023-05-03");
    check("from November to February 2021", "2020-11-01..2021-03-01");
    check("between 2023-05-07 and 2023-06-01", "2023-05-07..2023-06-02");
    check("letters from May 2023", "2023-05-01..2023-06-01");
    check("between the lines of May 2023", "2023-05-01..2023-06-01");
}

#[test]
fn several_dates_are_several_periods_up_to_a_limit() {
    check("in 2020 or in 2022 or in 2020", "2020-01-01..2021-01-01 2022-01-01..2023-01-01");
    let five = "in 2011, in 2012, in 2013, in 2014, in 2015";
    assert_eq!(periods_in(five).len(), MAX_PERIODS);
    let long = format!("{} in 2015", "word ".repeat(MAX_QUESTION_BYTES / 5));
    check(&long, "");
    check(&"ü".repeat(MAX_QUESTION_BYTES), "");
}

#[test]
fn what_is_no_explicit_date_is_not_read() {
    for question in [
        "",
        "version 2.0",
        "room 2023B",
        "who was in room 2023",
        "1999 bottles",
        "the price of 1999 bottles",
        "by 2000 people",
        "it cost $2000",
        "issue #2023",
        "port 2049 is open",
        "yesterday, last year, in May, next Monday",
        "What may she say?",
        "on 7 May",
        "2023-13-45",
        "05/07/2023",
        "7.5.2023",
        "in 1850",
        "in 20222",
        "the 7th of 2023 boats",
        "555-2023-05-07",
        "May I have 2023 apples",
        "between you and me",
        "from 7 to 9",
    ] {
        check(question, "");
    }
}

/// Words of which dates and ranges consist, and some that are none.
const WORDS: &[&str] = &[
    "between",
    "from",
    "and",
    "to",
    "before",
    "after",
    "the",
    "of",
    "in",
    "7",
    "31st",
    "May",
    "February",
    "2023",
    "1000",
    "2999",
    "2023-02-28",
    "0000-01-01",
    "9999-12-31",
    "(2022)",
    "boats",
    "-",
];

proptest! {
    #[test]
    fn any_question_names_a_few_periods_that_end_after_they_begin(
        words in vec(select(WORDS), 0..14),
        other in "\\PC{0,40}",
    ) {
        for question in [words.join(" "), other] {
            let periods = periods_in(&question);
            prop_assert!(periods.len() <= MAX_PERIODS, "{question}");
            for Period { from, to } in periods {
                prop_assert!(from.is_none() || to.is_none() || from < to, "{question}");
            }
        }
    }
}
