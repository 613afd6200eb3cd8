/*-------------------------------------------------------------------------
 *
 * socket.c
 *	  Connections of the storage thread that end at once when it is cancelled.
 *
 * libmongoc's own sockets can be interrupted by nothing but their timeouts,
 * and their descriptors are out of reach.  So the client gets its connections
 * from here: every wait, for a connection, for bytes or for room, also waits
 * for the thread's cancel descriptor.  TLS is libmongoc's, laid over such a
 * socket.  Name resolution is the C library's and cannot be cancelled.
 *
 * Invariant: once the thread is cancelled no call here blocks.
 *
 *-------------------------------------------------------------------------
 */
#include "mongo/mongo_private.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define STREAM_TYPE_PGSYNC		77	/* none of libmongoc's own */
#define BUFFER_SIZE				1024	/* as libmongoc's default initiator */
#define MAX_IOVECS				64

typedef struct CancelStream
{
	mongoc_stream_t stream;		/* first: libmongoc knows this part */
	int			fd;
	int			last_errno;		/* of the last failed call */
	MongoThread *thread;
} CancelStream;

static int64_t
deadline_of(int32_t timeout_ms)
{
	return timeout_ms < 0 ? -1 : monotonic_us() + (int64_t) timeout_ms * 1000;
}

/*
 * Waits for events on fd; deadline -1: without end.  0 when fd is ready, else
 * an errno: ETIMEDOUT, ECANCELED or what poll() said.
 */
static int
wait_for_socket(MongoThread *thread, int fd, short events, int64_t deadline)
{
	for (;;)
	{
		struct pollfd fds[2] = {
			{.fd = fd, .events = events},
			{.fd = thread->cancel_fd, .events = POLLIN}
		};
		int			timeout = -1;
		int			n;

		if (atomic_load(&thread->cancelled))
			return ECANCELED;
		if (deadline >= 0)
		{
			int64_t		left = (deadline - monotonic_us() + 999) / 1000;

			timeout = left < 0 ? 0 : left > INT32_MAX ? INT32_MAX : (int) left;
		}
		n = poll(fds, 2, timeout);
		if (n < 0 && errno != EINTR)
			return errno;
		if (n > 0 && fds[1].revents != 0)
			return ECANCELED;
		if (n > 0 && fds[0].revents != 0)
			return 0;
		if (n == 0)
			return ETIMEDOUT;
	}
}

/* ---------------------------------------------------------------- stream */

static int
stream_close(mongoc_stream_t *stream)
{
	CancelStream *self = (CancelStream *) stream;

	if (self->fd >= 0)
		close(self->fd);
	self->fd = -1;
	return 0;
}

static void
stream_destroy(mongoc_stream_t *stream)
{
	stream_close(stream);
	bson_free(stream);
}

static int
stream_flush(mongoc_stream_t *stream)
{
	(void) stream;
	return 0;
}

static ssize_t
stream_failed(CancelStream *self, int error)
{
	self->last_errno = error;
	errno = error;
	return -1;
}

/*
 * Drops the first len bytes from a vector; returns how many entries are left.
 */
static size_t
advance_vector(struct iovec *iov, size_t count, size_t len)
{
	size_t		first = 0;

	while (first < count && len >= iov[first].iov_len)
		len -= iov[first++].iov_len;
	if (first < count)
	{
		iov[first].iov_base = (char *) iov[first].iov_base + len;
		iov[first].iov_len -= len;
	}
	if (first > 0)
		memmove(iov, iov + first, (count - first) * sizeof(*iov));
	return count - first;
}

/* Sends up to MAX_IOVECS entries completely; bytes sent, or -1. */
static ssize_t
send_part(CancelStream *self, const mongoc_iovec_t *iov, size_t count, int64_t deadline)
{
	struct iovec part[MAX_IOVECS];
	ssize_t		sent = 0;

	for (size_t i = 0; i < count; i++)
		part[i] = (struct iovec) {.iov_base = iov[i].iov_base, .iov_len = iov[i].iov_len};
	count = advance_vector(part, count, 0);
	while (count > 0)
	{
		struct msghdr message = {.msg_iov = part, .msg_iovlen = count};
		ssize_t		n;

		if (atomic_load(&self->thread->cancelled))
			return stream_failed(self, ECANCELED);
		n = sendmsg(self->fd, &message, MSG_NOSIGNAL);
		if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
		{
			int			error = wait_for_socket(self->thread, self->fd, POLLOUT, deadline);

			if (error != 0)
				return stream_failed(self, error);
			continue;
		}
		if (n < 0)
			return stream_failed(self, errno);
		sent += n;
		count = advance_vector(part, count, (size_t) n);
	}
	return sent;
}

