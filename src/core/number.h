/*-------------------------------------------------------------------------
 *
 * number.h
 *	  Numbers to text and back, by ECMAScript's rules and in no locale.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGSYNC_NUMBER_H
#define PGSYNC_NUMBER_H

#include "core.h"

/* room for any text number_to_text() and number_to_json() make; no NUL is added */
#define NUMBER_TEXT_LEN 32

/*
 * ECMAScript Number-to-string (sync-rules.md, 5.2): shortest digits that read
 * back as the same double, "1e+21" from 1e21 on, "1e-7" below 1e-6; "0" for -0;
 * "NaN", "Infinity", "-Infinity".  Returns the length.
 */
extern size_t number_to_text(double value, char text[NUMBER_TEXT_LEN]);

/* the same, and ".0" behind a text of nothing but digits and sign (8.2) */
extern size_t number_to_json(double value, char text[NUMBER_TEXT_LEN]);

/* a decimal number found at the beginning of a text */
typedef struct DecimalPrefix
{
	size_t		len;			/* bytes it takes; 0 = there is none */
	size_t		start;			/* where the sign or first digit is */
	bool		is_integer;		/* neither point nor exponent */
} DecimalPrefix;

/*
 * Finds [space][sign](digits[.digits*]|.digits)[e[sign]digits] at the beginning
 * of s (5.7); space is JavaScript's.
 */
extern DecimalPrefix number_scan(const char *s, size_t len);

/*
 * The double nearest to a decimal number in the form that number_scan()
 * accepts, without the space.  Too large: infinity.
 */
extern double number_parse(const char *s, size_t len);

/* JavaScript's parseFloat, with 0 for no number (5.7, CAST AS real) */
extern double number_parse_float(const char *s, size_t len);

/* JavaScript's parseInt is neither NaN nor zero (5.3) */
extern bool number_parse_int_truth(const char *s, size_t len);

/*
 * An INTEGER or BIGINT from [sign]digits of any length; leading zeros are
 * allowed.  A BIGINT's digits are in arena.
 */
extern SyncValue integer_from_digits(const char *s, size_t len, SyncArena *arena);

/* the integral double as INTEGER or BIGINT, exactly; value must be finite and integral */
extern SyncValue integer_from_double(double value, SyncArena *arena);

/* the double nearest to an INTEGER or BIGINT */
extern double integer_to_double(SyncValue value);

/* <0, 0, >0; both INTEGER or BIGINT */
extern int	integer_compare(SyncValue a, SyncValue b);

/* <0, 0, >0: exact; a INTEGER or BIGINT, b not NaN */
extern int	integer_compare_double(SyncValue a, double b);

/* low 64 bits in two's complement: what a BSON int64 keeps of an INTEGER or BIGINT */
extern int64_t integer_low_bits(SyncValue value);

/*
 * a + b, a - b, a * b, a / b (toward zero); op is the operator's character,
 * both are INTEGER or BIGINT, b is not zero in a division.  False with
 * SYNC_ERROR_LIMIT when an operand has more than INTEGER_MAX_DIGITS digits.
 */
#define INTEGER_MAX_DIGITS	10000
extern bool integer_arithmetic(char op, SyncValue a, SyncValue b, SyncArena *arena,
							   SyncValue *result, SyncError *error);

#endif							/* PGSYNC_NUMBER_H */
