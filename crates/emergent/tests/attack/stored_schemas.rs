//! Hostile schemas that are in the database already, because an earlier version accepted them: the server starts,
//! answers others, and refuses the types of the schemas only.

use serde_json::{Value, json};

use crate::{
    bystander::Bystander,
    common::{Home, text},
    project_token,
    schemas::hostile_schemas,
};

const OBJECTS: &str = "/api/graph/objects";

/// Replaces the contents of a stored pack, while no server runs.
async fn replace_pack(home: &Home, name: &str, pack: &Value) {
    let pack = pack.to_string();
    match &home.postgres {
        None => {
            let database = rusqlite::Connection::open(home.data().join("emergent.db")).expect("the database");
            let sql = "UPDATE template_packs SET pack = ?1 WHERE name = ?2";
            assert_eq!(database.execute(sql, [pack.as_str(), name]).expect("a change"), 1);
        }
        Some(url) => {
            let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.unwrap();
            let connection = tokio::spawn(connection);
            let sql = "UPDATE kb.template_packs SET pack = $1::text::jsonb WHERE name = $2";
            assert_eq!(client.execute(sql, &[&pack, &name]).await.expect("a change"), 1);
            drop(client);
            connection.abort();
        }
    }
}

async fn stored_schemas(home: Home) {
    let server = home.start().await;
    let attacker = project_token(&server, "attacker", &["graph:read", "graph:write"]).await;
    let pack = json!({ "name": "stored", "version": "1.0.0", "objectTypeSchemas": { "Harmless": {} } });
    let id = attacker.post("/api/template-packs", &pack).await.data()["id"].as_str().unwrap().to_owned();
    assert_eq!(attacker.post(&format!("/api/template-packs/{id}/assign"), &json!({})).await.status, 200);
    server.kill();
    let mut schemas = json!({ "Harmless": {} });
    for (index, (_, schema)) in hostile_schemas().into_iter().enumerate() {
        schemas[format!("Hostile{index}")] = schema;
    }
    let count = schemas.as_object().unwrap().len() - 1;
    let stored = json!({ "name": "stored", "version": "1.0.0", "objectTypeSchemas": schemas });
    replace_pack(&home, "stored", &stored).await;

    let server = home.start().await;
    let attacker = attacker.at(server.url());
    let bystander = Bystander::start(&server).await;
    for round in 0..5 {
        for index in 0..count {
            let object = json!({ "type": format!("Hostile{index}"), "properties": { "x": round } });
            let refused = attacker.post(OBJECTS, &object).await;
            assert_eq!((refused.status, refused.code()), (400, "invalid"), "{}", refused.body);
            let message = refused.body["error"]["message"].as_str().unwrap();
            assert!(message.contains("emergent pack unassign stored"), "{message}");
        }
        for type_ in ["Harmless", "Other"] {
            let object = json!({ "type": type_, "properties": { "x": round } });
            assert_eq!(attacker.post(OBJECTS, &object).await.status, 201, "{type_}");
        }
    }
    bystander.assert_served(&server).await;
    let doctor = text(&home.run(&["doctor"]).stdout);
    assert!(doctor.contains("`stored`: the schema of `Hostile0`"), "{doctor}");
    assert!(doctor.contains("emergent pack unassign stored"), "{doctor}");
    assert_eq!(attacker.delete(&format!("/api/template-packs/{id}/assign")).await.status, 200);
    let object = json!({ "type": "Hostile0", "properties": {} });
    assert_eq!(attacker.post(OBJECTS, &object).await.status, 201);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stored_schema_that_is_refused_stops_nobody_on_sqlite() {
    stored_schemas(Home::sqlite()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stored_schema_that_is_refused_stops_nobody_on_postgres() {
    stored_schemas(Home::postgres().await).await;
}
