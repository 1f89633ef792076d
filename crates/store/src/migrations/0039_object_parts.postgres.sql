-- The vectors of the parts of long objects. `no` follows from the number of the object (search/parts.rs).
CREATE TABLE object_part_embeddings (
    no bigint PRIMARY KEY,
    object_no bigint NOT NULL,
    project_id uuid NOT NULL,
    model text NOT NULL,
    version bigint NOT NULL,
    vector vector NOT NULL
);
CREATE INDEX object_part_embeddings_object ON object_part_embeddings (object_no);
CREATE INDEX object_part_embeddings_project ON object_part_embeddings (project_id);
