package aggregator.connector;

import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RetriableException;

/**
 * Tries single offsets of a source, one after the other, of which a task could not read on. Called
 * from Python, on the driver, by one thread.
 */
public final class DamageReader implements AutoCloseable {
    private static final Duration POLL = Duration.ofMillis(50);
    /** "Record batch for partition orders-1 at offset 5 is invalid, cause: ..." */
    private static final Pattern BATCH = Pattern.compile(" at offset (\\d+) is invalid");

    private final Consumer<byte[], byte[]> source;

    DamageReader(Consumer<byte[], byte[]> source) {
        this.source = source;
    }

    /** Takes {setting: value}; returns when it has logged in. */
    public static DamageReader open(String settings) {
        return new DamageReader(HubReader.consumer(Json.texts(Json.parse(settings))));
    }

    /**
     * What is met at an offset: {"readable": true}, or {"batch": first offset of a batch that
     * cannot be read, -1 where that is unknown, "reason": why}; {} when there was no answer in
     * time.
     */
    public String met(String topic, int partition, long offset, long millis) {
        TopicPartition tp = new TopicPartition(topic, partition);
        long deadline = System.nanoTime() + millis * 1_000_000;
        source.assign(List.of(tp));
        source.seek(tp, offset);
        while (System.nanoTime() - deadline < 0) {
            try {
                ConsumerRecords<byte[], byte[]> polled = source.poll(POLL);
                // Behind the position there may be markers alone.
                if (!polled.isEmpty() || source.position(tp) > offset
                    || source.currentLag(tp).orElse(1) == 0) {
                    return JsonNodeFactory.instance.objectNode().put("readable", true).toString();
                }
            } catch (RetriableException notNow) {
                continue;
            } catch (RuntimeException failure) {
                if (Damage.of(failure, Map.of(tp.toString(), 0)) < 0) {
                    return "{}";
                }
                return JsonNodeFactory.instance.objectNode()
                    .put("batch", batch(failure))
                    .put("reason", Damage.reason(failure, tp, offset))
                    .toString();
            }
        }
        return "{}";
    }

    @Override
    public void close() {
        source.close(Duration.ZERO);
    }

    private static long batch(RuntimeException failure) {
        for (Throwable each = failure; each != null; each = each.getCause()) {
            Matcher found = BATCH.matcher(String.valueOf(each.getMessage()));
            if (found.find()) {
                return Long.parseLong(found.group(1));
            }
        }
        return -1;
    }
}
