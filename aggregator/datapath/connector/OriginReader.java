package aggregator.connector;

import com.fasterxml.jackson.databind.JsonNode;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.Headers;

/**
 * Where a hub record comes from, by the headers that our own hop wrote: the last ones, always in
 * the same order, or the last one alone. Pure.
 */
final class OriginReader {
    /** A source partition, by the alias that was written. */
    record Place(String cluster, String topic, int partition) {}

    record Origin(Place place, long offset) {}

    private final List<String> names = new ArrayList<>();
    private final String compact;

    OriginReader(JsonNode json) {
        json.get("names").forEach(name -> names.add(name.asText()));
        compact = json.get("compact").asText();
    }

    /** Null for a record of others, without a whole origin. */
    Origin read(Headers headers) {
        Header[] all = headers.toArray();
        if (all.length > 0 && all[all.length - 1].key().equals(compact)) {
            byte[] value = all[all.length - 1].value();
            return value == null ? null : OriginText.parse(value);
        }
        return all.length < names.size() ? null : five(all);
    }

    /** When the source had the record of such an origin; null where its headers do not say it. */
    Long timestamp(Headers headers) {
        Header[] all = headers.toArray();
        Header last = all.length == 0 ? null : all[all.length - 1];
        if (last == null || last.value() == null || !last.key().equals(names.get(4))) {
            return null;
        }
        try {
            return Long.parseLong(new String(last.value(), StandardCharsets.UTF_8));
        } catch (NumberFormatException foreign) {
            return null;
        }
    }

    private Origin five(Header[] all) {
        int first = all.length - names.size();
        String[] values = new String[names.size()];
        for (int i = 0; i < values.length; i++) {
            Header header = all[first + i];
            if (header.value() == null || !header.key().equals(names.get(i))) {
                return null;
            }
            values[i] = new String(header.value(), StandardCharsets.UTF_8);
        }
        try {
            Place place = new Place(values[0], values[1], Integer.parseInt(values[2]));
            return new Origin(place, Long.parseLong(values[3]));
        } catch (NumberFormatException foreign) {
            return null;
        }
    }
}
