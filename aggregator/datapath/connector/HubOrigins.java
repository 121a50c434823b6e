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
 * Says where the records of hub partitions come from, without unpacking batches that were copied as
 * they are. For Python's readers, whose clients do not show headers of batches: in the driver, or
 * as a program of its own.
 *
 * <p>Of a line {"consumer": {...}, "ranges": [[topic, partition, from, to], ...], "origin": {...},
 * "origins": {...}}, see {@link OriginReader} and {@link PassedOrigins#of}. It gives lines, with
 * numbers of ranges: `number offset count place origin` for records that follow each other at both
 * sides, `number offset 1 - 0` for one without an origin, and `number end` when a range is read.
 */
public final class HubOrigins implements AutoCloseable {
    private static final Duration POLL = Duration.ofMillis(200);

    private final PassedOrigins known;
    private final OriginReader reader;
    private final StringBuilder out = new StringBuilder();
    private final List<TopicPartition> names = new ArrayList<>();
    private final List<Long> ends = new ArrayList<>();
    private final Map<TopicPartition, Integer> left = new HashMap<>();
    private final BatchCursor cursor = new BatchCursor();
    private final Consumer<byte[], byte[]> hub;
    private final BatchCollector batches;

    private HubOrigins(JsonNode json, Consumer<byte[], byte[]> hub)
        throws ReflectiveOperationException {
        this.hub = hub;
        batches = BatchCollector.into(hub);
        known = PassedOrigins.of(json.get("origins"));
        reader = new OriginReader(json.get("origin"));
        Map<TopicPartition, Long> starts = new HashMap<>();
        for (JsonNode range : json.get("ranges")) {
            TopicPartition name = new TopicPartition(range.get(0).asText(), range.get(1).asInt());
            left.put(name, names.size());
            starts.put(name, range.get(2).asLong());
            ends.add(range.get(3).asLong());
            names.add(name);
        }
        hub.assign(names);
        starts.forEach(hub::seek);
    }

    /** Takes the line above; returns when it has logged in. */
    public static HubOrigins open(String request) throws ReflectiveOperationException {
        JsonNode json = Json.parse(request);
        Consumer<byte[], byte[]> hub = HubReader.consumer(Json.texts(json.get("consumer")));
        try {
            return new HubOrigins(json, hub);
        } catch (ReflectiveOperationException | RuntimeException failure) {
            hub.close(HubReader.CLOSING);
            throw failure;
        }
    }

    /** The program: by its input, after that line the number of each range not needed any more. */
    public static void main(String[] args) throws IOException, ReflectiveOperationException {
        BufferedReader in =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        try (HubOrigins origins = open(in.readLine())) {
            while (!origins.left.isEmpty()) {
                out.print(origins.poll());
                out.flush();
                while (in.ready()) {
                    origins.forget(Integer.parseInt(in.readLine().trim()));
                }
            }
        }
    }

    /** The next lines, each with its end; "" when for a moment nothing comes, or all is read. */
    public String poll() {
        if (left.isEmpty()) {
            return "";
        }
        out.setLength(0);
        hub.poll(POLL);
        for (BatchCollector.Batch batch = batches.next(); batch != null; batch = batches.next()) {
            Integer number = left.get(batch.partition());
            if (number != null) {
                print(number, batch);
            }
        }
        Set<TopicPartition> done = new HashSet<>();
        left.forEach((name, number) -> {
            if (hub.position(name) >= ends.get(number)) {
                out.append(number).append(" end\n");
                done.add(name);
            }
        });
        leave(done);
        return out.toString();
    }

    /** Reads no more of a range; it may have ended by itself. */
    public void forget(int number) {
        leave(Set.of(names.get(number)));
    }

    @Override
    public void close() {
        hub.close(HubReader.CLOSING);
    }

    private void leave(Set<TopicPartition> done) {
        if (left.keySet().removeAll(done)) {
            hub.assign(left.keySet());
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
        out.append(number).append(' ').append(offset).append(' ').append(count);
        out.append(' ').append(place).append(' ').append(origin).append('\n');
    }
}
