/*
 * reconnect.h - a state that fell behind catches up from its peers.
 *
 * A teacher serves the versions it keeps; a learner fetches what differs from
 * its own newest version, checks every page against the digest its parent gave,
 * stages it, and switches to the new version in one commit once the app hash is
 * the one it was told to reach. A peer that sends anything else is dropped and
 * nothing of what it sent is kept. docs/reconnect.md gives every byte.
 *
 * Both sides are state machines: bytes in, bytes out, the time passed in. They
 * hold no socket, no clock and no thread. transport.h runs them over TCP or a
 * socket pair; tests and benchmarks run them any way they like:
 *
 *     reconnect_learner_new(db, state, &settings, &goal, &learner, &status)
 *     reconnect_learner_join(learner, now_us, "a:26659", &peer, &status)
 *     while (reconnect_learner_phase(learner) == RECONNECT_RUNNING)
 *         send reconnect_learner_output(learner, now_us, peer) to each peer,
 *         give what comes to reconnect_learner_input(learner, now_us, peer, bytes),
 *         call reconnect_learner_tick(learner, now_us) at reconnect_learner_wake_us
 *     reconnect_learner_switch(learner, &version, &status)
 *
 * Conventions are kv.h's. Times are microseconds of any steady clock. An object
 * belongs to one thread at a time; a teacher's links belong to its thread. The
 * states they use may be used by other threads meanwhile, except that the switch
 * is a use of the working set (see state.h) and drops uncommitted changes, and so is,
 * short, an input by which a learner hears of a map that its state has no pairs of.
 */
#ifndef RECONNECT_RECONNECT_H
#define RECONNECT_RECONNECT_H

#include "vmap/state.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Limits ------------------------------------------------------------- */

#define RECONNECT_PEERS_MAX 64u        /* teachers of one learner */
#define RECONNECT_LEARNERS_MAX 1024u   /* highest value of learners_max */
#define RECONNECT_PEER_NAME_SIZE 64u   /* with the end mark */
#define RECONNECT_TOLD_MAX 16u         /* addresses taken from one peer */
#define RECONNECT_SECRET_SIZE_MAX 256u /* bytes of a shared secret */

/* ---- Settings ----------------------------------------------------------- */

/* The options of [reconnect]. */
KV_API extern const kv_option_table reconnect_option_table;

typedef enum reconnect_traversal {
    RECONNECT_DIFF,       /* whole levels at once, only what differs comes */
    RECONNECT_PULL,       /* page by page, whole pages come */
    RECONNECT_LEVEL,      /* pushed, waiting at each level for all answers about it */
    RECONNECT_LEVEL_POLL, /* pushed, with the shorter wait of the original */
    RECONNECT_PUSH        /* pushed, breadth first, no waiting */
} reconnect_traversal;

/* "diff", "pull", "level-by-level", "level-by-level-poll", "push". KV_INVALID. */
KV_API KV_MUST_CHECK kv_code reconnect_traversal_of(const char *name, reconnect_traversal *out,
                                                    kv_status *status);
KV_API const char *reconnect_traversal_name(reconnect_traversal traversal);

/* Start from RECONNECT_SETTINGS_INIT or reconnect_settings_read. Texts are
 * borrowed by what is made with them. */
typedef struct reconnect_settings {
    const char *chain_id;     /* peers of another chain are refused */
    const char *secret;       /* empty: none asked for */
    uint64_t frame_size_max;  /* bytes; bounds the largest page and value */
    uint64_t idle_timeout_us; /* a silent peer is dropped after this */
    uint64_t view_timeout_us; /* a teacher ends a link that lasts longer */
    uint64_t learners_max;    /* links of one teacher */
    uint64_t rate_max;        /* bytes a second to all learners; 0: no limit */
    uint64_t level_cap_us;    /* longest wait at a level of level-by-level */
    uint64_t level_poll_us;   /* period of the original's wait */
    const char *peers;        /* addresses told to learners, joined by commas */
    bool discover;            /* a learner asks its teachers for others */
    uint64_t peer_wait_us;    /* a learner keeps trying for so long to reach a teacher */
} reconnect_settings;

#define RECONNECT_SETTINGS_INIT                                                     \
    {                                                                               \
        "", "", 64u << 20, 60000000, 3600000000u, 64, 0, 5000000, 1000, "", true, 0 \
    }

/* Read [reconnect] of options made with reconnect_option_table, which must
 * outlive `out`. */
