package aggregator.connector;

/**
 * Events by their hashes, each with the second since which it is held. Not for several threads.
 *
 * <p>A table of 20 bytes a slot, half to three quarters full: 27 to 36 bytes an event. What is
 * older than the window counts as absent, and is left out when the table is rebuilt.
 */
final class HeldEvents {
    private static final int LEAST_SLOTS = 64;
    private static final double FULL = 0.75;
    private static final double SLOTS_PER_EVENT = 1.8;
    private static final int BITS = 32;

    private long[] high = new long[LEAST_SLOTS];
    private long[] low = new long[LEAST_SLOTS];
    /** 0 for a slot that is free. */
    private int[] since = new int[LEAST_SLOTS];
    private int used;

    /** Whether an event is held since this second or later. */
    boolean contains(long high, long low, int oldest) {
        int held = since[slot(high, low)];
        return held != 0 && held >= oldest;
    }

    /** Holds an event since `now`; false when it is held since `oldest` or later already. */
    boolean add(long high, long low, int now, int oldest) {
        int at = slot(high, low);
        if (since[at] != 0) {
            boolean expired = since[at] < oldest;
            since[at] = expired ? now : since[at];
            return expired;
        }
        put(at, high, low, now);
        if (used > FULL * since.length) {
            makeAnew(oldest);
        }
        return true;
    }

    /** Slots that are taken, by what has expired as well. */
    int size() {
        return used;
    }

    int slots() {
        return since.length;
    }

    private void put(int at, long high, long low, int now) {
        this.high[at] = high;
        this.low[at] = low;
        since[at] = now;
        used++;
    }

    private void makeAnew(int oldest) {
        long[] highs = high;
        long[] lows = low;
        int[] seconds = since;
        int live = 0;
        for (int second : seconds) {
            live += second != 0 && second >= oldest ? 1 : 0;
        }
        int slots = Math.max(LEAST_SLOTS, (int) (live * SLOTS_PER_EVENT));
        high = new long[slots];
        low = new long[slots];
        since = new int[slots];
        used = 0;
        for (int i = 0; i < seconds.length; i++) {
            if (seconds[i] != 0 && seconds[i] >= oldest) {
                put(slot(highs[i], lows[i]), highs[i], lows[i], seconds[i]);
            }
        }
    }

    /** Where an event is, or would be put. */
    private int slot(long high, long low) {
        int at = (int) (((high >>> BITS) * since.length) >>> BITS);
        while (since[at] != 0 && (this.high[at] != high || this.low[at] != low)) {
            at = at + 1 < since.length ? at + 1 : 0;
        }
        return at;
    }
}
