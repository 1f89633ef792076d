use std::borrow::Cow;

use emergent_domain::{json::JsonObject, time::Timestamp};
use emergent_store::{Column, Db, Engine, Error, Param, params};
use emergent_testkit::both_engines;
use uuid::Uuid;

/// A table with a column of every type that a migration may use.
async fn probe(db: &Db) {
    let vector = match db.engine() {
        Engine::Sqlite => "bytea",
        Engine::Postgres => "vector",
    };
    let sql = format!(
        "CREATE TABLE probe (i bigint, r double precision, t text, b bytea, u uuid, at timestamptz, j jsonb,
                             y boolean, v {vector})"
    );
    db.write(move |tx| tx.execute(&sql, params![])).await.unwrap();
}

/// Writes a value into a column and reads it back.
async fn round_trip<T: Column + Send + 'static>(db: &Db, column: &'static str, value: Param<'static>) -> T {
    db.write(move |tx| {
        tx.execute("DELETE FROM probe", params![])?;
        tx.execute(&format!("INSERT INTO probe ({column}) VALUES ($1)"), std::slice::from_ref(&value))?;
        let read = tx.query_opt(&format!("SELECT {column} FROM probe"), params![], |row| row.get::<T>(0))?;
        Ok::<_, Error>(read.expect("the row"))
    })
    .await
    .unwrap()
}

