# Life and death of launcher and workers: start, terminate, crash, drop, rename, standby.
# What is stored is the end-to-end suite's business; here it is enough that a
# checkpoint covers what was committed (pgsync_wait_for_lsn).

use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

use PgsyncTest::Storage;

plan skip_all => 'needs a storage server of its own' if $ENV{PGSYNC_MONGODB_URI};

my $rules = "bucket_definitions:\n  global:\n    data:\n      - SELECT * FROM t\n";
my $storage = PgsyncTest::Storage->new;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init(allows_streaming => 'logical', extra => [ '--encoding=UTF8', '--no-locale' ]);
$node->append_conf('postgresql.conf', qq{
shared_preload_libraries = 'pgsync'
wal_level = logical
max_worker_processes = 16
log_min_messages = info
});
$node->start;

sub uri_file
{
	my ($name, $uri) = @_;
	my $file = $node->basedir . "/$name.uri";
	append_to_file($file, "$uri\n");
	chmod 0600, $file or die $!;
	return $file;
}

sub make_database
{
	my ($name) = @_;
	$node->safe_psql('postgres', "CREATE DATABASE $name");
	$node->safe_psql('postgres', "ALTER DATABASE $name SET pgsync.mongodb_uri_file = '" . uri_file($name, $storage->uri) . "'");
	$node->safe_psql('postgres', "ALTER DATABASE $name SET pgsync.mongodb_database = 'tap_$name'");
	$node->safe_psql($name, 'CREATE EXTENSION pgsync; CREATE TABLE t (id text PRIMARY KEY);'
		  . ' CREATE PUBLICATION powersync FOR ALL TABLES');
}

