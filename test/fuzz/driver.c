/*-------------------------------------------------------------------------
 *
 * driver.c
 *	  Runs a fuzz function without libFuzzer: replays a corpus, then blind
 *	  mutations of it.
 *
 *	  fuzz_NAME [-seconds=N] [-seed=N] [-runs=N] [-artifact=FILE] [-dict=FILE] FILE|FOLDER...
 *
 * Does not look at coverage, so it finds what is near the corpus; it needs no
 * compiler of its own.  The same seed and the same number of runs give the
 * same inputs.
 *
 *-------------------------------------------------------------------------
 */
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <sanitizer/common_interface_defs.h>

#include "fuzz.h"

#define INPUT_ROOM	8192
#define RUN_SECONDS 20			/* of CPU for one input: more is a finding */

typedef struct Input
{
	uint8_t    *data;
	size_t		size;
} Input;

static Input *inputs;
static size_t input_count;
static Input words[1000];
static size_t word_count;
static uint64_t random_state;
static const char *artifact = "crash-input";
static const uint8_t *current;
static size_t current_size;

static void
die(const char *what, const char *name)
{
	fprintf(stderr, "%s: %s\n", what, name);
	exit(2);
}

/* the input in hand, when the process dies over it */
static void
keep_current(void)
{
	FILE	   *file = fopen(artifact, "wb");

	if (file == NULL)
		return;
	fwrite(current, 1, current_size, file);
	fclose(file);
	fprintf(stderr, "input kept in %s\n", artifact);
}

static void
on_signal(int number)
{
	static const char message[] = "aborted, or one input took too long\n";

	if (write(2, message, sizeof(message) - 1) < 0)
		_exit(2);
	keep_current();
	signal(number, SIG_DFL);
	raise(number);
}

static void
run(const uint8_t *data, size_t size)
{
	/* of its own size, so that a read behind its end is found */
	uint8_t    *copy = malloc(size > 0 ? size : 1);
	const struct itimerval limit = {.it_value.tv_sec = RUN_SECONDS};

	if (copy == NULL)
		die("no memory", "input");
	if (size > 0)
		memcpy(copy, data, size);
	current = copy;
	current_size = size;
	setitimer(ITIMER_VIRTUAL, &limit, NULL);
	LLVMFuzzerTestOneInput(copy, size);
	free(copy);
}

/* ---------------------------------------------------------------- corpus */

static void
add_file(const char *name)
{
	FILE	   *file = fopen(name, "rb");
	Input		input = {0};
	long		size;

	if (file == NULL || fseek(file, 0, SEEK_END) != 0 || (size = ftell(file)) < 0)
		die("cannot read", name);
	rewind(file);
	input.size = (size_t) size;
	input.data = malloc(input.size + 1);
	inputs = realloc(inputs, sizeof(Input) * (input_count + 1));
	if (input.data == NULL || inputs == NULL || fread(input.data, 1, input.size, file) != input.size)
		die("cannot read", name);
	fclose(file);
	inputs[input_count++] = input;
}

static int
no_dot(const struct dirent *entry)
{
	return entry->d_name[0] != '.';
}

/* in the order of names, so that a seed means the same everywhere */
static void
add_path(const char *path)
{
	struct dirent **entries;
	int			count = scandir(path, &entries, no_dot, alphasort);

	if (count < 0)
	{
		add_file(path);
		return;
	}
	for (int i = 0; i < count; i++)
	{
		char		name[4096];

		snprintf(name, sizeof(name), "%s/%s", path, entries[i]->d_name);
		add_file(name);
		free(entries[i]);
	}
	free(entries);
}

/* libFuzzer's format: "word" with \\, \" and \xAB, one a line */
static void
add_dictionary(const char *name)
{
	FILE	   *file = fopen(name, "r");
	char		line[1000];

	if (file == NULL)
		die("cannot read", name);
	while (fgets(line, sizeof(line), file) != NULL && word_count < 1000)
	{
		const char *s = strchr(line, '"');
		const char *end = strrchr(line, '"');
		uint8_t    *data;
		size_t		size = 0;

		if (line[0] == '#' || s == NULL || end <= s)
			continue;
		data = malloc((size_t) (end - s));
		if (data == NULL)
			die("no memory", name);
		for (s++; s < end; s++)
		{
			unsigned int byte = (unsigned char) *s;

			if (*s == '\\' && s[1] == 'x' && sscanf(s + 2, "%2x", &byte) == 1)
				s += 3;
			else if (*s == '\\')
				byte = (unsigned char) *++s;
			data[size++] = (uint8_t) byte;
		}
		words[word_count++] = (Input) {data, size};
	}
	fclose(file);
}

