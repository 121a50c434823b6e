package aggregator.connector;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNotSame;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.reflect.Field;
import java.time.Duration;
import java.util.ArrayList;
import java.util.BitSet;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.kafka.clients.producer.Callback;
import org.apache.kafka.clients.producer.MockProducer;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.Metric;
import org.apache.kafka.common.MetricName;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.InterruptException;
import org.apache.kafka.common.errors.InvalidTimestampException;
import org.apache.kafka.common.errors.NetworkException;
import org.apache.kafka.common.errors.NotEnoughReplicasAfterAppendException;
import org.apache.kafka.common.errors.NotEnoughReplicasException;
import org.apache.kafka.common.errors.OutOfOrderSequenceException;
import org.apache.kafka.common.errors.RecordTooLargeException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

class HubWriterTest {
    private static final long FRESH_MS = 1_000_000;
    private static final long BUFFER = 1_000_000;
    private static final long NOW = 10_000_000;
    private static final int BYTES = 1_000;

    /** A producer whose answers the test gives, and whose numbers it says. */
    private final class Mock extends MockProducer<byte[], byte[]> {
        private final AtomicInteger interrupts = new AtomicInteger();
        private long retried;
        private long free = BUFFER;
        private long splits;
        private int closings;

        private Mock() {
            super(false, null, new ByteArraySerializer(), new ByteArraySerializer());
            number("record-retry-total", () -> retried);
            number("buffer-available-bytes", () -> free);
            number("batch-split-total", () -> splits);
        }

        private void number(String name, java.util.function.Supplier<Long> value) {
            MetricName at = new MetricName(name, "producer-metrics", "", Map.of());
            setMockMetrics(at, new Metric() {
                @Override
                public MetricName metricName() {
                    return at;
                }

                @Override
                public Object metricValue() {
                    return (double) value.get();
                }
            });
        }

        @Override
        public synchronized Future<RecordMetadata> send(
            ProducerRecord<byte[], byte[]> record, Callback sent) {
            return super.send(record, (metadata, error) -> {
                boolean isNew = error == null;
                sent.onCompletion(isNew ? append(record.partition()) : metadata, error);
            });
        }

        @Override
        public void close(Duration timeout) {
            if (interrupts.getAndDecrement() > 0) {
                throw new InterruptException("while it waits for its thread");
            }
            closings++;
            super.close(timeout);
            boolean more = true;
            while (more) {
                more = errorNext(new KafkaException("closed"));
            }
        }

        private List<String> values() {
            List<String> found = new ArrayList<>();
            history().forEach(it -> found.add(new String(it.value())));
            return found;
        }
    }

    /** The next offset of each hub partition, below 0 where the hub does not report it. */
    private final Map<Integer, Long> ends = new HashMap<>();
    private Mock usual = new Mock();
    private Mock numbered = new Mock();
    private Mock careful = new Mock();
    private final AtomicInteger wakes = new AtomicInteger();
    private final List<String> arrived = new ArrayList<>();
    private final List<String> lost = new ArrayList<>();
    private long now = NOW;
    private final HubProducers producers = new HubProducers(spec(), this::open);
    private final HubWriter writer = new HubWriter(spec(), producers, wakes::incrementAndGet, NOW);

    private Producer<byte[], byte[]> open(Map<String, String> settings) {
        if (settings.get("client.id").equals("careful")) {
            return careful;
        }
        if (settings.get("client.id").equals("numbered")) {
            numbered = numbered.closed() ? new Mock() : numbered;
            return numbered;
        }
        if (usual.closed()) {
            usual = new Mock();
        }
        return usual;
    }

    private RecordMetadata append(int partition) {
        long at = ends.getOrDefault(partition, 0L);
        ends.put(partition, at < 0 ? at : at + 1);
        return new RecordMetadata(new TopicPartition("hub.orders", partition), at, 0, NOW, 0, 0);
    }

    @AfterEach
    void forgetTheHub() {
        HubReach.reset();
    }

    private static TaskSpec spec() {
        return Specs.writing(
            Map.of(
                "client.id",
                "usual",
                "buffer.memory",
                Long.toString(BUFFER),
                "batch.size",
                "1000",
                "request.timeout.ms",
                "10000"),
            Map.of("client.id", "careful"),
            FRESH_MS);
    }

    private void send(int place, String value, long timestamp) {
        send(place, value, timestamp, 0);
    }

