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
        "What happened? 2022.",
        "\"2022\"",
    ] {
        check(question, year);
    }
}

#[test]
fn what_follows_a_year_of_events_is_not_counted_by_it() {
    for question in [
        "in 2022 across all teams",
        "in 2022 besides the election",
        "in 2022 sales rose",
        "in the year 2022 sales rose",
        "in early 2022 sales rose",
        "the reforms of 2022 across all teams",
        "in 2022's elections",
        "the winners of 2022’s elections",
    ] {
        check(question, "2022-01-01..2023-01-01");
    }
    check("in 2022 and 2023 sales rose", "2022-01-01..2023-01-01 2023-01-01..2024-01-01");
    check("In 1999, 2000 ships sailed", "1999-01-01..2000-01-01");
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
    check("between early 2020 and late 2022", "2020-01-01..2023-01-01");
    check("between the year 2020 and the year 2022", "2020-01-01..2023-01-01");
    check("from early March to mid June 2021", "2021-03-01..2021-07-01");
    check("from the 7th to the 9th of May 2023", "2023-05-07..2023-05-10");
    for question in ["7 to 9 May 2023", "on 7 - 9 May 2023", "the 7th until the 9th of May 2023"] {
        check(question, "2023-05-07..2023-05-10");
    }
    check("in November to February 2021", "2020-11-01..2021-03-01");
}

#[test]
fn dates_that_share_a_month_or_a_year_are_all_read() {
    let (may, june) = ("2023-05-01..2023-06-01", "2023-06-01..2023-07-01");
    for question in ["in May and June 2023", "in May or June 2023", "letters from May and June 2023"] {
        check(question, &format!("{may} {june}"));
    }
    check("in May, June and July 2023", &format!("{may} {june} 2023-07-01..2023-08-01"));
    check("in June or May 2023", &format!("{june} {may}"));
    check("on the 7th and the 9th of May 2023", "2023-05-07..2023-05-08 2023-05-09..2023-05-10");
    check("on 30 April or 2 May 2023", "2023-04-30..2023-05-01 2023-05-02..2023-05-03");
    check("before May or June 2023", "..2023-05-01 ..2023-06-01");
    let (first, second) = ("2022-01-01..2023-01-01", "2023-01-01..2024-01-01");
    for question in [
        "in 2022 and 2023",
        "in 2022 or 2023",
        "in 2022, 2023",
        "in 2022, and 2023",
        "letters from 2022 and 2023",
    ] {
        check(question, &format!("{first} {second}"));
    }
    check("in 2022, 2023 and 2024", &format!("{first} {second} 2024-01-01..2025-01-01"));
    check("in May 2022 and 2023", &format!("2022-05-01..2022-06-01 {second}"));
    check("room 7 and May 2023", may);
    check("in 2022 and boats", first);
    check("May and 7 boats of 2022", first);
}

#[test]
fn an_open_beginning_and_an_open_end_are_one_period() {
    check("after 2019 and before 2022", "2020-01-01..2022-01-01");
    check("before 2022 and after 2019", "2020-01-01..2022-01-01");
    check("since 2020 until 2022", "2020-01-01..2023-01-01");
    check("since May 2020, but before 7 June 2021", "2020-05-01..2021-06-07");
    check("before 2000 or after 2010", "..2000-01-01 2011-01-01..");
    check("before 2000 or before 2010", "..2000-01-01 ..2010-01-01");
    check("after 2019 and in 2022", "2020-01-01.. 2022-01-01..2023-01-01");
}

#[test]
fn several_dates_are_several_periods_up_to_a_limit() {
    check("in 2020 or in 2022 or in 2020", "2020-01-01..2021-01-01 2022-01-01..2023-01-01");
    let five = "in 2011, in 2012, in 2013, in 2014, in 2015";
    assert_eq!(periods_in(five).len(), MAX_PERIODS);
    assert_eq!(periods_in("in 2011, 2012, 2013, 2014, 2015").len(), MAX_PERIODS);
    assert_eq!(periods_in("in 2011, 2012, 2013, and in May, June or July 2015").len(), MAX_PERIODS);
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
        "pay invoice no. 2023",
        "pay invoice nr. 2023, please",
        "Error: 2003",
        "the sailors' 2003.",
        "a price of 2020 EUR",
        "a price of 2020 €",
        "a file of 2024 MB",
        "a distance of 2020 km",
        "in 2000 km, what comes?",
        "from 1900 to 2000 words",
        "of 1900 or 2000 words",
        "between 1900 and 2000 km",
        "the 2010-11 season",
        "the season 2010-11",
        "the 2010-11 school year",
    ] {
        check(question, "");
    }
}

#[test]
fn a_number_of_a_name_is_no_day() {
    check("the Windows 10 May 2020 Update", "2020-05-01..2020-06-01");
    check("On 10 May 2020 Ada left", "2020-05-10..2020-05-11");
    check("Since 10 May 2020 Ada is ill", "2020-05-10..");
    check("on Sunday 10 May 2020 Ada left", "2020-05-10..2020-05-11");
    check("Ada left Paris 10 May 2020", "2020-05-10..2020-05-11");
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
    "2022,",
    "boats",
    "-",
    "or",
    "until",
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
