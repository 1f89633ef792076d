use std::time::Duration;

use proptest::prelude::*;

use super::*;

fn cron(text: &str) -> Cron {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn zone(name: &str) -> Zone {
    name.parse().unwrap()
}

/// Checks the first firing times after a timestamp, each in local time with its offset.
fn check(text: &str, name: &str, after: &str, expected: &[&str]) {
    let (cron, zone) = (cron(text), zone(name));
    let mut time: Timestamp = after.parse().unwrap();
    for expected in expected {
        time = cron.next(time, &zone).unwrap();
        let local_time =
            jiff::Timestamp::from_microsecond(time.as_micros()).unwrap().to_zoned(zone.0.clone());
        assert_eq!(local_time.strftime("%Y-%m-%d %H:%M%:z").to_string(), *expected, "`{text}` in {name}");
    }
}

#[test]
fn fields_take_numbers_names_ranges_steps_and_lists() {
    let from = "2026-01-31T08:00:00Z";
    check(
        "*/20 * * * *",
        "UTC",
        from,
        &["2026-01-31 08:20+00:00", "2026-01-31 08:40+00:00", "2026-01-31 09:00+00:00"],
    );
    check(
        "5,10-12/2 8 * * *",
        "UTC",
        from,
        &["2026-01-31 08:05+00:00", "2026-01-31 08:10+00:00", "2026-01-31 08:12+00:00"],
    );
    check("0 8 * * MON-FRI", "UTC", from, &["2026-02-02 08:00+00:00", "2026-02-03 08:00+00:00"]);
    check("0 0 1 jan,Jul *", "UTC", from, &["2026-07-01 00:00+00:00", "2027-01-01 00:00+00:00"]);
    check(
        "50/5 23 * * *",
        "UTC",
        from,
        &["2026-01-31 23:50+00:00", "2026-01-31 23:55+00:00", "2026-02-01 23:50+00:00"],
    );
    check("0 0 29 2 *", "UTC", from, &["2028-02-29 00:00+00:00", "2032-02-29 00:00+00:00"]);
}

#[test]
fn sunday_is_0_and_7_and_ends_a_range() {
    let from = "2026-01-31T08:00:00Z";
    for text in ["0 9 * * 0", "0 9 * * 7", "0 9 * * SUN"] {
        check(text, "UTC", from, &["2026-02-01 09:00+00:00", "2026-02-08 09:00+00:00"]);
    }
    for text in ["0 9 * * 5-7", "0 9 * * FRI-SUN"] {
        check(
            text,
            "UTC",
            from,
            &["2026-01-31 09:00+00:00", "2026-02-01 09:00+00:00", "2026-02-06 09:00+00:00"],
        );
    }
}

#[test]
fn of_a_day_and_a_weekday_either_will_do_and_a_star_leaves_it_to_the_other() {
    let from = "2026-01-31T08:00:00Z";
    check(
        "0 0 13 * FRI",
        "UTC",
        from,
        &["2026-02-06 00:00+00:00", "2026-02-13 00:00+00:00", "2026-02-20 00:00+00:00"],
    );
    check(
        "0 0 13,14 * FRI",
        "UTC",
        "2026-03-07T00:00:00Z",
        &["2026-03-13 00:00+00:00", "2026-03-14 00:00+00:00"],
    );
    // According to crontab(5), `*/2` counts as a star, so both fields must match: odd days that are
    // Mondays.
    check("0 0 */2 * MON", "UTC", from, &["2026-02-09 00:00+00:00", "2026-02-23 00:00+00:00"]);
}

#[test]
fn a_time_that_a_gap_swallows_comes_at_the_first_moment_after_it() {
    let before = "2026-03-28T12:00:00Z";
    check("30 2 * * *", "Europe/Berlin", before, &["2026-03-29 03:00+02:00", "2026-03-30 02:30+02:00"]);
    // Several firing times inside one gap result in a single firing.
    check("*/20 2 * * *", "Europe/Berlin", before, &["2026-03-29 03:00+02:00", "2026-03-30 02:00+02:00"]);
    check("0 2,3 * * *", "Europe/Berlin", before, &["2026-03-29 03:00+02:00", "2026-03-30 02:00+02:00"]);
    // Gaps of half an hour, and of a whole day.
    check("15 2 * * *", "Australia/Lord_Howe", "2026-10-03T00:00:00Z", &["2026-10-04 02:30+11:00"]);
    check(
        "0 9 30 12 *",
        "Pacific/Apia",
        "2011-12-01T00:00:00Z",
        &["2011-12-31 00:00+14:00", "2012-12-30 09:00+14:00"],
    );
}

#[test]
fn of_two_times_that_are_called_the_same_the_first_counts() {
    let before = "2026-10-24T12:00:00Z";
    check("30 2 * * *", "Europe/Berlin", before, &["2026-10-25 02:30+02:00", "2026-10-26 02:30+01:00"]);
    let within = "2026-10-25T01:10:00Z"; // 02:10, for the second time
    check("30 2 * * *", "Europe/Berlin", within, &["2026-10-26 02:30+01:00"]);
    check("0 3 * * *", "Europe/Berlin", within, &["2026-10-25 03:00+01:00"]);
}

#[test]
fn what_runs_every_hour_goes_by_real_time() {
    let hourly = [
        "2026-10-25 01:30+02:00",
        "2026-10-25 02:30+02:00",
        "2026-10-25 02:30+01:00",
        "2026-10-25 03:30+01:00",
    ];
    check("30 * * * *", "Europe/Berlin", "2026-10-24T23:00:00Z", &hourly);
    check(
        "30 * * * *",
        "Europe/Berlin",
        "2026-03-29T00:00:00Z",
        &["2026-03-29 01:30+01:00", "2026-03-29 03:30+02:00"],
    );
}

#[test]
fn a_time_that_is_years_away_is_found_soon() {
    let started = std::time::Instant::now();
    // 2100 is no leap year, so the next one is 2104.
    let from = "2096-03-01T08:00:00Z".parse().unwrap();
    for name in ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe"] {
        let next = cron("0 12 29 2 *").next(from, &zone(name)).unwrap();
        assert!(next.to_string().starts_with("2104-02-29T"), "{next}");
    }
    // Without optimisation, on a busy machine; it took many times as long to walk to each change of the clocks.
    assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
}

