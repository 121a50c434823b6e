package aggregator.connector;

import java.util.BitSet;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.header.Headers;

/**
 * What becomes of the record that a task has read last: it goes to where its route says, with its
 * origin, and as bytes where that is enough; or to a topic beside it; or its partition stops before
 * it.
 *
 * <p>Used by the task's thread.
 */
final class RecordSender {
    /** Until a partition that waits for another record is looked at again. */
    private static final long RESUME_NANOS = 500_000_000L;
    /** About what a record's headers and the rest of it take. */
    private static final int RECORD_OVERHEAD_BYTES = 150;

    final TaskCounts counts;
    final Gate gate;
    final SchemaIds.Asked asked = new SchemaIds.Asked();
    private final TaskSpec spec;
    private final Feed feed;
    private final HubWriter hub;
    private final Points points;
    /** The way of bytes; null where records are objects. */
    private final HubBatches batches;
    private final OriginBytes[] origins;
    private final byte[][] marks;
    private final Delivery.Counters counters;
    private final HubBatches.Deliveries begin = this::begin;
    private final Bucket records = new Bucket(System.nanoTime());
    private final Bucket bytes = new Bucket(System.nanoTime());
    private final SchemaPatch schemas;
    private final WholeBatches wholes;
    /** When partitions that wait for another record resume; 0 when there are none. */
    private long resumeAt;
    /** Places for which partitions wait because they are full. */
    private final BitSet full = new BitSet();
    private boolean hasStopped;

    /** `areBytes`: whether records are copied as bytes. */
    RecordSender(TaskSpec spec, boolean areBytes, Feed feed, HubWriter hub, Points points) {
        this.spec = spec;
        this.feed = feed;
        this.hub = hub;
        this.points = points;
        batches = areBytes ? new HubBatches(spec, hub::send, hub::isBusy) : null;
        hub.beforeWaiting(this::flush);
        gate = new Gate(spec, this::flush);
        marks = spec.origin.marks();
        counts = new TaskCounts(spec.parts.size());
        counters = new Delivery.Counters(counts.flight, counts.age, gate::arrived);
        origins = new OriginBytes[spec.parts.size()];
        for (int i = 0; i < origins.length; i++) {
            TaskSpec.Part part = spec.parts.get(i);
            origins[i] = spec.origin.bytes(part.topic, part.partition, part.route.compact);
        }
        schemas = new SchemaPatch(origins.length, asked);
        wholes = new WholeBatches(spec, feed::partOf, this::isPaced, System::nanoTime);
        if (areBytes) {
            feed.pass(wholes);
        }
    }

    /** Limits and schemas are those of these orders from now on. */
    void obey(Orders newest, long nanos) {
        records.limit(newest.records(spec), nanos);
        bytes.limit(newest.bytes(spec), nanos);
        schemas.know(newest.schemas(spec));
    }

    /** Whether no more may be sent than so much in a second. */
    boolean isPaced() {
        return records.limited() || bytes.limited();
    }

    /** For how long nothing may be sent by that. */
    long waitNanos(long nanos) {
        return Math.max(records.waitNanos(nanos), bytes.waitNanos(nanos));
    }

    /** Whether partitions wait for another record, or for room. */
    boolean areWaiting() {
        return resumeAt != 0 || !full.isEmpty();
    }

    /** Resumes partitions that have waited for long enough, or for room that there is by now. */
    void resume(long nanos) {
        if (resumeAt != 0 && nanos - resumeAt >= 0) {
            resumeAt = 0;
            feed.resume();
        }
        if (!full.isEmpty() && full.stream().anyMatch(hub::hasRoom)) {
            full.clear();
            feed.resume();
        }
    }

    /** Whether a partition was stopped since the last call. */
    boolean hasStopped() {
        boolean has = hasStopped;
        hasStopped = false;
        return has;
    }

    /** As {@link HubBatches#flushReady}. */
    boolean flushReady(long nanos) {
        return batches != null && batches.flushReady(nanos);
    }

    /** Hands over the batches that were begun. */
    void flush() {
        if (batches != null) {
            batches.flush();
        }
    }

    /** Nothing is sent any more. */
    void close() {
        if (batches != null) {
            batches.close();
        }
    }