KV_API void reconnect_settings_read(const kv_options *options, reconnect_settings *out);

/* ---- The teacher -------------------------------------------------------- */

typedef struct reconnect_teacher reconnect_teacher;
typedef struct reconnect_link reconnect_link; /* the connection of one learner */

/* Serve `from`, which must outlive the teacher. KV_INVALID: a setting. */
KV_API KV_MUST_CHECK kv_code reconnect_teacher_new(state *from,
                                                   const reconnect_settings *settings,
                                                   reconnect_teacher **out, kv_status *status);
/* After its links. */
KV_API void reconnect_teacher_free(reconnect_teacher *teacher);

/* A learner connected. KV_BUSY: learners_max are. `name` is copied. */
KV_API KV_MUST_CHECK kv_code reconnect_link_new(reconnect_teacher *teacher, int64_t now_us,
                                                const char *name, reconnect_link **out,
                                                kv_status *status);
KV_API void reconnect_link_free(reconnect_link *link);

/* Bytes came from the learner. On a fault the link ends: it says why to the
 * learner, so go on sending its output, and to the caller, once. */
KV_API KV_MUST_CHECK kv_code reconnect_link_input(reconnect_link *link, int64_t now_us,
                                                  kv_slice bytes, kv_status *status);
/* Whether it takes input; when not, stop reading until it has sent. */
KV_API bool reconnect_link_hungry(const reconnect_link *link);
/* What to send next: at most one frame, made only now; empty: nothing. */
KV_API kv_slice reconnect_link_output(reconnect_link *link, int64_t now_us);
/* The first `size` bytes of the output were sent. */
KV_API void reconnect_link_sent(reconnect_link *link, size_t size);
/* When output must be asked for anew even if nothing came; INT64_MAX: never. */
KV_API int64_t reconnect_link_wake_us(const reconnect_link *link);
/* Whether to hang up once there is no more output. `status` (may be NULL) gets
 * why if it did not end well. */
KV_API bool reconnect_link_over(const reconnect_link *link, kv_status *status);

typedef struct reconnect_teacher_figures {
    uint64_t links, links_now, links_failed;
    uint64_t bytes_in, bytes_out, messages_in, messages_out;
    uint64_t pages, leaves; /* sent */
} reconnect_teacher_figures;

KV_API void reconnect_teacher_measure(const reconnect_teacher *teacher,
                                      reconnect_teacher_figures *out);

/* ---- The learner -------------------------------------------------------- */

typedef struct reconnect_learner reconnect_learner;

/* What to reach. All zeros: the newest version of the first peer that answers,
 * which is then trusted to name the right one. */
typedef struct reconnect_goal {
    reconnect_traversal traversal;
    uint64_t version;
    bool app_hash_known;
    vmap_digest app_hash;
} reconnect_goal;

typedef enum reconnect_phase {
    RECONNECT_RUNNING, /* fetching, or waiting for a peer */
    RECONNECT_FETCHED, /* all is staged and checked: call reconnect_learner_switch */
    RECONNECT_DONE,    /* the state is at the goal */
    RECONNECT_FAILED   /* see reconnect_learner_result */
} reconnect_phase;

/*
 * Catch up `to`, kept in `db`. What an earlier learner staged there is used.
 * KV_BUSY: another learner works on `db`.
 */
KV_API KV_MUST_CHECK kv_code reconnect_learner_new(kv_db *db, state *to,
                                                   const reconnect_settings *settings,
                                                   const reconnect_goal *goal,
                                                   reconnect_learner **out, kv_status *status);
/* What is staged stays, for the next one. */
KV_API void reconnect_learner_free(reconnect_learner *learner);

/* Connected to a teacher. The traversals that are pushed take one peer, the
 * others up to RECONNECT_PEERS_MAX: KV_TOO_BIG. KV_UNPROVEN: it lied before. */
KV_API KV_MUST_CHECK kv_code reconnect_learner_join(reconnect_learner *learner, int64_t now_us,
                                                    const char *name, unsigned *peer,
                                                    kv_status *status);
/* The connection is gone, `why` in a few words. The learner goes on with its
 * other peers, if it has any. */
KV_API void reconnect_learner_leave(reconnect_learner *learner, int64_t now_us, unsigned peer,
                                    const char *why);
/* Bytes came. False: the peer is out, and `status` says why; send its last
 * output and hang up. */
