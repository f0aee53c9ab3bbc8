/*
 * learner.h - inside the learner.
 *
 *     learner.c   its life: goals, maps, phases, the switch, figures
 *     peer.c      its peers: greeting, frames in and out
 *     diff.c      the traversals that it decides: what to ask, what an answer means
 *     ahead.c     its first question, asked with HELLO
 *     pages.h     pages as lists: assembling, folding, what of them it has
 *     pushed.c    its side of the traversals that the teacher decides
 */
#ifndef RECONNECT_LEARNER_H
#define RECONNECT_LEARNER_H

#include "reconnect/reconnect.h"
#include "reconnect/session.h"
#include "reconnect/stage.h"
#include "reconnect/walk.h"

/* Wants handed to the session at once; the others wait as lists per level. */
#define LEARNER_OPEN_MAX 4096u
/* Wants known; pages above the leaves are not asked for beyond, so that the
 * front of the walk stays small however large the state is. */
#define LEARNER_KNOWN_MAX 65536u

#define LEARNER_NO_PEER UINT32_MAX

/* Bits of a page's fingerprint, at first. */
#define DIFF_PAGE_BITS 16u

/* Fingerprint sizes by attempt: short at first, sure the second time, none the
 * third, when whole lists come. */
enum { ATTEMPT_SHORT, ATTEMPT_SURE, ATTEMPT_WHOLE };

/* What an answer would have made of a page of leaves, had it folded: the next
 * question starts from there, so that only what was mistaken comes again. It is
 * kept in memory only, and only while the page is asked for. */
struct guess {
    struct wire_out text; /* keys and values */
    struct guess_leaf {
        size_t at, key_size, value_size; /* value 0: not in the page */
    } * leaves;                          /* in key order */
    size_t count;
};

void guess_free(struct guess *guess);

/* A page to fetch as a list. */
struct want {
    struct want *next;            /* of its level, while it waits */
    struct want *before, *behind; /* of all that are known */
    uint32_t map;
    uint8_t level, tier, attempt;
    uint32_t trip;       /* questions and answers that led here */
    uint32_t teller;     /* peer whose list named it, or LEARNER_NO_PEER */
    uint32_t have_count; /* fingerprints sent last */
    bool ahead;          /* asked with HELLO: the answer is under way */
    struct guess *guess; /* or NULL */
    vmap_node node;
    size_t first_size, start_size, limit_size;
    uint8_t keys[]; /* first key; where its range starts; where it ends */
};

/* Keys are copied; NULL out of memory. */
struct want *want_new(uint32_t map, unsigned level, unsigned tier, const vmap_node *node,
                      kv_slice first, const kv_range *range);
kv_slice want_first(const struct want *want); /* empty: the leftmost page */
kv_range want_range(const struct want *want);
void want_id(const struct want *want, uint8_t id[SESSION_ID_SIZE]);

/* Pages asked of a peer in one frame. */
struct request {
    struct request *next;
    uint64_t id;
    unsigned tier;
    size_t count, done;
    uint32_t ahead_map, ahead_haves; /* asked with HELLO: our map, fingerprints sent */
    uint8_t ids[][SESSION_ID_SIZE];
};

enum peer_phase {
    PEER_UNUSED,
    PEER_GREETED, /* HELLO sent */
    PEER_PROVED,  /* PROOF sent */
    PEER_SERVING, /* its offer is good */
    PEER_ENDING,  /* END or ERROR is in the output */
    PEER_GONE
};

struct peer {
    char name[RECONNECT_PEER_NAME_SIZE];
    enum peer_phase phase;
    bool lied, joined; /* joined: the session knows it */
    session_peer session_peer;
    struct wire_frames in;
    struct wire_out out;
    size_t sent;
    uint8_t nonce[WIRE_NONCE_SIZE];
    int64_t heard_us, asked_us;
    uint64_t version;  /* offered */
    bool exact;        /* it is the goal */
    unsigned renewing; /* other offers were asked for and have not come */
    bool same;         /* what it offered is our own version */
    unsigned told;     /* lists of pages it gave */
    bool told_peers;   /* it told of others */
    uint16_t *maps;    /* our map to its, UINT16_MAX: it has none such */
    struct request *first, **last;
    uint64_t request_id;
    struct wire_out frame; /* a want frame under construction */
    uint64_t bytes_in, bytes_out, messages_in, messages_out;
    uint64_t blocks, duplicate_blocks, duplicate_bytes;
};

