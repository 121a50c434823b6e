package aggregator.connector;

import java.util.HashSet;
import java.util.Set;
import java.util.concurrent.ThreadLocalRandom;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.utils.BufferSupplier;

/**
 * Which batches of a task's partitions go to the hub as they are, and by which producer ids.
 *
 * <p>A batch is of one producer, and one that copies, as an aggregation that brings back what was
 * written at the hub, gives each record an origin. So where the first record has one, all go record
 * by record, and those that come from the hub are left out. One batch in a while goes so in any
 * case: so other loops are noticed, and the hub's records say what the ids mean. A run of an id
 * ends where an offset is missing or went another way; as each costs the hub's broker memory,
 * batches behind it go record by record for a while.
 *
 * <p>Used by the task's thread.
 */
final class WholeBatches implements Passing {
    /** Smaller ones cost a request what is cheaper for many records together. */
    static final int LEAST_BYTES = 8_192;
    /**
     * What a request is worth, in bytes of batches: there is one under way for all batches of a
     * broker. A smaller one that follows others, so that their run does not end with it, goes as it
     * is where larger ones have saved as much. With four times as many, batches of 53 kB saved
     * nothing: the small ones among them ended runs, and a tenth of the records went one by one.
     */
    static final int REQUEST_BYTES = 16_384;
    private static final int MOST_SAVED = 16 * REQUEST_BYTES;
    static final long RECORDS_EVERY_NANOS = 60_000_000_000L;
    static final long RUN_EVERY_NANOS = 10_000_000_000L;
    private static final int MOST_PRODUCERS = 1_000;

    /** What the task knows of a source partition. */
    private static final class Part {
        private final long name;
        private boolean isBarred;
        /** Producers whose batches have no origins: a broker gives no id to a second one. */
        private final Set<Long> natives = new HashSet<>();
        /** Where the batch begins that was found with origins last. */
        private long originsAt = -1;
        private int run;
        /** Behind the batch that was sent last. */
        private long next = -1;
        /** By how many bytes those that were sent are more than their requests are worth. */
        private int saved;
        private long recordsAt;
        private long runAt;

        private Part(long name, long now) {
            this.name = name;
            run = ThreadLocalRandom.current().nextInt();
            recordsAt = now;
            runAt = now;
        }
    }

    /** Whether all may be sent as fast as it is read. */
    interface Pace {
        boolean isLimited();
    }

    /** The number of a partition in the spec. */
    interface Numbers {
        int of(TopicPartition name);
    }

    /** By the system's clock that only counts. */
    interface Clock {
        long nanos();
    }

    private final TaskSpec spec;
    private final Numbers numbers;
    private final Pace pace;
    private final Clock clock;
    private final Part[] parts;
    private final byte[][] marks;
    private final BufferSupplier buffers = BufferSupplier.create();

    WholeBatches(TaskSpec spec, Numbers numbers, Pace pace, Clock clock) {
        this.spec = spec;
        this.numbers = numbers;
        this.pace = pace;
        this.clock = clock;
        marks = spec.origin.marks();
        parts = new Part[spec.parts.size()];
        for (int i = 0; i < parts.length; i++) {
            TaskSpec.Part part = spec.parts.get(i);
            if (part.route.batchBytes > 0 && !spec.numbered.isEmpty()) {
                long name = PassedOrigin.name(spec.cluster, part.topic, part.partition);
                parts[i] = new Part(name, clock.nanos());
            }
        }
    }

    @Override
    public boolean takes(TopicPartition of, BatchHead batch, long from) {
        int at = numbers.of(of);
        Part part = parts[at];
        if (part == null || part.isBarred || !mayGo(spec.parts.get(at), batch, from)) {
            return false;
        }
        boolean follows = batch.first() == part.next;
        if (isSmall(batch) && (!follows || part.saved < REQUEST_BYTES)) {
            return false;
        }
        long now = clock.nanos();
        if (now - part.recordsAt >= 0) {
            part.recordsAt = now + RECORDS_EVERY_NANOS;
            return false;
        }
        return (follows || now - part.runAt >= 0) && !hasOrigins(part, batch);
    }

    /** Whether its first record has an origin. One that cannot be read goes record by record. */
    private boolean hasOrigins(Part part, BatchHead batch) {
        if (batch.first() == part.originsAt) {
            return true;
        }
        long producer = batch.producerId();
        if (part.natives.contains(producer)) {
            return false;
        }
        if (batch.firstHasHeader(marks, buffers)) {
            part.originsAt = batch.first();
            return true;
        }
        if (producer >= 0) {
            if (part.natives.size() == MOST_PRODUCERS) {
                part.natives.clear();
            }
            part.natives.add(producer);
        }
        return false;
    }

    private static boolean isSmall(BatchHead batch) {
        return batch.size() < LEAST_BYTES;
    }

    private boolean mayGo(TaskSpec.Part part, BatchHead batch, long from) {
        return batch.size() <= part.route.batchBytes && batch.first() >= from
            && batch.last() < part.until && batch.first() >= part.skip.top() && part.later.isEmpty()
            && !pace.isLimited() && batch.isPlain()
            && PassedOrigin.holds(batch.first(), batch.last()) && part.route.limits.takes(batch);
    }

    /** The producer id of a batch that was taken and is sent now. */
    long send(int at, BatchHead batch) {
        Part part = parts[at];
        if (batch.first() != part.next || PassedOrigin.sequence(batch.first()) == 0) {
            part.run++;
            part.runAt = clock.nanos() + RUN_EVERY_NANOS;
        }
        part.next = batch.last() + 1;
        int saved = part.saved + batch.size() - REQUEST_BYTES;
        part.saved = Math.max(-MOST_SAVED, Math.min(saved, MOST_SAVED));
        return PassedOrigin.withRun(part.name, part.run);
    }

    /**
     * A record of a batch has come from the hub. Where the first record does not show that, only
     * records do, so none goes unseen.
     */
    void bar(int at, BatchHead batch) {
        Part part = parts[at];
        if (part != null && (batch == null || !hasOrigins(part, batch))) {
            part.isBarred = true;
        }
    }
}
