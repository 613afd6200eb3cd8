/*-------------------------------------------------------------------------
 *
 * bson_json.c
 *	  BSON bytes of lookups and parameter rows as JSON text, for people.
 *
 * Does not decide what the bytes must look like: what is no BSON of those kinds
 * is refused, or shown as far as it goes.
 *
 * Invariant: nothing outside the given bytes is read, whatever they are.
 *
 *-------------------------------------------------------------------------
 */
#include <string.h>

#include "bson_bytes.h"
#include "json.h"
#include "value.h"

#define TYPE_DOCUMENT	0x03
#define TYPE_ARRAY		0x04
#define TYPE_BOOL		0x08
#define DEPTH_MAX		200

typedef struct Scan
{
	const char *at;
	const char *end;
} Scan;

static bool
take(Scan *scan, void *to, size_t len)
{
	if ((size_t) (scan->end - scan->at) < len)
		return false;
	memcpy(to, scan->at, len);
	scan->at += len;
	return true;
}

/* a length of 32 bits, and that many bytes */
static bool
take_bytes(Scan *scan, size_t extra, SyncString *bytes)
{
	int32_t		len;

	if (!take(scan, &len, sizeof(len)) || len < 0 ||
		(size_t) (scan->end - scan->at) < (size_t) len + extra)
		return false;
	*bytes = (SyncString) {scan->at, (uint32_t) len};
	return true;
}

static bool append_container(SyncBuffer *buffer, Scan *scan, bool is_array, int depth);

static bool
append_nested(SyncBuffer *buffer, Scan *scan, bool is_array, int depth)
{
	Scan		inner = *scan;
	int32_t		len;

	if (!take(scan, &len, sizeof(len)) || len < 5 || inner.end - inner.at < len)
		return false;
	inner.end = inner.at + len;
	scan->at = inner.end;
	return append_container(buffer, &inner, is_array, depth + 1);
}

static void
append_hex(SyncBuffer *buffer, SyncString bytes)
{
	static const char digits[] = "0123456789abcdef";

	buffer_append(buffer, "\"\\\\x", 4);
	for (uint32_t i = 0; i < bytes.len; i++)
	{
		buffer_append_char(buffer, digits[(unsigned char) bytes.data[i] >> 4]);
		buffer_append_char(buffer, digits[(unsigned char) bytes.data[i] & 15]);
	}
	buffer_append_char(buffer, '"');
}

static bool
append_element(SyncBuffer *buffer, Scan *scan, int type, int depth)
{
	SyncString	bytes;
	double		real;
	int32_t		small;
	int64_t		integer;
	char		flag;

	switch (type)
	{
		case BSON_BYTES_DOUBLE:
			if (!take(scan, &real, sizeof(real)))
				return false;
			json_append_value(buffer, value_real(real));
			return true;
		case BSON_BYTES_INT32:
			if (!take(scan, &small, sizeof(small)))
				return false;
			json_append_value(buffer, value_real(small));
			return true;
		case BSON_BYTES_INT64:
			if (!take(scan, &integer, sizeof(integer)))
				return false;
			json_append_value(buffer, value_integer(integer));
			return true;
		case BSON_BYTES_TEXT:
			if (!take_bytes(scan, 0, &bytes) || bytes.len == 0)
				return false;
			json_append_text(buffer, bytes.data, bytes.len - 1);
			scan->at += bytes.len;
			return true;
		case BSON_BYTES_BINARY:
			if (!take_bytes(scan, 1, &bytes))
				return false;
			append_hex(buffer, (SyncString) {bytes.data + 1, bytes.len});
			scan->at += bytes.len + 1;
			return true;
		case TYPE_BOOL:
			if (!take(scan, &flag, 1))
				return false;
			buffer_append(buffer, flag ? "true" : "false", flag ? 4 : 5);
			return true;
		case BSON_BYTES_NULL:
			buffer_append(buffer, "null", 4);
			return true;
		case TYPE_DOCUMENT:
		case TYPE_ARRAY:
			return append_nested(buffer, scan, type == TYPE_ARRAY, depth);
		default:
			return false;
	}
}

static bool
append_container(SyncBuffer *buffer, Scan *scan, bool is_array, int depth)
{
	char		separator = is_array ? '[' : '{';
	int32_t		len;
	bool		ok = depth < DEPTH_MAX && take(scan, &len, sizeof(len));

	while (ok && scan->at < scan->end && *scan->at != 0)
	{
		int			type = (unsigned char) *scan->at++;
		const char *name = scan->at;
		const char *name_end = memchr(name, 0, (size_t) (scan->end - name));

		if (name_end == NULL)
		{
			ok = false;
			break;
		}
		scan->at = name_end + 1;
		buffer_append_char(buffer, separator);
		separator = ',';
		if (!is_array)
		{
			json_append_text(buffer, name, (size_t) (name_end - name));
			buffer_append_char(buffer, ':');
		}
		ok = append_element(buffer, scan, type, depth);
	}
	if (separator != ',')
		buffer_append_char(buffer, separator);
	buffer_append_char(buffer, is_array ? ']' : '}');
	return ok;
}

void
bson_append_json(SyncBuffer *buffer, SyncString bytes, bool is_array)
{
	Scan		scan = {bytes.data, bytes.data + bytes.len};

	(void) append_container(buffer, &scan, is_array, 0);
}
