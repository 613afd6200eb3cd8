/*-------------------------------------------------------------------------
 *
 * datetime.c
 *	  unixepoch() and datetime(): sync-rules.md, 6.4.
 *
 * The service reads text with JavaScript's Date, which accepts almost
 * anything.  Here the ISO forms, and what is like them, are read as it reads
 * them; all else (names of months, slashes) is NULL.
 * Nothing depends on a time zone or locale of the process.
 *
 *-------------------------------------------------------------------------
 */
#include <math.h>
#include <string.h>

#include "functions.h"
#include "number.h"

#define MS_PER_DAY		INT64_C(86400000)
#define MS_MAX			8.64e15	/* what a Date can hold, to both sides of 1970 */
#define JULIAN_EPOCH	2440587.5	/* 1970-01-01 as a Julian day */

/* ---------------------------------------------------------------- calendar */

/* days from 1970-01-01 to a day of the proleptic Gregorian calendar; month from 1 */
static int64_t
days_from_date(int64_t year, int month, int day)
{
	int64_t		y = month > 2 ? year : year - 1;
	int64_t		era = (y >= 0 ? y : y - 399) / 400;
	int64_t		year_of_era = y - era * 400;
	int64_t		day_of_year = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1;

	return era * 146097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year -
		719468;
}

static void
date_from_days(int64_t days, int64_t *year, int *month, int *day)
{
	int64_t		z = days + 719468;
	int64_t		era = (z >= 0 ? z : z - 146096) / 146097;
	int64_t		day_of_era = z - era * 146097;
	int64_t		year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36524 -
							   day_of_era / 146096) / 365;
	int64_t		day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 -
											year_of_era / 100);
	int64_t		m = (5 * day_of_year + 2) / 153;

	*day = (int) (day_of_year - (153 * m + 2) / 5 + 1);
	*month = (int) (m < 10 ? m + 3 : m - 9);
	*year = year_of_era + era * 400 + (*month <= 2);
}

/* ---------------------------------------------------------------- reading */

typedef struct Scanner
{
	const char *at;
	const char *end;
} Scanner;

static bool
scan_char(Scanner *scanner, char c)
{
	if (scanner->at == scanner->end || *scanner->at != c)
		return false;
	scanner->at++;
	return true;
}

/* exactly `count` digits, of a value from low to high */
static bool
scan_digits(Scanner *scanner, int count, int low, int high, int *value)
{
	*value = 0;
	if (scanner->end - scanner->at < count)
		return false;
	for (int i = 0; i < count; i++)
	{
		char		c = *scanner->at++;

		if (c < '0' || c > '9')
			return false;
		*value = *value * 10 + (c - '0');
	}
	return *value >= low && *value <= high;
}

/* YYYY, or a sign and six digits */
static bool
scan_year(Scanner *scanner, int *year, bool *has_sign)
{
	bool		negative;

	*has_sign = scanner->at < scanner->end && (*scanner->at == '+' || *scanner->at == '-');
	if (!*has_sign)
		return scan_digits(scanner, 4, 0, 9999, year);
	negative = *scanner->at++ == '-';
	if (!scan_digits(scanner, 6, 0, 999999, year) || (negative && *year == 0))
		return false;
	if (negative)
		*year = -*year;
	return true;
}

/* hh:mm[:ss[.f...]]; milliseconds are cut, not rounded */
static bool
scan_time(Scanner *scanner, int64_t *ms)
{
	int			hour;
	int			minute;
	int			second = 0;
	int			millisecond = 0;
	int			scale = 100;

	if (!scan_digits(scanner, 2, 0, 24, &hour) || !scan_char(scanner, ':') ||
		!scan_digits(scanner, 2, 0, 59, &minute))
		return false;
	if (scan_char(scanner, ':'))
	{
		if (!scan_digits(scanner, 2, 0, 59, &second))
			return false;
		if (scan_char(scanner, '.'))
		{
			const char *start = scanner->at;

			for (; scanner->at < scanner->end && *scanner->at >= '0' && *scanner->at <= '9';
				 scanner->at++, scale /= 10)
				millisecond += (*scanner->at - '0') * scale;
			if (scanner->at == start)
				return false;
		}
	}
	if (hour == 24 && (minute != 0 || second != 0 || millisecond != 0))
		return false;
	*ms = ((hour * INT64_C(60) + minute) * 60 + second) * 1000 + millisecond;
	return true;
}

