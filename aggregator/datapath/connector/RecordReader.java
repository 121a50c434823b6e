package aggregator.connector;

import java.io.IOException;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.SpecificInternalRow;
import org.apache.spark.sql.connector.read.streaming.PartitionOffset;
import org.apache.spark.sql.connector.read.streaming.SupportsRealTimeRead;
import org.apache.spark.util.TaskCompletionListener;

/**
 * The reader of one task in one batch: it leases the {@link LaneTask} and hands its records out.
 */
final class RecordReader implements SupportsRealTimeRead<InternalRow> {
    private static final RecordStatus RECORD = RecordStatus.newStatusWithoutArrivalTime(true);
    private static final RecordStatus NONE = RecordStatus.newStatusWithoutArrivalTime(false);

    private final LaneTask task;
    private final GenericInternalRow whole = new GenericInternalRow(7);
    private final SpecificInternalRow offset = new SpecificInternalRow(Columns.schema(true));

    RecordReader(ReadingStream.TaskInput input) {
        TaskContext context = TaskContext.get();
        if (context.attemptNumber() > 0 || context.stageAttemptNumber() > 0) {
            throw new IllegalStateException(
                "refused: a second attempt of a task would write its records twice");
        }
        long attempt = context.taskAttemptId();
        task = LaneTask.lease(input.spec(), input.positions(), Orders.of(input.orders()), attempt);
        // A task that is killed before it writes anything aborts no writer.
        TaskCompletionListener ended = done -> LaneTask.abandon(attempt);
        context.addTaskCompletionListener(ended);
        // Spark asks its clock before it asks us, and a task that ends early waits for the others.
        Reporter.awaitAnswer();
    }

    @Override
    public RecordStatus nextWithTimeout(Long startMs, Long timeoutMs) {
        return task.next(startMs + timeoutMs) ? RECORD : NONE;
    }

    @Override
    public InternalRow get() {
        if (task.spec.plain) {
            offset.setLong(0, task.offset());
            return offset;
        }
        Columns.fill(whole, task.record());
        return whole;
    }

    @Override
    public PartitionOffset getOffset() {
        return new ReadingStream.TaskPositions(task.spec.task, task.positions());
    }

    @Override
    public boolean next() throws IOException {
        throw new IOException("a lane runs in real-time mode only");
    }

    @Override
    public void close() {
        // The writer ends the lease: Spark closes readers before it commits.
    }
}
