-- pgsync_wait_for_lsn() without anything that could make it true.
CREATE EXTENSION pgsync;
SELECT pgsync_wait_for_lsn();
SELECT pgsync_wait_for_lsn('0/1', NULL);
ALTER DATABASE contrib_regression SET pgsync.mongodb_uri = 'mongodb://127.0.0.1:1/';
ALTER DATABASE contrib_regression SET pgsync.mongodb_database = 'powersync';
SELECT pgsync_start();
SELECT pgsync_wait_for_lsn(timeout => '0');
SELECT pgsync_wait_for_lsn('FFFFFFFF/0', '10 milliseconds');
SELECT pgsync_wait_for_lsn('0/1', '-1 hour');
SET statement_timeout = '50ms';
SELECT pgsync_wait_for_lsn(timeout => '1000 years');
RESET statement_timeout;
SELECT pgsync_stop(true);
SELECT pgsync_wait_for_lsn('0/1', '1 minute');
ALTER DATABASE contrib_regression RESET ALL;
DROP EXTENSION pgsync;
