package aggregator.connector;

import com.fasterxml.jackson.databind.JsonNode;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.Headers;

/**
 * Gives records of batches that were copied as they are the header with their origin, for readers
 * of the hub: as if each had come by itself. Of source partitions that it knows. Used by one thread
 * once it is filled.
 */
final class PassedOrigins {
    private static final byte[] SEVERAL = {};
    /** What all headers of a note about a quarantined record begin with; it has no origin. */
    private static final String NOTE = "quarantine.";
    /** What records of source partitions that are not known get, if any: it names none. */
    private static final byte[] ANY = OriginText.place("?", "?", 0);

    private final String header;
    private final Map<Long, byte[]> places = new HashMap<>();
    private boolean isAny;

    /** `header`: the name of the one header with an origin. */
    PassedOrigins(String header) {
        this.header = header;
    }

    /**
     * {"header": name, "topics": [[cluster, topic, partitions], ...], "any": true}; with `any`
     * records of others get an origin, too, which says only that they have one.
     */
    static PassedOrigins of(JsonNode json) {
        PassedOrigins made = new PassedOrigins(json.get("header").asText());
        made.isAny = json.path("any").asBoolean();
        for (JsonNode each : json.get("topics")) {
            for (int partition = 0; partition < each.get(2).asInt(); partition++) {
                made.know(each.get(0).asText(), each.get(1).asText(), partition);
            }
        }
        return made;
    }

    void know(String cluster, String topic, int partition) {
        byte[] place = OriginText.place(cluster, topic, partition);
        byte[] before = places.put(PassedOrigin.name(cluster, topic, partition), place);
        if (before != null && !Arrays.equals(before, place)) {
            // Two of one name: neither is known by it.
            places.put(PassedOrigin.name(cluster, topic, partition), SEVERAL);
        }
    }

    /** Of which source partition a batch with this id is, as cluster/topic/partition; or null. */
    String place(long producerId) {
        byte[] place = PassedOrigin.isPassed(producerId) ? found(producerId) : null;
        return place == null ? null
                             : new String(place, 0, place.length - 1, StandardCharsets.UTF_8);
    }

    /** Appends the origin of the record that a cursor is at, if its batch says it. */
    void append(Headers headers, BatchCursor at) {
        if (!PassedOrigin.isPassed(at.producerId)) {
            return;
        }
        byte[] known = found(at.producerId);
        byte[] place = known == null && isAny ? ANY : known;
        if (place != null) {
            long first = PassedOrigin.offset(at.producerEpoch, at.sequence);
            headers.add(header, Origin.digits(place, first + at.offset - at.baseOffset));
        }
    }

    /** Whether the origin of a record with these headers may be in its batch: none is in them. */
    boolean mayHave(Headers headers) {
        for (Header each : headers) {
            String key = each.key();
            if (key.equals(header) || key.startsWith(header + ".") || key.startsWith(NOTE)) {
                return false;
            }
        }
        return true;
    }

    private byte[] found(long producerId) {
        byte[] place = places.get(PassedOrigin.nameOf(producerId));
        if (place == SEVERAL) {
            throw new IllegalStateException(
                "two source partitions have one name in the headers of batches: set"
                + " topics.copy_as: records for one of them");
        }
        return place;
    }
}