    private void send(int place, String value, long timestamp, int part) {
        send(place, value, timestamp, part, false);
    }

    private void sendNumbered(int place, String value) {
        send(place, value, NOW, 0, true);
    }

    private void send(int place, String value, long timestamp, int part, boolean isNumbered) {
        byte[] bytes = value.getBytes();
        ProducerRecord<byte[], byte[]> record =
            new ProducerRecord<>("hub.orders", place, timestamp, null, bytes);
        HubWriter.Sent sent = sent(value);
        sent.parts.set(part);
        HubWriter.Load load = new HubWriter.RecordLoad(record, BYTES);
        writer.send(place, isNumbered ? new Numbered(load) : load, timestamp, sent);
    }

    private HubWriter.Sent sent(String value) {
        return new HubWriter.Sent() {
            @Override
            int count() {
                return 1;
            }

            @Override
            void lost() {
                lost.add(value);
            }

            @Override
            void arrived(RecordMetadata metadata) {
                arrived.add(value);
            }
        };
    }

    /** A load as a batch that is copied as it is. */
    private record Numbered(HubWriter.Load of) implements HubWriter.Load {
        @Override
        public int bytes() {
            return of.bytes();
        }

        @Override
        public boolean isNumbered() {
            return true;
        }

        @Override
        public boolean isOfProducersBuffer() {
            return true;
        }

        @Override
        public void handTo(Producer<byte[], byte[]> producer, HubWriter.Sent sent) {
            of.handTo(producer, sent);
        }
    }

    private void send(int place, String value) {
        send(place, value, NOW);
    }

    @Test
    void nothingFollowsTheFirstOfAPlaceBeforeItIsAcknowledged() {
        send(0, "a");
        send(0, "b");
        send(0, "c");
        send(1, "x");
        assertEquals(List.of("a", "x"), usual.values());
        assertEquals(0, wakes.get());
        usual.completeNext();
        assertEquals(1, wakes.get());
        assertEquals(List.of("a"), arrived);
        writer.look(NOW);
        assertEquals(List.of("a", "x", "b", "c"), usual.values());
        send(0, "d");
        assertEquals(List.of("a", "x", "b", "c", "d"), usual.values());
    }

    @Test
    void oldRecordsGoByTheCarefulOneWhenNothingOfTheirPlaceIsOnItsWay() {
        send(0, "a");
        send(0, "old", NOW - FRESH_MS - 1);
        send(0, "c");
        send(1, "x");
        assertEquals(List.of("a", "x"), usual.values());
        assertTrue(careful.values().isEmpty());
        usual.completeNext();
        writer.look(NOW);
        assertEquals(List.of("old"), careful.values());
        careful.completeNext();
        writer.look(NOW);
        // The new one too: it is behind it.
        assertEquals(List.of("old", "c"), careful.values());
        send(0, "d");
        assertEquals(List.of("old", "c", "d"), careful.values());
        assertEquals(List.of("a", "x"), usual.values());
    }

    @Test
    void aPlaceIsUsualAgainWhenNoOldRecordHasComeForAWhile() {
        send(0, "old", 0);
        writer.look(NOW + 9_000);
        writer.tick();
        careful.completeNext();
        send(0, "b", NOW + 9_000);
        assertEquals(List.of("old", "b"), careful.values());
        writer.look(NOW + 11_000);
        writer.tick();
        send(0, "c", NOW + 11_000);
        assertTrue(usual.values().isEmpty(), "what went by the careful one is on its way");
        assertFalse(careful.closed());
        careful.completeNext();
        writer.look(NOW + 11_000);
        assertEquals(List.of("c"), usual.values());
        writer.tick();
        assertTrue(careful.closed());
        assertNull(writer.failure());
    }

    @Test
    void whatHasNumbersGoesByAProducerOfItsOwnWhenNothingOfItsPlaceIsOnItsWay() {
        send(0, "a");
        sendNumbered(0, "n1");
        sendNumbered(0, "n2");
        send(0, "b");
        assertEquals(List.of("a"), usual.values());
        assertTrue(numbered.values().isEmpty());
        usual.completeNext();
        writer.look(NOW);
        // The second need not wait: there is one request at a time.
        assertEquals(List.of("n1", "n2"), numbered.values());
        numbered.completeNext();
        writer.look(NOW);
        assertEquals(List.of("a"), usual.values());
        numbered.completeNext();
        writer.look(NOW);
        assertEquals(List.of("a", "b"), usual.values());
        assertTrue(careful.values().isEmpty());
        sendNumbered(1, "n3");
        assertEquals(List.of("n1", "n2", "n3"), numbered.values());
    }

