-- pgsync_evaluate(): what rules make of rows of a table, with the caller's rights.
\set VERBOSITY terse
CREATE EXTENSION pgsync;
CREATE TABLE lists (id int PRIMARY KEY, dropped text, owner_id text, members jsonb, done boolean,
	price numeric(10,2), "at" timestamptz, photo bytea, twice int GENERATED ALWAYS AS (id * 2) STORED);
INSERT INTO lists (id, dropped, owner_id, members, done, price, "at", photo) VALUES
	(1, 'x', 'u1', '["a", "b", 1, null]', true, 1.50, '2024-02-29 13:14:15.5+02', '\xff'),
	(2, 'x', 'u2', '"none"', false, 'NaN', 'infinity', NULL),
	(3, 'x', NULL, NULL, NULL, NULL, NULL, NULL);
ALTER TABLE lists DROP COLUMN dropped;
\set rules 'bucket_definitions:\n  all:\n    data:\n      - SELECT * FROM lists\n  by_owner:\n    parameters: SELECT id AS l FROM lists WHERE owner_id = request.user_id() AND NOT done\n    data:\n      - SELECT id, at, price AS "Price" FROM lists AS mine WHERE id = bucket.l\n  by_member:\n    parameters: SELECT request.user_id() AS u\n    data:\n      - SELECT id FROM lists WHERE bucket.u IN members\n'
\pset null '~'
\a
SELECT E:'rules' AS rules \gset
SELECT * FROM pgsync_evaluate(:'rules', 'lists');
SELECT row_key, kind, bucket FROM pgsync_evaluate(:'rules', 'lists', max_rows => 1);

-- every query that fails is named
SELECT kind, bucket, lookup, message FROM pgsync_evaluate(E'bucket_definitions:\n  a:\n    parameters: SELECT id AS l FROM lists WHERE owner_id ->> ''x'' = request.user_id()\n'
	'    data:\n      - SELECT * FROM lists WHERE id = bucket.l\n      - SELECT id, owner_id ->> ''x'' AS x FROM lists WHERE id = bucket.l\n'
	'  b:\n    data:\n      - SELECT id, uuid_blob(owner_id) AS x FROM lists\n', 'lists', max_rows => 1);

-- by key: one, several, one that is not there; a round trip of what came out
SELECT row_key, kind, bucket, message FROM pgsync_evaluate(:'rules', 'lists', '{"id": 3}');
SELECT row_key, kind, bucket, message FROM pgsync_evaluate(:'rules', 'lists', '[{"id": 2}, {"id": "77"}, {"owner_id": "u1"}]');
SELECT row_key, kind FROM pgsync_evaluate(:'rules', 'lists', '[{"id": 7}, {"id": 8}, {"id": 9}]', 2);
SELECT count(DISTINCT k.row_key) FROM (SELECT DISTINCT row_key FROM pgsync_evaluate(:'rules', 'lists')) AS k,
	LATERAL pgsync_evaluate(:'rules', 'lists', k.row_key) AS e WHERE e.row_key = k.row_key;
SELECT DISTINCT row_key FROM pgsync_evaluate(:'rules', 'lists', '{"owner_id": null, "done": null}');
SELECT DISTINCT row_key FROM pgsync_evaluate(:'rules', 'lists', '{"at": "2024-02-29 11:14:15.5Z", "price": 1.5, "photo": "\\xff", "members": "[\"a\",\"b\",1,null]", "done": true}');

-- what is no key
SELECT * FROM pgsync_evaluate(:'rules', 'lists', '1');
SELECT * FROM pgsync_evaluate(:'rules', 'lists', '[1]');
SELECT * FROM pgsync_evaluate(:'rules', 'lists', '[[{"id": 1}]]');
SELECT * FROM pgsync_evaluate(:'rules', 'lists', '{}');
SELECT * FROM pgsync_evaluate(:'rules', 'lists', '[]');
SELECT * FROM pgsync_evaluate(:'rules', 'lists', '{"nosuch": 1}');
SELECT * FROM pgsync_evaluate(:'rules', 'lists', '{"dropped": 1}');
SELECT * FROM pgsync_evaluate(:'rules', 'lists', '{"id": {"a": 1}}');
SELECT * FROM pgsync_evaluate(:'rules', 'lists', '{"id": "x"}');
SELECT * FROM pgsync_evaluate(:'rules', 'lists', '{"id": 99999999999999999999}');

-- arguments
SELECT * FROM pgsync_evaluate(NULL, 'lists');
SELECT * FROM pgsync_evaluate(:'rules', NULL);
SELECT * FROM pgsync_evaluate(:'rules', 'lists', max_rows => 0);
SELECT * FROM pgsync_evaluate(:'rules', 'lists', max_rows => 10001);
SELECT * FROM pgsync_evaluate('bucket_definitions: {b: {data: [SELECT foo() AS id FROM t, nonsense]}}', 'lists');
SELECT * FROM pgsync_evaluate(:'rules', 4294967295::oid::regclass);

