/*-------------------------------------------------------------------------
 *
 * geometry.c
 *	  st_asgeojson(), st_astext(), st_x(), st_y(): sync-rules.md, 6.5.
 *
 * Reads (E)WKB, in bytes or as hex text, of both byte orders, with Z and M by
 * EWKB's flags or ISO's codes, never by both.  The bytes are walked once and
 * written as they are read; nothing is built in between.  GeoJSON has no M.
 *
 * Empty parts are written as the service writes them, which in text loses
 * parentheses: an empty line or ring inside another is a bare ")".
 *
 * Invariant: no read goes beyond the bytes, and what a count promises must be
 * there, so work is bounded by the length of the value.
 *
 *-------------------------------------------------------------------------
 */
#include <string.h>

#include "functions.h"
#include "number.h"

#define MAX_NESTING		32		/* collections inside one another */

typedef enum GeometryType
{
	GEOMETRY_POINT = 1,
	GEOMETRY_LINE,
	GEOMETRY_POLYGON,
	GEOMETRY_MULTI_POINT,
	GEOMETRY_MULTI_LINE,
	GEOMETRY_MULTI_POLYGON,
	GEOMETRY_COLLECTION
} GeometryType;

static const struct
{
	const char *json;
	const char *text;
}			type_names[] = {
	{NULL, NULL},
	{"Point", "POINT"},
	{"LineString", "LINESTRING"},
	{"Polygon", "POLYGON"},
	{"MultiPoint", "MULTIPOINT"},
	{"MultiLineString", "MULTILINESTRING"},
	{"MultiPolygon", "MULTIPOLYGON"},
	{"GeometryCollection", "GEOMETRYCOLLECTION"},
};

typedef struct GeometryHead
{
	GeometryType type;
	bool		has_z;
	bool		has_m;
	bool		little_endian;
} GeometryHead;

typedef struct Geometry
{
	const unsigned char *at;
	const unsigned char *end;
	bool		as_json;
	SyncBuffer	out;
} Geometry;

/* ---------------------------------------------------------------- reading */

static bool
read_u32(Geometry *geometry, bool little_endian, uint32_t *value)
{
	const unsigned char *b = geometry->at;

	if (geometry->end - b < 4)
		return false;
	if (little_endian)
		*value = (uint32_t) b[0] | (uint32_t) b[1] << 8 | (uint32_t) b[2] << 16 | (uint32_t) b[3] << 24;
	else
		*value = (uint32_t) b[3] | (uint32_t) b[2] << 8 | (uint32_t) b[1] << 16 | (uint32_t) b[0] << 24;
	geometry->at += 4;
	return true;
}

static bool
read_double(Geometry *geometry, bool little_endian, double *value)
{
	uint64_t	bits = 0;

	if (geometry->end - geometry->at < 8)
		return false;
	for (int i = 0; i < 8; i++)
		bits = bits << 8 | geometry->at[little_endian ? 7 - i : i];
	memcpy(value, &bits, sizeof(bits));
	geometry->at += 8;
	return true;
}

static bool
read_head(Geometry *geometry, GeometryHead *head)
{
	uint32_t	code;
	uint32_t	srid;

	if (geometry->at == geometry->end)
		return false;
	head->little_endian = *geometry->at++ != 0;
	if (!read_u32(geometry, head->little_endian, &code))
		return false;
	head->has_z = (code & 0x80000000u) != 0;
	head->has_m = (code & 0x40000000u) != 0;
	if ((code & 0x20000000u) != 0 && !read_u32(geometry, head->little_endian, &srid))
		return false;
	if ((code & 0xE0000000u) != 0)
		code &= 0xF;
	head->has_z |= code / 1000 == 1 || code / 1000 == 3;
	head->has_m |= code / 1000 == 2 || code / 1000 == 3;
	if (code / 1000 > 3 || code % 1000 < GEOMETRY_POINT || code % 1000 > GEOMETRY_COLLECTION)
		return false;
	head->type = (GeometryType) (code % 1000);
	return true;
}

/* ---------------------------------------------------------------- writing */

static void
put(Geometry *geometry, const char *text)
{
	buffer_append(&geometry->out, text, strlen(text));
}

static void
open_list(Geometry *geometry)
{
	put(geometry, geometry->as_json ? "[" : "(");
}

static void
close_list(Geometry *geometry)
{
	put(geometry, geometry->as_json ? "]" : ")");
}

