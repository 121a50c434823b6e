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
 * The origin of a record as headers behind its own: five of text, or one, by the names that Python
 * gives. What is the same for a whole source partition is made once.
 */
final class Origin implements Serializable {
    private static final long serialVersionUID = 1L;

    /** Appends the origins of one source partition; a record's own headers keep their order. */
    interface Tag {
        void append(Headers headers, long offset, long timestamp);
    }

    private static final byte[] NOTHING = {};
    /** ANY_ORIGIN of aggregator/model/record_rules.py. */
    private static final String ANY_ORIGIN = "*";

    final List<String> names = new ArrayList<>();
    private final String compact;
    private final String cluster;
    private final Set<String> hubNames = new HashSet<>();
    /** Whether nothing is wanted that has an origin, whatever it names. */
    final boolean anyOrigin;

    Origin(JsonNode json, String cluster) {
        json.get("names").forEach(n -> names.add(n.asText()));
        compact = json.get("compact").asText();
        json.get("hub_names").forEach(n -> hubNames.add(n.asText()));
        anyOrigin = hubNames.contains(ANY_ORIGIN);
        this.cluster = cluster;
    }

    /** In five headers, or in the one that does not repeat the record's timestamp. */
    Tag tag(String topic, int partition, boolean inOne) {
        return inOne ? one(topic, partition) : five(topic, partition);
    }

    /** The same as bytes. */
    OriginBytes bytes(String topic, int partition, boolean inOne) {
        Tag tag = tag(topic, partition, inOne);
        return inOne ? new OriginBytes(compact, cluster, topic, partition, tag)
                     : new OriginBytes(names, cluster, topic, partition, tag);
    }

    /** Headers without which no record has an origin; in UTF-8. */
    byte[][] marks() {
        return new byte[][] {
            names.get(0).getBytes(StandardCharsets.UTF_8),
            compact.getBytes(StandardCharsets.UTF_8)};
    }

    /**
     * Whether the record comes from the hub that it is to go to: one of its origins names it, or
     * with ANY_ORIGIN it has one.
     */
    boolean fromHub(Headers own) {
        if (anyOrigin && hasOrigin(own)) {
            return true;
        }
        for (Header header : own) {
            if (header.value() == null) {
                continue;
            }
            String hop = null;
            if (header.key().equals(names.get(0))) {
                hop = new String(header.value(), StandardCharsets.UTF_8);
            } else if (header.key().equals(compact)) {
                hop = OriginText.cluster(header.value());
            }
            if (hop != null && hubNames.contains(hop)) {
                return true;
            }
        }
        return false;
    }

    /** Whether it has a whole origin: a source's own header may have one of our names. */
    private boolean hasOrigin(Headers own) {
        int found = 0;
        for (Header header : own) {
            if (header.key().equals(compact) && header.value() != null
                && OriginText.cluster(header.value()) != null) {
                return true;
            }
            if (!header.key().equals(names.get(found))) {
                found = 0;
            }
            if (header.key().equals(names.get(found)) && ++found == names.size()) {
                return true;
            }
        }
        return false;
    }

    /** A number as ASCII digits, without a string in between. */
    static byte[] digits(long number) {
        return number < 0 ? Long.toString(number).getBytes(StandardCharsets.ISO_8859_1)
                          : digits(NOTHING, number);
    }

    /** These bytes, and behind them a number that is not negative as ASCII digits, in one array. */
    static byte[] digits(byte[] before, long number) {
        int end = before.length + 1;
        for (long rest = number / 10; rest > 0; rest /= 10) {
            end++;
        }
        byte[] bytes = Arrays.copyOf(before, end);
        long rest = number;
        while (end > before.length) {
            bytes[--end] = (byte) ('0' + rest % 10);
            rest /= 10;
        }
        return bytes;
    }

    private Tag five(String topic, int partition) {
        Header[] constants = {
            header(0, cluster), header(1, topic), header(2, Integer.toString(partition))};
        return (headers, offset, timestamp) -> {
            for (Header constant : constants) {
                headers.add(constant);
            }
            headers.add(new RecordHeader(names.get(3), digits(offset)));
            headers.add(new RecordHeader(names.get(4), digits(timestamp)));
        };
    }

    private Tag one(String topic, int partition) {
        byte[] place = OriginText.place(cluster, topic, partition);
        return (headers,
                offset,
                timestamp) -> headers.add(new RecordHeader(compact, digits(place, offset)));
    }

    private Header header(int name, String value) {
        return new RecordHeader(names.get(name), value.getBytes(StandardCharsets.UTF_8));
    }
}
