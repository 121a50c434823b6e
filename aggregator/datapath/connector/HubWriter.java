package aggregator.connector;

import java.util.ArrayList;
import java.util.BitSet;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.clients.producer.Callback;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.errors.InterruptException;
import org.apache.kafka.common.errors.RecordTooLargeException;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.errors.TimeoutException;

/**
 * All that a task writes to the hub with: its producers, and the room that they have.
 *
 * <p>The usual producer sends again what got no answer, and the hub knows it again by its sequence
 * number. So it does batches that have numbers of their own; the numbered producer, which gives
 * none, sends them again, with one request at a time for their order. For records with old
 * timestamps the hub forgets these numbers, so they go by a third one, the careful, that never
 * sends anything twice: without an answer it fails, and the hub is read. A place changes from one
 * to another when nothing of it is on its way. What may go of it, and what is held here, in order,
 * until it may: see {@link HubPlace}.
 *
 * <p>A place of which the hub takes nothing is left alone: when all else has its answers, its
 * producer is closed, and others go by a new one. What was under way there is lost, and the source
 * partitions that it was of are given up.
 *
 * <p>Used by the task's thread; answers come by those of the producers. After the first failure
 * nothing more is sent.
 */
final class HubWriter {
    /** The answer to what the careful producer had sent is not known, or was that it cannot now. */
    static final class NoAnswer extends RuntimeException {
        private static final long serialVersionUID = 1L;

        private NoAnswer(Exception error) {
            super(
                error + ": records older than the hub's producer.id.expiration.ms allows are not"
                + " sent again before the hub was read");
        }
    }

    /** The hub does not take what it was sent, for long, and answers, or does not. */
    static final class Stuck extends RuntimeException {
        private static final long serialVersionUID = 1L;

        private Stuck(String words) {
            super(words);
        }

        /**
         * The same with the source partitions whose records it is about, for the driver: it reads
         * what ended a lane as text, and starts the next one without them.
         */
        private Stuck of(List<String> parts) {
            return new Stuck(getMessage() + "; they are of " + String.join(", ", parts));
        }
    }

    /** The hub has lost what it had acknowledged: it is read, and what it lacks is sent again. */
    static final class CutOff extends RuntimeException {
        private static final long serialVersionUID = 1L;

        private CutOff(HubReach reach, long offset) {
            super(
                "hub partition " + reach
                + " has lost records that it had acknowledged, from offset " + offset
                + " on or before, as after an unclean election");
        }
    }

    /** What goes to a place at once: a record, or a batch of them. */
    interface Load {
        int bytes();

        /** Whether it has a producer's numbers, in which case only one that gives none sends it. */
        default boolean isNumbered() {
            return false;
        }

        /** Whether the producer keeps it in the buffer that it has for records. */
        boolean isOfProducersBuffer();

        void handTo(Producer<byte[], byte[]> producer, Sent sent);
    }

    /** A record. */
    record RecordLoad(ProducerRecord<byte[], byte[]> record, int bytes) implements Load {
        @Override
        public boolean isOfProducersBuffer() {
            return true;
        }

        @Override
        public void handTo(Producer<byte[], byte[]> producer, Sent sent) {
            producer.send(record, sent);
        }
    }

    /** A load on its way. `arrived` is called by a producer's thread. */
    abstract static class Sent implements Callback {
        /** The source partitions that its records are of. */
        final BitSet parts = new BitSet();

        private HubWriter writer;
        private HubPlace place;
        private int bytes;
        private boolean isBesideBuffer;
        /** Its number among those of its place, and what the place had acknowledged before it. */
        long number;
        long behind;

        /** How many records it has. */
        abstract int count();

        abstract void arrived(RecordMetadata metadata);

        /** Whether it arrived is not known, and its partition is given up. */
        abstract void lost();

        @Override
        public final void onCompletion(RecordMetadata metadata, Exception error) {
            try {
                completed(metadata, error);
            } catch (RuntimeException defect) {
                // Kafka only logs it, and then this waits for its answer for ever.
                writer.failed(place, defect);
            }
        }

        private void completed(RecordMetadata metadata, Exception error) {
            if (isBesideBuffer) {
                writer.besideBuffer.addAndGet(-bytes);
            }
            if (error != null) {
                if (place.broken) {
                    writer.lose(this);
                } else if (place.mayGoAgain(error)) {
                    writer.refused.add(place);
                } else {
                    writer.failed(place, error);
                }
                return;
            }
            if (place.isCutOff(this, metadata.offset())) {
                writer.cutOff(place, metadata.offset());
                place.answered(bytes);
                return;
            }
            arrived(metadata);
            place.answered(bytes);
            if (place.holds) {
                writer.wake.run();
            }
        }
    }

