/*
 * wire.h - the bytes of the reconnect protocol; docs/reconnect.md draws them.
 *
 * Encoders append to a wire_out, which remembers the first shortage of memory;
 * decoders take from a wire_in, which remembers the first thing that does not
 * fit and answers zeros from then on. So code reads as a list of fields, with
 * one check at its end. Nothing here trusts a length before it is compared
 * with the bytes that are there. No sockets, no state: thread-safe.
 */
#ifndef RECONNECT_WIRE_H
#define RECONNECT_WIRE_H

#include "vmap/vmap.h"

/* ---- Limits ------------------------------------------------------------- */

#define WIRE_VERSION 1u
#define WIRE_FORMAT 1u                  /* digests and pages as vmap.h has them */
#define WIRE_FRAME_HEADER_SIZE 5u       /* length of the rest, type */
#define WIRE_FRAME_SIZE_MIN (64u << 10) /* least value of frame_size_max */
#define WIRE_FRAME_SIZE_MAX ((1u << 30) + (16u << 20)) /* highest value of it */
#define WIRE_GREETING_SIZE_MAX (1u << 20) /* frames before the peers know each other */
#define WIRE_CHAIN_SIZE_MAX 128u
#define WIRE_MAP_NAME_SIZE_MAX 128u
#define WIRE_NONCE_SIZE 16u
#define WIRE_MAC_SIZE 32u
#define WIRE_TEXT_SIZE_MAX 200u /* of an error */
#define WIRE_PAGES_MAX 1024u    /* pages in one want frame */
#define WIRE_HAVES_MAX 16384u   /* fingerprints for one page */
#define WIRE_HAVE_BITS_MAX 64u
#define WIRE_PEERS_MAX 32u        /* addresses that one teacher tells */
#define WIRE_ADDRESS_SIZE_MAX 63u /* bytes of one */

/* ---- Writing and reading ------------------------------------------------ */

struct wire_out {
    uint8_t *data;
    size_t size, capacity;
    bool failed; /* out of memory: what was put since is lost */
};

void wire_out_clear(struct wire_out *out);
/* Forget the first `size` bytes. */
void wire_out_drop(struct wire_out *out, size_t size);
/* Room for `size` bytes at the end, already counted; NULL out of memory. */
uint8_t *wire_out_room(struct wire_out *out, size_t size);
void wire_put(struct wire_out *out, const void *bytes, size_t size);
void wire_put_byte(struct wire_out *out, unsigned byte);
void wire_put_number(struct wire_out *out, uint64_t number); /* LEB128 */
void wire_put_text(struct wire_out *out, kv_slice text);     /* number, bytes */
/* A key as what it shares with `before` and the rest. */
void wire_put_key(struct wire_out *out, kv_slice before, kv_slice key);
/* The low `bits` of each of `values`, packed from the low bit up. */
void wire_put_bits(struct wire_out *out, const uint64_t *values, size_t count, unsigned bits);

struct wire_in {
    const uint8_t *at, *end;
    bool bad;
};

struct wire_in wire_in_of(kv_slice bytes);
const uint8_t *wire_get(struct wire_in *in, size_t size); /* NULL if short */
unsigned wire_get_byte(struct wire_in *in);
uint64_t wire_get_number(struct wire_in *in, uint64_t max);
kv_slice wire_get_text(struct wire_in *in, size_t size_max);
void wire_get_copy(struct wire_in *in, void *to, size_t size);
vmap_digest wire_get_digest(struct wire_in *in);
/* Unpack into `values`; false, with `in` bad, if short. */
bool wire_get_bits(struct wire_in *in, uint64_t *values, size_t count, unsigned bits);

/* The key read last, from which the next one is told. */
struct wire_key {
    size_t size;
    uint8_t bytes[VMAP_KEY_SIZE_MAX];
};

/* The next key, which lasts until the one after; empty keys only where allowed. */
kv_slice wire_get_key(struct wire_in *in, struct wire_key *key, bool empty_allowed);

/* ---- Frames ------------------------------------------------------------- */