    @Test
    void whatHasNumbersAndIsOldIsNotSentTwice() {
        send(0, "old", 0, 0, true);
        sendNumbered(0, "n");
        careful.completeNext();
        writer.look(NOW);
        assertEquals(List.of("old", "n"), careful.values());
        assertTrue(numbered.values().isEmpty());
        careful.errorNext(new NetworkException("Disconnected from node 1"));
        assertInstanceOf(HubWriter.NoAnswer.class, writer.failure());
    }

    @Test
    void numbersThatTheHubRefusesEndItBeforeAnythingElseIsSent() {
        sendNumbered(0, "n1");
        sendNumbered(0, "n2");
        numbered.errorNext(new OutOfOrderSequenceException("n1 is not next"));
        assertInstanceOf(OutOfOrderSequenceException.class, writer.failure());
        assertTrue(numbered.closed());
        assertFalse(usual.closed());
        writer.close();
        assertTrue(usual.closed());
    }

    @Test
    void whatHasNumbersAndIsStuckIsLeftAndAllElseGoesByAnotherProducer() {
        sendNumbered(0, "n1");
        send(1, "a", NOW, 8);
        usual.completeNext();
        writer.look(NOW);
        writer.tick();
        Mock before = numbered;
        assertTrue(retriedFor(50).getMessage().contains("hub.orders-0"));
        assertEquals(41, writer.retried());
        BitSet part = BitSet.valueOf(new long[] {1});
        assertEquals(part, writer.drain());
        writer.leave(part).forEach(HubWriter.Sent::lost);
        assertEquals(List.of("n1"), lost);
        assertTrue(before.closed());
        assertEquals(41, writer.retried());
        assertNull(writer.failure());
        sendNumbered(2, "n2");
        assertEquals(List.of("n2"), numbered.values());
    }

    private HubWriter.Stuck retriedFor(int seconds) {
        HubWriter.Stuck stuck = null;
        for (int i = 0; i < seconds && stuck == null; i++) {
            numbered.retried++;
            stuck = tickFor(1, false);
        }
        return stuck;
    }

    @Test
    void anAnswerThatIsLostEndsItWithoutASecondTry() {
        send(0, "old", 0);
        send(0, "older", 0);
        careful.errorNext(new NetworkException("Disconnected from node 1"));
        assertInstanceOf(HubWriter.NoAnswer.class, writer.failure());
        assertTrue(writer.failure().getMessage().contains("producer.id.expiration.ms"));
        assertTrue(careful.closed());
        assertEquals(1, wakes.get());
        assertThrows(IllegalStateException.class, () -> send(1, "x"));
        assertTrue(usual.values().isEmpty());
    }

    @Test
    void aFirstOldRecordThatTooFewReplicasRefuseIsSentAgainBeforeAllThatFollow() {
        send(0, "old", 0);
        send(0, "b", 0);
        careful.errorNext(new NotEnoughReplicasException("too few"));
        assertEquals("too few", writer.refusal(0));
        writer.look(NOW);
        assertEquals(List.of("old", "old"), careful.values());
        careful.errorNext(new NotEnoughReplicasException("too few"));
        writer.look(NOW + 900);
        send(1, "x");
        assertEquals(List.of("old", "old"), careful.values());
        writer.look(NOW + 1_000);
        careful.completeNext();
        writer.look(NOW + 1_001);
        assertEquals(List.of("old", "old", "old", "b"), careful.values());
        assertEquals(List.of("x"), usual.values());
        assertEquals(List.of("old"), arrived);
        assertNull(writer.refusal(0));
        assertNull(writer.failure());
    }

    @Test
    void aClockThatIsSetBackDelaysNeitherWhatIsSentAgainNorWhatIsStuck() {
        send(0, "old", 0);
        careful.errorNext(new NotEnoughReplicasException("too few"));
        writer.look(NOW);
        careful.errorNext(new NotEnoughReplicasException("too few"));
        writer.look(NOW - 3_600_000);
        assertEquals(List.of("old", "old", "old"), careful.values());
        careful.completeNext();
        writer.look(NOW);
        send(1, "a");
        usual.completeNext();
        writer.look(NOW);
        writer.tick();
        send(1, "b");
        assertNull(tickFor(2, true));
        now = NOW - 3_600_000;
        assertNull(tickFor(38, true));
        assertTrue(tickFor(4, true).getMessage().contains("hub.orders-1"));
    }

