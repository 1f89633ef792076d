//! A value is sent only where an operator, or the token that gave it, said that it may be sent.

use emergent_domain::{
    ids::{ProjectId, TokenId},
    mcp_server::{ConfiguredBy, McpServer},
    redact::Redactor,
    time::Clock,
};
use emergent_secrets::{Destination, Error, KeySource, Secret, Secrets, bindings};
use emergent_store::{Db, Tx, mcp_servers, projects};
use emergent_testkit::{both_engines, fixtures::mcp_server};
use serde_json::json;

const KEY: &str = "dGhlIGtleSBvZiB0aGUgdGVzdHMgb2YgdGhlIEFQSSE=";

struct Setup {
    db: Db,
    secrets: Secrets,
    project: ProjectId,
}

impl Setup {
    async fn open(db: &Db) -> Self {
        let (clock, keys) = (Clock::system(), KeySource::from_env_value(KEY).unwrap());
        let now = clock.now();
        let project: emergent_store::Result<_> =
            db.write(move |tx| projects::insert(tx, "ours", false, now)).await;
        let secrets = Secrets::open(db.clone(), clock, keys, Redactor::default()).await.unwrap();
        Self { db: db.clone(), secrets, project: project.unwrap().unwrap().id }
    }

    fn server(&self, url: &str) -> McpServer {
        let spec =
            json!({ "name": "hub", "transport": "http", "url": url, "headers": { "X-Key": "${KEY}" } });
        mcp_server(self.project, spec)
    }

    async fn put(&self, value: &str, by: TokenId) {
        let value = Secret::new(value.to_owned());
        self.secrets.put(self.project, Some(by), &"KEY".parse().unwrap(), value).await.unwrap();
    }

    async fn add(&self, server: &McpServer, by: ConfiguredBy) {
        let server = server.clone();
        let work = move |tx: &mut Tx<'_>| {
            mcp_servers::insert(tx, &server)?;
            bindings::bind_server(tx, None, &server, by, server.created_at)
        };
        let done: emergent_store::Result<()> = self.db.write(work).await;
        done.unwrap();
    }

    async fn edit(&self, before: &McpServer, url: &str, by: ConfiguredBy) -> McpServer {
        let after = McpServer {
            id: before.id,
            version: before.version + 1,
            unbound_version: before.unbound_version,
            origin_bound_version: before.origin_bound_version,
            address_bound_version: before.address_bound_version,
            ..self.server(url)
        };
        let (before, edited) = (before.clone(), after.clone());
        let work = move |tx: &mut Tx<'_>| {
            mcp_servers::update(tx, &edited)?;
            bindings::bind_server(tx, Some(&before), &edited, by, edited.updated_at)
        };
        let done: emergent_store::Result<()> = self.db.write(work).await;
        done.unwrap();
        after
    }

    /// The value that the server gets, or the error.
    async fn sent(&self, server: &McpServer) -> Result<String, Error> {
        let value = self.secrets.resolve(&Destination::for_server(server), &"${KEY}".parse().unwrap()).await;
        value.map(|value| value.expose().to_owned())
    }

    #[track_caller]
    fn refused(sent: Result<String, Error>, target: &str) {
        match sent {
            Err(Error::NotBound { target: found, .. }) => assert_eq!(found, target),
            other => panic!("{other:?}"),
        }
    }

    async fn allow(&self, by: ConfiguredBy) -> Result<emergent_secrets::SecretInfo, Error> {
        self.secrets.allow(self.project, by, &"KEY".parse().unwrap(), "hub").await
    }
}