    /** Sends the record as it was read, or the whole batch. */
    void send() {
        BatchHead batch = feed.whole();
        if (batch != null) {
            pass(batch);
            return;
        }
        // What goes as bytes asks for the lease when its batch is handed over.
        if (!isRaw() || !sendRaw()) {
            ConsumerRecord<byte[], byte[]> whole = feed.record();
            send(whole.key(), whole.value(), whole.headers());
        }
    }

    /** Whether nothing of the record is needed as an object. */
    private boolean isRaw() {
        TaskSpec.Part part = spec.parts.get(feed.part);
        return batches != null && !part.route.checkSchemas && part.later.isEmpty()
            && !gate.guards(feed.part);
    }

    /**
     * Sends the record from batch to batch as bytes. False when that was not done, as it may be one
     * that comes from the hub, or that the hub refuses.
     */
    private boolean sendRaw() {
        BatchCursor cursor = feed.cursor();
        int at = feed.part;
        TaskSpec.Part part = spec.parts.get(at);
        if (cursor.headers > 0 && cursor.hasHeader(marks)) {
            return false;
        }
        OriginBytes origin = origins[at];
        origin.encode(cursor.offset, cursor.timestamp);
        if (part.route.limits.refusal(cursor, origin) != null) {
            return false;
        }
        int size = Math.max(0, cursor.keyLength) + Math.max(0, cursor.valueLength);
        records.take(1);
        bytes.take(size);
        int place = part.route.firstPlace
            + part.route.placement.of(
                cursor.bytes, cursor.keyAt, cursor.keyLength, part.partition, cursor.offset);
        if (!hub.takes(place, size)) {
            waitForRoom(place);
            return true;
        }
        long timestamp = cursor.timestamp < 0 ? now() : cursor.timestamp;
        batches.append(place, cursor, timestamp, origin, begin).add(at, cursor.timestamp, null);
        points.sending(place);
        sent(part, size);
        return true;
    }

    /** Sends a batch as it is. */
    private void pass(BatchHead batch) {
        hub.throwFailure();
        int at = feed.part;
        TaskSpec.Part part = spec.parts.get(at);
        int place =
            part.route.firstPlace + part.route.placement.of(null, part.partition, batch.first());
        if (!hub.takes(place, batch.size())) {
            waitForRoom(place);
            return;
        }
        records.take(batch.count());
        bytes.take(batch.size());
        Failpoint.pass("task-pass");
        Delivery delivery = begin(place);
        delivery.addAll(at, batch.newest(), batch.count());
        batches.pass(place, batch, wholes.send(at, batch), delivery);
        points.sending(place, batch.count());
        counts.passed(at, batch.count(), batch.size());
    }

    private Delivery begin(int place) {
        return new Delivery(place, points.open(), feed.polledAtMs, counters);
    }

    /** Sends the record with this content. */
    void send(byte[] key, byte[] value, Headers headers) {
        WriteGuard.await();
        hub.throwFailure();
        if (spec.origin.fromHub(headers)) {
            counts.looped++;
            wholes.bar(feed.part, feed.batch());
            return;
        }
        TaskSpec.Route route = spec.parts.get(feed.part).route;
        String refusal = null;
        if (route.checkSchemas) {
            String waits =
                schemas.look(feed.part, spec.parts.get(feed.part).topic, key, value, headers);
            if (waits != null) {
                stop(Feed.State.AWAITING, waits);
                return;
            }
            refusal = schemas.refusal();
            if (refusal == null && route.translateSchemas) {
                // What was read into arrays of its own, and not by a transform, is patched there:
                // a record that is read again is fetched again.
                key = schemas.patched(SchemaIds.Side.KEY, key, spec.plain);
                value = schemas.patched(SchemaIds.Side.VALUE, value, spec.plain);
                headers = schemas.patched(headers);
            }
        }
        send(key, value, headers, refusal);
    }

