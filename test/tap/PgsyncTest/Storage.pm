# Storage.pm - the storage server of a TAP test: test/lib/storage_server.py in a process of its own.
package PgsyncTest::Storage;

use strict;
use warnings;
use Cwd qw(abs_path);
use File::Basename qw(dirname);
use IO::Socket::INET;
use PostgreSQL::Test::Utils ();

my $server = abs_path(dirname(__FILE__) . '/../../lib/storage_server.py');

# A new server on a free port; dies when it does not come up.
sub new
{
	my ($class) = @_;
	my $self = bless { folder => PostgreSQL::Test::Utils::tempdir() }, $class;
	my $socket = IO::Socket::INET->new(Listen => 1, LocalAddr => '127.0.0.1', ReuseAddr => 1)
	  or die "no port: $@";
	$self->{port} = $socket->sockport();
	close($socket);
	$self->start();
	return $self;
}

sub start
{
	my ($self) = @_;
	$self->{pid} = open($self->{out}, '-|', $ENV{PGSYNC_PYTHON} || 'python3', $server, $self->{port}, $self->{folder})
	  or die "cannot start the storage server: $!";
	my $line = readline($self->{out});
	die 'the storage server did not start' unless defined $line && $line =~ /^up/;
}

sub uri { return "mongodb://127.0.0.1:$_[0]->{port}/?replicaSet=rs0" }
sub freeze { kill 'STOP', $_[0]->{pid} }
sub thaw { kill 'CONT', $_[0]->{pid} }

sub stop
{
	my ($self) = @_;
	return unless $self->{pid};
	kill 'CONT', $self->{pid};
	kill 'TERM', $self->{pid};
	close($self->{out});		# waits for it
	delete $self->{pid};
}

sub DESTROY { my ($self) = @_; local ($?, $!); $self->stop() }

1;
