/*
 * session_state.h - what the files of the session share. Private.
 *
 * Wants live in pieces of PIECE_WANTS that never move and are found by id in
 * an open hash table of indices. A want is on one list at a time (queued or
 * starved) or on none; each copy of it in flight is on its peer's list, in
 * the order of sending. A copy's reference is 2 * want + copy.
 *
 *          queued --assign--> flying --block--> (released)
 *            ^  ^               | | overdue: queued again, its copy kept
 *            |  +---------------+ | missing: marked, queued again
 *            +--- starved <-------+ nobody left to ask
 */
#ifndef RECONNECT_SESSION_STATE_H
#define RECONNECT_SESSION_STATE_H

#include "reconnect/session.h"

enum {
    PIECE_WANTS = 1024,         /* wants allocated together */
    INLINE_MARKS = 2,           /* peers known to lack it, kept in the want itself */
    NODE_MARKS = 7,             /* and in each node of its chain */
    NOTES_MAX = 65536,          /* cancels and questions waiting to be sent */
    SERVICE_FIRST_NS = 4000000, /* for each want ahead, until measured: spreads the first */
    HISTORY = 64,               /* answers that the have-rate looks back on */
    WINDOW_FIRST = 32,          /* wants in flight at a peer not yet measured */
    WINDOW_UNKNOWN = 16,        /* the same where not even its latency is known */
    USEFUL_US = 200000,         /* of work that a peer has before it, at most */
    RUN_WANTS = 8,              /* adjacent wants that go to one peer */
    RUN_BYTES = 32 << 10,       /* unless they are larger than this together */
    MISSES_MAX = 64,            /* wants that one round may pass over */
    MOVES_MAX = 256,            /* wants that one round may take from slow peers */
    PAUSE_US = 100000,          /* longer without a block is no pace */
    PACE_STRETCH_US = 20000,    /* over which the pace is taken */
    PROBE_FIRST = 4,            /* peers asked at once whether they have a want */
    RETRIES_PER_TICK = 4,       /* starved wants tried again at one time */
};

#define NONE UINT32_MAX
#define NEVER INT64_MAX

/* Where a want is. Flying wants are on no list of their own. */
enum want_place { PLACE_FREE, PLACE_QUEUED, PLACE_FLYING, PLACE_STARVED };

struct copy {
    int64_t sent_us;
    int64_t due_us;      /* look whether it is overdue then */
    int64_t expected_us; /* when it should be here */
    uint32_t next, prev; /* on its peer's list */
    uint32_t wait_us;    /* what it is given to come, counted from sent_us */
    session_peer peer;   /* SESSION_NO_PEER: this copy is free */
    uint16_t ahead;      /* wants before it at the peer when it was sent */
};

struct want {
    uint8_t id[SESSION_ID_SIZE];
    uint64_t tag;
    struct copy copies[SESSION_COPIES_MAX];
    uint32_t next, prev; /* on its list, or on the free list */
    uint32_t marks[INLINE_MARKS];
    uint32_t chain; /* further marks, or NONE */
    uint16_t mark_count;
    session_peer holder; /* said that it has it, or SESSION_NO_PEER */
    uint8_t place;
    uint8_t tries;  /* times it was sent again, caps the doubling of waits */
    uint8_t probes; /* groups of peers asked whether they have it */
    bool starved;   /* nobody had it before, too */
};

/* A peer that lacks a want: its slot and its joining number. */
struct mark_node {
    uint32_t next;
    uint32_t marks[NODE_MARKS];
};

struct list {
    uint32_t first, last, count;
};

/* A cancel or a question, waiting to be sent; also the requests of 2018. */
struct note {
    uint8_t id[SESSION_ID_SIZE];
    uint64_t tag;
    uint32_t next;
    uint32_t op;
};

struct peer {
    uint64_t name;
    bool used, connected, banned, rtt_known, holds_all;
    bool measured;    /* it has answered, so its service time is not just a guess */
    uint16_t joining; /* counts its connections, for marks to lapse */
    uint8_t *filter;  /* what it holds, or NULL */
    size_t filter_size;
    int64_t rtt_us;       /* least wait for an answer, smoothed; a guess until known */
    int64_t rtt_least_us; /* of all so far: without the queues that we cause */
    int64_t deviation_us;
    int64_t service_ns; /* more for each want ahead, smoothed */
    int64_t last_us;    /* of the last answer, or of joining */
    int64_t left_us;
    uint32_t window;
    uint32_t strikes; /* timeouts since the last answer */
    uint64_t history; /* bit set: had it */
    uint32_t history_count;
    uint64_t owed; /* answers that may still come for copies taken back */
    struct list copies;
    int64_t next_due_us; /* no copy is overdue before this */
    uint32_t unsent;     /* first copy not yet handed out, or NONE */
    struct list notes;
    bool in_outbox;
    session_peer outbox_next;
    session_peer_figures figures;
};

struct session_machine {
    session_config config;
    const struct session_rules *rules;
    void *rules_state;

    struct want **pieces;
    uint32_t piece_count, want_high; /* wants ever used: the rest is untouched */
    uint32_t free_want, want_count;
    uint32_t *table; /* want + 1, or 0 */
    uint32_t table_mask;

