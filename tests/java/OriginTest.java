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
        assertEquals(
            List.of("origin.cluster=before", "origin.cluster=eü"), texts(headers).subList(0, 2));
        assertEquals(6, headers.toArray().length);
    }

    @Test
    void whatIsTheSameForAPartitionServesAllItsRecords() {
        Origin.Tag tag = origin.tag("orders", 17, false);
        for (long offset = 0; offset < 3; offset++) {
            Headers headers = new RecordHeaders();
            tag.append(headers, offset, 7);
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

    @Test
    void inOneHeaderTheOriginComesBehindTheOwnHeadersToo() {
        Headers headers = new RecordHeaders();
        headers.add("b", bytes("1"));
        headers.add("origin", bytes("web"));
        headers.add("a", null);
        appendOne(headers);
        assertEquals(
            List.of("b=1", "origin=web", "a=null", "origin=eü/orders/17/42"), texts(headers));
    }

    @Test
    void thePlaceOfAPartitionServesAllItsRecords() {
        Origin.Tag tag = origin.tag("orders", 0, true);
        for (long offset : new long[] {0, 1, 9, 10, 99, 100, 4_000_000_000L, Long.MAX_VALUE}) {
            Headers headers = new RecordHeaders();
            tag.append(headers, offset, 7);
            assertEquals(List.of("origin=eü/orders/0/" + offset), texts(headers));
        }
    }

    @Test
    void theOriginsOfEarlierHopsStayInWhicheverForm() {
        Headers headers = new RecordHeaders();
        appendOne(headers);
        append(headers);
        appendOne(headers);
        List<String> found = texts(headers);
        assertEquals(7, found.size());
        assertEquals("origin=eü/orders/17/42", found.get(0));
        assertEquals("origin.cluster=eü", found.get(1));
        assertEquals("origin.timestamp=-1", found.get(5));
        assertEquals("origin=eü/orders/17/42", found.get(6));
    }

    @Test
    void digitsComeBehindOtherBytes() {
        byte[] before = bytes("a/");
        Random random = new Random(5);
        for (int i = 0; i < 1000; i++) {
            long number = random.nextLong() >>> (1 + random.nextInt(63));
            assertEquals("a/" + number, text(Origin.digits(before, number)));
        }
        assertEquals("a/", text(before));
    }

    @Test
    void aRecordIsFromTheHubWhenAnOriginInOneHeaderNamesIt() {
        assertTrue(origin.fromHub(headers("origin", "hub/orders/0/1")));
        assertTrue(origin.fromHub(headers("origin", "høb/orders/0/1")));
        assertTrue(origin.fromHub(headers("origin", "hub/o/0/1", "x", "y", "origin", "eu/o/0/1")));
        assertTrue(origin.fromHub(headers("origin", "eu/o/0/1", "origin.cluster", "hub")));
        assertTrue(origin.fromHub(headers("origin.cluster", "eu", "origin", "hub/o/0/1")));
    }

    @Test
    void aHeaderOfAnotherThatIsCalledAsOursNamesNoHub() {
        assertFalse(origin.fromHub(headers("origin", "hub")));
        assertFalse(origin.fromHub(headers("origin", "eu/hub/0/1")));
        assertFalse(origin.fromHub(headers("origin", "hub/orders/0")));
        assertFalse(origin.fromHub(headers("origin", "hub/orders/x/1")));
        assertFalse(origin.fromHub(headers("origin", "https://hub/orders")));
        assertFalse(origin.fromHub(headers("origin.cluster", "hub/orders/0/1")));
        Headers none = new RecordHeaders();
        none.add("origin", null);
        assertFalse(origin.fromHub(none));
    }

    @Test
    void withAnyOriginWhateverHasAWholeOneIsLeftOut() {
        Origin any = new Origin(Json.parse(Specs.ORIGIN.replace("høb", "*")), "eü");
        Headers five = headers("origin.cluster", "a", "b", "c");
        append(five);
        five.add("behind", null);
        assertTrue(any.fromHub(five));
        assertTrue(any.fromHub(headers("x", "y", "origin", "asia/o/0/1", "z", "z")));
        assertFalse(any.fromHub(new RecordHeaders()));
        assertFalse(any.fromHub(headers("origin.cluster", "a", "origin", "web")));
        String[] four = {
            "origin.cluster",
            "a",
            "origin.topic",
            "t",
            "origin.partition",
            "0",
            "origin.offset",
            "1"};
        assertFalse(any.fromHub(headers(four)));
    }

    private void append(Headers headers) {
        origin.tag("orders", 17, false).append(headers, 42, -1);
    }

    private void appendOne(Headers headers) {
        origin.tag("orders", 17, true).append(headers, 42, -1);
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