    @Test
    void oneBehindItEndsItAsWhatFollowsMayBeUnderWay() {
        send(0, "old", 0);
        careful.completeNext();
        send(0, "b", 0);
        send(0, "c", 0);
        careful.errorNext(new NotEnoughReplicasException("too few"));
        assertInstanceOf(HubWriter.NoAnswer.class, writer.failure());
        assertTrue(careful.closed());
    }

    @Test
    void whatTooFewReplicasHaveWrittenIsNotSentAgain() {
        send(0, "old", 0);
        careful.errorNext(new NotEnoughReplicasAfterAppendException("too few by now"));
        assertInstanceOf(HubWriter.NoAnswer.class, writer.failure());
        writer.look(NOW + 2_000);
        assertEquals(List.of("old"), careful.values());
    }

    @Test
    void aRecordThatIsRefusedClosesItsProducerBeforeAnythingElse() {
        send(0, "a");
        usual.errorNext(new InvalidTimestampException("too far"));
        assertInstanceOf(InvalidTimestampException.class, writer.failure());
        assertTrue(usual.closed());
    }

    @Test
    void aPlaceOfWhichNothingCameForLongHasAFirstRecordAgain() {
        send(0, "a");
        usual.completeNext();
        writer.look(NOW + 1);
        writer.tick();
        writer.look(NOW + FRESH_MS + 2);
        writer.tick();
        send(0, "b", NOW + FRESH_MS);
        send(0, "c", NOW + FRESH_MS);
        assertEquals(List.of("a", "b"), usual.values());
    }

    @Test
    void whatTheHubDoesNotTakeThoughItAnswersEndsIt() {
        send(0, "a");
        usual.completeNext();
        writer.look(NOW);
        writer.tick();
        send(0, "b");
        assertNull(tickFor(39, true));
        HubWriter.Stuck stuck = tickFor(2, true);
        assertTrue(stuck.getMessage().contains("hub.orders-0"));
        writer.fail(stuck, BitSet.valueOf(new long[] {1 << 1 | 1 << 8}));
        String words = writer.failure().getMessage();
        assertEquals(stuck.getMessage() + "; they are of us/orders-1, us/orders-8", words);
        assertTrue(usual.closed());
    }

    @Test
    void aPlaceThatGivesNoAnswerForAWhileIsNamedWithThoseThatWaitForIt() {
        send(0, "a", NOW, 7);
        send(1, "x", NOW, 8);
        writer.look(NOW);
        writer.tick();
        send(0, "held", NOW, 6);
        tickFor(1, false);
        assertEquals(new BitSet(), writer.silent());
        tickFor(2, false);
        assertEquals(BitSet.valueOf(new long[] {3}), writer.silent());
        usual.completeNext();
        tickFor(1, false);
        BitSet second = BitSet.valueOf(new long[] {2});
        assertEquals(second, writer.silent());
        assertEquals(BitSet.valueOf(new long[] {1 << 8}), writer.partsOf(second));
        BitSet both = BitSet.valueOf(new long[] {3});
        assertEquals(BitSet.valueOf(new long[] {1 << 6 | 1 << 7 | 1 << 8}), writer.partsOf(both));
    }

    @Test
    void whatIsStuckIsLeftAndAllElseGoesByAnotherProducer() {
        send(0, "a", NOW, 7);
        usual.completeNext();
        send(1, "x", NOW, 8);
        usual.completeNext();
        writer.look(NOW);
        writer.tick();
        send(0, "b", NOW, 7);
        usual.retried = 5;
        HubWriter.Stuck stuck = tickFor(41, true);
        assertTrue(stuck.getMessage().contains("hub.orders-0"));
        send(0, "c", NOW, 7);
        send(2, "first", NOW, 7);
        send(2, "held", NOW, 7);
        send(2, "other", NOW, 8);
        Mock before = usual;
        long retried = writer.retried();
        // The first of the third place is not answered in time.
        assertEquals(BitSet.valueOf(new long[] {1 << 7 | 1 << 8}), writer.drain());
        List<HubWriter.Sent> gone = writer.leave(BitSet.valueOf(new long[] {1 << 7}));
        gone.forEach(HubWriter.Sent::lost);
        assertEquals(List.of("b", "c", "first", "held"), lost.stream().sorted().toList());
        assertTrue(before.closed());
        assertNull(writer.failure());
        assertEquals(retried, writer.retried());
        writer.look(now);
        send(1, "y", now, 8);
        send(1, "z", now, 8);
        assertEquals(List.of("other", "y"), usual.values());
        usual.completeNext();
        usual.completeNext();
        writer.look(now);
        assertEquals(List.of("other", "y", "z"), usual.values());
        usual.completeNext();
        // What it is for this producer is not known: it is waited for until that would give up.
        send(0, "d", now, 9);
        assertNull(tickFor(90, true));
        assertTrue(tickFor(2, true).getMessage().contains(" for 90 s"));
        assertNull(writer.failure());
    }