#[test]
fn the_newest_of_many_missed_times_is_found() {
    let newest = |text: &str, from: &str, now: &str| {
        cron(text).latest_due(from.parse().unwrap(), now.parse().unwrap(), &Zone::utc()).to_string()
    };
    assert_eq!(
        newest("* * * * *", "2020-01-01T00:00:00Z", "2026-01-31T08:00:30Z"),
        "2026-01-31T08:00:00.000000Z"
    );
    assert_eq!(
        newest("0 8 * * *", "2026-01-30T08:00:00Z", "2026-01-31T07:59:59Z"),
        "2026-01-30T08:00:00.000000Z"
    );
    assert_eq!(
        newest("0 8 1 1 *", "2020-01-01T08:00:00Z", "2026-01-31T08:00:00Z"),
        "2026-01-01T08:00:00.000000Z"
    );
    // A `from` that someone else stored is returned too, although the schedule does not contain it.
    assert_eq!(
        newest("0 8 1 1 *", "2026-01-31T07:00:00Z", "2026-01-31T08:00:00Z"),
        "2026-01-31T07:00:00.000000Z"
    );
}

#[test]
fn what_is_wrong_is_named_with_what_is_right() {
    let refused = |text: &str, expected: &str| {
        let error = text.parse::<Cron>().unwrap_err().to_string();
        assert!(error.contains(expected), "{text:?}: {error}");
    };
    refused("", "has 0 fields, and five are needed: minute, hour, day of the month, month, weekday");
    refused("0 0 8 * * *", "has 6 fields, and five are needed");
    refused("0 0 8 * * *", "seconds are not supported");
    refused("@daily", "write `0 0 * * *`");
    refused("60 * * * *", "the minute `60` must be 0 to 59");
    refused("* 24 * * *", "the hour `24` must be 0 to 23");
    refused("0 0 0 * *", "the day of the month `0` must be 1 to 31");
    refused("0 0 1 FOO *", "the month `FOO` must be 1 to 12 or JAN to DEC");
    refused("0 0 * * MONDAY", "the weekday `MONDAY` must be 0 to 7 or SUN to SAT");
    refused(
        "0 22-2 * * *",
        "the hour `22-2` is a range that ends before it starts; write two ranges, such as `22-23,0-2`",
    );
    refused("*/0 * * * *", "the minute `*/0` has a step that is not 1 to 59");
    refused("*/60 * * * *", "has a step that is not 1 to 59");
    refused("1,,2 * * * *", "the minute `` must be");
    refused("+5 * * * *", "must be 0 to 59");
    refused("0 0 31 2 *", "never fires");
    refused("0 0 31 4,6,9,11 */2", "never fires");
    assert!("0 0 31 2 MON".parse::<Cron>().is_ok(), "Mondays in February there are");
}

#[test]
fn a_zone_is_known_by_its_name_and_a_slip_finds_the_one_that_was_meant() {
    assert!("Europe/Berlin".parse::<Zone>().is_ok());
    let wrong = "Europe/Berln".parse::<Zone>().unwrap_err();
    assert!(wrong.contains("did you mean `Europe/Berlin`?"), "{wrong}");
    assert!("".parse::<Zone>().unwrap_err().contains("UTC"));
    assert!("../../etc/passwd".parse::<Zone>().is_err());
}

