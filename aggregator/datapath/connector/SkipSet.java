package aggregator.connector;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.Serializable;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/**
 * Offsets of one source partition that the hub holds already, as sorted ranges [from, to) that do
 * not touch. Pure. A reader asks in the order of its offsets, which costs a comparison each.
 */
final class SkipSet implements Serializable {
    private static final long serialVersionUID = 1L;
    private final long[] bounds;
    private int at;

    private SkipSet(long[] bounds) {
        this.bounds = bounds;
    }

    /** The set of [[from, to], ...], in any order; empty for what is no array. */
    static SkipSet of(JsonNode ranges) {
        List<long[]> found = new ArrayList<>();
        ranges.forEach(r -> found.add(new long[] {r.get(0).asLong(), r.get(1).asLong()}));
        return of(found);
    }

    static SkipSet of(List<long[]> ranges) {
        long[][] sorted = ranges.toArray(new long[0][]);
        Arrays.sort(sorted, (a, b) -> Long.compare(a[0], b[0]));
        long[] bounds = new long[2 * sorted.length];
        int used = 0;
        for (long[] range : sorted) {
            if (used > 0 && range[0] <= bounds[used - 1]) {
                bounds[used - 1] = Math.max(bounds[used - 1], range[1]);
            } else if (range[0] < range[1]) {
                bounds[used++] = range[0];
                bounds[used++] = range[1];
            }
        }
        return new SkipSet(Arrays.copyOf(bounds, used));
    }

    /** The first offset behind all ranges; 0 for an empty set. */
    long top() {
        return bounds.length == 0 ? 0 : bounds[bounds.length - 1];
    }

    int ranges() {
        return bounds.length / 2;
    }

    boolean contains(long offset) {
        if (at >= bounds.length || (at > 0 && offset < bounds[at - 1])) {
            if (offset >= top()) {
                return false;
            }
            at = 0;
        }
        while (at < bounds.length && offset >= bounds[at + 1]) {
            at += 2;
        }
        return at < bounds.length && offset >= bounds[at];
    }

    /** A key's bytes as something that can be compared and sent. */
    static String key(byte[] key) {
        return new String(key, StandardCharsets.ISO_8859_1);
    }
}