-- tables that the rules do not read, and what is none
CREATE TABLE other (id int);
CREATE VIEW a_view AS SELECT * FROM lists;
CREATE TABLE parted (id int, n int) PARTITION BY RANGE (id);
CREATE TABLE parted_1 PARTITION OF parted FOR VALUES FROM (0) TO (100);
CREATE TABLE parent (id text PRIMARY KEY, big text);
CREATE TABLE child (extra int) INHERITS (parent);
CREATE TABLE columnless ();
INSERT INTO parted VALUES (1, 1);
INSERT INTO child VALUES ('c', '', 1);
INSERT INTO parent VALUES ('p', '');
INSERT INTO columnless DEFAULT VALUES;
SELECT * FROM pgsync_evaluate(:'rules', 'other');
SELECT * FROM pgsync_evaluate(:'rules', 'a_view');
SELECT * FROM pgsync_evaluate(:'rules', 'parted');

-- rows that are there, of tables that are not replicated
CREATE UNLOGGED TABLE lost (id int PRIMARY KEY);
INSERT INTO lost VALUES (1);
CREATE ACCESS METHOD other_heap TYPE TABLE HANDLER heap_tableam_handler;
CREATE TABLE elsewhere (id int PRIMARY KEY) USING other_heap;
INSERT INTO elsewhere VALUES (1);
SELECT kind, bucket FROM pgsync_evaluate('bucket_definitions: {l: {data: [SELECT * FROM lost]}}', 'lost');
SELECT kind, bucket FROM pgsync_evaluate('bucket_definitions: {l: {data: [SELECT * FROM elsewhere]}}', 'elsewhere');
SELECT kind, bucket FROM pgsync_evaluate('bucket_definitions: {l: {data: [SELECT amname AS id FROM pg_catalog.pg_am]}}', 'pg_am', max_rows => 1);
DROP TABLE lost, elsewhere;
DROP ACCESS METHOD other_heap;

\set wild 'bucket_definitions: {w: {data: [\'SELECT *, _table_suffix AS s FROM "par%" AS p\', "SELECT \'1\' AS id FROM columnless"]}}'
SELECT E:'wild' AS wild \gset
SELECT row_key, bucket, output_table, data FROM pgsync_evaluate(:'wild', 'parted_1');
SELECT row_key, bucket, output_table, data FROM pgsync_evaluate(:'wild', 'parent');
SELECT row_key, bucket, output_table, data FROM pgsync_evaluate(:'wild', 'columnless');

-- a row over the limit; the whole row as identity
INSERT INTO parent VALUES ('big', repeat('x', 20000));
SET pgsync.row_limit = '16kB';
SELECT row_key, kind, message FROM pgsync_evaluate(:'wild', 'parent', '{"id": "big"}');
ALTER TABLE parted_1 REPLICA IDENTITY FULL;
SELECT row_key, kind, message FROM pgsync_evaluate(:'wild', 'parted_1');
RESET pgsync.row_limit;
SELECT row_key, kind, length(data), message FROM pgsync_evaluate(:'wild', 'parent', '{"id": "big"}');

-- types of users; the session's formats have no part in it, and stay as they are
CREATE TYPE mood AS ENUM ('good', 'bad "quoted"');
CREATE DOMAIN positive AS int CHECK (VALUE > 0);
CREATE TYPE pair AS (a int, b text);
CREATE TABLE own (m mood, p positive, c pair, a int[], d date, i interval, f float8, PRIMARY KEY (m, p));
INSERT INTO own VALUES ('bad "quoted"', 7, (1, 'x'), '{1,NULL}', '2024-12-31', '1 day 2 hours', 1.0 / 3);
SET datestyle = 'German';
SET intervalstyle = 'iso_8601';
SET timezone = 'America/New_York';
SET extra_float_digits = 0;
\set own 'bucket_definitions: {o: {data: ["SELECT p AS id, * FROM own"]}}'
SELECT row_key, data FROM pgsync_evaluate(:'own', 'own', '{"m": "bad \"quoted\"", "p": 7}');
SELECT row_key, data FROM pgsync_evaluate(E'config: {edition: 2}\n' || :'own', 'own');
SELECT current_setting('datestyle'), current_setting('intervalstyle'), current_setting('timezone'),
	   current_setting('extra_float_digits'), current_setting('search_path');
