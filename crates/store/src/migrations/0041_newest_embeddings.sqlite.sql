-- On SQLite the numbers of a project lie together in the table itself, so an index would only cost writes.
DROP INDEX graph_embeddings_newest;
DROP INDEX chunk_embeddings_newest;