    /** By its own thread a producer is closed without a wait for that thread. */
    @Test
    void whatIsLeftIsClosedOnceMoreByTheTaskWhenItHasClosedItself() {
        send(0, "a", NOW, 7);
        usual.completeNext();
        writer.look(NOW);
        writer.tick();
        send(0, "b", NOW, 7);
        assertNotNull(tickFor(41, true));
        Mock before = usual;
        assertTrue(before.errorNext(new OutOfOrderSequenceException("b is not next")));
        assertEquals(1, before.closings);
        BitSet part = BitSet.valueOf(new long[] {1 << 7});
        assertEquals(part, writer.drain());
        writer.leave(part).forEach(HubWriter.Sent::lost);
        assertEquals(2, before.closings);
        assertEquals(List.of("b"), lost);
        assertNull(writer.failure());
        send(1, "x", now, 8);
        assertEquals(List.of("x"), usual.values());
    }

    @Test
    void aProducerThatAnotherOneFollowsIsNotKept() throws ReflectiveOperationException {
        send(0, "old", 0);
        careful.completeNext();
        writer.look(NOW + 11_000);
        writer.tick();
        assertTrue(careful.closed());
        for (Field each : HubProducers.class.getDeclaredFields()) {
            Object kept = PrivateFields.get(HubProducers.class, producers, each.getName());
            assertNotSame(careful, kept, each.getName());
        }
    }

    @Test
    void anErrorOfOurOwnAboutAnAnswerEndsItToo() {
        HubWriter.Sent broken = new HubWriter.Sent() {
            @Override
            int count() {
                return 1;
            }

            @Override
            void lost() {
                throw new AssertionError("it is not lost");
            }

            @Override
            void arrived(RecordMetadata metadata) {
                throw new IllegalStateException("a defect");
            }
        };
        ProducerRecord<byte[], byte[]> record =
            new ProducerRecord<>("hub.orders", 0, NOW, null, new byte[0]);
        writer.send(0, new HubWriter.RecordLoad(record, BYTES), NOW, broken);
        usual.completeNext();
        assertEquals("a defect", writer.failure().getMessage());
        assertTrue(usual.closed());
        assertEquals(1, wakes.get());
    }

    @Test
    void whatTheProducerHasGivenUpIsNamedWithAllThatHadNoAnswer() {
        send(0, "a", NOW, 7);
        send(1, "b", NOW, 8);
        writer.look(NOW);
        writer.tick();
        tickFor(119, false);
        send(2, "c", now, 9);
        usual.errorNext(new TimeoutException("Expiring 1 record(s) for hub.orders-0"));
        Throwable why = assertThrows(IllegalStateException.class, writer::throwFailure).getCause();
        assertInstanceOf(HubWriter.Stuck.class, why);
        assertEquals(
            "Expiring 1 record(s) for hub.orders-0; they are of us/orders-7, us/orders-8",
            why.getMessage());
    }

    @Test
    void whatIsTooOldForTheUsualProducerIsLeftWhenItWasRefusedForAsLong() {
        send(0, "old", 0, 7);
        assertTrue(careful.errorNext(new NotEnoughReplicasException("too few")));
        writer.look(NOW);
        writer.tick();
        // Each time it goes again it is refused again.
        assertNull(refusedFor(90));
        assertTrue(refusedFor(3).getMessage().contains("hub.orders-0"));
        BitSet part = BitSet.valueOf(new long[] {1 << 7});
        assertEquals(part, writer.drain());
        writer.leave(part).forEach(HubWriter.Sent::lost);
        assertEquals(List.of("old"), lost);
        assertNull(writer.failure());
    }