SELECT * FROM pgsync_evaluate(:'own', 'own', '{"c": "(1,x)"}');
SELECT * FROM pgsync_evaluate(:'own', 'own', '{"a": "{1}"}');
RESET datestyle;
RESET intervalstyle;
RESET timezone;
RESET extra_float_digits;

-- an index serves a key
CREATE TABLE many (id bigint PRIMARY KEY, v varchar(20) UNIQUE, u uuid UNIQUE, n numeric UNIQUE);
INSERT INTO many SELECT i, 'v' || i, ('00000000-0000-0000-0000-' || lpad(i::text, 12, '0'))::uuid, i FROM generate_series(1, 2000) AS i;
ANALYZE many;
BEGIN;
SELECT seq_scan AS seq, coalesce(idx_scan, 0) AS idx FROM pg_stat_xact_user_tables WHERE relid = 'many'::regclass \gset
SELECT e.id FROM pgsync_evaluate('bucket_definitions: {m: {data: [SELECT * FROM many]}}', 'many',
	'[{"id": 5}, {"v": "v6"}, {"u": "00000000-0000-0000-0000-000000000007"}, {"n": 8}]') AS e;
SELECT seq_scan - :seq AS sequential, idx_scan - :idx AS by_index FROM pg_stat_xact_user_tables WHERE relid = 'many'::regclass;
COMMIT;

-- texts that PostgreSQL has not: NUL
CREATE TABLE nul (id jsonb);
INSERT INTO nul VALUES ('{"k": "a"}');
SELECT bucket, id, data FROM pgsync_evaluate('bucket_definitions: {n: {data: ["SELECT CAST(uuid_blob(''00000000-0000-1000-8000-000000000001'') AS text) AS id FROM nul"]}}', 'nul');

-- privileges
CREATE ROLE regress_pgsync_owner;
CREATE ROLE regress_pgsync_caller;
CREATE SCHEMA hostile AUTHORIZATION regress_pgsync_owner;
GRANT USAGE ON SCHEMA hostile TO regress_pgsync_caller;
GRANT EXECUTE ON FUNCTION pgsync_evaluate(text, regclass, jsonb, int) TO regress_pgsync_caller, regress_pgsync_owner;
\set mine 'bucket_definitions: {h: {data: ["SELECT * FROM hostile.t"]}}'
SET ROLE regress_pgsync_owner;
CREATE TABLE hostile.t (id text PRIMARY KEY, secret text);
INSERT INTO hostile.t VALUES ('a', 'of a'), ('b', 'of b');
SET ROLE regress_pgsync_caller;
SELECT * FROM pgsync_evaluate(:'rules', 'lists');
SELECT * FROM pgsync_evaluate(:'mine', 'hostile.t');
SET ROLE regress_pgsync_owner;
GRANT SELECT (id) ON hostile.t TO regress_pgsync_caller;
SET ROLE regress_pgsync_caller;
SELECT * FROM pgsync_evaluate(:'mine', 'hostile.t');
SET ROLE regress_pgsync_owner;
GRANT SELECT ON hostile.t TO regress_pgsync_caller;
SET ROLE regress_pgsync_caller;
SELECT id, data FROM pgsync_evaluate(:'mine', 'hostile.t');

-- row level security: of the caller; the owner is free of it unless it is forced
SET ROLE regress_pgsync_owner;
ALTER TABLE hostile.t ENABLE ROW LEVEL SECURITY;
CREATE POLICY only_b ON hostile.t FOR SELECT TO regress_pgsync_caller USING (id = 'b');
SELECT id, data FROM pgsync_evaluate(:'mine', 'hostile.t');
SET ROLE regress_pgsync_caller;
SELECT id, data FROM pgsync_evaluate(:'mine', 'hostile.t');
SELECT kind, message FROM pgsync_evaluate(:'mine', 'hostile.t', '{"id": "a"}');
SET ROLE regress_pgsync_owner;
ALTER TABLE hostile.t FORCE ROW LEVEL SECURITY;
SELECT id, data FROM pgsync_evaluate(:'mine', 'hostile.t');
RESET ROLE;
SELECT id, data FROM pgsync_evaluate(:'mine', 'hostile.t');
ALTER TABLE hostile.t NO FORCE ROW LEVEL SECURITY;
ALTER TABLE hostile.t DISABLE ROW LEVEL SECURITY;

-- the owner's code: whatever of it runs must not have the superuser's rights.  A cast
-- and an operator that would win over the right ones, a domain's check, and an index
-- whose predicate the planner evaluates.
SET ROLE regress_pgsync_owner;
CREATE FUNCTION hostile.try(what text) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
	RAISE NOTICE '% runs as %, session of %', what, current_user, session_user = current_user;
	RETURN true;
