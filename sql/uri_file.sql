-- The file that holds the MongoDB URI: what is wrong with it, and what to do about it.
CREATE EXTENSION pgsync;
ALTER DATABASE contrib_regression SET pgsync.mongodb_database = 'powersync';
SELECT current_setting('data_directory') || '/uri' AS file \gset
ALTER DATABASE contrib_regression SET pgsync.mongodb_uri_file = :'file';

CREATE FUNCTION complaint(file text) RETURNS TABLE (code text, message text, detail text, hint text)
LANGUAGE plpgsql AS $$
BEGIN
	PERFORM pgsync_start();
	RETURN QUERY VALUES ('00000', 'started', NULL, NULL);
	PERFORM pgsync_stop(true);
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS code = RETURNED_SQLSTATE, message = MESSAGE_TEXT,
		detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
	message := replace(message, file, '/uri');
	hint := regexp_replace(replace(hint, file, '/uri'), 'chown [^ ]+', 'chown user');
	RETURN NEXT;
END
$$;
CREATE FUNCTION run(command text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE format('COPY (SELECT 1) TO PROGRAM %L', 'cat >/dev/null; ' || command);
END
$$;
\pset format unaligned
\pset footer off

-- not there, a directory, something that would keep a reader waiting
SELECT * FROM complaint(:'file');
SELECT run('mkdir ' || quote_literal(:'file'));
SELECT * FROM complaint(:'file');
SELECT run('rmdir ' || quote_literal(:'file'));
SELECT run('mkfifo -m 600 ' || quote_literal(:'file'));
SELECT * FROM complaint(:'file');
SELECT run('rm ' || quote_literal(:'file'));

-- others can read it
SELECT run('umask 022; echo mongodb://canary >' || quote_literal(:'file'));
SELECT * FROM complaint(:'file');
SELECT run('chmod 0620 ' || quote_literal(:'file'));
SELECT * FROM complaint(:'file');

-- nobody can
SELECT run('chmod 0 ' || quote_literal(:'file'));
SELECT * FROM complaint(:'file');
SELECT run('chmod 600 ' || quote_literal(:'file'));

-- what it holds
SELECT run('echo >' || quote_literal(:'file'));
SELECT * FROM complaint(:'file');
SELECT run('printf ''mongodb://canary\nmongodb://canary\n'' >' || quote_literal(:'file'));
SELECT * FROM complaint(:'file');
SELECT run('echo "''mongodb://canary''" >' || quote_literal(:'file'));
SELECT * FROM complaint(:'file');
SELECT run('echo "# mongodb://canary" >' || quote_literal(:'file'));
SELECT * FROM complaint(:'file');
SELECT run('printf ''mongodb://can\000ary'' >' || quote_literal(:'file'));
SELECT * FROM complaint(:'file');
SELECT run('head -c 70000 /dev/zero | tr ''\000'' m >' || quote_literal(:'file'));
SELECT * FROM complaint(:'file');

-- as it should be; a deployment says the same about it
SELECT run('echo mongodb://127.0.0.1:1/ >' || quote_literal(:'file'));
SELECT * FROM complaint(:'file');
SELECT run('rm ' || quote_literal(:'file'));

DROP FUNCTION complaint(text);
DROP FUNCTION run(text);
ALTER DATABASE contrib_regression RESET ALL;
DROP EXTENSION pgsync;
