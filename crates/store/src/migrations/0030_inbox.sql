-- What an event of the inbox says beside its status: what a webhook is told of the item.
ALTER TABLE project_events ADD COLUMN title text;
ALTER TABLE project_events ADD COLUMN tool_name text;
ALTER TABLE project_events ADD COLUMN expires_at timestamptz;
ALTER TABLE project_events ADD COLUMN is_overdue boolean;

-- Discussions and workflows on which a person has to decide, or decided. An item has the id of its discussion or
-- workflow. Triggers write the rows, because a discussion is an object that many write to.
CREATE TABLE inbox_items (
    id uuid NOT NULL PRIMARY KEY,
    project_id uuid NOT NULL,
    kind text NOT NULL,                 -- discussion, escalation
    title text NOT NULL,                -- the topic of a discussion; why a workflow does not go on
    status text NOT NULL,               -- pending, decided, withdrawn
    decision jsonb,                     -- what a person decided; written before the status changes
    created_at timestamptz NOT NULL     -- when a person was needed
);
CREATE INDEX inbox_items_page ON inbox_items (project_id, created_at, id);

INSERT INTO inbox_items (id, project_id, kind, title, status, created_at)
    SELECT id, project_id, 'escalation', coalesce(escalation->>'reason', description), 'pending', updated_at
    FROM workflows WHERE status = 'escalated';
-- The projects are named, so that the index of the types is used.
INSERT INTO inbox_items (id, project_id, kind, title, status, created_at)
    SELECT id, project_id, 'discussion', coalesce(properties->>'topic', ''), 'pending', updated_at
    FROM graph_objects
    WHERE project_id IN (SELECT id FROM projects) AND type = 'Discussion' AND deleted_at IS NULL
        AND properties->>'status' = 'escalated' AND properties->>'decided_by_person' IS NULL;
