package aggregator.connector;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Arrays;
import java.util.Map;
import org.apache.spark.scheduler.TaskLocation;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.connector.read.streaming.PartitionOffset;
import org.apache.spark.sql.connector.read.streaming.SupportsRealTimeMode;

/**
 * A reading as Spark's driver sees it, in real-time mode alone. It asks no cluster: where a batch
 * begins is where the tasks of the one before ended. Without `equals`, because Spark refuses to
 * union sources that are equal.
 */
final class ReadingStream implements MicroBatchStream, SupportsRealTimeMode {
    /** Positions by task. */
    private static final class Positions extends Offset {
        private final long[][] tasks;

        private Positions(long[][] tasks) {
            this.tasks = tasks;
        }

        @Override
        public String json() {
            ObjectNode node = JsonNodeFactory.instance.objectNode();
            for (long[] task : tasks) {
                var array = node.withArray("tasks").addArray();
                Arrays.stream(task).forEach(array::add);
            }
            return node.toString();
        }

        private static Positions of(JsonNode json) {
            long[][] tasks = new long[json.get("tasks").size()][];
            for (int i = 0; i < tasks.length; i++) {
                JsonNode task = json.get("tasks").get(i);
                tasks[i] = new long[task.size()];
                for (int j = 0; j < task.size(); j++) {
                    tasks[i][j] = task.get(j).asLong();
                }
            }
            return new Positions(tasks);
        }
    }

    /** Where one task ended a batch. */
    record TaskPositions(int task, long[] positions) implements PartitionOffset {
        private static final long serialVersionUID = 1L;
    }

    /** A task, from where it begins, and the orders that are in force by then. */
    record TaskInput(TaskSpec spec, long[] positions, String orders, String executor)
        implements InputPartition {
        private static final long serialVersionUID = 1L;

        /** Where the task of the batch before is: elsewhere its clients would be made once more. */
        @Override
        public String[] preferredLocations() {
            // Without a host: another executor there is no better than any.
            return executor.isEmpty() ? new String[0]
                                      : new String[] {TaskLocation.apply("", executor).toString()};
        }

        @Override
        public String toString() {
            return spec.name;
        }
    }

    /** Readers, on the executors. */
    private static final class Readers implements PartitionReaderFactory {
        private static final long serialVersionUID = 1L;

        @Override
        public PartitionReader<InternalRow> createReader(InputPartition partition) {
            return new RecordReader((TaskInput) partition);
        }
    }

    private final String key;
    private final TaskSpec[] specs;

    ReadingStream(String key, int reading) {
        this.key = key;
        JsonNode lane = Lanes.spec(key);
        specs = new TaskSpec[lane.get("readings").get(reading).get("tasks").size()];
        for (int i = 0; i < specs.length; i++) {
            specs[i] = new TaskSpec(lane, reading, i);
        }
    }

    @Override
    public Offset initialOffset() {
        long[][] tasks = new long[specs.length][];
        for (int i = 0; i < tasks.length; i++) {
            tasks[i] = specs[i].parts.stream().mapToLong(part -> part.position).toArray();
        }
        return new Positions(tasks);
    }

    @Override
    public Offset latestOffset() {
        // Spark wants to know that there is something; in real-time mode it does not use it.
        return initialOffset();
    }

    @Override
    public InputPartition[] planInputPartitions(Offset start) {
        Positions from = start instanceof Positions p ? p : Positions.of(Json.parse(start.json()));
        Map<String, String> places = Lanes.places();
        InputPartition[] inputs = new InputPartition[specs.length];
        for (int i = 0; i < specs.length; i++) {
            String place = places.getOrDefault(specs[i].name, "");
            inputs[i] = new TaskInput(specs[i], from.tasks[i], Lanes.orders(key), place);
        }
        return inputs;
    }

    @Override
    public Offset mergeOffsets(PartitionOffset[] offsets) {
        long[][] tasks = new long[specs.length][];
        for (PartitionOffset each : offsets) {
            TaskPositions ended = (TaskPositions) each;
            tasks[ended.task()] = ended.positions();
        }
        if (Arrays.asList(tasks).contains(null)) {
            throw new IllegalStateException(
                "not all tasks of lane " + key + " have reported their positions");
        }
        return new Positions(tasks);
    }

    @Override
    public InputPartition[] planInputPartitions(Offset start, Offset end) {
        throw new UnsupportedOperationException("a lane runs in real-time mode only");
    }

    @Override
    public PartitionReaderFactory createReaderFactory() {
        return new Readers();
    }

    @Override
    public Offset deserializeOffset(String json) {
        return Positions.of(Json.parse(json));
    }

    @Override
    public void commit(Offset end) {
        // Positions are committed by the reports, not by Spark's batches.
    }

    @Override
    public void stop() {
        // The tasks own the clients.
    }
}
