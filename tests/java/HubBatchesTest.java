package aggregator.connector;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.github.luben.zstd.Zstd;
import java.lang.reflect.Field;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.BitSet;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.clients.producer.internals.BatchDoor;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.record.CompressionType;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.Record;
import org.apache.kafka.common.utils.Utils;
import org.junit.jupiter.api.Test;

class HubBatchesTest {
    private static final OriginReader.Place EU = new OriginReader.Place("eu", "orders", 0);

    @Test
    void batchesAreCompressedAsTheProducersSettingsSay() {
        assertEquals(CompressionType.NONE, of(Map.of()).type());
        for (CompressionType type : CompressionType.values()) {
            assertEquals(type, of(Map.of("compression.type", type.name)).type());
        }
        assertEquals(
            Compression.zstd().level(7).build(),
            of(Map.of("compression.type", "zstd", "compression.zstd.level", "7")));
        assertEquals(
            Compression.gzip().level(2).build(),
            of(Map.of("compression.type", "gzip", "compression.gzip.level", " 2")));
        assertEquals(
            Compression.lz4().level(9).build(),
            of(Map.of("compression.type", "lz4", "compression.lz4.level", "9")));
        // The level of another codec says nothing.
        assertEquals(
            Compression.lz4().build(),
            of(Map.of("compression.type", "lz4", "compression.zstd.level", "9")));
    }

    @Test
    void anUnknownCodecIsRefused() {
        assertThrows(
            IllegalArgumentException.class, () -> of(Map.of("compression.type", "brotli")));
    }

    /** Records of several hub topics, of changing content, one after the other. */
    @Test
    void recordsArriveInOrderEachOnceWhateverTheyCompressTo() {
        for (String codec : List.of("none", "gzip", "snappy", "lz4", "zstd")) {
            for (int most : List.of(700, 4_000, 20_000)) {
                Run run = new Run(codec, most, Set.of());
                run.appendAll(1_500);
                run.check();
            }
        }
    }

    /** Under a steady load a request has the records of a round trip. */
    @Test
    void aBatchWaitsForAHubPartitionThatIsBusyButNotForLong() {
        Run run = new Run("none", 4_000, Set.of());
        run.busy.set(0, Run.PLACES);
        run.appendText(20);
        assertTrue(run.batches.flushReady(100));
        assertEquals(0, run.loads.size());
        run.busy.clear(1);
        assertTrue(run.batches.flushReady(200));
        assertEquals(run.expected.get(1), run.found.get(1));
        assertEquals(1, run.loads.size());
        assertTrue(run.batches.flushReady(99 + HubBatches.WAIT_NANOS));
        assertEquals(1, run.loads.size());
        assertFalse(run.batches.flushReady(100 + HubBatches.WAIT_NANOS));
        assertEquals(run.expected, run.found);
        // What is begun later has its own time.
        run.busy.set(1);
        run.appendText(1);
        assertTrue(run.batches.flushReady(101 + HubBatches.WAIT_NANOS));
        assertTrue(run.batches.flushReady(100 + 2 * HubBatches.WAIT_NANOS));
        assertFalse(run.batches.flushReady(101 + 2 * HubBatches.WAIT_NANOS));
        run.check();
    }

    @Test
    void aCompressedBatchGathersMoreRecords() {
        Run packed = new Run("zstd", 10_000, Set.of());
        Run plain = new Run("none", 10_000, Set.of());
        for (Run run : List.of(packed, plain)) {
            run.appendText(6_000);
            run.check();
        }
        assertTrue(
            3 * packed.loads.size() < plain.loads.size(),
            packed.loads.size() + " of " + plain.loads.size());
        int largest = packed.loads.stream().mapToInt(HubWriter.Load::bytes).max().orElseThrow();
        assertTrue(largest > 5_000 && largest <= 10_000, largest + " bytes");
    }

    @Test
    void aBatchOfATopicThatItsBrokerCompressesAnewIsNotTooLargeWithoutCompression() {
        Run run = new Run("zstd", 10_000, Set.of("hub.orders"));
        run.appendText(1_000);
        run.check();
        for (MemoryRecords each : run.sent()) {
            int plain = BatchFormat.RECORDS_AT;
            for (Record record : each.records()) {
                plain += record.sizeInBytes();
            }
            assertTrue(plain <= 10_000, plain + " bytes");
        }
    }