    struct mark_node *nodes;
    uint32_t node_count, node_high, free_node;

    struct note *notes;
    uint32_t note_count, note_high, free_note;

    struct list queued, starved;
    struct peer *peers;
    uint32_t peer_count, connected_count;
    uint32_t *candidates; /* peers with room, while assigning */
    session_peer outbox_first, outbox_last;

    bool changed;   /* something happened since the last round of assigning */
    bool work_left; /* a round stopped at its limit */
    int64_t need_peers_us, need_pause_us; /* when to ask for peers, then how long to wait */
    int64_t retry_us, retry_pause_us;     /* the same for starved wants */
    int64_t end_game_us, planned_us;
    uint32_t passed_over;    /* queued wants nobody had room for, since the last event */
    int64_t service_ns;      /* of all peers together: what to expect of a new one */
    int64_t block_size;      /* smoothed */
    int64_t block_us;        /* of the last block */
    int64_t gap_ns, pace_us; /* between two blocks; when counting began */
    int64_t pace_blocks;
    uint64_t random;

    size_t entries_max; /* in one action */
    session_entry entries[SESSION_ENTRIES_MAX];
    uint8_t sent_ids[SESSION_ENTRIES_MAX][SESSION_ID_SIZE];
    session_figures figures;
};

/* What sets the modes apart. */
struct session_rules {
    kv_code (*init)(session_machine *session, kv_status *status); /* may be NULL */
    void (*clear)(session_machine *session);                      /* may be NULL */
    void (*joined)(session_machine *session, int64_t now_us, struct peer *peer);
    void (*left)(session_machine *session, int64_t now_us, struct peer *peer);
    void (*wanted)(session_machine *session, int64_t now_us, size_t count);
    /* `index` is still in the table and about to be released. */
    void (*delivered)(session_machine *session, int64_t now_us, struct peer *from,
                      uint32_t index);
    void (*cancelled)(session_machine *session, int64_t now_us, uint32_t index);
    void (*missing)(session_machine *session, int64_t now_us, struct peer *from,
                    uint32_t index);
    void (*have)(session_machine *session, int64_t now_us, struct peer *from, uint32_t index);
    void (*duplicate)(session_machine *session, int64_t now_us, struct peer *from);
    void (*plan)(session_machine *session, int64_t now_us);
    int64_t (*wake_us)(const session_machine *session);
};

extern const struct session_rules session_default_rules;
extern const struct session_rules session_round1_rules;
extern const struct session_rules session_broadcast_rules;

/* ---- Wants (session_wants.c) -------------------------------------------- */

static inline struct want *want_at(const session_machine *session, uint32_t index)
{
    return &session->pieces[index / PIECE_WANTS][index % PIECE_WANTS];
}

uint32_t session_want_find(const session_machine *session, const uint8_t *id);
kv_code session_want_reserve(session_machine *session, size_t count, kv_status *status);
uint32_t session_want_add(session_machine *session, const session_request *request);
void session_want_release(session_machine *session, uint32_t index);

void session_list_append(session_machine *session, struct list *list, uint32_t index);
void session_list_prepend(session_machine *session, struct list *list, uint32_t index);
void session_list_remove(session_machine *session, struct list *list, uint32_t index);

/* Take a want off whichever list it is on, or put it on one. */
void session_want_place(session_machine *session, uint32_t index, enum want_place place,
                        bool first);

bool session_want_marked(const session_machine *session, const struct want *want,
                         const struct peer *peer);
void session_want_mark(session_machine *session, struct want *want, const struct peer *peer);
void session_want_unmark(session_machine *session, struct want *want, const struct peer *peer);
void session_want_unmark_all(session_machine *session, struct want *want);

/* ---- Peers (session_peers.c) -------------------------------------------- */

static inline session_peer peer_slot(const session_machine *session, const struct peer *peer)
{
    return (session_peer)(peer - session->peers);
}

/* How many of the last history_count answers were the block. */
static inline uint32_t recently_had(const struct peer *peer)
{
    uint64_t recent = peer->history;

    if (peer->history_count < HISTORY)
        recent &= (1ull << peer->history_count) - 1;
    return (uint32_t)__builtin_popcountll(recent);
}

struct peer *session_peer_at(session_machine *session, session_peer peer);

/* Note down something to be sent to `peer`; lost, which is harmless for a cancel,
 * when NOTES_MAX are waiting. */
void session_note(session_machine *session, struct peer *peer, session_op op,
                  const struct want *want);
void session_notes_drop(session_machine *session, struct peer *peer);
void session_outbox_add(session_machine *session, struct peer *peer);

/* Put copy `which` of a want in flight at `peer`, or take it off without a word. */
void session_copy_start(session_machine *session, uint32_t index, uint32_t which,
                        struct peer *peer, int64_t now_us);
void session_copy_stop(session_machine *session, uint32_t reference);

int64_t session_backlog_us(const session_machine *session);

/* Learn from an answer that came for a copy. */
void session_peer_learn(session_machine *session, struct peer *peer, const struct copy *copy,
                        int64_t now_us);
void session_peer_remember(struct peer *peer, bool had_it);

#endif /* RECONNECT_SESSION_STATE_H */
