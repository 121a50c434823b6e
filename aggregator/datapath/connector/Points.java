package aggregator.connector;

import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.BitSet;
import java.util.Deque;
import java.util.concurrent.atomic.AtomicLong;

/**
 * Report points of one task, found without waiting for anything. Pure.
 *
 * <p>The time between two report points is an epoch. Each record is sent in one; when the task
 * closes an epoch it notes its positions, and when all records of that epoch and those before are
 * acknowledged, these positions hold: everything below them is in the hub. What they do not cover
 * was sent later, so per hub partition it lies at or behind the highest acknowledged offset of the
 * epochs that are covered, and at or behind the hub snapshot that was known when the epoch closed.
 *
 * <p>While hub partitions give no answer, what goes elsewhere need not wait: see `pass`.
 *
 * <p>The task's thread sends and closes, those of its producers acknowledge; `settle` may be called
 * by any.
 */
final class Points {
    /** Some records that were sent between two report points. */
    static final class Epoch {
        private final AtomicLong acknowledged = new AtomicLong();
        private final long[] ends;
        /** Records by their places: sent by the task's thread, answered or lost. */
        private final long[] sentTo;
        private final long[] answered;
        private long sent;
        /** Of the last epoch whose point it is: they count up. */
        private long number;
        private long[] positions;
        private Feed.State[] states;
        private long snapshot;
        private long closedAtMs;
        /** The ends of later epochs whose point it is as well; null for none. */
        private long[] covered;

        private Epoch(int places) {
            ends = new long[places];
            sentTo = new long[places];
            answered = new long[places];
        }

        /** By a producer's thread, one for a place: the NEXT hub offset, below 1 if unknown. */
        void acknowledge(int place, long end) {
            acknowledge(place, end, 1);
        }

        /** The same for several records at once. */
        void acknowledge(int place, long end, int records) {
            if (end > ends[place]) {
                ends[place] = end;
            }
            answered[place] += records;
            // Publishes both. A task has two producers, each with a thread of its own.
            acknowledged.getAndAdd(records);
        }

        private boolean isDone() {
            return acknowledged.get() == sent;
        }

        /** Whether nothing but records for these places waits for an answer. */
        private boolean isDoneBut(BitSet places) {
            if (isDone()) {
                return true;
            }
            for (int i = places.nextClearBit(0); i < sentTo.length;
                 i = places.nextClearBit(i + 1)) {
                if (answered[i] != sentTo[i]) {
                    return false;
                }
            }
            return true;
        }

        /** By the task's thread: some of its records are lost, and their partitions given up. */
        void lose(int place, int records) {
            answered[place] += records;
            acknowledged.getAndAdd(records);
        }

        private void note(
            long number, long[] positions, Feed.State[] states, long snapshot, long nowMs) {
            this.number = number;
            this.positions = positions.clone();
            this.states = states.clone();
            this.snapshot = snapshot;
            closedAtMs = nowMs;
        }

        /** What only waits for this one holds when this one does: it is the point of both. */
        private void cover(Epoch done) {
            note(done.number, done.positions, done.states, done.snapshot, done.closedAtMs);
            if (covered == null) {
                covered = new long[ends.length];
            }
            raise(covered, done.ends);
            raise(covered, done.covered);
        }
    }

    /** The newest report point that holds. `ends` are 0 where nothing was written. */
    record Point(
        long number, long[] positions, Feed.State[] states, long[] ends, long snapshot, long atMs) {
    }

    /** With more epochs than this, those that wait for others alone are joined with these. */
    static final int MANY = 64;

    private final int places;
    private final int many;
    private final ArrayDeque<Epoch> closed = new ArrayDeque<>();
    private Epoch open;
    private Point newest;
    /** Where partitions were given up; below 0 for all others. */
    private final long[] given;
    /** Up to which epoch the newest point has what each partition has sent. */
    private final long[] passed;
    private long epochs;

    Points(long[] positions, Feed.State[] states, int places, long snapshot, long nowMs) {
        this(positions, states, places, snapshot, nowMs, MANY);
    }

    Points(long[] positions, Feed.State[] states, int places, long snapshot, long nowMs, int many) {
        this.places = places;
        this.many = many;
        this.open = new Epoch(places);
        given = new long[positions.length];
        passed = new long[positions.length];
        Arrays.fill(given, -1);
        this.newest =
            new Point(0, positions.clone(), states.clone(), new long[places], snapshot, nowMs);
    }

    /** By the task's thread, before it sends a record: the epoch to acknowledge it in. */
    Epoch sending(int place) {
        return sending(place, 1);
    }

    /** The same before it sends several at once. */
    Epoch sending(int place, int records) {
        open.sentTo[place] += records;
        open.sent += records;
        return open;
    }

    /** The epoch of what is sent next. By the task's thread. */
    Epoch open() {
        return open;
    }

