package aggregator.connector;

import java.lang.management.ManagementFactory;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Random;
import org.apache.kafka.common.header.internals.RecordHeaders;

/** Prints the CPU that a record costs from a fetched batch to the hub's ones, and their sizes. */
final class PrintBatchCost {
    private static final int ROUNDS = 5;
    private static final int PLACES = 4;
    private static final int BATCH_BYTES = 131_072;

    private final Random random = new Random(11);
    private long bytes;
    private long count;

    private PrintBatchCost() {}

    public static void main(String[] args) {
        for (int round = 0; round < ROUNDS; round++) {
            for (String recompressed : List.of("hub.orders", "")) {
                new PrintBatchCost().print("100 B lz4", "lz4", 100, recompressed, true);
                new PrintBatchCost().print("1 kB JSON zstd", "zstd", 1_000, recompressed, true);
            }
            new PrintBatchCost().print("100 B lz4, five", "lz4", 100, "", false);
        }
    }

    private void print(
        String name, String codec, int size, String recompressed, boolean isOneHeader) {
        List<ByteBuffer> fetched = new ArrayList<>();
        int records = 0;
        while (records < 200_000_000 / size / 10) {
            BatchBuilder builder = new BatchBuilder(new BatchBuilder.Spares());
            int limit = codec.equals("zstd") ? 6 * BATCH_BYTES : BATCH_BYTES;
            while (builder.size() < limit - size) {
                byte[] key = Integer.toString(random.nextInt(1_000_000)).getBytes();
                builder.append(1_700_000_000_000L + records, key, value(size), new RecordHeaders());
                records++;
            }
            // Of their own size, so in arrays, as what is fetched.
            BatchPacker packer =
                new BatchPacker(Map.of("compression.type", codec, "batch.size", "1"));
            builder.finish(packer, 1 << 30).forEach(it -> fetched.add(it.bytes()));
            packer.close();
        }
        TaskSpec spec = Specs.writing(
            Map.of(
                "compression.type",
                codec,
                "compression.zstd.level",
                "1",
                "batch.size",
                Integer.toString(BATCH_BYTES)),
            Map.of(),
            0);
        spec.recompressed.add(recompressed);
        HubBatches batches = new HubBatches(spec, (place, load, timestamp, sent) -> {
            bytes += load.bytes();
            count++;
        }, place -> false);
        OriginBytes origin = new Origin(Specs.origin(), "eu").bytes("orders", 3, isOneHeader);
        Placement placement = Placement.of("key", PLACES, 0);
        Delivery.Counters counters = new Delivery.Counters(null, null, null);
        Points points = new Points(new long[1], new Feed.State[1], PLACES, 0, 0);
        var threads = ManagementFactory.getThreadMXBean();
        long began = threads.getCurrentThreadCpuTime();
        BatchCursor cursor = new BatchCursor();
        for (int again = 0; again < 10; again++) {
            for (ByteBuffer each : fetched) {
                cursor.open(each, 0);
                while (cursor.next()) {
                    origin.encode(cursor.offset, cursor.timestamp);
                    int place = placement.of(
                        cursor.bytes, cursor.keyAt, cursor.keyLength, 3, cursor.offset);
                    batches
                        .append(
                            place,
                            cursor,
                            cursor.timestamp,
                            origin,
                            at -> new Delivery(at, points.open(), 0, counters))
                        .add(0, cursor.timestamp, null);
                }
            }
        }
        batches.flush();
        double spent = threads.getCurrentThreadCpuTime() - began;
        long all = 10L * records;
        System.out.printf(
            Locale.ROOT,
            "%-16s %-12s %6.0f ns a record, %7.0f bytes and %5.0f records a batch, %5.1f bytes a"
                + " record%n",
            name,
            recompressed.isEmpty() ? "by estimate" : "by size",
            spent / all,
            (double) bytes / count,
            (double) all / count,
            (double) bytes / all);
    }

    private byte[] value(int size) {
        if (size < 1_000) {
            byte[] made = new byte[size];
            random.nextBytes(made);
            for (int i = size / 2; i < size; i++) {
                made[i] = 'x';
            }
            return made;
        }
        StringBuilder text = new StringBuilder("{");
        while (text.length() < size) {
            text.append("\"field_").append(random.nextInt(20)).append("\": \"");
            text.append("value ").append(random.nextInt(5_000)).append("\", ");
        }
        return text.append("\"end\": 1}").toString().getBytes(StandardCharsets.UTF_8);
    }
}
