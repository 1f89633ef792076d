//! Short texts of requests and settings: search queries, cron expressions, cursors, positions, filters, manifests and
//! rehearsal scripts.

use std::str::FromStr;

use emergent_domain::{
    change::FeedPosition,
    cron::{Cron, Zone},
    cursor::{Cursor, Page},
    filter::Filter,
    foreign_json::{self, ForeignValue},
    reserved_keys::{REASON, has_reserved_key},
    text_query::{MatchMode, TextQuery},
    time::Timestamp,
    trigger::Trigger,
};
use emergent_llm::Script;
use emergent_products::{builtin, validate};
use rusqlite::Connection;
use serde_json::{Map, Value, value::RawValue};

use super::{Target, owned, proportional, shown};

pub const TEXT_QUERY: Target = Target {
    name: "text-query",
    samples: || {
        owned(&[
            "early computing \"analytical engine\" -babbage",
            "node.js has_session prog* OR \"a b\"*",
            "einführung 人工智能 naïve",
        ])
    },
    tokens: &[
        "\"",
        "-",
        "*",
        " OR ",
        " AND ",
        " NOT ",
        "NEAR(",
        "(",
        ")",
        ":",
        "^",
        "+",
        "'",
        "''",
        "\\",
        "&",
        "|",
        "!",
        "<->",
        ":*",
        "{",
        "}",
        "\0",
        "\u{a0}",
        "e\u{301}",
        "the ",
        " of ",
        "\u{1F600}",
        "\u{200b}",
    ],
    parse: text_query,
    max_output: proportional,
};

fn text_query(bytes: &[u8]) -> Result<String, String> {
    thread_local! {
        static INDEX: Connection = {
            let conn = Connection::open_in_memory().expect("a database");
            conn.execute_batch("CREATE VIRTUAL TABLE t USING fts5 (text); INSERT INTO t VALUES ('a b c')").expect("a table");
            conn
        };
    }
    let query = TextQuery::parse(&String::from_utf8_lossy(bytes));
    let mut output = format!("{query:?}");
    for mode in [MatchMode::All, MatchMode::Any] {
        for query in [&query, &query.without_stop_words()] {
            let (fts5, tsquery) = (query.to_fts5(mode), query.to_tsquery(mode));
            if fts5.is_some() != tsquery.is_some() {
                return Err(format!("only one engine would search: {fts5:?}, {tsquery:?}"));
            }
            if let Some(fts5) = &fts5 {
                let found = INDEX.with(|conn| {
                    conn.query_row("SELECT count(*) FROM t WHERE t MATCH ?1", [fts5], |row| {
                        row.get::<_, i64>(0)
                    })
                });
                found.map_err(|error| format!("SQLite refuses `{fts5}`: {error}"))?;
            }
            output += &format!(" {fts5:?} {tsquery:?}");
        }
    }
    Ok(output)
}

pub const CRON: Target = Target {
    name: "cron",
    samples: || {
        owned(&["0 8 * * MON-FRI", "*/15 0-6/2,12 1,15 JAN-MAR *", "30 2 29 2 1", "on_document_ingested"])
    },
    tokens: &[
        "*",
        "/",
        "-",
        ",",
        " ",
        "0",
        "59",
        "60",
        "MON",
        "SUN",
        "JAN",
        "dec",
        "?",
        "L",
        "#",
        "@daily",
        "\t",
        "99999999999",
        "*/0",
        "1-0",
    ],
    parse: |bytes| {
        let text = String::from_utf8_lossy(bytes);
        let mut output = shown(&Trigger::from_str(&text));
        if let Ok(cron) = text.parse::<Cron>() {
            let after = Timestamp::from_micros(1_790_000_000_000_000);
            // One zone for each input: a schedule that never fires is searched for forty years.
            let zone = ["Europe/Berlin", "UTC", "Asia/Kathmandu"][bytes.len() % 3];
            let zone: Zone = zone.parse().map_err(|error| format!("{error:?}"))?;
            let next = cron.next(after, &zone);
            if next.is_some_and(|next| next <= after) {
                return Err(format!("the next time {next:?} is not after {after}"));
            }
            output += &format!(" {next:?}");
        }
        Ok(output + &shown(&text.parse::<Zone>().map(|_| "zone")))
    },
    max_output: proportional,
};

pub const CURSOR: Target = Target {
    name: "cursor",
    samples: || owned(&["AAYb6xJk8AAZR3J5AAB3nLb0AAAAAAAA", "1234-5678", "2026-11-16T06:10:35Z", "0-0"]),
    tokens: &[
        "-",
        "_",
        "=",
        "A",
        "AAAA",
        "+",
        "/",
        "9223372036854775807",
        "T",
        "Z",
        ":",
        "+14:00",
        "\0",
        "%00",
    ],
    parse: |bytes| {
        let text = String::from_utf8_lossy(bytes);
        if let Ok(cursor) = text.parse::<Cursor>()
            && cursor.encode().parse::<Cursor>().ok() != Some(cursor)
        {
            return Err(format!("{cursor:?} is not read as it was written"));
        }
        if let Ok(position) = text.parse::<FeedPosition>()
            && position.to_string().parse::<FeedPosition>().ok() != Some(position)
        {
            return Err(format!("{position:?} is not read as it was written"));
        }
        let (page, position) = (Page::new(None, Some(&text)), text.parse::<FeedPosition>().map_err(|_| ()));
        let time = text.parse::<Timestamp>().map_err(|error| error.to_string());
        Ok(format!("{} {} {}", shown(&page), shown(&position), shown(&time)))
    },
    max_output: proportional,
};