    /** Two settings of a producer, and Kafka's defaults for them. */
    static final String BATCH = "batch.size";
    static final long BATCH_BYTES = 16_384;
    static final String BUFFER = "buffer.memory";
    static final long BUFFER_BYTES = 33_554_432;
    private static final String UNDER_WAY = "max.in.flight.requests.per.connection";
    /** Kafka's own. */
    private static final long MOST_UNDER_WAY = 5;
    private static final String DELIVERY = "delivery.timeout.ms";

    /** Without an old record for this long, a place goes by the usual producer again. */
    private static final long CAREFUL_MS = 10_000;
    private static final long PATIENCE_NANOS = 200_000_000L;
    private static final long SLICE_MS = 1;
    /** A place may have this many times what is free: so something is always free for others. */
    private static final long TIMES_FREE = 4;
    /** At most this part of the buffer is held here beside it. */
    private static final long HELD_PART = 4;
    private static final long STUCK_TIMEOUTS = 4;
    /** Kafka's default for `delivery.timeout.ms`, and the part of it before it is over. */
    private static final long DELIVERY_MS = 120_000;
    private static final double STUCK_PART = 0.75;
    private static final long STUCK_RISE_MS = 4_000;
    /**
     * How long report points wait for an answer, and one that is left alone for those of others.
     */
    private static final long SILENT_MS = 2_000;
    /** Looks in a row with batches taken apart: a few may be, as compression is a guess. */
    private static final int MOST_SPLIT_LOOKS = 4;
    /** Until what the hub has refused for a moment is sent again. */
    private static final long AGAIN_MS = 1_000;

    private final TaskSpec spec;
    private final HubProducers producers;
    private final Runnable wake;
    /** Called before the task waits for a place to have room. */
    private Runnable beforeWaiting = this::throwFailure;
    private final HubPlace[] places;
    private final List<HubPlace> holding = new ArrayList<>();
    /** Places whose first record has to be sent again. */
    private final Queue<HubPlace> refused = new ConcurrentLinkedQueue<>();
    /** What came back of places that are left alone. */
    private final Queue<Sent> lost = new ConcurrentLinkedQueue<>();
    /** What is under way and not in the buffer of a producer. */
    private final AtomicLong besideBuffer = new AtomicLong();
    private final long buffer;
    private final long mostUnderWay;
    private final long chunk;
    private final long stuckMs;
    /** The same for a place of which nothing is known: shortly before a producer gives it up. */
    private final long unknownMs;
    private long now;
    private long oldBefore;
    private long free;
    private long heldBytes;
    private long retried;
    private long rises;
    private long splits;
    private int splitLooks;
    private long againAt;
    private volatile Throwable failure;

    HubWriter(TaskSpec spec, HubProducers producers, Runnable wake, long nowMs) {
        this.spec = spec;
        this.producers = producers;
        this.wake = wake;
        places = new HubPlace[spec.placeTopics.size()];
        for (int i = 0; i < places.length; i++) {
            places[i] = new HubPlace(
                HubReach.of(spec.key, spec.placeTopics.get(i), spec.placePartitions.get(i)));
            places[i].waitsFrom = nowMs;
        }
        buffer = number(spec.producer, BUFFER, BUFFER_BYTES);
        mostUnderWay = number(spec.producer, UNDER_WAY, MOST_UNDER_WAY);
        chunk = number(spec.producer, BATCH, BATCH_BYTES);
        unknownMs = (long) (STUCK_PART * number(spec.producer, DELIVERY, DELIVERY_MS));
        long request = number(spec.producer, "request.timeout.ms", 30_000);
        stuckMs = Math.min(STUCK_TIMEOUTS * request, unknownMs);
        look(nowMs);
    }

    /** What is called before the task waits for room: it hands over what it has kept so far. */
    void beforeWaiting(Runnable action) {
        beforeWaiting = action;
    }

    /** Why nothing more is sent; null while all is well. By any thread. */
    Throwable failure() {
        return failure;
    }

    /** By the task's thread. */
    void throwFailure() {
        if (failure instanceof TimeoutException late) {
            // The producer has given it up, as on executors: another one is to go without it.
            BitSet parts = partsOf(silent());
            failure = parts.isEmpty() ? late : new Stuck(late.getMessage()).of(spec.names(parts));
        }
        if (failure != null) {
            throw new IllegalStateException(failure.getMessage(), failure);
        }
    }

    /** Records that the hub answered with an error and that were sent again, as Kafka counts. */
    long retried() {
        return producers.retried();
    }