/* Z, nothing (UTC as well), or +hh:mm */
static bool
scan_zone(Scanner *scanner, int64_t *offset_ms)
{
	bool		negative;
	int			hour;
	int			minute;

	*offset_ms = 0;
	if (scanner->at == scanner->end || scan_char(scanner, 'Z') || scan_char(scanner, 'z'))
		return true;
	negative = *scanner->at == '-';
	if (!scan_char(scanner, '-') && !scan_char(scanner, '+'))
		return false;
	if (!scan_digits(scanner, 2, 0, 23, &hour) || !scan_char(scanner, ':') ||
		!scan_digits(scanner, 2, 0, 59, &minute))
		return false;
	*offset_ms = (hour * INT64_C(60) + minute) * 60000 * (negative ? -1 : 1);
	return true;
}

/* YYYY-MM-DDThh:mm... */
static bool
parse_strict(Scanner scanner, double *result)
{
	int			year;
	int			month;
	int			day;
	bool		has_sign;
	int64_t		time_ms;
	int64_t		offset_ms;

	if (!scan_year(&scanner, &year, &has_sign) || !scan_char(&scanner, '-') ||
		!scan_digits(&scanner, 2, 1, 12, &month) || !scan_char(&scanner, '-') ||
		!scan_digits(&scanner, 2, 1, 31, &day) ||
		(!scan_char(&scanner, 'T') && !scan_char(&scanner, 't')) ||
		!scan_time(&scanner, &time_ms) || !scan_zone(&scanner, &offset_ms) ||
		scanner.at != scanner.end)
		return false;
	*result = (double) (days_from_date(year, month, day) * MS_PER_DAY + time_ms - offset_ms);
	return true;
}

static bool
scan_number(Scanner *scanner, int min_digits, int max_digits, int low, int high, int *value)
{
	int			count = 0;

	while (count < max_digits && scanner->at + count < scanner->end &&
		   scanner->at[count] >= '0' && scanner->at[count] <= '9')
		count++;
	return count >= min_digits && scan_digits(scanner, count, low, high, value);
}

static void
scan_blanks(Scanner *scanner)
{
	while (scan_char(scanner, ' '))
		;
}

/* an offset without minutes, as PostgreSQL writes +02, counts for nothing */
static bool
scan_short_zone(Scanner *scanner)
{
	const char *start = scanner->at;
	int			digits;

	if ((scan_char(scanner, '+') || scan_char(scanner, '-')) &&
		scan_number(scanner, 1, 4, 0, 9999, &digits) && scanner->at - start != 4 &&
		(scanner->at == scanner->end || *scanner->at == ' '))
		return true;
	scanner->at = start;
	return false;
}

/*
 * What the service reads in a lenient way: YYYY-MM[-DD], with or without zeros
 * before, and hh:mm... behind a blank.  Years below 100 are 1950 to 2049, and the
 * days of a month may go on in the next one.
 */
static bool
parse_lenient(Scanner scanner, double *result)
{
	int			year;
	int			month;
	int			day = 1;
	bool		has_day;
	bool		has_time = false;
	int64_t		time_ms = 0;
	int64_t		offset_ms = 0;
	const char *date_end;

	scan_blanks(&scanner);
	if (!scan_number(&scanner, 4, 6, 0, 999999, &year) || !scan_char(&scanner, '-') ||
		!scan_number(&scanner, 1, 2, 1, 12, &month))
		return false;
	has_day = scan_char(&scanner, '-');
	if (has_day && !scan_number(&scanner, 1, 2, 1, 31, &day))
		return false;
	date_end = scanner.at;
	scan_blanks(&scanner);
	if (scanner.at > date_end && scanner.at < scanner.end && *scanner.at >= '0' &&
		*scanner.at <= '9')
	{
		has_time = true;
		if (!scan_time(&scanner, &time_ms))
			return false;
		scan_blanks(&scanner);
	}
	/* a day with an offset, but without a time, is none */
	if ((!has_time || !scan_short_zone(&scanner)) && !scan_zone(&scanner, &offset_ms))
		return false;
	if (!has_time && offset_ms != 0)
		return false;
	scan_blanks(&scanner);
	if (scanner.at != scanner.end)
		return false;
	/* what can be a day at the first place is none of a year: month, day, year */
	if (year >= 1 && year <= 31)
	{
		int			first = year;

		year = has_day ? day : 2001;
		day = month;
		month = first;
		if (month > 12)
			return false;
	}
	if (year < 100)
		year += year < 50 ? 2000 : 1900;
	*result = (double) (days_from_date(year, month, day) * MS_PER_DAY + time_ms - offset_ms);
	return true;
}

static bool
parse_date_text(SyncString text, double *result)
{
	Scanner		scanner = {text.data, text.data + text.len};

	return parse_strict(scanner, result) || parse_lenient(scanner, result);
}

/* factor by factor: one multiplication rounds otherwise, which the cut shows */
static double
ms_from_julian(double days)
{
	return trunc((days - JULIAN_EPOCH) * 24 * 60 * 60 * 1000);
}