pub const FILTER: Target = Target {
    name: "filter",
    samples: || {
        owned(&[
            r#"{"path":"metrics.llm_calls","op":"gt","value":3}"#,
            r#"{"path":"a.b.c","op":"in","value":["x",1,true,2.5]}"#,
            r#"{"path":"tags","op":"contains","value":"x"}"#,
            r#"{"path":"done","op":"exists"}"#,
        ])
    },
    tokens: &[
        "{",
        "}",
        "[",
        "]",
        "\"",
        ":",
        ",",
        ".",
        "..",
        "null",
        "true",
        "1e999",
        "-0",
        "\"op\":\"eq\"",
        "\"op\":\"lte\"",
        "\"value\":",
        "\\u0000",
        "\\ud800",
        "\"path\":\"a.b\"",
        "1.7976931348623157e308",
        "0.1",
    ],
    parse: |bytes| {
        let filter = serde_json::from_slice::<Filter>(bytes).map_err(|error| error.to_string());
        let mut output = shown(&filter);
        if let Ok(filter) = filter {
            let condition = filter.check();
            output += &shown(&condition);
            let properties: Map<String, Value> = serde_json::from_str(
                r#"{"metrics":{"llm_calls":4},"a":{"b":{"c":"x"}},"tags":["x"],"done":null}"#,
            )
            .expect("an object");
            let matches = filter.matches(&properties);
            if condition.is_ok_and(|condition| condition.matches(&properties) != matches) {
                return Err("the filter and its condition differ".to_owned());
            }
            output += &matches.to_string();
        }
        Ok(output)
    },
    max_output: proportional,
};

fn is_json(bytes: &[u8]) -> bool {
    foreign_json::parse_slice::<&RawValue>(bytes).is_ok()
}

/// The search for reserved keys in a text agrees with the keys that a parser reads.
pub const RESERVED_KEYS: Target = Target {
    name: "reserved-keys",
    samples: || {
        owned(&[
            r#"{"z":[1,{"$serde_json::private::RawValue":"[1]"}]}"#,
            r#"{"\u0024serde_json::private::R\u0061wValue" : "[1]"}"#,
            r#"{"a":"$serde_json::private::RawValue","b\"\\":{}}"#,
        ])
    },
    tokens: &[
        "{",
        "}",
        "[",
        "]",
        "\"",
        ":",
        ",",
        "\\",
        "\\u0024",
        "\\u005F",
        "\\ud83d\\ude00",
        "$serde_json::private::",
        "serde_json::private::RawValue",
        "\"$serde_json::private::Number\"",
        "\"a\"",
        "1",
        " ",
        "\n",
    ],
    parse: |bytes| {
        let parsed = foreign_json::parse_slice::<ForeignValue>(bytes).map_err(|error| error.to_string());
        let found = has_reserved_key(bytes);
        match &parsed {
            Ok(_) if found => Err("a key is found that no parser reads".to_owned()),
            // Without a colon behind it, a parser takes no string for a key.
            Err(error) if error.starts_with(REASON) && !found && is_json(bytes) => {
                Err("a reserved key is not found".to_owned())
            }
            _ => Ok(format!("{found} {}", shown(&parsed))),
        }
    },
    max_output: proportional,
};

pub const MANIFEST: Target = Target {
    name: "manifest",
    samples: || builtin::ALL.iter().map(|product| product.manifest.as_bytes().to_vec()).collect(),
    tokens: &[
        "{",
        "}",
        "[",
        "]",
        "\"",
        ":",
        ",",
        "null",
        "true",
        "1e400",
        "\"name\":",
        "\"version\":\"1.0.0\"",
        "\"agents\":[",
        "\"mcp\":{",
        "\"tools\":[\"*\"]",
        "\"$ref\":\"#\"",
        "\"pattern\":\"(a+)+$\"",
        "\"trigger\":\"* * * * *\"",
        "\\u0000",
        "{{",
        "}}",
        "${SECRET}",
        "\"min_core_version\":\"99.0.0\"",
        "\"template_packs\":[",
        "\"properties\":{",
        "\"allOf\":[",
        "\"command\":\"sh\"",
        "\"url\":\"http://10.0.0.1\"",
    ],
    parse: |bytes| {
        let parsed = validate::parse(bytes);
        if let Ok(manifest) = &parsed {
            return Ok(format!("ok {} {:?}", manifest.raw, manifest.definitions().collect::<Vec<_>>()));
        }
        Ok(shown(&parsed.map(|_| ())))
    },
    max_output: |input| (64 << 10) + 200 * input,
};

pub const SCRIPT: Target = Target {
    name: "script",
    samples: || builtin::ALL.iter().map(|product| product.rehearsal.as_bytes().to_vec()).collect(),
    tokens: &[
        "rules:\n",
        "- ",
        "  ",
        "\n",
        ": ",
        "answer:\n",
        "when:\n",
        "text: ",
        "fault: cut",
        "&a ",
        "*a",
        "<<: *a",
        "[",
        "]",
        "{",
        "}",
        "\"",
        "'",
        "|\n",
        ">\n",
        "---\n",
        "...\n",
        "!!binary ",
        "!!int ",
        "%YAML 1.2\n",
        "? ",
        "# ",
        "\t",
        "{{last}}",
        "delay_ms: 99999999999999999999",
        "~",
        "\0",
        "&a [*a, *a]",
        "\u{feff}",
        "\u{85}",
    ],
    parse: |bytes| Ok(shown(&Script::parse(&String::from_utf8_lossy(bytes)))),
    max_output: |input| (64 << 10) + 200 * input,
};