    /** Whether closing now would say anything new. By the task's thread. */
    boolean stale(long[] positions, Feed.State[] states, long snapshot) {
        synchronized (closed) {
            if (open.sent > 0) {
                return true;
            }
            Epoch last = closed.peekLast();
            long[] reported = last == null ? newest.positions : last.positions;
            long known = last == null ? newest.snapshot : last.snapshot;
            Feed.State[] stood = last == null ? newest.states : last.states;
            return known != snapshot || !Arrays.equals(reported, capped(positions))
                || !Arrays.equals(stood, states);
        }
    }

    /**
     * Ends the epoch, by the task's thread, between two records. While the hub does not answer for
     * one partition, epochs become no more by time alone: only those wait of which it has records.
     */
    void close(long[] positions, Feed.State[] states, long snapshot, long nowMs) {
        open.note(++epochs, capped(positions), states, snapshot, nowMs);
        synchronized (closed) {
            Epoch last = closed.peekLast();
            if (last != null && open.sent == 0) {
                last.cover(open);
            } else {
                closed.addLast(open);
            }
            if (closed.size() > many) {
                join();
            }
        }
        open = new Epoch(places);
    }

    /**
     * By the task's thread: these partitions are given up where the newest point has them, and from
     * the next one on they have this state. Before what they have lost is counted as answered.
     */
    void giveUp(BitSet parts, Feed.State state) {
        synchronized (closed) {
            settle();
            parts.stream().filter(at -> given[at] < 0).forEach(at -> {
                given[at] = newest.positions[at];
                for (Epoch each : closed) {
                    each.positions[at] = given[at];
                    each.states[at] = state;
                }
            });
        }
    }

    private long[] capped(long[] positions) {
        long[] capped = positions.clone();
        for (int i = 0; i < capped.length; i++) {
            capped[i] = given[i] < 0 ? capped[i] : given[i];
        }
        return capped;
    }

    /** The newest report point that holds by now. */
    Point settle() {
        synchronized (closed) {
            Epoch head = closed.peekFirst();
            while (head != null && head.isDone()) {
                long[] ends = newest.ends.clone();
                raise(ends, head.ends);
                raise(ends, head.covered);
                newest = point(head, new BitSet(), ends, head.snapshot, head.closedAtMs);
                closed.pollFirst();
                head = closed.peekFirst();
            }
            return newest;
        }
    }

    /**
     * By the task's thread: these places give no answer, and no other partition than these has
     * anything on its way there. So the others advance to the last epoch of which all else has its
     * answer. The bound stays that of the newest point, which is lower: what the point does not
     * cover of these partitions was sent after that one.
     */
    void pass(BitSet silent, BitSet parts) {
        synchronized (closed) {
            settle();
            Epoch last = null;
            for (Epoch each : closed) {
                if (!each.isDoneBut(silent)) {
                    break;
                }
                last = each;
            }
            if (last != null && hasNews(last, parts)) {
                newest = point(last, parts, newest.ends, newest.snapshot, newest.atMs);
            }
        }
    }

    private boolean hasNews(Epoch epoch, BitSet but) {
        for (int i = but.nextClearBit(0); i < passed.length; i = but.nextClearBit(i + 1)) {
            boolean later = epoch.number > passed[i];
            if (later && epoch.positions[i] != newest.positions[i]
                || later && epoch.states[i] != newest.states[i]) {
                return true;
            }
        }
        return false;
    }

    /** The newest point, with what an epoch says of all partitions but these, if it is later. */
    private Point point(Epoch epoch, BitSet but, long[] ends, long snapshot, long atMs) {
        long[] positions = newest.positions.clone();
        Feed.State[] states = newest.states.clone();
        for (int i = but.nextClearBit(0); i < passed.length; i = but.nextClearBit(i + 1)) {
            if (epoch.number >= passed[i]) {
                positions[i] = epoch.positions[i];
                states[i] = epoch.states[i];
                passed[i] = epoch.number;
            }
        }
        return new Point(newest.number + 1, positions, states, ends, snapshot, atMs);
    }

    /** How many epochs wait for acknowledgements. */
    int waiting() {
        synchronized (closed) {
            return closed.size();
        }
    }

    private void join() {
        Deque<Epoch> all = new ArrayDeque<>(closed);
        closed.clear();
        for (Epoch each : all) {
            if (each.isDone() && !closed.isEmpty()) {
                closed.peekLast().cover(each);
            } else {
                closed.addLast(each);
            }
        }
    }

    private static void raise(long[] ends, long[] by) {
        for (int i = 0; by != null && i < ends.length; i++) {
            ends[i] = Math.max(ends[i], by[i]);
        }
    }

    /** Whether everything that was sent is acknowledged and covered. By the task's thread. */
    boolean settled() {
        settle();
        synchronized (closed) {
            return closed.isEmpty() && open.sent == 0;
        }
    }
}
