package aggregator.connector;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Optional;
import java.util.Random;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.record.TimestampType;
import org.junit.jupiter.api.Test;

class SamplesTest {
    private static final byte[] KEY = bytes("k");
    private static final byte[] VALUE = bytes("v");

    private final OriginReader reader = new OriginReader(Specs.origin());

    @Test
    void theEndsAreAmongThemAndInWhateverOrderTheyComeItIsTheSameFew() {
        List<Long> offsets = new ArrayList<>();
        for (long offset = 100; offset < 1_100; offset++) {
            offsets.add(offset);
        }
        JsonNode first = samplesOf(offsets);
        assertEquals(100, first.get(0).get(0).asLong());
        assertEquals(1_099, first.get(first.size() - 1).get(0).asLong());
        assertTrue(first.size() >= Samples.SPREAD, first.toString());
        for (int seed = 0; seed < 50; seed++) {
            Collections.shuffle(offsets, new Random(seed));
            assertEquals(first, samplesOf(offsets), "seed " + seed);
        }
        Collections.sort(offsets, Collections.reverseOrder());
        assertEquals(first, samplesOf(offsets));
    }

    @Test
    void ofFewAllAreKept() {
        assertEquals("[]", samplesOf(List.of()).toString());
        assertEquals(1, samplesOf(List.of(7L, 7L, 7L)).size());
        assertEquals(3, samplesOf(List.of(9L, 7L, 8L)).size());
    }

    @Test
    void recordsByOneOriginThatDifferAreAllReported() {
        Samples samples = new Samples();
        for (int copy = 0; copy < 2; copy++) {
            for (long offset = 0; offset < 500; offset++) {
                samples.add(offset, record(offset, 1_000 + copy, "five"), reader);
                samples.add(offset, record(offset, 1_000 + copy, "five"), reader);
            }
        }
        JsonNode found = toJson(samples);
        int both = 0;
        for (JsonNode each : found) {
            both += each.get(1).size() == 2 ? 1 : 0;
        }
        assertTrue(both >= Samples.SPREAD, found.toString());
        assertTrue(found.size() <= Samples.SPREAD + 2);
    }

    @Test
    void whatTheSourceHadForATimestampIsReportedWhereItIsKnown() {
        for (String form : List.of("five", "one", "appended")) {
            Samples samples = new Samples();
            samples.add(3, record(3, 1_234, form), reader);
            JsonNode print = toJson(samples).get(0).get(1).get(0);
            assertEquals(form.equals("appended") ? "null" : "1234", print.get(0).toString());
            assertEquals(Samples.content(KEY, VALUE), print.get(1).asLong());
            assertEquals("orders", print.get(2).asText());
        }
        Headers foreign = new RecordHeaders();
        foreign.add("origin.timestamp", bytes("soon"));
        assertEquals(null, reader.timestamp(foreign));
    }

    @Test
    void keysAndValuesAreToldApart() {
        List<byte[]> all = new ArrayList<>();
        Collections.addAll(all, null, bytes(""), bytes("a"), bytes("b"), new byte[5_000]);
        all.add(new byte[5_001]);
        for (byte[] one : all) {
            for (byte[] other : all) {
                if (one != other) {
                    assertNotEquals(Samples.content(one, VALUE), Samples.content(other, VALUE));
                    assertNotEquals(Samples.content(KEY, one), Samples.content(KEY, other));
                    assertNotEquals(Samples.content(one, other), Samples.content(other, one));
                }
            }
        }
    }

    private JsonNode samplesOf(List<Long> offsets) {
        Samples samples = new Samples();
        for (long offset : offsets) {
            samples.add(offset, record(offset, offset, "five"), reader);
        }
        return toJson(samples);
    }

    private static JsonNode toJson(Samples samples) {
        ArrayNode into = JsonNodeFactory.instance.arrayNode();
        samples.addTo(into);
        // As Python reads it: written and read, numbers of any type are alike.
        return Json.parse(into.toString());
    }

    private static ConsumerRecord<byte[], byte[]> record(long offset, long timestamp, String form) {
        Headers headers = new RecordHeaders();
        boolean inOne = !form.equals("five");
        new Origin(Specs.origin(), "eu").tag("t", 0, inOne).append(headers, offset, timestamp);
        TimestampType type =
            form.equals("appended") ? TimestampType.LOG_APPEND_TIME : TimestampType.CREATE_TIME;
        return new ConsumerRecord<>(
            "orders", 2, 77, timestamp, type, 1, 1, KEY, VALUE, headers, Optional.empty());
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }
}
