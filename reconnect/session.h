/*
 * session.h - one learner fetching content from many teachers, no block twice.
 *
 * A session is a state machine. It has no clock, no socket and no thread:
 * events go in with the time they happened, actions come out of session_poll,
 * and the same events give the same actions. What is fetched is named by a
 * 32-byte id and is opaque here: a page, a leaf list, a block.
 *
 *     session_new(&config, &session, &status)
 *     session_join(session, now_us, name, &hello, &peer, &status)
 *     session_want(session, now_us, wants, count, &status)
 *
 *     while (session_poll(session, now_us, &action))      after every event,
 *         send action.entries to action.peer              and at the time of
 *     set a timer for session_wake_us(session)            the last deadline
 *
 * When bytes arrive for an id, ask session_wanted first: if not wanted, do not
 * check them, only report them. If wanted, check them against the id and say
 * session_block when they are good, session_lie when they are not. Nothing of
 * a liar's answer may be stored; its wants go to others at once.
 *
 * What the default mode does:
 *
 *   - a want has one owner; a second copy is asked for only when the first is
 *     overdue or will clearly come late, and there are never more than two;
 *   - every peer has its own latency and service time, a window in wants and
 *     in bytes, a have-rate over its last 64 answers, and a record of silence;
 *   - runs of adjacent wants go to one peer in one message, so that siblings
 *     stay together;
 *   - a peer that does not have a block says so (session_missing) and the want
 *     moves to the next best at once; if it keeps happening others are asked
 *     whether they have it (SESSION_ASK_HAVE), in growing groups, never all;
 *   - a peer may say beforehand what it holds: everything, or a filter (see
 *     session_inventory). Then nobody is asked in vain;
 *   - a want nobody has waits, is tried again with a growing pause, and goes
 *     to any peer that joins in the meantime.
 *
 * Modes `broadcast` and `round1` are the algorithms of 2018 that this one is
 * measured against: the first sends each want to every peer that ever answered
 * (to all peers until one has), the second ranks peers by recency and splits
 * requests among groups of them. They expect no answer for what is missing and
 * keep no limits but their own, so they are for comparison only.
 *
 * Threads: a session belongs to one thread at a time, and shares nothing with
 * other sessions. No call waits, and none calls back but session_print its
 * `label`. Calls may be made between two polls of one round, session_leave and
 * session_lie included.
 *
 * Time: `now_us` is of any steady clock, the same for all calls, and must not
 * go back. It need not start at zero.
 *
 * Ownership: what is passed in is copied (config, ids, filters), what comes out
 * is the session's and holds until the next call on it. A tag is the caller's
 * number; a pointer in it is neither followed nor freed, so free what it points
 * to when its block is delivered or its want cancelled.
 *
 * Limits: wants_max and peers_max are refused with KV_TOO_BIG. Everything else
 * that could grow has a bound inside: copies of a want, entries of a message,
 * 65,536 cancels and questions waiting (further cancels are not sent, which
 * costs at most a duplicate), one record of seven peers that lack it for every
 * second want (a want whose records do not fit is asked for again). A want takes
 * at most 200 bytes, in pieces that are kept for reuse until session_free; the
 * steady state allocates nothing. Waits double up to timeout_max_us, pauses up
 * to starved_max_us.
 *
 * Sources: the table and the modes of 2018 are ipfs/go-bitswap pull request 27;
 * one owner, DONT_HAVE and HAVE are bitswap 1.2 (ipfs/go-bitswap 189); moving
 * the last wants is BitTorrent's end game (BEP 3), with one copy instead of all;
 * windows by measured service time follow its request queues and go-ethereum's
 * p2p/msgrate. The faults that others met with theirs are tests by their numbers
 * (test/session/session_faults.c).
 */
#ifndef RECONNECT_SESSION_H
#define RECONNECT_SESSION_H

#include "kv/kv.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Limits ------------------------------------------------------------- */

#define SESSION_ID_SIZE 32u
#define SESSION_PEERS_MAX 4096u                    /* peers known at once, gone ones included */
#define SESSION_WANTS_MAX (1u << 24)               /* highest value of config.wants_max */
#define SESSION_ENTRIES_MAX 512u                   /* entries in one action */
#define SESSION_COPIES_MAX 2u                      /* copies of a want in flight */
#define SESSION_FILTER_SIZE_MAX (4u + (64u << 10)) /* bytes in an inventory filter */
#define SESSION_BLOCK_SIZE_MAX (16u << 20)         /* bytes in a block; larger is a lie */

/* ---- Making one --------------------------------------------------------- */

typedef struct session_machine session_machine;
typedef uint16_t session_peer; /* valid from session_join until session_leave */

#define SESSION_NO_PEER UINT16_MAX

typedef enum session_mode {
    SESSION_DEFAULT,
    SESSION_ROUND1,   /* peers by recency, request splitting */
    SESSION_BROADCAST /* every want to every peer that answered */
} session_mode;

