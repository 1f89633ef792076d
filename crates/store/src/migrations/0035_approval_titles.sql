-- The title of a request in lists, notices and events. A server of an earlier version inserts none: its events have the
-- question or the name of the tool.
ALTER TABLE approvals ADD COLUMN title text;