KV_API KV_MUST_CHECK bool reconnect_learner_input(reconnect_learner *learner, int64_t now_us,
                                                  unsigned peer, kv_slice bytes,
                                                  kv_status *status);
KV_API kv_slice reconnect_learner_output(reconnect_learner *learner, int64_t now_us,
                                         unsigned peer);
KV_API void reconnect_learner_sent(reconnect_learner *learner, unsigned peer, size_t size);
/* Whether the peer is in use; when not, hang up after its last output. */
KV_API bool reconnect_learner_peer_live(const reconnect_learner *learner, unsigned peer);
/* Time passed: drop the silent, ask elsewhere. */
KV_API void reconnect_learner_tick(reconnect_learner *learner, int64_t now_us);
KV_API int64_t reconnect_learner_wake_us(const reconnect_learner *learner);

/* Without this a learner fails as soon as its last peer is gone; with it, it
 * waits for others to join. */
KV_API void reconnect_learner_wait_for_peers(reconnect_learner *learner, bool wait);

/* Say before it joins that there will be one peer: it is then asked for whole
 * levels at once, where several would share them out. */
KV_API void reconnect_learner_sole_peer(reconnect_learner *learner, bool sole);

/* Ask each peer that joins from here on which others it knows. */
KV_API void reconnect_learner_discover(reconnect_learner *learner, bool discover);
/*
 * The next address that a peer told, each once; false: none for now. A peer is a
 * stranger: its addresses have the right form, are at most RECONNECT_TOLD_MAX of one
 * peer, and nothing else is known of them. What they serve is checked like everything.
 */
KV_API bool reconnect_learner_take_told(reconnect_learner *learner,
                                        char out[RECONNECT_PEER_NAME_SIZE]);

/* Move on to another goal, keeping what was fetched: peers are asked for it.
 * The traversals that are pushed cannot: KV_UNSUPPORTED. */
KV_API KV_MUST_CHECK kv_code reconnect_learner_retarget(reconnect_learner *learner,
                                                        int64_t now_us,
                                                        const reconnect_goal *goal,
                                                        kv_status *status);

KV_API reconnect_phase reconnect_learner_phase(const reconnect_learner *learner);
/* Why it failed; KV_OK otherwise. */
KV_API KV_MUST_CHECK kv_code reconnect_learner_result(const reconnect_learner *learner,
                                                      kv_status *status);

/*
 * Make what was fetched the newest version of the state, in one commit, synced.
 * KV_UNPROVEN: it has not the app hash of the goal, and nothing changed.
 */
KV_API KV_MUST_CHECK kv_code reconnect_learner_switch(reconnect_learner *learner,
                                                      uint64_t *version, kv_status *status);

typedef struct reconnect_figures {
    uint64_t bytes_in, bytes_out, messages_in, messages_out;
    uint64_t pages, pages_clean; /* received; those that the learner had */
    uint64_t leaves, leaves_clean;
    uint64_t leaves_changed, leaves_removed; /* staged */
    uint64_t leaf_bytes;                     /* keys and values received */
    uint64_t resumed_pages;                  /* taken from what was staged before */
    uint64_t asked_again;                    /* pages whose short fingerprints misled */
    uint64_t round_trips;                    /* longest chain of question and answer */
    uint64_t duplicate_blocks, duplicate_bytes;
    uint64_t leaves_done, leaves_total; /* of the goal: how far it is */
    uint64_t version;                   /* the goal's, once known */
} reconnect_figures;

KV_API void reconnect_learner_measure(const reconnect_learner *learner, reconnect_figures *out);

/* How the fetching stands, as `ipfs bitswap stat` says it: blocks, bytes, duplicates,
 * wants, partners. As much as fits `size` bytes with the end mark; returns the length
 * of the whole text, 0 where the teacher decides what comes. */
KV_API size_t reconnect_learner_print(reconnect_learner *learner, char *text, size_t size);

typedef struct reconnect_peer_figures {
    char name[RECONNECT_PEER_NAME_SIZE];
    bool live, lied;
    uint64_t bytes_in, bytes_out, messages_in, messages_out;
    uint64_t blocks, duplicate_blocks, duplicate_bytes;
    uint64_t version; /* that it offered */
} reconnect_peer_figures;

/* False past the last peer. */
KV_API bool reconnect_learner_measure_peer(const reconnect_learner *learner, unsigned peer,
                                           reconnect_peer_figures *out);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* RECONNECT_RECONNECT_H */