    @Test
    void allBatchesTogetherGatherAPartOfTheProducersBuffer() {
        Run run = new Run("zstd", 10_000, Set.of(), 100_000);
        run.appendText(6_000);
        run.check();
        for (MemoryRecords each : run.sent()) {
            int plain = 0;
            for (Record record : each.records()) {
                plain += record.sizeInBytes();
            }
            assertTrue(plain <= 26_000, plain + " bytes");
        }
    }

    @Test
    void zstdCompressesAtTheLevelOfTheSettingsBatchAfterBatch() {
        byte[] text = new byte[200_000];
        Random letters = new Random(5);
        for (int i = 0; i < text.length; i++) {
            text[i] = (byte) ('a' + letters.nextInt(1 + i % 23));
        }
        int at = BatchFormat.RECORDS_AT;
        for (int level : new int[] {19, 3, 1, -5}) {
            try (
                BatchPacker packer = new BatchPacker(
                    Map.of("compression.type", "zstd", "compression.zstd.level", " " + level))) {
                for (int size : new int[] {200_000, 3_000, 90_000}) {
                    byte[] expected = Zstd.compress(Arrays.copyOfRange(text, at, size), level);
                    int end = packer.pack(text, size);
                    assertArrayEquals(expected, Arrays.copyOfRange(packer.packed(), at, end));
                }
            }
        }
    }

    @Test
    void whatCompressesAndThenNoMoreIsSplit() {
        for (String codec : List.of("lz4", "zstd")) {
            Run run = new Run(codec, 10_000, Set.of());
            run.appendText(3_000);
            int before = run.deliveries.size();
            run.appendNoise(200);
            run.check();
            assertTrue(run.loads.size() > run.deliveries.size(), "nothing was split");
            assertTrue(before < run.deliveries.size());
        }
    }

    /** A task opens a producer for old records again and again, and closes it each time. */
    @Test
    void aDoorKeepsNoProducerThatNothingElseKeeps() {
        for (Field each : BatchDoor.class.getDeclaredFields()) {
            assertFalse(Producer.class.isAssignableFrom(each.getType()), each.getName());
        }
    }

    @Test
    void aDeliveryInPartsKeepsWhatEachRecordIsOfAndItsClaim() {
        List<String> arrived = new ArrayList<>();
        Delivery.Counters counters = new Delivery.Counters(
            new Histogram(),
            new Histogram(),
            (part, claim, partition, end) -> arrived.add(part + " " + claim + "@" + end));
        Points points = new Points(new long[9], new Feed.State[9], 1, 0, 0);
        Delivery whole = new Delivery(0, points.open(), 0, counters);
        for (int i = 0; i < 9; i++) {
            // Those of 3 to 5 have one timestamp, and the last two one part as well.
            int part = Math.min(i, 7);
            long timestamp = i < 3 || i > 5 ? part : 3;
            whole.add(part, timestamp, i % 2 == 0 ? null : new Claims.Claim(null, EU, i, null));
        }
        Delivery first = whole.part(0, 4);
        Delivery second = whole.part(4, 5);
        assertEquals(BitSet.valueOf(new long[] {0b1111}), first.parts);
        assertEquals(BitSet.valueOf(new long[] {0b11110000}), second.parts);
        first.arrived(metadata(100));
        second.arrived(metadata(104));
        assertEquals(
            List.of(
                "1 eu/orders-0@1@102",
                "3 eu/orders-0@3@104",
                "5 eu/orders-0@5@106",
                "7 eu/orders-0@7@108"),
            arrived);
    }

    private static RecordMetadata metadata(long offset) {
        return new RecordMetadata(new TopicPartition("hub.orders", 0), offset, 0, 0, 0, 0);
    }

    /** Batches of a task, and what they were made of. */
    private static final class Run implements HubBatches.Hub {
        private static final int PLACES = 4;
        private static final int PARTS = 3;

        private final int most;
        private final HubBatches batches;
        private final BitSet busy = new BitSet();
        private final Random random = new Random(3);
        private final List<List<String>> expected = new ArrayList<>();
        private final List<List<String>> found = new ArrayList<>();
        private final List<HubWriter.Load> loads = new ArrayList<>();
        private final List<Delivery> deliveries = new ArrayList<>();
        private final long[] positions = new long[PARTS];
        private final Feed.State[] states = new Feed.State[PARTS];
        private final Points points;

        private Run(String codec, int most, Set<String> recompressed) {
            this(codec, most, recompressed, 33_554_432);
        }

