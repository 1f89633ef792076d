-- Triggers: what was set aside, what waits for room, from where on a trigger hears of changes; and
-- which passage was said by whom.

ALTER TABLE schedules ADD COLUMN error text;                -- why it was set aside; next_at is null then
ALTER TABLE schedules ADD COLUMN waiting_since timestamptz; -- its time came then, and too many runs waited

-- Transactions that were open when the trigger was saved: what they write is heard of, although
-- its place is before `since`.
ALTER TABLE event_triggers ADD COLUMN since_open jsonb NOT NULL DEFAULT '[]';

ALTER TABLE trigger_firings ADD COLUMN event_txid bigint;   -- the event's place in the feed
ALTER TABLE trigger_firings ADD COLUMN event_seq bigint;

-- A passage is kept for each run that said it, and once for everybody else: undoing one run takes
-- nothing from the others. The rows move over in each engine's own part.
CREATE TABLE graph_sources_said (
    entity_id uuid NOT NULL, chunk_id uuid NOT NULL,
    said_by uuid NOT NULL,              -- a run; the nil id for whoever is none
    kind text NOT NULL,                 -- object, relationship
    project_id uuid NOT NULL, document_id uuid NOT NULL,
    created_at timestamptz NOT NULL, author_tool_call uuid,
    PRIMARY KEY (entity_id, chunk_id, said_by)
);
