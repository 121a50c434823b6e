package aggregator.connector;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.Serializable;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.header.internals.RecordHeader;

/**
 * The origin of a record as headers behind its own: five of text, by the names that Python gives.
 * What is the same for a whole source partition is made once.
 */
final class Origin implements Serializable {
    private static final long serialVersionUID = 1L;

    final List<String> names = new ArrayList<>();
    private final String cluster;
    private final Set<String> hubNames = new HashSet<>();

    Origin(JsonNode json, String cluster) {
        json.get("names").forEach(n -> names.add(n.asText()));
        json.get("hub_names").forEach(n -> hubNames.add(n.asText()));
        this.cluster = cluster;
    }

    /** The headers of one source partition that are the same for all its records. */
    Header[] constants(String topic, int partition) {
        return new Header[] {
            header(0, cluster), header(1, topic), header(2, Integer.toString(partition))
        };
    }

    /** Appends the origin to the record's own headers, which keep their order. */
    void append(Headers headers, Header[] constants, byte[] offset, byte[] timestamp) {
        for (Header constant : constants) {
            headers.add(constant);
        }
        headers.add(new RecordHeader(names.get(3), offset));
        headers.add(new RecordHeader(names.get(4), timestamp));
    }

    /** Whether the record comes from the hub that it is to go to: one of its origins names it. */
    boolean fromHub(Headers own) {
        for (Header header : own) {
            if (header.value() != null
                && header.key().equals(names.get(0))
                && hubNames.contains(new String(header.value(), StandardCharsets.UTF_8))) {
                return true;
            }
        }
        return false;
    }

    /** A number as ASCII digits, without a string in between. */
    static byte[] digits(long number) {
        if (number < 0) {
            return Long.toString(number).getBytes(StandardCharsets.ISO_8859_1);
        }
        byte[] buffer = new byte[19];
        int at = buffer.length;
        do {
            buffer[--at] = (byte) ('0' + number % 10);
            number /= 10;
        } while (number > 0);
        return Arrays.copyOfRange(buffer, at, buffer.length);
    }

    private Header header(int name, String value) {
        return new RecordHeader(names.get(name), value.getBytes(StandardCharsets.UTF_8));
    }
}