END $$;
CREATE FUNCTION hostile.try_index() RETURNS boolean LANGUAGE sql IMMUTABLE AS $$ SELECT hostile.try('index') $$;
CREATE TYPE hostile.label AS ENUM ('x', 'y');
CREATE FUNCTION hostile.label_text(hostile.label) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN PERFORM hostile.try('cast'); RETURN 'x'; END $$;
CREATE CAST (hostile.label AS text) WITH FUNCTION hostile.label_text(hostile.label) AS IMPLICIT;
CREATE FUNCTION hostile.label_eq(hostile.label, hostile.label) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN RETURN hostile.try('operator'); END $$;
CREATE OPERATOR hostile.= (LEFTARG = hostile.label, RIGHTARG = hostile.label, FUNCTION = hostile.label_eq);
CREATE FUNCTION hostile.int_eq(int, int) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN RETURN hostile.try('operator of integers'); END $$;
CREATE OPERATOR hostile.= (LEFTARG = int, RIGHTARG = int, FUNCTION = hostile.int_eq);
CREATE DOMAIN hostile.checked AS int CHECK (hostile.try('domain'));
CREATE TABLE hostile.trap (l hostile.label, n hostile.checked, id text PRIMARY KEY);
SET client_min_messages = warning;
INSERT INTO hostile.trap VALUES ('x', 1, 'i');
CREATE INDEX ON hostile.trap (id) WHERE hostile.try_index();
RESET client_min_messages;
RESET ROLE;
\set trap 'bucket_definitions: {h: {data: ["SELECT * FROM hostile.trap"]}}'
SET search_path = hostile, pg_catalog, public;
SELECT data FROM public.pgsync_evaluate(:'trap', 'hostile.trap', '{"l": "x", "n": 1, "id": "i"}');
SELECT data FROM public.pgsync_evaluate(E'config: {edition: 2}\n' || :'trap', 'hostile.trap');
RESET search_path;
SELECT current_user = session_user AS myself;
ALTER TABLE hostile.trap ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
SELECT data FROM pgsync_evaluate(:'trap', 'hostile.trap', '{"id": "i"}');

-- the same where row level security is forced on the owner, for whom no row is there:
-- a constraint that the planner evaluates, and for a member of the owner a policy
SET ROLE regress_pgsync_owner;
SET client_min_messages = warning;
CREATE FUNCTION hostile.try_check(text) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$ SELECT hostile.try('check') $$;
CREATE TABLE hostile.checked_trap (id text PRIMARY KEY, CHECK (hostile.try_check('x')));
INSERT INTO hostile.checked_trap VALUES ('i');
ALTER TABLE hostile.checked_trap ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE TABLE hostile.policy_trap (id text PRIMARY KEY);
INSERT INTO hostile.policy_trap VALUES ('i');
ALTER TABLE hostile.policy_trap ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY p ON hostile.policy_trap USING (hostile.try('policy of ' || id));
RESET client_min_messages;
RESET ROLE;
SET constraint_exclusion = on;
SELECT data FROM pgsync_evaluate('bucket_definitions: {h: {data: ["SELECT * FROM hostile.checked_trap"]}}', 'hostile.checked_trap', '{"id": "i"}');
RESET constraint_exclusion;
SELECT data FROM pgsync_evaluate('bucket_definitions: {h: {data: ["SELECT * FROM hostile.policy_trap"]}}', 'hostile.policy_trap');
GRANT regress_pgsync_owner TO regress_pgsync_caller;
SET ROLE regress_pgsync_caller;
SELECT data FROM pgsync_evaluate('bucket_definitions: {h: {data: ["SELECT * FROM hostile.policy_trap"]}}', 'hostile.policy_trap');
RESET ROLE;
REVOKE regress_pgsync_owner FROM regress_pgsync_caller;
ALTER TABLE hostile.trap NO FORCE ROW LEVEL SECURITY;

-- what fails inside leaves nothing changed
SELECT data FROM pgsync_evaluate(:'trap', 'hostile.trap', '{"l": "nosuch"}');
SELECT current_user = session_user AS myself, current_setting('search_path');

-- a table of a temporary schema, and a dropped one
CREATE TEMP TABLE lists (id int PRIMARY KEY);
SET client_min_messages = warning;
SELECT * FROM pgsync_evaluate(:'rules', 'pg_temp.lists');
RESET client_min_messages;
DROP TABLE pg_temp.lists;

\a
DROP EXTENSION pgsync;
SET client_min_messages = warning;
DROP SCHEMA hostile CASCADE;
DROP ROLE regress_pgsync_owner, regress_pgsync_caller;
DROP VIEW a_view;
DROP TABLE lists, other, parted, child, parent, columnless, own, many, nul;
DROP TYPE mood, pair;
DROP DOMAIN positive;
