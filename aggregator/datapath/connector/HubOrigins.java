package aggregator.connector;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.internals.BatchCollector;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.internals.RecordHeaders;

/**
 * A program that prints where the records of hub partitions come from, without unpacking batches
 * that were copied as they are. For Python's readers, whose clients do not show headers of batches.
 *
 * <p>Its first line of input is {"consumer": {...}, "ranges": [[topic, partition, from, to], ...],
 * "origin": {...}, "origins": {...}}, see {@link OriginReader} and {@link PassedOrigins#of}; each
 * later one is the number of a range that is not needed any more. It prints, with numbers of
 * ranges: `number offset count place origin` for records that follow each other at both sides,
 * `number offset 1 - 0` for one without an origin, and `number end` when a range is read.
 */
public final class HubOrigins {
    private static final Duration POLL = Duration.ofMillis(200);

    private final PassedOrigins known;
    private final OriginReader reader;
    private final PrintStream out;
    private final List<TopicPartition> names = new ArrayList<>();
    private final List<Long> ends = new ArrayList<>();
    private final Map<TopicPartition, Integer> left = new HashMap<>();
    private final Map<TopicPartition, Long> starts = new HashMap<>();
    private final BatchCursor cursor = new BatchCursor();

    private HubOrigins(JsonNode json, PrintStream out) {
        this.out = out;
        known = PassedOrigins.of(json.get("origins"));
        reader = new OriginReader(json.get("origin"));
        for (JsonNode range : json.get("ranges")) {
            TopicPartition name = new TopicPartition(range.get(0).asText(), range.get(1).asInt());
            left.put(name, names.size());
            starts.put(name, range.get(2).asLong());
            ends.add(range.get(3).asLong());
            names.add(name);
        }
    }

    public static void main(String[] args) throws IOException, ReflectiveOperationException {
        BufferedReader in =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        JsonNode json = Json.parse(in.readLine());
        Map<String, String> consumer = new HashMap<>();
        json.get("consumer")
            .properties()
            .forEach(each -> consumer.put(each.getKey(), each.getValue().asText()));
        new HubOrigins(json, out).read(HubReader.consumer(consumer), in);
    }

    private void read(Consumer<byte[], byte[]> consumer, BufferedReader in)
        throws IOException, ReflectiveOperationException {
        try (consumer) {
            BatchCollector batches = BatchCollector.into(consumer);
            consumer.assign(names);
            starts.forEach(consumer::seek);
            while (!left.isEmpty()) {
                consumer.poll(POLL);
                for (BatchCollector.Batch batch = batches.next(); batch != null;
                     batch = batches.next()) {
                    Integer number = left.get(batch.partition());
                    if (number != null) {
                        print(number, batch);
                    }
                }
                Set<TopicPartition> done = new HashSet<>();
                left.forEach((name, number) -> {
                    if (consumer.position(name) >= ends.get(number)) {
                        out.println(number + " end");
                        done.add(name);
                    }
                });
                while (in.ready()) {
                    done.add(names.get(Integer.parseInt(in.readLine().trim())));
                }
                out.flush();
                if (left.keySet().removeAll(done)) {
                    consumer.assign(left.keySet());
                }
            }
        }
    }

    private void print(int number, BatchCollector.Batch batch) {
        BatchHead head = BatchHead.of(batch.bytes());
        String place = known.place(head.producerId());
        if (place != null && head.last() - head.first() + 1 == head.count()) {
            long from = Math.max(head.first(), batch.from());
            print(number, from, head.last() + 1 - from, place, head.origin() + from - head.first());
            return;
        }
        cursor.open(batch.bytes(), batch.from());
        while (cursor.next()) {
            RecordHeaders headers = cursor.headers();
            known.append(headers, cursor);
            OriginReader.Origin origin = reader.read(headers);
            if (origin == null) {
                print(number, cursor.offset, 1, "-", 0);
            } else {
                OriginReader.Place of = origin.place();
                String text = of.cluster() + "/" + of.topic() + "/" + of.partition();
                print(number, cursor.offset, 1, text, origin.offset());
            }
        }
    }

    private void print(int number, long offset, long count, String place, long origin) {
        out.println(number + " " + offset + " " + count + " " + place + " " + origin);
    }
}