/* Zero in any member means its default. */
typedef struct session_config {
    session_mode mode;
    uint32_t wants_max;        /* wants held at once; 1,048,576 */
    uint32_t peers_max;        /* peers known at once; 1,024 */
    uint32_t window_max;       /* wants in flight at one peer; 256 */
    uint32_t window_bytes_max; /* bytes in flight at one peer, as estimated; 4 MiB */
    int64_t patience_us;       /* first wait for a peer of unknown latency; 1 s */
    int64_t timeout_min_us;    /* least wait before a want is overdue; 50 ms */
    int64_t timeout_max_us;    /* longest wait before a want is asked elsewhere; 30 s */
    int64_t starved_min_us;    /* first pause before a want that nobody has is tried
                                  again; 1 s, doubled each time */
    int64_t starved_max_us;    /* longest such pause; 60 s */
    uint64_t seed;             /* breaks ties and spreads hashes */
} session_config;

/* KV_INVALID: a member out of its range. `config` may be NULL. */
KV_API KV_MUST_CHECK kv_code session_new(const session_config *config, session_machine **out,
                                         kv_status *status);
/* Tells nobody: session_cancel_all and a last round of polling does. NULL is fine. */
KV_API void session_free(session_machine *session);

/* ---- Peers -------------------------------------------------------------- */

/* What the greeting told of a peer. All zeros: nothing. */
typedef struct session_hello {
    int64_t rtt_us;  /* round trip of the handshake, 0 if unknown */
    bool holds_all;  /* it holds whatever this session may want */
    uint32_t window; /* wants to start with where there is no other peer to share them
                        with; 0: the session's own first window */
} session_hello;

/*
 * A peer is connected. `name` identifies it for good (a hash of address or
 * public key): one that left and returns under its name keeps its record and
 * its ban, but not what it was known to lack. KV_UNPROVEN: it has lied before
 * and stays out. KV_BUSY: that name is connected. KV_TOO_BIG: peers_max are
 * connected. The record of the peer gone longest makes room for a new one.
 */
KV_API KV_MUST_CHECK kv_code session_join(session_machine *session, int64_t now_us,
                                          uint64_t name, const session_hello *hello,
                                          session_peer *out, kv_status *status);

/* A peer is gone. Its wants go to others at the next poll. */
KV_API void session_leave(session_machine *session, int64_t now_us, session_peer peer);

/*
 * A peer tells what it holds, as a filter made with session_filter_add. An id
 * outside the filter is not asked of it; an id inside may still be missing.
 * The newest replaces the one before; the bytes are copied. KV_INVALID: not a
 * filter. Harmless to ignore.
 */
KV_API KV_MUST_CHECK kv_code session_inventory(session_machine *session, int64_t now_us,
                                               session_peer peer, kv_slice filter,
                                               kv_status *status);

/* A peer took up content: it may have what it lacked, so ask it again. */
KV_API void session_refresh(session_machine *session, int64_t now_us, session_peer peer);

/* ---- Wants -------------------------------------------------------------- */

typedef struct session_request {
    const uint8_t *id; /* SESSION_ID_SIZE bytes, copied */
    uint64_t tag;      /* the caller's own; comes back with the block */
} session_request;

/*
 * Fetch `count` blocks, in this order where it matters. Keep siblings adjacent.
 * An id that is wanted already keeps its first tag and is not asked for twice.
 * KV_TOO_BIG: more than wants_max would be held, and none was added: wait for
 * blocks and try again.
 */
KV_API KV_MUST_CHECK kv_code session_want(session_machine *session, int64_t now_us,
                                          const session_request *requests, size_t count,
                                          kv_status *status);

/* Forget a want, telling peers that were asked. KV_NOT_FOUND: not wanted. */
KV_API KV_MUST_CHECK kv_code session_cancel(session_machine *session, int64_t now_us,
                                            const uint8_t *id);

/* Forget all wants, telling peers that were asked. */
KV_API void session_cancel_all(session_machine *session, int64_t now_us);

/* Whether bytes for `id` are worth checking; `tag` (may be NULL) gets its tag. */
KV_API bool session_wanted(const session_machine *session, const uint8_t *id, uint64_t *tag);

/* ---- Answers ------------------------------------------------------------ */

typedef enum session_verdict {
    SESSION_DELIVERED, /* it was wanted and now is not: store it */
    SESSION_DUPLICATE, /* asked for, but it came already (or was cancelled) */
    SESSION_UNASKED    /* this peer was never asked for it */
} session_verdict;

/*
 * A block of `size` bytes came from `peer` and, where session_wanted says so,
 * was checked. A wanted block is delivered whoever it came from.
 */
KV_API session_verdict session_block(session_machine *session, int64_t now_us,
                                     session_peer peer, const uint8_t *id, size_t size,
                                     uint64_t *tag);

