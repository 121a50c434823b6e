package aggregator.connector;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CancellationException;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.LongSupplier;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;

/**
 * Reads single records of all sources at once, so that what the hub holds can be compared with
 * them. Called from Python, on the driver.
 */
public final class SourceSamples {
    private SourceSamples() {}

    /**
     * Takes {"enough": n, "silence_ms": n, "open_ms": n, "limit_ms": n, "sources": [{"consumer":
     * {...}, "wanted":
     * [[topic, partition, [offset, ...]], ...]}, ...]}. Answers for each source {"records":
     * [[topic, partition, offset, timestamp, content], ...], "ends": [[topic, partition, end],
     * ...], "silent": [[topic, partition, why], ...]}. A source to which
     * no consumer is open within open_ms is silent, and one that is not through within limit_ms.
     * Throws CancellationException once {@code cancelled} is set.
     */
    public static String read(String spec, AtomicBoolean cancelled) throws InterruptedException {
        JsonNode json = Json.parse(spec);
        // A login may hang for ever: such a thread is left behind.
        ExecutorService pool = Executors.newCachedThreadPool(job -> {
            Thread thread = new Thread(job, "source-samples");
            thread.setDaemon(true);
            return thread;
        });
        long now = System.nanoTime();
        long[] until = {
            now + json.get("open_ms").asLong() * 1_000_000,
            now + json.get("limit_ms").asLong() * 1_000_000};
        try {
            List<Future<ObjectNode>> jobs = new ArrayList<>();
            List<AtomicBoolean> opened = new ArrayList<>();
            for (JsonNode source : json.get("sources")) {
                AtomicBoolean isOpen = new AtomicBoolean();
                opened.add(isOpen);
                jobs.add(pool.submit(() -> readOne(json, source, isOpen, cancelled)));
            }
            ArrayNode answers = JsonNodeFactory.instance.arrayNode();
            for (int i = 0; i < jobs.size(); i++) {
                AtomicBoolean isOpen = opened.get(i);
                LongSupplier limit = () -> until[isOpen.get() ? 1 : 0];
                answers.add(answer(jobs.get(i), json.get("sources").get(i), limit, cancelled));
            }
            return answers.toString();
        } finally {
            pool.shutdownNow();
        }
    }

    private static ObjectNode readOne(
        JsonNode json, JsonNode source, AtomicBoolean isOpen, AtomicBoolean cancelled) {
        Map<String, String> settings = Json.texts(source.get("consumer"));
        Map<TopicPartition, List<Long>> wanted = new HashMap<>();
        for (JsonNode each : source.get("wanted")) {
            List<Long> offsets = new ArrayList<>();
            each.get(2).forEach(offset -> offsets.add(offset.asLong()));
            wanted.put(new TopicPartition(each.get(0).asText(), each.get(1).asInt()), offsets);
        }
        SampleReader reader = new SampleReader(
            wanted, json.get("enough").asInt(), json.get("silence_ms").asLong(), cancelled::get);
        reader.read(() -> {
            KafkaConsumer<byte[], byte[]> consumer = HubReader.consumer(settings);
            isOpen.set(true);
            return consumer;
        });
        ObjectNode answer = empty();
        reader.found.forEach(
            record
            -> row(answer, "records", record.topic(), record.partition())
                   .add(record.offset())
                   .add(record.timestamp())
                   .add(Samples.content(record.key(), record.value())));
        reader.ends.forEach((tp, end) -> row(answer, "ends", tp.topic(), tp.partition()).add(end));
        reader.silent.forEach(
            (tp, why) -> row(answer, "silent", tp.topic(), tp.partition()).add(why));
        return answer;
    }

    private static ObjectNode answer(
        Future<ObjectNode> job, JsonNode source, LongSupplier until, AtomicBoolean cancelled)
        throws InterruptedException {
        String why;
        try {
            while (true) {
                try {
                    return job.get(100, TimeUnit.MILLISECONDS);
                } catch (TimeoutException notYet) {
                    if (cancelled.get()) {
                        throw new CancellationException("stopped while sources were read");
                    }
                    if (System.nanoTime() > until.getAsLong()) {
                        why = "it gives no answer";
                        break;
                    }
                }
            }
        } catch (ExecutionException failed) {
            if (failed.getCause() instanceof CancellationException stopped) {
                throw stopped;
            }
            why = failed.getCause().toString();
        }
        ObjectNode answer = empty();
        for (JsonNode each : source.get("wanted")) {
            row(answer, "silent", each.get(0).asText(), each.get(1).asInt()).add(why);
        }
        return answer;
    }

    private static ObjectNode empty() {
        ObjectNode answer = JsonNodeFactory.instance.objectNode();
        List.of("records", "ends", "silent").forEach(answer::putArray);
        return answer;
    }

    private static ArrayNode row(ObjectNode into, String name, String topic, int partition) {
        return into.withArray(name).addArray().add(topic).add(partition);
    }
}
