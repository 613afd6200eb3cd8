-- pgsync_validate() compares rules with the tables of the database: names, what can
-- be replicated, what columns are to the rules, conditions that nothing meets.
\set VERBOSITY terse
CREATE EXTENSION pgsync;
CREATE SCHEMA app;
CREATE SCHEMA "Odd";
CREATE TABLE lists (id uuid PRIMARY KEY, name text NOT NULL, owner_id text, "createdAt" timestamptz,
	done boolean, position int NOT NULL, price numeric(10,2), photo bytea, tags text[], colors name[],
	meta jsonb, due date, ratio float8);
CREATE TABLE no_key (id text, name text);
CREATE TABLE full_key (id text, name text);
ALTER TABLE full_key REPLICA IDENTITY FULL;
CREATE TABLE deferred_key (id text PRIMARY KEY DEFERRABLE);
CREATE TABLE app.only_here (id text PRIMARY KEY);
CREATE TABLE "Odd"."Names" (id text PRIMARY KEY, "Col" text);
CREATE TABLE blob_id (id bytea PRIMARY KEY, n int);
CREATE VIEW a_view AS SELECT * FROM lists;
CREATE MATERIALIZED VIEW a_matview AS SELECT 1 AS id;
CREATE UNLOGGED TABLE unlogged (id text PRIMARY KEY);
CREATE FOREIGN DATA WRAPPER nowhere;
CREATE SERVER nowhere FOREIGN DATA WRAPPER nowhere;
CREATE FOREIGN TABLE foreign_one (id text) SERVER nowhere;
CREATE TABLE parted (id int PRIMARY KEY, n int) PARTITION BY RANGE (id);
CREATE TABLE parted_1 PARTITION OF parted FOR VALUES FROM (0) TO (100);
CREATE TABLE wild_a (id text, n int);
CREATE TABLE wild_b (id text, m int);
CREATE DOMAIN flag AS boolean;
CREATE TYPE mood AS ENUM ('good', 'bad');
CREATE TABLE own_types (id text PRIMARY KEY, f flag, moods mood[], gone text, m mood);
ALTER TABLE own_types DROP COLUMN gone;

-- one data query a line: the findings of each are on its line
CREATE FUNCTION queries(config text, VARIADIC query text[]) RETURNS text LANGUAGE sql AS $$
	SELECT config || E'bucket_definitions:\n  b:\n    data:\n'
		   || string_agg('      - ' || q || E'\n', '' ORDER BY n)
	  FROM unnest(query) WITH ORDINALITY AS u(q, n);
$$;
CREATE FUNCTION findings(rules text) RETURNS TABLE (place text, code text, message text, hint text)
LANGUAGE sql AS $$
	SELECT line || ':' || "column", code, message, hint FROM pgsync_validate(rules);
$$;
ALTER DATABASE contrib_regression SET pgsync.publication = '';
\a \t

-- nothing to complain of
SELECT * FROM findings(queries('', 'SELECT * FROM lists WHERE position > 10 AND done = true',
	'SELECT id, CAST(price AS numeric) AS price FROM lists WHERE CAST(price AS numeric) > 10',
	'SELECT * FROM lists WHERE unixepoch("createdAt") > 0 AND name = ''x'' AND due > ''2024-01-01''',
	'SELECT id, hex(photo) AS photo FROM lists WHERE photo IS NOT NULL AND meta ->> ''a'' = ''b''',
	'SELECT * FROM full_key', 'SELECT * FROM "Odd"."Names"', 'SELECT * FROM parted_1',
	'SELECT id, _table_suffix AS s FROM "wild%" AS w WHERE n > 1 OR m > 1') || E'  c:\n    parameters: |\n'
	'      SELECT id AS list FROM lists\n      WHERE owner_id = request.user_id() AND NOT done\n'
	'    data:\n      - SELECT * FROM lists WHERE id = bucket.list\n')
 WHERE message NOT LIKE '%wild%';

-- names
SELECT * FROM findings(queries('', 'SELECT * FROM list', 'SELECT * FROM only_here',
	'SELECT * FROM ap.only_here', 'SELECT * FROM public."Lists"', 'SELECT * FROM names', 'SELECT * FROM "Odd".names',
	'SELECT * FROM nothing_like_it', 'SELECT * FROM "zzz%" AS z', 'SELECT * FROM "other.public".lists',
	'SELECT id, nam FROM lists WHERE ownr_id = ''x'' AND createdat > ''x'' AND nothing_like_it = 1',
	'SELECT id, nam FROM lists', 'SELECT id, gone FROM own_types', 'SELECT id, zzz FROM "wild%" AS w'));