# kill -9, and until the process is gone.  Where nobody reaps it (containers), its
# pid stays in use and the server would take its lock file for a living one's.
sub kill_postmaster
{
	my $pid = (split /\n/, slurp_file($node->data_dir . '/postmaster.pid'))[0];
	my $state = sub { open(my $f, '<', "/proc/$pid/stat") or return ''; return (split / /, (<$f> =~ s/^.*\) //r))[0]; };
	$node->kill9;
	my $until = time + 30;
	select(undef, undef, undef, 0.01) while $state->() !~ /^[XZ]?$/ && time < $until;
	unlink $node->data_dir . '/postmaster.pid', $node->host . '/.s.PGSQL.' . $node->port . '.lock'
	  if $state->() eq 'Z';
}

# Everything committed by now is covered by a checkpoint.
sub covered
{
	my ($name, $what) = @_;
	is($node->safe_psql($name, "SELECT pgsync_wait_for_lsn(NULL, '60 s')"), 't', $what);
}

sub worker
{
	my ($name) = @_;
	return $node->safe_psql('postgres',
		"SELECT coalesce(string_agg(pid::text, ' '), '') FROM pg_stat_activity WHERE datname = '$name' AND backend_type LIKE 'pgsync%'");
}

sub no_worker
{
	my ($name, $what) = @_;
	ok($node->poll_query_until('postgres',
			"SELECT count(*) = 0 FROM pg_stat_activity WHERE datname = '$name' AND backend_type LIKE 'pgsync%'"), $what);
}

sub no_slot
{
	my ($name, $what) = @_;
	ok($node->poll_query_until('postgres', "SELECT count(*) = 0 FROM pg_replication_slots WHERE database = '$name'"), $what);
}

sub postmaster { return $node->safe_psql('postgres', 'SELECT pg_postmaster_start_time()') }

# ---- start

make_database('app');
my ($ret, $out, $err) = $node->psql('app', 'SELECT pgsync_start()');
is($ret, 0, 'start without rules');
ok($node->poll_query_until('app', "SELECT count(*) = 1 FROM pgsync_status() WHERE phase = 'no rules'"), 'it waits for rules');
like($node->safe_psql('app', "SELECT pgsync_deploy(\$\$$rules\$\$)"), qr/^\d+$/, 'deploy');
$node->safe_psql('app', "INSERT INTO t VALUES ('1')");
covered('app', 'a first checkpoint');
like(worker('app'), qr/^\d+$/, 'one worker');
is($node->safe_psql('app', 'SELECT pgsync_start()'), 'already started', 'start again');
is($node->safe_psql('app', "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'pgsync launcher'"), '1', 'one launcher');

# ---- terminate

my $since = postmaster();
for my $signal ('pg_terminate_backend', 'pg_cancel_backend')
{
	my $pid = worker('app');
	$node->safe_psql('postgres', "SELECT $signal($pid)");
	ok($node->poll_query_until('postgres',
			"SELECT count(*) = 0 FROM pg_stat_activity WHERE pid = $pid"), 'the worker ends') if $signal eq 'pg_terminate_backend';
	$node->safe_psql('app', "INSERT INTO t VALUES ('$signal')");
	covered('app', "after $signal");
}
$node->safe_psql('postgres', "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'pgsync launcher'");
ok($node->poll_query_until('postgres', "SELECT count(*) = 1 FROM pg_stat_activity WHERE backend_type = 'pgsync launcher'"),
	'the launcher comes back');
$node->safe_psql('app', "INSERT INTO t VALUES ('launcher')");
covered('app', 'after the launcher was terminated');
like(worker('app'), qr/^\d+$/, 'still one worker');
is(postmaster(), $since, 'the server was not restarted');

# ---- restarts

for my $mode ('fast', 'immediate')
{
	$node->stop($mode);
	$node->start;
	$node->safe_psql('app', "INSERT INTO t VALUES ('$mode')");
	covered('app', "goes on by itself after a stop -m $mode");
}
kill_postmaster();
$node->start;
$node->safe_psql('app', "INSERT INTO t VALUES ('kill9')");
covered('app', 'goes on by itself after kill -9 of the postmaster');

# ---- stop is durable and transactional

$node->safe_psql('app', 'BEGIN; SELECT pgsync_stop(); ROLLBACK');
covered('app', 'a stop that was rolled back');
like($node->safe_psql('app', 'SELECT pgsync_stop()'), qr/WAL kept for replication slots/, 'stop says what the slot keeps');
no_worker('app', 'the worker ends');
$node->restart;
is($node->safe_psql('app', "SELECT count(*) FROM pg_replication_slots WHERE database = 'app'"), '1', 'the slot is kept');
is(worker('app'), '', 'a stopped database stays stopped');
($ret, $out, $err) = $node->psql('app', "SELECT pgsync_wait_for_lsn(NULL, '1 s')");
like($err, qr/not started/, 'waiting for a stopped database is an error');
$node->safe_psql('app', 'SELECT pgsync_start()');
covered('app', 'started again');
for (1 .. 10)
{
	$node->safe_psql('app', 'SELECT pgsync_stop()');
	$node->safe_psql('app', 'SELECT pgsync_start()');
}
covered('app', 'ten times stop and start');
unlike(worker('app'), qr/ /, 'at most one worker');

# ---- the extension

$node->safe_psql('app', 'BEGIN; DROP EXTENSION pgsync; ROLLBACK');
covered('app', 'a DROP EXTENSION that was rolled back');
$node->safe_psql('app', 'DROP EXTENSION pgsync');
no_worker('app', 'DROP EXTENSION ends the worker');
no_slot('app', 'DROP EXTENSION drops the slot');
$node->safe_psql('app', 'CREATE SCHEMA pgsync');
my $log = -s $node->logfile;
$node->restart;
unlike(slurp_file($node->logfile, $log), qr/pgsync.*(ERROR|FATAL)/, 'a schema of that name disturbs nobody');
$node->safe_psql('app', 'CREATE EXTENSION pgsync; DROP SCHEMA pgsync');
$node->safe_psql('app', 'SELECT pgsync_start()');
$node->safe_psql('app', "INSERT INTO t VALUES ('again')");
covered('app', 'started again after DROP and CREATE EXTENSION');

# ---- databases

$node->safe_psql('postgres', 'CREATE DATABASE copy TEMPLATE app');
is(worker('copy'), '', 'a copy of the database does not replicate');
covered('app', 'its template does');
$node->safe_psql('postgres', 'DROP DATABASE copy');
$node->safe_psql('postgres', 'ALTER DATABASE app RENAME TO app2');
$node->safe_psql('app2', "INSERT INTO t VALUES ('renamed')");
covered('app2', 'goes on after ALTER DATABASE RENAME');
make_database('other');
$node->safe_psql('other', "SELECT pgsync_deploy(\$\$$rules\$\$)");
$node->safe_psql('other', 'SELECT pgsync_start()');
covered('other', 'a second database');
$node->safe_psql('postgres', 'DROP DATABASE other');
no_slot('other', 'DROP DATABASE drops the slot');
covered('app2', 'the first goes on');

# ---- the storage stands still

$storage->freeze;
$node->safe_psql('app2', "INSERT INTO t SELECT 'x' || i FROM generate_series(1, 20000) i");
my $start = time;
$node->stop('fast');
note(sprintf 'fast shutdown with a frozen storage: %.1f s', time - $start);
$node->start;
$storage->thaw;
covered('app2', 'goes on when the storage does');

# ---- misuse

for my $plugin ('pgsync', 'pgsync_worker')
{
	($ret, $out, $err) = $node->psql('app2', "SELECT pg_create_logical_replication_slot('mine', '$plugin')");
	isnt($ret, 0, "no slot with plugin $plugin outside of a worker");
	unlike($err, qr/server closed the connection/, '... and no crash');
}

# ---- a standby does not replicate

$node->backup('backup');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'backup', has_streaming => 1);
$standby->start;
$node->safe_psql('app2', "INSERT INTO t VALUES ('standby')");
$node->wait_for_catchup($standby);
is($standby->safe_psql('postgres', "SELECT count(*) FROM pg_stat_activity WHERE datname = 'app2' AND backend_type LIKE 'pgsync%'"),
	'0', 'no worker on a standby');
($ret, $out, $err) = $standby->psql('app2', 'SELECT pgsync_start()');
like($err, qr/recovery is in progress/, 'pgsync_start() on a standby');
covered('app2', 'the primary goes on');
$standby->stop;

# ---- a configuration that cannot work does not stop the server

$node->append_conf('postgresql.conf', "wal_level = replica\nmax_wal_senders = 0");
$node->safe_psql('app2', 'SELECT pgsync_stop(drop_slot => true)');
no_slot('app2', 'pgsync_stop(drop_slot => true)');
$node->restart;
($ret, $out, $err) = $node->psql('app2', 'SELECT pgsync_start()');
like($err, qr/wal_level/, 'wal_level is named');
$node->append_conf('postgresql.conf', "shared_preload_libraries = ''");
$node->restart;
($ret, $out, $err) = $node->psql('app2', 'SELECT pgsync_start()');
like($err, qr/shared_preload_libraries/, 'shared_preload_libraries is named');

$node->stop;
my $text = slurp_file($node->logfile);
unlike($text, qr/terminated by signal (?!9\b)|PANIC|TRAP:/, 'nothing crashed');
$storage->stop;
done_testing();