/* x y [z] [m]; without brackets */
static bool
write_coordinates(Geometry *geometry, const GeometryHead *head)
{
	int			count = 2 + head->has_z + head->has_m;
	int			written = geometry->as_json ? 2 + head->has_z : count;

	for (int i = 0; i < count; i++)
	{
		char		digits[NUMBER_TEXT_LEN];
		double		value;
		size_t		len;

		if (!read_double(geometry, head->little_endian, &value))
			return false;
		if (i >= written)
			continue;
		len = geometry->as_json ? number_to_json(value, digits) : number_to_text(value, digits);
		if (i > 0)
			put(geometry, geometry->as_json ? "," : " ");
		buffer_append(&geometry->out, digits, len);
	}
	return true;
}

/* whether the list that comes next is there and holds nothing */
static bool
next_is_empty(const Geometry *geometry, const GeometryHead *head)
{
	Geometry	peek = *geometry;
	uint32_t	count;

	return read_u32(&peek, head->little_endian, &count) && count == 0;
}

/* a list of points */
static bool
write_points(Geometry *geometry, const GeometryHead *head)
{
	uint32_t	count;

	if (!read_u32(geometry, head->little_endian, &count))
		return false;
	if (geometry->as_json || count > 0)
		open_list(geometry);
	for (uint32_t i = 0; i < count; i++)
	{
		if (i > 0)
			put(geometry, ",");
		if (geometry->as_json)
			put(geometry, "[");
		if (!write_coordinates(geometry, head))
			return false;
		if (geometry->as_json)
			put(geometry, "]");
	}
	close_list(geometry);
	return true;
}

/* the first ring is the outer one: left out of JSON if empty, missing in text as if empty */
static bool
write_polygon(Geometry *geometry, const GeometryHead *head)
{
	uint32_t	count;
	bool		separate = false;

	if (!read_u32(geometry, head->little_endian, &count))
		return false;
	open_list(geometry);
	for (uint32_t i = 0; i < count; i++)
	{
		if (i == 0 && geometry->as_json && next_is_empty(geometry, head))
		{
			geometry->at += 4;
			continue;
		}
		if (separate)
			put(geometry, ",");
		if (!write_points(geometry, head))
			return false;
		separate = true;
	}
	if (count == 0 && !geometry->as_json)
		close_list(geometry);
	close_list(geometry);
	return true;
}

static bool write_body(Geometry *geometry, const GeometryHead *head, int depth, bool inside);
static bool write_geometry(Geometry *geometry, int depth);

/* the members of a MULTI... have heads of their own, which must be of its kind */
static bool
write_members(Geometry *geometry, const GeometryHead *head, int depth)
{
	uint32_t	count;

	if (!read_u32(geometry, head->little_endian, &count))
		return false;
	open_list(geometry);
	for (uint32_t i = 0; i < count; i++)
	{
		GeometryHead member;

		if (i > 0)
			put(geometry, ",");
		if (head->type == GEOMETRY_COLLECTION)
		{
			if (!write_geometry(geometry, depth + 1))
				return false;
			continue;
		}
		if (!read_head(geometry, &member) || (int) member.type != (int) head->type - 3 ||
			!write_body(geometry, &member, depth + 1, true))
			return false;
	}
	close_list(geometry);
	return true;
}

/* inside: a point of a MULTIPOINT has no parentheses of its own in text */
static bool
write_body(Geometry *geometry, const GeometryHead *head, int depth, bool inside)
{
	bool		brackets = geometry->as_json || !inside;

	switch (head->type)
	{
		case GEOMETRY_POINT:
			if (brackets)
				open_list(geometry);
			if (!write_coordinates(geometry, head))
				return false;
			if (brackets)
				close_list(geometry);
			return true;
		case GEOMETRY_LINE:
			return write_points(geometry, head);
		case GEOMETRY_POLYGON:
			return write_polygon(geometry, head);
		default:
			return write_members(geometry, head, depth);
	}
}

/* whether a geometry's body, which comes next, holds nothing: a polygon, no outer ring */
static bool
body_is_empty(const Geometry *geometry, const GeometryHead *head)
{
	Geometry	rings = *geometry;
	uint32_t	count;

	if (head->type == GEOMETRY_POINT)
		return false;
	if (next_is_empty(geometry, head))
		return true;
	return head->type == GEOMETRY_POLYGON && read_u32(&rings, head->little_endian, &count) &&
		next_is_empty(&rings, head);
}

