-- When a document that nobody sees may be removed: it is being ingested, or its chunks are being removed
-- from the indexes. Such a document also has a `deleted_at`.
ALTER TABLE documents ADD COLUMN purge_after timestamptz;
CREATE INDEX documents_hidden ON documents (project_id, purge_after) WHERE purge_after IS NOT NULL;