    /** Whether the producer has as many requests for a hub partition under way as it may have. */
    boolean isBusy(int place) {
        return places[place].unanswered() >= mostUnderWay;
    }

    /** Takes the time, a few times a second at least, and hands over what has waited. */
    void look(long nowMs) {
        now = nowMs;
        oldBefore = spec.freshMs > 0 ? nowMs - spec.freshMs : Long.MAX_VALUE;
        free = free();
        pump();
    }

    /** Looks at each place, about twice a second; one that is stuck, null when none is. */
    Stuck tick() {
        long total = retried();
        if (total > retried) {
            retried = total;
            rises++;
        }
        if (producers.hasCareful()) {
            becomeUsual();
        }
        for (int i = 0; i < places.length; i++) {
            HubPlace place = places[i];
            // The clock may have been set back.
            place.waitsFrom = Math.min(place.waitsFrom, now);
            if (!place.isStalled(now, spec.freshMs)) {
                place.waitsFrom = now;
                place.rises = rises;
            } else if (isStuck(place)) {
                place.broken = true;
                return stuck(i);
            }
            if (place.isEmpty()) {
                place.parts.clear();
            }
        }
        lookAtSplits();
        return null;
    }

    /**
     * A producer of records makes the same batches of one that it takes apart (KAFKA-8350): when a
     * hub topic takes less than it did, it would repeat that until it gives up, and its place has
     * no answer. The next one has batches of another size.
     */
    private void lookAtSplits() {
        long total = producers.splits();
        splitLooks = total > splits ? splitLooks + 1 : 0;
        splits = total;
        if (splitLooks > MOST_SPLIT_LOOKS && !silent().isEmpty()) {
            failed(
                null,
                new RecordTooLargeException(
                    "the hub refuses batches as too large, again and again: one of its topics takes"
                    + " less than when the task began"));
        }
    }

    /** After `tick`: the places of which nothing was answered for a while. */
    BitSet silent() {
        BitSet silent = new BitSet();
        for (int i = 0; i < places.length; i++) {
            if (!places[i].isEmpty() && now - places[i].waitsFrom > SILENT_MS) {
                silent.set(i);
            }
        }
        return silent;
    }

    /** The source partitions of what is on its way to these places or held for them, and more. */
    BitSet partsOf(BitSet places) {
        BitSet parts = new BitSet();
        places.stream().forEach(i -> parts.or(this.places[i].parts));
        return parts;
    }

    /**
     * After `tick`: waits two seconds at most until all but what is stuck or silent has its answer.
     * Returns the source partitions of what has none then; meanwhile nothing is handed over.
     */
    BitSet drain() {
        BitSet silent = silent();
        long until = System.nanoTime() + SILENT_MS * 1_000_000;
        while (failure == null && waits(silent) && System.nanoTime() - until < 0) {
            pause(SLICE_MS);
        }
        BitSet parts = new BitSet();
        boolean more = true;
        while (more) {
            more = false;
            for (HubPlace place : places) {
                // What was refused for a moment goes again, unless its partition is given up.
                boolean waits = refused.contains(place) && !place.broken;
                boolean fails = place.underWay() > 0 && (!waits || place.parts.intersects(parts));
                if (fails && !place.counted) {
                    place.broken = true;
                    place.counted = true;
                    parts.or(place.parts);
                    more = true;
                }
                more |= place.spread(parts);
            }
        }
        return parts;
    }

    private boolean waits(BitSet silent) {
        for (int i = 0; i < places.length; i++) {
            HubPlace place = places[i];
            boolean mayAnswer = !place.broken && !silent.get(i) && !refused.contains(place);
            if (mayAnswer && place.underWay() > 0) {
                return true;
            }
        }
        return false;
    }

    /**
     * After `drain`: closes the producers that have something on its way, and makes others. Nothing
     * more is sent of these source partitions; returns all that may or may not have arrived.
     */
    List<Sent> leave(BitSet parts) {
        for (HubProducers.Way way : HubProducers.Way.values()) {
            closeBroken(way);
        }
        List<Sent> gone = new ArrayList<>();
        for (Sent each = lost.poll(); each != null; each = lost.poll()) {
            gone.add(each);
        }
        heldBytes = 0;
        for (HubPlace place : places) {
            place.drop(parts, gone);
            heldBytes += place.heldBytes;
            if (place.broken && refused.remove(place)) {
                gone.add(place.first().sent());
            }
            if (place.broken) {
                place.begin();
            }
        }
        free = free();
        return gone;
    }

