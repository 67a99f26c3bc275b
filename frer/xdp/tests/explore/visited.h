/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The set of states that were visited, by hash. The includer provides `fail`. */
#ifndef ONBEAT_EXPLORE_VISITED_H
#define ONBEAT_EXPLORE_VISITED_H

/* Hashes of visited states. */
static __u64 *visited;
static size_t visited_size, visited_count;

static bool visit(__u64 hash)
{
	size_t at;

	hash |= !hash;
	if (2 * visited_count >= visited_size) {
		__u64 *before = visited;
		size_t size = visited_size;

		visited_size = size ? 4 * size : 1 << 16;
		visited = calloc(visited_size, sizeof(*visited));
		if (!visited)
			fail("no memory for %zu states", visited_size);
		visited_count = 0;
		for (size_t i = 0; i < size; i++)
			if (before[i])
				visit(before[i]);
		free(before);
	}
	for (at = hash & (visited_size - 1); visited[at]; at = (at + 1) & (visited_size - 1))
		if (visited[at] == hash)
			return false;
	visited[at] = hash;
	visited_count++;
	return true;
}

#endif
