package aggregator.connector;

import java.nio.charset.StandardCharsets;
import java.util.List;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.header.internals.RecordHeaders;

/**
 * A record as it goes to another topic than its own, into quarantine or among the duplicates: as
 * whole as it fits there, with headers that say why. Pure.
 */
final class AsideRecord {
    private static final int OVERHEAD_BYTES = 128;
    /** A reason that is no longer than this is in the overhead. */
    private static final int SHORT_REASON_BYTES = 32;
    private static final int TIMESTAMP_BYTES = 48;

    /** A record; the first `ownHeaders` of its headers are its own, the others its origin. */
    record Content(byte[] key, byte[] value, Headers headers, int ownHeaders) {}

    private AsideRecord() {}

    /** What goes there of a record where a batch of one may have this many bytes. */
    static Content of(
        Content whole,
        TaskSpec spec,
        TaskSpec.Route route,
        int bytes,
        String reason,
        long timestamp) {
        int size = Limits.batchBytes(whole.key, whole.value, whole.headers);
        int longer = reason.getBytes(StandardCharsets.UTF_8).length;
        int room = bytes - OVERHEAD_BYTES - Math.max(0, longer - SHORT_REASON_BYTES)
            - route.hubTopic.length() - (route.compact ? TIMESTAMP_BYTES : 0);
        int valueBytes = whole.value == null ? 0 : whole.value.length;
        String kept = size <= room ? "whole" : size - valueBytes <= room ? "key" : "nothing";
        boolean isNothing = kept.equals("nothing");
        Header[] all = whole.headers.toArray();
        RecordHeaders marked = new RecordHeaders();
        for (int i = 0; i < whole.ownHeaders && !isNothing; i++) {
            marked.add(all[i]);
        }
        List<String> said = List.of(reason, route.hubTopic, Integer.toString(size), kept);
        for (int i = 0; i < said.size(); i++) {
            marked.add(spec.quarantineHeaders.get(i), said.get(i).getBytes(StandardCharsets.UTF_8));
        }
        if (route.compact) {
            marked.add(spec.quarantineTimestamp, Origin.digits(timestamp));
        }
        for (int i = whole.ownHeaders; i < all.length; i++) {
            marked.add(all[i]);
        }
        byte[] key = isNothing ? null : whole.key;
        byte[] value = kept.equals("whole") ? whole.value : null;
        return new Content(key, value, marked, isNothing ? 0 : whole.ownHeaders);
    }
}
