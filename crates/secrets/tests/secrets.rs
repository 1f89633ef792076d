//! Secrets on both engines: a value can be read back in its project and with the right key only.

use std::{fs, path::Path};

use emergent_domain::{
    ids::{ProjectId, RunId, TokenId},
    mcp_server::McpServer,
    redact::Redactor,
    time::Clock,
};
use emergent_secrets::{Destination, Error, KeySource, SealedText, Secret, SecretName, Secrets};
use emergent_store::{
    Db, Tx,
    a2a_push::{self, PushConfig},
    params, projects,
};
use emergent_testkit::{TestDb, both_engines, fixtures::mcp_server};
use serde_json::json;
use uuid::Uuid;

const VALUE: &str = "S3cr3t-value-of-the-test";

/// The key file of one server, in a temporary folder.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary folder"))
    }

    fn path(&self) -> std::path::PathBuf {
        self.0.path().join("secret-key")
    }

    fn keys(&self) -> KeySource {
        KeySource::from_file(self.path())
    }

    fn text(&self) -> String {
        fs::read_to_string(self.path()).expect("the key file")
    }

    fn write(&self, text: &str) {
        fs::write(self.path(), text).expect("the key file");
    }
}

async fn open(db: &Db, keys: KeySource) -> emergent_secrets::Result<Secrets> {
    Secrets::open(db.clone(), Clock::system(), keys, Redactor::default()).await
}

async fn project(db: &Db, name: &'static str) -> ProjectId {
    let now = Clock::system().now();
    let created = db.write(move |tx| projects::insert(tx, name, false, now)).await;
    created.expect("a database that works").expect("a new name").id
}

fn name(text: &str) -> SecretName {
    text.parse().expect("a name")
}

async fn put(secrets: &Secrets, project: ProjectId, named: &str, value: &str) {
    secrets.put(project, None, &name(named), Secret::new(value.to_owned())).await.expect("a secret");
}

async fn resolve(secrets: &Secrets, project: ProjectId, text: &str) -> Result<String, Error> {
    let template = text.parse().expect("a template");
    secrets.resolve(&destination(project), &template).await.map(|value| value.expose().to_owned())
}

/// A server that needs no bindings, because it is older than they are.
fn destination(project: ProjectId) -> Destination {
    let spec = json!({ "name": "old", "transport": "stdio", "command": "true" });
    Destination::for_server(&McpServer { unbound_version: Some(1), ..mcp_server(project, spec) })
}

