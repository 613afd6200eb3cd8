/*-------------------------------------------------------------------------
 *
 * number.c
 *	  Numbers to text and back, by ECMAScript's rules and in no locale.
 *
 * Integers beyond 64 bits are in integer.c.
 *
 * Invariant: no function gives another result under another LC_NUMERIC.
 * Decimal text reaches strtod() only as digits and exponent, without the
 * radix character that a locale could change.
 *
 *-------------------------------------------------------------------------
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <common/shortest_dec.h>

#include "number.h"
#include "text.h"

/* 2^53: integers up to here are all doubles */
#define EXACT_INTEGERS	9007199254740992.0

/*
 * Digits of a double's integer part are exact to here; a decimal number is
 * decided by its first 768 significant digits and whether any digit follows.
 */
#define MAX_SIGNIFICANT 768

static inline bool
is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* ---------------------------------------------------------------- text of a number */

/* decimal digits d1 d2 ... dk; the value is 0.d1d2...dk times 10^point */
typedef struct Digits
{
	char		digit[20];
	int			count;
	int			point;
} Digits;

/* splits what shortest_dec.h prints for a positive number */
static void
digits_from_text(const char *text, int len, Digits *digits)
{
	int			before = -1;	/* digits before the point */
	int			exponent = 0;
	int			i;

	digits->count = 0;
	digits->point = 0;
	for (i = 0; i < len && text[i] != 'e'; i++)
	{
		if (text[i] == '.')
			before = digits->count;
		else if (text[i] != '0' || digits->count > 0)
			digits->digit[digits->count++] = text[i];
		else if (before >= 0)
			digits->point--;	/* a zero between the point and the first digit */
	}
	if (i < len)
	{
		bool		negative = text[i + 1] == '-';

		for (i += 2; i < len; i++)
			exponent = exponent * 10 + (text[i] - '0');
		if (negative)
			exponent = -exponent;
	}
	digits->point += (before >= 0 ? before : digits->count) + exponent;
	while (digits->count > 1 && digits->digit[digits->count - 1] == '0')
		digits->count--;
}

static double
digits_value(const Digits *digits)
{
	char		text[40];
	size_t		len = (size_t) digits->count;
	int			exponent = digits->point - digits->count;

	memcpy(text, digits->digit, len);
	text[len++] = 'e';
	if (exponent < 0)
	{
		text[len++] = '-';
		exponent = -exponent;
	}
	if (exponent >= 100)
		text[len++] = (char) ('0' + exponent / 100);
	text[len++] = (char) ('0' + exponent / 10 % 10);
	text[len++] = (char) ('0' + exponent % 10);
	text[len] = '\0';
	return strtod(text, NULL);
}

/*
 * PostgreSQL never prints the number exactly half way between two doubles,
 * even where it reads back as the right one and is shorter: it has
 * 9.999999999999999e+22 where ECMAScript has 1e+23.  Such a number can only
 * be the next longer one when the last digit is dropped upwards or downwards,
 * and only from 2^53 on: below, half way takes more digits than any double.
 */
static void
digits_shorten(Digits *digits, double value)
{
	Digits		shorter = *digits;

	if (digits->count < 2)
		return;
	shorter.count--;
	if (digits_value(&shorter) != value)
	{
		int			i = shorter.count - 1;

		while (i >= 0 && shorter.digit[i] == '9')
			i--;
		if (i >= 0)
		{
			shorter.digit[i]++;
			shorter.count = i + 1;
		}
		else
		{
			shorter.digit[0] = '1';
			shorter.count = 1;
			shorter.point++;
		}
		if (digits_value(&shorter) != value)
			return;
	}
	while (shorter.count > 1 && shorter.digit[shorter.count - 1] == '0')
		shorter.count--;
	*digits = shorter;
}

