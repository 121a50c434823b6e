package aggregator.connector;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.junit.jupiter.api.Test;

class OriginReaderTest {
    private final OriginReader reader = new OriginReader(Specs.origin());

    @Test
    void readsWhatIsAppended() {
        for (long offset : new long[] {0, 1, 4_000_000_000L, Long.MAX_VALUE}) {
            Headers headers = new RecordHeaders();
            append(headers, "eü", "orders.名", 17, offset);
            assertEquals(origin("eü", "orders.名", 17, offset), reader.read(headers));
        }
    }

    @Test
    void headersOfTheRecordItselfAreNoHindrance() {
        Headers headers = new RecordHeaders();
        headers.add("origin.offset", bytes("9"));
        headers.add("none", null);
        append(headers, "eu", "orders", 0, 5);
        assertEquals(origin("eu", "orders", 0, 5), reader.read(headers));
    }

    @Test
    void behindTheHeadersOfAnEarlierHopTheLastOnesCount() {
        Headers headers = new RecordHeaders();
        append(headers, "first", "old", 1, 1);
        append(headers, "second", "new", 2, 22);
        assertEquals(origin("second", "new", 2, 22), reader.read(headers));
    }

    @Test
    void aRecordOfOthersHasNone() {
        assertNull(reader.read(new RecordHeaders()));
        Headers own = new RecordHeaders();
        for (int i = 0; i < 7; i++) {
            own.add("name" + i, bytes("1"));
        }
        assertNull(reader.read(own));
    }

    @Test
    void aRecordWithOthersBehindItHasNone() {
        Headers headers = new RecordHeaders();
        append(headers, "eu", "orders", 0, 5);
        headers.add("more", bytes("1"));
        assertNull(reader.read(headers));
    }

    @Test
    void anOriginThatMissesAHeaderIsNone() {
        for (int missing = 0; missing < 5; missing++) {
            List<Header> left = whole();
            left.remove(missing);
            assertNull(reader.read(new RecordHeaders(left)), "without header " + missing);
            // Also where as many headers stand before it as are missing.
            left.add(0, new RecordHeader("own", bytes("1")));
            assertNull(reader.read(new RecordHeaders(left)), "without header " + missing);
        }
    }

    @Test
    void anOriginInAnotherOrderIsNone() {
        for (int i = 0; i < 5; i++) {
            for (int j = 0; j < i; j++) {
                List<Header> swapped = whole();
                Collections.swap(swapped, i, j);
                assertNull(reader.read(new RecordHeaders(swapped)), i + " and " + j);
            }
        }
    }

    @Test
    void aHeaderWithoutAValueMakesItNone() {
        for (int i = 0; i < 5; i++) {
            List<Header> headers = whole();
            headers.set(i, new RecordHeader(headers.get(i).key(), (byte[]) null));
            assertNull(reader.read(new RecordHeaders(headers)), "header " + i);
        }
    }

    @Test
    void whatIsNoNumberMakesItNone() {
        for (String foreign : List.of("", "x", "1.5", "1 ", "0x1", "9223372036854775808")) {
            for (int i = 2; i < 4; i++) {
                List<Header> headers = whole();
                headers.set(i, new RecordHeader(headers.get(i).key(), bytes(foreign)));
                assertNull(reader.read(new RecordHeaders(headers)), i + " is " + foreign);
            }
        }
        List<Header> large = whole();
        large.set(2, new RecordHeader("origin.partition", bytes("2147483648")));
        assertNull(reader.read(new RecordHeaders(large)));
    }

    @Test
    void readsWhatIsAppendedInOneHeader() {
        for (long offset : new long[] {0, 1, 4_000_000_000L, Long.MAX_VALUE}) {
            for (int partition : new int[] {0, 17, Integer.MAX_VALUE}) {
                Headers headers = new RecordHeaders();
                headers.add("origin", bytes("web"));
                headers.add("none", null);
                appendOne(headers, "eü", "orders.名", partition, offset);
                assertEquals(origin("eü", "orders.名", partition, offset), reader.read(headers));
            }
        }
    }

    @Test
    void behindTheOriginOfAnEarlierHopInTheOtherFormTheLastOneCounts() {
        Headers five = new RecordHeaders();
        appendOne(five, "first", "old", 1, 1);
        append(five, "second", "new", 2, 22);
        assertEquals(origin("second", "new", 2, 22), reader.read(five));
        Headers one = new RecordHeaders();
        append(one, "first", "old", 1, 1);
        appendOne(one, "second", "new", 2, 22);
        assertEquals(origin("second", "new", 2, 22), reader.read(one));
        appendOne(one, "third", "newer", 3, 33);
        assertEquals(origin("third", "newer", 3, 33), reader.read(one));
    }

    @Test
    void behindAnOriginInOneHeaderAnyOtherMakesItNone() {
        Headers headers = new RecordHeaders();
        appendOne(headers, "eu", "orders", 0, 5);
        headers.add("more", bytes("1"));
        assertNull(reader.read(headers));
    }

    @Test
    void whatIsNoOriginInOneHeaderIsNoneAlsoBehindOneInFive() {
        for (String foreign : List.of(
                 "",
                 "/",
                 "///",
                 "web",
                 "a/b/c",
                 "a/b/1",
                 "a/b/1/",
                 "a/b//2",
                 "a//1/2",
                 "/b/1/2",
                 "a/b/1/2/",
                 "/a/b/1/2",
                 "a/b/c/1/2",
                 "a/b/x/2",
                 "a/b/1/x",
                 "a/b/-1/2",
                 "a/b/1/-2",
                 "a/b/+1/2",
                 "a/b/1/2 ",
                 "a/b/1/2\n",
                 "a/b/ 1/2",
                 "a/b/1.0/2",
                 "a/b/١/2",
                 "a/b/2147483648/2",
                 "a/b/99999999999/2",
                 "a/b/1/9223372036854775808",
                 "a/b/1/99999999999999999999")) {
            Headers headers = new RecordHeaders();
            headers.add("origin", bytes(foreign));
            assertNull(reader.read(headers), foreign);
            Headers behind = new RecordHeaders(whole());
            behind.add("origin", bytes(foreign));
            assertNull(reader.read(behind), foreign);
        }
        Headers none = new RecordHeaders();
        none.add("origin", null);
        assertNull(reader.read(none));
    }

    /** Headers of a record that can be read. */
    private List<Header> whole() {
        Headers headers = new RecordHeaders();
        append(headers, "1", "2", 3, 4);
        assertNotNull(reader.read(headers));
        return new ArrayList<>(List.of(headers.toArray()));
    }

    private static void append(
        Headers headers, String cluster, String topic, int partition, long offset) {
        new Origin(Specs.origin(), cluster)
            .tag(topic, partition, false)
            .append(headers, offset, 99);
    }

    private static void appendOne(
        Headers headers, String cluster, String topic, int partition, long offset) {
        new Origin(Specs.origin(), cluster).tag(topic, partition, true).append(headers, offset, 99);
    }

    private static OriginReader.Origin origin(
        String cluster, String topic, int partition, long offset) {
        return new OriginReader.Origin(new OriginReader.Place(cluster, topic, partition), offset);
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }
}