enum wire_type {
    WIRE_HELLO = 1,     /* learner: who I am, what I want */
    WIRE_CHALLENGE = 2, /* teacher: prove that you know the secret */
    WIRE_PROOF = 3,     /* learner */
    WIRE_OFFER = 4,     /* teacher: the version, its maps and roots */
    WIRE_RENEW = 5,     /* learner: offer me another version */
    WIRE_WANT = 6,      /* learner: pages, and what I have of them */
    WIRE_GOT = 7,       /* teacher: what is in them */
    WIRE_BEGIN = 8,     /* learner: push these maps */
    WIRE_PAGE = 9,      /* teacher, pushing: a page */
    WIRE_LEAF = 10,     /* teacher, pushing: a pair */
    WIRE_KEEP = 11,     /* teacher, pushing: you have it */
    WIRE_ANSWER = 12,   /* learner, pushed to: whether I have an entry */
    WIRE_END = 13,      /* both: nothing more from me */
    WIRE_ERROR = 14,    /* both: why I hang up */
    WIRE_AHEAD = 15,    /* learner, behind HELLO: what I have of a map's root page */
    WIRE_PEERS = 16     /* teacher, before its first OFFER: others that teach */
};

const char *wire_type_name(unsigned type);

/* Begin a frame at the end of `out`; returns where, for wire_frame_end. */
size_t wire_frame_begin(struct wire_out *out, enum wire_type type);
void wire_frame_end(struct wire_out *out, size_t begin);

/* Cuts a stream of bytes into frames. */
struct wire_frames {
    struct wire_out bytes;
    size_t at; /* where the next frame begins */
    size_t size_max;
};

void wire_frames_init(struct wire_frames *frames, size_t size_max);
void wire_frames_clear(struct wire_frames *frames);
/* KV_NO_MEMORY. */
KV_MUST_CHECK kv_code wire_frames_add(struct wire_frames *frames, kv_slice bytes);
/* The next whole frame, valid until the next wire_frames_add. KV_NOT_FOUND: not
 * whole yet. KV_TOO_BIG, KV_UNPROVEN: no frame of this protocol. */
KV_MUST_CHECK kv_code wire_frames_next(struct wire_frames *frames, unsigned *type,
                                       kv_slice *body, kv_status *status);

/* ---- The greeting ------------------------------------------------------- */

enum wire_traversal {
    WIRE_DIFF = 0, /* the learner asks: `diff` and `pull` */
    WIRE_PUSH = 1,
    WIRE_LEVEL_POLL = 2,  /* level-by-level, upstream's wait */
    WIRE_LEVEL_STRICT = 3 /* level-by-level, the full wait */
};

struct wire_hello {
    unsigned version_min, version_max; /* of the protocol */
    unsigned format;
    kv_slice chain;
    uint8_t nonce[WIRE_NONCE_SIZE];
    enum wire_traversal traversal;
    uint64_t version; /* of the state; 0: the newest */
    bool wanted_known;
    vmap_digest wanted; /* the app hash it must have, if known */
    bool peers;         /* tell me of other teachers */
    vmap_digest own;    /* the learner's own app hash */
};

void wire_put_hello(struct wire_out *out, const struct wire_hello *hello);
KV_MUST_CHECK kv_code wire_get_hello(kv_slice body, struct wire_hello *hello,
                                     kv_status *status);

struct wire_challenge {
    uint8_t nonce[WIRE_NONCE_SIZE];
    uint8_t mac[WIRE_MAC_SIZE];
};

void wire_put_challenge(struct wire_out *out, const struct wire_challenge *challenge);
KV_MUST_CHECK kv_code wire_get_challenge(kv_slice body, struct wire_challenge *challenge,
                                         kv_status *status);
void wire_put_proof(struct wire_out *out, const uint8_t mac[WIRE_MAC_SIZE]);
KV_MUST_CHECK kv_code wire_get_proof(kv_slice body, uint8_t mac[WIRE_MAC_SIZE],
                                     kv_status *status);

/* HMAC-SHA256 of the secret over who speaks and both nonces. */
void wire_mac(kv_slice secret, const char *speaker, const uint8_t learner[WIRE_NONCE_SIZE],
              const uint8_t teacher[WIRE_NONCE_SIZE], uint8_t mac[WIRE_MAC_SIZE]);
/* Whether two macs are equal, in the same time whatever they hold. */
bool wire_mac_equal(const uint8_t a[WIRE_MAC_SIZE], const uint8_t b[WIRE_MAC_SIZE]);

struct wire_renew {
    uint64_t version;
    bool wanted_known;
    vmap_digest wanted;
};

void wire_put_renew(struct wire_out *out, const struct wire_renew *renew);
KV_MUST_CHECK kv_code wire_get_renew(kv_slice body, struct wire_renew *renew,
                                     kv_status *status);

