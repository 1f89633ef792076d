//! Reads of an earlier time that name an object by its key: the key names the object that had it then.

use crate::common;

use common::{Answer, Client, Server};
use emergent_testkit::both_engines;
use serde_json::{Value, json};

/// Two notes with an edge from `Note/a` to `Note/b`, and what became of them.
struct Story {
    client: Client,
    a: String,
    edge: String,
    /// Before `Note/a` was renamed, its key was given to another note, and `Note/b` was deleted.
    then: String,
    /// The note that has the key `a` since.
    successor: String,
    /// When `Note/b` was deleted.
    deleted: String,
    /// After all that.
    now: String,
}

async fn tell(server: &Server) -> Story {
    let client = server.admin();
    let (a, b) =
        (client.object("Note", "a", json!({ "n": 1 })).await, client.object("Note", "b", json!({})).await);
    let edge = client.edge("near", &a, &b).await;
    let then = marker(&client, "first").await;
    client.patch(&format!("/api/graph/objects/{a}"), json!({ "key": "renamed" })).await.is(200);
    let successor = client.object("Note", "a", json!({ "n": 2 })).await;
    let deleted = client.delete("/api/graph/objects/Note%2Fb").await.is(200)["deletedAt"].clone();
    let now = marker(&client, "second").await;
    Story { client, a, edge, then, successor, deleted: text(&deleted), now }
}

/// The time of an object that is written now.
async fn marker(client: &Client, key: &str) -> String {
    let id = client.object("Marker", key, json!({})).await;
    text(&client.get(&format!("/api/graph/objects/{id}")).await.is(200)["createdAt"])
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

/// The ids of a list.
fn ids(list: &Value) -> Vec<String> {
    list.as_array().unwrap().iter().map(|one| text(&one["id"])).collect()
}

/// Expects an answer that the object of a field was not live at the time.
#[track_caller]
fn was_not_live(answer: &Answer, field: &str, message: &str) {
    assert_eq!(answer.refused(404, "not_found")["message"], message);
    assert_eq!(answer.field(), field, "{}", answer.text);
}

both_engines! {
    async fn an_object_and_its_relationships_are_read_by_the_key_of_the_time(db: TestDb) {
        let server = Server::start(&db).await;
        let Story { client, a, edge, then, successor, deleted, now } = tell(&server).await;
        let object = |at: &str| format!("/api/graph/objects/Note%2Fa?asOf={at}");
        let earlier = client.get(&object(&then)).await.is(200).clone();
        assert_eq!((&earlier["id"], &earlier["key"], &earlier["version"]), (&json!(a), &json!("a"), &json!(1)));
        assert_eq!(client.get(&object(&now)).await.is(200)["id"], successor.as_str());
        assert_eq!(client.get(&format!("/api/graph/objects/Note%2Frenamed?asOf={now}")).await.is(200)["id"], a.as_str());
        assert_eq!(client.get(&format!("/api/graph/objects/{a}?asOf={then}")).await.is(200)["key"], "a", "by its id");

        for list in ["objects/Note%2Fa/edges?", "objects/Note%2Fb/edges?", "relationships?fromId=Note/a&", "relationships?toId=Note/b&"] {
            let listed = client.get(&format!("/api/graph/{list}asOf={then}")).await;
            assert_eq!(ids(listed.is(200)), std::slice::from_ref(&edge), "{list}");
        }
        assert_eq!(*client.get(&format!("/api/graph/objects/Note%2Fa/edges?asOf={now}")).await.is(200), json!([]));

        let early = "2001-01-01T00:00:00Z";
        let (shown, gone) = ("2001-01-01T00:00:00.000000Z", format!("the object `Note/b` was deleted at {deleted}"));
        for (path, field) in [("objects/Note%2Fb?", "id"), ("objects/Note%2Fb/edges?", "id"), ("relationships?fromId=Note/b&", "fromId"), ("relationships?toId=Note/b&", "toId")] {
            let answer = client.get(&format!("/api/graph/{path}asOf={early}")).await;
            was_not_live(&answer, field, &format!("the object `Note/b` did not exist at {shown}"));
            was_not_live(&client.get(&format!("/api/graph/{path}asOf={now}")).await, field, &gone);
        }
        let never = client.get(&format!("/api/graph/objects/Note%2Frenamed?asOf={then}")).await;
        was_not_live(&never, "id", &format!("the object `Note/renamed` did not exist at {then}"));
        let unknown = client.get(&format!("/api/graph/relationships?fromId={}&asOf={then}", uuid::Uuid::now_v7())).await;
        assert_eq!(*unknown.is(200), json!([]), "an id is a filter, as in a list of the present");
        client.in_project(server.project("other").await).get(&object(&then)).await.refused(404, "not_found");
    }

    async fn a_traversal_and_a_path_begin_at_the_object_that_had_the_key_then(db: TestDb) {
        let server = Server::start(&db).await;
        let Story { client, a, then, successor, deleted, now, .. } = tell(&server).await;
        let traverse = async |start: &[&str], at: &str| client.post("/api/graph/traverse", json!({ "startIds": start, "asOf": at })).await;
        let earlier = traverse(&["Note/a"], &then).await.is(200).clone();
        assert_eq!((&earlier["nodes"][0]["id"], earlier["nodes"].as_array().unwrap().len()), (&json!(a), 2));
        assert_eq!(ids(&traverse(&["Note/a"], &now).await.is(200)["nodes"]), [successor]);
        assert_eq!(ids(&traverse(&["Note/renamed", a.as_str()], &now).await.is(200)["nodes"]), std::slice::from_ref(&a));
        let gone = format!("the object `Note/b` was deleted at {deleted}");
        was_not_live(&traverse(&["Note/a", "Note/b"], &now).await, "startIds[1]", &gone);
        let many = vec!["Note/a"; 101];
        assert_eq!(traverse(&many, &now).await.refused(400, "invalid")["details"][0]["field"], "startIds");

        let path = async |from: &str, to: &str, at: &str| client.post("/api/graph/path", json!({ "fromId": from, "toId": to, "asOf": at })).await;
        let found = path("Note/a", "Note/b", &then).await.is(200).clone();
        assert_eq!((&found["found"], &found["objects"][0]["id"]), (&json!(true), &json!(a)));
        was_not_live(&path("Note/a", "Note/b", &now).await, "toId", &gone);
        let early = "2001-01-01T00:00:00Z";
        was_not_live(&path(&a, "Note/b", early).await, "fromId", &format!("the object `{a}` did not exist at 2001-01-01T00:00:00.000000Z"));
    }
}