/* A peer answered that it has, or has not, the block. */
KV_API void session_have(session_machine *session, int64_t now_us, session_peer peer,
                         const uint8_t *id);
KV_API void session_missing(session_machine *session, int64_t now_us, session_peer peer,
                            const uint8_t *id);

/* What came from `peer` is not what its id says, or breaks the protocol. The
 * peer is treated as gone and banned: disconnect it. */
KV_API void session_lie(session_machine *session, int64_t now_us, session_peer peer);

/* ---- Actions ------------------------------------------------------------ */

typedef enum session_op {
    SESSION_ASK_BLOCK, /* send the block, or say that it is missing */
    SESSION_ASK_HAVE,  /* say whether you have it */
    /* No longer wanted; no answer. A courtesy: docs/reconnect.md has no frame for it, and
     * the block that then comes counts as a duplicate. The wire of the 2018 scheme has. */
    SESSION_CANCEL
} session_op;

typedef struct session_entry {
    session_op op;
    const uint8_t *id;
    uint64_t tag;
} session_entry;

typedef enum session_action_kind {
    SESSION_SEND,      /* send `entries` to `peer` as one message */
    SESSION_NEED_PEERS /* `entries` names one want that no peer here has: find more */
} session_action_kind;

/* Valid until the next call on the session. */
typedef struct session_action {
    session_action_kind kind;
    session_peer peer;
    const session_entry *entries;
    size_t count;
} session_action;

/*
 * The next thing to do, or false when there is none for now. Call until false
 * once all that arrived together has been reported: what is assigned in one
 * round goes out in one message per peer.
 */
KV_API bool session_poll(session_machine *session, int64_t now_us, session_action *out);

/* From now on at most `count` entries in one action: 1 to SESSION_ENTRIES_MAX, as at first. */
KV_API void session_limit_entries(session_machine *session, size_t count);

/* When to call session_poll even if nothing happens; INT64_MAX: never. */
KV_API int64_t session_wake_us(const session_machine *session);

/* ---- Figures ------------------------------------------------------------ */

typedef struct session_figures {
    uint64_t blocks, bytes;                     /* useful: delivered */
    uint64_t duplicate_blocks, duplicate_bytes; /* asked for, but came already */
    uint64_t unasked_blocks, unasked_bytes;     /* never asked for */
    uint64_t asked, hedged, moved, cancelled;   /* block requests sent; second copies
                                                   for overdue ones; taken from slow
                                                   peers at the end; cancels sent */
    uint64_t missing, overdue, requeued;        /* answers "missing"; timeouts; wants
                                                   taken back from peers that left */
    uint64_t lies;
    uint64_t messages_out;
    uint32_t wants, queued, in_flight, starved; /* now */
    uint32_t peers;                             /* connected now */
    size_t memory;                              /* bytes held */
} session_figures;

KV_API void session_measure(const session_machine *session, session_figures *out);

typedef struct session_peer_figures {
    uint64_t name;
    bool connected, banned;
    int64_t rtt_us; /* 0 if unknown */
    int64_t service_us;
    uint32_t window, in_flight;
    uint32_t have_percent; /* of the last 64 answers */
    uint64_t blocks, bytes, duplicate_blocks, duplicate_bytes, unasked_blocks;
    uint64_t asked, missing, overdue;
} session_peer_figures;

/* The `index`th peer on record, from 0; false past the last. */
KV_API bool session_measure_peer(const session_machine *session, size_t index,
                                 session_peer_figures *out);

/*
 * The figures in the form of `ipfs bitswap stat`, as much as fits `size` bytes
 * with the end mark; returns the length of the whole text. Partners are named
 * by `label`, or in hex where `label` is NULL.
 */
KV_API size_t session_print(const session_machine *session, char *text, size_t size,
                            void (*label)(void *context, uint64_t name, char out[64]),
                            void *context);

/* ---- Inventories -------------------------------------------------------- */

/*
 * A filter is 1 byte of k (probes, 1..32), 3 zero bytes, then 2^m bytes of
 * bits, 3 <= m <= 16. Probe i of an id looks at bit
 * (a + i * b) mod 2^(m+3), where a and b are the first and second 8 bytes of
 * the id, little-endian, b made odd. Ids are digests, so no hash is needed.
 */

/* Bytes of a filter that suits `count` ids: 24 bits or more for each while they
 * fit, and 0 where even 8 do not: then send none. */
KV_API size_t session_filter_size(size_t count);

/* Make `filter`, of that size, empty for `count` ids. */
KV_API void session_filter_init(uint8_t *filter, size_t size, size_t count);
KV_API void session_filter_add(uint8_t *filter, size_t size, const uint8_t *id);
KV_API bool session_filter_has(const uint8_t *filter, size_t size, const uint8_t *id);

#ifdef __cplusplus
}
#endif

#endif /* RECONNECT_SESSION_H */