/* ECMA-262, Number::toString with radix 10, for a positive finite number */
static size_t
digits_to_text(const Digits *digits, char *text)
{
	char	   *out = text;
	int			exponent = digits->point - 1;

	if (digits->point > 21 || digits->point <= -6)
	{
		*out++ = digits->digit[0];
		if (digits->count > 1)
		{
			*out++ = '.';
			memcpy(out, digits->digit + 1, (size_t) digits->count - 1);
			out += digits->count - 1;
		}
		*out++ = 'e';
		*out++ = exponent < 0 ? '-' : '+';
		exponent = abs(exponent);
		if (exponent >= 100)
			*out++ = (char) ('0' + exponent / 100);
		if (exponent >= 10)
			*out++ = (char) ('0' + exponent / 10 % 10);
		*out++ = (char) ('0' + exponent % 10);
	}
	else if (digits->point <= 0)
	{
		*out++ = '0';
		*out++ = '.';
		memset(out, '0', (size_t) -digits->point);
		out += -digits->point;
		memcpy(out, digits->digit, (size_t) digits->count);
		out += digits->count;
	}
	else
	{
		for (int i = 0; i < digits->count || i < digits->point; i++)
		{
			if (i == digits->point)
				*out++ = '.';
			*out++ = i < digits->count ? digits->digit[i] : '0';
		}
	}
	return (size_t) (out - text);
}

static size_t
small_integer_to_text(int64_t value, char *text)
{
	uint64_t	rest = value < 0 ? 0 - (uint64_t) value : (uint64_t) value;
	char		reversed[20];
	size_t		n = 0;
	size_t		len = 0;

	do
	{
		reversed[n++] = (char) ('0' + rest % 10);
		rest /= 10;
	} while (rest > 0);
	if (value < 0)
		text[len++] = '-';
	while (n > 0)
		text[len++] = reversed[--n];
	return len;
}

size_t
number_to_text(double value, char text[NUMBER_TEXT_LEN])
{
	char		shortest[DOUBLE_SHORTEST_DECIMAL_LEN];
	Digits		digits;
	size_t		sign = 0;

	if (fabs(value) < EXACT_INTEGERS && value == (double) (int64_t) value)
		return small_integer_to_text((int64_t) value, text);
	if (isnan(value))
	{
		memcpy(text, "NaN", 3);
		return 3;
	}
	if (value < 0)
	{
		text[sign++] = '-';
		value = -value;
	}
	if (isinf(value))
	{
		memcpy(text + sign, "Infinity", 8);
		return sign + 8;
	}
	digits_from_text(shortest, double_to_shortest_decimal_bufn(value, shortest), &digits);
	if (value >= EXACT_INTEGERS)
		digits_shorten(&digits, value);
	return sign + digits_to_text(&digits, text + sign);
}

size_t
number_to_json(double value, char text[NUMBER_TEXT_LEN])
{
	size_t		len = number_to_text(value, text);

	for (size_t i = text[0] == '-' ? 1 : 0; i < len; i++)
		if (!is_digit(text[i]))
			return len;
	memcpy(text + len, ".0", 2);
	return len + 2;
}

/* ---------------------------------------------------------------- number of a text */

DecimalPrefix
number_scan(const char *s, size_t len)
{
	DecimalPrefix result = {.is_integer = true};
	size_t		i = text_skip_space(s, len);
	size_t		first;
	size_t		digits;

	result.start = i;
	if (i < len && (s[i] == '+' || s[i] == '-'))
		i++;
	for (first = i; i < len && is_digit(s[i]); i++)
		;
	digits = i - first;
	if (i < len && s[i] == '.' && (digits > 0 || (i + 1 < len && is_digit(s[i + 1]))))
	{
		result.is_integer = false;
		for (i++; i < len && is_digit(s[i]); i++)
			digits++;
	}
	if (digits == 0 && result.is_integer)
		return (DecimalPrefix) {.len = 0};
	if (i < len && (s[i] == 'e' || s[i] == 'E'))
	{
		size_t		j = i + 1;

		if (j < len && (s[j] == '+' || s[j] == '-'))
			j++;
		if (j < len && is_digit(s[j]))
		{
			result.is_integer = false;
			for (i = j; i < len && is_digit(s[i]); i++)
				;
		}
	}
	result.len = i;
	return result;
}

/* what a decimal number is made of */
typedef struct Decimal
{
	bool		negative;
	int			count;			/* significant digits kept */
	bool		more;			/* a digit left out is not zero */
	int64_t		exponent;		/* of the last digit kept */
	uint64_t	mantissa;		/* the digits, while count <= 19 */
	char		digits[MAX_SIGNIFICANT + 32];
} Decimal;