static ssize_t
stream_writev(mongoc_stream_t *stream, mongoc_iovec_t *iov, size_t count, int32_t timeout_ms)
{
	CancelStream *self = (CancelStream *) stream;
	int64_t		deadline = deadline_of(timeout_ms);
	ssize_t		total = 0;

	while (count > 0)
	{
		size_t		part = count < MAX_IOVECS ? count : MAX_IOVECS;
		ssize_t		n = send_part(self, iov, part, deadline);

		if (n < 0)
			return -1;
		total += n;
		iov += part;
		count -= part;
	}
	return total;
}

/*
 * Reads until min_bytes are there, and then what can be had without waiting.
 * Timeout 0 never waits.
 */
static ssize_t
stream_readv(mongoc_stream_t *stream, mongoc_iovec_t *iov, size_t count, size_t min_bytes,
			 int32_t timeout_ms)
{
	CancelStream *self = (CancelStream *) stream;
	int64_t		deadline = deadline_of(timeout_ms);
	size_t		total = 0;
	size_t		done = 0;		/* of iov[i] */

	for (size_t i = 0; i < count;)
	{
		ssize_t		n;
		int			error;

		if (done == iov[i].iov_len)
		{
			i++;
			done = 0;
			continue;
		}
		if (atomic_load(&self->thread->cancelled))
			return stream_failed(self, ECANCELED);
		n = recv(self->fd, (char *) iov[i].iov_base + done, iov[i].iov_len - done, 0);
		if (n > 0)
		{
			total += (size_t) n;
			done += (size_t) n;
			continue;
		}
		if (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)
			return stream_failed(self, errno);
		if (total >= min_bytes && (n == 0 || total > 0))
			break;
		if (n == 0)
			return stream_failed(self, ECONNRESET);
		if (timeout_ms == 0)
			return stream_failed(self, EAGAIN);
		error = wait_for_socket(self->thread, self->fd, POLLIN, deadline);
		if (error != 0)
			return stream_failed(self, error);
	}
	return (ssize_t) total;
}

static int
stream_setsockopt(mongoc_stream_t *stream, int level, int name, void *value, mongoc_socklen_t len)
{
	return setsockopt(((CancelStream *) stream)->fd, level, name, value, (socklen_t) len);
}