-- what cannot be replicated, or not whole
SELECT * FROM findings(queries('', 'SELECT * FROM a_view', 'SELECT * FROM a_matview', 'SELECT * FROM unlogged', 'SELECT * FROM foreign_one',
	'SELECT * FROM parted', 'SELECT * FROM pg_catalog.pg_class', 'SELECT * FROM no_key',
	'SELECT * FROM no_key', 'SELECT * FROM deferred_key', 'SELECT * FROM "wild%" AS w', 'SELECT * FROM blob_id',
	'SELECT n AS "ID", n AS id FROM parted_1'));

-- kinds of value
SELECT * FROM findings(queries('', 'SELECT * FROM lists WHERE price > 10', 'SELECT * FROM lists WHERE 10 > price',
	'SELECT * FROM lists WHERE price > ''10''', 'SELECT * FROM lists WHERE price = ''10.00''',
	'SELECT * FROM lists WHERE "createdAt" > 1700000000', 'SELECT * FROM lists WHERE done = ''true''',
	'SELECT * FROM lists WHERE done = 2', 'SELECT * FROM lists WHERE position = ''1''',
	'SELECT * FROM lists WHERE name != 5', 'SELECT * FROM lists WHERE position < name',
	'SELECT * FROM lists WHERE photo = ''x''', 'SELECT * FROM lists WHERE photo = photo',
	'SELECT * FROM lists WHERE id = ''ABCDEF00-0000-0000-0000-000000000000''',
	'SELECT * FROM lists WHERE "createdAt" > ''2024-01-01T00:00:00Z''',
	'SELECT id, photo FROM lists', 'SELECT id, due - 1 AS before, name - 1 AS n FROM lists',
	'SELECT id, done ->> ''a'' AS a FROM lists', 'SELECT * FROM lists WHERE name IN (''a'')',
	'SELECT * FROM lists WHERE ''x'' IN tags', 'SELECT * FROM lists WHERE ''x'' IN position',
	'SELECT * FROM lists WHERE length(name) = ''x''', 'SELECT * FROM lists WHERE done OR name',
	'SELECT id, (done = ''t'') AS d FROM lists', 'SELECT * FROM own_types WHERE f = 1',
	'SELECT * FROM own_types WHERE ''good'' IN moods', 'SELECT * FROM own_types WHERE m = ''good'''));
SELECT * FROM findings(queries(E'config:\n  edition: 2\n', 'SELECT * FROM own_types WHERE f = 1',
	'SELECT * FROM own_types WHERE f = ''t''', 'SELECT * FROM lists WHERE "createdAt" > ''2024-01-01 00:00:00Z'''));

-- what is never true
SELECT * FROM findings(queries('', 'SELECT * FROM lists WHERE false', 'SELECT * FROM lists WHERE name = NULL',
	'SELECT * FROM lists WHERE name != NULL AND done', 'SELECT * FROM lists WHERE name IS NULL',
	'SELECT * FROM lists WHERE owner_id IS NULL AND owner_id = ''x''',
	'SELECT * FROM lists WHERE owner_id = ''x'' AND owner_id = ''y''',
	'SELECT * FROM lists WHERE owner_id = ''x'' AND done AND owner_id != ''x''',
	'SELECT * FROM lists WHERE position > 10 AND position < 5', 'SELECT * FROM lists WHERE position >= 5 AND position <= 5',
	'SELECT * FROM lists WHERE position > 5 AND 5 >= position', 'SELECT * FROM lists WHERE done AND NOT done',
	'SELECT * FROM lists WHERE done = false AND done', 'SELECT * FROM lists WHERE owner_id = ''x'' OR owner_id = ''y''',
	'SELECT * FROM lists WHERE done OR (owner_id = ''x'' AND owner_id = ''y'')',
	'SELECT * FROM lists WHERE meta ->> ''a'' = 1 AND meta ->> ''a'' = 2',
	'SELECT * FROM lists WHERE NOT (name IS NULL)', 'SELECT * FROM lists WHERE owner_id = ''x'' AND NOT (owner_id = ''y'')',
	'SELECT * FROM lists WHERE (name = ''x'' OR 0) AND done'));
SELECT * FROM findings(E'bucket_definitions:\n  b:\n    parameters: SELECT id AS l, name AS n FROM lists WHERE owner_id IS NULL '
	'AND owner_id = request.user_id()\n    data:\n'
	'      - SELECT * FROM lists WHERE photo = bucket.l AND name = bucket.n AND name IS NULL\n'
	'      - >\n          SELECT *\n          FROM lists\n          WHERE bucket.l IN position\n\n            AND nme = bucket.n\n');

-- events: their tables are read, too
SELECT * FROM findings(E'bucket_definitions: {}\nevent_definitions:\n  e:\n    payloads:\n      - SELECT id, nme FROM lists\n      - SELECT * FROM list\n');