both_engines! {
    async fn whole_numbers_come_back(db: TestDb) {
        probe(&db).await;
        for n in [0, 1, -1, i64::MAX, i64::MIN, i64::from(u32::MAX) + 1] {
            assert_eq!(round_trip::<i64>(&db, "i", n.into()).await, n);
        }
    }

    async fn numbers_come_back_to_the_last_bit(db: TestDb) {
        probe(&db).await;
        for n in [0.0, -0.5, 0.1 + 0.2, f64::MAX, f64::MIN_POSITIVE, 5e-324, 1e300, -1e-300, 2_f64.powi(60)] {
            assert_eq!(round_trip::<f64>(&db, "r", n.into()).await.to_bits(), n.to_bits(), "{n}");
        }
        assert_eq!(round_trip::<f64>(&db, "r", Param::Int(3)).await, 3.0);
    }

    async fn texts_come_back_letter_by_letter(db: TestDb) {
        probe(&db).await;
        let long = "é".repeat(100_000);
        for text in ["", " ", "plain", "naïve 北京 🦀\u{200d}🦀", "'; DROP TABLE x; --", "a\n\t\r\\b\"", "\u{10FFFF}", &long] {
            assert_eq!(round_trip::<String>(&db, "t", text.to_owned().into()).await, text);
        }
    }

    async fn bytes_come_back(db: TestDb) {
        probe(&db).await;
        for bytes in [vec![], vec![0], (0..=255).collect(), vec![0xff; 70_000]] {
            assert_eq!(round_trip::<Vec<u8>>(&db, "b", bytes.clone().into()).await, bytes);
        }
    }

    async fn ids_and_truth_come_back(db: TestDb) {
        probe(&db).await;
        for id in [Uuid::nil(), Uuid::max(), Uuid::now_v7()] {
            assert_eq!(round_trip::<Uuid>(&db, "u", id.into()).await, id);
        }
        for truth in [true, false] {
            assert_eq!(round_trip::<bool>(&db, "y", truth.into()).await, truth);
        }
    }

    async fn moments_come_back_to_the_microsecond(db: TestDb) {
        probe(&db).await;
        let ends = [Timestamp::from_micros(i64::MIN), Timestamp::from_micros(i64::MAX)];
        let others = [0, 1, -1, 1_769_846_400_123_456, 946_684_799_999_999].map(Timestamp::from_micros);
        for moment in ends.into_iter().chain(others) {
            assert_eq!(round_trip::<Timestamp>(&db, "at", moment.into()).await, moment, "{moment}");
        }
    }

    async fn vectors_come_back(db: TestDb) {
        probe(&db).await;
        for vector in [vec![1.0_f32], vec![0.1, -0.2, f32::MIN_POSITIVE, f32::MAX], vec![0.5; 2_000]] {
            let param = Param::Vector(Cow::Owned(vector.clone()));
            assert_eq!(round_trip::<Vec<f32>>(&db, "v", param).await, vector);
        }
    }

    async fn nothing_comes_back_as_nothing(db: TestDb) {
        probe(&db).await;
        assert_eq!(round_trip::<Option<i64>>(&db, "i", Param::Null).await, None);
        assert_eq!(round_trip::<Option<f64>>(&db, "r", Param::Null).await, None);
        assert_eq!(round_trip::<Option<String>>(&db, "t", Param::Null).await, None);
        assert_eq!(round_trip::<Option<Vec<u8>>>(&db, "b", Param::Null).await, None);
        assert_eq!(round_trip::<Option<Uuid>>(&db, "u", Param::Null).await, None);
        assert_eq!(round_trip::<Option<Timestamp>>(&db, "at", Param::Null).await, None);
        assert_eq!(round_trip::<Option<JsonObject>>(&db, "j", Param::Null).await, None);
        assert_eq!(round_trip::<Option<bool>>(&db, "y", Param::Null).await, None);
        assert_eq!(round_trip::<Option<Vec<f32>>>(&db, "v", Param::Null).await, None);
        assert_eq!(round_trip::<Option<i64>>(&db, "i", Param::from(Some(7_i64))).await, Some(7));
    }

    async fn a_column_of_another_kind_is_an_error_that_names_it(db: TestDb) {
        let error = db
            .read(|tx| tx.query_opt("SELECT CAST(NULL AS text)", params![], |row| row.get::<String>(0)))
            .await
            .unwrap_err();
        assert_eq!(error.to_string(), "column 0 does not hold text");
    }

    async fn json_comes_back_equal(db: TestDb) {
        probe(&db).await;
        for text in [
            r"{}",
            r#"{"b":1,"a":[true,null,{"x":"1"}]}"#,
            r#"{"one":"1","two":2,"truth":"true","nothing":"null","list":"[1]","quoted":"\"1\""}"#,
            r#"{"max":18446744073709551615,"min":-9223372036854775808,"small":5e-324,"exact":9007199254740993}"#,
            r#"{"é":"\u0001","emoji":"🦀","escaped":"\ud83e\udd80","slash":"\/","$1":"$2"}"#,
            r#"{"":"","a.b":{"c d":1},"0":["0",0]}"#,
        ] {
            let wrote = JsonObject::from_text(text.to_owned()).unwrap();
            let read = round_trip::<JsonObject>(&db, "j", Param::Json(Cow::Owned(text.to_owned()))).await;
            assert_eq!(read.to_map(), wrote.to_map(), "{text}");
        }
    }

    async fn a_number_in_a_string_stays_a_string(db: TestDb) {
        probe(&db).await;
        let text = r#"{"n":1,"s":"1","t":true,"u":"true"}"#;
        round_trip::<JsonObject>(&db, "j", Param::Json(Cow::Borrowed(text))).await;
        let read = db
            .read(|tx| {
                tx.query_opt("SELECT j ->> 's', j ->> 'u', j ->> 'missing' FROM probe", params![], |row| {
                    Ok((row.get::<String>(0)?, row.get::<String>(1)?, row.get::<Option<String>>(2)?))
                })
            })
            .await
            .unwrap();
        assert_eq!(read, Some(("1".to_owned(), "true".to_owned(), None)));
        let labels = vec!["1".to_owned(), "true".to_owned(), "null".to_owned(), "a\"b".to_owned()];
        let read = round_trip::<Vec<String>>(&db, "j", emergent_store::json_strings(&labels)).await;
        assert_eq!(read, labels);
    }

    async fn parameters_are_found_by_number_in_any_order(db: TestDb) {
        let read = db
            .read(|tx| {
                let sql = "SELECT CAST($2 AS text), CAST($1 AS text), CAST($2 AS text), CAST($11 AS text)";
                let all: Vec<Param<'_>> = (1..=11).map(|n| Param::from(n.to_string())).collect();
                // PostgreSQL must be able to tell the type of each.
                let rest = (3..=10).map(|n| format!("CAST(${n} AS text) IS NOT NULL")).collect::<Vec<_>>();
                let sql = format!("{sql} WHERE {}", rest.join(" AND "));
                tx.query_opt(&sql, &all, |row| {
                    Ok([row.get::<String>(0)?, row.get::<String>(1)?, row.get::<String>(2)?, row.get::<String>(3)?])
                })
            })
            .await
            .unwrap();
        assert_eq!(read.unwrap(), ["2", "1", "2", "11"]);
    }

    async fn many_rows_go_in_at_once(db: TestDb) {
        probe(&db).await;
        let changed = db
            .write(|tx| {
                let rows: Vec<Vec<Param<'_>>> =
                    (0..2_345_i64).map(|n| vec![n.into(), n.to_string().into()]).collect();
                tx.insert_many("INSERT INTO probe (i, t) VALUES", 2, &rows, "")
            })
            .await
            .unwrap();
        assert_eq!(changed, 2_345);
        let sum = crate::number(&db, "SELECT count(*) FROM probe WHERE CAST(i AS text) = t").await;
        assert_eq!(sum, 2_345);
    }
}
