-- A worker that cannot work says why, is tried again later, and disturbs nobody.
CREATE EXTENSION pgsync;
ALTER DATABASE contrib_regression SET pgsync.mongodb_uri = 'mongodb://127.0.0.1:1/';
ALTER DATABASE contrib_regression SET pgsync.mongodb_database = 'powersync';
SELECT pgsync_start();
ALTER DATABASE contrib_regression SET pgsync.mongodb_uri_file = '/nonexistent/uri';

-- what status shows at the first look after so many failures
CREATE TABLE seen AS SELECT 0 AS wanted, * FROM pgsync_status() WITH NO DATA;
CREATE PROCEDURE see_failure(wanted int, sqlstate text) LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 1 .. 1000 LOOP
		INSERT INTO seen
			SELECT wanted, * FROM pgsync_status() AS s
			 WHERE failures >= wanted AND phase = 'backing off' AND last_error_sqlstate = sqlstate;
		EXIT WHEN FOUND;
		PERFORM pgsync_wait_for_lsn('FFFFFFFF/0', '20 milliseconds');
	END LOOP;
END
$$;
CALL see_failure(2, '58P01');
SELECT stream, pid, slot_name, next_retry > phase_since AS will_retry,
       last_error_time > now() - interval '1 hour' AS recent, last_error
  FROM seen WHERE wanted = 2;

-- another cause shows at once: a changed setting is tried without waiting
ALTER DATABASE contrib_regression SET pgsync.mongodb_uri_file = '/';
CALL see_failure(3, 'F0000');
SELECT count(*) FROM seen WHERE wanted = 3;

SELECT pgsync_stop(true);
DROP PROCEDURE see_failure;
DROP TABLE seen;
ALTER DATABASE contrib_regression RESET ALL;
DROP EXTENSION pgsync;
