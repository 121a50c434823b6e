package aggregator.connector;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.Serializable;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.utils.ByteUtils;
import org.apache.kafka.common.utils.Utils;

/**
 * What a hub topic refuses, asked before a record is sent. Pure. Sizes are exact: those of a batch
 * with this one record, as the broker weighs it when the producer does not compress (record format
 * 2, KIP-98).
 */
final class Limits implements Serializable {
    private static final long serialVersionUID = 1L;

    /** Attributes, and the deltas of timestamp and offset, 0 in a batch of one record. */
    private static final int RECORD_OVERHEAD_BYTES = 3;

    static final String NO_KEY = "no_key";
    static final String TIMESTAMP = "timestamp";
    static final String TOO_LARGE = "too_large";

    private final boolean any;
    private final long maxBytes;
    private final long aheadMs;
    private final long behindMs;
    private final boolean keyRequired;

    private Limits(JsonNode json) {
        any = json.size() > 0;
        maxBytes = json.path("max_bytes").asLong(Long.MAX_VALUE);
        aheadMs = json.path("ahead_ms").asLong(Long.MAX_VALUE);
        behindMs = json.path("behind_ms").asLong(Long.MAX_VALUE);
        keyRequired = json.path("key_required").asBoolean(false);
    }

    /** By their names in JSON; what is not there is not limited. */
    static Limits of(JsonNode json) {
        return new Limits(json);
    }

    /** Why the hub would refuse a record; null when it takes it. `headers` with the origin. */
    String refusal(byte[] key, byte[] value, Headers headers, long timestamp, long now) {
        if (!any) {
            return null;
        }
        String why = refusal(key == null, timestamp, now);
        if (why != null || maxBytes == Long.MAX_VALUE) {
            return why;
        }
        return batchBytes(key, value, headers) > maxBytes ? TOO_LARGE : null;
    }

    /** The same for the record that a cursor is at, with this origin behind its headers. */
    String refusal(BatchCursor at, OriginBytes origin) {
        if (!any) {
            return null;
        }
        String why = refusal(at.keyLength < 0, at.timestamp, DriverClock.now());
        if (why != null || maxBytes == Long.MAX_VALUE) {
            return why;
        }
        int body = RECORD_OVERHEAD_BYTES + at.end - at.keyLengthAt + origin.size()
            + ByteUtils.sizeOfVarint(at.headers + origin.count)
            - ByteUtils.sizeOfVarint(at.headers);
        return BatchFormat.RECORDS_AT + ByteUtils.sizeOfVarint(body) + body > maxBytes ? TOO_LARGE
                                                                                       : null;
    }

    /**
     * Whether a whole batch goes by them. Not where each record would have to be looked at: what a
     * header does not say is the oldest timestamp, and which records have a key.
     */
    boolean takes(BatchHead batch) {
        return batch.size() <= maxBytes && behindMs == Long.MAX_VALUE && !keyRequired
            && refusal(false, batch.newest(), DriverClock.now()) == null;
    }

    private String refusal(boolean hasNoKey, long timestamp, long now) {
        if (keyRequired && hasNoKey) {
            return NO_KEY;
        }
        // Below 0 means a record without a timestamp; the hub's is the time of arrival.
        if (aheadMs != Long.MAX_VALUE && timestamp - now > aheadMs) {
            return TIMESTAMP;
        }
        if (behindMs != Long.MAX_VALUE && timestamp >= 0 && now - timestamp > behindMs) {
            return TIMESTAMP;
        }
        return null;
    }

    /** The size of a batch with this record alone, uncompressed. */
    static int batchBytes(byte[] key, byte[] value, Headers headers) {
        int body = RECORD_OVERHEAD_BYTES + Varints.sizeOf(key) + Varints.sizeOf(value);
        int count = 0;
        for (Header header : headers) {
            int name = Utils.utf8Length(header.key());
            body += ByteUtils.sizeOfVarint(name) + name + Varints.sizeOf(header.value());
            count++;
        }
        body += ByteUtils.sizeOfVarint(count);
        return BatchFormat.RECORDS_AT + ByteUtils.sizeOfVarint(body) + body;
    }
}
