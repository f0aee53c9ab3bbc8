/*
 * session_rows.c - the rows of the table of 2018, and ours.
 *
 * Three rows are known as published (ipfs/go-bitswap pull request 27); of the
 * third the last time is cut off. For the other eighteen the three columns come
 * from an independent model of the same harness, which reproduced the published
 * duplicates exactly and the times within 12 percent.
 */
#include "bench/session_sim.h"

#include <string.h>

#define FIXED(seeds, count, place, order_)                                      \
    .peers = (seeds), .blocks = (count), .block_size = 3, .placement = (place), \
    .order = (order_)
#define REAL(net, limited)                                                                   \
    .peers = 299, .blocks = 200, .block_size = (limited) ? 8000 : 3, .placement = PLACE_ALL, \
    .order = ORDER_ALL, .network = (net), .bandwidth = (limited)

const struct sim_row sim_rows[] = {
    { .name = "AllToAll-OneAtATime",
      FIXED(2, 100, PLACE_ALL, ORDER_ONE_AT_A_TIME),
      .published = true,
      .master = { 1, 199, 101, 2202 },
      .jeremy = { 1, 200, 101, 2209 },
      .fresh = { 1, 198, 101, 2248 } },
    { .name = "AllToAll-BigBatch",
      FIXED(2, 100, PLACE_ALL, ORDER_ALL),
      .published = true,
      .master = { 16, 85, 60, 159 },
      .jeremy = { 4, 138, 85, 548 },
      .fresh = { 16, 145, 77, 163 } },
    { .name = "Overlap1-OneAtATime",
      FIXED(2, 100, PLACE_OVERLAP1, ORDER_ONE_AT_A_TIME),
      .published = true,
      .master = { 0, 251, 100, 2766 },
      .jeremy = { 0, 249, 100, 2788 },
      .fresh = { 0, 251, 100, -1 } },
    { .name = "Overlap2-BatchBy10",
      FIXED(2, 100, PLACE_OVERLAP3, ORDER_BY_10),
      .master = { 33, 216, 20, 202 },
      .jeremy = { 31, 214, 25, 823 },
      .fresh = { 32, 212, 22, 803 } },
    { .name = "Overlap3-OneAtATime",
      FIXED(2, 100, PLACE_OVERLAP3, ORDER_ONE_AT_A_TIME),
      .master = { 33, 393, 133, 2567 },
      .jeremy = { 31, 381, 131, 3687 },
      .fresh = { 33, 392, 133, 2567 } },
    { .name = "Overlap3-BatchBy10",
      FIXED(2, 100, PLACE_OVERLAP3, ORDER_BY_10),
      .master = { 33, 215, 20, 202 },
      .jeremy = { 31, 215, 26, 823 },
      .fresh = { 32, 213, 22, 803 } },
    { .name = "Overlap3-AllConcurrent",
      FIXED(2, 100, PLACE_OVERLAP3, ORDER_CONCURRENT),
      .master = { 33, 220, 128, 141 },
      .jeremy = { 31, 204, 128, 1121 },
      .fresh = { 23, 204, 93, 682 } },
    { .name = "Overlap3-BigBatch",
      FIXED(2, 100, PLACE_OVERLAP3, ORDER_ALL),
      .master = { 31, 201, 108, 741 },
      .jeremy = { 2, 183, 83, 5445 },
      .fresh = { 24, 201, 92, 701 } },
    { .name = "Overlap3-UnixfsFetch",
      FIXED(2, 100, PLACE_OVERLAP3, ORDER_UNIXFS),
      .master = { 30, 196, 102, 741 },
      .jeremy = { 1, 164, 48, 1943 },
      .fresh = { 31, 197, 81, 681 } },
    { .name = "10Nodes-AllToAll-OneAtATime",
      FIXED(9, 100, PLACE_ALL, ORDER_ONE_AT_A_TIME),
      .master = { 8, 210, 108, 2008 },
      .jeremy = { 8, 213, 108, 2008 },
      .fresh = { 8, 211, 108, 2008 } },
    { .name = "10Nodes-AllToAll-BatchFetchBy10",
      FIXED(9, 100, PLACE_ALL, ORDER_BY_10),
      .master = { 80, 193, 18, 202 },
      .jeremy = { 32, 147, 24, 242 },
      .fresh = { 32, 148, 19, 222 } },
    { .name = "10Nodes-AllToAll-BigBatch",
      FIXED(9, 100, PLACE_ALL, ORDER_ALL),
      .master = { 128, 231, 92, 141 },
      .jeremy = { 32, 140, 105, 502 },
      .fresh = { 32, 139, 76, 81 } },
    { .name = "10Nodes-AllToAll-AllConcurrent",
      FIXED(9, 100, PLACE_ALL, ORDER_CONCURRENT),
      .master = { 590, 817, 637, 141 },
      .jeremy = { 32, 227, 121, 502 },
      .fresh = { 33, 157, 94, 81 } },
    { .name = "10Nodes-AllToAll-UnixfsFetch",
      FIXED(9, 100, PLACE_ALL, ORDER_UNIXFS),
      .master = { 8, 118, 83, 161 },
      .jeremy = { 8, 117, 67, 101 },
      .fresh = { 8, 117, 66, 101 } },
    { .name = "10Nodes-OnePeerPerBlock-OneAtATime",
      FIXED(9, 100, PLACE_ONE_PEER, ORDER_ONE_AT_A_TIME),
      .master = { 0, 1700, 100, 6489 },
      .jeremy = { 0, 1655, 100, 9291 },
      .fresh = { 0, 1677, 100, 6489 } },
    { .name = "10Nodes-OnePeerPerBlock-BigBatch",
      FIXED(9, 100, PLACE_ONE_PEER, ORDER_ALL),
      .master = { 0, 852, 84, 902 },
      .jeremy = { 0, 1001, 86, 12428 },
      .fresh = { 0, 863, 67, 1262 } },
    { .name = "10Nodes-OnePeerPerBlock-UnixfsFetch",
      FIXED(9, 100, PLACE_ONE_PEER, ORDER_UNIXFS),
      .master = { 0, 785, 76, 1962 },
      .jeremy = { 0, 846, 39, 2423 },
      .fresh = { 0, 728, 54, 1322 } },
    { .name = "200Nodes-AllToAll-BigBatch",
      FIXED(199, 20, PLACE_ALL, ORDER_ALL),
      .master = { 3168, 3309, 203, 73 },
      .jeremy = { 792, 977, 215, 100 },
      .fresh = { 792, 994, 200, 40 } },
    { .name = "RealWorld-FastNetwork",
      REAL(NETWORK_FAST, false),
      .master = { 4768, -1, -1, 761 },
      .jeremy = { 1192, -1, -1, 4096 },
      .fresh = { 1192, -1, -1, 491 } },
    { .name = "RealWorld-AverageVariableSpeedNetwork",
      REAL(NETWORK_AVERAGE, false),
      .master = { 4256, -1, -1, 1256 },
      .jeremy = { 1192, -1, -1, 3227 },
      .fresh = { 600, -1, -1, 749 } },
    { .name = "RealWorld-SlowVariableSpeedNetwork",
      REAL(NETWORK_SLOW, false),
      .master = { 2368, -1, -1, 1101 },
      .jeremy = { 1072, -1, -1, 4547 },
      .fresh = { 584, -1, -1, 692 } },
    { .name = "RealWorld-FastNetwork-bandwidth",
      REAL(NETWORK_FAST, true),
      .master = { 4768, -1, -1, 1014 },
      .jeremy = { 1192, -1, -1, 2273 },
      .fresh = { 1192, -1, -1, 1447 } },
    { .name = "RealWorld-AverageVariableSpeedNetwork-bandwidth",
      REAL(NETWORK_AVERAGE, true),
      .master = { 4768, -1, -1, 2886 },
      .jeremy = { 1192, -1, -1, 3488 },
      .fresh = { 1192, -1, -1, 2742 } },
    { .name = "RealWorld-SlowVariableSpeedNetwork-bandwidth",
      REAL(NETWORK_SLOW, true),
      .master = { 4768, -1, -1, 11768 },
      .jeremy = { 1192, -1, -1, 13232 },
      .fresh = { 1192, -1, -1, 12988 } },
#define OURS \
    .master = { -1, -1, -1, -1 }, .jeremy = { -1, -1, -1, -1 }, .fresh = { -1, -1, -1, -1 }
    { .name = "Churn-9Peers-BigBatch",
      FIXED(9, 2000, PLACE_RANDOM, ORDER_ALL),
      .trouble = TROUBLE_CHURN,
      OURS },
    { .name = "Liar-9Peers-BigBatch",
      FIXED(9, 1000, PLACE_ALL, ORDER_ALL),
      .trouble = TROUBLE_LIAR,
      OURS },
    { .name = "SlowSoleHolder-9Peers-BigBatch",
      FIXED(9, 200, PLACE_LAST_PEER, ORDER_ALL),
      .trouble = TROUBLE_SLOW,
      OURS },
    { .name = "1000Peers-AllToAll-BigBatch", FIXED(1000, 2000, PLACE_ALL, ORDER_ALL), OURS },
};

const size_t sim_row_count = sizeof sim_rows / sizeof sim_rows[0];

const struct sim_row *sim_row_find(const char *name)
{
    for (size_t i = 0; i < sim_row_count; i++)
        if (strcmp(sim_rows[i].name, name) == 0)
            return &sim_rows[i];
    return NULL;
}

double sim_least(const struct sim_row *row, size_t offset)
{
    const struct sim_figures *columns[] = { &row->master, &row->jeremy, &row->fresh };
    double least = -1;

    for (size_t i = 0; i < 3; i++) {
        double figure = *(const double *)(const void *)((const char *)columns[i] + offset);

        if (figure >= 0 && (least < 0 || figure < least))
            least = figure;
    }
    return least;
}
