-- What CREATE EXTENSION makes: functions in the extension's schema, for nobody
-- but those they are granted to, each with a comment.
CREATE EXTENSION pgsync;

SELECT p.oid::regprocedure AS function, pg_get_function_result(p.oid) <> '' AS result,
       obj_description(p.oid, 'pg_proc') IS NOT NULL AS comment,
       has_function_privilege('public', p.oid, 'EXECUTE') AS public,
       has_function_privilege('pg_monitor', p.oid, 'EXECUTE') AS monitor
  FROM pg_depend AS d
  JOIN pg_proc AS p ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid
  JOIN pg_extension AS e ON d.refclassid = 'pg_extension'::regclass AND d.refobjid = e.oid
 WHERE e.extname = 'pgsync' AND d.deptype = 'e'
 ORDER BY p.proname COLLATE "C";

-- nothing else but functions and views
SELECT c.relname, c.relkind, obj_description(c.oid, 'pg_class') IS NOT NULL AS comment,
       has_table_privilege('public', c.oid, 'SELECT') AS public,
       has_table_privilege('pg_monitor', c.oid, 'SELECT') AS monitor
  FROM pg_depend AS d
  JOIN pg_class AS c ON d.classid = 'pg_class'::regclass AND d.objid = c.oid
  JOIN pg_extension AS e ON d.refclassid = 'pg_extension'::regclass AND d.refobjid = e.oid
 WHERE e.extname = 'pgsync' AND d.deptype = 'e'
 ORDER BY c.relname COLLATE "C";
SELECT DISTINCT d.classid::regclass
  FROM pg_depend AS d JOIN pg_extension AS e ON d.refobjid = e.oid
 WHERE e.extname = 'pgsync' AND d.deptype = 'e' AND d.classid <> 'pg_proc'::regclass
 ORDER BY 1;

-- the version has one home
SELECT extversion = (SELECT default_version FROM pg_available_extensions WHERE name = 'pgsync') AS current
  FROM pg_extension WHERE extname = 'pgsync';

-- it finds its own functions wherever it lives, and none that stand in the way
DROP EXTENSION pgsync;
CREATE SCHEMA elsewhere;
CREATE SCHEMA trap;
CREATE FUNCTION trap.pgsync_worker_status() RETURNS int LANGUAGE sql RETURN 1 / 0;
CREATE FUNCTION trap.pg_is_in_recovery() RETURNS int LANGUAGE sql RETURN 1 / 0;
SET search_path = trap, pg_catalog, public;
CREATE EXTENSION pgsync SCHEMA elsewhere;
SELECT count(*) FROM elsewhere.pgsync_status();
RESET search_path;
ALTER EXTENSION pgsync SET SCHEMA public;
DROP EXTENSION pgsync;
DROP SCHEMA trap CASCADE;
DROP SCHEMA elsewhere;
