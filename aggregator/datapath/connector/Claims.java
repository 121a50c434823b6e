package aggregator.connector;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.atomic.AtomicLong;

/**
 * The events of one hub topic: those that the hub holds, and those that are claimed by a record on
 * its way there. For any thread, and pure but for the clock of {@link #await}.
 *
 * <p>A record is sent by the task that has claimed its event, and dropped only when the hub holds
 * it. A claim of a task that is gone is uncertain: its record may have arrived or not. It stays
 * until the hub was read from below where it could be, or until the same record is sent again,
 * which a recovery allows only for one that the hub has not.
 */
final class Claims {
    /** 128 bits of an event's id. */
    record Event(long high, long low) {}

    /** A task that sends; once it is gone nothing of it is sent any more. */
    static final class Owner {
        private volatile long goneAt = Long.MAX_VALUE;

        void gone(long nanos) {
            goneAt = nanos;
        }

        private boolean isGone() {
            return goneAt != Long.MAX_VALUE;
        }
    }

    /** A record that is sent for its event. */
    static final class Claim {
        final Event event;
        final OriginReader.Place place;
        final long offset;
        private final Owner owner;
        private long number;

        Claim(Event event, OriginReader.Place place, long offset, Owner owner) {
            this.event = event;
            this.place = place;
            this.offset = offset;
            this.owner = owner;
        }

        @Override
        public String toString() {
            return place.cluster() + "/" + place.topic() + "-" + place.partition() + "@" + offset;
        }
    }

    /** Events by the last bits of their hash: so threads seldom meet, and tables stay small. */
    private static final class Shard {
        private HeldEvents held = new HeldEvents();
        private final Map<Event, Claim> claimed = new HashMap<>();
        private long[] fresh = new long[0];
        private int[] freshSince = new int[0];
        private int freshCount;
        private long[] ends = new long[0];
        private int waiting;

        private void hold(Event event, int now, int oldest) {
            if (held.add(event.high, event.low, now, oldest)) {
                if (freshCount == freshSince.length) {
                    int room = Math.max(LEAST_FRESH, freshCount * 2);
                    fresh = Arrays.copyOf(fresh, 2 * room);
                    freshSince = Arrays.copyOf(freshSince, room);
                }
                fresh[2 * freshCount] = event.high;
                fresh[2 * freshCount + 1] = event.low;
                freshSince[freshCount++] = now;
            }
            if (waiting > 0) {
                notifyAll();
            }
        }
    }

    /** Hub ends, and the number of the first claim that was made after they were looked up. */
    private record Mark(long[] ends, long next) {}

    static final int ROW_BYTES = 20;
    private static final int SHARDS = 64;
    private static final int LEAST_FRESH = 16;
    private static final int MOST_FRESH = 1 << 20;

    final EventRule rule;
    private final Shard[] shards = new Shard[SHARDS];
    private final AtomicLong next = new AtomicLong();
    /** How many events of each shard `fresh` listed last. */
    private final int[] listed = new int[SHARDS];
    private boolean more;
    private Mark mark = new Mark(new long[0], 0);
    private long[] covered = new long[0];
    private volatile boolean ready;

    Claims(EventRule rule) {
        this.rule = rule;
        for (int i = 0; i < SHARDS; i++) {
            shards[i] = new Shard();
        }
    }

    /** Whether all that the hub held at first is known. */
    boolean isReady() {
        return ready;
    }

    /** Claims an event. Answers the claim that holds by now, or null when the hub has the event. */
    Claim take(Claim wanted, long nowMs) {
        Shard shard = of(wanted.event);
        synchronized (shard) {
            if (shard.held.contains(wanted.event.high, wanted.event.low, oldest(nowMs))) {
                return null;
            }
            Claim found = shard.claimed.get(wanted.event);
            boolean again = found != null && found.owner.isGone() && found.offset == wanted.offset
                && found.place.equals(wanted.place);
            if (found != null && !again) {
                return found;
            }
            wanted.number = next.getAndIncrement();
            shard.claimed.put(wanted.event, wanted);
            return wanted;
        }
    }

    /** Returns when this claim holds no more, at the latest after `millis`. */
    void await(Claim other, long millis) throws InterruptedException {
        Shard shard = of(other.event);
        long until = System.nanoTime() + millis * 1_000_000;
        synchronized (shard) {
            shard.waiting++;
            try {
                long left = millis;
                while (left > 0 && shard.claimed.get(other.event) == other) {
                    shard.wait(left);
                    left = (until - System.nanoTime()) / 1_000_000;
                }
            } finally {
                shard.waiting--;
            }
        }
    }

    /** The hub has acknowledged the record of a claim: where, and the NEXT offset there. */
    void arrived(Claim claim, int partition, long end, long nowMs) {
        Shard shard = of(claim.event);
        synchronized (shard) {
            shard.claimed.remove(claim.event, claim);
            if (partition >= shard.ends.length) {
                shard.ends = Arrays.copyOf(shard.ends, partition + 1);
            }
            shard.ends[partition] = Math.max(shard.ends[partition], end);
            shard.hold(claim.event, seconds(nowMs), oldest(nowMs));
        }
    }

    /**
     * The hub was seen to have a record of this event. One that is just being sent shows by itself.
     */
    void found(Event event, long sinceMs, long nowMs) {
        Shard shard = of(event);
        synchronized (shard) {
            Claim claim = shard.claimed.get(event);
            if (claim == null || claim.owner.isGone()) {
                shard.claimed.remove(event);
                shard.hold(event, seconds(sinceMs), oldest(nowMs));
            }
        }
    }