        private Run(String codec, int most, Set<String> recompressed, int buffer) {
            this.most = most;
            TaskSpec spec = Specs.writing(
                Map.of(
                    "compression.type",
                    codec,
                    "batch.size",
                    Integer.toString(most),
                    "buffer.memory",
                    Integer.toString(buffer)),
                Map.of(),
                0);
            spec.recompressed.addAll(recompressed);
            batches = new HubBatches(spec, this, busy::get);
            Arrays.fill(states, Feed.State.READING);
            points = new Points(positions, states, PLACES, 0, 0);
            for (int i = 0; i < PLACES; i++) {
                expected.add(new ArrayList<>());
                found.add(new ArrayList<>());
            }
        }

        private void appendAll(int count) {
            for (int i = 0; i < count; i++) {
                byte[] value = text(i);
                if ((i / 300) % 2 == 1 && random.nextInt(3) > 0) {
                    random.nextBytes(value);
                }
                int longer = random.nextInt(100) == 0 ? 3 * most : 0;
                append(i, Arrays.copyOf(value, value.length + longer));
                if (random.nextInt(200) == 0) {
                    batches.flush();
                }
            }
        }

        private void appendText(int count) {
            for (int i = 0; i < count; i++) {
                append(i, text(i));
            }
        }

        private void appendNoise(int count) {
            for (int i = 0; i < count; i++) {
                byte[] value = text(i);
                random.nextBytes(value);
                append(i, value);
            }
        }

        private static byte[] text(int i) {
            return ("{'name': 'a name of some length', 'number': " + i + ", 'state': 'open'}")
                .repeat(2)
                .getBytes(StandardCharsets.UTF_8);
        }

        private void append(int i, byte[] value) {
            int place = random.nextInt(PLACES);
            int part = random.nextInt(PARTS);
            long timestamp = 1_700_000_000_000L + random.nextInt(1_000);
            RecordHeaders headers = new RecordHeaders();
            headers.add("part", new byte[] {(byte) part});
            byte[] key = random.nextInt(9) == 0 ? null : new byte[] {1, (byte) i};
            batches.append(place, timestamp, key, value, headers, this::begin)
                .add(part, timestamp, null);
            points.sending(place);
            positions[part]++;
            expected.get(place).add(text(timestamp, key, value, headers.toArray()));
        }

        private Delivery begin(int place) {
            Delivery.Counters counters = new Delivery.Counters(
                new Histogram(),
                new Histogram(),
                (part, claim, partition, end)
                    -> {
                        // There are none.
                    });
            deliveries.add(new Delivery(place, points.open(), 0, counters));
            return deliveries.get(deliveries.size() - 1);
        }

        @Override
        public void send(int place, HubWriter.Load load, long timestamp, HubWriter.Sent sent) {
            loads.add(load);
            List<String> of = found.get(place);
            int first = of.size();
            BitSet all = new BitSet();
            long oldest = Long.MAX_VALUE;
            for (Record each : records(load).records()) {
                assertEquals(of.size() - first, each.offset());
                Header[] headers = each.headers();
                all.set(headers[0].value()[0]);
                oldest = Math.min(oldest, each.timestamp());
                byte[] key = Utils.toNullableArray(each.key());
                byte[] value = Utils.toNullableArray(each.value());
                of.add(text(each.timestamp(), key, value, headers));
            }
            assertTrue(load.bytes() <= most || of.size() - first == 1, load.bytes() + " bytes");
            assertEquals(all, sent.parts);
            assertEquals(oldest, timestamp);
            sent.arrived(metadata(first));
        }

        private void check() {
            batches.flush();
            assertEquals(expected, found);
            points.close(positions, states, 0, 0);
            assertTrue(points.settled(), "records without an answer");
            for (int place = 0; place < PLACES; place++) {
                assertEquals(expected.get(place).size(), points.settle().ends()[place]);
            }
        }

        private List<MemoryRecords> sent() {
            return loads.stream().map(Run::records).toList();
        }

        private static MemoryRecords records(HubWriter.Load load) {
            return MemoryRecords.readableRecords(((HubBatches.Load) load).batch().bytes().slice());
        }

        private static String text(long timestamp, byte[] key, byte[] value, Header[] headers) {
            return timestamp + " " + Arrays.toString(key) + " " + Arrays.hashCode(value) + " "
                + value.length + " " + Arrays.toString(headers);
        }
    }

    private static Compression of(Map<String, String> producer) {
        return BatchPacker.compression(producer);
    }
}
