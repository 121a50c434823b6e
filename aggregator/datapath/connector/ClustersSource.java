package aggregator.connector;

import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * One reading of a lane (some partitions of one cluster) as a Spark source. Its options name the
 * lane's life and the reading; all else, secrets among it, is in {@link Lanes}. The columns are
 * `offset` alone where the sink takes records as they are, else a whole record.
 */
public final class ClustersSource implements TableProvider {
    @Override
    public StructType inferSchema(CaseInsensitiveStringMap options) {
        return Columns.schema(isPlain(options));
    }

    @Override
    public Table getTable(
        StructType schema, Transform[] partitioning, Map<String, String> options) {
        return new Reading(new CaseInsensitiveStringMap(options));
    }

    private static boolean isPlain(CaseInsensitiveStringMap options) {
        int reading = options.getInt("reading", 0);
        return Lanes.spec(options.get("lane"))
            .get("readings")
            .get(reading)
            .get("plain")
            .asBoolean();
    }

    private record Reading(CaseInsensitiveStringMap options) implements SupportsRead {
        @Override
        public String name() {
            return options.get("lane") + "-" + options.get("reading");
        }

        @Override
        public StructType schema() {
            return Columns.schema(isPlain(options));
        }

        @Override
        public Set<TableCapability> capabilities() {
            return Set.of(TableCapability.MICRO_BATCH_READ);
        }

        @Override
        public ScanBuilder newScanBuilder(CaseInsensitiveStringMap given) {
            return () -> new Scan() {
                @Override
                public StructType readSchema() {
                    return Columns.schema(isPlain(options));
                }

                @Override
                public MicroBatchStream toMicroBatchStream(String checkpoint) {
                    return new ReadingStream(options.get("lane"), options.getInt("reading", 0));
                }

                @Override
                public ColumnarSupportMode columnarSupportMode() {
                    // Otherwise the input partitions are planned twice.
                    return ColumnarSupportMode.UNSUPPORTED;
                }
            };
        }
    }
}