both_engines! {
    async fn what_is_put_is_resolved_and_never_listed(db: TestDb) {
        let folder = Folder::new();
        let secrets = open(&db, folder.keys()).await.expect("the first start makes a key");
        let (ours, theirs) = (project(&db, "ours").await, project(&db, "theirs").await);
        put(&secrets, ours, "TOKEN", VALUE).await;
        put(&secrets, ours, "USER", "somebody").await;
        let text = "{{secrets.USER}}:${TOKEN} $${TOKEN}";
        assert_eq!(resolve(&secrets, ours, text).await.unwrap(), format!("somebody:{VALUE} ${{TOKEN}}"));
        assert_eq!(resolve(&secrets, ours, "plain").await.unwrap(), "plain");
        let refused = resolve(&secrets, theirs, "${TOKEN}").await.unwrap_err();
        assert!(refused.to_string().contains("`TOKEN`"), "{refused}");

        let listed = secrets.list(ours).await.unwrap();
        assert_eq!(listed.iter().map(|one| one.name.as_str()).collect::<Vec<_>>(), ["TOKEN", "USER"]);
        assert!(!format!("{listed:?}").contains(VALUE));
        assert!(secrets.list(theirs).await.unwrap().is_empty());
        assert_eq!(secrets.redactor().redact_text(&format!("sent {VALUE}")), "sent [secret TOKEN]");

        put(&secrets, ours, "TOKEN", "another value").await;
        assert_eq!(resolve(&secrets, ours, "${TOKEN}").await.unwrap(), "another value");
        assert_eq!(secrets.list(ours).await.unwrap()[0].version, 2);
        secrets.delete(ours, &name("TOKEN")).await.unwrap();
        assert!(matches!(secrets.delete(ours, &name("TOKEN")).await, Err(Error::NotFound { .. })));
        assert!(resolve(&secrets, ours, "${TOKEN}").await.is_err());
    }

    async fn only_the_token_that_gave_a_value_learns_that_it_is_the_same(db: TestDb) {
        let secrets = open(&db, Folder::new().keys()).await.unwrap();
        let ours = project(&db, "ours").await;
        let (giver, guesser) = (Some(TokenId::new()), Some(TokenId::new()));
        let unchanged = async |token, value: &str| {
            secrets.put(ours, token, &name("TOKEN"), Secret::new(value.to_owned())).await.unwrap().is_unchanged
        };
        assert!(!unchanged(giver, VALUE).await, "it is new");
        assert!(unchanged(giver, VALUE).await);
        assert!(!unchanged(giver, "another value").await);
        assert!(!unchanged(guesser, "another value").await, "this would confirm a guess");
        assert!(!unchanged(None, "another value").await);
    }

    async fn a_value_that_cannot_be_kept_is_refused_and_not_repeated(db: TestDb) {
        let secrets = open(&db, Folder::new().keys()).await.unwrap();
        let ours = project(&db, "ours").await;
        let short = ["12345", " 12345\n", "\n\n\n\n\n\n"].map(str::to_owned);
        let bad = [String::new(), "x".repeat((64 << 10) + 1), format!("{VALUE}\0")];
        for bad in bad.into_iter().chain(short) {
            let refused = secrets.put(ours, None, &name("A"), Secret::new(bad)).await.unwrap_err();
            assert!(matches!(refused, Error::Invalid(_)) && !refused.to_string().contains(VALUE), "{refused}");
        }
        let gone = ProjectId::new();
        let refused = secrets.put(gone, None, &name("A"), Secret::new(VALUE.to_owned())).await;
        assert!(matches!(refused, Err(Error::NoProject(_))));
        assert_eq!(secrets.redactor().redact_text(VALUE), VALUE, "what was not kept is no secret");
        let refused = secrets.put(ours, None, &name("A"), Secret::new("12345".to_owned())).await.unwrap_err();
        assert!(refused.to_string().contains("shorter than 6 bytes"), "{refused}");
        put(&secrets, ours, "SHORTEST", "123456").await;
        secrets.delete(ours, &name("SHORTEST")).await.unwrap();
        put(&secrets, ours, "A", &"x".repeat(64 << 10)).await;
        assert_eq!(secrets.list(ours).await.unwrap().len(), 1);
    }

    async fn one_secret_too_many_is_refused_and_not_learnt(db: TestDb) {
        let secrets = open(&db, Folder::new().keys()).await.unwrap();
        let ours = project(&db, "ours").await;
        put(&secrets, ours, "A", "the first of them").await;
        let fill = "INSERT INTO secrets (project_id, name, key_id, sealed, version, created_at, updated_at)
                    SELECT project_id, $2, key_id, sealed, version, created_at, updated_at FROM secrets
                    WHERE project_id = $1 AND name = 'A'";
        let many = move |tx: &mut Tx<'_>| {
            (1..1_000).try_for_each(|at| tx.execute(fill, &[ours.into(), format!("N_{at}").into()]).map(drop))
        };
        db.write(many).await.unwrap();
        let refused = secrets.put(ours, None, &name("B"), Secret::new(VALUE.to_owned())).await.unwrap_err();
        assert!(refused.to_string().contains("at most 1000 secrets"), "{refused}");
        assert_eq!(secrets.redactor().redact_text(VALUE), VALUE);
        put(&secrets, ours, "A", VALUE).await;
        assert_eq!(secrets.redactor().redact_text(VALUE), "[secret A]");
    }

    async fn a_row_that_is_moved_does_not_open(db: TestDb) {
        let secrets = open(&db, Folder::new().keys()).await.unwrap();
        let (ours, theirs) = (project(&db, "ours").await, project(&db, "theirs").await);
        put(&secrets, ours, "TOKEN", VALUE).await;
        put(&secrets, theirs, "TOKEN", "of the others").await;
        put(&secrets, ours, "OTHER", "of another name").await;
        let steal = "UPDATE secrets SET sealed = (SELECT sealed FROM secrets WHERE project_id = $1 AND name = $2)
                     WHERE NOT (project_id = $1 AND name = $2)";
        db.write(move |tx| tx.execute(steal, &[ours.into(), "TOKEN".into()])).await.unwrap();
        for (project, text) in [(theirs, "${TOKEN}"), (ours, "${OTHER}")] {
            let refused = resolve(&secrets, project, text).await.unwrap_err();
            assert!(matches!(refused, Error::CannotUnseal { .. }), "{refused}");
        }
        assert_eq!(resolve(&secrets, ours, "${TOKEN}").await.unwrap(), VALUE);
    }

    async fn a_server_with_another_key_does_not_start(db: TestDb) {
        let (first, second) = (Folder::new(), Folder::new());
        let secrets = open(&db, first.keys()).await.unwrap();
        let refused = open(&db.second_connection().await, second.keys()).await.err().expect("a refusal").to_string();
        assert!(refused.contains("is sealed") || refused.contains("encrypted with the key `"), "{refused}");
        assert!(!second.path().exists(), "it makes no key of its own");
        let wanted = refused.split('`').nth(1).expect("an id").to_owned();
        assert_eq!(secrets.rotate().await.err().map(|error| error.to_string()), None);

        let other = Folder::new();
        other.write("MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=\n");
        let refused = open(&db, other.keys()).await.err().expect("a refusal").to_string();
        assert!(!refused.contains(&wanted), "the key is another one now: {refused}");
        assert!(!refused.contains("MDEyMzQ1"), "{refused}");
        open(&db, KeySource::from_env_value(&first.text()).unwrap()).await.expect("the same key from the environment");
        fs::copy(first.path(), second.path()).unwrap();
        open(&db, second.keys()).await.expect("a copy of the file is as good");
    }

    async fn two_servers_that_start_at_once_agree_on_one_key(db: TestDb) {
        let (first, second) = (Folder::new(), Folder::new());
        let (one, two) = tokio::join!(open(&db, first.keys()), open(&db, second.keys()));
        assert!(one.is_ok() != two.is_ok(), "exactly one key was first");
        let (winner, loser) = if one.is_ok() { (&first, &second) } else { (&second, &first) };
        assert!(winner.path().exists() && !loser.path().exists());

        let shared = Folder::new();
        let fresh = TestDb::new(db.engine()).await;
        let (one, two) = tokio::join!(open(&fresh, shared.keys()), open(&fresh, shared.keys()));
        assert!(one.is_ok() && two.is_ok(), "a folder that is shared has one key");
    }

    async fn rotation_leaves_every_secret_and_no_old_key(db: TestDb) {
        let folder = Folder::new();
        let secrets = open(&db, folder.keys()).await.unwrap();
        let ours = project(&db, "ours").await;
        for at in 0..3 {
            put(&secrets, ours, &format!("TOKEN_{at}"), &format!("{VALUE}-{at}")).await;
        }
        let (before, listed) = (folder.text(), secrets.list(ours).await.unwrap());
        let rotated = secrets.rotate().await.unwrap();
        assert_eq!(rotated.resealed, 3);
        assert_eq!(folder.text().lines().count(), 1);
        assert_ne!(folder.text(), before);
        assert_mode(&folder.path());
        assert_eq!(secrets.list(ours).await.unwrap(), listed, "the values are what they were");
        let again = open(&db, folder.keys()).await.unwrap();
        for secrets in [&secrets, &again] {
            assert_eq!(resolve(secrets, ours, "${TOKEN_2}").await.unwrap(), format!("{VALUE}-2"));
            put(secrets, ours, "LATER", VALUE).await;
        }
        let refused = open(&db, KeySource::from_env_value(&before).unwrap()).await.err().expect("a refusal").to_string();
        assert!(refused.contains(&rotated.key), "it names the key that is wanted: {refused}");
    }

    async fn what_is_sealed_with_a_push_notification_is_rotated_and_is_no_secret_of_the_project(db: TestDb) {
        let folder = Folder::new();
        let secrets = open(&db, folder.keys()).await.unwrap();
        let ours = project(&db, "ours").await;
        let (uid, task) = (Uuid::now_v7(), RunId::new());
        let name = name(&a2a_push::secret_name(uid));
        let config = PushConfig {
            task, uid, id: "c1".into(), project: ours, token: TokenId::new(), url: "https://example.com".into(),
            auth_scheme: None, key: None, sealed: None, followed_run: None, after_seq: 0, created_at: Clock::system().now(),
        };
        let stored = secrets.store_sealed(ours, &name, Secret::new(VALUE.to_owned()), move |tx, sealed| {
            let config = PushConfig { key: Some(sealed.key), sealed: Some(sealed.bytes), ..config.clone() };
            a2a_push::upsert(tx, &config, 1)
        });
        assert!(stored.await.unwrap());
        assert!(secrets.list(ours).await.unwrap().is_empty());
        let sealed = async || {
            let config = db.db.read(move |tx| a2a_push::get(tx, uid)).await.unwrap().expect("a configuration");
            SealedText { key: config.key.unwrap(), bytes: config.sealed.unwrap() }
        };
        let before = sealed().await;
        assert!(!String::from_utf8_lossy(&before.bytes).contains(VALUE));
        assert_eq!(secrets.rotate().await.unwrap().resealed, 1);
        let after = sealed().await;
        assert_ne!(after.key, before.key);
        assert_eq!(secrets.open_sealed(ours, &name, after.clone()).unwrap().expose(), VALUE);
        assert!(secrets.open_sealed(project(&db, "theirs").await, &name, after).is_err(), "it belongs to its project");
    }

    async fn a_server_that_shares_the_file_goes_on_after_a_rotation(db: TestDb) {
        let folder = Folder::new();
        let (one, two) = (open(&db, folder.keys()).await.unwrap(), open(&db, folder.keys()).await.unwrap());
        let ours = project(&db, "ours").await;
        put(&one, ours, "TOKEN", VALUE).await;
        assert_eq!(one.rotate().await.unwrap().resealed, 1);
        assert_eq!(resolve(&two, ours, "${TOKEN}").await.unwrap(), VALUE);
        let three = open(&db, folder.keys()).await.unwrap();
        one.rotate().await.unwrap();
        put(&three, ours, "LATER", VALUE).await;
        assert_eq!(resolve(&one, ours, "${LATER}").await.unwrap(), VALUE);
    }

    async fn secrets_put_during_a_rotation_are_not_left_behind(db: TestDb) {
        let folder = Folder::new();
        let secrets = open(&db, folder.keys()).await.unwrap();
        let ours = project(&db, "ours").await;
        let writer = {
            let secrets = secrets.clone();
            tokio::spawn(async move {
                for at in 0..60 {
                    put(&secrets, ours, &format!("TOKEN_{at}"), VALUE).await;
                }
            })
        };
        while !writer.is_finished() {
            secrets.rotate().await.expect("a rotation");
            // A writer that meets a rotation tries again a dozen times. On a busy machine, rotations without
            // a pause between them would win every time.
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        writer.await.expect("every secret was kept");
        let last = secrets.rotate().await.unwrap();
        assert_eq!(last.resealed, 60);
        let again = open(&db, folder.keys()).await.unwrap();
        for at in 0..60 {
            assert_eq!(resolve(&again, ours, &format!("${{TOKEN_{at}}}")).await.unwrap(), VALUE);
        }
    }

    async fn a_rotation_that_was_killed_is_finished_later(db: TestDb) {
        let folder = Folder::new();
        let secrets = open(&db, folder.keys()).await.unwrap();
        let ours = project(&db, "ours").await;
        put(&secrets, ours, "TOKEN", VALUE).await;
        drop(secrets);

        // The rotation is killed after its first write: the file has a key that encrypts nothing
        // yet.
        let old = folder.text();
        let new = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=\n";
        folder.write(&format!("{new}{old}"));
        let secrets = open(&db, folder.keys()).await.unwrap();
        assert_eq!(resolve(&secrets, ours, "${TOKEN}").await.unwrap(), VALUE);
        put(&secrets, ours, "MEANWHILE", VALUE).await;
        assert_eq!(folder.text(), format!("{new}{old}"), "both are needed");
        assert_eq!(secrets.rotate().await.unwrap().resealed, 2);
        assert_eq!(folder.text(), new, "it goes on with the key that was made");

        // The rotation is killed after its second write: the old key is still in the file but
        // encrypts nothing.
        folder.write(&format!("{new}{old}"));
        let secrets = open(&db, folder.keys()).await.unwrap();
        assert_eq!(folder.text(), new, "the start takes it away");
        assert_eq!(resolve(&secrets, ours, "${TOKEN} ${MEANWHILE}").await.unwrap(), format!("{VALUE} {VALUE}"));

        // The rotation is killed while it writes: the unfinished file next to the key file is
        // ignored.
        fs::write(folder.path().with_extension("new"), "half a k").unwrap();
        secrets.rotate().await.unwrap();
        let secrets = open(&db, folder.keys()).await.unwrap();
        assert_eq!(resolve(&secrets, ours, "${TOKEN}").await.unwrap(), VALUE);
    }

    async fn a_rotation_that_stops_in_the_middle_is_continued(db: TestDb) {
        let folder = Folder::new();
        let secrets = open(&db, folder.keys()).await.unwrap();
        let ours = project(&db, "ours").await;
        for at in 100..250 {
            put(&secrets, ours, &format!("TOKEN_{at}"), VALUE).await;
        }
        // The last one cannot be decrypted, so the rotation fails after its first transactions.
        let damage = |sql: &'static str| {
            db.write(move |tx: &mut Tx<'_>| tx.execute(sql, params![]).map(drop))
        };
        damage("UPDATE secrets SET name = 'TOKEN_999' WHERE name = 'TOKEN_249'").await.unwrap();
        assert!(matches!(secrets.rotate().await, Err(Error::CannotUnseal { .. })));
        let sealed_with = "SELECT count(DISTINCT key_id) FROM secrets";
        let count = move |tx: &mut Tx<'_>| tx.query_opt(sealed_with, params![], |row| row.get::<i64>(0));
        assert_eq!(db.read(count).await.unwrap(), Some(2), "some are encrypted with the new key");

        // Everything can be read and written meanwhile, also after a start.
        let secrets = open(&db, folder.keys()).await.unwrap();
        put(&secrets, ours, "MEANWHILE", VALUE).await;
        for named in ["TOKEN_100", "TOKEN_248", "MEANWHILE"] {
            assert_eq!(resolve(&secrets, ours, &format!("${{{named}}}")).await.unwrap(), VALUE);
        }
        damage("UPDATE secrets SET name = 'TOKEN_249' WHERE name = 'TOKEN_999'").await.unwrap();
        let first_key = folder.text().lines().next().unwrap().to_owned();
        assert_eq!(secrets.rotate().await.unwrap().resealed, 50);
        assert_eq!(folder.text().trim(), first_key, "it goes on with the key that was made");
        assert_eq!(db.read(count).await.unwrap(), Some(1));
        assert_eq!(resolve(&secrets, ours, "${TOKEN_249}").await.unwrap(), VALUE);
    }

    async fn keys_of_the_environment_are_rotated_by_whoever_sets_it(db: TestDb) {
        let (old, new) = ("MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=", "ZmVkY2JhOTg3NjU0MzIxMGZlZGNiYTk4NzY1NDMyMTA=");
        let keys = |text: &str| KeySource::from_env_value(text).unwrap();
        let ours = project(&db, "ours").await;
        let alone = open(&db, keys(old)).await.unwrap();
        put(&alone, ours, "TOKEN", VALUE).await;
        let refused = alone.rotate().await.unwrap_err();
        assert!(matches!(refused, Error::Conflict(_)) && refused.to_string().contains("NEW,OLD"), "{refused}");

        let behind = open(&db, keys(&format!("{old},{new}"))).await.unwrap();
        assert!(matches!(behind.rotate().await, Err(Error::Conflict(_))), "its first key is in use");
        let ahead = open(&db, keys(&format!("{new},{old}"))).await.unwrap();
        put(&ahead, ours, "EARLY", VALUE).await;
        assert_eq!(resolve(&alone, ours, "${EARLY}").await.unwrap(), VALUE, "not before the rotation");
        assert_eq!(ahead.rotate().await.unwrap().resealed, 2);
        put(&behind, ours, "LATE", VALUE).await;
        let after = open(&db, keys(new)).await.unwrap();
        assert_eq!(resolve(&after, ours, "${TOKEN}${EARLY}${LATE}").await.unwrap(), VALUE.repeat(3));
        assert!(matches!(resolve(&alone, ours, "${TOKEN}").await, Err(Error::WrongKey { .. })));
        assert!(matches!(behind.rotate().await, Err(Error::Conflict(_))), "a retired key does not come back");
    }
}

fn assert_mode(path: &Path) {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600);
    }
}
