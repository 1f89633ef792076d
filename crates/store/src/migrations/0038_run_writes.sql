-- The indexes above find what these found.
DROP INDEX graph_objects_run;
DROP INDEX graph_object_versions_run;
DROP INDEX graph_relationships_run;
DROP INDEX graph_relationship_versions_run;