static bool
write_geometry(Geometry *geometry, int depth)
{
	GeometryHead head;
	size_t		end;
	bool		is_empty;

	if (depth > MAX_NESTING || !read_head(geometry, &head))
		return false;
	if (geometry->as_json)
	{
		put(geometry, "{\"type\":\"");
		put(geometry, type_names[head.type].json);
		put(geometry, head.type == GEOMETRY_COLLECTION ? "\",\"geometries\":" : "\",\"coordinates\":");
		if (!write_body(geometry, &head, depth, false))
			return false;
		put(geometry, "}");
		return true;
	}
	put(geometry, type_names[head.type].text);
	if (head.has_z || head.has_m)
	{
		put(geometry, head.has_z && head.has_m ? " ZM " : head.has_z ? " Z " : " M ");
	}
	is_empty = body_is_empty(geometry, &head);
	if (is_empty)
		put(geometry, head.has_z || head.has_m ? "EMPTY" : " EMPTY");
	end = geometry->out.len;
	if (!write_body(geometry, &head, depth, false))
		return false;
	if (is_empty)
		geometry->out.len = end;
	return true;
}

/* ---------------------------------------------------------------- arguments */

static int
hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

/* bytes up to the first pair that is not hex */
static SyncString
bytes_from_hex(SyncValue text, SyncArena *arena)
{
	char	   *bytes = arena_alloc(arena, text.len / 2 + 1);
	uint32_t	len = 0;

	for (uint32_t i = 0; i + 1 < text.len; i += 2)
	{
		int			high = hex_digit(text.data[i]);
		int			low = hex_digit(text.data[i + 1]);

		if (high < 0 || low < 0)
			break;
		bytes[len++] = (char) (high << 4 | low);
	}
	return (SyncString) {bytes, len};
}

/* *is_geometry false: the value is none, the result is NULL */
static void
geometry_init(Geometry *geometry, SyncValue value, bool as_json, SyncArena *arena,
			  bool *is_geometry)
{
	SyncString	bytes = {value.data, value.len};

	memset(geometry, 0, sizeof(*geometry));
	*is_geometry = value.type == SYNC_TEXT || value.type == SYNC_BLOB;
	if (!*is_geometry)
		return;
	if (value.type == SYNC_TEXT)
		bytes = bytes_from_hex(value, arena);
	geometry->at = (const unsigned char *) bytes.data;
	geometry->end = geometry->at + bytes.len;
	geometry->as_json = as_json;
	buffer_init(&geometry->out, arena, bytes.len + 64);
}

static bool
geometry_fail(ExprContext *context)
{
	sync_error_set(context->error, SYNC_ERROR_VALUE, "the value is not a geometry");
	return false;
}

static bool
geometry_as(ExprContext *context, const SyncValue *args, bool as_json, SyncValue *result)
{
	Geometry	geometry;
	bool		is_geometry;

	*result = value_null();
	geometry_init(&geometry, args[0], as_json, context->arena, &is_geometry);
	if (!is_geometry)
		return true;
	if (!write_geometry(&geometry, 0))
		return geometry_fail(context);
	*result = value_text(geometry.out.data, geometry.out.len);
	return true;
}

bool
function_st_asgeojson(ExprContext *context, int arg_count, const SyncValue *args,
					  SyncValue *result)
{
	(void) arg_count;
	return geometry_as(context, args, true, result);
}

bool
function_st_astext(ExprContext *context, int arg_count, const SyncValue *args, SyncValue *result)
{
	(void) arg_count;
	return geometry_as(context, args, false, result);
}

/* one coordinate of a point; what is no point, but well formed, gives NULL */
static bool
point_coordinate(ExprContext *context, SyncValue value, bool want_y, SyncValue *result)
{
	Geometry	geometry;
	Geometry	whole;
	GeometryHead head;
	bool		is_geometry;
	double		x;
	double		y;

	*result = value_null();
	geometry_init(&geometry, value, true, context->arena, &is_geometry);
	if (!is_geometry)
		return true;
	whole = geometry;
	if (!write_geometry(&whole, 0) || !read_head(&geometry, &head))
		return geometry_fail(context);
	if (head.type != GEOMETRY_POINT)
		return true;
	if (!read_double(&geometry, head.little_endian, &x) ||
		!read_double(&geometry, head.little_endian, &y))
		return geometry_fail(context);
	*result = value_real(want_y ? y : x);
	return true;
}

bool
function_st_x(ExprContext *context, int arg_count, const SyncValue *args, SyncValue *result)
{
	(void) arg_count;
	return point_coordinate(context, args[0], false, result);
}

bool
function_st_y(ExprContext *context, int arg_count, const SyncValue *args, SyncValue *result)
{
	(void) arg_count;
	return point_coordinate(context, args[0], true, result);
}