    private void closeBroken(HubProducers.Way way) {
        boolean broken = false;
        for (HubPlace place : places) {
            broken |= place.broken && place.way == way;
        }
        if (!broken) {
            return;
        }
        // What it had under way comes back meanwhile, each time with an error. Its own thread may
        // have closed it already, but does not wait for that.
        producers.close(way);
        for (HubPlace place : places) {
            if (place.way == way && place.underWay() == 0) {
                // To the next one it is new.
                place.known = false;
            }
        }
        producers.renew(way);
    }

    /** By the thread that had the answer; see `failed`. */
    private void lose(Sent sent) {
        lost.add(sent);
        producers.closeOnce(sent.place.way);
    }

    /** Ends it for what `tick` has found, which is of these source partitions. */
    void fail(Stuck stuck, BitSet parts) {
        failed(null, stuck.of(spec.names(parts)));
    }

    /** Places go by the usual producer again when the old records are through. */
    private void becomeUsual() {
        boolean needed = false;
        for (HubPlace place : places) {
            boolean isCareful = place.way == HubProducers.Way.CAREFUL && place.underWay() > 0;
            needed |= isCareful || !place.held.isEmpty() || now <= place.carefulUntil;
        }
        if (!needed) {
            producers.close(HubProducers.Way.CAREFUL);
            producers.renew(HubProducers.Way.CAREFUL);
        }
    }

    /** Whether a record may be handed over; waits a little for a place that is full. */
    boolean takes(int number, int bytes) {
        HubPlace place = places[number];
        if (!isFull(place, bytes)) {
            return true;
        }
        place.fullFor = Math.max(place.fullFor, bytes);
        if (place.fullAt == place.acknowledged.get()) {
            // It was waited for before, and nothing has come.
            return false;
        }
        beforeWaiting.run();
        long seen = -1;
        long until = 0;
        while (failure == null) {
            free = free();
            pump();
            if (!isFull(place, bytes)) {
                return true;
            }
            long nanos = System.nanoTime();
            if (place.acknowledged.get() != seen) {
                seen = place.acknowledged.get();
                until = nanos + PATIENCE_NANOS;
            } else if (nanos - until > 0) {
                place.fullAt = seen;
                return false;
            }
            pause(SLICE_MS);
        }
        return true;
    }

    /** Why the hub refuses for a moment what was sent to a place; null while it does not. */
    String refusal(int number) {
        return places[number].refusal();
    }

    /** Whether a place has room by now for all that `takes` has refused. */
    boolean hasRoom(int number) {
        HubPlace place = places[number];
        boolean room = !isFull(place, place.fullFor);
        if (room) {
            place.fullFor = 0;
        }
        return room;
    }

    /** Sends it, or holds it until that may be. `timestamp` is below 0 where it has none. */
    void send(int number, Load load, long timestamp, Sent sent) {
        HubPlace place = places[number];
        HubProducers.Way way = wayOf(place, load, timestamp);
        sent.writer = this;
        sent.place = place;
        int bytes = load.bytes();
        sent.bytes = bytes;
        sent.isBesideBuffer = !load.isOfProducersBuffer();
        place.parts.or(sent.parts);
        if (place.held.isEmpty() && place.mayGo(way)) {
            give(place, load, sent);
            return;
        }
        if (place.held.isEmpty()) {
            place.holds = true;
            holding.add(place);
        }
        place.held.add(new HubPlace.Held(load, sent, bytes, way));
        place.heldBytes += bytes;
        heldBytes += bytes;
    }

    private HubProducers.Way wayOf(HubPlace place, Load load, long timestamp) {
        if ((timestamp < 0 ? now : timestamp) < oldBefore) {
            place.carefulUntil = now + CAREFUL_MS;
        }
        if (now <= place.carefulUntil) {
            return HubProducers.Way.CAREFUL;
        }
        return load.isNumbered() ? HubProducers.Way.NUMBERED : HubProducers.Way.USUAL;
    }

    /** Hands over what may go by now. */
    private void pump() {
        // Also when the clock was set back meanwhile.
        boolean due = now >= againAt || againAt - now > AGAIN_MS;
        boolean again = !refused.isEmpty() && due;
        if (again || !holding.isEmpty()) {
            // Time went by, and with it the lease perhaps.
            WriteGuard.await();
        }
        if (again) {
            againAt = now + AGAIN_MS;
            for (int left = refused.size(); left > 0 && failure == null; left--) {
                HubPlace.Held first = refused.remove().first();
                send(HubProducers.Way.CAREFUL, first.load(), first.sent());
            }
        }
        for (int i = holding.size() - 1; i >= 0 && failure == null; i--) {
            HubPlace place = holding.get(i);
            while (!place.held.isEmpty() && place.mayGo(place.held.peek().way())) {
                HubPlace.Held next = place.held.poll();
                place.heldBytes -= next.bytes();
                heldBytes -= next.bytes();
                give(place, next.load(), next.sent());
            }
            if (place.held.isEmpty()) {
                place.holds = false;
                holding.remove(i);
            }
        }
    }

