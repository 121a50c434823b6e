package aggregator.connector;

import java.util.ArrayDeque;
import java.util.BitSet;
import java.util.List;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.common.errors.NotEnoughReplicasException;

/**
 * A hub partition, as far as a task writes there: what of it may go, what is held, what is under
 * way. Used by the task's thread; answers come by a producer's.
 *
 * <p>The hub takes any sequence number as the first of a producer. So the first record is
 * acknowledged before a second one is handed over. That is so with the careful producer, too:
 * nothing is behind its first record, which can go again when too few replicas had refused it.
 */
final class HubPlace {
    record Held(HubWriter.Load load, HubWriter.Sent sent, int bytes, HubProducers.Way way) {}

    final ArrayDeque<Held> held = new ArrayDeque<>();
    volatile boolean holds;
    long heldBytes;
    /** Until when all of it goes by the careful producer, and which producer had the last one. */
    long carefulUntil;
    volatile HubProducers.Way way = HubProducers.Way.USUAL;
    /** Whether the hub has taken something of the producer that had the last one. */
    volatile boolean known;
    private Held first;
    private volatile String refusal;
    private long given;
    final HubReach reach;
    /** The last that was handed over, and the last that has arrived with the end of its records. */
    private long number;
    private long arrivedNumber;
    private long arrivedEnd;
    final AtomicLong acknowledged = new AtomicLong();
    /** What was acknowledged when it was looked at last, and when that became more. */
    private long seen;
    private long answeredAt;
    /** The source partitions of what is on its way or held; more where it was never empty since. */
    final BitSet parts = new BitSet();
    /** Its producer is closed for it: what comes back with an error is lost, and no failure. */
    volatile boolean broken;
    /** Whether what is lost with it is counted. */
    boolean counted;
    /** Since when the same records wait, and how often something was sent again before. */
    long waitsFrom;
    long rises;
    /** What was acknowledged when it was found to be full; below 0 when it was not. */
    long fullAt = -1;
    /** The largest record that it was too full for since it had room last. */
    int fullFor;

    HubPlace(HubReach reach) {
        this.reach = reach;
    }

    long underWay() {
        return given - acknowledged.get();
    }

    /** How many loads have no answer yet; more where answers were errors. */
    long unanswered() {
        // That nothing is under way is known of errors too, and makes the other number visible.
        return underWay() == 0 ? 0 : number - arrivedNumber;
    }

    /** Whether its next load may be handed over by this producer, which then has the place. */
    boolean mayGo(HubProducers.Way next) {
        if (way == next && known) {
            return true;
        }
        if (underWay() > 0) {
            return false;
        }
        way = next;
        // With one request at a time no second one can overtake the first.
        known = next == HubProducers.Way.NUMBERED;
        return true;
    }

    /** A record is handed over. */
    void gives(HubWriter.Load load, HubWriter.Sent sent, int bytes) {
        given += bytes;
        sent.number = ++number;
        sent.behind = reach.end();
        if (!known) {
            first = new Held(load, sent, bytes, way);
        }
    }

    /**
     * The one after which nothing was handed over before it had an answer; null when that was good.
     */
    Held first() {
        return first;
    }

    /**
     * By a producer's thread, of what has arrived at this offset, below 0 if unknown: whether the
     * hub has lost what it had acknowledged before this was handed over, or what was handed over
     * before it. An answer alone that comes late, as one for what is sent again, proves nothing.
     */
    boolean isCutOff(HubWriter.Sent sent, long first) {
        if (first < 0) {
            return false;
        }
        boolean isLast = sent.number > arrivedNumber;
        if (first < sent.behind || isLast && first < arrivedEnd) {
            return true;
        }
        long end = first + sent.count();
        if (isLast) {
            arrivedNumber = sent.number;
            arrivedEnd = end;
        }
        reach.acknowledged(end);
        return false;
    }

    /** By a producer's thread; there is one at a time. */
    void answered(int bytes) {
        long sum = acknowledged.get() + bytes;
        if (known) {
            acknowledged.lazySet(sum);
        } else {
            // It may be as large as a batch, and each place has one.
            first = null;
            refusal = null;
            known = true;
            acknowledged.set(sum);
        }
    }

    /**
     * By a producer's thread: whether what has failed may be sent again. The hub has certainly not
     * written it, as it says after that with another error that it has too few replicas; and
     * nothing is under way that would come before it.
     */
    boolean mayGoAgain(Exception error) {
        boolean isFirst = way == HubProducers.Way.CAREFUL && !known;
        boolean again = isFirst && error instanceof NotEnoughReplicasException;
        if (again) {
            refusal = error.getMessage();
        }
        return again;
    }

    /** Why the hub does not take the first record at present; null when nothing is known of it. */
    String refusal() {
        return refusal;
    }

    boolean isEmpty() {
        return held.isEmpty() && underWay() == 0;
    }

    /**
     * Adds the source partitions of what it holds that is of one of these; false if none is new.
     */
    boolean spread(BitSet parts) {
        int before = parts.cardinality();
        for (Held each : held) {
            if (parts.intersects(each.sent().parts)) {
                parts.or(each.sent().parts);
            }
        }
        return parts.cardinality() > before;
    }

    /** Holds no record of these source partitions any more; what it held of them is `lost`. */
    void drop(BitSet parts, List<HubWriter.Sent> lost) {
        held.removeIf(each -> {
            boolean dropped = parts.intersects(each.sent().parts);
            if (dropped) {
                lost.add(each.sent());
                heldBytes -= each.bytes();
            }
            return dropped;
        });
    }

    /** Nothing is under way any more, by a producer that is closed; the next record is a first. */
    void begin() {
        acknowledged.set(given);
        known = false;
        broken = false;
        counted = false;
        refusal = null;
        fullAt = -1;
    }

    /** Whether something is under way of which nothing was acknowledged since the last look. */
    boolean isStalled(long now, long freshMs) {
        long sum = acknowledged.get();
        if (sum != seen) {
            seen = sum;
            answeredAt = now;
        } else if (given != sum) {
            return true;
        } else if (known && now - answeredAt > freshMs) {
            // By now the hub may have forgotten the numbers.
            known = false;
        }
        return false;
    }
}
