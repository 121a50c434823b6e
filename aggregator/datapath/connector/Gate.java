package aggregator.connector;

import org.apache.kafka.common.errors.InterruptException;
import org.apache.kafka.common.header.Headers;
import org.apache.spark.SparkEnv;

/** A task's side of the {@link Claims}: whether a record is the first of its event. */
final class Gate {
    enum Verdict { SEND, DROP, WAIT }

    /** As a rule the hub acknowledges sooner; else the others of the task are not to wait. */
    private static final long PATIENCE_MS = 200;

    private final Claims.Owner owner = new Claims.Owner();
    private final Runnable beforeWaiting;
    private final EventHash hash = new EventHash();
    private final Claims[] claims;
    private final OriginReader.Place[] places;
    private final long[] dropped;
    private final long[] without;
    /** Of the record that was judged last: its claim if it must be sent and has an event. */
    Claims.Claim claim;
    /** Why it is dropped, or waits. */
    String reason;

    /** The action is called before it waits for an event that may be on its way. */
    Gate(TaskSpec spec, Runnable beforeWaiting) {
        this.beforeWaiting = beforeWaiting;
        int count = spec.parts.size();
        claims = new Claims[count];
        places = new OriginReader.Place[count];
        dropped = new long[count];
        without = new long[count];
        for (int i = 0; i < count; i++) {
            TaskSpec.Part part = spec.parts.get(i);
            claims[i] = Dedup.opened(part.route);
            places[i] = new OriginReader.Place(spec.cluster, part.topic, part.partition);
        }
    }

    /** Whether records of this part are judged at all. */
    boolean guards(int part) {
        return claims[part] != null;
    }

    /** Whether they are judged by these claims. */
    boolean goesBy(Claims some, int part) {
        return claims[part] == some;
    }

    /** Judges a record in the form to send; waits a little for one that is in flight. */
    Verdict judge(int part, byte[] key, byte[] value, Headers headers, long offset) {
        Claims own = claims[part];
        claim = null;
        reason = null;
        if (!own.isReady()) {
            reason = "driver".equals(SparkEnv.get().executorId())
                ? "the events that its hub topic holds are being read"
                : "topics.dedup does not work on executors: set spark.master: auto, and let no"
                    + " other master be submitted to";
            return Verdict.WAIT;
        }
        byte[] id = own.rule.id(key, value, headers);
        if (id == null) {
            without[part]++;
            return Verdict.SEND;
        }
        Claims.Claim mine = new Claims.Claim(hash.of(id), places[part], offset, owner);
        Claims.Claim found = own.take(mine, DriverClock.now());
        if (found != mine && found != null) {
            beforeWaiting.run();
            await(own, found);
            // Time went by, and with it the lease perhaps.
            WriteGuard.await();
            found = own.take(mine, DriverClock.now());
        }
        if (found == null) {
            reason = "duplicate " + own.rule.by() + " " + EventHash.describe(id);
            dropped[part]++;
            return Verdict.DROP;
        }
        if (found != mine) {
            reason = "its event is that of " + found + ", which is on its way to the hub";
            return Verdict.WAIT;
        }
        claim = mine;
        return Verdict.SEND;
    }

    /** The hub has acknowledged the record of a claim. By the producer's thread. */
    void arrived(int part, Claims.Claim claim, int partition, long end) {
        claims[part].arrived(claim, partition, end, DriverClock.now());
    }

    /** Nothing of this task is sent any more. */
    void gone() {
        owner.gone(System.nanoTime());
    }

    /** Adds what was dropped of a part, and had no event, to these two numbers. */
    void count(int part, long[] counts, int at) {
        counts[at] += dropped[part];
        counts[at + 1] += without[part];
    }

    private static void await(Claims own, Claims.Claim found) {
        try {
            own.await(found, PATIENCE_MS);
        } catch (InterruptedException interrupted) {
            throw new InterruptException(interrupted);
        }
    }
}
