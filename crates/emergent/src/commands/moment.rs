//! The time of `--as-of`, and the objects that people name at that time.

use emergent_domain::time::Timestamp;
use emergent_wire::object::ObjectView;
use uuid::Uuid;

use super::{
    encode,
    graph::{case_hint, resolve_object},
    resolve::find_object_of_type,
    run_bulk::parse_optional_time,
};
use crate::{
    client::{Client, Received},
    error::{Error, Result},
};

/// How the API says that an object no longer existed at the time.
const WAS_DELETED: &str = "` was deleted at ";

/// The time of `--as-of`.
#[derive(Debug, Clone, Copy)]
pub struct Moment<'a> {
    time: Timestamp,
    /// As it was typed: a time, or for how long before now.
    typed: &'a str,
}

impl<'a> Moment<'a> {
    pub fn parse(as_of: Option<&'a str>) -> Result<Option<Self>> {
        let time = parse_optional_time("as-of", as_of)?;
        Ok(time.zip(as_of).map(|(time, typed)| Self { time, typed }))
    }

    pub fn time(&self) -> Timestamp {
        self.time
    }

    /// The object that a person names, as it was at this time. `TYPE/KEY` names the object that had the key then. All
    /// other names are those of today.
    pub async fn get_object(&self, client: &Client, object: &str) -> Result<Received<ObjectView>> {
        let Some((type_, key)) = object.split_once('/') else {
            let id = resolve_object(client, object).await?;
            let found = self.get(client, &id.to_string()).await;
            return found.map_err(|error| self.not_live(error, object, ""));
        };
        let error = match self.get(client, &encode(object)).await {
            Err(error) if error.is_not_found() => error,
            found => return found,
        };
        // As for the present, the end of an id may stand for the key.
        if let Some(id) = find_object_of_type(client, type_, key).await? {
            let found = self.get(client, &id.to_string()).await;
            return found.map_err(|error| self.not_live(error, object, ""));
        }
        let hint = case_hint(client, type_, key).await?;
        Err(self.not_live(error, object, &hint))
    }

    async fn get(&self, client: &Client, reference: &str) -> Result<Received<ObjectView>> {
        let path = format!("/api/graph/objects/{reference}?asOf={}", encode(&self.time.to_string()));
        client.get(&path).await?.data().await
    }

    /// The error for an object that did not exist at this time, in the words that were typed.
    fn not_live(&self, error: Error, object: &str, hint: &str) -> Error {
        let was_deleted = matches!(&error, Error::Refused { message, .. } if message.contains(WAS_DELETED));
        if was_deleted || !error.is_not_found() {
            return error;
        }
        let time = self.typed;
        let is_time = time.parse::<Timestamp>().is_ok();
        let when = if is_time { format!("at {time}") } else { format!("{time} ago") };
        Error::Usage(format!("`{object}` did not exist {when}{hint}"))
    }
}

/// The id of the object that a person names, now or at the time of `--as-of`.
pub async fn resolve_object_at(client: &Client, object: &str, moment: Option<Moment<'_>>) -> Result<Uuid> {
    match moment {
        Some(moment) => Ok(moment.get_object(client, object).await?.id),
        None => resolve_object(client, object).await,
    }
}
