-- The new indexes begin with the project as well, so what these found is found with them.
DROP INDEX graph_embeddings_project;
DROP INDEX chunk_embeddings_project;