struct learner_map {
    char name[STATE_MAP_NAME_SIZE_MAX + 1];
    unsigned level, page_bits;
    vmap_node node;
    unsigned stage;   /* its number there */
    struct walk *own; /* opened when first needed */
    bool same;        /* the root is our own: nothing to do */
};

struct pushed; /* pushed.c */

struct reconnect_learner {
    kv_db *db;
    state *state;
    reconnect_settings settings;
    reconnect_goal goal;
    reconnect_phase phase;
    kv_status result;
    bool misled;        /* a page was not where the list above it said: */
    uint32_t misled_by; /* who told that list */
    bool goal_set;      /* version and app hash are settled, maps are known */
    bool wait_for_peers, sole_peer, discover;

    state_view *view; /* our newest version */
    vmap_digest own_app_hash;
    struct stage stage;
    session_machine *session;
    uint64_t salt;
    uint8_t nonce[WIRE_NONCE_SIZE];

    struct learner_map *maps; /* of the goal, sorted by name */
    size_t map_count;

    struct want *todo[VMAP_LEVELS_MAX], **todo_last[VMAP_LEVELS_MAX];
    size_t todo_count;  /* waiting in lists */
    size_t known;       /* those and the session's */
    size_t ask_entries; /* pages in the next question, at most; 0: none was asked */
    struct want *all;   /* of them */

    struct wire_key *key; /* decoding */
    struct pages *pages;  /* scratch of pages.c */
    struct pushed *pushed;
    struct peer peers[RECONNECT_PEERS_MAX];
    char told[RECONNECT_PEERS_MAX][RECONNECT_PEER_NAME_SIZE]; /* addresses, by peers */
    size_t told_count, told_taken;
    reconnect_figures figures;
};

/* End in failure; the first reason stands. */
void learner_fail(reconnect_learner *learner, kv_code code, const char *why);
/* Take an offer as the goal, or check it against the one that stands. */
KV_MUST_CHECK kv_code learner_offer(reconnect_learner *learner, int64_t now_us,
                                    struct peer *peer, const struct wire_offer *offer,
                                    kv_status *status);
/* A frame goes out. */
void learner_count_out(reconnect_learner *learner);
/* No peer has what is wanted. */
void learner_starved(reconnect_learner *learner);
/* Tell the session of a peer whose offer is of use. */
KV_MUST_CHECK kv_code learner_use(reconnect_learner *learner, int64_t now_us, struct peer *peer,
                                  const struct wire_offer *offer, kv_status *status);
/* Nothing is left to fetch. */
void learner_fetched(reconnect_learner *learner);
/* The walk over our own map. */
KV_MUST_CHECK kv_code learner_walk(reconnect_learner *learner, uint32_t map, struct walk **out,
                                   kv_status *status);
bool learner_pushes(const reconnect_learner *learner);

/* ---- peer.c ------------------------------------------------------------- */

unsigned peer_number(const reconnect_learner *learner, const struct peer *peer);
/* Put a peer out: say so to it and to the session. `lied`: never again. */
void peer_drop(reconnect_learner *learner, int64_t now_us, struct peer *peer, bool lied,
               kv_code code, const char *why);
void peer_say_hello(reconnect_learner *learner, int64_t now_us, struct peer *peer);
void peer_say_end(struct peer *peer);
void peer_clear(struct peer *peer);
/* Fail the learner if no peer is left to hope for. `why`: of the last one. */
void peers_check(reconnect_learner *learner, const kv_status *why);

/* ---- diff.c ------------------------------------------------------------- */

/* Ask for the roots of all maps that differ. */
KV_MUST_CHECK kv_code diff_begin(reconnect_learner *learner, kv_status *status);
/* Add a page to fetch. Keys are copied. */
KV_MUST_CHECK kv_code diff_want(reconnect_learner *learner, uint32_t map, unsigned level,
                                const vmap_node *node, kv_slice first, const kv_range *range,
                                uint32_t trip, uint32_t teller, kv_status *status);
