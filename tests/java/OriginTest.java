package aggregator.connector;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.junit.jupiter.api.Test;

class OriginTest {
    private final Origin origin = new Origin(Specs.origin(), "eü");

    @Test
    void theOriginComesBehindTheOwnHeadersWhichKeepTheirOrder() {
        Headers headers = new RecordHeaders();
        headers.add("b", bytes("1"));
        headers.add("a", null);
        headers.add("b", bytes("2"));
        append(headers);
        assertEquals(
            List.of(
                "b=1",
                "a=null",
                "b=2",
                "origin.cluster=eü",
                "origin.topic=orders",
                "origin.partition=17",
                "origin.offset=42",
                "origin.timestamp=-1"),
            texts(headers));
    }

    @Test
    void theOriginOfAnEarlierHopStays() {
        Headers headers = new RecordHeaders();
        headers.add("origin.cluster", bytes("before"));
        append(headers);
        assertEquals(List.of("origin.cluster=before", "origin.cluster=eü"), texts(headers).subList(0, 2));
        assertEquals(6, headers.toArray().length);
    }

    @Test
    void whatIsTheSameForAPartitionServesAllItsRecords() {
        Header[] constants = origin.constants("orders", 17);
        for (long offset = 0; offset < 3; offset++) {
            Headers headers = new RecordHeaders();
            origin.append(headers, constants, Origin.digits(offset), Origin.digits(7));
            assertEquals("origin.topic=orders", texts(headers).get(1));
            assertEquals("origin.offset=" + offset, texts(headers).get(3));
        }
    }

    @Test
    void numbersAreTheirDigits() {
        for (long number : new long[] {0, 1, 9, 10, -1, -10, Long.MAX_VALUE, Long.MIN_VALUE}) {
            assertEquals(Long.toString(number), text(Origin.digits(number)));
        }
        Random random = new Random(5);
        for (int i = 0; i < 1000; i++) {
            long number = random.nextLong() >> random.nextInt(64);
            assertEquals(Long.toString(number), text(Origin.digits(number)));
        }
    }

    @Test
    void aRecordIsFromTheHubWhenAClusterOfItsOriginsIsNamedSo() {
        assertTrue(origin.fromHub(headers("origin.cluster", "hub")));
        assertTrue(origin.fromHub(headers("origin.cluster", "høb")));
        assertTrue(
            origin.fromHub(headers("origin.cluster", "hub", "x", "y", "origin.cluster", "eu")));
        assertTrue(
            origin.fromHub(headers("origin.cluster", "eu", "x", "y", "origin.cluster", "hub")));
    }

    @Test
    void aRecordIsNotFromTheHubForAnotherNameOrAnotherValue() {
        assertFalse(origin.fromHub(new RecordHeaders()));
        assertFalse(origin.fromHub(headers("origin.cluster", "eu")));
        assertFalse(origin.fromHub(headers("origin.cluster", "hub2")));
        assertFalse(origin.fromHub(headers("origin.cluster", "Hub")));
        assertFalse(origin.fromHub(headers("origin.topic", "hub")));
        assertFalse(origin.fromHub(headers("cluster", "hub")));
        Headers none = new RecordHeaders();
        none.add("origin.cluster", null);
        assertFalse(origin.fromHub(none));
    }

    private void append(Headers headers) {
        origin.append(
            headers, origin.constants("orders", 17), Origin.digits(42), Origin.digits(-1));
    }

    private static Headers headers(String... pairs) {
        RecordHeaders headers = new RecordHeaders();
        for (int i = 0; i < pairs.length; i += 2) {
            headers.add(new RecordHeader(pairs[i], bytes(pairs[i + 1])));
        }
        return headers;
    }

    private static List<String> texts(Headers headers) {
        List<String> found = new ArrayList<>();
        for (Header header : headers) {
            found.add(header.key() + "=" + (header.value() == null ? null : text(header.value())));
        }
        return found;
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private static String text(byte[] bytes) {
        return new String(bytes, StandardCharsets.UTF_8);
    }
}
