/*-------------------------------------------------------------------------
 *
 * bson_util.c
 *	  Small parts of documents: LSNs, numbers of any width, server time; and
 *	  random bytes and clocks, which need no server.
 *
 * Reading is forgiving about number types (other writers use int32, int64 and
 * double for the same field) and about nothing else.
 *
 *-------------------------------------------------------------------------
 */
#include "mongo/mongo_private.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <sys/random.h>

#include "core/lsn.h"

void
append_lsn(bson_t *document, const char *name, uint64_t lsn)
{
	char		text[LSN_TEXT_SIZE];

	lsn_format(lsn, text);
	BSON_APPEND_UTF8(document, name, text);
}

void
append_lsn_or_null(bson_t *document, const char *name, uint64_t lsn)
{
	if (lsn == STREAM_LSN_NONE)
		BSON_APPEND_NULL(document, name);
	else
		append_lsn(document, name, lsn);
}

bool
find_field(const bson_t *document, const char *name, bson_iter_t *field)
{
	return bson_iter_init_find(field, document, name);
}

bool
read_lsn(const bson_t *document, const char *name, uint64_t *lsn)
{
	bson_iter_t field;
	uint32_t	len;
	const char *text;

	*lsn = STREAM_LSN_NONE;
	if (!find_field(document, name, &field) || BSON_ITER_HOLDS_NULL(&field) ||
		BSON_ITER_HOLDS_UNDEFINED(&field))
		return true;
	if (!BSON_ITER_HOLDS_UTF8(&field))
		return false;
	text = bson_iter_utf8(&field, &len);
	return lsn_parse((SyncString) {text, len}, lsn);
}

bool
read_integer(const bson_t *document, const char *name, int64_t *value)
{
	bson_iter_t field;

	if (!find_field(document, name, &field))
		return false;
	if (BSON_ITER_HOLDS_INT32(&field))
		*value = bson_iter_int32(&field);
	else if (BSON_ITER_HOLDS_INT64(&field))
		*value = bson_iter_int64(&field);
	else if (BSON_ITER_HOLDS_DOUBLE(&field))
	{
		double		number = bson_iter_double(&field);

		if (!(fabs(number) < 9007199254740992.0) || number != floor(number))
			return false;
		*value = (int64_t) number;
	}
	else
		return false;
	return true;
}

bool
read_bool(const bson_t *document, const char *name, bool missing)
{
	bson_iter_t field;

	if (!find_field(document, name, &field) || !BSON_ITER_HOLDS_BOOL(&field))
		return missing;
	return bson_iter_bool(&field);
}

const char *
read_text(const bson_t *document, const char *name, uint32_t *len)
{
	bson_iter_t field;

	if (!find_field(document, name, &field) || !BSON_ITER_HOLDS_UTF8(&field))
		return NULL;
	return bson_iter_utf8(&field, len);
}

void
append_server_time(bson_t *document, const char *name, int seconds)
{
	bson_t		value;
	bson_t		add;

	BSON_APPEND_DOCUMENT_BEGIN(document, name, &value);
	BSON_APPEND_DOCUMENT_BEGIN(&value, "$dateAdd", &add);
	BSON_APPEND_UTF8(&add, "startDate", "$$NOW");
	BSON_APPEND_UTF8(&add, "unit", "second");
	BSON_APPEND_INT32(&add, "amount", seconds);
	bson_append_document_end(&value, &add);
	bson_append_document_end(document, &value);
}

void
append_count(bson_t *document, const char *name, int64_t count)
{
	if (count >= INT32_MIN && count <= INT32_MAX)
		BSON_APPEND_INT32(document, name, (int32_t) count);
	else
		BSON_APPEND_INT64(document, name, count);
}

void
append_source_table_id(bson_t *document, const char *name, const SourceTableId *id)
{
	bson_oid_t	oid;

	memcpy(oid.bytes, id->bytes, SYNC_TABLE_LEN);
	BSON_APPEND_OID(document, name, &oid);
}

bool
read_source_table_id(const bson_t *document, const char *name, SourceTableId *id)
{
	bson_iter_t field;

	if (!find_field(document, name, &field) || !BSON_ITER_HOLDS_OID(&field))
		return false;
	memcpy(id->bytes, bson_iter_oid(&field)->bytes, SYNC_TABLE_LEN);
	return true;
}

SourceTableId
source_table_id_new(void)
{
	SourceTableId id;
	uint32_t	seconds = (uint32_t) (unix_time_us() / 1000000);

	/* an ObjectId: seconds, then what makes it unique; all random here */
	id.bytes[0] = (uint8_t) (seconds >> 24);
	id.bytes[1] = (uint8_t) (seconds >> 16);
	id.bytes[2] = (uint8_t) (seconds >> 8);
	id.bytes[3] = (uint8_t) seconds;
	if (!random_bytes(id.bytes + 4, SYNC_TABLE_LEN - 4))
	{
		bson_oid_t	oid;

		bson_oid_init(&oid, NULL);
		memcpy(id.bytes, oid.bytes, SYNC_TABLE_LEN);
	}
	return id;
}

bool
random_bytes(void *bytes, size_t len)
{
	size_t		done = 0;

	while (done < len)
	{
		ssize_t		n = getrandom((char *) bytes + done, len - done, 0);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		done += (size_t) n;
	}
	return true;
}

void
random_hex(char *text, size_t digits)
{
	static const char hex[] = "0123456789abcdef";

	for (size_t i = 0; i < digits; i++)
	{
		uint8_t		byte = 0;

		if (!random_bytes(&byte, 1))
			byte = (uint8_t) (monotonic_us() >> i);
		text[i] = hex[byte & 15];
	}
	text[digits] = '\0';
}

int64_t
monotonic_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t) now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

int64_t
unix_time_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (int64_t) now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static const struct
{
	StreamState state;
	const char *name;
}			state_names[] = {
	{STREAM_PROCESSING, "PROCESSING"},
	{STREAM_ACTIVE, "ACTIVE"},
	{STREAM_STOP, "STOP"},
	{STREAM_TERMINATED, "TERMINATED"},
	{STREAM_ERRORED, "ERRORED"},
};

const char *
stream_state_name(StreamState state)
{
	for (size_t i = 0; i < sizeof(state_names) / sizeof(state_names[0]); i++)
		if (state_names[i].state == state)
			return state_names[i].name;
	return "unknown";
}

StreamState
stream_state_parse(const char *text)
{
	for (size_t i = 0; text != NULL && i < sizeof(state_names) / sizeof(state_names[0]); i++)
		if (strcmp(state_names[i].name, text) == 0)
			return state_names[i].state;
	return STREAM_STATE_UNKNOWN;
}

void
append_state_in(bson_t *filter, const StreamState *states, int count)
{
	bson_t		state;
	bson_t		list;

	BSON_APPEND_DOCUMENT_BEGIN(filter, "state", &state);
	BSON_APPEND_ARRAY_BEGIN(&state, "$in", &list);
	for (int i = 0; i < count; i++)
	{
		char		digits[12];
		const char *position;

		bson_uint32_to_string((uint32_t) i, &position, digits, sizeof(digits));
		BSON_APPEND_UTF8(&list, position, stream_state_name(states[i]));
	}
	bson_append_array_end(&state, &list);
	bson_append_document_end(filter, &state);
}