struct wire_map {
    kv_slice name;
    unsigned level; /* of the root page; 0 when it holds leaves */
    unsigned page_bits;
    vmap_node node; /* size 0: an empty map */
};

struct wire_offer {
    unsigned version_used; /* of the protocol */
    uint64_t oldest, newest;
    uint64_t version; /* the one offered */
    vmap_digest app_hash;
    bool same; /* it is the learner's own: no maps follow */
    size_t map_count;
    struct wire_map *maps; /* owned by whoever decoded it */
};

void wire_put_offer(struct wire_out *out, const struct wire_offer *offer);
/* On success free offer->maps; names point into `body`. */
KV_MUST_CHECK kv_code wire_get_offer(kv_slice body, struct wire_offer *offer,
                                     kv_status *status);

void wire_put_error(struct wire_out *out, kv_code code, const char *text);
/* The peer's words, made printable, in `status`; returns its code. */
kv_code wire_get_error(kv_slice body, const char *peer, kv_status *status);

/* ---- Other teachers ----------------------------------------------------- */

/* "1.2.3.4:26659" or "[::1]:26659": digits only, so that nobody is made to ask a
 * name server on a stranger's word. */
bool wire_address_holds(kv_slice address);
void wire_put_peers(struct wire_out *out, const kv_slice *addresses, size_t count);
/* The addresses point into `body`. */
KV_MUST_CHECK kv_code wire_get_peers(kv_slice body, kv_slice addresses[WIRE_PEERS_MAX],
                                     size_t *count, kv_status *status);

/* ---- Pages asked for ---------------------------------------------------- */

/*
 * What all pages of a want frame share. A page is asked for as a list of what
 * stands `tier` above the leaves inside it: tier 0 lists the leaves of a page of
 * level 0, tier t the pages of level t - 1 in one of level t or higher. `have_bits` is the size
 * of the fingerprints by which the learner tells what it holds there.
 */
struct wire_want {
    uint64_t id;
    unsigned map; /* index in the offer */
    unsigned level, tier;
    unsigned have_bits;
    unsigned check_size; /* bytes of digest sent with each page */
    size_t count;
};

/* The first question, asked before the offer that it is about is known: so the map is
 * named, and the page is the root. One page follows, as in a want frame. */
struct wire_ahead {
    uint64_t id;
    kv_slice map;
    unsigned tier, have_bits;
};

void wire_put_ahead(struct wire_out *out, const struct wire_ahead *ahead);
bool wire_get_ahead(struct wire_in *in, struct wire_ahead *ahead);

struct wire_want_page {
    kv_slice first; /* empty: the map's leftmost page of that level */
    const uint8_t *check;
    size_t have_count;
    struct wire_in haves; /* have_count * have_bits, packed */
};

void wire_put_want(struct wire_out *out, const struct wire_want *want);
bool wire_get_want(struct wire_in *in, struct wire_want *want);
bool wire_get_want_page(struct wire_in *in, const struct wire_want *want, struct wire_key *key,
                        struct wire_want_page *page);

/* What an answer about one page starts with. */
enum wire_got {
    WIRE_GOT_LIST = 0, /* steps follow */
    WIRE_GOT_GONE = 1  /* no such page here */
};

/* The steps that turn the learner's list into the teacher's. */
enum wire_step {
    WIRE_STEP_COPY = 0, /* the next n of yours; n = 0 ends the list */
    WIRE_STEP_SKIP = 1, /* without the next n of yours */
    WIRE_STEP_NEW = 2   /* n entries that follow */
};

void wire_put_step(struct wire_out *out, enum wire_step step, uint64_t count);
/* false at the end of the list and, with `in` bad, on nonsense. */
bool wire_get_step(struct wire_in *in, enum wire_step *step, uint64_t *count);

/* An entry of tier >= 1: a page one level lower than its tier. */
void wire_put_entry(struct wire_out *out, unsigned tier, kv_slice before, kv_slice first,
                    const vmap_node *node);
bool wire_get_entry(struct wire_in *in, unsigned tier, struct wire_key *key, vmap_node *node);
/* A pair. */
void wire_put_leaf(struct wire_out *out, kv_slice before, kv_slice key, kv_slice value);
bool wire_get_leaf(struct wire_in *in, struct wire_key *key, kv_slice *value);

#endif /* RECONNECT_WIRE_H */