    /** Lets go of claims of tasks that were gone before this moment; returns how many. */
    int release(long nanos) {
        int released = 0;
        for (Shard shard : shards) {
            synchronized (shard) {
                int before = shard.claimed.size();
                shard.claimed.values().removeIf(
                    it -> it.owner.isGone() && it.owner.goneAt - nanos < 0);
                released += before - shard.claimed.size();
                shard.notifyAll();
            }
        }
        return released;
    }

    /** How many claims are of tasks that were gone before this moment. */
    int uncertain(long nanos) {
        int found = 0;
        for (Shard shard : shards) {
            synchronized (shard) {
                for (Claim claim : shard.claimed.values()) {
                    found += claim.owner.isGone() && claim.owner.goneAt - nanos < 0 ? 1 : 0;
                }
            }
        }
        return found;
    }

    /** Takes rows of {@link #fresh} of an earlier life: the hub holds these events. */
    void load(byte[] rows, long nowMs) {
        ByteBuffer bytes = ByteBuffer.wrap(rows).order(ByteOrder.LITTLE_ENDIAN);
        int count = rows.length / ROW_BYTES;
        int oldest = oldest(nowMs);
        for (int i = 0; i < count; i++) {
            Event event = new Event(bytes.getLong(8 * i), bytes.getLong(8 * (count + i)));
            int since = bytes.getInt(16 * count + 4 * i);
            Shard shard = of(event);
            synchronized (shard) {
                if (since >= oldest) {
                    shard.held.add(event.high, event.low, since, oldest);
                }
            }
        }
    }

    /**
     * The hub holds none of these events any more. What is on its way there stays claimed, and
     * nothing else is sent until {@link #begin}. By the thread that calls {@link #fresh}.
     */
    synchronized void forget() {
        ready = false;
        for (int s = 0; s < SHARDS; s++) {
            Shard shard = shards[s];
            synchronized (shard) {
                shard.held = new HeldEvents();
                shard.fresh = new long[0];
                shard.freshSince = new int[0];
                shard.freshCount = 0;
                shard.ends = new long[0];
                listed[s] = 0;
            }
        }
    }

    /** All is known of what the hub holds below these ends, and records may be sent. */
    synchronized void begin(long[] ends) {
        covered = ends.clone();
        mark = new Mark(ends.clone(), next.get());
        ready = true;
    }

    /**
     * Hub ends below which the hub has no record whose event is not held here: those that were
     * acknowledged before a moment, once every claim of before that moment is decided. By one
     * thread.
     */
    synchronized long[] covered() {
        long oldest = Long.MAX_VALUE;
        long[] ends = covered.clone();
        long[] acknowledged = mark.ends.clone();
        for (Shard shard : shards) {
            synchronized (shard) {
                if (shard.ends.length > acknowledged.length) {
                    acknowledged = Arrays.copyOf(acknowledged, shard.ends.length);
                }
                for (int i = 0; i < shard.ends.length; i++) {
                    acknowledged[i] = Math.max(acknowledged[i], shard.ends[i]);
                }
                for (Claim claim : shard.claimed.values()) {
                    oldest = Math.min(oldest, claim.number);
                }
            }
        }
        if (ready && oldest >= mark.next) {
            covered = ends = mark.ends;
            mark = new Mark(acknowledged, next.get());
        }
        return ends.clone();
    }

    /**
     * The events that came to be held and were not {@link #kept} yet, or some of them if they are
     * many: first the upper halves of all, then the lower ones, then the seconds, little end first.
     */
    synchronized byte[] fresh() {
        int count = 0;
        more = false;
        for (int s = 0; s < SHARDS; s++) {
            synchronized (shards[s]) {
                more |= shards[s].freshCount > MOST_FRESH / SHARDS;
                listed[s] = Math.min(shards[s].freshCount, MOST_FRESH / SHARDS);
                count += listed[s];
            }
        }
        ByteBuffer rows = ByteBuffer.allocate(count * ROW_BYTES).order(ByteOrder.LITTLE_ENDIAN);
        int at = 0;
        for (int s = 0; s < SHARDS; s++) {
            Shard shard = shards[s];
            synchronized (shard) {
                for (int i = 0; i < listed[s]; i++, at++) {
                    rows.putLong(8 * at, shard.fresh[2 * i]);
                    rows.putLong(8 * (count + at), shard.fresh[2 * i + 1]);
                    rows.putInt(16 * count + 4 * at, shard.freshSince[i]);
                }
            }
        }
        return rows.array();
    }

    /** Whether there were more than `fresh` listed. */
    synchronized boolean hasMore() {
        return more;
    }

    /** What `fresh` listed last is kept by the caller. */
    synchronized void kept() {
        for (int s = 0; s < SHARDS; s++) {
            Shard shard = shards[s];
            synchronized (shard) {
                int from = listed[s];
                int to = Math.max(from + LEAST_FRESH, shard.freshCount);
                shard.fresh = Arrays.copyOfRange(shard.fresh, 2 * from, 2 * to);
                shard.freshSince = Arrays.copyOfRange(shard.freshSince, from, to);
                shard.freshCount -= from;
                listed[s] = 0;
            }
        }
    }

    /** Events that are held, and the bytes that they take. */
    long[] size() {
        long events = 0;
        long slots = 0;
        for (Shard shard : shards) {
            synchronized (shard) {
                events += shard.held.size();
                slots += shard.held.slots();
            }
        }
        return new long[] {events, slots * ROW_BYTES};
    }

    private Shard of(Event event) {
        return shards[(int) (event.low & (SHARDS - 1))];
    }

    private int oldest(long nowMs) {
        return seconds(nowMs - rule.windowMs());
    }

    private static int seconds(long millis) {
        return (int) (millis / 1_000);
    }
}
