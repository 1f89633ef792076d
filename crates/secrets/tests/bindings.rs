//! A value is sent only where an operator, or the token that gave it, said that it may be sent.

use emergent_domain::{
    ids::{McpServerId, ProjectId, TokenId},
    mcp_server::{ConfiguredBy, DEFAULT_TIMEOUT, McpServer, PinPolicy},
    redact::Redactor,
    time::Clock,
};
use emergent_secrets::{Destination, Error, KeySource, Secret, Secrets, bindings};
use emergent_store::{Db, Tx, mcp_servers, projects};
use emergent_testkit::both_engines;
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
        let now = Clock::system().now();
        McpServer {
            id: McpServerId::new(),
            project: self.project,
            product: None,
            spec: serde_json::from_value(spec).unwrap(),
            configured_by: ConfiguredBy::Operator,
            unbound_version: None,
            tool_filter: vec!["*".into()],
            pin_policy: PinPolicy::Pin,
            trust: false,
            timeout_seconds: DEFAULT_TIMEOUT,
            enabled: true,
            version: 1,
            listed_at: None,
            tools_accepted_at: None,
            last_error: None,
            last_error_at: None,
            created_at: now,
            updated_at: now,
        }
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
        let back = setup.edit(&edited, "https://a.test/mcp", ConfiguredBy::Project(other)).await;
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
        let same = setup.edit(&server, "https://evil.test/other", ConfiguredBy::Operator).await;
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
        let back = setup.edit(&edited, "https://a.test/v2", other).await;
        assert_eq!(setup.sent(&back).await.unwrap(), "first value");
    }
}
