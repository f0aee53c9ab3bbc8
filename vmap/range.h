/* range.h - the marks in a range proof. Private; docs/proofs.md has the form. */
#ifndef VMAP_RANGE_H
#define VMAP_RANGE_H

enum range_mark {
    RANGE_INNER, /* varint height; its left child follows, then its right */
    RANGE_STUB,  /* varint size, digest: leaves that are not shown */
    RANGE_LEAF   /* varint size, key, varint size, value */
};

#endif /* VMAP_RANGE_H */
