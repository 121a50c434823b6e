package aggregator;

import java.util.Map;
import org.apache.kafka.clients.producer.ProducerInterceptor;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.header.Header;

/** Gives each hub record the timestamp it had at its source: Spark's Kafka sink cannot set one. */
public class OriginTimestampInterceptor implements ProducerInterceptor {

    public ProducerRecord onSend(ProducerRecord record) {
        WriteGuard.check();
        Header origin = record.headers().lastHeader("origin.timestamp");
        if (origin == null) {
            return record;
        }
        long timestamp = 0L;
        byte[] digits = origin.value();
        for (int i = 0; i < digits.length; i++) {
            // A leading '-' means that the source record has no timestamp (-1). A producer cannot
            // send that, so the hub record keeps the time of writing.
            if (digits[i] < '0' || digits[i] > '9') {
                return record;
            }
            timestamp = timestamp * 10L + (digits[i] - '0');
        }
        return new ProducerRecord(record.topic(), record.partition(), Long.valueOf(timestamp),
            record.key(), record.value(), record.headers());
    }

    public void onAcknowledgement(RecordMetadata metadata, Exception exception) { }

    public void close() { }

    public void configure(Map configs) { }
}