/* ---------------------------------------------------------------- mutations */

static size_t
pick(size_t n)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return n == 0 ? 0 : (size_t) (random_state >> 11) % n;
}

/* replaces `old` bytes at `at` by others */
static size_t
splice(uint8_t *data, size_t size, size_t at, size_t old, const uint8_t *with, size_t len)
{
	uint8_t		copy[INPUT_ROOM];

	if (size - old + len > INPUT_ROOM)
		return size;
	if (len > 0)
		memcpy(copy, with, len);
	memmove(data + at + len, data + at + old, size - at - old);
	memcpy(data + at, copy, len);
	return size - old + len;
}

static size_t
mutate(uint8_t *data, size_t size)
{
	static const uint8_t bytes[] = "\0\x01\x7F\x80\xFF\xED\n\t \"'()[]{},:.;-+*/<>=|0123456789";
	size_t		at = pick(size + 1);
	size_t		len = pick(size - at < 16 ? size - at + 1 : pick(8) == 0 ? size - at + 1 : 16);
	const Input *other = &inputs[pick(input_count)];
	size_t		from = pick(other->size + 1);
	uint8_t		byte = bytes[pick(sizeof(bytes) - 1)];

	switch (pick(8))
	{
		case 0:
			return splice(data, size, at, len, NULL, 0);
		case 1:
			return splice(data, size, at, 0, data + at, len);
		case 2:
			if (at < size)
				data[at] ^= (uint8_t) (1 << pick(8));
			return size;
		case 3:
			return splice(data, size, at, at < size, &byte, 1);
		case 4:
			return splice(data, size, at, 0, &byte, 1);
		case 5:
			return splice(data, size, at, len, other->data + from, pick(other->size - from + 1) % 256);
		default:
			if (word_count == 0)
				return size;
			other = &words[pick(word_count)];
			return splice(data, size, at, pick(2) ? len : 0, other->data, other->size);
	}
}

static const char *
option(const char *argument, const char *name)
{
	size_t		len = strlen(name);

	return strncmp(argument, name, len) == 0 ? argument + len : NULL;
}

int
main(int argc, char **argv)
{
	long		seconds = 0;
	unsigned long runs = 0;
	unsigned long done = 0;
	unsigned long seed = 1;
	const char *value;
	time_t		end;

	for (int i = 1; i < argc; i++)
	{
		if ((value = option(argv[i], "-seconds=")) != NULL)
			seconds = atol(value);
		else if ((value = option(argv[i], "-runs=")) != NULL)
			runs = strtoul(value, NULL, 10);
		else if ((value = option(argv[i], "-seed=")) != NULL)
			seed = strtoul(value, NULL, 10);
		else if ((value = option(argv[i], "-artifact=")) != NULL)
			artifact = value;
		else if ((value = option(argv[i], "-dict=")) != NULL)
			add_dictionary(value);
		else
			add_path(argv[i]);
	}
	if (input_count == 0)
		die("no input", argv[0]);
	random_state = (seed + 1) * UINT64_C(0x9E3779B97F4A7C15) | 1;
	__sanitizer_set_death_callback(keep_current);
	signal(SIGABRT, on_signal);
	signal(SIGVTALRM, on_signal);

	for (size_t i = 0; i < input_count; i++)
		run(inputs[i].data, inputs[i].size);
	end = time(NULL) + seconds;
	while (runs > 0 ? done < runs : time(NULL) < end)
	{
		static uint8_t data[INPUT_ROOM];
		const Input *base = &inputs[pick(input_count)];
		size_t		size = base->size < INPUT_ROOM ? base->size : INPUT_ROOM;

		memcpy(data, base->data, size);
		for (size_t n = 1 + pick(6); n > 0; n--)
			size = mutate(data, size);
		run(data, size);
		done++;
	}
	printf("replayed %zu, mutated %lu\n", input_count, done);
	return 0;
}