    /** Sends it with its origin: where its route says, or aside when something is refused. */
    private void send(byte[] key, byte[] value, Headers headers, String refusal) {
        ConsumerRecord<byte[], byte[]> from = feed.record();
        int at = feed.part;
        TaskSpec.Part part = spec.parts.get(at);
        AsideRecord.Content whole =
            new AsideRecord.Content(key, value, headers, headers.toArray().length);
        origins[at].tag.append(headers, from.offset(), from.timestamp());
        int size = size(key) + size(value);
        records.take(1);
        bytes.take(size);
        String why = refusal != null
            ? refusal
            : part.route.limits.refusal(key, value, headers, from.timestamp(), now());
        int goesTo = part.route.placement.of(key, from.partition(), from.offset());
        if (why == null && part.isReplaced(key, goesTo, from.offset())) {
            feed.skipped++;
            return;
        }
        int place = why == null ? part.route.firstPlace + goesTo : spec.quarantinePlace;
        // Before it is claimed: what has a claim is sent.
        if (!hub.takes(place, size)) {
            waitForRoom(place);
            return;
        }
        Gate.Verdict verdict = why == null && gate.guards(at)
            ? gate.judge(at, key, value, headers, from.offset())
            : Gate.Verdict.SEND;
        if (verdict == Gate.Verdict.WAIT) {
            stop(Feed.State.AWAITING, gate.reason);
            resumeAt = System.nanoTime() + RESUME_NANOS;
            return;
        }
        if (verdict == Gate.Verdict.DROP) {
            setAside(spec.duplicatesPlace, part.route.duplicateBytes, gate.reason, whole);
        } else if (why == null) {
            Claims.Claim claim = gate.guards(at) ? gate.claim : null;
            hand(place, key, value, headers, claim);
        } else if (!quarantined(why, whole)) {
            return;
        }
        sent(part, size);
    }

    private void sent(TaskSpec.Part part, int size) {
        counts.sent(feed.part, size, feed.offset() < part.skip.top());
    }

    /** Sends it to the quarantine topic; false where there is none, and its partition stops. */
    private boolean quarantined(String reason, AsideRecord.Content whole) {
        ConsumerRecord<byte[], byte[]> from = feed.record();
        TaskSpec.Route route = spec.parts.get(feed.part).route;
        if (route.quarantine.isEmpty()) {
            stop(
                Feed.State.POISONED,
                "hub topic " + route.hubTopic + " would refuse " + spec.cluster + "/" + from.topic()
                    + "-" + from.partition() + "@" + from.offset() + " (" + reason
                    + "), and topics.on_poison is stop: raise the limits of " + route.hubTopic
                    + ", or set topics.on_poison: quarantine");
            return false;
        }
        setAside(spec.quarantinePlace, route.quarantineBytes, reason, whole);
        return true;
    }

    /** Sends it to another topic than its own, where a batch of one may have this many bytes. */
    private void setAside(int place, int bytes, String reason, AsideRecord.Content whole) {
        TaskSpec.Route route = spec.parts.get(feed.part).route;
        AsideRecord.Content part =
            AsideRecord.of(whole, spec, route, bytes, reason, feed.timestamp());
        hand(place, part.key(), part.value(), part.headers(), null);
    }

    private void hand(int place, byte[] key, byte[] value, Headers headers, Claims.Claim claim) {
        long timestamp = feed.timestamp();
        if (batches != null) {
            long sentAs = timestamp < 0 ? now() : timestamp;
            batches.append(place, sentAs, key, value, headers, begin)
                .add(feed.part, timestamp, claim);
            points.sending(place);
            return;
        }
        // A record without a timestamp (-1) cannot be sent so: it gets the time of arrival.
        ProducerRecord<byte[], byte[]> to = new ProducerRecord<>(
            spec.placeTopics.get(place),
            spec.placePartitions.get(place),
            timestamp < 0 ? null : timestamp,
            key,
            value,
            headers);
        Delivery delivery = begin(place);
        delivery.add(feed.part, timestamp, claim);
        points.sending(place);
        int bytes = RECORD_OVERHEAD_BYTES + size(key) + size(value);
        hub.send(place, new HubWriter.RecordLoad(to, bytes), timestamp, delivery);
    }

    private void waitForRoom(int place) {
        full.set(place);
        String why = hub.refusal(place);
        stop(
            Feed.State.AWAITING,
            "hub partition " + spec.placeTopics.get(place) + "-" + spec.placePartitions.get(place)
                + " takes nothing at present" + (why == null ? "" : ": " + why));
    }

    /** Stops the partition of the record that was read last before that one. */
    private void stop(Feed.State state, String why) {
        feed.stop(state, why);
        hasStopped = true;
    }

    private static int size(byte[] bytes) {
        return bytes == null ? 0 : bytes.length;
    }

    private static long now() {
        return DriverClock.now();
    }
}
