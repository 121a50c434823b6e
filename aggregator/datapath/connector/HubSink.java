package aggregator.connector;

import java.util.Map;
import java.util.Set;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.write.DataWriter;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.PhysicalWriteInfo;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.connector.write.streaming.StreamingDataWriterFactory;
import org.apache.spark.sql.connector.write.streaming.StreamingWrite;
import org.apache.spark.sql.internal.connector.SupportsStreamingUpdateAsAppend;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * The hub as a Spark sink of lanes. Nothing is decided here: what is written, and whether it has
 * arrived, is the {@link LaneTask}'s, and commits go by its report points. At-least-once by itself;
 * once and in order by the positions and skip sets that a lane starts with.
 */
public final class HubSink implements TableProvider {
    @Override
    public StructType inferSchema(CaseInsensitiveStringMap options) {
        return new StructType();
    }

    @Override
    public Table getTable(
        StructType schema, Transform[] partitioning, Map<String, String> options) {
        return new Hub();
    }

    private static final class Hub implements SupportsWrite {
        @Override
        public String name() {
            return "hub";
        }

        @Override
        public StructType schema() {
            return new StructType();
        }

        @Override
        public Set<TableCapability> capabilities() {
            return Set.of(TableCapability.STREAMING_WRITE, TableCapability.ACCEPT_ANY_SCHEMA);
        }

        @Override
        public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
            boolean plain = info.schema().length() == 1;
            int[] places = plain ? new int[] {0} : Columns.places(info.schema());
            return new Builder(places);
        }
    }

    private record Builder(int[] places) implements SupportsStreamingUpdateAsAppend {
        @Override
        public Write build() {
            return new Write() {
                @Override
                public StreamingWrite toStreaming() {
                    return new Batches(places);
                }
            };
        }
    }

    private record Batches(int[] places) implements StreamingWrite {
        @Override
        public StreamingDataWriterFactory createStreamingWriterFactory(PhysicalWriteInfo info) {
            return new Writers(places);
        }

        @Override
        public boolean useCommitCoordinator() {
            return false;
        }

        @Override
        public void commit(long epoch, WriterCommitMessage[] messages) {
            // Report points say what has arrived.
        }

        @Override
        public void abort(long epoch, WriterCommitMessage[] messages) {
            // Each task has ended its producer by itself.
        }
    }

    private record Writers(int[] places) implements StreamingDataWriterFactory {
        private static final long serialVersionUID = 1L;

        @Override
        public DataWriter<InternalRow> createWriter(int partition, long task, long epoch) {
            return new Rows(places, TaskContext.get().taskAttemptId());
        }
    }

    /** The writer of one task in one batch. Its task is known when the first row has come. */
    private static final class Rows implements DataWriter<InternalRow> {
        private final int[] places;
        private final long attempt;
        private LaneTask task;

        private Rows(int[] places, long attempt) {
            this.places = places;
            this.attempt = attempt;
        }

        @Override
        public void write(InternalRow row) {
            if (task == null) {
                task = LaneTask.leasedBy(attempt);
            }
            long offset = task.offset();
            if (offset < 0 && task.isStopped()) {
                return;
            }
            if (offset < 0 || row.getLong(places[0]) != offset) {
                throw new IllegalStateException(
                    "a transform has kept rows back or changed their offset: it may only filter and"
                    + " change records one by one");
            }
            if (task.spec.plain) {
                task.sendAtHand();
            } else {
                byte[] key = row.isNullAt(places[1]) ? null : row.getBinary(places[1]);
                byte[] value = row.isNullAt(places[2]) ? null : row.getBinary(places[2]);
                task.send(key, value, Columns.headers(row, places[3]));
            }
        }

        @Override
        public WriterCommitMessage commit() {
            LaneTask leased = LaneTask.leasedBy(attempt);
            if (leased != null) {
                leased.commit();
            }
            return null;
        }

        @Override
        public void abort() {
            LaneTask.abandon(attempt);
        }

        @Override
        public void close() {
            // Committed or aborted by now.
        }
    }
}