/* digits, with digits behind a point */
static bool
is_plain_number(SyncString text)
{
	uint32_t	i = 0;

	while (i < text.len && text.data[i] >= '0' && text.data[i] <= '9')
		i++;
	if (i == 0)
		return false;
	if (i < text.len && text.data[i] == '.')
	{
		for (i++; i < text.len && text.data[i] >= '0' && text.data[i] <= '9';)
			i++;
	}
	return i == text.len;
}

/* milliseconds since 1970; false: not a time */
static bool
instant_of(SyncValue value, bool unix_seconds, double *ms)
{
	SyncString	text = {value.data, value.len};
	double		number;

	switch (value.type)
	{
		case SYNC_INTEGER:
		case SYNC_BIGINT:
		case SYNC_REAL:
			number = value.type == SYNC_REAL ? value.real : integer_to_double(value);
			*ms = unix_seconds ? trunc(number * 1000) : ms_from_julian(number);
			break;
		case SYNC_TEXT:
			if (is_plain_number(text))
				*ms = ms_from_julian(number_parse(text.data, text.len));
			else if (!parse_date_text(text, ms))
				return false;
			break;
		default:
			return false;
	}
	return *ms >= -MS_MAX && *ms <= MS_MAX;
}

static bool
modifier_is(SyncValue value, const char *text)
{
	return value.type == SYNC_TEXT && value.len == strlen(text) &&
		memcmp(value.data, text, value.len) == 0;
}

/*
 * The arguments of both functions; false: the result is NULL.  A modifier that is
 * NULL is none, and ends them.
 */
static bool
read_arguments(int arg_count, const SyncValue *args, int64_t *ms, bool *subsecond)
{
	bool		unix_seconds = arg_count >= 2 && modifier_is(args[1], "unixepoch");
	int			next = unix_seconds ? 2 : 1;
	double		instant;

	*subsecond = false;
	if (arg_count > next && !value_is_null(args[next]))
	{
		if (!modifier_is(args[next], "subsec") && !modifier_is(args[next], "subsecond"))
			return false;
		*subsecond = true;
	}
	if (!instant_of(args[0], unix_seconds, &instant))
		return false;
	*ms = (int64_t) instant;
	return true;
}

/* ---------------------------------------------------------------- functions */

static int64_t
floor_divide(int64_t a, int64_t b)
{
	return a / b - (a % b < 0);
}

bool
function_unixepoch(ExprContext *context, int arg_count, const SyncValue *args, SyncValue *result)
{
	int64_t		ms;
	bool		subsecond;

	(void) context;
	if (!read_arguments(arg_count, args, &ms, &subsecond))
		*result = value_null();
	else if (subsecond)
		*result = value_real((double) ms / 1000);
	else
		*result = value_integer(floor_divide(ms, 1000));
	return true;
}

/* years beyond four digits have a sign and six digits; negative ones no padding */
static void
append_year(SyncBuffer *buffer, int64_t year)
{
	char		digits[8];
	int			width = year > 9999 ? 6 : 4;

	if (year < 0)
	{
		buffer_append_int(buffer, year);
		return;
	}
	if (year > 9999)
		buffer_append_char(buffer, '+');
	for (int i = width - 1; i >= 0; i--, year /= 10)
		digits[i] = (char) ('0' + year % 10);
	buffer_append(buffer, digits, (size_t) width);
}

static void
append_number(SyncBuffer *buffer, char separator, int width, int64_t value)
{
	char		digits[4];

	buffer_append_char(buffer, separator);
	for (int i = width - 1; i >= 0; i--, value /= 10)
		digits[i] = (char) ('0' + value % 10);
	buffer_append(buffer, digits, (size_t) width);
}

bool
function_datetime(ExprContext *context, int arg_count, const SyncValue *args, SyncValue *result)
{
	SyncBuffer	buffer;
	int64_t		ms;
	int64_t		days;
	int64_t		year;
	int			month;
	int			day;
	bool		subsecond;

	*result = value_null();
	if (!read_arguments(arg_count, args, &ms, &subsecond))
		return true;
	days = floor_divide(ms, MS_PER_DAY);
	ms -= days * MS_PER_DAY;
	date_from_days(days, &year, &month, &day);

	buffer_init(&buffer, context->arena, 32);
	append_year(&buffer, year);
	append_number(&buffer, '-', 2, month);
	append_number(&buffer, '-', 2, day);
	append_number(&buffer, ' ', 2, ms / 3600000);
	append_number(&buffer, ':', 2, ms / 60000 % 60);
	append_number(&buffer, ':', 2, ms / 1000 % 60);
	if (subsecond)
		append_number(&buffer, '.', 3, ms % 1000);
	*result = value_text(buffer.data, buffer.len);
	return true;
}
