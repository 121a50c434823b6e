package aggregator.connector;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/** A set of offsets, a bit each: they come in any order, and mostly fill whole ranges. Pure. */
final class Offsets {
    private static final int CHUNK_BITS = 16;
    private static final int WORDS = 1 << (CHUNK_BITS - 6);

    private final TreeMap<Long, long[]> chunks = new TreeMap<>();
    private long[] last;
    private long lastChunk = -1;
    private long count;

    void add(long offset) {
        long chunk = offset >>> CHUNK_BITS;
        if (chunk != lastChunk) {
            last = chunks.computeIfAbsent(chunk, c -> new long[WORDS]);
            lastChunk = chunk;
        }
        int word = (int) (offset >>> 6) & (WORDS - 1);
        long bit = 1L << offset;
        if ((last[word] & bit) == 0) {
            last[word] |= bit;
            count++;
        }
    }

    long count() {
        return count;
    }

    /** What is in it, as sorted [from, to) that do not touch. */
    List<long[]> ranges() {
        List<long[]> found = new ArrayList<>();
        for (Map.Entry<Long, long[]> chunk : chunks.entrySet()) {
            for (int word = 0; word < WORDS; word++) {
                long first = (chunk.getKey() << CHUNK_BITS) + ((long) word << 6);
                append(found, first, chunk.getValue()[word]);
            }
        }
        return found;
    }

    private static void append(List<long[]> found, long first, long bits) {
        int from = 0;
        while (from < 64 && bits >>> from != 0) {
            from += Long.numberOfTrailingZeros(bits >>> from);
            int length = Math.min(Long.numberOfTrailingZeros(~(bits >>> from)), 64 - from);
            long[] before = found.isEmpty() ? null : found.get(found.size() - 1);
            if (before != null && before[1] == first + from) {
                before[1] += length;
            } else {
                found.add(new long[] {first + from, first + from + length});
            }
            from += length;
        }
    }
}