/// The reference implementation: checks every minute against the local clock.
fn naive(cron: &Cron, zone: &Zone, after: jiff::Timestamp, minutes: i64) -> Option<jiff::Timestamp> {
    let named_hours = !(0..24).all(|hour| cron.hours.has(hour));
    let fits = |at: DateTime| {
        cron.matches_date(at.date()) && cron.hours.has(at.hour() as u8) && cron.minutes.has(at.minute() as u8)
    };
    let first = after.as_second().div_euclid(60) + 1;
    for minute in first..first + minutes {
        let moment = jiff::Timestamp::from_second(minute * 60).unwrap();
        let (local, before) = (zone.0.to_datetime(moment), zone.0.to_datetime(moment - MINUTE));
        let ambiguous = zone.0.to_ambiguous_timestamp(local);
        let folded = matches!(ambiguous.offset(), AmbiguousOffset::Fold { .. });
        let second_time = folded && ambiguous.earlier().unwrap() < moment;
        if fits(local) && !(named_hours && second_time) {
            return Some(moment);
        }
        // Every local minute that the gap skipped.
        let mut skipped = before + MINUTE;
        while named_hours && skipped < local {
            if fits(skipped) {
                return Some(moment);
            }
            skipped += MINUTE;
        }
    }
    None
}

fn field(min: u8, max: u8) -> impl Strategy<Value = String> {
    let number_text = (min..=max).prop_map(|number| number.to_string());
    let range =
        (min..=max, min..=max, 1..6_u8).prop_map(|(a, b, step)| format!("{}-{}/{step}", a.min(b), a.max(b)));
    let step = (1..=(max - min).min(20)).prop_map(|step| format!("*/{step}"));
    prop_oneof![
        3 => Just("*".to_owned()),
        2 => number_text.clone(),
        1 => prop::collection::vec(number_text, 1..4).prop_map(|list| list.join(",")),
        1 => range,
        1 => step,
    ]
}

/// Hour fields, many of them at night, when daylight saving time starts or ends.
fn hours() -> impl Strategy<Value = String> {
    prop_oneof![1 => field(0, 23), 2 => field(0, 3), 1 => (0..4_u8).prop_map(|hour| hour.to_string())]
}

/// Day fields, most of them every day.
fn days(least: u8, most: u8) -> impl Strategy<Value = String> {
    prop_oneof![3 => Just("*".to_owned()), 1 => field(least, most)]
}

const ZONES: [&str; 7] = [
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "Australia/Lord_Howe",
    "America/Havana",
    "Africa/Casablanca",
    "Pacific/Apia",
];

/// Timestamps in years with all kinds of offset changes, many of them close to a change.
fn moments() -> impl Strategy<Value = (usize, i64)> {
    let start = 1_293_840_000_i64..1_800_000_000; // 2011 to 2027
    (0..ZONES.len(), start, any::<bool>(), -7_200_i64..7_200).prop_map(|(zone, second, close, beside)| {
        let name = ZONES[zone].parse::<Zone>().unwrap();
        let moment = jiff::Timestamp::from_second(second).unwrap();
        let near =
            name.0.following(moment).next().filter(|_| close).map(|change| change.timestamp().as_second());
        (zone, near.map_or(second, |change| change + beside))
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn the_next_time_is_the_one_a_walk_through_the_minutes_finds(
        minute in field(0, 59), hour in hours(), day in days(1, 28), month in days(1, 12),
        weekday in days(0, 6), (zone, second) in moments(),
    ) {
        let text = format!("{minute} {hour} {day} {month} {weekday}");
        let (cron, zone) = (cron(&text), ZONES[zone].parse::<Zone>().unwrap());
        let after = jiff::Timestamp::from_second(second).unwrap();
        let minutes = 3 * 24 * 60;
        let expected = naive(&cron, &zone, after, minutes);
        let end = after + SignedDuration::from_mins(minutes);
        let next = cron.next(Timestamp::from_micros(after.as_microsecond()), &zone)
            .map(|time| jiff::Timestamp::from_microsecond(time.as_micros()).unwrap());
        match expected {
            Some(expected) => prop_assert_eq!(next, Some(expected), "`{}` after {}", text, after),
            None => prop_assert!(next.is_none_or(|time| time > end), "`{}` after {}: {:?}", text, after, next),
        }
    }

    #[test]
    fn what_is_shown_reads_back(minute in field(0, 59), hour in field(0, 23), weekday in field(0, 6)) {
        let first = cron(&format!("{minute}   {hour} * *  {weekday}"));
        prop_assert_eq!(&cron(&first.to_string()), &first);
    }

    #[test]
    fn nothing_that_is_typed_breaks_it(text in "[0-9A-Z*,/@ -]{0,40}") {
        let _ = text.parse::<Cron>();
    }
}

#[test]
fn the_next_time_is_found_in_no_time() {
    let began = std::time::Instant::now();
    for text in ["0 0 29 2 *", "0 0 29 2 */7", "* * 31 12 *", "59 23 31 12 *"] {
        cron(text).next(Timestamp::now(), &zone("Europe/Berlin")).unwrap();
    }
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
}