    private HubWriter.Stuck refusedFor(int seconds) {
        HubWriter.Stuck stuck = null;
        for (int i = 0; i < seconds && stuck == null; i++) {
            stuck = tickFor(1, true);
            careful.errorNext(new NotEnoughReplicasException("too few"));
        }
        return stuck;
    }

    @Test
    void whatWasRefusedForAMomentIsSentAgainUnlessItsPartitionIsGivenUp() {
        send(0, "a");
        usual.completeNext();
        writer.tick();
        send(0, "b", NOW, 7);
        send(1, "old", 0, 7);
        send(2, "old too", 0, 8);
        careful.errorNext(new NotEnoughReplicasException("too few"));
        careful.errorNext(new NotEnoughReplicasException("too few"));
        // Seconds later, with no answer between: the time of a second try has not come.
        assertTrue(tickFor(41, true) != null);
        while (careful.errorNext(new NotEnoughReplicasException("too few"))) {
            assertNull(writer.failure());
        }
        BitSet parts = writer.drain();
        assertEquals(BitSet.valueOf(new long[] {1 << 7}), parts);
        writer.leave(parts).forEach(HubWriter.Sent::lost);
        assertEquals(List.of("b", "old"), lost.stream().sorted().toList());
        careful = new Mock();
        writer.look(now + 2_000);
        assertEquals(List.of("old too"), careful.values());
    }

    @Test
    void aHubThatIsSilentIsWaitedForAndSoIsAPlaceThatTookNothingYet() {
        send(1, "first");
        tickFor(100, true);
        assertNull(writer.failure());
        usual.completeNext();
        writer.tick();
        send(1, "second");
        tickFor(100, false);
        assertNull(writer.failure());
    }

    @Test
    void aPlaceIsFullWhenItWouldLeaveNothingToOthers() {
        assertTrue(writer.takes(0, BYTES));
        send(0, "a");
        usual.completeNext();
        writer.look(NOW);
        for (int i = 0; i < 800; i++) {
            send(0, "b");
        }
        usual.free = BUFFER - 800 * BYTES;
        writer.look(NOW);
        assertTrue(writer.takes(0, BYTES));
        send(0, "c");
        usual.free -= BYTES;
        assertFalse(writer.takes(0, BYTES));
        assertFalse(writer.hasRoom(0));
        assertTrue(writer.takes(1, BYTES));
        while (usual.completeNext()) {
            usual.free += BYTES;
        }
        writer.look(NOW);
        assertTrue(writer.hasRoom(0));
    }

    @Test
    void roomForALargeRecordIsThereWhenItFits() {
        send(0, "a");
        usual.free = BUFFER - 800 * BYTES;
        writer.look(NOW);
        assertFalse(writer.takes(0, 300 * BYTES));
        // A smaller one would fit, and the large one would be read for nothing, again and again.
        assertFalse(writer.hasRoom(0));
        usual.free = BUFFER - 600 * BYTES;
        writer.look(NOW);
        assertTrue(writer.hasRoom(0));
        assertTrue(writer.takes(0, 300 * BYTES));
    }

    @Test
    void whatArrivesBeforeWhatWasAcknowledgedShowsThatTheHubHasLostIt() {
        send(0, "a");
        usual.completeNext();
        send(0, "b");
        usual.completeNext();
        ends.put(0, 1L);
        send(0, "c");
        send(0, "d");
        usual.completeNext();
        assertEquals(List.of("a", "b"), arrived);
        assertInstanceOf(HubWriter.CutOff.class, writer.failure());
        assertThrows(IllegalStateException.class, () -> send(0, "e"));
        assertEquals(List.of(new HubReach.Cut("hub.orders", 0, 1)), HubReach.take());
        assertEquals(List.of(), HubReach.take());
    }

    @Test
    void whatWasUnderWayAndFillsWhatIsLostIsNoticedByWhatWasHandedOverBeforeIt() {
        send(0, "a");
        usual.completeNext();
        send(0, "b");
        send(0, "c");
        usual.completeNext();
        ends.put(0, 1L);
        usual.completeNext();
        assertEquals(List.of("a", "b"), arrived);
        assertInstanceOf(HubWriter.CutOff.class, writer.failure());
    }