-- as deep as rules can be, and more findings than are shown
SELECT * FROM findings(queries('', 'SELECT * FROM lists WHERE ' || repeat('done OR ', 900) || 'name = 1'));
SELECT count(*), max(message) FILTER (WHERE code = '54000')
  FROM findings(queries('', VARIADIC array_fill('SELECT id, nosuch FROM lists'::text, ARRAY[200])));

-- with fatal ones, names are compared all the same, also those of the query that is wrong; not conditions
SELECT level, line, message FROM pgsync_validate(queries('', 'SELECT id, nme FROM lists WHERE foo(1)', 'SELECT * FROM list', 'SELECT * FROM lists WHERE name = 1'));
SELECT level, line, message FROM pgsync_validate(E'config: {edition: 3}\nstreams:\n  s:\n    queries:\n      - SELECT * FROM lists WHERE foo(1)\n      - SELECT id, nme FROM lists\n');
SELECT level, line, message FROM pgsync_validate('bucket_definitions: [');

-- what pgsync_deploy() refuses is fatal here, too: a storage version, and what MongoDB would not store
SELECT level, line, code, message, hint FROM pgsync_validate(E'config: {storage_version: 3}\n' || queries('', 'SELECT * FROM lists'));
SELECT level, line, code, message FROM pgsync_validate(E'config: {edition: 3, storage_version: 2}\nstreams:\n  s:\n    query: SELECT * FROM lists');
SELECT level, line, code, message, hint FROM pgsync_validate(E'config: {edition: 3}\nstreams:\n  s:\n    query:\n'
	'      SELECT * FROM lists WHERE ' || repeat('done AND ', 170) || 'done');

-- the publication
SET pgsync.publication = 'later';
ALTER DATABASE contrib_regression RESET pgsync.publication;
SELECT * FROM findings(queries('', 'SELECT * FROM lists'));
CREATE PUBLICATION later FOR TABLE lists, parted;
SELECT * FROM findings(queries('', 'SELECT * FROM lists', 'SELECT * FROM full_key', 'SELECT * FROM parted_1', 'SELECT * FROM parted'));
ALTER PUBLICATION later SET (publish_via_partition_root = true);
SELECT * FROM findings(queries('', 'SELECT * FROM parted_1', 'SELECT * FROM parted', 'SELECT id, nothing FROM parted'));
CREATE PUBLICATION narrow FOR TABLE lists (id, name), blob_id WHERE (n > 1) WITH (publish = 'insert');
SET pgsync.publication = 'narrow';
SELECT level, message FROM pgsync_validate(queries('', 'SELECT * FROM lists')) WHERE level = 'fatal';
SELECT * FROM findings(queries('', 'SELECT id, name, done FROM lists', 'SELECT id, n FROM parted_1', 'SELECT * FROM app.only_here',
	'SELECT hex(id) AS id, n FROM blob_id'));
CREATE PUBLICATION wide FOR TABLES IN SCHEMA app;
SET pgsync.publication = 'wide';
SELECT * FROM findings(queries('', 'SELECT * FROM full_key', 'SELECT * FROM app.only_here'));
CREATE PUBLICATION filtered FOR TABLE lists, blob_id WHERE (n > 1);
SET pgsync.publication = 'filtered';
SELECT level, message FROM pgsync_validate(queries('', 'SELECT * FROM lists'));
DROP PUBLICATION later, narrow, wide, filtered;
RESET pgsync.publication;

-- a table that another session holds is not waited for, and a caller needs no privilege on tables
ALTER DATABASE contrib_regression SET pgsync.publication = '';
CREATE ROLE regress_pgsync_reader;
GRANT EXECUTE ON FUNCTION pgsync_validate(text) TO regress_pgsync_reader;
SET ROLE regress_pgsync_reader;
SELECT line, message FROM pgsync_validate('bucket_definitions: {b: {data: [SELECT * FROM no_key]}}');
RESET ROLE;
SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND relation = 'no_key'::regclass;

\a \t
ALTER DATABASE contrib_regression RESET ALL;
DROP FUNCTION findings(text), queries(text, text[]);
DROP EXTENSION pgsync;
DROP ROLE regress_pgsync_reader;
DROP MATERIALIZED VIEW a_matview;
SET client_min_messages = warning;
DROP FOREIGN DATA WRAPPER nowhere CASCADE;
RESET client_min_messages;
DROP VIEW a_view;
DROP TABLE lists, no_key, full_key, deferred_key, blob_id, unlogged, parted, wild_a, wild_b, own_types;
DROP TYPE mood;
DROP DOMAIN flag;
DROP SCHEMA app, "Odd" CASCADE;
