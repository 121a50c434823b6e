package aggregator.connector;

import com.fasterxml.jackson.databind.node.ArrayNode;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.zip.CRC32C;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.record.TimestampType;

/**
 * Prints of a few of the records that the hub holds of one source partition: of the lowest and the
 * highest offset, and of some between that depend on the offsets alone. So two records by the same
 * origin meet, in whatever order they come. Pure.
 */
final class Samples {
    static final int SPREAD = 14;
    private static final int PRINTS = 4;
    /** Of a larger key or value only the beginning counts, and its length. */
    private static final int HASHED_BYTES = 4096;

    /** The timestamp at the source, null where the hub does not have it; key and value; where. */
    record Print(Long timestamp, long content, String topic) {}

    private final TreeMap<Long, List<Print>> prints = new TreeMap<>();
    /** Those with the least mixed numbers of all, by these. */
    private final TreeMap<Long, Long> spread = new TreeMap<>();
    private long lowest;
    private long highest;

    void add(long offset, ConsumerRecord<byte[], byte[]> record, OriginReader reader) {
        if (prints.containsKey(offset) || takes(offset)) {
            List<Print> known = prints.computeIfAbsent(offset, o -> new ArrayList<>(1));
            Print print = print(record, reader);
            if (known.size() < PRINTS && !known.contains(print)) {
                known.add(print);
            }
        }
    }

    /** Adds [[offset, [[timestamp, content, hub topic], ...]], ...], by offset. */
    void addTo(ArrayNode into) {
        for (Map.Entry<Long, List<Print>> each : prints.entrySet()) {
            ArrayNode row = into.addArray().add(each.getKey());
            ArrayNode all = row.addArray();
            for (Print print : each.getValue()) {
                all.addArray().add(print.timestamp()).add(print.content()).add(print.topic());
            }
        }
    }

    /** A number for a key and a value, to distinguish unlike ones. */
    static long content(byte[] key, byte[] value) {
        return (long) hash(key) << 32 | hash(value) & 0xFFFFFFFFL;
    }

    private boolean takes(long offset) {
        long low = lowest;
        long high = highest;
        boolean edge = prints.isEmpty() || offset < low || offset > high;
        long mixed = mix(offset);
        boolean spreads = spread.size() < SPREAD || mixed < spread.lastKey();
        if (!edge && !spreads) {
            return false;
        }
        lowest = prints.isEmpty() ? offset : Math.min(low, offset);
        highest = prints.isEmpty() ? offset : Math.max(high, offset);
        if (spreads) {
            spread.put(mixed, offset);
            if (spread.size() > SPREAD) {
                forget(spread.pollLastEntry().getValue());
            }
        }
        forget(low);
        forget(high);
        return true;
    }

    /** Lets one go that is no end, and none of those between. */
    private void forget(long offset) {
        if (offset != lowest && offset != highest && !spread.containsKey(mix(offset))) {
            prints.remove(offset);
        }
    }

    private static Print print(ConsumerRecord<byte[], byte[]> record, OriginReader reader) {
        Long timestamp = reader.timestamp(record.headers());
        if (timestamp == null && record.timestampType() == TimestampType.CREATE_TIME) {
            // Without a header that says so it is the record's own: the hub keeps it.
            timestamp = record.timestamp();
        }
        return new Print(timestamp, content(record.key(), record.value()), record.topic());
    }

    private static int hash(byte[] bytes) {
        CRC32C crc = new CRC32C();
        if (bytes == null) {
            return 0;
        }
        crc.update(1);
        for (int shift = 0; shift < 32; shift += 8) {
            crc.update(bytes.length >>> shift);
        }
        crc.update(bytes, 0, Math.min(bytes.length, HASHED_BYTES));
        return (int) crc.getValue();
    }

    /** Spreads neighbours far apart, each offset to a place of its own (as SplitMix64 does). */
    private static long mix(long offset) {
        long z = offset + 0x9E3779B97F4A7C15L;
        z = (z ^ z >>> 30) * 0xBF58476D1CE4E5B9L;
        z = (z ^ z >>> 27) * 0x94D049BB133111EBL;
        return z ^ z >>> 31;
    }
}
