package aggregator.connector;

import java.lang.management.ManagementFactory;
import java.nio.charset.StandardCharsets;
import java.util.Locale;
import org.apache.kafka.common.header.internals.RecordHeaders;

/** Prints the CPU that a record's event costs its task: found, hashed, claimed and held. */
final class PrintDedupCost {
    private static final int RECORDS = 3_000_000;
    private static final int ROUNDS = 3;
    private static final OriginReader.Place PLACE = new OriginReader.Place("eu", "orders", 0);

    private PrintDedupCost() {}

    public static void main(String[] args) {
        String filler = "x".repeat(930);
        for (int round = 0; round < ROUNDS; round++) {
            print("header:event-id", null);
            print("key", null);
            print("value:$.id", "{\"id\": \"%s\", \"rest\": \"" + filler + "\"}");
            print("value:$.id", "{\"rest\": \"" + filler + "\", \"id\": \"%s\"}");
        }
    }

    private static void print(String by, String form) {
        EventRule rule = new EventRule(by, 3_600_000);
        Claims claims = new Claims(rule);
        Claims.Owner owner = new Claims.Owner();
        EventHash hash = new EventHash();
        var threads = ManagementFactory.getThreadMXBean();
        long spent = 0;
        for (int i = 0; i < RECORDS; i++) {
            // An id is as long as a UUID; made outside of what is measured, a thousand at once.
            if (i % 1_000 == 0) {
                String[] ids = new String[1_000];
                byte[][] values = new byte[1_000][];
                RecordHeaders[] headers = new RecordHeaders[1_000];
                for (int j = 0; j < 1_000; j++) {
                    ids[j] = String.format(Locale.ROOT, "%036d", i + j);
                    byte[] id = ids[j].getBytes(StandardCharsets.UTF_8);
                    values[j] = form == null
                        ? id
                        : String.format(Locale.ROOT, form, ids[j]).getBytes(StandardCharsets.UTF_8);
                    headers[j] = new RecordHeaders();
                    headers[j].add("event-id", id);
                }
                long began = threads.getCurrentThreadCpuTime();
                for (int j = 0; j < 1_000; j++) {
                    byte[] id = rule.id(values[j], values[j], headers[j]);
                    Claims.Claim claim = new Claims.Claim(hash.of(id), PLACE, i + j, owner);
                    claims.take(claim, 1_800_000_000_000L);
                    claims.arrived(claim, 0, i + j, 1_800_000_000_000L);
                }
                spent += threads.getCurrentThreadCpuTime() - began;
            }
        }
        long[] size = claims.size();
        System.out.printf(
            Locale.ROOT,
            "%-16s %s %.2f us a record, %.1f bytes an event%n",
            by,
            form == null ? "" : form.substring(0, 9),
            spent / 1e3 / RECORDS,
            (double) size[1] / size[0]);
    }
}