static void
decimal_read(const char *s, size_t len, Decimal *decimal)
{
	size_t		i = 0;
	bool		point = false;

	decimal->negative = false;
	decimal->count = 0;
	decimal->more = false;
	decimal->exponent = 0;
	decimal->mantissa = 0;
	if (i < len && (s[i] == '+' || s[i] == '-'))
		decimal->negative = s[i++] == '-';

	for (; i < len && (s[i] == '.' || is_digit(s[i])); i++)
	{
		if (s[i] == '.')
		{
			point = true;
			continue;
		}
		if (decimal->count < MAX_SIGNIFICANT)
		{
			if (s[i] != '0' || decimal->count > 0)
			{
				decimal->digits[decimal->count++] = s[i];
				decimal->mantissa = decimal->mantissa * 10 + (uint64_t) (s[i] - '0');
			}
			if (point)
				decimal->exponent--;
		}
		else
		{
			decimal->more |= s[i] != '0';
			if (!point)
				decimal->exponent++;
		}
	}
	if (i < len)
	{
		int64_t		exponent = 0;
		bool		negative = false;

		i++;					/* e */
		if (i < len && (s[i] == '+' || s[i] == '-'))
			negative = s[i++] == '-';
		for (; i < len && is_digit(s[i]); i++)
			if (exponent < INT64_C(1000000000000))
				exponent = exponent * 10 + (s[i] - '0');
		decimal->exponent += negative ? -exponent : exponent;
	}
}

double
number_parse(const char *s, size_t len)
{
	static const double power[] = {
		1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11,
		1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22
	};
	Decimal		decimal;
	double		value;
	int			n;

	decimal_read(s, len, &decimal);
	n = decimal.count;
	if (n == 0)
		value = 0;
	else if (n <= 15 && decimal.exponent >= -22 && decimal.exponent <= 22)
	{
		/* two exact doubles and one rounding */
		value = (double) decimal.mantissa;
		if (decimal.exponent < 0)
			value /= power[-decimal.exponent];
		else
			value *= power[decimal.exponent];
	}
	else if (decimal.exponent + n > 400)
		value = HUGE_VAL;
	else if (decimal.exponent + n < -400)
		value = 0;
	else
	{
		char	   *text = decimal.digits;
		int			exponent = (int) decimal.exponent;
		char		reversed[8];
		int			k = 0;

		if (decimal.more)
		{
			text[n++] = '1';
			exponent--;
		}
		text[n++] = 'e';
		if (exponent < 0)
		{
			text[n++] = '-';
			exponent = -exponent;
		}
		do
		{
			reversed[k++] = (char) ('0' + exponent % 10);
			exponent /= 10;
		} while (exponent > 0);
		while (k > 0)
			text[n++] = reversed[--k];
		text[n] = '\0';
		value = strtod(text, NULL);
	}
	return decimal.negative ? -value : value;
}

double
number_parse_float(const char *s, size_t len)
{
	DecimalPrefix prefix = number_scan(s, len);
	size_t		i;
	bool		negative = false;

	if (prefix.len > 0)
		return number_parse(s + prefix.start, prefix.len - prefix.start);
	i = text_skip_space(s, len);
	if (i < len && (s[i] == '+' || s[i] == '-'))
		negative = s[i++] == '-';
	if (len - i >= 8 && memcmp(s + i, "Infinity", 8) == 0)
		return negative ? -HUGE_VAL : HUGE_VAL;
	return 0;
}

bool
number_parse_int_truth(const char *s, size_t len)
{
	size_t		i = text_skip_space(s, len);
	bool		hex = false;

	if (i < len && (s[i] == '+' || s[i] == '-'))
		i++;
	if (len - i >= 2 && s[i] == '0' && (s[i + 1] == 'x' || s[i + 1] == 'X'))
	{
		hex = true;
		i += 2;
	}
	for (; i < len && (is_digit(s[i]) || (hex && hex_digit(s[i]) >= 0)); i++)
		if (s[i] != '0')
			return true;
	return false;
}