both_engines! {
    async fn whoever_gave_the_value_decides_where_it_is_sent(db: TestDb) {
        let setup = Setup::open(&db).await;
        let (owner, other) = (TokenId::new(), TokenId::new());
        let server = setup.server("https://a.test/");
        setup.add(&server, ConfiguredBy::Project(owner)).await;
        setup.put("first value", owner).await;
        assert_eq!(setup.sent(&server).await.unwrap(), "first value");
        // Another token directs it elsewhere, and back.
        let edited = setup.edit(&server, "https://evil.test/", ConfiguredBy::Project(other)).await;
        let refused = setup.sent(&edited).await;
        let message = refused.as_ref().unwrap_err().to_string();
        for said in ["`KEY`", "`https://a.test`", "`https://evil.test`", "emergent secret allow KEY --mcp-server hub"] {
            assert!(message.contains(said), "{message}");
        }
        Setup::refused(refused, "https://evil.test");
        assert!(matches!(setup.allow(ConfiguredBy::Project(other)).await, Err(Error::GivenByOthers { .. })));
        let back = setup.edit(&edited, "https://a.test", ConfiguredBy::Project(other)).await;
        assert_eq!(setup.sent(&back).await.unwrap(), "first value");
        let moved = setup.edit(&back, "https://b.test/", ConfiguredBy::Project(owner)).await;
        assert_eq!(setup.sent(&moved).await.unwrap(), "first value");
    }

    async fn a_value_does_not_go_where_another_giver_directed_its_predecessor(db: TestDb) {
        let setup = Setup::open(&db).await;
        let (owner, attacker) = (TokenId::new(), TokenId::new());
        setup.put("of the attacker", attacker).await;
        let server = setup.server("https://evil.test/");
        setup.add(&server, ConfiguredBy::Project(attacker)).await;
        assert_eq!(setup.sent(&server).await.unwrap(), "of the attacker", "it knows this value");
        setup.put("of the owner", owner).await;
        Setup::refused(setup.sent(&server).await, "https://evil.test");
        // An edit of something else by whoever may does not allow it.
        let same = setup.edit(&server, "https://evil.test/", ConfiguredBy::Operator).await;
        Setup::refused(setup.sent(&same).await, "https://evil.test");
        let info = setup.secrets.list(setup.project).await.unwrap();
        assert!(!info[0].destinations[0].is_allowed, "{info:?}");
        let info = setup.allow(ConfiguredBy::Project(owner)).await.unwrap();
        assert!(info.destinations[0].is_allowed, "{info:?}");
        assert_eq!(setup.sent(&same).await.unwrap(), "of the owner");
    }

    async fn an_operator_decides_for_every_value(db: TestDb) {
        let setup = Setup::open(&db).await;
        let server = setup.server("https://a.test/");
        setup.add(&server, ConfiguredBy::Operator).await;
        setup.put("first value", TokenId::new()).await;
        setup.put("second value", TokenId::new()).await;
        assert_eq!(setup.sent(&server).await.unwrap(), "second value");
        let edited = setup.edit(&server, "https://b.test/", ConfiguredBy::Project(TokenId::new())).await;
        Setup::refused(setup.sent(&edited).await, "https://b.test");
        setup.allow(ConfiguredBy::Operator).await.unwrap();
        assert_eq!(setup.sent(&edited).await.unwrap(), "second value");
        assert!(matches!(setup.secrets.allow(setup.project, ConfiguredBy::Operator, &"KEY".parse().unwrap(), "no\0ne").await, Err(Error::NoServer(_))));
        assert!(matches!(setup.secrets.allow(setup.project, ConfiguredBy::Operator, &"OTHER".parse().unwrap(), "hub").await, Err(Error::NotFound { .. })));
    }

    async fn a_server_from_before_goes_on_and_cannot_be_redirected(db: TestDb) {
        let setup = Setup::open(&db).await;
        let server = McpServer { unbound_version: Some(1), ..setup.server("https://a.test/") };
        let insert = server.clone();
        let done: emergent_store::Result<bool> = setup.db.write(move |tx| mcp_servers::insert(tx, &insert)).await;
        assert!(done.unwrap());
        setup.put("first value", TokenId::new()).await;
        assert_eq!(setup.sent(&server).await.unwrap(), "first value");
        let other = ConfiguredBy::Project(TokenId::new());
        let edited = setup.edit(&server, "https://evil.test/", other).await;
        Setup::refused(setup.sent(&edited).await, "https://evil.test");
        let back = setup.edit(&edited, "https://a.test/", other).await;
        assert_eq!(setup.sent(&back).await.unwrap(), "first value");
    }

    async fn a_value_goes_to_one_customer_of_a_host_and_not_to_another(db: TestDb) {
        let setup = Setup::open(&db).await;
        let (owner, other) = (TokenId::new(), ConfiguredBy::Project(TokenId::new()));
        setup.put("first value", owner).await;
        let mut server = setup.server("https://host.test/one/mcp");
        setup.add(&server, ConfiguredBy::Project(owner)).await;
        for url in [
            "https://host.test/two/mcp",
            "https://host.test/one/../two/mcp",
            "https://host.test/one/mcp/..%2f..%2ftwo",
            "https://host.test/one/mcp?customer=two",
            "https://host.test/",
        ] {
            server = setup.edit(&server, url, other).await;
            let refused = setup.sent(&server).await;
            let message = refused.as_ref().unwrap_err().to_string();
            assert!(message.contains("another path of `https://host.test`, and not to the path"), "{message}");
            assert!(!message.contains("not to `https://host.test`"), "both would be the same text: {message}");
            assert!(!message.contains("/one"), "a path may contain a key: {message}");
            Setup::refused(refused, "https://host.test");
        }
        server = setup.edit(&server, "https://host.test/two/../one/mcp#part", other).await;
        assert_eq!(setup.sent(&server).await.unwrap(), "first value", "the same place");
    }

    async fn a_binding_to_an_origin_counts_for_the_path_it_was_given_for(db: TestDb) {
        let setup = Setup::open(&db).await;
        let (owner, other) = (TokenId::new(), ConfiguredBy::Project(TokenId::new()));
        setup.put("first value", owner).await;
        let server = McpServer { origin_bound_version: Some(1), ..setup.server("https://host.test/one") };
        setup.add(&server, ConfiguredBy::Project(owner)).await;
        let earlier = |tx: &mut Tx<'_>| tx.execute("UPDATE secret_bindings SET target = 'https://host.test'", &[]);
        let written: emergent_store::Result<u64> = setup.db.write(earlier).await;
        assert_eq!(written.unwrap(), 1);
        assert_eq!(setup.sent(&server).await.unwrap(), "first value");
        assert!(setup.secrets.list(setup.project).await.unwrap()[0].destinations[0].is_allowed);
        let moved = setup.edit(&server, "https://host.test/two", other).await;
        Setup::refused(setup.sent(&moved).await, "https://host.test");
        assert!(!setup.secrets.list(setup.project).await.unwrap()[0].destinations[0].is_allowed);
        let back = setup.edit(&moved, "https://host.test/one", other).await;
        assert_eq!(setup.sent(&back).await.unwrap(), "first value");
        // What the owner allowed is not what an operator allowed: another value does not go there.
        setup.put("second value", TokenId::new()).await;
        Setup::refused(setup.sent(&back).await, "https://host.test");
    }

    async fn a_secret_is_bound_to_the_headers_that_it_was_given_for(db: TestDb) {
        let setup = Setup::open(&db).await;
        let (owner, other) = (TokenId::new(), ConfiguredBy::Project(TokenId::new()));
        setup.put("first value", owner).await;
        let url = "https://host.test/one";
        let server = McpServer { address_bound_version: Some(1), ..setup.server(url) };
        setup.add(&server, ConfiguredBy::Project(owner)).await;
        // As an earlier version stored it.
        let earlier = |tx: &mut Tx<'_>| tx.execute("UPDATE secret_bindings SET target = 'https://host.test/one'", &[]);
        let written: emergent_store::Result<u64> = setup.db.write(earlier).await;
        assert_eq!(written.unwrap(), 1);
        assert_eq!(setup.sent(&server).await.unwrap(), "first value");
        let listed = setup.secrets.list(setup.project).await.unwrap();
        assert_eq!((listed[0].destinations[0].target.as_str(), listed[0].destinations[0].is_allowed), (url, true));
        for headers in [json!({ "X-Other": "${KEY}" }), json!({ "X-Key": "v ${KEY}" }), json!({ "X-Key": "${KEY}", "A": "b" })] {
            let spec = json!({ "name": "hub", "transport": "http", "url": url, "headers": headers });
            let mut edited = mcp_server(setup.project, spec);
            (edited.id, edited.version, edited.address_bound_version) = (server.id, server.version + 1, Some(1));
            let (before, after) = (server.clone(), edited.clone());
            let work = move |tx: &mut Tx<'_>| bindings::bind_server(tx, Some(&before), &after, other, after.updated_at);
            let done: emergent_store::Result<()> = setup.db.write(work).await;
            done.unwrap();
            let refused = setup.sent(&edited).await;
            let message = refused.as_ref().unwrap_err().to_string();
            assert!(message.contains("`https://host.test` with other headers"), "{message}");
        }
        let back = setup.edit(&server, url, other).await;
        assert_eq!(setup.sent(&back).await.unwrap(), "first value", "the same headers");
    }

    async fn a_value_that_an_open_connection_sends_is_redacted_however_often_it_is_replaced(db: TestDb) {
        let setup = Setup::open(&db).await;
        let server = setup.server("https://a.test/");
        setup.add(&server, ConfiguredBy::Operator).await;
        setup.put("the value in use", TokenId::new()).await;
        let destination = Destination::for_server(&server);
        let sent = setup.secrets.resolve(&destination, &"${KEY}".parse().unwrap()).await.unwrap();
        for turn in 0..5 {
            setup.put(&format!("{turn} is the value"), TokenId::new()).await;
        }
        let redactor = setup.secrets.redactor().for_project(setup.project);
        assert_eq!(redactor.redact_text("it sends the value in use"), "it sends [secret KEY]");
        drop(sent);
    }
}