    /**
     * Ends it at once, or when more is known of a hub that has lost something: what was under way
     * may fill other partitions up to where they were. When it returns no thread of a producer is
     * left.
     */
    void close() {
        if (failure == null) {
            failure = new IllegalStateException("the task is closed");
        }
        boolean interrupted = HubReach.isCut(spec.key) && !hearOut();
        producers.closeAll();
        if (interrupted) {
            Thread.currentThread().interrupt();
        }
    }

    /** Waits for what is under way, two seconds at most; false where it is interrupted. */
    private boolean hearOut() {
        long until = System.nanoTime() + SILENT_MS * 1_000_000;
        try {
            while (waits(new BitSet()) && System.nanoTime() - until < 0) {
                pause(SLICE_MS);
            }
            return true;
        } catch (InterruptException interrupted) {
            return !Thread.interrupted();
        }
    }

    private void give(HubPlace place, Load load, Sent sent) {
        throwFailure();
        free -= sent.bytes;
        place.gives(load, sent, sent.bytes);
        send(place.way, load, sent);
    }

    private void send(HubProducers.Way way, Load load, Sent sent) {
        Producer<byte[], byte[]> producer = producers.get(way);
        if (sent.isBesideBuffer) {
            besideBuffer.addAndGet(sent.bytes);
        }
        try {
            load.handTo(producer, sent);
        } catch (RuntimeException error) {
            // What closed it says more.
            throwFailure();
            throw error;
        }
    }

    /**
     * By the thread that had the answer. First of all the producer is closed: its thread would send
     * the next batch of the same place, which would then come before what has failed.
     */
    private void failed(HubPlace place, Exception error) {
        synchronized (this) {
            if (failure != null) {
                return;
            }
            boolean isCareful = place != null && place.way == HubProducers.Way.CAREFUL;
            failure =
                isCareful && error instanceof RetriableException ? new NoAnswer(error) : error;
        }
        // Where the hub has lost something `close` waits for what is under way.
        if (!(failure instanceof CutOff)) {
            producers.close(place == null ? HubProducers.Way.USUAL : place.way);
        }
        wake.run();
    }

    /** By the thread that had the answer. No position counts it, nor what comes after it. */
    private void cutOff(HubPlace place, long offset) {
        // First: the failure is reported with it.
        place.reach.cutOff(offset);
        failed(place, new CutOff(place.reach, offset));
    }

    /** Whether a place takes so much that others would find nothing. */
    private boolean isFull(HubPlace place, int bytes) {
        long room = free - heldBytes;
        long own = place.underWay() + place.heldBytes;
        if (!place.held.isEmpty() && heldBytes > buffer / HELD_PART) {
            return true;
        }
        if (own > 0 && own > TIMES_FREE * room) {
            return true;
        }
        return free < buffer && Math.max(bytes, chunk) > room && free() < buffer;
    }

    private long free() {
        return Math.min(producers.free(), buffer - besideBuffer.get());
    }

    /**
     * Whether the hub refuses again and again what it would take if it knew the numbers before. A
     * place that it never took anything of from this producer is waited for as long as the producer
     * waits: there is one request for it, and nothing that could be known.
     */
    private boolean isStuck(HubPlace place) {
        long limit = limitMs(place);
        return failure == null && now - place.waitsFrom > limit
            && (place.way == HubProducers.Way.CAREFUL
                    ? place.refusal() != null
                    : (rises - place.rises) * STUCK_RISE_MS > limit);
    }

    private long limitMs(HubPlace place) {
        return place.known && place.way != HubProducers.Way.CAREFUL ? stuckMs : unknownMs;
    }

    private Stuck stuck(int at) {
        return new Stuck(
            "hub partition " + spec.placeTopics.get(at) + "-" + spec.placePartitions.get(at)
            + " has not taken the same records for " + limitMs(places[at]) / 1000
            + " s, though the hub answers");
    }

    /** A setting of a producer, where it has a number. */
    static long number(Map<String, String> settings, String name, long otherwise) {
        return Long.parseLong(settings.getOrDefault(name, Long.toString(otherwise)).trim());
    }

    private static void pause(long millis) {
        try {
            Thread.sleep(millis);
        } catch (InterruptedException interrupted) {
            throw new InterruptException(interrupted);
        }
    }
}