/* Has the peer gone while the connection was idle? */
static bool
stream_check_closed(mongoc_stream_t *stream)
{
	CancelStream *self = (CancelStream *) stream;
	char		byte;
	ssize_t		n;

	if (self->fd < 0)
		return true;
	n = recv(self->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
	return n == 0 || (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
}

/*
 * For the driver's scan of servers, which waits for several streams at once.
 * All are ours: libmongoc refuses to mix types.
 */
static ssize_t
stream_poll(mongoc_stream_poll_t *streams, size_t count, int32_t timeout_ms)
{
	MongoThread *thread;
	struct pollfd *fds;
	int			n;

	if (count == 0)
		return 0;
	thread = ((CancelStream *) streams[0].stream)->thread;
	fds = bson_malloc0((count + 1) * sizeof(*fds));
	for (size_t i = 0; i < count; i++)
	{
		fds[i].fd = ((CancelStream *) streams[i].stream)->fd;
		fds[i].events = (short) streams[i].events;
	}
	fds[count] = (struct pollfd) {.fd = thread->cancel_fd, .events = POLLIN};
	do
		n = poll(fds, count + 1, timeout_ms);
	while (n < 0 && errno == EINTR);
	if (n > 0 && fds[count].revents != 0)
	{
		/* every stream is broken: the scan must not go on waiting */
		for (size_t i = 0; i < count; i++)
			fds[i].revents = POLLERR;
		n = (int) count;
	}
	for (size_t i = 0; i < count; i++)
		streams[i].revents = fds[i].revents;
	bson_free(fds);
	return n;
}

static bool
stream_timed_out(mongoc_stream_t *stream)
{
	return ((CancelStream *) stream)->last_errno == ETIMEDOUT;
}

static bool
stream_should_retry(mongoc_stream_t *stream)
{
	int			error = ((CancelStream *) stream)->last_errno;

	return error == EAGAIN || error == EWOULDBLOCK || error == EINTR;
}

static mongoc_stream_t *
stream_new(MongoThread *thread, int fd)
{
	CancelStream *self = bson_malloc0(sizeof(CancelStream));

	self->stream.type = STREAM_TYPE_PGSYNC;
	self->stream.destroy = stream_destroy;
	self->stream.failed = stream_destroy;
	self->stream.close = stream_close;
	self->stream.flush = stream_flush;
	self->stream.writev = stream_writev;
	self->stream.readv = stream_readv;
	self->stream.setsockopt = stream_setsockopt;
	/* a root stream: get_base_stream must be NULL, libmongoc follows it */
	self->stream.check_closed = stream_check_closed;
	self->stream.poll = stream_poll;
	self->stream.timed_out = stream_timed_out;
	self->stream.should_retry = stream_should_retry;
	self->fd = fd;
	self->thread = thread;
	return &self->stream;
}

/* ---------------------------------------------------------------- connecting */

static void
set_tcp_options(int fd)
{
	int			on = 1;
	int			idle = 120;
	int			interval = 10;
	int			count = 9;

	/* none of them decides whether the connection works */
	(void) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	(void) setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
#ifdef TCP_KEEPIDLE
	(void) setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
	(void) setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof(interval));
	(void) setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof(count));
#else
	(void) idle;
	(void) interval;
	(void) count;
#endif
}

/* Descriptor of a connected, non-blocking socket, or -1 and *why. */
static int
connect_address(MongoThread *thread, const struct sockaddr *address, socklen_t len,
				int64_t deadline, int *why)
{
	int			fd = socket(address->sa_family, SOCK_STREAM, 0);
	int			error = 0;

	if (fd < 0)
	{
		*why = errno;
		return -1;
	}
	if (fcntl(fd, F_SETFD, FD_CLOEXEC) != 0 ||
		fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) != 0)
		error = errno;
	else if (connect(fd, address, len) != 0)
	{
		socklen_t	size = sizeof(error);

		error = errno;
		if (error == EINPROGRESS)
		{
			error = wait_for_socket(thread, fd, POLLOUT, deadline);
			if (error == 0 && getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0)
				error = errno;
		}
	}
	if (error != 0)
	{
		close(fd);
		*why = error;
		return -1;
	}
	if (address->sa_family != AF_UNIX)
		set_tcp_options(fd);
	return fd;
}

static void
set_connect_error(bson_error_t *error, int why, const mongoc_host_list_t *host)
{
	char		text[128];

	if (why == ETIMEDOUT)
		bson_set_error(error, MONGOC_ERROR_STREAM, MONGOC_ERROR_STREAM_CONNECT,
					   "connection to '%s' timed out", host->host_and_port);
	else
		bson_set_error(error, MONGOC_ERROR_STREAM, MONGOC_ERROR_STREAM_CONNECT,
					   "could not connect to '%s': %s", host->host_and_port,
					   bson_strerror_r(why, text, sizeof(text)));
}

static int
connect_tcp(MongoThread *thread, const mongoc_host_list_t *host, int64_t deadline,
			bson_error_t *error)
{
	struct addrinfo hints;
	struct addrinfo *list = NULL;
	char		port[8];
	int			why = 0;
	int			fd = -1;
	int			rc;

	snprintf(port, sizeof(port), "%hu", host->port);
	memset(&hints, 0, sizeof(hints));
	hints.ai_family = host->family;
	hints.ai_socktype = SOCK_STREAM;
	rc = getaddrinfo(host->host, port, &hints, &list);
	if (rc != 0)
	{
		bson_set_error(error, MONGOC_ERROR_STREAM, MONGOC_ERROR_STREAM_NAME_RESOLUTION,
					   "could not resolve '%s': %s", host->host, gai_strerror(rc));
		return -1;
	}
	for (struct addrinfo *a = list; a != NULL && fd < 0; a = a->ai_next)
		fd = connect_address(thread, a->ai_addr, a->ai_addrlen, deadline, &why);
	freeaddrinfo(list);
	if (fd < 0)
		set_connect_error(error, why, host);
	return fd;
}

