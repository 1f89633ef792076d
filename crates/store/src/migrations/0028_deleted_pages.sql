-- The indexes above begin with the project as well, so what these found is found with them.
DROP INDEX graph_objects_deleted;
DROP INDEX graph_relationships_deleted;