/* Move wants on: settle here what can be, ask peers for some of the rest. It is called
 * again when a peer's output is empty. */
KV_MUST_CHECK kv_code diff_pump(reconnect_learner *learner, int64_t now_us, kv_status *status);
/* A GOT frame. KV_UNPROVEN: the peer lies; other codes are our own fault. */
KV_MUST_CHECK kv_code diff_got(reconnect_learner *learner, int64_t now_us, struct peer *peer,
                               kv_slice body, kv_status *status);
/* Forget all wants, and the pages staged if `pages_too`. */
KV_MUST_CHECK kv_code diff_restart(reconnect_learner *learner, int64_t now_us, bool pages_too,
                                   kv_status *status);
void diff_clear(reconnect_learner *learner, int64_t now_us);

/* ---- ahead.c ------------------------------------------------------------ */

/* Behind HELLO: ask for the lists of the maps' root pages before their digests are
 * known, where it is sure that something differs and the question is short. */
KV_MUST_CHECK kv_code ahead_ask(reconnect_learner *learner, struct peer *peer,
                                kv_status *status);
/* The peer's offer is the goal: tell which wants were asked already. */
void ahead_match(reconnect_learner *learner, struct peer *peer);
/* The peer is gone: they were not. */
void ahead_forget(reconnect_learner *learner);

/* ---- pages.c ------------------------------------------------------------ */

KV_MUST_CHECK kv_code pages_new(struct pages **out);
void pages_free(struct pages *pages);

/* Put the number and the fingerprints of our own pages that a list of `tier` has. */
KV_MUST_CHECK kv_code pages_put_own(reconnect_learner *learner, struct walk *walk,
                                    unsigned tier, unsigned bits, struct wire_out *out,
                                    uint32_t *count, kv_status *status);
/* Put `count` and the fingerprints of what we have of the page into `out`. */
KV_MUST_CHECK kv_code pages_put_haves(reconnect_learner *learner, struct want *want,
                                      unsigned bits, struct wire_out *out, kv_status *status);
/*
 * Read an answer's list, fold it, compare it with the page's digest, and stage
 * what is new in it; wants for the pages it names are added. KV_UNPROVEN: it
 * does not fold, or not to that. `in` is past the list unless it is bad.
 */
KV_MUST_CHECK kv_code pages_take(reconnect_learner *learner, const struct want *want,
                                 struct wire_in *in, uint32_t teller, kv_status *status);
/* After pages_take answered KV_UNPROVEN: keep what came of the want's leaves as a
 * guess, if it is of use. */
KV_MUST_CHECK kv_code pages_guess(reconnect_learner *learner, struct want *want,
                                  kv_status *status);
/* Settle the page from what is staged. KV_NOT_FOUND: it cannot be. */
KV_MUST_CHECK kv_code pages_take_staged(reconnect_learner *learner, const struct want *want,
                                        kv_status *status);
/* Pass over a list. */
void pages_skip(reconnect_learner *learner, unsigned tier, struct wire_in *in);
/*
 * A page that was pushed: prove it, stage what it says is gone, and call `visit`
 * with each entry, its range and whether we have it.
 */
typedef kv_code (*pages_visit)(reconnect_learner *learner, const struct want *page,
                               kv_slice first, const kv_range *range, const vmap_node *node,
                               bool have, kv_status *status);
KV_MUST_CHECK kv_code pages_take_pushed(reconnect_learner *learner, const struct want *want,
                                        kv_slice body, pages_visit visit, kv_status *status);
/* Stage the removal of our keys of `range`. */
KV_MUST_CHECK kv_code pages_remove(reconnect_learner *learner, uint32_t map,
                                   const kv_range *range, kv_status *status);

/* ---- pushed.c ----------------------------------------------------------- */

KV_MUST_CHECK kv_code pushed_begin(reconnect_learner *learner, struct peer *peer,
                                   kv_status *status);
/* A PAGE, LEAF, KEEP or END frame. Codes as diff_got's. */
KV_MUST_CHECK kv_code pushed_lesson(reconnect_learner *learner, struct peer *peer,
                                    unsigned type, kv_slice body, kv_status *status);
void pushed_free(struct pushed *pushed);

#endif /* RECONNECT_LEARNER_H */
