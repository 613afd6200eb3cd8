-- Nobody may do anything; monitoring may look; the rest can be granted.
CREATE EXTENSION pgsync;
ALTER DATABASE contrib_regression SET pgsync.mongodb_uri = 'mongodb://127.0.0.1:1/';
ALTER DATABASE contrib_regression SET pgsync.mongodb_database = 'powersync';
CREATE ROLE regress_pgsync_nobody;
CREATE ROLE regress_pgsync_monitor IN ROLE pg_monitor;
CREATE ROLE regress_pgsync_operator;

SET ROLE regress_pgsync_nobody;
SELECT pgsync_start();
SELECT pgsync_stop();
SELECT count(*) FROM pgsync_status();
SELECT count(*) FROM pgsync_worker_status();
SELECT pgsync_wait_for_lsn();
SELECT pgsync_deploy('');
SELECT count(*) FROM pgsync_validate('');
SELECT count(*) FROM pgsync_evaluate('', 'pg_class');
SELECT pgsync_adopt();
SELECT count(*) FROM pgsync_rejected_rows;
SELECT count(*) FROM pgsync_stored_rejected_rows();

SET ROLE regress_pgsync_monitor;
SELECT count(*) FROM pgsync_status();
-- as far as the server, which is not there
\set VERBOSITY terse
SELECT count(*) FROM pgsync_rejected_rows;
\set VERBOSITY default
SELECT pgsync_stop();

RESET ROLE;
GRANT EXECUTE ON FUNCTION pgsync_start(), pgsync_stop(bool) TO regress_pgsync_operator;
SET ROLE regress_pgsync_operator;
BEGIN;
SELECT pgsync_start();
ROLLBACK;
SELECT pgsync_stop();

RESET ROLE;
ALTER DATABASE contrib_regression RESET ALL;
DROP EXTENSION pgsync;
DROP ROLE regress_pgsync_nobody, regress_pgsync_monitor, regress_pgsync_operator;