    @Test
    void whatIsUnderWayElsewhereIsHeardOutBeforeItIsClosed() throws InterruptedException {
        for (int place = 0; place < 2; place++) {
            send(place, "a");
            usual.completeNext();
            send(place, "b");
            usual.completeNext();
            ends.put(place, 1L);
        }
        send(0, "c");
        send(1, "c");
        usual.completeNext();
        assertFalse(usual.closed());
        Thread closing = Thread.currentThread();
        AtomicBoolean isOver = new AtomicBoolean();
        Thread hub = new Thread(() -> {
            while (closing.getState() != Thread.State.TIMED_WAITING && !isOver.get()) {
                Thread.onSpinWait();
            }
            usual.completeNext();
        });
        hub.start();
        writer.close();
        isOver.set(true);
        hub.join();
        assertTrue(usual.closed());
        assertEquals(
            List.of(new HubReach.Cut("hub.orders", 0, 1), new HubReach.Cut("hub.orders", 1, 1)),
            HubReach.take());
    }

    @Test
    void whatHasArrivedFromAnotherTaskOfTheLaneIsLostForAllOfThem() {
        HubReach.of("eu#2", "hub.orders", 0).acknowledged(7);
        HubReach.of("eu#3", "hub.orders", 1).acknowledged(7);
        send(0, "a");
        usual.completeNext();
        assertNull(writer.failure());
        HubReach.of("eu#3", "hub.orders", 0).acknowledged(7);
        send(0, "b");
        usual.completeNext();
        assertInstanceOf(HubWriter.CutOff.class, writer.failure());
        // What comes next is of another log.
        assertEquals(1, HubReach.of("eu#3", "hub.orders", 0).end());
        HubReach.keep(List.of("eu#2"));
        assertEquals(0, HubReach.of("eu#3", "hub.orders", 0).end());
        assertEquals(7, HubReach.of("eu#2", "hub.orders", 0).end());
    }

    @Test
    void aPlaceThatIsUnknownOrOneOfAnAnswerThatComesLateShowsNothing() {
        HubPlace place = new HubPlace(HubReach.of("eu#3", "hub.orders", 0));
        HubWriter.Sent first = sent("a");
        HubWriter.Sent second = sent("b");
        HubWriter.Sent third = sent("c");
        place.gives(null, first, BYTES);
        place.gives(null, second, BYTES);
        // The new leader has both, the answer of the first is lost, and it is sent again.
        assertFalse(place.isCutOff(second, 1));
        assertFalse(place.isCutOff(first, 0));
        place.gives(null, third, BYTES);
        assertFalse(place.isCutOff(third, -1));
        assertTrue(place.isCutOff(third, 1));
    }

    @Test
    void whatHasArrivedIsNotKept() {
        HubPlace place = new HubPlace(HubReach.of("eu#3", "hub.orders", 0));
        place.gives(null, sent("a"), BYTES);
        assertNotNull(place.first());
        place.answered(BYTES);
        assertNull(place.first());
    }

    @Test
    void itIsClosedWhenNoThreadIsLeftAlsoAfterAnInterrupt() {
        send(0, "old", 0);
        usual.interrupts.set(2);
        careful.interrupts.set(1);
        writer.close();
        assertTrue(Thread.interrupted());
        assertTrue(usual.closed());
        assertTrue(careful.closed());
    }

    @Test
    void batchesThatAreTakenApartAgainAndAgainEndItAndFewDoNot() {
        send(0, "a");
        for (int i = 0; i < 20; i++) {
            // Now and then, as where compression was guessed wrongly.
            usual.splits += i % 4 == 3 ? 0 : 7;
            writer.tick();
        }
        assertNull(writer.failure());
        for (int i = 0; i < 20; i++) {
            // In each look, but what is taken apart arrives.
            usual.splits += 7;
            usual.completeNext();
            send(0, "b");
            writer.look(now += 500);
            writer.tick();
        }
        assertNull(writer.failure());
        for (int i = 0; i < 6; i++) {
            usual.splits += 7;
            writer.look(now += 500);
            writer.tick();
        }
        assertInstanceOf(RecordTooLargeException.class, writer.failure());
        assertTrue(usual.closed());
    }

    private HubWriter.Stuck tickFor(int seconds, boolean answers) {
        HubWriter.Stuck stuck = null;
        long from = now;
        for (now = from; now < from + seconds * 1000L; now += 500) {
            usual.retried += answers ? 1 : 0;
            writer.look(now);
            HubWriter.Stuck found = writer.tick();
            stuck = found == null ? stuck : found;
        }
        return stuck;
    }
}