static int
connect_unix(MongoThread *thread, const mongoc_host_list_t *host, int64_t deadline,
			 bson_error_t *error)
{
	struct sockaddr_un address;
	int			why = 0;
	int			fd;

	memset(&address, 0, sizeof(address));
	address.sun_family = AF_UNIX;
	if (strlen(host->host) >= sizeof(address.sun_path))
	{
		set_connect_error(error, ENAMETOOLONG, host);
		return -1;
	}
	strcpy(address.sun_path, host->host);
	fd = connect_address(thread, (struct sockaddr *) &address, sizeof(address), deadline, &why);
	if (fd < 0)
		set_connect_error(error, why, host);
	return fd;
}

/* TLS over base, which is given up on failure. */
static mongoc_stream_t *
start_tls(MongoContext *context, mongoc_stream_t *base, const mongoc_uri_t *uri,
		  const mongoc_host_list_t *host, int timeout_ms, bson_error_t *error)
{
	mongoc_ssl_opt_t options = *mongoc_ssl_opt_get_default();
	mongoc_stream_t *tls;

	options.pem_file = mongoc_uri_get_option_as_utf8(uri, MONGOC_URI_TLSCERTIFICATEKEYFILE, NULL);
	options.pem_pwd = mongoc_uri_get_option_as_utf8(uri, MONGOC_URI_TLSCERTIFICATEKEYFILEPASSWORD,
													NULL);
	options.ca_file = mongoc_uri_get_option_as_utf8(uri, MONGOC_URI_TLSCAFILE, NULL);
	options.weak_cert_validation =
		mongoc_uri_get_option_as_bool(uri, MONGOC_URI_TLSALLOWINVALIDCERTIFICATES, false) ||
		mongoc_uri_get_option_as_bool(uri, MONGOC_URI_TLSINSECURE, false);
	options.allow_invalid_hostname =
		mongoc_uri_get_option_as_bool(uri, MONGOC_URI_TLSALLOWINVALIDHOSTNAMES, false) ||
		mongoc_uri_get_option_as_bool(uri, MONGOC_URI_TLSINSECURE, false);

	tls = mongoc_stream_tls_new_with_hostname(base, host->host, &options, 1);
	if (tls == NULL)
	{
		mongoc_stream_destroy(base);
		context->tls_failed = true;
		bson_set_error(error, MONGOC_ERROR_STREAM, MONGOC_ERROR_STREAM_SOCKET,
					   "TLS could not be set up: certificate or key file not readable");
		return NULL;
	}
	if (!mongoc_stream_tls_handshake_block(tls, host->host, timeout_ms, error))
	{
		context->tls_failed = true;
		mongoc_stream_destroy(tls);
		return NULL;
	}
	return tls;
}

/*
 * The client's stream initiator: user_data is the MongoContext.
 */
mongoc_stream_t *
cancellable_stream(const mongoc_uri_t *uri, const mongoc_host_list_t *host, void *user_data,
				   bson_error_t *error)
{
	MongoContext *context = user_data;
	MongoThread *thread = context->thread;
	int			timeout = mongoc_uri_get_option_as_int32(uri, MONGOC_URI_CONNECTTIMEOUTMS, 10000);
	int64_t		deadline = deadline_of(timeout);
	mongoc_stream_t *stream;
	int			fd;

	context->tls_failed = false;
	if (atomic_load(&thread->cancelled))
	{
		set_connect_error(error, ECANCELED, host);
		return NULL;
	}
	if (host->family == AF_UNIX)
		fd = connect_unix(thread, host, deadline, error);
	else
		fd = connect_tcp(thread, host, deadline, error);
	if (fd < 0)
		return NULL;
	stream = stream_new(thread, fd);
	if (mongoc_uri_get_tls(uri))
	{
		stream = start_tls(context, stream, uri, host, timeout, error);
		if (stream == NULL)
			return NULL;
	}
	return mongoc_stream_buffered_new(stream, BUFFER_SIZE);
}
