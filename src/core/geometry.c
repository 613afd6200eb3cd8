/*-------------------------------------------------------------------------
 *
 * geometry.c
 *	  st_asgeojson(), st_astext(), st_x(), st_y(): sync-rules.md, 6.5.
 *
 * Reads (E)WKB, in bytes or as hex text, of both byte orders, with Z and M by
 * EWKB's flags or ISO's codes.  The bytes are walked once and written as they
 * are read; nothing is built in between.
 *
 * What PostGIS does not make (a line in a MULTIPOINT, an empty ring) is written
 * as the service writes it, however odd that is: its output is compared byte by
 * byte.
 *
 * Invariant: no read goes beyond the bytes, and what a count promises must be
 * there, so work is bounded by the length of the value.
 *
 *-------------------------------------------------------------------------
 */
#include <string.h>

#include "functions.h"
#include "number.h"
#include "text.h"

#define MAX_NESTING		200		/* collections inside one another; as in PostGIS */

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
	bool		is_ewkb;		/* has one of its flags */
	bool		little_endian;
} GeometryHead;

typedef enum GeometryOutput
{
	OUTPUT_NONE,				/* only read */
	OUTPUT_JSON,
	OUTPUT_TEXT
} GeometryOutput;

typedef struct Geometry
{
	const unsigned char *at;
	const unsigned char *end;
	GeometryOutput output;
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

/*
 * The members of a geometry with EWKB's flags are read as EWKB, too.  The low
 * bits of its codes are the type; ISO's codes are numbers.
 */
static bool
read_head(Geometry *geometry, const GeometryHead *outer, GeometryHead *head)
{
	uint32_t	code;
	uint32_t	srid;
	uint32_t	dimensions = 0;

	if (geometry->at == geometry->end)
		return false;
	head->little_endian = *geometry->at++ != 0;
	if (!read_u32(geometry, head->little_endian, &code))
		return false;
	if ((code & 0x20000000u) != 0 && !read_u32(geometry, head->little_endian, &srid))
		return false;
	head->is_ewkb = (code & 0xE0000000u) != 0;
	head->has_z = (code & 0x80000000u) != 0;
	head->has_m = (code & 0x40000000u) != 0;
	if (head->is_ewkb || (outer != NULL && outer->is_ewkb))
		code &= 0xF;
	else if (code < 4000)
	{
		dimensions = code / 1000;
		code %= 1000;
	}
	head->has_z |= dimensions == 1 || dimensions == 3;
	head->has_m |= dimensions == 2 || dimensions == 3;
	if (code < GEOMETRY_POINT || code > GEOMETRY_COLLECTION)
		return false;
	head->type = (GeometryType) code;
	return true;
}

/* ---------------------------------------------------------------- writing */

static void
put(Geometry *geometry, const char *json, const char *text)
{
	const char *s = geometry->output == OUTPUT_JSON ? json : text;

	if (geometry->output != OUTPUT_NONE)
		buffer_append(&geometry->out, s, strlen(s));
}

static void
put_number(Geometry *geometry, double value)
{
	char		digits[NUMBER_TEXT_LEN];

	if (geometry->output == OUTPUT_NONE)
		return;
	buffer_append(&geometry->out, digits, geometry->output == OUTPUT_JSON ?
				  number_to_json(value, digits) : number_to_text(value, digits));
}

/* a coordinate that the bytes have, the output wants, both or none of these */
static bool
write_more(Geometry *geometry, const GeometryHead *head, bool has, bool wanted)
{
	double		value;

	if (has && !read_double(geometry, head->little_endian, &value))
		return false;
	if (!wanted)
		return true;
	put(geometry, ",", " ");
	if (has)
		put_number(geometry, value);
	else
		put(geometry, "null", "undefined");
	return true;
}

/* x y [z] [m] without brackets; shape: which of them the text has.  JSON has no M */
static bool
write_coordinates(Geometry *geometry, const GeometryHead *head, const GeometryHead *shape)
{
	double		x;
	double		y;
	bool		text = geometry->output == OUTPUT_TEXT;

	if (!read_double(geometry, head->little_endian, &x) ||
		!read_double(geometry, head->little_endian, &y))
		return false;
	put_number(geometry, x);
	put(geometry, ",", " ");
	put_number(geometry, y);
	return write_more(geometry, head, head->has_z, text ? shape->has_z : head->has_z) &&
		write_more(geometry, head, head->has_m, text && shape->has_m);
}

/* a list of points; the text of none has no opening parenthesis */
static bool
write_points(Geometry *geometry, const GeometryHead *head)
{
	uint32_t	count;

	if (!read_u32(geometry, head->little_endian, &count))
		return false;
	put(geometry, "[", count == 0 ? "" : "(");
	for (uint32_t i = 0; i < count; i++)
	{
		put(geometry, i == 0 ? "[" : ",[", i == 0 ? "" : ",");
		if (!write_coordinates(geometry, head, head))
			return false;
		put(geometry, "]", "");
	}
	put(geometry, "]", ")");
	return true;
}

/* whether a count that comes next is 0; also where there is none */
static bool
nothing_follows(const Geometry *geometry, const GeometryHead *head)
{
	Geometry	peek = *geometry;
	uint32_t	count;

	return !read_u32(&peek, head->little_endian, &count) || count == 0;
}

/* in JSON, an outer ring without points is left out */
static bool
write_polygon(Geometry *geometry, const GeometryHead *head)
{
	uint32_t	count;
	uint32_t	points;
	bool		first = true;

	if (!read_u32(geometry, head->little_endian, &count))
		return false;
	put(geometry, "[", count == 0 ? "()" : "(");
	for (uint32_t i = 0; i < count; i++)
	{
		if (i == 0 && geometry->output == OUTPUT_JSON && nothing_follows(geometry, head))
		{
			if (!read_u32(geometry, head->little_endian, &points))
				return false;
			continue;
		}
		put(geometry, first ? "" : ",", first ? "" : ",");
		first = false;
		if (!write_points(geometry, head))
			return false;
	}
	put(geometry, "]", ")");
	return true;
}

static bool write_body(Geometry *geometry, const GeometryHead *head, int depth);
static bool write_geometry(Geometry *geometry, const GeometryHead *outer, int depth);

static bool
skip_body(Geometry *geometry, const GeometryHead *head, int depth)
{
	GeometryOutput output = geometry->output;
	bool		read;

	geometry->output = OUTPUT_NONE;
	read = write_body(geometry, head, depth);
	geometry->output = output;
	return read;
}

/*
 * A member of a MULTI..., of whatever type: in JSON its coordinates, which a
 * collection does not have; in text those of a point, or a line's or polygon's
 * lists.
 */
static bool
write_member(Geometry *geometry, const GeometryHead *outer, int depth)
{
	GeometryHead head;

	if (depth > MAX_NESTING || !read_head(geometry, outer, &head))
		return false;
	if (geometry->output == OUTPUT_NONE)
		return write_body(geometry, &head, depth);
	if (geometry->output == OUTPUT_JSON)
	{
		if (head.type != GEOMETRY_COLLECTION)
			return write_body(geometry, &head, depth);
		put(geometry, "null", "");
		return skip_body(geometry, &head, depth);
	}
	if (outer->type != GEOMETRY_MULTI_POINT)
		return (head.type == GEOMETRY_LINE || head.type == GEOMETRY_POLYGON) &&
			write_body(geometry, &head, depth);
	if (head.type == GEOMETRY_POINT)
		return write_coordinates(geometry, &head, outer);
	put(geometry, "", "undefined undefined");
	put(geometry, "", outer->has_z ? " undefined" : "");
	put(geometry, "", outer->has_m ? " undefined" : "");
	return skip_body(geometry, &head, depth);
}

static bool
write_members(Geometry *geometry, const GeometryHead *head, int depth)
{
	uint32_t	count;

	if (!read_u32(geometry, head->little_endian, &count))
		return false;
	put(geometry, "[", "(");
	for (uint32_t i = 0; i < count; i++)
	{
		put(geometry, i == 0 ? "" : ",", i == 0 ? "" : ",");
		if (!(head->type == GEOMETRY_COLLECTION ? write_geometry(geometry, head, depth + 1) :
			  write_member(geometry, head, depth + 1)))
			return false;
	}
	put(geometry, "]", ")");
	return true;
}

static bool
write_body(Geometry *geometry, const GeometryHead *head, int depth)
{
	switch (head->type)
	{
		case GEOMETRY_POINT:
			put(geometry, "[", "(");
			if (!write_coordinates(geometry, head, head))
				return false;
			put(geometry, "]", ")");
			return true;
		case GEOMETRY_LINE:
			return write_points(geometry, head);
		case GEOMETRY_POLYGON:
			return write_polygon(geometry, head);
		default:
			return write_members(geometry, head, depth);
	}
}

/* whether the body, which comes next, holds nothing: for text */
static bool
body_is_empty(const Geometry *geometry, const GeometryHead *head)
{
	Geometry	peek = *geometry;
	uint32_t	count;

	if (head->type == GEOMETRY_POINT)
		return false;
	if (head->type != GEOMETRY_POLYGON || nothing_follows(geometry, head))
		return nothing_follows(geometry, head);
	return read_u32(&peek, head->little_endian, &count) && nothing_follows(&peek, head);
}

static bool
write_geometry(Geometry *geometry, const GeometryHead *outer, int depth)
{
	GeometryHead head;

	if (depth > MAX_NESTING || !read_head(geometry, outer, &head))
		return false;
	put(geometry, "{\"type\":\"", "");
	put(geometry, type_names[head.type].json, type_names[head.type].text);
	put(geometry, head.type == GEOMETRY_COLLECTION ? "\",\"geometries\":" : "\",\"coordinates\":",
		head.has_z && head.has_m ? " ZM " : head.has_z ? " Z " : head.has_m ? " M " : "");
	if (geometry->output == OUTPUT_TEXT && body_is_empty(geometry, &head))
	{
		put(geometry, "", head.has_z || head.has_m ? "EMPTY" : " EMPTY");
		return skip_body(geometry, &head, depth);
	}
	if (!write_body(geometry, &head, depth))
		return false;
	put(geometry, "}", "");
	return true;
}

/* ---------------------------------------------------------------- arguments */

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
geometry_init(Geometry *geometry, SyncValue value, GeometryOutput output, SyncArena *arena,
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
	geometry->output = output;
	if (output != OUTPUT_NONE)
		buffer_init(&geometry->out, arena, bytes.len + 64);
}

static bool
geometry_fail(ExprContext *context)
{
	sync_error_set(context->error, SYNC_ERROR_VALUE, "the value is not a geometry");
	return false;
}

static bool
geometry_as(ExprContext *context, const SyncValue *args, GeometryOutput output, SyncValue *result)
{
	Geometry	geometry;
	bool		is_geometry;

	*result = value_null();
	geometry_init(&geometry, args[0], output, context->arena, &is_geometry);
	if (!is_geometry)
		return true;
	if (!write_geometry(&geometry, NULL, 0))
		return geometry_fail(context);
	*result = value_text(geometry.out.data, geometry.out.len);
	return true;
}

bool
function_st_asgeojson(ExprContext *context, int arg_count, const SyncValue *args,
					  SyncValue *result)
{
	(void) arg_count;
	return geometry_as(context, args, OUTPUT_JSON, result);
}

bool
function_st_astext(ExprContext *context, int arg_count, const SyncValue *args, SyncValue *result)
{
	(void) arg_count;
	return geometry_as(context, args, OUTPUT_TEXT, result);
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
	geometry_init(&geometry, value, OUTPUT_NONE, context->arena, &is_geometry);
	if (!is_geometry)
		return true;
	whole = geometry;
	if (!write_geometry(&whole, NULL, 0) || !read_head(&geometry, NULL, &head))
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
